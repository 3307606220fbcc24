//! The reason why a text has no plan, and the place in it, apart from any language.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A place in a text.
///
/// ```
/// use vicus_language::SourcePosition;
/// assert_eq!(SourcePosition::at("é\nFROM", 5), SourcePosition { line: 2, column: 3, offset: Some(5) });
/// assert!(!SourcePosition::default().is_known());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourcePosition {
    /// From 1; 0 if the error has no place in the text.
    pub line: usize,
    /// From 1, in characters; 0 if the error has no place in the text.
    pub column: usize,
    /// From 0, in bytes from the beginning of the text, if the module knows it.
    pub offset: Option<usize>,
}

impl SourcePosition {
    /// The place `offset` bytes behind the beginning of a text. Panics if it is within a character, or behind the end.
    pub fn at(text: &str, offset: usize) -> SourcePosition {
        let before = &text[..offset];
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let (line, column) = (1 + before.matches('\n').count(), 1 + before[start..].chars().count());
        SourcePosition { line, column, offset: Some(offset) }
    }

    /// Whether the text has it.
    pub fn is_known(&self) -> bool {
        self.line > 0
    }
}

/// The reason why a text has no plan, as doors tell it. A module's own error, possibly with more detail, becomes one.
///
/// ```
/// use vicus_language::{SourcePosition, TextError, TextErrorKind};
///
/// let error = TextError::new(TextErrorKind::Wrong, SourcePosition::at("SELECT\n1 +", 10), "a number is expected");
/// assert_eq!(error.to_string(), "line 2, column 4: a number is expected");
/// ```
#[derive(Clone, Debug)]
pub struct TextError {
    /// The fault, and the expected form.
    pub message: String,
    /// The place of the fault.
    pub place: SourcePosition,
    /// The sort of error.
    pub kind: TextErrorKind,
    /// The module's own error.
    own: Option<Arc<dyn Error + Send + Sync>>,
}

/// Whether a text is wrong, goes beyond a limit, or is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextErrorKind {
    /// The text breaks the grammar, or names something that isn't there.
    Wrong,
    /// The text is right, and this engine can't answer it.
    Unsupported,
    /// The text has more bytes than [`TextLimits::bytes`](crate::TextLimits::bytes).
    TooLong,
    /// The text is nested more deeply than [`TextLimits::depth`](crate::TextLimits::depth).
    TooDeep,
    /// Planning takes more steps than [`PlanOptions::plan_steps`](crate::PlanOptions::plan_steps).
    TooManySteps,
    /// Planning takes more memory than [`PlanOptions::plan_bytes`](crate::PlanOptions::plan_bytes), or than its
    /// [`Watch`](crate::Watch) grants.
    TooManyBytes {
        /// At least this many bytes.
        needed: u64,
    },
    /// Nothing is wrong: its [`Watch`](crate::Watch) ended planning.
    Stopped,
}

impl TextError {
    /// An error for a module without an error type of its own.
    pub fn new(kind: TextErrorKind, place: SourcePosition, message: impl Into<String>) -> TextError {
        TextError { message: message.into(), place, kind, own: None }
    }

    /// Adds the module's own error, for doors that know the module.
    pub fn with_own(self, own: impl Error + Send + Sync + 'static) -> TextError {
        TextError { own: Some(Arc::new(own)), ..self }
    }

    /// The module's own error, if it is of this type.
    pub fn own<E: Error + 'static>(&self) -> Option<&E> {
        self.own.as_deref().and_then(|own| own.downcast_ref())
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            SourcePosition { line: 0, .. } => f.write_str(&self.message),
            SourcePosition { line, column, .. } => write!(f, "line {line}, column {column}: {}", self.message),
        }
    }
}

// Without a source: the module's own error says the same.
impl Error for TextError {}
