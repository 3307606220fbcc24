//! OPTIONAL, its negation, EXISTS, and MINUS.

use super::build::{AtHand, JoinTask, Matching, cost};
use super::group::single_inequality;
use super::walk::is_open_walk;
use super::{Goal, Planner};
use crate::algebra::{Node, Path, Pattern, Service, Slot, Slots};
use crate::boxes::join::JoinKind;
use crate::expression::{Compare, Expr};
use crate::operators::extend::Extend;
use crate::operators::hash_join::{By, HashJoin, Keep};
use crate::operators::index_join::IndexJoin;
use crate::operators::scan::Scan;
use crate::operators::walk::Walk;
use crate::operators::{self, Physical};
use std::sync::Arc;

impl Planner<'_> {
    pub(crate) fn outer(&self, node: &Node, needed: &Slots, goal: Goal) -> Physical {
        let (kind, left_node, right_node, conditions, minus) = match node {
            Node::LeftJoin { left, right, conditions } => (JoinKind::Left, left, right, &conditions[..], None),
            Node::AntiJoin { left, right, conditions } => (JoinKind::Anti, left, right, &conditions[..], None),
            Node::SemiJoin { left, right, conditions } => (JoinKind::Semi, left, right, &conditions[..], None),
            Node::MarkJoin { left, mark, .. } if !needed.contains(mark) => return self.plan(left, needed, goal),
            Node::MarkJoin { left, right, conditions, mark } => {
                (JoinKind::Mark(*mark), left, right, &conditions[..], None)
            }
            Node::Minus { left, right, graph } => (JoinKind::Anti, left, right, &[][..], Some(*graph)),
            other => unreachable!("{other:?} is no outer join"),
        };
        let (left_scope, right_scope) = (left_node.scope(), right_node.scope());
        // The smaller set of slots is looked up in the larger one.
        self.stop.count_steps(left_scope.possible.len() / 4);
        let shared: Slots = left_scope.possible.intersection(&right_scope.possible).copied().collect();
        let mut inside = needed.clone();
        inside.extend(conditions.iter().flat_map(Expr::slots).chain(shared.iter().copied()));
        let of_right: Slots = inside.intersection(&right_scope.possible).copied().collect();
        let service = alone(right_node, &as_service).filter(|_| kind == JoinKind::Left && self.optimise);
        inside.extend(service.iter().flat_map(|(service, _)| service.mentioned()));
        inside.retain(|slot| left_scope.possible.contains(slot));
        let left = self.plan(left_node, &inside, goal);
        if kind == JoinKind::Left
            && self.optimise
            && goal.set
            && right_scope.possible.iter().all(|slot| left_scope.certain.contains(slot) || !needed.contains(slot))
        {
            // No reader uses OPTIONAL's additions, and the left rows all stay, so the right side is left out.
            return Extend::project(self, left, needed);
        }
        let set = self.optimise && (goal.set || matches!(kind, JoinKind::Anti | JoinKind::Semi | JoinKind::Mark(_)));
        // The table is complete before the first row is sent, so the time to its first row doesn't matter.
        let right_goal = Goal { set, first: false };
        if let (Some((pattern, more)), true) = (alone(right_node, &as_pattern), self.optimise && minus.is_none()) {
            let mut all = conditions.to_vec();
            all.extend(more.iter().cloned());
            // The slots shared with the left are always bound there, so the search knows the values to look for.
            if IndexJoin::can_search(self, &pattern, &left.estimate) {
                // If duplicates don't matter, one of several equal rows is read.
                let rows = match right_goal.set {
                    true => Scan::plan(self, &pattern, None, &of_right, right_goal).estimate.rows,
                    false => self.of_pattern(&pattern).rows,
                };
                let mut searching = left.estimate.rows * cost::SEARCH_FAR;
                let building = cost::TABLE + rows * (cost::SCAN + cost::BUILD) + left.estimate.rows * cost::PROBE;
                // An equality is tested with each of the found rows, while a table finds the equal rows directly.
                let is_apart = shared.is_empty() && all.iter().any(|condition| condition.as_equality().is_some());
                if is_apart {
                    searching += left.estimate.rows * rows * cost::CONDITION;
                }
                if goal.first && !is_apart || searching <= building {
                    let task = JoinTask { kind, conditions: &all, needed };
                    return IndexJoin::plan(self, left, &pattern, task, right_goal_of(goal));
                }
            }
        }
        if let Some((service, more)) = service {
            let all = [conditions, more].concat();
            return operators::service::Service::plan(self, left, service, JoinTask { kind, conditions: &all, needed });
        }
        if let (Some((path, more)), true) = (alone(right_node, &as_path), self.optimise && minus.is_none()) {
            let mut all = conditions.to_vec();
            all.extend(more.iter().cloned());
            if Walk::can_walk(path, &left.estimate) {
                return Walk::plan(self, left, path, kind, &all, needed);
            }
        }
        let before = self.stop.spent().steps;
        let right = self.plan(right_node, &of_right, right_goal);
        let steps = self.stop.spent().steps - before;
        let at_hand = AtHand { plan: &right, steps };
        let asked = self.asked_for(left_node, &left, right_node, at_hand, &of_right, right_goal);
        let right = asked.unwrap_or(right);
        let (mut left, mut right) = (left, right);
        let (mut keys, mut rest) = (Vec::new(), conditions.to_vec());
        if self.optimise {
            (left, right, rest) = self.with_computed_keys(left, right, rest, kind);
            (keys, rest) = self.equalities(&left, &right, &rest);
        }
        let is_strict = keys.iter().all(|(_, _, by)| *by == By::Id)
            && shared.iter().all(|slot| left.estimate.is_certain(*slot) && right.estimate.is_certain(*slot));
        let mut keep = Keep::All;
        if kind == JoinKind::Anti
            && self.optimise
            && is_strict
            && let Some((slot, operator)) = single_inequality(&left, &right, &rest)
        {
            // There is a partner less than the value if the least partner is.
            let column = right.column(slot).expect("a slot of the condition is a column");
            keep = match operator {
                Compare::Less | Compare::LessOrEqual => Keep::Least(column),
                _ => Keep::Greatest(column),
            };
        }
        // Slots always bound by both sides overlap, except for their graph.
        let is_overlap = |slot: &Slot| left.estimate.is_certain(*slot) && right.estimate.is_certain(*slot);
        let needs_overlap =
            minus.is_some_and(|graph| !shared.iter().any(|slot| Some(*slot) != graph && is_overlap(slot)));
        let matching = Matching { equalities: &keys, keep, needs_overlap };
        let task = JoinTask { kind, conditions: &rest, needed };
        HashJoin::plan(self, left, right, matching, task, right_goal_of(goal))
    }
}

/// The goal of a join of a decided kind: only the dropping of duplicates still matters.
fn right_goal_of(goal: Goal) -> Goal {
    Goal { first: false, ..goal }
}

/// The operand known to `leaf` and the conditions on it, if the node is this operand alone.
fn alone<'n, T>(node: &'n Node, leaf: &impl Fn(&'n Node) -> Option<T>) -> Option<(T, &'n [Expr])> {
    if let Some(found) = leaf(node) {
        return Some((found, &[]));
    }
    match node {
        Node::Join(nodes) => match &nodes[..] {
            [only] => alone(only, leaf),
            _ => None,
        },
        Node::Filter { conditions, inner } => match alone(inner, leaf)? {
            (found, []) => Some((found, conditions)),
            _ => None,
        },
        _ => None,
    }
}

fn as_service(node: &Node) -> Option<&Arc<Service>> {
    match node {
        Node::Service { inner, service } if matches!(&**inner, Node::Join(nodes) if nodes.is_empty()) => Some(service),
        _ => None,
    }
}

/// A path between variables.
fn as_path(node: &Node) -> Option<&Path> {
    match node {
        Node::Path(path) if is_open_walk(node) => Some(path),
        _ => None,
    }
}

fn as_pattern(node: &Node) -> Option<Pattern> {
    match node {
        Node::Pattern(pattern) => Some(*pattern),
        _ => None,
    }
}
