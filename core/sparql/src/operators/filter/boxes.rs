//! Keeps the rows for which a condition is true.

use crate::boxes::{Outbox, Pace, attach, gather, slices};
use crate::condition::{Condition, Selector};
use crate::terms::{Booking, Terms};
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Operator, Turn};

pub(crate) struct Filter {
    terms: Arc<Terms>,
    booking: Booking,
    selector: Selector,
    /// Columns that are kept.
    output: Arc<[usize]>,
    outbox: Outbox,
    kept: Vec<u32>,
}

impl Filter {
    pub(crate) fn new(terms: &Arc<Terms>, condition: &Condition, output: &Arc<[usize]>, pace: Pace) -> Filter {
        Filter {
            terms: Arc::clone(terms),
            booking: Booking::default(),
            selector: condition.evaluator(terms),
            output: Arc::clone(output),
            outbox: Outbox::new(output.len(), pace),
            kept: Vec::new(),
        }
    }
}

impl Operator for Filter {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        if envelope.is_pill() {
            self.outbox.flush(turn);
            turn.send_pill(0);
            return Ok(());
        }
        let columns = slices(&envelope);
        let stopped = |more| self.booking.poll(&self.terms, turn, more);
        self.selector.select(&columns, envelope.rows(), &mut self.kept, &stopped);
        self.booking.hold(&self.terms, turn, self.selector.bytes())?;
        if self.kept.len() == envelope.rows() {
            let columns = self.output.iter().map(|&column| envelope.column(column).clone()).collect();
            self.outbox.pass(turn, attach(Envelope::of_rows(columns, envelope.rows()), envelope.attached()));
            return Ok(());
        }
        if self.kept.len() > self.outbox.room() {
            self.outbox.flush(turn);
        }
        self.outbox.add(turn, envelope.attached(), self.kept.len(), |builder| {
            for (place, &column) in self.output.iter().enumerate() {
                gather(columns[column], &self.kept, &mut builder.u64s(place));
            }
        });
        if self.outbox.is_due() {
            self.outbox.flush(turn);
        }
        Ok(())
    }
}
