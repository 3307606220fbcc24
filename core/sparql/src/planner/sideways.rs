//! Restricts the right side of OPTIONAL, EXISTS and MINUS to the keys of the left side, and a sub-select with GROUP BY
//! or DISTINCT to the keys of the rest of its group.
//!
//! The right side is evaluated by itself (SPARQL 1.1, §18.5 and §18.6): for the whole graph, even if few left rows look
//! for partners. Let K have, without duplicates, at least the values of L in the slots always bound on both sides. Then
//! `L ⟕ R` equals `L ⟕ (K ⋈ R)`: other rows of R have no partner in L, and no row of R is repeated. Within `K ⋈ R`
//! joins are ordered as usual, so R is searched from K if this is cheaper, and paths begin there.
//!
//! K is planned a second time besides L, as a plan is a tree. K may be simpler than L: it leaves out optional parts,
//! and parts without a repeatable result. This only makes K larger. This is the "magic set" of deductive databases:
//! Beeri and Ramakrishnan, "On the power of magic", PODS 1987.
//!
//! A sub-select is evaluated by itself, too, for all of its groups. `R ⋈ γ(X)` equals `R ⋈ γ(K ⋈ X)`, if K has the
//! values of R in some keys of the groups: a group is then either there with all of its rows, or not asked for.

use super::build::{AtHand, Operands, cost};
use super::{Goal, Planner};
use crate::algebra::{Group, Node, Operand, Slot, Slots};
use crate::expression::Expr;
use crate::operators::Physical;
use vicus_language::stack::deep;

impl Planner<'_> {
    /// A cheaper plan of the right side for a hash table than the one at hand: restricted to the keys of the left side.
    pub(crate) fn asked_for(
        &self,
        left: &Node,
        left_plan: &Physical,
        right: &Node,
        at_hand: AtHand<'_>,
        needed: &Slots,
        goal: Goal,
    ) -> Option<Physical> {
        let AtHand { plan: alone, steps } = at_hand;
        let price = |plan: &Physical| plan.cost + plan.estimate.rows * cost::BUILD;
        if !self.optimise || alone.cost < self.terms.limits.tried_from_ns as f64 || self.tries.get() == 0 {
            return None;
        }
        // The keys cost about as much as the left side, and each key is searched at least once.
        if left_plan.cost + cost::SEARCH_NEAR > price(alone) {
            return None;
        }
        let asking = deep(|| asking(left))?;
        let (asks, answers) = (asking.scope().certain, right.scope().certain);
        let keys: Slots = asks.intersection(&answers).copied().collect();
        let distinct = |slot| left_plan.estimate.facts.get(slot).map_or(1.0, |facts| facts.distinct.max(1.0));
        let asked = keys.iter().map(distinct).product::<f64>().min(left_plan.estimate.rows);
        if keys.is_empty() || left_plan.cost + asked * cost::SEARCH_NEAR > price(alone) {
            return None;
        }
        // This plans everything nested in the right side again.
        let plan = self.again(price(alone), steps, || {
            self.plan(&restricted(right, keys_alone(asking, &keys), &keys), needed, goal)
        });
        plan.filter(|plan| price(plan) < price(alone))
    }

    /// The join of a group with sub-selects computed only for the keys of the other operands; `None` if there are none,
    /// or if this is not cheaper than the plan at hand.
    pub(crate) fn with_keys_inside(
        &self,
        operands: Operands<'_>,
        at_hand: AtHand<'_>,
        needed: &Slots,
        goal: Goal,
    ) -> Option<Physical> {
        let (Operands { nodes, conditions }, AtHand { plan, steps }) = (operands, at_hand);
        if nodes.len() < 2 || plan.cost < self.terms.limits.tried_from_ns as f64 || !nodes.iter().any(collects) {
            return None;
        }
        let asked = |place: usize| self.asked_inside(nodes, conditions, place);
        let all: Vec<Option<Node>> = (0..nodes.len()).map(|place| deep(|| asked(place))).collect();
        if all.iter().all(Option::is_none) {
            return None;
        }
        let nodes: Vec<Node> =
            all.into_iter().zip(nodes).map(|(asked, node)| asked.unwrap_or_else(|| node.clone())).collect();
        let other = self.again(plan.cost, steps, || self.joined_group(&nodes, conditions, needed, goal))?;
        let always = self.terms.limits.eliminated_from_ns == 0;
        (always || other.price(goal) < plan.price(goal)).then_some(other)
    }

    /// A sub-select among the operands of a group, restricted to the keys of its connected operands.
    fn asked_inside(&self, nodes: &[Node], conditions: &[Expr], place: usize) -> Option<Node> {
        let node = &nodes[place];
        if !collects(node) {
            return None;
        }
        let takes = takes_keys(node);
        let scopes: Vec<Slots> = nodes.iter().map(|node| node.scope().possible).collect();
        self.stop.count_steps(scopes.iter().map(Slots::len).sum());
        let mut reached = takes.clone();
        let mut asking_nodes: Vec<usize> = Vec::new();
        let is_next = |other: usize, reached: &Slots, taken: &[usize]| {
            other != place && !taken.contains(&other) && !scopes[other].is_disjoint(reached)
        };
        while let Some(other) = (0..nodes.len()).find(|&other| is_next(other, &reached, &asking_nodes)) {
            reached.extend(&scopes[other]);
            asking_nodes.push(other);
        }
        let others = Node::Join(asking_nodes.into_iter().map(|other| nodes[other].clone()).collect());
        let asking = asking(&others.filtered(conditions.to_vec()))?;
        let keys: Slots = asking.scope().certain.intersection(&takes).copied().collect();
        if keys.is_empty() {
            return None;
        }
        let keys_alone = keys_alone(asking, &keys);
        Some(restricted(node, keys_alone, &keys))
    }
}

/// The values of a node in some slots, each once. [`collects`] relies on this form: a projection of distinct rows is
/// nothing but such keys.
fn keys_alone(asking: Node, keys: &Slots) -> Node {
    let slots: Vec<Slot> = keys.iter().copied().collect();
    let distinct =
        Node::Distinct { inner: Operand::new(Node::Project { inner: Operand::new(asking), slots: slots.clone() }) };
    Node::Project { inner: Operand::new(distinct), slots }
}

/// Whether a node is a sub-select that collects rows before it passes any on: with GROUP BY or DISTINCT, or a union
/// with such.
fn collects(mut node: &Node) -> bool {
    while let Node::Filter { inner: below, .. }
    | Node::Extend { inner: below, .. }
    | Node::Project { inner: below, .. }
    | Node::Sort { inner: below, .. } = node
    {
        if matches!((node, &**below), (Node::Project { .. }, Node::Distinct { .. })) {
            return false;
        }
        node = below;
    }
    match node {
        Node::Group(group) => !group.keys.is_empty(),
        Node::Distinct { .. } => true,
        Node::Union(nodes) => nodes.iter().any(|node| deep(|| collects(node))),
        _ => false,
    }
}

/// The slots that a restriction can use inside a node: they are always bound there.
fn takes_keys(node: &Node) -> Slots {
    let both = |a: &Slots, b: Slots| -> Slots { b.intersection(a).copied().collect() };
    deep(|| match node {
        Node::Filter { inner, .. } | Node::Sort { inner, .. } | Node::Distinct { inner } => takes_keys(inner),
        Node::Extend { inner, expr, .. } if !expr.is_volatile() => takes_keys(inner),
        Node::Project { inner, slots } => both(&slots.iter().copied().collect(), takes_keys(inner)),
        Node::Group(group) => both(&group.keys.iter().copied().collect(), takes_keys(&group.inner)),
        Node::Union(nodes) => nodes.iter().map(takes_keys).reduce(|all, slots| both(&all, slots)).unwrap_or_default(),
        other => other.scope().certain,
    })
}

/// A simpler node with at least this node's values in the slots always bound by both. It leaves out operators that only
/// add columns or drop rows, and operators without a repeatable result. `None` if nothing is left.
fn asking(mut node: &Node) -> Option<Node> {
    // A chain of such operators is skipped in a loop, not by recursion.
    while let Node::LeftJoin { left: below, .. }
    | Node::AntiJoin { left: below, .. }
    | Node::SemiJoin { left: below, .. }
    | Node::MarkJoin { left: below, .. }
    | Node::Minus { left: below, .. }
    | Node::Extend { inner: below, .. }
    | Node::Sort { inner: below, .. }
    | Node::Distinct { inner: below } = node
    {
        node = below;
    }
    match node {
        Node::Pattern(_) | Node::Path(_) | Node::Values { .. } => Some(node.clone()),
        Node::Join(nodes) => {
            let nodes: Vec<Node> = nodes.iter().filter_map(asking).collect();
            (!nodes.is_empty()).then_some(Node::Join(nodes))
        }
        Node::Filter { conditions, inner } => {
            let inner = asking(inner)?;
            let certain = inner.scope().certain;
            // Other conditions might see other values here than at their written place.
            let is_same = |condition: &&Expr| {
                !condition.is_volatile() && !condition.has_exists() && condition.slots().is_subset(&certain)
            };
            let conditions: Vec<Expr> = conditions.iter().filter(is_same).cloned().collect();
            Some(if conditions.is_empty() { inner } else { Node::Filter { conditions, inner: Operand::new(inner) } })
        }
        Node::Project { inner, slots } => {
            Some(Node::Project { inner: Operand::new(asking(inner)?), slots: slots.clone() })
        }
        Node::Union(nodes) => nodes.iter().map(asking).collect::<Option<Vec<Node>>>().map(Node::Union),
        // The remaining operators, such as a slice or a group, change the set of rows.
        _ => None,
    }
}

/// The join of a node with a table of keys always bound by the node, placed as far down as possible.
fn restricted(node: &Node, keys: Node, slots: &Slots) -> Node {
    let fits = |inner: &Operand| slots.is_subset(&inner.scope().certain);
    let takes = |inner: &Operand| slots.is_subset(&takes_keys(inner));
    let inside = |inner: &Operand, keys: Node| Operand::new(deep(|| restricted(inner, keys, slots)));
    match node {
        Node::Join(nodes) => Node::Join(std::iter::once(keys).chain(nodes.iter().cloned()).collect()),
        Node::Filter { conditions, inner } => {
            Node::Filter { conditions: conditions.clone(), inner: Operand::new(restricted(inner, keys, slots)) }
        }
        Node::LeftJoin { left, right, conditions } if fits(left) => Node::LeftJoin {
            left: Operand::new(restricted(left, keys, slots)),
            right: right.clone(),
            conditions: conditions.clone(),
        },
        Node::Extend { inner, slot, expr } if fits(inner) && !expr.is_volatile() => {
            Node::Extend { inner: Operand::new(restricted(inner, keys, slots)), slot: *slot, expr: expr.clone() }
        }
        Node::Sort { inner, keys: by } if takes(inner) => Node::Sort { inner: inside(inner, keys), keys: by.clone() },
        Node::Distinct { inner } if takes(inner) => Node::Distinct { inner: inside(inner, keys) },
        Node::Project { inner, slots: own } if takes(inner) => {
            Node::Project { inner: inside(inner, keys), slots: own.clone() }
        }
        Node::Group(group) if takes(&group.inner) && slots.iter().all(|slot| group.keys.contains(slot)) => {
            Node::Group(Group {
                inner: inside(&group.inner, keys),
                keys: group.keys.clone(),
                folds: group.folds.clone(),
            })
        }
        Node::Union(nodes) if nodes.iter().any(collects) => {
            Node::Union(nodes.iter().map(|node| restricted(node, keys.clone(), slots)).collect())
        }
        other => Node::Join(vec![keys, other.clone()]),
    }
}
