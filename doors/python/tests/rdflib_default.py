"""A plugin of pytest that makes Vicus the default store of rdflib, for rdflib's own tests."""

from __future__ import annotations

import sys
import types
from typing import Any

import rdflib.plugin
from rdflib.store import Store

import vicus.rdflib


class InMemory(vicus.rdflib.Store):
    """In memory whatever is opened, as rdflib's default store is."""

    def open(self, configuration: Any, create: bool = False) -> int | None:
        return None

    def close(self, commit_pending_transaction: bool = False) -> None:
        self.commit()


module = types.ModuleType("vicus_in_memory")
module.Store = InMemory  # type: ignore[attr-defined]
sys.modules["vicus_in_memory"] = module
for name in ("default", "Memory"):
    rdflib.plugin._plugins.pop((name, Store), None)  # type: ignore[attr-defined]
    rdflib.plugin.register(name, Store, "vicus_in_memory", "Store")
