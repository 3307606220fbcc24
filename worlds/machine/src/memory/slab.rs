//! Blocks for tasks: each seat has its own, and gets them back.

use crate::sync::Padded;
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use vicus_memory::{FreeBlock, Returns};
use vicus_schedule::SeatId;

/// How many bytes of a block a task may use: a header and a closure of some words.
pub(crate) const BLOCK_BYTES: usize = 120;
/// Its alignment.
pub(crate) const BLOCK_ALIGN: usize = align_of::<Block>();

/// Two cache lines.
#[repr(C, align(64))]
pub(crate) struct Block {
    bytes: [u8; BLOCK_BYTES],
    /// The seat owning the block.
    home: u32,
}

/// How many blocks are made at once.
const CHUNK: usize = 64;

/// All seats' shared state of their blocks.
pub(crate) struct Blocks {
    /// All chunks.
    chunks: Mutex<Vec<Box<[Block]>>>,
    /// By seat: its blocks freed by others.
    mail: Vec<Padded<Returns>>,
}

#[expect(unsafe_code, reason = "it has pointers")]
// SAFETY: free blocks are not used; a seat takes its mail as a whole.
unsafe impl Send for Blocks {}

#[expect(unsafe_code, reason = "it has pointers")]
// SAFETY: as above.
unsafe impl Sync for Blocks {}

impl Blocks {
    pub(crate) fn new(seats: usize) -> Blocks {
        let mail = (0..seats).map(|_| Padded(Returns::new())).collect();
        Blocks { chunks: Mutex::new(Vec::new()), mail }
    }

    #[cold]
    fn new_chunk(&self, home: SeatId) -> *mut FreeBlock {
        let home = home.index() as u32;
        let mut chunk: Box<[Block]> = (0..CHUNK).map(|_| Block { bytes: [0; BLOCK_BYTES], home }).collect();
        let mut first: *mut FreeBlock = ptr::null_mut();
        let start = chunk.as_mut_ptr();
        self.chunks.lock().expect("nothing panics under this lock").push(chunk);
        for at in 0..CHUNK {
            #[expect(unsafe_code, reason = "links the blocks")]
            // SAFETY: inside the chunk, which stays at its address; a block is larger than a link and aligned for it.
            unsafe {
                let block: *mut FreeBlock = start.add(at).cast();
                block.write(FreeBlock { next: first });
                first = block;
            }
        }
        first
    }
}

/// A seat's free blocks.
pub(crate) struct Slab {
    free: *mut FreeBlock,
    seat: SeatId,
}

impl Slab {
    pub(crate) fn new(seat: SeatId) -> Slab {
        Slab { free: ptr::null_mut(), seat }
    }

    /// A block: a free one of this seat's, one returned by others, or a new one.
    #[inline]
    pub(crate) fn take(&mut self, blocks: &Blocks) -> NonNull<Block> {
        if self.free.is_null() {
            self.fill(blocks);
        }
        #[expect(unsafe_code, reason = "takes a block off the list")]
        // SAFETY: `fill` left one; a free block begins with its link.
        unsafe {
            let block = self.free;
            self.free = (*block).next;
            NonNull::new_unchecked(block.cast())
        }
    }

    #[cold]
    #[inline(never)]
    fn fill(&mut self, blocks: &Blocks) {
        self.free = blocks.mail[self.seat.index()].0.take();
        if self.free.is_null() {
            self.free = blocks.new_chunk(self.seat);
        }
    }

    /// Gives a block back to its owner's seat.
    ///
    /// # Safety
    /// It is from a [`Slab::take`] with the same `blocks`, and is not used after this call.
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub(crate) unsafe fn give(&mut self, blocks: &Blocks, block: NonNull<Block>) {
        // SAFETY: the caller's promise; `home` is never overwritten.
        let home = unsafe { (*block.as_ptr()).home };
        let free: *mut FreeBlock = block.as_ptr().cast();
        if home == self.seat.index() as u32 {
            // SAFETY: a block is larger than a link and aligned for it.
            unsafe { free.write(FreeBlock { next: self.free }) };
            self.free = free;
            return;
        }
        // SAFETY: as above; chunks stay as long as the lists, which are never closed.
        let is_taken = unsafe { blocks.mail[home as usize].0.push(free) };
        debug_assert!(is_taken, "a seat's list is never closed");
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_block_goes_home_from_any_seat() {
        let blocks = Blocks::new(2);
        let (mut own, mut other) = (Slab::new(SeatId::new(0)), Slab::new(SeatId::new(1)));
        let taken: Vec<_> = (0..3 * CHUNK).map(|_| own.take(&blocks)).collect();
        for (number, block) in taken.iter().enumerate() {
            let slab = if number % 2 == 0 { &mut own } else { &mut other };
            #[expect(unsafe_code, reason = "frees a block")]
            // SAFETY: taken above, and not used.
            unsafe {
                slab.give(&blocks, *block);
            }
        }
        let mut again: Vec<_> = (0..3 * CHUNK).map(|_| own.take(&blocks)).collect();
        let mut taken = taken;
        taken.sort_unstable();
        again.sort_unstable();
        assert_eq!(taken, again, "no block is lost, and none is new");
        assert_eq!(blocks.chunks.lock().unwrap().len(), 3);
    }
}
