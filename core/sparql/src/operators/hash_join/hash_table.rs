//! Finds the partners of a row in a hash table: one side of a hash join.
//!
//! The table is an array of buckets over rows stored bucket by bucket, so the partners of a row lie side by side: Kim
//! et al., "Sort vs. hash revisited", VLDB 2009, §4. It is built once, when all rows have come, from two passes over
//! them.

use super::compatible::{Choice, Loose, Sides};
use crate::boxes::join::{Pairs, Probe, ProbeState};
use crate::boxes::{had, slices};
use crate::terms::Terms;
use crate::value::value_key;
use std::sync::Arc;
use vicus_flow::library::HashKey;
use vicus_flow::{Column, Envelope, EnvelopeBuilder, Grow, Turn, Unfilled};
use vicus_rdf::Id;

/// A pair of columns to compare.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Key {
    pub(crate) probe: usize,
    pub(crate) build: usize,
    pub(crate) by: By,
}

/// How two ids agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// The ids are the same.
    Id,
    /// The values may be equal; a condition of the join checks them.
    Value,
    /// They are the same, or one of them is unbound: compatible solutions.
    Loose,
}

/// The kept rows among built rows with the same keys.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Keep {
    All,
    /// One, to answer whether there is any.
    Any,
    /// The one with the least id in this column.
    Least(usize),
    /// The one with the greatest id in this column.
    Greatest(usize),
}

/// How a hash table is built and probed.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct HashSpec {
    pub(crate) keys: Vec<Key>,
    pub(crate) keep: Keep,
    /// Built columns read by the join.
    pub(crate) output: Vec<usize>,
    /// MINUS: a pair counts only if both sides have a value for at least one key that may be unbound.
    pub(crate) needs_overlap: bool,
}

impl HashSpec {
    fn strict(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(|key| key.by != By::Loose)
    }

    fn loose(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(|key| key.by == By::Loose)
    }

    /// The built columns needed by the table, ascending, of `width` columns.
    fn wanted(&self, width: usize) -> Vec<usize> {
        let loose = self.loose().map(|key| key.build);
        let mut wanted: Vec<usize> =
            self.output.iter().copied().chain(loose).filter(|&column| column < width).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// The compared columns of the probing side.
    pub(super) fn probed(&self) -> impl Iterator<Item = usize> {
        self.keys.iter().map(|key| key.probe)
    }

    /// The built columns used to compare, to choose by, or to put out.
    pub(super) fn built(&self) -> impl Iterator<Item = usize> {
        let by = match self.keep {
            Keep::Least(column) | Keep::Greatest(column) => Some(column),
            Keep::All | Keep::Any => None,
        };
        self.keys.iter().map(|key| key.build).chain(by).chain(self.output.iter().copied())
    }

    /// Whether partners agree in some key, so both sides can be dealt by its hash.
    pub(super) fn has_strict(&self) -> bool {
        self.strict().next().is_some()
    }

    /// Whether rows are looked up by loose keys: see [`Loose`].
    pub(super) fn has_loose(&self) -> bool {
        self.loose().next().is_some()
    }

    /// Whether one row is kept among rows with the same keys. With loose keys, the partners depend on the unbound keys
    /// of each row, so no row can be dropped.
    pub(super) fn reduces(&self) -> bool {
        match self.keep {
            Keep::All => false,
            Keep::Any => !self.has_loose(),
            Keep::Least(_) | Keep::Greatest(_) => true,
        }
    }

    /// The strict keys of a side, in the form of tables: ids, or keys of values.
    pub(super) fn strict_keys(&self, terms: &Terms, rows: &Envelope, side: impl Fn(&Key) -> usize) -> Vec<Column> {
        self.strict()
            .map(|key| match (key.by, rows.column(side(key))) {
                (By::Value, column) => {
                    let values = column.u64s().iter().map(|id| value_key(terms, Id::from_bits(*id)));
                    values.collect::<Vec<u64>>().into()
                }
                (_, column) => column.clone(),
            })
            .collect()
    }

    /// The number of columns of a table built of `width` columns: one for each strict key, and the wanted ones.
    pub(crate) fn built_columns(&self, width: usize) -> usize {
        self.strict().count() + self.wanted(width).len()
    }
}

/// The strict keys of all rows, the numbers of the kept rows, bucket by bucket, and the start of each bucket among
/// these.
type Grouped = (Vec<Vec<u64>>, Vec<u32>, Vec<u32>);

/// Collects the rows of a table and builds it.
pub(crate) struct Builder {
    terms: Arc<Terms>,
    spec: Arc<HashSpec>,
    width: usize,
    envelopes: Vec<Envelope>,
    bytes: u64,
}

impl Builder {
    pub(crate) fn new(terms: &Arc<Terms>, spec: &Arc<HashSpec>, width: usize) -> Builder {
        Builder { terms: Arc::clone(terms), spec: Arc::clone(spec), width, envelopes: Vec::new(), bytes: 0 }
    }

    pub(crate) fn add(&mut self, envelope: Envelope) {
        let envelope = envelope.compact();
        self.bytes += envelope.held_bytes();
        self.envelopes.grow_or_give_up(1);
        self.envelopes.push(envelope);
    }

    /// Bytes of the rows added so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether no row was added.
    pub(super) fn is_empty(&self) -> bool {
        self.envelopes.is_empty()
    }

    /// Takes out the rows added so far.
    pub(super) fn take(&mut self) -> Vec<Envelope> {
        self.bytes = 0;
        std::mem::take(&mut self.envelopes)
    }

    /// Drops the rows dropped by the table, if any. `None` if the request was cancelled.
    pub(super) fn reduce(&mut self, turn: &Turn<'_>) -> Option<()> {
        let envelopes = self.take();
        let (_, order, _) = self.grouped(&envelopes, turn)?;
        let columns = (0..self.width).map(|number| {
            let values = column_of(&envelopes, number);
            Column::from(order.iter().map(|&row| values[row as usize]).collect::<Vec<u64>>())
        });
        let reduced = Envelope::of_rows(columns.collect(), order.len());
        self.bytes = reduced.held_bytes();
        self.envelopes.push(reduced);
        Some(())
    }

    /// The table as two envelopes, for the probing boxes: its buckets, and its rows bucket by bucket. `None` if the
    /// request was cancelled.
    pub(crate) fn build(&mut self, turn: &Turn<'_>) -> Option<(Envelope, Envelope)> {
        let envelopes = self.take();
        let (keys, order, starts) = self.grouped(&envelopes, turn)?;
        let column = |number: usize| column_of(&envelopes, number);
        let wanted = self.spec.wanted(self.width);
        let mut table = EnvelopeBuilder::of_u64s(keys.len() + wanted.len());
        table.reserve(turn, order.len());
        for (place, values) in keys.into_iter().chain(wanted.into_iter().map(column)).enumerate() {
            if turn.is_stopped() {
                return None;
            }
            crate::boxes::gather(&values, &order, &mut table.u64s(place));
        }
        let range = |pair: &[u32]| u64::from(pair[0]) | u64::from(pair[1]) << 32;
        let buckets = crate::boxes::envelope_of(turn, 1, starts.len() - 1, |builder| {
            builder.u64s(0).extend(starts.windows(2).map(range));
        });
        Some((buckets, Envelope::of_rows(table.finish_columns(turn), order.len())))
    }

    /// The rows, bucket by bucket. `None` if the request was cancelled.
    fn grouped(&self, envelopes: &[Envelope], turn: &Turn<'_>) -> Option<Grouped> {
        let stopped = || turn.is_stopped();
        let rows: usize = envelopes.iter().map(Envelope::rows).sum();
        assert!(u32::try_from(rows).is_ok(), "fewer than 2^32 rows are built into one table");
        let column = |number: usize| column_of(envelopes, number);
        let mut keys: Vec<Vec<u64>> = Vec::new();
        for key in self.spec.strict() {
            let mut values = column(key.build);
            if key.by == By::Value {
                for part in values.chunks_mut(1 << 16) {
                    if stopped() {
                        return None;
                    }
                    part.iter_mut().for_each(|id| *id = value_key(&self.terms, Id::from_bits(*id)));
                }
            }
            keys.push(values);
        }
        let bits = (rows.max(2) as u64).next_power_of_two().trailing_zeros();
        let bits = if keys.is_empty() { 0 } else { bits };
        let buckets: Vec<u32> = {
            let slices: Vec<&[u64]> = keys.iter().map(Vec::as_slice).collect();
            let mut buckets = had(Vec::with_room(rows));
            hashes(self.terms.key, &slices, rows, 64 - bits, &mut buckets);
            buckets
        };
        let mut starts: Vec<u32> = had(Vec::zeroed((1 << bits) + 1));
        for &bucket in &buckets {
            starts[bucket as usize + 1] += 1;
        }
        for bucket in 1..starts.len() {
            starts[bucket] += starts[bucket - 1];
        }
        if stopped() {
            return None;
        }
        let mut next = had(Vec::copied(&starts));
        let mut order: Vec<u32> = had(Vec::zeroed(rows));
        for (row, &bucket) in buckets.iter().enumerate() {
            let place = &mut next[bucket as usize];
            order[*place as usize] = row as u32;
            *place += 1;
        }
        drop((buckets, next));
        if stopped() {
            return None;
        }
        let reduced = match self.spec.keep {
            Keep::Any if self.spec.reduces() => Some(reduce(&keys, &order, &starts, |_, _| false)),
            Keep::All | Keep::Any => None,
            Keep::Least(by) => {
                let by = column(by);
                Some(reduce(&keys, &order, &starts, |new, old| by[new] < by[old]))
            }
            Keep::Greatest(by) => {
                let by = column(by);
                Some(reduce(&keys, &order, &starts, |new, old| by[new] > by[old]))
            }
        };
        if let Some(reduced) = reduced {
            (order, starts) = reduced;
        }
        Some((keys, order, starts))
    }
}

/// A column of all rows.
fn column_of(envelopes: &[Envelope], number: usize) -> Vec<u64> {
    let mut values = had(Vec::with_room(envelopes.iter().map(Envelope::rows).sum()));
    envelopes.iter().for_each(|envelope| values.extend_from_slice(envelope.column(number).u64s()));
    values
}

/// A built table, shared by all probing boxes, and the state of one of them.
pub(crate) struct HashTable {
    terms: Arc<Terms>,
    spec: Arc<HashSpec>,
    /// The rows of each bucket: the first in the low half, the end in the high half.
    buckets: Column,
    /// 64 minus the logarithm of the number of buckets.
    shift: u32,
    rows: usize,
    /// The column of each strict key, in the order of the built rows.
    keys: Vec<Column>,
    /// The wanted columns, in the order of the built rows; the others are empty.
    columns: Vec<Column>,
    /// For the probed envelope: its key columns, and for each row its bucket's rows.
    probed: Vec<Column>,
    ranges: Vec<u64>,
    hashes: Vec<u32>,
    /// The tables for loose keys.
    loose: Loose,
}

impl HashTable {
    /// From the envelopes of [`Builder::build`], made from rows of `width` columns.
    pub(crate) fn new(
        terms: &Arc<Terms>,
        spec: &Arc<HashSpec>,
        width: usize,
        buckets: &Envelope,
        rows: Envelope,
    ) -> HashTable {
        let buckets = buckets.column(0).clone();
        let count = rows.rows();
        let mut built = rows.into_columns().into_iter();
        let keys = built.by_ref().take(spec.strict().count()).collect();
        let empty = Column::from(Vec::<u64>::new());
        let mut columns = vec![empty; width];
        spec.wanted(width).into_iter().for_each(|number| columns[number] = built.next().expect("it was built"));
        HashTable {
            terms: Arc::clone(terms),
            spec: Arc::clone(spec),
            shift: 64 - (buckets.len() as u64).trailing_zeros(),
            buckets,
            rows: count,
            keys,
            columns,
            probed: Vec::new(),
            ranges: Vec::new(),
            hashes: Vec::new(),
            loose: Loose::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }
}

/// The bucket of each row.
fn hashes(by: HashKey, keys: &[&[u64]], rows: usize, shift: u32, into: &mut Vec<u32>) {
    into.clear();
    into.grow_or_give_up(rows);
    match keys {
        [] => into.resize(rows, 0),
        [key] => into.extend(key.iter().map(|&id| (by.mix(id) >> shift) as u32)),
        [a, b] => into.extend(a.iter().zip(*b).map(|(&a, &b)| (by.mix(by.mix(a) ^ b) >> shift) as u32)),
        _ => into.extend((0..rows).map(|row| (by.hash(keys.iter().map(|key| key[row])) >> shift) as u32)),
    }
}

/// Keeps one row for each combination of keys: the best by `keep`.
fn reduce(
    keys: &[Vec<u64>],
    order: &[u32],
    starts: &[u32],
    better: impl Fn(usize, usize) -> bool,
) -> (Vec<u32>, Vec<u32>) {
    let mut kept: Vec<u32> = had(Vec::with_room(order.len()));
    let mut kept_starts = had(Vec::with_room(starts.len()));
    kept_starts.push(0);
    for bucket in starts.windows(2) {
        let first = kept.len();
        for &row in &order[bucket[0] as usize..bucket[1] as usize] {
            let same = |other: u32| keys.iter().all(|key| key[other as usize] == key[row as usize]);
            match kept[first..].iter_mut().find(|other| same(**other)) {
                Some(other) if better(row as usize, *other as usize) => *other = row,
                Some(_) => {}
                None => kept.push(row),
            }
        }
        kept_starts.push(kept.len() as u32);
    }
    (kept, kept_starts)
}

impl Probe for HashTable {
    fn partners(
        &mut self,
        input: &Envelope,
        at: &mut ProbeState,
        limit: usize,
        pairs: Pairs<'_>,
        stopped: &dyn Fn() -> bool,
    ) {
        if self.spec.needs_overlap && self.spec.loose().next().is_none() {
            *at = ProbeState { row: input.rows(), done: 0 };
            return;
        }
        if *at == ProbeState::default() {
            self.probed = self.spec.strict_keys(&self.terms, input, |key| key.probe);
        }
        if self.spec.loose().next().is_some() {
            return self.compatible(input, at, limit, pairs, stopped);
        }
        let Pairs { left, right } = pairs;
        if *at == ProbeState::default() {
            let keys: Vec<&[u64]> = self.probed.iter().map(Column::u64s).collect();
            hashes(self.terms.key, &keys, input.rows(), self.shift, &mut self.hashes);
            // These loads don't depend on each other, so the processor has many of them in flight.
            let buckets = self.buckets.u64s();
            self.ranges.clear();
            self.ranges.extend(self.hashes.iter().map(|&hash| buckets[hash as usize]));
        }
        let keys: Vec<&[u64]> = self.probed.iter().map(Column::u64s).collect();
        let stored: Vec<&[u64]> = self.keys.iter().map(Column::u64s).collect();
        let rows = input.rows();
        while at.row < rows && left.len() < limit {
            let row = at.row;
            let (start, end) = (self.ranges[row] as u32 as usize, (self.ranges[row] >> 32) as usize);
            let mut next = start + at.done;
            match (&*keys, &*stored) {
                ([key], [stored]) => {
                    let key = key[row];
                    while next < end && left.len() < limit {
                        if stored[next] == key {
                            left.push(row as u32);
                            right.push(next as u32);
                        }
                        next += 1;
                    }
                }
                _ => {
                    while next < end && left.len() < limit {
                        if keys.iter().zip(&stored).all(|(key, stored)| stored[next] == key[row]) {
                            left.push(row as u32);
                            right.push(next as u32);
                        }
                        next += 1;
                    }
                }
            }
            if next < end {
                at.done = next - start;
            } else {
                *at = ProbeState { row: row + 1, done: 0 };
            }
        }
    }

    fn gather(&self, output: usize, right: &[u32], into: &mut Unfilled<'_, u64>) {
        crate::boxes::gather(self.columns[self.spec.output[output]].u64s(), right, into);
    }

    /// Bytes made for probing; the building box counts the rows.
    fn bytes(&self) -> u64 {
        self.loose.bytes()
    }
}

impl HashTable {
    /// Partners for keys with unbound values.
    fn compatible(
        &mut self,
        input: &Envelope,
        at: &mut ProbeState,
        limit: usize,
        pairs: Pairs<'_>,
        stopped: &dyn Fn() -> bool,
    ) {
        let values = slices(input);
        let sides = Sides {
            by: self.terms.key,
            strict: self.probed.iter().zip(&self.keys).map(|(a, b)| (a.u64s(), b.u64s())).collect(),
            loose: self.spec.loose().map(|key| (values[key.probe], self.columns[key.build].u64s())).collect(),
            rows: input.rows(),
            built: self.rows,
            searched: self.terms.limits.searched_keys.min(16),
            candidates: self.terms.limits.candidates.max(1),
        };
        let choice = Choice { needs_overlap: self.spec.needs_overlap, any: self.spec.keep == Keep::Any };
        self.loose.partners(&sides, choice, at, limit, pairs, stopped);
    }
}
