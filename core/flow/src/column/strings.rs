//! Values of any size, and strings of fixed size: the ways to store them, and one way to read them.

use super::{Column, Parts, Rest, wrong_type};
use crate::nulls::Bytes;
use crate::store::Store;
use crate::types::{Form, PADDING};
use crate::{Grow, NoMemory, Storage, Type, give_up};
#[cfg(feature = "arrow")]
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Most bytes in one buffer of texts: what an end counts, and an offset of Arrow's views.
pub(crate) const MOST_TEXT: usize = if cfg!(test) { 1 << 20 } else { i32::MAX as usize };

/// Most bytes of a value that a view has in itself.
const INLINE: usize = 12;

/// A row of a column in [`Storage::Views`], in Arrow's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
pub(crate) struct View {
    len: u32,
    /// The value, if it has at most twelve bytes, padded by zeros. Otherwise its first four, the number of its buffer,
    /// and its place there.
    rest: [u8; INLINE],
}

impl View {
    /// A view of a value with at most twelve bytes.
    pub(crate) fn short(value: &[u8]) -> Option<View> {
        let mut rest = [0; INLINE];
        rest.get_mut(..value.len())?.copy_from_slice(value);
        Some(View { len: value.len() as u32, rest })
    }

    /// A view of a longer value which lies in this buffer at this place.
    pub(crate) fn long(value: &[u8], buffer: usize, at: usize) -> View {
        let mut rest = [0; INLINE];
        rest[..4].copy_from_slice(&value[..4]);
        rest[4..8].copy_from_slice(&(buffer as u32).to_ne_bytes());
        rest[8..].copy_from_slice(&(at as u32).to_ne_bytes());
        View { len: value.len() as u32, rest }
    }

    /// The bytes that lie in a buffer.
    pub(crate) fn bytes_outside(self) -> usize {
        if self.len as usize <= INLINE { 0 } else { self.len as usize }
    }

    fn place(&self) -> (usize, usize) {
        let number = |from: usize| u32::from_ne_bytes(self.rest[from..from + 4].try_into().expect("four bytes"));
        (number(4) as usize, number(8) as usize)
    }

    /// Whether some of its bytes lie outside of buffers with these numbers of bytes.
    #[cfg(feature = "arrow")]
    pub(crate) fn leads_out_of(self, buffers: &[usize]) -> bool {
        let (buffer, at) = self.place();
        self.bytes_outside() > 0 && buffers.get(buffer).is_none_or(|&bytes| bytes < at + self.len as usize)
    }

    /// The value; empty for the view of a null that names no buffer.
    fn value<'v>(&'v self, buffers: &'v [Bytes]) -> &'v [u8] {
        let len = self.len as usize;
        if len <= INLINE {
            return &self.rest[..len];
        }
        let (buffer, at) = self.place();
        buffers.get(buffer).and_then(|buffer| buffer.get().get(at..)?.get(..len)).unwrap_or_default()
    }
}

#[cfg(feature = "arrow")]
impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (buffer, at) = self.place();
        write!(f, "{} bytes from {at} on in buffer {buffer}", self.len)
    }
}

impl Column {
    /// The ends of the rows of lists, or of texts or strings of bytes that are stored directly, with the first row's
    /// beginning before them; empty if there are no rows.
    pub(crate) fn ends(&self) -> &[i32] {
        assert!(self.form.has_ends(), "{} stored as {:?} has no ends", self.kind, self.form);
        let count = if self.rows == 0 { 0 } else { self.rows + 1 };
        #[expect(unsafe_code, reason = "the ends lie in raw memory")]
        // SAFETY: by the invariant of `at`.
        unsafe {
            NonNull::slice_from_raw_parts(self.at.cast(), count).as_ref()
        }
    }

    /// The place of these rows in what the ends are of.
    pub(crate) fn ends_of(&self, rows: Range<usize>) -> Range<usize> {
        let ends = self.ends();
        if rows.is_empty() { 0..0 } else { ends[rows.start] as usize..ends[rows.end] as usize }
    }

    /// The texts of all rows stored directly, and perhaps of rows of other columns.
    pub(crate) fn all_text(&self) -> &[u8] {
        self.text().map_or(&[], Bytes::get)
    }

    pub(super) fn text(&self) -> Option<&Bytes> {
        match self.rest() {
            Some(Rest::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn buffers(&self) -> &[Bytes] {
        match self.rest() {
            Some(Rest::Buffers(buffers)) => buffers,
            _ => &[],
        }
    }

    pub(crate) fn store(&self) -> Option<&Arc<Store>> {
        match self.rest() {
            Some(Rest::Store(store)) => Some(store),
            _ => None,
        }
    }

    /// The rows as views.
    pub(crate) fn views(&self) -> &[View] {
        assert!(self.form == Form::Views);
        #[expect(unsafe_code, reason = "the views lie in raw memory")]
        // SAFETY: by the invariant of `at`.
        unsafe {
            NonNull::slice_from_raw_parts(self.at.cast(), self.rows).as_ref()
        }
    }

    /// The numbers of the rows' values in the store.
    pub(crate) fn codes(&self) -> &[u32] {
        assert!(self.form == Form::Codes);
        #[expect(unsafe_code, reason = "the codes lie in raw memory")]
        // SAFETY: by the invariant of `at`.
        unsafe {
            NonNull::slice_from_raw_parts(self.at.cast(), self.rows).as_ref()
        }
    }

    /// The codes of a column in [`Storage::Dictionary`], and the values that they are numbers of; `None` in other
    /// storage. Codes of nulls are arbitrary.
    pub fn dictionary_parts(&self) -> Option<(&[u32], &Column)> {
        Some((self.codes_if()?, self.store()?.values()))
    }

    fn codes_if(&self) -> Option<&[u32]> {
        (self.form == Form::Codes).then(|| self.codes())
    }

    /// The bytes of a row of fixed size.
    fn fixed(&self, row: usize, bytes: usize) -> &[u8] {
        &self.value_bytes()[row * bytes..(row + 1) * bytes]
    }

    /// The text or string of bytes of a row, in any storage.
    #[inline]
    pub(crate) fn string(&self, row: usize) -> &[u8] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        if self.form == Form::Direct {
            return &self.all_text()[self.ends_of(row..row + 1)];
        }
        self.string_elsewhere(row)
    }

    #[inline(never)]
    fn string_elsewhere(&self, row: usize) -> &[u8] {
        match self.form {
            Form::Views => self.views()[row].value(self.buffers()),
            Form::Codes => self.store().map_or(&[], |store| store.string(self.codes()[row])),
            Form::Fixed(bytes) => self.fixed(row, bytes as usize),
            Form::Limited(bytes) => {
                let value = self.fixed(row, bytes as usize);
                let end = value.iter().rposition(|&byte| byte != PADDING).map_or(0, |last| last + 1);
                &value[..end]
            }
            _ => wrong_type(&self.kind, &Type::Binary),
        }
    }

    /// The bytes of the values of these rows as they would be stored directly.
    pub(crate) fn string_bytes(&self) -> usize {
        match self.form {
            Form::Direct => self.ends_of(0..self.rows).len(),
            Form::Fixed(bytes) => bytes as usize * self.rows,
            _ => (0..self.rows).map(|row| self.string(row).len()).fold(0, usize::saturating_add),
        }
    }

    /// The bytes that views have outside of them.
    pub(super) fn bytes_of_views(&self) -> usize {
        self.views().iter().map(|view| view.bytes_outside()).fold(0, usize::saturating_add)
    }

    /// The text of a row; arbitrary for a null. Panics if there is no such row, or if it is of another type.
    #[inline]
    pub fn text_at(&self, row: usize) -> &str {
        if self.kind != Type::Text {
            wrong_type(&self.kind, &Type::Text);
        }
        let bytes = self.string(row);
        #[expect(unsafe_code, reason = "looking at each byte again would take long")]
        // SAFETY: it is UTF-8 by the invariant of `at`.
        unsafe {
            str::from_utf8_unchecked(bytes)
        }
    }

    /// The string of bytes of a row of [`Type::Binary`] or [`Type::FixedBinary`]; arbitrary for a null. Panics if there
    /// is no such row, or if it is of another type.
    pub fn binary_at(&self, row: usize) -> &[u8] {
        self.assert_strings();
        self.string(row)
    }

    fn assert_strings(&self) {
        if !matches!(self.kind, Type::Binary | Type::FixedBinary(_)) {
            wrong_type(&self.kind, &Type::Binary);
        }
    }

    /// The texts of a text column, in order. Panics if it is of another type.
    pub fn texts(&self) -> impl ExactSizeIterator<Item = &str> + DoubleEndedIterator {
        if self.kind != Type::Text {
            wrong_type(&self.kind, &Type::Text);
        }
        (0..self.rows).map(|row| self.text_at(row))
    }

    /// The strings of a column of bytes, in order. Panics if it is of another type.
    pub fn binaries(&self) -> impl ExactSizeIterator<Item = &[u8]> + DoubleEndedIterator {
        self.assert_strings();
        (0..self.rows).map(|row| self.string(row))
    }

    /// The way in which values of any size are stored; [`Storage::Direct`] for other types.
    pub fn storage(&self) -> Storage {
        self.form.storage()
    }

    /// Its values, each text or string of bytes in this storage; the column itself if it has this storage already. The
    /// columns of lists and structs stay as they are.
    ///
    /// ```
    /// use vicus_flow::{Column, Storage};
    ///
    /// let words: Column = ["to", "be", "or", "not", "to", "be"].into_iter().collect();
    /// let coded = words.stored(Storage::Dictionary)?;
    /// let (codes, values) = coded.dictionary_parts().unwrap();
    /// assert_eq!(codes, [0, 1, 2, 3, 0, 1]);
    /// assert!(values.texts().eq(["to", "be", "or", "not"]));
    /// assert!(coded.texts().eq(words.texts()));
    /// # Ok::<(), vicus_flow::BoxError>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory, or a value has more bytes than a [`Storage::Limited`] has room for.
    pub fn stored(&self, storage: Storage) -> Result<Column, StorageError> {
        let form = self.kind.form_in(storage);
        if form == self.form || !self.kind.is_variable() {
            return Ok(self.clone());
        }
        if let Storage::Limited(most) = storage {
            let too_long = |row: &usize| !self.is_null(*row) && self.string(*row).len() > most as usize;
            if let Some(row) = (0..self.rows).find(too_long) {
                return Err(StorageError::TooLong { row, bytes: self.string(row).len(), most });
            }
        }
        if form == Form::Direct && self.string_bytes() > MOST_TEXT {
            return Err(StorageError::TooMuch { bytes: self.string_bytes() });
        }
        if (self.form, form) == (Form::Direct, Form::Views) {
            return Ok(self.as_views()?);
        }
        Ok(crate::builder::converted(self, storage)?)
    }

    /// The rows of a column that is stored directly, as views of its texts.
    fn as_views(&self) -> Result<Column, NoMemory> {
        let mut views: Vec<View> = Vec::with_room(self.rows)?;
        let text = self.all_text();
        views.extend((0..self.rows).map(|row| {
            let place = self.ends_of(row..row + 1);
            let value = &text[place.clone()];
            View::short(value).unwrap_or_else(|| View::long(value, 0, place.start))
        }));
        Ok(of_views(&self.kind, views, self.text().cloned().into_iter().collect(), self.nulls().cloned()))
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

    /// A column of strings of bytes. More than 2 GiB are stored as views. If there is no memory, it fails by
    /// [`give_up`].
    pub fn of_binaries<S: AsRef<[u8]>>(strings: impl IntoIterator<Item = S>) -> Column {
        of_strings(Type::Binary, strings.into_iter())
    }

    /// A column in [`Storage::Dictionary`]: row `r` has the value `values[codes[r]]`. The values are shared by all
    /// slices and copies of the column; boxes see that columns have one store if all were made of one.
    ///
    /// # Errors
    /// A code has no value, or the values are not texts or strings of bytes, have nulls, or are more than 2^31.
    pub fn of_dictionary(codes: Vec<u32>, values: &Column) -> Result<Column, StorageError> {
        if !values.kind.is_variable() || values.null_count() > 0 || i32::try_from(values.len()).is_err() {
            return Err(StorageError::NoStore { kind: values.kind.clone() });
        }
        let beyond = codes.iter().position(|&code| code as usize >= values.len());
        if let Some(row) = beyond {
            return Err(StorageError::Beyond { row, code: codes[row], values: values.len() });
        }
        let values = if values.form == Form::Codes { values.stored(Storage::Direct)? } else { values.clone() };
        Ok(of_codes(codes, Arc::new(Store::new(values)), None))
    }
}

impl<S: AsRef<str>> FromIterator<S> for Column {
    /// A text column. More than 2 GiB of text are stored as views. If there is no memory, it fails by [`give_up`].
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

/// A column of views of these buffers.
pub(crate) fn of_views(
    kind: &Type,
    views: Vec<View>,
    buffers: Vec<Bytes>,
    nulls: Option<crate::nulls::Nulls>,
) -> Column {
    let rows = views.len();
    let block = Arc::new(crate::block::Block::of_vec(views));
    let (at, rest) = (block.at(), Rest::Buffers(buffers.into()));
    #[expect(unsafe_code, reason = "a vector becomes a column")]
    // SAFETY: the block is the vector's, and the callers' views are of values of the type in these buffers.
    unsafe {
        Column::new(Parts { kind: kind.clone(), form: Form::Views, rows, at, block, rest, nulls })
    }
}

/// A column of codes of values of this store; each is below their number, or of a null.
pub(crate) fn of_codes(codes: Vec<u32>, store: Arc<Store>, nulls: Option<crate::nulls::Nulls>) -> Column {
    let (rows, kind) = (codes.len(), store.values().kind());
    let block = Arc::new(crate::block::Block::of_vec(codes));
    #[expect(unsafe_code, reason = "a vector becomes a column")]
    // SAFETY: the block is the vector's; a code without a value is read as an empty string.
    unsafe {
        let at = block.at();
        Column::new(Parts { kind, form: Form::Codes, rows, at, block, rest: Rest::Store(store), nulls })
    }
}

fn of_strings<S: AsRef<[u8]>>(kind: Type, mut strings: impl Iterator<Item = S>) -> Column {
    let (mut ends, mut bytes) = (Vec::new(), Vec::new());
    ends.grow_or_give_up(strings.size_hint().0.saturating_add(1));
    ends.push(0i32);
    while let Some(string) = strings.next() {
        let value = string.as_ref();
        if bytes.len().saturating_add(value.len()) > MOST_TEXT {
            let direct = (ends, bytes);
            return of_much(kind, direct, std::iter::once(string).chain(strings));
        }
        bytes.grow_or_give_up(value.len());
        bytes.extend_from_slice(value);
        ends.grow_or_give_up(1);
        ends.push(bytes.len() as i32);
    }
    #[expect(unsafe_code, reason = "vectors become a column")]
    // SAFETY: the ends begin with 0 and rise, and the last one is the number of bytes. Those of texts came from texts.
    unsafe {
        of_ends(kind, ends, bytes)
    }
}

/// A column of more text than ends can count: views of several buffers.
#[cold]
fn of_much<S: AsRef<[u8]>>(kind: Type, direct: (Vec<i32>, Vec<u8>), more: impl Iterator<Item = S>) -> Column {
    let (ends, mut bytes) = direct;
    let mut views: Vec<View> = Vec::with_room(ends.len()).unwrap_or_else(|error| give_up(error));
    let view = |buffer: usize, from: usize, value: &[u8]| {
        View::short(value).unwrap_or_else(|| View::long(value, buffer, from))
    };
    views.extend(ends.windows(2).map(|row| view(0, row[0] as usize, &bytes[row[0] as usize..row[1] as usize])));
    let mut buffers: Vec<Bytes> = Vec::new();
    for string in more {
        let value = string.as_ref();
        if value.len() > MOST_TEXT {
            give_up(TOO_LONG);
        }
        if bytes.len() + value.len() > MOST_TEXT {
            buffers.push(std::mem::take(&mut bytes).into());
        }
        views.grow_or_give_up(1);
        views.push(view(buffers.len(), bytes.len(), value));
        if views.last().is_some_and(|view| view.bytes_outside() > 0) {
            bytes.grow_or_give_up(value.len());
            bytes.extend_from_slice(value);
        }
    }
    buffers.push(bytes.into());
    of_views(&kind, views, buffers, None)
}

/// A column of texts or of strings of bytes.
///
/// # Safety
/// The ends begin with 0 and don't fall, the last one is the number of bytes, and a text is UTF-8 row by row.
#[expect(unsafe_code, reason = "the caller promises what lies there")]
unsafe fn of_ends(kind: Type, ends: Vec<i32>, bytes: Vec<u8>) -> Column {
    let rows = ends.len() - 1;
    let block = Arc::new(crate::block::Block::of_vec(ends));
    let (at, rest) = (block.at(), Rest::Text(bytes.into()));
    // SAFETY: by the caller's promise.
    unsafe { Column::new(Parts { kind, form: Form::Direct, rows, at, block, rest, nulls: None }) }
}

/// The error for a value with more bytes than a buffer.
pub(crate) const TOO_LONG: &str = "a text or string of bytes has at most 2 GiB";

/// Why values have no room in a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageError {
    /// A value has more bytes than [`Storage::Limited`] has room for.
    TooLong {
        /// The row.
        row: usize,
        /// The bytes of its value.
        bytes: usize,
        /// How many there is room for.
        most: u32,
    },
    /// All values together have more than 2 GiB, which [`Storage::Direct`] can't count.
    TooMuch {
        /// Their bytes.
        bytes: usize,
    },
    /// A code is that of no value.
    Beyond {
        /// The row.
        row: usize,
        /// Its code.
        code: u32,
        /// How many values there are.
        values: usize,
    },
    /// The values of a dictionary are of this type or have nulls.
    NoStore {
        /// Their type.
        kind: Type,
    },
    /// There is no memory.
    NoMemory(NoMemory),
}

impl std::fmt::Display for StorageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StorageError::TooLong { row, bytes, most } => {
                write!(f, "the value of row {row} has {bytes} bytes, and there is room for {most}")
            }
            StorageError::TooMuch { bytes } => {
                write!(
                    f,
                    "the values have {bytes} bytes, and at most 2 GiB can be stored directly; store them as views"
                )
            }
            StorageError::Beyond { row, code, values } => {
                write!(f, "row {row} has the code {code}, and the dictionary has {values} values, from 0 on")
            }
            StorageError::NoStore { kind } => {
                write!(
                    f,
                    "the values of a dictionary are texts or strings of bytes without nulls, at most 2^31 of them, and \
                     these are {kind}"
                )
            }
            StorageError::NoMemory(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StorageError {}

impl From<NoMemory> for StorageError {
    fn from(error: NoMemory) -> StorageError {
        StorageError::NoMemory(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Blocks;
    use crate::{EnvelopeBuilder, Schema};

    /// Texts of three times as many bytes as ends count, here a mebibyte; some lie in their views.
    fn many() -> Vec<String> {
        let long = |row: usize| format!("{row:0width$}", width = 1000 + row % 7);
        (0..3 * MOST_TEXT / 1000).map(|row| if row % 10 == 3 { format!("{row}") } else { long(row) }).collect()
    }

    #[test]
    fn more_text_than_ends_count_becomes_views_of_several_buffers() {
        let texts = many();
        let made: Column = texts.iter().collect();
        assert_eq!(made.storage(), Storage::Views);
        assert!(made.texts().eq(texts.iter().map(String::as_str)));
        assert!(made.buffers().len() >= 3 && made.buffers().iter().all(|buffer| buffer.get().len() <= MOST_TEXT));
        let bytes = texts.iter().map(String::len).sum();
        assert_eq!(made.stored(Storage::Direct).unwrap_err(), StorageError::TooMuch { bytes });

        let schema = Schema::new([("t", Type::Text)]).with_nulls(["t"]);
        let mut builder = EnvelopeBuilder::new(&schema);
        let blocks = Blocks::default();
        for (row, text) in texts.iter().enumerate() {
            if row == 5 {
                builder.reserve_from(blocks, 1);
                builder.push_null(0);
            } else {
                builder.push_string(blocks, 0, &Type::Text, text.as_bytes());
            }
        }
        let filled = builder.finish_from(blocks).remove(0);
        assert_eq!((filled.storage(), filled.null_count(), filled.is_null(5)), (Storage::Views, 1, true));
        assert!((0..texts.len()).all(|row| row == 5 || filled.text_at(row) == texts[row]));
        builder.push_string(blocks, 0, &Type::Text, b"and the next one is stored directly again");
        assert_eq!(builder.finish_from(blocks)[0].storage(), Storage::Direct);

        // Rows of columns that were stored directly, one by one.
        let parts: Vec<Column> = texts.chunks(500).map(|part| part.iter().collect()).collect();
        let rows: Vec<(u32, u32)> =
            (0..texts.len()).rev().map(|row| ((row / 500) as u32, (row % 500) as u32)).collect();
        builder.reserve_from(blocks, rows.len());
        builder.interleave(blocks, &rows, |part| std::slice::from_ref(&parts[part as usize]));
        let column = builder.finish_from(blocks).remove(0);
        assert!(column.storage() == Storage::Views && column.texts().rev().eq(texts.iter().map(String::as_str)));
    }

    #[cfg(feature = "arrow")]
    #[test]
    fn more_text_than_ends_count_comes_from_arrow_without_a_copy() {
        use arrow_array::{Array, LargeStringArray};
        let texts = many();
        let array = LargeStringArray::from(texts.iter().map(|text| Some(&text[..])).collect::<Vec<_>>());
        let array = array.slice(7, texts.len() - 7);
        let column = Column::from_arrow(&array).unwrap();
        assert!(column.storage() == Storage::Views && column.texts().eq(texts[7..].iter().map(String::as_str)));
        assert_eq!(column.text_at(0).as_ptr(), array.value(0).as_ptr());
        column.to_arrow().to_data().validate_full().unwrap();
    }
}
