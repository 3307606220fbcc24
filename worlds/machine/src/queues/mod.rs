//! The plan's queues, shared by threads.
//!
//! The plan never names an implementation. There are three. A queue pushed and popped by one seat only, at the same
//! end, and robbed by others one task at a time at the other end, is a split deque. A queue with only takes of the
//! oldest task has a lock for each end. Every other queue is the sequential one behind a lock, with its length beside
//! it. A look into an empty queue takes no lock.
//!
//! If the plan has tokens, a task is taken out of its queue, under the queue's lock, together with a token. A push adds
//! its token after its task; so there are never more tokens than tasks, and a holder of a token finds a task.

pub(crate) mod deque;
pub(crate) mod fifo;
pub(crate) mod groups;
pub(crate) mod inbox;
pub(crate) mod sleep;

use crate::queues::deque::Deque;
use crate::queues::fifo::Fifo;
use crate::queues::sleep::Barrier;
use crate::sync::Padded;
use crate::sync::lock::ShortLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus_schedule::{
    Context, End, Plan, Queue, QueueId, QueueSpec, Queues, QueuesByRequest, RequestId, SeatId, Take, TaskRef,
};

/// The queues of a plan's seats.
pub struct SharedQueues {
    /// Each on lines of its own: neighbours are those of different seats.
    queues: Vec<Padded<SharedQueue>>,
    /// If the plan has them.
    tokens: Option<Tokens>,
}

struct Tokens {
    /// Invariant: no more than tasks in all queues together.
    count: Padded<AtomicUsize>,
    capacity: usize,
}

enum SharedQueue {
    /// Boxed: it has several lines of its own.
    Own {
        owner: SeatId,
        deque: Box<Deque>,
    },
    /// Boxed for the same reason.
    Fifo(Box<Fifo>),
    Locked {
        queue: ShortLock<Queue<TaskRef>>,
        len: AtomicUsize,
        capacity: usize,
    },
}

impl SharedQueues {
    pub(crate) fn new(plan: &Plan) -> SharedQueues {
        let queue = |((owner_lifo, fifo), spec): ((bool, bool), &QueueSpec)| match spec.owner {
            Some(owner) if owner_lifo => SharedQueue::Own { owner, deque: Box::new(Deque::new()) },
            _ if fifo => SharedQueue::Fifo(Box::new(Fifo::new())),
            _ => SharedQueue::Locked {
                queue: ShortLock::new(Queue::new(spec.order)),
                len: AtomicUsize::new(0),
                capacity: spec.capacity.map_or(usize::MAX, |tasks| tasks as usize),
            },
        };
        let tokens = plan.tokens.map(|tokens| Tokens {
            count: Padded(AtomicUsize::new(0)),
            capacity: tokens.capacity.map_or(usize::MAX, |tokens| tokens as usize),
        });
        let queues =
            plan.owner_lifos().into_iter().zip(plan.fifos()).zip(&plan.queues).map(queue).map(Padded).collect();
        SharedQueues { queues, tokens }
    }

    /// Puts a task. Gives it back if the queue is full, or there is no memory for a longer one: the caller runs it.
    /// Only the owner may put into its own queue.
    pub fn push(&self, queue: QueueId, task: TaskRef) -> Result<(), TaskRef> {
        match &self.queues[queue.index()].0 {
            SharedQueue::Own { deque, .. } => {
                deque.push(task)?;
                // The owner may not look here again for long.
                deque.share(true);
                Ok(())
            }
            SharedQueue::Fifo(fifo) => fifo.push(task),
            SharedQueue::Locked { queue, len, capacity } => {
                let mut queue = queue.lock();
                if queue.len() >= *capacity || !queue.reserve_one() {
                    return Err(task);
                }
                queue.push(task.header().request, task);
                len.store(queue.len(), Ordering::Release);
                drop(queue);
                if let Some(tokens) = &self.tokens {
                    // Release: the holder of the token finds the task, or another's.
                    tokens.count.0.fetch_add(1, Ordering::AcqRel);
                }
                Ok(())
            }
        }
    }

    /// Whether a seat just used this queue, if it is one where seats wait for one another. A queue with a lock for each
    /// end never counts.
    #[inline]
    pub(crate) fn is_in_use(&self, queue: QueueId) -> bool {
        match &self.queues[queue.index()].0 {
            SharedQueue::Locked { queue, .. } => queue.is_held(),
            SharedQueue::Own { .. } | SharedQueue::Fifo(_) => false,
        }
    }

    /// Calls `f` while this thread uses a queue behind a lock.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn hold<R>(&self, queue: QueueId, f: impl FnOnce() -> R) -> R {
        let SharedQueue::Locked { queue, .. } = &self.queues[queue.index()].0 else { panic!("it has no lock") };
        let _held = queue.lock();
        f()
    }

    /// The oldest task of a locked queue, if it is wanted. The plan has no tokens.
    #[inline]
    pub fn take_oldest_if(&self, queue: QueueId, wanted: impl FnOnce(&TaskRef) -> bool) -> Option<TaskRef> {
        debug_assert!(self.tokens.is_none(), "a token goes with each task");
        match &self.queues[queue.index()].0 {
            SharedQueue::Fifo(fifo) => fifo.take_if(wanted),
            _ => self.locked(queue, |tasks| tasks.take_oldest_if(wanted)).flatten(),
        }
    }

    /// Whether a locked queue was empty at a moment since this was called.
    #[inline]
    pub fn looks_empty(&self, queue: QueueId) -> bool {
        match &self.queues[queue.index()].0 {
            SharedQueue::Fifo(fifo) => fifo.looks_empty(),
            _ => self.len(queue) == 0,
        }
    }

    /// Whether a locked queue is so long that a new thread had better begin at once: see `LONG` in
    /// `worlds/threads/src/spawn/mod.rs`.
    #[inline]
    pub fn is_long(&self, queue: QueueId, tasks: usize) -> bool {
        match &self.queues[queue.index()].0 {
            // Reading its length would touch lines written by other seats.
            SharedQueue::Fifo(fifo) => fifo.look_long(),
            _ => self.len(queue) >= tasks,
        }
    }

    /// Whether there are more tokens than their pool holds: the seat with the last push then takes a task itself.
    #[inline]
    pub(crate) fn is_overfull(&self) -> bool {
        self.tokens.as_ref().is_some_and(|tokens| tokens.count.0.load(Ordering::Relaxed) > tokens.capacity)
    }

    /// Takes a token, if there is one or the plan has none. The caller then takes a task under the queue's lock.
    #[inline]
    fn take_token(&self) -> bool {
        self.tokens.as_ref().is_none_or(|tokens| {
            tokens.count.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1)).is_ok()
        })
    }

    /// How many tasks a queue held a moment ago.
    pub(crate) fn len(&self, queue: QueueId) -> usize {
        match &self.queues[queue.index()].0 {
            SharedQueue::Own { deque, .. } => deque.len(),
            SharedQueue::Fifo(fifo) => fifo.len(),
            SharedQueue::Locked { len, .. } => len.load(Ordering::Acquire),
        }
    }

    /// Takes every task selected by `is_unwanted` out of the locked queues, and hands them to `dropped`.
    pub(crate) fn sweep_locked(
        &self,
        request: RequestId,
        is_unwanted: impl Fn(&TaskRef) -> bool,
        mut dropped: impl FnMut(TaskRef),
    ) {
        for queue in 0..self.queues.len() {
            // A task whose token another thread holds is left for this thread.
            let goes = |task: &TaskRef| is_unwanted(task) && self.take_token();
            self.locked(QueueId::new(queue), |tasks| tasks.sweep(request, goes, &mut dropped));
        }
    }

    /// Takes this task out of a locked queue, if it is still there and there is a token for it.
    pub(crate) fn remove(&self, queue: QueueId, task: TaskRef) -> bool {
        let request = task.header().request;
        let goes = |other: &TaskRef| *other == task && self.take_token();
        self.locked(queue, |tasks| tasks.remove(request, End::Youngest, goes)).flatten().is_some()
    }

    /// Calls `change` on a locked queue with tasks.
    #[inline]
    fn locked<R>(&self, queue: QueueId, change: impl FnOnce(&mut Queue<TaskRef>) -> R) -> Option<R> {
        let (queue, len) = match &self.queues[queue.index()].0 {
            SharedQueue::Own { .. } => return None,
            SharedQueue::Fifo(fifo) => return fifo.change(change),
            SharedQueue::Locked { queue, len, .. } => (queue, len),
        };
        if len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut queue = queue.lock();
        let result = change(&mut queue);
        len.store(queue.len(), Ordering::Release);
        Some(result)
    }

    /// The queue, if it is a lock-free one.
    pub(crate) fn deque(&self, queue: QueueId) -> Option<&Deque> {
        match &self.queues[queue.index()].0 {
            SharedQueue::Own { deque, .. } => Some(deque),
            SharedQueue::Fifo(_) | SharedQueue::Locked { .. } => None,
        }
    }

    /// A seat's own lock-free queues, as given by the strategy.
    pub(crate) fn own(&self, seat: SeatId) -> impl Iterator<Item = &Deque> {
        self.queues.iter().filter_map(move |queue| match &queue.0 {
            SharedQueue::Own { owner, deque } if *owner == seat => Some(&**deque),
            _ => None,
        })
    }
}

/// The queues as seen by one seat.
pub(crate) struct Reach<'a> {
    pub(crate) queues: &'a SharedQueues,
    pub(crate) seat: SeatId,
    /// The seat's own lock-free queue, if the plan gives it one.
    pub(crate) own: Option<&'a Deque>,
    /// For a seat's last look before it sleeps: it also finds other seats' private tasks.
    pub(crate) last: Option<&'a Barrier>,
    /// For a seat that may only begin tasks below this context, the waiting tied task's ([`Context::is_below`]).
    pub(crate) below: Option<&'a Context>,
    /// A task taken out of another seat's queue without the right to begin it. The caller puts it into an entry queue.
    pub(crate) refused: Option<TaskRef>,
}

impl Reach<'_> {
    /// A task of the seat's own queue, if it may begin it. Those below it are older, and may not be begun either.
    #[cold]
    fn pop_below(own: &Deque, may_begin: impl Fn(&TaskRef) -> bool) -> Option<TaskRef> {
        let task = own.pop()?;
        if may_begin(&task) {
            return Some(task);
        }
        own.push(task).unwrap_or_else(|_| unreachable!("its place is free"));
        None
    }
}

/// Whether a task descends from the owner of this context.
#[cold]
fn is_below(task: &TaskRef, context: &Context) -> bool {
    #[expect(unsafe_code, reason = "follows a pointer")]
    // SAFETY: the task is queued or was just taken, so it is still counted in its context.
    let own = unsafe { task.header().context.get() };
    own.is_some_and(|own| own.is_below(context))
}

impl Queues for Reach<'_> {
    type Task = TaskRef;

    #[inline]
    fn take(&mut self, queue: QueueId, take: Take, longer_than: u32, rest_to: Option<QueueId>) -> Option<TaskRef> {
        match &self.queues.queues[queue.index()].0 {
            SharedQueue::Own { deque, .. } if longer_than > 0 && deque.len() <= longer_than as usize => None,
            SharedQueue::Own { owner, deque } if *owner == self.seat => match self.below {
                None if take == Take::Oldest => {
                    deque.share(true);
                    deque.steal().or_else(|| deque.pop())
                }
                None => deque.pop(),
                Some(_) => Reach::pop_below(deque, |task| self.may_begin(task)),
            },
            SharedQueue::Own { .. } if self.refused.is_some() => None,
            SharedQueue::Own { deque, .. } => {
                let task = self.last.map_or_else(|| deque.steal(), |barrier| deque.steal_held(barrier))?;
                if self.may_begin(&task) {
                    return Some(task);
                }
                self.refused = Some(task);
                None
            }
            // `take_of` finds them, by a look at each.
            SharedQueue::Fifo(_) | SharedQueue::Locked { .. } if self.below.is_some() => None,
            SharedQueue::Fifo(fifo) if longer_than > 0 && fifo.len() <= longer_than as usize => None,
            SharedQueue::Fifo(fifo) => {
                debug_assert_eq!(take, Take::Oldest, "Plan::fifos");
                fifo.take_if(|_| true)
            }
            SharedQueue::Locked { len, .. } if len.load(Ordering::Acquire) <= longer_than as usize => None,
            SharedQueue::Locked { queue: locked, len, .. } => {
                let mut rest = Vec::new();
                let task = {
                    let mut queue = locked.lock();
                    if queue.len() <= longer_than as usize || !self.queues.take_token() {
                        return None;
                    }
                    let task = queue.take(take, &mut rest);
                    len.store(queue.len(), Ordering::Release);
                    task
                };
                for (_, task) in rest {
                    let to = rest_to.expect("a probe that takes several says where the rest goes");
                    if let Err(task) = self.queues.push(to, task) {
                        // A ring may be smaller than the batch: refused tasks go back.
                        self.queues
                            .push(queue, task)
                            .expect("a queue from which several tasks are taken has no capacity");
                    }
                }
                task
            }
        }
    }

    #[inline]
    fn take_own(&mut self, _: QueueId) -> Option<TaskRef> {
        let own = self.own?;
        match self.below {
            None => own.pop(),
            Some(_) => Reach::pop_below(own, |task| self.may_begin(task)),
        }
    }
}

impl QueuesByRequest for Reach<'_> {
    fn take_of(&mut self, request: RequestId, queue: QueueId, take: Take, longer_than: u32) -> Option<TaskRef> {
        let queues = self.queues;
        let take = |tasks: &mut Queue<TaskRef>| {
            // A token is only taken together with a task.
            let is_long = tasks.len() > longer_than as usize;
            let wanted = |task: &TaskRef| self.may_begin(task) && queues.take_token();
            is_long.then(|| tasks.remove(request, take.end(), wanted)).flatten()
        };
        queues.locked(queue, take).flatten()
    }

    fn take_own_of(&mut self, _: QueueId, request: RequestId) -> Option<TaskRef> {
        let own = self.own?;
        let is_its = |task: &TaskRef| task.header().request == request && self.may_begin(task);
        let youngest = own.pop()?;
        if is_its(&youngest) {
            return Some(youngest);
        }
        // Its tasks come to this end, so that the next look finds them at once.
        let mut all: Vec<TaskRef> = std::iter::once(youngest).chain(std::iter::from_fn(|| own.pop())).collect();
        all.reverse();
        all.sort_by_key(is_its);
        let found = all.pop_if(|task| is_its(task));
        for task in all {
            own.push(task).unwrap_or_else(|_| unreachable!("its place is free"));
        }
        own.share(true);
        found
    }

    #[inline]
    fn request_of(&self, task: &TaskRef) -> RequestId {
        task.header().request
    }

    #[inline]
    fn may_begin(&self, task: &TaskRef) -> bool {
        self.below.is_none_or(|context| is_below(task, context))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::ptr::NonNull;
    use std::sync::atomic::AtomicU8;
    use vicus_schedule::{ContextRef, Kind, Setting, TaskClass, TaskHeader, look};
    use vicus_topology::Topology;

    #[repr(C)]
    struct Job {
        header: TaskHeader,
        taken: AtomicU8,
    }

    #[expect(unsafe_code, reason = "the type of a class's functions")]
    // SAFETY of callers: no condition: it is never called.
    unsafe fn never(_: TaskRef) {
        unreachable!("these tasks are only taken");
    }

    static JOB: TaskClass = TaskClass { run: never, runs_inline: true, is_unwanted: None };

    fn task(job: &Job) -> TaskRef {
        #[expect(unsafe_code, reason = "a task for queues")]
        // SAFETY: the header is the job's first field; jobs outlive the queues of a test, and are never run.
        unsafe {
            TaskRef::new(NonNull::from(job).cast())
        }
    }

    /// Takes in each possible way: by a look, one of a whole request, a known one.
    fn take(queues: &SharedQueues, plan: &Plan, seat: usize, turn: usize, jobs: &[Job]) -> Option<TaskRef> {
        match turn % 5 {
            0 => {
                let known = task(&jobs[turn * 7919 % jobs.len()]);
                let mut all = (0..plan.queues.len()).map(QueueId::new);
                all.any(|queue| queues.remove(queue, known)).then_some(known)
            }
            1 => {
                let mut reach =
                    Reach { queues, seat: SeatId::new(seat), own: None, last: None, below: None, refused: None };
                let request = RequestId::new(turn as u64 % 3);
                let mut take = |queue| reach.take_of(request, QueueId::new(queue), Take::Oldest, 0);
                (0..plan.queues.len()).find_map(&mut take)
            }
            _ => {
                let mut reach =
                    Reach { queues, seat: SeatId::new(seat), own: None, last: None, below: None, refused: None };
                look(&plan.seats[seat].look, &mut [], &mut reach).map(|found| found.task)
            }
        }
    }

    #[test]
    fn every_token_finds_a_block_and_every_block_is_taken_once() {
        const THREADS: usize = 4;
        let machine = Topology::parse("node:2 core:2").unwrap();
        let plan = "locality-queues:capacity=8".parse::<Setting>().unwrap().plan(&machine, THREADS);
        let queues = SharedQueues::new(&plan);
        let header = |number: usize| TaskHeader {
            class: &JOB,
            context: ContextRef::NONE,
            request: RequestId::new(number as u64 % 3),
            number: number as u32,
            has_data: false,
        };
        let jobs: Vec<Job> =
            (0..20_000).map(|number| Job { header: header(number), taken: AtomicU8::new(0) }).collect();
        let is_even = |task: &TaskRef| task.header().number.is_multiple_of(2);
        let took = |task: TaskRef| {
            let at = (task.as_ptr().addr().get() - jobs.as_ptr().addr()) / size_of::<Job>();
            assert_eq!(jobs[at].taken.fetch_add(1, Ordering::Relaxed), 0, "task {at} was taken twice");
        };
        std::thread::scope(|scope| {
            for (seat, own) in jobs.chunks(jobs.len() / THREADS).enumerate() {
                let (queues, plan, jobs, took) = (&queues, &plan, &jobs, &took);
                scope.spawn(move || {
                    let place = plan.seats[seat].place[Kind::Deferred as usize];
                    for (turn, job) in own.iter().enumerate() {
                        assert!(queues.push(place, task(job)).is_ok(), "it has no capacity of its own");
                        // More than other threads push, or the tokens would only grow.
                        while queues.is_overfull() {
                            take(queues, plan, seat, turn + seat, jobs).into_iter().for_each(took);
                            take(queues, plan, seat, 2, jobs).into_iter().for_each(took);
                        }
                        if turn % 64 == seat {
                            queues.sweep_locked(RequestId::new(turn as u64 % 3), is_even, took);
                        }
                    }
                });
            }
        });
        let tokens = || queues.tokens.as_ref().unwrap().count.0.load(Ordering::Relaxed);
        let waiting = || (0..plan.queues.len()).map(|queue| queues.len(QueueId::new(queue))).sum::<usize>();
        assert_eq!(tokens(), waiting());
        while tokens() > 0 {
            let found = take(&queues, &plan, 3, 2, &jobs);
            took(found.expect("every token finds a block"));
        }
        assert_eq!(waiting(), 0, "every block has a token");
        assert!(jobs.iter().all(|job| job.taken.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn a_queue_is_in_use_while_a_seat_has_its_lock() {
        let machine = Topology::parse("node:1 core:2").unwrap();
        let plan = "vicus".parse::<Setting>().unwrap().plan(&machine, 2);
        let queues = SharedQueues::new(&plan);
        let [own, shared] = plan.seats[0].place;
        assert!(!queues.is_in_use(shared));
        assert!(queues.hold(shared, || queues.is_in_use(shared) && !queues.is_in_use(own)));
        assert!(!queues.is_in_use(shared));
    }
}
