//! Threads for spare seats: they work while threads of other seats block.

use crate::runtime::Shared;
use crate::worker::{Worker, in_task, with_worker};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex};
use vicus_schedule::{Kind, PoolId, SeatId};

/// Whether a spare seat's thread is to work.
#[derive(Default)]
pub(crate) struct Lent {
    wanted: AtomicBool,
    /// The seat whose thread is blocked, for a trace.
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
        // In this order: its thread says that it works while it is still wanted.
        !self.wanted.load(Ordering::Acquire) && !self.is_at_work.load(Ordering::Acquire)
    }
}

impl Shared {
    /// Puts a thread on a spare seat of a pool until the returned value is dropped. `None` in the value if there is no
    /// spare seat left, or no thread to be had.
    pub(crate) fn lend(self: &Arc<Self>, pool: PoolId) -> LentThread {
        let seat = self.spares[pool.index()].lock().expect("nothing panics under this lock").pop();
        let Some(seat) = seat else { return LentThread(None) };
        let lent = &self.lent[seat.index()];
        let blocked = with_worker(|worker| worker.seat.index()).unwrap_or(0);
        {
            let _lock = lent.lock.lock().expect("nothing panics under this lock");
            // Release: with the seat.
            lent.blocked.store(blocked, Ordering::Relaxed);
            lent.wanted.store(true, Ordering::Release);
            lent.changed.notify_one();
        }
        let thread = LentThread(Some((Arc::clone(self), seat, pool)));
        if lent.has_thread.swap(true, Ordering::AcqRel) {
            // It may sleep in the pool since it was lent last.
            fence(Ordering::SeqCst);
            self.wake_pool(pool);
        } else if self.thread(seat, move |shared| shared.sit_on_spare(seat)).is_err() {
            lent.has_thread.store(false, Ordering::Release);
        }
        thread
    }

    fn sit_on_spare(self: &Arc<Self>, seat: SeatId) {
        let mut worker = Worker::new(Arc::clone(self), seat);
        let lent = &self.lent[seat.index()];
        let closing = || self.closing.load(Ordering::Acquire);
        while !closing() {
            {
                let mut lock = lent.lock.lock().expect("nothing panics under this lock");
                lent.is_at_work.store(false, Ordering::Release);
                while !lent.wanted.load(Ordering::Acquire) && !closing() {
                    lock = lent.changed.wait(lock).expect("nothing panics under this lock");
                }
                lent.is_at_work.store(true, Ordering::Release);
            }
            worker.recorder.lent_begins(SeatId::new(lent.blocked.load(Ordering::Relaxed)));
            // Lightweight threads that it has begun are its own.
            let has_threads = || in_task(|worker| worker.has_threads());
            worker.work(|| (lent.wanted.load(Ordering::Acquire) || has_threads()) && !closing());
            worker.recorder.lent_ends();
            // What is left in its own queue is for others to take.
            if self.queues.own(seat).is_some_and(|deque| !deque.is_empty()) {
                self.wake_for(self.plan.seats[seat.index()].place[Kind::Immediate as usize], None, true);
            }
        }
        worker.hand_in();
    }
}

/// A thread that works on a spare seat as long as this lives.
pub(crate) struct LentThread(Option<(Arc<Shared>, SeatId, PoolId)>);

impl fmt::Debug for LentThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LentThread").field(&self.0.as_ref().map(|(_, seat, _)| seat)).finish()
    }
}

impl Drop for LentThread {
    fn drop(&mut self) {
        if let Some((shared, seat, pool)) = &self.0 {
            // The seat can be lent again at once: its thread leaves when it learns of this, or stays if it is wanted
            // again by then. One that sleeps would learn of it only with the next wake.
            shared.lent[seat.index()].wanted.store(false, Ordering::Release);
            shared.spares[pool.index()].lock().expect("nothing panics under this lock").push(*seat);
        }
    }
}
