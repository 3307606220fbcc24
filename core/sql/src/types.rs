//! The types of SQL that tables have here, and single values of them.

use crate::date;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use vicus_flow::{TimeUnit, Type};
use vicus_language::ValueType;

/// The type of a column. Every column may have nulls.
///
/// There is no decimal: a literal such as `1.5` is a double, and a column of decimals is refused by whoever makes the
/// table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SqlType {
    /// Truth values; [`Type::Bool`] in envelopes.
    Boolean,
    /// 64-bit integers, whose overflow is an error; [`Type::I64`] in envelopes.
    BigInt,
    /// 64-bit floating point; [`Type::F64`] in envelopes.
    Double,
    /// Text, ordered by its bytes; [`Type::Text`] in envelopes.
    Varchar,
    /// Days since 1970-01-01; [`Type::Date`] in envelopes.
    Date,
    /// Microseconds since 1970-01-01, without a time zone; [`Type::Timestamp`] in envelopes.
    Timestamp,
}

impl SqlType {
    /// The type of such a column in envelopes.
    pub fn flow_type(self) -> Type {
        match self {
            SqlType::Boolean => Type::Bool,
            SqlType::BigInt => Type::I64,
            SqlType::Double => Type::F64,
            SqlType::Varchar => Type::Text,
            SqlType::Date => Type::Date,
            SqlType::Timestamp => Type::Timestamp(TimeUnit::Micro, None),
        }
    }

    /// The type that has all values of a column's type; integers of any size are bigint. `None` if SQL has none here.
    ///
    /// ```
    /// use vicus_flow::Type;
    /// use vicus_sql::SqlType;
    ///
    /// assert_eq!((SqlType::of(&Type::U8), SqlType::of(&Type::Binary)), (Some(SqlType::BigInt), None));
    /// ```
    pub fn of(kind: &Type) -> Option<SqlType> {
        Some(match kind {
            Type::Bool => SqlType::Boolean,
            Type::I8 | Type::I16 | Type::I32 | Type::I64 => SqlType::BigInt,
            Type::U8 | Type::U16 | Type::U32 | Type::U64 => SqlType::BigInt,
            Type::F32 | Type::F64 => SqlType::Double,
            Type::Text => SqlType::Varchar,
            Type::Date => SqlType::Date,
            Type::Timestamp(TimeUnit::Micro, None) => SqlType::Timestamp,
            _ => return None,
        })
    }

    pub(crate) fn is_numeric(self) -> bool {
        matches!(self, SqlType::BigInt | SqlType::Double)
    }

    /// The type that values of both are turned into where they meet; `None` if they don't fit together.
    pub(crate) fn common(self, other: SqlType) -> Option<SqlType> {
        match (self, other) {
            (a, b) if a == b => Some(a),
            (SqlType::BigInt, SqlType::Double) | (SqlType::Double, SqlType::BigInt) => Some(SqlType::Double),
            (SqlType::Date, SqlType::Timestamp) | (SqlType::Timestamp, SqlType::Date) => Some(SqlType::Timestamp),
            _ => None,
        }
    }
}

impl From<SqlType> for ValueType {
    fn from(kind: SqlType) -> ValueType {
        match kind {
            SqlType::Boolean => ValueType::Boolean,
            SqlType::BigInt => ValueType::Integer,
            SqlType::Double => ValueType::Double,
            SqlType::Varchar => ValueType::Text,
            SqlType::Date => ValueType::Date,
            SqlType::Timestamp => ValueType::Timestamp,
        }
    }
}

/// The name of the type in SQL, in small letters.
impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SqlType::Boolean => "boolean",
            SqlType::BigInt => "bigint",
            SqlType::Double => "double",
            SqlType::Varchar => "varchar",
            SqlType::Date => "date",
            SqlType::Timestamp => "timestamp",
        })
    }
}

/// A single value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// A truth value.
    Boolean(bool),
    /// An integer.
    BigInt(i64),
    /// A floating-point number.
    Double(f64),
    /// A text.
    Varchar(Arc<str>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01.
    Timestamp(i64),
}

impl Value {
    /// Orders two values of one type; `None` if one is null or their types differ.
    ///
    /// ```
    /// use std::cmp::Ordering;
    /// use vicus_sql::Value;
    ///
    /// assert_eq!(Value::BigInt(1).order(&Value::BigInt(2)), Some(Ordering::Less));
    /// assert_eq!(Value::BigInt(1).order(&Value::Null), None);
    /// ```
    pub fn order(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Boolean(a), Value::Boolean(b)) => Some(a.cmp(b)),
            (Value::BigInt(a), Value::BigInt(b)) => Some(a.cmp(b)),
            (Value::Double(a), Value::Double(b)) => Some(order_doubles(*a, *b)),
            (Value::Varchar(a), Value::Varchar(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
            (Value::Date(a), Value::Date(b)) => Some(a.cmp(b)),
            (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}

/// SQL's written form: texts, dates and timestamps in quotes.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Boolean(value) => write!(f, "{value}"),
            Value::BigInt(value) => write!(f, "{value}"),
            Value::Double(value) => write!(f, "{value:?}"),
            Value::Varchar(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Value::Date(days) => write!(f, "DATE '{}'", date::Date(*days)),
            Value::Timestamp(micros) => write!(f, "TIMESTAMP '{}'", date::Timestamp(*micros)),
        }
    }
}

/// The order of doubles in comparisons, ORDER BY, MIN and MAX: -0 equals 0, and NaN equals itself and comes last.
pub(crate) fn order_doubles(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The one form of a double among those that are equal: 0 for -0, one NaN.
pub(crate) fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}
