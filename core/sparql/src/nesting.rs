//! Whether a text is nested so deeply that those who read it would run out of stack. Looks at characters only.
//!
//! The parser descends once for each bracket, and everything behind it once for each bracket and for each operand of a
//! chain, so both are bounded before the parser sees the text.

use crate::error::{QueryError, QueryErrorKind};

/// Brackets within brackets.
const DEEPEST: usize = 64;

/// Operators, and keywords that put one pattern around what stands before them. Rows of VALUES, patterns, and what stands
/// between commas don't count: they lie side by side.
pub(crate) const LONGEST: usize = 1000;

/// Each value that is computed, by BIND or SELECT, stands on the one before.
const WORDS: [&str; 6] = ["optional", "union", "minus", "as", "values", "filter"];

/// Refuses texts that are nested too deeply.
pub(crate) fn check(text: &str) -> Result<(), QueryError> {
    let bytes = text.as_bytes();
    let refuse = |at: usize, message: String| {
        let before = text.get(..at).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Err(QueryError { message, line, column, kind: QueryErrorKind::TooLarge })
    };
    let (mut depth, mut chain, mut at) = (0usize, 0usize, 0usize);
    // Of a table of values: the depth outside its braces.
    let mut table: Option<usize> = None;
    // Of GROUP BY, HAVING or ORDER BY: the depth at which they stand, where each bracket is a value on top of the last.
    let mut modifier: Option<usize> = None;
    while at < bytes.len() {
        let start = at;
        at += 1;
        match bytes[start] {
            b'(' | b'{' | b'[' => {
                chain += usize::from(bytes[start] == b'(' && modifier == Some(depth));
                depth += 1;
                if depth > DEEPEST {
                    return refuse(start, format!("brackets are nested more than {DEEPEST} deep"));
                }
            }
            b')' | b'}' | b']' => {
                depth = depth.saturating_sub(1);
                modifier = modifier.filter(|outside| depth >= *outside);
                table = table.filter(|outside| depth > *outside || bytes[start] != b'}');
            }
            b'#' | b'<' | b'"' | b'\'' | b':' => at = quoted_end(bytes, start),
            // Variables and language tags: signs in them are letters.
            b'?' | b'$' => at = skip(bytes, start, |byte| !is_letter(byte)),
            b'@' => at = skip(bytes, start, |byte| !is_letter(byte) && byte != b'-'),
            byte if is_letter(byte) => {
                at = skip(bytes, start, |byte| !is_letter(byte));
                let prefix = skip(bytes, start, |byte| !is_letter(byte) && !b"-.".contains(&byte));
                if bytes.get(prefix) == Some(&b':') {
                    at = prefix;
                } else {
                    let word = &bytes[start..at];
                    let is_exponent = word[0].is_ascii_digit() && word.ends_with(b"e") | word.ends_with(b"E");
                    at += usize::from(is_exponent && at < bytes.len());
                    chain += usize::from(WORDS.iter().any(|other| other.as_bytes().eq_ignore_ascii_case(word)));
                    if word.eq_ignore_ascii_case(b"values") {
                        (table, modifier) = (table.or(Some(depth)), None);
                    }
                    if word.eq_ignore_ascii_case(b"by") || word.eq_ignore_ascii_case(b"having") {
                        modifier = Some(depth);
                    }
                }
            }
            b'+' | b'-' if is_sign(bytes, start) => {}
            b'|' | b'&' | b'!' | b'+' | b'-' | b'*' | b'/' | b'^' | b'=' if table.is_none() => chain += 1,
            _ => {}
        }
        if chain > LONGEST {
            return refuse(start, format!("there are more than {LONGEST} operators and nested patterns"));
        }
    }
    Ok(())
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Whether it belongs to a number in a list.
fn is_sign(bytes: &[u8], at: usize) -> bool {
    let before = bytes[..at].iter().rev().find(|byte| !byte.is_ascii_whitespace());
    before.is_some_and(|byte| b",(".contains(byte)) && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
}

/// The first place behind `from` where `ends` holds.
fn skip(bytes: &[u8], from: usize, ends: impl Fn(u8) -> bool) -> usize {
    bytes[from..].iter().position(|&byte| ends(byte)).map_or(bytes.len(), |length| from + length.max(1))
}

/// Behind the comment, string, IRI or local name that begins at a place: signs in them are letters. Else behind one byte.
pub(crate) fn quoted_end(bytes: &[u8], from: usize) -> usize {
    match bytes[from] {
        b'#' => skip(bytes, from, |byte| byte == b'\n' || byte == b'\r'),
        b'<' => iri_end(bytes, from),
        quote @ (b'"' | b'\'') => string_end(bytes, from, quote),
        b':' => local_end(bytes, from),
        _ => from + 1,
    }
}

/// Behind what follows a prefix.
fn local_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < bytes.len() && (is_letter(bytes[at]) || b"-.%\\:".contains(&bytes[at])) {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

/// Behind an IRI, or behind the sign if it is a comparison.
fn iri_end(bytes: &[u8], from: usize) -> usize {
    let end = skip(bytes, from + 1, |byte| byte <= b' ' || b"<>\"{}|^`\\".contains(&byte));
    if bytes.get(end) == Some(&b'>') { end + 1 } else { from + 1 }
}

/// Behind a string of one or three quotes.
fn string_end(bytes: &[u8], from: usize, quote: u8) -> usize {
    let long = bytes[from..].starts_with(&[quote; 3]);
    let mut at = from + if long { 3 } else { 1 };
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote && !long => return at + 1,
            _ if long && bytes[at..].starts_with(&[quote; 3]) => return at + 3,
            b'\n' if !long => return at,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use crate::{QueryErrorKind, parse};
    use std::fmt::Write as _;

    fn refused(text: &str) -> bool {
        parse(text).err().is_some_and(|error| error.kind == QueryErrorKind::TooLarge)
    }

    #[test]
    fn ten_thousand_parentheses_are_an_error() {
        let nest = |depth: usize| format!("ASK {{ FILTER ({}1{}) }}", "(".repeat(depth), ")".repeat(depth));
        assert!(refused(&nest(10_000)));
        assert!(refused(&format!("ASK {}{}", "{".repeat(10_000), "}".repeat(10_000))));
        assert!(refused(&format!("ASK {{ FILTER ({}1) }}", "!".repeat(100_000))));
        assert!(refused(&format!("ASK {{ FILTER (1{}) }}", " || 1".repeat(100_000))));
        assert!(refused(&format!("ASK {{ {{}} {} }}", "UNION {} ".repeat(100_000))));
        assert!(refused(&format!("ASK {{ {} }}", "OPTIONAL {} ".repeat(100_000))));
        assert!(refused(&format!("SELECT {} {{}}", "(1 AS ?x) ".repeat(100_000))));
        assert!(refused(&format!("SELECT * {{ ?s ?p ?o }} ORDER BY {}", "STR(?s) ".repeat(2000))));
        assert!(refused(&format!("SELECT (1 AS ?x) {{ ?s ?p ?o }} GROUP BY {}", "(1) ".repeat(100_000))));
        assert!(refused(&format!(
            "SELECT ?s {{ {{ SELECT ?s {{ }} GROUP BY ?s HAVING {} }} }}",
            "(1) ".repeat(100_000)
        )));
        assert!(refused(&format!("SELECT (1 AS ?x) {{ ?s ?p ?o }} HAVING {}", "(COUNT(STR(?s)) > 1) ".repeat(2000))));
        let error = parse(&format!("ASK {{\n {}", "(".repeat(100))).err().unwrap();
        assert_eq!((error.line, error.column), (2, 65));
    }

    #[test]
    fn what_is_as_deep_as_may_be_is_read() {
        assert!(parse(&format!("ASK {{ ?s ?p ?o {} }}", "OPTIONAL { ?s ?p ?o } ".repeat(900))).is_ok());
        assert!(parse(&format!("ASK {{ FILTER (1{}) }}", " + 1".repeat(900))).is_ok());
        assert!(parse(&format!("SELECT * {{ ?s ?p ?o }} ORDER BY {}", "STR(?s) ".repeat(900))).is_ok());
        assert!(parse(&format!("SELECT * {{ ?s ?p ?o }} ORDER BY {}", "?s ".repeat(5000))).is_ok());
        assert!(parse(&format!("ASK {} ?s ?p ?o {}", "{".repeat(60), "}".repeat(60))).is_ok());
    }

    #[test]
    fn signs_in_strings_iris_and_comments_nest_nothing() {
        let many = "((({{{[[[||||".repeat(1000);
        assert!(parse(&format!("ASK {{ ?s ?p '{many}', \"{many}\", '''{many}'{many}''' }} # {many}")).is_ok());
        assert!(parse(&format!("ASK {{ ?s ?p <http://e/{}> }}", "((--".repeat(1000))).is_ok());
    }

    #[test]
    fn much_text_that_lies_side_by_side_is_read() {
        let mut text = "SELECT * { VALUES (?a ?b) {".to_owned();
        for row in 0..20_000 {
            write!(text, " (-{row}.5e-3 \"{}\"@en-GB)", "x".repeat(row % 40)).expect("a string takes everything");
        }
        text += " } FILTER (?a IN (0";
        (0..5000).for_each(|number| write!(text, ", -{number}").expect("a string takes everything"));
        assert!(parse(&(text + ")) }")).is_ok());
        let names = "<http://e/s> my-ns:a-b-c <http://e/a-b+c> . ".repeat(5000);
        assert!(parse(&format!("PREFIX my-ns: <http://e/> ASK {{ {names} }}")).is_ok());
    }
}
