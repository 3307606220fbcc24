//! From the algebra to physical operators: chooses boxes, indexes, the built side of each table, and the kept columns.
//!
//! A plan is a tree: every operator has one reader, and no box is shared. So no two branches wait for each other
//! through a common source, and a full via only means a slower reader.

mod build;
mod columns;
mod disjunction;
mod eliminate;
pub(crate) mod estimate;
mod graphs;
mod group;
mod order;
mod outer;
mod ranges;
mod sideways;
mod walk;

pub(crate) use build::{JoinTask, Matching, ProbeOutput, cost};
pub(crate) use columns::Columns;
pub(crate) use estimate::{Estimate, Facts};

use crate::algebra::{Column, Node, Pattern, Slot, Slots, Table};
use crate::operators::construct::Construct;
use crate::operators::describe::Describe;
use crate::operators::extend::{Extend, Make};
use crate::operators::slice::Slice;
use crate::operators::values::Values;
use crate::operators::{self, Physical};
use crate::terms::Terms;
use crate::translate::SolutionUse;
use rustc_hash::FxHashMap;
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
    pub(crate) stop: &'a Stop<'a>,
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
    pub(crate) fn again<T>(&self, cost: f64, steps: u64, make: impl FnOnce() -> T) -> Option<T> {
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
    pub(crate) fn new_slot(&self) -> Slot {
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
        deep(|| operators::plan(self, node, needed, goal))
    }

    /// An empty table with the node's columns.
    pub(crate) fn nothing(&self, node: &Node, needed: &Slots) -> Physical {
        let slots: Vec<Slot> = node.scope().possible.intersection(needed).copied().collect();
        let columns = slots.iter().map(|_| Column::new(Vec::new())).collect();
        Values::plan(self, &slots, &Table { columns, rows: 0 }, needed)
    }

    /// The plan of a whole query: for an ASK it has at most one row, for a CONSTRUCT and a DESCRIBE three columns.
    pub(crate) fn query(&self, node: &Node, wanted: &SolutionUse) -> Physical {
        match wanted {
            SolutionUse::Any => {
                let goal = Goal { set: self.optimise, first: self.optimise };
                Slice::plan(self, self.plan(node, &Slots::new(), goal), 0, Some(1))
            }
            SolutionUse::Rows(select) => self.selected(node, select),
            SolutionUse::Triples { template, columns } => Construct::plan(self, node, template, columns),
            SolutionUse::Descriptions { of, resources, graph, columns } => {
                Describe::plan(self, node, of, resources, *graph, columns)
            }
        }
    }

    /// A plan with exactly these columns.
    fn selected(&self, node: &Node, select: &[Slot]) -> Physical {
        let needed = select.iter().copied().collect();
        let plan = self.plan(node, &needed, Goal { set: false, first: false });
        if *plan.columns == *select {
            return plan;
        }
        if let Some(kept) = select.iter().map(|slot| plan.column(*slot)).collect::<Option<Vec<usize>>>() {
            return Extend::pick_columns(self, plan, kept);
        }
        let make = |slot: &Slot| match plan.column(*slot) {
            Some(column) => Make::Column(column),
            None => Make::Constant(0),
        };
        let makes = select.iter().map(make).collect();
        Extend::arrange(self, plan, makes, select.to_vec())
    }
}
