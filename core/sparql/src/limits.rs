//! How much is remembered, done at once, or tried: numbers that change what a query costs, and never what it answers.

/// Limits inside of planning and of boxes. The default ones are for speed. Tests set them low, so that a graph of a few
/// triples goes beyond each of them.
///
/// ```
/// use vicus_sparql::{Limits, Options};
///
/// let limits = Limits { remembered_ends: 2, ..Limits::default() };
/// assert_ne!(Options { limits, ..Options::default() }, Options::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// As many ends and starts of paths as a walk remembers for later rows.
    pub remembered_ends: usize,
    /// As many triples as a walk looks at before another box has a turn.
    pub steps: usize,
    /// As many answers as are remembered for a condition on one column, and for an EXISTS.
    pub remembered_answers: usize,
    /// As many batches of candidates as a join looks at before another box has a turn.
    pub batches: usize,
    /// As many columns with unbound values as a join searches by; the others are only tested. At most 16.
    pub searched_keys: usize,
    /// As many candidates as such a join looks at before another box has a turn.
    pub candidates: usize,
    /// As many ids at least as wait for a table that was split, before they are added to it.
    pub waiting_ids: usize,
    /// As many rows at least as a part of a scan has that is shared.
    pub part_rows: u64,
    /// For groups of so many operands all orders of joining are looked at; for larger ones the cheapest join next.
    pub ordered_exhaustively: usize,
    /// As many joins at most as are looked at in all for such orders; then it is the cheapest join next.
    pub ordered_joins: usize,
    /// As many operands as are ordered together. From 2 to 60.
    pub ordered_together: usize,
    /// As many branches as joins are distributed over, and in groups with so many unions at most.
    pub branches: usize,
    /// See [`Limits::branches`].
    pub unions: usize,
    /// As many things as are planned in two ways, and only if one way takes so many nanoseconds.
    pub tries: usize,
    /// See [`Limits::tries`].
    pub tried_from_ns: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            remembered_ends: 1 << 20,
            steps: 4096,
            remembered_answers: 1 << 16,
            batches: 32,
            searched_keys: 4,
            candidates: 1 << 16,
            waiting_ids: 2048,
            part_rows: 256,
            ordered_exhaustively: 10,
            ordered_joins: 1 << 20,
            ordered_together: 60,
            branches: 12,
            unions: 5,
            tries: 32,
            tried_from_ns: 4000,
        }
    }
}
