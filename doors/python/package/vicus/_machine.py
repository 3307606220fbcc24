"""The machine, its strategies, and what a simulator says of others: what the command tells, as values."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Iterator

from . import _errors as errors
from ._database import _import

__all__ = ["Page", "Simulated", "Strategies", "Topology", "simulate", "strategies", "topology", "view"]


def _command(*arguments: str) -> str:
    """What a command of ``vicus`` prints, in a process of its own: Ctrl-C ends it."""
    import subprocess

    done = subprocess.run([sys.executable, "-m", "vicus", *arguments], capture_output=True, text=True, encoding="utf-8")
    if done.returncode != 0:
        raise errors.ArgumentError(re.sub(r"^(error|vicus): ", "", done.stderr.strip()))
    return done.stdout


def _option(name: str, value: object) -> list[str]:
    # In one word, so that a value that begins with a dash is one.
    return [] if value is None else [f"--{name}={value}"]


class _Frames:
    """What a frame can be made of."""

    def _plain(self) -> list[dict[str, Any]]:
        """The rows: a value of each column, by its name."""
        raise NotImplementedError

    def polars(self) -> Any:
        """The rows as a frame of Polars."""
        return _import("polars").DataFrame(self._plain())

    def pandas(self) -> Any:
        """The rows as a frame of pandas."""
        return _import("pandas").DataFrame(self._plain())

    def arrow(self) -> Any:
        """The rows as a table of PyArrow."""
        return _import("pyarrow").Table.from_pylist(self._plain())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.arrow().__arrow_c_stream__(requested_schema)


class Strategies(list[dict[str, Any]], _Frames):
    """The scheduling strategies. A frame of them has a row for each parameter; a notebook shows it as a table."""

    __module__ = "vicus"

    def _plain(self) -> list[dict[str, Any]]:
        nothing = {"": {"default": None, "about": None}}
        return [
            {
                "strategy": strategy["name"], "source": strategy["source"], "parameter": name or None,
                "default": parameter["default"], "about": parameter["about"],
            }
            for strategy in self
            for name, parameter in (strategy["parameters"] or nothing).items()
        ]  # fmt: skip

    def _repr_html_(self) -> str:
        from ._show import table_html

        rows = self._plain()
        return table_html(list(rows[0]) if rows else [], [["" if cell is None else cell for cell in row.values()] for row in rows])


class Topology(dict[str, Any], _Frames):
    """A machine: its PUs, cores, caches, core groups, nodes, distances and devices. A frame of it has a row for each PU;
    a notebook shows it as a picture."""

    __module__ = "vicus"

    def __init__(self, parts: dict[str, Any], machine: str | None) -> None:
        super().__init__(parts)
        self._machine = machine

    def _plain(self) -> list[dict[str, Any]]:
        return [dict(pu) for pu in self["pus"]]

    def __repr__(self) -> str:
        return _command("topology", *_option("machine", self._machine)).rstrip()

    def svg(self) -> str:
        """The machine as a picture."""
        return _command("topology", "--format=svg", *_option("machine", self._machine))

    def _repr_html_(self) -> str:
        return self.svg()


def topology(machine: str | None = None) -> Topology:
    """This machine, or another one by its name or its description.

    >>> import vicus
    >>> len(vicus.topology("node:2 core:4")["nodes"])
    2
    """
    import json

    return Topology(json.loads(_command("topology", "--format=json", *_option("machine", machine))), machine)


def strategies() -> Strategies:
    """The scheduling strategies: the name of each, where it comes from, and its parameters.

    >>> import vicus
    >>> "footprint" in [strategy["name"] for strategy in vicus.strategies()]
    True
    """
    found = Strategies()
    for line in _command("strategies").splitlines():
        parameter = re.match(r"\s+(\w+)=(\S+)[^:]*: (.*)", line)
        strategy = re.match(r"(\S+)\s{2,}(.*)", line)
        if strategy is not None:
            found.append({"name": strategy[1], "source": strategy[2], "parameters": {}})
        elif parameter is not None and found:
            found[-1]["parameters"][parameter[1]] = {"default": parameter[2], "about": parameter[3]}
    return found


class Simulated(_Frames):
    """What the simulator has found: a row for each run. A frame of it by :meth:`polars` and the like, time lines in a
    notebook."""

    __module__ = "vicus"

    def __init__(self, machine: str, rows: list[dict[str, Any]], options: list[str]) -> None:
        self.machine, self.rows, self._options = machine, rows, options

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def _plain(self) -> list[dict[str, Any]]:
        plain = (str, int, float, bool, type(None))
        return [{name: value for name, value in row.items() if isinstance(value, plain)} for row in self.rows]

    def __repr__(self) -> str:
        return f"<vicus.Simulated {self.machine}: {len(self)} runs>"

    def _repr_html_(self) -> str:
        return _command("simulate", "--format=svg", *self._options)


class Page:
    """One HTML file that shows a recorded run, by itself. In a notebook it is shown in place."""

    __module__ = "vicus"

    def __init__(self, html: str) -> None:
        #: The file as text.
        self.html = html

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file: any browser opens it, without a network."""
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(self.html)

    def __repr__(self) -> str:
        return f"<vicus.Page of {len(self.html):,} characters>"

    def _repr_html_(self) -> str:
        import html

        # The page's own policy lets its own script run, and lets it ask for nothing.
        frame = 'sandbox="allow-scripts allow-downloads" style="width:100%;height:720px;border:1px solid #8886"'
        return f'<iframe {frame} title="A recorded run" srcdoc="{html.escape(self.html)}"></iframe>'


def view(
    trace: str | os.PathLike[str],
    other: str | os.PathLike[str] | None = None,
    *,
    costs: str | os.PathLike[str] | None = None,
) -> Page:
    """One file that shows a recorded run, or two side by side: ``vicus trace view``. A run is a trace, as
    :meth:`Network.run` and ``vicus query --trace`` write it, or an earlier page."""
    runs = [os.fspath(trace), *([] if other is None else [os.fspath(other)])]
    option = _option("costs", None if costs is None else os.fspath(costs))
    return Page(_command("trace", "view", "--output=-", *option, "--", *runs))


def simulate(
    machine: str | None = None,
    kernel: str | None = None,
    strategy: str | list[str] | None = None,
    *,
    size: str | float | None = None,
    threads: int | None = None,
    distribution: str | None = None,
    seed: int | None = None,
) -> Simulated:
    """Predicts how long kernels take on a described machine under each strategy: ``vicus simulate``.

    >>> import vicus
    >>> runs = vicus.simulate(machine="opteron-6172", kernel="map", strategy=["las", "steal"])
    >>> [row["strategy"] for row in runs]
    ['las', 'steal']
    """
    import json

    named = strategy if strategy is None or isinstance(strategy, str) else ",".join(strategy)
    options = [
        *_option("machine", machine),
        *_option("kernel", kernel),
        *_option("strategy", named),
        *_option("size", size),
        *_option("threads", threads),
        *_option("distribution", distribution),
        *_option("seed", seed),
    ]
    told = json.loads(_command("simulate", "--format=json", *options))
    return Simulated(told["machine"], told["rows"], options)
