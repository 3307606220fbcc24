"""The package for Python beside others: pyoxigraph, rdflib, DuckDB and Polars. Run by `./dev bench python`.

Each pair runs in turn, in one process, and the least time of each counts: others' work on the machine only adds. Answers
are compared before they are measured.
"""

from __future__ import annotations

import argparse
import functools
import gc
import io
import math
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable

import vicus

SLOWEST = 20.0


def timed(call: Callable[[], Any]) -> float:
    gc.collect()
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


#: What is shorter is run as often as fits into this time: once by itself, it would be the way back from a collection of
#: Python's garbage that is measured.
LEAST = 0.005


def beside(ours: Callable[[], Any], other: Callable[[], Any], times: int = 5) -> tuple[float, float]:
    """The least times of both, in turn. What takes long is run once; of what is short, many runs are one."""
    calls = (ours, other)
    least = [timed(call) for call in calls]
    counts = [max(1, min(1000, int(LEAST / max(once, 1e-6)))) for once in least]

    def several(call: Callable[[], Any], count: int) -> None:
        for _ in range(count):
            call()

    for _ in range(times - 1):
        if max(least) > SLOWEST:
            break
        for place, (call, count) in enumerate(zip(calls, counts)):
            least[place] = min(least[place], timed(functools.partial(several, call, count)) / count)
    return least[0], least[1]


def line(what: str, ours: float, other: float, name: str) -> None:
    print(
        f"{what:<44} vicus {ours * 1e3:>10.2f} ms  {name} {other * 1e3:>10.2f} ms  ratio {ours / other:.4f}", flush=True
    )


def queries(folder: pathlib.Path, db: vicus.Database, other: Any) -> None:
    """The queries of SP2Bench, from the text to a frame: by a stream of Arrow, and by CSV, pyoxigraph's best way."""
    import pandas
    import polars
    import pyoxigraph

    def theirs(text: str) -> Any:
        answer = other.query(text)
        if isinstance(answer, pyoxigraph.QueryBoolean):
            return bool(answer)
        if isinstance(answer, pyoxigraph.QueryTriples):
            return list(answer)
        return pandas.read_csv(io.BytesIO(answer.serialize(format=pyoxigraph.QueryResultsFormat.CSV)), engine="pyarrow")

    def ours(text: str) -> Any:
        answer = db.query(text, any_order=True)
        return bool(answer) if answer._native.kind == "truth" else polars.DataFrame(answer)

    ratios = []
    for path in sorted(folder.glob("*")):
        text = path.read_text()
        mine = ours(text)
        limit = subprocess_limit(other, text)
        if limit is None:
            print(f"{path.stem:<44} left out: pyoxigraph takes more than {SLOWEST:.0f} s", flush=True)
            continue
        rows = theirs(text)
        same = mine == rows if isinstance(mine, bool) else len(mine) == len(rows)
        assert same, (
            path.stem,
            mine if isinstance(mine, bool) else len(mine),
            rows if isinstance(rows, bool) else len(rows),
        )
        first, second = beside(lambda: ours(text), lambda: theirs(text))
        ratios.append(first / second)
        line(f"query {path.stem}", first, second, "pyoxigraph")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean of {len(ratios)} queries: {mean:.4f}; the greatest ratio: {max(ratios):.4f}", flush=True)


STORE: dict[str, str] = {}


def subprocess_limit(other: Any, text: str) -> float | None:
    """How long the other one takes, in a process that can be ended; nothing if that is too long."""
    program = (
        "import sys, time, pyoxigraph\n"
        "store = pyoxigraph.Store.read_only(sys.argv[1])\n"
        "began = time.perf_counter()\n"
        "answer = store.query(sys.stdin.read())\n"
        "answer = bool(answer) if isinstance(answer, pyoxigraph.QueryBoolean) else sum(1 for _ in answer)\n"
        "print(time.perf_counter() - began)\n"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, STORE["path"]],
            input=text,
            capture_output=True,
            text=True,
            timeout=SLOWEST + 5,
        )
    except subprocess.TimeoutExpired:
        return None
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def million(db: vicus.Database) -> None:
    """A million rows in a frame, beside the query's own time."""
    import polars

    text = "SELECT ?s ?o { ?s ?p ?o } LIMIT 1000000"
    counted, framed = beside(lambda: db.profile(text), lambda: polars.DataFrame(db.query(text)), times=7)
    ready = db.query(text)
    rows = len(ready)
    handed = timed(lambda: polars.DataFrame(ready))
    print(
        f"{rows:,} rows: query alone {counted * 1e3:.1f} ms, to a frame {framed * 1e3:.1f} ms, "
        f"more by {(framed - counted) * 1e3:.1f} ms; rows that are there, to a frame {handed * 1e3:.1f} ms",
        flush=True,
    )


def small(db: vicus.Database, other: Any) -> None:
    """A point query; an import."""
    text = "SELECT ?o { <http://localhost/publications/articles/Journal1/1940/Article1> ?p ?o } LIMIT 1"
    count = 2000

    def many(ask: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(count):
                ask()

        return run

    first, second = beside(many(lambda: db.query(text).fetchall()), many(lambda: list(other.query(text))))
    line("a point query", first / count, second / count, "pyoxigraph")
    import_time = "import time; t = time.perf_counter(); import vicus; print(time.perf_counter() - t)"
    said = [float(subprocess.check_output([sys.executable, "-c", import_time])) for _ in range(7)]
    print(f"import vicus: {min(said) * 1e3:.1f} ms", flush=True)


def interrupts(db: vicus.Database, data: str) -> None:
    """From the signal to KeyboardInterrupt, in phases of calls."""
    import os
    import signal
    import threading

    def busy(batch: Any) -> Any:
        while True:
            pass

    box = vicus.Network()
    box.library("numbers", to=5) | busy | box.collect()
    cross = "{ ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"
    plan = "SELECT * {" + " ".join(f"?a{n} ?b{n} ?a{n + 1} ." for n in range(300)) + "}"
    phases: dict[str, Callable[[], object]] = {
        "a count": lambda: db.query("SELECT (COUNT(*) AS ?n) " + cross).fetchall(),
        "a sort": lambda: db.query("SELECT * " + cross + " ORDER BY ?l").fetchall(),
        "planning": lambda: db.query(plan).fetchall(),
        "loading": lambda: vicus.read(*[data] * 50),
        "a statement of SQL": lambda: db.sql(f"SELECT COUNT(*) AS n FROM SPARQL('SELECT * {cross}') AS s").fetchall(),
        "a box in Python": box.run,
    }
    for name, call in phases.items():
        taken = []
        for _ in range(5):
            sent = [0.0]

            def send() -> None:
                time.sleep(0.2)
                sent[0] = time.perf_counter()
                os.kill(os.getpid(), signal.SIGINT)

            sender = threading.Thread(target=send)
            sender.start()
            try:
                call()
            except KeyboardInterrupt:
                taken.append(time.perf_counter() - sent[0])
            sender.join()
        told = f"{min(taken) * 1e3:.1f} to {max(taken) * 1e3:.1f} ms" if taken else "it was over before"
        print(f"Ctrl-C in {name}, {len(taken)} times: {told}", flush=True)


def graphs(triples: int) -> None:
    """rdflib's graphs on our store and on its own."""
    import rdflib

    import vicus.rdflib

    name = rdflib.Namespace("http://e/")
    mine, own = rdflib.Graph(store=vicus.rdflib.Store(vicus.memory())), rdflib.Graph()
    for graph in (mine, own):
        for number in range(triples // 4):
            subject = name[str(number)]
            graph.add((subject, rdflib.RDF.type, name[f"C{number % 10}"]))
            graph.add((subject, rdflib.RDFS.label, rdflib.Literal(f"name {number}")))
            graph.add((subject, name.knows, name[str(number * 7 % (triples // 4))]))
            graph.add((subject, name.age, rdflib.Literal(number % 90)))
    subjects = [name[str(number)] for number in range(2000)]
    cases: dict[str, Callable[[Any], int]] = {
        "rdflib: all triples": lambda graph: sum(1 for _ in graph.triples((None, None, None))),
        "rdflib: by predicate": lambda graph: sum(1 for _ in graph.triples((None, rdflib.RDFS.label, None))),
        "rdflib: by predicate and object": lambda graph: sum(
            1 for _ in graph.triples((None, rdflib.RDF.type, name.C3))
        ),
        "rdflib: by subject, 2000 times": lambda graph: sum(
            1 for subject in subjects for _ in graph.triples((subject, None, None))
        ),
        "rdflib: is there, 2000 times": lambda graph: sum(
            (subject, rdflib.RDF.type, name.C3) in graph for subject in subjects
        ),
        "rdflib: SPARQL, a join": lambda graph: len(
            graph.query("SELECT ?a ?l { ?a a <http://e/C3> ; <http://e/knows> ?b . ?b rdfs:label ?l }")
        ),
        "rdflib: SPARQL, an average": lambda graph: len(
            graph.query("SELECT ?c (AVG(?n) AS ?m) { ?a a ?c ; <http://e/age> ?n } GROUP BY ?c")
        ),
    }
    for what, case in cases.items():
        assert case(mine) == case(own), what
        first, second = beside(lambda: case(mine), lambda: case(own))
        line(what, first, second, "rdflib")
    try:
        import pyshacl
    except ImportError:
        return
    shapes = rdflib.Graph().parse(
        format="turtle",
        data="""
        @prefix sh: <http://www.w3.org/ns/shacl#> . @prefix e: <http://e/> .
        @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
        e:Shape a sh:NodeShape ; sh:targetClass e:C3 ;
          sh:property [ sh:path e:age ; sh:datatype xsd:integer ; sh:minCount 1 ] .""",
    )
    first, second = beside(
        lambda: pyshacl.validate(mine, shacl_graph=shapes), lambda: pyshacl.validate(own, shacl_graph=shapes), times=3
    )
    line(f"pySHACL, {triples:,} triples", first, second, "rdflib")


def boxes() -> None:
    """A box in Python that passes batches on; a network with nothing to do."""
    import pyarrow

    rows = pyarrow.table({"n": pyarrow.array(range(4_000_000), pyarrow.int64())})
    with_box, without = vicus.Network(), vicus.Network()
    with_box.source(rows) | (lambda batch: batch) | with_box.collect()
    without.source(rows) | without.collect()
    first, second = beside(with_box.run, without.run, times=7)
    counts = {name: runs for name, runs, *_ in with_box.run().counts}
    batches = max(runs for name, runs in counts.items() if name.startswith("python"))
    print(
        f"a Python box that passes batches on: {(first - second) / batches * 1e6:.1f} us a batch, {batches} batches",
        flush=True,
    )
    empty = vicus.Network("box n = numbers(to: 0); box rows = collect; n -> rows;")
    empty.run()
    count = 500
    in_a_row = min(timed(lambda: [empty.run() for _ in range(count)]) for _ in range(5)) / count
    after_a_pause = min(timed(empty.run) for _ in range(20))
    print(
        f"an empty network, from the text to its end: {in_a_row * 1e6:.0f} us in a row, "
        f"{after_a_pause * 1e6:.0f} us when the threads have slept",
        flush=True,
    )


def tables() -> None:
    """A join of two frames by SQL."""
    import duckdb
    import polars

    count = 1_000_000
    left = polars.DataFrame({"k": range(count), "v": [number % 1000 for number in range(count)]})
    right = polars.DataFrame({"k": range(0, count, 10), "w": range(0, count, 10)})
    text = "SELECT a.v AS v, COUNT(*) AS n, SUM(b.w) AS s FROM a JOIN b ON a.k = b.k GROUP BY a.v"
    db = vicus.memory()
    ours = lambda: polars.DataFrame(db.sql(text, a=left, b=right))  # noqa: E731
    theirs = lambda a=left, b=right: duckdb.sql(text).pl()  # noqa: E731
    own = lambda: left.join(right, on="k").group_by("v").agg(polars.len(), polars.col("w").sum())  # noqa: E731
    assert len(ours()) == len(theirs()) == len(own())
    first, second = beside(ours, theirs)
    line("SQL: a join of two frames, grouped", first, second, "DuckDB")
    first, second = beside(ours, own)
    line("SQL: the same as expressions", first, second, "Polars")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--triples", type=int, default=250_000)
    options.add_argument("--queries", type=pathlib.Path, required=True)
    asked = options.parse_args()
    import pyoxigraph

    with tempfile.TemporaryDirectory() as scratch:
        data = f"{scratch}/data.nt"
        subprocess.run(
            [sys.executable, "-m", "vicus", "generate", "sp2b", "--triples", str(asked.triples), "--output", data],
            check=True,
        )
        STORE["path"] = f"{scratch}/oxigraph"
        loaded: list[Any] = []

        def theirs() -> None:
            store = pyoxigraph.Store()
            store.bulk_load(path=data, format=pyoxigraph.RdfFormat.N_TRIPLES)
            loaded[:] = [store]

        first, second = beside(lambda: vicus.read(data), theirs, times=3)
        line(f"loading {asked.triples:,} triples into memory", first, second, "pyoxigraph")
        with_disk = pyoxigraph.Store(STORE["path"])
        with_disk.bulk_load(path=data, format=pyoxigraph.RdfFormat.N_TRIPLES)
        with_disk.flush()
        del with_disk
        db = vicus.read(data)
        assert len(db) == len(loaded[0])
        small(db, loaded[0])
        queries(asked.queries, db, loaded[0])
        million(db)
        interrupts(db, data)
    graphs(100_000)
    boxes()
    tables()


if __name__ == "__main__":
    main()
