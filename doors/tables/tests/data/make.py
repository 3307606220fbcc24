#!/usr/bin/env python3
"""Writes the files that the tests read, by DuckDB and PyArrow, and prints the answers that the tests expect. Needs both packages."""

import datetime
import decimal
import pathlib

import duckdb
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

HERE = pathlib.Path(__file__).parent
SQL = """
    SELECT i AS id, CAST(i % 7 AS INTEGER) AS seven, CASE WHEN i % 5 = 0 THEN NULL ELSE i / 4.0 END::DOUBLE AS quarter,
           CASE WHEN i % 11 = 3 THEN NULL ELSE 'text ' || (i % 100) END AS name, DATE '2020-01-01' + CAST(i % 400 AS INTEGER) AS day,
           TIMESTAMP '2020-01-01 00:00:00' + INTERVAL (i) MINUTE AS moment, i % 3 = 0 AS third, CAST(i % 200 AS UTINYINT) AS small,
           CAST(i AS FLOAT) / 2 AS half
    FROM range(5000) AS r(i)
"""
connection = duckdb.connect()
# Several row groups in the first one; the others differ in their codec.
for codec, rows in [("zstd", 5000), ("snappy", 300), ("gzip", 300), ("uncompressed", 300)]:
    connection.execute(f"COPY ({SQL} WHERE i < {rows}) TO '{HERE}/numbers-{codec}.parquet' (FORMAT parquet, CODEC {codec}, ROW_GROUP_SIZE 2048)")
for query in [
    "SELECT COUNT(*), SUM(id), SUM(seven), SUM(quarter), COUNT(name), MIN(day), MAX(moment), SUM(small), SUM(half) FROM numbers",
    "SELECT COUNT(*), SUM(id), SUM(seven), SUM(quarter), COUNT(name), MIN(day), MAX(moment), SUM(small), SUM(half) FROM numbers WHERE id < 300",
    "SELECT third, COUNT(*), MIN(name), MAX(quarter) FROM numbers WHERE id BETWEEN 3000 AND 4500 GROUP BY third ORDER BY third",
]:
    print(query)
    connection.execute(f"CREATE OR REPLACE VIEW numbers AS {SQL}")
    for row in connection.execute(query).fetchall():
        print("  ", "|".join(str(value) for value in row))

table = connection.execute(SQL + " WHERE i < 300").to_arrow_table()
table = table.set_column(3, "name", table["name"].combine_chunks().dictionary_encode())
with pa.ipc.new_file(str(HERE / "numbers.arrow"), table.schema) as writer:
    writer.write_table(table, max_chunksize=120)
for codec in ["lz4", "zstd"]:
    with pa.ipc.new_file(str(HERE / f"numbers-{codec}.arrow"), table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table, max_chunksize=120)
with pa.ipc.new_stream(str(HERE / "numbers.arrows"), table.schema) as writer:
    writer.write_table(table, max_chunksize=120)
units = pa.table({
    "s": pa.array([1709209815, None], pa.timestamp("s")),
    "ms": pa.array([1709209815250, None], pa.timestamp("ms", "UTC")),
    "ns": pa.array([-1, None], pa.timestamp("ns")),
    "d64": pa.array([datetime.date(2024, 2, 29), None], pa.date64()),
    "large": pa.array(["é", None], pa.large_string()),
    "view": pa.array(["a long text in a view", None], pa.string_view()),
    "u64": pa.array([2**63 - 1, None], pa.uint64()),
    "i8": pa.array([-128, None], pa.int8()),
    "none": pa.nulls(2),
})
with pa.ipc.new_file(str(HERE / "units.arrow"), units.schema) as writer:
    writer.write_table(units)
# PyArrow's "lz4" is the codec LZ4_RAW of the format.
for codec in ["brotli", "lz4"]:
    pa.parquet.write_table(pa.parquet.read_table(HERE / "numbers-snappy.parquet"), HERE / f"numbers-{codec}.parquet", compression=codec)
priced = pa.table({"id": [1, 2], "price": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(15, 2))})
pa.parquet.write_table(priced, HERE / "decimal.parquet")
pa.parquet.write_table(pa.table({"id": [1], "list": [[1, 2]]}), HERE / "nested.parquet")
pa.parquet.write_table(pa.table({"id": pa.array([], pa.int64())}), HERE / "empty.parquet")
