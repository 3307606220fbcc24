//! The options of a query, as the package hands them over, and a handle to cancel.

use crate::data::Site;
use crate::errors::{Failure, Outcome};
use crate::frames::Frame;
use crate::wait::seconds;
use oxrdf::{BaseDirection, Literal, NamedNode, Term};
use pyo3::exceptions::PyUnicodeEncodeError;
use pyo3::prelude::*;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vicus_service::{
    CallLimits, Cancel as Handle, DefaultGraph, ReadGraphs, SessionOptions, Tables, Web, WebOptions, language,
};

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

    /// A handle that cancels when this one does, and that can cancel alone.
    fn child(&self) -> Cancel {
        Cancel(self.0.child())
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
    /// Whether a query with an unknown function is refused.
    strict_functions: bool,
    /// The graph that is read as the default graph.
    graph: Option<String>,
    /// Whether the default graph is the union of the named ones.
    union: bool,
    /// The servers for SERVICE and LOAD: prefixes of URLs, or `all`.
    allow_service: Vec<String>,
    /// The folder of files for LOAD.
    load_folder: Option<PathBuf>,
    cancel: Option<Py<Cancel>>,
}

impl AskOptions {
    /// Whether a text with these options has the same plan as with none, but for its order.
    pub(crate) fn is_plain(&self) -> bool {
        let has_language = self.language.as_deref().is_some_and(|name| name != "sparql");
        let has_values = self.base.is_some() || self.given.is_some() || self.tables.is_some();
        let has_others = !self.allow_service.is_empty() || self.load_folder.is_some();
        !has_language
            && !has_values
            && !has_others
            && !self.rdf_12
            && !self.strict_functions
            && self.graph.is_none()
            && !self.union
    }

    pub(crate) fn options(self, site: &Site) -> Outcome<SessionOptions> {
        let mut options = SessionOptions::default();
        options.plan.hash_seed = site.threads.hash_seed;
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
        options.languages.sparql.strict_functions = self.strict_functions;
        options.temporary = site.temporary.clone();
        options.peers.clone_from(&site.peers);
        if let Some(name) = self.graph {
            let default = vec![vicus_service::graph_name(&name).map_err(Failure::argument)?];
            options.graphs = Some(ReadGraphs { default, named: Vec::new() });
        }
        if self.union {
            options.languages.sparql.default_graph = DefaultGraph::Union;
        }
        if !self.allow_service.is_empty() {
            let permit =
                |text: String| text.parse().map_err(|why| Failure::argument(format_args!("allow_service: {why}")));
            let permits = self.allow_service.into_iter().map(permit).collect::<Outcome<_>>()?;
            options.web = Arc::new(Web::new(WebOptions { permits, ..WebOptions::default() }));
        }
        options.folder = self.load_folder;
        let time = self.timeout.map(seconds);
        options.limits = CallLimits {
            time: time.transpose()?,
            memory: Some(self.memory.unwrap_or_else(free_limit)),
            rows: self.most_rows,
            most_boxes: self.most_boxes,
            // Ctrl-C ends this call, and no other one with the same handle.
            cancel: self.cancel.map(|cancel| cancel.get().0.child()).unwrap_or_default(),
            ..CallLimits::default()
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
        ("literal", Some(tag), _) => {
            let directed = [("--ltr", BaseDirection::Ltr), ("--rtl", BaseDirection::Rtl)];
            let directed = directed.iter().find_map(|(end, way)| Some((tag.strip_suffix(end)?, *way)));
            let made = match directed {
                Some((language, way)) => Literal::new_directional_language_tagged_literal(text, language, way),
                None => Literal::new_language_tagged_literal(text, tag.as_str()),
            };
            made.map_err(|error| wrong("language tag", &tag, &error))?.into()
        }
        ("literal", None, Some(datatype)) => Literal::new_typed_literal(text, iri(datatype)?).into(),
        ("literal", None, None) => Literal::new_simple_literal(text).into(),
        _ => return Err(Failure::new("TermError", format_args!("{text} is neither an IRI nor a literal"))),
    })
}

/// A text of Python as UTF-8. One with a lone surrogate is refused with its place.
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl<'a, 'py> FromPyObject<'a, 'py> for Text<'a> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Text<'a>> {
        <&str>::extract(object).map(Text).map_err(|error| {
            let py = object.py();
            if !error.is_instance_of::<PyUnicodeEncodeError>(py) {
                return error;
            }
            let made = || -> PyResult<PyErr> {
                let make = py.import("vicus._errors")?.getattr("_surrogate")?;
                Ok(PyErr::from_value(make.call1((object, error.value(py)))?))
            };
            made().unwrap_or(error)
        })
    }
}
