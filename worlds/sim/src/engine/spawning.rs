//! Spawning tasks: the choice of their queues, and the wakes for them.

use super::{Engine, Goes};
use crate::event_logs;
use crate::fluid::Time;
use crate::memory::{DataOf, Memory};
use crate::seats::{Doing, Frame, Phase};
use crate::{Step, TaskSpec};
use vicus_schedule::{
    Access, ActivatedBox, After, DealResult, Decision, Kind, Plan, PoolId, QueueId, SeatId, SpawnTarget, Spawner, Wake,
    Way,
};
use vicus_topology::NodeId;
use vicus_trace::What;

impl Engine<'_> {
    pub(super) fn submit(&mut self, seat: usize, task: u32) {
        let request = self.program.tasks[task as usize].request;
        let requested = self.requests.by_id.get_mut(&request).expect("each request was counted");
        if !std::mem::replace(&mut requested.submitted, true) {
            self.requests.open += 1;
            if self.requests.by_id.len() == 1 || self.program.tasks[0].request != request {
                self.requests.in_turn.begin(request);
            }
            self.note(seat, || What::RequestSubmitted { request: request.number() as u32 });
        }
    }

    /// Makes a task, and takes the time for it and for its queue.
    pub(super) fn spawn(&mut self, seat: usize, task: u32) {
        let TaskSpec { pinned, spreads, request, .. } = self.program.tasks[task as usize];
        if spreads && self.alone() != Some(request) {
            self.graph.tasks[task as usize].kind = Kind::Immediate;
        }
        let kind = self.place_of(seat, task, self.graph.tasks[task as usize].kind).1;
        self.graph.tasks[task as usize].kind = kind;
        let mut begin = self.now;
        let mut cost = if kind == Kind::Deferred { self.hardware.costs.spawn.once() } else { 0 };
        if pinned.is_none() {
            let (goes, dealing) = self.destination(seat, task);
            self.graph.tasks[task as usize].goes = goes;
            cost = cost.saturating_add(dealing);
            if self.graph.tasks[task as usize].waits == 0 {
                let kind = self.spills(seat, task, kind);
                self.graph.tasks[task as usize].kind = kind;
                let (queue, passing) = self.reach(seat, task, kind);
                begin = queue.map_or(begin, |queue| self.enter(queue, seat, passing));
                cost = cost.saturating_add(passing);
            }
        }
        self.top(seat).phase = Phase::Busy;
        self.spend(seat, begin, cost);
    }

    /// The seat's queue for a task of this kind without another one, and its kind there.
    pub(super) fn place_of(&self, seat: usize, task: u32, kind: Kind) -> (QueueId, Kind) {
        let spec = &self.program.tasks[task as usize];
        if spec.of_box.is_some() || spec.outside {
            return (self.plan.seats[seat].place[kind as usize], kind);
        }
        self.plan.place_of_task(SeatId::new(seat), kind)
    }

    /// The kind of a task about to be queued as this one: immediate, if it goes to its spawner's own queue because
    /// another seat uses the other one.
    pub(super) fn spills(&mut self, seat: usize, task: u32, kind: Kind) -> Kind {
        let queue = self.place_of(seat, task, kind).0;
        let Engine { plan, program, seats, queues, graph, requests, now, .. } = self;
        let (spec, goes) = (&program.tasks[task as usize], &mut graph.tasks[task as usize].goes);
        let is_unnamed = spec.of_box.is_none()
            && !spec.outside
            && !spec.goes_home
            && match *goes {
                Goes::Near => true,
                Goes::To(other) => other == queue && spec.accesses.is_empty(),
                Goes::Kept => false,
            };
        let state = &mut seats[seat].state;
        // On a deep stack it is kept.
        if !is_unnamed || state.place_dealt(plan, kind, None) == SpawnTarget::Keep {
            return kind;
        }
        match state.spill(kind, || requests.open <= 1, || queues.is_in_use(queue, *now)) {
            Some(_) => {
                *goes = Goes::Near;
                Kind::Immediate
            }
            None => kind,
        }
    }

    /// The task is made: queues it, unless it waits for others.
    pub(super) fn spawned(&mut self, seat: usize, task: u32) {
        if self.top(seat).scopes.is_empty() {
            let scope = self.open(seat);
            self.top(seat).scopes.push(scope);
        }
        let frame = self.top(seat);
        let (scope, by) = (*frame.scopes.last().expect("one is open"), frame.task);
        self.graph.scopes[scope].pending += 1;
        let state = &mut self.graph.tasks[task as usize];
        (state.spawned, state.scope) = (true, scope);
        let waits = state.waits > 0;
        self.submit(seat, task);
        if !waits {
            self.enqueue(seat, task, self.graph.tasks[task as usize].kind, Some(by));
        }
    }

    /// The queue of a task about to be put, and the time of the put.
    pub(super) fn reach(&self, seat: usize, task: u32, kind: Kind) -> (Option<QueueId>, Time) {
        let queue = match self.graph.tasks[task as usize].goes {
            Goes::Near => self.place_of(seat, task, kind).0,
            Goes::To(queue) => queue,
            Goes::Kept => return (None, 0),
        };
        (Some(queue), self.passing(seat, queue))
    }

    /// A task's destination, and the time to find it.
    fn destination(&mut self, seat: usize, task: u32) -> (Goes, Time) {
        let mut spawner = self.top(seat).spawner;
        let kind = self.graph.tasks[task as usize].kind;
        let Engine { plan, program, seats, hardware, requests, last_uses, .. } = self;
        let (spec, state) = (&program.tasks[task as usize], &mut seats[seat].state);
        if spec.outside {
            // Independent requests begin in different neighbourhoods.
            self.requests.entered += 1;
            return (Goes::To(plan.entry[(self.requests.entered - 1) % plan.entry.len()]), 0);
        }
        let home = if spec.goes_home { home(plan, &hardware.memory, &spec.accesses) } else { None };
        let mut data = DataOf { memory: &mut hardware.memory, of_box: spec.of_box };
        let dealt = match spec.of_box {
            Some(index) => {
                let activated = ActivatedBox { request: spec.request, index: index as usize, kind: spec.kind, home };
                state.deal_box(plan, &activated, |dealing, shares| {
                    // The envelopes don't contain the part of the range, which lies elsewhere.
                    if spec.goes_home { DealResult::NONE } else { dealing.deal(&spec.accesses, shares, &mut data) }
                })
            }
            None if spec.goes_home => {
                DealResult { queue: home.and_then(|home| state.home(plan, home)), ..DealResult::NONE }
            }
            // It names its data.
            None if !spec.accesses.is_empty() || !spec.after.is_empty() => {
                state.deal(plan, &spec.accesses, &mut spawner, || requests.open, &mut data, last_uses.as_ref())
            }
            None if kind == Kind::Immediate && state.takes_tasks(plan) => DealResult::NONE,
            None => match state.place(plan, kind) {
                SpawnTarget::Keep => return (Goes::Kept, 0),
                SpawnTarget::Into(queue, _) => DealResult { queue: Some(queue), ..DealResult::NONE },
            },
        };
        if let Some(told) = event_logs::dealt(&self.program, task, &dealt) {
            self.note(seat, || told);
        }
        self.top(seat).spawner = spawner;
        let cost = self
            .hardware
            .costs
            .deal
            .of(dealt.looked_up)
            .saturating_add(self.hardware.costs.stretch.of(dealt.stretches));
        (dealt.queue.map_or(Goes::Near, Goes::To), cost)
    }

    /// Gives a task to the seat it is reserved for.
    pub(super) fn pin(&mut self, seat: usize, task: u32, by: Option<u32>) {
        let pinned = self.program.tasks[task as usize].pinned.expect("the caller has seen it");
        let to = self.threads[pinned % self.threads.len()];
        let enqueued = self.enqueued(task, self.program.tasks[task as usize].kind, by);
        self.note(seat, || enqueued);
        self.seats[to].pinned.push_back(task);
        self.ask(to);
    }

    /// Its spawner keeps a task.
    fn keep(&mut self, seat: usize, task: u32, kind: Kind, by: Option<u32>) {
        let waiting = self.waiting(task);
        self.seats[seat].state.keep(waiting);
        self.record_decision(seat, Decision::Keeps(self.name_of(task)));
        let enqueued = self.enqueued(task, kind, by);
        self.note(seat, || enqueued);
    }

    /// Queues a task, as one of this kind unless another queue was found for it.
    pub(super) fn enqueue(&mut self, seat: usize, task: u32, kind: Kind, by: Option<u32>) {
        if self.program.tasks[task as usize].pinned.is_some() {
            return self.pin(seat, task, by);
        }
        let is_last = by.is_some() && self.is_last(seat, task);
        let (plan, waiting) = (self.plan, self.waiting(task));
        let state = &mut self.seats[seat].state;
        let queue = match self.graph.tasks[task as usize].goes {
            Goes::Near => None,
            Goes::To(queue) => Some(queue),
            Goes::Kept => return self.keep(seat, task, kind, by),
        };
        // Its own queue takes immediate tasks on a stack of any depth, and boxes don't wait.
        let is_own = kind == Kind::Immediate && queue.is_none() && state.takes_tasks(plan);
        let is_box = self.program.tasks[task as usize].of_box.is_some();
        if !is_own && !is_box && state.place_dealt(plan, kind, queue) == SpawnTarget::Keep {
            return self.keep(seat, task, kind, by);
        }
        let (own, as_kind) = if is_box { state.send(plan, kind, queue) } else { state.send_task(plan, kind, queue) };
        let put = match self.program.tasks[task as usize].of_box {
            Some(_) => state.activated(plan, waiting, kind, queue, is_last),
            None => Some((waiting, own, as_kind)),
        };
        let enqueued = self.enqueued(task, as_kind, by);
        self.note(seat, || enqueued);
        if put.is_none_or(|((other, _), ..)| other != task) {
            self.record_decision(seat, Decision::Next(self.name_of(task)));
        }
        if let Some(((task, _), queue, _)) = put {
            self.put(seat, task, queue);
        }
    }

    /// Puts a task into a queue and wakes a seat for it; or the seat itself runs a task at once.
    pub(super) fn put(&mut self, seat: usize, task: u32, queue: QueueId) {
        let (waiting, spec) = (self.waiting(task), &self.program.tasks[task as usize]);
        // A caller from outside runs nothing itself.
        let runs_inline = spec.of_box.is_none() && !spec.outside;
        self.record_decision(seat, Decision::Puts(self.name_of(task), queue));
        let state = &mut self.seats[seat].state;
        if !self.queues.push(queue, waiting) {
            self.results.counts.refused += 1;
            if state.refused(waiting, runs_inline).is_some() {
                let (_, cost) = self.took(seat, task, Way::NO_QUEUE);
                self.begin_help(seat);
                self.owe(seat, cost);
            }
            return;
        }
        let capacity = self.plan.tokens.and_then(|tokens| tokens.capacity);
        match state.pushed(runs_inline, capacity.is_some_and(|most| self.queues.count > most as usize)) {
            After::Help => self.help(seat),
            After::Wake => {
                let while_waiting = self.for_waiting[queue.index()];
                self.wake_one(seat, Wake { queue, request: Some(waiting.1), while_waiting });
                self.show();
            }
        }
    }

    /// Whether a box is the last one queued by its spawner.
    fn is_last(&self, seat: usize, task: u32) -> bool {
        let frame = self.seats[seat].stack.last().expect("the seat runs a task");
        let (steps, at) = (&self.program.tasks[frame.task as usize].steps, frame.at);
        at + 1 == steps.len() && matches!(&steps[at], Step::Spawn(range) if range.end == task + 1)
    }

    /// Wakes another seat for this one's wake task, if there is one.
    pub(super) fn pass_on(&mut self, seat: usize) {
        if let Some(wake) = self.seats[seat].state.take_wake() {
            self.record_decision(seat, Decision::PassesOn(wake.queue));
            self.wake_one(seat, wake);
        }
    }

    /// Wakes one seat for a task.
    pub(super) fn wake_one(&mut self, seat: usize, wake: Wake) {
        let Engine { plan, queues, pools, .. } = self;
        let mut chosen = None;
        let chooses = |pool: PoolId| {
            chosen = pools[pool.index()].choose(wake);
            chosen.is_some()
        };
        let Some(pool) = plan.wake_one(wake.queue, || queues.len(wake.queue), chooses) else { return };
        self.record_decision(seat, Decision::Wakes(pool));
        self.note(seat, || What::Woke { pool: pool.index() as u32 });
        let lucky = self.plan.pools[pool.index()].seats[chosen.expect("it was chosen")].index();
        // It may be awake already, because it was asked to look.
        if matches!(self.seats[lucky].doing, Doing::Asleep | Doing::Dozing) {
            self.wake(lucky);
        }
    }

    pub(super) fn begin_task(&mut self, seat: usize, task: u32) {
        self.begin_row(seat, task);
        let spec = &self.program.tasks[task as usize];
        let divides = spec.of_box.is_none() && self.plan.divides(&spec.accesses);
        if let (Some(warm), Some(last_uses), None) = (self.plan.warm(), &self.last_uses, spec.of_box) {
            let stands = self.seats[seat].state.stands();
            last_uses.begin(self.plan.seats[stands.index()].pool, &last_uses.uses(warm, &spec.accesses));
        }
        let frame = Frame {
            task,
            at: 0,
            child: 0,
            spawner: Spawner::new(divides),
            phase: Phase::Begin,
            helps: false,
            is_in_turn: false,
            scopes: Vec::new(),
            start: self.now,
            bytes: 0.0,
            waited: 0.0,
            near: 0.0,
            far: 0.0,
            worked: 0,
        };
        self.seats[seat].stack.push(frame);
    }
}

/// The node with most of a task's data, if the plan has homes for nodes.
fn home(plan: &Plan, memory: &Memory<'_>, accesses: &[Access]) -> Option<NodeId> {
    if plan.homes.is_empty() {
        return None;
    }
    let nodes = memory.by_node(accesses);
    let most = (0..nodes.len()).rev().max_by_key(|&node| nodes[node]).filter(|&node| nodes[node] > 0);
    most.map(NodeId::new)
}
