//! Whether the simulator predicts this machine: the kernels as it sees them, beside what they take on threads.

use super::kernels::once;
use super::measure::{self, Outcome, median, quartiles};
use crate::{calibrate, engine};
use anyhow::{Context, ensure};
use std::path::PathBuf;
use vicus::{Runtime, Setting, Settings};
use vicus_kernels::{AnyKernel, Kernel, NAMES, Size, by_name};
use vicus_sim::{Machine, Options, Recorder, simulate};

/// See `vicus bench prediction --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What `vicus calibrate` wrote on this machine; it is measured now, if none is given.
    #[arg(long, value_name = "FILE.toml")]
    machine: Option<PathBuf>,
    /// Which kernels; all by default.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    kernel: Vec<String>,
    /// The strategies, a list such as las,nls:spares=2,steal; by default those of VICUS_STRATEGY, else las.
    #[arg(long, value_name = "LIST")]
    strategy: Vec<Settings>,
    /// Numbers of threads; by default one, and one for each PU that may be used.
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Vec<u16>,
    /// How often each is run; the medians count.
    #[arg(long, default_value_t = 7, value_parser = measure::count)]
    repeats: usize,
    /// Fails if a prediction is off by more than this share of what was measured.
    #[arg(long, value_name = "SHARE")]
    within: Option<f64>,
}

/// So many times the papers' input is long enough to be timed and short enough to be repeated. Data is far more than last caches
/// have, or far less: how much of one others hold is nothing to predict.
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
    let strategies = crate::strategy::several(&args.strategy, "las")?;
    args.threads.iter().try_for_each(|&threads| engine::check_threads(Some(threads.into())))?;
    let machine = machine(args)?;
    let here = vicus::this_machine().topology.default_threads();
    let threads: Vec<usize> = args.threads.iter().copied().map(usize::from).collect();
    let threads = if threads.is_empty() { vec![1, here] } else { threads };
    println!("{}: {}", machine.name, machine.parameters);
    println!(
        "{:10} {:16} {:>7} {:>12} {:>17} {:>12} {:>6}",
        "kernel", "strategy", "threads", "measured ms", "quartiles", "predicted ms", "ratio"
    );
    let named: Vec<&str> = args.kernel.iter().map(String::as_str).collect();
    let mut results = Vec::new();
    for name in if named.is_empty() { NAMES } else { &named } {
        let kernel = by_name(name, Size::Times(times(name)))?;
        for setting in &strategies {
            for &threads in &threads {
                results.push(compare(args, &machine, &kernel, setting, threads)?);
            }
        }
    }
    let off = |outcome: &Outcome| (outcome.ratio - 1.0).abs();
    let worst = results.iter().max_by(|a, b| off(a).total_cmp(&off(b)));
    if let Some(worst) = worst {
        println!("furthest off: {}, {:.2}", worst.name, worst.ratio);
        if let Some(within) = args.within {
            ensure!(off(worst) <= within, "{}: {:.2}, and {within} was expected", worst.name, off(worst));
        }
    }
    Ok(results)
}

fn machine(args: &Args) -> anyhow::Result<Machine> {
    let Some(path) = &args.machine else {
        return Ok(Machine::parse("this machine", &calibrate::measured(calibrate::Effort::THOROUGH)?)?);
    };
    let text = std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
    let machine = Machine::parse(&path.display().to_string(), &text)?;
    let (line, here) = (machine.topology.line(), vicus::this_machine().topology.line());
    ensure!(line == here, "{}: a machine of the shape {line:?}, and this one has {here:?}", path.display());
    Ok(machine)
}

fn compare(
    args: &Args,
    machine: &Machine,
    kernel: &AnyKernel,
    setting: &Setting,
    threads: usize,
) -> anyhow::Result<Outcome> {
    let runtime = engine::start(Runtime::builder().strategy(setting.clone()), Some(threads))?;
    // The first one warms up.
    once(kernel, &runtime)?;
    let seconds = (0..args.repeats).map(|_| Ok(once(kernel, &runtime)?.0)).collect::<anyhow::Result<Vec<_>>>()?;
    let plan = machine.plan(setting, threads);
    let program = Recorder::record(kernel, threads);
    let options = Options { parameters: machine.parameters, ..Options::default() };
    let predicted = simulate(machine, &plan, &program, &options)?.wall_ns / 1e6;
    let (measured, (low, high)) = (median(&seconds) * 1e3, quartiles(&seconds));
    println!(
        "{:10} {:16} {threads:>7} {measured:>12.2} {:>17} {predicted:>12.2} {:>6.2}",
        kernel.name(),
        setting.to_string(),
        format!("{:.2}-{:.2}", low * 1e3, high * 1e3),
        predicted / measured
    );
    let name = format!("{} {setting} {threads} threads", kernel.name());
    Ok(Outcome::new(name, "ms", predicted, "measured", measured))
}
