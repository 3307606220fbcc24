//! Conditions go where their variables are bound.

use crate::algebra::{Node, Slot, Slots};
use crate::expression::Expr;
use crate::stop::Stop;

/// Joins of joins become one, filters on filters too, and conditions on an operand of a join become the join's, where
/// that sees the same values.
pub(crate) fn flatten(node: Node) -> Node {
    match node {
        Node::Join(nodes) => flatten_join(nodes),
        Node::Filter(mut outer, inner) => match *inner {
            Node::Filter(conditions, inner) => {
                outer.extend(conditions);
                flatten(Node::Filter(outer, inner))
            }
            other => other.filtered(outer),
        },
        Node::Union(nodes) => {
            let inner = |node| match node {
                Node::Union(inner) => inner,
                other => vec![other],
            };
            Node::Union(nodes.into_iter().flat_map(inner).collect())
        }
        other => other,
    }
}

fn flatten_join(nodes: Vec<Node>) -> Node {
    let mut all = Vec::new();
    let mut conditions = Vec::new();
    for node in nodes {
        match node {
            Node::Join(inner) => all.extend(inner),
            Node::Filter(own, inner) => {
                let certain = inner.scope().certain;
                // A variable that is certain here has the same value in the whole join.
                let (up, stay): (Vec<Expr>, Vec<Expr>) =
                    own.into_iter().partition(|condition| condition.slots().is_subset(&certain));
                conditions.extend(up);
                match inner.filtered(stay) {
                    Node::Join(inner) => all.extend(inner),
                    other => all.push(other),
                }
            }
            // A single operand, or a unit.
            other => all.push(other),
        }
    }
    let joined = if all.len() == 1 { all.remove(0) } else { Node::Join(all) };
    joined.filtered(conditions)
}

/// Moves each condition as far down as its variables have the same values there.
pub(crate) fn push_down(node: Node, stop: &Stop<'_>) -> Node {
    push(node, Vec::new(), stop)
}

/// Whether the slots that `inner` gives to a condition are those of the whole, of which `others` are the other parts.
fn sees_the_same(condition: &Expr, inner: &Node, others: &Slots) -> bool {
    let scope = inner.scope();
    condition
        .slots()
        .iter()
        .all(|slot| scope.certain.contains(slot) || scope.possible.contains(slot) && !others.contains(slot))
}

fn push(node: Node, mut conditions: Vec<Expr>, stop: &Stop<'_>) -> Node {
    if stop.is_stopped() {
        return node.filtered(conditions);
    }
    match node {
        Node::Filter(own, inner) => {
            conditions.extend(own.into_iter().flat_map(Expr::conjuncts));
            push(*inner, conditions, stop)
        }
        Node::Join(nodes) => push_into_join(nodes, conditions, stop),
        Node::LeftJoin { left, right, conditions: own } => {
            let optional = right.scope().possible;
            let (down, stay): (Vec<Expr>, Vec<Expr>) =
                conditions.into_iter().partition(|condition| sees_the_same(condition, &left, &optional));
            let (to_right, own) = split_for_right(&left, &right, own);
            let left = Box::new(push(*left, down, stop));
            let right = Box::new(push(*right, to_right, stop));
            Node::LeftJoin { left, right, conditions: own }.filtered(stay)
        }
        Node::AntiJoin { left, right, conditions: own } => {
            let (left, right, own, stay) = push_into_test(*left, *right, own, conditions, stop);
            Node::AntiJoin { left, right, conditions: own }.filtered(stay)
        }
        Node::SemiJoin { left, right, conditions: own } => {
            let (left, right, own, stay) = push_into_test(*left, *right, own, conditions, stop);
            Node::SemiJoin { left, right, conditions: own }.filtered(stay)
        }
        Node::MarkJoin { left, right, conditions: own, mark } => {
            let (left, right, own, stay) = push_into_test(*left, *right, own, conditions, stop);
            Node::MarkJoin { left, right, conditions: own, mark }.filtered(stay)
        }
        Node::Minus(left, right) => {
            Node::Minus(Box::new(push(*left, conditions, stop)), Box::new(push(*right, Vec::new(), stop)))
        }
        Node::Union(nodes) => {
            let branch = |node: Node| {
                let possible = node.scope().possible;
                let visible = |slot: Slot| if possible.contains(&slot) { Expr::Slot(slot) } else { Expr::Error };
                let own = conditions.iter().map(|condition| condition.replaced(&visible)).collect();
                push(node, own, stop)
            };
            Node::Union(nodes.into_iter().map(branch).collect())
        }
        Node::Extend(inner, slot, expr) => {
            let (stay, down): (Vec<Expr>, Vec<Expr>) =
                conditions.into_iter().partition(|condition| condition.slots().contains(&slot));
            Node::Extend(Box::new(push(*inner, down, stop)), slot, expr).filtered(stay)
        }
        Node::Sort(inner, keys) => Node::Sort(Box::new(push(*inner, conditions, stop)), keys),
        Node::Project(inner, slots) => Node::Project(Box::new(push(*inner, conditions, stop)), slots),
        Node::Distinct(inner) => Node::Distinct(Box::new(push(*inner, conditions, stop))),
        Node::Group(mut group) => {
            // All rows of a group have its keys.
            let is_of_keys = |condition: &Expr| {
                let slots = condition.slots();
                !slots.is_empty() && slots.iter().all(|slot| group.keys.contains(slot)) && !condition.is_volatile()
            };
            let (down, stay): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_of_keys);
            group.inner = Box::new(push(*group.inner, down, stop));
            Node::Group(group).filtered(stay)
        }
        // Fewer rows below a slice would be other rows.
        Node::Slice(inner, offset, limit) => {
            Node::Slice(Box::new(push(*inner, Vec::new(), stop)), offset, limit).filtered(conditions)
        }
        leaf @ (Node::Pattern(_) | Node::Path(_) | Node::Values(..)) => leaf.filtered(conditions),
    }
}

/// The operands of a semi or anti join with the conditions that go there, its own conditions, and those above it.
fn push_into_test(
    left: Node,
    right: Node,
    own: Vec<Expr>,
    conditions: Vec<Expr>,
    stop: &Stop<'_>,
) -> (Box<Node>, Box<Node>, Vec<Expr>, Vec<Expr>) {
    let (to_right, own) = split_for_right(&left, &right, own);
    let left_scope = left.scope().possible;
    let (down, stay): (Vec<Expr>, Vec<Expr>) =
        conditions.into_iter().partition(|condition| condition.slots().is_subset(&left_scope));
    (Box::new(push(left, down, stop)), Box::new(push(right, to_right, stop)), own, stay)
}

/// Patterns keep their conditions beside them, where the planner finds them; other operands get theirs.
fn push_into_join(nodes: Vec<Node>, mut conditions: Vec<Expr>, stop: &Stop<'_>) -> Node {
    let scopes: Vec<Slots> = nodes.iter().map(|node| node.scope().possible).collect();
    let mut pushed = Vec::new();
    for (place, node) in nodes.into_iter().enumerate() {
        if matches!(node, Node::Pattern(_)) {
            pushed.push(node);
            continue;
        }
        let others: Slots = scopes
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != place)
            .flat_map(|(_, scope)| scope.iter().copied())
            .collect();
        let (down, stay): (Vec<Expr>, Vec<Expr>) = conditions
            .into_iter()
            .partition(|condition| !condition.slots().is_empty() && sees_the_same(condition, &node, &others));
        conditions = stay;
        pushed.push(push(node, down, stop));
    }
    flatten(Node::Join(pushed).filtered(conditions))
}

/// Conditions of a left join that look at its right side only, and the others.
fn split_for_right(left: &Node, right: &Node, conditions: Vec<Expr>) -> (Vec<Expr>, Vec<Expr>) {
    let outside = left.scope().possible;
    conditions
        .into_iter()
        .flat_map(Expr::conjuncts)
        .partition(|condition| !condition.slots().is_empty() && sees_the_same(condition, right, &outside))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::{At, Pattern};
    use crate::expression::Compare;
    use vicus_rdf::Id;

    fn pattern(a: usize, b: usize) -> Node {
        Node::Pattern(Pattern([At::Slot(Slot(a)), At::Constant(Id::boolean(true)), At::Slot(Slot(b))]))
    }

    fn less(a: usize, b: usize) -> Expr {
        Expr::Compare(Compare::Less, Box::new(Expr::Slot(Slot(a))), Box::new(Expr::Slot(Slot(b))))
    }

    fn optional(left: Node, right: Node, conditions: Vec<Expr>) -> Node {
        Node::LeftJoin { left: Box::new(left), right: Box::new(right), conditions }
    }

    #[test]
    fn a_condition_passes_an_optional_part_that_cannot_change_it() {
        let both = Expr::And(vec![less(0, 1), less(0, 2)]);
        let node = optional(pattern(0, 1), pattern(0, 2), vec![]).filtered(vec![both]);
        let expected =
            optional(pattern(0, 1).filtered(vec![less(0, 1)]), pattern(0, 2), vec![]).filtered(vec![less(0, 2)]);
        assert_eq!(push_down(node, &Stop::new(&|| false)), expected);
    }

    #[test]
    fn an_optional_part_takes_its_own_conditions_and_leaves_the_others() {
        let node = optional(pattern(0, 1), pattern(0, 2), vec![less(0, 2), less(1, 2), less(0, 1)]);
        let right = pattern(0, 2).filtered(vec![less(0, 2)]);
        assert_eq!(
            push_down(node, &Stop::new(&|| false)),
            optional(pattern(0, 1), right, vec![less(1, 2), less(0, 1)])
        );
    }

    #[test]
    fn a_branch_without_the_variable_sees_an_error() {
        let node = Node::Union(vec![pattern(0, 1), pattern(0, 2)]).filtered(vec![less(0, 2)]);
        let error = Expr::Compare(Compare::Less, Box::new(Expr::Slot(Slot(0))), Box::new(Expr::Error));
        let expected = Node::Union(vec![pattern(0, 1).filtered(vec![error]), pattern(0, 2).filtered(vec![less(0, 2)])]);
        assert_eq!(push_down(node, &Stop::new(&|| false)), expected);
    }

    #[test]
    fn a_slice_keeps_its_conditions_above() {
        let node = Node::Slice(Box::new(pattern(0, 1)), 0, Some(3)).filtered(vec![less(0, 1)]);
        assert_eq!(push_down(node.clone(), &Stop::new(&|| false)), node);
    }

    #[test]
    fn conditions_on_an_uncertain_variable_wait_for_the_join() {
        // ?2 is optional on one side of the join and certain on the other.
        let node = Node::Join(vec![optional(pattern(0, 1), pattern(0, 2), vec![]), pattern(3, 2)]);
        let node = node.filtered(vec![less(0, 2)]);
        assert_eq!(push_down(node.clone(), &Stop::new(&|| false)), node);
    }
}
