//! A hash table that stays as small as the cache: when it grows beyond, it becomes several, each for a part of the hashes.
//!
//! A table that does not fit costs a miss of the cache, and of the processor's table of pages, for each row. So rows for
//! a part wait until there are many, and are then added while that part's table is near: Müller, Sanders, Lacurie,
//! Lehner, Färber, "Cache-efficient aggregation: hashing is sorting", SIGMOD 2015, §3. What waits is never more than
//! half of what the tables hold, or some kilobytes for each.

use crate::limits::Limits;
use vicus_flow::Grow;

/// Whether the box that owns a table gives up, since so many bytes more are beyond what its request may hold, or it has ended.
pub(crate) type Stopped<'a> = &'a dyn Fn(u64) -> bool;

/// What never gives up: for tables that don't ask.
pub(crate) const NEVER: Stopped<'static> = &|_| false;

/// Rows with the same keys meet in it. Rows are flat: `width` ids for each, one after the other.
pub(crate) trait Table: Send + Sized {
    /// How many ids a row has; at least one.
    fn width(&self) -> usize;

    /// The hash of a row's keys.
    fn hash(&self, row: &[u64]) -> u64;

    /// Adds rows, and appends the places of those among them whose keys are new. Where a row may take long or much memory, the
    /// table asks `stopped`, with the bytes that this takes, whether to give up.
    fn add(&mut self, rows: &[u64], fresh: &mut Vec<u32>, stopped: Stopped<'_>);

    /// What it occupies.
    fn bytes(&self) -> u64;

    /// Another one of its sort, without rows.
    fn empty(&self) -> Self;

    /// Moves what it holds to other tables, each key to the one that `part` names for its hash.
    fn move_to(self, tables: &mut [Self], part: &dyn Fn(u64) -> usize);
}

/// One table, or several.
pub(crate) struct Parted<T> {
    parts: Vec<Part<T>>,
    /// Tables that became too large: each is still to be moved to the parts that it became, when the first of them takes
    /// rows. All at once would keep everybody waiting.
    outgrown: Vec<Option<T>>,
    /// As many bytes as a table should have at most.
    cache: u64,
    /// Fewer rows' ids are not worth the change from one table to another.
    fewest_waiting: usize,
    fresh: Vec<u32>,
    /// Rows that were dealt since the parts were looked at.
    unseen: usize,
    /// The part to be looked at next.
    next: usize,
}

struct Part<T> {
    table: T,
    /// Rows that are still to be added.
    waiting: Vec<u64>,
}

/// A table that is too large becomes so many. As those below, a power of two: [`part_of`].
const FIRST: usize = 64;
/// And each of those so many, when it is too large again: few, for rows that wait in many places lie far from each other.
const AGAIN: usize = 4;
/// And no more than this: each has rows that wait.
const MOST: usize = 1024;
/// So many tables are moved at once: each takes about a millisecond.
const MOVED_AT_ONCE: usize = 8;
/// For each row that was dealt since the last look, so many that waited may be added.
const ADDED_FOR_ONE: usize = 8;
/// Parts are looked at after so many rows for each.
const ROWS_TO_A_LOOK: usize = 4;

impl<T: Table> Parted<T> {
    pub(crate) fn new(table: T, cache: u64, limits: &Limits) -> Parted<T> {
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

    /// Whether rows are added as they come.
    pub(crate) fn is_one(&self) -> bool {
        self.parts.len() == 1
    }

    pub(crate) fn table(&self, number: usize) -> Option<&T> {
        Some(&self.parts.get(number)?.table)
    }

    /// All tables with rows.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &T> {
        self.parts.iter().map(|part| &part.table).chain(self.outgrown.iter().flatten())
    }

    pub(crate) fn bytes(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.table.bytes() + part.waiting.capacity() as u64 * 8);
        parts.chain(self.outgrown.iter().flatten().map(T::bytes)).sum()
    }

    /// Takes rows. What has been added, they or earlier ones, goes to `added`: rows, and the places of the new ones.
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
        // Parts are filled alike, so many have enough at once. To add all of that would take long; some are added now.
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

    /// Adds what waits for one of the parts; false when nothing waits any more.
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

    /// Moves a table that became too large to the parts that it became.
    fn move_outgrown(&mut self, number: usize) {
        let (before, now) = (self.outgrown.len(), self.parts.len());
        let Some(table) = self.outgrown[number].take() else { return };
        // Every `before`-th part is a part of what it was.
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
        // What no row has come for yet is moved before, a little each time.
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

impl<T: Table> Part<T> {
    fn settle(&mut self, fresh: &mut Vec<u32>, stopped: Stopped<'_>, added: &mut dyn FnMut(&[u64], &[u32])) {
        fresh.clear();
        self.table.add(&self.waiting, fresh, stopped);
        added(&self.waiting, fresh);
        self.waiting.clear();
    }
}

/// Rows are dealt to boxes by the highest bits of their hash, and find their place in a table by the lowest: between them
/// are those that name the part, of as many as a power of two.
fn part_of(hash: u64, count: usize) -> usize {
    debug_assert!(count.is_power_of_two());
    (hash >> 36) as usize & (count - 1)
}

#[cfg(test)]
mod tests {
    use super::super::distinct::{Set, Wide};
    use super::*;
    use rustc_hash::FxHashSet;
    use vicus_flow::library::HashKey;

    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *state >> 33
    }

    /// Adds random rows in random portions, and looks what is said to be new.
    fn check<T: Table>(table: T, cache: u64, keys: u64, seed: u64) -> usize {
        let width = table.width();
        let limits = Limits { waiting_ids: [1, 64, 2048][seed as usize % 3], ..Limits::default() };
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
        while parted.settle(NEVER, &mut note) {}
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
