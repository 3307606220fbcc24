//! A seat looks for work, pauses, sleeps, and is woken.

use super::{Engine, picoseconds};
use crate::fluid::Time;
use crate::options::Fault;
use crate::seats::{Doing, Waiting};
use vicus_schedule::{Found, Idle, Kind, QueueId, RequestId, look, look_waiting};
use vicus_trace::What;

impl Engine<'_> {
    /// The request of the task that waits on a seat, and whose tasks it may run meanwhile. A program's first task that submits
    /// other requests is as a caller from outside: while it waits, its seat is free. A kernel's is a task like others, as on threads.
    pub(super) fn waits_for(&self, seat: usize) -> Option<RequestId> {
        let is_inside = self.requests.len() == 1;
        let waiting = self.seats[seat].stack.last().filter(|frame| frame.task != 0 || is_inside);
        waiting.map(|frame| self.program.tasks[frame.task as usize].request)
    }

    /// A task in a queue that a seat may take now.
    pub(super) fn look(&mut self, seat: usize) -> Option<Found<Waiting>> {
        let (plan, waits_for) = (&self.plan.seats[seat], self.waits_for(seat));
        let waits = self.seats[seat].stack.len();
        let cursors = &mut self.seats[seat].cursors;
        match waits_for {
            Some(request) => look_waiting(&plan.look, cursors, &mut self.queues, request, waits),
            None => look(&plan.look, cursors, &mut self.queues),
        }
    }

    /// Whether there is one.
    pub(super) fn sees(&self, seat: usize) -> bool {
        self.queues.serve(&self.plan.seats[seat].look, self.waits_for(seat))
    }

    /// A seat looks for a task; it begins one, or does what idle seats do.
    pub(super) fn find(&mut self, seat: usize) {
        if let Some(task) = self.seats[seat].next.take() {
            let plan = &self.plan.seats[seat];
            let (rule, queue) = (plan.look[0].rule, plan.place[Kind::Immediate as usize]);
            let request = self.program.tasks[task as usize].request;
            let (begin, cost) = self.took(seat, Found { task: (task, request), rule, queue });
            return self.spend(seat, begin, cost);
        }
        if let Some(task) = self.seats[seat].pinned.pop_front() {
            let who = self.who(task);
            self.note(seat, || What::Taken { who, rule: 0, far: false });
            self.begin_task(seat, task);
            return self.spend(seat, self.now, self.costs.take);
        }
        let Some(found) = self.look(seat) else { return self.idle(seat) };
        let (begin, cost) = self.took(seat, found);
        self.spend(seat, begin, cost);
        self.show();
    }

    /// A seat begins a task that it has found; says when it got it, and how long that takes from then on.
    fn took(&mut self, seat: usize, found: Found<Waiting>) -> (Time, Time) {
        let (task, _) = found.task;
        let spec = &self.plan.queues[found.queue.index()];
        let far = spec.home != self.seats[seat].node;
        let stolen = far || spec.owner.is_some_and(|owner| owner.index() != seat);
        let cost = if stolen { self.costs.steal } else { self.passing(found.queue) };
        let begin = self.queues.lock(found.queue, self.now, cost);
        *self.counts.takes.entry(found.rule).or_default() += 1;
        self.counts.far_takes += u64::from(far);
        let who = self.who(task);
        self.note(seat, || What::Taken { who, rule: found.rule, far });
        self.begin_task(seat, task);
        (begin, cost)
    }

    /// How long it takes to put a task into a near queue, or to take one.
    pub(super) fn passing(&self, queue: QueueId) -> Time {
        if self.queues.is_locked(queue) { self.costs.take } else { self.costs.own }
    }

    /// The seat has made more tokens than their pool holds: it takes a task at once, as workers of worlds/machine do. It is
    /// seldom the one that it has just made.
    pub(super) fn help(&mut self, seat: usize) {
        let cursors = &mut self.seats[seat].cursors;
        if let Some(found) = look(&self.plan.seats[seat].look, cursors, &mut self.queues) {
            let (begin, cost) = self.took(seat, found);
            self.owe(seat, begin - self.now);
            self.owe(seat, cost);
        }
    }

    /// A seat pays for something at its next step.
    pub(super) fn owe(&mut self, seat: usize, cost: Time) {
        let debt = &mut self.seats[seat].debt;
        *debt = debt.saturating_add(cost);
    }

    /// A seat found nothing.
    pub(super) fn idle(&mut self, seat: usize) {
        if !self.seats[seat].stack.is_empty() {
            return self.set_doing(seat, Doing::Watching);
        }
        match self.plan.seats[seat].idle {
            Idle::Sleep { spin_ns } => {
                let until = &mut self.seats[seat].spins_until;
                if *until == 0 {
                    *until = self.now + u64::from(spin_ns) * 1000;
                }
                let until = (*until).max(self.now);
                self.set_doing(seat, Doing::Watching);
                self.schedule(seat, until);
            }
            Idle::BackOff { first_ns, factor, max_ns } => {
                let longest = u64::from(max_ns.max(first_ns).max(1));
                let before = self.seats[seat].pause_ns;
                if before >= longest {
                    // As on threads: the longest one was in vain.
                    return self.set_doing(seat, Doing::Asleep);
                }
                let pause = before.saturating_mul(u64::from(factor)).clamp(u64::from(first_ns).max(1), longest);
                self.seats[seat].pause_ns = pause;
                self.set_doing(seat, Doing::Pausing);
                self.schedule(seat, self.now + pause * 1000);
            }
        }
    }

    /// A seat that watches sees something.
    pub(super) fn resume(&mut self, seat: usize) {
        self.set_doing(seat, Doing::Busy);
        self.schedule(seat, self.now);
    }

    pub(super) fn wake(&mut self, seat: usize) {
        let now = self.now;
        let late = self.late_wakes.iter().position(|fault| {
            matches!(*fault, Fault::LateWake { seat: other, from_ns, .. } if other == seat && picoseconds(from_ns) <= now)
        });
        let by = match late.map(|at| self.late_wakes.remove(at)) {
            Some(Fault::LateWake { by_ns, .. }) => picoseconds(by_ns),
            _ => 0,
        };
        self.counts.wakes += 1;
        self.seats[seat].spins_until = 0;
        let mut at = now.saturating_add(self.costs.wake).saturating_add(by);
        if self.seats[seat].doing == Doing::Pausing {
            // Its pause may be over before.
            at = at.min(self.seats[seat].due);
        }
        self.set_doing(seat, Doing::Busy);
        self.schedule(seat, at);
    }

    /// One of the seats that watch sees a task that it may take, if there is one.
    pub(super) fn show(&mut self) {
        if self.watching == 0 || self.queues.count == 0 {
            return;
        }
        let count = self.seats.len();
        let first = self.chance.below(count as u64) as usize;
        let sees = |&seat: &usize| self.seats[seat].doing == Doing::Watching && self.sees(seat);
        if let Some(seat) = (0..count).map(|step| (first + step) % count).find(sees) {
            self.resume(seat);
        }
    }
}
