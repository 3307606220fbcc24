//! Values of columns as JSON.

use crate::date::{span_text, time_text, timestamp_text};
use crate::{date_text, decimal_text};
use std::fmt::Write;
use vicus_flow::{BoxError, Column, TimeUnit, Type};

/// Writes the value of a row as JSON: a null for none and for doubles without a number there, decimals as numbers with
/// all their digits, dates and the like as texts, strings of bytes as texts of hexadecimal digits, lists as arrays,
/// structs as objects.
///
/// ```
/// use vicus_flow::Column;
///
/// let lists = Column::of_lists(vec![0, 2], Column::of_decimals(4, 2, vec![150, 75]));
/// let mut text = String::new();
/// vicus_sql::write_json(&mut text, &lists, 0)?;
/// assert_eq!(text, "[1.50,0.75]");
/// # Ok::<(), vicus_flow::BoxError>(())
/// ```
///
/// # Errors
/// A time of another unit than microseconds is beyond what has a text.
pub fn write_json(out: &mut String, column: &Column, row: usize) -> Result<(), BoxError> {
    if column.is_null(row) {
        out.push_str("null");
        return Ok(());
    }
    let micros = |unit: TimeUnit| {
        let at = column.values::<i64>()[row];
        match unit {
            TimeUnit::Nano => Ok(at.div_euclid(1000)),
            unit => at
                .checked_mul(1_000_000 / unit.per_second())
                .ok_or_else(|| BoxError::from(format!("{at} {unit} are beyond microseconds"))),
        }
    };
    match column.kind() {
        Type::Bool => write!(out, "{}", column.values::<bool>()[row])?,
        Type::I8 => write!(out, "{}", column.values::<i8>()[row])?,
        Type::I16 => write!(out, "{}", column.values::<i16>()[row])?,
        Type::I32 => write!(out, "{}", column.values::<i32>()[row])?,
        Type::I64 => write!(out, "{}", column.values::<i64>()[row])?,
        Type::U8 => write!(out, "{}", column.values::<u8>()[row])?,
        Type::U16 => write!(out, "{}", column.values::<u16>()[row])?,
        Type::U32 => write!(out, "{}", column.values::<u32>()[row])?,
        Type::U64 => write!(out, "{}", column.values::<u64>()[row])?,
        Type::F32 => number(out, column.values::<f32>()[row])?,
        Type::F64 => number(out, column.values::<f64>()[row])?,
        Type::Decimal { scale, .. } => out.push_str(&decimal_text(column.decimals()[row], scale)),
        Type::Text => json_text(out, column.text_at(row)),
        Type::Binary | Type::FixedBinary(_) => {
            out.push('"');
            column.binary_at(row).iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
            out.push('"');
        }
        Type::Date => json_text(out, &date_text(column.values::<i32>()[row])),
        Type::Time(unit) => json_text(out, &time_text(micros(unit)?)),
        Type::Timestamp(unit, None) => json_text(out, &timestamp_text(micros(unit)?)),
        Type::Timestamp(unit, Some(_)) => json_text(out, &(timestamp_text(micros(unit)?) + "+00")),
        Type::Duration(unit) => json_text(out, &span_text(micros(unit)?)),
        Type::List(_) => {
            out.push('[');
            for (place, item) in column.item_range(row).enumerate() {
                out.push_str(if place == 0 { "" } else { "," });
                write_json(out, column.items(), item)?;
            }
            out.push(']');
        }
        Type::Struct(fields) => {
            out.push('{');
            for (place, field) in fields.columns().iter().enumerate() {
                out.push_str(if place == 0 { "" } else { "," });
                json_text(out, &field.name);
                out.push(':');
                write_json(out, column.part(place), row)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

/// A number of JSON; it has neither infinities nor NaN.
fn number(out: &mut String, value: impl Into<f64> + std::fmt::Debug + Copy) -> std::fmt::Result {
    if value.into().is_finite() { write!(out, "{value:?}") } else { write!(out, "null") }
}

/// Writes a text as one of JSON.
///
/// ```
/// let mut out = String::new();
/// vicus_sql::json_text(&mut out, "a \"b\"");
/// assert_eq!(out, r#""a \"b\"""#);
/// ```
pub fn json_text(out: &mut String, text: &str) {
    out.push('"');
    for sign in text.chars() {
        match sign {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            sign if sign < ' ' => {
                let code = sign as u32;
                out.push_str(&format!("\\u{code:04x}"));
            }
            sign => out.push(sign),
        }
    }
    out.push('"');
}
