"""Frames: answers as Arrow's streams, and streams of others as tables."""

from __future__ import annotations

import datetime
import decimal
import http.server
import pathlib
import socketserver
import sqlite3
import threading

import pytest
import vicus

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

NAMES = "SELECT ?who ?name { ?who <http://e/name> ?name } ORDER BY ?name"
AGES = "SELECT ?who ?age { ?who <http://e/age> ?age } ORDER BY ?age"


def test_terms_are_texts(people: vicus.Database) -> None:
    table = pa.table(people.query(AGES))
    assert table.schema.names == ["who", "age"] and str(table.schema.field("age").type) == "string_view"
    assert table.to_pydict() == {
        "who": ["http://e/ann", "http://e/bob"],
        "age": ["27", "31"],
    }
    frame = pl.DataFrame(people.query(AGES))
    assert frame.rows() == [("http://e/ann", "27"), ("http://e/bob", "31")]
    assert people.query(AGES).polars().equals(frame) and people.query(AGES).arrow().equals(table)


def test_full_terms_are_structures(people: vicus.Database) -> None:
    rows = pa.table(people.query(NAMES, terms="full")).to_pylist()
    assert rows[0]["who"] == {
        "value": "http://e/ann",
        "kind": "iri",
        "datatype": None,
        "language": None,
    }
    assert rows[0]["name"]["datatype"] == "http://www.w3.org/2001/XMLSchema#string"
    named = {row["name"]["value"]: row for row in rows}
    assert named["Bob"]["name"]["language"] == "en" and named["Xi"]["who"]["kind"] == "blank"
    tagged = pa.table(people.query(NAMES, terms="ntriples")).to_pylist()
    assert {row["name"] for row in tagged} == {'"Ann"', '"Bob"@en', '"Xi"'}


def test_types_make_values(people: vicus.Database) -> None:
    table = pa.table(people.query(AGES, types={"age": int}))
    assert table["age"].to_pylist() == [27, 31] and table.schema.field("age").type == pa.int64()
    kinds = {
        int: pa.int64(),
        float: pa.float64(),
        "str": pa.string_view(),
        "float": pa.float64(),
    }
    for kind, wanted in kinds.items():
        assert pa.table(people.query(AGES, types={"age": kind})).schema.field("age").type == wanted
    born = pa.table(people.query("SELECT ?d { ?s <http://e/born> ?d }", types={"d": datetime.date}))
    assert born["d"].to_pylist() == [datetime.date(1990, 2, 28)]
    told = "SELECT (true AS ?b) ('2026-01-02T03:04:05Z'^^<http://www.w3.org/2001/XMLSchema#dateTime> AS ?t) {}"
    row = pa.table(people.query(told, types={"b": bool, "t": datetime.datetime})).to_pylist()[0]
    assert row == {"b": True, "t": datetime.datetime(2026, 1, 2, 3, 4, 5)}
    # A time with an offset is the moment in UTC.
    east = told.replace("05Z", "05+02:00")
    assert pa.table(people.query(east, types={"t": datetime.datetime}))["t"].to_pylist() == [
        datetime.datetime(2026, 1, 2, 1, 4, 5)
    ]


def test_a_wrong_value_is_told_with_its_row(people: vicus.Database) -> None:
    for convert in ["arrow", "polars"]:
        result = people.query(NAMES, types={"name": int})
        with pytest.raises(vicus.CastError, match='row 0, column name: "Ann" is no integer'):
            getattr(result, convert)()
    with pytest.raises(vicus.ArgumentError, match="no column other"):
        people.query(NAMES, types={"other": int}).arrow()
    with pytest.raises(vicus.ArgumentError, match="complex"):
        people.query(NAMES, types={"name": complex}).arrow()
    with pytest.raises(vicus.ArgumentError, match="full"):
        people.query(NAMES, terms="all").arrow()


def test_a_stream_is_had_once(people: vicus.Database) -> None:
    result = people.query(NAMES)
    assert len(result) == 3
    assert pa.table(result).num_rows == 3
    for again in [lambda: pa.table(result), result.fetchall, lambda: len(result)]:
        with pytest.raises(vicus.AlreadyRead):
            again()
    begun = people.query(NAMES)
    begun.fetchone()
    with pytest.raises(vicus.AlreadyRead):
        pa.table(begun)
    whole = people.query(NAMES)
    whole.fetchall()
    with pytest.raises(vicus.AlreadyRead):
        pa.table(whole)


def test_an_unread_capsule_ends_its_query(many: object) -> None:
    db = vicus.read(str(many))
    cross = "SELECT ?a ?d { ?a <http://e/n> ?b . ?d <http://e/n> ?e . ?f <http://e/n> ?g }"
    for _ in range(10):
        capsule = db.query(cross).__arrow_c_stream__()
        del capsule
    reader = pa.RecordBatchReader.from_stream(db.query(cross))
    assert reader.read_next_batch().num_rows > 0
    del reader
    assert len(db.query("SELECT ?s { ?s <http://e/n> 7 }")) == 1


def test_pandas_frames(people: vicus.Database) -> None:
    pytest.importorskip("pandas")
    frame = people.query(AGES, types={"age": int}).pandas()
    assert list(frame["age"]) == [27, 31] and list(frame["who"]) == [
        "http://e/ann",
        "http://e/bob",
    ]


def test_frames_are_tables(people: vicus.Database) -> None:
    frame = pl.DataFrame({"who": ["http://e/ann", "http://e/bob"], "points": [3, 4]})
    text = """SELECT s.name, f.points FROM frame AS f
        JOIN SPARQL('SELECT ?who ?name { ?who <http://e/name> ?name }') AS s ON s.who = f.who ORDER BY f.points"""
    for given in [
        frame,
        frame.to_arrow(),
        people.query("SELECT ('http://e/ann' AS ?who) (3 AS ?points) {}"),
    ]:
        if isinstance(given, vicus.Result):
            given = pa.table(given).cast(pa.schema([("who", pa.string()), ("points", pa.string())]))
        rows = people.sql(text, frame=given).fetchall()
        assert rows[0].name == "Ann"
    typed = people.sql(text, frame=frame).arrow()
    assert typed.to_pydict() == {"name": ["Ann", "Bob"], "points": [3, 4]}
    twice = "SELECT COUNT(*) AS n FROM frame AS a JOIN frame AS b ON a.who = b.who"
    assert people.sql(twice, frame=frame).fetchall()[0].n.value == 2


def test_what_is_no_frame_is_told(people: vicus.Database) -> None:
    with pytest.raises(vicus.ArgumentError, match="__arrow_c_stream__"):
        people.sql("SELECT * FROM frame", frame=[1, 2])
    with pytest.raises(vicus.QueryError, match="other"):
        people.sql("SELECT * FROM other", frame=pl.DataFrame({"a": [1]}))
    months = pa.table({"a": [1], "parts": pa.array([pa.MonthDayNano([1, 2, 3])])})
    assert people.sql("SELECT a FROM frame", frame=months).fetchall()[0].a.value == 1
    with pytest.raises(vicus.QueryError, match="parts"):
        people.sql("SELECT parts FROM frame", frame=months)
    with pytest.raises(vicus.DataError, match="beyond"):
        people.sql(
            "SELECT a FROM frame",
            frame=pl.DataFrame({"a": [2**63]}, schema={"a": pl.UInt64}),
        )


def test_nothing_is_a_frame_too(people: vicus.Database) -> None:
    empty = people.query("SELECT ?s { ?s <http://e/none> ?o }")
    table = pa.table(empty)
    assert table.num_rows == 0 and table.schema.names == ["s"]
    assert people.sql("SELECT * FROM frame", frame=table).fetchall() == []


def test_values_are_shared_without_a_copy(many: object) -> None:
    db = vicus.read(str(many))

    def buffers(table: object) -> set[int]:
        chunks = [chunk for column in table.columns for chunk in column.chunks]  # type: ignore[attr-defined]
        assert sum(len(chunk) for chunk in chunks) == 40_000
        return {chunk.buffers()[1].address for chunk in chunks}

    result = db.query("SELECT ?s ?n { ?s <http://e/n> ?n }", types={"n": int})
    table = pa.table(result)
    # Of a stream that is looked at once more, each consumer has the memory of the first.
    again = pa.RecordBatchReader.from_stream(table).read_all()
    frame = pl.from_arrow(table, rechunk=False).to_arrow(compat_level=pl.CompatLevel.newest())
    assert buffers(table) == buffers(again) == buffers(frame)


def test_arrays_that_are_none_are_errors_with_their_column():
    """Ends of texts and lists that fall, a key beyond its dictionary, a text that is not UTF-8: nothing is read there."""
    db = vicus.memory()
    ends = pa.py_buffer(b"".join(end.to_bytes(4, "little") for end in (0, 5, 2)))
    texts = pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"abcdefgh")])
    lists = pa.Array.from_buffers(pa.list_(pa.int64()), 2, [None, ends], children=[pa.array(range(8))])
    keys = pa.py_buffer(b"".join(key.to_bytes(4, "little") for key in (0, 7)))
    coded = pa.DictionaryArray.from_buffers(
        pa.dictionary(pa.int32(), pa.string()), 2, [None, keys], pa.array(["a", "b"])
    )
    no_text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    for wrong in [texts, lists, coded, no_text]:
        frame = pa.table({"n": pa.array(range(len(wrong))), "wrong": wrong})
        with pytest.raises(vicus.Error, match="wrong|dictionary"):
            db.sql("SELECT COUNT(wrong), MAX(n) FROM t", t=frame).fetchall()
    assert db.sql("SELECT MAX(n) AS n FROM t", t=pa.table({"n": [1, 2]})).fetchall()[0].n.value == 2


def test_decimals_lists_and_structs_of_frames_are_columns():
    from decimal import Decimal

    db = vicus.memory()
    frame = pa.table({
        "price": pa.array([Decimal("19.99"), Decimal("5.00"), None], pa.decimal128(9, 2)),
        "tags": pa.array([["a", "b"], [], None], pa.list_(pa.string())),
        "box": pa.array([{"w": 2.5}, {"w": None}, None], pa.struct([("w", pa.float64())])),
    })
    rows = db.sql("SELECT price * 2 AS twice, tags, tags[1] AS first, box.w AS w, box FROM t ORDER BY price", t=frame).arrow()
    assert rows.schema.field("twice").type == pa.decimal128(28, 2)
    assert rows.to_pylist() == [
        {"twice": Decimal("10.00"), "tags": [], "first": None, "w": None, "box": {"w": None}},
        {"twice": Decimal("39.98"), "tags": ["a", "b"], "first": "a", "w": 2.5, "box": {"w": 2.5}},
        {"twice": None, "tags": None, "first": None, "w": None, "box": None},
    ]
    sums = db.sql("SELECT tags, SUM(price) AS sum FROM t GROUP BY tags ORDER BY sum DESC", t=frame).polars()
    assert sums["sum"].to_list() == [None, Decimal("19.99"), Decimal("5.00")]


def test_parameters_of_sql_are_values() -> None:
    db = vicus.memory()
    table = pa.table({"k": [1, 2, 3], "name": ["a", "b", "c' OR 1 = 1"], "on": [datetime.date(2026, 1, n) for n in (1, 2, 3)]})
    ask = lambda text, **bind: db.sql(text, bind=bind, t=table).arrow().to_pydict()  # noqa: E731
    assert ask("SELECT k FROM t WHERE name = $name", name="c' OR 1 = 1") == {"k": [3]}
    assert ask("SELECT k FROM t WHERE k > $least ORDER BY k LIMIT :most", least=1, most=1) == {"k": [2]}
    assert ask("SELECT k FROM t WHERE \"on\" = $day", day=datetime.date(2026, 1, 2)) == {"k": [2]}
    kinds = ask(
        "SELECT $i AS i, $d AS d, $b AS b, $x AS x, $at AS at",
        i=7, d=2.5, b=True, x=decimal.Decimal("1.50"), at=datetime.datetime(2026, 1, 2, 3, 4, 5),
    )  # fmt: skip
    assert kinds == {
        "i": [7], "d": [2.5], "b": [True], "x": [decimal.Decimal("1.50")], "at": [datetime.datetime(2026, 1, 2, 3, 4, 5)],
    }  # fmt: skip
    # sqlite3 has the same parameters.
    own = sqlite3.connect(":memory:")
    for text, bind in [("SELECT $a * 3 - $b AS n", {"a": 7, "b": 2}), ("SELECT $a || 'x' AS n", {"a": "y"})]:
        assert ask(text, **bind)["n"] == [own.execute(text, bind).fetchone()[0]]
    with pytest.raises(vicus.SyntaxError, match="no value is given for .other"):
        ask("SELECT $other AS n")
    with pytest.raises(vicus.QueryError, match="given for .more, and the statement has no such parameter"):
        ask("SELECT 1 AS n", more=1)
    with pytest.raises(vicus.SyntaxError, match="write .name"):
        ask("SELECT ? AS n")
    with pytest.raises(vicus.SyntaxError, match="number of rows"):
        ask("SELECT k FROM t LIMIT $n", n="many")


def test_files_are_tables_of_sql(tmp_path: pathlib.Path) -> None:
    (tmp_path / "people.csv").write_text("name,age\nAda,36\nGrace,85\n")
    db = vicus.memory()
    rows = db.sql("SELECT name FROM people WHERE age > $age", bind={"age": 40}, people=tmp_path / "people.csv")
    assert rows.arrow().to_pydict() == {"name": ["Grace"]}
    with pytest.raises(vicus.DataError, match="missing.csv"):
        db.sql("SELECT 1 FROM missing", missing=str(tmp_path / "missing.csv"))
    assert "people" in str(db.explain("SELECT * FROM people", language="sql", people=tmp_path / "people.csv"))
    assert db.profile("SELECT * FROM people", language="sql", people=tmp_path / "people.csv").rows == 2


def test_servers_and_files_are_read_where_it_is_allowed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "more.nt").write_text("<http://e/a> <http://e/p> <http://e/o> .\n" * 2)
    db = vicus.memory()
    load = f"LOAD <{(tmp_path / 'more.nt').as_uri()}>"
    for elsewhere in [{}, {"load_folder": tmp_path / "none"}]:
        with pytest.raises(vicus.Error):
            db.update(load, **elsewhere)
    assert len(db) == 0
    db.update(load, load_folder=tmp_path)
    assert len(db) == 1
    with socketserver.TCPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_address[1]}/"
        text = f"SELECT ?x {{ SERVICE <{place}sparql> {{ ?x ?y ?z }} }}"
        with pytest.raises(vicus.Error, match="is not permitted"):
            db.query(text).fetchall()
        assert db.query(text, allow_service=[place]).fetchall() == [(vicus.IRI("http://e/found"),)]
        server.shutdown()
    with pytest.raises(vicus.ArgumentError, match="list"):
        db.query("ASK {}", allow_service="all")
    with pytest.raises(vicus.ArgumentError, match="allow_service"):
        bool(db.query("ASK {}", allow_service=["ftp://e/"]))


class Answers(http.server.BaseHTTPRequestHandler):
    """A server of SPARQL with one answer."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        answer = b'{"head": {"vars": ["x"]}, "results": {"bindings": [{"x": {"type": "uri", "value": "http://e/found"}}]}}'
        self.send_response(200)
        self.send_header("Content-Type", "application/sparql-results+json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        pass
