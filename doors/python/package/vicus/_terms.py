"""Terms of RDF: texts that know what they are."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Union

from ._errors import TermError

if TYPE_CHECKING:
    import datetime
    import decimal

__all__ = ["IRI", "BlankNode", "Literal", "Term", "Triple"]

XSD = "http://www.w3.org/2001/XMLSchema#"
_STRING = XSD + "string"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_LANG_STRING = _RDF + "langString"
_DIR_LANG_STRING = _RDF + "dirLangString"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")


class _Term(str):
    """A text that equals a plain text of the same characters, and another term if both are the same term."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Term):
            return str.__eq__(self, other) and self._key() == other._key()
        return str.__eq__(self, other) if isinstance(other, str) else NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = str.__hash__

    def _key(self) -> tuple[object, ...]:
        return (type(self).__name__,)

    def n3(self) -> str:
        """The term as N-Triples has it."""
        raise NotImplementedError


class IRI(_Term):
    """An IRI.

    >>> IRI("http://example.org/ann").n3()
    '<http://example.org/ann>'
    """

    __slots__ = ()
    __module__ = "vicus"

    def __repr__(self) -> str:
        return f"IRI({str.__repr__(self)})"

    def n3(self) -> str:
        """The term as N-Triples has it."""
        return f"<{self}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (IRI, (str(self),))


class BlankNode(_Term):
    """A blank node of an answer, with its label there. Its text begins with ``_:``."""

    __slots__ = ()
    __module__ = "vicus"

    def __new__(cls, label: str) -> BlankNode:
        return str.__new__(cls, label if label.startswith("_:") else "_:" + label)

    @property
    def label(self) -> str:
        """The label, without ``_:``."""
        return self[2:]

    def __repr__(self) -> str:
        return f"BlankNode({str.__repr__(self)})"

    def n3(self) -> str:
        """The term as N-Triples has it."""
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return (BlankNode, (str(self),))


class Literal(_Term):
    """A literal: its text, with a datatype or a language. A text with a language may have a direction, ``"ltr"`` or
    ``"rtl"``.

    >>> Literal(3)
    Literal('3', datatype='http://www.w3.org/2001/XMLSchema#integer')
    >>> Literal(3).value
    3
    >>> Literal("chat", language="fr").n3()
    '"chat"@fr'
    """

    __slots__ = ("datatype", "direction", "language")
    __module__ = "vicus"

    #: The IRI of the datatype.
    datatype: str
    #: The language tag, or nothing.
    language: str | None
    #: The direction of a text with a language: ``"ltr"``, ``"rtl"`` or nothing.
    direction: str | None

    def __new__(
        cls,
        value: object,
        datatype: str | None = None,
        language: str | None = None,
        direction: str | None = None,
    ) -> Literal:
        text, own = _lexical(value)
        if direction is not None and (direction not in ("ltr", "rtl") or not language):
            raise TermError(f'a text with a language has the direction "ltr" or "rtl", and not {direction!r}')
        made = str.__new__(cls, text)
        made.language, made.direction = language, direction
        if direction is not None:
            made.datatype = _DIR_LANG_STRING
        else:
            made.datatype = _LANG_STRING if language else str(datatype or own)
        return made

    @property
    def value(self) -> Any:
        """The value in Python: a number, a truth value, a date, or the text."""
        read = _VALUES.get(self.datatype)
        if read is None:
            return str(self)
        try:
            return read(str(self))
        except (ValueError, ArithmeticError, KeyError):
            # An ill-typed literal has no value but its text.
            return str(self)

    def _key(self) -> tuple[object, ...]:
        return ("Literal", self.datatype, self.language, self.direction)

    def _tag(self) -> str | None:
        """The language and the direction as N-Triples has them."""
        return self.language if self.direction is None else f"{self.language}--{self.direction}"

    def __repr__(self) -> str:
        if self.language:
            more = "" if self.direction is None else f", direction={self.direction!r}"
            return f"Literal({str.__repr__(self)}, language={self.language!r}{more})"
        more = "" if self.datatype == _STRING else f", datatype={self.datatype!r}"
        return f"Literal({str.__repr__(self)}{more})"

    def n3(self) -> str:
        """The term as N-Triples has it."""
        text = f'"{_escaped(str(self))}"'
        if self.language:
            return f"{text}@{self._tag()}"
        return text if self.datatype == _STRING else f"{text}^^<{self.datatype}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            Literal,
            (str(self), None if self.language else self.datatype, self.language, self.direction),
        )


class Triple(_Term):
    """A triple term of RDF 1.2, as N-Triples writes it."""

    __slots__ = ()
    __module__ = "vicus"

    def __repr__(self) -> str:
        return f"Triple({str.__repr__(self)})"

    def n3(self) -> str:
        """The term as N-Triples has it."""
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Triple, (str(self),))


Term = Union[IRI, BlankNode, Literal, Triple]


# Called by the module, once for each literal: without the conversions of Literal's own constructor.
def _literal(text: str, datatype: str | None, language: str | None, direction: str | None = None) -> Literal:
    made = str.__new__(Literal, text)
    made.language, made.direction = language, direction
    made.datatype = datatype or (_STRING if not language else _LANG_STRING if direction is None else _DIR_LANG_STRING)
    return made


_triple = Triple


def _boolean(text: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[text]


def _double(text: str) -> float:
    return float({"INF": "inf", "-INF": "-inf", "+INF": "inf"}.get(text, text))


def _decimal(text: str) -> decimal.Decimal:
    import decimal

    return decimal.Decimal(text)


# XML Schema's forms alone: Python's own readers take others, and not all of these.
_ZONE = r"(Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)?"
_DATE = re.compile(rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}){_ZONE}")
_TIME = re.compile(rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})T([0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}})(\.[0-9]+)?{_ZONE}")


def _date(text: str) -> datetime.date:
    import datetime

    found = _DATE.fullmatch(text)
    # A date of Python has no offset, so one with an offset is more than its date.
    if found is None or found[2]:
        raise ValueError(text)
    return datetime.date.fromisoformat(found[1])


def _datetime(text: str) -> datetime.datetime:
    import datetime

    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    day, clock, fraction, zone = found.groups()
    # The end of a day is the beginning of the next one.
    is_end = clock == "24:00:00" and not (fraction or "").strip(".0")
    # Of a finer time than a datetime has, its microseconds.
    micros = (fraction or ".")[1:7].ljust(6, "0")
    zone = "+00:00" if zone == "Z" else zone or ""
    read = datetime.datetime.fromisoformat(f"{day}T{'00:00:00' if is_end else clock}.{micros}{zone}")
    return read + datetime.timedelta(days=1) if is_end else read


def _integer(text: str) -> int:
    # Python's own reader takes 1_000 as well.
    if "_" in text:
        raise ValueError(text)
    return int(text)


_VALUES: dict[str, Any] = {
    XSD + name: _integer
    for name in (
        "integer",
        "int",
        "long",
        "short",
        "byte",
        "nonNegativeInteger",
        "positiveInteger",
        "nonPositiveInteger",
        "negativeInteger",
        "unsignedLong",
        "unsignedInt",
        "unsignedShort",
        "unsignedByte",
    )
}
_VALUES.update(
    {
        XSD + "decimal": _decimal,
        XSD + "double": _double,
        XSD + "float": _double,
        XSD + "boolean": _boolean,
        XSD + "date": _date,
        XSD + "dateTime": _datetime,
    }
)


def _lexical(value: Any) -> tuple[str, str]:
    """The text of a value of Python, and its datatype."""
    # By the methods of the plain types: those of a class below them, of NumPy's or an enumeration's, may write more.
    if isinstance(value, str):
        return str.__str__(value), _STRING
    if isinstance(value, bool):
        return ("true" if value else "false"), XSD + "boolean"
    if isinstance(value, int):
        try:
            return int.__repr__(value), XSD + "integer"
        except ValueError as error:
            raise TermError(f"an integer is too long to be written: {error}") from None
    if isinstance(value, float):
        text = float.__repr__(value)
        return {"inf": "INF", "-inf": "-INF", "nan": "NaN"}.get(text, text), XSD + "double"
    # Whoever has such a value has its module: it is not imported for all others.
    decimal, datetime = sys.modules.get("decimal"), sys.modules.get("datetime")
    if decimal is not None and isinstance(value, decimal.Decimal):
        return format(value, "f"), XSD + "decimal"
    if datetime is not None and isinstance(value, datetime.datetime):
        return _moment(value), XSD + "dateTime"
    if datetime is not None and isinstance(value, datetime.date):
        return value.isoformat(), XSD + "date"
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.datetime64):
        return _numpy_moment(numpy, value)
    if hasattr(value, "item") and type(value).__name__ != "timedelta64":
        # A number of NumPy, or of another library of arrays.
        plain = value.item()
        if numpy is not None and isinstance(plain, numpy.floating):
            # More exact than a number of Python, which it becomes.
            plain = float(plain)
        if isinstance(plain, (bool, int, float, str)):
            return _lexical(plain)
    raise TermError(f"{value!r} of type {type(value).__name__} is no term: give an IRI, a Literal, a text or a number")


def _moment(value: Any) -> str:
    import datetime

    if value != value:
        raise TermError(f"{value!r} is no time: a term has a value, so leave its variable unbound")
    offset = value.utcoffset()
    # XML Schema has offsets of whole minutes.
    if offset is not None and (offset.total_seconds() % 60 or abs(offset) > datetime.timedelta(hours=14)):
        value = value.astimezone(datetime.timezone.utc)
    return str(value.isoformat())


def _numpy_moment(numpy: Any, value: Any) -> tuple[str, str]:
    if numpy.isnat(value):
        raise TermError(f"{value!r} is no time: a term has a value, so leave its variable unbound")
    unit = numpy.datetime_data(value.dtype)[0]
    if unit in ("Y", "M"):
        return str(value), XSD + {"Y": "gYear", "M": "gYearMonth"}[unit]
    if unit in ("W", "D"):
        return str(value.astype("datetime64[D]")), XSD + "date"
    return str(value.astype("datetime64[s]") if unit in ("h", "m") else value), XSD + "dateTime"


def _parts(value: object) -> tuple[str, str, str | None, str | None]:
    """What the module takes for a term: its kind, its text, its datatype and its language."""
    if isinstance(value, IRI):
        return ("iri", str(value), None, None)
    if isinstance(value, Literal):
        return (
            "literal",
            str(value),
            None if value.language else value.datatype,
            value._tag(),
        )
    if isinstance(value, (BlankNode, Triple)):
        raise TermError(f"{value!r} can't be given to a query: a blank node has no name outside of its answer")
    kind = type(value).__module__.partition(".")[0]
    if kind == "rdflib":
        return _of_rdflib(value)
    text, datatype = _lexical(value)
    return ("literal", text, datatype, None)


def _of_rdflib(value: Any) -> tuple[str, str, str | None, str | None]:
    name = type(value).__name__
    if name == "URIRef":
        return ("iri", str(value), None, None)
    if name == "Literal":
        datatype = None if value.datatype is None else str(value.datatype)
        return (
            "literal",
            str(value),
            None if value.language else datatype,
            value.language,
        )
    raise TermError(f"{value!r} can't be given to a query: only IRIs and literals can")
