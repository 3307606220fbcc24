//! Clocks of seats.

use std::sync::LazyLock;
use std::time::Instant;
use vicus_os::calls;

/// Nanoseconds on a clock of this process.
pub(crate) fn now_ns() -> u64 {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGAN.elapsed().as_nanos() as u64
}

/// The calling thread's time on a PU, in nanoseconds. Takes some 200 ns, as it is a call of the system.
pub(crate) fn worked_ns() -> u64 {
    calls::worked_ns().unwrap_or_else(now_ns)
}
