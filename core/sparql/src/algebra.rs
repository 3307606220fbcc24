//! A query as a tree of operators over numbered variables: what the optimiser rewrites.
//!
//! SPARQL 1.1 Query Language, §18. We differ in three things that make rewriting easy. Variables are *slots*, and a
//! variable that a sub-select doesn't project has a slot of its own, so no slot ever means two things. A variable that
//! an expression can't see where it stands is an error value there already. And joins and filters have any number of
//! operands.

use crate::condition::Kinds;
use crate::expression::Expr;
use crate::route::Route;
use std::sync::Arc;
use vicus_rdf::Id;

/// A variable or blank node of a query, by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Slot(pub(crate) usize);

pub(crate) use crate::slots::Slots;

/// What stands at one place of a triple pattern.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum At {
    Slot(Slot),
    /// A term; if the store doesn't have it, an id that no triple has.
    Constant(Id),
}

/// A triple pattern: subject, predicate, object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pattern(pub(crate) [At; 3]);

impl Pattern {
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.0.into_iter().filter_map(|at| match at {
            At::Slot(slot) => Some(slot),
            At::Constant(_) => None,
        })
    }
}

/// A property path of any length: each pair of ends once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Path {
    pub(crate) subject: At,
    pub(crate) route: Arc<Route>,
    pub(crate) object: At,
}

impl Path {
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        [self.subject, self.object].into_iter().filter_map(|at| match at {
            At::Slot(slot) => Some(slot),
            At::Constant(_) => None,
        })
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
    /// With this between.
    Concat(String),
}

/// One aggregate; its expression was computed into a slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Aggregate {
    /// Where the result goes.
    pub(crate) slot: Slot,
    pub(crate) fold: Fold,
    /// The slot that is folded. For `COUNT(*)`, where rows are counted, all that make a row.
    pub(crate) of: Vec<Slot>,
    pub(crate) rows: bool,
    pub(crate) distinct: bool,
}

/// Rows that have the same keys become one. Only keys and results are seen outside.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Group {
    pub(crate) inner: Box<Node>,
    pub(crate) keys: Vec<Slot>,
    pub(crate) folds: Vec<Aggregate>,
}

/// A table that stands in the query; also the one solution without variables.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: usize,
}

/// A column of a table, with what planning asks of it. It may be long, so its copies share it.
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

/// An operator with its operands.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Node {
    Pattern(Pattern),
    Path(Path),
    /// All operands' compatible solutions; of none, one empty solution.
    Join(Vec<Node>),
    /// Those for which all conditions are true.
    Filter(Vec<Expr>, Box<Node>),
    LeftJoin {
        left: Box<Node>,
        right: Box<Node>,
        conditions: Vec<Expr>,
    },
    /// What of the left has no partner on the right: OPTIONAL with `!bound`. Right slots stay unbound.
    AntiJoin {
        left: Box<Node>,
        right: Box<Node>,
        conditions: Vec<Expr>,
    },
    /// What of the left has a partner on the right, once: EXISTS.
    SemiJoin {
        left: Box<Node>,
        right: Box<Node>,
        conditions: Vec<Expr>,
    },
    /// All of the left, and in a slot of its own whether it has a partner on the right: EXISTS within an expression.
    MarkJoin {
        left: Box<Node>,
        right: Box<Node>,
        conditions: Vec<Expr>,
        mark: Slot,
    },
    Minus(Box<Node>, Box<Node>),
    Union(Vec<Node>),
    Extend(Box<Node>, Slot, Expr),
    Group(Group),
    /// A table with a column for each of these.
    Values(Vec<Slot>, Arc<Table>),
    Sort(Box<Node>, Vec<SortKey>),
    /// The border of a sub-select, and the top of a query: other slots are not seen outside.
    Project(Box<Node>, Vec<Slot>),
    Distinct(Box<Node>),
    Slice(Box<Node>, usize, Option<usize>),
}

/// Which slots may have a value in a node's solutions, and which have one in each of them.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Scope {
    pub(crate) possible: Slots,
    pub(crate) certain: Slots,
}

impl Node {
    /// One empty solution.
    pub(crate) fn unit() -> Node {
        Node::Join(Vec::new())
    }

    /// The node with conditions on top, if there are any.
    pub(crate) fn filtered(self, conditions: Vec<Expr>) -> Node {
        if conditions.is_empty() { self } else { Node::Filter(conditions, Box::new(self)) }
    }

    /// What is bound by it. Takes time in the size of the tree.
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
            Node::Join(nodes) => nodes.iter().fold(Scope::default(), |mut all, node| {
                let scope = node.scope();
                all.possible.extend(scope.possible);
                all.certain.extend(scope.certain);
                all
            }),
            Node::Filter(_, inner) | Node::Sort(inner, _) | Node::Distinct(inner) | Node::Slice(inner, ..) => {
                inner.scope()
            }
            Node::LeftJoin { left, right, .. } => {
                let mut scope = left.scope();
                scope.possible.extend(right.scope().possible);
                scope
            }
            Node::AntiJoin { left, .. } | Node::SemiJoin { left, .. } | Node::Minus(left, _) => left.scope(),
            Node::MarkJoin { left, mark, .. } => {
                let mut scope = left.scope();
                scope.possible.insert(*mark);
                scope.certain.insert(*mark);
                scope
            }
            Node::Union(nodes) => {
                let mut scopes = nodes.iter().map(Node::scope);
                let first = scopes.next().unwrap_or_default();
                scopes.fold(first, |mut all, scope| {
                    all.possible.extend(scope.possible);
                    all.certain.retain(|slot| scope.certain.contains(slot));
                    all
                })
            }
            Node::Extend(inner, slot, expr) => {
                let mut scope = inner.scope();
                if expr.never_fails(&scope.certain) {
                    scope.certain.insert(*slot);
                }
                scope.possible.insert(*slot);
                scope
            }
            Node::Group(group) => {
                let mut scope = group.inner.scope();
                scope.possible.retain(|slot| group.keys.contains(slot));
                scope.certain.retain(|slot| group.keys.contains(slot));
                let counts = group.folds.iter().filter(|fold| fold.fold == Fold::Count);
                scope.certain.extend(counts.map(|fold| fold.slot));
                scope.possible.extend(group.folds.iter().map(|fold| fold.slot));
                scope
            }
            Node::Values(slots, table) => {
                let certain = slots.iter().zip(&table.columns).filter(|(_, column)| column.certain);
                Scope { possible: slots.iter().copied().collect(), certain: certain.map(|(slot, _)| *slot).collect() }
            }
            Node::Project(inner, slots) => {
                let mut scope = inner.scope();
                scope.possible.retain(|slot| slots.contains(slot));
                scope.certain.retain(|slot| slots.contains(slot));
                scope
            }
        }
    }

    /// Its direct operands.
    pub(crate) fn children(&self) -> Vec<&Node> {
        match self {
            Node::Pattern(_) | Node::Path(_) | Node::Values(..) => Vec::new(),
            Node::Join(nodes) | Node::Union(nodes) => nodes.iter().collect(),
            Node::Filter(_, inner)
            | Node::Sort(inner, _)
            | Node::Distinct(inner)
            | Node::Slice(inner, ..)
            | Node::Extend(inner, ..)
            | Node::Project(inner, _) => vec![inner],
            Node::Group(group) => vec![&group.inner],
            Node::LeftJoin { left, right, .. }
            | Node::AntiJoin { left, right, .. }
            | Node::SemiJoin { left, right, .. }
            | Node::MarkJoin { left, right, .. }
            | Node::Minus(left, right) => vec![left, right],
        }
    }

    /// Its direct operands, to be changed.
    pub(crate) fn children_mut(&mut self) -> Vec<&mut Node> {
        match self {
            Node::Pattern(_) | Node::Path(_) | Node::Values(..) => Vec::new(),
            Node::Join(nodes) | Node::Union(nodes) => nodes.iter_mut().collect(),
            Node::Filter(_, inner)
            | Node::Sort(inner, _)
            | Node::Distinct(inner)
            | Node::Slice(inner, ..)
            | Node::Extend(inner, ..)
            | Node::Project(inner, _) => vec![inner],
            Node::Group(group) => vec![&mut group.inner],
            Node::LeftJoin { left, right, .. }
            | Node::AntiJoin { left, right, .. }
            | Node::SemiJoin { left, right, .. }
            | Node::MarkJoin { left, right, .. }
            | Node::Minus(left, right) => vec![left, right],
        }
    }

    /// The expressions that stand at it, not at its operands.
    fn exprs(&self) -> &[Expr] {
        match self {
            Node::Filter(conditions, _)
            | Node::LeftJoin { conditions, .. }
            | Node::AntiJoin { conditions, .. }
            | Node::SemiJoin { conditions, .. }
            | Node::MarkJoin { conditions, .. } => conditions,
            Node::Extend(_, _, expr) => std::slice::from_ref(expr),
            _ => &[],
        }
    }

    /// Whether it may have other solutions each time it is asked.
    pub(crate) fn is_volatile(&self) -> bool {
        self.exprs().iter().any(Expr::is_volatile) || self.children().into_iter().any(Node::is_volatile)
    }

    /// All slots that it has anywhere, seen outside or not.
    pub(crate) fn mentioned(&self) -> Slots {
        let mut slots = Slots::new();
        self.collect_slots(&mut slots);
        slots
    }

    fn collect_slots(&self, slots: &mut Slots) {
        match self {
            Node::Pattern(pattern) => slots.extend(pattern.slots()),
            Node::Path(path) => slots.extend(path.slots()),
            Node::Values(own, _) | Node::Project(_, own) => slots.extend(own),
            Node::MarkJoin { conditions, mark, .. } => {
                slots.insert(*mark);
                slots.extend(conditions.iter().flat_map(Expr::slots));
            }
            Node::Filter(conditions, _)
            | Node::LeftJoin { conditions, .. }
            | Node::AntiJoin { conditions, .. }
            | Node::SemiJoin { conditions, .. } => slots.extend(conditions.iter().flat_map(Expr::slots)),
            Node::Extend(_, slot, expr) => {
                slots.insert(*slot);
                slots.extend(expr.slots());
            }
            Node::Group(group) => {
                slots.extend(&group.keys);
                slots.extend(group.folds.iter().flat_map(|fold| fold.of.iter().chain([&fold.slot])));
            }
            Node::Sort(_, keys) => slots.extend(keys.iter().map(|key| key.slot)),
            Node::Join(_) | Node::Union(_) | Node::Minus(..) | Node::Distinct(_) | Node::Slice(..) => {}
        }
        self.children().into_iter().for_each(|child| child.collect_slots(slots));
    }

    /// Applies a rewriting to each node, operands first.
    pub(crate) fn rewrite(mut self, rule: &mut impl FnMut(Node) -> Node) -> Node {
        for child in self.children_mut() {
            let taken = std::mem::replace(child, Node::unit());
            *child = taken.rewrite(rule);
        }
        rule(self)
    }
}
