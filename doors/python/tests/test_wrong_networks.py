"""Wrong things in wrong order, for what `test_wrong` has not: networks whose boxes misbehave, nodes, threads, placed
arrays, and rdflib's store. An exception comes back, and the interpreter goes on."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import tempfile
from typing import Any, Callable, Iterator

import pytest
import vicus
from test_wrong import EXPECTED, odd_things
from vicus import _vicus

#: Texts that are networks, or nearly so.
TEXTS = [
    "", ";", "box", "box n = numbers(to: 5);", "box n = numbers(to: 100000); box rows = collect; n -> rows;",
    "box n = numbers(to: 50); box rows = collect; n -> rows; n -> rows;", "box n = numbers(to: -1); box r = collect; n -> r;",
    'box n = numbers(to: 9); box f = filter(where: "n / 0 = 1"); box r = collect; n -> f -> r;',
    'box n = numbers(to: 9); box p = python(of: "f"); box r = collect; n -> p -> r;', "box r = collect; r -> r;",
    'box n = frame(of: "t"); box r = collect; n -> r;', "box n = numbers(to: 3) on node 1; box r = collect; n -> r;",
    'box n = numbers(to: 30) on node *; box p = python(of: "f") on node 7; box r = collect; n -> p -> r;',
    "param k: integer = 3; box n = numbers(to: k); box r = collect; n -> r;", "\0", "box \ud800 = collect;", "(" * 5000,
    'box n = lines(from: "nothing.txt"); box r = collect; n -> r;', 'box n = numbers(to: 5); box w = write_lines(to: "/");',
]  # fmt: skip

KINDS = [*(name for name, _ in _vicus.network_kinds()), "no_kind", "", "numbers;", "\ud800"]


class Junk:
    """An object whose stream is none, breaks, or was read."""

    def __init__(self, made: Callable[[], object]) -> None:
        self._made = made

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._made()


def spent() -> object:
    """A stream that was read already."""
    made = vicus.memory().query("SELECT (1 AS ?n) {}").__arrow_c_stream__()
    _vicus.Frame(Junk(lambda: made))
    return made


def breaks(*_: object) -> Any:
    raise KeyError("wrong")


def leaves(*_: object) -> Any:
    raise SystemExit(3)


def yields_junk(batches: Iterator[Any]) -> Iterator[Any]:
    for _ in batches:
        yield 7


def yields_late(batches: Iterator[Any]) -> Iterator[Any]:
    yield from list(batches)
    raise ValueError("late")


def stops_soon(batches: Iterator[Any]) -> Iterator[Any]:
    yield next(batches)


def takes_all(batches: Iterator[Any]) -> Iterator[Any]:
    for _ in itertools.count():
        yield next(batches)


def recurses(batch: Any) -> Any:
    net = vicus.Network("box n = numbers(to: 3); box rows = collect; n -> rows;")
    net.run(timeout=1)
    return recurses(batch)


def forever(batch: Any) -> Any:
    while True:
        pass


FUNCTIONS: list[Any] = [
    lambda batch: batch, lambda batch: None, lambda batch: 7, lambda batch: [batch], lambda: None, lambda batch, more: batch,
    lambda batch: Junk(lambda: None), lambda batch: Junk(breaks), lambda batch: Junk(spent), breaks, leaves, yields_junk,
    yields_late, stops_soon, takes_all, recurses, forever, len, print, int, vicus.memory,
    lambda batch: vicus.memory().query("SELECT (1 AS ?other) {}"), lambda batch: batch.__arrow_c_stream__() and batch,
]  # fmt: skip

COLUMNS = [None, "n: int64", "n: int64 -> m: str", "n", ": int64", "n: no_type", "\ud800: str", "a: str, a: str", 3]


class Attack:
    def __init__(self, seed: int, folder: str) -> None:
        self.chance, self.folder = random.Random(seed), folder
        self.things: list[Any] = []
        self.nodes: list[vicus.Node] = []
        self.networks: list[vicus.Network] = [vicus.Network()]
        self.parts: list[Any] = []
        self.odd = [thing for thing in odd_things(self.chance, folder) if thing not in (len, int)]

    def any(self) -> Any:
        """Something, which is right now and then."""
        return self.chance.choice([*self.odd, *self.things, *self.nodes, *self.networks, *FUNCTIONS, Junk(breaks), Junk(spent)])

    def some(self, least: int, most: int) -> list[Any]:
        return [self.any() for _ in range(self.chance.randint(least, most))]

    def named(self, names: list[str]) -> dict[str, Any]:
        return {self.chance.choice(names): self.any() for _ in range(self.chance.choice([0, 0, 1, 1, 2]))}

    def network(self) -> vicus.Network:
        return self.chance.choice(self.networks)

    # What may be done.

    def begins(self) -> None:
        text = self.chance.choice(TEXTS)
        if self.chance.random() < 0.3 and text:
            at = self.chance.randrange(len(text))
            text = text[:at] + self.chance.choice(["", "\0", "é", ";", "->", text]) + text[at + 1 :]
        boxes = {name: self.chance.choice(FUNCTIONS) for name in ("f", "g") if self.chance.random() < 0.8}
        frames = {"t": self.any()} if self.chance.random() < 0.3 else None
        self.networks.append(vicus.Network(text, boxes=boxes, frames=frames))

    def source(self) -> None:
        rows = vicus.memory().query("SELECT ?n { VALUES ?n { 1 2 3 } }")
        self.parts.append(self.network().source(self.any() if self.chance.random() < 0.5 else rows))

    def box(self) -> None:
        function = self.chance.choice(FUNCTIONS)
        if self.chance.random() < 0.5:
            frames: Any = self.chance.choice([None, "pyarrow", "polars", "pandas", 3])
            function = vicus.box(self.chance.choice(COLUMNS), frames=frames)(function)  # type: ignore[arg-type]
        self.parts.append(self.network().box(function))

    def library(self) -> None:
        kind = self.chance.choice(KINDS)
        if kind in ("lines", "ticks", "receive", "listen"):
            # They wait for others, as they are to do.
            return
        parameters = self.named(["to", "where", "select", "by", "on", "rows", "parts", "from", "of", "column", "\ud800"])
        self.parts.append(self.network().library(kind, **parameters))

    def collects(self) -> None:
        self.parts.append(self.network().collect(self.chance.choice([None, "rows", "", "a b", self.any()])))

    def joins(self) -> None:
        if self.parts:
            self.chance.choice(self.parts) | (self.chance.choice(self.parts) if self.chance.random() < 0.7 else self.any())

    def places(self) -> None:
        if self.parts:
            self.chance.choice(self.parts).on(self.chance.choice([0, 1, "*", -1, self.any()]))

    def whole(self) -> None:
        """A network that is right but for its functions."""
        net = vicus.Network()
        part: Any = net.library("numbers", to=self.chance.choice([0, 3, 20_000]))
        for _ in range(self.chance.randint(1, 3)):
            part = part | net.box(vicus.box(self.chance.choice(COLUMNS[:3]))(self.chance.choice(FUNCTIONS)))  # type: ignore[arg-type]
        _ = part | net.collect()
        self.networks.append(net)
        self.runs(net)

    def runs(self, net: vicus.Network | None = None) -> None:
        named = self.named(["strategy", "threads", "memory", "most_boxes", "trace", "trace_last", "parameters", "cancel"])
        if not isinstance(named.get("threads"), int) or named["threads"] not in (0, 1):
            named["threads"] = 2
        if self.chance.random() < 0.4:
            addresses: list[Any] = [node.address for node in self.nodes]
            given = self.chance.sample([*addresses, "127.0.0.1:1", "", "nowhere.invalid:1", 7], self.chance.randint(0, 2))
            named |= {"nodes": given, "node_wait": 0.1, "token": self.chance.choice([None, "secret", "wrong"])}
            named |= self.named(["retries", "spare_nodes", "node_silence", "token"])
        self.things.append((net or self.network()).run(timeout=self.chance.choice([0.05, 1.0]), **named))

    def looks(self) -> None:
        net = self.network()
        self.chance.choice([net.check, net.dot, net.svg, lambda: net.text, lambda: repr(net), net.run.__doc__.split])()

    def node(self) -> None:
        if len(self.nodes) > 3:
            return
        listen = self.chance.choice(["127.0.0.1:0"] * 3 + ["127.0.0.1", "0.0.0.0:0", ":", "nowhere.invalid:1", self.any()])
        named = self.named(["token", "folder", "memory", "functions"])
        if self.chance.random() < 0.4:
            named |= {"token": "secret", "functions": True}
        self.nodes.append(vicus.Node(listen, threads=1, **named))

    def ends_node(self) -> None:
        if self.nodes:
            node = self.chance.choice(self.nodes)
            self.chance.choice([node.close, node.__enter__, lambda: node.__exit__(None, None, None), lambda: repr(node)])()
            if self.chance.random() < 0.5:
                self.nodes.remove(node)

    def rows(self) -> None:
        """The rows of a run, taken once and again."""
        ran = [thing for thing in self.things if isinstance(thing, vicus.Ran)]
        for name in (self.chance.choice(ran) if ran else {}):
            rows = ran[0][name]
            made = rows.__arrow_c_stream__(self.any())
            self.things += [rows, _vicus.Frame(Junk(lambda: made))]
            _vicus.Frame(Junk(lambda: made))

    def threads(self) -> None:
        self.things.append(vicus.Runtime(self.chance.choice([None, "las", "no strategy", self.any()]), 2))

    def arrays(self) -> None:
        runtimes = [thing for thing in self.things if isinstance(thing, vicus.Runtime)]
        runtime = self.chance.choice(runtimes) if runtimes else vicus.Runtime(threads=1)
        shape = self.chance.choice([10, (3, 4), 0, (), (1 << 40, 1 << 40), (1 << 62,), self.any()])
        array = runtime.empty(shape, self.chance.choice(["f8", "i1", float, object, self.any()]),
                              self.chance.choice([None, "fine", "blocked", "on:99", "weighted:", self.any()]))  # fmt: skip
        self.things.append(array)
        vicus.footprint(array)
        vicus.footprint(self.any())

    def maps(self) -> None:
        runtimes = [thing for thing in self.things if isinstance(thing, vicus.Runtime)]
        runtime = self.chance.choice(runtimes) if runtimes else vicus.Runtime(threads=2)
        runtime.map(self.any(), self.any() if self.chance.random() < 0.3 else runtime.empty(100), self.chance.choice([1, 3, 0]),
                    timeout=0.5)  # fmt: skip

    def module(self) -> None:
        """The module itself, without the package's checks."""
        calls: list[Any] = [
            lambda: _vicus.footprint(*self.some(2, 2)),
            lambda: _vicus.Runtime(*self.some(0, 1), 1),
            lambda: _vicus.Node(self.chance.choice(["127.0.0.1:0", self.any()]), *self.some(2, 2), 1, *self.some(2, 2)),
            lambda: _vicus.show_network(*self.some(4, 4)),
            lambda: _vicus.show_network(self.chance.choice(TEXTS), [], [], []),
            lambda: _vicus.run_network(
                self.chance.choice(TEXTS), [("f", self.any(), self.chance.choice(COLUMNS))], [], [], None, 1,
                *self.some(2, 2), None, self.any(), 1.0, None,
            ),
            lambda: _vicus.run_over_nodes(
                self.chance.choice(TEXTS), [], [], [], ["127.0.0.1:1"], [], self.any(), 0, *self.some(2, 2), self.any(),
                self.any(), 1, None, 1.0, None,
            ),
            lambda: _vicus.Runtime("las", 1).place(*self.some(4, 4)),
            lambda: _vicus.Runtime("las", 1).place([2], "<f8", self.chance.choice([0, 1, 8, 1 << 62]), None),
            lambda: _vicus.Runtime("las", 1).map(self.any(), [(self.any(), self.any())], 0.5, None),
            lambda: _vicus.wait_for_unfinished(self.chance.choice([0.0, -1.0, float("nan"), self.any()])),
        ]  # fmt: skip
        self.chance.choice(calls)()

    def graph(self) -> None:
        """rdflib's store, by its own methods."""
        try:
            import rdflib

            import vicus.rdflib
        except ImportError:
            return
        store = vicus.rdflib.Store(self.chance.choice([None, vicus.memory(), self.any()]))
        graph: Any = rdflib.Graph(store=store)
        terms = [rdflib.URIRef("http://e/a"), rdflib.BNode("b"), rdflib.Literal("x", lang="en"), rdflib.Literal(7), None]
        terms += [rdflib.URIRef("\ud800"), rdflib.Literal("\ud800"), rdflib.Literal("x", datatype=rdflib.URIRef("a b"))]
        some = lambda: self.chance.choice(terms if self.chance.random() < 0.8 else [self.any()])  # noqa: E731
        for _ in range(self.chance.randint(1, 6)):
            triple = (some(), some(), some())
            step = self.chance.choice(
                [
                    lambda: store.add(triple, graph), lambda: store.remove(triple, graph), lambda: triple in graph,
                    lambda: list(store.triples(triple, graph)), lambda: list(store.triples(triple, None)),
                    lambda: list(store.triples(self.any(), graph)), lambda: list(store.triples(triple, self.any())),
                    lambda: next(store.triples(triple, graph)), lambda: len(graph), lambda: store.close(),
                    lambda: store.open(self.any()), lambda: graph.query(self.any()), lambda: graph.update(self.any()),
                    lambda: store.destroy(self.any()), lambda: list(store.contexts(triple)),
                    lambda: store.database.close(),
                ]  # fmt: skip
            )
            try:
                step()
            except EXPECTED:
                pass
            except Exception as error:
                # rdflib's own, of texts that are no queries.
                if not type(error).__module__.startswith(("rdflib", "pyparsing")) and type(error) is not AssertionError:
                    raise

    def forgets(self) -> None:
        for kept in (self.things, self.parts, self.networks):
            if len(kept) > 6:
                del kept[self.chance.randrange(len(kept))]


STEPS = [
    Attack.begins, Attack.source, Attack.box, Attack.library, Attack.collects, Attack.joins, Attack.places, Attack.whole,
    Attack.whole, Attack.runs, Attack.runs, Attack.looks, Attack.node, Attack.ends_node, Attack.rows, Attack.threads,
    Attack.arrays, Attack.maps, Attack.module, Attack.module, Attack.graph, Attack.forgets,
]  # fmt: skip


def attack(seed: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        made = Attack(seed, folder)
        for number in range(steps):
            step = made.chance.choice(STEPS)
            print(number, step.__name__, flush=True, file=sys.stderr)
            try:
                step(made)
            except (*EXPECTED, RecursionError):
                continue
        for node in made.nodes:
            node.close()
        # All of it still works.
        net = vicus.Network("box n = numbers(to: 9); box rows = collect; n -> rows;")
        assert len(net.run().rows) == 9
        with vicus.Node(threads=1) as node:
            net = vicus.Network("box n = numbers(to: 9) on node 1; box rows = collect; n -> rows;")
            assert len(net.run(nodes=[node.address]).rows) == 9
        os.chdir("/")


@pytest.mark.parametrize("seconds", [float("nan"), -1.0, float("inf")])
def test_a_wait_of_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(vicus.ArgumentError, match="number of seconds"):
        _vicus.wait_for_unfinished(seconds)


def test_nothing_ends_the_interpreter() -> None:
    seed = random.randrange(1 << 32)
    program = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import test_wrong_networks as t; "
    for part in range(int(os.environ.get("VICUS_SEEDS", "2"))):
        print("seed", seed + part)
        command = [sys.executable, "-X", "faulthandler", "-c", program + f"t.attack({seed + part}, 150)"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300)
        assert done.returncode == 0, (seed + part, done.returncode, done.stderr[-3000:])
