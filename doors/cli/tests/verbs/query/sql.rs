//! `vicus sql`, and `vicus query --language sql`.

use super::*;

/// What happened: SQL asked for `--data`, and a table of its answer had
/// `"1"^^<http://www.w3.org/2001/XMLSchema#integer>`.
#[test]
fn sql_needs_no_data_and_shows_plain_values() {
    for verb in [&["sql"][..], &["query", "--language", "sql"]] {
        let statement =
            "SELECT 1 AS n, 2.5 AS x, 'a, b' AS t, DATE '2024-02-29' AS d, NULL AS nothing, 'two\nlines' AS l";
        let output = run(&[verb, &[statement]].concat());
        let text = stdout(&output);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(lines[0][..4], ["n", "x", "t", "d"], "{text}");
        assert_eq!(lines[2], ["1", "2.5", "a, b", "2024-02-29", "two\\nlines"], "{text}");
        assert!(!text.contains("^^") && lines.len() == 3, "{text}");
    }
}

#[test]
fn sql_reads_files_that_from_names_and_types_that_are_given() {
    let people = file("sql-people.csv", "name,zip,age\nAda,0870,36\nGrace,1234,85\n");
    let path = people.as_str();
    let csv = |args: &[&str]| stdout(&run(&[&["sql", "--format", "csv"], args].concat()));
    assert_eq!(csv(&[&format!("SELECT name, zip FROM '{path}' WHERE age > 40")]), "name,zip\r\nGrace,1234\r\n");
    assert_eq!(
        csv(&[&format!("SELECT MAX(p.age) AS m FROM '{path}' AS p JOIN '{path}' AS q ON p.zip = q.zip")]),
        "m\r\n85\r\n"
    );
    let table = format!("people={path}");
    let types = csv(&["--table", &table, "--table-types"]);
    assert_eq!(types, "people=name:varchar,zip:varchar,age:bigint\n");
    let given =
        csv(&["--table", &table, "--table-types=people=age:varchar", "SELECT MAX(age || '!') AS x FROM people"]);
    assert_eq!(given, "x\r\n85!\r\n");
    fails(&["sql", "SELECT * FROM 'no-such.csv'"], &["table no-such.csv", "no-such.csv can't be read"]);
    fails(
        &["sql", "--table", &table, "--table-types=people=agee:bigint", "SELECT 1"],
        &["no column agee", "name, zip, age"],
    );
    fails(&["sql", "--table-types=people=age:bigint", "SELECT 1"], &["no table of this name"]);
    let wrong = run(&["sql", "--table", &table, "--table-types=people=age:number", "SELECT 1"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("number is no type: boolean, bigint"), "{}", stderr(&wrong));
    let forced = run(&["sql", "--table", &table, "--table-types=people=name:bigint", "SELECT SUM(name) FROM people"]);
    assert!(stderr(&forced).contains("line 2, column name: 'Ada' is no bigint"), "{}", stderr(&forced));
}

#[test]
fn sparql_still_asks_for_data() {
    let output = run(&["query", "SELECT (1 AS ?x) {}"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--data <FILE>"), "{}", stderr(&output));
}
