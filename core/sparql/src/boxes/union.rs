//! All rows of all inputs, their columns brought into one order.

use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Operator, Turn};

pub(crate) struct Union {
    /// For each input, for each output column, which column it is; `None` for one that the input doesn't bind.
    maps: Arc<[Vec<Option<usize>>]>,
    open: Vec<bool>,
}

impl Union {
    pub(crate) fn new(maps: &Arc<[Vec<Option<usize>>]>) -> Union {
        Union { maps: Arc::clone(maps), open: vec![true; maps.len()] }
    }
}

impl Operator for Union {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        for input in 0..self.maps.len() {
            let Some(envelope) = turn.take(input) else { continue };
            if envelope.is_pill() {
                self.open[input] = false;
                if !self.open.contains(&true) {
                    turn.send_pill(0);
                }
                continue;
            }
            let rows = envelope.rows();
            let unbound = usize::from(self.maps[input].contains(&None));
            let unbound = super::columns_of(turn, unbound, rows, |builder| {
                (0..unbound).for_each(|column| builder.u64s(column).repeat(0, rows));
            });
            let columns = self.maps[input].iter().map(|source| match source {
                Some(column) => envelope.column(*column).clone(),
                None => unbound[0].clone(),
            });
            let made = Envelope::of_rows(columns.collect(), rows);
            turn.send(0, super::attach(made, envelope.attached()));
        }
        Ok(())
    }
}
