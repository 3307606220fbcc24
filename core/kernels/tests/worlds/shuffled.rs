//! A world that runs tasks in a random allowed order.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use std::collections::BTreeSet;
use std::sync::Mutex;
use vicus_kernels::{Array, Element, KernelWorld, Leaf, Schedule, Serial, Task, TaskOrder};
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Dependences};

/// Runs tasks on the calling thread, each time a random one without predecessors.
pub(crate) struct Shuffled {
    serial: Serial,
    chance: Mutex<Pcg64>,
    leaves: Mutex<BTreeSet<&'static str>>,
}

impl Shuffled {
    /// A world with this seed.
    pub(crate) fn new(seed: u64) -> Shuffled {
        Shuffled { serial: Serial::default(), chance: Mutex::new(Pcg64::seed_from_u64(seed)), leaves: Mutex::default() }
    }

    /// The names of all work done.
    pub(crate) fn leaves(self) -> BTreeSet<&'static str> {
        self.leaves.into_inner().unwrap()
    }

    fn below(&self, end: usize) -> usize {
        (self.chance.lock().unwrap().next_u64() % end as u64) as usize
    }
}

impl KernelWorld for Shuffled {
    fn threads(&self) -> usize {
        3
    }

    fn array<T: Element>(&self, len: usize, distribution: &Distribution) -> Array<'_, T> {
        self.serial.array(len, distribution)
    }

    fn work(&self, leaf: Leaf, accesses: &[Access], f: impl FnOnce()) {
        self.leaves.lock().unwrap().insert(leaf.name);
        self.serial.work(leaf, accesses, f);
    }

    fn join<A: Send, B: Send>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        if self.below(2) == 0 {
            return (a(), b());
        }
        let b = b();
        (a(), b)
    }

    fn tasks<F: FnOnce() + Send>(&self, order: TaskOrder, tasks: impl Iterator<Item = (Task, F)>) {
        let mut dependences = Dependences::new();
        let (mut waits, mut followers, mut bodies, mut ready) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (number, (task, f)) in tasks.enumerate() {
            let mut earlier = Vec::new();
            if order == TaskOrder::ByData {
                dependences.add(number, &task.accesses, &mut earlier);
            }
            waits.push(earlier.len());
            followers.push(Vec::new());
            bodies.push(Some(f));
            if earlier.is_empty() {
                ready.push(number);
            }
            earlier.into_iter().for_each(|earlier| followers[earlier].push(number));
        }
        while !ready.is_empty() {
            let number = ready.swap_remove(self.below(ready.len()));
            bodies[number].take().expect("each task is ready once")();
            for &follower in &followers[number] {
                waits[follower] -= 1;
                if waits[follower] == 0 {
                    ready.push(follower);
                }
            }
        }
        assert!(bodies.iter().all(Option::is_none), "all tasks ran");
    }

    fn each(&self, iterations: usize, _: Schedule, body: impl Fn(usize) + Sync) {
        let mut left: Vec<usize> = (0..iterations).collect();
        while !left.is_empty() {
            body(left.swap_remove(self.below(left.len())));
        }
    }
}
