//! `vicus learn`: which strategy suits a program on a machine, from traces of its runs.
//!
//! Each trace is simulated under each strategy, and the strategy `vicus` also with other values of its parameters. What the
//! simulator predicts decides, and not how long a recorded run took: a run shows one strategy, under that day's load.

use crate::simulate::jobs::on_all_threads;
use crate::simulate::{Mode, Task, check_threads, machine, recorded_run};
use crate::tell::print;
use crate::{strategy, trace};
use anyhow::{Context, bail};
use serde::Serialize;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use vicus::memory::Distribution;
use vicus::{Learned, STRATEGIES, Setting, Settings, Topology, this_machine};
use vicus_sim::{Machine, Options, ReplayOptions};

/// See `vicus learn --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The traces, of one program, with the inputs that matter. Each has the same weight.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Writes what was learned to this file.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The machine on which the program will run, as for `vicus simulate --machine`; by default this one with default costs. `vicus calibrate
    /// --output FILE` writes a machine file with this one's costs.
    #[arg(long, value_name = "NAME|FILE|LINE")]
    machine: Option<String>,
    /// The strategies to try, a list such as las,vicus:memory=20,steal. Of those within a percent of the best, the first one of the list is kept.
    #[arg(long, value_name = "LIST")]
    strategy: Vec<Settings>,
    /// How many threads the program has; by default one for each PU that it may use, as runtimes have.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// How a trace is simulated.
    #[arg(long, value_enum, default_value_t = Mode::Replay)]
    mode: Mode,
    /// How the store of queries lies, or what tasks use.
    #[arg(long, value_name = "DISTRIBUTION", default_value_t = Distribution::Blocked)]
    distribution: Distribution,
    /// The first seed of three. A time is the median of three runs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Table,
    Json,
}

/// The strategy `vicus` with other values: far tasks are taken at once, earlier, and later, and nothing is dealt.
const VARIANTS: [&str; 4] = ["vicus:memory=0", "vicus:memory=20", "vicus:memory=100", "vicus:deal_bytes=4294967295"];

/// How many seeds a time is the median of.
const SEEDS: u64 = 3;

/// A strategy earlier in the list is kept if it takes at most so many times the least time.
const AS_GOOD: f64 = 1.01;

/// What was found out. In the file it is the part that no run uses.
#[derive(Serialize)]
struct Findings {
    machine: String,
    threads: usize,
    first_seed: u64,
    traces: Vec<String>,
    /// In the order in which they were tried.
    predicted: Vec<Predicted>,
    tasks: Vec<TaskType>,
}

/// What the simulator predicts for a strategy.
#[derive(Serialize)]
struct Predicted {
    strategy: String,
    /// By trace.
    ms: Vec<f64>,
    /// The geometric mean over the traces of its time, divided by the least of all strategies there.
    ratio: f64,
}

/// A type of boxes or tasks, as the traces have it.
#[derive(Serialize)]
struct TaskType {
    name: String,
    invocations: u64,
    busy_ms: f64,
    /// All together, in queues.
    queued_ms: f64,
    /// Read by boxes from memory of their seat's node.
    near_bytes: u64,
    /// From other nodes.
    far_bytes: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(path) = &args.output {
        // Found out now, not after the work.
        Learned::check_writable(path).with_context(|| format!("{}: can't be written", path.display()))?;
    }
    let settings = candidates(&args.strategy)?;
    let (machine, topology) = where_it_runs(args.machine.as_deref())?;
    let threads = args.threads.map_or_else(|| machine.topology.default_threads(), usize::from);
    check_threads(threads, &machine)?;
    let findings = findings(args, &machine, threads, &settings)?;
    let best = suits(&findings.predicted.iter().map(|one| one.ratio).collect::<Vec<_>>());
    if let Some(path) = &args.output {
        let notes = serde_json::to_value(&findings)?;
        let learned = Learned { setting: settings[best].clone(), notes };
        learned.write(path, &topology).with_context(|| format!("{}: can't be written", path.display()))?;
    }
    print(&match args.format {
        Format::Table => findings.table(best, args.output.as_deref()),
        Format::Json => {
            let strategy = settings[best].to_string();
            format!("{:#}\n", serde_json::json!({ "strategy": strategy, "findings": findings }))
        }
    })
}

/// What is tried, in the order in which one is kept among equals: the default first, then this project's.
fn candidates(given: &[Settings]) -> anyhow::Result<Vec<Setting>> {
    if !given.is_empty() {
        let mut seen = HashSet::new();
        let given = strategy::several(given, "las")?;
        return Ok(given.into_iter().filter(|setting| seen.insert(setting.to_string())).collect());
    }
    let first = ["las", "vicus"].map(|name| name.parse().expect("the strategy exists"));
    let others = STRATEGIES.iter().map(|strategy| strategy.name().parse().expect("the strategy exists"));
    let mut all = with_variants(first.to_vec());
    let tried: HashSet<String> = all.iter().map(Setting::to_string).collect();
    all.extend(others.filter(|other: &Setting| !tried.contains(&other.to_string())));
    Ok(all)
}

/// These, and behind them the variants of `vicus` that are not among them.
pub(crate) fn with_variants(mut settings: Vec<Setting>) -> Vec<Setting> {
    let given: HashSet<String> = settings.iter().map(Setting::to_string).collect();
    let variants = VARIANTS.iter().filter(|text| !given.contains(**text));
    settings.extend(variants.map(|text| text.parse::<Setting>().expect("the strategy exists")));
    settings
}

/// The strategy that suits a program which takes so long under each: the first one that is as good as the best.
pub(crate) fn suits(times: &[f64]) -> usize {
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    times.iter().position(|&time| time <= least * AS_GOOD).expect("one of them is the best")
}

/// The machine with its costs, and the one for which runs look in the file.
fn where_it_runs(named: Option<&str>) -> anyhow::Result<(Machine, Topology)> {
    let own = this_machine().topology;
    let Some(text) = named else { return Ok((Machine::from_topology(own.clone()), own)) };
    let machine = machine(text)?;
    // A machine file that was measured here says less of the machine than the system does.
    let is_own = own.line().is_some_and(|line| machine.topology.line() == Some(line));
    let topology = if is_own { own } else { machine.topology.clone() };
    Ok((machine, topology))
}

fn findings(args: &Args, machine: &Machine, threads: usize, settings: &[Setting]) -> anyhow::Result<Findings> {
    let mut runs: Vec<Task> = Vec::new();
    let mut tasks: Vec<TaskType> = Vec::new();
    for path in &args.traces {
        let trace = trace::read(path)?;
        let options = ReplayOptions { store: args.distribution.clone(), ..ReplayOptions::default() };
        runs.push(recorded_run(path, &trace, args.mode, &options)?);
        for found in trace.summary().boxes {
            let name = found.type_name;
            let at = tasks.iter().position(|task| task.name == name).unwrap_or_else(|| {
                let (invocations, busy_ms, queued_ms, near_bytes, far_bytes) = Default::default();
                tasks.push(TaskType { name, invocations, busy_ms, queued_ms, near_bytes, far_bytes });
                tasks.len() - 1
            });
            let task = &mut tasks[at];
            task.invocations += found.invocations;
            task.busy_ms += found.busy_ns as f64 / 1e6;
            task.queued_ms += found.queued_ns as f64 / 1e6;
            task.near_bytes += found.near_bytes;
            task.far_bytes += found.far_bytes;
        }
    }
    let one_of = |(setting, run): &(usize, usize)| -> anyhow::Result<f64> {
        let plan = machine.plan(&settings[*setting], threads);
        let mut ms = Vec::new();
        for seed in (0..SEEDS).map(|more| args.seed.wrapping_add(more)) {
            let options = Options { parameters: machine.parameters, seed, ..Options::default() };
            let what = || format!("{} under {} can't be simulated", args.traces[*run].display(), settings[*setting]);
            ms.push(runs[*run].wall_ns(machine, &plan, &options).with_context(what)? / 1e6);
        }
        ms.sort_unstable_by(f64::total_cmp);
        Ok(ms[ms.len() / 2])
    };
    let jobs: Vec<(usize, usize)> =
        (0..settings.len()).flat_map(|setting| (0..runs.len()).map(move |run| (setting, run))).collect();
    let ms = on_all_threads(&jobs, "learning", one_of)?;
    let predicted: Vec<&[f64]> = ms.chunks(runs.len()).collect();
    let least: Vec<f64> =
        (0..runs.len()).map(|run| predicted.iter().map(|ms| ms[run]).fold(f64::INFINITY, f64::min)).collect();
    if let Some(run) = least.iter().position(|&ms| ms <= 0.0) {
        bail!("{}: its simulation takes no time, so no strategy is better than another", args.traces[run].display());
    }
    let ratio =
        |ms: &[f64]| (ms.iter().zip(&least).map(|(ms, least)| (ms / least).ln()).sum::<f64>() / ms.len() as f64).exp();
    Ok(Findings {
        machine: machine.name.clone(),
        threads,
        first_seed: args.seed,
        traces: args.traces.iter().map(|path| path.display().to_string()).collect(),
        predicted: settings
            .iter()
            .zip(&predicted)
            .map(|(setting, ms)| Predicted { strategy: setting.to_string(), ms: ms.to_vec(), ratio: ratio(ms) })
            .collect(),
        tasks,
    })
}

impl Findings {
    fn table(&self, best: usize, file: Option<&Path>) -> String {
        let Findings { machine, threads, first_seed, traces, predicted, tasks } = self;
        let s = if *threads == 1 { "" } else { "s" };
        let mut text =
            format!("{machine}, {threads} thread{s}; predicted, the median of {SEEDS} seeds from {first_seed} on\n\n");
        let width = |names: &mut dyn Iterator<Item = usize>, least: usize| names.fold(least, usize::max);
        let first = width(&mut predicted.iter().map(|one| one.strategy.len()), "strategy".len());
        write!(text, "{:first$} {:>7}", "strategy", "ratio").expect(FITS);
        for trace in traces {
            write!(text, "  {trace:>12} ms").expect(FITS);
        }
        text += "\n";
        for one in predicted {
            write!(text, "{:first$} {:>7.3}", one.strategy, one.ratio).expect(FITS);
            for (ms, trace) in one.ms.iter().zip(traces) {
                write!(text, "  {ms:>width$.3}", width = trace.len().max(12) + 3).expect(FITS);
            }
            text += "\n";
        }
        let first = width(&mut tasks.iter().map(|task| task.name.len()), "recorded".len());
        let titles = ["invocations", "busy ms", "queued ms", "near bytes", "far bytes"];
        write!(text, "\n{:first$}", "recorded").expect(FITS);
        titles.iter().for_each(|title| write!(text, " {title:>14}").expect(FITS));
        text += "\n";
        for TaskType { name, invocations, busy_ms, queued_ms, near_bytes, far_bytes } in tasks {
            let row = format!(
                "{name:first$} {invocations:>14} {busy_ms:>14.3} {queued_ms:>14.3} {near_bytes:>14} {far_bytes:>14}"
            );
            writeln!(text, "{row}").expect(FITS);
        }
        writeln!(text, "\nlearned: {}", predicted[best].strategy).expect(FITS);
        if let Some(file) = file {
            writeln!(text, "for runs of the program: VICUS_LEARNED={}", file.display()).expect(FITS);
        }
        text
    }
}

const FITS: &str = "a string takes everything";
