//! UNION: the rows of all inputs, with their columns in one order.

use std::sync::Arc;
use vicus_flow::{BoxError, Column, Envelope, Operator, Turn};

/// A column of an input, and its column in the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct To {
    pub(crate) from: u32,
    pub(crate) to: u32,
}

pub(crate) struct Union {
    /// For each input, the targets of its columns. Other output columns stay unbound.
    maps: Arc<[Vec<To>]>,
    /// The number of output columns.
    width: usize,
    open: Vec<bool>,
}

impl Union {
    pub(crate) fn new(maps: &Arc<[Vec<To>]>, width: usize) -> Union {
        Union { maps: Arc::clone(maps), width, open: vec![true; maps.len()] }
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
            let unbound = usize::from(self.maps[input].len() < self.width);
            let unbound = crate::boxes::columns_of(turn, unbound, rows, |builder| {
                (0..unbound).for_each(|column| builder.u64s(column).repeat(0, rows));
            });
            let mut columns: Vec<Option<Column>> = vec![None; self.width];
            for column in &self.maps[input] {
                columns[column.to as usize] = Some(envelope.column(column.from as usize).clone());
            }
            let columns = columns.into_iter().map(|column| column.unwrap_or_else(|| unbound[0].clone()));
            let made = Envelope::of_rows(columns.collect(), rows);
            turn.send(0, crate::boxes::attach(made, envelope.attached()));
        }
        Ok(())
    }
}
