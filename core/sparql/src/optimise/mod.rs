//! Rewriting the algebra: each rule is a function that keeps the meaning for every store.
//!
//! Rules that depend on the data (which join order, which equality is one of ids) are the planner's.

mod anti_join;
mod constants;
mod distinct;
mod exists;
mod filters;

use crate::algebra::Node;
use crate::expression::Expr;
use crate::stack::deep;
use crate::stop::Stop;

/// Steps that a rule takes for an operator.
const REWRITE_STEPS: usize = 2;

/// What a tree has that rules are for.
#[derive(Clone, Copy, Default)]
struct Has {
    /// Conditions, or tests in expressions.
    conditions: bool,
    tests: bool,
    optional: bool,
    distinct: bool,
}

impl Has {
    fn look(&mut self, node: &Node) {
        match node {
            Node::LeftJoin { .. } => self.optional = true,
            Node::Distinct(_) => self.distinct = true,
            _ => {}
        }
        self.tests |= node.exprs().iter().any(Expr::has_exists);
        self.conditions |= !node.exprs().is_empty() && !matches!(node, Node::Extend(..));
        node.children().for_each(|child| deep(|| self.look(child)));
    }
}

/// Applies all rules that there is something for; once it is stopped, no more of them. New slots get names.
pub(crate) fn optimise(node: Node, names: &mut Vec<String>, stop: &Stop<'_>) -> Node {
    let rewrite = |node: Node, rule: fn(Node) -> Node| {
        // Nobody looks at it any more.
        if stop.is_stopped() {
            return node;
        }
        node.rewrite(&mut |node| if stop.works(REWRITE_STEPS) || stop.is_stopped() { node } else { rule(node) })
    };
    let mut node = rewrite(node, filters::flatten);
    let mut has = Has::default();
    has.look(&node);
    if has.tests {
        node = exists::as_joins(node, names, stop);
    }
    if has.tests || has.conditions {
        node = filters::push_down(node, stop);
        if has.tests || has.optional {
            node = rewrite(node, anti_join::anti_join);
            // An anti-join keeps only its left side, so that more conditions can go there.
            node = filters::push_down(node, stop);
        }
        node = rewrite(node, constants::substitute);
        node = rewrite(node, filters::flatten);
    }
    if has.tests || has.distinct { rewrite(node, distinct::before_sort) } else { node }
}
