"""Nodes: processes that run parts of networks which others begin, and the functions that travel to them."""

from __future__ import annotations

import base64
import contextlib
import importlib
import json
import os
import sys
import weakref
from typing import Any, Callable, Iterable

from . import _errors as errors
from . import _vicus
from ._database import _bytes
from ._network import Box

__all__ = ["Node"]


class Node:
    """A node in this process: other processes run parts of networks here, by ``Network.run(nodes=…)`` or ``vicus
    network run --nodes``. It ends with the process, or by :meth:`close`.

    ``listen`` is the address, with port 0 for any free one; others than this machine need a ``token``. With
    ``tls_cert`` and ``tls_key``, a certificate chain and its key as PEM files, it speaks TLS alone. Boxes read and
    write files below ``folder`` alone. With ``functions`` it runs functions in Python that come with a network, so
    whoever has the token runs what they like here.

    >>> import vicus
    >>> with vicus.Node(threads=1) as node:
    ...     net = vicus.Network("box n = numbers(to: 3) on node 1; box rows = collect; n -> rows;")
    ...     len(net.run(nodes=[node.address]).rows)
    3
    """

    __module__ = "vicus"

    def __init__(
        self,
        listen: str = "127.0.0.1:0",
        *,
        token: str | None = None,
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        folder: str | os.PathLike[str] | None = None,
        threads: int | None = None,
        memory: int | str | None = None,
        functions: bool = False,
    ) -> None:
        if functions and not token:
            raise errors.ArgumentError("a node that runs functions of others needs a token")
        if (tls_cert is None) != (tls_key is None):
            raise errors.ArgumentError("`tls_cert` and `tls_key` belong together")
        certificate = None
        if tls_cert is not None and tls_key is not None:
            certificate = (os.fspath(tls_cert), os.fspath(tls_key))
        load = _load if functions else None
        place = None if folder is None else os.fspath(folder)
        self._native = _vicus.Node(listen, token, certificate, place, threads, _bytes(memory), load)
        # Also before the interpreter ends.
        self._finalizer = weakref.finalize(self, self._native.close)

    @property
    def address(self) -> str:
        """Its address, with the port that it has got."""
        return self._native.address

    @property
    def threads(self) -> int:
        """How many threads run boxes."""
        return self._native.threads

    def close(self) -> None:
        """Ends it. Networks that run here fail."""
        self._finalizer()

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<vicus.Node at {self.address}, {self.threads} threads>"


def _pickler() -> Any | None:
    """The module that pickles functions by their code: cloudpickle, or Ray's own."""
    for name in ("cloudpickle", "ray.cloudpickle"):
        # Ray itself takes long to be imported.
        if name == "cloudpickle" or "ray" in sys.modules:
            with contextlib.suppress(ImportError):
                return importlib.import_module(name)
    return None


def _environment() -> str:
    """What has to be alike where a function is pickled and where it is called."""
    pickler = _pickler()
    by = "no cloudpickle" if pickler is None else f"{pickler.__name__} {getattr(pickler, '__version__', '')}".strip()
    name = sys.implementation.name
    return f"{name} {sys.version_info.major}.{sys.version_info.minor}, {by}, vicus {_vicus.__version__}"


def _attached(boxes: Iterable[tuple[str, Box]]) -> list[tuple[str, str]]:
    """The functions of a network, as they travel. One that can't is told of by the node that is to run it."""
    pickler, functions = _pickler(), []
    for name, box in boxes:
        code = wrong = None
        try:
            if pickler is None:
                wrong = "cloudpickle is not installed in the program that began the network"
            else:
                code = base64.b64encode(pickler.dumps((box._function, box._columns, box._frames, box._takes_all))).decode()
        except Exception as error:
            wrong = f"it can't be pickled: {error}"
        told = {"name": name, "columns": box._columns, "takes_all": box._takes_all}
        functions.append({**told, "code": code, "wrong": wrong})
    return [("python", json.dumps({"environment": _environment(), "functions": functions}))]


def _load(text: str) -> list[tuple[str, Callable[[], Any], str | None, bool]]:
    """The boxes of the functions that came with a network."""
    import pickle

    attached = json.loads(text)
    theirs, ours = attached["environment"], _environment()

    def made(function: dict[str, Any]) -> Callable[[], Any]:
        def make() -> Any:
            wrong = function["wrong"]
            if theirs != ours:
                wrong = f"it is of another environment: of {theirs}, and this node has {ours}"
            if wrong is not None:
                raise errors.NetworkError(f"the function `{function['name']}` can't run on a node: {wrong}")
            return Box(*pickle.loads(base64.b64decode(function["code"])))._make()

        return make

    return [
        (function["name"], made(function), function["columns"], function["takes_all"])
        for function in attached["functions"]
    ]
