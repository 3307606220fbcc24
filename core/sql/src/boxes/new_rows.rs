//! The rows of a recursive query that have not come before.

use super::keys::{KeyTable, KeyWriter};
use crate::evaluate::{Texts, Vector, gather};
use crate::types::SqlType;
use std::sync::Arc;
use vicus_flow::library::Sieve;
use vicus_flow::{BoxError, Column, Envelope, Turn};

/// Lets each row pass once, as UNION has it: nulls are equal, and so are the two zeros.
pub(crate) struct NewRows {
    kinds: Arc<[SqlType]>,
    keys: KeyTable,
    texts: Texts,
}

impl NewRows {
    pub(crate) fn new(kinds: &Arc<[SqlType]>, seed: u64) -> NewRows {
        NewRows { kinds: Arc::clone(kinds), keys: KeyTable::new(seed), texts: Texts::default() }
    }
}

impl Sieve for NewRows {
    fn pass(&mut self, envelope: Envelope, turn: &Turn<'_>, held: u64) -> Result<Envelope, BoxError> {
        let rows = envelope.rows();
        let vectors: Vec<Vector> = envelope.columns().iter().cloned().map(Vector::Many).collect();
        let NewRows { kinds, keys, texts } = self;
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
        turn.book(held + self.held())?;
        Ok(passed.map_or(envelope, |(columns, rows)| Envelope::of_rows(columns, rows)))
    }

    fn held(&self) -> u64 {
        self.keys.held()
    }
}
