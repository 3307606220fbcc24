//! From text to a store, in steps that are functions over data: the caller decides which steps run in parallel.
//!
//! ```text
//!  buffers ── Chunker::cut ──▶ chunks ── parse_ntriples ──▶ Parsed      each chunk alone
//!             TurtleReader ───────────────────────────────▶ Parsed      each file alone
//!  Parsed ─── SortedTerms::new ──▶ terms, triples                       each chunk alone
//!  terms ──── cut_terms ─ merge_terms ─▶ parts                          each part alone
//!  parts ──── assemble ──▶ dictionary, numbering, a table per chunk     once
//!  triples ── remap ─ Run::new ─ Run::derive ──▶ runs                   each chunk and order alone
//!  runs ───── cut_runs ─ merge_runs ──▶ parts                           each order and part alone
//!  parts ──── index ──▶ Index                                           each order alone
//!  all ────── Snapshot::new                                                once
//! ```
//!
//! [`Loader`] and [`build`] run all steps in sequence; [`Load`] runs them as boxes of a flow request.
//!
//! Steps whose memory grows with the data return an error if there is not enough, so that a [`Load`] fails alone; functions
//! without such an error panic.

mod chunk;
#[cfg(test)]
pub(crate) mod crafted;
mod flow;
mod merge;
mod ntriples;
mod plain;
mod runs;
mod terms;
mod turtle;

pub use chunk::{Chunk, Chunker};
pub use flow::{Load, LoadError, LoadOptions, Loaded, Malformed, Phase, Progress, Source, Syntax};
pub use merge::{Assembled, MergedTerms, Numbering, SortedTerms, assemble, cut_terms, merge_terms};
pub use ntriples::{parse_ntriples, parse_ntriples_into};
pub use runs::{Run, cut_runs, derive_runs, index, merge_runs, remap};
pub use turtle::{TurtleReader, parse_turtle};

use crate::index::Order;
use crate::snapshot::Snapshot;
use crate::term::Encoder;
use oxrdf::{TermRef, TripleRef};
use plain::ROOM_BESIDE_TEXT;
use rapidhash::v3::RapidSecrets;
use std::cmp::Ordering;
use std::fmt;
use terms::Terms;
use vicus_flow::{Grow, NoMemory};

/// How text that breaks the grammar is handled.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum OnError {
    /// The file is refused.
    #[default]
    Fail,
    /// The error is counted, and parsing continues after it.
    Skip,
}

/// A place where a file breaks the grammar, and the error there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyntaxError {
    /// The file's number, as given by the caller.
    pub file: u32,
    /// From 1.
    pub line: u64,
    /// From 1, in characters.
    pub column: u64,
    /// What was expected or found. Of bounded length.
    pub message: String,
}

impl SyntaxError {
    fn new(file: u32, line: u64, column: u64, message: &str) -> SyntaxError {
        // oxttl quotes the text it found, which may be a megabyte.
        const LONGEST: usize = 300;
        let mut message = message.to_owned();
        if message.len() > LONGEST {
            let end = (0..=LONGEST).rev().find(|&at| message.is_char_boundary(at)).unwrap_or(0);
            message.truncate(end);
            message.push_str(" ...");
        }
        SyntaxError { file, line, column, message }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {}, line {}, column {}: {}", self.file, self.line, self.column, self.message)
    }
}

impl std::error::Error for SyntaxError {}

/// Why a text could not be parsed to its end.
#[derive(Debug)]
pub(crate) enum Unparsed {
    Malformed(SyntaxError),
    NoMemory(NoMemory),
}

impl From<SyntaxError> for Unparsed {
    fn from(error: SyntaxError) -> Unparsed {
        Unparsed::Malformed(error)
    }
}

impl From<NoMemory> for Unparsed {
    fn from(error: NoMemory) -> Unparsed {
        Unparsed::NoMemory(error)
    }
}

impl Unparsed {
    /// The syntax error, for callers without an error for lack of memory. Panics if it was that.
    fn malformed(self) -> SyntaxError {
        match self {
            Unparsed::Malformed(error) => error,
            Unparsed::NoMemory(error) => had(Err(error)),
        }
    }
}

/// The allocated value. Panics if there was not enough memory.
pub(crate) fn had<T>(allocated: Result<T, NoMemory>) -> T {
    allocated.unwrap_or_else(|error| panic!("{error}"))
}

/// Whether this many bytes could be allocated now, for foreign code that doesn't check. They are freed at once, so another
/// thread may take them.
pub(crate) fn could_have(bytes: usize) -> Result<(), NoMemory> {
    Vec::<u8>::with_room(bytes).map(drop)
}

/// The terms and triples of a part of the data, with their own numbering.
pub struct Parsed {
    terms: Terms,
    triples: Vec<[u32; 3]>,
    encoder: Encoder,
    /// The number of skipped lines (of Turtle: errors).
    pub skipped: u64,
    /// The first skipped error.
    pub first_skipped: Option<SyntaxError>,
}

impl Default for Parsed {
    /// With seed 0.
    fn default() -> Parsed {
        Parsed::of_seed(0)
    }
}

impl Parsed {
    /// Without any data. Terms are found by a keyed hash: authors of data who don't know the seed can't choose many terms with
    /// the same hash. The seed does not change what is parsed.
    pub fn of_seed(seed: u64) -> Parsed {
        Parsed::with_secrets(RapidSecrets::seed(seed))
    }

    fn with_secrets(secrets: RapidSecrets) -> Parsed {
        let (terms, encoder) = (Terms::new(secrets), Encoder::default());
        Parsed { terms, triples: Vec::new(), encoder, skipped: 0, first_skipped: None }
    }

    /// Takes everything out; what is parsed later is hashed with the same key.
    fn take(&mut self) -> Parsed {
        let secrets = self.terms.secrets();
        std::mem::replace(self, Parsed::with_secrets(secrets))
    }

    /// Subject, predicate and object as local numbers; there may be duplicates.
    pub fn triples(&self) -> &[[u32; 3]] {
        &self.triples
    }

    /// The number of distinct terms.
    pub fn term_count(&self) -> usize {
        self.terms.len()
    }

    /// Makes room for one triple whose terms have this many bytes of text together.
    #[inline]
    fn make_room(&mut self, bytes: usize) -> Result<(), NoMemory> {
        self.triples.grow(1)?;
        self.terms.make_room(3, bytes + ROOM_BESIDE_TEXT)?;
        self.encoder.make_room(bytes + ROOM_BESIDE_TEXT)
    }

    /// The number of a term. The caller must have made room for it.
    fn intern(&mut self, term: TermRef<'_>, file: u32) -> u32 {
        let term = match term {
            TermRef::BlankNode(node) => self.encoder.blank(file, node.as_str()),
            term => self.encoder.term(term),
        };
        self.terms.intern(term)
    }

    fn push(&mut self, triple: TripleRef<'_>, file: u32) -> Result<(), NoMemory> {
        self.make_room(text_bytes(triple))?;
        let subject = self.intern(triple.subject.into(), file);
        let predicate = self.intern(triple.predicate.into(), file);
        let object = self.intern(triple.object, file);
        self.triples.push([subject, predicate, object]);
        Ok(())
    }

    fn refuse(&mut self, error: SyntaxError, on_error: OnError) -> Result<(), SyntaxError> {
        match on_error {
            OnError::Fail => Err(error),
            OnError::Skip => {
                self.skipped += 1;
                self.first_skipped.get_or_insert(error);
                Ok(())
            }
        }
    }
}

/// The length of the text of a triple's terms.
fn text_bytes(triple: TripleRef<'_>) -> usize {
    let of = |term: TermRef<'_>| match term {
        TermRef::NamedNode(node) => node.as_str().len(),
        TermRef::BlankNode(node) => node.as_str().len(),
        TermRef::Literal(literal) => {
            literal.value().len() + literal.language().unwrap_or(literal.datatype().as_str()).len()
        }
    };
    of(triple.subject.into()) + of(triple.predicate.into()) + of(triple.object)
}

impl fmt::Debug for Parsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parsed")
            .field("terms", &self.terms.len())
            .field("triples", &self.triples.len())
            .field("skipped", &self.skipped)
            .finish_non_exhaustive()
    }
}

/// Merges sorted lists in pairs. Of equal items, the earlier list's comes first.
fn merge_sorted<T: Copy>(mut lists: Vec<Vec<T>>, compare: &impl Fn(&T, &T) -> Ordering) -> Result<Vec<T>, NoMemory> {
    while lists.len() > 1 {
        let mut pairs = lists.into_iter();
        let mut merged = Vec::new();
        while let Some(a) = pairs.next() {
            merged.push(match pairs.next() {
                Some(b) => merge_two(&a, &b, compare)?,
                None => a,
            });
        }
        lists = merged;
    }
    Ok(lists.pop().unwrap_or_default())
}

fn merge_two<T: Copy>(mut a: &[T], mut b: &[T], compare: &impl Fn(&T, &T) -> Ordering) -> Result<Vec<T>, NoMemory> {
    let mut merged = Vec::with_room(a.len() + b.len())?;
    while let ([first, rest @ ..], [other, others @ ..]) = (a, b) {
        if compare(other, first) == Ordering::Less {
            merged.push(*other);
            b = others;
        } else {
            merged.push(*first);
            a = rest;
        }
    }
    merged.extend_from_slice(a);
    merged.extend_from_slice(b);
    Ok(merged)
}

/// Builds a store of everything that was parsed, with at least these orders, in one thread.
///
/// # Errors
/// There is not enough memory.
pub fn build(parsed: Vec<Parsed>, orders: &[Order]) -> Result<Snapshot, NoMemory> {
    let sorted: Vec<(SortedTerms, Vec<[u32; 3]>)> =
        parsed.into_iter().map(SortedTerms::new).collect::<Result<_, _>>()?;
    let (terms, mut triples): (Vec<SortedTerms>, Vec<Vec<[u32; 3]>>) = sorted.into_iter().unzip();
    let parts = cut_terms(&terms, 1).iter().map(|part| merge_terms(&terms, part)).collect::<Result<_, _>>()?;
    let Assembled { dictionary, numbering, tables } = assemble(terms, parts)?;
    for (triples, table) in triples.iter_mut().zip(&tables) {
        remap(triples, table);
    }
    drop(tables);
    // All triples become one run: radix-sorting all of them is no slower than merging sorted runs.
    let mut all = if triples.is_empty() { Vec::new() } else { triples.remove(0) };
    all.grow_exactly(triples.iter().map(Vec::len).sum())?;
    triples.into_iter().for_each(|triples| all.extend(triples));
    let spo = Run::new(Order::Spo, all)?;
    let mut indexes = vec![index(Order::Spo, std::slice::from_ref(&spo), &numbering)?];
    let missing = Order::ALL.into_iter().filter(|order| *order != Order::Spo);
    for order in missing.filter(|order| orders.contains(order) || Order::USUAL.contains(order)) {
        indexes.push(index(order, &[spo.derive(order)?], &numbering)?);
    }
    Snapshot::new(dictionary, indexes)
}

/// Loads files one after the other, on the calling thread. Panics if there is not enough memory.
///
/// ```
/// use vicus_rdf::load::{Loader, OnError};
/// let mut loader = Loader::new(OnError::Skip);
/// loader.ntriples(b"<http://e/a> <http://e/p> _:x .\nnonsense\n")?;
/// loader.turtle(b"<http://e/a> <http://e/p> _:x .", None)?;
/// assert_eq!(loader.skipped(), 1);
/// assert_eq!(loader.finish().len(), 2); // Each file has its own _:x.
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Default, Debug)]
pub struct Loader {
    on_error: OnError,
    orders: Vec<Order>,
    parsed: Parsed,
    /// The pieces of Turtle files, kept apart from `parsed`: a known term is not checked again, and N-Triples must be checked
    /// as strictly as if it were loaded alone.
    turtle: Vec<Parsed>,
    /// The number of the next file.
    file: u32,
}

impl Loader {
    /// A loader without any data.
    pub fn new(on_error: OnError) -> Loader {
        Loader { on_error, ..Loader::default() }
    }

    /// Also builds the index of this order, besides [`Order::USUAL`].
    pub fn with_order(mut self, order: Order) -> Loader {
        self.orders.push(order);
        self
    }

    /// Adds a whole N-Triples file. Files are numbered from 0 in the order of these calls.
    pub fn ntriples(&mut self, text: &[u8]) -> Result<(), SyntaxError> {
        self.file += 1;
        parse_ntriples_into(&mut self.parsed, Chunk::file(text), self.file - 1, self.on_error)
    }

    /// Adds a whole Turtle file, whose relative IRIs are resolved against `base`.
    pub fn turtle(&mut self, text: &[u8], base: Option<&str>) -> Result<(), SyntaxError> {
        self.file += 1;
        let parsed = parse_turtle(text, self.file - 1, base, self.on_error)?;
        self.turtle.push(parsed);
        Ok(())
    }

    /// The number of skipped lines of N-Triples, and of errors in Turtle, so far.
    pub fn skipped(&self) -> u64 {
        self.turtle.iter().map(|parsed| parsed.skipped).sum::<u64>() + self.parsed.skipped
    }

    /// The store of everything that was added.
    pub fn finish(self) -> Snapshot {
        let mut parsed = self.turtle;
        parsed.push(self.parsed);
        had(build(parsed, &self.orders))
    }
}
