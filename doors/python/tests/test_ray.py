"""Nodes and copies on a Ray cluster of three machines, all of them here. Without Ray, these tests are skipped."""

from __future__ import annotations

import os
import pathlib
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Iterator

import pytest

import vicus

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install ray")
pa = pytest.importorskip("pyarrow")

# Machines are found to be lost sooner than by Ray's defaults, which are for large clusters.
HEALTH = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}


MACHINE: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 100 << 20}


def lose_the_machine_of(cluster: Any, actor: Any) -> None:
    """Kills the machine that has an actor, and adds another one."""
    lost = ray.get(actor.machine.remote())
    [machine] = [node for node in cluster.worker_nodes if node.node_id == lost]
    cluster.remove_node(machine, allow_graceful=False)
    cluster.add_node(**MACHINE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    head = {"num_cpus": 0, "object_store_memory": 100 << 20, "_system_config": HEALTH, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(3):
        made.add_node(**MACHINE)
    ray.init(address=made.address, log_to_driver=False)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


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


def test_a_node_is_on_each_machine(cluster: Any) -> None:
    with vicus.ray.Nodes(3, strict=True) as nodes:
        where = [ray.get(actor.address.remote()) for actor in nodes._actors]
        assert nodes.addresses() == where and len(set(where)) == 3
        net = vicus.Network(GROUP)
        for to in [10, 100_000]:
            ran = vicus.ray.run(net, nodes, parameters={"to": to})
            assert ran.rows.arrow().to_pydict() == grouped(3, to) and ran.losses == 0
        assert ran.dataset().count() == 10
    # Nodes of one network's own.
    assert vicus.ray.run(net, 2).rows.arrow().to_pydict() == grouped(2, 1000)
    with pytest.raises(vicus.NodeLost, match="a machine of its own"):
        vicus.ray.Nodes(4, strict=True, patience=3)


def test_datasets_are_sources_and_sinks(cluster: Any) -> None:
    data = pytest.importorskip("ray.data", reason="Ray has no data: pip install ray[data]")
    dataset = data.from_arrow([pa.table({"n": pa.array(range(at, at + 1000), pa.int64())}) for at in range(0, 9000, 1000)])

    @vicus.box("n: int64 or null, place: int64", frames="pyarrow")
    def placed(batch: Any) -> Any:
        from vicus import ray as own

        place = own._place[0] if own._place else -1
        return batch.append_column("place", pa.array([place] * batch.num_rows, pa.int64()))

    with vicus.ray.Nodes(3) as nodes:
        net = vicus.Network()
        few = net.library("filter", where="n % 2 = 0").on("*")
        vicus.ray.source(net, dataset) | few | net.box(placed).on("*") | vicus.ray.sink(net, "even")
        ran = vicus.ray.run(net, nodes)
        rows = pa.concat_tables(ray.get(ran.dataset("even").to_arrow_refs()))
        assert sorted(rows["n"].to_pylist()) == list(range(0, 9000, 2))
        # Each node had its share.
        assert set(rows["place"].to_pylist()) == {0, 1, 2}
    # Its rows are there when the nodes are gone.
    assert ran.dataset("even").count() == 4500


def test_what_a_lost_machine_had_is_done_elsewhere(cluster: Any, tmp_path: pathlib.Path) -> None:
    # The file of a node gets its place when all of the network has done well.
    text = GROUP + """
        box first = numbers(to: to) on node 1;
        box few = filter(where: "n % 1000 = 0") on node 1;
        box out = write_csv(file: "few.csv") on node 1;
        first -> few -> out;
    """
    net = vicus.Network(text)
    with vicus.ray.Nodes(3, strict=True, patience=120, folder=tmp_path) as nodes:
        before = nodes.addresses()
        lose_the_machine_of(cluster, nodes._actors[1])
        ran = vicus.ray.run(net, nodes, parameters={"to": 100_000}, retries=5)
        assert ran["rows"].arrow().to_pydict() == grouped(3, 100_000)
        after = nodes.addresses()
        assert [one == other for one, other in zip(before, after)] == [True, False, True], (before, after)
        assert (tmp_path / "few.csv").read_text().split() == ["n", *(str(n * 1000) for n in range(100))]


def ask(url: str, path: str, **fields: str) -> str:
    data = urllib.parse.urlencode(fields).encode()
    with urllib.request.urlopen(f"{url}/{path}", data=data, timeout=30) as answer:
        return str(answer.read().decode())


def insert(copies: Any, value: int) -> bool:
    """Whether a change was acknowledged."""
    url = copies.writer()
    if url is None:
        return False
    request = urllib.request.Request(
        f"{url}/update",
        data=f"INSERT DATA {{ <http://e/s> <http://e/p> {value} }}".encode(),
        headers={"Content-Type": "application/sparql-update", "Authorization": f"Bearer {copies.token}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=15) as answer:
            return bool(answer.status == 204)
    except OSError:
        return False


def values(url: str) -> set[int]:
    try:
        text = ask(url, "sparql?format=csv", query="SELECT ?o { <http://e/s> <http://e/p> ?o }")
    except OSError:
        return set()
    return {int(line) for line in text.split()[1:]}


def test_a_follower_writes_when_the_writer_is_lost(cluster: Any, tmp_path: pathlib.Path) -> None:
    with vicus.ray.serve(tmp_path / "people", copies=3, options=["--total-memory", "200M"]) as copies:
        copies.wait(timeout=120)
        acknowledged = {value for value in range(20) if insert(copies, value)}
        assert acknowledged == set(range(20))
        first = copies.writer()
        copies.wait(lambda copies: all(acknowledged <= values(url) for url in copies.urls()))
        lose_the_machine_of(cluster, copies._copies[0])
        copies.wait(lambda copies: copies.promotions == 1, timeout=120)
        assert copies.writer() not in (None, first)
        copies.wait(timeout=120)
        end = time.monotonic() + 60
        more = set()
        while len(more) < 10 and time.monotonic() < end:
            value = 100 + len(more)
            if insert(copies, value):
                more.add(value)
        assert len(more) == 10, copies.trouble
        # The lost one follows, and all have what was acknowledged.
        copies.wait(lambda copies: all(acknowledged | more <= values(url) for url in copies.urls()), timeout=120)
        assert copies.promotions == 1


PAGE = pathlib.Path(__file__).parents[3] / "docs" / "how-to" / "ray.md"


def test_the_page_of_the_book_runs(cluster: Any, tmp_path: pathlib.Path) -> None:
    """All blocks of the page, one after the other, with folders of the test in the place of the page's."""
    parquet = pytest.importorskip("pyarrow.parquet")
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    people = tmp_path / "people"
    people.mkdir()
    ages = pa.table({"name": ["Ann", "Bob", "Eve"], "age": pa.array([17, 18, 40], pa.int64())})
    parquet.write_table(ages, people / "people.parquet")
    names: dict[str, Any] = {}
    for block in blocks:
        # The cluster of these tests is there.
        block = block.replace("ray.init()\n", "").replace("s3://bucket/people", str(people))
        exec(block.replace("/data/people", str(tmp_path / "store")), names)
        if "ran" in names:
            rows = names.pop("ran").rows.arrow().to_pydict()
            machines = len(ray.nodes()) - 1
            assert dict(zip(rows["k"], rows["c"])) == {k: rows["c"][0] for k in range(10)}, machines
            assert sum(rows["c"]) % 1_000_000 == 0
    assert sorted(names["dataset"].to_pandas()["name"]) == ["Bob", "Eve"]
    try:
        assert names["copies"].writer() in names["copies"].urls()
    finally:
        names["copies"].close()
