"""What notebooks and terminals see."""

from __future__ import annotations

import html
import itertools
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._database import Progress, Result
    from ._network import Network
    from ._plans import Plan

#: So many rows of a result are shown.
FIRST = 20


def table_html(columns: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


#: How long a look at a result waits for its end, to tell how many rows there are.
PATIENCE = 0.1


def result_html(result: Result) -> str:
    """The first rows of a result, which stay to be read: as tuples and as a frame."""
    from ._database import _row
    from ._errors import AlreadyRead, Error

    native = result._native
    try:
        if native.kind == "truth":
            return f"<p>{'yes' if bool(result) else 'no'}</p>"
        ready = list(itertools.islice(result._ready, FIRST))
        more, is_over = native.first(_row(tuple(result.columns)), FIRST - len(ready), PATIENCE)
    except AlreadyRead:
        return f"<p>{html.escape(repr(result))}: its rows were handed over as a stream</p>"
    except Error as error:
        return f"<pre>{html.escape(f'{type(error).__name__}: {error}')}</pre>"
    shown = [["" if cell is None else str(cell) for cell in row] for row in ready + more]
    count, seconds = native.rows, native.seconds
    so_far = "" if is_over else " so far, and the query goes on"
    took = "" if seconds is None else f", {seconds * 1e3:.1f} ms"
    return table_html(result.columns, shown) + f"<p>{count:,} rows{so_far}{took}</p>"


_COLORS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#b07aa1", "#9c755f", "#edc948")


def _svg(width: float, height: float, parts: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="12">{"".join(parts)}</svg>'
    )


def _label(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{html.escape(text)}</text>'


def plan_svg(plan: Plan) -> str:
    """The operators of a plan as a tree, each behind its reader; after a run with their times as bars."""
    line, step, left, bar = 30, 22, 14, 120
    placed: list[tuple[Any, int, int]] = []
    parts: list[str] = []

    def place(node: Any, depth: int, reader: int | None) -> None:
        at = len(placed)
        placed.append((node, depth, at))
        if reader is not None:
            x, y = left + (depth - 1) * step, reader * line + line / 2
            parts.append(f'<path d="M{x} {y}V{at * line + line / 2}h{step - 6}" fill="none" stroke="#999"/>')
        for child in node.children:
            place(child, depth + 1, at)

    place(plan.tree, 0, None)
    longest = max((node.work["seconds"] for node, _, _ in placed if node.work), default=0.0)
    width = 0.0
    for node, depth, at in placed:
        x, y = left + depth * step, at * line + line / 2
        title = html.escape(f"{node.name} {node.detail} [{' '.join(node.columns)}]")
        parts.append(f'<g><title>{title}</title><circle cx="{x}" cy="{y}" r="5" fill="{_COLORS[0]}"/>')
        detail = node.detail if len(node.detail) <= 70 else node.detail[:69] + "…"
        about = f"~{node.estimate:,.0f} rows"
        if node.work is not None:
            early = "" if node.work["is_whole"] else ", stopped early"
            about = f"{node.work['rows']:,} of {about}, {node.work['seconds'] * 1e3:.1f} ms{early}"
        text = f"{node.name} {detail}".rstrip()
        parts.append(_label(x + 10, y - 2, text, ' font-weight="bold"'))
        parts.append(_label(x + 10, y + 11, about, ' fill="#666" font-size="11"'))
        end = x + 20 + 7.0 * max(len(text), len(about))
        if node.work is not None and longest > 0:
            share = node.work["seconds"] / longest * bar
            parts.append(f'<rect x="{end:.1f}" y="{y - 5}" width="{share:.1f}" height="10" fill="{_COLORS[1]}"/>')
            end += bar
        parts.append("</g>")
        width = max(width, end + left)
    return _svg(width, len(placed) * line, parts)


def plan_html(plan: Plan) -> str:
    """A plan as the tree that it is, and its text to be unfolded."""
    text = f'<pre style="line-height:1.3">{html.escape(str(plan))}</pre>'
    return f"{plan.svg()}<details><summary>as text, with its boxes</summary>{text}</details>"


def counts_html(counts: list[tuple[str, int, int, int, float, int]]) -> str:
    """The counts of a network's boxes, with their nodes if there are several."""
    rows = [
        [name, f"{runs:,}", f"{taken:,}", f"{sent:,}", f"{ms:.1f}", str(node)]
        for name, runs, taken, sent, ms, node in counts
    ]
    titles = ["box", "runs", "rows in", "rows out", "ms", "node"]
    shown = len(titles) - (max((count[5] for count in counts), default=0) == 0)
    return table_html(titles[:shown], [row[:shown] for row in rows])


def network_html(network: Network) -> str:
    """A network as a picture, and its text to be unfolded; one that can't be built as its text and the reason."""
    from ._errors import Error

    text = f"<pre>{html.escape(network.text)}</pre>"
    try:
        picture = network.svg()
    except Error as error:
        return f"{text}<p>{html.escape(str(error))}</p>"
    return f"{picture}<details><summary>as text</summary>{text}</details>"


def bar(progress: bool | Progress) -> tuple[Progress | None, Callable[[], None]]:
    """A function that shows progress, and one that ends it."""

    def nothing() -> None:
        pass

    if callable(progress):
        return progress, nothing
    if not progress:
        return None, nothing
    notebook: Any = sys.modules.get("IPython")
    if notebook is not None and notebook.get_ipython() is not None:
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
    import importlib

    notebook: Any = importlib.import_module("IPython.display")
    began = time.monotonic()
    shown = notebook.display(notebook.HTML(""), display_id=True)
    last = [0.0]

    def show(read: int, total: int, triples: int, doing: str) -> None:
        now = time.monotonic()
        if now - last[0] < 0.1:
            return
        last[0] = now
        text = html.escape(_line(read, total, triples, doing, began))
        shown.update(notebook.HTML(f'<progress max="{max(total, 1)}" value="{read}"></progress> {text}'))

    def end() -> None:
        shown.update(notebook.HTML(""))

    return show, end
