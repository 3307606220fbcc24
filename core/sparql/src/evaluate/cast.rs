//! Constructors of XSD types: SPARQL 1.1, §17.5, and XPath and XQuery Functions and Operators 3.1, §19.1.

use crate::expression::Cast;
use crate::value::{Date, DateTime, Decimal, Number, Time, Value};

/// Converts a value to a type; `None` is an error. A string is parsed; of other types, the value is converted.
pub(super) fn cast(target: Cast, value: Value) -> Option<Value> {
    let text = match &value {
        Value::String(text) => Some(text.trim_matches(|char| matches!(char, ' ' | '\t' | '\n' | '\r'))),
        _ => None,
    };
    Some(match target {
        Cast::String => Value::String(match value {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Boolean(value) => value.to_string(),
            _ => return None,
        }),
        Cast::Boolean => Value::Boolean(match (&value, text) {
            (_, Some("true" | "1")) => true,
            (_, Some("false" | "0")) => false,
            (Value::Boolean(value), _) => *value,
            (Value::Number(number), _) => number.truth(),
            _ => return None,
        }),
        Cast::Integer => Value::Number(match (&value, text) {
            (_, Some(text)) => Number::parse_integer(text)?,
            (Value::Boolean(value), _) => Number::Integer((*value).into()),
            (Value::Number(number), _) => number.truncated()?,
            _ => return None,
        }),
        Cast::Decimal => Value::Number(Number::Decimal(match (&value, text) {
            (_, Some(text)) => Decimal::parse(text)?,
            (Value::Boolean(value), _) => Decimal::from(i64::from(*value)),
            (Value::Number(number), _) => number.to_decimal()?,
            _ => return None,
        })),
        Cast::Float => Value::Number(Number::Float(match (&value, text) {
            (_, Some(text)) => Number::parse_float(text)?,
            (Value::Boolean(value), _) => f32::from(u8::from(*value)),
            (Value::Number(number), _) => number.nearest_f32(),
            _ => return None,
        })),
        Cast::Double => Value::Number(Number::Double(match (&value, text) {
            (_, Some(text)) => Number::parse_double(text)?,
            (Value::Boolean(value), _) => f64::from(u8::from(*value)),
            (Value::Number(number), _) => number.to_f64(),
            _ => return None,
        })),
        Cast::DateTime => Value::DateTime(match (&value, text) {
            (_, Some(text)) => DateTime::parse(text)?,
            (Value::DateTime(moment), _) => *moment,
            (Value::Date(date), _) => date.start(),
            _ => return None,
        }),
        Cast::Date => Value::Date(match (&value, text) {
            (_, Some(text)) => Date::parse(text)?,
            (Value::DateTime(moment), _) => moment.date,
            (Value::Date(date), _) => *date,
            _ => return None,
        }),
        Cast::Time => Value::Time(match (&value, text) {
            (_, Some(text)) => Time::parse(text)?,
            (Value::DateTime(moment), _) => moment.time,
            (Value::Time(time), _) => *time,
            _ => return None,
        }),
    })
}
