//! Columns as Arrow arrays and back: the exchange format of Python, C++ and databases.
//!
//! If the layouts agree, no data is copied, in both directions: numbers, dates, times, decimals, strings of fixed size,
//! texts and strings of bytes with 32-bit offsets, as views, and as dictionaries with 32-bit keys, lists, structs, and
//! the bits of nulls. An array keeps the column's block, and a column keeps the array's buffers. Copied are truth
//! values, since Arrow packs them into bits; offsets and keys of other sizes; numbers whose type has more bits here;
//! dictionaries of values that are not texts or strings of bytes. Text beyond 2 GiB with 64-bit offsets becomes views
//! of it.
//!
//! Arrow checks arrays where they are built, unless unsafe code builds them. An envelope reads offsets, keys and views
//! again, because one that leads out of its values would be read as one; it takes on trust that texts are UTF-8.
//!
//! ```
//! use vicus_flow::arrow::arrow_array::{Array, RecordBatch, cast::AsArray, types::Int64Type};
//! use vicus_flow::{Column, Envelope, Schema, Type};
//!
//! let schema = Schema::new([("name", Type::Text), ("year", Type::I64)]).with_nulls(["year"]);
//! let names = ["Bobox", "Qthreads"].into_iter().collect();
//! let envelope = Envelope::new([names, vec![Some(2011i64), None].into()]);
//! let batch: RecordBatch = envelope.to_arrow(&schema);
//! assert_eq!(batch.column(1).as_primitive::<Int64Type>().value(0), 2011);
//! assert!(batch.column(1).is_null(1));
//!
//! let back = Envelope::from_arrow(&batch)?;
//! assert_eq!(Schema::from_arrow(&batch.schema())?, schema);
//! assert_eq!(back.column(1).i64s().as_ptr(), envelope.column(1).i64s().as_ptr());
//! # Ok::<(), vicus_flow::FromArrowError>(())
//! ```
//!
//! C programs use Arrow's [C data interface](https://arrow.apache.org/docs/format/CDataInterface.html);
//! `arrow_array::ffi` converts arrays to it and from it.

use crate::block::Block;
use crate::builder;
use crate::column::{Column, MOST_TEXT, Parts, Rest, View, of_codes, of_struct, of_views};
use crate::nulls::{Bytes, Nulls};
use crate::store::Store;
use crate::types::Form;
use crate::{Envelope, Field, Grow, NoMemory, Schema, Storage, TimeUnit, Type, give_up};
use arrow_array::cast::AsArray;
use arrow_array::types::{self, ArrowPrimitiveType, ByteArrayType, ByteViewType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, FixedSizeBinaryArray, GenericByteArray, GenericByteViewArray,
    ListArray, OffsetSizeTrait, PrimitiveArray, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema, TimeUnit as ArrowUnit};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

pub use arrow_array;
pub use arrow_schema;

/// Why an Arrow table is no envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromArrowError {
    /// A column is of a type foreign to envelopes.
    Type {
        /// The column's name, if it has one.
        column: Option<String>,
        /// Its type.
        data_type: DataType,
    },
    /// The lists of a column have more than 2^31 values; its rows are to be sliced first.
    TooManyItems {
        /// The column's name, if it has one.
        column: Option<String>,
    },
    /// A number has no counterpart in the type that it comes into.
    Value {
        /// The column's name, if it has one.
        column: Option<String>,
        /// The number, and why.
        problem: String,
    },
    /// A row has a dictionary key that no value has.
    Key {
        /// The column's name, if it has one.
        column: Option<String>,
        /// The row.
        row: usize,
        /// How many values the dictionary has.
        values: usize,
    },
    /// A row's offsets, its view or its list leads out of the array's values: unchecked code has built the array.
    Outside {
        /// The column's name, if it has one.
        column: Option<String>,
        /// The row.
        row: usize,
        /// Where it leads.
        problem: String,
    },
    /// The envelope has four billion rows or more; they are to be sliced first.
    TooManyRows {
        /// How many.
        rows: usize,
    },
    /// There is no memory for the copy.
    NoMemory(NoMemory),
}

impl FromArrowError {
    fn in_column(mut self, name: &str) -> FromArrowError {
        match &mut self {
            FromArrowError::Type { column, .. }
            | FromArrowError::TooManyItems { column }
            | FromArrowError::Value { column, .. }
            | FromArrowError::Key { column, .. }
            | FromArrowError::Outside { column, .. } => {
                *column = Some(column.take().map_or_else(|| name.to_owned(), |inner| format!("{name}.{inner}")));
            }
            FromArrowError::TooManyRows { .. } | FromArrowError::NoMemory(_) => {}
        }
        self
    }
}

impl fmt::Display for FromArrowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column =
            |column: &Option<String>| column.as_ref().map_or("a column".into(), |name| format!("column {name}"));
        match self {
            FromArrowError::Type { column: name, data_type } => write!(
                f,
                "{} is of Arrow's type {data_type}, which envelopes don't have; cast it to another type first",
                column(name)
            ),
            FromArrowError::TooManyItems { column: name } => {
                write!(f, "the lists of {} have more than 2^31 values; slice its rows first", column(name))
            }
            FromArrowError::Value { column: name, problem } => write!(f, "{}: {problem}", column(name)),
            FromArrowError::Key { column: name, row, values } => {
                write!(f, "row {row} of {} has a key that its dictionary of {values} values doesn't have", column(name))
            }
            FromArrowError::Outside { column: name, row, problem } => {
                write!(f, "row {row} of {} {problem}", column(name))
            }
            FromArrowError::TooManyRows { rows } => {
                write!(f, "an envelope has fewer than four billion rows, and these are {rows}; slice them first")
            }
            FromArrowError::NoMemory(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FromArrowError {}

impl From<NoMemory> for FromArrowError {
    fn from(error: NoMemory) -> FromArrowError {
        FromArrowError::NoMemory(error)
    }
}

impl TimeUnit {
    fn to_arrow(self) -> ArrowUnit {
        match self {
            TimeUnit::Second => ArrowUnit::Second,
            TimeUnit::Milli => ArrowUnit::Millisecond,
            TimeUnit::Micro => ArrowUnit::Microsecond,
            TimeUnit::Nano => ArrowUnit::Nanosecond,
        }
    }

    fn from_arrow(unit: ArrowUnit) -> TimeUnit {
        match unit {
            ArrowUnit::Second => TimeUnit::Second,
            ArrowUnit::Millisecond => TimeUnit::Milli,
            ArrowUnit::Microsecond => TimeUnit::Micro,
            ArrowUnit::Nanosecond => TimeUnit::Nano,
        }
    }
}

impl Type {
    /// The Arrow type of a column of this type that is stored directly. Times of day in seconds and milliseconds have
    /// 32 bits in Arrow.
    pub fn to_arrow(&self) -> DataType {
        match self {
            Type::Bool => DataType::Boolean,
            Type::I8 => DataType::Int8,
            Type::I16 => DataType::Int16,
            Type::I32 => DataType::Int32,
            Type::I64 => DataType::Int64,
            Type::U8 => DataType::UInt8,
            Type::U16 => DataType::UInt16,
            Type::U32 => DataType::UInt32,
            Type::U64 => DataType::UInt64,
            Type::F32 => DataType::Float32,
            Type::F64 => DataType::Float64,
            Type::Text => DataType::Utf8,
            Type::Binary => DataType::Binary,
            Type::Date => DataType::Date32,
            Type::Time(unit @ (TimeUnit::Second | TimeUnit::Milli)) => DataType::Time32(unit.to_arrow()),
            Type::Time(unit) => DataType::Time64(unit.to_arrow()),
            Type::Timestamp(unit, zone) => DataType::Timestamp(unit.to_arrow(), zone.clone()),
            Type::Duration(unit) => DataType::Duration(unit.to_arrow()),
            Type::Decimal { precision, scale } => DataType::Decimal128(*precision, *scale),
            // A length beyond 2^31 has no column.
            Type::FixedBinary(bytes) => DataType::FixedSizeBinary(*bytes as i32),
            Type::List(field) => DataType::List(Arc::new(field.to_arrow())),
            Type::Struct(fields) => DataType::Struct(fields.columns().iter().map(Field::to_arrow).collect()),
        }
    }

    /// The Arrow type of a column of this type in this storage; texts of limited size are Arrow's plain texts.
    fn to_arrow_in(&self, storage: Storage) -> DataType {
        match (self, storage) {
            (Type::Text, Storage::Views) => DataType::Utf8View,
            (Type::Binary, Storage::Views) => DataType::BinaryView,
            (Type::Text | Type::Binary, Storage::Dictionary) => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(self.to_arrow()))
            }
            _ => self.to_arrow(),
        }
    }

    /// The type of the column for an array of this Arrow type.
    ///
    /// # Errors
    /// Envelopes have no such type.
    pub fn from_arrow(data_type: &DataType) -> Result<Type, FromArrowError> {
        Ok(match data_type {
            DataType::Boolean => Type::Bool,
            DataType::Int8 => Type::I8,
            DataType::Int16 => Type::I16,
            DataType::Int32 => Type::I32,
            DataType::Int64 => Type::I64,
            DataType::UInt8 => Type::U8,
            DataType::UInt16 => Type::U16,
            DataType::UInt32 => Type::U32,
            DataType::UInt64 => Type::U64,
            DataType::Float32 => Type::F32,
            DataType::Float64 => Type::F64,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Type::Text,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Type::Binary,
            DataType::Date32 => Type::Date,
            // Milliseconds, which should be whole days and are not always.
            DataType::Date64 => Type::Timestamp(TimeUnit::Milli, None),
            DataType::Time32(unit) | DataType::Time64(unit) => Type::Time(TimeUnit::from_arrow(*unit)),
            DataType::Timestamp(unit, zone) => Type::Timestamp(TimeUnit::from_arrow(*unit), zone.clone()),
            DataType::Duration(unit) => Type::Duration(TimeUnit::from_arrow(*unit)),
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale) => Type::Decimal { precision: *precision, scale: *scale },
            DataType::FixedSizeBinary(bytes) if *bytes > 0 => Type::FixedBinary(*bytes as u32),
            DataType::List(field) | DataType::LargeList(field) => Type::List(Arc::new(Field::from_arrow(field)?)),
            // Below a null list there are values all the same, and these may be nulls.
            DataType::FixedSizeList(field, _) => Type::List(Arc::new(Field::from_arrow(field)?.or_null())),
            DataType::Struct(fields) if !fields.is_empty() => {
                let fields = fields.iter().map(|field| Field::from_arrow(field)).collect::<Result<_, _>>()?;
                Type::Struct(Arc::new(fields))
            }
            DataType::Dictionary(_, values) => Type::from_arrow(values)?,
            other => return Err(FromArrowError::Type { column: None, data_type: other.clone() }),
        })
    }
}

impl Field {
    fn to_arrow(&self) -> ArrowField {
        ArrowField::new(&self.name, self.kind.to_arrow_in(self.storage), self.nullable)
    }

    fn from_arrow(field: &ArrowField) -> Result<Field, FromArrowError> {
        let kind = Type::from_arrow(field.data_type()).map_err(|error| error.in_column(field.name()))?;
        let storage = match field.data_type() {
            DataType::Utf8View | DataType::BinaryView => Storage::Views,
            DataType::Dictionary(..) if kind.is_variable() => Storage::Dictionary,
            _ => Storage::Direct,
        };
        Ok(Field { name: field.name().clone(), kind, nullable: field.is_nullable(), storage })
    }
}

impl Schema {
    /// The schema as an Arrow schema: views and dictionaries where its fields have this storage.
    pub fn to_arrow(&self) -> ArrowSchema {
        ArrowSchema::new(self.columns().iter().map(Field::to_arrow).collect::<Vec<_>>())
    }

    /// The schema of envelopes for tables of an Arrow schema.
    ///
    /// # Errors
    /// A column is of a type foreign to envelopes.
    pub fn from_arrow(schema: &ArrowSchema) -> Result<Schema, FromArrowError> {
        schema.fields().iter().map(|field| Field::from_arrow(field)).collect()
    }
}

impl Envelope {
    /// The rows as an Arrow table with the names, and the storage, of this schema. A column in another storage is
    /// written anew; if there is no memory for that, or more than 2 GiB of text, it fails by [`give_up`]. Panics if the
    /// envelope does not fit the schema; a pill has no rows.
    pub fn to_arrow(&self, schema: &Schema) -> RecordBatch {
        assert!(self.fits(schema) && !self.is_pill(), "the envelope has not the columns of {schema}");
        let columns = self.columns().iter().zip(schema.columns());
        let columns = columns.map(|(column, field)| column.to_arrow_as(field)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows()));
        RecordBatch::try_new_with_options(Arc::new(schema.to_arrow()), columns, &options)
            .expect("an envelope is a table")
    }

    /// An envelope of an Arrow table's rows, with [`Schema::from_arrow`] of the table's schema.
    ///
    /// # Errors
    /// A column is of a type foreign to envelopes, there is too much of it, or no memory for a copy.
    pub fn from_arrow(batch: &RecordBatch) -> Result<Envelope, FromArrowError> {
        if u32::try_from(batch.num_rows()).is_err() {
            return Err(FromArrowError::TooManyRows { rows: batch.num_rows() });
        }
        let column = |(array, field): (&ArrayRef, &Arc<ArrowField>)| {
            Column::from_arrow(array).map_err(|error| error.in_column(field.name()))
        };
        let columns = batch.columns().iter().zip(batch.schema_ref().fields()).map(column);
        let columns = columns.collect::<Result<Vec<Column>, _>>()?;
        let other = |column: &&Column| column.len() != batch.num_rows();
        if let Some((column, field)) = columns.iter().zip(batch.schema_ref().fields()).find(|(column, _)| other(column))
        {
            let (rows, those) = (batch.num_rows(), column.len());
            let problem = format!("is one of {rows}, of which the column has {those}");
            return Err(outside(those.min(rows), problem).in_column(field.name()));
        }
        Ok(Envelope::of_rows(columns, batch.num_rows()))
    }
}

impl Column {
    /// The column as an Arrow array: of views, or a dictionary, if it is stored so. If there is no memory for what has
    /// to be copied, it fails by [`give_up`].
    pub fn to_arrow(&self) -> ArrayRef {
        self.to_arrow_as(&Field { storage: self.storage(), ..Field::new("", self.kind()).or_null() })
    }

    /// The column as the array of a field of its type.
    fn to_arrow_as(&self, field: &Field) -> ArrayRef {
        let storage = match field.storage {
            // Arrow has no such texts.
            Storage::Limited(_) => Storage::Direct,
            storage => storage,
        };
        if self.kind().is_variable() && self.storage() != storage {
            return self.stored(storage).unwrap_or_else(|error| give_up(error)).to_arrow_as(field);
        }
        let parts = self.parts();
        fn number<T: ArrowPrimitiveType>(parts: &Parts) -> ArrayRef {
            let bytes = parts.rows * size_of::<T::Native>();
            let values = ScalarBuffer::new(buffer(parts.at, bytes, &parts.block), 0, parts.rows);
            Arc::new(PrimitiveArray::<T>::new(values, nulls(parts)))
        }
        let narrow = || -> Vec<i32> {
            let time = |(row, &time): (usize, &i64)| match i32::try_from(time) {
                Ok(time) => time,
                Err(_) if self.is_null(row) => 0,
                Err(_) => give_up(format!("{time} is no time of a day")),
            };
            self.i64s().iter().enumerate().map(time).collect()
        };
        match (&parts.kind, storage) {
            (Type::Bool, _) => {
                let bits = packed(self.bools()).unwrap_or_else(|error| give_up(error));
                Arc::new(BooleanArray::new(BooleanBuffer::new(bits, 0, parts.rows), nulls(&parts)))
            }
            (Type::I8, _) => number::<types::Int8Type>(&parts),
            (Type::I16, _) => number::<types::Int16Type>(&parts),
            (Type::I32, _) => number::<types::Int32Type>(&parts),
            (Type::I64, _) => number::<types::Int64Type>(&parts),
            (Type::U8, _) => number::<types::UInt8Type>(&parts),
            (Type::U16, _) => number::<types::UInt16Type>(&parts),
            (Type::U32, _) => number::<types::UInt32Type>(&parts),
            (Type::U64, _) => number::<types::UInt64Type>(&parts),
            (Type::F32, _) => number::<types::Float32Type>(&parts),
            (Type::F64, _) => number::<types::Float64Type>(&parts),
            (Type::Date, _) => number::<types::Date32Type>(&parts),
            (Type::Time(TimeUnit::Second), _) => {
                Arc::new(PrimitiveArray::<types::Time32SecondType>::new(narrow().into(), nulls(&parts)))
            }
            (Type::Time(TimeUnit::Milli), _) => {
                Arc::new(PrimitiveArray::<types::Time32MillisecondType>::new(narrow().into(), nulls(&parts)))
            }
            (Type::Time(TimeUnit::Micro), _) => number::<types::Time64MicrosecondType>(&parts),
            (Type::Time(TimeUnit::Nano), _) => number::<types::Time64NanosecondType>(&parts),
            (Type::Timestamp(unit, zone), _) => {
                fn at<T: types::ArrowTimestampType>(parts: &Parts, zone: Option<Arc<str>>) -> ArrayRef {
                    let values = ScalarBuffer::new(buffer(parts.at, parts.rows * 8, &parts.block), 0, parts.rows);
                    Arc::new(PrimitiveArray::<T>::new(values, nulls(parts)).with_timezone_opt(zone))
                }
                match unit {
                    TimeUnit::Second => at::<types::TimestampSecondType>(&parts, zone.clone()),
                    TimeUnit::Milli => at::<types::TimestampMillisecondType>(&parts, zone.clone()),
                    TimeUnit::Micro => at::<types::TimestampMicrosecondType>(&parts, zone.clone()),
                    TimeUnit::Nano => at::<types::TimestampNanosecondType>(&parts, zone.clone()),
                }
            }
            (Type::Duration(unit), _) => match unit {
                TimeUnit::Second => number::<types::DurationSecondType>(&parts),
                TimeUnit::Milli => number::<types::DurationMillisecondType>(&parts),
                TimeUnit::Micro => number::<types::DurationMicrosecondType>(&parts),
                TimeUnit::Nano => number::<types::DurationNanosecondType>(&parts),
            },
            (Type::Decimal { precision, scale }, _) => {
                let values = ScalarBuffer::new(buffer(parts.at, parts.rows * 16, &parts.block), 0, parts.rows);
                let array = PrimitiveArray::<types::Decimal128Type>::new(values, nulls(&parts));
                Arc::new(array.with_data_type(DataType::Decimal128(*precision, *scale)))
            }
            (Type::FixedBinary(bytes), _) => {
                let values = buffer(parts.at, parts.rows * *bytes as usize, &parts.block);
                Arc::new(FixedSizeBinaryArray::new(*bytes as i32, values, nulls(&parts)))
            }
            (Type::Text, Storage::Views) => views::<types::StringViewType>(self, &parts),
            (Type::Binary, Storage::Views) => views::<types::BinaryViewType>(self, &parts),
            (Type::Text | Type::Binary, Storage::Dictionary) => dictionary(&parts),
            (Type::Text, _) => strings::<types::Utf8Type>(&parts),
            (Type::Binary, _) => strings::<types::BinaryType>(&parts),
            (Type::List(_), _) => {
                let Type::List(item) = &field.kind else { unreachable!("the field is of the column's type") };
                let items = self.items().to_arrow_as(item);
                let lists = ListArray::try_new(Arc::new(item.to_arrow()), ends(&parts), items, nulls(&parts));
                Arc::new(lists.unwrap_or_else(|error| give_up(error)))
            }
            (Type::Struct(_), _) => {
                let Type::Struct(fields) = &field.kind else { unreachable!("the field is of the column's type") };
                let columns = self.parts_beside().iter().zip(fields.columns());
                let arrays = columns.map(|(part, field)| part.to_arrow_as(field)).collect();
                let fields = fields.columns().iter().map(Field::to_arrow).collect();
                struct_array(fields, arrays, nulls(&parts), parts.rows)
            }
        }
    }

    /// A column of an Arrow array's values; the [module](self) names the copied kinds.
    ///
    /// # Errors
    /// Envelopes have no such type, a dictionary lacks a key, a row leads out of the array's values, lists have too
    /// many values, or no memory for a copy.
    pub fn from_arrow(array: &dyn Array) -> Result<Column, FromArrowError> {
        fn number<T: ArrowPrimitiveType>(kind: Type, array: &dyn Array) -> Column {
            let array = array.as_primitive::<T>();
            let form = kind.form();
            of_parts(kind, form, array, array.values().inner().clone(), Rest::None)
        }
        fn wider<T: ArrowPrimitiveType, W: From<T::Native> + Copy>(array: &dyn Array) -> Result<Vec<W>, NoMemory> {
            let mut values = Vec::with_room(array.len())?;
            values.extend(array.as_primitive::<T>().values().iter().map(|&value| W::from(value)));
            Ok(values)
        }
        let kind = Type::from_arrow(array.data_type())?;
        if array.is_empty() {
            return Ok(builder::empty(&kind));
        }
        if let Some(nulls) = array.nulls().filter(|nulls| nulls.len() != array.len()) {
            let (rows, bits) = (array.len(), nulls.len());
            return Err(outside(bits.min(rows), format!("is one of {rows} rows with {bits} bits for nulls")));
        }
        Ok(match array.data_type() {
            DataType::Int8 => number::<types::Int8Type>(kind, array),
            DataType::Int16 => number::<types::Int16Type>(kind, array),
            DataType::Int32 => number::<types::Int32Type>(kind, array),
            DataType::Int64 => number::<types::Int64Type>(kind, array),
            DataType::UInt8 => number::<types::UInt8Type>(kind, array),
            DataType::UInt16 => number::<types::UInt16Type>(kind, array),
            DataType::UInt32 => number::<types::UInt32Type>(kind, array),
            DataType::UInt64 => number::<types::UInt64Type>(kind, array),
            DataType::Float32 => number::<types::Float32Type>(kind, array),
            DataType::Float64 => number::<types::Float64Type>(kind, array),
            DataType::Date32 => number::<types::Date32Type>(kind, array),
            DataType::Date64 => number::<types::Date64Type>(kind, array),
            DataType::Time32(ArrowUnit::Second) => {
                Column::from(wider::<types::Time32SecondType, i64>(array)?).of_type(kind).and_nulls(array)
            }
            DataType::Time32(_) => {
                Column::from(wider::<types::Time32MillisecondType, i64>(array)?).of_type(kind).and_nulls(array)
            }
            DataType::Time64(ArrowUnit::Microsecond) => number::<types::Time64MicrosecondType>(kind, array),
            DataType::Time64(_) => number::<types::Time64NanosecondType>(kind, array),
            DataType::Timestamp(ArrowUnit::Second, _) => number::<types::TimestampSecondType>(kind, array),
            DataType::Timestamp(ArrowUnit::Millisecond, _) => number::<types::TimestampMillisecondType>(kind, array),
            DataType::Timestamp(ArrowUnit::Microsecond, _) => number::<types::TimestampMicrosecondType>(kind, array),
            DataType::Timestamp(ArrowUnit::Nanosecond, _) => number::<types::TimestampNanosecondType>(kind, array),
            DataType::Duration(ArrowUnit::Second) => number::<types::DurationSecondType>(kind, array),
            DataType::Duration(ArrowUnit::Millisecond) => number::<types::DurationMillisecondType>(kind, array),
            DataType::Duration(ArrowUnit::Microsecond) => number::<types::DurationMicrosecondType>(kind, array),
            DataType::Duration(ArrowUnit::Nanosecond) => number::<types::DurationNanosecondType>(kind, array),
            DataType::Decimal128(..) => number::<types::Decimal128Type>(kind, array),
            DataType::Decimal32(precision, scale) => {
                let values = wider::<types::Decimal32Type, i128>(array)?;
                Column::of_decimals(*precision, *scale, values).and_nulls(array)
            }
            DataType::Decimal64(precision, scale) => {
                let values = wider::<types::Decimal64Type, i128>(array)?;
                Column::of_decimals(*precision, *scale, values).and_nulls(array)
            }
            DataType::FixedSizeBinary(_) => {
                let form = kind.form();
                let array = array.as_fixed_size_binary();
                of_parts(kind, form, array, array.values().clone(), Rest::None)
            }
            DataType::Boolean => {
                let bits = array.as_boolean().values();
                let mut values = Vec::with_room(array.len())?;
                values.extend(bits.iter());
                Column::from(values).and_nulls(array)
            }
            DataType::Utf8 => of_strings(kind, array.as_bytes::<types::Utf8Type>())?,
            DataType::Binary => of_strings(kind, array.as_bytes::<types::BinaryType>())?,
            DataType::LargeUtf8 => of_strings(kind, array.as_bytes::<types::LargeUtf8Type>())?,
            DataType::LargeBinary => of_strings(kind, array.as_bytes::<types::LargeBinaryType>())?,
            DataType::Utf8View => of_arrow_views::<types::StringViewType>(kind, array)?,
            DataType::BinaryView => of_arrow_views::<types::BinaryViewType>(kind, array)?,
            DataType::List(_) => of_lists::<i32>(kind, array)?,
            DataType::LargeList(_) => of_lists::<i64>(kind, array)?,
            DataType::FixedSizeList(_, size) => {
                let lists = array.as_fixed_size_list();
                let negative = |_| outside(0, format!("has {size} values"));
                let each = usize::try_from(*size).map_err(negative)?;
                let first = lists.value_offset_at(0);
                let values = items_of(lists.values(), &kind)?;
                let end = array.len().checked_mul(each).and_then(|count| count.checked_add(first));
                let Some(end) = end.filter(|&end| end <= values.len()) else {
                    let row = values.len().saturating_sub(first) / each.max(1);
                    return Err(outside(row, format!("has {each} values, and the array ends before them")));
                };
                let items = values.slice(first..end);
                let too_many = |_| FromArrowError::TooManyItems { column: None };
                i32::try_from(items.len().max(array.len())).map_err(too_many)?;
                let ends: Vec<i32> = (0..=array.len() as i32).map(|row| row * size).collect();
                Column::of_lists(ends, items).with_kind(kind).and_nulls(array)
            }
            DataType::Struct(fields) => {
                let parts = array.as_struct().columns().iter().zip(fields);
                let part = |(part, field): (&ArrayRef, &Arc<ArrowField>)| {
                    Column::from_arrow(part).map_err(|error| error.in_column(field.name()))
                };
                let parts = parts.map(part).collect::<Result<Vec<_>, _>>()?;
                if let Some(part) = parts.iter().find(|part| part.len() != array.len()) {
                    let (rows, those) = (array.len(), part.len());
                    return Err(outside(those.min(rows), format!("is one of {rows}, of which a part has {those}")));
                }
                of_struct(kind, array.len(), parts).and_nulls(array)
            }
            DataType::Dictionary(..) => of_dictionary(kind, array)?,
            other => return Err(FromArrowError::Type { column: None, data_type: other.clone() }),
        })
    }

    /// This column's values with the nulls of an array.
    fn and_nulls(self, array: &dyn Array) -> Column {
        self.with(nulls_of(array.nulls()))
    }
}

/// An array of structs. A part may have nulls where its field has none, below a null of the struct.
fn struct_array(
    fields: arrow_schema::Fields,
    arrays: Vec<ArrayRef>,
    nulls: Option<NullBuffer>,
    rows: usize,
) -> ArrayRef {
    Arc::new(StructArray::try_new_with_length(fields, arrays, nulls, rows).unwrap_or_else(|error| give_up(error)))
}

/// A part of a block as a buffer. The buffer keeps the block.
fn buffer(at: NonNull<u8>, bytes: usize, block: &Arc<Block>) -> Buffer {
    #[expect(unsafe_code, reason = "Arrow takes the address on trust")]
    // SAFETY: the buffer keeps the block, and the block has `bytes` bytes there as long as it lives.
    unsafe {
        Buffer::from_custom_allocation(at, bytes, Arc::clone(block) as Arc<_>)
    }
}

fn whole(bytes: &Bytes) -> Buffer {
    buffer(NonNull::from(bytes.get()).cast(), bytes.get().len(), &bytes.block)
}

fn nulls(parts: &Parts) -> Option<NullBuffer> {
    let nulls = parts.nulls.as_ref()?;
    Some(NullBuffer::new(BooleanBuffer::new(whole(&nulls.bits), nulls.first, nulls.rows)))
}

/// The ends of lists, or of texts or strings of bytes that are stored directly.
fn ends(parts: &Parts) -> OffsetBuffer<i32> {
    if parts.rows == 0 {
        return OffsetBuffer::new_empty();
    }
    let ends =
        ScalarBuffer::new(buffer(parts.at, (parts.rows + 1) * size_of::<i32>(), &parts.block), 0, parts.rows + 1);
    #[expect(unsafe_code, reason = "Arrow would look at each end again")]
    // SAFETY: the ends rise from 0 or more: a column's invariant.
    unsafe {
        OffsetBuffer::new_unchecked(ends)
    }
}

fn strings<T: ByteArrayType<Offset = i32>>(parts: &Parts) -> ArrayRef {
    let text = match &parts.rest {
        Rest::Text(text) => whole(text),
        _ => Buffer::from_vec(Vec::<u8>::new()),
    };
    #[expect(unsafe_code, reason = "Arrow would look at each byte again")]
    // SAFETY: the ends rise and lie within the text; if it is a text, its parts are UTF-8: a column's invariant.
    let array = unsafe { GenericByteArray::<T>::new_unchecked(ends(parts), text, nulls(parts)) };
    Arc::new(array)
}

fn views<T: ByteViewType>(column: &Column, parts: &Parts) -> ArrayRef {
    let Rest::Buffers(buffers) = &parts.rest else { return Arc::new(GenericByteViewArray::<T>::new_null(0)) };
    let views = buffer(parts.at, size_of_val(column.views()), &parts.block);
    let (views, buffers) = (ScalarBuffer::new(views, 0, parts.rows), buffers.iter().map(whole).collect());
    #[expect(unsafe_code, reason = "Arrow would look at each byte again")]
    // SAFETY: views are laid out as Arrow's, and of values in these buffers; texts are UTF-8: a column's invariant.
    let array = unsafe { GenericByteViewArray::<T>::new_unchecked(views, buffers, nulls(parts)) };
    Arc::new(array)
}

fn dictionary(parts: &Parts) -> ArrayRef {
    let Rest::Store(store) = &parts.rest else { unreachable!("codes have a store") };
    // A store has fewer values than 2^31.
    let codes = ScalarBuffer::<i32>::new(buffer(parts.at, 4 * parts.rows, &parts.block), 0, parts.rows);
    let keys = PrimitiveArray::<types::Int32Type>::new(codes, nulls(parts));
    let values = store.values().stored(Storage::Direct).unwrap_or_else(|error| give_up(error)).to_arrow();
    match DictionaryArray::try_new(keys, values) {
        Ok(array) => Arc::new(array),
        // It was all nulls, whose codes are arbitrary.
        Err(error) => give_up(error),
    }
}

/// Truth values, eight in a byte.
fn packed(values: &[bool]) -> Result<Buffer, NoMemory> {
    let mut bits: Vec<u8> = Vec::with_room(values.len().div_ceil(8))?;
    let byte = |values: &[bool]| values.iter().rev().fold(0, |byte, &value| byte << 1 | u8::from(value));
    bits.extend(values.chunks(8).map(byte));
    Ok(Buffer::from_vec(bits))
}

/// A block that keeps an Arrow buffer, and the beginning of the buffer's bytes.
fn kept(buffer: Buffer) -> (NonNull<u8>, Arc<Block>) {
    let at = NonNull::new(buffer.as_ptr().cast_mut()).expect("a buffer's pointer is not null");
    #[expect(unsafe_code, reason = "Arrow's memory becomes a block")]
    // SAFETY: Arrow does not change buffers as long as they live, and this one is kept.
    let block = unsafe { Block::kept(at, buffer.len(), buffer) };
    (at, Arc::new(block))
}

fn bytes_of(buffer: Buffer) -> Bytes {
    let len = buffer.len();
    let (at, block) = kept(buffer);
    #[expect(unsafe_code, reason = "a buffer's bytes")]
    // SAFETY: the block is the buffer's bytes.
    unsafe {
        Bytes::new(at, len, block)
    }
}

fn nulls_of(nulls: Option<&NullBuffer>) -> Option<Nulls> {
    let nulls = nulls?;
    // Unchecked code may have given another number.
    let count = nulls.len() - nulls.inner().count_set_bits();
    let (bits, first) = (bytes_of(nulls.buffer().clone()), nulls.offset());
    (count > 0).then_some(Nulls { bits, first, rows: nulls.len(), count })
}

fn outside(row: usize, problem: String) -> FromArrowError {
    FromArrowError::Outside { column: None, row, problem }
}

/// Looks whether the offsets of rows rise within so many values.
fn rise_within<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, values: usize) -> Result<(), FromArrowError> {
    // All of them are compared, so that the loop has no branch.
    let falls = offsets.windows(2).fold(false, |falls, pair| falls | (pair[1] < pair[0]));
    if !falls && offsets[0].to_usize().is_some() && offsets.last().to_usize().is_some_and(|last| last <= values) {
        return Ok(());
    }
    let is_wrong = |pair: &[O]| pair[0].to_usize().is_none() || pair[1].to_usize().is_none_or(|end| end > values);
    for (row, pair) in offsets.windows(2).enumerate() {
        if pair[1] < pair[0] {
            return Err(outside(row, format!("begins at offset {:?} and ends at {:?}", pair[0], pair[1])));
        }
        if is_wrong(pair) {
            let (start, end) = (pair[0], pair[1]);
            return Err(outside(
                row,
                format!("has the offsets {start:?} to {end:?}, and the array has {values} values"),
            ));
        }
    }
    unreachable!("one of the offsets is wrong")
}

/// The values of an array of lists, whose errors name the field of the lists' type.
fn items_of(values: &ArrayRef, kind: &Type) -> Result<Column, FromArrowError> {
    let Type::List(item) = kind else { unreachable!("an array of lists is a column of lists") };
    Column::from_arrow(values).map_err(|error| error.in_column(&item.name))
}

/// A column of an array's values, and the rest of them.
fn of_parts(kind: Type, form: Form, array: &dyn Array, values: Buffer, rest: Rest) -> Column {
    let (at, block) = kept(values);
    let parts = Parts { kind, form, rows: array.len(), at, block, rest, nulls: nulls_of(array.nulls()) };
    #[expect(unsafe_code, reason = "Arrow's memory becomes a column")]
    // SAFETY: the array is of this type, and Arrow's arrays are aligned and have valid offsets and texts in all rows.
    unsafe {
        Column::new(parts)
    }
}

fn of_strings<T: ByteArrayType>(kind: Type, array: &GenericByteArray<T>) -> Result<Column, FromArrowError> {
    let offsets = array.offsets();
    rise_within(offsets, array.values().len())?;
    let (first, last) = (offsets.first().as_usize(), offsets.last().as_usize());
    if !T::Offset::IS_LARGE {
        let text = Rest::Text(bytes_of(array.values().clone()));
        return Ok(of_parts(kind, Form::Direct, array, offsets.inner().inner().clone(), text));
    }
    if last - first > MOST_TEXT {
        return of_much(kind, array);
    }
    let mut ends: Vec<i32> = Vec::with_room(offsets.len())?;
    ends.extend(offsets.iter().map(|offset| (offset.as_usize() - first) as i32));
    let text = Rest::Text(bytes_of(array.values().slice_with_length(first, last - first)));
    Ok(of_parts(kind, Form::Direct, array, Buffer::from_vec(ends), text))
}

/// More text than 32-bit offsets count, as views of parts of it.
fn of_much<T: ByteArrayType>(kind: Type, array: &GenericByteArray<T>) -> Result<Column, FromArrowError> {
    let (offsets, text) = (array.offsets(), array.values());
    let mut views: Vec<View> = Vec::with_room(array.len())?;
    let mut buffers = Vec::new();
    // The part that begins with the present row's value.
    let mut from = offsets.first().as_usize();
    let mut part_end = from;
    for row in offsets.windows(2) {
        let (start, end) = (row[0].as_usize(), row[1].as_usize());
        if end - start > MOST_TEXT {
            let problem = format!("a value of {} bytes, and at most 2 GiB are possible", end - start);
            return Err(FromArrowError::Value { column: None, problem });
        }
        if end - from > MOST_TEXT {
            buffers.push(bytes_of(text.slice_with_length(from, part_end - from)));
            from = start;
        }
        part_end = end;
        let value = &text[start..end];
        views.push(View::short(value).unwrap_or_else(|| View::long(value, buffers.len(), start - from)));
    }
    buffers.push(bytes_of(text.slice_with_length(from, part_end - from)));
    Ok(of_views(&kind, views, buffers, nulls_of(array.nulls())))
}

fn of_arrow_views<T: ByteViewType>(kind: Type, array: &dyn Array) -> Result<Column, FromArrowError> {
    let views = array.as_byte_view::<T>();
    let lens: Vec<usize> = views.data_buffers().iter().map(Buffer::len).collect();
    let buffers = Rest::Buffers(views.data_buffers().iter().map(|buffer| bytes_of(buffer.clone())).collect());
    let column = of_parts(kind, Form::Views, views, views.views().inner().clone(), buffers);
    // Of a null, there may be anything.
    let leads_out = |&(row, view): &(usize, &View)| view.leads_out_of(&lens) && !column.is_null(row);
    match column.views().iter().enumerate().find(leads_out) {
        Some((row, view)) => Err(outside(row, format!("has {view}, which the array doesn't have"))),
        None => Ok(column),
    }
}

fn of_lists<O: OffsetSizeTrait>(kind: Type, array: &dyn Array) -> Result<Column, FromArrowError> {
    let lists = array.as_list::<O>();
    let items = items_of(lists.values(), &kind)?;
    let offsets = lists.offsets();
    rise_within(offsets, items.len())?;
    if !O::IS_LARGE {
        let rest = Rest::Parts(Arc::new([items]));
        return Ok(of_parts(kind, Form::List, array, offsets.inner().inner().clone(), rest));
    }
    let (first, last) = (offsets.first().as_usize(), offsets.last().as_usize());
    i32::try_from(last - first).map_err(|_| FromArrowError::TooManyItems { column: None })?;
    let mut ends: Vec<i32> = Vec::with_room(offsets.len())?;
    ends.extend(offsets.iter().map(|offset| (offset.as_usize() - first) as i32));
    let rest = Rest::Parts(Arc::new([items.slice(first..last)]));
    Ok(of_parts(kind, Form::List, array, Buffer::from_vec(ends), rest))
}

/// A dictionary: its texts or strings of bytes shared; other values once for each key.
fn of_dictionary(kind: Type, array: &dyn Array) -> Result<Column, FromArrowError> {
    let dictionary = array.as_any_dictionary();
    let values = Column::from_arrow(dictionary.values())?;
    let keys = dictionary.keys();
    if kind.is_variable() {
        return of_keys(values, keys);
    }
    let mut names: Vec<u32> = Vec::new();
    codes_of(keys, values.len(), &mut names)?;
    let is_null = |row: usize| keys.is_null(row) || values.is_null(names[row] as usize);
    let name = |row: usize| (!is_null(row)).then(|| names[row] as usize);
    Ok(builder::picked(&values, (0..array.len()).map(name))?)
}

/// The keys of a dictionary of so many values, as codes; 0 for a null, of which there may be any key.
fn codes_of(keys: &dyn Array, values: usize, codes: &mut Vec<u32>) -> Result<(), FromArrowError> {
    let code = |row: usize, key: Option<usize>| match key {
        _ if keys.is_null(row) => Ok(0),
        Some(key) if key < values => Ok(key as u32),
        _ => Err(FromArrowError::Key { column: None, row, values }),
    };
    macro_rules! codes {
        ($($key:ident $type:ident;)*) => {
            match keys.data_type() {
                $(DataType::$key => {
                    codes.grow(keys.len())?;
                    for (row, &key) in keys.as_primitive::<types::$type>().values().iter().enumerate() {
                        codes.push(code(row, usize::try_from(key).ok())?);
                    }
                })*
                other => return Err(FromArrowError::Type { column: None, data_type: other.clone() }),
            }
        };
    }
    codes! {
        Int8 Int8Type; Int16 Int16Type; Int32 Int32Type; Int64 Int64Type;
        UInt8 UInt8Type; UInt16 UInt16Type; UInt32 UInt32Type; UInt64 UInt64Type;
    }
    Ok(())
}

/// A column of keys of these texts or strings of bytes, which are shared by all columns of them.
fn of_keys(values: Column, keys: &dyn Array) -> Result<Column, FromArrowError> {
    if i32::try_from(values.len()).is_err() {
        let problem = format!("a dictionary of {} values, and at most 2^31 are possible", values.len());
        return Err(FromArrowError::Value { column: None, problem });
    }
    // Keys of 32 bits are codes as they are.
    let shared = match keys.data_type() {
        DataType::UInt32 => Some(keys.as_primitive::<types::UInt32Type>().values().inner()),
        DataType::Int32 => Some(keys.as_primitive::<types::Int32Type>().values().inner()),
        _ => None,
    };
    let mut codes: Vec<u32> = Vec::new();
    if let Some(shared) = shared {
        let numbers: &[u32] = &shared.typed_data::<u32>()[..keys.len()];
        // The greatest is found without a branch.
        if numbers.iter().fold(0, |most, &key| most.max(key)) as usize >= values.len() {
            let beyond = |&row: &usize| numbers[row] as usize >= values.len() && !keys.is_null(row);
            if let Some(row) = (0..numbers.len()).find(beyond) {
                return Err(FromArrowError::Key { column: None, row, values: values.len() });
            }
        }
    } else {
        codes_of(keys, values.len(), &mut codes)?;
    }
    // A value may be a null; its rows are nulls then, and no value is.
    let (kind, is_null) = (values.kind(), values.clone());
    let column = match shared {
        Some(shared) => {
            let store = Rest::Store(Arc::new(Store::new(values.with(None))));
            of_parts(kind, Form::Codes, keys, shared.clone(), store)
        }
        None => of_codes(codes, Arc::new(Store::new(values.with(None))), nulls_of(keys.nulls())),
    };
    if is_null.null_count() == 0 {
        return Ok(column);
    }
    let of_null = |row: &usize| column.is_null(*row) || is_null.is_null(column.codes()[*row] as usize);
    Ok(column.with_nulls((0..column.len()).filter(of_null)))
}
