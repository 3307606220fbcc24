//! A hash table within the cache: when it outgrows the cache, it is split into several tables, each for a part of the
//! hashes.
//!
//! In a table larger than the cache, each row costs a cache miss and a TLB miss. So the rows of each part wait until
//! there are many, and are then added while this part's table is in the cache: Müller, Sanders, Lacurie, Lehner,
//! Färber, "Cache-efficient aggregation: hashing is sorting", SIGMOD 2015, §3. Waiting rows take at most half as much
//! memory as the tables, or some kilobytes for each part.

use crate::limits::QueryLimits;
use vicus_flow::Grow;

/// Asks whether a table's box should give up: because its request was cancelled, or may not hold this number of further
/// bytes.
pub(crate) type Stopped<'a> = &'a dyn Fn(u64) -> bool;

/// Never gives up, for tables without such a question.
pub(crate) const NEVER: Stopped<'static> = &|_| false;

/// A hash table of rows by their keys. Rows are flat: `width` ids each, one row after the other.
pub(crate) trait Table: Send + Sized {
    /// The number of ids in a row; at least one.
    fn width(&self) -> usize;

    /// The hash of a row's keys.
    fn hash(&self, row: &[u64]) -> u64;

    /// Adds rows, and appends the numbers of the rows with new keys to `fresh`. If a row may take long or much memory,
    /// the table asks `stopped` with the bytes of this row whether to give up.
    fn add(&mut self, rows: &[u64], fresh: &mut Vec<u32>, stopped: Stopped<'_>);

    /// Bytes held.
    fn bytes(&self) -> u64;

    /// Another table of the same kind, without rows.
    fn empty(&self) -> Self;

    /// Moves all rows to other tables: each key to the table chosen by `part` for its hash.
    fn move_to(self, tables: &mut [Self], part: &dyn Fn(u64) -> usize);
}

/// A table with a test for a row.
pub(crate) trait Filter: Table {
    /// Whether it has a row with the same keys.
    fn has(&self, row: &[u64]) -> bool;

    /// Whether it has no row.
    fn is_empty(&self) -> bool;

    /// The most bytes held, for a moment at least, while this number of rows is added.
    fn bytes_with(&self, rows: usize) -> u64;
}

/// One table, or several.
pub(crate) struct Parted<T> {
    parts: Vec<Part<T>>,
    /// Split tables. Each is moved to its parts when the first of them adds rows; moving all at once would delay every
    /// reader.
    outgrown: Vec<Option<T>>,
    /// A table with more bytes than this is split.
    cache: u64,
    /// Switching to another table doesn't pay for fewer waiting ids than this.
    fewest_waiting: usize,
    fresh: Vec<u32>,
    /// Rows dealt to parts since the last look at the parts.
    unseen: usize,
    /// The part to look at next.
    next: usize,
}

struct Part<T> {
    table: T,
    /// Rows not yet in the table.
    waiting: Vec<u64>,
}

/// The first split makes this many tables. A power of two, like the two below: see [`part_of`].
const FIRST: usize = 64;
/// A further split makes this number of tables of each: few, because rows waiting in many places lie far from each
/// other.
const AGAIN: usize = 4;
/// The greatest number of tables, because each has waiting rows.
const MOST: usize = 1024;
/// How many tables are moved at once; each takes about a millisecond.
const MOVED_AT_ONCE: usize = 8;
/// For each row dealt since the last look, up to this many waiting rows are added.
const ADDED_FOR_ONE: usize = 8;
/// How many rows are dealt for each part between two looks at the parts.
const ROWS_TO_A_LOOK: usize = 4;

impl<T: Table> Parted<T> {
    pub(crate) fn new(table: T, cache: u64, limits: &QueryLimits) -> Parted<T> {
        Parted {
            parts: vec![Part { table, waiting: Vec::new() }],
            outgrown: Vec::new(),
            cache,
            fewest_waiting: limits.waiting_ids,
            fresh: Vec::new(),
            unseen: 0,
            next: 0,
        }
    }

    /// Whether there is only one table. Rows are then added at once.
    pub(crate) fn is_one(&self) -> bool {
        self.parts.len() == 1
    }

    pub(crate) fn table(&self, number: usize) -> Option<&T> {
        Some(&self.parts.get(number)?.table)
    }

    /// Like [`Parted::tables`], for changes.
    pub(crate) fn tables_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.parts.iter_mut().map(|part| &mut part.table).chain(self.outgrown.iter_mut().flatten())
    }

    /// All tables with possible rows.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &T> {
        self.parts.iter().map(|part| &part.table).chain(self.outgrown.iter().flatten())
    }

    pub(crate) fn bytes(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.table.bytes() + part.waiting.capacity() as u64 * 8);
        parts.chain(self.outgrown.iter().flatten().map(T::bytes)).sum()
    }

    /// Takes rows. `added` is called with the rows now in a table, these or earlier ones, and the numbers of the new
    /// ones among them.
    pub(crate) fn add(&mut self, rows: &[u64], stopped: Stopped<'_>, added: &mut dyn FnMut(&[u64], &[u32])) {
        if let [part] = &mut self.parts[..] {
            self.fresh.clear();
            part.table.add(rows, &mut self.fresh, stopped);
            added(rows, &self.fresh);
            self.split_if_large();
            return;
        }
        let count = self.parts.len();
        let width = self.parts[0].table.width();
        for row in rows.chunks_exact(width) {
            let part = part_of(self.parts[0].table.hash(row), count);
            let waiting = &mut self.parts[part].waiting;
            waiting.grow_or_give_up(width);
            waiting.extend_from_slice(row);
        }
        self.unseen += rows.len() / width;
        if self.unseen < count * ROWS_TO_A_LOOK {
            return;
        }
        // The parts fill up evenly, so many are due at once. Adding all of them would take long; a share of them is
        // added now.
        let mut rest = (std::mem::take(&mut self.unseen) * width * ADDED_FOR_ONE) as isize;
        for _ in 0..count {
            let number = self.next % count;
            let part = &self.parts[number];
            let enough = (part.table.bytes() as usize / 16).max(self.fewest_waiting);
            if part.waiting.len() >= enough {
                if rest <= 0 {
                    break;
                }
                rest -= part.waiting.len() as isize;
                self.settle_part(number, stopped, added);
            }
            self.next = number + 1;
        }
        self.split_if_large();
    }

    /// Adds the waiting rows of one part, or moves one outgrown table; false when there is nothing left to do.
    pub(crate) fn settle(&mut self, stopped: Stopped<'_>, added: &mut dyn FnMut(&[u64], &[u32])) -> bool {
        let waits = |part: &Part<T>| !part.waiting.is_empty();
        if let Some(number) = self.parts.iter().position(waits) {
            self.settle_part(number, stopped, added);
            self.parts[number].waiting = Vec::new();
            return true;
        }
        let outgrown = self.outgrown.iter().position(Option::is_some);
        outgrown.inspect(|&number| self.move_outgrown(number)).is_some()
    }

    fn settle_part(&mut self, number: usize, stopped: Stopped<'_>, added: &mut dyn FnMut(&[u64], &[u32])) {
        if !self.outgrown.is_empty() {
            self.move_outgrown(number % self.outgrown.len());
        }
        self.parts[number].settle(&mut self.fresh, stopped, added);
    }

    /// Moves an outgrown table to its parts.
    fn move_outgrown(&mut self, number: usize) {
        let (before, now) = (self.outgrown.len(), self.parts.len());
        let Some(table) = self.outgrown[number].take() else { return };
        // Part `p` of the `before` tables became the parts `p`, `p + before`, `p + 2 * before`, …
        let mut tables: Vec<T> = (number..now).step_by(before).map(|_| table.empty()).collect();
        let bits = before.trailing_zeros();
        table.move_to(&mut tables, &|hash| part_of(hash, now) >> bits);
        for (part, table) in (number..now).step_by(before).zip(tables) {
            self.parts[part].table = table;
        }
    }

    fn split_if_large(&mut self) {
        let count = self.parts.len();
        let is_large = |part: &Part<T>| part.table.bytes() > self.cache;
        if count >= MOST || !self.parts.iter().any(is_large) {
            return;
        }
        // Tables of the last split without any row so far are moved first, some at a time.
        let left: Vec<usize> = (0..self.outgrown.len()).filter(|&number| self.outgrown[number].is_some()).collect();
        if !left.is_empty() {
            return left.into_iter().take(MOVED_AT_ONCE).for_each(|number| self.move_outgrown(number));
        }
        let more = (if count == 1 { FIRST } else { count * AGAIN }).min(MOST);
        let empty = || Part { table: self.parts[0].table.empty(), waiting: Vec::new() };
        let mut parts: Vec<Part<T>> = (0..more).map(|_| empty()).collect();
        self.outgrown.clear();
        for part in std::mem::take(&mut self.parts) {
            for row in part.waiting.chunks_exact(part.table.width()) {
                let waiting = &mut parts[part_of(part.table.hash(row), more)].waiting;
                waiting.grow_or_give_up(row.len());
                waiting.extend_from_slice(row);
            }
            self.outgrown.push(Some(part.table));
        }
        self.parts = parts;
    }
}

impl<T: Filter> Parted<T> {
    /// The most bytes held, for a moment at least, while this number of rows is added.
    pub(crate) fn bytes_with(&self, rows: usize) -> u64 {
        match &self.parts[..] {
            [part] => {
                let bytes = part.table.bytes_with(rows);
                // It may be split.
                if bytes > self.cache { 2 * bytes + FIRST as u64 * part.table.empty().bytes() } else { bytes }
            }
            // The tables are about equally full, so many of them may grow at once.
            parts => 2 * self.bytes() + (16 * rows * parts[0].table.width()) as u64,
        }
    }

    /// Ends adding and passes on the waiting rows. [`Parted::has`] may be asked from then on.
    pub(crate) fn freeze<E>(&mut self, mut waiting: impl FnMut(&Parted<T>, &[u64]) -> Result<(), E>) -> Result<(), E> {
        for number in 0..self.outgrown.len() {
            self.move_outgrown(number);
        }
        for number in 0..self.parts.len() {
            let rows = std::mem::take(&mut self.parts[number].waiting);
            waiting(self, &rows)?;
        }
        Ok(())
    }

    /// Whether a table has a row with the same keys. None may be outgrown.
    pub(crate) fn has(&self, row: &[u64]) -> bool {
        let first = &self.parts[0].table;
        match self.parts.len() {
            1 => first.has(row),
            count => self.parts[part_of(first.hash(row), count)].table.has(row),
        }
    }
}

impl<T: Table> Part<T> {
    fn settle(&mut self, fresh: &mut Vec<u32>, stopped: Stopped<'_>, added: &mut dyn FnMut(&[u64], &[u32])) {
        fresh.clear();
        self.table.add(&self.waiting, fresh, stopped);
        added(&self.waiting, fresh);
        self.waiting.clear();
    }
}

/// The number of a row's part, from bits in the middle of its hash: the highest bits choose the box, the lowest the
/// place in a table. `count` is a power of two.
fn part_of(hash: u64, count: usize) -> usize {
    debug_assert!(count.is_power_of_two());
    (hash >> 36) as usize & (count - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::distinct::{Set, Wide};
    use rustc_hash::FxHashSet;
    use vicus_flow::library::HashKey;

    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *state >> 33
    }

    /// Adds random rows in random portions, and checks the rows reported as new.
    fn check<T: Filter>(table: T, cache: u64, keys: u64, seed: u64) -> usize {
        let width = table.width();
        let limits = QueryLimits { waiting_ids: [1, 64, 2048][seed as usize % 3], ..QueryLimits::default() };
        let mut parted = Parted::new(table, cache, &limits);
        let mut state = seed;
        let (mut offered, mut found) = (FxHashSet::default(), FxHashSet::default());
        let mut note = |rows: &[u64], fresh: &[u32]| {
            for &row in fresh {
                let row = &rows[row as usize * width..][..width];
                assert!(found.insert(row.to_vec()), "seed {seed}: {row:?} is new twice");
            }
        };
        for _ in 0..200 {
            let count = next(&mut state) % 400;
            let rows: Vec<u64> = (0..count * width as u64).map(|_| next(&mut state) % keys).collect();
            offered.extend(rows.chunks(width).map(<[u64]>::to_vec));
            parted.add(&rows, NEVER, &mut note);
        }
        if seed.is_multiple_of(2) {
            while parted.settle(NEVER, &mut note) {}
            assert_eq!(found, offered, "seed {seed}");
        }
        let mut waiting = FxHashSet::default();
        let done: Result<(), ()> = parted.freeze(|_, rows| {
            waiting.extend(rows.chunks(width).map(<[u64]>::to_vec));
            Ok(())
        });
        done.unwrap();
        for _ in 0..1000 {
            let row: Vec<u64> = (0..width).map(|_| next(&mut state) % keys).collect();
            assert_eq!(parted.has(&row), found.contains(&row), "seed {seed}: {row:?} after it was frozen");
        }
        found.extend(waiting);
        assert_eq!(found, offered, "seed {seed}");
        parted.parts.len()
    }

    #[test]
    fn each_row_is_new_once_however_small_the_cache_is() {
        for seed in 0..4 {
            let by = HashKey::of_seed(seed);
            for cache in [0, 4 << 10, 64 << 10, u64::MAX] {
                let parts = [
                    check(Set::<1>::new(by), cache, 30_000, seed),
                    check(Set::<2>::new(by), cache, 200, seed),
                    check(Set::<4>::new(by), cache, 12, seed),
                    check(Wide::new(6, by), cache, 6, seed),
                ];
                match cache {
                    0 => assert_eq!(parts, [MOST; 4]),
                    u64::MAX => assert_eq!(parts, [1; 4]),
                    _ => assert!(parts.iter().all(|parts| (2..=MOST).contains(parts)), "{parts:?}"),
                }
            }
        }
    }
}
