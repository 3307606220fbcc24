//! Filters and projections: functions of each envelope.

use crate::evaluate::{Batch, evaluate, gather, selected};
use crate::expression::Expr;
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Operator, Turn};

/// Passes on the rows for which all conditions are true, with some of their columns.
pub(crate) struct Filter {
    conditions: Arc<[Expr]>,
    wanted: Arc<[usize]>,
}

impl Filter {
    pub(crate) fn new(conditions: &Arc<[Expr]>, wanted: &Arc<[usize]>) -> Filter {
        Filter { conditions: Arc::clone(conditions), wanted: Arc::clone(wanted) }
    }
}

impl Operator for Filter {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        if envelope.is_pill() {
            turn.send_pill(0);
            return Ok(());
        }
        let attached = envelope.attached().to_vec();
        let rows = envelope.rows();
        let batch = Batch { columns: envelope.into_columns(), rows };
        let passed = selected(&self.conditions, &batch)?;
        let columns = match passed.len() {
            0 => return Ok(()),
            all if all == rows => self.wanted.iter().map(|&column| batch.columns[column].clone()).collect(),
            _ => self.wanted.iter().map(|&column| gather(&batch.columns[column], &passed)).collect(),
        };
        turn.send(0, Envelope::of_rows(columns, passed.len()).with(&attached));
        Ok(())
    }
}

/// Computes each of its columns.
pub(crate) struct Project {
    exprs: Arc<[Expr]>,
}

impl Project {
    pub(crate) fn new(exprs: &Arc<[Expr]>) -> Project {
        Project { exprs: Arc::clone(exprs) }
    }
}

impl Operator for Project {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        if envelope.is_pill() {
            turn.send_pill(0);
            return Ok(());
        }
        let attached = envelope.attached().to_vec();
        let rows = envelope.rows();
        let batch = Batch { columns: envelope.into_columns(), rows };
        let column = |expr: &Expr| Ok(evaluate(expr, &batch)?.into_column(expr.kind(), rows));
        let columns = self.exprs.iter().map(column).collect::<Result<Vec<_>, BoxError>>()?;
        turn.send(0, Envelope::of_rows(columns, rows).with(&attached));
        Ok(())
    }
}
