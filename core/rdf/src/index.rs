//! All quads in one order, as columns.
//!
//! ```text
//!  graphs    keys          first row     third  fourth      an index in the order Gpso: of each graph
//!  default ─▶ type ──── 0 ────────▶ ann     Person          the keys are its distinct predicates,
//!             name ──── 2 ──────┐   bob     Person          third the subjects, fourth the objects
//!  e:g ─────▶ type ──── 3 ──┐   └─▶ ann     "Ann"
//!                       4   └─────▶ eve     Person
//! ```
//!
//! A *row* is a quad's place in the order. Rows with a common prefix are contiguous, so a pattern is a range of rows,
//! and a range can be divided among several readers. All columns are packed into as few bits as their blocks need
//! (`core/rdf/src/packed.rs`), and are read through methods.
//!
//! Orders either begin with the graph or end with it. Those ending with it have the quads of named graphs only: they
//! answer queries of all named graphs together, while the default graph is never queried together with others. An index
//! of one graph stores and searches nothing for that graph.

use crate::base::Base;
use crate::changes::Graphs;
use crate::delta::{Row, RowChange};
use crate::ids::Id;
use crate::interrupt::Interrupt;
use crate::placement::StorePlacement;
use crate::present_rows::{Changed, Merged};
use crate::quads::Quads;
use crate::search::{Cursor, Reader, Searcher};
use crate::storage::Backing;
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::library::Piece;
use vicus_flow::{NoMemory, Unfilled, or_given_up};
use vicus_topology::NodeId;

/// A position in a quad.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Position {
    /// The first.
    Subject = 0,
    /// The second.
    Predicate = 1,
    /// The third.
    Object = 2,
    /// The fourth: [`Id::UNBOUND`] is the default graph.
    Graph = 3,
}

impl Position {
    /// All four.
    pub const ALL: [Position; 4] = [Position::Subject, Position::Predicate, Position::Object, Position::Graph];
}

/// The order of an index: `Gpos` is by graph, then predicate, then object, then subject.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Order {
    Gspo,
    Gsop,
    Gpso,
    Gpos,
    Gosp,
    Gops,
    Spog,
    Psog,
    Posg,
    Opsg,
}

impl Order {
    /// All ten.
    pub const ALL: [Order; 10] = [
        Order::Gspo,
        Order::Gsop,
        Order::Gpso,
        Order::Gpos,
        Order::Gosp,
        Order::Gops,
        Order::Spog,
        Order::Psog,
        Order::Posg,
        Order::Opsg,
    ];

    /// The orders of every snapshot. In a graph, and in all named graphs together, every pattern with a bound
    /// predicate, or with only one bound position, is a range.
    pub const USUAL: [Order; 8] =
        [Order::Gspo, Order::Gpso, Order::Gpos, Order::Gops, Order::Spog, Order::Psog, Order::Posg, Order::Opsg];

    /// The positions of a quad on its four levels.
    pub const fn positions(self) -> [Position; 4] {
        use Position::{Graph, Object, Predicate, Subject};
        match self {
            Order::Gspo => [Graph, Subject, Predicate, Object],
            Order::Gsop => [Graph, Subject, Object, Predicate],
            Order::Gpso => [Graph, Predicate, Subject, Object],
            Order::Gpos => [Graph, Predicate, Object, Subject],
            Order::Gosp => [Graph, Object, Subject, Predicate],
            Order::Gops => [Graph, Object, Predicate, Subject],
            Order::Spog => [Subject, Predicate, Object, Graph],
            Order::Psog => [Predicate, Subject, Object, Graph],
            Order::Posg => [Predicate, Object, Subject, Graph],
            Order::Opsg => [Object, Predicate, Subject, Graph],
        }
    }

    /// Whether it begins with the graph. The other orders end with it, and have the quads of named graphs only.
    #[inline]
    pub const fn is_by_graph(self) -> bool {
        (self as u8) < Order::Spog as u8
    }

    /// The level of a position.
    pub fn level(self, position: Position) -> usize {
        self.positions().into_iter().position(|other| other == position).expect("all four are there")
    }

    /// The number of bound leading levels, given the bound ones of subject, predicate, object and graph: the length of
    /// the prefix to search for.
    pub fn prefix(self, bound: [bool; 4]) -> usize {
        self.positions().into_iter().take_while(|&position| bound[position as usize]).count()
    }

    /// Rearranges subject, predicate, object, graph into this order.
    pub fn arrange<T: Copy>(self, quad: [T; 4]) -> [T; 4] {
        self.positions().map(|position| quad[position as usize])
    }

    /// Rearranges a row of this order into subject, predicate, object, graph.
    pub fn restore<T: Copy>(self, row: [T; 4]) -> [T; 4] {
        Position::ALL.map(|position| row[self.level(position)])
    }
}
/// All quads in one order, or those of named graphs. Size, for triples as SP2Bench makes them: 2 to 5 bytes a triple.
///
/// An immutable base, shared by versions, and the rows inserted and deleted since: a [`Delta`](crate::delta::Delta).
/// All methods speak of the merged rows, and so of the keys and graphs that have rows now.
///
/// ```
/// use vicus_rdf::{Id, Order, Snapshot};
/// let snapshot = Snapshot::of_ntriples(b"<http://e/a> <http://e/p> \"1\" .\n<http://e/a> <http://e/p> \"2\" .")?;
/// let index = snapshot.index(Order::Gpso);
/// let rows = index.range(&[Id::UNBOUND, index.key(0)]);
/// assert_eq!(rows, 0..2);
/// assert!(index.values(3, rows).is_sorted());
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Index {
    base: Arc<Base>,
    /// `None` if nothing was changed, so a method finds out with one comparison.
    changed: Option<Arc<Changed>>,
    /// How many changes the base has taken in since it was built with a new dictionary.
    taken_in: usize,
}

/// With this part of a base's rows changed, the next change makes a new base, in memory: it takes no more of it than
/// the changes took.
const SHARE: usize = 8;

/// A base up to this number of rows is small, so a new one takes less time than many reads beside changes: already for
/// this part of them.
const SMALL: usize = 1 << 20;
const SHARE_OF_SMALL: usize = 32;

/// A new base is never made for fewer changes.
const FEWEST: usize = 1024;

impl Index {
    /// From rows in this order, ascending and distinct. Panics at 2^32 rows.
    pub(crate) fn new(order: Order, rows: impl Iterator<Item = Row>, storage: &Backing) -> Result<Index, NoMemory> {
        Ok(Index::of_base(Base::new(order, rows, storage)?))
    }

    /// Without changes.
    pub(crate) fn of_base(base: Base) -> Index {
        Index { base: Arc::new(base), changed: None, taken_in: 0 }
    }

    /// With these strictly ascending changes of rows: inserted rows are absent now, deleted rows are present. Shares
    /// the base and most of the earlier changes with this index.
    pub(crate) fn with(&self, changes: &[(Row, RowChange)], interrupt: &Interrupt<'_>) -> Result<Index, NoMemory> {
        let all = changes.len() + self.changed().map_or(0, |changed| changed.rows().len());
        let share = if self.base.len() < SMALL { SHARE_OF_SMALL } else { SHARE };
        // A base laid over nodes stays there.
        if all >= FEWEST.max(self.base.len() / share) && !self.base.is_laid() {
            let rows = interrupt.each(Applied { rows: self.quads(0..self.len()), row: None, changes });
            // A damaged page is the error of the query reading it, and not of a change of other rows; a delta needs
            // none of them.
            if let Ok(Ok(base)) = or_given_up(|| Base::new(self.order(), rows, &Backing::Memory)) {
                return Ok(Index { base: Arc::new(base), changed: None, taken_in: self.taken_in + all });
            }
            // The request to end is perhaps about this work.
            interrupt.check();
        }
        let changed = Changed::with(self, changes, interrupt)?.map(Arc::new);
        Ok(Index { base: Arc::clone(&self.base), changed, taken_in: self.taken_in })
    }

    /// Without the rows of some graphs. These are to be a large part of all, for the others make a new base in memory,
    /// with the same ids.
    pub(crate) fn without(&self, graphs: Graphs, interrupt: &Interrupt<'_>) -> Result<Index, NoMemory> {
        let graph_level = if self.order().is_by_graph() { 0 } else { 3 };
        let mut quads = self.quads(0..self.len());
        let rows = interrupt.each(std::iter::from_fn(|| quads.next_row())).filter(|row| !graphs.has(row[graph_level]));
        let base = Base::new(self.order(), rows, &Backing::Memory)?;
        Ok(self.with_base(base))
    }

    /// Without rows.
    pub(crate) fn emptied(&self) -> Result<Index, NoMemory> {
        Ok(self.with_base(Base::new(self.order(), std::iter::empty(), &Backing::Memory)?))
    }

    /// With a base of a part of its rows.
    fn with_base(&self, base: Base) -> Index {
        let taken_in = self.change_count() + self.len() - base.len();
        Index { base: Arc::new(base), changed: None, taken_in }
    }

    /// Whether its rows lie on chosen nodes.
    pub(crate) fn is_laid(&self) -> bool {
        self.base.is_laid()
    }

    #[inline]
    pub(crate) fn base(&self) -> &Base {
        &self.base
    }

    #[inline]
    pub(crate) fn changed(&self) -> Option<&Changed> {
        self.changed.as_deref()
    }

    /// The slow half of each method, for an index with changes.
    #[inline]
    pub(crate) fn merged(&self) -> Option<Merged<'_>> {
        self.changed.as_deref().map(|changed| Merged::new(&self.base, changed))
    }

    /// The number of rows inserted or deleted since the index was built with its dictionary. Rows inserted and deleted
    /// again count in part.
    pub fn change_count(&self) -> usize {
        self.taken_in + self.changed.as_ref().map_or(0, |changed| changed.rows().len())
    }

    /// Lays its rows over nodes, a range on each, if there are many rows and several nodes. Panics if other versions
    /// share them.
    pub(crate) fn lay(&mut self, over: &StorePlacement) {
        Arc::get_mut(&mut self.base).expect("an index is laid before it is shared").lay(over);
    }

    /// Ranges of rows as pieces for [`split`](vicus_flow::library::split), cut at changes of the node. The two levels
    /// after the keys lie on this node, without the inserted rows.
    pub fn pieces(&self, rows: Range<usize>) -> Vec<Piece> {
        match self.merged() {
            None => self.base.pieces(rows),
            Some(merged) => merged.pieces(rows),
        }
    }

    /// The node of a row, if it is known; for an inserted row, that of the rows around it. Panics if there is no such
    /// row.
    pub fn home(&self, row: usize) -> Option<NodeId> {
        match self.merged() {
            None => self.base.home(row),
            Some(merged) => merged.home(row),
        }
    }

    /// About how many bytes reading a level of these rows takes: its values are packed. Levels up to the keys take
    /// none, since many rows share one.
    pub fn bytes_of(&self, level: usize, rows: Range<usize>) -> usize {
        match self.merged() {
            None => self.base.bytes_of(level, rows),
            Some(merged) => merged.bytes_of(level, rows),
        }
    }

    /// Its order.
    #[inline]
    pub fn order(&self) -> Order {
        self.base.order()
    }

    /// The number of rows: all quads, or the quads in named graphs if the order ends with the graph.
    pub fn len(&self) -> usize {
        match &self.changed {
            None => self.base.len(),
            Some(changed) => (self.base.len() as isize + changed.rows().net()) as usize,
        }
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The level of the keys: the first one, or the one after the graph.
    #[inline]
    pub fn key_level(&self) -> usize {
        self.base.key_level()
    }

    /// The rows with a prefix of up to four ids, in the order of the index. If there are none, the empty range is at
    /// their place. Takes O(log n). Panics for more than four ids.
    pub fn range(&self, prefix: &[Id]) -> Range<usize> {
        match self.merged() {
            None => self.base.range(prefix),
            Some(merged) => merged.range(prefix),
        }
    }

    /// The number of rows beginning with these ids. Takes O(log n).
    pub fn count(&self, prefix: &[Id]) -> usize {
        self.range(prefix).len()
    }

    /// The rows beginning with up to three ids, with the next id within `ids`: a comparison with a constant.
    pub fn between(&self, prefix: &[Id], ids: Range<Id>) -> Range<usize> {
        match self.merged() {
            None => self.base.between(prefix, ids),
            Some(merged) => merged.between(prefix, ids),
        }
    }

    /// For many searches in ascending order; see [`Cursor`].
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self)
    }

    /// For many searches, in any order, for the id that follows a prefix of up to three ids; see [`Searcher`].
    pub fn searcher(&self, prefix: &[Id]) -> Searcher {
        Searcher::new(self, prefix)
    }

    /// For many reads near each other on a level after the keys; see [`Reader`].
    pub fn reader(&self, level: usize) -> Reader {
        Reader::new(level)
    }

    /// The number of graphs; 0 in an order that ends with the graph.
    pub fn graph_count(&self) -> usize {
        match self.merged() {
            None => self.base.graph_count(),
            Some(merged) => merged.graph_count(),
        }
    }

    /// The graphs, ascending, from this place on; none in an order that ends with the graph. Panics if there are fewer.
    pub fn graphs_from(&self, graph: usize) -> impl ExactSizeIterator<Item = Id> + '_ {
        match self.merged() {
            None => Either::Base(self.base.graphs_from(graph)),
            Some(merged) => Either::Merged((graph..merged.graph_count()).map(move |graph| merged.graph(graph))),
        }
    }

    /// The graph at this place. Panics if there are fewer graphs.
    #[inline]
    pub fn graph(&self, graph: usize) -> Id {
        match self.merged() {
            None => self.base.graph(graph),
            Some(merged) => merged.graph(graph),
        }
    }

    /// The rows of the graph at this place.
    pub fn rows_of_graph(&self, graph: usize) -> Range<usize> {
        match self.merged() {
            None => self.base.rows_of_graph(graph),
            Some(merged) => merged.range(&[merged.graph(graph)]),
        }
    }

    /// The keys of a graph, in an order by graph; in other orders, all.
    #[inline]
    pub fn keys_of(&self, graph: Id) -> Range<usize> {
        match self.merged() {
            None => self.base.keys_of(graph),
            Some(merged) => merged.keys_of(graph),
        }
    }

    /// The number of keys: distinct ids of the first level, or of pairs of a graph and a distinct id in it.
    pub fn key_count(&self) -> usize {
        match self.merged() {
            None => self.base.key_count(),
            Some(merged) => merged.key_count(),
        }
    }

    /// The id of a key. Panics if there are fewer keys.
    #[inline]
    pub fn key(&self, key: usize) -> Id {
        match self.merged() {
            None => self.base.key(key),
            Some(merged) => merged.key(key),
        }
    }

    /// The ids of these keys, which ascend within each graph. Panics if there are fewer.
    pub fn keys(&self, keys: Range<usize>) -> impl ExactSizeIterator<Item = Id> + '_ {
        match self.merged() {
            None => Either::Base(self.base.keys(keys)),
            Some(merged) => Either::Merged(merged.keys(keys)),
        }
    }

    /// The rows of the key at this place.
    #[inline]
    pub fn rows_of_key(&self, key: usize) -> Range<usize> {
        match self.merged() {
            None => self.base.rows_of_key(key),
            Some(merged) => merged.rows_of_key(key),
        }
    }

    /// The rows of each of these keys, one after the other. Panics if there are fewer.
    pub fn rows_of_keys(&self, keys: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        match self.merged() {
            None => Either::Base(self.base.rows_of_keys(keys)),
            Some(merged) => Either::Merged(keys.map(move |key| merged.rows_of_key(key))),
        }
    }

    /// The first of these rows with an id not below `id` on a level after the keys, or their end. The rows must have
    /// the same ids on the levels before. Panics for other levels.
    pub fn lower_bound(&self, level: usize, rows: Range<usize>, id: Id) -> usize {
        match self.merged() {
            None => self.base.lower_bound(level, rows, id),
            Some(merged) => merged.lower_bound(level, rows, id),
        }
    }

    /// The id of a row on a level. Takes O(log n) on the levels up to the keys. Panics for a level above 3, and if
    /// there is no such row.
    #[inline]
    pub fn get(&self, level: usize, row: usize) -> Id {
        match self.merged() {
            None => self.base.get(level, row),
            Some(merged) => merged.get(level, row),
        }
    }

    /// The ids of these rows on one of the two levels after the keys. Panics for other levels.
    pub fn values(&self, level: usize, rows: Range<usize>) -> impl ExactSizeIterator<Item = Id> + '_ {
        match self.merged() {
            None => Either::Base(self.base.values(level, rows)),
            Some(merged) => Either::Merged(merged.values(level, rows)),
        }
    }

    /// The place of a row's key. Takes O(log n).
    pub fn key_of_row(&self, row: usize) -> usize {
        match self.merged() {
            None => self.base.key_of_row(row),
            Some(merged) => merged.key_of_row(row),
        }
    }

    /// Appends any level of these rows as [`Id::bits`]. Panics for a level above 3.
    pub fn fill(&self, level: usize, rows: Range<usize>, column: &mut Unfilled<'_, u64>) {
        match self.merged() {
            None => self.base.fill(level, rows, column),
            Some(merged) => merged.fill(level, rows, column),
        }
    }

    /// Appends any level of these rows, in any order, as [`Id::bits`]. Panics for a level above 3.
    pub fn gather(&self, level: usize, rows: &[u32], into: &mut Unfilled<'_, u64>) {
        match self.merged() {
            None => self.base.gather(level, rows, into),
            Some(merged) => merged.gather(level, rows, into),
        }
    }

    /// One row as subject, predicate, object, graph. Takes O(log n).
    pub fn quad(&self, row: usize) -> [Id; 4] {
        self.order().restore(match self.merged() {
            None => self.base.row(row),
            Some(merged) => merged.row(row),
        })
    }

    /// One row as subject, predicate, object. Takes O(log n).
    pub fn triple(&self, row: usize) -> [Id; 3] {
        let [subject, predicate, object, _] = self.quad(row);
        [subject, predicate, object]
    }

    /// The distinct ids of the level after the keys within rows of one key, with the rows of each.
    pub fn groups(&self, rows: Range<usize>) -> impl Iterator<Item = (Id, Range<usize>)> + '_ {
        let (mut start, level) = (rows.start, self.key_level() + 1);
        std::iter::from_fn(move || {
            if start >= rows.end {
                return None;
            }
            let group = start..self.end_of_group(level, start, rows.end);
            start = group.end;
            Some((self.get(level, group.start), group))
        })
    }

    /// Cuts a range of rows into at most `parts` non-empty ranges of almost equal size.
    pub fn split(rows: Range<usize>, parts: usize) -> impl Iterator<Item = Range<usize>> {
        let parts = parts.min(rows.len());
        let cut = move |part: usize| rows.start + (rows.len() as u128 * part as u128 / parts.max(1) as u128) as usize;
        (0..parts).map(move |part| cut(part)..cut(part + 1))
    }

    /// Like [`Index::split`], but never cuts between rows with the same id on `level`, the level after the prefix of
    /// `rows`. So rows grouped or merged by this id stay together. Parts may differ in size.
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

    /// The first row after `row` with another id on this level, or `end`. The rows from `row` to `end` must have the
    /// same ids on the levels before. Panics for a level above 3.
    #[inline]
    pub fn end_of_group(&self, level: usize, row: usize, end: usize) -> usize {
        match self.merged() {
            None => self.base.end_of_group(level, row, end),
            Some(merged) => merged.end_of_group(level, row, end),
        }
    }

    /// Its memory, in bytes; versions share the base and most of the changes.
    pub fn heap_bytes(&self) -> usize {
        size_of::<Base>() + self.base.heap_bytes() + self.changed.as_ref().map_or(0, |changed| changed.heap_bytes())
    }

    /// The part of these bytes that no other version has.
    pub(crate) fn own_bytes(&self) -> usize {
        let base = if Arc::strong_count(&self.base) == 1 { size_of::<Base>() + self.base.heap_bytes() } else { 0 };
        let changed = self.changed.as_ref().filter(|changed| Arc::strong_count(changed) == 1);
        base + changed.map_or(0, |changed| changed.own_bytes())
    }

    /// Panics if the rows don't ascend, the directories don't fit them, or the changes don't fit the base.
    pub fn assert_valid(&self) {
        self.base.assert_valid();
        if let Some(merged) = self.merged() {
            merged.assert_valid();
        }
    }
}

/// The rows of an index with changes.
struct Applied<'a> {
    rows: Quads<'a>,
    /// The next one, if it was looked at.
    row: Option<Row>,
    changes: &'a [(Row, RowChange)],
}

impl Iterator for Applied<'_> {
    type Item = Row;

    #[inline]
    fn next(&mut self) -> Option<Row> {
        loop {
            let row = self.row.take().or_else(|| self.rows.next_row());
            match (self.changes, row) {
                ([(change, _), ..], Some(row)) if row < *change => return Some(row),
                ([(change, RowChange::Delete), rest @ ..], Some(row)) => {
                    debug_assert_eq!(row, *change, "what is deleted is there");
                    self.changes = rest;
                }
                ([(change, RowChange::Insert), rest @ ..], row) => {
                    (self.changes, self.row) = (rest, row);
                    return Some(*change);
                }
                ([(_, RowChange::Delete), ..], None) => unreachable!("what is deleted is there"),
                ([], row) => return row,
            }
        }
    }
}

/// One of two iterators of the same items.
enum Either<B, M> {
    Base(B),
    Merged(M),
}

impl<B: Iterator, M: Iterator<Item = B::Item>> Iterator for Either<B, M> {
    type Item = B::Item;

    #[inline]
    fn next(&mut self) -> Option<B::Item> {
        match self {
            Either::Base(items) => items.next(),
            Either::Merged(items) => items.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Either::Base(items) => items.size_hint(),
            Either::Merged(items) => items.size_hint(),
        }
    }

    fn fold<T, F: FnMut(T, B::Item) -> T>(self, start: T, with: F) -> T {
        match self {
            Either::Base(items) => items.fold(start, with),
            Either::Merged(items) => items.fold(start, with),
        }
    }
}

impl<B: ExactSizeIterator, M: ExactSizeIterator<Item = B::Item>> ExactSizeIterator for Either<B, M> {}

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
            assert_eq!(order.restore(order.arrange([1, 2, 3, 4])), [1, 2, 3, 4]);
            assert_eq!(order.is_by_graph(), order.positions()[0] == Position::Graph);
        }
        assert_eq!(Order::Gosp.arrange(["s", "p", "o", "g"]), ["g", "o", "s", "p"]);
        assert_eq!(Order::Gpos.prefix([false, true, true, true]), 3);
        assert_eq!(Order::Gpos.prefix([true, false, true, true]), 1);
        assert_eq!(Order::Gpos.prefix([true, true, true, false]), 0);
    }
}
