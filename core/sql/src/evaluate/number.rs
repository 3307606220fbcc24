//! Arithmetic: integers with an error on overflow, doubles as in IEEE 754.

use super::vector::{Scalar, Vector, build, map, zip};
use crate::expression::Function;
use crate::types::{SqlType, canonical};
use std::fmt::Display;
use vicus_flow::BoxError;

pub(super) fn compute(function: &Function, args: &[Vector], kind: SqlType, rows: usize) -> Result<Vector, BoxError> {
    match kind {
        SqlType::Double => doubles(function, args, rows),
        _ => integers(function, args, rows),
    }
}

fn too_large(what: &str, a: impl Display, b: impl Display) -> BoxError {
    format!("{a} {what} {b} is no bigint: it has more than 64 bits").into()
}

fn integers(function: &Function, args: &[Vector], rows: usize) -> Result<Vector, BoxError> {
    let a = || args[0].values::<i64>();
    let b = || args[1].values::<i64>();
    let checked = |sign: &'static str, operation: fn(i64, i64) -> Option<i64>| {
        zip(rows, a(), b(), |a, b| operation(a, b).map(Some).ok_or_else(|| too_large(sign, a, b)))
    };
    match function {
        Function::Add => checked("+", i64::checked_add),
        Function::Subtract => checked("-", i64::checked_sub),
        Function::Multiply => checked("*", i64::checked_mul),
        Function::Divide => zip(rows, a(), b(), |a, b| match b {
            0 => Ok(None),
            _ => a.checked_div(b).map(Some).ok_or_else(|| too_large("/", a, b)),
        }),
        Function::Modulo => {
            zip(rows, a(), b(), |a, b| Ok(if b == 0 { None } else { Some(a.checked_rem(b).unwrap_or(0)) }))
        }
        Function::Negate => map(rows, a(), |a| a.checked_neg().map(Some).ok_or_else(|| too_large("-", 0, a))),
        Function::Abs => map(rows, a(), |a| a.checked_abs().map(Some).ok_or_else(|| too_large("-", 0, a))),
        Function::Sign => map(rows, a(), |a| Ok(Some(a.signum()))),
        Function::Ceil | Function::Floor | Function::Canonical => Ok(args[0].clone()),
        Function::Round if args.len() == 1 => Ok(args[0].clone()),
        Function::Round => zip(rows, a(), b(), |a, digits| match digits {
            0.. => Ok(Some(a)),
            -18..=-1 => {
                // Half a unit is added away from zero; results beyond 64 bits are an error.
                let unit = 10i128.pow(digits.unsigned_abs() as u32);
                let half = i128::from(a.signum()) * unit / 2;
                let rounded = (i128::from(a) + half) / unit * unit;
                i64::try_from(rounded).map(Some).map_err(|_| too_large("rounded to", a, digits))
            }
            _ => Ok(Some(0)),
        }),
        other => unreachable!("{other:?} is not of integers"),
    }
}

fn doubles(function: &Function, args: &[Vector], rows: usize) -> Result<Vector, BoxError> {
    let a = || args[0].values::<f64>();
    let b = || args[1].values::<f64>();
    let of = |operation: fn(f64) -> f64| map(rows, a(), |a| Ok(Some(operation(a))));
    // Undefined results are null.
    let defined = |value: f64| Ok((!value.is_nan()).then_some(value));
    match function {
        Function::Add => zip(rows, a(), b(), |a, b| Ok(Some(a + b))),
        Function::Subtract => zip(rows, a(), b(), |a, b| Ok(Some(a - b))),
        Function::Multiply => zip(rows, a(), b(), |a, b| Ok(Some(a * b))),
        Function::Divide => zip(rows, a(), b(), |a, b| Ok((b != 0.0).then(|| a / b))),
        Function::Modulo => zip(rows, a(), b(), |a, b| Ok((b != 0.0).then(|| a % b))),
        Function::Power => zip(rows, a(), b(), |a, b| defined(libm::pow(a, b))),
        Function::Negate => of(|a| -a),
        Function::Abs => of(f64::abs),
        Function::Sign => of(|a| if a == 0.0 || a.is_nan() { 0.0 } else { a.signum() }),
        Function::Ceil => of(f64::ceil),
        Function::Floor => of(f64::floor),
        Function::Sqrt => map(rows, a(), |a| defined(a.sqrt())),
        Function::Exp => of(libm::exp),
        Function::Ln => map(rows, a(), |a| Ok((a > 0.0).then(|| libm::log(a)))),
        Function::Canonical => of(canonical),
        Function::Round if args.len() == 1 => of(f64::round),
        Function::Round => {
            let digits = args[1].values::<i64>();
            build(rows, |row| match (f64::of_row(&args[0], row), digits.get(row)) {
                (Some(value), Some(digits)) => Ok(Some(rounded(value, digits))),
                _ => Ok(None),
            })
        }
        other => unreachable!("{other:?} is not of doubles"),
    }
}

/// A value of one row.
trait OfRow: Scalar {
    fn of_row(vector: &Vector, row: usize) -> Option<Self> {
        vector.values::<Self>().get(row)
    }
}

impl OfRow for f64 {}

/// Rounds to `digits` digits behind the point: half a unit goes away from zero.
fn rounded(value: f64, digits: i64) -> f64 {
    let scale = libm::pow(10.0, digits.clamp(-400, 400).unsigned_abs() as f64);
    let result = if digits >= 0 { (value * scale).round() / scale } else { (value / scale).round() * scale };
    // Beyond the precision of doubles, or their range.
    if result.is_finite() || !value.is_finite() {
        result
    } else if digits < 0 {
        0.0
    } else {
        value
    }
}
