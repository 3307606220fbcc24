//! An envelope: a small table, column by column, in Arrow's memory layout.
//!
//! Bobox report 2011/1, §4. Columns are shared by reference count: cloning an envelope copies no data, and a column
//! is freed with the last envelope that has it. Only this file and doors name Arrow; boxes see slices.

use crate::ring::Load;
use crate::{Place, Schema, Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, StringArray, types};
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use std::sync::Arc;

/// A column of an envelope.
#[derive(Clone, Debug)]
pub enum Column {
    /// See [`Type::U64`].
    U64(ScalarBuffer<u64>),
    /// See [`Type::I64`].
    I64(ScalarBuffer<i64>),
    /// See [`Type::F64`].
    F64(ScalarBuffer<f64>),
    /// See [`Type::U8`].
    U8(ScalarBuffer<u8>),
    /// See [`Type::Text`]. Behind a pointer, since it is three times as large as the others.
    Text(Arc<StringArray>),
}

impl Column {
    /// Its type.
    pub fn kind(&self) -> Type {
        match self {
            Column::U64(_) => Type::U64,
            Column::I64(_) => Type::I64,
            Column::F64(_) => Type::F64,
            Column::U8(_) => Type::U8,
            Column::Text(_) => Type::Text,
        }
    }

    /// How many rows it has.
    pub fn len(&self) -> usize {
        match self {
            Column::U64(values) => values.len(),
            Column::I64(values) => values.len(),
            Column::F64(values) => values.len(),
            Column::U8(values) => values.len(),
            Column::Text(values) => values.len(),
        }
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that its values take.
    pub fn bytes(&self) -> u64 {
        let bytes = match self {
            Column::U64(_) | Column::I64(_) | Column::F64(_) => self.len() * 8,
            Column::U8(_) => self.len(),
            Column::Text(values) => values.values().len() + (self.len() + 1) * 4,
        };
        bytes as u64
    }

    /// A copy of the data that nobody else shares.
    pub fn private_copy(&self) -> Column {
        match self {
            Column::U64(values) => Column::U64(values.to_vec().into()),
            Column::I64(values) => Column::I64(values.to_vec().into()),
            Column::F64(values) => Column::F64(values.to_vec().into()),
            Column::U8(values) => Column::U8(values.to_vec().into()),
            Column::Text(values) => values.iter().flatten().collect(),
        }
    }

    /// The column as an Arrow array, without copying.
    pub fn to_arrow(&self) -> ArrayRef {
        match self {
            Column::U64(values) => Arc::new(PrimitiveArray::<types::UInt64Type>::new(values.clone(), None)),
            Column::I64(values) => Arc::new(PrimitiveArray::<types::Int64Type>::new(values.clone(), None)),
            Column::F64(values) => Arc::new(PrimitiveArray::<types::Float64Type>::new(values.clone(), None)),
            Column::U8(values) => Arc::new(PrimitiveArray::<types::UInt8Type>::new(values.clone(), None)),
            Column::Text(values) => Arc::clone(values) as ArrayRef,
        }
    }
}

macro_rules! columns_of {
    ($($type:ty, $variant:ident, $read:ident, $into:ident;)*) => {$(
        impl From<Vec<$type>> for Column {
            /// Takes the vector's memory; nothing is copied.
            fn from(values: Vec<$type>) -> Column {
                Column::$variant(values.into())
            }
        }

        impl Column {
            #[doc = concat!("The values of a column of `", stringify!($type), "`. Panics if it is of another type: \
                             types are checked when the model is built.")]
            #[inline]
            pub fn $read(&self) -> &[$type] {
                match self {
                    Column::$variant(values) => values,
                    other => wrong_type(other.kind(), Type::$variant),
                }
            }

            #[doc = concat!("The values of a column of `", stringify!($type), "` to be changed: its own memory if \
                             nobody else shares it, a copy otherwise. Panics if it is of another type.")]
            pub fn $into(self) -> Vec<$type> {
                match self {
                    Column::$variant(values) => into_vec(values),
                    other => wrong_type(other.kind(), Type::$variant),
                }
            }
        }
    )*};
}

columns_of! {
    u64, U64, u64s, into_u64s;
    i64, I64, i64s, into_i64s;
    f64, F64, f64s, into_f64s;
    u8, U8, u8s, into_u8s;
}

fn into_vec<T: ArrowNativeType>(values: ScalarBuffer<T>) -> Vec<T> {
    values.into_inner().into_vec::<T>().unwrap_or_else(|shared| shared.typed_data::<T>().to_vec())
}

#[cold]
fn wrong_type(is: Type, wanted: Type) -> ! {
    panic!("a column of type {is:?} was read as {wanted:?}")
}

impl<S: AsRef<str>> FromIterator<S> for Column {
    /// A text column.
    fn from_iter<I: IntoIterator<Item = S>>(texts: I) -> Column {
        Column::Text(Arc::new(StringArray::from_iter_values(texts)))
    }
}

impl Column {
    /// The texts of a text column, in order. Panics if it is of another type.
    pub fn texts(&self) -> impl ExactSizeIterator<Item = &str> {
        match self {
            Column::Text(values) => (0..values.len()).map(|row| values.value(row)),
            other => wrong_type(other.kind(), Type::Text),
        }
    }
}

/// A small table, or the poisoned pill that says that nothing more comes.
///
/// ```
/// use vicus_flow::Envelope;
///
/// let envelope = Envelope::new([vec![1u64, 2, 3].into(), ["a", "b", "c"].into_iter().collect()]);
/// let same = envelope.clone(); // shares both columns
/// assert_eq!(same.rows(), 3);
/// assert_eq!(same.column(0).u64s(), [1, 2, 3]);
/// assert!(Envelope::pill().is_pill());
/// ```
#[derive(Clone, Debug)]
pub struct Envelope(
    /// One word, because an envelope is moved half a dozen times on its way from box to box.
    Box<Table>,
);

#[derive(Clone, Debug)]
struct Table {
    columns: Vec<Column>,
    rows: u32,
    pill: bool,
    /// Where it was sent from.
    place: Place,
    /// The sender's logical time, where the run is traced; else 0.
    stamp: u64,
}

impl Envelope {
    /// An envelope of these columns. Panics if they differ in length or have more than four billion rows.
    pub fn new(columns: impl Into<Vec<Column>>) -> Envelope {
        let columns = columns.into();
        let rows = columns.first().map_or(0, Column::len);
        assert!(columns.iter().all(|column| column.len() == rows), "columns of one envelope have one length");
        Envelope::of_rows(columns, rows)
    }

    /// An envelope of so many rows; the way to say a number of rows without columns. Panics if a column's length
    /// differs, or beyond four billion rows.
    pub fn of_rows(columns: Vec<Column>, rows: usize) -> Envelope {
        assert!(columns.iter().all(|column| column.len() == rows), "columns of one envelope have one length");
        let rows = u32::try_from(rows).expect("an envelope is small: fewer than four billion rows");
        Envelope(Box::new(Table { columns, rows, pill: false, place: Place::default(), stamp: 0 }))
    }

    /// The poisoned pill (Bobox report §4.1): no rows, no columns, the end of the stream.
    pub fn pill() -> Envelope {
        Envelope(Box::new(Table { columns: Vec::new(), rows: 0, pill: true, place: Place::default(), stamp: 0 }))
    }

    /// Whether it is the poisoned pill.
    pub fn is_pill(&self) -> bool {
        self.0.pill
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.0.rows as usize
    }

    /// The columns, in the order of the schema.
    pub fn columns(&self) -> &[Column] {
        &self.0.columns
    }

    /// One column. Panics if there are not so many.
    pub fn column(&self, index: usize) -> &Column {
        &self.0.columns[index]
    }

    /// The columns, to be changed or passed on.
    pub fn into_columns(self) -> Vec<Column> {
        self.0.columns
    }

    pub(crate) fn place(&self) -> Place {
        self.0.place
    }

    pub(crate) fn set_place(&mut self, place: Place) {
        self.0.place = place;
    }

    pub(crate) fn stamp(&self) -> u64 {
        self.0.stamp
    }

    pub(crate) fn set_stamp(&mut self, stamp: u64) {
        self.0.stamp = stamp;
    }

    /// Changes a column in place: in its own memory if it is unshared, in a copy otherwise (Bobox report §7).
    pub fn change(&mut self, column: usize, change: impl FnOnce(Column) -> Column) {
        let slot = &mut self.0.columns[column];
        let taken = std::mem::replace(slot, Column::U8(ScalarBuffer::from(Vec::new())));
        *slot = change(taken);
        assert_eq!(slot.len(), self.0.rows as usize, "a changed column keeps its length");
    }

    /// Bytes of memory that its values take.
    pub fn bytes(&self) -> u64 {
        self.0.columns.iter().map(Column::bytes).sum()
    }

    /// Whether it fits a via's schema. A pill fits every schema.
    pub fn fits(&self, schema: &Schema) -> bool {
        let types = schema.columns().iter().map(|(_, kind)| *kind);
        self.0.pill || self.0.columns.iter().map(Column::kind).eq(types)
    }
}

impl Load for Envelope {
    fn bytes(&self) -> u64 {
        Envelope::bytes(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unshared_column_is_changed_in_its_own_memory() {
        let mut envelope = Envelope::new([vec![1i64, 2, 3].into()]);
        let before = envelope.column(0).i64s().as_ptr();
        let add_one = |column: Column| {
            let mut values = column.into_i64s();
            values.iter_mut().for_each(|value| *value += 1);
            values.into()
        };
        envelope.change(0, add_one);
        assert_eq!(envelope.column(0).i64s(), [2, 3, 4]);
        assert_eq!(envelope.column(0).i64s().as_ptr(), before, "nothing was copied");

        let other = envelope.clone();
        envelope.change(0, add_one);
        assert_eq!(other.column(0).i64s(), [2, 3, 4], "the other branch keeps its values");
        assert_eq!(envelope.column(0).i64s(), [3, 4, 5]);
    }

    #[test]
    fn arrow_sees_the_same_memory() {
        let column: Column = vec![1u64, 2].into();
        let array = column.to_arrow();
        let values = array.as_any().downcast_ref::<arrow_array::UInt64Array>().unwrap();
        assert_eq!(values.values().as_ptr(), column.u64s().as_ptr());
    }
}
