//! Several requests at once on one store don't affect each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus::{FlowError, OverBudget, Request, Runtime};
use vicus_rdf::Store;
use vicus_sparql::{Moment, Options, parse, plan};

/// Submits a query; returns the request and a counter of its rows.
fn submit(runtime: &Runtime, store: &Arc<Store>, text: &str, budget: u64) -> (Request, Arc<AtomicUsize>) {
    let options = Options { threads: 2, parallel_rows: 100, ..Options::default() };
    let plan = plan(store, &parse(text).expect("good SPARQL"), &options).expect("supported");
    let rows = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&rows);
    let sink = plan.sink_operator(move |envelope| {
        counted.fetch_add(envelope.rows(), Ordering::Relaxed);
        Ok(())
    });
    (runtime.submit_within(plan.model(), plan.start(Moment::default()).operators([(plan.sink(), sink)]), budget), rows)
}

#[test]
fn a_request_that_fails_or_is_cancelled_leaves_the_others_and_the_store_as_they_are() {
    let text: String = (0..3000).map(|n| format!("<http://e/{}> <http://e/p> \"{n}\" .\n", n % 500)).collect();
    let store = Arc::new(Store::of_ntriples(text.as_bytes()).expect("good N-Triples"));
    let runtime = Runtime::builder().threads(2).start();
    let greedy = "SELECT DISTINCT * { ?a ?b ?c . ?d ?e ?f }";
    let endless = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }";
    let modest = "SELECT ?a (COUNT(?c) AS ?n) { ?a ?b ?c } GROUP BY ?a ORDER BY ?n";
    for _ in 0..5 {
        let (failing, _) = submit(&runtime, &store, greedy, 1 << 20);
        let (cancelled, _) = submit(&runtime, &store, endless, u64::MAX);
        let good: Vec<_> = (0..4).map(|_| submit(&runtime, &store, modest, 1 << 20)).collect();
        for (request, rows) in good {
            request.wait().expect("it is within its budget");
            assert_eq!(rows.load(Ordering::Relaxed), 500);
        }
        match failing.wait() {
            Err(FlowError::Failed { error, .. }) => assert!(error.is::<OverBudget>(), "{error}"),
            other => panic!("more than its budget was needed: {:?}", other.map(drop)),
        }
        cancelled.cancel();
        assert!(matches!(cancelled.wait(), Err(FlowError::Cancelled)));
    }
}
