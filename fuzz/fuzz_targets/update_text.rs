//! Any bytes as an update of a tiny dataset: an error with a place, or a snapshot whose parts agree. Given up on when
//! it takes too long or too much.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use vicus::Runtime;
use vicus_rdf::Snapshot;
use vicus_service::{CallLimits, Dataset, Draft, ErrorKind, MemoryBudget, Service, SessionOptions, check_update};
use vicus_sparql::Moment;

static DATASET: LazyLock<Dataset> = LazyLock::new(|| {
    let text = br#"@prefix : <http://e/> . :a :p :b, 1, "x" . :b :p :a ; :q "x"@en, 2.5, true . _:c :q :a ."#;
    Dataset::new(Arc::new(Snapshot::of_turtle(text, None).unwrap()))
});

static SERVICE: LazyLock<Service> = LazyLock::new(|| {
    let runtime = Runtime::builder().threads(3).quiet().start();
    Service::new(runtime, MemoryBudget::new(256 << 20))
});

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = check_update(text, SERVICE.memory(), &SessionOptions::default()) {
        return assert!(!error.to_string().is_empty());
    }
    let limits = CallLimits { time: Some(Duration::from_millis(100)), ..CallLimits::default() };
    let options = SessionOptions { moment: Some(Moment::default()), limits, ..SessionOptions::default() };
    let mut draft = Draft::of(&DATASET);
    match SERVICE.update(text, &mut draft, options) {
        Ok(_) => draft.dataset().snapshot().assert_valid(),
        Err(error) => assert_ne!(error.kind(), ErrorKind::Internal, "{error}"),
    }
});
