//! The costs of making, moving and waking, measured with empty tasks.

use super::{Effort, quartiles};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vicus::kit::Everywhere;
use vicus::tasks::{in_place_scope, join};
use vicus::{Runtime, Setting};
use vicus_schedule::{Access, Mode, Shares};
use vicus_sim::Parameters;
use vicus_testing::median;
use vicus_topology::Topology;

/// The number of tasks in a sample.
const TASKS: usize = 1000;

/// The model's free parameters on this machine.
pub(super) fn measure(effort: Effort, clock_ghz: f64, overlap: f64) -> Parameters {
    // A join puts a task into the seat's own deque, and takes it back.
    let own_ns = on_one(effort, "steal", || joins(TASKS)) / 2.0;
    // Under this strategy, deferred tasks go into the own deque; under the other, through a shared queue.
    let own_deferred = on_one(effort, "steal", deferred);
    let spawn_ns = own_deferred - 2.0 * own_ns;
    let take_ns = (on_one(effort, "las", deferred) - spawn_ns) / 2.0;
    let cycles = |ns: f64| ns.max(0.1) * clock_ghz;
    let (deal_ns, stretch_ns) = dealing(effort);
    Parameters {
        overlap,
        cache_share: 1.0,
        spawn_cycles: cycles(spawn_ns),
        own_cycles: cycles(own_ns),
        take_cycles: cycles(take_ns),
        steal_cycles: cycles(stealing(effort)),
        deal_cycles: cycles(deal_ns),
        stretch_cycles: cycles(stretch_ns),
        wake_ns: waking(effort),
        jitter: jitter(effort),
    }
}

pub(super) fn runtime(strategy: &str, threads: usize) -> Runtime {
    let setting: Setting = strategy.parse().expect("a strategy");
    Runtime::builder().strategy(setting).threads(threads).quiet().start()
}

/// The nanoseconds of one of [`TASKS`] tasks, on one thread.
fn on_one<R>(effort: Effort, strategy: &str, tasks: impl Fn() -> R + Sync) -> f64 {
    let runtime = runtime(strategy, 1);
    runtime.run(|| effort.nanoseconds(100, || _ = black_box(tasks()))) / TASKS as f64
}

/// A tree of joins with this many leaves, made by halving as programs do. It has one join less than leaves.
fn joins(ends: usize) -> usize {
    match ends {
        0 | 1 => black_box(ends),
        _ => {
            let (a, b) = join(|| joins(ends / 2), || joins(ends - ends / 2));
            a + b
        }
    }
}

fn deferred() {
    in_place_scope(|scope| {
        for task in 0..TASKS {
            scope.spawn_deferred(move |_| _ = black_box(task));
        }
    });
}

/// The time to find the nodes of an access's bytes, and the time of each further stretch of it.
fn dealing(effort: Effort) -> (f64, f64) {
    const ROWS: usize = 128;
    const TIMES: usize = 1000;
    let runtime = runtime("footprint", 1);
    let layout = std::alloc::Layout::from_size_align(1 << 20, 4096).expect("a size that fits");
    let mut memory = runtime.alloc(layout, vicus::memory::Distribution::Coarse).expect("there is room to measure");
    memory.bytes_mut().fill(1);
    let one = Access::new(memory.bytes().as_ptr().addr(), memory.bytes().len(), Mode::Read);
    let stride = memory.bytes().len() / ROWS;
    // Like a block of a matrix: half of each row.
    let several = Access::new(one.start, stride / 2, Mode::Read).rows(ROWS, stride);
    // On a machine with one node, nothing is dealt: two of them are pretended, the memory is on the first.
    let two = Topology::parse("node:2 core:1").expect("a topology");
    let plan = "footprint".parse::<Setting>().expect("a strategy").plan(&two, 2);
    let dealing = plan.dealing().expect("it deals");
    let mut shares = Shares::default();
    let mut deal = |access: Access| {
        let mut once = || _ = black_box(dealing.deal(black_box(&[access]), &mut shares, &mut Everywhere));
        effort.nanoseconds(20, || (0..TIMES).for_each(|_| once())) / TIMES as f64
    };
    let (first, by_rows) = (deal(one), deal(several));
    (first, (by_rows - first) / (ROWS - 1) as f64)
}

/// How much the times of equal tasks differ on one thread: the standard deviation of the middle half, as a share of the
/// median. The other half is left out, since most delays by interrupts and other programs are there.
fn jitter(effort: Effort) -> f64 {
    const VECTORS: usize = 100;
    const SWEEPS: usize = 16;
    // So far from its quartiles to each other in a normal distribution.
    const QUARTILES: f64 = 1.349;
    let mut vectors = vec![vec![1.0f32; 1 << 16]; VECTORS];
    let deviation = || {
        let took: Vec<AtomicU64> = (0..VECTORS).map(|_| AtomicU64::new(0)).collect();
        in_place_scope(|scope| {
            for (vector, took) in vectors.iter_mut().zip(&took) {
                scope.spawn_deferred(move |_| {
                    let began = Instant::now();
                    for _ in 0..SWEEPS {
                        black_box(&mut *vector).iter_mut().for_each(|element| *element *= 1.0001);
                    }
                    took.store(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
                });
            }
        });
        let took: Vec<f64> = took.into_iter().map(|took| took.into_inner() as f64).collect();
        let (first, third) = quartiles(&took);
        (third - first) / QUARTILES / median(&took).max(1.0)
    };
    runtime("las", 1).run(|| effort.median(deviation)).min(Parameters::MOST_JITTER)
}

/// The time from a join until another thread in search of work begins its second branch.
fn stealing(effort: Effort) -> f64 {
    if vicus::this_machine().topology.default_threads() < 2 {
        return 100.0;
    }
    let runtime = runtime("steal", 2);
    runtime.run(|| {
        effort.median(|| {
            // Usually the other thread is still looking for work; sometimes it slept.
            let once = || {
                let began = Instant::now();
                let begun = AtomicU64::new(0);
                let late = || began.elapsed() > Duration::from_millis(1);
                let wait = || while begun.load(Ordering::Acquire) == 0 && !late() {};
                let start = || begun.store(1 + began.elapsed().as_nanos() as u64, Ordering::Release);
                join(wait, start);
                begun.into_inner() as f64
            };
            median(&std::iter::repeat_with(once).take(300).collect::<Vec<_>>())
        })
    })
}

/// The time from putting a task until it begins on a sleeping thread.
fn waking(effort: Effort) -> f64 {
    if vicus::this_machine().topology.default_threads() < 2 {
        return Parameters::default().wake_ns;
    }
    let runtime = runtime("las", 2);
    effort.median(|| {
        runtime.run(|| {
            // The other thread sleeps by now.
            std::thread::sleep(Duration::from_millis(3));
            let begun = AtomicBool::new(false);
            let began = Instant::now();
            let mut ns = 0.0;
            in_place_scope(|scope| {
                scope.spawn_deferred(|_| begun.store(true, Ordering::Release));
                while !begun.load(Ordering::Acquire) && began.elapsed() < Duration::from_millis(100) {
                    std::hint::spin_loop();
                }
                ns = began.elapsed().as_nanos() as f64;
            });
            ns
        })
    })
}
