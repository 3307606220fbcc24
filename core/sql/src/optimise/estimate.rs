//! About how many rows operators make. Tables tell no more than their sizes, so the shares of filters are rules of
//! thumb: Selinger et al., "Access path selection in a relational database management system", SIGMOD 1979, table 1.

use crate::expression::{Comparison, Expr, Function};
use crate::relation::{JoinKind, Op, Relation};
use vicus_language::stack::deep;

/// Rows of a table without an estimate.
const UNKNOWN: f64 = 100_000.0;

/// Rounds of a recursive query, and the rows of a round, as a guess.
const ROUNDS: f64 = 10.0;
const OF_ROUND: f64 = 100.0;

/// Values of a list, as a guess.
const OF_LIST: f64 = 4.0;

/// Sets the estimates of an operator and of all below it.
pub(crate) fn estimate(relation: &mut Relation) {
    let rows = match &mut relation.op {
        Op::Scan { table, .. } => table.rows().map_or(UNKNOWN, |rows| rows as f64),
        Op::Values { rows } => rows.len() as f64,
        Op::Project { input, .. } | Op::Sort { input, most: None, .. } => {
            deep(|| estimate(input));
            input.rows
        }
        Op::Sort { input, most: Some(most), .. } => {
            deep(|| estimate(input));
            input.rows.min(*most as f64)
        }
        Op::Filter { input, conditions } => {
            deep(|| estimate(input));
            input.rows * conditions.iter().map(share).product::<f64>()
        }
        Op::Join(join) => {
            deep(|| estimate(&mut join.left));
            deep(|| estimate(&mut join.right));
            let others = join.residual.iter().map(share).product::<f64>();
            let pairs = joined(&join.left, &join.right, join.keys.len()) * others;
            match join.kind {
                JoinKind::Inner => pairs,
                JoinKind::Left => pairs.max(join.left.rows),
                JoinKind::Full => pairs.max(join.left.rows + join.right.rows),
                JoinKind::Semi | JoinKind::Anti => join.left.rows / 2.0,
                JoinKind::Mark(_) => join.left.rows,
            }
        }
        Op::Aggregate { input, keys, .. } => {
            deep(|| estimate(input));
            if keys.is_empty() { 1.0 } else { input.rows.powf(0.75) }
        }
        Op::UnionAll { inputs } => {
            inputs.iter_mut().for_each(|input| deep(|| estimate(input)));
            inputs.iter().map(|input| input.rows).sum()
        }
        Op::SetOperation { left, right, .. } => {
            deep(|| estimate(left));
            deep(|| estimate(right));
            left.rows
        }
        Op::Limit { input, offset, count } => {
            deep(|| estimate(input));
            let rows = (input.rows - *offset as f64).max(0.0);
            count.map_or(rows, |count| rows.min(count as f64))
        }
        Op::Iterate { base, step, .. } => {
            deep(|| estimate(base));
            deep(|| estimate(step));
            ROUNDS * (base.rows + step.rows)
        }
        Op::Round { .. } => OF_ROUND,
        Op::Unnest { input, .. } => {
            deep(|| estimate(input));
            input.rows * OF_LIST
        }
        Op::Single { input } => {
            deep(|| estimate(input));
            1.0
        }
    };
    relation.rows = rows;
}

/// The rows of an inner join by this number of equalities, of inputs with known estimates.
pub(super) fn joined(left: &Relation, right: &Relation, keys: usize) -> f64 {
    let product = left.rows * right.rows;
    if keys == 0 {
        return product;
    }
    // As if each key of the larger table, before its filters, came once.
    let values = base(left).max(base(right)).max(1.0);
    (product / values * 0.7f64.powi(keys as i32 - 1)).max(1.0)
}

/// The rows without filters.
fn base(relation: &Relation) -> f64 {
    deep(|| match &relation.op {
        Op::Filter { input, .. } | Op::Project { input, .. } => base(input),
        Op::Join(join) => match join.kind {
            JoinKind::Inner | JoinKind::Full => base(&join.left).max(base(&join.right)),
            _ => base(&join.left),
        },
        _ => relation.rows,
    })
}

/// The share of rows meeting a condition.
pub(super) fn share(condition: &Expr) -> f64 {
    let Expr::Call(function, args, _) = condition else { return 0.5 };
    match function {
        Function::And => deep(|| args.iter().map(share).product()),
        Function::Or => deep(|| args.iter().map(share).sum::<f64>().min(0.9)),
        Function::Not => deep(|| 1.0 - share(&args[0])).max(0.1),
        Function::Compare(Comparison::Equal) => 0.05,
        Function::Compare(Comparison::NotEqual) => 0.9,
        Function::Compare(_) => 0.4,
        Function::InSet(set) => (0.05 * set.values.len() as f64).min(0.5),
        Function::Like(_) => 0.1,
        Function::IsNull => 0.1,
        _ => 0.5,
    }
}
