//! The papers' kernels on threads.
//!
//! Strategies and distributions are measured in turn, so other load on the machine slows all of them. Each line is
//! compared with the first (the first one's time is divided by the line's, so more is better); the interval is over
//! pairs of runs of the same round. Bytes near and far, and the places of found tasks, are counted in a separate run
//! that is not timed. Like the times, they cover the measured part only.

use super::measure::{self, Outcome, interval, quartiles};
use crate::arguments::SweepArgs;
use crate::kernel;
use crate::threads::{self, Threads};
use anyhow::{Context, ensure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vicus::kit::Level;
use vicus::{Runtime, Setting};
use vicus_kernels::{AnyKernel, Kernel, Serial};
use vicus_testing::median;

/// See `vicus bench kernels --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    kernels: kernel::Args,
    #[command(flatten)]
    sweep: SweepArgs,
    /// How often each is run; the medians count.
    #[arg(long, default_value_t = 3, value_parser = measure::count)]
    repeats: usize,
    /// Does not compare the result with a run without tasks, which takes as long as one thread needs.
    #[arg(long)]
    unchecked: bool,
}

/// One way to run a kernel, and its times.
struct Side {
    kernel: AnyKernel,
    setting: Setting,
    distribution: String,
    threads: usize,
    seconds: Vec<f64>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    // Options are checked before anything is printed.
    let kernels = args.kernels.kernels(kernel::By::Threads)?;
    let mut results = Vec::new();
    say_line!(
        "{:10} {:24} {:30} {:>7} {:>9} {:>17} {:>7} {:>5} {:>11} {:>9} {:>14} {:>14}  takes by rule and level",
        "kernel",
        "strategy",
        "distribution",
        "threads",
        "ms",
        "quartiles",
        "GB/s",
        "ratio",
        "95 %",
        "pieces",
        "near bytes",
        "far bytes"
    );
    for kernel in kernels {
        results.extend(measure(args, &kernel)?);
    }
    Ok(results)
}

fn measure(args: &Args, kernel: &AnyKernel) -> anyhow::Result<Vec<Outcome>> {
    let expected = (!args.unchecked).then(|| kernel.run(&Serial::default(), || (), || ()));
    let mut sides = sides(args, kernel)?;
    for round in 0..=args.repeats {
        for side in &mut sides {
            let (seconds, result) = side.once()?;
            if let Some(expected) = expected {
                ensure!(
                    result == expected,
                    "{} under {}: the result is {result}, and {expected} without tasks",
                    kernel.name(),
                    side.setting
                );
            }
            // The first round is a warm-up.
            if round > 0 {
                side.seconds.push(seconds);
            }
        }
    }
    let first = sides[0].seconds.clone();
    sides.iter().map(|side| side.report(&first)).collect()
}

/// One side for every combination of strategy, distribution and number of threads.
fn sides(args: &Args, kernel: &AnyKernel) -> anyhow::Result<Vec<Side>> {
    let strategies = args.sweep.strategies()?;
    let threads = args.sweep.threads_or([vicus::this_machine().topology.default_threads()])?;
    let mut sides = Vec::new();
    for threads in threads {
        for setting in &strategies {
            for (kernel, distribution) in args.kernels.variants(kernel) {
                sides.push(Side { kernel, setting: setting.clone(), distribution, threads, seconds: Vec::new() });
            }
        }
    }
    Ok(sides)
}

/// Runs a kernel once; returns the seconds of its measured part, and its result.
pub(crate) fn once(kernel: &AnyKernel, runtime: &Runtime) -> anyhow::Result<(f64, f64)> {
    let clock = Clock::default();
    let world = Threads::new(runtime);
    let result = threads::run(runtime, kernel, &world, || clock.start(), || clock.end())?;
    Ok((clock.elapsed()?.as_secs_f64(), result))
}

impl Side {
    fn runtime(&self) -> vicus::RuntimeBuilder {
        Runtime::builder().threads(self.threads).strategy(self.setting.clone())
    }

    fn once(&self) -> anyhow::Result<(f64, f64)> {
        once(&self.kernel, &self.runtime().try_start()?)
    }

    /// Counts bytes and tasks in a separate run.
    fn account(&self, seconds: f64) -> anyhow::Result<Account> {
        let runtime = self.runtime().count_takes().try_start()?;
        let world = Threads::counting(&runtime);
        let counts = world.counts().expect("it counts");
        let (before, after) = (Mutex::default(), Mutex::default());
        let start = || {
            counts.clear();
            *before.lock().expect("nothing panics under this lock") = runtime.takes();
        };
        let end = || {
            let bytes = [&counts.near, &counts.far, &counts.unknown, &counts.pieces];
            let bytes = bytes.map(|count| count.load(Ordering::Relaxed));
            *after.lock().expect("nothing panics under this lock") = (bytes, runtime.takes());
        };
        threads::run(&runtime, &self.kernel, &world, start, end)?;
        let before: BTreeMap<(u8, Level), u64> = before.into_inner().expect("nothing panics under this lock");
        let ([near_bytes, far_bytes, unknown_bytes, pieces], takes) =
            after.into_inner().expect("nothing panics under this lock");
        let since = |((rule, level), count): ((u8, Level), u64)| {
            let count = count - before.get(&(rule, level)).copied().unwrap_or(0);
            (count > 0).then_some(Takes { rule, level: level.name(), count })
        };
        let gigabytes_per_second = (near_bytes + far_bytes + unknown_bytes) as f64 / seconds / 1e9;
        let takes = takes.into_iter().filter_map(since).collect();
        Ok(Account { gigabytes_per_second, near_bytes, far_bytes, unknown_bytes, pieces, takes })
    }

    /// Prints a line.
    fn report(&self, first: &[f64]) -> anyhow::Result<Outcome> {
        let (seconds, (low, high)) = (median(&self.seconds), quartiles(&self.seconds));
        let account = self.account(seconds)?;
        // The ratio of bandwidths to the first line's, over pairs of rounds.
        let (least, most) = interval(&[first.to_vec(), self.seconds.clone()], 1);
        say_line!(
            "{:10} {:24} {:30} {:>7} {:>9.2} {:>17} {:>7.2} {:>5.2} {:>11} {:>9} {:>14} {:>14}  {account}",
            self.kernel.name(),
            self.setting.to_string(),
            self.distribution,
            self.threads,
            seconds * 1e3,
            format!("{:.2}-{:.2}", low * 1e3, high * 1e3),
            account.gigabytes_per_second,
            median(first) / seconds,
            format!("{least:.2}-{most:.2}"),
            account.pieces,
            account.near_bytes,
            account.far_bytes,
        );
        let words = [self.kernel.name(), &self.setting.to_string(), &self.distribution];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let name = format!("{} {} threads", words.join(" "), self.threads);
        let outcome = Outcome::new(name, "ms", seconds * 1e3, "the first line", median(first) * 1e3);
        Ok(Outcome { kernel: Some(account), ..outcome })
    }
}

/// The bytes moved by the measured part, and the places of its tasks.
#[derive(Serialize)]
pub(crate) struct Account {
    /// All bytes declared by pieces of work, divided by the time of the timed runs.
    gigabytes_per_second: f64,
    near_bytes: u64,
    far_bytes: u64,
    /// Bytes on a node unknown even to the kernel.
    unknown_bytes: u64,
    pieces: u64,
    takes: Vec<Takes>,
}

/// How many tasks were taken by a rule of the plan from a distance.
#[derive(Serialize)]
struct Takes {
    rule: u8,
    level: &'static str,
    count: u64,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let takes: Vec<String> =
            self.takes.iter().map(|Takes { rule, level, count }| format!("{rule} {level}: {count}")).collect();
        f.write_str(&takes.join(", "))?;
        match self.unknown_bytes {
            0 => Ok(()),
            unknown => write!(f, " ({unknown} bytes on unknown nodes)"),
        }
    }
}

/// When the measured part began and ended.
#[derive(Default)]
struct Clock(Mutex<(Option<Instant>, Option<Instant>)>);

impl Clock {
    fn start(&self) {
        self.0.lock().expect("nothing panics under this lock").0 = Some(Instant::now());
    }

    fn end(&self) {
        self.0.lock().expect("nothing panics under this lock").1 = Some(Instant::now());
    }

    fn elapsed(&self) -> anyhow::Result<Duration> {
        let (start, end) = *self.0.lock().expect("nothing panics under this lock");
        end.zip(start).map(|(end, start)| end - start).context("the kernel has a measured part")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_kernels::{Fib, Jacobi3d, Map};

    fn side(kernel: impl Into<AnyKernel>, strategy: &str, threads: usize) -> Side {
        let setting = strategy.parse().expect("a strategy");
        Side { kernel: kernel.into(), setting, distribution: String::new(), threads, seconds: Vec::new() }
    }

    /// What happened: a trace had room for a million events, so half of the takes of a long kernel were missing.
    #[test]
    fn every_take_of_a_long_kernel_is_counted_and_no_other() {
        for threads in [1, 2] {
            let account = side(Fib { n: 29, alone: 1 }, "las", threads).account(1.0).unwrap();
            // One task for each addition: fib(n + 1) - 1.
            let takes: u64 = account.takes.iter().map(|takes| takes.count).sum();
            assert_eq!(takes, 832_040 - 1, "{threads} threads: {account}");
            let others = account.takes.iter().any(|takes| (takes.rule, takes.level) != (1, "own"));
            assert!(threads > 1 || !others, "{account}");
        }
    }

    /// What happened: grids first touched by threads were of unknown node, because only placed memory was looked up.
    #[test]
    fn each_byte_is_near_or_far() {
        // Each task reads and writes a vector, as one access.
        let account = side(Map { vectors: 6, bytes: 40_000, ..Map::default() }, "las", 2).account(1.0).unwrap();
        assert_eq!((account.near_bytes + account.far_bytes, account.unknown_bytes), (6 * 40_000, 0));
        assert!((account.gigabytes_per_second - 240e3 / 1e9).abs() < 1e-12);
        let jacobi = Jacobi3d { sites: [12, 20, 100], block: [4, 6], sweeps: 2, ..Jacobi3d::default() };
        let account = side(jacobi, "las", 2).account(1.0).unwrap();
        assert!(account.near_bytes > 0 && account.unknown_bytes == 0, "{}", account.unknown_bytes);
    }
}
