//! Joins the shared value of several patterns with the rows so far: one step of a worst-case-optimal join.

use super::build::{JoinTask, ProbeOutput, cost};
use super::estimate;
use super::{Goal, Planner};
use crate::algebra::{At, Pattern, Slot, Slots};
use crate::boxes::join::JoinKind;
use crate::operators::index_join::Source;
use crate::operators::intersection::Intersection;
use crate::operators::intersection::{LEVEL, ListSpec};
use crate::operators::{Below, Op, Physical};
use std::sync::Arc;
use vicus_rdf::Position;

impl Planner<'_> {
    /// For each row, the values of a slot common to all of these patterns; the row binds all their other slots.
    pub(super) fn intersection(
        &self,
        input: Physical,
        (patterns, value): (Vec<Pattern>, Slot),
        task: JoinTask<'_>,
        goal: Goal,
    ) -> Physical {
        let lists: Arc<[ListSpec]> = patterns.iter().map(|pattern| self.list(pattern, value, &input)).collect();
        let estimates: Vec<_> = patterns.iter().map(|pattern| self.of_pattern(pattern)).collect();
        let both = estimate::join(std::iter::once(&input.estimate).chain(&estimates));
        let is_read = task.needed.contains(&value) || task.conditions.iter().any(|test| test.slots().contains(&value));
        let slots: &[Slot] = if is_read { &[value] } else { &[] };
        let kind = if goal.set && !task.needed.contains(&value) { JoinKind::Semi } else { task.kind };
        let output = ProbeOutput { slots, merged: &Slots::new() };
        let (join, columns) = self.join_spec(JoinTask { kind, ..task }, &input, output, &both);
        let estimate = self.joined(kind, &input.estimate, both.clone(), task.conditions, &columns);
        let searching = patterns.len() as f64 * cost::SEARCH_FAR;
        let sorted = input.sorted.filter(|slot| columns.has(*slot));
        self.made(Physical {
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
    fn list(&self, pattern: &Pattern, value: Slot, input: &Physical) -> ListSpec {
        let is_last = |at: Position| pattern.0[at as usize] == At::Slot(value);
        let mut orders = self.terms.snapshot.orders();
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
