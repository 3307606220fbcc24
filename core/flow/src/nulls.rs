//! The rows of a column without a value: a bit for each row, in Arrow's format, 0 for a null.

use crate::block::Block;
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes in a shared block.
#[derive(Clone)]
pub(crate) struct Bytes {
    at: NonNull<u8>,
    len: usize,
    pub(crate) block: Arc<Block>,
}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: the pointer is into the block, shared by an `Arc`; any thread may read the bytes.
unsafe impl Send for Bytes {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as above; `&self` gives `&[u8]` alone.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// # Safety
    /// `len` bytes lie there in the block, and are not written to while this value lives.
    #[expect(unsafe_code, reason = "the caller promises what lies there")]
    pub(crate) unsafe fn new(at: NonNull<u8>, len: usize, block: Arc<Block>) -> Bytes {
        Bytes { at, len, block }
    }

    pub(crate) fn get(&self) -> &[u8] {
        #[expect(unsafe_code, reason = "the bytes lie in raw memory")]
        // SAFETY: the bytes live as long as the block, and are not written to, by `new`'s contract.
        unsafe {
            NonNull::slice_from_raw_parts(self.at, self.len).as_ref()
        }
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

impl From<Vec<u8>> for Bytes {
    /// Takes the vector's memory.
    fn from(bytes: Vec<u8>) -> Bytes {
        let len = bytes.len();
        let block = Block::of_vec(bytes);
        #[expect(unsafe_code, reason = "a vector's memory")]
        // SAFETY: the vector's bytes lie at the block's beginning, and the block has no other owner.
        unsafe {
            Bytes::new(block.at(), len, Arc::new(block))
        }
    }
}

/// The nulls of a column: at least one row is one.
#[derive(Clone)]
pub(crate) struct Nulls {
    pub(crate) bits: Bytes,
    /// The bit of the first row.
    pub(crate) first: usize,
    pub(crate) rows: usize,
    /// Invariant: the number of 0 bits among the rows' bits, and it is not 0.
    pub(crate) count: usize,
}

impl Nulls {
    /// The nulls among `rows` rows, or `None` if there are none.
    pub(crate) fn among(bits: Bytes, first: usize, rows: usize) -> Option<Nulls> {
        let count = (first..first + rows).filter(|&bit| !is_set(bits.get(), bit)).count();
        (count > 0).then_some(Nulls { bits, first, rows, count })
    }

    #[inline]
    pub(crate) fn has(&self, row: usize) -> bool {
        debug_assert!(row < self.rows);
        !is_set(self.bits.get(), self.first + row)
    }

    /// The nulls among some of the rows.
    pub(crate) fn slice(&self, from: usize, rows: usize) -> Option<Nulls> {
        Nulls::among(self.bits.clone(), self.first + from, rows)
    }

    /// The bytes of the bits.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.div_ceil(8)
    }
}

#[inline]
pub(crate) fn is_set(bits: &[u8], bit: usize) -> bool {
    bits[bit / 8] & (1 << (bit % 8)) != 0
}

/// Makes a row a null. Whether it was none before.
pub(crate) fn clear(bits: &mut [u8], row: usize) -> bool {
    let was_set = is_set(bits, row);
    bits[row / 8] &= !(1 << (row % 8));
    was_set
}
