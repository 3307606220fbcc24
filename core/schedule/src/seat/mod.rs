//! A seat: the decisions of a worker, as a value. It has no threads, no clock, no queues and no memory of tasks.
//!
//! A world reports events to it: a task was *found*, or *none*; a task was *spawned*, a push was *refused*, a task
//! begins to *wait* and *goes on*, the seat was *woken*. The seat answers with the next step: *run* this task, *put*
//! that one there, *wake* a seat for it, *pause*, *sleep*. A thread of worlds/machine and a virtual core of worlds/sim
//! act on the same seat, so a simulated seed can show a fault of it.
//!
//! A seat's sources of tasks, and their order: [`Sources::ORDER`]. No source keeps the ones behind it waiting for long:
//! the plan's *front* has a limit ([`FRONT_TURN_NS`]); after many tasks in a row out of its own queue, the first
//! probe's, the other probes have a turn ([`OWN_TURN`]), and so has a shared queue behind a shared first one. Tasks
//! begun on this seat and *suspended* come back to it and to no other: a *woken* one early, as its data is likely to be
//! in the seat's caches, for up to [`WOKEN_TURN`] in a row, and one that has *yielded* behind the kept tasks, for up to
//! [`YIELDED_TURN`].
//!
//! The hot path is [`Seat::find`] and [`Seat::activated`]: they allocate nothing.

mod placing;
mod rest;
mod sources;
mod threads;
mod turns;

pub use placing::{ActivatedBox, SpawnTarget};
pub use rest::Rest;
pub use threads::{EndOfWait, GoesOn, OtherSeats, goes_on_from_outside, next_open_seat};
pub use turns::TURN_NS;

use crate::front::{FRONT_RULE, FRONT_TAKE, FRONT_TURN_NS};
use crate::{
    FoundTask, Kind, Plan, Probe, QueueId, QueueScan, QueuesByRequest, RequestId, SeatId, SeatPlan, Take, Wake, Way,
    When, look, look_waiting,
};
use placing::Placing;
use rest::Resting;
use sources::{Ready, Source, Sources};
use std::collections::VecDeque;
use threads::Threads;
use turns::Turns;

/// The number of woken tasks in a row before the plan's queues have a turn.
pub const WOKEN_TURN: u32 = 64;

/// The number of yielded tasks that go on before a seat looks again into its queues after an empty look.
pub const YIELDED_TURN: u32 = 128;

/// Likewise for a seat whose first queue is shared with others: tasks from outside may lie in another one.
const YIELDED_TURN_OF_SHARED: u32 = 16;

/// The number of tasks in a row from its own lock-free queue before the plan's other probes have a turn, and, if these
/// find nothing, the oldest task of its own: tasks that spawn one another without end, each the youngest, would keep
/// the seat from both for ever.
pub const OWN_TURN: u32 = 1024;

/// The number of tasks on a stack without room for their spawned tasks: beyond it a full queue takes the task.
const DEEPEST: u32 = 64;

/// The state and the decisions of a seat. `T` is a task as the world's queues hold it.
#[derive(Debug)]
pub struct Seat<T> {
    id: SeatId,
    /// The seat it looks and pushes as: itself, except under a plan with unbound threads.
    stands: SeatId,
    /// The queue it looks into first.
    own: Own,
    /// The cursors of the plan's rings.
    cursors: Vec<usize>,
    /// The tasks at hand, and the sources of others.
    ready: Ready<T>,
    stack: Stack,
    resting: Resting,
    placing: Placing,
    front: Front,
    /// The turns of requests, while several run.
    turns: Turns,
    threads: Threads,
}

/// The queue a seat looks into first.
#[derive(Debug)]
struct Own {
    /// The lock-free queue for this seat's immediate tasks. The seat takes the youngest first (rule 1 of most
    /// strategies). `None` if the plan has no such queue.
    queue: Option<QueueId>,
    /// The way of a task out of that queue.
    way: Way,
    /// Whether it takes them while a task waits.
    while_waiting: bool,
    /// How many of the plan's probes only look into that queue: the first one, or none.
    probes: usize,
    /// How many tasks in a row it has taken out of that queue, or, without such a queue, out of its first one.
    in_row: u32,
    /// A seat without a queue of its own polls this queue first (oldest task first), if the plan names one; with the
    /// way of a task out of it.
    first: Option<(QueueId, Way)>,
    /// A queue that a seat without a queue of its own would not look into while its first one always has a task.
    hidden: Option<Hidden>,
}

/// A queue behind the one that a seat without a queue of its own takes from first.
#[derive(Clone, Copy, Debug)]
struct Hidden {
    first: QueueId,
    queue: QueueId,
    take: Take,
    way: Way,
}

/// The tasks beneath the running one.
#[derive(Debug, Default)]
struct Stack {
    /// The waiting tasks: each with the request whose tasks may run meanwhile, or `None` for any.
    waits: Vec<Option<RequestId>>,
    /// How many tasks run on top of spawners that found no room for them.
    helping: u32,
}

/// A seat's turn at the plan's front.
#[derive(Debug)]
struct Front {
    /// The plan's front.
    queue: Option<QueueId>,
    /// How long the seat has worked at tasks from there, in nanoseconds, since it last had another one.
    worked_ns: u64,
    /// Whether the seat leaves the front alone now.
    rests: bool,
}

/// The task that a seat runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextTask<T> {
    /// The task, to be run.
    pub task: T,
    /// How the seat got it.
    pub way: Way,
    /// The seat was woken for another task, and leaves that to another seat: see [`Seat::take_wake`].
    pub passes_wake_on: bool,
}

/// A seat's step after a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The seat wakes a sleeping seat for the task.
    Wake,
    /// The seat looks for a task as a free seat does ([`Seat::help`]), and runs it at once, on top of the spawner:
    /// there are more tokens than their pool holds.
    Help,
}

impl Own {
    /// `is_lock_free`: whether the world has made this queue a lock-free one.
    fn new(plan: &Plan, id: SeatId, is_lock_free: impl FnOnce(QueueId) -> bool) -> Own {
        let seat = &plan.seats[id.index()];
        let first = seat.look.first();
        // The queue for tasks that are no boxes, if boxes have another one.
        let of_seat = [seat.tasks, seat.place[Kind::Immediate as usize]];
        let immediate =
            first.and_then(|first| first.scan.queues().first()).copied().filter(|queue| of_seat.contains(queue));
        let queue =
            immediate.filter(|queue| plan.queues[queue.index()].owner == Some(id)).filter(|&queue| is_lock_free(queue));
        let is_only_one = first.is_some_and(|first| first.scan.queues().len() == 1);
        Own {
            queue,
            way: Way::new(first.map_or(0, |first| first.rule), queue.unwrap_or(seat.place[0])),
            while_waiting: first.is_some_and(|first| first.while_waiting),
            probes: usize::from(queue.is_some() && is_only_one),
            in_row: 0,
            first: if queue.is_none() { first_queue(plan, seat) } else { None },
            hidden: if queue.is_none() { Hidden::of(plan, seat) } else { None },
        }
    }
}

impl Hidden {
    /// The second of several queues of the first probe; with only one there, an entry that no seat looks into first.
    fn of(plan: &Plan, seat: &SeatPlan) -> Option<Hidden> {
        let is_plain = |probe: &Probe| probe.when == When::NotEmpty && probe.rest_to.is_none();
        let (first, others) = seat.look.split_first()?;
        let list = first.scan.queues();
        if !is_plain(first) || !matches!(first.scan, QueueScan::List(_)) {
            return None;
        }
        let hidden = |probe: &Probe, queue| {
            let way = Way::new(probe.rule, queue);
            Hidden { first: list[0], queue, take: probe.take, way }
        };
        if let Some(&second) = list.get(1) {
            return Some(hidden(first, second));
        }
        let is_first = |queue: &QueueId| {
            let mut firsts = plan.seats.iter().filter_map(|seat| seat.look.first());
            firsts.any(|first| first.scan.queues().contains(queue))
        };
        others.iter().filter(|probe| is_plain(probe)).find_map(|probe| {
            let entry = probe.scan.queues().iter().find(|queue| plan.entry.contains(queue) && !is_first(queue))?;
            Some(hidden(probe, *entry))
        })
    }
}

/// The queue of a seat's first probe, if the probe takes the oldest task of one queue at any length, and its way.
fn first_queue(plan: &Plan, seat: &SeatPlan) -> Option<(QueueId, Way)> {
    let first = seat.look.first()?;
    let &[queue] = first.scan.queues() else { return None };
    let is_plain = first.take == Take::Oldest && first.when == When::NotEmpty && plan.tokens.is_none();
    is_plain.then(|| (queue, Way::new(first.rule, queue)))
}

impl<T> Seat<T> {
    /// A new seat. `is_lock_free`: whether the world has made this queue a lock-free one ([`Plan::owner_lifos`]).
    pub fn new(plan: &Plan, id: SeatId, is_lock_free: impl FnOnce(QueueId) -> bool) -> Seat<T> {
        let own = Own::new(plan, id, is_lock_free);
        let mut sources = Sources::of(&[Source::Called, Source::Probes]);
        sources.set(Source::Front, plan.front().is_some());
        sources.set(Source::Own, own.queue.is_some());
        Seat {
            id,
            stands: id,
            own,
            cursors: vec![0; plan.cursors(id)],
            ready: Ready::new(sources),
            stack: Stack::default(),
            resting: Resting::new(plan.seats[id.index()].is_alone),
            placing: Placing::new(plan),
            front: Front { queue: plan.front(), worked_ns: 0, rests: false },
            turns: Turns::new(),
            threads: Threads::new(id),
        }
    }

    /// Its lock-free queue for immediate tasks, if the plan has one. The seat looks there before all queues named by
    /// the plan.
    pub fn own(&self) -> Option<QueueId> {
        self.own.queue
    }

    /// Whether this queue also takes immediate tasks that are no boxes.
    #[inline]
    pub fn takes_tasks(&self, plan: &Plan) -> bool {
        self.own.queue == Some(plan.seats[self.id.index()].tasks)
    }

    /// The way of a task out of that queue.
    #[inline]
    pub fn own_way(&self) -> Way {
        self.own.way
    }

    /// A seat without a queue of its own polls this queue first (oldest task first), if the plan names one; with the
    /// way of a task out of it.
    #[inline]
    pub fn first(&self) -> Option<(QueueId, Way)> {
        self.own.first
    }

    /// For unbound threads ([`Plan::roams`]): from now on it looks and pushes as that seat, whose queues are near the
    /// thread. It keeps the queues it owns, and sleeps in its own pool. So a push may wake it for a task it does not
    /// find there, and it looks as itself as well ([`Seat::find_at_home`]).
    #[inline]
    pub fn stand(&mut self, at: SeatId) {
        self.stands = at;
    }

    /// Like [`Seat::find`], for a seat that stands elsewhere and has found nothing there: looks as itself. `plan` is
    /// its own.
    #[cold]
    pub fn find_at_home<Q>(&mut self, plan: &SeatPlan, queues: Q) -> Option<NextTask<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let FoundTask { task, way } = self.look_beyond(self.waits_for(), plan, queues)?;
        self.resting.found();
        Some(NextTask { task, way, passes_wake_on: self.drop_own_wake(way) })
    }

    /// The seat it looks and pushes as.
    #[inline]
    pub fn stands(&self) -> SeatId {
        self.stands
    }

    /// A task to run. `plan` is that of the seat it stands as. `called` gives a task that no other seat may run.
    #[inline(always)]
    pub fn find<Q>(&mut self, plan: &SeatPlan, mut queues: Q, called: impl FnOnce() -> Option<T>) -> Option<NextTask<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        // Turns had theirs, and the wake is seen to with what is found.
        let mut left = self.ready.sources().without(Sources::of(&[Source::Turns, Source::Wake]));
        let found = 'found: {
            if left.take(Source::Front)
                && let Some(found) = self.find_front(&mut queues)
            {
                break 'found found;
            }
            if left.take(Source::Next)
                && let Some(found) = self.ready.take_next()
            {
                break 'found found;
            }
            if left.take(Source::Woken)
                && let Some(task) = self.ready.take_woken_in_turn()
            {
                break 'found FoundTask::kept(task);
            }
            if left.has(Source::Left) {
                // Woken tasks had their turns.
                self.ready.end_row();
            }
            if left.take(Source::Called)
                && let Some(task) = called()
            {
                break 'found FoundTask::kept(task);
            }
            if left.take(Source::Kept)
                && let Some(found) = self.ready.take_kept(|task| queues.may_begin(task))
            {
                break 'found found;
            }
            if left.take(Source::FirstQueue)
                && left.has(Source::Left)
                && let Some(found) = self.find_in_first_queues_turn(&mut queues)
            {
                break 'found found;
            }
            if left.take(Source::Yielded)
                && let Some(task) = self.ready.take_yielded_in_turn()
            {
                break 'found FoundTask::kept(task);
            }
            let is_own = left.take(Source::Own);
            let mut found = if is_own { self.find_own(self.waits_for(), &mut queues) } else { None };
            if found.is_none() && left.take(Source::Probes) {
                found = self.look_beyond(self.waits_for(), plan, &mut queues);
            }
            if left.has(Source::Left) {
                found = self.after_queues(found);
            }
            found?
        };
        Some(self.found(found))
    }

    /// The seat has found a task.
    #[inline(always)]
    fn found(&mut self, FoundTask { task, way }: FoundTask<T>) -> NextTask<T> {
        self.resting.found();
        if self.front.worked_ns > 0 && way.queue() != self.front.queue {
            self.front.worked_ns = 0;
        }
        NextTask { task, way, passes_wake_on: self.drop_own_wake(way) }
    }

    /// A task of its first queue, in that queue's turn between two yielded tasks.
    #[cold]
    fn find_in_first_queues_turn<Q>(&mut self, queues: &mut Q) -> Option<FoundTask<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        self.ready.end_first_queues_turn();
        let found = self.find_first_queue(queues)?;
        // Then a yielded task has its turn again: else two of the queue would begin for each of these.
        self.ready.allow_yielded(u32::from(self.own.first.is_some()));
        Some(found)
    }

    /// With suspended tasks left, gives yielded ones their turns after a look into the queues. Returns what was found
    /// there, or a suspended task.
    #[cold]
    fn after_queues(&mut self, found: Option<FoundTask<T>>) -> Option<FoundTask<T>> {
        let turns = if found.is_some() {
            1
        } else if self.own.queue.is_some() {
            YIELDED_TURN
        } else if self.own.first.is_some() && self.waits_for().is_none() {
            YIELDED_TURN_OF_SHARED
        } else {
            1
        };
        self.ready.set_yielded_turns(turns);
        found.or_else(|| self.ready.take_left().map(FoundTask::kept))
    }

    /// A task of its first queue.
    fn find_first_queue<Q>(&mut self, queues: &mut Q) -> Option<FoundTask<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        match self.own.first {
            None => self.find_own(self.waits_for(), queues),
            Some((queue, way)) if self.waits_for().is_none() => {
                Some(FoundTask { task: queues.take(queue, Take::Oldest, 0, None)?, way })
            }
            Some(_) => None,
        }
    }

    /// A suspended task of this seat was woken: it goes on soon.
    #[inline]
    pub fn woke(&mut self, task: T) {
        self.ready.push_woken(task);
    }

    /// Takes all woken tasks that have not gone on yet.
    pub fn take_woken(&mut self) -> VecDeque<T> {
        self.ready.take_all_woken()
    }

    /// Whether suspended tasks have to go on.
    pub fn has_resumed(&self) -> bool {
        self.ready.has(Source::Left)
    }

    /// How many woken ones have not gone on yet.
    #[inline]
    pub fn woken_count(&self) -> usize {
        self.ready.woken_count()
    }

    /// A task of this seat has suspended itself to let others go first.
    #[inline]
    pub fn yielded(&mut self, task: T) {
        self.ready.push_yielded(task);
    }

    /// Whether the own queue is the next source, called tasks aside: a world may then pop it directly.
    #[inline]
    pub fn is_own_next(&self) -> bool {
        let asked = self.ready.sources().without(Sources::of(&[Source::Called]));
        let is_next = asked.has_first(Source::Own) || asked.has_first(Source::FirstQueue) && asked.has(Source::Own);
        is_next && self.may_take_own(self.waits_for())
    }

    /// Like [`Seat::is_own_next`], for a seat without such a queue: whether [`Seat::find`] would take a task found by
    /// the plan's probes.
    #[inline]
    pub fn is_look_next(&self) -> bool {
        let asked = self.ready.sources().without(Sources::of(&[Source::Called, Source::FirstQueue]));
        asked.has_first(Source::Probes) && self.waits_for().is_none()
    }

    /// A task was taken from its own queue, by [`Seat::is_own_next`].
    #[inline]
    pub fn took_own(&mut self) {
        self.ready.end_first_queues_turn();
        self.own.in_row = self.own.in_row.saturating_add(1);
    }

    /// The next suspended task to go on, if one has its turn: as [`Seat::find`] would give it, for a world that goes
    /// from one to the next and looks only into the seat's first queue. It ends with `None` after a while.
    #[inline]
    pub fn next_resumed(&mut self, is_first_empty: impl FnOnce() -> bool) -> Option<T> {
        const ASKED: Sources =
            Sources::of(&[Source::Turns, Source::Woken, Source::Kept, Source::FirstQueue, Source::Yielded]);
        let mut left = self.ready.sources().among(ASKED);
        if left.take(Source::Turns) {
            return None;
        }
        if left.take(Source::Woken)
            && let Some(task) = self.ready.take_woken_in_turn()
        {
            return Some(task);
        }
        // Otherwise a yielding task would have no turn while others are woken again and again.
        if left.take(Source::Kept) || left.take(Source::FirstQueue) && !is_first_empty() {
            return None;
        }
        if left.take(Source::Yielded) { self.ready.take_yielded_in_turn() } else { None }
    }

    /// A task from the front, before all else. A seat with a waiting task finds those of its request by the plan's last
    /// probe.
    #[inline]
    fn find_front<Q>(&mut self, queues: &mut Q) -> Option<FoundTask<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let queue = self.front.queue?;
        if self.front.worked_ns >= FRONT_TURN_NS || self.front.rests || self.waits_for().is_some() {
            return None;
        }
        Some(FoundTask { task: queues.take(queue, FRONT_TAKE, 0, None)?, way: Way::new(FRONT_RULE, queue) })
    }

    /// Reports the time spent on a task from the front.
    pub fn worked_at_front(&mut self, ns: u64) {
        self.front.worked_ns = self.front.worked_ns.saturating_add(ns);
    }

    /// Drops the wake for the found task's queue. Returns whether the seat was woken for another task, and is still to
    /// leave that to another seat.
    #[inline]
    fn drop_own_wake(&mut self, way: Way) -> bool {
        self.ready.has(Source::Wake) && self.ready.keep_others_wake(way)
    }

    /// Like [`Seat::find`], for a seat whose push has made more tokens than their pool holds ([`After::Help`]). It
    /// finds nothing if other seats were quicker; then the pool has room as well.
    #[cold]
    pub fn help<Q>(&mut self, plan: &SeatPlan, mut queues: Q) -> Option<FoundTask<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        self.find_own(None, &mut queues).or_else(|| self.look_beyond(None, plan, queues))
    }

    /// The way of most tasks, without a detour through the plan. The first probe takes the same, since this queue is
    /// the owner's at its young end (`Plan::owner_lifos`).
    #[inline]
    fn find_own<Q>(&mut self, waiting: Option<RequestId>, queues: &mut Q) -> Option<FoundTask<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let own = self.own.queue?;
        if !self.may_take_own(waiting) {
            return None;
        }
        let task = queues.take_own(own)?;
        self.own.in_row = self.own.in_row.saturating_add(1);
        Some(FoundTask { task, way: self.own.way })
    }

    /// Whether its own queue has its turn, for a seat that waits for tasks of this request or is free.
    #[inline]
    fn may_take_own(&self, waiting: Option<RequestId>) -> bool {
        (self.own.while_waiting || waiting.is_none()) && !self.is_others_turn()
    }

    /// Whether its own queue has had its turn, so it looks elsewhere first. Never on a stack where tasks wait for some
    /// tasks alone, or several do: with older tasks on top of those, it would grow.
    #[inline]
    fn is_others_turn(&self) -> bool {
        self.own.in_row >= OWN_TURN && self.stack.waits.len() <= 1 && self.waits_for().is_none()
    }

    /// Like [`Seat::look_far`], behind its own queue, and then for the oldest task there if others have had their turn.
    fn look_beyond<Q>(&mut self, waiting: Option<RequestId>, plan: &SeatPlan, mut queues: Q) -> Option<FoundTask<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let Some(own) = self.own.queue else { return self.look_fairly(waiting, plan, queues) };
        let found = self.look_far(waiting, plan, &mut queues);
        let was_others_turn = self.is_others_turn();
        self.own.in_row = 0;
        if found.is_some() || !was_others_turn {
            return found;
        }
        Some(FoundTask { task: queues.take(own, Take::Oldest, 0, None)?, way: self.own.way })
    }

    /// Like [`Seat::look_far`], for a seat without a queue of its own. A hidden queue has a turn after many tasks in a
    /// row out of the first one.
    fn look_fairly<Q>(&mut self, waiting: Option<RequestId>, plan: &SeatPlan, mut queues: Q) -> Option<FoundTask<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let is_others_turn = self.is_others_turn();
        let Some(Hidden { first, queue, take, way }) = self.own.hidden else {
            return self.look_far(waiting, plan, queues);
        };
        if is_others_turn {
            self.own.in_row = 0;
            if let Some(task) = queues.take(queue, take, 0, None) {
                return Some(FoundTask { task, way });
            }
        }
        let found = self.look_far(waiting, plan, queues);
        let is_first = found.as_ref().is_some_and(|found| found.way.queue() == Some(first));
        self.own.in_row = if is_first { self.own.in_row.saturating_add(1) } else { 0 };
        found
    }

    /// Looks into queues: for tasks of this request, as a seat with a waiting task, or for any.
    #[inline(never)]
    fn look_far<Q>(&mut self, waiting: Option<RequestId>, plan: &SeatPlan, mut queues: Q) -> Option<FoundTask<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let is_asked = self.own.while_waiting || waiting.is_none();
        let probes = &plan.look[if is_asked { self.own.probes } else { 0 }..];
        match waiting {
            Some(request) => look_waiting(probes, &mut self.cursors, &mut queues, request, self.stack.waits.len()),
            None => look(probes, &mut self.cursors, &mut queues),
        }
    }

    /// The seat has found nothing for `idle_ns` by now. If it was woken, other seats were quicker.
    pub fn none(&mut self, plan: &SeatPlan, idle_ns: u64) -> Rest {
        self.ready.set_wake(None);
        self.resting.none(plan, self.stack.waits.last().copied(), idle_ns)
    }

    /// Like [`Seat::none`], for a seat with a waiting task whose wake may miss it: it sleeps for a millisecond at most,
    /// and looks again. So do the seats of a team, where a spawner does not know which of them may begin its task and
    /// may wake another one; and a thread that unwinds on a stack of its own, since a wake goes to the code there.
    pub fn none_unsure(&mut self, plan: &SeatPlan, idle_ns: u64) -> Rest {
        match self.none(plan, idle_ns) {
            Rest::Sleep { sleeper, .. } => Rest::Sleep { sleeper, at_most_ns: Some(rest::UNSURE_NS) },
            rest => rest,
        }
    }

    /// The seat does not sleep any more. `slept_ns`: the length of its sleep; `None`: it has found a task in its last
    /// look. `wake`: the task it was chosen for, if any.
    ///
    /// If the seat has its PU to itself, and the sleep was not longer than 0.05 ms, the seat looks around for at least
    /// twice that time, and 0.05 ms at most, before it sleeps again; after a longer sleep for its plan's time.
    /// `has_threads`: lightweight threads wait that only this seat can go on with; then 0.3 ms take the place of 0.05
    /// ms.
    pub fn woken(&mut self, wake: Option<Wake>, slept_ns: Option<u64>, has_threads: bool) {
        self.ready.set_wake(wake);
        if let Some(slept_ns) = slept_ns {
            self.resting.slept(slept_ns, has_threads);
        }
    }

    /// The seat does something else than the task it was woken for: another seat is to be woken for that task, if there
    /// is one.
    #[inline]
    pub fn take_wake(&mut self) -> Option<Wake> {
        self.ready.take_wake()
    }

    /// The running task begins to wait: meanwhile tasks of this request run on top of it, or with `None` any.
    pub fn begin_wait(&mut self, request: Option<RequestId>) {
        self.stack.waits.push(request);
        self.resting.wait_changes();
    }

    /// From now on any task may run on top of the waiting task.
    pub fn widen_wait(&mut self) {
        if let Some(waiting) = self.stack.waits.last_mut() {
            *waiting = None;
        }
    }

    /// Whether a task waits on its stack.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        !self.stack.waits.is_empty()
    }

    /// The request whose tasks may run on top of the waiting task; `None`: any may, or no task waits.
    #[inline]
    pub fn waits_for(&self) -> Option<RequestId> {
        self.stack.waits.last().copied().flatten()
    }

    /// The awaited task is over. Gives the seat's next task, to be put into its queue without [`Seat::activated`]:
    /// other seats can't see it, and the waiting task may run on for long.
    pub fn end_wait(&mut self) -> Option<(T, QueueId)> {
        self.stack.waits.pop().expect("a task that goes on has waited");
        let FoundTask { task, way } = self.ready.take_next()?;
        Some((task, way.queue().expect("the next task has a queue")))
    }

    /// The seat's step after a push. `runs_inline`: whether the task may run on top of its spawner. `is_overfull`:
    /// whether there are more tokens than their pool holds.
    #[inline]
    pub fn pushed(&self, runs_inline: bool, is_overfull: bool) -> After {
        if is_overfull && runs_inline && self.stack.helping < DEEPEST { After::Help } else { After::Wake }
    }

    /// A full queue has refused a task. Then the seat works at once (Wittmann and Hager, §2): it runs the returned task
    /// on top of its spawner. If the task is a box, the seat keeps it and runs it when the present task has ended.
    pub fn refused(&mut self, task: T, runs_inline: bool) -> Option<T> {
        if runs_inline && self.stack.helping < DEEPEST {
            return Some(task);
        }
        self.ready.keep(task);
        None
    }

    /// The seat will run this task itself, when it next looks for one.
    pub fn keep(&mut self, task: T) {
        self.ready.keep(task);
    }

    /// A task begins to run on top of its spawner, because there was no room for it.
    pub fn begin_help(&mut self) {
        self.stack.helping += 1;
    }

    /// The refused task has ended.
    pub fn end_help(&mut self) {
        self.stack.helping -= 1;
    }

    /// Takes a kept task back. Returns whether the seat had it.
    #[inline]
    pub fn take_back(&mut self, task: &T) -> bool
    where
        T: PartialEq,
    {
        self.ready.has(Source::Kept) && self.ready.take_kept_if(|kept| kept == task).is_some()
    }

    /// Gives the tasks only this seat would run, in this order, for queues of other seats: its thread leaves, or is
    /// about to block.
    pub fn take_private(&mut self) -> Vec<T> {
        self.ready.take_private()
    }
}
