//! Looking for work, pausing, sleeping and waking.

use super::{Engine, picoseconds};
use crate::fluid::Time;
use crate::options::Fault;
use crate::seats::{Doing, Thread, Waiting};
use vicus_schedule::{Decision, FoundTask, NextTask, QueueId, RequestId, Rest, Way};
use vicus_trace::What;

/// How long a seat takes to give way when no other thread on its PU is ready: a call of the system.
const GIVES_WAY_NS: u64 = 300;

impl Engine<'_> {
    /// The request of the tasks allowed on top of a task that begins to wait. A program's first task that submits other
    /// requests counts as a caller from outside: while it waits, its seat is free. A kernel's first task is a task like
    /// others, as on threads.
    pub(super) fn waits_for(&self, task: u32) -> Option<RequestId> {
        let is_inside = self.requests.by_id.len() == 1;
        (task != 0 || is_inside).then(|| self.program.tasks[task as usize].request)
    }

    /// A task with its request, as queues hold it.
    pub(super) fn waiting(&self, task: u32) -> Waiting {
        (task, self.program.tasks[task as usize].request)
    }

    /// Looks for a task for a seat and begins it; if there is none, the seat idles.
    pub(super) fn find(&mut self, seat: usize) {
        if let Some((task, way)) = self.next_in_row(seat) {
            let (begin, cost) = self.took(seat, task, way);
            return self.spend(seat, begin, cost);
        }
        // On threads a task of another request gets a stack of its own, and the waiting one goes on when it can. There
        // are no such stacks here.
        let found = if self.seats[seat].state.is_waiting() { None } else { self.find_in_turn(seat, None) };
        let Engine { plan, seats, queues, program, .. } = self;
        let Thread { state, pinned, .. } = &mut seats[seat];
        let called = || pinned.pop_front().map(|task| (task, program.tasks[task as usize].request));
        let Some(NextTask { task, way, passes_wake_on }) =
            found.or_else(|| state.find(&plan.seats[seat], queues, called))
        else {
            return self.idle(seat);
        };
        self.seats[seat].idle_since = None;
        let (begin, cost) = self.took(seat, task.0, way);
        if passes_wake_on {
            self.pass_on(seat);
        }
        self.spend(seat, begin, cost);
        if way.queue().is_some() {
            self.show();
        }
    }

    /// A task to run, if it is the turn of others than the strategy's. `but` is a request that leaves its turn.
    fn find_in_turn(&mut self, seat: usize, but: Option<RequestId>) -> Option<NextTask<Waiting>> {
        let Engine { plan, seats, queues, program, requests, now, options, .. } = self;
        let Thread { state, pinned, .. } = &mut seats[seat];
        if requests.in_turn.len() <= 1 || options.without_turns {
            state.end_turns();
            return None;
        }
        let called = || pinned.pop_front().map(|task| (task, program.tasks[task as usize].request));
        state.find_in_turn(&plan.seats[seat], &mut *queues, called, *now / 1000, &mut requests.in_turn, but)
    }

    /// A task without room in a queue has run on top of its spawner, or another one in its turn: others' turns come
    /// before the spawner goes on, as long as they last.
    pub(super) fn take_turn(&mut self, seat: usize) {
        // What a task's end has released may help on an empty stack.
        let Some(spawner) = self.seats[seat].stack.last() else { return };
        let but = self.program.tasks[spawner.task as usize].request;
        let is_deep = self.seats[seat].state.is_deep();
        let found = if is_deep { None } else { self.find_in_turn(seat, Some(but)) };
        let Some(NextTask { task, way, .. }) = found else { return };
        self.seats[seat].state.begin_wait(None);
        let (begin, cost) = self.took(seat, task.0, way);
        self.top(seat).is_in_turn = true;
        self.owe(seat, begin - self.now);
        self.owe(seat, cost);
    }

    /// Begins a task found by a seat. Returns the time at which the seat gets it, and its further cost from then on.
    pub(super) fn took(&mut self, seat: usize, task: u32, way: Way) -> (Time, Time) {
        let who = self.who(task);
        self.record_decision(seat, Decision::Runs(self.name_of(task), way));
        if let Some(cost) = self.go_on(seat, task) {
            return (self.now, cost);
        }
        let Some(queue) = way.queue() else {
            self.note(seat, || What::Taken { who, rule: 0, far: false });
            let is_pinned = self.program.tasks[task as usize].pinned.is_some();
            self.begin_task(seat, task);
            return (self.now, if is_pinned { self.hardware.costs.take.once() } else { 0 });
        };
        let spec = &self.plan.queues[queue.index()];
        let far = spec.home != self.seats[seat].node;
        let stolen = far || spec.owner.is_some_and(|owner| owner.index() != seat);
        let passing = self.passing(seat, queue);
        let (begin, cost) = if stolen {
            // Thieves of a queue without a lock have its line one after the other, and its owner uses others.
            let hold = if self.queues.is_locked(queue) { passing } else { self.line(seat, queue) };
            (self.queues.lock(queue, seat, self.now, hold), self.hardware.costs.steal.once().max(hold))
        } else {
            (self.enter(queue, seat, passing), passing)
        };
        *self.results.counts.takes.entry(way.rule()).or_default() += 1;
        self.results.counts.far_takes += u64::from(far);
        self.note(seat, || What::Taken { who, rule: way.rule(), far });
        self.begin_task(seat, task);
        (begin, cost)
    }

    /// Time for a queue's line to come from the last seat to use it.
    fn line(&self, seat: usize, queue: QueueId) -> Time {
        let Some(last) = self.queues.last(queue).filter(|&last| last != seat) else { return 0 };
        let group = |seat: usize| self.machine.topology.pus[self.seats[seat].pu.index()].group.index();
        self.hardware.lines[group(seat)][group(last)]
    }

    /// The time of putting a task into a near queue, or of taking one.
    pub(super) fn passing(&self, seat: usize, queue: QueueId) -> Time {
        match self.queues.is_locked(queue) {
            true => self.hardware.costs.take.once().saturating_add(self.line(seat, queue)),
            false => self.hardware.costs.own.once(),
        }
    }

    /// The beginning of a seat's use of a queue of its own, or of a locked one, for this long.
    pub(super) fn enter(&mut self, queue: QueueId, seat: usize, passing: Time) -> Time {
        if self.queues.is_locked(queue) { self.queues.lock(queue, seat, self.now, passing) } else { self.now }
    }

    /// The seat has made more tokens than their pool holds: it takes a task at once, seldom its own last one.
    pub(super) fn help(&mut self, seat: usize) {
        if let Some(FoundTask { task, way }) = self.seats[seat].state.help(&self.plan.seats[seat], &mut self.queues) {
            let (begin, cost) = self.took(seat, task.0, way);
            self.begin_help(seat);
            self.owe(seat, begin - self.now);
            self.owe(seat, cost);
        }
    }

    /// Marks the begun task: it runs on top of its spawner, or of another task without room for its children.
    pub(super) fn begin_help(&mut self, seat: usize) {
        self.top(seat).helps = true;
        self.seats[seat].state.begin_help();
    }

    /// Adds a cost to the seat's next step.
    pub(super) fn owe(&mut self, seat: usize, cost: Time) {
        let debt = &mut self.seats[seat].debt;
        *debt = debt.saturating_add(cost);
    }

    /// The seat has found nothing: it looks around, pauses or sleeps.
    pub(super) fn idle(&mut self, seat: usize) {
        let now = self.now;
        let since = *self.seats[seat].idle_since.get_or_insert(now);
        match self.seats[seat].state.none(&self.plan.seats[seat], (now - since) / 1000) {
            Rest::Look { until_ns } => {
                self.set_doing(seat, Doing::Watching);
                self.schedule(seat, since + until_ns * 1000);
            }
            Rest::GiveWay => {
                self.set_doing(seat, Doing::Watching);
                self.schedule(seat, now + GIVES_WAY_NS * 1000);
            }
            Rest::Pause { ns } => {
                self.agenda.fruitless += 1;
                self.set_doing(seat, Doing::Pausing);
                self.schedule(seat, now + ns * 1000);
            }
            Rest::Sleep { sleeper, at_most_ns } => {
                let pool = self.plan.seats[seat].pool;
                self.pools[pool.index()].announce(self.seats[seat].slot, sleeper);
                self.seats[seat].idle_since = None;
                self.seats[seat].asleep_since = Some(now);
                self.record_decision(seat, Decision::Sleeps);
                self.note(seat, || What::SleepBegins);
                match at_most_ns {
                    Some(ns) => {
                        self.set_doing(seat, Doing::Dozing);
                        self.schedule(seat, now + ns * 1000);
                    }
                    None => self.set_doing(seat, Doing::Asleep),
                }
            }
        }
    }

    /// Ends a seat's sleep, and tells it the task behind its wake.
    pub(super) fn wake_up(&mut self, seat: usize, slept_ns: u64) {
        self.note(seat, || What::SleepEnds);
        let pool = self.plan.seats[seat].pool;
        let Thread { state, slot, .. } = &mut self.seats[seat];
        state.woken(self.pools[pool.index()].stay(*slot), Some(slept_ns), false);
    }

    /// Makes a waiting seat, or one with a task of its own, look, unless it looks by itself.
    pub(super) fn ask(&mut self, seat: usize) {
        match self.seats[seat].doing {
            Doing::Watching => self.resume(seat),
            Doing::Asleep | Doing::Dozing => self.wake(seat),
            Doing::Busy | Doing::Pausing | Doing::Empty => {}
        }
    }

    /// Ends a seat's watching: it looks at once.
    pub(super) fn resume(&mut self, seat: usize) {
        self.set_doing(seat, Doing::Busy);
        self.schedule(seat, self.now);
    }

    /// Wakes a sleeping seat.
    pub(super) fn wake(&mut self, seat: usize) {
        let now = self.now;
        let late = self.late_wakes.iter().position(|fault| match *fault {
            Fault::LateWake { seat: other, from_ns, .. } => other == seat && picoseconds(from_ns) <= now,
            Fault::Slow { .. } => false,
        });
        let by = match late.map(|at| self.late_wakes.remove(at)) {
            Some(Fault::LateWake { by_ns, .. }) => picoseconds(by_ns),
            _ => 0,
        };
        self.results.counts.wakes += 1;
        let mut at = now.saturating_add(self.hardware.costs.wake).saturating_add(by);
        if self.seats[seat].doing == Doing::Dozing {
            // Its pause may end earlier.
            at = at.min(self.seats[seat].due);
        }
        self.set_doing(seat, Doing::Busy);
        self.schedule(seat, at);
    }

    /// Resumes one of the watching seats that may take a queued task, if there is one.
    pub(super) fn show(&mut self) {
        if self.agenda.watching == 0 || self.queues.count == 0 {
            return;
        }
        let count = self.seats.len();
        let first = self.chance.below(count as u64) as usize;
        let sees = |seat: &usize| {
            let thread = &self.seats[*seat];
            let probes = &self.plan.seats[*seat].look;
            thread.doing == Doing::Watching && self.queues.serve(probes, thread.state.waits_for())
        };
        if let Some(seat) = (0..count).map(|step| (first + step) % count).find(sees) {
            self.resume(seat);
        }
    }
}
