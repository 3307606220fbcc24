//! The CPUs of a thread: all of them, as no thread is bound here.

use std::io;

/// Whether threads can be bound to CPUs on this system.
pub const BINDS: bool = false;

/// Refuses: a thread runs where the system lets it run.
///
/// # Errors
/// Always.
pub fn pin(_cpus: impl Iterator<Item = u32>) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "Vicus binds threads to CPUs on Linux alone"))
}

/// The CPUs open to the calling thread, by numbers from 0 on: as many as the standard library says.
///
/// # Errors
/// The system does not say it.
pub fn affinity() -> io::Result<Vec<u32>> {
    std::thread::available_parallelism().map(|count| (0..count.get() as u32).collect())
}
