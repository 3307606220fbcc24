//! Arbitrary bytes as the syntaxes that crates of others parse: an answer or an error, never a panic, and the same
//! whether errors are skipped or end the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vicus_rdf::load::Syntax;
use vicus_rdf::{Loader, OnError};

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, text)) = bytes.split_first() else { return };
    let syntax = [Syntax::NQuads, Syntax::TriG, Syntax::RdfXml, Syntax::JsonLd][usize::from(first) % 4];
    let mut strict = Loader::new(OnError::Fail);
    let loaded = strict.file(text, syntax, Some("http://e/"));
    let mut lenient = Loader::new(OnError::Skip);
    // Too many errors on one line end the file all the same.
    let skipped = lenient.file(text, syntax, Some("http://e/"));
    if loaded.is_ok() {
        assert!(skipped.is_ok() && lenient.skipped() == 0);
        assert_eq!(strict.finish().len(), lenient.finish().len());
    }
});
