"""Answers in every format, read back by other people's readers: those of Python's library, and rdflib and pyarrow.

Names, IRIs and literals are hostile, and what is expected comes from this file: it writes the data itself. Called by
`./dev test readers` as: readers.py VICUS FOLDER.
"""

import csv
import io
import json
import logging
import subprocess
import sys
import xml.etree.ElementTree as xml

vicus, folder = sys.argv[1:]

try:
    import pyarrow.ipc as arrow
except ImportError:
    arrow = None
try:
    import rdflib

    # Lexical forms are compared, not values; texts that are no value of their type are meant.
    rdflib.NORMALIZE_LITERALS = False
    logging.disable(logging.WARNING)
except ImportError:
    rdflib = None

XSD = "http://www.w3.org/2001/XMLSchema#"
IRIS = [
    "http://e/a,b", "http://e/a'b", "http://e/é/ü", "http://e/a(b)", "http://e/?y=1&z=2;w#f", "http://e/%22%3C",
    "urn:x:a:b::c", "http://e/.", "http://e/a.b.", "http://e/-1", "http://e/\U0001f600", "http://e/a~b!c$d*e+f=g@h",
    "http://e/#", "http://e/n#1", "mailto:a@e",
]
TEXTS = [
    "", " ", "a,b", 'say "x"', '"', '""', "'", "a\nb", "a\r\nb", "\r", "\n", "a\tb", "back\\slash", "\\n", "\\", "<&>",
    "]]>", "<![CDATA[x]]>", "<!-- -->", "&amp;", " spaces ", "é", "e\u0301", "\u05d0\u0628", "\U0001f600", "\u00a0",
    "\u2028", "\ufeffx", "0870", "+49", "=1+1", "null", "true", "_:b", "<http://e/>", "?x", "'''", '"""', "a;b|c",
    "{}", "[1]", "%s", "$1", "`", "x" * 5000,
]
# An IRI, a text with a language or a type, or one without both.
TERMS = (
    [("iri", iri, None) for iri in IRIS]
    + [("text", text, None) for text in TEXTS]
    + [("text", text, "en-GB") for text in TEXTS[:12]]
    + [("text", text, f"^{XSD}{kind}") for text, kind in
       [("007", "integer"), ("1.50", "decimal"), ("1e0", "double"), ("NaN", "double"), ("1", "boolean"),
        ("2020-02-30", "date"), ("x", "integer")]]
    + [("text", text, "^http://e/t,\u00e9(x)") for text in TEXTS[:12]]
)
# XML 1.0 has no such characters at all.
NOT_IN_XML = [("text", "\u0001\u001f", None), ("text", "\u007f\u0008", None)]


def written(term):
    """A term in N-Triples."""
    kind, text, more = term
    if kind == "iri":
        return f"<{text}>"
    quoted = '"' + "".join(c if c not in '"\\' and ord(c) >= 32 else f"\\u{ord(c):04X}" for c in text) + '"'
    if more is None:
        return quoted
    return f"{quoted}^^<{more[1:]}>" if more[0] == "^" else f"{quoted}@{more}"


def data(name, terms):
    path = f"{folder}/{name}.nt"
    lines = [f"<http://e/s{at:04}> <http://e/p> {written(term)} .\n" for at, term in enumerate(terms)]
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.writelines(lines)
    return path


def ask(path, query, format):
    command = [vicus, "query", "--data", path, "--format", format, query]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def sql(query, format):
    command = [vicus, "sql", "--format", format, query]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def same(found, expected, what):
    found, expected = sorted(map(repr, found)), sorted(map(repr, expected))
    missing = [one for one in expected if one not in found]
    foreign = [one for one in found if one not in expected]
    if found != expected:
        sys.exit(f"{what}: missing {missing[:5]}, foreign {foreign[:5]}, {len(found)} of {len(expected)}")
    print(f"{what}: {len(found)} are the same")


def lowered(more):
    """Languages are compared without case, as RDF does."""
    return more if more is None or more[0] == "^" else more.lower()


def plain(term):
    kind, text, more = term
    return kind, text, lowered(more)


def of_rdflib(term):
    if isinstance(term, rdflib.URIRef):
        return "iri", str(term), None
    if term.language:
        return "text", str(term), term.language.lower()
    is_plain = term.datatype is None or str(term.datatype) == XSD + "string"
    return "text", str(term), None if is_plain else f"^{term.datatype}"


def read_terms(cells, syntax):
    """Terms that stand by themselves, each as the object of a triple of its own."""
    text = "".join(f"<a:s{at}> <a:p> {cell} .\n" for at, cell in enumerate(cells))
    return [triple[2] for triple in rdflib.Graph().parse(data=text, format=syntax)]


def with_integers(terms):
    """A number without quotes, as Turtle writes it, becomes an integer of Python's in rdflib."""
    return [(kind, "7" if text == "007" else text, more) for kind, text, more in terms]


def of_json(cell):
    more = cell.get("xml:lang", "").lower() or ("^" + cell["datatype"] if "datatype" in cell else None)
    return "iri" if cell["type"] == "uri" else "text", cell["value"], more


def of_xml(cell):
    more = cell.get("{http://www.w3.org/XML/1998/namespace}lang", "").lower() or None
    if cell.get("datatype"):
        more = "^" + cell.get("datatype")
    return "iri" if cell.tag.endswith("}uri") else "text", cell.text or "", more


ALL = "SELECT ?o { ?s ?p ?o }"
whole, in_xml = data("all", TERMS + NOT_IN_XML), data("xml", TERMS)
expected = [plain(term) for term in TERMS + NOT_IN_XML]
expected_in_xml = [plain(term) for term in TERMS]

rows = list(csv.reader(io.StringIO(ask(whole, ALL, "csv").decode(), newline="")))
same([row[0] if row else "" for row in rows[1:]], [text for _, text, _ in expected], "CSV by Python")
answer = json.loads(ask(whole, ALL, "json"))
same([of_json(row["o"]) for row in answer["results"]["bindings"]], expected, "JSON by Python")
cells = xml.fromstring(ask(in_xml, ALL, "xml")).iter("{http://www.w3.org/2005/sparql-results#}binding")
same([of_xml(cell[0]) for cell in cells], expected_in_xml, "XML by Python")

NAMES = ['x,"y', "a\tb", "<&>", "a\nb", "'", " ", "é", "a;b", "]]>", "?x", "1", "{}", "\\n"]
named = "SELECT " + ", ".join(f'{at} AS "{name.replace(chr(34), chr(34) * 2)}"' for at, name in enumerate(NAMES))
numbers = [str(at) for at in range(len(NAMES))]
rows = list(csv.reader(io.StringIO(sql(named, "csv").decode(), newline="")))
same([tuple(row) for row in rows], [tuple(NAMES), tuple(numbers)], "names in CSV by Python")
answer = json.loads(sql(named, "json"))
same(answer["head"]["vars"], NAMES, "names in JSON by Python")
same([(name, cell["value"]) for name, cell in answer["results"]["bindings"][0].items()], list(zip(NAMES, numbers)),
     "their cells")
head = xml.fromstring(sql(named, "xml")).iter("{http://www.w3.org/2005/sparql-results#}variable")
same([one.get("name") for one in head], NAMES, "names in XML by Python")

if arrow is None:
    print("left out: Arrow, because pyarrow is not there")
else:
    table = arrow.open_stream(ask(whole, ALL, "arrow")).read_all()
    same([len(table)], [len(expected)], "rows in Arrow by pyarrow")
    if rdflib is not None:
        same(map(of_rdflib, read_terms(table.column("o").to_pylist(), "nt11")), expected, "terms in Arrow by pyarrow")
    table = arrow.open_stream(sql(named, "arrow")).read_all()
    same(table.schema.names, NAMES, "names in Arrow by pyarrow")

if rdflib is None:
    print("left out: graphs, because rdflib is not there")
else:
    graph = "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }"
    readers = [("nt", "nt11"), ("nq", "nquads"), ("ttl", "turtle"), ("trig", "trig"), ("jsonld", "json-ld"),
               ("rdfxml", "xml")]
    for format, name in readers:
        path, terms = (in_xml, expected_in_xml) if format == "rdfxml" else (whole, expected)
        read = rdflib.Dataset() if name in ("nquads", "trig") else rdflib.Graph()
        read.parse(data=ask(path, graph, format), format=name)
        terms = with_integers(terms) if name in ("turtle", "trig") else terms
        triples = [quad[2] for quad in (read.quads() if isinstance(read, rdflib.Dataset) else read)]
        same([of_rdflib(term) for term in triples], terms, f"{format} by rdflib")
    for format in ["json", "xml"]:
        path, terms = (in_xml, expected_in_xml) if format == "xml" else (whole, expected)
        result = rdflib.query.Result.parse(io.BytesIO(ask(path, ALL, format)), format=format)
        same([of_rdflib(row[0]) for row in result], terms, f"results as {format} by rdflib")
    # The cells of TSV are terms of Turtle, and only a tab or a line feed ends one.
    cells = ask(whole, ALL, "tsv").decode().split("\n")
    same([cells[0], cells[-1]], ["?o", ""], "head and end of TSV")
    same(map(of_rdflib, read_terms(cells[1:-1], "turtle")), with_integers(expected), "terms in TSV by rdflib")
