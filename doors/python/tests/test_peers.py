"""``vicus.open(nodes=…)``: queries that processes with a copy of the same store share, of which some are killed, have
other data, or are none."""

from __future__ import annotations

import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
import vicus

COUNTS = "SELECT ?b (COUNT(?c) AS ?n) { ?a <http://e/knows> ?b . ?b <http://e/knows> ?c } GROUP BY ?b"
PERSONS = 5_000


class Node:
    """``vicus node --store`` in a process of its own."""

    def __init__(self, store: pathlib.Path, *more: str) -> None:
        command = [sys.executable, "-m", "vicus", "node", "--listen", "127.0.0.1:0", "--threads", "1", *more]
        self.child = subprocess.Popen(command + ["--store", str(store)], stdout=subprocess.PIPE, text=True)
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        assert "networks and queries" in line, line
        self.address = line.split(" at ")[1].split(",")[0]

    def kill(self) -> None:
        self.child.send_signal(signal.SIGKILL)
        self.child.communicate()


@pytest.fixture
def nodes() -> Iterator[Callable[..., Node]]:
    begun: list[Node] = []

    def start(store: pathlib.Path, *more: str) -> Node:
        begun.append(Node(store, *more))
        return begun[-1]

    yield start
    for node in begun:
        if node.child.poll() is None:
            node.kill()


@pytest.fixture
def store(tmp_path: pathlib.Path) -> pathlib.Path:
    """Persons who know seven others each."""
    data = tmp_path / "people.nt"
    with data.open("w") as file:
        for person in range(PERSONS):
            for other in range(1, 8):
                whom = (person * other + other) % PERSONS
                file.write(f"<http://e/{person}> <http://e/knows> <http://e/{whom}> .\n")
    with vicus.open(tmp_path / "store", threads=1) as db:
        db.load(data)
    return tmp_path / "store"


def counts(db: vicus.Database) -> list[tuple[str, str]]:
    return sorted((str(row[0]), str(row[1])) for row in db.query(COUNTS))


STATEMENT = 'SELECT object, count(*), min(subject) FROM "http://e/knows" GROUP BY object ORDER BY object'


def test_statements_of_sql_ask_nodes_as_well(store: pathlib.Path, nodes: Callable[..., Node]) -> None:
    with vicus.open(store, threads=1, read_only=True) as alone:
        expected = [tuple(row) for row in alone.sql(STATEMENT)]
    assert len(expected) > 1000
    with vicus.open(store, threads=1, nodes=[nodes(store).address]) as db:
        # Shared, or on one machine for a reason that it tells.
        assert "machine" in str(db.explain(STATEMENT, language="sql"))
        assert [tuple(row) for row in db.sql(STATEMENT)] == expected
        # What other machines don't have.
        frame = pytest.importorskip("pyarrow").table({"s": ["http://e/1"]})
        joined = 'SELECT k.object FROM "http://e/knows" k JOIN f ON f.s = k.subject'
        assert "other machines don't have the table f" in str(db.explain(joined, language="sql", f=frame))
        assert len(db.sql(joined, f=frame)) == 7


def test_nodes_share_queries_and_killed_ones_are_done_without(
    store: pathlib.Path, nodes: Callable[..., Node]
) -> None:
    with vicus.open(store, threads=1, read_only=True) as alone:
        expected = counts(alone)
    assert len(expected) > 1000
    one, two = nodes(store), nodes(store)
    with vicus.open(store, threads=1, nodes=[one.address, two.address]) as db:
        plan = str(db.explain(COUNTS))
        assert "machine" in plan, plan
        assert counts(db) == expected
        # One is killed while others ask.
        ends, found = threading.Event(), [0]
        wrong: list[BaseException] = []

        def ask() -> None:
            while not ends.is_set():
                try:
                    assert counts(db) == expected
                except vicus.Error as error:
                    # Rows were handed out already.
                    assert one.address in str(error), error
                except BaseException as error:
                    wrong.append(error)
                    return
                found[0] += 1

        asking = threading.Thread(target=ask)
        asking.start()
        while found[0] < 3 and not wrong:
            ends.wait(0.01)
        one.kill()
        killed = found[0]
        while found[0] < killed + 5 and not wrong:
            ends.wait(0.01)
        ends.set()
        asking.join()
        assert not wrong, wrong
        # What is written here is seen by the node over the same folder.
        db.update("INSERT DATA { <http://e/0> <http://e/knows> <http://e/new> . <http://e/new> <http://e/knows> 5 }")
        assert ("http://e/new", "1") in {(name.strip("<>"), number) for name, number in counts(db)}
        two.kill()
        assert len(counts(db)) == len(expected) + 1


def test_wrong_nodes_are_told_when_the_store_is_opened(
    store: pathlib.Path, nodes: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VICUS_NODE_TOKEN", raising=False)
    strict = nodes(store, "--token", "good")
    for token in [None, "bad"]:
        with pytest.raises(vicus.StoreError, match="the token is not the node's"):
            vicus.open(store, nodes=[strict.address], node_token=token)
    with vicus.open(store, threads=1, nodes=[strict.address], node_token="good") as db:
        assert len(counts(db)) > 1000
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            client, _ = other.accept()
            with client:
                client.recv(4096)
                client.sendall(b'VICUS-NODE/1 {"Refused":{"version":"9.9.9","why":"x"}}\n')

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(vicus.StoreError, match="it has version 9.9.9, and this program"):
            vicus.open(store, nodes=["127.0.0.1:%d" % other.getsockname()[1]])
        answering.join()
    strict.kill()
    with pytest.raises(vicus.StoreError, match="can't be reached"):
        vicus.open(store, nodes=[strict.address], node_token="good")
    # The store is not kept by what was not opened.
    vicus.open(store).close()


def test_nodes_with_other_data_are_done_without(
    store: pathlib.Path, nodes: Callable[..., Node], tmp_path: pathlib.Path
) -> None:
    older = tmp_path / "older"
    shutil.copytree(store, older)
    with vicus.open(store, threads=1) as db:
        db.update("INSERT DATA { <http://e/0> <http://e/knows> <http://e/new> . <http://e/new> <http://e/knows> 5 }")
        expected = counts(db)
    with vicus.open(tmp_path / "another", threads=1) as db:
        db.load(data="<http://e/a> <http://e/knows> <http://e/b> .")
    for other in [nodes(older, "--store-wait", "100ms"), nodes(tmp_path / "another")]:
        with vicus.open(store, threads=1, nodes=[other.address]) as db:
            assert counts(db) == expected
            assert counts(db) == expected
