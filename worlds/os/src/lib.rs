//! The operating system, for the crates that run on it: which machine this is, where a thread may run, pages of nodes,
//! files and mapped files, and faults on their addresses.
//!
//! A function here makes calls of the system and answers with plain data of core. Nothing here starts a thread that
//! runs a task, or knows a runtime.
//!
//! On systems other than Linux, the rooms that call the system are those in `other`, which know no place.

pub mod discover;
pub mod latency;
mod learned;
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(target_os = "linux", expect(dead_code, unreachable_pub, reason = "tests alone use it here"))]
mod other;
mod set;

#[cfg(target_os = "linux")]
pub mod calls;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod mapped;
#[cfg(target_os = "linux")]
pub mod pages;
#[cfg(target_os = "linux")]
pub mod pin;
#[cfg(target_os = "linux")]
pub mod signals;
#[cfg(not(target_os = "linux"))]
use other::files;
#[cfg(not(target_os = "linux"))]
pub use other::{calls, pages, pin, signals};

pub use calls::page_bytes;
pub use discover::limits::default_threads;
pub use discover::{DiscoverError, Discovered, describe, from_synthetic, from_sysfs, from_xml, this_machine};
pub use files::{SystemDirectory, is_same_file, open_at_once};
pub use latency::LatencyFile;
pub use learned::{Learned, Treatment};
pub use pages::{SystemPages, free_bytes};
