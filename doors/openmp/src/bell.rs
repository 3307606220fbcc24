//! The calls of a thread that waits for its next region.

use super::atomics::{AtomicU32, Ordering};

/// A count of calls, with a mark for the sleep of the called thread.
///
/// One thread calls; between two calls it has seen that the called one has come.
pub(crate) struct Bell {
    /// Twice the number of calls so far, and one more if the thread sleeps.
    state: AtomicU32,
}

impl Bell {
    pub(crate) fn new() -> Bell {
        Bell { state: AtomicU32::new(0) }
    }

    /// Whether the thread sleeps, or is about to.
    pub(crate) fn is_asleep(&self) -> bool {
        self.state.load(Ordering::Relaxed) & 1 != 0
    }

    /// Calls the thread. Whether it has to be woken.
    pub(crate) fn ring(&self) -> bool {
        let before = self.state.load(Ordering::Relaxed);
        // Release: the thread sees all writes made for the call.
        self.state.swap((before | 1).wrapping_add(1), Ordering::AcqRel) & 1 != 0
    }

    /// The state if there was a call since `seen`.
    #[inline]
    pub(crate) fn called_since(&self, seen: u32) -> Option<u32> {
        let state = self.state.load(Ordering::Acquire);
        (state != seen && state != seen | 1).then_some(state)
    }

    /// Marks the sleep of a thread that was not called since `seen`. The value of [`Bell::word`] to sleep on; `None` if
    /// it was called meanwhile.
    pub(crate) fn mark_asleep(&self, seen: u32) -> Option<u32> {
        let asleep = seen | 1;
        match self.state.compare_exchange(seen, asleep, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Some(asleep),
            Err(state) => (state == asleep).then_some(asleep),
        }
    }

    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.state
    }
}
