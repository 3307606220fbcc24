//! The runtime: threads on seats, and requests that users submit to them.

pub(crate) mod awaited;
pub(crate) mod boxes;
pub(crate) mod builder;
pub(crate) mod caller;
pub(crate) mod caller_here;
mod callers;
pub(crate) mod clock;
pub(crate) mod done;
mod each_near;
mod end;
mod fit;
pub(crate) mod gathering;
pub(crate) mod handle;
pub(crate) mod here;
pub(crate) mod hook;
pub(crate) mod last_words;
pub(crate) mod latch;
pub(crate) mod lending;
pub(crate) mod load;
pub(crate) mod moves;
#[cfg(not(loom))]
mod naps;
pub(crate) mod overflowing;
pub(crate) mod recorder;
pub(crate) mod request;
pub(crate) mod requests;
mod roaming;
pub(crate) mod seatless;
pub(crate) mod shared;
mod spare_thread;
pub(crate) mod stay;
pub(crate) mod takes;
pub(crate) mod worker;

pub use builder::{RuntimeBuilder, StartError};
pub use handle::MachineRuntime;
