//! Paths of any length, compared with what plain loops reach.

use crate::rows::{Chance, count_of, rows_of};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use vicus_rdf::Snapshot;
use vicus_sparql::{QueryLimits, QueryOptions, SparqlPlan, parse, plan};

fn snapshot(text: &str) -> Arc<Snapshot> {
    Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples"))
}

fn planned(snapshot: &Arc<Snapshot>, text: &str, limits: QueryLimits) -> SparqlPlan {
    let parsed = parse(&format!("PREFIX : <http://e/> {text}")).unwrap_or_else(|error| panic!("{error}"));
    plan(snapshot, &parsed, QueryOptions { limits, ..QueryOptions::default() }).expect("supported")
}

/// Rows of IRIs without their common prefix, sorted.
fn names(plan: &SparqlPlan) -> Vec<Vec<String>> {
    let name =
        |cell: &Option<oxrdf::Term>| cell.as_ref().expect("bound").to_string()[10..].trim_matches('>').to_owned();
    let mut rows: Vec<Vec<String>> = rows_of(plan, |_| 0).iter().map(|row| row.iter().map(name).collect()).collect();
    rows.sort_unstable();
    rows
}

/// What happened: the ends that were found were dropped when there were more than 2^20, while pairs of the same batch
/// still held indexes into them. On a cycle of 1,100 nodes this query panicked.
#[test]
fn all_pairs_of_a_large_cycle_are_found() {
    let nodes = 1100;
    let text = (0..nodes).fold(String::new(), |mut text, node| {
        writeln!(text, "<http://e/c{node}> <http://e/p> <http://e/c{}> .", (node + 1) % nodes).expect("a string");
        text
    });
    let snapshot = snapshot(&text);
    assert_eq!(count_of(&planned(&snapshot, "SELECT ?a ?b { ?a :p+ ?b }", QueryLimits::default())), nodes * nodes);
}

/// As above, but the indexes were in use again for other ends, so that rows were wrong: `s0 :p+ ?b` had an end on the
/// cycle.
#[test]
fn a_repeated_start_has_its_own_ends_with_any_cache_size() {
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
    let snapshot = snapshot(&text);
    for remembered_ends in [0, 1, 39, 40, 41, 100, 1000, 1 << 20] {
        for steps in [1, 7, 4096] {
            let limits = QueryLimits { remembered_ends, steps, ..QueryLimits::default() };
            let plan = planned(&snapshot, "SELECT ?x ?a ?b { ?x :q ?a . ?a :p+ ?b }", limits);
            assert_eq!(names(&plan), expected, "seed {seed}, {limits:?}\n{}", plan.explain());
        }
    }
}

/// What happened: the walk started at every node of the graph, though only nine triples have the predicate: 427 ms
/// instead of 2.
#[test]
fn a_path_between_variables_begins_where_its_first_step_can() {
    let mut text = String::new();
    for number in 0..3000 {
        writeln!(text, "<http://e/n{number}> <http://e/other> <http://e/n{}> .", number + 1).expect("a string");
    }
    let mut edges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (from, to) in [(1, 2), (2, 3), (3, 1), (7, 8), (8, 9), (20, 21), (21, 22), (22, 3), (50, 7)] {
        writeln!(text, "<http://e/n{from}> <http://e/p> <http://e/n{to}> .").expect("a string takes everything");
        edges.entry(format!("n{from}")).or_default().push(format!("n{to}"));
    }
    let mut pairs: BTreeSet<(String, String)> = BTreeSet::new();
    for from in edges.keys() {
        let mut open = vec![from.clone()];
        while let Some(at) = open.pop() {
            for to in edges.get(&at).into_iter().flatten() {
                if pairs.insert((from.clone(), to.clone())) {
                    open.push(to.clone());
                }
            }
        }
    }
    let rows = |pairs: &BTreeSet<(String, String)>| -> Vec<Vec<String>> {
        pairs.iter().map(|(a, b)| vec![a.clone(), b.clone()]).collect()
    };
    let mut staying = pairs.clone();
    staying.extend((0..=3000).map(|number| (format!("n{number}"), format!("n{number}"))));
    let snapshot = snapshot(&text);
    for (path, expected) in [
        ("?a :p+ ?b", rows(&pairs)),
        ("?b ^:p+ ?a", rows(&pairs)),
        ("?b (^:p)+ ?a", rows(&pairs)),
        ("?a (:p|:p)+ ?b", rows(&pairs)),
        ("?a :p* ?b", rows(&staying)),
        ("?b ^(:p*) ?a", rows(&staying)),
        ("?a (:p?)+ ?b", rows(&staying)),
    ] {
        let plan = planned(&snapshot, &format!("SELECT ?a ?b {{ {path} }}"), QueryLimits::default());
        let explained = plan.explain();
        assert_eq!(names(&plan), expected, "{explained}");
        let estimate = |line: &str| -> f64 {
            let from = line.find('~').expect("a number of rows") + 1;
            line[from..].split(' ').next().expect("a number").parse().expect("a number")
        };
        let thought = estimate(explained.lines().next().expect("a line"));
        assert!((0.2..5.0).contains(&(thought / expected.len() as f64)), "{thought} and not {}", expected.len());
        // The starts come from the predicate's index.
        let walked = explained.lines().skip_while(|line| !line.contains("walk ")).nth(1).expect("its input");
        assert!(!walked.contains("all nodes") && estimate(walked) < 20.0, "{explained}");
    }
    // With the rest of a group that has many rows.
    let plan = planned(&snapshot, "SELECT ?a ?b { ?a :other ?o . ?a :p+ ?b }", QueryLimits::default());
    assert!(plan.explain().contains("index join Gpso ?a"), "{}", plan.explain());
    assert_eq!(names(&plan), rows(&pairs));
}
