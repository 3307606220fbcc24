//! Finds compatible solutions where variables may be unbound on either side: SPARQL 1.1, §18.3.
//!
//! ```text
//!  a row binds      looks by     for partners that bind
//!  ?a ?b            ?a ?b        both, ?a alone, ?b alone, none: as many searches as the table has of these
//!  ?a               ?a           ?a, or not: ?b doesn't matter
//!  nothing          –            anything: all are partners
//! ```
//!
//! So there is a table for each set of keys that rows of the input bind, made when the first such row comes. In a
//! table, unbound is a value like any other. A search finds a row's partners whatever keys they leave unbound: no row
//! is compared with all others.

use crate::boxes::had;
use crate::boxes::join::{Pairs, ProbeState};
use vicus_flow::Grow;
use vicus_flow::library::HashKey;

/// Both sides of a join, as columns.
pub(super) struct Sides<'a> {
    /// The key of the hash function.
    pub(super) by: HashKey,
    /// For each strict key, the probed column and the built column.
    pub(super) strict: Vec<(&'a [u64], &'a [u64])>,
    /// The columns of each loose key.
    pub(super) loose: Vec<(&'a [u64], &'a [u64])>,
    /// The number of probed rows, and of built rows.
    pub(super) rows: usize,
    pub(super) built: usize,
    /// At most this many loose keys are searched by; the others are tested for each candidate. Bounds the number of
    /// tables to two to the power of it.
    pub(super) searched: usize,
    /// Candidates to look at before another box has a turn: many may lie in one bucket without a partner among them.
    pub(super) candidates: usize,
}

/// Which candidates are partners.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Choice {
    /// Both sides must have a value for at least one loose key.
    pub(super) needs_overlap: bool,
    /// One partner is enough.
    pub(super) any: bool,
}

impl<'a> Sides<'a> {
    /// The loose keys that rows are searched by.
    fn searched(&self) -> &[(&'a [u64], &'a [u64])] {
        &self.loose[..self.loose.len().min(self.searched)]
    }

    fn are_partners(&self, row: usize, partner: usize, choice: Choice) -> bool {
        let overlaps = || {
            let both = |(a, b): &(&[u64], &[u64])| a[row] != 0 && b[partner] != 0;
            !choice.needs_overlap || self.loose.iter().any(both)
        };
        self.strict.iter().all(|(a, b)| a[row] == b[partner])
            && self.loose.iter().all(|(a, b)| a[row] == b[partner] || a[row] == 0 || b[partner] == 0)
            && overlaps()
    }
}

/// The tables of a join that has loose keys.
#[derive(Default)]
pub(super) struct Loose {
    /// By the set of searched keys that a row binds, one bit for each key.
    tables: Vec<Option<KeyTable>>,
}

impl Loose {
    /// Like [`Probe::partners`](crate::boxes::join::Probe::partners).
    pub(super) fn partners(
        &mut self,
        sides: &Sides<'_>,
        choice: Choice,
        at: &mut ProbeState,
        limit: usize,
        mut pairs: Pairs<'_>,
        stopped: &dyn Fn() -> bool,
    ) {
        self.tables.resize_with(1 << sides.searched().len(), || None);
        let mut candidates = sides.candidates;
        while at.row < sides.rows && pairs.left.len() < limit && candidates > 0 {
            let bound = set(sides.searched().iter().map(|(values, _)| values[at.row]));
            let slot = &mut self.tables[bound];
            if slot.is_none() {
                *slot = KeyTable::new(sides, bound, stopped);
            }
            let Some(table) = slot else { return };
            table.partners_of_row(sides, choice, at, limit, &mut candidates, &mut pairs);
        }
    }

    /// Bytes of its tables.
    pub(super) fn bytes(&self) -> u64 {
        self.tables.iter().flatten().map(|table| 4 * (table.starts.len() + table.order.len()) as u64).sum()
    }
}

/// The built rows, hashed by the strict keys and some of the loose ones.
struct KeyTable {
    /// The set of these loose keys.
    by: usize,
    /// Which subsets of them the built rows bind.
    bound: Vec<usize>,
    shift: u32,
    /// For each bucket, where it begins in `order`.
    starts: Vec<u32>,
    order: Vec<u32>,
}

impl KeyTable {
    /// `None` if the request was cancelled.
    fn new(sides: &Sides<'_>, by: usize, stopped: &dyn Fn() -> bool) -> Option<KeyTable> {
        /// Rows between two looks whether the request was cancelled.
        const ROWS: usize = 1 << 16;
        let strict = |row: usize| sides.strict.iter().map(move |(_, values)| values[row]);
        let loose = |row: usize| members(sides, by).map(move |(_, (_, values))| values[row]);
        let bits = (sides.built.max(2) as u64).next_power_of_two().trailing_zeros();
        let shift = 64 - bits;
        let mut is_there = vec![false; 1 << sides.searched().len()];
        let mut starts: Vec<u32> = had(Vec::zeroed((1 << bits) + 1));
        let mut buckets: Vec<u32> = had(Vec::with_room(sides.built));
        for row in 0..sides.built {
            if row % ROWS == 0 && stopped() {
                return None;
            }
            buckets.push((sides.by.hash(strict(row).chain(loose(row))) >> shift) as u32);
        }
        for (row, &bucket) in buckets.iter().enumerate() {
            if row % ROWS == 0 && stopped() {
                return None;
            }
            starts[bucket as usize + 1] += 1;
            let binds = |(key, (_, values)): (usize, (_, &[u64]))| usize::from(values[row] != 0) << key;
            is_there[members(sides, by).map(binds).sum::<usize>()] = true;
        }
        for bucket in 1..starts.len() {
            starts[bucket] += starts[bucket - 1];
        }
        let mut next = had(Vec::copied(&starts));
        let mut order: Vec<u32> = had(Vec::zeroed(sides.built));
        for (row, &bucket) in buckets.iter().enumerate() {
            if row % ROWS == 0 && stopped() {
                return None;
            }
            let place = &mut next[bucket as usize];
            order[*place as usize] = row as u32;
            *place += 1;
        }
        let bound = (0..is_there.len()).filter(|&bound| is_there[bound]).collect();
        Some(KeyTable { by, bound, shift, starts, order })
    }

    /// Continues with one row, until there are `limit` pairs or no candidates are left to look at.
    fn partners_of_row(
        &self,
        sides: &Sides<'_>,
        choice: Choice,
        at: &mut ProbeState,
        limit: usize,
        candidates: &mut usize,
        pairs: &mut Pairs<'_>,
    ) {
        let row = at.row;
        let mut before = 0;
        for &bound in &self.bound {
            if choice.needs_overlap && bound == 0 && sides.loose.len() <= sides.searched {
                // Such rows bind no key that the probed row binds.
                continue;
            }
            let strict = sides.strict.iter().map(|(values, _)| values[row]);
            let wanted =
                move |(key, (values, _)): (usize, (&[u64], _))| if bound >> key & 1 == 1 { values[row] } else { 0 };
            let bucket = (sides.by.hash(strict.chain(members(sides, self.by).map(wanted))) >> self.shift) as usize;
            let found = &self.order[self.starts[bucket] as usize..self.starts[bucket + 1] as usize];
            for &partner in found.iter().skip(at.done.saturating_sub(before)) {
                if pairs.left.len() == limit || *candidates == 0 {
                    return;
                }
                *candidates -= 1;
                at.done += 1;
                // Searches for two subsets of keys may meet the same bucket, so each takes only the rows that bind
                // exactly its subset.
                let binds =
                    |(key, (_, values)): (usize, (_, &[u64]))| usize::from(values[partner as usize] != 0) << key;
                if members(sides, self.by).map(binds).sum::<usize>() == bound
                    && sides.are_partners(row, partner as usize, choice)
                {
                    pairs.left.push(row as u32);
                    pairs.right.push(partner);
                    if choice.any {
                        *at = ProbeState { row: row + 1, done: 0 };
                        return;
                    }
                }
            }
            before += found.len();
        }
        *at = ProbeState { row: row + 1, done: 0 };
    }
}

/// The searched keys of a set, with their columns.
fn members<'a>(sides: &'a Sides<'_>, by: usize) -> impl Iterator<Item = (usize, (&'a [u64], &'a [u64]))> {
    sides.searched().iter().copied().enumerate().filter(move |(key, _)| by >> key & 1 == 1)
}

/// The set of keys that have a value.
fn set(values: impl Iterator<Item = u64>) -> usize {
    values.enumerate().map(|(key, value)| usize::from(value != 0) << key).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::QueryLimits;

    #[test]
    fn candidates_that_are_no_partners_are_looked_at_a_few_at_a_time() {
        // The row binds all keys and the table the last one alone, by which nothing is searched.
        let QueryLimits { searched_keys: searched, candidates, .. } = QueryLimits::default();
        let built = 3 * candidates;
        let unbound = vec![0u64; built];
        let last: Vec<u64> = (0..built as u64).map(|row| 1 + u64::from(row % candidates as u64 == 7)).collect();
        let mut loose: Vec<(&[u64], &[u64])> = vec![(&[5], &unbound); searched];
        loose.push((&[2], &last));
        let sides = Sides { by: HashKey::of_seed(7), strict: Vec::new(), loose, rows: 1, built, searched, candidates };
        let choice = Choice { needs_overlap: false, any: false };
        let (mut at, mut calls, mut left, mut right) = (ProbeState::default(), 0, Vec::new(), Vec::new());
        let mut tables = Loose::default();
        tables.partners(&sides, choice, &mut at, usize::MAX, Pairs { left: &mut left, right: &mut right }, &|| true);
        assert_eq!((at, tables.bytes()), (ProbeState::default(), 0), "a stopped search makes no table");
        while at.row == 0 {
            let before = at.done;
            tables
                .partners(&sides, choice, &mut at, usize::MAX, Pairs { left: &mut left, right: &mut right }, &|| false);
            assert!(at.row == 1 || at.done - before <= candidates, "{before} {at:?}");
            calls += 1;
        }
        assert!(calls >= 3, "{calls} calls");
        assert_eq!(right, [0, 1, 2].map(|part| part * candidates as u32 + 7));
    }
}
