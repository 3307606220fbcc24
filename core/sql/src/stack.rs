//! Stack for recursion over trees: the caller's stack may be small, and the statement's text decides how deep the recursion goes.

/// No single level of a tree needs this many bytes of stack.
const ENOUGH: usize = 128 << 10;

/// Bytes of a new piece of stack.
const MORE: usize = 4 << 20;

/// Runs one level of a recursion, on more stack if needed.
pub(crate) fn deep<R>(work: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(ENOUGH, MORE, work)
}

/// Runs a recursion that doesn't ask for more stack itself, of this many levels of so many bytes each.
pub(crate) fn of_levels<R>(levels: usize, level_bytes: usize, work: impl FnOnce() -> R) -> R {
    let bytes = ENOUGH + levels.saturating_mul(level_bytes);
    stacker::maybe_grow(bytes, bytes, work)
}
