//! The process's memory as threads on seats use it: heaps, their allocator, and what the kernel says of pages.
//!
//! Nothing here runs a task or chooses a seat.

pub(crate) mod allocator;
pub(crate) mod heaps;
mod known;
pub(crate) mod locality;
mod lookout;
pub(crate) mod migrate;
pub(crate) mod slab;
mod stays;
