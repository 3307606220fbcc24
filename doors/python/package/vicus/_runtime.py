"""Threads under a strategy, and arrays of NumPy whose memory lies where it is said to."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from . import _errors as errors
from . import _vicus
from ._database import _import

__all__ = ["Runtime", "empty", "footprint"]

#: About so many bytes of an array are a part.
_PART = 1 << 20


class Runtime:
    """Threads that work under a strategy, each near its memory. The package's databases have threads of their own.

    >>> import vicus
    >>> vicus.Runtime("footprint", threads=2)
    <vicus.Runtime footprint, 2 threads>
    """

    __module__ = "vicus"

    def __init__(self, strategy: str | None = None, threads: int | None = None) -> None:
        self._native = _vicus.Runtime(strategy, threads)

    @property
    def strategy(self) -> str:
        """The strategy, with its parameters."""
        return self._native.strategy

    @property
    def threads(self) -> int:
        """How many threads there are."""
        return self._native.threads

    def empty(self, shape: int | Sequence[int], dtype: Any = float, distribution: str | None = None) -> Any:
        """An array of NumPy, of zeros, whose memory is spread over the nodes: ``fine``, ``coarse``, ``blocked``,
        ``standard``, ``on:N`` or ``weighted:A,B,…``."""
        numpy = _import("numpy")
        kind = numpy.dtype(dtype)
        if kind.hasobject:
            raise errors.ArgumentError("objects of Python can't lie in placed memory: choose a type of numbers")
        lengths = [shape] if isinstance(shape, int) else list(shape)
        if any(isinstance(length, bool) or not isinstance(length, int) or length < 0 for length in lengths):
            raise errors.ArgumentError(f"{shape!r} is no shape: whole numbers from 0 on are")
        return numpy.asarray(self._native.place(lengths, kind.str, kind.itemsize, distribution))

    def map(
        self,
        function: Callable[[Any], Any],
        array: Any,
        parts: int | None = None,
        *,
        timeout: float | None = None,
        cancel: _vicus.Cancel | None = None,
    ) -> list[Any]:
        """Calls a function with parts of an array along its first axis, each on a thread near the part's memory; the
        results in order. It pays for functions that release the interpreter: NumPy's, Numba's, those of ctypes. Ctrl-C,
        ``timeout`` and ``cancel`` end it: a function in Python ends between two of its steps, and one that hears
        nothing ends unseen on its thread."""
        count = len(array)
        if parts is None:
            parts = max(1, min(count, array.nbytes // _PART))
        if not 0 < parts <= max(count, 1):
            raise errors.ArgumentError(f"{parts} parts of {count} rows can't be made")
        bounds = [count * number // parts for number in range(parts + 1)]
        pieces = [array[begin:end] for begin, end in zip(bounds, bounds[1:])]
        placed = [(piece, piece.__array_interface__["data"][0]) for piece in pieces]
        return self._native.map(function, placed, timeout, cancel)

    def __repr__(self) -> str:
        return f"<vicus.Runtime {self.strategy}, {self.threads} threads>"


_shared: dict[int, Runtime] = {}


def empty(shape: int | Sequence[int], dtype: Any = float, distribution: str | None = None) -> Any:
    """An array as :meth:`Runtime.empty` makes it, of a runtime that the process shares."""
    import os

    # A forked child has none of its parent's threads.
    runtime = _shared.get(os.getpid())
    if runtime is None:
        runtime = _shared[os.getpid()] = Runtime()
    return runtime.empty(shape, dtype, distribution)


def footprint(array: Any) -> dict[str, Any]:
    """Where an array's memory lies: the bytes on each node, and those on unknown nodes."""
    about = array.__array_interface__
    if about.get("strides") is not None:
        raise errors.ArgumentError("the array is not contiguous: ask for its parts")
    nodes, unknown = _vicus.footprint(about["data"][0], array.nbytes)
    return {"nodes": nodes, "unknown": unknown}
