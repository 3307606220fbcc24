//! The papers' benchmarks, each written once for every world.
//!
//! A kernel is a function over a [`World`]: it asks for arrays, submits tasks, and says of each piece of work which bytes it
//! reads and writes and how many operations it takes. On threads the work is done. A recorder only writes down what would be
//! done, so that a simulator can run the same kernel on a machine that nobody has. [`Serial`] does it without tasks: the
//! results to compare with.
//!
//! Each kernel is a struct whose fields are its input, by default that of its paper; [`by_name`] has them all.

mod arrays;
mod catalog;
mod fib;
mod jacobi2d;
mod jacobi3d;
mod map;
mod matmul;
mod nqueens;
mod product;
mod reduction;
mod serial;
mod sparselu;
mod uts;
mod vecmul;
mod world;

pub use catalog::{AnyKernel, LEAVES, NAMES, NoKernel, Size, by_name};
pub use fib::Fib;
pub use jacobi2d::Jacobi2d;
pub use jacobi3d::{BlockOrder, FirstTouch, Jacobi3d, Submission, Submitters};
pub use map::Map;
pub use matmul::Matmul;
pub use nqueens::Nqueens;
pub use reduction::Reduction;
pub use serial::Serial;
pub use sparselu::SparseLu;
pub use uts::{Tree, Uts};
pub use vecmul::Vecmul;
pub use world::{Array, Element, Kernel, Leaf, Order, Schedule, Task, World};
