//! Any bytes as a query to a service: an error with a place, or an answer that depends neither on the optimiser nor on
//! how many boxes share the work. Over a tiny graph, and given up on when it takes too long or too much.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use vicus::Runtime;
use vicus_rdf::Snapshot;
use vicus_service::{
    CallLimits, Dataset, ErrorKind, Format, MemoryBudget, Moment, PlanOptions, Service, Session, SessionOptions, check,
};

static DATASET: LazyLock<Dataset> = LazyLock::new(|| {
    let text = br#"@prefix : <http://e/> . :a :p :b, 1, "x" . :b :p :a ; :q "x"@en, 2.5, true . _:c :q :a ."#;
    Dataset::new(Arc::new(Snapshot::of_turtle(text, None).unwrap()))
});

static SERVICE: LazyLock<Service> = LazyLock::new(|| {
    let runtime = Runtime::builder().threads(3).quiet().start();
    Service::new(runtime, MemoryBudget::new(256 << 20))
});

fn options(plan: PlanOptions) -> SessionOptions {
    let limits = CallLimits { time: Some(Duration::from_millis(100)), ..CallLimits::default() };
    SessionOptions { plan, moment: Some(Moment::default()), limits, ..SessionOptions::default() }
}

/// Everything is shared, and every table split.
static SHARED: LazyLock<Session> = LazyLock::new(|| {
    let mut options = options(PlanOptions { parallel_rows: 0, envelope_rows: 2, ..PlanOptions::default() });
    options.parallel_answers = true;
    options.languages.sparql.cache_bytes = 0;
    SERVICE.session(&DATASET, options)
});

/// As it is written.
static PLAIN: LazyLock<Session> = LazyLock::new(|| {
    SERVICE.session(&DATASET, options(PlanOptions { optimise: false, envelope_rows: 64, ..PlanOptions::default() }))
});

/// The rows as text, in order of text; `None` if it took too long or failed.
fn answer(session: &Session, text: &str) -> Option<Vec<String>> {
    let written = session.write(text, Format::Tsv, Vec::new());
    assert!(SERVICE.memory().most_taken() <= SERVICE.memory().total());
    match written {
        Ok((tsv, _)) => {
            let tsv = String::from_utf8(tsv).expect("TSV is text");
            let mut rows: Vec<String> = tsv.lines().map(str::to_owned).collect();
            rows.sort();
            Some(rows)
        }
        Err(error) => {
            assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
            None
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match check(text, SERVICE.memory(), &SessionOptions::default()) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(_) => {
            let upper = text.to_uppercase();
            let has = |words: &[&str]| words.iter().any(|word| upper.contains(word));
            // Chance, and what the order of rows decides where none was asked for: answers, but not always the same.
            let is_free = has(&["RAND", "UUID", "BNODE", "SAMPLE", "GROUP_CONCAT"]);
            if let (Some(with), Some(without), false) = (answer(&SHARED, text), answer(&PLAIN, text), is_free) {
                assert_eq!(with.len(), without.len(), "{text}");
                // Without a total order other rows may be chosen; then only their number is the query's.
                if !has(&["LIMIT", "OFFSET", "REDUCED"]) {
                    assert_eq!(with, without, "{text}");
                }
            }
        }
    }
});
