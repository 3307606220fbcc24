//! Allocations that may fail: a vector grows, or reports the bytes it could not get.
//!
//! `Vec` ends the process when an allocation fails. Boxes ask here for large amounts of memory, so only their request
//! fails, with the box's name and the number of bytes.

use crate::{NoMemory, give_up};
use std::alloc::{self, Layout};
use std::collections::VecDeque;
use std::sync::OnceLock;

/// See [`tell_of_asking`].
static TOLD: OnceLock<fn(bool)> = OnceLock::new();

/// Runs an allocation whose failure the caller survives. [`Grow`] uses it for all of its own; other collections need it
/// around theirs.
///
/// A `Vec` or `String` that grows by itself ends the whole process if there is no memory. A box with a need for much
/// reserves before, and only its request fails:
///
/// ```
/// use std::collections::HashMap;
/// use vicus_flow::{BoxError, NoMemory, refusable};
///
/// /// How often each number comes.
/// fn counts(numbers: &[u64]) -> Result<HashMap<u64, usize>, BoxError> {
///     let mut counts: HashMap<u64, usize> = HashMap::new();
///     let bytes = numbers.len() as u64 * 16;
///     refusable(|| counts.try_reserve(numbers.len())).map_err(|_| NoMemory { bytes })?;
///     numbers.iter().for_each(|number| *counts.entry(*number).or_default() += 1); // there is room
///     Ok(counts)
/// }
/// assert_eq!(counts(&[1, 2, 1])?[&1], 2);
/// # Ok::<(), BoxError>(())
/// ```
#[inline]
pub fn refusable<R>(ask: impl FnOnce() -> R) -> R {
    /// Dropped also if the closure panics: otherwise all further allocations of the thread would count as refusable.
    struct Asking(fn(bool));

    impl Drop for Asking {
        fn drop(&mut self) {
            self.0(false);
        }
    }

    let _asking = TOLD.get().map(|told| {
        told(true);
        Asking(*told)
    });
    ask()
}

/// Has `told` called with true when [`refusable`] begins, and with false on the same thread when it ends. For worlds
/// whose allocator ends the process when it can't give a block the program can't do without: it must know the requests
/// that may be refused. Only the first call has an effect.
pub fn tell_of_asking(told: fn(bool)) {
    // An earlier setting stays.
    let _ = TOLD.set(told);
}

/// A collection whose allocations may fail.
///
/// ```
/// use vicus_flow::{BoxError, Grow};
///
/// /// A bit for each of so many rows.
/// fn marks(rows: usize) -> Result<Vec<u64>, BoxError> {
///     Ok(Vec::zeroed(rows.div_ceil(64))?)
/// }
/// let mut names: Vec<String> = Vec::new();
/// names.grow(100)?; // there is room for a hundred more, and pushing them can't fail
/// assert!(marks(usize::MAX / 16).unwrap_err().to_string().ends_with("of memory can't be had"));
/// # Ok::<(), vicus_flow::NoMemory>(())
/// ```
pub trait Grow: Sized {
    /// Its elements.
    type Item;

    /// Makes room for `more` elements, if there is none, and then for as many as there are already: for pushing one by
    /// one.
    ///
    /// # Errors
    /// There is not enough memory.
    fn grow(&mut self, more: usize) -> Result<(), NoMemory>;

    /// Makes room for exactly `more` elements.
    ///
    /// # Errors
    /// There is not enough memory.
    fn grow_exactly(&mut self, more: usize) -> Result<(), NoMemory>;

    /// Like [`Grow::grow`], for code that can't return an error; see [`give_up`].
    #[inline]
    fn grow_or_give_up(&mut self, more: usize) {
        self.grow(more).unwrap_or_else(|error| give_up(error));
    }

    /// An empty one with room for `count` elements.
    ///
    /// # Errors
    /// There is not enough memory.
    fn with_room(count: usize) -> Result<Self, NoMemory>
    where
        Self: Default,
    {
        let mut new = Self::default();
        new.grow_exactly(count)?;
        Ok(new)
    }

    /// `count` zeros. The system gives zeroed memory faster than it could be written.
    ///
    /// # Errors
    /// There is not enough memory.
    fn zeroed(count: usize) -> Result<Vec<Self::Item>, NoMemory>
    where
        Self::Item: Plain,
    {
        let refused = || NoMemory { bytes: bytes_of::<Self::Item>(count) };
        let layout = Layout::array::<Self::Item>(count).map_err(|_| refused())?;
        if layout.size() == 0 {
            return Ok(Vec::new());
        }
        #[expect(unsafe_code, reason = "a vector of fresh zeros, which has no safe way to be refused")]
        // SAFETY: the layout has a size; the memory is a vector's, with `count` values of zero, allowed by `Plain`.
        unsafe {
            let at = refusable(|| alloc::alloc_zeroed(layout)).cast::<Self::Item>();
            if at.is_null() { Err(refused()) } else { Ok(Vec::from_raw_parts(at, count, count)) }
        }
    }

    /// `count` values with all bits 1. The system's `memset` writes them faster than a loop over values.
    ///
    /// # Errors
    /// There is not enough memory.
    #[inline]
    fn ones(count: usize) -> Result<Vec<Self::Item>, NoMemory>
    where
        Self::Item: Plain,
    {
        let mut new: Vec<Self::Item> = Vec::with_room(count)?;
        #[expect(unsafe_code, reason = "bytes become values")]
        // SAFETY: the vector is empty and has room for this number of values, and `Plain` allows any bits.
        unsafe {
            new.as_mut_ptr().write_bytes(u8::MAX, count);
            new.set_len(count);
        }
        Ok(new)
    }

    /// A copy of these values.
    ///
    /// # Errors
    /// There is not enough memory.
    fn copied(values: &[Self::Item]) -> Result<Vec<Self::Item>, NoMemory>
    where
        Self::Item: Copy,
    {
        let mut new = Vec::with_room(values.len())?;
        new.extend_from_slice(values);
        Ok(new)
    }
}

/// A number, or an array of numbers.
///
/// # Safety
/// Any bits are a value.
#[expect(unsafe_code, reason = "memory of zeros or of ones becomes values")]
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty)*) => {$(
        #[expect(unsafe_code, reason = "memory of zeros or of ones becomes values")]
        // SAFETY: a number's bits may be anything.
        unsafe impl Plain for $type {}
    )*};
}

plain! { u8 u16 u32 u64 usize i32 i64 f64 }

#[expect(unsafe_code, reason = "memory of zeros or of ones becomes values")]
// SAFETY: an array is its values, one after the other.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// The bytes of `count` values.
fn bytes_of<T>(count: usize) -> u64 {
    (count as u64).saturating_mul(size_of::<T>() as u64)
}

/// The error of a collection of `len` values that grows by as many.
fn grown_bytes<T>(len: usize, more: usize) -> NoMemory {
    NoMemory { bytes: bytes_of::<T>(len.saturating_add(more)) }
}

macro_rules! grow {
    ($type:ident) => {
        impl<T> Grow for $type<T> {
            type Item = T;

            #[inline]
            fn grow(&mut self, more: usize) -> Result<(), NoMemory> {
                #[cold]
                #[inline(never)]
                fn grow_now<T>(grown: &mut $type<T>, more: usize) -> Result<(), NoMemory> {
                    let len = grown.len();
                    // If there is no memory for twice the size, there may be enough for `more`.
                    refusable(|| grown.try_reserve(more).or_else(|_| grown.try_reserve_exact(more)))
                        .map_err(|_| grown_bytes::<T>(len, more))
                }
                // Called for every row, and there nearly always is room.
                if self.capacity() - self.len() >= more { Ok(()) } else { grow_now(self, more) }
            }

            fn grow_exactly(&mut self, more: usize) -> Result<(), NoMemory> {
                let len = self.len();
                refusable(|| self.try_reserve_exact(more)).map_err(|_| grown_bytes::<T>(len, more))
            }
        }
    };
}

grow!(Vec);
grow!(VecDeque);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_says_how_many_bytes() {
        let mut values = vec![1u64; 3];
        let error = values.grow(1 << 58).unwrap_err();
        assert_eq!(error, NoMemory { bytes: 8 * ((1 << 58) + 3) });
        assert_eq!(values, [1; 3], "what was there is there");
        assert_eq!(Vec::<u64>::zeroed(1 << 61), Err(NoMemory { bytes: u64::MAX }));
        assert_eq!(Vec::<u64>::ones(1 << 59), Err(NoMemory { bytes: 1 << 62 }));
        assert_eq!(NoMemory { bytes: 128 << 20 }.to_string(), "128.0 MiB of memory can't be had");
    }

    #[test]
    fn what_is_there_is_as_wanted() {
        assert_eq!(Vec::<u32>::zeroed(1000).unwrap(), [0; 1000]);
        assert!(Vec::<u64>::zeroed(0).unwrap().is_empty());
        assert_eq!(Vec::<[u64; 2]>::ones(3).unwrap(), [[u64::MAX; 2]; 3]);
        assert!(Vec::<u64>::ones(0).unwrap().is_empty());
        let mut queue = VecDeque::with_room(10).unwrap();
        let before = queue.capacity();
        (0..10).for_each(|n| queue.push_back(n));
        assert!(before >= 10 && queue.capacity() == before);
    }
}
