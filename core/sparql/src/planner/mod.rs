//! From the algebra to physical operators: chooses boxes, indexes, the built side of each table, and the kept columns.
//!
//! A plan is a tree: every operator has one reader, and no box is shared. So no two branches wait for each other
//! through a common source, and a full via only means a slower reader.

mod aggregate;
mod build;
mod columns;
mod disjunction;
mod eliminate;
mod estimate;
mod graphs;
mod group;
mod intersection;
mod order;
mod outer;
mod ranges;
mod service;
mod sideways;
mod triples;
mod walk;

pub(crate) use build::cost;
pub(crate) use columns::Columns;
pub(crate) use estimate::Estimate;

use crate::algebra::{Column, Node, Pattern, Slot, Slots, Table};
use crate::expression::Expr;
use crate::operators::Physical;
use crate::operators::extend::Make;
use crate::terms::Terms;
use crate::translate::Wanted;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use vicus_language::Stop;
use vicus_language::stack::deep;

/// The needs of the reader of a plan's rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    /// Duplicates don't matter: they may be dropped wherever this is cheap.
    pub(crate) set: bool,
    /// A few rows are enough, so the time to the first row counts, not the time to the last.
    pub(crate) first: bool,
}

impl Goal {
    /// The cost of a plan, for comparing plans: `cost` nanoseconds until its last row, `startup` until its first.
    pub(crate) fn price(self, cost: f64, startup: f64) -> f64 {
        if self.first { startup + (cost - startup) * 0.001 } else { cost }
    }
}

/// Steps counted for planning an operator, besides making it.
const PLAN_STEPS: usize = 16;

/// The greatest number of operand pairs ordered in large parts: a thousand operands, sixty at a time.
const MOST_PAIRS: usize = 1 << 16;

/// The greatest number of steps spent on planning something in a second way.
const AGAIN_STEPS: u64 = 5_000_000;

/// If something is planned in a second way, other ways for its nested operators may take this share of the first plan's
/// time.
const NESTED_SHARE: f64 = 0.25;

/// About how long a step takes, in nanoseconds.
const STEP_NS: f64 = 10.0;

pub(crate) struct Planner<'a> {
    pub(crate) terms: Arc<Terms>,
    /// Whether to reorder joins and search indexes; if not, everything is done as written.
    pub(crate) optimise: bool,
    /// Once it is stopped, the rest of the plan is made empty; the caller drops the plan.
    pub(super) stop: &'a Stop<'a>,
    /// How often something may still be planned in a second way. Doing so doubles the work for everything nested in it.
    tries: Cell<usize>,
    /// The steps left for this.
    again: Cell<u64>,
    /// How many pairs of operands may still be ordered in large parts.
    pairs: Cell<usize>,
    /// How many joins may still be tried for the best orders of groups.
    joins: Cell<usize>,
    /// The number of slots: those of the query, and those added by the planner.
    slots: Cell<usize>,
    /// The facts of patterns, kept because they are used several times, and finding them searches the store.
    patterns: RefCell<FxHashMap<Pattern, Box<Estimate>>>,
}

impl<'a> Planner<'a> {
    /// For a query with this many slots.
    pub(crate) fn new(terms: &Arc<Terms>, optimise: bool, slots: usize, stop: &'a Stop<'a>) -> Planner<'a> {
        let (tries, joins) = (Cell::new(terms.limits.tries), Cell::new(terms.limits.ordered_joins));
        Planner {
            terms: Arc::clone(terms),
            optimise,
            stop,
            tries,
            again: Cell::new(AGAIN_STEPS),
            pairs: Cell::new(MOST_PAIRS),
            joins,
            slots: Cell::new(slots),
            patterns: RefCell::default(),
        }
    }

    /// Plans something in a second way, if its first plan costs `cost` nanoseconds and took `steps` to make. `None` if
    /// this was done often enough, or if planning would take longer than the second plan could save. Nested operators
    /// may be planned in several ways, too, and each of these again: so this bound is for all of them together.
    pub(super) fn again<T>(&self, cost: f64, steps: u64, make: impl FnOnce() -> T) -> Option<T> {
        let tries = self.tries.get().checked_sub(1)?;
        let left = self.again.get().checked_sub(steps)?;
        let inside = match self.terms.limits.tried_from_ns {
            0 => left,
            _ if steps as f64 * STEP_NS > cost => return None,
            _ => left.min((cost * NESTED_SHARE / STEP_NS) as u64),
        };
        self.tries.set(tries);
        self.again.set(inside);
        let made = make();
        self.again.set(left - (inside - self.again.get()));
        Some(made)
    }

    /// A new slot, for a value without a variable in the query.
    pub(super) fn new_slot(&self) -> Slot {
        let number = self.slots.get();
        self.slots.set(number + 1);
        Slot(number)
    }

    /// The number of slots, added ones included.
    pub(crate) fn end_of_slots(&self) -> usize {
        self.slots.get()
    }

    /// The facts of the triples matching a pattern.
    pub(crate) fn of_pattern(&self, pattern: &Pattern) -> Estimate {
        let mut patterns = self.patterns.borrow_mut();
        let known = patterns.entry(*pattern);
        Estimate::clone(
            known.or_insert_with(|| Box::new(estimate::of_pattern(&self.terms.snapshot, &self.terms.merged, pattern))),
        )
    }

    /// The physical plan of a node. Its columns are the slots of `needed` possibly bound by the node.
    pub(crate) fn plan(&self, node: &Node, needed: &Slots, goal: Goal) -> Physical {
        // The sets of needed variables are copied for the operators below, and live until those are planned.
        if self.stop.count_steps(PLAN_STEPS + 2 * needed.len())
            || self.stop.count_bytes(2 * size_of::<Slot>() * needed.len())
        {
            return self.nothing(node, needed);
        }
        if self.stop.poll() {
            return self.nothing(node, needed);
        }
        deep(|| self.of_node(node, needed, goal))
    }

    fn of_node(&self, node: &Node, needed: &Slots, goal: Goal) -> Physical {
        match node {
            Node::Pattern(_) => self.group(std::slice::from_ref(node), &[], needed, goal),
            Node::Path(path) => self.walk_alone(path, needed),
            Node::Join(nodes) => self.group(nodes, &[], needed, goal),
            Node::Filter { conditions, inner } => self.filtered_node(conditions, inner, needed, goal),
            Node::LeftJoin { .. }
            | Node::AntiJoin { .. }
            | Node::SemiJoin { .. }
            | Node::MarkJoin { .. }
            | Node::Minus { .. } => self.outer(node, needed, goal),
            Node::Union(nodes) => {
                // With very many variables, each branch may have its own.
                let own = |node: &Node| -> Slots { node.scope().possible.intersection(needed).copied().collect() };
                let inputs = nodes.iter().map(|node| self.plan(node, &own(node), goal)).collect();
                let columns: Columns = node.scope().possible.intersection(needed).copied().collect();
                self.union(inputs, columns)
            }
            Node::Extend { .. } => self.values_on_top(node, needed, goal),
            Node::Service { inner, service } => self.service(inner, service, needed, goal),
            Node::Group(group) => self.aggregate(group, needed),
            Node::Values { slots, table } => self.values(slots, table, needed),
            Node::Sort { inner, keys } => {
                let inside = needed.iter().copied().chain(keys.iter().map(|key| key.slot)).collect();
                let input = self.plan(inner, &inside, Goal { first: false, ..goal });
                let sorted = self.sort(input, keys);
                self.project(sorted, needed)
            }
            Node::Project { inner, slots } => {
                let slots: Slots = slots.iter().copied().collect();
                let inside = needed.intersection(&slots).copied().collect();
                self.plan(inner, &inside, goal)
            }
            Node::Distinct { inner } => {
                if goal.set {
                    return self.plan(inner, needed, goal);
                }
                // DISTINCT compares all columns, so all are planned, whether needed or not.
                let all = &inner.scope().possible;
                let set = Goal { set: self.optimise, ..goal };
                let distinct = self.distinct(self.plan(inner, all, set));
                self.project(distinct, needed)
            }
            Node::Slice { inner, offset, limit, each } => self.slice(inner, (*offset, *limit), *each, needed),
        }
    }

    /// The plan of a filter on a node.
    fn filtered_node(&self, conditions: &[Expr], mut inner: &Node, needed: &Slots, goal: Goal) -> Physical {
        let mut replaced = Vec::new();
        while let Node::Extend { inner: below, slot, expr } = inner {
            let conditions = if replaced.is_empty() { conditions } else { &replaced[..] };
            if !self.optimise {
                break;
            }
            if !is_only_tested(*slot, expr, conditions, needed) {
                match with_joined_values(conditions, *slot, expr, below) {
                    Some(split) => return deep(|| self.joined_by_value(split, (*slot, expr), below, needed, goal)),
                    None => break,
                }
            }
            if replaced.is_empty() {
                replaced = conditions.to_vec();
            }
            let value = |other| if other == *slot { expr.clone() } else { Expr::Slot(other) };
            replaced.iter_mut().for_each(|condition| condition.replace(&value));
            inner = below;
            while let Node::Filter { conditions: more, inner: below } = inner {
                replaced.extend(more.iter().cloned());
                inner = below;
            }
            if self.stop.count_steps(8 * replaced.len()) {
                return self.nothing(inner, needed);
            }
        }
        let conditions = if replaced.is_empty() { conditions } else { &replaced[..] };
        match inner {
            Node::Join(nodes) => self.group(nodes, conditions, needed, goal),
            Node::Pattern(_) => self.group(std::slice::from_ref(inner), conditions, needed, goal),
            _ => {
                let mut inside = needed.clone();
                inside.extend(conditions.iter().flat_map(Expr::slots));
                self.filter(self.plan(inner, &inside, goal), conditions, needed)
            }
        }
    }

    /// A computed value above a join, with equalities of it below, for use as join keys.
    fn joined_by_value(
        &self,
        (down, above): (Vec<Expr>, Vec<Expr>),
        (slot, expr): (Slot, &Expr),
        below: &Node,
        needed: &Slots,
        goal: Goal,
    ) -> Physical {
        let mut all = needed.clone();
        all.extend(above.iter().flat_map(Expr::slots));
        let mut inside = all.clone();
        inside.remove(&slot);
        inside.extend(expr.slots());
        self.stop.count_steps(8 * (down.len() + above.len()) + 2 * inside.len());
        let mut conditions = down;
        let mut inner = below;
        while let Node::Filter { conditions: more, inner: below } = inner {
            conditions.extend(more.iter().cloned());
            inner = below;
        }
        let input = self.filtered_node(&conditions, inner, &inside, goal);
        let made = self.extend(input, slot, expr, &all);
        self.filter(made, &above, needed)
    }

    /// Computed values, nested in each other. Independent ones become one operator.
    fn values_on_top(&self, node: &Node, needed: &Slots, mut goal: Goal) -> Physical {
        let (mut values, mut used): (Vec<(Slot, &Expr)>, FxHashSet<Slot>) = (Vec::new(), FxHashSet::default());
        let mut below = node;
        while let Node::Extend { inner, slot, expr } = below {
            if used.contains(slot) {
                break;
            }
            if needed.contains(slot) {
                values.push((*slot, expr));
                used.extend(expr.slots());
                // Rows equal so far get different values.
                goal.set &= !expr.is_volatile();
            }
            below = inner;
        }
        if values.is_empty() {
            return self.plan(below, needed, goal);
        }
        // From the innermost to the outermost.
        values.reverse();
        let made: Slots = values.iter().map(|(slot, _)| *slot).collect();
        let mut inside: Slots = needed.iter().copied().filter(|slot| !made.contains(slot)).collect();
        inside.extend(used);
        let input = self.plan(below, &inside, goal);
        self.extended(input, &values, needed)
    }

    /// An empty table with the node's columns.
    fn nothing(&self, node: &Node, needed: &Slots) -> Physical {
        let slots: Vec<Slot> = node.scope().possible.intersection(needed).copied().collect();
        let columns = slots.iter().map(|_| Column::new(Vec::new())).collect();
        self.values(&slots, &Table { columns, rows: 0 }, needed)
    }

    fn slice(
        &self,
        inner: &Node,
        (offset, limit): (usize, Option<usize>),
        each: Option<Slot>,
        needed: &Slots,
    ) -> Physical {
        // Below a slice, duplicates count.
        let goal = Goal { set: false, first: self.optimise && limit.is_some() && each.is_none() };
        if let Some(each) = each {
            let mut inside = needed.clone();
            inside.insert(each);
            let cut = self.cut_each(self.plan(inner, &inside, goal), offset, limit, each);
            return self.project(cut, needed);
        }
        let mut core = inner;
        let mut visible = needed.clone();
        while let Node::Project { inner: inside, slots } = core {
            let slots: Slots = slots.iter().copied().collect();
            visible.retain(|slot| slots.contains(slot));
            core = inside;
        }
        if let (Node::Sort { inner: inside, keys }, Some(limit), true) = (core, limit, self.optimise) {
            let below = visible.iter().copied().chain(keys.iter().map(|key| key.slot)).collect();
            let input = self.plan(inside, &below, Goal { first: false, ..goal });
            let top = self.top(input, keys, offset.saturating_add(limit));
            // Top puts out at most `offset + limit` rows.
            let cut = if offset == 0 { top } else { self.cut(top, offset, Some(limit)) };
            return self.project(cut, &visible);
        }
        self.cut(self.plan(inner, needed, goal), offset, limit)
    }

    /// The plan of a whole query: for an ASK it has at most one row, for a CONSTRUCT and a DESCRIBE three columns.
    pub(crate) fn query(&self, node: &Node, wanted: &Wanted) -> Physical {
        let mut plan = match wanted {
            Wanted::Any => {
                let goal = Goal { set: self.optimise, first: self.optimise };
                self.cut(self.plan(node, &Slots::new(), goal), 0, Some(1))
            }
            Wanted::Rows(select) => self.selected(node, select),
            Wanted::Triples { template, columns } => self.constructed(node, template, columns),
            Wanted::Descriptions { of, resources, graph, columns } => {
                self.described(node, of, (resources, *graph), columns)
            }
        };
        plan.let_pass();
        plan
    }

    /// A plan with exactly these columns.
    fn selected(&self, node: &Node, select: &[Slot]) -> Physical {
        let needed = select.iter().copied().collect();
        let plan = self.plan(node, &needed, Goal { set: false, first: false });
        if *plan.columns == *select {
            return plan;
        }
        if let Some(kept) = select.iter().map(|slot| plan.column(*slot)).collect::<Option<Vec<usize>>>() {
            return self.picked(plan, kept);
        }
        let make = |slot: &Slot| match plan.column(*slot) {
            Some(column) => Make::Column(column),
            None => Make::Constant(0),
        };
        let makes = select.iter().map(make).collect();
        self.arrange(plan, makes, select.to_vec())
    }
}

/// Whether a computed value is read once only, by a condition on top of it. Then the condition computes it, and the
/// value need not become a term.
fn is_only_tested(slot: Slot, expr: &Expr, conditions: &[Expr], needed: &Slots) -> bool {
    let is_computed = !matches!(expr, Expr::Slot(_) | Expr::Constant(_) | Expr::Error);
    is_computed
        && !needed.contains(&slot)
        && !expr.is_volatile()
        && conditions.iter().map(|condition| condition.uses(slot)).sum::<usize>() == 1
        && !conditions.iter().any(|condition| condition.asks_for(slot) || condition.has_exists())
}

/// Divides conditions on a computed value above a join: those to move below it, and those to stay. Equalities of the
/// value and another operand's slot go below, with the expression in the value's place. `None` if there is none.
fn with_joined_values(
    conditions: &[Expr],
    slot: Slot,
    expr: &Expr,
    mut below: &Node,
) -> Option<(Vec<Expr>, Vec<Expr>)> {
    while let Node::Extend { inner, .. } | Node::Filter { inner, .. } = below {
        below = inner;
    }
    let Node::Join(operands) = below else { return None };
    if expr.is_volatile() || expr.has_exists() {
        return None;
    }
    let value = |other| if other == slot { expr.clone() } else { Expr::Slot(other) };
    let as_join = |condition: &Expr| {
        let joins = condition.uses(slot) > 0 && !condition.asks_for(slot) && condition.as_equality().is_some();
        let replaced = joins.then(|| condition.replaced(&value)).filter(|replaced| replaced.as_equality().is_some())?;
        let slots = replaced.slots();
        let is_of_one = operands.iter().any(|operand| slots.is_subset(&operand.scope().possible));
        (!is_of_one).then_some(replaced)
    };
    let joined: Vec<Option<Expr>> = conditions.iter().map(as_join).collect();
    if joined.iter().all(Option::is_none) {
        return None;
    }
    let (mut down, mut above) = (Vec::new(), Vec::new());
    for (condition, joined) in conditions.iter().zip(joined) {
        match joined {
            Some(joined) => down.push(joined),
            None if condition.uses(slot) == 0 && !condition.is_volatile() => down.push(condition.clone()),
            None => above.push(condition.clone()),
        }
    }
    Some((down, above))
}
