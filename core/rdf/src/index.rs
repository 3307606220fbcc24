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
//! A *row* is a quad's place in the order. Rows with a common prefix are contiguous, so a pattern is a range of rows, and a
//! range can be divided among several readers. All columns are packed into as few bits as their blocks need
//! (`core/rdf/src/packed.rs`), and are read through methods.
//!
//! Orders either begin with the graph or end with it. Those that end with it have the quads of named graphs only: they answer
//! what is asked of all named graphs together, while the default graph is never asked for together with others. An index of one
//! graph stores and searches nothing for that graph.

use crate::ids::Id;
use crate::packed::{Packed, Packing, Window};
use crate::placed::Placement;
use crate::search::{Cursor, Reader, Searcher};
use std::ops::Range;
use vicus_flow::library::Piece;
use vicus_flow::{NoMemory, Room};
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

    /// The orders that a store always has. In a graph, and in all named graphs together, every pattern that binds the predicate,
    /// or only one position, is a range.
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

    /// The level on which a position is.
    pub fn level(self, position: Position) -> usize {
        self.positions().into_iter().position(|other| other == position).expect("all four are there")
    }

    /// How many leading levels are bound, given which of subject, predicate, object and graph are: the length of the prefix to
    /// search for.
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
/// ```
/// use vicus_rdf::{Id, Order, Snapshot};
/// let snapshot = Snapshot::of_ntriples(b"<http://e/a> <http://e/p> \"1\" .\n<http://e/a> <http://e/p> \"2\" .")?;
/// let index = snapshot.index(Order::Gpso);
/// let rows = index.range(&[Id::UNBOUND, index.key(0)]);
/// assert_eq!(rows, 0..2);
/// assert!(index.values(3, rows).is_sorted());
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Debug)]
pub struct Index {
    order: Order,
    /// In an order by graph, the graphs with the first key of each, and at the end the greatest graph again with the number of
    /// keys; empty in other orders. Invariant: the keys ascend strictly, and so do the graphs except the last.
    graphs: Packed<2>,
    /// The only graph, if there is no other: it is found without a search.
    only: Option<Id>,
    /// The distinct ids of the level after the graph, in other orders of the first level, with the first row of each; and at the
    /// end the greatest id again with the number of rows. Invariant: the rows ascend strictly, and so do the ids of each graph.
    keys: Packed<2>,
    /// The two levels after the keys.
    rows: Packed<2>,
    /// The last level of an order that ends with the graph.
    last: Packed<1>,
}

/// The columns of [`Index::graphs`].
const GRAPH: usize = 0;
const FIRST: usize = 1;

/// The columns of [`Index::keys`].
const KEY: usize = 0;
const START: usize = 1;

/// Where the ids of a level are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lies {
    Graphs,
    Keys,
    Rows(usize),
    Last,
}

impl Index {
    /// From rows in this order, ascending and distinct. Panics at 2^32 rows.
    pub(crate) fn new(order: Order, mut rows: impl Iterator<Item = [Id; 4]>) -> Result<Index, NoMemory> {
        let (mut graphs, mut keys, mut packing) = (Packing::default(), Packing::default(), Packing::default());
        let mut last = Packing::default();
        let (mut graph, mut key) = (Id::UNBOUND, None);
        if order.is_by_graph() {
            rows.try_for_each(|[a, b, c, d]| {
                if key.is_none() || graph != a {
                    graphs.push([a.bits(), keys.len() as u64])?;
                    (graph, key) = (a, None);
                }
                if key != Some(b) {
                    keys.push([b.bits(), packing.len() as u64])?;
                    key = Some(b);
                }
                packing.push([c.bits(), d.bits()])
            })?;
        } else {
            rows.try_for_each(|[a, b, c, d]| {
                if key != Some(a) {
                    keys.push([a.bits(), packing.len() as u64])?;
                    key = Some(a);
                }
                packing.push([b.bits(), c.bits()])?;
                last.push([d.bits()])
            })?;
        }
        assert!(u32::try_from(packing.len()).is_ok(), "fewer than 2^32 quads");
        let only = (graphs.len() == 1).then_some(graph);
        if order.is_by_graph() {
            graphs.push([graph.bits(), keys.len() as u64])?;
        }
        keys.push([key.unwrap_or_default().bits(), packing.len() as u64])?;
        let (graphs, keys, rows, last) = (graphs.finish()?, keys.finish()?, packing.finish()?, last.finish()?);
        Ok(Index { order, graphs, only, keys, rows, last })
    }

    /// Lays its rows over nodes, a range on each, if there are many rows and several nodes.
    pub(crate) fn lay(&mut self, over: &Placement) {
        self.rows.lay(over);
        self.last.lay(over);
    }

    /// Ranges of rows as pieces for [`split`](vicus_flow::library::split), cut where the node changes. The two levels after the
    /// keys lie on that node.
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

    /// How many rows it has: the number of quads, in an order that ends with the graph of those in named graphs.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn lies(&self, level: usize) -> Lies {
        // As if orders that end with the graph had an empty level in front.
        match level + usize::from(!self.order.is_by_graph()) {
            0 => Lies::Graphs,
            1 => Lies::Keys,
            2 => Lies::Rows(0),
            3 => Lies::Rows(1),
            4 if !self.order.is_by_graph() => Lies::Last,
            _ => panic!("a quad has four levels"),
        }
    }

    /// The level of the keys: the first one, or the one after the graph.
    #[inline]
    pub fn key_level(&self) -> usize {
        usize::from(self.order.is_by_graph())
    }

    /// The rows that begin with up to four ids, in the order of the index. If there are none, the empty range is where they
    /// would be. Takes O(log n). Panics for more than four ids.
    pub fn range(&self, prefix: &[Id]) -> Range<usize> {
        assert!(prefix.len() <= 4, "a quad has four ids");
        let (keys, rest) = match prefix {
            [] => return 0..self.len(),
            [graph, rest @ ..] if self.order.is_by_graph() => (self.keys_of(*graph), rest),
            rest => (0..self.key_count(), rest),
        };
        let [first, rest @ ..] = rest else { return self.start_of(keys.start)..self.start_of(keys.end) };
        let key = self.keys.equal_once(KEY, keys, first.bits());
        let mut rows = if key.is_empty() {
            self.start_of(key.start)..self.start_of(key.start)
        } else {
            self.rows_of_key(key.start)
        };
        for (level, id) in (self.key_level() + 1..).zip(rest) {
            rows = match self.lies(level) {
                Lies::Last => self.last.equal_once(0, rows, id.bits()),
                Lies::Rows(column) => self.rows.equal_once(column, rows, id.bits()),
                Lies::Graphs | Lies::Keys => no_column(),
            };
        }
        rows
    }

    /// The number of rows that begin with these ids. Takes O(log n).
    pub fn count(&self, prefix: &[Id]) -> usize {
        self.range(prefix).len()
    }

    /// The rows that begin with up to three ids and whose next id is within `ids`: a comparison with a constant.
    pub fn between(&self, prefix: &[Id], ids: Range<Id>) -> Range<usize> {
        assert!(prefix.len() < 4, "a prefix of three ids at most, so that one is left to compare");
        let bound = |id: Id| match self.lies(prefix.len()) {
            Lies::Graphs => {
                let graph = self.graphs.lower_bound(GRAPH, 0..self.graph_count(), None, id.bits());
                self.start_of(self.first_key(graph))
            }
            Lies::Keys => {
                let keys = prefix.first().map_or(0..self.key_count(), |graph| self.keys_of(*graph));
                self.start_of(self.keys.lower_bound(KEY, keys, None, id.bits()))
            }
            Lies::Rows(_) | Lies::Last => self.lower_bound(prefix.len(), self.range(prefix), id),
        };
        let (start, end) = (bound(ids.start), bound(ids.end));
        start..end.max(start)
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
        self.graphs.len().saturating_sub(1)
    }

    /// The graphs, ascending, from this place on; none in an order that ends with the graph. Panics if there are fewer.
    pub fn graphs_from(&self, graph: usize) -> impl ExactSizeIterator<Item = Id> + '_ {
        self.graphs.values(GRAPH, graph..self.graph_count()).map(Id::from_bits)
    }

    /// The graph at this place. Panics if there are not so many.
    #[inline]
    pub fn graph(&self, graph: usize) -> Id {
        assert!(graph < self.graph_count(), "graph {graph} of {}", self.graph_count());
        Id::from_bits(self.graphs.get(GRAPH, graph))
    }

    #[inline]
    fn first_key(&self, graph: usize) -> usize {
        self.graphs.get(FIRST, graph) as usize
    }

    /// The rows of the graph at this place.
    pub fn rows_of_graph(&self, graph: usize) -> Range<usize> {
        self.start_of(self.first_key(graph))..self.start_of(self.first_key(graph + 1))
    }

    /// The place of this graph, as a range; if there is none, the empty range where it would be. Searched from `hint`.
    #[inline]
    pub(crate) fn find_graph(&self, hint: usize, id: Id, window: &mut Window) -> Range<usize> {
        if self.only == Some(id) {
            return 0..1;
        }
        self.graphs.equal(GRAPH, 0..self.graph_count(), hint, id.bits(), window)
    }

    /// The keys of a graph, in an order by graph; in other orders, all.
    #[inline]
    pub fn keys_of(&self, graph: Id) -> Range<usize> {
        if self.only == Some(graph) || !self.order.is_by_graph() {
            return 0..self.key_count();
        }
        let graph = self.graphs.equal_once(GRAPH, 0..self.graph_count(), graph.bits());
        self.first_key(graph.start)..self.first_key(graph.end)
    }

    /// The number of keys: distinct ids of the first level, or of pairs of a graph and a distinct id in it.
    pub fn key_count(&self) -> usize {
        self.keys.len() - 1
    }

    /// The id of a key. Panics if there are not so many.
    #[inline]
    pub fn key(&self, key: usize) -> Id {
        assert!(key < self.key_count(), "key {key} of {}", self.key_count());
        Id::from_bits(self.keys.get(KEY, key))
    }

    /// The ids of these keys, which ascend within each graph. Panics if there are fewer.
    pub fn keys(&self, keys: Range<usize>) -> impl ExactSizeIterator<Item = Id> + '_ {
        assert!(keys.end <= self.key_count(), "keys {keys:?} of {}", self.key_count());
        self.keys.values(KEY, keys).map(Id::from_bits)
    }

    /// The rows of the key at this place.
    #[inline]
    pub fn rows_of_key(&self, key: usize) -> Range<usize> {
        self.read_rows_of_key(key, &mut Window::default())
    }

    /// The rows of each of these keys, one after the other. Panics if there are fewer.
    pub fn rows_of_keys(&self, keys: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let start = self.start_of(keys.start);
        let ends = self.keys.values(START, keys.start + 1..keys.end + 1);
        ends.scan(start, |start, end| {
            let rows = *start..end as usize;
            *start = rows.end;
            Some(rows)
        })
    }

    #[inline]
    fn start_of(&self, key: usize) -> usize {
        self.keys.get(START, key) as usize
    }

    /// The place of the key with this id among `keys` of one graph, as a range; if there is none, the empty range where it would
    /// be. Searched from `hint`.
    #[inline]
    pub(crate) fn find_key(&self, keys: Range<usize>, hint: usize, id: Id, window: &mut Window) -> Range<usize> {
        self.keys.only(KEY, keys, hint, id.bits(), window)
    }

    /// As [`Index::rows_of_key`].
    #[inline]
    pub(crate) fn read_rows_of_key(&self, key: usize, window: &mut Window) -> Range<usize> {
        let [start, end] = self.keys.read_two(START, key, window);
        start as usize..end as usize
    }

    /// The rows of `rows` with this id on the level after the prefix that made `rows`, searched from the row `hint`. If there
    /// are none, the empty range is where they would be. Panics unless the level is after the keys.
    #[inline]
    pub(crate) fn find(
        &self,
        level: usize,
        rows: Range<usize>,
        hint: usize,
        id: Id,
        window: &mut Window,
    ) -> Range<usize> {
        match self.lies(level) {
            Lies::Rows(column) => self.rows.equal(column, rows, hint, id.bits(), window),
            Lies::Last => self.last.equal(0, rows, hint, id.bits(), window),
            Lies::Graphs | Lies::Keys => no_column(),
        }
    }

    /// As [`Index::get`].
    #[inline]
    pub(crate) fn read(&self, level: usize, row: usize, window: &mut Window) -> Id {
        Id::from_bits(match self.lies(level) {
            Lies::Rows(column) => self.rows.read(column, row, window),
            Lies::Last => self.last.read(0, row, window),
            Lies::Graphs | Lies::Keys => no_column(),
        })
    }

    /// The ids of the first of these rows on a level after the keys: of at least one.
    #[inline]
    pub(crate) fn slice<'w>(&self, level: usize, rows: Range<usize>, window: &'w mut Window) -> &'w [Id] {
        Id::slice(match self.lies(level) {
            Lies::Rows(column) => self.rows.slice(column, rows, window),
            Lies::Last => self.last.slice(0, rows, window),
            Lies::Graphs | Lies::Keys => no_column(),
        })
    }

    /// The first of these rows whose id on a level after the keys is not below `id`, or their end. The rows must have the same
    /// ids on the levels before. Panics for other levels.
    pub fn lower_bound(&self, level: usize, rows: Range<usize>, id: Id) -> usize {
        match self.lies(level) {
            Lies::Rows(column) => self.rows.lower_bound(column, rows, None, id.bits()),
            Lies::Last => self.last.lower_bound(0, rows, None, id.bits()),
            Lies::Graphs | Lies::Keys => no_column(),
        }
    }

    /// The id of a row on a level after the keys. Panics for other levels, and if there is no such row.
    #[inline]
    pub fn get(&self, level: usize, row: usize) -> Id {
        Id::from_bits(match self.lies(level) {
            Lies::Rows(column) => self.rows.get(column, row),
            Lies::Last => self.last.get(0, row),
            Lies::Graphs | Lies::Keys => no_column(),
        })
    }

    /// The ids of these rows on one of the two levels after the keys. Panics for other levels.
    pub fn values(&self, level: usize, rows: Range<usize>) -> impl ExactSizeIterator<Item = Id> + '_ {
        let Lies::Rows(column) = self.lies(level) else { no_column() };
        self.rows.values(column, rows).map(Id::from_bits)
    }

    /// The place of a row's key. Takes O(log n).
    pub fn key_of_row(&self, row: usize) -> usize {
        self.keys.lower_bound(START, 0..self.keys.len(), None, row as u64 + 1) - 1
    }

    /// The place of a key's graph. Takes O(log n).
    fn graph_of_key(&self, key: usize) -> usize {
        if self.only.is_some() {
            return 0;
        }
        self.graphs.lower_bound(FIRST, 0..self.graphs.len(), None, key as u64 + 1) - 1
    }

    /// Appends any level of these rows as [`Id::bits`]. Panics for a level above 3.
    pub fn fill(&self, level: usize, rows: Range<usize>, column: &mut Room<'_, u64>) {
        match self.lies(level) {
            Lies::Rows(place) => self.rows.fill(place, rows, column),
            Lies::Last => self.last.fill(0, rows, column),
            _ if rows.is_empty() => (),
            Lies::Keys => {
                let (mut row, mut key) = (rows.start, self.key_of_row(rows.start));
                while row < rows.end {
                    let end = rows.end.min(self.start_of(key + 1));
                    column.repeat(self.keys.get(KEY, key), end - row);
                    (row, key) = (end, key + 1);
                }
            }
            Lies::Graphs => {
                let (mut row, mut graph) = (rows.start, self.graph_of_key(self.key_of_row(rows.start)));
                while row < rows.end {
                    let end = rows.end.min(self.rows_of_graph(graph).end);
                    column.repeat(self.graphs.get(GRAPH, graph), end - row);
                    (row, graph) = (end, graph + 1);
                }
            }
        }
    }

    /// Appends a level after the keys of these rows, in any order, as [`Id::bits`]. Panics for other levels.
    pub fn gather(&self, level: usize, rows: &[u32], into: &mut Room<'_, u64>) {
        match self.lies(level) {
            Lies::Rows(column) => self.rows.gather(column, rows, into),
            Lies::Last => self.last.gather(0, rows, into),
            Lies::Graphs | Lies::Keys => no_column(),
        }
    }

    /// One row as subject, predicate, object, graph. Takes O(log n).
    pub fn quad(&self, row: usize) -> [Id; 4] {
        let key = self.key_of_row(row);
        self.order.restore([0, 1, 2, 3].map(|level| match self.lies(level) {
            Lies::Graphs => self.graph(self.graph_of_key(key)),
            Lies::Keys => self.key(key),
            Lies::Rows(_) | Lies::Last => self.get(level, row),
        }))
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

    /// As [`Index::split`], but never cuts between rows with the same id on `level`, the level after the prefix that
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
    /// the levels before. Panics for a level above 3.
    #[inline]
    pub fn end_of_group(&self, level: usize, row: usize, end: usize) -> usize {
        match self.lies(level) {
            Lies::Graphs => end.min(self.rows_of_graph(self.graph_of_key(self.key_of_row(row))).end),
            Lies::Keys => end.min(self.start_of(self.key_of_row(row) + 1)),
            Lies::Rows(column) => self.rows.end_of_run(column, row, end),
            Lies::Last => self.last.end_of_run(0, row, end),
        }
    }

    /// The memory that it holds, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.graphs.heap_bytes() + self.keys.heap_bytes() + self.rows.heap_bytes() + self.last.heap_bytes()
    }

    /// Panics if the rows don't ascend or the directories don't fit them.
    pub fn assert_valid(&self) {
        assert!(self.graphs_from(0).is_sorted_by(|a, b| a < b), "graphs ascend");
        let graphs = if self.order.is_by_graph() { self.graph_count() } else { 1 };
        let mut next = 0;
        for graph in 0..graphs {
            let keys = if self.order.is_by_graph() {
                self.first_key(graph)..self.first_key(graph + 1)
            } else {
                0..self.key_count()
            };
            assert!(keys.start == next && (!keys.is_empty() || self.is_empty()), "no graph without keys");
            assert!(self.keys(keys.clone()).is_sorted_by(|a, b| a < b), "keys ascend");
            next = keys.end;
        }
        assert_eq!(next, self.key_count(), "the graphs cover all keys");
        let starts = || self.keys.values(START, 0..self.keys.len());
        assert!(starts().is_sorted_by(|a, b| a < b), "no key without rows");
        assert_eq!(starts().next(), Some(0), "the first key begins at the first row");
        assert_eq!(self.start_of(self.key_count()), self.len(), "the directory covers all rows");
        assert_eq!(self.last.len(), if self.order.is_by_graph() { 0 } else { self.len() }, "each row has a graph");
        for rows in self.rows_of_keys(0..self.key_count()) {
            let row = |row: usize| {
                let last = if self.last.len() == 0 { 0 } else { self.last.get(0, row) };
                (self.rows.get(0, row), self.rows.get(1, row), last)
            };
            assert!(rows.map(row).is_sorted_by(|a, b| a < b), "rows of a key ascend, and none is twice there");
        }
    }
}

#[cold]
fn no_column() -> ! {
    panic!("of the four levels, those after the keys have a column")
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
            assert_eq!(order.restore(order.arrange([1, 2, 3, 4])), [1, 2, 3, 4]);
            assert_eq!(order.is_by_graph(), order.positions()[0] == Position::Graph);
        }
        assert_eq!(Order::Gosp.arrange(["s", "p", "o", "g"]), ["g", "o", "s", "p"]);
        assert_eq!(Order::Gpos.prefix([false, true, true, true]), 3);
        assert_eq!(Order::Gpos.prefix([true, false, true, true]), 1);
        assert_eq!(Order::Gpos.prefix([true, true, true, false]), 0);
    }
}
