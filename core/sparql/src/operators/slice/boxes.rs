//! LIMIT and OFFSET: skips some rows, passes some on, then closes its input. Or does so for each run of rows with one
//! value.

use vicus_flow::{BoxError, Operator, Turn};

pub(crate) struct Slice {
    skip: usize,
    left: usize,
}

impl Slice {
    pub(crate) fn new(skip: usize, limit: Option<usize>) -> Slice {
        Slice { skip, left: limit.unwrap_or(usize::MAX) }
    }

    fn finish(&mut self, turn: &mut Turn<'_>) {
        turn.close(0);
        turn.send_pill(0);
    }
}

impl Operator for Slice {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        if envelope.is_pill() || self.left == 0 {
            self.finish(turn);
            return Ok(());
        }
        let skipped = self.skip.min(envelope.rows());
        self.skip -= skipped;
        let taken = self.left.min(envelope.rows() - skipped);
        self.left -= taken;
        if taken == envelope.rows() {
            turn.send(0, envelope);
        } else if taken > 0 {
            let part = crate::boxes::envelope_of(turn, envelope.columns().len(), taken, |builder| {
                for (place, column) in crate::boxes::slices(&envelope).into_iter().enumerate() {
                    builder.u64s(place).extend_from_slice(&column[skipped..skipped + taken]);
                }
            });
            turn.send(0, crate::boxes::attach(part, envelope.attached()));
        }
        if self.left == 0 {
            self.finish(turn);
        }
        Ok(())
    }
}

/// LIMIT and OFFSET for each value of a column, by which the rows are sorted.
pub(crate) struct SliceEach {
    column: usize,
    skip: usize,
    limit: usize,
    /// The value at hand, and how many of its rows came.
    value: u64,
    came: usize,
}

impl SliceEach {
    pub(crate) fn new(column: usize, skip: usize, limit: Option<usize>) -> SliceEach {
        SliceEach { column, skip, limit: limit.unwrap_or(usize::MAX), value: 0, came: 0 }
    }
}

impl Operator for SliceEach {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        if envelope.is_pill() {
            turn.send_pill(0);
            return Ok(());
        }
        let columns = crate::boxes::slices(&envelope);
        let mut kept: Vec<u32> = Vec::new();
        for (row, value) in columns[self.column].iter().enumerate() {
            if *value != self.value {
                (self.value, self.came) = (*value, 0);
            }
            if self.came >= self.skip && self.came - self.skip < self.limit {
                kept.push(row as u32);
            }
            self.came += 1;
        }
        if kept.len() == envelope.rows() {
            turn.send(0, envelope);
        } else if !kept.is_empty() {
            let part = crate::boxes::envelope_of(turn, columns.len(), kept.len(), |builder| {
                for (place, column) in columns.iter().enumerate() {
                    crate::boxes::gather(column, &kept, &mut builder.u64s(place));
                }
            });
            turn.send(0, crate::boxes::attach(part, envelope.attached()));
        }
        Ok(())
    }
}
