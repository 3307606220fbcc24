//! A column: values of one type in Arrow's memory layout, in a block that other columns may share.
//!
//! Bobox report 2011/1, §4. Columns are shared by reference count: cloning one, or taking a slice of its rows, copies
//! no data.

use crate::block::{Block, Blocks};
use crate::builder;
use crate::native::by_form;
use crate::nulls::{Bytes, Nulls, clear};
use crate::store::Store;
use crate::types::Form;
use crate::{Grow, Native, NoMemory, Type, give_up};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{self, fence};

mod nested;
mod strings;

pub(crate) use nested::of_struct;
pub use strings::StorageError;
pub(crate) use strings::of_codes;
#[cfg(feature = "arrow")]
pub(crate) use strings::of_views;
pub(crate) use strings::{MOST_TEXT, TOO_LONG, View};

/// A column of an envelope.
///
/// ```
/// use vicus_flow::Column;
///
/// let numbers: Column = vec![1u64, 2, 3].into();
/// let names: Column = ["one", "two", "three"].into_iter().collect();
/// let prices: Column = vec![Some(9.5), None, Some(0.5)].into();
/// assert_eq!(numbers.u64s(), [1, 2, 3]);
/// assert_eq!(names.slice(1..3).texts().collect::<Vec<_>>(), ["two", "three"]);
/// assert_eq!((prices.null_count(), prices.is_null(1)), (1, true));
/// ```
#[derive(Clone)]
pub struct Column {
    kind: Type,
    form: Form,
    rows: usize,
    /// Has the provenance of the whole block, and is aligned for the values. Invariant: `rows` values of the form lie
    /// there. Or, for a form with ends, if there are rows, as many ends in `i32` and one more before them; they rise
    /// from 0 or more and lie within the text or the list's values. Each value of a text is UTF-8.
    at: NonNull<u8>,
    block: Arc<Block>,
    /// Parts most columns don't have.
    beside: Option<Arc<Beside>>,
}

#[derive(Clone)]
struct Beside {
    rest: Rest,
    nulls: Option<Nulls>,
}

/// The rest of the values.
#[derive(Clone)]
pub(crate) enum Rest {
    /// All is in the column.
    None,
    /// The texts of all rows, one after the other.
    Text(Bytes),
    /// The buffers of views.
    Buffers(Arc<[Bytes]>),
    /// The values that codes are numbers of.
    Store(Arc<Store>),
    /// The one column of a list's values, or a struct's columns.
    Parts(Arc<[Column]>),
}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: the pointer is into the block, shared by an `Arc`; the values are numbers.
unsafe impl Send for Column {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as above; `&self` gives `&[T]` alone.
unsafe impl Sync for Column {}

/// A column's parts, to be made or taken over together.
pub(crate) struct Parts {
    pub(crate) kind: Type,
    pub(crate) form: Form,
    pub(crate) rows: usize,
    pub(crate) at: NonNull<u8>,
    pub(crate) block: Arc<Block>,
    pub(crate) rest: Rest,
    pub(crate) nulls: Option<Nulls>,
}

fn beside(rest: Rest, nulls: Option<Nulls>) -> Option<Arc<Beside>> {
    if matches!(rest, Rest::None) && nulls.is_none() { None } else { Some(Arc::new(Beside { rest, nulls })) }
}

impl Column {
    /// A column without nulls that is alone in its memory.
    ///
    /// # Safety
    /// Those of [`Column::new`].
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what lies there")]
    pub(crate) unsafe fn plain(kind: Type, form: Form, rows: usize, at: NonNull<u8>, block: Arc<Block>) -> Column {
        Column { kind, form, rows, at, block, beside: None }
    }

    /// # Safety
    /// The values lie there as the invariant of `at` says, and are not written to while a column has them.
    #[expect(unsafe_code, reason = "the caller promises what lies there")]
    pub(crate) unsafe fn new(parts: Parts) -> Column {
        let Parts { kind, form, rows, at, block, rest, nulls } = parts;
        Column { kind, form, rows, at, block, beside: beside(rest, nulls) }
    }

    /// Its type.
    #[inline]
    pub fn kind(&self) -> Type {
        self.kind.clone()
    }

    /// How its values lie in memory.
    #[inline]
    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// How many rows it has.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The bytes of memory of its values, without those of a dictionary, which many columns share.
    #[inline]
    pub fn bytes(&self) -> u64 {
        let values = self.rows * self.form.width();
        let beside = self.beside.as_ref().map_or(0, |beside| self.bytes_beside(beside));
        (values + beside) as u64
    }

    #[inline(never)]
    fn bytes_beside(&self, beside: &Beside) -> usize {
        let first_end = if self.form.has_ends() && self.rows > 0 { size_of::<i32>() } else { 0 };
        let rest = match &beside.rest {
            Rest::None | Rest::Store(_) => 0,
            Rest::Text(_) => self.ends_of(0..self.rows).len(),
            Rest::Buffers(_) => self.bytes_of_views(),
            Rest::Parts(parts) => self.bytes_of_parts(parts),
        };
        first_end + rest + beside.nulls.as_ref().map_or(0, Nulls::bytes)
    }

    /// The values of a column of this type; those of null rows are arbitrary. Panics if it is of another type: types
    /// are checked when the model is built.
    #[inline]
    pub fn values<T: Native>(&self) -> &[T] {
        if self.form != T::FORM.0 {
            wrong_type(&self.kind, &T::TYPE);
        }
        #[expect(unsafe_code, reason = "the values lie in raw memory")]
        // SAFETY: by the invariant of `at`; the values live as long as the block, and are not written to, by `new`'s
        // contract.
        unsafe {
            NonNull::slice_from_raw_parts(self.at.cast(), self.rows).as_ref()
        }
    }

    /// The bytes of the values in the column itself, as memory has them; for a form with ends, without the first one.
    pub(crate) fn value_bytes(&self) -> &[u8] {
        #[expect(unsafe_code, reason = "the values lie in raw memory")]
        // SAFETY: by the invariant of `at`, and numbers have no bytes without a value; as in `values`.
        unsafe {
            NonNull::slice_from_raw_parts(self.at, self.rows * self.form.width()).as_ref()
        }
    }

    /// A column without nulls of a type whose values are alone in a column's memory. If there is no memory, it fails by
    /// [`give_up`].
    ///
    /// # Safety
    /// The bytes are those of values of the form, as [`Column::value_bytes`] gives them.
    #[expect(unsafe_code, reason = "the caller promises that the bytes are values")]
    pub(crate) unsafe fn of_value_bytes(kind: Type, form: Form, rows: usize, bytes: &[u8]) -> Column {
        debug_assert!(form.is_alone() && bytes.len() == rows * form.width());
        // Aligned for values of any form.
        let mut values: Vec<u128> = Vec::with_room(bytes.len().div_ceil(16)).unwrap_or_else(|error| give_up(error));
        let block = {
            // SAFETY: there is room for so many bytes; the vector's memory is its own.
            unsafe {
                bytes.as_ptr().copy_to_nonoverlapping(values.as_mut_ptr().cast(), bytes.len());
            }
            Arc::new(Block::of_vec(values))
        };
        // SAFETY: the values were just written.
        unsafe { Column::plain(kind, form, rows, block.at(), block) }
    }

    /// The values as a vector: the original one if no other column shares it, otherwise a copy. Panics if it is of
    /// another type.
    pub fn into_values<T: Native>(mut self) -> Vec<T> {
        if self.form != T::FORM.0 {
            wrong_type(&self.kind, &T::TYPE);
        }
        self.beside = None;
        let Column { kind, form, rows, at, block, .. } = self;
        let block = match Arc::try_unwrap(block) {
            Ok(block) if block.at() == at => match block.into_vec(rows) {
                Ok(values) => return values,
                Err(block) => Arc::new(block),
            },
            Ok(block) => Arc::new(block),
            Err(block) => block,
        };
        let whole = Column { kind, form, rows, at, block, beside: None };
        Vec::copied(whole.values()).unwrap_or_else(|error| give_up(error))
    }

    /// The values, to be changed.
    ///
    /// # Safety
    /// No other column shares them meanwhile; see [`make_private`].
    #[expect(unsafe_code, reason = "the caller promises that nothing else sees the values")]
    pub(crate) unsafe fn values_mut<T: Native>(&mut self) -> &mut [T] {
        if self.form != T::FORM.0 {
            wrong_type(&self.kind, &T::TYPE);
        }
        // SAFETY: `rows` values lie there, and only this column sees them, by the caller's promise.
        unsafe { NonNull::slice_from_raw_parts(self.at.cast(), self.rows).as_mut() }
    }

    /// Some of its rows, shared and not copied. Panics if there are fewer.
    pub fn slice(&self, rows: Range<usize>) -> Column {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "{rows:?} are not all of {} rows", self.rows);
        let mut slice = self.clone();
        slice.rows = rows.len();
        #[expect(unsafe_code, reason = "moves a pointer within what is there")]
        // SAFETY: this number of values lies there before.
        unsafe {
            slice.at = slice.at.add(rows.start * self.form.width());
        }
        let is_struct = self.form == Form::Struct;
        if is_struct || self.nulls().is_some() {
            let nulls = self.nulls().and_then(|nulls| nulls.slice(rows.start, rows.len()));
            let rest = match self.rest() {
                Some(Rest::Parts(parts)) if is_struct => {
                    Rest::Parts(parts.iter().map(|part| part.slice(rows.clone())).collect())
                }
                rest => rest.cloned().unwrap_or(Rest::None),
            };
            slice.beside = beside(rest, nulls);
        }
        slice
    }

    #[inline]
    pub(crate) fn nulls(&self) -> Option<&Nulls> {
        self.beside.as_ref()?.nulls.as_ref()
    }

    fn rest(&self) -> Option<&Rest> {
        Some(&self.beside.as_ref()?.rest)
    }

    /// The columns beside: a list's values, or a struct's parts.
    pub(crate) fn parts_beside(&self) -> &[Column] {
        match self.rest() {
            Some(Rest::Parts(parts)) => parts,
            _ => &[],
        }
    }

    /// Whether it has the same values as another one, in the same memory.
    pub(crate) fn is_same(&self, other: &Column) -> bool {
        let text = |column: &Column| column.text().map(|text| (text.get().as_ptr(), text.get().len()));
        (self.at, self.rows, self.form, text(self)) == (other.at, other.rows, other.form, text(other))
            && self.form.has_ends()
            && self.rows > 0
            && self.kind == other.kind
    }

    /// How many of its rows are nulls.
    #[inline]
    pub fn null_count(&self) -> usize {
        self.nulls().map_or(0, |nulls| nulls.count)
    }

    /// Its type, and whether it has nulls.
    #[inline]
    pub(crate) fn kind_and_nulls(&self) -> (&Type, bool) {
        (&self.kind, self.null_count() > 0)
    }

    /// Whether a row is a null. Panics if there is no such row.
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        self.nulls().is_some_and(|nulls| nulls.has(row))
    }

    /// A column with the same shared values and these rows as its only nulls. Panics if there is no such row. If there
    /// is no memory, it fails by [`give_up`].
    pub fn with_nulls(&self, rows: impl IntoIterator<Item = usize>) -> Column {
        let bytes = self.rows.div_ceil(8);
        let mut bits: Vec<u8> = Vec::ones(bytes).unwrap_or_else(|error| give_up(error));
        for row in rows {
            assert!(row < self.rows, "row {row} of {}", self.rows);
            clear(&mut bits, row);
        }
        self.with(Nulls::among(bits.into(), 0, self.rows))
    }

    /// A column with its shared values, and these nulls.
    pub(crate) fn with(&self, nulls: Option<Nulls>) -> Column {
        let mut column = self.clone();
        column.beside = beside(self.rest().cloned().unwrap_or(Rest::None), nulls);
        column
    }

    /// Orders the values of two rows, neither of them null, of columns of one type: numbers by [`Native::order`], texts
    /// and strings by their bytes, lists by their first values that differ, then by length, structs by their first
    /// parts that differ; a null is greater than a value there. Panics if the types differ.
    #[inline]
    pub fn order(&self, row: usize, other: &Column, other_row: usize) -> Ordering {
        by_form!(self.form,
            T => {
                // What they mean may differ, but not how they are ordered.
                self.values::<T>()[row].order(other.values::<T>()[other_row])
            },
            self.order_others(row, other, other_row))
    }

    #[inline(never)]
    fn order_others(&self, row: usize, other: &Column, other_row: usize) -> Ordering {
        let differ = std::mem::discriminant(&self.kind) != std::mem::discriminant(&other.kind);
        if differ || (self.form == Form::Decimal && self.kind != other.kind) {
            wrong_type(&other.kind, &self.kind);
        }
        match (self.form, self.store(), other.store()) {
            (Form::Decimal, ..) => self.decimals()[row].cmp(&other.decimals()[other_row]),
            (Form::List | Form::Struct, ..) => self.order_parts(row, other, other_row),
            (_, Some(store), Some(others)) if store.is(others) => {
                store.order(self.codes()[row], other.codes()[other_row])
            }
            _ => self.string(row).cmp(other.string(other_row)),
        }
    }

    /// Whether the values of two rows, neither of them null, are equal: by their bits, so that 0.0 and -0.0 differ.
    #[inline]
    pub(crate) fn equals(&self, row: usize, other: &Column, other_row: usize) -> bool {
        by_form!(self.form,
        T => self.values::<T>()[row].word() == other.values::<T>()[other_row].word(),
        match (self.store(), other.store()) {
            // Different codes may be of equal values.
            (Some(a), Some(b)) if a.is(b) && self.codes()[row] == other.codes()[other_row] => true,
            (Some(_), _) | (_, Some(_)) => self.string(row) == other.string(other_row),
            _ => self.order_others(row, other, other_row).is_eq(),
        })
    }

    /// A number that does not fall as values rise: the value's [rank](Native::rank), the high half of a decimal number,
    /// the first eight bytes of a string, 0 for lists and structs.
    pub(crate) fn rank(&self, row: usize) -> u64 {
        by_form!(self.form, T => self.values::<T>()[row].rank(), match self.form {
            Form::Decimal => ((self.decimals()[row] >> 64) as i64).rank(),
            Form::List | Form::Struct => 0,
            _ => {
                let (string, mut first) = (self.string(row), [0; 8]);
                let len = string.len().min(8);
                first[..len].copy_from_slice(&string[..len]);
                u64::from_be_bytes(first)
            }
        })
    }

    /// Whether ranks tell all its values apart.
    pub(crate) fn has_exact_ranks(&self) -> bool {
        by_form!(self.form, T => size_of::<T>() <= 8, false)
    }

    /// A column of rows of several columns of a type, each given by the number of its column and its own number there,
    /// or of nulls. Texts in one dictionary stay there.
    ///
    /// ```
    /// use vicus_flow::{Column, Type};
    ///
    /// let (a, b): (Column, Column) = (vec![1u64, 2].into(), vec![3u64].into());
    /// let both = Column::interleaved(&Type::U64, &[&a, &b], &[Some((1, 0)), None, Some((0, 1))])?;
    /// assert_eq!((both.is_null(1), both.u64s()[0], both.u64s()[2]), (true, 3, 2));
    /// # Ok::<(), vicus_flow::NoMemory>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn interleaved(
        kind: &crate::Type,
        columns: &[&Column],
        rows: &[Option<(u32, u32)>],
    ) -> Result<Column, NoMemory> {
        builder::interleaved(kind, columns, rows)
    }

    /// A copy of the data for this column alone.
    pub(crate) fn private_copy(&self, blocks: Blocks) -> Result<Column, NoMemory> {
        Ok(builder::copied(std::slice::from_ref(self), self.rows, blocks)?.remove(0))
    }

    /// Its parts with the blocks that keep them.
    #[cfg(feature = "arrow")]
    pub(crate) fn parts(&self) -> Parts {
        let Column { ref kind, form, rows, at, ref block, .. } = *self;
        let (rest, nulls) = (self.rest().cloned().unwrap_or(Rest::None), self.nulls().cloned());
        Parts { kind: kind.clone(), form, rows, at, block: Arc::clone(block), rest, nulls }
    }

    /// Adds all blocks that it keeps and which are not there yet, but for those of a dictionary, which many columns
    /// share.
    fn add_blocks<'c>(&'c self, to: &mut SmallVec<[&'c Arc<Block>; 8]>) {
        let mut add = |block: &'c Arc<Block>| {
            if !to.iter().any(|other| Arc::ptr_eq(block, other)) {
                to.push(block);
            }
        };
        add(&self.block);
        let Some(beside) = self.beside.as_deref() else { return };
        if let Some(nulls) = &beside.nulls {
            add(&nulls.bits.block);
        }
        match &beside.rest {
            Rest::None | Rest::Store(_) => {}
            Rest::Text(text) => add(&text.block),
            Rest::Buffers(buffers) => buffers.iter().for_each(|buffer| add(&buffer.block)),
            Rest::Parts(parts) => parts.iter().for_each(|part| part.add_blocks(to)),
        }
    }

    /// How often its texts and nulls keep this block.
    fn keeps_beside(&self, block: &Arc<Block>) -> usize {
        let Some(beside) = self.beside.as_deref() else { return 0 };
        let text = self.text().map(|text| &text.block);
        let nulls = beside.nulls.as_ref().map(|nulls| &nulls.bits.block);
        [text, nulls].into_iter().flatten().filter(|other| Arc::ptr_eq(other, block)).count()
    }

    /// The addresses of its values.
    fn addresses(&self) -> Range<usize> {
        let from = self.at.as_ptr().addr();
        from..from + self.rows * self.form.width()
    }
}

/// The bytes of all memory blocks of these columns, possibly more than the columns' own.
pub(crate) fn held_bytes(columns: &[Column]) -> u64 {
    let mut blocks = SmallVec::new();
    columns.iter().for_each(|column| column.add_blocks(&mut blocks));
    blocks.iter().map(|block| block.bytes() as u64).sum()
}

/// Hides the values of an envelope's column from other columns: copies them if another one might share them.
pub(crate) fn make_private(columns: &mut [Column], column: usize, blocks: Blocks) {
    let own = &columns[column];
    if !own.form.is_alone() {
        return;
    }
    let block = &own.block;
    let lie_there = columns.iter().filter(|other| Arc::ptr_eq(&other.block, block)).count();
    let mut beside = 0;
    for (place, other) in columns.iter().enumerate() {
        // Two columns may share their texts and nulls, and these then keep a block once.
        let is_first = other.beside.as_ref().is_some_and(|beside| {
            let same = |one: &Column| one.beside.as_ref().is_some_and(|one| Arc::ptr_eq(one, beside));
            !columns[..place].iter().any(same)
        });
        if is_first {
            beside += other.keeps_beside(block);
        }
    }
    let addresses = own.addresses();
    let overlaps = |other: &Column| {
        let others = other.addresses();
        others.start < addresses.end && addresses.start < others.end
    };
    let is_once_there = columns.iter().filter(|other| overlaps(other)).count() <= 1;
    if block.is_writable() && Arc::strong_count(block) == lie_there + beside && is_once_there {
        // Reads by others before they dropped their references are over now.
        fence(atomic::Ordering::Acquire);
    } else {
        columns[column] = columns[column].private_copy(blocks).unwrap_or_else(|error| give_up(error));
    }
}

impl<T: Native> From<Vec<T>> for Column {
    /// Takes the vector's memory; nothing is copied.
    fn from(values: Vec<T>) -> Column {
        let rows = values.len();
        let block = Block::of_vec(values);
        Column { kind: T::TYPE, form: T::FORM.0, rows, at: block.at(), block: Arc::new(block), beside: None }
    }
}

impl<T: Native> From<Vec<Option<T>>> for Column {
    /// A column with nulls. If there is no memory, it fails by [`give_up`].
    fn from(options: Vec<Option<T>>) -> Column {
        let mut values: Vec<T> = Vec::with_room(options.len()).unwrap_or_else(|error| give_up(error));
        values.extend(options.iter().map(|option| option.unwrap_or_default()));
        Column::from(values).with_nulls(nulls_of(&options))
    }
}

impl<'a> From<Vec<Option<&'a str>>> for Column {
    /// A text column with nulls. If there is no memory, it fails by [`give_up`].
    fn from(options: Vec<Option<&'a str>>) -> Column {
        let texts: Column = options.iter().map(|option| option.unwrap_or_default()).collect();
        texts.with_nulls(nulls_of(&options))
    }
}

fn nulls_of<T>(options: &[Option<T>]) -> impl Iterator<Item = usize> {
    options.iter().enumerate().filter(|(_, option)| option.is_none()).map(|(row, _)| row)
}

macro_rules! columns_of {
    ($($type:ty, $read:ident, $into:ident, $write:ident;)*) => {$(
        impl Column {
            #[doc = concat!("[`Column::values`] of `", stringify!($type), "`.")]
            #[inline]
            pub fn $read(&self) -> &[$type] {
                self.values()
            }

            #[doc = concat!("[`Column::into_values`] of `", stringify!($type), "`.")]
            pub fn $into(self) -> Vec<$type> {
                self.into_values()
            }
        }

        impl crate::Envelope {
            #[doc = concat!("[`Envelope::values_mut`](crate::Envelope::values_mut) of `", stringify!($type), "`.")]
            pub fn $write(&mut self, column: usize) -> &mut [$type] {
                self.values_mut(column)
            }
        }
    )*};
}

columns_of! {
    bool, bools, into_bools, bools_mut;
    i8, i8s, into_i8s, i8s_mut;
    i16, i16s, into_i16s, i16s_mut;
    i32, i32s, into_i32s, i32s_mut;
    i64, i64s, into_i64s, i64s_mut;
    u8, u8s, into_u8s, u8s_mut;
    u16, u16s, into_u16s, u16s_mut;
    u32, u32s, into_u32s, u32s_mut;
    u64, u64s, into_u64s, u64s_mut;
    f32, f32s, into_f32s, f32s_mut;
    f64, f64s, into_f64s, f64s_mut;
}

#[cold]
pub(crate) fn wrong_type(is: &Type, wanted: &Type) -> ! {
    panic!("a column of type {is} was read as {wanted}")
}

impl fmt::Debug for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |row: usize| -> Box<dyn fmt::Debug + '_> {
            match (&self.kind, self.form) {
                _ if self.is_null(row) => Box::new(None::<()>),
                (Type::Text, _) => Box::new(self.text_at(row)),
                (_, Form::Decimal) => Box::new(self.decimals()[row]),
                (_, Form::List | Form::Struct) => Box::new(self.parts_at(row)),
                (_, form) => by_form!(form, T => Box::new(self.values::<T>()[row]), Box::new(self.string(row))),
            }
        };
        f.debug_list().entries((0..self.rows).map(value)).finish()
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
        assert_ne!(copy.as_ptr(), before, "another column has it");
        let nullable = shared.with_nulls([1]);
        assert_eq!(format!("{nullable:?}"), "[1, None, 3]");
        drop(shared);
        let values = nullable.into_u64s();
        assert_eq!((values.as_ptr(), values.capacity(), &values[..]), (before, 10, &[1, 2, 3][..]));
        assert!(Column::from(Vec::<f64>::new()).into_f64s().is_empty());
    }

    #[test]
    fn a_slice_shares_values_and_nulls() {
        let texts: Column = vec![Some("a"), None, Some("ccc"), Some(""), Some("é")].into();
        assert_eq!(texts.bytes(), 5 * 4 + 4 + 6 + 1);
        let slice = texts.slice(1..5).slice(1..4);
        assert_eq!((slice.null_count(), slice.texts().collect::<Vec<_>>()), (0, vec!["ccc", "", "é"]));
        assert_eq!(slice.bytes(), 3 * 4 + 4 + 5);
        assert!(texts.slice(0..2).is_null(1) && texts.slice(5..5).is_empty());
        let numbers: Column = vec![Some(1i8), None, Some(-3), None].into();
        let slice = numbers.slice(1..4);
        assert_eq!((slice.null_count(), slice.i8s()[1], slice.is_null(2)), (2, -3, true));
        assert_eq!(slice.i8s().as_ptr(), &raw const numbers.i8s()[1]);
        assert_eq!(format!("{slice:?} {:?}", Column::of_binaries([[0u8, 255]])), "[None, -3, None] [[0, 255]]");
    }

    /// Slices of one column overlap. A write to one once changed the other, since the other begins elsewhere.
    #[test]
    fn what_overlaps_is_copied_before_it_is_changed() {
        let column: Column = vec![1u32, 2, 3, 4].into();
        let mut envelope = crate::Envelope::new([column.slice(0..3), column.slice(1..4)]);
        drop(column);
        envelope.u32s_mut(0)[1] = 20;
        assert_eq!((envelope.column(0).u32s(), envelope.column(1).u32s()), (&[1, 20, 3][..], &[2, 3, 4][..]));
        let before = envelope.column(1).u32s().as_ptr();
        envelope.u32s_mut(1)[0] = 30;
        assert_eq!(envelope.column(1).u32s().as_ptr(), before, "the other one has a copy now");
    }

    /// Two columns have the same nulls, and these keep a block once; another envelope's share of the block must not be
    /// taken for the second.
    #[test]
    fn nulls_that_two_columns_share_hide_no_other_reader() {
        let mut builder = crate::EnvelopeBuilder::new(&crate::Schema::new([("n", Type::U64)]).with_nulls(["n"]));
        builder.reserve_from(Blocks::default(), 2);
        builder.u64s(0).push(1);
        builder.push_null(0);
        let column = builder.finish_from(Blocks::default()).remove(0);
        let mut envelope = crate::Envelope::new([column.clone(), column.clone()]);
        envelope.u64s_mut(0)[0] = 2;
        assert_eq!((column.u64s()[0], envelope.column(1).u64s()[0], envelope.column(0).u64s()[0]), (1, 1, 2));
        assert!(envelope.column(0).is_null(1));
        drop(column);
        let before = envelope.column(1).u64s().as_ptr();
        envelope.u64s_mut(1)[0] = 3;
        assert_eq!(envelope.column(1).u64s().as_ptr(), before);
    }

    #[test]
    #[should_panic(expected = "a column of type Text was read as U64")]
    fn a_column_is_read_as_what_it_is() {
        Column::from_iter(["a"]).u64s();
    }
}
