//! From text to a snapshot, in steps. They are functions over data: the caller decides which steps run in parallel.
//!
//! ```text
//!  buffers ── Chunker::cut ──▶ chunks ── parse_lines ─────▶ ParsedPart  each chunk of N-Triples or N-Quads alone
//!             TurtleReader, PulledReader ─────────────────▶ ParsedPart  each file of another syntax alone
//!  ParsedPart ─ SortedTerms::new ─▶ terms, quads                        each chunk alone
//!  terms ──── cut_terms ─ merge_terms ─▶ parts                          each part alone
//!  parts ──── assemble ──▶ terms, numbering, a table per chunk          once
//!  terms ──── cut, compress, join_keys ──▶ dictionary                   each part alone
//!  quads ──── remap ─ SortedRun::new ─ SortedRun::derive ──▶ runs       each chunk and order alone
//!  runs ───── cut_runs ─ merge_runs ──▶ parts                           each order and part alone
//!  parts ──── index ──▶ Index                                           each order alone
//!  all ────── Snapshot::new                                                once
//! ```
//!
//! [`Loader`] and [`build`] run all steps in sequence; [`Load`] runs them as boxes of a flow request. Data beyond the
//! memory goes the same way in parts, kept in temporary files (`segment.rs`). [`Pieces`] reads a document for those
//! that keep no store.
//!
//! Steps with memory growing with the data return an error if there is not enough, so a [`Load`] fails alone; functions
//! without such an error panic.

mod chunk;
mod compress;
#[cfg(test)]
pub(crate) mod crafted;
mod fast_lines;
mod flow;
mod jsonld;
mod merge;
mod ntriples;
mod pieces;
mod pull_parsers;
mod rdf_12;
mod rdfxml;
mod runs;
mod segment;
mod statements;
mod terms;
mod turtle;

pub use chunk::{Chunk, Chunker};
pub use compress::{AssembledTerms, CompressedKeys, KeyRange, join_keys};
pub use flow::{
    Load, LoadError, LoadOptions, LoadSource, LoadSpill, LoadedSnapshot, Malformed, MemoryPermit, Phase, Progress,
};
pub use merge::{Assembled, MergedTerms, Numbering, SortedTerms, assemble, cut_terms, merge_terms};
pub use ntriples::{parse_lines_into, parse_ntriples};
pub use pieces::Pieces;
pub use pull_parsers::PulledReader;
pub use runs::{Cut, NumberedQuads, SortedRun, cut_runs, derive_runs, index, merge_runs, remap};
pub use turtle::{TurtleReader, parse_trig, parse_turtle};

use crate::ids::{Id, TermKind};
use crate::index::Order;
use crate::snapshot::Snapshot;
use crate::term::{Encoder, TermView, push_blank};
use crate::triple;
use fast_lines::ROOM_BESIDE_TEXT;
use oxrdf::{GraphNameRef, LiteralRef, NamedNode, QuadRef, Term, TermRef};
use rapidhash::v3::RapidSecrets;
use std::cmp::Ordering;
use std::fmt;
use std::io::Cursor;
use terms::Terms;
use vicus_flow::{Grow, NoMemory};

/// So many terms or rows pass between two looks whether the request was cancelled.
const BETWEEN_LOOKS: usize = 1 << 14;

/// The optional mark of UTF-8 at the beginning of a text (Unicode, §23.8).
const MARK: &[u8] = "\u{FEFF}".as_bytes();

/// The longest IRI by default.
pub const LONGEST_IRI: usize = 64 << 10;

/// The longest line by default.
pub(crate) const LONGEST_LINE: usize = 64 << 20;

/// The error of a longer IRI.
pub(crate) fn too_long_iri(most: usize) -> String {
    format!(
        "an IRI has more than {most} bytes when it is written out: a prefix or the base is too long, or the limit \
            (--max-iri) too low"
    )
}

/// A syntax of RDF.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Syntax {
    NTriples,
    NQuads,
    Turtle,
    TriG,
    RdfXml,
    JsonLd,
}

impl Syntax {
    /// Whether each line is a statement by itself, so a text can be cut.
    pub fn is_of_lines(self) -> bool {
        matches!(self, Syntax::NTriples | Syntax::NQuads)
    }
}

/// The treatment of text that breaks the grammar.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum OnError {
    /// The file is refused.
    #[default]
    Fail,
    /// The error is counted, and parsing continues after it.
    Skip,
}

/// A place in a file with broken grammar, and the error there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyntaxError {
    /// The file's number, as given by the caller.
    pub file: u32,
    /// From 1.
    pub line: u64,
    /// From 1, in characters.
    pub column: u64,
    /// The expected or found text. Of bounded length.
    pub message: String,
}

impl SyntaxError {
    fn new(file: u32, line: u64, column: u64, message: &str) -> SyntaxError {
        // oxttl quotes the found text. This may be a megabyte.
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
    /// The syntax error, for callers without an error for lack of memory. Panics in this case.
    fn malformed(self) -> SyntaxError {
        match self {
            Unparsed::Malformed(error) => error,
            Unparsed::NoMemory(error) => or_panic(Err(error)),
        }
    }
}

/// The allocated value. Panics if there was not enough memory.
pub(crate) fn or_panic<T>(allocated: Result<T, NoMemory>) -> T {
    allocated.unwrap_or_else(|error| panic!("{error}"))
}

/// Whether this many bytes could be allocated now, for foreign code without such a check. They are freed at once, so
/// another thread may take them.
pub(crate) fn could_have(bytes: usize) -> Result<(), NoMemory> {
    Vec::<u8>::with_room(bytes).map(drop)
}

/// The terms and quads of a part of the data, with their own numbering.
pub struct ParsedPart {
    terms: Terms,
    quads: NumberedQuads,
    encoder: Encoder,
    /// Whether features of RDF 1.2 alone are taken, instead of being an error.
    rdf_12: bool,
    /// The bytes of it already noted in the total of the load.
    noted: u64,
    /// Bytes of text of the file being read, besides its parsed data.
    beside: u64,
    /// The number of skipped lines (of syntaxes without lines: errors).
    pub skipped: u64,
    /// The first skipped error.
    pub first_skipped: Option<SyntaxError>,
}

impl Default for ParsedPart {
    /// With seed 0.
    fn default() -> ParsedPart {
        ParsedPart::of_seed(0)
    }
}

impl ParsedPart {
    /// Without any data. Terms are found by a keyed hash: authors of data without the seed can't choose many terms with
    /// the same hash. The seed does not change the parsed data.
    pub fn of_seed(seed: u64) -> ParsedPart {
        ParsedPart::with_secrets(RapidSecrets::seed(seed))
    }

    /// Whether triple terms, base directions and the syntax of RDF 1.2 are taken; otherwise each is an error.
    ///
    /// ```
    /// use vicus_rdf::load::{Chunk, OnError, ParsedPart, Syntax, parse_lines_into};
    /// let text = b"<http://e/a> <http://e/p> <<( <http://e/a> <http://e/q> \"x\"@en--ltr )>> .";
    /// let read = |mut parsed: ParsedPart| {
    ///     parse_lines_into(&mut parsed, Chunk::file(text), Syntax::NTriples, 0, OnError::Fail).map(|()| parsed)
    /// };
    /// let error = read(ParsedPart::default()).unwrap_err();
    /// assert_eq!((error.line, error.column), (1, 27));
    /// assert_eq!(read(ParsedPart::default().with_rdf_12(true))?.quads().len(), 1);
    /// # Ok::<(), vicus_rdf::SyntaxError>(())
    /// ```
    pub fn with_rdf_12(self, rdf_12: bool) -> ParsedPart {
        ParsedPart { rdf_12, ..self }
    }

    fn with_secrets(secrets: RapidSecrets) -> ParsedPart {
        let (terms, encoder) = (Terms::new(secrets), Encoder::default());
        ParsedPart {
            terms,
            quads: NumberedQuads::default(),
            encoder,
            rdf_12: false,
            noted: 0,
            beside: 0,
            skipped: 0,
            first_skipped: None,
        }
    }

    /// Takes everything out; later data is hashed with the same key.
    fn take(&mut self) -> ParsedPart {
        let empty = ParsedPart::with_secrets(self.terms.secrets()).with_rdf_12(self.rdf_12);
        std::mem::replace(self, empty)
    }

    /// The quads of local numbers; there may be duplicates.
    pub fn quads(&self) -> &NumberedQuads {
        &self.quads
    }

    /// The term with this local number. Panics if there is none.
    pub fn term(&self, number: u32) -> Term {
        let (&tag, key) = self.terms.entry(number).split_first().expect("an entry has a tag");
        let view = match TermKind::of_tag(tag).filter(|kind| kind.section().is_some()) {
            Some(kind) => TermView::of_key(kind, str::from_utf8(key).expect("keys are UTF-8")),
            None => {
                let mut bits = [tag; 8];
                bits[1..].copy_from_slice(key);
                TermView::inlined(Id::from_bits(u64::from_be_bytes(bits))).expect("it is not in a dictionary")
            }
        };
        view.to_term()
    }

    /// The number of distinct terms.
    pub fn term_count(&self) -> usize {
        self.terms.len()
    }

    /// The approximate bytes needed to build a snapshot of it, besides its own: for sorting terms and quads, and for
    /// the indexes.
    fn bytes_to_build(&self) -> u64 {
        let (terms, quads) = (self.terms.len() as u64, &self.quads);
        let rows = (3 * quads.triples.len() + 8 * quads.named.len()) as u64;
        2 * self.terms.text_bytes() + 48 * terms + 28 * rows + self.beside
    }

    /// Makes room for one quad with this many bytes of text in all its terms.
    #[inline]
    fn make_room(&mut self, bytes: usize) -> Result<(), NoMemory> {
        self.terms.make_room(4, bytes + ROOM_BESIDE_TEXT)?;
        self.encoder.make_room(bytes + ROOM_BESIDE_TEXT)
    }

    /// The number of a term. The caller must have made room for it.
    fn intern(&mut self, term: TermRef<'_>, file: u32) -> u32 {
        let term = match term {
            TermRef::BlankNode(node) => self.encoder.blank(file, node.as_str()),
            TermRef::Triple(triple) => {
                self.encoder.triple_with(triple, &mut |node, into| push_blank(file, node.as_str(), into))
            }
            term => self.encoder.term(term),
        };
        self.terms.intern(term)
    }

    /// Adds a quad of N-Quads.
    fn push(&mut self, quad: QuadRef<'_>, file: u32) -> Result<(), NoMemory> {
        self.make_room(text_bytes(quad))?;
        let subject = self.intern(quad.subject.into(), file);
        let predicate = self.intern(quad.predicate.into(), file);
        let object = self.intern(quad.object, file);
        let graph = match quad.graph_name {
            GraphNameRef::DefaultGraph => None,
            GraphNameRef::NamedNode(node) => Some(self.intern(node.into(), file)),
            GraphNameRef::BlankNode(node) => Some(self.intern(node.into(), file)),
        };
        self.add([subject, predicate, object], graph)
    }

    /// Adds a triple of the default graph, or of one with a name.
    #[inline]
    fn add(&mut self, triple: [u32; 3], graph: Option<u32>) -> Result<(), NoMemory> {
        match graph {
            None => {
                self.quads.triples.grow(1)?;
                self.quads.triples.push(triple);
            }
            Some(graph) => {
                let [subject, predicate, object] = triple;
                self.quads.named.grow(1)?;
                self.quads.named.push([subject, predicate, object, graph]);
            }
        }
        Ok(())
    }

    /// Puts the triples of the default graph into the graph with this name.
    fn name_default_graph(&mut self, name: &NamedNode) -> Result<(), NoMemory> {
        if self.quads.triples.is_empty() {
            return Ok(());
        }
        self.make_room(name.as_str().len())?;
        let graph = self.terms.intern(self.encoder.term(name.as_ref().into()));
        let triples = std::mem::take(&mut self.quads.triples);
        self.quads.named.grow(triples.len())?;
        self.quads.named.extend(triples.into_iter().map(|[s, p, o]| [s, p, o, graph]));
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

/// The length of the text of a literal and its type or language, at most.
pub(crate) fn literal_bytes(literal: LiteralRef<'_>) -> usize {
    const OF_DIRECTION: usize = 8;
    literal.value().len() + literal.language().unwrap_or(literal.datatype().as_str()).len() + OF_DIRECTION
}

/// Whether it has a triple term or a base direction.
fn is_of_rdf_12(quad: QuadRef<'_>) -> bool {
    match quad.object {
        TermRef::Triple(_) => true,
        TermRef::Literal(literal) => literal.direction().is_some(),
        TermRef::NamedNode(_) | TermRef::BlankNode(_) => false,
    }
}

/// The length of the text of a quad's terms.
fn text_bytes(quad: QuadRef<'_>) -> usize {
    let of = |term: TermRef<'_>| match term {
        TermRef::NamedNode(node) => node.as_str().len(),
        TermRef::BlankNode(node) => node.as_str().len(),
        TermRef::Literal(literal) => literal_bytes(literal),
        TermRef::Triple(triple) => triple::bytes_of(triple),
    };
    let graph = match quad.graph_name {
        GraphNameRef::DefaultGraph => 0,
        GraphNameRef::NamedNode(node) => node.as_str().len(),
        GraphNameRef::BlankNode(node) => node.as_str().len(),
    };
    of(quad.subject.into()) + of(quad.predicate.into()) + of(quad.object) + graph
}

impl fmt::Debug for ParsedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParsedPart")
            .field("terms", &self.terms.len())
            .field("quads", &self.quads.len())
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

/// Builds a snapshot of all parsed data, with at least these orders, in one thread.
///
/// # Errors
/// There is not enough memory.
pub fn build(parsed: Vec<ParsedPart>, orders: &[Order]) -> Result<Snapshot, NoMemory> {
    let sorted: Vec<(SortedTerms, NumberedQuads)> =
        parsed.into_iter().map(SortedTerms::new).collect::<Result<_, _>>()?;
    let (terms, mut quads): (Vec<SortedTerms>, Vec<NumberedQuads>) = sorted.into_iter().unzip();
    let parts = cut_terms(&terms, 1).iter().map(|part| merge_terms(&terms, part)).collect::<Result<_, _>>()?;
    let Assembled { terms, numbering, tables } = assemble(terms, parts)?;
    let dictionary = terms.dictionary()?;
    for (quads, table) in quads.iter_mut().zip(&tables) {
        remap(quads, table);
    }
    drop(tables);
    // All quads become one run: radix-sorting all of them is no slower than merging sorted runs.
    let mut all = NumberedQuads::default();
    for quads in quads {
        all.append(quads)?;
    }
    let first = SortedRun::new(Order::Gspo, all)?;
    let mut indexes = vec![index(Order::Gspo, std::slice::from_ref(&first), &numbering)?];
    let missing = Order::ALL.into_iter().filter(|order| *order != Order::Gspo);
    for order in missing.filter(|order| orders.contains(order) || Order::USUAL.contains(order)) {
        indexes.push(index(order, &[first.derive(order)?], &numbering)?);
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
    parsed: ParsedPart,
    /// The pieces of files of other syntaxes than N-Triples, kept apart from `parsed`: a known term is not checked
    /// again, and N-Triples must be checked as strictly as if it were loaded alone.
    others: Vec<ParsedPart>,
    /// The number of the next file.
    file: u32,
}

impl Loader {
    /// A loader without any data.
    pub fn new(on_error: OnError) -> Loader {
        Loader { on_error, ..Loader::default() }
    }

    /// Whether triple terms, base directions and the syntax of RDF 1.2 are taken; otherwise each is an error. Call it
    /// before data is added.
    pub fn with_rdf_12(self, rdf_12: bool) -> Loader {
        Loader { parsed: self.parsed.with_rdf_12(rdf_12), ..self }
    }

    /// Also builds the index of this order, besides [`Order::USUAL`].
    pub fn with_order(mut self, order: Order) -> Loader {
        self.orders.push(order);
        self
    }

    /// Adds a whole N-Triples file. Files are numbered from 0 in the order of these calls.
    pub fn ntriples(&mut self, text: &[u8]) -> Result<(), SyntaxError> {
        self.file(text, Syntax::NTriples, None)
    }

    /// Adds a whole Turtle file. `base` resolves its relative IRIs.
    pub fn turtle(&mut self, text: &[u8], base: Option<&str>) -> Result<(), SyntaxError> {
        self.file(text, Syntax::Turtle, base)
    }

    /// Adds a whole file of any syntax. `base` resolves its relative IRIs.
    pub fn file(&mut self, text: &[u8], syntax: Syntax, base: Option<&str>) -> Result<(), SyntaxError> {
        let (file, on_error) = (self.file, self.on_error);
        self.file += 1;
        let empty = ParsedPart::default().with_rdf_12(self.parsed.rdf_12);
        let parsed = match syntax {
            Syntax::NTriples | Syntax::NQuads => {
                return parse_lines_into(&mut self.parsed, Chunk::file(text), syntax, file, on_error);
            }
            Syntax::Turtle | Syntax::TriG => {
                let reader = match syntax {
                    Syntax::Turtle => TurtleReader::new(file, base, on_error)?,
                    _ => TurtleReader::trig(file, base, on_error)?,
                };
                let mut reader = reader.adding_to(empty);
                reader.feed(text)?;
                reader.finish()?
            }
            Syntax::RdfXml | Syntax::JsonLd => {
                // The parsers own their sources.
                let source = Box::new(Cursor::new(text.to_vec()));
                PulledReader::new(source, syntax, file, base, on_error)?.adding_to(empty).finish()?
            }
        };
        self.others.push(parsed);
        Ok(())
    }

    /// The number of skipped lines of N-Triples and N-Quads, and of errors in other syntaxes, so far.
    pub fn skipped(&self) -> u64 {
        self.others.iter().map(|parsed| parsed.skipped).sum::<u64>() + self.parsed.skipped
    }

    /// The snapshot of all added data.
    pub fn finish(self) -> Snapshot {
        let mut parsed = self.others;
        parsed.push(self.parsed);
        or_panic(build(parsed, &self.orders))
    }
}
