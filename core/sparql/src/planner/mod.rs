//! From the algebra to physical operators: which box, which index, which side is built, which columns are carried.
//!
//! A plan is a tree: every operator has one reader and no box is shared. So no two branches wait for each other through
//! a common source, and a full via can only mean that its reader is slower.

mod aggregate;
mod build;
mod estimate;
mod group;
mod order;
mod outer;
mod sideways;
mod walk;

pub(crate) use build::{Op, Physical, cost, is_in_order};

use crate::algebra::{Column, Node, Pattern, Slot, Slots, Table};
use crate::boxes::extend::Make;
use crate::expression::Expr;
use crate::stop::Stop;
use crate::terms::Terms;
use estimate::Estimate;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// What matters to whoever reads the rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    /// Duplicates don't count: they may be dropped wherever that is cheap.
    pub(crate) set: bool,
    /// A few rows are enough: what comes first matters, not the whole.
    pub(crate) first: bool,
}

pub(crate) struct Planner<'a> {
    pub(crate) terms: Arc<Terms>,
    /// Whether joins are reordered and indexes searched; if not, everything is done as it is written.
    pub(crate) optimise: bool,
    /// Once it says so, what is still planned is empty, and nobody looks at the plan.
    stop: &'a Stop<'a>,
    /// How often something may still be planned in a second way, which doubles the work for all that is nested in it.
    tries: Cell<usize>,
    /// What is known of patterns: each is asked for several times, and the store has to be searched for it.
    patterns: RefCell<FxHashMap<Pattern, Estimate>>,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(terms: &Arc<Terms>, optimise: bool, stop: &'a Stop<'a>) -> Planner<'a> {
        let (tries, patterns) = (Cell::new(terms.limits.tries), RefCell::default());
        Planner { terms: Arc::clone(terms), optimise, stop, tries, patterns }
    }

    /// What is known of the triples that match a pattern.
    pub(crate) fn of_pattern(&self, pattern: &Pattern) -> Estimate {
        let mut patterns = self.patterns.borrow_mut();
        patterns.entry(*pattern).or_insert_with(|| estimate::of_pattern(&self.terms.store, pattern)).clone()
    }

    /// The physical plan of a node. It has a column for each of `needed` that the node may bind, and no other.
    pub(crate) fn plan(&self, node: &Node, needed: &Slots, goal: Goal) -> Physical {
        if self.stop.is_stopped() {
            return self.nothing(node, needed);
        }
        match node {
            Node::Pattern(_) => self.group(std::slice::from_ref(node), &[], needed, goal),
            Node::Path(path) => self.walk_alone(path, needed),
            Node::Join(nodes) => self.group(nodes, &[], needed, goal),
            Node::Filter(conditions, inner) => match &**inner {
                Node::Join(nodes) => self.group(nodes, conditions, needed, goal),
                Node::Pattern(_) => self.group(std::slice::from_ref(inner), conditions, needed, goal),
                Node::Extend(below, slot, expr) if self.optimise && is_only_tested(*slot, expr, conditions, needed) => {
                    let value = |other| if other == *slot { expr.clone() } else { Expr::Slot(other) };
                    let conditions = conditions.iter().map(|condition| condition.replaced(&value)).collect();
                    self.plan(&Node::Filter(conditions, below.clone()), needed, goal)
                }
                _ => {
                    let mut inside = needed.clone();
                    conditions.iter().for_each(|condition| inside.extend(condition.slots()));
                    self.filter(self.plan(inner, &inside, goal), conditions, needed)
                }
            },
            Node::LeftJoin { .. }
            | Node::AntiJoin { .. }
            | Node::SemiJoin { .. }
            | Node::MarkJoin { .. }
            | Node::Minus(..) => self.outer(node, needed, goal),
            Node::Union(nodes) => {
                let inputs = nodes.iter().map(|node| self.plan(node, needed, goal)).collect();
                let columns = node.scope().possible.intersection(needed).copied().collect();
                self.union(inputs, columns)
            }
            Node::Extend(inner, slot, expr) => {
                if !needed.contains(slot) {
                    return self.plan(inner, needed, goal);
                }
                let mut inside = needed.clone();
                inside.remove(slot);
                inside.extend(expr.slots());
                // Rows that are equal so far get different values.
                let goal = if expr.is_volatile() { Goal { set: false, ..goal } } else { goal };
                let input = self.plan(inner, &inside, goal);
                self.extend(input, *slot, expr, needed)
            }
            Node::Group(group) => self.aggregate(group, needed),
            Node::Values(slots, table) => self.values(slots, table, needed),
            Node::Sort(inner, keys) => {
                let inside = needed.iter().copied().chain(keys.iter().map(|key| key.slot)).collect();
                let input = self.plan(inner, &inside, Goal { first: false, ..goal });
                let sorted = self.sort(input, keys);
                self.project(sorted, needed)
            }
            Node::Project(inner, slots) => {
                let inside = needed.iter().copied().filter(|slot| slots.contains(slot)).collect();
                self.plan(inner, &inside, goal)
            }
            Node::Distinct(inner) => {
                if goal.set {
                    return self.plan(inner, needed, goal);
                }
                // Rows are equal or not in all their columns, whoever needs them.
                let all = inner.scope().possible;
                let set = Goal { set: self.optimise, ..goal };
                let distinct = self.distinct(self.plan(inner, &all, set));
                self.project(distinct, needed)
            }
            Node::Slice(inner, offset, limit) => self.slice(inner, *offset, *limit, needed),
        }
    }

    /// No rows, with the columns that the node's have.
    fn nothing(&self, node: &Node, needed: &Slots) -> Physical {
        let slots: Vec<Slot> = node.scope().possible.intersection(needed).copied().collect();
        let columns = slots.iter().map(|_| Column::new(Vec::new())).collect();
        self.values(&slots, &Table { columns, rows: 0 }, needed)
    }

    fn slice(&self, inner: &Node, offset: usize, limit: Option<usize>, needed: &Slots) -> Physical {
        // How many rows there are matters again below.
        let goal = Goal { set: false, first: self.optimise && limit.is_some() };
        let mut core = inner;
        let mut visible = needed.clone();
        while let Node::Project(inside, slots) = core {
            visible.retain(|slot| slots.contains(slot));
            core = inside;
        }
        if let (Node::Sort(inside, keys), Some(limit), true) = (core, limit, self.optimise) {
            let below = visible.iter().copied().chain(keys.iter().map(|key| key.slot)).collect();
            let input = self.plan(inside, &below, Goal { first: false, ..goal });
            let top = self.top(input, keys, offset.saturating_add(limit));
            return self.project(self.cut(top, offset, Some(limit)), &visible);
        }
        self.cut(self.plan(inner, needed, goal), offset, limit)
    }

    /// The plan of a whole query: columns exactly as `select` has them, or for ASK at most one row.
    pub(crate) fn query(&self, node: &Node, select: Option<&[Slot]>) -> Physical {
        match select {
            None => {
                let goal = Goal { set: self.optimise, first: self.optimise };
                self.cut(self.plan(node, &Slots::new(), goal), 0, Some(1))
            }
            Some(select) => {
                let needed = select.iter().copied().collect();
                let plan = self.plan(node, &needed, Goal { set: false, first: false });
                if plan.columns == select {
                    return plan;
                }
                let make = |slot: &Slot| match plan.column(*slot) {
                    Some(column) => Make::Column(column),
                    None => Make::Constant(0),
                };
                let makes = select.iter().map(make).collect();
                self.arrange(plan, makes, select.to_vec())
            }
        }
    }
}

/// Whether conditions on top of a computed value are all that looks at it, once: then they compute it themselves, and it
/// never becomes a term that has to be kept.
fn is_only_tested(slot: Slot, expr: &Expr, conditions: &[Expr], needed: &Slots) -> bool {
    let is_computed = !matches!(expr, Expr::Slot(_) | Expr::Constant(_) | Expr::Error);
    is_computed
        && !needed.contains(&slot)
        && !expr.is_volatile()
        && conditions.iter().map(|condition| condition.uses(slot)).sum::<usize>() == 1
        && !conditions.iter().any(|condition| condition.asks_for(slot) || condition.has_exists())
}
