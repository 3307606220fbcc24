//! From text to a checked query. The grammar is spargebra's.

use crate::error::{QueryError, QueryErrorKind};
use crate::translate;
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
/// ```
///
/// # Errors
/// Where the text breaks the grammar, or what it asks for that is not supported yet.
pub fn parse(text: &str) -> Result<Parsed, QueryError> {
    let query = SparqlParser::new().parse_query(text).map_err(|error| syntax_error(&error.to_string()))?;
    // What is not supported should be known before there is any data.
    translate::translate(&query, &mut |_| Id::UNBOUND)?;
    Ok(Parsed { query })
}

/// spargebra tells the place in its message alone: `error at 2:15: expected ...`.
fn syntax_error(message: &str) -> QueryError {
    let place = message.strip_prefix("error at ").and_then(|rest| {
        let (line, rest) = rest.split_once(':')?;
        let (column, rest) = rest.split_once(':')?;
        Some((line.parse().ok()?, column.parse().ok()?, rest.trim()))
    });
    let (line, column, message) = place.unwrap_or((0, 0, message));
    QueryError { message: message.to_owned(), line, column, kind: QueryErrorKind::Syntax }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syntax_error_says_where() {
        let error = parse("SELECT ?s WHERE {\n  ?s ?p ?o .\n  FILTER (?o = )\n}").err().unwrap();
        assert_eq!((error.line, error.column, error.kind), (3, 16, QueryErrorKind::Syntax));
        let error = parse("").err().unwrap();
        assert_eq!((error.line, error.column), (1, 1));
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (text, what) in [
            ("CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }", "CONSTRUCT queries"),
            ("SELECT * { ?s <http://e/p>* ?o }", "property paths of any length"),
            ("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", "GROUP BY and aggregates"),
            ("SELECT * { GRAPH ?g { ?s ?p ?o } }", "GRAPH patterns"),
            ("SELECT * FROM <http://e/g> { ?s ?p ?o }", "FROM clauses"),
            ("SELECT * { SERVICE <http://e/s> { ?s ?p ?o } }", "SERVICE patterns"),
            ("ASK { ?s ?p ?o FILTER EXISTS { ?o ?p ?s } }", "EXISTS filters"),
            ("ASK { ?s ?p ?o FILTER (MD5(?o) = 'x') }", "calls of MD5"),
        ] {
            let error = parse(text).err().unwrap_or_else(|| panic!("{text} is refused"));
            assert_eq!(error.kind, QueryErrorKind::Unsupported { what: what.to_owned() }, "{text}");
        }
    }
}
