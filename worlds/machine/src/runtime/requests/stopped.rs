//! Stopped requests: their tasks no longer begin.

use crate::sync::Padded;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use vicus_schedule::RequestId;

/// The requests cancelled or failed and not over yet: closures, and instances whose tasks seats may have.
pub(crate) struct Stopped {
    ids: Mutex<BTreeSet<RequestId>>,
    /// How many: usually none, and then the lock is not taken. Changed under it. Each task reads it.
    many: Padded<AtomicUsize>,
}

impl Default for Stopped {
    fn default() -> Stopped {
        Stopped { ids: Mutex::default(), many: Padded(AtomicUsize::new(0)) }
    }
}

impl Stopped {
    /// The caller makes sure of a later [`Stopped::remove`]: it holds the lock under which the request is seen to be
    /// open.
    pub(crate) fn add(&self, id: RequestId) {
        let mut ids = self.lock();
        ids.insert(id);
        self.many.0.store(ids.len(), Ordering::Relaxed);
    }

    /// The request is over.
    pub(crate) fn remove(&self, id: RequestId) {
        // Relaxed: the calling thread has held the lock of any earlier add.
        if self.many.0.load(Ordering::Relaxed) > 0 {
            let mut ids = self.lock();
            ids.remove(&id);
            self.many.0.store(ids.len(), Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn has(&self, id: RequestId) -> bool {
        // Relaxed: a task that misses the stop is only run in vain.
        self.many.0.load(Ordering::Relaxed) > 0 && self.lock().contains(&id)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<RequestId>> {
        self.ids.lock().expect("nothing panics under this lock")
    }
}
