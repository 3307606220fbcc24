//! The command's current work, for its last words if memory runs out.

use std::sync::atomic::{AtomicU8, Ordering};

/// Work with memory that grows with a user's input.
#[derive(Clone, Copy)]
pub(crate) enum Doing {
    /// Any other work. Queries are answered by requests, which fail alone and with their own message.
    Something,
    Loading,
    Generating,
    Simulating,
    /// Reading a trace.
    Reading,
}

static NOW: AtomicU8 = AtomicU8::new(Doing::Something as u8);

/// The beginnings of messages, in the order of [`Doing`].
const BEGINNINGS: [&str; 5] =
    ["vicus", "vicus: loading", "vicus: generating", "vicus: simulating", "vicus: reading the trace"];

impl Doing {
    /// Makes this the current work, until the result is dropped.
    pub(crate) fn begin(self) -> Before {
        Before(NOW.swap(self as u8, Ordering::Relaxed))
    }
}

/// The work before, restored on drop.
pub(crate) struct Before(u8);

impl Drop for Before {
    fn drop(&mut self) {
        NOW.store(self.0, Ordering::Relaxed);
    }
}

/// For [`vicus::LastWords`]. Large allocations of boxes can be refused, and then their request fails alone; any other
/// refused allocation ends the command.
pub(crate) fn last_words(_bytes: usize) -> Option<&'static str> {
    Some(BEGINNINGS[usize::from(NOW.load(Ordering::Relaxed))])
}
