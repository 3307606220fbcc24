//! From text to a checked query. The grammar is spargebra's.

use crate::error::{QueryError, QueryErrorKind};
use crate::{longest_token, nesting, translate};
use spargebra::{Query, SparqlParser};
use vicus_rdf::Id;

/// A query whose text is good and which this engine can answer.
#[derive(Clone, Debug)]
pub struct Parsed {
    pub(crate) query: Query,
}

/// Reads a query.
///
/// ```
/// use vicus_sparql::{QueryErrorKind, parse};
/// assert!(parse("ASK { ?s ?p ?o }").is_ok());
/// let error = parse("DESCRIBE <http://e/x>").err().unwrap();
/// assert_eq!(error.kind, QueryErrorKind::Unsupported { what: "DESCRIBE queries".to_owned() });
/// let error = parse("INSERT DATA { <http://e/x> <http://e/y> 1 }").err().unwrap();
/// assert_eq!(error.kind, QueryErrorKind::Unsupported { what: "updates".to_owned() });
/// ```
///
/// # Errors
/// Where the text breaks the grammar, or what it asks for that is not supported yet.
pub fn parse(text: &str) -> Result<Parsed, QueryError> {
    parse_with_base(text, None)
}

/// As [`parse()`]; relative IRIs are resolved against `base` until the text has a BASE of its own.
///
/// ```
/// use vicus_sparql::parse_with_base;
/// assert!(parse_with_base("ASK { <here> ?p ?o }", Some("http://e/")).is_ok());
/// assert!(parse_with_base("ASK { <here> ?p ?o }", None).is_err());
/// ```
///
/// # Errors
/// As [`parse()`]; also if `base` is no absolute IRI.
pub fn parse_with_base(text: &str, base: Option<&str>) -> Result<Parsed, QueryError> {
    nesting::check(text)?;
    let mut parser = SparqlParser::new();
    if let Some(base) = base {
        parser = parser.with_base_iri(base).map_err(|error| QueryError {
            message: format!("the base `{base}` is no absolute IRI: {error}"),
            line: 0,
            column: 0,
            kind: QueryErrorKind::Syntax,
        })?;
    }
    let read = |text: &str| {
        // The parser knows `true` and `false` in lower case only.
        let query = parser.clone().parse_query(text);
        query.or_else(|_| parser.clone().parse_query(&with_lower_booleans(text))).ok()
    };
    let query = read(text).ok_or_else(|| match parser.clone().parse_update(text) {
        Ok(update) if !update.operations.is_empty() => QueryError::unsupported("updates"),
        _ => syntax_error(text),
    })?;
    longest_token::check(text, |text| read(text).is_some())?;
    // What is not supported should be known before there is any data.
    translate::translate(&query, &mut |_| Id::UNBOUND)?;
    Ok(Parsed { query })
}

/// Bytes of a text beyond which an error's place is not looked for so closely.
const LONG: usize = 1 << 16;

/// The text with each `TRUE` and `FALSE` in lower case, but for those in strings, IRIs, comments and names.
fn with_lower_booleans(text: &str) -> String {
    let is_name = |char: char| char.is_alphanumeric() || "_:?$@-.%\\".contains(char);
    let mut made = String::with_capacity(text.len());
    let mut quoting = Quoting::default();
    let mut before = ' ';
    for (at, char) in text.char_indices() {
        let is_code = !quoting.follow(text, at, char);
        let rest = &text[at..];
        let is_boolean = |word: &str| {
            let found = rest.get(..word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word));
            found && !rest[word.len()..].starts_with(|char| is_name(char) && char != '.')
        };
        if is_code && !is_name(before) && (is_boolean("true") || is_boolean("false")) {
            // Its other letters are there already when their turns come.
            let length = if is_boolean("true") { 4 } else { 5 };
            made.push_str(&rest[..length].to_ascii_lowercase());
            before = 'e';
            continue;
        }
        if made.len() <= at {
            made.push(char);
        }
        before = char;
    }
    made
}

/// Follows a text through its strings, IRIs and comments.
#[derive(Default)]
struct Quoting {
    /// What ends the string, IRI or comment that is being read.
    until: Option<char>,
    escaped: bool,
}

impl Quoting {
    /// Goes on by the character at a place; whether that is inside of one of them, or begins one.
    fn follow(&mut self, text: &str, at: usize, char: char) -> bool {
        match self.until {
            Some(end) if char == end && !self.escaped => {
                self.until = None;
                true
            }
            Some(_) => {
                self.escaped = char == '\\' && !self.escaped;
                true
            }
            None => {
                self.escaped = false;
                let rest = &text[at..];
                self.until = match char {
                    '"' | '\'' => Some(char),
                    '#' => Some('\n'),
                    // Not every less-than sign begins an IRI.
                    '<' if rest.find('>').is_some_and(|end| !rest[..end].contains([' ', '\n', '"', '{'])) => Some('>'),
                    _ => None,
                };
                self.until.is_some()
            }
        }
    }
}

/// Where a text that is no query goes wrong.
///
/// The parser tells the place in its message alone, `error at 2:15: expected one of BASE, ...`, and it is where the
/// longest of its attempts ended. An attempt at a keyword takes as many characters as the keyword has before it looks at
/// them, so it ends that far behind its start, and hides attempts that got further. With room around each token
/// ([`spread`]) it hides nothing.
fn syntax_error(text: &str) -> QueryError {
    let error = |message: String, line, column| QueryError { message, line, column, kind: QueryErrorKind::Syntax };
    // A place near the mistake is enough in a text that nobody reads.
    let spread =
        if text.len() > LONG { text.char_indices().map(|(at, char)| (char, at)).collect() } else { spread(text) };
    let padded: String = spread.iter().map(|(char, _)| char).collect();
    let said = match SparqlParser::new().parse_query(&padded) {
        Ok(_) => return error("this is no query".to_owned(), 0, 0),
        Err(said) => said.to_string(),
    };
    let place = said.strip_prefix("error at ").and_then(|rest| {
        let (line, rest) = rest.split_once(':')?;
        let (column, rest) = rest.split_once(": expected ")?;
        Some((line.parse::<usize>().ok()?, column.parse::<usize>().ok()?, rest))
    });
    let Some((line, column, expected)) = place else { return error(said, 0, 0) };
    let is_keyword =
        |word: &&str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let words = expected.strip_prefix("one of ").unwrap_or(expected).split(", ");
    let overshoot = words.filter(is_keyword).map(str::len).max().unwrap_or(0);
    let start: usize = padded.split_inclusive('\n').take(line - 1).map(|line| line.chars().count()).sum();
    let at = spread.get((start + column - 1).saturating_sub(overshoot)).map_or(text.len(), |(_, at)| *at);
    // What was expected after white space is missed at the next token, or where the text ends.
    let rest = text[at..].trim_start();
    let at = if rest.is_empty() { text.trim_end().len() } else { text.len() - rest.len() };
    let found: String = rest.chars().take_while(|char| !char.is_whitespace()).take(30).collect();
    let message = if expected.contains("Prefix not found") {
        "a prefix that is not declared".to_owned()
    } else if found.is_empty() {
        "the query ends too early".to_owned()
    } else {
        format!("`{found}` can't stand here")
    };
    let last_line = text[..at].rsplit('\n').next().unwrap_or_default();
    error(message, text[..at].matches('\n').count() + 1, last_line.chars().count() + 1)
}

/// The text with more room than any keyword is long around its words, braces and parentheses; with each character the
/// place where it, or what stands next to it, is in the text.
fn spread(text: &str) -> Vec<(char, usize)> {
    const ROOM: usize = 32;
    let mut made = Vec::new();
    let mut quoting = Quoting::default();
    for (at, char) in text.char_indices() {
        let pads = quoting.until.is_none() && (char.is_whitespace() || "{}()".contains(char));
        quoting.follow(text, at, char);
        let room = if pads { ROOM } else { 0 };
        made.extend(std::iter::repeat_n((' ', at), room));
        made.push((char, at));
        made.extend(std::iter::repeat_n((' ', at + char.len_utf8()), room));
    }
    made.extend(std::iter::repeat_n((' ', text.len()), ROOM));
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syntax_error_says_where() {
        for (text, place) in [
            ("SELECT ?s WHERE {\n  ?s ?p ?o .\n  FILTER (?o = )\n}", (3, 16)),
            ("SELECT ?s WHERE {\n  ?s ?p \n}", (3, 1)),
            ("SELECT ?s WHERE {\n  ?s ?p ?o }}", (2, 13)),
            ("SELECT ?s WHERE {\n  ?s ?p ?o", (2, 11)),
            ("SELEC ?s", (1, 1)),
            ("", (1, 1)),
        ] {
            let error = parse(text).err().unwrap();
            assert_eq!(((error.line, error.column), &error.kind), (place, &QueryErrorKind::Syntax), "{text}: {error}");
        }
    }

    #[test]
    fn booleans_are_read_in_any_case() {
        assert!(parse("ASK { FILTER (TRUE && !False) ?s ?p true }").is_ok());
        let text = "ASK { ?True :TRUE \"TRUE\", <http://e/TRUE> } # FALSE";
        assert_eq!(with_lower_booleans(text), text);
        assert_eq!(with_lower_booleans("(TRUE)TRUE.FALSE"), "(true)true.FALSE");
    }

    #[test]
    fn an_unknown_function_is_named() {
        let error = parse("ASK { ?s ?p ?o FILTER (<http://e/f>(?o)) }").err().unwrap();
        assert_eq!(error.kind, QueryErrorKind::UnknownFunction { name: "http://e/f".to_owned() });
        assert_eq!(error.to_string(), "there is no function <http://e/f>");
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (text, what) in [
            ("CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }", "CONSTRUCT queries"),
            ("SELECT * { GRAPH ?g { ?s ?p ?o } }", "GRAPH patterns"),
            ("SELECT * FROM <http://e/g> { ?s ?p ?o }", "FROM clauses"),
            ("SELECT * { SERVICE <http://e/s> { ?s ?p ?o } }", "SERVICE patterns"),
        ] {
            let error = parse(text).err().unwrap_or_else(|| panic!("{text} is refused"));
            assert_eq!(error.kind, QueryErrorKind::Unsupported { what: what.to_owned() }, "{text}");
        }
    }
}
