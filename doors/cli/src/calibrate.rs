//! `vicus calibrate`: measures costs on this machine, and writes them to a file for `vicus simulate`.
//!
//! Each is measured separately: the bandwidths of memory and caches, the speed of each kind of leaf on data in the
//! core's cache, the speed at which its bytes arrive from memory, and the costs of making, moving and waking. The
//! leaves of fib, nqueens and uts are what remains of a small input on one thread between its joins; so for these, the
//! simulator only predicts larger inputs and more threads.

mod leaves;
mod streams;
mod tasks;

use crate::bench::measure::quartiles;
use crate::progress::style;
use anyhow::{Context, ensure};
use indicatif::ProgressBar;
use leaves::Leaves;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use streams::Streams;
use vicus_sim::{Machine, Parameters};
use vicus_testing::median;
use vicus_topology::Topology;

/// Measure costs on this machine, and write them as a machine file for `vicus simulate --machine FILE`.
///
/// It takes about half a minute, and needs an idle machine, because other load is measured as well.
/// `vicus bench prediction` shows how well the simulator predicts this machine with the file.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file to write; by default standard output.
    #[arg(long, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// Measures briefly and on little memory: to see the form of the file, not for its numbers.
    #[arg(long)]
    quick: bool,
}

/// The bytes of a page, as in the simulator's model of a machine without this figure in its file.
const PAGE: usize = 4096;

/// How thoroughly to measure.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// How many samples of each measurement.
    samples: usize,
    /// How long a sweep is repeated for a sample, so that the clock's resolution does not matter.
    sample: Duration,
    /// The most bytes of a sweep over memory.
    most_bytes: usize,
}

impl Effort {
    pub(crate) const THOROUGH: Effort = Effort { samples: 9, sample: Duration::from_millis(8), most_bytes: 2 << 30 };
    const QUICK: Effort = Effort { samples: 3, sample: Duration::from_micros(100), most_bytes: 4 << 20 };

    fn samples(self, measure: impl FnMut() -> f64) -> Vec<f64> {
        std::iter::repeat_with(measure).take(self.samples).collect()
    }

    /// The median of this many samples.
    fn median(self, measure: impl FnMut() -> f64) -> f64 {
        median(&self.samples(measure))
    }

    /// The nanoseconds of one of the `times` repetitions in `work`. The faster quartile counts, because other load only
    /// makes runs slower.
    fn nanoseconds(self, times: usize, mut work: impl FnMut()) -> f64 {
        let once = || {
            let began = Instant::now();
            (0..times).for_each(|_| work());
            began.elapsed().as_nanos() as f64 / times as f64
        };
        quartiles(&self.samples(once)).0
    }

    /// The bytes per second of a sweep over this many bytes; the faster quartile.
    fn bytes_per_second(self, bytes: usize, mut sweep: impl FnMut()) -> f64 {
        sweep();
        let once = || {
            let (began, mut times) = (Instant::now(), 0);
            while times == 0 || began.elapsed() < self.sample {
                sweep();
                times += 1;
            }
            (bytes * times) as f64 / began.elapsed().as_secs_f64()
        };
        quartiles(&self.samples(once)).1
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let line = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let line = line.with_style(style("measuring {msg}; {elapsed} so far"));
    // A line that is drawn now and then only, by this thread: one of its own would be measured as well.
    let at = |stage: &str| {
        line.set_message(stage.to_owned());
        line.tick();
    };
    let began = Instant::now();
    let measured = || {
        let text = measured(if args.quick { Effort::QUICK } else { Effort::THOROUGH }, &at);
        line.finish_and_clear();
        text
    };
    let Some(path) = &args.output else { return crate::tell::print(&measured()?) };
    let can_not = || format!("{} can't be written", path.display());
    // Checked before half a minute of measuring. The file's old contents stay until there are new ones.
    let _open = OpenOptions::new().write(true).create(true).truncate(false).open(path).with_context(can_not)?;
    std::fs::write(path, measured()?).with_context(can_not)?;
    let (file, seconds) = (path.display(), began.elapsed().as_secs_f64());
    let brief = if args.quick { ", briefly: its numbers are no measure" } else { "" };
    crate::tell::print(&format!(
        "{file}: measured in {seconds:.1} s{brief}; `vicus simulate --machine {file}` predicts by it\n"
    ))
}

/// The text of this machine's file. `at` is told what is measured next.
pub(crate) fn measured(effort: Effort, at: &dyn Fn(&str)) -> anyhow::Result<String> {
    let topology = &vicus::this_machine().topology;
    let line = topology.line().context(
        "the parts of this machine differ from one another, and a machine file can't say that: cores of two kinds, \
            nodes \
         without cores, or only some nodes with a cache",
    )?;
    let mut text = Text::heading(topology, &line);
    at("caches and memory, 1 of 4");
    let streams = Streams::measure(topology, effort);
    text.costs(topology, &streams);
    at("the making, taking and waking of tasks, 2 of 4");
    let parameters = tasks::measure(effort, streams.clock_ghz, streams.overlap);
    text.parameters(&parameters);
    // For streaming leaves, the time of their bytes is subtracted in the way the simulator will add it.
    let so_far = Machine::parse("this machine", &text.0)?;
    let leaves = leaves::measure(effort, &so_far, at)?;
    text.leaves(&leaves, streams.clock_ghz);
    let machine = Machine::parse("this machine", &text.0)?;
    ensure!(
        machine.leaf_bandwidths.len() == leaves.bandwidth.len()
            && machine.leaves.len() == leaves.per_ns.values().filter(|rate| rate.is_finite()).count(),
        "the file that was written says what was measured"
    );
    Ok(text.0)
}

/// The text of the file so far.
struct Text(String);

impl Text {
    fn heading(topology: &Topology, line: &str) -> Text {
        let name: String = topology.name.chars().map(|c| if c.is_ascii_graphic() { c } else { '-' }).collect();
        let mut text = Text(String::new());
        text.line("# Measured by `vicus calibrate` on the machine itself. Bytes are per second, times in nanoseconds.");
        text.line(format_args!("name = {name:?}"));
        text.line(format_args!("title = {:?}", format!("{name}, measured")));
        text.line(format_args!("topology = {line:?}"));
        if topology.nodes.len() > 1 {
            text.line(format_args!("distances = {:?}", topology.distances));
        }
        let reserved: Vec<usize> = topology.pus.iter().filter(|pu| !pu.usable).map(|pu| pu.id.index()).collect();
        if !reserved.is_empty() {
            text.line(format_args!("reserved_pus = {reserved:?} # not for this process"));
        }
        text
    }

    fn line(&mut self, line: impl std::fmt::Display) {
        writeln!(self.0, "{line}").expect("a string takes everything");
    }

    fn costs(&mut self, topology: &Topology, streams: &Streams) {
        self.line(format_args!("clock_ghz = {:.3} # one addition after the other", streams.clock_ghz));
        self.line("flops_per_cycle = 4.0 # of leaves that are not listed at the end");
        for cache in &streams.caches {
            self.line(format_args!("\n[[cache]]\nlevel = {}", cache.level));
            let nominal =
                topology.caches.iter().find(|other| other.level == cache.level).map_or(0, |other| other.bytes);
            self.line(format_args!(
                "bytes = {} # that it keeps for a reader of as much; it has {nominal}",
                cache.bytes
            ));
            self.line(format_args!("latency_ns = {:.2} # one read after the other", cache.latency_ns));
            self.line(format_args!("bandwidth = {:.3e} # read by a core", cache.bandwidth));
            if let Some(together) = cache.shared_bandwidth {
                self.line(format_args!("shared_bandwidth = {together:.3e} # read by all its cores at once"));
            }
        }
        let memory = &streams.memory;
        self.line(format_args!("\n[memory]\nlatency_ns = {:.1} # one read after the other", memory.latency_ns));
        if !memory.by_distance.is_empty() {
            // If the nodes are hardly apart, the far one may measure as the nearer one.
            let pair = |(far, ns): &(u32, f64)| format!("[{far}, {:.1}]", ns.max(memory.latency_ns));
            let pairs: Vec<String> = memory.by_distance.iter().map(pair).collect();
            self.line(format_args!("latency_by_distance = [{}]", pairs.join(", ")));
        }
        self.line(format_args!("core_bandwidth = {:.3e} # read by a core, several streams", memory.core_bandwidth));
        self.line(format_args!("stream_bandwidth = {:.3e} # read by a core, one stream", memory.stream_bandwidth));
        self.line(format_args!(
            "controller_bandwidth = {:.3e} # read and written by all cores of a node",
            memory.controller_bandwidth
        ));
        self.line(format_args!("fault_ns = {:.1} # a page's first write", memory.fault_ns));
        self.line("load_latency = [] # what lines wait for others is in the bandwidth of all cores");
        if let Some(link) = memory.link_bandwidth {
            self.line(format_args!("\n[links]\nshape = \"full\" # which links there are can't be measured"));
            self.line(format_args!("bandwidth = {link:.3e} # read by all cores of one node from another"));
        }
    }

    fn parameters(&mut self, parameters: &Parameters) {
        self.line("\n[parameters]");
        for (name, value) in Parameters::NAMES.iter().zip(parameters.values()) {
            let why = if *name == "cache_share" { " # it is in the sizes above" } else { "" };
            self.line(format_args!("{name} = {value:.3}{why}"));
        }
    }

    fn leaves(&mut self, leaves: &Leaves, clock_ghz: f64) {
        self.line(
            "\n# Operations in a cycle, with all data in the core's cache; of leaves that use each byte often, \
            or wait for it, in the last caches.\n[leaf_flops_per_cycle]",
        );
        for (leaf, per_ns) in &leaves.per_ns {
            match per_ns.is_finite() {
                true => self.line(format_args!("{leaf:?} = {:.4e}", per_ns / clock_ghz)),
                false => self.line(format_args!("# {leaf:?}: its bytes or joins take all of its time")),
            }
        }
        self.line(
            "\n# Of all bytes that a leaf declares, halos included, while they come from the core's own \
            node.\n[leaf_bandwidth]",
        );
        for (leaf, bandwidth) in &leaves.bandwidth {
            self.line(format_args!("{leaf:?} = {bandwidth:.3e}"));
        }
    }
}
