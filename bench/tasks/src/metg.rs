//! The smallest task that pays: METG, the minimum effective task granularity of Slaughter et al., "Task Bench", SC
//! 2020: the duration of a task at which tasks take half of the processors' time.
//!
//! A stencil: in each step a task for each point, which depends on three points of the step before. Vicus' tasks
//! declare these dependences and are all submitted at once. rayon and oneTBB have no such dependences between tasks, so
//! they wait after each step, which is easier.

use crate::measure::load;
use crate::sides::Runtimes;
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use vicus_testing::median;

/// Steps of one run.
const STEPS: usize = 1000;

/// The least and the greatest length of a task, in iterations of [`compute`].
const ITERATIONS: [u64; 2] = [16, 1 << 16];

/// The work of a task: a chain of dependent multiplications and additions.
pub(crate) fn compute(iterations: u64) -> f64 {
    let mut x = black_box(1.0f64);
    for _ in 0..iterations {
        x = x.mul_add(0.999_999, 0.000_001);
    }
    x
}

#[cfg(tbb)]
mod for_cpp {
    #[expect(unsafe_code, reason = "called from C++")]
    #[unsafe(no_mangle)]
    extern "C" fn metg_compute(iterations: u64) {
        std::hint::black_box(super::compute(iterations));
    }
}

/// The processor time that this process has used, in seconds.
fn used() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn vicus(points: usize, iterations: u64) {
    let mut fields = vec![0.0f64; 2 * points];
    vicus_machine::scope(|scope| {
        let fields = scope.share(&mut fields);
        for step in 0..STEPS {
            let (from, to) = ((step % 2) * points, (1 - step % 2) * points);
            for point in 0..points {
                let around = from + point.saturating_sub(1)..from + (point + 2).min(points);
                let task = scope.task().reads(fields.part(around)).writes(fields.part(to + point..=to + point));
                task.spawn(move |(around, point)| point[0] = around[0] + compute(iterations));
            }
        }
    });
}

fn with_rayon(points: usize, iterations: u64) {
    for _ in 0..STEPS {
        rayon::scope(|scope| (0..points).for_each(|_| scope.spawn(move |_| _ = black_box(compute(iterations)))));
    }
}

pub(crate) fn run(runtimes: &Runtimes, threads: usize, rounds: usize) {
    let points = 2 * threads;
    println!("\nMETG (50 %, processors' time) of a stencil of {points} points, {threads} threads, load {}", load());
    type Does<'a> = Box<dyn Fn(u64) + 'a>;
    let sides: Vec<(&str, Does)> = vec![
        ("Vicus, with dependences", Box::new(|iterations| runtimes.vicus.run(|| vicus(points, iterations)))),
        (
            "rayon, a barrier each step",
            Box::new(|iterations| runtimes.rayon.install(|| with_rayon(points, iterations))),
        ),
        #[cfg(tbb)]
        (
            "oneTBB, a barrier each step",
            Box::new(|iterations| runtimes.tbb_steps(STEPS as u64, points as u64, iterations)),
        ),
    ];
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); sides.len()];
    for _ in 0..rounds {
        for (metg, (_, does)) in found.iter_mut().zip(&sides) {
            metg.push(smallest(points, does));
        }
    }
    for ((name, _), metg) in sides.iter().zip(&found) {
        println!("{name:32} {:>8.2} us", median(metg) * 1e6);
    }
}

/// The duration of a task, in seconds, at which tasks take half of the processors' time.
fn smallest(points: usize, does: &dyn Fn(u64)) -> f64 {
    let [mut low, mut high] = ITERATIONS;
    // By bisection: longer tasks never pay less.
    while high as f64 > 1.05 * low as f64 {
        let middle = ((low as f64 * high as f64).sqrt()) as u64;
        let (useful, spent) = shares(points, middle, does);
        if useful < 0.5 * spent { low = middle.max(low + 1) } else { high = middle }
    }
    seconds(high)
}

/// The time of all tasks of a run by themselves, and the processor time of the run.
fn shares(points: usize, iterations: u64, does: &dyn Fn(u64)) -> (f64, f64) {
    let before = used();
    does(iterations);
    let spent = used() - before;
    ((STEPS * points) as f64 * seconds(iterations), spent)
}

/// The time of one task by itself.
fn seconds(iterations: u64) -> f64 {
    let times = (2_000_000 / iterations).max(10);
    let before = used();
    (0..times).for_each(|_| _ = black_box(compute(iterations)));
    (used() - before) / times as f64
}
