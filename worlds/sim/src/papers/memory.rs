//! Memory under load: published measurements of today's machines, predicted from data sheets and from the machines'
//! idle behaviour.
//!
//! A run is [`Traffic`]: cores reading and writing arrays on some nodes, and perhaps one reading line after line
//! meanwhile, as Intel's Memory Latency Checker and STREAM have them. A claim is a published figure, and the ratio of
//! the prediction to it.

use super::{Claim, Figure, Input, Sample, Setup};
use crate::{ArraySpec, Cost, Machine, Program, SimError, SimOptions, Step, TaskSpec, Work, simulate_watched};
use std::ops::{Range, RangeInclusive};
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Kind, Mode, Setting};
use vicus_topology::LocationId;

/// Cores moving bytes.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The PUs of these cores.
    cores: Vec<usize>,
    /// The nodes of each core's arrays, with as many bytes on each; `None` for its own node.
    nodes: Option<Vec<usize>>,
    mix: Mix,
    /// The core that reads line after line from its node meanwhile, if there is one, and the bytes per second of the
    /// others; without a number, their maximum.
    chaser: Option<(usize, Option<f64>)>,
}

/// A core's use of its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    /// Arrays it reads.
    reads: usize,
    /// Arrays it writes.
    writes: usize,
    /// Whether its writes go past the caches, without a read before.
    past_caches: bool,
    /// The share of the moved bytes counted by the benchmark.
    counted: f64,
    /// Whether the measure is the time until the last core has moved its bytes, as in STREAM, or all cores' bytes in a
    /// time, as in latency checkers.
    timed: bool,
}

pub(super) const READS: Mix = Mix { reads: 1, writes: 0, past_caches: false, counted: 1.0, timed: false };

/// So many reads for each write, as controllers see them: a written line is read before.
const fn read_for_each_write(reads: usize) -> Mix {
    Mix { reads: reads - 1, writes: 1, past_caches: false, counted: 1.0, timed: false }
}

/// STREAM copy by stores without a read before.
const COPY: Mix = Mix { reads: 1, writes: 1, past_caches: true, counted: 1.0, timed: true };

/// A kernel of STREAM with stores that read a line before they write it; the benchmark does not count this read.
const fn stores(reads: usize, writes: usize) -> Mix {
    let counted = (reads + writes) as f64 / (reads + 2 * writes) as f64;
    Mix { reads, writes, past_caches: false, counted, timed: true }
}

/// About how long a run takes.
const LASTS_NS: f64 = 3e6;

/// Bytes read by the core that reads line after line.
const CHASED: usize = 256 << 10;

impl Traffic {
    pub(super) fn by(cores: impl IntoIterator<Item = usize>, mix: Mix) -> Traffic {
        Traffic { cores: cores.into_iter().collect(), nodes: None, mix, chaser: None }
    }

    fn on(self, nodes: impl IntoIterator<Item = usize>) -> Traffic {
        Traffic { nodes: Some(nodes.into_iter().collect()), ..self }
    }

    fn beside(self, chaser: usize, load: Option<f64>) -> Traffic {
        let cores = self.cores.into_iter().filter(|&core| core != chaser).collect();
        Traffic { cores, chaser: Some((chaser, load)), ..self }
    }

    /// Runs it. The sample's bytes are those counted by the benchmark; its latency belongs to the core that reads line
    /// after line.
    pub(super) fn run(
        &self,
        machine: &Machine,
        options: &SimOptions,
        watch: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Sample, SimError> {
        let mut machine = machine.clone();
        // It has one line under way.
        machine.leaf_bandwidths.insert("chase".to_owned(), 64.0 / machine.memory.latency_ns * 1e9);
        let mut with = |computing_ns: f64| self.once(&machine, options, computing_ns, watch);
        let mut sample = with(0.0)?;
        let Some((_, Some(wanted))) = self.chaser else { return Ok(sample) };
        // More computing makes less traffic.
        let rate = |sample: &Sample| (sample.near_bytes + sample.far_bytes) / sample.wall_ns * 1e9;
        let (mut least, mut most) = (0.0, 16.0 * LASTS_NS);
        for _ in 0..24 {
            if (rate(&sample) / wanted - 1.0).abs() < 0.003 {
                break;
            }
            let computing_ns = (least + most) / 2.0;
            sample = with(computing_ns)?;
            if rate(&sample) > wanted {
                least = computing_ns;
            } else {
                most = computing_ns;
            }
        }
        Ok(sample)
    }

    /// Runs it once; each core computes for `computing_ns` beside its bytes.
    fn once(
        &self,
        machine: &Machine,
        options: &SimOptions,
        computing_ns: f64,
        watch: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Sample, SimError> {
        let threads = machine.topology.usable_pus().count();
        let plan = machine.plan(&"central".parse::<Setting>().expect("there is this strategy"), threads);
        let seat = |pu: usize| {
            let threads = plan.seats.iter().filter(|seat| !seat.spare);
            threads.enumerate().find(|(_, seat)| seat.pu.index() == pu).map(|(at, _)| at).expect("a core has a seat")
        };
        let nodes = |core: usize| self.nodes.clone().unwrap_or_else(|| vec![machine.topology.pus[core].node.index()]);
        // Bytes that a core alone moves in about this time.
        let own = if self.chaser.is_some_and(|(_, load)| load.is_none()) { 3.0 } else { 1.0 };
        let bytes = (machine.memory.core_bandwidth * LASTS_NS * own / 1e9) as usize;
        let mut made = ArraysSoFar::default();
        let mut tasks = CoreTasks::default();
        for &core in &self.cores {
            self.core(&mut made, &nodes(core), bytes, computing_ns, seat(core), &mut tasks);
        }
        let CoreTasks { fill, mut moves } = tasks;
        if let Some((core, _)) = self.chaser {
            let read = made.array(CHASED, nodes(core)[0], Mode::Read);
            let work = Step::Work(Work { leaf: 1, cost: Cost::Nanos(0.0), accesses: vec![read] });
            moves.push(TaskSpec { steps: vec![work], pinned: Some(seat(core)), ..TaskSpec::default() });
        }
        let (filling, moving) = (fill.len() as u32, moves.len() as u32);
        let mut steps = Vec::new();
        if filling > 0 {
            steps.extend([Step::Spawn(1..1 + filling), Step::Wait]);
        }
        steps.extend([Step::Start, Step::Spawn(1 + filling..1 + filling + moving), Step::Wait, Step::End]);
        let root = TaskSpec { steps, kind: Kind::Deferred, pinned: Some(0), ..TaskSpec::default() };
        let program = Program {
            name: "traffic".to_owned(),
            arrays: made.arrays,
            heap: 0..0,
            leaves: vec!["move".to_owned(), "chase".to_owned()],
            tasks: [root].into_iter().chain(fill).chain(moves).collect(),
        };
        let outcome = simulate_watched(machine, &plan, &program, options, watch)?;
        let records = &outcome.tasks[1 + filling as usize..];
        // The last one belongs to the core that reads line after line.
        let chased = if self.chaser.is_some() { records.last() } else { None };
        let took = records[..self.cores.len()].iter().map(|record| record.end_ns - record.start_ns);
        let wall_ns = if self.mix.timed {
            took.fold(0.0, f64::max)
        } else {
            self.cores.len() as f64 / took.map(|ns| 1.0 / ns).sum::<f64>()
        };
        let counted = |bytes: f64| bytes * self.mix.counted;
        Ok(Sample {
            wall_ns,
            near_bytes: counted(outcome.counts.near_bytes),
            far_bytes: counted(outcome.counts.far_bytes),
            latency_ns: chased.map_or(0.0, |record| record.latency_ns),
            kept_nodes: 0.0,
            used: outcome.used,
        })
    }

    /// The tasks of a core: one fills the caches with written lines, so that each later write drives one out, and one
    /// is measured.
    fn core(
        &self,
        made: &mut ArraysSoFar,
        nodes: &[usize],
        bytes: usize,
        computing_ns: f64,
        seat: usize,
        tasks: &mut CoreTasks,
    ) {
        let each = (bytes / (nodes.len() * (self.mix.reads + self.mix.writes))).next_multiple_of(4096);
        let task = |accesses: Vec<Access>, cost: f64| {
            let work = Step::Work(Work { leaf: 0, cost: Cost::Nanos(cost), accesses });
            TaskSpec { steps: vec![work], pinned: Some(seat), ..TaskSpec::default() }
        };
        if self.mix.writes > 0 && !self.mix.past_caches {
            let dirty = nodes.iter().map(|&node| made.array((8 << 20) / nodes.len(), node, Mode::Write)).collect();
            tasks.fill.push(task(dirty, 0.0));
        }
        let mut accesses = Vec::new();
        for &node in nodes {
            for at in 0..self.mix.reads + self.mix.writes {
                let mode = if at < self.mix.reads { Mode::Read } else { Mode::Write };
                let access = made.array(each, node, mode);
                let past_caches = self.mix.past_caches && mode == Mode::Write;
                accesses.push(if past_caches { access.streaming() } else { access });
            }
        }
        tasks.moves.push(task(accesses, computing_ns));
    }
}

/// The tasks of all cores: first those that fill caches, then those that are measured.
#[derive(Default)]
struct CoreTasks {
    fill: Vec<TaskSpec>,
    moves: Vec<TaskSpec>,
}

/// Arrays so far.
#[derive(Default)]
struct ArraysSoFar {
    arrays: Vec<ArraySpec>,
}

impl ArraysSoFar {
    /// A new array on a node, and the access to all of it.
    fn array(&mut self, bytes: usize, node: usize, mode: Mode) -> Access {
        let base = self.arrays.last().map_or(1 << 20, |last| (last.base + last.bytes + 4096).next_multiple_of(4096));
        self.arrays.push(ArraySpec { base, bytes, distribution: Distribution::On(LocationId::new(node)) });
        Access::new(base, bytes, mode)
    }
}

/// The range of a good prediction: within 15 %.
const NEAR: RangeInclusive<f64> = 0.85..=1.15;

/// A published figure.
struct Published {
    machine: &'static str,
    what: &'static str,
    traffic: Traffic,
    /// Gigabytes per second, or nanoseconds if a core reads line after line.
    value: f64,
}

const FDIO: &str =
    "FDio/csit, docs/report/introduction/test_environment_sut_calib_clx.rst (Memory Latency Checker 3.7), 2019";
const BEX: &str = "G. J. Bex, Code-optimization, info/ (Memory Latency Checker 3.10 and 3.11a), 2023";
const RIEDEL: &str = "simon-r, My_Stream_Benchmark, RESULTS.md";
const GIST: &str = "v0dro, gist 0559e1d9b205ca9ac0ad1a29fe10377b, a DGX A100";
const CXL: &str = "karim-manaouil, virtiofs-cxl-experiments, results/MLC.md (Memory Latency Checker), 2025";
const WAYCA: &str =
    "openEuler, wayca-scheduler, tools/kp920.2P.6CCL, log.mem-band.0419 and 0427 (lmbench's STREAM copy)";
const ARM: &str = "learn.arm.com, \"Memory subsystem\" learning path (ASCT peak-bandwidth)";

/// The model's gap, if a claim about a machine does not hold.
fn missing(machine: &str, of_latency: bool) -> Option<&'static str> {
    match (machine, of_latency) {
        ("xeon-6252n" | "xeon-8360y", true) => Some(
            "a core has more lines under way than one alone shows, two hardware threads of a core most of all; and the \
                6252N's memory gives 5 % more \
             than is predicted, so that it is not full yet at 236.7 GB/s",
        ),
        ("epyc-9224-cxl", false) => Some(
            "no data sheet says what share of its bytes the protocol takes on the links between dies and sockets, or \
                how many links there are between \
             these sockets",
        ),
        ("kunpeng-920", false) => Some(
            "what lines wait beside writes is not published (the chart is of reads), nor what a die's ring and the \
                links between dies carry",
        ),
        _ => None,
    }
}

fn of(
    machine: &'static str,
    figures: impl IntoIterator<Item = (&'static str, Traffic, f64)>,
) -> impl Iterator<Item = Published> {
    figures.into_iter().map(move |(what, traffic, value)| Published { machine, what, traffic, value })
}

/// Every n-th of some cores.
fn every(cores: Range<usize>, nth: usize) -> impl Iterator<Item = usize> {
    cores.step_by(nth)
}

fn published() -> Vec<Published> {
    let all = |cores: usize, mix| Traffic::by(0..cores, mix);
    let mut figures = Vec::new();
    figures.extend(of(
        "xeon-6252n",
        [
            ("all cores read their own node", all(48, READS), 243.2),
            ("and write for each three reads", all(48, read_for_each_write(3)), 219.1),
            ("and write for each two reads", all(48, read_for_each_write(2)), 216.6),
            ("and write for each read", all(48, read_for_each_write(1)), 203.7),
            ("a socket reads its own node", all(24, READS), 122.1),
            ("a socket reads the other's node", all(24, READS).on([1]), 51.3),
            ("latency beside 133.8 GB/s", all(48, READS).beside(0, Some(133.8e9)), 100.6),
            ("latency beside 236.7 GB/s", all(48, READS).beside(0, Some(236.7e9)), 161.7),
            ("latency beside all that the others can read", all(48, READS).beside(0, None), 233.9),
        ],
    ));
    figures.extend(of(
        "xeon-8360y",
        [
            ("all cores read their own node", all(72, READS), 351.8),
            ("and write for each three reads", all(72, read_for_each_write(3)), 313.1),
            ("and write for each two reads", all(72, read_for_each_write(2)), 297.2),
            ("and write for each read", all(72, read_for_each_write(1)), 291.8),
            ("a socket reads its own node", all(36, READS), 175.7),
            ("a socket reads the other's node", all(36, READS).on([1]), 55.7),
            ("latency beside 173.7 GB/s", all(72, READS).beside(0, Some(173.7e9)), 109.6),
            ("latency beside 297.2 GB/s", all(72, READS).beside(0, Some(297.2e9)), 153.8),
            ("latency beside all that the others can read", all(72, READS).beside(0, None), 264.0),
        ],
    ));
    figures.extend(of(
        "xeon-8468",
        [
            ("all cores read their own node", all(96, READS), 491.9),
            ("and write for each three reads", all(96, read_for_each_write(3)), 429.8),
            ("and write for each two reads", all(96, read_for_each_write(2)), 421.4),
            ("and write for each read", all(96, read_for_each_write(1)), 401.3),
            ("a node's cores read their own node", all(12, READS), 61.4),
            ("a node's cores read another of the socket", all(12, READS).on([1]), 60.5),
            ("a node's cores read one of the other socket", all(12, READS).on([4]), 56.3),
        ],
    ));
    // In gibibytes, a store counts as one.
    let gib = 1.073_741_824;
    figures.extend(of(
        "epyc-7742",
        [
            ("all cores copy, past the caches", all(128, COPY), 276.3 * gib),
            ("all cores multiply and add three arrays into one", all(128, stores(3, 1)), 219.3 * gib),
            ("all cores do STREAM triad", all(128, stores(2, 1)), 206.8 * gib),
            ("all cores add and multiply two arrays into two", all(128, stores(2, 2)), 181.5 * gib),
        ],
    ));
    // STREAM triad; the written array is counted twice.
    let triad = |threads: usize| Traffic::by(every(0..2 * threads, 2), Mix { counted: 1.0, ..stores(2, 1) });
    figures.extend(of(
        "epyc-7742-nps4",
        [
            ("triad by 2 cores of one L3", triad(2), 32.9 * gib),
            ("triad by 8 cores of one node", triad(8), 37.2 * gib),
            ("triad by 16 cores of two nodes", triad(16), 74.4 * gib),
            ("triad by 24 cores of three nodes", triad(24), 111.4 * gib),
            ("triad by 32 cores of four nodes", triad(32), 147.8 * gib),
        ],
    ));
    figures.extend(of(
        "epyc-9224-cxl",
        [
            ("2 cores read their own node", all(2, READS), 49.0),
            ("4 cores read their own node", all(4, READS), 50.0),
            ("8 cores read their own node", all(8, READS), 96.0),
            ("a node's cores read their own node", all(12, READS), 104.0),
            ("a node's cores read the other of the socket", all(12, READS).on([1]), 99.8),
            ("a node's cores read one of the other socket", all(12, READS).on([2]), 76.6),
            ("one core reads the expander", all(1, READS).on([4]), 17.0),
            ("a node's cores read the expander", all(12, READS).on([4]), 17.6),
            ("a node's cores of the other socket read the expander", Traffic::by(24..36, READS).on([4]), 17.6),
        ],
    ));
    let spread = |cores: usize| Traffic::by(every(0..2 * cores, 2), COPY);
    let four = || Traffic::by([0, 4, 8, 12], COPY);
    figures.extend(of(
        "kunpeng-920",
        [
            ("4 cores copy on their own node", four(), 40.8),
            ("4 cores copy on the other of the socket", four().on([1]), 37.5),
            ("4 cores copy on the near one of the other socket", four().on([2]), 31.5),
            ("4 cores copy on the far one of the other socket", four().on([3]), 29.1),
            ("6 cores copy on their own node", spread(6), 46.2),
            ("8 cores copy on their own node", spread(8), 50.5),
            ("12 cores copy on their own node", spread(12), 59.5),
            ("24 cores copy on their own node", Traffic::by(0..24, COPY), 63.3),
            ("6 cores copy, interleaved over two nodes", spread(6).on([0, 1]), 53.8),
            ("8 cores copy, interleaved over two nodes", spread(8).on([0, 1]), 62.9),
            ("12 cores copy, interleaved over two nodes", spread(12).on([0, 1]), 75.6),
            ("4 cores copy, interleaved over four nodes", spread(4).on(0..4), 40.6),
            ("8 cores copy, interleaved over four nodes", spread(8).on(0..4), 69.6),
            ("12 cores copy, interleaved over four nodes", spread(12).on(0..4), 83.7),
            ("24 cores of two nodes copy, interleaved over both", Traffic::by(every(0..48, 2), COPY).on([0, 1]), 97.4),
            ("24 cores of all nodes copy, interleaved over all", Traffic::by(every(0..96, 4), COPY).on(0..4), 105.9),
        ],
    ));
    figures.extend(of(
        "graviton2",
        [
            ("all cores read", all(64, READS), 169.6),
            ("and write for each three reads", all(64, read_for_each_write(3)), 160.9),
            ("and write for each two reads", all(64, read_for_each_write(2)), 157.3),
            ("and write for each read", all(64, read_for_each_write(1)), 151.7),
        ],
    ));
    figures.extend(of(
        "graviton4",
        [
            ("all cores read", all(64, READS), 465.5),
            ("and write for each three reads", all(64, read_for_each_write(3)), 434.7),
            ("and write for each two reads", all(64, read_for_each_write(2)), 430.1),
            ("and write for each read", all(64, read_for_each_write(1)), 410.4),
        ],
    ));
    figures
}

pub(super) fn figure() -> Figure {
    let mut setups: Vec<Setup> = Vec::new();
    let mut claims = Vec::new();
    for Published { machine, what, traffic, value } in published() {
        let of_latency = traffic.chaser.is_some();
        let label = if setups.iter().any(|setup| setup.group == machine) { what } else { FIRST };
        setups.push(Setup::of(machine, (machine, 1), Input::Traffic(traffic)).under("central", label));
        let claim = Claim::new(format!("{machine}: {what}"), "predicted to published", NEAR, move |results| {
            let point = results.point(machine, label);
            let predicted = if of_latency { point.latency_ns } else { point.bandwidth() };
            predicted / value
        });
        let claim = claim.published(value, if of_latency { "ns" } else { "GB/s" });
        claims.push(Claim { missing: missing(machine, of_latency), ..claim });
    }
    Figure {
        id: "memory",
        title: "Memory under load on machines of today: predicted, and as others measured it",
        source: "xeon-6252n: FD.io; xeon-8360y, xeon-8468: Bex; epyc-7742: simon-r; epyc-7742-nps4: v0dro; \
            epyc-9224-cxl: karim-manaouil; \
                 kunpeng-920: openEuler; graviton2, graviton4: Arm",
        notes: &[
            FDIO,
            BEX,
            RIEDEL,
            GIST,
            CXL,
            WAYCA,
            ARM,
            "Parameters are from data sheets and from idle machines (a core alone, a line at a time), or from other \
                machines of the kind; the files say \
             which. None is from the figures that judge.",
        ],
        baseline: FIRST,
        samples: 1,
        setups,
        claims,
    }
}

/// The label of a machine's first run, the unit of its others.
const FIRST: &str = "unit";
