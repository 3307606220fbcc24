//! Small calls of the system: the size of a page, clocks, a fence in all threads, functions around a fork, symbols, and
//! last words.

use std::ffi::{CStr, c_void};

/// The size of a page, as the system says it.
pub fn page_bytes() -> usize {
    #[expect(unsafe_code, reason = "a system call that libc has no safe function for")]
    // SAFETY: it reads a number; a handler may call it.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("pages have a size")
}

/// The calling thread's time on a PU, in nanoseconds; `None` if the system does not tell. Takes some 200 ns.
#[inline]
pub fn worked_ns() -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[expect(unsafe_code, reason = "the standard library has no such clock")]
    // SAFETY: it writes to the given value, which outlives the call.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0;
    (!failed).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Milliseconds on a clock that goes on in steps of some milliseconds, and is read without a call of the system.
#[inline]
pub fn coarse_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[expect(unsafe_code, reason = "reads a clock that std does not have")]
    // SAFETY: the kernel, or its page shared with the process, writes the value.
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time);
    }
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// The number of the CPU that the calling thread runs on; `None` if the system does not tell.
#[inline]
pub fn cpu_here() -> Option<usize> {
    #[expect(unsafe_code, reason = "asks the system where this thread runs")]
    // SAFETY: no pointer is involved.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).ok()
}

/// Prepares [`fence_all`] for this process. Whether the kernel supports it.
pub fn prepare_fences() -> bool {
    let command = libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
    #[expect(unsafe_code, reason = "a system call that libc has no function for")]
    // SAFETY: membarrier takes two integers and touches no memory of ours.
    let done = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    done == 0
}

/// A full fence in every running thread of the process, if [`prepare_fences`] has said that there is one.
#[inline]
pub fn fence_all() {
    #[expect(unsafe_code, reason = "a system call that libc has no function for")]
    // SAFETY: as in `prepare_fences`.
    unsafe {
        libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    }
}

/// Calls these functions around each fork of the process: the first one before it, the second one after it in both
/// processes.
pub fn around_forks(before: extern "C" fn(), after: extern "C" fn()) {
    #[expect(unsafe_code, reason = "registers functions that run around a fork")]
    // SAFETY: both live as long as the program, and may run on any thread.
    let refused = unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
    // Without memory for three pointers a child is not the first thing to fail.
    debug_assert_eq!(refused, 0);
}

/// A function of the program or of a loaded library by its name, or null.
pub fn symbol(name: &CStr) -> *mut c_void {
    #[expect(unsafe_code, reason = "looks for a function by its name")]
    // SAFETY: the name ends with a 0.
    unsafe {
        libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr())
    }
}

/// Writes a text on standard error by one call, without an allocation. A handler of signals may call it.
pub fn say(text: &[u8]) {
    #[expect(unsafe_code, reason = "a system call that libc has no safe function for")]
    // SAFETY: the bytes are the caller's, and so many.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
    }
}

/// Ends the process at once: nothing of it runs any more.
pub fn end(status: i32) -> ! {
    #[expect(unsafe_code, reason = "ends the process without running what might allocate")]
    // SAFETY: ending a process touches no memory of ours.
    unsafe {
        libc::_exit(status)
    }
}
