//! Room for values: the unfilled part of a block, or of a vector.

use crate::Grow;
use crate::column::TOO_MUCH_TEXT;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// A column being filled, up to its room. Appending more panics.
#[derive(Debug)]
pub struct Room<'a, T> {
    /// Invariant: the first `len` of them have a value.
    pub(crate) values: &'a mut [MaybeUninit<T>],
    pub(crate) len: &'a mut usize,
}

impl<T: Copy> Room<'_, T> {
    /// Appends exactly `more` values to a vector through a room.
    pub fn of(vector: &mut Vec<T>, more: usize, fill: impl FnOnce(&mut Room<'_, T>)) {
        vector.grow_or_give_up(more);
        let mut len = 0;
        fill(&mut Room { values: &mut vector.spare_capacity_mut()[..more], len: &mut len });
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

/// A column of texts (`str`) or strings of bytes (`[u8]`) being filled, up to its room for rows and for bytes.
/// Appending more panics.
#[derive(Debug)]
pub struct TextRoom<'a, S: ?Sized> {
    /// One before the first row, and one for each. Invariant: the first one and as many as there are rows are written.
    pub(crate) ends: Room<'a, i32>,
    pub(crate) bytes: Room<'a, u8>,
    pub(crate) of: PhantomData<S>,
}

impl<S: AsRef<[u8]> + ?Sized> TextRoom<'_, S> {
    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Appends one.
    #[inline]
    pub fn push(&mut self, text: &S) {
        self.push_bytes(text.as_ref());
    }

    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        let end = self.bytes.len() + bytes.len();
        // If it panics for lack of room, it has not written a part of the string.
        assert!(self.ends.has_room(), "there is room for {} texts", self.ends.len());
        self.bytes.extend_from_slice(bytes);
        self.ends.push(i32::try_from(end).expect(TOO_MUCH_TEXT));
    }

    /// Appends all of these.
    pub fn extend<'t>(&mut self, texts: impl IntoIterator<Item = &'t S>)
    where
        S: 't,
    {
        texts.into_iter().for_each(|text| self.push(text));
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
            Room::of(&mut vector, 5, |room| {
                room.extend(Liar(has));
                room.filled()[0] = 1;
            });
        }
        assert_eq!(vector, [8, 1, 9, 9, 1, 9, 9, 9, 9]);
    }
}
