//! Mistakes that the models of fibres and of full/empty bits must find: each is planted by a model that has to fail.
//!
//! Outside of models none is planted, and asking for one is a constant.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A fibre that was woken before it leaves its stack leaves it all the same.
    PermitLost,
    /// Two that wake a fibre at once may both find it suspended.
    QueuedTwice,
    /// A fibre that goes to another seat can be found there before it says so.
    SeatLate,
    /// A fibre that may go on anywhere says so before it leaves its stack.
    AwayEarly,
    /// A seat that has something to do again does not wait for those that have claimed it.
    ClaimMissed,
    /// A seat that is about to block may look at what was sent to it before others see that it blocks.
    LooksAtOnce,
    /// A fill serves all that would empty the word.
    AllTake,
    /// One that waits is put into the list after the lock was given up.
    ListedLate,
    /// One that was called for an open lock does not say that it has come.
    NeverCame,
    /// The word of a variable does not say that a thread waits.
    BitUnset,
    /// A count is emptied and filled while another thread counts.
    Unlocked,
    /// Values are put together after the word was filled.
    SummedLate,
}

/// The mistake of one value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Planted {
    #[cfg(all(test, loom))]
    pub(crate) mutant: Option<Mutant>,
}

impl Planted {
    #[inline(always)]
    pub(crate) fn has(self, mutant: Mutant) -> bool {
        #[cfg(all(test, loom))]
        return self.mutant == Some(mutant);
        #[cfg(not(all(test, loom)))]
        {
            let _ = mutant;
            false
        }
    }
}
