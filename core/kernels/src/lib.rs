//! The papers' benchmarks, each written once for every world.
//!
//! A kernel is a function over a [`World`]: it asks for arrays, submits tasks, and says of each piece of work which bytes it
//! reads and writes and how many operations it takes. On threads the work is done. A recorder only writes down what would be
//! done, so that a simulator can run the same kernel on a machine that nobody has. [`Serial`] does it without tasks: the
//! results to compare with.

mod map;
mod serial;
mod world;

pub use map::Map;
pub use serial::Serial;
pub use world::{Array, Element, Kernel, Leaf, Order, Schedule, Task, World};
