"""A store for rdflib: its graphs lie in a database of Vicus, which answers their queries and updates as well.

>>> import rdflib, vicus.rdflib
>>> graph = rdflib.Graph(store=vicus.rdflib.Store(vicus.memory()))
>>> _ = graph.add((rdflib.URIRef("http://e/ann"), rdflib.RDFS.label, rdflib.Literal("Ann")))
>>> [str(row.name) for row in graph.query("SELECT ?name { ?s rdfs:label ?name }")]
['Ann']

``rdflib.Graph("Vicus")`` has a database in memory of its own, and ``graph.open(path)`` opens a store. The graph of
rdflib without a name of its own, which has a blank node as its name, is the default graph: the first such graph of a
store. Others that blank nodes name, as those of ``rdflib.Dataset.graph(name)``, are named graphs. An IRI has no spaces,
nor others of the characters that no IRI has; it may be relative, as in rdflib, and is then kept as it is.
"""

from __future__ import annotations

import re
from typing import Any, Generator, Iterable, Iterator, Mapping

from rdflib import OWL, RDF, RDFS, XSD, BNode, Graph, Literal, URIRef, Variable
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.query import Result
from rdflib.store import NO_STORE, VALID_STORE
from rdflib.store import Store as _Store

from . import _database, _errors, _vicus

__all__ = ["Store"]

#: A term as the module takes it: its kind, its text, its datatype and its language.
_Parts = tuple[str, str, "str | None", "str | None"]

#: So many changes are kept back until somebody reads.
_MOST_CHANGES = 100_000

# So many quads are read at first, then, and from then on.
_FIRST, _NEXT, _CHUNK = 16, 512, 8192

# Prefixes that rdflib's own engine knows.
_CORE = {"owl": OWL, "rdf": RDF, "rdfs": RDFS, "xsd": XSD}

# An IRI in a prefix's declaration; all others are left out, since no text could use them.
_PLAIN = re.compile(r"[^\x00-\x20<>\"{}|^`\\]*")
_PREFIX = re.compile(r"([A-Za-z](?:[\w.-]*[\w-])?)?")


def _plain(text: str, language: str | None = None) -> Any:
    """A literal without a datatype, or with a language, as rdflib's constructor makes it."""
    made: Any = str.__new__(Literal, text)
    made._value, made._datatype, made._language, made._ill_typed = text, None, language, None
    return made


def _is_same(ours: Any, theirs: Any) -> bool:
    slots = ("_language", "_datatype", "_value", "_ill_typed")
    alike = all(getattr(ours, name, slots) == getattr(theirs, name, slots) for name in slots)
    return alike and set(Literal.__slots__) == set(slots)


# The constructor takes longer than all else for a literal. Where rdflib has changed what it keeps, it is called.
try:
    _IS_PLAIN = _is_same(_plain("a"), Literal("a")) and _is_same(_plain("a", "en"), Literal("a", lang="en"))
except Exception:
    _IS_PLAIN = False
_LANGUAGE = re.compile("[a-zA-Z]+(-[a-zA-Z0-9]+)*")
_new = str.__new__


def _term(kind: str, text: str, datatype: str | None, language: str | None) -> Any:
    # What lies in a database was checked on its way there.
    if kind == "iri":
        return _new(URIRef, text)
    if kind == "blank":
        return _new(BNode, text)
    if kind == "triple":
        raise NotImplementedError("rdflib has no triple terms")
    if datatype is None and _IS_PLAIN and (language is None or _LANGUAGE.fullmatch(language)):
        return _plain(text, language)
    if language is not None:
        return Literal(text, lang=language)
    return Literal(text, datatype=None if datatype is None else URIRef(datatype), normalize=False)


# What no IRI has, and no file of RDF could tell.
_NO_IRI = re.compile("[\\x00-\\x20<>\"{}|^`\\\\\ud800-\udfff]")


def _iri(term: Any) -> str:
    text = str(term)
    found = _NO_IRI.search(text)
    if found is not None:
        at = _errors._shown(found[0])
        raise _errors.TermError(f"{_errors._shown(repr(text))} is no IRI: it has {at!r} at {found.start()}")
    return text


def _parts(term: Any) -> _Parts:
    if isinstance(term, URIRef):
        return ("iri", _iri(term), None, None)
    if isinstance(term, BNode):
        return ("blank", str(term), None, None)
    if isinstance(term, Literal):
        text, language = str(term), term.language
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                at = _errors._shown(text[error.start])
                raise _errors.TermError(
                    f"{_errors._shown(repr(text))} has a lone surrogate, {at}, at {error.start}: it is no text"
                ) from None
        datatype = None if term.datatype is None else _iri(term.datatype)
        return ("literal", text, None if language else datatype, language)
    raise _errors.TermError(f"{term!r} is no term that a store can hold: an IRI, a blank node or a literal")


class _Answer(Result):
    """The solutions of a query. They become terms of rdflib when they are read, and each is read once."""

    def __init__(self, rows: _vicus.Rows) -> None:
        super().__init__("SELECT")
        self.vars = [Variable(name) for name in rows.columns]
        self._rows = rows
        self.bindings = self._made()

    def _made(self) -> Iterator[dict[Any, Any]]:
        while (rows := self._rows.fetch_dicts(self.vars or [], _term)) is not None:
            yield from rows

    def __len__(self) -> int:
        # Without a term.
        return self._rows.read()


class Store(_Store):
    """A store of rdflib in a database: one that is given, one in a folder (``open``), or one in memory.

    Changes are kept back, and made all at once when somebody reads, asks or commits, or when the store is closed.
    """

    context_aware = True
    graph_aware = True
    formula_aware = False
    transaction_aware = False

    def __init__(
        self,
        configuration: _database.Database | str | None = None,
        identifier: Any = None,
    ) -> None:
        self._own = not isinstance(configuration, _database.Database)
        self._db: _database.Database = (
            configuration if isinstance(configuration, _database.Database) else _database.memory()
        )
        self._cache = _vicus.TermCache(_term, URIRef, BNode, Literal)
        self._changes: dict[tuple[_Parts, _Parts, _Parts, _Parts | None], bool] = {}
        self._prefixes: dict[str, URIRef] = {}
        self._names: dict[URIRef, str] = {}
        self._empty: dict[Any, Any] = {}
        # What a graph without a name of its own calls the default graph.
        self._default: Any = DATASET_DEFAULT_GRAPH_ID
        # The blank nodes that name graphs.
        self._blank: set[BNode] = set()
        # The default graph's name, once a graph has told it.
        self._told: Any = None
        super().__init__(configuration if isinstance(configuration, str) else None, identifier)

    @property
    def database(self) -> _database.Database:
        """The database, with all changes made."""
        self._flush()
        return self._db

    # Opening and closing.

    def open(self, configuration: Any, create: bool = False) -> int | None:
        """Opens the store in a folder, or takes a database."""
        if isinstance(configuration, _database.Database):
            self._db, self._own = configuration, False
            return VALID_STORE
        path = str(configuration)
        try:
            opened = _database.open(path, create=create)
        except _errors.StoreLocked:
            raise
        except _errors.StoreError:
            if create:
                raise
            return NO_STORE
        self._db, self._own = opened, True
        return VALID_STORE

    def close(self, commit_pending_transaction: bool = False) -> None:
        """Makes all changes, and closes the database unless it was given."""
        self._flush()
        if self._own:
            self._db.close()

    def destroy(self, configuration: str) -> None:
        """Empties the database."""
        self._changes.clear()
        if not self._db.closed:
            self._db.update("CLEAR ALL")

    def commit(self) -> None:
        """Makes all changes."""
        self._flush()

    def rollback(self) -> None:
        """Changes that were made stay: rdflib's graphs read their own changes."""
        raise NotImplementedError("changes that were read can't be taken back; use Database.transaction")

    def _flush(self) -> None:
        if self._changes:
            changes, self._changes = self._changes, {}
            _vicus.change(self._db._native, [(*quad, there) for quad, there in changes.items()])

    # Changes.

    def add(self, triple: Any, context: Any, quoted: bool = False) -> None:
        """Adds a triple to a graph."""
        if quoted:
            raise NotImplementedError("quoted statements of N3 aren't kept")
        super().add(triple, context, quoted)
        subject, predicate, object_ = triple
        self._changes[_parts(subject), _parts(predicate), _parts(object_), self._graph(context)] = True
        if len(self._changes) >= _MOST_CHANGES:
            self._flush()

    def addN(self, quads: Iterable[Any]) -> None:  # noqa: N802 (rdflib's name)
        """Adds triples to graphs."""
        for subject, predicate, object_, context in quads:
            self.add((subject, predicate, object_), context)

    def remove(self, triple: Any, context: Any = None) -> None:
        """Removes the triples of a pattern, from a graph or from all."""
        super().remove(triple, context)
        subject, predicate, object_ = triple
        if context is not None and None not in triple:
            quad = (_parts(subject), _parts(predicate), _parts(object_), self._graph(context))
            self._changes[quad] = False
            return
        self._flush()
        for quad in list(self._quads(triple, context)):
            of = self._graph(context) if len(quad) == 3 else None if quad[3] is None else _parts(quad[3])
            self._changes[_parts(quad[0]), _parts(quad[1]), _parts(quad[2]), of] = False
        self._flush()

    # Reading.

    def _graph(self, context: Any) -> _Parts | None:
        """The graph of the database that a graph of rdflib is; nothing is the default graph."""
        name = getattr(context, "identifier", context)
        if isinstance(name, BNode):
            if name == self._default:
                return None
            if name not in self._blank and self._told is None:
                self._default = self._told = name
                return None
            self._blank.add(name)
            return ("blank", str(name), None, None)
        if name == DATASET_DEFAULT_GRAPH_ID and self._told is None:
            self._told = name
        if name is None or name == DATASET_DEFAULT_GRAPH_ID or not isinstance(name, URIRef):
            return None
        return ("iri", _iri(name), None, None)

    def _find(self, triple: Any, context: Any, most: int) -> tuple[list[Any], _vicus.Matches | None]:
        """The first quads of a pattern, and the others if there are more."""
        if self._changes:
            self._flush()
        subject, predicate, object_ = triple
        if context is None:
            choice, name = "all", None
        elif self._graph(context) is None:
            choice, name = "default", None
        else:
            choice, name = "named", getattr(context, "identifier", context)
        return _vicus.find(self._db._native, subject, predicate, object_, choice, name, self._cache, most)

    def _quads(self, triple: Any, context: Any) -> Iterator[tuple[Any, ...]]:
        rows, rest = self._find(triple, context, _FIRST)
        yield from rows
        size = _NEXT
        while rest is not None and (rows := rest.fetch(size, self._cache)):
            yield from rows
            size = _CHUNK

    def _count(self, context: Any) -> int:
        """How many quads a graph has."""
        rows, rest = self._find((None, None, None), context, 0)
        return len(rows) + (0 if rest is None else len(rest))

    def _count_default(self) -> int:
        """How many quads the default graph has."""
        self._flush()
        rest = _vicus.find(self._db._native, None, None, None, "default", None, self._cache, 0)[1]
        return 0 if rest is None else len(rest)

    def triples(self, triple_pattern: Any, context: Any = None) -> Iterator[Any]:
        """The triples of a pattern, each with its graphs."""
        if context is None:
            return self._everywhere(triple_pattern)
        if self._changes:
            self._flush()
        name = context.identifier
        # The default graph's, in most calls.
        if name is self._told or self._graph(context) is None:
            name = None
        return _vicus.triples(self._db._native, triple_pattern, context, name, self._cache)

    def _everywhere(self, triple_pattern: Any) -> Iterator[Any]:
        """The triples of a pattern in all graphs, each with those that have it."""
        seen: dict[tuple[Any, ...], list[Any]] = {}
        for subject, predicate, object_, graph in self._quads(triple_pattern, None):
            seen.setdefault((subject, predicate, object_), []).append(self._named(graph))
        for row, contexts in seen.items():
            yield row, iter(contexts)

    def _named(self, name: Any) -> Graph:
        if isinstance(name, BNode):
            self._blank.add(name)
        return Graph(self, self._default if name is None else name)

    def __len__(self, context: Any = None) -> int:
        self._flush()
        if context is not None:
            return self._count(context)
        # A triple of several graphs counts once.
        return sum(1 for _ in self.triples((None, None, None), None))

    def contexts(self, triple: Any = None) -> Generator[Any, None, None]:
        """The graphs, or those with a triple."""
        self._flush()
        if triple is not None and triple != (None, None, None):
            for graph in {quad[3] for quad in self._quads(triple, None)}:
                yield self._named(graph)
            return
        names = set(_vicus.graphs(self._db._native, self._cache)) | set(self._empty)
        if self._count_default():
            yield self._named(None)
        for name in names:
            yield self._named(name)

    def add_graph(self, graph: Any) -> None:
        """Remembers a graph that may have no triples: the database itself keeps quads only."""
        if isinstance(graph.identifier, BNode) and graph.identifier != self._default:
            self._blank.add(graph.identifier)
        if self._graph(graph) is not None:
            self._empty[graph.identifier] = None

    def remove_graph(self, graph: Any) -> None:
        """Removes a graph with all of its triples."""
        self._empty.pop(getattr(graph, "identifier", graph), None)
        self.remove((None, None, None), graph)

    # Prefixes.

    def bind(self, prefix: str, namespace: Any, override: bool = True) -> None:
        """Binds a prefix to a namespace."""
        namespace = URIRef(str(namespace))
        bound, known = self._prefixes.get(prefix), self._names.get(namespace)
        if override:
            if known is not None:
                self._prefixes.pop(known, None)
            if bound is not None:
                self._names.pop(bound, None)
        elif bound is not None or known is not None:
            return
        self._prefixes[prefix], self._names[namespace] = namespace, prefix

    def namespace(self, prefix: str) -> Any:
        """The namespace of a prefix."""
        return self._prefixes.get(prefix)

    def prefix(self, namespace: Any) -> Any:
        """The prefix of a namespace."""
        return self._names.get(URIRef(str(namespace)))

    def namespaces(self) -> Iterator[tuple[str, Any]]:
        """All prefixes with their namespaces."""
        yield from list(self._prefixes.items())

    # SPARQL.

    def _asked(self, text: Any, names: Mapping[str, Any], bindings: Mapping[Any, Any], graph: Any) -> tuple[str, Any]:
        """The text with prefixes, and the options of a query or an update; rdflib's own engine answers the rest."""
        base = None
        if not isinstance(text, str):
            # A prepared one keeps its text, and the names of its time.
            try:
                text, names, base = text._original_args
            except (AttributeError, ValueError):
                raise NotImplementedError from None
            names = names or {}
        if any(not isinstance(term, (URIRef, Literal)) for term in bindings.values()):
            # A blank node has no name in a query.
            raise NotImplementedError
        self._flush()
        union = graph == "__UNION__"
        if union:
            named = _vicus.graphs(self._db._native, self._cache)
            own = self._count_default()
            if named and own:
                # Our union has no graph without a name.
                raise NotImplementedError
            union = bool(named)
        of = self._graph(graph) if graph != "__UNION__" else None
        if of is not None and of[0] == "blank":
            raise NotImplementedError
        declared = "".join(
            f"PREFIX {prefix}: <{iri}> "
            for prefix, iri in {**_CORE, **names}.items()
            if _PREFIX.fullmatch(prefix) and _PLAIN.fullmatch(str(iri)) and ":" in str(iri)
        )
        terms = {str(name).lstrip("?$"): term for name, term in bindings.items()}
        # Bindings that a text does not mention are nothing to it.
        given = {name: _given(term) for name, term in terms.items() if re.search(rf"[?$]{re.escape(name)}(?!\w)", text)}
        options = _database._asked(
            bind=given,
            graph=None if of is None else of[1],
            union=union,
            base=None if base is None else str(base),
        )
        return declared + text, options

    def query(
        self,
        query: Any,
        initNs: Mapping[str, Any],  # noqa: N803 (rdflib's names)
        initBindings: Mapping[Any, Any],  # noqa: N803
        queryGraph: Any,  # noqa: N803
        **kwargs: Any,
    ) -> Result:
        """Answers a query whole, by the database."""
        text, options = self._asked(query, initNs, initBindings, queryGraph)
        rows = self._db._native.query(text, options)
        if rows.kind == "truth":
            result = Result("ASK")
            result.askAnswer = rows.truth()
            return result
        if rows.kind == "triples":
            made = Graph()
            while (batch := rows.fetch_dicts([0, 1, 2], _term)) is not None:
                made.addN((row[0], row[1], row[2], made) for row in batch)
            result = Result("CONSTRUCT")
            result.graph = made
            return result
        return _Answer(rows)

    def update(
        self,
        update: Any,
        initNs: Mapping[str, Any],  # noqa: N803
        initBindings: Mapping[Any, Any],  # noqa: N803
        queryGraph: Any,  # noqa: N803
        **kwargs: Any,
    ) -> None:
        """Carries out an update whole, by the database."""
        if self._graph(queryGraph if queryGraph != "__UNION__" else None) is not None:
            # The graph that an update writes to stands in its text.
            raise NotImplementedError
        text, options = self._asked(update, initNs, initBindings, None)
        self._db._native.update(text, options)


def _given(term: Any) -> Any:
    from ._terms import IRI
    from ._terms import Literal as OurLiteral

    if isinstance(term, URIRef):
        return IRI(str(term))
    return OurLiteral(str(term), None if term.datatype is None else str(term.datatype), term.language)
