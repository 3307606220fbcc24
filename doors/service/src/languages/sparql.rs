//! SPARQL over the dataset of a session.

use super::{CheckedText, LanguageOptions, QueryLanguage, Question, TextOption, TextReading};
use crate::error::Error;
use crate::session::{Call, Prepared, ReadGraphs, Session, SessionOptions, reading};
use std::sync::Arc;
use vicus_language::{Completion, Remark, TextError, TextErrorKind, Watch};
use vicus_rdf::{Snapshot, TermLimits};
use vicus_sparql::{
    DefaultGraph, Form, ParseOptions, ParsedQuery, QueryError, QueryErrorKind, QueryLimits, QueryOptions, Sparql,
    complete, parse, parse_with, parsing_bytes_with, remarks,
};

/// The deepest nesting that [`SessionOptions::text`] can allow.
pub const MOST_DEPTH: usize = ParseOptions::MOST_DEPTH;

/// The options of SPARQL's queries and updates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SparqlOptions {
    /// How many bytes longer a text may become when its names are written out, for each byte of it and for 1024 more.
    pub longer: usize,
    /// How many signs of property paths may be counted again because their path has another object; for long texts one
    /// more for four bytes.
    pub path_signs: usize,
    /// Whether a call of an unknown function makes a text wrong. Otherwise the call is an error, which a FILTER takes
    /// for false.
    pub strict_functions: bool,
    /// Whether texts may have the syntax of SPARQL 1.2, and documents of LOAD that of RDF 1.2.
    pub rdf_12: bool,
    /// The default graph of a query without FROM.
    pub default_graph: DefaultGraph,
    /// The greatest number of bytes of a hash table: see [`QueryOptions::cache_bytes`].
    pub cache_bytes: u64,
    /// Limits inside of planning and of boxes.
    pub limits: QueryLimits,
}

impl Default for SparqlOptions {
    /// Those of the language itself: no strict functions, SPARQL 1.1, the default graph of its own.
    fn default() -> SparqlOptions {
        let ParseOptions { longer, path_signs, strict_functions, rdf_12, .. } = ParseOptions::default();
        let QueryOptions { default_graph, cache_bytes, limits, .. } = QueryOptions::default();
        SparqlOptions { longer, path_signs, strict_functions, rdf_12, default_graph, cache_bytes, limits }
    }
}

/// How texts of SPARQL are read in a session with these options.
pub(crate) fn parse_options(session: &SessionOptions) -> ParseOptions<'_> {
    let SparqlOptions { longer, path_signs, strict_functions, rdf_12, .. } = session.languages.sparql;
    let (base, bytes, depth) = (session.base.as_deref(), session.text.bytes, session.text.depth);
    let longest = TermLimits { iri: session.longest_iri, ..TermLimits::default() };
    let given = &session.given[..];
    ParseOptions { base, bytes, longer, path_signs, depth, strict_functions, rdf_12, longest, given }
}

/// SPARQL over a session's dataset, by its options.
pub(crate) fn sparql(session: &Session) -> Sparql<'_> {
    let options = session.options();
    let SparqlOptions { default_graph, cache_bytes, limits, .. } = options.languages.sparql;
    let plan = QueryOptions { default_graph, cache_bytes, limits, ..QueryOptions::default() };
    let graphs = options.graphs.as_ref().map(|ReadGraphs { default, named }| (&default[..], &named[..]));
    Sparql { snapshot: session.dataset().snapshot(), parse: parse_options(options), plan, graphs }
}

/// Queries of SPARQL, as a door names them.
#[derive(Debug)]
pub(super) struct SparqlTexts;

impl QueryLanguage for SparqlTexts {
    fn name(&self) -> &'static str {
        "sparql"
    }

    fn number(&self) -> u32 {
        0
    }

    fn about(&self) -> &'static str {
        "SPARQL 1.1"
    }

    fn media_types(&self) -> &'static [&'static str] {
        &["application/sparql-query"]
    }

    fn needs_data(&self) -> bool {
        true
    }

    fn reads_files(&self) -> bool {
        false
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn has_updates(&self) -> bool {
        true
    }

    fn read(&self, text: &str, reading: &TextReading<'_>) -> Result<CheckedText, Error> {
        let options = parse_options(reading.options());
        reading.read(&SparqlTexts, text, parsing_bytes_with(text, &options), || {
            let mut parsed = parse_with(text, &options)?;
            if let Some(ReadGraphs { default, named }) = &reading.options().graphs {
                parsed.set_dataset(default.clone(), named.clone());
            }
            Ok(parsed)
        })
    }

    fn question(&self, checked: &CheckedText) -> Question {
        let form = checked.parsed::<ParsedQuery>().form();
        let word = match form {
            Form::Select { .. } => "select",
            Form::Ask => "ask",
            Form::Construct => "construct",
            Form::Describe => "describe",
        };
        Question { word, answer: form.answer() }
    }

    fn plan(&self, call: &Call, checked: &CheckedText) -> Result<Arc<Prepared>, Error> {
        call.plan_in(&sparql(&call.session), checked.parsed::<ParsedQuery>(), checked)
    }

    fn remarks(&self, call: &Call, checked: &CheckedText) -> Result<Vec<Remark>, Error> {
        let snapshot = call.session.dataset().snapshot();
        let default_graph = call.session.options().languages.sparql.default_graph;
        let ends = call.ends();
        let all = || remarks(checked.parsed::<ParsedQuery>(), snapshot, default_graph, &|| ends());
        reading(snapshot, "remarks", all)
    }

    fn complete(
        &self,
        text: &str,
        cursor: usize,
        data: &Snapshot,
        _options: &LanguageOptions,
        watch: &dyn Watch,
    ) -> Completion {
        complete(text, cursor, data, watch)
    }

    fn option_of(&self, error: &TextError) -> Option<TextOption> {
        match error.kind {
            TextErrorKind::TooLong => Some(TextOption::Bytes),
            TextErrorKind::TooDeep => Some(TextOption::Depth),
            TextErrorKind::TooManySteps => Some(TextOption::PlanSteps),
            _ => match error.own::<QueryError>()?.kind {
                QueryErrorKind::NamesTooLong => Some(TextOption::Longer),
                QueryErrorKind::TooManySigns => Some(TextOption::PathSigns),
                QueryErrorKind::WrongBase => Some(TextOption::Base),
                _ => None,
            },
        }
    }
}

/// Whether texts may declare this prefix for this IRI.
///
/// ```
/// assert!(vicus_service::is_prefix("ex", "http://example.org/"));
/// assert!(!vicus_service::is_prefix("e x", "http://example.org/"));
/// ```
pub fn is_prefix(name: &str, iri: &str) -> bool {
    parse(&format!("PREFIX {name}: <{iri}> ASK {{}}")).is_ok()
}
