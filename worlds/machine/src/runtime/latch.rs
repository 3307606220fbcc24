//! A flag that becomes true once, for a waiting seat or suspended code.

use crate::runtime::awaited::Awaited;
use crate::sync::{AtomicU32, Ordering};
use vicus_schedule::Waiter;

/// Wakes waiters.
pub trait Tell {
    /// Makes this one check its wait condition.
    fn tell(&self, waiter: Waiter);
}

/// Set once by the thread that finishes the task awaited by a seat, or by code with a stack of its own.
///
/// A seat looks for other work meanwhile, and may fall asleep; other code is suspended. Both announce this before, and
/// then the setting thread wakes them. The latch may lie in the waiting code's stack frame: it is not touched after it
/// is set.
pub struct Latch {
    state: AtomicU32,
    waiter: Waiter,
}

const OPEN: u32 = 0;
/// The seat sleeps or the code is suspended, or is about to.
const ASLEEP: u32 = 1;
const SET: u32 = 2;

impl Latch {
    /// For this one to wait for: the worker's [`waiter`](crate::runtime::worker::Worker::waiter).
    #[inline]
    pub fn new(waiter: Waiter) -> Latch {
        Latch { state: AtomicU32::new(OPEN), waiter }
    }

    /// The awaited task is done. After this only the waiting one's sleeping place is touched, not the latch.
    #[inline]
    pub fn set(&self, shared: &impl Tell) {
        let waiter = self.waiter;
        if self.state.swap(SET, Ordering::AcqRel) == ASLEEP {
            shared.tell(waiter);
        }
    }
}

impl Awaited for Latch {
    #[inline]
    fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) == SET
    }

    fn announce_sleep(&self) -> bool {
        self.state.compare_exchange(OPEN, ASLEEP, Ordering::AcqRel, Ordering::Acquire) != Err(SET)
    }
}
