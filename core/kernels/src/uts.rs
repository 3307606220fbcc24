//! Unbalanced tree search: counts the nodes of a tree whose shape is unknown before it is searched.
//!
//! Olivier, Huan, Liu, Prins, Dinan, Sadayappan, Tseng, "UTS: An Unbalanced Tree Search Benchmark", LCPC 2006, §2: a
//! node is a SHA-1 hash of its parent and its number, and the last four bytes give the number of its children. Every
//! world computes the hashes, because the shape of the tree depends on them.

use crate::{Kernel, KernelWorld, Leaf};
use sha1::{Digest, Sha1};
use std::ops::Range;

/// Counts the nodes of a tree, with a [`join`](KernelWorld::join) for each child but one. By default the tree T1 of the
/// authors.
#[derive(Clone, Debug)]
pub struct Uts {
    /// How many children nodes have.
    pub tree: Tree,
    /// The seed of the root.
    pub seed: u32,
}

/// How many children nodes have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tree {
    /// Geometrically distributed with this mean, and no children from a depth on: "fixed" in the authors' program.
    Geometric {
        /// The mean number of children.
        mean: f64,
        /// The depth of nodes without children.
        depth: u32,
    },
    /// A fixed number of children, or none.
    Binomial {
        /// The number of the root's children.
        root: u32,
        /// The number of another node's children, if it has any.
        children: u32,
        /// The probability that a node other than the root has children.
        likely: f64,
    },
}

impl Default for Uts {
    fn default() -> Uts {
        Uts { tree: Tree::Geometric { mean: 4.0, depth: 10 }, seed: 19 }
    }
}

/// The greatest number of children, as in the authors' program; the root of a binomial tree may have more.
const MOST_CHILDREN: u32 = 100;

/// The operations of SHA-1 on one block (FIPS 180-4, §6.1.2); a node's hash is of one block. A round has four
/// additions, two rotations and a function (§4.1.1): `Ch` with four operations in 20 rounds, `Parity` with two in 40,
/// `Maj` with five in 20. 64 words of the schedule take three operations and a rotation each; five words are added at
/// the end. Computing the number of children takes some tens more, not counted here.
const HASH_OPERATIONS: u64 = 80 * (4 + 2) + (20 * 4 + 40 * 2 + 20 * 5) + 64 * (3 + 1) + 5;

/// A node.
#[derive(Clone, Copy)]
struct Node {
    hash: [u8; 20],
    depth: u32,
}

impl Node {
    fn root(seed: u32) -> Node {
        let hash = Sha1::new().chain_update([0; 16]).chain_update(seed.to_be_bytes()).finalize();
        Node { hash: hash.into(), depth: 0 }
    }

    /// Never inlined: the recursion is as deep as the tree, and each of its frames would have the hundreds of bytes of
    /// stack of a hash. An optimised search of T3, 1,572 levels, overflowed a thread's 2 MiB.
    #[inline(never)]
    fn child(&self, number: u32) -> Node {
        let hash = Sha1::new().chain_update(self.hash).chain_update(number.to_be_bytes()).finalize();
        Node { hash: hash.into(), depth: self.depth + 1 }
    }

    /// A number from 0 to 1, excluding 1.
    fn chance(&self) -> f64 {
        let [.., a, b, c, d] = self.hash;
        f64::from(u32::from_be_bytes([a, b, c, d]) & 0x7FFF_FFFF) / f64::from(1u32 << 31)
    }

    fn children(&self, tree: Tree) -> u32 {
        match tree {
            Tree::Geometric { depth, .. } if self.depth >= depth => 0,
            Tree::Geometric { mean, .. } => {
                let ends = 1.0 / (1.0 + mean);
                // libm's logarithms, because the trees must be the same on every machine.
                ((libm::log(1.0 - self.chance()) / libm::log(1.0 - ends)) as u32).min(MOST_CHILDREN)
            }
            Tree::Binomial { root, .. } if self.depth == 0 => root,
            Tree::Binomial { children, likely, .. } if self.chance() < likely => children.min(MOST_CHILDREN),
            Tree::Binomial { .. } => 0,
        }
    }
}

impl Uts {
    /// The tree T3 of the authors: binomial, thin and deep.
    pub fn t3() -> Uts {
        Uts { tree: Tree::Binomial { root: 2000, children: 8, likely: 0.124875 }, seed: 42 }
    }

    /// The number of nodes from this one on.
    fn count<W: KernelWorld>(&self, world: &W, node: &Node) -> u64 {
        world.work(Leaf { name: "node", flops: HASH_OPERATIONS }, &[], || ());
        1 + self.count_children(world, node, 0..node.children(self.tree))
    }

    /// The number of nodes from these children on.
    fn count_children<W: KernelWorld>(&self, world: &W, node: &Node, children: Range<u32>) -> u64 {
        match children.len() {
            0 => 0,
            1 => self.count(world, &node.child(children.start)),
            _ => {
                let middle = children.start.midpoint(children.end);
                let (a, b) = world.join(
                    || self.count_children(world, node, children.start..middle),
                    || self.count_children(world, node, middle..children.end),
                );
                a + b
            }
        }
    }
}

impl Kernel for Uts {
    fn name(&self) -> &'static str {
        "uts"
    }

    fn scale(&mut self, times: f64) {
        match &mut self.tree {
            // Each further level has `mean` times as many nodes.
            Tree::Geometric { mean, depth } => {
                *depth = (f64::from(*depth) + times.ln() / mean.ln()).round().max(1.0) as u32;
            }
            Tree::Binomial { root, .. } => *root = (f64::from(*root) * times).round().max(1.0) as u32,
        }
    }

    fn run<W: KernelWorld>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
        start();
        let nodes = self.count(world, &Node::root(self.seed));
        end();
        nodes as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    /// The authors' list of sample trees.
    #[test]
    #[cfg_attr(miri, ignore = "millions of hashes")]
    fn published_trees_have_the_published_numbers_of_nodes() {
        assert_eq!(Uts::default().run(&Serial::default(), || (), || ()), 4_130_071.0);
        assert_eq!(Uts::t3().run(&Serial::default(), || (), || ()), 4_112_897.0);
    }

    #[test]
    fn a_tree_without_chance_is_counted_by_a_formula() {
        let nodes = |root, children, likely| {
            let tree = Tree::Binomial { root, children, likely };
            Uts { tree, seed: 1 }.run(&Serial::default(), || (), || ())
        };
        assert_eq!(nodes(7, 2, 0.0), 8.0);
        assert_eq!(nodes(0, 2, 1.0), 1.0);
        let tree = Tree::Geometric { mean: 4.0, depth: 0 };
        assert_eq!(Uts { tree, seed: 1 }.run(&Serial::default(), || (), || ()), 1.0);
    }
}
