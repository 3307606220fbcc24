//! Conditions that a seat, or code with a stack of its own, waits for.

use std::cell::Cell;
use vicus_schedule::SeatId;

/// A condition to wait for.
pub trait Awaited {
    /// Whether it is true.
    fn is_done(&self) -> bool;

    /// The condition is not true yet, and the waiting code is about to run one task, or to rest: for a wait that ends
    /// after so many rounds.
    #[inline]
    fn begin_round(&self) {}

    /// The seat is about to sleep: from now on the thread that makes the condition true has to call `notify`
    /// (`latch.rs`). Returns whether the seat still has to wait.
    fn announce_sleep(&self) -> bool;

    /// Like [`Awaited::announce_sleep`], by code about to be suspended, while its seat goes on with other tasks: if
    /// these make the condition true, they have to wake it, too.
    #[inline]
    fn announce_suspension(&self) -> bool {
        self.announce_sleep()
    }

    /// The suspended code goes on, on this seat.
    #[inline]
    fn note_resumed(&self, _: SeatId) {}
}

/// A wait of one round: for code that lets one other task run, if there is one.
#[derive(Debug, Default)]
pub struct OneRound {
    has_begun: Cell<bool>,
}

impl Awaited for OneRound {
    fn is_done(&self) -> bool {
        self.has_begun.get()
    }

    fn begin_round(&self) {
        self.has_begun.set(true);
    }

    fn announce_sleep(&self) -> bool {
        false
    }
}
