//! The stages of a loop that the threads of a team share: the first thread to come prepares its state, the last one to
//! leave clears it for a later loop.

use super::atomics::{AtomicU32, AtomicU64, Ordering};
use super::wait::wait_until;

/// The stage of a slot's loop.
pub(crate) struct Stage {
    /// Four times the number of the slot's loop, plus the loop's stage.
    state: AtomicU64,
    /// How many threads have left the loop.
    left: AtomicU32,
}

const BEGINS: u64 = 1;
const READY: u64 = 2;

impl Stage {
    /// Free for the loop of this number.
    pub(crate) fn new(number: u64) -> Stage {
        Stage { state: AtomicU64::new(4 * number), left: AtomicU32::new(0) }
    }

    /// No thread is in a loop any more, and the next one has this number.
    pub(crate) fn reset(&self, number: u64) {
        self.left.store(0, Ordering::Relaxed);
        self.state.store(4 * number, Ordering::Release);
    }

    /// A thread comes to the loop of this number. The first one calls `prepare`; the others wait for its end.
    #[inline]
    pub(crate) fn enter(&self, number: u64, prepare: impl FnOnce()) {
        let free = 4 * number;
        let mut state = self.state.load(Ordering::Acquire);
        if state == free + READY {
            return;
        }
        if state != free && state != free + BEGINS {
            // A loop of many before is not left by all yet.
            wait_until(|| {
                state = self.state.load(Ordering::Acquire);
                state >= free
            });
        }
        let claimed = state == free
            && self.state.compare_exchange(free, free + BEGINS, Ordering::Acquire, Ordering::Acquire).is_ok();
        if claimed {
            prepare();
            // Release: the other threads see the prepared state.
            self.state.store(free + READY, Ordering::Release);
        } else {
            wait_until(|| self.state.load(Ordering::Acquire) == free + READY);
        }
    }

    /// One of `threads` leaves the loop. The last one calls `clear`, and the slot is free for the loop of the number
    /// `next`.
    #[inline]
    pub(crate) fn leave(&self, threads: u32, next: u64, clear: impl FnOnce()) {
        // Acquire and release: the last thread sees all writes of the others.
        if self.left.fetch_add(1, Ordering::AcqRel) + 1 == threads {
            clear();
            self.reset(next);
        }
    }
}
