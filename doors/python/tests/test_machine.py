"""Machines, strategies and the simulator, as values and as pictures."""

from __future__ import annotations

import xml.dom.minidom
from pathlib import Path

import pytest

import vicus


def test_machines_have_parts_and_pictures() -> None:
    here = vicus.topology()
    assert here["pus"] and here["nodes"]
    other = vicus.topology("node:2 l3:2 core:4 pu:2")
    assert len(other["pus"]) == 32 and len(other["nodes"]) == 2 and "node" in repr(other)
    xml.dom.minidom.parseString(other._repr_html_())
    for wrong in ["no such machine", "--help", "node:-1"]:
        with pytest.raises(vicus.ArgumentError):
            vicus.topology(wrong)


def test_strategies_have_parameters() -> None:
    known = {strategy["name"]: strategy for strategy in vicus.strategies()}
    assert len(known) == 10 and known["las"]["parameters"]["spares"]["default"] == "4"


def test_what_is_told_of_machines_is_a_frame() -> None:
    pytest.importorskip("polars")
    strategies, machine = vicus.strategies(), vicus.topology("node:2 core:2")
    frame = strategies.polars()
    assert set(frame["strategy"]) == {strategy["name"] for strategy in strategies}
    assert ("las", "spares", "4") in frame.select("strategy", "parameter", "default").rows()
    shown = strategies._repr_html_()
    assert "<th>parameter</th>" in shown and "<td>footprint</td>" in shown
    assert machine.polars()["node"].to_list() == [0, 0, 1, 1]
    assert len(machine.pandas()) == machine.arrow().num_rows == 4


def test_a_recorded_run_is_a_page(tmp_path: Path) -> None:
    trace = tmp_path / "run.trace"
    net = vicus.Network("box n = numbers(to: 1000); box s = sink; n -> s;")
    net.run(trace=trace)
    page = vicus.view(trace)
    assert page.html.startswith("<!DOCTYPE html>") and ">numbers</th>" in page.html
    page.save(tmp_path / "run.html")
    assert vicus.view(tmp_path / "run.html").html == page.html
    shown = page._repr_html_()
    assert shown.startswith("<iframe sandbox=") and "<script" not in shown
    both = vicus.view(trace, other=tmp_path / "run.html")
    assert "Differences by box" in both.html
    with pytest.raises(vicus.ArgumentError, match="nothing.trace"):
        vicus.view(tmp_path / "nothing.trace")


def test_the_simulator_gives_rows() -> None:
    runs = vicus.simulate(machine="opteron-6172", kernel="map", strategy=["las", "steal"], seed=1)
    assert [run["strategy"] for run in runs] == ["las", "steal"] and all(run["ms"] > 0 for run in runs)
    assert repr(runs) == "<vicus.Simulated opteron-6172: 2 runs>"
    assert runs._repr_html_().lstrip().startswith("<svg")
    frame = pytest.importorskip("polars").DataFrame(runs.polars())
    assert frame["kernel"].to_list() == ["map", "map"]
    with pytest.raises(vicus.ArgumentError, match="none"):
        vicus.simulate(machine="opteron-6172", kernel="none")
