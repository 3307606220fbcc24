//! A plain loop on any number of threads: an upper bound for the speed-up on this machine.

use super::measure::milliseconds;
use std::hint::black_box;
use vicus_kernels::{Pipeline, compute};

/// One value for each row of the pipeline's envelopes.
fn values() -> Vec<u64> {
    vec![1; Pipeline::default().rows]
}

/// How many rounds make `compute` take this long on one envelope.
pub(super) fn calibrate(work_us: u64) -> u64 {
    let mut values = values();
    let mut rounds = 16;
    loop {
        let (ms, ()) = milliseconds(|| compute(black_box(&mut values), rounds));
        if ms >= 2.0 {
            let best = (0..5).map(|_| milliseconds(|| compute(black_box(&mut values), rounds)).0);
            let ms = best.fold(f64::INFINITY, f64::min);
            return ((work_us as f64 / 1e3 / ms) * rounds as f64).max(1.0) as u64;
        }
        rounds *= 2;
    }
}

/// Runs the same kernel in a plain loop on this many threads; returns milliseconds.
pub(super) fn spin(threads: usize, calls: usize, rounds: u64) -> f64 {
    let (ms, ()) = milliseconds(|| {
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let mine = (calls + thread) / threads;
                scope.spawn(move || {
                    let mut values = values();
                    (0..mine).for_each(|_| compute(black_box(&mut values), rounds));
                });
            }
        });
    });
    ms
}
