//! How a seat looks for work: the plan's probes, interpreted. Shared by all worlds.

use crate::{Probe, QueueId, QueueScan, RequestId, Take};
use std::fmt;

/// The queues of a world, as seen by one seat.
pub trait Queues {
    /// The tasks they hold.
    type Task;

    /// Takes from a queue if it holds more than `longer_than` tasks; the surplus of a take of several goes to
    /// `rest_to`. `None` if the queue does not serve, or another seat was quicker.
    fn take(&mut self, queue: QueueId, take: Take, longer_than: u32, rest_to: Option<QueueId>) -> Option<Self::Task>;

    /// Takes the youngest task of the seat's own lock-free queue, for worlds with a faster way to it.
    #[inline]
    fn take_own(&mut self, queue: QueueId) -> Option<Self::Task> {
        self.take(queue, Take::Youngest, 0, None)
    }
}

/// Queues that give tasks of one request.
pub trait QueuesByRequest: Queues {
    /// Takes one task of a request from a queue with more than `longer_than` tasks of any request: the youngest or the
    /// oldest of the request's, from the end `take` names.
    fn take_of(&mut self, request: RequestId, queue: QueueId, take: Take, longer_than: u32) -> Option<Self::Task>;

    /// Takes the youngest task of a request from the seat's own lock-free queue. Tasks of other requests may change
    /// places with younger ones of this request.
    fn take_own_of(&mut self, queue: QueueId, request: RequestId) -> Option<Self::Task> {
        self.take_of(request, queue, Take::Youngest, 0)
    }

    /// The request of a task.
    fn request_of(&self, task: &Self::Task) -> RequestId;

    /// Whether the seat may begin this task now. The other functions give no other ones.
    #[inline]
    fn may_begin(&self, _: &Self::Task) -> bool {
        true
    }
}

impl<Q: Queues> Queues for &mut Q {
    type Task = Q::Task;

    #[inline]
    fn take(&mut self, queue: QueueId, take: Take, longer_than: u32, rest_to: Option<QueueId>) -> Option<Q::Task> {
        (**self).take(queue, take, longer_than, rest_to)
    }

    #[inline]
    fn take_own(&mut self, queue: QueueId) -> Option<Q::Task> {
        (**self).take_own(queue)
    }
}

impl<Q: QueuesByRequest> QueuesByRequest for &mut Q {
    #[inline]
    fn take_of(&mut self, request: RequestId, queue: QueueId, take: Take, longer_than: u32) -> Option<Q::Task> {
        (**self).take_of(request, queue, take, longer_than)
    }

    #[inline]
    fn take_own_of(&mut self, queue: QueueId, request: RequestId) -> Option<Q::Task> {
        (**self).take_own_of(queue, request)
    }

    #[inline]
    fn request_of(&self, task: &Q::Task) -> RequestId {
        (**self).request_of(task)
    }

    #[inline]
    fn may_begin(&self, task: &Q::Task) -> bool {
        (**self).may_begin(task)
    }
}

/// A task found by a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundTask<T> {
    /// The task to run.
    pub task: T,
    /// How the seat got it.
    pub way: Way,
}

impl<T> FoundTask<T> {
    /// A task that was in no queue.
    #[inline]
    pub(crate) fn kept(task: T) -> FoundTask<T> {
        FoundTask { task, way: Way::NO_QUEUE }
    }
}

/// How a seat got a task: the rule and the queue, or no queue for a kept task. One word: it is stored and loaded with
/// each task, and a load right after a store in pieces would be slow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Way(u64);

impl Way {
    /// The task was in no queue: kept by its seat, called for, or handed on.
    pub const NO_QUEUE: Way = Way(0);

    /// By this rule, out of this queue.
    #[inline]
    pub fn new(rule: u8, queue: QueueId) -> Way {
        Way((queue.index() as u64 + 1) << 8 | u64::from(rule))
    }

    /// The number of the rule; 0 for a kept task.
    #[inline]
    pub fn rule(self) -> u8 {
        self.0 as u8
    }

    /// The queue; `None` for a kept task.
    #[inline]
    pub fn queue(self) -> Option<QueueId> {
        (self.0 >> 8).checked_sub(1).map(|queue| QueueId::new(queue as usize))
    }
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.queue() {
            Some(queue) => write!(f, "rule {} from {queue:?}", self.rule()),
            None => f.write_str("kept"),
        }
    }
}

/// Tries the probes in order and takes from the first queue that serves. `cursors` are the seat's, one for each ring.
/// Cost: one call for each queue up to the one that serves; no allocation.
pub fn look<Q: Queues>(probes: &[Probe], cursors: &mut [usize], queues: &mut Q) -> Option<FoundTask<Q::Task>> {
    probes.iter().find_map(|probe| {
        scan(probe, cursors, |queue, longer_than| queues.take(queue, probe.take, longer_than, probe.rest_to))
    })
}

/// A seat's stack counts as deep from this number of waiting tasks on: see [`look_waiting`] and
/// [`Plan::queue_in_turn`](crate::Plan::queue_in_turn).
pub const DEEP: usize = 64;

/// Like [`look`], for a seat whose task of this request waits: outside the probes for waiting seats
/// ([`Probe::while_waiting`]) it only finds tasks of the same request. Orders and thresholds are the same, unless more
/// than [`DEEP`] tasks wait on its stack already. Then the youngest task of the request comes first in each queue: it
/// is most likely the awaited one, while the oldest one is likely to wait for others in turn. In queues that give the
/// oldest first, a stack would grow with the number of tasks.
pub fn look_waiting<Q: QueuesByRequest>(
    probes: &[Probe],
    cursors: &mut [usize],
    queues: &mut Q,
    request: RequestId,
    waits: usize,
) -> Option<FoundTask<Q::Task>> {
    let deep = waits > DEEP;
    probes.iter().find_map(|probe| {
        scan(probe, cursors, |queue, longer_than| {
            let end = if deep { Take::Youngest } else { probe.take };
            let own = (deep || !probe.while_waiting).then(|| queues.take_of(request, queue, end, longer_than));
            match own.flatten() {
                None if probe.while_waiting => queues.take(queue, probe.take, longer_than, probe.rest_to),
                own => own,
            }
        })
    })
}

/// Like [`look`], for tasks of one request alone. No ring goes on.
pub(crate) fn look_of<Q: QueuesByRequest>(
    probes: &[Probe],
    queues: &mut Q,
    request: RequestId,
) -> Option<FoundTask<Q::Task>> {
    probes.iter().find_map(|probe| {
        let mut list = probe.scan.queues().iter().enumerate();
        list.find_map(|(at, &queue)| {
            let task = queues.take_of(request, queue, probe.take, probe.when.longer_than(at))?;
            Some(FoundTask { task, way: Way::new(probe.rule, queue) })
        })
    })
}

/// Asks the queues of a probe, each with its threshold, until one gives a task.
#[inline]
pub(crate) fn scan<T>(
    probe: &Probe,
    cursors: &mut [usize],
    mut take: impl FnMut(QueueId, u32) -> Option<T>,
) -> Option<FoundTask<T>> {
    let (list, start) = match &probe.scan {
        QueueScan::List(list) => (list, 0),
        // An unbound seat may look around another ring than the last time.
        QueueScan::Ring(list, cursor) => (list, cursors[*cursor].min(list.len())),
    };
    for step in 0..list.len() {
        // No division: idle workers scan rings often.
        let at = if start + step < list.len() { start + step } else { start + step - list.len() };
        if let Some(task) = take(list[at], probe.when.longer_than(at)) {
            if let QueueScan::Ring(_, cursor) = probe.scan {
                cursors[cursor] = at;
            }
            return Some(FoundTask { task, way: Way::new(probe.rule, list[at]) });
        }
    }
    None
}
