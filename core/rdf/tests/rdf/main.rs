//! The store against independent models: oxttl's triples in sorted sets, oxrdf's terms, the W3C's expected results.
//!
//! Random tests print their seed; `VICUS_SEED` sets it. Larger data is read from the folder `VICUS_SHARED`, or from
//! `shared` beside the repository; without it, those tests report a skip.
#![expect(clippy::disallowed_methods, reason = "tests read files and settings: they are a door")]

mod bad_input;
mod changes;
mod characteristic;
mod flow;
mod model;
mod plain_lines;
mod random;
mod spilled;
mod syntaxes;
mod terms;
mod w3c;

use std::io::Read;
use std::path::PathBuf;

/// A path in the shared folder if it exists; prints a line if not.
fn shared(path: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let folder = std::env::var_os("VICUS_SHARED").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = folder.join(path);
    if path.exists() {
        Some(path)
    } else {
        println!("SKIPPED: {} is not there; set VICUS_SHARED to the folder with the test data", path.display());
        None
    }
}

/// The bytes of a file, decompressed if it is compressed.
fn read(path: &std::path::Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.extension().is_some_and(|extension| extension == "gz") {
        let mut unpacked = Vec::new();
        flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).expect("gzip");
        unpacked
    } else {
        bytes
    }
}

/// Runs a test on random values, reproducibly.
fn check<S: proptest::strategy::Strategy>(
    cases: u32,
    strategy: S,
    test: impl Fn(S::Value) -> Result<(), proptest::test_runner::TestCaseError>,
) {
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let seed = std::env::var("VICUS_SEED").map_or(2011, |seed| seed.parse().expect("VICUS_SEED is a number"));
    println!("VICUS_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&u64::to_le_bytes(seed));
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    if let Err(error) = TestRunner::new_with_rng(config, rng).run(&strategy, test) {
        panic!("with VICUS_SEED={seed}: {error}");
    }
}
