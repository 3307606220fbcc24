//! Source: a table written in the query.

use crate::algebra::Table;
use std::sync::Arc;
use vicus_flow::{BoxError, Operator, Turn};

pub(crate) struct Values {
    table: Arc<Table>,
    next: usize,
    limit: usize,
}

impl Values {
    pub(crate) fn new(table: &Arc<Table>, limit: usize) -> Values {
        Values { table: Arc::clone(table), next: 0, limit: limit.max(1) }
    }
}

impl Operator for Values {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        turn.take(0);
        let end = self.table.rows.min(self.next + self.limit);
        if end > self.next {
            let columns = &self.table.columns;
            let envelope = crate::boxes::envelope_of(turn, columns.len(), end - self.next, |builder| {
                for (place, column) in columns.iter().enumerate() {
                    builder.u64s(place).extend_from_slice(&column.ids[self.next..end]);
                }
            });
            turn.send(0, envelope);
            self.next = end;
        }
        if end == self.table.rows {
            turn.send_pill(0)
        } else {
            turn.run_again()
        }
        Ok(())
    }
}
