//! How a user fills columns.

use super::{Beside, EnvelopeBuilder, Filled, More, part};
use crate::block::Blocks;
use crate::column::wrong_type;
use crate::native::by_form;
use crate::nulls::{clear, is_set};
use crate::types::Form;
use crate::unfilled::Strings;
use crate::{Native, Turn, Type, Unfilled, UnfilledText, give_up};
use std::marker::PhantomData;

/// The error for a list's values that an end can't count.
const TOO_MANY_ITEMS: &str = "the lists of a column have together more than 2^31 values";

impl EnvelopeBuilder {
    /// A column, to be filled. Panics if it is of another type.
    #[inline]
    pub fn values<T: Native>(&mut self, column: usize) -> Unfilled<'_, T> {
        if self.columns[column].form != T::FORM.0 {
            wrong_type(&self.columns[column].kind, &T::TYPE);
        }
        self.room(column)
    }

    /// A column of decimal numbers, to be filled with their units. Panics if it is of another type.
    pub fn decimals(&mut self, column: usize) -> Unfilled<'_, i128> {
        if self.columns[column].form != Form::Decimal {
            wrong_type(&self.columns[column].kind, &Type::Decimal { precision: 38, scale: 0 });
        }
        self.room(column)
    }

    /// The places of a column whose values are of this Rust type.
    #[inline]
    fn room<T>(&mut self, column: usize) -> Unfilled<'_, T> {
        let capacity = self.capacity;
        let Filled { form, start, len, .. } = &mut self.columns[column];
        debug_assert_eq!(form.width(), size_of::<T>());
        #[expect(unsafe_code, reason = "a part of the block")]
        // SAFETY: by the invariant of `start`; only the builder has the block, and it is borrowed.
        let values = unsafe { part(&self.block, *start, capacity).as_mut() };
        Unfilled { values, len }
    }

    /// A column of texts, to be filled. Panics if it is of another type.
    pub fn texts(&mut self, column: usize) -> UnfilledText<'_, str> {
        self.strings(column, &Type::Text)
    }

    /// A column of strings of bytes, of any size or of one, to be filled. Panics if it is of another type.
    pub fn binaries(&mut self, column: usize) -> UnfilledText<'_, [u8]> {
        match self.columns[column].kind {
            Type::FixedBinary(bytes) => self.strings(column, &Type::FixedBinary(bytes)),
            _ => self.strings(column, &Type::Binary),
        }
    }

    pub(super) fn strings<S: ?Sized>(&mut self, column: usize, wanted: &Type) -> UnfilledText<'_, S> {
        let capacity = self.capacity;
        let Filled { kind, form, start, len } = &mut self.columns[column];
        if kind != wanted {
            wrong_type(kind, wanted);
        }
        let (form, start) = (*form, *start);
        #[expect(unsafe_code, reason = "parts of the block")]
        // SAFETY: by the invariants of `start` and `text`; they don't overlap, and only the builder has the block, and
        // it is borrowed. The ends are those behind the first one, written when the block was taken.
        let into = unsafe {
            match form {
                Form::Fixed(size) | Form::Limited(size) => {
                    let mut bytes = part(&self.block, start, capacity * size as usize);
                    let is_exact = matches!(form, Form::Fixed(_));
                    Strings::Sized { bytes: bytes.as_mut(), rows: len, most: capacity, size: size as usize, is_exact }
                }
                Form::Views => {
                    let beside = &mut self.beside[column];
                    let mut views = part(&self.block, start, capacity);
                    let mut bytes = part(&self.block, beside.text, beside.text_capacity);
                    let More::Chunks(chunks) = &mut beside.more else { unreachable!("views have chunks") };
                    Strings::Views {
                        views: Unfilled { values: views.as_mut(), len },
                        bytes: Unfilled { values: bytes.as_mut(), len: &mut beside.text_len },
                        chunks,
                    }
                }
                Form::Codes => {
                    let mut codes = part(&self.block, start, capacity);
                    let More::Codes(numbers) = &mut self.beside[column].more else {
                        unreachable!("codes have numbers")
                    };
                    Strings::Codes { codes: Unfilled { values: codes.as_mut(), len }, numbers }
                }
                _ => {
                    let beside = &mut self.beside[column];
                    let mut ends = part(&self.block, start + form.width(), capacity);
                    let mut bytes = part(&self.block, beside.text, beside.text_capacity);
                    Strings::Direct {
                        ends: Unfilled { values: ends.as_mut(), len },
                        bytes: Unfilled { values: bytes.as_mut(), len: &mut beside.text_len },
                    }
                }
            }
        };
        UnfilledText { into, of: PhantomData }
    }

    /// Appends a text to a column, making room for it. Panics if the column is of another type. See
    /// [`EnvelopeBuilder::reserve`].
    pub fn push_text(&mut self, turn: &Turn<'_>, column: usize, text: &str) {
        self.push_string(turn.blocks, column, &Type::Text, text.as_bytes());
    }

    /// Appends a string of bytes, as [`EnvelopeBuilder::push_text`] does.
    pub fn push_binary(&mut self, turn: &Turn<'_>, column: usize, bytes: &[u8]) {
        self.push_string(turn.blocks, column, &Type::Binary, bytes);
    }

    /// Appends a string to a column of this type, making room for it. UTF-8 if it is a text.
    pub(crate) fn push_string(&mut self, blocks: Blocks, column: usize, kind: &Type, bytes: &[u8]) {
        if self.columns[column].len == self.capacity {
            self.reserve_from(blocks, usize::from(self.columns[column].len == self.most_rows()));
        }
        self.reserve_text_from(blocks, column, bytes.len());
        self.strings::<[u8]>(column, kind).push(bytes);
    }

    /// Appends a null to a column. Panics if there is no room, or if the column has no nulls by the schema.
    pub fn push_null(&mut self, column: usize) {
        let len = self.columns[column].len;
        let may = self.beside.get(column).is_some_and(|beside| beside.nullable && !beside.refuses);
        assert!(may, "column {column} has no nulls");
        self.push_anything(column);
        self.make_null(column, len);
    }

    /// Appends some value, which nobody will read.
    pub(super) fn push_anything(&mut self, column: usize) {
        let Filled { kind, form, .. } = self.columns[column].clone();
        by_form!(form,
        T => self.room::<T>(column).push(T::default()),
        match form {
            Form::Decimal => self.room::<i128>(column).push(0),
            Form::Codes => self.room::<u32>(column).push(0),
            Form::Fixed(size) => self.push_raw(column, &vec![0; size as usize]),
            Form::List => self.end_row(column),
            Form::Struct => {
                let blocks = self.blocks;
                let nested = self.nested(column);
                nested.reserve_from(blocks, 1);
                (0..nested.columns.len()).for_each(|part| nested.push_anything(part));
                self.end_row(column);
            }
            _ => self.strings::<[u8]>(column, &kind).push(&[]),
        });
    }

    /// Appends the bytes of a value that is alone in its memory.
    pub(crate) fn push_raw(&mut self, column: usize, bytes: &[u8]) {
        let capacity = self.capacity;
        let Filled { form, start, len, .. } = &mut self.columns[column];
        assert!(form.is_alone() && bytes.len() == form.width() && *len < capacity, "a value and room for it");
        #[expect(unsafe_code, reason = "writes a value's bytes")]
        // SAFETY: by the invariant of `start` there is room for another value.
        unsafe {
            let mut places = part::<u8>(&self.block, *start + *len * form.width(), bytes.len());
            places.as_mut().iter_mut().zip(bytes).for_each(|(place, &byte)| {
                place.write(byte);
            });
        }
        *len += 1;
    }

    /// The builder of a list's values, its column 0, or of a struct's parts. Panics if the column is of another type.
    pub fn nested(&mut self, column: usize) -> &mut EnvelopeBuilder {
        match self.beside.get_mut(column) {
            Some(Beside { more: More::Nested(nested), .. }) => nested,
            _ => wrong_type(&self.columns[column].kind, &Type::list(Type::U8)),
        }
    }

    /// Ends a row of lists, whose values are those appended to the [nested](EnvelopeBuilder::nested) builder since the
    /// last one ended; or a row of structs, with one row more in each part. Panics if there is no room, if a part has
    /// more rows or fewer, or if the column is of another type.
    pub fn end_row(&mut self, column: usize) {
        let capacity = self.capacity;
        let nested = self.nested(column);
        let rows = nested.rows();
        let lengths: Option<usize> = nested.columns.iter().map(|part| part.len).find(|&len| len != rows);
        assert!(lengths.is_none(), "the parts of a row of column {column} differ in length");
        let Filled { form, len, .. } = &mut self.columns[column];
        assert!(*len < capacity, "there is room for {capacity} values, not for {len} and 1 more");
        if *form == Form::Struct {
            let has_parts = !self.beside[column].is_without_parts();
            let len = &mut self.columns[column].len;
            assert!(rows == *len + 1 || !has_parts, "{rows} rows of parts for {len} structs and one more");
            *len += 1;
            return;
        }
        self.end_list_at(column, rows);
    }

    /// Ends a row of lists before this one of the values.
    pub(super) fn end_list_at(&mut self, column: usize, end: usize) {
        let Ok(end) = i32::try_from(end) else { give_up(TOO_MANY_ITEMS) };
        let capacity = self.capacity;
        let Filled { form, start, len, .. } = &mut self.columns[column];
        assert!(form.has_ends() && *len < capacity, "a list and room for it");
        #[expect(unsafe_code, reason = "writes an end")]
        // SAFETY: by the invariant of `start`, there is room for an end behind the first one and the rows'.
        unsafe {
            part::<i32>(&self.block, *start + form.width() * (*len + 1), 1).as_mut()[0].write(end);
        }
        *len += 1;
    }

    /// Writes the end before the first row of a column whose form had none.
    pub(super) fn write_first_end(&mut self, column: usize) {
        let &Filled { form, start, len, .. } = &self.columns[column];
        assert!(form.has_ends() && len == 0 && self.block.is_some(), "a column without rows, and room");
        #[expect(unsafe_code, reason = "writes an end")]
        // SAFETY: there is room for an end more than for codes, in whose place it comes.
        unsafe {
            part::<i32>(&self.block, start, 1).as_mut()[0].write(0);
        }
    }

    /// The codes of a column, to be filled.
    pub(super) fn codes(&mut self, column: usize) -> Unfilled<'_, u32> {
        assert!(self.columns[column].form == Form::Codes);
        self.room(column)
    }

    /// Turns an existing row of a column into a null. Panics if there is no such row, or if the column has no nulls by
    /// the schema.
    pub fn make_null(&mut self, column: usize, row: usize) {
        let len = self.columns[column].len;
        assert!(row < len, "row {row} of {len}");
        let is_nullable = self.beside.get(column).is_some_and(|beside| beside.nullable);
        assert!(is_nullable, "column {column} has no nulls");
        if clear(self.null_bits(column), row) {
            self.beside[column].nulls += 1;
        }
    }

    /// The bits of a column that may have nulls.
    fn null_bits(&mut self, column: usize) -> &mut [u8] {
        let (place, bytes) = (self.beside[column].bits, self.capacity.div_ceil(8));
        #[expect(unsafe_code, reason = "bits that are there")]
        // SAFETY: by the invariant of `bits`; they were filled with ones when the block was taken.
        unsafe {
            &mut *(part::<u8>(&self.block, place, bytes).as_ptr() as *mut [u8])
        }
    }

    /// The rows of a column that are nulls.
    pub(super) fn null_rows(&mut self, column: usize) -> Vec<usize> {
        if self.beside[column].nulls == 0 {
            return Vec::new();
        }
        let len = self.columns[column].len;
        let bits = self.null_bits(column);
        (0..len).filter(|&row| !is_set(bits, row)).collect()
    }

    /// Makes these rows of a column the only nulls, after its values have been written anew.
    pub(super) fn set_nulls(&mut self, column: usize, rows: &[usize]) {
        self.beside[column].nulls = 0;
        if self.beside[column].nullable {
            self.null_bits(column).fill(u8::MAX);
        }
        rows.iter().for_each(|&row| self.make_null(column, row));
    }
}

macro_rules! rooms {
    ($($type:ty, $name:ident;)*) => {$(
        impl EnvelopeBuilder {
            #[doc = concat!("[`EnvelopeBuilder::values`] of `", stringify!($type), "`.")]
            #[inline]
            pub fn $name(&mut self, column: usize) -> Unfilled<'_, $type> {
                self.values(column)
            }
        }
    )*};
}

rooms! {
    bool, bools;
    i8, i8s;
    i16, i16s;
    i32, i32s;
    i64, i64s;
    u8, u8s;
    u16, u16s;
    u32, u32s;
    u64, u64s;
    f32, f32s;
    f64, f64s;
}
