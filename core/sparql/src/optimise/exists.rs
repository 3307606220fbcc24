//! EXISTS as a join.

use crate::algebra::{Node, Slots};
use crate::expression::Expr;

/// Filters by `EXISTS` and `NOT EXISTS` become joins that keep their left side, where the pattern's solutions don't
/// depend on what is put into it but for being compatible with it.
pub(crate) fn semi_join(node: Node) -> Node {
    let Node::Filter(conditions, inner) = node else { return node };
    let scope = inner.scope().possible;
    let (tests, rest): (Vec<Expr>, Vec<Expr>) = conditions
        .into_iter()
        .partition(|condition| as_exists(condition).is_some_and(|(node, _)| is_plain(node, &scope)));
    let mut made = *inner;
    let negated = |condition: &Expr| as_exists(condition).is_some_and(|(_, negated)| negated);
    for test in tests {
        let (pattern, _) = as_exists(&test).expect("it was chosen for that");
        let left = Box::new(made);
        // The pattern's own conditions see both sides.
        let (right, conditions) = match pattern.clone() {
            Node::Filter(conditions, inner) => (inner, conditions),
            other => (Box::new(other), Vec::new()),
        };
        made = if negated(&test) {
            Node::AntiJoin { left, right, conditions }
        } else {
            Node::SemiJoin { left, right, conditions }
        };
    }
    made.filtered(rest)
}

/// The pattern of a test whose outside is the filter's, and whether it must have no solution.
fn as_exists(condition: &Expr) -> Option<(&Node, bool)> {
    match condition {
        Expr::Exists(node, outside) => {
            let same = outside.iter().all(|(slot, expr)| *expr == Expr::Slot(*slot));
            same.then_some((&**node, false))
        }
        Expr::Not(inner) => as_exists(inner).filter(|(_, negated)| !negated).map(|(node, _)| (node, true)),
        _ => None,
    }
}

/// Whether the solutions of a pattern into which values of `outer` were put are its own that are compatible with them.
/// Conditions on top of it are not looked at: they see both.
fn is_plain(node: &Node, outer: &Slots) -> bool {
    match node {
        Node::Filter(_, inner) => keeps(inner, outer),
        other => keeps(other, outer),
    }
}

fn keeps(node: &Node, outer: &Slots) -> bool {
    let sees_the_same = |expr: &Expr, certain: &Slots| {
        !expr.has_exists() && expr.slots().iter().all(|slot| certain.contains(slot) || !outer.contains(slot))
    };
    let inside =
        |slots: Slots, certain: &Slots| slots.iter().all(|slot| certain.contains(slot) || !outer.contains(slot));
    match node {
        Node::Pattern(_) | Node::Path(_) | Node::Values(..) => true,
        Node::Join(nodes) | Node::Union(nodes) => nodes.iter().all(|node| keeps(node, outer)),
        Node::Filter(conditions, inner) => {
            let certain = inner.scope().certain;
            keeps(inner, outer) && conditions.iter().all(|condition| sees_the_same(condition, &certain))
        }
        Node::Extend(inner, _, expr) => keeps(inner, outer) && sees_the_same(expr, &inner.scope().certain),
        Node::LeftJoin { left, right, conditions } => {
            let certain = left.scope().certain;
            let inner = conditions.iter().all(|condition| sees_the_same(condition, &certain));
            keeps(left, outer) && inner && keeps(right, outer) && inside(right.mentioned(), &certain)
        }
        Node::Minus(left, right) => {
            keeps(left, outer) && keeps(right, outer) && inside(right.mentioned(), &left.scope().certain)
        }
        Node::Project(inner, _) | Node::Distinct(inner) | Node::Sort(inner, _) => keeps(inner, outer),
        Node::Group(_) | Node::Slice(..) | Node::SemiJoin { .. } | Node::AntiJoin { .. } => {
            node.mentioned().is_disjoint(outer)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::{At, Pattern, Slot};
    use crate::expression::Compare;
    use std::sync::Arc;
    use vicus_rdf::Id;

    fn pattern(a: usize, b: usize) -> Node {
        Node::Pattern(Pattern([At::Slot(Slot(a)), At::Constant(Id::boolean(true)), At::Slot(Slot(b))]))
    }

    fn exists(node: Node, slots: &[usize]) -> Expr {
        let outside = slots.iter().map(|&slot| (Slot(slot), Expr::Slot(Slot(slot)))).collect();
        Expr::Exists(Arc::new(node), outside)
    }

    fn less(a: usize, b: usize) -> Expr {
        Expr::Compare(Compare::Less, Box::new(Expr::Slot(Slot(a))), Box::new(Expr::Slot(Slot(b))))
    }

    #[test]
    fn a_test_is_a_join_whose_condition_sees_both_sides() {
        let inner = pattern(0, 2).filtered(vec![less(1, 2)]);
        let node = pattern(0, 1).filtered(vec![Expr::Not(Box::new(exists(inner, &[0, 1])))]);
        let (left, right) = (Box::new(pattern(0, 1)), Box::new(pattern(0, 2)));
        assert_eq!(semi_join(node), Node::AntiJoin { left, right, conditions: vec![less(1, 2)] });
    }

    #[test]
    fn a_condition_below_that_looks_outside_stays_a_test() {
        let inner = Node::Union(vec![pattern(0, 2).filtered(vec![less(1, 2)]), pattern(0, 3)]);
        let node = pattern(0, 1).filtered(vec![exists(inner, &[0, 1])]);
        assert_eq!(semi_join(node.clone()), node);
    }
}
