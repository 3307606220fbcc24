//! The real world: the machine as hwloc sees it, threads on seats, sleep and wake, the clock.
//!
//! The only crate that talks to the operating system. It follows a plan of `vicus-schedule`, and runs requests of
//! `vicus-flow`; see [`Runtime`].

mod allocator;
mod deque;
mod discover;
mod heaps;
mod pages;
mod pin;
mod queues;
mod recorder;
mod runtime;
mod sleep;
mod sync;
mod worker;

pub use allocator::Allocator;
pub use discover::{DiscoverError, Discovered, describe, from_synthetic, from_xml, this_machine};
pub use pages::SystemPages;
pub use runtime::{Request, Runtime, RuntimeBuilder};

/// The node that an address of this process's memory was placed on; `None` if it lies elsewhere, or before the first
/// runtime has started. Arithmetic: no table is looked up and nothing is asked of the system.
pub fn node_of(address: *const u8) -> Option<vicus_topology::NodeId> {
    heaps::process().and_then(|process| vicus_memory::Region::node_of(&*process.memory, address))
}
