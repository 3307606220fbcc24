//! The plan's queues as threads share them.
//!
//! The plan never names an implementation. A queue that one seat alone pushes to and pops from at the same end, and that
//! others rob one task at a time at the other end, is a Chase-Lev deque; every other queue is the sequential one behind
//! a lock, with its length beside it, so that looking into an empty queue takes no lock.

use crate::deque::Deque;
use crate::lock::ShortLock;
use crate::sleep::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus_schedule::{Plan, Queue, QueueId, Queues, RequestId, SeatId, Take, TaskRef};

pub(crate) struct SharedQueues(Vec<SharedQueue>);

enum SharedQueue {
    /// Boxed: its padding would make every locked queue as large.
    Own {
        owner: SeatId,
        deque: Box<Deque>,
    },
    Locked {
        queue: ShortLock<Queue<TaskRef>>,
        len: AtomicUsize,
        capacity: usize,
    },
}

impl SharedQueues {
    pub(crate) fn new(plan: &Plan) -> SharedQueues {
        let queue = |index: usize| {
            let (id, spec) = (QueueId::new(index), &plan.queues[index]);
            match spec.owner {
                Some(owner) if plan.is_owner_lifo(id) => SharedQueue::Own { owner, deque: Box::new(Deque::new()) },
                _ => SharedQueue::Locked {
                    queue: ShortLock::new(Queue::new(spec.order)),
                    len: AtomicUsize::new(0),
                    capacity: spec.capacity.map_or(usize::MAX, |tasks| tasks as usize),
                },
            }
        };
        SharedQueues((0..plan.queues.len()).map(queue).collect())
    }

    /// Puts a task. Gives it back if the queue is full: the caller runs it. Only the owner may put into its own queue.
    pub(crate) fn push(&self, queue: QueueId, task: TaskRef) -> Result<(), TaskRef> {
        match &self.0[queue.index()] {
            SharedQueue::Own { deque, .. } => {
                deque.push(task)?;
                // It may be long before its owner looks here again.
                deque.share(true);
                Ok(())
            }
            SharedQueue::Locked { queue, len, capacity } => {
                let mut queue = queue.lock();
                if queue.len() >= *capacity {
                    return Err(task);
                }
                queue.push(task.header().request, task);
                len.store(queue.len(), Ordering::Release);
                Ok(())
            }
        }
    }

    /// Takes every box of a request out of the locked queues, and hands them to `dropped`.
    pub(crate) fn sweep_locked(&self, request: RequestId, mut dropped: impl FnMut(TaskRef)) {
        for queue in 0..self.0.len() {
            let is_box = |task: &TaskRef| task.header().is_box;
            self.locked(QueueId::new(queue), |tasks| tasks.sweep(request, is_box, &mut dropped));
        }
    }

    /// Whether it is behind a lock.
    pub(crate) fn is_locked(&self, queue: QueueId) -> bool {
        matches!(self.0[queue.index()], SharedQueue::Locked { .. })
    }

    /// Takes the youngest task of a request out of a locked queue.
    #[inline]
    pub(crate) fn take_of(&self, queue: QueueId, request: RequestId) -> Option<TaskRef> {
        self.locked(queue, |tasks| tasks.take_of(request)).flatten()
    }

    /// Takes this task out of a locked queue, if it is still there.
    pub(crate) fn remove(&self, queue: QueueId, task: TaskRef) -> bool {
        let request = task.header().request;
        self.locked(queue, |tasks| tasks.remove(request, |other| *other == task)).flatten().is_some()
    }

    /// Changes a locked queue that is not empty.
    #[inline]
    fn locked<R>(&self, queue: QueueId, change: impl FnOnce(&mut Queue<TaskRef>) -> R) -> Option<R> {
        let SharedQueue::Locked { queue, len, .. } = &self.0[queue.index()] else { return None };
        if len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut queue = queue.lock();
        let result = change(&mut queue);
        len.store(queue.len(), Ordering::Release);
        Some(result)
    }

    /// A seat's own lock-free queue, if the strategy gives it one.
    pub(crate) fn own(&self, seat: SeatId) -> Option<&Deque> {
        self.0.iter().find_map(|queue| match queue {
            SharedQueue::Own { owner, deque } if *owner == seat => Some(&**deque),
            _ => None,
        })
    }
}

/// The queues as one seat reaches them.
pub(crate) struct Reach<'a> {
    pub(crate) queues: &'a SharedQueues,
    pub(crate) seat: SeatId,
    /// For a seat's last look before it sleeps: tasks that others keep for themselves are found as well.
    pub(crate) last: Option<&'a Barrier>,
}

impl Queues for Reach<'_> {
    type Task = TaskRef;

    #[inline]
    fn take(&mut self, queue: QueueId, take: Take, longer_than: u32, rest_to: Option<QueueId>) -> Option<TaskRef> {
        match &self.queues.0[queue.index()] {
            SharedQueue::Own { deque, .. } if longer_than > 0 && deque.len() <= longer_than as usize => None,
            SharedQueue::Own { owner, deque } if *owner == self.seat => deque.pop(),
            SharedQueue::Own { deque, .. } => {
                self.last.map_or_else(|| deque.steal(), |barrier| deque.steal_held(barrier))
            }
            SharedQueue::Locked { len, .. } if len.load(Ordering::Acquire) <= longer_than as usize => None,
            SharedQueue::Locked { queue: locked, len, .. } => {
                let mut rest = Vec::new();
                let task = {
                    let mut queue = locked.lock();
                    if queue.len() <= longer_than as usize {
                        return None;
                    }
                    let task = queue.take(take, &mut rest);
                    len.store(queue.len(), Ordering::Release);
                    task
                };
                for (_, task) in rest {
                    let to = rest_to.expect("a probe that takes several says where the rest goes");
                    if let Err(task) = self.queues.push(to, task) {
                        // A ring may be smaller than a theft is large: what it refuses goes back.
                        self.queues.push(queue, task).expect("a queue that is robbed of several has no capacity");
                    }
                }
                task
            }
        }
    }
}
