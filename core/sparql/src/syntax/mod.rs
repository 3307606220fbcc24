//! SPARQL's grammar: from text to a tree ([`ast`]) in which every rule of the grammar holds.
//!
//! A recursive descent over tokens, one token ahead. It takes time and memory in proportion to the text's length, knows
//! how deep it is, and gives each error its place. SPARQL 1.1 Query Language, §19, and the rules that stand in the text
//! of §11.4, §18.2.1 and §19.6; updates (SPARQL 1.1 Update) are only checked.

pub(crate) mod ast;
mod expression;
mod names;
mod parser;
mod pattern;
mod select;
#[cfg(test)]
mod tests;
mod token;
mod unescape;
mod update;

use crate::error::{QueryError, QueryErrorKind};
use parser::Parser;

/// How a text is read.
///
/// ```
/// use vicus_sparql::{ParseOptions, QueryErrorKind, parse_with};
/// let text = "ASK { ?s ?p ?o FILTER (<http://e/f>(?o)) }";
/// assert!(parse_with(text, &ParseOptions::default()).is_ok());
/// let strict = ParseOptions { strict_functions: true, ..ParseOptions::default() };
/// let error = parse_with(text, &strict).err().unwrap();
/// assert_eq!(error.kind, QueryErrorKind::UnknownFunction { name: "http://e/f".to_owned() });
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseOptions<'a> {
    /// What relative IRIs are resolved against until the text has a BASE of its own.
    pub base: Option<&'a str>,
    /// As many bytes at most as a text has.
    pub bytes: usize,
    /// By how many bytes a text may be longer with its names written out, for each of its own and for 1,024 more: a prefix or a
    /// base may be very long, and names that have it very short and many.
    pub longer: usize,
    /// How many signs of paths may count once more for another object: a path with many objects has a plan for each of them. One
    /// more for four bytes of text.
    pub path_signs: usize,
    /// How many levels a text's tree has at most: brackets, and operators and patterns that stand on the one before,
    /// such as `+`, OPTIONAL, BIND, EXISTS and paths of any length. What lies side by side (`||`, UNION, triples, rows of VALUES) has one level.
    /// [`ParseOptions::MOST_DEPTH`] at most, whatever stands here. Reading, planning and running a query need no more stack of
    /// those who call them the deeper it is.
    pub depth: usize,
    /// Whether the call of a function that there is not makes the query wrong. Otherwise it is an error of that call
    /// (SPARQL 1.1, §17.3.3), so a filter with it keeps nothing.
    pub strict_functions: bool,
}

/// The default of [`ParseOptions::longer`].
pub(crate) const DEFAULT_LONGER: usize = 64;

impl ParseOptions<'_> {
    /// The largest [`ParseOptions::depth`].
    pub const MOST_DEPTH: usize = 10_000;
}

impl Default for ParseOptions<'_> {
    /// No base, 64 MiB, 64 bytes longer for each byte, 32,768 signs, 1000 levels, not strict.
    fn default() -> Self {
        ParseOptions {
            base: None,
            bytes: 64 << 20,
            longer: DEFAULT_LONGER,
            path_signs: 32 << 10,
            depth: 1000,
            strict_functions: false,
        }
    }
}

/// What is wrong with a text, and the byte where.
struct Wrong {
    at: usize,
    message: String,
    kind: QueryErrorKind,
}

impl Wrong {
    fn new(at: usize, message: impl Into<String>) -> Box<Wrong> {
        Box::new(Wrong { at, message: message.into(), kind: QueryErrorKind::Syntax })
    }
}

type Result<T> = std::result::Result<T, Box<Wrong>>;

/// Reads a query.
pub(crate) fn read(text: &str, options: &ParseOptions<'_>) -> std::result::Result<ast::Query, QueryError> {
    let limit = options.bytes.min(u32::MAX as usize);
    if text.len() > limit {
        return Err(QueryError {
            message: format!("the query has {} bytes, and {limit} at most are read", text.len()),
            line: 0,
            column: 0,
            kind: QueryErrorKind::TooLong,
        });
    }
    let decoded = unescape::codepoints(text);
    let read = match &decoded {
        Some(decoded) => Parser::new(&decoded.text, options).and_then(Parser::query),
        None => Parser::new(text, options).and_then(Parser::query),
    };
    read.map_err(|wrong| {
        let Wrong { at, message, kind } = *wrong;
        if kind == QueryErrorKind::WrongBase {
            // Nowhere in the text.
            return QueryError { message, line: 0, column: 0, kind };
        }
        let at = decoded.as_ref().map_or(at, |decoded| decoded.written_at(at)).min(text.len());
        let before = &text[..at];
        let last_line = before.rsplit('\n').next().unwrap_or_default();
        QueryError { message, line: before.matches('\n').count() + 1, column: last_line.chars().count() + 1, kind }
    })
}
