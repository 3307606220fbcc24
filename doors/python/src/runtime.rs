//! Threads under a strategy, and arrays whose memory is placed on nodes.

use crate::attached;
use crate::data::Raise as _;
use crate::errors::{Failure, Outcome};
use crate::options::Cancel;
use crate::threads::OwnThreads;
use crate::wait::{Bounds, UserThreads, ident, leaving};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::alloc::Layout;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use vicus::memory::{self, Distribution, Placed};
use vicus::{NodeId, Setting};
use vicus_service::Error;

/// Threads under a strategy. See `vicus.Runtime`.
#[pyclass(frozen, module = "vicus")]
pub(crate) struct Runtime {
    own: Arc<OwnThreads>,
    strategy: String,
}

/// An array's memory, which NumPy looks at by its interface.
#[pyclass(frozen, module = "vicus")]
pub(crate) struct PlacedArray {
    /// DataStore as long as arrays look at it.
    _placed: Placed,
    address: usize,
    shape: Vec<usize>,
    kind: String,
}

#[pymethods]
impl PlacedArray {
    /// The memory as NumPy wants it told: it is this object's, and the array keeps the object.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let about = PyDict::new(py);
        about.set_item("version", 3)?;
        about.set_item("shape", pyo3::types::PyTuple::new(py, &self.shape)?)?;
        about.set_item("typestr", &self.kind)?;
        about.set_item("data", (self.address, false))?;
        Ok(about)
    }
}

#[pymethods]
impl Runtime {
    #[new]
    #[pyo3(signature = (strategy=None, threads=None))]
    fn new(py: Python<'_>, strategy: Option<&str>, threads: Option<usize>) -> PyResult<Runtime> {
        let started = || -> Outcome<Runtime> {
            let mut builder = vicus::Runtime::builder();
            if let Some(strategy) = strategy {
                let setting: Setting = strategy.parse().map_err(Failure::argument)?;
                builder = builder.strategy(setting);
            }
            if let Some(threads) = threads {
                if !(1..=1024).contains(&threads) {
                    return Err(Failure::argument("threads is a number from 1 to 1024"));
                }
                builder = builder.threads(threads);
            }
            let own = py.detach(|| builder.try_start()).map_err(|error| Failure::new("SystemError", error))?;
            let strategy = own.plan().strategy.to_string();
            Ok(Runtime { own: Arc::new(OwnThreads::new(own)), strategy })
        };
        started().raise(py, None)
    }

    /// The strategy.
    #[getter]
    fn strategy(&self) -> &str {
        &self.strategy
    }

    /// How many threads it has.
    #[getter]
    fn threads(&self, py: Python<'_>) -> PyResult<usize> {
        self.own.here().map(|own| own.plan().threads()).raise(py, None)
    }

    /// Zeroed memory for an array, spread over the nodes.
    fn place(
        &self,
        py: Python<'_>,
        shape: Vec<usize>,
        kind: String,
        item: usize,
        distribution: Option<&str>,
    ) -> PyResult<PlacedArray> {
        let placed = || -> Outcome<PlacedArray> {
            let own = self.own.here()?;
            let chosen = distribution.map(str::parse::<Distribution>).transpose().map_err(Failure::argument)?;
            let items = shape.iter().try_fold(1usize, |all, length| all.checked_mul(*length));
            let bytes = items.and_then(|items| items.checked_mul(item)).unwrap_or(usize::MAX);
            let layout = Layout::from_size_align(bytes.max(1), 64).map_err(|_| {
                Failure::new(
                    "OutOfMemory",
                    format_args!("an array of the shape {shape:?} can't be had: it is too large"),
                )
            })?;
            let placed = py.detach(|| own.alloc(layout, chosen)).map_err(|error| Failure::new("OutOfMemory", error))?;
            let address = placed.bytes().as_ptr().addr();
            Ok(PlacedArray { _placed: placed, address, shape, kind })
        };
        placed().raise(py, None)
    }

    /// Calls a function with each part of an array, near its memory; the results in the parts' order.
    fn map<'py>(
        &self,
        py: Python<'py>,
        function: Py<PyAny>,
        parts: Vec<(Py<PyAny>, usize)>,
        timeout: Option<f64>,
        cancel: Option<&Bound<'_, Cancel>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let mapped = || -> Outcome<Vec<Py<PyAny>>> {
            self.own.here()?;
            let (own, bounds) = (Arc::clone(&self.own), Bounds::new(cancel, timeout)?);
            let place = |(number, (part, address)): (usize, (Py<PyAny>, usize))| {
                let node = memory::node_of(std::ptr::without_provenance::<u8>(address)).unwrap_or(NodeId::new(0));
                ((number, part), node)
            };
            let work: Vec<_> = parts.into_iter().enumerate().map(place).collect();
            let inside = Arc::new(UserThreads::default());
            let (nudged, is_over) = (Arc::clone(&inside), bounds.cancel.clone());
            let body = move || {
                let made: Mutex<Vec<(usize, Py<PyAny>)>> = Mutex::default();
                let (failed, is_failed) = (Mutex::new(None), AtomicBool::new(false));
                let ended = own.each_near(work, |(number, part)| {
                    // What is left after a failure, or after Ctrl-C, is not done.
                    if is_failed.load(Ordering::Relaxed) || is_over.is_cancelled() {
                        return;
                    }
                    let called = attached::attach(|py| {
                        let thread = ident(py)?;
                        inside.enter(py, thread, None);
                        let called = function.call1(py, (part,));
                        inside.leave(py, thread, None);
                        called
                    });
                    match called {
                        Ok(result) => made.lock().unwrap_or_else(PoisonError::into_inner).push((number, result)),
                        Err(error) => {
                            is_failed.store(true, Ordering::Relaxed);
                            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                        }
                    }
                });
                if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
                    return Err(error.into());
                }
                ended.map_err(|error| Failure::new("InternalError", error))?;
                if is_over.is_cancelled() {
                    return Err(Error::Cancelled.into());
                }
                Ok(made.into_inner().unwrap_or_else(PoisonError::into_inner))
            };
            let mut made = leaving(py, &bounds, |py| nudged.interrupt(py), body)?;
            made.sort_by_key(|(number, _)| *number);
            Ok(made.into_iter().map(|(_, result)| result).collect())
        };
        PyList::new(py, mapped().raise(py, None)?)
    }
}

/// The bytes of each node in some memory, and those on unknown nodes.
#[pyfunction]
pub(crate) fn footprint(py: Python<'_>, address: usize, bytes: usize) -> (Vec<usize>, usize) {
    if address == 0 {
        return (Vec::new(), bytes);
    }
    py.detach(|| {
        #[expect(unsafe_code, reason = "only the addresses are used")]
        // SAFETY: the caller has an array there, which it keeps during the call; its bytes are not read.
        let range = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(address), bytes) };
        let found = memory::footprint(range);
        (found.nodes, found.unknown)
    })
}
