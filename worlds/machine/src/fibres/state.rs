//! Whether a fibre runs, is suspended, or was woken.

use crate::sync::{AtomicU32, Ordering};

/// The word by which a fibre that suspends itself and those that wake it agree.
///
/// A wake is a permit: one that comes before the suspension ends that at once, and one that nothing waits for has the fibre look once
/// more at what it waits for next. Of all wakes of a suspended fibre, exactly one queues it.
pub(crate) struct State(AtomicU32);

const RUNNING: u32 = 0;
/// It is about to leave its stack, or has left it.
const SUSPENDED: u32 = 1;
const WOKEN: u32 = 2;

impl State {
    pub(crate) fn new() -> State {
        State(AtomicU32::new(RUNNING))
    }

    /// The fibre is about to leave its stack. `false`: it was woken meanwhile, and goes on.
    #[inline]
    pub(crate) fn suspend(&self) -> bool {
        // Release: the one that wakes it finds where it is to be queued.
        let left = self.0.compare_exchange(RUNNING, SUSPENDED, Ordering::AcqRel, Ordering::Acquire);
        if left.is_err() {
            self.resume();
        }
        left.is_ok()
    }

    /// The fibre goes on. A wake that came before is used up: the fibre sees what was done before that.
    #[inline]
    pub(crate) fn resume(&self) {
        self.0.swap(RUNNING, Ordering::AcqRel);
    }

    /// Whether the caller has to queue the fibre, which was suspended.
    #[inline]
    pub(crate) fn wake(&self) -> bool {
        self.0.swap(WOKEN, Ordering::AcqRel) == SUSPENDED
    }

    /// Whether it is suspended, and was not woken.
    pub(crate) fn is_suspended(&self) -> bool {
        self.0.load(Ordering::Acquire) == SUSPENDED
    }
}
