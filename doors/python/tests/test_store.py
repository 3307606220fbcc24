"""Stores: loading, changing, copying, checking; what a second opener sees."""

from __future__ import annotations

import gzip
import os
import pathlib
import pickle
from collections.abc import Callable

import pytest
import vicus
from conftest import PEOPLE


@pytest.fixture
def store(tmp_path: pathlib.Path) -> vicus.Database:
    db = vicus.open(tmp_path / "store")
    db.load(data=PEOPLE)
    return db


def test_a_store_stays(tmp_path: pathlib.Path) -> None:
    with vicus.open(tmp_path / "store", threads=2) as db:
        assert db.load(data=PEOPLE) == 8 and db.path == tmp_path / "store" and db.threads == 2
        db.update("INSERT DATA { <http://e/cy> <http://e/age> 5 }")
        assert db.load(data="<http://e/di> <http://e/age> 6 .", graph="http://e/g") == 1
    assert db.closed and repr(db) == "<vicus.Database, closed>"
    with vicus.open(str(tmp_path / "store"), create=False) as db:
        assert len(db) == 10
        assert db.query("ASK { GRAPH <http://e/g> { <http://e/di> ?p 6 } }")
        db.compact()
        assert not db.compact()
        assert "10" in db.check() and vicus.check(tmp_path / "store") == db.check()


def test_files_are_loaded_by_their_endings(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.nt").write_text('<http://e/a> <http://e/p> "a" .\n')
    (tmp_path / "b.ttl.gz").write_bytes(gzip.compress(b"<http://e/b> <http://e/p> 'b' ."))
    seen: list[tuple[int, int, int, str]] = []
    db = vicus.read(
        tmp_path / "a.nt",
        str(tmp_path / "b.ttl.gz"),
        progress=lambda *told: seen.append(told),
    )
    assert len(db) == 2
    assert db.load(tmp_path / "a.nt") == 0 and len(db) == 2
    (tmp_path / "bad.nt").write_text('<http://e/a> nonsense .\n<http://e/c> <http://e/p> "c" .\n')
    with pytest.raises(vicus.DataError, match="bad.nt"):
        db.load(tmp_path / "bad.nt")
    assert len(db) == 2
    with pytest.warns(UserWarning, match="1 malformed line"):
        assert len(vicus.read(tmp_path / "bad.nt", skip=True)) == 1
    for wrong, error in [
        ("missing.nt", FileNotFoundError),
        ("a", vicus.DataError),
        (".", vicus.DataError),
    ]:
        with pytest.raises(error):
            db.load(tmp_path / wrong)
    with pytest.raises(vicus.ArgumentError, match="syntax"):
        db.load(tmp_path / "a.nt", syntax="word")
    with pytest.raises(vicus.ArgumentError, match="IRI"):
        db.load(tmp_path / "a.nt", graph="no iri")


def test_what_is_no_store_is_told(tmp_path: pathlib.Path) -> None:
    with pytest.raises(vicus.StoreError, match="no store"):
        vicus.open(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("something")
    with pytest.raises(vicus.StoreError, match="other"):
        vicus.open(tmp_path / "other")
    (tmp_path / "file").write_text("something")
    with pytest.raises(vicus.StoreError, match="is a file"):
        vicus.open(tmp_path / "file")
    with pytest.raises(vicus.StoreError):
        vicus.open(tmp_path / "no" / "such" / "folder")
    with pytest.raises(vicus.StoreError):
        vicus.check(tmp_path / "none")
    for wrong in [0, -1, 10**6, "two"]:
        with pytest.raises((vicus.ArgumentError, OverflowError, TypeError)):
            vicus.open(tmp_path / "x", threads=wrong)  # type: ignore[arg-type]


def test_a_second_writer_is_told_the_first(store: vicus.Database, python: Callable[..., object]) -> None:
    with pytest.raises(vicus.StoreLocked) as caught:
        vicus.open(store.path)  # type: ignore[arg-type]
    assert caught.value.pid == os.getpid()
    program = """
import sys, vicus
try:
    vicus.open(sys.argv[1])
except vicus.StoreLocked as error:
    assert error.pid == int(sys.argv[2]), error.pid
    reader = vicus.open(sys.argv[1], read_only=True)
    assert len(reader) == 8
    try:
        reader.update("CLEAR ALL")
    except vicus.ReadOnly:
        sys.exit()
sys.exit(1)
"""
    python(program, store.path, os.getpid())


def test_transactions_happen_or_not(store: vicus.Database) -> None:
    for db in [store, vicus.read(), vicus.memory()]:
        before = len(db)
        insert = "INSERT DATA { <http://e/t> <http://e/n> ?n }"
        with db.transaction() as change:
            change.update(insert, bind={"n": 1})
            change.update(insert, bind={"n": 2})
            assert len(change.query("SELECT ?n { <http://e/t> <http://e/n> ?n }")) == 2
            assert len(db) == before
        assert len(db) == before + 2
        with pytest.raises(KeyError), db.transaction() as change:
            change.update("CLEAR ALL")
            assert not change.query("ASK { ?s ?p ?o }")
            raise KeyError
        assert len(db) == before + 2
        change = db.transaction()
        change.update(insert, bind={"n": 3})
        with pytest.raises(vicus.SyntaxError):
            change.update("nonsense")
        change.rollback()
        with pytest.raises(vicus.ClosedError):
            change.update(insert, bind={"n": 4})
        change = db.transaction()
        change.update(insert, bind={"n": 5})
        # Dropped: nothing happens, and others have their turn.
        del change
        db.update(insert, bind={"n": 6})
        assert len(db) == before + 3


def test_a_change_waits_for_the_one_before(store: vicus.Database) -> None:
    with store.transaction(), pytest.raises(vicus.Timeout):
        store.update("INSERT DATA { <http://e/x> <http://e/y> [] }", timeout=0.05)
    store.update("INSERT DATA { <http://e/x> <http://e/y> [] }", timeout=10)


def test_dumps_are_read_again(store: vicus.Database, tmp_path: pathlib.Path) -> None:
    for name in ["a.nt", "a.ttl", "a.nq.gz", "a.trig.zst", "a.rdf", "a.jsonld"]:
        assert store.dump(tmp_path / name) == 8
        assert len(vicus.read(tmp_path / name)) == 8
    store.load(data="<http://e/a> <http://e/b> 1 .", graph="http://e/g")
    with pytest.raises(vicus.FormatError, match="named graphs"):
        store.dump(tmp_path / "b.nt")
    assert not (tmp_path / "b.nt").exists()
    assert store.dump(tmp_path / "b.nt", graph="http://e/g") == 1
    assert store.dump(tmp_path / "c.ttl", graph="default", prefixes={"e": "http://e/"}) == 8
    assert "e:ann" in (tmp_path / "c.ttl").read_text()
    for wrong in [
        {"graph": "http://e/none"},
        {"graph": "no iri"},
        {"syntax": "word"},
        {"prefixes": {"a b": "c"}},
    ]:
        with pytest.raises(vicus.ArgumentError):
            store.dump(tmp_path / "d.nq", **wrong)  # type: ignore[arg-type]
    with pytest.raises(OSError):
        store.dump(tmp_path / "no" / "d.nq")


def test_copies_are_stores(store: vicus.Database, tmp_path: pathlib.Path) -> None:
    assert store.backup(tmp_path / "copy", memory="64M") == 8
    with vicus.open(tmp_path / "copy", create=False) as copy:
        assert len(copy) == 8
    with pytest.raises(vicus.StoreError):
        store.backup(tmp_path / "copy")
    assert vicus.read().backup(tmp_path / "empty") == 0
    with pytest.raises(vicus.StoreError, match="in memory"):
        vicus.memory().check()
    with pytest.raises(vicus.StoreError, match="in memory"):
        vicus.memory().compact()


def test_a_closed_database_says_so(store: vicus.Database) -> None:
    result = store.query("SELECT * { ?s ?p ?o }")
    store.close()
    store.close()
    # What is being read goes on.
    assert len(result.fetchall()) == 8
    for call in [
        lambda: store.query("ASK {}"),
        lambda: store.update("CLEAR ALL"),
        lambda: len(store),
        lambda: store.load(data=""),
        lambda: store.transaction(),
        lambda: store.snapshot(),
        lambda: store.path,
    ]:
        with pytest.raises(vicus.ClosedError, match="closed"):
            call()


def test_a_store_is_pickled_by_its_path(store: vicus.Database) -> None:
    text = pickle.dumps(store)
    with pytest.raises(vicus.StoreLocked):
        pickle.loads(text)
    store.close()
    with pickle.loads(text) as again:
        assert len(again) == 8
    with pytest.raises(TypeError, match="in memory"):
        pickle.dumps(vicus.memory())


def test_data_in_memory_is_loaded_beside_what_is_there(tmp_path: pathlib.Path) -> None:
    (tmp_path / "more.nt").write_text(
        "".join(f"_:b{n} <http://e/p> <http://e/{n}> .\n" for n in range(2000)) + "<http://e/a> nonsense .\n"
    )
    db = vicus.memory()
    assert db.load(data="_:b0 <http://e/p> <http://e/0> . <http://e/x> <http://e/y> 1 .") == 2
    seen: list[tuple[int, int, int, str]] = []
    with pytest.raises(vicus.DataError, match="more.nt"):
        db.load(tmp_path / "more.nt", progress=lambda *told: seen.append(told))
    assert len(db) == 2
    with pytest.warns(UserWarning, match="1 malformed line"):
        assert db.load(tmp_path / "more.nt", skip=True, graph="http://e/g") == 2000
    assert len(db) == 2002 and len(db.query("SELECT * { GRAPH <http://e/g> { ?s ?p ?o } }")) == 2000
    # Blank nodes of files are different from those that are there.
    assert len(db.query("SELECT DISTINCT ?s { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }")) == 2002
    # What is there already does not come once more.
    (tmp_path / "same.nt").write_text("<http://e/x> <http://e/y> <http://e/z> .\n" * 3)
    assert db.load(tmp_path / "same.nt", skip=True) == 1 and db.load(tmp_path / "same.nt", skip=True) == 0
    # A row of changes, and then the whole once more.
    db.update("DELETE WHERE { <http://e/x> ?p ?o }")
    assert db.load(tmp_path / "same.nt", skip=True) == 1 and len(db) == 2002
    with pytest.raises(vicus.ArgumentError, match="store"):
        db.load(tmp_path / "same.nt", memory="1G")


def test_a_handler_of_progress_may_end_the_load(many: pathlib.Path, tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe.nt")

    def stop(*told: object) -> None:
        raise KeyError("enough")

    db = vicus.memory()
    db.load(data=PEOPLE)
    with pytest.raises(KeyError, match="enough"):
        db.load(tmp_path / "pipe.nt", progress=stop)
    assert len(db) == 8


def test_a_closed_store_is_free(store: vicus.Database) -> None:
    path = store.path
    assert path is not None
    prepared = store.prepare("SELECT ?s { ?s <http://e/age> ?n }")
    before = store.snapshot()
    change = store.transaction()
    change.update("INSERT DATA { <http://e/t> <http://e/n> 1 }")
    store.close()
    with vicus.open(path) as again:
        # A transaction that had not ended is rolled back.
        assert len(again) == 8
        again.update("CLEAR ALL")
        again.compact()
        assert len(prepared.run()) == 2 and len(before) == 8
    for call in [lambda: change.update("CLEAR ALL"), change.commit, lambda: change.query("ASK {}")]:
        with pytest.raises(vicus.ClosedError, match="over"):
            call()


def test_prepared_queries_have_times_of_their_own(store: vicus.Database) -> None:
    prepared = store.prepare("SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f }", timeout=1000)
    assert prepared.run(timeout=1000).fetchall()[0].n.value == 64
    with pytest.raises(vicus.Timeout):
        prepared.run(timeout=0).fetchall()
    assert prepared.run().fetchall()[0].n.value == 64
