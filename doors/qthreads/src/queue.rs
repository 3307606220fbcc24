//! Queues for threads to wait in until others release them.

use crate::codes::{BADARGS, OPFAIL, SUCCESS};
use crate::each::wait_in_frame;
use crate::exports;
use crate::object::Object;
use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use vicus::threads::full_empty;

/// Waiting threads, in the order of their coming.
pub(crate) struct Queue {
    /// `None`: any number.
    most: Option<usize>,
    waiting: Mutex<Waiting>,
}

/// Their words, in their frames.
struct Waiting(VecDeque<*const AtomicU64>);

// SAFETY: rule "Frame": any thread may fill the words.
unsafe impl Send for Waiting {}

/// How many threads wait in queues.
static WAITING: AtomicU64 = AtomicU64::new(0);

pub(crate) fn waiting() -> u64 {
    WAITING.load(Ordering::Acquire)
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn join(&self) -> i32 {
        let word = AtomicU64::new(0);
        let mut waiting = self.lock();
        if self.most.is_some_and(|most| waiting.0.len() >= most) {
            return OPFAIL;
        }
        full_empty::empty(&word);
        WAITING.fetch_add(1, Ordering::AcqRel);
        waiting.0.push_back(&raw const word);
        drop(waiting);
        wait_in_frame(&word, || {
            let mut waiting = self.lock();
            let at = waiting.0.iter().position(|other| ptr::eq(*other, &raw const word));
            let was_there = at.and_then(|at| waiting.0.remove(at)).is_some();
            WAITING.fetch_sub(u64::from(was_there), Ordering::AcqRel);
            was_there
        });
        SUCCESS
    }

    fn release(&self, most: usize) -> usize {
        let mut waiting = self.lock();
        let count = most.min(waiting.0.len());
        let released: Vec<_> = waiting.0.drain(..count).collect();
        drop(waiting);
        WAITING.fetch_sub(count as u64, Ordering::AcqRel);
        // SAFETY: rule "Frame": each waits for its word, and this thread alone has it now.
        released.into_iter().for_each(|word| _ = full_empty::fill(unsafe { &*word }));
        count
    }
}

/// Flags, by the names of the header. All kinds but the capped one are the same here.
const MULTI_JOIN: u8 = 1 << 1;
const MULTI_JOIN_LENGTH: u8 = 1 << 2;
const CAPPED: u8 = 1 << 3;

exports! {
    fn qthread_queue_create(flags: u8, length: u64) -> *mut Queue {
        let is_capped = flags & (MULTI_JOIN | MULTI_JOIN_LENGTH | CAPPED) == CAPPED;
        let most = is_capped.then_some(length as usize);
        Box::into_raw(Box::new(Queue { most, waiting: Mutex::new(Waiting(VecDeque::new())) }))
    }

    fn qthread_queue_join(queue: Object<Queue>) -> i32 {
        queue.get().map_or(BADARGS, Queue::join)
    }

    fn qthread_queue_length(queue: Object<Queue>) -> u64 {
        queue.get().map_or(0, |queue| queue.lock().0.len() as u64)
    }

    fn qthread_queue_release_one(queue: Object<Queue>) -> i32 {
        let Some(queue) = queue.get() else { return BADARGS };
        if queue.release(1) == 1 { SUCCESS } else { OPFAIL }
    }

    fn qthread_queue_release_all(queue: Object<Queue>) -> i32 {
        let Some(queue) = queue.get() else { return BADARGS };
        queue.release(usize::MAX);
        SUCCESS
    }

    fn qthread_queue_destroy(queue: Object<Queue>) -> i32 {
        if queue.end().is_some() { SUCCESS } else { BADARGS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use vicus::kit::machine::MachineRuntime;
    use vicus::threads::{Builder, OnDeadlock, yield_now};

    // The runtime unwound a thread in a queue, and the queue still had the word in the thread's frame: its release
    // wrote there.
    #[test]
    fn an_unwound_thread_waits_in_no_queue_any_more() {
        let queue = Arc::new(Queue { most: None, waiting: Mutex::new(Waiting(VecDeque::new())) });
        let runtime: MachineRuntime = MachineRuntime::builder().threads(1).deadlock(OnDeadlock::Unwind).start();
        let theirs = Arc::clone(&queue);
        let waits = Builder::new().spawn_on(&runtime, move || theirs.join());
        let theirs = Arc::clone(&queue);
        let sees = Builder::new().spawn_on(&runtime, move || {
            loop {
                if let Some(word) = theirs.lock().0.front() {
                    return word.expose_provenance();
                }
                yield_now();
            }
        });
        let word = ptr::with_exposed_provenance_mut(sees.join().unwrap());
        assert!(waits.join().is_err(), "no other thread releases it");
        assert_eq!((queue.release(usize::MAX), waiting()), (0, 0));
        // SAFETY: the runtime keeps the stack for its next thread.
        assert!(full_empty::is_full(unsafe { full_empty::word_at(word) }.unwrap()), "it is the next thread's");
    }
}
