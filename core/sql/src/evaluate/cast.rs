//! Values of one type as values of another.

use super::Room;
use super::vector::{Scalar, Vector, build, build_texts, column_of, gather, gathered, map};
use crate::date::{self, DAY};
use crate::decimal;
use crate::read::read_json;
use crate::types::{SqlType, Value};
use std::fmt::Write;
use vicus_flow::{BoxError, Column};

/// Whether values of a type can be cast to another one.
pub(crate) fn can_cast(from: &SqlType, to: &SqlType) -> bool {
    use SqlType::{
        BigInt, Blob, Boolean, Date, Decimal, Double, Interval, List, Struct, Time, Timestamp, TimestampTz, Varchar,
    };
    match (from, to) {
        (a, b) if a == b => true,
        (Varchar, _) | (_, Varchar) => true,
        (Boolean, BigInt | Double) | (BigInt | Double, Boolean) => true,
        (BigInt | Double | Decimal { .. }, BigInt | Double | Decimal { .. }) => true,
        (Date | Timestamp | TimestampTz, Date | Timestamp | TimestampTz) => true,
        (Timestamp | TimestampTz, Time) | (Time, Interval) => true,
        (List(from), List(to)) => can_cast(from, to),
        (Struct(from), Struct(to)) => {
            from.len() == to.len() && from.iter().zip(&**to).all(|(from, to)| can_cast(&from.1, &to.1))
        }
        (Blob, _) | (_, Blob) => false,
        _ => false,
    }
}

/// The most bytes that a sign of JSON makes as a part of values of this type. A value has two signs at least, with the
/// comma behind it, and `{}` is a struct of all its parts.
fn bytes_a_sign(kind: &SqlType) -> usize {
    let own = size_of::<Value>();
    match kind {
        SqlType::List(of) => bytes_a_sign(of).max(own),
        SqlType::Struct(parts) => {
            let part = |(name, _): &(String, SqlType)| size_of::<(String, Value)>() + name.len();
            let all = own + parts.iter().map(part).sum::<usize>();
            parts.iter().map(|(_, kind)| bytes_a_sign(kind)).fold(all, usize::max)
        }
        _ => own,
    }
}

/// The longest text of a value that is none: of a decimal, with all its digits.
const LONGEST: usize = 48;

pub(super) fn cast(
    value: &Vector,
    from: &SqlType,
    to: &SqlType,
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
    fn read<R: Scalar>(
        value: &Vector,
        to: &SqlType,
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
        (SqlType::Varchar, SqlType::TimestampTz) => read(value, to, is_try, rows, date::parse_moment),
        (SqlType::Varchar, SqlType::Time) => read(value, to, is_try, rows, |text| {
            date::parse_time(text).or_else(|| date::parse_timestamp(text).map(|micros| date::split(micros).1))
        }),
        (SqlType::Varchar, SqlType::Interval) => read(value, to, is_try, rows, date::parse_span),
        (SqlType::Varchar, SqlType::Decimal { precision, scale }) => {
            read(value, to, is_try, rows, |text| decimal::parse(text, *precision, *scale))
        }
        (SqlType::Varchar, SqlType::Blob) => {
            let texts = value.texts();
            let mut bytes: Vec<Value> = Vec::with_capacity(rows);
            for row in 0..rows {
                let Some(text) = texts.get(row) else {
                    bytes.push(Value::Null);
                    continue;
                };
                room.take(2 * text.len())?;
                let read = or_null(parse_bytes(text), is_try, || unreadable(text, to))?;
                bytes.push(read.map_or(Value::Null, |bytes| Value::Blob(bytes.into())));
            }
            Ok(Vector::Many(column_of(to, &bytes.iter().collect::<Vec<_>>())))
        }
        (SqlType::Varchar, SqlType::List(_) | SqlType::Struct(_)) => {
            let texts = value.texts();
            let (before, mut values) = (room.held(), Vec::with_capacity(rows));
            for row in 0..rows {
                let Some(text) = texts.get(row) else {
                    values.push(Value::Null);
                    continue;
                };
                room.take(bytes_a_sign(to).saturating_mul(text.len()))?;
                let read = or_null(read_json(text, to), is_try, || unreadable(text, to))?;
                values.push(read.unwrap_or(Value::Null));
            }
            let column = column_of(to, &values.iter().collect::<Vec<_>>());
            room.settle(before + column.bytes());
            Ok(Vector::Many(column))
        }
        (SqlType::Blob | SqlType::List(_) | SqlType::Struct(_), SqlType::Varchar) => {
            let mut shown = String::new();
            let mut ends = vec![0];
            let mut nulls = Vec::new();
            for row in 0..rows {
                match value.value(row, from) {
                    Value::Null => nulls.push(row),
                    value => {
                        room.take(4 * value.bytes_beside())?;
                        show(&value, &mut shown)?;
                    }
                }
                ends.push(
                    i32::try_from(shown.len()).map_err(|_| "the texts of one envelope would have more than 2 GiB")?,
                );
            }
            Ok(Vector::Many(Column::of_text(shown, ends).with_nulls(nulls)))
        }
        (SqlType::List(of), SqlType::List(to)) => {
            let lists = value.clone().into_column(from, rows, room)?;
            let (mut ends, mut items) = (vec![0], Vec::new());
            for row in 0..rows {
                // Nulls have no values.
                if !lists.is_null(row) {
                    items.extend(lists.item_range(row).map(|item| item as u32));
                }
                ends.push(items.len() as i32);
            }
            let (rows, count) = (gather(lists.items(), &items, room)?, items.len());
            let items = cast(&Vector::Many(rows), of, to, is_try, count, room)?.into_column(to, count, room)?;
            let nulls: Vec<usize> = (0..lists.len()).filter(|&row| lists.is_null(row)).collect();
            Ok(Vector::Many(Column::of_lists(ends, items).with_nulls(nulls)))
        }
        (SqlType::Struct(of), SqlType::Struct(to)) => {
            let structs = value.clone().into_column(from, rows, room)?;
            let part = |place: usize| {
                let (of, to) = (&of[place], &to[place]);
                // The parts of a null may be any.
                let is_there = |row: usize| (!structs.is_null(row)).then(|| (structs.part(place), row));
                let part = Vector::Many(gathered(&of.1, (0..rows).map(is_there), room)?);
                let part = cast(&part, &of.1, &to.1, is_try, rows, room)?.into_column(&to.1, rows, room)?;
                Ok((to.0.clone(), part))
            };
            let parts = (0..of.len().min(to.len())).map(part).collect::<Result<Vec<_>, BoxError>>()?;
            let nulls: Vec<usize> = (0..rows).filter(|&row| structs.is_null(row)).collect();
            Ok(Vector::Many(Column::of_parts(parts).with_nulls(nulls)))
        }
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
                SqlType::Decimal { scale, .. } => {
                    written::<i128>(value, rows, room, |value, all| decimal::write(all, value, *scale))
                }
                SqlType::Time => written::<i64>(value, rows, room, |value, all| write!(all, "{}", date::Time(value))),
                SqlType::Interval => {
                    written::<i64>(value, rows, room, |value, all| write!(all, "{}", date::Span(value)))
                }
                SqlType::TimestampTz => {
                    written::<i64>(value, rows, room, |value, all| write!(all, "{}+00", date::Timestamp(value)))
                }
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
        (SqlType::BigInt, SqlType::Decimal { precision, scale }) => map(rows, value.values::<i64>(), |value| {
            or_null(decimal_of(i128::from(value), 0, *precision, *scale), is_try, || too_many_digits(value, to))
        }),
        (SqlType::Double, SqlType::Decimal { precision, scale }) => map(rows, value.values::<f64>(), |value| {
            or_null(decimal::of_double(value, *precision, *scale), is_try, || too_many_digits(value, to))
        }),
        (SqlType::Decimal { scale: from, .. }, SqlType::Decimal { precision, scale }) => {
            map(rows, value.values::<i128>(), |value| {
                let shown = || decimal::decimal_text(value, *from as i8);
                or_null(decimal_of(value, *from, *precision, *scale), is_try, || too_many_digits(shown(), to))
            })
        }
        (SqlType::Decimal { scale, .. }, SqlType::Double) => {
            map(rows, value.values::<i128>(), |value| Ok(Some(decimal::to_double(value, *scale))))
        }
        (SqlType::Decimal { scale, .. }, SqlType::BigInt) => map(rows, value.values::<i128>(), |value| {
            let whole = decimal::rescaled(value, *scale, 0).and_then(|value| i64::try_from(value).ok());
            let shown = || decimal::decimal_text(value, *scale as i8);
            or_null(whole, is_try, || format!("{} is no bigint: it has more than 64 bits", shown()).into())
        }),
        (SqlType::Timestamp | SqlType::TimestampTz, SqlType::Time) => {
            map(rows, value.values::<i64>(), |micros| Ok(Some(date::split(micros).1)))
        }
        (SqlType::Timestamp, SqlType::TimestampTz)
        | (SqlType::TimestampTz, SqlType::Timestamp)
        | (SqlType::Time, SqlType::Interval) => map(rows, value.values::<i64>(), |micros| Ok(Some(micros))),
        (SqlType::Date, SqlType::Timestamp | SqlType::TimestampTz) => {
            map(rows, value.values::<i32>(), |days| Ok(Some(i64::from(days) * DAY)))
        }
        (SqlType::Timestamp | SqlType::TimestampTz, SqlType::Date) => {
            map(rows, value.values::<i64>(), |micros| Ok(Some(date::split(micros).0 as i32)))
        }
        (from, to) => unreachable!("{from} is not cast to {to}"),
    }
}

/// A single value as one of another type.
pub(crate) fn cast_value(value: &Value, from: &SqlType, to: &SqlType) -> Result<Value, BoxError> {
    // No text that is none yet is long.
    let room = Room::new(&|_| Ok(()));
    Ok(cast(&Vector::One(value.clone()), from, to, false, 1, &room)?.value(0, to))
}

fn unreadable(text: &str, to: &SqlType) -> BoxError {
    const SHOWN: usize = 60;
    let shown: String = text.chars().take(SHOWN).collect();
    let rest = if shown.len() < text.len() { "..." } else { "" };
    format!("'{shown}'{rest} can't be read as a {to}").into()
}

fn decimal_of(units: i128, from: u8, precision: u8, scale: u8) -> Option<i128> {
    decimal::within(decimal::rescaled(units, from, scale)?, precision)
}

fn too_many_digits(value: impl std::fmt::Display, to: &SqlType) -> BoxError {
    format!("{value} has too many digits for {to}").into()
}

/// Reads a string of bytes: ASCII as it is, other bytes as `\\x` and two digits.
fn parse_bytes(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, behind @ ..] = rest {
        rest = match (first, behind) {
            (b'\\', [b'x', high, low, behind @ ..]) => {
                let digit = |byte: &u8| (*byte as char).to_digit(16);
                bytes.push((digit(high)? << 4 | digit(low)?) as u8);
                behind
            }
            (b'\\', _) | (0x80.., _) => return None,
            (&byte, behind) => {
                bytes.push(byte);
                behind
            }
        };
    }
    Some(bytes)
}

/// A value as part of a list's or a struct's text.
fn show(value: &Value, out: &mut String) -> std::fmt::Result {
    match value {
        Value::Varchar(text) => out.push_str(text),
        Value::Blob(bytes) => {
            for &byte in &**bytes {
                match byte {
                    b' '..=b'~' if !matches!(byte, b'\\' | b'\'' | b'"') => out.push(byte as char),
                    byte => write!(out, "\\x{byte:02X}")?,
                }
            }
        }
        Value::Date(days) => write!(out, "{}", date::Date(*days))?,
        Value::Time(micros) => write!(out, "{}", date::Time(*micros))?,
        Value::Timestamp(micros) => write!(out, "{}", date::Timestamp(*micros))?,
        Value::TimestampTz(micros) => write!(out, "{}+00", date::Timestamp(*micros))?,
        Value::Interval(micros) => write!(out, "{}", date::Span(*micros))?,
        Value::List(values) => {
            out.push('[');
            for (place, value) in values.iter().enumerate() {
                out.push_str(if place == 0 { "" } else { ", " });
                show(value, out)?;
            }
            out.push(']');
        }
        Value::Struct(parts) => {
            out.push('{');
            for (place, (name, value)) in parts.iter().enumerate() {
                write!(out, "{}'{name}': ", if place == 0 { "" } else { ", " })?;
                show(value, out)?;
            }
            out.push('}');
        }
        other => write!(out, "{other}")?,
    }
    Ok(())
}

/// The nearest integer; of two, the even one.
fn to_integer(value: f64) -> Option<i64> {
    let rounded = value.round_ties_even();
    // 2^63 is the first that is too large.
    (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded).then_some(rounded as i64)
}

pub(crate) fn parse_boolean(text: &str) -> Option<bool> {
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

pub(crate) fn parse_double(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}
