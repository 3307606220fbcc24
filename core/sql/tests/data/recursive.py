"""Writes the answers of SQLite to the statements of recursive.txt below them: `python3 recursive.py`."""

import pathlib
import sqlite3

path = pathlib.Path(__file__).parent / "recursive.txt"


def shown(value):
    return "NULL" if value is None else str(value)


written = []
for line in path.read_text().splitlines():
    if line.startswith("#") or not line:
        written.append(line)
    elif line.startswith("> "):
        written.append(line)
        for row in sqlite3.connect(":memory:").execute(line[2:]):
            written.append("|".join(shown(value) for value in row))
path.write_text("\n".join(written) + "\n")
