//! Rewriting the algebra: each rule is a function that keeps the meaning for every store.
//!
//! Rules that depend on the data (which join order, which equality is one of ids) are the planner's.

mod anti_join;
mod constants;
mod distinct;
mod exists;
mod filters;

use crate::algebra::Node;

/// Applies all rules.
pub(crate) fn optimise(node: Node) -> Node {
    let node = node.rewrite(&mut filters::flatten);
    let node = node.rewrite(&mut exists::semi_join);
    let node = filters::push_down(node);
    let node = node.rewrite(&mut anti_join::anti_join);
    // An anti-join keeps only its left side, so that more conditions can go there.
    let node = filters::push_down(node);
    let node = node.rewrite(&mut constants::substitute);
    let node = node.rewrite(&mut filters::flatten);
    node.rewrite(&mut distinct::before_sort)
}
