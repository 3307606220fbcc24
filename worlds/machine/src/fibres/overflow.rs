//! Reports the overflow of a fibre's stack by one line about its thread, before the signal's usual end. And replaces
//! lost pages of a mapped file by zeros (`mapped.rs`), so that the thread goes on.

use super::Fibre;
use super::stack::fibre_of_guard;
use crate::threads::Core;
use std::fmt::{self, Write};
use vicus_os::signals;

/// Installs the handler of faults, once, with what it says of guards.
pub(crate) fn watch() {
    signals::tell_of_guards(|address| {
        let fibre = fibre_of_guard(address);
        if let Some(fibre) = fibre {
            report(fibre, "has overflowed its stack");
        }
        fibre.is_some()
    });
    signals::watch();
}

/// A stack without a guard has written over its end: the memory below may be wrong, so the process ends.
#[cold]
pub(crate) fn report_broken_canary(fibre: &Fibre) -> ! {
    report(fibre, "has overflowed its stack, and other memory may be overwritten");
    std::process::abort();
}

/// Says it on standard error, without an allocation.
fn report(fibre: &Fibre, what: &str) {
    let mut line = Line { bytes: [0; 512], len: 0 };
    let bytes = fibre.slot.class.bytes();
    // A long text is cut.
    let _ = write!(line, "vicus: ");
    let _ = match fibre.thread() {
        Some(thread) => Core::describe(thread, &mut line),
        None => write!(line, "a lightweight thread"),
    };
    let _ = writeln!(line, " {what} of {bytes} bytes; Builder::stack_size gives it a larger one");
    #[expect(unsafe_code, reason = "a system call that libc has no safe function for")]
    // SAFETY: the bytes are this frame's.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.bytes.as_ptr().cast(), line.len);
    }
}

/// A text in a frame.
struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - self.len;
        let taken = text.len().min(room);
        self.bytes[self.len..][..taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.len += taken;
        if taken < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}
