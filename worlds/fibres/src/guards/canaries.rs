//! Guards below stacks, where memory comes from an allocator: a canary each.

/// How stacks of an arena are guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guards {
    /// By a canary.
    Canaries,
}

/// The kind that is tried first.
pub(crate) const BEST: Guards = Guards::Canaries;

/// Installs no guards.
pub(crate) fn install_guards(_count: usize, _guard_bytes: usize, _guard_of: impl Fn(usize) -> usize) -> usize {
    0
}

/// Sets no guard. Returns the substitute.
pub(crate) fn guard(_start: usize, _bytes: usize, _wanted: Guards) -> Guards {
    Guards::Canaries
}
