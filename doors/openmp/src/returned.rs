//! Memory that other threads give back to a thread.

use super::atomics::{AtomicPtr, Ordering};
use std::ptr;

/// A free block.
#[repr(C)]
pub(crate) struct Free {
    pub(crate) next: *mut Free,
}

/// A list of free blocks for each of three sizes. Other threads push single blocks; the owner takes the whole list.
#[repr(align(128))]
pub(crate) struct Returned {
    first: [AtomicPtr<Free>; 3],
}

/// Instead of a list, when the thread has ended.
const ENDED: *mut Free = ptr::without_provenance_mut(1);

impl Returned {
    pub(crate) fn new() -> Returned {
        Returned { first: [0; 3].map(|_| AtomicPtr::new(ptr::null_mut())) }
    }

    /// The lists have a new owner. Blocks made by the last one may return to this one.
    pub(crate) fn begin(&self) {
        self.first.iter().for_each(|first| first.store(ptr::null_mut(), Ordering::Release));
    }

    /// Puts a block into a list. `false` if its thread has ended.
    ///
    /// # Safety
    /// The block is the caller's alone, and as large as a [`Free`].
    pub(crate) unsafe fn push(&self, class: usize, block: *mut Free) -> bool {
        let mut first = self.first[class].load(Ordering::Relaxed);
        loop {
            if first == ENDED {
                return false;
            }
            // SAFETY: the block is the caller's alone until the exchange below puts it into the list.
            unsafe { (*block).next = first };
            // Release: the taking thread sees the block in its final state. Blocks are only taken as a whole list, so
            // there is no ABA: no block can come back in between.
            match self.first[class].compare_exchange_weak(first, block, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => first = now,
            }
        }
    }

    /// Takes the whole list: the first block, whose `next` is the second one and so on; null if there is none. The
    /// owner has them alone, and sees what the pushing threads have written.
    pub(crate) fn take(&self, class: usize) -> *mut Free {
        self.first[class].swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Takes the whole list, and has later blocks refused.
    pub(crate) fn end(&self, class: usize) -> *mut Free {
        self.first[class].swap(ENDED, Ordering::Acquire)
    }
}
