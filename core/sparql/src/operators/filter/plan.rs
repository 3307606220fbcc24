//! How a filter is planned: its conditions may compute values, or become keys of a join below.

use super::Filter;
use crate::algebra::{Node, Slot, Slots};
use crate::expression::Expr;
use crate::operators::Physical;
use crate::operators::extend::Extend;
use crate::planner::{Goal, Planner};
use vicus_language::stack::deep;

impl Filter {
    /// The plan of a filter on a node.
    pub(crate) fn of_node(
        planner: &Planner<'_>,
        conditions: &[Expr],
        mut inner: &Node,
        needed: &Slots,
        goal: Goal,
    ) -> Physical {
        let mut replaced = Vec::new();
        while let Node::Extend { inner: below, slot, expr } = inner {
            let conditions = if replaced.is_empty() { conditions } else { &replaced[..] };
            if !planner.optimise {
                break;
            }
            if !is_only_tested(*slot, expr, conditions, needed) {
                match with_joined_values(conditions, *slot, expr, below) {
                    Some(split) => {
                        return deep(|| Filter::joined_by_value(planner, split, *slot, expr, below, needed, goal));
                    }
                    None => break,
                }
            }
            if replaced.is_empty() {
                replaced = conditions.to_vec();
            }
            let value = |other| if other == *slot { expr.clone() } else { Expr::Slot(other) };
            replaced.iter_mut().for_each(|condition| condition.replace(&value));
            inner = below;
            while let Node::Filter { conditions: more, inner: below } = inner {
                replaced.extend(more.iter().cloned());
                inner = below;
            }
            if planner.stop.count_steps(8 * replaced.len()) {
                return planner.nothing(inner, needed);
            }
        }
        let conditions = if replaced.is_empty() { conditions } else { &replaced[..] };
        match inner {
            Node::Join(nodes) => planner.group(nodes, conditions, needed, goal),
            Node::Pattern(_) => planner.group(std::slice::from_ref(inner), conditions, needed, goal),
            _ => {
                let mut inside = needed.clone();
                inside.extend(conditions.iter().flat_map(Expr::slots));
                Filter::plan(planner, planner.plan(inner, &inside, goal), conditions, needed)
            }
        }
    }

    /// A computed value above a join, with equalities of it below, for use as join keys.
    fn joined_by_value(
        planner: &Planner<'_>,
        split: Split,
        slot: Slot,
        expr: &Expr,
        below: &Node,
        needed: &Slots,
        goal: Goal,
    ) -> Physical {
        let Split { down, above } = split;
        let mut all = needed.clone();
        all.extend(above.iter().flat_map(Expr::slots));
        let mut inside = all.clone();
        inside.remove(&slot);
        inside.extend(expr.slots());
        planner.stop.count_steps(8 * (down.len() + above.len()) + 2 * inside.len());
        let mut conditions = down;
        let mut inner = below;
        while let Node::Filter { conditions: more, inner: below } = inner {
            conditions.extend(more.iter().cloned());
            inner = below;
        }
        let input = Filter::of_node(planner, &conditions, inner, &inside, goal);
        let made = Extend::plan(planner, input, slot, expr, &all);
        Filter::plan(planner, made, &above, needed)
    }
}

/// Whether a computed value is read once only, by a condition on top of it. Then the condition computes it, and the
/// value need not become a term.
fn is_only_tested(slot: Slot, expr: &Expr, conditions: &[Expr], needed: &Slots) -> bool {
    let is_unranked = !matches!(expr, Expr::Slot(_) | Expr::Constant(_) | Expr::Error);
    is_unranked
        && !needed.contains(&slot)
        && !expr.is_volatile()
        && conditions.iter().map(|condition| condition.uses(slot)).sum::<usize>() == 1
        && !conditions.iter().any(|condition| condition.asks_for(slot) || condition.has_exists())
}

/// Conditions on a computed value above a join.
struct Split {
    /// Those to move below the value.
    down: Vec<Expr>,
    /// Those to stay.
    above: Vec<Expr>,
}

/// Divides conditions on a computed value above a join. Equalities of the
/// value and another operand's slot go below, with the expression in the value's place. `None` if there is none.
fn with_joined_values(conditions: &[Expr], slot: Slot, expr: &Expr, mut below: &Node) -> Option<Split> {
    while let Node::Extend { inner, .. } | Node::Filter { inner, .. } = below {
        below = inner;
    }
    let Node::Join(operands) = below else { return None };
    if expr.is_volatile() || expr.has_exists() {
        return None;
    }
    let value = |other| if other == slot { expr.clone() } else { Expr::Slot(other) };
    let as_join = |condition: &Expr| {
        let joins = condition.uses(slot) > 0 && !condition.asks_for(slot) && condition.as_equality().is_some();
        let replaced = joins.then(|| condition.replaced(&value)).filter(|replaced| replaced.as_equality().is_some())?;
        let slots = replaced.slots();
        let is_of_one = operands.iter().any(|operand| slots.is_subset(&operand.scope().possible));
        (!is_of_one).then_some(replaced)
    };
    let joined: Vec<Option<Expr>> = conditions.iter().map(as_join).collect();
    if joined.iter().all(Option::is_none) {
        return None;
    }
    let (mut down, mut above) = (Vec::new(), Vec::new());
    for (condition, joined) in conditions.iter().zip(joined) {
        match joined {
            Some(joined) => down.push(joined),
            None if condition.uses(slot) == 0 && !condition.is_volatile() => down.push(condition.clone()),
            None => above.push(condition.clone()),
        }
    }
    Some(Split { down, above })
}
