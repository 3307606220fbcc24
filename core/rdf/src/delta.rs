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
use crate::packed::partition_point;
use std::ops::Range;
use std::sync::Arc;

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
    at: usize,
    change: Change,
    /// The insertions less the deletions in front of it, in its chunk.
    net: i32,
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
            entry.net = net as i32;
            net += entry.change.net();
        }
        Chunk { entries }
    }

    /// The insertions less the deletions.
    fn net(&self) -> isize {
        self.entries.last().map_or(0, |last| last.net as isize + last.change.net())
    }
}

/// The changes of one index since it was built. A copy shares its chunks.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    chunks: Vec<Arc<Chunk>>,
    /// For each chunk the insertions less the deletions in front of it.
    nets: Vec<isize>,
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

/// The place of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct At {
    chunk: usize,
    entry: usize,
}

impl Delta {
    fn of_chunks(chunks: Vec<Arc<Chunk>>) -> Delta {
        let (mut nets, mut net, mut len) = (Vec::with_capacity(chunks.len()), 0, 0);
        for chunk in &chunks {
            nets.push(net);
            net += chunk.net();
            len += chunk.entries.len();
        }
        Delta { chunks, nets, len, net }
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
        self.chunks.iter().map(|chunk| chunk.entries.capacity() * size_of::<Entry>()).sum()
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
    /// that is deleted is. `at` says where a row stands in the base, or else before which of its rows it would.
    pub fn with(&self, changes: &[(Row, Change)], at: impl Fn(&Row) -> usize) -> Delta {
        debug_assert!(changes.is_sorted_by(|a, b| a.0 < b.0), "changes ascend");
        let mut chunks = Vec::with_capacity(self.chunks.len() + changes.len() / CHUNK + 1);
        let mut rest = changes;
        for (place, chunk) in self.chunks.iter().enumerate() {
            let next = self.chunks.get(place + 1).map(|next| next.entries[0].row);
            let count = next.map_or(rest.len(), |next| rest.partition_point(|(row, _)| *row < next));
            let (here, others) = rest.split_at(count);
            rest = others;
            match here {
                [] => chunks.push(Arc::clone(chunk)),
                _ => divide(changed(&chunk.entries, here, &at), &mut chunks),
            }
        }
        // There was no chunk.
        divide(changed(&[], rest, &at), &mut chunks);
        Delta::of_chunks(chunks)
    }

    /// The row at this place of the merged sequence.
    pub fn locate(&self, place: usize) -> Run {
        let (from, mut base) = self.seek(place);
        for entry in self.entries(from) {
            match entry.change {
                _ if base < entry.at => break,
                Change::Insert => return Run::Inserted(entry.row),
                Change::Delete => base += 1,
            }
        }
        Run::Base(base..base + 1)
    }

    /// A range of the merged sequence, as parts of the base and inserted rows.
    pub fn runs(&self, range: Range<usize>) -> Runs<'_> {
        let (at, base) = self.seek(range.start);
        Runs { delta: self, at, base, rest: range.len() }
    }

    /// The first entry at or behind a place of the merged sequence, and the base's row that stands there if no entry does.
    fn seek(&self, place: usize) -> (At, usize) {
        let place = place as isize;
        let is_before = |entry: &Entry, net: isize| (entry.at as isize + entry.net as isize + net) < place;
        let chunk = partition_point(0..self.chunks.len(), |n| is_before(&self.chunks[n].entries[0], self.nets[n]));
        let Some(chunk) = chunk.checked_sub(1) else { return (At { chunk: 0, entry: 0 }, place as usize) };
        let entries = &self.chunks[chunk].entries;
        let at = At { chunk, entry: entries.partition_point(|entry| is_before(entry, self.nets[chunk])) };
        (at, (place - self.net_at(at)) as usize)
    }

    fn first_not(&self, before: impl Fn(&Row) -> bool) -> At {
        let chunk = self.chunks.partition_point(|chunk| before(&chunk.entries[0].row));
        let Some(chunk) = chunk.checked_sub(1) else { return At { chunk: 0, entry: 0 } };
        At { chunk, entry: self.chunks[chunk].entries.partition_point(|entry| before(&entry.row)) }
    }

    /// The entry there, or the first one of the next chunk.
    fn entry(&self, at: At) -> Option<&Entry> {
        self.entries(at).next()
    }

    fn entries(&self, at: At) -> impl Iterator<Item = &Entry> {
        let (here, behind) = match self.chunks.get(at.chunk..) {
            Some([first, behind @ ..]) => (&first.entries[at.entry..], behind),
            _ => (&[][..], &[][..]),
        };
        here.iter().chain(behind.iter().flat_map(|chunk| &chunk.entries))
    }

    fn net_at(&self, at: At) -> isize {
        let Some(chunk) = self.chunks.get(at.chunk) else { return self.net };
        self.nets[at.chunk] + chunk.entries.get(at.entry).map_or_else(|| chunk.net(), |entry| entry.net as isize)
    }
}

/// The entries with changes among them. A change takes away the entry that it undoes.
fn changed(entries: &[Entry], changes: &[(Row, Change)], at: &impl Fn(&Row) -> usize) -> Vec<Entry> {
    let mut made = Vec::with_capacity(entries.len() + changes.len());
    let mut rest = entries;
    for (row, change) in changes {
        let count = rest.partition_point(|entry| entry.row < *row);
        made.extend_from_slice(&rest[..count]);
        rest = &rest[count..];
        match rest {
            [entry, behind @ ..] if entry.row == *row => {
                assert_ne!(entry.change, *change, "a row is inserted once, and deleted if it is there");
                rest = behind;
            }
            _ => made.push(Entry { row: *row, at: at(row), change: *change, net: 0 }),
        }
    }
    made.extend_from_slice(rest);
    made
}

/// Appends entries as chunks of about the same size.
fn divide(entries: Vec<Entry>, chunks: &mut Vec<Arc<Chunk>>) {
    if (1..=CHUNK).contains(&entries.len()) {
        return chunks.push(Arc::new(Chunk::new(entries)));
    }
    let parts = entries.len().div_ceil(CHUNK);
    for part in 0..parts {
        let cut = |part: usize| entries.len() * part / parts;
        chunks.push(Arc::new(Chunk::new(entries[cut(part)..cut(part + 1)].to_vec())));
    }
}

/// See [`Delta::runs`].
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    delta: &'a Delta,
    /// The next entry.
    at: At,
    /// The next row of the base.
    base: usize,
    /// How many rows are left.
    rest: usize,
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        while self.rest > 0 {
            let entry = match self.delta.chunks.get(self.at.chunk) {
                Some(chunk) if self.at.entry == chunk.entries.len() => {
                    self.at = At { chunk: self.at.chunk + 1, entry: 0 };
                    continue;
                }
                chunk => chunk.map(|chunk| &chunk.entries[self.at.entry]),
            };
            let end = self.base + self.rest;
            let end = entry.map_or(end, |entry| end.min(entry.at));
            if end > self.base {
                let run = self.base..end;
                self.rest -= run.len();
                self.base = end;
                return Some(Run::Base(run));
            }
            let entry = entry.expect("behind the last entry, the base has all that is left");
            self.at.entry += 1;
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

    fn check(delta: &Delta, base: &[Row], model: &BTreeSet<Row>, chance: &mut Chance) {
        let merged: Vec<Row> = model.iter().copied().collect();
        assert_eq!(base.len() as isize + delta.net(), merged.len() as isize);
        assert_eq!(rows_of(delta, base, 0..merged.len()), merged);
        for _ in 0..8 {
            let (a, b) = (chance.below(merged.len() as u64 + 1), chance.below(merged.len() as u64 + 1));
            let range = a.min(b) as usize..a.max(b) as usize;
            assert_eq!(rows_of(delta, base, range.clone()), merged[range.clone()]);
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
                delta = delta.with(&changes, |row| base.partition_point(|other| other < row));
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
            assert!(delta.with(&undo, |_| unreachable!("no entry is added")).is_empty());
        }
    }

    /// A change of one row copies one chunk.
    #[test]
    fn versions_share_the_chunks_that_a_change_does_not_touch() {
        let many: Vec<(Row, Change)> = (0..100_000).map(|n| (row(2 * n), Change::Insert)).collect();
        let before = Delta::default().with(&many, |_| 0);
        let after = before.with(&[(row(1001), Change::Insert)], |_| 0);
        let own = after.chunks.iter().filter(|chunk| !before.chunks.iter().any(|other| Arc::ptr_eq(chunk, other)));
        assert!(own.count() <= 2, "the chunk, or its halves");
        assert_eq!((before.len(), after.len()), (100_000, 100_001));
    }
}
