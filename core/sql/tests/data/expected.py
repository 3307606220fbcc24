#!/usr/bin/env python3
"""Asks DuckDB for the answers that core/sql's tests expect.

Reads tables.txt and the statements of answers.txt, and writes answers.txt anew: a statement begins with "> ", and below stand the rows
of its answer. With --tables, it makes the tables of TPC-H's shape first. Needs the package duckdb.
"""

import datetime
import decimal
import pathlib
import random
import sys

import duckdb

HERE = pathlib.Path(__file__).parent


def tables():
    name, kinds, rows = None, None, []
    for line in (HERE / "tables.txt").read_text().splitlines() + ["table end"]:
        if line.startswith("table "):
            if name:
                yield name, kinds, rows
            words = line.split()[1:]
            name, kinds, rows = words[0], [word.split(":") for word in words[1:]], []
        elif line:
            rows.append([None if value == "\\N" else value for value in line.split("|")])


def text(value):
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return "".join(f"\\x{byte:02X}" for byte in value)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, list):
        return "[" + ", ".join(map(text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"'{name}': {text(part)}" for name, part in value.items()) + "}"
    if isinstance(value, datetime.timedelta):
        micros = value // datetime.timedelta(microseconds=1)
        seconds, micros, sign = abs(micros) // 1000000, abs(micros) % 1000000, "-" if micros < 0 else ""
        fraction = f".{micros:06}".rstrip("0") if micros else ""
        return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"
    if isinstance(value, datetime.time):
        return value.strftime("%H:%M:%S") + (f".{value.microsecond:06}".rstrip("0") if value.microsecond else "")
    if isinstance(value, datetime.datetime) and value.tzinfo:
        return text(value.astimezone(datetime.timezone.utc).replace(tzinfo=None)) + "+00"
    if isinstance(value, datetime.datetime):
        fraction = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
        return value.strftime("%Y-%m-%d %H:%M:%S") + fraction
    return str(value)


def make_tables():
    """Rows of TPC-H's shape: the names of its columns, few rows, and values that its queries select."""
    chance = random.Random(42)
    day = lambda first, days: (datetime.date.fromisoformat(first) + datetime.timedelta(chance.randrange(days))).isoformat()
    regions = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
    lines = ["table region r_regionkey:bigint r_name:varchar"]
    lines += [f"{key}|{name}" for key, name in enumerate(regions)]
    lines += ["", "table nation n_nationkey:bigint n_name:varchar n_regionkey:bigint"]
    lines += [f"{key}|NATION{key}|{key % 5}" for key in range(10)]
    lines += ["", "table supplier s_suppkey:bigint s_name:varchar s_nationkey:bigint"]
    lines += [f"{key}|Supplier{key}|{chance.randrange(10)}" for key in range(1, 13)]
    lines += ["", "table customer c_custkey:bigint c_name:varchar c_nationkey:bigint c_mktsegment:varchar c_acctbal:double"]
    segments = ["BUILDING", "AUTOMOBILE", "MACHINERY"]
    for key in range(1, 26):
        lines.append(f"{key}|Customer{key}|{chance.randrange(10)}|{chance.choice(segments)}|{chance.randrange(-99900, 999900) / 100}")
    lines += ["", "table orders o_orderkey:bigint o_custkey:bigint o_orderdate:date o_shippriority:bigint o_totalprice:double"]
    orders = list(range(1, 81))
    for key in orders:
        lines.append(f"{key}|{chance.randrange(1, 26)}|{day('1993-06-01', 900)}|0|{chance.randrange(100000, 9000000) / 100}")
    lines += ["", "table lineitem l_orderkey:bigint l_suppkey:bigint l_quantity:double l_extendedprice:double l_discount:double "
              "l_tax:double l_returnflag:varchar l_linestatus:varchar l_shipdate:date"]
    for key in orders:
        for _ in range(chance.randrange(1, 6)):
            lines.append("|".join(map(str, [
                key, chance.randrange(1, 13), float(chance.randrange(1, 51)), chance.randrange(90000, 9500000) / 100,
                chance.randrange(0, 11) / 100, chance.randrange(0, 9) / 100, chance.choice("ARN"), chance.choice("OF"),
                day("1993-07-01", 1000),
            ])))
    kept = (HERE / "tables.txt").read_text().split("table region")[0].rstrip()
    (HERE / "tables.txt").write_text(kept + "\n\n" + "\n".join(lines) + "\n")


if "--tables" in sys.argv:
    make_tables()
connection = duckdb.connect()
connection.execute("SET TimeZone = 'UTC'")


def sql_type(kind):
    return kind.replace("~", " ").replace(";", ", ")


def literal(value, kind):
    """The value of a text of tables.txt, as a literal of SQL."""
    if value is None or value == "\\N":
        return "NULL"
    if kind.endswith("[]"):
        return "[" + ", ".join(literal(item, kind[:-2]) for item in value[1:-1].split(";") if item) + "]"
    if kind.startswith("struct("):
        parts = zip(kind[7:-1].split(";"), value[1:-1].split(";"))
        return "{" + ", ".join(f"'{part.split('~')[0]}': {literal(item, part.split('~')[1])}" for part, item in parts) + "}"
    return f"CAST('{value}' AS {kind})"
# As PostgreSQL has it.
connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
for name, kinds, rows in tables():
    connection.execute(f"CREATE TABLE {name} ({', '.join(f'{column} {sql_type(kind)}' for column, kind in kinds)})")
    if name == "wares":
        for row in rows:
            values = ", ".join(literal(value, kind) for value, (_, kind) in zip(row, kinds))
            connection.execute(f"INSERT INTO {name} VALUES ({values})")
    elif rows:
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' for _ in kinds)})", rows)
out = []
for line in (HERE / "answers.txt").read_text().splitlines():
    if line.startswith("#"):
        out += ["", line] if out else [line]
    if not line.startswith("> "):
        continue
    out += ["", line]
    try:
        out += ["|".join(text(value) for value in row) for row in connection.execute(line[2:]).fetchall()]
    except duckdb.Error as error:
        sys.exit(f"{line}\n{error}")
(HERE / "answers.txt").write_text("\n".join(out).lstrip("\n") + "\n")
