//! Turns of requests: each running request gets a share of every free seat, under every strategy.
//!
//! A strategy orders tasks by locality and by age, so a seat that always finds tasks of one request near it never takes
//! those of another. Here a seat alternates: for [`TURN_NS`] it follows its strategy, then it works for as long at the
//! requests in turn. A turn belongs to the request with the least time in turns ([`TurnOrder`](crate::TurnOrder)), of
//! those with a task in any queue the seat's plan looks into. So of N requests with tasks each gets at least one part
//! in 2 N of the seats' time, and a strategy orders the other half. Running requests without a task, of which there may
//! be hundreds, come first in that order: turns that find nothing are at most as many as turns that find a task, so
//! beside such requests the part is one in 4 N. While one request runs alone there are no turns.
//!
//! No request's turn would find two kinds of tasks. Suspended ones that have to go on have every second of the turns
//! outside the strategy, as long as there are any. And a request's turn begins with one task out of queues hidden
//! behind the seat's own.
//!
//! The tasks of a turn's request may be on other seats for a moment, or its root suspended. So a woken task of the
//! request goes on in its turn ([`WOKEN_IN_TURN`]), and between tasks of the strategy the seat looks for the request's
//! tasks again ([`MOST_IN_VAIN`]). If there are none, the turn ends early, and the seat's next turn goes to another
//! request with a task. Otherwise a request with little time in turns and all of the strategy's would have each turn.
//!
//! A front goes before both ([`Plan::with_front`](crate::Plan::with_front)); after [`FRONT_TURN_NS`] of it, it rests
//! for a turn.

use super::{NextTask, Seat, Source, Sources};
use crate::front::{FRONT_RULE, FRONT_TAKE, FRONT_TURN_NS};
use crate::look::{look_of, scan};
use crate::{End, FoundTask, QueuesByRequest, RequestId, SeatPlan, Share, Take, Turned, Way};

/// The length of a turn, in nanoseconds. A turn is over when the task running at that time ends.
pub const TURN_NS: u64 = 4_000_000;

/// The number of requests whose tasks a seat looks for before its turn goes back to its strategy.
const MOST_LOOKS: usize = 8;

/// How many woken tasks, the youngest ones, are checked for the request of the turn: the turn's own tasks have just
/// woken them. There may be any number of others.
const WOKEN_IN_TURN: usize = 16;

/// A turn ends early after this number of looks for tasks of its request in a row that found none.
const MOST_IN_VAIN: u32 = 32;

/// The owner of the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The strategy's.
    Strategy,
    /// Suspended tasks.
    Suspended,
    /// One task beyond the seat's own queue.
    Beyond,
    /// A request still to be found.
    Next,
    /// This request's.
    Of(RequestTurn),
}

/// A request's turn that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RequestTurn {
    request: RequestId,
    /// The time of its beginning, later by the time that the strategy had between its tasks.
    since_ns: u64,
    /// The time of the first of the last looks that found no task of it, and the number of these looks.
    in_vain: Option<(u64, u32)>,
}

impl RequestTurn {
    /// Ends the looks that found nothing.
    fn end_vain_looks(&mut self, now_ns: u64) {
        if let Some((vain_ns, _)) = self.in_vain.take() {
            self.since_ns = self.since_ns.saturating_add(now_ns.saturating_sub(vain_ns));
        }
    }
}

/// The turns of a seat.
#[derive(Debug)]
pub(crate) struct Turns {
    /// The end of the present turn.
    ends_ns: u64,
    now: Turn,
    /// Whether suspended tasks had the last turn outside the strategy.
    were_suspended: bool,
    /// Whether a task sent to the seat by others goes before the seat's present suspended ones.
    is_calleds_turn: bool,
    /// The seat has found no task of the requests up to this one in the order of turns: the next look goes on behind
    /// it.
    in_vain: Option<Share>,
    /// The number of turns with a task that still begin behind that request, for as many that found nothing.
    behind: u32,
    /// The request of the last turn, if that turn ended early: other requests go before it in the next one.
    ended_early: Option<RequestId>,
    /// The first probe of the next look beyond the seat's own queue.
    beyond: usize,
    /// The front rests until this time: the seat has worked for long at tasks from there.
    front_rests_until_ns: u64,
}

impl Turns {
    pub(crate) fn new() -> Turns {
        Turns {
            ends_ns: 0,
            now: Turn::Strategy,
            were_suspended: false,
            is_calleds_turn: false,
            in_vain: None,
            behind: 0,
            ended_early: None,
            beyond: 0,
            front_rests_until_ns: 0,
        }
    }

    /// Sets the time. After the end of a turn the next one begins.
    fn tick(&mut self, now_ns: u64, order: &mut impl Turned) {
        if now_ns < self.ends_ns {
            return;
        }
        self.ends_ns = now_ns.saturating_add(TURN_NS);
        match self.now {
            Turn::Strategy => {}
            // The strategy has had the time since the request had no more tasks.
            Turn::Of(RequestTurn { request, in_vain: Some(_), .. }) => {
                self.ended_early = Some(request);
                self.give_back(now_ns, order);
            }
            _ => return self.give_back(now_ns, order),
        }
        self.were_suspended = !self.were_suspended;
        self.now = if self.were_suspended { Turn::Suspended } else { Turn::Beyond };
    }

    /// The seat has found no task for the turn. A request's turn goes on for a few looks.
    fn found_none(&mut self, now_ns: u64, order: &mut impl Turned) {
        if let Turn::Of(begun) = &mut self.now {
            let (_, looks) = begun.in_vain.get_or_insert((now_ns, 0));
            *looks += 1;
            if *looks < MOST_IN_VAIN {
                return;
            }
            self.ended_early = Some(begun.request);
        }
        self.give_back(now_ns, order);
    }

    /// The turn is the strategy's from now on.
    fn give_back(&mut self, now_ns: u64, order: &mut impl Turned) {
        if let Turn::Of(mut begun) = std::mem::replace(&mut self.now, Turn::Strategy) {
            begun.end_vain_looks(now_ns);
            let took_ns = i64::try_from(now_ns.saturating_sub(begun.since_ns)).unwrap_or(i64::MAX);
            order.correct(begun.request, took_ns.saturating_sub_unsigned(TURN_NS));
        }
    }
}

impl<T> Seat<T> {
    /// A task to run, if the turn belongs to other tasks than the strategy's; otherwise [`Seat::find`] gives one. To be
    /// called while several requests run. `now_ns` is the time by any clock of the seat's, `order` that of the running
    /// requests. On a seat with a waiting task, the found task may be one of any request.
    ///
    /// `but` is the request of a task that leaves its turn: it has none now. On top of that task, tasks of its own
    /// request would only add waits, until the stack is so deep that the seat keeps what the task spawns.
    pub fn find_in_turn<Q>(
        &mut self,
        plan: &SeatPlan,
        mut queues: Q,
        called: impl FnOnce() -> Option<T>,
        now_ns: u64,
        order: &mut impl Turned,
        but: Option<RequestId>,
    ) -> Option<NextTask<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let is_its_turn = matches!(self.turns.now, Turn::Of(RequestTurn { request, .. }) if Some(request) == but);
        if is_its_turn && now_ns < self.turns.ends_ns {
            return None;
        }
        if !self.ready.has(Source::Turns) {
            self.ready.set_turns(true);
            (self.turns.now, self.turns.ends_ns) = (Turn::Strategy, now_ns.saturating_add(TURN_NS));
        }
        if self.front.worked_ns >= FRONT_TURN_NS {
            (self.front.worked_ns, self.turns.front_rests_until_ns) = (0, now_ns.saturating_add(TURN_NS));
        }
        self.front.rests = now_ns < self.turns.front_rests_until_ns;
        self.turns.tick(now_ns, order);
        if self.turns.now == Turn::Strategy {
            return None;
        }
        let found = self.find_front(&mut queues).or_else(|| {
            let found = self.find_turn(plan, &mut queues, called, now_ns, order, but);
            if found.is_none() {
                self.turns.found_none(now_ns, order);
            }
            found
        });
        found.map(|found| self.found(found))
    }

    /// Whether a resumed task should leave the seat again: the turn is over, or it is one of all suspended tasks. To be
    /// asked while several requests run.
    pub fn is_turn_over(&self, now_ns: u64) -> bool {
        self.turns.now == Turn::Suspended || now_ns >= self.turns.ends_ns
    }

    /// Several requests run no more.
    #[inline]
    pub fn end_turns(&mut self) {
        if self.ready.has(Source::Turns) {
            self.ready.set_turns(false);
            self.front.rests = false;
        }
    }

    fn find_turn<Q>(
        &mut self,
        plan: &SeatPlan,
        queues: &mut Q,
        called: impl FnOnce() -> Option<T>,
        now_ns: u64,
        order: &mut impl Turned,
        but: Option<RequestId>,
    ) -> Option<FoundTask<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        if self.turns.now == Turn::Suspended {
            self.turns.is_calleds_turn = !self.turns.is_calleds_turn;
            let task = match self.turns.is_calleds_turn {
                true => called().or_else(|| self.ready.take_suspended()),
                false => self.ready.take_suspended().or_else(called),
            };
            if let Some(task) = task {
                return Some(FoundTask::kept(task));
            }
            self.turns.now = Turn::Beyond;
        }
        if self.turns.now == Turn::Beyond {
            self.turns.now = Turn::Next;
            if let Some(found) = self.look_around(plan, queues) {
                return Some(found);
            }
        }
        if let Turn::Of(mut begun) = self.turns.now {
            let found = self.find_of(begun.request, plan, queues)?;
            begun.end_vain_looks(now_ns);
            self.turns.now = Turn::Of(begun);
            return Some(found);
        }
        let last = self.turns.ended_early.take();
        for _ in 0..MOST_LOOKS {
            let mut next = order.next(self.turns.in_vain);
            while next.is_some_and(|share| [but, last].contains(&Some(share.request))) {
                next = order.next(next);
            }
            let Some(share) = next else {
                (self.turns.in_vain, self.turns.behind) = (None, 0);
                break;
            };
            if let Some(found) = self.begin_turn(share.request, plan, queues, now_ns, order) {
                return Some(found);
            }
            self.turns.in_vain = Some(share);
        }
        // The others have no task.
        if let Some(request) = last.filter(|&last| Some(last) != but)
            && let Some(found) = self.begin_turn(request, plan, queues, now_ns, order)
        {
            return Some(found);
        }
        if self.turns.in_vain.is_some() {
            self.turns.behind += 1;
        }
        None
    }

    /// Begins the turn of this request, if the seat finds a task of it.
    fn begin_turn<Q>(
        &mut self,
        request: RequestId,
        plan: &SeatPlan,
        queues: &mut Q,
        now_ns: u64,
        order: &mut impl Turned,
    ) -> Option<FoundTask<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let found = self.find_of(request, plan, queues)?;
        self.turns.now = Turn::Of(RequestTurn { request, since_ns: now_ns, in_vain: None });
        order.charge(request, TURN_NS);
        match self.turns.behind.checked_sub(1) {
            Some(behind) => self.turns.behind = behind,
            None => self.turns.in_vain = None,
        }
        Some(found)
    }

    /// A task of this request, wherever the seat may look.
    fn find_of<Q>(&mut self, request: RequestId, plan: &SeatPlan, queues: &mut Q) -> Option<FoundTask<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        const ASKED: Sources = Sources::of(&[Source::Next, Source::Woken, Source::Kept, Source::Own, Source::Probes]);
        let mut left = self.ready.sources().among(ASKED);
        while let Some(source) = left.take_first() {
            let found = match source {
                Source::Next => self.ready.take_next_if(|next| queues.request_of(next) == request),
                Source::Woken => {
                    let is_its = |task: &T| queues.request_of(task) == request;
                    self.ready.take_woken_if(WOKEN_IN_TURN, is_its).map(FoundTask::kept)
                }
                Source::Kept => {
                    let is_its = |task: &T| queues.request_of(task) == request && queues.may_begin(task);
                    self.ready.take_kept_if(is_its).map(FoundTask::kept)
                }
                Source::Own => {
                    let task = self.own.queue.and_then(|own| queues.take_own_of(own, request));
                    task.map(|task| FoundTask { task, way: self.own.way })
                }
                _ => look_of(&plan.look[self.own.probes..], queues, request),
            };
            if found.is_some() {
                return found;
            }
        }
        // The front had its turn before.
        let front = self.front.queue?;
        Some(FoundTask { task: queues.take_of(request, front, FRONT_TAKE, 0)?, way: Way::new(FRONT_RULE, front) })
    }

    /// A task beyond the seat's own queue. Each look begins with another probe, and takes requests in turn, so no probe
    /// hides the tasks of the others.
    fn look_around<Q>(&mut self, plan: &SeatPlan, queues: &mut Q) -> Option<FoundTask<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let probes = &plan.look[self.own.probes..];
        self.turns.beyond = (self.turns.beyond + 1) % probes.len().max(1);
        let (before, from) = probes.split_at(self.turns.beyond.min(probes.len()));
        from.iter().chain(before).find_map(|probe| {
            let take = match probe.take {
                Take::YoungestOfOldestRequest | Take::OldestOfSecondOldestRequest => Take::InTurn(End::Oldest),
                Take::Youngest => Take::Oldest,
                take => take,
            };
            scan(probe, &mut self.cursors, |queue, longer_than| queues.take(queue, take, longer_than, probe.rest_to))
        })
    }
}
