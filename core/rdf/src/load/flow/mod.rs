//! Loading as a flow request: any number of sources, any number of workers, one snapshot.
//!
//! ```text
//!  read ──▶ deal ──▶ parse ──▶ cut terms ──▶ merge terms ──▶ assemble ──▶ sort ──▶ cut runs ──▶ merge runs ─┐
//!   │ m       1        k           1              k             1  │ │      k          1             k      │
//!   └─── pieces of other syntaxes ──▲                              │ │ numbering                            ▼
//!                                                              keys│ └──────────────────────────▶ gather runs
//!                                                                  ▼                                    1 │
//!                                                    k compress ──▶ snapshot ◀────── index ◀──────────────┘
//!                                                                  1            one for each order
//! ```
//!
//! Each box calls functions of [`load`](super), and each piece of heavy work is one invocation of one of k boxes, so
//! the scheduler of boxes schedules the loading. N-Triples and N-Quads are cut into chunks. A chunk goes to the parser
//! with the fewest bytes in its queue. Other syntaxes can't be cut, so the reading box of such a source parses it. The
//! data has no columnar form, so envelopes carry handles ([`handover`]). The snapshot does not depend on the number of
//! workers, on chunks or on the schedule: it equals that of [`Loader`](super::Loader).
//!
//! If the parsers together come to hold too much, they spill it ([`segment`](super::segment)), and then the same boxes
//! work on temporary files: `assemble` merges terms, `sort` writes runs in all orders, `index` merges them. `cut terms`
//! and `cut runs` have nothing to cut then.

mod handover;
mod network;
mod text;

use super::pull_parsers::Ended;
use super::segment::Segment;
use super::{LONGEST_IRI, LONGEST_LINE, OnError, ParsedPart, Syntax, SyntaxError, Unparsed};
use crate::index::Order;
use crate::placement::StorePlacement;
use crate::snapshot::Snapshot;
use memchr::memchr_iter;
use oxrdf::NamedNode;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use text::Piece;
use vicus_files::Scratch;
use vicus_files::scratch::Bundle;
use vicus_flow::{BoxError, FlowError, Grow, Model, NoMemory};

/// A file, a pipe, or another source of bytes.
pub struct LoadSource {
    /// The name in errors, for example a path.
    pub name: String,
    /// The format.
    pub syntax: Syntax,
    /// The base of relative IRIs, for syntaxes with them.
    pub base: Option<String>,
    /// The unpacked bytes. Reading may block: it happens in a blocking section.
    pub reader: Box<dyn Read + Send>,
}

impl LoadSource {
    /// A source without a base.
    pub fn new(name: impl Into<String>, syntax: Syntax, reader: impl Read + Send + 'static) -> LoadSource {
        LoadSource { name: name.into(), syntax, base: None, reader: Box::new(reader) }
    }

    /// Sets the base.
    pub fn with_base(mut self, base: impl Into<String>) -> LoadSource {
        self.base = Some(base.into());
        self
    }
}

impl fmt::Debug for LoadSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoadSource { name, syntax, base, .. } = self;
        f.debug_struct("LoadSource")
            .field("name", name)
            .field("syntax", syntax)
            .field("base", base)
            .finish_non_exhaustive()
    }
}

/// How to load.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// How many boxes of each kind work in parallel: as many as the runtime has threads.
    pub workers: usize,
    /// The treatment of text that breaks the grammar.
    pub on_error: OnError,
    /// How many bytes are read and parsed at once. Only a longer line makes a longer chunk.
    pub chunk_bytes: usize,
    /// A longer line of N-Triples or N-Quads, statement of Turtle, TriG or RDF/XML up to its first triple, item of a
    /// list of JSON-LD or its text if it is no list is an error, so that an endless one fails before memory runs out.
    pub longest_line: usize,
    /// A longer IRI, when it is written out, is an error in Turtle, TriG, RDF/XML and JSON-LD: a long prefix or base
    /// makes short names long.
    pub longest_iri: usize,
    /// The key of hash functions over terms; see [`ParsedPart::of_seed`](super::ParsedPart::of_seed).
    pub hash_seed: u64,
    /// The name of the graph for all triples without one; by default they are the default graph.
    pub graph: Option<NamedNode>,
    /// Indexes besides [`Order::USUAL`].
    pub orders: Vec<Order>,
    /// The nodes for the snapshot, if several nodes have threads: each gets a range of rows of large indexes, so scans
    /// can run near their rows; the dictionary, which is read in random order, is spread page by page. Without it, the
    /// snapshot stays at its loading place.
    pub over: Option<StorePlacement>,
    /// The treatment of data larger than memory. Without it, all of it has to fit.
    pub spill: Option<LoadSpill>,
    /// Whether triple terms, base directions and the syntax of RDF 1.2 are taken; otherwise each is an error.
    pub rdf_12: bool,
    /// Asked for room for the parsed data, as it grows.
    pub room: Option<MemoryPermit>,
}

/// Asked whether loading may hold about this number of bytes in total. If not, the load fails with [`NoMemory`].
#[derive(Clone)]
pub struct MemoryPermit(pub Arc<dyn Fn(u64) -> bool + Send + Sync>);

impl fmt::Debug for MemoryPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryPermit")
    }
}

/// Loading of data larger than memory: in parts, written to temporary files, and so is the snapshot until its owner
/// writes it to its place.
#[derive(Clone, Debug)]
pub struct LoadSpill {
    /// The bytes loading may hold, approximately. Smaller data is loaded in memory alone, and temporary files are not
    /// touched.
    pub memory: u64,
    /// The place for temporary files.
    pub scratch: Arc<Scratch>,
}

impl Default for LoadOptions {
    /// One worker, failure at the first error, chunks of 1 MiB, lines of up to 64 MiB, IRIs of up to 64 KiB, no further
    /// orders, not laid over nodes, all in memory, RDF 1.1.
    fn default() -> LoadOptions {
        LoadOptions {
            workers: 1,
            on_error: OnError::Fail,
            chunk_bytes: 1 << 20,
            longest_line: LONGEST_LINE,
            longest_iri: LONGEST_IRI,
            hash_seed: 0,
            graph: None,
            orders: Vec::new(),
            over: None,
            spill: None,
            rdf_12: false,
            room: None,
        }
    }
}

/// One loading. Submit its model to a runtime; when the request has ended, take the snapshot with [`Load::finish`].
///
/// Boxes read the sources chunk by chunk, deal the chunks to parsers, and merge the parsed pieces. The snapshot equals
/// that of [`Loader`](super::Loader) for the same sources and any schedule. Memory: a few chunks of text for each
/// worker, then at most about twice the snapshot. A cancellation takes effect between two steps; the longest steps, of
/// about 30 ns a triple, are sorting one worker's share and sorting all triples in one order.
///
/// ```
/// use vicus_flow::sequential;
/// use vicus_rdf::load::{Load, LoadOptions, LoadSource, Syntax};
///
/// let sources = vec![
///     LoadSource::new("a.nt", Syntax::NTriples, &b"_:x <http://e/p> <http://e/o> .\n"[..]),
///     LoadSource::new("b.ttl", Syntax::Turtle, &b"_:x <p> <o> ."[..]).with_base("http://e/"),
/// ];
/// let load = Load::new(sources, LoadOptions { workers: 2, ..LoadOptions::default() });
/// sequential::run(load.model(), Vec::new(), |_| 0)?;
/// assert_eq!(load.finish()?.snapshot.len(), 2); // Each file has its own _:x.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Load {
    model: Arc<Model>,
    shared: Arc<LoadState>,
}

impl Load {
    /// Prepares to load these sources, numbered by their places in the list. Panics at 1,112,064 sources.
    pub fn new(sources: Vec<LoadSource>, options: LoadOptions) -> Load {
        assert!(sources.len() < 1_112_064, "a file's number is part of its blank nodes' names, as one character");
        let workers = options.workers.max(1);
        let readers = sources.len().clamp(1, workers);
        // The sender's seat continues with the box activated last, and a thief takes the first. The two slowest orders,
        // Gpos and Gops, are put at the two ends, so they start first.
        let is_wanted = |order: &Order| Order::USUAL.contains(order) || options.orders.contains(order);
        let by_graph = [Order::Gops, Order::Gosp, Order::Gspo];
        let last = [Order::Opsg, Order::Spog, Order::Psog, Order::Posg];
        let others = [Order::Gpso, Order::Gsop, Order::Gpos];
        let orders = by_graph.into_iter().chain(last).chain(others);
        let orders: Vec<Order> = orders.filter(is_wanted).collect();
        let shared = Arc::new(LoadState {
            names: sources.iter().map(|source| source.name.clone()).collect(),
            sources: Mutex::new((0..).zip(sources).collect()),
            on_error: options.on_error,
            chunk_bytes: options.chunk_bytes.max(1),
            longest_line: options.longest_line,
            longest_iri: options.longest_iri,
            hash_seed: options.hash_seed,
            rdf_12: options.rdf_12,
            room: options.room,
            graph: options.graph,
            over: options.over,
            spilling: options
                .spill
                .map(|LoadSpill { memory, scratch }| Spilling { memory, bundle: Bundle::new(scratch) }),
            parsers: (workers + readers) as u64,
            held: AtomicU64::new(0),
            segments: Mutex::default(),
            begun: AtomicBool::new(false),
            buffers: Mutex::default(),
            skipped: Mutex::default(),
            progress: Arc::default(),
            snapshot: Mutex::default(),
        });
        Load { model: network::network(&shared, readers, workers, &orders), shared }
    }

    /// The model, to be submitted once.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The progress, readable while the request runs.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.shared.progress)
    }

    /// The loaded data, after the request has ended without an error.
    ///
    /// # Errors
    /// [`LoadError::Unfinished`] if it has not.
    pub fn finish(self) -> Result<LoadedSnapshot, LoadError> {
        let snapshot = self.shared.snapshot.lock().expect("nothing panics under this lock").take();
        let snapshot = snapshot.ok_or(LoadError::Unfinished)?;
        let Skipped { count, first } =
            std::mem::take(&mut *self.shared.skipped.lock().expect("nothing panics under this lock"));
        let first_skipped = first.map(|error| self.shared.located(error));
        Ok(LoadedSnapshot { snapshot, skipped: count, first_skipped })
    }
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load").field("sources", &self.shared.names).finish_non_exhaustive()
    }
}

/// The outcome of a [`Load`].
#[derive(Debug)]
pub struct LoadedSnapshot {
    /// All triples of all sources.
    pub snapshot: Snapshot,
    /// The number of skipped lines of N-Triples and N-Quads, and of errors in other syntaxes.
    pub skipped: u64,
    /// The first skipped error of the first source with errors.
    pub first_skipped: Option<Malformed>,
}

/// A place in a source with broken grammar, and the error there. Displayed as name, line and column, as editors and
/// terminals expect it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// The name of the source.
    pub name: String,
    /// The place and the error.
    pub error: SyntaxError,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SyntaxError { line, column, message, .. } = &self.error;
        write!(f, "{}:{line}:{column}: {message}", self.name)
    }
}

/// The reason of a failed loading. A request fails with it inside a [`FlowError`]: see [`LoadError::of`]. If memory
/// runs out, the request fails with [`NoMemory`](vicus_flow::NoMemory) instead, and with the name of the asking box.
#[derive(Debug)]
pub enum LoadError {
    /// A source breaks the grammar. With several workers, this may not be the first such place.
    Malformed(Malformed),
    /// A source could not be read.
    Unreadable {
        /// The source.
        name: String,
        /// The reader's error.
        error: io::Error,
    },
    /// A line of N-Triples or N-Quads is longer than [`LoadOptions::longest_line`], or that many bytes of another
    /// syntax contain no complete triple, or a text of JSON-LD is longer.
    TooLong {
        /// The source.
        name: String,
        /// The line, from 1; in syntaxes without lines, roughly the line of the statement's beginning or of the limit.
        line: u64,
        /// The greatest number of bytes.
        limit: usize,
    },
    /// The model was submitted twice, but its sources can be read only once.
    Again,
    /// [`Load::finish`] was called before the request had ended, or after it had failed.
    Unfinished,
}

impl LoadError {
    /// The `LoadError` of a failed request, if it was one.
    ///
    /// ```
    /// use vicus_flow::sequential;
    /// use vicus_rdf::load::{Load, LoadError, LoadOptions, LoadSource, Syntax};
    ///
    /// let source = LoadSource::new("a.nt", Syntax::NTriples, &b"\nnonsense"[..]);
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
                write!(
                    f,
                    "{name}:{line}: more than {limit} bytes without the end of a line or statement (a text of JSON-LD \
                        is one)"
                )
            }
            LoadError::Again => f.write_str("the sources have been read already: a load is one request"),
            LoadError::Unfinished => f.write_str("there is no snapshot: the request has not ended, or it failed"),
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

/// The phase of a load.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// Reading and parsing text; [`Progress::bytes`] grows.
    Text,
    /// Merging the terms of all pieces.
    Terms,
    /// Sorting the triples.
    Triples,
    /// Making the index of each order.
    Indexes,
    /// The snapshot is complete.
    Done,
}

/// The progress of a load. The numbers may be slightly out of date.
#[derive(Default, Debug)]
pub struct Progress {
    bytes: AtomicU64,
    triples: AtomicU64,
    phase: AtomicU8,
}

impl Progress {
    /// The number of bytes read, unpacked.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of triples parsed, duplicates included.
    pub fn triples(&self) -> u64 {
        self.triples.load(Ordering::Relaxed)
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        let phases = [Phase::Text, Phase::Terms, Phase::Triples, Phase::Indexes, Phase::Done];
        phases[usize::from(self.phase.load(Ordering::Relaxed))]
    }

    fn add_bytes(&self, more: usize) {
        self.bytes.fetch_add(more as u64, Ordering::Relaxed);
    }

    /// Replaces a parser's last known number of quads by the present one. Quads spilled meanwhile are gone, and not
    /// shown.
    fn add_parsed(&self, known: usize, now: usize) {
        self.triples.fetch_add(now.checked_sub(known).unwrap_or(now) as u64, Ordering::Relaxed);
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

/// How pieces are spilled.
struct Spilling {
    memory: u64,
    /// The segments' terms and quads.
    bundle: Bundle,
}

/// The state of the load, shared by its boxes.
struct LoadState {
    /// The names of the sources, by number.
    names: Vec<String>,
    /// The sources not opened by a reader yet, in order.
    sources: Mutex<VecDeque<(u32, LoadSource)>>,
    on_error: OnError,
    /// At least 1.
    chunk_bytes: usize,
    longest_line: usize,
    longest_iri: usize,
    hash_seed: u64,
    rdf_12: bool,
    room: Option<MemoryPermit>,
    graph: Option<NamedNode>,
    over: Option<StorePlacement>,
    spilling: Option<Spilling>,
    /// The number of boxes that may hold parsed data: parsers, and readers of uncut sources.
    parsers: u64,
    /// The memory needed to build a snapshot of their data, in bytes.
    held: AtomicU64,
    /// The spilled segments.
    segments: Mutex<Vec<Segment>>,
    /// Whether a request was started.
    begun: AtomicBool,
    /// Buffers of parsed chunks, to be reused: fresh memory costs a page fault for each 4 KiB.
    buffers: Mutex<Vec<Vec<u8>>>,
    skipped: Mutex<Skipped>,
    progress: Arc<Progress>,
    snapshot: Mutex<Option<Snapshot>>,
}

impl LoadState {
    /// Nothing parsed yet.
    fn parsed(&self) -> ParsedPart {
        ParsedPart::of_seed(self.hash_seed).with_rdf_12(self.rdf_12)
    }

    fn next_source(&self) -> Option<(u32, LoadSource)> {
        self.sources.lock().expect("nothing panics under this lock").pop_front()
    }

    fn buffer(&self) -> Vec<u8> {
        self.buffers.lock().expect("nothing panics under this lock").pop().unwrap_or_default()
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        // A buffer grown by a long line is not kept.
        if buffer.capacity() <= self.chunk_bytes.saturating_mul(4) {
            buffer.clear();
            self.buffers.lock().expect("nothing panics under this lock").push(buffer);
        }
    }

    /// Notes the data held by a parser or reader, and spills it if all hold too much and this one at least its share of
    /// the limit. All below their shares together hold less than these shares.
    fn keep_within(&self, parsed: &mut ParsedPart) -> Result<(), NoMemory> {
        if self.spilling.is_none() && self.room.is_none() {
            return Ok(());
        }
        let holds = parsed.bytes_to_build();
        let before = self.held.fetch_add(holds.wrapping_sub(parsed.noted), Ordering::Relaxed);
        let all = before.wrapping_add(holds).wrapping_sub(parsed.noted);
        parsed.noted = holds;
        if let Some(MemoryPermit(room)) = &self.room
            && !room(all)
        {
            return Err(NoMemory { bytes: all });
        }
        if let Some(spilling) = &self.spilling
            && all > spilling.memory
            && holds >= spilling.memory / self.parsers
        {
            self.note_skipped(parsed);
            self.write_segment(parsed.take())?;
        }
        Ok(())
    }

    /// Spills the parsed data.
    fn write_segment(&self, parsed: ParsedPart) -> Result<(), NoMemory> {
        let noted = parsed.noted;
        let segment = self.segment(Piece::new(parsed, self)?)?;
        self.held.fetch_sub(noted, Ordering::Relaxed);
        let mut segments = self.segments.lock().expect("nothing panics under this lock");
        segments.grow(1)?;
        segments.push(segment);
        Ok(())
    }

    fn segment(&self, Piece { terms, quads }: Piece) -> Result<Segment, NoMemory> {
        let spilling = self.spilling.as_ref().expect("something may be spilled");
        Segment::write(terms, quads, &spilling.bundle)
    }

    /// Whether something was spilled: then all has to be.
    fn has_spilled(&self) -> bool {
        !self.segments.lock().expect("nothing panics under this lock").is_empty()
    }

    /// Takes out the spilled segments, if there are any.
    fn segments(&self) -> Option<(Vec<Segment>, Arc<Scratch>)> {
        let segments = std::mem::take(&mut *self.segments.lock().expect("nothing panics under this lock"));
        let spilling = self.spilling.as_ref().filter(|_| !segments.is_empty())?;
        Some((segments, Arc::clone(spilling.bundle.scratch())))
    }

    fn all_is_parsed(&self) {
        self.buffers.lock().expect("nothing panics under this lock").clear();
        self.progress.enter(Phase::Terms);
    }

    /// Counts the errors skipped since the last call.
    fn note_skipped(&self, parsed: &mut ParsedPart) {
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

    /// Checks that no line in `lines` is too long.
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

    /// Why a parser has ended before its text.
    fn ended(&self, ended: Ended, file: u32) -> BoxError {
        match ended {
            Ended::Unparsed(error) => self.unparsed(error),
            Ended::Unreadable(error) => self.unreadable(file, error).into(),
            Ended::TooLong(line) => self.too_long(file, line).into(),
            Ended::Stopped => FlowError::Cancelled.into(),
        }
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

    fn end(&self, snapshot: Snapshot) {
        *self.snapshot.lock().expect("nothing panics under this lock") = Some(snapshot);
        self.progress.enter(Phase::Done);
    }
}
