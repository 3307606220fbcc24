//! The triples of a graph of another library, made as they are read: each with its graph, as a store of rdflib has
//! them.

use crate::data::{Data, DataStore, OpenData, Raise as _};
use crate::errors::Failure;
use crate::quads::{TermCache, Texts};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList, PyTuple};
use std::sync::Arc;
use std::vec::IntoIter;
use vicus_service::data::Id;
use vicus_service::{Dataset, Error, Matching};

/// So many quads are read at first, then, and from then on.
const FIRST: usize = 16;
const NEXT: usize = 512;
const CHUNK: usize = 8192;

/// Triples that match a pattern, one by one, each as a tuple of its terms and an iterator over its one graph.
#[pyclass(module = "vicus")]
pub(crate) struct Triples {
    /// The graph, in a list.
    graphs: Py<PyList>,
    /// The terms of the pattern that are those of each triple.
    given: [Option<Py<PyAny>>; 3],
    /// The other terms of the triples that were read and not yet taken, and the number of these.
    terms: IntoIter<Py<PyAny>>,
    left: usize,
    rest: Option<UnreadTriples>,
}

/// Triples that were not read yet.
struct UnreadTriples {
    found: Matching,
    cache: Py<TermCache>,
    held: Arc<OpenData>,
    size: usize,
}

impl Triples {
    /// Reads the next ones; whether there are some.
    fn read(&mut self, py: Python<'_>) -> PyResult<bool> {
        while let Some(rest) = &mut self.rest {
            rest.held.check_here().raise(py, None)?;
            let (size, found) = (rest.size, &mut rest.found);
            let next = py.detach(|| found.next(size)).map_err(Failure::from).raise(py, None)?;
            let Some(quads) = next else { break };
            if quads.is_empty() {
                // Many rows were looked at, of which none matches.
                py.check_signals()?;
                continue;
            }
            rest.size = CHUNK;
            let data = Dataset::new(Arc::clone(rest.found.snapshot()));
            self.terms = terms(py, &quads, &self.given, &data, rest.cache.get())?;
            self.left = quads.len();
            if rest.found.is_over() {
                self.rest = None;
            }
            return Ok(true);
        }
        self.rest = None;
        Ok(false)
    }
}

/// The terms of quads, without those that were given.
fn terms(
    py: Python<'_>,
    quads: &[[Id; 4]],
    given: &[Option<Py<PyAny>>; 3],
    data: &Dataset,
    cache: &TermCache,
) -> PyResult<IntoIter<Py<PyAny>>> {
    let open = |quad: &[Id; 4]| [quad[0], quad[1], quad[2]];
    let ids: Vec<Id> = quads
        .iter()
        .flat_map(|quad| open(quad).into_iter().zip(given).filter(|(_, given)| given.is_none()).map(|(id, _)| id))
        .collect();
    let made = cache.terms(py, data, &ids)?;
    Ok(made.into_iter().map(Bound::unbind).collect::<Vec<_>>().into_iter())
}

#[pymethods]
impl Triples {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyTuple>, Bound<'py, PyIterator>)>> {
        if self.left == 0 && !self.read(py)? {
            return Ok(None);
        }
        self.left -= 1;
        let Triples { given, terms, graphs, .. } = self;
        let mut term = |place: usize| match &given[place] {
            Some(term) => term.clone_ref(py),
            None => terms.next().expect("there is a term for each open place of a triple"),
        };
        let triple = PyTuple::new(py, [term(0), term(1), term(2)])?;
        Ok(Some((triple, graphs.bind(py).try_iter()?)))
    }
}

/// The first look for a pattern.
enum FirstLook {
    /// A whole triple: whether it is there.
    Whole(bool),
    /// The first quads, and the others.
    Open { quads: Vec<[Id; 4]>, found: Matching },
}

/// The triples of a pattern of a library's terms, none for any, in the default graph, or in that of a name; each comes
/// with `graph`, the library's own.
#[pyfunction]
pub(crate) fn triples<'py>(
    py: Python<'py>,
    data: &Data,
    pattern: &Bound<'py, PyAny>,
    graph: &Bound<'py, PyAny>,
    name: Option<&Bound<'py, PyAny>>,
    cache: &Bound<'py, TermCache>,
) -> PyResult<Triples> {
    let held = data.held().raise(py, None)?;
    let asked: [Bound<'py, PyAny>; 3] = match pattern.cast_exact::<PyTuple>() {
        Ok(three) if three.len() == 3 => [three.get_item(0)?, three.get_item(1)?, three.get_item(2)?],
        _ => {
            let terms = pattern.try_iter()?.take(4).collect::<PyResult<Vec<_>>>()?;
            let count = terms.len();
            terms.try_into().map_err(|_| PyValueError::new_err(format!("a pattern has 3 terms, and not {count}")))?
        }
    };
    let classes = &cache.get().classes;
    let texts = |term: &Bound<'py, PyAny>| match term.is_none() {
        true => Ok(None),
        false => Texts::of(term, classes).map(Some),
    };
    let name = name.map(texts).transpose()?.flatten();
    let (is_named, places) = (name.is_some(), [texts(&asked[0])?, texts(&asked[1])?, texts(&asked[2])?, name]);
    let is_whole = places[..3].iter().all(Option::is_some);
    let dataset = held.dataset();
    let graphs = PyList::new(py, [graph])?.unbind();
    let mut made = Triples { graphs, given: [None, None, None], terms: Vec::new().into_iter(), left: 0, rest: None };
    let Some([subject, predicate, object, name]) = cache.get().ids(py, &dataset, &places)? else { return Ok(made) };
    let graph = if is_named { name } else { Some(Id::UNBOUND) };
    // Of a class below the library's, the terms that come are of the library's.
    let is_exact = |place: usize| is_whole || classes.iter().any(|class| asked[place].get_type().is(class.bind(py)));
    for place in 0..3 {
        if places[place].is_some() && is_exact(place) {
            made.given[place] = Some(asked[place].clone().unbind());
        }
    }
    let pattern = [subject, predicate, object];
    let look = || -> Result<FirstLook, Error> {
        if is_whole {
            return Ok(FirstLook::Whole(Matching::has(&dataset, pattern, graph)?));
        }
        let mut found = Matching::of_ids(&dataset, pattern, graph)?;
        let quads = found.next(FIRST)?.unwrap_or_default();
        Ok(FirstLook::Open { quads, found })
    };
    // Data in memory is found sooner than the interpreter would come back.
    let looked = if matches!(held.kept(), DataStore::Memory(_)) { look() } else { py.detach(look) };
    match looked.map_err(Failure::from).raise(py, None)? {
        FirstLook::Whole(is_there) => made.left = usize::from(is_there),
        FirstLook::Open { quads, found } => {
            made.left = quads.len();
            made.terms = terms(py, &quads, &made.given, &dataset, cache.get())?;
            let is_over = found.is_over();
            made.rest = (!is_over).then(|| UnreadTriples { found, cache: cache.clone().unbind(), held, size: NEXT });
        }
    }
    Ok(made)
}
