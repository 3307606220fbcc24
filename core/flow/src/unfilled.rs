//! Room for values: the unfilled part of a block, or of a vector.

use crate::builder::Chunks;
use crate::column::{MOST_TEXT, View};
use crate::store::Unified;
use crate::types::PADDING;
use crate::{Grow, give_up};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// A column being filled, up to its room. Appending more panics.
#[derive(Debug)]
pub struct Unfilled<'a, T> {
    /// Invariant: the first `len` of them have a value.
    pub(crate) values: &'a mut [MaybeUninit<T>],
    pub(crate) len: &'a mut usize,
}

impl<T: Copy> Unfilled<'_, T> {
    /// Appends exactly `more` values to a vector through a room.
    pub fn of(vector: &mut Vec<T>, more: usize, fill: impl FnOnce(&mut Unfilled<'_, T>)) {
        vector.grow_or_give_up(more);
        let mut len = 0;
        fill(&mut Unfilled { values: &mut vector.spare_capacity_mut()[..more], len: &mut len });
        #[expect(unsafe_code, reason = "the vector has what was written behind it")]
        // SAFETY: a room counts the written values.
        unsafe {
            vector.set_len(vector.len() + len);
        }
    }

    fn has_room(&self) -> bool {
        *self.len < self.values.len()
    }

    /// How many values are written.
    pub fn len(&self) -> usize {
        *self.len
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        *self.len == 0
    }

    /// The written values.
    pub fn filled(&mut self) -> &mut [T] {
        let filled = &mut self.values[..*self.len];
        #[expect(unsafe_code, reason = "values that are there")]
        // SAFETY: they are written, by the invariant; the memory's owner is borrowed.
        unsafe {
            &mut *(std::ptr::from_mut(filled) as *mut [T])
        }
    }

    /// The unwritten places.
    #[inline]
    fn rest(&mut self) -> &mut [MaybeUninit<T>] {
        &mut self.values[*self.len..]
    }

    /// Appends a value.
    #[inline]
    pub fn push(&mut self, value: T) {
        match self.rest() {
            [place, ..] => place.write(value),
            [] => self.is_full(1),
        };
        *self.len += 1;
    }

    /// Appends all of these.
    #[inline]
    pub fn extend_from_slice(&mut self, values: &[T]) {
        let Some(places) = self.rest().get_mut(..values.len()) else { self.is_full(values.len()) };
        #[expect(unsafe_code, reason = "`MaybeUninit::write_copy_of_slice`, which older compilers don't have")]
        // SAFETY: this number of places is there, and they are borrowed for writing, so the values are elsewhere.
        unsafe {
            places.as_mut_ptr().cast::<T>().copy_from_nonoverlapping(values.as_ptr(), values.len());
        }
        *self.len += values.len();
    }

    /// Appends the items of an iterator.
    #[inline]
    pub fn extend(&mut self, values: impl IntoIterator<Item = T>) {
        let values = values.into_iter();
        let rest = self.rest();
        if values.size_hint().1.is_none_or(|most| most > rest.len()) {
            return values.for_each(|value| self.push(value));
        }
        let mut written = 0;
        for (place, value) in rest.iter_mut().zip(values) {
            place.write(value);
            written += 1;
        }
        *self.len += written;
    }

    /// Appends a value `count` times.
    #[inline]
    pub fn repeat(&mut self, value: T, count: usize) {
        match self.rest().get_mut(..count) {
            Some(places) => places.fill(MaybeUninit::new(value)),
            None => self.is_full(count),
        }
        *self.len += count;
    }

    #[cold]
    fn is_full(&self, more: usize) -> ! {
        panic!("there is room for {} values, not for {} and {more} more", self.values.len(), self.len)
    }
}

/// A column of texts (`str`) or strings of bytes (`[u8]`) being filled, in any storage, up to its room for rows and for
/// bytes. Appending more panics.
#[derive(Debug)]
pub struct UnfilledText<'a, S: ?Sized> {
    pub(crate) into: Strings<'a>,
    pub(crate) of: PhantomData<S>,
}

/// The rooms of each storage.
#[derive(Debug)]
pub(crate) enum Strings<'a> {
    /// The end of each row behind the first end. Invariant: the first one and as many as there are rows are written.
    Direct {
        ends: Unfilled<'a, i32>,
        bytes: Unfilled<'a, u8>,
    },
    Views {
        views: Unfilled<'a, View>,
        bytes: Unfilled<'a, u8>,
        chunks: &'a mut Chunks,
    },
    /// Invariant: the first `rows` times `size` bytes are written, and there is room for `most` rows.
    Sized {
        bytes: &'a mut [MaybeUninit<u8>],
        rows: &'a mut usize,
        most: usize,
        size: usize,
        is_exact: bool,
    },
    Codes {
        codes: Unfilled<'a, u32>,
        numbers: &'a mut Unified,
    },
}

impl<S: AsRef<[u8]> + ?Sized> UnfilledText<'_, S> {
    /// How many rows it has.
    pub fn len(&self) -> usize {
        match &self.into {
            Strings::Direct { ends, .. } => ends.len(),
            Strings::Views { views, .. } => views.len(),
            Strings::Sized { rows, .. } => **rows,
            Strings::Codes { codes, .. } => codes.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends one. A value that is too long for a column of limited size fails by [`give_up`]; one that is not exactly
    /// as long as those of a column of fixed size panics.
    #[inline]
    pub fn push(&mut self, text: &S) {
        let value = text.as_ref();
        match &mut self.into {
            Strings::Direct { ends, bytes } => {
                let end = bytes.len() + value.len();
                // If it panics for lack of room, it has not written a part of the string.
                assert!(ends.has_room(), "there is room for {} texts", ends.len());
                bytes.extend_from_slice(value);
                debug_assert!(end <= MOST_TEXT);
                ends.push(end as i32);
            }
            others => others.push(value),
        }
    }

    /// Appends some value, which nobody will read.
    pub(crate) fn push_nothing(&mut self) {
        match &mut self.into {
            Strings::Sized { is_exact: true, size, .. } => {
                let nothing = vec![0; *size];
                self.into.push(&nothing);
            }
            Strings::Codes { codes, .. } => codes.push(0),
            Strings::Direct { ends, bytes } => ends.push(bytes.len() as i32),
            others => others.push(&[]),
        }
    }

    /// Appends all of these.
    pub fn extend<'t>(&mut self, texts: impl IntoIterator<Item = &'t S>)
    where
        S: 't,
    {
        texts.into_iter().for_each(|text| self.push(text));
    }
}

impl Strings<'_> {
    /// Appends a value that is not stored directly.
    #[inline(never)]
    fn push(&mut self, value: &[u8]) {
        match self {
            Strings::Direct { .. } => unreachable!("`UnfilledText::push` does it"),
            Strings::Views { views, bytes, chunks } => {
                assert!(views.has_room(), "there is room for {} texts", views.len());
                views.push(match View::short(value) {
                    Some(view) => view,
                    None if value.len() <= bytes.rest().len() => {
                        let at = bytes.len();
                        bytes.extend_from_slice(value);
                        View::long(value, 0, at)
                    }
                    None => chunks.push(value),
                });
            }
            Strings::Sized { bytes, rows, most, size, is_exact } => {
                assert!(**rows < *most, "there is room for {most} texts");
                if *is_exact {
                    assert!(value.len() == *size, "a string of {} bytes where each has {size}", value.len());
                } else if value.len() > *size {
                    give_up(format!("a text of {} bytes where each has at most {size}", value.len()));
                }
                let place = &mut bytes[**rows * *size..][..*size];
                place.iter_mut().zip(value).for_each(|(place, &byte)| {
                    place.write(byte);
                });
                place[value.len()..].fill(MaybeUninit::new(PADDING));
                **rows += 1;
            }
            Strings::Codes { codes, numbers } => codes.push(numbers.number(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An iterator with fewer items than it says.
    #[test]
    fn a_room_has_what_was_written() {
        struct Liar(usize);
        impl Iterator for Liar {
            type Item = u64;

            fn next(&mut self) -> Option<u64> {
                self.0 = self.0.checked_sub(1)?;
                Some(9)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                (5, Some(5))
            }
        }
        let mut vector = vec![8u64];
        for has in [3, 7] {
            Unfilled::of(&mut vector, 5, |room| {
                room.extend(Liar(has));
                room.filled()[0] = 1;
            });
        }
        assert_eq!(vector, [8, 1, 9, 9, 1, 9, 9, 9, 9]);
    }
}
