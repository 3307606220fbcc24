//! `vicus simulate`: a kernel or a recorded run on a machine that is only described, under the same plans as threads follow.

mod paper;
mod svg;

use crate::{kernel, trace};
use anyhow::{Context, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use vicus::Setting;
use vicus_kernels::Kernel;
use vicus_sim::{
    Fault, Machine, Options, Outcome, Parameters, Program, Recorder, Reenacted, Reenactment, Replay, ReplayOptions,
    simulate_watched,
};

/// Predict how long kernels take on a machine that is only described, under the same plans as threads follow.
///
/// Nothing is computed: cores, caches, memory controllers and links are simulated in virtual time. The same seed gives the same
/// run. The model has eight free parameters, the same for all machines, which `--set` scales.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The machine: one of those that come with the simulator, a machine file (.toml), an XML file that hwloc wrote, one line
    /// such as "node:4 core:8", or one that `vicus topology --from` knows; the last three with default costs. `--machines` lists the first.
    #[arg(long, value_name = "NAME|FILE|LINE", required_unless_present = "machines")]
    machine: Option<String>,
    /// Lists the machines that come with the simulator.
    #[arg(long)]
    machines: bool,
    #[command(flatten)]
    kernels: kernel::Args,
    /// Instead of kernels, simulates what was recorded (`vicus query --trace FILE`); `--mode` says how.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kernel", "size"])]
    trace: Option<PathBuf>,
    /// How a recorded run is simulated.
    #[arg(long, value_enum, default_value_t = Mode::Replay, requires = "trace")]
    mode: Mode,
    /// Takes these requests only, by their numbers in the trace: loading is a request as well, usually the first.
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "trace")]
    requests: Vec<u32>,
    /// How many times the recorded requests run at once.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "trace", value_parser = clap::value_parser!(u16).range(1..))]
    copies: u16,
    /// How fast a core of the machine that recorded moves a task's bytes, in GB/s: its time for memory is taken off by this.
    #[arg(long, value_name = "GB/S", default_value_t = 10.0, requires = "trace")]
    recorded_gb_per_s: f64,
    /// The strategies to compare; for several, give it several times.
    #[arg(long, value_name = "STRATEGY", default_value = "las", env = "VICUS_STRATEGY")]
    strategy: Vec<Setting>,
    /// How many threads; by default one for each PU of the machine.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// What real machines leave to chance: when each thread begins, who of several is quicker.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Scales a free parameter of the model: spawn_cycles=1.25. Without a name that exists, they are listed.
    #[arg(long, value_name = "NAME=FACTOR", value_parser = scaling)]
    set: Vec<(String, f64)>,
    /// A thread that is slower from a time on: THREAD=FACTOR or THREAD=FACTOR@NANOSECONDS.
    #[arg(long, value_name = "FAULT", value_parser = slow)]
    slow: Vec<Fault>,
    /// What is written: a table, JSON, or a picture of each run's time line, where a task's colour is its memory latency.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Do the papers' figures again, and say which of their claims hold.
    Paper(paper::Args),
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// The same tasks, each as long as it was without its time for memory, let go by the same ones.
    Replay,
    /// The flow protocol itself, with what each box's rows cost: what a box finds when it is invoked, and so how often it is,
    /// depends on who runs it.
    ReEnact,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Table,
    Json,
    Svg,
}

/// From where to where something is slowed down, or a parameter scaled.
const LEAST: f64 = 0.001;
const MOST: f64 = 1_000_000.0;

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

fn slow(text: &str) -> Result<Fault, String> {
    let parse = || {
        let (seat, rest) = text.split_once('=')?;
        let (factor, from) = rest.split_once('@').unwrap_or((rest, "0"));
        let (seat, factor, from_ns) = (seat.parse().ok()?, factor.parse().ok()?, from.parse().ok()?);
        (is_factor(&factor) && from_ns >= 0.0).then_some(Fault::Slow { seat, factor, from_ns })
    };
    parse().ok_or_else(|| {
        format!(
            "expected THREAD=FACTOR or THREAD=FACTOR@NANOSECONDS, such as 3=2.5, with a factor from {LEAST} to {MOST}"
        )
    })
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match &args.command {
        Some(Command::Paper(args)) => paper::run(args),
        None if args.machines => print(&list()),
        None => print(&simulate_all(&args)?),
    }
}

/// Writes to where users read, who may have read enough.
pub(crate) fn print(shown: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(shown.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

fn list() -> String {
    Machine::names().filter_map(Machine::by_name).fold(String::new(), |mut text, machine| {
        writeln!(text, "{:16} {}", machine.name, machine.title).expect("a string takes everything");
        text
    })
}

/// The machine that a text means.
fn machine(text: &str) -> anyhow::Result<Machine> {
    if let Some(machine) = Machine::by_name(text) {
        return Ok(machine);
    }
    if text.ends_with(".toml") {
        let file = std::fs::read_to_string(text).with_context(|| format!("{text} can't be read"))?;
        return Ok(Machine::parse(text, &file)?);
    }
    match crate::machine::named(text) {
        Ok(topology) => Ok(Machine::from_topology(topology)),
        Err(error) => {
            let names: Vec<&str> = Machine::names().collect();
            bail!(
                "`{text}` is none of the machines {}, no file ending in .toml, and otherwise: {error}",
                names.join(", ")
            )
        }
    }
}

/// One line of the result.
#[derive(Serialize)]
struct Row {
    kernel: String,
    strategy: String,
    distribution: String,
    threads: usize,
    ms: f64,
    /// Against the same strategy and distribution on one thread.
    speedup: f64,
    /// Time in work, against that on one thread.
    work_inflation: f64,
    near_bytes: f64,
    far_bytes: f64,
    cached_bytes: f64,
    /// The busiest controller's share of what it could carry.
    controller: f64,
    /// The busiest link's.
    link: f64,
    takes: BTreeMap<u8, u64>,
    /// By name, the share of what each shared resource could carry.
    resources: BTreeMap<String, f64>,
    /// What was enacted again, and what was recorded of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reenacted: Option<Again>,
}

/// A re-enactment beside what was recorded.
#[derive(Clone, Copy, Serialize)]
struct Again {
    recorded_ms: f64,
    work_ms: f64,
    recorded_invocations: u64,
    invocations: u64,
}

fn simulate_all(args: &Args) -> anyhow::Result<String> {
    let machine = machine(args.machine.as_deref().expect("clap requires it"))?;
    let threads = args.threads.map_or_else(|| machine.topology.usable_pus().count(), usize::from);
    let options = options(args, &machine);
    let (mut rows, mut pictures) = (Vec::new(), Vec::new());
    let mut heading = format!("{}: {}\n{}, seed {}\n", machine.name, machine.title, options.parameters, options.seed);
    for subject in subjects(args, threads)? {
        heading.push_str(&subject.says);
        for setting in &args.strategy {
            let what = format!("{} under {setting}", subject.name);
            let (one, _) = one_of(&machine, setting, 1, &subject.alone, &options, &format!("{what}, one thread"))?;
            let (outcome, again) = one_of(&machine, setting, threads, &subject.all, &options, &what)?;
            if let Some(again) = &again {
                heading.push_str(&again.says(setting));
            }
            rows.push(Row { reenacted: again, ..row(&subject.name, &subject.distribution, &outcome, &one) });
            pictures.push(outcome);
        }
    }
    match args.format {
        Format::Table => Ok(table(heading, &rows)),
        Format::Json => Ok(serde_json::to_string_pretty(&rows)? + "\n"),
        Format::Svg => Ok(svg::render(&pictures)),
    }
}

/// What is simulated: on one thread, and on all.
struct Subject {
    name: String,
    distribution: String,
    alone: Task,
    all: Task,
    /// What there is to say of it, in a line.
    says: String,
}

/// What a simulated machine has to do.
#[derive(Clone)]
enum Task {
    Program(Rc<Program>),
    Recorded(Rc<Reenactment>),
}

impl Task {
    fn of(program: Program) -> Task {
        Task::Program(Rc::new(program))
    }

    /// About how many tasks it has.
    fn size(&self) -> u64 {
        match self {
            Task::Program(program) => program.tasks.len() as u64,
            Task::Recorded(reenactment) => reenactment.invocations,
        }
    }
}

impl Again {
    fn of(recorded: &Reenactment, again: &Reenacted) -> Again {
        Again {
            recorded_ms: recorded.recorded_ns / 1e6,
            work_ms: again.work_ns / 1e6,
            recorded_invocations: recorded.invocations,
            invocations: again.invocations,
        }
    }

    fn says(&self, setting: &Setting) -> String {
        let Again { recorded_ms, work_ms, recorded_invocations, invocations } = self;
        format!(
            "re-enacted under {setting}: {work_ms:.3} ms of work, {recorded_ms:.3} recorded; \
             {invocations} invocations, {recorded_invocations} recorded\n"
        )
    }
}

fn subjects(args: &Args, threads: usize) -> anyhow::Result<Vec<Subject>> {
    if let Some(path) = &args.trace {
        return Ok(vec![recorded(path, args)?]);
    }
    let mut subjects = Vec::new();
    for kernel in args.kernels.kernels()? {
        for (kernel, distribution) in args.kernels.variants(&kernel) {
            let (alone, all) = (Task::of(Recorder::record(&kernel, 1)), Task::of(Recorder::record(&kernel, threads)));
            subjects.push(Subject { name: kernel.name().to_owned(), distribution, alone, all, says: String::new() });
        }
    }
    Ok(subjects)
}

fn recorded(path: &Path, args: &Args) -> anyhow::Result<Subject> {
    let trace = trace::read(path)?;
    let bytes_per_ns = args.recorded_gb_per_s;
    ensure!(bytes_per_ns > 0.0, "--recorded-gb-per-s {bytes_per_ns}: expected a positive number");
    let options = ReplayOptions {
        requests: args.requests.clone(),
        copies: args.copies.into(),
        bytes_per_ns,
        ..ReplayOptions::default()
    };
    let shown = path.display();
    let off = |ns: f64| format!("of which {:.3} ms are taken off as time for memory at {bytes_per_ns} GB/s", ns / 1e6);
    let (name, task, says) = match args.mode {
        Mode::Replay => {
            let replay = Replay::of(&trace, &options).with_context(|| shown.to_string())?;
            let (tasks, ms) = (replay.program.tasks.len() - 1, replay.recorded_ns / 1e6);
            let says = format!("replay of {shown}: {tasks} tasks, {ms:.3} ms recorded, {}\n", off(replay.taken_off_ns));
            ("replay", Task::of(replay.program), says)
        }
        Mode::ReEnact => {
            let enacted = Reenactment::of(&trace, &options).with_context(|| shown.to_string())?;
            let (count, ms) = (enacted.invocations, enacted.recorded_ns / 1e6);
            let off = off(enacted.taken_off_ns);
            let says = format!("re-enactment of {shown}: {count} invocations, {ms:.3} ms recorded, {off}\n");
            ("re-enact", Task::Recorded(Rc::new(enacted)), says)
        }
    };
    Ok(Subject { name: name.to_owned(), distribution: String::new(), alone: task.clone(), all: task, says })
}

fn options(args: &Args, machine: &Machine) -> Options {
    let parameters = args.set.iter().fold(machine.parameters, |parameters, (name, factor)| {
        parameters.scaled(name, *factor).expect("the name was looked up when it was read")
    });
    Options { parameters, seed: args.seed, faults: args.slow.clone(), ..Options::default() }
}

/// Simulates, and shows how far it is.
fn one_of(
    machine: &Machine,
    setting: &Setting,
    threads: usize,
    task: &Task,
    options: &Options,
    what: &str,
) -> anyhow::Result<(Outcome, Option<Again>)> {
    let plan = machine.plan(setting, threads);
    let bar = progress(task.size(), what);
    let mut watch = |done| {
        bar.set_position(done as u64);
        true
    };
    let outcome = match task {
        Task::Program(program) => {
            simulate_watched(machine, &plan, program, options, &mut watch).map(|outcome| (outcome, None))
        }
        Task::Recorded(recorded) => recorded
            .simulate(machine, &plan, options, &mut watch)
            .map(|(outcome, again)| (outcome, Some(Again::of(recorded, &again)))),
    };
    bar.finish_and_clear();
    outcome.with_context(|| format!("{what} can't be simulated"))
}

/// On a terminal, how many tasks of a long run are over.
fn progress(tasks: u64, what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {bar:30} {human_pos} of {human_len} tasks, {eta} left");
    let bar = ProgressBar::new(tasks).with_style(style.expect("the template is well formed"));
    bar.with_message(what.to_owned())
}

fn row(kernel: &str, distribution: &str, outcome: &Outcome, one: &Outcome) -> Row {
    let busiest = |prefix: &str| {
        let of_kind = outcome.resources.iter().filter(|used| used.name.starts_with(prefix));
        of_kind.map(|used| used.share).fold(0.0, f64::max)
    };
    Row {
        kernel: kernel.to_owned(),
        strategy: outcome.strategy.clone(),
        distribution: distribution.to_owned(),
        threads: outcome.threads,
        ms: outcome.wall_ns / 1e6,
        speedup: outcome.speedup_over(one),
        work_inflation: outcome.work_inflation_over(one),
        near_bytes: outcome.counts.near_bytes,
        far_bytes: outcome.counts.far_bytes,
        cached_bytes: outcome.counts.cached_bytes,
        controller: busiest("controller"),
        link: busiest("link"),
        takes: outcome.counts.takes.clone(),
        resources: outcome.resources.iter().map(|used| (used.name.clone(), used.share)).collect(),
        reenacted: None,
    }
}

fn table(heading: String, rows: &[Row]) -> String {
    let mut text = heading + "\n";
    writeln!(
        text,
        "{:10} {:24} {:12} {:>10} {:>8} {:>9} {:>9} {:>9} {:>10} {:>6}  takes by rule",
        "kernel", "strategy", "distribution", "ms", "speed-up", "inflation", "near GB", "far GB", "controller", "link"
    )
    .expect("a string takes everything");
    for row in rows {
        let takes: Vec<String> = row.takes.iter().map(|(rule, takes)| format!("{rule}: {takes}")).collect();
        writeln!(
            text,
            "{:10} {:24} {:12} {:>10.3} {:>8.2} {:>9.2} {:>9.3} {:>9.3} {:>8.0} % {:>4.0} %  {}",
            row.kernel,
            row.strategy,
            row.distribution,
            row.ms,
            row.speedup,
            row.work_inflation,
            row.near_bytes / 1e9,
            row.far_bytes / 1e9,
            100.0 * row.controller,
            100.0 * row.link,
            takes.join(", ")
        )
        .expect("a string takes everything");
    }
    text
}
