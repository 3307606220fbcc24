//! ORDER BY with a LIMIT: the first rows alone are kept.

use crate::evaluate::{Room, Texts, gathered};
use crate::types::SqlType;
use std::sync::Arc;
use vicus_flow::library::{SortKey, order_by, sort_unless};
use vicus_flow::{BoxError, Envelope, Operator, Turn};

pub(crate) struct Top {
    by: Arc<[SortKey]>,
    most: usize,
    limit: usize,
    held: Vec<Envelope>,
    rows: usize,
    bytes: u64,
    texts: Texts,
    /// The first rows in order, once all have come, and how many were sent.
    sorted: Option<(Envelope, usize)>,
}

/// Rows are sorted when they exceed the number to keep by this much.
const SPARE: usize = 1 << 13;

impl Top {
    pub(crate) fn new(by: &Arc<[SortKey]>, most: usize, limit: usize) -> Top {
        Top {
            by: Arc::clone(by),
            most,
            limit,
            held: Vec::new(),
            rows: 0,
            bytes: 0,
            texts: Texts::default(),
            sorted: None,
        }
    }

    /// The first rows in order; `None` if the request was stopped.
    fn first(&self, turn: &Turn<'_>, room: &Room<'_>) -> Result<Option<Envelope>, BoxError> {
        let mut places: Vec<(u32, u32)> = Vec::with_capacity(self.rows);
        for (number, envelope) in self.held.iter().enumerate() {
            places.extend((0..envelope.rows() as u32).map(|row| (number as u32, row)));
        }
        let compare = order_by(self.by.iter().copied());
        let order = |a: &(u32, u32), b: &(u32, u32)| {
            let at = |&(envelope, row): &(u32, u32)| (&self.held[envelope as usize], row as usize);
            compare(at(a), at(b)).then(a.cmp(b))
        };
        if sort_unless(&mut places, 1 << 12, order, &|| turn.is_stopped()).is_none() {
            return Ok(None);
        }
        places.truncate(self.most);
        let kinds = turn.schema(0).columns().iter().map(SqlType::of_schema);
        let column = |(place, kind)| {
            let row = |&(envelope, row): &(u32, u32)| Some((self.held[envelope as usize].column(place), row as usize));
            gathered(&kind, places.iter().map(row), room)
        };
        let columns = kinds.enumerate().map(column).collect::<Result<_, _>>()?;
        Ok(Some(Envelope::of_rows(columns, places.len())))
    }
}

impl Operator for Top {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.sorted.is_none() {
            let Some(envelope) = turn.take(0) else { return Ok(()) };
            let is_last = envelope.is_pill();
            if !is_last && envelope.rows() > 0 {
                let envelope = envelope.compact();
                self.rows += envelope.rows();
                self.bytes += envelope.held_bytes();
                self.held.push(envelope);
            }
            if is_last || self.rows >= self.most.saturating_mul(2).saturating_add(SPARE) {
                let beside = self.bytes + 16 * self.rows as u64;
                turn.book(beside)?;
                let mut texts = std::mem::take(&mut self.texts);
                let first = texts.book(turn, beside, |room| self.first(turn, room))?;
                self.texts = texts;
                let Some(first) = first else { return Ok(()) };
                (self.rows, self.bytes) = (first.rows(), first.held_bytes());
                self.held = vec![first];
            }
            turn.book(self.bytes)?;
            if !is_last {
                return Ok(());
            }
            self.sorted = Some((self.held.remove(0), 0));
        }
        let (rows, sent) = self.sorted.as_mut().expect("it was just set");
        while *sent < rows.rows() {
            if !turn.ask_room(0) {
                turn.run_again();
                return Ok(());
            }
            let to = rows.rows().min(*sent + self.limit);
            turn.send(0, rows.slice(*sent..to));
            *sent = to;
        }
        turn.send_pills();
        Ok(())
    }
}
