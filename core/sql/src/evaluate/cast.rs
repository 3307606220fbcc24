//! Values of one type as values of another.

use super::Room;
use super::vector::{Scalar, Vector, build, build_texts, map};
use crate::date::{self, DAY};
use crate::types::{SqlType, Value};
use std::fmt::Write;
use vicus_flow::{BoxError, Native};

/// Whether values of a type can be cast to another one.
pub(crate) fn can_cast(from: SqlType, to: SqlType) -> bool {
    use SqlType::{BigInt, Boolean, Date, Double, Timestamp, Varchar};
    match (from, to) {
        (a, b) if a == b => true,
        (Varchar, _) | (_, Varchar) => true,
        (Boolean, BigInt | Double) | (BigInt | Double, Boolean) => true,
        (BigInt, Double) | (Double, BigInt) | (Date, Timestamp) | (Timestamp, Date) => true,
        _ => false,
    }
}

/// The longest text of a value that is none: of a time, with a year of many digits.
const LONGEST: usize = 40;

pub(super) fn cast(
    value: &Vector,
    from: SqlType,
    to: SqlType,
    is_try: bool,
    rows: usize,
    room: &Room<'_>,
) -> Result<Vector, BoxError> {
    if from == to {
        return Ok(value.clone());
    }
    // Where it fails: null, or an error.
    fn or_null<R>(result: Option<R>, is_try: bool, error: impl FnOnce() -> BoxError) -> Result<Option<R>, BoxError> {
        if result.is_some() || is_try { Ok(result) } else { Err(error()) }
    }
    fn read<R: Native>(
        value: &Vector,
        to: SqlType,
        is_try: bool,
        rows: usize,
        parse: impl Fn(&str) -> Option<R>,
    ) -> Result<Vector, BoxError> {
        let texts = value.texts();
        build(rows, |row| match texts.get(row) {
            Some(text) => or_null(parse(text), is_try, || unreadable(text, to)),
            None => Ok(None),
        })
    }
    match (from, to) {
        (SqlType::Varchar, SqlType::Boolean) => read(value, to, is_try, rows, parse_boolean),
        (SqlType::Varchar, SqlType::BigInt) => read(value, to, is_try, rows, |text| text.trim().parse::<i64>().ok()),
        (SqlType::Varchar, SqlType::Double) => read(value, to, is_try, rows, parse_double),
        (SqlType::Varchar, SqlType::Date) => {
            // A timestamp's date is one.
            read(value, to, is_try, rows, |text| {
                date::parse_date(text)
                    .or_else(|| date::parse_timestamp(text).map(|micros| date::split(micros).0 as i32))
            })
        }
        (SqlType::Varchar, SqlType::Timestamp) => read(value, to, is_try, rows, date::parse_timestamp),
        (_, SqlType::Varchar) => {
            fn written<T: Scalar>(
                value: &Vector,
                rows: usize,
                room: &Room<'_>,
                write: impl Fn(T, &mut String) -> std::fmt::Result,
            ) -> Result<Vector, BoxError> {
                let values = value.values::<T>();
                build_texts(
                    rows,
                    room,
                    |_| LONGEST,
                    |row, all| {
                        Ok(match values.get(row) {
                            Some(value) => Some(write(value, all)?),
                            None => None,
                        })
                    },
                )
            }
            match from {
                SqlType::Boolean => written::<bool>(value, rows, room, |value, all| write!(all, "{value}")),
                SqlType::BigInt => written::<i64>(value, rows, room, |value, all| write!(all, "{value}")),
                SqlType::Double => written::<f64>(value, rows, room, |value, all| write!(all, "{value:?}")),
                SqlType::Date => written::<i32>(value, rows, room, |value, all| write!(all, "{}", date::Date(value))),
                _ => written::<i64>(value, rows, room, |value, all| write!(all, "{}", date::Timestamp(value))),
            }
        }
        (SqlType::Boolean, SqlType::BigInt) => map(rows, value.values::<bool>(), |value| Ok(Some(i64::from(value)))),
        (SqlType::Boolean, SqlType::Double) => {
            map(rows, value.values::<bool>(), |value| Ok(Some(f64::from(u8::from(value)))))
        }
        (SqlType::BigInt, SqlType::Boolean) => map(rows, value.values::<i64>(), |value| Ok(Some(value != 0))),
        (SqlType::Double, SqlType::Boolean) => map(rows, value.values::<f64>(), |value| Ok(Some(value != 0.0))),
        (SqlType::BigInt, SqlType::Double) => map(rows, value.values::<i64>(), |value| Ok(Some(value as f64))),
        (SqlType::Double, SqlType::BigInt) => map(rows, value.values::<f64>(), |value| {
            or_null(to_integer(value), is_try, || format!("{value:?} is no bigint: it has more than 64 bits").into())
        }),
        (SqlType::Date, SqlType::Timestamp) => map(rows, value.values::<i32>(), |days| Ok(Some(i64::from(days) * DAY))),
        (SqlType::Timestamp, SqlType::Date) => {
            map(rows, value.values::<i64>(), |micros| Ok(Some(date::split(micros).0 as i32)))
        }
        (from, to) => unreachable!("{from} is not cast to {to}"),
    }
}

/// A single value as one of another type.
pub(crate) fn cast_value(value: &Value, from: SqlType, to: SqlType) -> Result<Value, BoxError> {
    // No text that is none yet is long.
    let room = Room::new(&|_| Ok(()));
    Ok(cast(&Vector::One(value.clone()), from, to, false, 1, &room)?.value(0, to))
}

fn unreadable(text: &str, to: SqlType) -> BoxError {
    const SHOWN: usize = 60;
    let shown: String = text.chars().take(SHOWN).collect();
    let rest = if shown.len() < text.len() { "..." } else { "" };
    format!("'{shown}'{rest} can't be read as a {to}").into()
}

/// The nearest integer; of two, the even one.
fn to_integer(value: f64) -> Option<i64> {
    let rounded = value.round_ties_even();
    // 2^63 is the first that is too large.
    (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded).then_some(rounded as i64)
}

fn parse_boolean(text: &str) -> Option<bool> {
    let text = text.trim();
    // No copy of a long text.
    const LONGEST: usize = 5;
    if text.len() > LONGEST {
        return None;
    }
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "on" | "1" => Some(true),
        "false" | "f" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

fn parse_double(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}
