//! The graphs read by a query: its dataset (SPARQL 1.1, §13), and reading several graphs as one.

use crate::algebra::{At, DEFAULT_GRAPH};
use crate::syntax::ast;
use oxrdf::NamedNode;
use std::ops::Range;
use std::sync::Arc;
use vicus_rdf::{Id, Index, Order, Position, Snapshot};

/// The default graph of a query without FROM.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DefaultGraph {
    /// The graph of the triples outside of all named graphs.
    #[default]
    Own,
    /// The union of all named graphs.
    Union,
}

/// Named graphs read as one: a triple in several of them counts once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Merged {
    /// All of them.
    All,
    /// These graphs, ascending.
    These(Arc<[Id]>),
}

impl Merged {
    #[inline]
    pub(crate) fn has(&self, graph: Id) -> bool {
        match self {
            Merged::All => true,
            Merged::These(all) => all.binary_search(&graph).is_ok(),
        }
    }

    /// Whether a row in front of this one, of an index ending with the graph, has the same triple in one of these
    /// graphs.
    pub(crate) fn repeats(&self, index: &Index, row: usize) -> bool {
        let first = index.rows_of_key(index.key_of_row(row)).start;
        let same = |other: &usize| [1, 2].iter().all(|&level| index.get(level, *other) == index.get(level, row));
        (first..row).rev().take_while(same).any(|other| self.has(index.get(3, other)))
    }

    /// The share of these graphs among the named graphs' triples.
    pub(crate) fn share(&self, snapshot: &Snapshot) -> f64 {
        match self {
            Merged::All => 1.0,
            Merged::These(all) => {
                let index = snapshot.index(Order::Gspo);
                let own: usize = all.iter().map(|graph| index.count(&[*graph])).sum();
                own as f64 / snapshot.named_statistics().triples.max(1) as f64
            }
        }
    }
}

/// The graph being read.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Active {
    One(Id),
    Merged(Merged),
}

impl Active {
    /// The graph at this position; no slot stands for it.
    pub(crate) fn of(graph: At, merged: &Merged) -> Active {
        match graph {
            At::Constant(id) => Active::One(id),
            At::Merged => Active::Merged(merged.clone()),
            At::Slot(slot) => unreachable!("{slot:?} stands for many graphs"),
        }
    }

    /// The index in this order or, if graphs are merged, in the order of the same positions ending with the graph.
    pub(crate) fn index<'s>(&self, snapshot: &'s Snapshot, order: Order) -> &'s Index {
        snapshot.index(match (self, order) {
            (Active::One(_), order) => order,
            (_, Order::Gspo) => Order::Spog,
            (_, Order::Gpso) => Order::Psog,
            (_, Order::Gpos) => Order::Posg,
            (_, Order::Gops) => Order::Opsg,
            (_, other) => panic!("{other:?} has no partner that ends with the graph"),
        })
    }

    /// The index in this order by graph, and its rows with these ids behind the graph. If graphs are merged, some of
    /// the rows may be of others ([`Active::has`]), and rows may have the same triple.
    pub(crate) fn rows<'s>(
        &self,
        snapshot: &'s Snapshot,
        order: Order,
        ids: [Id; 2],
        count: usize,
    ) -> (&'s Index, Range<usize>) {
        let index = self.index(snapshot, order);
        let rows = match self {
            Active::One(graph) => index.range(&[*graph, ids[0], ids[1]][..count + 1]),
            Active::Merged(_) => index.range(&ids[..count]),
        };
        (index, rows)
    }

    /// Whether a row of an index by [`Active::rows`] is of the graph.
    #[inline]
    pub(crate) fn has(&self, index: &Index, row: usize) -> bool {
        match self {
            Active::One(_) | Active::Merged(Merged::All) => true,
            Active::Merged(merged) => merged.has(index.get(index.order().level(Position::Graph), row)),
        }
    }

    /// Whether a row of an index by [`Active::rows`] is of the graph, and the first one with its triple.
    pub(crate) fn keeps(&self, index: &Index, row: usize) -> bool {
        match self {
            Active::One(_) => true,
            Active::Merged(merged) => self.has(index, row) && !merged.repeats(index, row),
        }
    }

    /// Whether a term is a subject or an object.
    pub(crate) fn has_node(&self, snapshot: &Snapshot, id: Id) -> bool {
        [Order::Gspo, Order::Gops].into_iter().any(|order| {
            let (index, mut rows) = self.rows(snapshot, order, [id; 2], 1);
            rows.any(|row| self.has(index, row))
        })
    }

    /// The subjects, or in the order Gops the objects, from this place on: with the place behind each, ascending.
    pub(crate) fn keys<'s>(
        &'s self,
        snapshot: &'s Snapshot,
        order: Order,
        from: usize,
    ) -> impl Iterator<Item = (usize, Id)> + 's {
        let index = self.index(snapshot, order);
        let all = match self {
            Active::One(graph) => index.keys_of(*graph),
            Active::Merged(_) => 0..index.key_count(),
        };
        let places = all.start + from..all.end;
        let is_here = move |key: usize| match self {
            Active::One(_) | Active::Merged(Merged::All) => true,
            Active::Merged(_) => index.rows_of_key(key).any(|row| self.has(index, row)),
        };
        let ids = index.keys(places.clone());
        let start = all.start;
        places.zip(ids).filter(move |(place, _)| is_here(*place)).map(move |(place, id)| (place + 1 - start, id))
    }

    /// About how many subjects and objects there are.
    pub(crate) fn node_count(&self, snapshot: &Snapshot) -> usize {
        let count = |order| match self {
            Active::One(graph) => snapshot.index(order).keys_of(*graph).len(),
            Active::Merged(_) => self.index(snapshot, order).key_count(),
        };
        count(Order::Gspo) + count(Order::Gops)
    }
}

/// The graphs of a query.
pub(crate) struct Dataset {
    /// The graph of patterns outside of GRAPH.
    pub(crate) default: At,
    /// The meaning of [`At::Merged`].
    pub(crate) merged: Merged,
    /// The names of the named graphs; `None` for all of them.
    named: Option<Vec<Id>>,
    snapshot: Arc<Snapshot>,
}

impl Dataset {
    /// The dataset of the query, or else all graphs. `id` gives the id of a term.
    pub(crate) fn new(
        written: Option<&ast::Dataset>,
        default: DefaultGraph,
        snapshot: &Arc<Snapshot>,
        mut id: impl FnMut(&NamedNode) -> Id,
    ) -> Dataset {
        let mut ids = |names: &[NamedNode]| {
            let mut ids: Vec<Id> = names.iter().map(&mut id).collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        let (default, merged, named) = match (written, default) {
            (None, DefaultGraph::Own) => (DEFAULT_GRAPH, Merged::All, None),
            (None, DefaultGraph::Union) => (At::Merged, Merged::All, None),
            (Some(written), _) => {
                let graphs = ids(&written.default);
                let default = if let [only] = graphs[..] { At::Constant(only) } else { At::Merged };
                (default, Merged::These(graphs.into()), written.named.as_deref().map(ids))
            }
        };
        Dataset { default, merged, named, snapshot: Arc::clone(snapshot) }
    }

    /// Whether the query names its named graphs.
    pub(crate) fn is_named(&self) -> bool {
        self.named.is_some()
    }

    /// Whether this is the name of a named graph.
    pub(crate) fn has(&self, graph: Id) -> bool {
        match &self.named {
            Some(named) => named.binary_search(&graph).is_ok(),
            None => !graph.is_unbound() && self.snapshot.index(Order::Gspo).count(&[graph]) > 0,
        }
    }

    /// The names of the named graphs.
    pub(crate) fn names(&self) -> Vec<u64> {
        match &self.named {
            Some(named) => named.iter().map(|id| id.bits()).collect(),
            None => self.snapshot.graphs().map(Id::bits).collect(),
        }
    }
}
