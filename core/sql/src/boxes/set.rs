//! INTERSECT and EXCEPT: rows by how often each input has them.

use super::keys::{KeyTable, KeyWriter, columns_of};
use crate::evaluate::{Room, Texts, Vector};
use crate::types::SqlType;
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Grow, Operator, Turn};

pub(crate) struct SetOperation {
    kinds: Arc<[SqlType]>,
    except: bool,
    all: bool,
    limit: usize,
    keys: KeyTable,
    /// How often each row came from the first and from the second input.
    counts: Vec<[u64; 2]>,
    open: usize,
    texts: Texts,
    /// The next row to be sent, and how often it was.
    next: (usize, u64),
}

impl SetOperation {
    pub(crate) fn new(kinds: &Arc<[SqlType]>, except: bool, all: bool, limit: usize, seed: u64) -> SetOperation {
        SetOperation {
            kinds: Arc::clone(kinds),
            except,
            all,
            limit,
            keys: KeyTable::new(seed),
            counts: Vec::new(),
            open: 2,
            texts: Texts::default(),
            next: (0, 0),
        }
    }

    fn held(&self) -> u64 {
        self.keys.held() + 16 * self.counts.capacity() as u64
    }

    fn add(&mut self, input: usize, envelope: Envelope, room: &Room<'_>) -> Result<(), BoxError> {
        let rows = envelope.rows();
        let vectors: Vec<Vector> = envelope.into_columns().into_iter().map(Vector::Many).collect();
        let (writer, mut key) = (KeyWriter::new(&vectors, &self.kinds, room)?, Vec::new());
        for row in 0..rows {
            writer.write(row, &mut key);
            let number = self.keys.number(&key, room)? as usize;
            if number == self.counts.len() {
                self.counts.grow(1)?;
                self.counts.push([0, 0]);
            }
            self.counts[number][input] += 1;
        }
        Ok(())
    }

    /// How often a row is in the result.
    fn times(&self, row: usize) -> u64 {
        let [left, right] = self.counts[row];
        match (self.except, self.all) {
            (false, true) => left.min(right),
            (true, true) => left.saturating_sub(right),
            (false, false) => u64::from(left > 0 && right > 0),
            (true, false) => u64::from(left > 0 && right == 0),
        }
    }
}

impl Operator for SetOperation {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.open > 0 {
            for input in 0..2 {
                match turn.take(input) {
                    None => {}
                    Some(pill) if pill.is_pill() => self.open -= 1,
                    Some(envelope) if envelope.mark().is_some() => {}
                    Some(envelope) => {
                        let mut texts = std::mem::take(&mut self.texts);
                        texts.book(turn, self.held(), |room| self.add(input, envelope, room))?;
                        self.texts = texts;
                    }
                }
            }
            turn.book(self.held())?;
            if self.open > 0 {
                return Ok(());
            }
        }
        while self.next.0 < self.counts.len() {
            if !turn.ask_room(0) || turn.is_stopped() {
                turn.run_again();
                return Ok(());
            }
            let mut rows: Vec<usize> = Vec::new();
            while rows.len() < self.limit && self.next.0 < self.counts.len() {
                if self.next.1 < self.times(self.next.0) {
                    rows.push(self.next.0);
                    self.next.1 += 1;
                } else {
                    self.next = (self.next.0 + 1, 0);
                }
            }
            if !rows.is_empty() {
                let mut texts = std::mem::take(&mut self.texts);
                let keys = rows.iter().map(|&row| self.keys.key(row));
                let columns = texts.book(turn, self.held(), |room| columns_of(keys, &self.kinds, room))?;
                self.texts = texts;
                turn.send(0, Envelope::of_rows(columns, rows.len()));
            }
        }
        turn.send_pills();
        Ok(())
    }
}
