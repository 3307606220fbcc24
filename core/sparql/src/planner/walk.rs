//! Property paths of any length: the end to walk from, and their place within a group.

use super::build::{JoinTask, Matching, ProbeOutput, cost};
use super::estimate::{self, Estimate, Facts};
use super::{Goal, Planner};
use crate::algebra::{At, Node, Path, Pattern, Slot, Slots, Table};
use crate::boxes::join::JoinKind;
use crate::condition::Kinds;
use crate::expression::Expr;
use crate::graphs::Active;
use crate::operators::index_join::Source;
use crate::operators::nodes::Nodes;
use crate::operators::walk::Walk;
use crate::operators::walk::{In, WalkSpec};
use crate::operators::{Below, Op, Physical};
use crate::route::{Automaton, Begin, Route};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// How many times more pairs are assumed to be connected by any number of steps than by one.
const REACHED: f64 = 8.0;

/// Nanoseconds for starting to walk from a row, before the first step.
const WALK: f64 = 150.0;

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

impl Planner<'_> {
    /// A path by itself: from its constant end; else from the nodes for its first step, on the side with fewer nodes.
    /// If the path may have no step, all other nodes are connected with themselves.
    pub(crate) fn walk_alone(&self, path: &Path, needed: &Slots) -> Physical {
        let (At::Slot(subject), At::Slot(object)) = (path.subject, path.object) else {
            return self.walk(self.graphs_of(path.graph), path, JoinKind::Inner, &[], needed);
        };
        if [path.subject, path.object].contains(&path.graph) {
            return self.walk(self.graphs_of(path.graph), path, JoinKind::Inner, &[], needed);
        }
        let choices = [(subject, path.route.begins(false)), (object, path.route.begins(true))];
        let choices = choices.map(|(slot, begins)| (slot, self.beginnings(slot, &begins, path.graph), begins));
        let [forward, backward] = choices;
        let rows = |starts: &Option<Physical>| starts.as_ref().map_or(f64::INFINITY, |plan| plan.estimate.rows);
        let (slot, starts, begins) = if rows(&backward.1) < rows(&forward.1) { backward } else { forward };
        let Some(starts) = starts.filter(|_| self.optimise) else {
            return self.walk(self.nodes(subject, path.graph), path, JoinKind::Inner, &[], needed);
        };
        if !path.route.may_stay() {
            return self.walk(starts, path, JoinKind::Inner, &[], needed);
        }
        let others = self.nodes(slot, path.graph);
        if path.graph.slot().is_some()
            || starts.cost + (starts.estimate.rows * cost::BUILD) + (others.estimate.rows * cost::PROBE)
                > (others.estimate.rows - starts.estimate.rows) * WALK
        {
            return self.walk(others, path, JoinKind::Inner, &[], needed);
        }
        let both: Slots = [subject, object].into_iter().collect();
        let goal = Goal { set: false, first: false };
        let again = self.beginnings(slot, &begins, path.graph).expect("it was made before");
        let kept: Slots = [slot].into_iter().collect();
        let task = JoinTask { kind: JoinKind::Anti, conditions: &[], needed: &kept };
        let alone = self.hash_join(others, again, Matching::SHARED, task, goal);
        let other = if slot == subject { object } else { subject };
        let alone = if other == slot { alone } else { self.extend(alone, other, &Expr::Slot(slot), &both) };
        let walked = self.walk(starts, path, JoinKind::Inner, &[], &both);
        let columns: Vec<Slot> = both.intersection(needed).copied().collect();
        self.union(vec![walked, alone], columns)
    }

    /// The possible nodes of a first step, each once in each graph; `None` if it can begin anywhere.
    fn beginnings(&self, slot: Slot, begins: &[Begin], graph: At) -> Option<Physical> {
        let needed: Slots = [slot].into_iter().chain(graph.slot()).collect();
        let scan = |begin: &Begin| {
            let pattern = match *begin {
                Begin::Subjects(id) => [At::Slot(slot), At::Constant(id), ANYTHING, graph],
                Begin::Objects(id) => [ANYTHING, At::Constant(id), At::Slot(slot), graph],
                Begin::Anywhere => return None,
            };
            let scan = self.scan(&Pattern(pattern), Some(slot), &needed, Goal { set: true, first: false });
            // Rows of several graphs don't come in the order of their nodes and graphs.
            let is_distinct = matches!(&scan.op, Op::Scan(scan) if scan.spec.distinct);
            Some(if is_distinct { scan } else { self.distinct(scan) })
        };
        let mut all = begins.iter().map(scan).collect::<Option<Vec<Physical>>>()?;
        if all.len() == 1 {
            return all.pop();
        }
        Some(self.distinct(self.union(all, needed.iter().copied().collect::<Vec<Slot>>())))
    }

    /// Estimates a path from subjects to objects by statistics.
    fn connected(&self, route: &Route, graph: At) -> Connected {
        let statistics = estimate::statistics_of(&self.terms.snapshot, graph);
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
                let inner = self.connected(inner, graph);
                Connected { starts: inner.ends, ends: inner.starts, ..inner }
            }
            Route::Sequence(a, b) => {
                let (a, b) = (self.connected(a, graph), self.connected(b, graph));
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
                let (a, b) = (self.connected(a, graph), self.connected(b, graph));
                Connected {
                    starts: a.starts + b.starts,
                    ends: a.ends + b.ends,
                    pairs: a.pairs + b.pairs,
                    stays: a.stays || b.stays,
                }
            }
            Route::Optional(inner) => Connected { stays: true, ..self.connected(inner, graph) },
            Route::Any(inner) | Route::Many(inner) => {
                let inner = self.connected(inner, graph);
                let pairs = (inner.pairs * REACHED).min(inner.starts * inner.ends).max(inner.pairs);
                Connected { pairs, stays: inner.stays || matches!(route, Route::Any(_)), ..inner }
            }
        }
    }

    fn nodes(&self, slot: Slot, graph: At) -> Physical {
        let statistics = estimate::statistics_of(&self.terms.snapshot, graph);
        let rows = match graph {
            At::Slot(_) => (statistics.subjects + statistics.objects) as f64,
            graph => Active::of(graph, &self.terms.merged).node_count(&self.terms.snapshot) as f64,
        };
        let of_node = Facts { distinct: rows, kinds: Kinds::ANY, certain: true };
        let of_graph = Facts { distinct: self.terms.snapshot.graphs().len() as f64, ..of_node };
        let facts = [(slot, of_node)].into_iter().chain(graph.slot().map(|slot| (slot, of_graph)));
        self.made(Physical {
            op: Op::Nodes(Nodes { graph }),
            columns: [slot].into_iter().chain(graph.slot()).collect(),
            estimate: Estimate { rows, facts: facts.collect() },
            cost: rows * cost::SCAN,
            startup: 0.0,
            sorted: Some(slot).filter(|_| graph.slot().is_none()),
            conditions: Vec::new(),
        })
    }

    /// Whether a path can be walked for each row of a table: the graph and at least one end are always bound, and the
    /// other end is always bound or never.
    pub(crate) fn can_walk(&self, path: &Path, input: &Estimate) -> bool {
        let known = |at: At| match at {
            At::Slot(slot) => input.is_certain(slot),
            At::Constant(_) | At::Merged => true,
        };
        let open = |at: At| matches!(at, At::Slot(slot) if !input.facts.contains_key(&slot));
        let (a, b) = (path.subject, path.object);
        known(path.graph) && (known(a) || known(b)) && (known(a) || open(a)) && (known(b) || open(b))
    }

    /// Walks the path from each row of the input. Panics unless [`Planner::can_walk`].
    pub(crate) fn walk(
        &self,
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
        let mut connected = self.connected(&path.route, path.graph);
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
            None => In::Graph(Active::of(path.graph, &self.terms.merged)),
        };
        let spec = WalkSpec { automaton: Arc::new(Automaton::new(&path.route, backward)), graph, start, target };
        let (join, columns) = self.join_spec(
            JoinTask { kind, conditions, needed },
            &input,
            ProbeOutput { slots: &slots, merged: &Slots::new() },
            &both,
        );
        let estimate = self.joined(kind, &input.estimate, both, conditions, &columns);
        self.made(Physical {
            cost: input.cost + input.estimate.rows * WALK + reached * cost::SEARCH_FAR,
            startup: input.startup + WALK,
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

    /// A group with paths between variables. The paths are walked from the bindings of the rest of the group, the
    /// smallest part first, so no path is walked from starts outside the group.
    pub(crate) fn walked_group(&self, nodes: &[Node], conditions: &[Expr], needed: &Slots, goal: Goal) -> Physical {
        let (walks, rest): (Vec<&Node>, Vec<&Node>) = nodes.iter().partition(|node| is_open_walk(node));
        let mut walks: Vec<&Path> = walks
            .into_iter()
            .filter_map(|node| match node {
                Node::Path(path) => Some(path),
                _ => None,
            })
            .collect();
        let mut conditions = conditions.to_vec();
        let mut inside = needed.clone();
        inside.extend(conditions.iter().flat_map(Expr::slots).chain(walks.iter().flat_map(|path| path.slots())));
        let mut plans: Vec<Physical> = Vec::new();
        for part in components(rest) {
            let certain: Slots = part.iter().flat_map(|node| node.scope().certain).collect();
            self.stop.count_steps(conditions.len());
            let (own, others): (Vec<Expr>, Vec<Expr>) = conditions
                .into_iter()
                .partition(|condition| !condition.slots().is_empty() && condition.slots().is_subset(&certain));
            conditions = others;
            plans.push(self.group(&part, &own, &inside, goal));
        }
        let join = |a: Physical, b: Physical| {
            let (probe, build) = if a.estimate.rows < b.estimate.rows { (b, a) } else { (a, b) };
            let task = JoinTask { kind: JoinKind::Inner, conditions: &[], needed: &inside };
            if let Op::Scan(scan) = &probe.op
                && self.can_search(&scan.pattern, &build.estimate)
                && build.estimate.rows * cost::SEARCH_FAR < probe.cost + probe.estimate.rows * cost::PROBE
            {
                let pattern = scan.pattern;
                return self.index_join(build, &pattern, task, goal);
            }
            self.hash_join(probe, build, Matching::SHARED, task, goal)
        };
        loop {
            // All parts but the last have nothing in common.
            let last = plans.len().saturating_sub(1);
            let shares = |b: &usize| plans[last].columns.iter().any(|slot| plans[*b].columns.has(*slot));
            if let Some(b) = (0..last).find(shares) {
                let (a, b) = (plans.remove(last), plans.remove(b));
                plans.push(join(a, b));
                continue;
            }
            let width = plans.last().map_or(0, |plan| plan.columns.len());
            if self.stop.count_steps(plans.len() * (walks.len() + width) / 2) {
                break;
            }
            let known = |path: &Path, plan: &Physical| path.slots().all(|slot| plan.column(slot).is_some());
            let next = (0..walks.len())
                .flat_map(|walk| (0..plans.len()).map(move |plan| (walk, plan)))
                .filter(|&(walk, plan)| self.can_walk(walks[walk], &plans[plan].estimate))
                .min_by(|&(a, x), &(b, y)| {
                    let is_open = |walk: usize, plan: usize| !known(walks[walk], &plans[plan]);
                    let rows = plans[x].estimate.rows.total_cmp(&plans[y].estimate.rows);
                    is_open(a, x).cmp(&is_open(b, y)).then(rows)
                });
            let is_better_alone = |walk: usize, plan: usize| {
                let (path, input) = (walks[walk], &plans[plan]);
                let alone = self.walk_alone(path, &inside);
                let walked = input.estimate.rows * WALK;
                let joined = alone.estimate.rows.min(input.estimate.rows) * cost::BUILD
                    + alone.estimate.rows.max(input.estimate.rows) * cost::PROBE;
                (!goal.first && alone.cost + joined < walked).then_some(alone)
            };
            if let Some((walk, plan)) = next {
                if let Some(alone) = is_better_alone(walk, plan) {
                    walks.remove(walk);
                    plans.push(alone);
                    continue;
                }
                let (path, input) = (walks.remove(walk), plans.remove(plan));
                plans.push(self.walk(input, path, JoinKind::Inner, &[], &inside));
            } else if let Some(path) = walks.pop() {
                plans.push(self.walk_alone(path, &inside));
            } else if plans.len() > 1 {
                let (a, b) = (plans.remove(1), plans.remove(0));
                plans.push(join(a, b));
            } else {
                break;
            }
        }
        let Some(plan) = plans.pop() else { return self.values(&[], &Table::unit(), needed) };
        self.filter(plan, &conditions, needed)
    }
}

/// Whether both ends of a path are variables, or its graph is one.
pub(crate) fn is_open_walk(node: &Node) -> bool {
    match node {
        Node::Path(path) => {
            path.graph.slot().is_some() || path.subject.slot().is_some() && path.object.slot().is_some()
        }
        _ => false,
    }
}

/// Divides nodes into parts. No two parts share a variable.
fn components(nodes: Vec<&Node>) -> Vec<Vec<Node>> {
    // Each part is represented by its first node. A node merged into another part points towards the first node of this
    // part.
    let mut parents: Vec<usize> = (0..nodes.len()).collect();
    fn first(parents: &mut [usize], mut node: usize) -> usize {
        while parents[node] != node {
            parents[node] = parents[parents[node]];
            node = parents[node];
        }
        node
    }
    let mut holders: FxHashMap<Slot, usize> = FxHashMap::default();
    for (place, node) in nodes.iter().enumerate() {
        for slot in node.scope().possible {
            let other = *holders.entry(slot).or_insert(place);
            let (a, b) = (first(&mut parents, other), first(&mut parents, place));
            parents[a.max(b)] = a.min(b);
        }
    }
    // A part takes the place of its last node.
    let mut parts: Vec<(usize, Vec<Node>)> = vec![(0, Vec::new()); nodes.len()];
    for (place, node) in nodes.into_iter().enumerate() {
        let (last, part) = &mut parts[first(&mut parents, place)];
        *last = place;
        part.push(node.clone());
    }
    parts.retain(|(_, part)| !part.is_empty());
    parts.sort_by_key(|(last, _)| *last);
    parts.into_iter().map(|(_, part)| part).collect()
}
