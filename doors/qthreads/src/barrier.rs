//! Barriers.

use crate::exports;
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
            waiting.into_iter().for_each(|word| _ = full_empty::fill(unsafe { &*word }));
            return;
        }
        full_empty::empty(&word);
        entered.waiting.push(&raw const word);
        drop(entered);
        full_empty::read_ff(&word);
    }
}

exports! {
    fn qt_barrier_create(threads: usize, _kind: u32) -> *mut Barrier {
        Box::into_raw(Box::new(Barrier(Mutex::new(Entered { wanted: threads, waiting: Vec::new() }))))
    }

    fn qt_barrier_enter(barrier: *mut Barrier) {
        if let Some(barrier) = unsafe { barrier.as_ref() } {
            barrier.enter();
        }
    }

    fn qt_barrier_enter_id(barrier: *mut Barrier, _id: usize) {
        unsafe { qt_barrier_enter(barrier) }
    }

    fn qt_barrier_destroy(barrier: *mut Barrier) {
        if !barrier.is_null() {
            let _ = OF_THE_PROGRAM.compare_exchange(
                barrier,
                ptr::null_mut(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            drop(unsafe { Box::from_raw(barrier) });
        }
    }

    fn qt_barrier_resize(barrier: *mut Barrier, threads: usize) {
        if let Some(barrier) = unsafe { barrier.as_ref() } {
            barrier.lock().wanted = threads;
        }
    }

    fn qt_barrier_dump(barrier: *mut Barrier, _what: u32) {
        if let Some(barrier) = unsafe { barrier.as_ref() } {
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
        unsafe { qt_barrier_enter(OF_THE_PROGRAM.load(Ordering::Acquire)) }
    }
}
