//! All triples in one order, as columns.
//!
//! ```text
//!  keys    starts        second  third        an index in the order Pso:
//!  type ──── 0 ────────▶ ann     Person       keys are the distinct predicates,
//!  name ──── 2 ──────┐   bob     Person       second the subjects, third the objects
//!            3 ──┐   └─▶ ann     "Ann"
//!                └─────▶
//! ```
//!
//! A *row* is a triple's place in the order. Rows with a common prefix are contiguous, so a pattern is a range of rows, and a
//! range can be divided among several readers.

use crate::ids::Id;
use crate::placed::{Access, PlacedVec, Placement};
use std::ops::Range;
use vicus_flow::library::Piece;
use vicus_flow::{Grow, NoMemory, Room};
use vicus_topology::NodeId;

/// A position in a triple.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Position {
    /// The first.
    Subject = 0,
    /// The second.
    Predicate = 1,
    /// The third.
    Object = 2,
}

/// The order of an index: `Pos` is by predicate, then object, then subject.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Order {
    Spo,
    Sop,
    Pso,
    Pos,
    Osp,
    Ops,
}

impl Order {
    /// All six.
    pub const ALL: [Order; 6] = [Order::Spo, Order::Sop, Order::Pso, Order::Pos, Order::Osp, Order::Ops];

    /// The four orders that a store has by default: every pattern that binds the predicate, or only one position, is a range.
    pub const USUAL: [Order; 4] = [Order::Spo, Order::Pso, Order::Pos, Order::Ops];

    /// The positions of a triple on the first, second and third level.
    pub const fn positions(self) -> [Position; 3] {
        use Position::{Object, Predicate, Subject};
        match self {
            Order::Spo => [Subject, Predicate, Object],
            Order::Sop => [Subject, Object, Predicate],
            Order::Pso => [Predicate, Subject, Object],
            Order::Pos => [Predicate, Object, Subject],
            Order::Osp => [Object, Subject, Predicate],
            Order::Ops => [Object, Predicate, Subject],
        }
    }

    /// The level on which a position is.
    pub fn level(self, position: Position) -> usize {
        self.positions().into_iter().position(|other| other == position).expect("all three are there")
    }

    /// How many leading levels are bound, given which of subject, predicate and object are: the length of the prefix to search
    /// for.
    pub fn prefix(self, bound: [bool; 3]) -> usize {
        self.positions().into_iter().take_while(|&position| bound[position as usize]).count()
    }

    /// Rearranges subject, predicate, object into this order.
    pub fn arrange<T: Copy>(self, triple: [T; 3]) -> [T; 3] {
        self.positions().map(|position| triple[position as usize])
    }

    /// Rearranges a row of this order into subject, predicate, object.
    pub fn restore<T: Copy>(self, row: [T; 3]) -> [T; 3] {
        [Position::Subject, Position::Predicate, Position::Object].map(|position| row[self.level(position)])
    }
}

/// All triples in one order. Size: 16 bytes a triple and 12 for each distinct id of the first level.
///
/// ```
/// use vicus_rdf::{Order, Snapshot};
/// let snapshot = Snapshot::of_ntriples(b"<http://e/a> <http://e/p> \"1\" .\n<http://e/a> <http://e/p> \"2\" .")?;
/// let index = snapshot.index(Order::Pso);
/// let rows = index.range(&[index.keys()[0]]);
/// assert_eq!(rows, 0..2);
/// assert!(index.third()[rows].is_sorted());
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Debug)]
pub struct Index {
    order: Order,
    /// The distinct ids of the first level. Invariant: strictly ascending.
    keys: Vec<Id>,
    /// The first row of each key, and at the end the number of rows. Invariant: strictly ascending.
    starts: Vec<u32>,
    second: PlacedVec<Id>,
    third: PlacedVec<Id>,
}

impl Index {
    /// From rows in this order, ascending and distinct. Panics at 2^32 rows.
    pub(crate) fn new(order: Order, count: usize, rows: impl Iterator<Item = [Id; 3]>) -> Result<Index, NoMemory> {
        let row_of = |row: usize| u32::try_from(row).expect("fewer than 2^32 triples");
        let (mut keys, mut starts) = (Vec::new(), Vec::new());
        let (mut second, mut third) = (Vec::with_room(count)?, Vec::with_room(count)?);
        for [a, b, c] in rows {
            if keys.last() != Some(&a) {
                // Room for the start of this key, and for the end after the last one.
                keys.grow(1)?;
                starts.grow(2)?;
                keys.push(a);
                starts.push(row_of(second.len()));
            }
            second.push(b);
            third.push(c);
        }
        starts.push(row_of(second.len()));
        keys.shrink_to_fit();
        starts.shrink_to_fit();
        Ok(Index { order, keys, starts, second: second.into(), third: third.into() })
    }

    /// Lays its rows over nodes, a range on each, if there are many rows and several nodes.
    pub(crate) fn lay(&mut self, over: &Placement) {
        self.second.lay(over, Access::Ranges);
        self.third.lay(over, Access::Ranges);
    }

    /// Ranges of rows as pieces for [`split`](vicus_flow::library::split), cut where the node changes. All levels except the
    /// first lie on that node.
    pub fn pieces(&self, rows: Range<usize>) -> Vec<Piece> {
        let piece =
            |(rows, home): (Range<usize>, Option<NodeId>)| Piece { range: rows.start as u64..rows.end as u64, home };
        self.third.homes(rows).into_iter().map(piece).collect()
    }

    /// The node of a row, if it is known. Panics if there is no such row.
    pub fn home(&self, row: usize) -> Option<NodeId> {
        self.third.home(row)
    }

    /// Which order this is.
    pub fn order(&self) -> Order {
        self.order
    }

    /// How many rows it has: the number of triples.
    pub fn len(&self) -> usize {
        self.second.len()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.second.is_empty()
    }

    /// The rows that begin with up to three ids, in the order of the index. If there are none, the empty range is where they
    /// would be. Takes O(log n). Panics for more than three ids.
    pub fn range(&self, prefix: &[Id]) -> Range<usize> {
        self.cursor().range(prefix)
    }

    /// The number of rows that begin with these ids. Takes O(log n).
    pub fn count(&self, prefix: &[Id]) -> usize {
        self.range(prefix).len()
    }

    /// The rows that begin with up to two ids and whose next id is within `ids`: a comparison with a constant.
    pub fn between(&self, prefix: &[Id], ids: Range<Id>) -> Range<usize> {
        let (start, end) = match *prefix {
            [] => {
                let row = |id| self.starts[self.keys.partition_point(|&key| key < id)] as usize;
                (row(ids.start), row(ids.end))
            }
            [_] | [_, _] => {
                let rows = self.range(prefix);
                let column = if prefix.len() == 1 { &self.second } else { &self.third };
                let row = |id| rows.start + column[rows.clone()].partition_point(|&other| other < id);
                (row(ids.start), row(ids.end))
            }
            _ => panic!("a prefix of two ids at most, so that one is left to compare"),
        };
        start..end.max(start)
    }

    /// For many searches in ascending order; see [`Cursor`].
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor { index: self, key: 0, second: 0, third: 0 }
    }

    /// The distinct ids of the first level, ascending.
    pub fn keys(&self) -> &[Id] {
        &self.keys
    }

    /// The rows of the key at this place of [`Index::keys`].
    pub fn rows_of_key(&self, key: usize) -> Range<usize> {
        self.starts[key] as usize..self.starts[key + 1] as usize
    }

    /// The second level, by row: `&index.second()[rows]` is that part of the column.
    pub fn second(&self) -> &[Id] {
        &self.second
    }

    /// The third level, by row.
    pub fn third(&self) -> &[Id] {
        &self.third
    }

    /// The place of a row's first id in [`Index::keys`]. Takes O(log n).
    pub fn key_of_row(&self, row: usize) -> usize {
        self.starts.partition_point(|&start| start as usize <= row) - 1
    }

    /// Appends the first level of these rows, which is not stored by row, as [`Id::bits`].
    pub fn fill_first(&self, rows: Range<usize>, column: &mut Room<'_, u64>) {
        let mut row = rows.start;
        if rows.is_empty() {
            return;
        }
        let mut key = self.key_of_row(row);
        while row < rows.end {
            let end = rows.end.min(self.starts[key + 1] as usize);
            column.repeat(self.keys[key].bits(), end - row);
            row = end;
            key += 1;
        }
    }

    /// Appends any level of these rows as [`Id::bits`]. Panics for a level above 2.
    pub fn fill(&self, level: usize, rows: Range<usize>, column: &mut Room<'_, u64>) {
        match level {
            0 => self.fill_first(rows, column),
            1 => column.extend_from_slice(Id::as_bits(&self.second[rows])),
            2 => column.extend_from_slice(Id::as_bits(&self.third[rows])),
            _ => panic!("a triple has three levels"),
        }
    }

    /// One row as subject, predicate, object. Takes O(log n).
    pub fn triple(&self, row: usize) -> [Id; 3] {
        self.order.restore([self.keys[self.key_of_row(row)], self.second[row], self.third[row]])
    }

    /// The distinct ids of the second level within rows of one key, with the rows of each.
    pub fn groups(&self, rows: Range<usize>) -> impl Iterator<Item = (Id, Range<usize>)> + '_ {
        let mut start = rows.start;
        std::iter::from_fn(move || {
            if start >= rows.end {
                return None;
            }
            let id = self.second[start];
            let end = start + gallop(&self.second[start..rows.end], 0, |&other| other <= id);
            let group = start..end;
            start = end;
            Some((id, group))
        })
    }

    /// Cuts a range of rows into at most `parts` non-empty ranges of almost equal size.
    pub fn split(rows: Range<usize>, parts: usize) -> impl Iterator<Item = Range<usize>> {
        let parts = parts.min(rows.len());
        let cut = move |part: usize| rows.start + (rows.len() as u128 * part as u128 / parts.max(1) as u128) as usize;
        (0..parts).map(move |part| cut(part)..cut(part + 1))
    }

    /// As [`Index::split`], but never cuts between rows with the same id on `level` (0 to 2), the level after the prefix that
    /// made `rows`. So rows that are grouped or merged by that id stay together. Parts may differ in size.
    pub fn split_between(
        &self,
        rows: Range<usize>,
        level: usize,
        parts: usize,
    ) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut from = rows.start;
        Index::split(rows.clone(), parts).filter_map(move |part| {
            let to = if part.end == rows.end { rows.end } else { self.end_of_group(part.end - 1, level, rows.end) };
            let piece = from..to.max(from);
            from = piece.end;
            (!piece.is_empty()).then_some(piece)
        })
    }

    fn end_of_group(&self, row: usize, level: usize, end: usize) -> usize {
        let column = match level {
            0 => return end.min(self.starts[self.key_of_row(row) + 1] as usize),
            1 => &self.second,
            2 => &self.third,
            _ => panic!("a triple has three levels"),
        };
        let id = column[row];
        row + gallop(&column[row..end], 0, |&other| other == id)
    }

    /// The memory that it holds, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let directory = self.keys.capacity() * size_of::<Id>() + self.starts.capacity() * size_of::<u32>();
        directory + self.second.heap_bytes() + self.third.heap_bytes()
    }

    /// Panics if the rows don't ascend or the directory doesn't fit them.
    pub fn assert_valid(&self) {
        assert!(self.keys.is_sorted_by(|a, b| a < b), "keys ascend");
        assert!(self.starts.is_sorted_by(|a, b| a < b), "no key without rows");
        assert_eq!(self.starts.len(), self.keys.len() + 1, "a start for each key, and the end");
        assert_eq!(self.starts[self.keys.len()] as usize, self.len(), "the directory covers all rows");
        for key in 0..self.keys.len() {
            let rows = self.rows_of_key(key);
            let pairs = self.second[rows.clone()].iter().zip(&self.third[rows]);
            assert!(pairs.is_sorted_by(|a, b| a < b), "rows of a key ascend, and none is twice there");
        }
    }
}

/// Searches an index from where the last search ended. Searches for ascending values take O(log distance), others O(log n).
///
/// ```
/// use vicus_rdf::{Order, Snapshot};
/// let snapshot = Snapshot::of_ntriples(b"<http://e/a> <http://e/p> \"1\" .\n<http://e/b> <http://e/p> \"2\" .")?;
/// let index = snapshot.index(Order::Spo);
/// let mut cursor = index.cursor();
/// let rows: usize = index.keys().iter().map(|&subject| cursor.range(&[subject]).len()).sum();
/// assert_eq!(rows, 2);
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    index: &'a Index,
    /// Where the last searches ended: a place in the keys, and rows. These are hints; any values give correct results.
    key: usize,
    second: usize,
    third: usize,
}

impl Cursor<'_> {
    /// As [`Index::range`].
    pub fn range(&mut self, prefix: &[Id]) -> Range<usize> {
        let index = self.index;
        match *prefix {
            [] => 0..index.len(),
            [a] => self.first(a),
            [a, b] => {
                let rows = self.first(a);
                equal(&index.second, rows, b, &mut self.second)
            }
            [a, b, c] => {
                let rows = self.first(a);
                let rows = equal(&index.second, rows, b, &mut self.second);
                equal(&index.third, rows, c, &mut self.third)
            }
            _ => panic!("a triple has three ids"),
        }
    }

    fn first(&mut self, id: Id) -> Range<usize> {
        let keys = &self.index.keys;
        self.key = gallop(keys, self.key, |&key| key < id);
        if keys.get(self.key) == Some(&id) {
            self.index.rows_of_key(self.key)
        } else {
            let row = self.index.starts[self.key] as usize;
            row..row
        }
    }
}

/// The rows in `rows` whose id is `id`, searched from `hint` on.
fn equal(column: &[Id], rows: Range<usize>, id: Id, hint: &mut usize) -> Range<usize> {
    let part = &column[rows.clone()];
    let near = hint.saturating_sub(rows.start).min(part.len());
    let start = gallop(part, near, |&other| other < id);
    let count = gallop(&part[start..], 0, |&other| other == id);
    *hint = rows.start + start;
    *hint..*hint + count
}

/// The number of leading items for which `before` is true, as `partition_point`, but searched from `hint` outwards in doubling
/// steps: logarithmic in the distance from there.
///
/// ```
/// assert_eq!(vicus_rdf::index::gallop(&[1, 3, 5, 7], 2, |&item| item < 4), 2);
/// ```
#[inline]
pub fn gallop<T>(items: &[T], hint: usize, before: impl Fn(&T) -> bool) -> usize {
    let hint = hint.min(items.len());
    let (mut low, mut high) = (0, items.len());
    let mut step = 1;
    if hint < items.len() && before(&items[hint]) {
        low = hint + 1;
        while low + step <= items.len() {
            if !before(&items[low + step - 1]) {
                high = low + step - 1;
                break;
            }
            low += step;
            step *= 2;
        }
    } else {
        high = hint;
        while step <= high {
            if before(&items[high - step]) {
                low = high - step + 1;
                break;
            }
            high -= step;
            step *= 2;
        }
    }
    low + items[low..high].partition_point(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn galloping_finds_the_same_place_from_anywhere() {
        for length in 0..40_usize {
            let items: Vec<usize> = (0..length).collect();
            for bound in 0..=length {
                for hint in 0..=length + 1 {
                    assert_eq!(gallop(&items, hint, |&item| item < bound), bound, "of {length} from {hint}");
                }
            }
        }
    }

    #[test]
    fn parts_cover_a_range_without_gaps() {
        for (rows, parts) in [(0..0, 3), (5..6, 3), (5..25, 3), (0..7, 7), (0..7, 1)] {
            let pieces: Vec<_> = Index::split(rows.clone(), parts).collect();
            assert!(pieces.len() <= parts && pieces.iter().all(|piece| !piece.is_empty()));
            assert_eq!(pieces.iter().cloned().flatten().collect::<Vec<_>>(), rows.collect::<Vec<_>>());
        }
    }

    #[test]
    fn arranging_and_restoring_are_inverse() {
        for order in Order::ALL {
            assert_eq!(order.restore(order.arrange([1, 2, 3])), [1, 2, 3]);
        }
        assert_eq!(Order::Osp.arrange(["s", "p", "o"]), ["o", "s", "p"]);
        assert_eq!((Order::Pos.prefix([false, true, true]), Order::Pos.prefix([true, false, true])), (2, 0));
    }
}
