//! Mistakes to be found by the models of fibres and of full/empty bits: a model that has to fail plants one.
//!
//! Outside of models none is planted, and asking for one is a constant.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A fibre woken before it leaves its stack leaves it all the same.
    PermitLost,
    /// Two simultaneous wakers may both find a fibre suspended.
    QueuedTwice,
    /// A fibre on its way to another seat can be found there before it says so.
    SeatLate,
    /// A movable fibre says so before it leaves its stack.
    AwayEarly,
    /// A fill serves all waits that would empty the word.
    AllTake,
    /// A wait is put into the list after the lock was given up.
    ListedLate,
    /// A thread called for an open lock does not say when it has come.
    NeverCame,
    /// The word of a variable does not show a waiting thread.
    BitUnset,
    /// A count is emptied and filled while another thread counts.
    Unlocked,
    /// Values are put together after the word was filled.
    SummedLate,
}

/// The mistake of one value.
pub(crate) type Planted = vicus_memory::Planted<Mutant>;
