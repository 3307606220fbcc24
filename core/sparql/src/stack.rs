//! Stack for what descends into trees: what calls us may have any, and the query's text decides how deep that goes.

/// Bytes of stack that no single level of a tree needs all of.
const ENOUGH: usize = 128 << 10;

/// Bytes of a new piece of stack.
const MORE: usize = 4 << 20;

/// Does something that may descend further by itself.
pub(crate) fn deep<R>(work: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(ENOUGH, MORE, work)
}

/// Does something that descends so many levels without asking for more, such as a drop.
pub(crate) fn of_levels<R>(levels: usize, work: impl FnOnce() -> R) -> R {
    let bytes = ENOUGH + levels * LEVEL;
    stacker::maybe_grow(bytes, bytes, work)
}

/// Bytes of stack for each level that is dropped or copied.
const LEVEL: usize = 1 << 10;
