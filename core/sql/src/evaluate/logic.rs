//! Comparisons and three-valued logic.

use super::vector::{Vector, build, zip};
use super::{Batch, Room, evaluate};
use crate::expression::{Comparison, Expr, Set};
use crate::types::{Form, SqlType, Value, order_doubles};
use std::cmp::Ordering;
use vicus_flow::BoxError;

/// AND, or OR: the value that decides is `is_or`.
pub(super) fn connect(is_or: bool, args: &[Expr], batch: &Batch, room: &Room<'_>) -> Result<Vector, BoxError> {
    // For each row: decided, or else null if any argument was.
    let (mut decided, mut unknown) = (vec![false; batch.rows], vec![false; batch.rows]);
    for arg in args {
        let truth = evaluate(arg, batch, room)?;
        let truth = truth.values::<bool>();
        for row in 0..batch.rows {
            match truth.get(row) {
                Some(value) => decided[row] |= value == is_or,
                None => unknown[row] = true,
            }
        }
    }
    build(batch.rows, |row| Ok(if decided[row] { Some(is_or) } else { (!unknown[row]).then_some(!is_or) }))
}

fn holds(comparison: Comparison, order: Ordering) -> bool {
    match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
}

pub(super) fn compare(
    comparison: Comparison,
    a: &Vector,
    b: &Vector,
    kind: &SqlType,
    rows: usize,
) -> Result<Vector, BoxError> {
    let to = |order: Ordering| Ok(Some(holds(comparison, order)));
    match kind.form() {
        Form::Truth => zip(rows, a.values::<bool>(), b.values::<bool>(), |a, b| to(a.cmp(&b))),
        Form::Integer => zip(rows, a.values::<i64>(), b.values::<i64>(), |a, b| to(a.cmp(&b))),
        Form::Double => zip(rows, a.values::<f64>(), b.values::<f64>(), |a, b| to(order_doubles(a, b))),
        Form::Decimal => zip(rows, a.values::<i128>(), b.values::<i128>(), |a, b| to(a.cmp(&b))),
        Form::Days => zip(rows, a.values::<i32>(), b.values::<i32>(), |a, b| to(a.cmp(&b))),
        Form::Bytes if *kind == SqlType::Varchar => {
            let (a, b) = (a.texts(), b.texts());
            build(rows, |row| match (a.get(row), b.get(row)) {
                (Some(a), Some(b)) => to(a.as_bytes().cmp(b.as_bytes())),
                _ => Ok(None),
            })
        }
        // Nulls within them are equal, and greater than all values.
        Form::Bytes | Form::Parts => {
            build(rows, |row| a.value(row, kind).order(&b.value(row, kind)).map_or(Ok(None), to))
        }
    }
}

pub(super) fn is_distinct(a: &Vector, b: &Vector, kind: &SqlType, rows: usize) -> Result<Vector, BoxError> {
    let differ = compare(Comparison::NotEqual, a, b, kind, rows)?;
    let differ = differ.values::<bool>();
    build(rows, |row| Ok(Some(differ.get(row).unwrap_or_else(|| a.is_null(row) != b.is_null(row)))))
}

pub(super) fn is_null(a: &Vector, rows: usize) -> Result<Vector, BoxError> {
    build(rows, |row| Ok(Some(a.is_null(row))))
}

pub(super) fn in_set(set: &Set, a: &Vector, kind: &SqlType, rows: usize) -> Result<Vector, BoxError> {
    let found = |found: bool| Ok(if found { Some(true) } else { (!set.has_null).then_some(false) });
    let has = |order: &dyn Fn(&Value) -> Ordering| found(set.values.binary_search_by(order).is_ok());
    if *kind == SqlType::Varchar {
        let texts = a.texts();
        return build(rows, |row| match texts.get(row) {
            Some(text) => has(&|value| match value {
                Value::Varchar(other) => other.as_bytes().cmp(text.as_bytes()),
                _ => Ordering::Less,
            }),
            None => Ok(None),
        });
    }
    build(rows, |row| match a.value(row, kind) {
        Value::Null => Ok(None),
        wanted => has(&|value| value.order(&wanted).unwrap_or(Ordering::Less)),
    })
}
