//! Each row with the values common to several patterns for it.

mod boxes;

pub(crate) use boxes::{LEVEL, ListSpec};

use super::{Below, Each, Op, Physical, PhysicalOperator, StableColumns, Title, kept_of_probe, pick_of_join};
use crate::algebra::{At, Pattern, Slot, Slots};
use crate::boxes::join::{JoinKind, JoinSpec};
use crate::explain::Explainer;
use crate::lower::{Draft, Lowering, Pipeline, Streams};
use crate::operators::index_join::Source;
use crate::planner::{Goal, JoinTask, Planner, ProbeOutput, cost, estimate};
use smallvec::smallvec;
use std::sync::Arc;
use vicus_rdf::Position;

#[derive(Debug)]
pub(crate) struct Intersection {
    pub(crate) input: Below,
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) lists: Arc<[ListSpec]>,
    pub(crate) join: Arc<JoinSpec>,
}

impl Intersection {
    /// For each row, the values of a slot common to all of these patterns; the row binds all their other slots.
    pub(crate) fn plan(
        planner: &Planner<'_>,
        input: Physical,
        patterns: Vec<Pattern>,
        value: Slot,
        task: JoinTask<'_>,
        goal: Goal,
    ) -> Physical {
        let lists: Arc<[ListSpec]> =
            patterns.iter().map(|pattern| Intersection::list(planner, pattern, value, &input)).collect();
        let estimates: Vec<_> = patterns.iter().map(|pattern| planner.of_pattern(pattern)).collect();
        let both = estimate::join(std::iter::once(&input.estimate).chain(&estimates));
        let is_read = task.needed.contains(&value) || task.conditions.iter().any(|test| test.slots().contains(&value));
        let slots: &[Slot] = if is_read { &[value] } else { &[] };
        let kind = if goal.set && !task.needed.contains(&value) { JoinKind::Semi } else { task.kind };
        let output = ProbeOutput { slots, merged: &Slots::new() };
        let (join, columns) = planner.join_spec(JoinTask { kind, ..task }, &input, output, &both);
        let estimate = planner.joined(kind, &input.estimate, both.clone(), task.conditions, &columns);
        let searching = patterns.len() as f64 * cost::SEARCH_FAR;
        let sorted = input.sorted.filter(|slot| columns.has(*slot));
        planner.made(Physical {
            cost: input.cost + input.estimate.rows * searching + both.rows * cost::MAKE,
            startup: input.startup + searching,
            op: Op::Intersection(Intersection { input: Below::new(input), patterns, lists, join: Arc::new(join) }),
            columns,
            estimate,
            sorted,
            conditions: task.conditions.to_vec(),
        })
    }

    /// A pattern as a list of values, in an order with these at the end.
    fn list(planner: &Planner<'_>, pattern: &Pattern, value: Slot, input: &Physical) -> ListSpec {
        let is_last = |at: Position| pattern.0[at as usize] == At::Slot(value);
        let mut orders = planner.terms.snapshot.orders();
        let order = orders.find(|order| order.is_by_graph() && is_last(order.positions()[LEVEL]));
        let order = order.expect("there are orders that end with the subject, and with the object");
        let arranged = order.arrange(pattern.0);
        let source = |level: usize| match arranged[level] {
            At::Constant(id) => Source::Constant(id),
            At::Slot(slot) => Source::Column(input.column(slot).expect("the row has the other slots")),
            At::Merged => unreachable!("the pattern is in one graph"),
        };
        ListSpec { order, prefix: std::array::from_fn(source) }
    }
}

impl PhysicalOperator for Intersection {
    fn inputs(&self) -> Each<&Below> {
        smallvec![&self.input]
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        smallvec![&mut self.input]
    }

    fn pick(&mut self, kept: &[usize], _: usize) -> bool {
        pick_of_join(&mut self.join, kept)
    }

    fn let_pass(&mut self, kept: &[bool]) -> Each<StableColumns> {
        let mut inner = kept_of_probe(&self.join, kept, &self.input);
        self.lists.iter().flat_map(|list| &list.prefix).for_each(|source| source.mark(&mut inner));
        smallvec![inner]
    }

    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let (terms, pace) = (Arc::clone(lowering.terms), lowering.pace(above));
        lowering.each(&self.input, above.and(plan.estimate.rows), plan.columns.len(), || {
            let (lists, join) = (Arc::clone(&self.lists), Arc::clone(&self.join));
            Draft::new(&terms, "intersection", move |terms| boxes::IntersectionJoin::new(terms, &join, &lists, pace))
        })
    }

    fn explain(&self, _: &Physical, explainer: &Explainer<'_>) -> Title {
        let all: Vec<String> = self.patterns.iter().map(|pattern| explainer.pattern(pattern)).collect();
        Title::of_join(self.join.kind, "intersection", format!("of {}", all.join(" and ")))
    }
}
