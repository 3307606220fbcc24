//! Limits on memory, on steps between turns, and on planning effort: they change the cost of a query, never its answer.

/// Limits inside of planning and of boxes. The defaults are for speed. Tests set them low, so a graph of a few triples
/// exceeds each of them.
///
/// ```
/// use vicus_sparql::{QueryLimits, QueryOptions};
///
/// let limits = QueryLimits { remembered_ends: 2, ..QueryLimits::default() };
/// assert_ne!(QueryOptions { limits, ..QueryOptions::default() }, QueryOptions::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryLimits {
    /// How many ends and starts of paths a walk remembers for later rows.
    pub remembered_ends: usize,
    /// How many triples a walk visits before another box has a turn.
    pub steps: usize,
    /// How many answers are remembered for a condition on one column, and for an EXISTS.
    pub remembered_answers: usize,
    /// How many batches of candidates a join looks at before another box has a turn.
    pub batches: usize,
    /// How many columns with unbound values a join searches by; the others are tested for each candidate. At most 16.
    pub searched_keys: usize,
    /// How many candidates such a join looks at before another box has a turn.
    pub candidates: usize,
    /// The least number of ids waiting for a split table before they are added to it.
    pub waiting_ids: usize,
    /// The least number of bytes held by a box before it spills ([`QuerySpill`](crate::QuerySpill)). With fewer than
    /// some kilobytes, it holds more than this while it merges its spilled rows.
    pub spilled_from: u64,
    /// How many rows at least a part of a shared scan has.
    pub part_rows: u64,
    /// How many rows are collected for a question to an endpoint, and how many rows of values it is sent at most.
    pub service_rows: usize,
    /// Up to this many operands, all orders of joining a group are tried; a larger group is ordered greedily, the
    /// cheapest join first.
    pub ordered_exhaustively: usize,
    /// The number of joins tried for such orders in all; after that, groups are ordered greedily.
    pub ordered_joins: usize,
    /// How many operands are ordered together. From 2 to 60.
    pub ordered_together: usize,
    /// A group is distributed over its unions into at most this many branches, if it has at most
    /// [`QueryLimits::unions`] unions.
    pub branches: usize,
    /// See [`QueryLimits::branches`].
    pub unions: usize,
    /// The number of parts of a query planned in two ways. Only plans longer than [`QueryLimits::tried_from_ns`]
    /// nanoseconds count.
    pub tries: usize,
    /// See [`QueryLimits::tries`].
    pub tried_from_ns: u64,
    /// Counts and sets of joined rows are also planned with variables eliminated early, if the plan without this takes
    /// longer than this time. If 0, that other plan is always taken.
    pub eliminated_from_ns: u64,
}

impl Default for QueryLimits {
    fn default() -> QueryLimits {
        QueryLimits {
            remembered_ends: 1 << 20,
            steps: 4096,
            remembered_answers: 1 << 16,
            batches: 32,
            searched_keys: 4,
            candidates: 1 << 16,
            waiting_ids: 2048,
            spilled_from: 16 << 10,
            part_rows: 256,
            service_rows: 512,
            ordered_exhaustively: 10,
            ordered_joins: 1 << 20,
            ordered_together: 60,
            branches: 12,
            unions: 5,
            tries: 32,
            tried_from_ns: 4000,
            eliminated_from_ns: 200_000,
        }
    }
}
