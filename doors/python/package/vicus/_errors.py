"""The exceptions of Vicus, all below :class:`Error`."""

from __future__ import annotations

import builtins

__all__ = [
    "AlreadyRead",
    "AnswerError",
    "ArgumentError",
    "BoxError",
    "Busy",
    "Cancelled",
    "CastError",
    "ClosedError",
    "DataError",
    "DiskFull",
    "Error",
    "ForkError",
    "FormatError",
    "InternalError",
    "MemoryLimit",
    "NetworkError",
    "NodeLost",
    "OutOfMemory",
    "PlanLimit",
    "QueryError",
    "ReadOnly",
    "RowLimit",
    "StoreError",
    "StoreLocked",
    "SyntaxError",
    "SystemError",
    "TermError",
    "Timeout",
]


class Error(Exception):
    """Something went wrong in Vicus. All of its exceptions are of this class."""

    __module__ = "vicus"


class _Ended(BaseException):  # noqa: N818 (no error, but the end of a call)
    """Raised in a user's code on the threads of a call that has ended."""


class QueryError(Error):
    """A text can't be answered as it is."""

    __module__ = "vicus"


class SyntaxError(QueryError):
    """A text breaks its language's grammar, at a place."""

    __module__ = "vicus"

    #: The message without the place.
    message: str
    #: The line of the place, from 1.
    line: int
    #: The column of the place, from 1, in characters.
    column: int
    #: The text.
    text: str

    def __init__(self, message: str, text: str = "", line: int = 0, column: int = 0) -> None:
        super().__init__(message, text, line, column)
        self.message, self.text, self.line, self.column = message, text, line, column

    def __str__(self) -> str:
        lines = self.text.split("\n")
        shown = f"line {self.line}, column {self.column}: {self.message}"
        if not 0 < self.line <= len(lines):
            return shown
        line, at = lines[self.line - 1].rstrip("\r").replace("\t", " "), self.column - 1
        # Of a long line, what is around the place.
        start = max(0, at - 60) if len(line) > 100 else 0
        part = line[start : start + 100]
        return f"{shown}\n  {part}\n  {' ' * (at - start)}^"


class TermError(Error, ValueError):
    """Something is no term of RDF: an IRI with a space, say."""

    __module__ = "vicus"


class ArgumentError(Error, ValueError):
    """A call has an argument that it can't take."""

    __module__ = "vicus"


class DataError(Error):
    """Data is not as it has to be: a malformed file, or a frame with a value beyond its column."""

    __module__ = "vicus"


class CastError(DataError, ValueError):
    """A value has not the type that is asked of its column. The message has its row and its column."""

    __module__ = "vicus"


class NetworkError(Error):
    """A network can't be built, or can't run as it is."""

    __module__ = "vicus"

    #: The line of a mistake in its text, from 1; 0 if it is at no place.
    line: int = 0
    #: The column of the mistake, from 1, in characters.
    column: int = 0


class NodeLost(NetworkError):
    """A node can't be reached, or was lost while a network ran on it."""

    __module__ = "vicus"


class BoxError(NetworkError):
    """A box of a network failed. An exception of a box in Python is the cause."""

    __module__ = "vicus"

    #: The box.
    name: str

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message, name)
        self.name = name

    def __str__(self) -> str:
        return str(self.args[0])


class FormatError(Error):
    """A format has no way to write something."""

    __module__ = "vicus"


class AnswerError(Error, TypeError):
    """An answer is of another form: an ASK has no rows."""

    __module__ = "vicus"


class AlreadyRead(Error):
    """The rows of an answer were read already. They can be read once."""

    __module__ = "vicus"


class Timeout(Error, builtins.TimeoutError):
    """The time of a call was up."""

    __module__ = "vicus"


class MemoryLimit(Error, builtins.MemoryError):
    """A call wanted more memory than it may have."""

    __module__ = "vicus"


class RowLimit(Error):
    """An answer has more rows than it may have."""

    __module__ = "vicus"


class PlanLimit(Error):
    """Planning a text takes more steps than it may take."""

    __module__ = "vicus"


class Cancelled(Error):
    """A call was cancelled."""

    __module__ = "vicus"


class Busy(Error):
    """All calls together hold too much for one more; later it may be had."""

    __module__ = "vicus"


class OutOfMemory(Error, builtins.MemoryError):
    """The system has no memory for a call."""

    __module__ = "vicus"


class StoreError(Error):
    """A store can't be read or written."""

    __module__ = "vicus"


class StoreLocked(StoreError):
    """Another process, or another object of this one, writes to a store."""

    __module__ = "vicus"

    #: The process, if it is known.
    pid: int | None

    def __init__(self, message: str, pid: int | None = None) -> None:
        super().__init__(message, pid)
        self.pid = pid

    def __str__(self) -> str:
        return str(self.args[0])


class DiskFull(StoreError):
    """A disk is full."""

    __module__ = "vicus"


class ReadOnly(Error):
    """Data that can be read only was to be changed."""

    __module__ = "vicus"


class ClosedError(Error, ValueError):
    """A database or a transaction is over."""

    __module__ = "vicus"


class ForkError(Error, RuntimeError):
    """An object of a parent process is used in a forked child, which has none of its threads."""

    __module__ = "vicus"


class SystemError(Error, OSError):
    """The system refuses what is needed to start."""

    __module__ = "vicus"


class InternalError(Error, RuntimeError):
    """A mistake in Vicus. Please report it."""

    __module__ = "vicus"


def _shown(text: str) -> str:
    """A text that can be written, with escapes for lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()


def _surrogate(text: str, error: UnicodeEncodeError) -> SyntaxError:
    """The error of a query that is no text: half of a character, as file names that are no UTF-8 have it."""
    before, at = text[: error.start], text[error.start]
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    message = f"the lone surrogate {_shown(at)} is no character; read the text with its own encoding"
    return SyntaxError(message, _shown(text), line, column)


def _checked(what: str, text: str | None) -> str | None:
    """An argument that is a text, or nothing."""
    if isinstance(text, str):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            at = _shown(text[error.start])
            raise ArgumentError(
                f"{what} {_shown(text)!r} has a lone surrogate, {at}, at {error.start}: it is no text"
            ) from None
    return text
