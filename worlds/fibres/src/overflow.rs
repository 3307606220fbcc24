//! Reports the overflow of a stack by one line about its code, before the signal's usual end.

use crate::Record;
use std::fmt::{self, Write};
use vicus_os::{calls, signals};

/// Installs the handler of faults, once, with what it says of guards.
pub(crate) fn watch<R: Record>() {
    signals::tell_of_guards(|address| {
        let record = R::pools().of_guard(address);
        if let Some(record) = record {
            report(record, "has overflowed its stack");
        }
        record.is_some()
    });
    signals::watch();
}

/// A stack without a guard has written over its end: the memory below may be wrong, so the process ends.
#[cold]
pub fn report_broken_canary<R: Record>(record: &R) -> ! {
    report(record, "has overflowed its stack, and other memory may be overwritten");
    std::process::abort();
}

/// Says it on standard error, without an allocation.
fn report<R: Record>(record: &R, what: &str) {
    let mut line = Line { bytes: [0; 512], len: 0 };
    let bytes = record.stack().class().bytes();
    // A long text is cut.
    let _ = write!(line, "vicus: ");
    let _ = record.describe(&mut line);
    let _ = writeln!(line, " {what} of {bytes} bytes; {}", R::ADVICE);
    calls::say(&line.bytes[..line.len]);
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
