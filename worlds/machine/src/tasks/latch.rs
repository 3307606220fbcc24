//! A flag that becomes true once, for a seat that waits for it.

use super::Awaited;
use crate::runtime::Shared;
use crate::sync::{AtomicU32, Ordering};
use vicus_schedule::SeatId;

/// Set once by the thread that finishes the task which a seat waits for.
///
/// The seat looks for other work meanwhile, and may fall asleep: it announces that before, and then the setting thread wakes it.
/// The latch may lie in the waiting seat's stack frame: it is not touched after it is set.
pub(crate) struct Latch {
    state: AtomicU32,
    seat: SeatId,
}

const OPEN: u32 = 0;
/// The seat sleeps, or is about to.
const ASLEEP: u32 = 1;
const SET: u32 = 2;

impl Latch {
    /// For this seat to wait for.
    #[inline]
    pub(crate) fn new(seat: SeatId) -> Latch {
        Latch { state: AtomicU32::new(OPEN), seat }
    }

    /// The awaited task is done. After this only the seat's sleeping place is touched, not the latch.
    #[inline]
    pub(crate) fn set(&self, shared: &Shared) {
        let seat = self.seat;
        if self.state.swap(SET, Ordering::AcqRel) == ASLEEP {
            shared.ask(seat);
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
