"""Archives of stores, made and read back by the package and by the command line."""

from __future__ import annotations

import datetime
import pathlib
import time
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest
import vicus


def quads(db: vicus.Database) -> set[tuple[str, ...]]:
    return {tuple(str(term) for term in row) for row in db.query("SELECT * { ?s ?p ?o }")}


def test_a_store_is_made_again_as_it_was_at_any_record(tmp_path: pathlib.Path) -> None:
    archive, states = tmp_path / "archive", {}
    with vicus.open(tmp_path / "store") as db:
        for number in range(5):
            db.update(f"INSERT DATA {{ <http://e/{number}> <http://e/p> {number} }}")
            if number == 3:
                db.update("DELETE WHERE { <http://e/1> ?p ?o }")
            sent = db.archive(archive)
            assert sent.records >= 1 and sent.bytes > 0
            states[sent.last] = quads(db)
        # All is there, so nothing is sent.
        again = db.archive(archive)
        assert (again.last, again.records) == (sent.last, 0)
        assert len(states) == 5
    for last, state in states.items():
        path = tmp_path / f"at-{last}"
        restored = vicus.restore(archive, path, until=last)
        assert restored == (last, len(state))
        with vicus.open(path, create=False) as db:
            assert quads(db) == state
            # It is the store's next writer.
            db.update("CLEAR ALL")
    assert vicus.restore(archive, tmp_path / "last").quads == len(states[sent.last])


def test_an_archive_is_kept_for_a_span_of_time(tmp_path: pathlib.Path) -> None:
    archive = tmp_path / "archive"
    with vicus.open(tmp_path / "store") as db:
        for number in range(3):
            db.update(f"INSERT DATA {{ <http://e/{number}> <http://e/p> {number} }}")
            # A new base makes the older one needless.
            assert db.compact()
            assert db.archive(archive, keep=datetime.timedelta(days=1)).removed == 0
        first = db.archive(archive).last
        time.sleep(2.1)
        sent = db.archive(archive, keep=datetime.timedelta(seconds=1))
        assert (sent.last, sent.records) == (first, 0) and sent.removed > 0
        for wrong in (-datetime.timedelta(1), 5, "30d"):
            with pytest.raises(vicus.ArgumentError, match="keep is a timedelta"):
                db.archive(archive, keep=wrong)  # type: ignore[arg-type]
    assert vicus.restore(archive, tmp_path / "again").quads == 3
    with pytest.raises(vicus.StoreError, match="archive"):
        vicus.restore(archive, tmp_path / "first", until=1)


def test_archives_are_those_of_the_command_line(
    tmp_path: pathlib.Path, python: Callable[..., CompletedProcess[str]]
) -> None:
    with vicus.open(tmp_path / "store") as db:
        db.update("INSERT DATA { <http://e/a> <http://e/p> 1 }")
        db.archive(tmp_path / "archive")
    time.sleep(1.1)
    now = datetime.datetime.now(datetime.timezone.utc)
    program = f"""
import subprocess, sys
words = ["restore", "--store", {str(tmp_path / "cli")!r}, {str(tmp_path / "archive")!r}]
print(subprocess.run([sys.executable, "-m", "vicus", *words], check=True, capture_output=True, text=True).stdout)
"""
    assert "1 quads" in python(program).stdout
    assert vicus.restore(tmp_path / "archive", tmp_path / "then", until=now).quads == 1
    with pytest.raises(vicus.StoreError, match="archive"):
        vicus.restore(tmp_path / "archive", tmp_path / "before", until=now - datetime.timedelta(days=1))
    assert not (tmp_path / "before").exists() or not list((tmp_path / "before").iterdir())


def test_what_is_no_archive_is_told(tmp_path: pathlib.Path, people: vicus.Database) -> None:
    with pytest.raises(vicus.StoreError, match="in memory"):
        people.archive(tmp_path / "archive")
    (tmp_path / "empty").mkdir()
    with pytest.raises(vicus.StoreError, match="there is no archive"):
        vicus.restore(tmp_path / "empty", tmp_path / "store")
    with pytest.raises(vicus.ArgumentError, match="has no time zone"):
        vicus.restore(tmp_path / "empty", tmp_path / "store", until=datetime.datetime(2026, 11, 30))
    for wrong in (-1, True, "yesterday", 1.5):
        with pytest.raises(vicus.ArgumentError, match="until is the number of a record"):
            vicus.restore(tmp_path / "empty", tmp_path / "store", until=wrong)  # type: ignore[arg-type]
    with pytest.raises(vicus.ArgumentError, match="odd://"):
        vicus.restore("odd://bucket", tmp_path / "store")
    with vicus.open(tmp_path / "one") as one, vicus.open(tmp_path / "two") as two:
        for db in (one, two):
            db.update("INSERT DATA { <http://e/a> <http://e/p> 1 }")
        one.archive(tmp_path / "archive")
        with pytest.raises(vicus.StoreError, match="the archive of another store"):
            two.archive(tmp_path / "archive")
    # A folder with a store stays as it is.
    with pytest.raises(vicus.StoreError):
        vicus.restore(tmp_path / "archive", tmp_path / "two")
    with vicus.open(tmp_path / "two", create=False) as db:
        assert len(db) == 1
