//! Loading of data larger than memory: pieces with terms and quads in temporary files, and the way they become one
//! dictionary and indexes.
//!
//! ```text
//!  piece ── Segment::write ──▶ terms in order, quads of their places      when parsers hold too much, and at the end
//!  segments ── assemble_segments ──▶ terms, numbering, for each segment a table from places to numbers
//!  terms ── cut, compress, join_keys ──▶ dictionary                       the keys of each kind alone
//!  segment, table ── SpilledRuns::write ──▶ its quads in each order        as many segments at once as workers
//!  runs of all segments ── index_of_spilled ──▶ Index                      each order alone
//! ```
//!
//! There may be hundreds of segments, and a process may have few files open. So those of all segments share three files
//! ([`Bundle`]): one has terms and quads, one the tables, and one the quads in each order.
//!
//! All is written front to back and read front to back. In memory are a table and the quads of one segment for each
//! worker, and a block of each merged run: with 64 KiB for each of some hundred segments, this is little. Sections come
//! out as if all had been in memory.

use super::BETWEEN_LOOKS;
use super::compress::{AssembledTerms, with_rdf_type};
use super::merge::{Entry, Numbering, SortedTerms, entry_of};
use super::runs::{NumberedQuads, SortedRun, remap};
use crate::ids::{Id, SECTIONS};
use crate::index::{Index, Order};
use crate::packed::Packing;
use crate::storage::Backing;
use std::sync::Arc;
use vicus_files::scratch::{Bundle, Reading, Writing, WrittenRun};
use vicus_files::{FileError, Scratch};
use vicus_flow::library::Tournament;
use vicus_flow::{Grow, NoMemory, give_up};

fn or_give_up<T>(outcome: Result<T, FileError>) -> T {
    outcome.unwrap_or_else(|error| give_up(error))
}

/// A piece in temporary files.
pub(super) struct Segment {
    /// Each entry as what it has in common with the one before, the length of the rest, and the rest.
    terms: WrittenRun,
    term_count: usize,
    /// Quads of places in the order of terms.
    quads: WrittenRun,
    triples: usize,
    named: usize,
}

impl Segment {
    /// Writes a piece. If that is not possible, the caller's box gives up.
    pub(super) fn write(terms: SortedTerms, mut quads: NumberedQuads, bundle: &Bundle) -> Result<Segment, NoMemory> {
        let mut places: Vec<u32> = Vec::zeroed(terms.len())?;
        for (place, &number) in terms.order.iter().enumerate() {
            places[number as usize] = place as u32;
        }
        let written = or_give_up(write_terms(&terms, bundle));
        let term_count = terms.len();
        drop(terms);
        remap(&mut quads, &places);
        drop(places);
        let (triples, named) = (quads.triples.len(), quads.named.len());
        let quads = or_give_up(write_quads(&quads.triples, &quads.named, bundle));
        Ok(Segment { terms: written, term_count, quads, triples, named })
    }

    /// How many quads it has.
    pub(super) fn quad_count(&self) -> usize {
        self.triples + self.named
    }

    fn read_quads(&self) -> Result<NumberedQuads, NoMemory> {
        let mut reading = self.quads.read();
        let mut quads = NumberedQuads { triples: Vec::with_room(self.triples)?, named: Vec::with_room(self.named)? };
        (0..self.triples).for_each(|_| quads.triples.push(or_give_up(row(&mut reading))));
        (0..self.named).for_each(|_| quads.named.push(or_give_up(row(&mut reading))));
        Ok(quads)
    }
}

fn write_terms(terms: &SortedTerms, bundle: &Bundle) -> Result<WrittenRun, FileError> {
    let mut writing = bundle.begin()?;
    let mut last: &[u8] = &[];
    for place in 0..terms.len() {
        let entry = terms.entry(place);
        write_behind(&mut writing, last, entry)?;
        last = entry;
    }
    writing.finish()
}

/// Writes an entry as what it has in common with the one before, the length of the rest, and the rest.
fn write_behind(writing: &mut Writing, last: &[u8], entry: &[u8]) -> Result<(), FileError> {
    let common = last.iter().zip(entry).take_while(|(a, b)| a == b).count();
    write_number(writing, common as u64)?;
    write_number(writing, (entry.len() - common) as u64)?;
    writing.write(&entry[common..])
}

/// From the entry before to the next one that [`write_behind`] wrote.
fn read_behind(reading: &mut Reading, entry: &mut Vec<u8>) -> Result<(), NoMemory> {
    let common = or_give_up(read_number(reading)) as usize;
    let more = or_give_up(read_number(reading)) as usize;
    entry.truncate(common);
    entry.grow(more)?;
    entry.resize(common + more, 0);
    or_give_up(reading.read(&mut entry[common..]));
    Ok(())
}

/// The keys of a kind in a temporary file, ascending.
pub(super) struct SpilledKeys {
    written: WrittenRun,
    len: usize,
    bytes: usize,
}

impl SpilledKeys {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many bytes all keys have.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Passes all keys to `look`, with their ranks, until it returns `false`; whether it never did.
    pub(super) fn each(&self, mut look: impl FnMut(usize, &[u8]) -> Result<bool, NoMemory>) -> Result<bool, NoMemory> {
        let (mut reading, mut key) = (self.written.read(), Vec::new());
        for rank in 0..self.len {
            read_behind(&mut reading, &mut key)?;
            if !look(rank, &key)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Writes [`SpilledKeys`].
struct SpillingKeys {
    writing: Writing,
    len: usize,
    bytes: usize,
}

impl SpillingKeys {
    fn new(scratch: &Arc<Scratch>) -> SpillingKeys {
        SpillingKeys { writing: or_give_up(scratch.begin()), len: 0, bytes: 0 }
    }

    /// Adds the next key; `last` is the one before.
    fn push(&mut self, last: &[u8], key: &[u8]) {
        or_give_up(write_behind(&mut self.writing, last, key));
        self.len += 1;
        self.bytes += key.len();
    }

    fn finish(self) -> SpilledKeys {
        SpilledKeys { written: or_give_up(self.writing.finish()), len: self.len, bytes: self.bytes }
    }
}

fn write_quads(triples: &[[u32; 3]], named: &[[u32; 4]], bundle: &Bundle) -> Result<WrittenRun, FileError> {
    let mut writing = bundle.begin()?;
    write_rows(&mut writing, triples)?;
    write_rows(&mut writing, named)?;
    writing.finish()
}

fn write_rows<const N: usize>(writing: &mut Writing, rows: &[[u32; N]]) -> Result<(), FileError> {
    let mut bytes = [0; 4096];
    for part in rows.as_flattened().chunks(bytes.len() / 4) {
        for (number, place) in part.iter().zip(bytes.as_chunks_mut::<4>().0) {
            *place = number.to_le_bytes();
        }
        writing.write(&bytes[..4 * part.len()])?;
    }
    Ok(())
}

#[inline]
fn row<const N: usize>(reading: &mut Reading) -> Result<[u32; N], FileError> {
    let mut bytes = [[0; 4]; N];
    reading.read(bytes.as_flattened_mut())?;
    Ok(bytes.map(u32::from_le_bytes))
}

/// Seven bits in each byte, the lowest first; all bytes but the last have their highest bit set.
fn write_number(writing: &mut Writing, mut number: u64) -> Result<(), FileError> {
    let (mut bytes, mut count) = ([0; 10], 0);
    while number >= 0x80 {
        bytes[count] = number as u8 | 0x80;
        (number, count) = (number >> 7, count + 1);
    }
    bytes[count] = number as u8;
    writing.write(&bytes[..=count])
}

#[inline]
fn read_number(reading: &mut Reading) -> Result<u64, FileError> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let mut byte = [0];
        reading.read(&mut byte)?;
        number |= u64::from(byte[0] & 0x7F) << shift;
        if byte[0] < 0x80 {
            return Ok(number);
        }
        shift += 7;
    }
}

/// The terms of a segment, one after the other.
struct Terms {
    reading: Reading,
    left: usize,
    entry: Vec<u8>,
    /// Whether there is an entry.
    is_at_one: bool,
    /// For each, the difference between its number and the one before.
    table: Writing,
    next_number: u32,
}

impl Terms {
    fn new(segment: &Segment, tables: &Bundle) -> Result<Terms, NoMemory> {
        let (reading, table) = (segment.terms.read(), or_give_up(tables.begin()));
        let mut terms =
            Terms { reading, left: segment.term_count, entry: Vec::new(), is_at_one: true, table, next_number: 0 };
        terms.advance()?;
        Ok(terms)
    }

    fn advance(&mut self) -> Result<(), NoMemory> {
        self.is_at_one = self.left > 0;
        if self.is_at_one {
            self.left -= 1;
            read_behind(&mut self.reading, &mut self.entry)?;
        }
        Ok(())
    }

    fn note(&mut self, number: u32) -> Result<(), FileError> {
        write_number(&mut self.table, u64::from(number - self.next_number))?;
        self.next_number = number + 1;
        Ok(())
    }
}

/// From the places of a segment's terms to numbers.
pub(super) struct Table(WrittenRun);

impl Table {
    fn read(&self, count: usize) -> Result<Vec<u32>, NoMemory> {
        let (mut reading, mut numbers, mut next) = (self.0.read(), Vec::with_room(count)?, 0);
        numbers.extend((0..count).map(|_| {
            let number = next + or_give_up(read_number(&mut reading)) as u32;
            next = number + 1;
            number
        }));
        Ok(numbers)
    }
}

/// The result of merging the terms of all segments.
pub(super) struct AssembledSegments {
    pub(super) terms: AssembledTerms,
    pub(super) numbering: Numbering,
    /// For each segment.
    pub(super) tables: Vec<Table>,
}

/// Merges the terms of segments; `None` if it `is_stopped`. If a temporary file can't be read or written, the caller's
/// box gives up.
pub(super) fn assemble_segments(
    segments: &[Segment],
    scratch: &Arc<Scratch>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<AssembledSegments>, NoMemory> {
    let storage = Backing::Scratch(Arc::clone(scratch));
    let tables = Bundle::new(Arc::clone(scratch));
    let mut terms = segments.iter().map(|segment| Terms::new(segment, &tables)).collect::<Result<Vec<_>, _>>()?;
    let less = |terms: &[Terms], a: usize, b: usize| match (terms[a].is_at_one, terms[b].is_at_one) {
        (true, true) => terms[a].entry < terms[b].entry,
        (is_at_one, _) => is_at_one,
    };
    let mut keys: [SpillingKeys; SECTIONS] = std::array::from_fn(|_| SpillingKeys::new(scratch));
    let mut inlined = Packing::default();
    let mut tournament = Tournament::new(terms.len(), |a, b| less(&terms, a, b));
    let (mut count, mut last) = (0_u32, Vec::new());
    // The section and the key of `rdf:type`, and its rank.
    let (mut rdf_type, mut rank) = (None, None);
    with_rdf_type(|kind, key| {
        rdf_type = kind.section().map(|section| (section, key.to_vec()));
        None
    });
    while terms.get(tournament.winner()).is_some_and(|terms| terms.is_at_one) {
        let winner = &mut terms[tournament.winner()];
        // Of equal terms, only the first is known not to be the last one.
        if count == 0 || last != winner.entry {
            if (count as usize).is_multiple_of(BETWEEN_LOOKS) && is_stopped() {
                return Ok(None);
            }
            match entry_of(&winner.entry) {
                Entry::Key(section, key) => {
                    if rdf_type.as_ref().is_some_and(|(other, of_type)| *other == section && of_type == key) {
                        rank = Some(keys[section].len);
                    }
                    // The first of a kind has no key before it.
                    let same = last.first() == winner.entry.first();
                    keys[section].push(if same { &last[1..] } else { &[] }, key);
                }
                Entry::Inlined(id) => inlined.push([id.bits()])?,
            }
            count = count.checked_add(1).expect("fewer than 2^32 distinct terms");
            last.clear();
            last.grow(winner.entry.len())?;
            last.extend_from_slice(&winner.entry);
        }
        or_give_up(winner.note(count - 1));
        winner.advance()?;
        tournament.replay(|a, b| less(&terms, a, b));
    }
    let rdf_type = with_rdf_type(|_, _| rank);
    let all = AssembledTerms::spilled(keys.map(SpillingKeys::finish), rdf_type, &storage);
    let numbering = Numbering::new(all.counts(), inlined.finish()?);
    let tables = terms.into_iter().map(|terms| Table(or_give_up(terms.table.finish()))).collect();
    Ok(Some(AssembledSegments { terms: all, numbering, tables }))
}

/// The quads of a segment in several orders, in temporary files.
pub(super) struct SpilledRuns(Vec<SpilledRun>);

struct SpilledRun {
    order: Order,
    rows: WrittenRun,
    triples: usize,
    named: usize,
}

impl SpilledRuns {
    /// Numbers and sorts the quads of a segment; `None` if it `is_stopped`. If a temporary file can't be read or
    /// written, the caller's box gives up.
    pub(super) fn write(
        segment: Segment,
        table: &Table,
        orders: &[Order],
        bundle: &Bundle,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<SpilledRuns>, NoMemory> {
        let mut quads = segment.read_quads()?;
        let numbers = table.read(segment.term_count)?;
        drop(segment);
        remap(&mut quads, &numbers);
        drop(numbers);
        let first = SortedRun::new(Order::Gspo, quads)?;
        let mut runs = Vec::new();
        for &order in orders {
            if is_stopped() {
                return Ok(None);
            }
            let derived = if order == Order::Gspo { None } else { Some(first.derive(order)?) };
            let run = derived.as_ref().unwrap_or(&first);
            let rows = or_give_up(write_quads(&run.triples, &run.named, bundle));
            runs.push(SpilledRun { order, rows, triples: run.triples.len(), named: run.named.len() });
        }
        Ok(Some(SpilledRuns(runs)))
    }
}

/// Rows that are read one after the other.
struct Rows<const N: usize> {
    reading: Reading,
    left: usize,
    /// The row at hand; the greatest one at the end.
    row: [u32; N],
    is_at_one: bool,
}

impl<const N: usize> Rows<N> {
    fn new(reading: Reading, count: usize) -> Rows<N> {
        let mut rows = Rows { reading, left: count, row: [0; N], is_at_one: true };
        rows.advance();
        rows
    }

    #[inline]
    fn advance(&mut self) {
        self.is_at_one = self.left > 0;
        self.row = if self.is_at_one { or_give_up(row(&mut self.reading)) } else { [u32::MAX; N] };
        self.left = self.left.saturating_sub(1);
    }
}

/// The rows of several sequences, ascending and distinct.
struct MergedRows<const N: usize> {
    rows: Vec<Rows<N>>,
    tournament: Tournament,
    last: Option<[u32; N]>,
}

impl<const N: usize> MergedRows<N> {
    fn new(rows: Vec<Rows<N>>) -> MergedRows<N> {
        let tournament = Tournament::new(rows.len(), |a, b| less(&rows, a, b));
        MergedRows { rows, tournament, last: None }
    }
}

/// One that has ended may be equal to one whose last row is the greatest: then it is the greater.
#[inline]
fn less<const N: usize>(rows: &[Rows<N>], a: usize, b: usize) -> bool {
    (rows[a].row, !rows[a].is_at_one) < (rows[b].row, !rows[b].is_at_one)
}

impl<const N: usize> Iterator for MergedRows<N> {
    type Item = [u32; N];

    #[inline]
    fn next(&mut self) -> Option<[u32; N]> {
        loop {
            let winner = self.rows.get_mut(self.tournament.winner()).filter(|rows| rows.is_at_one)?;
            let row = winner.row;
            winner.advance();
            self.tournament.replay(|a, b| less(&self.rows, a, b));
            if self.last.replace(row) != Some(row) {
                return Some(row);
            }
        }
    }
}

/// The index in an order, from the runs of all segments; `None` if it `is_stopped`. If a temporary file can't be read
/// or written, the caller's box gives up.
pub(super) fn index_of_spilled(
    order: Order,
    runs: &[SpilledRuns],
    numbering: &Numbering,
    scratch: &Arc<Scratch>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<Index>, NoMemory> {
    let of_order = |runs: &SpilledRuns| {
        let run = runs.0.iter().find(|run| run.order == order).expect("a run in each order");
        let mut named = run.rows.read();
        or_give_up(named.seek(12 * run.triples as u64));
        (Rows::new(run.rows.read(), run.triples), Rows::new(named, run.named))
    };
    let (triples, named): (Vec<Rows<3>>, Vec<Rows<4>>) = runs.iter().map(of_order).unzip();
    let triples = MergedRows::new(triples).map(|row| {
        let [a, b, c] = row.map(|number| numbering.id(number));
        [Id::UNBOUND, a, b, c]
    });
    let named = MergedRows::new(named).map(|row| row.map(|number| numbering.id(number)));
    let mut looks = 0_usize;
    let mut stopped = false;
    let rows = triples.chain(named).take_while(|_| {
        looks += 1;
        stopped |= looks.is_multiple_of(BETWEEN_LOOKS) && is_stopped();
        !stopped
    });
    let index = Index::new(order, rows, &Backing::Scratch(Arc::clone(scratch)))?;
    Ok((!stopped).then_some(index))
}
