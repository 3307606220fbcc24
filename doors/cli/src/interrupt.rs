//! Ctrl-C: cancels the command, and ends the process if that takes too long.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The exit status of a command that Ctrl-C ended, by the shells' convention.
pub(crate) const STATUS: i32 = 130;

/// From now on, Ctrl-C sets a flag. If the process still runs one second later, or at a second Ctrl-C, it ends at once.
pub(crate) fn listen() {
    // Without a handler, Ctrl-C kills the process, which is acceptable.
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::AcqRel) {
            std::process::exit(STATUS);
        }
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(1));
            std::process::exit(STATUS);
        });
    });
}

/// Whether Ctrl-C was pressed.
pub(crate) fn pressed() -> bool {
    INTERRUPTED.load(Ordering::Acquire)
}

/// The error of an interrupted command.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}
