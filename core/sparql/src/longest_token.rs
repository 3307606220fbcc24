//! Holds the parser to the longest token: SPARQL 1.1 Query Language, §19.8, note 2.
//!
//! In `FILTER (?x<?a&&?b>?y)` the signs from `<` to `>` are an IRI, so this is no query. The parser has no tokens: where no
//! IRI may stand it takes `<` as a comparison. It reads such a text against the rule only if a comparison stands in
//! brackets, and something stands between `<` and `>` that ends its right side or begins another expression: two
//! comparisons in a row are no expression. So what is to be looked at is rare, and then the parser is asked once more,
//! about a text in which those IRIs can be nothing else.

use crate::error::{QueryError, QueryErrorKind};
use crate::nesting::quoted_end;
use std::ops::Range;

/// Of what an IRI may contain, what can stand between two comparisons.
const BETWEEN: &[u8] = b"&,()";

/// Refuses a text that was read against the rule. `is_query` says whether a text can be read.
pub(crate) fn check(text: &str, is_query: impl Fn(&str) -> bool) -> Result<(), QueryError> {
    let doubtful = doubtful(text);
    let is_read = |count: usize| is_query(&masked(text, &doubtful[..count]));
    if doubtful.is_empty() || is_read(doubtful.len()) {
        return Ok(());
    }
    // One that is no IRI where it stands stays none when more are masked.
    let counts: Vec<usize> = (1..=doubtful.len()).collect();
    let first = counts.partition_point(|&count| is_read(count));
    let Range { start, end } = doubtful[first].clone();
    let before = &text[..start];
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Err(QueryError {
        message: format!(
            "`{}` is an IRI and can't stand here; a comparison has spaces around its sign",
            &text[start..end]
        ),
        line: before.matches('\n').count() + 1,
        column,
        kind: QueryErrorKind::Syntax,
    })
}

/// The IRIs of a text that could be read as comparisons.
fn doubtful(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let (mut found, mut depth, mut at) = (Vec::new(), 0usize, 0usize);
    while at < bytes.len() {
        let end = quoted_end(bytes, at);
        match bytes[at] {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b'<' if depth > 0 && bytes[at..end].iter().any(|byte| BETWEEN.contains(byte)) => found.push(at..end),
            _ => {}
        }
        at = end;
    }
    found
}

/// The text with nothing in these IRIs that makes them doubtful.
fn masked(text: &str, iris: &[Range<usize>]) -> String {
    let mut made = String::with_capacity(text.len());
    let mut done = 0;
    for iri in iris {
        made.push_str(&text[done..iri.start]);
        made.extend(
            text[iri.clone()]
                .chars()
                .map(|char| if char.is_ascii() && BETWEEN.contains(&(char as u8)) { 'a' } else { char }),
        );
        done = iri.end;
    }
    made + &text[done..]
}

#[cfg(test)]
mod tests {
    use crate::{QueryErrorKind, parse};

    #[test]
    fn iris_with_signs_in_them_are_read() {
        for text in [
            "ASK { <http://e/a,b> <http://e/(p)> <http://e/c&&d> }",
            "ASK { ?s <http://e/p(1)>/^<http://e/p,2>|!(<http://e/p&3>|^<http://e/p(4)>) ?o }",
            "ASK { ?s ?p (<http://e/a,b> 1 <http://e/(c)>) }",
            "ASK { ?s ?p ?o FILTER (?o = <http://e/a,b>) FILTER (?o IN (<http://e/(a)>, <http://e/b&&c>)) }",
            "ASK { ?s ?p ?o FILTER (<http://e/a,b>=?o&&<http://e/(b)>!=?s) }",
            "ASK { ?s ?p ?o FILTER (?o != '<?a&&?b>' && ?s != \"\"\"it's <a,b>\"\"\") } # FILTER (?x<?a&&?b>?y)",
            "PREFIX : <http://e/> ASK { ?s :a\\(b\\,c ?o FILTER (?o != :d\\)) }",
            "BASE <http://e/(x)> ASK { ?s ?p ?o FILTER (?o = <a,b>) }",
            "ASK { ?s ?p ?o FILTER (TRUE && ?o = <http://e/a,b>) }",
        ] {
            assert!(parse(text).is_ok(), "{text}: {}", parse(text).err().unwrap());
        }
    }

    #[test]
    fn comparisons_with_room_are_read() {
        for text in [
            "ASK { ?x ?y ?a, ?b FILTER (?x < ?a&&?b>?y) }",
            "ASK { ?x ?p ?y FILTER (?x<3) FILTER (?y>3) }",
            "ASK { ?x ?p ?y FILTER (?x<3&&?y<4) }",
            "ASK { ?x ?p ?y FILTER (?x <= 3||?y>3) }",
            "SELECT (IF(?x<3, ?x>2, ?y) AS ?z) { ?x ?p ?y }",
        ] {
            assert!(parse(text).is_ok(), "{text}: {}", parse(text).err().unwrap());
        }
    }

    #[test]
    fn an_iri_between_two_expressions_is_an_error_at_its_place() {
        for (text, place, token) in [
            ("ASK { ?x ?y ?a, ?b .\n FILTER (?x<?a&&?b>?y) }", (2, 12), "<?a&&?b>"),
            ("ASK { ?x ?p ?y FILTER(?x<3)FILTER(?y>3) }", (1, 25), "<3)FILTER(?y>"),
            ("ASK { ?x ?p ?y FILTER(?x<=3&&?y>3) }", (1, 25), "<=3&&?y>"),
            ("ASK { ?x ?p ?y FILTER(?x<?a&&?b>=3) }", (1, 25), "<?a&&?b>"),
            ("ASK { ?x ?p ?y FILTER(?x<(?y>3)) }", (1, 25), "<(?y>"),
            ("SELECT (IF(?x<3,?x>2,?y) AS ?z) { ?x ?p ?y }", (1, 14), "<3,?x>"),
            ("ASK { ?x ?p <http://e/é> FILTER(?x=<http://e/a,b>||?x<3&&?y>3) }", (1, 54), "<3&&?y>"),
        ] {
            let error = parse(text).err().unwrap_or_else(|| panic!("{text} is read"));
            assert_eq!(((error.line, error.column), &error.kind), (place, &QueryErrorKind::Syntax), "{text}: {error}");
            assert!(error.message.starts_with(&format!("`{token}` is an IRI")), "{error}");
        }
    }
}
