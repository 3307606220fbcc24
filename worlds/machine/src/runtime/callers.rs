//! Callers that run requests of their own: how many, and for how long.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long a caller works for its request before the seats do, by default. Remaining work then wakes threads and finds
/// their caches cold: some 60 µs, a small part by then.
pub(crate) const LONG: Duration = Duration::from_millis(1);

/// How many callers run requests of their own.
#[derive(Default)]
pub(crate) struct Callers(AtomicUsize);

impl Callers {
    /// Takes one of the places for callers, if there is one.
    pub(super) fn come(&self, threads: usize) -> Option<CallersPlace<'_>> {
        // Relaxed: only the number of threads at work depends on it.
        let place = CallersPlace(self);
        (self.0.fetch_add(1, Ordering::Relaxed) < threads).then_some(place)
    }
}

pub(super) struct CallersPlace<'a>(&'a Callers);

impl Drop for CallersPlace<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
