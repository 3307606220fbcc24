//! Each request has a share of many cores under every strategy: requests of a millisecond and of a hundred end beside
//! more long ones than there are seats. worlds/threads/tests/threads/shares.rs asks the same of real threads, on as
//! many as there are here.

use vicus_schedule::{ALL, Kind, RequestId};
use vicus_sim::{Cost, Machine, Program, SimOptions, Step, TaskSpec, Work, simulate};
use vicus_topology::Topology;

/// Nanoseconds.
const MILLISECOND: f64 = 1e6;

/// How a request's tasks follow each other.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Each spawns the next one, as a box queues its reader.
    Chain,
    /// The first one spawns all others.
    Wide,
}

/// Adds a request of `tasks` tasks of `task_ns` each. Returns its tasks.
fn add(program: &mut Program, request: u64, shape: Shape, tasks: u32, task_ns: f64) -> std::ops::Range<u32> {
    let first = program.tasks.len() as u32;
    let all = first..first + tasks;
    for task in all.clone() {
        let mut steps = vec![Step::Work(Work { leaf: 0, cost: Cost::Nanos(task_ns), accesses: Vec::new() })];
        match shape {
            Shape::Chain if task + 1 < all.end => steps.push(Step::Spawn(task + 1..task + 2)),
            Shape::Wide if task == first => steps.push(Step::Spawn(first + 1..all.end)),
            _ => {}
        }
        // A chain goes on at its seat; spreading tasks are deferred.
        let kind = if matches!(shape, Shape::Chain) { Kind::Immediate } else { Kind::Deferred };
        let request = RequestId::new(request);
        program.tasks.push(TaskSpec { kind, request, outside: task == first, steps, ..TaskSpec::default() });
    }
    all
}

#[test]
fn short_requests_end_beside_long_ones_on_many_cores() {
    for (cores, machine, long) in [
        (16, "node:4 core:4", Shape::Chain),
        (16, "node:4 core:4", Shape::Wide),
        (64, "node:8 core:8", Shape::Chain),
        (64, "node:8 core:8", Shape::Wide),
    ] {
        let machine = Machine::from_topology(Topology::parse(machine).unwrap());
        let mut program = Program { name: "shares".to_owned(), leaves: vec!["leaf".to_owned()], ..Program::default() };
        program.tasks.push(TaskSpec::default());
        // Two seconds of work for each seat, from the oldest requests.
        let count = cores as u64 + 1;
        for request in 1..=count {
            add(&mut program, request, long, 2000, MILLISECOND);
        }
        let short = add(&mut program, count + 1, Shape::Chain, 10, MILLISECOND / 10.0);
        let middle = add(&mut program, count + 2, Shape::Wide, 1000, MILLISECOND / 10.0);
        // The caller submits the first task of each, the long ones first.
        let firsts: Vec<u32> =
            (1..program.tasks.len() as u32).filter(|&task| program.tasks[task as usize].outside).collect();
        program.tasks[0].steps = firsts.iter().map(|&first| Step::Spawn(first..first + 1)).collect();
        program.check().unwrap();
        for strategy in ALL {
            let plan = machine.plan(&strategy.name().parse().unwrap(), cores);
            let outcome = simulate(&machine, &plan, &program, &SimOptions::default()).unwrap();
            let over = |tasks: &std::ops::Range<u32>| {
                let ends = outcome.tasks[tasks.start as usize..tasks.end as usize].iter().map(|task| task.end_ns);
                ends.fold(0.0, f64::max) / MILLISECOND
            };
            let (short, middle, all) = (over(&short), over(&middle), outcome.total_ns / MILLISECOND);
            let what = format!("{} on {cores}, {long:?}: {short:.0} and {middle:.0} of {all:.0} ms", strategy.name());
            assert!(short < 100.0 && middle < all / 2.0, "{what}");
        }
    }
}
