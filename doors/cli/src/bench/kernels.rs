//! The papers' kernels on threads.
//!
//! Strategies and distributions are measured in turn, and compared with the first line (its time divided by theirs, so that more is
//! better), so that a machine that is busy with something else slows all of them.
//! Bytes near and far, and where tasks were found, are counted in a run of their own that is not timed.

use super::measure::{Outcome, interval, median, quartiles};
use crate::threads::Threads;
use crate::{engine, kernel};
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vicus::{Runtime, Setting, Settings};
use vicus_kernels::{AnyKernel, Kernel, Serial};

/// See `vicus bench kernels --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    kernels: kernel::Args,
    /// The strategies to compare, a list such as las,nls:spares=2,steal; by default those of VICUS_STRATEGY, else las.
    #[arg(long, value_name = "LIST")]
    strategy: Vec<Settings>,
    /// Numbers of threads; by default one for each PU that may be used.
    #[arg(long, value_delimiter = ',', value_name = "N")]
    threads: Vec<usize>,
    /// How often each is run; the medians count.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Does not compare the result with that of a run without tasks, which takes as long as one thread needs.
    #[arg(long)]
    unchecked: bool,
}

/// One way to run a kernel, and how long it took.
struct Side {
    kernel: AnyKernel,
    setting: Setting,
    distribution: String,
    threads: usize,
    seconds: Vec<f64>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    let mut results = Vec::new();
    println!(
        "{:10} {:24} {:12} {:>7} {:>9} {:>17} {:>7} {:>5} {:>11} {:>9} {:>6}  takes by rule",
        "kernel", "strategy", "distribution", "threads", "ms", "quartiles", "GB/s", "ratio", "95 %", "pieces", "far"
    );
    for kernel in args.kernels.kernels(kernel::By::Threads)? {
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
            // The first round warms up.
            if round > 0 {
                side.seconds.push(seconds);
            }
        }
    }
    let first = sides[0].seconds.clone();
    sides.iter().map(|side| side.report(&first)).collect()
}

/// Every strategy with every distribution on every number of threads.
fn sides(args: &Args, kernel: &AnyKernel) -> anyhow::Result<Vec<Side>> {
    let strategies = crate::strategy::several(&args.strategy, "las")?;
    let default_threads = [vicus::this_machine().topology.default_threads()];
    let threads = if args.threads.is_empty() { &default_threads[..] } else { &args.threads };
    let mut sides = Vec::new();
    for &threads in threads {
        engine::check_threads(Some(threads))?;
        for setting in &strategies {
            for (kernel, distribution) in args.kernels.variants(kernel) {
                sides.push(Side { kernel, setting: setting.clone(), distribution, threads, seconds: Vec::new() });
            }
        }
    }
    Ok(sides)
}

/// Runs a kernel once: the seconds of its measured part, and the result.
pub(crate) fn once(kernel: &AnyKernel, runtime: &Runtime) -> anyhow::Result<(f64, f64)> {
    let clock = Clock::default();
    let world = Threads::new(runtime);
    let result = runtime.run(|| kernel.run(&world, || clock.start(), || clock.end()));
    Ok((clock.elapsed()?.as_secs_f64(), result))
}

impl Side {
    fn runtime(&self) -> vicus::RuntimeBuilder {
        Runtime::builder().threads(self.threads).strategy(self.setting.clone())
    }

    fn once(&self) -> anyhow::Result<(f64, f64)> {
        once(&self.kernel, &self.runtime().try_start()?)
    }

    /// Counts in a run of its own, and prints a line.
    fn report(&self, first: &[f64]) -> anyhow::Result<Outcome> {
        let (runtime, kernel) = (self.runtime().record(1 << 20).try_start()?, &self.kernel);
        let world = Threads::counting(&runtime);
        let counts = world.counts().expect("it counts");
        let bytes = Mutex::new([0; 4]);
        let end = || {
            let counts = [&counts.near, &counts.far, &counts.unknown, &counts.pieces];
            *bytes.lock().expect("nothing panics under this lock") = counts.map(|count| count.load(Ordering::Relaxed));
        };
        runtime.run(|| kernel.run(&world, || counts.clear(), end));
        drop(world);
        let [near, far, unknown, pieces] = bytes.into_inner().expect("nothing panics under this lock");
        let mut rules: BTreeMap<u8, u64> = BTreeMap::new();
        for log in runtime.trace().expect("it was asked to record").logs() {
            for event in &log.events {
                if let vicus_trace::What::Taken { rule, .. } = event.what {
                    *rules.entry(rule).or_default() += 1;
                }
            }
        }
        let rules: Vec<String> = rules.iter().map(|(rule, takes)| format!("{rule}: {takes}")).collect();
        let (seconds, (low, high)) = (median(&self.seconds), quartiles(&self.seconds));
        let total = near + far + unknown;
        let far =
            if near + far > 0 { format!("{:.0} %", 100.0 * far as f64 / (near + far) as f64) } else { "-".to_owned() };
        // Bandwidth against the first line's, over pairs of rounds.
        let (least, most) = interval(&[first.to_vec(), self.seconds.clone()], 1);
        println!(
            "{:10} {:24} {:12} {:>7} {:>9.2} {:>17} {:>7.2} {:>5.2} {:>11} {:>9} {:>6}  {}",
            kernel.name(),
            self.setting.to_string(),
            self.distribution,
            self.threads,
            seconds * 1e3,
            format!("{:.2}-{:.2}", low * 1e3, high * 1e3),
            total as f64 / seconds / 1e9,
            median(first) / seconds,
            format!("{least:.2}-{most:.2}"),
            pieces,
            far,
            rules.join(", ")
        );
        let name = format!("{} {} {} threads", kernel.name(), self.setting, self.threads);
        Ok(Outcome::new(name, "ms", seconds * 1e3, "the first line", median(first) * 1e3))
    }
}

/// The measured part's beginning and end.
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
