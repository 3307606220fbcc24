//! Clocks of seats.

use std::sync::LazyLock;
use std::time::Instant;

/// Nanoseconds on a clock of this process.
pub(crate) fn now_ns() -> u64 {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGAN.elapsed().as_nanos() as u64
}

/// The calling thread's time on a PU, in nanoseconds. Takes some 200 ns, as it is a call of the system.
pub(crate) fn worked_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[expect(unsafe_code, reason = "the standard library has no such clock")]
    // SAFETY: it writes to the given value, which outlives the call.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0;
    if failed { now_ns() } else { time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64 }
}
