//! A transaction as bytes for the log.
//!
//! ```text
//!  record  1, or 2 if there are terms of kinds that 1 does not know; number of terms, terms, number of steps, steps
//!  term    tag of the kind, length of the key, key; or the eight bytes, most significant first, of an id that is its
//!          own term
//!  step    number of deleted quads, these, number of inserted quads, these
//!  quad    subject, predicate, object, graph: each the number of a term from 1, or 0 for the default graph
//! ```
//!
//! A record with steps on whole graphs begins with 3, with any kinds of terms, and each of its steps begins with its
//! tag:
//!
//! ```text
//!  0       a step as above
//!  1       all graphs are cleared
//!  2       all graphs with names are
//!  3       a graph is: its number, as in a quad
//!  4       the quads of a graph come to another one, too: the numbers of both
//! ```
//!
//! The content of a graph follows from the records before this one and its own steps, so it is the same whenever the
//! log is read.
//!
//! A record that begins an epoch of a store with copies has no steps: 4, the epoch's number, and its writer's in eight
//! bytes, least significant first.
//!
//! The steps follow each other; within one, no quad is both deleted and inserted. Numbers are written seven bits at a
//! time, the least first, with the highest bit set in all bytes but the last.

use hashbrown::HashMap;
use std::collections::BTreeMap;
use vicus_disk::Epoch;
use vicus_flow::library::{HashKey, table_bytes};
use vicus_rdf::{Encoded, Graphs, Id, Interrupt, TermKind};

/// A record of steps on quads alone, with terms of RDF 1.1: readers of the first form alone read it.
const PLAIN: u8 = 1;

/// A record of steps on quads alone, with any terms.
const KINDS: u8 = 2;

/// A record with a tag for each step, and any terms.
const TAGGED: u8 = 3;

/// A record that begins an epoch.
const EPOCH: u8 = 4;

/// The tags of the steps of a [`TAGGED`] record.
const QUADS: u8 = 0;
const CLEAR_ALL: u8 = 1;
const CLEAR_NAMED: u8 = 2;
const CLEAR_ONE: u8 = 3;
const COPY: u8 = 4;

/// Notes a term of this kind in a record.
fn raise(form: &mut u8, kind: TermKind) {
    if matches!(kind, TermKind::DirString | TermKind::Triple) {
        *form = KINDS.max(*form);
    }
}

/// A quad by the numbers of its terms; 0 stands for the default graph.
pub(crate) type Numbers = [u32; 4];

/// The reason why a written record could not be read again: a limit of [`Record::read`]. A finished record has no flaw,
/// so it can be acknowledged.
pub(crate) type Flaw = &'static str;

const TOO_MANY: Flaw = "a transaction has 2^32 terms or more";
const NO_TERM: Flaw = "a quad lacks its subject, predicate or object";

/// Writes a record.
#[derive(Debug)]
pub(crate) struct Writer {
    /// Hashes a step's ids: authors of data choose the ids that are their own terms.
    hash_key: HashKey,
    form: u8,
    terms: Vec<u8>,
    count: u64,
    steps: Vec<u8>,
    step_count: u64,
    /// The beginnings and the tags of the steps: those on graphs, and those on quads.
    marks: Vec<(usize, u8)>,
    /// The first one.
    flaw: Option<Flaw>,
}

fn put(mut number: u64, into: &mut Vec<u8>) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

impl Writer {
    /// A record without steps.
    pub(crate) fn new(hash_key: HashKey) -> Writer {
        Writer {
            hash_key,
            form: PLAIN,
            terms: Vec::new(),
            count: 0,
            steps: Vec::new(),
            step_count: 0,
            marks: Vec::new(),
            flaw: None,
        }
    }

    /// Appends the next step. `key` passes on the key of an id that is not its own term.
    pub(crate) fn step(
        &mut self,
        deletes: &[[Id; 4]],
        inserts: &[[Id; 4]],
        key: impl Fn(Id, &mut dyn FnMut(&str)),
        interrupt: &Interrupt<'_>,
    ) {
        self.mark(QUADS);
        /// Memory is told of when there are so many bytes more.
        const STEP: usize = 256 << 10;
        let mut numbers: HashMap<Id, u64, HashKey> = HashMap::with_hasher(self.hash_key);
        let (before, mut held, mut told) = (self.heap_bytes(), interrupt.holding(0), 0);
        for quads in [deletes, inserts] {
            put(quads.len() as u64, &mut self.steps);
            for (place, &id) in interrupt.each(quads.as_flattened().iter()).enumerate() {
                if id.is_unbound() {
                    if place % 4 < 3 {
                        self.flaw.get_or_insert(NO_TERM);
                    }
                    put(0, &mut self.steps);
                    continue;
                }
                let number = *numbers.entry(id).or_insert_with(|| {
                    raise(&mut self.form, id.kind());
                    put_term(id, &key, &mut self.terms, &mut self.flaw);
                    self.count += 1;
                    self.count
                });
                put(number, &mut self.steps);
                let bytes = self.heap_bytes() - before + table_bytes::<(Id, u64)>(numbers.capacity());
                if bytes >= told + STEP {
                    // A list that grows is there twice, once with half of the room.
                    held.set(bytes + bytes / 2);
                    told = bytes;
                }
            }
        }
    }

    /// Some graphs are cleared.
    pub(crate) fn clear(&mut self, graphs: Graphs, key: impl Fn(Id, &mut dyn FnMut(&str))) {
        match graphs {
            Graphs::All => self.mark(CLEAR_ALL),
            Graphs::Named => self.mark(CLEAR_NAMED),
            Graphs::One(graph) => {
                self.mark(CLEAR_ONE);
                self.put_graph(graph, key);
            }
        }
    }

    /// The quads of a graph come to another one.
    pub(crate) fn copy(&mut self, from: Id, to: Id, key: impl Fn(Id, &mut dyn FnMut(&str))) {
        self.mark(COPY);
        self.put_graph(from, &key);
        self.put_graph(to, &key);
    }

    /// A step begins.
    fn mark(&mut self, what: u8) {
        if what != QUADS {
            self.form = TAGGED;
        }
        self.marks.push((self.steps.len(), what));
        self.step_count += 1;
    }

    fn put_graph(&mut self, graph: Id, key: impl Fn(Id, &mut dyn FnMut(&str))) {
        if graph.is_unbound() {
            return put(0, &mut self.steps);
        }
        raise(&mut self.form, graph.kind());
        put_term(graph, &key, &mut self.terms, &mut self.flaw);
        self.count += 1;
        put(self.count, &mut self.steps);
    }

    /// Its memory, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.terms.capacity() + self.steps.capacity() + self.marks.capacity() * size_of::<(usize, u8)>()
    }

    /// At most so many bytes are taken by the record when it is read.
    pub(crate) fn read_bytes(&self) -> usize {
        // A quad has four bytes at least. A list of terms that grows is there twice.
        self.steps.len() / 4 * size_of::<Numbers>() + 3 * self.count as usize * size_of::<NamedTerm<'_>>()
    }

    /// Whether there are no steps.
    pub(crate) fn is_empty(&self) -> bool {
        self.step_count == 0
    }

    /// Why a change since the record was begun can't be read again, if there is one: then there is no record.
    pub(crate) fn flaw(&self) -> Option<Flaw> {
        self.flaw.or((self.count > u32::MAX.into()).then_some(TOO_MANY))
    }

    /// The record. It has no flaw.
    pub(crate) fn finish(self) -> Vec<u8> {
        debug_assert_eq!(self.flaw(), None, "a transaction with a flaw is broken");
        let mut record = vec![self.form];
        put(self.count, &mut record);
        record.extend_from_slice(&self.terms);
        put(self.step_count, &mut record);
        if self.form != TAGGED {
            record.extend_from_slice(&self.steps);
            return record;
        }
        let ends = self.marks.iter().skip(1).map(|(start, _)| *start).chain([self.steps.len()]);
        for ((start, what), end) in self.marks.iter().zip(ends) {
            record.push(*what);
            record.extend_from_slice(&self.steps[*start..end]);
        }
        record
    }
}

/// `key` passes on the key of an id that is not its own term.
fn put_term(id: Id, key: impl Fn(Id, &mut dyn FnMut(&str)), into: &mut Vec<u8>, flaw: &mut Option<Flaw>) {
    let mut check = |term: Encoded<'_>| *flaw = flaw.or_else(|| term.flaw());
    if id.kind().section().is_some() {
        key(id, &mut |key| {
            check(Encoded::Key(id.kind(), key));
            put_key(id.kind(), key, into);
        });
    } else {
        check(Encoded::Inlined(id));
        into.extend_from_slice(&id.bits().to_be_bytes());
    }
}

/// Writes a record of one step, by terms. It belongs to no store yet, and so has no store's number as the key of a
/// hash: its maps are ordered.
#[derive(Debug)]
pub(crate) struct Editor {
    form: u8,
    terms: Vec<u8>,
    /// The beginning of each term.
    starts: Vec<usize>,
    /// The numbers of terms, by their bytes in the record; with few terms, empty.
    numbers: BTreeMap<Box<[u8]>, u32>,
    /// The new state of quads.
    quads: BTreeMap<Numbers, bool>,
    /// The first one.
    flaw: Option<Flaw>,
}

/// Among this number of terms, one is found faster by comparing it with each: most have different lengths.
const FEW: usize = 12;

impl Default for Editor {
    fn default() -> Editor {
        let (terms, starts, numbers, quads, flaw) = Default::default();
        Editor { form: PLAIN, terms, starts, numbers, quads, flaw }
    }
}

impl Editor {
    /// The number of a term.
    pub(crate) fn number(&mut self, term: Encoded<'_>) -> u32 {
        let start = self.terms.len();
        self.flaw = self.flaw.or_else(|| term.flaw());
        match term {
            Encoded::Key(kind, key) => {
                raise(&mut self.form, kind);
                put_key(kind, key, &mut self.terms);
            }
            Encoded::Inlined(id) => self.terms.extend_from_slice(&id.bits().to_be_bytes()),
        }
        if let Some(number) = self.find(start) {
            self.terms.truncate(start);
            return number;
        }
        if u32::try_from(self.starts.len() + 1).is_err() {
            self.flaw.get_or_insert(TOO_MANY);
            self.terms.truncate(start);
            return 1;
        }
        self.starts.push(start);
        let number = number_of(self.starts.len() - 1);
        if self.starts.len() == FEW + 1 {
            let bytes = |place: usize| self.bytes_of(place).into();
            self.numbers = (0..self.starts.len()).map(|place| (bytes(place), number_of(place))).collect();
        } else if self.starts.len() > FEW {
            self.numbers.insert(self.terms[start..].into(), number);
        }
        number
    }

    /// The number of an earlier term equal to the one that begins here, at the end of all.
    fn find(&self, start: usize) -> Option<u32> {
        let term = &self.terms[start..];
        if self.starts.len() > FEW {
            return self.numbers.get(term).copied();
        }
        let mut end = start;
        for (place, &start) in self.starts.iter().enumerate().rev() {
            if self.terms[start..end] == *term {
                return Some(number_of(place));
            }
            end = start;
        }
        None
    }

    fn bytes_of(&self, place: usize) -> &[u8] {
        let end = self.starts.get(place + 1).copied().unwrap_or(self.terms.len());
        &self.terms[self.starts[place]..end]
    }

    /// Whether a quad is there from now on.
    pub(crate) fn set(&mut self, quad: Numbers, there: bool) {
        self.quads.insert(quad, there);
    }

    /// The record; `None` if there are no changes.
    ///
    /// # Errors
    /// A change can't be read again.
    pub(crate) fn finish(self) -> Result<Option<Vec<u8>>, Flaw> {
        if let Some(flaw) = self.flaw {
            return Err(flaw);
        }
        if self.quads.is_empty() {
            return Ok(None);
        }
        // A few bytes for each count, and for most numbers one.
        let mut record = Vec::with_capacity(self.terms.len() + 16 + 8 * self.quads.len());
        record.push(self.form);
        put(self.starts.len() as u64, &mut record);
        record.extend_from_slice(&self.terms);
        put(1, &mut record);
        for there in [false, true] {
            let quads = self.quads.iter().filter(|(_, is)| **is == there).map(|(quad, _)| quad);
            put(quads.clone().count() as u64, &mut record);
            quads.flatten().for_each(|&number| put(number.into(), &mut record));
        }
        Ok(Some(record))
    }
}

/// The number of the term at this place.
fn number_of(place: usize) -> u32 {
    u32::try_from(place + 1).expect("fewer than 2^32 terms")
}

fn put_key(kind: TermKind, key: &str, into: &mut Vec<u8>) {
    // A kind, and a length of ten bytes at most.
    into.reserve(key.len() + 11);
    into.push(kind as u8);
    put(key.len() as u64, into);
    into.extend_from_slice(key.as_bytes());
}

/// A term of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NamedTerm<'a> {
    Key(TermKind, &'a str),
    Itself(Id),
}

/// A record after reading.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) terms: Vec<NamedTerm<'a>>,
    pub(crate) steps: Vec<Step>,
}

/// A step of a transaction. Graphs are numbers as in quads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Quads { deletes: Vec<Numbers>, inserts: Vec<Numbers> },
    ClearAll,
    ClearNamed,
    Clear(u32),
    Copy { from: u32, to: u32 },
}

/// The record that begins an epoch.
pub(crate) fn epoch_record(Epoch { number, by }: Epoch) -> Vec<u8> {
    let mut record = vec![EPOCH];
    put(number, &mut record);
    record.extend_from_slice(&by.to_le_bytes());
    record
}

/// The epoch that a record begins.
pub(crate) fn epoch_of(record: &[u8]) -> Option<Epoch> {
    let (&EPOCH, rest) = record.split_first()? else { return None };
    let mut reader = Reader(rest);
    let number = reader.number()?;
    let by = u64::from_le_bytes(reader.0.try_into().ok()?);
    Epoch::of(number, by)
}

/// Reading this number of bytes of a term takes about as long as reading a quad.
const BYTES_IN_A_STEP: usize = 64;

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7F).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A number of things with at least this number of bytes each.
    fn count(&mut self, bytes: usize) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count.checked_mul(bytes)? <= self.0.len()).then_some(count)
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn term(&mut self) -> Option<NamedTerm<'a>> {
        let &tag = self.0.first()?;
        let kind = TermKind::ALL.into_iter().find(|&kind| kind as u8 == tag && kind != TermKind::Unbound)?;
        if kind.section().is_none() {
            let id = Id::from_bits(u64::from_be_bytes(self.bytes(8)?.try_into().ok()?));
            return Encoded::Inlined(id).flaw().is_none().then_some(NamedTerm::Itself(id));
        }
        self.bytes(1)?;
        let length = self.count(1)?;
        let key = str::from_utf8(self.bytes(length)?).ok()?;
        Encoded::Key(kind, key).flaw().is_none().then_some(NamedTerm::Key(kind, key))
    }

    /// The number of a graph.
    fn graph(&mut self, terms: usize) -> Option<u32> {
        u32::try_from(self.number()?).ok().filter(|&number| number as usize <= terms)
    }

    fn step(&mut self, what: u8, terms: usize, interrupt: &Interrupt<'_>) -> Option<Step> {
        Some(match what {
            QUADS => Step::Quads { deletes: self.quads(terms, interrupt)?, inserts: self.quads(terms, interrupt)? },
            CLEAR_ALL => Step::ClearAll,
            CLEAR_NAMED => Step::ClearNamed,
            CLEAR_ONE => Step::Clear(self.graph(terms)?),
            COPY => Step::Copy { from: self.graph(terms)?, to: self.graph(terms)? },
            _ => return None,
        })
    }

    fn quads(&mut self, terms: usize, interrupt: &Interrupt<'_>) -> Option<Vec<Numbers>> {
        let count = self.count(4)?;
        let mut quads = Vec::with_capacity(count);
        for _ in 0..count {
            let mut quad = [0; 4];
            for (position, number) in quad.iter_mut().enumerate() {
                *number = u32::try_from(self.number()?).ok().filter(|&number| number as usize <= terms)?;
                (*number > 0 || position == 3).then_some(())?;
            }
            quads.push(quad);
            interrupt.step();
        }
        Some(quads)
    }
}

impl Record<'_> {
    /// Reads a record; on failure, names the missing part.
    pub(crate) fn read(bytes: &[u8]) -> Result<Record<'_>, String> {
        Record::read_with_interrupt(bytes, &Interrupt::never())
    }

    /// Like [`Record::read`]; its caller can end it.
    pub(crate) fn read_with_interrupt<'a>(bytes: &'a [u8], interrupt: &Interrupt<'_>) -> Result<Record<'a>, String> {
        let (&version, rest) = bytes.split_first().ok_or("it is empty")?;
        if version == EPOCH {
            let what = || "it begins no epoch".to_owned();
            return epoch_of(bytes).map(|_| Record::default()).ok_or_else(what);
        }
        if ![PLAIN, KINDS, TAGGED].contains(&version) {
            return Err(format!("its form is {version}, and this Vicus reads {PLAIN} to {EPOCH}"));
        }
        let is_tagged = version == TAGGED;
        let mut reader = Reader(rest);
        let mut record = Record::default();
        let complete = (|| -> Option<()> {
            for _ in 0..reader.count(2)? {
                // A term may be long, as its bytes are looked at.
                let before = reader.0.len();
                record.terms.push(reader.term()?);
                interrupt.steps(1 + (before - reader.0.len()) / BYTES_IN_A_STEP);
            }
            for _ in 0..reader.count(if is_tagged { 1 } else { 2 })? {
                let what = if is_tagged { reader.bytes(1)?[0] } else { QUADS };
                let step = reader.step(what, record.terms.len(), interrupt)?;
                record.steps.push(step);
            }
            reader.0.is_empty().then_some(())
        })();
        complete
            .map(|()| record)
            .ok_or_else(|| format!("it ends or breaks off {} bytes before its end", reader.0.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: the record of an update was read once more before it was kept, without a question.
    #[test]
    fn reading_a_long_record_is_counted() {
        let questions = |record: &[u8]| {
            let asked = std::cell::Cell::new(0);
            let ask = |_| {
                asked.set(asked.get() + 1);
                Ok(())
            };
            Record::read_with_interrupt(record, &Interrupt::by(&ask)).unwrap();
            asked.get()
        };
        let mut editor = Editor::default();
        let numbers: Vec<u32> =
            (0..60).map(|place| editor.number(Encoded::Key(TermKind::Iri, &format!("a:{place}")))).collect();
        let quad = |place: usize| [numbers[place % 60], numbers[place / 60 % 60], numbers[place / 3600], 0];
        (0..200_000).for_each(|place| editor.set(quad(place), true));
        // A question for 16,384 quads.
        assert!(questions(&editor.finish().unwrap().unwrap()) >= 10);
        let mut editor = Editor::default();
        let number = editor.number(Encoded::Key(TermKind::String, &"a".repeat(8 << 20)));
        editor.set([number, number, number, 0], true);
        assert!(questions(&editor.finish().unwrap().unwrap()) >= 1, "one term of 8 MiB");
    }

    /// The bytes are spelled out: logs on disk have them.
    #[test]
    fn each_form_is_read_and_the_least_that_will_do_is_written() {
        let text = |text: &str| [&[TermKind::String as u8, text.len() as u8], text.as_bytes()].concat();
        let terms = [vec![1], text("a")].concat();
        let steps = |form: u8, terms: &[u8], steps: &[u8]| [&[form], terms, steps].concat();
        // One step: it deletes nothing and inserts one quad.
        let quads: &[u8] = &[1, 0, 1, 1, 1, 1, 0];
        let plain = vec![Step::Quads { deletes: vec![], inserts: vec![[1, 1, 1, 0]] }];
        for form in [1, 2] {
            assert_eq!(Record::read(&steps(form, &terms, quads)).unwrap().steps, plain, "form {form}");
        }
        let tagged: &[u8] = &[5, 0, 0, 1, 1, 1, 1, 0, 1, 2, 3, 1, 4, 0, 1];
        let found = Record::read(&steps(3, &terms, tagged)).unwrap().steps;
        let more = [Step::ClearAll, Step::ClearNamed, Step::Clear(1), Step::Copy { from: 0, to: 1 }];
        assert_eq!(found, plain.into_iter().chain(more).collect::<Vec<Step>>());
        assert!(Record::read(&steps(5, &terms, tagged)).unwrap_err().starts_with("its form is 5,"));
        let epoch = Epoch { number: 300, by: 0x0102_0304_0506_0708 };
        assert_eq!(epoch_record(epoch), [4, 0xac, 2, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(epoch_of(&epoch_record(epoch)), Some(epoch));
        assert!(Record::read(&epoch_record(epoch)).unwrap().steps.is_empty());
        assert!(Record::read(&epoch_record(Epoch { number: Epoch::MOST, by: 1 })).is_ok());
        assert!(Record::read(&epoch_record(Epoch { number: Epoch::MOST + 1, by: 1 })).is_err());
        assert!(Record::read(&epoch_record(epoch)[..10]).is_err() && Record::read(&[4]).is_err());
        assert_eq!(epoch_of(&steps(3, &terms, tagged)), None);

        let form_of = |kind: TermKind| {
            let mut editor = Editor::default();
            let number = editor.number(Encoded::Key(kind, "en--ltr\0a"));
            editor.set([number, number, number, 0], true);
            editor.finish().unwrap().unwrap()[0]
        };
        assert_eq!([TermKind::String, TermKind::DirString].map(form_of), [1, 2]);

        // With few terms and with many, each has one number, in the order of their arrival.
        let mut editor = Editor::default();
        for place in (0..3 * FEW).chain(0..3 * FEW) {
            assert_eq!(editor.number(Encoded::Key(TermKind::Iri, &format!("{}", place / 2))), number_of(place / 2));
        }
        editor.set([1, 2, number_of(FEW), 0], true);
        editor.set([1, 1, 1, 0], false);
        let record = editor.finish().unwrap().unwrap();
        let record = Record::read(&record).unwrap();
        assert_eq!(record.terms.len(), 3 * FEW / 2);
        assert_eq!(record.terms[FEW], NamedTerm::Key(TermKind::Iri, &FEW.to_string()));
        let inserts = vec![[1, 2, number_of(FEW), 0]];
        assert_eq!(record.steps, [Step::Quads { deletes: vec![[1, 1, 1, 0]], inserts }]);

        let mut writer = Writer::new(HashKey::default());
        writer.clear(Graphs::All, |_, _| unreachable!("no term is named"));
        assert_eq!(writer.finish(), [3, 0, 1, 1]);
    }
}
