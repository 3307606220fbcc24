//! Virtual time goes from event to event; seats do what the plan says.
//!
//! Each seat has at most one event to come, or a flow whose end the fluid knows. What a worker of worlds/machine does is done
//! here in virtual time: it takes tasks by the plan's probes, runs them on top of those that wait for them, looks around,
//! pauses or sleeps.

use crate::chance::Chance;
use crate::diary::{self, Diary};
use crate::fluid::{Fluid, SECOND, Time};
use crate::memory::Memory;
use crate::program::ProgramError;
use crate::seats::{Doing, Frame, Phase, ReadyQueues, Scope, Seat, Waiting, Working};
use crate::{Counts, Machine, Outcome, Parameters, Program, Step, TaskRecord};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use vicus_memory::distribution::DistributionError;
use vicus_schedule::{Found, Idle, Plan, QueueId, RequestId, SeatId, look};
use vicus_topology::NodeId;
use vicus_trace::What;

/// How a program is run, besides the plan.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The free parameters of the model.
    pub parameters: Parameters,
    /// What real machines leave to chance: when each seat begins, and which of several sleepers or onlookers is quicker.
    pub seed: u64,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// For how many events of each seat a trace has room; `None` records none.
    pub trace: Option<usize>,
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// From a time on, a seat takes so many times as long for everything.
    Slow {
        /// The seat.
        seat: usize,
        /// How much longer: 2 is half as fast.
        factor: f64,
        /// From when on, in nanoseconds of virtual time.
        from_ns: f64,
    },
    /// The first wake of a seat after a time comes later.
    LateWake {
        /// The seat.
        seat: usize,
        /// After when, in nanoseconds of virtual time.
        from_ns: f64,
        /// How much later, in nanoseconds.
        by_ns: f64,
    },
}

/// Why a run has no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimError {
    /// The program can't be run.
    Program(ProgramError),
    /// An array doesn't fit onto the machine as it is to be distributed.
    Distribution(DistributionError),
    /// A task touched memory when it was gone. What a program says in order may happen in another one.
    Freed {
        /// The task.
        task: usize,
        /// What it touched.
        access: String,
        /// The array.
        array: usize,
    },
    /// Tasks are left, and nobody will run them.
    Stuck {
        /// How many.
        left: usize,
        /// One of them.
        task: usize,
    },
    /// Whoever watched wanted no more.
    Cancelled,
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimError::Program(error) => error.fmt(f),
            SimError::Distribution(error) => error.fmt(f),
            SimError::Freed { task, access, array } => {
                write!(f, "task {task} touches {access} of array {array}, which was freed meanwhile")
            }
            SimError::Stuck { left, task } => {
                write!(f, "{left} tasks are left that nobody runs, one of them task {task}")
            }
            SimError::Cancelled => f.write_str("the simulation was cancelled"),
        }
    }
}

impl std::error::Error for SimError {}

/// Runs a program on a machine as a plan says.
///
/// # Errors
/// See [`SimError`].
pub fn simulate(machine: &Machine, plan: &Plan, program: &Program, options: &Options) -> Result<Outcome, SimError> {
    simulate_watched(machine, plan, program, options, &mut |_| true)
}

/// The same; `watch` is told now and then how many tasks are over, and says whether to go on.
///
/// # Errors
/// See [`SimError`].
pub fn simulate_watched(
    machine: &Machine,
    plan: &Plan,
    program: &Program,
    options: &Options,
    watch: &mut dyn FnMut(usize) -> bool,
) -> Result<Outcome, SimError> {
    program.check().map_err(SimError::Program)?;
    let mut engine = Engine::new(machine, plan, program, options)?;
    engine.run(watch)?;
    Ok(engine.outcome())
}

/// Tasks that end between two looks of whoever watches.
const WATCHED: usize = 4096;

/// So long nobody has to have done anything for a run to count as stuck, though seats look for work again and again.
const PATIENCE: Time = 10 * SECOND as Time;

/// The parameters in picoseconds on this machine.
struct Costs {
    spawn: Time,
    take: Time,
    steal: Time,
    deal: Time,
    wake: Time,
}

struct TaskState {
    /// How many tasks it waits for.
    waits: u32,
    /// Whether it was spawned; only then it may be queued.
    spawned: bool,
    /// Who waits for it.
    scope: usize,
}

struct Engine<'a> {
    machine: &'a Machine,
    plan: &'a Plan,
    program: &'a Program,
    options: &'a Options,
    costs: Costs,
    chance: Chance,
    now: Time,
    /// Time, age, seat, version.
    events: BinaryHeap<Reverse<(Time, u64, usize, u32)>>,
    aged: u64,
    seats: Vec<Seat>,
    /// The seats that have a thread.
    threads: Vec<usize>,
    /// By core, how many of its seats do a piece of work.
    at_work: Vec<u32>,
    /// How many seats watch.
    watching: usize,
    queues: ReadyQueues,
    tasks: Vec<TaskState>,
    /// By task, who waits for it to be over.
    later: Vec<Vec<u32>>,
    scopes: Vec<Scope>,
    free_scopes: Vec<usize>,
    fluid: Fluid,
    memory: Memory<'a>,
    /// By request, how many tasks are not over.
    requests: FxHashMap<RequestId, Requested>,
    left: usize,
    progress: Time,
    late_wakes: Vec<Fault>,
    records: Vec<TaskRecord>,
    diary: Diary,
    counts: Counts,
    started: Time,
    /// When the measured part ended, and what was counted by then.
    measured: Option<(Time, Counts)>,
    places: Vec<f64>,
}

#[derive(Default)]
struct Requested {
    left: usize,
    submitted: bool,
}

fn picoseconds(ns: f64) -> Time {
    (ns * 1000.0).round() as Time
}

impl<'a> Engine<'a> {
    fn new(
        machine: &'a Machine,
        plan: &'a Plan,
        program: &'a Program,
        options: &'a Options,
    ) -> Result<Engine<'a>, SimError> {
        let Parameters { overlap, cache_share, .. } = options.parameters;
        let memory = Memory::new(machine, program, overlap, cache_share).map_err(SimError::Distribution)?;
        let fluid = Fluid::new(memory.resources().iter().map(|resource| resource.capacity).collect());
        let cycles = |cycles: f64| picoseconds(cycles / machine.clock_ghz);
        let Parameters { spawn_cycles, take_cycles, steal_cycles, deal_cycles, wake_ns, .. } = options.parameters;
        let seat = |(at, seat): (usize, &vicus_schedule::SeatPlan)| Seat {
            pu: seat.pu,
            core: machine.topology.pus[seat.pu.index()].core,
            node: seat.node,
            doing: if seat.spare { Doing::Empty } else { Doing::Busy },
            stack: Vec::new(),
            cursors: vec![0; plan.cursors(SeatId::new(at))],
            pinned: VecDeque::new(),
            version: 0,
            due: 0,
            spins_until: 0,
            pause_ns: 0,
            debt: 0,
            secluded: plan.secluded(SeatId::new(at)),
            working: None,
            sleeps: false,
        };
        let state = |task: &crate::TaskSpec| TaskState { waits: task.after.len() as u32, spawned: false, scope: 0 };
        let mut later = vec![Vec::new(); program.tasks.len()];
        let mut requests: FxHashMap<RequestId, Requested> = FxHashMap::default();
        for (number, task) in program.tasks.iter().enumerate() {
            task.after.iter().for_each(|&earlier| later[earlier as usize].push(number as u32));
            requests.entry(task.request).or_default().left += 1;
        }
        let uses = vec![0.0; memory.resources().len()];
        Ok(Engine {
            machine,
            plan,
            program,
            options,
            costs: Costs {
                spawn: cycles(spawn_cycles),
                take: cycles(take_cycles),
                steal: cycles(steal_cycles),
                deal: cycles(deal_cycles),
                wake: picoseconds(wake_ns),
            },
            chance: Chance::new(options.seed),
            now: 0,
            events: BinaryHeap::new(),
            aged: 0,
            seats: plan.seats.iter().enumerate().map(seat).collect(),
            threads: (0..plan.seats.len()).filter(|&seat| !plan.seats[seat].spare).collect(),
            at_work: vec![0; machine.topology.cores.len()],
            watching: 0,
            queues: ReadyQueues::new(plan),
            tasks: program.tasks.iter().map(state).collect(),
            later,
            scopes: vec![Scope::default()],
            free_scopes: Vec::new(),
            fluid,
            memory,
            requests,
            left: program.tasks.len(),
            progress: 0,
            late_wakes: options
                .faults
                .iter()
                .copied()
                .filter(|fault| matches!(fault, Fault::LateWake { .. }))
                .collect(),
            records: vec![TaskRecord::default(); program.tasks.len()],
            diary: Diary::new(options.trace, plan.seats.len()),
            counts: Counts { uses, ..Counts::default() },
            started: 0,
            measured: None,
            places: Vec::new(),
        })
    }

    // ---- time ----

    fn run(&mut self, watch: &mut dyn FnMut(usize) -> bool) -> Result<(), SimError> {
        let first = self.threads[0];
        self.submit(first, 0);
        self.scopes[0].pending = 1;
        (self.tasks[0].spawned, self.tasks[0].scope) = (true, 0);
        match self.program.tasks[0].pinned {
            Some(seat) => {
                let seat = self.threads[seat % self.threads.len()];
                self.note(first, || diary::enqueued(self.program, 0, None));
                self.seats[seat].pinned.push_back(0);
            }
            None => {
                self.note(first, || diary::enqueued(self.program, 0, None));
                self.queues.push(self.plan.entry[0], (0, self.program.tasks[0].request));
            }
        }
        let jitter = picoseconds(self.options.parameters.jitter_ns);
        for at in 0..self.threads.len() {
            let begin = self.chance.below(jitter + 1);
            self.schedule(self.threads[at], begin);
        }
        let mut watched = self.left;
        while self.left > 0 {
            self.step()?;
            if watched - self.left >= WATCHED {
                watched = self.left;
                if !watch(self.program.tasks.len() - self.left) {
                    return Err(SimError::Cancelled);
                }
            }
        }
        Ok(())
    }

    /// The next thing happens.
    fn step(&mut self) -> Result<(), SimError> {
        let event = self.next_event();
        // What happens at the same instant changes the rates once.
        let flow = if event == Some(self.now) { None } else { self.fluid.next_end() };
        match (event, flow) {
            (Some(event), Some(flow)) if flow < event => self.end_flow(flow),
            (Some(event), _) => {
                let Reverse((_, _, seat, _)) = self.events.pop().expect("it was there");
                self.now = event;
                self.happen(seat)
            }
            (None, Some(flow)) => self.end_flow(flow),
            (None, None) => Err(self.stuck()),
        }
    }

    /// When the next event happens that is not out of date.
    fn next_event(&mut self) -> Option<Time> {
        loop {
            let &Reverse((time, _, seat, version)) = self.events.peek()?;
            if self.seats[seat].version == version {
                return Some(time);
            }
            self.events.pop();
        }
    }

    fn end_flow(&mut self, at: Time) -> Result<(), SimError> {
        self.now = at;
        let seat = self.fluid.finish(at).expect("a flow ends when it was said to");
        self.advance(seat)
    }

    fn stuck(&self) -> SimError {
        let over = |task: &usize| self.records[*task].end_ns == 0.0;
        SimError::Stuck { left: self.left, task: (0..self.tasks.len()).find(over).unwrap_or(0) }
    }

    /// The seat's event comes, and no other that it may have.
    fn schedule(&mut self, seat: usize, at: Time) {
        self.seats[seat].version = self.seats[seat].version.wrapping_add(1);
        self.seats[seat].due = at;
        self.events.push(Reverse((at, self.aged, seat, self.seats[seat].version)));
        self.aged += 1;
    }

    fn happen(&mut self, seat: usize) -> Result<(), SimError> {
        match self.seats[seat].doing {
            // It has looked around for long enough.
            Doing::Watching => {
                self.set_doing(seat, Doing::Asleep);
                self.seats[seat].sleeps = true;
                self.note(seat, || What::SleepBegins);
                Ok(())
            }
            _ => {
                if std::mem::take(&mut self.seats[seat].sleeps) {
                    self.note(seat, || What::SleepEnds);
                }
                self.set_doing(seat, Doing::Busy);
                self.advance(seat)
            }
        }
    }

    fn set_doing(&mut self, seat: usize, doing: Doing) {
        let before = std::mem::replace(&mut self.seats[seat].doing, doing);
        self.watching += usize::from(doing == Doing::Watching);
        self.watching -= usize::from(before == Doing::Watching);
    }

    fn note(&mut self, seat: usize, what: impl FnOnce() -> What) {
        self.diary.record(seat, self.now, what);
    }

    /// How long something takes on a seat from now on that would take so long on a sound one.
    fn stretched(&self, seat: usize, time: Time) -> Time {
        let mut time = time;
        for fault in &self.options.faults {
            if let Fault::Slow { seat: slow, factor, from_ns } = *fault
                && slow == seat
            {
                let sound = picoseconds(from_ns).saturating_sub(self.now).min(time);
                time = sound + ((time - sound) as f64 * factor).round() as Time;
            }
        }
        time
    }

    /// The seat is busy with its own affairs for so long, beginning not before `begin`.
    fn spend(&mut self, seat: usize, begin: Time, time: Time) {
        let time = time + std::mem::take(&mut self.seats[seat].debt);
        let time = self.stretched(seat, time);
        self.counts.overhead_ns += (begin - self.now + time) as f64 / 1000.0;
        self.schedule(seat, begin + time);
    }

    // ---- tasks ----

    /// A seat goes on with its task, or looks for one.
    fn advance(&mut self, seat: usize) -> Result<(), SimError> {
        let program = self.program;
        loop {
            let Some(frame) = self.seats[seat].stack.last_mut() else {
                self.find(seat);
                return Ok(());
            };
            let task = frame.task;
            if frame.phase == Phase::Begin {
                (frame.phase, frame.start) = (Phase::Ready, self.now);
                self.note(seat, || What::InvocationBegins { who: diary::who(program, task) });
                continue;
            }
            let (at, phase) = (frame.at, frame.phase);
            match program.tasks[task as usize].steps.get(at) {
                None => self.end_task(seat),
                Some(Step::Work(_)) if phase == Phase::Busy => self.end_work(seat),
                Some(Step::Work(_)) => return self.begin_work(seat, task, at),
                Some(Step::Spawn(range)) => {
                    let child = range.start + frame.child;
                    if phase == Phase::Busy {
                        (frame.phase, frame.child) = (Phase::Ready, frame.child + 1);
                        let target = frame.target.take();
                        self.spawned(seat, child, target);
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
                    if scope.is_some_and(|scope| self.scopes[scope].pending > 0) {
                        self.find(seat);
                        return Ok(());
                    }
                    if let Some(scope) = self.top(seat).scopes.pop() {
                        self.close(scope);
                    }
                    self.next_step(seat);
                }
                Some(Step::Start) => {
                    self.started = self.now;
                    self.counts = Counts { uses: vec![0.0; self.counts.uses.len()], ..Counts::default() };
                    self.next_step(seat);
                }
                Some(Step::End) => {
                    self.measured = Some((self.now, self.counts.clone()));
                    self.next_step(seat);
                }
                Some(Step::Free(array)) => {
                    self.memory.free(*array);
                    self.next_step(seat);
                }
            }
        }
    }

    fn top(&mut self, seat: usize) -> &mut Frame {
        self.seats[seat].stack.last_mut().expect("the seat runs a task")
    }

    fn next_step(&mut self, seat: usize) {
        let frame = self.top(seat);
        (frame.at, frame.child, frame.phase) = (frame.at + 1, 0, Phase::Ready);
    }

    fn begin_work(&mut self, seat: usize, task: u32, at: usize) -> Result<(), SimError> {
        let Step::Work(work) = &self.program.tasks[task as usize].steps[at] else {
            unreachable!("the caller has seen it")
        };
        if self.seats[seat].debt > 0 {
            self.spend(seat, self.now, 0);
            return Ok(());
        }
        if let Some((access, array)) = self.memory.freed(&work.accesses) {
            return Err(SimError::Freed { task: task as usize, access: format!("{access:?}"), array });
        }
        self.top(seat).phase = Phase::Busy;
        let (pu, core) = (self.seats[seat].pu, self.seats[seat].core);
        self.at_work[core.index()] += 1;
        let together = self.at_work[core.index()];
        let hardware_threads = self.machine.topology.cores[core.index()].pus.len();
        let speedup = if together > 1 && hardware_threads > 1 { self.machine.smt_speedup } else { 1.0 };
        let demand = self.memory.demand(self.program, work, pu, f64::from(together) / speedup);
        let time = self.stretched(seat, picoseconds(demand.alone_ns));
        let uses: Vec<(usize, f64)> =
            demand.shares.iter().map(|&(resource, share)| (resource, share * demand.bytes)).collect();
        if demand.bytes > 0.0 && time > 0 {
            let limit = demand.bytes / (time as f64 / SECOND);
            self.fluid.start(self.now, seat, demand.bytes, limit, &demand.shares);
        } else {
            self.schedule(seat, self.now + time);
        }
        self.seats[seat].working = Some(Working {
            started: self.now,
            alone: time,
            near: demand.near,
            far: demand.far,
            cached: demand.cached,
            latency_ns: demand.latency_ns,
            uses,
        });
        Ok(())
    }

    fn end_work(&mut self, seat: usize) {
        let now = self.now;
        let Some(work) = self.seats[seat].working.take() else { unreachable!("what ends has begun") };
        self.at_work[self.seats[seat].core.index()] -= 1;
        let took = now - work.started;
        self.counts.busy_ns += took as f64 / 1000.0;
        self.counts.near_bytes += work.near;
        self.counts.far_bytes += work.far;
        self.counts.cached_bytes += work.cached;
        for (resource, bytes) in work.uses {
            self.counts.uses[resource] += bytes;
        }
        let contention = if work.alone > 0 { took as f64 / work.alone as f64 } else { 1.0 };
        let frame = self.top(seat);
        let bytes = work.near + work.far + work.cached;
        frame.bytes += bytes;
        frame.waited += bytes * work.latency_ns * contention;
        let task = frame.task;
        for (far, bytes) in [(false, work.near), (true, work.far)].into_iter().filter(|(_, bytes)| *bytes > 0.0) {
            let who = diary::who(self.program, task);
            self.note(seat, || What::BytesRead { who, far, bytes: bytes.min(u32::MAX.into()) as u32 });
        }
        self.progress = now;
        self.next_step(seat);
    }

    fn end_task(&mut self, seat: usize) {
        let frame = self.seats[seat].stack.pop().expect("the seat runs a task");
        let (task, now) = (frame.task as usize, self.now);
        self.note(seat, || What::InvocationEnds { who: diary::who(self.program, frame.task) });
        frame.scopes.iter().for_each(|&scope| self.close(scope));
        self.records[task] = TaskRecord {
            seat: seat as u32,
            start_ns: frame.start as f64 / 1000.0,
            end_ns: now as f64 / 1000.0,
            latency_ns: if frame.bytes > 0.0 { frame.waited / frame.bytes } else { 0.0 },
        };
        self.counts.tasks += 1;
        self.left -= 1;
        self.progress = now;
        let request = self.program.tasks[task].request;
        let requested = self.requests.get_mut(&request).expect("each request was counted");
        requested.left -= 1;
        if requested.left == 0 {
            self.note(seat, || diary::ended(request.0 as u32));
        }
        for at in 0..self.later[task].len() {
            let later = self.later[task][at];
            let state = &mut self.tasks[later as usize];
            state.waits -= 1;
            if state.waits == 0 && state.spawned {
                let (queue, dealing) = self.place(seat, later);
                self.seats[seat].debt += self.costs.take + dealing;
                self.enqueue(seat, later, queue, None);
            }
        }
        let scope = self.tasks[task].scope;
        self.scopes[scope].pending -= 1;
        if self.scopes[scope].pending == 0 {
            match self.scopes[scope].owner {
                Some(owner) if owner != seat && self.seats[owner].doing == Doing::Watching => self.resume(owner),
                Some(_) => {}
                None => self.free_scopes.push(scope),
            }
        }
    }

    // ---- sections ----

    fn open(&mut self, seat: usize) -> usize {
        let scope = Scope { pending: 0, owner: Some(seat) };
        match self.free_scopes.pop() {
            Some(at) => {
                self.scopes[at] = scope;
                at
            }
            None => {
                self.scopes.push(scope);
                self.scopes.len() - 1
            }
        }
    }

    /// Nobody waits for its tasks from now on.
    fn close(&mut self, scope: usize) {
        self.scopes[scope].owner = None;
        if self.scopes[scope].pending == 0 {
            self.free_scopes.push(scope);
        }
    }

    // ---- spawning ----

    fn submit(&mut self, seat: usize, task: u32) {
        let request = self.program.tasks[task as usize].request;
        let requested = self.requests.get_mut(&request).expect("each request was counted");
        if !std::mem::replace(&mut requested.submitted, true) {
            self.note(seat, || What::RequestSubmitted { request: request.0 as u32 });
        }
    }

    /// The seat makes a task, and sets out to queue it.
    fn spawn(&mut self, seat: usize, task: u32) {
        let spec = &self.program.tasks[task as usize];
        let (mut begin, mut cost) = (self.now, self.costs.spawn);
        let mut target = None;
        if spec.pinned.is_none() && self.tasks[task as usize].waits == 0 {
            let (queue, dealing) = self.place(seat, task);
            begin = self.queues.lock(queue, self.now, self.costs.take);
            cost += dealing;
            target = Some(queue);
        }
        let frame = self.top(seat);
        (frame.phase, frame.target) = (Phase::Busy, target);
        self.spend(seat, begin, cost);
    }

    /// The task is made: it is queued, unless it waits for others.
    fn spawned(&mut self, seat: usize, task: u32, target: Option<QueueId>) {
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
        if waits {
            return;
        }
        match (self.program.tasks[task as usize].pinned, target) {
            (None, None) => {
                // What it waited for was over in the meantime.
                let (queue, _) = self.place(seat, task);
                self.enqueue(seat, task, queue, Some(by));
            }
            (None, Some(queue)) => self.enqueue(seat, task, queue, Some(by)),
            (Some(_), _) => self.pin(seat, task, Some(by)),
        }
    }

    /// Where a task goes that a seat queues, and how long it takes to find that out.
    fn place(&mut self, seat: usize, task: u32) -> (QueueId, Time) {
        let plan = self.plan;
        let spec = &self.program.tasks[task as usize];
        let own = plan.seats[seat].place[spec.kind as usize];
        if spec.accesses.is_empty() || spec.pinned.is_some() {
            return (own, 0);
        }
        if let Some(dealing) = &plan.dealing {
            let mut places = std::mem::take(&mut self.places);
            let intense = self.memory.footprint(&spec.accesses, dealing.only_coarse, &mut places);
            let locations = dealing.queues.len();
            let bytes = self.by_location(&places, locations);
            self.places = places;
            let intense = intense.map(|place| self.location_of(place, locations));
            let queue = dealing.deal(&bytes, intense).unwrap_or(own);
            return (queue, self.costs.deal * locations as Time);
        }
        if !plan.homes.is_empty() {
            let mut places = std::mem::take(&mut self.places);
            self.memory.footprint(&spec.accesses, false, &mut places);
            let bytes = self.by_location(&places, plan.homes.len());
            self.places = places;
            let total: u64 = spec.accesses.iter().map(|access| access.total_bytes() as u64).sum();
            // Only where most of it lies.
            let home = bytes.iter().position(|&bytes| bytes * 2 > total);
            let queue = home.and_then(|home| plan.home_queue(SeatId::new(seat), NodeId::new(home), task as usize));
            return (queue.unwrap_or(own), self.costs.deal * plan.homes.len() as Time);
        }
        (own, 0)
    }

    /// Bytes by place (node, or home cache) as bytes by a plan's locations: nodes, or core groups.
    fn by_location(&self, places: &[f64], locations: usize) -> Vec<u64> {
        let topology = &self.machine.topology;
        let mut bytes = vec![0.0; locations];
        let spread = self.machine.homes.is_none() && locations != topology.nodes.len();
        for (place, &here) in places.iter().enumerate().filter(|(_, here)| **here > 0.0) {
            if spread {
                // The groups of a node have equal shares of what lies there.
                let groups: Vec<_> = topology.core_groups.iter().filter(|group| group.node.index() == place).collect();
                groups.iter().for_each(|group| bytes[group.id.index()] += here / groups.len() as f64);
            } else {
                bytes[self.location_of(place, locations)] += here;
            }
        }
        bytes.into_iter().map(|bytes| bytes as u64).collect()
    }

    /// The location of a place.
    fn location_of(&self, place: usize, locations: usize) -> usize {
        let topology = &self.machine.topology;
        let by_node = locations == topology.nodes.len();
        match (self.machine.homes.is_some(), by_node) {
            (true, true) => topology.core_groups[place].node.index(),
            (true, false) | (false, true) => place,
            (false, false) => topology.core_groups.iter().position(|group| group.node.index() == place).unwrap_or(0),
        }
    }

    /// A task that alone one seat may run.
    fn pin(&mut self, seat: usize, task: u32, by: Option<u32>) {
        let pinned = self.program.tasks[task as usize].pinned.expect("the caller has seen it");
        let to = self.threads[pinned % self.threads.len()];
        self.note(seat, || diary::enqueued(self.program, task, by));
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

    fn enqueue(&mut self, seat: usize, task: u32, queue: QueueId, by: Option<u32>) {
        let program = self.program;
        if program.tasks[task as usize].pinned.is_some() {
            return self.pin(seat, task, by);
        }
        if !self.queues.push(queue, (task, program.tasks[task as usize].request)) {
            // The queue is full: its spawner runs it at once.
            self.counts.refused += 1;
            self.begin_task(seat, task);
            return;
        }
        self.note(seat, || diary::enqueued(program, task, by));
        let sleeps = |seat: &Seat| matches!(seat.doing, Doing::Asleep | Doing::Pausing);
        for &pool in &self.plan.queues[queue.index()].wake {
            let members = &self.plan.pools[pool.index()].seats;
            let count = members.iter().filter(|member| sleeps(&self.seats[member.index()])).count();
            if count > 0 {
                let lucky = self.chance.below(count as u64) as usize;
                let mut sleepers = members.iter().filter(|member| sleeps(&self.seats[member.index()]));
                let lucky = sleepers.nth(lucky).expect("counted").index();
                self.note(seat, || What::Woke { pool: pool.index() as u32 });
                self.wake(lucky);
                break;
            }
        }
        self.show();
    }

    fn begin_task(&mut self, seat: usize, task: u32) {
        let frame = Frame {
            task,
            at: 0,
            child: 0,
            phase: Phase::Begin,
            scopes: Vec::new(),
            target: None,
            start: self.now,
            bytes: 0.0,
            waited: 0.0,
        };
        self.seats[seat].stack.push(frame);
        self.seats[seat].spins_until = 0;
        self.seats[seat].pause_ns = 0;
        self.progress = self.now;
    }

    // ---- looking for work ----

    /// The request of the task that waits on a seat, and whose tasks it may run meanwhile. The program's first task is as a
    /// caller from outside: while it waits, its seat is free.
    fn waits_for(&self, seat: usize) -> Option<RequestId> {
        let waiting = self.seats[seat].stack.last().filter(|frame| frame.task != 0);
        waiting.map(|frame| self.program.tasks[frame.task as usize].request)
    }

    /// A task in a queue that a seat may take now.
    fn look(&mut self, seat: usize) -> Option<Found<Waiting>> {
        let (plan, waits_for) = (&self.plan.seats[seat], self.waits_for(seat));
        let Seat { cursors, secluded, .. } = &mut self.seats[seat];
        let Some(request) = waits_for else { return look(&plan.look, cursors, &mut self.queues) };
        let found = look(&plan.look[..plan.while_waiting], cursors, &mut self.queues);
        found.or_else(|| self.queues.take_waiting(&plan.look, secluded, request))
    }

    /// Whether there is one.
    fn sees(&self, seat: usize) -> bool {
        let plan = &self.plan.seats[seat];
        let Some(request) = self.waits_for(seat) else { return self.queues.serve(&plan.look) };
        self.queues.serve(&plan.look[..plan.while_waiting])
            || self.queues.serve_waiting(&plan.look, &self.seats[seat].secluded, request)
    }

    /// A seat looks for a task; it begins one, or does what idle seats do.
    fn find(&mut self, seat: usize) {
        if let Some(task) = self.seats[seat].pinned.pop_front() {
            let who = diary::who(self.program, task);
            self.note(seat, || What::Taken { who, rule: 0, far: false });
            self.begin_task(seat, task);
            return self.spend(seat, self.now, self.costs.take);
        }
        let Some(found) = self.look(seat) else { return self.idle(seat) };
        let (task, _) = found.task;
        let spec = &self.plan.queues[found.queue.index()];
        let far = spec.home != self.seats[seat].node;
        let stolen = far || spec.owner.is_some_and(|owner| owner.index() != seat);
        let cost = if stolen { self.costs.steal } else { self.costs.take };
        let begin = self.queues.lock(found.queue, self.now, cost);
        *self.counts.takes.entry(found.rule).or_default() += 1;
        self.counts.far_takes += u64::from(far);
        let who = diary::who(self.program, task);
        self.note(seat, || What::Taken { who, rule: found.rule, far });
        self.begin_task(seat, task);
        self.spend(seat, begin, cost);
        self.show();
    }

    /// A seat found nothing.
    fn idle(&mut self, seat: usize) {
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
                let next = self.seats[seat].pause_ns.saturating_mul(u64::from(factor));
                let pause = next.clamp(u64::from(first_ns), u64::from(max_ns.max(first_ns))).max(1);
                self.seats[seat].pause_ns = pause;
                if self.now > self.progress + PATIENCE && self.nobody_works() {
                    // No event: when all seats are like this, the run is over.
                    return self.set_doing(seat, Doing::Asleep);
                }
                self.set_doing(seat, Doing::Pausing);
                self.schedule(seat, self.now + pause * 1000);
            }
        }
    }

    fn nobody_works(&self) -> bool {
        self.seats.iter().all(|seat| seat.doing != Doing::Busy || seat.stack.is_empty())
    }

    /// A seat that watches sees something.
    fn resume(&mut self, seat: usize) {
        self.set_doing(seat, Doing::Busy);
        self.schedule(seat, self.now);
    }

    fn wake(&mut self, seat: usize) {
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
        let mut at = now + self.costs.wake + by;
        if self.seats[seat].doing == Doing::Pausing {
            // Its pause may be over before.
            at = at.min(self.seats[seat].due);
        }
        self.set_doing(seat, Doing::Busy);
        self.schedule(seat, at);
    }

    /// One of the seats that watch sees a task that it may take, if there is one.
    fn show(&mut self) {
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

    // ---- the end ----

    fn outcome(self) -> Outcome {
        let (end, counts) = self.measured.unwrap_or((self.now, self.counts));
        let wall_ns = (end - self.started.min(end)) as f64 / 1000.0;
        Outcome {
            program: self.program.name.clone(),
            machine: self.machine.name.clone(),
            strategy: self.plan.strategy.clone(),
            parameters: self.options.parameters,
            seed: self.options.seed,
            threads: self.threads.len(),
            wall_ns,
            start_ns: self.started as f64 / 1000.0,
            total_ns: self.now as f64 / 1000.0,
            resources: Outcome::utilisation(self.memory.resources(), &counts.uses, wall_ns),
            counts,
            tasks: self.records,
            trace: self.diary.trace(self.machine, self.plan, self.program),
        }
    }
}
