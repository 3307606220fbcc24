from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

__all__ = [
    "Batches",
    "Cancel",
    "Data",
    "Frame",
    "Matches",
    "Node",
    "PlacedArray",
    "Prepared",
    "Rows",
    "Runtime",
    "TermCache",
    "Transaction",
    "Triples",
    "__version__",
    "archive",
    "change",
    "check",
    "command",
    "find",
    "footprint",
    "free_limit",
    "graphs",
    "network_kinds",
    "refuse_subinterpreters",
    "restore",
    "run_network",
    "run_over_nodes",
    "show_network",
    "triples",
    "wait_for_unfinished",
]

__version__: str

def command(arguments: Sequence[str], libraries: str) -> int: ...
def refuse_subinterpreters() -> None: ...
def wait_for_unfinished(seconds: float) -> None: ...
def free_limit() -> int | None: ...
def archive(
    folder: str | bytes,
    place: str,
    keep: int | None,
    roots: str | None,
    timeout: float | None,
    cancel: Cancel | None,
) -> tuple[int, int, int, int]: ...
def restore(
    place: str,
    folder: str | bytes,
    record: int | None,
    time: int | None,
    follower: bool,
    roots: str | None,
    timeout: float | None,
    cancel: Cancel | None,
) -> tuple[int, int]: ...
def check(path: str | bytes, timeout: float | None, cancel: Cancel | None) -> str: ...

_Parts = tuple[str, str, str | None, str | None]
_Work = tuple[int, bool, int, int, int, int]
_Operator = tuple[int | None, str, str, list[str], float, int, _Work | None]
_Explained = tuple[str, list[_Operator]]

def find(
    data: Data,
    subject: object,
    predicate: object,
    object: object,
    graphs: str,
    graph: object,
    cache: TermCache,
    most: int,
) -> tuple[list[tuple[Any, ...]], Matches | None]: ...
def triples(data: Data, pattern: object, graph: object, name: object, cache: TermCache) -> Triples: ...
def run_network(
    text: str,
    boxes: Sequence[tuple[str, Any, str | None, bool]],
    frames: Sequence[tuple[str, Frame]],
    settings: Sequence[tuple[str, str]],
    strategy: str | None,
    threads: int | None,
    memory: int | None,
    most_boxes: int | None,
    temp_folder: str | bytes | None,
    trace: str | bytes | None,
    trace_last: float | None,
    timeout: float | None,
    cancel: Cancel | None,
) -> tuple[list[tuple[str, Batches]], list[tuple[str, int, int, int, float, int]]]: ...
def run_over_nodes(
    text: str,
    boxes: Sequence[tuple[str, Any, str | None, bool]],
    frames: Sequence[tuple[str, Frame]],
    settings: Sequence[tuple[str, str]],
    nodes: Sequence[str],
    spares: Sequence[str],
    token: str | None,
    roots: str | None,
    retries: int,
    silence: float,
    wait: float,
    attached: Sequence[tuple[str, str]],
    resolve: Callable[[str], Sequence[str] | None] | None,
    threads: int | None,
    memory: int | None,
    temp_folder: str | bytes | None,
    timeout: float | None,
    cancel: Cancel | None,
) -> tuple[list[tuple[str, Batches]], list[tuple[str, int, int, int, float, int]], int]: ...
def show_network(
    text: str,
    boxes: Sequence[tuple[str, Any, str | None, bool]],
    frames: Sequence[tuple[str, Frame]],
    settings: Sequence[tuple[str, str]],
) -> tuple[list[str], str, str]: ...
def network_kinds() -> list[tuple[str, str]]: ...

@final
class Batches:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def __len__(self) -> int: ...
    @property
    def columns(self) -> list[str]: ...

def footprint(address: int, bytes: int) -> tuple[list[int], int]: ...

@final
class PlacedArray:
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

@final
class Runtime:
    def __new__(cls, strategy: str | None = None, threads: int | None = None) -> Runtime: ...
    @property
    def strategy(self) -> str: ...
    @property
    def threads(self) -> int: ...
    def place(self, shape: Sequence[int], kind: str, item: int, distribution: str | None) -> PlacedArray: ...
    def map(
        self,
        function: Callable[[Any], Any],
        parts: Sequence[tuple[Any, int]],
        timeout: float | None,
        cancel: Cancel | None,
    ) -> list[Any]: ...

def graphs(data: Data, cache: TermCache) -> list[Any]: ...
def change(data: Data, quads: Sequence[tuple[_Parts, _Parts, _Parts, _Parts | None, bool]]) -> None: ...

@final
class TermCache:
    def __new__(
        cls,
        make: Callable[[str, str, str | None, str | None], Any],
        iri: type[Any],
        blank: type[Any],
        literal: type[Any],
    ) -> TermCache: ...

@final
class Matches:
    def fetch(self, most: int, cache: TermCache) -> list[tuple[Any, ...]]: ...
    def __len__(self) -> int: ...

@final
class Triples:
    def __iter__(self) -> Triples: ...
    def __next__(self) -> tuple[tuple[Any, Any, Any], Iterator[Any]]: ...

@final
class Cancel:
    def __new__(cls) -> Cancel: ...
    def cancel(self) -> None: ...
    def child(self) -> Cancel: ...
    @property
    def cancelled(self) -> bool: ...

@final
class Frame:
    def __new__(cls, frame: object, timeout: float | None = None, cancel: Cancel | None = None) -> Frame: ...
    @staticmethod
    def of_file(
        path: str | bytes,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        types: Mapping[str, str] = ...,
    ) -> Frame: ...
    def __len__(self) -> int: ...

@final
class Rows:
    @property
    def columns(self) -> list[str]: ...
    @property
    def kind(self) -> str: ...
    @property
    def failed(self) -> bool: ...
    @property
    def rows(self) -> int: ...
    @property
    def seconds(self) -> float | None: ...
    @property
    def is_over(self) -> bool: ...
    def fetch(self, row: Callable[[tuple[Any, ...]], Any]) -> list[Any] | None: ...
    def fetch_dicts(
        self, keys: Sequence[Any], make: Callable[[str, str, str | None, str | None], Any]
    ) -> list[dict[Any, Any]] | None: ...
    def first(
        self, row: Callable[[tuple[Any, ...]], Any], most: int, seconds: float
    ) -> tuple[list[Any], bool]: ...
    def read(self) -> int: ...
    def has_rows(self) -> bool: ...
    def truth(self) -> bool: ...
    def stream(self, terms: str, types: Sequence[tuple[str, str]]) -> object: ...
    def cancel(self) -> None: ...
    def raise_failed(self) -> None: ...
    def explain(self) -> _Explained: ...

@final
class Node:
    def __new__(
        cls,
        listen: str,
        token: str | None,
        certificate: tuple[str, str] | None,
        folder: str | None,
        threads: int | None,
        memory: int | None,
        load: Callable[[str], object] | None,
    ) -> Node: ...
    @property
    def address(self) -> str: ...
    @property
    def threads(self) -> int: ...
    def close(self) -> None: ...

@final
class Prepared:
    @property
    def text(self) -> str: ...
    def run(self, timeout: float | None, memory: int | None, cancel: Cancel | None) -> Rows: ...
    def explain(self) -> _Explained: ...

@final
class Transaction:
    def update(self, text: str, asked: dict[str, object] | None = None) -> tuple[int, float]: ...
    def query(self, text: str, asked: dict[str, object] | None = None) -> Rows: ...
    def write(
        self, text: str, path: str | bytes | None, format: str | None, asked: dict[str, object] | None = None
    ) -> tuple[int, bytes]: ...
    def end(self, keep: bool) -> None: ...

@final
class Data:
    @staticmethod
    def open(
        path: str,
        create: bool,
        read_only: bool,
        threads: int | None,
        nodes: tuple[Sequence[str], str | None, str | None] | None,
    ) -> Data: ...
    @staticmethod
    def memory(threads: int | None) -> Data: ...
    def load(
        self,
        files: Sequence[str | bytes],
        data: bytes | None,
        syntax_name: str | None,
        graph: str | None,
        memory: int | None,
        skip: bool,
        rdf_12: bool,
        progress: Callable[[int, int, int, str], object] | None,
        timeout: float | None,
        cancel: Cancel | None,
    ) -> tuple[int, int]: ...
    def query(self, text: str, asked: dict[str, object] | None = None) -> Rows: ...
    def write(
        self, text: str, path: str | bytes | None, format: str | None, asked: dict[str, object] | None = None
    ) -> tuple[int, bytes]: ...
    def prepare(self, text: str, asked: dict[str, object] | None = None) -> Prepared: ...
    def update(self, text: str, asked: dict[str, object] | None = None) -> tuple[int, float]: ...
    def profile(
        self, text: str, asked: dict[str, object] | None = None, trace: str | None = None
    ) -> tuple[_Explained, int, float, float]: ...
    def explain(self, text: str, asked: dict[str, object] | None = None) -> _Explained: ...
    def snapshot(self) -> Data: ...
    def transaction(self, timeout: float | None, cancel: Cancel | None) -> Transaction: ...
    def dump(
        self,
        path: str | bytes,
        syntax_name: str | None,
        graph: str | None,
        prefixes: Sequence[tuple[str, str]],
        timeout: float | None,
        cancel: Cancel | None,
    ) -> int: ...
    def backup(
        self, path: str | bytes, memory: int | None, timeout: float | None, cancel: Cancel | None
    ) -> int: ...
    def compact(self, timeout: float | None, cancel: Cancel | None) -> bool: ...
    def __len__(self) -> int: ...
    @property
    def path(self) -> Any: ...
    @property
    def threads(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
