"""Notebooks of the documentation: their cells run, and give what is shown under them.

With VICUS_WRITE_NOTEBOOKS set, what they give is written under them.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import pathlib
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[3]
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))


def run(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a cell prints, and the value of its last line if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    value = None
    with contextlib.redirect_stdout(said):
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return said.getvalue(), value


def outputs(said: str, value: Any, count: int) -> list[dict[str, Any]]:
    """The outputs of a cell as notebooks have them."""
    made: list[dict[str, Any]] = []
    if said:
        made.append({"name": "stdout", "output_type": "stream", "text": said.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        made.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return made


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_cells_give_what_is_shown(path: pathlib.Path) -> None:
    pytest.importorskip("pyarrow")
    notebook = json.loads(path.read_text())
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        source = "".join(cell["source"])
        made = outputs(*run(source, names), count)
        if "VICUS_WRITE_NOTEBOOKS" in os.environ:
            cell["outputs"], cell["execution_count"] = made, count
        elif "varies" in cell["metadata"].get("tags", []):
            # Times, or an order that chance chooses: the forms of the output alone.
            forms = [[sorted(output.get("data", {"text": ""})) for output in some] for some in (made, cell["outputs"])]
            assert forms[0] == forms[1], source
        else:
            assert made == cell["outputs"], source
    if "VICUS_WRITE_NOTEBOOKS" in os.environ:
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_kernel_runs_them(path: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for folder in ["IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"]:
        monkeypatch.setenv(folder, str(tmp_path / folder))
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
