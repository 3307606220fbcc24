//! A disjunction of equalities between operands with nothing else in common: a union of joins instead of a product.

use super::build::{AtHand, Operands};
use super::{Goal, Planner};
use crate::algebra::{Node, Slots};
use crate::expression::{Compare, Expr};
use crate::operators::Physical;
use crate::operators::union::Union;
use vicus_rdf::Id;

/// The greatest number of disjuncts: the group is planned once for each.
const MOST: usize = 8;

impl Planner<'_> {
    /// The plan of a group in which only the condition `A || B` connects the operands: the rows meeting A, and those
    /// meeting B and not A. Each of these groups can be joined by A or B. `None` if there is no such condition, or if
    /// the plan at hand costs less.
    pub(crate) fn with_disjuncts_apart(
        &self,
        operands: Operands<'_>,
        at_hand: AtHand<'_>,
        needed: &Slots,
        goal: Goal,
    ) -> Option<Physical> {
        let (Operands { nodes, conditions }, AtHand { plan, steps }) = (operands, at_hand);
        if plan.cost < self.terms.limits.tried_from_ns as f64 {
            return None;
        }
        let branches = disjuncts_apart(nodes, conditions, goal.set)?;
        self.stop.count_steps(branches.iter().map(Vec::len).sum());
        let made = self.again(plan.cost, steps * branches.len() as u64, || {
            let inputs = branches.iter().map(|conditions| self.group(nodes, conditions, needed, goal)).collect();
            Union::plan(self, inputs, plan.columns.clone())
        });
        // Tests want it in small graphs, too.
        let always = self.terms.limits.tried_from_ns == 0;
        made.filter(|made| always || made.price(goal) < plan.price(goal))
    }
}

/// The conditions of each of the groups; with `set`, a row may be in several of them.
fn disjuncts_apart(nodes: &[Node], conditions: &[Expr], set: bool) -> Option<Vec<Vec<Expr>>> {
    if nodes.len() < 2 || !conditions.iter().any(is_disjunction) {
        return None;
    }
    let mut parts: Vec<Slots> = Vec::new();
    let equalities = conditions.iter().filter(|condition| condition.as_equality().is_some()).map(Expr::slots);
    for mut slots in nodes.iter().map(|node| node.scope().possible).chain(equalities) {
        parts.retain(|part| {
            let is_apart = part.is_disjoint(&slots);
            if !is_apart {
                slots.extend(part);
            }
            is_apart
        });
        parts.push(slots);
    }
    if parts.len() < 2 {
        return None;
    }
    let (place, all) = conditions.iter().enumerate().find_map(|(place, condition)| {
        let all = disjuncts(condition)?;
        let is_of_one = |expr: &Expr| {
            let slots = expr.slots();
            parts.iter().any(|part| slots.is_subset(part))
        };
        let joins = |expr: &Expr| {
            let as_key = |expr: &Expr| expr.as_equality().is_some_and(|(a, b)| is_of_one(a) && is_of_one(b));
            match expr {
                Expr::And(all) => all.iter().any(as_key),
                other => as_key(other),
            }
        };
        let is_plain = |expr: &Expr| !expr.is_volatile() && !expr.has_exists();
        let fits = all.len() <= MOST && all.iter().all(|expr| is_plain(expr) && (is_of_one(expr) || joins(expr)));
        (fits && !is_of_one(condition)).then_some((place, all))
    })?;
    let mut others = conditions.to_vec();
    others.remove(place);
    let branch = |number: usize| {
        let own = all[number].clone().conjuncts();
        let before = if set { &[] } else { &all[..number] };
        others.iter().cloned().chain(own).chain(before.iter().map(is_not_true)).collect()
    };
    Some((0..all.len()).map(branch).collect())
}

fn is_disjunction(condition: &Expr) -> bool {
    match condition {
        Expr::Or(all) => all.len() > 1,
        Expr::In(_, all) => all.len() > 1 && all.iter().any(|one| !matches!(one, Expr::Constant(_))),
        _ => false,
    }
}

fn disjuncts(condition: &Expr) -> Option<Vec<Expr>> {
    match condition {
        _ if !is_disjunction(condition) => None,
        Expr::Or(all) => Some(all.clone()),
        Expr::In(needle, all) => {
            let equal = |one: &Expr| Expr::Compare(Compare::Equal, needle.clone(), Box::new(one.clone()));
            Some(all.iter().map(equal).collect())
        }
        _ => None,
    }
}

/// A false or failing condition.
fn is_not_true(condition: &Expr) -> Expr {
    let value = |value: bool| Expr::Constant(Id::boolean(value));
    let negated = Expr::If(Box::new(condition.clone()), Box::new(value(false)), Box::new(value(true)));
    Expr::Coalesce(vec![negated, value(true)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::{At, DEFAULT_GRAPH, Pattern, Slot};

    fn pattern(a: usize, b: usize) -> Node {
        Node::Pattern(Pattern([At::Slot(Slot(a)), At::Constant(Id::boolean(true)), At::Slot(Slot(b)), DEFAULT_GRAPH]))
    }

    fn equal(a: usize, b: usize) -> Expr {
        Expr::Compare(Compare::Equal, Box::new(Expr::Slot(Slot(a))), Box::new(Expr::Slot(Slot(b))))
    }

    #[test]
    fn each_row_is_in_the_first_group_whose_disjunct_it_meets() {
        let nodes = [pattern(0, 1), pattern(2, 3)];
        let either = Expr::Or(vec![equal(0, 2), equal(1, 3)]);
        let branches = disjuncts_apart(&nodes, std::slice::from_ref(&either), false);
        assert_eq!(branches, Some(vec![vec![equal(0, 2)], vec![equal(1, 3), is_not_true(&equal(0, 2))]]));
        let branches = disjuncts_apart(&nodes, std::slice::from_ref(&either), true);
        assert_eq!(branches, Some(vec![vec![equal(0, 2)], vec![equal(1, 3)]]));
        assert_eq!(disjuncts_apart(&[pattern(0, 1), pattern(1, 3)], std::slice::from_ref(&either), true), None);
        assert_eq!(disjuncts_apart(&nodes, &[equal(0, 3), either], true), None);
    }
}
