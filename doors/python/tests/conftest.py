"""What the tests share."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest
import vicus

PEOPLE = """
@prefix e: <http://e/> .
e:ann e:name "Ann" ; e:age 27 ; e:knows e:bob .
e:bob e:name "Bob"@en ; e:age 31 ; e:height 1.85e0 .
_:x e:name "Xi" ; e:born "1990-02-28"^^<http://www.w3.org/2001/XMLSchema#date> .
"""


@pytest.fixture
def people() -> vicus.Database:
    db = vicus.memory()
    assert db.load(data=PEOPLE) == 8
    return db


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A file of many triples."""
    path = tmp_path_factory.mktemp("many") / "many.nt"
    with path.open("w") as file:
        for number in range(20_000):
            file.write(f'<http://e/{number}> <http://e/n> "{number}"^^<http://www.w3.org/2001/XMLSchema#integer> .\n')
    return path


@pytest.fixture
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a process of its own."""

    def run(program: str, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-X",
            "faulthandler",
            "-c",
            program,
            *map(str, arguments),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=dict(os.environ))
        if check:
            assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        return done

    return run
