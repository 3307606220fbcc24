//! LIMIT and OFFSET, and a subquery's single row.

use crate::evaluate::nulls;
use crate::types::SqlType;
use vicus_flow::{BoxError, Envelope, Operator, Turn};

/// Leaves out the first rows, and passes on a given number.
pub(crate) struct Slice {
    skipped: u64,
    left: Option<u64>,
    is_over: bool,
}

impl Slice {
    pub(crate) fn new(offset: u64, count: Option<u64>) -> Slice {
        Slice { skipped: offset, left: count, is_over: false }
    }
}

impl Operator for Slice {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.is_over {
            return Ok(());
        }
        let taken = turn.take(0);
        if let Some(envelope) = taken {
            if envelope.is_pill() {
                self.is_over = true;
                turn.send_pill(0);
                return Ok(());
            }
            if turn.pass_mark(&envelope) {
                return Ok(());
            }
            let rows = envelope.rows() as u64;
            let from = self.skipped.min(rows);
            self.skipped -= from;
            let count = self.left.map_or(rows - from, |left| left.min(rows - from));
            if let Some(left) = &mut self.left {
                *left -= count;
            }
            if count > 0 {
                turn.send(0, envelope.slice(from as usize..(from + count) as usize));
            }
        }
        if self.left == Some(0) {
            self.is_over = true;
            turn.close(0);
            turn.send_pill(0);
        }
        Ok(())
    }
}

/// Makes one row of a stream: its only one, or nulls if it has none.
pub(crate) struct Single {
    row: Option<Envelope>,
}

impl Single {
    pub(crate) fn new() -> Single {
        Single { row: None }
    }
}

impl Operator for Single {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        if !envelope.is_pill() {
            let rows = envelope.rows() + self.row.as_ref().map_or(0, Envelope::rows);
            if rows > 1 {
                return Err("a subquery that is used as a value has more than one row".into());
            }
            if envelope.rows() == 1 {
                self.row = Some(envelope.compact());
            }
            return Ok(());
        }
        let row = self.row.take().unwrap_or_else(|| {
            let columns = turn.schema(0).columns().iter().map(|field| nulls(&SqlType::of_schema(field), 1)).collect();
            Envelope::of_rows(columns, 1)
        });
        turn.send(0, row);
        turn.send_pill(0);
        Ok(())
    }
}
