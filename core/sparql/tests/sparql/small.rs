//! A small graph and another engine's answers: `../data/people.expected` names the engine.

use crate::rows::{Row, rows_of};
use std::sync::Arc;
use vicus_rdf::Snapshot;
use vicus_sparql::{Form, PlanOptions, parse, plan};

const DATA: &str = include_str!("../data/people.ttl");
const EXPECTED: &str = include_str!("../data/people.expected");
const PREFIXES: &str = "PREFIX : <http://example.org/>\nPREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n";

fn line(row: &Row) -> String {
    let cell = |term: &Option<oxrdf::Term>| term.as_ref().map_or("-".to_owned(), ToString::to_string);
    format!("  {}", row.iter().map(cell).collect::<Vec<_>>().join(" "))
}

#[test]
fn a_small_graph_gives_the_rows_that_another_engine_found() {
    let snapshot = Arc::new(Snapshot::of_turtle(DATA.as_bytes(), None).expect("good Turtle"));
    let mut lines = EXPECTED.lines().skip(1).peekable();
    let mut count = 0;
    while let (Some(name), Some(query)) = (lines.next(), lines.next()) {
        let mut expected = Vec::new();
        while let Some(row) = lines.next_if(|line| line.starts_with("  ")) {
            expected.push(row.to_owned());
        }
        let parsed = parse(&format!("{PREFIXES}{query}")).unwrap_or_else(|error| panic!("{query}: {error}"));
        for optimise in [true, false] {
            let options = PlanOptions { optimise, envelope_rows: 3, ..PlanOptions::default() };
            let plan = plan(&snapshot, &parsed, options).expect("supported");
            let rows = rows_of(&plan, |_| 0);
            let mut found: Vec<String> = match plan.form() {
                Form::Ask => vec![if rows.is_empty() { "  no" } else { "  yes" }.to_owned()],
                Form::Select { .. } | Form::Construct | Form::Describe => rows.iter().map(line).collect(),
            };
            found.sort();
            assert_eq!(found, expected, "{name}\n{query}\n{}", plan.explain());
        }
        count += 1;
    }
    assert_eq!(count, 21, "the file was read to its end");
}
