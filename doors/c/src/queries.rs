//! Data, questions to it, and changes of it.

use crate::answers::Answer;
use crate::error::{Failure, Outcome, guard, guard_or, status};
use crate::runtime::{Threads, threads};
use crate::tasks::{Data, ended};
use crate::text::{array, free, give, handle, optional, output, print, required};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use std::ffi::{c_char, c_void};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Cursor, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vicus::environment;
use vicus_service::data::{LoadOptions, LoadSource, Store, Syntax};
use vicus_service::{
    ArrowStream, Call, CallLimits, Cancel, Count, Dataset, Document, ErrorKind, Format, LANGUAGES, Prepared, Session,
    SessionOptions, SharedDataset, StoreMerger, StoreUpdateError, Tables, TextSink, create_store, file_iri, graph_name,
    open_store, syntax_by_ending, unpacked,
};

/// `vicus_data`.
pub(crate) struct OpenData {
    kept: DataStore,
    threads: Threads,
    hash_seed: u64,
    /// The tables of files, for SQL.
    tables: Mutex<Arc<Tables>>,
}

enum DataStore {
    /// In memory.
    Memory(SharedDataset),
    /// A store in a folder.
    Folder {
        /// Merges changes in the background; ended first.
        _merger: StoreMerger,
        store: Arc<Store>,
    },
}

impl OpenData {
    fn new(kept: DataStore, threads: Threads, hash_seed: u64) -> OpenData {
        OpenData { kept, threads, hash_seed, tables: Mutex::default() }
    }

    fn tables(&self) -> MutexGuard<'_, Arc<Tables>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data as it is now.
    fn dataset(&self) -> Dataset {
        match &self.kept {
            DataStore::Memory(dataset) => dataset.dataset(),
            DataStore::Folder { store, .. } => Dataset::new(store.snapshot()),
        }
    }
}

fn data_failure(error: impl std::fmt::Display) -> Failure {
    Failure::new(status::DATA, error)
}

/// The key of hashes: as the environment says, or else by chance.
fn hash_seed() -> Outcome<u64> {
    match environment::hash_seed() {
        Some(seed) => seed.map_err(|wrong| Failure::new(status::SETTING, wrong)),
        None => Ok(RandomState::new().hash_one(0)),
    }
}

/// A syntax by the ending of a file's name, such as `ttl`.
fn syntax(name: &str) -> Outcome<Syntax> {
    syntax_by_ending(&format!("x.{name}")).ok_or_else(|| {
        let message = format!("there is no syntax `{name}`, only nt, nq, ttl, trig, rdf and jsonld");
        Failure::new(status::SETTING, message)
    })
}

fn source(path: &str, said: Option<Syntax>) -> Outcome<LoadSource> {
    let syntax = said.or_else(|| syntax_by_ending(path)).ok_or_else(|| {
        let endings = ".nt, .nq, .ttl, .trig, .rdf or .jsonld, with .gz or .zst behind it or not";
        data_failure(format_args!(
            "{path}: the ending says no syntax that can be read; expected is {endings}, or a syntax"
        ))
    })?;
    let about = |error: io::Error| data_failure(format_args!("{path}: {error}"));
    let file = File::open(path).map_err(about)?;
    if file.metadata().map_err(about)?.is_dir() {
        return Err(data_failure(format_args!("{path}: is a folder; expected is a file")));
    }
    let base = file_iri(Path::new(path)).map_err(about)?;
    Ok(LoadSource::new(path, syntax, unpacked(file, path)).with_base(base))
}

fn load(threads: &Threads, sources: Vec<LoadSource>, options: LoadOptions) -> Outcome<Dataset> {
    let loading = threads.load(sources, options, &Cancel::new());
    let loaded = loading.finish().map_err(|error| match error.kind() {
        // There is no query yet: the data is wrong.
        ErrorKind::Failed | ErrorKind::Query => data_failure(error),
        _ => Failure::from(error),
    })?;
    Ok(loaded.dataset)
}

fn seeded(hash_seed: u64) -> LoadOptions {
    LoadOptions { hash_seed, ..LoadOptions::default() }
}

/// # Safety
/// Rules "Handles", "Texts", "Arrays" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_data_load(
    runtime: *const Threads,
    paths: *const *const c_char,
    count: usize,
    syntax_name: *const c_char,
    data: *mut *mut OpenData,
) -> i32 {
    guard(|| {
        let out = output(data, "data")?;
        // SAFETY: rules "Arrays", "Texts" and "Handles".
        let (paths, said, threads) =
            unsafe { (array(paths, count, "paths")?, optional(syntax_name)?, threads(runtime)?.clone()) };
        let said = said.map(syntax).transpose()?;
        // SAFETY: rule "Texts".
        let sources = paths.iter().map(|path| source(unsafe { required(*path, "paths") }?, said));
        let sources = sources.collect::<Outcome<Vec<LoadSource>>>()?;
        let hash_seed = hash_seed()?;
        let kept = DataStore::Memory(SharedDataset::new(load(&threads, sources, seeded(hash_seed))?));
        // SAFETY: rule "Outputs".
        unsafe { give(out, OpenData::new(kept, threads, hash_seed)) };
        Ok(())
    })
}

/// # Safety
/// Rules "Handles", "Texts", "Arrays" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_data_parse(
    runtime: *const Threads,
    text: *const c_char,
    bytes: usize,
    syntax_name: *const c_char,
    data: *mut *mut OpenData,
) -> i32 {
    guard(|| {
        let out = output(data, "data")?;
        // SAFETY: rules "Arrays", "Texts" and "Handles".
        let (text, name, threads) = unsafe {
            (array(text.cast::<u8>(), bytes, "text")?, required(syntax_name, "syntax")?, threads(runtime)?.clone())
        };
        // Copied, because it is read by boxes.
        let sources = vec![LoadSource::new("text", syntax(name)?, Cursor::new(text.to_vec()))];
        let hash_seed = hash_seed()?;
        let kept = DataStore::Memory(SharedDataset::new(load(&threads, sources, seeded(hash_seed))?));
        // SAFETY: rule "Outputs".
        unsafe { give(out, OpenData::new(kept, threads, hash_seed)) };
        Ok(())
    })
}

/// Flags of `vicus_data_open`, by the numbers of the header.
pub(crate) mod open {
    pub(crate) const EXISTING: u32 = 0;
    pub(crate) const CREATE: u32 = 1;
}

/// # Safety
/// Rules "Handles", "Texts" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_data_open(
    runtime: *const Threads,
    folder: *const c_char,
    how: u32,
    data: *mut *mut OpenData,
) -> i32 {
    guard(|| {
        let out = output(data, "data")?;
        // SAFETY: rules "Texts" and "Handles".
        let (folder, threads) = unsafe { (PathBuf::from(required(folder, "folder")?), threads(runtime)?.clone()) };
        let is_there = folder.exists();
        let opened = match how {
            open::CREATE if !is_there => create_store(&folder),
            open::EXISTING | open::CREATE => open_store(&folder),
            other => {
                return Err(Failure::argument(format_args!("there is no way to open a store with the number {other}")));
            }
        };
        let store = opened.map_err(|error| data_failure(format_args!("{}: {error}", folder.display())))?;
        let store = Arc::new(store);
        let merger = threads.keep(&store).map_err(|error| Failure::new(status::SYSTEM, error))?;
        let hash_seed = hash_seed()?;
        // SAFETY: rule "Outputs".
        unsafe { give(out, OpenData::new(DataStore::Folder { _merger: merger, store }, threads, hash_seed)) };
        Ok(())
    })
}

/// # Safety
/// Rules "Handles", "Texts" and "Arrays".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_data_add(
    data: *const OpenData,
    paths: *const *const c_char,
    count: usize,
    syntax_name: *const c_char,
    graph: *const c_char,
) -> i32 {
    guard(|| {
        // SAFETY: rules "Handles", "Arrays" and "Texts".
        let (data, paths, said, graph) =
            unsafe { (handle(data, "data")?, array(paths, count, "paths")?, optional(syntax_name)?, optional(graph)?) };
        let said = said.map(syntax).transpose()?;
        let graph = graph.map(graph_name).transpose().map_err(|wrong| Failure::new(status::SETTING, wrong))?;
        // SAFETY: rule "Texts".
        let sources = paths.iter().map(|path| source(unsafe { required(*path, "paths") }?, said));
        let sources = sources.collect::<Outcome<Vec<LoadSource>>>()?;
        match &data.kept {
            DataStore::Memory(dataset) => {
                let mut draft = dataset.draft();
                for LoadSource { name, syntax, base, reader } in sources {
                    let into = graph.as_ref().map_or_else(String::new, |graph| format!(" INTO GRAPH {graph}"));
                    let mut options = SessionOptions::default();
                    options.plan.hash_seed = data.hash_seed;
                    options.document = Some(Document::new(ADDED.to_owned(), syntax, base, reader));
                    let added = data.threads.update(&format!("LOAD <{ADDED}>{into}"), &mut draft, options);
                    added.map_err(|error| data_failure(format_args!("{name}: {error}")))?;
                }
                draft.commit();
            }
            DataStore::Folder { store, .. } => {
                let loaded = load(&data.threads, sources, LoadOptions { graph, ..seeded(data.hash_seed) })?;
                let loaded = Arc::into_inner(loaded.into_snapshot()).expect("only the loader has made it");
                store.load(loaded, &mut |_| {}).map_err(data_failure)?;
            }
        }
        Ok(())
    })
}

/// The name of a file for LOAD; LOAD gets the file itself.
const ADDED: &str = "vicus:added";

/// # Safety
/// Rules "Handles" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_data_count(data: *const OpenData, quads: *mut u64) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let count = unsafe { handle(data, "data") }?.dataset().snapshot().len() as u64;
        // SAFETY: rule "Outputs".
        unsafe { output(quads, "quads")?.write(count) };
        Ok(())
    })
}

/// # Safety
/// Rules "Handles" and "Texts".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_data_add_table(
    data: *const OpenData,
    name: *const c_char,
    path: *const c_char,
) -> i32 {
    guard(|| {
        // SAFETY: rules "Handles" and "Texts".
        let (data, name, path) = unsafe { (handle(data, "data")?, required(name, "name")?, required(path, "path")?) };
        let table = vicus_tables::open(path).map_err(data_failure)?;
        Arc::make_mut(&mut *data.tables()).add(name, table);
        Ok(())
    })
}

/// # Safety
/// Rule "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_cancel_new(cancel: *mut *mut Cancel) -> i32 {
    guard(|| {
        let out = output(cancel, "cancel")?;
        // SAFETY: rule "Outputs".
        unsafe { give(out, Cancel::new()) };
        Ok(())
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_cancel_all(cancel: *const Cancel) {
    guard_or((), || {
        // SAFETY: rule "Handles".
        if let Some(cancel) = unsafe { cancel.as_ref() } {
            cancel.cancel();
        }
    });
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_cancel_free(cancel: *mut Cancel) {
    // SAFETY: rule "Handles".
    guard_or((), || unsafe { free(cancel) });
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_data_free(data: *mut OpenData) {
    // SAFETY: rule "Handles".
    guard_or((), || unsafe { free(data) });
}

/// `vicus_query_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "the name that the header has")]
pub(crate) struct vicus_query_options {
    /// The bytes of the program's structure.
    pub(crate) size: u32,
    /// The number of the query's language.
    pub(crate) language: u32,
    /// 0: no limit.
    pub(crate) timeout_ms: u64,
    /// 0: no limit beyond the common one.
    pub(crate) memory_bytes: u64,
    /// 0: no limit. With more it fails.
    pub(crate) most_rows: u64,
    /// 0: all. Further ones are left out.
    pub(crate) first_rows: u64,
    /// The base of relative IRIs; may be null.
    pub(crate) base: *const c_char,
    /// A handle to cancel it; may be null.
    pub(crate) cancel: *const Cancel,
    /// Bits of `query`.
    pub(crate) flags: u32,
    /// 0: the usual limit on boxes that live at once.
    pub(crate) most_boxes: u32,
}

/// The flags of queries, by the numbers of the header.
pub(crate) mod query {
    pub(crate) const ANY_ORDER: u32 = 1;
}

/// How a query is asked.
struct AskOptions(SessionOptions);

impl AskOptions {
    /// # Safety
    /// Rules "Handles" and "Texts".
    unsafe fn new(options: *const vicus_query_options, data: &OpenData) -> Outcome<AskOptions> {
        let mut asked = SessionOptions::default();
        asked.plan.hash_seed = data.hash_seed;
        asked.languages.sql.tables = Arc::clone(&data.tables());
        // SAFETY: rule "Handles"; the size is the first field of every version.
        let Some(size) = (unsafe { options.cast::<u32>().as_ref() }) else { return Ok(AskOptions(asked)) };
        if *size as usize != size_of::<vicus_query_options>() {
            let message = format!("`options.size` is {size}: begin with VICUS_QUERY_OPTIONS_INIT, which sets it");
            return Err(Failure::argument(message));
        }
        // SAFETY: the structure is whole, as its size says.
        let said = unsafe { &*options };
        let unknown = || Failure::argument("the options of a query have a language or a flag that is not known");
        let language = LANGUAGES.into_iter().find(|language| language.number() == said.language);
        let (Some(language), 0) = (language, said.flags & !query::ANY_ORDER) else { return Err(unknown()) };
        let some = |number: u64| (number > 0).then_some(number);
        asked.language = language;
        // SAFETY: rule "Texts".
        asked.base = unsafe { optional(said.base) }?.map(str::to_owned);
        asked.parallel_answers = said.flags & query::ANY_ORDER != 0;
        asked.first_rows = some(said.first_rows);
        asked.limits = CallLimits {
            time: some(said.timeout_ms).map(Duration::from_millis),
            memory: some(said.memory_bytes),
            rows: some(said.most_rows),
            most_boxes: NonZeroUsize::new(said.most_boxes as usize),
            // SAFETY: rule "Handles".
            cancel: unsafe { said.cancel.as_ref() }.cloned().unwrap_or_default(),
            ..CallLimits::default()
        };
        Ok(AskOptions(asked))
    }

    fn session(self, data: &OpenData) -> Session {
        data.threads.session(&data.dataset(), self.0)
    }

    fn prepare(self, data: &OpenData, text: &str) -> Outcome<(Call, Arc<Prepared>)> {
        let mut call = self.session(data).call()?;
        let prepared = call.prepare(text)?;
        Ok((call, prepared))
    }
}

/// # Safety
/// Rules "Handles", "Texts" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_query(
    data: *const OpenData,
    text: *const c_char,
    options: *const vicus_query_options,
    stream: *mut FFI_ArrowArrayStream,
) -> i32 {
    guard(|| {
        let out = output(stream, "stream")?;
        // SAFETY: rules "Handles" and "Texts".
        let (data, text) = unsafe { (handle(data, "data")?, required(text, "text")?) };
        // SAFETY: rules "Handles" and "Texts".
        let (call, prepared) = unsafe { AskOptions::new(options, data) }?.prepare(data, text)?;
        let given = begin(call, &prepared)?;
        // SAFETY: rule "Outputs"; the old value is not dropped, because it may be anything.
        unsafe { out.write(given) };
        Ok(())
    })
}

/// Begins to answer a query.
fn begin(call: Call, prepared: &Arc<Prepared>) -> Outcome<FFI_ArrowArrayStream> {
    Ok(FFI_ArrowArrayStream::new(Box::new(Answer(ArrowStream::begin(call, prepared)?))))
}

/// `vicus_prepared`: a parsed and planned query, and its data.
pub(crate) struct Kit {
    session: Session,
    prepared: Arc<Prepared>,
}

/// # Safety
/// Rules "Handles", "Texts" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_prepare(
    data: *const OpenData,
    text: *const c_char,
    options: *const vicus_query_options,
    prepared: *mut *mut Kit,
) -> i32 {
    guard(|| {
        let out = output(prepared, "prepared")?;
        // SAFETY: rules "Handles" and "Texts".
        let (data, text) = unsafe { (handle(data, "data")?, required(text, "text")?) };
        // SAFETY: rules "Handles" and "Texts".
        let session = unsafe { AskOptions::new(options, data) }?.session(data);
        let prepared = session.call()?.prepare(text)?;
        // SAFETY: rule "Outputs".
        unsafe { give(out, Kit { session, prepared }) };
        Ok(())
    })
}

/// # Safety
/// Rules "Handles" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_prepared_query(prepared: *const Kit, stream: *mut FFI_ArrowArrayStream) -> i32 {
    guard(|| {
        let out = output(stream, "stream")?;
        // SAFETY: rule "Handles".
        let Kit { session, prepared } = unsafe { handle(prepared, "prepared") }?;
        let given = begin(session.call()?, prepared)?;
        // SAFETY: rule "Outputs".
        unsafe { out.write(given) };
        Ok(())
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_prepared_free(prepared: *mut Kit) {
    // SAFETY: rule "Handles".
    guard_or((), || unsafe { free(prepared) });
}

/// # Safety
/// Rules "Handles", "Texts" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_query_count(
    data: *const OpenData,
    text: *const c_char,
    options: *const vicus_query_options,
    rows: *mut u64,
) -> i32 {
    guard(|| {
        let out = output(rows, "rows")?;
        // SAFETY: rules "Handles" and "Texts".
        let (data, text) = unsafe { (handle(data, "data")?, required(text, "text")?) };
        // SAFETY: rules "Handles" and "Texts".
        let (call, prepared) = unsafe { AskOptions::new(options, data) }?.prepare(data, text)?;
        let (_, outcome) = call.answer(&prepared, Count)?;
        // SAFETY: rule "Outputs".
        unsafe { out.write(outcome.rows) };
        Ok(())
    })
}

/// `vicus_write_fn`.
type WriteFn = unsafe extern "C" fn(data: *mut c_void, bytes: *const c_char, count: usize) -> i32;

/// Hands bytes to a function of C.
struct Writer {
    function: WriteFn,
    data: Data,
    /// Why the function has refused.
    failed: Arc<Mutex<Option<Failure>>>,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: rule "Callbacks".
        ended(unsafe { (self.function)(self.data.0, bytes.as_ptr().cast(), bytes.len()) }).map_err(|failure| {
            let error = io::Error::other(failure.message());
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
            error
        })?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// # Safety
/// Rules "Handles", "Texts" and "Callbacks".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_query_write(
    data: *const OpenData,
    text: *const c_char,
    options: *const vicus_query_options,
    format: *const c_char,
    function: Option<WriteFn>,
    function_data: *mut c_void,
) -> i32 {
    guard(|| {
        let function = function.ok_or_else(|| Failure::argument("`function` is null"))?;
        // SAFETY: rules "Handles" and "Texts".
        let (data, text, name) =
            unsafe { (handle(data, "data")?, required(text, "text")?, required(format, "format")?) };
        let format = Format::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            let names = Format::ALL.map(Format::name).join(", ");
            Failure::new(status::SETTING, format_args!("there is no format `{name}`, only {names}"))
        })?;
        // SAFETY: rules "Handles" and "Texts".
        let (call, prepared) = unsafe { AskOptions::new(options, data) }?.prepare(data, text)?;
        let failed = Arc::new(Mutex::new(None));
        let writer = Writer { function, data: Data(function_data), failed: Arc::clone(&failed) };
        let answered = call.answer(&prepared, TextSink::new(format, writer));
        match failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(failure) => Err(failure),
            None => Ok(answered.map(drop)?),
        }
    })
}

/// # Safety
/// Rules "Handles", "Texts" and "Outputs"; `buffer` has `capacity` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_query_explain(
    data: *const OpenData,
    text: *const c_char,
    options: *const vicus_query_options,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> i32 {
    guard(|| {
        // SAFETY: rules "Handles" and "Texts".
        let (data, text) = unsafe { (handle(data, "data")?, required(text, "text")?) };
        // SAFETY: rules "Handles" and "Texts".
        let (_, prepared) = unsafe { AskOptions::new(options, data) }?.prepare(data, text)?;
        // SAFETY: as asked of the caller; rule "Outputs".
        unsafe { output(length, "length")?.write(print(&prepared.explain(None), buffer, capacity)) };
        Ok(())
    })
}

/// # Safety
/// Rules "Handles" and "Texts".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_update(
    data: *const OpenData,
    text: *const c_char,
    options: *const vicus_query_options,
) -> i32 {
    guard(|| {
        // SAFETY: rules "Handles" and "Texts".
        let (data, text) = unsafe { (handle(data, "data")?, required(text, "text")?) };
        // SAFETY: rules "Handles" and "Texts".
        let AskOptions(options) = unsafe { AskOptions::new(options, data) }?;
        if !options.language.has_updates() {
            return Err(Failure::argument("updates are texts of SPARQL"));
        }
        match &data.kept {
            DataStore::Memory(dataset) => {
                let mut draft = dataset.draft();
                data.threads.update(text, &mut draft, options)?;
                draft.commit();
            }
            DataStore::Folder { store, .. } => {
                data.threads.update_store(text, store, options).map_err(|error| match error {
                    StoreUpdateError::Update(error) => Failure::from(error),
                    error => data_failure(error),
                })?;
            }
        }
        Ok(())
    })
}
