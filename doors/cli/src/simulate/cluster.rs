//! `vicus simulate network`: a network of boxes over several machines that are joined by links.

use super::{MOST_NS, machine, spinner};
use crate::messages::print;
use crate::query::{bytes, duration};
use crate::{interrupt, network};
use anyhow::{Context, anyhow, ensure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use vicus_network::{Kinds, MachineCounts, NetworkText};
use vicus_sim::{
    BoxCosts, CROSSING_BYTE_NS, Cluster, ClusterFile, ClusterLoss, ClusterMachine, ClusterOutcome, LinkCosts, STREAM,
    plain_name, simulate_cluster,
};

/// Predict how long a network takes over several machines (`on node 1`, `on node *`), joined by links.
///
/// The network runs once here, on one thread, for the costs of its boxes' rows. Then each simulated machine runs its
/// part by the protocol of threads, with real rows; simulated are time, threads, memory's bandwidth and links. Process
/// 0, which collects rows, is on a machine of its own.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    text: network::TextArgs,
    /// A file of a cluster (.toml), with its machines, links and losses, in place of the options for these.
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["machine", "machines", "link", "crossing", "latency", "threads", "lose", "silence"])]
    cluster: Option<PathBuf>,
    /// Each of the machines: see `vicus simulate --machine`.
    #[arg(long, value_name = "NAME|FILE|LINE", default_value = "epyc-7763")]
    machine: String,
    /// The numbers of machines: 4, a list 1,2,3, or doublings 1..32.
    #[arg(long, value_name = "LIST", default_value = "1..8", value_parser = counts)]
    machines: Counts,
    /// The bits that a machine's link carries each way in a second, a list: 25G,100G.
    #[arg(long, value_name = "LIST", default_value = "25G", value_delimiter = ',', value_parser = bits)]
    link: Vec<f64>,
    /// How long each byte that crosses keeps a thread busy at either end, in nanoseconds, besides the link. The default
    /// is that of Arrow's format; where the system's network costs threads, 1.2, say.
    #[arg(long, value_name = "NS", default_value_t = CROSSING_BYTE_NS, value_parser = per_byte)]
    crossing: f64,
    /// How long a byte is on its way, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 20.0, value_parser = microseconds)]
    latency: f64,
    /// The threads of each machine; by default one for each of its PUs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// A parameter of the network with a number that is divided by that of the machines, so that all of them together
    /// have as much to do as one: the rows of a source `on node *`.
    #[arg(long, value_name = "NAME")]
    divide: Option<String>,
    /// How many rows each row stands for, in time and bytes.
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = positive)]
    scale: f64,
    /// How much faster a thread of these machines is than one here.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = positive)]
    speed: f64,
    /// The bytes of each crossing's rows that may be on their way.
    #[arg(long, value_name = "BYTES", default_value = "4M", value_parser = bytes)]
    window: u64,
    /// All threads of all machines share so many cores: for processes of one machine.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    shared_cores: Option<u16>,
    /// A machine that is lost at a time: PROCESS@MILLISECONDS. May be given several times.
    #[arg(long, value_name = "LOSS", value_parser = loss)]
    lose: Vec<ClusterLoss>,
    /// How often a network is run again that has lost a machine.
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: usize,
    /// A machine that has sent nothing for so long is lost.
    #[arg(long, value_name = "SECONDS", value_parser = duration, default_value = "1")]
    silence: Duration,
    /// Has tasks run in an order by chance, of this seed; by default the newest comes first.
    #[arg(long)]
    seed: Option<u64>,
    /// The output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Table,
    Json,
}

/// The numbers of machines.
#[derive(Clone)]
struct Counts(Vec<usize>);

/// The most machines.
const MOST: usize = 1024;

fn counts(text: &str) -> Result<Counts, String> {
    let expected = || format!("expected numbers of machines from 1 to {MOST}: 4, or 1,2,3, or doublings 1..32");
    let number = |text: &str| text.trim().parse().ok().filter(|count| (1..=MOST).contains(count)).ok_or_else(expected);
    if let Some((first, last)) = text.split_once("..") {
        let (first, last): (usize, usize) = (number(first)?, number(last)?);
        let doublings: Vec<usize> =
            std::iter::successors(Some(first), |count| Some(count * 2)).take_while(|count| *count <= last).collect();
        return if doublings.is_empty() { Err(expected()) } else { Ok(Counts(doublings)) };
    }
    text.split(',').map(number).collect::<Result<_, _>>().map(Counts)
}

fn bits(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.trim().strip_suffix('G') {
        Some(number) => (number, 1e9),
        None => (text.trim().strip_suffix('M').ok_or("expected bits in a second, such as 25G or 100M")?, 1e6),
    };
    let bits = number.parse::<f64>().ok().map(|number| number * unit).filter(|bits| (1e3..=1e15).contains(bits));
    bits.ok_or_else(|| "expected bits in a second, such as 25G or 100M".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| (1e-6..=1e12).contains(number));
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

fn per_byte(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| (0.0..=1e6).contains(number));
    number.ok_or_else(|| "expected nanoseconds, from 0 on".to_owned())
}

fn microseconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| (0.0..=1e9).contains(number));
    number.ok_or_else(|| "expected microseconds, from 0 on".to_owned())
}

fn loss(text: &str) -> Result<ClusterLoss, String> {
    let parse = || {
        let (process, at) = text.split_once('@')?;
        let (process, at_ms): (usize, f64) = (process.parse().ok()?, at.parse().ok()?);
        let at_ns = at_ms * 1e6;
        (process > 0 && (0.0..=MOST_NS).contains(&at_ns)).then_some(ClusterLoss { process, at_ns, is_silent: false })
    };
    parse().ok_or_else(|| "expected PROCESS@MILLISECONDS, such as 2@10.5, of a process from 1 on".to_owned())
}

/// A line of the results.
#[derive(Serialize)]
struct Line {
    machines: usize,
    gigabits: f64,
    milliseconds: f64,
    /// Against the first line with this link.
    speed_up: f64,
    busy: f64,
    crossed_mib: f64,
    frames: u64,
    losses: usize,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    interrupt::listen();
    let (text, name) = args.text.read()?;
    let (title, all) = args.clusters()?;
    let most = all.iter().map(|one| one.machines.len()).max().expect("there is one");
    let kinds = network::kinds();
    let mut lines: Vec<Line> = Vec::new();
    let costs = costs(args, &text, &kinds, most, all[0].crossing_byte_ns)?;
    let mut first: Option<(f64, f64)> = None;
    for one in &all {
        let machines = one.machines.len();
        let waits = spinner(format!("{name} on {machines} machines"));
        let outcome = outcome(args, &text, &kinds, one, &costs)?;
        waits.finish_and_clear();
        // Against the first line with this link.
        let bits = one.link.bytes_per_s * 8.0 / STREAM;
        let (_, first) = *match &mut first {
            Some(first) if first.0 == bits => first,
            first => first.insert((bits, outcome.wall_ns)),
        };
        lines.push(Line {
            machines,
            gigabits: (bits / 1e3).round() / 1e6,
            milliseconds: outcome.wall_ns / 1e6,
            speed_up: first / outcome.wall_ns,
            busy: outcome.busy,
            crossed_mib: outcome.link_bytes as f64 / f64::from(1 << 20),
            frames: outcome.link_frames,
            losses: outcome.losses,
        });
    }
    if args.format == Format::Json {
        return print(&format!("{}\n", serde_json::to_string(&lines)?));
    }
    let mut table = format!("{name} on {title}\n");
    writeln!(table, "machines    Gb/s          ms  speed-up  busy  crossed MiB  losses")?;
    for line in lines {
        let Line { machines, gigabits, milliseconds, speed_up, busy, crossed_mib, losses, .. } = line;
        let busy = busy * 100.0;
        writeln!(
            table,
            "{machines:>8}  {gigabits:>6}  {milliseconds:>10.2}  {speed_up:>8.2}  {busy:>3.0}%  {crossed_mib:>11.1}  \
             {losses:>6}"
        )?;
    }
    print(&table)
}

impl Args {
    /// The clusters of the lines, and words for their machines.
    fn clusters(&self) -> anyhow::Result<(String, Vec<ClusterFile>)> {
        if let Some(path) = &self.cluster {
            let file = path.display().to_string();
            let text = std::fs::read_to_string(path).with_context(|| format!("--cluster {file}"))?;
            let named = |name: &str| machine(name).map_err(|error| format!("{error:#}"));
            let one = ClusterFile::parse(&file, &text, named)?;
            return Ok((format!("the machines of {}", one.name), vec![one]));
        }
        let described = machine(&self.machine)?;
        let threads = self.threads.map_or_else(|| described.topology.usable_pus().count(), usize::from);
        let each = ClusterMachine::of(&described, threads);
        let most = self.machines.0.iter().copied().max().expect("there is one");
        for loss in &self.lose {
            ensure!(loss.process <= most, "--lose {}: there are {most} machines", loss.process);
        }
        let of = |bits: f64, machines: usize| ClusterFile {
            name: described.name.clone(),
            machines: vec![each; machines],
            link: LinkCosts {
                bytes_per_s: bits * STREAM / 8.0,
                latency_ns: self.latency * 1e3,
                ..LinkCosts::default()
            },
            crossing_byte_ns: self.crossing,
            losses: self.lose.iter().copied().filter(|loss| loss.process <= machines).collect(),
            silence_ns: self.silence.as_secs_f64() * 1e9,
        };
        let all = self.link.iter().flat_map(|&bits| self.machines.0.iter().map(move |&machines| (bits, machines)));
        let all = all.map(|(bits, machines)| of(bits, machines)).collect();
        Ok((format!("machines like {}, {threads} threads each", described.name), all))
    }
}

/// The parameters of the network on so many machines.
fn set(args: &Args, text: &NetworkText, machines: usize) -> anyhow::Result<Vec<(String, String)>> {
    let mut set = args.text.set.clone();
    let Some(name) = &args.divide else { return Ok(set) };
    let parameter = text.parameters.iter().find(|parameter| parameter.name == *name);
    let parameter = parameter.with_context(|| format!("--divide {name}: the network has no such parameter"))?;
    let given = set.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value.clone());
    let value = given.or_else(|| parameter.default.as_ref().map(ToString::to_string)).unwrap_or_default();
    let whole: u64 = value.parse().ok().with_context(|| format!("--divide {name}: it has no whole number"))?;
    set.push((name.clone(), (whole / machines as u64).to_string()));
    Ok(set)
}

/// The costs of boxes' rows, from a run of the network here on one thread: as one machine runs it that has the share of
/// one of `most`.
fn costs(
    args: &Args,
    text: &NetworkText,
    kinds: &Kinds,
    most: usize,
    crossing_byte_ns: f64,
) -> anyhow::Result<BoxCosts> {
    /// The least time of an invocation: see docs/lab.
    const INVOCATION_NS: f64 = 100.0;
    let waits = spinner("running the network for its costs".to_owned());
    let one = MachineCounts { threads: 1, nodes: 1 };
    let set = set(args, text, most)?;
    let network = text.build_whole("network", kinds, &[one; 2], &set).map_err(|error| anyhow!("{error}"))?;
    let counts = network::timed(&network)?;
    let mut all: BTreeMap<String, (f64, u64)> = BTreeMap::new();
    for (name, counts) in network.names.iter().zip(counts) {
        let (ns, rows) = all.entry(plain_name(name).to_owned()).or_default();
        *ns += (counts.busy_ns as f64 - counts.acts as f64 * INVOCATION_NS).max(0.0);
        *rows += counts.rows_taken() + counts.rows_sent();
    }
    waits.finish_and_clear();
    let row = |(name, (ns, rows)): (String, (f64, u64))| (name, ns / rows.max(1) as f64 / args.speed);
    Ok(BoxCosts {
        invocation_ns: INVOCATION_NS / args.speed,
        row_ns: all.into_iter().map(row).collect(),
        other_ns: 1.0 / args.speed,
        crossing_byte_ns: crossing_byte_ns / args.speed,
    })
}

fn outcome(
    args: &Args,
    text: &NetworkText,
    kinds: &Kinds,
    described: &ClusterFile,
    costs: &BoxCosts,
) -> anyhow::Result<ClusterOutcome> {
    let machines = &described.machines;
    let cluster = Cluster {
        // Rows are collected on a machine like the first one.
        machines: machines[..1].iter().chain(machines).copied().collect(),
        shared_cores: args.shared_cores.map(usize::from),
        link: described.link,
        window: args.window,
        losses: described.losses.clone(),
        silence_ns: described.silence_ns,
        retries: args.retries,
        seed: args.seed,
        scale: args.scale,
        memory_bytes: None,
    };
    let set = set(args, text, machines.len())?;
    let mut goes_on = |_| !interrupt::cancel().is_cancelled();
    simulate_cluster(text, kinds, &set, &cluster, costs, &mut goes_on).map_err(|error| anyhow!("{error}"))
}
