//! Barriers.

use crate::each::wait_in_frame;
use crate::exports;
use crate::object::Object;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use vicus::threads::full_empty;

/// Threads waiting for each other.
pub(crate) struct Barrier(Mutex<Entered>);

struct Entered {
    wanted: usize,
    /// The words of waiting threads, in their frames.
    waiting: Vec<*const AtomicU64>,
}

// SAFETY: rule "Frame": any thread may fill the words.
unsafe impl Send for Entered {}

static OF_THE_PROGRAM: AtomicPtr<Barrier> = AtomicPtr::new(ptr::null_mut());

impl Barrier {
    fn lock(&self) -> std::sync::MutexGuard<'_, Entered> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn enter(&self) {
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

exports! {
    fn qt_barrier_create(threads: usize, _kind: u32) -> *mut Barrier {
        Box::into_raw(Box::new(Barrier(Mutex::new(Entered { wanted: threads, waiting: Vec::new() }))))
    }

    fn qt_barrier_enter(barrier: Object<Barrier>) {
        if let Some(barrier) = barrier.get() {
            barrier.enter();
        }
    }

    fn qt_barrier_enter_id(barrier: Object<Barrier>, _id: usize) {
        if let Some(barrier) = barrier.get() {
            barrier.enter();
        }
    }

    fn qt_barrier_destroy(barrier: Object<Barrier>) {
        if !barrier.pointer().is_null() {
            let _ = OF_THE_PROGRAM.compare_exchange(
                barrier.pointer(),
                ptr::null_mut(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            drop(barrier.end());
        }
    }

    fn qt_barrier_resize(barrier: Object<Barrier>, threads: usize) {
        if let Some(barrier) = barrier.get() {
            barrier.lock().wanted = threads;
        }
    }

    fn qt_barrier_dump(barrier: Object<Barrier>, _what: u32) {
        if let Some(barrier) = barrier.get() {
            let entered = barrier.lock();
            eprintln!("barrier of {}: {} wait", entered.wanted, entered.waiting.len());
        }
    }

    fn qt_get_barrier() -> *mut Barrier {
        OF_THE_PROGRAM.load(Ordering::Acquire)
    }

    fn qt_set_barrier(barrier: *mut Barrier) {
        OF_THE_PROGRAM.store(barrier, Ordering::Release);
    }

    fn qt_global_barrier() {
        // SAFETY: rule "Objects": the program's barrier, which is none of the program's any more when it is destroyed.
        let barrier = unsafe { Object::new(OF_THE_PROGRAM.load(Ordering::Acquire)) };
        if let Some(barrier) = barrier.get() {
            barrier.enter();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use vicus::machine::Runtime;
    use vicus::threads::{Builder, OnDeadlock};

    // The runtime unwound a thread in a barrier, and the barrier still had the word in the thread's frame: the next one
    // to enter it wrote there.
    #[test]
    fn an_unwound_thread_waits_in_no_barrier_any_more() {
        let barrier = Arc::new(Barrier(Mutex::new(Entered { wanted: 2, waiting: Vec::new() })));
        let runtime: Runtime = Runtime::builder().threads(1).deadlock(OnDeadlock::Unwind).start();
        let theirs = Arc::clone(&barrier);
        let waits = Builder::new().spawn_on(&runtime, move || theirs.enter());
        assert!(waits.join().is_err(), "no other thread enters it");
        assert!(barrier.lock().waiting.is_empty());
    }
}
