//! Any bytes as a query: an error with a place, or an answer that depends neither on the optimiser nor on how many boxes
//! share the work. Over a tiny graph, and given up on when it takes too many steps.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock, Mutex};
use vicus_flow::sequential;
use vicus_rdf::{Id, Store};
use vicus_sparql::{Form, Moment, Options, parse, plan};

static STORE: LazyLock<Arc<Store>> = LazyLock::new(|| {
    let text = br#"@prefix : <http://e/> . :a :p :b, 1, "x" . :b :p :a ; :q "x"@en, 2.5, true . _:c :q :a ."#;
    Arc::new(Store::of_turtle(text, None).unwrap())
});

/// The rows as text, in order of text; `None` if it took too long or failed.
fn answer(text: &str, optimise: bool) -> Option<Vec<String>> {
    const STEPS: usize = 3000;
    let parsed = parse(text).ok()?;
    let mut options = Options { optimise, envelope_rows: 64, ..Options::default() };
    if optimise {
        // Everything is shared, and every table split.
        options = Options { threads: 3, parallel_rows: 0, cache_bytes: 0, envelope_rows: 2, ..options };
    }
    let plan = Arc::new(plan(&STORE, &parsed, &options).ok()?);
    let rows = Arc::new(Mutex::new(Vec::new()));
    let run = plan.start(Moment::default());
    let (decode, into) = (run.clone(), Arc::clone(&rows));
    let sink = plan.sink_operator(move |envelope| {
        for row in 0..envelope.rows() {
            let show = |bits: u64| match Id::from_bits(bits) {
                Id::UNBOUND => String::new(),
                id => decode.term(id).to_string(),
            };
            let cells: Vec<String> = envelope.columns().iter().map(|column| show(column.u64s()[row])).collect();
            into.lock().unwrap().push(cells.join("\t"));
        }
        Ok(())
    });
    let mut steps = 0;
    let ended = sequential::run_while(plan.model(), run.operators([(plan.sink(), sink)]), |_| {
        steps += 1;
        (steps < STEPS).then_some(0)
    });
    if let Err(error) = ended {
        assert!(!error.to_string().contains("panicked"), "{error}");
        return None;
    }
    let mut rows = std::mem::take(&mut *rows.lock().unwrap());
    rows.sort();
    if matches!(plan.form(), Form::Ask) {
        rows.truncate(1);
    }
    Some(rows)
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match parse(text) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(_) => {
            let upper = text.to_uppercase();
            let has = |words: &[&str]| words.iter().any(|word| upper.contains(word));
            // Chance, and what the order of rows decides where none was asked for: answers, but not always the same.
            let is_free = has(&["RAND", "UUID", "BNODE", "SAMPLE", "GROUP_CONCAT"]);
            if let (Some(with), Some(without), false) = (answer(text, true), answer(text, false), is_free) {
                assert_eq!(with.len(), without.len(), "{text}");
                // Without a total order other rows may be chosen; then only their number is the query's.
                if !has(&["LIMIT", "OFFSET", "REDUCED"]) {
                    assert_eq!(with, without, "{text}");
                }
            }
        }
    }
});
