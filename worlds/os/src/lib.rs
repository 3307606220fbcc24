//! The operating system, for the crates that run on it: which machine this is, where a thread may run, pages of nodes,
//! files and mapped files, and faults on their addresses.
//!
//! A function here makes calls of the system and answers with plain data of core. Nothing here starts a thread that
//! runs a task, or knows a runtime.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "vicus-os is for Linux, and so are threads, the store's files and the command; core and vicus-sim build elsewhere"
);

pub mod discover;
mod files;
pub mod latency;
mod learned;
mod mapped;
pub mod pages;
pub mod pin;
mod set;
pub mod signals;

pub use discover::limits::default_threads;
pub use discover::{DiscoverError, Discovered, describe, from_synthetic, from_sysfs, from_xml, this_machine};
pub use files::SystemDirectory;
pub use latency::LatencyFile;
pub use learned::{Learned, Treatment};
pub use mapped::page_bytes;
pub use pages::{SystemPages, free_bytes};
