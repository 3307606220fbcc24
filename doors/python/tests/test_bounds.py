"""Time limits and handles of every call, and code that hears neither."""

from __future__ import annotations

import os
import pathlib
import random
import threading
import time
from collections.abc import Callable
from typing import Any, Iterator

import pytest
import vicus

CROSS = "{ ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l FILTER (?c + ?f + ?i + ?l < 0) }"
PLAN = "SELECT * {" + " ".join(f"?a{n} ?b{n} ?a{n + 1} ." for n in range(300)) + "}"


class World:
    """What calls are made with."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.db = vicus.memory()
        self.db.load(data="".join(f"<http://e/{n}> <http://e/p> {n} .\n" for n in range(3000)))
        self.store = vicus.open(folder / "store")
        self.store.load(data="".join(f"<http://e/{n}> <http://e/q> <http://e/{n % 1000}> .\n" for n in range(100_000)))
        self.kept: list[Any] = []

    def pipe(self, name: str) -> pathlib.Path:
        os.mkfifo(self.folder / name)
        return self.folder / name

    def unread(self, name: str) -> pathlib.Path:
        """A pipe whose reader takes nothing."""
        path = self.pipe(name)
        self.kept.append(os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK)))
        return path

    def held(self, db: vicus.Database) -> vicus.Database:
        """A database with a transaction that has not ended."""
        self.kept.append(db.transaction())
        return db

    def changed(self) -> vicus.Database:
        self.store.update("INSERT DATA { <http://e/a> <http://e/b> 1 }")
        return self.store


def endless(_: Any) -> Any:
    while True:
        pass


def endless_generator(batches: Iterator[Any]) -> Iterator[Any]:
    # Without a look at its batches.
    while True:
        pass
    yield next(batches)


def network(world: World, box: Any) -> vicus.Network:
    net = vicus.Network()
    net.library("numbers", to=5) | box | net.collect()
    return net


def frames() -> Any:
    pa = pytest.importorskip("pyarrow")
    batch = pa.record_batch({"n": [1]})

    def batches() -> Iterator[Any]:
        while True:
            time.sleep(0.001)
            yield batch

    return pa.RecordBatchReader.from_batches(batch.schema, batches())


def array() -> Any:
    pytest.importorskip("numpy")
    return vicus.empty(1000)


# Each begins something that takes hours, or for ever, if nothing ends it.
CALLS: dict[str, Callable[..., Any]] = {
    "count": lambda w, **bounds: len(w.db.query("SELECT (COUNT(*) AS ?n) " + CROSS, **bounds)),
    "sort": lambda w, **bounds: w.db.query("SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } ORDER BY ?a", **bounds).fetchall(),
    "ask": lambda w, **bounds: bool(w.db.query("ASK " + CROSS, **bounds)),
    "plan": lambda w, **bounds: w.db.explain(PLAN, **bounds),
    "prepare": lambda w, **bounds: w.db.prepare(PLAN, **bounds),
    "profile": lambda w, **bounds: w.db.profile("SELECT (COUNT(*) AS ?n) " + CROSS, **bounds),
    "run": lambda w, **bounds: len(w.db.prepare("SELECT (COUNT(*) AS ?n) " + CROSS).run(**bounds)),
    "update": lambda w, **bounds: w.db.update("INSERT { ?a <http://e/q> ?f } WHERE " + CROSS, **bounds),
    "update in its turn": lambda w, **bounds: w.held(w.db).update("CLEAR ALL", **bounds),
    "transaction in its turn": lambda w, **bounds: w.held(w.store).transaction(**bounds),
    "update of a transaction": lambda w, **bounds: w.db.transaction().update(
        "INSERT { ?a <http://e/q> ?f } WHERE " + CROSS, **bounds
    ),
    "query of a transaction": lambda w, **bounds: len(
        w.db.transaction().query("SELECT (COUNT(*) AS ?n) " + CROSS, **bounds)
    ),
    "sql of a transaction": lambda w, **bounds: len(
        w.db.transaction().sql("SELECT COUNT(*) AS n FROM " + ", ".join(f'"http://e/p" AS t{n}' for n in "abcdef"), **bounds)
    ),
    "answer as bytes": lambda w, **bounds: w.db.serialize("SELECT (COUNT(*) AS ?n) " + CROSS, "csv", **bounds),
    "answer into a file": lambda w, **bounds: w.db.write(
        "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }", os.devnull, format="csv", **bounds
    ),
    "answer into a pipe without a reader": lambda w, **bounds: w.db.write("ASK {}", w.pipe("out.json"), **bounds),
    "answer into a pipe that nobody empties": lambda w, **bounds: w.db.write(
        "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }", w.unread("rows.csv"), **bounds
    ),
    "load of a pipe without a writer": lambda w, **bounds: w.db.load(w.pipe("in.nt"), **bounds),
    "load into a store of a pipe": lambda w, **bounds: w.store.load(w.pipe("in.ttl"), **bounds),
    "load in its turn": lambda w, **bounds: w.held(w.store).load(data="<http://e/a> <http://e/b> 1 .", **bounds),
    "dump to a pipe without a reader": lambda w, **bounds: w.store.dump(w.pipe("out.nt"), **bounds),
    "compact in its turn": lambda w, **bounds: w.held(w.changed()).compact(**bounds),
    "a frame without an end": lambda w, **bounds: w.db.sql("SELECT COUNT(*) AS n FROM f", f=frames(), **bounds),
    "network": lambda w, **bounds: vicus.Network("box n = numbers(to: 100000000000); box c = collect; n -> c;").run(
        **bounds
    ),
    "box": lambda w, **bounds: network(w, endless).run(**bounds),
    "generator": lambda w, **bounds: network(w, endless_generator).run(**bounds),
    "map": lambda w, **bounds: vicus.Runtime(threads=2).map(endless, array(), parts=2, **bounds),
}


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.kept.clear()


def works_on(world: World) -> None:
    world.kept.clear()
    assert len(world.db) == 3000 and len(world.db.query("SELECT ?s { ?s <http://e/p> 7 }")) == 1
    assert len(world.store) >= 100_000
    world.db.update("INSERT DATA { <http://e/x> <http://e/y> 1 }")
    assert vicus.Network("box n = numbers(to: 5); box r = collect; n -> r;").run().rows


#: These take milliseconds, and not for ever.
SHORT = ("plan", "prepare")


@pytest.mark.parametrize("name", CALLS)
def test_time_ends_every_call(world: World, name: str) -> None:
    cancel = vicus.Cancel()
    with pytest.raises(vicus.Timeout):
        CALLS[name](world, timeout=0.0001 if name in SHORT else 0.1, cancel=cancel)
    # The handle is that of others, too.
    assert not cancel.cancelled
    works_on(world)


@pytest.mark.parametrize("name", CALLS)
def test_a_handle_ends_every_call(world: World, name: str) -> None:
    cancel = vicus.Cancel()
    timer = threading.Timer(0.1, cancel.cancel)
    if name in SHORT:
        cancel.cancel()
    timer.start()
    with pytest.raises(vicus.Cancelled):
        CALLS[name](world, cancel=cancel)
    timer.join()
    works_on(world)


@pytest.mark.parametrize("name", ["count", "update", "load of a pipe without a writer", "box", "map"])
def test_time_ends_the_calls_of_other_threads(world: World, name: str) -> None:
    told: list[BaseException] = []

    def call() -> None:
        try:
            CALLS[name](world, timeout=0.1)
        except vicus.Timeout as error:
            told.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert len(told) == 1
    works_on(world)


def test_copies_and_checks_are_ended(world: World, tmp_path: pathlib.Path) -> None:
    for number, bounds in enumerate([{"timeout": 0.0}, {"cancel": vicus.Cancel()}]):
        if "cancel" in bounds:
            bounds["cancel"].cancel()  # type: ignore[attr-defined]
        for call in [
            lambda: world.store.backup(tmp_path / f"copy{number}", **bounds),  # noqa: B023
            lambda: world.store.dump(tmp_path / f"copy{number}.nt", **bounds),  # noqa: B023
            lambda: world.store.check(**bounds),  # noqa: B023
            lambda: world.changed().compact(**bounds),  # noqa: B023
        ]:
            with pytest.raises((vicus.Timeout, vicus.Cancelled)):
                call()
    assert not list(tmp_path.glob("copy*.nt"))
    assert "100001" in world.store.check().replace(",", "")


@pytest.mark.parametrize("timeout", [-1, float("nan"), "soon"])
def test_wrong_times_are_refused(world: World, timeout: Any) -> None:
    for name in ["count", "load in its turn", "network", "compact in its turn", "transaction in its turn", "map"]:
        with pytest.raises((vicus.ArgumentError, TypeError)):
            CALLS[name](world, timeout=timeout)
        world.kept.clear()


def test_code_that_hears_nothing_is_left(python: Callable[..., Any]) -> None:
    python("""
import sys, threading, time, vicus
began, ended = threading.Event(), threading.Event()
def deaf(batch):
    began.set()
    ended.wait()
    return batch
net = vicus.Network()
net.library("numbers", to=5) | deaf | net.collect()
try:
    net.run(timeout=0.1)
except vicus.Timeout:
    assert began.is_set()
else:
    sys.exit(3)
# Others go on meanwhile.
assert len(vicus.Network("box n = numbers(to: 5); box r = collect; n -> r;").run().rows) == 5
ended.set()
""")


def test_an_interrupt_stays_with_its_call() -> None:
    """Threads keep the interpreter's state between two calls: an exception for the code of one must not meet the next."""

    def busy(batch: Any) -> Any:
        for _ in range(500):
            pass
        return batch

    cut, whole = vicus.Network(), vicus.Network()
    cut.library("numbers", to=4_000_000) | busy | cut.collect()
    whole.library("numbers", to=5) | busy | whole.collect()
    seed = random.randrange(1 << 32)
    chance, late = random.Random(seed), 0
    for number in range(300):
        try:
            cut.run(timeout=chance.uniform(0.0001, 0.008))
        except vicus.Timeout:
            late += 1
        assert len(whole.run().rows) == 5, (seed, number)
    assert late > 0, seed


def test_one_thread_goes_on_beside_a_box_that_waits(python: Callable[..., Any]) -> None:
    python("""
import os, threading
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import vicus
began, ended, told = threading.Event(), threading.Event(), []
def waits(batch):
    began.set()
    told.append(ended.wait(60))
    return batch
net = vicus.Network()
net.library("numbers", to=5) | waits | net.collect()
runs = threading.Thread(target=net.run)
runs.start()
assert began.wait(60)
# The one thread waits in the box, and another one works for it.
assert len(vicus.Network("box n = numbers(to: 5); box r = collect; n -> r;").run().rows) == 5
ended.set()
runs.join()
assert told == [True]
""")


def test_pipes_are_read_and_written(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe.nt")
    lines = [f"<http://e/{n}> <http://e/p> <http://e/o> .\n" for n in range(50_000)]

    def write() -> None:
        with open(tmp_path / "pipe.nt", "w") as file:
            file.writelines(lines)

    writer = threading.Thread(target=write)
    writer.start()
    db = vicus.memory()
    assert db.load(tmp_path / "pipe.nt") == 50_000
    writer.join()
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.extend(open(tmp_path / "pipe.nt")))
    reader.start()
    assert db.dump(tmp_path / "pipe.nt") == 50_000
    reader.join()
    assert sorted(read) == sorted(lines)
