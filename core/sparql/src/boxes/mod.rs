//! The physical operators, one file each. Envelopes have one column of id bits per slot.
//!
//! All keep the flow protocol: they take one head per input and invocation, send a few envelopes of bounded size and ask
//! to be run again, send the pill once, and pass a reader's lost interest on by closing their inputs.

pub(crate) mod aggregate;
pub(crate) mod distinct;
pub(crate) mod extend;
pub(crate) mod filter;
pub(crate) mod hash_table;
pub(crate) mod index_probe;
pub(crate) mod join;
mod loose;
pub(crate) mod nodes;
pub(crate) mod parted;
pub(crate) mod scan;
pub(crate) mod search;
pub(crate) mod slice;
pub(crate) mod sort;
pub(crate) mod top;
pub(crate) mod union;
pub(crate) mod values;
pub(crate) mod walk;

use crate::passing::passes;
use std::sync::OnceLock;
use vicus_flow::{
    Attachment, Column, Envelope, EnvelopeBuilder, Grow, NoMemory, Room, Schema, Turn, Type, give_up, refusable,
};
use vicus_rdf::Id;

/// The schema of envelopes with so many columns of ids. Those of few columns are made once.
pub(crate) fn schema(columns: usize) -> Schema {
    static FEW: [OnceLock<Schema>; 32] = [const { OnceLock::new() }; 32];
    let make = || Schema::new((0..columns).map(|column| (format!("c{column}"), Type::U64)));
    FEW.get(columns).map_or_else(make, |schema| schema.get_or_init(make).clone())
}

/// What was allocated. If the memory could not be had, the box gives up and its request fails alone.
pub(crate) fn had<T>(allocated: Result<T, NoMemory>) -> T {
    allocated.unwrap_or_else(|error| give_up(error))
}

/// Before something is added to a hash table with so many items of a size: where it is full, it `grows`, or the box gives up.
pub(crate) fn room_for_one(count: usize, capacity: usize, item: usize, grows: impl FnOnce() -> bool) {
    if count == capacity && !refusable(grows) {
        give_up(NoMemory { bytes: (2 * (count + 1) * item) as u64 });
    }
}

/// As `collect`, where there may be so many items that there is no memory for them: see [`had`].
pub(crate) fn collected<T>(items: impl ExactSizeIterator<Item = T>) -> Vec<T> {
    let mut all = had(Vec::with_room(items.len()));
    all.extend(items);
    all
}

/// The columns of an envelope as slices.
pub(crate) fn slices(envelope: &Envelope) -> Vec<&[u64]> {
    envelope.columns().iter().map(Column::u64s).collect()
}

/// The inputs of a box that takes what comes on any of them: how many have not ended, once that is known.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Inputs(Option<usize>);

impl Inputs {
    /// Takes a head of each; whether all have ended.
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

/// How large the next envelope is to be: a single row first, so that whoever waits for any answer has it soon, then 64
/// and doubling up to a limit.
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

/// Rows that a box has made and not yet sent.
#[derive(Debug)]
pub(crate) struct Outbox {
    builder: EnvelopeBuilder,
    rows: usize,
    /// What the rows' envelopes kept alive.
    attached: Vec<Attachment>,
    pub(crate) growth: Growth,
}

/// Rows that keep more than so many bytes alive beside their columns don't wait for others.
const MOST_ATTACHED: u64 = 1 << 20;

impl Outbox {
    pub(crate) fn new(columns: usize, limit: usize) -> Outbox {
        Outbox { builder: EnvelopeBuilder::of_u64s(columns), rows: 0, attached: Vec::new(), growth: Growth::new(limit) }
    }

    /// Adds so many rows, of envelopes that keep these alive: `fill` has to append them to the columns, in which there is room for them.
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
        // Some batches may come before it is due.
        let expected = (2 * self.growth.target).min(self.growth.limit).saturating_sub(self.rows);
        self.builder.reserve(turn, rows.max(expected));
        fill(&mut self.builder);
        self.rows += rows;
    }

    /// How many rows may still be added before they must be sent.
    pub(crate) fn room(&self) -> usize {
        self.growth.limit - self.rows.min(self.growth.limit)
    }

    pub(crate) fn is_due(&self) -> bool {
        self.rows >= self.growth.target || Attachment::bytes_of(&self.attached) > MOST_ATTACHED && self.rows > 0
    }

    /// Sends what there is, if there is anything.
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

    /// Sends an envelope as it is, behind what there is already.
    pub(crate) fn pass(&mut self, turn: &mut Turn<'_>, envelope: Envelope) {
        self.flush(turn);
        if envelope.rows() > 0 {
            turn.send(0, envelope);
            self.growth.grow();
        }
    }
}

/// Rows that wait in a box for others keep no more than so many bytes alive beside their columns, and those of one envelope.
pub(crate) const MOST_ATTACHED_TO_WAITING: u64 = 16 << 20;

/// An envelope that keeps what the envelopes kept alive of which it is made, if it has any of their terms.
pub(crate) fn attach(envelope: Envelope, attached: &[Attachment]) -> Envelope {
    let passes = |column: &Column| column.u64s().iter().any(|&bits| passes(Id::from_bits(bits)));
    if attached.is_empty() || !envelope.columns().iter().any(passes) {
        return envelope;
    }
    envelope.with(attached)
}

/// The rows of columns, one after the other.
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

/// An envelope of so many columns and rows, all filled at once.
pub(crate) fn envelope_of(
    turn: &Turn<'_>,
    columns: usize,
    rows: usize,
    fill: impl FnOnce(&mut EnvelopeBuilder),
) -> Envelope {
    Envelope::of_rows(columns_of(turn, columns, rows, fill), rows)
}

/// As [`envelope_of`], for envelopes that have other columns as well.
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

/// Appends the values of a column at these rows.
#[inline]
pub(crate) fn gather(column: &[u64], rows: &[u32], into: &mut Room<'_, u64>) {
    into.extend(rows.iter().map(|&row| column[row as usize]));
}
