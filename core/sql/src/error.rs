//! The reasons to refuse a statement, with the place in its text.

use std::fmt;
pub use vicus_language::SourcePosition;
use vicus_language::{Stopped, TextError, TextErrorKind};

/// The reason why a text is not an answerable statement.
///
/// ```
/// use vicus_sql::{StatementLimits, SqlErrorKind, parse};
///
/// let error = parse("SELECT a\nFROM WHERE", &StatementLimits::default()).err().unwrap();
/// assert_eq!((error.place.line, error.place.column, error.place.offset), (2, 6, Some(14)));
/// assert_eq!(error.kind, SqlErrorKind::Syntax);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// The mistake, and the expected text.
    pub message: String,
    /// The place of the mistake.
    pub place: SourcePosition,
    /// The sort of error.
    pub kind: SqlErrorKind,
}

/// Whether the text is wrong, goes beyond a limit, or is not supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlErrorKind {
    /// The text breaks SQL's grammar.
    Syntax,
    /// The text is valid SQL beyond this engine.
    Unsupported,
    /// An unknown table, column or function.
    Unknown {
        /// Similar known names, the nearest first.
        near: Vec<String>,
    },
    /// A name of several columns.
    Ambiguous,
    /// An expression with conflicting types, or at a wrong place.
    Type,
    /// The text has more bytes than [`StatementLimits::bytes`](crate::StatementLimits::bytes).
    TooLong,
    /// The text is nested more deeply than [`StatementLimits::depth`](crate::StatementLimits::depth).
    TooDeep,
    /// Planning takes more steps than [`PlanOptions::plan_steps`](crate::PlanOptions::plan_steps), or the parser reads
    /// the text again and again.
    TooManySteps,
    /// Planning takes more memory than [`PlanOptions::plan_bytes`](crate::PlanOptions::plan_bytes), or than its watch
    /// grants.
    TooManyBytes {
        /// At least this many bytes.
        needed: u64,
    },
    /// Nothing is wrong: the caller ended parsing or planning.
    Stopped,
}

impl SqlError {
    /// Whether planning was ended because it takes more than it may.
    pub(crate) fn is_too_much(&self) -> bool {
        matches!(self.kind, SqlErrorKind::TooManySteps | SqlErrorKind::TooManyBytes { .. })
    }

    pub(crate) fn new(kind: SqlErrorKind, place: SourcePosition, message: impl Into<String>) -> SqlError {
        SqlError { message: message.into(), place, kind }
    }

    pub(crate) fn unsupported(place: SourcePosition, what: impl fmt::Display) -> SqlError {
        SqlError::new(SqlErrorKind::Unsupported, place, format!("{what} is not supported"))
    }

    pub(crate) fn wrong_type(place: SourcePosition, message: impl Into<String>) -> SqlError {
        SqlError::new(SqlErrorKind::Type, place, message)
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            SourcePosition { line: 0, .. } => f.write_str(&self.message),
            SourcePosition { line, column, .. } => write!(f, "line {line}, column {column}: {}", self.message),
        }
    }
}

impl std::error::Error for SqlError {}

impl From<Stopped> for SqlError {
    fn from(stopped: Stopped) -> SqlError {
        let kind = match stopped {
            Stopped::Asked => SqlErrorKind::Stopped,
            Stopped::TooManySteps { .. } => SqlErrorKind::TooManySteps,
            Stopped::TooManyBytes { needed, .. } => SqlErrorKind::TooManyBytes { needed },
        };
        SqlError::new(kind, SourcePosition::default(), stopped.to_string())
    }
}

impl From<SqlError> for TextError {
    fn from(error: SqlError) -> TextError {
        let kind = match error.kind {
            SqlErrorKind::Syntax | SqlErrorKind::Unknown { .. } | SqlErrorKind::Ambiguous | SqlErrorKind::Type => {
                TextErrorKind::Wrong
            }
            SqlErrorKind::Unsupported => TextErrorKind::Unsupported,
            SqlErrorKind::TooLong => TextErrorKind::TooLong,
            SqlErrorKind::TooDeep => TextErrorKind::TooDeep,
            SqlErrorKind::TooManySteps => TextErrorKind::TooManySteps,
            SqlErrorKind::TooManyBytes { needed } => TextErrorKind::TooManyBytes { needed },
            SqlErrorKind::Stopped => TextErrorKind::Stopped,
        };
        TextError::new(kind, error.place, error.message.clone()).with_own(error)
    }
}
