//! Mistakes to be found by models: a model that has to fail plants one. Each crate lists its own mistakes.

/// The mistake of one value, of a crate's list of mistakes `M`. Outside of models there is none, and asking for one is
/// a constant.
#[derive(Clone, Copy, Debug)]
pub struct Planted<M> {
    #[cfg(loom)]
    mutant: Option<M>,
    #[cfg(not(loom))]
    none: std::marker::PhantomData<M>,
}

impl<M> Planted<M> {
    /// No mistake.
    #[cfg(loom)]
    pub const NONE: Planted<M> = Planted { mutant: None };
    /// No mistake.
    #[cfg(not(loom))]
    pub const NONE: Planted<M> = Planted { none: std::marker::PhantomData };

    /// This mistake, or none.
    #[cfg(loom)]
    pub fn new(mutant: Option<M>) -> Planted<M> {
        Planted { mutant }
    }
}

impl<M: Copy + PartialEq> Planted<M> {
    /// Whether it is this mistake.
    #[inline(always)]
    pub fn has(self, mutant: M) -> bool {
        #[cfg(loom)]
        return self.mutant == Some(mutant);
        #[cfg(not(loom))]
        {
            let _ = mutant;
            false
        }
    }
}

impl<M> Default for Planted<M> {
    fn default() -> Planted<M> {
        Planted::NONE
    }
}
