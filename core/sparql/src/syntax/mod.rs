//! SPARQL's grammar: from text to a tree ([`ast`]) that fulfils every rule of the grammar.
//!
//! A recursive descent with one token of look-ahead. It takes time and memory in proportion to the text's length,
//! limits its depth, and gives each error its place. SPARQL 1.1 Query Language, §19, and the rules in the text of
//! §11.4, §18.2.1 and §19.6; and SPARQL 1.1 Update, rules 29 to 52 of the same grammar.

pub(crate) mod ast;
mod expression;
mod names;
mod parser;
mod pattern;
mod select;
mod template;
#[cfg(test)]
mod tests;
mod token;
mod unescape;
mod update;

use crate::error::{QueryError, QueryErrorKind};
use oxrdf::Term;
use parser::Parser;
use vicus_rdf::TermLimits;

/// How a text is parsed.
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
    /// The base of relative IRIs, until the text has a BASE of its own.
    pub base: Option<&'a str>,
    /// The greatest number of bytes of a text.
    pub bytes: usize,
    /// How many bytes longer a text may be with its names written out: this many for each of its own bytes, and for
    /// 1,024 more. A prefix or a base may be very long, while the names that use it are short and many.
    pub longer: usize,
    /// How many signs of paths may be repeated because a path has several objects: the plan has the path once for each
    /// object. One more for every four bytes of text.
    pub path_signs: usize,
    /// The greatest number of levels of a text's tree, at most [`ParseOptions::MOST_DEPTH`]. Brackets add a level, as
    /// do operators and patterns that apply to the one before: `+`, OPTIONAL, BIND, EXISTS and paths of any length.
    /// Things side by side (`||`, UNION, triples, rows of VALUES) share a level. Deep queries need no more of the
    /// caller's stack than others, to parse, plan or run.
    pub depth: usize,
    /// Whether calling an unknown function makes the query wrong. Otherwise that call fails (SPARQL 1.1, §17.3.3), so a
    /// filter with it drops all rows.
    pub strict_functions: bool,
    /// Whether the syntax of SPARQL 1.2 is read: triple terms and their constructors, base directions, VERSION, and the
    /// functions of these. Otherwise each is an error.
    pub rdf_12: bool,
    /// The longest terms that an update inserts: those of its text, those that its expressions compute, and those of
    /// its documents.
    pub longest: TermLimits,
    /// Values of variables, by their names without `?`: IRIs and literals. Where the text has such a variable, it has
    /// the value, as if it were written there; the text is not changed. `SELECT ?x` has a column for it, `SELECT *`
    /// not. The text must mention each, and give none of them another value.
    ///
    /// ```
    /// use oxrdf::Literal;
    /// use vicus_sparql::{ParseOptions, QueryErrorKind, parse_with};
    /// let given = [("name".to_owned(), Literal::from("' . } #").into())];
    /// let options = ParseOptions { given: &given, ..ParseOptions::default() };
    /// assert!(parse_with("SELECT ?s ?name { ?s <http://e/name> ?name }", &options).is_ok());
    /// assert!(parse_with("SELECT ?s { ?s <http://e/p> ?o BIND (1 AS ?name) }", &options).is_err());
    /// let error = parse_with("SELECT ?s { ?s ?p ?o }", &options).unwrap_err();
    /// assert_eq!(error.kind, QueryErrorKind::NotMentioned);
    /// ```
    pub given: &'a [(String, Term)],
}

/// The default of [`ParseOptions::longer`].
pub(crate) const DEFAULT_LONGER: usize = 64;

impl ParseOptions<'_> {
    /// The largest [`ParseOptions::depth`].
    pub const MOST_DEPTH: usize = 10_000;
}

impl Default for ParseOptions<'_> {
    /// No base, at most 64 MiB, 64 bytes longer for each byte, 32,768 repeated signs, 1000 levels, unknown functions
    /// fail, SPARQL 1.1, terms that every reader takes, no values.
    fn default() -> Self {
        ParseOptions {
            base: None,
            bytes: 64 << 20,
            longer: DEFAULT_LONGER,
            path_signs: 32 << 10,
            depth: 1000,
            strict_functions: false,
            rdf_12: false,
            longest: TermLimits::default(),
            given: &[],
        }
    }
}

/// An error, and its byte.
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

/// Parses a query.
pub(crate) fn read(text: &str, options: &ParseOptions<'_>) -> std::result::Result<ast::Query, QueryError> {
    read_as(text, "query", options, |parser| parser.query())
}

/// Parses an update.
pub(crate) fn read_update(text: &str, options: &ParseOptions<'_>) -> std::result::Result<ast::Update, QueryError> {
    read_as(text, "update", options, |parser| parser.update())
}

/// The error of a wrong text. If the text is wrong only for its use of SPARQL 1.2, the error says so.
fn newer<T>(
    text: &str,
    noun: &'static str,
    options: &ParseOptions<'_>,
    read: &impl Fn(&mut Parser<'_>) -> Result<T>,
    wrong: Box<Wrong>,
) -> Box<Wrong> {
    let options = ParseOptions { rdf_12: true, ..options.clone() };
    let Ok(mut parser) = Parser::new(text, noun, &options) else { return wrong };
    // What it reads is dropped; its errors are those of a text that was meant otherwise.
    let _read = read(&mut parser);
    match parser.newer {
        Some((at, what)) if wrong.kind == QueryErrorKind::Syntax && at <= wrong.at => {
            Wrong::new(at, format!("{what} is SPARQL 1.2: give --rdf-12 to read it"))
        }
        _ => wrong,
    }
}

fn read_as<T>(
    text: &str,
    noun: &'static str,
    options: &ParseOptions<'_>,
    read: impl Fn(&mut Parser<'_>) -> Result<T>,
) -> std::result::Result<T, QueryError> {
    // A mark at the beginning is no part of the text.
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let limit = options.bytes.min(u32::MAX as usize);
    if text.len() > limit {
        return Err(QueryError {
            message: format!("the {noun} has {} bytes; at most {limit} are read", text.len()),
            line: 0,
            column: 0,
            kind: QueryErrorKind::TooLong,
        });
    }
    // SPARQL 1.2 has them in strings and IRIs only.
    let decoded = if options.rdf_12 { None } else { unescape::codepoints(text) };
    let written = decoded.as_ref().map_or(text, |decoded| &decoded.text);
    let outcome = Parser::new(written, noun, options).and_then(|mut parser| read(&mut parser));
    outcome.map_err(|wrong| {
        let wrong = if options.rdf_12 { wrong } else { newer(written, noun, options, &read, wrong) };
        let Wrong { at, message, kind } = *wrong;
        if matches!(kind, QueryErrorKind::WrongBase | QueryErrorKind::NotMentioned) {
            // The error has no place in the text.
            return QueryError { message, line: 0, column: 0, kind };
        }
        let at = decoded.as_ref().map_or(at, |decoded| decoded.written_at(at)).min(text.len());
        let before = &text[..at];
        let last_line = before.rsplit('\n').next().unwrap_or_default();
        QueryError { message, line: before.matches('\n').count() + 1, column: last_line.chars().count() + 1, kind }
    })
}
