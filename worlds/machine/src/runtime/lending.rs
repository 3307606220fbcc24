//! Threads for spare seats: they work while threads of other seats block.

use crate::runtime::shared::RuntimeState;
use crate::runtime::worker::{Worker, in_task, send_away, with_worker};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use vicus_schedule::{PoolId, SeatId, SeatPlan, Waiter};

/// The calling thread is about to block: private tasks of its seat go to queues open to others. A thread is put on a
/// spare seat of its pool until the returned value is dropped, if there is such a seat, and a thread to be had. `None`
/// if it sits on no seat.
pub fn lend_here() -> Option<LentThread> {
    let (shared, seat, pool, code) = with_worker(|worker| {
        worker.share_tasks();
        // From here on, movable code is not sent to this seat; earlier code is sent away.
        worker.shared.hook.of_seat(worker.seat_id).blocks();
        (Arc::clone(&worker.shared), worker.seat_id, worker.pool(), worker.code.waiter)
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
            lent.wait(|| self.hook.give_back_memory(), closing);
            worker.recorder.lent_begins(SeatId::new(lent.blocked.load(Ordering::Relaxed)));
            // Code of the layer begun by it is its own.
            let has_code = || in_task(|worker| worker.has_code());
            worker.work(|| (lent.wanted.load(Ordering::Acquire) || has_code()) && !closing());
            worker.recorder.lent_ends();
            // Tasks left in its own queue are for others to take.
            let SeatPlan { place: [boxes, _], tasks, .. } = self.plan.seats[seat.index()];
            for queue in [boxes, tasks] {
                if self.queued.queues.deque(queue).is_some_and(|deque| !deque.is_empty()) {
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
