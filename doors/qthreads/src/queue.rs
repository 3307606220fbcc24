//! Queues for threads to wait in until others release them.

use crate::codes::{BADARGS, OPFAIL, SUCCESS};
use crate::exports;
use std::collections::VecDeque;
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
        full_empty::read_ff(&word);
        SUCCESS
    }

    fn release(&self, most: usize) -> usize {
        let mut waiting = self.lock();
        let count = most.min(waiting.0.len());
        let released: Vec<_> = waiting.0.drain(..count).collect();
        drop(waiting);
        WAITING.fetch_sub(count as u64, Ordering::AcqRel);
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

    fn qthread_queue_join(queue: *mut Queue) -> i32 {
        unsafe { queue.as_ref() }.map_or(BADARGS, Queue::join)
    }

    fn qthread_queue_length(queue: *mut Queue) -> u64 {
        unsafe { queue.as_ref() }.map_or(0, |queue| queue.lock().0.len() as u64)
    }

    fn qthread_queue_release_one(queue: *mut Queue) -> i32 {
        let Some(queue) = (unsafe { queue.as_ref() }) else { return BADARGS };
        if queue.release(1) == 1 { SUCCESS } else { OPFAIL }
    }

    fn qthread_queue_release_all(queue: *mut Queue) -> i32 {
        let Some(queue) = (unsafe { queue.as_ref() }) else { return BADARGS };
        queue.release(usize::MAX);
        SUCCESS
    }

    fn qthread_queue_destroy(queue: *mut Queue) -> i32 {
        if queue.is_null() {
            return BADARGS;
        }
        drop(unsafe { Box::from_raw(queue) });
        SUCCESS
    }
}
