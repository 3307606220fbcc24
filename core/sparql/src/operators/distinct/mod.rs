//! Each row once.

mod boxes;

#[cfg(test)]
pub(crate) use boxes::Set;
pub(crate) use boxes::Wide;

use super::{Below, Each, Op, Physical, PhysicalOperator, StableColumns, Title};
use crate::algebra::{Operand, Slots};
use crate::boxes::Pace;
use crate::explain::Explainer;
use crate::lower::{Deal, Draft, Lowering, Pipeline, Streams};
use crate::operators::extend::Extend;
use crate::planner::{Goal, Planner, cost};
use crate::terms::Terms;
use smallvec::smallvec;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Distinct {
    pub(crate) input: Below,
}

impl Distinct {
    pub(crate) fn of_node(planner: &Planner<'_>, inner: &Operand, needed: &Slots, goal: Goal) -> Physical {
        if goal.set {
            return planner.plan(inner, needed, goal);
        }
        // DISTINCT compares all columns, so all are planned, whether needed or not.
        let all = &inner.scope().possible;
        let set = Goal { set: planner.optimise, ..goal };
        let distinct = Distinct::plan(planner, planner.plan(inner, all, set));
        Extend::project(planner, distinct, needed)
    }

    pub(crate) fn plan(planner: &Planner<'_>, input: Physical) -> Physical {
        let limit: f64 = input.estimate.facts.values().map(|facts| facts.distinct.max(1.0)).product();
        let rows = input.estimate.rows.min(limit);
        planner.made(Physical {
            cost: input.cost + input.estimate.rows * cost::DISTINCT,
            startup: input.startup,
            sorted: input.sorted,
            columns: input.columns.clone(),
            estimate: input.estimate.clone().with_rows(rows),
            op: Op::Distinct(Distinct { input: Below::new(input) }),
            conditions: Vec::new(),
        })
    }
}

impl PhysicalOperator for Distinct {
    fn inputs(&self) -> Each<&Below> {
        smallvec![&self.input]
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        smallvec![&mut self.input]
    }

    fn pick(&mut self, kept: &[usize], width: usize) -> bool {
        // It compares all columns.
        kept.len() == width && self.input.pick(kept)
    }

    fn let_pass(&mut self, _: &[bool]) -> Each<StableColumns> {
        smallvec![vec![true; self.input.columns.len()]]
    }

    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let streams = lowering.add(&self.input, above.and(plan.estimate.rows));
        let (is_ordered, pace) = (self.input.behaviour().is_ordered(), lowering.pace(above));
        let computed = lowering.may_compute(&self.input);
        lower_distinct(streams, plan.columns.len(), is_ordered, pace, computed, lowering)
    }

    fn explain(&self, _: &Physical, _: &Explainer<'_>) -> Title {
        Title::new("distinct", "")
    }

    fn is_ordered(&self) -> bool {
        self.input.behaviour().is_ordered()
    }
}

/// Deals rows, so equal rows meet in one box; there is one box for each stream.
pub(crate) fn lower_distinct(
    streams: Streams,
    width: usize,
    in_order: bool,
    pace: Pace,
    computed: bool,
    lowering: &mut Lowering<'_>,
) -> Streams {
    let (parts, cache, terms) = (streams.len(), lowering.options.cache_bytes, lowering.terms);
    let columns: Vec<usize> = (0..width).collect();
    lowering.deal(streams, Deal { from: width, to: width, keys: &columns, parts, computed }, || {
        let new = move |terms: &Arc<Terms>| boxes::Distinct::new(terms, width, in_order, cache, pace);
        let draft = Draft::new(terms, "distinct", new);
        // Without columns, there is one row.
        if width > 0 { draft.that_spills() } else { draft }
    })
}
