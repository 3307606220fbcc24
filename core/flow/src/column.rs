//! A column: values of one type in Arrow's memory layout, in a block that other columns may share.
//!
//! Bobox report 2011/1, §4. Columns are shared by reference count: cloning one, or taking a slice of its rows, copies
//! no data.

use crate::block::{Block, Blocks};
use crate::builder;
use crate::native::by_type;
use crate::nulls::{Bytes, Nulls, clear};
use crate::{Grow, Native, NoMemory, Type, give_up};
use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{self, fence};

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
    rows: usize,
    /// Has the provenance of the whole block, and is aligned for the values. Invariant: `rows` values of the type lie
    /// there. Or, for a variable type with rows, as many ends in `i32` and one more before them; they rise from 0 or
    /// more and lie within the text; in a text, each part is UTF-8.
    at: NonNull<u8>,
    block: Arc<Block>,
    /// Parts most columns don't have.
    beside: Option<Arc<Beside>>,
}

#[derive(Clone, Default)]
struct Beside {
    /// The texts of all rows, one after the other.
    text: Option<Bytes>,
    nulls: Option<Nulls>,
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
    pub(crate) rows: usize,
    pub(crate) at: NonNull<u8>,
    pub(crate) block: Arc<Block>,
    pub(crate) text: Option<Bytes>,
    pub(crate) nulls: Option<Nulls>,
}

impl Column {
    /// A column of a type of fixed width, without nulls.
    ///
    /// # Safety
    /// Those of [`Column::new`].
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what lies there")]
    pub(crate) unsafe fn plain(kind: Type, rows: usize, at: NonNull<u8>, block: Arc<Block>) -> Column {
        Column { kind, rows, at, block, beside: None }
    }

    /// # Safety
    /// The values lie there as the invariant of `at` says, and are not written to while a column has them.
    #[expect(unsafe_code, reason = "the caller promises what lies there")]
    pub(crate) unsafe fn new(parts: Parts) -> Column {
        let Parts { kind, rows, at, block, text, nulls } = parts;
        let is_plain = text.is_none() && nulls.is_none();
        let beside = if is_plain { None } else { Some(Arc::new(Beside { text, nulls })) };
        Column { kind, rows, at, block, beside }
    }

    /// Its type.
    #[inline]
    pub fn kind(&self) -> Type {
        self.kind
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

    /// The bytes of memory of its values.
    #[inline]
    pub fn bytes(&self) -> u64 {
        let values = self.rows * self.kind.width();
        let beside = self.beside.as_ref().map_or(0, |beside| self.bytes_beside(beside));
        (values + beside) as u64
    }

    #[inline(never)]
    fn bytes_beside(&self, beside: &Beside) -> usize {
        let has_ends = self.kind.is_variable() && self.rows > 0;
        let text = if has_ends { size_of::<i32>() + self.text_range(0..self.rows).len() } else { 0 };
        text + beside.nulls.as_ref().map_or(0, Nulls::bytes)
    }

    /// The values of a column of this type; those of null rows are arbitrary. Panics if it is of another type: types
    /// are checked when the model is built.
    #[inline]
    pub fn values<T: Native>(&self) -> &[T] {
        if self.kind != T::TYPE {
            wrong_type(self.kind, T::TYPE);
        }
        #[expect(unsafe_code, reason = "the values lie in raw memory")]
        // SAFETY: by the invariant of `at`; the values live as long as the block, and are not written to, by `new`'s
        // contract.
        unsafe {
            NonNull::slice_from_raw_parts(self.at.cast(), self.rows).as_ref()
        }
    }

    /// The bytes of the values of a type of fixed width, as memory has them.
    pub(crate) fn value_bytes(&self) -> &[u8] {
        assert!(!self.kind.is_variable(), "{:?} has values of any size", self.kind);
        #[expect(unsafe_code, reason = "the values lie in raw memory")]
        // SAFETY: by the invariant of `at`, and numbers have no bytes without a value; as in `values`.
        unsafe {
            NonNull::slice_from_raw_parts(self.at, self.rows * self.kind.width()).as_ref()
        }
    }

    /// A column without nulls of values of fixed width. If there is no memory, it fails by [`give_up`].
    ///
    /// # Safety
    /// The bytes are those of values of the type, as [`Column::value_bytes`] gives them.
    #[expect(unsafe_code, reason = "the caller promises that the bytes are values")]
    pub(crate) unsafe fn of_value_bytes(kind: Type, bytes: &[u8]) -> Column {
        by_type!(
            kind,
            Value => {
                let rows = bytes.len() / size_of::<Value>();
                let mut values: Vec<Value> = Vec::with_room(rows).unwrap_or_else(|error| give_up(error));
                // SAFETY: there is room for `rows` values, whose bytes these are by the caller's promise; the vector's
                // memory is its own.
                unsafe {
                    bytes.as_ptr().copy_to_nonoverlapping(values.as_mut_ptr().cast(), rows * size_of::<Value>());
                    values.set_len(rows);
                }
                values.into()
            },
            unreachable!("{kind:?} has values of any size")
        )
    }

    /// The values as a vector: the original one if no other column shares it, otherwise a copy. Panics if it is of
    /// another type.
    pub fn into_values<T: Native>(mut self) -> Vec<T> {
        if self.kind != T::TYPE {
            wrong_type(self.kind, T::TYPE);
        }
        self.beside = None;
        let Column { kind, rows, at, block, .. } = self;
        let block = match Arc::try_unwrap(block) {
            Ok(block) if block.at() == at => match block.into_vec(rows) {
                Ok(values) => return values,
                Err(block) => Arc::new(block),
            },
            Ok(block) => Arc::new(block),
            Err(block) => block,
        };
        let whole = Column { kind, rows, at, block, beside: None };
        Vec::copied(whole.values()).unwrap_or_else(|error| give_up(error))
    }

    /// The values, to be changed.
    ///
    /// # Safety
    /// No other column shares them meanwhile; see [`make_private`].
    #[expect(unsafe_code, reason = "the caller promises that nothing else sees the values")]
    pub(crate) unsafe fn values_mut<T: Native>(&mut self) -> &mut [T] {
        if self.kind != T::TYPE {
            wrong_type(self.kind, T::TYPE);
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
            slice.at = slice.at.add(rows.start * self.kind.width());
        }
        if let Some(nulls) = self.nulls() {
            let text = self.text().cloned();
            let nulls = nulls.slice(rows.start, rows.len());
            slice.beside =
                if text.is_none() && nulls.is_none() { None } else { Some(Arc::new(Beside { text, nulls })) };
        }
        slice
    }

    #[inline]
    pub(crate) fn nulls(&self) -> Option<&Nulls> {
        self.beside.as_ref()?.nulls.as_ref()
    }

    fn text(&self) -> Option<&Bytes> {
        self.beside.as_ref()?.text.as_ref()
    }

    /// How many of its rows are nulls.
    #[inline]
    pub fn null_count(&self) -> usize {
        self.nulls().map_or(0, |nulls| nulls.count)
    }

    /// Its type, and whether it has nulls.
    #[inline]
    pub(crate) fn kind_and_nulls(&self) -> (Type, bool) {
        (self.kind, self.null_count() > 0)
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
        let (text, nulls) = (self.text().cloned(), Nulls::among(bits.into(), 0, self.rows));
        let mut column = self.clone();
        column.beside = if text.is_none() && nulls.is_none() { None } else { Some(Arc::new(Beside { text, nulls })) };
        column
    }

    /// The ends of the rows of texts or strings of bytes, with the first row's beginning before them; empty if there
    /// are no rows.
    pub(crate) fn ends(&self) -> &[i32] {
        assert!(self.kind.is_variable(), "{:?} has no ends", self.kind);
        let count = if self.rows == 0 { 0 } else { self.rows + 1 };
        #[expect(unsafe_code, reason = "the ends lie in raw memory")]
        // SAFETY: by the invariant of `at`.
        unsafe {
            NonNull::slice_from_raw_parts(self.at.cast(), count).as_ref()
        }
    }

    /// The place of the texts of these rows.
    pub(crate) fn text_range(&self, rows: Range<usize>) -> Range<usize> {
        let ends = self.ends();
        if rows.is_empty() { 0..0 } else { ends[rows.start] as usize..ends[rows.end] as usize }
    }

    /// The texts of all rows, and perhaps of rows of other columns.
    pub(crate) fn all_text(&self) -> &[u8] {
        self.text().map_or(&[], Bytes::get)
    }

    /// The text or string of bytes of a row.
    #[inline]
    pub(crate) fn string(&self, row: usize) -> &[u8] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        &self.all_text()[self.text_range(row..row + 1)]
    }

    /// The text of a row; arbitrary for a null. Panics if there is no such row, or if it is of another type.
    #[inline]
    pub fn text_at(&self, row: usize) -> &str {
        if self.kind != Type::Text {
            wrong_type(self.kind, Type::Text);
        }
        let bytes = self.string(row);
        #[expect(unsafe_code, reason = "looking at each byte again would take long")]
        // SAFETY: it is UTF-8 by the invariant of `at`.
        unsafe {
            str::from_utf8_unchecked(bytes)
        }
    }

    /// The string of bytes of a row; arbitrary for a null. Panics if there is no such row, or if it is of another type.
    pub fn binary_at(&self, row: usize) -> &[u8] {
        if self.kind != Type::Binary {
            wrong_type(self.kind, Type::Binary);
        }
        self.string(row)
    }

    /// The texts of a text column, in order. Panics if it is of another type.
    pub fn texts(&self) -> impl ExactSizeIterator<Item = &str> + DoubleEndedIterator {
        if self.kind != Type::Text {
            wrong_type(self.kind, Type::Text);
        }
        (0..self.rows).map(|row| self.text_at(row))
    }

    /// The strings of a column of bytes, in order. Panics if it is of another type.
    pub fn binaries(&self) -> impl ExactSizeIterator<Item = &[u8]> + DoubleEndedIterator {
        if self.kind != Type::Binary {
            wrong_type(self.kind, Type::Binary);
        }
        (0..self.rows).map(|row| self.string(row))
    }

    /// A text column of the parts of one text, without a copy: row `r` is `text[ends[r]..ends[r + 1]]`. Panics if the
    /// ends don't begin with 0, fall, lie inside of a character, or end before the text or behind it.
    ///
    /// ```
    /// use vicus_flow::Column;
    ///
    /// let column = Column::of_text("onetwo".to_owned(), vec![0, 3, 3, 6]);
    /// assert!(column.texts().eq(["one", "", "two"]));
    /// ```
    pub fn of_text(text: String, ends: Vec<i32>) -> Column {
        let is_end = |&end: &i32| usize::try_from(end).is_ok_and(|end| text.is_char_boundary(end));
        let is_whole = ends.first() == Some(&0) && ends.last().is_some_and(|&end| end as usize == text.len());
        assert!(is_whole && ends.is_sorted() && ends.iter().all(is_end), "the rows are the parts of the text");
        #[expect(unsafe_code, reason = "vectors become a column")]
        // SAFETY: looked at just now; parts of a text that begin and end between characters are texts.
        unsafe {
            of_ends(Type::Text, ends, text.into_bytes())
        }
    }

    /// A column of strings of bytes. If there is no memory, or more than 2 GiB, it fails by [`give_up`].
    pub fn of_binaries<S: AsRef<[u8]>>(strings: impl IntoIterator<Item = S>) -> Column {
        of_strings(Type::Binary, strings.into_iter())
    }

    /// Orders the values of two rows, neither of them null, of columns of one type: numbers by [`Native::order`], texts
    /// and strings by their bytes. Panics if the types differ.
    #[inline]
    pub fn order(&self, row: usize, other: &Column, other_row: usize) -> Ordering {
        if other.kind != self.kind {
            wrong_type(other.kind, self.kind);
        }
        by_type!(self.kind,
            T => self.values::<T>()[row].order(other.values::<T>()[other_row]),
            self.string(row).cmp(other.string(other_row)))
    }

    /// A number that does not fall as values rise: the value's [rank](Native::rank), or the first eight bytes.
    pub(crate) fn rank(&self, row: usize) -> u64 {
        by_type!(self.kind, T => self.values::<T>()[row].rank(), {
            let (string, mut first) = (self.string(row), [0; 8]);
            let len = string.len().min(8);
            first[..len].copy_from_slice(&string[..len]);
            u64::from_be_bytes(first)
        })
    }

    /// A copy of the data for this column alone.
    pub(crate) fn private_copy(&self, blocks: Blocks) -> Result<Column, NoMemory> {
        Ok(builder::copied(std::slice::from_ref(self), self.rows, blocks)?.remove(0))
    }

    /// Its parts with the blocks that keep them.
    #[cfg(feature = "arrow")]
    pub(crate) fn parts(&self) -> Parts {
        let Column { kind, rows, at, ref block, .. } = *self;
        Parts { kind, rows, at, block: Arc::clone(block), text: self.text().cloned(), nulls: self.nulls().cloned() }
    }

    /// All blocks it keeps, possibly with repetitions.
    fn blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        let beside = self.beside.as_deref();
        let text = beside.and_then(|beside| beside.text.as_ref()).map(|text| &text.block);
        let nulls = beside.and_then(|beside| beside.nulls.as_ref()).map(|nulls| &nulls.bits.block);
        [Some(&self.block), text, nulls].into_iter().flatten()
    }

    /// How often its texts and nulls keep this block.
    fn keeps_beside(&self, block: &Arc<Block>) -> usize {
        if self.beside.is_none() { 0 } else { self.blocks().skip(1).filter(|other| Arc::ptr_eq(other, block)).count() }
    }

    /// The addresses of its values.
    fn addresses(&self) -> Range<usize> {
        let from = self.at.as_ptr().addr();
        from..from + self.rows * self.kind.width()
    }
}

/// The bytes of all memory blocks of these columns, possibly more than the columns' own.
pub(crate) fn held_bytes(columns: &[Column]) -> u64 {
    let mut bytes = 0;
    for (place, column) in columns.iter().enumerate() {
        for (part, block) in column.blocks().enumerate() {
            let before = columns[..place].iter().flat_map(Column::blocks).chain(column.blocks().take(part));
            if !before.into_iter().any(|other| Arc::ptr_eq(block, other)) {
                bytes += block.bytes() as u64;
            }
        }
    }
    bytes
}

/// Hides the values of an envelope's column from other columns: copies them if another one might share them.
pub(crate) fn make_private(columns: &mut [Column], column: usize, blocks: Blocks) {
    let own = &columns[column];
    if own.kind.is_variable() {
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
        let (kind, rows) = (T::TYPE, values.len());
        let block = Block::of_vec(values);
        Column { kind, rows, at: block.at(), block: Arc::new(block), beside: None }
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

impl<S: AsRef<str>> FromIterator<S> for Column {
    /// A text column. If there is no memory, or more than 2 GiB of text, it fails by [`give_up`].
    fn from_iter<I: IntoIterator<Item = S>>(texts: I) -> Column {
        struct Utf8<S>(S);
        impl<S: AsRef<str>> AsRef<[u8]> for Utf8<S> {
            fn as_ref(&self) -> &[u8] {
                self.0.as_ref().as_bytes()
            }
        }
        of_strings(Type::Text, texts.into_iter().map(Utf8))
    }
}

/// The error for a column with more text than its ends can count.
pub(crate) const TOO_MUCH_TEXT: &str = "a column has at most 2 GiB of text";

fn of_strings<S: AsRef<[u8]>>(kind: Type, strings: impl Iterator<Item = S>) -> Column {
    let (mut ends, mut bytes) = (Vec::new(), Vec::new());
    ends.grow_or_give_up(strings.size_hint().0.saturating_add(1));
    ends.push(0i32);
    for string in strings {
        let string = string.as_ref();
        bytes.grow_or_give_up(string.len());
        bytes.extend_from_slice(string);
        ends.grow_or_give_up(1);
        ends.push(i32::try_from(bytes.len()).unwrap_or_else(|_| give_up(TOO_MUCH_TEXT)));
    }
    #[expect(unsafe_code, reason = "vectors become a column")]
    // SAFETY: the ends begin with 0 and rise, and the last one is the number of bytes. Those of texts came from texts.
    unsafe {
        of_ends(kind, ends, bytes)
    }
}

/// A column of texts or of strings of bytes.
///
/// # Safety
/// The ends begin with 0 and don't fall, the last one is the number of bytes, and a text is UTF-8 row by row.
#[expect(unsafe_code, reason = "the caller promises what lies there")]
unsafe fn of_ends(kind: Type, ends: Vec<i32>, bytes: Vec<u8>) -> Column {
    let rows = ends.len() - 1;
    let block = Arc::new(Block::of_vec(ends));
    // SAFETY: by the caller's promise.
    unsafe { Column::new(Parts { kind, rows, at: block.at(), block, text: Some(bytes.into()), nulls: None }) }
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
pub(crate) fn wrong_type(is: Type, wanted: Type) -> ! {
    panic!("a column of type {is:?} was read as {wanted:?}")
}

impl fmt::Debug for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |row: usize| -> Box<dyn fmt::Debug + '_> {
            match self.kind {
                _ if self.is_null(row) => Box::new(None::<()>),
                Type::Text => Box::new(self.text_at(row)),
                kind => by_type!(kind, T => Box::new(self.values::<T>()[row]), Box::new(self.string(row))),
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
