//! Threads for spare seats: they work while threads of other seats block.

use crate::runtime::RuntimeState;
use crate::runtime::hook::Hook;
use crate::runtime::worker::{Worker, in_task, send_away, with_worker};
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use vicus_schedule::{PoolId, SeatId, SeatPlan, Waiter};

/// Whether a spare seat's thread is to work.
#[derive(Default)]
pub(crate) struct Lent {
    wanted: AtomicBool,
    /// The seat with the blocked thread, for a trace.
    blocked: AtomicUsize,
    has_thread: AtomicBool,
    /// Its thread works, or sleeps on the seat.
    is_at_work: AtomicBool,
    pub(crate) lock: Mutex<()>,
    pub(crate) changed: Condvar,
}

impl Lent {
    /// Whether no thread is on the seat, and none is about to be.
    pub(crate) fn is_idle(&self) -> bool {
        // In this order: its thread announces its work while it is still wanted.
        !self.wanted.load(Ordering::Acquire) && !self.is_at_work.load(Ordering::Acquire)
    }

    /// Its thread waits until it is wanted, or until the runtime ends. It gives back the memory of its heap before a
    /// long wait, like the thread of any other seat.
    fn wait(&self, hook: &Hook, closing: impl Fn() -> bool) {
        let waits = || !self.wanted.load(Ordering::Acquire) && !closing();
        #[cfg(loom)]
        let is_woken = || false;
        #[cfg(not(loom))]
        let is_woken = || {
            let nap = |long| {
                let slept = self.changed.wait_timeout_while(self.lock(), long, |()| waits());
                (!slept.expect("nothing panics under this lock").1.timed_out()).then_some(())
            };
            let woken = crate::runtime::worker::nap_before_sleep(hook, nap);
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

/// The calling thread is about to block: private tasks of its seat go to queues open to others. A thread is put on a
/// spare seat of its pool until the returned value is dropped, if there is such a seat, and a thread to be had. `None`
/// if it sits on no seat.
pub fn lend_here() -> Option<LentThread> {
    let (shared, seat, pool, code) = with_worker(|worker| {
        worker.share_tasks();
        // From here on, movable code is not sent to this seat; earlier code is sent away.
        worker.shared.hook.of_seat(worker.seat).blocks();
        (Arc::clone(&worker.shared), worker.seat, worker.pool(), worker.waiter)
    })?;
    send_away();
    let spare = shared.lend(pool, seat);
    // Its end is on this seat.
    shared.hook.enter_task(code);
    let is_of_thread = PhantomData;
    Some(LentThread { shared, blocked: seat, code, spare: spare.map(|spare| (spare, pool)), is_of_thread })
}

impl RuntimeState {
    /// Puts a thread on a spare seat of a pool, for a seat with a blocking thread. `None` if there is no spare seat
    /// left.
    fn lend(self: &Arc<Self>, pool: PoolId, blocked: SeatId) -> Option<SeatId> {
        let seat = self.system.spares[pool.index()].lock().expect("nothing panics under this lock").pop()?;
        let lent = &self.system.lent[seat.index()];
        {
            let _lock = lent.lock.lock().expect("nothing panics under this lock");
            // Release: with the seat.
            lent.blocked.store(blocked.index(), Ordering::Relaxed);
            lent.wanted.store(true, Ordering::Release);
            lent.changed.notify_one();
        }
        if lent.has_thread.swap(true, Ordering::AcqRel) {
            // It may sleep in the pool since it was lent last.
            fence(Ordering::SeqCst);
            self.wake_pool(pool);
        } else if self.thread(seat, move |shared| shared.sit_on_spare(seat)).is_err() {
            lent.has_thread.store(false, Ordering::Release);
        }
        Some(seat)
    }

    fn sit_on_spare(self: &Arc<Self>, seat: SeatId) {
        let mut worker = Worker::new(Arc::clone(self), seat);
        let lent = &self.system.lent[seat.index()];
        let closing = || self.system.closing.load(Ordering::Acquire);
        while !closing() {
            lent.wait(&self.hook, closing);
            worker.recorder.lent_begins(SeatId::new(lent.blocked.load(Ordering::Relaxed)));
            // Code of the layer begun by it is its own.
            let has_code = || in_task(|worker| worker.has_code());
            worker.work(|| (lent.wanted.load(Ordering::Acquire) || has_code()) && !closing());
            worker.recorder.lent_ends();
            // Tasks left in its own queue are for others to take.
            let SeatPlan { place: [boxes, _], tasks, .. } = self.plan.seats[seat.index()];
            for queue in [boxes, tasks] {
                if self.queues.deque(queue).is_some_and(|deque| !deque.is_empty()) {
                    self.wake_for(queue, None, true);
                }
            }
        }
        worker.hand_in();
    }
}

/// A seat's thread blocks, and another one works on a spare seat, as long as this lives.
pub struct LentThread {
    shared: Arc<RuntimeState>,
    blocked: SeatId,
    /// The code that blocks. On a stack of its own, it stays with its seat meanwhile.
    code: Waiter,
    /// With its pool; `None` if there was none.
    spare: Option<(SeatId, PoolId)>,
    is_of_thread: PhantomData<*const ()>,
}

impl fmt::Debug for LentThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LentThread").field("blocked", &self.blocked).field("spare", &self.spare).finish_non_exhaustive()
    }
}

impl Drop for LentThread {
    fn drop(&mut self) {
        self.shared.hook.of_seat(self.blocked).unblocks();
        self.shared.hook.leave_task(self.code);
        if let Some((seat, pool)) = self.spare {
            // The seat can be lent again at once: its thread leaves when it learns of this, or stays if it is wanted
            // again by then. A sleeping thread would learn of it only with the next wake.
            self.shared.system.lent[seat.index()].wanted.store(false, Ordering::Release);
            self.shared.system.spares[pool.index()].lock().expect("nothing panics under this lock").push(seat);
        }
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
        let lent = Lent::default();
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
