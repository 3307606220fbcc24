//! A database: data in memory, or a store in a folder.

use crate::errors::{Failure, Outcome, exception};
use crate::options::{AskOptions, Cancel};
use crate::rows::{self, Rows};
use crate::threads::Threads;
use crate::transaction::Transaction;
use crate::wait::{SLICE, asking, interruptible, is_main, unless_cancelled, without_interpreter};
use pyo3::prelude::*;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vicus::give_up;
use vicus_service::data::{Id, LoadOptions, LoadSpill, OnError, Order, Phase, Snapshot, Source, Syntax};
use vicus_service::{
    Cancel as Handle, Count, Dataset, Document, DumpError, Error, ErrorKind, Format, Keeper, Output, Prepared as Plan,
    Service, SessionOptions, SharedDataset, Store, StoreError, TemporaryFolder, check_store, copy_store, create_store,
    dump, file_iri, graph_name, has_room_for_store, is_prefix, open_store, read_store, syntax_by_ending, unpacked,
};

/// Data, and the threads that work on it.
pub(crate) struct OpenData {
    /// None from the drop on.
    kept: Option<DataStore>,
    threads: Threads,
    path: Option<PathBuf>,
    temporary: Option<TemporaryFolder>,
}

pub(crate) enum DataStore {
    /// In memory.
    Memory(SharedDataset),
    /// A store in a folder.
    Folder {
        /// Merges changes in the background; ended first.
        _keeper: Keeper,
        store: Arc<Store>,
    },
    /// Data that stays as it is.
    Fixed(Dataset),
}

impl OpenData {
    fn new(kept: DataStore, threads: Threads, path: Option<PathBuf>) -> OpenData {
        let temporary = TemporaryFolder::open(path.as_deref().unwrap_or(&std::env::temp_dir())).ok();
        OpenData { kept: Some(kept), threads, path, temporary }
    }

    pub(crate) fn kept(&self) -> &DataStore {
        self.kept.as_ref().expect("it is there until the drop")
    }

    pub(crate) fn service(&self) -> Outcome<&Service> {
        self.threads.service()
    }

    pub(crate) fn check_here(&self) -> Outcome {
        self.threads.check_here()
    }

    pub(crate) fn hash_seed(&self) -> u64 {
        self.threads.hash_seed
    }

    pub(crate) fn temporary(&self) -> Option<TemporaryFolder> {
        self.temporary.clone()
    }

    /// The data as it is now.
    pub(crate) fn dataset(&self) -> Dataset {
        match self.kept() {
            DataStore::Memory(dataset) => dataset.dataset(),
            DataStore::Folder { store, .. } => Dataset::new(store.snapshot()),
            DataStore::Fixed(dataset) => dataset.clone(),
        }
    }

    pub(crate) fn check_writable(&self) -> Outcome {
        match self.kept() {
            DataStore::Fixed(_) => Err(Failure::new("ReadOnly", "this data can be read only: it is a snapshot")),
            _ => Ok(()),
        }
    }

    fn store(&self) -> Outcome<&Arc<Store>> {
        match self.kept() {
            DataStore::Folder { store, .. } => Ok(store),
            _ => Err(Failure::new("StoreError", "this data is in memory, and not in a store")),
        }
    }
}

impl Drop for OpenData {
    fn drop(&mut self) {
        let kept = self.kept.take();
        if self.threads.is_here() {
            // Waits for the keeper's thread.
            without_interpreter(|| drop(kept));
        } else {
            // A forked child has no keeper's thread to wait for.
            std::mem::forget(kept);
        }
    }
}

/// A failure of a call as an exception.
pub(crate) trait Raise<T> {
    fn raise(self, py: Python<'_>, text: Option<&str>) -> PyResult<T>;
}

impl<T> Raise<T> for Outcome<T> {
    fn raise(self, py: Python<'_>, text: Option<&str>) -> PyResult<T> {
        self.map_err(|failure| exception(py, failure, text))
    }
}

/// Parsing and planning on the calling thread are tried for so long. Signals wait meanwhile.
const AT_ONCE: Duration = Duration::from_millis(25);

/// The options with a limit on the time from `began` on.
fn remaining(options: &SessionOptions, began: Instant) -> SessionOptions {
    let mut options = options.clone();
    options.limits.time = options.limits.time.map(|time| time.saturating_sub(began.elapsed()));
    options
}

/// Reads and plans a text. A short text is planned at once; a longer one is begun anew on another thread, while this
/// one looks for signals.
fn prepare(
    py: Python<'_>,
    service: &Service,
    dataset: &Dataset,
    options: &SessionOptions,
    text: &str,
) -> Outcome<Arc<Plan>> {
    let session = |options: SessionOptions| service.session(dataset, options);
    let began = Instant::now();
    if !is_main(py) {
        return Ok(py.detach(|| session(options.clone()).call()?.prepare(text))?);
    }
    if options.limits.time.is_none_or(|time| time > AT_ONCE) {
        let mut quick = options.clone();
        quick.limits.time = Some(AT_ONCE);
        match py.detach(|| session(quick).call()?.prepare(text)) {
            Err(Error::TimeLimit { .. }) => {}
            done => return Ok(done?),
        }
    }
    let options = remaining(options, began);
    let cancel = options.limits.cancel.clone();
    interruptible(py, &cancel, || Ok(session(options).call()?.prepare(text)?))
}

fn ask(py: Python<'_>, held: &Arc<OpenData>, dataset: &Dataset, options: &SessionOptions, text: &str) -> Outcome<Rows> {
    let began = Instant::now();
    let plan = prepare(py, held.service()?, dataset, options, text)?;
    begin(py, held, dataset, &remaining(options, began), &plan, text)
}

fn begin(
    py: Python<'_>,
    held: &Arc<OpenData>,
    dataset: &Dataset,
    options: &SessionOptions,
    plan: &Arc<Plan>,
    text: &str,
) -> Outcome<Rows> {
    let session = held.service()?.session(dataset, options.clone());
    let cancel = options.limits.cancel.clone();
    py.detach(|| rows::begin(held.threads.clone(), session.call()?, Arc::clone(plan), cancel, text))
}

/// A database. See `vicus.Database`.
#[pyclass(frozen, module = "vicus")]
pub(crate) struct Data {
    /// None when it is closed.
    held: Mutex<Option<Arc<OpenData>>>,
}

impl Data {
    fn new(held: OpenData) -> Data {
        Data { held: Mutex::new(Some(Arc::new(held))) }
    }

    pub(crate) fn held(&self) -> Outcome<Arc<OpenData>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let held = held.ok_or_else(|| Failure::new("ClosedError", "the database is closed"))?;
        held.check_here()?;
        Ok(held)
    }

    fn take(&self) -> Option<Arc<OpenData>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A phase of loading, for people.
fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Text => "reading",
        Phase::Terms => "sorting terms",
        Phase::Triples => "sorting triples",
        Phase::Indexes | Phase::Done => "making indexes",
    }
}

/// Counts the bytes read from a file, before they are unpacked.
struct Counted<R> {
    inner: R,
    done: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.done.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

fn syntax(name: Option<&str>) -> Outcome<Option<Syntax>> {
    let Some(name) = name else { return Ok(None) };
    let known = syntax_by_ending(&format!("x.{name}"));
    known.map(Some).ok_or_else(|| {
        Failure::argument(format_args!("there is no syntax `{name}`, only nt, nq, ttl, trig, rdf and jsonld"))
    })
}

/// The sources of a call, and their bytes.
fn sources(
    files: &[PathBuf],
    data: Option<Vec<u8>>,
    said: Option<Syntax>,
    done: &Arc<AtomicU64>,
) -> Outcome<(Vec<Source>, u64)> {
    let mut total = 0;
    let mut all = Vec::new();
    for path in files {
        let name = path.to_string_lossy();
        let syntax = said.or_else(|| syntax_by_ending(&name)).ok_or_else(|| {
            let endings = ".nt, .nq, .ttl, .trig, .rdf, .xml, .owl or .jsonld, packed (.gz, .zst, .bz2, .xz) or not";
            let message = format!("{name}: the ending says no syntax to be read; expected is {endings}, or syntax=");
            Failure::new("DataError", message)
        })?;
        let refused = |error: io::Error| Failure::Python(error.into());
        let file =
            File::open(path).map_err(|error| refused(io::Error::new(error.kind(), format!("{name}: {error}"))))?;
        let about = file.metadata().map_err(refused)?;
        if about.is_dir() {
            return Err(Failure::new("DataError", format_args!("{name} is a folder; expected is a file")));
        }
        total += about.len();
        let base = file_iri(path).map_err(refused)?;
        let counted = Counted { inner: file, done: Arc::clone(done) };
        all.push(Source::new(name.clone(), syntax, unpacked(counted, &name)).with_base(base));
    }
    if let Some(data) = data {
        total += data.len() as u64;
        let counted = Counted { inner: Cursor::new(data), done: Arc::clone(done) };
        all.push(Source::new("data", said.unwrap_or(Syntax::Turtle), unpacked(counted, "")));
    }
    Ok((all, total))
}

/// The name that a source has for LOAD, which gets the source itself.
const ADDED: &str = "vicus:added";

/// An error of loading: the data is wrong, and no query.
fn of_loading(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Failed | ErrorKind::Query => Failure::new("DataError", error),
        _ => error.into(),
    }
}

/// Stops writing when `cancel` says so, which leaves a store as it was.
fn stopping<'a>(cancel: &'a Handle, done: &'a AtomicU64) -> impl FnMut(u64) + 'a {
    |bytes| {
        done.store(bytes, Ordering::Relaxed);
        if cancel.is_cancelled() {
            give_up(Error::Cancelled);
        }
    }
}

#[pymethods]
impl Data {
    /// Opens the store in a folder, or makes one.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, create: bool, read_only: bool, threads: Option<usize>) -> PyResult<Data> {
        let opened = py.detach(|| -> Outcome<Data> {
            if path.is_file() {
                return Err(Failure::new(
                    "StoreError",
                    format_args!("{} is a file, and a store is a folder", path.display()),
                ));
            }
            let has_room = has_room_for_store(&path);
            if has_room && (!create || read_only) {
                let message = format!("{}: there is no store; open(…, create=True) makes one", path.display());
                return Err(Failure::new("StoreError", message));
            }
            let of = |error: StoreError| match error.locked_by() {
                Some(_) => error.into(),
                None => Failure::new("StoreError", format_args!("{}: {error}", path.display())),
            };
            if read_only {
                let kept = DataStore::Fixed(Dataset::new(read_store(&path).map_err(of)?));
                return Ok(Data::new(OpenData::new(kept, Threads::new(threads)?, Some(path.clone()))));
            }
            let store = if has_room { create_store(&path) } else { open_store(&path) };
            let store = Arc::new(store.map_err(of)?);
            let threads = Threads::new(threads)?;
            let keeper = threads.service()?.keep(&store).map_err(|error| Failure::new("Busy", error))?;
            Ok(Data::new(OpenData::new(DataStore::Folder { _keeper: keeper, store }, threads, Some(path.clone()))))
        });
        opened.raise(py, None)
    }

    /// Empty data in memory.
    #[staticmethod]
    fn memory(py: Python<'_>, threads: Option<usize>) -> PyResult<Data> {
        let made = py.detach(|| -> Outcome<Data> {
            let empty = Snapshot::of_ntriples(b"").map_err(|error| Failure::new("InternalError", error))?;
            let kept = DataStore::Memory(SharedDataset::new(Dataset::new(Arc::new(empty))));
            Ok(Data::new(OpenData::new(kept, Threads::new(threads)?, None)))
        });
        made.raise(py, None)
    }

    /// Loads files and texts; how many quads there were, and malformed lines that were left out.
    #[expect(clippy::too_many_arguments, reason = "they are the keywords of the package's function")]
    fn load(
        &self,
        py: Python<'_>,
        files: Vec<PathBuf>,
        data: Option<Vec<u8>>,
        syntax_name: Option<&str>,
        graph: Option<&str>,
        memory: Option<u64>,
        skip: bool,
        rdf_12: bool,
        progress: Option<Bound<'_, PyAny>>,
        cancel: &Cancel,
    ) -> PyResult<(u64, u64)> {
        let cancel = &cancel.0;
        let loaded = || -> Outcome<(u64, u64)> {
            let held = self.held()?;
            held.check_writable()?;
            let graph = graph.map(graph_name).transpose().map_err(Failure::argument)?;
            let done = Arc::new(AtomicU64::new(0));
            let said = syntax(syntax_name)?;
            let (sources, total) = py.detach(|| sources(&files, data, said, &done))?;
            let spill = match held.kept() {
                DataStore::Folder { store, .. } => {
                    Some(LoadSpill { memory: memory.unwrap_or_else(vicus_cli::free_limit), scratch: store.scratch() })
                }
                _ => None,
            };
            if let DataStore::Memory(shared) = held.kept()
                && !shared.dataset().snapshot().is_empty()
            {
                // Beside what is there: each source by an operation of an update, and all or none of them.
                let held = Arc::clone(&held);
                return interruptible(py, cancel, || {
                    let DataStore::Memory(shared) = held.kept() else { return Ok((0, 0)) };
                    let before = shared.dataset().snapshot().len() as u64;
                    let mut draft = shared.draft();
                    for Source { name, syntax, base, reader } in sources {
                        let into = graph.as_ref().map_or_else(String::new, |graph| format!(" INTO GRAPH {graph}"));
                        let mut options = SessionOptions::default();
                        options.plan.hash_seed = held.hash_seed();
                        options.limits.cancel = cancel.clone();
                        options.languages.sparql.rdf_12 = rdf_12;
                        options.document = Some(Document::new(ADDED.to_owned(), syntax, base, reader));
                        let added = held.service()?.update(&format!("LOAD <{ADDED}>{into}"), &mut draft, options);
                        added.map_err(|error| match of_loading(inner(error)) {
                            Failure::Named(class, message) => Failure::new(class, format_args!("{name}: {message}")),
                            other => other,
                        })?;
                    }
                    draft.commit();
                    Ok(((shared.dataset().snapshot().len() as u64).saturating_sub(before), 0))
                });
            }
            let options = LoadOptions {
                graph,
                spill,
                rdf_12,
                hash_seed: held.hash_seed(),
                on_error: if skip { OnError::Skip } else { OnError::Fail },
                ..LoadOptions::default()
            };
            let loading = py.detach(|| Ok::<_, Failure>(held.service()?.load(sources, options, cancel)))?;
            let counts = loading.progress();
            while !py.detach(|| loading.wait_for(SLICE)) {
                let told = || -> PyResult<()> {
                    py.check_signals()?;
                    if let Some(progress) = &progress {
                        let read = done.load(Ordering::Relaxed);
                        progress.call1((read, total, counts.triples(), phase(counts.phase())))?;
                    }
                    Ok(())
                };
                if let Err(error) = told() {
                    cancel.cancel();
                    py.detach(|| drop(loading));
                    return Err(error.into());
                }
            }
            let loaded = py.detach(|| loading.finish()).map_err(of_loading)?;
            let (quads, skipped) = (loaded.dataset.snapshot().len() as u64, loaded.skipped);
            let keep = Arc::clone(&held);
            interruptible(py, cancel, move || match keep.kept() {
                DataStore::Memory(shared) => match shared.fill(loaded.dataset, &asking(cancel)) {
                    Ok(true) => Ok(()),
                    Ok(false) => {
                        let message = "the database was changed while the data was loaded: load it again";
                        Err(Failure::new("StoreError", message))
                    }
                    Err(_) => Err(Error::Cancelled.into()),
                },
                DataStore::Folder { store, .. } => {
                    let snapshot = Arc::into_inner(loaded.dataset.into_snapshot()).expect("no other owner is left");
                    let written = AtomicU64::new(0);
                    let loaded = store.load_asking(snapshot, &mut stopping(cancel, &written), &asking(cancel));
                    loaded.map_err(unless_cancelled(cancel, Failure::from))
                }
                DataStore::Fixed(_) => keep.check_writable(),
            })?;
            Ok((quads, skipped))
        };
        loaded().raise(py, None)
    }

    /// Begins to answer a query.
    #[pyo3(signature = (text, asked=None))]
    fn query(&self, py: Python<'_>, text: &str, asked: Option<AskOptions>) -> PyResult<Rows> {
        let begun = || -> Outcome<Rows> {
            let held = self.held()?;
            let options = asked.unwrap_or_default().options(&held)?;
            ask(py, &held, &held.dataset(), &options, text)
        };
        begun().raise(py, Some(text))
    }

    /// A query that is planned for the data as it is now.
    #[pyo3(signature = (text, asked=None))]
    fn prepare(&self, py: Python<'_>, text: &str, asked: Option<AskOptions>) -> PyResult<Prepared> {
        let made = || -> Outcome<Prepared> {
            let held = self.held()?;
            let options = asked.unwrap_or_default().options(&held)?;
            let dataset = held.dataset();
            let plan = prepare(py, held.service()?, &dataset, &options, text)?;
            Ok(Prepared { held, dataset, options, plan, text: text.to_owned() })
        };
        made().raise(py, Some(text))
    }

    /// Carries out an update; how many operations it has, and seconds.
    #[pyo3(signature = (text, asked=None))]
    fn update(&self, py: Python<'_>, text: &str, asked: Option<AskOptions>) -> PyResult<(usize, f64)> {
        let updated = || -> Outcome<(usize, f64)> {
            let held = self.held()?;
            held.check_writable()?;
            let options = asked.unwrap_or_default().options(&held)?;
            let cancel = options.limits.cancel.clone();
            let updated = interruptible(py, &cancel, || match held.kept() {
                DataStore::Memory(dataset) => {
                    let mut draft = dataset.draft();
                    let updated = held.service()?.update(text, &mut draft, options)?;
                    draft.commit();
                    Ok(updated)
                }
                DataStore::Folder { store, .. } => Ok(held.service()?.update_store(text, store, options)?.updated),
                DataStore::Fixed(_) => Err(Failure::new("ReadOnly", "a snapshot can't be changed")),
            })?;
            Ok((updated.operations, updated.time.as_secs_f64()))
        };
        updated().raise(py, Some(text))
    }

    /// Answers a query for its counts: its operators with their work, its rows, and seconds.
    #[pyo3(signature = (text, asked=None))]
    fn profile(&self, py: Python<'_>, text: &str, asked: Option<AskOptions>) -> PyResult<(String, u64, f64, f64)> {
        let measured = || -> Outcome<(String, u64, f64, f64)> {
            let held = self.held()?;
            let mut options = asked.unwrap_or_default().options(&held)?;
            options.counts = true;
            let dataset = held.dataset();
            let began = Instant::now();
            let plan = prepare(py, held.service()?, &dataset, &options, text)?;
            let options = remaining(&options, began);
            let planning = (plan.parsing() + plan.planning()).as_secs_f64();
            let cancel = options.limits.cancel.clone();
            let session = held.service()?.session(&dataset, options);
            let (_, outcome) = interruptible(py, &cancel, || Ok(session.call()?.answer(&plan, Count)?))?;
            Ok((plan.explain(Some(&outcome.counts)), outcome.rows, planning, outcome.time.as_secs_f64()))
        };
        measured().raise(py, Some(text))
    }

    /// The plan of a query as text.
    #[pyo3(signature = (text, asked=None))]
    fn explain(&self, py: Python<'_>, text: &str, asked: Option<AskOptions>) -> PyResult<String> {
        Ok(self.prepare(py, text, asked)?.plan.explain(None))
    }

    /// The data as it is now, which stays so.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Data> {
        let made = || -> Outcome<Data> {
            let held = self.held()?;
            let fixed = OpenData::new(DataStore::Fixed(held.dataset()), held.threads.clone(), held.path.clone());
            Ok(Data::new(fixed))
        };
        made().raise(py, None)
    }

    /// Begins a transaction.
    fn transaction(&self, py: Python<'_>) -> PyResult<Transaction> {
        self.held().and_then(|held| Transaction::begin(py, held)).raise(py, None)
    }

    /// Writes the quads to a file; how many.
    fn dump(
        &self,
        py: Python<'_>,
        path: PathBuf,
        syntax_name: Option<&str>,
        graph: Option<&str>,
        prefixes: Vec<(String, String)>,
        cancel: &Cancel,
    ) -> PyResult<usize> {
        let cancel = &cancel.0;
        let written = || -> Outcome<usize> {
            let held = self.held()?;
            let name = path.to_string_lossy().into_owned();
            let syntax = syntax(syntax_name)?.or_else(|| syntax_by_ending(&name)).ok_or_else(|| {
                Failure::argument(format_args!("{name}: the ending says no syntax; give one by syntax="))
            })?;
            if let Some((name, iri)) = prefixes.iter().find(|(name, iri)| !is_prefix(name, iri)) {
                return Err(Failure::argument(format_args!("`PREFIX {name}: <{iri}>` is no prefix")));
            }
            let dataset = held.dataset();
            let snapshot = dataset.snapshot();
            let graph = match graph {
                None => None,
                Some("default") => Some(Id::UNBOUND),
                Some(name) => {
                    let name = graph_name(name).map_err(Failure::argument)?;
                    let id = snapshot.id(name.as_ref().into());
                    let id = id.filter(|id| snapshot.index(Order::Gspo).count(&[*id]) > 0);
                    Some(id.ok_or_else(|| Failure::argument(format_args!("there is no graph {name}")))?)
                }
            };
            interruptible(py, cancel, || {
                let refused = |error: io::Error| {
                    let error = io::Error::new(error.kind(), format!("{name}: {error}"));
                    Failure::Python(error.into())
                };
                let mut output = Output::create(&path).map_err(refused)?;
                let mut pause = |_| if cancel.is_cancelled() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) };
                let written = dump(snapshot, graph, Format::from(syntax), &prefixes, &mut output, &mut pause);
                let quads = written.map_err(|error| match error {
                    _ if cancel.is_cancelled() => Error::Cancelled.into(),
                    DumpError::Io(error) => refused(io::Error::new(error.kind(), error.to_string())),
                    DumpError::Damaged(_) => Failure::new("StoreError", error),
                    error => Failure::new("FormatError", error),
                })?;
                output.keep().map_err(refused)?;
                Ok(quads)
            })
        };
        written().raise(py, None)
    }

    /// Writes the data to a store of its own; how many quads.
    fn backup(&self, py: Python<'_>, path: PathBuf, memory: Option<u64>, cancel: &Cancel) -> PyResult<usize> {
        let cancel = &cancel.0;
        let copied = || -> Outcome<usize> {
            let dataset = self.held()?.dataset();
            let memory = memory.unwrap_or_else(vicus_cli::free_limit);
            interruptible(py, cancel, || {
                let written = AtomicU64::new(0);
                copy_store(dataset.snapshot(), &path, memory, &mut stopping(cancel, &written))
                    .map_err(unless_cancelled(cancel, Failure::from))
            })
        };
        copied().raise(py, None)
    }

    /// Writes the base of the store anew with the changes since; whether there were some.
    fn compact(&self, py: Python<'_>, cancel: &Cancel) -> PyResult<bool> {
        let cancel = &cancel.0;
        let merged = || -> Outcome<bool> {
            let held = self.held()?;
            held.check_writable()?;
            let store = Arc::clone(held.store()?);
            interruptible(py, cancel, || {
                let written = AtomicU64::new(0);
                let merged = store.merge_asking(&mut stopping(cancel, &written), &asking(cancel));
                merged.map_err(unless_cancelled(cancel, Failure::from))
            })
        };
        merged().raise(py, None)
    }

    /// How many quads there are.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let held = self.held().raise(py, None)?;
        Ok(held.dataset().snapshot().len())
    }

    /// The folder of the store; none for data in memory.
    #[getter]
    fn path(&self, py: Python<'_>) -> PyResult<Option<PathBuf>> {
        Ok(self.held().raise(py, None)?.path.clone())
    }

    /// How many threads work for it.
    #[getter]
    fn threads(&self, py: Python<'_>) -> PyResult<usize> {
        let threads = || Ok(self.held()?.service()?.runtime().plan().threads());
        threads().raise(py, None)
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Lets the data go. Answers that are being read go on.
    fn close(&self, py: Python<'_>) {
        let held = self.take();
        py.detach(|| drop(held));
    }
}

/// The error of an operation without its number: there is one operation.
fn inner(error: Error) -> Error {
    match error {
        Error::Operation { error, .. } => Error::clone(&error),
        error => error,
    }
}

/// A query that is planned. See `vicus.Prepared`.
#[pyclass(frozen, module = "vicus")]
pub(crate) struct Prepared {
    held: Arc<OpenData>,
    dataset: Dataset,
    options: SessionOptions,
    plan: Arc<Plan>,
    text: String,
}

#[pymethods]
impl Prepared {
    /// Begins to answer it.
    fn run(&self, py: Python<'_>, timeout: Option<f64>, memory: Option<u64>, cancel: &Cancel) -> PyResult<Rows> {
        let begun = || -> Outcome<Rows> {
            let mut options = self.options.clone();
            if let Some(seconds) = timeout {
                let time = Duration::try_from_secs_f64(seconds);
                options.limits.time = Some(time.map_err(|_| Failure::argument("timeout is a number of seconds"))?);
            }
            options.limits.memory = memory.or(options.limits.memory);
            options.limits.cancel = cancel.0.clone();
            begin(py, &self.held, &self.dataset, &options, &self.plan, &self.text)
        };
        begun().raise(py, Some(&self.text))
    }

    /// Its operators and boxes.
    fn explain(&self) -> String {
        self.plan.explain(None)
    }

    /// Its text.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }
}

#[pymethods]
impl Transaction {
    /// Changes the data of the transaction.
    #[pyo3(name = "update", signature = (text, asked=None))]
    fn update_by(&self, py: Python<'_>, text: &str, asked: Option<AskOptions>) -> PyResult<(usize, f64)> {
        let updated = || -> Outcome<(usize, f64)> {
            let options = asked.unwrap_or_default().options(self.held())?;
            let updated = self.update(py, text, options)?;
            Ok((updated.operations, updated.time.as_secs_f64()))
        };
        updated().raise(py, Some(text))
    }

    /// Begins to answer a query over the data as changed so far.
    #[pyo3(signature = (text, asked=None))]
    fn query(&self, py: Python<'_>, text: &str, asked: Option<AskOptions>) -> PyResult<Rows> {
        let begun = || -> Outcome<Rows> {
            let options = asked.unwrap_or_default().options(self.held())?;
            let dataset = self.dataset(py)?;
            ask(py, self.held(), &dataset, &options, text)
        };
        begun().raise(py, Some(text))
    }

    /// Ends it, with its changes or without.
    #[pyo3(name = "end")]
    fn end_by(&self, py: Python<'_>, keep: bool) -> PyResult<()> {
        self.end(py, keep).raise(py, None)
    }
}

/// Checks the store in a folder, beside a process that may be writing to it; what was found.
#[pyfunction]
pub(crate) fn check(py: Python<'_>, path: PathBuf, cancel: &Cancel) -> PyResult<String> {
    let cancel = &cancel.0;
    let checked = interruptible(py, cancel, || {
        let mut pause = |_, _| {
            if cancel.is_cancelled() {
                give_up(Error::Cancelled);
            }
        };
        let of = |error: StoreError| Failure::new("StoreError", format_args!("{}: {error}", path.display()));
        check_store(Path::new(&path), &mut pause).map(|checked| checked.to_string()).map_err(of)
    });
    checked.map_err(|failure| if cancel.is_cancelled() { keep_python(failure) } else { failure }).raise(py, None)
}

/// A cancelled check gives up by a panic.
fn keep_python(failure: Failure) -> Failure {
    match failure {
        Failure::Python(error) => Failure::Python(error),
        _ => Error::Cancelled.into(),
    }
}
