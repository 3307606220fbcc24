//! What a query costs before it runs.

use crate::syntax::{DEFAULT_LONGER, ParseOptions};
use vicus_flow::Model;

/// So many bytes a parse takes at most for each byte of text, as `tests/memory.rs` measures it: the most is for short lists of
/// objects and operands.
const FOR_EACH: u64 = 640;

/// And for any query.
const FOR_ANY: u64 = 16 << 10;

/// A plan's bytes for each box, and for each column of its outputs.
const FOR_EACH_BOX: u64 = 2560;
const FOR_EACH_COLUMN: u64 = 192;

/// How many bytes of memory parsing a text takes at most, the query that comes of it included: an estimate by its length, so
/// that whoever bounds a request's memory can refuse a text before it is read.
///
/// ```
/// assert!(vicus_sparql::parsing_bytes("ASK { ?s ?p ?o }") < 1 << 15);
/// ```
pub fn parsing_bytes(text: &str) -> u64 {
    parsing_bytes_with(text, &ParseOptions::default())
}

/// As [`parsing_bytes`], of a text that is read with other limits.
///
/// ```
/// use vicus_sparql::{ParseOptions, parsing_bytes, parsing_bytes_with};
/// let options = ParseOptions { longer: 1000, ..ParseOptions::default() };
/// assert!(parsing_bytes_with("ASK { ?s ?p ?o }", &options) > parsing_bytes("ASK { ?s ?p ?o }"));
/// ```
pub fn parsing_bytes_with(text: &str, options: &ParseOptions<'_>) -> u64 {
    let longer = options.longer.saturating_sub(DEFAULT_LONGER) as u64;
    FOR_ANY.saturating_add(FOR_EACH.saturating_add(longer).saturating_mul(text.len() as u64))
}

/// About how many bytes a plan takes besides, with one running instance of its model.
pub(crate) fn plan_bytes(model: &Model) -> u64 {
    let boxes = model.boxes().iter();
    boxes
        .map(|one| {
            FOR_EACH_BOX + FOR_EACH_COLUMN * one.outputs().map(|(schema, _)| schema.columns().len() as u64).sum::<u64>()
        })
        .sum()
}
