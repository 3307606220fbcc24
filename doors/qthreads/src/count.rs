//! A count of threads to wait for.

use super::atomics::{AtomicU64, Ordering};
use super::full_empty;

/// How many threads are not over.
pub(crate) struct Count {
    open: AtomicU64,
    pub(super) done: AtomicU64,
}

impl Count {
    /// A count that starts with its maker.
    pub(crate) fn new() -> Count {
        Count { open: AtomicU64::new(1), done: AtomicU64::new(0) }
    }

    pub(crate) fn add(&self, count: u64) {
        self.open.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn end_one(&self) {
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            full_empty::fill(&self.done);
        }
    }

    /// The maker has nothing more to add, and waits for the others.
    pub(crate) fn wait(&self) {
        if self.open.load(Ordering::Acquire) == 1 {
            return;
        }
        full_empty::empty(&self.done);
        self.end_one();
        full_empty::read_ff(&self.done);
    }
}
