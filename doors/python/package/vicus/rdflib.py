"""A store for rdflib: its graphs lie in a database of Vicus, which answers their queries and updates as well.

>>> import rdflib, vicus.rdflib
>>> graph = rdflib.Graph(store=vicus.rdflib.Store(vicus.memory()))
>>> _ = graph.add((rdflib.URIRef("http://e/ann"), rdflib.RDFS.label, rdflib.Literal("Ann")))
>>> [str(row.name) for row in graph.query("SELECT ?name { ?s rdfs:label ?name }")]
['Ann']

``rdflib.Graph("Vicus")`` has a database in memory of its own, and ``graph.open(path)`` opens a store. The graph of
rdflib without a name of its own is the default graph.
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

_CHUNKS = (16, 512, 8192)

# Prefixes that rdflib's own engine knows.
_CORE = {"owl": OWL, "rdf": RDF, "rdfs": RDFS, "xsd": XSD}

# An IRI in a prefix's declaration; all others are left out, since no text could use them.
_PLAIN = re.compile(r"[^\x00-\x20<>\"{}|^`\\]*")
_PREFIX = re.compile(r"([A-Za-z](?:[\w.-]*[\w-])?)?")


def _term(kind: str, text: str, datatype: str | None, language: str | None) -> Any:
    if kind == "iri":
        return URIRef(text)
    if kind == "blank":
        return BNode(text)
    if kind == "triple":
        raise NotImplementedError("rdflib has no triple terms")
    if language is not None:
        return Literal(text, lang=language)
    return Literal(text, datatype=None if datatype is None else URIRef(datatype), normalize=False)


def _parts(term: Any) -> _Parts:
    if isinstance(term, URIRef):
        return ("iri", str(term), None, None)
    if isinstance(term, BNode):
        return ("blank", str(term), None, None)
    if isinstance(term, Literal):
        datatype = None if term.datatype is None else str(term.datatype)
        return ("literal", str(term), None if term.language else datatype, term.language)
    raise _errors.TermError(f"{term!r} is no term that a store can hold: an IRI, a blank node or a literal")


def _optional(term: Any) -> _Parts | None:
    return None if term is None else _parts(term)


def _of_vicus(term: Any) -> Any:
    """A term of an answer as rdflib has it."""
    if term is None:
        return None
    kind = type(term).__name__
    if kind == "Literal":
        plain = term.datatype == "http://www.w3.org/2001/XMLSchema#string"
        return _term("literal", str(term), None if plain or term.language else term.datatype, term.language)
    if kind == "BlankNode":
        return BNode(term.label)
    return _term("iri" if kind == "IRI" else "triple", str(term), None, None)


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
        self._cache = _vicus.TermCache(_term)
        self._changes: dict[tuple[_Parts, _Parts, _Parts, _Parts | None], bool] = {}
        self._prefixes: dict[str, URIRef] = {}
        self._names: dict[URIRef, str] = {}
        self._empty: dict[Any, Any] = {}
        # What a conjunctive graph calls the default graph.
        self._default: Any = DATASET_DEFAULT_GRAPH_ID
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
            graph = quad[3] if len(quad) > 3 else context
            of = None if graph is None else self._graph(graph)
            self._changes[_parts(quad[0]), _parts(quad[1]), _parts(quad[2]), of] = False
        self._flush()

    # Reading.

    def _graph(self, context: Any) -> _Parts | None:
        """The graph of the database that a graph of rdflib is; nothing is the default graph."""
        name = getattr(context, "identifier", context)
        if isinstance(name, BNode):
            self._default = name
        if name is None or name == DATASET_DEFAULT_GRAPH_ID or not isinstance(name, URIRef):
            return None
        return ("iri", str(name), None, None)

    def _matches(self, triple: Any, context: Any) -> Any:
        subject, predicate, object_ = triple
        graph = None if context is None else self._graph(context)
        graphs = "all" if context is None else "default" if graph is None else "named"
        return _vicus.matching(
            self._db._native, _optional(subject), _optional(predicate), _optional(object_), graphs, graph
        )

    def _quads(self, triple: Any, context: Any) -> Iterator[tuple[Any, ...]]:
        self._flush()
        if any(isinstance(term, (Graph, Variable)) for term in triple):
            return
        found, cache = self._matches(triple, context), self._cache
        for size in _CHUNKS:
            rows = found.fetch(size, cache)
            yield from rows
            if len(rows) < size:
                return
        while rows := found.fetch(size, cache):
            yield from rows

    def triples(self, triple_pattern: Any, context: Any = None) -> Iterator[Any]:
        """The triples of a pattern, each with its graphs."""
        if context is not None:
            graphs = [context]
            for row in self._quads(triple_pattern, context):
                yield row, iter(graphs)
            return
        seen: dict[tuple[Any, ...], list[Any]] = {}
        for subject, predicate, object_, graph in self._quads(triple_pattern, None):
            seen.setdefault((subject, predicate, object_), []).append(self._named(graph))
        for row, contexts in seen.items():
            yield row, iter(contexts)

    def _named(self, name: Any) -> Graph:
        return Graph(self, self._default if name is None else name)

    def __len__(self, context: Any = None) -> int:
        self._flush()
        if context is not None:
            return len(self._matches((None, None, None), context))
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
        if len(_vicus.matching(self._db._native, None, None, None, "default", None)):
            yield self._named(None)
        for name in names:
            yield self._named(name)

    def add_graph(self, graph: Any) -> None:
        """Remembers a graph that may have no triples: the database itself keeps quads only."""
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
        if not isinstance(text, str):
            raise NotImplementedError
        if any(not isinstance(term, (URIRef, Literal)) for term in bindings.values()):
            # A blank node has no name in a query.
            raise NotImplementedError
        self._flush()
        union = graph == "__UNION__"
        if union:
            named = _vicus.graphs(self._db._native, self._cache)
            own = len(_vicus.matching(self._db._native, None, None, None, "default", None))
            if named and own:
                # Our union has no graph without a name.
                raise NotImplementedError
            union = bool(named)
        of = self._graph(graph) if graph != "__UNION__" else None
        declared = "".join(
            f"PREFIX {prefix}: <{iri}> "
            for prefix, iri in {**_CORE, **names}.items()
            if _PREFIX.fullmatch(prefix) and _PLAIN.fullmatch(str(iri)) and ":" in str(iri)
        )
        terms = {str(name).lstrip("?$"): term for name, term in bindings.items()}
        # Bindings that a text does not mention are nothing to it.
        given = {name: _given(term) for name, term in terms.items() if re.search(rf"[?$]{re.escape(name)}(?!\w)", text)}
        options = _database._asked(bind=given, graph=None if of is None else of[1], union=union)
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
            while (batch := rows.fetch(tuple)) is not None:
                for subject, predicate, object_ in batch:
                    made.add((_of_vicus(subject), _of_vicus(predicate), _of_vicus(object_)))
            result = Result("CONSTRUCT")
            result.graph = made
            return result
        result = Result("SELECT")
        result.vars = [Variable(name) for name in rows.columns]
        result.bindings = _bindings(rows, result.vars)  # type: ignore[assignment]
        return result

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


def _bindings(rows: Any, names: list[Any]) -> list[dict[Any, Any]]:
    made: list[dict[Any, Any]] = []
    known: dict[Any, Any] = {}
    while (batch := rows.fetch(tuple)) is not None:
        for row in batch:
            line = {}
            for name, term in zip(names, row):
                if term is not None:
                    key = (type(term), str(term), getattr(term, "datatype", None), getattr(term, "language", None))
                    of = known.get(key)
                    if of is None:
                        of = known[key] = _of_vicus(term)
                    line[name] = of
            made.append(line)
    return made
