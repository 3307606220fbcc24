"""The store for rdflib: its graphs, rdflib's own tests, and what stands on it."""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys
import tarfile

import pytest

import vicus

rdflib = pytest.importorskip("rdflib")
from rdflib import RDF, RDFS, BNode, Graph, Literal, Namespace, URIRef  # noqa: E402
from rdflib.compare import isomorphic  # noqa: E402
from rdflib.graph import Dataset  # noqa: E402

import vicus.rdflib  # noqa: E402

E = Namespace("http://e/")

#: Files of rdflib's own tests about stores and graphs.
THEIRS = [
    "test_graph/test_graph.py",
    "test_graph/test_graph_context.py",
    "test_graph/test_batch_add.py",
    "test_graph/test_graph_items.py",
    "test_graph/test_graph_operator.py",
    "test_graph/test_graph_store.py",
    "test_graph/test_graph_cbd.py",
    "test_graph/test_container.py",
    "test_graph/test_slice.py",
    "test_conjunctivegraph/test_conjunctive_graph.py",
    "test_conjunctivegraph/test_conjunctivegraph_operator_combinations.py",
    "test_dataset/test_dataset.py",
    "test_dataset/test_dataset_add.py",
    "test_dataset/test_dataset_default_graph.py",
    "test_dataset/test_dataset_default_serialize_format.py",
    "test_store/test_store.py",
    "test_store/test_namespace_binding.py",
    "test_store/test_store_triple_store.py",
]

#: They ask the web, or read N3 as such, whose formulas no store of quads has.
LEFT_OUT = "not http and not n3"


@pytest.fixture
def graph() -> Graph:
    return Graph(store=vicus.rdflib.Store(vicus.memory()))


def test_terms_come_back_as_they_were(graph: Graph) -> None:
    blank = BNode("b0.x-y")
    terms = [
        blank,
        E.a,
        Literal("a"),
        Literal("chat", lang="fr"),
        Literal(7),
        Literal("007", datatype=rdflib.XSD.integer, normalize=False),
        Literal(1.5),
        Literal(True),
        Literal("2026-01-02", datatype=rdflib.XSD.date),
        Literal(""),
        Literal('\n"\\ü😀'),
        Literal("x", datatype=E.type),
    ]
    for term in terms:
        graph.add((E.s, E.p, term))
    graph.add((blank, E.p, blank))
    assert set(graph.objects(E.s, E.p)) == set(terms)
    assert {str(term) for term in graph.objects(E.s, E.p)} == {str(term) for term in terms}
    assert (blank, E.p, blank) in graph and (None, None, blank) in graph and (E.s, E.p, E.b) not in graph
    assert len(graph) == len(terms) + 1
    graph.remove((blank, None, None))
    assert len(graph) == len(terms)


def test_patterns_agree_with_rdflib_own_store() -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    ours, theirs = Dataset(store=vicus.rdflib.Store(vicus.memory())), Dataset()
    nodes = [E[str(number)] for number in range(5)] + [BNode("x"), BNode("y")]
    objects = [*nodes, Literal("a"), Literal(1), Literal("a", lang="en")]
    names = [E.g1, E.g2, rdflib.graph.DATASET_DEFAULT_GRAPH_ID]
    some = lambda among: None if chance.random() < 0.4 else chance.choice(among)  # noqa: E731
    for _ in range(400):
        name = chance.choice(names)
        step = chance.random()
        if step < 0.5:
            quad = (chance.choice(nodes), E[chance.choice("pqr")], chance.choice(objects))
            ours.graph(name).add(quad), theirs.graph(name).add(quad)
        elif step < 0.65:
            pattern = (some(nodes), some([E.p, E.q]), some(objects))
            ours.graph(name).remove(pattern), theirs.graph(name).remove(pattern)
        else:
            pattern = (some(nodes), some([E.p, E.q, E.r]), some(objects))
            assert set(ours.graph(name).triples(pattern)) == set(theirs.graph(name).triples(pattern)), seed
            assert set(ours.quads((*pattern, None))) == set(theirs.quads((*pattern, None))), seed
            assert len(ours.graph(name)) == len(theirs.graph(name)), seed


def test_queries_and_updates_are_pushed_down(graph: Graph) -> None:
    graph.parse(data="@prefix e: <http://e/> . e:a e:n 1 ; e:label 'A' . e:b e:n 2 .", format="turtle")
    rows = list(graph.query("SELECT ?s ?n { ?s <http://e/n> ?n } ORDER BY ?n"))
    assert [(row.s, row.n) for row in rows] == [(E.a, Literal(1)), (E.b, Literal(2))]
    assert [
        row.s for row in graph.query("SELECT ?s { ?s e:n ?n }", initNs={"e": E}, initBindings={"n": Literal(2)})
    ] == [E.b]
    assert bool(graph.query("ASK { ?s rdfs:label ?l }")) is False
    made = graph.query("CONSTRUCT { ?s <http://e/named> ?n } WHERE { ?s <http://e/label> ?n . }").graph
    assert len(made) == 1
    graph.update("INSERT { ?s a <http://e/Thing> } WHERE { ?s <http://e/n> ?n }")
    assert set(graph.subjects(RDF.type, E.Thing)) == {E.a, E.b}
    with pytest.raises(vicus.SyntaxError):
        graph.query("nonsense")
    # What has no name in a query goes to rdflib's own engine.
    graph.add((BNode("x"), E.n, Literal(3)))
    assert [row.n for row in graph.query("SELECT ?n { ?s <http://e/n> ?n }", initBindings={"s": BNode("x")})] == [
        Literal(3)
    ]


def test_named_graphs_are_graphs_of_the_database() -> None:
    db = vicus.memory()
    data = Dataset(store=vicus.rdflib.Store(db))
    data.graph(E.g).add((E.a, E.p, E.b))
    data.default_graph.add((E.c, E.p, E.d))
    store: vicus.rdflib.Store = data.store
    assert store.database is db and len(db) == 2
    assert db.query("ASK { GRAPH <http://e/g> { <http://e/a> ?p ?o } <http://e/c> ?q ?r }")
    assert [row.o for row in data.graph(E.g).query("SELECT ?o { ?s ?p ?o }")] == [E.b]
    assert {graph.identifier for graph in data.graphs()} == {E.g, rdflib.graph.DATASET_DEFAULT_GRAPH_ID}
    union = Dataset(store=vicus.rdflib.Store(db), default_union=True)
    assert len(list(union.query("SELECT ?s { ?s <http://e/p> ?o }"))) == 2
    data.remove_graph(E.g)
    assert len(store.database) == 1


def test_a_store_in_a_folder_stays(tmp_path: pathlib.Path) -> None:
    rdflib.plugin.register("Vicus", rdflib.store.Store, "vicus.rdflib", "Store")
    graph = Graph("Vicus")
    assert graph.open(str(tmp_path / "store"), create=True) == rdflib.store.VALID_STORE
    graph.add((E.a, RDFS.label, Literal("A")))
    with pytest.raises(vicus.StoreLocked):
        Graph("Vicus").open(str(tmp_path / "store"))
    graph.close()
    again = Graph("Vicus")
    assert again.open(str(tmp_path / "none")) == rdflib.store.NO_STORE
    assert again.open(str(tmp_path / "store")) == rdflib.store.VALID_STORE
    assert list(again) == [(E.a, RDFS.label, Literal("A"))]
    again.close()


def test_what_no_store_holds_is_refused(graph: Graph) -> None:
    for triple in [(Literal("a"), E.p, E.o), (E.s, BNode(), E.o), (E.s, Literal("p"), E.o)]:
        with pytest.raises(vicus.TermError):
            graph.add(triple)
            len(graph)
    with pytest.raises(NotImplementedError):
        graph.rollback()
    assert len(graph) == 0


def test_serializations_are_the_same(graph: Graph) -> None:
    text = "@prefix e: <http://e/> . e:a e:p [ e:q (1 2 'x'@en) ] ; e:r e:b ."
    graph.parse(data=text, format="turtle")
    other = Graph().parse(data=text, format="turtle")
    assert isomorphic(graph, other)
    assert isomorphic(Graph().parse(data=graph.serialize(format="turtle"), format="turtle"), other)


def test_rdflib_own_tests_pass(tmp_path: pathlib.Path) -> None:
    version = f"rdflib=={rdflib.__version__}"
    fetch = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        ":all:",
        "-d",
        tmp_path,
        version,
    ]
    if subprocess.run(fetch, capture_output=True).returncode != 0:
        pytest.skip("pip fetches no sources of rdflib")
    (archive,) = tmp_path.glob("rdflib-*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path)
    root = tmp_path / archive.name.removesuffix(".tar.gz")
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([*sys.path[1:], str(pathlib.Path(__file__).parent)]))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "rdflib_default", "-p", "no:cacheprovider", "-W", "ignore"]
    command += ["-o", "addopts=", "-k", LEFT_OUT, *(f"test/{name}" for name in THEIRS)]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=600)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    assert done.returncode == 0, "\n".join(failed or [done.stdout[-2000:], done.stderr[-2000:]])
    assert "150 passed" <= done.stdout.splitlines()[-1], done.stdout.splitlines()[-1]


SHAPES = """
@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix e: <http://e/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
e:Shape a sh:NodeShape ; sh:targetClass e:Person ;
  sh:property [ sh:path e:age ; sh:datatype xsd:integer ; sh:maxInclusive 99 ; sh:minCount 1 ] ;
  sh:property [ sh:path e:knows ; sh:class e:Person ] .
"""
PERSONS = """
@prefix e: <http://e/> .
e:a a e:Person ; e:age 5 ; e:knows e:b . e:b a e:Person ; e:age 100 . e:c a e:Person ; e:knows e:d .
"""


def test_shacl_is_checked_on_it(graph: Graph) -> None:
    pyshacl = pytest.importorskip("pyshacl")
    reports = []
    for data in [graph, Graph()]:
        data.parse(data=PERSONS, format="turtle")
        conforms, report, _ = pyshacl.validate(data, shacl_graph=Graph().parse(data=SHAPES, format="turtle"))
        assert conforms is False
        sh = Namespace("http://www.w3.org/ns/shacl#")
        reports.append(
            {
                (report.value(r, sh.focusNode), report.value(r, sh.resultPath))
                for r in report.subjects(RDF.type, sh.ValidationResult)
            }
        )
    assert reports[0] == reports[1] == {(E.b, E.age), (E.c, E.age), (E.c, E.knows)}


def test_rules_are_closed_on_it(graph: Graph) -> None:
    owlrl = pytest.importorskip("owlrl")
    text = "@prefix e: <http://e/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . e:x a e:A . e:A rdfs:subClassOf e:B . e:B rdfs:subClassOf e:C ."
    graphs = [graph, Graph()]
    for each in graphs:
        each.parse(data=text, format="turtle")
        owlrl.DeductiveClosure(owlrl.RDFS_Semantics).expand(each)
    assert (E.x, RDF.type, E.C) in graph
    assert {t for t in graph if not isinstance(t[0], BNode)} == {t for t in graphs[1] if not isinstance(t[0], BNode)}


def test_iris_that_are_none_are_refused(graph: Graph) -> None:
    for wrong in ["http://e/a b", "http://e/<a>", "http://e/\ud800", 'http://e/"', "a\nb"]:
        for triple in [(URIRef(wrong), E.p, E.o), (E.s, E.p, URIRef(wrong)), (E.s, E.p, Literal("x", datatype=wrong))]:
            with pytest.raises(vicus.TermError, match="no IRI"):
                graph.add(triple)
    with pytest.raises(vicus.TermError, match="surrogate"):
        graph.add((E.s, E.p, Literal("\ud800")))
    assert len(graph) == 0
    # rdflib has relative ones.
    graph.add((URIRef("a"), E.p, E.o))
    assert list(graph.subjects()) == [URIRef("a")]


def test_blank_nodes_name_graphs() -> None:
    db = vicus.memory()
    data = Dataset(store=vicus.rdflib.Store(db))
    first, second = BNode("first"), BNode("second")
    data.graph(first).add((E.a, E.p, E.b))
    data.graph(second).add((E.c, E.p, E.d))
    data.default_graph.add((E.e, E.p, E.f))
    assert len(data.store.database) == 3 and len(db.query("SELECT * { GRAPH ?g { ?s ?p ?o } }")) == 2
    assert set(data.graph(first)) == {(E.a, E.p, E.b)} and set(data.default_graph) == {(E.e, E.p, E.f)}
    assert {graph.identifier for graph in data.graphs()} == {
        first, second, rdflib.graph.DATASET_DEFAULT_GRAPH_ID,
    }  # fmt: skip
    # rdflib's own engine asks them, since a blank node has no name in a query.
    assert [row.o for row in data.graph(first).query("SELECT ?o { ?s ?p ?o }")] == [E.b]
    again = Dataset(store=vicus.rdflib.Store(db))
    named = {graph.identifier: len(graph) for graph in again.graphs()}
    assert named == {first: 1, second: 1, rdflib.graph.DATASET_DEFAULT_GRAPH_ID: 1}
    data.remove_graph(first)
    assert len(data.store.database) == 2
    data.remove((E.c, None, None))
    assert len(data.store.database) == 1


def test_prepared_queries_and_updates_go_to_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    from rdflib.plugins.sparql import prepareQuery, prepareUpdate, processor

    queries = [
        prepareQuery("SELECT ?s ?o { ?s e:p ?o }", initNs={"e": E}),
        prepareQuery("SELECT ?o { <a> <p> ?o }", base="http://e/"),
        prepareQuery("ASK { ?s rdf:type ?o }"),
        prepareQuery("CONSTRUCT { ?s e:of ?o } WHERE { ?s e:p ?o }", initNs={"e": E}),
    ]
    changes = [
        prepareUpdate("INSERT { ?s e:q ?new } WHERE { ?s e:p 1 }", initNs={"e": E}),
        prepareUpdate("DELETE WHERE { <b> ?p ?o }", base="http://e/"),
    ]
    answers = []
    for graph in [Graph(), Graph(store=vicus.rdflib.Store(vicus.memory()))]:
        for number, name in enumerate("abc"):
            graph.add((E[name], E.p, Literal(number)))
        graph.add((E.a, RDF.type, E.thing))
        # What a graph binds later is nothing to a prepared query.
        graph.bind("e", Namespace("http://other/"))
        if len(answers) == 1:
            monkeypatch.setattr(processor.SPARQLProcessor, "query", None)
            monkeypatch.setattr(processor.SPARQLUpdateProcessor, "update", None)
        graph.update(changes[0], initBindings={"new": E.new})
        graph.update(changes[1])
        found: list[object] = [set(graph)]
        for query in queries[:2]:
            for given in [{}, {"s": E.a}, {"o": Literal(2)}, {"s": E.b}]:
                found.append(sorted(graph.query(query, initBindings=given)))
        found.append(graph.query(queries[2]).askAnswer)
        found.append(set(graph.query(queries[3]).graph))
        answers.append(found)
    assert answers[1] == answers[0] and (E.b, E.p, Literal(1)) not in answers[0][0]
    assert (E.b, E.q, E.new) not in answers[0][0] and len(answers[0][1]) == 2


def test_a_file_of_graphs_is_read_and_written() -> None:
    text = "@prefix e: <http://e/> . e:e e:p e:f . _:g { e:a e:p e:b } e:g { e:c e:p e:d }"
    ours, theirs = Dataset(store=vicus.rdflib.Store(vicus.memory())), Dataset()
    for data in [ours, theirs]:
        data.parse(data=text, format="trig")
    counts = [
        sorted((isinstance(graph.identifier, BNode), len(graph)) for graph in data.graphs()) for data in [ours, theirs]
    ]
    assert counts[0] == counts[1] == [(False, 1), (False, 1), (True, 1)]
    assert len(Dataset().parse(data=ours.serialize(format="nquads"), format="nquads")) == 3


def test_graphs_without_a_name_are_the_default_graph() -> None:
    db = vicus.memory()
    for number in range(2):
        graph = Graph(store=vicus.rdflib.Store(db))
        graph.add((E.a, E.p, Literal(number)))
        graph.commit()
    assert len(db) == 2 and not db.query("ASK { GRAPH ?g { ?s ?p ?o } }")
