//! Filters go down, as far as they keep their meaning.

use super::{folded, order};
use crate::error::SqlError;
use crate::expression::{ColumnId, Comparison, Expr, Function};
use crate::relation::{Join, JoinKind, Op, Relation};
use crate::table::ColumnRange;
use crate::types::Value;
use vicus_language::Stop;
use vicus_language::stack::deep;

/// An expression with up to this number of parts is computed twice rather than keep a filter from going down.
const SMALL: usize = 8;

/// The operator with these conditions applied to its rows.
pub(super) fn push(relation: Relation, conditions: Vec<Expr>, stop: &Stop<'_>) -> Result<Relation, SqlError> {
    deep(|| push_here(relation, conditions, stop))
}

fn push_here(relation: Relation, conditions: Vec<Expr>, stop: &Stop<'_>) -> Result<Relation, SqlError> {
    stop.step(1 + conditions.len())?;
    let Relation { op, columns, rows } = relation;
    match op {
        Op::Filter { input, conditions: own } => {
            // The conditions below are computed first.
            let mut all = Vec::with_capacity(own.len() + conditions.len());
            own.into_iter().chain(conditions).for_each(|one| folded(one).split_and(&mut all));
            all.retain(|one| *one != Expr::truth(true));
            let is_never = |one: &Expr| matches!(one, Expr::Literal(Value::Boolean(false) | Value::Null, _));
            if all.iter().any(is_never) {
                return Ok(Relation::none(columns));
            }
            push(*input, all, stop)
        }
        Op::Project { input, exprs } => {
            let of = |id: ColumnId| exprs.iter().find(|(known, _)| *known == id).map(|(_, expr)| expr);
            let goes = |one: &Expr| one.columns().into_iter().all(|id| of(id).is_some_and(|expr| expr.size() <= SMALL));
            let (down, kept): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(goes);
            let down = down.into_iter().map(|one| folded(substituted(one, &of))).collect();
            let input = Box::new(push(*input, down, stop)?);
            Ok(Relation::filter(Relation { op: Op::Project { input, exprs }, columns, rows }, kept))
        }
        Op::Scan { table, name, picked, mut ranges } => {
            for condition in &conditions {
                if let Some(range) = range(condition, &columns, &picked) {
                    ranges.push(range);
                }
            }
            Ok(Relation::filter(Relation { op: Op::Scan { table, name, picked, ranges }, columns, rows }, conditions))
        }
        Op::Join(join) => push_join(*join, columns, conditions, stop),
        Op::Aggregate { input, keys, folds } => {
            let of = |id: ColumnId| keys.iter().find(|(known, _)| *known == id).map(|(_, expr)| expr);
            let goes = |one: &Expr| {
                let columns = one.columns();
                !columns.is_empty() && columns.into_iter().all(|id| of(id).is_some())
            };
            let (down, kept): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(goes);
            let down = down.into_iter().map(|one| substituted(one, &of)).collect();
            let input = Box::new(push(*input, down, stop)?);
            Ok(Relation::filter(Relation { op: Op::Aggregate { input, keys, folds }, columns, rows }, kept))
        }
        Op::UnionAll { inputs } => {
            let mut pushed = Vec::with_capacity(inputs.len());
            for input in inputs {
                let renamed = renamed(&conditions, &columns, &input.columns);
                pushed.push(push(input, renamed, stop)?);
            }
            Ok(Relation { op: Op::UnionAll { inputs: pushed }, columns, rows })
        }
        Op::SetOperation { left, right, except, all } => {
            let (to_left, to_right) =
                (renamed(&conditions, &columns, &left.columns), renamed(&conditions, &columns, &right.columns));
            let left = Box::new(push(*left, to_left, stop)?);
            let right = Box::new(push(*right, to_right, stop)?);
            Ok(Relation { op: Op::SetOperation { left, right, except, all }, columns, rows })
        }
        Op::Sort { input, by, most } => {
            let (down, kept) = if most.is_none() { (conditions, Vec::new()) } else { (Vec::new(), conditions) };
            let input = Box::new(push(*input, down, stop)?);
            Ok(Relation::filter(Relation { op: Op::Sort { input, by, most }, columns, rows }, kept))
        }
        Op::Limit { input, offset, count } => {
            let mut input = push(*input, Vec::new(), stop)?;
            if let (Op::Sort { most, .. }, Some(count)) = (&mut input.op, count) {
                *most = offset.checked_add(count);
            }
            let input = Box::new(input);
            Ok(Relation::filter(Relation { op: Op::Limit { input, offset, count }, columns, rows }, conditions))
        }
        Op::Unnest { input, list, item } => {
            let goes = |one: &Expr| !one.columns().is_empty() && !one.columns().contains(&item);
            let (down, kept): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(goes);
            let input = Box::new(push(*input, down, stop)?);
            Ok(Relation::filter(Relation { op: Op::Unnest { input, list, item }, columns, rows }, kept))
        }
        Op::Single { input } => {
            let input = Box::new(push(*input, Vec::new(), stop)?);
            Ok(Relation::filter(Relation { op: Op::Single { input }, columns, rows }, conditions))
        }
        Op::Iterate { base, step, number, all } => {
            // A row that a condition leaves out may lead to one that it does not.
            let base = Box::new(push(*base, Vec::new(), stop)?);
            let step = Box::new(push(*step, Vec::new(), stop)?);
            Ok(Relation::filter(Relation { op: Op::Iterate { base, step, number, all }, columns, rows }, conditions))
        }
        op @ (Op::Values { .. } | Op::Round { .. }) => Ok(Relation::filter(Relation { op, columns, rows }, conditions)),
    }
}

fn push_join(join: Join, columns: Vec<ColumnId>, conditions: Vec<Expr>, stop: &Stop<'_>) -> Result<Relation, SqlError> {
    let mut join = join;
    // Rows added by an outer join don't pass a condition that is not true of nulls.
    if join.kind == JoinKind::Left && conditions.iter().any(|one| rejects_nulls(one, &join.right)) {
        join.kind = JoinKind::Inner;
    }
    match join.kind {
        JoinKind::Inner => {
            let mut leaves = Vec::new();
            let mut all = Vec::new();
            flatten(join, &mut leaves, &mut all);
            all.extend(conditions);
            order::ordered(leaves, all, columns, stop)
        }
        JoinKind::Full => {
            let left = push(join.left, Vec::new(), stop)?;
            let right = push(join.right, Vec::new(), stop)?;
            let op = Op::Join(Box::new(Join { left, right, ..join }));
            Ok(Relation::filter(Relation::new(op, columns), conditions))
        }
        JoinKind::Left | JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_) => {
            let of_left = |one: &Expr| !one.columns().is_empty() && join.left.has_all(one);
            let (to_left, kept): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(of_left);
            // A condition on right rows alone keeps other rows out of the table.
            let of_right = |one: &Expr| !one.columns().is_empty() && join.right.has_all(one);
            let (to_right, residual) = join.residual.into_iter().partition(of_right);
            let left = push(join.left, to_left, stop)?;
            let right = push(join.right, to_right, stop)?;
            let op = Op::Join(Box::new(Join { left, right, residual, ..join }));
            Ok(Relation::filter(Relation::new(op, columns), kept))
        }
    }
}

/// The inputs of neighbouring inner joins, and all their conditions.
fn flatten(join: Join, leaves: &mut Vec<Relation>, conditions: &mut Vec<Expr>) {
    let equal = |(left, right)| Expr::compare(Comparison::Equal, left, right);
    let Join { left, right, keys, residual, .. } = join;
    for side in [left, right] {
        let mut side = side;
        while let Op::Filter { input, conditions: own } = side.op {
            own.into_iter().for_each(|one| folded(one).split_and(conditions));
            side = *input;
        }
        match side.op {
            Op::Join(join) if join.kind == JoinKind::Inner => deep(|| flatten(*join, leaves, conditions)),
            op => leaves.push(Relation { op, ..side }),
        }
    }
    conditions.extend(keys.into_iter().map(equal));
    conditions.extend(residual);
}

fn substituted<'e>(condition: Expr, of: &dyn Fn(ColumnId) -> Option<&'e Expr>) -> Expr {
    condition.replaced(&mut |one| match one {
        Expr::Column(id, _) => of(*id).cloned(),
        _ => None,
    })
}

/// Conditions over the columns of one operator as conditions over those of another, place by place.
fn renamed(conditions: &[Expr], from: &[ColumnId], to: &[ColumnId]) -> Vec<Expr> {
    let rename = |one: &Expr| match one {
        Expr::Column(id, kind) => {
            let place = from.iter().position(|column| column == id)?;
            Some(Expr::Column(to[place], kind.clone()))
        }
        _ => None,
    };
    conditions.iter().map(|one| one.clone().replaced(&mut |part| rename(part))).collect()
}

/// Whether a condition is false or null for all rows with nulls in the columns of `relation`.
fn rejects_nulls(condition: &Expr, relation: &Relation) -> bool {
    match condition {
        Expr::Call(Function::Not, args, _) => match &args[0] {
            Expr::Call(Function::IsNull, args, _) => is_null_of_nulls(&args[0], relation),
            other => is_null_of_nulls(other, relation),
        },
        Expr::Call(Function::And, args, _) => deep(|| args.iter().any(|arg| rejects_nulls(arg, relation))),
        Expr::Call(Function::Or, args, _) => deep(|| args.iter().all(|arg| rejects_nulls(arg, relation))),
        Expr::Call(Function::IsTrue, args, _) => deep(|| rejects_nulls(&args[0], relation)),
        other => is_null_of_nulls(other, relation),
    }
}

/// Whether an expression is null if the columns of `relation` are.
fn is_null_of_nulls(expr: &Expr, relation: &Relation) -> bool {
    match expr {
        Expr::Column(id, _) => relation.has(*id),
        Expr::Literal(..) => false,
        Expr::Call(function, args, _) => {
            let is_strict = !matches!(
                function,
                Function::And
                    | Function::Or
                    | Function::IsDistinct
                    | Function::IsNull
                    | Function::IsTrue
                    | Function::IsFalse
                    | Function::Case
                    | Function::Coalesce
                    | Function::ConcatAll
                    | Function::Items
                    | Function::Parts
            );
            is_strict && deep(|| args.iter().any(|arg| is_null_of_nulls(arg, relation)))
        }
    }
}

/// A condition's range for a single column of a scan.
fn range(condition: &Expr, columns: &[ColumnId], picked: &[usize]) -> Option<ColumnRange> {
    let Expr::Call(function, args, _) = condition else { return None };
    let place = |expr: &Expr| match expr {
        Expr::Column(id, _) => columns.iter().position(|column| column == id).map(|place| picked[place]),
        _ => None,
    };
    let (comparison, column, value) = match (function, &args[..]) {
        (Function::InSet(set), [one]) => {
            let (least, greatest) = (set.values.first().cloned(), set.values.last().cloned());
            return Some(ColumnRange { column: place(one)?, least: Some(least?), greatest });
        }
        (Function::Compare(comparison), [column, Expr::Literal(value, _)]) => (*comparison, place(column)?, value),
        (Function::Compare(comparison), [Expr::Literal(value, _), column]) => {
            (comparison.flipped(), place(column)?, value)
        }
        _ => return None,
    };
    if *value == Value::Null {
        return None;
    }
    let (least, greatest) = match comparison {
        Comparison::Equal => (Some(value.clone()), Some(value.clone())),
        Comparison::Less | Comparison::LessOrEqual => (None, Some(value.clone())),
        Comparison::Greater | Comparison::GreaterOrEqual => (Some(value.clone()), None),
        Comparison::NotEqual => return None,
    };
    Some(ColumnRange { column, least, greatest })
}
