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
//! range can be divided among several readers. All columns are packed into as few bits as their blocks need
//! (`core/rdf/src/packed.rs`), and are read through methods.

use crate::ids::Id;
use crate::packed::{Packed, Packing, Window};
use crate::placed::Placement;
use crate::search::{Cursor, Reader, Searcher};
use std::ops::Range;
use vicus_flow::library::Piece;
use vicus_flow::{NoMemory, Room};
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

/// All triples in one order. Size, for triples as SP2Bench makes them: 2 to 5 bytes a triple.
///
/// ```
/// use vicus_rdf::{Order, Snapshot};
/// let snapshot = Snapshot::of_ntriples(b"<http://e/a> <http://e/p> \"1\" .\n<http://e/a> <http://e/p> \"2\" .")?;
/// let index = snapshot.index(Order::Pso);
/// let rows = index.range(&[index.key(0)]);
/// assert_eq!(rows, 0..2);
/// assert!(index.values(2, rows).is_sorted());
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Debug)]
pub struct Index {
    pub(crate) order: Order,
    /// The distinct ids of the first level with the first row of each, and at the end the greatest id again with the number of
    /// rows. Invariant: the rows ascend strictly, and so do the ids except the last.
    pub(crate) keys: Packed<2>,
    /// The second and the third level.
    pub(crate) rows: Packed<2>,
}

/// The columns of [`Index::keys`].
const KEY: usize = 0;
const START: usize = 1;

impl Index {
    /// From rows in this order, ascending and distinct. Panics at 2^32 rows.
    pub(crate) fn new(order: Order, rows: impl Iterator<Item = [Id; 3]>) -> Result<Index, NoMemory> {
        let (mut keys, mut packing) = (Packing::default(), Packing::default());
        let mut last = None;
        for [a, b, c] in rows {
            if last != Some(a) {
                keys.push([a.bits(), packing.len() as u64])?;
                last = Some(a);
            }
            packing.push([b.bits(), c.bits()])?;
        }
        assert!(u32::try_from(packing.len()).is_ok(), "fewer than 2^32 triples");
        keys.push([last.unwrap_or_default().bits(), packing.len() as u64])?;
        Ok(Index { order, keys: keys.finish()?, rows: packing.finish()? })
    }

    /// Lays its rows over nodes, a range on each, if there are many rows and several nodes.
    pub(crate) fn lay(&mut self, over: &Placement) {
        self.rows.lay(over);
    }

    /// Ranges of rows as pieces for [`split`](vicus_flow::library::split), cut where the node changes. All levels except the
    /// first lie on that node.
    pub fn pieces(&self, rows: Range<usize>) -> Vec<Piece> {
        let piece =
            |(rows, home): (Range<usize>, Option<NodeId>)| Piece { range: rows.start as u64..rows.end as u64, home };
        self.rows.homes(rows).into_iter().map(piece).collect()
    }

    /// The node of a row, if it is known. Panics if there is no such row.
    pub fn home(&self, row: usize) -> Option<NodeId> {
        self.rows.home(row)
    }

    /// Which order this is.
    pub fn order(&self) -> Order {
        self.order
    }

    /// How many rows it has: the number of triples.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows that begin with up to three ids, in the order of the index. If there are none, the empty range is where they
    /// would be. Takes O(log n). Panics for more than three ids.
    pub fn range(&self, prefix: &[Id]) -> Range<usize> {
        let [first, rest @ ..] = prefix else { return 0..self.len() };
        assert!(rest.len() < 3, "a triple has three ids");
        let key = self.find_key(self.key_count() / 2, *first, &mut Window::default());
        let mut rows = self.start_of(key.start)..self.start_of(key.end);
        for (level, id) in rest.iter().enumerate() {
            let middle = rows.start.midpoint(rows.end);
            rows = self.find(level + 1, rows, middle, *id, &mut Window::default());
        }
        rows
    }

    /// The number of rows that begin with these ids. Takes O(log n).
    pub fn count(&self, prefix: &[Id]) -> usize {
        self.range(prefix).len()
    }

    /// The rows that begin with up to two ids and whose next id is within `ids`: a comparison with a constant.
    pub fn between(&self, prefix: &[Id], ids: Range<Id>) -> Range<usize> {
        let bound = |id: Id| match prefix.len() {
            0 => self.start_of(self.keys.lower_bound(KEY, 0..self.key_count(), 0, id.bits())),
            level @ (1 | 2) => self.lower_bound(level, self.range(prefix), id),
            _ => panic!("a prefix of two ids at most, so that one is left to compare"),
        };
        let (start, end) = (bound(ids.start), bound(ids.end));
        start..end.max(start)
    }

    /// For many searches in ascending order; see [`Cursor`].
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self)
    }

    /// For many searches, in any order, for the id that follows a prefix of up to two ids; see [`Searcher`].
    pub fn searcher(&self, prefix: &[Id]) -> Searcher {
        Searcher::new(self, prefix)
    }

    /// For many reads near each other on the level 1 or 2; see [`Reader`].
    pub fn reader(&self, level: usize) -> Reader {
        Reader::new(level)
    }

    /// The number of distinct ids of the first level.
    pub fn key_count(&self) -> usize {
        self.keys.len() - 1
    }

    /// One of the distinct ids of the first level, which ascend. Panics if there are not so many.
    #[inline]
    pub fn key(&self, key: usize) -> Id {
        assert!(key < self.key_count(), "key {key} of {}", self.key_count());
        Id::from_bits(self.keys.get(KEY, key))
    }

    /// The distinct ids of the first level, ascending.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = Id> + '_ {
        self.keys_from(0)
    }

    /// The distinct ids of the first level from this place on, ascending. Panics if there are fewer.
    pub fn keys_from(&self, key: usize) -> impl ExactSizeIterator<Item = Id> + '_ {
        self.keys.values(KEY, key..self.key_count()).map(Id::from_bits)
    }

    /// The rows of the key at this place.
    #[inline]
    pub fn rows_of_key(&self, key: usize) -> Range<usize> {
        self.start_of(key)..self.start_of(key + 1)
    }

    /// The rows of each key, one after the other.
    pub fn rows_of_keys(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let ends = self.keys.values(START, 1..self.keys.len());
        ends.scan(0, |start, end| {
            let rows = *start..end as usize;
            *start = rows.end;
            Some(rows)
        })
    }

    #[inline]
    fn start_of(&self, key: usize) -> usize {
        self.keys.get(START, key) as usize
    }

    /// The place of the key with this id, as a range; if there is none, the empty range where it would be. Searched from `hint`.
    #[inline]
    pub(crate) fn find_key(&self, hint: usize, id: Id, window: &mut Window) -> Range<usize> {
        self.keys.equal(KEY, 0..self.key_count(), hint, id.bits(), window)
    }

    /// As [`Index::rows_of_key`].
    #[inline]
    pub(crate) fn read_rows_of_key(&self, key: usize, window: &mut Window) -> Range<usize> {
        self.keys.read(START, key, window) as usize..self.keys.read(START, key + 1, window) as usize
    }

    /// The rows of `rows` with this id on the level after the prefix that made `rows`, searched from the row `hint`. If there
    /// are none, the empty range is where they would be. Panics unless the level is 1 or 2.
    #[inline]
    pub(crate) fn find(
        &self,
        level: usize,
        rows: Range<usize>,
        hint: usize,
        id: Id,
        window: &mut Window,
    ) -> Range<usize> {
        self.rows.equal(column(level), rows, hint, id.bits(), window)
    }

    /// As [`Index::get`].
    #[inline]
    pub(crate) fn read(&self, level: usize, row: usize, window: &mut Window) -> Id {
        Id::from_bits(self.rows.read(column(level), row, window))
    }

    /// The ids of the first of these rows on the level 1 or 2: of at least one.
    #[inline]
    pub(crate) fn slice<'w>(&self, level: usize, rows: Range<usize>, window: &'w mut Window) -> &'w [Id] {
        Id::slice(self.rows.slice(column(level), rows, window))
    }

    /// The first of these rows whose id on the level 1 or 2 is not below `id`, or their end. The rows must have the same ids on
    /// the levels before. Panics for other levels.
    pub fn lower_bound(&self, level: usize, rows: Range<usize>, id: Id) -> usize {
        self.rows.lower_bound(column(level), rows.clone(), rows.start, id.bits())
    }

    /// The id of a row on the level 1 or 2. Panics for other levels, and if there is no such row.
    #[inline]
    pub fn get(&self, level: usize, row: usize) -> Id {
        Id::from_bits(self.rows.get(column(level), row))
    }

    /// The ids of these rows on the level 1 or 2. Panics for other levels.
    pub fn values(&self, level: usize, rows: Range<usize>) -> impl ExactSizeIterator<Item = Id> + '_ {
        self.rows.values(column(level), rows).map(Id::from_bits)
    }

    /// The place of a row's key. Takes O(log n).
    pub fn key_of_row(&self, row: usize) -> usize {
        self.keys.lower_bound(START, 0..self.keys.len(), 0, row as u64 + 1) - 1
    }

    /// Appends the first level of these rows, which is not stored by row, as [`Id::bits`].
    pub fn fill_first(&self, rows: Range<usize>, column: &mut Room<'_, u64>) {
        let mut row = rows.start;
        if rows.is_empty() {
            return;
        }
        let mut key = self.key_of_row(row);
        while row < rows.end {
            let end = rows.end.min(self.start_of(key + 1));
            column.repeat(self.keys.get(KEY, key), end - row);
            row = end;
            key += 1;
        }
    }

    /// Appends any level of these rows as [`Id::bits`]. Panics for a level above 2.
    pub fn fill(&self, level: usize, rows: Range<usize>, into: &mut Room<'_, u64>) {
        match level {
            0 => self.fill_first(rows, into),
            level => self.rows.fill(column(level), rows, into),
        }
    }

    /// Appends the level 1 or 2 of rows in any order as [`Id::bits`]. Panics for other levels.
    pub fn gather(&self, level: usize, rows: &[u32], into: &mut Room<'_, u64>) {
        self.rows.gather(column(level), rows, into);
    }

    /// One row as subject, predicate, object. Takes O(log n).
    pub fn triple(&self, row: usize) -> [Id; 3] {
        self.order.restore([self.key(self.key_of_row(row)), self.get(1, row), self.get(2, row)])
    }

    /// The distinct ids of the second level within rows of one key, with the rows of each.
    pub fn groups(&self, rows: Range<usize>) -> impl Iterator<Item = (Id, Range<usize>)> + '_ {
        let mut start = rows.start;
        std::iter::from_fn(move || {
            if start >= rows.end {
                return None;
            }
            let group = start..self.end_of_group(1, start, rows.end);
            start = group.end;
            Some((self.get(1, group.start), group))
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
            let to = if part.end == rows.end { rows.end } else { self.end_of_group(level, part.end - 1, rows.end) };
            let piece = from..to.max(from);
            from = piece.end;
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// The first row after `row` with another id on this level, or `end`. The rows from `row` to `end` must have the same ids on
    /// the levels before. Panics for a level above 2.
    #[inline]
    pub fn end_of_group(&self, level: usize, row: usize, end: usize) -> usize {
        match level {
            0 => end.min(self.start_of(self.key_of_row(row) + 1)),
            level => self.rows.end_of_run(column(level), row, end),
        }
    }

    /// The memory that it holds, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.keys.heap_bytes() + self.rows.heap_bytes()
    }

    /// Panics if the rows don't ascend or the directory doesn't fit them.
    pub fn assert_valid(&self) {
        assert!(self.keys().is_sorted_by(|a, b| a < b), "keys ascend");
        let starts = || self.keys.values(START, 0..self.keys.len());
        assert!(starts().is_sorted_by(|a, b| a < b), "no key without rows");
        assert_eq!(starts().next(), Some(0), "the first key begins at the first row");
        assert_eq!(self.start_of(self.key_count()), self.len(), "the directory covers all rows");
        for rows in self.rows_of_keys() {
            let pairs = self.values(1, rows.clone()).zip(self.values(2, rows));
            assert!(pairs.is_sorted_by(|a, b| a < b), "rows of a key ascend, and none is twice there");
        }
    }
}

/// The column of [`Index::rows`] that has this level.
#[inline]
fn column(level: usize) -> usize {
    match level {
        1 => 0,
        2 => 1,
        _ => panic!("of a triple's three levels, the second and the third have a column"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
