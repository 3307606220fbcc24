//! Each mistake in a statement is reported with its place.

use crate::run::{answer, people};
use vicus_sql::{PlanOptions, SqlErrorKind, StatementLimits, parse, plan};

/// The error of a statement: line, column, and text.
fn error(text: &str) -> (usize, usize, String, SqlErrorKind) {
    let planned = parse(text, &StatementLimits::default())
        .and_then(|parsed| plan(&parsed, &people(), &PlanOptions::default(), &|| false).map(|_| ()));
    let error = planned.err().unwrap_or_else(|| panic!("{text} has no error"));
    let place = error.place;
    let before = &text[..place.offset.unwrap_or(0)];
    if place.line > 0 {
        assert_eq!(place.line, 1 + before.matches('\n').count(), "{text}: {error}");
        assert_eq!(place.column, 1 + before.rsplit('\n').next().unwrap().chars().count(), "{text}: {error}");
    }
    (place.line, place.column, error.message, error.kind)
}

#[test]
fn unknown_names_suggest_near_ones() {
    for (text, line, column, message) in [
        ("SELECT nmae FROM people", 1, 8, "there is no column nmae; did you mean name?"),
        ("SELECT p.scroe FROM people p", 1, 10, "there is no column scroe; did you mean score?"),
        ("SELECT 'é', q.id\nFROM people p", 1, 13, "there is no table q; did you mean p?"),
        ("SELECT 1\n  FROM peeple", 2, 8, "there is no table peeple; did you mean people?"),
        ("SELECT x FROM people", 1, 8, "there is no column x"),
        ("SELECT uper(name) FROM people", 1, 8, "there is no function uper; did you mean upper?"),
        ("SELECT teams.* FROM people", 1, 8, "there is no table teams"),
    ] {
        let found = error(text);
        assert_eq!((found.0, found.1, found.2.as_str()), (line, column, message), "{text}");
        assert!(matches!(found.3, SqlErrorKind::Unknown { .. }));
    }
}

#[test]
fn wrong_types_and_places_are_named() {
    for (text, column, message) in [
        ("SELECT name + 1 FROM people", 15, "a number is needed here, and this is a varchar"),
        ("SELECT 1 FROM people WHERE name", 28, "a condition is needed here, and this is a varchar"),
        ("SELECT 1 FROM people WHERE id = name", 33, "values of the types bigint and varchar don't fit together"),
        ("SELECT 1 FROM people WHERE born = 'soon'", 35, "'soon' can't be read as a date"),
        ("SELECT name, COUNT(*) FROM people", 8, "name differs within a group"),
        ("SELECT 1 FROM people WHERE COUNT(*) > 1", 28, "count is an aggregate, and can't stand in WHERE"),
        ("SELECT SUM(MAX(id)) FROM people", 12, "max can't stand within another aggregate"),
        ("SELECT SUM(name) FROM people", 8, "sum can't be taken of values of type varchar"),
        ("SELECT id FROM people ORDER BY 3", 32, "3 is no column of the select list, which has 1"),
        ("SELECT 1 UNION SELECT 'a'", 16, "column 'a' is bigint in one query and varchar in another"),
        ("SELECT 1 UNION SELECT 1, 2", 16, "both queries need equally many columns, and here are 1 and 2"),
        ("SELECT id FROM people, teams", 8, "id is the name of several columns"),
        ("SELECT 1 FROM people, people", 23, "people is the name of two tables: give one of them an alias"),
        ("SELECT 99999999999999999999", 8, "99999999999999999999 is no bigint"),
        ("SELECT 1 FROM people LIMIT -1", 29, "LIMIT needs a number of rows that isn't negative"),
        ("SELECT (SELECT id, name FROM people)", 9, "a subquery that is a value has to have one column, and has 2"),
        ("SELECT UPPER(name, 1) FROM people", 8, "upper needs 1 arguments, and 2 are given"),
        ("SELECT CAST(born AS BIGINT) FROM people", 13, "a date can't be cast to bigint"),
        ("SELECT UNNEST(id) FROM people", 15, "UNNEST needs a list, and this is a bigint"),
        ("SELECT UNNEST(UNNEST([[1]]))", 15, "UNNEST within UNNEST is not supported"),
        ("SELECT UNNEST([UNNEST([1])]) FROM people", 16, "UNNEST within UNNEST is not supported"),
        ("SELECT * FROM UNNEST(UNNEST([[1]])) AS n(x)", 22, "UNNEST within UNNEST is not supported"),
        ("SELECT 1 FROM people p, UNNEST([1]) AS n(x) JOIN teams t ON p.id = t.id", 61, "there is no table p"),
        ("SELECT 1 FROM people, UNNEST([1]) AS n(x) JOIN teams t ON score = x", 59, "there is no column score"),
        (
            "SELECT 1 FROM people p, UNNEST([1]) AS n(x) RIGHT JOIN teams t ON t.id = n.x",
            56,
            "a RIGHT or FULL JOIN of UNNEST after a comma is not supported",
        ),
        ("SELECT 1 FROM people p WHERE id IN (SELECT UNNEST([p.team]))", 54, "team of an outer query"),
        ("SELECT 1 FROM people p WHERE EXISTS (SELECT 1 FROM UNNEST([p.team]))", 62, "team of an outer query"),
        ("SELECT * FROM people, UNNEST(name) AS n(x)", 30, "UNNEST needs a list, and this is a varchar"),
    ] {
        let found = error(text);
        assert!(found.2.starts_with(message), "{text}: {}", found.2);
        assert_eq!((found.0, found.1), (1, column), "{text}: {}", found.2);
    }
}

#[test]
fn parameters_have_names_and_values() {
    let nameless = "a parameter without a name is not supported: write $name or :name";
    assert_eq!(error("SELECT 1, ?"), (1, 11, nameless.to_owned(), SqlErrorKind::Unsupported));
    for (text, column) in [("SELECT $n", 8), ("SELECT 1 LIMIT :n", 16)] {
        let found = error(text);
        assert_eq!(
            (found.0, found.1, &found.2[..24]),
            (1, column, "no value is given for $n".replace('$', &text[column - 1..column]).as_str())
        );
    }
}

#[test]
fn what_is_not_supported_is_named() {
    for (text, what) in [
        ("SELECT ROW_NUMBER() OVER (ORDER BY id) FROM people", "a window (OVER) such as that of row_number"),
        ("SELECT 1 FROM people GROUP BY ROLLUP (id)", "GROUPING SETS, CUBE and ROLLUP"),
        ("SELECT DISTINCT ON (id) id FROM people", "DISTINCT ON"),
        ("SELECT id FROM people WHERE (id, team) IN (SELECT 1, 2)", "IN for several values in brackets"),
        ("SELECT CAST('1' AS UUID)", "the type UUID"),
        ("SELECT INTERVAL '1' MONTH", "INTERVAL with months other than behind + or - of a date"),
        ("SELECT * FROM people, LATERAL (SELECT 1) AS x", "LATERAL"),
        ("INSERT INTO people VALUES (1)", "INSERT (only SELECT, SHOW TABLES and DESCRIBE can be asked)"),
        ("SELECT id = ANY (SELECT 1) FROM people", "ANY and ALL"),
        ("SELECT id FROM people WHERE UNNEST([id]) = 1", "UNNEST elsewhere than in SELECT and FROM"),
        ("SELECT UNNEST([1]), UNNEST([2])", "a second UNNEST in one SELECT"),
        ("SELECT UNNEST([1]), COUNT(*) FROM people", "UNNEST beside aggregates or GROUP BY"),
        (
            "SELECT id FROM people LEFT JOIN UNNEST([1]) AS n(x) ON x = id",
            "UNNEST in another join than an inner one with ON or CROSS JOIN",
        ),
        (
            "SELECT p.name FROM people p, UNNEST([1]) AS n(x) RIGHT JOIN teams t ON t.id = n.x",
            "a RIGHT or FULL JOIN of UNNEST after a comma",
        ),
        (
            "SELECT p.name FROM people p, UNNEST([1]) AS n(x) CROSS JOIN teams FULL JOIN teams t ON t.id = n.x",
            "a RIGHT or FULL JOIN of UNNEST after a comma",
        ),
        ("SHOW TABLES LIKE 'p%'", "SHOW (only SELECT, SHOW TABLES and DESCRIBE can be asked)"),
        ("EXPLAIN SELECT 1", "EXPLAIN (only SELECT, SHOW TABLES and DESCRIBE can be asked)"),
    ] {
        let found = error(text);
        assert_eq!(found.2, format!("{what} is not supported"), "{text}");
        assert_eq!(found.3, SqlErrorKind::Unsupported);
        assert!(found.0 > 0, "{text} has a place");
    }
}

#[test]
fn values_that_are_wrong_fail_the_request() {
    let (tables, options) = (people(), PlanOptions::default());
    for (text, message) in [
        ("SELECT 9223372036854775807 + id FROM people", "9223372036854775807 + 1 is no bigint"),
        ("SELECT SUM(n) + SUM(n) FROM events", "is no bigint"),
        ("SELECT CAST(name AS BIGINT) FROM people", "'Ada' can't be read as a bigint"),
        ("SELECT (SELECT id FROM people)", "a subquery that is used as a value has more than one row"),
        ("SELECT CAST(1e300 AS BIGINT)", "1e300 is no bigint"),
    ] {
        let error = answer(text, &tables, &options, 1).unwrap_err();
        assert!(error.contains(message), "{text}: {error}");
    }
    // A condition that guards a value from an error works.
    let guarded =
        "SELECT CASE WHEN name = 'Ada' THEN 0 ELSE 1 / (id - 1) END FROM people WHERE id = 1 OR CAST(id AS BIGINT) = 2";
    assert!(answer(guarded, &tables, &options, 1).is_ok());
    let guarded = "SELECT COUNT(*) FROM (VALUES ('1'), ('x')) AS v(t) WHERE t <> 'x' AND CAST(t AS BIGINT) = 1";
    assert_eq!(crate::run::lines(&answer(guarded, &tables, &options, 1).unwrap()), ["1"]);
}

/// What happened: a file of a statement that begins with a byte order mark was no SQL.
#[test]
fn a_byte_order_mark_is_no_part_of_a_statement() {
    for text in ["\u{FEFF}SELECT 1 + 1", "\u{FEFF}-- a note\nSELECT 1 + 1;"] {
        let parsed = parse(text, &StatementLimits::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(plan(&parsed, &people(), &PlanOptions::default(), &|| false).is_ok(), "{text}");
    }
    let marked = parse("\u{FEFF}SELECT\n 1 +", &StatementLimits::default()).expect_err("it is no SQL");
    let plain = parse("SELECT\n 1 +", &StatementLimits::default()).expect_err("it is no SQL");
    assert_eq!((marked.place.line, marked.place.column), (plain.place.line, plain.place.column));
    assert!(parse("\u{FEFF}\u{FEFF}SELECT 1", &StatementLimits::default()).is_err());
}
