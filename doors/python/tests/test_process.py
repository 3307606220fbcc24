"""Processes, threads, event loops, and the end of an interpreter."""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
import vicus

Run = Callable[..., "subprocess.CompletedProcess[str]"]
CROSS = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?n ?o }"


def count(path: str) -> int:
    """Asks a store, in any process."""
    with vicus.open(path, read_only=True) as db:
        return len(db.query("SELECT ?s { ?s <http://e/p> ?o }"))


def asked(db: vicus.Database) -> int:
    """Asks a pickled store."""
    with db:
        return len(db.query("SELECT ?s { ?s <http://e/p> ?o }"))


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    where = tmp_path / "store"
    with vicus.open(where) as db:
        db.load(data="".join(f"<http://e/{n}> <http://e/p> {n} .\n" for n in range(100)))
    return str(where)


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_processes_have_stores_of_their_own(path: str, method: str) -> None:
    # This process has threads of its own, none of which a forked child has.
    assert count(path) == 100
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(count, [path] * 4) == [100] * 4
        assert pool.map(asked, [vicus.open(path, read_only=True)]) == [100]


def test_a_forked_child_is_told(python: Run) -> None:
    python("""
import gc, os, vicus
db = vicus.memory()
db.load(data="<http://e/a> <http://e/p> 1 .")
result = db.query("SELECT ?s { ?s ?p ?o }")
change = db.transaction()
child = os.fork()
if child == 0:
    for call in [lambda: db.query("ASK {}"), lambda: db.update("CLEAR ALL"), lambda: len(db), result.fetchall,
                 lambda: db.load(data=""), lambda: change.update("CLEAR ALL"), lambda: result.__arrow_c_stream__(),
                 lambda: result.seconds, lambda: result._native.rows, lambda: result._native.is_over, result.cancel,
                 lambda: result._native.failed]:
        try:
            call()
        except vicus.ForkError as error:
            assert "open it anew" in str(error)
        else:
            os._exit(3)
    # What is made here works here.
    own = vicus.memory()
    own.load(data="<http://e/a> <http://e/p> 1, 2 .")
    if len(own.query("SELECT ?o { ?s ?p ?o }")) != 2:
        os._exit(4)
    del db, result, change, own
    gc.collect()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
change.rollback()
assert len(result.fetchall()) == 1 and len(db) == 1
""")


def test_a_forked_child_has_arrays_and_networks_but_no_threads_of_its_parent(python: Run) -> None:
    pytest.importorskip("numpy")
    python("""
import gc, os, vicus
runtime = vicus.Runtime(threads=2)
array, other = runtime.empty(1000, "int64"), vicus.empty(10)
net = vicus.Network("box n = numbers(to: 10); box rows = collect; n -> rows;")
assert len(net.run().rows) == 10
child = os.fork()
if child == 0:
    for call in [lambda: runtime.empty(1000, "int64"), lambda: runtime.map(len, array), lambda: runtime.threads]:
        try:
            call()
        except vicus.ForkError as error:
            assert "make it anew" in str(error)
        else:
            os._exit(3)
    # Memory is the child's as well; the network is a text, and its threads are made here.
    array[:] = 7
    if int(array.sum()) != 7000 or len(net.run().rows) != 10:
        os._exit(4)
    if len(vicus.empty(10)) != 10 or vicus.Runtime(threads=1).map(len, array, parts=2) != [500, 500]:
        os._exit(5)
    del runtime, array, other, net
    gc.collect()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert runtime.threads == 2 and int(array.sum()) == 0
""")


def test_a_child_that_exits_does_not_hang(python: Run) -> None:
    python(
        """
import os, sys, vicus
db = vicus.open(sys.argv[1])
db.update("INSERT DATA { <http://e/a> <http://e/p> 1 }")
child = os.fork()
if child == 0:
    # The whole of an interpreter's end.
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert len(db) == 1
""",
        os.path.join(os.environ.get("TMPDIR", "/tmp"), f"vicus-exits-{os.getpid()}"),
    )


@pytest.mark.parametrize(
    "left",
    [
        "db.query(CROSS)",
        "result = db.query(CROSS)",
        "threading.Thread(target=lambda: db.query(CROSS).fetchall(), daemon=True).start(); time.sleep(0.2)",
        "threading.Thread(target=lambda: db.update(UPDATE), daemon=True).start(); time.sleep(0.2)",
        "change = db.transaction()",
        "capsule = db.query('SELECT * { ?a ?b ?c . ?d ?e ?f }').__arrow_c_stream__()",
        "keep = [db]; keep.append(keep)",
        "raise SystemExit(0)",
    ],
)
def test_an_interpreter_ends_while_queries_run(python: Run, left: str) -> None:
    python(f"""
import threading, time, vicus
CROSS = {CROSS!r}
UPDATE = "INSERT {{ ?a <http://e/q> ?o }} WHERE " + CROSS[CROSS.index("{{"):]
db = vicus.memory()
db.load(data="".join(f"<http://e/{{n}}> <http://e/p> {{n}} .\\n" for n in range(1000)))
{left}
""")


def test_threads_share_a_database() -> None:
    db = vicus.memory()

    def work(number: int) -> int:
        for step in range(20):
            db.update(
                "INSERT DATA { ?s <http://e/p> ?n }",
                bind={"s": vicus.IRI(f"http://e/{number}"), "n": step},
            )
        return len(
            db.query(
                "SELECT ?n { ?s <http://e/p> ?n }",
                bind={"s": vicus.IRI(f"http://e/{number}")},
            )
        )

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [20] * 8
    assert len(db) == 160


def test_results_move_between_threads() -> None:
    db = vicus.memory()
    db.load(data="".join(f"<http://e/{n}> <http://e/p> {n} .\n" for n in range(5000)))
    result = db.query("SELECT ?s ?o { ?s <http://e/p> ?o }")
    rows: list[object] = []
    threads = [threading.Thread(target=lambda: rows.extend(result.fetchall())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Each row has one reader.
    assert len(rows) == 5000 == len(set(rows))


def test_an_event_loop_goes_on() -> None:
    db = vicus.memory()
    db.load(data="".join(f"<http://e/{n}> <http://e/p> {n} .\n" for n in range(300)))

    async def main() -> None:
        rows, truth = await asyncio.gather(
            db.query_async("SELECT ?s { ?s <http://e/p> ?o }"),
            db.query_async("ASK { <http://e/1> ?p ?o }"),
        )
        assert len(rows.fetchall()) == 300 and bool(truth)
        with pytest.raises(vicus.SyntaxError):
            await db.query_async("nonsense")
        with pytest.raises(vicus.Timeout):
            await db.query_async(CROSS, timeout=0.05)
        task = asyncio.create_task(db.query_async(CROSS))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    # The query ends with its task: else the loop's end would wait for its thread.
    asyncio.run(main())


def test_subinterpreters_are_refused(python: Run) -> None:
    done = python("""
import vicus
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    try:
        import _interpreters as interpreters
    except ImportError:
        raise SystemExit(0)
other = interpreters.create()
done = interpreters.run_string(other, '''
try:
    import vicus
except ImportError as error:
    assert "subinterpreter" in str(error), error
else:
    raise SystemExit("it was imported")
''')
assert done is None, done
""")
    assert done.returncode == 0


def test_objects_in_circles_are_collected() -> None:
    import gc
    import weakref

    class Holder:
        pass

    holder = Holder()
    holder.db = vicus.memory()  # type: ignore[attr-defined]
    holder.result = holder.db.query("SELECT * { ?s ?p ?o }")  # type: ignore[attr-defined]
    holder.self = holder  # type: ignore[attr-defined]
    gone = weakref.ref(holder.db)  # type: ignore[attr-defined]
    del holder
    gc.collect()
    assert gone() is None


def test_importing_takes_no_other_packages(python: Run) -> None:
    done = python("""
import sys
before = set(sys.modules)
import vicus
heavy = {"numpy", "pandas", "polars", "pyarrow", "rdflib", "asyncio", "IPython", "multiprocessing"}
print(sorted(heavy & (set(sys.modules) - before)))
""")
    assert done.stdout == "[]\n"


def test_the_command_line_comes_along(tmp_path: pathlib.Path) -> None:
    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "vicus", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=dict(os.environ))

    assert run("--version").stdout == f"vicus {vicus.__version__}\n"
    (tmp_path / "a.nt").write_text("<http://e/a> <http://e/p> <http://e/b> .\n")
    loaded = run("load", "--store", tmp_path / "store", "--data", tmp_path / "a.nt")
    assert loaded.returncode == 0, loaded.stderr
    answered = run(
        "query",
        "--store",
        tmp_path / "store",
        "--format",
        "csv",
        "SELECT ?o { <http://e/a> ?p ?o }",
    )
    assert answered.stdout.split() == ["o", "http://e/b"], answered.stderr
    assert run("query", "--store", tmp_path / "store", "nonsense").returncode == 1
    assert run("no-such-command").returncode == 2
    assert run("strategies").returncode == 0
