//! How long each kernel takes on one thread without tasks, and how many operations a nanosecond its leaves make.
//!
//! `cargo run --release -p vicus-kernels --example serial -- 0.1 matmul sparselu`: the size, and which kernels (all, if none
//! is named). Measured on an idle machine, or not at all.
#![allow(
    clippy::disallowed_methods,
    reason = "an example is its own world: it may look at the clock and at its arguments"
)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;
use vicus_kernels::{Array, Element, Kernel, Leaf, NAMES, Order, Schedule, Serial, Size, Task, World, by_name};
use vicus_memory::distribution::Distribution;
use vicus_schedule::Access;

/// Like [`Serial`], with a clock.
#[derive(Default)]
struct Timed {
    serial: Serial,
    /// By name: how many leaves, operations, bytes and nanoseconds.
    leaves: Mutex<BTreeMap<&'static str, [u64; 4]>>,
}

impl World for Timed {
    fn threads(&self) -> usize {
        1
    }

    fn array<T: Element>(&self, len: usize, distribution: &Distribution) -> Array<'_, T> {
        self.serial.array(len, distribution)
    }

    fn work(&self, leaf: Leaf, accesses: &[Access], f: impl FnOnce()) {
        let start = Instant::now();
        f();
        let ns = start.elapsed().as_nanos() as u64;
        let bytes: usize = accesses.iter().map(Access::total_bytes).sum();
        let mut leaves = self.leaves.lock().expect("nothing panics under this lock");
        let sums = leaves.entry(leaf.name).or_default();
        sums.iter_mut().zip([1, leaf.flops, bytes as u64, ns]).for_each(|(sum, more)| *sum += more);
    }

    fn join<A: Send, B: Send>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        self.serial.join(a, b)
    }

    fn tasks<F: FnOnce() + Send>(&self, order: Order, tasks: impl Iterator<Item = (Task, F)>) {
        self.serial.tasks(order, tasks);
    }

    fn each(&self, iterations: usize, schedule: Schedule, body: impl Fn(usize) + Sync) {
        self.serial.each(iterations, schedule, body);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let times = arguments.next().map_or(0.01, |size| size.parse().expect("a size is a number"));
    let named: Vec<String> = arguments.collect();
    for name in NAMES.iter().filter(|name| named.is_empty() || named.iter().any(|named| named == *name)) {
        let kernel = by_name(name, Size::Times(times)).unwrap_or_else(|error| panic!("{error}"));
        let world = Timed::default();
        let clock = Cell::new(Instant::now());
        let mut seconds = 0.0;
        let start = || clock.set(Instant::now());
        let result = kernel.run(&world, start, || seconds = clock.get().elapsed().as_secs_f64());
        println!("{name}: {seconds:.4} s, result {result}");
        for (leaf, [count, flops, bytes, ns]) in world.leaves.into_inner().expect("nothing panicked") {
            let per_ns = |number: u64| number as f64 / ns as f64;
            println!("  {leaf}: {count} times, {:.2} operations and {:.2} bytes a ns", per_ns(flops), per_ns(bytes));
        }
    }
}
