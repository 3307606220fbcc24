//! Requests submitted by tasks and boxes of other requests: they are cancelled with them.
//!
//! The outer request knows the inner ones by number, since they may be of other runtimes and of any kind. A stop of the
//! outer one marks it first and looks here afterwards; a submit of an inner one notes it here first and looks for the
//! mark afterwards.

use crate::runtime::RuntimeState;
use crate::runtime::caller;
use crate::runtime::worker::with_worker;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use vicus_schedule::RequestId;

/// The unfinished inner requests of a runtime's requests.
#[derive(Default)]
pub(crate) struct Nested(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    /// By the outer request, and by a number of their own.
    inner: BTreeMap<(RequestId, u64), Inner>,
    next: u64,
}

#[derive(Clone)]
struct Inner {
    shared: Weak<RuntimeState>,
    request: RequestId,
}

impl Nested {
    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().expect("nothing panics under this lock")
    }

    fn add(&self, outer: RequestId, inner: Inner) -> (RequestId, u64) {
        let mut noted = self.lock();
        let key = (outer, noted.next);
        noted.next += 1;
        noted.inner.insert(key, inner);
        key
    }

    fn of(&self, outer: RequestId) -> Vec<Inner> {
        self.lock().inner.range((outer, 0)..=(outer, u64::MAX)).map(|(_, inner)| inner.clone()).collect()
    }
}

/// A request is an inner one of another until this is dropped.
pub(crate) struct Within {
    outer: Weak<RuntimeState>,
    key: (RequestId, u64),
}

impl Drop for Within {
    fn drop(&mut self) {
        if let Some(shared) = self.outer.upgrade() {
            shared.ongoing.nested.lock().inner.remove(&self.key);
        }
    }
}

/// The request of the calling thread's task or box, and its runtime.
pub(crate) fn request_here() -> Option<(Arc<RuntimeState>, RequestId)> {
    with_worker(|worker| (Arc::clone(&worker.shared), worker.frame.request)).or_else(caller::request_of_this_thread)
}

impl RuntimeState {
    /// For a request, perhaps begun by seats already, submitted by a task or a box: it is cancelled with the
    /// submitter's request, and at once if the submitter's was cancelled already.
    pub(crate) fn nest(self: &Arc<RuntimeState>, request: RequestId) -> Option<Within> {
        let (shared, outer) = request_here()?;
        let key = shared.ongoing.nested.add(outer, Inner { shared: Arc::downgrade(self), request });
        if shared.ongoing.stopped.has(outer) || caller::has_failed() {
            self.cancel_by_id(request);
            self.cancel_nested(request);
        }
        Some(Within { outer: Arc::downgrade(&shared), key })
    }

    /// Cancels the inner requests of a stopped one, and theirs.
    pub(crate) fn cancel_nested(&self, outer: RequestId) {
        // Without recursion: requests may be nested deeper than a stack.
        let mut found = self.ongoing.nested.of(outer);
        while let Some(Inner { shared, request }) = found.pop() {
            if let Some(shared) = shared.upgrade() {
                shared.cancel_by_id(request);
                found.append(&mut shared.ongoing.nested.of(request));
            }
        }
    }

    /// Cancels a request of any kind, if it is not over.
    fn cancel_by_id(&self, request: RequestId) {
        match self.ongoing.boxes_of(request) {
            Some(state) => self.cancel(&state.instance),
            None => self.stop(request),
        }
    }
}
