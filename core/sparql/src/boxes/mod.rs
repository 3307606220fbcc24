//! Parts of several operators' boxes. Envelopes have one column of id bits per slot.
//!
//! All boxes keep the flow protocol: an invocation takes at most one head of each input, sends a few envelopes of
//! bounded size and asks to run again if there is more; the pill is sent once; a box whose reader has lost interest
//! closes its own inputs.

pub(crate) mod join;
pub(crate) mod partitioned_table;
pub(crate) mod scatter;
pub(crate) mod sorted_runs;
pub(crate) mod spill;

use crate::passing_terms::passes;
use std::sync::OnceLock;
use vicus_flow::{
    Attachment, Column, Envelope, EnvelopeBuilder, Grow, NoMemory, Schema, Turn, Type, Unfilled, give_up, refusable,
};
use vicus_rdf::Id;

/// The schema of envelopes with `columns` columns of ids. Schemas of few columns are made once.
pub(crate) fn schema(columns: usize) -> Schema {
    static FEW: [OnceLock<Schema>; 32] = [const { OnceLock::new() }; 32];
    let make = || Schema::new((0..columns).map(|column| (format!("c{column}"), Type::U64)));
    FEW.get(columns).map_or_else(make, |schema| schema.get_or_init(make).clone())
}

/// The allocated value. If there was not enough memory, the box gives up and its request fails alone.
pub(crate) fn had<T>(allocated: Result<T, NoMemory>) -> T {
    allocated.unwrap_or_else(|error| give_up(error))
}

/// Makes room for one more item in a hash table. If the table is full, `grows` has to grow it; if that fails, the box
/// gives up.
pub(crate) fn room_for_one(count: usize, capacity: usize, item: usize, grows: impl FnOnce() -> bool) {
    if count == capacity && !refusable(grows) {
        give_up(NoMemory { bytes: (2 * (count + 1) * item) as u64 });
    }
}

/// Like `collect`, for items that may exceed the memory: then the box gives up, as in [`had`].
pub(crate) fn collected<T>(items: impl ExactSizeIterator<Item = T>) -> Vec<T> {
    let mut all = had(Vec::with_room(items.len()));
    all.extend(items);
    all
}

/// The columns of an envelope as slices.
pub(crate) fn slices(envelope: &Envelope) -> Vec<&[u64]> {
    envelope.columns().iter().map(Column::u64s).collect()
}

/// The inputs of a box that reads them all alike: how many have not ended, once the first turn has told how many there
/// are.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Inputs(Option<usize>);

impl Inputs {
    /// Takes one head of each input that has one, and passes it to `with`; true when all inputs have ended.
    pub(crate) fn take(&mut self, turn: &mut Turn<'_>, mut with: impl FnMut(&mut Turn<'_>, Envelope)) -> bool {
        let mut open = self.0.unwrap_or(turn.inputs());
        for input in 0..turn.inputs() {
            match turn.take(input) {
                Some(pill) if pill.is_pill() => open -= 1,
                Some(envelope) => with(turn, envelope),
                None => {}
            }
        }
        self.0 = Some(open);
        open == 0
    }
}

/// The envelope that a box works on, if an invocation has left rows of it, and the first of these rows.
#[derive(Default, Debug)]
pub(crate) struct Unfinished(Option<(Envelope, usize)>);

impl Unfinished {
    /// The rest of the envelope at hand, or the next one. `None` if there is none yet, or no more: then the pills are
    /// sent.
    pub(crate) fn take(&mut self, turn: &mut Turn<'_>) -> Option<(Envelope, usize)> {
        if let Some(rest) = self.0.take() {
            return Some(rest);
        }
        let envelope = turn.take(0)?;
        if envelope.is_pill() {
            turn.send_pills();
            return None;
        }
        Some((envelope, 0))
    }

    /// The rows from `row` on are for the next invocation. If there are none, the next envelope is.
    pub(crate) fn keep(&mut self, turn: &mut Turn<'_>, envelope: Envelope, row: usize) {
        let has_rest = row < envelope.rows();
        self.0 = has_rest.then_some((envelope, row));
        // An envelope that arrived while this box was busy does not invoke the box again.
        if has_rest || turn.head(0).is_some() {
            turn.run_again();
        }
    }
}

/// The target size of the next envelope: a single row first, so that the first answer arrives soon, then 64 rows,
/// doubling up to a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    pub(crate) target: usize,
    limit: usize,
}

impl Growth {
    pub(crate) fn new(limit: usize) -> Growth {
        Growth { target: 1, limit: limit.max(1) }
    }

    pub(crate) fn grow(&mut self) {
        self.target = (self.target * 2).max(64).min(self.limit);
    }
}

/// How many rows a box sends at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The greatest number of rows of an envelope.
    pub(crate) limit: usize,
    /// Whether a few rows are enough for the reader: rows then don't wait for others that may be far away.
    pub(crate) soon: bool,
}

/// Rows that a box has made and not yet sent.
#[derive(Debug)]
pub(crate) struct Outbox {
    builder: EnvelopeBuilder,
    rows: usize,
    /// Attachments of the envelopes that the rows come from.
    attached: Vec<Attachment>,
    pub(crate) growth: Growth,
    /// See [`Pace::soon`].
    soon: bool,
}

/// If the attachments of the rows take more bytes than this, the rows are sent without waiting for others.
const MOST_ATTACHED: u64 = 1 << 20;

impl Outbox {
    pub(crate) fn new(columns: usize, pace: Pace) -> Outbox {
        Outbox {
            builder: EnvelopeBuilder::of_u64s(columns),
            rows: 0,
            attached: Vec::new(),
            growth: Growth::new(pace.limit),
            soon: pace.soon,
        }
    }

    /// Adds `rows` rows made of envelopes with these attachments. `fill` has to append the rows to the columns; there
    /// is room for them.
    pub(crate) fn add(
        &mut self,
        turn: &Turn<'_>,
        attached: &[Attachment],
        rows: usize,
        fill: impl FnOnce(&mut EnvelopeBuilder),
    ) {
        if rows > 0 {
            Attachment::add_all(&mut self.attached, attached);
        }
        // Several batches may be added before the envelope is due.
        let expected = (2 * self.growth.target).min(self.growth.limit).saturating_sub(self.rows);
        self.builder.reserve(turn, rows.max(expected));
        fill(&mut self.builder);
        self.rows += rows;
    }

    /// How many rows can be added before the envelope is full.
    pub(crate) fn room(&self) -> usize {
        self.growth.limit - self.rows.min(self.growth.limit)
    }

    pub(crate) fn is_due(&self) -> bool {
        self.rows >= self.growth.target
            || self.soon && self.rows > 0
            || Attachment::bytes_of(&self.attached) > MOST_ATTACHED && self.rows > 0
    }

    /// Sends the rows, if there are any.
    pub(crate) fn flush(&mut self, turn: &mut Turn<'_>) {
        if self.rows == 0 {
            return;
        }
        let columns = self.builder.finish_columns(turn);
        let envelope = Envelope::of_rows(columns, std::mem::take(&mut self.rows));
        turn.send(0, attach(envelope, &self.attached));
        self.attached.clear();
        self.growth.grow();
    }

    /// Sends an envelope unchanged, after the rows that were added before.
    pub(crate) fn pass(&mut self, turn: &mut Turn<'_>, envelope: Envelope) {
        self.flush(turn);
        if envelope.rows() > 0 {
            turn.send(0, envelope);
            self.growth.grow();
        }
    }
}

/// The attachments of rows that wait in a box take at most this many bytes, plus those of one envelope.
pub(crate) const MOST_ATTACHED_TO_WAITING: u64 = 16 << 20;

/// The envelope; with these attachments if any of its ids is of a term that passes.
pub(crate) fn attach(envelope: Envelope, attached: &[Attachment]) -> Envelope {
    let passes = |column: &Column| column.u64s().iter().any(|&bits| passes(Id::from_bits(bits)));
    if attached.is_empty() || !envelope.columns().iter().any(passes) {
        return envelope;
    }
    envelope.with(attached)
}

/// Appends the rows of columns, one row after the other.
pub(crate) fn interleave(columns: &[&[u64]], into: &mut Vec<u64>) {
    into.clear();
    into.grow_or_give_up(columns.iter().map(|column| column.len()).sum());
    match columns {
        [column] => into.extend_from_slice(column),
        [a, b] => into.extend(a.iter().zip(*b).flat_map(|(&a, &b)| [a, b])),
        _ => {
            let rows = columns.first().map_or(0, |column| column.len());
            into.extend((0..rows).flat_map(|row| columns.iter().map(move |column| column[row])));
        }
    }
}

/// An envelope of `columns` columns of `rows` rows, which `fill` has to fill.
pub(crate) fn envelope_of(
    turn: &Turn<'_>,
    columns: usize,
    rows: usize,
    fill: impl FnOnce(&mut EnvelopeBuilder),
) -> Envelope {
    Envelope::of_rows(columns_of(turn, columns, rows, fill), rows)
}

/// Like [`envelope_of`], for envelopes with other columns as well.
pub(crate) fn columns_of(
    turn: &Turn<'_>,
    columns: usize,
    rows: usize,
    fill: impl FnOnce(&mut EnvelopeBuilder),
) -> Vec<Column> {
    let mut builder = EnvelopeBuilder::of_u64s(columns);
    builder.reserve(turn, rows);
    fill(&mut builder);
    builder.finish_columns(turn)
}

/// Appends a column's values at these rows.
#[inline]
pub(crate) fn gather(column: &[u64], rows: &[u32], into: &mut Unfilled<'_, u64>) {
    into.extend(rows.iter().map(|&row| column[row as usize]));
}
