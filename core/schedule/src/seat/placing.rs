//! Where a seat puts tasks: those it spawns, and the boxes it activates.

use super::Seat;
use crate::{
    Access, DEEP, Dealing, Dealt, Found, Kind, LastUses, Plan, QueueId, RequestId, Shares, Spawner, Way, Whereabouts,
    Why,
};
use vicus_topology::NodeId;

/// A seat that finds the queue for its deferred tasks in use puts this number of them into its own queue before it
/// looks there again: each look takes the queue's line away from its users.
const SPILLED: u32 = 64;

/// A seat's place for a task it has spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// Into no queue: it keeps the task, and runs it itself ([`Seat::keep`]).
    Keep,
    /// Into this queue, as a task of this kind.
    Into(QueueId, Kind),
}

/// A seat's counts of the tasks it has placed.
#[derive(Debug)]
pub(super) struct Placing {
    /// How many tasks with a named place it has spawned, so the tasks for one place go to its queues in turn.
    sent: usize,
    /// How many tasks without a named place it has dealt in turn. Counted apart: if every second task names a place,
    /// the others still go to every queue.
    turn: usize,
    /// Sums of a task's bytes by location.
    shares: Shares,
    /// How many more deferred tasks go into its own queue, since their usual one was in use.
    spills: u32,
}

impl Placing {
    pub(super) fn new() -> Placing {
        Placing { sent: 0, turn: 0, shares: Shares::default(), spills: 0 }
    }
}

impl<T> Seat<T> {
    /// Whether its stack has enough waiting tasks for it to keep the tasks it spawns.
    #[inline]
    pub fn is_deep(&self) -> bool {
        self.stack.waits.len() >= DEEP
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
        let own = self.own.queue?;
        if !is_alone() {
            self.placing.spills = 0;
            return None;
        }
        if self.placing.spills > 0 {
            self.placing.spills -= 1;
        } else if is_in_use() {
            self.placing.spills = SPILLED - 1;
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
        let queue = plan.queue_in_turn(self.id, self.placing.turn, self.stack.waits.len())?;
        self.placing.turn = self.placing.turn.wrapping_add(1);
        Some(queue)
    }

    /// The queue of a task for a node. `None`: its usual queue without a place.
    pub fn home(&mut self, plan: &Plan, node: NodeId) -> Option<QueueId> {
        self.placing.sent = self.placing.sent.wrapping_add(1);
        plan.home_queue(self.stands, node, self.placing.sent)
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
            self.placing.shares.spreads = !is_part;
            let dealt = dealing.deal(accesses, &mut self.placing.shares, data);
            if is_part { Dealing::keep_part(dealt) } else { dealt }
        });
        if let Some(dealing) = dealing.filter(|_| dealt.queue.is_some() || dealt.why == Why::Part) {
            let node = match dealt.queue {
                Some(queue) => plan.queues[queue.index()].home,
                None => plan.seats[self.stands.index()].node,
            };
            dealing.count(&mut self.placing.shares, node, accesses);
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
        let mut dealt = dealing.map_or(Dealt::NONE, |dealing| deal(dealing, &mut self.placing.shares));
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
        if !(is_last && kind == Kind::Immediate && self.own.queue.is_some()) {
            return Some((task, queue, kind));
        }
        let next = Found { task, way: Way::new(self.own.way.rule(), queue) };
        // The earlier one was activated by a box with others on top of it now.
        let earlier = self.ready.set_next(next)?;
        Some((earlier.task, earlier.way.queue().expect("the next task has a queue"), Kind::Immediate))
    }
}
