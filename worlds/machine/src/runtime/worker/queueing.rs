//! Where a task goes when it is spawned, or when the last of its predecessors is over.

use super::priority::queue_ticket;
use super::{AtOnce, Worker};
use vicus_schedule::{Kind, ReadyTask, SpawnTarget, TaskRef};

impl Worker {
    /// Queues a scope's task or a child, described by its kind alone.
    #[inline]
    pub(crate) fn spawn(&mut self, task: TaskRef, kind: Kind) -> AtOnce {
        self.record_queued(task, kind, kind == Kind::Immediate);
        let is_put = kind == Kind::Immediate && self.put_own(task).is_ok();
        if is_put { AtOnce::NONE } else { self.put_anywhere(task, kind) }
    }

    /// Puts a task without a place into the queue of the plan, or keeps it.
    fn put_anywhere(&mut self, task: TaskRef, kind: Kind) -> AtOnce {
        let put = self.seat.place(&self.shared.plan, kind);
        self.put_spilling(task, put)
    }

    /// Like [`Worker::put_or_keep`], for a task without a place: it may go into the seat's immediate queue while
    /// another seat uses the one of its group.
    fn put_spilling(&mut self, task: TaskRef, put: SpawnTarget) -> AtOnce {
        let SpawnTarget::Into(queue, kind) = put else { return self.put_or_keep(task, put) };
        let shared = &self.shared;
        let is_in_use = || shared.queued.queues.is_in_use(queue);
        let Some(own) = self.seat.spill(kind, || shared.has_one_request(), is_in_use) else {
            return self.put(task, queue, kind);
        };
        // Before it is put: another seat may have run it then.
        self.record_put(task, own);
        match self.put_own(task) {
            Ok(()) => AtOnce::NONE,
            Err(task) => self.put(task, queue, kind),
        }
    }

    /// Puts a task where the seat has decided.
    pub fn put_or_keep(&mut self, task: TaskRef, put: SpawnTarget) -> AtOnce {
        match put {
            SpawnTarget::Keep => {
                self.keep(task);
                AtOnce::NONE
            }
            SpawnTarget::Into(queue, kind) => self.put(task, queue, kind),
        }
    }

    /// Queues a task without predecessors.
    pub fn queue(&mut self, queued: ReadyTask) -> AtOnce {
        let ReadyTask { task, kind, queue, priority } = queued;
        if let Some(priority) = priority {
            return queue_ticket(self, queued, priority);
        }
        self.record_queued(task, kind, kind == Kind::Immediate && queue.is_none());
        if kind == Kind::Immediate && queue.is_none() && self.put_own(task).is_ok() {
            return AtOnce::NONE;
        }
        let put = self.seat.place_dealt(&self.shared.plan, kind, queue);
        if queue.is_none() { self.put_spilling(task, put) } else { self.put_or_keep(task, put) }
    }
}
