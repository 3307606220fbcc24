"""Networks: as text, put together, with boxes in Python."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any, Iterator

import pytest

import vicus

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")


@vicus.box("n: int64 -> n: int64, square: int64", frames="pyarrow")
def square(batch: Any) -> Any:
    n = batch.column("n")
    columns = pa.schema([("n", pa.int64()), ("square", pa.int64())])
    return pa.table({"n": n, "square": [value.as_py() ** 2 for value in n]}, schema=columns)


@vicus.box("total: int64", frames="polars")
def total(batches: Iterator[Any]) -> Iterator[Any]:
    sum_ = 0
    for batch in batches:
        sum_ += batch["n"].sum()
    yield pl.DataFrame({"total": [sum_]}, schema={"total": pl.Int64})


def numbers(count: int) -> Any:
    return pa.table({"n": pa.array(range(count), pa.int64())})


def test_boxes_are_put_together() -> None:
    net = vicus.Network()
    net.source(numbers(1000)) | square | net.collect("squares")
    ran = net.run()
    assert ran["squares"].arrow().to_pydict() == {"n": list(range(1000)), "square": [n * n for n in range(1000)]}
    assert len(ran.rows) == 1000 and ran.rows.columns == ["n", "square"] and list(ran) == ["squares"]
    counts = {name: (taken, sent) for name, _, taken, sent, *_ in ran.counts}
    assert counts["squares"][0] == 1000
    assert "<table>" in ran._repr_html_() and "python" in net._repr_html_() and "digraph" in net.dot()
    # A second run begins anew.
    assert net.run().rows.polars()["square"].sum() == sum(n * n for n in range(1000))


def test_a_generator_sees_all_batches_of_its_run() -> None:
    net = vicus.Network()
    net.source(numbers(100_000)) | total | net.collect()
    for _ in range(3):
        assert net.run().rows.arrow().to_pydict() == {"total": [sum(range(100_000))]}
    empty = vicus.Network()
    empty.source(numbers(0)) | total | empty.collect()
    assert len(empty.run().rows) <= 1


def test_networks_are_text() -> None:
    text = """
        param most: integer = 10;
        box n = numbers(to: most);
        box all = python(of: "pass");
        box even = filter(where: "n % 2 = 0");
        box rows = collect;
        n -> all -> even -> rows;
    """
    net = vicus.Network(text, boxes={"pass": lambda batch: batch})
    rows = net.run().rows.arrow()["n"].to_pylist()
    assert rows and all(n % 2 == 0 and n <= 10 for n in rows)
    assert net.run(parameters={"most": 100}).rows.arrow()["n"].to_pylist()[-1] >= 98
    assert "even" in net.check()
    assert "filter" in vicus.kinds()


def test_frames_go_to_sql_and_back() -> None:
    net = vicus.Network()
    (
        net.source(pl.DataFrame({"name": ["a", "b", "a"], "n": [1, 2, 3]}))
        | net.library("filter", where="n > 1")
        | net.collect()
    )
    rows = net.run().rows
    assert pl.DataFrame(rows).rows() == [("b", 2), ("a", 3)]
    assert vicus.memory().sql("SELECT SUM(n) AS n FROM rows", rows=rows).arrow().to_pydict() == {"n": [5]}


def test_an_exception_fails_its_request_with_the_box_and_its_cause() -> None:
    def breaks(batch: Any) -> Any:
        raise KeyError("what is missing")

    net = vicus.Network()
    net.source(numbers(10)) | breaks | net.collect()
    with pytest.raises(vicus.BoxError, match="breaks.* failed") as caught:
        net.run()
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.__cause__.__traceback__ is not None and "breaks" in caught.value.name

    def breaks_late(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            raise ValueError("behind the first")

    net = vicus.Network()
    net.source(numbers(10)) | breaks_late | net.collect()
    with pytest.raises(vicus.BoxError, match="behind the first"):
        net.run()


def test_wrong_rows_and_wrong_networks_are_told() -> None:
    wrong = vicus.box("n: int64")(lambda batch: pa.table({"m": [1]}))
    net = vicus.Network()
    net.source(numbers(10)) | wrong | net.collect()
    with pytest.raises(vicus.BoxError, match="sends rows of .*m.* and its columns are .*n"):
        net.run()
    for result in [7, "text", [1], object()]:
        net = vicus.Network()
        net.source(numbers(10)) | (lambda batch, made=result: made) | net.collect()
        with pytest.raises(vicus.BoxError):
            net.run()
    for text in [
        "nonsense",
        "box a = nothing;",
        'box a = python(of: "none"); box b = numbers(to: 1); b -> a;',
        "box a = collect;",
    ]:
        with pytest.raises(vicus.NetworkError):
            vicus.Network(text).run()
    with pytest.raises(vicus.ArgumentError):
        vicus.box("n int64")
    with pytest.raises(vicus.ArgumentError):
        vicus.Network(frames={"a": 7})
    with pytest.raises(vicus.ArgumentError):
        vicus.Network().library("numbers", to=object())
    with pytest.raises(vicus.ArgumentError):
        vicus.Network("box n = numbers(to: 1); box r = collect; n -> r;").run(strategy="none")


def test_a_mistake_in_a_text_has_its_place() -> None:
    with pytest.raises(vicus.NetworkError) as found:
        vicus.Network("box n = numbers(to: 5);\nbox r = collects;\nn -> r;").run()
    # Of the unknown kind.
    assert (found.value.line, found.value.column) == (2, 9)
    with pytest.raises(vicus.NetworkError) as without:
        vicus.Network("box r = collect;").run(strategy="las")
    assert without.value.line >= 0


def test_strategies_traces_and_budgets(tmp_path: pathlib.Path) -> None:
    net = vicus.Network()
    net.source(numbers(50_000)) | square | net.collect()
    for strategy in ["las", "footprint", "steal", "nls"]:
        assert len(net.run(strategy=strategy, threads=2).rows) == 50_000
    trace = tmp_path / "run.trace"
    assert len(net.run(strategy="las", trace=trace).rows) == 50_000
    said = subprocess.run(
        [sys.executable, "-m", "vicus", "trace", "summary", str(trace)],
        capture_output=True,
        text=True,
        env=dict(os.environ),
    )
    assert said.returncode == 0 and said.stdout, said.stderr
    small = vicus.Network('box n = numbers(to: 1000000); box s = sort(by: "n"); box rows = collect; n -> s -> rows;')
    with pytest.raises(vicus.MemoryLimit):
        small.run(memory=1000)


def test_what_memory_has_no_room_for_goes_to_a_folder(tmp_path: pathlib.Path) -> None:
    net = vicus.Network('box n = numbers(to: 1000000); box s = sort(by: "n desc"); box rows = collect; n -> s -> rows;')
    for folder in [None, tmp_path, str(tmp_path)]:
        rows = net.run(memory="2M", temp_folder=folder).rows.arrow()
        assert rows.column(0).to_pylist() == list(range(999_999, -1, -1))
    assert list(tmp_path.iterdir()) == [], "the files have no names"
    with pytest.raises(vicus.ArgumentError, match="temp_folder"):
        net.run(memory="2M", temp_folder=tmp_path / "no such folder")


def test_a_box_may_take_all_rows_first() -> None:
    # The sum is joined with the numbers, which wait for it on the other way.
    @vicus.box("n: int64 -> n: int64", frames="polars", takes_all=True)
    def last(batches: Iterator[Any]) -> Iterator[Any]:
        most = 0
        for batch in batches:
            most = max(most, batch["n"].max() or 0)
        yield pl.DataFrame({"n": [most]}, schema={"n": pl.Int64})

    text = (
        'box j = join(on: "a.n = b.n", select: "a.n AS n"); box rows = collect; box n = numbers(to: 100000);'
        ' box m = python(of: "last");'
        " n -> j.0; n -> m -> j.1; j -> rows;"
    )
    net = vicus.Network(text, boxes={"last": last})
    assert net.run(memory="64M").rows.arrow().column(0).to_pylist() == [99_999]


def test_a_box_may_ask_queries() -> None:
    db = vicus.memory()
    db.load(data="".join(f"<http://e/{n}> <http://e/p> {n} .\n" for n in range(100)))

    @vicus.box("n: int64", frames="pyarrow")
    def asks(batch: Any) -> Any:
        rows = db.query("SELECT ?n { ?s <http://e/p> ?n FILTER (?n < 10) }", types={"n": int})
        return pa.table(rows).cast(pa.schema([("n", pa.int64())]))

    net = vicus.Network()
    net.source(numbers(5)) | asks | net.collect()
    assert sorted(net.run().rows.arrow()["n"].to_pylist()) == list(range(10))


def test_ctrl_c_ends_a_network() -> None:
    program = """
import sys, time, vicus
net = vicus.Network("box n = numbers(to: 100000000000);")
net._vias.append("n -> c;")
net.collect("c")
print("begun", flush=True)
try:
    net.run()
except KeyboardInterrupt:
    other = vicus.Network("box n = numbers(to: 5); box r = collect; n -> r;")
    assert len(other.run().rows) >= 5
    print("interrupted")
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "interrupted\n")


def test_nan_is_one_key_and_so_are_both_zeros() -> None:
    """As SQL's engines group and sort them (DuckDB, PostgreSQL): NaN is equal to itself and greater than numbers."""
    pa = pytest.importorskip("pyarrow")
    nan = float("nan")
    table = pa.table({"x": [1.0, nan, nan, 2.0, None, -0.0, 0.0]})
    net = vicus.Network()
    net.source(table) | net.library("aggregate", select="x, COUNT(*) AS c", by="x") | net.collect("groups")
    groups = net.run()["groups"].arrow().to_pydict()
    assert {repr(x): c for x, c in zip(groups["x"], groups["c"])} == {"1.0": 1, "nan": 2, "2.0": 1, "None": 1, "0.0": 2}
    net = vicus.Network()
    net.source(table) | net.library("sort", by="x") | net.collect("sorted")
    rows = net.run()["sorted"].arrow().to_pydict()["x"]
    assert [repr(abs(x)) if x is not None else None for x in rows] == [None, "0.0", "0.0", "1.0", "2.0", "nan", "nan"]
    db = vicus.memory()
    counted = db.sql("SELECT x, COUNT(*) AS c FROM t GROUP BY x ORDER BY c, x", t=table).arrow().to_pydict()
    assert counted["c"] == [1, 1, 1, 2, 2]
