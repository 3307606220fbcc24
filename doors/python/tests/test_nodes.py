"""Networks over nodes: of this process, and of others, which are killed."""

from __future__ import annotations

import pathlib
import shutil
import signal
import subprocess
import sys
from typing import Any, Iterator

import pytest

import vicus

pa = pytest.importorskip("pyarrow")

GROUP = """
    param to: integer = 1000;
    box n = numbers(to: to) on node *;
    box k = map(select: "n % 10 AS k, n") on node *;
    box deal = partition(by: "k") on node *;
    box group = aggregate(select: "k, COUNT(*) AS c, SUM(n) AS s", by: "k") on node *;
    box order = sort(by: "k");
    box rows = collect;
    n -> k -> deal => group -> order -> rows;
"""


def grouped(nodes: int, to: int) -> dict[str, list[int]]:
    keys = range(10)
    return {
        "k": list(keys),
        "c": [nodes * len(range(k, to, 10)) for k in keys],
        "s": [nodes * sum(range(k, to, 10)) for k in keys],
    }


def test_rows_go_over_nodes_and_come_back() -> None:
    with vicus.Node(threads=1) as one, vicus.Node(threads=2) as two:
        assert (one.threads, two.threads) == (1, 2) and one.address != two.address
        net = vicus.Network(GROUP)
        for to in [10, 1000, 100_000]:
            ran = net.run(nodes=[one.address, two.address], parameters={"to": to}, retries=1)
            assert ran.rows.arrow().to_pydict() == grouped(2, to) and ran.losses == 0
            # The sources are on the nodes, and have sent all numbers.
            assert {count[5] for count in ran.counts} == {0, 1, 2}
            for node in (1, 2):
                assert max(sent for *_, sent, _, at in ran.counts if at == node) >= to
        # The same text in this process alone.
        assert net.run().rows.arrow().to_pydict() == grouped(1, 1000)


def test_frames_and_boxes_of_the_program_stay_in_it() -> None:
    with vicus.Node(threads=1) as node:
        net = vicus.Network()
        far = net.library("filter", where="n % 2 = 0").on(1)
        net.source(pa.table({"n": pa.array(range(1000), pa.int64())})) | far | (lambda batch: batch) | net.collect()
        assert net.run(nodes=[node.address]).rows.arrow()["n"].to_pylist() == list(range(0, 1000, 2))
        with pytest.raises(vicus.NetworkError, match="a function in Python runs in Python|there is no kind"):
            net = vicus.Network('box n = numbers(to: 3) on node 1; box p = python(of: "f") on node 1; box r = collect;'
                                " n -> p -> r;", boxes={"f": lambda batch: batch})  # fmt: skip
            net.run(nodes=[node.address])


def test_functions_travel_to_nodes_that_take_them() -> None:
    pytest.importorskip("cloudpickle")
    factor = 7

    @vicus.box("n: int64", frames="pyarrow")
    def times(batch: Any) -> Any:
        return pa.table({"n": pa.array([n * factor for n in batch["n"].to_pylist()], pa.int64())})

    @vicus.box("total: int64", frames="pyarrow")
    def total(batches: Iterator[Any]) -> Iterator[Any]:
        yield pa.table({"total": [sum(sum(batch["n"].to_pylist()) for batch in batches)]})

    def breaks(batch: Any) -> Any:
        raise KeyError("what is missing there")

    with vicus.Node(token="secret", threads=1, functions=True) as node:
        net = vicus.Network()
        net.library("numbers", to=100).on("*") | net.box(times).on("*") | net.box(total).on("*") | net.collect()
        ran = net.run(nodes=[node.address], token="secret")
        assert ran.rows.arrow().to_pydict() == {"total": [sum(range(100)) * factor]}
        net = vicus.Network()
        net.library("numbers", to=100).on(1) | net.box(vicus.box()(breaks)).on(1) | net.collect()
        with pytest.raises(vicus.NetworkError, match="node 1 .*what is missing there"):
            net.run(nodes=[node.address], token="secret")
        # What can't travel is told of by the node that was to run it.
        lock = __import__("threading").Lock()
        net = vicus.Network()
        net.library("numbers", to=9).on(1) | net.box(vicus.box()(lambda batch: lock and batch)).on(1) | net.collect()
        with pytest.raises(vicus.NetworkError, match="can't be pickled"):
            net.run(nodes=[node.address], token="secret")
    with pytest.raises(vicus.ArgumentError, match="needs a token"):
        vicus.Node(functions=True)


def test_functions_of_another_environment_are_refused() -> None:
    import json

    from vicus import _nodes

    [(_, text)] = _nodes._attached([("f", vicus.box()(lambda batch: batch))])
    attached = json.loads(text)
    attached["environment"] = "cpython 2.7"
    [(_, make, *_)] = _nodes._load(json.dumps(attached))
    with pytest.raises(vicus.NetworkError, match=r"of cpython 2\.7, and this node has"):
        make()


def test_wrong_nodes_are_told() -> None:
    net = vicus.Network("box n = numbers(to: 3) on node 1; box rows = collect; n -> rows;")
    with vicus.Node(token="secret", threads=1) as node:
        for token in [None, "other"]:
            with pytest.raises(vicus.NodeLost, match="token"):
                net.run(nodes=[node.address], token=token)
        with pytest.raises(vicus.NetworkError, match="there is one, 1"):
            vicus.Network("box n = numbers(to: 3) on node 2; box rows = collect; n -> rows;").run(
                nodes=[node.address], token="secret"
            )
        address = node.address
    with pytest.raises(vicus.NodeLost, match="can't be reached"):
        net.run(nodes=[address], token="secret", node_wait=0)
    with pytest.raises(vicus.ArgumentError, match="comes once"):
        text = 'box n = numbers(to: 3) on node 1; box out = write_csv(file: "-"); n -> out;'
        vicus.Network(text).run(nodes=[address], retries=1, node_wait=0)
    with pytest.raises(vicus.ArgumentError, match="are for `nodes`"):
        net.run(retries=1)
    with pytest.raises(vicus.ArgumentError, match="needs a token"):
        vicus.Node("0.0.0.0:0")
    with pytest.raises(vicus.ArgumentError):
        net.library("sink").on("all")


def _signed(folder: pathlib.Path, name: str, address: str) -> tuple[pathlib.Path, pathlib.Path, pathlib.Path]:
    """An authority's certificate, and one that it has signed, with its key."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", f"{name}-ca.key", "-out", f"{name}-ca.pem", "-subj", f"/CN={name}")
    openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", "/CN=node")
    (folder / f"{name}.ext").write_text(f"subjectAltName=IP:{address}\nbasicConstraints=CA:FALSE\n")
    by = ["-CA", f"{name}-ca.pem", "-CAkey", f"{name}-ca.key", "-CAcreateserial", "-extfile", f"{name}.ext"]
    openssl("x509", "-req", "-in", f"{name}.csr", *by, "-out", f"{name}.pem", "-days", "2")
    return folder / f"{name}-ca.pem", folder / f"{name}.pem", folder / f"{name}.key"


def test_rows_go_over_tls_and_what_does_not_fit_is_told(tmp_path: pathlib.Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificates")
    roots, chain, key = _signed(tmp_path, "ours", "127.0.0.1")
    strange, *_ = _signed(tmp_path, "theirs", "127.0.0.1")
    _, far, far_key = _signed(tmp_path, "far", "192.0.2.1")
    secure = {"token": "secret", "threads": 1, "tls_cert": chain, "tls_key": key}
    with vicus.Node(**secure) as one, vicus.Node(**secure) as two, vicus.Node(threads=1) as plain:
        net = vicus.Network(GROUP)
        ran = net.run(nodes=[one.address, two.address], token="secret", tls_ca=roots, parameters={"to": 100_000})
        assert ran.rows.arrow().to_pydict() == grouped(2, 100_000)
        for tls_ca, says in [(None, "it speaks TLS alone"), (strange, "signed by none of the authorities")]:
            with pytest.raises(vicus.NodeLost, match=says):
                net.run(nodes=[one.address], token="secret", tls_ca=tls_ca)
        with pytest.raises(vicus.NodeLost, match="it does not speak TLS"):
            net.run(nodes=[plain.address], tls_ca=roots)
    with pytest.raises(vicus.ArgumentError, match="belong together"):
        vicus.Node(tls_cert=chain)
    with pytest.raises(vicus.ArgumentError, match="far.key"):
        vicus.Node(tls_cert=chain, tls_key=far_key)
    with pytest.raises(vicus.ArgumentError, match="none.pem"):
        vicus.Node(tls_cert=tmp_path / "none.pem", tls_key=key)
    with pytest.raises(vicus.ArgumentError, match="no certificate"):
        net.run(nodes=["127.0.0.1:1"], tls_ca=key)
    with pytest.raises(vicus.ArgumentError, match="are for `nodes`"):
        net.run(tls_ca=roots)


def test_queries_are_shared_by_tls(tmp_path: pathlib.Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificates")
    roots, chain, key = _signed(tmp_path, "ours", "127.0.0.1")
    strange, *_ = _signed(tmp_path, "theirs", "127.0.0.1")
    store = tmp_path / "store"
    with vicus.open(store, threads=1) as db:
        db.load(data="".join(f"<http://e/{n}> <http://e/p> <http://e/{n % 7}> .\n" for n in range(5000)))
    command = [sys.executable, "-m", "vicus", "node", "--listen", "127.0.0.1:0", "--threads", "1", "--store", str(store)]
    command += ["--tls-cert", str(chain), "--tls-key", str(key)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        line = node.stdout.readline()
        try:
            address = line.split(" at ")[1].split(",")[0]
            query = "SELECT ?o (COUNT(*) AS ?n) { ?s <http://e/p> ?o } GROUP BY ?o"
            with vicus.open(store, threads=1, nodes=[address], tls_ca=roots) as db:
                assert sum(int(str(row.n)) for row in db.query(query)) == 5000
            for tls_ca, says in [(None, "it speaks TLS alone"), (strange, "signed by none of the authorities")]:
                with pytest.raises(vicus.StoreError, match=says):
                    vicus.open(store, nodes=[address], tls_ca=tls_ca)
        finally:
            node.kill()
    with pytest.raises(vicus.ArgumentError, match="is for `nodes`"):
        vicus.open(store, tls_ca=roots)


class Process:
    """A node in a process of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        program = (
            "import sys, time, vicus\n"
            "node = vicus.Node(threads=1, folder=sys.argv[1])\n"
            "print(node.address, flush=True)\n"
            "sys.stdin.read()\n"
        )
        command = [sys.executable, "-c", program, str(folder)]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.child.stdout is not None
        self.address = self.child.stdout.readline().strip()

    def kill(self) -> None:
        self.child.send_signal(signal.SIGKILL)
        self.child.communicate()


def test_a_killed_node_is_made_anew_and_files_are_written_once(tmp_path: pathlib.Path) -> None:
    text = """
        box n = numbers(to: 3000000) on node *;
        box few = filter(where: "n % 100000 = 0") on node *;
        box out = write_csv(file: "few.csv") on node 2;
        box all = union on node 2;
        n -> few -> all -> out;
    """
    net = vicus.Network(text)
    before = "n\n-1\n"
    (tmp_path / "few.csv").write_text(before)
    processes = [Process(tmp_path), Process(tmp_path)]
    asked: list[str | None] = []

    def nodes(lost: str | None) -> list[str]:
        asked.append(lost)
        if lost is None:
            # It takes connections, and is gone before the network is done.
            processes[0].kill()
            return [process.address for process in processes]
        assert (tmp_path / "few.csv").read_text() == before
        processes[0] = Process(tmp_path)
        return [process.address for process in processes]

    try:
        ran = net.run(nodes=nodes, retries=2, node_wait=0)
        assert ran.losses == 1 and len(asked) == 2 and list(ran) == []
        rows = sorted(map(int, (tmp_path / "few.csv").read_text().split()[1:]))
        assert rows == sorted([n * 100_000 for n in range(30)] * 2)
        assert [path.name for path in tmp_path.iterdir()] == ["few.csv"]
    finally:
        for process in processes:
            process.kill()
