//! The speed of each kind of leaf on one thread without tasks: of the kernels with inputs that fit a core's caches. And
//! for leaves with little work for each byte, the speed of their bytes' arrival if none is in a cache: the distance of
//! their accesses counts there as well.

use super::{Effort, PAGE, quartiles};
use crate::bench::kernels::once;
use crate::threads::{self, Threads};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;
use vicus::Runtime;
use vicus_kernels::{
    Alignment, AnyKernel, Array, Element, Fft, Fib, Health, Jacobi2d, Jacobi3d, Kernel, Leaf, Map, Matmul, Nqueens,
    Order, Reduction, Schedule, Serial, Sort, SparseLu, Strassen, Task, Uts, Vecmul, World,
};
use vicus_memory::distribution::Distribution;
use vicus_schedule::Access;
use vicus_sim::Machine;
use vicus_testing::median;

/// The kernels with inputs as small as possible without changing their leaves' speed. The data of streaming kernels
/// fits the first cache; the other kernels' data lies in the last caches, as it does for their tasks.
fn small() -> Vec<AnyKernel> {
    vec![
        Map { vectors: 8, bytes: 16 << 10, ..Map::default() }.into(),
        Vecmul { pairs: 8, bytes: 8 << 10, ..Vecmul::default() }.into(),
        Reduction { bytes: 8 << 10, depth: 1, ..Reduction::default() }.into(),
        Map { vectors: 8, bytes: 16 << 10, published: true, ..Map::default() }.into(),
        Reduction { bytes: 8 << 10, depth: 1, published: true, ..Reduction::default() }.into(),
        Matmul { blocks: 6, ..Matmul::default() }.into(),
        Jacobi2d { size: 257, block: 256, ..Jacobi2d::default() }.into(),
        Jacobi3d { sites: [6, 6, 600], block: [1, 1], ..Jacobi3d::default() }.into(),
        SparseLu { blocks: 5, ..SparseLu::default() }.into(),
        Fib { n: 25, ..Fib::default() }.into(),
        // A branch predictor would learn a smaller board.
        Nqueens { n: 12 }.into(),
        Uts { tree: vicus_kernels::Tree::Geometric { mean: 4.0, depth: 7 }, ..Uts::default() }.into(),
        Alignment { proteins: 4, ..Alignment::default() }.into(),
        Fft { len: 1 << 17, ..Fft::default() }.into(),
        // A branch predictor would learn fewer persons, and fewer days with few ill persons. Other persons than the
        // default input's.
        Health { regions: 4, seed: 2, ..Health::default() }.into(),
        Sort { len: 1 << 17, ..Sort::default() }.into(),
        Strassen { levels: 1, ..Strassen::default() }.into(),
    ]
}

/// Whether the kernel does little with each byte, and goes on before it has come. (The branches of `health` wait for
/// each person's state.)
fn is_streaming(kernel: &AnyKernel) -> bool {
    !["matmul", "sparselu", "alignment", "fft", "health", "sort", "strassen"].contains(&kernel.name())
}

/// Kernels with enough bytes to make caches irrelevant, in tasks as large as in the papers' inputs. With each kernel:
/// the least distance of an access's rows in bytes, for pieces of work to be measured; 0 measures all.
fn large(bytes: usize) -> Vec<(AnyKernel, usize)> {
    // There are two arrays of this size.
    let (vectors, rows) = (bytes >> 20, ((bytes >> 2) as f64).sqrt() as usize);
    let layers = (bytes >> 3) / (600 * 600);
    let jacobi3d = Jacobi3d { sites: [layers.max(3), 600, 600], sweeps: 2, ..Jacobi3d::default() };
    // Of the passes over parts, those over all numbers; the parts of a part fit caches.
    const NUMBER: usize = 16;
    const PARTS: usize = 16;
    let numbers = (bytes / NUMBER).next_power_of_two();
    let fft = Fft { len: numbers, ..Fft::default() };
    vec![
        (Map { vectors: 2 * vectors, ..Map::default() }.into(), 0),
        (Vecmul { pairs: vectors, ..Vecmul::default() }.into(), 0),
        // Runs as long as the paper's.
        (Reduction { bytes, depth: (bytes >> 18).max(1).ilog2(), ..Reduction::default() }.into(), 0),
        (Jacobi2d { size: rows.next_multiple_of(512), sweeps: 2, ..Jacobi2d::default() }.into(), 0),
        (Jacobi3d { streaming: true, ..jacobi3d.clone() }.into(), 0),
        (jacobi3d.into(), 0),
        (fft.into(), numbers / PARTS * NUMBER),
    ]
}

/// The speeds of leaves, by name.
pub(super) struct Leaves {
    /// Operations per nanosecond while the data is in a cache.
    pub(super) per_ns: BTreeMap<&'static str, f64>,
    /// For streaming leaves, bytes per second while no data is in a cache: of the declared bytes, halos included.
    pub(super) bandwidth: BTreeMap<&'static str, f64>,
}

pub(super) fn measure(effort: Effort, machine: &Machine, at: &dyn Fn(&str)) -> anyhow::Result<Leaves> {
    Ok(Leaves { per_ns: near(effort, machine, at)?, bandwidth: far(effort, machine, at)? })
}

fn far(effort: Effort, machine: &Machine, at: &dyn Fn(&str)) -> anyhow::Result<BTreeMap<&'static str, f64>> {
    let runtime = super::tasks::runtime("las", 1);
    let caches = machine.topology.caches.iter().map(|cache| cache.bytes as usize);
    let bytes = (4 * caches.max().unwrap_or(0)).max(128 << 20).min(effort.most_bytes / 4);
    let mut leaves = BTreeMap::new();
    for (kernel, apart) in large(bytes) {
        at(&format!("{} with data from memory, 4 of 4", kernel.name()));
        let mut found: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
        // Each takes a large part of a second.
        for _ in 0..effort.samples.min(5) {
            let world = Streaming {
                threads: Threads::new(&runtime),
                clock_ns: clock_ns(),
                counts: AtomicBool::new(false),
                apart,
                leaves: Mutex::default(),
            };
            let counts = |whether| world.counts.store(whether, Ordering::Relaxed);
            threads::run(&runtime, &kernel, &world, || counts(true), || counts(false))?;
            for (leaf, moved) in world.leaves.into_inner().expect("nothing panicked") {
                found.entry(leaf).or_default().push(moved.bytes / moved.ns * 1e9);
            }
        }
        leaves.extend(found.into_iter().map(|(leaf, rates)| (leaf, quartiles(&rates).1)));
    }
    Ok(leaves)
}

fn near(effort: Effort, machine: &Machine, at: &dyn Fn(&str)) -> anyhow::Result<BTreeMap<&'static str, f64>> {
    let runtime = super::tasks::runtime("las", 1);
    let mut leaves = BTreeMap::new();
    for kernel in small() {
        at(&format!("{} with data in the caches, 3 of 4", kernel.name()));
        let mut rates: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
        for _ in 0..effort.samples {
            let world = Warm::new(machine, is_streaming(&kernel));
            // Only the measured part counts.
            kernel.run(&world, || world.set_counting(true), || world.set_counting(false));
            let joins = world.joins.into_inner() as f64;
            for (leaf, timed) in world.leaves.into_inner().expect("nothing panicked") {
                let ns = match timed.has_data {
                    true => timed.ns,
                    false => without_joins(effort, &kernel, &runtime, joins, machine)?,
                };
                rates.entry(leaf).or_default().push(timed.flops as f64 / ns);
            }
        }
        leaves.extend(rates.into_iter().map(|(leaf, rates)| (leaf, quartiles(&rates).1)));
    }
    // Streamed stores go past the caches, but the computation is the same.
    leaves.extend(leaves.get("relax 3d").copied().map(|rate| ("relax 3d streaming", rate)));
    Ok(leaves)
}

/// The leaves of these kernels only count operations; their time is the time between joins. It is zero, and the speed
/// is not finite, if the joins were measured to take all of it: other load was measured with them.
fn without_joins(
    effort: Effort,
    kernel: &AnyKernel,
    runtime: &Runtime,
    joins: f64,
    machine: &Machine,
) -> anyhow::Result<f64> {
    // Repeated until the core has reached its full clock.
    let (began, mut whole) = (Instant::now(), Vec::new());
    while whole.is_empty() || began.elapsed() < 2 * effort.sample {
        whole.push(once(kernel, runtime)?.0 * 1e9);
    }
    let join_ns = 2.0 * machine.parameters.own_cycles / machine.clock_ghz;
    Ok((quartiles(&whole).0 - joins * join_ns).max(0.0))
}

/// The nanoseconds of reading the clock.
fn clock_ns() -> f64 {
    let samples = (0..1000).map(|_| {
        let began = Instant::now();
        began.elapsed().as_nanos() as f64
    });
    median(&samples.collect::<Vec<_>>())
}

/// The nanoseconds of `f`, without the clock's own.
fn clocked(clock_ns: f64, f: impl FnOnce()) -> f64 {
    let began = Instant::now();
    f();
    (began.elapsed().as_nanos() as f64 - clock_ns).max(1.0)
}

#[derive(Default)]
struct Timed {
    flops: u64,
    /// Nanoseconds of computing.
    ns: f64,
    has_data: bool,
}

/// Like [`Serial`], with a clock.
struct Warm<'m> {
    serial: Serial,
    machine: &'m Machine,
    clock_ns: f64,
    /// Whether to bring all data of a piece of work into the caches first.
    touches: bool,
    /// Whether the kernel is in its measured part.
    counts: AtomicBool,
    joins: AtomicU64,
    arrays: AtomicUsize,
    leaves: Mutex<BTreeMap<&'static str, Timed>>,
}

impl Warm<'_> {
    fn new(machine: &Machine, touches: bool) -> Warm<'_> {
        Warm {
            serial: Serial::default(),
            machine,
            clock_ns: clock_ns(),
            touches,
            counts: AtomicBool::new(false),
            joins: AtomicU64::new(0),
            arrays: AtomicUsize::new(0),
            leaves: Mutex::default(),
        }
    }

    fn set_counting(&self, whether: bool) {
        self.counts.store(whether, Ordering::Relaxed);
    }
}

impl World for Warm<'_> {
    fn threads(&self) -> usize {
        1
    }

    fn array<T: Element>(&self, len: usize, distribution: &Distribution) -> Array<'_, T> {
        // Arrays with the same offset within a page conflict in the first-level cache, but not elsewhere.
        let lines = self.arrays.fetch_add(1, Ordering::Relaxed) * 29 % 61;
        let whole = self.serial.array::<T>(len + 2 * PAGE / size_of::<T>(), distribution);
        let start = whole.reads(0..0).start;
        let skipped = (start.next_multiple_of(PAGE) - start + 64 * lines) / size_of::<T>();
        write_pages(whole);
        whole.slice(skipped..skipped + len)
    }

    fn work(&self, leaf: Leaf, accesses: &[Access], f: impl FnOnce()) {
        if !self.counts.load(Ordering::Relaxed) {
            return f();
        }
        accesses.iter().filter(|_| self.touches).for_each(touch);
        let ns = clocked(self.clock_ns, f);
        let computing = if self.touches { self.machine.computing_ns(accesses, ns) } else { ns };
        let mut leaves = self.leaves.lock().expect("nothing panics under this lock");
        let timed = leaves.entry(leaf.name).or_default();
        timed.flops += leaf.flops;
        timed.ns += computing;
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

/// Threads, with a clock.
struct Streaming<'r> {
    threads: Threads<'r>,
    clock_ns: f64,
    /// Whether the kernel is in its measured part.
    counts: AtomicBool,
    /// A piece of work counts if one of its accesses has rows at least this many bytes apart.
    apart: usize,
    leaves: Mutex<BTreeMap<&'static str, Moved>>,
}

#[derive(Default)]
struct Moved {
    bytes: f64,
    ns: f64,
}

impl World for Streaming<'_> {
    fn threads(&self) -> usize {
        self.threads.threads()
    }

    fn array<T: Element>(&self, len: usize, _: &Distribution) -> Array<'_, T> {
        // Memory that this thread touches first, whatever the kernel asks for.
        let array = self.threads.array(len, &Distribution::Standard);
        write_pages(array);
        array
    }

    fn work(&self, leaf: Leaf, accesses: &[Access], f: impl FnOnce()) {
        let apart = accesses.iter().filter(|access| access.rows > 1).map(|access| access.stride).max().unwrap_or(0);
        if !self.counts.load(Ordering::Relaxed) || apart < self.apart {
            return f();
        }
        let ns = clocked(self.clock_ns, f);
        let mut leaves = self.leaves.lock().expect("nothing panics under this lock");
        let moved = leaves.entry(leaf.name).or_default();
        moved.bytes += accesses.iter().map(Access::total_bytes).sum::<usize>() as f64;
        moved.ns += ns;
    }

    fn join<A: Send, B: Send>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        self.threads.join(a, b)
    }

    fn tasks<F: FnOnce() + Send>(&self, order: Order, tasks: impl Iterator<Item = (Task, F)>) {
        self.threads.tasks(order, tasks);
    }

    fn each(&self, iterations: usize, schedule: Schedule, body: impl Fn(usize) + Sync) {
        self.threads.each(iterations, schedule, body);
    }
}

/// Writes to each page, so no piece of work is timed with the system's work for new pages.
fn write_pages<T: Element>(array: Array<'_, T>) {
    for at in (0..array.len()).step_by(PAGE / size_of::<T>()) {
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: the array is new, and nothing else knows it.
        unsafe { array.part_mut(at..at + 1) }.fill(T::default());
    }
}

/// Brings all data of a piece of work into the caches.
fn touch(access: &Access) {
    for stretch in access.stretches() {
        for at in stretch.step_by(64) {
            let byte: *const u8 = std::ptr::with_exposed_provenance(at);
            #[expect(unsafe_code, reason = "what a task touches is known by address")]
            // SAFETY: the kernel's array, which lives and is initialised; no other thread exists that could write to
            // it.
            black_box(unsafe { byte.read_volatile() });
        }
    }
}
