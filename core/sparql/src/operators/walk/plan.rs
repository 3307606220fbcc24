//! How paths are planned: the end to walk from, and an estimate of what is reached.

use super::{In, Walk, WalkSpec};
use crate::algebra::{At, Path, Pattern, Slot, Slots};
use crate::boxes::join::JoinKind;
use crate::condition::Kinds;
use crate::expression::Expr;
use crate::graphs::Active;
use crate::operators::distinct::Distinct;
use crate::operators::extend::Extend;
use crate::operators::hash_join::HashJoin;
use crate::operators::index_join::Source;
use crate::operators::nodes::Nodes;
use crate::operators::scan::Scan;
use crate::operators::union::Union;
use crate::operators::{Below, Op, Physical};
use crate::planner::{Estimate, Facts, Goal, JoinTask, Matching, Planner, ProbeOutput, cost, estimate};
use crate::route::{Automaton, Begin, Route};
use std::sync::Arc;

/// How many times more pairs are assumed to be connected by any number of steps than by one.
const REACHED: f64 = 8.0;

/// Nanoseconds for starting to walk from a row, before the first step.
pub(crate) const START: f64 = 150.0;

/// In a pattern: matches any term.
const ANYTHING: At = At::Slot(Slot(usize::MAX));

/// About how many pairs of nodes a path connects in one step or more, and how many nodes there are at either end.
#[derive(Clone, Copy)]
struct Connected {
    starts: f64,
    ends: f64,
    pairs: f64,
    /// Whether each node is connected with itself as well.
    stays: bool,
}

impl Walk {
    /// A path by itself: from its constant end; else from the nodes for its first step, on the side with fewer nodes.
    /// If the path may have no step, all other nodes are connected with themselves.
    pub(crate) fn alone(planner: &Planner<'_>, path: &Path, needed: &Slots) -> Physical {
        let (At::Slot(subject), At::Slot(object)) = (path.subject, path.object) else {
            return Walk::plan(planner, planner.graphs_of(path.graph), path, JoinKind::Inner, &[], needed);
        };
        if [path.subject, path.object].contains(&path.graph) {
            return Walk::plan(planner, planner.graphs_of(path.graph), path, JoinKind::Inner, &[], needed);
        }
        let choices = [(subject, path.route.begins(false)), (object, path.route.begins(true))];
        let choices =
            choices.map(|(slot, begins)| (slot, Walk::beginnings(planner, slot, &begins, path.graph), begins));
        let [forward, backward] = choices;
        let rows = |starts: &Option<Physical>| starts.as_ref().map_or(f64::INFINITY, |plan| plan.estimate.rows);
        let (slot, starts, begins) = if rows(&backward.1) < rows(&forward.1) { backward } else { forward };
        let Some(starts) = starts.filter(|_| planner.optimise) else {
            return Walk::plan(planner, Nodes::plan(planner, subject, path.graph), path, JoinKind::Inner, &[], needed);
        };
        if !path.route.may_stay() {
            return Walk::plan(planner, starts, path, JoinKind::Inner, &[], needed);
        }
        let others = Nodes::plan(planner, slot, path.graph);
        if path.graph.slot().is_some()
            || starts.cost + (starts.estimate.rows * cost::BUILD) + (others.estimate.rows * cost::PROBE)
                > (others.estimate.rows - starts.estimate.rows) * START
        {
            return Walk::plan(planner, others, path, JoinKind::Inner, &[], needed);
        }
        let both: Slots = [subject, object].into_iter().collect();
        let goal = Goal { set: false, first: false };
        let again = Walk::beginnings(planner, slot, &begins, path.graph).expect("it was made before");
        let kept: Slots = [slot].into_iter().collect();
        let task = JoinTask { kind: JoinKind::Anti, conditions: &[], needed: &kept };
        let alone = HashJoin::plan(planner, others, again, Matching::SHARED, task, goal);
        let other = if slot == subject { object } else { subject };
        let alone = if other == slot { alone } else { Extend::plan(planner, alone, other, &Expr::Slot(slot), &both) };
        let walked = Walk::plan(planner, starts, path, JoinKind::Inner, &[], &both);
        let columns: Vec<Slot> = both.intersection(needed).copied().collect();
        Union::plan(planner, vec![walked, alone], columns)
    }

    /// Walks the path from each row of the input. Panics unless [`Walk::can_walk`].
    pub(crate) fn plan(
        planner: &Planner<'_>,
        input: Physical,
        path: &Path,
        kind: JoinKind,
        conditions: &[Expr],
        needed: &Slots,
    ) -> Physical {
        let source = |at: At| match at {
            At::Constant(id) => Some(Source::Constant(id)),
            At::Slot(slot) => input.column(slot).map(Source::Column),
            At::Merged => None,
        };
        let (a, b) = (source(path.subject), source(path.object));
        // If a row binds one end and the other is a constant, walk from the row's end. From the constant, all reached
        // nodes would be remembered for each row.
        let backward = matches!((a, b), (None, _) | (Some(Source::Constant(_)), Some(Source::Column(_))));
        let (start, target, at_start, end) =
            if backward { (b, a, path.object, path.subject) } else { (a, b, path.subject, path.object) };
        let start = start.expect("an end of the path is known");
        let slots: Vec<Slot> = match (target, end) {
            (None, At::Slot(slot)) => vec![slot],
            _ => Vec::new(),
        };
        let mut both = input.estimate.clone();
        let mut connected = Walk::connected(planner, &path.route, path.graph);
        if backward {
            (connected.starts, connected.ends) = (connected.ends, connected.starts);
        }
        // The share of rows with a start as value is estimated as `starts / distinct`, at most 1.
        let distinct = match at_start {
            At::Slot(slot) => input.estimate.facts.get(&slot).map_or(1.0, |facts| facts.distinct.max(1.0)),
            At::Constant(_) | At::Merged => 1.0,
        };
        let walked = input.estimate.rows * (connected.starts / distinct).min(1.0);
        let reached = walked * connected.pairs / connected.starts.max(1.0);
        let stay = if connected.stays { input.estimate.rows } else { 0.0 };
        let rows = match target {
            None => reached + stay,
            Some(_) => input.estimate.rows.min(reached / connected.ends.max(1.0) + stay * 0.5),
        };
        both = both.with_rows(rows);
        for slot in &slots {
            both.facts.insert(*slot, Facts { distinct: rows.max(1.0), kinds: Kinds::ANY, certain: true });
        }
        let graph = match path.graph.slot() {
            Some(slot) => In::Column(input.column(slot).expect("the graph of the path is known")),
            None => In::Graph(Active::of(path.graph, &planner.terms.merged)),
        };
        let spec = WalkSpec { automaton: Arc::new(Automaton::new(&path.route, backward)), graph, start, target };
        let (join, columns) = planner.join_spec(
            JoinTask { kind, conditions, needed },
            &input,
            ProbeOutput { slots: &slots, merged: &Slots::new() },
            &both,
        );
        let estimate = planner.joined(kind, &input.estimate, both, conditions, &columns);
        planner.made(Physical {
            cost: input.cost + input.estimate.rows * START + reached * cost::SEARCH_FAR,
            startup: input.startup + START,
            sorted: input.sorted.filter(|slot| columns.has(*slot)),
            op: Op::Walk(Walk {
                input: Below::new(input),
                path: path.clone(),
                walk: Arc::new(spec),
                join: Arc::new(join),
            }),
            columns,
            estimate,
            conditions: conditions.to_vec(),
        })
    }

    /// Whether a path can be walked for each row of a table: the graph and at least one end are always bound, and the
    /// other end is always bound or never.
    pub(crate) fn can_walk(path: &Path, input: &Estimate) -> bool {
        let known = |at: At| match at {
            At::Slot(slot) => input.is_certain(slot),
            At::Constant(_) | At::Merged => true,
        };
        let open = |at: At| matches!(at, At::Slot(slot) if !input.facts.contains_key(&slot));
        let (a, b) = (path.subject, path.object);
        known(path.graph) && (known(a) || known(b)) && (known(a) || open(a)) && (known(b) || open(b))
    }

    /// The possible nodes of a first step, each once in each graph; `None` if it can begin anywhere.
    fn beginnings(planner: &Planner<'_>, slot: Slot, begins: &[Begin], graph: At) -> Option<Physical> {
        let needed: Slots = [slot].into_iter().chain(graph.slot()).collect();
        let scan = |begin: &Begin| {
            let pattern = match *begin {
                Begin::Subjects(id) => [At::Slot(slot), At::Constant(id), ANYTHING, graph],
                Begin::Objects(id) => [ANYTHING, At::Constant(id), At::Slot(slot), graph],
                Begin::Anywhere => return None,
            };
            let scan = Scan::plan(planner, &Pattern(pattern), Some(slot), &needed, Goal { set: true, first: false });
            // Rows of several graphs don't come in the order of their nodes and graphs.
            let is_distinct = Scan::of(&scan).is_some_and(|scan| scan.spec.distinct);
            Some(if is_distinct { scan } else { Distinct::plan(planner, scan) })
        };
        let mut all = begins.iter().map(scan).collect::<Option<Vec<Physical>>>()?;
        if all.len() == 1 {
            return all.pop();
        }
        Some(Distinct::plan(planner, Union::plan(planner, all, needed.iter().copied().collect::<Vec<Slot>>())))
    }

    /// Estimates a path from subjects to objects by statistics.
    fn connected(planner: &Planner<'_>, route: &Route, graph: At) -> Connected {
        let statistics = estimate::statistics_of(&planner.terms.snapshot, graph);
        match route {
            Route::Step(id) => match statistics.predicate(*id) {
                Some(predicate) => Connected {
                    starts: predicate.subjects.distinct as f64,
                    ends: predicate.objects.distinct as f64,
                    pairs: predicate.triples as f64,
                    stays: false,
                },
                None => Connected { starts: 0.0, ends: 0.0, pairs: 0.0, stays: false },
            },
            Route::Not(_) => {
                let (starts, ends) = (statistics.subjects as f64, statistics.objects as f64);
                Connected { starts, ends, pairs: statistics.triples as f64, stays: false }
            }
            Route::Reverse(inner) => {
                let inner = Walk::connected(planner, inner, graph);
                Connected { starts: inner.ends, ends: inner.starts, ..inner }
            }
            Route::Sequence(a, b) => {
                let (a, b) = (Walk::connected(planner, a, graph), Walk::connected(planner, b, graph));
                let mut pairs = a.pairs * b.pairs / a.ends.max(b.starts).max(1.0);
                let (mut starts, mut ends) = (a.starts.min(pairs), b.ends.min(pairs));
                // If one part may have no step, the other part alone is the whole path.
                for other in [(a.stays, b), (b.stays, a)].iter().filter(|(stays, _)| *stays).map(|(_, other)| other) {
                    pairs += other.pairs;
                    starts += other.starts;
                    ends += other.ends;
                }
                Connected { starts, ends, pairs, stays: a.stays && b.stays }
            }
            Route::Either(a, b) => {
                let (a, b) = (Walk::connected(planner, a, graph), Walk::connected(planner, b, graph));
                Connected {
                    starts: a.starts + b.starts,
                    ends: a.ends + b.ends,
                    pairs: a.pairs + b.pairs,
                    stays: a.stays || b.stays,
                }
            }
            Route::Optional(inner) => Connected { stays: true, ..Walk::connected(planner, inner, graph) },
            Route::Any(inner) | Route::Many(inner) => {
                let inner = Walk::connected(planner, inner, graph);
                let pairs = (inner.pairs * REACHED).min(inner.starts * inner.ends).max(inner.pairs);
                Connected { pairs, stays: inner.stays || matches!(route, Route::Any(_)), ..inner }
            }
        }
    }
}
