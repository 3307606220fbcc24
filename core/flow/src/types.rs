//! The types of columns, and the ways to store values of any size.

use crate::{Field, Schema};
use std::fmt;
use std::sync::Arc;

/// The type of a column's values.
///
/// Types with a meaning beyond their numbers, such as dates, are read as these numbers: a column of [`Type::Date`] by
/// [`Column::i32s`](crate::Column::i32s).
///
/// ```
/// use vicus_flow::{TimeUnit, Type};
///
/// let zoned = Type::Timestamp(TimeUnit::Micro, Some("Europe/Prague".into()));
/// assert_eq!(zoned.to_string(), "Timestamp(us, Europe/Prague)");
/// let point = Type::record([("x", Type::F64), ("y", Type::F64)]);
/// assert_eq!(Type::list(point).to_string(), "List(Struct(x: F64, y: F64))");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// True or false, a byte each.
    Bool,
    /// 8-bit signed integers.
    I8,
    /// 16-bit signed integers.
    I16,
    /// 32-bit signed integers.
    I32,
    /// 64-bit signed integers.
    I64,
    /// Bytes; also validity columns, with 0 for a deleted row. That is not a null: see [`Field::nullable`].
    U8,
    /// 16-bit unsigned integers.
    U16,
    /// 32-bit unsigned integers.
    U32,
    /// 64-bit unsigned integers; also ids and handles into a store.
    U64,
    /// 32-bit floating point.
    F32,
    /// 64-bit floating point.
    F64,
    /// UTF-8 text of any size, stored in one of several ways ([`Storage`]).
    Text,
    /// Strings of bytes of any size, stored as texts are.
    Binary,
    /// Days since 1970-01-01, as `i32`.
    Date,
    /// A time of day: units since midnight, as `i64`.
    Time(TimeUnit),
    /// A moment: units since 1970-01-01 00:00, as `i64`. With a time zone (a name of the IANA data base, or an offset
    /// such as `+01:00`), the moment is counted in UTC and shown in that zone; without one, the zone is not known.
    Timestamp(TimeUnit, Option<Arc<str>>),
    /// A span of time in units, as `i64`.
    Duration(TimeUnit),
    /// Decimal numbers, as `i128`.
    Decimal {
        /// The number of decimal digits, 1 to 38.
        precision: u8,
        /// The number of these digits behind the point. If it is negative, that many zeros follow the digits.
        scale: i8,
    },
    /// Strings of exactly this number of bytes.
    FixedBinary(u32),
    /// Lists of values; the field tells of these.
    List(Arc<Field>),
    /// Values with named parts: one of each column of a schema.
    Struct(Arc<Schema>),
}

/// The unit of times, moments and spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    /// Seconds.
    Second,
    /// Milliseconds.
    Milli,
    /// Microseconds.
    Micro,
    /// Nanoseconds.
    Nano,
}

impl TimeUnit {
    /// All units, the longest first.
    pub const ALL: [TimeUnit; 4] = [TimeUnit::Second, TimeUnit::Milli, TimeUnit::Micro, TimeUnit::Nano];

    /// How many of it are a second.
    pub fn per_second(self) -> i64 {
        match self {
            TimeUnit::Second => 1,
            TimeUnit::Milli => 1_000,
            TimeUnit::Micro => 1_000_000,
            TimeUnit::Nano => 1_000_000_000,
        }
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimeUnit::Second => "s",
            TimeUnit::Milli => "ms",
            TimeUnit::Micro => "us",
            TimeUnit::Nano => "ns",
        })
    }
}

/// The way a column stores values of any size, texts and strings of bytes (Bobox report §4.2). It is a property of a
/// column: one type has columns of any storage, readers see the same values, and boxes of the library keep it where
/// they can. A [`Field`]'s storage is what leaves towards Arrow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Storage {
    /// Offsets, and the bytes of all rows one after the other.
    #[default]
    Direct,
    /// Sixteen bytes for each row: a short value lies there, a longer one has its first four bytes there and all of it
    /// elsewhere ("overflow").
    Views,
    /// This number of bytes for each row, so no value may have more. For texts alone: unused bytes are those that UTF-8
    /// doesn't have.
    Limited(u32),
    /// A number for each row, that of its value in a store shared by many columns ("indirect").
    Dictionary,
}

impl Type {
    /// The types without parameters, in their order here.
    pub const SIMPLE: [Type; 14] = [
        Type::Bool,
        Type::I8,
        Type::I16,
        Type::I32,
        Type::I64,
        Type::U8,
        Type::U16,
        Type::U32,
        Type::U64,
        Type::F32,
        Type::F64,
        Type::Text,
        Type::Binary,
        Type::Date,
    ];

    /// Lists of values of a type, nulls among them.
    pub fn list(of: Type) -> Type {
        Type::List(Arc::new(Field::new("item", of).or_null()))
    }

    /// Values with parts of these names and types.
    pub fn record<N: Into<String>>(parts: impl IntoIterator<Item = (N, Type)>) -> Type {
        Type::Struct(Arc::new(Schema::new(parts)))
    }

    /// Whether values differ in size and are stored in one of several ways: texts and strings of bytes.
    pub fn is_variable(&self) -> bool {
        matches!(self, Type::Text | Type::Binary)
    }

    /// Whether values have parts: lists and structs.
    pub fn is_nested(&self) -> bool {
        matches!(self, Type::List(_) | Type::Struct(_))
    }

    /// The form of such a column if it is stored directly.
    pub(crate) fn form(&self) -> Form {
        match self {
            Type::Bool => Form::Bool,
            Type::I8 => Form::I8,
            Type::I16 => Form::I16,
            Type::I32 | Type::Date => Form::I32,
            Type::I64 | Type::Time(_) | Type::Timestamp(..) | Type::Duration(_) => Form::I64,
            Type::U8 => Form::U8,
            Type::U16 => Form::U16,
            Type::U32 => Form::U32,
            Type::U64 => Form::U64,
            Type::F32 => Form::F32,
            Type::F64 => Form::F64,
            Type::Text | Type::Binary => Form::Direct,
            Type::Decimal { .. } => Form::Decimal,
            Type::FixedBinary(bytes) => Form::Fixed(*bytes),
            Type::List(_) => Form::List,
            Type::Struct(_) => Form::Struct,
        }
    }

    /// The form of such a column in this storage.
    pub(crate) fn form_in(&self, storage: Storage) -> Form {
        match storage {
            Storage::Limited(bytes) if *self == Type::Text => Form::Limited(bytes),
            Storage::Views if self.is_variable() => Form::Views,
            Storage::Dictionary if self.is_variable() => Form::Codes,
            _ => self.form(),
        }
    }

    /// Whether values of this type are read as those of another: they differ in names, in storage, or in nulls that the
    /// reader allows and which are not there.
    pub(crate) fn fits(&self, reader: &Type) -> bool {
        match (self, reader) {
            (Type::List(a), Type::List(b)) => (b.nullable || !a.nullable) && a.kind.fits(&b.kind),
            (Type::Struct(a), Type::Struct(b)) => a.fits(b),
            _ => self == reader,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Time(unit) => write!(f, "Time({unit})"),
            Type::Timestamp(unit, None) => write!(f, "Timestamp({unit})"),
            Type::Timestamp(unit, Some(zone)) => write!(f, "Timestamp({unit}, {zone})"),
            Type::Duration(unit) => write!(f, "Duration({unit})"),
            Type::Decimal { precision, scale } => write!(f, "Decimal({precision}, {scale})"),
            Type::FixedBinary(bytes) => write!(f, "FixedBinary({bytes})"),
            Type::List(field) => write!(f, "List({})", field.kind),
            Type::Struct(fields) => write!(f, "Struct{fields}"),
            simple => write!(f, "{simple:?}"),
        }
    }
}

/// How values lie in a column's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    /// An `i128` for each row.
    Decimal,
    /// So many bytes for each row.
    Fixed(u32),
    /// So many bytes for each row, those behind a text being [`PADDING`].
    Limited(u32),
    /// Ends in `i32`, as many as there are rows and one more, and the bytes beside.
    Direct,
    /// A view for each row, and buffers beside.
    Views,
    /// A `u32` for each row, and a store beside.
    Codes,
    /// Ends as in `Direct`, and a column of values beside.
    List,
    /// Columns beside.
    Struct,
}

/// A byte that UTF-8 doesn't have.
pub(crate) const PADDING: u8 = 0xFF;

impl Form {
    /// The bytes of a row in the column itself.
    #[inline]
    pub(crate) fn width(self) -> usize {
        match self {
            Form::Bool | Form::I8 | Form::U8 => 1,
            Form::I16 | Form::U16 => 2,
            Form::I32 | Form::U32 | Form::F32 | Form::Direct | Form::Codes | Form::List => 4,
            Form::I64 | Form::U64 | Form::F64 => 8,
            Form::Decimal | Form::Views => 16,
            Form::Fixed(bytes) | Form::Limited(bytes) => bytes as usize,
            Form::Struct => 0,
        }
    }

    /// Whether there is one value more than rows, the first row's beginning.
    #[inline]
    pub(crate) fn has_ends(self) -> bool {
        matches!(self, Form::Direct | Form::List)
    }

    /// The storage of values of any size in this form.
    pub(crate) fn storage(self) -> Storage {
        match self {
            Form::Views => Storage::Views,
            Form::Limited(bytes) => Storage::Limited(bytes),
            Form::Codes => Storage::Dictionary,
            _ => Storage::Direct,
        }
    }

    /// Whether a column has nothing beside its values, but for nulls.
    #[inline]
    pub(crate) fn is_alone(self) -> bool {
        !matches!(self, Form::Direct | Form::Views | Form::Codes | Form::List | Form::Struct)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_two_words() {
        assert_eq!(size_of::<Type>(), 24);
        assert_eq!(size_of::<Form>(), 8);
    }
}
