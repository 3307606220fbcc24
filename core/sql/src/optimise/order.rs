//! The order of inner joins: greedily, the pair with the fewest rows first. Fegaras, "A new heuristic for optimizing
//! large queries", DEXA 1998. We differ: pairs without an equality between them come last.

use super::estimate::{estimate, joined, share};
use super::push::push;
use crate::bind::equalities;
use crate::error::SqlError;
use crate::expression::{ColumnId, Comparison, Expr, Function};
use crate::relation::{JoinKind, Relation};
use std::collections::BTreeSet;
use vicus_language::Stop;

/// Joins these inputs under these conditions.
pub(super) fn ordered(
    leaves: Vec<Relation>,
    conditions: Vec<Expr>,
    columns: Vec<ColumnId>,
    stop: &Stop<'_>,
) -> Result<Relation, SqlError> {
    // The inputs that each condition reads.
    let mut of_leaves: Vec<Vec<Expr>> = leaves.iter().map(|_| Vec::new()).collect();
    let (mut open, mut constant) = (Vec::new(), Vec::new());
    for condition in conditions {
        let read = condition.columns();
        let first = leaves.iter().position(|leaf| read.iter().any(|column| leaf.has(*column)));
        match first {
            None => constant.push(condition),
            Some(leaf) if leaves[leaf].has_all(&condition) => of_leaves[leaf].push(condition),
            Some(_) => open.push((condition, read)),
        }
    }
    let mut items = Vec::with_capacity(leaves.len());
    for (leaf, conditions) in leaves.into_iter().zip(of_leaves) {
        let mut pushed = push(leaf, conditions, stop)?;
        estimate(&mut pushed);
        items.push((pushed.columns.iter().copied().collect::<BTreeSet<_>>(), pushed));
    }
    while items.len() > 1 {
        let mut best: Option<(bool, f64, usize, usize)> = None;
        for i in 0..items.len() {
            for j in i + 1..items.len() {
                stop.step(1 + open.len())?;
                let (a, b) = (&items[i], &items[j]);
                let (mut keys, mut others) = (0, 1.0);
                for (condition, read) in &open {
                    if joins(condition, &a.0, &b.0) {
                        keys += 1;
                    } else if read.iter().all(|column| a.0.contains(column) || b.0.contains(column)) {
                        others *= share(condition);
                    }
                }
                let rows = joined(&a.1, &b.1, keys) * others;
                let is_better = |&(cross, least, ..): &(bool, f64, usize, usize)| {
                    (keys == 0, rows).partial_cmp(&(cross, least)).is_some_and(|order| order.is_lt())
                };
                if best.as_ref().is_none_or(is_better) {
                    best = Some((keys == 0, rows, i, j));
                }
            }
        }
        let (_, rows, i, j) = best.expect("there are two");
        let (mut columns, b) = items.swap_remove(j);
        let (others, a) = items.swap_remove(i);
        columns.extend(others);
        let (now, later) = open.into_iter().partition(|(_, read)| read.is_subset(&columns));
        open = later;
        // The smaller side is put into the table.
        let (left, right) = if a.rows >= b.rows { (a, b) } else { (b, a) };
        let now: Vec<(Expr, BTreeSet<ColumnId>)> = now;
        let conditions = now.into_iter().map(|(condition, _)| condition).collect();
        let (keys, residual) = equalities(conditions, &left, &right);
        let mut join = Relation::join(left, right, JoinKind::Inner, keys, residual);
        join.rows = rows;
        items.push((columns, join));
    }
    let (_, joined) = items.pop().expect("there is one");
    let constant = constant.into_iter().chain(open.into_iter().map(|(condition, _)| condition)).collect();
    let mut filtered = Relation::filter(joined, constant);
    filtered.columns.retain(|column| columns.contains(column));
    if filtered.columns.len() < columns.len() {
        unreachable!("a join has the columns of its inputs");
    }
    Ok(filtered)
}

/// Whether a condition is an equality between the two sides.
fn joins(condition: &Expr, a: &BTreeSet<ColumnId>, b: &BTreeSet<ColumnId>) -> bool {
    let Expr::Call(Function::Compare(Comparison::Equal), sides, _) = condition else { return false };
    let (x, y) = (sides[0].columns(), sides[1].columns());
    let is_over = |read: &BTreeSet<ColumnId>, all: &BTreeSet<ColumnId>| !read.is_empty() && read.is_subset(all);
    (is_over(&x, a) && is_over(&y, b)) || (is_over(&x, b) && is_over(&y, a))
}
