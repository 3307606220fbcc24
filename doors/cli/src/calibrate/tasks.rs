//! The costs of making, moving and waking, measured with empty tasks.

use super::{Effort, median};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vicus::tasks::{in_place_scope, join};
use vicus::{Runtime, Setting};
use vicus_schedule::{Access, Mode};
use vicus_sim::Parameters;

/// The number of tasks in a sample.
const TASKS: usize = 1000;

/// The model's free parameters on this machine.
pub(super) fn measure(effort: Effort, clock_ghz: f64, overlap: f64) -> Parameters {
    // A join puts a task into the seat's own deque, and takes it back.
    let own_ns = on_one(effort, "steal", || joins(TASKS)) / 2.0;
    // Under this strategy, deferred tasks go into the own deque; under the other, through a shared queue.
    let own_deferred = on_one(effort, "steal", || deferred(&[]));
    let spawn_ns = own_deferred - 2.0 * own_ns;
    let take_ns = (on_one(effort, "las", || deferred(&[])) - spawn_ns) / 2.0;
    let cycles = |ns: f64| ns.max(0.1) * clock_ghz;
    Parameters {
        overlap,
        cache_share: 1.0,
        spawn_cycles: cycles(spawn_ns),
        own_cycles: cycles(own_ns),
        take_cycles: cycles(take_ns),
        steal_cycles: cycles(stealing(effort)),
        deal_cycles: cycles(dealing(effort)),
        wake_ns: waking(effort),
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

fn deferred(touches: &[Access]) {
    in_place_scope(|scope| {
        for task in 0..TASKS {
            scope.task().touches(touches).spawn(move |()| _ = black_box(task));
        }
    });
}

/// The time to find out where the bytes of an access lie.
fn dealing(effort: Effort) -> f64 {
    let runtime = runtime("footprint", 1);
    let layout = std::alloc::Layout::from_size_align(1 << 20, 4096).expect("a size that fits");
    let mut memory = runtime.alloc(layout, vicus::memory::Distribution::Coarse).expect("there is room to measure");
    memory.bytes_mut().fill(1);
    let touches = [Access::new(memory.bytes().as_ptr().addr(), memory.bytes().len(), Mode::Read)];
    let (dealt, not) = runtime.run(|| {
        let ns = |touches: &[Access]| effort.nanoseconds(20, || deferred(touches)) / TASKS as f64;
        (ns(&touches), ns(&[]))
    });
    dealt - not
}

/// The time from a join until another thread that looks for work begins its second branch.
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

/// The time from putting a task until it begins on a thread that slept.
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
