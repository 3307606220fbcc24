//! DISTINCT below ORDER BY, so that fewer rows are sorted.

use crate::algebra::{Node, Operand, Slots};

/// Sorts after duplicates were dropped, if all sort keys are among the distinct columns.
pub(crate) fn before_sort(node: Node) -> Node {
    let Node::Distinct { inner } = node else { return node };
    let (inner, slots) = match inner.into_node() {
        Node::Project { inner, slots } => (inner, slots),
        other => return Node::Distinct { inner: Operand::new(other) },
    };
    let projected: Slots = slots.iter().copied().collect();
    match inner.into_node() {
        Node::Sort { inner, keys } if keys.iter().all(|key| projected.contains(&key.slot)) => Node::Sort {
            inner: Operand::new(Node::Distinct { inner: Operand::new(Node::Project { inner, slots }) }),
            keys,
        },
        other => Node::Distinct { inner: Operand::new(Node::Project { inner: Operand::new(other), slots }) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::{Slot, SortKey};

    #[test]
    fn distinct_rows_are_sorted_if_the_keys_are_among_their_columns() {
        let sorted = |slot, node| Node::Sort {
            inner: Operand::new(node),
            keys: vec![SortKey { slot: Slot(slot), descending: true }],
        };
        let distinct = |node| Node::Distinct { inner: Operand::new(node) };
        let project = |node| Node::Project { inner: Operand::new(node), slots: vec![Slot(0)] };
        let node = distinct(project(sorted(0, Node::unit())));
        assert_eq!(before_sort(node), sorted(0, distinct(project(Node::unit()))));
        let node = distinct(project(sorted(1, Node::unit())));
        assert_eq!(before_sort(node.clone()), node);
    }
}
