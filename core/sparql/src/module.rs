//! SPARQL as a language module.

use crate::cost::parsing_bytes_with;
use crate::error::QueryError;
use crate::parse::{ParsedQuery, parse_with};
use crate::plan::{QueryOptions, SparqlPlan, plan_until};
use crate::syntax::ParseOptions;
use oxrdf::NamedNode;
use std::sync::Arc;
use vicus_language::{Compiler, PlanOptions, TextLimits, Watch};
use vicus_rdf::Snapshot;

/// SPARQL's queries over a snapshot.
///
/// ```
/// use std::sync::Arc;
/// use vicus_language::{Answer, Compiler, Planned, TextError, TextLimits};
/// use vicus_rdf::Snapshot;
/// use vicus_sparql::Sparql;
///
/// let snapshot = Arc::new(Snapshot::of_ntriples(b"<http://e/ann> <http://e/knows> <http://e/bob> .").unwrap());
/// let sparql = Sparql::over(&snapshot);
/// let parsed = sparql.parse("SELECT ?who { ?who ?p ?o }", &TextLimits::default())?;
/// let plan = sparql.plan(&parsed, &sparql.plan.common, &|| false)?;
/// assert_eq!(*Planned::answer(&plan), Answer::Rows { columns: vec!["who".to_owned()] });
/// let error: TextError = sparql.parse("SELECT", &TextLimits::default()).unwrap_err().into();
/// assert_eq!(error.place.column, 7);
/// # Ok::<(), vicus_sparql::QueryError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sparql<'a> {
    /// The data.
    pub snapshot: &'a Arc<Snapshot>,
    /// How texts are read; their limits are the door's if these are lower.
    pub parse: ParseOptions<'a>,
    /// The options of planning, except those common to all languages.
    pub plan: QueryOptions,
    /// The graphs to read, in place of those in the text ([`ParsedQuery::set_dataset`]).
    pub graphs: Option<(&'a [NamedNode], &'a [NamedNode])>,
}

impl<'a> Sparql<'a> {
    /// With the default options.
    pub fn over(snapshot: &'a Arc<Snapshot>) -> Sparql<'a> {
        Sparql { snapshot, parse: ParseOptions::default(), plan: QueryOptions::default(), graphs: None }
    }
}

impl Compiler for Sparql<'_> {
    type Parsed = ParsedQuery;
    type Plan = SparqlPlan;
    type Error = QueryError;

    fn name(&self) -> &'static str {
        "SPARQL"
    }

    fn parsing_bytes(&self, text: &str) -> u64 {
        parsing_bytes_with(text, &self.parse)
    }

    fn parse(&self, text: &str, limits: &TextLimits) -> Result<ParsedQuery, QueryError> {
        let (bytes, depth) = (self.parse.bytes.min(limits.bytes), self.parse.depth.min(limits.depth));
        let mut parsed = parse_with(text, &ParseOptions { bytes, depth, ..self.parse.clone() })?;
        if let Some((default, named)) = self.graphs {
            parsed.set_dataset(default.to_vec(), named.to_vec());
        }
        Ok(parsed)
    }

    fn plan(&self, parsed: &ParsedQuery, options: &PlanOptions, watch: &dyn Watch) -> Result<SparqlPlan, QueryError> {
        plan_until(self.snapshot, parsed, QueryOptions { common: *options, ..self.plan }, watch)
    }
}
