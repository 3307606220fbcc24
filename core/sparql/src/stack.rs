//! Stack for planning. Planning takes more stack for a level of a query than reading it does.

use vicus_language::stack::of_levels;

/// Bytes of stack for a planned level of a query's tree: a level of the text becomes several operators, with several
/// calls each.
const PLANNED_LEVEL: usize = 32 << 10;

/// Plans, or describes the plan of, a query of this many levels.
pub(crate) fn of_planned<R>(levels: usize, work: impl FnOnce() -> R) -> R {
    of_levels(levels, PLANNED_LEVEL, work)
}
