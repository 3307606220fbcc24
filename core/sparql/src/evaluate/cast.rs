//! Constructors of XSD types: SPARQL 1.1, §17.5.

use crate::expression::Cast;
use crate::value::{Date, DateTime, Decimal, Number, Time, Value};
use oxrdf::NamedNode;
use oxrdf::vocab::xsd;

/// What a constructor made.
pub(super) enum Made {
    Number(Number),
    Boolean(bool),
    String(String),
    Typed(String, NamedNode),
}

/// The value of one type as one of another; `None` is an error. `lexical` is the term's text.
pub(super) fn cast(target: Cast, value: &Value, lexical: &str, is_iri: bool) -> Option<Made> {
    if is_iri {
        return (target == Cast::String).then(|| Made::String(lexical.to_owned()));
    }
    // Only simple strings are read; of other types, the value counts.
    let text = match value {
        Value::String(text) => Some(text.trim()),
        Value::Lang(_) => return None,
        _ => None,
    };
    match target {
        Cast::String => Some(Made::String(match value {
            Value::Number(number) => number.to_string(),
            Value::Boolean(value) => value.to_string(),
            _ => lexical.to_owned(),
        })),
        Cast::Boolean => Some(Made::Boolean(match (value, text) {
            (_, Some("true" | "1")) => true,
            (_, Some("false" | "0")) => false,
            (Value::Boolean(value), _) => *value,
            (Value::Number(_), _) => value.truth()?,
            _ => return None,
        })),
        Cast::Integer => Some(Made::Number(match (value, text) {
            (_, Some(text)) => Number::parse_integer(text)?,
            (Value::Boolean(value), _) => Number::Integer((*value).into()),
            (Value::Number(number), _) => number.truncated()?,
            _ => return None,
        })),
        Cast::Decimal => Some(Made::Number(Number::Decimal(match (value, text) {
            (_, Some(text)) => Decimal::parse(text)?,
            (Value::Boolean(value), _) => Decimal::from(i64::from(*value)),
            (Value::Number(number), _) => number.to_decimal()?,
            _ => return None,
        }))),
        Cast::Float => Some(Made::Number(Number::Float(match (value, text) {
            (_, Some(text)) => Number::parse_float(text)?,
            (Value::Boolean(value), _) => f32::from(u8::from(*value)),
            (Value::Number(number), _) => number.nearest_f32(),
            _ => return None,
        }))),
        Cast::Double => Some(Made::Number(Number::Double(match (value, text) {
            (_, Some(text)) => Number::parse_double(text)?,
            (Value::Boolean(value), _) => f64::from(u8::from(*value)),
            (Value::Number(number), _) => number.to_f64(),
            _ => return None,
        }))),
        Cast::DateTime => {
            let moment = match (value, text) {
                (_, Some(text)) => DateTime::parse(text)?,
                (Value::DateTime(moment), _) => *moment,
                (Value::Date(date), _) => date.start(),
                _ => return None,
            };
            Some(Made::Typed(moment.to_string(), xsd::DATE_TIME.into_owned()))
        }
        Cast::Date => {
            let date = match (value, text) {
                (_, Some(text)) => Date::parse(text)?,
                (Value::DateTime(moment), _) => moment.date,
                (Value::Date(date), _) => *date,
                _ => return None,
            };
            Some(Made::Typed(date.to_string(), xsd::DATE.into_owned()))
        }
        Cast::Time => {
            let time = match (value, text) {
                (_, Some(text)) => Time::parse(text)?,
                (Value::DateTime(moment), _) => moment.time,
                (Value::Time(time), _) => *time,
                _ => return None,
            };
            Some(Made::Typed(time.to_string(), xsd::TIME.into_owned()))
        }
    }
}
