//! A stream, sorted.

use super::spill::{Spilled, is_divisible};
use super::{SortKey, order_by};
use crate::{
    Attachment, BoxError, BoxModel, Envelope, EnvelopeBuilder, Grow, HeldBytes, Operator, Schema, Turn, give_up,
};
use std::cmp::Ordering;

/// Sorts a stream by columns of any types: by the first key, rows equal by it by the second, and so on. Equal rows keep
/// their order. It keeps the whole stream in memory, counted against the request's budget, and sends envelopes of
/// `envelope_rows` rows. When the budget is used up, what it has is sorted and goes to [files](crate::Overflows), if
/// the request may use any, and these runs are merged at the end. Panics if the schema has fewer columns.
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
        held_bytes: HeldBytes::default(),
        rows: 0,
        sorted: None,
        next: 0,
        builder: EnvelopeBuilder::new(&rows),
        limit: envelope_rows.max(1),
        runs: Vec::new(),
        piece_bytes: 0,
        merging: false,
    };
    BoxModel::new("sort", factory).input(schema).output(schema).takes_all_of(0)
}

struct Sort {
    keys: Vec<SortKey>,
    held: Vec<Envelope>,
    /// Bytes of memory kept by these envelopes, and the stores among them.
    bytes: u64,
    held_bytes: HeldBytes,
    rows: usize,
    /// All rows in order, once the pill has come.
    sorted: Option<Vec<Row>>,
    /// How many of them have been sent.
    next: usize,
    builder: EnvelopeBuilder,
    limit: usize,
    /// The sorted parts of the stream outside of memory, the first one first.
    runs: Vec<Run>,
    /// About how many bytes an envelope of a run has.
    piece_bytes: u64,
    /// The pill has come, and the runs are merged.
    merging: bool,
}

/// A sorted part of the stream, outside of memory but for its first rows.
struct Run {
    rest: Spilled,
    head: Option<Envelope>,
    /// The first row of the head that has not been merged.
    row: usize,
    /// How often its rows have been merged.
    level: u32,
}

/// So many runs are merged at once.
const AT_ONCE_MERGED: usize = 16;

/// A run has about so many envelopes, if it has been merged from no others: the heads of twice as many runs as are
/// merged at once take half of its memory.
const PIECES: u64 = 64;

/// A row: the rank that orders most rows, the number of its envelope, and its own number there.
type Row = (u64, u32, u32);

/// Sorting this number of rows takes some milliseconds, even if each comparison misses the cache.
const AT_ONCE: usize = 1 << 12;

impl Sort {
    /// The rows in order; `None` if the request was stopped.
    fn sorted(&self, turn: &Turn<'_>) -> Result<Option<Vec<Row>>, BoxError> {
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
                        key.compare(&columns(a)[key.column], a.2 as usize, &columns(b)[key.column], b.2 as usize)
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

impl Sort {
    /// Bytes of memory, and those for sorting so many rows: merging parts of the list needs a second one.
    fn bytes_with(&self, bytes: u64, rows: usize) -> u64 {
        bytes + 2 * (rows * size_of::<Row>()) as u64
    }

    /// Keeps an envelope; if the budget has no room for it, the others go out of memory.
    fn keep(&mut self, envelope: Envelope, turn: &Turn<'_>) -> Result<(), BoxError> {
        let envelope = envelope.compact();
        let more = self.held_bytes.add(&envelope);
        let rows = self.rows + envelope.rows();
        if let Err(refused) = turn.book(self.bytes_with(self.bytes + more, rows)) {
            if self.held.is_empty() || !Spilled::is_possible(turn) {
                return Err(refused.into());
            }
            if !self.spill(turn)? {
                return Ok(());
            }
            self.bytes = self.held_bytes.add(&envelope);
            turn.book(self.bytes_with(self.bytes, envelope.rows()))?;
            self.rows = envelope.rows();
        } else {
            self.bytes += more;
            self.rows = rows;
        }
        self.held.grow(1)?;
        self.held.push(envelope);
        Ok(())
    }

    /// Sorts what is held, and puts it out of memory as a run. Whether the request goes on.
    fn spill(&mut self, turn: &Turn<'_>) -> Result<bool, BoxError> {
        let mut rest = Spilled::begin(turn)?;
        let Some(sorted) = self.sorted(turn)? else { return Ok(false) };
        self.held.iter().try_for_each(is_divisible)?;
        self.piece_bytes = self.piece_bytes.max(self.bytes / PIECES);
        let piece = self.rows_of(self.bytes, self.rows);
        for rows in sorted.chunks(piece) {
            if turn.is_stopped() {
                return Ok(false);
            }
            let envelope = self.envelope_of(rows, turn)?;
            rest.push(turn, envelope)?;
        }
        self.runs.grow(1)?;
        self.runs.push(Run { rest, head: None, row: 0, level: 0 });
        self.held.clear();
        (self.bytes, self.rows, self.held_bytes) = (0, 0, HeldBytes::default());
        while let Some(runs) = self.last_alike() {
            let Some(merged) = self.merge_runs(runs, turn)? else { return Ok(false) };
            self.runs.push(merged);
        }
        turn.book(0)?;
        Ok(true)
    }

    /// How many rows of a run come into one envelope, if so many rows take so many bytes.
    fn rows_of(&self, bytes: u64, rows: usize) -> usize {
        let row = bytes / rows.max(1) as u64;
        (self.piece_bytes / row.max(1)).clamp(1, self.limit as u64) as usize
    }

    /// The last runs, if there are as many as are merged at once, each of as many runs.
    fn last_alike(&mut self) -> Option<Vec<Run>> {
        let first = self.runs.len().checked_sub(AT_ONCE_MERGED)?;
        let is_alike = self.runs[first..].iter().all(|run| run.level == self.runs[first].level);
        is_alike.then(|| self.runs.split_off(first))
    }

    /// A run of the rows of these; `None` if the request was stopped.
    fn merge_runs(&mut self, mut runs: Vec<Run>, turn: &Turn<'_>) -> Result<Option<Run>, BoxError> {
        let level = runs[0].level + 1;
        let mut rest = Spilled::begin(turn)?;
        runs.iter_mut().try_for_each(Run::read)?;
        loop {
            let heads = || runs.iter().filter_map(|run| run.head.as_ref());
            let piece = self.rows_of(heads().map(Envelope::bytes).sum(), heads().map(Envelope::rows).sum());
            let Some(envelope) = self.merged(&mut runs, piece, turn)? else { break };
            if turn.is_stopped() {
                return Ok(None);
            }
            rest.push(turn, envelope)?;
        }
        Ok(Some(Run { rest, head: None, row: 0, level }))
    }

    /// An envelope of these rows.
    fn envelope_of(&mut self, rows: &[Row], turn: &Turn<'_>) -> Result<Envelope, BoxError> {
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
        let columns = self.builder.finish_columns(turn);
        Ok(Envelope::of_rows(columns, places.len()).with(&attached))
    }

    /// The next rows of runs; `None` behind the last one.
    fn merged(&mut self, runs: &mut [Run], limit: usize, turn: &Turn<'_>) -> Result<Option<Envelope>, BoxError> {
        let (mut made, mut picked): (usize, Vec<(u32, u32)>) = (0, Vec::new());
        let mut held = HeldBytes::default();
        turn.book(runs.iter().filter_map(|run| run.head.as_ref()).map(|head| held.add(head)).sum())?;
        let compare = order_by(self.keys.iter().copied());
        while made + picked.len() < limit {
            let heads = runs.iter().enumerate();
            let heads = heads.filter_map(|(at, run)| Some((at, (run.head.as_ref()?, run.row))));
            // Of equal rows, the first run's is the first of the stream.
            let Some((least, (head, row))) = heads.min_by(|(_, a), (_, b)| compare(*a, *b)) else { break };
            let is_last = row + 1 == head.rows();
            picked.grow(1)?;
            picked.push((least as u32, row as u32));
            runs[least].row += 1;
            if is_last {
                made += copy_picked(&mut self.builder, runs, &mut picked, turn);
                runs[least].read()?;
            }
        }
        made += copy_picked(&mut self.builder, runs, &mut picked, turn);
        let columns = self.builder.finish_columns(turn);
        Ok((made > 0).then(|| Envelope::of_rows(columns, made)))
    }
}

/// Copies picked rows while their heads are there. Gives how many.
fn copy_picked(builder: &mut EnvelopeBuilder, runs: &[Run], picked: &mut Vec<(u32, u32)>, turn: &Turn<'_>) -> usize {
    let columns = |run: u32| runs[run as usize].head.as_ref().map_or(&[][..], Envelope::columns);
    builder.reserve(turn, picked.len());
    builder.interleave(turn.blocks, picked, columns);
    let count = picked.len();
    picked.clear();
    count
}

impl Run {
    /// Reads its next envelope.
    fn read(&mut self) -> Result<(), BoxError> {
        (self.head, self.row) = (self.rest.pop()?, 0);
        Ok(())
    }
}

impl Operator for Sort {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        match turn.take(0) {
            Some(pill) if pill.is_pill() && self.runs.is_empty() => {
                let Some(sorted) = self.sorted(turn)? else { return Ok(()) };
                turn.book(self.bytes + (sorted.capacity() * size_of::<Row>()) as u64)?;
                self.sorted = Some(sorted);
            }
            Some(pill) if pill.is_pill() => {
                if !self.spill(turn)? {
                    return Ok(());
                }
                self.runs.iter_mut().try_for_each(Run::read)?;
                self.merging = true;
            }
            Some(envelope) if envelope.rows() > 0 => self.keep(envelope, turn)?,
            _ => {}
        }
        let next = if self.merging {
            let mut runs = std::mem::take(&mut self.runs);
            let next = self.merged(&mut runs, self.limit, turn)?;
            self.runs = runs;
            next
        } else {
            let Some(sorted) = &self.sorted else { return Ok(()) };
            let rows = sorted[self.next..sorted.len().min(self.next + self.limit)].to_vec();
            self.next += rows.len();
            if rows.is_empty() { None } else { Some(self.envelope_of(&rows, turn)?) }
        };
        match next {
            Some(envelope) => {
                turn.send(0, envelope);
                turn.run_again();
            }
            None => turn.send_pill(0),
        }
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
