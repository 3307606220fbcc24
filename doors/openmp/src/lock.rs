//! A lock in a word.

use super::atomics::{AtomicU32, Ordering};
use super::futex::{LOOKS, sleep_on, wake};

/// A lock in a word of a program, 0 at first.
#[repr(transparent)]
pub(crate) struct Lock(pub(super) AtomicU32);

pub(super) const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

impl Lock {
    pub(crate) fn init(&self) {
        self.0.store(FREE, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn lock(&self) {
        if self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_slowly();
        }
    }

    #[cold]
    fn lock_slowly(&self) {
        for _ in 0..LOOKS {
            if self.0.load(Ordering::Relaxed) == FREE && self.try_lock() {
                return;
            }
            std::hint::spin_loop();
        }
        while self.0.swap(AWAITED, Ordering::Acquire) != FREE {
            sleep_on(&self.0, AWAITED);
        }
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(crate) fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == AWAITED {
            wake(&raw const self.0, 1);
        }
    }

    /// Whether someone holds it.
    pub(crate) fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) != FREE
    }
}
