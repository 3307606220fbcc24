//! The real world: hwloc, pinning, clock, threads.

mod discover;

pub use discover::{DiscoverError, Discovered, describe, from_synthetic, from_xml, this_machine};
