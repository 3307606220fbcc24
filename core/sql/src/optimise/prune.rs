//! Leaves out unread columns, down to the scans.

use crate::error::SqlError;
use crate::expression::{ColumnId, Expr};
use crate::relation::{Columns, Join, JoinKind, Op, Relation};
use std::collections::BTreeSet;
use vicus_language::Stop;
use vicus_language::stack::deep;

type Needed = BTreeSet<ColumnId>;

/// The operator with the needed columns. It has more if it can't do without one.
pub(super) fn prune(
    relation: Relation,
    needed: &Needed,
    known: &Columns,
    stop: &Stop<'_>,
) -> Result<Relation, SqlError> {
    deep(|| prune_here(relation, needed, known, stop))
}

fn with<'e>(needed: &Needed, exprs: impl IntoIterator<Item = &'e Expr>) -> Needed {
    let mut all = needed.clone();
    exprs.into_iter().for_each(|expr| all.extend(expr.columns()));
    all
}

fn prune_here(relation: Relation, needed: &Needed, known: &Columns, stop: &Stop<'_>) -> Result<Relation, SqlError> {
    stop.step(1 + relation.columns.len())?;
    let Relation { op, mut columns, rows } = relation;
    let is_needed = |column: &ColumnId| needed.contains(column);
    let op = match op {
        Op::Scan { table, name, picked, ranges } => {
            let kept = columns.iter().zip(picked).filter(|(column, _)| is_needed(column));
            let picked = kept.map(|(_, place)| place).collect();
            columns.retain(is_needed);
            Op::Scan { table, name, picked, ranges }
        }
        Op::Values { rows } => {
            let kept: Vec<bool> = columns.iter().map(is_needed).collect();
            let pick =
                |row: Vec<_>| row.into_iter().zip(&kept).filter(|(_, kept)| **kept).map(|(value, _)| value).collect();
            columns.retain(is_needed);
            Op::Values { rows: rows.into_iter().map(pick).collect() }
        }
        Op::Project { input, mut exprs } => {
            exprs.retain(|(column, _)| is_needed(column));
            columns.retain(is_needed);
            let below = with(&Needed::new(), exprs.iter().map(|(_, expr)| expr));
            let input = prune(*input, &below, known, stop)?;
            // Nothing is computed: the input has these columns.
            if exprs.iter().all(|(id, expr)| matches!(expr, Expr::Column(from, _) if from == id))
                && input.columns == columns
            {
                return Ok(input);
            }
            Op::Project { input: Box::new(input), exprs }
        }
        Op::Filter { input, conditions } => {
            let input = Box::new(prune(*input, &with(needed, &conditions), known, stop)?);
            columns = input.columns.iter().copied().filter(|column| is_needed(column)).collect();
            Op::Filter { input, conditions }
        }
        Op::Join(join) => {
            let Join { left, right, kind, keys, residual, is_null_aware, membership } = *join;
            let exprs = keys.iter().flat_map(|(left, right)| [left, right]).chain(&residual).chain(&membership);
            let below = with(needed, exprs);
            let left = prune(left, &below, known, stop)?;
            let right = prune(right, &below, known, stop)?;
            columns = left.columns.iter().copied().filter(|column| is_needed(column)).collect();
            match kind {
                JoinKind::Inner | JoinKind::Left | JoinKind::Full => {
                    columns.extend(right.columns.iter().filter(|column| is_needed(column)));
                }
                JoinKind::Semi | JoinKind::Anti => {}
                JoinKind::Mark(mark) => columns.extend(Some(mark).filter(|mark| is_needed(mark))),
            }
            Op::Join(Box::new(Join { left, right, kind, keys, residual, is_null_aware, membership }))
        }
        Op::Aggregate { input, keys, mut folds } => {
            folds.retain(|fold| is_needed(&fold.output));
            columns.retain(is_needed);
            let arguments = folds.iter().filter_map(|fold| fold.argument.as_ref());
            let below = with(&Needed::new(), keys.iter().map(|(_, key)| key).chain(arguments));
            Op::Aggregate { input: Box::new(prune(*input, &below, known, stop)?), keys, folds }
        }
        Op::UnionAll { inputs } => {
            let kept: Vec<usize> = (0..columns.len()).filter(|&place| is_needed(&columns[place])).collect();
            let mut pruned = Vec::with_capacity(inputs.len());
            for input in inputs {
                let wanted: Vec<ColumnId> = kept.iter().map(|&place| input.columns[place]).collect();
                let input = prune(input, &wanted.iter().copied().collect(), known, stop)?;
                pruned.push(exactly(input, &wanted, known));
            }
            columns.retain(is_needed);
            Op::UnionAll { inputs: pruned }
        }
        Op::SetOperation { left, right, except, all } => {
            let whole = |side: Relation| {
                let wanted = side.columns.clone();
                let side = prune(side, &wanted.iter().copied().collect(), known, stop)?;
                Ok::<_, SqlError>(Box::new(exactly(side, &wanted, known)))
            };
            Op::SetOperation { left: whole(*left)?, right: whole(*right)?, except, all }
        }
        Op::Iterate { base, step, number, all } => {
            let whole = |side: Relation| {
                let wanted = side.columns.clone();
                let side = prune(side, &wanted.iter().copied().collect(), known, stop)?;
                Ok::<_, SqlError>(Box::new(exactly(side, &wanted, known)))
            };
            Op::Iterate { base: whole(*base)?, step: whole(*step)?, number, all }
        }
        // All columns go round.
        op @ Op::Round { .. } => op,
        Op::Sort { input, by, most } => {
            let mut below = needed.clone();
            below.extend(by.iter().map(|by| by.column));
            let input = Box::new(prune(*input, &below, known, stop)?);
            columns.clone_from(&input.columns);
            Op::Sort { input, by, most }
        }
        Op::Limit { input, offset, count } => {
            let input = Box::new(prune(*input, needed, known, stop)?);
            columns.clone_from(&input.columns);
            Op::Limit { input, offset, count }
        }
        Op::Unnest { input, list, item } => {
            let mut below = with(needed, [&list]);
            below.remove(&item);
            let input = Box::new(prune(*input, &below, known, stop)?);
            columns = input.columns.iter().copied().chain([item]).filter(is_needed).collect();
            Op::Unnest { input, list, item }
        }
        Op::Single { input } => {
            let input = Box::new(prune(*input, needed, known, stop)?);
            columns.clone_from(&input.columns);
            Op::Single { input }
        }
    };
    Ok(Relation { op, columns, rows })
}

/// An operator with these columns in this order.
pub(super) fn exactly(relation: Relation, wanted: &[ColumnId], known: &Columns) -> Relation {
    if relation.columns == wanted {
        return relation;
    }
    let exprs = wanted.iter().map(|&id| (id, known.expr(id))).collect();
    Relation::project(relation, exprs)
}
