//! Rewrites the algebra. Each rule is a function with the same meaning before and after, for every store.
//!
//! Decisions based on the data (join order, comparisons by id) are the planner's.

mod anti_join;
mod constants;
mod distinct;
mod exists;
mod filters;
mod values;

use crate::algebra::Node;
use crate::expression::Expr;
use vicus_language::Stop;
use vicus_language::stack::deep;

/// Steps counted for applying a rule to an operator.
const REWRITE_STEPS: usize = 2;

/// The content of a tree. It tells which rules can apply.
#[derive(Clone, Copy, Default)]
struct Has {
    /// Filter or join conditions. Below: EXISTS in expressions.
    conditions: bool,
    tests: bool,
    optional: bool,
    distinct: bool,
    /// A table with possibly unbound values.
    unbound: bool,
}

impl Has {
    fn look(&mut self, node: &Node) {
        match node {
            Node::LeftJoin { .. } => self.optional = true,
            Node::Distinct { .. } => self.distinct = true,
            Node::Values { table, .. } => self.unbound |= table.columns.iter().any(|column| !column.certain),
            _ => {}
        }
        self.tests |= node.exprs().iter().any(Expr::has_exists);
        self.conditions |= !node.exprs().is_empty() && !matches!(node, Node::Extend { .. });
        node.children().for_each(|child| deep(|| self.look(child)));
    }
}

/// Applies the applicable rules, until it is stopped. New slots get names.
pub(crate) fn optimise(node: Node, names: &mut Vec<String>, stop: &Stop<'_>) -> Node {
    let rewrite = |node: Node, rule: fn(Node) -> Node| {
        // Planning was stopped, so the result is not used.
        if stop.poll() {
            return node;
        }
        node.rewrite(&mut |node| if stop.count_steps(REWRITE_STEPS) || stop.poll() { node } else { rule(node) })
    };
    let mut node = rewrite(node, filters::flatten);
    let mut has = Has::default();
    has.look(&node);
    if has.tests {
        node = exists::as_joins(node, names, stop);
    }
    if has.unbound {
        node = rewrite(node, values::divide);
    }
    if has.tests || has.conditions {
        node = filters::push_down(node, stop);
        if has.tests || has.optional {
            node = rewrite(node, anti_join::anti_join);
            // An anti join puts out its left side only, so more conditions can move into that side.
            node = filters::push_down(node, stop);
        }
        node = rewrite(node, constants::substitute);
        node = rewrite(node, filters::flatten);
    }
    if has.tests || has.distinct { rewrite(node, distinct::before_sort) } else { node }
}
