//! A runtime's record of tasks is a program for the simulator: with the order required by their data, however they ran.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use vicus::tasks::{Access, Mode, child, wait_for_children};
use vicus::{Runtime, STRATEGIES};
use vicus_sim::{Machine, Replay, ReplayOptions, SimOptions, Step, simulate};

/// The bytes of all tasks' data, a few pages.
const BYTES: usize = 3 * 4096;

/// For each task its accesses: the first address, the length, whether they write.
type Tasks = Vec<Vec<(usize, usize, bool)>>;

fn random(chance: &mut Pcg64) -> Tasks {
    let mut below = |end: u64| (chance.next_u64() % end) as usize;
    let count = 2 + below(30);
    let access = |below: &mut dyn FnMut(u64) -> usize| {
        let start = 512 * below(20);
        (start, 2 + below(1000), below(3) == 0)
    };
    (0..count).map(|_| (0..1 + below(3)).map(|_| access(&mut below)).collect()).collect()
}

/// By task, all its predecessors: earlier ones that write data it uses, or use data it writes, and the ones before
/// them.
fn before(tasks: usize, follows: impl Fn(usize, usize) -> bool) -> Vec<u64> {
    let mut before = vec![0u64; tasks];
    for task in 0..tasks {
        for earlier in (0..task).filter(|&earlier| follows(task, earlier)) {
            before[task] |= before[earlier] | 1 << earlier;
        }
    }
    before
}

fn conflict(a: &[(usize, usize, bool)], b: &[(usize, usize, bool)]) -> bool {
    a.iter().any(|a| b.iter().any(|b| (a.2 || b.2) && a.0 < b.0 + b.1 && b.0 < a.0 + a.1))
}

#[test]
fn recorded_tasks_are_ordered_by_their_data() {
    let machine = Machine::by_name("opteron-6172").expect("it comes with the simulator");
    for (seed, strategy) in (0..40u64).zip(STRATEGIES.iter().cycle()) {
        println!("seed {seed}, {}", strategy.name());
        let tasks = random(&mut Pcg64::seed_from_u64(seed));
        let data = vec![0u8; BYTES];
        let base = data.as_ptr().addr();
        let runtime = Runtime::builder()
            .threads(1 + seed as usize % 3)
            .strategy(strategy.name().parse().expect("it is one"))
            .record(10_000)
            .start();
        let said = tasks.clone();
        runtime.run(move || {
            for task in &said {
                let mode = |writes| if writes { Mode::ReadWrite } else { Mode::Read };
                let accesses: Vec<Access> =
                    task.iter().map(|&(start, bytes, writes)| Access::new(base + start, bytes, mode(writes))).collect();
                child().follows(&accesses).spawn(|| ());
            }
            wait_for_children();
        });
        let trace = runtime.trace().expect("it was asked to record");
        assert_eq!(trace.check(), []);
        let replay = Replay::of(&trace, &ReplayOptions::default()).unwrap();
        let program = &replay.program;
        program.check().unwrap();
        let root = program.tasks.iter().skip(1).find(|task| task.steps.contains(&Step::Wait)).expect("it waits");
        let spawned: Vec<u32> = root
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Spawn(range) => Some(range.start),
                _ => None,
            })
            .collect();
        assert_eq!(spawned.len(), tasks.len());
        let got = before(tasks.len(), |task, earlier| {
            program.tasks[spawned[task] as usize].after.contains(&spawned[earlier])
        });
        let expected = before(tasks.len(), |task, earlier| conflict(&tasks[earlier], &tasks[task]));
        assert_eq!(got, expected);
        for (&number, said) in spawned.iter().zip(&tasks) {
            let uses = &program.tasks[number as usize].accesses;
            assert!(uses.iter().map(|access| access.bytes).eq(said.iter().map(|access| access.1)), "{uses:?}");
        }
        let plan = machine.plan(&strategy.name().parse().expect("it is one"), 8);
        let outcome = simulate(&machine, &plan, program, &SimOptions::default()).unwrap();
        assert_eq!(outcome.counts.tasks as usize, program.tasks.len());
    }
}
