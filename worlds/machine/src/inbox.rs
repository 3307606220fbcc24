//! Tasks that one seat alone may run.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus_schedule::TaskRef;

/// What others want of a seat.
#[derive(Default)]
pub(crate) struct Inbox {
    /// How many there are, so that its seat looks without a lock.
    waiting: AtomicUsize,
    tasks: Mutex<VecDeque<TaskRef>>,
}

impl Inbox {
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) != 0
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The seat may sleep: see `Shared::call`.
    pub(crate) fn put(&self, task: TaskRef) {
        let mut tasks = self.tasks.lock().expect("nothing panics under this lock");
        tasks.push_back(task);
        self.waiting.store(tasks.len(), Ordering::Release);
    }

    #[inline]
    pub(crate) fn take(&self) -> Option<TaskRef> {
        if self.is_waiting() { self.take_waiting() } else { None }
    }

    #[cold]
    fn take_waiting(&self) -> Option<TaskRef> {
        let mut tasks = self.tasks.lock().expect("nothing panics under this lock");
        let task = tasks.pop_front();
        self.waiting.store(tasks.len(), Ordering::Release);
        task
    }
}
