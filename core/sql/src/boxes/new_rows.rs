//! The rows of a recursive query that have not come before.

use super::keys::{KeyTable, KeyWriter, columns_of};
use crate::evaluate::{Room, Texts, Vector, gather};
use crate::types::SqlType;
use std::sync::Arc;
use vicus_flow::library::{Parts, Sieve, Spilled};
use vicus_flow::{BoxError, Column, Envelope, OverBudget, Schema, Turn};

/// Lets each row pass once, as UNION has it: nulls are equal, and so are the two zeros. When there is no memory for the
/// keys of all rows, rows go to files in parts by their hash, and those of a round pass at its end, part by part.
pub(crate) struct NewRows {
    kinds: Arc<[SqlType]>,
    schema: Schema,
    /// The keys of all rows, or of the part that is passed now.
    keys: KeyTable,
    texts: Texts,
    outside: Option<OutsideRows>,
}

/// Rows in files.
struct OutsideRows {
    /// The rows that have passed, by part, and how many envelopes these are.
    seen: Vec<(Spilled, usize)>,
    /// The rows of this round.
    coming: Option<Parts>,
    /// Its parts that are still to be passed, with their numbers.
    unread: Vec<(usize, Spilled)>,
    /// The part whose keys are in the table.
    now: Option<(usize, Spilled)>,
}

/// So many rows go to files at once.
const AT_ONCE: usize = 256;

impl NewRows {
    pub(crate) fn new(kinds: &Arc<[SqlType]>, schema: &Schema, seed: u64) -> NewRows {
        let (kinds, schema) = (Arc::clone(kinds), schema.clone());
        NewRows { kinds, schema, keys: KeyTable::new(seed), texts: Texts::default(), outside: None }
    }

    /// The rows of an envelope whose keys are not in the table, which has them from now on; nothing if these are all.
    fn new_ones(
        &mut self,
        envelope: &Envelope,
        turn: &Turn<'_>,
        held: u64,
    ) -> Result<Option<(Vec<Column>, usize)>, BoxError> {
        let rows = envelope.rows();
        let vectors: Vec<Vector> = envelope.columns().iter().cloned().map(Vector::Many).collect();
        let NewRows { kinds, keys, texts, .. } = self;
        let passed = texts.book(turn, held + keys.held(), |room| {
            let (writer, mut key, mut new) = (KeyWriter::new(&vectors, kinds, room)?, Vec::new(), Vec::new());
            for row in 0..rows {
                writer.write(row, &mut key);
                let known = keys.len();
                if keys.number(&key, room)? as usize == known {
                    new.push(row as u32);
                }
            }
            if new.len() == rows {
                return Ok(None);
            }
            let columns = envelope.columns().iter().map(|column| gather(column, &new, room));
            Ok(Some((columns.collect::<Result<Vec<Column>, BoxError>>()?, new.len())))
        })?;
        turn.book(held + self.keys.held())?;
        Ok(passed)
    }

    /// Puts the first keys of the table into files.
    fn go_outside(&mut self, count: usize, turn: &Turn<'_>) -> Result<(), BoxError> {
        let room = Room::new(&|_| Ok(()));
        let mut counts = Vec::new();
        let mut parts = Parts::begin(turn, &self.schema, 0)?;
        for from in (0..count).step_by(AT_ONCE) {
            let keys = (from..count.min(from + AT_ONCE)).map(|number| self.keys.key(number));
            let columns = columns_of(keys.clone(), &self.kinds, &room)?;
            let envelope = Envelope::of_rows(columns, keys.len());
            let hashes: Vec<u64> = keys.map(|key| self.keys.hash(key)).collect();
            parts.put(turn, &envelope, (0..).zip(hashes.iter().copied()))?;
            // Each part that has a row gets an envelope.
            let mut has_row = [false; Parts::COUNT];
            hashes.iter().for_each(|&hash| has_row[parts.part_of(hash)] = true);
            counts.resize(Parts::COUNT, 0);
            counts.iter_mut().zip(has_row).for_each(|(count, has_row)| *count += usize::from(has_row));
        }
        counts.resize(Parts::COUNT, 0);
        let seen = parts.into_queues().map(|(queue, _)| queue).zip(counts).collect();
        self.outside = Some(OutsideRows { seen, coming: None, unread: Vec::new(), now: None });
        self.keys = self.keys.emptied();
        Ok(())
    }

    /// Puts rows into the files of this round.
    fn put(&mut self, envelope: &Envelope, turn: &Turn<'_>, held: u64) -> Result<(), BoxError> {
        let outside = self.outside.as_mut().expect("its rows are outside");
        let coming = match &mut outside.coming {
            Some(coming) => coming,
            coming => coming.insert(Parts::begin(turn, &self.schema, 0)?),
        };
        let vectors: Vec<Vector> = envelope.columns().iter().cloned().map(Vector::Many).collect();
        let (kinds, keys) = (&self.kinds, &self.keys);
        let hashes = self.texts.book(turn, held, |room| {
            let (writer, mut key) = (KeyWriter::new(&vectors, kinds, room)?, Vec::new());
            let hash = |row: usize| {
                writer.write(row, &mut key);
                keys.hash(&key)
            };
            Ok((0..envelope.rows()).map(hash).collect::<Vec<u64>>())
        })?;
        coming.put(turn, envelope, (0..).zip(hashes))
    }
}

impl Sieve for NewRows {
    fn pass(&mut self, envelope: Envelope, turn: &Turn<'_>, held: u64) -> Result<Envelope, BoxError> {
        if self.outside.is_none() {
            let known = self.keys.len();
            match self.new_ones(&envelope, turn, held) {
                Ok(None) => return Ok(envelope),
                Ok(Some((columns, rows))) => return Ok(Envelope::of_rows(columns, rows)),
                Err(error) if error.downcast_ref::<OverBudget>().is_some() && Spilled::is_possible(turn) => {
                    // Rows of this envelope have not passed, though their keys may be there.
                    self.go_outside(known, turn)?;
                }
                Err(error) => return Err(error),
            }
        }
        self.put(&envelope, turn, held)?;
        turn.book(held)?;
        Ok(envelope.slice(0..0))
    }

    fn rest(&mut self, turn: &Turn<'_>, held: u64) -> Result<Option<Envelope>, BoxError> {
        let Some(outside) = &mut self.outside else { return Ok(None) };
        if let Some(coming) = outside.coming.take() {
            outside.unread.extend(coming.into_queues().map(|(queue, _)| queue).enumerate());
        }
        loop {
            let outside = self.outside.as_mut().expect("its rows are outside");
            let Some((part, coming)) = &mut outside.now else {
                self.keys = self.keys.emptied();
                let Some((part, mut queue)) = outside.unread.pop() else {
                    turn.book(held)?;
                    return Ok(None);
                };
                // A part without rows needs no keys.
                let Some(first) = queue.pop()? else { continue };
                queue.push(turn, first)?;
                let count = outside.seen[part].1;
                outside.now = Some((part, queue));
                for _ in 0..count {
                    if turn.is_stopped() {
                        return Ok(None);
                    }
                    let seen = &mut self.outside.as_mut().expect("its rows are outside").seen[part].0;
                    let envelope = seen.pop()?.ok_or("rows in files are gone")?;
                    seen.push(turn, envelope.clone())?;
                    self.new_ones(&envelope, turn, held)?;
                }
                continue;
            };
            let part = *part;
            let Some(envelope) = coming.pop()? else {
                outside.now = None;
                continue;
            };
            let passed = match self.new_ones(&envelope, turn, held)? {
                None => envelope,
                Some((_, 0)) => continue,
                Some((columns, rows)) => Envelope::of_rows(columns, rows),
            };
            let seen = &mut self.outside.as_mut().expect("its rows are outside").seen[part];
            seen.0.push(turn, passed.clone())?;
            seen.1 += 1;
            return Ok(Some(passed));
        }
    }

    fn held(&self) -> u64 {
        self.keys.held()
    }
}
