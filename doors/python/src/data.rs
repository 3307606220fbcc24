//! A database: data in memory, or a store in a folder.

use crate::answers;
use crate::errors::{Failure, Outcome, exception};
use crate::networks::write_trace;
use crate::options::{AskOptions, Cancel, Text};
use crate::pipes::Pipe;
use crate::rows::{self, Rows};
use crate::threads::Threads;
use crate::transaction::{OpenTransaction, Transaction};
use crate::wait::{Bounds, interruptible, is_main, leaving, seconds, without_interpreter};
use oxrdf::NamedNode;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vicus::give_up;
use vicus_nodes::{LeadOptions, QueryNodes, QueryNodesOptions, TlsRoots};
use vicus_service::data::{Id, LoadOptions, LoadSource, LoadSpill, OnError, Order, Phase, Snapshot, Syntax};
use vicus_service::{
    Cancel as Handle, Count, Dataset, Document, DumpError, Error, ErrorKind, Format, Output, Peers, Prepared as Plan,
    Service, SessionOptions, SharedDataset, Store, StoreError, StoreFolder, StoreMerger, TemporaryFolder,
    Updating as _, check_store, copy_store, create_store, dump, file_iri, graph_name, has_room_for_store, is_prefix,
    is_to_be_replaced, open_store, syntax_by_ending, unpacked,
};

/// Data, and its site.
pub(crate) struct OpenData {
    /// None from the drop on.
    kept: Option<DataStore>,
    pub(crate) site: Site,
    /// The transactions that have begun.
    pub(crate) open: Mutex<Vec<OpenTransaction>>,
    plans: Mutex<Plans>,
}

/// The plans of texts that were asked lately: a short query takes longer to be planned than to be answered.
#[derive(Default)]
struct Plans {
    /// The data that they are for.
    of: Option<Arc<Snapshot>>,
    /// By the text, and whether its rows may come in any order.
    known: HashMap<(String, bool), Arc<Plan>>,
}

impl Plans {
    /// So many plans are kept, of texts with so many bytes.
    const MOST: usize = 64;
    const LONGEST: usize = 1 << 14;

    fn turn_to(&mut self, snapshot: &Arc<Snapshot>) {
        if !self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, snapshot)) {
            *self = Plans { of: Some(Arc::clone(snapshot)), known: HashMap::new() };
        }
    }
}

/// Everything that calls need beside their data. An owner of it alone does not keep the data.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) threads: Threads,
    path: Option<PathBuf>,
    pub(crate) temporary: Option<TemporaryFolder>,
    /// Nodes that share the work of queries.
    pub(crate) peers: Option<Arc<dyn Peers>>,
}

pub(crate) enum DataStore {
    /// In memory.
    Memory(SharedDataset),
    /// A store in a folder.
    Folder {
        /// Merges changes in the background; ended first.
        _merger: StoreMerger,
        store: Arc<Store>,
    },
    /// Data that stays as it is.
    Fixed(Dataset),
}

impl OpenData {
    fn new(kept: DataStore, threads: Threads, path: Option<PathBuf>) -> OpenData {
        let temporary = TemporaryFolder::open(path.as_deref().unwrap_or(&std::env::temp_dir())).ok();
        OpenData {
            kept: Some(kept),
            site: Site { threads, path, temporary, peers: None },
            open: Mutex::default(),
            plans: Mutex::default(),
        }
    }

    pub(crate) fn kept(&self) -> &DataStore {
        self.kept.as_ref().expect("it is there until the drop")
    }

    pub(crate) fn service(&self) -> Outcome<&Service> {
        self.site.threads.service()
    }

    pub(crate) fn check_here(&self) -> Outcome {
        self.site.threads.check_here()
    }

    /// The data as it is now.
    pub(crate) fn dataset(&self) -> Dataset {
        match self.kept() {
            DataStore::Memory(dataset) => dataset.dataset(),
            DataStore::Folder { store, .. } => {
                let (snapshot, place) = store.placed_snapshot();
                Dataset::of_store(snapshot, place)
            }
            DataStore::Fixed(dataset) => dataset.clone(),
        }
    }

    pub(crate) fn check_writable(&self) -> Outcome {
        match self.kept() {
            DataStore::Fixed(_) => Err(Failure::new("ReadOnly", "this data can be read only: it is a snapshot")),
            _ => Ok(()),
        }
    }

    /// The plan of a text for this data, if it was kept.
    fn kept_plan(&self, dataset: &Dataset, text: &str, any_order: bool) -> Option<Arc<Plan>> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.turn_to(dataset.snapshot());
        plans.known.get(&(text.to_owned(), any_order)).cloned()
    }

    fn keep_plan(&self, dataset: &Dataset, text: &str, any_order: bool, plan: &Arc<Plan>) {
        if text.len() > Plans::LONGEST || !plan.can_be_kept() {
            return;
        }
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.turn_to(dataset.snapshot());
        if plans.known.len() >= Plans::MOST {
            plans.known.clear();
        }
        plans.known.insert((text.to_owned(), any_order), Arc::clone(plan));
    }

    /// Forgets plans, which keep the data that they are for.
    fn forget_plans(&self) {
        let plans = std::mem::take(&mut *self.plans.lock().unwrap_or_else(PoisonError::into_inner));
        drop(plans);
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
        if self.site.threads.is_here() {
            // Waits for the merger's thread.
            without_interpreter(|| drop(kept));
        } else {
            // A forked child has no merger's thread to wait for.
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
pub(crate) fn remaining(options: &SessionOptions, began: Instant) -> SessionOptions {
    let mut options = options.clone();
    options.limits.time = options.limits.time.map(|time| time.saturating_sub(began.elapsed()));
    options
}

/// Reads and plans a text. A short text is planned at once; a longer one is begun anew on another thread, while this
/// one looks for signals.
pub(crate) fn prepare(
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
    let bounds = Bounds::of(options.limits.cancel.clone());
    interruptible(py, &bounds, || Ok(session(options).call()?.prepare(text)?))
}

fn ask(py: Python<'_>, site: &Site, dataset: &Dataset, options: &SessionOptions, text: &str) -> Outcome<Rows> {
    let began = Instant::now();
    let plan = prepare(py, site.threads.service()?, dataset, options, text)?;
    begin(py, site, dataset, &remaining(options, began), &plan, text)
}

fn begin(
    py: Python<'_>,
    site: &Site,
    dataset: &Dataset,
    options: &SessionOptions,
    plan: &Arc<Plan>,
    text: &str,
) -> Outcome<Rows> {
    let session = site.threads.service()?.session(dataset, options.clone());
    let cancel = options.limits.cancel.clone();
    py.detach(|| rows::begin(site.threads.clone(), session.call()?, Arc::clone(plan), cancel, text))
}

/// The target of what is written to a path: a pipe's reader is waited for no longer than the call lasts.
pub(crate) fn output_to(path: &Path, name: &str, bounds: &Bounds) -> io::Result<Output> {
    match is_to_be_replaced(path) {
        Ok(false) => {
            Pipe::write(path, bounds.ask()).and_then(|pipe| Output::over(BufWriter::with_capacity(1 << 16, pipe), name))
        }
        _ => Output::create(path),
    }
}

/// A plan as text, and its operators.
type Explained = (String, Vec<rows::OperatorParts>);

/// A plan with its counts, rows, seconds of reading and planning, and seconds of the run.
type Profiled = (Explained, u64, f64, f64);

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

/// The sources of a call.
struct Sources {
    all: Vec<LoadSource>,
    /// Bytes of the files, as far as files tell.
    total: u64,
    /// Whether one is a pipe or a device, of which nobody knows how much comes.
    is_endless: bool,
}

fn sources(
    files: &[PathBuf],
    data: Option<Vec<u8>>,
    said: Option<Syntax>,
    done: &Arc<AtomicU64>,
    bounds: &Bounds,
) -> Outcome<Sources> {
    let mut sources = Sources { all: Vec::new(), total: 0, is_endless: false };
    for path in files {
        let name = path.to_string_lossy();
        let syntax = said.or_else(|| syntax_by_ending(&name)).ok_or_else(|| {
            let endings = ".nt, .nq, .ttl, .trig, .rdf, .xml, .owl or .jsonld, packed (.gz, .zst, .bz2, .xz) or not";
            let message = format!("{name}: the ending says no syntax to be read; expected is {endings}, or syntax=");
            Failure::new("DataError", message)
        })?;
        let refused = |error: io::Error| Failure::Python(error.into());
        let file =
            Pipe::read(path).map_err(|error| refused(io::Error::new(error.kind(), format!("{name}: {error}"))))?;
        let about = file.metadata().map_err(refused)?;
        if about.is_dir() {
            return Err(Failure::new("DataError", format_args!("{name} is a folder; expected is a file")));
        }
        sources.total += about.len();
        sources.is_endless |= !about.is_file();
        let base = file_iri(path).map_err(refused)?;
        let done = Arc::clone(done);
        let inner: Box<dyn Read + Send> = match about.is_file() {
            true => Box::new(file),
            false => Box::new(Pipe::over(file, bounds.ask())),
        };
        let reader = unpacked(Counted { inner, done }, &name);
        sources.all.push(LoadSource::new(name.clone(), syntax, reader).with_base(base));
    }
    if let Some(data) = data {
        sources.total += data.len() as u64;
        let counted = Counted { inner: Cursor::new(data), done: Arc::clone(done) };
        sources.all.push(LoadSource::new("data", said.unwrap_or(Syntax::Turtle), unpacked(counted, "")));
    }
    Ok(sources)
}

/// Data of so many bytes at most is added to other data quad by quad: that takes time for what is added, and not for
/// all that is there.
const FEW_BYTES: u64 = 1 << 20;

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
    fn open(
        py: Python<'_>,
        path: PathBuf,
        create: bool,
        read_only: bool,
        threads: Option<usize>,
        nodes: Option<NodeAddresses>,
    ) -> PyResult<Data> {
        // Reading a long log, or a file system that is away, has no end that a handle could bring.
        let bounds = Bounds::of(Handle::new());
        leaving(py, &bounds, |_| (), move || open(path, create, read_only, threads, nodes)).raise(py, None)
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

    /// Loads files and texts; how many quads came to the data, and malformed lines that were left out.
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
        timeout: Option<f64>,
        cancel: Option<&Bound<'_, Cancel>>,
    ) -> PyResult<(u64, u64)> {
        let loaded = || -> Outcome<(u64, u64)> {
            let bounds = Bounds::new(cancel, timeout)?;
            let held = self.held()?;
            held.check_writable()?;
            let graph = graph.map(graph_name).transpose().map_err(Failure::argument)?;
            let done = Arc::new(AtomicU64::new(0));
            let said = syntax(syntax_name)?;
            let Sources { all, total, is_endless } = py.detach(|| sources(&files, data, said, &done, &bounds))?;
            let spill = match held.kept() {
                DataStore::Folder { store, .. } => {
                    Some(LoadSpill { memory: memory.unwrap_or_else(vicus_cli::free_limit), scratch: store.scratch() })
                }
                _ if memory.is_some() => {
                    let message = "memory= bounds the work beside a store; data in memory is held whole";
                    return Err(Failure::argument(message));
                }
                _ => None,
            };
            let is_small = total <= FEW_BYTES && !is_endless && !skip && progress.is_none();
            if let DataStore::Memory(shared) = held.kept()
                && is_small
                && !shared.dataset().snapshot().is_empty()
            {
                return interruptible(py, &bounds, || add_few(&held, shared, all, graph.as_ref(), rdf_12, &bounds));
            }
            let options = LoadOptions {
                graph,
                spill,
                rdf_12,
                hash_seed: held.site.threads.hash_seed,
                on_error: if skip { OnError::Skip } else { OnError::Fail },
                ..LoadOptions::default()
            };
            let loading = py.detach(|| Ok::<_, Failure>(held.service()?.load(all, options, &bounds.cancel)))?;
            let counts = loading.progress();
            while !py.detach(|| loading.wait_for(bounds.slice())) {
                bounds.end_if_late();
                let told = || -> PyResult<()> {
                    py.check_signals()?;
                    if let Some(progress) = &progress {
                        let read = done.load(Ordering::Relaxed);
                        progress.call1((read, total, counts.triples(), phase(counts.phase())))?;
                    }
                    Ok(())
                };
                if let Err(error) = told() {
                    bounds.cancel.cancel();
                    py.detach(|| drop(loading));
                    return Err(error.into());
                }
            }
            let loaded = py.detach(|| loading.finish()).map_err(|error| bounds.told(of_loading(error)))?;
            let skipped = loaded.skipped;
            let added = interruptible(py, &bounds, || match held.kept() {
                DataStore::Memory(shared) => {
                    shared.add(loaded.dataset, &bounds.ask()).map_err(|error| Failure::new("OutOfMemory", error))
                }
                DataStore::Folder { store, .. } => {
                    let snapshot = Arc::into_inner(loaded.dataset.into_snapshot()).expect("no other owner is left");
                    let before = store.snapshot().len();
                    let written = AtomicU64::new(0);
                    store.load_asking(snapshot, &mut stopping(&bounds.cancel, &written), &bounds.ask())?;
                    Ok(store.snapshot().len().saturating_sub(before) as u64)
                }
                DataStore::Fixed(_) => held.check_writable().map(|()| 0),
            })?;
            held.forget_plans();
            Ok((added, skipped))
        };
        loaded().raise(py, None)
    }

    /// Begins to answer a query.
    #[pyo3(signature = (text, asked=None))]
    fn query(&self, py: Python<'_>, text: Text<'_>, asked: Option<AskOptions>) -> PyResult<Rows> {
        let text = text.0;
        let begun = || -> Outcome<Rows> {
            let held = self.held()?;
            let asked = asked.unwrap_or_default();
            let is_plain = asked.is_plain();
            let options = asked.options(&held.site)?;
            let (began, dataset, any_order) = (Instant::now(), held.dataset(), options.parallel_answers);
            let kept = if is_plain { held.kept_plan(&dataset, text, any_order) } else { None };
            let plan = match kept {
                Some(plan) => plan,
                None => {
                    let plan = prepare(py, held.service()?, &dataset, &options, text)?;
                    if is_plain {
                        held.keep_plan(&dataset, text, any_order, &plan);
                    }
                    plan
                }
            };
            begin(py, &held.site, &dataset, &remaining(&options, began), &plan, text)
        };
        begun().raise(py, Some(text))
    }

    /// Answers a query in a format, into a file or as bytes; how many rows, and the bytes.
    #[pyo3(signature = (text, path, format, asked=None))]
    fn write<'py>(
        &self,
        py: Python<'py>,
        text: Text<'_>,
        path: Option<PathBuf>,
        format: Option<&str>,
        asked: Option<AskOptions>,
    ) -> PyResult<(u64, Bound<'py, PyBytes>)> {
        let text = text.0;
        let written = || {
            let held = self.held()?;
            let options = asked.unwrap_or_default().options(&held.site)?;
            answers::write(py, &held.site, &held.dataset(), &options, text, path, format)
        };
        let (rows, bytes) = written().raise(py, Some(text))?;
        Ok((rows, PyBytes::new(py, &bytes)))
    }

    /// A query that is planned for the data as it is now.
    #[pyo3(signature = (text, asked=None))]
    fn prepare(&self, py: Python<'_>, text: Text<'_>, asked: Option<AskOptions>) -> PyResult<Prepared> {
        let text = text.0;
        let made = || -> Outcome<Prepared> {
            let held = self.held()?;
            let options = asked.unwrap_or_default().options(&held.site)?;
            let dataset = held.dataset();
            let plan = prepare(py, held.service()?, &dataset, &options, text)?;
            Ok(Prepared { site: held.site.clone(), dataset, options, plan, text: text.to_owned() })
        };
        made().raise(py, Some(text))
    }

    /// Carries out an update; how many operations it has, and seconds.
    #[pyo3(signature = (text, asked=None))]
    fn update(&self, py: Python<'_>, text: Text<'_>, asked: Option<AskOptions>) -> PyResult<(usize, f64)> {
        let text = text.0;
        let updated = || -> Outcome<(usize, f64)> {
            let held = self.held()?;
            held.check_writable()?;
            let options = asked.unwrap_or_default().options(&held.site)?;
            let bounds = Bounds::of(options.limits.cancel.clone());
            let updated = interruptible(py, &bounds, || match held.kept() {
                DataStore::Memory(dataset) => {
                    let mut draft = dataset.draft();
                    let updated = held.service()?.update(text, &mut draft, options)?;
                    draft.commit();
                    Ok(updated)
                }
                DataStore::Folder { store, .. } => Ok(held.service()?.update_store(text, store, options)?.updated),
                DataStore::Fixed(_) => Err(Failure::new("ReadOnly", "a snapshot can't be changed")),
            })?;
            held.forget_plans();
            Ok((updated.operations, updated.time.as_secs_f64()))
        };
        updated().raise(py, Some(text))
    }

    /// Answers a query for its counts: its operators with their work, its rows, and seconds. The run is recorded in a
    /// file, if one is given.
    #[pyo3(signature = (text, asked=None, trace=None))]
    fn profile(
        &self,
        py: Python<'_>,
        text: Text<'_>,
        asked: Option<AskOptions>,
        trace: Option<PathBuf>,
    ) -> PyResult<Profiled> {
        let text = text.0;
        let measured = || -> Outcome<Profiled> {
            let held = self.held()?;
            let file = trace.map(File::create).transpose().map_err(|error| Failure::Python(error.into()))?;
            let mut options = asked.unwrap_or_default().options(&held.site)?;
            options.counts = true;
            let dataset = held.dataset();
            let began = Instant::now();
            let plan = prepare(py, held.service()?, &dataset, &options, text)?;
            let options = remaining(&options, began);
            let planning = (plan.parsing() + plan.planning()).as_secs_f64();
            let bounds = Bounds::of(options.limits.cancel.clone());
            let recorder = match &file {
                Some(_) => Some(held.service()?.recorder().ok_or_else(|| Failure::new("Busy", "no more threads"))?),
                None => None,
            };
            let session = recorder.as_ref().unwrap_or(held.service()?).session(&dataset, options);
            let (_, outcome) = interruptible(py, &bounds, || Ok(session.call()?.answer(&plan, Count)?))?;
            drop(session);
            if let (Some(file), Some(recorder)) = (file, recorder) {
                py.detach(|| write_trace(file, recorder.recorded()))?;
            }
            let counts = Some(outcome.run_counts());
            let told = (plan.explain(counts), rows::operators(&plan, counts));
            Ok((told, outcome.rows, planning, outcome.time.as_secs_f64()))
        };
        measured().raise(py, Some(text))
    }

    /// The plan of a query as text, and its operators.
    #[pyo3(signature = (text, asked=None))]
    fn explain(&self, py: Python<'_>, text: Text<'_>, asked: Option<AskOptions>) -> PyResult<Explained> {
        let plan = self.prepare(py, text, asked)?.plan;
        Ok((plan.explain(None), rows::operators(&plan, None)))
    }

    /// The data as it is now, which stays so.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Data> {
        let made = || -> Outcome<Data> {
            let held = self.held()?;
            let Site { threads, path, .. } = held.site.clone();
            let fixed = OpenData::new(DataStore::Fixed(held.dataset()), threads, path);
            Ok(Data::new(fixed))
        };
        made().raise(py, None)
    }

    /// Begins a transaction, when those before it have ended.
    fn transaction(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        cancel: Option<&Bound<'_, Cancel>>,
    ) -> PyResult<Transaction> {
        let begun = || Transaction::begin(py, &self.held()?, &Bounds::new(cancel, timeout)?);
        begun().raise(py, None)
    }

    /// Writes the quads to a file; how many.
    #[expect(clippy::too_many_arguments, reason = "they are the keywords of the package's function")]
    fn dump(
        &self,
        py: Python<'_>,
        path: PathBuf,
        syntax_name: Option<&str>,
        graph: Option<&str>,
        prefixes: Vec<(String, String)>,
        timeout: Option<f64>,
        cancel: Option<&Bound<'_, Cancel>>,
    ) -> PyResult<usize> {
        let written = || -> Outcome<usize> {
            let bounds = Bounds::new(cancel, timeout)?;
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
            interruptible(py, &bounds, || {
                let refused = |error: io::Error| {
                    let error = io::Error::new(error.kind(), format!("{name}: {error}"));
                    Failure::Python(error.into())
                };
                let mut output = output_to(&path, &name, &bounds).map_err(refused)?;
                let mut pause = |_| if bounds.is_over() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) };
                let written = dump(snapshot, graph, Format::from(syntax), &prefixes, &mut output, &mut pause);
                let quads = written.map_err(|error| match error {
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
    fn backup(
        &self,
        py: Python<'_>,
        path: PathBuf,
        memory: Option<u64>,
        timeout: Option<f64>,
        cancel: Option<&Bound<'_, Cancel>>,
    ) -> PyResult<usize> {
        let copied = || -> Outcome<usize> {
            let bounds = Bounds::new(cancel, timeout)?;
            let dataset = self.held()?.dataset();
            let memory = memory.unwrap_or_else(vicus_cli::free_limit);
            interruptible(py, &bounds, || {
                let written = AtomicU64::new(0);
                Ok(copy_store(dataset.snapshot(), &path, memory, &mut stopping(&bounds.cancel, &written))?)
            })
        };
        copied().raise(py, None)
    }

    /// Writes the base of the store anew with the changes since; whether there were some.
    fn compact(&self, py: Python<'_>, timeout: Option<f64>, cancel: Option<&Bound<'_, Cancel>>) -> PyResult<bool> {
        let merged = || -> Outcome<bool> {
            let bounds = Bounds::new(cancel, timeout)?;
            let held = self.held()?;
            held.check_writable()?;
            let store = Arc::clone(held.store()?);
            interruptible(py, &bounds, || {
                let written = AtomicU64::new(0);
                let merged = store.merge_asking(&mut stopping(&bounds.cancel, &written), &bounds.ask())?;
                held.forget_plans();
                Ok(merged)
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
        Ok(self.held().raise(py, None)?.site.path.clone())
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

    /// Lets the data go. Answers that are being read go on; transactions that have not ended are rolled back.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(held) = self.take() else { return Ok(()) };
        if held.check_here().is_err() {
            // Neither the threads of a parent's transactions are here, nor the other owners of the data.
            return Ok(());
        }
        let open = std::mem::take(&mut *held.open.lock().unwrap_or_else(PoisonError::into_inner));
        open.iter().for_each(OpenTransaction::end);
        // An update of a transaction may be under way, and the merger may be writing.
        let bounds = Bounds::of(Handle::new());
        let closed = leaving(
            py,
            &bounds,
            |_| (),
            move || {
                open.into_iter().for_each(OpenTransaction::wait);
                drop(held);
                Ok(())
            },
        );
        closed.raise(py, None)
    }
}

/// Nodes that share the work of queries, with their token, and the file of authorities that have signed their
/// certificates.
pub(crate) type NodeAddresses = (Vec<String>, Option<String>, Option<PathBuf>);

fn peers(nodes: Option<NodeAddresses>) -> Outcome<Option<Arc<dyn Peers>>> {
    let Some((addresses, token, roots)) = nodes.filter(|(addresses, ..)| !addresses.is_empty()) else {
        return Ok(None);
    };
    let roots = roots.map(|file| TlsRoots::read(&file)).transpose().map_err(Failure::argument)?;
    let lead = LeadOptions { token, roots, ..LeadOptions::default() };
    let options = QueryNodesOptions { lead, ..QueryNodesOptions::default() };
    let nodes = QueryNodes::connect(&addresses, options).map_err(|why| Failure::new("StoreError", why))?;
    Ok(Some(Arc::new(nodes)))
}

/// Opens the store in a folder, or makes one.
fn open(
    path: PathBuf,
    create: bool,
    read_only: bool,
    threads: Option<usize>,
    nodes: Option<NodeAddresses>,
) -> Outcome<Data> {
    let mut data = open_alone(path, create, read_only, threads)?;
    data.site.peers = peers(nodes)?;
    Ok(Data::new(data))
}

fn open_alone(path: PathBuf, create: bool, read_only: bool, threads: Option<usize>) -> Outcome<OpenData> {
    if path.is_file() {
        return Err(Failure::new("StoreError", format_args!("{} is a file, and a store is a folder", path.display())));
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
        // It is also read beside a process that writes to it, and has a place among copies.
        let kept = DataStore::Fixed(StoreFolder::new(path.clone()).read(None)?);
        return Ok(OpenData::new(kept, Threads::new(threads)?, Some(path.clone())));
    }
    let store = if has_room { create_store(&path) } else { open_store(&path) };
    let store = Arc::new(store.map_err(of)?);
    let threads = Threads::new(threads)?;
    let merger = threads.service()?.keep(&store).map_err(|error| Failure::new("Busy", error))?;
    Ok(OpenData::new(DataStore::Folder { _merger: merger, store }, threads, Some(path.clone())))
}

/// Adds little data beside what is there: each source by an operation of an update, and all or none of them.
fn add_few(
    held: &OpenData,
    shared: &SharedDataset,
    sources: Vec<LoadSource>,
    graph: Option<&NamedNode>,
    rdf_12: bool,
    bounds: &Bounds,
) -> Outcome<(u64, u64)> {
    let mut draft = shared.draft();
    let mut before = None;
    for LoadSource { name, syntax, base, reader } in sources {
        let into = graph.map_or_else(String::new, |graph| format!(" INTO GRAPH {graph}"));
        let mut options = SessionOptions::default();
        options.plan.hash_seed = held.site.threads.hash_seed;
        options.limits.cancel = bounds.cancel.clone();
        options.languages.sparql.rdf_12 = rdf_12;
        options.document = Some(Document::new(ADDED.to_owned(), syntax, base, reader));
        draft.ask(bounds.ask());
        let of = |error: Arc<dyn std::error::Error + Send + Sync>| Failure::new("StoreError", error);
        before.get_or_insert(draft.snapshot().map_err(of)?.len());
        let added = held.service()?.update(&format!("LOAD <{ADDED}>{into}"), &mut draft, options);
        added.map_err(|error| match of_loading(inner(error)) {
            Failure::Named(class, message) => Failure::new(class, format_args!("{name}: {message}")),
            other => other,
        })?;
    }
    let of = |error: Arc<dyn std::error::Error + Send + Sync>| Failure::new("StoreError", error);
    let after = draft.snapshot().map_err(of)?.len();
    draft.commit();
    Ok((after.saturating_sub(before.unwrap_or(after)) as u64, 0))
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
    /// Without the database, so that another one may open its store when it is closed.
    site: Site,
    dataset: Dataset,
    options: SessionOptions,
    plan: Arc<Plan>,
    text: String,
}

#[pymethods]
impl Prepared {
    /// Begins to answer it.
    fn run(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        memory: Option<u64>,
        cancel: Option<&Bound<'_, Cancel>>,
    ) -> PyResult<Rows> {
        let begun = || -> Outcome<Rows> {
            let mut options = self.options.clone();
            options.limits.time = timeout.map(seconds).transpose()?;
            options.limits.memory = memory.or(options.limits.memory);
            options.limits.cancel = Bounds::new(cancel, None)?.cancel;
            begin(py, &self.site, &self.dataset, &options, &self.plan, &self.text)
        };
        begun().raise(py, Some(&self.text))
    }

    /// Its operators and boxes.
    fn explain(&self) -> Explained {
        (self.plan.explain(None), rows::operators(&self.plan, None))
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
    fn update_by(&self, py: Python<'_>, text: Text<'_>, asked: Option<AskOptions>) -> PyResult<(usize, f64)> {
        let text = text.0;
        let updated = || -> Outcome<(usize, f64)> {
            let options = asked.unwrap_or_default().options(self.site())?;
            let updated = self.update(py, text, options)?;
            Ok((updated.operations, updated.time.as_secs_f64()))
        };
        updated().raise(py, Some(text))
    }

    /// Begins to answer a query over the data as changed so far.
    #[pyo3(signature = (text, asked=None))]
    fn query(&self, py: Python<'_>, text: Text<'_>, asked: Option<AskOptions>) -> PyResult<Rows> {
        let text = text.0;
        let begun = || -> Outcome<Rows> {
            let options = asked.unwrap_or_default().options(self.site())?;
            let dataset = self.dataset(py)?;
            ask(py, self.site(), &dataset, &options, text)
        };
        begun().raise(py, Some(text))
    }

    /// Answers a query over the data as changed so far in a format, into a file or as bytes; how many rows, and the
    /// bytes.
    #[pyo3(signature = (text, path, format, asked=None))]
    fn write<'py>(
        &self,
        py: Python<'py>,
        text: Text<'_>,
        path: Option<PathBuf>,
        format: Option<&str>,
        asked: Option<AskOptions>,
    ) -> PyResult<(u64, Bound<'py, PyBytes>)> {
        let text = text.0;
        let written = || {
            let options = asked.unwrap_or_default().options(self.site())?;
            answers::write(py, self.site(), &self.dataset(py)?, &options, text, path, format)
        };
        let (rows, bytes) = written().raise(py, Some(text))?;
        Ok((rows, PyBytes::new(py, &bytes)))
    }

    /// Ends it, with its changes or without.
    #[pyo3(name = "end")]
    fn end_by(&self, py: Python<'_>, keep: bool) -> PyResult<()> {
        self.end(py, keep).raise(py, None)
    }
}

/// Checks the store in a folder, beside a process that may be writing to it; what was found.
#[pyfunction]
pub(crate) fn check(
    py: Python<'_>,
    path: PathBuf,
    timeout: Option<f64>,
    cancel: Option<&Bound<'_, Cancel>>,
) -> PyResult<String> {
    let checked = || {
        let bounds = Bounds::new(cancel, timeout)?;
        interruptible(py, &bounds, || {
            let mut pause = |_, _| {
                if bounds.is_over() {
                    give_up(Error::Cancelled);
                }
            };
            let of = |error: StoreError| Failure::new("StoreError", format_args!("{}: {error}", path.display()));
            check_store(Path::new(&path), &mut pause).map(|checked| checked.to_string()).map_err(of)
        })
    };
    checked().raise(py, None)
}
