//! Both worlds decide alike, by threads and by virtual cores: the queue of a seat's task, the tasks it keeps, and its
//! next one.
//!
//! Random programs, under every strategy. With one thread no decision depends on a race: the whole sequence is the
//! same. With several, each seat's own puts are.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use vicus::tasks::{Access, Kind, Mode, Scope, in_place_scope, join};
use vicus::{NodeId, Plan, Runtime, STRATEGIES, Setting, Topology, this_machine};
use vicus_schedule::{Decision, QueueId, RequestId, Way};
use vicus_sim::{ArraySpec, Machine, Program, SimOptions, Step, TaskSpec, simulate};

/// The steps of a task, in order.
#[derive(Debug)]
enum Op {
    /// Waits for the tasks spawned by these steps.
    Scope(Vec<Op>),
    /// Spawns a task without a place.
    Spawn(Kind, usize),
    /// Spawns a task for a node.
    At(usize, usize),
    /// Spawns a task that changes this cell, after the task before it that does.
    Changes { cell: usize, immediate: bool, task: usize },
    /// Takes these steps in a closure that this task may run at once.
    Join(Vec<Op>, usize),
}

/// The steps of each task. The first tasks are requests, unless they are pinned to a seat each.
#[derive(Debug, Default)]
struct Tasks {
    does: Vec<Vec<Op>>,
    /// Whether several tasks change the same cell: one of them then makes the next one ready.
    share: bool,
}

struct Chance(Pcg64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }
}

impl Tasks {
    /// `first` random tasks, with all tasks they spawn in turn.
    fn random(chance: &mut Chance, first: usize, depth: usize, nodes: usize) -> Tasks {
        let mut tasks = Tasks { does: (0..first).map(|_| Vec::new()).collect(), share: depth > 0 };
        for task in 0..first {
            let count = 1 + chance.below(3);
            tasks.does[task] = (0..count).map(|_| tasks.waits(chance, depth, nodes)).collect();
        }
        tasks
    }

    fn task(&mut self, chance: &mut Chance, depth: usize, nodes: usize) -> usize {
        let task = self.does.len();
        self.does.push(Vec::new());
        if depth > 0 && chance.below(3) > 0 {
            self.does[task] = vec![self.waits(chance, depth - 1, nodes)];
        }
        task
    }

    /// Counts the unfinished spawned tasks.
    fn waits(&mut self, chance: &mut Chance, depth: usize, nodes: usize) -> Op {
        if chance.below(3) == 0 {
            let first = if depth > 0 { vec![self.waits(chance, depth - 1, nodes)] } else { Vec::new() };
            return Op::Join(first, self.task(chance, depth, nodes));
        }
        let spawned = (0..chance.below(6)).map(|_| match chance.below(8) {
            0 if depth > 0 => self.waits(chance, depth - 1, nodes),
            1 | 2 => Op::At(chance.below(nodes), self.task(chance, depth, nodes)),
            3 | 4 => {
                let (cell, immediate) = (chance.below(3), chance.below(2) == 0);
                let task = self.task(chance, depth, nodes);
                Op::Changes { cell: if self.share { cell } else { task }, immediate, task }
            }
            kind => {
                let kind = if kind < 7 { Kind::Immediate } else { Kind::Deferred };
                Op::Spawn(kind, self.task(chance, depth, nodes))
            }
        });
        Op::Scope(spawned.collect())
    }

    /// Each task waits for a task that waits for a task, and so on: deeper than the limit from which a stack counts as
    /// deep.
    fn deep(chance: &mut Chance, levels: usize) -> Tasks {
        let mut tasks = Tasks { does: vec![Vec::new()], share: true };
        let mut at = 0;
        for _ in 0..levels {
            let mut add = || {
                tasks.does.push(Vec::new());
                tasks.does.len() - 1
            };
            let [leaf, next, second, other] = [(); 4].map(|()| add());
            let kind = |chance: &mut Chance| [Kind::Immediate, Kind::Deferred][chance.below(2)];
            let mut spawned = vec![Op::Spawn(kind(chance), leaf), Op::Spawn(kind(chance), next)];
            spawned.push(Op::Join(Vec::new(), second));
            spawned.push(Op::Changes { cell: 0, immediate: chance.below(2) == 0, task: other });
            tasks.does[at] = vec![Op::Scope(spawned)];
            at = next;
        }
        tasks
    }
}

/// The tasks as run by threads.
struct OnThreads {
    tasks: Tasks,
    /// The tasks in the order of their beginnings.
    begun: Mutex<Vec<usize>>,
}

impl OnThreads {
    fn run(&self, task: usize) {
        self.begun.lock().unwrap().push(task);
        self.tasks.does[task].iter().for_each(|op| self.op(op, None));
    }

    fn op<'scope>(&'scope self, op: &'scope Op, scope: Option<&Scope<'scope>>) {
        let spawner = || scope.expect("a scope is open");
        match *op {
            Op::Scope(ref ops) => in_place_scope(|scope| ops.iter().for_each(|op| self.op(op, Some(scope)))),
            Op::Spawn(Kind::Immediate, task) => spawner().spawn(move |_| self.run(task)),
            Op::Spawn(Kind::Deferred, task) => spawner().spawn_deferred(move |_| self.run(task)),
            Op::At(node, task) => spawner().spawn_at(NodeId::new(node), move |_| self.run(task)),
            Op::Changes { cell, immediate, task } => {
                let described = spawner().task().follows(&[changes(cell)]);
                let described = if immediate { described.immediate() } else { described };
                described.spawn(move |()| self.run(task));
            }
            Op::Join(ref first, second) => {
                _ = join(|| first.iter().for_each(|op| self.op(op, None)), || self.run(second));
            }
        }
    }
}

/// Addresses outside of this process's memory. With a single node all bytes count as on it; else their node is unknown.
fn changes(cell: usize) -> Access {
    Access::new((1 << 21) + cell * 64, 64, Mode::ReadWrite)
}

const PART: usize = 1 << 21;

/// The tasks as a program of the simulator: its own first task spawns the first ones, each as a request or on a seat of
/// its own.
fn program(tasks: &Tasks, first: usize, pinned: bool, nodes: usize) -> Program {
    let array = |number: usize, distribution: &str| ArraySpec {
        base: (number + 1) * PART,
        bytes: PART,
        distribution: distribution.parse().unwrap(),
    };
    let homes = (0..nodes).map(|node| array(node + 1, &format!("on:{node}")));
    let mut program = Program {
        name: "both".to_owned(),
        arrays: [array(0, if this_machine().topology.nodes.len() == 1 { "on:0" } else { "standard" })]
            .into_iter()
            .chain(homes)
            .collect(),
        tasks: vec![TaskSpec::default(); tasks.does.len() + 1],
        ..Program::default()
    };
    program.tasks[0].pinned = Some(0);
    program.tasks[0].steps = vec![Step::Spawn(1..1 + first as u32)];
    for task in 0..first {
        let spec = &mut program.tasks[task + 1];
        spec.outside = !pinned;
        spec.pinned = pinned.then_some(task);
        spec.request = RequestId::new(if pinned { 0 } else { 1 + task as u64 });
    }
    // Tasks stand behind their spawners.
    for task in 0..tasks.does.len() {
        let mut steps = Vec::new();
        let request = program.tasks[task + 1].request;
        tasks.does[task].iter().for_each(|op| steps_of(op, request, &mut Last::new(), &mut program.tasks, &mut steps));
        program.tasks[task + 1].steps = steps;
    }
    program.check().unwrap();
    program
}

/// By cell, the last task of a scope that changes it.
type Last = HashMap<usize, u32>;

fn steps_of(op: &Op, request: RequestId, last: &mut Last, specs: &mut [TaskSpec], steps: &mut Vec<Step>) {
    let spawn = |task: usize, spec: TaskSpec, specs: &mut [TaskSpec], steps: &mut Vec<Step>| {
        let number = task as u32 + 1;
        specs[number as usize] = TaskSpec { request, ..spec };
        steps.push(Step::Spawn(number..number + 1));
        number
    };
    match *op {
        Op::Spawn(kind, task) => _ = spawn(task, TaskSpec { kind, ..TaskSpec::default() }, specs, steps),
        Op::At(node, task) => {
            let accesses = vec![Access::new((node + 2) * PART, 64, Mode::Read)];
            spawn(task, TaskSpec { accesses, goes_home: true, ..TaskSpec::default() }, specs, steps);
        }
        Op::Changes { cell, immediate, task } => {
            let kind = if immediate { Kind::Immediate } else { Kind::Deferred };
            let (accesses, after) = (vec![changes(cell)], last.get(&cell).copied().into_iter().collect());
            last.insert(cell, spawn(task, TaskSpec { kind, accesses, after, ..TaskSpec::default() }, specs, steps));
        }
        Op::Scope(ref ops) => {
            steps.push(Step::Open);
            let mut last = Last::new();
            ops.iter().for_each(|op| steps_of(op, request, &mut last, specs, steps));
            steps.push(Step::Wait);
        }
        Op::Join(ref first, second) => {
            steps.push(Step::Open);
            let number = spawn(second, TaskSpec { kind: Kind::Immediate, ..TaskSpec::default() }, specs, steps);
            first.iter().for_each(|op| steps_of(op, request, &mut Last::new(), specs, steps));
            steps.extend([Step::TakeBack(number), Step::Wait]);
        }
    }
}

/// A decision about a task of [`Tasks`].
#[derive(Clone, Copy, Debug, PartialEq)]
enum Did {
    Puts(usize, QueueId),
    Keeps(usize),
    Runs(usize, Way),
}

fn started(machine: &Topology, strategy: &str, threads: usize) -> Runtime {
    let setting: Setting = strategy.parse().unwrap();
    let builder =
        Runtime::builder().topology(machine.clone()).threads(threads).strategy(setting).without_turns().quiet();
    builder.record(1).write_decisions().start()
}

/// The decisions of one thread. The requests are there when it begins with the first one.
fn on_a_thread(machine: &Topology, strategy: &str, tasks: Tasks, first: usize) -> (Plan, Vec<Did>) {
    let runtime = started(machine, strategy, 1);
    let world = Arc::new(OnThreads { tasks, begun: Mutex::default() });
    let begin = |task| {
        let world = Arc::clone(&world);
        runtime.spawn(move || world.run(task))
    };
    let requests: Vec<_> = super::while_the_seat_is_busy(&runtime, || (0..first).map(begin).collect());
    requests.into_iter().for_each(|request| request.wait().unwrap());
    let plan = runtime.plan().clone();
    let decisions = runtime.recorded().0.swap_remove(0);
    // Runs are told apart by the order of their beginnings.
    let runs = decisions.iter().filter_map(|decision| match decision {
        Decision::Runs(task, _) => Some(task.number),
        _ => None,
    });
    let begun = world.begun.lock().unwrap();
    assert_eq!(begun.len(), world.tasks.does.len(), "each task runs once");
    let names: HashMap<u32, usize> = runs.skip(1).zip(begun.iter().copied()).collect();
    let did = decisions.iter().filter_map(|decision| match *decision {
        Decision::Puts(task, queue) => Some(Did::Puts(names[&task.number], queue)),
        Decision::Keeps(task) => Some(Did::Keeps(names[&task.number])),
        Decision::Runs(task, way) => names.get(&task.number).map(|&task| Did::Runs(task, way)),
        _ => None,
    });
    (plan, did.collect())
}

/// The decisions of one virtual core by the same plan.
fn on_a_virtual_core(machine: &Machine, plan: &Plan, tasks: &Tasks, first: usize) -> Vec<Did> {
    let program = program(tasks, first, false, machine.topology.nodes.len());
    let options = SimOptions { decisions: true, without_turns: true, ..SimOptions::default() };
    let outcome = simulate(machine, plan, &program, &options).unwrap();
    // The first task stands for the callers.
    let task = |number: u32| (number as usize).checked_sub(1);
    let did = outcome.decisions[0].iter().filter_map(|decision| match *decision {
        Decision::Puts(name, queue) => {
            task(name.number).filter(|&task| task >= first).map(|task| Did::Puts(task, queue))
        }
        Decision::Keeps(name) => task(name.number).map(Did::Keeps),
        Decision::Runs(name, way) => task(name.number).map(|task| Did::Runs(task, way)),
        _ => None,
    });
    did.collect()
}

fn strategies() -> impl Iterator<Item = String> {
    let plain = STRATEGIES.iter().map(|strategy| strategy.name().to_owned());
    // Queues that are soon full, and tokens that are soon too many.
    let small = ["central:capacity=1", "central:capacity=3", "locality-queues:capacity=2"].map(str::to_owned);
    let never_woken = ["footprint:undealt=apart,wake=off", "vicinity:wake=off"].map(str::to_owned);
    // Tasks too small for the plain strategies to deal.
    let deals_all = ["vicus:deal_bytes=1", "vicus:deal_bytes=1,fan=0", "vicus:deal_bytes=1,fan=1"].map(str::to_owned);
    plain.chain(small).chain(never_woken).chain(deals_all)
}

fn assert_alike(machine: &str, strategy: &str, what: &str, tasks: impl Fn() -> Tasks, first: usize) {
    let topology = Topology::parse(machine).unwrap();
    let (plan, threads) = on_a_thread(&topology, strategy, tasks(), first);
    let simulated = on_a_virtual_core(&Machine::from_topology(topology), &plan, &tasks(), first);
    if let Some(at) = (0..threads.len().max(simulated.len())).find(|&at| threads.get(at) != simulated.get(at)) {
        let around = |did: &[Did]| did[at.saturating_sub(5).min(did.len())..(at + 3).min(did.len())].to_vec();
        panic!(
            "{what}: decision {at} differs:\n  on a thread       {:?}\n  on a virtual core {:?}\n{:#?}",
            around(&threads),
            around(&simulated),
            tasks()
        );
    }
}

#[test]
fn one_seat_decides_the_same_in_both_worlds() {
    for strategy in strategies() {
        for seed in 0..40 {
            let (machine, nodes) = [("node:1 core:2", 1), ("node:2 l3:2 core:2", 2)][seed % 2];
            let first = 1 + seed % 3;
            let tasks = || Tasks::random(&mut Chance(Pcg64::seed_from_u64(seed as u64)), first, 3, nodes);
            assert_alike(machine, &strategy, &format!("{strategy} on {machine}, seed {seed}"), tasks, first);
        }
    }
}

#[test]
fn a_deep_stack_keeps_the_same_in_both_worlds() {
    for strategy in strategies() {
        for seed in 0..3 {
            let tasks = || Tasks::deep(&mut Chance(Pcg64::seed_from_u64(seed)), 80);
            assert_alike("node:1 core:2", &strategy, &format!("{strategy}, deep, seed {seed}"), tasks, 1);
        }
    }
}

/// Tasks on a seat each, with children without children: each seat decides alone where to put these, whichever seat
/// then runs them.
#[test]
fn several_seats_put_the_same_into_the_same_queues() {
    const SEATS: usize = 6;
    for strategy in strategies().take(STRATEGIES.len()) {
        // Whether a queue is in use is not the seat's decision.
        let strategy = if strategy == "vicus" { "vicus:spill=off".to_owned() } else { strategy };
        for seed in 0..5 {
            let tasks = || {
                let mut chance = Chance(Pcg64::seed_from_u64(seed));
                Tasks::random(&mut chance, SEATS, 0, 3)
            };
            let machine = Topology::parse("node:3 l3:2 core:1").unwrap();
            let runtime = started(&machine, &strategy, SEATS);
            let world = OnThreads { tasks: tasks(), begun: Mutex::default() };
            runtime.on_each_thread(|thread, _| world.run(thread));
            let plan = runtime.plan().clone();
            let puts = |decisions: Vec<Vec<Decision>>| -> Vec<Vec<QueueId>> {
                let queue = |decision: &Decision| match *decision {
                    Decision::Puts(_, queue) => Some(queue),
                    _ => None,
                };
                decisions.iter().map(|seat| seat.iter().filter_map(queue).collect()).collect()
            };
            let threads = puts(runtime.recorded().0);
            let program = program(&tasks(), SEATS, true, 3);
            let options = SimOptions { seed, decisions: true, without_turns: true, ..SimOptions::default() };
            let outcome = simulate(&Machine::from_topology(machine), &plan, &program, &options).unwrap();
            assert!(threads.iter().flatten().count() > SEATS, "{strategy}, seed {seed}: some are spawned");
            assert_eq!(threads, puts(outcome.decisions), "{strategy}, seed {seed}");
        }
    }
}
