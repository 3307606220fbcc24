//! A seat: what a worker decides, as a value. It has no threads, no clock, no queues and no memory of tasks.
//!
//! A world tells it what happens: a task was *found*, or *none*; a task was *spawned*, a push was *refused*, a task begins to *wait* and
//! *goes on*, the seat was *woken*. It answers what is to be done: *run* this task, *put* that one there, *wake* a seat for it, *pause*,
//! *sleep*. A thread of worlds/machine and a virtual core of worlds/sim act on the same seat, so that a fault of it can be found by
//! a simulated seed.
//!
//! The order in which a seat comes by its tasks:
//!
//! 1. its *next* task: the last immediate box that its last invocation activated;
//! 2. what it was *called* for: tasks that no other seat may run;
//! 3. what it has *kept*: tasks that a full queue refused, and those that it spawned on a deep stack;
//! 4. the plan's probes.
//!
//! The hot path is [`Seat::find`] and [`Seat::activated`]: they allocate nothing.

use crate::{
    Access, DEEP, Dealing, Dealt, Found, Idle, Kind, Plan, QueueId, QueuesByRequest, RequestId, SeatId, SeatPlan,
    Shares, Sleeper, Wake, Way, Whereabouts, look, look_waiting,
};
use vicus_topology::NodeId;

/// How long a waiting seat looks around before it sleeps, if the strategy has no such time.
const SPIN_NS: u64 = 5_000;

/// A shorter pause costs less than to say that others may end it.
const SHORT_NS: u64 = 50_000;

/// So many tasks, each of which found no room for what it spawned, may stand on a stack: after that there has to be room.
const DEEPEST: u32 = 64;

/// What a seat knows and decides. `T` is a task as the world's queues hold it.
#[derive(Debug)]
pub struct Seat<T> {
    id: SeatId,
    /// The lock-free queue into which this seat puts immediate tasks and from which it takes the youngest first (rule 1 of
    /// most strategies), if the plan has such a queue.
    own: Option<QueueId>,
    /// How it comes by a task of that queue.
    own_way: Way,
    /// Whether it takes them while a task waits.
    own_while_waiting: bool,
    /// How many of the plan's probes ask that queue and no other: the first one, or none.
    own_probes: usize,
    /// Of the plan's rings.
    cursors: Vec<usize>,
    /// The task to run next: it would be pushed to the own queue and popped again at once. No other seat sees it there; it is run before
    /// anything else is looked for.
    next: Option<Found<T>>,
    /// Tasks that this seat runs itself, the youngest first.
    kept: Vec<T>,
    /// The tasks that wait on its stack: each with the request whose tasks may run meanwhile, or `None` for any.
    waits: Vec<Option<RequestId>>,
    /// How many tasks run on its stack on top of others that found no room for what they spawned.
    helping: u32,
    /// The last pause of a seat that backs off, in nanoseconds; 0 after every success.
    pause_ns: u64,
    /// For what it was woken, until it has looked.
    woken: Option<Wake>,
    /// How many tasks it has spawned that name a place, so that those for one place go to its queues in turn.
    sent: usize,
    /// How many tasks that name no place it has dealt in turn. Counted apart: where every second task names a place, the others
    /// still go to every queue.
    turn: usize,
    /// For the bytes of a task by location.
    shares: Shares,
}

/// A task that a seat has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<T> {
    /// To be run.
    pub task: T,
    /// How the seat came by it.
    pub way: Way,
    /// The seat was woken for another task, and leaves that to another seat: see [`Seat::passes_on`].
    pub leaves: bool,
}

/// Where a seat puts a task that it has spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// Nowhere: it keeps the task, and runs it itself ([`Seat::keep`]).
    Keep,
    /// Into this queue, as a task of this kind.
    Into(QueueId, Kind),
}

/// What a seat does after a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It wakes a sleeping seat for the task.
    Wake,
    /// It looks for a task as a free seat does ([`Seat::help`]), and runs that at once, on top of the one that has spawned: there are
    /// more tokens than their pool holds.
    Help,
}

/// What a seat does that has found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It looks again, until it has looked for so long in vain.
    Look {
        /// In nanoseconds, since it has found nothing first.
        until_ns: u64,
    },
    /// It looks again after a pause that is too short to be ended by a push.
    Pause {
        /// In nanoseconds.
        ns: u64,
    },
    /// It announces itself, looks for the last time, and sleeps until it is woken.
    Sleep {
        /// What it would take.
        sleeper: Sleeper,
        /// It sleeps no longer than this, in nanoseconds.
        at_most_ns: Option<u64>,
    },
}

impl<T> Seat<T> {
    /// A seat that has done nothing yet. `is_lock_free`: whether the world has made a lock-free queue of this one
    /// ([`Plan::owner_lifos`]).
    pub fn new(plan: &Plan, id: SeatId, is_lock_free: impl FnOnce(QueueId) -> bool) -> Seat<T> {
        let seat = &plan.seats[id.index()];
        let immediate = seat.place[Kind::Immediate as usize];
        let first = seat.look.first();
        let is_first = first.is_some_and(|first| first.scan.queues().first() == Some(&immediate));
        let own = (is_first && plan.queues[immediate.index()].owner == Some(id) && is_lock_free(immediate))
            .then_some(immediate);
        let is_alone = first.is_some_and(|first| first.scan.queues().len() == 1);
        Seat {
            id,
            own,
            own_way: Way::new(first.map_or(0, |first| first.rule), immediate),
            own_while_waiting: first.is_some_and(|first| first.while_waiting),
            own_probes: usize::from(own.is_some() && is_alone),
            cursors: vec![0; plan.cursors(id)],
            next: None,
            kept: Vec::new(),
            waits: Vec::new(),
            helping: 0,
            pause_ns: 0,
            woken: None,
            sent: 0,
            turn: 0,
            shares: Shares::default(),
        }
    }

    /// Its lock-free queue for immediate tasks, if the plan has one. What it puts there it finds before anything that the plan names.
    pub fn own(&self) -> Option<QueueId> {
        self.own
    }

    /// How it comes by a task of that queue.
    #[inline]
    pub fn own_way(&self) -> Way {
        self.own_way
    }

    /// A task to run. `called` gives a task that no other seat may run.
    #[inline]
    pub fn find<Q>(&mut self, plan: &SeatPlan, queues: &mut Q, called: impl FnOnce() -> Option<T>) -> Option<Run<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let (task, way) = if let Some(next) = self.next.take() {
            (next.task, Way::new(next.rule, next.queue))
        } else if let Some(task) = called().or_else(|| self.kept.pop()) {
            (task, Way::KEPT)
        } else if let Some(task) = self.find_own(self.waits_for(), queues) {
            (task, self.own_way)
        } else {
            self.look_far(self.waits_for(), plan, queues)?
        };
        self.pause_ns = 0;
        Some(Run { task, way, leaves: self.woken.is_some() && self.leaves_task(way) })
    }

    /// Whether a seat that was woken for a task has found another one.
    #[cold]
    fn leaves_task(&mut self, way: Way) -> bool {
        self.woken.take_if(|wake| way.queue() == Some(wake.queue)).is_none()
    }

    /// As [`Seat::find`], for a seat whose push has made more tokens than their pool holds ([`After::Help`]). It finds nothing if other
    /// seats were quicker; then there is room as well.
    #[cold]
    pub fn help<Q>(&mut self, plan: &SeatPlan, queues: &mut Q) -> Option<(T, Way)>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let own = self.find_own(None, queues).map(|task| (task, self.own_way));
        own.or_else(|| self.look_far(None, plan, queues))
    }

    /// What most looks find, without the detour by the plan. The first probe takes the same, since the plan says that this queue
    /// is the owner's at its young end (`Plan::owner_lifos`).
    #[inline]
    fn find_own<Q>(&mut self, waiting: Option<RequestId>, queues: &mut Q) -> Option<T>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let own = self.own?;
        if self.own_while_waiting || waiting.is_none() { queues.take_own(own) } else { None }
    }

    /// Looks into queues: for tasks of this request, as a seat whose task waits, or for any.
    #[inline(never)]
    fn look_far<Q>(&mut self, waiting: Option<RequestId>, plan: &SeatPlan, queues: &mut Q) -> Option<(T, Way)>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let is_asked = self.own_while_waiting || waiting.is_none();
        let probes = &plan.look[if is_asked { self.own_probes } else { 0 }..];
        let found = match waiting {
            Some(request) => look_waiting(probes, &mut self.cursors, queues, request, self.waits.len()),
            None => look(probes, &mut self.cursors, queues),
        };
        let found = found?;
        Some((found.task, Way::new(found.rule, found.queue)))
    }

    /// The seat has looked and found nothing, for so long by now. If it was woken, other seats were quicker.
    pub fn none(&mut self, plan: &SeatPlan, idle_ns: u64) -> Rest {
        self.woken = None;
        let waiting = self.waits.last().copied();
        let spin_ns = match (plan.idle, waiting) {
            (Idle::Sleep { spin_ns }, _) => spin_ns.into(),
            (Idle::BackOff { .. }, Some(_)) => SPIN_NS,
            (Idle::BackOff { .. }, None) => 0,
        };
        if idle_ns < spin_ns {
            return Rest::Look { until_ns: spin_ns };
        }
        let pause_ns = if waiting.is_none() { self.next_pause(plan) } else { None };
        match pause_ns {
            Some(ns) if ns < SHORT_NS => Rest::Pause { ns },
            at_most_ns => {
                Rest::Sleep { sleeper: waiting.flatten().map_or(Sleeper::Free, Sleeper::Waiting), at_most_ns }
            }
        }
    }

    /// How long a seat that backs off pauses now. `None`: it sleeps until it is woken, since the strategy has no pauses, or since
    /// the longest one was in vain. A push that makes a queue long enough for it wakes it ([`Plan::wake_one`]).
    fn next_pause(&mut self, plan: &SeatPlan) -> Option<u64> {
        let Idle::BackOff { first_ns, factor, max_ns } = plan.idle else { return None };
        let longest = u64::from(max_ns.max(first_ns).max(1));
        if self.pause_ns >= longest {
            return None;
        }
        let next = self.pause_ns.saturating_mul(u64::from(factor)).max(u64::from(first_ns));
        self.pause_ns = next.clamp(1, longest);
        Some(self.pause_ns)
    }

    /// The seat does not sleep any more, or has found something in its last look: it was chosen for this, if for anything.
    pub fn woken(&mut self, wake: Option<Wake>) {
        self.woken = wake;
    }

    /// The seat turns to something else than what it was woken for: another seat is to be woken for that, if it was for anything.
    #[inline]
    pub fn passes_on(&mut self) -> Option<Wake> {
        self.woken.take()
    }

    /// The task that runs begins to wait: meanwhile tasks of this request run on top of it, or with `None` any.
    pub fn waits(&mut self, request: Option<RequestId>) {
        self.waits.push(request);
    }

    /// Of which request the tasks are that may run on top of the one that waits; `None`: any, or no task waits.
    #[inline]
    pub fn waits_for(&self) -> Option<RequestId> {
        self.waits.last().copied().flatten()
    }

    /// What the task waited for is over. Gives the seat's next task, to be put where it would be without [`Seat::activated`]: others can't
    /// see it, and the task that waited may run on for long.
    pub fn goes_on(&mut self) -> Option<(T, QueueId)> {
        self.waits.pop().expect("a task that goes on has waited");
        self.next.take().map(|next| (next.task, next.queue))
    }

    /// Whether so many tasks wait on its stack that it keeps what it spawns.
    #[inline]
    fn is_deep(&self) -> bool {
        self.waits.len() >= DEEP
    }

    /// Where the seat puts a task that it has spawned, that names no place, and that its own lock-free queue does not take.
    ///
    /// On a deep stack it keeps the task. The queue's youngest task might be one that another seat has just spawned, and the task that waits
    /// for this one would run it on top of itself, and the next one on top of that: the stack would grow with their number.
    pub fn place(&mut self, plan: &Plan, kind: Kind) -> Put {
        if self.is_deep() {
            return Put::Keep;
        }
        match self.next_in_turn(plan) {
            // This seat may not even look there.
            Some(queue) => Put::Into(queue, Kind::Deferred),
            None => Put::Into(plan.seats[self.id.index()].place[kind as usize], kind),
        }
    }

    /// As [`Seat::place`], for a task that the seat takes back if no other has taken it by then: a `join`'s. If its own queue is
    /// full, it keeps that.
    pub fn place_second(&mut self, plan: &Plan) -> Put {
        if self.own.is_some() { Put::Keep } else { self.place(plan, Kind::Immediate) }
    }

    /// Where the seat puts a task that goes to this queue, or with `None` to its own of this kind.
    #[inline]
    pub fn send(&self, plan: &Plan, kind: Kind, queue: Option<QueueId>) -> (QueueId, Kind) {
        match queue {
            // A seat elsewhere shares nothing with this one.
            Some(queue) => (queue, Kind::Deferred),
            None => (plan.seats[self.id.index()].place[kind as usize], kind),
        }
    }

    /// The queue of the next task that names no place, if the plan deals these in turn.
    fn next_in_turn(&mut self, plan: &Plan) -> Option<QueueId> {
        let queue = plan.queue_in_turn(self.id, self.turn, self.waits.len())?;
        self.turn = self.turn.wrapping_add(1);
        Some(queue)
    }

    /// The queue of a task that is to run near a node. `None`: it goes where it would go anyhow.
    pub fn home(&mut self, plan: &Plan, node: NodeId) -> Option<QueueId> {
        self.sent = self.sent.wrapping_add(1);
        plan.home_queue(self.id, node, self.sent)
    }

    /// The queue of a task that is to run near those seats which have this one for their own deferred tasks. `None`: this seat is one of
    /// them.
    pub fn home_at(&self, plan: &Plan, queue: QueueId) -> Option<QueueId> {
        (queue != plan.seats[self.id.index()].place[Kind::Deferred as usize]).then_some(queue)
    }

    /// The queue of a task that says what it touches: where the plan deals it by that, or in turn. `None`: the seat's own.
    #[inline]
    pub fn deal(&mut self, plan: &Plan, accesses: &[Access], data: &mut impl Whereabouts) -> Dealt {
        let dealing = plan.dealing.as_ref().filter(|_| !accesses.is_empty());
        let dealt = dealing.map_or(Dealt::NONE, |dealing| dealing.deal(accesses, &mut self.shares, data));
        Dealt { queue: dealt.queue.or_else(|| self.next_in_turn(plan)), ..dealt }
    }

    /// The queue of a box that was activated: where the part of a range lies that it was sent (`home`), or where the plan deals it by
    /// its inputs' heads (`deal`), or else in turn by its number. `None`: the seat's own.
    #[inline]
    pub fn deal_box(
        &mut self,
        plan: &Plan,
        (request, index): (RequestId, usize),
        kind: Kind,
        home: Option<NodeId>,
        deal: impl FnOnce(&Dealing, &mut Shares) -> Dealt,
    ) -> Dealt {
        if let Some(queue) = home.and_then(|home| plan.home_queue(self.id, home, index)) {
            return Dealt { queue: Some(queue), ..Dealt::NONE };
        }
        let own = plan.seats[self.id.index()].place[kind as usize];
        let mut dealt = plan.dealing.as_ref().map_or(Dealt::NONE, |dealing| deal(dealing, &mut self.shares));
        dealt.queue = dealt.queue.filter(|&queue| queue != own);
        if home.is_none() && dealt.queue.is_none() {
            dealt.queue = plan.queue_of_box(request, index).filter(|&queue| queue != own);
        }
        dealt
    }

    /// A box was activated that goes to this queue, or with `None` to the seat's own of this kind. The last one of an invocation, if it is
    /// immediate, is the seat's next task: a seat woken for it could only take it away from its rows. Gives a task to put instead.
    #[inline]
    pub fn activated(
        &mut self,
        plan: &Plan,
        task: T,
        kind: Kind,
        queue: Option<QueueId>,
        is_last: bool,
    ) -> Option<(T, QueueId, Kind)> {
        let (queue, kind) = self.send(plan, kind, queue);
        if !(is_last && kind == Kind::Immediate && self.own.is_some()) {
            return Some((task, queue, kind));
        }
        let next = Found { task, rule: self.own_way.rule(), queue };
        // An earlier one is of a box that ran on top of one that waited.
        self.next.replace(next).map(|earlier| (earlier.task, earlier.queue, Kind::Immediate))
    }

    /// A task was pushed. `runs_inline`: whether it may run on top of its spawner. `is_overfull`: whether there are more tokens than their
    /// pool holds.
    #[inline]
    pub fn pushed(&self, runs_inline: bool, is_overfull: bool) -> After {
        if is_overfull && runs_inline && self.helping < DEEPEST { After::Help } else { After::Wake }
    }

    /// A full queue has refused a task. Where the plan has no room, the seat works at once (Wittmann and Hager, §2): it runs the task
    /// that is returned, on top of the one that has spawned it. A box it runs when the present task has ended.
    pub fn refused(&mut self, task: T, runs_inline: bool) -> Option<T> {
        if runs_inline && self.helping < DEEPEST {
            return Some(task);
        }
        self.kept.push(task);
        None
    }

    /// The seat runs this task itself, when it looks for one next.
    pub fn keep(&mut self, task: T) {
        self.kept.push(task);
    }

    /// A task begins to run on top of its spawner, for which there was no room.
    pub fn helps(&mut self) {
        self.helping += 1;
    }

    /// That task has ended.
    pub fn has_helped(&mut self) {
        self.helping -= 1;
    }

    /// Takes a task back that the seat has kept. Says whether it had.
    #[inline]
    pub fn takes_back(&mut self, task: &T) -> bool
    where
        T: PartialEq,
    {
        let at = self.kept.iter().rposition(|kept| kept == task);
        at.map(|at| self.kept.remove(at)).is_some()
    }

    /// What this seat alone would run goes to where others find it, in this order: its thread turns away, or is about to block.
    pub fn turns_away(&mut self) -> Vec<T> {
        self.next.take().map(|next| next.task).into_iter().chain(self.kept.drain(..)).collect()
    }
}
