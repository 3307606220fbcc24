//! The simulator's state of each seat, of begun tasks, and of the plan's queues.

use crate::fluid::Time;
use std::collections::VecDeque;
use vicus_schedule::{End, Plan, Probe, Queue, QueueId, Queues, QueuesByRequest, RequestId, Seat, Spawner, Take};
use vicus_topology::{CoreId, NodeId, PuId};

/// A virtual thread.
pub(crate) struct Thread {
    /// Its decisions.
    pub(crate) state: Seat<Waiting>,
    /// Its index among the seats of its pool.
    pub(crate) slot: usize,
    pub(crate) pu: PuId,
    pub(crate) core: CoreId,
    pub(crate) node: NodeId,
    pub(crate) doing: Doing,
    /// The current task is on top of the tasks waiting for it.
    pub(crate) stack: Vec<Frame>,
    /// Tasks reserved for this seat, and threads sent to it.
    pub(crate) pinned: VecDeque<u32>,
    /// Whether a lightweight thread has run last, and another may follow before the seat looks around.
    pub(crate) in_row: bool,
    /// The number of its next event; events with other numbers are out of date.
    pub(crate) version: u32,
    /// The time of this event.
    pub(crate) due: Time,
    /// Since when it has found nothing; `None` after each task, and after sleep.
    pub(crate) idle_since: Option<Time>,
    /// The time of its work between two steps.
    pub(crate) debt: Time,
    /// The current piece of work.
    pub(crate) working: Option<Working>,
    /// The time since it is announced as asleep, or chosen and not awake yet. A trace shows it as asleep.
    pub(crate) asleep_since: Option<Time>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    /// Has an event, or a flow.
    Busy,
    /// Looks around, or waits for a task of its own, and takes the first one.
    Watching,
    /// Looks again after a pause, and not before.
    Pausing,
    /// Looks again after a pause, or when it is woken.
    Dozing,
    /// Sleeps until it is woken.
    Asleep,
    /// A spare seat, without a thread.
    Empty,
}

/// A current piece of work.
pub(crate) struct Working {
    pub(crate) started: Time,
    /// Its time alone.
    pub(crate) alone: Time,
    pub(crate) near: f64,
    pub(crate) far: f64,
    pub(crate) cached: f64,
    pub(crate) latency_ns: f64,
    /// How many bytes are under way at once.
    pub(crate) window: f64,
    /// Bytes through resources, and each resource's share of them.
    pub(crate) uses: Vec<(usize, f64)>,
}

/// A begun task.
pub(crate) struct Frame {
    pub(crate) task: u32,
    /// The current step.
    pub(crate) at: usize,
    /// Number of a spawn step's tasks already queued.
    pub(crate) child: u32,
    /// Input for dealing its children, beside their data.
    pub(crate) spawner: Spawner,
    pub(crate) phase: Phase,
    /// Whether it runs on top of a task without room for its children.
    pub(crate) helps: bool,
    /// Whether it runs on top of such a task in a turn of another request.
    pub(crate) is_in_turn: bool,
    /// Open sections, the innermost last. The first one is the whole task's.
    pub(crate) scopes: Vec<usize>,
    pub(crate) start: Time,
    /// Bytes, and bytes times a core's wait for one of their lines.
    pub(crate) bytes: f64,
    pub(crate) waited: f64,
    /// The part of these bytes from near and from far memory.
    pub(crate) near: f64,
    pub(crate) far: f64,
    /// The time in its pieces of work.
    pub(crate) worked: Time,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The task was taken.
    Begin,
    /// The step is to begin.
    Ready,
    /// The step goes on.
    Busy,
}

/// Tasks that may have a waiting spawner.
#[derive(Default)]
pub(crate) struct Scope {
    /// The number of unfinished ones.
    pub(crate) pending: u32,
    /// The seat of the task that opened it; `None` if this task doesn't wait for them.
    pub(crate) owner: Option<usize>,
}

/// A task in a queue, and its request.
pub(crate) type Waiting = (u32, RequestId);

/// A queue of the plan.
struct Ready {
    tasks: Queue<Waiting>,
    /// The number of each request's tasks there.
    requests: Vec<(RequestId, usize)>,
    capacity: usize,
    /// Whether only one seat at a time may use it.
    locked: bool,
    /// The end of the current use, and the last user: for a queue without a lock, a thief.
    busy_until: Time,
    last: Option<usize>,
}

impl Ready {
    fn count(&mut self, request: RequestId, more: isize) {
        let at = self.requests.iter().position(|entry| entry.0 == request).unwrap_or_else(|| {
            self.requests.push((request, 0));
            self.requests.len() - 1
        });
        self.requests[at].1 = self.requests[at].1.wrapping_add_signed(more);
        if self.requests[at].1 == 0 {
            self.requests.swap_remove(at);
        }
    }

    fn push(&mut self, task: Waiting) {
        self.tasks.push(task.1, task);
        self.count(task.1, 1);
    }

    /// Whether tasks of one request can be picked out. A Chase-Lev deque can't be searched.
    fn has(&self, request: RequestId) -> bool {
        self.locked && self.requests.iter().any(|entry| entry.0 == request)
    }
}

/// All queues of a plan.
pub(crate) struct ReadyQueues {
    queues: Vec<Ready>,
    /// The number of tasks in them.
    pub(crate) count: usize,
    rest: Vec<(RequestId, Waiting)>,
}

impl ReadyQueues {
    pub(crate) fn new(plan: &Plan) -> ReadyQueues {
        let ready = |(owner_lifo, spec): (bool, &vicus_schedule::QueueSpec)| Ready {
            tasks: Queue::new(spec.order),
            requests: Vec::new(),
            capacity: spec.capacity.map_or(usize::MAX, |tasks| tasks as usize),
            locked: !owner_lifo,
            busy_until: 0,
            last: spec.owner.map(vicus_schedule::SeatId::index),
        };
        ReadyQueues {
            queues: plan.owner_lifos().into_iter().zip(&plan.queues).map(ready).collect(),
            count: 0,
            rest: Vec::new(),
        }
    }

    /// Pushes a task. Returns whether there was room.
    pub(crate) fn push(&mut self, queue: QueueId, task: Waiting) -> bool {
        let ready = &mut self.queues[queue.index()];
        let fits = ready.tasks.len() < ready.capacity;
        if fits {
            ready.push(task);
            self.count += 1;
        }
        fits
    }

    /// Takes this task out of a locked queue, if it is still there.
    pub(crate) fn remove(&mut self, queue: QueueId, task: Waiting) -> bool {
        let ready = &mut self.queues[queue.index()];
        let is_there = ready.has(task.1) && ready.tasks.remove(task.1, End::Youngest, |other| *other == task).is_some();
        if is_there {
            ready.count(task.1, -1);
            self.count -= 1;
        }
        is_there
    }

    /// Takes the oldest task of a queue if it is `wanted`.
    pub(crate) fn take_oldest_if(&mut self, queue: QueueId, wanted: impl FnOnce(&Waiting) -> bool) -> Option<Waiting> {
        let ready = &mut self.queues[queue.index()];
        let task = ready.tasks.take_oldest_if(wanted)?;
        ready.count(task.1, -1);
        self.count -= 1;
        Some(task)
    }

    /// The number of tasks in a queue.
    pub(crate) fn len(&self, queue: QueueId) -> usize {
        self.queues[queue.index()].tasks.len()
    }

    /// Whether one of these probes would find something, for a seat with a waiting task of this request, or for a free
    /// one.
    pub(crate) fn serve(&self, probes: &[Probe], waiting: Option<RequestId>) -> bool {
        probes.iter().any(|probe| {
            let of = waiting.filter(|_| !probe.while_waiting);
            probe.scan.queues().iter().enumerate().any(|(at, queue)| {
                let ready = &self.queues[queue.index()];
                ready.tasks.len() > probe.when.longer_than(at) as usize && of.is_none_or(|request| ready.has(request))
            })
        })
    }

    fn remove_of(&mut self, request: RequestId, queue: QueueId, take: Take) -> Option<Waiting> {
        let ready = &mut self.queues[queue.index()];
        let task = ready.tasks.remove(request, take.end(), |_| true)?;
        ready.count(request, -1);
        self.count -= 1;
        Some(task)
    }

    /// Whether only one seat at a time may use a queue.
    pub(crate) fn is_locked(&self, queue: QueueId) -> bool {
        self.queues[queue.index()].locked
    }

    /// Whether a seat uses a locked queue now.
    pub(crate) fn is_in_use(&self, queue: QueueId, now: Time) -> bool {
        let Ready { locked, busy_until, .. } = self.queues[queue.index()];
        locked && busy_until > now
    }

    /// The last seat to use a shared queue; `None`: there is none.
    pub(crate) fn last(&self, queue: QueueId) -> Option<usize> {
        self.queues[queue.index()].last
    }

    /// The beginning of a seat's use of a queue for `hold`, requested now: after earlier requests.
    pub(crate) fn lock(&mut self, queue: QueueId, seat: usize, now: Time, hold: Time) -> Time {
        let ready = &mut self.queues[queue.index()];
        let begin = ready.busy_until.max(now);
        (ready.busy_until, ready.last) = (begin.saturating_add(hold), Some(seat));
        begin
    }
}

impl Queues for ReadyQueues {
    type Task = Waiting;

    fn take(&mut self, queue: QueueId, take: Take, longer_than: u32, rest_to: Option<QueueId>) -> Option<Waiting> {
        let ready = &mut self.queues[queue.index()];
        if ready.tasks.len() <= longer_than as usize {
            return None;
        }
        let task = ready.tasks.take(take, &mut self.rest)?;
        ready.count(task.1, -1);
        self.count -= 1;
        for (_, task) in self.rest.drain(..) {
            let to = rest_to.expect("a probe that takes several says where the rest goes");
            self.queues[queue.index()].count(task.1, -1);
            self.queues[to.index()].push(task);
        }
        Some(task)
    }
}

impl QueuesByRequest for ReadyQueues {
    fn take_of(&mut self, request: RequestId, queue: QueueId, take: Take, longer_than: u32) -> Option<Waiting> {
        let ready = &mut self.queues[queue.index()];
        if ready.tasks.len() <= longer_than as usize || !ready.has(request) {
            return None;
        }
        self.remove_of(request, queue, take)
    }

    fn take_own_of(&mut self, queue: QueueId, request: RequestId) -> Option<Waiting> {
        self.remove_of(request, queue, Take::Youngest)
    }

    fn request_of(&self, task: &Waiting) -> RequestId {
        task.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_schedule::{SeatId, Setting};
    use vicus_topology::Topology;

    #[test]
    fn seats_use_a_queue_one_after_the_other_and_thieves_its_line() {
        let machine = Topology::parse("node:2 core:4").unwrap();
        let plan = "vicus".parse::<Setting>().unwrap().plan(&machine, 8);
        let mut queues = ReadyQueues::new(&plan);
        let [own, shared] = plan.seats[0].place;
        assert!(!queues.is_locked(own) && queues.is_locked(shared));
        assert_eq!(
            (queues.last(own), queues.last(shared)),
            (Some(0), None),
            "a first thief's line comes from the owner"
        );
        for queue in [own, shared] {
            assert_eq!(queues.lock(queue, 3, 100, 10), 100);
            assert_eq!(queues.lock(queue, 4, 105, 20), 110, "behind the one before");
            assert_eq!(queues.lock(queue, 3, 200, 5), 200);
            assert_eq!(queues.last(queue), Some(3));
        }
        assert!(queues.is_in_use(shared, 204) && !queues.is_in_use(shared, 205));
        assert!(!queues.is_in_use(own, 204), "its owner waits for no thief");
        assert_eq!(plan.queues[own.index()].owner, Some(SeatId::new(0)));
    }
}
