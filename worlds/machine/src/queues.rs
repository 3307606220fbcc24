//! The plan's queues as threads share them.
//!
//! The plan never names an implementation. A queue that one seat alone pushes to and pops from at the same end, and that
//! others rob one task at a time at the other end, is a Chase-Lev deque; every other queue is the sequential one behind
//! a lock, with its length beside it, so that looking into an empty queue takes no lock.

use crate::deque::Deque;
use crate::sync::{Mutex, Ordering};
use std::sync::atomic::AtomicUsize;
use vicus_schedule::{Plan, Queue, QueueId, Queues, RequestId, SeatId, Take, TaskRef};

pub(crate) struct SharedQueues(Vec<SharedQueue>);

enum SharedQueue {
    /// Boxed: its padding would make every locked queue as large.
    Own {
        owner: SeatId,
        deque: Box<Deque>,
    },
    Locked {
        queue: Mutex<Queue<TaskRef>>,
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
                    queue: Mutex::new(Queue::new(spec.order)),
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
            SharedQueue::Own { deque, .. } => deque.push(task),
            SharedQueue::Locked { queue, len, capacity } => {
                let mut queue = queue.lock().expect("nothing panics under this lock");
                if queue.len() >= *capacity {
                    return Err(task);
                }
                queue.push(task.header().request, task);
                len.store(queue.len(), Ordering::Release);
                Ok(())
            }
        }
    }

    /// Takes every task of a request out of the locked queues, and hands them to `dropped`.
    pub(crate) fn sweep_locked(&self, request: RequestId, mut dropped: impl FnMut(TaskRef)) {
        for shared in &self.0 {
            if let SharedQueue::Locked { queue, len, .. } = shared {
                let mut queue = queue.lock().expect("nothing panics under this lock");
                queue.sweep(request, |_| true, &mut dropped);
                len.store(queue.len(), Ordering::Release);
            }
        }
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
}

impl Queues for Reach<'_> {
    type Task = TaskRef;

    #[inline]
    fn take(&mut self, queue: QueueId, take: Take, longer_than: u32, rest_to: Option<QueueId>) -> Option<TaskRef> {
        match &self.queues.0[queue.index()] {
            SharedQueue::Own { deque, .. } if longer_than > 0 && deque.len() <= longer_than as usize => None,
            SharedQueue::Own { owner, deque } if *owner == self.seat => deque.pop(),
            SharedQueue::Own { deque, .. } => deque.steal(),
            SharedQueue::Locked { len, .. } if len.load(Ordering::Acquire) <= longer_than as usize => None,
            SharedQueue::Locked { queue: locked, len, .. } => {
                let mut rest = Vec::new();
                let task = {
                    let mut queue = locked.lock().expect("nothing panics under this lock");
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
