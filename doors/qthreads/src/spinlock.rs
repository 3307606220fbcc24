//! A program's own lock structure.

use super::atomics::{AtomicI64, AtomicU64, Ordering};

/// A lock of the program's: a word, 0 while it is open, the number of its owner, and the owner's count of further
/// locks.
#[repr(C)]
pub(crate) struct Spinlock {
    owner: AtomicU64,
    kind: AtomicI64,
    count: AtomicI64,
}

const IS_RECURSIVE: i64 = -1;
const IS_NOT_RECURSIVE: i64 = -2;

impl Spinlock {
    /// An open lock.
    pub(crate) fn new(is_recursive: bool) -> Spinlock {
        let kind = if is_recursive { IS_RECURSIVE } else { IS_NOT_RECURSIVE };
        Spinlock { owner: AtomicU64::new(0), kind: AtomicI64::new(kind), count: AtomicI64::new(0) }
    }

    /// Locks it for the thread of this number, once more if it is recursive and this thread's. False if it is locked.
    pub(crate) fn try_lock(&self, own: u64) -> bool {
        match self.owner.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => true,
            Err(owner) if owner == own && self.kind.load(Ordering::Relaxed) == IS_RECURSIVE => {
                self.count.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(_) => false,
        }
    }

    /// Undoes one lock. False if it is not this thread's.
    pub(crate) fn unlock(&self, own: u64) -> bool {
        // Only this thread writes its own number.
        if self.owner.load(Ordering::Relaxed) != own {
            return false;
        }
        if self.count.load(Ordering::Relaxed) > 0 {
            self.count.fetch_sub(1, Ordering::Relaxed);
        } else {
            self.owner.store(0, Ordering::Release);
        }
        true
    }
}
