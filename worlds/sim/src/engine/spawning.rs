//! A seat makes tasks: where they go, and whom that wakes.

use super::Engine;
use crate::fluid::Time;
use crate::memory::DataOf;
use crate::seats::{Doing, Frame, Phase};
use crate::{Step, TaskSpec};
use vicus_schedule::{Kind, PoolId, QueueId, SeatId};
use vicus_topology::NodeId;
use vicus_trace::What;

impl Engine<'_> {
    pub(super) fn submit(&mut self, seat: usize, task: u32) {
        let request = self.program.tasks[task as usize].request;
        let requested = self.requests.get_mut(&request).expect("each request was counted");
        if !std::mem::replace(&mut requested.submitted, true) {
            self.note(seat, || What::RequestSubmitted { request: request.0 as u32 });
        }
    }

    /// The seat makes a task, and sets out to queue it.
    pub(super) fn spawn(&mut self, seat: usize, task: u32) {
        let TaskSpec { pinned, spreads, request, .. } = self.program.tasks[task as usize];
        if spreads && self.of_boxes.first() != Some(&request) {
            self.tasks[task as usize].kind = Kind::Immediate;
        }
        let kind = self.tasks[task as usize].kind;
        let mut begin = self.now;
        let mut cost = if kind == Kind::Deferred { self.costs.spawn } else { 0 };
        if pinned.is_none() {
            let (dealt, dealing) = self.destination(seat, task);
            self.tasks[task as usize].dealt = dealt;
            cost = cost.saturating_add(dealing);
            if self.tasks[task as usize].waits == 0 {
                let queue = dealt.unwrap_or(self.plan.seats[seat].place[kind as usize]);
                begin = self.queues.lock(queue, self.now, self.costs.take);
                cost = cost.saturating_add(self.passing(queue));
            }
        }
        self.top(seat).phase = Phase::Busy;
        self.spend(seat, begin, cost);
    }

    /// The task is made: it is queued, unless it waits for others.
    pub(super) fn spawned(&mut self, seat: usize, task: u32) {
        if self.top(seat).scopes.is_empty() {
            let scope = self.open(seat);
            self.top(seat).scopes.push(scope);
        }
        let frame = self.top(seat);
        let (scope, by) = (*frame.scopes.last().expect("one is open"), frame.task);
        self.scopes[scope].pending += 1;
        let state = &mut self.tasks[task as usize];
        (state.spawned, state.scope) = (true, scope);
        let waits = state.waits > 0;
        self.submit(seat, task);
        if !waits {
            self.enqueue(seat, task, self.tasks[task as usize].kind, Some(by));
        }
    }

    /// The queue that a task goes to, if its spawner doesn't decide, and how long it takes to find that out.
    fn destination(&mut self, seat: usize, task: u32) -> (Option<QueueId>, Time) {
        let spec = &self.program.tasks[task as usize];
        if spec.outside {
            // Independent requests begin in different neighbourhoods.
            self.entered += 1;
            return (Some(self.plan.entry[(self.entered - 1) % self.plan.entry.len()]), 0);
        }
        if spec.goes_home {
            return (self.home(seat, task), 0);
        }
        let (dealt, cost) = self.deal(task);
        (dealt.or_else(|| self.in_turn(seat, task)), cost)
    }

    /// The queue of a task that names no place, if the plan deals these in turn.
    fn in_turn(&mut self, seat: usize, task: u32) -> Option<QueueId> {
        let spec = &self.program.tasks[task as usize];
        if let Some(index) = spec.of_box {
            return self.plan.queue_of_box(spec.request, index as usize);
        }
        // The one that spawns it does not wait.
        let waits = self.seats[seat].stack.len().saturating_sub(1);
        let queue = self.plan.queue_in_turn(SeatId::new(seat), self.seats[seat].turn, waits)?;
        self.seats[seat].turn += 1;
        Some(queue)
    }

    /// The queue where most of what a task reads lies, if it lies elsewhere.
    fn home(&mut self, seat: usize, task: u32) -> Option<QueueId> {
        let plan = self.plan;
        if plan.homes.is_empty() {
            return None;
        }
        let nodes = self.memory.by_node(&self.program.tasks[task as usize].accesses);
        let most = (0..nodes.len()).rev().max_by_key(|&node| nodes[node]).filter(|&node| nodes[node] > 0)?;
        // As on threads, a box has the same queue each time.
        let number = self.program.tasks[task as usize].of_box.unwrap_or(task);
        plan.home_queue(SeatId::new(seat), NodeId::new(most), number as usize)
    }

    /// Where a task is dealt to by its bytes, and how long it takes to find that out. `None` if that is its seat's own decision.
    fn deal(&mut self, task: u32) -> (Option<QueueId>, Time) {
        let spec = &self.program.tasks[task as usize];
        let Some(dealing) = self.plan.dealing.as_ref().filter(|_| !spec.accesses.is_empty()) else { return (None, 0) };
        let mut data = DataOf { memory: &self.memory, of_box: spec.of_box };
        let dealt = dealing.deal(&spec.accesses, &mut self.shares, &mut data);
        (dealt.queue, self.costs.deal.saturating_mul(dealt.looked_up as Time))
    }

    /// A task that alone one seat may run.
    pub(super) fn pin(&mut self, seat: usize, task: u32, by: Option<u32>) {
        let pinned = self.program.tasks[task as usize].pinned.expect("the caller has seen it");
        let to = self.threads[pinned % self.threads.len()];
        let enqueued = self.enqueued(task, by);
        self.note(seat, || enqueued);
        self.seats[to].pinned.push_back(task);
        match self.seats[to].doing {
            Doing::Watching => self.resume(to),
            Doing::Asleep | Doing::Pausing => {
                let pool = self.plan.seats[to].pool;
                self.note(seat, || What::Woke { pool: pool.index() as u32 });
                self.wake(to);
            }
            Doing::Busy | Doing::Empty => {}
        }
    }

    /// A task goes into the queue that it was dealt to, or into the seat's own one of this kind.
    pub(super) fn enqueue(&mut self, seat: usize, task: u32, kind: Kind, by: Option<u32>) {
        if self.program.tasks[task as usize].pinned.is_some() {
            return self.pin(seat, task, by);
        }
        let enqueued = self.enqueued(task, by);
        if by.is_some() && self.is_own_next(seat, task) {
            self.note(seat, || enqueued);
            if let Some(earlier) = self.seats[seat].next.replace(task) {
                // Of a box that ran on top of another one's.
                self.put(seat, earlier, Kind::Immediate, None);
            }
            return;
        }
        self.put(seat, task, kind, Some(enqueued));
    }

    /// A task goes into its queue, and somebody is woken for it. `enqueued` is told of it then.
    pub(super) fn put(&mut self, seat: usize, task: u32, kind: Kind, enqueued: Option<What>) {
        let dealt = self.tasks[task as usize].dealt;
        let queue = dealt.unwrap_or(self.plan.seats[seat].place[kind as usize]);
        if !self.queues.push(queue, (task, self.program.tasks[task as usize].request)) {
            // The queue is full: its spawner runs it at once.
            self.counts.refused += 1;
            self.begin_task(seat, task);
            return;
        }
        if let Some(enqueued) = enqueued {
            self.note(seat, || enqueued);
        }
        if self.plan.tokens.and_then(|tokens| tokens.capacity).is_some_and(|most| self.queues.count > most as usize) {
            return self.help(seat);
        }
        self.wake_for(seat, queue);
        self.show();
    }

    /// Whether a box that the seat queues is its next task, because it is immediate and the last thing that its spawner does. Nobody
    /// else sees it, as on threads: who took it could only take it away from its data.
    fn is_own_next(&mut self, seat: usize, task: u32) -> bool {
        let plan = self.plan;
        let (spawner, at) = (self.top(seat).task, self.top(seat).at);
        let steps = &self.program.tasks[spawner as usize].steps;
        let is_last = at + 1 == steps.len() && matches!(&steps[at], Step::Spawn(range) if range.end == task + 1);
        let own = plan.seats[seat].place[Kind::Immediate as usize];
        is_last
            && self.program.tasks[task as usize].of_box.is_some()
            && self.tasks[task as usize].kind == Kind::Immediate
            && self.tasks[task as usize].dealt.is_none()
            && plan.queues[own.index()].owner == Some(SeatId::new(seat))
            && plan.seats[seat].look[0].scan.queues().first() == Some(&own)
            && !self.queues.is_locked(own)
    }

    /// Wakes one seat for a task that was put, in near pools first; if nobody sleeps there, one of those that take from the queue
    /// when it is long.
    fn wake_for(&mut self, seat: usize, queue: QueueId) {
        let (plan, length) = (self.plan, self.queues.len(queue));
        let spec = &plan.queues[queue.index()];
        let robbers = spec.robbers.iter().filter(|robber| length > robber.longer_than as usize);
        let mut pools = spec.wake.iter().copied().chain(robbers.map(|robber| robber.pool));
        let woken = pools.find_map(|pool| Some((pool, self.sleeper_of(pool)?)));
        if let Some((pool, lucky)) = woken {
            self.note(seat, || What::Woke { pool: pool.index() as u32 });
            self.wake(lucky);
        }
    }

    /// One of the seats of a pool that sleep.
    fn sleeper_of(&mut self, pool: PoolId) -> Option<usize> {
        let sleeps = |seat: &&SeatId| matches!(self.seats[seat.index()].doing, Doing::Asleep | Doing::Pausing);
        let sleepers = || self.plan.pools[pool.index()].seats.iter().filter(sleeps);
        let count = sleepers().count();
        let lucky = if count > 0 { self.chance.below(count as u64) } else { return None };
        sleepers().nth(lucky as usize).map(|seat| seat.index())
    }

    pub(super) fn begin_task(&mut self, seat: usize, task: u32) {
        let frame = Frame {
            task,
            at: 0,
            child: 0,
            phase: Phase::Begin,
            scopes: Vec::new(),
            start: self.now,
            bytes: 0.0,
            waited: 0.0,
        };
        self.seats[seat].stack.push(frame);
        self.seats[seat].spins_until = 0;
        self.seats[seat].pause_ns = 0;
    }
}
