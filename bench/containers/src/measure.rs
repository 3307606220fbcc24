//! Shared by all measurements: pinned threads that start together, alternating sides, medians, a table of rates.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use vicus_testing::median;

/// The PUs that this process may use.
pub(crate) fn allowed() -> anyhow::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

pub(crate) fn pin(cpu: usize) {
    allow(&[cpu]);
}

/// Lets this thread run on these PUs.
pub(crate) fn allow(cpus: &[usize]) {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set).expect("these PUs were allowed when the benchmark began");
}

/// The load average: ratios are valid under load, times are not.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().map_or_else(|| "unknown".to_owned(), str::to_owned)
}

pub(crate) fn least(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::min).unwrap_or(f64::NAN)
}

pub(crate) fn most(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::max).unwrap_or(f64::NAN)
}

/// Runs `work` on this many threads, numbered from 0 and pinned to these PUs in turn. The time from when all are ready
/// until the last one has finished.
pub(crate) fn together(threads: usize, cpus: &[usize], work: impl Fn(usize) + Sync) -> Duration {
    let ready = AtomicUsize::new(0);
    let timed = |thread: usize| {
        pin(cpus[thread % cpus.len()]);
        ready.fetch_add(1, Ordering::AcqRel);
        while ready.load(Ordering::Acquire) < threads {
            std::thread::yield_now();
        }
        let begun = Instant::now();
        work(thread);
        (begun, Instant::now())
    };
    let timed = &timed;
    let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || timed(thread))).collect();
        handles.into_iter().map(|handle| handle.join().expect("no side panics")).collect()
    });
    let begun = times.iter().map(|time| time.0).min().expect("there are threads");
    let ended = times.iter().map(|time| time.1).max().expect("there are threads");
    ended - begun
}

/// One side of a comparison.
pub(crate) struct Side<S> {
    pub(crate) name: &'static str,
    ours: bool,
    does: S,
    /// Items per second, round by round.
    rates: Vec<f64>,
}

impl<S> Side<S> {
    pub(crate) fn ours(name: &'static str, does: S) -> Side<S> {
        Side { name, ours: true, does, rates: Vec::new() }
    }

    pub(crate) fn peer(name: &'static str, does: S) -> Side<S> {
        Side { name, ours: false, does, rates: Vec::new() }
    }
}

/// Runs this many rounds of each side, alternating; each round handles `count` items. The first round is a warm-up.
pub(crate) fn alternate<S>(
    sides: &mut [Side<S>],
    rounds: usize,
    count: u64,
    mut once: impl FnMut(&S) -> anyhow::Result<Duration>,
) -> anyhow::Result<()> {
    for round in 0..=rounds {
        for side in &mut *sides {
            let time = once(&side.does)?;
            if round > 0 {
                side.rates.push(count as f64 / time.as_secs_f64());
            }
        }
    }
    Ok(())
}

pub(crate) fn print_rates<S>(sides: &[Side<S>], title: &str) {
    println!("\n{title}, load {}", load());
    println!("{:32} {:>10} {:>8} {:>8} {:>13}", "", "million/s", "least", "most", "to best peer");
    let best = sides.iter().filter(|side| !side.ours).map(|side| median(&side.rates)).fold(0.0, f64::max);
    for Side { name, rates, .. } in sides {
        let rate = median(rates);
        let ratio = if best > 0.0 { format!("{:.2}", rate / best) } else { String::new() };
        println!("{name:32} {:>10.2} {:>8.2} {:>8.2} {ratio:>13}", rate / 1e6, least(rates) / 1e6, most(rates) / 1e6);
    }
}
