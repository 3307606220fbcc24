//! Spare seats: whether their threads are to work.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

/// Whether a spare seat's thread is to work.
#[derive(Default)]
pub(crate) struct SpareThread {
    pub(super) wanted: AtomicBool,
    /// The seat with the blocked thread, for a trace.
    pub(super) blocked: AtomicUsize,
    pub(super) has_thread: AtomicBool,
    /// Its thread works, or sleeps on the seat.
    is_at_work: AtomicBool,
    pub(crate) lock: Mutex<()>,
    pub(crate) changed: Condvar,
}

impl SpareThread {
    /// Whether no thread is on the seat, and none is about to be.
    pub(crate) fn is_idle(&self) -> bool {
        // In this order: its thread announces its work while it is still wanted.
        !self.wanted.load(Ordering::Acquire) && !self.is_at_work.load(Ordering::Acquire)
    }

    /// Its thread waits until it is wanted, or until the runtime ends. It gives back the memory of its heap before a
    /// long wait, like the thread of any other seat.
    pub(super) fn wait(&self, give_back: impl Fn(), closing: impl Fn() -> bool) {
        let waits = || !self.wanted.load(Ordering::Acquire) && !closing();
        #[cfg(loom)]
        let is_woken = || {
            let _ = &give_back;
            false
        };
        #[cfg(not(loom))]
        let is_woken = || {
            let nap = |long| {
                let slept = self.changed.wait_timeout_while(self.lock(), long, |()| waits());
                (!slept.expect("nothing panics under this lock").1.timed_out()).then_some(())
            };
            let woken = crate::runtime::naps::nap_before_sleep(&give_back, nap);
            crate::memory::heaps::put_down();
            woken.is_some()
        };
        self.wait_after(is_woken, waits);
    }

    /// Waits as long as `waits`, for good only after naps by which it was not woken.
    fn wait_after(&self, mut is_woken: impl FnMut() -> bool, waits: impl Fn() -> bool) {
        let mut lock = self.lock();
        self.is_at_work.store(false, Ordering::Release);
        loop {
            drop(lock);
            let is_woken = is_woken();
            lock = self.lock();
            if !is_woken {
                lock = self.changed.wait_while(lock, |()| waits()).expect("nothing panics under this lock");
            }
            // It may be wanted no more, since nothing is locked meanwhile: then its heap has yet to give back memory.
            if !waits() {
                break;
            }
        }
        self.is_at_work.store(true, Ordering::Release);
        drop(lock);
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().expect("nothing panics under this lock")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::mpsc;
    use std::time::Duration;

    /// What happened: a thread was wanted while it napped, and no more when it looked. Its nap had ended early, so its
    /// heap gave nothing back, and then it slept for good.
    #[test]
    fn a_thread_that_is_wanted_no_more_naps_again_before_it_sleeps() {
        let lent = SpareThread::default();
        let naps = Cell::new(0);
        let (ends, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let lent = &lent;
            // Else the failed test would not end.
            scope.spawn(move || {
                if ended.recv_timeout(Duration::from_secs(5)) == Err(mpsc::RecvTimeoutError::Timeout) {
                    let _lock = lent.lock();
                    lent.wanted.store(true, Ordering::Release);
                    lent.changed.notify_one();
                }
            });
            let is_woken = || {
                naps.set(naps.get() + 1);
                assert!(lent.is_idle() && lent.lock.try_lock().is_ok());
                lent.wanted.store(naps.get() == 3, Ordering::Release);
                true
            };
            lent.wait_after(is_woken, || !lent.wanted.load(Ordering::Acquire));
            drop(ends);
        });
        assert_eq!(naps.get(), 3);
        assert!(lent.is_at_work.load(Ordering::Relaxed));
    }
}
