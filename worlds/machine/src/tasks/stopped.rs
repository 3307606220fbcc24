//! Requests whose tasks are no longer to begin.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use vicus_schedule::RequestId;

/// The requests that were cancelled or have failed and are not over yet: closures, and instances of which a seat may have tasks.
#[derive(Default)]
pub(crate) struct Stopped {
    ids: Mutex<BTreeSet<RequestId>>,
    /// How many: usually none, and then the lock is not taken. Changed under it.
    many: AtomicUsize,
}

impl Stopped {
    /// The caller makes sure that [`Stopped::remove`] follows: it holds the lock under which the request is seen to be open.
    pub(crate) fn add(&self, id: RequestId) {
        let mut ids = self.lock();
        ids.insert(id);
        self.many.store(ids.len(), Ordering::Relaxed);
    }

    /// The request is over.
    pub(crate) fn remove(&self, id: RequestId) {
        // Relaxed: if it was added, that was under a lock which the calling thread has held since.
        if self.many.load(Ordering::Relaxed) > 0 {
            let mut ids = self.lock();
            ids.remove(&id);
            self.many.store(ids.len(), Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn has(&self, id: RequestId) -> bool {
        // Relaxed: a task that misses the stop is only run in vain.
        self.many.load(Ordering::Relaxed) > 0 && self.lock().contains(&id)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<RequestId>> {
        self.ids.lock().expect("nothing panics under this lock")
    }
}
