//! Source: a table that stands in the query.

use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Operator, Turn};

/// A small table by columns; also the one solution without variables, and no solution at all.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Vec<u64>>,
    pub(crate) rows: usize,
}

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
            let columns = self.table.columns.iter().map(|column| column[self.next..end].to_vec().into()).collect();
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
