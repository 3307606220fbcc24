//! Calls to a service: their shared state, their ends, and the sinks of their answers.

mod archives;
mod calls;
mod datasets;
mod graphs;
mod languages;
mod memory;
mod merger;
mod networks;
mod peers;
mod peers_of_sql;
mod sinks;
mod sp2b;
mod spilling;
mod sql;
mod streams;
mod updates;
mod web;
mod written;

use std::sync::Arc;
use vicus::{Runtime, Setting};
use vicus_rdf::Snapshot;
use vicus_service::{Dataset, MemoryBudget, PlanOptions, Service, SessionOptions, language};

/// Has more solutions than anything can take.
const ENDLESS: &str = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }";
/// Holds nine million rows.
const GREEDY: &str = "SELECT DISTINCT * { ?a ?b ?c . ?d ?e ?f }";
/// Has 500 solutions.
const MODEST: &str = "SELECT ?a (COUNT(?c) AS ?n) { ?a ?b ?c } GROUP BY ?a ORDER BY ?n";

/// 3,000 triples with 500 subjects.
fn dataset() -> Dataset {
    let text: String = (0..3000).map(|n| format!("<http://e/{}> <http://e/p> \"{n}\" .\n", n % 500)).collect();
    Dataset::new(Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples")))
}

fn service(strategy: &str, bytes: u64) -> Service {
    let strategy: Setting = strategy.parse().expect("the strategy exists");
    let runtime = Runtime::builder().strategy(strategy).threads(3).quiet().start();
    Service::new(runtime, MemoryBudget::new(bytes))
}

/// Options that share the work among several boxes even for few rows.
fn shared() -> SessionOptions {
    let plan = PlanOptions { parallel_rows: 100, ..PlanOptions::default() };
    SessionOptions { plan, parallel_answers: true, ..SessionOptions::default() }
}

/// Options for statements of SQL.
fn of_sql() -> SessionOptions {
    SessionOptions { language: language("sql").expect("it is a language"), ..SessionOptions::default() }
}

/// Runs a test of a promise that holds under each strategy.
fn under_all_strategies(test: impl Fn(&str)) {
    for strategy in vicus::STRATEGIES {
        test(strategy.name());
    }
}
