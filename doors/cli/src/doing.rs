//! What the command is doing: its last words say so, should there be no memory.

use std::sync::atomic::{AtomicU8, Ordering};

/// What takes memory in proportion to a user's input.
#[derive(Clone, Copy)]
pub(crate) enum Doing {
    /// Anything else; queries are answered by requests, which fail alone and say what for.
    Something,
    Loading,
    Generating,
    Simulating,
    /// A trace.
    Reading,
}

static NOW: AtomicU8 = AtomicU8::new(Doing::Something as u8);

/// How messages begin, in the order of [`Doing`].
const BEGINNINGS: [&str; 5] =
    ["vicus", "vicus: loading", "vicus: generating", "vicus: simulating", "vicus: reading the trace"];

impl Doing {
    /// From here on this is what the command is doing, until the result is dropped.
    pub(crate) fn begin(self) -> Before {
        Before(NOW.swap(self as u8, Ordering::Relaxed))
    }
}

/// What the command was doing before, and will be doing again.
pub(crate) struct Before(u8);

impl Drop for Before {
    fn drop(&mut self) {
        NOW.store(self.0, Ordering::Relaxed);
    }
}

/// For [`vicus::LastWords`]. What boxes may need much of they ask for so that it can be refused, and then their request fails
/// alone; anything else ends the command.
pub(crate) fn last_words(_bytes: usize) -> Option<&'static str> {
    Some(BEGINNINGS[usize::from(NOW.load(Ordering::Relaxed))])
}
