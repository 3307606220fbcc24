//! Small programs with times that can be worked out on paper.

use vicus_kernels::{KernelWorld, Leaf, Schedule, Task, TaskOrder};
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Decision, Kind, Mode, Plan, RequestId, Setting};
use vicus_sim::{
    ArraySpec, Cost, Fault, Machine, Parameters, Port, Program, Queueing, Recorder, SimError, SimOptions, SimOutcome,
    Step, TaskSpec, Work, simulate, simulate_watched,
};
use vicus_topology::{LocationId, Topology};

const MB: usize = 1 << 20;

/// Only work takes time.
pub(crate) fn free() -> Parameters {
    Parameters {
        overlap: 1.0,
        cache_share: 1.0,
        spawn_cycles: 0.0,
        own_cycles: 0.0,
        take_cycles: 0.0,
        steal_cycles: 0.0,
        deal_cycles: 0.0,
        stretch_cycles: 0.0,
        wake_ns: 0.0,
        jitter: 0.0,
    }
}

/// A core gets 12 GB/s from its own node, and half of it from another; a node has 20, and a link 10. Lines wait only
/// for full resources.
fn machine(line: &str) -> Machine {
    let mut machine = Machine::from_topology(Topology::parse(line).unwrap());
    machine.memory.queueing = Queueing::NONE;
    machine
}

fn plan(machine: &Machine, strategy: &str, threads: usize) -> Plan {
    machine.plan(&strategy.parse::<Setting>().unwrap(), threads)
}

fn run(machine: &Machine, strategy: &str, threads: usize, program: &Program, options: &SimOptions) -> SimOutcome {
    simulate(machine, &plan(machine, strategy, threads), program, options).unwrap()
}

fn free_of_cost() -> SimOptions {
    SimOptions { parameters: free(), ..SimOptions::default() }
}

/// Each thread reads its part of an array.
fn all_read(threads: usize, each: usize, distribution: &str) -> Program {
    Recorder::record_with("read", threads, |world| {
        let array = world.array::<u64>(threads * each / 8, &distribution.parse().unwrap());
        world.push(Step::Start);
        world.each(threads, Schedule::Static, |thread| {
            let part = thread * each / 8..(thread + 1) * each / 8;
            world.work(Leaf { name: "read", flops: 0 }, &[array.reads(part)], || ());
        });
        world.push(Step::End);
    })
}

fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-4 * expected, "{found} and not {expected}");
}

#[test]
fn a_core_alone_reads_at_its_own_speed() {
    let machine = machine("node:1 core:2");
    let outcome = run(&machine, "steal", 1, &all_read(1, 60 * MB, "fine"), &free_of_cost());
    assert_near(outcome.wall_ns, 60.0 * MB as f64 / 12.0);
    assert_eq!((outcome.counts.near_bytes, outcome.counts.far_bytes), (60.0 * MB as f64, 0.0));
    // 12 of 20 GB/s.
    assert_eq!(outcome.resources[0].name, "controller 0");
    assert_near(outcome.resources[0].share, 0.6);
    // Node 0's memory answers after 90 ns.
    assert_near(outcome.tasks[1].latency_ns, 90.0);
}

#[test]
fn two_cores_share_a_controller() {
    let machine = machine("node:1 core:2");
    let outcome = run(&machine, "steal", 2, &all_read(2, 60 * MB, "fine"), &free_of_cost());
    assert_near(outcome.wall_ns, 60.0 * MB as f64 / 10.0);
    assert_near(outcome.resources[0].share, 1.0);
    // They wait 12 / 10 as long for each line.
    assert_near(outcome.tasks[1].latency_ns, 90.0 * 1.2);
    let alone = run(&machine, "steal", 1, &all_read(2, 60 * MB, "fine"), &free_of_cost());
    assert_near(outcome.speedup_over(&alone), 20.0 / 12.0);
    assert_near(outcome.work_inflation_over(&alone), 1.2);
}

#[test]
fn a_line_waits_longer_the_more_others_there_are() {
    // A core alone asks for 12 of 48 GB/s: a quarter, with a wait of 10 ns for lines. With 1080 bytes under way it then
    // gets 1080 bytes in 90 ns plus their wait, and so asks for a little less.
    let mut machine = machine("node:1 core:4");
    machine.memory.controller_bandwidth = 48e9;
    machine.memory.queueing = Queueing::new(&[(1.0, 40.0)]).unwrap();
    for threads in 1..=4 {
        let outcome = run(&machine, "steal", threads, &all_read(threads, 60 * MB, "fine"), &free_of_cost());
        let latency_ns = outcome.tasks[1].latency_ns;
        // The wait at the cores' load, and a core's rate at this latency.
        let load = threads as f64 * 1080.0 / latency_ns / 48.0;
        assert!((latency_ns - (90.0 + 40.0 * load)).abs() < 0.01, "{threads}: {latency_ns}");
        assert_near(outcome.wall_ns, 60.0 * MB as f64 * latency_ns / 1080.0);
    }
}

#[test]
fn all_bytes_of_a_core_group_go_through_its_port() {
    let mut machine = machine("node:1 l3:2 core:2");
    machine.port = Some(Port { read: 15e9, write: 15e9 });
    machine.memory.controller_bandwidth = 100e9;
    let wall = |threads: usize| run(&machine, "steal", threads, &all_read(4, 60 * MB, "fine"), &free_of_cost()).wall_ns;
    assert_near(wall(4), 60.0 * MB as f64 / 7.5);
    let outcome = run(&machine, "steal", 4, &all_read(4, 60 * MB, "fine"), &free_of_cost());
    assert_near(outcome.resources.iter().find(|used| used.name == "port 1 in").unwrap().share, 1.0);
}

#[test]
fn far_readers_share_the_link() {
    // Four cores of node 0 read from node 1: 6 GB/s each alone, but the link has 10.
    let machine = machine("node:2 core:4");
    let outcome = run(&machine, "steal", 4, &all_read(4, 10 * MB, "on:1"), &free_of_cost());
    assert_near(outcome.wall_ns, 10.0 * MB as f64 / 2.5);
    assert_eq!(outcome.far_share(), 1.0);
    let link = outcome.resources.iter().find(|used| used.name == "link 1>0").unwrap();
    assert_near(link.share, 1.0);
    let alone = run(&machine, "steal", 1, &all_read(1, 10 * MB, "on:1"), &free_of_cost());
    assert_near(alone.wall_ns, 10.0 * MB as f64 / 6.0);
}

#[test]
fn what_is_touched_in_parallel_is_near_and_interleaving_is_between() {
    let machine = machine("node:2 core:2");
    let program = |distribution: &str, serial: bool| {
        Recorder::record_with("touch", 4, |world| {
            let array = world.array::<u64>(4 * MB, &distribution.parse().unwrap());
            let part = |thread: usize| thread * MB..(thread + 1) * MB;
            let leaf = Leaf { name: "touch", flops: 0 };
            if serial {
                world.work(leaf, &[array.writes(0..4 * MB)], || ());
            } else {
                let touch = |thread| world.work(leaf, &[array.writes(part(thread))], || ());
                world.each(4, Schedule::Static, touch);
            }
            world.push(Step::Start);
            world.each(4, Schedule::Static, |thread| world.work(leaf, &[array.reads(part(thread))], || ()));
            world.push(Step::End);
        })
    };
    let wall = |distribution, serial| {
        run(&machine, "steal", 4, &program(distribution, serial), &free_of_cost()).wall_ns / (8 * MB) as f64
    };
    // Near: two cores at 20 GB/s for each node.
    assert_near(wall("standard", false), 1.0 / 10.0);
    // Serial: all on node 0, whose 20 GB/s four cores share. All lines wait as long there, and a byte comes 1/12 ns
    // later: near cores get 6, far ones 4. When the near ones are done, the others share the link's 10 for the
    // remaining third.
    assert_near(wall("standard", true), 1.0 / 6.0 + (1.0 - 4.0 / 6.0) / 5.0);
    // Round robin: each core has half near at 12 and half far at 6, together 8 GB/s, and saturates nothing.
    assert_near(wall("fine", false), 1.0 / 8.0);
    assert_near(wall("fine", true), 1.0 / 8.0);
}

fn compute(tasks: usize, ns: f64) -> Program {
    let work = Step::Work(Work { leaf: 0, cost: Cost::Nanos(ns), accesses: Vec::new() });
    let task = TaskSpec { steps: vec![work], ..TaskSpec::default() };
    let steps = vec![Step::Start, Step::Spawn(1..tasks as u32 + 1), Step::Wait, Step::End];
    let root = TaskSpec { steps, pinned: Some(0), ..TaskSpec::default() };
    let tasks = std::iter::once(root).chain(std::iter::repeat_n(task, tasks)).collect();
    Program { name: "compute".to_owned(), leaves: vec!["leaf".to_owned()], tasks, ..Program::default() }
}

#[test]
fn operations_take_cycles_and_some_of_them_while_bytes_arrive() {
    let machine = machine("node:1 core:1");
    let program = Recorder::record_with("both", 1, |world| {
        let array = world.array::<u64>(1500, &Distribution::Fine);
        world.push(Step::Start);
        // 12,000 bytes at 12 GB/s: 1000 ns; 6000 operations at 4 in a cycle of 3 GHz: 500 ns.
        world.work(Leaf { name: "both", flops: 6000 }, &[array.reads(0..1500)], || ());
        world.push(Step::End);
    });
    for (overlap, expected) in [(1.0, 1000.0), (0.0, 1500.0), (0.5, 1250.0)] {
        let options = SimOptions { parameters: Parameters { overlap, ..free() }, ..SimOptions::default() };
        assert_near(run(&machine, "las", 1, &program, &options).wall_ns, expected);
    }
}

#[test]
fn cores_do_not_wait_for_write_backs() {
    // 60 MB of lines are read to be written, and 60 MB are written back meanwhile: the core waits only for its reads,
    // at 12 GB/s.
    let written = |access: fn(Access) -> Access| {
        Recorder::record_with("write", 1, |world| {
            let array = world.array::<u64>(60 * MB / 8, &Distribution::Fine);
            world.push(Step::Start);
            world.work(Leaf { name: "write", flops: 0 }, &[access(array.writes(0..60 * MB / 8))], || ());
            world.push(Step::End);
        })
    };
    let mut machine = machine("node:1 core:1");
    machine.memory.controller_bandwidth = 30e9;
    let outcome = run(&machine, "las", 1, &written(|access| access), &free_of_cost());
    assert_near(outcome.wall_ns, 60.0 * MB as f64 / 12.0);
    assert_near(outcome.counts.near_bytes, 120.0 * MB as f64);
    // Stores past the caches read nothing: the core waits for its writes.
    let outcome = run(&machine, "las", 1, &written(Access::streaming), &free_of_cost());
    assert_near(outcome.wall_ns, 60.0 * MB as f64 / 12.0);
    assert_near(outcome.counts.near_bytes, 60.0 * MB as f64);
}

#[test]
fn two_hardware_threads_of_a_core_share_it() {
    let machine = machine("node:1 l3:1 core:2 pu:2");
    let wall = |threads| run(&machine, "steal", threads, &compute(4, 1000.0), &free_of_cost()).wall_ns;
    assert_near(wall(1), 4000.0);
    // The second one takes a task or two of the first one's, with a line from their shared cache.
    let line = machine.caches.iter().find(|costs| costs.level == 3).unwrap().latency_ns;
    assert!((2000.0..=2000.0 + 2.0 * line).contains(&wall(2)), "{}", wall(2));
    // Both threads of a core do 1.25 as much as one does: each task takes 1.6 times as long.
    let four = wall(4);
    assert!((1600.0 - 1e-3..=2000.0).contains(&four), "{four}: the first ones begin before their neighbours do");
}

#[test]
fn a_full_pool_makes_the_submitter_work() {
    let machine = machine("node:1 core:1");
    // One thread: 256 tasks fit; further ones run at once.
    let outcome = run(&machine, "central", 1, &compute(300, 10.0), &free_of_cost());
    assert_eq!(outcome.counts.refused, 300 - 256);
    assert_eq!(outcome.counts.tasks, 300);
    let spacious = run(&machine, "central:capacity=300", 1, &compute(300, 10.0), &free_of_cost());
    assert_eq!(spacious.counts.refused, 0);
    assert_near(outcome.wall_ns, 3000.0);
}

#[test]
fn spawning_and_taking_cost_what_the_parameters_say() {
    let machine = machine("node:1 core:1");
    let parameters = Parameters { spawn_cycles: 300.0, own_cycles: 30.0, ..free() };
    let options = SimOptions { parameters, ..SimOptions::default() };
    // At 3 GHz: 100 ns to make a task, 10 to push it and 10 to take it, 1000 of work.
    let outcome = run(&machine, "steal", 1, &compute(5, 1000.0), &options);
    assert_near(outcome.wall_ns, 5.0 * 1120.0);
    assert_near(outcome.counts.overhead_ns, 5.0 * 120.0);
    assert_near(outcome.counts.busy_ns, 5000.0);
}

#[test]
fn dealing_costs_time_for_each_access_and_for_its_further_rows() {
    let machine = machine("node:2 core:1");
    let program = Recorder::record_with("rows", 1, |world| {
        let array = world.array::<u64>(MB / 8, &Distribution::Fine);
        let start = array.reads(0..1).start;
        world.push(Step::Start);
        // They lie evenly over the two nodes, so they are not dealt; all rows are looked up for this.
        let touches = [Access::new(start, 64, Mode::Read).rows(11, 4096), Access::new(start, 64, Mode::Write)];
        let task = (Task::new(touches), || world.work(Leaf { name: "none", flops: 0 }, &[], || ()));
        world.tasks(TaskOrder::Free, std::iter::once(task));
        world.push(Step::End);
    });
    let parameters = Parameters { deal_cycles: 300.0, stretch_cycles: 30.0, ..free() };
    let outcome =
        run(&machine, "footprint:share_bytes=1", 1, &program, &SimOptions { parameters, ..SimOptions::default() });
    // At 3 GHz: 100 ns for each access, and 10 for each of ten further rows.
    assert_near(outcome.wall_ns, 2.0 * 100.0 + 10.0 * 10.0);
}

#[test]
fn equal_tasks_take_as_long_as_the_seed_says() {
    let machine = machine("node:1 core:2");
    let lengths = |jitter: f64, seed: u64| -> Vec<f64> {
        let options = SimOptions { parameters: Parameters { jitter, ..free() }, seed, ..SimOptions::default() };
        let outcome = run(&machine, "steal", 2, &compute(400, 1000.0), &options);
        outcome.tasks[1..].iter().map(|task| task.end_ns - task.start_ns).collect()
    };
    assert!(lengths(0.0, 1).iter().all(|&length| length == 1000.0));
    let of_seed = lengths(0.05, 1);
    assert_eq!(of_seed, lengths(0.05, 1));
    assert_ne!(of_seed, lengths(0.05, 2));
    let mean = of_seed.iter().sum::<f64>() / 400.0;
    let deviation = (of_seed.iter().map(|length| (length - mean).powi(2)).sum::<f64>() / 400.0).sqrt();
    // The mean of 400 deviates by 50 / 20, and their deviation by 50 / 28.
    assert!((mean - 1000.0).abs() < 10.0 && (deviation - 50.0).abs() < 8.0, "{mean} {deviation}");
}

#[test]
fn a_locked_queue_serves_one_at_a_time() {
    // Eight seats take 64 tasks without work from one pool: a take of 300 cycles holds its lock for 100 ns.
    let machine = machine("node:1 core:8");
    let parameters = Parameters { take_cycles: 300.0, ..free() };
    let outcome = run(&machine, "central", 8, &compute(64, 0.0), &SimOptions { parameters, ..SimOptions::default() });
    // Each task takes the lock twice: when it is pushed and when it is taken. Mostly another seat has had it last, and
    // its line comes from there.
    let each = 100.0 + machine.memory.latency_ns;
    assert!((128.0 * each - 500.0..128.0 * each + 500.0).contains(&outcome.wall_ns), "{}", outcome.wall_ns);
}

#[test]
fn a_slow_core_takes_longer_from_then_on() {
    let machine = machine("node:1 core:1");
    // Three times 1000 ns; from 1500 on at half the speed: 1500 + 2 * 1500.
    let faults = vec![Fault::Slow { seat: 0, factor: 2.0, from_ns: 1500.0 }];
    let outcome = run(&machine, "steal", 1, &compute(3, 1000.0), &SimOptions { faults, ..free_of_cost() });
    assert_near(outcome.wall_ns, 4500.0);
    // A slow reader gets half the bytes in a second.
    let faults = vec![Fault::Slow { seat: 0, factor: 2.0, from_ns: 0.0 }];
    let outcome = run(&machine, "steal", 1, &all_read(1, 60 * MB, "fine"), &SimOptions { faults, ..free_of_cost() });
    assert_near(outcome.wall_ns, 60.0 * MB as f64 / 6.0);
}

#[test]
fn a_wake_takes_its_time_and_a_late_one_longer() {
    let machine = machine("node:1 core:2");
    // Both seats look around for 10 µs; the first one works for 50 µs, and then pushes a task to the sleeper.
    let mut program = compute(1, 1000.0);
    program.tasks[1].pinned = Some(1);
    program.tasks[0].steps.insert(0, Step::Work(Work { leaf: 0, cost: Cost::Nanos(50_000.0), accesses: Vec::new() }));
    let wall = |faults| {
        let parameters = Parameters { wake_ns: 4000.0, ..free() };
        run(&machine, "las", 2, &program, &SimOptions { parameters, faults, ..SimOptions::default() }).wall_ns
    };
    assert_near(wall(vec![]), 5000.0);
    let late = |from_ns| Fault::LateWake { seat: 1, from_ns, by_ns: 7000.0 };
    // The first seat looks around for 10 µs while it waits, and has to be woken as well after 12.
    assert_near(wall(vec![late(40_000.0)]), 16_000.0);
    assert_near(wall(vec![late(60_000.0)]), 5000.0);
}

#[test]
fn an_inner_wait_is_not_for_outer_tasks() {
    // join(join(10, 10), 1000) on two cores: the first branch is over after 10 ns or 20, and does 500 more after that.
    let program = Recorder::record_with("joins", 2, |world| {
        let work = |ns: usize| world.work(Leaf { name: "work", flops: ns as u64 * 12 }, &[], || ());
        world.push(Step::Start);
        let inner = || {
            world.join(|| work(10), || work(10));
            work(500);
        };
        world.join(inner, || work(1000));
        world.push(Step::End);
    });
    let machine = machine("node:1 core:2");
    let outcome = run(&machine, "steal", 2, &program, &free_of_cost());
    // The long one is stolen, at the cost of a line.
    let line = machine.memory.latency_ns;
    assert!((1000.0 + line..1020.0 + line).contains(&outcome.wall_ns), "{}", outcome.wall_ns);
}

#[test]
fn tasks_in_order_wait_for_their_data() {
    let program = Recorder::record_with("chain", 4, |world| {
        let array = world.array::<u64>(8, &Distribution::Standard);
        world.push(Step::Start);
        // A chain of three, and one beside it.
        let tasks = [0, 0, 0, 4].map(|at| {
            let work = move || world.work(Leaf { name: "step", flops: 12_000 }, &[], || ());
            (Task::new([array.changes(at..at + 1)]), work)
        });
        world.tasks(TaskOrder::ByData, tasks.into_iter());
        world.push(Step::End);
    });
    let machine = machine("node:1 core:4");
    let outcome = run(&machine, "steal", 4, &program, &free_of_cost());
    // Their spawner's seat waits, and others take: the first one by a line.
    assert_near(outcome.wall_ns, 3000.0 + machine.memory.latency_ns);
}

#[test]
fn a_tasks_data_decides_where_it_runs() {
    // Vectors round four nodes: footprint deals each task to its vector's node.
    let machine = machine("node:4 l3:1 core:2");
    let map = vicus_kernels::Map { vectors: 64, bytes: 16 * MB, distribution: Distribution::Coarse, published: false };
    let program = Recorder::record(&map, 8);
    let far = |strategy: &str| run(&machine, strategy, 8, &program, &free_of_cost()).far_share();
    // Far are only 16 MB written by the first core in the beginning and written back meanwhile by its cache, beside 64
    // times 16 MB of reads, all written back except the last ones.
    for strategy in ["footprint", "vicinity:reach=1"] {
        assert!(far(strategy) < 16.0 / 1984.0, "{strategy}: {}", far(strategy));
    }
    // A seat without near tasks takes far ones: at the beginning, with few tasks yet, and at the end.
    assert!(far("locality-queues") < 0.25, "{}", far("locality-queues"));
    // Each seat takes the next task, and a quarter of them are near.
    assert!((far("central") - 0.75).abs() < 0.15, "{}", far("central"));
}

#[test]
fn a_program_that_can_not_run_is_an_error_that_says_why() {
    let machine = machine("node:1 core:2");
    let two = plan(&machine, "steal", 2);
    let fail = |plan: &Plan, program: &Program| simulate(&machine, plan, program, &free_of_cost()).unwrap_err();

    let mut program = compute(2, 1.0);
    program.tasks[1].after = vec![2];
    program.tasks[2].after = vec![1];
    assert!(fail(&two, &program).to_string().contains("task 1 waits for task 2"));

    // A plan that strands tasks: no seat takes from seat 0's deque.
    let mut stranding = two.clone();
    stranding.seats.iter_mut().for_each(|seat| seat.look.clear());
    assert_eq!(fail(&stranding, &compute(3, 1.0)), SimError::Stuck { left: 4, task: 0 });
    // Seats without a wake look for ever, and in vain.
    let mut polling = plan(&machine, "footprint:wake=off", 2);
    polling.seats.iter_mut().for_each(|seat| seat.look.clear());
    assert_eq!(fail(&polling, &compute(3, 1.0)), SimError::Stuck { left: 4, task: 0 });

    let mut program = compute(2, 1.0);
    program.arrays = vec![ArraySpec { base: 0, bytes: 64, distribution: Distribution::On(LocationId::new(9)) }];
    assert!(matches!(fail(&two, &program), SimError::Distribution(_)));

    // Task 1 comes first in the program's order, but it is slow to begin: task 2 has freed the array by then.
    let mut program = compute(2, 1000.0);
    program.arrays = vec![ArraySpec { base: 0, bytes: 64, distribution: Distribution::Fine }];
    let read = Work { leaf: 0, cost: Cost::Nanos(0.0), accesses: vec![Access::new(0, 64, Mode::Read)] };
    program.tasks[1].steps.push(Step::Work(read));
    program.tasks[2].steps = vec![Step::Free(0)];
    assert_eq!(program.check(), Ok(()));
    let message = fail(&two, &program).to_string();
    assert_eq!(message, "task 1 touches Read 0x0+64 of array 0, which was freed meanwhile");

    let cancelled = simulate_watched(&machine, &two, &compute(10_000, 1.0), &free_of_cost(), &mut |_| false);
    assert_eq!(cancelled, Err(SimError::Cancelled));
}

#[test]
fn few_tasks_of_many_steps_are_watched_and_can_be_cancelled() {
    // What happened: `watch` was only called after a number of tasks, and this program has hardly as many.
    let machine = machine("node:1 core:2");
    let two = plan(&machine, "steal", 2);
    let mut program = compute(2, 1.0);
    let step = program.tasks[1].steps[0].clone();
    program.tasks[1].steps = vec![step; 10_000];
    let mut seen = Vec::new();
    let mut watch = |over| {
        seen.push(over);
        seen.len() < 10
    };
    let cancelled = simulate_watched(&machine, &two, &program, &free_of_cost(), &mut watch);
    assert_eq!(cancelled, Err(SimError::Cancelled));
    assert_eq!(seen.len(), 10);
    assert!(seen.is_sorted() && seen.iter().all(|&over| over < 4), "{seen:?}");
}

#[test]
fn a_task_for_seats_that_are_never_woken_begins_when_a_pause_ends() {
    // After 7 ms of work, the other seat is in pauses of 1024 µs, since 1, 2, 4 … 512 µs have passed; a wake would be
    // at once.
    let machine = machine("node:1 core:2");
    let mut program = compute(2, 2e6);
    let work = Step::Work(Work { leaf: 0, cost: Cost::Nanos(7e6), accesses: Vec::new() });
    program.tasks[0].steps.insert(0, work);
    let begins = |strategy: &str| {
        let outcome = run(&machine, strategy, 2, &program, &free_of_cost());
        let mut begins: Vec<f64> = outcome.tasks[1..].iter().map(|task| task.start_ns).collect();
        begins.sort_by(f64::total_cmp);
        begins
    };
    // The queue is a node's, and its line goes to and fro between both seats.
    let line = machine.memory.latency_ns;
    assert_eq!(begins("footprint:backoff_max_ns=1024000"), [7e6 + line, 7e6 + 2.0 * line]);
    // 1 + 2 + … + 512 µs, and six times 1024.
    let after_pause = (1023.0 + 6.0 * 1024.0) * 1e3 + line;
    assert_eq!(begins("footprint:wake=off,backoff_max_ns=1024000"), [7e6, after_pause]);
}

#[test]
fn what_takes_longer_than_time_is_counted_says_so() {
    // What happened: time overflowed, and the result was nonsense.
    let machine = machine("node:1 core:2");
    let two = plan(&machine, "steal", 2);
    let fail = |program: &Program, options: &SimOptions| simulate(&machine, &two, program, options).unwrap_err();
    assert_eq!(fail(&compute(2, 1e30), &free_of_cost()), SimError::TooLong);
    // Each of a thousand tasks takes two days of a core.
    assert_eq!(fail(&compute(1000, 2.0 * 86_400e9), &free_of_cost()), SimError::TooLong);
    for name in ["wake_ns", "spawn_cycles", "own_cycles"] {
        let parameters = free().with(name, 1e300).unwrap();
        assert_eq!(
            fail(&compute(2, 1.0), &SimOptions { parameters, ..SimOptions::default() }),
            SimError::TooLong,
            "{name}"
        );
    }
    for factor in [1e30, f64::INFINITY] {
        let faults = vec![Fault::Slow { seat: 0, factor, from_ns: 0.0 }];
        assert_eq!(fail(&compute(2, 1.0), &SimOptions { faults, ..free_of_cost() }), SimError::TooLong);
    }
}

#[test]
fn requests_and_immediate_tasks_go_where_the_plan_says() {
    // Two requests of one deferred task each, and an immediate task, on one LAS seat: rule 1 takes the immediate task
    // first, rule 3 the oldest request's.
    let mut program = compute(3, 10.0);
    program.tasks[1].request = RequestId::new(2);
    program.tasks[2].request = RequestId::new(1);
    program.tasks[3].kind = Kind::Immediate;
    program.tasks[0].steps = vec![Step::Spawn(1..4)];
    let outcome = run(&machine("node:1 core:1"), "las", 1, &program, &free_of_cost());
    let mut order: Vec<usize> = vec![1, 2, 3];
    order.sort_by(|&a, &b| outcome.tasks[a].start_ns.total_cmp(&outcome.tasks[b].start_ns));
    assert_eq!(order, [3, 2, 1]);
    assert_eq!(outcome.counts.takes.into_iter().collect::<Vec<_>>(), [(1, 1), (3, 2)]);
}

#[test]
fn vicinity_deals_only_what_lies_in_one_home_cache() {
    // Algorithm 3: a vector of 16 kB is larger than L1, and goes to its home tile if the distribution is coarse.
    let tile = Machine::by_name("tilepro64").unwrap();
    let seats = |distribution: &str| {
        let distribution = distribution.parse().unwrap();
        let map = vicus_kernels::Map { vectors: 63, bytes: 16 << 10, distribution, published: false };
        let outcome = run(&tile, "vicinity:reach=1,undealt=beside", 63, &Recorder::record(&map, 63), &free_of_cost());
        let mut seats: Vec<u32> = outcome.tasks[1..].iter().map(|task| task.seat).collect();
        seats.dedup();
        (seats.len(), outcome.far_share())
    };
    // The first vector's home is the first tile, and so on.
    assert_eq!(seats("coarse"), (63, 0.0));
    // The spawner's tile keeps them all; of 256 lines over 63 homes, five are the first tile's own.
    let (seats, far) = seats("fine");
    assert_eq!(seats, 1);
    assert_near(far, 251.0 / 256.0);
}

#[test]
fn written_bytes_are_counted_at_their_home_cache() {
    // What happened: bytes written on a machine with home caches were neither near nor far.
    let tile = Machine::by_name("tilepro64").unwrap();
    let program = Recorder::record_with("write", 2, |world| {
        let array = world.array::<u64>(512, &Distribution::On(LocationId::new(1)));
        world.push(Step::Start);
        world.each(2, Schedule::Static, |_| {
            world.work(Leaf { name: "write", flops: 0 }, &[array.writes(0..512)], || ());
        });
        world.push(Step::End);
    });
    // 4096 bytes, with a word of four bytes in each of 700 million cycles: tile 1 writes them into its own cache, tile
    // 0 into another's.
    let outcome = run(&tile, "central", 2, &program, &free_of_cost());
    assert_eq!((outcome.counts.near_bytes, outcome.counts.far_bytes), (4096.0, 4096.0));
}

#[test]
fn a_home_cache_serves_a_word_in_a_cycle() {
    let tile = Machine::by_name("tilepro64").unwrap();
    let read = |threads: usize| {
        let program = Recorder::record_with("read", threads, |world| {
            let array = world.array::<u64>(512, &Distribution::On(LocationId::new(0)));
            let read = || world.work(Leaf { name: "read", flops: 0 }, &[array.reads(0..512)], || ());
            // Memory delivers it first.
            world.each(1, Schedule::Static, |_| read());
            world.push(Step::Start);
            world.each(threads, Schedule::Static, |thread| {
                if thread > 0 {
                    read()
                }
            });
            world.push(Step::End);
        });
        run(&tile, "central", threads, &program, &free_of_cost()).wall_ns
    };
    // Tile 1 alone waits 256 times for 16 bytes, 45.72 ns each; the bank takes 16 / 2.8 ns for each, a load of one
    // eighth, and the next one then waits for another fourteenth of that.
    let (way, serves) = (45.72, 16.0 / 2.8);
    let load = serves / (way + serves / 14.0);
    let waits = load / (2.0 * (1.0 - load)) * serves;
    let found = read(2) / 256.0;
    assert!(found > way && found < way + 1.2 * waits, "{found}");
    // 62 tiles get 4096 bytes each from tile 0, at four in a cycle of 0.7 GHz. Near ones have theirs a little sooner,
    // and the last ones don't ask for its whole rate.
    let (found, least) = (read(63), 62.0 * 4096.0 / 2.8);
    assert!(found >= 0.9999 * least && found < 1.005 * least, "{found} and not {least}");
}

#[test]
fn a_waiting_task_robs_only_long_queues_and_takes_the_oldest() {
    // What happened: a seat with a waiting task took the youngest task of its request, from a queue of any length. Node
    // 1's seat has `waiting` tasks of node 0's seat beside it. It may rob each of the two queues there when the queue
    // is longer than its distance, 1, times its cores, 1.
    let machine = machine("node:2 l3:1 core:1");
    // Their pauses are over before there is anything to do: nothing ends a short one.
    let two = plan(&machine, "footprint:undealt=beside,backoff_ns=1,backoff_max_ns=1", 2);
    let order = |waiting: u32| {
        let work = |ns| Step::Work(Work { leaf: 0, cost: Cost::Nanos(ns), accesses: Vec::new() });
        let task = |steps: Vec<Step>, pinned| TaskSpec { steps, pinned, ..TaskSpec::default() };
        let root = task(vec![Step::Spawn(1..3), Step::Wait], Some(0));
        // On seat 0: spawns and works on. On seat 1: waits for a task reserved for seat 0.
        let busy = task(vec![Step::Spawn(4..4 + waiting), work(1000.0)], Some(0));
        let waits = task(vec![work(100.0), Step::Open, Step::Spawn(3..4), Step::Wait], Some(1));
        let later = task(vec![work(10.0)], Some(0));
        let mut tasks = vec![root, busy, waits, later];
        tasks.extend((0..waiting).map(|_| task(vec![work(10.0)], None)));
        let program = Program { name: "wait".to_owned(), leaves: vec!["leaf".to_owned()], tasks, ..Program::default() };
        let outcome = simulate(&machine, &two, &program, &free_of_cost()).unwrap();
        let robbed = (4..4 + waiting as usize).filter(|&task| outcome.tasks[task].seat == 1).collect::<Vec<_>>();
        assert!(robbed.is_sorted_by_key(|&task| outcome.tasks[task].start_ns as u64), "{robbed:?}");
        robbed
    };
    assert_eq!(order(1), [0; 0], "one task is not more than one");
    assert_eq!(order(4), [4, 5, 6], "the oldest first, as long as more than one is left");
}

#[test]
fn a_kernels_own_task_waits_as_others_do() {
    // What happened: while the first task waited, its seat was free, and robbed several tasks at once. On threads, a
    // waiting task takes its permitted tasks one by one.
    let machine = machine("node:1 core:2");
    let two = plan(&machine, "bobox:several=2,stolen=immediate", 2);
    let work = |ns| Step::Work(Work { leaf: 0, cost: Cost::Nanos(ns), accesses: Vec::new() });
    let task = |steps: Vec<Step>, pinned| TaskSpec { steps, pinned, ..TaskSpec::default() };
    let takes = |request: u64| {
        // Seat 1 has spawned two tasks, and still works when seat 0 begins to wait.
        let root = task(vec![Step::Spawn(1..2), work(50.0), Step::Wait], Some(0));
        let busy = task(vec![Step::Spawn(2..4), work(1000.0)], Some(1));
        let mut tasks = vec![root, busy, task(vec![work(10.0)], None), task(vec![work(10.0)], None)];
        tasks[1..].iter_mut().for_each(|task| task.request = RequestId::new(request));
        let program = Program { name: "wait".to_owned(), leaves: vec!["leaf".to_owned()], tasks, ..Program::default() };
        simulate(&machine, &two, &program, &free_of_cost()).unwrap().counts.takes.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(takes(0), [(3, 2)]);
    assert_eq!(takes(1), [(1, 1), (3, 1)], "a caller from outside has left its seat to others");
}

/// One thread reads a megabyte, and the other one, which waits for it, nothing. A wake takes 50 µs. By a team's plan
/// the waiting thread does not sleep.
#[test]
fn a_waiting_member_of_a_simulated_team_looks_around_instead_of_sleeping() {
    let machine = machine("node:1 core:2");
    let program = Recorder::record_with("uneven", 2, |world| {
        let array = world.array::<u64>(MB / 8, &"fine".parse().unwrap());
        world.each(2, Schedule::Static, |thread| {
            let part = if thread == 0 { 0..1 } else { 0..MB / 8 };
            world.work(Leaf { name: "read", flops: 0 }, &[array.reads(part)], || ());
        });
    });
    let options =
        SimOptions { parameters: Parameters { wake_ns: 50_000.0, ..free() }, decisions: true, ..SimOptions::default() };
    let plan = plan(&machine, "las:spin_ns=0", 2);
    let run = |plan: &Plan| {
        let outcome = simulate(&machine, plan, &program, &options).unwrap();
        let sleeps = outcome.decisions.iter().flatten().filter(|decision| matches!(decision, Decision::Sleeps)).count();
        (outcome.wall_ns, sleeps)
    };
    let (slept_ns, sleeps) = run(&plan);
    let (looked_ns, fewer) = run(&plan.clone().for_team(1_000_000));
    assert_eq!(sleeps - fewer, 1);
    // It looks again at most 10 µs after the other one has ended, and may give way then.
    assert!((39_700.0..=50_000.0).contains(&(slept_ns - looked_ns)), "{slept_ns} and {looked_ns} ns");
}
