"""What notebooks and terminals see."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._database import Plan, Progress, Result

#: So many rows of a result are shown.
FIRST = 20


def _table(columns: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def row_class(result: Result) -> Any:
    """The class of a result's rows."""
    from ._database import _row

    return _row(tuple(result.columns))


def result_html(result: Result) -> str:
    """The first rows of a result, which stay to be read."""
    native = result._native
    if native.kind == "truth":
        return f"<p>{'yes' if bool(result) else 'no'}</p>"
    made = row_class(result)
    while len(result._ready) < FIRST and (rows := native.fetch(made)) is not None:
        result._ready.extend(rows)
    shown = [["" if cell is None else str(cell) for cell in row] for row in list(result._ready)[:FIRST]]
    seconds = native.seconds
    so_far = "" if native.is_over else " so far"
    took = "" if seconds is None else f", {seconds * 1e3:.1f} ms"
    return _table(result.columns, shown) + f"<p>{native.rows:,} rows{so_far}{took}</p>"


def plan_html(plan: Plan) -> str:
    """A plan as the tree that it is."""
    return f'<pre style="line-height:1.3">{html.escape(str(plan))}</pre>'


def counts_html(counts: list[tuple[str, int, int, int, float]]) -> str:
    """The counts of a network's boxes."""
    rows = [[name, f"{runs:,}", f"{taken:,}", f"{sent:,}", f"{ms:.1f}"] for name, runs, taken, sent, ms in counts]
    return _table(["box", "runs", "rows in", "rows out", "ms"], rows)


def network_html(text: str) -> str:
    """A network as text."""
    return f"<pre>{html.escape(text)}</pre>"


def bar(progress: bool | Progress) -> tuple[Progress | None, Callable[[], None]]:
    """A function that shows progress, and one that ends it."""

    def nothing() -> None:
        pass

    if callable(progress):
        return progress, nothing
    if not progress:
        return None, nothing
    if "IPython" in sys.modules:
        from IPython import get_ipython  # type: ignore[import-not-found, unused-ignore]

        if get_ipython() is not None:
            return _notebook_bar()
    return _terminal_bar() if sys.stderr.isatty() else (None, nothing)


def _line(read: int, total: int, triples: int, doing: str, began: float) -> str:
    rate = triples / max(time.monotonic() - began, 1e-3)
    return f"{doing}: {read / 1e6:,.0f} of {total / 1e6:,.0f} MB, {triples:,} triples, {rate:,.0f}/s"


def _terminal_bar() -> tuple[Progress, Callable[[], None]]:
    began = time.monotonic()
    width = 30

    def show(read: int, total: int, triples: int, doing: str) -> None:
        full = min(width, width * read // max(total, 1))
        sys.stderr.write(f"\r[{'#' * full}{'.' * (width - full)}] {_line(read, total, triples, doing, began)}\x1b[K")
        sys.stderr.flush()

    def end() -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()

    return show, end


def _notebook_bar() -> tuple[Progress, Callable[[], None]]:
    from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

    began = time.monotonic()
    shown = display(HTML(""), display_id=True)
    last = [0.0]

    def show(read: int, total: int, triples: int, doing: str) -> None:
        now = time.monotonic()
        if now - last[0] < 0.1:
            return
        last[0] = now
        text = html.escape(_line(read, total, triples, doing, began))
        shown.update(HTML(f'<progress max="{max(total, 1)}" value="{read}"></progress> {text}'))

    def end() -> None:
        shown.update(HTML(""))

    return show, end
