//! Arithmetic: integers and decimals with an error on overflow, doubles as in IEEE 754.

use super::Room;
use super::vector::{Scalar, Vector, build, column_of, map, zip};
use crate::decimal;
use crate::expression::{Expr, Function};
use crate::types::{Form, SqlType, Value, canonical};
use std::fmt::Display;
use vicus_flow::BoxError;

/// `kind` is the type of the result.
pub(super) fn compute(
    function: &Function,
    args: &[Expr],
    values: &[Vector],
    kind: &SqlType,
    rows: usize,
    room: &Room<'_>,
) -> Result<Vector, BoxError> {
    let of = args[0].kind();
    match of.form() {
        Form::Double => doubles(function, values, rows),
        Form::Decimal => decimals(function, values, [&of, args.get(1).map_or(&of, |arg| arg.kind_ref())], kind, rows),
        Form::Parts => canonical_parts(&values[0], &of, rows, room),
        _ => integers(function, values, rows),
    }
}

/// Lists and structs with the one form of their doubles.
fn canonical_parts(value: &Vector, kind: &SqlType, rows: usize, room: &Room<'_>) -> Result<Vector, BoxError> {
    fn one(value: Value) -> Value {
        match value {
            Value::Double(value) => Value::Double(canonical(value)),
            Value::List(values) => Value::List(values.iter().cloned().map(one).collect()),
            Value::Struct(parts) => {
                Value::Struct(parts.iter().map(|(name, value)| (name.clone(), one(value.clone()))).collect())
            }
            other => other,
        }
    }
    let values: Vec<Value> = (0..rows).map(|row| one(value.value(row, kind))).collect();
    room.take(values.iter().map(|value| 2 * value.bytes_beside()).fold(0, usize::saturating_add))?;
    Ok(Vector::Many(column_of(kind, &values.iter().collect::<Vec<_>>())))
}

/// The digits behind the point.
fn scale_of(kind: &SqlType) -> u8 {
    if let SqlType::Decimal { scale, .. } = kind { *scale } else { 0 }
}

/// Arithmetic of decimals whose arguments have these types.
fn decimals(
    function: &Function,
    args: &[Vector],
    of: [&SqlType; 2],
    kind: &SqlType,
    rows: usize,
) -> Result<Vector, BoxError> {
    let [from, by] = of.map(scale_of);
    let (precision, to) = match kind {
        SqlType::Decimal { precision, scale } => (*precision, *scale),
        _ => (decimal::DIGITS, from),
    };
    let a = || args[0].values::<i128>();
    let b = || args[1].values::<i128>();
    let text = |units: i128, scale: u8| decimal::decimal_text(units, scale as i8);
    let fits = |units: Option<i128>, what: &dyn Fn() -> String| {
        let units = units.and_then(|units| decimal::within(units, precision));
        units.map(Some).ok_or_else(|| BoxError::from(format!("{} has too many digits for {kind}", what())))
    };
    let scaled = |units: i128, scale: u8| decimal::rescaled(units, scale, to);
    let two = |sign: &str, operation: &dyn Fn(i128, i128) -> Option<i128>| {
        zip(rows, a(), b(), |a, b| fits(operation(a, b), &|| format!("{} {sign} {}", text(a, from), text(b, by))))
    };
    let one = |operation: &dyn Fn(i128) -> Option<i128>| map(rows, a(), |a| fits(operation(a), &|| text(a, from)));
    let unit = decimal::power(from);
    match function {
        Function::Add => two("+", &|a, b| scaled(a, from)?.checked_add(scaled(b, by)?)),
        Function::Subtract => two("-", &|a, b| scaled(a, from)?.checked_sub(scaled(b, by)?)),
        Function::Multiply => two("*", &|a, b| a.checked_mul(b)),
        Function::Modulo => zip(rows, a(), b(), |a, b| {
            if b == 0 {
                return Ok(None);
            }
            let rest = scaled(a, from).zip(scaled(b, by)).map(|(a, b)| a.checked_rem(b).unwrap_or(0));
            fits(rest, &|| format!("{} % {}", text(a, from), text(b, by)))
        }),
        Function::Negate => one(&|a| Some(-a)),
        Function::Abs => one(&|a| Some(a.abs())),
        Function::Sign => map(rows, a(), |a| Ok(Some(a.signum() as i64))),
        Function::Ceil => one(&|a| Some(a.div_euclid(unit) + i128::from(a.rem_euclid(unit) > 0))),
        Function::Floor => one(&|a| Some(a.div_euclid(unit))),
        Function::Canonical => Ok(args[0].clone()),
        Function::Round if args.len() == 1 => one(&|a| Some(decimal::divided(a, unit))),
        // To digits that stand in the statement, which the scale of the result is, or to digits before the point.
        Function::Round => zip(rows, a(), args[1].values::<i64>(), |a, digits| {
            let before = u8::try_from((-digits).clamp(0, i64::from(decimal::DIGITS))).unwrap_or(0);
            let rounded = match before {
                0 => scaled(a, from),
                before if from + before > decimal::DIGITS => Some(0),
                before => decimal::divided(a, decimal::power(from + before)).checked_mul(decimal::power(before)),
            };
            fits(rounded, &|| text(a, from))
        }),
        other => unreachable!("{other:?} is not of decimals"),
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
