//! The options of a query, as the package hands them over, and a handle to cancel.

use crate::data::OpenData;
use crate::errors::{Failure, Outcome};
use crate::frames::Frame;
use oxrdf::{Literal, NamedNode, Term};
use pyo3::prelude::*;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vicus_service::{Cancel as Handle, DefaultGraph, Limits, ReadGraphs, SessionOptions, Tables, language};

/// A handle that cancels the calls it is given to.
#[pyclass(frozen, module = "vicus")]
#[derive(Default)]
pub(crate) struct Cancel(pub(crate) Handle);

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Cancel {
        Cancel::default()
    }

    /// Cancels the calls with this handle: running ones, and later ones.
    fn cancel(&self, py: Python<'_>) {
        py.detach(|| self.0.cancel());
    }

    /// Whether it has cancelled.
    #[getter]
    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn __repr__(&self) -> String {
        format!("<vicus.Cancel{}>", if self.0.is_cancelled() { ", cancelled" } else { "" })
    }
}

/// A term: its kind (`iri`, `literal`), its text, and a literal's datatype and language.
type GivenTerm = (String, String, Option<String>, Option<String>);

/// The options of a query or an update.
#[derive(FromPyObject, Default)]
#[pyo3(from_item_all)]
pub(crate) struct AskOptions {
    language: Option<String>,
    /// Seconds.
    timeout: Option<f64>,
    memory: Option<u64>,
    most_rows: Option<u64>,
    most_boxes: Option<NonZeroUsize>,
    first_rows: Option<u64>,
    base: Option<String>,
    given: Option<Vec<(String, GivenTerm)>>,
    tables: Option<Vec<(String, Py<Frame>)>>,
    any_order: bool,
    rdf_12: bool,
    /// The graph that is read as the default graph.
    graph: Option<String>,
    /// Whether the default graph is the union of the named ones.
    union: bool,
    cancel: Option<Py<Cancel>>,
}

impl AskOptions {
    pub(crate) fn options(self, held: &OpenData) -> Outcome<SessionOptions> {
        let mut options = SessionOptions::default();
        options.plan.hash_seed = held.hash_seed();
        if let Some(name) = &self.language {
            options.language =
                language(name).ok_or_else(|| Failure::argument(format_args!("there is no language `{name}`")))?;
        }
        options.base = self.base;
        options.given = {
            let given = self.given.unwrap_or_default().into_iter();
            given.map(|(name, term)| Ok((name, term_of(term)?))).collect::<Outcome<_>>()?
        };
        options.parallel_answers = self.any_order;
        options.first_rows = self.first_rows;
        options.languages.sparql.rdf_12 = self.rdf_12;
        options.temporary = held.temporary();
        if let Some(name) = self.graph {
            let default = vec![vicus_service::graph_name(&name).map_err(Failure::argument)?];
            options.graphs = Some(ReadGraphs { default, named: Vec::new() });
        }
        if self.union {
            options.languages.sparql.default_graph = DefaultGraph::Union;
        }
        let time = self.timeout.map(|seconds| {
            Duration::try_from_secs_f64(seconds)
                .map_err(|_| Failure::argument(format_args!("timeout is a number of seconds, and {seconds} is none")))
        });
        options.limits = Limits {
            time: time.transpose()?,
            memory: Some(self.memory.unwrap_or_else(free_limit)),
            rows: self.most_rows,
            most_boxes: self.most_boxes,
            cancel: self.cancel.map(|cancel| cancel.get().0.clone()).unwrap_or_default(),
            ..Limits::default()
        };
        if let Some(frames) = self.tables.filter(|frames| !frames.is_empty()) {
            let mut tables = Tables::default();
            for (name, frame) in frames {
                tables.add(name, frame.get().table());
            }
            options.languages.sql.tables = Arc::new(tables);
        }
        Ok(options)
    }
}

/// The bytes that a call without a limit of its own may hold: half of the free memory, as on the command line, so that
/// a sort of more goes to temporary files. The system is asked once a second at most: that takes as long as a short
/// query.
fn free_limit() -> u64 {
    static TOLD: Mutex<Option<(Instant, u64)>> = Mutex::new(None);
    // A forked child may find it locked for ever.
    let Ok(mut told) = TOLD.try_lock() else { return vicus_cli::free_limit() };
    match *told {
        Some((at, limit)) if at.elapsed() < Duration::from_secs(1) => limit,
        _ => told.insert((Instant::now(), vicus_cli::free_limit())).1,
    }
}

/// A term of its parts.
fn term_of(given: GivenTerm) -> Outcome<Term> {
    let (kind, text, datatype, language) = given;
    let wrong = |what: &str, text: &str, error: &dyn std::fmt::Display| {
        Failure::new("TermError", format_args!("`{text}` is no {what}: {error}"))
    };
    let iri = |text: String| NamedNode::new(text.as_str()).map_err(|error| wrong("IRI", &text, &error));
    Ok(match (kind.as_str(), language, datatype) {
        ("iri", ..) => iri(text)?.into(),
        ("literal", Some(language), _) => {
            let made = Literal::new_language_tagged_literal(text, language.as_str());
            made.map_err(|error| wrong("language tag", &language, &error))?.into()
        }
        ("literal", None, Some(datatype)) => Literal::new_typed_literal(text, iri(datatype)?).into(),
        ("literal", None, None) => Literal::new_simple_literal(text).into(),
        _ => return Err(Failure::new("TermError", format_args!("{text} is neither an IRI nor a literal"))),
    })
}
