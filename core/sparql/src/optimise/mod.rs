//! Rewriting the algebra: each rule is a function that keeps the meaning for every store.
//!
//! Rules that depend on the data (which join order, which equality is one of ids) are the planner's.

mod anti_join;
mod constants;
mod distinct;
mod exists;
mod filters;

use crate::algebra::Node;
use crate::stop::Stop;

/// Steps that a rule takes for an operator.
const REWRITE_STEPS: usize = 2;

/// Applies all rules; once it is stopped, no more of them. New slots get names.
pub(crate) fn optimise(node: Node, names: &mut Vec<String>, stop: &Stop<'_>) -> Node {
    let rewrite = |node: Node, rule: fn(Node) -> Node| {
        // Nobody looks at it any more.
        if stop.is_stopped() {
            return node;
        }
        node.rewrite(&mut |node| if stop.works(REWRITE_STEPS) || stop.is_stopped() { node } else { rule(node) })
    };
    let node = rewrite(node, filters::flatten);
    let node = exists::as_joins(node, names, stop);
    let node = filters::push_down(node, stop);
    let node = rewrite(node, anti_join::anti_join);
    // An anti-join keeps only its left side, so that more conditions can go there.
    let node = filters::push_down(node, stop);
    let node = rewrite(node, constants::substitute);
    let node = rewrite(node, filters::flatten);
    rewrite(node, distinct::before_sort)
}
