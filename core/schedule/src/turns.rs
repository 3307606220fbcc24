//! Turns of requests: each request that runs gets a share of every free seat, under every strategy.
//!
//! A strategy orders tasks by locality and by age, so a seat that always finds tasks of one request near it never takes those of
//! another. Here a seat alternates: for [`TURN_NS`] it works as its strategy says, then for as long at the requests in turn. A turn
//! belongs to the next request, by number, of which the seat finds a task, wherever its plan lets it look. So of N requests each
//! gets at least one part in 2 N of a seat's time, and a strategy keeps a half whose order it decides. While one request runs
//! alone there are no turns.
//!
//! Two kinds of tasks no request's turn would find. Suspended ones that have to go on have every second of the turns that are not the
//! strategy's, as long as there are any. And a request's turn begins with one task out of queues that the seat's own keeps it from.
//!
//! A front goes before both ([`Plan::with_front`](crate::Plan::with_front)); after [`FRONT_TURN_NS`] of it, it rests for a turn.

use crate::front::{FRONT_RULE, FRONT_TAKE, FRONT_TURN_NS};
use crate::look::{look_of, scan};
use crate::{End, QueuesByRequest, RequestId, Run, Seat, SeatPlan, Take, Way};

/// How long a turn takes, in nanoseconds. A turn is over when the task ends that runs at that time.
pub const TURN_NS: u64 = 4_000_000;

/// A seat looks for tasks of so many requests before its turn goes back to its strategy.
const MOST_LOOKS: usize = 8;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The strategy's.
    Strategy,
    /// That of suspended tasks.
    Suspended,
    /// That of one task beyond the seat's own queue.
    Beyond,
    /// That of a request which is still to be found.
    Next,
    /// This request's.
    Of(RequestId),
}

/// The turns of a seat.
#[derive(Debug)]
pub(crate) struct Turns {
    /// The time at which the present turn is over.
    ends_ns: u64,
    now: Turn,
    /// Whether suspended tasks had the last turn that was not the strategy's.
    were_suspended: bool,
    /// The request that had the last turn.
    last: RequestId,
    /// The probe with which the next look beyond the seat's own queue begins.
    beyond: usize,
    /// The front rests until this time: the seat has worked for long at tasks from there.
    front_rests_until_ns: u64,
    /// Whether several requests ran when the seat looked last.
    are_on: bool,
}

impl Turns {
    pub(crate) fn new() -> Turns {
        Turns {
            ends_ns: 0,
            now: Turn::Strategy,
            were_suspended: false,
            last: RequestId(0),
            beyond: 0,
            front_rests_until_ns: 0,
            are_on: false,
        }
    }

    /// Whether several requests ran when the seat looked last.
    #[inline]
    pub(crate) fn are_on(&self) -> bool {
        self.are_on
    }

    /// The time is so much by now. A turn that is over is followed by the next one.
    fn tick(&mut self, now_ns: u64) {
        if now_ns < self.ends_ns {
            return;
        }
        self.ends_ns = now_ns.saturating_add(TURN_NS);
        if self.now != Turn::Strategy {
            self.now = Turn::Strategy;
            return;
        }
        self.were_suspended = !self.were_suspended;
        self.now = if self.were_suspended { Turn::Suspended } else { Turn::Beyond };
    }
}

impl<T> Seat<T> {
    /// A task to run, if it is the turn of others than those that the strategy finds; otherwise [`Seat::find`] gives one. To be called while
    /// several requests run. `now_ns` is the time by any clock of the seat's, `next` gives the running request that follows this one by
    /// number, or the first one after the last. On a seat whose task waits the task that is found may be one of any request.
    pub fn find_in_turn<Q>(
        &mut self,
        plan: &SeatPlan,
        mut queues: Q,
        called: impl FnOnce() -> Option<T>,
        now_ns: u64,
        mut next: impl FnMut(RequestId) -> Option<RequestId>,
    ) -> Option<Run<T>>
    where
        Q: QueuesByRequest<Task = T>,
    {
        if !std::mem::replace(&mut self.turns.are_on, true) {
            (self.turns.now, self.turns.ends_ns) = (Turn::Strategy, now_ns.saturating_add(TURN_NS));
        }
        if self.front_ns >= FRONT_TURN_NS {
            (self.front_ns, self.turns.front_rests_until_ns) = (0, now_ns.saturating_add(TURN_NS));
        }
        self.front_rests = now_ns < self.turns.front_rests_until_ns;
        self.turns.tick(now_ns);
        if self.turns.now == Turn::Strategy {
            return None;
        }
        let found = self.find_front(&mut queues).or_else(|| {
            let found = self.find_turn(plan, &mut queues, called, &mut next);
            if found.is_none() {
                self.turns.now = Turn::Strategy;
            }
            found
        });
        found.map(|(task, way)| self.found(task, way))
    }

    /// Several requests run no more.
    #[inline]
    pub fn end_turns(&mut self) {
        if self.turns.are_on {
            (self.turns.are_on, self.front_rests) = (false, false);
        }
    }

    fn find_turn<Q>(
        &mut self,
        plan: &SeatPlan,
        queues: &mut Q,
        called: impl FnOnce() -> Option<T>,
        next: &mut impl FnMut(RequestId) -> Option<RequestId>,
    ) -> Option<(T, Way)>
    where
        Q: QueuesByRequest<Task = T>,
    {
        if self.turns.now == Turn::Suspended {
            if let Some(task) = self.take_suspended().or_else(called) {
                return Some((task, Way::KEPT));
            }
            self.turns.now = Turn::Beyond;
        }
        if self.turns.now == Turn::Beyond {
            self.turns.now = Turn::Next;
            if let Some(found) = self.look_around(plan, queues) {
                return Some(found);
            }
        }
        if let Turn::Of(request) = self.turns.now {
            return self.find_of(request, plan, queues);
        }
        let first = next(self.turns.last)?;
        let mut request = first;
        for _ in 0..MOST_LOOKS {
            self.turns.last = request;
            if let Some(found) = self.find_of(request, plan, queues) {
                self.turns.now = Turn::Of(request);
                return Some(found);
            }
            request = next(request).filter(|&request| request != first)?;
        }
        None
    }

    /// A task of this request, wherever the seat may look.
    fn find_of<Q>(&mut self, request: RequestId, plan: &SeatPlan, queues: &mut Q) -> Option<(T, Way)>
    where
        Q: QueuesByRequest<Task = T>,
    {
        if let Some(next) = self.next.take_if(|next| queues.request_of(&next.task) == request) {
            return Some((next.task, Way::new(next.rule, next.queue)));
        }
        let is_its = |task: &T| queues.request_of(task) == request && queues.may_begin(task);
        if let Some(at) = self.kept.iter().rposition(is_its) {
            return Some((self.kept.remove(at), Way::KEPT));
        }
        if let Some(own) = self.own
            && let Some(task) = queues.take_own_of(own, request)
        {
            return Some((task, self.own_way));
        }
        if let Some(found) = look_of(&plan.look[self.own_probes..], queues, request) {
            return Some((found.task, Way::new(found.rule, found.queue)));
        }
        let front = self.front?;
        Some((queues.take_of(request, front, FRONT_TAKE, 0)?, Way::new(FRONT_RULE, front)))
    }

    /// A task beyond the seat's own queue. Each look begins with another probe, and takes requests in turn, so that none hides what the others would find.
    fn look_around<Q>(&mut self, plan: &SeatPlan, queues: &mut Q) -> Option<(T, Way)>
    where
        Q: QueuesByRequest<Task = T>,
    {
        let probes = &plan.look[self.own_probes..];
        self.turns.beyond = (self.turns.beyond + 1) % probes.len().max(1);
        let (before, from) = probes.split_at(self.turns.beyond.min(probes.len()));
        from.iter().chain(before).find_map(|probe| {
            let take = match probe.take {
                Take::YoungestOfOldestRequest | Take::OldestOfSecondOldestRequest => Take::InTurn(End::Oldest),
                Take::Youngest => Take::Oldest,
                take => take,
            };
            let found = scan(probe, &mut self.cursors, |queue, longer_than| {
                queues.take(queue, take, longer_than, probe.rest_to)
            })?;
            Some((found.task, Way::new(found.rule, found.queue)))
        })
    }
}
