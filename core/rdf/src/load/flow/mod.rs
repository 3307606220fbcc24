//! Loading as a flow request: any number of sources, any number of workers, one store.
//!
//! ```text
//!  read ──▶ deal ──▶ parse ──▶ cut terms ──▶ merge terms ──▶ assemble ──▶ sort ──▶ cut runs ──▶ merge runs ─┐
//!   │ m       1        k           1              k             1  │ │      k          1             k      │
//!   └─── pieces of Turtle ─────────▲                               │ │ numbering                            ▼
//!                                                        dictionary│ └──────────────────────────▶ gather runs
//!                                                                  ▼                                    1 │
//!                                                                store ◀──────────── index ◀──────────────┘
//!                                                                  1            one for each order
//! ```
//!
//! Each box calls [`load`](super)'s functions over data, and each piece of heavy work is one invocation of one of k
//! boxes, so that whoever schedules boxes schedules the loading. N-Triples is cut into chunks, which go to whoever has
//! least before it; Turtle cannot be cut, so the box that reads a Turtle source parses it. What passes is too odd for
//! columns: envelopes carry handles ([`slots`]).
//!
//! The store does not depend on the number of workers, on chunks or on the schedule: it is [`Loader`](super::Loader)'s.

mod network;
mod slots;
mod text;

use super::{OnError, Parsed, SyntaxError, Unparsed};
use crate::index::Order;
use crate::placed::Placement;
use crate::store::Store;
use memchr::memchr_iter;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use vicus_flow::{BoxError, FlowError, Model};

/// How a source is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Syntax {
    NTriples,
    Turtle,
}

/// A file, a pipe, or anything else that has bytes.
pub struct Source {
    /// What errors call it: a path, say.
    pub name: String,
    /// How it is written.
    pub syntax: Syntax,
    /// What relative IRIs in Turtle are resolved against.
    pub base: Option<String>,
    /// The bytes, unpacked. May block: it is read in a blocking section.
    pub reader: Box<dyn Read + Send>,
}

impl Source {
    /// A source without a base.
    pub fn new(name: impl Into<String>, syntax: Syntax, reader: impl Read + Send + 'static) -> Source {
        Source { name: name.into(), syntax, base: None, reader: Box::new(reader) }
    }

    /// Sets the base.
    pub fn with_base(mut self, base: impl Into<String>) -> Source {
        self.base = Some(base.into());
        self
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Source { name, syntax, base, .. } = self;
        f.debug_struct("Source").field("name", name).field("syntax", syntax).field("base", base).finish_non_exhaustive()
    }
}

/// How to load.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// How many boxes of each kind work side by side: as many as the runtime has threads.
    pub workers: usize,
    /// What to do about text that breaks the grammar.
    pub on_error: OnError,
    /// How much is read and parsed at once. Only a longer line makes a chunk longer.
    pub chunk_bytes: usize,
    /// A line of N-Triples, or a statement of Turtle up to its first triple, that is longer is an error, so that an endless
    /// one ends before the memory does.
    pub longest_line: usize,
    /// What hashes of terms are keyed with; see [`Parsed::of_seed`](super::Parsed::of_seed).
    pub hash_seed: u64,
    /// Indexes besides [`Order::USUAL`].
    pub orders: Vec<Order>,
    /// Over which nodes the store is laid, if there are several with threads: large indexes a range of rows on each, so
    /// that scans can run near; the dictionary's terms, which are read here and there, page by page. Without it, it lies
    /// where loading filled it.
    pub over: Option<Placement>,
}

impl Default for LoadOptions {
    /// One worker, failure at the first error, chunks of 1 MiB, lines of up to 64 MiB, no further orders, laid over no nodes.
    fn default() -> LoadOptions {
        LoadOptions {
            workers: 1,
            on_error: OnError::Fail,
            chunk_bytes: 1 << 20,
            longest_line: 64 << 20,
            hash_seed: 0,
            orders: Vec::new(),
            over: None,
        }
    }
}

/// One loading: submit its model to a runtime, and when the request has ended, take the store.
///
/// Boxes read the sources a chunk at a time, deal the chunks to parsers, and put what these made together. The store is
/// the one that [`Loader`](super::Loader) makes of the same sources, whatever the schedule. Memory: a few chunks of text
/// for each worker, and then at most about twice the store. A stop is seen between two steps; the longest, which take
/// about 30 ns a triple, are sorting one worker's share and sorting all triples in one order.
///
/// ```
/// use vicus_flow::sequential;
/// use vicus_rdf::load::{Load, LoadOptions, Source, Syntax};
///
/// let sources = vec![
///     Source::new("a.nt", Syntax::NTriples, &b"_:x <http://e/p> <http://e/o> .\n"[..]),
///     Source::new("b.ttl", Syntax::Turtle, &b"_:x <p> <o> ."[..]).with_base("http://e/"),
/// ];
/// let load = Load::new(sources, LoadOptions { workers: 2, ..LoadOptions::default() });
/// sequential::run(load.model(), Vec::new(), |_| 0)?;
/// assert_eq!(load.finish()?.store.len(), 2); // Each file has its own _:x.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Load {
    model: Arc<Model>,
    shared: Arc<Shared>,
}

impl Load {
    /// Prepares to load these sources, whose numbers are their places in the list. Panics at 1,112,064 sources.
    pub fn new(sources: Vec<Source>, options: LoadOptions) -> Load {
        assert!(sources.len() < 1_112_064, "a file's number is part of its blank nodes' names, as one character");
        let workers = options.workers.max(1);
        let readers = sources.len().clamp(1, workers);
        // The sender's seat goes on with the box that was activated last, and a thief takes the first: the two orders
        // that take longest, Pos and Ops, are at the ends, so that they are begun first.
        let is_wanted = |order: &Order| Order::USUAL.contains(order) || options.orders.contains(order);
        let orders = [Order::Ops, Order::Osp, Order::Spo, Order::Pso, Order::Sop, Order::Pos];
        let orders: Vec<Order> = orders.into_iter().filter(is_wanted).collect();
        let shared = Arc::new(Shared {
            names: sources.iter().map(|source| source.name.clone()).collect(),
            sources: Mutex::new((0..).zip(sources).collect()),
            on_error: options.on_error,
            chunk_bytes: options.chunk_bytes.max(1),
            longest_line: options.longest_line,
            hash_seed: options.hash_seed,
            over: options.over,
            begun: AtomicBool::new(false),
            buffers: Mutex::default(),
            skipped: Mutex::default(),
            progress: Arc::default(),
            store: Mutex::default(),
        });
        Load { model: network::network(&shared, readers, workers, &orders), shared }
    }

    /// What to submit, once.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// How far it is, to be looked at while it runs.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.shared.progress)
    }

    /// What was loaded, after the request has ended well.
    ///
    /// # Errors
    /// [`LoadError::Unfinished`] if it has not.
    pub fn finish(self) -> Result<Loaded, LoadError> {
        let store = self.shared.store.lock().expect("nothing panics under this lock").take();
        let store = store.ok_or(LoadError::Unfinished)?;
        let Skipped { count, first } =
            std::mem::take(&mut *self.shared.skipped.lock().expect("nothing panics under this lock"));
        let first_skipped = first.map(|error| self.shared.located(error));
        Ok(Loaded { store, skipped: count, first_skipped })
    }
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load").field("sources", &self.shared.names).finish_non_exhaustive()
    }
}

/// The outcome of a [`Load`].
#[derive(Debug)]
pub struct Loaded {
    /// All triples of all sources.
    pub store: Store,
    /// How many lines of N-Triples and errors in Turtle were skipped.
    pub skipped: u64,
    /// The first of them: of the first source that had any, the one that stands first.
    pub first_skipped: Option<Malformed>,
}

/// Where a source breaks the grammar, and how. Displayed as editors and terminals understand it: name, line, column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// The source.
    pub name: String,
    /// Where in it, and how.
    pub error: SyntaxError,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SyntaxError { line, column, message, .. } = &self.error;
        write!(f, "{}:{line}:{column}: {message}", self.name)
    }
}

/// Why nothing was loaded. A request fails with it inside a [`FlowError`]: see [`LoadError::of`]. Where memory can't be had, it fails
/// with [`NoMemory`](vicus_flow::NoMemory) instead, and the name of the box that asked for it.
#[derive(Debug)]
pub enum LoadError {
    /// A source breaks the grammar. With several workers it may not be the first place that does.
    Malformed(Malformed),
    /// A source could not be read.
    Unreadable {
        /// The source.
        name: String,
        /// What its reader said.
        error: io::Error,
    },
    /// A line of N-Triples is longer than [`LoadOptions::longest_line`], or no triple of Turtle ends within so many bytes.
    TooLong {
        /// The source.
        name: String,
        /// The line, from 1; in Turtle, about where such a statement begins.
        line: u64,
        /// How many bytes it may have.
        limit: usize,
    },
    /// The model was submitted twice; its sources are read once.
    Again,
    /// The store was asked for, but the request has not ended, or has failed.
    Unfinished,
}

impl LoadError {
    /// What a request failed with, if it was this.
    ///
    /// ```
    /// use vicus_flow::sequential;
    /// use vicus_rdf::load::{Load, LoadError, LoadOptions, Source, Syntax};
    ///
    /// let source = Source::new("a.nt", Syntax::NTriples, &b"\nnonsense"[..]);
    /// let load = Load::new(vec![source], LoadOptions::default());
    /// let failure = sequential::run(load.model(), Vec::new(), |_| 0).unwrap_err();
    /// let error = LoadError::of(&failure).unwrap();
    /// assert!(error.to_string().starts_with("a.nt:2:1: "));
    /// ```
    pub fn of(failure: &FlowError) -> Option<&LoadError> {
        match failure {
            FlowError::Failed { error, .. } => error.downcast_ref(),
            _ => None,
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Malformed(malformed) => malformed.fmt(f),
            LoadError::Unreadable { name, error } => write!(f, "{name} could not be read: {error}"),
            LoadError::TooLong { name, line, limit } => {
                write!(f, "{name}:{line}: more than {limit} bytes without the end of a line, in Turtle of a statement")
            }
            LoadError::Again => f.write_str("the sources have been read already: a load is one request"),
            LoadError::Unfinished => f.write_str("there is no store: the request has not ended, or it failed"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::Unreadable { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// What a load is doing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// Reading and parsing text; [`Progress::bytes`] grows.
    Text,
    /// Putting the terms of all pieces into one order.
    Terms,
    /// Sorting the triples.
    Triples,
    /// Making an index of each order.
    Indexes,
    /// The store is there.
    Done,
}

/// How far a load is. Numbers may be a moment old.
#[derive(Default, Debug)]
pub struct Progress {
    bytes: AtomicU64,
    triples: AtomicU64,
    phase: AtomicU8,
}

impl Progress {
    /// How many bytes were read, unpacked.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How many triples were parsed; those that are there twice count twice.
    pub fn triples(&self) -> u64 {
        self.triples.load(Ordering::Relaxed)
    }

    /// What it is doing.
    pub fn phase(&self) -> Phase {
        let phases = [Phase::Text, Phase::Terms, Phase::Triples, Phase::Indexes, Phase::Done];
        phases[usize::from(self.phase.load(Ordering::Relaxed))]
    }

    fn add_bytes(&self, more: usize) {
        self.bytes.fetch_add(more as u64, Ordering::Relaxed);
    }

    fn add_triples(&self, more: usize) {
        self.triples.fetch_add(more as u64, Ordering::Relaxed);
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Skipped {
    count: u64,
    first: Option<SyntaxError>,
}

/// What belongs to the load as a whole and not to a box.
struct Shared {
    /// By number.
    names: Vec<String>,
    /// Those that no reader has opened yet, in order.
    sources: Mutex<VecDeque<(u32, Source)>>,
    on_error: OnError,
    /// At least 1.
    chunk_bytes: usize,
    longest_line: usize,
    hash_seed: u64,
    over: Option<Placement>,
    /// Whether a request has been made of it.
    begun: AtomicBool,
    /// Buffers that were parsed, for the next chunks: fresh memory would cost a page fault each 4 KiB.
    buffers: Mutex<Vec<Vec<u8>>>,
    skipped: Mutex<Skipped>,
    progress: Arc<Progress>,
    store: Mutex<Option<Store>>,
}

impl Shared {
    fn next_source(&self) -> Option<(u32, Source)> {
        self.sources.lock().expect("nothing panics under this lock").pop_front()
    }

    fn buffer(&self) -> Vec<u8> {
        self.buffers.lock().expect("nothing panics under this lock").pop().unwrap_or_default()
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        // What a long line made long is not kept.
        if buffer.capacity() <= self.chunk_bytes.saturating_mul(4) {
            buffer.clear();
            self.buffers.lock().expect("nothing panics under this lock").push(buffer);
        }
    }

    fn all_is_parsed(&self) {
        self.buffers.lock().expect("nothing panics under this lock").clear();
        self.progress.enter(Phase::Terms);
    }

    /// Counts what was skipped since the last time.
    fn note_skipped(&self, parsed: &mut Parsed) {
        let Some(error) = parsed.first_skipped.take() else { return };
        let mut skipped = self.skipped.lock().expect("nothing panics under this lock");
        skipped.count += std::mem::take(&mut parsed.skipped);
        let place = |error: &SyntaxError| (error.file, error.line, error.column);
        if skipped.first.as_ref().is_none_or(|first| place(&error) < place(first)) {
            skipped.first = Some(error);
        }
    }

    fn located(&self, error: SyntaxError) -> Malformed {
        Malformed { name: self.names[error.file as usize].clone(), error }
    }

    /// Says of what is at the front of some lines whether it is a line that is longer than any may be.
    fn check_lines(&self, lines: &[u8], first_line: u64, file: u32) -> Result<(), LoadError> {
        if lines.len() <= self.longest_line {
            return Ok(());
        }
        let (mut start, mut number) = (0, first_line);
        for end in memchr_iter(b'\n', lines).chain([lines.len()]) {
            if end - start > self.longest_line {
                return Err(self.too_long(file, number));
            }
            (start, number) = (end + 1, number + 1);
        }
        Ok(())
    }

    #[cold]
    fn too_long(&self, file: u32, line: u64) -> LoadError {
        LoadError::TooLong { name: self.names[file as usize].clone(), line, limit: self.longest_line }
    }

    fn malformed(&self, error: SyntaxError) -> LoadError {
        LoadError::Malformed(self.located(error))
    }

    fn unparsed(&self, error: Unparsed) -> BoxError {
        match error {
            Unparsed::Malformed(error) => self.malformed(error).into(),
            Unparsed::NoMemory(error) => error.into(),
        }
    }

    fn unreadable(&self, file: u32, error: io::Error) -> LoadError {
        LoadError::Unreadable { name: self.names[file as usize].clone(), error }
    }

    fn end(&self, store: Store) {
        *self.store.lock().expect("nothing panics under this lock") = Some(store);
        self.progress.enter(Phase::Done);
    }
}
