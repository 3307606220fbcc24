//! A node in this process: it runs parts of networks that other processes begin, also boxes in Python if it is told to.

use crate::data::Raise as _;
use crate::errors::{Failure, Outcome};
use crate::networks::{PythonBox, python_kind};
use crate::wait::UserThreads;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use vicus::{Runtime, TemporaryFiles};
use vicus_network::{Kinds, Paths};
use vicus_nodes::{NodeOptions, NodeServer, PYTHON, TlsCertificate, add_program_kinds};
use vicus_service::paths_below;

/// A node. See `vicus.Node`.
#[pyclass(frozen, module = "vicus")]
pub(crate) struct Node {
    address: String,
    threads: usize,
    process: u32,
    is_over: Arc<AtomicBool>,
    /// The thread that takes connections, until it is waited for.
    serves: Mutex<Option<JoinHandle<()>>>,
}

#[pymethods]
impl Node {
    /// `load` makes boxes of the functions that came with a network; without it, they are refused.
    #[new]
    #[pyo3(signature = (listen, token, certificate, folder, threads, memory, load))]
    #[expect(clippy::too_many_arguments, reason = "they are the keywords of the package's class")]
    fn new(
        py: Python<'_>,
        listen: String,
        token: Option<String>,
        certificate: Option<(PathBuf, PathBuf)>,
        folder: Option<PathBuf>,
        threads: Option<usize>,
        memory: Option<u64>,
        load: Option<Py<PyAny>>,
    ) -> PyResult<Node> {
        let certificate = move || certificate.map(|(chain, key)| TlsCertificate::read(&chain, &key)).transpose();
        py.detach(|| {
            let certificate = certificate().map_err(Failure::argument)?;
            started(&listen, token, certificate, folder, threads, memory, load)
        })
        .raise(py, None)
    }

    /// The address that it listens on.
    #[getter]
    fn address(&self) -> &str {
        &self.address
    }

    /// How many threads run boxes.
    #[getter]
    fn threads(&self) -> usize {
        self.threads
    }

    /// Ends it; networks that run on it fail.
    fn close(&self, py: Python<'_>) {
        // A forked child has not the thread.
        if self.process != std::process::id() {
            return;
        }
        self.is_over.store(true, Ordering::Release);
        let serves = self.serves.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| serves.map(JoinHandle::join));
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
    }
}

fn started(
    listen: &str,
    token: Option<String>,
    certificate: Option<TlsCertificate>,
    folder: Option<PathBuf>,
    threads: Option<usize>,
    memory: Option<u64>,
    load: Option<Py<PyAny>>,
) -> Outcome<Node> {
    let paths = match &folder {
        Some(folder) => {
            paths_below(folder).map_err(|error| Failure::argument(format_args!("{}: {error}", folder.display())))?
        }
        None => Paths::by(|name| Err(format!("{name}: this node reads and writes no files; give it a folder"))),
    };
    let mut builder = Runtime::builder();
    if let Some(threads) = threads {
        builder = builder.threads(threads);
    }
    let runtime = builder.try_start().map_err(|error| Failure::new("SystemError", error))?;
    let threads = runtime.plan().threads();
    let has_token = token.is_some();
    let options = NodeOptions {
        token,
        certificate,
        memory: memory.unwrap_or_else(vicus_cli::free_limit),
        overflows: TemporaryFiles::within(&std::env::temp_dir(), u64::MAX).ok().map(|files| files as _),
        nodes: runtime.topology().nodes.len(),
    };
    let mut kinds = Kinds::library();
    vicus_tables::add_kinds(&mut kinds);
    vicus_tables::add_stream_kinds(&mut kinds);
    vicus_service::add_kinds(&mut kinds);
    add_program_kinds(&mut kinds);
    let refused = |error: std::io::Error| Failure::new("SystemError", format_args!("{listen}: {error}"));
    let mut node = NodeServer::listen(listen, runtime, kinds.with_paths(paths), options).map_err(refused)?;
    let address = node.address().map_err(refused)?;
    if !has_token && !address.ip().is_loopback() {
        let message = format_args!("{address}: others than this machine reach it, so it needs a token");
        return Err(Failure::argument(message));
    }
    if let Some(load) = load {
        node = node.with_attached(move |attached, kinds| with_functions(&load, attached, kinds));
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    // A listener that fails is one that takes no connections any more, and its networks end with it.
    let serves = move || drop(node.serve(|| over.load(Ordering::Acquire)));
    let thread = std::thread::Builder::new().name("vicus node".to_owned()).spawn(serves);
    let thread = thread.map_err(|error| Failure::new("Busy", format_args!("no thread can be had: {error}")))?;
    let address = address.to_string();
    Ok(Node { address, threads, process: std::process::id(), is_over, serves: Mutex::new(Some(thread)) })
}

/// The kinds of a network whose functions in Python came with it.
fn with_functions(load: &Py<PyAny>, attached: &BTreeMap<String, String>, mut kinds: Kinds) -> Result<Kinds, String> {
    let Some(text) = attached.get(PYTHON) else { return Ok(kinds) };
    let boxes: PyResult<Vec<PythonBox>> = Python::attach(|py| load.call1(py, (text,))?.extract(py));
    let boxes = boxes.map_err(|error| format!("the functions in Python: {error}"))?;
    kinds.add(python_kind(boxes, &Arc::new(UserThreads::default())));
    Ok(kinds)
}
