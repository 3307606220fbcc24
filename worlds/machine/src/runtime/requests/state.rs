//! A request of boxes, as the runtime has it.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use vicus_flow::{FlowError, Instance, Totals};

/// A request as the runtime has it.
pub(crate) struct RequestState {
    pub(crate) instance: Arc<Instance>,
    answer: Mutex<Answer>,
    pub(crate) done: Condvar,
    /// Whether the runtime knows of it, because seats may have tasks of it. Changed under the lock of
    /// [`Ongoing::boxes`](super::Ongoing::boxes).
    pub(crate) is_known: AtomicBool,
}

#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) result: Option<Result<Totals, FlowError>>,
    /// Called when it is over.
    pub(crate) told: Vec<OnEnd>,
    /// Until it is over: its place in another request.
    pub(crate) within: Option<Box<dyn Any + Send>>,
}

/// A function to call once.
type OnEnd = Box<dyn FnOnce() + Send>;

impl RequestState {
    /// No seat has a task of it yet.
    pub(crate) fn new(instance: Arc<Instance>) -> RequestState {
        RequestState { instance, answer: Mutex::default(), done: Condvar::new(), is_known: AtomicBool::new(false) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Answer> {
        self.answer.lock().expect("nothing panics under this lock")
    }

    /// Whether the runtime knows of it.
    pub(crate) fn is_known(&self) -> bool {
        // Relaxed: if another thread has made it known, the counts of the request's tasks have told this one.
        self.is_known.load(Ordering::Relaxed)
    }

    /// The request is over, run completely by its caller. No thread waits for it yet.
    pub(crate) fn set(&self, result: Result<Totals, FlowError>) {
        self.lock().result = Some(result);
    }
}
