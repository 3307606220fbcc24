//! A seat: the decisions of a worker, as a value. It has no threads, no clock, no queues and no memory of tasks.
//!
//! A world reports events to it: a task was *found*, or *none*; a task was *spawned*, a push was *refused*, a task
//! begins to *wait* and *goes on*, the seat was *woken*. The seat answers with the next step: *run* this task, *put*
//! that one there, *wake* a seat for it, *pause*, *sleep*. A thread of worlds/machine and a virtual core of worlds/sim
//! act on the same seat, so a simulated seed can show a fault of it.
//!
//! The order of a seat's sources of tasks:
//!
//! 1. if no task waits on it, the plan's *front*, within its limit ([`FRONT_TURN_NS`]);
//! 2. its *next* task: the last immediate box activated by its last invocation;
//! 3. the tasks it was *called* for: no other seat may run these;
//! 4. the tasks it has *kept*: those refused by a full queue, and those it spawned on a deep stack;
//! 5. the plan's probes.
//!
//! While several requests run, each has [turns](crate::TURN_NS); these go before all this.
//!
//! After many tasks in a row out of its own queue, the first probe's, the other probes have a turn ([`OWN_TURN`]). If
//! the first probe has several shared queues, the second one of them has a turn then.
//!
//! Tasks begun on this seat and *suspended* come back to it and to no other: a *woken* one goes behind 2, as its data
//! is likely to be in the seat's caches; one that has *yielded* goes behind 5. Neither keeps the seat from its queues
//! for long ([`WOKEN_TURN`], [`YIELDED_TURN`]).
//!
//! The hot path is [`Seat::find`] and [`Seat::activated`]: they allocate nothing.

use crate::front::{FRONT_RULE, FRONT_TAKE, FRONT_TURN_NS};
use crate::turns::Turns;
use crate::{
    Access, DEEP, Dealing, Dealt, Found, Idle, Kind, LastUses, Plan, Probe, QueueId, QueuesByRequest, RequestId, Scan,
    SeatId, SeatPlan, Shares, Sleeper, Spawner, Take, Wake, Way, When, Whereabouts, Why, look, look_waiting,
};
use std::collections::VecDeque;
use vicus_topology::NodeId;

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

/// How long a waiting seat looks around before it sleeps, if the strategy has no such time.
const SPIN_NS: u64 = 5_000;

/// After a sleep of at most this time, a seat looks around for up to this time before it sleeps again.
///
/// A wake costs some ten microseconds. Two seats that hand tasks back and forth, and have slept once, would find
/// nothing within a shorter time again and again: each waits while the other one is woken.
const LONGER_LOOK_NS: u64 = 50_000;

/// Likewise for a seat with waiting lightweight threads. Mostly no other seat goes on with them, and on virtual
/// machines a sleep and a wake take some 0.1 ms. A token on its round of 500 threads on two seats comes back to a seat
/// after about this time.
const LONGEST_LOOK_NS: u64 = 300_000;

/// A shorter pause costs less than announcing that a push may end it.
const SHORT_NS: u64 = 50_000;

/// The number of tasks on a stack without room for their spawned tasks: beyond it a full queue takes the task.
const DEEPEST: u32 = 64;

/// A seat that finds the queue for its deferred tasks in use puts this number of them into its own queue before it
/// looks there again: each look takes the queue's line away from its users.
const SPILLED: u32 = 64;

/// The state and the decisions of a seat. `T` is a task as the world's queues hold it.
#[derive(Debug)]
pub struct Seat<T> {
    id: SeatId,
    /// The lock-free queue for this seat's immediate tasks. The seat takes the youngest first (rule 1 of most
    /// strategies). `None` if the plan has no such queue.
    pub(crate) own: Option<QueueId>,
    /// The way of a task out of that queue.
    pub(crate) own_way: Way,
    /// Whether it takes them while a task waits.
    own_while_waiting: bool,
    /// How many tasks in a row it has taken out of that queue, or, without such a queue, out of its first one.
    own_in_row: u32,
    /// How many of the plan's probes only look into that queue: the first one, or none.
    pub(crate) own_probes: usize,
    /// A seat without a queue of its own polls this queue first (oldest task first), if the plan names one; with the
    /// way of a task out of it.
    first: Option<(QueueId, Way)>,
    /// The cursors of the plan's rings.
    pub(crate) cursors: Vec<usize>,
    /// The task to run next: in the own queue it would be pushed and popped again at once. Other seats don't see it;
    /// the seat runs it before it looks for another task.
    pub(crate) next: Option<Found<T>>,
    /// Tasks this seat runs itself, the youngest first.
    pub(crate) kept: Vec<T>,
    /// Suspended tasks that have to go on, if there are any.
    resumed: Resumed<T>,
    /// The tasks waiting on its stack: each with the request whose tasks may run meanwhile, or `None` for any.
    waits: Vec<Option<RequestId>>,
    /// How many tasks run on its stack on top of spawners that found no room for them.
    helping: u32,
    /// The last pause of a seat that backs off, in nanoseconds; 0 after every success.
    pause_ns: u64,
    /// How long it looks around at least: more than the plan says after a short sleep, 0 after a long one.
    look_ns: u64,
    /// Whether it has its PU to itself. Otherwise looking around takes time from the seats it waits for.
    is_alone: bool,
    /// The seat it looks and pushes as: itself, except under a plan with unbound threads.
    stands: SeatId,
    /// The task it was woken for, until it has looked.
    woken: Option<Wake>,
    /// How many tasks with a named place it has spawned, so the tasks for one place go to its queues in turn.
    sent: usize,
    /// How many tasks without a named place it has dealt in turn. Counted apart: if every second task names a place,
    /// the others still go to every queue.
    turn: usize,
    /// Sums of a task's bytes by location.
    shares: Shares,
    /// How many more deferred tasks go into its own queue, since their usual one was in use.
    spills: u32,
    /// The plan's front.
    pub(crate) front: Option<QueueId>,
    /// How long it has worked at tasks from there, in nanoseconds, since it last had another one.
    pub(crate) front_ns: u64,
    /// Whether it leaves the front alone now.
    pub(crate) front_rests: bool,
    /// The turns of requests, while several run.
    pub(crate) turns: Turns,
}

/// The suspended tasks of a seat that have to go on.
#[derive(Debug)]
struct Resumed<T> {
    /// How many there are in both lists.
    count: usize,
    /// Woken, the first one first.
    woken: VecDeque<T>,
    /// They let others go first.
    yielded: VecDeque<T>,
    /// How many woken ones in a row were taken. Invariant: at most [`WOKEN_TURN`].
    in_row: u32,
    /// How many yielded tasks may go on before the next look into the queues.
    turns: u32,
    /// A yielded task went on last: before the next one, the seat's first queue has a turn.
    is_nears_turn: bool,
    /// While several requests run: a woken task went on last.
    is_yieldeds_turn: bool,
}

impl<T> Resumed<T> {
    fn new() -> Resumed<T> {
        Resumed {
            count: 0,
            woken: VecDeque::new(),
            yielded: VecDeque::new(),
            in_row: 0,
            turns: 0,
            is_nears_turn: false,
            is_yieldeds_turn: false,
        }
    }

    fn take_woken(&mut self) -> Option<T> {
        let task = self.woken.pop_front()?;
        self.count -= 1;
        Some(task)
    }

    fn take_yielded(&mut self) -> Option<T> {
        let task = self.yielded.pop_front()?;
        self.count -= 1;
        self.is_nears_turn = true;
        Some(task)
    }
}

/// A task found by a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<T> {
    /// The task, to be run.
    pub task: T,
    /// How the seat got it.
    pub way: Way,
    /// The seat was woken for another task, and leaves that to another seat: see [`Seat::take_wake`].
    pub leaves: bool,
}

/// A seat's place for a task it has spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// Into no queue: it keeps the task, and runs it itself ([`Seat::keep`]).
    Keep,
    /// Into this queue, as a task of this kind.
    Into(QueueId, Kind),
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

/// A seat's next step after it has found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// The seat looks again, until it has found nothing for this time.
    Look {
        /// In nanoseconds, since it first found nothing.
        until_ns: u64,
    },
    /// The seat looks again after a pause that no push ends: the pause is too short for it, or the seat is never woken.
    Pause {
        /// In nanoseconds.
        ns: u64,
    },
    /// The seat announces itself, looks a last time, and sleeps until it is woken.
    Sleep {
        /// The tasks it would take.
        sleeper: Sleeper,
        /// The longest sleep, in nanoseconds.
        at_most_ns: Option<u64>,
    },
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
        let seat = &plan.seats[id.index()];
        let first = seat.look.first();
        // The queue for tasks that are no boxes, if boxes have another one.
        let of_seat = [seat.tasks, seat.place[Kind::Immediate as usize]];
        let immediate =
            first.and_then(|first| first.scan.queues().first()).copied().filter(|queue| of_seat.contains(queue));
        let own =
            immediate.filter(|queue| plan.queues[queue.index()].owner == Some(id)).filter(|&queue| is_lock_free(queue));
        let is_only_one = first.is_some_and(|first| first.scan.queues().len() == 1);
        Seat {
            id,
            own,
            own_way: Way::new(first.map_or(0, |first| first.rule), own.unwrap_or(seat.place[0])),
            own_while_waiting: first.is_some_and(|first| first.while_waiting),
            own_in_row: 0,
            own_probes: usize::from(own.is_some() && is_only_one),
            first: if own.is_none() { first_queue(plan, seat) } else { None },
            cursors: vec![0; plan.cursors(id)],
            next: None,
            kept: Vec::new(),
            resumed: Resumed::new(),
            waits: Vec::new(),
            helping: 0,
            pause_ns: 0,
            look_ns: 0,
            is_alone: seat.is_alone,
            stands: id,
            woken: None,
            sent: 0,
            turn: 0,
            shares: Shares::default(),
            spills: 0,
            front: plan.front,
            front_ns: 0,
            front_rests: false,
            turns: Turns::new(),
        }
    }

    /// Its lock-free queue for immediate tasks, if the plan has one. The seat looks there before all queues named by
    /// the plan.
    pub fn own(&self) -> Option<QueueId> {
        self.own
    }

    /// Whether this queue also takes immediate tasks that are no boxes.
    #[inline]
    pub fn takes_tasks(&self, plan: &Plan) -> bool {
        self.own == Some(plan.seats[self.id.index()].tasks)
    }

    /// The way of a task out of that queue.
    #[inline]
    pub fn own_way(&self) -> Way {
        self.own_way
    }

    /// A seat without a queue of its own polls this queue first (oldest task first), if the plan names one; with the
    /// way of a task out of it.
    #[inline]
    pub fn first(&self) -> Option<(QueueId, Way)> {
        self.first
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
    pub fn find_at_home<Q>(&mut self, plan: &SeatPlan, queues: Q) -> Option<Run<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let (task, way) = self.look_beyond(self.waits_for(), plan, queues)?;
        self.pause_ns = 0;
        Some(Run { task, way, leaves: self.woken.is_some() && self.drop_own_wake(way) })
    }

    /// The seat it looks and pushes as.
    #[inline]
    pub fn stands(&self) -> SeatId {
        self.stands
    }

    /// A task to run. `plan` is that of the seat it stands as. `called` gives a task that no other seat may run.
    #[inline(always)]
    pub fn find<Q>(&mut self, plan: &SeatPlan, mut queues: Q, called: impl FnOnce() -> Option<T>) -> Option<Run<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let (task, way) = if let Some(found) = self.find_front(&mut queues) {
            found
        } else if let Some(next) = self.next.take() {
            (next.task, Way::new(next.rule, next.queue))
        } else if self.resumed.count > 0 {
            self.find_resumed(plan, &mut queues, called)?
        } else if let Some(task) = called().or_else(|| self.kept.pop_if(|task| queues.may_begin(task))) {
            (task, Way::KEPT)
        } else if let Some(task) = self.find_own(self.waits_for(), &mut queues) {
            (task, self.own_way)
        } else {
            self.look_beyond(self.waits_for(), plan, queues)?
        };
        Some(self.found(task, way))
    }

    /// The seat has found a task.
    #[inline(always)]
    pub(crate) fn found(&mut self, task: T, way: Way) -> Run<T> {
        self.pause_ns = 0;
        if self.front_ns > 0 && way.queue() != self.front {
            self.front_ns = 0;
        }
        Run { task, way, leaves: self.woken.is_some() && self.drop_own_wake(way) }
    }

    /// The rest of [`Seat::find`], for a seat with suspended tasks that have to go on.
    #[cold]
    fn find_resumed<Q>(
        &mut self,
        plan: &SeatPlan,
        queues: &mut Q,
        called: impl FnOnce() -> Option<T>,
    ) -> Option<(T, Way)>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let kept = |task| (task, Way::KEPT);
        if self.resumed.in_row < WOKEN_TURN
            && let Some(task) = self.resumed.take_woken()
        {
            self.resumed.in_row += 1;
            return Some(kept(task));
        }
        self.resumed.in_row = 0;
        if let Some(task) = called().or_else(|| self.kept.pop_if(|task| queues.may_begin(task))) {
            return Some(kept(task));
        }
        if std::mem::take(&mut self.resumed.is_nears_turn)
            && let Some(found) = self.find_near(queues)
        {
            // Then a yielded task has its turn again: else two of the queue would begin for each of these.
            self.resumed.turns = self.resumed.turns.max(u32::from(self.first.is_some()));
            return Some(found);
        }
        if self.resumed.turns > 0
            && let Some(task) = self.resumed.take_yielded()
        {
            self.resumed.turns -= 1;
            return Some(kept(task));
        }
        let own = self.find_own(self.waits_for(), queues).map(|task| (task, self.own_way));
        let found = own.or_else(|| self.look_beyond(self.waits_for(), plan, &mut *queues));
        // After a task of a queue a yielded task has its turn.
        let is_found = found.is_some();
        self.resumed.turns = if is_found {
            1
        } else if self.own.is_some() {
            YIELDED_TURN
        } else if self.first.is_some() && self.waits_for().is_none() {
            YIELDED_TURN_OF_SHARED
        } else {
            1
        };
        found.or_else(|| self.resumed.take_woken().or_else(|| self.resumed.take_yielded()).map(kept))
    }

    /// A task of its first queue.
    fn find_near<Q>(&mut self, queues: &mut Q) -> Option<(T, Way)>
    where
        Q: QueuesByRequest<Task = T>,
    {
        match self.first {
            None => Some((self.find_own(self.waits_for(), queues)?, self.own_way)),
            Some((queue, way)) if self.waits_for().is_none() => Some((queues.take(queue, Take::Oldest, 0, None)?, way)),
            Some(_) => None,
        }
    }

    /// A suspended task of this seat was woken: it goes on soon.
    #[inline]
    pub fn woke(&mut self, task: T) {
        self.resumed.count += 1;
        self.resumed.woken.push_back(task);
    }

    /// Takes all woken tasks that have not gone on yet.
    pub fn take_woken(&mut self) -> VecDeque<T> {
        let woken = std::mem::take(&mut self.resumed.woken);
        self.resumed.count -= woken.len();
        woken
    }

    /// Whether suspended tasks have to go on.
    pub fn has_resumed(&self) -> bool {
        self.resumed.count > 0
    }

    /// A suspended task that has to go on: a woken and a yielded one in turn.
    pub(crate) fn take_suspended(&mut self) -> Option<T> {
        if self.resumed.count == 0 {
            return None;
        }
        self.resumed.is_yieldeds_turn = !self.resumed.is_yieldeds_turn;
        if self.resumed.is_yieldeds_turn {
            self.resumed.take_yielded().or_else(|| self.resumed.take_woken())
        } else {
            self.resumed.take_woken().or_else(|| self.resumed.take_yielded())
        }
    }

    /// How many woken ones have not gone on yet.
    #[inline]
    pub fn woken_count(&self) -> usize {
        self.resumed.woken.len()
    }

    /// A task of this seat has suspended itself to let others go first.
    #[inline]
    pub fn yielded(&mut self, task: T) {
        self.resumed.count += 1;
        self.resumed.yielded.push_back(task);
    }

    /// Whether [`Seat::find`] would give a task of its own lock-free queue, if the queue has one: for a world that
    /// works from that queue for a while without looking elsewhere.
    #[inline]
    pub fn is_own_next(&self) -> bool {
        let is_turn = self.resumed.count == 0 || self.resumed.is_nears_turn && self.resumed.woken.is_empty();
        let is_usual =
            is_turn && self.next.is_none() && self.kept.is_empty() && self.woken.is_none() && !self.is_others_turn();
        is_usual
            && !self.turns.are_on()
            && self.front.is_none()
            && (self.own_while_waiting || self.waits_for().is_none())
    }

    /// Like [`Seat::is_own_next`], for a seat without such a queue: whether [`Seat::find`] would take a task found by
    /// the plan's probes.
    #[inline]
    pub fn is_look_next(&self) -> bool {
        let has_none = self.resumed.count == 0 && self.next.is_none() && self.kept.is_empty() && self.woken.is_none();
        has_none && !self.turns.are_on() && self.front.is_none() && self.waits_for().is_none()
    }

    /// A task was taken from its own queue, by [`Seat::is_own_next`].
    #[inline]
    pub fn took_own(&mut self) {
        self.resumed.is_nears_turn = false;
        self.own_in_row = self.own_in_row.saturating_add(1);
    }

    /// The next suspended task to go on, if one has its turn: as [`Seat::find`] would give it, for a world that goes
    /// from one to the next and looks only into the seat's first queue. It ends with `None` after a while.
    #[inline]
    pub fn next_resumed(&mut self, is_first_empty: impl FnOnce() -> bool) -> Option<T> {
        if self.resumed.count == 0 || self.turns.are_on() {
            return None;
        }
        if self.resumed.in_row < WOKEN_TURN
            && let Some(task) = self.resumed.take_woken()
        {
            self.resumed.in_row += 1;
            return Some(task);
        }
        // Otherwise a yielding task would have no turn while others are woken again and again.
        if self.resumed.turns == 0 || !self.kept.is_empty() || self.resumed.is_nears_turn && !is_first_empty() {
            return None;
        }
        let task = self.resumed.take_yielded()?;
        self.resumed.turns -= 1;
        Some(task)
    }

    /// A task from the front, before all else. A seat with a waiting task finds those of its request by the plan's last
    /// probe.
    #[inline]
    pub(crate) fn find_front<Q>(&mut self, queues: &mut Q) -> Option<(T, Way)>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let front = self.front?;
        if self.front_ns >= FRONT_TURN_NS || self.front_rests || self.waits_for().is_some() {
            return None;
        }
        Some((queues.take(front, FRONT_TAKE, 0, None)?, Way::new(FRONT_RULE, front)))
    }

    /// Reports the time spent on a task from the front.
    pub fn worked_at_front(&mut self, ns: u64) {
        self.front_ns = self.front_ns.saturating_add(ns);
    }

    /// Forgets the wake if the found task is from its queue. Returns whether the seat is still to leave the awaited
    /// task to another one.
    #[cold]
    fn drop_own_wake(&mut self, way: Way) -> bool {
        self.woken.take_if(|wake| way.queue() == Some(wake.queue)).is_none()
    }

    /// Like [`Seat::find`], for a seat whose push has made more tokens than their pool holds ([`After::Help`]). It
    /// finds nothing if other seats were quicker; then the pool has room as well.
    #[cold]
    pub fn help<Q>(&mut self, plan: &SeatPlan, mut queues: Q) -> Option<(T, Way)>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let own = self.find_own(None, &mut queues).map(|task| (task, self.own_way));
        own.or_else(|| self.look_beyond(None, plan, queues))
    }

    /// The way of most tasks, without a detour through the plan. The first probe takes the same, since this queue is
    /// the owner's at its young end (`Plan::owner_lifos`).
    #[inline]
    fn find_own<Q>(&mut self, waiting: Option<RequestId>, queues: &mut Q) -> Option<T>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let own = self.own?;
        let may = self.own_while_waiting || waiting.is_none();
        if !may || self.is_others_turn() {
            return None;
        }
        let task = queues.take_own(own)?;
        self.own_in_row = self.own_in_row.saturating_add(1);
        Some(task)
    }

    /// Whether its own queue has had its turn, so it looks elsewhere first. Never on a stack where tasks wait for some
    /// tasks alone, or several do: with older tasks on top of those, it would grow.
    #[inline]
    fn is_others_turn(&self) -> bool {
        self.own_in_row >= OWN_TURN && self.waits.len() <= 1 && self.waits_for().is_none()
    }

    /// Like [`Seat::look_far`], behind its own queue, and then for the oldest task there if others have had their turn.
    fn look_beyond<Q>(&mut self, waiting: Option<RequestId>, plan: &SeatPlan, mut queues: Q) -> Option<(T, Way)>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let Some(own) = self.own else { return self.look_fairly(waiting, plan, queues) };
        let found = self.look_far(waiting, plan, &mut queues);
        let was_others_turn = self.is_others_turn();
        self.own_in_row = 0;
        if found.is_some() || !was_others_turn {
            return found;
        }
        Some((queues.take(own, Take::Oldest, 0, None)?, self.own_way))
    }

    /// Like [`Seat::look_far`], for a seat without a queue of its own. If its first probe looks into several queues,
    /// the second one has a turn after many tasks in a row out of the first.
    fn look_fairly<Q>(&mut self, waiting: Option<RequestId>, plan: &SeatPlan, mut queues: Q) -> Option<(T, Way)>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let Some(Probe { scan: Scan::List(list), take, when: When::NotEmpty, rest_to: None, rule, .. }) =
            plan.look.first()
        else {
            return self.look_far(waiting, plan, queues);
        };
        let &[first, second, ..] = &list[..] else { return self.look_far(waiting, plan, queues) };
        if self.is_others_turn() {
            self.own_in_row = 0;
            if let Some(task) = queues.take(second, *take, 0, None) {
                return Some((task, Way::new(*rule, second)));
            }
        }
        let found = self.look_far(waiting, plan, queues);
        let is_first = found.as_ref().is_some_and(|(_, way)| way.queue() == Some(first));
        self.own_in_row = if is_first { self.own_in_row.saturating_add(1) } else { 0 };
        found
    }

    /// Looks into queues: for tasks of this request, as a seat with a waiting task, or for any.
    #[inline(never)]
    fn look_far<Q>(&mut self, waiting: Option<RequestId>, plan: &SeatPlan, mut queues: Q) -> Option<(T, Way)>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let is_asked = self.own_while_waiting || waiting.is_none();
        let probes = &plan.look[if is_asked { self.own_probes } else { 0 }..];
        let found = match waiting {
            Some(request) => look_waiting(probes, &mut self.cursors, &mut queues, request, self.waits.len()),
            None => look(probes, &mut self.cursors, &mut queues),
        };
        let found = found?;
        Some((found.task, Way::new(found.rule, found.queue)))
    }

    /// The seat has found nothing for `idle_ns` by now. If it was woken, other seats were quicker.
    pub fn none(&mut self, plan: &SeatPlan, idle_ns: u64) -> Rest {
        self.woken = None;
        if let Idle::BackOff { first_ns, factor, max_ns, sleeps: false } = plan.idle {
            return Rest::Pause { ns: self.longer_pause(first_ns, factor, max_ns) };
        }
        let waiting = self.waits.last().copied();
        let spin_ns = match (plan.idle, waiting) {
            (Idle::Sleep { spin_ns: 0 }, _) => 0,
            (Idle::Sleep { spin_ns }, _) => self.look_ns.max(spin_ns.into()),
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

    /// The pause of a seat that backs off. `None`: it sleeps until it is woken, because the strategy has no pauses, or
    /// because it found nothing after the longest one. It is woken by a push that makes a queue long enough for it
    /// ([`Plan::wake_one`]).
    fn next_pause(&mut self, plan: &SeatPlan) -> Option<u64> {
        let Idle::BackOff { first_ns, factor, max_ns, .. } = plan.idle else { return None };
        let is_longest = self.pause_ns >= u64::from(max_ns.max(first_ns).max(1));
        (!is_longest).then(|| self.longer_pause(first_ns, factor, max_ns))
    }

    /// Lengthens the pause, up to the longest one.
    fn longer_pause(&mut self, first_ns: u32, factor: u8, max_ns: u32) -> u64 {
        let next = self.pause_ns.saturating_mul(u64::from(factor)).max(u64::from(first_ns));
        self.pause_ns = next.clamp(1, u64::from(max_ns.max(first_ns).max(1)));
        self.pause_ns
    }

    /// The seat does not sleep any more. `slept_ns`: the length of its sleep; `None`: it has found a task in its last
    /// look. `wake`: the task it was chosen for, if any.
    ///
    /// If the seat has its PU to itself, and the sleep was not longer than 0.05 ms, the seat looks around for at least
    /// twice that time, and 0.05 ms at most, before it sleeps again; after a longer sleep for its plan's time.
    /// `has_threads`: lightweight threads wait that only this seat can go on with; then 0.3 ms take the place of 0.05
    /// ms.
    pub fn woken(&mut self, wake: Option<Wake>, slept_ns: Option<u64>, has_threads: bool) {
        self.woken = wake;
        if let Some(slept_ns) = slept_ns {
            let longest_ns = if has_threads { LONGEST_LOOK_NS } else { LONGER_LOOK_NS };
            let is_short = self.is_alone && slept_ns <= longest_ns;
            self.look_ns = if is_short { longest_ns.min(self.look_ns.max(slept_ns * 2)) } else { 0 };
        }
    }

    /// The seat does something else than the task it was woken for: another seat is to be woken for that task, if there
    /// is one.
    #[inline]
    pub fn take_wake(&mut self) -> Option<Wake> {
        self.woken.take()
    }

    /// The running task begins to wait: meanwhile tasks of this request run on top of it, or with `None` any.
    pub fn begin_wait(&mut self, request: Option<RequestId>) {
        self.waits.push(request);
    }

    /// From now on any task may run on top of the waiting task.
    pub fn widen_wait(&mut self) {
        if let Some(waiting) = self.waits.last_mut() {
            *waiting = None;
        }
    }

    /// Whether a task waits on its stack.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        !self.waits.is_empty()
    }

    /// The request whose tasks may run on top of the waiting task; `None`: any may, or no task waits.
    #[inline]
    pub fn waits_for(&self) -> Option<RequestId> {
        self.waits.last().copied().flatten()
    }

    /// The awaited task is over. Gives the seat's next task, to be put into its queue without [`Seat::activated`]:
    /// other seats can't see it, and the waiting task may run on for long.
    pub fn end_wait(&mut self) -> Option<(T, QueueId)> {
        self.waits.pop().expect("a task that goes on has waited");
        self.next.take().map(|next| (next.task, next.queue))
    }

    /// Whether its stack has enough waiting tasks for it to keep the tasks it spawns.
    #[inline]
    pub fn is_deep(&self) -> bool {
        self.waits.len() >= DEEP
    }

    /// The place for a task spawned by the seat without a named place, and not taken by its own lock-free queue.
    ///
    /// On a deep stack the seat keeps the task. Otherwise the youngest task in the queue might be another seat's
    /// latest; the task waiting for this one would run it on top of itself, and the next one on top of that: the stack
    /// would grow with their number.
    #[inline]
    pub fn place(&mut self, plan: &Plan, kind: Kind) -> Put {
        if self.is_deep() {
            return Put::Keep;
        }
        match self.next_in_turn(plan) {
            // This seat may not even look into that queue.
            Some(queue) => Put::Into(queue, Kind::Deferred),
            None => {
                let (queue, kind) = self.send_task(plan, kind, None);
                Put::Into(queue, kind)
            }
        }
    }

    /// The seat's own queue for a task of this kind without a named place, if the plan spills such tasks
    /// ([`Plan::spills`]), its request `is_alone`, and another seat uses the task's usual queue ([`Seat::place`]), or
    /// did for one of the last tasks before it. A neighbourhood's shared queue keeps its tasks together. When many
    /// seats want it at once, the spawner would stand in line for its lock, while all of them wait for the spawner.
    ///
    /// Not among several requests: they take turns in such a queue, and tasks in a seat's own queue go before the other
    /// requests', and on top of their waiting tasks.
    #[inline]
    pub fn spill(
        &mut self,
        plan: &Plan,
        kind: Kind,
        is_alone: impl FnOnce() -> bool,
        is_in_use: impl FnOnce() -> bool,
    ) -> Option<QueueId> {
        if !plan.spills || kind != Kind::Deferred {
            return None;
        }
        let own = self.own?;
        if !is_alone() {
            self.spills = 0;
            return None;
        }
        if self.spills > 0 {
            self.spills -= 1;
        } else if is_in_use() {
            self.spills = SPILLED - 1;
        } else {
            return None;
        }
        Some(own)
    }

    /// Like [`Seat::place`], for a task the seat takes back unless another seat has taken it by then: a `join`'s. If
    /// its own queue is full, it keeps the task.
    #[inline]
    pub fn place_second(&mut self, plan: &Plan) -> Put {
        if self.takes_tasks(plan) { Put::Keep } else { self.place(plan, Kind::Immediate) }
    }

    /// Like [`Seat::place`], for a task dealt to this queue by its spawner, or with `None` to the seat's own of this
    /// kind. On a deep stack the seat keeps it as well, whatever its queue.
    #[inline]
    pub fn place_dealt(&self, plan: &Plan, kind: Kind, queue: Option<QueueId>) -> Put {
        if self.is_deep() {
            return Put::Keep;
        }
        let (queue, kind) = self.send_task(plan, kind, queue);
        Put::Into(queue, kind)
    }

    /// The queue for a task that is no box: this one, or with `None` the seat's own of this kind.
    #[inline]
    pub fn send_task(&self, plan: &Plan, kind: Kind, queue: Option<QueueId>) -> (QueueId, Kind) {
        match queue {
            // A seat elsewhere shares no data with this one.
            Some(queue) => (queue, Kind::Deferred),
            None => {
                let placed = plan.place_of_task(self.stands, kind);
                if self.may_put(plan, placed.0) { placed } else { plan.place_of_task(self.id, kind) }
            }
        }
    }

    /// Whether this seat may put tasks into a queue: the queue has no owner, or is its own.
    #[inline]
    fn may_put(&self, plan: &Plan, queue: QueueId) -> bool {
        self.stands == self.id || plan.queues[queue.index()].owner.is_none_or(|owner| owner == self.id)
    }

    /// The queue for a box of this kind without another destination.
    #[inline]
    fn place_of_box(&self, plan: &Plan, kind: Kind) -> QueueId {
        let [there, own] = [self.stands, self.id].map(|seat| plan.seats[seat.index()].place[kind as usize]);
        if self.may_put(plan, there) { there } else { own }
    }

    /// The queue for a box: this one, or with `None` the seat's own of this kind.
    #[inline]
    pub fn send(&self, plan: &Plan, kind: Kind, queue: Option<QueueId>) -> (QueueId, Kind) {
        match queue {
            // A seat elsewhere shares no data with this one.
            Some(queue) => (queue, Kind::Deferred),
            None => (self.place_of_box(plan, kind), kind),
        }
    }

    /// The queue of the next task without a named place, if the plan deals these in turn.
    #[inline]
    fn next_in_turn(&mut self, plan: &Plan) -> Option<QueueId> {
        if plan.in_turn.is_empty() { None } else { self.take_turn(plan) }
    }

    fn take_turn(&mut self, plan: &Plan) -> Option<QueueId> {
        let queue = plan.queue_in_turn(self.id, self.turn, self.waits.len())?;
        self.turn = self.turn.wrapping_add(1);
        Some(queue)
    }

    /// The queue of a task for a node. `None`: its usual queue without a place.
    pub fn home(&mut self, plan: &Plan, node: NodeId) -> Option<QueueId> {
        self.sent = self.sent.wrapping_add(1);
        plan.home_queue(self.stands, node, self.sent)
    }

    /// The queue of a task with a footprint, if the plan deals it by that, or in turn. `None`: the seat's own.
    /// `requests` gives the number of requests, `last_uses` the last uses of its data, if the plan asks for them
    /// ([`Plan::warm`]). Counts the task among the spawner's.
    #[inline]
    pub fn deal(
        &mut self,
        plan: &Plan,
        accesses: &[Access],
        spawner: &mut Spawner,
        requests: impl FnOnce() -> usize,
        data: &mut impl Whereabouts,
        last_uses: Option<&LastUses>,
    ) -> Dealt {
        let dealing = plan.dealing.as_ref().filter(|_| !accesses.is_empty());
        let dealt = dealing.map_or(Dealt::NONE, |dealing| {
            let is_part = dealing.is_part(accesses, spawner);
            // First: where requests take turns, a task with warm data would go before the others'.
            if let Some(near) = dealing.near(plan.seats[self.stands.index()].node, accesses, requests) {
                return near;
            }
            if !is_part
                && let Some((warm, uses)) = plan.warm.as_ref().zip(last_uses)
                && let Some(dealt) = warm.deal(accesses, uses, data)
            {
                return dealt;
            }
            self.shares.spreads = !is_part;
            let dealt = dealing.deal(accesses, &mut self.shares, data);
            if is_part { Dealing::keep_part(dealt) } else { dealt }
        });
        if let Some(dealing) = dealing.filter(|_| dealt.queue.is_some() || dealt.why == Why::Part) {
            let node = match dealt.queue {
                Some(queue) => plan.queues[queue.index()].home,
                None => plan.seats[self.stands.index()].node,
            };
            dealing.count(&mut self.shares, node, accesses);
        }
        if dealt.queue.is_some() {
            return dealt;
        }
        match self.next_in_turn(plan) {
            Some(queue) => Dealt { queue: Some(queue), why: Why::Turn, ..dealt },
            None => dealt,
        }
    }

    /// The queue of an activated box: that of the node of its part of a range (`home`), or the one it is dealt to by
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
        if let Some(queue) = home.and_then(|home| plan.home_queue(self.stands, home, index)) {
            return Dealt { queue: Some(queue), ..Dealt::NONE };
        }
        let own = self.place_of_box(plan, kind);
        let dealing = plan.dealing.as_ref().filter(|dealing| dealing.boxes);
        let mut dealt = dealing.map_or(Dealt::NONE, |dealing| deal(dealing, &mut self.shares));
        dealt.queue = dealt.queue.filter(|&queue| queue != own);
        if home.is_none() && dealt.queue.is_none() {
            dealt.queue = plan.queue_of_box(request, index).filter(|&queue| queue != own);
            if dealt.queue.is_some() {
                dealt.why = Why::Turn;
            }
        }
        dealt
    }

    /// Takes an activated box for this queue, or with `None` for the seat's own of this kind. If it is the last one of
    /// an invocation, and immediate, it is the seat's next task: another seat woken for it would only take it away from
    /// its rows. Gives a task to put instead.
    #[inline]
    pub fn activated(
        &mut self,
        plan: &Plan,
        task: T,
        kind: Kind,
        queue: Option<QueueId>,
        is_last: bool,
    ) -> Option<(T, QueueId, Kind)> {
        let kind = if plan.defers_boxes { Kind::Deferred } else { kind };
        let (queue, kind) = self.send(plan, kind, queue);
        if !(is_last && kind == Kind::Immediate && self.own.is_some()) {
            return Some((task, queue, kind));
        }
        let next = Found { task, rule: self.own_way.rule(), queue };
        // The earlier one was activated by a box with others on top of it now.
        self.next.replace(next).map(|earlier| (earlier.task, earlier.queue, Kind::Immediate))
    }

    /// The seat's step after a push. `runs_inline`: whether the task may run on top of its spawner. `is_overfull`:
    /// whether there are more tokens than their pool holds.
    #[inline]
    pub fn pushed(&self, runs_inline: bool, is_overfull: bool) -> After {
        if is_overfull && runs_inline && self.helping < DEEPEST { After::Help } else { After::Wake }
    }

    /// A full queue has refused a task. Then the seat works at once (Wittmann and Hager, §2): it runs the returned task
    /// on top of its spawner. If the task is a box, the seat keeps it and runs it when the present task has ended.
    pub fn refused(&mut self, task: T, runs_inline: bool) -> Option<T> {
        if runs_inline && self.helping < DEEPEST {
            return Some(task);
        }
        self.kept.push(task);
        None
    }

    /// The seat will run this task itself, when it next looks for one.
    pub fn keep(&mut self, task: T) {
        self.kept.push(task);
    }

    /// A task begins to run on top of its spawner, because there was no room for it.
    pub fn begin_help(&mut self) {
        self.helping += 1;
    }

    /// The refused task has ended.
    pub fn end_help(&mut self) {
        self.helping -= 1;
    }

    /// Takes a kept task back. Returns whether the seat had it.
    #[inline]
    pub fn take_back(&mut self, task: &T) -> bool
    where
        T: PartialEq,
    {
        !self.kept.is_empty() && self.remove_kept(task)
    }

    #[cold]
    fn remove_kept(&mut self, task: &T) -> bool
    where
        T: PartialEq,
    {
        let at = self.kept.iter().rposition(|kept| kept == task);
        at.map(|at| self.kept.remove(at)).is_some()
    }

    /// Gives the tasks only this seat would run, in this order, for queues of other seats: its thread leaves, or is
    /// about to block.
    pub fn take_private(&mut self) -> Vec<T> {
        self.next.take().map(|next| next.task).into_iter().chain(self.kept.drain(..)).collect()
    }
}
