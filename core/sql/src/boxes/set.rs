//! INTERSECT and EXCEPT: rows by how often each input has them.

use super::keys::{KeyTable, KeyWriter, columns_of};
use crate::evaluate::{Room, Texts, Vector};
use crate::types::SqlType;
use std::sync::Arc;
use vicus_flow::library::{DEEPEST, Parts, Spilled};
use vicus_flow::{BoxError, Envelope, Grow, Operator, Schema, Turn};

pub(crate) struct SetOperation {
    kinds: Arc<[SqlType]>,
    input: Schema,
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
    /// The rows of each input that are not in the table, because there is no memory for them.
    further: Option<[Parts; 2]>,
    /// The parts of both inputs with the same hashes that are counted now, in place of the inputs.
    reading: Option<Pair>,
    /// The pairs that are still to be counted.
    unread: Vec<Pair>,
}

/// Parts of both inputs, and how often their rows were divided.
struct Pair {
    parts: [Spilled; 2],
    level: u32,
}

impl SetOperation {
    /// `input` are the columns of both inputs.
    pub(crate) fn new(
        kinds: &Arc<[SqlType]>,
        input: &Schema,
        except: bool,
        all: bool,
        limit: usize,
        seed: u64,
    ) -> SetOperation {
        SetOperation {
            kinds: Arc::clone(kinds),
            input: input.clone(),
            except,
            all,
            limit,
            keys: KeyTable::new(seed),
            counts: Vec::new(),
            open: 2,
            texts: Texts::default(),
            next: (0, 0),
            further: None,
            reading: None,
            unread: Vec::new(),
        }
    }

    fn held(&self) -> u64 {
        self.keys.held() + 16 * self.counts.capacity() as u64
    }

    /// Takes an envelope. If the budget has no room for further rows, these go out of memory.
    fn accept(&mut self, input: usize, envelope: Envelope, turn: &Turn<'_>) -> Result<(), BoxError> {
        let level = self.reading.as_ref().map_or(0, |pair| pair.level);
        let is_possible = self.further.is_none() && self.keys.len() > 0 && level < DEEPEST;
        if is_possible && !self.kinds.is_empty() && Spilled::is_possible(turn) {
            let (rows, bytes) = (envelope.rows(), envelope.bytes());
            let held = if self.keys.grows(rows, bytes as usize) { 2 * self.held() } else { self.held() };
            if turn.book(held + bytes + 64 * rows as u64).is_err() {
                let begin = || Parts::begin(turn, &self.input, level);
                self.further = Some([begin()?, begin()?]);
            }
        }
        let mut texts = std::mem::take(&mut self.texts);
        let put = texts.book(turn, self.held(), |room| self.add(input, envelope.clone(), room))?;
        self.texts = texts;
        if let Some(further) = &mut self.further {
            further[input].put(turn, &envelope, put.into_iter())?;
        }
        Ok(turn.book(self.held())?)
    }

    /// Counts rows. Gives those, with the hashes of their keys, that are not in the table and have no room there.
    fn add(&mut self, input: usize, envelope: Envelope, room: &Room<'_>) -> Result<Vec<(u32, u64)>, BoxError> {
        let (rows, mut further) = (envelope.rows(), Vec::new());
        let vectors: Vec<Vector> = envelope.into_columns().into_iter().map(Vector::Many).collect();
        let (writer, mut key) = (KeyWriter::new(&vectors, &self.kinds, room)?, Vec::new());
        for row in 0..rows {
            writer.write(row, &mut key);
            let number = match self.further {
                None => self.keys.number(&key, room)?,
                Some(_) => match self.keys.find(&key) {
                    Some(number) => number,
                    None => {
                        further.push((row as u32, self.keys.hash(&key)));
                        continue;
                    }
                },
            };
            let number = number as usize;
            if number == self.counts.len() {
                self.counts.grow(1)?;
                self.counts.push([0, 0]);
            }
            self.counts[number][input] += 1;
        }
        Ok(further)
    }

    /// Goes on with the next pair of parts. Whether there is one.
    fn next_pair(&mut self, turn: &mut Turn<'_>) -> Result<bool, BoxError> {
        if let Some([left, right]) = self.further.take() {
            let pairs = left.into_queues().zip(right.into_queues());
            self.unread.extend(pairs.map(|((left, level), (right, _))| Pair { parts: [left, right], level }));
        }
        self.reading = self.unread.pop();
        self.keys = self.keys.emptied();
        (self.counts, self.next) = (Vec::new(), (0, 0));
        turn.book(0)?;
        Ok(self.reading.is_some())
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
                    Some(envelope) => self.accept(input, envelope, turn)?,
                }
            }
            if self.open > 0 {
                return Ok(());
            }
        }
        if let Some(pair) = &mut self.reading {
            let [left, right] = &mut pair.parts;
            let next = match left.pop()? {
                Some(envelope) => Some((0, envelope)),
                None => right.pop()?.map(|envelope| (1, envelope)),
            };
            if let Some((input, envelope)) = next {
                self.accept(input, envelope, turn)?;
                turn.run_again();
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
        if self.next_pair(turn)? {
            turn.run_again();
        } else {
            turn.send_pills();
        }
        Ok(())
    }
}
