//! Restricts the right side of OPTIONAL, EXISTS and MINUS to what the left side asks for.
//!
//! The right side is evaluated by itself (SPARQL 1.1, §18.5 and §18.6): for the whole graph, even if few left rows look for
//! partners. `L ⟕ R` equals `L ⟕ (K ⋈ R)`, if K has, without duplicates, at least the values that L has in slots which both
//! sides always bind: other rows of R have no partner in L, and no row of R is repeated. Within `K ⋈ R` joins are ordered as
//! usual, so R is searched from K where that is cheaper, and paths begin there.
//!
//! K is planned a second time besides L, as a plan is a tree. K may be simpler than L: optional parts, and parts that can't be
//! evaluated twice with the same result, are left out, which only makes K larger. This is the "magic set" of deductive
//! databases: Beeri and Ramakrishnan, "On the power of magic", PODS 1987.

use super::build::cost;
use super::{Goal, Physical, Planner};
use crate::algebra::{Node, Operand, Slots};
use crate::expression::Expr;
use crate::stack::deep;

impl Planner<'_> {
    /// The cheaper plan of the right side for a hash table: `alone`, which took `steps` to plan, or one that is restricted to
    /// what the left side asks for.
    pub(super) fn asked_for(
        &self,
        (left, left_plan): (&Node, &Physical),
        (right, alone, steps): (&Node, Physical, u64),
        needed: &Slots,
        goal: Goal,
    ) -> Physical {
        let price = |plan: &Physical| plan.cost + plan.estimate.rows * cost::BUILD;
        let tries = self.tries.get();
        if !self.optimise || alone.cost < self.terms.limits.tried_from_ns as f64 || tries == 0 {
            return alone;
        }
        // The keys cost about as much as the left side, and each key is searched at least once.
        if left_plan.cost + cost::SEARCH_NEAR > price(&alone) {
            return alone;
        }
        let Some(asking) = deep(|| asking(left)) else { return alone };
        let (asks, answers) = (asking.scope().certain, right.scope().certain);
        let keys: Slots = asks.intersection(&answers).copied().collect();
        let distinct = |slot| left_plan.estimate.facts.get(slot).map_or(1.0, |facts| facts.distinct.max(1.0));
        let asked = keys.iter().map(distinct).product::<f64>().min(left_plan.estimate.rows);
        if keys.is_empty() || left_plan.cost + asked * cost::SEARCH_NEAR > price(&alone) {
            return alone;
        }
        // This plans everything nested in the right side again.
        let Some(again) = self.again.get().checked_sub(steps) else { return alone };
        self.again.set(again);
        self.tries.set(tries - 1);
        let keys_alone =
            Node::Distinct(Operand::new(Node::Project(Operand::new(asking), keys.iter().copied().collect())));
        let plan = self.plan(&restricted(right, keys_alone, &keys), needed, goal);
        if price(&plan) < price(&alone) { plan } else { alone }
    }
}

/// A simpler node whose solutions have at least the values that this node has in the slots that both always bind. Operators
/// that only add columns or drop rows are left out, as are those that may give another result the second time. `None` if
/// nothing is left.
fn asking(mut node: &Node) -> Option<Node> {
    // A chain of such operators is skipped in a loop, not by recursion.
    while let Node::LeftJoin { left: below, .. }
    | Node::AntiJoin { left: below, .. }
    | Node::SemiJoin { left: below, .. }
    | Node::MarkJoin { left: below, .. }
    | Node::Minus(below, ..)
    | Node::Extend(below, ..)
    | Node::Sort(below, _)
    | Node::Distinct(below) = node
    {
        node = below;
    }
    match node {
        Node::Pattern(_) | Node::Path(_) | Node::Values(..) => Some(node.clone()),
        Node::Join(nodes) => {
            let nodes: Vec<Node> = nodes.iter().filter_map(asking).collect();
            (!nodes.is_empty()).then_some(Node::Join(nodes))
        }
        Node::Filter(conditions, inner) => {
            let inner = asking(inner)?;
            let certain = inner.scope().certain;
            // Other conditions might see other values here than where they are written.
            let is_same = |condition: &&Expr| {
                !condition.is_volatile() && !condition.has_exists() && condition.slots().is_subset(&certain)
            };
            let conditions: Vec<Expr> = conditions.iter().filter(is_same).cloned().collect();
            Some(if conditions.is_empty() { inner } else { Node::Filter(conditions, Operand::new(inner)) })
        }
        Node::Project(inner, slots) => Some(Node::Project(Operand::new(asking(inner)?), slots.clone())),
        Node::Union(nodes) => nodes.iter().map(asking).collect::<Option<Vec<Node>>>().map(Node::Union),
        // The operators that remain, such as a slice or a group, change which rows there are.
        _ => None,
    }
}

/// The join of a node with a table of keys, which the node always binds, placed as far down as possible.
fn restricted(node: &Node, keys: Node, slots: &Slots) -> Node {
    let fits = |inner: &Operand| slots.is_subset(&inner.scope().certain);
    match node {
        Node::Join(nodes) => Node::Join(std::iter::once(keys).chain(nodes.iter().cloned()).collect()),
        Node::Filter(conditions, inner) => {
            Node::Filter(conditions.clone(), Operand::new(restricted(inner, keys, slots)))
        }
        Node::LeftJoin { left, right, conditions } if fits(left) => Node::LeftJoin {
            left: Operand::new(restricted(left, keys, slots)),
            right: right.clone(),
            conditions: conditions.clone(),
        },
        Node::Extend(inner, slot, expr) if fits(inner) && !expr.is_volatile() => {
            Node::Extend(Operand::new(restricted(inner, keys, slots)), *slot, expr.clone())
        }
        other => Node::Join(vec![keys, other.clone()]),
    }
}
