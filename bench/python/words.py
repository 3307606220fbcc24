"""Counts the words of a text: the example of three stages beside DuckDB and Polars. Run by `./dev bench words`.

Each is a program of its own on two processors, in turn; the least time and the least processor time of each count:
others' work on the machine only adds. Counts are compared before they are measured.
"""

from __future__ import annotations

import argparse
import math
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

DUCKDB = """
import duckdb, sys
lines = "read_csv(?, columns = {'line': 'VARCHAR'}, header = false, delim = '\\x01', quote = '', escape = '')"
text = f"SELECT COUNT(*), word FROM (SELECT UNNEST(string_split(line, ' ')) AS word FROM {lines}) GROUP BY word ORDER BY word"
for count, word in duckdb.execute(text, [sys.argv[1]]).fetchall():
    print(count, word, sep="\\t")
"""

POLARS = """
import polars, sys
lines = polars.scan_csv(sys.argv[1], separator="\\x01", has_header=False, quote_char=None, new_columns=["line"])
words = lines.select(polars.col("line").str.split(" ").explode().alias("word"))
for word, count in words.group_by("word").len().sort("word").collect(engine="streaming").iter_rows():
    print(count, word, sep="\\t")
"""


def write(path: pathlib.Path, megabytes: int, seed: int) -> None:
    """Lines of ten words; of 50,000 words, the n-th is as often as 1 / (n + 10)."""
    chance = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=2 + int(chance.expovariate(0.25)) % 14)) for _ in range(50_000)]
    shares = [1 / (place + 10) for place in range(len(words))]
    pieces = []
    for _ in range(4):
        picked = chance.choices(words, shares, k=1_000_000)
        pieces.append("".join(" ".join(picked[at : at + 10]) + "\n" for at in range(0, len(picked), 10)).encode())
    with path.open("wb") as file:
        written = 0
        while written < megabytes << 20:
            written += file.write(pieces[chance.randrange(len(pieces))])


def run(command: list[str]) -> tuple[float, float, dict[str, int]]:
    """The time of a program, its processor time, and its counts."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    counts = {word: int(count) for count, word in (line.split("\t") for line in output.splitlines())}
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, counts


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--program", required=True, help="the built example")
    options.add_argument("--megabytes", type=int, default=1000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    # All of them start as many threads as they may run on.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch, "words.txt")
        write(path, asked.megabytes, asked.seed)
        print(f"{path.stat().st_size:,} bytes, seed {asked.seed}", flush=True)
        sides = {
            "vicus": [asked.program, str(path)],
            "DuckDB": [sys.executable, "-c", DUCKDB, str(path)],
            "Polars": [sys.executable, "-c", POLARS, str(path)],
        }
        least = {side: [math.inf, math.inf] for side in sides}
        wanted: dict[str, int] = {}
        for _ in range(asked.rounds):
            for side, command in sides.items():
                took, worked, counts = run(command)
                wanted = wanted or counts
                assert counts == wanted, f"{side} counts other words"
                least[side] = [min(least[side][0], took), min(least[side][1], worked)]
        for side, (took, worked) in least.items():
            share = f"{least['vicus'][0] / took:.3f} and {least['vicus'][1] / worked:.3f}"
            print(f"{side:<8} {took:8.2f} s, {worked:8.2f} s on processors; vicus takes {share} of it", flush=True)


if __name__ == "__main__":
    main()
