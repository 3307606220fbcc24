//! Why a query is refused, and where in its text.

use std::fmt;

/// Why a text is not a query that can be answered.
///
/// ```
/// let error = vicus_sparql::parse("SELECT ?s\nWHERE { ?s ?p }").err().unwrap();
/// assert_eq!((error.line, error.column), (2, 15));
/// assert!(matches!(error.kind, vicus_sparql::QueryErrorKind::Syntax));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError {
    /// What is wrong, and what was expected.
    pub message: String,
    /// From 1; 0 where no place can be named.
    pub line: usize,
    /// From 1, in characters; 0 where no place can be named.
    pub column: usize,
    /// Whose fault it is.
    pub kind: QueryErrorKind,
}

/// Whether the text is wrong or we are not there yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryErrorKind {
    /// The text breaks SPARQL's grammar.
    Syntax,
    /// The text is good SPARQL that this engine doesn't answer.
    Unsupported {
        /// What, in the plural: `property paths`.
        what: String,
    },
    /// The text calls a function that there is not.
    UnknownFunction {
        /// Its IRI.
        name: String,
    },
    /// The text has more bytes than [`ParseOptions::bytes`](crate::ParseOptions::bytes).
    TooLong,
    /// The text is nested more deeply than [`ParseOptions::depth`](crate::ParseOptions::depth).
    TooDeep,
    /// With its names written out it is longer than [`ParseOptions::longer`](crate::ParseOptions::longer) allows.
    NamesTooLong,
    /// Its paths have too many objects for [`ParseOptions::path_signs`](crate::ParseOptions::path_signs).
    TooManySigns,
    /// Not the text is wrong: [`ParseOptions::base`](crate::ParseOptions::base) is no absolute IRI.
    WrongBase,
    /// Planning it takes more steps than [`Options::plan_steps`](crate::Options::plan_steps).
    TooManySteps,
    /// Planning it takes more memory than [`Options::plan_bytes`](crate::Options::plan_bytes).
    TooManyBytes {
        /// As many bytes at least.
        needed: u64,
    },
    /// Nothing is wrong: whoever asked doesn't wait any more.
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
