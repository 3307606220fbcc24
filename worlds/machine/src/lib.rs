//! The real world: the machine as hwloc sees it, threads on seats, sleep and wake, the clock.
//!
//! The only crate that talks to the operating system. It follows a plan of `vicus-schedule`, and runs requests of
//! `vicus-flow`; see [`Runtime`].

mod deque;
mod discover;
mod pages;
mod pin;
mod queues;
mod recorder;
mod runtime;
mod sleep;
mod sync;
mod worker;

pub use discover::{DiscoverError, Discovered, describe, from_synthetic, from_xml, this_machine};
pub use pages::SystemPages;
pub use runtime::{Request, Runtime, RuntimeBuilder};
