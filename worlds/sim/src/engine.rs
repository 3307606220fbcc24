//! The simulation's loop: virtual time goes from event to event, and seats follow the plan.
//!
//! Each seat has at most one next event, or a flow whose end `fluid.rs` computes. It does in virtual time the work of a
//! worker of worlds/machine: it takes tasks by the plan's probes, runs them on top of those waiting for them, looks
//! around, pauses or sleeps.

mod live;
mod looking;
mod running;
mod spawning;
mod threads;

use crate::chance::Chance;
use crate::event_logs::{self, Diary};
use crate::fluid::{Fluid, Time};
use crate::memory::Memory;
use crate::options::{Fault, SimError, SimOptions};
use crate::seats::{Doing, ReadyQueues, Scope, Thread};
use crate::{
    Counts, Machine, ParameterSet, Parameters, Program, Reenacted, Reenactment, SimOutcome, TaskRecord, TaskSpec,
};
use live::Live;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use threads::Words;
use vicus_schedule::{Decision, Kind, LastUses, Plan, QueueId, RequestId, Seat, SeatId, Sleepers, TaskName, TurnOrder};
use vicus_topology::CoreGroup;
use vicus_trace::{JobId, What};

/// Runs a program on a machine under a plan.
///
/// # Errors
/// See [`SimError`].
pub fn simulate(
    machine: &Machine,
    plan: &Plan,
    program: &Program,
    options: &SimOptions,
) -> Result<SimOutcome, SimError> {
    simulate_watched(machine, plan, program, options, &mut |_| true)
}

/// Like [`simulate`]; `watch` is called now and then with the number of finished tasks, and returns whether to go on.
///
/// # Errors
/// See [`SimError`].
pub fn simulate_watched(
    machine: &Machine,
    plan: &Plan,
    program: &Program,
    options: &SimOptions,
    watch: &mut dyn FnMut(usize) -> bool,
) -> Result<SimOutcome, SimError> {
    program.check().map_err(SimError::Program)?;
    let mut engine = Engine::new(machine, plan, Cow::Borrowed(program), None, options)?;
    engine.run(watch)?;
    Ok(engine.outcome())
}

/// Re-enacts recorded requests. Their tasks are made during the run.
pub(crate) fn perform(
    machine: &Machine,
    plan: &Plan,
    reenactment: &Reenactment,
    options: &SimOptions,
    watch: &mut dyn FnMut(usize) -> bool,
) -> Result<(SimOutcome, Reenacted), SimError> {
    let (program, live) = Live::new(reenactment);
    let mut engine = Engine::new(machine, plan, Cow::Owned(program), Some(live), options)?;
    engine.hardware.memory.expect_readers(&reenactment.readers());
    engine.run(watch)?;
    let reenacted = engine.live.take().map_or(Ok(Reenacted::default()), Live::settle)?;
    Ok((engine.outcome(), reenacted))
}

/// Steps between two calls of `watch`: there may be few tasks, each of them long.
const WATCHED: u32 = 512;

/// Virtual time ends here: 53 days. The sum of two smaller times does not overflow.
const FOREVER: Time = Time::MAX / 4;

/// The parameters in picoseconds on this machine.
struct Costs {
    spawn: Charge,
    own: Charge,
    take: Charge,
    steal: Charge,
    deal: Charge,
    stretch: Charge,
    wake: Time,
}

/// A parameter in picoseconds that notes its use.
struct Charge {
    once: Time,
    used: Cell<bool>,
}

impl Charge {
    fn of(&self, times: usize) -> Time {
        if times > 0 {
            self.used.set(true);
        }
        self.once.saturating_mul(times as Time)
    }

    fn once(&self) -> Time {
        self.of(1)
    }
}

impl Costs {
    /// The parameters of the run's result.
    fn used(&self, machine: &Machine) -> ParameterSet {
        let by_task = [
            ("spawn_cycles", &self.spawn),
            ("own_cycles", &self.own),
            ("take_cycles", &self.take),
            ("steal_cycles", &self.steal),
            ("deal_cycles", &self.deal),
            ("stretch_cycles", &self.stretch),
        ];
        let by_task = by_task.iter().filter(|(_, cost)| cost.used.get()).map(|(name, _)| *name);
        // A core with one miss at a time computes nothing meanwhile.
        let by_machine = machine.homes.is_none().then_some("overlap");
        ParameterSet::of(by_task.chain(by_machine).chain(["cache_share", "wake_ns", "jitter"]))
    }
}

struct TaskState {
    /// Its kind when queued by its spawner: its spec's, or the spawner's finding ([`TaskSpec::spreads`]).
    kind: Kind,
    /// The number of its unfinished predecessors.
    waits: u32,
    /// Whether it was spawned. It is queued only then.
    spawned: bool,
    goes: Goes,
    /// The scope of its spawn.
    scope: usize,
}

/// A task's destination when it is queued.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    /// The queuing seat's own queue for tasks of its kind.
    Near,
    /// To this queue.
    To(QueueId),
    /// None: its spawner's stack is deep, and it stays with the spawner's seat.
    Kept,
}

impl TaskState {
    fn of(task: &TaskSpec) -> TaskState {
        TaskState { kind: task.kind, waits: task.after.len() as u32, spawned: false, goes: Goes::Near, scope: 0 }
    }
}

struct Engine<'a> {
    machine: &'a Machine,
    plan: &'a Plan,
    /// Grows if its tasks are live.
    program: Cow<'a, Program>,
    live: Option<Live<'a>>,
    options: &'a SimOptions,
    chance: Chance,
    now: Time,
    agenda: Agenda,
    seats: Vec<Thread>,
    /// By pool.
    pools: Vec<Sleepers>,
    /// By queue, whether a seat with a waiting task takes any task from it: [`Plan::for_waiting`].
    for_waiting: Vec<bool>,
    /// The last pool to use each piece of data, if the plan asks for that.
    last_uses: Option<LastUses>,
    /// The seats with a thread.
    threads: Vec<usize>,
    queues: ReadyQueues,
    hardware: Hardware<'a>,
    graph: Graph,
    requests: Requests,
    late_wakes: Vec<Fault>,
    results: Results,
}

/// The next events, and how many seats have one.
#[derive(Default)]
struct Agenda {
    /// Time, age, seat and version of each.
    events: BinaryHeap<Reverse<(Time, u64, usize, u32)>>,
    aged: u64,
    /// The number of watching seats.
    watching: usize,
    /// The number of busy seats.
    busy: usize,
    /// How many looks in a row, of all seats, have found nothing and ended in a pause.
    fruitless: usize,
}

/// The machine at work: costs, caches, memory and its shared ways.
struct Hardware<'a> {
    costs: Costs,
    /// By core, how many of its seats do a piece of work.
    at_work: Vec<u32>,
    /// By core group, how long a line takes from each group's caches.
    lines: Vec<Vec<Time>>,
    fluid: Fluid,
    memory: Memory<'a>,
}

/// The tasks of the program as far as they have come, and what they wait for.
struct Graph {
    tasks: Vec<TaskState>,
    /// By task, its waiting successors.
    later: Vec<Vec<u32>>,
    scopes: Vec<Scope>,
    free_scopes: Vec<usize>,
    words: Words,
    /// The number of unfinished tasks.
    left: usize,
}

/// The requests of the program.
struct Requests {
    /// By request, the number of unfinished tasks.
    by_id: FxHashMap<RequestId, Requested>,
    /// The unfinished requests of boxes, also future ones. One is over when it has no more tasks.
    of_boxes: BTreeSet<RequestId>,
    /// The number of requests submitted and not over.
    open: usize,
    /// The open requests that take turns: all except one, if its first task only submits the others, like a caller from
    /// outside.
    in_turn: TurnOrder,
    /// The number of tasks from outside.
    entered: usize,
}

/// The parts of the outcome so far.
struct Results {
    records: Vec<TaskRecord>,
    diary: Diary,
    /// By seat; empty if decisions are not recorded.
    decisions: Vec<Vec<Decision>>,
    counts: Counts,
    started: Time,
    /// The end of the measured part, and the counts until then.
    measured: Option<(Time, Counts)>,
}

#[derive(Default)]
struct Requested {
    left: usize,
    submitted: bool,
}

/// By core group, how long a line takes from each group's caches to its own: within a group as long as from its shared
/// cache, also between hardware threads of a core; otherwise, as in `lines.rs`, as from the other node's memory, and
/// between home caches as from the other one.
fn lines(machine: &Machine) -> Vec<Vec<Time>> {
    let (groups, caches) = (&machine.topology.core_groups, &machine.topology.caches);
    let within = |group: &CoreGroup| {
        let shared = caches.iter().filter(|cache| group.pus.iter().all(|pu| cache.pus.contains(pu)));
        shared.map(|cache| cache.level).min().map(|level| machine.cache_costs(level).latency_ns)
    };
    let ns = |to: &CoreGroup, from: &CoreGroup| match &machine.homes {
        Some(homes) => machine.home_latency_ns(homes, to.id.index(), from.id.index()),
        None if to.id == from.id => within(to).unwrap_or_else(|| machine.latency_ns(to.node, from.node)),
        None => machine.latency_ns(to.node, from.node),
    };
    groups.iter().map(|to| groups.iter().map(|from| picoseconds(ns(to, from))).collect()).collect()
}

/// At most [`FOREVER`].
fn picoseconds(ns: f64) -> Time {
    ((ns * 1000.0).round() as Time).min(FOREVER)
}

impl<'a> Engine<'a> {
    fn new(
        machine: &'a Machine,
        plan: &'a Plan,
        program: Cow<'a, Program>,
        live: Option<Live<'a>>,
        options: &'a SimOptions,
    ) -> Result<Engine<'a>, SimError> {
        let memory = Memory::new(machine, &program, options).map_err(SimError::Distribution)?;
        let fluid =
            Fluid::new(memory.resources().iter().map(|resource| (resource.capacity, resource.queueing.clone())));
        let cycles = |cycles: f64| Charge { once: picoseconds(cycles / machine.clock_ghz), used: Cell::new(false) };
        let Parameters {
            spawn_cycles,
            own_cycles,
            take_cycles,
            steal_cycles,
            deal_cycles,
            stretch_cycles,
            wake_ns,
            ..
        } = options.parameters;
        let lock_free = plan.owner_lifos();
        let slot = |at: usize| {
            let pool = &plan.pools[plan.seats[at].pool.index()];
            pool.seats.iter().position(|seat| seat.index() == at).expect("a seat is in its pool")
        };
        let seat = |(at, seat): (usize, &vicus_schedule::SeatPlan)| Thread {
            state: Seat::new(plan, SeatId::new(at), |queue| lock_free[queue.index()]),
            slot: slot(at),
            pu: seat.pu,
            core: machine.topology.pus[seat.pu.index()].core,
            node: seat.node,
            doing: if seat.spare { Doing::Empty } else { Doing::Busy },
            stack: Vec::new(),
            pinned: VecDeque::new(),
            in_row: false,
            version: 0,
            due: 0,
            idle_since: None,
            debt: 0,
            working: None,
            asleep_since: None,
        };
        let mut later = vec![Vec::new(); program.tasks.len()];
        let mut requests: FxHashMap<RequestId, Requested> = FxHashMap::default();
        let mut of_boxes = BTreeSet::new();
        for (number, task) in program.tasks.iter().enumerate() {
            task.after.iter().for_each(|&earlier| later[earlier as usize].push(number as u32));
            requests.entry(task.request).or_default().left += 1;
            of_boxes.extend(task.of_box.map(|_| task.request));
        }
        let uses = vec![0.0; memory.resources().len()];
        let late_wakes = options.faults.iter().copied().filter(|fault| matches!(fault, Fault::LateWake { .. }));
        Ok(Engine {
            machine,
            plan,
            options,
            chance: Chance::new(options.seed),
            now: 0,
            agenda: Agenda { busy: plan.threads(), ..Agenda::default() },
            seats: plan.seats.iter().enumerate().map(seat).collect(),
            pools: plan.pools.iter().map(|pool| Sleepers::new(pool.seats.len())).collect(),
            for_waiting: plan.for_waiting(),
            last_uses: plan.warm().map(LastUses::new),
            threads: (0..plan.seats.len()).filter(|&seat| !plan.seats[seat].spare).collect(),
            queues: ReadyQueues::new(plan),
            hardware: Hardware {
                costs: Costs {
                    spawn: cycles(spawn_cycles),
                    own: cycles(own_cycles),
                    take: cycles(take_cycles),
                    steal: cycles(steal_cycles),
                    deal: cycles(deal_cycles),
                    stretch: cycles(stretch_cycles),
                    wake: picoseconds(wake_ns),
                },
                at_work: vec![0; machine.topology.cores.len()],
                lines: lines(machine),
                fluid,
                memory,
            },
            graph: Graph {
                tasks: program.tasks.iter().map(TaskState::of).collect(),
                later,
                scopes: vec![Scope::default()],
                free_scopes: Vec::new(),
                words: Words::default(),
                left: program.tasks.len(),
            },
            requests: Requests { by_id: requests, of_boxes, open: 0, in_turn: TurnOrder::default(), entered: 0 },
            late_wakes: late_wakes.collect(),
            results: Results {
                records: vec![TaskRecord::default(); program.tasks.len()],
                diary: Diary::new(options.trace, plan.seats.len()),
                decisions: vec![Vec::new(); if options.decisions { plan.seats.len() } else { 0 }],
                counts: Counts { uses, ..Counts::default() },
                started: 0,
                measured: None,
            },
            program,
            live,
        })
    }

    fn run(&mut self, watch: &mut dyn FnMut(usize) -> bool) -> Result<(), SimError> {
        let first = self.threads[0];
        self.submit(first, 0);
        self.graph.scopes[0].pending = 1;
        (self.graph.tasks[0].spawned, self.graph.tasks[0].scope) = (true, 0);
        let enqueued = self.enqueued(0, self.program.tasks[0].kind, None);
        self.note(first, || enqueued);
        match self.program.tasks[0].pinned {
            Some(seat) => {
                let seat = self.threads[seat % self.threads.len()];
                self.seats[seat].pinned.push_back(0);
            }
            None => {
                self.queues.push(self.plan.entry[0], (0, self.program.tasks[0].request));
            }
        }
        if self.hardware.costs.wake >= FOREVER {
            return Err(SimError::TooLong);
        }
        for at in 0..self.threads.len() {
            let begin = self.chance.below(self.hardware.costs.wake + 1);
            self.schedule(self.threads[at], begin);
        }
        loop {
            for _ in 0..WATCHED {
                if self.graph.left == 0 {
                    return Ok(());
                }
                self.step()?;
            }
            if !watch(self.program.tasks.len() - self.graph.left) {
                return Err(SimError::Cancelled);
            }
        }
    }

    /// Carries out the next event, or the end of the next flow.
    fn step(&mut self) -> Result<(), SimError> {
        // Seats without a wake would pause for ever. Before its longest pause, a seat has at most 32 others.
        if self.agenda.busy == 0 && self.agenda.fruitless > 64 * self.threads.len() {
            return Err(self.stuck());
        }
        let event = self.next_event();
        // All changes at one instant change the rates only once.
        let flow = if event == Some(self.now) { None } else { self.hardware.fluid.next_end() };
        if event.into_iter().chain(flow).min().is_some_and(|next| next >= FOREVER) {
            return Err(SimError::TooLong);
        }
        match (event, flow) {
            (Some(event), Some(flow)) if flow < event => self.end_flow(flow),
            (Some(event), _) => {
                let Reverse((_, _, seat, _)) = self.agenda.events.pop().expect("it was there");
                self.now = event;
                self.happen(seat)
            }
            (None, Some(flow)) => self.end_flow(flow),
            (None, None) => Err(self.stuck()),
        }
    }

    /// The time of the next valid event.
    fn next_event(&mut self) -> Option<Time> {
        loop {
            let &Reverse((time, _, seat, version)) = self.agenda.events.peek()?;
            if self.seats[seat].version == version {
                return Some(time);
            }
            self.agenda.events.pop();
        }
    }

    fn end_flow(&mut self, at: Time) -> Result<(), SimError> {
        self.now = at;
        let seat = self.hardware.fluid.finish(at).expect("a flow ends when it was said to");
        self.advance(seat)
    }

    fn stuck(&self) -> SimError {
        let over = |task: &usize| self.results.records[*task].end_ns == 0.0;
        SimError::Stuck { left: self.graph.left, task: (0..self.graph.tasks.len()).find(over).unwrap_or(0) }
    }

    /// Sets the seat's next event, in place of any other.
    fn schedule(&mut self, seat: usize, at: Time) {
        self.seats[seat].version = self.seats[seat].version.wrapping_add(1);
        self.seats[seat].due = at;
        self.agenda.events.push(Reverse((at, self.agenda.aged, seat, self.seats[seat].version)));
        self.agenda.aged += 1;
    }

    fn happen(&mut self, seat: usize) -> Result<(), SimError> {
        if let Some(since) = self.seats[seat].asleep_since.take() {
            self.wake_up(seat, (self.now - since) / 1000);
        }
        self.set_doing(seat, Doing::Busy);
        self.advance(seat)
    }

    fn set_doing(&mut self, seat: usize, doing: Doing) {
        let before = std::mem::replace(&mut self.seats[seat].doing, doing);
        self.agenda.watching += usize::from(doing == Doing::Watching);
        self.agenda.watching -= usize::from(before == Doing::Watching);
        self.agenda.busy += usize::from(doing == Doing::Busy);
        self.agenda.busy -= usize::from(before == Doing::Busy);
    }

    /// The name of a task in a trace.
    fn who(&self, task: u32) -> JobId {
        event_logs::who(&self.program, task)
    }

    /// The event of its queueing.
    fn enqueued(&self, task: u32, kind: Kind, by: Option<u32>) -> What {
        event_logs::enqueued(&self.program, task, kind, by)
    }

    fn record_decision(&mut self, seat: usize, decision: Decision) {
        if let Some(decisions) = self.results.decisions.get_mut(seat) {
            decisions.push(decision);
        }
    }

    /// The name of a task in a seat's decisions.
    fn name_of(&self, task: u32) -> TaskName {
        let spec = &self.program.tasks[task as usize];
        TaskName { request: spec.request, number: spec.of_box.unwrap_or(task), is_box: spec.of_box.is_some() }
    }

    /// The only unfinished request of boxes, if there is one.
    fn alone(&self) -> Option<RequestId> {
        self.requests.of_boxes.first().copied().filter(|_| self.requests.of_boxes.len() == 1)
    }

    fn note(&mut self, seat: usize, what: impl FnOnce() -> What) {
        self.results.diary.record(seat, self.now, what);
    }

    /// A seat's real time from now on for work of `time` without a fault.
    fn stretched(&self, seat: usize, time: Time) -> Time {
        let mut time = time;
        for fault in &self.options.faults {
            if let Fault::Slow { seat: slow, factor, from_ns } = *fault
                && slow == seat
            {
                let sound = picoseconds(from_ns).saturating_sub(self.now).min(time);
                time = sound.saturating_add(((time - sound) as f64 * factor).round() as Time);
            }
        }
        time
    }

    /// Keeps the seat busy without a task for `time`, not before `begin`.
    fn spend(&mut self, seat: usize, begin: Time, time: Time) {
        self.agenda.fruitless = 0;
        let time = time.saturating_add(std::mem::take(&mut self.seats[seat].debt));
        let end = begin.saturating_add(self.stretched(seat, time));
        self.results.counts.overhead_ns += (end - self.now) as f64 / 1000.0;
        self.schedule(seat, end);
    }

    fn outcome(self) -> SimOutcome {
        let (end, counts) = self.results.measured.unwrap_or((self.now, self.results.counts));
        let wall_ns = (end - self.results.started.min(end)) as f64 / 1000.0;
        SimOutcome {
            program: self.program.name.clone(),
            machine: self.machine.name.clone(),
            strategy: self.plan.strategy.clone(),
            parameters: self.options.parameters,
            used: self.hardware.costs.used(self.machine),
            seed: self.options.seed,
            threads: self.threads.len(),
            wall_ns,
            start_ns: self.results.started as f64 / 1000.0,
            total_ns: self.now as f64 / 1000.0,
            resources: SimOutcome::utilisation(self.hardware.memory.resources(), &counts.uses, wall_ns),
            counts,
            tasks: self.results.records,
            decisions: self.results.decisions,
            trace: self.results.diary.trace(self.machine, self.plan, &self.program),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_from_the_cache_that_a_group_shares_or_from_another_group() {
        let opteron = Machine::by_name("opteron-6172").unwrap();
        let found = lines(&opteron);
        let groups = &opteron.topology.core_groups;
        for (to, from) in [(0, 0), (0, 1), (3, 6), (7, 0)] {
            let ns = match to == from {
                true => opteron.cache_costs(3).latency_ns,
                false => opteron.latency_ns(groups[to].node, groups[from].node),
            };
            assert_eq!(found[to][from], picoseconds(ns), "{to} {from}");
        }
        // Muddukrishna et al. 2015, §2: home caches of other tiles take four to six times as long.
        let tiles = lines(&Machine::by_name("tilepro64").unwrap());
        assert_eq!((tiles[0][1] / tiles[0][0], tiles[0][63] / tiles[0][0]), (4, 6));
    }
}
