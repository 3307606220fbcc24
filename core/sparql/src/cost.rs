//! What a query costs before it runs: memory for parsing and for its plan.

use crate::syntax::{DEFAULT_LONGER, ParseOptions};
use vicus_flow::Model;

/// The greatest number of bytes that parsing takes for each byte of text, as measured by `tests/memory.rs`. Short lists of
/// objects and operands take the most.
const FOR_EACH: u64 = 640;

/// Bytes that parsing any query takes on top.
const FOR_ANY: u64 = 16 << 10;

/// A plan's bytes for each box; below, for each column of a box's outputs.
const FOR_EACH_BOX: u64 = 2560;
const FOR_EACH_COLUMN: u64 = 192;

/// An upper estimate of the bytes that parsing a text takes, including the parsed query, from the text's length. A caller that
/// limits a request's memory can refuse the text before it is read.
///
/// ```
/// assert!(vicus_sparql::parsing_bytes("ASK { ?s ?p ?o }") < 1 << 15);
/// ```
pub fn parsing_bytes(text: &str) -> u64 {
    parsing_bytes_with(text, &ParseOptions::default())
}

/// As [`parsing_bytes`], for a text that is read with these options.
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

/// About how many bytes a plan and one running instance of its model take.
pub(crate) fn plan_bytes(model: &Model) -> u64 {
    let boxes = model.boxes().iter();
    boxes
        .map(|one| {
            FOR_EACH_BOX + FOR_EACH_COLUMN * one.outputs().map(|(schema, _)| schema.columns().len() as u64).sum::<u64>()
        })
        .sum()
}
