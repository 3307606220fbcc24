"""Answers in the formats of SPARQL and RDF, SQL within transactions, and types of files' columns. Expected texts are
those of the formats' specifications, written by hand, or what Python's own readers make of them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pathlib
import xml.etree.ElementTree as tree

import pytest
import vicus

NAMES = "SELECT ?s ?n { ?s <http://e/name> ?n . FILTER isIRI(?s) } ORDER BY ?s"


def test_answers_are_written_in_every_format_of_sparql(people: vicus.Database, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "names.csv"
    assert people.write(NAMES, path) == 2
    assert list(csv.reader(path.open(newline=""))) == [["s", "n"], ["http://e/ann", "Ann"], ["http://e/bob", "Bob"]]
    assert people.serialize(NAMES, "tsv").decode() == '?s\t?n\n<http://e/ann>\t"Ann"\n<http://e/bob>\t"Bob"@en\n'
    people.write(NAMES, tmp_path / "names.json.gz")
    answer = json.loads(gzip.decompress((tmp_path / "names.json.gz").read_bytes()))
    assert answer["head"]["vars"] == ["s", "n"] and answer["results"]["bindings"][1] == {
        "s": {"type": "uri", "value": "http://e/bob"},
        "n": {"type": "literal", "value": "Bob", "xml:lang": "en"},
    }
    people.write(NAMES, tmp_path / "names.srx")
    sparql = "{http://www.w3.org/2005/sparql-results#}"
    document = tree.parse(tmp_path / "names.srx").getroot()
    assert [found.text for found in document.iter(sparql + "uri")] == ["http://e/ann", "http://e/bob"]
    assert json.loads(people.serialize("ASK { ?s <http://e/age> 27 }", "json"))["boolean"] is True
    arrow = pytest.importorskip("pyarrow.ipc")
    people.write(NAMES, tmp_path / "names.arrow")
    with arrow.open_stream((tmp_path / "names.arrow").read_bytes()) as stream:
        assert stream.read_all().num_rows == 2


def test_graphs_are_written_in_every_syntax(people: vicus.Database, tmp_path: pathlib.Path) -> None:
    text = "CONSTRUCT { ?s <http://e/called> ?n } WHERE { ?s <http://e/name> ?n . FILTER isIRI(?s) }"
    lines = b'<http://e/ann> <http://e/called> "Ann" .\n<http://e/bob> <http://e/called> "Bob"@en .\n'
    assert b"".join(sorted(people.serialize(text, "nt").splitlines(keepends=True))) == lines
    for ending in ("nt", "nq", "ttl", "trig", "rdf", "jsonld", "ttl.zst"):
        assert people.write(text, tmp_path / f"called.{ending}") == 2
        again = vicus.read(tmp_path / f"called.{ending}")
        assert again.query('ASK { <http://e/bob> <http://e/called> "Bob"@en . <http://e/ann> <http://e/called> "Ann" }')


def test_statements_of_sql_are_written(people: vicus.Database, tmp_path: pathlib.Path) -> None:
    (tmp_path / "zips.csv").write_text("zip,count\n870,3\n1234,4\n")
    text = "SELECT zip, count * 2 AS twice FROM t ORDER BY zip DESC"
    made = people.serialize(text, "csv", language="sql", t=tmp_path / "zips.csv")
    assert list(csv.reader(io.StringIO(made.decode()))) == [["zip", "twice"], ["1234", "8"], ["870", "6"]]
    types = {"t": {"zip": "varchar"}}
    typed = people.sql("SELECT zip FROM t ORDER BY zip", table_types=types, t=tmp_path / "zips.csv")
    # As texts, in another order than as numbers.
    assert [row.zip.value for row in typed] == ["1234", "870"]


def test_a_refused_answer_leaves_the_file_as_it_was(people: vicus.Database, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "kept.csv"
    path.write_text("old")
    cross = "SELECT * {" + " ".join(f"?s{n} ?p{n} ?o{n} ." for n in range(9)) + "}"
    with pytest.raises(vicus.Timeout):
        people.write(cross, path, timeout=0.2)
    with pytest.raises(vicus.SyntaxError):
        people.write("SELECT", path)
    with pytest.raises(vicus.ArgumentError, match=r"no format; give one by format=: table, json"):
        people.write(NAMES, tmp_path / "names.txt")
    with pytest.raises(vicus.ArgumentError, match="`yaml` is no format of answers"):
        people.serialize(NAMES, "yaml")
    with pytest.raises(vicus.FormatError, match="triples can't be written as csv"):
        people.write("CONSTRUCT WHERE { ?s ?p ?o }", path)
    with pytest.raises(OSError, match="nowhere"):
        people.write(NAMES, tmp_path / "nowhere" / "names.csv")
    assert path.read_text() == "old" and sorted(tmp_path.iterdir()) == [path]


def test_transactions_answer_in_every_language_and_format(people: vicus.Database, tmp_path: pathlib.Path) -> None:
    statement = 'SELECT SUM(object) AS ages FROM "http://e/age"'
    with people.transaction() as change:
        change.update("INSERT DATA { <http://e/cy> <http://e/age> 5 }")
        assert change.sql(statement).fetchone().ages.value == 27 + 31 + 5
        assert people.sql(statement).fetchone().ages.value == 27 + 31
        doubled = change.sql("SELECT n * $by AS n FROM t", bind={"by": 2}, t=csv_of(tmp_path))
        assert [row.n.value for row in doubled] == [2, 4]
        assert change.serialize("SELECT (COUNT(*) AS ?n) { ?s <http://e/age> ?a }", "csv") == b"n\r\n3\r\n"
        assert len(change.query("SELECT ?s { ?s <http://e/age> ?a }", first_rows=2)) == 2
    assert people.sql(statement).fetchone().ages.value == 63
    with pytest.raises(vicus.ClosedError):
        change.sql(statement)


def csv_of(folder: pathlib.Path) -> pathlib.Path:
    (folder / "numbers.csv").write_text("n\n1\n2\n")
    return folder / "numbers.csv"


def test_unknown_functions_and_types_are_refused(people: vicus.Database, tmp_path: pathlib.Path) -> None:
    text = "SELECT ?s { ?s <http://e/age> ?a . FILTER <http://e/odd>(?a) }"
    assert len(people.query(text)) == 0
    with pytest.raises(vicus.Error, match="http://e/odd"):
        people.query(text, strict_functions=True)
    path = csv_of(tmp_path)
    with pytest.raises(vicus.ArgumentError, match="there is no table 'u'; the tables are t"):
        people.sql("SELECT n FROM t", table_types={"u": {"n": "double"}}, t=path)
    with pytest.raises(vicus.ArgumentError, match="n: `number` is no type of SQL"):
        people.sql("SELECT n FROM t", table_types={"t": {"n": "number"}}, t=path)
    with pytest.raises(vicus.Error, match="m"):
        people.sql("SELECT n FROM t", table_types={"t": {"m": "double"}}, t=path)
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(vicus.ArgumentError, match="t is no file"):
        people.sql("SELECT n FROM t", table_types={"t": {"n": "double"}}, t=pa.table({"n": [1]}))


def test_a_stream_takes_bounded_memory_and_its_end_ends_the_query(many: pathlib.Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import resource

    db = vicus.read(str(many))
    text = "SELECT ?a ?b ?c { ?a <http://e/n> ?b . ?c <http://e/n> ?d . FILTER (?d < 100) }"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(db.query(text)))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    # All rows as a frame would be some 100 MB.
    assert rows == 2_000_000 and grown < 60_000
    # A reader that is dropped behind its first rows ends the query, which would go on for hours.
    cross = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"
    result = db.query(cross)
    reader = pa.RecordBatchReader.from_stream(result)
    assert reader.read_next_batch().num_rows > 0
    native = result._native
    reader.close()
    del reader, result
    while not native.is_over:
        pass
