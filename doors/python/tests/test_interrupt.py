"""Ctrl-C in every phase: the call ends by KeyboardInterrupt, and the database works on."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import pytest

# Each program begins something that takes hours, or for ever, after it has said "begun".
HEAD = """
import os, sys, threading, time, signal
import vicus

def begun():
    # A moment later, so that the call is under way.
    sys.stdout.write("begun\\n")
    sys.stdout.flush()

db = vicus.memory()
db.load(data="".join(f"<http://e/{n}> <http://e/p> {n} .\\n" for n in range(3000)))
CROSS = "?a ?b ?c . ?d ?e ?f . ?g ?h ?i . "
"""

TAIL = """
except KeyboardInterrupt:
    # All is as it was, and works.
    assert len(db) == 3000, len(db)
    assert len(db.query("SELECT ?s { ?s <http://e/p> 7 }")) == 1
    db.update("INSERT DATA { <http://e/x> <http://e/y> 1 }")
    print("interrupted")
else:
    print("ended")
"""

PHASES = {
    "count": "for _ in range(10**9): len(db.query('SELECT (COUNT(*) AS ?n) {' + CROSS + '}'))",
    "sort": "db.query('SELECT ?a ?d ?g {' + CROSS + '} ORDER BY ?a ?d ?g').fetchall()",
    "rows": "for row in db.query('SELECT ?a ?d ?g {' + CROSS + '}'): pass",
    "ask": "bool(db.query('ASK {' + CROSS + 'FILTER (?c + ?f + ?i < 0) }'))",
    "parse": "text = 'SELECT * { VALUES ?x {' + '\"abcdefgh\" ' * 5_000_000 + '} }'\nbegun()\n"
    "while True: db.query(text, memory='1T')",
    "plan": "text = 'SELECT * {' + ' '.join(f'?a{n} ?b{n} ?a{n+1} .' for n in range(300)) + '}'\nbegun()\n"
    "while True: db.explain(text)",
    "update": "db.update('INSERT { ?a <http://e/q> ?f } WHERE {' + CROSS + '}')",
    "transaction": "with db.transaction() as t: t.update('INSERT { ?a <http://e/q> ?f } WHERE {' + CROSS + '}')",
    "turn": "t = db.transaction(); db.update('CLEAR ALL')",
    "profile": "db.profile('SELECT (COUNT(*) AS ?n) {' + CROSS + '}')",
    "sql": 'db.sql("SELECT COUNT(*) AS n FROM SPARQL(\'SELECT * {" + CROSS + "}\') AS s").fetchall()',
    "turn to fill": "other = vicus.memory(); t = other.transaction(); other.load(data='<http://e/a> <http://e/b> 1 .')",
    "turn to load": "t = db.transaction(); db.load(data='<http://e/a> <http://e/b> 1 .')",
    "turn to change": "t = db.transaction()\n"
    "iri = ('iri', 'http://e/a', None, None)\n"
    "vicus._vicus.change(db._native, [(iri, iri, iri, None, True)])",
    "turn to compact": "store = vicus.open(sys.argv[1] + '/store')\n"
    "store.update('INSERT DATA { <http://e/a> <http://e/b> 1 }')\nt = store.transaction()\nstore.compact()",
    "turn to load a store": "store = vicus.open(sys.argv[1] + '/store')\n"
    "t = store.transaction()\nstore.load(data='<http://e/a> <http://e/b> 1 .')",
    "load": "os.mkfifo(sys.argv[1] + '/endless.nt')\n"
    "def write():\n"
    "    with open(sys.argv[1] + '/endless.nt', 'w') as file:\n"
    "        n = 0\n"
    "        while True:\n"
    "            file.write(f'<http://e/{n}> <http://e/q> <http://e/{n}> .\\n')\n"
    "            n += 1\n"
    "threading.Thread(target=write, daemon=True).start()\nother = vicus.memory()\nbegun()\n"
    "other.load(sys.argv[1] + '/endless.nt')",
    "pipe without a writer": "os.mkfifo(sys.argv[1] + '/silent.nt')\ndb.load(sys.argv[1] + '/silent.nt')",
    "pipe without a reader": "os.mkfifo(sys.argv[1] + '/out.nt')\ndb.dump(sys.argv[1] + '/out.nt')",
    "pipe that nobody empties": "os.mkfifo(sys.argv[1] + '/out.nt')\n"
    "reader = os.open(sys.argv[1] + '/out.nt', os.O_RDONLY | os.O_NONBLOCK)\ndb.dump(sys.argv[1] + '/out.nt')",
    "frame": "class Slow:\n"
    "    def __arrow_c_stream__(self, requested_schema=None):\n"
    "        return db.query('SELECT ?a {' + CROSS + 'FILTER (?c + ?f + ?i < 0) }').__arrow_c_stream__()\n"
    "db.sql('SELECT COUNT(*) AS n FROM f', f=Slow())",
    "box": "def box(batch):\n    while True: pass\n"
    "net = vicus.Network()\nnet.library('numbers', to=5) | box | net.collect()\nnet.run()",
    "box that catches": "def box(batch):\n    while True:\n        try: time.sleep(0.01)\n        except Exception: pass\n"
    "net = vicus.Network()\nnet.library('numbers', to=5) | box | net.collect()\nnet.run()",
    "box that sleeps": "def box(batch):\n    time.sleep(100000)\n"
    "net = vicus.Network()\nnet.library('numbers', to=5) | box | net.collect()\nnet.run()",
    "generator": "def box(batches):\n    while True: time.sleep(0.001)\n    yield next(batches)\n"
    "net = vicus.Network()\nnet.library('numbers', to=5) | box | net.collect()\nnet.run()",
    "loop": "begun()\nwhile True: db.query('SELECT ?s { ?s <http://e/p> 7 }').fetchall()",
    "updates": "begun()\nwhile True: db.update('INSERT DATA { <http://e/1> <http://e/p> 1 }')",
}


# CPython ends by SIGINT once code that exec() or eval() had as text has raised KeyboardInterrupt, even if it
# was caught outside of them; the next such text forgets it. Imports run such texts: namedtuple and dataclass do.
END = '\nexec("")\n'


def interrupted(program: str, *arguments: object) -> str:
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-c",
        program + END,
        *map(str, arguments),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "begun\n", (
            line,
            process.stderr.read() if process.stderr else "",
        )
        # The call is under way soon; if the signal comes before, it ends the program's next step all the same.
        __import__("time").sleep(0.3)
        process.send_signal(signal.SIGINT)
        said, wrong = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, (process.returncode, said, wrong)
    return said


@pytest.mark.parametrize("phase", PHASES)
def test_ctrl_c_ends_the_call(phase: str, tmp_path: pathlib.Path) -> None:
    body = PHASES[phase]
    if "begun()" not in body:
        body = "begun()\n" + body
    indented = "\n".join("    " + line for line in body.splitlines())
    tail = TAIL
    if phase.startswith(("turn", "load")):
        tail = TAIL.replace("    db.update(", "    t = None\n    db.update(")
    assert interrupted(HEAD + "try:\n" + indented + tail, tmp_path) == "interrupted\n"


@pytest.mark.parametrize("convert", ["arrow", "polars", "pandas"])
def test_ctrl_c_ends_a_frame(convert: str) -> None:
    pytest.importorskip({"arrow": "pyarrow"}.get(convert, convert))
    pytest.importorskip("pyarrow")
    # pyarrow imports pandas, if it is there, when it makes its first table.
    body = f"""
import pyarrow, {convert if convert != "arrow" else "pyarrow"}
pyarrow.table({{"a": [1]}})
try:
    begun()
    db.query('SELECT ?a ?d ?g {{' + CROSS + 'FILTER (?c + ?f + ?i < 0) }}').{convert}()
"""
    assert interrupted(HEAD + body + TAIL) == "interrupted\n"


def test_ctrl_c_ends_the_writing_of_a_store(tmp_path: pathlib.Path) -> None:
    program = (
        HEAD
        + """
store = vicus.open(sys.argv[1] + "/store")
store.load(data="".join(f"<http://e/{n}> <http://e/q> <http://e/{n % 1000}> .\\n" for n in range(300_000)))
before = len(store)
try:
    begun()
    for number in range(10**9):
        store.backup(f"{sys.argv[1]}/copy{number}")
        store.dump(f"{sys.argv[1]}/copy.nt")
        store.check()
except KeyboardInterrupt:
    assert len(store) == before and str(before) in store.check()
    store.close()
    assert len(vicus.open(sys.argv[1] + "/store", create=False)) == before
    print("interrupted")
"""
    )
    assert interrupted(program, tmp_path) == "interrupted\n"


def test_another_handler_is_heard_while_a_query_runs() -> None:
    program = (
        HEAD
        + """
def handler(number, frame):
    raise RuntimeError("enough")

signal.signal(signal.SIGINT, handler)
try:
    begun()
    db.query('SELECT (COUNT(*) AS ?n) {' + CROSS + '}').fetchall()
except RuntimeError as error:
    print(error)
"""
    )
    assert interrupted(program) == "enough\n"


def test_a_thread_runs_while_another_asks() -> None:
    program = """
import threading, vicus
db = vicus.memory()
db.load(data="".join(f"<http://e/{n}> <http://e/p> {n} .\\n" for n in range(300)))
steps = 0
def step():
    global steps
    while not over: steps += 1
over = False
other = threading.Thread(target=step)
other.start()
try:
    db.query("SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }", timeout=0.5).fetchall()
except vicus.Timeout:
    pass
over = True
other.join()
assert steps > 1000, steps
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=120, env=dict(os.environ)).returncode == 0
