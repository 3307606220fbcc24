"""Threads that share an answer or a cache, answers that fail, and waits for a turn."""

from __future__ import annotations

import enum
import pathlib
import subprocess
import threading
import time
from collections.abc import Callable

import pytest
import vicus

Run = Callable[..., "subprocess.CompletedProcess[str]"]
MANY = "".join(f"<http://e/{n}> <http://e/p> {n} .\n" for n in range(3000))
#: What ends a program that hangs.
HEAD = "import faulthandler, threading, time, vicus\nfaulthandler.dump_traceback_later(60, exit=True)\n"


def test_threads_share_a_cache_of_terms(python: Run) -> None:
    python(
        HEAD
        + """
from vicus import _vicus
db = vicus.memory()
db.load(data="".join(f"<http://e/{n}> <http://e/p> {n} .\\n" for n in range(300)))
def make(kind, text, datatype, language):
    # Lets the other threads have the interpreter.
    time.sleep(0.0001)
    return (kind, text, datatype)
class Iri(str): pass
cache, seen = _vicus.TermCache(make, Iri, Iri, Iri), []
def all_of(cache):
    rows, rest = _vicus.find(db._native, None, None, None, "default", None, cache, 0)
    assert rows == []
    return rest
shared = all_of(cache)
def read(found):
    while rows := found.fetch(10, cache):
        seen.extend(rows)
def read_own():
    read(all_of(cache))
threads = [threading.Thread(target=read_own) for _ in range(3)]
threads += [threading.Thread(target=read, args=(shared,)) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
integer = "http://www.w3.org/2001/XMLSchema#integer"
row = lambda n: (("iri", f"http://e/{n}", None), ("iri", "http://e/p", None), ("literal", str(n), integer))
expected = [row(n) for n in range(300)]
assert sorted(seen) == sorted(expected * 4), len(seen)
""",
    )


def test_a_pattern_that_few_rows_match_is_counted() -> None:
    db = vicus.memory()
    # More rows have the object than a call looks at, and one of them has the subject.
    db.load(data="".join(f"<http://e/{n}> <http://e/p> <http://e/o> .\n" for n in range(200_000)))


    class Iri(str):
        pass

    cache = vicus._vicus.TermCache(lambda kind, text, *more: (kind, text), Iri, bytes, bytes)
    pattern = (Iri("http://e/150000"), None, Iri("http://e/o"))
    rows, found = vicus._vicus.find(db._native, *pattern, "default", None, cache, 0)
    assert rows == [] and found is not None and len(found) == 1
    iri = lambda name: ("iri", f"http://e/{name}")  # noqa: E731
    assert found.fetch(1000, cache) == [(iri(150_000), iri("p"), iri("o"))]
    assert found.fetch(1000, cache) == []


def damaged(tmp_path: pathlib.Path) -> vicus.Database:
    """A store of which the middle of a long text is damaged, on a page that nothing else is on."""
    path = tmp_path / "store"
    text = "x" * 300_000 + "needle" + "y" * 300_000
    with vicus.open(path) as db:
        db.load(data=f'<http://e/a> <http://e/p> "{text}" .\n' + MANY)
    count = 0
    for file in path.rglob("*"):
        if file.is_file() and (at := file.read_bytes().find(b"needle")) >= 0:
            with file.open("r+b") as bytes_:
                bytes_.seek(at)
                bytes_.write(b"hammer")
            count += 1
    assert count == 1
    return vicus.open(path, read_only=True)


@pytest.mark.parametrize("read", ["fetchall", "arrow", "batches"])
def test_a_damaged_page_is_an_error(tmp_path: pathlib.Path, read: str) -> None:
    if read != "fetchall":
        pytest.importorskip("pyarrow")
    with damaged(tmp_path) as db:
        result = db.query("SELECT ?o { <http://e/a> <http://e/p> ?o }")
        # The rows are there before it is said that they become Arrow's.
        time.sleep(0.3)
        if read == "batches":
            import pyarrow

            with pytest.raises(Exception, match="damaged|differ|changed"):
                pyarrow.RecordBatchReader.from_stream(result).read_all()
        else:
            with pytest.raises(vicus.StoreError):
                getattr(result, read)()
            with pytest.raises(vicus.Error):
                result.fetchall()


def test_a_thread_that_waits_for_rows_lets_others_work(python: Run) -> None:
    pytest.importorskip("pyarrow")
    python(
        HEAD
        + """
db, cancel, begun = vicus.memory(), vicus.Cancel(), threading.Event()
db.load(data="".join(f"<http://e/{n}> <http://e/p> {n} .\\n" for n in range(3000)))
import pyarrow
told = []
def read():
    result = db.query("SELECT ?a { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i FILTER (?c + ?f + ?i < 0) }", cancel=cancel)
    begun.set()
    try:
        result.arrow()
    except vicus.Cancelled as error:
        told.append(error)
thread = threading.Thread(target=read)
thread.start()
begun.wait()
time.sleep(0.3)
cancel.cancel()
thread.join()
assert len(told) == 1
"""
    )


def test_an_answer_that_failed_never_looks_complete() -> None:
    db = vicus.memory()
    db.load(data=MANY)
    cross = "{ ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"
    result = db.query("SELECT ?a " + cross, timeout=0.2)
    with pytest.raises(vicus.Timeout):
        for _ in result:
            pass
    for read in [result.fetchall, result.fetchone, lambda: len(result), lambda: result.fetchmany(3)]:
        with pytest.raises(vicus.Timeout):
            read()
    with pytest.raises(vicus.Timeout):
        result.__arrow_c_stream__()
    result = db.query("ASK " + cross[:-1] + "FILTER (?c + ?f + ?i < 0) }", timeout=0.2)
    for _ in range(2):
        with pytest.raises(vicus.Timeout):
            bool(result)


def test_rows_whose_making_is_interrupted_are_given_again() -> None:
    db = vicus.memory()
    db.load(data=MANY)
    native = db.query("SELECT ?o { ?s ?p ?o }")._native
    calls = 0

    def row(cells: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 7:
            raise KeyboardInterrupt
        return cells

    rows = []
    with pytest.raises(KeyboardInterrupt):
        while more := native.fetch(row):
            rows += more
    while more := native.fetch(row):
        rows += more
    assert sorted(int(cells[0]) for cells in rows) == list(range(3000))


def test_threads_share_a_result() -> None:
    db = vicus.memory()
    db.load(data=MANY)
    for _ in range(20):
        result, seen, wrong = db.query("SELECT ?o { ?s ?p ?o }"), [], []

        def read() -> None:
            try:
                for row in result:  # noqa: B023
                    seen.append(row.o.value)  # noqa: B023
            except BaseException as error:
                wrong.append(error)  # noqa: B023

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and sorted(seen) == list(range(3000))


def test_no_rows_are_fetched_if_none_are_wanted() -> None:
    db = vicus.memory()
    db.load(data=MANY)
    result = db.query("SELECT ?o { ?s ?p ?o }")
    assert result.fetchmany(0) == []
    assert len(result.fetchall()) == 3000


class Level(int, enum.Enum):
    """An integer with another text."""

    HIGH = 3


class Loud(str):
    """A text with another text."""

    def __str__(self) -> str:
        return "LOUD"


def test_values_are_written_as_what_they_are() -> None:
    assert vicus.Literal(Level.HIGH) == vicus.Literal(3)
    assert vicus.Literal(Loud("quiet")) == vicus.Literal("quiet")
    with pytest.raises(vicus.TermError, match="too long"):
        vicus.Literal(10**5000)
    with pytest.raises(vicus.TermError):
        vicus.memory().query("SELECT ?x {}", bind={"x": "\ud800"})
    boolean = "http://www.w3.org/2001/XMLSchema#boolean"
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    assert vicus.Literal("maybe", datatype=boolean).value == "maybe"
    assert vicus.Literal("1_000", datatype=integer).value == "1_000"


def test_numbers_of_numpy_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    assert vicus.Literal(numpy.float64(1.5)) == vicus.Literal(1.5)
    assert vicus.Literal(numpy.float64("inf")) == vicus.Literal(float("inf"))
    assert vicus.Literal(numpy.float32(1.5)) == vicus.Literal(1.5)
    assert vicus.Literal(numpy.int64(3)) == vicus.Literal(3)
    assert vicus.Literal(numpy.str_("a")) == vicus.Literal("a")
    db = vicus.memory()
    db.load(data="<http://e/a> <http://e/p> 1.5e0 .")
    assert len(db.query("SELECT ?s { ?s ?p ?o FILTER (?o = ?x) }", bind={"x": numpy.float64(1.5)})) == 1


@pytest.fixture(params=["memory", "folder"])
def either(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> vicus.Database:
    return vicus.memory() if request.param == "memory" else vicus.open(tmp_path / "store")


def test_the_time_of_an_update_is_none_of_its_transaction(either: vicus.Database) -> None:
    change = either.transaction()
    change.update("INSERT DATA { <http://e/a> <http://e/p> 1 }", timeout=0.3)
    time.sleep(0.4)
    assert change.query("ASK { ?s ?p ?o }")
    change.commit()
    assert len(either) == 1


def test_a_failed_update_is_not_committed(either: vicus.Database) -> None:
    change = either.transaction()
    with pytest.raises(vicus.Error):
        change.update("INSERT DATA { <http://e/a> <http://e/p> 1 } ; LOAD <file:///nowhere/at-all.nt>")
    with pytest.raises(vicus.StoreError, match="rolled back"):
        change.commit()
    assert len(either) == 0
    # A text that is no update has changed nothing.
    with either.transaction() as change:
        change.update("INSERT DATA { <http://e/a> <http://e/p> 1 }")
        with pytest.raises(vicus.SyntaxError):
            change.update("nonsense")
    assert len(either) == 1


def test_a_closed_store_is_free_while_an_answer_is_read(tmp_path: pathlib.Path) -> None:
    db = vicus.open(tmp_path / "store", threads=2)
    db.load(data=MANY)
    result = db.query("SELECT ?o { ?s ?p ?o }")
    db.close()
    with vicus.open(tmp_path / "store") as again:
        again.update("CLEAR ALL")
        again.compact()
        assert len(result.fetchall()) == 3000
        assert len(again) == 0


def test_a_look_whether_there_are_rows_takes_none() -> None:
    pytest.importorskip("pyarrow")
    db = vicus.memory()
    db.load(data=MANY)
    result = db.query("SELECT ?o { ?s ?p ?o }")
    assert result and result
    assert result.arrow().num_rows == 3000
    assert not db.query("SELECT ?o { ?s <http://e/none> ?o }")
