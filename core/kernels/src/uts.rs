//! Unbalanced tree search: counts the nodes of a tree that nobody knows before it is searched.
//!
//! Olivier, Huan, Liu, Prins, Dinan, Sadayappan, Tseng, "UTS: An Unbalanced Tree Search Benchmark", LCPC 2006, §2: a node is
//! a SHA-1 hash of its parent's and its number, and how many children it has follows from its last four bytes. The hashes are
//! made by every world, since nothing is known of the tree without them.

use crate::{Kernel, Leaf, World};
use sha1::{Digest, Sha1};
use std::ops::Range;

/// Counts the nodes of a tree, a [`join`](World::join) for each child but one. By default the tree that its authors call T1.
#[derive(Clone, Debug)]
pub struct Uts {
    /// How many children nodes have.
    pub tree: Tree,
    /// From which the root is made.
    pub seed: u32,
}

/// How many children nodes have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tree {
    /// By a geometric distribution with this mean, above a depth at which nobody has any: "fixed" in the paper's program.
    Geometric {
        /// The mean of the children.
        mean: f64,
        /// Where the tree ends.
        depth: u32,
    },
    /// All or none.
    Binomial {
        /// How many the root has.
        root: u32,
        /// How many others have, if they have any.
        children: u32,
        /// How likely they have some.
        likely: f64,
    },
}

impl Default for Uts {
    fn default() -> Uts {
        Uts { tree: Tree::Geometric { mean: 4.0, depth: 10 }, seed: 19 }
    }
}

/// As in the paper's program, no node has more children, except a root of a binomial tree.
const MOST_CHILDREN: u32 = 100;

/// What SHA-1 does with a block (FIPS 180-4, §6.1.2), and a node's hash is of one block. A round has four additions, two rotations
/// and a function (§4.1.1): `Ch` of four operations in 20 rounds, `Parity` of two in 40, `Maj` of five in 20. Of the schedule 64
/// words are made, by three operations and a rotation each; in the end five words are added. How many children follow costs
/// some tens more, which are not counted.
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

    /// Never inlined: the search is as many calls deep as the tree, and a hash needs hundreds of bytes on the stack, which each
    /// of those calls would keep. An optimised search of T3, 1,572 levels, overflowed the 2 MiB of a thread.
    #[inline(never)]
    fn child(&self, number: u32) -> Node {
        let hash = Sha1::new().chain_update(self.hash).chain_update(number.to_be_bytes()).finalize();
        Node { hash: hash.into(), depth: self.depth + 1 }
    }

    /// A number from 0 to 1, without 1.
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
    /// The tree that its authors call T3: binomial, thin and deep.
    pub fn t3() -> Uts {
        Uts { tree: Tree::Binomial { root: 2000, children: 8, likely: 0.124875 }, seed: 42 }
    }

    /// How many nodes there are from here on.
    fn count<W: World>(&self, world: &W, node: &Node) -> u64 {
        world.work(Leaf { name: "node", flops: HASH_OPERATIONS }, &[], || ());
        1 + self.count_children(world, node, 0..node.children(self.tree))
    }

    /// How many nodes there are from these children on.
    fn count_children<W: World>(&self, world: &W, node: &Node, children: Range<u32>) -> u64 {
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
            // One level more has so many times as many nodes.
            Tree::Geometric { mean, depth } => {
                *depth = (f64::from(*depth) + times.ln() / mean.ln()).round().max(1.0) as u32;
            }
            Tree::Binomial { root, .. } => *root = (f64::from(*root) * times).round().max(1.0) as u32,
        }
    }

    fn run<W: World>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
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

    /// As the authors' list of sample trees has them.
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
