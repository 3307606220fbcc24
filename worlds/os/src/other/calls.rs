//! Small calls: the size of a page, clocks, symbols, and last words. There is no fence in other threads and no function
//! around a fork here.

use std::ffi::{CStr, c_void};
use std::io::Write;
use std::sync::LazyLock;
use std::time::Instant;

/// Units of pages here: those of AArch64's macOS, and a multiple of all others' 4 KiB.
pub(super) const PAGE_BYTES: usize = 16 << 10;

/// The size of a page, as memory is divided here.
pub fn page_bytes() -> usize {
    PAGE_BYTES
}

/// The calling thread's time on a PU: unknown.
pub fn worked_ns() -> Option<u64> {
    None
}

/// Milliseconds since the first call.
pub fn coarse_ms() -> u64 {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGAN.elapsed().as_millis() as u64
}

/// The number of the CPU that the calling thread runs on: unknown.
#[inline]
pub fn cpu_here() -> Option<usize> {
    None
}

/// Whether there is a fence in all threads of the process: no.
pub fn prepare_fences() -> bool {
    false
}

/// Does nothing, as [`prepare_fences`] says.
pub fn fence_all() {}

/// Does nothing: a forked child that is no other program's has to stay away from this memory.
pub fn around_forks(_before: extern "C" fn(), _after: extern "C" fn()) {}

/// A function of the program or of a loaded library by its name, or null.
pub fn symbol(name: &CStr) -> *mut c_void {
    super::system::symbol(name)
}

/// Writes a text on standard error, without an allocation.
pub fn say(text: &[u8]) {
    let _ = std::io::stderr().write_all(text);
}

/// Ends the process at once: nothing of it runs any more.
pub fn end(status: i32) -> ! {
    #[expect(unsafe_code, reason = "ends the process without running what might allocate")]
    // SAFETY: ending a process touches no memory of ours.
    unsafe {
        libc::_exit(status)
    }
}
