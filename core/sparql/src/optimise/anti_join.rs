//! OPTIONAL with `!bound` is an anti join; with `bound`, a join.

use crate::algebra::{Node, Slot};
use crate::expression::Expr;

/// A left join keeps only rows without partner if its solutions must lack a variable always bound by the right side. It
/// keeps only pairs if its solutions must have this variable.
pub(crate) fn anti_join(node: Node) -> Node {
    let Node::Filter { conditions: mut outer, inner } = node else { return node };
    if !matches!(&*inner, Node::LeftJoin { .. }) {
        return Node::Filter { conditions: outer, inner };
    }
    let Node::LeftJoin { left, right, conditions } = inner.into_node() else { unreachable!("looked at above") };
    let (right_scope, left_scope) = (right.scope().clone(), left.scope().clone());
    let tells = |slot: &Slot| right_scope.certain.contains(slot) && !left_scope.possible.contains(slot);
    let lacks = |condition: &Expr| match condition {
        Expr::Not(inner) => matches!(&**inner, Expr::Bound(slot) if tells(slot)),
        _ => false,
    };
    let has = |condition: &Expr| matches!(condition, Expr::Bound(slot) if tells(slot));
    if outer.iter().any(lacks) {
        outer.retain(|condition| !lacks(condition));
        // Variables bound only by the right side are unbound from here on.
        let visible = |slot| if left_scope.possible.contains(&slot) { Expr::Slot(slot) } else { Expr::Error };
        outer.iter_mut().for_each(|condition| condition.replace(&visible));
        return Node::AntiJoin { left, right, conditions }.filtered(outer);
    }
    if outer.iter().any(has) {
        outer.retain(|condition| !has(condition));
        outer.extend(conditions);
        return Node::Join(vec![left.into_node(), right.into_node()]).filtered(outer);
    }
    Node::LeftJoin { left, right, conditions }.filtered(outer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::{At, DEFAULT_GRAPH, Operand, Pattern};
    use vicus_rdf::Id;

    fn pattern(a: usize, b: usize) -> Operand {
        Operand::new(Node::Pattern(Pattern([
            At::Slot(Slot(a)),
            At::Constant(Id::boolean(true)),
            At::Slot(Slot(b)),
            DEFAULT_GRAPH,
        ])))
    }

    fn optional() -> Node {
        Node::LeftJoin { left: pattern(0, 1), right: pattern(0, 2), conditions: vec![] }
    }

    #[test]
    fn what_must_be_unbound_is_an_anti_join() {
        let lacks = |slot| Expr::Not(Box::new(Expr::Bound(Slot(slot))));
        let anti = Node::AntiJoin { left: pattern(0, 1), right: pattern(0, 2), conditions: vec![] };
        assert_eq!(anti_join(optional().filtered(vec![lacks(2)])), anti);
        let unchanged = optional().filtered(vec![lacks(1)]);
        assert_eq!(anti_join(unchanged.clone()), unchanged, "the left side has this variable, too");
    }

    #[test]
    fn what_must_be_bound_is_no_longer_optional() {
        let joined = Node::Join(vec![pattern(0, 1).into_node(), pattern(0, 2).into_node()]);
        assert_eq!(anti_join(optional().filtered(vec![Expr::Bound(Slot(2))])), joined);
    }
}
