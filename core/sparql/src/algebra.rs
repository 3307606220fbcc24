//! A query as a tree of operators over numbered variables: the form for the optimiser.
//!
//! SPARQL 1.1 Query Language, §18. We differ in three points to make rewriting easy. Variables are *slots*, and a
//! variable outside a sub-select's projection has a slot of its own, so no slot ever means two things. A variable out
//! of an expression's sight is an error value there already. And joins and filters have any number of operands.

use crate::condition::Kinds;
use crate::expression::Expr;
use crate::route::Route;
use crate::value::Numbers;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};
use vicus_language::stack::deep;
use vicus_rdf::Id;

/// A variable or blank node of a query, by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Slot(pub(crate) usize);

pub(crate) use crate::slots::Slots;

/// The content of a position of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum At {
    Slot(Slot),
    /// A term; if the store doesn't have it, an id without triples.
    Constant(Id),
    /// In place of a graph: the merge of several named graphs, the same ones in the whole query
    /// ([`Merged`](crate::graphs::Merged)).
    Merged,
}

impl At {
    pub(crate) fn slot(self) -> Option<Slot> {
        match self {
            At::Slot(slot) => Some(slot),
            At::Constant(_) | At::Merged => None,
        }
    }

    pub(crate) fn constant(self) -> Option<Id> {
        match self {
            At::Constant(id) => Some(id),
            At::Slot(_) | At::Merged => None,
        }
    }
}

/// A pattern: subject, predicate, object, graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pattern(pub(crate) [At; 4]);

/// In a pattern: the default graph of the data.
pub(crate) const DEFAULT_GRAPH: At = At::Constant(Id::UNBOUND);

impl Pattern {
    /// Subject, predicate and object.
    pub(crate) fn ends(&self) -> [At; 3] {
        let [subject, predicate, object, _] = self.0;
        [subject, predicate, object]
    }

    pub(crate) fn graph(&self) -> At {
        self.0[3]
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.0.into_iter().filter_map(At::slot)
    }
}

/// A property path of any length. Each pair of ends is one solution.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Path {
    pub(crate) subject: At,
    pub(crate) route: Arc<Route>,
    pub(crate) object: At,
    /// The graph of the whole path.
    pub(crate) graph: At,
}

impl Path {
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        [self.subject, self.object, self.graph].into_iter().filter_map(At::slot)
    }
}

/// One key of ORDER BY; expressions were computed into slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SortKey {
    pub(crate) slot: Slot,
    pub(crate) descending: bool,
}

/// How the values of a group become one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fold {
    Count,
    Sum,
    Average,
    Least,
    Greatest,
    Sample,
    /// The texts, with this separator between them.
    Concat(String),
}

/// One aggregate; its expression was computed into a slot before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Aggregate {
    /// The slot for the result.
    pub(crate) slot: Slot,
    pub(crate) fold: Fold,
    /// The folded slot. For `COUNT(*)`, which counts rows, all slots of a row.
    pub(crate) of: Vec<Slot>,
    pub(crate) rows: bool,
    pub(crate) distinct: bool,
}

/// GROUP BY: rows with the same keys become one row. Only the keys and the results are visible outside.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Group {
    pub(crate) inner: Operand,
    pub(crate) keys: Vec<Slot>,
    pub(crate) folds: Vec<Aggregate>,
}

/// A table written in the query (VALUES). [`Table::unit`] is the one solution without variables.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: usize,
}

/// A column of a table, with facts for the planner. A column may be long, so copies share its ids.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Column {
    /// [`Id::bits`]: 0 where a row has no value.
    pub(crate) ids: Arc<[u64]>,
    pub(crate) kinds: Kinds,
    /// Whether each row has a value.
    pub(crate) certain: bool,
}

impl Table {
    /// One row without columns.
    pub(crate) fn unit() -> Table {
        Table { columns: Vec::new(), rows: 1 }
    }
}

impl Column {
    pub(crate) fn new(ids: Vec<u64>) -> Column {
        let kinds = ids.iter().fold(Kinds::NONE, |all, &bits| all.or(Kinds::of_id(Id::from_bits(bits))));
        Column { kinds, certain: !ids.contains(&Id::UNBOUND.bits()), ids: ids.into() }
    }
}

/// A group answered by an endpoint: SPARQL 1.1 Federated Query.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Service {
    pub(crate) endpoint: Endpoint,
    /// Whether a failure is an answer: one solution without values.
    pub(crate) silent: bool,
    /// The group as written, with its braces; before it, the prefixes and the base.
    pub(crate) prologue: Arc<str>,
    pub(crate) group: Arc<str>,
    /// The variables possibly bound by the group.
    pub(crate) variables: Vec<(String, Slot)>,
}

/// The endpoint of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Endpoint {
    Iri(Arc<str>),
    Slot(Slot),
}

impl Service {
    /// The slots possibly bound by the group.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.variables.iter().map(|(_, slot)| *slot)
    }

    /// The slots read or bound here.
    pub(crate) fn mentioned(&self) -> impl Iterator<Item = Slot> + '_ {
        let endpoint = match self.endpoint {
            Endpoint::Slot(slot) => Some(slot),
            Endpoint::Iri(_) => None,
        };
        self.slots().chain(endpoint)
    }
}

/// An operator with its operands.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Node {
    Pattern(Pattern),
    Path(Path),
    /// All compatible solutions of the operands. Without operands: one empty solution.
    Join(Vec<Node>),
    /// The solutions that meet all conditions.
    Filter {
        conditions: Vec<Expr>,
        inner: Operand,
    },
    LeftJoin {
        left: Operand,
        right: Operand,
        conditions: Vec<Expr>,
    },
    /// The rows of the left side without a partner on the right: OPTIONAL with `!bound`. Right slots stay unbound.
    AntiJoin {
        left: Operand,
        right: Operand,
        conditions: Vec<Expr>,
    },
    /// The rows of the left side with a partner on the right, each once: EXISTS.
    SemiJoin {
        left: Operand,
        right: Operand,
        conditions: Vec<Expr>,
    },
    /// All rows of the left side. The slot `mark` says whether the row has a partner on the right: EXISTS within an
    /// expression.
    MarkJoin {
        left: Operand,
        right: Operand,
        conditions: Vec<Expr>,
        mark: Slot,
    },
    /// The rows of the left side that no compatible row of the right side shares a variable with.
    Minus {
        left: Operand,
        right: Operand,
        /// The common graph of both sides, if they are in each graph by itself. It is the same in compatible
        /// solutions, but does not count as a shared variable.
        graph: Option<Slot>,
    },
    Union(Vec<Node>),
    /// The operand's rows with the expression's value in the slot; unbound where the expression fails.
    Extend {
        inner: Operand,
        slot: Slot,
        expr: Expr,
    },
    Group(Group),
    /// A table with a column for each of these slots.
    Values {
        slots: Vec<Slot>,
        table: Arc<Table>,
    },
    Sort {
        inner: Operand,
        keys: Vec<SortKey>,
    },
    /// The border of a sub-select, and the top of a query: only these slots are visible outside.
    Project {
        inner: Operand,
        slots: Vec<Slot>,
    },
    /// All compatible pairs of the operand's solutions and those of an endpoint. The endpoint receives the operand's
    /// values.
    Service {
        inner: Operand,
        service: Arc<Service>,
    },
    Distinct {
        inner: Operand,
    },
    /// OFFSET and LIMIT.
    Slice {
        inner: Operand,
        offset: usize,
        limit: Option<usize>,
        /// The slot whose values have OFFSET and LIMIT each. The solutions are sorted by it.
        each: Option<Slot>,
    },
}

/// The operand of an operator, with its scope computed once. Without this, each operator of a deep tree would visit all
/// operators below it again. Clones share the node until one of them is changed: nodes planned in several ways are
/// cloned often.
#[derive(Clone)]
pub(crate) struct Operand(Arc<NodeAndScope>);

#[derive(Clone)]
struct NodeAndScope {
    node: Node,
    /// Invariant: the node's scope, or empty until the first call of [`Operand::scope`].
    scope: OnceLock<Arc<Scope>>,
}

impl Operand {
    pub(crate) fn new(node: Node) -> Operand {
        Operand(Arc::new(NodeAndScope { node, scope: OnceLock::new() }))
    }

    pub(crate) fn into_node(self) -> Node {
        Arc::try_unwrap(self.0).map_or_else(|shared| shared.node.clone(), |known| known.node)
    }

    /// The slots bound by this operand.
    pub(crate) fn scope(&self) -> &Scope {
        self.shared_scope()
    }

    fn shared_scope(&self) -> &Arc<Scope> {
        self.0.scope.get_or_init(|| match &self.0.node {
            // These operators bind the same slots as their operand.
            Node::Filter { inner, .. }
            | Node::Sort { inner, .. }
            | Node::Distinct { inner }
            | Node::Slice { inner, .. } => Arc::clone(deep(|| inner.shared_scope())),
            Node::AntiJoin { left, .. } | Node::SemiJoin { left, .. } | Node::Minus { left, .. } => {
                Arc::clone(deep(|| left.shared_scope()))
            }
            node => Arc::new(deep(|| node.scope())),
        })
    }
}

impl Deref for Operand {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.0.node
    }
}

impl DerefMut for Operand {
    fn deref_mut(&mut self) -> &mut Node {
        let known = Arc::make_mut(&mut self.0);
        known.scope.take();
        &mut known.node
    }
}

impl PartialEq for Operand {
    fn eq(&self, other: &Operand) -> bool {
        self.0.node == other.0.node
    }
}

impl fmt::Debug for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.node.fmt(f)
    }
}

/// The slots with a value in some, and in every, solution of a node.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Scope {
    pub(crate) possible: Slots,
    pub(crate) certain: Slots,
}

impl Scope {
    /// The slots bound by a join.
    pub(crate) fn of_join(scopes: impl Iterator<Item = Scope>) -> Scope {
        let (mut possible, mut certain) = (Vec::new(), Vec::new());
        for scope in scopes {
            possible.extend(scope.possible);
            certain.extend(scope.certain);
        }
        Scope { possible: possible.into_iter().collect(), certain: certain.into_iter().collect() }
    }

    fn within(&self, slots: &Slots) -> Scope {
        let both = |own: &Slots| own.intersection(slots).copied().collect();
        Scope { possible: both(&self.possible), certain: both(&self.certain) }
    }
}

impl Node {
    /// One empty solution.
    pub(crate) fn unit() -> Node {
        Node::Join(Vec::new())
    }

    /// The node with a filter for these conditions on top; without conditions the node itself.
    pub(crate) fn filtered(self, conditions: Vec<Expr>) -> Node {
        if conditions.is_empty() { self } else { Node::Filter { conditions, inner: Operand::new(self) } }
    }

    /// The slots bound by this node. Takes time in the number of slots and of operands, except for an [`Operand`] with
    /// a known scope.
    pub(crate) fn scope(&self) -> Scope {
        match self {
            Node::Pattern(pattern) => {
                let slots: Slots = pattern.slots().collect();
                Scope { possible: slots.clone(), certain: slots }
            }
            Node::Path(path) => {
                let slots: Slots = path.slots().collect();
                Scope { possible: slots.clone(), certain: slots }
            }
            Node::Join(nodes) => Scope::of_join(nodes.iter().map(Node::scope)),
            Node::Filter { inner, .. }
            | Node::Sort { inner, .. }
            | Node::Distinct { inner }
            | Node::Slice { inner, .. } => inner.scope().clone(),
            Node::LeftJoin { left, right, .. } => {
                let mut scope = left.scope().clone();
                scope.possible.extend(&right.scope().possible);
                scope
            }
            Node::AntiJoin { left, .. } | Node::SemiJoin { left, .. } | Node::Minus { left, .. } => {
                left.scope().clone()
            }
            Node::MarkJoin { left, mark, .. } => {
                let mut scope = left.scope().clone();
                scope.possible.insert(*mark);
                scope.certain.insert(*mark);
                scope
            }
            Node::Union(nodes) => {
                let mut scopes = nodes.iter().map(Node::scope);
                let first = scopes.next().unwrap_or_default();
                let (mut possible, mut certain) = (vec![first.possible], first.certain);
                for scope in scopes {
                    possible.push(scope.possible);
                    certain.retain(|slot| scope.certain.contains(slot));
                }
                Scope { possible: possible.into_iter().flatten().collect(), certain }
            }
            Node::Service { inner, service } => {
                let mut scope = inner.scope().clone();
                scope.possible.extend(service.slots());
                scope
            }
            Node::Extend { inner, slot, expr } => {
                let mut scope = inner.scope().clone();
                if expr.never_fails(&scope.certain) {
                    scope.certain.insert(*slot);
                }
                scope.possible.insert(*slot);
                scope
            }
            Node::Group(group) => {
                let keys: Slots = group.keys.iter().copied().collect();
                let mut scope = group.inner.scope().within(&keys);
                let counts = group.folds.iter().filter(|fold| fold.fold == Fold::Count);
                scope.certain.extend(counts.map(|fold| fold.slot));
                scope.possible.extend(group.folds.iter().map(|fold| fold.slot));
                scope
            }
            Node::Values { slots, table } => {
                let certain = slots.iter().zip(&table.columns).filter(|(_, column)| column.certain);
                Scope { possible: slots.iter().copied().collect(), certain: certain.map(|(slot, _)| *slot).collect() }
            }
            Node::Project { inner, slots } => {
                let slots: Slots = slots.iter().copied().collect();
                inner.scope().within(&slots)
            }
        }
    }

    /// The direct operands.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Node> {
        let (many, one, two): (&[Node], Option<&Node>, Option<&Node>) = match self {
            Node::Pattern(_) | Node::Path(_) | Node::Values { .. } => (&[], None, None),
            Node::Join(nodes) | Node::Union(nodes) => (nodes, None, None),
            Node::Filter { inner, .. }
            | Node::Sort { inner, .. }
            | Node::Distinct { inner }
            | Node::Slice { inner, .. }
            | Node::Extend { inner, .. }
            | Node::Service { inner, .. }
            | Node::Project { inner, .. } => (&[], Some(inner), None),
            Node::Group(group) => (&[], Some(&group.inner), None),
            Node::LeftJoin { left, right, .. }
            | Node::AntiJoin { left, right, .. }
            | Node::SemiJoin { left, right, .. }
            | Node::MarkJoin { left, right, .. }
            | Node::Minus { left, right, .. } => (&[], Some(left), Some(right)),
        };
        many.iter().chain(one).chain(two)
    }

    /// The direct operands, mutable.
    pub(crate) fn children_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        let (many, one, two): (&mut [Node], Option<&mut Node>, Option<&mut Node>) = match self {
            Node::Pattern(_) | Node::Path(_) | Node::Values { .. } => (&mut [], None, None),
            Node::Join(nodes) | Node::Union(nodes) => (nodes, None, None),
            Node::Filter { inner, .. }
            | Node::Sort { inner, .. }
            | Node::Distinct { inner }
            | Node::Slice { inner, .. }
            | Node::Extend { inner, .. }
            | Node::Service { inner, .. }
            | Node::Project { inner, .. } => (&mut [], Some(inner), None),
            Node::Group(group) => (&mut [], Some(&mut group.inner), None),
            Node::LeftJoin { left, right, .. }
            | Node::AntiJoin { left, right, .. }
            | Node::SemiJoin { left, right, .. }
            | Node::MarkJoin { left, right, .. }
            | Node::Minus { left, right, .. } => (&mut [], Some(left), Some(right)),
        };
        many.iter_mut().chain(one).chain(two)
    }

    /// The expressions of this operator itself, not those of its operands.
    pub(crate) fn exprs(&self) -> &[Expr] {
        match self {
            Node::Filter { conditions, .. }
            | Node::LeftJoin { conditions, .. }
            | Node::AntiJoin { conditions, .. }
            | Node::SemiJoin { conditions, .. }
            | Node::MarkJoin { conditions, .. } => conditions,
            Node::Extend { expr, .. } => std::slice::from_ref(expr),
            _ => &[],
        }
    }

    /// Whether two evaluations may give different solutions, because an expression is volatile.
    pub(crate) fn is_volatile(&self) -> bool {
        matches!(self, Node::Service { .. })
            || self.exprs().iter().any(Expr::is_volatile)
            || self.children().any(Node::is_volatile)
    }

    /// The types of numbers possibly produced by the expressions.
    pub(crate) fn makes(&self) -> Numbers {
        let own = if matches!(self, Node::Service { .. }) { Numbers::Floats } else { Numbers::Exact };
        let here = self.exprs().iter().fold(own, |all, expr| all.and(expr.makes()));
        self.children().fold(here, |all, child| all.and(deep(|| child.makes())))
    }

    /// Whether two evaluations may rightly differ in their number of solutions. A slice on top doesn't count: its
    /// number of rows is always the same.
    pub(crate) fn may_differ(&self) -> bool {
        let mut top = self;
        while let Node::Slice { inner, .. } | Node::Project { inner, .. } = top {
            top = inner;
        }
        top.chooses()
    }

    pub(crate) fn chooses(&self) -> bool {
        let here = match self {
            Node::Slice { .. } | Node::Service { .. } => true,
            Node::Group(group) => group.folds.iter().any(|fold| matches!(fold.fold, Fold::Sample | Fold::Concat(_))),
            _ => self.exprs().iter().any(Expr::chooses),
        };
        here || deep(|| self.children().any(Node::chooses))
    }

    /// All slots of this node and the nodes below, whether visible outside or not.
    pub(crate) fn mentioned(&self) -> Slots {
        let mut slots = Slots::new();
        self.collect_slots(&mut slots);
        slots
    }

    fn collect_slots(&self, slots: &mut Slots) {
        match self {
            Node::Pattern(pattern) => slots.extend(pattern.slots()),
            Node::Path(path) => slots.extend(path.slots()),
            Node::Values { slots: own, .. } | Node::Project { slots: own, .. } => slots.extend(own),
            Node::MarkJoin { conditions, mark, .. } => {
                slots.insert(*mark);
                slots.extend(conditions.iter().flat_map(Expr::slots));
            }
            Node::Filter { conditions, .. }
            | Node::LeftJoin { conditions, .. }
            | Node::AntiJoin { conditions, .. }
            | Node::SemiJoin { conditions, .. } => slots.extend(conditions.iter().flat_map(Expr::slots)),
            Node::Extend { slot, expr, .. } => {
                slots.insert(*slot);
                slots.extend(expr.slots());
            }
            Node::Group(group) => {
                slots.extend(&group.keys);
                slots.extend(group.folds.iter().flat_map(|fold| fold.of.iter().chain([&fold.slot])));
            }
            Node::Sort { keys, .. } => slots.extend(keys.iter().map(|key| key.slot)),
            Node::Service { service, .. } => slots.extend(service.mentioned()),
            Node::Minus { graph: Some(slot), .. } | Node::Slice { each: Some(slot), .. } => {
                slots.insert(*slot);
            }
            Node::Join(_) | Node::Union(_) | Node::Minus { .. } | Node::Distinct { .. } | Node::Slice { .. } => {}
        }
        self.children().for_each(|child| child.collect_slots(slots));
    }

    /// Whether this node has no operands.
    fn is_leaf(&self) -> bool {
        matches!(self, Node::Pattern(_) | Node::Path(_) | Node::Values { .. })
    }

    /// Applies a rewriting rule to all nodes, operands before their operators.
    pub(crate) fn rewrite(mut self, rule: &mut impl FnMut(Node) -> Node) -> Node {
        for child in self.children_mut().filter(|child| !child.is_leaf()) {
            let taken = std::mem::replace(child, Node::unit());
            *child = deep(|| taken.rewrite(rule));
        }
        rule(self)
    }
}
