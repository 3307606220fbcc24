//! Quads without a text, for graphs of other libraries: what matches a pattern, and changes of single ones.

use crate::data::{Data, Held, Kept, Raise as _};
use crate::errors::{Failure, Outcome};
use crate::wait::interruptible;
use oxrdf::{BlankNode, GraphName, Literal, NamedNode, NamedOrBlankNode, Quad, Term};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use vicus_service::data::{Id, Snapshot, TermView};
use vicus_service::{Cancel, GraphChoice, Matching, change_quads};

/// A term: its kind, its text, and a literal's datatype and language.
type Parts = (String, String, Option<String>, Option<String>);

/// A quad: its terms, where no graph is the default graph, and whether it is to be there.
type Changed = (Parts, Parts, Parts, Option<Parts>, bool);

fn term(parts: Parts) -> Term {
    let (kind, text, datatype, language) = parts;
    // What is no IRI in RDF's sense may be one in that of its owner, who has warned.
    match (kind.as_str(), datatype, language) {
        ("iri", ..) => NamedNode::new_unchecked(text).into(),
        ("blank", ..) => BlankNode::new_unchecked(text).into(),
        (_, _, Some(language)) => Literal::new_language_tagged_literal_unchecked(text, language.to_lowercase()).into(),
        (_, Some(datatype), None) => Literal::new_typed_literal(text, NamedNode::new_unchecked(datatype)).into(),
        (_, None, None) => Literal::new_simple_literal(text).into(),
    }
}

fn quad(changed: Changed) -> Outcome<(Quad, bool)> {
    let (subject, predicate, object, graph, is_there) = changed;
    let wrong = |what: &str, term: &Term| Failure::new("TermError", format_args!("{term} can't be a {what}"));
    let subject = match term(subject) {
        Term::NamedNode(name) => NamedOrBlankNode::from(name),
        Term::BlankNode(name) => name.into(),
        other => return Err(wrong("subject", &other)),
    };
    let predicate = match term(predicate) {
        Term::NamedNode(name) => name,
        other => return Err(wrong("predicate", &other)),
    };
    let graph = match graph.map(term) {
        None => GraphName::DefaultGraph,
        Some(Term::NamedNode(name)) => name.into(),
        Some(Term::BlankNode(name)) => name.into(),
        Some(other) => return Err(wrong("graph's name", &other)),
    };
    Ok((Quad::new(subject, predicate, term(object), graph), is_there))
}

/// The terms of a library that were made for ids already.
#[pyclass(frozen, module = "vicus")]
pub(crate) struct TermCache {
    /// Makes a term of its kind, its text, its datatype and its language.
    make: Py<PyAny>,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    /// The data that the ids are of.
    of: Option<Arc<Snapshot>>,
    terms: HashMap<u64, Py<PyAny>>,
}

/// With more terms, the cache begins anew.
const MOST_TERMS: usize = 1 << 20;

#[pymethods]
impl TermCache {
    #[new]
    fn new(make: Py<PyAny>) -> TermCache {
        TermCache { make, made: Mutex::default() }
    }
}

impl TermCache {
    fn term<'py>(&self, py: Python<'py>, made: &mut Made, snapshot: &Snapshot, id: Id) -> PyResult<Bound<'py, PyAny>> {
        if let Some(term) = made.terms.get(&id.bits()) {
            return Ok(term.bind(py).clone());
        }
        let make = |kind: &str, text: &str, datatype: Option<&str>, language: Option<&str>| {
            self.make.bind(py).call1((kind, text, datatype, language))
        };
        let term = snapshot.view(id, |view| match view {
            TermView::Iri(text) => make("iri", text, None, None),
            TermView::Blank(blank) => make("blank", &blank.to_string(), None, None),
            TermView::String(text) => make("literal", text, None, None),
            TermView::LangString { value, language } | TermView::DirString { value, language, .. } => {
                make("literal", value, None, Some(language))
            }
            TermView::Boolean(value) => make("literal", &value.to_string(), Some(BOOLEAN), None),
            TermView::Integer(value) => make("literal", &value.to_string(), Some(INTEGER), None),
            TermView::Typed { value, datatype } => make("literal", value, Some(datatype), None),
            view @ TermView::Triple(_) => make("triple", &view.to_string(), None, None),
        })?;
        if made.terms.len() >= MOST_TERMS {
            made.terms.clear();
        }
        made.terms.insert(id.bits(), term.clone().unbind());
        Ok(term)
    }
}

const BOOLEAN: &str = "http://www.w3.org/2001/XMLSchema#boolean";
const INTEGER: &str = "http://www.w3.org/2001/XMLSchema#integer";

/// Quads that match a pattern.
#[pyclass(frozen, module = "vicus")]
pub(crate) struct Matches {
    found: Mutex<Matching>,
    held: Arc<Held>,
    with_graph: bool,
}

#[pymethods]
impl Matches {
    /// The next quads as tuples, so many at most; none at the end.
    fn fetch<'py>(&self, py: Python<'py>, most: usize, cache: &TermCache) -> PyResult<Bound<'py, PyList>> {
        self.held.check_here().raise(py, None)?;
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let quads = found.next(most);
        let snapshot = found.snapshot();
        let mut made = cache.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.of.as_ref().is_none_or(|of| !Arc::ptr_eq(of, snapshot)) {
            *made = Made { of: Some(Arc::clone(snapshot)), terms: HashMap::new() };
        }
        let rows = PyList::empty(py);
        for quad in quads {
            let mut cells = Vec::with_capacity(4);
            for id in &quad[..3] {
                cells.push(cache.term(py, &mut made, snapshot, *id)?);
            }
            if self.with_graph {
                cells.push(match quad[3].is_unbound() {
                    true => py.None().into_bound(py),
                    false => cache.term(py, &mut made, snapshot, quad[3])?,
                });
            }
            rows.append(PyTuple::new(py, cells)?)?;
        }
        Ok(rows)
    }

    /// How many quads are left.
    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.found.lock().unwrap_or_else(PoisonError::into_inner).count())
    }
}

/// The quads with these terms; `graphs` is `default`, `all`, or `named` for that of the name.
#[pyfunction]
pub(crate) fn matching(
    py: Python<'_>,
    data: &Data,
    subject: Option<Parts>,
    predicate: Option<Parts>,
    object: Option<Parts>,
    graphs: &str,
    graph: Option<Parts>,
) -> PyResult<Matches> {
    let made = || -> Outcome<Matches> {
        let held = data.held()?;
        let dataset = held.dataset();
        let [subject, predicate, object, graph] = [subject, predicate, object, graph].map(|parts| parts.map(term));
        let graph = match (graphs, &graph) {
            ("default", _) => GraphChoice::Default,
            ("all", _) => GraphChoice::All,
            (_, Some(graph)) => GraphChoice::Named(graph.as_ref()),
            (_, None) => return Err(Failure::argument("a graph's name is missing")),
        };
        let pattern = [&subject, &predicate, &object].map(|term| term.as_ref().map(Term::as_ref));
        let found = Mutex::new(Matching::new(&dataset, pattern, graph));
        Ok(Matches { found, held, with_graph: graphs == "all" })
    };
    made().raise(py, None)
}

/// The names of all graphs with quads.
#[pyfunction]
pub(crate) fn graphs<'py>(py: Python<'py>, data: &Data, cache: &TermCache) -> PyResult<Bound<'py, PyList>> {
    let held = data.held().raise(py, None)?;
    let dataset = held.dataset();
    let snapshot = dataset.snapshot();
    let mut made = cache.made.lock().unwrap_or_else(PoisonError::into_inner);
    if made.of.as_ref().is_none_or(|of| !Arc::ptr_eq(of, snapshot)) {
        *made = Made { of: Some(Arc::clone(snapshot)), terms: HashMap::new() };
    }
    let names = PyList::empty(py);
    for name in snapshot.graphs() {
        names.append(cache.term(py, &mut made, snapshot, name)?)?;
    }
    Ok(names)
}

/// Changes single quads, all of them at once.
#[pyfunction]
pub(crate) fn change(py: Python<'_>, data: &Data, quads: Vec<Changed>) -> PyResult<()> {
    let changed = || -> Outcome {
        let held = data.held()?;
        held.check_writable()?;
        let quads = quads.into_iter().map(quad).collect::<Outcome<Vec<_>>>()?;
        let of = |error: Arc<dyn std::error::Error + Send + Sync>| Failure::new("StoreError", error);
        interruptible(py, &Cancel::new(), || match held.kept() {
            Kept::Memory(shared) => {
                let mut draft = shared.draft();
                change_quads(&mut draft, &quads).map_err(of)?;
                draft.commit();
                Ok(())
            }
            Kept::Folder { store, .. } => {
                let mut transaction = store.write()?;
                change_quads(&mut transaction, &quads).map_err(of)?;
                transaction.commit()?;
                Ok(())
            }
            Kept::Fixed(_) => held.check_writable(),
        })
    };
    changed().raise(py, None)
}
