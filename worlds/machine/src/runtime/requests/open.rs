//! Requests that may have tasks, and whose turn it is.

use crate::sync::Padded;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use vicus_schedule::{RequestId, Share, TurnOrder, Turned};

/// An answer of any type.
pub(crate) trait Over: Send + Sync {
    /// Waits until it is there, without taking it.
    fn wait_until_over(&self, request: Option<RequestId>);
}

/// A runtime's requests for closures, with their answers.
#[derive(Default)]
pub(crate) struct Requests(Mutex<BTreeMap<RequestId, Arc<dyn Over>>>);

impl Requests {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<RequestId, Arc<dyn Over>>> {
        self.0.lock().expect("nothing panics under this lock")
    }

    pub(crate) fn begin(&self, id: RequestId, answer: Arc<dyn Over>) {
        self.lock().insert(id, answer);
    }

    pub(crate) fn end(&self, id: RequestId) {
        self.lock().remove(&id);
    }

    /// Stops all requests, which belong to this runtime, and waits for them if told to.
    pub(crate) fn end_all(&self, stop: impl Fn(RequestId), waits: bool) {
        let open: Vec<_> = self.lock().iter().map(|(id, answer)| (*id, Arc::clone(answer))).collect();
        open.iter().for_each(|(id, _)| stop(*id));
        if waits {
            open.iter().for_each(|(id, answer)| answer.wait_until_over(Some(*id)));
        }
    }
}

/// Number of requests of all kinds: boxes, closures, and callers waiting for a task of theirs.
#[derive(Default)]
pub(crate) struct OpenRequests {
    /// Their number, in a line written only when one begins or ends. Changed under the lock of `order`.
    pub(crate) count: Padded<AtomicUsize>,
    order: Mutex<TurnOrder>,
}

impl OpenRequests {
    /// How many there are then.
    pub(crate) fn begin(&self, id: RequestId) -> usize {
        self.change(|order| order.begin(id))
    }

    pub(crate) fn end(&self, id: RequestId) {
        self.change(|order| order.end(id));
    }

    /// Calls `f` if the request is open, and keeps it from ending meanwhile.
    pub(crate) fn while_open(&self, id: RequestId, f: impl FnOnce()) {
        let order = self.lock();
        if order.contains(id) {
            f();
        }
    }

    fn lock(&self) -> MutexGuard<'_, TurnOrder> {
        self.order.lock().expect("nothing panics under this lock")
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut TurnOrder) -> bool) -> usize {
        let mut order = self.lock();
        let is_changed = change(&mut order);
        debug_assert!(is_changed, "a request begins once and ends once");
        // SeqCst: a seat falling asleep in a wait for its own request alone sees the second request, or is asked.
        self.count.0.store(order.len(), Ordering::SeqCst);
        order.len()
    }
}

impl Turned for &OpenRequests {
    fn next(&mut self, last: Option<Share>) -> Option<Share> {
        self.lock().next(last)
    }

    fn charge(&mut self, request: RequestId, ns: u64) {
        self.lock().charge(request, ns);
    }

    fn correct(&mut self, request: RequestId, ns: i64) {
        self.lock().correct(request, ns);
    }
}
