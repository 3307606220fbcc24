//! `vicus learn`: the strategy and the distribution of data that suit a program on a machine, from traces of its runs.
//!
//! Each trace is simulated under each strategy, and the strategy `vicus` also with other values of its parameters. If
//! tasks name their data, each strategy is tried with each distribution. The simulator's prediction decides, and not
//! the time of a recorded run: a run shows one strategy, under the load of its day. With the best pair, other
//! treatments are then tried for each type of tasks and each size of blocks (`parts.rs`).

use crate::messages::print;
use crate::simulate::jobs::on_all_threads;
use crate::simulate::{Mode, Task, check_threads, machine, recorded_run};
use crate::{strategy, trace};
use anyhow::{Context, bail};
use parts::Parts;
use serde::Serialize;
use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use vicus::kit::{Learned, Settings};
use vicus::memory::Distribution;
use vicus::trace::Trace;
use vicus::{STRATEGIES, Setting, Topology, this_machine};
use vicus_schedule::Plan;
use vicus_sim::{LeafSums, Machine, Program, ReplayOptions, SimError, SimOptions, SimOutcome, simulate};

mod parts;
mod shown;

/// See `vicus learn --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The traces, of one program, with typical inputs. Each has the same weight.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Writes the findings to this file.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The machine to run the program on, as for `vicus simulate --machine`; by default this one with default costs.
    /// `vicus calibrate --output FILE` writes a machine file with this one's costs.
    #[arg(long, value_name = "NAME|FILE|LINE")]
    machine: Option<String>,
    /// The strategies to try, a list such as las,vicus:memory=20,steal. Of the ones within a percent of the best, the
    /// first one of the list is kept, with the first distribution that makes it as good.
    #[arg(long, value_name = "LIST")]
    strategy: Vec<Settings>,
    /// How many threads the program has; by default one for each usable PU, as in runtimes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// How a trace is simulated.
    #[arg(long, value_enum, default_value_t = Mode::Replay)]
    mode: Mode,
    /// The distributions to try for the arrays of tasks, each by an option of its own: by default standard, coarse,
    /// fine and blocked. For traces of queries, the one distribution of the store; by default blocked.
    #[arg(long, value_name = "DISTRIBUTION")]
    distribution: Vec<Distribution>,
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

/// A strategy earlier in the list is kept if its time is at most this many times the least.
const AS_GOOD: f64 = 1.01;

/// The distributions to try if none is named, in the order of preference among equals: the ones without a setting
/// first.
const DISTRIBUTIONS: [Distribution; 4] =
    [Distribution::Standard, Distribution::Coarse, Distribution::Fine, Distribution::Blocked];

/// The findings. In the file they are the part that no run uses.
#[derive(Serialize)]
struct Findings {
    machine: String,
    threads: usize,
    first_seed: u64,
    traces: Vec<String>,
    /// In the order of trying: by distribution, and there by strategy.
    predicted: Vec<Predicted>,
    /// Why no distribution is advised, or a remark on the advised ones.
    of_distributions: String,
    /// With tried distributions, the types of tasks under the best strategy with each of them.
    types: Vec<TypeAdvice>,
    /// With tried distributions, the treatments that suit single types of tasks and blocks under the choice for all.
    parts: Parts,
    tasks: Vec<TaskType>,
}

/// The simulator's prediction for a strategy.
#[derive(Serialize)]
struct Predicted {
    strategy: String,
    /// `None`: distributions were not tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    distribution: Option<String>,
    /// The times by trace.
    ms: Vec<f64>,
    /// The geometric mean over the traces of its time, divided by the least of all there.
    ratio: f64,
}

/// How a type of tasks fares with each distribution, all traces together.
#[derive(Serialize)]
struct TypeAdvice {
    name: String,
    tasks: u64,
    /// The distribution with the least working time of its tasks; the first one of those within a percent.
    best: String,
    with: Vec<TypeWith>,
}

/// A type of tasks with a distribution, under the best strategy with it.
#[derive(Clone, Serialize)]
struct TypeWith {
    distribution: String,
    strategy: String,
    /// The working time of all its tasks.
    busy_ms: f64,
    /// Bytes from near and far memory.
    bytes: f64,
    /// The near part of the bytes from memory.
    near_share: f64,
}

/// A type of boxes or tasks, as the traces have it.
#[derive(Serialize)]
struct TaskType {
    name: String,
    invocations: u64,
    busy_ms: f64,
    /// The time of all its tasks in queues.
    queued_ms: f64,
    /// Used by boxes and tasks from memory of their seat's node.
    near_bytes: u64,
    /// The bytes from other nodes.
    far_bytes: u64,
}

/// A trace in the simulator: its tasks, and the same with their arrays laid out by each tried distribution.
struct Recorded {
    task: Task,
    lying: Vec<Arc<Program>>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(path) = &args.output {
        // Found out now, not after the work.
        Learned::check_writable(path).with_context(|| format!("{}: can't be written", path.display()))?;
    }
    let traces: Vec<Trace> = args.traces.iter().map(|path| trace::read(path)).collect::<Result<_, _>>()?;
    let settings = candidates(&args.strategy, traces.iter().all(is_of_tasks))?;
    let (machine, topology) = where_it_runs(args.machine.as_deref())?;
    let threads = args.threads.map_or_else(|| machine.topology.default_threads(), usize::from);
    check_threads(threads, &machine)?;
    let (findings, distributions) = findings(args, &traces, &machine, threads, &settings)?;
    let best = suits(&findings.predicted.iter().map(|one| one.ratio).collect::<Vec<_>>());
    let (setting, distribution) = (&settings[best % settings.len()], distributions.get(best / settings.len()));
    if let Some(path) = &args.output {
        let notes = serde_json::to_value(&findings)?;
        let blocks = findings.parts.blocks.clone().into_iter().collect();
        let (tasks, setting, distribution) = (findings.parts.tasks.clone(), setting.clone(), distribution.cloned());
        let learned = Learned { setting, distribution, tasks, blocks, notes };
        learned.write(path, &topology).with_context(|| format!("{}: can't be written", path.display()))?;
    }
    print(&match args.format {
        Format::Table => findings.table(best, args.output.as_deref()),
        Format::Json => {
            let (strategy, distribution) = (setting.to_string(), distribution.map(Distribution::to_string));
            let said = serde_json::json!({ "strategy": strategy, "distribution": distribution, "findings": findings });
            format!("{said:#}\n")
        }
    })
}

/// Whether no box ran.
fn is_of_tasks(trace: &Trace) -> bool {
    trace.header().models.is_empty()
}

/// The strategies to try, in the order of preference among equals: the default of such programs first, then the other
/// one of the two defaults.
fn candidates(given: &[Settings], are_tasks: bool) -> anyhow::Result<Vec<Setting>> {
    if !given.is_empty() {
        let mut seen = HashSet::new();
        let given = strategy::several(given, "las")?;
        return Ok(given.into_iter().filter(|setting| seen.insert(setting.to_string())).collect());
    }
    let mut first = ["las", "vicus"].map(|name| name.parse().expect("the strategy exists"));
    if are_tasks {
        first.reverse();
    }
    let others = STRATEGIES.iter().map(|strategy| strategy.name().parse().expect("the strategy exists"));
    let mut all = with_variants(first.to_vec());
    let tried: HashSet<String> = all.iter().map(Setting::to_string).collect();
    all.extend(others.filter(|other: &Setting| !tried.contains(&other.to_string())));
    Ok(all)
}

/// The given settings, and behind them the missing variants of `vicus`.
pub(crate) fn with_variants(mut settings: Vec<Setting>) -> Vec<Setting> {
    let given: HashSet<String> = settings.iter().map(Setting::to_string).collect();
    let variants = VARIANTS.iter().filter(|text| !given.contains(**text));
    settings.extend(variants.map(|text| text.parse::<Setting>().expect("the strategy exists")));
    settings
}

/// The strategy that suits a program with these times: the first one that is as good as the best.
pub(crate) fn suits(times: &[f64]) -> usize {
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    times.iter().position(|&time| time <= least * AS_GOOD).expect("one of them is the best")
}

/// The machine with its costs, and the one that runs compare with the file.
fn where_it_runs(named: Option<&str>) -> anyhow::Result<(Machine, Topology)> {
    let own = this_machine().topology;
    let Some(text) = named else { return Ok((Machine::from_topology(own.clone()), own)) };
    let machine = machine(text)?;
    // A machine file measured here says less of the machine than the system does.
    let is_own = own.line().is_some_and(|line| machine.topology.line() == Some(line));
    let topology = if is_own { own } else { machine.topology.clone() };
    Ok((machine, topology))
}

/// The predictions, and the distributions tried; none if they are left out.
fn findings(
    args: &Args,
    traces: &[Trace],
    machine: &Machine,
    threads: usize,
    settings: &[Setting],
) -> anyhow::Result<(Findings, Vec<Distribution>)> {
    let named = (!args.distribution.is_empty()).then_some(&args.distribution[..]);
    let (distributions, of_distributions) = match which_distributions(traces, machine) {
        Ok(text) => (named.unwrap_or(&DISTRIBUTIONS).to_vec(), text),
        Err(text) => {
            if named.is_some_and(|named| named.len() > 1) {
                bail!("--distribution: {text}, so there is nothing to try several for");
            }
            (Vec::new(), text)
        }
    };
    let store = named.map_or(Distribution::Blocked, |named| named[0].clone());
    let options = ReplayOptions { store, ..ReplayOptions::default() };
    let mut runs: Vec<Recorded> = Vec::new();
    for (path, trace) in args.traces.iter().zip(traces) {
        let task = recorded_run(path, trace, args.mode, &options)?;
        let lying = distributions.iter().filter_map(|distribution| task.lying(distribution)).collect();
        runs.push(Recorded { task, lying });
    }
    let options = |seed: u64| SimOptions { parameters: machine.parameters, seed, ..SimOptions::default() };
    // The median time in milliseconds of a run under a plan, as `one` simulates it.
    let median = |run: usize, plan: &Plan, one: &dyn Fn(&SimOptions) -> Result<f64, SimError>| -> anyhow::Result<f64> {
        let mut ms = Vec::new();
        for seed in (0..SEEDS).map(|more| args.seed.wrapping_add(more)) {
            let what = || format!("{} under {} can't be simulated", args.traces[run].display(), plan.strategy);
            ms.push(one(&options(seed)).with_context(what)? / 1e6);
        }
        ms.sort_unstable_by(f64::total_cmp);
        Ok(ms[ms.len() / 2])
    };
    let wall_ns = |program: &Program, plan: &Plan, options: &SimOptions| {
        simulate(machine, plan, program, options).map(|outcome| outcome.wall_ns)
    };
    let one_of = |(distribution, setting, run): &(usize, usize, usize)| -> anyhow::Result<f64> {
        let plan = machine.plan(&settings[*setting], threads);
        median(*run, &plan, &|options| match runs[*run].lying.get(*distribution) {
            Some(program) => wall_ns(program, &plan, options),
            None => runs[*run].task.wall_ns(machine, &plan, options),
        })
    };
    let jobs: Vec<(usize, usize, usize)> = (0..distributions.len().max(1))
        .flat_map(|distribution| (0..settings.len()).map(move |setting| (distribution, setting)))
        .flat_map(|(distribution, setting)| (0..runs.len()).map(move |run| (distribution, setting, run)))
        .collect();
    let ms = on_all_threads(&jobs, "learning", one_of)?;
    let predicted: Vec<&[f64]> = ms.chunks(runs.len()).collect();
    let least: Vec<f64> =
        (0..runs.len()).map(|run| predicted.iter().map(|ms| ms[run]).fold(f64::INFINITY, f64::min)).collect();
    if let Some(run) = least.iter().position(|&ms| ms <= 0.0) {
        bail!("{}: its simulation takes no time, so no strategy is better than another", args.traces[run].display());
    }
    let ratio =
        |ms: &[f64]| (ms.iter().zip(&least).map(|(ms, least)| (ms / least).ln()).sum::<f64>() / ms.len() as f64).exp();
    let ratios: Vec<f64> = predicted.iter().map(|ms| ratio(ms)).collect();
    let mut with = Vec::new();
    for (at, distribution) in distributions.iter().enumerate() {
        let best = &settings[suits(&ratios[at * settings.len()..][..settings.len()])];
        let plan = machine.plan(best, threads);
        let outcomes = runs.iter().map(|run| -> anyhow::Result<(SimOutcome, &Program)> {
            let program = &*run.lying[at];
            Ok((simulate(machine, &plan, program, &options(args.seed))?, program))
        });
        let outcomes = outcomes.collect::<anyhow::Result<Vec<_>>>()?;
        let sums = outcomes.iter().flat_map(|(outcome, program)| outcome.by_leaf(program)).collect();
        with.push((distribution.to_string(), best.to_string(), sums));
    }
    let of = |at: usize| (at / settings.len(), &settings[at % settings.len()]);
    let parts = if distributions.is_empty() {
        Parts::default()
    } else {
        let best = suits(&ratios);
        let plan = machine.plan(of(best).1, threads);
        let programs: Vec<&Program> = runs.iter().map(|run| &*run.lying[of(best).0]).collect();
        let time = |program: &Program, run: usize| median(run, &plan, &|options| wall_ns(program, &plan, options));
        let blocks = traces.iter().flat_map(|trace| &trace.header().array_bytes);
        let blocks: BTreeSet<usize> = blocks.filter_map(|&bytes| usize::try_from(bytes).ok()).collect();
        parts::find(&programs, &blocks, &plan, &distributions, predicted[best], time)?
    };
    let findings = Findings {
        machine: machine.name.clone(),
        threads,
        first_seed: args.seed,
        traces: args.traces.iter().map(|path| path.display().to_string()).collect(),
        predicted: (predicted.iter().zip(ratios).enumerate())
            .map(|(at, (ms, ratio))| Predicted {
                strategy: of(at).1.to_string(),
                distribution: distributions.get(of(at).0).map(Distribution::to_string),
                ms: ms.to_vec(),
                ratio,
            })
            .collect(),
        of_distributions,
        types: types(with),
        parts,
        tasks: task_types(traces),
    };
    Ok((findings, distributions))
}

/// A remark on the arrays used to judge distributions; or the reason to leave these out.
fn which_distributions(traces: &[Trace], machine: &Machine) -> Result<String, String> {
    if !traces.iter().all(is_of_tasks) {
        return Err("boxes ran: the store of queries is laid out when it is loaded".to_owned());
    }
    let nodes = machine.topology.nodes.iter().filter(|node| machine.topology.has_memory(node.id)).count();
    if nodes < 2 && machine.homes.is_none() {
        return Err("the machine has one node with memory, where all distributions are the same".to_owned());
    }
    let tables: Vec<Arrays> = traces.iter().map(Arrays::of).collect();
    let Arrays { blocks, tasks, small, .. } =
        *tables.iter().max_by_key(|arrays| arrays.bytes).expect("there is a trace");
    if blocks == 0 {
        return Err("no task says which data it uses (depend clauses with lengths), so arrays are not known".to_owned());
    }
    let table_3 = match (blocks, tasks) {
        (1, 0..=1) => "standard",
        (1, _) => "fine",
        _ => "coarse",
    };
    let of = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let named = traces.iter().map(|trace| trace.header().arrays.len()).max().unwrap_or(0);
    let mut known = match named {
        0 => "the traces name no blocks, so arrays are what tasks name in one piece; runs with libvicus_malloc.so \
             name theirs"
            .to_owned(),
        _ if named < blocks => {
            format!("{} by the runtime's names, the others what tasks name in one piece", of(named, "block"))
        }
        _ => "blocks that the traces name".to_owned(),
    };
    if small > 0 {
        let from = vicus::environment::PLACED_FROM;
        write!(
            known,
            "; {small} below {from} bytes, which VICUS_DATA_DISTRIBUTION_FROM={from} leaves to the C library"
        )
        .expect("it fits");
    }
    Ok(format!(
        "{}, each used by up to {} ({known}): Muddukrishna et al., Table 3, advise {table_3}",
        of(blocks, "array"),
        of(tasks, "task")
    ))
}

/// The arrays of a trace, as far as tasks name their data.
#[derive(Clone, Copy, Default)]
struct Arrays {
    /// How many there are.
    blocks: usize,
    /// The number of tasks using the most used one.
    tasks: usize,
    /// How many are too small to be placed, unless the program's user says otherwise.
    small: usize,
    bytes: usize,
}

impl Arrays {
    fn of(trace: &Trace) -> Arrays {
        let program = vicus_sim::Replay::of(trace, &ReplayOptions::default()).map(|replay| replay.program);
        // A wrong trace is reported when it is simulated.
        let Ok(program) = program else { return Arrays::default() };
        let mut users = vec![0; program.arrays.len()];
        for task in program.tasks.iter().skip(1) {
            let mut used: Vec<usize> = task.accesses.iter().map(|access| access.start).collect();
            used.iter_mut().for_each(|at| *at = program.arrays.partition_point(|array| array.base <= *at) - 1);
            used.sort_unstable();
            used.dedup();
            used.into_iter().for_each(|array| users[array] += 1);
        }
        let bytes = program.arrays.iter().map(|array| array.bytes).sum();
        let small = program.arrays.iter().filter(|array| array.bytes < vicus::environment::PLACED_FROM).count();
        Arrays { blocks: users.len(), tasks: users.into_iter().max().unwrap_or(0), small, bytes }
    }
}

/// The types of tasks, those with most bytes first; types without bytes are left out.
fn types(with: Vec<(String, String, Vec<LeafSums>)>) -> Vec<TypeAdvice> {
    let mut types: Vec<TypeAdvice> = Vec::new();
    for (distribution, strategy, sums) in &with {
        for sum in sums {
            let at = types.iter().position(|one| one.name == sum.name).unwrap_or_else(|| {
                types.push(TypeAdvice { name: sum.name.clone(), tasks: 0, best: String::new(), with: Vec::new() });
                types.len() - 1
            });
            let memory = sum.near_bytes + sum.far_bytes;
            let one = &mut types[at];
            // Of several traces, the sums are added up.
            if one.with.last().is_none_or(|last| last.distribution != *distribution) {
                let (distribution, strategy) = (distribution.clone(), strategy.clone());
                one.with.push(TypeWith { distribution, strategy, busy_ms: 0.0, bytes: 0.0, near_share: 0.0 });
                one.tasks = 0;
            }
            one.tasks += sum.tasks;
            let last = one.with.last_mut().expect("it was made");
            let near = last.near_share * last.bytes + if memory > 0.0 { sum.near_bytes } else { 0.0 };
            last.bytes += memory;
            last.near_share = if last.bytes > 0.0 { near / last.bytes } else { 0.0 };
            last.busy_ms += sum.busy_ns / 1e6;
        }
    }
    types.retain(|one| one.with.iter().any(|with| with.bytes > 0.0));
    for one in &mut types {
        let times: Vec<f64> = one.with.iter().map(|with| with.busy_ms).collect();
        one.best = one.with[suits(&times)].distribution.clone();
    }
    types.sort_by(|a, b| b.with[0].busy_ms.total_cmp(&a.with[0].busy_ms));
    types
}

/// The types of boxes and tasks, as all traces together have them.
fn task_types(traces: &[Trace]) -> Vec<TaskType> {
    let mut tasks: Vec<TaskType> = Vec::new();
    for found in traces.iter().flat_map(|trace| trace.summary().boxes) {
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
    tasks
}
