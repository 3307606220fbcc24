//! Quads without a text, for graphs of other libraries: what matches a pattern, and changes of single ones.

use crate::data::{Data, DataStore, OpenData, Raise as _};
use crate::errors::{Failure, Outcome};
use crate::wait::{Bounds, interruptible};
use oxrdf::{
    BlankNode, BlankNodeRef, GraphName, Literal, LiteralRef, NamedNode, NamedNodeRef, NamedOrBlankNode, Quad, Term,
    TermRef,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple, PyType};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vicus_service::data::{Id, Snapshot, TermView};
use vicus_service::{Cancel, Dataset, Error, Matching, Updating as _, change_quads};

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
    /// The library's classes of IRIs, blank nodes and literals.
    pub(crate) classes: [Py<PyType>; 3],
    made: Mutex<MadeTerms>,
}

#[derive(Default)]
struct MadeTerms {
    /// The data that the ids are of.
    of: Option<Arc<Snapshot>>,
    terms: FxHashMap<u64, Py<PyAny>>,
    /// Ids of terms that were sought, by their classes and texts; none of those that the data lacks. Of literals, those
    /// that are texts alone.
    ids: [FxHashMap<Box<str>, Option<Id>>; 3],
}

/// With more terms, the cache begins anew.
const MOST_TERMS: usize = 1 << 20;

#[pymethods]
impl TermCache {
    #[new]
    fn new(make: Py<PyAny>, iri: Py<PyType>, blank: Py<PyType>, literal: Py<PyType>) -> TermCache {
        TermCache { make, classes: [iri, blank, literal], made: Mutex::default() }
    }
}

/// The texts of a term of a library, which Python keeps.
pub(crate) struct Texts<'py> {
    text: Bound<'py, PyString>,
    datatype: Option<Bound<'py, PyString>>,
    language: Option<String>,
}

impl<'py> Texts<'py> {
    pub(crate) fn of(term: &Bound<'py, PyAny>, classes: &[Py<PyType>; 3]) -> PyResult<Option<(usize, Texts<'py>)>> {
        let py = term.py();
        let class = term.get_type();
        // A class below these is as rare as it is slow.
        let exact = classes.iter().position(|known| class.as_ptr() == known.as_ptr());
        let known =
            exact.or_else(|| classes.iter().position(|known| class.is_subclass(known.bind(py)).unwrap_or(false)));
        let (Some(known), Ok(text)) = (known, term.cast::<PyString>()) else { return Ok(None) };
        let mut texts = Texts { text: text.clone(), datatype: None, language: None };
        if known == LITERAL {
            let language = term.getattr(intern!(py, "language"))?;
            if language.is_none() {
                texts.datatype = term.getattr(intern!(py, "datatype"))?.cast_into().ok();
            } else {
                texts.language = Some(language.extract::<String>()?.to_lowercase());
            }
        }
        Ok(Some((known, texts)))
    }

    /// The term; none if a text has a lone surrogate.
    fn term(&self, class: usize) -> Option<TermRef<'_>> {
        let text = self.text.to_str().ok()?;
        Some(match (class, &self.datatype, &self.language) {
            (IRI, ..) => NamedNodeRef::new_unchecked(text).into(),
            (BLANK, ..) => BlankNodeRef::new_unchecked(text).into(),
            (_, _, Some(language)) => LiteralRef::new_language_tagged_literal_unchecked(text, language).into(),
            (_, Some(datatype), None) => {
                LiteralRef::new_typed_literal(text, NamedNodeRef::new_unchecked(datatype.to_str().ok()?)).into()
            }
            (_, None, None) => LiteralRef::new_simple_literal(text).into(),
        })
    }

    /// The text, if it is all of the term.
    fn alone(&self) -> Option<&str> {
        let is_alone = self.datatype.is_none() && self.language.is_none();
        self.text.to_str().ok().filter(|_| is_alone)
    }
}

/// The places of classes.
const IRI: usize = 0;
const BLANK: usize = 1;
const LITERAL: usize = 2;

/// The parts of a term: kind, text, datatype and language.
pub(crate) fn parts_of(view: TermView<'_>) -> (&'static str, Cow<'_, str>, Option<&str>, Option<&str>) {
    match view {
        TermView::Iri(text) => ("iri", text.into(), None, None),
        TermView::Blank(blank) => ("blank", blank.to_string().into(), None, None),
        TermView::String(text) => ("literal", text.into(), None, None),
        // rdflib's literals have no direction.
        TermView::LangString { value, language } | TermView::DirString { value, language, .. } => {
            ("literal", value.into(), None, Some(language))
        }
        TermView::Boolean(value) => ("literal", value.to_string().into(), Some(BOOLEAN), None),
        TermView::Integer(value) => ("literal", value.to_string().into(), Some(INTEGER), None),
        TermView::Typed { value, datatype } => ("literal", value.into(), Some(datatype), None),
        view @ TermView::Triple(_) => ("triple", view.to_string().into(), None, None),
    }
}

/// A copy of the parts.
fn parts(snapshot: &Snapshot, id: Id) -> Parts {
    snapshot.view(id, |view| {
        let (kind, text, datatype, language) = parts_of(view);
        (kind.to_owned(), text.into_owned(), datatype.map(str::to_owned), language.map(str::to_owned))
    })
}

impl MadeTerms {
    /// Turns to other data. Returns the terms of the data before, to be dropped without the lock: the end of a term of
    /// Python may run Python.
    #[must_use]
    fn turn_to(&mut self, snapshot: &Arc<Snapshot>) -> Option<MadeTerms> {
        let is_same = self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, snapshot));
        (!is_same)
            .then(|| std::mem::replace(self, MadeTerms { of: Some(Arc::clone(snapshot)), ..MadeTerms::default() }))
    }
}

impl TermCache {
    fn made(&self) -> MutexGuard<'_, MadeTerms> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of terms, none for an open place; or nothing if the data lacks one of them.
    pub(crate) fn ids<'py>(
        &self,
        py: Python<'py>,
        data: &Dataset,
        places: &[Option<Option<(usize, Texts<'py>)>>; 4],
    ) -> PyResult<Option<[Option<Id>; 4]>> {
        let snapshot = data.snapshot();
        let (mut ids, mut missing) = ([None; 4], Vec::new());
        let before = {
            let mut made = self.made();
            let before = made.turn_to(snapshot);
            for (number, place) in places.iter().enumerate() {
                let (class, texts) = match place {
                    None => continue,
                    Some(Some(term)) => (term.0, &term.1),
                    // Of another library, or of none.
                    Some(None) => return Ok(None),
                };
                match texts.alone().and_then(|text| made.ids[class].get(text)) {
                    Some(Some(id)) => ids[number] = Some(*id),
                    Some(None) => return Ok(None),
                    None => match texts.term(class) {
                        Some(term) => missing.push((number, class, texts, term)),
                        None => return Ok(None),
                    },
                }
            }
            before
        };
        drop(before);
        if missing.is_empty() {
            return Ok(Some(ids));
        }
        let terms: Vec<TermRef<'_>> = missing.iter().map(|(.., term)| *term).collect();
        let looked =
            py.detach(|| data.read(|snapshot| terms.iter().map(|term| snapshot.id(*term)).collect::<Vec<_>>()));
        let looked = looked.map_err(Failure::from).raise(py, None)?;
        let mut made = self.made();
        // Another thread may have turned it to other data.
        let is_same = made.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, snapshot));
        for ((number, class, texts, _), id) in missing.iter().zip(&looked) {
            ids[*number] = *id;
            if let Some(text) = texts.alone().filter(|_| is_same) {
                if made.ids[*class].len() >= MOST_TERMS {
                    made.ids[*class].clear();
                }
                made.ids[*class].insert(text.into(), *id);
            }
        }
        Ok(looked.iter().all(Option::is_some).then_some(ids))
    }

    /// The terms of ids; none for that of the default graph. The lock is held for counts of references alone: a thread
    /// that called Python under it would wait for the interpreter, which another thread may have while it waits for the
    /// lock.
    pub(crate) fn terms<'py>(&self, py: Python<'py>, data: &Dataset, ids: &[Id]) -> PyResult<Vec<Bound<'py, PyAny>>> {
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

/// Tuples of the terms of quads.
fn tuples<'py>(
    py: Python<'py>,
    quads: &[[Id; 4]],
    width: usize,
    data: &Dataset,
    cache: &TermCache,
) -> PyResult<Bound<'py, PyList>> {
    let ids: Vec<Id> = quads.iter().flat_map(|quad| &quad[..width]).copied().collect();
    let terms = cache.terms(py, data, &ids)?;
    let rows = PyList::empty(py);
    for cells in terms.chunks_exact(width) {
        rows.append(PyTuple::new(py, cells)?)?;
    }
    Ok(rows)
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
        tuples(py, &quads, if self.with_graph { 4 } else { 3 }, &data, cache)
    }

    /// How many quads are left.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.held.check_here().raise(py, None)?;
        let mut rest = py.detach(|| self.found.lock().unwrap_or_else(PoisonError::into_inner).clone());
        if let Some(rows) = rest.range() {
            return Ok(rows);
        }
        let mut count = 0;
        while let Some(quads) = py.detach(|| rest.next(usize::MAX)).map_err(Failure::from).raise(py, None)? {
            count += quads.len();
            py.check_signals()?;
        }
        Ok(count)
    }
}

/// The quads with these terms of a library, none for any; `graphs` is `default`, `all`, or `named` for that of the
/// name. The first ones as tuples, so many at most, and the others if there may be some.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "each is a part of the pattern, or of what is made of it")]
pub(crate) fn find<'py>(
    py: Python<'py>,
    data: &Data,
    subject: &Bound<'py, PyAny>,
    predicate: &Bound<'py, PyAny>,
    object: &Bound<'py, PyAny>,
    graphs: &str,
    graph: Option<&Bound<'py, PyAny>>,
    cache: &TermCache,
    most: usize,
) -> PyResult<(Bound<'py, PyList>, Option<Matches>)> {
    let held = data.held().raise(py, None)?;
    let texts = |term: &Bound<'py, PyAny>| match term.is_none() {
        true => Ok(None),
        false => Texts::of(term, &cache.classes).map(Some),
    };
    let name = graph.map(texts).transpose()?.flatten();
    let places = [texts(subject)?, texts(predicate)?, texts(object)?, name];
    let (dataset, with_graph) = (held.dataset(), graphs == "all");
    let Some(ids) = cache.ids(py, &dataset, &places)? else { return Ok((PyList::empty(py), None)) };
    let given = [subject, predicate, object];
    let [subject, predicate, object, name] = ids;
    let graph = match graphs {
        "default" => Some(Id::UNBOUND),
        "all" => None,
        _ if name.is_some() => name,
        _ => return Err(Failure::argument("a graph's name is missing")).raise(py, None),
    };
    let looked = py.detach(|| {
        let mut found = Matching::of_ids(&dataset, [subject, predicate, object], graph)?;
        let quads = found.next(most)?.unwrap_or_default();
        Ok::<_, Error>((quads, found))
    });
    let (quads, found) = looked.map_err(Failure::from).raise(py, None)?;
    if !with_graph && places[..3].iter().all(Option::is_some) && most > 0 {
        // Whether a triple is there: its terms are those that were given.
        let rows = PyList::empty(py);
        if !quads.is_empty() {
            rows.append(PyTuple::new(py, given)?)?;
        }
        return Ok((rows, None));
    }
    let rows = tuples(py, &quads, if with_graph { 4 } else { 3 }, &dataset, cache)?;
    let rest = (!found.is_over()).then(|| Matches { found: Mutex::new(found), held, with_graph });
    Ok((rows, rest))
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
        let bounds = Bounds::of(Cancel::new());
        interruptible(py, &bounds, || match held.kept() {
            DataStore::Memory(shared) => {
                let mut draft = shared.draft();
                draft.ask(bounds.ask());
                change_quads(&mut draft, &quads).map_err(of)?;
                draft.commit();
                Ok(())
            }
            DataStore::Folder { store, .. } => {
                let mut transaction = store.write_asking(bounds.ask())?;
                change_quads(&mut transaction, &quads).map_err(of)?;
                transaction.commit()?;
                Ok(())
            }
            DataStore::Fixed(_) => held.check_writable(),
        })
    };
    changed().raise(py, None)
}
