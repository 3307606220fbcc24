//! Where a seat puts tasks: those it spawns, and the boxes it activates.

use super::Seat;
use crate::placement::in_turn;
use crate::{
    Access, BoxPlacement, DEEP, DealResult, Dealing, FoundTask, Kind, LastUses, Plan, QueueId, RequestId, SeatId,
    Shares, Spawner, TaskPlacement, Way, Whereabouts,
};
use vicus_topology::{DealReason, NodeId};

/// A seat that finds the queue for its deferred tasks in use puts this number of them into its own queue before it
/// looks there again: each look takes the queue's line away from its users.
const SPILLED: u32 = 64;

/// A seat's place for a task it has spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnTarget {
    /// Into no queue: it keeps the task, and runs it itself ([`Seat::keep`]).
    Keep,
    /// Into this queue, as a task of this kind.
    Into(QueueId, Kind),
}

/// A box that a seat has activated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivatedBox {
    /// Its request.
    pub request: RequestId,
    /// Its number in the request's model.
    pub index: usize,
    /// Its kind.
    pub kind: Kind,
    /// The node of its part of a range, if it has one.
    pub home: Option<NodeId>,
}

/// The place of a task without data, folded from the plan's list once: a spawn asks this and not the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plain {
    /// The seat's own queue.
    Own,
    /// The seat's own queue, or its own immediate one while another seat uses that.
    SpillToOwn,
    /// The queues in turn, in the placement of this index.
    InTurn(usize),
}

/// A seat's placing of tasks: what the plan says, and counts of the tasks placed so far.
#[derive(Debug)]
pub(super) struct Placing {
    plain: Plain,
    /// Whether boxes without a part of a range stay with the seat: bytes and numbers place none.
    boxes_stay: bool,
    /// Whether boxes that stay are deferred tasks.
    defers_boxes: bool,
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
    pub(super) fn new(plan: &Plan) -> Placing {
        let plain = plan.tasks.iter().enumerate().find_map(|(at, placement)| match placement {
            TaskPlacement::InTurn(_) => Some(Plain::InTurn(at)),
            TaskPlacement::SpillToOwn => Some(Plain::SpillToOwn),
            TaskPlacement::Own => Some(Plain::Own),
            TaskPlacement::Crowd(_) | TaskPlacement::Warm(_) | TaskPlacement::ByBytes(_) => None,
        });
        let moves = |placement: &BoxPlacement| matches!(placement, BoxPlacement::ByHeads | BoxPlacement::ByNumber(_));
        Placing {
            plain: plain.unwrap_or(Plain::Own),
            boxes_stay: !plan.boxes.iter().any(moves),
            defers_boxes: plan.boxes.contains(&BoxPlacement::OwnDeferred),
            sent: 0,
            turn: 0,
            shares: Shares::default(),
            spills: 0,
        }
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
    pub fn place(&mut self, plan: &Plan, kind: Kind) -> SpawnTarget {
        if self.is_deep() {
            return SpawnTarget::Keep;
        }
        match self.next_in_turn(plan) {
            // This seat may not even look into that queue.
            Some(queue) => SpawnTarget::Into(queue, Kind::Deferred),
            None => {
                let (queue, kind) = self.send_task(plan, kind, None);
                SpawnTarget::Into(queue, kind)
            }
        }
    }

    /// The seat's own queue for a task of this kind without a named place, if the plan spills such tasks
    /// ([`TaskPlacement::SpillToOwn`]), its request `is_alone`, and another seat uses the task's usual queue
    /// ([`Seat::place`]), or did for one of the last tasks before it. A neighbourhood's shared queue keeps its tasks
    /// together. When many seats want it at once, the spawner would stand in line for its lock, while all of them wait
    /// for the spawner.
    ///
    /// Not among several requests: they take turns in such a queue, and tasks in a seat's own queue go before the other
    /// requests', and on top of their waiting tasks.
    #[inline]
    pub fn spill(
        &mut self,
        kind: Kind,
        is_alone: impl FnOnce() -> bool,
        is_in_use: impl FnOnce() -> bool,
    ) -> Option<QueueId> {
        if self.placing.plain != Plain::SpillToOwn || kind != Kind::Deferred {
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
    pub fn place_second(&mut self, plan: &Plan) -> SpawnTarget {
        if self.takes_tasks(plan) { SpawnTarget::Keep } else { self.place(plan, Kind::Immediate) }
    }

    /// Like [`Seat::place`], for a task dealt to this queue by its spawner, or with `None` to the seat's own of this
    /// kind. On a deep stack the seat keeps it as well, whatever its queue.
    #[inline]
    pub fn place_dealt(&self, plan: &Plan, kind: Kind, queue: Option<QueueId>) -> SpawnTarget {
        if self.is_deep() {
            return SpawnTarget::Keep;
        }
        let (queue, kind) = self.send_task(plan, kind, queue);
        SpawnTarget::Into(queue, kind)
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
        let place = |seat: SeatId| plan.seats[seat.index()].place[kind as usize];
        let there = place(self.stands);
        if self.may_put(plan, there) { there } else { place(self.id) }
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

    /// The queue of the next task without data or a named place, if the plan deals these in turn.
    #[inline]
    fn next_in_turn(&mut self, plan: &Plan) -> Option<QueueId> {
        let Plain::InTurn(at) = self.placing.plain else { return None };
        let TaskPlacement::InTurn(queues) = &plan.tasks[at] else { return None };
        self.take_turn(queues)
    }

    fn take_turn(&mut self, queues: &[QueueId]) -> Option<QueueId> {
        let queue = in_turn::of_task(queues, self.id, self.placing.turn, self.stack.waits.len())?;
        self.placing.turn = self.placing.turn.wrapping_add(1);
        Some(queue)
    }

    /// The queue of a task for a node. `None`: its usual queue without a place.
    pub fn home(&mut self, plan: &Plan, node: NodeId) -> Option<QueueId> {
        self.placing.sent = self.placing.sent.wrapping_add(1);
        plan.home_queue(self.stands, node, self.placing.sent)
    }

    /// The queue of a task with a footprint, by the first of the plan's placements that has one. `None`: the seat's
    /// own. `requests` gives the number of requests, `last_uses` the last uses of its data, if the plan asks for them
    /// ([`Plan::warm`]). Counts the task among the spawner's.
    #[inline]
    pub fn deal(
        &mut self,
        plan: &Plan,
        accesses: &[Access],
        spawner: &mut Spawner,
        requests: impl Fn() -> usize,
        data: &mut impl Whereabouts,
        last_uses: Option<&LastUses>,
    ) -> DealResult {
        let Some(dealing) = plan.dealing().filter(|_| !accesses.is_empty()) else {
            let queue = self.next_in_turn(plan);
            return queue.map_or(DealResult::NONE, |queue| DealResult {
                queue: Some(queue),
                why: Some(DealReason::Turn),
                ..DealResult::NONE
            });
        };
        // A spawner's tasks are counted wherever they go.
        let is_part = dealing.is_part(accesses, spawner);
        let node = plan.seats[self.stands.index()].node;
        let mut dealt = DealResult::NONE;
        for placement in &plan.tasks {
            let found = match placement {
                TaskPlacement::Crowd(crowd) => crowd.deal(node, accesses, &requests),
                TaskPlacement::Warm(warm) => {
                    last_uses.and_then(|last_uses| warm.deal(accesses, is_part, last_uses, data))
                }
                TaskPlacement::ByBytes(dealing) => {
                    self.placing.shares.spreads = !is_part;
                    let found = dealing.deal(accesses, &mut self.placing.shares, data);
                    Some(if is_part { Dealing::keep_part(found) } else { found })
                }
                TaskPlacement::InTurn(queues) => {
                    let queue = self.take_turn(queues);
                    queue.map(|queue| DealResult { queue: Some(queue), why: Some(DealReason::Turn), ..dealt })
                }
                TaskPlacement::SpillToOwn | TaskPlacement::Own => None,
            };
            dealt = found.unwrap_or(dealt);
            if dealt.queue.is_some() {
                break;
            }
        }
        // Bytes count where they go, by any placement, and on this node for a part of its spawner's work.
        let node = match dealt.queue {
            Some(queue) if dealt.why != Some(DealReason::Turn) => Some(plan.queues[queue.index()].home),
            _ => (dealt.why == Some(DealReason::Part)).then_some(node),
        };
        if let Some(node) = node {
            dealing.count(&mut self.placing.shares, node, accesses);
        }
        dealt
    }

    /// The queue of an activated box, by the first of the plan's placements that has one. `deal` sums the heads of its
    /// inputs, if the plan asks for them. `None`: the seat's own.
    #[inline]
    pub fn deal_box(
        &mut self,
        plan: &Plan,
        activated: &ActivatedBox,
        deal: impl FnOnce(&Dealing, &mut Shares) -> DealResult,
    ) -> DealResult {
        if self.placing.boxes_stay && activated.home.is_none() {
            return DealResult::NONE;
        }
        self.deal_box_elsewhere(plan, activated, deal)
    }

    fn deal_box_elsewhere(
        &mut self,
        plan: &Plan,
        activated: &ActivatedBox,
        deal: impl FnOnce(&Dealing, &mut Shares) -> DealResult,
    ) -> DealResult {
        let ActivatedBox { request, index, kind, home } = *activated;
        let own = self.place_of_box(plan, kind);
        let mut deal = Some(deal);
        let mut dealt = DealResult::NONE;
        for placement in &plan.boxes {
            match placement {
                BoxPlacement::AtHome => {
                    dealt.queue = home.and_then(|home| plan.home_queue(self.stands, home, index));
                }
                BoxPlacement::ByHeads => {
                    let dealing = plan.dealing().zip(deal.take());
                    dealt = dealing.map_or(dealt, |(dealing, deal)| deal(dealing, &mut self.placing.shares));
                    dealt.queue = dealt.queue.filter(|&queue| queue != own);
                }
                BoxPlacement::ByNumber(queues) if home.is_none() => {
                    dealt.queue = in_turn::of_box(queues, request, index).filter(|&queue| queue != own);
                    dealt.why = if dealt.queue.is_some() { Some(DealReason::Turn) } else { dealt.why };
                }
                // The world knows the ages of requests.
                BoxPlacement::Front(_) => {}
                BoxPlacement::ByNumber(_) | BoxPlacement::Own | BoxPlacement::OwnDeferred => {}
            }
            if dealt.queue.is_some() {
                break;
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
        let kind = if self.placing.defers_boxes { Kind::Deferred } else { kind };
        let (queue, kind) = self.send(plan, kind, queue);
        if !(is_last && kind == Kind::Immediate && self.own.queue.is_some()) {
            return Some((task, queue, kind));
        }
        let next = FoundTask { task, way: Way::new(self.own.way.rule(), queue) };
        // The earlier one was activated by a box with others on top of it now.
        let earlier = self.ready.set_next(next)?;
        Some((earlier.task, earlier.way.queue().expect("the next task has a queue"), Kind::Immediate))
    }
}
