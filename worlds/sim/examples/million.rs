//! A million tasks on 48 cores, half of them with waits for memory: the simulator's time for them is its own speed.
//!
//! `time cargo run --release -p vicus-sim --example million`

use vicus_kernels::{KernelWorld, Leaf, Task, TaskOrder};
use vicus_memory::distribution::Distribution;
use vicus_schedule::Setting;
use vicus_sim::{Machine, Recorder, SimOptions, Step, simulate};

/// Vectors of 16 KiB, each of them worked on again and again.
const VECTORS: usize = 4096;
const ROUNDS: usize = 122;

/// Calls of `join`: half of the tasks.
fn calls(world: &Recorder, depth: usize) {
    if depth > 0 {
        world.join(|| calls(world, depth - 1), || calls(world, depth - 1));
    } else {
        world.work(Leaf { name: "call", flops: 1000 }, &[], || ());
    }
}

fn main() {
    let machine = Machine::by_name("opteron-6172").expect("it comes with the crate");
    let program = Recorder::record_with("million", 48, |world| {
        let vectors: Vec<_> = (0..VECTORS).map(|_| world.array::<f64>(2048, &Distribution::Coarse)).collect();
        world.push(Step::Start);
        for _ in 0..ROUNDS {
            let tasks = vectors.iter().map(|vector| {
                let access = vector.changes(0..vector.len());
                let work = move || world.work(Leaf { name: "scale", flops: 2048 }, &[access], || ());
                (Task::new([access]), work)
            });
            world.tasks(TaskOrder::Free, tasks);
        }
        calls(world, 19);
        world.push(Step::End);
    });
    println!("{} tasks", program.tasks.len());
    let strategy: Setting = "footprint".parse().expect("a strategy of the crate");
    let outcome = simulate(&machine, &machine.plan(&strategy, 48), &program, &SimOptions::default());
    print!("{}", outcome.expect("the program can be run"));
}
