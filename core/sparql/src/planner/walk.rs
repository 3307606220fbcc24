//! Property paths of any length: from which end, and when in a group.

use super::build::{Op, Physical, cost};
use super::estimate::{Estimate, Facts};
use super::{Goal, Planner};
use crate::algebra::{At, Node, Path, Slot, Slots, Table};
use crate::boxes::hash_table::Keep;
use crate::boxes::index_probe::Source;
use crate::boxes::join::JoinKind;
use crate::boxes::walk::WalkSpec;
use crate::condition::Kinds;
use crate::expression::Expr;
use crate::route::Automaton;
use std::sync::Arc;

/// As many ends are thought to be reached from a start.
const REACHED: f64 = 8.0;

impl Planner<'_> {
    /// A path by itself: from its constant end, else from every node there is.
    pub(crate) fn walk_alone(&self, path: &Path, needed: &Slots) -> Physical {
        let input = match (path.subject, path.object) {
            (At::Slot(slot), At::Slot(_)) => self.nodes(slot),
            _ => self.values(&[], &Table::unit(), needed),
        };
        self.walk(input, path, JoinKind::Inner, &[], needed)
    }

    fn nodes(&self, slot: Slot) -> Physical {
        let statistics = self.terms.store.statistics();
        let rows = (statistics.subjects + statistics.objects) as f64;
        let facts = [(slot, Facts { distinct: rows, kinds: Kinds::ANY, certain: true })];
        Physical {
            op: Op::Nodes,
            columns: vec![slot],
            estimate: Estimate { rows, facts: facts.into_iter().collect() },
            cost: rows * cost::SCAN,
            startup: 0.0,
            sorted: Some(slot),
            conditions: Vec::new(),
        }
    }

    /// Whether a path can be walked for each row of a table: an end is known, and no end may or may not be.
    pub(crate) fn can_walk(&self, path: &Path, input: &Estimate) -> bool {
        let known = |at: At| match at {
            At::Slot(slot) => input.is_certain(slot),
            At::Constant(_) => true,
        };
        let open = |at: At| matches!(at, At::Slot(slot) if !input.facts.contains_key(&slot));
        let (a, b) = (path.subject, path.object);
        (known(a) || known(b)) && (known(a) || open(a)) && (known(b) || open(b))
    }

    /// Walks the path from each row of the input. Panics unless it can be.
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
        };
        let (a, b) = (source(path.subject), source(path.object));
        // Rows that have a start begin there: what a constant reaches would be remembered for each of their ends.
        let backward = matches!((a, b), (None, _) | (Some(Source::Constant(_)), Some(Source::Column(_))));
        let (start, target, end) = if backward { (b, a, path.subject) } else { (a, b, path.object) };
        let start = start.expect("an end of the path is known");
        let slots: Vec<Slot> = match (target, end) {
            (None, At::Slot(slot)) => vec![slot],
            _ => Vec::new(),
        };
        let mut both = input.estimate.clone();
        let rows = input.estimate.rows * if target.is_some() { 0.5 } else { REACHED };
        both = both.with_rows(rows);
        both.facts.extend(
            slots.iter().map(|slot| (*slot, Facts { distinct: rows.max(1.0), kinds: Kinds::ANY, certain: true })),
        );
        let spec = WalkSpec { automaton: Arc::new(Automaton::new(&path.route, backward)), start, target };
        let (join, columns) = self.join_spec(kind, &input, &slots, &[], conditions, needed, &both);
        let estimate = self.joined(kind, &input.estimate, both, conditions, &columns);
        Physical {
            cost: input.cost + input.estimate.rows * REACHED * cost::SEARCH_FAR,
            startup: input.startup + cost::SEARCH_FAR,
            sorted: input.sorted.filter(|slot| columns.contains(slot)),
            op: Op::Walk(Box::new(input), path.clone(), Arc::new(spec), Arc::new(join)),
            columns,
            estimate,
            conditions: conditions.to_vec(),
        }
    }

    /// A group with paths between variables. They are walked from what the rest of the group binds, the smallest part
    /// first, so that no path is followed from where nobody asked.
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
        conditions.iter().for_each(|condition| inside.extend(condition.slots()));
        walks.iter().for_each(|path| inside.extend(path.slots()));
        let mut plans: Vec<Physical> = Vec::new();
        for part in components(rest) {
            let certain: Slots = part.iter().flat_map(|node| node.scope().certain).collect();
            let (own, others): (Vec<Expr>, Vec<Expr>) = conditions
                .into_iter()
                .partition(|condition| !condition.slots().is_empty() && condition.slots().is_subset(&certain));
            conditions = others;
            plans.push(self.group(&part, &own, &inside, goal));
        }
        let join = |a: Physical, b: Physical| {
            let (probe, build) = if a.estimate.rows < b.estimate.rows { (b, a) } else { (a, b) };
            self.hash_join(probe, build, JoinKind::Inner, &[], &[], Keep::All, false, &inside, goal)
        };
        loop {
            let shares = |a: &Physical, b: &Physical| a.columns.iter().any(|slot| b.column(*slot).is_some());
            let pair =
                (0..plans.len()).flat_map(|a| (0..a).map(move |b| (a, b))).find(|&(a, b)| shares(&plans[a], &plans[b]));
            if let Some((a, b)) = pair {
                let (a, b) = (plans.remove(a), plans.remove(b));
                plans.push(join(a, b));
                continue;
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
            if let Some((walk, plan)) = next {
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
        let plan = plans.pop().expect("there was a path");
        self.filter(plan, &conditions, needed)
    }
}

/// A path whose ends are both variables.
pub(crate) fn is_open_walk(node: &Node) -> bool {
    matches!(node, Node::Path(Path { subject: At::Slot(_), object: At::Slot(_), .. }))
}

/// Parts of a group that have no variable in common.
fn components(nodes: Vec<&Node>) -> Vec<Vec<Node>> {
    let mut parts: Vec<(Slots, Vec<Node>)> = Vec::new();
    for node in nodes {
        let mut slots = node.scope().possible;
        let (touched, apart): (Vec<_>, Vec<_>) = parts.into_iter().partition(|(other, _)| !other.is_disjoint(&slots));
        let mut all = Vec::new();
        for (other, nodes) in touched {
            slots.extend(other);
            all.extend(nodes);
        }
        all.push(node.clone());
        parts = apart;
        parts.push((slots, all));
    }
    parts.into_iter().map(|(_, nodes)| nodes).collect()
}
