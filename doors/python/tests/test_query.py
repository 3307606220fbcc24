"""Queries, their options and their answers."""

from __future__ import annotations

import datetime
import decimal
import gc
import math
import pickle
import time

import pytest
import vicus
from vicus import IRI, BlankNode, Literal

XSD = "http://www.w3.org/2001/XMLSchema#"


def test_rows_are_named_tuples_of_terms(people: vicus.Database) -> None:
    rows = people.query("SELECT ?who ?age { ?who <http://e/age> ?age } ORDER BY ?age").fetchall()
    assert rows == [
        (IRI("http://e/ann"), Literal(27)),
        (IRI("http://e/bob"), Literal(31)),
    ]
    assert rows[0].who == "http://e/ann" and rows[0].age.value == 27
    assert rows[0]._fields == ("who", "age")


def test_terms_know_what_they_are(people: vicus.Database) -> None:
    text = "SELECT ?s ?o { ?s ?p ?o FILTER (?p IN (<http://e/name>, <http://e/height>, <http://e/born>)) } ORDER BY ?o"
    terms = {str(row.o): row for row in people.query(text)}
    assert terms["Bob"].o == Literal("Bob", language="en") != Literal("Bob")
    assert terms["Xi"].o == Literal("Xi") and isinstance(terms["Xi"].s, BlankNode)
    assert terms["1990-02-28"].o.value == datetime.date(1990, 2, 28)
    height = next(row.o for row in terms.values() if row.o.datatype == XSD + "double")
    assert height.value == 1.85
    for row in terms.values():
        for term in row:
            assert pickle.loads(pickle.dumps(term)) == term and type(pickle.loads(pickle.dumps(term))) is type(term)


def test_values_of_python_are_literals() -> None:
    assert Literal(True).n3() == f'"true"^^<{XSD}boolean>'
    assert Literal(1.5).n3() == f'"1.5"^^<{XSD}double>'
    assert Literal(math.inf).n3() == f'"INF"^^<{XSD}double>'
    assert math.isnan(Literal(math.nan).value)
    assert Literal(decimal.Decimal("1E+2")).n3() == f'"100"^^<{XSD}decimal>'
    assert Literal(datetime.datetime(2026, 1, 2, 3, 4, 5)).value == datetime.datetime(2026, 1, 2, 3, 4, 5)
    assert Literal('a\n"b"').n3() == '"a\\n\\"b\\""'
    assert Literal("x", datatype=XSD + "integer").value == "x"
    assert IRI("http://e/a") != Literal("http://e/a") and IRI("http://e/a") == "http://e/a"
    with pytest.raises(vicus.TermError, match="is no term"):
        Literal([1])


def test_an_ask_is_true_or_false(people: vicus.Database) -> None:
    assert people.query("ASK { ?s <http://e/age> 27 }")
    assert not people.query("ASK { ?s <http://e/age> 28 }")
    asked = people.query("ASK {}")
    with pytest.raises(vicus.AnswerError):
        asked.fetchall()
    with pytest.raises(vicus.AnswerError):
        asked.__arrow_c_stream__()
    assert bool(asked) and bool(asked)


def test_a_construct_has_three_columns(people: vicus.Database) -> None:
    made = people.query("CONSTRUCT { ?a <http://e/known> ?b } WHERE { ?b <http://e/knows> ?a }")
    assert made.columns == ["subject", "predicate", "object"]
    assert made.fetchall() == [(IRI("http://e/bob"), IRI("http://e/known"), IRI("http://e/ann"))]


def test_rows_are_read_once(people: vicus.Database) -> None:
    result = people.query("SELECT ?s { ?s <http://e/age> ?age }")
    assert len(result) == 2 and len(result) == 2
    assert result.fetchone() is not None and len(result.fetchmany(9)) == 1
    assert result.fetchone() is None and result.fetchall() == [] and list(result) == []


def test_a_result_is_true_if_there_are_rows(people: vicus.Database) -> None:
    result = people.query("SELECT ?s { ?s <http://e/age> ?age }")
    assert result and result
    assert len(result.fetchall()) == 2
    assert result
    assert not people.query("SELECT ?s { ?s <http://e/none> ?age }")


def test_unbound_is_none(people: vicus.Database) -> None:
    text = "SELECT ?who ?height { ?who <http://e/age> ?age OPTIONAL { ?who <http://e/height> ?height } } ORDER BY ?age"
    heights = [row.height for row in people.query(text)]
    assert heights[0] is None and heights[1].value == 1.85


@pytest.mark.parametrize("value", ["Ann", "' } ; DROP ALL #", '"', "\\", "\n", "?s", "ä€😀", ""])
def test_a_bound_text_is_never_a_part_of_the_query(people: vicus.Database, value: str) -> None:
    before = len(people)
    people.update("INSERT DATA { <http://e/new> <http://e/name> ?name }", bind={"name": value})
    rows = people.query("SELECT ?s ?name { ?s <http://e/name> ?name }", bind={"name": value}).fetchall()
    assert (IRI("http://e/new"), Literal(value)) in rows
    assert len(people) >= before
    people.update("DELETE DATA { <http://e/new> <http://e/name> ?name }", bind={"name": value})


def test_bound_variables_are_terms_everywhere(people: vicus.Database) -> None:
    ask = lambda text, **bind: people.query(text, bind=bind).fetchall()
    assert ask("SELECT ?o { ?s ?p ?o }", s=IRI("http://e/ann"), p=IRI("http://e/age")) == [(Literal(27),)]
    assert ask("SELECT ?s { ?s <http://e/age> ?n FILTER (?n > ?least) }", least=30) == [(IRI("http://e/bob"),)]
    assert ask("SELECT ?n (COUNT(*) AS ?c) { ?s <http://e/age> ?n } GROUP BY ?n", n=27) == [(Literal(27), Literal(1))]
    assert ask("SELECT (BOUND(?x) AS ?b) { BIND (?x + 1 AS ?y) } ORDER BY ?x", x=1) == [(Literal(True),)]
    assert ask("SELECT ?s { { SELECT ?s ?n { ?s <http://e/age> ?n } } }", n=31) == [(IRI("http://e/bob"),)]
    assert ask("SELECT * { <http://e/ann> ?p/<http://e/age> ?o }", p=IRI("http://e/knows")) == [(Literal(31),)]
    assert ask("DESCRIBE ?x", x=IRI("http://e/ann"))
    assert people.query("ASK { FILTER EXISTS { ?s ?p ?o } }", bind={"?s": IRI("http://e/ann")})
    people.update("CLEAR GRAPH ?g", bind={"g": IRI("http://e/g")})


def test_wrong_parameters_are_told(people: vicus.Database) -> None:
    with pytest.raises(vicus.QueryError, match=r"the query has no \?y, for which a value is given"):
        people.query("SELECT ?x { ?x ?p ?o }", bind={"y": 1})
    with pytest.raises(vicus.SyntaxError, match="has a value from outside"):
        people.query("SELECT ?x { BIND (1 AS ?x) }", bind={"x": 1})
    with pytest.raises(vicus.SyntaxError, match="has a value from outside"):
        people.query("SELECT ?x { VALUES (?x) { (1) } }", bind={"x": 1})
    with pytest.raises(vicus.SyntaxError, match="SERVICE"):
        people.query("SELECT ?y { SERVICE <http://e/> { ?x ?p ?y } }", bind={"x": 1})
    with pytest.raises(vicus.SyntaxError, match="predicate"):
        people.query("SELECT ?s { ?s ?p ?o }", bind={"p": "no IRI"})
    with pytest.raises(vicus.TermError, match="is no IRI"):
        people.query("SELECT ?s { ?s ?p ?o }", bind={"p": IRI("no IRI")})
    with pytest.raises(vicus.TermError, match="blank node"):
        people.query("SELECT ?s { ?s ?p ?o }", bind={"s": BlankNode("x")})
    with pytest.raises(vicus.TermError):
        people.query("SELECT ?s { ?s ?p ?o }", bind={"s": object()})
    with pytest.raises(vicus.ArgumentError):
        people.query("SELECT ?s { ?s ?p ?o }", bind={1: 2})  # type: ignore[dict-item]


def test_a_syntax_error_has_its_place(people: vicus.Database) -> None:
    with pytest.raises(vicus.SyntaxError) as caught:
        people.query("SELECT ?s {\n  ?s ?p }")
    error = caught.value
    assert (error.line, error.column) == (2, 9) and isinstance(error, vicus.Error)
    assert str(error).splitlines()[1:] == ["    ?s ?p }", "          ^"]
    for make in [people.explain, people.profile, people.prepare, people.update]:
        with pytest.raises(vicus.SyntaxError):
            make("SELEKT")
    with pytest.raises(vicus.SyntaxError):
        people.sql("SELECT FROM")


def test_limits_are_told_by_class(people: vicus.Database) -> None:
    cross = "SELECT (COUNT(*) AS ?n) {" + " ".join(f"?a{n} ?b{n} ?c{n} ." for n in range(12)) + "}"
    with pytest.raises(vicus.Timeout):
        people.query(cross, timeout=0.01).fetchall()
    with pytest.raises(TimeoutError):
        people.query(cross, timeout=0).fetchall()
    with pytest.raises(vicus.MemoryLimit):
        people.query("SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } ORDER BY ?c ?f ?i", memory=1000).fetchall()
    with pytest.raises(vicus.RowLimit):
        people.query("SELECT * { ?a ?b ?c }", most_rows=2).fetchall()
    assert len(people.query("SELECT * { ?a ?b ?c }", first_rows=2)) == 2
    cancel = vicus.Cancel()
    cancel.cancel()
    with pytest.raises(vicus.Cancelled):
        people.query("SELECT * { ?a ?b ?c }", cancel=cancel).fetchall()
    assert cancel.cancelled


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": -1},
        {"timeout": math.nan},
        {"timeout": "soon"},
        {"memory": "much"},
        {"memory": -1},
        {"memory": 1.5},
        {"most_rows": -1},
        {"bind": 7},
        {"base": 7},
        {"nonsense": 1},
        {"cancel": 7},
    ],
)
def test_wrong_options_are_refused(people: vicus.Database, options: dict[str, object]) -> None:
    with pytest.raises((vicus.ArgumentError, TypeError, OverflowError, AttributeError)):
        people.query("ASK {}", **options)  # type: ignore[arg-type]


def test_a_dropped_result_ends_its_query() -> None:
    db = vicus.memory(threads=2)
    db.load(data="".join(f"<http://e/{n}> <http://e/p> {n} .\n" for n in range(3000)))
    cross = "{ ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"

    def idle() -> bool:
        """Whether the process does nothing for a while."""
        used = time.process_time()
        time.sleep(0.1)
        return time.process_time() - used < 0.02

    def becomes(state: bool) -> bool:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if idle() == state:
                return True
        return False

    for text in ["SELECT (COUNT(*) AS ?n) " + cross, "ASK " + cross[:-1] + "FILTER (?c + ?f + ?i + ?l < 0) }"]:
        result = db.query(text)
        assert becomes(False)
        del result
        gc.collect()
        assert becomes(True), text


def test_an_answer_of_any_length_takes_bounded_memory(many: object) -> None:
    import resource

    db = vicus.read(str(many))
    rows, before = 0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in db.query("SELECT ?a ?b ?c { ?a <http://e/n> ?b . ?c <http://e/n> ?d . FILTER (?d < 100) }"):
        rows += 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    # All rows as tuples would be a gigabyte.
    assert rows == 2_000_000 and grown < 300_000


def test_plans_are_trees(people: vicus.Database) -> None:
    plan = people.explain("SELECT ?s { ?s <http://e/knows>/<http://e/name> ?n }")
    assert "join" in plan and isinstance(plan, vicus.Plan) and "<pre" in plan._repr_html_()
    profile = people.profile("SELECT ?s { ?s <http://e/age> ?n }")
    assert profile.rows == 2 and profile.seconds > 0 and "2 rows" in profile
    assert "join" in people.query("SELECT ?s { ?s <http://e/knows>/<http://e/name> ?n }").explain()


def test_prepared_queries_answer_over_their_time(people: vicus.Database) -> None:
    prepared = people.prepare("SELECT ?s { ?s <http://e/age> ?n }")
    people.update("INSERT DATA { <http://e/cy> <http://e/age> 5 }")
    assert len(prepared.run()) == 2 and len(prepared.run(timeout=10, memory="1G")) == 2
    assert len(people.query("SELECT ?s { ?s <http://e/age> ?n }")) == 3
    assert "age" in repr(prepared)


def test_snapshots_stay(people: vicus.Database) -> None:
    before = people.snapshot()
    people.update("DELETE WHERE { ?s ?p ?o }")
    assert len(people) == 0 and len(before) == 8
    assert people and repr(people) == "<vicus.Database in memory: 0 quads>"
    with pytest.raises(vicus.ReadOnly):
        before.update("INSERT DATA { <http://e/a> <http://e/b> 1 }")
    with pytest.raises(vicus.ReadOnly):
        before.load(data="<http://e/a> <http://e/b> 1 .")


def test_results_have_names_and_a_look(people: vicus.Database) -> None:
    result = people.query("SELECT ?who ?age { ?who <http://e/age> ?age } ORDER BY ?age")
    assert repr(result) == "<vicus.Result: who, age>"
    shown = result._repr_html_()
    assert "<th>who</th><th>age</th>" in shown and "<td>27</td>" in shown and "2 rows" in shown
    # What was shown can still be read.
    assert len(result.fetchall()) == 2
    escaped = people.query("SELECT ('<b>' AS ?x) {}")._repr_html_()
    assert "&lt;b&gt;" in escaped and "<b>" not in escaped
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(result)


def test_odd_columns_have_other_names() -> None:
    rows = vicus.memory().query("SELECT (1 AS ?class) (2 AS ?_x) (3 AS ?é) {}").fetchall()
    assert rows[0] == (Literal(1), Literal(2), Literal(3))


def test_lone_surrogates_are_refused(people: vicus.Database) -> None:
    net = vicus.Network("box \ud800 = collect;")
    for ask, wrong, said in [
        (lambda: people.query("SELECT ?s {\n ?s ?p '\ud800' }"), vicus.SyntaxError, r"line 2, column 9: .*\\ud800"),
        (lambda: people.update("\udfff"), vicus.SyntaxError, r"line 1, column 1: .*\\udfff"),
        (lambda: people.sql("SELECT '\ud800' AS x"), vicus.SyntaxError, "line 1, column 9"),
        (lambda: people.query("SELECT ?s { ?s ?p ?o }", bind={"o": "\ud800"}), vicus.TermError, "is no text"),
        (lambda: people.query("SELECT ?s { ?s ?p ?o }", base="\ud800"), vicus.ArgumentError, "base"),
        (lambda: people.load(data="\n<http://e/a> <http://e/b> '\ud800' ."), vicus.DataError, r"line 2: .*\\ud800"),
        (lambda: people.load(data="", graph="\ud800"), vicus.ArgumentError, "graph"),
        (lambda: people.dump("a.nq", prefixes={"\ud800": "x"}), vicus.ArgumentError, "prefix"),
        (lambda: net.run(), vicus.SyntaxError, "line 1, column 5"),
        (lambda: net.run(strategy="\ud800"), vicus.ArgumentError, "strategy"),
    ]:
        with pytest.raises(wrong, match=said) as caught:
            ask()
        # It can be written.
        str(caught.value).encode()


TIME = XSD + "dateTime"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-01-02T03:04:05", datetime.datetime(2026, 1, 2, 3, 4, 5)),
        ("2026-01-02T03:04:05Z", datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)),
        ("2026-01-02T03:04:05.5Z", datetime.datetime(2026, 1, 2, 3, 4, 5, 500_000, tzinfo=datetime.timezone.utc)),
        ("2026-01-02T03:04:05.1234567", datetime.datetime(2026, 1, 2, 3, 4, 5, 123_456)),
        (
            "2026-01-02T03:04:05-05:30",
            datetime.datetime(
                2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone(-datetime.timedelta(hours=5, minutes=30))
            ),
        ),
        ("2025-12-31T24:00:00", datetime.datetime(2026, 1, 1)),
        # None of these is a time of XML Schema that Python has, so their value is their text.
        *[(text, text) for text in ["2026-01-02", "20260102T030405", "2026-01-02T03:04", "2026-01-02T03:04:05+15:00",
                                    "-0044-03-15T00:00:00", "12026-01-02T03:04:05", "2026-02-30T00:00:00",
                                    "2026-01-02 03:04:05"]],
    ],
)  # fmt: skip
def test_times_have_their_offsets(text: str, value: object) -> None:
    read = Literal(text, datatype=TIME).value
    assert read == value and type(read) is type(value)
    if isinstance(value, datetime.datetime):
        assert read.utcoffset() == value.utcoffset()


def test_times_of_python_are_literals() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=zone)
    assert Literal(moment).n3() == f'"2026-01-02T03:04:05+02:00"^^<{TIME}>' and Literal(moment).value == moment
    # XML Schema has no offsets of seconds: the same moment in UTC.
    odd = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone(datetime.timedelta(minutes=19, seconds=32)))
    assert Literal(odd).value == odd and str(Literal(odd)) == "2026-01-02T02:44:33+00:00"
    # A date with an offset is more than a date of Python.
    assert Literal("2026-01-02Z", datatype=XSD + "date").value == "2026-01-02Z"


def test_times_of_numpy_and_pandas() -> None:
    numpy = pytest.importorskip("numpy")
    for value, text, kind in [
        (numpy.datetime64("2026-01-02"), "2026-01-02", "date"),
        (numpy.datetime64("2026-01-02T03"), "2026-01-02T03:00:00", "dateTime"),
        (numpy.datetime64("2026-01-02T03:04:05.000000007"), "2026-01-02T03:04:05.000000007", "dateTime"),
        (numpy.datetime64("2026-01"), "2026-01", "gYearMonth"),
    ]:
        made = Literal(value)
        assert (str(made), made.datatype) == (text, XSD + kind)
    for none in [numpy.datetime64("NaT"), numpy.timedelta64(5, "ns"), numpy.clongdouble(1)]:
        with pytest.raises(vicus.TermError):
            Literal(none)
    assert Literal(numpy.longdouble(1.5)) == Literal(1.5) and Literal(numpy.bool_(True)) == Literal(True)
    pandas = pytest.importorskip("pandas")
    assert str(Literal(pandas.Timestamp("2026-01-02T03:04:05", tz="Europe/Berlin"))) == "2026-01-02T03:04:05+01:00"
    with pytest.raises(vicus.TermError, match="no time"):
        vicus.memory().query("SELECT ?x {}", bind={"x": pandas.NaT})


def test_a_direction_is_kept() -> None:
    db = vicus.memory()
    db.load(data='<http://e/a> <http://e/p> "chat"@fr--ltr, "chat"@fr .', rdf_12=True)
    terms = {row.o for row in db.query("SELECT ?o { ?s ?p ?o }", rdf_12=True)}
    directed = Literal("chat", language="fr", direction="ltr")
    assert terms == {directed, Literal("chat", language="fr")}
    assert directed.n3() == '"chat"@fr--ltr' and directed.language == "fr" and directed.datatype.endswith("#dirLangString")
    assert pickle.loads(pickle.dumps(directed)) == directed and "direction='ltr'" in repr(directed)
    found = db.query("SELECT ?s { ?s ?p ?o }", bind={"o": directed}, rdf_12=True).fetchall()
    assert len(found) == 1
    for wrong in [{"direction": "up", "language": "fr"}, {"direction": "ltr"}]:
        with pytest.raises(vicus.TermError, match="direction"):
            Literal("chat", **wrong)
