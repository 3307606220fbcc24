//! Joins whose work grows in proportion to their rows. If it grew with the square, these tests would take many minutes.

use crate::rows::count_of;
use std::fmt::Write as _;
use std::sync::Arc;
use vicus_rdf::Snapshot;
use vicus_sparql::{PlanOptions, parse, plan};

const ROWS: usize = 150_000;

#[track_caller]
fn assert_rows(snapshot: &Arc<Snapshot>, text: &str, rows: usize) {
    let parsed = parse(&format!("PREFIX : <http://e/> {text}")).unwrap_or_else(|error| panic!("{error}"));
    for (optimise, threads) in [(true, 1), (true, 3), (false, 1)] {
        let options = PlanOptions { optimise, threads, ..PlanOptions::default() };
        let plan = plan(snapshot, &parsed, options).expect("supported");
        assert_eq!(count_of(&plan), rows, "{options:?}\n{}", plan.explain());
    }
}

/// Two sides of `ROWS` rows with equal values of ?k and ?l; on each side 20 more rows with ?k only, and 20 with ?l
/// only.
fn two_sides() -> Arc<Snapshot> {
    let mut text = String::new();
    for side in ["left", "right"] {
        for row in 0..ROWS {
            let mut one = |name: &str, keys: &[&str]| {
                writeln!(text, "<http://e/{side}{name}{row}> <http://e/{side}> \"\" .").unwrap();
                for key in keys {
                    writeln!(text, "<http://e/{side}{name}{row}> <http://e/{key}> <http://e/{key}{row}> .").unwrap();
                }
            };
            one("kl", &["k", "l"]);
            if row < 20 {
                one("k", &["k"]);
                one("l", &["l"]);
            }
        }
    }
    Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples"))
}

#[test]
fn rows_with_unbound_keys_meet_only_their_partners() {
    let snapshot = two_sides();
    let side = |name: &str, side: &str| {
        format!("?{name} :{side} ?{name}x OPTIONAL {{ ?{name} :k ?k }} OPTIONAL {{ ?{name} :l ?l }}")
    };
    let (left, right) = (side("a", "left"), side("b", "right"));
    // Two whole rows with the same number; a whole row with a row of ?k or ?l, both ways; rows of the same variable;
    // and each ?k with each ?l, both ways.
    let pairs = ROWS + 2 * (20 + 20) + (20 + 20) + 2 * 20 * 20;
    assert_rows(&snapshot, &format!("SELECT ?a ?b {{ {left} {{ {right} }} }}"), pairs);
    assert_rows(&snapshot, &format!("SELECT ?a ?b {{ {left} OPTIONAL {{ {right} }} }}"), pairs);
    assert_rows(&snapshot, &format!("SELECT DISTINCT ?a {{ {left} {{ {right} }} }}"), ROWS + 40);
    // Every left row has a partner: beyond the twentieth, a whole one.
    assert_rows(&snapshot, &format!("SELECT ?a {{ {left} MINUS {{ {right} }} }}"), 0);
    let parts = "?b :right ?bx OPTIONAL { ?b :k ?k } OPTIONAL { ?b :l ?l } FILTER (!bound(?l) || !bound(?k))";
    assert_rows(&snapshot, &format!("SELECT ?a {{ {left} MINUS {{ {parts} }} }}"), ROWS - 20);
}

#[test]
fn moments_in_two_zones_are_joined_by_their_place_on_the_time_line() {
    let mut text = String::new();
    let rows = 60_000;
    for row in 0..rows {
        let (minute, second) = (row / 60 % 60, row % 60);
        let (day, hour) = (1 + row / 60 / 60 / 24, row / 60 / 60 % 24);
        let datatype = "http://www.w3.org/2001/XMLSchema#dateTime";
        writeln!(
            text,
            "<http://e/a{row}> <http://e/at> \"2020-03-0{day}T{hour:02}:{minute:02}:{second:02}Z\"^^<{datatype}> .\n\
             <http://e/b{row}> <http://e/when> \
             \"2020-03-0{day}T{hour:02}:{minute:02}:{second:02}.0+00:00\"^^<{datatype}> ."
        )
        .unwrap();
    }
    let snapshot = Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples"));
    let options = PlanOptions::default();
    let query = parse("PREFIX : <http://e/> SELECT ?a ?b { ?a :at ?t . ?b :when ?u FILTER (?t = ?u) }").unwrap();
    let plan = plan(&snapshot, &query, options).expect("supported");
    assert_eq!(count_of(&plan), rows, "{}", plan.explain());
}
