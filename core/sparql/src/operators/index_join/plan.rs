//! How an index join is planned: the index to search, and the partners wanted of it.

use super::{IndexJoin, IndexSpec, Source, Want, is_in_order};
use crate::algebra::{At, Pattern, Slot, Slots};
use crate::boxes::join::{JoinKind, Origin};
use crate::expression::Expr;
use crate::graphs::Merged;
use crate::operators::{Below, Op, Physical};
use crate::planner::{Estimate, Goal, JoinTask, Planner, ProbeOutput, cost, estimate};
use std::sync::Arc;
use vicus_rdf::{Order, Position};

/// The last level of an index.
pub(crate) const LAST: usize = 3;

impl IndexJoin {
    /// Searches the pattern for each row of the input.
    pub(crate) fn plan(
        planner: &Planner<'_>,
        input: Physical,
        pattern: &Pattern,
        task: JoinTask<'_>,
        goal: Goal,
    ) -> Physical {
        let JoinTask { kind, conditions, needed } = task;
        let (mut index, mut slots) = IndexJoin::index_spec(planner, pattern, &input);
        let pattern_estimate = planner.of_pattern(pattern);
        let both = estimate::join([&input.estimate, &pattern_estimate].into_iter());
        let condition_slots: Slots = conditions.iter().flat_map(Expr::slots).collect();
        let wanted: Vec<bool> =
            slots.iter().map(|slot| needed.contains(slot) || condition_slots.contains(slot)).collect();
        let mut keep = wanted.iter();
        index.output.retain(|_| *keep.next().expect("one for each output"));
        let mut keep = wanted.iter();
        slots.retain(|_| *keep.next().expect("one for each output"));
        let kind = match kind {
            JoinKind::Inner if goal.set && !slots.iter().any(|slot| needed.contains(slot)) => JoinKind::Semi,
            other => other,
        };
        if matches!(kind, JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_)) || goal.set {
            let depth = index.prefix.len();
            if slots.is_empty() {
                index.want = Want::First;
            } else if index.output == [depth]
                && (1 + usize::from(index.order.is_by_graph())..LAST).contains(&depth)
                && index.checks.is_empty()
                && index.repeated.is_empty()
                && !matches!(index.merged, Some(Merged::These(_)))
            {
                index.want = Want::Groups;
            }
        }
        let near = is_in_order(&index, &input);
        let search = if near { cost::SEARCH_NEAR } else { cost::SEARCH_FAR };
        let (join, columns) = planner.join_spec(
            JoinTask { kind, ..task },
            &input,
            ProbeOutput { slots: &slots, merged: &Slots::new() },
            &both,
        );
        let is_of_partner = |origin: &Origin| matches!(origin, Origin::Right(_));
        if index.want == Want::Groups
            && kind == JoinKind::Inner
            && goal.set
            && conditions.is_empty()
            && join.output.iter().all(is_of_partner)
        {
            index.want = Want::Values;
        }
        let estimate = planner.joined(kind, &input.estimate, both.clone(), conditions, &columns);
        let sorted = input.sorted.filter(|slot| columns.has(*slot));
        planner.made(Physical {
            cost: input.cost + input.estimate.rows * search + both.rows * cost::MAKE,
            startup: input.startup + search,
            op: Op::IndexJoin(IndexJoin {
                input: Below::new(input),
                pattern: *pattern,
                index: Arc::new(index),
                join: Arc::new(join),
            }),
            columns,
            estimate,
            sorted,
            conditions: conditions.to_vec(),
        })
    }

    /// Whether a pattern can be searched for each row of a table: the shared slots must always be bound.
    pub(crate) fn can_search(planner: &Planner<'_>, pattern: &Pattern, input: &Estimate) -> bool {
        let mut shared = pattern.slots().filter(|slot| input.facts.contains_key(slot)).peekable();
        match shared.peek() {
            Some(_) => shared.all(|slot| input.is_certain(slot)),
            None => IndexJoin::is_found_once(planner, pattern),
        }
    }

    /// Whether a pattern's rows are contiguous in an index. Then one search finds them for all rows of the other side,
    /// so the join needs no table.
    pub(crate) fn is_found_once(planner: &Planner<'_>, pattern: &Pattern) -> bool {
        let constants = pattern.0.map(|at| at.constant().is_some());
        let count = constants.iter().filter(|constant| **constant).count();
        let mut slots = pattern.slots();
        let is_repeated = slots.next().is_some_and(|first| slots.any(|slot| slot == first));
        // A pattern with two constants besides the graph has one slot.
        constants[..LAST].contains(&true)
            && !is_repeated
            && planner.terms.snapshot.orders().any(|order| order.prefix(constants) == count)
    }

    /// How to search a pattern for each row of an input; also the slots of the search's output.
    fn index_spec(planner: &Planner<'_>, pattern: &Pattern, input: &Physical) -> (IndexSpec, Vec<Slot>) {
        let snapshot = &planner.terms.snapshot;
        let known = pattern.0.map(|at| match at {
            At::Constant(_) => true,
            At::Slot(slot) => input.estimate.is_certain(slot),
            At::Merged => false,
        });
        let constants = pattern.0.map(|at| at.constant().is_some());
        let statistics = estimate::statistics_of(snapshot, pattern.graph());
        // Of two orders with one known level in front, besides the graph, the one with fewer rows for each value.
        let values = |order: &Order| match order.positions()[usize::from(order.is_by_graph())] {
            Position::Subject => statistics.subjects,
            Position::Predicate => statistics.predicate_count(),
            Position::Object => statistics.objects,
            Position::Graph => unreachable!("the graph is the first or the last"),
        };
        let rank = |order: &Order| (order.prefix(known), order.prefix(constants), values(order));
        let by_graph = known[Position::Graph as usize];
        let orders = snapshot.orders().filter(|order| order.is_by_graph() == by_graph);
        let order = orders.max_by_key(rank).expect("a store has indexes");
        let arranged = order.arrange(pattern.0);
        let source = |at: &At| match at {
            At::Constant(id) => Some(Source::Constant(*id)),
            At::Slot(slot) if input.estimate.is_certain(*slot) => input.column(*slot).map(Source::Column),
            At::Slot(_) | At::Merged => None,
        };
        let prefix: Vec<Source> = arranged.iter().map_while(source).collect();
        let (mut checks, mut repeated, mut output, mut slots) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (level, at) in arranged.iter().enumerate().skip(prefix.len()) {
            match (source(at), at) {
                (Some(source), _) => checks.push((level, source)),
                (None, At::Slot(slot)) => match arranged[prefix.len()..level].iter().position(|other| other == at) {
                    Some(first) => repeated.push((prefix.len() + first, level)),
                    None => {
                        output.push(level);
                        slots.push(*slot);
                    }
                },
                (None, At::Merged) => (),
                (None, At::Constant(_)) => unreachable!("constants have a source"),
            }
        }
        let merged = (pattern.graph() == At::Merged).then(|| planner.terms.merged.clone());
        (IndexSpec { order, prefix, checks, repeated, output, merged, want: Want::All }, slots)
    }
}
