//! `vicus simulate`: a kernel or a recorded run on a described machine, under the same plans as threads follow.

mod cluster;
mod grid;
pub(crate) mod jobs;
mod paper;
mod rows;
mod svg;

use crate::kernel::{self, By};
use crate::messages::{print, tell};
use crate::progress::style;
use crate::{machine, network, strategy, trace};
use anyhow::{Context, ensure};
use indicatif::ProgressBar;
use rows::{Again, Results, Row};
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::time::Duration;
use vicus::Setting;
use vicus::kit::Settings;
use vicus::memory::Distribution;
use vicus_kernels::{AnyKernel, Kernel};
use vicus_network::MachineCounts;
use vicus_schedule::{MOST_THREADS, Plan};
use vicus_sim::{
    Fault, Machine, Parameters, Program, Recorder, Reenactment, Replay, ReplayError, ReplayOptions, SimError,
    SimOptions, SimOutcome, simulate_watched,
};
use vicus_trace::{EventLog, Trace};
use vicus_view::RecordedRun;

/// Options without a meaning for a recorded run. Options that need a kernel are declared to conflict with the trace,
/// because clap drops the need for an option that conflicts with a given one.
const OF_KERNELS: [&str; 6] = ["kernel", "size", "touch", "submission", "streaming", "published"];

/// Predict how long kernels or recorded runs take on a described machine, under the same plans as threads follow.
///
/// Nothing is computed: cores, caches, memory controllers and links are simulated in virtual time. The same seed gives
/// the same run. The model has ten free parameters, the same for all machines; `--set` scales them.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The machine: one of the simulator's, a machine file (.toml), an XML file written by hwloc, one line such as
    /// "node:4 core:8", or a name such as AMD-19h-Zen3-2xEpyc-7763; the last three with default costs. `--machines`
    /// lists the first.
    #[arg(long, value_name = "NAME|FILE|LINE", required_unless_present = "machines")]
    machine: Option<String>,
    /// Lists the simulator's machines.
    #[arg(long)]
    machines: bool,
    #[command(flatten)]
    kernels: kernel::Args,
    /// Instead of kernels, simulates a recorded run: of queries (`vicus query --trace FILE`), in the way of `--mode`,
    /// or of tasks, as of an OpenMP program (`vicus run --trace FILE`). `--distribution` is the one of the store, or of
    /// the tasks' arrays; by default blocked.
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_KERNELS, group = "recording")]
    trace: Option<PathBuf>,
    /// Instead of kernels, simulates a network of boxes (`vicus network`): it is made for the simulated machine's
    /// threads and nodes, runs once here, on one thread, and is then simulated with the costs of that run.
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_KERNELS, group = "recording")]
    network: Option<OsString>,
    /// Gives a parameter of the network a value: most=1000. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = network::setting, requires = "network",
        conflicts_with_all = OF_KERNELS)]
    parameter: Vec<(String, String)>,
    /// How a recorded run is simulated; by default replay, or re-enact for a network.
    #[arg(long, value_enum, requires = "recording", conflicts_with_all = OF_KERNELS)]
    mode: Option<Mode>,
    /// Only the requests with these numbers in the trace. Loading is a request as well, usually the first.
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "trace", conflicts_with_all = OF_KERNELS)]
    requests: Vec<u32>,
    /// How many times the recorded requests run at once.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "recording", conflicts_with_all = OF_KERNELS,
        value_parser = clap::value_parser!(u16).range(1..))]
    copies: u16,
    /// How fast a core of the recording machine moves a task's bytes, in GB/s: used to subtract a task's time for
    /// memory.
    #[arg(long, value_name = "GB/S", default_value_t = 10.0, requires = "recording", conflicts_with_all = OF_KERNELS)]
    recorded_gb_per_s: f64,
    /// The strategies to compare, a list such as las,nls:spares=2,steal; by default the ones of VICUS_STRATEGY, else
    /// vicus, or las for re-enactments.
    #[arg(long, value_name = "LIST")]
    strategy: Vec<Settings>,
    /// How many threads; by default one for each PU of the machine, and not more.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// The seed of chance on a real machine: when each thread begins, and which of several threads is faster.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Scales a free parameter of the model: spawn_cycles=1.25. An unknown name lists the parameters.
    #[arg(long, value_name = "NAME=FACTOR", value_parser = scaling)]
    set: Vec<(String, f64)>,
    /// How much the times of equal pieces of work differ, as a share: 0 is not at all. By default the measured value in
    /// the table's second line.
    #[arg(long, value_name = "SHARE", value_parser = jitter)]
    jitter: Option<f64>,
    /// A thread that becomes slower at a time: THREAD=FACTOR or THREAD=FACTOR@NANOSECONDS.
    #[arg(long, value_name = "FAULT", value_parser = slow)]
    slow: Vec<Fault>,
    /// A thread with a delayed first wake-up after a time: THREAD=NANOSECONDS or THREAD=NANOSECONDS@NANOSECONDS.
    #[arg(long, value_name = "FAULT", value_parser = late_wake)]
    late_wake: Vec<Fault>,
    /// Writes one file that shows the simulated run, as `vicus trace view` does; beside it the recorded run, if one is
    /// simulated. For one kernel under one strategy.
    #[arg(long, value_name = "FILE.html")]
    view: Option<PathBuf>,
    /// The output: a table, JSON, or a picture of each run's time line, with the memory latency as a task's colour.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Reproduce the papers' figures, and check their claims.
    Paper(paper::Args),
    /// Compare all strategies on all machines with all workloads.
    Grid(grid::Args),
    /// Predict how long a network takes over several machines.
    Network(cluster::Args),
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// All tasks, each as long as recorded without its time for memory, and started by the same tasks.
    Replay,
    /// The flow protocol itself, with the recorded costs of each box's rows: the number and the inputs of a box's
    /// invocations depend on the simulated schedule.
    ReEnact,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Table,
    Json,
    Svg,
}

impl Args {
    /// How a recorded run is simulated.
    fn mode(&self) -> Mode {
        self.mode.unwrap_or(if self.network.is_some() { Mode::ReEnact } else { Mode::Replay })
    }
}

/// The least factor of a slow thread or a scaled parameter; below, the greatest.
const LEAST: f64 = 0.001;
const MOST: f64 = 1_000_000.0;
/// The greatest time or delay allowed: a quarter of an hour.
const MOST_NS: f64 = 1e12;

fn is_factor(factor: &f64) -> bool {
    (LEAST..=MOST).contains(factor)
}

fn scaling(text: &str) -> Result<(String, f64), String> {
    let expected = || {
        let names = Parameters::NAMES.join(", ");
        format!("expected NAME=FACTOR with a name of {names}, and a factor from {LEAST} to {MOST}")
    };
    let (name, factor) = text.split_once('=').ok_or_else(expected)?;
    let factor: f64 = factor.parse().ok().filter(is_factor).ok_or_else(expected)?;
    Parameters::default().scaled(name, factor).ok_or_else(expected)?;
    Ok((name.to_owned(), factor))
}

fn jitter(text: &str) -> Result<f64, String> {
    let most = Parameters::MOST_JITTER;
    let share = text.parse().ok().filter(|share| (0.0..=most).contains(share));
    share.ok_or_else(|| format!("expected a share from 0 to {most}, such as 0.03"))
}

fn slow(text: &str) -> Result<Fault, String> {
    let parse = || {
        let (seat, rest) = text.split_once('=')?;
        let (factor, from) = rest.split_once('@').unwrap_or((rest, "0"));
        let (factor, from_ns): (f64, f64) = (factor.parse().ok()?, from.parse().ok()?);
        let fault = Fault::Slow { seat: seat.parse().ok()?, factor, from_ns };
        (is_factor(&factor) && (0.0..=MOST_NS).contains(&from_ns)).then_some(fault)
    };
    parse().ok_or_else(|| {
        format!(
            "expected THREAD=FACTOR or THREAD=FACTOR@NANOSECONDS, such as 3=2.5, with a factor from {LEAST} to {MOST}"
        )
    })
}

fn late_wake(text: &str) -> Result<Fault, String> {
    let parse = || {
        let (seat, rest) = text.split_once('=')?;
        let (by, from) = rest.split_once('@').unwrap_or((rest, "0"));
        let (by_ns, from_ns): (f64, f64) = (by.parse().ok()?, from.parse().ok()?);
        let fault = Fault::LateWake { seat: seat.parse().ok()?, by_ns, from_ns };
        [by_ns, from_ns].iter().all(|ns| (0.0..=MOST_NS).contains(ns)).then_some(fault)
    };
    parse().ok_or_else(|| "expected THREAD=NANOSECONDS or THREAD=NANOSECONDS@NANOSECONDS, such as 3=50000".to_owned())
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match &args.command {
        Some(Command::Paper(args)) => paper::run(args),
        Some(Command::Grid(args)) => grid::run(args),
        Some(Command::Network(args)) => cluster::run(args),
        None if args.machines => print(&list()),
        None => print(&simulate_all(&args)?),
    }
}

fn list() -> String {
    Machine::names().filter_map(Machine::by_name).fold(String::new(), |mut text, machine| {
        writeln!(text, "{:16} {}", machine.name, machine.title).expect("a string takes everything");
        text
    })
}

/// The machine named by the text.
pub(crate) fn machine(text: &str) -> anyhow::Result<Machine> {
    match machine::with_costs(text)? {
        Some(machine) => Ok(machine),
        None => Ok(Machine::from_topology(machine::named(text)?)),
    }
}

fn simulate_all(args: &Args) -> anyhow::Result<String> {
    let default = if args.mode() == Mode::ReEnact { vicus::kit::DEFAULT_OF_QUERIES } else { vicus::DEFAULT };
    let strategies = strategy::several(&args.strategy, default)?;
    let machine = machine(args.machine.as_deref().expect("clap requires it"))?;
    let threads = args.threads.map_or_else(|| machine.topology.usable_pus().count(), usize::from);
    check_threads(threads, &machine)?;
    let options = options(args, &machine, threads)?;
    let mut results = Results::new(&machine, &options);
    let (mut pictures, mut views) = (Vec::new(), Vec::new());
    let recording = SimOptions { trace: args.view.as_ref().map(|_| EventLog::DEFAULT_ROOM), ..options.clone() };
    for subject in subjects(args, &machine, threads)? {
        let Prepared { name, distribution, alone, all, recorded } = subject.prepare(threads);
        results.recorded = recorded;
        for setting in &strategies {
            let what = format!("{name} under {setting}");
            let (one, _) = one_of(&machine, setting, 1, &alone, &options, &format!("{what}, one thread"))?;
            let (mut outcome, reenacted) = one_of(&machine, setting, threads, &all, &recording, &what)?;
            views.extend(outcome.trace.take().map(|trace| {
                let run = RecordedRun::new(format!("{what}, simulated"), trace);
                trace::with_costs(run, &machine, format!("the model of {}", machine.name))
            }));
            results.rows.push(Row::of(&name, &distribution, &outcome, &one, reenacted));
            if args.format == Format::Svg {
                pictures.push(outcome);
            }
        }
    }
    if let Some(file) = &args.view {
        ensure!(views.len() == 1, "--view shows one run, and these are {}: name one kernel and strategy", views.len());
        let recorded = match &args.trace {
            Some(path) => trace::runs(path)?,
            None => Vec::new(),
        };
        trace::write_page(file, recorded.into_iter().chain(views).collect())?;
    }
    match args.format {
        Format::Table => Ok(results.table()),
        Format::Json => results.json(),
        Format::Svg => Ok(svg::render(&results.heading(), &pictures)),
    }
}

/// Checks that a machine can simulate this number of threads.
pub(crate) fn check_threads(threads: usize, machine: &Machine) -> anyhow::Result<()> {
    let pus = machine.topology.usable_pus().count();
    ensure!(threads <= pus, "--threads {threads}: {} has {pus} PUs, and each simulates one thread", machine.name);
    ensure!(
        threads <= MOST_THREADS,
        "{} has {pus} PUs, and at most {MOST_THREADS} threads are simulated: say how many by --threads",
        machine.name
    );
    Ok(())
}

/// The program to simulate.
enum Subject {
    Kernel(AnyKernel, String),
    Recorded(Prepared),
}

/// The program as tasks: for one thread, and for all.
struct Prepared {
    name: String,
    distribution: String,
    alone: Task,
    all: Task,
    recorded: Option<Recorded>,
}

/// Figures about a trace.
#[derive(Serialize)]
struct Recorded {
    trace: String,
    mode: &'static str,
    /// The tasks of a replay, or the invocations of a re-enactment.
    tasks: u64,
    recorded_ms: f64,
    /// The recorded time without the time for memory.
    replayed_ms: f64,
    taken_off_ms: f64,
    /// The memory's speed assumed for it.
    gb_per_s: f64,
    /// Whether the tasks are no boxes: then the time of their spawns was taken off as well.
    is_of_tasks: bool,
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recorded { trace, mode, tasks, recorded_ms, replayed_ms, taken_off_ms, gb_per_s, is_of_tasks } = self;
        let tasks_are = if *mode == REPLAY { "tasks" } else { "invocations" };
        let spawns = if *is_of_tasks { ", and for spawns" } else { "" };
        writeln!(
            f,
            "{mode} of {trace}: {tasks} {tasks_are}, {recorded_ms:.3} ms recorded, {replayed_ms:.3} ms replayed and \
             {taken_off_ms:.3} ms taken off as time for memory at {gb_per_s} GB/s{spawns}"
        )
    }
}

const REPLAY: &str = "replay";

/// The work of a simulated machine.
#[derive(Clone)]
pub(crate) enum Task {
    Program(Arc<Program>),
    Recorded(Arc<Reenactment>),
}

impl Task {
    fn of(program: Program) -> Task {
        Task::Program(Arc::new(program))
    }

    /// How long it takes, in nanoseconds.
    pub(crate) fn wall_ns(&self, machine: &Machine, plan: &Plan, options: &SimOptions) -> Result<f64, SimError> {
        Ok(self.simulate(machine, plan, options, &mut |_| true)?.0.wall_ns)
    }

    /// The tasks with their arrays laid out in this way; `None` if the distribution is a store's.
    pub(crate) fn lying(&self, distribution: &Distribution) -> Option<Arc<Program>> {
        let Task::Program(program) = self else { return None };
        let mut program = Program::clone(program);
        program.arrays.iter_mut().for_each(|array| array.distribution = distribution.clone());
        Some(Arc::new(program))
    }

    /// Simulates it. `watch` is told how many tasks are done.
    fn simulate(
        &self,
        machine: &Machine,
        plan: &Plan,
        options: &SimOptions,
        watch: &mut dyn FnMut(usize) -> bool,
    ) -> Result<(SimOutcome, Option<Again>), SimError> {
        match self {
            Task::Program(program) => {
                simulate_watched(machine, plan, program, options, watch).map(|outcome| (outcome, None))
            }
            Task::Recorded(recorded) => recorded
                .simulate(machine, plan, options, watch)
                .map(|(outcome, again)| (outcome, Some(Again::of(recorded, &again)))),
        }
    }

    /// About how many tasks it has.
    fn size(&self) -> u64 {
        match self {
            Task::Program(program) => program.tasks.len() as u64,
            Task::Recorded(reenactment) => reenactment.invocations,
        }
    }
}

fn subjects(args: &Args, machine: &Machine, threads: usize) -> anyhow::Result<Vec<Subject>> {
    if let Some(path) = &args.trace {
        return recorded(path, &trace::read(path)?, args);
    }
    if let Some(file) = &args.network {
        let counts = MachineCounts { threads, nodes: machine.topology.nodes.len() };
        let text = network::TextArgs { file: file.clone(), set: args.parameter.clone() };
        let spinner = spinner(format!("recording {}", Path::new(file).display()));
        let trace = text.record(counts)?;
        spinner.finish_and_clear();
        return recorded(Path::new(file), &trace, args);
    }
    let kernels = args.kernels.kernels(By::Simulation)?;
    let variants = kernels.iter().flat_map(|kernel| args.kernels.variants(kernel));
    Ok(variants.map(|(kernel, distribution)| Subject::Kernel(kernel, distribution)).collect())
}

impl Subject {
    /// Records a kernel; with many tasks, this takes a moment.
    fn prepare(self, threads: usize) -> Prepared {
        let (kernel, distribution) = match self {
            Subject::Kernel(kernel, distribution) => (kernel, distribution),
            Subject::Recorded(prepared) => return prepared,
        };
        let name = kernel.name().to_owned();
        let spinner = spinner(format!("recording {name}"));
        let alone = Task::of(Recorder::record(&kernel, 1));
        // Only jacobi3d has loops dealt to threads.
        let asks_for_threads = matches!(kernel, AnyKernel::Jacobi3d(_)) && threads > 1;
        let all = if asks_for_threads { Task::of(Recorder::record(&kernel, threads)) } else { alone.clone() };
        spinner.finish_and_clear();
        Prepared { name, distribution, alone, all, recorded: None }
    }
}

/// A recorded run, for each requested distribution of its store.
fn recorded(path: &Path, trace: &Trace, args: &Args) -> anyhow::Result<Vec<Subject>> {
    let bytes_per_ns = args.recorded_gb_per_s;
    ensure!(bytes_per_ns > 0.0, "--recorded-gb-per-s {bytes_per_ns}: expected a positive number");
    let options = ReplayOptions {
        requests: args.requests.clone(),
        copies: args.copies.into(),
        bytes_per_ns,
        ..ReplayOptions::default()
    };
    let distributions = args.kernels.distributions();
    let stores = if distributions.is_empty() { slice::from_ref(&options.store) } else { distributions };
    let subject = |store: &Distribution| {
        let options = ReplayOptions { store: store.clone(), ..options.clone() };
        Ok(Subject::Recorded(lying(path, trace, args.mode(), &options)?))
    };
    stores.iter().map(subject).collect()
}

/// A recorded run, to be simulated.
pub(crate) fn recorded_run(path: &Path, trace: &Trace, mode: Mode, options: &ReplayOptions) -> anyhow::Result<Task> {
    Ok(lying(path, trace, mode, options)?.all)
}

/// A recorded run with its store laid out by the options.
fn lying(path: &Path, trace: &Trace, mode: Mode, options: &ReplayOptions) -> anyhow::Result<Prepared> {
    let shown = path.display();
    let mut is_of_tasks = false;
    let enacted = match mode {
        Mode::Replay => None,
        Mode::ReEnact => match Reenactment::of(trace, options) {
            Err(error @ ReplayError::Grown { .. }) => {
                tell(format_args!("vicus: {shown}: {error}; it is replayed"));
                None
            }
            enacted => Some(enacted.with_context(|| shown.to_string())?),
        },
    };
    let (name, mode, tasks, ns, task) = match enacted {
        None => {
            let replay = Replay::of(trace, options).with_context(|| shown.to_string())?;
            is_of_tasks = replay.boxes.iter().all(Option::is_none);
            let (tasks, ns) = (replay.program.tasks.len() as u64 - 1, (replay.recorded_ns, replay.taken_off_ns));
            (REPLAY, REPLAY, tasks, ns, Task::of(replay.program))
        }
        Some(enacted) => {
            let ns = (enacted.recorded_ns, enacted.taken_off_ns);
            ("re-enact", "re-enactment", enacted.invocations, ns, Task::Recorded(Arc::new(enacted)))
        }
    };
    let recorded = Recorded {
        trace: shown.to_string(),
        mode,
        tasks,
        recorded_ms: ns.0 / 1e6,
        replayed_ms: (ns.0 - ns.1) / 1e6,
        taken_off_ms: ns.1 / 1e6,
        gb_per_s: options.bytes_per_ns,
        is_of_tasks,
    };
    let (name, distribution) = (name.to_owned(), options.store.to_string());
    Ok(Prepared { name, distribution, alone: task.clone(), all: task, recorded: Some(recorded) })
}

fn options(args: &Args, machine: &Machine, threads: usize) -> anyhow::Result<SimOptions> {
    let parameters = args.set.iter().fold(machine.parameters, |parameters, (name, factor)| {
        parameters.scaled(name, *factor).expect("the name was looked up when it was read")
    });
    let parameters = match args.jitter {
        Some(jitter) => Parameters { jitter, ..parameters },
        None => parameters,
    };
    for (option, faults) in [("--slow", &args.slow), ("--late-wake", &args.late_wake)] {
        for fault in faults {
            let (Fault::Slow { seat, .. } | Fault::LateWake { seat, .. }) = fault;
            ensure!(*seat < threads, "{option} {seat}=...: there are threads 0 to {} only", threads - 1);
        }
    }
    let faults = args.slow.iter().chain(&args.late_wake).copied().collect();
    Ok(SimOptions { parameters, seed: args.seed, faults, ..SimOptions::default() })
}

/// Simulates, with a progress bar.
fn one_of(
    machine: &Machine,
    setting: &Setting,
    threads: usize,
    task: &Task,
    options: &SimOptions,
    what: &str,
) -> anyhow::Result<(SimOutcome, Option<Again>)> {
    let plan = machine.plan(setting, threads);
    let bar = progress(task.size(), what);
    let mut watch = |done| {
        bar.set_position(done as u64);
        true
    };
    let outcome = task.simulate(machine, &plan, options, &mut watch);
    bar.finish_and_clear();
    outcome.with_context(|| format!("{what} can't be simulated"))
}

/// On a terminal, a bar of the finished tasks of a long run.
fn progress(tasks: u64, what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = style("{msg} {bar:30} {human_pos} of {human_len} tasks{left}");
    let bar = ProgressBar::new(tasks).with_style(style);
    bar.with_message(what.to_owned())
}

/// On a terminal, a sign of progress.
fn spinner(what: String) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::new_spinner().with_message(what);
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner
}
