"""What notebooks see: pictures, first rows, progress."""

from __future__ import annotations

import html
import pathlib
import pickle
import sys
import types
import xml.dom.minidom

import pytest
import vicus

MANY = "".join(f"<http://e/{n}> <http://e/p> {n} .\n" for n in range(3000))


def pictures(html: str) -> list[xml.dom.minidom.Document]:
    """All pictures in a page, which are well-formed and ask nothing of other servers."""
    found = [part.split("</svg>")[0] + "</svg>" for part in html.split("<svg")[1:]]
    assert "<script" not in html and "src=" not in html
    return [xml.dom.minidom.parseString("<svg" + part) for part in found]


def test_a_result_that_was_shown_is_whole() -> None:
    pa = pytest.importorskip("pyarrow")
    db = vicus.memory()
    db.load(data=MANY)
    result = db.query("SELECT ?s ?o { ?s ?p ?o }")
    html = result._repr_html_()
    assert html.count("<tr>") == 21 and "3,000 rows, " in html and "so far" not in html
    # Shown once more, it is the same, and then a frame has all rows.
    assert result._repr_html_().count("<tr>") == 21
    assert pa.table(result).num_rows == 3000
    assert "handed over" in result._repr_html_()
    rows = db.query("SELECT ?s ?o { ?s ?p ?o }")
    first = rows.fetchone()
    # The rows that are left are shown.
    assert first is not None and f"<td>{first.s}</td>" not in rows._repr_html_()
    assert len(rows.fetchall()) == 2999
    assert "0 rows" in db.query("SELECT ?s { ?s <http://e/none> ?o }")._repr_html_()
    assert db.query("ASK { ?s ?p ?o }")._repr_html_() == "<p>yes</p>"


def test_a_look_at_an_answer_without_end_comes_back() -> None:
    db = vicus.memory()
    db.load(data=MANY)
    result = db.query("SELECT ?a ?d ?g { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }")
    html = result._repr_html_()
    assert html.count("<tr>") == 21 and "so far, and the query goes on" in html
    assert result.fetchone() is not None
    failed = db.query("SELECT ?a { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i FILTER (?c + ?f + ?i < 0) }", timeout=0.1)
    assert "Timeout" in failed._repr_html_()


def test_plans_and_profiles_are_trees(people: vicus.Database) -> None:
    text = "SELECT ?n { ?a <http://e/knows> ?b . ?b <http://e/name> ?n FILTER (STRLEN(?n) < 9) } ORDER BY ?n"
    plan = people.explain(text)

    def names(node: vicus.Operator) -> list[str]:
        return [node.name, *(name for child in node.children for name in names(child))]

    assert len(names(plan.tree)) == sum(" rows, box" in line for line in plan.splitlines())
    assert "sort" in names(plan.tree) and plan.tree.work is None
    (picture,) = pictures(plan._repr_html_())
    assert len(picture.getElementsByTagName("circle")) == len(names(plan.tree))
    profile = people.profile(text)
    assert names(profile.tree) == names(plan.tree)
    assert profile.tree.work is not None and profile.tree.work["rows"] == profile.rows == 1
    assert profile.tree.work["is_whole"] and profile.tree.work["seconds"] >= 0
    assert profile.trace is None
    (picture,) = pictures(profile._repr_html_())
    assert picture.getElementsByTagName("rect")
    assert "sort" in names(people.query(text).explain().tree) and "sort" in names(people.prepare(text).explain().tree)
    assert pickle.loads(pickle.dumps(plan)) == str(plan)


def test_networks_are_pictures() -> None:
    net = vicus.Network()
    net.library("numbers", to=5) | net.library("filter", where="n > 1 AND n < 4") | (lambda batch: batch) | net.collect()
    (picture,) = pictures(net._repr_html_())
    assert len(picture.getElementsByTagName("path")) >= 3
    wrong = vicus.Network("box a = nothing;")._repr_html_()
    assert not pictures(wrong) and "nothing" in wrong


def test_a_profile_shows_its_run(people: vicus.Database, tmp_path: pathlib.Path) -> None:
    profile = people.profile("SELECT ?s { ?s <http://e/age> ?n }", trace=tmp_path / "query.trace")
    assert profile.trace is not None and profile.trace.summary["requests"] == 1
    assert "scan" in {box["type_name"] for box in profile.trace.boxes}
    # The page has the plan, with the rows that were expected and those that came.
    table = profile.trace.view().html.split('<table id="r0-operators-0">')[1].split("</table>")[0]
    assert "rows expected" in table and "scan" in table and "&lt;http://e/age&gt;" in table
    assert '<td class="n">2</td>' in table.split("scan")[1].split("</tr>")[0]
    assert "<svg" in profile._repr_html_() and "srcdoc=" in profile._repr_html_()
    with pytest.raises(OSError):
        people.profile("ASK {}", trace=tmp_path / "none" / "query.trace")


def test_traces_are_time_lines(tmp_path: pathlib.Path) -> None:
    net = vicus.Network("box n = numbers(to: 100000); box f = filter(where: \"n % 2 = 0\"); box r = collect; n -> f -> r;")
    ran = net.run(strategy="las", threads=2, trace=tmp_path / "run.trace")
    assert ran.trace is not None and ran.trace.summary["events"] > 0
    assert {"collect", "filter"} <= {box["type_name"] for box in vicus.trace(tmp_path / "run.trace").boxes}
    short = net.run(threads=1, trace=tmp_path / "last.trace", trace_last=3600)
    assert short.trace is not None and short.trace.summary["events"] > 0
    assert "the last 3600000.000 ms, and sums of the time before" in short.trace.view().html
    for last in [0, -1, float("nan"), float("inf")]:
        with pytest.raises(vicus.ArgumentError, match="a number of seconds above 0"):
            net.run(trace=tmp_path / "last.trace", trace_last=last)
    with pytest.raises(vicus.ArgumentError, match="name its file"):
        net.run(trace_last=1)
    (picture,) = pictures(ran.trace.svg())
    assert len(picture.getElementsByTagName("rect")) > 3
    # The page of `vicus trace view` in a frame: its own policy lets its own script run.
    shown = ran.trace._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts allow-downloads"') and shown in ran._repr_html_()
    assert html.unescape(shown.split('srcdoc="')[1].split('"></iframe>')[0]) == ran.trace.view().html
    assert "filter" in ran.trace.view().html and "run.trace" in repr(ran.trace)
    (tmp_path / "other").write_text("no trace")
    for path in [tmp_path / "other", tmp_path / "none", "--help"]:
        with pytest.raises(vicus.ArgumentError):
            vicus.trace(path)


def test_loading_shows_a_bar_in_a_notebook(many: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Html:
        def __init__(self, text: str) -> None:
            shown.append(text)

    class Handle:
        def update(self, html: Html) -> None:
            pass

    notebook, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    notebook.get_ipython = lambda: notebook  # type: ignore[attr-defined]
    display.HTML = Html  # type: ignore[attr-defined]
    display.display = lambda html, display_id: Handle()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    from vicus._show import bar

    show, end = bar(True)
    assert show is not None
    show(5, 10, 7, "reading")
    end()
    assert shown[0] == shown[-1] == "" and '<progress max="10" value="5">' in shown[1]
    assert len(vicus.read(many, progress=True)) == 20_000


def test_loading_shows_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from vicus._show import bar

    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert bar(True)[0] is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show, end = bar(True)
    assert show is not None
    show(5, 10, 7, "reading")
    end()
    said = capsys.readouterr().err
    assert "[" + "#" * 15 + "." * 15 + "] reading" in said and said.endswith("\r\x1b[K")
