//! A flag that becomes true once, for a waiting seat or suspended code.

use crate::runtime::awaited::Awaited;
use crate::sync::{AtomicU32, Ordering};
use vicus_schedule::Waiter;

/// Wakes waiters.
pub trait Notify {
    /// Makes this one check its wait condition.
    fn notify(&self, waiter: Waiter);
}

/// Set once by the thread that finishes the task awaited by a seat, or by code with a stack of its own.
///
/// A seat looks for other work meanwhile, and may fall asleep; other code is suspended. Both announce this before, and
/// then the setting thread wakes them. The latch may lie in the waiting code's stack frame: it is not touched after it
/// is set.
pub struct Latch {
    state: AtomicU32,
    waiter: Waiter,
}

const OPEN: u32 = 0;
/// The seat sleeps or the code is suspended, or is about to.
const ASLEEP: u32 = 1;
const SET: u32 = 2;

impl Latch {
    /// For this one to wait for: the worker's [`waiter`](crate::runtime::worker::SeatCode::waiter).
    #[inline]
    pub fn new(waiter: Waiter) -> Latch {
        Latch { state: AtomicU32::new(OPEN), waiter }
    }

    /// The awaited task is done. After this only the waiting one's sleeping place is touched, not the latch.
    #[inline]
    pub fn set(&self, shared: &impl Notify) {
        let waiter = self.waiter;
        if self.state.swap(SET, Ordering::AcqRel) == ASLEEP {
            shared.notify(waiter);
        }
    }
}

impl Awaited for Latch {
    #[inline]
    fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) == SET
    }

    fn announce_sleep(&self) -> bool {
        self.state.compare_exchange(OPEN, ASLEEP, Ordering::AcqRel, Ordering::Acquire) != Err(SET)
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Condvar, Mutex};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// The sleeping place of a waiter.
    #[derive(Default)]
    struct Bed {
        is_notified: Mutex<bool>,
        notified: Condvar,
    }

    impl Bed {
        fn sleep(&self) {
            let mut is_notified = self.is_notified.lock().unwrap();
            while !*is_notified {
                is_notified = self.notified.wait(is_notified).unwrap();
            }
            *is_notified = false;
        }
    }

    impl Notify for Bed {
        fn notify(&self, _: Waiter) {
            *self.is_notified.lock().unwrap() = true;
            self.notified.notify_one();
        }
    }

    struct Task {
        latch: Latch,
        bed: Bed,
        answer: UnsafeCell<u32>,
    }

    #[expect(unsafe_code, reason = "the cell is what the model is about")]
    // SAFETY: loom tells if two threads use the cell at once.
    unsafe impl Sync for Task {}

    /// A thread writes an answer and sets the latch; the waiter looks, announces its sleep and sleeps. `announces` is
    /// false in the broken variant: the waiter sleeps without a word.
    fn awaited(announces: bool) {
        let waiter = Waiter(0);
        let all = Arc::new(Task { latch: Latch::new(waiter), bed: Bed::default(), answer: UnsafeCell::new(0) });
        let theirs = Arc::clone(&all);
        let thread = loom::thread::spawn(move || {
            #[expect(unsafe_code, reason = "loom's cell")]
            // SAFETY: as for `Sync`.
            theirs.answer.with_mut(|answer| unsafe { *answer = 1 });
            theirs.latch.set(&theirs.bed);
        });
        while !all.latch.is_done() {
            if !announces || all.latch.announce_sleep() {
                all.bed.sleep();
            }
        }
        #[expect(unsafe_code, reason = "loom's cell")]
        // SAFETY: as for `Sync`.
        let answer = all.answer.with(|answer| unsafe { *answer });
        assert_eq!(answer, 1, "what came before the latch is seen");
        thread.join().unwrap();
    }

    #[test]
    fn loom_a_waiter_is_woken_and_sees_the_answer() {
        loom::model(|| awaited(true));
    }

    #[test]
    fn loom_a_sleep_that_is_not_announced_is_found() {
        assert!(catch_unwind(AssertUnwindSafe(|| loom::model(|| awaited(false)))).is_err());
    }
}
