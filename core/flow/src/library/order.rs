//! The order of rows by columns of any types.

use crate::{Column, Envelope};
use std::cmp::Ordering;

/// A column to sort by: ascending and nulls first by default. Numbers are ordered by value, floats by the total order
/// of IEEE 754 (-NaN, -∞, …, -0, 0, …, ∞, NaN), `false` before `true`, texts and strings of bytes by their bytes, the
/// order of Unicode's code points.
///
/// ```
/// use vicus_flow::library::{SortKey, order_by};
/// use vicus_flow::{Column, Envelope};
///
/// let rows = Envelope::new([vec![2u8, 1, 2].into(), vec![Some("b"), Some("a"), None].into()]);
/// let compare = order_by([SortKey::of(0).descending(), SortKey::of(1).nulls_last()]);
/// let mut order = [0, 1, 2];
/// order.sort_by(|&a, &b| compare((&rows, a), (&rows, b)));
/// assert_eq!(order, [0, 2, 1]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// The column's number.
    pub column: usize,
    /// Whether greater values come first. It does not move nulls.
    pub descending: bool,
    /// Whether nulls come behind all values.
    pub nulls_last: bool,
}

impl SortKey {
    /// By this column.
    pub fn of(column: usize) -> SortKey {
        SortKey { column, descending: false, nulls_last: false }
    }

    /// Greater values first.
    pub fn descending(self) -> SortKey {
        SortKey { descending: true, ..self }
    }

    /// Nulls behind all values.
    pub fn nulls_last(self) -> SortKey {
        SortKey { nulls_last: true, ..self }
    }

    /// Orders row `i` of a column and row `j` of another of the same type.
    #[inline]
    pub(crate) fn compare(&self, a: &Column, i: usize, b: &Column, j: usize) -> Ordering {
        if a.null_count() + b.null_count() > 0 {
            let is_later = |is_null: bool| is_null == self.nulls_last;
            match (a.is_null(i), b.is_null(j)) {
                (false, false) => {}
                (true, true) => return Ordering::Equal,
                // `false` comes first.
                (a, b) => return is_later(a).cmp(&is_later(b)),
            }
        }
        let order = a.order(i, b, j);
        if self.descending { order.reverse() } else { order }
    }
}

/// Orders rows of envelopes of one schema: by the first key, rows equal by it by the second, and so on. The function
/// panics if an envelope lacks one of these columns.
///
/// ```
/// use std::cmp::Ordering::{Equal, Greater, Less};
/// use vicus_flow::Envelope;
/// use vicus_flow::library::{SortKey, order_by};
///
/// let first = Envelope::new([vec![Some("oak"), Some("fir")].into(), vec![30u32, 20].into()]);
/// let second = Envelope::new([vec![Some("ash")].into(), vec![30u32].into()]);
/// let compare = order_by([SortKey::of(1).descending(), SortKey::of(0)]);
/// assert_eq!(compare((&first, 0), (&first, 1)), Less); // 30 before 20
/// assert_eq!(compare((&first, 0), (&second, 0)), Greater); // both 30; `ash` before `oak`
/// assert_eq!(compare((&second, 0), (&second, 0)), Equal);
/// ```
pub fn order_by(
    keys: impl IntoIterator<Item = SortKey>,
) -> impl Fn((&Envelope, usize), (&Envelope, usize)) -> Ordering + Clone + Send + Sync + 'static {
    let keys: Vec<SortKey> = keys.into_iter().collect();
    move |(a, i), (b, j)| {
        let order = |key: &SortKey| key.compare(a.column(key.column), i, b.column(key.column), j);
        keys.iter().map(order).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}
