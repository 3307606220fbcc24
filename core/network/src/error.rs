//! The reason why a text is no network, with its place, the line and a mark below it.

use std::fmt;
use vicus_language::SourcePosition;

/// A part of a text, in bytes. All spots are equal, so that texts which differ in blanks alone are equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spot {
    /// Where it begins.
    pub from: usize,
    /// Where it ends. A spot that ends at 0 has no place in a text: it was made by a program.
    pub to: usize,
}

impl PartialEq for Spot {
    fn eq(&self, _: &Spot) -> bool {
        true
    }
}

/// Why a text is no network, and what to do.
///
/// ```
/// use vicus_network::NetworkText;
///
/// let error = "box a = numbers\nbox b".parse::<NetworkText>().unwrap_err();
/// assert_eq!((error.place.line, error.place.column), (2, 1));
/// assert_eq!(error.to_string(), "line 2, column 1: `;` is expected behind the box a, and here is `box`\n\
///                                \x20 box b\n\
///                                \x20 ^^^");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkError {
    /// The mistake, and the expected form.
    pub message: String,
    /// Its place; unknown for a network that was not read from a text.
    pub place: SourcePosition,
    /// The line of the text and marks below it; empty without a place.
    pub snippet: String,
}

impl NetworkError {
    /// No mistake: the caller ended the building.
    pub(crate) fn stopped() -> NetworkError {
        NetworkError::at("", Spot::default(), "it was stopped while it was built")
    }

    /// A mistake at a spot of a text.
    pub(crate) fn at(source: &str, spot: Spot, message: impl Into<String>) -> NetworkError {
        let message = message.into();
        if spot.to == 0 || source.is_empty() {
            return NetworkError { message, place: SourcePosition::default(), snippet: String::new() };
        }
        let from = boundary(source, spot.from);
        let to = boundary(source, spot.to).max(from);
        let start = source[..from].rfind('\n').map_or(0, |at| at + 1);
        let end = source[from..].find('\n').map_or(source.len(), |at| from + at);
        // A mark is as wide as a character; tabs stay, so that both lines are indented alike.
        let blank = |sign: char| if sign == '\t' { '\t' } else { ' ' };
        let indent: String = source[start..from].chars().map(blank).collect();
        let marks = source[from..to.min(end)].chars().count().clamp(1, 80);
        let line = source[start..end].trim_end();
        let snippet = format!("  {line}\n  {indent}{}", "^".repeat(marks));
        NetworkError { message, place: SourcePosition::at(source, from), snippet }
    }
}

/// The last boundary between characters up to a place.
fn boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SourcePosition { line, column, .. } = self.place;
        match line {
            0 => f.write_str(&self.message),
            _ => write!(f, "line {line}, column {column}: {}\n{}", self.message, self.snippet),
        }
    }
}

impl std::error::Error for NetworkError {}
