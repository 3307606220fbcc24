//! Remarks on a text that is right, for the person who wrote it.

use std::fmt;

/// A likely slip: the text is answered as it is written, and its answer may lack rows or values for this reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Remark {
    /// Its kind.
    pub kind: RemarkKind,
    /// A sentence without a full stop, in lower case: `nothing binds ?nmae; did you mean ?name?`
    pub text: String,
}

/// When a remark is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RemarkKind {
    /// With every answer: a variable has no value in any solution, or an aggregate hides that there is none.
    Always,
    /// With an answer without rows: the data doesn't have a name, or has it elsewhere.
    IfEmpty,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}
