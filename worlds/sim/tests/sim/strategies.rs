//! Random programs under every strategy on the topologies of real machines: checks the rules of every plan.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use std::collections::BTreeMap;
use vicus_memory::distribution::Distribution;
use vicus_schedule::{ALL, Access, Kind, Mode, Plan, PoolId, Probe, RequestId, Setting};
use vicus_sim::{
    ArraySpec, Cost, Machine, Parameters, Program, SimOptions, SimOutcome, Step, TaskSpec, Work, simulate,
};
use vicus_topology::{DealReason, LocationId, Topology, fixtures};
use vicus_trace::{JobId, Trace, What};

pub(crate) struct Chance(Pcg64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(Pcg64::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }
}

const ARRAY: usize = 1 << 20;

/// Random tasks that spawn, wait, depend on each other, are pinned, and touch memory.
pub(crate) fn random(seed: u64) -> Program {
    let mut chance = Chance::new(seed);
    let distributions = ["standard", "fine", "coarse", "blocked", "on:0"];
    let arrays = (0..6).map(|number| ArraySpec {
        base: number * 2 * ARRAY,
        bytes: ARRAY,
        distribution: distributions[chance.below(distributions.len())].parse().unwrap(),
    });
    let arrays = arrays.collect();
    let root = TaskSpec { pinned: (chance.below(2) == 0).then_some(0), ..TaskSpec::default() };
    let leaves = vec!["leaf".to_owned()];
    let name = format!("random {seed}");
    let mut program = Program { name, arrays, leaves, tasks: vec![root], ..Program::default() };
    fill(&mut program, &mut chance, 0, 3);
    program.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    program
}

fn access(chance: &mut Chance) -> Access {
    let bytes = 1 + chance.below(ARRAY / 8);
    let start = chance.below(6) * 2 * ARRAY + chance.below(ARRAY - bytes);
    let mode = [Mode::Read, Mode::Write, Mode::ReadWrite][chance.below(3)];
    let access = Access::new(start, bytes, mode);
    let access = if chance.below(4) == 0 { access.intense() } else { access };
    if chance.below(4) == 0 { access.streaming() } else { access }
}

fn fill(program: &mut Program, chance: &mut Chance, task: usize, depth: usize) {
    let mut steps = Vec::new();
    for _ in 0..1 + chance.below(3) {
        let accesses = (0..chance.below(3)).map(|_| access(chance)).collect();
        let cost = if chance.below(2) == 0 {
            Cost::Flops(chance.below(50_000) as u64)
        } else {
            Cost::Nanos(chance.below(9000) as f64)
        };
        steps.push(Step::Work(Work { leaf: 0, cost, accesses }));
        if depth == 0 {
            continue;
        }
        let waits = chance.below(3) > 0;
        let opens = waits && chance.below(2) == 0;
        if opens {
            steps.push(Step::Open);
        }
        let (from, count) = (program.tasks.len(), chance.below(7));
        for number in 0..count {
            let accesses = (0..chance.below(3)).map(|_| access(chance)).collect();
            let after = (0..number).filter(|_| chance.below(4) == 0).map(|earlier| (from + earlier) as u32).collect();
            let kind = if chance.below(2) == 0 { Kind::Immediate } else { Kind::Deferred };
            // Only a caller from outside waits for another request.
            let other = task == 0 && chance.below(2) == 0;
            let request = if other { RequestId::new(1 + chance.below(3) as u64) } else { program.tasks[task].request };
            let pinned = (chance.below(6) == 0).then(|| chance.below(100));
            program.tasks.push(TaskSpec { kind, request, accesses, pinned, after, ..TaskSpec::default() });
        }
        steps.push(Step::Spawn(from as u32..(from + count) as u32));
        (from..from + count).for_each(|child| fill(program, chance, child, depth - 1));
        if waits {
            steps.push(Step::Wait);
        }
    }
    program.tasks[task].steps = steps;
}

fn run(machine: &Machine, plan: &Plan, program: &Program, seed: u64) -> SimOutcome {
    let options = SimOptions { seed, trace: Some(1 << 14), ..SimOptions::default() };
    let outcome = simulate(machine, plan, program, &options);
    outcome.unwrap_or_else(|error| panic!("{} on {}, {}: {error}", plan.strategy, machine.name, program.name))
}

/// Checks the rules of a run under every strategy.
fn assert_sound(machine: &Machine, plan: &Plan, program: &Program, outcome: &SimOutcome) {
    let what = format!("{} on {}, {}", plan.strategy, machine.name, program.name);
    let trace = outcome.trace.as_ref().expect("a trace was asked for");
    assert_eq!(trace.check(), [], "{what}");
    assert_eq!(trace.lost(), 0, "{what}");
    assert_every_task_once(program, trace, &what);
    assert_legal_moves(plan, program, trace, &what);
    let threads: Vec<usize> = (0..plan.seats.len()).filter(|&seat| !plan.seats[seat].spare).collect();
    for (number, task) in program.tasks.iter().enumerate() {
        let record = &outcome.tasks[number];
        for &earlier in &task.after {
            let earlier = &outcome.tasks[earlier as usize];
            assert!(record.start_ns >= earlier.end_ns, "{what}: task {number} begins before its data is there");
        }
        if let Some(pinned) = task.pinned {
            assert_eq!(record.seat as usize, threads[pinned % threads.len()], "{what}: task {number} is pinned");
        }
        let waits = task.steps.last() == Some(&Step::Wait);
        for step in &task.steps {
            let Step::Spawn(children) = step else { continue };
            for child in children.clone().map(|child| &outcome.tasks[child as usize]) {
                assert!(child.start_ns >= record.start_ns, "{what}: a task begins after its spawner");
            }
        }
        if let (true, Some(Step::Spawn(last))) = (waits, task.steps.iter().rev().nth(1)) {
            for child in last.clone().map(|child| &outcome.tasks[child as usize]) {
                assert!(child.end_ns <= record.end_ns, "{what}: task {number} waits for its tasks");
            }
        }
    }
}

fn assert_every_task_once(program: &Program, trace: &Trace, what: &str) {
    let mut begun = vec![0; program.tasks.len()];
    for event in trace.logs().iter().flat_map(|log| &log.events) {
        if let What::InvocationBegins { who } = event.what {
            begun[who.index as usize] += 1;
        }
    }
    assert!(begun.iter().all(|&times| times == 1), "{what}: each task runs once: {begun:?}");
}

/// A seat takes a task by one of its rules; while its task waits, by a rule allowed then, or it takes a task of the
/// same request. A first task that submits other requests is a caller from outside: its seat is free.
fn assert_legal_moves(plan: &Plan, program: &Program, trace: &Trace, what: &str) {
    let may_refuse = plan.queues.iter().any(|queue| queue.capacity.is_some());
    for (seat, log) in trace.logs().iter().enumerate() {
        let plan = &plan.seats[seat];
        let is_outside = program.tasks.iter().any(|task| task.request != program.tasks[0].request);
        let mut runs = Vec::new();
        for event in &log.events {
            match event.what {
                What::InvocationBegins { who } => runs.push(who),
                What::InvocationEnds { .. } => assert!(runs.pop().is_some(), "{what}"),
                What::Taken { who, rule: 0, .. } => {
                    let is_pinned = program.tasks[who.index as usize].pinned.is_some();
                    assert!(is_pinned || may_refuse, "{what}: seat {seat} takes {who} by no rule");
                }
                What::Taken { who, rule, .. } => {
                    let own = runs
                        .last()
                        .is_none_or(|outer| (is_outside && outer.index == 0) || outer.request == who.request);
                    let allows = |probe: &Probe| probe.rule == rule && (own || probe.while_waiting);
                    assert!(plan.look.iter().any(allows), "{what}: seat {seat}, rule {rule}");
                }
                _ => {}
            }
        }
    }
}

fn settings() -> Vec<Setting> {
    let plain = ALL.iter().map(|strategy| strategy.name().to_owned());
    let special = ["central:capacity=3", "vicinity:reach=1", "bobox:several=2"].map(str::to_owned);
    plain.chain(special).map(|text| text.parse().unwrap()).collect()
}

#[test]
fn every_task_runs_once_and_in_order_under_every_strategy_on_every_machine() {
    for (number, topology) in fixtures().into_iter().enumerate() {
        let machine = Machine::from_topology(topology);
        let threads = machine.topology.usable_pus().count().min(20);
        for (at, setting) in settings().iter().enumerate() {
            let plan = machine.plan(setting, threads);
            for seed in 0..3 {
                let seed = (number * 100 + at * 10 + seed) as u64;
                let program = random(seed);
                let outcome = run(&machine, &plan, &program, seed);
                assert_sound(&machine, &plan, &program, &outcome);
            }
        }
    }
}

/// After its longest pause a seat sleeps until a push wakes it, as a thread does: pauses of a nanosecond must not be
/// simulated for hours.
#[test]
fn seats_that_back_off_sleep_in_the_end() {
    let machine = Machine::by_name("opteron-6172").unwrap();
    for (pauses, seed) in [("backoff_ns=1,backoff_max_ns=1", 1), ("backoff_ns=1,backoff_factor=2", 2)] {
        for strategy in ["footprint", "vicinity"] {
            let mut program = random(seed);
            // A second of work on one core, while all others have none.
            program.tasks[0].steps.push(Step::Work(Work { leaf: 0, cost: Cost::Nanos(1e9), accesses: Vec::new() }));
            let plan = format!("{strategy}:{pauses}").parse::<Setting>().unwrap().plan(&machine.topology, 48);
            let outcome = run(&machine, &plan, &program, seed);
            assert_sound(&machine, &plan, &program, &outcome);
        }
    }
}

#[test]
fn the_machines_of_the_papers_run_random_programs_too() {
    for name in Machine::names() {
        let machine = Machine::by_name(name).unwrap();
        for (at, setting) in settings().iter().enumerate() {
            let plan = machine.plan(setting, machine.topology.default_threads().min(63));
            let program = random(7000 + at as u64);
            assert_sound(&machine, &plan, &program, &run(&machine, &plan, &program, 1));
        }
    }
}

fn bytes(outcome: SimOutcome) -> Vec<u8> {
    let mut bytes = Vec::new();
    outcome.trace.expect("a trace was asked for").write_to(&mut bytes).expect("memory has room");
    bytes
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_one_another() {
    let machine = Machine::by_name("opteron-6172").unwrap();
    for setting in settings() {
        let plan = machine.plan(&setting, 48);
        let program = random(42);
        let trace = |seed| bytes(run(&machine, &plan, &program, seed));
        assert!(trace(5) == trace(5), "{setting}");
        assert!(trace(5) != trace(6), "{setting}");
    }
}

#[test]
fn strategies_change_when_and_where_but_not_what() {
    // Computing alone takes as long wherever it is done.
    let machine = Machine::from_topology(Topology::parse("node:4 l3:1 core:4").unwrap());
    let mut program = random(3);
    let mut computing = 0.0;
    for step in program.tasks.iter_mut().flat_map(|task| &mut task.steps) {
        if let Step::Work(work) = step {
            work.accesses.clear();
            computing += match work.cost {
                Cost::Nanos(ns) => ns,
                Cost::Flops(flops) => flops as f64 / 12.0,
            };
        }
    }
    for setting in settings() {
        let parameters = Parameters { jitter: 0.0, ..Parameters::default() };
        let options = SimOptions { parameters, ..SimOptions::default() };
        let outcome = simulate(&machine, &machine.plan(&setting, 16), &program, &options).unwrap();
        assert!(
            (outcome.counts.busy_ns - computing).abs() < 1.0,
            "{setting}: {} of {computing}",
            outcome.counts.busy_ns
        );
        assert!(outcome.wall_ns >= computing / 16.0, "{setting}");
    }
    // Each read byte comes from somewhere.
    let mut program = random(4);
    let mut read = 0.0;
    for step in program.tasks.iter_mut().flat_map(|task| &mut task.steps) {
        if let Step::Work(work) = step {
            for access in &mut work.accesses {
                (access.mode, access.streams) = (Mode::Read, false);
                read += access.total_bytes() as f64;
            }
        }
    }
    for setting in settings() {
        let counts = run(&machine, &machine.plan(&setting, 16), &program, 0).counts;
        let moved = counts.near_bytes + counts.far_bytes + counts.cached_bytes;
        assert!((moved - read).abs() < 1.0, "{setting}: {moved} of {read}");
    }
}

#[test]
fn takes_and_requests_add_up() {
    let machine = Machine::by_name("epyc-7763").unwrap();
    for (at, setting) in settings().iter().enumerate() {
        let program = random(900 + at as u64);
        let outcome = run(&machine, &machine.plan(setting, 32), &program, 0);
        let pinned = program.tasks.iter().filter(|task| task.pinned.is_some()).count() as u64;
        let taken = outcome.counts.takes.values().sum::<u64>();
        assert_eq!(taken + pinned + outcome.counts.refused, program.tasks.len() as u64, "{setting}");
        let mut requests: BTreeMap<u32, i32> = BTreeMap::new();
        for event in outcome.trace.as_ref().unwrap().logs().iter().flat_map(|log| &log.events) {
            match event.what {
                What::RequestSubmitted { request } => *requests.entry(request).or_default() += 1,
                What::RequestEnded { request, .. } => *requests.entry(request).or_default() += 10,
                _ => {}
            }
        }
        assert!(requests.values().all(|&times| times == 11), "{setting}: {requests:?}");
    }
}

#[test]
fn a_distribution_that_does_not_fit_is_refused_on_every_machine() {
    let array = ArraySpec { base: 0, bytes: 64, distribution: Distribution::On(LocationId::new(1000)) };
    let program = Program { arrays: vec![array], tasks: vec![TaskSpec::default()], ..Program::default() };
    for topology in fixtures() {
        let machine = Machine::from_topology(topology);
        let plan = machine.plan(&"las".parse::<Setting>().unwrap(), 1);
        let error = simulate(&machine, &plan, &program, &SimOptions::default()).unwrap_err();
        assert!(error.to_string().contains("1000"), "{error}");
    }
}

#[test]
fn a_trace_says_why_each_task_went_where_it_was_dealt() {
    let machine = Machine::by_name("opteron-6172").unwrap();
    let array = |number: usize, distribution: &str| ArraySpec {
        base: number * 2 * ARRAY,
        bytes: ARRAY,
        distribution: distribution.parse().unwrap(),
    };
    // All of the first array on node 3; of the second, an eighth on each node.
    let arrays = vec![array(0, "on:3"), array(1, "blocked")];
    let uses = |start: usize, bytes: usize| TaskSpec {
        accesses: vec![Access::new(start, bytes, Mode::Read)],
        ..TaskSpec::default()
    };
    let tasks = vec![TaskSpec::default(), uses(0, ARRAY), uses(0, 100), uses(2 * ARRAY, ARRAY), TaskSpec::default()];
    let mut program = Program { arrays, tasks, ..Program::default() };
    program.tasks[0].steps = vec![Step::Spawn(1..5), Step::Wait];
    for strategy in ["vicus", "footprint:share_bytes=4096"] {
        let plan = machine.plan(&strategy.parse().unwrap(), 48);
        let outcome = run(&machine, &plan, &program, 1);
        let events = outcome.trace.as_ref().unwrap().logs().iter().flat_map(|log| &log.events);
        let dealt = events.filter_map(|event| match event.what {
            What::Dealt { who, why, share, queue } => Some((who.index, why, share, queue)),
            _ => None,
        });
        let there = plan.dealing().unwrap().queues[3].index() as u32;
        let stays = JobId::NONE;
        let expected =
            [(1, DealReason::Nearest, 100, there), (2, DealReason::Small, 0, stays), (3, DealReason::Even, 0, stays)];
        assert_eq!(dealt.collect::<Vec<_>>(), expected, "{strategy}: the last one has no bytes");
    }
}

/// Two sweeps over the same arrays, on two caches with a core each: the second sweep's tasks go to the pools of the
/// first one's.
#[test]
fn the_next_task_with_the_same_data_goes_to_the_pool_that_ran_the_last_one() {
    const TASKS: usize = 12;
    let machine = Machine::from_topology(Topology::parse("node:1 l3:2 core:1").unwrap());
    let array =
        |number: usize| ArraySpec { base: number << 20, bytes: 1 << 16, distribution: "standard".parse().unwrap() };
    let uses = |number: usize| {
        let accesses = vec![Access::new(number << 20, 1 << 16, Mode::ReadWrite)];
        let work = Work { leaf: 0, cost: Cost::Nanos(20_000.0), accesses: accesses.clone() };
        TaskSpec { accesses, steps: vec![Step::Work(work)], ..TaskSpec::default() }
    };
    let tasks = std::iter::once(TaskSpec::default()).chain((0..2 * TASKS).map(|number| uses(number % TASKS)));
    let mut program = Program { arrays: (0..TASKS).map(array).collect(), tasks: tasks.collect(), ..Program::default() };
    program.leaves = vec!["sweep".to_owned()];
    let half = TASKS as u32 + 1;
    program.tasks[0].steps = vec![Step::Spawn(1..half), Step::Wait, Step::Spawn(half..half + TASKS as u32), Step::Wait];
    for (strategy, is_warm) in [("vicus:deal_bytes=4096", true), ("vicus:deal_bytes=4096,warm=0", false)] {
        let plan = machine.plan(&strategy.parse().unwrap(), 2);
        let outcome = run(&machine, &plan, &program, 1);
        let (mut ran, mut dealt) = (vec![None; 2 * TASKS + 1], vec![None; 2 * TASKS + 1]);
        for (seat, log) in outcome.trace.as_ref().unwrap().logs().iter().enumerate() {
            for event in &log.events {
                match event.what {
                    What::InvocationBegins { who } => {
                        ran[who.index as usize] = plan.seats.get(seat).map(|seat| seat.pool)
                    }
                    What::Dealt { who, why: DealReason::Warm, queue, .. } => {
                        dealt[who.index as usize] = Some(queue as usize)
                    }
                    _ => {}
                }
            }
        }
        let pools =
            [0, 1].map(|pool| ran[1..half as usize].iter().filter(|ran| **ran == Some(PoolId::new(pool))).count());
        assert!(pools.iter().all(|&tasks| tasks > 0), "both pools have run some: {pools:?}");
        for task in 1..half as usize {
            let queue = |pool: PoolId| plan.warm().map(|warm| warm.queues[pool.index()].index());
            assert_eq!(dealt[task], None, "the first sweep's data are new");
            let expected = ran[task].and_then(queue).filter(|_| is_warm);
            assert_eq!(dealt[task + TASKS], expected, "{strategy}, task {task}");
        }
    }
}
