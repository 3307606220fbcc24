//! Any bytes as N-Triples: the fast path and the chunking change nothing. What is loaded as a flow request in tiny
//! chunks is what the whole text gives, and what is rejected is rejected both ways.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vicus_flow::sequential;
use vicus_rdf::Snapshot;
use vicus_rdf::load::{Load, LoadOptions, LoadSource, Syntax};

fuzz_target!(|text: &[u8]| {
    let whole = Snapshot::of_ntriples(text);
    let source = LoadSource::new("fuzz", Syntax::NTriples, std::io::Cursor::new(text.to_vec()));
    let load = Load::new(vec![source], LoadOptions { workers: 2, chunk_bytes: 16, ..LoadOptions::default() });
    let ran = sequential::run(load.model(), Vec::new(), |_| 0);
    match whole {
        Ok(whole) => {
            ran.unwrap();
            let pieces = load.finish().unwrap().snapshot;
            pieces.assert_valid();
            assert_eq!(pieces.len(), whole.len());
            for order in whole.orders() {
                let (a, b) = (whole.index(order), pieces.index(order));
                assert!((0..whole.len()).all(|row| a.triple(row) == b.triple(row)));
            }
        }
        Err(error) => {
            assert!(error.line >= 1 && error.column >= 1);
            assert!(ran.is_err());
        }
    }
});
