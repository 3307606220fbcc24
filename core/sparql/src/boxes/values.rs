//! Source: a table that stands in the query.

use crate::algebra::Table;
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Operator, Turn};

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
            let columns = self.table.columns.iter().map(|column| column.ids[self.next..end].to_vec().into()).collect();
            turn.send(0, Envelope::of_rows(columns, end - self.next));
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
