//! Sleep on a word, by the kernel.

use crate::wait::KeepErrno;
use std::sync::atomic::AtomicU32;

/// How often a thread looks at a lock before it sleeps.
pub(crate) const LOOKS: u32 = 100;

/// Sleeps while the word has this value, or a little shorter.
pub(crate) fn sleep_on(word: &AtomicU32, value: u32) {
    let _errno = KeepErrno::new();
    let no_limit: *const libc::timespec = std::ptr::null();
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: rule "System": the word outlives the call by its borrow, and no limit is a null pointer.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, no_limit) };
}

/// Wakes up to `count` sleepers on the word.
pub(crate) fn wake(word: *const AtomicU32, count: i32) {
    let _errno = KeepErrno::new();
    // SAFETY: rule "System": the kernel looks at the address alone and reads nothing there, so the word may be gone.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, count) };
}
