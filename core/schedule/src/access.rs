//! A task's description of its data: the bytes it reads and writes. The order of tasks and their places follow from it.

use std::fmt;

/// A task's use of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Reads them.
    Read,
    /// Writes all of them without reading any.
    Write,
    /// Reads and writes them.
    ReadWrite,
    /// Reads and writes the bytes at the same time as the neighbouring tasks with this mode for them: these tasks keep
    /// themselves from disturbing each other. All other tasks are ordered as by a write (`concurrent` of OmpSs,
    /// `inoutset` of OpenMP).
    Concurrent,
    /// Reads and writes the bytes in any order among the neighbouring tasks with this mode for the same bytes, but
    /// never two at once. All other tasks are ordered as by a write (`commutative` of OmpSs, `mutexinoutset` of
    /// OpenMP).
    Commutative,
}

impl Mode {
    /// Whether it writes.
    pub const fn writes(self) -> bool {
        !matches!(self, Mode::Read)
    }
}

/// The bytes a task reads or writes: `rows` stretches of `bytes` each, `stride` bytes from one's start to the next
/// one's.
///
/// ```
/// use vicus_schedule::{Access, Mode};
/// // A block of 2 rows of 16 bytes of a matrix whose rows have 64.
/// let block = Access::new(0x1000, 16, Mode::Read).rows(2, 64);
/// assert_eq!(block.total_bytes(), 32);
/// assert_eq!(block.stretches().collect::<Vec<_>>(), [0x1000..0x1010, 0x1040..0x1050]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access {
    /// The first address, or a number in a world without memory.
    pub start: usize,
    /// How long a stretch is, in bytes.
    pub bytes: usize,
    /// How many stretches there are; 1 for plain ranges.
    pub rows: usize,
    /// From the start of one stretch to the next, in bytes. Invariant: not less than `bytes`, if there are several.
    pub stride: usize,
    /// Read, written, or both.
    pub mode: Mode,
    /// Whether the task uses this datum so intensely that it alone decides the task's place (Muddukrishna et al.,
    /// algorithm 3).
    pub intense: bool,
    /// Whether it is written past the caches, by non-temporal stores.
    pub streams: bool,
    /// Whether `bytes` is a guess that may be too long. Then the first bytes alone say where all of them lie
    /// ([`Access::sure`]).
    pub guessed: bool,
    /// How many times each byte is stored, if the access writes. This matters if the caches of a core pass each store
    /// on.
    pub stores: u32,
}

impl Access {
    /// One stretch.
    pub const fn new(start: usize, bytes: usize, mode: Mode) -> Access {
        Access { start, bytes, rows: 1, stride: bytes, mode, intense: false, streams: false, guessed: false, stores: 1 }
    }

    /// The bytes of a slice.
    pub fn of<T>(slice: &[T], mode: Mode) -> Access {
        Access::new(slice.as_ptr().addr(), size_of_val(slice), mode)
    }

    /// `rows` stretches, `stride` bytes apart.
    pub const fn rows(mut self, rows: usize, stride: usize) -> Access {
        (self.rows, self.stride) = (rows, stride);
        self
    }

    /// Marks the access as the datum that decides the task's place.
    pub const fn intense(mut self) -> Access {
        self.intense = true;
        self
    }

    /// Written by non-temporal stores.
    pub const fn streaming(mut self) -> Access {
        self.streams = true;
        self
    }

    /// Marks the length as a guess.
    pub const fn guessed(mut self) -> Access {
        self.guessed = true;
        self
    }

    /// Says how many times each of its bytes is stored.
    pub const fn stored(mut self, times: u32) -> Access {
        self.stores = times;
        self
    }

    /// How many of the first bytes of a guessed length the task is taken to use for sure: some pages, since the first
    /// one may hold an allocator's header, and then lies where that was written.
    const SURE: usize = 32 << 10;

    /// The part that the task uses for sure: all of it, or the first bytes of a guessed length.
    ///
    /// ```
    /// use vicus_schedule::{Access, Mode};
    /// let access = Access::new(0x1000, 8 << 20, Mode::Read);
    /// assert_eq!(access.sure().total_bytes(), 8 << 20);
    /// assert_eq!(access.guessed().sure().total_bytes(), 32 << 10);
    /// ```
    pub const fn sure(&self) -> Access {
        let mut sure = *self;
        if self.guessed {
            sure.rows = if self.rows < 1 { self.rows } else { 1 };
            sure.bytes = if self.bytes < Access::SURE { self.bytes } else { Access::SURE };
        }
        sure
    }

    /// How many bytes it is; at most `usize::MAX`.
    pub const fn total_bytes(&self) -> usize {
        self.bytes.saturating_mul(self.rows)
    }

    /// Its stretches, as ranges of addresses. Parts behind the last address are left out.
    pub fn stretches(&self) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
        let Access { start, bytes, stride, .. } = *self;
        (0..self.rows).map(move |row| {
            let start = start.saturating_add(row.saturating_mul(stride));
            start..start.saturating_add(bytes)
        })
    }
}

impl Access {
    /// Whether the access has the length of data: one of a few bytes only says an order, and one of a tebibyte or more
    /// stands for all memory.
    pub(crate) const fn has_data(&self) -> bool {
        self.total_bytes() >= 64 && self.total_bytes() < 1 << 40
    }
}

/// How many bytes of data some accesses are ([`Access::has_data`]).
pub(crate) fn data_bytes(accesses: &[Access]) -> u64 {
    total_bytes(accesses.iter().filter(|access| access.has_data()))
}

/// How many bytes some accesses are; at most `u64::MAX`.
pub(crate) fn total_bytes<'a>(accesses: impl IntoIterator<Item = &'a Access>) -> u64 {
    accesses.into_iter().map(|access| access.total_bytes() as u64).fold(0, u64::saturating_add)
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:#x}+{}", self.mode, self.start, self.bytes)?;
        if self.rows > 1 {
            write!(f, " x {} every {}", self.rows, self.stride)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The addition overflowed once.
    #[test]
    fn stretches_end_with_the_last_address() {
        let plain = Access::new(usize::MAX - 5, 100, Mode::Read);
        assert!(plain.stretches().eq(std::iter::once(usize::MAX - 5..usize::MAX)));
        let rows = plain.rows(3, usize::MAX / 2);
        let stretches: Vec<_> = rows.stretches().collect();
        let end = usize::MAX..usize::MAX;
        assert_eq!(stretches, [usize::MAX - 5..usize::MAX, end.clone(), end]);
        assert_eq!(Access::new(0, usize::MAX / 2, Mode::Read).rows(3, usize::MAX / 2).total_bytes(), usize::MAX);
    }
}
