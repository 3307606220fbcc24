//! LIMIT and OFFSET: skips some rows, passes some on, then closes its input.

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
            let part = super::envelope_of(turn, envelope.columns().len(), taken, |builder| {
                for (place, column) in super::slices(&envelope).into_iter().enumerate() {
                    builder.u64s(place).extend_from_slice(&column[skipped..skipped + taken]);
                }
            });
            turn.send(0, super::attach(part, envelope.attached()));
        }
        if self.left == 0 {
            self.finish(turn);
        }
        Ok(())
    }
}
