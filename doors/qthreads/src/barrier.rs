//! Barriers.

use crate::exports;
use crate::meeting::Barrier;
use crate::object::Object;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

static OF_THE_PROGRAM: AtomicPtr<Barrier> = AtomicPtr::new(ptr::null_mut());

exports! {
    fn qt_barrier_create(threads: usize, _kind: u32) -> *mut Barrier {
        Box::into_raw(Box::new(Barrier::new(threads)))
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
    use vicus::kit::machine::MachineRuntime;
    use vicus::threads::{Builder, OnDeadlock, full_empty, yield_now};

    // The runtime unwound a thread in a barrier, and the barrier still had the word in the thread's frame: the next one
    // to enter it wrote there.
    #[test]
    fn an_unwound_thread_waits_in_no_barrier_any_more() {
        let barrier = Arc::new(Barrier::new(2));
        let runtime: MachineRuntime = MachineRuntime::builder().threads(1).deadlock(OnDeadlock::Unwind).start();
        let theirs = Arc::clone(&barrier);
        let waits = Builder::new().spawn_on(&runtime, move || theirs.enter());
        let theirs = Arc::clone(&barrier);
        let sees = Builder::new().spawn_on(&runtime, move || {
            loop {
                if let Some(word) = theirs.lock().waiting.first() {
                    return word.expose_provenance();
                }
                yield_now();
            }
        });
        let word = ptr::with_exposed_provenance_mut(sees.join().unwrap());
        assert!(waits.join().is_err(), "no other thread enters it");
        assert!(barrier.lock().waiting.is_empty());
        // SAFETY: the runtime keeps the stack for its next thread.
        assert!(full_empty::is_full(unsafe { full_empty::word_at(word) }.unwrap()), "it is the next thread's");
    }
}
