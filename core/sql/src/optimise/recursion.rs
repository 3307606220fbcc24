//! Recursive queries: the rows that go round are looked up in tables that are built once.

use crate::relation::{Columns, Join, JoinKind, Op, Relation};
use vicus_language::stack::deep;

/// Puts the rows that go round to the left side of inner joins, whose right side becomes a table. A recursive query
/// whose step reads none any more, because its conditions are never met, is its first query.
pub(super) fn oriented(relation: Relation, known: &Columns) -> Relation {
    let Relation { op, columns, rows } = relation;
    let op = match op {
        Op::Iterate { base, step, number, all } => {
            let base = Box::new(deep(|| oriented(*base, known)));
            if !step.reads_round(number) {
                return first_query(*base, columns, all, known);
            }
            Op::Iterate { base, step: Box::new(deep(|| left(oriented(*step, known), number))), number, all }
        }
        Op::Project { input, exprs } => Op::Project { input: Box::new(deep(|| oriented(*input, known))), exprs },
        Op::Filter { input, conditions } => {
            Op::Filter { input: Box::new(deep(|| oriented(*input, known))), conditions }
        }
        Op::Join(join) => {
            let Join { left, right, kind, keys, residual, is_null_aware, membership } = *join;
            let (left, right) = (deep(|| oriented(left, known)), deep(|| oriented(right, known)));
            Op::Join(Box::new(Join { left, right, kind, keys, residual, is_null_aware, membership }))
        }
        Op::Aggregate { input, keys, folds } => {
            Op::Aggregate { input: Box::new(deep(|| oriented(*input, known))), keys, folds }
        }
        Op::UnionAll { inputs } => {
            Op::UnionAll { inputs: inputs.into_iter().map(|input| deep(|| oriented(input, known))).collect() }
        }
        Op::SetOperation { left, right, except, all } => {
            let left = Box::new(deep(|| oriented(*left, known)));
            let right = Box::new(deep(|| oriented(*right, known)));
            Op::SetOperation { left, right, except, all }
        }
        Op::Sort { input, by, most } => Op::Sort { input: Box::new(deep(|| oriented(*input, known))), by, most },
        Op::Limit { input, offset, count } => {
            Op::Limit { input: Box::new(deep(|| oriented(*input, known))), offset, count }
        }
        Op::Unnest { input, list, item } => {
            Op::Unnest { input: Box::new(deep(|| oriented(*input, known))), list, item }
        }
        Op::Single { input } => Op::Single { input: Box::new(deep(|| oriented(*input, known))) },
        op @ (Op::Scan { .. } | Op::Values { .. } | Op::Round { .. }) => op,
    };
    Relation { op, columns, rows }
}

fn first_query(base: Relation, columns: Vec<crate::expression::ColumnId>, all: bool, known: &Columns) -> Relation {
    let exprs = columns.iter().zip(&base.columns).map(|(&id, &from)| (id, known.expr(from))).collect();
    let first = Relation::project(base, exprs);
    if all {
        return first;
    }
    let keys = columns.iter().map(|&id| (id, known.expr(id))).collect();
    Relation::new(Op::Aggregate { input: Box::new(first), keys, folds: Vec::new() }, columns)
}

/// The step with the round's rows to the left of each inner join.
fn left(relation: Relation, number: usize) -> Relation {
    let Relation { op, columns, rows } = relation;
    let op = match op {
        Op::Project { input, exprs } => Op::Project { input: Box::new(deep(|| left(*input, number))), exprs },
        Op::Filter { input, conditions } => Op::Filter { input: Box::new(deep(|| left(*input, number))), conditions },
        Op::Join(mut join) => {
            if join.kind == JoinKind::Inner && join.right.reads_round(number) {
                std::mem::swap(&mut join.left, &mut join.right);
                join.keys.iter_mut().for_each(|(a, b)| std::mem::swap(a, b));
            }
            let Join { left: first, right, kind, keys, residual, is_null_aware, membership } = *join;
            let first = deep(|| left(first, number));
            Op::Join(Box::new(Join { left: first, right, kind, keys, residual, is_null_aware, membership }))
        }
        op => op,
    };
    Relation { op, columns, rows }
}
