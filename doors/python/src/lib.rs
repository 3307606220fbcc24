//! The module `vicus._vicus`, behind the package `vicus` (`package/`), which has what users read.
//!
//! ```text
//!  threads.rs      the service of a process: its threads, and what a forked child may not use
//!  data.rs         a database: loading, queries, updates, copies ─▶ vicus_service
//!  networks.rs     networks as text, boxes in Python ─▶ vicus_network
//!  node.rs         a process that runs parts of others' networks ─▶ vicus_nodes
//!  quads.rs        quads without a text ─▶ vicus_service::Matching
//!  triples.rs      triples of a graph of rdflib, one by one
//!  options.rs      the options of a query
//!  rows.rs         an answer: tuples of terms, or a stream of Arrow
//!  frames.rs       frames of others as tables of SQL
//!  attached.rs     states of the interpreter for the threads of a runtime
//!  pipes.rs        pipes whose other end may be silent
//!  transaction.rs  several updates as one, on a thread of its own
//!  runtime.rs      threads under a strategy, placed arrays
//!  wait.rs         waits that look for signals
//!  errors.rs       errors as exceptions of the package, by the service's kinds
//! ```
//!
//! The calling thread never works on what takes long: it waits in slices, and looks for signals between them. Ctrl-C
//! then cancels the call by the call's own handle.

mod answers;
mod archives;
mod attached;
mod data;
mod errors;
mod frames;
mod networks;
mod node;
mod options;
mod pipes;
mod quads;
mod rows;
mod runtime;
mod threads;
mod transaction;
mod triples;
mod wait;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

/// Runs a command of `vicus`: its name and its arguments. Returns the exit status.
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<OsString>, libraries: PathBuf) -> u8 {
    py.detach(|| vicus_cli::command(arguments, Some(libraries)))
}

/// Half of the free memory, in bytes; nothing if the system does not tell.
#[pyfunction]
fn free_limit() -> Option<u64> {
    Some(vicus_cli::free_limit()).filter(|bytes| *bytes < u64::MAX)
}

/// Fails in an interpreter beside a process's first one: objects of several would meet in one module. PyO3 refuses only
/// some of them, so the package asks at each import.
#[pyfunction]
fn refuse_subinterpreters(_py: Python<'_>) -> PyResult<()> {
    #[expect(unsafe_code, reason = "PyO3 has no call of its own for it")]
    // SAFETY: this thread has the interpreter, which is there as long as it runs.
    let number = unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) };
    match number {
        0 => Ok(()),
        _ => Err(PyImportError::new_err(
            "vicus works in a process's main interpreter only, and this is a subinterpreter",
        )),
    }
}

#[pymodule]
fn _vicus(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // A process with little memory left has an error, and its end only behind that.
    vicus_cli::reserve();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<data::Data>()?;
    module.add_class::<data::Prepared>()?;
    module.add_class::<frames::Frame>()?;
    module.add_class::<networks::Batches>()?;
    module.add_class::<node::Node>()?;
    module.add_class::<options::Cancel>()?;
    module.add_class::<quads::Matches>()?;
    module.add_class::<quads::TermCache>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<runtime::PlacedArray>()?;
    module.add_class::<runtime::Runtime>()?;
    module.add_class::<transaction::Transaction>()?;
    module.add_class::<triples::Triples>()?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    module.add_function(wrap_pyfunction!(free_limit, module)?)?;
    module.add_function(wrap_pyfunction!(refuse_subinterpreters, module)?)?;
    module.add_function(wrap_pyfunction!(wait::wait_for_unfinished, module)?)?;
    module.add_function(wrap_pyfunction!(networks::run_network, module)?)?;
    module.add_function(wrap_pyfunction!(networks::run_over_nodes, module)?)?;
    module.add_function(wrap_pyfunction!(networks::show_network, module)?)?;
    module.add_function(wrap_pyfunction!(networks::network_kinds, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::footprint, module)?)?;
    module.add_function(wrap_pyfunction!(quads::find, module)?)?;
    module.add_function(wrap_pyfunction!(quads::graphs, module)?)?;
    module.add_function(wrap_pyfunction!(quads::change, module)?)?;
    module.add_function(wrap_pyfunction!(triples::triples, module)?)?;
    module.add_function(wrap_pyfunction!(archives::archive, module)?)?;
    module.add_function(wrap_pyfunction!(archives::restore, module)?)?;
    module.add_function(wrap_pyfunction!(data::check, module)?)
}
