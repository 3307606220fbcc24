//! All quads in one order as they were when the index was built: its immutable part. [`Index`](crate::Index) tells what
//! the methods do.

use crate::delta::Row;
use crate::ids::Id;
use crate::index::Order;
use crate::packed::{Packed, Packing, Window};
use crate::placement::StorePlacement;
use crate::storage::Backing;
use std::ops::Range;
use vicus_flow::library::Piece;
use vicus_flow::{NoMemory, Unfilled};
use vicus_topology::NodeId;

/// Quads in one order, packed.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) order: Order,
    /// In an order by graph, the graphs with the first key of each, and at the end the greatest graph again with the
    /// number of keys; empty in other orders. Invariant: the keys ascend strictly, and so do the graphs except the
    /// last.
    pub(crate) graphs: Packed<2>,
    /// The only graph, if there is no other: it is found without a search.
    pub(crate) only: Option<Id>,
    /// The distinct ids of the level after the graph, in other orders of the first level, with the first row of each;
    /// and at the end the greatest id again with the number of rows. Invariant: the rows ascend strictly, and so do the
    /// ids of each graph.
    pub(crate) keys: Packed<2>,
    /// The two levels after the keys.
    pub(crate) rows: Packed<2>,
    /// The last level of an order that ends with the graph.
    pub(crate) last: Packed<1>,
}

/// The columns of [`Base::graphs`].
const GRAPH: usize = 0;
const FIRST: usize = 1;

/// The columns of [`Base::keys`].
const KEY: usize = 0;
const START: usize = 1;

/// Where the ids of a level are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lies {
    Graphs,
    Keys,
    Rows(usize),
    Last,
}

/// The key of the last row of a walk over rows.
pub(crate) struct KeyWalk {
    key: usize,
    rows: Range<usize>,
    id: u64,
}

impl Base {
    /// From rows in this order, ascending and distinct. Panics at 2^32 rows.
    pub(crate) fn new(
        order: Order,
        mut rows: impl Iterator<Item = [Id; 4]>,
        storage: &Backing,
    ) -> Result<Base, NoMemory> {
        let (mut graphs, mut keys, mut packing) = (Packing::new(storage), Packing::new(storage), Packing::new(storage));
        let mut last = Packing::new(storage);
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
        Ok(Base { order, graphs, only, keys, rows, last })
    }

    /// Lays its rows over nodes, a range on each, if there are many rows and several nodes.
    pub(crate) fn lay(&mut self, over: &StorePlacement) {
        self.rows.lay(over);
        self.last.lay(over);
    }

    pub(crate) fn pieces(&self, rows: Range<usize>) -> Vec<Piece> {
        let piece =
            |(rows, home): (Range<usize>, Option<NodeId>)| Piece { range: rows.start as u64..rows.end as u64, home };
        self.rows.homes(rows).into_iter().map(piece).collect()
    }

    pub(crate) fn home(&self, row: usize) -> Option<NodeId> {
        self.rows.home(row)
    }

    /// Whether its rows lie on nodes that were chosen.
    pub(crate) fn is_laid(&self) -> bool {
        self.len() > 0 && self.home(0).is_some()
    }

    /// Like [`Index::bytes_of`](crate::Index::bytes_of).
    pub(crate) fn bytes_of(&self, level: usize, rows: Range<usize>) -> usize {
        match self.lies(level) {
            // In front of the rows, one for many of them.
            Lies::Graphs | Lies::Keys => 0,
            Lies::Rows(column) => self.rows.bytes_of(column, rows),
            Lies::Last => self.last.bytes_of(0, rows),
        }
    }

    pub(crate) fn order(&self) -> Order {
        self.order
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    pub(crate) fn lies(&self, level: usize) -> Lies {
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

    #[inline]
    pub(crate) fn key_level(&self) -> usize {
        usize::from(self.order.is_by_graph())
    }

    pub(crate) fn range(&self, prefix: &[Id]) -> Range<usize> {
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

    pub(crate) fn between(&self, prefix: &[Id], ids: Range<Id>) -> Range<usize> {
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

    pub(crate) fn graph_count(&self) -> usize {
        self.graphs.len().saturating_sub(1)
    }

    pub(crate) fn graphs_from(&self, graph: usize) -> impl ExactSizeIterator<Item = Id> + '_ {
        self.graphs.values(GRAPH, graph..self.graph_count()).map(Id::from_bits)
    }

    #[inline]
    pub(crate) fn graph(&self, graph: usize) -> Id {
        assert!(graph < self.graph_count(), "graph {graph} of {}", self.graph_count());
        Id::from_bits(self.graphs.get(GRAPH, graph))
    }

    #[inline]
    pub(crate) fn first_key(&self, graph: usize) -> usize {
        self.graphs.get(FIRST, graph) as usize
    }

    pub(crate) fn rows_of_graph(&self, graph: usize) -> Range<usize> {
        self.start_of_graph(graph)..self.start_of_graph(graph + 1)
    }

    pub(crate) fn start_of_graph(&self, graph: usize) -> usize {
        self.start_of(self.first_key(graph))
    }

    /// The place of this graph, as a range; if there is none, the empty range where it would be. Searched from `hint`.
    #[inline]
    pub(crate) fn find_graph(&self, hint: usize, id: Id, window: &mut Window) -> Range<usize> {
        if self.only == Some(id) {
            return 0..1;
        }
        self.graphs.equal(GRAPH, 0..self.graph_count(), hint, id.bits(), window)
    }

    #[inline]
    pub(crate) fn keys_of(&self, graph: Id) -> Range<usize> {
        if self.only == Some(graph) || !self.order.is_by_graph() {
            return 0..self.key_count();
        }
        let graph = self.graph_range(graph);
        self.first_key(graph.start)..self.first_key(graph.end)
    }

    pub(crate) fn key_count(&self) -> usize {
        self.keys.len() - 1
    }

    #[inline]
    pub(crate) fn key(&self, key: usize) -> Id {
        assert!(key < self.key_count(), "key {key} of {}", self.key_count());
        Id::from_bits(self.keys.get(KEY, key))
    }

    pub(crate) fn keys(&self, keys: Range<usize>) -> impl ExactSizeIterator<Item = Id> + '_ {
        assert!(keys.end <= self.key_count(), "keys {keys:?} of {}", self.key_count());
        self.keys.values(KEY, keys).map(Id::from_bits)
    }

    #[inline]
    pub(crate) fn rows_of_key(&self, key: usize) -> Range<usize> {
        self.read_rows_of_key(key, &mut Window::default())
    }

    pub(crate) fn rows_of_keys(&self, keys: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let start = self.start_of(keys.start);
        let ends = self.keys.values(START, keys.start + 1..keys.end + 1);
        ends.scan(start, |start, end| {
            let rows = *start..end as usize;
            *start = rows.end;
            Some(rows)
        })
    }

    #[inline]
    pub(crate) fn start_of(&self, key: usize) -> usize {
        self.keys.get(START, key) as usize
    }

    /// The place of the key with this id among `keys` of one graph, as a range; if there is none, the empty range where
    /// it would be. Searched from `hint`.
    #[inline]
    pub(crate) fn find_key(&self, keys: Range<usize>, hint: usize, id: Id, window: &mut Window) -> Range<usize> {
        self.keys.only(KEY, keys, hint, id.bits(), window)
    }

    /// Like [`Base::rows_of_key`].
    #[inline]
    pub(crate) fn read_rows_of_key(&self, key: usize, window: &mut Window) -> Range<usize> {
        let [start, end] = self.keys.read_two(START, key, window);
        start as usize..end as usize
    }

    /// The rows of `rows` with this id on the level after the prefix of `rows`, searched from the row `hint`. If there
    /// are none, the empty range is at their place. Panics unless the level is after the keys.
    #[inline]
    pub(crate) fn find(
        &self,
        level: usize,
        rows: Range<usize>,
        hint: usize,
        id: Id,
        window: &mut Window,
    ) -> Range<usize> {
        self.find_in(self.lies(level), rows, hint, id, window)
    }

    /// Like [`Base::find`], at the place of a level.
    #[inline]
    pub(crate) fn find_in(
        &self,
        lies: Lies,
        rows: Range<usize>,
        hint: usize,
        id: Id,
        window: &mut Window,
    ) -> Range<usize> {
        match lies {
            Lies::Rows(column) => self.rows.equal(column, rows, hint, id.bits(), window),
            Lies::Last => self.last.equal(0, rows, hint, id.bits(), window),
            Lies::Graphs | Lies::Keys => no_column(),
        }
    }

    /// The id at a place of a level: a graph, a key, or that of a row.
    pub(crate) fn id_at(&self, level: usize, place: usize) -> Id {
        match self.lies(level) {
            Lies::Graphs => self.graph(place),
            Lies::Keys => self.key(place),
            Lies::Rows(_) | Lies::Last => self.get(level, place),
        }
    }

    /// Like [`Base::get`].
    #[inline]
    pub(crate) fn read(&self, level: usize, row: usize, window: &mut Window) -> Id {
        match self.lies(level) {
            Lies::Rows(column) => Id::from_bits(self.rows.read(column, row, window)),
            Lies::Last => Id::from_bits(self.last.read(0, row, window)),
            Lies::Graphs | Lies::Keys => self.get(level, row),
        }
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

    pub(crate) fn lower_bound(&self, level: usize, rows: Range<usize>, id: Id) -> usize {
        match self.lies(level) {
            Lies::Rows(column) => self.rows.lower_bound(column, rows, None, id.bits()),
            Lies::Last => self.last.lower_bound(0, rows, None, id.bits()),
            Lies::Graphs | Lies::Keys => no_column(),
        }
    }

    #[inline]
    pub(crate) fn get(&self, level: usize, row: usize) -> Id {
        match self.lies(level) {
            Lies::Rows(column) => Id::from_bits(self.rows.get(column, row)),
            Lies::Last => Id::from_bits(self.last.get(0, row)),
            Lies::Keys => self.key(self.key_of_row(row)),
            Lies::Graphs => self.graph(self.graph_of_key(self.key_of_row(row))),
        }
    }

    pub(crate) fn values(&self, level: usize, rows: Range<usize>) -> impl ExactSizeIterator<Item = Id> + '_ {
        let Lies::Rows(column) = self.lies(level) else { no_column() };
        self.rows.values(column, rows).map(Id::from_bits)
    }

    pub(crate) fn key_of_row(&self, row: usize) -> usize {
        self.keys.lower_bound(START, 0..self.keys.len(), None, row as u64 + 1) - 1
    }

    /// The place of a key's graph. Takes O(log n).
    pub(crate) fn graph_of_key(&self, key: usize) -> usize {
        if self.only.is_some() {
            return 0;
        }
        self.graphs.lower_bound(FIRST, 0..self.graphs.len(), None, key as u64 + 1) - 1
    }

    pub(crate) fn fill(&self, level: usize, rows: Range<usize>, column: &mut Unfilled<'_, u64>) {
        match self.lies(level) {
            Lies::Rows(place) => self.rows.fill(place, rows, column),
            Lies::Last => self.last.fill(0, rows, column),
            _ if rows.is_empty() => (),
            Lies::Keys => self.fill_keys(rows, &mut self.key_walk(), column),
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

    /// Before any row.
    pub(crate) fn key_walk(&self) -> KeyWalk {
        KeyWalk { key: 0, rows: 0..0, id: 0 }
    }

    /// Appends the ids of the keys of these rows, which are behind those of the last call.
    pub(crate) fn fill_keys(&self, rows: Range<usize>, at: &mut KeyWalk, column: &mut Unfilled<'_, u64>) {
        let mut row = rows.start;
        while row < rows.end {
            if row >= at.rows.end {
                let next = at.key + 1;
                let is_next = at.rows.end == row && !at.rows.is_empty();
                let key = if is_next { next } else { self.key_of_row(row) };
                *at = KeyWalk { key, rows: self.rows_of_key(key), id: self.keys.get(KEY, key) };
            }
            let end = rows.end.min(at.rows.end);
            column.repeat(at.id, end - row);
            row = end;
        }
    }

    pub(crate) fn gather(&self, level: usize, rows: &[u32], into: &mut Unfilled<'_, u64>) {
        match self.lies(level) {
            Lies::Rows(column) => self.rows.gather(column, rows, into),
            Lies::Last => self.last.gather(0, rows, into),
            Lies::Graphs => into.extend(rows.iter().map(|&row| self.get(level, row as usize).bits())),
            Lies::Keys => {
                // Rows often have the key of the row before.
                let (mut same, mut key, mut id) = (0..0, 0, 0);
                into.extend(rows.iter().map(|&row| {
                    let row = row as usize;
                    if !same.contains(&row) {
                        key = self.keys.lower_bound(START, 0..self.keys.len(), Some(key), row as u64 + 1) - 1;
                        (same, id) = (self.rows_of_key(key), self.keys.get(KEY, key));
                    }
                    id
                }));
            }
        }
    }

    pub(crate) fn row(&self, row: usize) -> Row {
        [0, 1, 2, 3].map(|level| self.get(level, row))
    }

    /// The place of the key beginning with these ids: of a graph and an id, or in an order ending with the graph, of an
    /// id. If there is none, the empty range at its place. Panics for other prefixes.
    pub(crate) fn key_range(&self, prefix: &[Id]) -> Range<usize> {
        let (keys, id) = match *prefix {
            [graph, id] if self.order.is_by_graph() => (self.keys_of(graph), id),
            [id] if !self.order.is_by_graph() => (0..self.key_count(), id),
            _ => panic!("{} ids are no key", prefix.len()),
        };
        self.keys.equal_once(KEY, keys, id.bits())
    }

    /// The place of this graph, as a range; if there is none, the empty range where it would be.
    pub(crate) fn graph_range(&self, graph: Id) -> Range<usize> {
        self.graphs.equal_once(GRAPH, 0..self.graph_count(), graph.bits())
    }

    /// The ids of a key, and of its graph in front if the order is by graph.
    pub(crate) fn ids_of_key(&self, key: usize) -> Row {
        let id = self.key(key);
        let mut ids = [Id::UNBOUND; 4];
        match self.order.is_by_graph() {
            true => ids[..2].copy_from_slice(&[self.graph(self.graph_of_key(key)), id]),
            false => ids[0] = id,
        }
        ids
    }

    /// The id of a key, read through a window.
    #[inline]
    pub(crate) fn read_key(&self, key: usize, window: &mut Window) -> Id {
        Id::from_bits(self.keys.read(KEY, key, window))
    }

    #[inline]
    pub(crate) fn end_of_group(&self, level: usize, row: usize, end: usize) -> usize {
        match self.lies(level) {
            Lies::Graphs => end.min(self.rows_of_graph(self.graph_of_key(self.key_of_row(row))).end),
            Lies::Keys => end.min(self.start_of(self.key_of_row(row) + 1)),
            Lies::Rows(column) => self.rows.end_of_run(column, row, end),
            Lies::Last => self.last.end_of_run(0, row, end),
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.graphs.heap_bytes() + self.keys.heap_bytes() + self.rows.heap_bytes() + self.last.heap_bytes()
    }

    /// Panics if the rows don't ascend or the directories don't fit them.
    pub(crate) fn assert_valid(&self) {
        assert!(self.graphs_from(0).is_sorted_by(|a, b| a < b), "graphs ascend");
        let graphs = if self.order.is_by_graph() { self.graph_count() } else { 1 };
        let mut next = 0;
        for graph in 0..graphs {
            let keys = if self.order.is_by_graph() {
                self.first_key(graph)..self.first_key(graph + 1)
            } else {
                0..self.key_count()
            };
            assert!(keys.start == next && (!keys.is_empty() || self.len() == 0), "no graph without keys");
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
