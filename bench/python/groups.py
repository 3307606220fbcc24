"""Groups and joins of rows in memory: the library's boxes, by an example, beside DuckDB. Run by `./dev bench groups`.

Each is a program of its own on two processors, in turn; the least time of each step counts: others' work on the machine
only adds. Sums over the results are compared before they are measured. DuckDB adds up all columns of the join, since
the boxes make all of them.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys

DUCKDB = """
import duckdb, sys, time
rows, keys = int(sys.argv[1]), int(sys.argv[2])
db = duckdb.connect(config={"threads": 2})
mixed = "((i::HUGEINT * 11400714819323198485 % 18446744073709551616)::UBIGINT >> 20)"
db.execute(f"CREATE TABLE facts AS SELECT {mixed} % {keys} AS key, i::UBIGINT AS value FROM range({rows}) AS t(i)")
db.execute(f"CREATE TABLE names AS SELECT i::UBIGINT AS key, 3 * i::UBIGINT AS value FROM range({keys}) AS t(i)")
grouped = "SELECT key, COUNT(*) AS n, SUM(value) AS total FROM facts GROUP BY key"
steps = {
    "group": f"SELECT SUM(total), SUM(key), SUM(n) FROM ({grouped})",
    "join": "SELECT SUM(n.value), SUM(f.key), SUM(f.value), SUM(n.key) FROM facts AS f JOIN names AS n ON f.key = n.key",
}
for step, text in steps.items():
    began = time.perf_counter()
    (found,) = db.execute(text).fetchall()
    print(f"{step}: {time.perf_counter() - began:.3f} s, {found[0]}")
"""


def run(command: list[str]) -> dict[str, tuple[float, int]]:
    """The time and the sum of each step that a program prints."""
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = re.findall(r"^(\w+): ([0-9.]+) s, (\d+)$", output, re.MULTILINE)
    return {step: (float(took), int(total)) for step, took, total in found}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--program", required=True, help="the built example")
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--keys", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=5)
    asked = options.parse_args()
    # All of them start as many threads as they may run on.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    sizes = [str(asked.rows), str(asked.keys)]
    sides = {"vicus": [asked.program, *sizes], "DuckDB": [sys.executable, "-c", DUCKDB, *sizes]}
    least: dict[tuple[str, str], float] = {}
    sums: dict[str, int] = {}
    for _ in range(asked.rounds):
        for side, command in sides.items():
            for step, (took, total) in run(command).items():
                assert sums.setdefault(step, total) == total, f"{side} has another {step}"
                least[side, step] = min(least.get((side, step), math.inf), took)
    for step in sums:
        ours, theirs = least["vicus", step], least["DuckDB", step]
        print(f"{step:<6} vicus {ours:.3f} s, DuckDB {theirs:.3f} s: {ours / theirs:.2f} of it", flush=True)


if __name__ == "__main__":
    main()
