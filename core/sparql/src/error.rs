//! The reasons to refuse a query, with the place in its text.

use std::fmt;
use vicus_language::{SourcePosition, Stopped, TextError, TextErrorKind};

/// The reason why a text is not an answerable query.
///
/// ```
/// let error = vicus_sparql::parse("SELECT ?s\nWHERE { ?s ?p }").err().unwrap();
/// assert_eq!((error.line, error.column), (2, 15));
/// assert!(matches!(error.kind, vicus_sparql::QueryErrorKind::Syntax));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError {
    /// The mistake, and the expected text.
    pub message: String,
    /// From 1; 0 if the error has no place in the text.
    pub line: usize,
    /// From 1, in characters; 0 if the error has no place in the text.
    pub column: usize,
    /// The sort of error.
    pub kind: QueryErrorKind,
}

/// Whether the text is wrong, goes beyond a limit, or is not supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryErrorKind {
    /// The text breaks SPARQL's grammar.
    Syntax,
    /// The text is valid SPARQL not answered by this engine yet.
    Unsupported {
        /// The unsupported feature, in the plural: `property paths`.
        what: String,
    },
    /// The text calls an unknown function.
    UnknownFunction {
        /// Its IRI.
        name: String,
    },
    /// The text has more bytes than [`ParseOptions::bytes`](crate::ParseOptions::bytes).
    TooLong,
    /// The text is nested more deeply than [`ParseOptions::depth`](crate::ParseOptions::depth).
    TooDeep,
    /// With its names written out, the text is longer than [`ParseOptions::longer`](crate::ParseOptions::longer)
    /// allows.
    NamesTooLong,
    /// The text repeats paths for more objects than [`ParseOptions::path_signs`](crate::ParseOptions::path_signs)
    /// allows.
    TooManySigns,
    /// The text is fine, but [`ParseOptions::base`](crate::ParseOptions::base) is not an absolute IRI.
    WrongBase,
    /// The text does not mention a variable of [`ParseOptions::given`](crate::ParseOptions::given), or that value is
    /// neither an IRI nor a literal.
    NotMentioned,
    /// Planning takes more steps than [`PlanOptions::plan_steps`](crate::PlanOptions::plan_steps).
    TooManySteps,
    /// Planning takes more memory than [`PlanOptions::plan_bytes`](crate::PlanOptions::plan_bytes).
    TooManyBytes {
        /// At least this many bytes.
        needed: u64,
    },
    /// Nothing is wrong: the caller's `stopped` was true.
    Stopped,
}

impl QueryError {
    pub(crate) fn unknown_function(name: &str) -> QueryError {
        QueryError {
            message: format!("there is no function <{name}>"),
            line: 0,
            column: 0,
            kind: QueryErrorKind::UnknownFunction { name: name.to_owned() },
        }
    }

    pub(crate) fn unsupported(what: impl Into<String>) -> QueryError {
        let what = what.into();
        QueryError {
            message: format!("{what} are not supported yet"),
            line: 0,
            column: 0,
            kind: QueryErrorKind::Unsupported { what },
        }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}, column {}: {}", self.column, self.message),
        }
    }
}

impl std::error::Error for QueryError {}

impl From<Stopped> for QueryError {
    fn from(stopped: Stopped) -> QueryError {
        let kind = match stopped {
            Stopped::Asked => QueryErrorKind::Stopped,
            Stopped::TooManySteps { .. } => QueryErrorKind::TooManySteps,
            Stopped::TooManyBytes { needed, .. } => QueryErrorKind::TooManyBytes { needed },
        };
        let mut message = stopped.to_string();
        if kind == QueryErrorKind::TooManySteps {
            message.push_str(": it has too many patterns, variables or operators");
        }
        QueryError { message, line: 0, column: 0, kind }
    }
}

impl From<QueryError> for TextError {
    fn from(error: QueryError) -> TextError {
        let kind = match error.kind {
            QueryErrorKind::Syntax
            | QueryErrorKind::UnknownFunction { .. }
            | QueryErrorKind::WrongBase
            | QueryErrorKind::NotMentioned => TextErrorKind::Wrong,
            QueryErrorKind::Unsupported { .. } => TextErrorKind::Unsupported,
            QueryErrorKind::TooLong => TextErrorKind::TooLong,
            // It has a limit of SPARQL's own, by what it repeats.
            QueryErrorKind::NamesTooLong | QueryErrorKind::TooManySigns => TextErrorKind::Wrong,
            QueryErrorKind::TooDeep => TextErrorKind::TooDeep,
            QueryErrorKind::TooManySteps => TextErrorKind::TooManySteps,
            QueryErrorKind::TooManyBytes { needed } => TextErrorKind::TooManyBytes { needed },
            QueryErrorKind::Stopped => TextErrorKind::Stopped,
        };
        let place = SourcePosition { line: error.line, column: error.column, offset: None };
        TextError::new(kind, place, error.message.clone()).with_own(error)
    }
}
