//! A stream, sorted.

use super::SortKey;
use crate::store::Stores;
use crate::{Attachment, BoxError, BoxModel, Envelope, EnvelopeBuilder, Grow, Operator, Schema, Turn, give_up};
use std::cmp::Ordering;

/// Sorts a stream by columns of any types: by the first key, rows equal by it by the second, and so on. Equal rows keep
/// their order. It keeps the whole stream in memory, counted against the request's budget, and sends envelopes of
/// `envelope_rows` rows. Panics if the schema has fewer columns.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::library::{self, SortKey};
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, sequential};
///
/// let people = Schema::new([("name", Type::Text), ("age", Type::U8)]).with_nulls(["age"]);
/// let mut net = ModelBuilder::new("the oldest first");
/// let rows = net.source(library::source("people", &people, || {
///     let (names, ages) = (["Grace", "Ada", "Jean"], vec![None, Some(36u8), Some(84)]);
///     [Envelope::new([names.into_iter().collect(), ages.into()])]
/// }));
/// let sort = net.add(library::sort(&people, [SortKey::of(1).descending().nulls_last(), SortKey::of(0)], 1000));
/// let (send, receive) = mpsc::channel();
/// let end = net.add(library::sink("end", &people, move |envelope| Ok(send.send(envelope)?)));
/// net.connect(rows.output(0), sort.input(0));
/// net.connect(sort.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
/// assert_eq!(receive.recv().unwrap().column(0).texts().collect::<Vec<_>>(), ["Jean", "Ada", "Grace"]);
/// ```
pub fn sort(schema: &Schema, keys: impl IntoIterator<Item = SortKey>, envelope_rows: usize) -> BoxModel {
    let (keys, rows) = (keys.into_iter().collect::<Vec<_>>(), schema.clone());
    let are_there = keys.iter().all(|key| key.column < schema.columns().len());
    assert!(are_there, "{keys:?} are not all columns of {schema}");
    let factory = move || Sort {
        keys: keys.clone(),
        held: Vec::new(),
        bytes: 0,
        stores: Stores::default(),
        rows: 0,
        sorted: None,
        next: 0,
        builder: EnvelopeBuilder::new(&rows),
        limit: envelope_rows.max(1),
    };
    BoxModel::new("sort", factory).input(schema).output(schema)
}

struct Sort {
    keys: Vec<SortKey>,
    held: Vec<Envelope>,
    /// Bytes of memory kept by these envelopes, and the stores among them.
    bytes: u64,
    stores: Stores,
    rows: usize,
    /// All rows in order, once the pill has come.
    sorted: Option<Vec<Row>>,
    /// How many of them have been sent.
    next: usize,
    builder: EnvelopeBuilder,
    limit: usize,
}

/// A row: the rank that orders most rows, the number of its envelope, and its own number there.
type Row = (u64, u32, u32);

/// Sorting this number of rows takes some milliseconds, even if each comparison misses the cache.
const AT_ONCE: usize = 1 << 12;

impl Sort {
    /// The rows in order; `None` if the request was stopped.
    fn sorted(&self, turn: &Turn<'_>) -> Result<Option<Vec<Row>>, BoxError> {
        // Merging runs needs a second list.
        turn.book(self.bytes + 2 * (self.rows * size_of::<Row>()) as u64)?;
        let mut all: Vec<Row> = Vec::with_room(self.rows)?;
        // Equal ranks mean equal rows if there is no other key, and if ranks tell all values apart.
        let mut is_exact = self.keys.len() == 1;
        for (number, envelope) in self.held.iter().enumerate() {
            let Some(key) = self.keys.first() else {
                all.extend((0..envelope.rows()).map(|row| (0, number as u32, row as u32)));
                continue;
            };
            let column = envelope.column(key.column);
            is_exact &= column.null_count() == 0 && column.has_exact_ranks();
            let rank = |row: usize| match column.is_null(row) {
                true if key.nulls_last => u64::MAX,
                true => 0,
                false if key.descending => !column.rank(row),
                false => column.rank(row),
            };
            all.extend((0..envelope.rows()).map(|row| (rank(row), number as u32, row as u32)));
        }
        let place = |&(_, envelope, row): &Row| (envelope, row);
        let stopped = || turn.is_stopped();
        let done = if is_exact || self.keys.is_empty() {
            sort_unless(&mut all, AT_ONCE, Ord::cmp, &stopped)
        } else {
            let columns = |row: &Row| self.held[row.1 as usize].columns();
            let compare = |a: &Row, b: &Row| {
                let keys = || {
                    let order = |key: &SortKey| {
                        key.compare((&columns(a)[key.column], a.2 as usize), (&columns(b)[key.column], b.2 as usize))
                    };
                    self.keys.iter().map(order).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
                };
                a.0.cmp(&b.0).then_with(keys).then_with(|| place(a).cmp(&place(b)))
            };
            sort_unless(&mut all, AT_ONCE, compare, &stopped)
        };
        Ok(done.map(|()| all))
    }
}

impl Operator for Sort {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        match turn.take(0) {
            Some(pill) if pill.is_pill() => {
                let Some(sorted) = self.sorted(turn)? else { return Ok(()) };
                turn.book(self.bytes + (sorted.capacity() * size_of::<Row>()) as u64)?;
                self.sorted = Some(sorted);
            }
            Some(envelope) if envelope.rows() > 0 => {
                let envelope = envelope.compact();
                self.bytes += envelope.own_held_bytes() + self.stores.add(envelope.columns());
                turn.book(self.bytes)?;
                self.rows += envelope.rows();
                self.held.grow(1)?;
                self.held.push(envelope);
            }
            _ => {}
        }
        let Some(sorted) = &self.sorted else { return Ok(()) };
        let rows = &sorted[self.next..sorted.len().min(self.next + self.limit)];
        if rows.is_empty() {
            turn.send_pill(0);
            return Ok(());
        }
        let mut places = Vec::with_room(rows.len())?;
        places.extend(rows.iter().map(|&(_, envelope, row)| (envelope, row)));
        self.builder.reserve(turn, places.len());
        self.builder.interleave(turn.blocks, &places, |envelope| self.held[envelope as usize].columns());
        let mut attached = Vec::new();
        if self.held.iter().any(|envelope| !envelope.attached().is_empty()) {
            let mut from: Vec<u32> = Vec::with_room(places.len())?;
            from.extend(places.iter().map(|&(envelope, _)| envelope));
            from.sort_unstable();
            from.dedup();
            let of = |envelope: &u32| self.held[*envelope as usize].attached();
            from.iter().for_each(|envelope| Attachment::add_all(&mut attached, of(envelope)));
        }
        self.next += places.len();
        let columns = self.builder.finish_columns(turn);
        turn.send(0, Envelope::of_rows(columns, places.len()).with(&attached));
        turn.run_again();
        Ok(())
    }
}

/// Sorts, but gives up with `None` soon after `stopped` is true: sorts runs of `shortest` items first, and then merges
/// them. The order has to be total, so stability does not matter.
///
/// ```
/// use vicus_flow::library::sort_unless;
///
/// let mut numbers = vec![3, 1, 2];
/// assert_eq!(sort_unless(&mut numbers, 1000, Ord::cmp, &|| false), Some(()));
/// assert_eq!(numbers, [1, 2, 3]);
/// assert_eq!(sort_unless(&mut numbers, 1000, Ord::cmp, &|| true), None);
/// ```
pub fn sort_unless<T: Copy>(
    items: &mut Vec<T>,
    shortest: usize,
    compare: impl Fn(&T, &T) -> Ordering,
    stopped: &dyn Fn() -> bool,
) -> Option<()> {
    for run in items.chunks_mut(shortest) {
        if stopped() {
            return None;
        }
        run.sort_unstable_by(&compare);
    }
    let mut run = shortest;
    while run < items.len() {
        let mut merged = Vec::with_room(items.len()).unwrap_or_else(|error| give_up(error));
        for pair in items.chunks(2 * run) {
            let (mut a, mut b) = pair.split_at(run.min(pair.len()));
            while let (Some(first), Some(second)) = (a.first(), b.first()) {
                if compare(second, first).is_lt() {
                    merged.push(*second);
                    b = &b[1..];
                } else {
                    merged.push(*first);
                    a = &a[1..];
                }
                if merged.len().is_multiple_of(shortest) && stopped() {
                    return None;
                }
            }
            merged.extend_from_slice(a);
            merged.extend_from_slice(b);
        }
        *items = merged;
        run *= 2;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn many_rows_are_sorted_in_runs_and_a_stop_is_noticed() {
        let mut state = 1u64;
        let items: Vec<u64> = (0..700_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state >> 40
            })
            .collect();
        let mut expected = items.clone();
        expected.sort_unstable();
        for shortest in [1 << 17, 1 << 12] {
            let asked = Cell::new(0);
            let stopped_at = |last: usize| {
                asked.set(asked.get() + 1);
                asked.get() == last
            };
            let mut sorted = items.clone();
            sort_unless(&mut sorted, shortest, Ord::cmp, &|| stopped_at(0)).expect("it is not stopped");
            assert_eq!(sorted, expected);
            let all = asked.take();
            assert!(
                all >= 2 * items.len() / shortest,
                "it asks for each run, and as often at least while it merges: {all}"
            );
            for last in [1, all] {
                assert_eq!(sort_unless(&mut items.clone(), shortest, Ord::cmp, &|| stopped_at(last)), None);
                assert_eq!(asked.take(), last);
            }
        }
    }
}
