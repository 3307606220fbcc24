//! How fast each kind of leaf computes: the kernels with inputs that a core's caches hold, on one thread without tasks.

use super::{Effort, median};
use crate::bench::kernels::once;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;
use vicus_kernels::{
    AnyKernel, Array, Element, Fib, Jacobi2d, Jacobi3d, Kernel, Leaf, Map, Matmul, Nqueens, Order, Reduction, Schedule,
    Serial, SparseLu, Task, Uts, Vecmul, World,
};
use vicus_memory::distribution::Distribution;
use vicus_schedule::Access;
use vicus_sim::Machine;

/// The kernels, as small as leaves keep their speed; those that stream, so small that the first cache has all of it.
fn small() -> Vec<AnyKernel> {
    vec![
        Map { vectors: 8, bytes: 16 << 10, ..Map::default() }.into(),
        Vecmul { pairs: 8, bytes: 8 << 10, ..Vecmul::default() }.into(),
        Reduction { bytes: 8 << 10, depth: 1, ..Reduction::default() }.into(),
        Matmul { blocks: 2, ..Matmul::default() }.into(),
        Jacobi2d { size: 257, block: 256, ..Jacobi2d::default() }.into(),
        Jacobi3d { sites: [6, 6, 600], block: [1, 1], ..Jacobi3d::default() }.into(),
        SparseLu { blocks: 4, ..SparseLu::default() }.into(),
        Fib { n: 25, ..Fib::default() }.into(),
        Nqueens { n: 10 }.into(),
        Uts { tree: vicus_kernels::Tree::Geometric { mean: 4.0, depth: 7 }, ..Uts::default() }.into(),
    ]
}

/// By leaf, operations in a nanosecond while its data is near.
pub(super) fn measure(effort: Effort, machine: &Machine) -> anyhow::Result<BTreeMap<&'static str, f64>> {
    let runtime = super::tasks::runtime("las", 1);
    let mut leaves = BTreeMap::new();
    for kernel in small() {
        let world = Warm::new(machine);
        let mut whole = Vec::new();
        for _ in 0..effort.samples {
            // What comes before and after counts in no measured part.
            kernel.run(&world, || world.counts(true), || world.counts(false));
            whole.push(once(&kernel, &runtime)?.0 * 1e9);
        }
        let joins = world.joins.into_inner() as f64 / effort.samples as f64;
        let join_ns = 2.0 * machine.parameters.own_cycles / machine.clock_ghz;
        for (leaf, Timed { flops, rates, has_data }) in world.leaves.into_inner().expect("nothing panicked") {
            // What happens between joins is the time of leaves that are nothing but counts.
            let counts = || flops as f64 / effort.samples as f64 / (median(&whole) - joins * join_ns).max(1.0);
            leaves.insert(leaf, if has_data { median(&rates) } else { counts() });
        }
    }
    // What is written past the caches can't be near. It is computed alike.
    leaves.extend(leaves.get("relax 3d").copied().map(|rate| ("relax 3d streaming", rate)));
    Ok(leaves)
}

/// What asking for the time takes.
fn clock_ns() -> f64 {
    let samples = (0..1000).map(|_| {
        let began = Instant::now();
        began.elapsed().as_nanos() as f64
    });
    median(&samples.collect::<Vec<_>>())
}

#[derive(Default)]
struct Timed {
    flops: u64,
    rates: Vec<f64>,
    has_data: bool,
}

/// Like [`Serial`], with a clock; all that a piece of work touches is in the caches when it begins.
struct Warm<'m> {
    serial: Serial,
    machine: &'m Machine,
    clock_ns: f64,
    /// Whether the kernel is in its measured part.
    counts: AtomicBool,
    joins: AtomicU64,
    arrays: AtomicUsize,
    leaves: Mutex<BTreeMap<&'static str, Timed>>,
}

impl Warm<'_> {
    fn new(machine: &Machine) -> Warm<'_> {
        Warm {
            serial: Serial::default(),
            machine,
            clock_ns: clock_ns(),
            counts: AtomicBool::new(false),
            joins: AtomicU64::new(0),
            arrays: AtomicUsize::new(0),
            leaves: Mutex::default(),
        }
    }

    fn counts(&self, whether: bool) {
        self.counts.store(whether, Ordering::Relaxed);
    }
}

impl World for Warm<'_> {
    fn threads(&self) -> usize {
        1
    }

    fn array<T: Element>(&self, len: usize, distribution: &Distribution) -> Array<'_, T> {
        // Arrays that begin alike within a page stand in each other's way where all is near, and nowhere else.
        const PAGE: usize = 4096;
        let lines = self.arrays.fetch_add(1, Ordering::Relaxed) * 29 % 61;
        let whole = self.serial.array::<T>(len + 2 * PAGE / size_of::<T>(), distribution);
        let start = whole.reads(0..0).start;
        let skipped = (start.next_multiple_of(PAGE) - start + 64 * lines) / size_of::<T>();
        whole.slice(skipped..skipped + len)
    }

    fn work(&self, leaf: Leaf, accesses: &[Access], f: impl FnOnce()) {
        if !self.counts.load(Ordering::Relaxed) {
            return f();
        }
        accesses.iter().for_each(touch);
        let began = Instant::now();
        f();
        let ns = began.elapsed().as_nanos() as f64 - self.clock_ns;
        let computing = self.machine.computing_ns(accesses, ns.max(1.0));
        let mut leaves = self.leaves.lock().expect("nothing panics under this lock");
        let timed = leaves.entry(leaf.name).or_default();
        timed.flops += leaf.flops;
        timed.rates.push(leaf.flops as f64 / computing);
        timed.has_data |= !accesses.is_empty();
    }

    fn join<A: Send, B: Send>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        self.joins.fetch_add(1, Ordering::Relaxed);
        self.serial.join(a, b)
    }

    fn tasks<F: FnOnce() + Send>(&self, order: Order, tasks: impl Iterator<Item = (Task, F)>) {
        self.serial.tasks(order, tasks);
    }

    fn each(&self, iterations: usize, schedule: Schedule, body: impl Fn(usize) + Sync) {
        self.serial.each(iterations, schedule, body);
    }
}

/// Brings what a piece of work is going to read and write into the caches.
fn touch(access: &Access) {
    for stretch in access.stretches() {
        for at in stretch.step_by(64) {
            let byte: *const u8 = std::ptr::with_exposed_provenance(at);
            #[expect(unsafe_code, reason = "what a task touches is known by address")]
            // SAFETY: the kernel's array, which lives and is initialised; nobody writes it, because there is one thread.
            black_box(unsafe { byte.read_volatile() });
        }
    }
}
