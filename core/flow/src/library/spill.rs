//! Envelopes of a box beyond its request's budget: outside of memory, in the order in which they were put.

use crate::overflow::Outside;
use crate::{BoxError, Envelope, EnvelopeBuilder, Grow, Schema, Turn};

/// Envelopes of a box outside of memory, first in, first out: for boxes that keep more than their request's budget.
pub struct Spilled(Outside);

impl std::fmt::Debug for Spilled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spilled").field("is_empty", &self.0.is_empty()).finish()
    }
}

impl Spilled {
    /// Whether the request may keep anything outside of memory.
    pub fn is_possible(turn: &Turn<'_>) -> bool {
        turn.instance.overflows.get().is_some()
    }

    /// An empty queue.
    ///
    /// # Errors
    /// The request has no place outside of memory, or the system gives none.
    pub fn begin(turn: &Turn<'_>) -> Result<Spilled, BoxError> {
        let overflows = turn.instance.overflows.get().ok_or("the request may keep nothing outside of memory")?;
        Ok(Spilled(Outside::new(overflows.begin()?)))
    }

    /// Puts an envelope behind the others, and counts its bytes.
    ///
    /// # Errors
    /// There is no room, or values are attached to it that can't be written.
    pub fn push(&mut self, turn: &Turn<'_>, envelope: Envelope) -> Result<(), BoxError> {
        let written = self.0.push(envelope);
        if self.0.is_refused() {
            let why = self.0.full().unwrap_or("values are attached to an envelope, which can't be written");
            return Err(format!("there is no memory for more, nor room outside of it: {why}").into());
        }
        turn.count_spilled(written);
        Ok(())
    }

    /// Takes the first envelope.
    ///
    /// # Errors
    /// It can't be read back.
    pub fn pop(&mut self) -> Result<Option<Envelope>, BoxError> {
        self.0.pop()
    }
}

/// Into so many parts rows go at once.
const PARTS: usize = 16;

/// How often [`Parts`] may be divided again: five times four bits of a hash make a million parts.
pub const DEEPEST: u32 = 5;

/// Rows of a box outside of memory, in sixteen parts by the hash of their keys.
#[derive(Debug)]
pub struct Parts {
    queues: Vec<Spilled>,
    builder: EnvelopeBuilder,
    level: u32,
    /// For each part, rows of an envelope.
    rows: Vec<Vec<u32>>,
}

impl Parts {
    /// How many there are.
    pub const COUNT: usize = PARTS;

    /// The part of rows with this hash.
    pub fn part_of(&self, hash: u64) -> usize {
        // Tables use the lowest bits, and the partition box the highest.
        (hash >> (40 + 4 * self.level)) as usize % PARTS
    }

    /// Empty parts of parts that were divided `level` times.
    ///
    /// # Errors
    /// Those of [`Spilled::begin`].
    pub fn begin(turn: &Turn<'_>, schema: &Schema, level: u32) -> Result<Parts, BoxError> {
        let queues = (0..PARTS).map(|_| Spilled::begin(turn)).collect::<Result<_, _>>()?;
        Ok(Parts { queues, builder: EnvelopeBuilder::new(schema), level, rows: vec![Vec::new(); PARTS] })
    }

    /// Puts rows of an envelope into their parts, without what is attached to it.
    ///
    /// # Errors
    /// Those of [`Spilled::push`].
    pub fn put(
        &mut self,
        turn: &Turn<'_>,
        envelope: &Envelope,
        rows: impl Iterator<Item = (u32, u64)>,
    ) -> Result<(), BoxError> {
        for (row, hash) in rows {
            let place = self.part_of(hash);
            let part = &mut self.rows[place];
            part.grow(1)?;
            part.push(row);
        }
        for (rows, queue) in self.rows.iter_mut().zip(&mut self.queues).filter(|(rows, _)| !rows.is_empty()) {
            self.builder.append(turn, envelope, rows);
            let columns = self.builder.finish_columns(turn);
            queue.push(turn, Envelope::of_rows(columns, rows.len()))?;
            rows.clear();
        }
        Ok(())
    }

    /// The parts, each with the number of times that its rows were divided.
    pub fn into_queues(self) -> impl Iterator<Item = (Spilled, u32)> {
        let level = self.level + 1;
        self.queues.into_iter().map(move |queue| (queue, level))
    }
}

/// Some rows of an envelope.
pub(super) fn rows_of(envelope: &Envelope, rows: &[u32], schema: &Schema, turn: &Turn<'_>) -> Envelope {
    let mut builder = EnvelopeBuilder::new(schema);
    builder.append(turn, envelope, rows);
    Envelope::of_rows(builder.finish_columns(turn), rows.len())
}

/// Whether rows may be put elsewhere than their envelope.
///
/// # Errors
/// Values are attached to it: each part of its rows would have to be written with all of them.
pub(super) fn is_divisible(envelope: &Envelope) -> Result<(), BoxError> {
    match envelope.attached() {
        [] => Ok(()),
        _ => Err("there is no memory for more, and values are attached to rows that would have to be divided".into()),
    }
}
