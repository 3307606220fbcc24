//! Paths of any length, against what plain loops reach.

use crate::rows::{Chance, count_of, rows_of};
use std::fmt::Write as _;
use std::sync::Arc;
use vicus_rdf::Store;
use vicus_sparql::{Limits, Options, Plan, parse, plan};

fn store(text: &str) -> Arc<Store> {
    Arc::new(Store::of_ntriples(text.as_bytes()).expect("good N-Triples"))
}

fn planned(store: &Arc<Store>, text: &str, limits: Limits) -> Plan {
    let parsed = parse(&format!("PREFIX : <http://e/> {text}")).unwrap_or_else(|error| panic!("{error}"));
    plan(store, &parsed, &Options { limits, ..Options::default() }).expect("supported")
}

/// Rows of IRIs without what all begin with, sorted.
fn names(plan: &Plan) -> Vec<Vec<String>> {
    let name =
        |cell: &Option<oxrdf::Term>| cell.as_ref().expect("bound").to_string()[10..].trim_matches('>').to_owned();
    let mut rows: Vec<Vec<String>> = rows_of(plan, |_| 0).iter().map(|row| row.iter().map(name).collect()).collect();
    rows.sort_unstable();
    rows
}

/// The ends that were found were dropped when there were more than 2^20, while pairs of the same batch still stood for
/// places among them: on a cycle of 1,100 nodes this query panicked.
#[test]
fn all_pairs_of_a_large_cycle_are_found() {
    let nodes = 1100;
    let text = (0..nodes).fold(String::new(), |mut text, node| {
        writeln!(text, "<http://e/c{node}> <http://e/p> <http://e/c{}> .", (node + 1) % nodes).expect("a string");
        text
    });
    let store = store(&text);
    assert_eq!(count_of(&planned(&store, "SELECT ?a ?b { ?a :p+ ?b }", Limits::default())), nodes * nodes);
}

/// As above; and where the places were there again, but stood for other ends, rows were wrong: `s0 :p+ ?b` had an end
/// that is on the cycle.
#[test]
fn a_start_that_comes_again_has_its_own_ends_however_little_is_remembered() {
    let (nodes, seed) = (40, 5);
    let mut text = "<http://e/s0> <http://e/p> <http://e/e0> .\n".to_owned();
    for node in 0..nodes {
        writeln!(text, "<http://e/c{node:02}> <http://e/p> <http://e/c{:02}> .", (node + 1) % nodes).expect("a string");
    }
    let mut chance = Chance::new(seed);
    let mut expected = Vec::new();
    for row in 0..200 {
        let start = if chance.one_in(3) { "s0".to_owned() } else { format!("c{:02}", chance.below(nodes)) };
        writeln!(text, "<http://e/x{row}> <http://e/q> <http://e/{start}> .").expect("a string takes everything");
        if start == "s0" {
            expected.push(vec![format!("x{row}"), start, "e0".to_owned()]);
        } else {
            expected.extend((0..nodes).map(|end| vec![format!("x{row}"), start.clone(), format!("c{end:02}")]));
        }
    }
    expected.sort_unstable();
    let store = store(&text);
    for remembered_ends in [0, 1, 39, 40, 41, 100, 1000, 1 << 20] {
        for steps in [1, 7, 4096] {
            let limits = Limits { remembered_ends, steps, ..Limits::default() };
            let plan = planned(&store, "SELECT ?x ?a ?b { ?x :q ?a . ?a :p+ ?b }", limits);
            assert_eq!(names(&plan), expected, "seed {seed}, {limits:?}\n{}", plan.explain());
        }
    }
}
