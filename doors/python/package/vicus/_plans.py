"""Plans of queries, and what their runs did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._network import Trace

__all__ = ["Operator", "Plan", "Profile"]


class Operator:
    """An operator of a plan, with the operators whose rows it reads."""

    __slots__ = ("children", "columns", "degree", "detail", "estimate", "name", "work")
    __module__ = "vicus"

    #: What it does: ``index join``, ``sort``.
    name: str
    #: With what: a pattern, an expression.
    detail: str
    #: The columns of its rows.
    columns: list[str]
    #: How many rows it is expected to make.
    estimate: float
    #: How many boxes share its work.
    degree: int
    #: Its work in a profile: ``rows``, ``is_whole`` (or it was stopped early), ``seconds``, and the bytes ``near``,
    #: ``far`` and ``spilled``; nothing in a plan.
    work: dict[str, Any] | None
    #: The operators whose rows it reads.
    children: list[Operator]

    def __init__(self, parts: tuple[Any, ...]) -> None:
        _, self.name, self.detail, self.columns, self.estimate, self.degree, work = parts
        self.work, self.children = None, []
        if work is not None:
            rows, is_whole, busy_ns, near, far, spilled = work
            self.work = {
                "rows": rows,
                "is_whole": is_whole,
                "seconds": busy_ns / 1e9,
                "near": near,
                "far": far,
                "spilled": spilled,
            }

    def __repr__(self) -> str:
        return f"<vicus.Operator {self.name} {self.detail}".rstrip() + ">"


class Plan(str):
    """How a query is answered: its operators as a tree, and its boxes. A picture in a notebook.

    >>> import vicus
    >>> plan = vicus.memory().explain("SELECT ?s { ?s <http://e/p> ?o } ORDER BY ?o")
    >>> plan.tree.name, [child.name for child in plan.tree.children]
    ('extend', ['sort'])
    """

    __slots__ = ("tree",)
    __module__ = "vicus"

    #: The operator that makes the answer.
    tree: Operator

    def __new__(cls, text: str, operators: list[tuple[Any, ...]]) -> Plan:
        made = str.__new__(cls, text)
        nodes = [Operator(parts) for parts in operators]
        for node, parts in zip(nodes, operators):
            if parts[0] is not None:
                nodes[parts[0]].children.append(node)
        made.tree = nodes[0]
        return made

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # Its text.
        return (str, (str(self),))

    def svg(self) -> str:
        """The operators as a picture: a tree, and after a run the time of each."""
        from ._show import plan_svg

        return plan_svg(self)

    def _repr_html_(self) -> str:
        from ._show import plan_html

        return plan_html(self)


class Profile(Plan):
    """How a query was answered: its plan with the work of each operator, its rows, and its times."""

    __slots__ = ("planning", "rows", "seconds", "trace")
    __module__ = "vicus"

    #: How many rows there were.
    rows: int
    #: Seconds of reading and planning the text.
    planning: float
    #: Seconds from the start to the last row.
    seconds: float
    #: The record of the run, if it was asked for one.
    trace: Trace | None

    @classmethod
    def _of(
        cls, plan: tuple[str, list[tuple[Any, ...]]], rows: int, planning: float, seconds: float, path: str | None
    ) -> Profile:
        from ._network import Trace

        made = cls(*plan)
        made.rows, made.planning, made.seconds = rows, planning, seconds
        made.trace = None if path is None else Trace(path)
        return made

    def _repr_html_(self) -> str:
        return super()._repr_html_() + ("" if self.trace is None else self.trace._repr_html_())
