//! Planning stops wherever it is when it is told to.

use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::Arc;
use vicus_rdf::Snapshot;
use vicus_sparql::{PlanOptions, QueryErrorKind, Watch, parse, plan_until};

fn snapshot() -> Arc<Snapshot> {
    Arc::new(Snapshot::of_ntriples(b"<http://e/ann> <http://e/knows> <http://e/bob> .").expect("good N-Triples"))
}

/// Plans a query and stops it at the look of this number; returns whether it was stopped, and how often planning
/// looked.
fn stopped_at(last: u64, snapshot: &Arc<Snapshot>, text: &str) -> (bool, u64) {
    let parsed = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let looks = Cell::new(0);
    let stopped = || {
        looks.set(looks.get() + 1);
        looks.get() == last
    };
    match plan_until(snapshot, &parsed, PlanOptions::default(), &stopped) {
        Ok(_) => (false, looks.get()),
        Err(error) => {
            assert_eq!(error.kind, QueryErrorKind::Stopped);
            (true, looks.get())
        }
    }
}

const MANY: usize = 2000;

/// Texts with many of one construct.
fn texts() -> [String; 4] {
    let many = |before: &str, one: &dyn Fn(usize) -> String, after: &str| {
        (0..MANY).fold(before.to_owned(), |mut text, number| {
            write!(text, "{}", one(number)).expect("a string takes everything");
            text
        }) + after
    };
    [
        many("SELECT * { VALUES ?x { ", &|number| format!("\"{number}\" "), "} ?s ?p ?x }"),
        many("ASK { ?s ?p ?o FILTER (?o IN (0", &|number| format!(", \"{number}\""), ")) }"),
        many("ASK { ", &|number| format!("?s ?p <http://e/{number}> . "), "}"),
        many("ASK { ", &|number| format!("?s{} ?p{} ?o . ", number / 90, number % 90), "}"),
    ]
}

#[test]
fn planning_looks_for_each_term_and_operator_whether_it_is_stopped() {
    for text in texts() {
        let (stopped, looks) = stopped_at(0, &snapshot(), &text);
        assert!(!stopped && looks >= MANY as u64, "{looks} looks: {}", &text[..60]);
    }
    // Two operators are planned and rewritten, however few terms there are.
    let unions = format!("SELECT * {{ {{ ?a ?b ?c }} {} }}", "UNION { ?a ?b ?c } ".repeat(500));
    assert!(stopped_at(0, &snapshot(), &unions).1 >= 500);
}

#[test]
fn planning_stops_at_whatever_look_it_is_told_and_looks_no_more() {
    let snapshot = snapshot();
    let text = "SELECT ?a (COUNT(*) AS ?n) { VALUES ?a { <http://e/ann> <http://e/eve> } \
                { ?a ?p ?b } UNION { ?b ?p ?a } OPTIONAL { ?b <http://e/knows>+ ?c } \
                FILTER (?a != ?c || NOT EXISTS { ?c ?q ?d }) } GROUP BY ?a ORDER BY ?n LIMIT 3";
    let (stopped, all) = stopped_at(0, &snapshot, text);
    assert!(!stopped && all > 20, "{all} looks");
    for last in 1..=all {
        assert_eq!(stopped_at(last, &snapshot, text), (true, last), "of {all} looks");
    }
    for text in texts() {
        for last in [1, MANY as u64 / 2, stopped_at(0, &snapshot, &text).1] {
            assert_eq!(stopped_at(last, &snapshot, &text), (true, last), "{}", &text[..60]);
        }
    }
    // The store answers as before.
    assert!(!stopped_at(0, &snapshot, text).0);
}

/// Grants this many bytes, and notes the requests.
struct Grants {
    most: u64,
    asked: Cell<u64>,
}

impl Watch for Grants {
    fn ends(&self) -> bool {
        false
    }

    fn grant(&self, bytes: u64) -> bool {
        assert!(bytes > self.asked.replace(bytes), "asked for more than before");
        bytes <= self.most
    }
}

/// What happened: planning was told its limit once, so the memory of several requests planned at once was nowhere
/// bounded.
#[test]
fn planning_holds_what_it_is_granted_and_no_more() {
    let text = &texts()[3];
    let parsed = parse(text).expect("good SPARQL");
    let plan = |most: u64| {
        let watch = Grants { most, asked: Cell::new(0) };
        let planned = plan_until(&snapshot(), &parsed, PlanOptions::default(), &watch);
        (planned.map(|plan| plan.planning_bytes()).map_err(|error| error.kind), watch.asked.get())
    };
    let (held, asked) = plan(u64::MAX);
    assert!(held.as_ref().is_ok_and(|held| (1 << 18..=asked).contains(held)), "{held:?} of {asked}");
    assert_eq!(plan(asked), (held, asked));
    for most in [0, asked / 2, asked - 1] {
        let (refused, asked) = plan(most);
        assert!(matches!(refused, Err(QueryErrorKind::TooManyBytes { needed }) if needed > most), "{refused:?}");
        assert!(asked > most);
    }
}
