"""Placed arrays, and functions near their memory."""

from __future__ import annotations

import gc
import threading

import pytest

import vicus

np = pytest.importorskip("numpy")


@pytest.mark.parametrize("distribution", [None, "fine", "coarse", "blocked", "standard", "on:0"])
def test_arrays_are_numpy_arrays(distribution: str | None) -> None:
    array = vicus.empty((1000, 300), dtype="float64", distribution=distribution)
    assert isinstance(array, np.ndarray) and array.shape == (1000, 300) and array.dtype == np.float64
    assert not array.any() and array.flags.writeable
    array[:] = 1.5
    assert array.sum() == 450_000
    found = vicus.footprint(array)
    assert sum(found["nodes"]) + found["unknown"] == array.nbytes
    view = array[10:20]
    del array
    gc.collect()
    # A view keeps the memory.
    assert view.sum() == 4500


def test_odd_arrays() -> None:
    assert vicus.empty(0).shape == (0,) and vicus.empty((), dtype=int).shape == ()
    assert vicus.empty(3, dtype="int8").dtype == np.int8
    for wrong in [-1, (1, -2), (1.5,), (True,), "ab"]:
        with pytest.raises((vicus.ArgumentError, TypeError)):
            vicus.empty(wrong)  # type: ignore[arg-type]
    for wrong in ["nowhere", "on:99999", "weighted:"]:
        with pytest.raises((vicus.ArgumentError, vicus.OutOfMemory)):
            vicus.empty(10, distribution=wrong)
    with pytest.raises(vicus.OutOfMemory):
        vicus.empty((2**40, 2**40))
    with pytest.raises(vicus.ArgumentError):
        vicus.empty(3, dtype=object)
    with pytest.raises(vicus.ArgumentError, match="contiguous"):
        vicus.footprint(vicus.empty((10, 10))[:, 1])


@pytest.mark.parametrize("strategy", ["las", "footprint", "steal"])
def test_functions_get_all_parts_in_order(strategy: str) -> None:
    runtime = vicus.Runtime(strategy, threads=2)
    assert runtime.strategy.startswith(strategy) and runtime.threads == 2
    array = runtime.empty(1_000_000, dtype="int64", distribution="blocked")
    array[:] = np.arange(1_000_000)
    seen: set[int] = set()

    def work(part: object) -> int:
        seen.add(threading.get_ident())
        return int(np.sum(part))

    assert sum(runtime.map(work, array)) == 499_999_500_000
    assert runtime.map(len, array, parts=3) == [333_333, 333_333, 333_334]
    # The caller waits, and others work.
    assert threading.get_ident() not in seen
    with pytest.raises(KeyError, match="why"):
        runtime.map(lambda part: {}["why"], array)
    with pytest.raises(vicus.ArgumentError):
        runtime.map(len, array, parts=0)


def test_wrong_runtimes_are_refused() -> None:
    for arguments in [{"strategy": "none"}, {"threads": 0}, {"threads": 5000}]:
        with pytest.raises(vicus.ArgumentError):
            vicus.Runtime(**arguments)  # type: ignore[arg-type]
