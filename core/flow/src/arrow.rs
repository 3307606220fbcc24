//! Columns as Arrow arrays and back: the exchange format of Python, C++ and databases.
//!
//! If the layouts agree, no data is copied, in both directions: numbers, texts and strings of bytes with 32-bit
//! offsets, and the bits of nulls. An array keeps the column's block, and a column keeps the array's buffers. Two
//! things are copied: truth values, since Arrow packs them into bits; and on the way in, texts in layouts foreign to
//! columns (views, dictionaries), and 64-bit offsets.
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
use crate::column::{Column, Parts};
use crate::nulls::{Bytes, Nulls};
use crate::{Envelope, Field, Grow, NoMemory, Schema, Type, give_up};
use arrow_array::cast::AsArray;
use arrow_array::types::{self, ArrowPrimitiveType, ByteArrayType, ByteViewType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, GenericByteArray, OffsetSizeTrait, PrimitiveArray, RecordBatch, RecordBatchOptions,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};
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
    /// A column of texts or strings of bytes has more than 2 GiB of them; its rows are to be sliced first.
    TooMuchText {
        /// The column's name, if it has one.
        column: Option<String>,
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
            FromArrowError::Type { column, .. } | FromArrowError::TooMuchText { column } => {
                *column = Some(name.to_owned())
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
                "{} is of Arrow's type {data_type}, which envelopes don't have; cast it to a number, Utf8 or Binary \
                    first",
                column(name)
            ),
            FromArrowError::TooMuchText { column: name } => {
                write!(f, "{} has more than 2 GiB of text; slice its rows first", column(name))
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

impl Type {
    /// The Arrow type of a column of this type.
    pub fn to_arrow(self) -> DataType {
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
        }
    }

    /// The type of the column for an array of this Arrow type.
    ///
    /// # Errors
    /// Envelopes have no such type. Dates, times and decimals are not numbers without their unit, so they are none
    /// here.
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
            DataType::Dictionary(_, values) => Type::from_arrow(values)?,
            other => return Err(FromArrowError::Type { column: None, data_type: other.clone() }),
        })
    }
}

impl Schema {
    /// The schema as an Arrow schema.
    pub fn to_arrow(&self) -> ArrowSchema {
        let field = |Field { name, kind, nullable }: &Field| ArrowField::new(name, kind.to_arrow(), *nullable);
        ArrowSchema::new(self.columns().iter().map(field).collect::<Vec<_>>())
    }

    /// The schema of envelopes for tables of an Arrow schema.
    ///
    /// # Errors
    /// A column is of a type foreign to envelopes.
    pub fn from_arrow(schema: &ArrowSchema) -> Result<Schema, FromArrowError> {
        let field = |field: &Arc<ArrowField>| {
            let kind = Type::from_arrow(field.data_type()).map_err(|error| error.in_column(field.name()))?;
            Ok(Field { name: field.name().clone(), kind, nullable: field.is_nullable() })
        };
        schema.fields().iter().map(field).collect()
    }
}

impl Envelope {
    /// The rows as an Arrow table with the names of this schema. Panics if the envelope does not fit the schema; a pill
    /// has no rows.
    pub fn to_arrow(&self, schema: &Schema) -> RecordBatch {
        assert!(self.fits(schema) && !self.is_pill(), "the envelope has not the columns of {schema}");
        let columns = self.columns().iter().map(Column::to_arrow).collect();
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
        let columns = batch.columns().iter().zip(batch.schema_ref().fields()).map(column).collect::<Result<_, _>>()?;
        Ok(Envelope::of_rows(columns, batch.num_rows()))
    }
}

impl Column {
    /// The column as an Arrow array. Only truth values are copied; if there is no memory for the copy, it fails by
    /// [`give_up`].
    pub fn to_arrow(&self) -> ArrayRef {
        let parts = self.parts();
        fn number<T: ArrowPrimitiveType>(parts: &Parts) -> ArrayRef {
            let bytes = parts.rows * size_of::<T::Native>();
            let values = ScalarBuffer::new(buffer(parts.at, bytes, &parts.block), 0, parts.rows);
            Arc::new(PrimitiveArray::<T>::new(values, nulls(parts)))
        }
        match parts.kind {
            Type::Bool => {
                let bits = packed(self.bools()).unwrap_or_else(|error| give_up(error));
                Arc::new(BooleanArray::new(BooleanBuffer::new(bits, 0, parts.rows), nulls(&parts)))
            }
            Type::I8 => number::<types::Int8Type>(&parts),
            Type::I16 => number::<types::Int16Type>(&parts),
            Type::I32 => number::<types::Int32Type>(&parts),
            Type::I64 => number::<types::Int64Type>(&parts),
            Type::U8 => number::<types::UInt8Type>(&parts),
            Type::U16 => number::<types::UInt16Type>(&parts),
            Type::U32 => number::<types::UInt32Type>(&parts),
            Type::U64 => number::<types::UInt64Type>(&parts),
            Type::F32 => number::<types::Float32Type>(&parts),
            Type::F64 => number::<types::Float64Type>(&parts),
            Type::Text => strings::<types::Utf8Type>(&parts),
            Type::Binary => strings::<types::BinaryType>(&parts),
        }
    }

    /// A column of an Arrow array's values; the [module](self) names the copied kinds. A dictionary's values are
    /// written out.
    ///
    /// # Errors
    /// Envelopes have no such type, there is more than 2 GiB of text, or no memory for a copy.
    pub fn from_arrow(array: &dyn Array) -> Result<Column, FromArrowError> {
        fn number<T: ArrowPrimitiveType>(kind: Type, array: &dyn Array) -> Column {
            let array = array.as_primitive::<T>();
            of_parts(kind, array, array.values().inner().clone(), None)
        }
        let kind = Type::from_arrow(array.data_type())?;
        if array.is_empty() {
            return Ok(builder::empty(kind));
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
            DataType::Utf8View => of_views::<types::StringViewType>(kind, array)?,
            DataType::BinaryView => of_views::<types::BinaryViewType>(kind, array)?,
            DataType::Dictionary(..) => of_dictionary(kind, array)?,
            other => return Err(FromArrowError::Type { column: None, data_type: other.clone() }),
        })
    }

    /// This column's values with the nulls of an array.
    fn and_nulls(self, array: &dyn Array) -> Column {
        let parts = Parts { nulls: nulls_of(array.nulls()), ..self.parts() };
        #[expect(unsafe_code, reason = "the same column with other nulls")]
        // SAFETY: the values are those of a column.
        unsafe {
            Column::new(parts)
        }
    }
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

fn strings<T: ByteArrayType<Offset = i32>>(parts: &Parts) -> ArrayRef {
    if parts.rows == 0 {
        return Arc::new(GenericByteArray::<T>::new_null(0));
    }
    let ends =
        ScalarBuffer::new(buffer(parts.at, (parts.rows + 1) * size_of::<i32>(), &parts.block), 0, parts.rows + 1);
    let text = parts.text.as_ref().map_or_else(|| Buffer::from_vec(Vec::<u8>::new()), whole);
    #[expect(unsafe_code, reason = "Arrow would look at each byte again")]
    // SAFETY: the ends rise and lie within the text; if it is a text, its parts are UTF-8: a column's invariant.
    let array = unsafe { GenericByteArray::<T>::new_unchecked(OffsetBuffer::new_unchecked(ends), text, nulls(parts)) };
    Arc::new(array)
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
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0)?;
    let (bits, first) = (bytes_of(nulls.buffer().clone()), nulls.offset());
    Some(Nulls { bits, first, rows: nulls.len(), count: nulls.null_count() })
}

/// A column of an array's values, or of its ends and their text.
fn of_parts(kind: Type, array: &dyn Array, values: Buffer, text: Option<Bytes>) -> Column {
    let (at, block) = kept(values);
    let parts = Parts { kind, rows: array.len(), at, block, text, nulls: nulls_of(array.nulls()) };
    #[expect(unsafe_code, reason = "Arrow's memory becomes a column")]
    // SAFETY: the array is of this type, and Arrow's arrays are aligned and have valid offsets and texts in all rows.
    unsafe {
        Column::new(parts)
    }
}

fn of_strings<T: ByteArrayType>(kind: Type, array: &GenericByteArray<T>) -> Result<Column, FromArrowError> {
    let too_much = || FromArrowError::TooMuchText { column: None };
    let offsets = array.offsets();
    let (first, last) = (offsets.first().as_usize(), offsets.last().as_usize());
    if !T::Offset::IS_LARGE {
        return Ok(of_parts(kind, array, offsets.inner().inner().clone(), Some(bytes_of(array.values().clone()))));
    }
    i32::try_from(last - first).map_err(|_| too_much())?;
    let mut ends: Vec<i32> = Vec::with_room(offsets.len())?;
    ends.extend(offsets.iter().map(|offset| (offset.as_usize() - first) as i32));
    let text = bytes_of(array.values().slice_with_length(first, last - first));
    Ok(of_parts(kind, array, Buffer::from_vec(ends), Some(text)))
}

fn of_views<T: ByteViewType>(kind: Type, array: &dyn Array) -> Result<Column, FromArrowError> {
    let views = array.as_byte_view::<T>();
    let strings = || (0..views.len()).map(|row| if views.is_null(row) { &[][..] } else { views.value(row).as_ref() });
    copied_strings(kind, array, strings())
}

fn copied_strings<'s>(
    kind: Type,
    array: &dyn Array,
    strings: impl Iterator<Item = &'s [u8]> + Clone,
) -> Result<Column, FromArrowError> {
    let bytes = strings.clone().map(<[u8]>::len).fold(0, usize::saturating_add);
    i32::try_from(bytes).map_err(|_| FromArrowError::TooMuchText { column: None })?;
    let (mut ends, mut text) = (Vec::with_room(array.len() + 1)?, Vec::with_room(bytes)?);
    ends.push(0i32);
    for string in strings {
        text.extend_from_slice(string);
        ends.push(text.len() as i32);
    }
    Ok(of_parts(kind, array, Buffer::from_vec(ends), Some(text.into())))
}

/// The values of a dictionary, once for each key.
fn of_dictionary(kind: Type, array: &dyn Array) -> Result<Column, FromArrowError> {
    let dictionary = array.as_any_dictionary();
    let values = Column::from_arrow(dictionary.values())?;
    let names = if values.is_empty() { Vec::new() } else { dictionary.normalized_keys() };
    // The key of a null row may be invalid.
    let name = |row: usize| {
        let name = *names.get(row).filter(|_| !dictionary.keys().is_null(row))?;
        (!values.is_null(name)).then_some(name)
    };
    let rows = (0..array.len()).map(name);
    if kind.is_variable() {
        let bytes = rows.clone().flatten().map(|name| values.string(name).len()).fold(0, usize::saturating_add);
        i32::try_from(bytes).map_err(|_| FromArrowError::TooMuchText { column: None })?;
    }
    Ok(builder::picked(&values, rows)?)
}
