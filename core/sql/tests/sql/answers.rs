//! The statements of `data/answers.txt` have the answers written there: those of DuckDB, collected by
//! `data/expected.py`.

use crate::run::{answer, lines, people, ways};
use std::sync::Arc;
use vicus_sql::{MemoryTable, SqlType, TableColumn};

/// The statements, each with the rows of its answer.
fn statements() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in include_str!("../data/answers.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (line.strip_prefix("> "), all.last_mut()) {
            (Some(statement), _) => all.push((statement, Vec::new())),
            (None, Some((_, rows))) => rows.push(line),
            (None, None) => panic!("{line}: a statement comes first"),
        }
    }
    all
}

/// Whether two values are the same: numbers may differ in their last bits, and in whether they are written with a
/// point.
fn is_same(a: &str, b: &str) -> bool {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(x), Ok(y)) => a == b || (x - y).abs() <= 1e-9 * x.abs().max(y.abs()),
        _ => a == b,
    }
}

#[test]
fn statements_have_the_answers_of_duckdb() {
    let (tables, statements) = (people(), statements());
    assert!(statements.len() > 120, "{}", statements.len());
    let mut wrong = Vec::new();
    for (statement, expected) in &statements {
        for (number, way) in ways().into_iter().enumerate() {
            // As written, these joins are products of all their tables.
            if !way.optimise && statement.contains("lineitem") {
                continue;
            }
            let found = match answer(statement, &tables, &way, number as u64) {
                Ok(rows) => rows,
                Err(error) => {
                    wrong.push(format!("{statement}\nway {number}: {error}"));
                    break;
                }
            };
            let (mut found, mut expected) =
                (lines(&found), expected.iter().map(|line| line.to_string()).collect::<Vec<_>>());
            if !statement.contains("ORDER BY") {
                found.sort();
                expected.sort();
            }
            let same_row = |(a, b): (&String, &String)| {
                a.split('|').count() == b.split('|').count()
                    && a.split('|').zip(b.split('|')).all(|(a, b)| is_same(a, b))
            };
            if found.len() != expected.len() || !found.iter().zip(&expected).all(same_row) {
                wrong.push(format!("{statement}\nway {number}: {found:#?}\nDuckDB: {expected:#?}"));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), statements.len(), wrong.join("\n\n"));
}

/// DuckDB has no sum of spans; PostgreSQL adds them, here 01:30:00, 00:00:10.5, 26:00:00 and 01:30:00.
#[test]
fn spans_are_summed() {
    let tables = people();
    for (number, way) in ways().into_iter().enumerate() {
        let of = |statement: &str| lines(&answer(statement, &tables, &way, number as u64).unwrap());
        assert_eq!(of("SELECT SUM(takes), SUM(DISTINCT takes) FROM wares"), ["29:00:10.5|27:30:10.5"]);
        assert_eq!(of("SELECT SUM(takes) FROM wares WHERE id = 3"), ["NULL"]);
    }
}

#[test]
fn tables_and_their_columns_are_shown() {
    let mut tables = people();
    let closed = TableColumn::unreadable("parts", "it is a list");
    tables.add("Zoo", Arc::new(MemoryTable::new([TableColumn::new("n", SqlType::BigInt), closed], [])));
    let shown = |statement: &str| lines(&answer(statement, &tables, &ways()[0], 0).unwrap());
    let names = shown("SHOW TABLES");
    assert_eq!(names[0], "Zoo", "{names:?}");
    assert!(names.contains(&"people".to_owned()) && names.is_sorted(), "{names:?}");
    assert_eq!(shown("show tables;"), names);
    let columns = ["n|bigint|NULL", "parts|NULL|it is a list"];
    for statement in ["DESCRIBE Zoo", "desc \"Zoo\";", "describe zoo"] {
        assert_eq!(shown(statement), columns, "{statement}");
    }
    let error = answer("DESCRIBE zo", &tables, &ways()[0], 0).unwrap_err();
    assert!(error.to_string().contains("line 1, column 10: there is no table zo; did you mean Zoo?"), "{error}");
}
