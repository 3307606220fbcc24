//! Constructors of XSD types: SPARQL 1.1, §17.5.

use crate::expression::Cast;
use crate::value::{Number, Value, integer_of};
use oxrdf::NamedNode;
use oxrdf::vocab::xsd;
use oxsdatatypes::{Date, DateTime, Decimal, Double, Float, Time};

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
            // One that is too large for us is no decimal.
            (_, Some(text)) => integer_of(text).filter(|number| matches!(number, Number::Integer(_)))?,
            (Value::Boolean(value), _) => Number::Integer((*value).into()),
            (Value::Number(Number::Integer(value)), _) => Number::Integer(*value),
            (Value::Number(Number::Decimal(value)), _) => Number::Integer(truncated(*value)?),
            (Value::Number(number), _) => Number::Integer(truncated(decimal(number.to_f64())?)?),
            _ => return None,
        })),
        Cast::Decimal => Some(Made::Number(Number::Decimal(match (value, text) {
            (_, Some(text)) => text.parse().ok()?,
            (Value::Boolean(value), _) => Decimal::from(*value),
            (Value::Number(Number::Integer(value)), _) => Decimal::from(*value),
            (Value::Number(Number::Decimal(value)), _) => *value,
            (Value::Number(number), _) => decimal(number.to_f64())?,
            _ => return None,
        }))),
        Cast::Float => Some(Made::Number(Number::Float(match (value, text) {
            (_, Some(text)) => text.parse::<Float>().ok()?.into(),
            (Value::Boolean(value), _) => f32::from(u8::from(*value)),
            (Value::Number(number), _) => number.to_f32(),
            _ => return None,
        }))),
        Cast::Double => Some(Made::Number(Number::Double(match (value, text) {
            (_, Some(text)) => text.parse::<Double>().ok()?.into(),
            (Value::Boolean(value), _) => f64::from(u8::from(*value)),
            (Value::Number(number), _) => number.to_f64(),
            _ => return None,
        }))),
        Cast::DateTime => {
            let moment = match (value, text) {
                (_, Some(text)) => text.parse::<DateTime>().ok()?,
                (Value::DateTime(moment), _) => *moment,
                (Value::Date(date), _) => DateTime::try_from(*date).ok()?,
                _ => return None,
            };
            Some(Made::Typed(moment.to_string(), xsd::DATE_TIME.into_owned()))
        }
        Cast::Date => {
            let date = match (value, text) {
                (_, Some(text)) => text.parse::<Date>().ok()?,
                (Value::DateTime(moment), _) => Date::try_from(*moment).ok()?,
                (Value::Date(date), _) => *date,
                _ => return None,
            };
            Some(Made::Typed(date.to_string(), xsd::DATE.into_owned()))
        }
        Cast::Time => {
            let time = match (value, text) {
                (_, Some(text)) => text.parse::<Time>().ok()?,
                (Value::DateTime(moment), _) => Time::from(*moment),
                (Value::Time(time), _) => *time,
                _ => return None,
            };
            Some(Made::Typed(time.to_string(), xsd::TIME.into_owned()))
        }
    }
}

fn decimal(value: f64) -> Option<Decimal> {
    Decimal::try_from(Double::from(value)).ok()
}

fn truncated(value: Decimal) -> Option<i64> {
    oxsdatatypes::Integer::try_from(value).ok().map(i64::from)
}
