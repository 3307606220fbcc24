//! Expressions over the rows of an envelope, a column at a time.

mod cast;
mod logic;
mod number;
mod parts;
mod room;
mod text;
mod time;
mod vector;

pub(crate) use cast::{can_cast, cast_value, parse_boolean, parse_double};
pub(crate) use room::{Room, Texts};
pub(crate) use vector::{Vector, column_of, gather, gathered, nulls};

use crate::expression::{ColumnId, Expr, Function};
use crate::types::{Form, SqlType, Value};
use std::collections::BTreeSet;
use vector::map;
use vicus_flow::{BoxError, Column};
use vicus_language::stack::deep;

/// Rows to compute with. Columns not read by an expression may have any content.
#[derive(Clone)]
pub(crate) struct Batch {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: usize,
}

impl Batch {
    /// Some of its rows: copies of the read columns.
    pub(crate) fn picked(&self, rows: &[u32], read: &BTreeSet<ColumnId>, room: &Room<'_>) -> Result<Batch, BoxError> {
        let pick = |(place, column): (usize, &Column)| match read.contains(&ColumnId(place as u32)) {
            true => gather(column, rows, room),
            false => Ok(column.slice(0..0)),
        };
        Ok(Batch { columns: self.columns.iter().enumerate().map(pick).collect::<Result<_, _>>()?, rows: rows.len() })
    }
}

/// Computes an expression over the batch's columns, named by their places. There is room for its texts before they are
/// made, and for the result's when this returns.
///
/// # Errors
/// A value is out of its type's range, a text can't be cast, or there is no room for a text.
pub(crate) fn evaluate(expr: &Expr, batch: &Batch, room: &Room<'_>) -> Result<Vector, BoxError> {
    match expr {
        Expr::Column(id, _) => Ok(Vector::Many(batch.columns[id.0 as usize].clone())),
        Expr::Literal(value, _) => Ok(Vector::One(value.clone())),
        Expr::Call(function, args, kind) => deep(|| call(function, args, kind, batch, room)),
    }
}

/// The value of an expression without columns.
///
/// # Errors
/// Errors of [`evaluate`].
pub(crate) fn constant(expr: &Expr, room: &Room<'_>) -> Result<Value, BoxError> {
    let before = room.held();
    let value = evaluate(expr, &Batch { columns: Vec::new(), rows: 1 }, room)?;
    let bytes = if value.is_one() { 0 } else { value.text_bytes() };
    // The copy.
    room.take(bytes)?;
    let value = value.value(0, &expr.kind());
    room.settle(before + bytes as u64);
    Ok(value)
}

/// The rows among these that meet all conditions. Each condition is computed for the rows left by those before it.
pub(crate) fn selected(conditions: &[Expr], batch: &Batch, room: &Room<'_>) -> Result<Vec<u32>, BoxError> {
    let mut rows: Vec<u32> = (0..batch.rows as u32).collect();
    let mut rest: Option<Batch> = None;
    for (place, condition) in conditions.iter().enumerate() {
        if rows.is_empty() {
            break;
        }
        let batch = rest.as_ref().unwrap_or(batch);
        let truth = evaluate(condition, batch, room)?;
        let truth = truth.values::<bool>();
        let passes: Vec<u32> = (0..batch.rows as u32).filter(|&row| truth.get(row as usize) == Some(true)).collect();
        if passes.len() == batch.rows {
            continue;
        }
        let read = conditions[place + 1..].iter().flat_map(Expr::columns).collect();
        let picked = batch.picked(&passes, &read, room)?;
        rows = passes.iter().map(|&row| rows[row as usize]).collect();
        rest = Some(picked);
    }
    Ok(rows)
}

fn call(
    function: &Function,
    args: &[Expr],
    kind: &SqlType,
    batch: &Batch,
    room: &Room<'_>,
) -> Result<Vector, BoxError> {
    let before = room.held();
    let value = match function {
        Function::Case => case(args, kind, batch, room)?,
        Function::Coalesce => coalesce(args, kind, batch, room)?,
        Function::And | Function::Or => logic::connect(matches!(function, Function::Or), args, batch, room)?,
        _ => {
            let values = args.iter().map(|arg| evaluate(arg, batch, room)).collect::<Result<Vec<_>, _>>()?;
            // Expressions independent of rows are computed once.
            if values.iter().all(Vector::is_one) && batch.rows != 1 {
                let one = computed(function, args, &values, kind, 1, room)?;
                room.take(one.text_bytes())?;
                Vector::One(one.value(0, kind))
            } else {
                computed(function, args, &values, kind, batch.rows, room)?
            }
        }
    };
    // All but the result is gone.
    room.settle(before + value.text_bytes() as u64);
    Ok(value)
}

fn computed(
    function: &Function,
    args: &[Expr],
    values: &[Vector],
    kind: &SqlType,
    rows: usize,
    room: &Room<'_>,
) -> Result<Vector, BoxError> {
    let of = |place: usize| args[place].kind();
    let computed: Result<Vector, BoxError> = match function {
        Function::Not => map(rows, values[0].values::<bool>(), |value| Ok(Some(!value))),
        Function::Compare(comparison) => logic::compare(*comparison, &values[0], &values[1], &of(0), rows),
        Function::IsDistinct => logic::is_distinct(&values[0], &values[1], &of(0), rows),
        Function::IsNull => logic::is_null(&values[0], rows),
        Function::IsTrue | Function::IsFalse => {
            let wanted = Some(matches!(function, Function::IsTrue));
            let truth = values[0].values::<bool>();
            Ok(Vector::Many((0..rows).map(|row| truth.get(row) == wanted).collect::<Vec<bool>>().into()))
        }
        Function::InSet(set) => logic::in_set(set, &values[0], &of(0), rows),
        Function::Cast(is_try) => cast::cast(&values[0], &of(0), kind, *is_try, rows, room),
        Function::Negate
        | Function::Add
        | Function::Subtract
        | Function::Multiply
        | Function::Divide
        | Function::Modulo
        | Function::Power
        | Function::Abs
        | Function::Sign
        | Function::Ceil
        | Function::Floor
        | Function::Round
        | Function::Sqrt
        | Function::Exp
        | Function::Ln
        | Function::Canonical => number::compute(function, args, values, kind, rows, room),
        Function::Length if of(0) != SqlType::Varchar => parts::compute(function, args, values, kind, rows, room),
        Function::Upper
        | Function::Lower
        | Function::Length
        | Function::Substring
        | Function::Left
        | Function::Right
        | Function::Trim(_)
        | Function::Replace
        | Function::Concat
        | Function::ConcatAll
        | Function::Position
        | Function::StartsWith
        | Function::Reverse
        | Function::Repeat
        | Function::Like(_) => text::compute(function, values, rows, room),
        Function::Extract(_)
        | Function::Truncate(_)
        | Function::AddInterval(_)
        | Function::AddDays
        | Function::DaysBetween => time::compute(function, values, &of(0), rows),
        Function::Item | Function::Part(_) | Function::Items | Function::Parts | Function::Contains => {
            parts::compute(function, args, values, kind, rows, room)
        }
        Function::And | Function::Or | Function::Case | Function::Coalesce => unreachable!("computed before"),
    };
    // Decimals are computed with as numbers, whose type is that of their units.
    Ok(match computed? {
        Vector::Many(column) if kind.form() == Form::Decimal => Vector::Many(vector::of_kind(column, kind)),
        other => other,
    })
}

/// Each value is computed only for its own rows, so a condition that guards a value from an error works.
fn case(args: &[Expr], kind: &SqlType, batch: &Batch, room: &Room<'_>) -> Result<Vector, BoxError> {
    // The rows not taken by a condition yet, and their batch.
    let mut rows: Vec<u32> = (0..batch.rows as u32).collect();
    let mut rest = batch.clone();
    let mut parts: Vec<(Vec<u32>, Vector)> = Vec::new();
    let (branches, otherwise) = args.split_at(args.len() - 1);
    let mut later: Vec<BTreeSet<ColumnId>> = vec![otherwise[0].columns()];
    for arg in branches.iter().rev() {
        let mut read = arg.columns();
        read.extend(later.last().expect("one more than branches"));
        later.push(read);
    }
    for (place, branch) in branches.chunks(2).enumerate() {
        if rows.is_empty() {
            break;
        }
        let truth = evaluate(&branch[0], &rest, room)?;
        let truth = truth.values::<bool>();
        let (taken, left): (Vec<u32>, Vec<u32>) =
            (0..rest.rows as u32).partition(|&row| truth.get(row as usize) == Some(true));
        if taken.is_empty() {
            continue;
        }
        let of_batch = |picked: &[u32]| picked.iter().map(|&row| rows[row as usize]).collect::<Vec<u32>>();
        let value = evaluate(&branch[1], &rest.picked(&taken, &branch[1].columns(), room)?, room)?;
        parts.push((of_batch(&taken), value));
        let read = &later[branches.len() - 2 * (place + 1)];
        let (left_rows, left_batch) = (of_batch(&left), rest.picked(&left, read, room)?);
        (rows, rest) = (left_rows, left_batch);
    }
    if !rows.is_empty() {
        let value = evaluate(&otherwise[0], &rest, room)?;
        if parts.is_empty() {
            return Ok(value);
        }
        parts.push((rows, value));
    }
    scatter(parts, kind, batch.rows, room)
}

fn coalesce(args: &[Expr], kind: &SqlType, batch: &Batch, room: &Room<'_>) -> Result<Vector, BoxError> {
    let mut rows: Vec<u32> = (0..batch.rows as u32).collect();
    let mut rest = batch.clone();
    let mut parts: Vec<(Vec<u32>, Vector)> = Vec::new();
    for (place, arg) in args.iter().enumerate() {
        if rows.is_empty() {
            break;
        }
        let value = evaluate(arg, &rest, room)?;
        let (nulls, others): (Vec<u32>, Vec<u32>) = (0..rest.rows as u32).partition(|&row| value.is_null(row as usize));
        if parts.is_empty() && (nulls.is_empty() || place + 1 == args.len()) {
            return Ok(value);
        }
        let of_batch = |picked: &[u32]| picked.iter().map(|&row| rows[row as usize]).collect::<Vec<u32>>();
        if place + 1 == args.len() {
            parts.push((rows, value));
            break;
        }
        parts.push((of_batch(&others), value.picked(&others, room)?));
        let read = args[place + 1..].iter().flat_map(Expr::columns).collect();
        let (left_rows, left_batch) = (of_batch(&nulls), rest.picked(&nulls, &read, room)?);
        (rows, rest) = (left_rows, left_batch);
    }
    scatter(parts, kind, batch.rows, room)
}

/// Puts values back to their rows; every row has one.
fn scatter(parts: Vec<(Vec<u32>, Vector)>, kind: &SqlType, rows: usize, room: &Room<'_>) -> Result<Vector, BoxError> {
    // For each row, its part and its place there.
    let mut from = vec![(0u32, 0u32); rows];
    let mut columns = Vec::with_capacity(parts.len());
    for (part, (of_rows, value)) in parts.into_iter().enumerate() {
        for (place, &row) in of_rows.iter().enumerate() {
            from[row as usize] = (part as u32, place as u32);
        }
        columns.push(value.into_column(kind, of_rows.len(), room)?);
    }
    let picked = from.iter().map(|&(part, place)| Some((&columns[part as usize], place as usize)));
    Ok(Vector::Many(gathered(kind, picked, room)?))
}
