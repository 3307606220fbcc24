//! Suggestions for a text that is being typed.

use std::ops::Range;

/// The suggestions for a place of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The bytes replaced by a suggestion: the word or name being typed.
    pub range: Range<usize>,
    /// The likeliest first.
    pub suggestions: Vec<Suggestion>,
}

/// A text to insert.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suggestion {
    /// The text, in quotes where a name needs them.
    pub text: String,
    /// The kind of text.
    pub kind: SuggestionKind,
    /// An aid for choosing: an IRI, or a column's table.
    pub detail: String,
    /// The number of occurrences in the data, if known.
    pub count: Option<usize>,
    /// A prefix needed but not declared by the text, and its IRI.
    pub prefix: Option<(String, String)>,
}

/// The kind of a suggestion. A language suggests those that it has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SuggestionKind {
    Predicate,
    Class,
    Graph,
    Iri,
    Literal,
    Variable,
    Table,
    Column,
    Keyword,
    Function,
    Prefix,
}
