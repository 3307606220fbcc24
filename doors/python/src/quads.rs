//! Quads without a text, for graphs of other libraries: what matches a pattern, and changes of single ones.

use crate::data::{Data, DataStore, OpenData, Raise as _};
use crate::errors::{Failure, Outcome};
use crate::wait::{asking, interruptible, unless_cancelled};
use oxrdf::{BlankNode, GraphName, Literal, NamedNode, NamedOrBlankNode, Quad, Term};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vicus_service::data::{Id, Snapshot, TermView};
use vicus_service::{Cancel, Dataset, GraphChoice, Matching, Updating as _, change_quads};

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
    made: Mutex<MadeTerms>,
}

#[derive(Default)]
struct MadeTerms {
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

/// A copy of what a term is made of: kind, text, datatype and language.
fn parts(snapshot: &Snapshot, id: Id) -> Parts {
    let made = |kind: &str, text: String, datatype: Option<&str>, language: Option<&str>| {
        (kind.to_owned(), text, datatype.map(str::to_owned), language.map(str::to_owned))
    };
    snapshot.view(id, |view| match view {
        TermView::Iri(text) => made("iri", text.to_owned(), None, None),
        TermView::Blank(blank) => made("blank", blank.to_string(), None, None),
        TermView::String(text) => made("literal", text.to_owned(), None, None),
        TermView::LangString { value, language } | TermView::DirString { value, language, .. } => {
            made("literal", value.to_owned(), None, Some(language))
        }
        TermView::Boolean(value) => made("literal", value.to_string(), Some(BOOLEAN), None),
        TermView::Integer(value) => made("literal", value.to_string(), Some(INTEGER), None),
        TermView::Typed { value, datatype } => made("literal", value.to_owned(), Some(datatype), None),
        view @ TermView::Triple(_) => made("triple", view.to_string(), None, None),
    })
}

impl MadeTerms {
    /// Turns to other data. Returns the terms of the data before, to be dropped without the lock: the end of a term of
    /// Python may run Python.
    #[must_use]
    fn turn_to(&mut self, snapshot: &Arc<Snapshot>) -> Option<MadeTerms> {
        let is_same = self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, snapshot));
        (!is_same).then(|| std::mem::replace(self, MadeTerms { of: Some(Arc::clone(snapshot)), terms: HashMap::new() }))
    }
}

impl TermCache {
    fn made(&self) -> MutexGuard<'_, MadeTerms> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The terms of ids; none for that of the default graph. The lock is held for counts of references alone: a thread
    /// that called Python under it would wait for the interpreter, which another thread may have while it waits for the
    /// lock.
    fn terms<'py>(&self, py: Python<'py>, data: &Dataset, ids: &[Id]) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let snapshot = data.snapshot();
        let (known, before): (Vec<Option<Bound<'py, PyAny>>>, _) = {
            let mut made = self.made();
            let before = made.turn_to(snapshot);
            let known = |id: &Id| match id.is_unbound() {
                true => Some(py.None().into_bound(py)),
                false => made.terms.get(&id.bits()).map(|term| term.bind(py).clone()),
            };
            (ids.iter().map(known).collect(), before)
        };
        drop(before);
        let of_missing = ids.iter().zip(&known).filter(|(_, known)| known.is_none());
        let mut missing: Vec<Id> = of_missing.map(|(id, _)| *id).collect();
        missing.sort_unstable_by_key(|id| id.bits());
        missing.dedup();
        if missing.is_empty() {
            return Ok(known.into_iter().flatten().collect());
        }
        let read = || data.read(|snapshot| missing.iter().map(|id| parts(snapshot, *id)).collect::<Vec<_>>());
        let parts = py.detach(read).map_err(Failure::from).raise(py, None)?;
        let make = |(kind, text, datatype, language): Parts| self.make.bind(py).call1((kind, text, datatype, language));
        let fresh = parts.into_iter().map(make).collect::<PyResult<Vec<_>>>()?;
        let before = {
            let mut made = self.made();
            let is_full = made.terms.len() >= MOST_TERMS;
            let before = is_full.then(|| std::mem::take(&mut made.terms));
            // Another thread may have turned it to other data.
            if made.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, snapshot)) {
                for (id, term) in missing.iter().zip(&fresh) {
                    made.terms.entry(id.bits()).or_insert_with(|| term.clone().unbind());
                }
            }
            before
        };
        drop(before);
        let made = |(id, known): (&Id, Option<Bound<'py, PyAny>>)| {
            known.unwrap_or_else(|| {
                let place = missing.binary_search_by_key(&id.bits(), |id| id.bits());
                fresh[place.expect("each id that was not known was missing")].clone()
            })
        };
        Ok(ids.iter().zip(known).map(made).collect())
    }
}

const BOOLEAN: &str = "http://www.w3.org/2001/XMLSchema#boolean";
const INTEGER: &str = "http://www.w3.org/2001/XMLSchema#integer";

/// Quads that match a pattern.
#[pyclass(frozen, module = "vicus")]
pub(crate) struct Matches {
    found: Mutex<Matching>,
    held: Arc<OpenData>,
    with_graph: bool,
}

#[pymethods]
impl Matches {
    /// The next quads as tuples, so many at most; none at the end.
    fn fetch<'py>(&self, py: Python<'py>, most: usize, cache: &TermCache) -> PyResult<Bound<'py, PyList>> {
        self.held.check_here().raise(py, None)?;
        let (quads, data) = loop {
            let next = py.detach(|| {
                let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
                found.next(most).map(|quads| (quads, Dataset::new(Arc::clone(found.snapshot()))))
            });
            match next.map_err(Failure::from).raise(py, None)? {
                // Many rows were looked at, of which none matches.
                (Some(quads), _) if quads.is_empty() && most > 0 => py.check_signals()?,
                (quads, data) => break (quads.unwrap_or_default(), data),
            }
        };
        let width = if self.with_graph { 4 } else { 3 };
        let ids: Vec<Id> = quads.iter().flat_map(|quad| &quad[..width]).copied().collect();
        let terms = cache.terms(py, &data, &ids)?;
        let rows = PyList::empty(py);
        for cells in terms.chunks_exact(width) {
            rows.append(PyTuple::new(py, cells)?)?;
        }
        Ok(rows)
    }

    /// How many quads are left.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.held.check_here().raise(py, None)?;
        let counted = py.detach(|| self.found.lock().unwrap_or_else(PoisonError::into_inner).count());
        counted.map_err(Failure::from).raise(py, None)
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
        let found = Mutex::new(py.detach(|| Matching::new(&dataset, pattern, graph))?);
        Ok(Matches { found, held, with_graph: graphs == "all" })
    };
    made().raise(py, None)
}

/// The names of all graphs with quads.
#[pyfunction]
pub(crate) fn graphs<'py>(py: Python<'py>, data: &Data, cache: &TermCache) -> PyResult<Bound<'py, PyList>> {
    let held = data.held().raise(py, None)?;
    let dataset = held.dataset();
    let names = py.detach(|| dataset.read(|snapshot| snapshot.graphs().collect::<Vec<Id>>()));
    let names = names.map_err(Failure::from).raise(py, None)?;
    PyList::new(py, cache.terms(py, &dataset, &names)?)
}

/// Changes single quads, all of them at once.
#[pyfunction]
pub(crate) fn change(py: Python<'_>, data: &Data, quads: Vec<Changed>) -> PyResult<()> {
    let changed = || -> Outcome {
        let held = data.held()?;
        held.check_writable()?;
        let quads = quads.into_iter().map(quad).collect::<Outcome<Vec<_>>>()?;
        let of = |error: Arc<dyn std::error::Error + Send + Sync>| Failure::new("StoreError", error);
        let cancel = Cancel::new();
        interruptible(py, &cancel, || match held.kept() {
            DataStore::Memory(shared) => {
                let mut draft = shared.draft();
                draft.ask(asking(&cancel));
                change_quads(&mut draft, &quads).map_err(unless_cancelled(&cancel, of))?;
                draft.commit();
                Ok(())
            }
            DataStore::Folder { store, .. } => {
                let begun = store.write_asking(asking(&cancel));
                let mut transaction = begun.map_err(unless_cancelled(&cancel, Failure::from))?;
                change_quads(&mut transaction, &quads).map_err(unless_cancelled(&cancel, of))?;
                transaction.commit()?;
                Ok(())
            }
            DataStore::Fixed(_) => held.check_writable(),
        })
    };
    changed().raise(py, None)
}
