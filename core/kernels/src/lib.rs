//! The papers' benchmarks, each written once for every world.
//!
//! A kernel is a function over a [`KernelWorld`]. It asks for arrays, submits tasks, and declares for each piece of
//! work its reads and writes in bytes and the number of its operations. On threads the work is done. A recorder only
//! writes down the tasks, for a simulator to run the kernel on machines not at hand. [`Serial`] runs without tasks: its
//! results are the expected ones.
//!
//! Each kernel is a struct with its input as fields, by default the paper's, if it tells; [`by_name`] finds any of
//! them. [`Pipeline`] is a network of boxes instead.

mod alignment;
mod arrays;
mod catalog;
mod fft;
mod fib;
mod health;
mod jacobi2d;
mod jacobi3d;
mod map;
mod matmul;
mod nqueens;
mod pipeline;
mod product;
mod published;
mod reduction;
mod serial;
mod sort;
mod sparselu;
mod strassen;
mod uts;
mod vecmul;
mod world;

pub use alignment::Alignment;
pub use catalog::{AnyKernel, LEAVES, NAMES, NoKernel, Size, by_name};
pub use fft::Fft;
pub use fib::Fib;
pub use health::Health;
pub use jacobi2d::Jacobi2d;
pub use jacobi3d::{BlockOrder, FirstTouch, Jacobi3d, Submission, Submitters};
pub use map::Map;
pub use matmul::Matmul;
pub use nqueens::Nqueens;
pub use pipeline::{Pipeline, compute};
pub use reduction::Reduction;
pub use serial::Serial;
pub use sort::Sort;
pub use sparselu::SparseLu;
pub use strassen::Strassen;
pub use uts::{Tree, Uts};
pub use vecmul::Vecmul;
pub use world::{Array, Element, Kernel, KernelWorld, Leaf, Schedule, Task, TaskOrder};
