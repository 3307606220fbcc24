"""Networks of boxes: as text, or put together by ``|``."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Sequence

from . import _errors as errors
from . import _vicus
from ._database import _bytes, _count, _frame, _import
from ._machine import Page, _command, view

if TYPE_CHECKING:
    import os

__all__ = ["Box", "Network", "Ran", "Rows", "Trace", "box", "kinds", "trace"]

#: Types of columns, by their names in Python and Arrow.
_COLUMNS = {
    "bool": "Bool", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "int": "I64", "uint8": "U8",
    "uint16": "U16", "uint32": "U32", "uint64": "U64", "float32": "F32", "float64": "F64", "float": "F64",
    "str": "Text", "string": "Text", "date": "Date",
}  # fmt: skip


def _schema(text: str) -> str:
    """Columns such as ``n: int64, name: str`` as networks write them."""
    columns = []
    for column in filter(None, (part.strip() for part in text.strip().strip("()").split(","))):
        name, colon, kind = (part.strip() for part in column.partition(":"))
        if not colon or not name or not kind:
            raise errors.ArgumentError(f"`{column}` is no column: expected is a name and a type, such as n: int64")
        kind, _, null = kind.partition(" ")
        columns.append(f"{name}: {_COLUMNS.get(kind, kind)}{' ' + null if null else ''}")
    return f"({', '.join(columns)})"


class _Function:
    """A function of one batch."""

    #: The thread that its code has beside that of its box.
    thread: threading.Thread | None = None

    def __init__(self, function: Callable[[Any], Any], convert: Callable[[Any], Any]) -> None:
        self._function, self._convert = function, convert

    def begin(self) -> None:
        pass

    def push(self, batch: Any) -> Iterable[Any]:
        made = self._function(self._convert(batch))
        return () if made is None else (made,)

    def end(self) -> Iterable[Any]:
        return ()

    def close(self) -> None:
        pass


class _Generator:
    """A generator of batches. It waits for its next one, so it has a thread of its own: one of both works at a time."""

    def __init__(self, function: Callable[[Iterator[Any]], Iterable[Any]], convert: Callable[[Any], Any]) -> None:
        self._function, self._convert = function, convert
        self._given, self._wanted = threading.Semaphore(0), threading.Semaphore(0)
        self._batch: Any = None
        self._made: list[Any] = []
        self._error: BaseException | None = None
        self._over = self._is_closed = False
        self.thread: threading.Thread | None = None

    def _batches(self) -> Iterator[Any]:
        while True:
            self._wanted.release()
            self._given.acquire()
            if self._is_closed:
                # What it has open is closed on its way out.
                raise GeneratorExit
            if self._batch is None:
                return
            batch, self._batch = self._batch, None
            yield self._convert(batch)

    def _work(self) -> None:
        try:
            for made in self._function(self._batches()):
                self._made.append(made)
        except GeneratorExit:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self._over = True
            self._wanted.release()

    def start(self) -> None:
        """Begins its code, which may never want a batch: its box can be interrupted from then on."""
        self.thread = threading.Thread(target=self._work, name="vicus box", daemon=True)
        self.thread.start()

    def _step(self, batch: Any) -> list[Any]:
        # The generator wants its next batch, or is over: each step leaves it so.
        if not self._over:
            self._batch = batch
            self._given.release()
            self._wanted.acquire()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        made, self._made = self._made, []
        return made

    def begin(self) -> None:
        """Waits until it wants its first batch, or is over."""
        self._wanted.acquire()

    def push(self, batch: Any) -> Iterable[Any]:
        return self._step(batch)

    def end(self) -> Iterable[Any]:
        made = self._step(None)
        # It may make more behind its last batch, and has no further.
        if self.thread is not None:
            self.thread.join()
        if self._error is not None:
            raise self._error
        return made + self._made

    def close(self) -> None:
        if not self._over:
            self._is_closed = True
            self._given.release()


class Box:
    """A box in Python: what :func:`box` makes of a function. It can be called as the function can."""

    __module__ = "vicus"

    def __init__(
        self, function: Callable[..., Any], columns: str | None, frames: str | None, takes_all: bool = False
    ) -> None:
        self._function, self._columns, self._frames, self._takes_all = function, columns, frames, takes_all
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __repr__(self) -> str:
        return f"<vicus.Box {self.__name__}>"

    def _make(self) -> _Function | _Generator:
        import inspect

        convert: Callable[[Any], Any] = _same
        if self._frames == "pyarrow":
            convert = _import("pyarrow").table
        elif self._frames == "polars":
            convert = _import("polars").DataFrame
        if not inspect.isgeneratorfunction(self._function):
            return _Function(self._function, convert)
        made = _Generator(self._function, convert)
        made.start()
        return made


def _same(batch: Any) -> Any:
    return batch


def box(
    columns: str | None = None, *, frames: str | None = None, takes_all: bool = False
) -> Callable[[Callable[..., Any]], Box]:
    """Makes a box of a function of one batch, or of a generator of batches: a decorator.

    ``columns`` are those of the rows that it sends, with those that it takes in front if you like: ``"n: int64 -> n:
    int64, square: int64"``; without, rows go out as they come in. A batch has Arrow's interface; ``frames="pyarrow"`` or
    ``"polars"`` makes a frame of it. What is sent may be anything with Arrow's interface. ``takes_all`` says that the box
    takes all rows before it sends any: another way of the same rows to its reader then holds more as soon as it is full.
    """
    wanted = None if columns is None else _schema(columns.rpartition("->")[2])
    if frames not in (None, "pyarrow", "polars"):
        raise errors.ArgumentError(f'frames is "pyarrow" or "polars", and not {frames!r}')
    return lambda function: Box(function, wanted, frames, bool(takes_all))


class Rows:
    """Rows that a network has collected: a frame takes them by ``polars.DataFrame(rows)`` and the like."""

    __module__ = "vicus"

    def __init__(self, native: _vicus.Batches) -> None:
        self._native = native

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._native.columns

    def __len__(self) -> int:
        return len(self._native)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def arrow(self) -> Any:
        """The rows as a table of PyArrow."""
        return _import("pyarrow").table(self)

    def polars(self) -> Any:
        """The rows as a frame of Polars."""
        return _import("polars").DataFrame(self)

    def pandas(self) -> Any:
        """The rows as a frame of pandas."""
        return self.arrow().to_pandas()

    def __repr__(self) -> str:
        return f"<vicus.Rows {', '.join(self.columns)}: {len(self):,}>"


class Ran:
    """What a network has made: the rows of its boxes that collect, by name, and the counts of all boxes."""

    __module__ = "vicus"

    #: Of each box its name, how often it ran, the rows that it took and sent, milliseconds, and the node that has it: 0
    #: is this process. Boxes of fragments come last, those of a name together.
    counts: list[tuple[str, int, int, int, float, int]]
    #: The record of the run, if it was asked for one.
    trace: Trace | None
    #: How often nodes were lost before the network did well.
    losses: int

    def __init__(
        self,
        rows: dict[str, Rows],
        counts: list[tuple[str, int, int, int, float, int]],
        trace: Trace | None = None,
        losses: int = 0,
    ) -> None:
        self._rows, self.counts, self.trace, self.losses = rows, counts, trace, losses

    def __getitem__(self, name: str) -> Rows:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Rows:
        """The rows of the only box that collects."""
        if len(self._rows) != 1:
            raise errors.ArgumentError(f"{len(self._rows)} boxes collect rows: choose one of {', '.join(self._rows)}")
        return next(iter(self._rows.values()))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.rows.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<vicus.Ran: {', '.join(map(repr, self._rows.values())) or 'nothing collected'}>"

    def _repr_html_(self) -> str:
        from ._show import counts_html

        return counts_html(self.counts) + ("" if self.trace is None else self.trace._repr_html_())


#: A longer page would make a notebook's file slow.
_LARGE = 8_000_000


class Trace:
    """The record of a run, from a file: the time of each type of box and of each seat. A notebook shows the page of
    :meth:`view`, or the picture of :meth:`svg` where the page is large."""

    __module__ = "vicus"

    #: The file.
    path: str
    #: ``span_ns``, ``events``, ``boxes``, ``seats`` and the like, as ``vicus trace summary --format json`` has them.
    summary: dict[str, Any]

    def __init__(self, path: str) -> None:
        import json

        self.path = path
        self.summary = json.loads(_command("trace", "summary", "--format=json", "--", path))

    @property
    def boxes(self) -> list[dict[str, Any]]:
        """The work of each type of box."""
        return list(self.summary["boxes"])

    def svg(self) -> str:
        """The time lines of the seats as a picture: which box each one worked for."""
        return _command("trace", "view", "--svg=-", "--", self.path)

    def view(self) -> Page:
        """One HTML file that shows the run, by itself: :func:`vicus.view`."""
        return view(self.path)

    def __repr__(self) -> str:
        milliseconds = self.summary["span_ns"] / 1e6
        return f"<vicus.Trace {self.path}: {self.summary['events']:,} events, {milliseconds:,.1f} ms>"

    def _repr_html_(self) -> str:
        page = self.view()
        if len(page.html) <= _LARGE:
            return page._repr_html_()
        return f"{self.svg()}<p>The page that shows all of it has {len(page.html):,} characters: trace.view().save(…)</p>"


def trace(path: str | os.PathLike[str]) -> Trace:
    """The record that :meth:`Network.run` or ``vicus`` has written to a file.

    >>> import os, tempfile, vicus
    >>> net = vicus.Network("box n = numbers(to: 5); box rows = collect; n -> rows;")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = net.run(trace=os.path.join(folder, "run.trace"))
    ...     sorted(box["type_name"] for box in vicus.trace(os.path.join(folder, "run.trace")).boxes)[:2]
    ['collect', 'initialization']
    """
    import os

    return Trace(os.fspath(path))


class _Part:
    """A box of a network that is put together: ``|`` joins it to the next."""

    def __init__(self, network: Network, name: str) -> None:
        self._network, self._name = network, name

    def on(self, node: int | str) -> _Part:
        """Has it run on a node of :meth:`Network.run`: on that of a number, or with ``"*"`` a copy on each."""
        if node != "*" and not (isinstance(node, int) and node >= 0):
            raise errors.ArgumentError(f'a node is a number from 0 on, or "*" for each, and not {node!r}')
        self._network._place(self._name, f" on node {node}")
        return self

    def __or__(self, other: Any) -> _Part:
        if isinstance(other, _Part):
            if other._network is not self._network:
                raise errors.ArgumentError("both boxes have to be of one network")
            part = other
        elif isinstance(other, Box):
            part = self._network.box(other)
        elif callable(other):
            part = self._network.box(Box(other, None, None))
        else:
            return NotImplemented
        self._network._vias.append(f"{self._name} -> {part._name};")
        return part


class Network:
    """A network of boxes, as text (``vicus network kinds`` lists the kinds of boxes) or put together.

    >>> import vicus
    >>> net = vicus.Network("box n = numbers(to: 5); box even = filter(where: \\"n % 2 = 0\\"); box rows = collect; n -> even -> rows;")
    >>> len(net.run().rows)
    3

    >>> net = vicus.Network()
    >>> _ = net.library("numbers", to=5) | net.library("filter", where="n > 1") | net.collect()
    >>> len(net.run().rows)
    3
    """

    __module__ = "vicus"

    def __init__(
        self,
        text: str = "",
        *,
        boxes: Mapping[str, Box | Callable[..., Any]] | None = None,
        frames: Mapping[str, object] | None = None,
    ) -> None:
        self._given = text
        self._boxes: dict[str, Box] = {}
        self._frames: dict[str, _vicus.Frame] = {}
        self._lines: list[str] = []
        self._vias: list[str] = []
        for name, function in (boxes or {}).items():
            self._boxes[name] = function if isinstance(function, Box) else Box(function, None, None)
        for name, frame in (frames or {}).items():
            self._frames[name] = _frame(name, frame)

    @property
    def text(self) -> str:
        """The network as text. A box in Python is of the kind ``python``, a frame of the kind ``frame``."""
        return "\n".join(filter(None, [self._given, *self._lines, *self._vias]))

    def _add(self, kind: str, arguments: str, name: str | None = None) -> _Part:
        name = name or f"{kind}_{len(self._lines) + 1}"
        self._lines.append(f"box {name} = {kind}{arguments};")
        return _Part(self, name)

    def _place(self, name: str, place: str) -> None:
        line = next(at for at, line in enumerate(self._lines) if line.startswith(f"box {name} = "))
        self._lines[line] = re.sub(r"( on node (\d+|\*))?;$", f"{place};", self._lines[line])

    def source(self, frame: object) -> _Part:
        """A box that sends the rows of a frame: of anything with ``__arrow_c_stream__``."""
        name = f"frame_{len(self._frames) + 1}"
        self._frames[name] = _frame(name, frame)
        return self._add("frame", f"(of: {_quoted(name)})")

    def box(self, function: Box | Callable[..., Any]) -> _Part:
        """A box in Python."""
        made = function if isinstance(function, Box) else Box(function, None, None)
        name = f"{re.sub(r'[^A-Za-z0-9_]', '_', made.__name__)}_{len(self._boxes) + 1}"
        self._boxes[name] = made
        return self._add("python", f"(of: {_quoted(name)})")

    def library(self, kind: str, /, **parameters: object) -> _Part:
        """A box of the library, with its parameters."""
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", kind):
            raise errors.ArgumentError(f"{kind!r} is no name of a kind")
        given = ", ".join(f"{name}: {_value(value)}" for name, value in parameters.items())
        return self._add(kind, f"({given})" if given else "")

    def collect(self, name: str | None = None) -> _Part:
        """A box whose rows the program takes."""
        if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise errors.ArgumentError(f"{name!r} is no name of a box")
        return self._add("collect", "", name)

    def _parts(self) -> tuple[str, list[tuple[str, Any, str | None, bool]], list[tuple[str, _vicus.Frame]]]:
        for name in [*self._boxes, *self._frames]:
            errors._checked("the name", name)
        boxes = [(name, made._make, made._columns, made._takes_all) for name, made in self._boxes.items()]
        return self.text, boxes, list(self._frames.items())

    def run(
        self,
        *,
        strategy: str | None = None,
        threads: int | None = None,
        memory: int | str | None = None,
        most_boxes: int | None = None,
        temp_folder: str | os.PathLike[str] | None = None,
        trace: str | os.PathLike[str] | None = None,
        trace_last: float | None = None,
        parameters: Mapping[str, object] | None = None,
        timeout: float | None = None,
        cancel: _vicus.Cancel | None = None,
        nodes: Sequence[str] | Callable[[str | None], Sequence[str]] | None = None,
        token: str | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
        retries: int = 0,
        spare_nodes: Sequence[str] = (),
        node_silence: float = 1.0,
        node_wait: float = 3.0,
    ) -> Ran:
        """Runs the network: its rows and its counts. ``strategy`` schedules it on threads of its own, ``memory`` bounds
        what its boxes hold, ``temp_folder`` has the files for what they keep beyond (by default the system's folder),
        ``most_boxes`` bounds how many of them live at once if it grows, ``trace`` is a file for :func:`trace`,
        and ``trace_last`` the seconds before the end that it keeps, with sums of the time before; without it, the first
        events. Ctrl-C, ``timeout`` (seconds) and ``cancel`` end it: a box in Python ends between two of its steps, and one that hears nothing ends unseen on its thread.

        ``nodes`` are the addresses of the processes that the text calls nodes 1, 2, … (``on node 1``, ``on node *``):
        ``vicus node``, or :class:`vicus.Node`, which runs boxes in Python as well. If one is lost, the network is run
        again, ``retries`` times, and ``spare_nodes`` take the places of those that can't be reached; or ``nodes`` is a function that is asked for
        the addresses at first, with None, and with the error of each loss. With ``tls_ca``, a PEM file, all connect by
        TLS alone and trust certificates that its authorities have signed. Its rows come once, and files get their places when all has gone well. A node that is silent for ``node_silence`` seconds is
        lost, and one that is yet starting is waited for, ``node_wait`` seconds."""
        import os

        settings = [(name, str(value)) for name, value in (parameters or {}).items()]
        path = None if trace is None else os.fspath(trace)
        temporary = None if temp_folder is None else os.fspath(temp_folder)
        if nodes is not None:
            if strategy is not None or trace is not None or trace_last is not None or most_boxes is not None:
                raise errors.ArgumentError("over nodes there is neither `strategy`, `trace`, `trace_last` nor `most_boxes`")
            return self._run_over(
                settings, nodes, list(spare_nodes), token, tls_ca, retries, node_silence, node_wait,
                threads, memory, temporary, timeout, cancel,
            )  # fmt: skip
        if token is not None or tls_ca is not None or retries or spare_nodes:
            raise errors.ArgumentError("`token`, `tls_ca`, `retries` and `spare_nodes` are for `nodes`")
        errors._checked("strategy", strategy)
        rows, counts = _vicus.run_network(
            *self._parts(), settings, strategy, threads, _bytes(memory), _count(most_boxes), temporary, path, trace_last,
            timeout, cancel,
        )  # fmt: skip
        recorded = None if path is None else Trace(path)
        return Ran({name: Rows(batches) for name, batches in rows}, counts, recorded)

    def _run_over(
        self,
        settings: list[tuple[str, str]],
        nodes: Sequence[str] | Callable[[str | None], Sequence[str]],
        spares: list[str],
        token: str | None,
        tls_ca: str | os.PathLike[str] | None,
        retries: int,
        silence: float,
        wait: float,
        threads: int | None,
        memory: int | str | None,
        temp_folder: str | bytes | None,
        timeout: float | None,
        cancel: _vicus.Cancel | None,
    ) -> Ran:
        import os

        from ._nodes import _attached

        roots = None if tls_ca is None else os.fspath(tls_ca)
        if not isinstance(retries, int) or not 0 <= retries < 1 << 32:
            raise errors.ArgumentError(f"retries is a number from 0 on, and not {retries!r}")
        resolve = nodes if callable(nodes) else None
        addresses = list(nodes(None) if callable(nodes) else nodes)
        attached = _attached(self._boxes.items()) if self._boxes else []
        rows, counts, losses = _vicus.run_over_nodes(
            *self._parts(), settings, addresses, spares, token, roots, retries, silence, wait, attached, resolve,
            threads, _bytes(memory), temp_folder, timeout, cancel,
        )  # fmt: skip
        return Ran({name: Rows(batches) for name, batches in rows}, counts, None, losses)

    def check(self, parameters: Mapping[str, object] | None = None) -> list[str]:
        """Builds the network without running it; the names of its boxes."""
        settings = [(name, str(value)) for name, value in (parameters or {}).items()]
        return _vicus.show_network(*self._parts(), settings)[0]

    def dot(self) -> str:
        """The network as a graph for Graphviz."""
        return _vicus.show_network(*self._parts(), [])[1]

    def svg(self) -> str:
        """The network as a picture: its boxes, and their vias."""
        return _vicus.show_network(*self._parts(), [])[2]

    def __repr__(self) -> str:
        return f"<vicus.Network\n{self.text}>"

    def _repr_html_(self) -> str:
        from ._show import network_html

        return network_html(self)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    raise errors.ArgumentError(f"{value!r} is no parameter of a box: a number, a truth value or a text is")


def kinds() -> dict[str, str]:
    """The kinds of boxes of the library, with their documentation.

    >>> import vicus
    >>> "filter" in vicus.kinds()
    True
    """
    return dict(_vicus.network_kinds())
