//! What was inserted into a sorted sequence of rows and deleted from it, as a value that a change copies only in part.
//!
//! ```text
//!  base      a  b  c  d  e        merged      a  b  x  d  e  y
//!  delta     + x before c         row number  0  1  2  3  4  5
//!            - c
//!            + y at the end
//! ```
//!
//! Each entry knows its place in the base: before which row an insertion belongs, or which row a deletion takes away. Entries
//! are sorted, in chunks that versions share; the insertions less the deletions in front of each are known. So both the place of a
//! row in the merged sequence and the row at a place there are found by binary search, and base and delta are read as one sequence
//! of numbered rows.

use crate::ids::Id;
use crate::packed::{gallop, partition_point};
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::{Grow, NoMemory};

/// The ids of a row, in the order of its index.
pub type Row = [Id; 4];

/// The greatest number of entries of a chunk. A change of one row copies a chunk: at most 12 KiB.
const CHUNK: usize = 256;

/// What became of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It is there now, and was not.
    Insert,
    /// It was there, and is not.
    Delete,
}

impl Change {
    const fn net(self) -> isize {
        match self {
            Change::Insert => 1,
            Change::Delete => -1,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    row: Row,
    /// The row of the base that an insertion stands before, or that a deletion takes away.
    at: u32,
    /// The insertions less the deletions in front of it, in its chunk.
    net: i16,
    change: Change,
}

#[derive(Debug)]
struct Chunk {
    /// Invariant: not empty; rows ascend strictly.
    entries: Vec<Entry>,
}

impl Chunk {
    fn new(mut entries: Vec<Entry>) -> Chunk {
        let mut net = 0;
        for entry in &mut entries {
            entry.net = net as i16;
            net += entry.change.net();
        }
        Chunk { entries }
    }

    /// The insertions less the deletions.
    fn net(&self) -> isize {
        self.entries.last().map_or(0, |last| last.net as isize + last.change.net())
    }
}

/// What a search for a chunk reads.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// The row and the place of its first entry.
    row: Row,
    at: usize,
    /// The insertions less the deletions in front of the chunk.
    net: isize,
}

/// The changes of a sequence of rows since it was built. A copy shares its chunks.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    chunks: Vec<Arc<Chunk>>,
    /// Of each chunk.
    heads: Vec<Head>,
    len: usize,
    net: isize,
}

/// A part of the merged sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Run {
    /// These rows of the base.
    Base(Range<usize>),
    /// An inserted row.
    Inserted(Row),
}

/// As [`Run`], without a copy.
pub(crate) enum Part<'a> {
    Base(Range<usize>),
    Inserted(&'a Row),
}

/// The place of an entry, or the end. Invariant: the entry is less than its chunk's length, so that a place has one name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Spot {
    chunk: usize,
    entry: usize,
}

impl Delta {
    fn of_chunks(chunks: Vec<Arc<Chunk>>) -> Result<Delta, NoMemory> {
        let (mut heads, mut net, mut len) = (Vec::with_room(chunks.len())?, 0, 0);
        for chunk in &chunks {
            heads.push(Head { row: chunk.entries[0].row, at: chunk.entries[0].at as usize, net });
            net += chunk.net();
            len += chunk.entries.len();
        }
        Ok(Delta { chunks, heads, len, net })
    }

    /// How many rows are inserted or deleted.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the merged sequence is the base.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The insertions less the deletions.
    pub fn net(&self) -> isize {
        self.net
    }

    /// The memory of its entries, in bytes; versions share most of them.
    pub fn heap_bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(|chunk| chunk.entries.capacity() * size_of::<Entry>()).sum();
        chunks + self.chunks.capacity() * size_of::<Arc<Chunk>>() + self.heads.capacity() * size_of::<Head>()
    }

    /// What this says of a row; `None` if it is as in the base.
    pub fn change(&self, row: &Row) -> Option<Change> {
        let entry = self.entry(self.first_not(|other| other < row))?;
        (entry.row == *row).then_some(entry.change)
    }

    /// The insertions less the deletions among the rows for which `before` is true: with the number of such rows in the base, a
    /// place in the merged sequence. `before` must be true for all rows up to some row, and false from there on.
    pub fn net_of(&self, before: impl Fn(&Row) -> bool) -> isize {
        self.net_at(self.first_not(before))
    }

    /// With these changes as well. Rows must ascend strictly, and each change be one: a row that is inserted is not there now, one
    /// that is deleted is. `at` says where a row stands in the base, or else before which of its rows it would; it is asked for
    /// ascending rows.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn with(&self, changes: &[(Row, Change)], mut at: impl FnMut(&Row) -> usize) -> Result<Delta, NoMemory> {
        debug_assert!(changes.is_sorted_by(|a, b| a.0 < b.0), "changes ascend");
        let mut chunks = Vec::with_room(self.chunks.len() + 2 * changes.len() / CHUNK + 2)?;
        let mut rest = changes;
        for (place, chunk) in self.chunks.iter().enumerate() {
            let next = self.heads.get(place + 1).map(|next| next.row);
            let count = next.map_or(rest.len(), |next| gallop(0..rest.len(), 0, |n| rest[n].0 < next));
            let (here, others) = rest.split_at(count);
            rest = others;
            match here {
                [] => {
                    chunks.grow(1)?;
                    chunks.push(Arc::clone(chunk));
                }
                _ => divide(changed(&chunk.entries, here, &mut at)?, &mut chunks)?,
            }
        }
        // There was no chunk.
        divide(changed(&[], rest, &mut at)?, &mut chunks)?;
        Delta::of_chunks(chunks)
    }

    /// The row at this place of the merged sequence.
    pub fn locate(&self, place: usize) -> Run {
        let (spot, base) = self.first_there(place);
        self.at(spot, base)
    }

    /// The row at a place of the merged sequence with the rows of the base around it: the places of all of these, and the first of
    /// them. An inserted row is alone.
    pub(crate) fn run_at(&self, place: usize) -> (Range<usize>, Run) {
        let (spot, base) = self.first_there(place);
        match self.at(spot, base) {
            Run::Inserted(row) => (place..place + 1, Run::Inserted(row)),
            Run::Base(_) => {
                let end = self.entry(spot).map_or(u32::MAX as usize, |entry| entry.at as usize);
                (place..place + (end - base), Run::Base(base..end))
            }
        }
    }

    /// The row that stands at a place that [`Delta::first_there`] found.
    #[inline]
    pub(crate) fn at(&self, spot: Spot, base: usize) -> Run {
        match self.entry(spot) {
            Some(entry) if entry.at as usize == base => Run::Inserted(entry.row),
            _ => Run::Base(base..base + 1),
        }
    }

    /// A range of the merged sequence, as parts of the base and inserted rows.
    pub fn runs(&self, range: Range<usize>) -> Runs<'_> {
        let (spot, base) = self.seek(range.start);
        Runs { delta: self, spot, base, rest: range.len() }
    }

    /// The place of a row of the base in the merged sequence; if it is deleted, of the row behind it.
    pub(crate) fn place_of(&self, base: usize) -> usize {
        let is_before = |at: usize, change: Change| at < base || at == base && change == Change::Insert;
        let first = |n: usize| self.chunks[n].entries[0].change;
        let chunk = partition_point(0..self.heads.len(), |n| is_before(self.heads[n].at, first(n)));
        let Some(chunk) = chunk.checked_sub(1) else { return base };
        let entries = &self.chunks[chunk].entries;
        let entry = entries.partition_point(|entry| is_before(entry.at as usize, entry.change));
        (base as isize + self.net_at(self.spot(chunk, entry))) as usize
    }

    /// The first entry at or behind a place of the merged sequence, and how many rows of the base are in front of the place.
    pub(crate) fn seek(&self, place: usize) -> (Spot, usize) {
        let place = place as isize;
        let chunk = partition_point(0..self.heads.len(), |n| self.heads[n].at as isize + self.heads[n].net < place);
        let Some(chunk) = chunk.checked_sub(1) else { return (Spot::default(), place as usize) };
        let net = self.heads[chunk].net;
        let is_before = |entry: &Entry| entry.at as isize + entry.net as isize + net < place;
        let spot = self.spot(chunk, self.chunks[chunk].entries.partition_point(is_before));
        (spot, (place - self.net_at(spot)) as usize)
    }

    /// As [`Delta::seek`], behind the deleted rows that are in front of the row at the place: so this row is that of the entry, if
    /// the entry is an insertion there, or that of the base.
    pub(crate) fn first_there(&self, place: usize) -> (Spot, usize) {
        let (mut spot, mut base) = self.seek(place);
        while let Some(entry) = self.entry(spot)
            && entry.at as usize == base
            && entry.change == Change::Delete
        {
            base += 1;
            spot = self.spot(spot.chunk, spot.entry + 1);
        }
        (spot, base)
    }

    /// Passes the parts of a range of the merged sequence on, in order.
    #[inline]
    pub(crate) fn walk(&self, range: Range<usize>, mut part: impl FnMut(Part<'_>)) {
        let (spot, mut base) = self.seek(range.start);
        let mut rest = range.len();
        for entry in self.entries(spot) {
            let end = base + rest.min(entry.at as usize - base);
            if end > base {
                part(Part::Base(base..end));
                rest -= end - base;
                base = end;
            }
            if rest == 0 {
                return;
            }
            match entry.change {
                Change::Delete => base += 1,
                Change::Insert => {
                    part(Part::Inserted(&entry.row));
                    rest -= 1;
                }
            }
        }
        if rest > 0 {
            part(Part::Base(base..base + rest));
        }
    }

    /// The rows that begin with a prefix in the merged sequence, given those in the base, or the empty range where these would be.
    /// Searched from the spot of the last search, which may be any.
    #[inline]
    pub(crate) fn around(&self, prefix: &[Id], base: Range<usize>, hint: &mut Spot) -> Range<usize> {
        let all = Spot::default()..self.end();
        let from = self.search(&all, *hint, |row| row[..prefix.len()] < *prefix);
        *hint = from;
        let start = self.net_at(from);
        let end = match self.entry(from) {
            Some(entry) if entry.row.starts_with(prefix) => {
                self.net_at(self.search(&all, from, |row| row[..prefix.len()] <= *prefix))
            }
            _ => start,
        };
        (base.start as isize + start) as usize..(base.end as isize + end) as usize
    }

    /// As [`Delta::around`] for rows with `id` on a level, among entries that have the same ids on the levels before.
    #[inline]
    pub(crate) fn around_id(
        &self,
        (level, id): (usize, Id),
        within: &Range<Spot>,
        base: Range<usize>,
        hint: &mut Spot,
    ) -> Range<usize> {
        let from =
            if within.start == within.end { within.start } else { self.search(within, *hint, |row| row[level] < id) };
        *hint = from;
        let start = self.net_at(from);
        let end = match self.entry(from) {
            Some(entry) if from < within.end && entry.row[level] == id => {
                self.net_at(self.search(within, from, |row| row[level] <= id))
            }
            _ => start,
        };
        (base.start as isize + start) as usize..(base.end as isize + end) as usize
    }

    /// The entries whose rows begin with a prefix.
    pub(crate) fn spots(&self, prefix: &[Id]) -> Range<Spot> {
        self.first_not(|row| row[..prefix.len()] < *prefix)..self.first_not(|row| row[..prefix.len()] <= *prefix)
    }

    /// The first of some entries whose row is not before. Takes O(log distance) from `hint` if that is in the same chunk.
    #[inline]
    pub(crate) fn search(&self, within: &Range<Spot>, hint: Spot, before: impl Fn(&Row) -> bool) -> Spot {
        let hint = hint.clamp(within.start, within.end);
        let part = |chunk: usize| {
            let start = if chunk == within.start.chunk { within.start.entry } else { 0 };
            let end = if chunk == within.end.chunk { within.end.entry } else { self.chunks[chunk].entries.len() };
            start..end
        };
        if let Some(chunk) = self.chunks.get(hint.chunk) {
            let places = part(hint.chunk);
            let found = gallop(places.clone(), hint.entry, |n| before(&chunk.entries[n].row));
            let is_first = found > places.start || hint.chunk == within.start.chunk;
            if is_first && (found < places.end || hint.chunk == within.end.chunk) {
                return self.spot(hint.chunk, found);
            }
        }
        let last = if within.end.entry == 0 { within.end.chunk } else { within.end.chunk + 1 };
        if within.start.chunk >= last {
            return within.start;
        }
        let chunk = partition_point(within.start.chunk + 1..last, |n| before(&self.heads[n].row)) - 1;
        let entries = &self.chunks[chunk].entries;
        self.spot(chunk, partition_point(part(chunk), |n| before(&entries[n].row)))
    }

    /// The place behind all entries.
    pub(crate) fn end(&self) -> Spot {
        Spot { chunk: self.chunks.len(), entry: 0 }
    }

    #[inline]
    fn spot(&self, chunk: usize, entry: usize) -> Spot {
        if entry == self.chunks[chunk].entries.len() {
            Spot { chunk: chunk + 1, entry: 0 }
        } else {
            Spot { chunk, entry }
        }
    }

    fn first_not(&self, before: impl Fn(&Row) -> bool) -> Spot {
        let chunk = partition_point(0..self.heads.len(), |n| before(&self.heads[n].row));
        let Some(chunk) = chunk.checked_sub(1) else { return Spot::default() };
        self.spot(chunk, self.chunks[chunk].entries.partition_point(|entry| before(&entry.row)))
    }

    #[inline]
    fn entry(&self, spot: Spot) -> Option<&Entry> {
        self.chunks.get(spot.chunk).map(|chunk| &chunk.entries[spot.entry])
    }

    #[inline]
    fn entries(&self, from: Spot) -> impl Iterator<Item = &Entry> {
        let (here, behind) = match self.chunks.get(from.chunk..) {
            Some([first, behind @ ..]) => (&first.entries[from.entry..], behind),
            _ => (&[][..], &[][..]),
        };
        here.iter().chain(behind.iter().flat_map(|chunk| &chunk.entries))
    }

    /// The changes, ascending by row, each with its place in the base.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (Row, Change, usize)> + '_ {
        self.entries(Spot::default()).map(|entry| (entry.row, entry.change, entry.at as usize))
    }

    /// The insertions less the deletions in front of an entry.
    #[inline]
    pub(crate) fn net_at(&self, spot: Spot) -> isize {
        match self.heads.get(spot.chunk) {
            Some(head) => head.net + self.chunks[spot.chunk].entries[spot.entry].net as isize,
            None => self.net,
        }
    }
}

/// The entries with changes among them. A change takes away the entry that it undoes.
fn changed(
    entries: &[Entry],
    changes: &[(Row, Change)],
    at: &mut impl FnMut(&Row) -> usize,
) -> Result<Vec<Entry>, NoMemory> {
    let mut made = Vec::with_room(entries.len() + changes.len())?;
    let mut rest = entries;
    for (row, change) in changes {
        let count = gallop(0..rest.len(), 0, |n| rest[n].row < *row);
        made.extend_from_slice(&rest[..count]);
        rest = &rest[count..];
        match rest {
            [entry, behind @ ..] if entry.row == *row => {
                assert_ne!(entry.change, *change, "a row is inserted once, and deleted if it is there");
                rest = behind;
            }
            _ => {
                let at = u32::try_from(at(row)).expect("fewer than 2^32 rows");
                made.push(Entry { row: *row, at, net: 0, change: *change });
            }
        }
    }
    made.extend_from_slice(rest);
    Ok(made)
}

/// Appends entries as chunks of about the same size.
fn divide(entries: Vec<Entry>, chunks: &mut Vec<Arc<Chunk>>) -> Result<(), NoMemory> {
    let parts = entries.len().div_ceil(CHUNK);
    chunks.grow(parts)?;
    if parts == 1 {
        chunks.push(Arc::new(Chunk::new(entries)));
        return Ok(());
    }
    for part in 0..parts {
        let cut = |part: usize| entries.len() * part / parts;
        chunks.push(Arc::new(Chunk::new(Vec::copied(&entries[cut(part)..cut(part + 1)])?)));
    }
    Ok(())
}

/// See [`Delta::runs`].
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    delta: &'a Delta,
    /// The next entry.
    spot: Spot,
    /// The next row of the base.
    base: usize,
    /// How many rows are left.
    rest: usize,
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        while self.rest > 0 {
            let entry = self.delta.entry(self.spot);
            let end = self.base + self.rest;
            let end = entry.map_or(end, |entry| end.min(entry.at as usize));
            if end > self.base {
                let run = self.base..end;
                self.rest -= run.len();
                self.base = end;
                return Some(Run::Base(run));
            }
            let entry = entry.expect("behind the last entry, the base has all that is left");
            self.spot = self.delta.spot(self.spot.chunk, self.spot.entry + 1);
            match entry.change {
                Change::Delete => self.base += 1,
                Change::Insert => {
                    self.rest -= 1;
                    return Some(Run::Inserted(entry.row));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn row(number: u64) -> Row {
        // Several rows share their first ids.
        [0, number / 7 + 1, number / 3, number].map(Id::from_bits)
    }

    /// A generator of numbers: Steele et al., "Fast splittable pseudorandom number generators", OOPSLA 2014.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut bits = self.0;
            bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            (bits ^ bits >> 31) % end
        }
    }

    fn rows_of(delta: &Delta, base: &[Row], range: Range<usize>) -> Vec<Row> {
        let rows = |run| match run {
            Run::Base(range) => base[range].to_vec(),
            Run::Inserted(row) => vec![row],
        };
        delta.runs(range).flat_map(rows).collect()
    }

    fn walked(delta: &Delta, base: &[Row], range: Range<usize>) -> Vec<Row> {
        let mut rows = Vec::new();
        delta.walk(range, |part| match part {
            Part::Base(range) => rows.extend_from_slice(&base[range]),
            Part::Inserted(row) => rows.push(*row),
        });
        rows
    }

    /// Searches by prefix and by one id, each from where the last one ended or from anywhere.
    fn check_searches(delta: &Delta, base: &[Row], merged: &[Row], chance: &mut Chance) {
        let mut hint = Spot::default();
        for _ in 0..30 {
            let (wanted, length) = (row(chance.below(3000)), chance.below(5) as usize);
            let prefix = &wanted[..length];
            let of = |rows: &[Row]| {
                rows.partition_point(|row| row[..length] < *prefix)
                    ..rows.partition_point(|row| row[..length] <= *prefix)
            };
            assert_eq!(delta.around(prefix, of(base), &mut hint), of(merged));
            let (front, id) = (&wanted[..1 + length.min(2)], wanted[1 + length.min(2)]);
            let within = delta.spots(front);
            let prefix = &wanted[..front.len() + 1];
            let of = |rows: &[Row]| {
                let length = prefix.len();
                rows.partition_point(|row| row[..length] < *prefix)
                    ..rows.partition_point(|row| row[..length] <= *prefix)
            };
            assert_eq!(delta.around_id((front.len(), id), &within, of(base), &mut hint), of(merged));
        }
    }

    fn check(delta: &Delta, base: &[Row], model: &BTreeSet<Row>, chance: &mut Chance) {
        let merged: Vec<Row> = model.iter().copied().collect();
        check_searches(delta, base, &merged, chance);
        for (place, row) in base.iter().enumerate() {
            assert_eq!(delta.place_of(place), merged.partition_point(|other| other < row));
        }
        assert_eq!(base.len() as isize + delta.net(), merged.len() as isize);
        assert_eq!(rows_of(delta, base, 0..merged.len()), merged);
        for _ in 0..8 {
            let (a, b) = (chance.below(merged.len() as u64 + 1), chance.below(merged.len() as u64 + 1));
            let range = a.min(b) as usize..a.max(b) as usize;
            assert_eq!(rows_of(delta, base, range.clone()), merged[range.clone()]);
            assert_eq!(walked(delta, base, range.clone()), merged[range.clone()]);
            if let Some(place) = range.clone().next() {
                let found = match delta.locate(place) {
                    Run::Base(rows) => base[rows.start],
                    Run::Inserted(row) => row,
                };
                assert_eq!(found, merged[place]);
            }
            let bound = row(chance.below(3000));
            let place = base.partition_point(|row| *row < bound) as isize + delta.net_of(|row| *row < bound);
            assert_eq!(place as usize, merged.partition_point(|row| *row < bound));
            let change = delta.change(&bound);
            let there = (base.binary_search(&bound).is_ok(), model.contains(&bound));
            let expected = match there {
                (false, true) => Some(Change::Insert),
                (true, false) => Some(Change::Delete),
                _ => None,
            };
            assert_eq!(change, expected);
        }
    }

    /// Random changes, in batches of one row and of many, against a set of rows; each version stays as it was.
    #[test]
    fn base_and_delta_are_the_set_that_the_changes_make() {
        for seed in 0..60 {
            println!("seed {seed}");
            let mut chance = Chance(seed);
            let size = [0, 1, 40, 2000][seed as usize % 4];
            let base: BTreeSet<Row> = (0..size).map(|_| row(chance.below(3000))).collect();
            let mut model = base.clone();
            let base: Vec<Row> = base.into_iter().collect();
            let mut delta = Delta::default();
            let mut versions = Vec::new();
            for _ in 0..40 {
                let batch = [1, 3, 50, 1500][chance.below(4) as usize];
                let rows: BTreeSet<Row> = (0..batch).map(|_| row(chance.below(3000))).collect();
                let changes: Vec<(Row, Change)> = rows
                    .into_iter()
                    .map(|row| (row, if model.contains(&row) { Change::Delete } else { Change::Insert }))
                    .collect();
                for (row, change) in &changes {
                    match change {
                        Change::Insert => model.insert(*row),
                        Change::Delete => model.remove(row),
                    };
                }
                delta = delta.with(&changes, |row| base.partition_point(|other| other < row)).unwrap();
                check(&delta, &base, &model, &mut chance);
                versions.push((delta.clone(), model.clone()));
            }
            for (delta, model) in &versions {
                check(delta, &base, model, &mut chance);
            }
            // What undoes all changes leaves none.
            let undo: Vec<(Row, Change)> = model
                .iter()
                .filter(|row| base.binary_search(row).is_err())
                .map(|row| (*row, Change::Delete))
                .chain(base.iter().filter(|row| !model.contains(*row)).map(|row| (*row, Change::Insert)))
                .collect::<std::collections::BTreeMap<_, _>>()
                .into_iter()
                .collect();
            assert_eq!(undo.len(), delta.len());
            assert!(delta.with(&undo, |_| unreachable!("no entry is added")).unwrap().is_empty());
        }
    }

    /// A change of one row copies one chunk.
    #[test]
    fn versions_share_the_chunks_that_a_change_does_not_touch() {
        let many: Vec<(Row, Change)> = (0..100_000).map(|n| (row(2 * n), Change::Insert)).collect();
        let before = Delta::default().with(&many, |_| 0).unwrap();
        let after = before.with(&[(row(1001), Change::Insert)], |_| 0).unwrap();
        let own = after.chunks.iter().filter(|chunk| !before.chunks.iter().any(|other| Arc::ptr_eq(chunk, other)));
        assert!(own.count() <= 2, "the chunk, or its halves");
        assert_eq!((before.len(), after.len()), (100_000, 100_001));
    }
}
