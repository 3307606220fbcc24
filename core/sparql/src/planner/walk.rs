//! Property paths of any length: the end to walk from, and their place within a group.

use super::build::{JoinTask, Matching, cost};
use super::{Goal, Planner};
use crate::algebra::{Node, Path, Slot, Slots, Table};
use crate::boxes::join::JoinKind;
use crate::expression::Expr;
use crate::operators::Physical;
use crate::operators::filter::Filter;
use crate::operators::hash_join::HashJoin;
use crate::operators::index_join::IndexJoin;
use crate::operators::scan::Scan;
use crate::operators::values::Values;
use crate::operators::walk::{START, Walk};
use rustc_hash::FxHashMap;

impl Planner<'_> {
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
            if let Some(scan) = Scan::of(&probe)
                && IndexJoin::can_search(self, &scan.pattern, &build.estimate)
                && build.estimate.rows * cost::SEARCH_FAR < probe.cost + probe.estimate.rows * cost::PROBE
            {
                let pattern = scan.pattern;
                return IndexJoin::plan(self, build, &pattern, task, goal);
            }
            HashJoin::plan(self, probe, build, Matching::SHARED, task, goal)
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
                .filter(|&(walk, plan)| Walk::can_walk(walks[walk], &plans[plan].estimate))
                .min_by(|&(a, x), &(b, y)| {
                    let is_open = |walk: usize, plan: usize| !known(walks[walk], &plans[plan]);
                    let rows = plans[x].estimate.rows.total_cmp(&plans[y].estimate.rows);
                    is_open(a, x).cmp(&is_open(b, y)).then(rows)
                });
            let is_better_alone = |walk: usize, plan: usize| {
                let (path, input) = (walks[walk], &plans[plan]);
                let alone = Walk::alone(self, path, &inside);
                let walked = input.estimate.rows * START;
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
                plans.push(Walk::plan(self, input, path, JoinKind::Inner, &[], &inside));
            } else if let Some(path) = walks.pop() {
                plans.push(Walk::alone(self, path, &inside));
            } else if plans.len() > 1 {
                let (a, b) = (plans.remove(1), plans.remove(0));
                plans.push(join(a, b));
            } else {
                break;
            }
        }
        let Some(plan) = plans.pop() else { return Values::plan(self, &[], &Table::unit(), needed) };
        Filter::plan(self, plan, &conditions, needed)
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
