//! Requests submitted by tasks and boxes of other requests: they are cancelled with them.
//!
//! The outer request knows the inner ones by number, since they may be of other runtimes and of any kind. A stop of the
//! outer one marks it first and looks here afterwards; a submit of an inner one notes it here first and looks for the
//! mark afterwards.

use crate::runtime::shared::RuntimeState;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, Weak};
use vicus_schedule::RequestId;

/// The unfinished inner requests of a runtime's requests.
#[derive(Default)]
pub(crate) struct Nested(Mutex<InnerRequests>);

#[derive(Default)]
struct InnerRequests {
    /// By the outer request, and by a number of their own.
    inner: BTreeMap<(RequestId, u64), Inner>,
    next: u64,
}

#[derive(Clone)]
pub(super) struct Inner {
    pub(super) shared: Weak<RuntimeState>,
    pub(super) request: RequestId,
}

impl Nested {
    fn lock(&self) -> MutexGuard<'_, InnerRequests> {
        self.0.lock().expect("nothing panics under this lock")
    }

    pub(super) fn add(&self, outer: RequestId, inner: Inner) -> (RequestId, u64) {
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
    pub(super) outer: Weak<RuntimeState>,
    pub(super) key: (RequestId, u64),
}

impl Drop for Within {
    fn drop(&mut self) {
        if let Some(shared) = self.outer.upgrade() {
            shared.ongoing.nested.lock().inner.remove(&self.key);
        }
    }
}

/// Cancels the inner requests of a stopped one, and theirs.
pub(crate) fn cancel_nested(shared: &RuntimeState, outer: RequestId) {
    // Without recursion: requests may be nested deeper than a stack.
    let mut found = shared.ongoing.nested.of(outer);
    while let Some(Inner { shared, request }) = found.pop() {
        if let Some(shared) = shared.upgrade() {
            cancel_by_id(&shared, request);
            found.append(&mut shared.ongoing.nested.of(request));
        }
    }
}

/// Cancels a request of any kind, if it is not over.
pub(super) fn cancel_by_id(shared: &RuntimeState, request: RequestId) {
    match shared.ongoing.boxes_of(request) {
        Some(state) => shared.cancel(&state.instance),
        None => shared.stop(request),
    }
}
