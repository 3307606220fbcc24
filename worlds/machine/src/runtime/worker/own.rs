//! A seat's own queue, reached by its worker without a look at the plan.

use crate::queues::deque::Deque;
use crate::queues::sleep::SleepPool;
use crate::runtime::shared::RuntimeState;
use crate::sync::light_fence;
use std::ptr;
use vicus_schedule::{Seat, SeatId, TaskRef};

/// The seat's own queue. Its pointers are to parts of the [`RuntimeState`] held by the worker; these parts never move.
pub(super) struct OwnQueue {
    /// The lock-free queue for immediate tasks ([`Seat::own`]); null if the plan has no such queue.
    queue: *const Deque,
    /// Also that queue, if it takes immediate plain tasks; else null ([`Seat::takes_tasks`]).
    tasks: *const Deque,
    /// The pools with sleepers that a push may wake.
    near: Box<[*const SleepPool]>,
}

impl OwnQueue {
    pub(super) fn new(shared: &RuntimeState, state: &Seat<TaskRef>, seat: SeatId) -> OwnQueue {
        let queue = state.own().and_then(|queue| shared.queued.queues.deque(queue)).map_or(ptr::null(), ptr::from_ref);
        let plan = &shared.plan.seats[seat.index()];
        let near = shared.plan.queues[plan.tasks.index()].wake.iter();
        let near = near.map(|pool| ptr::from_ref(&shared.system.sleepers.pools[pool.index()])).collect();
        OwnQueue { queue, tasks: if state.takes_tasks(&shared.plan) { queue } else { ptr::null() }, near }
    }

    #[inline]
    pub(super) fn queue(&self) -> Option<&Deque> {
        #[expect(unsafe_code, reason = "a way to a part of what the worker shares that is short")]
        // SAFETY: null, or a queue of the worker's `shared`, by the type's invariant.
        unsafe {
            self.queue.as_ref()
        }
    }

    /// Borrowed for as long as the worker's `shared` is borrowed.
    #[inline]
    pub(super) fn queue_of<'a>(&self, _: &'a RuntimeState) -> Option<&'a Deque> {
        #[expect(unsafe_code, reason = "a way to a part of what the worker shares that is short")]
        // SAFETY: as in `queue`; the caller holds the same `shared`.
        unsafe {
            self.queue.as_ref()
        }
    }

    #[inline]
    pub(super) fn tasks(&self) -> Option<&Deque> {
        #[expect(unsafe_code, reason = "a way to a part of what the worker shares that is short")]
        // SAFETY: as in `queue`.
        unsafe {
            self.tasks.as_ref()
        }
    }

    /// Whether an immediate task there may wake a sleeping thread.
    #[inline]
    pub(super) fn has_sleepers(&self) -> bool {
        light_fence();
        self.near.iter().any(|&pool| {
            #[expect(unsafe_code, reason = "a way to a part of what the worker shares that is short")]
            // SAFETY: a pool of the worker's `shared`, by the type's invariant.
            unsafe { &*pool }.has_sleepers()
        })
    }
}
