"""Databases, answers, prepared queries and transactions."""

from __future__ import annotations

import collections
import functools
import itertools
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    NoReturn,
    Union,
)

from . import _errors as errors
from . import _vicus
from ._archives import Archived, _place, _roots, _seconds
from ._plans import Plan, Profile
from ._terms import _parts

if TYPE_CHECKING:
    import datetime
    import pathlib
    import types

__all__ = [
    "Database",
    "Prepared",
    "Result",
    "Transaction",
    "check",
    "memory",
    "open",
    "read",
]

#: A file's name, or several.
Files = Union[str, "os.PathLike[str]"]

#: Called while data is loaded, with the bytes read, the bytes of all files, the triples so far, and what is done.
Progress = Callable[[int, int, int, str], object]

_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}


def _bytes(size: int | str | None) -> int | None:
    """A number of bytes: ``500_000`` or ``"2G"``."""
    if size is None:
        return None
    if isinstance(size, str):
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]?)(?:i?B)?", size.strip(), re.IGNORECASE)
        if found is None:
            raise errors.ArgumentError(f'memory is a number of bytes such as 500_000 or "2G", and not {size!r}')
        return int(float(found[1]) * _UNITS[found[2].upper()])
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 1 << 64:
        raise errors.ArgumentError(f'memory is a number of bytes such as 500_000 or "2G", and not {size!r}')
    return size


def _count(most: int | None) -> int | None:
    """A number of boxes."""
    if most is None:
        return None
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most < 1 << 64:
        raise errors.ArgumentError(f"most_boxes is a number of boxes from 1 on, and not {most!r}")
    return most


def _asked(
    language: str = "sparql",
    timeout: float | None = None,
    memory: int | str | None = None,
    most_rows: int | None = None,
    most_boxes: int | None = None,
    first_rows: int | None = None,
    base: str | None = None,
    bind: Mapping[str, object] | None = None,
    tables: Mapping[str, object] | None = None,
    any_order: bool = False,
    rdf_12: bool = False,
    cancel: _vicus.Cancel | None = None,
    graph: str | None = None,
    union: bool = False,
    allow_service: Sequence[str] = (),
    load_folder: str | os.PathLike[str] | None = None,
    strict_functions: bool = False,
    table_types: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, object]:
    if isinstance(allow_service, str):
        raise errors.ArgumentError(f'allow_service is a list of beginnings of URLs: ["{allow_service}"]')
    frames = None
    if tables is not None:
        began = time.monotonic()
        types_ = table_types or {}
        frames = [
            (name, _frame(name, frame, _left(timeout, began), cancel, types_.get(name)))
            for name, frame in tables.items()
        ]
        timeout = _left(timeout, began)
    for name in table_types or {}:
        if name not in (tables or {}):
            known = ", ".join(tables or {}) or "none"
            raise errors.ArgumentError(f"table_types: there is no table {name!r}; the tables are {known}")
    return {
        "language": language,
        "timeout": timeout,
        "memory": _bytes(memory),
        "most_rows": most_rows,
        "most_boxes": _count(most_boxes),
        "first_rows": first_rows,
        "base": errors._checked("base", base),
        "given": None if bind is None else [(_variable(name), _given(value)) for name, value in bind.items()],
        "tables": frames,
        "any_order": any_order,
        "rdf_12": rdf_12,
        "strict_functions": strict_functions,
        "cancel": cancel,
        "graph": graph,
        "union": union,
        "allow_service": list(allow_service),
        "load_folder": None if load_folder is None else os.path.abspath(os.fspath(load_folder)),
    }


def _left(timeout: float | None, began: float) -> float | None:
    """The seconds that are left of those since a moment."""
    # A wrong number is told by the call that gets it.
    if timeout is None or not timeout > 0:
        return timeout
    return max(0.0, timeout - (time.monotonic() - began))


def _variable(name: str) -> str:
    if not isinstance(name, str):
        raise errors.ArgumentError(f"bind has the names of variables, and {name!r} is none")
    return name.lstrip("?$")


def _given(value: object) -> tuple[str, str, str | None, str | None]:
    parts = _parts(value)
    for part in parts:
        if part is not None:
            try:
                part.encode()
            except UnicodeEncodeError as error:
                raise errors.TermError(f"{part!r} is no text: {error.reason}") from None
    return parts


def _frame(
    name: str,
    frame: object,
    timeout: float | None = None,
    cancel: _vicus.Cancel | None = None,
    types_: Mapping[str, str] | None = None,
) -> _vicus.Frame:
    if isinstance(frame, (str, os.PathLike)):
        return _vicus.Frame.of_file(os.fspath(frame), timeout, cancel, dict(types_ or {}))
    if types_:
        raise errors.ArgumentError(f"table_types: {name} is no file; columns of a frame have types, so cast them there")
    if isinstance(frame, _vicus.Frame):
        return frame
    if not hasattr(frame, "__arrow_c_stream__"):
        to_arrow = getattr(frame, "to_arrow", None)
        kind = type(frame).__name__
        if to_arrow is None or not hasattr(frame := to_arrow(), "__arrow_c_stream__"):
            raise errors.ArgumentError(f"{name} is a {kind}, which has no __arrow_c_stream__: a frame has it")
    return _vicus.Frame(frame, timeout, cancel)


def _types(types_: Mapping[str, object] | None) -> list[tuple[str, str]]:
    made = []
    for name, kind in (types_ or {}).items():
        known = kind if isinstance(kind, str) else _TYPES.get(kind) if isinstance(kind, type) else None
        if known is None and isinstance(kind, type):
            known = kind.__name__
        if known is None:
            raise errors.ArgumentError(f"types: {kind!r} is no type: give bool, int, float, str, date or datetime")
        made.append((_variable(name), known))
    return made


@functools.lru_cache(maxsize=256)
def _row(columns: tuple[str, ...]) -> Callable[[Iterable[object]], Any]:
    """The class of the rows of an answer."""
    made: Any = collections.namedtuple("Row", columns, rename=True)  # type: ignore[misc]
    make: Callable[[Iterable[object]], Any] = made._make
    return make


class Result:
    """The answer of a query. Its rows come while the query runs, and can be read once: as tuples, or as a frame.

    Dropping a result ends its query.

    >>> import vicus
    >>> db = vicus.memory()
    >>> db.load(data='<http://e/ann> <http://e/age> 27 .')
    1
    >>> for row in db.query("SELECT ?who ?age { ?who <http://e/age> ?age }"):
    ...     print(row.who, row.age.value + 1)
    http://e/ann 28
    """

    __slots__ = ("__weakref__", "_native", "_ready", "_terms", "_types")
    __module__ = "vicus"

    def __init__(self, native: _vicus.Rows, terms: str, types_: list[tuple[str, str]]) -> None:
        self._native, self._terms, self._types = native, terms, types_
        self._ready: collections.deque[Any] = collections.deque()

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._native.columns

    @property
    def seconds(self) -> float | None:
        """Seconds from the query's start until its last row was there; nothing before."""
        return self._native.seconds

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while True:
            try:
                return self._ready.popleft()
            except IndexError:
                # Another thread may take what this one reads.
                rows = self._native.fetch(_row(tuple(self._native.columns)))
            if rows is None:
                raise StopIteration
            self._ready.extend(rows)

    def fetchone(self) -> Any | None:
        """The next row; nothing behind the last."""
        return next(self, None)

    def fetchmany(self, size: int = 1) -> list[Any]:
        """The next rows, so many at most."""
        return list(itertools.islice(self, max(size, 0)))

    def fetchall(self) -> list[Any]:
        """All rows that are left, as named tuples of terms.

        >>> import vicus
        >>> vicus.memory().query("SELECT (1 AS ?n) {}").fetchall()
        [Row(n=Literal('1', datatype='http://www.w3.org/2001/XMLSchema#integer'))]
        """
        made, rows = _row(tuple(self._native.columns)), []
        # One by one: another thread may take some meanwhile.
        try:
            while True:
                rows.append(self._ready.popleft())
        except IndexError:
            pass
        while (more := self._native.fetch(made)) is not None:
            rows.extend(more)
        return rows

    def __len__(self) -> int:
        """How many rows the answer has. Reads all, and keeps those that nobody has taken yet."""
        return self._native.read()

    def __bool__(self) -> bool:
        """The answer of an ASK; of others, whether there are rows.

        >>> import vicus
        >>> bool(vicus.memory().query("ASK { ?s ?p ?o }"))
        False
        """
        if self._native.kind == "truth":
            return self._native.truth()
        return self._native.has_rows()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows that are left, for any reader of Arrow's streams, without a copy."""
        if self._ready:
            raise errors.AlreadyRead("some rows were read as tuples already: a frame has to have all of them")
        return self._native.stream(self._terms, self._types)

    def arrow(self) -> Any:
        """The rows as a table of PyArrow, which must be installed."""
        return self._converted(_import("pyarrow").table)

    def polars(self) -> Any:
        """The rows as a frame of Polars, which must be installed."""
        return self._converted(_import("polars").DataFrame)

    def pandas(self) -> Any:
        """The rows as a frame of pandas, which must be installed: by its own reader of streams, or by PyArrow."""
        made = getattr(_import("pandas").DataFrame, "from_arrow", None)
        return self.arrow().to_pandas() if made is None else self._converted(made)

    def _converted(self, convert: Callable[[Any], Any]) -> Any:
        try:
            return convert(self)
        except Exception as error:
            if self._native.failed and not isinstance(error, errors.Error):
                self._native.raise_failed()
            raise

    def cancel(self) -> None:
        """Ends the query."""
        self._native.cancel()

    def explain(self) -> Plan:
        """How the query is answered."""
        return Plan(*self._native.explain())

    def __repr__(self) -> str:
        shown = "answer" if self._native.kind == "truth" else ", ".join(self.columns)
        return f"<vicus.Result: {shown}>"

    def _repr_html_(self) -> str:
        from ._show import result_html

        return result_html(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an answer can't be pickled, since its query runs here: make a frame of it before")


def _import(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"this needs {name}: pip install {name}") from error


class _Asks:
    """What answers queries."""

    __slots__ = ()

    _native: Any

    def query(
        self,
        text: str,
        *,
        bind: Mapping[str, object] | None = None,
        timeout: float | None = None,
        memory: int | str | None = None,
        terms: str = "lexical",
        types: Mapping[str, object] | None = None,
        most_rows: int | None = None,
        first_rows: int | None = None,
        base: str | None = None,
        any_order: bool = False,
        rdf_12: bool = False,
        union: bool = False,
        strict_functions: bool = False,
        allow_service: Sequence[str] = (),
        cancel: _vicus.Cancel | None = None,
    ) -> Result:
        """Begins to answer a query of SPARQL.

        ``bind`` has values of variables, which are terms and never a part of the text. ``timeout`` is in seconds, and
        ``memory`` in bytes (``"2G"``). With more than ``most_rows`` rows it fails; rows behind ``first_rows`` are left
        out. In frames, terms are texts; ``terms="full"`` makes them structures of value, kind, datatype and language,
        and ``types={"age": int}`` makes values of a column, all of which must have that type. Rows without ORDER BY
        may come in any order with ``any_order=True``: several threads then make them at once. With ``union=True`` the
        default graph is that of all named graphs together. ``allow_service`` has the beginnings of the URLs that SERVICE
        may ask, or ``"all"``; without, it may ask none. ``strict_functions=True`` refuses a text with an unknown
        function, whose call is an error of its row otherwise.

        >>> import vicus
        >>> db = vicus.memory()
        >>> db.load(data='<http://e/ann> <http://e/name> "Ann" . <http://e/bob> <http://e/name> "Bob" .')
        2
        >>> db.query("SELECT ?s { ?s <http://e/name> ?name }", bind={"name": "Bob"}).fetchall()
        [Row(s=IRI('http://e/bob'))]
        """
        native = self._native
        if not (
            bind
            or timeout is not None
            or memory is not None
            or most_rows is not None
            or first_rows is not None
            or base is not None
            or any_order
            or rdf_12
            or union
            or strict_functions
            or allow_service
            or cancel is not None
        ):
            return Result(native.query(text), terms, _types(types) if types else [])
        asked = _asked(
            timeout=timeout,
            memory=memory,
            most_rows=most_rows,
            first_rows=first_rows,
            base=base,
            bind=bind,
            any_order=any_order,
            rdf_12=rdf_12,
            union=union,
            strict_functions=strict_functions,
            allow_service=allow_service,
            cancel=cancel,
        )
        return Result(native.query(text, asked), terms, _types(types) if types else [])

    def sql(
        self,
        text: str,
        *,
        bind: Mapping[str, object] | None = None,
        timeout: float | None = None,
        memory: int | str | None = None,
        most_rows: int | None = None,
        most_boxes: int | None = None,
        first_rows: int | None = None,
        table_types: Mapping[str, Mapping[str, str]] | None = None,
        cancel: _vicus.Cancel | None = None,
        **frames: object,
    ) -> Result:
        """Begins to answer a statement of SQL. Tables are the frames given by name, which may be anything with
        ``__arrow_c_stream__``, or the path of a file (Parquet, CSV, Arrow); predicates of the data; and the rows of
        ``SPARQL('…')``. ``bind`` has values of parameters, which the statement writes as ``$name``. ``most_boxes`` bounds
        how many boxes of a recursive statement live at once. ``table_types={"people": {"zip": "varchar"}}`` sets types
        of a file's columns, which CSV and lines of JSON leave open.

        >>> import vicus
        >>> db = vicus.memory()
        >>> db.load(data='<http://e/ann> <http://e/age> 27 .')
        1
        >>> db.sql("SELECT object + $more AS next FROM \\"http://e/age\\"", bind={"more": 1}).fetchall()[0].next.value
        28
        """
        asked = _asked(
            "sql",
            timeout=timeout,
            memory=memory,
            most_rows=most_rows,
            most_boxes=most_boxes,
            first_rows=first_rows,
            bind=bind,
            tables=frames,
            table_types=table_types,
            cancel=cancel,
        )
        return Result(self._native.query(text, asked), "lexical", [])

    def write(
        self,
        text: str,
        path: Files,
        *,
        format: str | None = None,
        language: str = "sparql",
        bind: Mapping[str, object] | None = None,
        timeout: float | None = None,
        memory: int | str | None = None,
        base: str | None = None,
        union: bool = False,
        cancel: _vicus.Cancel | None = None,
        **frames: object,
    ) -> int:
        """Answers a query into a file while it runs; how many rows or triples. The format is that of the name's
        ending, packed or not (``.csv``, ``.json.gz``, ``.srx``, ``.ttl``), or ``format``: json, xml, csv, tsv, table or
        arrow, and for graphs nt, nq, ttl, trig, rdfxml or jsonld. The old content stays until all is written. With
        ``language="sql"`` the text is a statement, and ``frames`` are its tables as :meth:`sql` has them.

        >>> import os, tempfile, vicus
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     vicus.memory().write("SELECT (1 AS ?n) {}", os.path.join(folder, "one.csv"))
        1
        """
        asked = _asked(
            language,
            bind=bind,
            timeout=timeout,
            memory=memory,
            base=base,
            union=union,
            tables=frames or None,
            cancel=cancel,
        )
        written: int = self._native.write(text, os.fspath(path), errors._checked("format", format), asked)[0]
        return written

    def serialize(
        self,
        text: str,
        format: str,
        *,
        language: str = "sparql",
        bind: Mapping[str, object] | None = None,
        timeout: float | None = None,
        memory: int | str | None = None,
        base: str | None = None,
        union: bool = False,
        cancel: _vicus.Cancel | None = None,
        **frames: object,
    ) -> bytes:
        """The answer of a query in a format of :meth:`write`, held whole.

        >>> import vicus
        >>> vicus.memory().serialize("SELECT (1 AS ?n) {}", "csv")
        b'n\\r\\n1\\r\\n'
        """
        asked = _asked(
            language,
            bind=bind,
            timeout=timeout,
            memory=memory,
            base=base,
            union=union,
            tables=frames or None,
            cancel=cancel,
        )
        made: bytes = self._native.write(text, None, errors._checked("format", format), asked)[1]
        return made


def _encoded(data: str | bytes | None) -> bytes | None:
    if not isinstance(data, str):
        return data
    try:
        return data.encode()
    except UnicodeEncodeError as error:
        line = data.count("\n", 0, error.start) + 1
        at = errors._shown(data[error.start])
        raise errors.DataError(f"line {line}: the lone surrogate {at} is no character, so the data is no text") from None


class Database(_Asks):
    """Data, in memory or in a store: what :func:`open`, :func:`memory` and :func:`read` give. Threads may share it."""

    __slots__ = ("__weakref__", "_how", "_native")
    __module__ = "vicus"

    _native: _vicus.Data

    def __init__(self, native: _vicus.Data, how: tuple[Any, ...] | None) -> None:
        self._native, self._how = native, how

    def load(
        self,
        *files: Files,
        data: str | bytes | None = None,
        syntax: str | None = None,
        graph: str | None = None,
        memory: int | str | None = None,
        skip: bool = False,
        rdf_12: bool = False,
        progress: bool | Progress = False,
        timeout: float | None = None,
        cancel: _vicus.Cancel | None = None,
    ) -> int:
        """Loads files of RDF, or a text; how many quads are there now that were not. All of it is loaded, or nothing.

        A file's ending says its syntax (``.nt``, ``.nq``, ``.ttl``, ``.trig``, ``.rdf``, ``.jsonld``, packed or not),
        unless ``syntax`` does; a text is Turtle by default. ``graph`` names the graph for triples that are in none.
        Beside a store, loading holds about ``memory`` bytes. ``skip=True`` leaves malformed lines out.
        ``progress=True`` shows a bar on a terminal or in a notebook; a function is called instead.

        >>> import vicus
        >>> vicus.memory().load(data="<http://e/ann> a <http://e/Person> .")
        1
        """
        from ._show import bar

        encoded = _encoded(data)
        told, done = bar(progress)
        try:
            loaded, skipped = self._native.load(
                [os.fspath(file) for file in files],
                encoded,
                errors._checked("syntax", syntax),
                errors._checked("graph", graph),
                _bytes(memory),
                skip,
                rdf_12,
                told,
                timeout,
                cancel,
            )
        finally:
            done()
        if skipped:
            import warnings

            warnings.warn(f"{skipped} malformed lines were left out", stacklevel=2)
        return loaded

    def update(
        self,
        text: str,
        *,
        bind: Mapping[str, object] | None = None,
        timeout: float | None = None,
        memory: int | str | None = None,
        base: str | None = None,
        rdf_12: bool = False,
        allow_service: Sequence[str] = (),
        load_folder: str | os.PathLike[str] | None = None,
        cancel: _vicus.Cancel | None = None,
    ) -> None:
        """Carries out an update of SPARQL: all of its operations, or after an error none. SERVICE and LOAD may ask the
        servers whose URLs begin as one of ``allow_service``, and LOAD may read files below ``load_folder``.

        >>> import vicus
        >>> db = vicus.memory()
        >>> db.update("INSERT DATA { <http://e/ann> <http://e/says> ?what }", bind={"what": "hm"})
        >>> len(db)
        1
        """
        asked = _asked(
            timeout=timeout,
            memory=memory,
            base=base,
            bind=bind,
            rdf_12=rdf_12,
            allow_service=allow_service,
            load_folder=load_folder,
            cancel=cancel,
        )
        self._native.update(text, asked)

    def explain(
        self,
        text: str,
        *,
        language: str = "sparql",
        bind: Mapping[str, object] | None = None,
        timeout: float | None = None,
        cancel: _vicus.Cancel | None = None,
        **frames: object,
    ) -> Plan:
        """How a query would be answered. ``frames`` are tables of SQL by name, as :meth:`sql` has them.

        >>> import vicus
        >>> print(vicus.memory().explain("ASK {}").splitlines()[0].split()[0])
        rows
        """
        asked = _asked(language, bind=bind, timeout=timeout, tables=frames or None, cancel=cancel)
        return Plan(*self._native.explain(text, asked))

    def profile(
        self,
        text: str,
        *,
        language: str = "sparql",
        bind: Mapping[str, object] | None = None,
        timeout: float | None = None,
        memory: int | str | None = None,
        trace: str | os.PathLike[str] | None = None,
        cancel: _vicus.Cancel | None = None,
        **frames: object,
    ) -> Profile:
        """Answers a query, and tells how: its plan with the work of each operator. ``trace`` is a file for the record of
        the run, on threads of its own: the profile's ``trace`` shows it. ``frames`` are tables of SQL by name, as
        :meth:`sql` has them."""
        asked = _asked(language, bind=bind, timeout=timeout, memory=memory, tables=frames or None, cancel=cancel)
        path = None if trace is None else os.fspath(trace)
        return Profile._of(*self._native.profile(text, asked, path), path)

    def prepare(
        self,
        text: str,
        *,
        language: str = "sparql",
        bind: Mapping[str, object] | None = None,
        base: str | None = None,
        timeout: float | None = None,
        cancel: _vicus.Cancel | None = None,
    ) -> Prepared:
        """Reads and plans a query for the data as it is now, to be run any number of times. ``timeout`` is that of the
        planning: each run has its own."""
        asked = _asked(language, bind=bind, base=base, timeout=timeout, cancel=cancel)
        return Prepared(self._native.prepare(text, asked))

    def snapshot(self) -> Database:
        """The data as it is now: it stays so, whatever happens to the database."""
        return Database(self._native.snapshot(), None)

    def transaction(self, *, timeout: float | None = None, cancel: _vicus.Cancel | None = None) -> Transaction:
        """Begins several updates that happen as one, when those before have ended: ``timeout`` bounds that wait. To be
        used with ``with``.

        >>> import vicus
        >>> db = vicus.memory()
        >>> with db.transaction() as change:
        ...     change.update("INSERT DATA { <http://e/a> <http://e/p> 1 }")
        ...     len(change.query("SELECT * { ?s ?p ?o }")), len(db)
        (1, 0)
        >>> len(db)
        1
        """
        return Transaction(self._native.transaction(timeout, cancel))

    def dump(
        self,
        path: Files,
        *,
        syntax: str | None = None,
        graph: str | None = None,
        prefixes: Mapping[str, str] | None = None,
        timeout: float | None = None,
        cancel: _vicus.Cancel | None = None,
    ) -> int:
        """Writes the quads to a file, in the syntax of its ending; how many. ``graph`` chooses one graph, or
        ``"default"``. An existing file stays until all is written.

        >>> import os, tempfile, vicus
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     vicus.memory().dump(os.path.join(folder, "empty.nt"))
        0
        """
        checked = errors._checked
        pairs = [
            (str(checked("a prefix", name)), str(checked("a prefix", str(iri))))
            for name, iri in (prefixes or {}).items()
        ]
        return self._native.dump(
            os.fspath(path), checked("syntax", syntax), checked("graph", graph), pairs, timeout, cancel
        )

    def backup(
        self,
        path: Files,
        *,
        memory: int | str | None = None,
        timeout: float | None = None,
        cancel: _vicus.Cancel | None = None,
    ) -> int:
        """Copies the data as it is now to a store in a folder of its own; how many quads."""
        return self._native.backup(os.fspath(path), _bytes(memory), timeout, cancel)

    def archive(
        self,
        place: Files,
        *,
        keep: datetime.timedelta | None = None,
        tls_ca: Files | None = None,
        timeout: float | None = None,
        cancel: _vicus.Cancel | None = None,
    ) -> Archived:
        """Sends what an archive does not have of the store, each record once: :func:`restore` makes the store again as
        it was at any time. ``place`` is a folder, or the URL of a bucket (``s3://bucket/folder``) where the module is
        built for object storage; ``tls_ca`` is a PEM file of the authorities of its service. With ``keep`` it removes
        what no state of this last span of time needs."""
        folder = self._native.path
        if folder is None:
            raise errors.StoreError("this data is in memory, and an archive is of a store")
        return Archived(*_vicus.archive(folder, _place(place), _seconds(keep), _roots(tls_ca), timeout, cancel))

    def check(self, *, timeout: float | None = None, cancel: _vicus.Cancel | None = None) -> str:
        """Checks the store: every checksum, and every index against the others."""
        if self._native.path is None:
            raise errors.StoreError("this data is in memory, and not in a store")
        return check(self._native.path, timeout=timeout, cancel=cancel)

    def compact(self, *, timeout: float | None = None, cancel: _vicus.Cancel | None = None) -> bool:
        """Builds the store anew with the changes since it was built; whether there were some."""
        return self._native.compact(timeout, cancel)

    async def query_async(self, text: str, **options: Any) -> Result:
        """Answers a query beside an event loop: all of its rows are there when it is awaited. A cancelled task ends the
        query. The options are those of :meth:`query`."""
        import asyncio

        # Of this query alone: the caller's handle may be that of others.
        given, cancel = options.get("cancel"), _vicus.Cancel()
        if given is not None:
            cancel = given.child()
        options["cancel"] = cancel

        def answer() -> Result:
            result = self.query(text, **options)
            if result._native.kind == "truth":
                bool(result)
            else:
                len(result)
            return result

        try:
            return await asyncio.get_running_loop().run_in_executor(None, answer)
        except asyncio.CancelledError:
            cancel.cancel()
            raise

    @property
    def path(self) -> pathlib.Path | None:
        """The folder of the store; nothing for data in memory."""
        import pathlib

        path = self._native.path
        return None if path is None else pathlib.Path(path)

    @property
    def threads(self) -> int:
        """How many threads work for it."""
        return self._native.threads

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._native.closed

    def close(self) -> None:
        """Lets the data go. What is being read goes on, and so do prepared queries and snapshots; transactions that have
        not ended are rolled back."""
        self._native.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """How many quads there are."""
        return len(self._native)

    def __bool__(self) -> bool:
        """A database is there, even an empty one."""
        return True

    def __repr__(self) -> str:
        if self.closed:
            return "<vicus.Database, closed>"
        return f"<vicus.Database {self.path or 'in memory'}: {len(self):,} quads>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._how is None:
            raise TypeError("data in memory can't be pickled: open a store, whose path and options can")
        return (_opened, self._how)


class Prepared:
    """A query that is planned: :meth:`Database.prepare` makes it. It answers over the data of that time."""

    __slots__ = ("_native",)
    __module__ = "vicus"

    def __init__(self, native: _vicus.Prepared) -> None:
        self._native = native

    def run(
        self,
        *,
        timeout: float | None = None,
        memory: int | str | None = None,
        terms: str = "lexical",
        types: Mapping[str, object] | None = None,
        cancel: _vicus.Cancel | None = None,
    ) -> Result:
        """Begins to answer it. The options are those of :meth:`Database.query`."""
        rows = self._native.run(timeout, _bytes(memory), cancel)
        return Result(rows, terms, _types(types))

    def explain(self) -> Plan:
        """How it is answered."""
        return Plan(*self._native.explain())

    def __repr__(self) -> str:
        return f"<vicus.Prepared {self._native.text!r}>"


class Transaction(_Asks):
    """Several updates that happen as one: :meth:`Database.transaction` begins it. Left by an exception, or without
    :meth:`commit`, nothing of it happens; ``with`` commits at its end. Queries, of SPARQL and of SQL, see the data as
    changed so far."""

    __slots__ = ("_native",)
    __module__ = "vicus"

    _native: _vicus.Transaction

    def __init__(self, native: _vicus.Transaction) -> None:
        self._native = native

    def update(
        self,
        text: str,
        *,
        bind: Mapping[str, object] | None = None,
        timeout: float | None = None,
        memory: int | str | None = None,
        base: str | None = None,
        cancel: _vicus.Cancel | None = None,
    ) -> None:
        """Changes the data of the transaction."""
        self._native.update(text, _asked(timeout=timeout, memory=memory, base=base, bind=bind, cancel=cancel))

    def commit(self) -> None:
        """Makes the changes durable, and visible to others."""
        self._native.end(True)

    def rollback(self) -> None:
        """Gives the changes up."""
        self._native.end(False)

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        try:
            self._native.end(kind is None)
        except errors.ClosedError:
            # It was ended by hand.
            pass


def open(
    path: Files,
    threads: int | None = None,
    *,
    create: bool = True,
    read_only: bool = False,
    nodes: Sequence[str] = (),
    node_token: str | None = None,
    tls_ca: str | os.PathLike[str] | None = None,
) -> Database:
    """Opens the store in a folder; a folder that is missing or empty gets one, unless ``create=False``.

    One object writes to a store at a time; ``read_only=True`` reads what is there now, beside a writer.

    ``nodes`` are addresses (``"host:port"``) of ``vicus node --store`` processes over copies of the same store. They
    share the work of queries where that is expected to be quicker. Their token is ``node_token``, or that of
    the variable VICUS_NODE_TOKEN. With ``tls_ca``, a PEM file, they are connected by TLS alone, and those are trusted
    whose certificates its authorities have signed.
    """
    where = os.path.abspath(os.fspath(path))
    others = list(nodes)
    token = node_token or os.environ.get("VICUS_NODE_TOKEN") or None
    if tls_ca is not None and not others:
        raise errors.ArgumentError("`tls_ca` is for `nodes`")
    roots = None if tls_ca is None else os.path.abspath(os.fspath(tls_ca))
    return Database(
        _vicus.Data.open(where, create, read_only, threads, (others, token, roots)),
        (where, threads, create, read_only, others, roots),
    )


def _opened(
    path: str,
    threads: int | None,
    create: bool,
    read_only: bool,
    nodes: Sequence[str] = (),
    tls_ca: str | None = None,
) -> Database:
    return open(path, threads, create=create, read_only=read_only, nodes=nodes, tls_ca=tls_ca)


def memory(threads: int | None = None) -> Database:
    """An empty database in memory.

    >>> import vicus
    >>> len(vicus.memory())
    0
    """
    return Database(_vicus.Data.memory(threads), None)


def read(*files: Files, threads: int | None = None, **options: Any) -> Database:
    """A database in memory with the data of files. The options are those of :meth:`Database.load`."""
    made = memory(threads)
    made.load(*files, **options)
    return made


def check(path: Files, *, timeout: float | None = None, cancel: _vicus.Cancel | None = None) -> str:
    """Checks the store in a folder, beside a process that may be writing to it: every checksum, and every index against
    the others. What was found, as text."""
    return _vicus.check(os.fspath(path), timeout, cancel)
