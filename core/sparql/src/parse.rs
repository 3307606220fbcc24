//! From text to a checked query.

use crate::error::QueryError;
use crate::plan::Form;
use crate::stack::of_planned;
use crate::syntax::ast::{Dataset, Query};
use crate::syntax::{self, ParseOptions};
use oxrdf::NamedNode;
use std::fmt;
use vicus_language::stack::{Deep, LEVEL, of_levels};

/// A query with a valid text, supported by this engine.
pub struct ParsedQuery {
    pub(crate) query: Deep<Query>,
}

impl ParsedQuery {
    /// The form of the query's answer.
    pub fn form(&self) -> Form {
        Form::of(&self.query)
    }

    /// Has the query read these graphs, in place of FROM and FROM NAMED in its text: the default graph is the merge of
    /// the first, and the named graphs are the second (SPARQL 1.1 Protocol, §2.1.4).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxrdf::NamedNode;
    /// # use vicus_rdf::Snapshot;
    /// use vicus_sparql::{PlanOptions, parse, plan};
    /// let mut parsed = parse("ASK FROM <http://e/one> { ?s ?p ?o }")?;
    /// parsed.set_dataset(vec![NamedNode::new("http://e/two")?], Vec::new());
    /// # plan(&Arc::new(Snapshot::of_ntriples(b"")?), &parsed, PlanOptions::default())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_dataset(&mut self, default: Vec<NamedNode>, named: Vec<NamedNode>) {
        self.query.dataset = Some(Dataset { default, named: Some(named) });
    }
}

impl Clone for ParsedQuery {
    fn clone(&self) -> ParsedQuery {
        let levels = self.query.levels();
        ParsedQuery { query: Deep::new(levels, of_planned(levels, || Query::clone(&self.query))) }
    }
}

impl fmt::Debug for ParsedQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        of_planned(self.query.levels(), || f.debug_struct("ParsedQuery").field("query", &*self.query).finish())
    }
}

/// Reads a query.
///
/// ```
/// use vicus_sparql::{QueryErrorKind, parse};
/// assert!(parse("ASK { ?s ?p ?o }").is_ok());
/// assert!(parse("DESCRIBE <http://e/x>").is_ok());
/// let error = parse("INSERT DATA { <http://e/x> <http://e/y> 1 }").err().unwrap();
/// assert_eq!(error.to_string(), "line 1, column 1: `INSERT` begins an update, and a query is expected here");
/// assert_eq!(error.kind, QueryErrorKind::Syntax);
/// ```
///
/// # Errors
/// The text breaks the grammar, or asks for something not supported yet.
pub fn parse(text: &str) -> Result<ParsedQuery, QueryError> {
    parse_with(text, &ParseOptions::default())
}

/// Like [`parse()`], with a base and limits. Takes time and memory in proportion to the text's length.
///
/// ```
/// use vicus_sparql::{ParseOptions, parse, parse_with};
/// let options = ParseOptions { base: Some("http://e/"), ..ParseOptions::default() };
/// assert!(parse_with("ASK { <here> ?p ?o }", &options).is_ok());
/// assert!(parse("ASK { <here> ?p ?o }").is_err());
/// ```
///
/// # Errors
/// Errors of [`parse()`]; also if the base is not an absolute IRI, or the text exceeds a limit.
pub fn parse_with(text: &str, options: &ParseOptions<'_>) -> Result<ParsedQuery, QueryError> {
    // After an error, the tree read so far is dropped here, with enough stack.
    let query =
        of_levels(options.depth.min(ParseOptions::MOST_DEPTH).min(text.len()), LEVEL, || syntax::read(text, options))?;
    Ok(ParsedQuery { query: Deep::new(query.depth, query) })
}
