//! Any bytes as Turtle: an error with a place, or a store that is valid; never a panic, and skipping never fails.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vicus_rdf::{Loader, OnError, Snapshot};

fuzz_target!(|text: &[u8]| {
    match Snapshot::of_turtle(text, Some("http://example.org/")) {
        Ok(snapshot) => snapshot.assert_valid(),
        Err(error) => assert!(error.line >= 1 && !error.to_string().is_empty()),
    }
    let mut loader = Loader::new(OnError::Skip);
    // A hundred errors on one line are given up on, which is an answer too.
    if loader.turtle(text, Some("http://example.org/")).is_ok() {
        loader.finish().assert_valid();
    }
});
