//! EXISTS as a join.

use crate::algebra::{Node, Operand, Slot, Slots};
use crate::expression::Expr;
use vicus_language::Stop;

/// Makes EXISTS a join, if putting a row's values into the pattern only selects its solutions compatible with the row.
/// A filter by `EXISTS` or `NOT EXISTS` becomes a semi or an anti join, and EXISTS within another expression a join to
/// mark rows. The pattern is then planned once, like any other.
pub(crate) fn as_joins(node: Node, names: &mut Vec<String>, stop: &Stop<'_>) -> Node {
    if stop.poll() {
        return node;
    }
    node.rewrite(&mut |node| if stop.poll() { node } else { of_node(node, names, stop) })
}

fn of_node(node: Node, names: &mut Vec<String>, stop: &Stop<'_>) -> Node {
    match node {
        Node::Filter { conditions, inner } if !conditions.iter().any(Expr::has_exists) => {
            Node::Filter { conditions, inner }
        }
        Node::Filter { conditions, inner } => {
            let scope = inner.scope().possible.clone();
            let (tests, mut rest): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(|condition| {
                as_exists(condition).is_some_and(|(node, slots, _)| is_plain(node, &slots, &scope))
            });
            let mut made = inner.into_node();
            for test in tests {
                // Each join makes a new set of bound slots.
                stop.count_steps(scope.len());
                let (pattern, _, is_negated) = as_exists(&test).expect("it was chosen for that");
                let left = Operand::new(made);
                let (right, conditions) = right_side(pattern, names, stop);
                made = if is_negated {
                    Node::AntiJoin { left, right, conditions }
                } else {
                    Node::SemiJoin { left, right, conditions }
                };
            }
            mark(&mut made, &mut rest, &scope, names, stop);
            made.filtered(rest)
        }
        Node::Extend { mut inner, slot, expr } if expr.has_exists() => {
            let scope = inner.scope().possible.clone();
            let mut exprs = [expr];
            mark(&mut inner, &mut exprs, &scope, names, stop);
            let [expr] = exprs;
            Node::Extend { inner, slot, expr }
        }
        Node::LeftJoin { mut left, mut right, mut conditions } => {
            // A test on slots of one side only can mark the rows of this side.
            for side in [&mut right, &mut left] {
                if conditions.iter().any(Expr::has_exists) {
                    let certain = side.scope().certain.clone();
                    mark(side, &mut conditions, &certain, names, stop);
                }
            }
            Node::LeftJoin { left, right, conditions }
        }
        other => other,
    }
}

/// The pattern of a test as the right side of a join, and the conditions of this join over both sides.
fn right_side(pattern: &Node, names: &mut Vec<String>, stop: &Stop<'_>) -> (Operand, Vec<Expr>) {
    let (inner, mut conditions) = match pattern.clone() {
        Node::Filter { conditions, inner } => (inner.into_node(), conditions),
        // Whether there is a row does not depend on LIMIT or on order.
        Node::Slice { inner, offset: 0, limit: Some(1..), each: None } => (inner.into_node(), Vec::new()),
        other => (other, Vec::new()),
    };
    let mut inner = as_joins(inner, names, stop);
    let certain = inner.scope().certain;
    mark(&mut inner, &mut conditions, &certain, names, stop);
    (Operand::new(inner), conditions)
}

/// Replaces EXISTS within expressions on a node by marks, and makes the node compute the marks. `visible` has all slots
/// open to the expressions.
fn mark(node: &mut Node, exprs: &mut [Expr], visible: &Slots, names: &mut Vec<String>, stop: &Stop<'_>) {
    let mut marks: Vec<(Expr, Slot)> = Vec::new();
    exprs.iter_mut().for_each(|expr| mark_in(expr, node, visible, names, stop, &mut marks));
}

fn mark_in(
    expr: &mut Expr,
    node: &mut Node,
    visible: &Slots,
    names: &mut Vec<String>,
    stop: &Stop<'_>,
    marks: &mut Vec<(Expr, Slot)>,
) {
    let plain = as_exists(expr).filter(|(pattern, slots, negated)| !negated && is_plain(pattern, slots, visible));
    let Some((pattern, ..)) = plain else {
        return expr.children_mut().into_iter().for_each(|child| mark_in(child, node, visible, names, stop, marks));
    };
    stop.count_steps(visible.len() + marks.len());
    if let Some((_, slot)) = marks.iter().find(|(other, _)| other == expr) {
        *expr = Expr::Slot(*slot);
        return;
    }
    let (right, conditions) = right_side(pattern, names, stop);
    let mark = Slot(names.len());
    names.push("_:exists".to_owned());
    let left = Operand::new(std::mem::replace(node, Node::unit()));
    *node = Node::MarkJoin { left, right, conditions, mark };
    marks.push((std::mem::replace(expr, Expr::Slot(mark)), mark));
}

/// The pattern of a test, the slots put into it by value under their own names, and whether the test is negated.
fn as_exists(condition: &Expr) -> Option<(&Node, Slots, bool)> {
    match condition {
        Expr::Exists(node, outside) => {
            let same = outside.iter().all(|(slot, expr)| *expr == Expr::Slot(*slot));
            same.then(|| (&**node, outside.iter().map(|(slot, _)| *slot).collect(), false))
        }
        Expr::Not(inner) => {
            as_exists(inner).filter(|(.., negated)| !negated).map(|(node, slots, _)| (node, slots, true))
        }
        _ => None,
    }
}

/// Whether putting values of `outer` into a pattern only selects the compatible ones among its solutions, and all these
/// slots are among `visible`. Conditions on top of the pattern are not checked, as they become conditions of the join.
fn is_plain(node: &Node, outer: &Slots, visible: &Slots) -> bool {
    outer.is_subset(visible)
        && !node.is_volatile()
        && match node {
            Node::Filter { inner, .. } | Node::Slice { inner, offset: 0, limit: Some(1..), each: None } => {
                keeps(inner, outer)
            }
            other => keeps(other, outer),
        }
}

fn keeps(node: &Node, outer: &Slots) -> bool {
    let sees_the_same =
        |expr: &Expr, certain: &Slots| expr.slots().iter().all(|slot| certain.contains(slot) || !outer.contains(slot));
    let inside =
        |slots: Slots, certain: &Slots| slots.iter().all(|slot| certain.contains(slot) || !outer.contains(slot));
    match node {
        Node::Pattern(_) | Node::Path(_) | Node::Values { .. } => true,
        Node::Join(nodes) | Node::Union(nodes) => nodes.iter().all(|node| keeps(node, outer)),
        Node::Filter { conditions, inner } => {
            let certain = &inner.scope().certain;
            keeps(inner, outer) && conditions.iter().all(|condition| sees_the_same(condition, certain))
        }
        Node::Extend { inner, expr, .. } => keeps(inner, outer) && sees_the_same(expr, &inner.scope().certain),
        Node::LeftJoin { left, right, conditions } => {
            let certain = &left.scope().certain;
            let inner = conditions.iter().all(|condition| sees_the_same(condition, certain));
            keeps(left, outer) && inner && keeps(right, outer) && inside(right.mentioned(), certain)
        }
        Node::Minus { left, right, .. } => {
            keeps(left, outer) && keeps(right, outer) && inside(right.mentioned(), &left.scope().certain)
        }
        Node::Project { inner, .. } | Node::Distinct { inner } | Node::Sort { inner, .. } => keeps(inner, outer),
        // All rows of a group have the same value of a key.
        Node::Group(group) if !group.keys.is_empty() => {
            let keys: Slots = group.keys.iter().copied().collect();
            let keys: Slots = group.inner.scope().certain.intersection(&keys).copied().collect();
            keeps(&group.inner, outer) && node.mentioned().intersection(outer).all(|slot| keys.contains(slot))
        }
        other => other.mentioned().is_disjoint(outer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::{At, DEFAULT_GRAPH, Pattern, Slot};
    use crate::expression::Compare;
    use std::sync::Arc;
    use vicus_rdf::Id;

    fn pattern(a: usize, b: usize) -> Node {
        Node::Pattern(Pattern([At::Slot(Slot(a)), At::Constant(Id::boolean(true)), At::Slot(Slot(b)), DEFAULT_GRAPH]))
    }

    fn exists(node: Node, slots: &[usize]) -> Expr {
        let outside = slots.iter().map(|&slot| (Slot(slot), Expr::Slot(Slot(slot)))).collect();
        Expr::Exists(Arc::new(node), outside)
    }

    fn less(a: usize, b: usize) -> Expr {
        Expr::Compare(Compare::Less, Box::new(Expr::Slot(Slot(a))), Box::new(Expr::Slot(Slot(b))))
    }

    fn joined(node: Node) -> Node {
        as_joins(node, &mut vec![String::new(); 4], &Stop::new(&|| false))
    }

    #[test]
    fn a_test_within_an_expression_marks_rows() {
        let test = |expr| Expr::Or(vec![less(0, 1), expr]);
        let node = pattern(0, 1).filtered(vec![test(exists(pattern(0, 2), &[0])), test(exists(pattern(0, 2), &[0]))]);
        let (left, right) = (Operand::new(pattern(0, 1)), Operand::new(pattern(0, 2)));
        let marked = Node::MarkJoin { left, right, conditions: vec![], mark: Slot(4) };
        assert_eq!(joined(node), marked.filtered(vec![test(Expr::Slot(Slot(4))), test(Expr::Slot(Slot(4)))]));
    }

    #[test]
    fn a_test_is_a_join_whose_condition_sees_both_sides() {
        let inner = pattern(0, 2).filtered(vec![less(1, 2)]);
        let node = pattern(0, 1).filtered(vec![Expr::Not(Box::new(exists(inner, &[0, 1])))]);
        let (left, right) = (Operand::new(pattern(0, 1)), Operand::new(pattern(0, 2)));
        assert_eq!(joined(node), Node::AntiJoin { left, right, conditions: vec![less(1, 2)] });
    }

    #[test]
    fn a_condition_below_that_looks_outside_stays_a_test() {
        let inner = Node::Union(vec![pattern(0, 2).filtered(vec![less(1, 2)]), pattern(0, 3)]);
        let node = pattern(0, 1).filtered(vec![exists(inner, &[0, 1])]);
        assert_eq!(joined(node.clone()), node);
    }
}
