//! Mistakes for the models of commits to find: each is planted by a model that has to fail.
//!
//! Outside of models none is planted, and asking for one is a constant.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A caller that has landed wakes the callers of the flown transactions, and not the first one of the next flight.
    NextAsleep,
    /// A caller that has applied and was told meanwhile returns, and does not wake another one.
    NoPassing,
    /// Applied transactions count as ready although they were refused meanwhile, or another caller has applied them.
    StaleApplied,
}

/// The mistake of one store.
pub(crate) type Planted = vicus_memory::Planted<Mutant>;
