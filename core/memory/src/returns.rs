//! Blocks that come back to their owner: any thread pushes one block, and the owner takes them all.
//!
//! A stack without single pops: the owner swaps the whole list out, so no block can come back in between, and there is
//! no ABA. For owners that hand out blocks of one size themselves; [`Heap`](crate::Heap)s send whole batches in
//! mailboxes, which keep the order.

use crate::sync::{AtomicPtr, Ordering};
use std::ptr;

/// The first bytes of a free block.
#[derive(Debug)]
#[repr(C)]
pub struct FreeBlock {
    /// The next block of its list, or null.
    pub next: *mut FreeBlock,
}

/// Free blocks on their way to their owner.
///
/// ```
/// use std::ptr;
/// use vicus_memory::{FreeBlock, Returns};
///
/// let returns = Returns::new();
/// let mut block = FreeBlock { next: ptr::null_mut() };
/// // SAFETY: the block is used by no one else, and outlives the list.
/// assert!(unsafe { returns.push(&raw mut block) });
/// assert_eq!(returns.take(), &raw mut block);
/// assert!(returns.close().is_null());
/// // SAFETY: as above.
/// assert!(!unsafe { returns.push(&raw mut block) }, "its owner has ended");
/// ```
#[derive(Debug)]
pub struct Returns {
    first: AtomicPtr<FreeBlock>,
}

/// In place of a list whose owner has ended.
const CLOSED: *mut FreeBlock = ptr::without_provenance_mut(1);

impl Default for Returns {
    fn default() -> Returns {
        Returns::new()
    }
}

impl Returns {
    /// An empty list.
    #[must_use]
    pub fn new() -> Returns {
        Returns { first: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Gives a closed list to a new owner, empty.
    pub fn reopen(&self) {
        self.first.store(ptr::null_mut(), Ordering::Release);
    }

    /// Puts a block in front. False if the list is closed; then the block stays the caller's.
    ///
    /// # Safety
    /// The block is the caller's alone, at least as large as a [`FreeBlock`] and aligned for it, and stays valid until
    /// the owner has taken it.
    #[inline]
    #[expect(unsafe_code, reason = "a free block begins with its link")]
    pub unsafe fn push(&self, block: *mut FreeBlock) -> bool {
        let mut first = self.first.load(Ordering::Relaxed);
        loop {
            if first == CLOSED {
                return false;
            }
            // SAFETY: the block is the caller's alone until the exchange below.
            unsafe { block.write(FreeBlock { next: first }) };
            // Release: the owner sees what was written to the block.
            match self.first.compare_exchange_weak(first, block, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => first = other,
            }
        }
    }

    /// Takes all blocks: the last one pushed, linked to the one before it and so on; null if there are none. Only the
    /// owner calls it.
    #[inline]
    pub fn take(&self) -> *mut FreeBlock {
        self.first.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Takes all blocks, and has later ones refused. Only the owner calls it, once.
    pub fn close(&self) -> *mut FreeBlock {
        self.first.swap(CLOSED, Ordering::Acquire)
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::{AtomicU32, UnsafeCell};
    use loom::sync::Arc;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// A block with data, which loom watches.
    #[repr(C)]
    struct Block {
        free: FreeBlock,
        data: UnsafeCell<u32>,
    }

    /// How many blocks a list has. Frees them.
    fn count(mut first: *mut FreeBlock) -> u32 {
        let mut sum = 0;
        while !first.is_null() {
            // SAFETY: the owner has the whole list, and its blocks are boxes of the threads.
            let block = unsafe { Box::from_raw(first.cast::<Block>()) };
            // SAFETY: loom tells if another thread uses it.
            assert_ne!(block.data.with(|data| unsafe { *data }), 0, "it is seen as it was pushed");
            first = block.free.next;
            sum += 1;
        }
        sum
    }

    /// Two threads push a block each; the owner takes blocks, and closes the list. `is_heard` is false in the broken
    /// variant: a thread does not look whether its block was refused.
    fn returned(is_heard: bool) {
        let returns = Arc::new(Returns::new());
        let refused = Arc::new(AtomicU32::new(0));
        let threads: Vec<_> = (1..=2)
            .map(|number| {
                let (returns, refused) = (Arc::clone(&returns), Arc::clone(&refused));
                loom::thread::spawn(move || {
                    let free = FreeBlock { next: ptr::null_mut() };
                    let block = Box::new(Block { free, data: UnsafeCell::new(0) });
                    // SAFETY: the block is this thread's alone.
                    block.data.with_mut(|data| unsafe { *data = number });
                    let block = Box::into_raw(block);
                    // SAFETY: as above, and it begins with its link.
                    if !unsafe { returns.push(block.cast()) } {
                        // SAFETY: it is in no list.
                        drop(unsafe { Box::from_raw(block) });
                        refused.fetch_add(u32::from(is_heard), Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let taken = count(returns.take()) + count(returns.close());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(taken + refused.load(Ordering::Relaxed), 2, "each block has one owner");
    }

    #[test]
    fn loom_a_block_that_another_thread_frees_has_one_owner() {
        loom::model(|| returned(true));
    }

    #[test]
    fn loom_a_refused_block_that_is_lost_is_found() {
        assert!(catch_unwind(AssertUnwindSafe(|| loom::model(|| returned(false)))).is_err());
    }
}
