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

import atexit as _atexit

from ._vicus import wait_for_unfinished as _wait_for_unfinished

# Code of users that a call has left behind ends before the interpreter does, if it ends soon.
_atexit.register(_wait_for_unfinished, 0.3)

from . import _errors
from ._archives import Archived, Restored, restore
from ._database import (
    Database,
    Prepared,
    Result,
    Transaction,
    check,
    memory,
    open,
    read,
)
from ._errors import *
from ._machine import Page, Simulated, Strategies, Topology, simulate, strategies, topology, view
from ._network import Box, Network, Ran, Rows, Trace, box, kinds, trace
from ._nodes import Node
from ._plans import Operator, Plan, Profile
from ._runtime import Runtime, empty, footprint
from ._terms import IRI, BlankNode, Literal, Term, Triple
from ._vicus import Cancel, __version__

__all__ = [
    "IRI",
    "Archived",
    "BlankNode",
    "Box",
    "Cancel",
    "Database",
    "Literal",
    "Network",
    "Node",
    "Operator",
    "Page",
    "Plan",
    "Prepared",
    "Profile",
    "Ran",
    "Restored",
    "Result",
    "Rows",
    "Runtime",
    "Simulated",
    "Strategies",
    "Term",
    "Topology",
    "Trace",
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
    "restore",
    "simulate",
    "strategies",
    "topology",
    "trace",
    "view",
]
__all__ += _errors.__all__


def __getattr__(name: str) -> Any:
    # Of a package that not everybody has.
    if name in ("rdflib", "ray"):
        import importlib

        return importlib.import_module(f"vicus.{name}")
    raise AttributeError(f"module 'vicus' has no attribute {name!r}")
