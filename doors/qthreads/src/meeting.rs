//! Threads that wait for each other.

use super::atomics::AtomicU64;
use super::each::wait_in_frame;
use super::full_empty;
use super::sync::{Mutex, MutexGuard};
use std::ptr;

/// A barrier.
pub(crate) struct Barrier(pub(super) Mutex<Entered>);

pub(crate) struct Entered {
    pub(crate) wanted: usize,
    /// The words of waiting threads, in their frames.
    pub(crate) waiting: Vec<*const AtomicU64>,
}

// SAFETY: rule "Frame": any thread may fill the words.
unsafe impl Send for Entered {}

impl Barrier {
    pub(crate) fn new(wanted: usize) -> Barrier {
        Barrier(Mutex::new(Entered { wanted, waiting: Vec::new() }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Entered> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn enter(&self) {
        let word = AtomicU64::new(0);
        let mut entered = self.lock();
        if entered.waiting.len() + 1 >= entered.wanted {
            let waiting = std::mem::take(&mut entered.waiting);
            drop(entered);
            // SAFETY: rule "Frame": each waits for its word, and this thread alone has it now.
            waiting.into_iter().for_each(|word| _ = full_empty::fill(unsafe { &*word }));
            return;
        }
        full_empty::empty(&word);
        entered.waiting.push(&raw const word);
        drop(entered);
        wait_in_frame(&word, || {
            let waiting = &mut self.lock().waiting;
            let at = waiting.iter().position(|other| ptr::eq(*other, &raw const word));
            at.map(|at| waiting.swap_remove(at)).is_some()
        });
    }
}
