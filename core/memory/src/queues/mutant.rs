//! Mistakes for the models of the queues to find: each is planted by a model that has to fail.
//!
//! Outside of models none is planted, and asking for one is a constant.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A value is announced without releasing it.
    FullRelaxed,
    /// A consumer marks a slot as done before it reads the value.
    DoneEarly,
    /// A producer does not notice that its slot was given up.
    SkipUnseen,
    /// A segment is recycled although threads are still in it.
    RecycleAtOnce,
    /// A push does not look for sleepers.
    NoWake,
    /// A burst looks for sleepers, but its claim is not ordered before this look.
    ClaimUnordered,
    /// A burst ends and keeps its unwritten slots.
    SlotsKept,
    /// A burst ends and moves the tail back although others have pushed behind it.
    TailForced,
    /// A consumer goes on and takes a slot although another one was quicker.
    SlotShared,
    /// A consumer sleeps without a second look.
    NoSecondLook,
    /// A woken consumer gives up and does not pass its wake-up on.
    NoPassing,
    /// A consumer takes the queue for closed before all producers know.
    ClosedEarly,
}

/// The mistake of one value.
pub(crate) type Planted = crate::Planted<Mutant>;
