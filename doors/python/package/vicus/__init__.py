"""Vicus: RDF and SPARQL, SQL over frames and files, on all cores, near the data.

>>> import vicus
>>> db = vicus.memory()
>>> db.load(data='<http://e/ann> <http://e/knows> <http://e/bob> .')
1
>>> [row.who for row in db.query("SELECT ?who { <http://e/ann> <http://e/knows> ?who }")]
[IRI('http://e/bob')]
"""

from __future__ import annotations

from typing import Any

from ._vicus import refuse_subinterpreters as _refuse_subinterpreters

_refuse_subinterpreters()

from ._database import (
    Database,
    Plan,
    Prepared,
    Profile,
    Result,
    Transaction,
    check,
    memory,
    open,
    read,
)
from ._errors import *
from ._errors import __all__ as _names
from ._machine import Page, Simulated, Topology, simulate, strategies, topology, view
from ._network import Box, Network, Ran, Rows, box, kinds
from ._runtime import Runtime, empty, footprint
from ._terms import IRI, BlankNode, Literal, Term, Triple
from ._vicus import Cancel, __version__

__all__ = [
    "IRI",
    "BlankNode",
    "Box",
    "Cancel",
    "Database",
    "Literal",
    "Network",
    "Page",
    "Plan",
    "Prepared",
    "Profile",
    "Ran",
    "Result",
    "Rows",
    "Runtime",
    "Simulated",
    "Term",
    "Topology",
    "Transaction",
    "Triple",
    "__version__",
    "box",
    "check",
    "empty",
    "footprint",
    "kinds",
    "memory",
    "open",
    "read",
    "simulate",
    "strategies",
    "topology",
    "view",
    *_names,
]


def __getattr__(name: str) -> Any:
    # Of a package that not everybody has.
    if name == "rdflib":
        import importlib

        return importlib.import_module("vicus.rdflib")
    raise AttributeError(f"module 'vicus' has no attribute {name!r}")
