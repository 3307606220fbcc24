//! Compares the simulator's predictions for this machine with measurements: the papers' kernels, simulated and on
//! threads.

use super::kernels::once;
use super::measure::{self, Outcome, quartiles};
use crate::arguments::SweepArgs;
use crate::{calibrate, engine};
use anyhow::{Context, ensure};
use std::ops::Range;
use std::path::PathBuf;
use vicus::{Runtime, Setting};
use vicus_kernels::{AnyKernel, Kernel, NAMES, Size, by_name};
use vicus_sim::{Machine, Options, Recorder, simulate};
use vicus_testing::median;

/// See `vicus bench prediction --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file written by `vicus calibrate` on this machine; without it, the machine is calibrated now.
    #[arg(long, value_name = "FILE.toml")]
    machine: Option<PathBuf>,
    /// The kernels; all by default.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    kernel: Vec<String>,
    #[command(flatten)]
    sweep: SweepArgs,
    /// How often each is run, and simulated with another seed; the faster quartile counts, as in the calibration.
    #[arg(long, default_value_t = 7, value_parser = measure::count)]
    repeats: usize,
    /// How often everything is repeated; without a file, the machine is calibrated each time. The medians of rounds
    /// count, because a machine shared with other users is slower for seconds at a time.
    #[arg(long, default_value_t = 1, value_parser = measure::count)]
    rounds: usize,
    /// Fails if a prediction differs from the measurement by more than this share.
    #[arg(long, value_name = "SHARE")]
    within: Option<f64>,
}

/// The input's size as a multiple of the papers': long enough to be timed, short enough to be repeated. The data is
/// much larger than the last caches or much smaller; how much of a cache other programs use can't be predicted.
fn times(kernel: &str) -> f64 {
    match kernel {
        "map" | "vecmul" => 16.0,
        "nqueens" => 4.0,
        "jacobi2d" | "jacobi3d" => 0.3,
        "reduction" => 1.0 / 16.0,
        _ => 0.1,
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    let strategies = args.sweep.strategies()?;
    let threads = args.sweep.threads_or([1, vicus::this_machine().topology.default_threads()])?;
    let named: Vec<&str> = args.kernel.iter().map(String::as_str).collect();
    let mut cases = Vec::new();
    for name in if named.is_empty() { NAMES } else { &named } {
        let kernel = by_name(name, Size::Times(times(name)))?;
        for setting in &strategies {
            let case =
                |&threads| Case { kernel: kernel.clone(), setting: setting.clone(), threads, rounds: Vec::new() };
            cases.extend(threads.iter().map(case));
        }
    }
    for round in 1..=args.rounds {
        let machine = machine(args)?;
        say_line!("{}: {}", machine.name, machine.parameters);
        heading();
        for case in &mut cases {
            case.measure(args, &machine)?;
            say_line!("{}", case.line(case.rounds.len() - 1..case.rounds.len()));
        }
        if round == args.rounds && round > 1 {
            say_line!("medians of {round} rounds, with the quartiles of their ratios");
            heading();
            cases.iter().for_each(|case| say_line!("{}", case.line(0..round)));
        }
    }
    let results: Vec<Outcome> = cases.iter().map(Case::outcome).collect();
    let off = |outcome: &Outcome| (outcome.ratio - 1.0).abs();
    let worst = results.iter().max_by(|a, b| off(a).total_cmp(&off(b)));
    if let Some(worst) = worst {
        say_line!("furthest off: {}, {:.2}", worst.name, worst.ratio);
        if let Some(within) = args.within {
            ensure!(off(worst) <= within, "{}: {:.2}, and {within} was expected", worst.name, off(worst));
        }
    }
    Ok(results)
}

fn heading() {
    say_line!(
        "{:10} {:16} {:>7} {:>12} {:>12} {:>6} {:>20}",
        "kernel",
        "strategy",
        "threads",
        "measured ms",
        "predicted ms",
        "ratio",
        "quartiles"
    );
}

fn machine(args: &Args) -> anyhow::Result<Machine> {
    let Some(path) = &args.machine else {
        return Ok(Machine::parse("this machine", &calibrate::measured(calibrate::Effort::THOROUGH, &|_| ())?)?);
    };
    let text = std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
    let machine = Machine::parse(&path.display().to_string(), &text)?;
    let (line, here) = (machine.topology.line(), vicus::this_machine().topology.line());
    ensure!(line == here, "{}: a machine of the shape {line:?}, and this one has {here:?}", path.display());
    Ok(machine)
}

/// A kernel with a strategy and a number of threads.
struct Case {
    kernel: AnyKernel,
    setting: Setting,
    threads: usize,
    rounds: Vec<Round>,
}

/// Times of a round in milliseconds.
struct Round {
    /// The quartiles of the measured times. The lower one counts, because other load only makes runs slower.
    measured: (f64, f64),
    predicted: f64,
}

impl Round {
    fn ratio(&self) -> f64 {
        self.predicted / self.measured.0
    }
}

impl Case {
    fn measure(&mut self, args: &Args, machine: &Machine) -> anyhow::Result<()> {
        let runtime = engine::start(Runtime::builder().strategy(self.setting.clone()), Some(self.threads))?;
        // The first run is a warm-up.
        once(&self.kernel, &runtime)?;
        let seconds =
            (0..args.repeats).map(|_| Ok(once(&self.kernel, &runtime)?.0)).collect::<anyhow::Result<Vec<_>>>()?;
        let plan = machine.plan(&self.setting, self.threads);
        let program = Recorder::record(&self.kernel, self.threads);
        // As many as are measured, with the same statistic: in both, chance decides the first tasks of a thread.
        let simulated = (1..=args.repeats as u64).map(|seed| {
            let options = Options { parameters: machine.parameters, seed, ..Options::default() };
            Ok(simulate(machine, &plan, &program, &options)?.wall_ns / 1e6)
        });
        let predicted = quartiles(&simulated.collect::<anyhow::Result<Vec<_>>>()?).0;
        let (low, high) = quartiles(&seconds);
        self.rounds.push(Round { measured: (low * 1e3, high * 1e3), predicted });
        Ok(())
    }

    /// One round with the quartiles of its times, or several with the quartiles of their ratios.
    fn line(&self, rounds: Range<usize>) -> String {
        let rounds = &self.rounds[rounds];
        let spread = match rounds {
            [Round { measured: (low, high), .. }] => format!("{low:.2}-{high:.2} ms"),
            _ => {
                let (low, high) = quartiles(&rounds.iter().map(Round::ratio).collect::<Vec<_>>());
                format!("{low:.2}-{high:.2}")
            }
        };
        let middle = |what: fn(&Round) -> f64| median(&rounds.iter().map(what).collect::<Vec<_>>());
        format!(
            "{:10} {:16} {:>7} {:>12.2} {:>12.2} {:>6.2} {spread:>20}",
            self.kernel.name(),
            self.setting.to_string(),
            self.threads,
            middle(|round| round.measured.0),
            middle(|round| round.predicted),
            middle(Round::ratio)
        )
    }

    fn outcome(&self) -> Outcome {
        let middle = |what: fn(&Round) -> f64| median(&self.rounds.iter().map(what).collect::<Vec<_>>());
        let name = format!("{} {} {} threads", self.kernel.name(), self.setting, self.threads);
        let outcome =
            Outcome::new(name, "ms", middle(|round| round.predicted), "measured", middle(|round| round.measured.0));
        Outcome { ratio: middle(Round::ratio), ..outcome }
    }
}
