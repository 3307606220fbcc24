"""Programs of the documentation: what pages print is what they do."""

from __future__ import annotations

import doctest
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]


def test_the_tutorial_does_as_it_says() -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("rdflib")
    page = (ROOT / "docs/tutorials/python.md").read_text()
    examples = doctest.DocTestParser().get_doctest(page.replace("```", ""), {}, "python.md", "python.md", 0)
    assert len(examples.examples) > 20
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
    told: list[str] = []
    assert runner.run(examples, out=told.append).failed == 0, "".join(told)


@pytest.mark.parametrize("name", ["README.md", "doors/python/README.md", "docs/how-to/several-machines.md"])
def test_programs_run(name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    programs = re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(), re.MULTILINE | re.DOTALL)
    assert programs
    for program in programs:
        exec(compile(program, name, "exec"), {})
