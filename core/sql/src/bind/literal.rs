//! Literals, names of types, intervals and fields of dates.

use super::Binder;
use crate::error::{SourcePosition, SqlError, SqlErrorKind};
use crate::expression::{DateField, Expr, Interval};
use crate::types::{SqlType, Value};
use sqlparser::ast;
use std::sync::Arc;
use vicus_language::stack::deep;

impl<'a> Binder<'a> {
    pub(super) fn literal(&self, literal: &ast::ValueWithSpan) -> Result<Expr, SqlError> {
        let place = self.place(literal.span);
        let text = |text: &str| Ok(Expr::Literal(Value::Varchar(Arc::from(text)), SqlType::Varchar));
        match &literal.value {
            ast::Value::Number(number, _) => self.number(number, place),
            ast::Value::SingleQuotedString(value) | ast::Value::EscapedStringLiteral(value) => text(value),
            ast::Value::DollarQuotedString(value) => text(&value.value),
            ast::Value::HexStringLiteral(digits) => match hexadecimal(digits) {
                Some(bytes) => Ok(Expr::Literal(Value::Blob(bytes.into()), SqlType::Blob)),
                None => Err(SqlError::wrong_type(place, "X'…' takes two hexadecimal digits for each byte")),
            },
            ast::Value::Boolean(value) => Ok(Expr::truth(*value)),
            ast::Value::Null => Ok(Expr::null(SqlType::BigInt)),
            ast::Value::Placeholder(written) => self.parameter(written, place),
            _ => Err(SqlError::unsupported(place, "this form of a literal")),
        }
    }

    fn parameter(&self, written: &str, place: SourcePosition) -> Result<Expr, SqlError> {
        let Some(name) = written.strip_prefix(['$', ':']).filter(|name| !name.is_empty()) else {
            let message = "a parameter without a name is not supported: write $name or :name";
            return Err(SqlError::new(SqlErrorKind::Unsupported, place, message));
        };
        match self.catalogue.parameter(name) {
            Some(Ok((value, kind))) => Ok(Expr::Literal(value, kind)),
            Some(Err(why)) => Err(SqlError::wrong_type(place, format!("the parameter {written}: {why}"))),
            None => Err(SqlError::new(
                SqlErrorKind::Unknown { near: Vec::new() },
                place,
                format!("no value is given for {written}"),
            )),
        }
    }

    /// An integer, or a double if it is written with a point or an exponent.
    pub(super) fn number(&self, number: &str, place: SourcePosition) -> Result<Expr, SqlError> {
        if number.contains(['.', 'e', 'E']) {
            return match number.parse::<f64>() {
                Ok(value) => Ok(Expr::Literal(Value::Double(value), SqlType::Double)),
                Err(_) => Err(SqlError::wrong_type(place, format!("{number} is no number"))),
            };
        }
        match number.parse::<i64>() {
            Ok(value) => Ok(Expr::Literal(Value::BigInt(value), SqlType::BigInt)),
            Err(_) => {
                let message = format!("{number} is no bigint: it has more than 64 bits (with a point, it is a double)");
                Err(SqlError::wrong_type(place, message))
            }
        }
    }

    pub(super) fn typed_string(&self, typed: &ast::TypedString) -> Result<Expr, SqlError> {
        let place = self.place(typed.value.span);
        let kind = self.data_type(&typed.data_type, place)?;
        let value = self.literal(&typed.value)?;
        let Expr::Literal(value @ Value::Varchar(_), from) = value else {
            return Err(SqlError::wrong_type(place, format!("a text is needed behind {kind}")));
        };
        let value = crate::evaluate::cast_value(&value, &from, &kind);
        Ok(Expr::Literal(value.map_err(|error| SqlError::wrong_type(place, error.to_string()))?, kind))
    }

    pub(super) fn data_type(&self, data_type: &ast::DataType, place: SourcePosition) -> Result<SqlType, SqlError> {
        use ast::DataType as Ast;
        Ok(match data_type {
            Ast::Bool | Ast::Boolean => SqlType::Boolean,
            Ast::TinyInt(_) | Ast::SmallInt(_) | Ast::MediumInt(_) | Ast::Int(_) | Ast::Integer(_) | Ast::BigInt(_) => {
                SqlType::BigInt
            }
            Ast::Int2(_) | Ast::Int4(_) | Ast::Int8(_) | Ast::Int16 | Ast::Int32 | Ast::Int64 | Ast::Signed => {
                SqlType::BigInt
            }
            Ast::Float(_) | Ast::Float4 | Ast::Float8 | Ast::Float32 | Ast::Float64 | Ast::Real => SqlType::Double,
            Ast::Double(_) | Ast::DoublePrecision => SqlType::Double,
            Ast::Varchar(None)
            | Ast::CharVarying(None)
            | Ast::CharacterVarying(None)
            | Ast::Text
            | Ast::String(None) => SqlType::Varchar,
            Ast::Date | Ast::Date32 => SqlType::Date,
            Ast::Timestamp(_, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) | Ast::Datetime(_) => {
                SqlType::Timestamp
            }
            Ast::Timestamp(_, _) => SqlType::TimestampTz,
            Ast::Time(_, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) => SqlType::Time,
            Ast::Interval { fields: None, .. } => SqlType::Interval,
            Ast::Bytea | Ast::Blob(None) | Ast::Binary(None) | Ast::Varbinary(None) => SqlType::Blob,
            Ast::Numeric(digits) | Ast::Decimal(digits) | Ast::Dec(digits) => {
                // Without digits, those of DuckDB.
                let (precision, scale) = match digits {
                    ast::ExactNumberInfo::None => (18, 3),
                    ast::ExactNumberInfo::Precision(precision) => (*precision, 0),
                    ast::ExactNumberInfo::PrecisionAndScale(precision, scale) => {
                        (*precision, u64::try_from(*scale).unwrap_or(u64::MAX))
                    }
                };
                let wrong = || "a decimal has 1 to 38 digits, and no more than those behind its point";
                crate::decimal::kind(precision, scale).ok_or_else(|| SqlError::wrong_type(place, wrong()))?
            }
            Ast::Array(ast::ArrayElemTypeDef::SquareBracket(of, None) | ast::ArrayElemTypeDef::AngleBracket(of)) => {
                SqlType::List(Arc::new(deep(|| self.data_type(of, place))?))
            }
            // The parser knows them by another name.
            Ast::Struct(fields, _) | Ast::Tuple(fields) if !fields.is_empty() => {
                let part = |field: &ast::StructField| match &field.field_name {
                    Some(name) => Ok((name.value.clone(), deep(|| self.data_type(&field.field_type, place))?)),
                    None => Err(SqlError::unsupported(place, "a part of a struct without a name")),
                };
                SqlType::Struct(fields.iter().map(part).collect::<Result<_, _>>()?)
            }
            other => return Err(SqlError::unsupported(place, format_args!("the type {other}"))),
        })
    }

    /// The interval that an expression is, or its opposite.
    pub(super) fn interval(&self, expr: &ast::Expr, negated: bool) -> Result<Option<Interval>, SqlError> {
        let mut expr = expr;
        while let ast::Expr::Nested(inner) = expr {
            expr = inner;
        }
        let ast::Expr::Interval(interval) = expr else { return Ok(None) };
        let place = self.place_of(&*interval.value);
        if interval.last_field.is_some() {
            return Err(SqlError::unsupported(place, "an interval from one field to another"));
        }
        let (text, sign) = match &*interval.value {
            ast::Expr::Value(value) => (literal_text(&value.value), 1),
            ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => match &**expr {
                ast::Expr::Value(value) => (literal_text(&value.value), -1),
                _ => (None, 1),
            },
            _ => (None, 1),
        };
        let wrong =
            || SqlError::wrong_type(place, "an interval is written as INTERVAL '3' MONTH or INTERVAL '3 months'");
        let text = text.ok_or_else(wrong)?;
        let sign = if negated { -sign } else { sign };
        let mut sum = Interval::default();
        let mut add = |count: i64, unit: &str| -> Option<()> {
            let count = count.checked_mul(sign)?;
            let (field, factor) = match unit.to_lowercase().trim_end_matches('s') {
                "year" => (&mut sum.months, 12),
                "quarter" => (&mut sum.months, 3),
                "month" => (&mut sum.months, 1),
                "week" => (&mut sum.days, 7),
                "day" => (&mut sum.days, 1),
                "hour" => (&mut sum.micros, 3_600_000_000),
                "minute" => (&mut sum.micros, 60_000_000),
                "second" => (&mut sum.micros, 1_000_000),
                "millisecond" => (&mut sum.micros, 1000),
                "microsecond" => (&mut sum.micros, 1),
                _ => return None,
            };
            *field = field.checked_add(count.checked_mul(factor)?)?;
            Some(())
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let added = match (&interval.leading_field, &words[..]) {
            (Some(unit), [count]) => count.parse().ok().and_then(|count| add(count, &unit.to_string())),
            (None, words) if !words.is_empty() && words.len().is_multiple_of(2) => {
                words.chunks(2).try_for_each(|pair| add(pair[0].parse().ok()?, pair[1]))
            }
            _ => None,
        };
        added.ok_or_else(wrong)?;
        Ok(Some(sum))
    }

    pub(super) fn date_field(&self, name: &str, place: SourcePosition) -> Result<DateField, SqlError> {
        Ok(match name.to_lowercase().trim_matches('\'') {
            "year" | "years" => DateField::Year,
            "quarter" => DateField::Quarter,
            "month" | "months" => DateField::Month,
            "week" | "weeks" | "isoweek" => DateField::Week,
            "day" | "days" => DateField::Day,
            "dow" | "dayofweek" => DateField::DayOfWeek,
            "isodow" => DateField::IsoDayOfWeek,
            "doy" | "dayofyear" => DateField::DayOfYear,
            "hour" | "hours" => DateField::Hour,
            "minute" | "minutes" => DateField::Minute,
            "second" | "seconds" => DateField::Second,
            "millisecond" | "milliseconds" => DateField::Millisecond,
            "microsecond" | "microseconds" => DateField::Microsecond,
            "epoch" => DateField::Epoch,
            other => return Err(SqlError::unsupported(place, format_args!("the field {other} of dates"))),
        })
    }
}

fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| (byte as char).to_digit(16);
    let byte = |&[high, low]: &[u8; 2]| Some((digit(high)? << 4 | digit(low)?) as u8);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

fn literal_text(value: &ast::Value) -> Option<String> {
    match value {
        ast::Value::SingleQuotedString(text) | ast::Value::Number(text, _) => Some(text.clone()),
        _ => None,
    }
}
