//! The types of SQL that tables have here, and single values of them.

use crate::date;
use crate::decimal;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use vicus_flow::{Field, Schema, TimeUnit, Type};
use vicus_language::ValueType;
use vicus_language::stack::deep;

/// The type of a column. Every column may have nulls, and so may lists and structs.
///
/// A literal such as `1.5` is a double; where it meets a decimal, it is the decimal number that it is written as.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SqlType {
    /// Truth values; [`Type::Bool`] in envelopes.
    Boolean,
    /// 64-bit integers, whose overflow is an error; [`Type::I64`] in envelopes.
    BigInt,
    /// 64-bit floating point; [`Type::F64`] in envelopes.
    Double,
    /// Decimal numbers, whose overflow is an error; [`Type::Decimal`] in envelopes.
    Decimal {
        /// The number of decimal digits, 1 to 38.
        precision: u8,
        /// The number of these digits behind the point, at most `precision`.
        scale: u8,
    },
    /// Text, ordered by its bytes; [`Type::Text`] in envelopes.
    Varchar,
    /// Strings of bytes; [`Type::Binary`] in envelopes.
    Blob,
    /// Days since 1970-01-01; [`Type::Date`] in envelopes.
    Date,
    /// Microseconds since midnight; [`Type::Time`] in envelopes.
    Time,
    /// Microseconds since 1970-01-01, without a time zone; [`Type::Timestamp`] in envelopes.
    Timestamp,
    /// Microseconds since 1970-01-01 in UTC, in which they are shown; [`Type::Timestamp`] with the zone `UTC` in
    /// envelopes.
    TimestampTz,
    /// Spans of microseconds, without months and days of their own; [`Type::Duration`] in envelopes.
    Interval,
    /// Lists of values of a type; [`Type::List`] in envelopes.
    List(Arc<SqlType>),
    /// Values with named parts; [`Type::Struct`] in envelopes.
    Struct(Arc<[(String, SqlType)]>),
}

/// The digits of a bigint.
const BIGINT_DIGITS: u8 = 19;

impl SqlType {
    /// The type of such a column in envelopes.
    pub fn flow_type(&self) -> Type {
        match self {
            SqlType::Boolean => Type::Bool,
            SqlType::BigInt => Type::I64,
            SqlType::Double => Type::F64,
            SqlType::Decimal { precision, scale } => Type::Decimal { precision: *precision, scale: *scale as i8 },
            SqlType::Varchar => Type::Text,
            SqlType::Blob => Type::Binary,
            SqlType::Date => Type::Date,
            SqlType::Time => Type::Time(TimeUnit::Micro),
            SqlType::Timestamp => Type::Timestamp(TimeUnit::Micro, None),
            SqlType::TimestampTz => Type::Timestamp(TimeUnit::Micro, Some("UTC".into())),
            SqlType::Interval => Type::Duration(TimeUnit::Micro),
            SqlType::List(of) => Type::list(of.flow_type()),
            SqlType::Struct(parts) => {
                let field = |(name, kind): &(String, SqlType)| Field::new(name, kind.flow_type()).or_null();
                Type::Struct(Arc::new(parts.iter().map(field).collect::<Schema>()))
            }
        }
    }

    /// The type that has all values of a column's type; integers of any size are bigint. `None` if SQL has none here.
    ///
    /// ```
    /// use vicus_flow::Type;
    /// use vicus_sql::SqlType;
    ///
    /// assert_eq!((SqlType::of(&Type::U8), SqlType::of(&Type::Binary)), (Some(SqlType::BigInt), Some(SqlType::Blob)));
    /// assert_eq!(SqlType::of(&Type::Decimal { precision: 38, scale: -1 }), None);
    /// ```
    pub fn of(kind: &Type) -> Option<SqlType> {
        Some(match kind {
            Type::Bool => SqlType::Boolean,
            Type::I8 | Type::I16 | Type::I32 | Type::I64 => SqlType::BigInt,
            Type::U8 | Type::U16 | Type::U32 | Type::U64 => SqlType::BigInt,
            Type::F32 | Type::F64 => SqlType::Double,
            Type::Decimal { precision, scale } => SqlType::of_decimal(*precision, *scale)?,
            Type::Text => SqlType::Varchar,
            Type::Binary | Type::FixedBinary(_) => SqlType::Blob,
            Type::Date => SqlType::Date,
            Type::Time(_) => SqlType::Time,
            Type::Timestamp(_, None) => SqlType::Timestamp,
            Type::Timestamp(_, Some(_)) => SqlType::TimestampTz,
            Type::Duration(_) => SqlType::Interval,
            Type::List(of) => SqlType::List(Arc::new(SqlType::of(&of.kind)?)),
            Type::Struct(parts) if parts.columns().is_empty() => return None,
            Type::Struct(parts) => {
                let part = |field: &Field| Some((field.name.clone(), SqlType::of(&field.kind)?));
                SqlType::Struct(parts.columns().iter().map(part).collect::<Option<_>>()?)
            }
        })
    }

    /// Whether a column is one of the type: names, nulls and storage within lists and structs may differ.
    pub(crate) fn has(&self, column: &vicus_flow::Column) -> bool {
        let kind = column.kind();
        kind == self.flow_type() || (kind.is_nested() && SqlType::of(&kind).as_ref() == Some(self))
    }

    /// The type of a column of the schema of a box of SQL.
    pub(crate) fn of_schema(field: &Field) -> SqlType {
        SqlType::of(&field.kind).unwrap_or_else(|| panic!("{} is of no type of SQL", field.kind))
    }

    /// The type of decimals with a scale of envelopes: zeros before the point and digits far behind it are digits.
    fn of_decimal(precision: u8, scale: i8) -> Option<SqlType> {
        let precision = i16::from(precision) + i16::from((-scale).max(0));
        let scale = scale.max(0) as u8;
        let precision = precision.max(i16::from(scale)) as u8;
        (precision <= decimal::DIGITS).then_some(SqlType::Decimal { precision, scale })
    }

    /// The type of a name in SQL, such as `bigint`, `decimal(9, 2)`, `date[]` or `struct(a bigint, b varchar)`; in
    /// any letters.
    ///
    /// ```
    /// use vicus_sql::SqlType;
    ///
    /// assert_eq!(SqlType::named("decimal(9,2)"), Some(SqlType::Decimal { precision: 9, scale: 2 }));
    /// let pairs = SqlType::named("struct(a bigint, b date[])[]").unwrap();
    /// assert_eq!(pairs.to_string(), "struct(a bigint, b date[])[]");
    /// assert_eq!((SqlType::named("int"), SqlType::named("date[")), (None, None));
    /// ```
    pub fn named(name: &str) -> Option<SqlType> {
        let (kind, rest) = SqlType::before(name)?;
        rest.is_empty().then_some(kind)
    }

    /// The type that a text begins with, and the rest of the text.
    fn before(text: &str) -> Option<(SqlType, &str)> {
        let end = text.find(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_').unwrap_or(text.len());
        let (name, mut rest) = text.split_at(end);
        let mut kind = match name.to_ascii_lowercase().as_str() {
            "decimal" => {
                let (digits, behind) = rest.strip_prefix('(')?.split_once(')')?;
                rest = behind;
                let (precision, scale) = digits.split_once(',').unwrap_or((digits, "0"));
                decimal::kind(precision.trim().parse().ok()?, scale.trim().parse().ok()?)?
            }
            "struct" => {
                rest = rest.strip_prefix('(')?;
                let mut parts = Vec::new();
                loop {
                    let (name, behind) = rest.trim_start().split_once(' ')?;
                    let (kind, behind) = deep(|| SqlType::before(behind.trim_start()))?;
                    parts.push((name.to_owned(), kind));
                    rest = behind.trim_start();
                    match rest.strip_prefix(',') {
                        Some(behind) => rest = behind,
                        None => break,
                    }
                }
                rest = rest.strip_prefix(')')?;
                SqlType::Struct(parts.into())
            }
            name => SqlType::SIMPLE.iter().find(|kind| kind.to_string() == name).cloned()?,
        };
        while let Some(behind) = rest.strip_prefix("[]") {
            rest = behind;
            kind = SqlType::List(Arc::new(kind));
        }
        Some((kind, rest))
    }

    /// The types without parameters, in their order here.
    pub const SIMPLE: [SqlType; 10] = [
        SqlType::Boolean,
        SqlType::BigInt,
        SqlType::Double,
        SqlType::Varchar,
        SqlType::Blob,
        SqlType::Date,
        SqlType::Time,
        SqlType::Timestamp,
        SqlType::TimestampTz,
        SqlType::Interval,
    ];

    pub(crate) fn is_numeric(&self) -> bool {
        matches!(self, SqlType::BigInt | SqlType::Double | SqlType::Decimal { .. })
    }

    /// How single values and columns of the type are computed with.
    pub(crate) fn form(&self) -> Form {
        match self {
            SqlType::Boolean => Form::Truth,
            SqlType::BigInt | SqlType::Time | SqlType::Timestamp | SqlType::TimestampTz | SqlType::Interval => {
                Form::Integer
            }
            SqlType::Double => Form::Double,
            SqlType::Decimal { .. } => Form::Decimal,
            SqlType::Varchar | SqlType::Blob => Form::Bytes,
            SqlType::Date => Form::Days,
            SqlType::List(_) | SqlType::Struct(_) => Form::Parts,
        }
    }

    /// Whether equal values may have different bits: doubles, and what has them as parts.
    pub(crate) fn has_doubles(&self) -> bool {
        match self {
            SqlType::Double => true,
            SqlType::List(of) => of.has_doubles(),
            SqlType::Struct(parts) => parts.iter().any(|(_, kind)| kind.has_doubles()),
            _ => false,
        }
    }

    /// The type that values of both are turned into where they meet; `None` if they don't fit together.
    pub(crate) fn common(&self, other: &SqlType) -> Option<SqlType> {
        use SqlType::{BigInt, Date, Decimal, Double, List, Struct, Timestamp, TimestampTz};
        match (self, other) {
            (a, b) if a == b => Some(a.clone()),
            (BigInt | Decimal { .. }, Double) | (Double, BigInt | Decimal { .. }) => Some(Double),
            (Decimal { .. }, BigInt) => self.common(&Decimal { precision: BIGINT_DIGITS, scale: 0 }),
            (BigInt, Decimal { .. }) => other.common(self),
            (Decimal { precision: p, scale: s }, Decimal { precision: q, scale: t }) => {
                let (whole, scale) = ((p - s).max(q - t), *s.max(t));
                Some(Decimal { precision: (whole + scale).min(decimal::DIGITS), scale })
            }
            (Date, Timestamp) | (Timestamp, Date) => Some(Timestamp),
            (Date | Timestamp, TimestampTz) | (TimestampTz, Date | Timestamp) => Some(TimestampTz),
            (List(a), List(b)) => Some(List(Arc::new(a.common(b)?))),
            (Struct(a), Struct(b)) if a.len() == b.len() && a.iter().zip(&**b).all(|(a, b)| a.0 == b.0) => {
                let part = |(a, b): (&(String, SqlType), &(String, SqlType))| Some((a.0.clone(), a.1.common(&b.1)?));
                Some(Struct(a.iter().zip(&**b).map(part).collect::<Option<_>>()?))
            }
            _ => None,
        }
    }
}

/// How values of a type are computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Truth,
    /// 64-bit integers, whatever they mean.
    Integer,
    Double,
    /// 128-bit integers: units of a decimal's last digit.
    Decimal,
    /// Texts and strings of bytes.
    Bytes,
    /// 32-bit integers: dates.
    Days,
    /// Lists and structs.
    Parts,
}

impl From<&SqlType> for ValueType {
    fn from(kind: &SqlType) -> ValueType {
        match kind {
            SqlType::Boolean => ValueType::Boolean,
            SqlType::BigInt => ValueType::Integer,
            SqlType::Double => ValueType::Double,
            SqlType::Varchar => ValueType::Text,
            SqlType::Date => ValueType::Date,
            SqlType::Timestamp => ValueType::Timestamp,
            other => ValueType::Other(Arc::new(other.flow_type())),
        }
    }
}

/// The name of the type in SQL, in small letters.
impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            SqlType::Boolean => "boolean",
            SqlType::BigInt => "bigint",
            SqlType::Double => "double",
            SqlType::Decimal { precision, scale } => return write!(f, "decimal({precision},{scale})"),
            SqlType::Varchar => "varchar",
            SqlType::Blob => "blob",
            SqlType::Date => "date",
            SqlType::Time => "time",
            SqlType::Timestamp => "timestamp",
            SqlType::TimestampTz => "timestamptz",
            SqlType::Interval => "interval",
            SqlType::List(of) => return write!(f, "{of}[]"),
            SqlType::Struct(parts) => {
                f.write_str("struct(")?;
                for (place, (name, kind)) in parts.iter().enumerate() {
                    write!(f, "{}{name} {kind}", if place == 0 { "" } else { ", " })?;
                }
                ")"
            }
        };
        f.write_str(name)
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
    /// A decimal number: units of its last digit, and how many digits are behind the point.
    Decimal(i128, u8),
    /// A text.
    Varchar(Arc<str>),
    /// A string of bytes.
    Blob(Arc<[u8]>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds since 1970-01-01.
    Timestamp(i64),
    /// Microseconds since 1970-01-01 in UTC.
    TimestampTz(i64),
    /// Microseconds.
    Interval(i64),
    /// The values of a list.
    List(Arc<[Value]>),
    /// The parts of a struct, by their names.
    Struct(Arc<[(String, Value)]>),
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
            (Value::Decimal(a, s), Value::Decimal(b, t)) if s == t => Some(a.cmp(b)),
            (Value::Varchar(a), Value::Varchar(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
            (Value::Blob(a), Value::Blob(b)) => Some(a.cmp(b)),
            (Value::Date(a), Value::Date(b)) => Some(a.cmp(b)),
            (Value::Time(a), Value::Time(b)) => Some(a.cmp(b)),
            (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
            (Value::TimestampTz(a), Value::TimestampTz(b)) => Some(a.cmp(b)),
            (Value::Interval(a), Value::Interval(b)) => Some(a.cmp(b)),
            (Value::List(a), Value::List(b)) => {
                let parts = a.iter().zip(&**b).map(|(a, b)| a.order_or_null(b));
                first_difference(parts, a.len().cmp(&b.len()))
            }
            (Value::Struct(a), Value::Struct(b)) => {
                first_difference(a.iter().zip(&**b).map(|(a, b)| a.1.order_or_null(&b.1)), a.len().cmp(&b.len()))
            }
            _ => None,
        }
    }

    /// Orders two parts of lists or structs: nulls are equal, and greater than all values.
    fn order_or_null(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Null, Value::Null) => Some(Ordering::Equal),
            (Value::Null, _) => Some(Ordering::Greater),
            (_, Value::Null) => Some(Ordering::Less),
            _ => self.order(other),
        }
    }

    /// The bytes of its texts and parts.
    pub(crate) fn bytes_beside(&self) -> usize {
        let parts = |value: &Value| size_of::<Value>() + value.bytes_beside();
        match self {
            Value::Varchar(text) => text.len(),
            Value::Blob(bytes) => bytes.len(),
            Value::List(values) => values.iter().map(parts).sum(),
            Value::Struct(values) => values.iter().map(|(name, value)| 24 + name.len() + parts(value)).sum(),
            _ => 0,
        }
    }
}

/// The first order that is not equal, else the last one; `None` if parts can't be compared.
fn first_difference(parts: impl Iterator<Item = Option<Ordering>>, last: Ordering) -> Option<Ordering> {
    for order in parts {
        match order {
            Some(Ordering::Equal) => {}
            other => return other,
        }
    }
    Some(last)
}

/// SQL's written form: texts, dates and the like in quotes.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Boolean(value) => write!(f, "{value}"),
            Value::BigInt(value) => write!(f, "{value}"),
            Value::Double(value) => write!(f, "{value:?}"),
            Value::Decimal(units, scale) => decimal::write(f, *units, *scale),
            Value::Varchar(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Value::Blob(bytes) => {
                f.write_str("X'")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
                f.write_str("'")
            }
            Value::Date(days) => write!(f, "DATE '{}'", date::Date(*days)),
            Value::Time(micros) => write!(f, "TIME '{}'", date::Time(*micros)),
            Value::Timestamp(micros) => write!(f, "TIMESTAMP '{}'", date::Timestamp(*micros)),
            Value::TimestampTz(micros) => write!(f, "TIMESTAMPTZ '{}+00'", date::Timestamp(*micros)),
            Value::Interval(micros) => write!(f, "INTERVAL '{}'", date::Span(*micros)),
            Value::List(values) => {
                f.write_str("[")?;
                for (place, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if place == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Value::Struct(parts) => {
                f.write_str("{")?;
                for (place, (name, value)) in parts.iter().enumerate() {
                    write!(f, "{}'{}': {value}", if place == 0 { "" } else { ", " }, name.replace('\'', "''"))?;
                }
                f.write_str("}")
            }
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
