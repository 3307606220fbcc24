//! `?v = constant` goes into the patterns that bind `?v`.

use crate::algebra::{At, Node, Operand, Pattern, Slot, Slots};
use crate::expression::{Compare, Expr};
use rustc_hash::FxHashMap;
use vicus_rdf::{Id, TermKind};

/// The greatest number of variables replaced in one group: each adds an operator on top, and the conditions are
/// searched again.
const MOST: usize = 64;

/// Replaces a variable by the constant that it must equal, if equal values are equal terms: IRIs and simple strings. An
/// operator on top binds the variable again.
pub(crate) fn substitute(node: Node) -> Node {
    let Node::Filter { mut conditions, inner } = node else { return node };
    if !conditions.iter().any(|condition| equality(condition).is_some()) {
        return Node::Filter { conditions, inner };
    }
    let mut nodes = match inner.into_node() {
        Node::Join(nodes) => nodes,
        pattern @ Node::Pattern(_) => vec![pattern],
        other => return other.filtered(conditions),
    };
    let (mut in_patterns, elsewhere) = holders(&nodes);
    let mut bindings: Vec<(Slot, Id)> = Vec::new();
    let mut place = 0;
    while place < conditions.len() && bindings.len() < MOST {
        let is_bound = |slot: &Slot| in_patterns.contains_key(slot) && !elsewhere.contains(slot);
        let Some((slot, id)) = equality(&conditions[place]).filter(|(slot, _)| is_bound(slot)) else {
            place += 1;
            continue;
        };
        conditions.remove(place);
        for node in in_patterns.remove(&slot).unwrap_or_default() {
            if let Node::Pattern(pattern) = &mut nodes[node] {
                *pattern = Pattern(pattern.0.map(|at| if at == At::Slot(slot) { At::Constant(id) } else { at }));
            }
        }
        let value = |other| if other == slot { Expr::Constant(id) } else { Expr::Slot(other) };
        conditions.iter_mut().for_each(|condition| condition.replace(&value));
        bindings.push((slot, id));
        // A condition visited before may now be such an equality, as a variable in it became a constant.
        place = 0;
    }
    let group = if nodes.len() == 1 { nodes.remove(0) } else { Node::Join(nodes) };
    bindings.into_iter().fold(group.filtered(conditions), |node, (slot, id)| Node::Extend {
        inner: Operand::new(node),
        slot,
        expr: Expr::Constant(id),
    })
}

/// The patterns of a group that have a slot, by slot; and the slots of all other operands.
fn holders(nodes: &[Node]) -> (FxHashMap<Slot, Vec<usize>>, Slots) {
    let mut in_patterns: FxHashMap<Slot, Vec<usize>> = FxHashMap::default();
    let mut elsewhere = Vec::new();
    for (place, node) in nodes.iter().enumerate() {
        match node {
            Node::Pattern(pattern) => pattern.slots().for_each(|slot| in_patterns.entry(slot).or_default().push(place)),
            other => elsewhere.extend(other.scope().possible),
        }
    }
    (in_patterns, elsewhere.into_iter().collect())
}

fn equality(condition: &Expr) -> Option<(Slot, Id)> {
    let (a, b, same_term) = match condition {
        Expr::Compare(Compare::Equal, a, b) => (&**a, &**b, false),
        Expr::SameTerm(a, b) => (&**a, &**b, true),
        _ => return None,
    };
    let (slot, id) = match (a, b) {
        (Expr::Slot(slot), Expr::Constant(id)) | (Expr::Constant(id), Expr::Slot(slot)) => (*slot, *id),
        _ => return None,
    };
    // With an IRI or a simple string, `=` is the same as `sameTerm`. For other constants it may fail, or hold for
    // another term.
    (same_term || matches!(id.kind(), TermKind::Iri | TermKind::String)).then_some((slot, id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::DEFAULT_GRAPH;

    #[test]
    fn an_iri_goes_into_the_pattern_and_a_number_does_not() {
        let pattern = |object| Node::Pattern(Pattern([At::Slot(Slot(0)), At::Slot(Slot(1)), object, DEFAULT_GRAPH]));
        let equals = |id| Expr::Compare(Compare::Equal, Box::new(Expr::Slot(Slot(2))), Box::new(Expr::Constant(id)));
        let iri = Id::ranked(TermKind::Iri, 7);
        let node = pattern(At::Slot(Slot(2))).filtered(vec![equals(iri)]);
        let expected =
            Node::Extend { inner: Operand::new(pattern(At::Constant(iri))), slot: Slot(2), expr: Expr::Constant(iri) };
        assert_eq!(substitute(node), expected);
        // 1.0 equals 1, but is another term.
        let node = pattern(At::Slot(Slot(2))).filtered(vec![equals(Id::integer(1).unwrap())]);
        assert_eq!(substitute(node.clone()), node);
    }
}
