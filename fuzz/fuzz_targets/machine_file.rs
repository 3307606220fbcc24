//! Any text as a machine's file: a machine on which a program runs to its end or takes too long, or an error that names
//! the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vicus_kernels::{KernelWorld, Leaf, Schedule, Task, TaskOrder};
use vicus_sim::{Machine, Recorder, SimError, SimOptions, Step, simulate};

/// Two threads read an array that both have, and two tasks are dealt.
fn run(machine: &Machine) {
    let threads = machine.topology.usable_pus().count().min(2);
    let program = Recorder::record_with("two", threads, |world| {
        let array = world.array::<u64>(1 << 15, &"fine".parse().expect("a distribution"));
        let part = |at: usize| at << 14..(at + 1) << 14;
        world.push(Step::Start);
        world.each(2, Schedule::Static, |at| {
            world.work(Leaf { name: "write", flops: 1000 }, &[array.writes(part(at))], || ());
        });
        let reads = |at: usize| Task::new([array.reads(part(at))]);
        let work = |at: usize| world.work(Leaf { name: "read", flops: 1000 }, &[array.reads(part(at))], || ());
        world.tasks(TaskOrder::Free, (0..2).map(|at| (reads(at), move || work(at))));
        world.push(Step::End);
    });
    for strategy in ["las", "footprint", "vicinity"] {
        let plan = machine.plan(&strategy.parse().expect("a strategy"), threads);
        let options = SimOptions { parameters: machine.parameters, ..SimOptions::default() };
        match simulate(machine, &plan, &program, &options) {
            Ok(outcome) => assert!(outcome.wall_ns > 0.0 && outcome.wall_ns.is_finite(), "{outcome}"),
            Err(error) => assert!(matches!(error, SimError::TooLong | SimError::Distribution(_)), "{error}"),
        }
    }
}

fuzz_target!(|text: &str| match Machine::parse("fuzz.toml", text) {
    Ok(machine) => {
        machine.topology.assert_valid();
        run(&machine);
    }
    Err(error) => assert!(error.to_string().starts_with("fuzz.toml: ")),
});
