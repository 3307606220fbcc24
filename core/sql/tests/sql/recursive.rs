//! WITH RECURSIVE: the answers of SQLite, reachability in random graphs beside plain loops, and its errors.

use crate::run::{answer, lines, table, ways};
use std::collections::BTreeSet;
use std::sync::Arc;
use vicus_flow::SteppedRequest;
use vicus_language::RunCounts;
use vicus_sql::{PlanOptions, SqlErrorKind, SqlType, StatementLimits, Tables, Value, parse, plan};

#[test]
fn recursive_statements_have_the_answers_of_sqlite() {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in include_str!("../data/recursive.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        match (line.strip_prefix("> "), all.last_mut()) {
            (Some(statement), _) => all.push((statement, Vec::new())),
            (None, Some((_, rows))) => rows.push(line),
            (None, None) => panic!("{line}: a statement comes first"),
        }
    }
    assert!(all.len() > 15);
    for (statement, mut expected) in all {
        for (number, way) in ways().into_iter().enumerate() {
            let found = answer(statement, &Tables::default(), &way, number as u64);
            let mut found = lines(&found.unwrap_or_else(|error| panic!("{statement}\nway {number}: {error}")));
            if !statement.contains("ORDER BY") {
                found.sort();
                expected.sort_unstable();
            }
            assert_eq!(found, expected, "{statement}\nway {number}");
        }
    }
}

/// SQLite has no recursion within a table in brackets.
#[test]
fn a_query_in_brackets_may_read_the_last_round() {
    let statement = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL \
                     SELECT y + 1 FROM (SELECT x AS y FROM n WHERE x < 6) q WHERE y > 0) SELECT x FROM n ORDER BY x";
    for way in ways() {
        let found = answer(statement, &Tables::default(), &way, 5).unwrap();
        assert_eq!(lines(&found), ["1", "2", "3", "4", "5", "6"]);
    }
}

#[test]
fn a_recursive_query_in_brackets_is_one() {
    let statement = "WITH RECURSIVE n(x) AS ((SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 3)) \
                     SELECT x FROM n ORDER BY x";
    for way in ways() {
        assert_eq!(lines(&answer(statement, &Tables::default(), &way, 5).unwrap()), ["1", "2", "3"]);
    }
}

#[test]
fn clauses_that_are_not_supported_are_refused_in_recursive_queries_too() {
    for query in ["SELECT 1 UNION SELECT x FROM r FOR UPDATE", "(SELECT 1 UNION SELECT x FROM r FOR UPDATE)"] {
        let text = format!("WITH RECURSIVE r(x) AS ({query}) SELECT x FROM r");
        let planned = parse(&text, &StatementLimits::default())
            .and_then(|parsed| plan(&parsed, &Tables::default(), &PlanOptions::default(), &|| false).map(|_| ()));
        let error = planned.err().unwrap_or_else(|| panic!("{text} has no error"));
        assert!(matches!(error.kind, SqlErrorKind::Unsupported), "{text}: {error:?}");
        assert!(error.message.contains("FOR UPDATE"), "{text}: {}", error.message);
    }
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }
}

/// All ends of ways along edges from 0: the nodes, and for each number of steps up to `most` how many ways there are.
fn ways_of(edges: &[(i64, i64)], most: usize) -> (BTreeSet<i64>, Vec<(usize, i64)>) {
    let (mut found, mut open) = (BTreeSet::from([0]), vec![0]);
    while let Some(node) = open.pop() {
        for (_, to) in edges.iter().filter(|(from, _)| *from == node) {
            if found.insert(*to) {
                open.push(*to);
            }
        }
    }
    let (mut ends, mut all) = (vec![0], vec![(0, 0)]);
    for step in 1..=most {
        ends = ends.iter().flat_map(|end| edges.iter().filter(move |(from, _)| from == end).map(|e| e.1)).collect();
        all.extend(ends.iter().map(|&end| (step, end)));
    }
    all.sort_unstable();
    (found, all)
}

#[test]
fn reachability_in_random_graphs_is_that_of_plain_loops() {
    for seed in 0..60 {
        let mut chance = Chance(seed);
        let count = 1 + chance.below(25);
        let edges: Vec<(i64, i64)> =
            (0..chance.below(40)).map(|_| (chance.below(count) as i64, chance.below(count) as i64)).collect();
        let rows: Vec<Vec<Value>> = edges.iter().map(|(a, b)| vec![Value::BigInt(*a), Value::BigInt(*b)]).collect();
        let mut tables = Tables::default();
        tables.add("e", Arc::new(table(&[("a", SqlType::BigInt), ("b", SqlType::BigInt)], &rows, 4)));
        let (nodes, walks) = ways_of(&edges, 3);
        let expected: Vec<String> = nodes.iter().map(i64::to_string).collect();
        let each: Vec<String> = walks.iter().map(|(step, end)| format!("{step}|{end}")).collect();
        for (number, way) in ways().into_iter().enumerate() {
            let what = format!("seed {seed}, way {number}");
            let found = "WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT e.b FROM e JOIN r ON e.a = r.n) \
                         SELECT n FROM r ORDER BY n";
            assert_eq!(lines(&answer(found, &tables, &way, seed).expect(&what)), expected, "{what}");
            let steps = "WITH RECURSIVE r(s, n) AS (SELECT 0, 0 UNION ALL \
                         SELECT r.s + 1, e.b FROM r, e WHERE e.a = r.n AND r.s < 3) SELECT s, n FROM r ORDER BY s, n";
            assert_eq!(lines(&answer(steps, &tables, &way, seed).expect(&what)), each, "{what}");
        }
    }
}

#[test]
fn a_thousand_rounds_end() {
    let statement = "WITH RECURSIVE n(x) AS (SELECT 1 UNION SELECT x + 1 FROM n WHERE x < 20000) \
                     SELECT COUNT(*), MAX(x) FROM n";
    let found = answer(statement, &Tables::default(), &PlanOptions::default(), 3).unwrap();
    assert_eq!(lines(&found), ["20000|20000"]);
}

#[test]
fn wrong_uses_are_told_with_their_places() {
    let mut tables = Tables::default();
    tables.add("e", Arc::new(table(&[("a", SqlType::BigInt), ("b", SqlType::BigInt)], &[], 4)));
    for (text, column, message) in [
        ("WITH RECURSIVE r(x) AS (SELECT x FROM r) SELECT x FROM r", 39, "r reads itself here: a recursive query is"),
        (
            "WITH RECURSIVE r(x) AS (SELECT x FROM r UNION SELECT 1) SELECT x FROM r",
            39,
            "r reads itself here: a recursive query is a first one, UNION or UNION ALL, and one that reads it",
        ),
        (
            "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT a.x FROM r a, r b) SELECT x FROM r",
            61,
            "r is read a second time",
        ),
        (
            "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT MAX(x) FROM r) SELECT x FROM r",
            59,
            "r is read within an aggregate",
        ),
        (
            "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT x FROM r GROUP BY x) SELECT x FROM r",
            54,
            "r is read within DISTINCT or GROUP BY",
        ),
        (
            "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT e.a FROM e LEFT JOIN r ON e.a = r.x) SELECT x FROM r",
            68,
            "r is read within the side of an outer join whose rows may be missing",
        ),
        (
            "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT a FROM e WHERE a IN (SELECT x FROM r)) SELECT x FROM r",
            82,
            "r is read within a subquery of a condition",
        ),
        (
            "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT a FROM (SELECT x AS a FROM r LIMIT 1) q) SELECT x FROM r",
            74,
            "r is read within LIMIT",
        ),
        (
            "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT 1.5 FROM r) SELECT x FROM r",
            40,
            "column x is bigint in the first query, and double in the one that repeats",
        ),
        (
            "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT x, x FROM r) SELECT x FROM r",
            40,
            "both queries need equally many columns, and here are 1 and 2",
        ),
        (
            "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT x + 1 FROM r LIMIT 3) SELECT x FROM r",
            58,
            "r reads itself here, and has WITH, ORDER BY, LIMIT or FETCH: these belong to the query that reads r",
        ),
        (
            "WITH RECURSIVE r(x) AS (SELECT NULL UNION SELECT 'a' FROM r) SELECT x FROM r",
            43,
            "column x is NULL in the first query, and varchar in the one that repeats: cast the NULL",
        ),
    ] {
        let planned = parse(text, &StatementLimits::default())
            .and_then(|parsed| plan(&parsed, &tables, &PlanOptions::default(), &|| false).map(|_| ()));
        let error = planned.err().unwrap_or_else(|| panic!("{text} has no error"));
        assert!(error.message.starts_with(message), "{text}: {}", error.message);
        assert_eq!((error.place.line, error.place.column), (1, column), "{text}: {}", error.message);
        assert_eq!(error.kind, SqlErrorKind::Type, "{text}");
    }
}

/// The name and the rows of each operator of a statement, after a run.
fn done(statement: &str, tables: &Tables) -> Vec<(String, u64)> {
    let parsed = parse(statement, &StatementLimits::default()).unwrap();
    let plan = plan(&parsed, tables, &PlanOptions::default(), &|| false).unwrap();
    let (mut request, first) = SteppedRequest::start(plan.model(), plan.start());
    let mut queue = vec![first];
    while let Some(task) = queue.pop() {
        let begun = request.begin(task, Default::default());
        queue.extend(request.finish(begun, Default::default()));
    }
    let (outcome, boxes, grown) = request.settle_grown();
    outcome.unwrap_or_else(|error| panic!("{statement}: {error}"));
    let counts = RunCounts { boxes: &boxes, grown: &grown };
    plan.nodes().iter().map(|node| (node.name.clone(), node.done(counts).rows)).collect()
}

/// Operators of a step once had 0 rows.
#[test]
fn operators_of_a_step_tell_the_rows_of_all_its_rounds() {
    let rows = |found: &[(String, u64)], name: &str| -> Vec<u64> {
        found.iter().filter(|(of, _)| of == name).map(|(_, rows)| *rows).collect()
    };
    let found = done(
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 10) SELECT x FROM n",
        &Tables::default(),
    );
    assert_eq!(rows(&found, "recursive union all"), [10], "{found:?}");
    assert_eq!(rows(&found, "last round"), [10], "{found:?}");
    // The tenth row does not pass.
    assert_eq!(rows(&found, "filter"), [9], "{found:?}");

    // A circle of five nodes, and two recursions whose steps have boxes of the same names.
    let edges: Vec<Vec<Value>> = (0..5).map(|n| vec![Value::BigInt(n), Value::BigInt((n + 1) % 5)]).collect();
    let mut tables = Tables::default();
    tables.add("e", Arc::new(table(&[("a", SqlType::BigInt), ("b", SqlType::BigInt)], &edges, 4)));
    let found = done(
        "WITH RECURSIVE r(x) AS (SELECT 0 UNION SELECT b FROM r JOIN e ON a = x), \
         s(x) AS (SELECT 3 UNION SELECT b FROM s JOIN e ON a = x WHERE x < 4) \
         SELECT r.x, s.x FROM r, s",
        &tables,
    );
    // Each node once, and the edge back to the first one; from 3 to 4, which has no further step.
    let mut joins = rows(&found, "inner join");
    joins.sort_unstable();
    assert_eq!(joins, [1, 5], "{found:?}");
    let mut unions = rows(&found, "recursive union");
    unions.sort_unstable();
    assert_eq!(unions, [2, 5], "{found:?}");
}
