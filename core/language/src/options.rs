//! A door's options for any module: the limits of a text, and the way of planning it.

use crate::error::{SourcePosition, TextError, TextErrorKind};
use crate::machines::Machines;
use vicus_flow::Bound;

/// Limits on a text.
///
/// ```
/// use vicus_language::{TextErrorKind, TextLimits};
/// let limits = TextLimits { bytes: 10, ..TextLimits::default() };
/// assert!(limits.check("SELECT 1").is_ok());
/// assert_eq!(limits.check("SELECT 1 + 1").unwrap_err().kind, TextErrorKind::TooLong);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextLimits {
    /// The greatest number of bytes.
    pub bytes: usize,
    /// The greatest depth, as the module counts it: of brackets, subqueries and the like.
    pub depth: usize,
}

impl Default for TextLimits {
    /// Texts of up to 64 MiB, nested up to 1000 levels deep.
    fn default() -> TextLimits {
        TextLimits { bytes: 64 << 20, depth: 1000 }
    }
}

impl TextLimits {
    /// Whether a text is short enough.
    ///
    /// # Errors
    /// It is too long ([`TextErrorKind::TooLong`]).
    pub fn check(&self, text: &str) -> Result<(), TextError> {
        if text.len() <= self.bytes {
            return Ok(());
        }
        let message = format!("the text has {} bytes, and at most {} are allowed", text.len(), self.bytes);
        Err(TextError::new(TextErrorKind::TooLong, SourcePosition::default(), message))
    }
}

/// How a text of any language is planned. A module may have further options of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// The greatest number of rows in an envelope.
    pub envelope_rows: usize,
    /// The greatest number of envelopes waiting in a via.
    pub via_envelopes: usize,
    /// How many seats will run the plan: at most this many boxes share the work of an operator.
    pub threads: usize,
    /// Work is shared if an operator is expected to handle at least this many rows.
    pub parallel_rows: usize,
    /// The greatest number of boxes that receive rows. More than one is for callers with no need of an order of rows.
    pub sinks: usize,
    /// Whether to rewrite the text's operators. Without, it is answered as written: a check on the optimiser.
    pub optimise: bool,
    /// The greatest number of steps of planning, of some ten to hundred nanoseconds each.
    pub plan_steps: u64,
    /// The greatest number of bytes held by planning, as counted by the module.
    pub plan_bytes: u64,
    /// The key of hash functions. Answers don't depend on it, except for the order of rows.
    pub hash_seed: u64,
    /// The machines that may share the work: one without others. All of them plan the same text with the same options.
    pub machines: Machines,
}

impl Default for PlanOptions {
    /// Envelopes of 2048 rows, one thread, work shared from 65,536 rows on, optimised, at most 50 million steps of
    /// planning.
    fn default() -> PlanOptions {
        PlanOptions {
            envelope_rows: 2048,
            via_envelopes: Bound::default().envelopes,
            threads: 1,
            parallel_rows: 1 << 16,
            sinks: 1,
            optimise: true,
            plan_steps: 50_000_000,
            plan_bytes: u64::MAX,
            hash_seed: 0,
            machines: Machines::default(),
        }
    }
}
