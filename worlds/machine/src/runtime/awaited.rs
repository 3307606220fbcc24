//! Conditions that a seat or a fibre waits for.

use vicus_schedule::SeatId;

/// A condition to wait for.
pub(crate) trait Awaited {
    /// Whether the thread that makes the condition true queues the waiting fibre
    /// ([`crate::threads::fibres::Fibre::queue`]), once after [`Awaited::announce_suspension`] was true. Else it may
    /// wake a fibre for nothing.
    const IS_EXACT: bool = false;

    /// Whether it is true.
    fn is_done(&self) -> bool;

    /// The seat is about to sleep: from now on the thread that makes the condition true has to call
    /// [`crate::runtime::Shared::tell`]. Returns whether the seat still has to wait.
    fn announce_sleep(&self) -> bool;

    /// Like [`Awaited::announce_sleep`], by a fibre about to be suspended, while its seat goes on with other tasks: if
    /// these make the condition true, they have to wake it, too.
    #[inline]
    fn announce_suspension(&self) -> bool {
        self.announce_sleep()
    }

    /// The fibre is told to end. Returns whether it waits no more, which its caller finds out; waits without a way to
    /// give up stay.
    #[inline]
    fn withdraw(&self) -> bool {
        false
    }

    /// The fibre goes on, on this seat.
    #[inline]
    fn goes_on(&self, _: SeatId) {}
}
