//! A column: values of one type in Arrow's memory layout, which lie in a block that other columns may share.
//!
//! Bobox report 2011/1, §4. Columns are shared by reference count: cloning one copies no data.

use crate::block::{Block, Blocks};
use crate::{Grow, Type, give_up};
use arrow_array::{Array, ArrayRef, PrimitiveArray, StringArray, types};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use std::alloc::Layout;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Values that lie in a block. Cloning shares them.
pub struct Values<T> {
    /// Has the provenance of the whole block.
    at: NonNull<T>,
    len: usize,
    block: Arc<Block>,
}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: the pointer is into the block, which is shared as an `Arc` of it is; the values are numbers.
unsafe impl<T: Send + Sync> Send for Values<T> {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as above; `&self` gives `&T` alone.
unsafe impl<T: Send + Sync> Sync for Values<T> {}

impl<T: Copy> Values<T> {
    /// # Safety
    /// So many values lie there, aligned, in the block, and nobody writes to them while there is a column that has them.
    #[expect(unsafe_code, reason = "the caller promises what lies there")]
    pub(crate) unsafe fn new(at: NonNull<T>, len: usize, block: Arc<Block>) -> Values<T> {
        Values { at, len, block }
    }

    /// A copy that nobody shares.
    fn private_copy(&self, blocks: Blocks) -> Values<T> {
        let layout = Layout::for_value(&**self);
        let block = blocks.take(layout).unwrap_or_else(|error| give_up(error));
        let at = block.at().cast::<T>();
        #[expect(unsafe_code, reason = "copies to fresh memory")]
        // SAFETY: the block has the layout of these values, and is new.
        unsafe {
            at.copy_from_nonoverlapping(self.at, self.len);
            Values::new(at, self.len, Arc::new(block))
        }
    }

    /// Bytes of the block that it keeps.
    #[cfg(test)]
    pub(crate) fn block_bytes(&self) -> usize {
        self.block.bytes()
    }

    fn into_vec(self) -> Vec<T> {
        let Values { at, len, block } = self;
        let block = match Arc::try_unwrap(block) {
            Ok(block) if block.at() == at.cast() => match block.into_vec(len) {
                Ok(values) => return values,
                Err(block) => Arc::new(block),
            },
            Ok(block) => Arc::new(block),
            Err(block) => block,
        };
        Vec::copied(&Values { at, len, block }).unwrap_or_else(|error| give_up(error))
    }
}

impl<T> Clone for Values<T> {
    fn clone(&self) -> Values<T> {
        Values { at: self.at, len: self.len, block: Arc::clone(&self.block) }
    }
}

impl<T> Deref for Values<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        #[expect(unsafe_code, reason = "the values lie in raw memory")]
        // SAFETY: they are there as long as the block, and nobody writes to them, says `new`'s caller.
        unsafe {
            NonNull::slice_from_raw_parts(self.at, self.len).as_ref()
        }
    }
}

impl<T: Copy> From<Vec<T>> for Values<T> {
    /// Takes the vector's memory; nothing is copied.
    fn from(values: Vec<T>) -> Values<T> {
        let len = values.len();
        let block = Block::of_vec(values);
        #[expect(unsafe_code, reason = "a vector's memory")]
        // SAFETY: the vector's values lie at the block's beginning, which is nobody else's.
        unsafe {
            Values::new(block.at().cast(), len, Arc::new(block))
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Values<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A column of an envelope.
#[derive(Clone, Debug)]
pub enum Column {
    /// See [`Type::U64`].
    U64(Values<u64>),
    /// See [`Type::I64`].
    I64(Values<i64>),
    /// See [`Type::F64`].
    F64(Values<f64>),
    /// See [`Type::U8`].
    U8(Values<u8>),
    /// See [`Type::Text`]. Behind a pointer, since it is three times as large as the others.
    Text(Arc<StringArray>),
}

/// Does the same with the values of any column but a text.
macro_rules! with_values {
    ($column:expr, $values:ident => $do:expr, $text:ident => $else:expr) => {
        match $column {
            Column::U64($values) => $do,
            Column::I64($values) => $do,
            Column::F64($values) => $do,
            Column::U8($values) => $do,
            Column::Text($text) => $else,
        }
    };
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
        with_values!(self, values => values.len(), texts => texts.len())
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that its values take.
    pub fn bytes(&self) -> u64 {
        let bytes = with_values!(self,
            values => size_of_val(&**values),
            texts => texts.values().len() + (texts.len() + 1) * 4);
        bytes as u64
    }

    /// A copy of the data that nobody else shares.
    pub(crate) fn private_copy(&self, blocks: Blocks) -> Column {
        match self {
            Column::U64(values) => Column::U64(values.private_copy(blocks)),
            Column::I64(values) => Column::I64(values.private_copy(blocks)),
            Column::F64(values) => Column::F64(values.private_copy(blocks)),
            Column::U8(values) => Column::U8(values.private_copy(blocks)),
            Column::Text(values) => values.iter().flatten().collect(),
        }
    }

    /// The block that it lies in, and where; `None` for a text.
    fn lies(&self) -> Option<(&Arc<Block>, NonNull<u8>)> {
        with_values!(self, values => Some((&values.block, values.at.cast())), _texts => None)
    }

    /// The column as an Arrow array, without copying.
    pub fn to_arrow(&self) -> ArrayRef {
        fn buffer<T: arrow_buffer::ArrowNativeType>(values: &Values<T>) -> ScalarBuffer<T> {
            let owner = Arc::clone(&values.block) as Arc<_>;
            #[expect(unsafe_code, reason = "Arrow takes the address on trust")]
            // SAFETY: so many bytes lie there as long as the block, which the buffer keeps.
            let buffer = unsafe { Buffer::from_custom_allocation(values.at.cast(), size_of_val(&**values), owner) };
            buffer.into()
        }
        match self {
            Column::U64(values) => Arc::new(PrimitiveArray::<types::UInt64Type>::new(buffer(values), None)),
            Column::I64(values) => Arc::new(PrimitiveArray::<types::Int64Type>::new(buffer(values), None)),
            Column::F64(values) => Arc::new(PrimitiveArray::<types::Float64Type>::new(buffer(values), None)),
            Column::U8(values) => Arc::new(PrimitiveArray::<types::UInt8Type>::new(buffer(values), None)),
            Column::Text(values) => Arc::clone(values) as ArrayRef,
        }
    }
}

/// Bytes of all memory in which these columns lie, which may be more than theirs.
pub(crate) fn held_bytes(columns: &[Column]) -> u64 {
    let of = |(place, column): (usize, &Column)| match column.lies() {
        None => column.bytes(),
        Some((block, _)) => {
            let was_before =
                columns[..place].iter().filter_map(Column::lies).any(|(other, _)| Arc::ptr_eq(block, other));
            if was_before { 0 } else { block.bytes() as u64 }
        }
    };
    columns.iter().enumerate().map(of).sum()
}

/// Makes sure that nobody else sees these values of an envelope's column: copies them if anybody might.
pub(crate) fn make_private(columns: &mut [Column], column: usize, blocks: Blocks) {
    let Some((block, at)) = columns[column].lies() else { return };
    let lying = || columns.iter().filter_map(Column::lies);
    let of_this_envelope = lying().filter(|(other, _)| Arc::ptr_eq(block, other)).count();
    let is_once_there = lying().filter(|&(_, other)| other == at).count() == 1;
    let is_private = Arc::strong_count(block) == of_this_envelope && is_once_there;
    if is_private {
        // What others did before they dropped their reference is over now.
        fence(Ordering::Acquire);
    } else {
        columns[column] = columns[column].private_copy(blocks);
    }
}

macro_rules! columns_of {
    ($($type:ty, $variant:ident, $read:ident, $into:ident, $write:ident;)*) => {$(
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

            #[doc = concat!("The values of a column of `", stringify!($type), "` as a vector: the one that it was made \
                             of if nobody else shares it, a copy otherwise. Panics if it is of another type.")]
            pub fn $into(self) -> Vec<$type> {
                match self {
                    Column::$variant(values) => values.into_vec(),
                    other => wrong_type(other.kind(), Type::$variant),
                }
            }

            /// The values, to be changed.
            ///
            /// # Safety
            /// Nobody else sees them meanwhile; see [`make_private`].
            #[expect(unsafe_code, reason = "the caller promises that nobody else sees the values")]
            pub(crate) unsafe fn $write(&mut self) -> &mut [$type] {
                match self {
                    // SAFETY: so many values lie there, and nobody else sees them, says the caller.
                    Column::$variant(values) => unsafe {
                        NonNull::slice_from_raw_parts(values.at, values.len).as_mut()
                    },
                    other => wrong_type(other.kind(), Type::$variant),
                }
            }
        }

        impl crate::Envelope {
            #[doc = concat!("The values of a column of `", stringify!($type), "`, to be changed: in their own memory if \
                             nobody shares the envelope's, in a copy otherwise (Bobox report §7). Panics if it is of \
                             another type.")]
            pub fn $write(&mut self, column: usize) -> &mut [$type] {
                let (columns, blocks) = self.columns_mut();
                make_private(columns, column, blocks);
                #[expect(unsafe_code, reason = "writes to a column's memory")]
                // SAFETY: just made sure of.
                unsafe {
                    columns[column].$write()
                }
            }
        }
    )*};
}

columns_of! {
    u64, U64, u64s, into_u64s, u64s_mut;
    i64, I64, i64s, into_i64s, i64s_mut;
    f64, F64, f64s, into_f64s, f64s_mut;
    u8, U8, u8s, into_u8s, u8s_mut;
}

#[cold]
pub(crate) fn wrong_type(is: Type, wanted: Type) -> ! {
    panic!("a column of type {is:?} was read as {wanted:?}")
}

impl<S: AsRef<str>> FromIterator<S> for Column {
    /// A text column. Memory that can't be had, or more than 2 GiB of text, leave by [`give_up`].
    fn from_iter<I: IntoIterator<Item = S>>(texts: I) -> Column {
        let texts = texts.into_iter();
        let (mut ends, mut bytes) = (Vec::new(), Vec::new());
        ends.grow_or_give_up(texts.size_hint().0.saturating_add(1));
        ends.push(0i32);
        for text in texts {
            let text = text.as_ref().as_bytes();
            bytes.grow_or_give_up(text.len());
            bytes.extend_from_slice(text);
            ends.grow_or_give_up(1);
            ends.push(i32::try_from(bytes.len()).unwrap_or_else(|_| give_up("a column has at most 2 GiB of text")));
        }
        #[expect(unsafe_code, reason = "Arrow would look at each byte again")]
        // SAFETY: ends begin with 0 and rise, the last one is the number of bytes, and each text is UTF-8 as a whole.
        let texts = unsafe {
            let ends = OffsetBuffer::new_unchecked(ScalarBuffer::from(ends));
            StringArray::new_unchecked(ends, Buffer::from_vec(bytes), None)
        };
        Column::Text(Arc::new(texts))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_comes_back_as_it_went() {
        let mut values = Vec::with_capacity(10);
        values.extend([1u64, 2, 3]);
        let before = values.as_ptr();
        let column: Column = values.into();
        let shared = column.clone();
        let copy = column.into_u64s();
        assert_ne!(copy.as_ptr(), before, "somebody else has it");
        let values = shared.into_u64s();
        assert_eq!((values.as_ptr(), values.capacity(), &values[..]), (before, 10, &[1, 2, 3][..]));
        assert!(Column::from(Vec::<f64>::new()).into_f64s().is_empty());
    }

    #[test]
    fn arrow_sees_the_same_memory() {
        let column: Column = vec![1u64, 2].into();
        let array = column.to_arrow();
        let before = column.u64s().as_ptr();
        drop(column);
        let values = array.as_any().downcast_ref::<arrow_array::UInt64Array>().unwrap();
        assert_eq!((values.values().as_ptr(), &values.values()[..]), (before, &[1, 2][..]));
        assert_eq!(Column::from(Vec::<i64>::new()).to_arrow().len(), 0);
    }
}
