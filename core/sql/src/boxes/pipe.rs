//! Filters and projections: functions of each envelope.

use crate::evaluate::{Batch, Texts, evaluate, gather, selected};
use crate::expression::Expr;
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Operator, Turn};

/// Passes on the rows meeting all conditions, with some of their columns.
pub(crate) struct Filter {
    conditions: Arc<[Expr]>,
    wanted: Arc<[usize]>,
    texts: Texts,
}

impl Filter {
    pub(crate) fn new(conditions: &Arc<[Expr]>, wanted: &Arc<[usize]>) -> Filter {
        Filter { conditions: Arc::clone(conditions), wanted: Arc::clone(wanted), texts: Texts::default() }
    }
}

impl Operator for Filter {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        if envelope.is_pill() {
            self.texts.book(turn, 0, |_| Ok(()))?;
            turn.send_pill(0);
            return Ok(());
        }
        if turn.pass_mark(&envelope) {
            return Ok(());
        }
        let attached = envelope.attached().to_vec();
        let rows = envelope.rows();
        let batch = Batch { columns: envelope.into_columns(), rows };
        let Filter { conditions, wanted, texts } = self;
        let (columns, rows) = texts.book(turn, 0, |room| {
            let passed = selected(conditions, &batch, room)?;
            room.settle(0);
            let columns = wanted.iter().map(|&column| match passed.len() {
                all if all == rows => Ok(batch.columns[column].clone()),
                _ => gather(&batch.columns[column], &passed, room),
            });
            Ok((columns.collect::<Result<Vec<_>, BoxError>>()?, passed.len()))
        })?;
        if rows > 0 {
            turn.send(0, Envelope::of_rows(columns, rows).with(&attached));
        }
        Ok(())
    }
}

/// Computes each of its columns.
pub(crate) struct Project {
    exprs: Arc<[Expr]>,
    texts: Texts,
}

impl Project {
    pub(crate) fn new(exprs: &Arc<[Expr]>) -> Project {
        Project { exprs: Arc::clone(exprs), texts: Texts::default() }
    }
}

impl Operator for Project {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        if envelope.is_pill() {
            self.texts.book(turn, 0, |_| Ok(()))?;
            turn.send_pill(0);
            return Ok(());
        }
        if turn.pass_mark(&envelope) {
            return Ok(());
        }
        let attached = envelope.attached().to_vec();
        let rows = envelope.rows();
        let batch = Batch { columns: envelope.into_columns(), rows };
        let Project { exprs, texts } = self;
        let columns = texts.book(turn, 0, |room| {
            let column = |expr: &Expr| evaluate(expr, &batch, room)?.into_column(expr.kind_ref(), rows, room);
            exprs.iter().map(column).collect::<Result<Vec<_>, BoxError>>()
        })?;
        turn.send(0, Envelope::of_rows(columns, rows).with(&attached));
        Ok(())
    }
}
