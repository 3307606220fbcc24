//! Carrying out the steps of a seat's tasks.

use super::{Engine, FOREVER, Goes, picoseconds};
use crate::chance::deviation;
use crate::event_logs;
use crate::fluid::{Pace, SECOND};
use crate::options::SimError;
use crate::seats::{Frame, Phase, Scope, Thread, Working};
use crate::{Counts, Step, TaskRecord};
use vicus_schedule::{Decision, Kind, Queues};
use vicus_trace::What;

impl Engine<'_> {
    /// Goes on with the seat's task, or looks for one.
    pub(super) fn advance(&mut self, seat: usize) -> Result<(), SimError> {
        loop {
            let Some(frame) = self.seats[seat].stack.last_mut() else {
                self.find(seat);
                return Ok(());
            };
            let task = frame.task;
            if frame.phase == Phase::Begin {
                (frame.phase, frame.start) = (Phase::Ready, self.now);
                let who = self.who(task);
                self.note(seat, || What::InvocationBegins { who });
                self.begin_act(seat, task);
                continue;
            }
            let (at, phase) = (frame.at, frame.phase);
            match self.program.tasks[task as usize].steps.get(at) {
                None => {
                    if !self.end_act(seat, task) {
                        self.end_task(seat);
                    }
                }
                Some(Step::Work(_)) if phase == Phase::Busy => self.end_work(seat),
                Some(Step::Work(_)) => return self.begin_work(seat, task, at),
                Some(Step::Spawn(range)) => {
                    let child = range.start + frame.child;
                    if phase == Phase::Busy {
                        (frame.phase, frame.child) = (Phase::Ready, frame.child + 1);
                        self.spawned(seat, child);
                    } else if child < range.end {
                        self.spawn(seat, child);
                        return Ok(());
                    } else {
                        self.next_step(seat);
                    }
                }
                Some(Step::Open) => {
                    let scope = self.open(seat);
                    self.top(seat).scopes.push(scope);
                    self.next_step(seat);
                }
                Some(Step::Wait) => {
                    let scope = frame.scopes.last().copied();
                    if scope.is_some_and(|scope| self.graph.scopes[scope].pending > 0) {
                        if phase == Phase::Ready {
                            frame.phase = Phase::Busy;
                            let request = self.waits_for(task);
                            self.seats[seat].state.begin_wait(request);
                        }
                        self.find(seat);
                        return Ok(());
                    }
                    if let Some(scope) = self.top(seat).scopes.pop() {
                        self.close(scope);
                    }
                    if phase == Phase::Busy {
                        self.end_wait(seat);
                    }
                    self.next_step(seat);
                }
                Some(&Step::TakeBack(second)) => {
                    if phase == Phase::Busy || !self.take_back(seat, second) {
                        self.next_step(seat);
                    } else {
                        return Ok(());
                    }
                }
                Some(&Step::Take(word)) => self.take_word(seat, task, word),
                Some(&Step::Fill(word)) => self.fill_word(seat, word),
                Some(Step::Start) => {
                    self.results.started = self.now;
                    self.results.counts =
                        Counts { uses: vec![0.0; self.results.counts.uses.len()], ..Counts::default() };
                    self.next_step(seat);
                }
                Some(Step::End) => {
                    self.results.measured = Some((self.now, self.results.counts.clone()));
                    self.next_step(seat);
                }
                Some(Step::Free(array)) => {
                    let array = *array;
                    self.hardware.memory.free(array);
                    self.next_step(seat);
                }
            }
        }
    }

    /// A seat's task goes on, because its awaited tasks are over.
    pub(super) fn end_wait(&mut self, seat: usize) {
        self.pass_on(seat);
        if let Some(((next, _), queue)) = self.seats[seat].state.end_wait() {
            self.put(seat, next, queue);
        }
    }

    /// A `join` takes its second task back and runs it, or runs a task found in its place. Returns whether there was
    /// any.
    fn take_back(&mut self, seat: usize, second: u32) -> bool {
        let waiting = self.waiting(second);
        let Thread { state, .. } = &mut self.seats[seat];
        let (own, own_way, takes_tasks) = (state.own(), state.own_way(), state.takes_tasks(self.plan));
        let (found, queue) = if state.take_back(&waiting) {
            (Some(waiting), None)
        } else if let Goes::To(queue) = self.graph.tasks[second as usize].goes {
            (self.queues.remove(queue, waiting).then_some(waiting), Some(queue))
        } else if let Some(own) = own.filter(|_| takes_tasks) {
            (self.queues.take_own(own), Some(own))
        } else {
            let queue = self.place_of(seat, second, Kind::Immediate).0;
            (self.queues.remove(queue, waiting).then_some(waiting), Some(queue))
        };
        let Some((task, _)) = found else { return false };
        if task == second {
            self.top(seat).phase = Phase::Busy;
        }
        *self.results.counts.takes.entry(own_way.rule()).or_default() += 1;
        let who = self.who(task);
        self.record_decision(seat, Decision::Runs(self.name_of(task), own_way));
        self.note(seat, || What::Taken { who, rule: own_way.rule(), far: false });
        self.begin_task(seat, task);
        let cost = queue.map_or(0, |queue| self.passing(seat, queue));
        let begin = queue.map_or(self.now, |queue| self.enter(queue, seat, cost));
        self.spend(seat, begin, cost);
        true
    }

    pub(super) fn top(&mut self, seat: usize) -> &mut Frame {
        self.seats[seat].stack.last_mut().expect("the seat runs a task")
    }

    pub(super) fn next_step(&mut self, seat: usize) {
        let frame = self.top(seat);
        (frame.at, frame.child, frame.phase) = (frame.at + 1, 0, Phase::Ready);
    }

    pub(super) fn begin_work(&mut self, seat: usize, task: u32, at: usize) -> Result<(), SimError> {
        let Step::Work(work) = &self.program.tasks[task as usize].steps[at] else {
            unreachable!("the caller has seen it")
        };
        if self.seats[seat].debt > 0 {
            self.spend(seat, self.now, 0);
            return Ok(());
        }
        if let Some((access, array)) = self.hardware.memory.freed(&work.accesses) {
            return Err(SimError::Freed { task: task as usize, access: format!("{access:?}"), array });
        }
        let (pu, core) = (self.seats[seat].pu, self.seats[seat].core);
        self.hardware.at_work[core.index()] += 1;
        let together = self.hardware.at_work[core.index()];
        let hardware_threads = self.machine.topology.cores[core.index()].pus.len();
        let speedup = if together > 1 && hardware_threads > 1 { self.machine.smt_speedup } else { 1.0 };
        let now_ns = self.now as f64 / 1000.0;
        let demand = self.hardware.memory.demand(&self.program, work, pu, f64::from(together) / speedup, now_ns);
        let who = self.who(task);
        self.note(seat, || What::UserCodeBegins { who });
        self.top(seat).phase = Phase::Busy;
        // The median of many equal pieces is the machine file's time.
        let jitter = 1.0 + self.options.parameters.jitter * deviation(self.options.seed, (task, at));
        let time = self.stretched(seat, picoseconds(demand.alone_ns * jitter));
        if time >= FOREVER {
            return Err(SimError::TooLong);
        }
        let uses: Vec<(usize, f64)> =
            demand.uses.iter().map(|this| (this.resource, this.share * demand.bytes)).collect();
        if demand.bytes > 0.0 && time > 0 {
            let limit = demand.bytes / (time as f64 / SECOND);
            let pace = Pace { limit, hidden: demand.hidden_ns / 1e9 / demand.bytes, streams: demand.streams };
            self.hardware.fluid.start(self.now, seat, demand.bytes, pace, &demand.uses);
        } else {
            self.schedule(seat, self.now.saturating_add(time));
        }
        self.seats[seat].working = Some(Working {
            started: self.now,
            alone: time,
            near: demand.near,
            far: demand.far,
            cached: demand.cached,
            latency_ns: demand.latency_ns,
            window: demand.window,
            uses,
        });
        Ok(())
    }

    pub(super) fn end_work(&mut self, seat: usize) {
        let now = self.now;
        let Some(work) = self.seats[seat].working.take() else { unreachable!("what ends has begun") };
        self.hardware.at_work[self.seats[seat].core.index()] -= 1;
        // Others may have looked in vain for long.
        self.agenda.fruitless = 0;
        let took = now - work.started;
        self.results.counts.busy_ns += took as f64 / 1000.0;
        self.results.counts.near_bytes += work.near;
        self.results.counts.far_bytes += work.far;
        self.results.counts.cached_bytes += work.cached;
        for (resource, bytes) in work.uses {
            self.results.counts.uses[resource] += bytes;
        }
        let Frame { task, at, .. } = *self.top(seat);
        if let Some(Step::Work(work)) = self.program.tasks[task as usize].steps.get(at) {
            let pu = self.seats[seat].pu;
            self.hardware.memory.done(&self.program, &work.accesses, pu, now as f64 / 1000.0);
        }
        let frame = self.top(seat);
        let bytes = work.near + work.far + work.cached;
        frame.bytes += bytes;
        (frame.near, frame.far, frame.worked) = (frame.near + work.near, frame.far + work.far, frame.worked + took);
        // Each delay is one of all lines under way.
        let delayed_ns = took.saturating_sub(work.alone) as f64 / 1000.0;
        frame.waited += bytes * work.latency_ns + delayed_ns * work.window;
        let task = frame.task;
        for (far, bytes) in [(false, work.near), (true, work.far)].into_iter().filter(|(_, bytes)| *bytes > 0.0) {
            let who = self.who(task);
            self.note(seat, || What::BytesRead { who, far, bytes: bytes.min(u32::MAX.into()) as u32 });
        }
        let who = self.who(task);
        self.note(seat, || What::UserCodeEnds { who });
        self.next_step(seat);
    }

    pub(super) fn end_task(&mut self, seat: usize) {
        let frame = self.seats[seat].stack.pop().expect("the seat runs a task");
        let (task, now) = (frame.task as usize, self.now);
        if frame.helps {
            self.seats[seat].state.end_help();
        }
        let who = self.who(frame.task);
        self.note(seat, || What::InvocationEnds { who });
        frame.scopes.iter().for_each(|&scope| self.close(scope));
        self.results.records[task] = TaskRecord {
            seat: seat as u32,
            start_ns: frame.start as f64 / 1000.0,
            end_ns: now as f64 / 1000.0,
            latency_ns: if frame.bytes > 0.0 { frame.waited / frame.bytes } else { 0.0 },
            busy_ns: frame.worked as f64 / 1000.0,
            near_bytes: frame.near,
            far_bytes: frame.far,
            cached_bytes: frame.bytes - frame.near - frame.far,
        };
        self.results.counts.tasks += 1;
        self.agenda.fruitless = 0;
        self.graph.left -= 1;
        let request = self.program.tasks[task].request;
        let requested = self.requests.by_id.get_mut(&request).expect("each request was counted");
        requested.left -= 1;
        if requested.left == 0 {
            self.requests.open -= 1;
            self.requests.in_turn.end(request);
            self.requests.of_boxes.remove(&request);
            self.note(seat, || event_logs::ended(request.number() as u32));
        }
        for at in 0..self.graph.later[task].len() {
            let later = self.graph.later[task][at];
            let state = &mut self.graph.tasks[later as usize];
            state.waits -= 1;
            if state.waits == 0 && state.spawned {
                let spec = &self.program.tasks[later as usize];
                let kind = if spec.spreads { self.graph.tasks[later as usize].kind } else { spec.released };
                let kind = self.spills(seat, later, self.place_of(seat, later, kind).1);
                let (queue, cost) = self.reach(seat, later, kind);
                let begin = queue.map_or(self.now, |queue| self.enter(queue, seat, cost));
                self.owe(seat, (begin - self.now).saturating_add(cost));
                self.enqueue(seat, later, kind, None);
            }
        }
        let scope = self.graph.tasks[task].scope;
        self.graph.scopes[scope].pending -= 1;
        if self.graph.scopes[scope].pending == 0 {
            match self.graph.scopes[scope].owner {
                Some(owner) if owner != seat => self.ask(owner),
                Some(_) => {}
                None => self.graph.free_scopes.push(scope),
            }
        }
        if frame.is_in_turn {
            self.end_wait(seat);
        }
        if frame.is_in_turn || frame.helps {
            self.take_turn(seat);
        }
    }

    pub(super) fn open(&mut self, seat: usize) -> usize {
        let scope = Scope { pending: 0, owner: Some(seat) };
        match self.graph.free_scopes.pop() {
            Some(at) => {
                self.graph.scopes[at] = scope;
                at
            }
            None => {
                self.graph.scopes.push(scope);
                self.graph.scopes.len() - 1
            }
        }
    }

    /// The scope's task waits for its tasks no longer.
    pub(super) fn close(&mut self, scope: usize) {
        self.graph.scopes[scope].owner = None;
        if self.graph.scopes[scope].pending == 0 {
            self.graph.free_scopes.push(scope);
        }
    }
}
