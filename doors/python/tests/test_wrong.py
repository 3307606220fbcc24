"""Wrong things in wrong order: whatever the package is called with, an exception comes back, and the interpreter goes on."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
import tempfile

from typing import Any

import vicus
from vicus import _vicus

#: What calls may raise: our own exceptions, and those of Python for arguments of wrong types.
EXPECTED = (
    vicus.Error,
    TypeError,
    ValueError,
    OverflowError,
    AttributeError,
    OSError,
    NotImplementedError,
    StopIteration,
    MemoryError,
    ImportError,
    # Of an encoding, in a method of texts.
    LookupError,
)


def odd_things(chance: random.Random, folder: str) -> list[object]:
    """Arguments, some of which are right."""
    return [
        None, True, 0, -1, 1, 2**64, 2**63, -(2**70), 0.0, math.nan, math.inf, -math.inf, 1e300, "", " ", "\0", "\ud800",
        "ttl", "default", "lexical", "full", "http://e/g", "http://e/a b", "SELECT * { ?s ?p ?o }", "ASK {}",
        "SELECT (1 AS ?x) {}", "INSERT DATA { <http://e/a> <http://e/b> 1 }", "CLEAR ALL", "SELECT 1 AS n", "2G", "x" * 5000,
        "(" * 3000, b"", b"\xff\xfe", b"<http://e/a> <http://e/b> 1 .", [], [1], ["n"], (), (1, 2, 3), {}, {"s": 1},
        {"s": vicus.IRI("http://e/a")}, {"s": vicus.IRI("no iri")}, {"x": int}, {"x": object}, {1: 2}, object(), int, len,
        vicus, folder, os.path.join(folder, "store"), os.path.join(folder, "a.nt"), os.path.join(folder, "out.nq"),
        vicus.IRI("http://e/a"), vicus.BlankNode("b"), vicus.Literal("x", language="en"), vicus.Cancel(), chance.random(),
    ]  # fmt: skip


def methods(thing: object) -> list[str]:
    return [name for name in dir(thing) if name not in LEFT_OUT and callable(getattr(type(thing), name, None))]


#: They end the process, wait for input by themselves, or belong to every object.
LEFT_OUT = {
    "__class__", "__init_subclass__", "__subclasshook__", "__getattribute__", "__setattr__", "__delattr__", "__dir__",
    "__sizeof__", "__getstate__", "__getnewargs__", "__new__", "query_async", "__reduce_ex__",
}  # fmt: skip


KEYWORDS = [
    "timeout", "memory", "bind", "terms", "types", "data", "graph", "syntax", "threads", "create", "first_rows",
]  # fmt: skip


def chosen(chance: random.Random, folder: str, things: list[object]) -> tuple[list[object], dict[str, object]]:
    """Arguments of a call."""
    arguments = odd_things(chance, folder) + things
    args = [chance.choice(arguments) for _ in range(chance.choice([0, 0, 1, 1, 1, 2, 3, 6]))]
    named = {chance.choice(KEYWORDS): chance.choice(arguments) for _ in range(chance.choice([0, 0, 0, 1, 2]))}
    if named.get("threads") not in (None, 1, 2):
        # Many threads are no fault, and take long.
        named["threads"] = 1
    return args, named


def attack(seed: int, steps: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "a.nt"), "w") as file:
            file.write('<http://e/a> <http://e/b> "c" .\n')
        os.chdir(folder)
        things: list[object] = [vicus.memory()]
        functions: list[Any] = [vicus.memory, vicus.open, vicus.read, vicus.check, vicus.Literal, vicus.IRI, vicus.BlankNode]
        functions += [
            vicus.Result,
            vicus.Database,
            vicus.Prepared,
            vicus.Transaction,
            vicus.SyntaxError,
            vicus.StoreLocked,
            vicus.Network,
            vicus.Box,
            vicus.box,
            vicus.trace,
            vicus.Plan,
            vicus.Operator,
            vicus.Runtime,
        ]
        functions += [
            _vicus.Data.open,
            _vicus.Data.memory,
            _vicus.Frame,
            _vicus.TermCache,
            _vicus.find,
            _vicus.graphs,
        ]
        functions += [_vicus.change, _vicus.check, _vicus.show_network]
        for step in range(steps):
            made = call = args = named = None
            thing = None if chance.random() < 0.3 else chance.choice(things)
            if type(thing).__name__ != "Transaction":
                # A thread that waited for its own transaction would do so for ever.
                things = [other for other in things if type(other).__name__ != "Transaction"]
            call = chance.choice(functions) if thing is None else getattr(thing, chance.choice(methods(thing)))
            args, named = chosen(chance, folder, things)
            print(step, getattr(call, "__qualname__", call), flush=True, file=sys.stderr)
            try:
                made = call(*args, **named)
            except EXPECTED:
                continue
            except RecursionError:
                continue
            ours = type(made).__module__.partition(".")[0] in ("vicus", "builtins") and type(made).__name__ in {
                "Database", "Result", "Prepared", "Transaction", "Data", "Rows", "Frame", "Cancel", "Matches", "TermCache",
                "Network", "Ran", "Runtime",
            }  # fmt: skip
            if ours:
                things.append(made)
            if len(things) > 12:
                del things[chance.randrange(len(things))]
            if not any(isinstance(thing, vicus.Database) for thing in things):
                things.append(vicus.memory())
        # All of it still works.
        db = vicus.memory()
        assert db.load(data="<http://e/a> <http://e/b> 1 .") == 1 and len(db.query("SELECT * { ?s ?p ?o }")) == 1
        os.chdir("/")


def test_nothing_ends_the_interpreter() -> None:
    seed = random.randrange(1 << 32)
    program = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import test_wrong; "
    for part in range(int(os.environ.get("VICUS_SEEDS", "3"))):
        print("seed", seed + part)
        command = [sys.executable, "-X", "faulthandler", "-c", program + f"test_wrong.attack({seed + part}, 400)"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, (seed + part, done.returncode, done.stderr[-3000:])
