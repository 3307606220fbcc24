"""Ray as the engine of networks and of copies of a store: it places them on the machines of a cluster, and restarts them.

Ray is installed beside this package (``pip install ray``); each machine of the cluster has both. Ray holds no rows on
their way: the processes that it starts are nodes of Vicus, which join each other by their own links.

::

    import ray, vicus, vicus.ray

    ray.init()
    net = vicus.Network('''
        box n = numbers(to: 1000000) on node *;
        box even = filter(where: "n % 2 = 0") on node *;
        box rows = collect;
        n -> even -> rows;
    ''')
    print(len(vicus.ray.run(net).rows))
    copies = vicus.ray.serve("/data/people", copies=3)
    print(copies.writer(), copies.token)
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from typing import Any, Callable, Iterator, Sequence

from . import _errors as errors
from ._database import _import
from ._network import Box, Network, Rows, _Part
from ._network import Ran as _Ran
from ._nodes import Node

__all__ = ["Copies", "Nodes", "Ran", "run", "serve", "sink", "source"]

#: The column of a sink's rows: each is a reference to a block of Ray's.
_REFERENCE = "ray_block"

#: A sink's block has about so many bytes.
_BLOCK_BYTES = 32 << 20

#: Which node this process is, and of how many. Set in the actors.
_place: tuple[int, int] | None = None

#: Blocks that this process has made, until the program that began the network owns them.
_made: list[Any] = []


def _ray() -> Any:
    return _import("ray")


def _spread(count: int, cpus: float, strict: bool, patience: float) -> Any:
    """Room for so many actors, on as many machines as there are."""
    ray = _ray()
    bundles = [{"CPU": cpus} for _ in range(count)]
    group = ray.util.placement_group(bundles, strategy="STRICT_SPREAD" if strict else "SPREAD")
    try:
        ray.get(group.ready(), timeout=patience)
    except ray.exceptions.GetTimeoutError:
        ray.util.remove_placement_group(group)
        where = "a machine of its own" if strict else "room"
        raise errors.NodeLost(f"the cluster has not {where} for each of {count} actors of {cpus} CPUs") from None
    return group


def _actor(kind: type, group: Any, place: int, cpus: float) -> Any:
    """The class of an actor in its place; Ray restarts it wherever the place then is."""
    strategy = _import("ray.util.scheduling_strategies").PlacementGroupSchedulingStrategy(
        placement_group=group, placement_group_bundle_index=place
    )
    # No call is repeated by Ray: whether one had an effect is known here alone.
    options = {"num_cpus": cpus, "max_restarts": -1, "max_task_retries": 0, "scheduling_strategy": strategy}
    return _ray().remote(kind).options(**options)


def _machine() -> str:
    """The machine of this actor, as Ray calls it."""
    return str(_ray().get_runtime_context().get_node_id())


class _NodeActor:
    """Holds the node of a machine."""

    def __init__(self, place: int, count: int, listen: str | None, options: dict[str, Any]) -> None:
        global _place
        _place = (place, count)
        host = listen or _ray().util.get_node_ip_address()
        self._node = Node(f"[{host}]:0" if ":" in host else f"{host}:0", functions=True, **options)

    def address(self) -> str:
        return self._node.address

    def machine(self) -> str:
        return _machine()

    def release(self) -> None:
        _made.clear()


class Nodes:
    """Nodes on the machines of a cluster: an actor for each, for several networks one after the other.

    ``count`` is by default that of the machines with ``cpus`` free CPUs. With ``strict``, no machine has two, also when
    another one was lost: then a node waits for a new machine. ``listen`` is the address to listen at, by default that
    by which Ray knows the machine; ``folder``, ``threads``, ``memory``, ``tls_cert`` and ``tls_key`` are those of
    :class:`vicus.Node`, and files that each machine has; ``tls_ca`` is the file of authorities for :func:`run`.
    """

    __module__ = "vicus.ray"

    def __init__(
        self,
        count: int | None = None,
        *,
        cpus: float = 1,
        strict: bool = False,
        listen: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        threads: int | None = None,
        memory: int | str | None = None,
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
        patience: float = 60.0,
    ) -> None:
        ray = _ray()
        if not ray.is_initialized():
            ray.init()
        if count is None:
            machines = (node for node in ray.nodes() if node["Alive"])
            count = sum(node["Resources"].get("CPU", 0) >= cpus for node in machines)
        if count < 1:
            raise errors.NodeLost(f"no machine of the cluster has {cpus} CPUs")
        #: The nodes' token.
        self.token = secrets.token_hex(16)
        self._patience = patience
        self._group = _spread(count, cpus, strict, patience)
        options = {"token": self.token, "folder": None if folder is None else os.fspath(folder), "memory": memory}
        options["threads"] = max(1, int(cpus)) if threads is None else threads
        options["tls_cert"] = None if tls_cert is None else os.fspath(tls_cert)
        options["tls_key"] = None if tls_key is None else os.fspath(tls_key)
        #: The file of authorities by which the nodes are connected, if they speak TLS.
        self.tls_ca = None if tls_ca is None else os.fspath(tls_ca)
        self._actors = [
            _actor(_NodeActor, self._group, place, cpus).remote(place, count, listen, options) for place in range(count)
        ]

    def __len__(self) -> int:
        return len(self._actors)

    def addresses(self, lost: str | None = None) -> list[str]:
        """Where the nodes are now. Of nodes that were lost, Ray makes new ones, which are waited for."""
        until = time.monotonic() + self._patience
        return [self._address(number, actor, until) for number, actor in enumerate(self._actors, 1)]

    def _address(self, number: int, actor: Any, until: float) -> str:
        ray = _ray()
        why = "its machine is lost"
        while (left := until - time.monotonic()) > 0:
            try:
                address = str(ray.get(actor.address.remote(), timeout=left))
                host, _, port = address.rpartition(":")
                # An actor on a lost machine may answer for a moment, and its node no more.
                with socket.create_connection((host.strip("[]"), int(port)), timeout=min(left, 2.0)):
                    return address
            except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError, OSError) as error:
                why = str(error).strip().partition("\n")[0]
                time.sleep(0.2)
        raise errors.NodeLost(f"node {number} has not come within {self._patience:g} s: {why}")

    def close(self) -> None:
        """Ends all nodes."""
        ray = _ray()
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []
        ray.util.remove_placement_group(self._group)

    def __enter__(self) -> Nodes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<vicus.ray.Nodes: {len(self)}>"


class Ran(_Ran):
    """What a network has made on a cluster: its rows, and the datasets of its sinks."""

    __module__ = "vicus.ray"

    _datasets: dict[str, list[Any]]

    def dataset(self, name: str | None = None) -> Any:
        """The rows of a box that collects them as a dataset of Ray; those of :func:`sink` stay where they were made."""
        if name is None:
            names = [*self]
            if len(names) != 1:
                raise errors.ArgumentError(f"{len(names)} boxes collect rows: choose one of {', '.join(names)}")
            name = names[0]
        data = _import("ray.data")
        if name in self._datasets:
            return data.from_arrow_refs(self._datasets[name])
        return data.from_arrow(self[name].arrow())


def run(net: Network, nodes: Nodes | int | None = None, *, retries: int = 3, **options: Any) -> Ran:
    """Runs a network on the nodes of a cluster, ``on node 1`` and so on in its text: on ``nodes``, or on so many that
    are made for it and end with it.

    When a machine is lost, Ray makes its node anew elsewhere, and the network is run again from its beginning, up to
    ``retries`` times; its rows come once. Other ``options`` are those of :meth:`vicus.Network.run`.
    """
    if not isinstance(nodes, Nodes):
        with Nodes(nodes) as made:
            return run(net, made, retries=retries, **options)
    options.setdefault("node_wait", 10.0)
    options.setdefault("tls_ca", nodes.tls_ca)
    ran = net.run(nodes=nodes.addresses, token=nodes.token, retries=retries, **options)
    datasets = {name: _owned(rows) for name, rows in ran._rows.items() if rows.columns == [_REFERENCE]}
    if datasets:
        # Their makers may let go of them.
        _ray().wait([actor.release.remote() for actor in nodes._actors], num_returns=len(nodes), timeout=10)
    on_cluster = Ran(ran._rows, ran.counts, None, ran.losses)
    on_cluster._datasets = datasets
    return on_cluster


def _itself(block: Any) -> Any:
    return block


def _owned(rows: Rows) -> list[Any]:
    """The blocks of a sink, owned by this program: else they would end with the nodes that made them."""
    ray = _ray()
    loads = _import("ray.cloudpickle").loads
    blocks = [loads(base64.b64decode(text)) for text in rows.arrow().column(0).to_pylist()]
    own = ray.remote(_itself).options(num_cpus=0)
    owned = [own.remote(block) for block in blocks]
    if owned:
        ray.wait(owned, num_returns=len(owned), fetch_local=False)
    return owned


#: Arrow's types as networks write them.
_TYPES = {
    "bool": "Bool", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8", "uint16": "U16",
    "uint32": "U32", "uint64": "U64", "float": "F32", "double": "F64", "string": "Text", "large_string": "Text",
    "date32[day]": "Date",
}  # fmt: skip


def source(net: Network, dataset: Any) -> _Part:
    """A box that sends the rows of a dataset of Ray: a copy on each node, which reads its share of the blocks."""
    schema = dataset.schema()
    names, columns = list(schema.names), []
    for name, kind in zip(names, schema.types):
        if str(kind) not in _TYPES:
            raise errors.ArgumentError(f"column {name} of the dataset is of the type {kind}, which a network has not")
        columns.append(f"{name}: {_TYPES[str(kind)]} or null")
    refs = dataset.to_arrow_refs()
    # The program keeps them as long as it keeps the network.
    net.__dict__.setdefault("_blocks", []).append(refs)
    pickled = _import("ray.cloudpickle").dumps(refs)

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            pass
        yield from _share(pickled, names)

    rows.__name__ = "ray_source"
    begin = net.library("numbers", to=1).on("*")
    return begin | net.box(Box(rows, f"({', '.join(columns)})", None)).on("*")


def _share(pickled: bytes, names: list[str]) -> Iterator[Any]:
    """The blocks of this node's share, one after the other."""
    place, count = _place or (0, 1)
    for ref in _import("ray.cloudpickle").loads(pickled)[place::count]:
        table = _ray().get(ref).select(names)
        if table.num_rows > 0:
            yield table


def sink(net: Network, name: str = "rows") -> _Part:
    """A box on each node that makes blocks of the rows that come, for :meth:`Ran.dataset`: the rows stay there."""

    def blocks(batches: Iterator[Any]) -> Iterator[Any]:
        yield from _put(batches)

    blocks.__name__ = "ray_sink"
    first = net.box(Box(blocks, f"({_REFERENCE}: Text)", "pyarrow")).on("*")
    first | net.collect(name)
    return first


def _put(batches: Iterator[Any]) -> Iterator[Any]:
    arrow = _import("pyarrow")
    dumps = _import("ray.cloudpickle").dumps

    def put(tables: list[Any]) -> Any:
        block = _ray().put(arrow.concat_tables(tables).combine_chunks())
        _made.append(block)
        return arrow.table({_REFERENCE: [base64.b64encode(dumps(block)).decode()]})

    kept: list[Any] = []
    for batch in batches:
        kept.append(batch)
        if sum(table.nbytes for table in kept) >= _BLOCK_BYTES:
            yield put(kept)
            kept = []
    if kept:
        yield put(kept)


# Copies of a store.


def _ends_with_its_parent() -> None:
    """In a new process: the kernel ends it with the actor, however that ends."""
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class _CopyActor:
    """Holds the server of one copy. It is told what to be: by itself it never writes."""

    def __init__(self, store: str, listen: str | None, token: str, options: Sequence[str]) -> None:
        self._store, self._token, self._options = store, token, list(options)
        self._host = listen or _ray().util.get_node_ip_address()
        self._process: subprocess.Popen[str] | None = None
        self._url, self._follows = "", ""

    def standing(self) -> tuple[str, str]:
        """Its server's address, and the one that it follows; empty if there is none."""
        is_there = self._process is not None and self._process.poll() is None
        return (self._url, self._follows) if is_there else ("", "")

    def start(self, follow: str | None) -> str:
        """Starts the server: one that follows, or the first one, which writes. Its address."""
        self.stop()
        host = f"[{self._host}]" if ":" in self._host else self._host
        role = ["--create"] if follow is None else ["--follow", follow]
        command = [sys.executable, "-m", "vicus", "serve", "--store", self._store, "--bind", f"{host}:0", *role]
        said = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [*command, *self._options],
            env={**os.environ, "VICUS_TOKEN": self._token},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            preexec_fn=_ends_with_its_parent,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip().rstrip("/")
        if "://" not in line:
            status = self._process.wait()
            said.seek(0)
            raise errors.StoreError(f"the server of {self._store} has ended with status {status}: {said.read()[-500:]}")
        scheme, _, address = line.rpartition("://")
        self._url, self._follows = f"{scheme.rsplit(maxsplit=1)[-1]}://{address}", follow or ""
        return self._url

    def machine(self) -> str:
        return _machine()

    def promoted(self) -> None:
        self._follows = ""

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None


class _Keeper:
    """Watches over the copies: starts them, and has a follower promoted when the writer is lost. Made anew by Ray, it
    asks the copies what they are."""

    def __init__(self, token: str, synced: int, patience: float, *copies: Any) -> None:
        self._copies, self._token, self._synced, self._patience = list(copies), token, synced, patience
        #: The writer's place and address; none before the first one has begun.
        self._writer: tuple[int, str] | None = None
        self._promotions, self._silent_since = 0, 0.0
        self._told = ""
        self._is_over = False
        self._changed = threading.Lock()
        threading.Thread(target=self._watch, name="vicus copies", daemon=True).start()

    def standing(self) -> tuple[str | None, list[str], int, str]:
        """The writer, all addresses, how many promotions there were, and what goes wrong."""
        with self._changed:
            urls = [url for url, _ in self._standings()]
            return (self._writer[1] if self._writer else None, urls, self._promotions, self._told)

    def end(self) -> None:
        with self._changed:
            self._is_over = True

    def _standings(self) -> list[tuple[str, str]]:
        """Of each copy its address and the one that it follows; empty ones of a copy that is not there."""
        ray = _ray()
        asked = [copy.standing.remote() for copy in self._copies]
        ready, _ = ray.wait(asked, num_returns=len(asked), timeout=1.0)
        standings = []
        for one in asked:
            found = ("", "")
            if one in ready:
                with contextlib.suppress(ray.exceptions.RayError):
                    found = ray.get(one)
            standings.append(found)
        return standings

    def _watch(self) -> None:
        while True:
            with self._changed:
                if self._is_over:
                    return
                try:
                    self._look()
                    self._told = ""
                except Exception as error:
                    # It may be better at the next look: a machine that comes back, a store that is freed.
                    self._told = f"{type(error).__name__}: {error}"
            time.sleep(0.25)

    def _look(self) -> None:
        standings = self._standings()
        if self._writer is None:
            self._find_writer(standings)
        if self._writer is not None and _answers(self._writer[1]):
            self._silent_since = 0.0
            self._follow(standings)
        elif self._writer is not None:
            self._silent_since = self._silent_since or time.monotonic()
            if time.monotonic() - self._silent_since >= self._patience:
                self._promote(standings)

    def _find_writer(self, standings: list[tuple[str, str]]) -> None:
        for place, (url, follows) in enumerate(standings):
            if url and not follows:
                self._writer = (place, url)
                return
        followed = next((follows for _, follows in standings if follows), None)
        if followed is not None:
            # The writer was lost together with the keeper before this one.
            self._writer = (-1, followed)
        elif not any(url for url, _ in standings):
            self._writer = (0, str(_ray().get(self._copies[0].start.remote(None), timeout=120)))

    def _follow(self, standings: list[tuple[str, str]]) -> None:
        """Starts what is not there, as a follower of the writer; and anew what follows another one."""
        assert self._writer is not None
        place, writer = self._writer
        ray = _ray()
        starting = [
            copy.start.remote(writer)
            for number, (copy, (url, follows)) in enumerate(zip(self._copies, standings))
            if number != place and (not url or follows != writer)
        ]
        ready, _ = ray.wait(starting, num_returns=len(starting), timeout=120) if starting else ([], [])
        for one in ready:
            with contextlib.suppress(ray.exceptions.RayActorError):
                ray.get(one)

    def _promote(self, standings: list[tuple[str, str]]) -> None:
        """Has the follower with the most records promoted, if enough of them are there to lose no acknowledged one."""
        assert self._writer is not None
        lost = self._writer[0]
        there = {n: url for n, (url, _) in enumerate(standings) if url and n != lost and _answers(url)}
        if len(there) < max(1, len(self._copies) - self._synced):
            raise errors.StoreError(f"the writer is lost, and {len(there)} of {len(self._copies)} copies are there")
        if lost >= 0:
            # It may yet live, and not be heard: then it ends here, or else it acknowledges nothing any more.
            self._copies[lost].stop.remote()
        why = ""
        for number, url in there.items():
            others = [word for other in there.values() if other != url for word in ("--other", other)]
            command = [sys.executable, "-m", "vicus", "promote", url, *others]
            done = subprocess.run(
                command, env={**os.environ, "VICUS_TOKEN": self._token}, capture_output=True, text=True, timeout=60
            )
            if done.returncode == 0:
                self._writer = (number, url)
                self._promotions += 1
                self._silent_since = 0.0
                _ray().get(self._copies[number].promoted.remote(), timeout=10)
                self._follow(standings)
                return
            why = done.stderr.strip()
        raise errors.StoreError(f"the writer is lost, and no copy can be promoted: {why}")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=1.0) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError:
        # It lives: it may be busy, or starting.
        return True
    except OSError:
        return False


class Copies:
    """Copies of a store on the machines of a cluster: one writes, the others follow it."""

    __module__ = "vicus.ray"

    def __init__(self, keeper: Any, copies: list[Any], group: Any, token: str) -> None:
        self._keeper, self._copies, self._group = keeper, copies, group
        #: The token of changes.
        self.token = token

    def _standing(self) -> tuple[str | None, list[str], int, str]:
        ray = _ray()
        until = time.monotonic() + 60
        while True:
            try:
                standing: tuple[str | None, list[str], int, str] = ray.get(self._keeper.standing.remote(), timeout=60)
                return standing
            except ray.exceptions.RayActorError:
                # Ray makes it anew.
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)

    def wait(self, until: Callable[[Copies], bool] | None = None, timeout: float = 60.0) -> Copies:
        """Waits until something holds of the copies; by default, until all of them answer."""
        wanted = until or (lambda copies: all(copies.urls()) and copies.writer() is not None)
        end = time.monotonic() + timeout
        while not wanted(self):
            if time.monotonic() > end:
                raise errors.Timeout(f"it did not come about within {timeout:g} s: {self.trouble or 'no error'}")
            time.sleep(0.1)
        return self

    def writer(self) -> str | None:
        """The address of the copy that takes changes; none while there is none yet."""
        return self._standing()[0]

    def urls(self) -> list[str]:
        """The addresses of all copies, which answer queries; empty ones of copies that are not there now."""
        return self._standing()[1]

    @property
    def promotions(self) -> int:
        """How often a follower has become the writer."""
        return self._standing()[2]

    @property
    def trouble(self) -> str:
        """What goes wrong now; empty if nothing does."""
        return self._standing()[3]

    def close(self) -> None:
        """Ends all servers. The stores stay."""
        ray = _ray()
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(self._keeper.end.remote(), timeout=60)
        ray.kill(self._keeper)
        for copy in self._copies:
            with contextlib.suppress(ray.exceptions.RayError):
                ray.get(copy.stop.remote(), timeout=60)
            ray.kill(copy)
        ray.util.remove_placement_group(self._group)

    def __enter__(self) -> Copies:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(
    store: str | os.PathLike[str],
    copies: int = 3,
    *,
    sync_followers: int | None = None,
    cpus: float = 1,
    strict: bool = False,
    listen: str | None = None,
    token: str | None = None,
    options: Sequence[str] = (),
    patience: float = 2.0,
) -> Copies:
    """Serves copies of a store on the machines of a cluster, and has a follower write when the writer is lost.

    The first copy has the folder ``store``, which is made if it is not there; the others have folders of the same name
    with ``.copy1`` and so on behind it, each on its machine. A change is acknowledged when it is durable at the writer
    and at ``sync_followers`` others, one by default, so it outlasts the writer. A writer that does not answer for
    ``patience`` seconds is lost. ``options`` are further ones of ``vicus serve``.
    """
    ray = _ray()
    if not ray.is_initialized():
        ray.init()
    if copies < 1:
        raise errors.ArgumentError(f"copies is a number from 1 on, and not {copies}")
    synced = min(1, copies - 1) if sync_followers is None else sync_followers
    if not 0 <= synced < copies:
        raise errors.ArgumentError(f"of {copies} copies, 0 to {copies - 1} can confirm a change, and not {synced}")
    secret = token or secrets.token_hex(16)
    group = _spread(copies, cpus, strict, 60.0)
    more = ["--sync-followers", str(synced), "--threads", str(max(1, int(cpus))), *options]
    folders = [os.path.abspath(store) + (f".copy{number}" if number else "") for number in range(copies)]
    actors = [
        _actor(_CopyActor, group, number, cpus).remote(folder, listen, secret, more)
        for number, folder in enumerate(folders)
    ]
    keeper = ray.remote(_Keeper).options(num_cpus=0, max_restarts=-1, max_task_retries=0)
    return Copies(keeper.remote(secret, synced, patience, *actors), actors, group, secret)
