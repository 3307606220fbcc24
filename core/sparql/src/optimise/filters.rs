//! Moves conditions to the places that bind their variables.

use crate::algebra::{Node, Operand, Pattern, Scope, Slot, Slots};
use crate::expression::Expr;
use rustc_hash::{FxHashMap, FxHashSet};
use vicus_language::Stop;
use vicus_language::stack::deep;

/// Merges joins of joins, filters of filters and unions of unions. A condition on an operand of a join becomes a
/// condition of the join, if its variables have the same values there.
pub(crate) fn flatten(node: Node) -> Node {
    match node {
        Node::Join(nodes) => flatten_join(nodes),
        Node::Filter { conditions: mut outer, inner } => match inner.into_node() {
            Node::Filter { conditions, inner } => {
                outer.extend(conditions);
                flatten(Node::Filter { conditions: outer, inner })
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
            Node::Filter { conditions: own, inner } => {
                let certain = &inner.scope().certain;
                // A variable always bound by this operand has the same value in the whole join.
                let (up, stay): (Vec<Expr>, Vec<Expr>) =
                    own.into_iter().partition(|condition| condition.slots().is_subset(certain));
                conditions.extend(up);
                match inner.into_node().filtered(stay) {
                    Node::Join(inner) => all.extend(inner),
                    other => all.push(other),
                }
            }
            // A single operand, or a unit.
            other => all.push(other),
        }
    }
    drop_repeated(&mut all);
    let joined = if all.len() == 1 { all.remove(0) } else { Node::Join(all) };
    joined.filtered(conditions)
}

/// Drops patterns repeated among the operands before. The solutions of a pattern are all different and bind all of its
/// slots, so each of them is compatible with itself alone: joined with itself, the pattern stays the same.
fn drop_repeated(nodes: &mut Vec<Node>) {
    let repeats = |(place, node): (usize, &Node)| matches!(node, Node::Pattern(_)) && nodes[..place].contains(node);
    if nodes.len() < FEW && !nodes.iter().enumerate().any(repeats) {
        return;
    }
    let mut seen: FxHashSet<Pattern> = FxHashSet::default();
    nodes.retain(|node| match node {
        Node::Pattern(pattern) => seen.insert(*pattern),
        _ => true,
    });
}

/// So few operands are compared with each other; more are put into a table.
const FEW: usize = 16;

/// Moves each condition down as far as its variables have the same values.
pub(crate) fn push_down(node: Node, stop: &Stop<'_>) -> Node {
    push(node, Vec::new(), stop)
}

/// Whether a condition's slots have the same values in one part as in the whole; `others` says whether another part may
/// bind a slot.
fn sees_the_same(condition: &Expr, inner: &Scope, others: impl Fn(&Slot) -> bool) -> bool {
    condition.slots().iter().all(|slot| inner.certain.contains(slot) || inner.possible.contains(slot) && !others(slot))
}

/// Steps counted for placing a condition.
const CONDITION_STEPS: usize = 16;

fn push(node: Node, conditions: Vec<Expr>, stop: &Stop<'_>) -> Node {
    if stop.count_steps(1 + conditions.len() * CONDITION_STEPS) || stop.poll() {
        return node.filtered(conditions);
    }
    deep(|| push_into(node, conditions, stop))
}

fn below(node: Operand, conditions: Vec<Expr>, stop: &Stop<'_>) -> Operand {
    Operand::new(push(node.into_node(), conditions, stop))
}

fn push_into(node: Node, mut conditions: Vec<Expr>, stop: &Stop<'_>) -> Node {
    match node {
        Node::Filter { conditions: own, inner } => {
            conditions.extend(own.into_iter().flat_map(Expr::conjuncts));
            push(inner.into_node(), conditions, stop)
        }
        Node::Join(nodes) => push_into_join(nodes, conditions, stop),
        Node::LeftJoin { left, right, conditions: own } => {
            let (mut down, mut stay) = (Vec::new(), Vec::new());
            if !conditions.is_empty() {
                let (scope, optional) = (left.scope(), &right.scope().possible);
                stop.count_steps(scope.possible.len());
                (down, stay) = conditions
                    .into_iter()
                    .partition(|condition| sees_the_same(condition, scope, |slot| optional.contains(slot)));
            }
            let (to_right, own) = split_for_right(&left, &right, own, stop);
            let left = below(left, down, stop);
            let right = below(right, to_right, stop);
            Node::LeftJoin { left, right, conditions: own }.filtered(stay)
        }
        Node::AntiJoin { left, right, conditions: own } => {
            let (left, right, own, stay) = push_into_test(left, right, own, conditions, stop);
            Node::AntiJoin { left, right, conditions: own }.filtered(stay)
        }
        Node::SemiJoin { left, right, conditions: own } => {
            let (left, right, own, stay) = push_into_test(left, right, own, conditions, stop);
            Node::SemiJoin { left, right, conditions: own }.filtered(stay)
        }
        Node::MarkJoin { left, right, conditions: own, mark } => {
            let (left, right, own, stay) = push_into_test(left, right, own, conditions, stop);
            Node::MarkJoin { left, right, conditions: own, mark }.filtered(stay)
        }
        Node::Minus { left, right, graph } => {
            Node::Minus { left: below(left, conditions, stop), right: below(right, Vec::new(), stop), graph }
        }
        Node::Union(nodes) => {
            let branch = |node: Node| {
                if conditions.is_empty() {
                    return push(node, Vec::new(), stop);
                }
                let possible = node.scope().possible;
                let visible = |slot: Slot| if possible.contains(&slot) { Expr::Slot(slot) } else { Expr::Error };
                let own = conditions.iter().map(|condition| condition.replaced(&visible)).collect();
                stop.count_steps(possible.len());
                stop.count_bytes(conditions.len() * CONDITION_BYTES);
                push(node, own, stop)
            };
            Node::Union(nodes.into_iter().map(branch).collect())
        }
        Node::Extend { inner, slot, expr } => {
            let (stay, down): (Vec<Expr>, Vec<Expr>) =
                conditions.into_iter().partition(|condition| condition.slots().contains(&slot));
            Node::Extend { inner: below(inner, down, stop), slot, expr }.filtered(stay)
        }
        Node::Service { inner, service } => {
            // The endpoint may bind the other slots.
            let certain = &inner.scope().certain;
            let (down, stay): (Vec<Expr>, Vec<Expr>) =
                conditions.into_iter().partition(|condition| condition.slots().is_subset(certain));
            Node::Service { inner: below(inner, down, stop), service }.filtered(stay)
        }
        Node::Sort { inner, keys } => Node::Sort { inner: below(inner, conditions, stop), keys },
        Node::Project { inner, slots } => Node::Project { inner: below(inner, conditions, stop), slots },
        Node::Distinct { inner } => Node::Distinct { inner: below(inner, conditions, stop) },
        Node::Group(mut group) => {
            // All rows of a group have the same keys.
            let keys: Slots = group.keys.iter().copied().collect();
            let is_of_keys = |condition: &Expr| {
                let slots = condition.slots();
                !slots.is_empty() && slots.is_subset(&keys) && !condition.is_volatile()
            };
            let (down, stay): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_of_keys);
            group.inner = below(group.inner, down, stop);
            Node::Group(group).filtered(stay)
        }
        // Conditions stay on top of other operators: below a slice, they would change its rows.
        mut other => {
            for child in other.children_mut() {
                *child = push(std::mem::replace(child, Node::unit()), Vec::new(), stop);
            }
            other.filtered(conditions)
        }
    }
}

/// About how many bytes a copy of a condition takes.
const CONDITION_BYTES: usize = 256;

/// Divides conditions on a semi or anti join: those for its operands, its own, and those staying above it.
fn push_into_test(
    left: Operand,
    right: Operand,
    own: Vec<Expr>,
    conditions: Vec<Expr>,
    stop: &Stop<'_>,
) -> (Operand, Operand, Vec<Expr>, Vec<Expr>) {
    let (to_right, own) = split_for_right(&left, &right, own, stop);
    let (mut down, mut stay) = (Vec::new(), Vec::new());
    if !conditions.is_empty() {
        let possible = &left.scope().possible;
        stop.count_steps(possible.len());
        (down, stay) = conditions.into_iter().partition(|condition| condition.slots().is_subset(possible));
    }
    (below(left, down, stop), below(right, to_right, stop), own, stay)
}

/// Conditions on a pattern stay in the join for the planner; other operands get theirs.
fn push_into_join(nodes: Vec<Node>, mut conditions: Vec<Expr>, stop: &Stop<'_>) -> Node {
    let is_pattern = |node: &Node| matches!(node, Node::Pattern(_));
    if conditions.is_empty() || nodes.iter().all(is_pattern) {
        let each = |node: Node| if is_pattern(&node) { node } else { push(node, Vec::new(), stop) };
        return flatten(Node::Join(nodes.into_iter().map(each).collect()).filtered(conditions));
    }
    let scopes: Vec<Scope> = nodes.iter().map(Node::scope).collect();
    // How many operands have a slot.
    let mut holders: FxHashMap<Slot, usize> = FxHashMap::default();
    scopes.iter().flat_map(|scope| &scope.possible).for_each(|slot| *holders.entry(*slot).or_default() += 1);
    let mut pushed = Vec::new();
    for (node, scope) in nodes.into_iter().zip(&scopes) {
        if is_pattern(&node) {
            pushed.push(node);
            continue;
        }
        stop.count_steps(conditions.len() * CONDITION_STEPS);
        let is_others = |slot: &Slot| holders[slot] > 1;
        let (down, stay): (Vec<Expr>, Vec<Expr>) = conditions
            .into_iter()
            .partition(|condition| !condition.slots().is_empty() && sees_the_same(condition, scope, is_others));
        conditions = stay;
        pushed.push(push(node, down, stop));
    }
    flatten(Node::Join(pushed).filtered(conditions))
}

/// Conditions of a left join on its right side only, and the others.
fn split_for_right(left: &Operand, right: &Operand, conditions: Vec<Expr>, stop: &Stop<'_>) -> (Vec<Expr>, Vec<Expr>) {
    if conditions.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let (outside, inside) = (&left.scope().possible, right.scope());
    stop.count_steps(outside.len() + inside.possible.len() + conditions.len() * CONDITION_STEPS);
    conditions.into_iter().flat_map(Expr::conjuncts).partition(|condition| {
        !condition.slots().is_empty() && sees_the_same(condition, inside, |slot| outside.contains(slot))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::{At, DEFAULT_GRAPH};
    use crate::expression::Compare;
    use vicus_rdf::Id;

    fn pattern(a: usize, b: usize) -> Node {
        Node::Pattern(Pattern([At::Slot(Slot(a)), At::Constant(Id::boolean(true)), At::Slot(Slot(b)), DEFAULT_GRAPH]))
    }

    fn less(a: usize, b: usize) -> Expr {
        Expr::Compare(Compare::Less, Box::new(Expr::Slot(Slot(a))), Box::new(Expr::Slot(Slot(b))))
    }

    fn optional(left: Node, right: Node, conditions: Vec<Expr>) -> Node {
        Node::LeftJoin { left: Operand::new(left), right: Operand::new(right), conditions }
    }

    #[test]
    fn a_pattern_that_is_written_again_is_dropped() {
        let union = Node::Union(vec![pattern(0, 1), pattern(0, 2)]);
        let written = vec![pattern(0, 1), union.clone(), pattern(1, 0), pattern(0, 1), union.clone()];
        let kept = vec![pattern(0, 1), union.clone(), pattern(1, 0), union];
        assert_eq!(flatten(Node::Join(written)), Node::Join(kept));
        assert_eq!(flatten(Node::Join(vec![pattern(0, 1); 100])), pattern(0, 1));
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
        let node = Node::Slice { inner: Operand::new(pattern(0, 1)), offset: 0, limit: Some(3), each: None }
            .filtered(vec![less(0, 1)]);
        assert_eq!(push_down(node.clone(), &Stop::new(&|| false)), node);
    }

    #[test]
    fn conditions_on_an_uncertain_variable_wait_for_the_join() {
        // ?2 is optional on one side of the join, and always bound on the other.
        let node = Node::Join(vec![optional(pattern(0, 1), pattern(0, 2), vec![]), pattern(3, 2)]);
        let node = node.filtered(vec![less(0, 2)]);
        assert_eq!(push_down(node.clone(), &Stop::new(&|| false)), node);
    }
}
