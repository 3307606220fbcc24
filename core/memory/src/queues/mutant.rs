//! Mistakes that the models of the queues must find: each is planted by a model that has to fail.
//!
//! Outside of models there is none, and asking for one is a constant.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A value is announced without releasing it.
    FullRelaxed,
    /// A consumer leaves a slot before it says so, and reads it afterwards.
    DoneEarly,
    /// A producer does not notice that its slot was given up.
    SkipUnseen,
    /// A segment is recycled although threads are still in it.
    RecycleAtOnce,
    /// A push does not look for sleepers.
    NoWake,
    /// A burst looks for sleepers, but its claim does not stand before that in the order of all.
    ClaimUnordered,
    /// A burst ends and keeps the slots that it has not written.
    SlotsKept,
    /// A burst ends and moves the tail back although others have pushed behind.
    TailForced,
    /// A consumer that goes on takes a slot although another was quicker.
    SlotShared,
    /// A consumer sleeps without having looked again.
    NoSecondLook,
    /// Who goes without needing its wake-up does not pass it on.
    NoPassing,
    /// A consumer takes the queue for closed before all producers know.
    ClosedEarly,
}

/// The mistake of one queue.
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
