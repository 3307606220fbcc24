//! Trees of tasks, the same code for Vicus and rayon, whose functions have the same names. `peers/tbb.cpp` has them for
//! oneTBB.

use sha1::{Digest, Sha1};

/// A chess board with queens in its first rows.
#[derive(Clone, Copy)]
struct Board {
    size: u32,
    row: u32,
    columns: u32,
    left: u32,
    right: u32,
}

impl Board {
    /// The boards with one more queen.
    fn next(self) -> impl Iterator<Item = Board> {
        let Board { size, row, columns, left, right } = self;
        let mut free = !(columns | left | right) & ((1 << size) - 1);
        std::iter::from_fn(move || {
            let bit = free & free.wrapping_neg();
            free ^= bit;
            let next = Board {
                size,
                row: row + 1,
                columns: columns | bit,
                left: (left | bit) << 1,
                right: (right | bit) >> 1,
            };
            (bit != 0).then_some(next)
        })
    }
}

/// The number of boards with at most `size` queens in the first rows: one task for each, except for the empty board.
pub(crate) fn boards(size: u32) -> u64 {
    fn count(board: Board) -> u64 {
        board.next().map(|next| 1 + count(next)).sum()
    }
    count(Board { size, row: 0, columns: 0, left: 0, right: 0 })
}

/// A node of an unbalanced tree: its hash gives the number of its children (Olivier et al., "UTS: An Unbalanced Tree
/// Search Benchmark", LCPC 2006).
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Node {
    hash: [u8; 20],
    depth: u32,
}

impl Node {
    /// The root of the tree T1: geometric, fixed, depth 10, branching factor 4, seed 19.
    pub(crate) fn t1() -> Node {
        let mut hasher = Sha1::new();
        hasher.update([0; 16]);
        hasher.update(19u32.to_be_bytes());
        Node { hash: hasher.finalize().into(), depth: 0 }
    }

    fn child(&self, number: u32) -> Node {
        let mut hasher = Sha1::new();
        hasher.update(self.hash);
        hasher.update(number.to_be_bytes());
        Node { hash: hasher.finalize().into(), depth: self.depth + 1 }
    }

    fn children(&self) -> u32 {
        if self.depth >= 10 {
            return 0;
        }
        let word: [u8; 4] = self.hash[16..].try_into().expect("four bytes");
        let random = f64::from(u32::from_be_bytes(word) & 0x7fff_ffff) / f64::from(1u32 << 31);
        let probability = 1.0 / (1.0 + 4.0);
        ((1.0 - random).ln() / (1.0f64 - probability).ln()).floor().min(100.0) as u32
    }
}

#[cfg(tbb)]
mod for_cpp {
    use super::Node;

    #[expect(unsafe_code, reason = "called from C++")]
    #[unsafe(no_mangle)]
    extern "C" fn uts_children(node: &Node) -> u32 {
        node.children()
    }

    #[expect(unsafe_code, reason = "called from C++")]
    #[unsafe(no_mangle)]
    extern "C" fn uts_child(node: &Node, number: u32, child: &mut std::mem::MaybeUninit<Node>) {
        child.write(node.child(number));
    }
}

/// The trees, with one library's `join` and `scope`.
macro_rules! trees {
    ($library:ident, $name:ident) => {
        pub(crate) mod $name {
            use super::{Board, Node};
            use std::sync::atomic::{AtomicU64, Ordering};

            pub(crate) fn fib(n: u32) -> u64 {
                if n < 2 {
                    return n.into();
                }
                let (a, b) = $library::join(|| fib(n - 1), || fib(n - 2));
                a + b
            }

            fn boards(board: Board, solutions: &AtomicU64) {
                if board.row == board.size {
                    solutions.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                $library::scope(|scope| {
                    for next in board.next() {
                        scope.spawn(move |_| boards(next, solutions));
                    }
                });
            }

            pub(crate) fn queens(size: u32) -> u64 {
                let solutions = AtomicU64::new(0);
                boards(Board { size, row: 0, columns: 0, left: 0, right: 0 }, &solutions);
                solutions.into_inner()
            }

            fn visit(node: &Node, nodes: &AtomicU64) {
                nodes.fetch_add(1, Ordering::Relaxed);
                let children = node.children();
                if children > 0 {
                    $library::scope(|scope| {
                        for number in 0..children {
                            let child = node.child(number);
                            scope.spawn(move |_| visit(&child, nodes));
                        }
                    });
                }
            }

            pub(crate) fn tree(root: &Node) -> u64 {
                let nodes = AtomicU64::new(0);
                visit(root, &nodes);
                nodes.into_inner()
            }
        }
    };
}

trees!(vicus_machine, vicus);
trees!(rayon, with_rayon);
