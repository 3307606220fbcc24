//! The papers' figures, repeated on simulated machines, and the papers' claims about them.
//!
//! A [`Figure`] is data: its runs ([`Setup`]), and its claims. A claim is a ratio computed from the results, and the
//! paper's range for it. The model knows nothing of figures and claims. A claim that holds is *robust* if it still
//! holds when any of the free parameters, or of the machine's bandwidths outside of its caches
//! ([`Machine::BANDWIDTHS`]), is a quarter smaller or larger, and *fragile* otherwise; a claim of "never slower" is
//! tested with twenty seeds as well. If the model disagrees with a paper, the report says so; if the reason is known,
//! the claim is not varied. A claim that follows from the model's input, such as a latency in a machine's file, says
//! so, and is not counted.
//!
//! A figure of queries replays recordings: it names its [`Recording`]s, and the caller makes them ([`Figure::replay`]).
//!
//! Figures make [`FigureJob`]s. The caller runs them in any order and on any threads: this crate starts none.
//!
//! ```
//! use vicus_sim::papers::{Effort, figure, serially};
//! let figure = figure("muddukrishna-fig11").unwrap();
//! let report = figure.evaluate(&Effort::quick(), serially).unwrap();
//! assert_eq!(report.verdicts.len(), figure.claims.len());
//! ```

mod bobox_table3;
mod falt;
mod memory;
mod muddukrishna_fig11;
mod muddukrishna_fig2;
mod muddukrishna_fig3;
mod muddukrishna_fig7;
mod muddukrishna_fig9;
mod published;
mod replayed;
mod report;
mod shared;
mod wheeler;
mod wheeler_arrays;
mod wittmann_fig3;
mod wittmann_fig4;

pub use memory::Traffic;
pub use replayed::{Recording, Replayed};
pub use report::{FigureReport, Published, Robust, Row, Verdict};
pub use shared::Shared;
pub use wheeler_arrays::ArrayLoop;

use crate::{
    AllocatorModel, Machine, ParameterSet, Parameters, Program, Recorder, Reenactment, ReplayError, SimError,
    SimOptions, simulate_watched,
};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::LazyLock;
use vicus_kernels::{AnyKernel, Kernel};
use vicus_memory::distribution::Distribution;
use vicus_trace::Trace;

/// A figure's name, and its constructor.
pub type Entry = (&'static str, fn() -> Figure);

/// The repeatable figures.
pub const FIGURES: &[Entry] = &[
    ("falt-fig5", falt::fig5),
    ("falt-fig6", falt::fig6),
    ("falt-fig7", falt::fig7),
    ("falt-fig8", falt::fig8),
    ("falt-fig9", falt::fig9),
    ("falt-fig10", falt::fig10),
    ("falt-fig11", falt::fig11),
    ("muddukrishna-fig2", muddukrishna_fig2::fig2),
    ("muddukrishna-fig3", muddukrishna_fig3::figure),
    ("muddukrishna-fig5", muddukrishna_fig2::fig5),
    ("muddukrishna-fig7", muddukrishna_fig7::figure),
    ("muddukrishna-fig7-published", muddukrishna_fig7::published),
    ("muddukrishna-fig9", muddukrishna_fig9::figure),
    ("muddukrishna-fig9-published", muddukrishna_fig9::published),
    ("muddukrishna-fig11", muddukrishna_fig11::figure),
    ("muddukrishna-fig11-published", muddukrishna_fig11::published),
    ("wittmann-fig3", wittmann_fig3::figure),
    ("wittmann-fig4", wittmann_fig4::figure),
    ("bobox-table3", bobox_table3::figure),
    ("wheeler-fig3", wheeler::fig3),
    ("wheeler-fig4", wheeler::fig4),
    ("wheeler-fig4-patterns", wheeler_arrays::fig4_patterns),
    ("wheeler-fig5", wheeler_arrays::fig5),
    ("wheeler-fig6", wheeler_arrays::fig6),
    ("wheeler-fig7", wheeler::fig7),
    ("wheeler-fig8", wheeler::fig8),
    ("wheeler-fig9", wheeler::fig9),
    ("memory", memory::figure),
];

/// The figure of this name.
pub fn figure(id: &str) -> Option<Figure> {
    FIGURES.iter().find(|(name, _)| *name == id).map(|(_, figure)| figure())
}

/// A figure or a table of a paper.
pub struct Figure {
    /// The first author of the paper, and the figure's number in it, such as `falt-fig7`.
    pub id: &'static str,
    /// Its subject.
    pub title: &'static str,
    /// Its source.
    pub source: &'static str,
    /// How it differs from the paper's.
    pub notes: &'static [&'static str],
    /// The label of the unit run: the times of the others in its group are divided by its time.
    pub baseline: &'static str,
    /// How many seeds a run has; its time is their median.
    pub samples: usize,
    /// The runs.
    pub setups: Vec<Setup>,
    /// The paper's claims.
    pub claims: Vec<Claim>,
}

/// A run of a figure.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The runs to compare it with: those of the same kernel, or of the same machine.
    pub group: &'static str,
    /// Names the run within its group.
    pub label: String,
    /// The machine's name.
    pub machine: &'static str,
    /// The work to run.
    pub input: Input,
    /// The strategy, with its parameters.
    pub strategy: String,
    /// The number of threads.
    pub threads: usize,
    /// Whether pages without a placement are interleaved over the nodes, as under `numactl --interleave=all`.
    pub interleave: bool,
    /// The allocator of envelopes.
    pub allocator: AllocatorModel,
    /// How much of the paper's input is run when parameters or seeds vary; 1 is all of it.
    pub reduced: f64,
}

/// The work of a run.
#[derive(Clone, Debug)]
pub enum Input {
    /// A kernel.
    Kernel(AnyKernel),
    /// A program without a kernel, the same for every number of threads; and its argument.
    Program(fn(usize) -> Program, usize),
    /// A recorded query.
    Replay(Replayed),
    /// A network to re-enact. It is rehearsed when a run needs it.
    Network(&'static LazyLock<Reenactment>),
    /// Cores moving bytes.
    Traffic(Traffic),
    /// Threads sharing a queue or a pool.
    Shared(Shared),
    /// Threads reading an array.
    Array(ArrayLoop),
}

impl Setup {
    /// A run on a machine with this number of threads. Its strategy and its label are still to come ([`Setup::under`]).
    fn of(group: &'static str, machine: (&'static str, usize), input: Input) -> Setup {
        Setup {
            group,
            label: String::new(),
            machine: machine.0,
            input,
            strategy: String::new(),
            threads: machine.1,
            interleave: false,
            allocator: AllocatorModel::default(),
            reduced: 1.0,
        }
    }

    /// A kernel, with one of the machine's threads in each seat.
    fn kernel(group: &'static str, machine: (&'static str, usize), kernel: impl Into<AnyKernel>) -> Setup {
        Setup::of(group, machine, Input::Kernel(kernel.into()))
    }

    /// Its group and its label.
    fn run(&self) -> Run {
        (self.group.to_owned(), self.label.clone())
    }

    /// This run under another strategy and with another label.
    fn under(&self, strategy: &str, label: impl Into<String>) -> Setup {
        Setup { strategy: strategy.to_owned(), label: label.into(), ..self.clone() }
    }

    /// This run with its arrays distributed in this way.
    fn lying(mut self, distribution: &Distribution) -> Setup {
        if let Input::Kernel(kernel) = &mut self.input
            && let Some(place) = kernel.distribution()
        {
            *place = distribution.clone();
        }
        self
    }

    /// This run with interleaved pages.
    fn interleaved(self) -> Setup {
        Setup { interleave: true, ..self.lying(&Distribution::Standard) }
    }

    fn program(&self, times: f64) -> Cow<'_, Program> {
        match &self.input {
            Input::Kernel(kernel) => {
                let mut kernel = kernel.clone();
                if times < 1.0 {
                    kernel.scale(times);
                }
                Cow::Owned(Recorder::record(&kernel, self.threads))
            }
            Input::Program(program, argument) => Cow::Owned(program(*argument)),
            Input::Array(array) => Cow::Owned(array.program(self.threads, times)),
            Input::Replay(replayed) => Cow::Borrowed(&replayed.replay().program),
            Input::Network(_) | Input::Traffic(_) | Input::Shared(_) => Cow::Owned(Program::default()),
        }
    }
}

/// A claim of a paper about a figure.
pub struct Claim {
    /// In our words.
    pub text: String,
    /// The measured ratio, in words.
    pub ratio: &'static str,
    /// The paper's range.
    pub expected: RangeInclusive<f64>,
    /// The published figure and its unit, if the ratio compares a prediction with it.
    pub published: Option<(f64, &'static str)>,
    /// If it must hold for every seed: the groups and labels of the compared runs.
    pub always: Option<Vec<(&'static str, String)>>,
    /// If it is known not to hold: the model's gap, or the contradiction within the paper.
    pub missing: Option<&'static str>,
    /// If it follows from the model's input and is no test of it: this input.
    pub by_construction: Option<&'static str>,
    /// Computes the ratio.
    measure: Box<dyn Fn(&Results) -> f64 + Send + Sync>,
}

impl Claim {
    fn new(
        text: impl Into<String>,
        ratio: &'static str,
        expected: RangeInclusive<f64>,
        measure: impl Fn(&Results) -> f64 + Send + Sync + 'static,
    ) -> Claim {
        let (text, measure) = (text.into(), Box::new(measure));
        Claim { text, ratio, expected, published: None, always: None, missing: None, by_construction: None, measure }
    }

    /// Marks the ratio as a prediction over this published figure.
    fn published(self, value: f64, unit: &'static str) -> Claim {
        Claim { published: Some((value, unit)), ..self }
    }

    /// Names the model's gap, or the contradiction within the paper, if the claim does not hold.
    fn missing(self, missing: &'static str) -> Claim {
        Claim { missing: Some(missing), ..self }
    }

    /// Marks it as following from the model's input: it is shown, and does not count among the claims that hold.
    fn by_construction(self, why: &'static str) -> Claim {
        Claim { by_construction: Some(why), ..self }
    }

    /// Makes it a claim of every seed, about these runs.
    fn always(self, group: &'static str, labels: impl IntoIterator<Item = String>) -> Claim {
        Claim { always: Some(labels.into_iter().map(|label| (group, label)).collect()), ..self }
    }

    /// The ratio, and whether it is in the paper's range.
    pub fn judge(&self, results: &Results) -> (f64, bool) {
        let ratio = (self.measure)(results);
        (ratio, self.expected.contains(&ratio))
    }

    /// Whether it is judged with other parameters and seeds, too, when these are the figure's results: if it holds, or
    /// if nobody knows why it does not.
    fn is_varied(&self, results: &Results) -> bool {
        self.missing.is_none() || self.judge(results).1
    }

    /// The runs it compares: their groups and labels.
    fn runs(&self, results: &Results) -> BTreeSet<Run> {
        results.asked.take();
        self.judge(results);
        results.asked.take()
    }
}

/// Ratios with a smaller difference count as equal: a second run may differ by as much.
const SAME: f64 = 0.01;

/// The ratios counted as more.
const MORE: RangeInclusive<f64> = 1.0 + SAME..=f64::INFINITY;

/// The ratios counted as not more.
const NOT_MORE: RangeInclusive<f64> = 0.0..=1.0 + SAME;

/// The range around a published round number, or one from a chart: within a quarter.
const ABOUT: RangeInclusive<f64> = 0.75..=1.25;

/// The range for "equal" bars in a figure.
const EQUAL: RangeInclusive<f64> = 0.95..=1.05;

/// A run's times, over its seeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// The times in nanoseconds, in ascending order.
    walls: Vec<f64>,
    /// Bytes from the own node or home cache, on average.
    near: f64,
    /// Bytes from other nodes or home caches.
    far: f64,
    /// How many nodes branches stay on, on average; 0 if there are none.
    kept_nodes: f64,
    /// How long a core that reads line after line waits for one; 0 if there is none.
    latency_ns: f64,
}

impl Point {
    fn of(samples: &[Sample]) -> Point {
        let mean = |bytes: fn(&Sample) -> f64| samples.iter().map(bytes).sum::<f64>() / samples.len() as f64;
        let mut walls: Vec<f64> = samples.iter().map(|sample| sample.wall_ns).collect();
        walls.sort_by(f64::total_cmp);
        Point {
            walls,
            near: mean(|sample| sample.near_bytes),
            far: mean(|sample| sample.far_bytes),
            kept_nodes: mean(|sample| sample.kept_nodes),
            latency_ns: mean(|sample| sample.latency_ns),
        }
    }

    /// The time above this share of the seeds' times.
    pub fn quantile(&self, share: f64) -> f64 {
        self.walls[((self.walls.len() - 1) as f64 * share).round() as usize]
    }

    /// How many nodes branches stay on: see [`Sample::kept_nodes`].
    pub fn kept_nodes(&self) -> f64 {
        self.kept_nodes
    }

    /// Bytes per nanosecond.
    fn bandwidth(&self) -> f64 {
        (self.near + self.far) / self.wall_ns()
    }

    /// The median time.
    pub fn wall_ns(&self) -> f64 {
        self.quantile(0.5)
    }
}

/// A run's group and its label.
type Run = (String, String);

/// The results of a figure's runs.
#[derive(Clone, Debug, Default)]
pub struct Results {
    points: BTreeMap<Run, Point>,
    /// The runs with requested results.
    asked: RefCell<BTreeSet<Run>>,
}

impl Results {
    /// Results from elsewhere: groups, labels, and times in nanoseconds.
    pub fn from_walls<'a>(walls: impl IntoIterator<Item = (&'a str, &'a str, f64)>) -> Results {
        let point = |(group, label, wall_ns): (&str, &str, f64)| {
            let sample = Sample { wall_ns, ..Sample::default() };
            ((group.to_owned(), label.to_owned()), Point::of(&[sample]))
        };
        Results::of(walls.into_iter().map(point))
    }

    fn of(points: impl IntoIterator<Item = (Run, Point)>) -> Results {
        Results { points: points.into_iter().collect(), asked: RefCell::default() }
    }

    /// The result of one run. Panics if there is none.
    pub fn point(&self, group: &str, label: &str) -> &Point {
        let run = (group.to_owned(), label.to_owned());
        let point = self.points.get(&run).unwrap_or_else(|| panic!("a figure has a run `{label}` of {group}"));
        self.asked.borrow_mut().insert(run);
        point
    }

    /// The time of one run of a group, divided by another's.
    fn ratio(&self, group: &str, label: &str, to: &str) -> f64 {
        self.point(group, label).wall_ns() / self.point(group, to).wall_ns()
    }

    /// The share of a run's bytes from another node, or another's home cache.
    fn far_share(&self, group: &str, label: &str) -> f64 {
        let point = self.point(group, label);
        let bytes = point.near + point.far;
        if bytes > 0.0 { point.far / bytes } else { 0.0 }
    }
}

/// The largest of some ratios.
fn largest(ratios: impl IntoIterator<Item = f64>) -> f64 {
    ratios.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

/// The smallest of some ratios.
fn smallest(ratios: impl IntoIterator<Item = f64>) -> f64 {
    ratios.into_iter().fold(f64::INFINITY, f64::min)
}

/// The geometric mean of some ratios.
fn geometric_mean(ratios: &[f64]) -> f64 {
    ratios.iter().product::<f64>().powf(1.0 / ratios.len() as f64)
}

/// The ratio farthest from 1.
fn farthest(ratios: impl IntoIterator<Item = f64>) -> f64 {
    let farther = |a: f64, b: f64| if b.ln().abs() > a.ln().abs() { b } else { a };
    ratios.into_iter().fold(1.0, farther)
}

/// How much of a figure is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Effort {
    /// Whether parameters vary.
    pub variants: bool,
    /// The number of seeds for claims about every seed.
    pub seeds: u64,
    /// The most seeds for a figure's median.
    pub samples: usize,
    /// Whether all inputs are reduced.
    pub reduced: bool,
    /// The first seed.
    pub seed: u64,
}

impl Effort {
    /// With all variants and all seeds.
    pub fn full() -> Effort {
        Effort { variants: true, seeds: 20, samples: usize::MAX, reduced: false, seed: 1 }
    }

    /// The figure alone.
    pub fn quick() -> Effort {
        Effort { variants: false, seeds: 1, ..Effort::full() }
    }

    /// The figure with reduced inputs and few seeds.
    pub fn small() -> Effort {
        Effort { reduced: true, samples: 5, ..Effort::quick() }
    }
}

/// The number of seeds for a median when parameters vary.
const FEW: usize = 3;

/// All runs of a figure under the same circumstances.
#[derive(Clone, Debug, PartialEq)]
struct Case {
    /// How it differs from the figure itself.
    name: String,
    parameters: Parameters,
    /// The changed one of them.
    changed: Option<&'static str>,
    /// A changed bandwidth of the machines, and its factor.
    bandwidth: Option<(&'static str, f64)>,
    seed: u64,
    samples: usize,
    reduced: bool,
    /// The use of its results.
    purpose: Purpose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Figure,
    Variant,
    Seed,
}

/// One run of a figure, with each of its seeds.
pub struct FigureJob<'a> {
    setup: &'a Setup,
    /// The factor of its input's size.
    times: f64,
    bandwidth: Option<(&'static str, f64)>,
    options: SimOptions,
    samples: usize,
}

/// The result of one simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// How long the measured part took, in nanoseconds.
    pub wall_ns: f64,
    /// Bytes from the own node or home cache.
    pub near_bytes: f64,
    /// Bytes from other nodes or home caches.
    pub far_bytes: f64,
    /// For a replay, how many nodes its boxes stay on: 1 if each box's work is spread evenly over all nodes, or all of
    /// it is on one node; the number of nodes if each box stays on one node, and all nodes have the same amount of
    /// work. It is the exponential of the mutual information of box and node (Shannon), weighted with time. 0 if
    /// nothing is replayed.
    pub kept_nodes: f64,
    /// For [`Traffic`], how long a core that reads line after line waits for one; 0 if there is none.
    pub latency_ns: f64,
    /// The free parameters it depends on.
    pub used: ParameterSet,
}

impl Default for Sample {
    /// Nothing took any time, and all parameters may matter.
    fn default() -> Sample {
        let used = ParameterSet::ALL;
        Sample { wall_ns: 0.0, near_bytes: 0.0, far_bytes: 0.0, kept_nodes: 0.0, latency_ns: 0.0, used }
    }
}

impl FigureJob<'_> {
    /// Runs it and returns a sample for each seed. `watch` is called now and then with the number of finished tasks,
    /// and returns whether to go on.
    ///
    /// # Errors
    /// See [`SimError`].
    pub fn run(&self, watch: &mut dyn FnMut(usize) -> bool) -> Result<Vec<Sample>, SimError> {
        let machine = Machine::by_name(self.setup.machine).expect("a figure names a machine that comes with the crate");
        let machine = match self.bandwidth.and_then(|(name, factor)| machine.scaled(name, factor)) {
            Some(scaled) => scaled,
            None => machine,
        };
        if let Input::Traffic(traffic) = &self.setup.input {
            return (0..self.samples).map(|_| traffic.run(&machine, &self.options, watch)).collect();
        }
        if let Input::Shared(shared) = &self.setup.input {
            let options =
                |sample| SimOptions { seed: self.options.seed.wrapping_add(sample as u64), ..self.options.clone() };
            return (0..self.samples).map(|sample| shared.run(&machine, &options(sample), self.times, watch)).collect();
        }
        let setting: vicus_schedule::Setting = self.setup.strategy.parse().expect("a figure names a strategy");
        let plan = machine.plan(&setting, self.setup.threads);
        let program = self.setup.program(self.times);
        let run = |sample| {
            let options = SimOptions { seed: self.options.seed.wrapping_add(sample as u64), ..self.options.clone() };
            let outcome = match &self.setup.input {
                Input::Network(reenactment) => reenactment.simulate(&machine, &plan, &options, watch)?.0,
                _ => simulate_watched(&machine, &plan, &program, &options, watch)?,
            };
            let (near_bytes, far_bytes) = (outcome.counts.near_bytes, outcome.counts.far_bytes);
            let kept_nodes = match &self.setup.input {
                Input::Replay(replayed) => replayed.kept_nodes(&plan, &outcome),
                _ => 0.0,
            };
            Ok(Sample {
                wall_ns: outcome.wall_ns,
                near_bytes,
                far_bytes,
                kept_nodes,
                latency_ns: 0.0,
                used: outcome.used,
            })
        };
        (0..self.samples).map(run).collect()
    }
}

/// Runs jobs one after the other.
///
/// # Errors
/// The first error of a job.
pub fn serially(jobs: &[FigureJob<'_>]) -> Result<Vec<Vec<Sample>>, SimError> {
    jobs.iter().map(|job| job.run(&mut |_| true)).collect()
}

impl Figure {
    /// The recordings needed for its evaluation.
    pub fn recordings(&self) -> Vec<Recording> {
        let mut recordings: Vec<Recording> = self.replayed().map(|replayed| replayed.recording).collect();
        recordings.dedup();
        recordings
    }

    fn replayed(&self) -> impl Iterator<Item = &Replayed> {
        self.setups.iter().filter_map(|setup| match &setup.input {
            Input::Replay(replayed) => Some(replayed),
            _ => None,
        })
    }

    /// Uses a recording: the last request of its trace.
    ///
    /// # Errors
    /// It can't be replayed.
    pub fn replay(&mut self, recording: &Recording, trace: &Trace) -> Result<(), ReplayError> {
        let wants = |setup: &&mut Setup| matches!(&setup.input, Input::Replay(other) if other.recording == *recording);
        let mut made: Option<Replayed> = None;
        for setup in self.setups.iter_mut().filter(wants) {
            let Input::Replay(replayed) = &mut setup.input else { unreachable!("it was chosen by that") };
            match &made {
                Some(made) if made.copies == replayed.copies => *replayed = made.clone(),
                _ => replayed.take(trace)?,
            }
            made = Some(replayed.clone());
        }
        Ok(())
    }

    fn cases(&self, effort: &Effort) -> Vec<Case> {
        let base = Case {
            name: "as it is".to_owned(),
            parameters: Parameters::default(),
            changed: None,
            bandwidth: None,
            seed: effort.seed,
            samples: self.samples.min(effort.samples),
            reduced: effort.reduced,
            purpose: Purpose::Figure,
        };
        let less = Case { samples: base.samples.min(FEW), reduced: true, ..base.clone() };
        let mut cases = vec![base];
        if effort.variants {
            if self.setups.iter().any(|setup| setup.reduced < 1.0) {
                cases.push(Case { name: "smaller input".to_owned(), purpose: Purpose::Variant, ..less.clone() });
            }
            let quarter = |name: &'static str| [(name, (0.75, "-25 %")), (name, (1.25, "+25 %"))];
            for (name, (factor, change)) in Parameters::NAMES.into_iter().flat_map(quarter) {
                let parameters = less.parameters.scaled(name, factor).expect("the parameter was named by itself");
                let (name, changed) = (format!("{name} {change}"), Some(name));
                cases.push(Case { name, parameters, changed, purpose: Purpose::Variant, ..less.clone() });
            }
            let mut machines: Vec<&str> = self.setups.iter().map(|setup| setup.machine).collect();
            machines.dedup();
            let machines: Vec<Machine> = machines.into_iter().filter_map(Machine::by_name).collect();
            let has = |name: &&str| machines.iter().any(|machine| machine.scaled(name, 1.0).is_some());
            for (name, (factor, change)) in Machine::BANDWIDTHS.into_iter().filter(has).flat_map(quarter) {
                let (name, bandwidth) = (format!("{name} {change}"), Some((name, factor)));
                cases.push(Case { name, bandwidth, purpose: Purpose::Variant, ..less.clone() });
            }
        }
        if self.claims.iter().any(|claim| claim.always.is_some()) && effort.seeds > 1 {
            let seeds = (1..effort.seeds).map(|more| effort.seed.wrapping_add(more));
            cases.extend(seeds.map(|seed| Case {
                name: format!("seed {seed}"),
                seed,
                samples: 1,
                purpose: Purpose::Seed,
                ..less.clone()
            }));
        }
        cases
    }

    /// The runs for variants, and the runs for other seeds, given the figure's results: the runs of its claims, except
    /// for claims that fail for a known reason.
    fn varied(&self, results: &Results) -> [BTreeSet<Run>; 2] {
        let varied = || self.claims.iter().filter(|claim| claim.is_varied(results));
        let always = varied().filter_map(|claim| claim.always.as_ref()).flatten();
        let always = always.map(|(group, label)| ((*group).to_owned(), label.clone()));
        [varied().flat_map(|claim| claim.runs(results)).collect(), always.collect()]
    }

    fn job<'a>(&'a self, case: &Case, setup: &'a Setup) -> FigureJob<'a> {
        let options = SimOptions {
            parameters: case.parameters,
            seed: case.seed,
            interleave: setup.interleave,
            allocator: setup.allocator,
            ..SimOptions::default()
        };
        FigureJob { setup, times: case.times(setup), bandwidth: case.bandwidth, options, samples: case.samples }
    }

    /// Runs everything with `run`, and judges the claims. It skips runs with the same outcome as an earlier one, and
    /// runs that only matter to claims failing for a known reason. `run` is called up to three times: with the runs of
    /// the figure as it is, of smaller inputs, and of variants and seeds.
    ///
    /// # Errors
    /// The errors of `run`.
    pub fn evaluate<E>(
        &self,
        effort: &Effort,
        run: impl FnMut(&[FigureJob<'_>]) -> Result<Vec<Vec<Sample>>, E>,
    ) -> Result<FigureReport, E> {
        let mut results = self.results(effort, run)?;
        // A variant without a possible difference says nothing about a claim.
        results.retain(|(.., differs)| *differs);
        let results: Vec<_> = results.into_iter().map(|(case, results, _)| (case, results)).collect();
        Ok(report::report(self, effort, &results))
    }

    /// The results of each case, and whether a run of it may differ from those of the cases before.
    fn results<E>(
        &self,
        effort: &Effort,
        mut run: impl FnMut(&[FigureJob<'_>]) -> Result<Vec<Vec<Sample>>, E>,
    ) -> Result<Vec<(Case, Results, bool)>, E> {
        let cases = self.cases(effort);
        // By case and setup.
        let mut found: Vec<Vec<Option<Vec<Sample>>>> = vec![vec![None; self.setups.len()]; cases.len()];
        // First the figure as it is; then the variants' smaller input, if any, to learn the possible differences; then
        // the others.
        let is_smaller = |case: &Case| case.purpose == Purpose::Variant && case.is_plain();
        let stages: [&dyn Fn(&Case) -> bool; 3] = [&|case| case.purpose == Purpose::Figure, &is_smaller, &|case| {
            case.purpose != Purpose::Figure && !is_smaller(case)
        }];
        let smaller = cases.iter().position(is_smaller);
        let mut differs = vec![false; cases.len()];
        let results_of = |found: &[Option<Vec<Sample>>]| {
            let points = self.setups.iter().zip(found);
            Results::of(points.filter_map(|(setup, samples)| Some((setup.run(), Point::of(samples.as_ref()?)))))
        };
        let mut varied: [BTreeSet<Run>; 2] = Default::default();
        for (number_of_stage, stage) in stages.into_iter().enumerate() {
            let (mut jobs, mut places) = (Vec::new(), Vec::new());
            for (number, case) in cases.iter().enumerate().filter(|(_, case)| stage(case)) {
                let [of_variants, of_seeds] = &varied;
                for (at, setup) in self.setups.iter().enumerate() {
                    let is_asked = match case.purpose {
                        Purpose::Figure => true,
                        Purpose::Variant => of_variants.contains(&setup.run()),
                        Purpose::Seed => of_seeds.contains(&setup.run()),
                    };
                    if !is_asked {
                        continue;
                    }
                    let earlier = [smaller, Some(0)].into_iter().flatten().filter(|&earlier| earlier != number);
                    let mut earlier =
                        earlier.filter_map(|at_case| Some((&cases[at_case], found[at_case][at].as_ref()?)));
                    match earlier.find(|(earlier, samples)| case.comes_to_the_same(setup, earlier, samples)) {
                        Some((_, samples)) => found[number][at] = Some(samples[..case.samples].to_vec()),
                        None => {
                            jobs.push(self.job(case, setup));
                            places.push((number, at));
                            differs[number] = true;
                        }
                    }
                }
            }
            if !jobs.is_empty() {
                for ((number, at), samples) in places.into_iter().zip(run(&jobs)?) {
                    found[number][at] = Some(samples);
                }
            }
            if number_of_stage == 0 {
                varied = self.varied(&results_of(&found[0]));
            }
        }
        let results = cases.into_iter().zip(&found).zip(differs);
        Ok(results.map(|((case, found), differs)| (case, results_of(found), differs)).collect())
    }
}

impl Case {
    /// Whether only the input's size or the seed differs from the figure as it is.
    fn is_plain(&self) -> bool {
        self.changed.is_none() && self.bandwidth.is_none()
    }

    /// How much of a run's input it has.
    fn times(&self, setup: &Setup) -> f64 {
        if self.reduced { setup.reduced } else { 1.0 }
    }

    /// Whether a run has the same outcome as in an earlier plain case with these samples: its input and its seeds are
    /// the same, and it did not use the changed parameter.
    fn comes_to_the_same(&self, setup: &Setup, earlier: &Case, samples: &[Sample]) -> bool {
        let alike =
            self.times(setup) == earlier.times(setup) && self.seed == earlier.seed && self.samples <= samples.len();
        let uses = |name| samples[..self.samples].iter().any(|sample| sample.used.has(name));
        let has = |name| Machine::by_name(setup.machine).is_some_and(|machine| machine.scaled(name, 1.0).is_some());
        alike && !self.changed.is_some_and(uses) && !self.bandwidth.is_some_and(|(name, _)| has(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_has_a_machine_and_a_strategy_and_a_name_of_its_own() {
        for (id, figure) in FIGURES {
            let figure = figure();
            assert_eq!(figure.id, *id);
            let mut names: Vec<_> = figure.setups.iter().map(|setup| (setup.group, &setup.label)).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "{id}");
            for setup in &figure.setups {
                let machine = Machine::by_name(setup.machine).unwrap_or_else(|| panic!("{id}: {}", setup.machine));
                // Bobox' table has more threads than PUs.
                let is_crowded = setup.threads > machine.topology.usable_pus().count();
                assert!(!is_crowded || *id == "bobox-table3", "{id}: {}", setup.label);
                let setting: Result<vicus_schedule::Setting, _> = setup.strategy.parse();
                assert!(setting.is_ok(), "{id}: {setting:?}");
                let baseline = |other: &Setup| other.group == setup.group && other.label == figure.baseline;
                assert!(figure.setups.iter().any(baseline), "{id}: {}", setup.group);
            }
        }
    }

    #[test]
    fn what_is_not_run_again_would_have_come_to_the_same() {
        for figure in [muddukrishna_fig11::figure(), wheeler::fig4()] {
            let effort = Effort { seeds: 3, samples: 2, ..Effort::full() };
            let mut runs = 0;
            let some = |jobs: &[FigureJob<'_>]| {
                runs += jobs.len();
                serially(jobs)
            };
            let results = figure.results(&effort, some).unwrap();
            let [of_variants, of_seeds] = figure.varied(&results[0].1);
            assert!(
                of_variants.len() < figure.setups.len() || figure.id != "wheeler-fig4",
                "a claim fails for a known reason"
            );
            let mut all = 0;
            for (case, found, _) in results {
                let is_asked = |setup: &&Setup| match case.purpose {
                    Purpose::Figure => true,
                    Purpose::Variant => of_variants.contains(&setup.run()),
                    Purpose::Seed => of_seeds.contains(&setup.run()),
                };
                let point = |setup: &Setup| {
                    all += 1;
                    let samples = figure.job(&case, setup).run(&mut |_| true).unwrap();
                    (setup.run(), Point::of(&samples))
                };
                let expected = Results::of(figure.setups.iter().filter(is_asked).map(point));
                assert_eq!(found.points, expected.points, "{}, {}", figure.id, case.name);
            }
            assert!(runs < all, "{}: {runs} of {all}", figure.id);
        }
    }

    #[test]
    fn a_report_with_variants_has_none_of_a_claim_that_fails_for_a_known_reason() {
        let effort = Effort { seeds: 3, samples: 2, ..Effort::full() };
        let report = wheeler::fig4().evaluate(&effort, serially).unwrap();
        for verdict in report.verdicts {
            assert_eq!(verdict.robust == Robust::Untried, verdict.missing.is_some(), "{}", verdict.claim);
        }
    }

    #[test]
    fn only_runs_of_claims_that_hold_or_are_not_explained_vary() {
        let held = Claim::new("holds", "1", 0.9..=1.1, |results| results.ratio("map", "a", "b"));
        let explained = |missing: fn(Claim) -> Claim| {
            let claim = Claim::new("does not hold", "1", 2.0..=3.0, |results| results.ratio("map", "c", "b"));
            missing(claim).always("map", ["c".to_owned(), "d".to_owned()])
        };
        let results = Results::from_walls(["a", "b", "c", "d", "e"].map(|label| ("map", label, 1.0)));
        let varied = |claim| {
            let figure = Figure { claims: vec![claim], ..muddukrishna_fig11::figure() };
            figure.varied(&results).map(|runs| runs.into_iter().map(|(_, label)| label).collect::<String>())
        };
        assert_eq!(varied(held), ["ab", ""]);
        assert_eq!(varied(explained(|claim| claim)), ["bc", "cd"]);
        assert_eq!(varied(explained(|claim| claim.missing("banks"))), ["", ""]);
    }

    #[test]
    fn a_claim_that_only_some_seeds_miss_says_how_far_off_they_are() {
        let verdict = |missing: fn(Claim) -> Claim, walls: [f64; 3]| {
            let claim = Claim::new("never slower", "a to b", NOT_MORE, |results| results.ratio("map", "a", "b"));
            let claims = vec![missing(claim).always("map", ["a".to_owned(), "b".to_owned()])];
            let figure = Figure { claims, ..muddukrishna_fig11::figure() };
            let effort = Effort { variants: false, seeds: 3, ..Effort::full() };
            let of = |wall| Results::from_walls([("map", "a", wall), ("map", "b", 1.0)]);
            let results: Vec<_> = figure.cases(&effort).into_iter().zip(walls.map(of)).collect();
            assert_eq!(results.len(), 3, "the figure, and two other seeds");
            let verdict = report::Verdict::of(&figure.claims[0], &results);
            (verdict.holds, verdict.seeds, verdict.farthest)
        };
        assert_eq!(verdict(|claim| claim, [1.0, 1.25, 1.125]), (false, Some((3, 1)), Some(1.25)));
        assert_eq!(verdict(|claim| claim, [1.0, 0.5, 1.0]), (true, Some((3, 3)), None));
        assert_eq!(verdict(|claim| claim, [1.25, 1.0, 1.0]), (false, Some((3, 2)), None), "not even as shown");
        let known = (false, Some((3, 2)), Some(1.25));
        assert_eq!(verdict(|claim| claim.missing("serial parts"), [1.0, 1.25, 1.0]), known);
    }

    #[test]
    fn a_claim_is_about_the_same_runs_with_all_results() {
        let mut chance = crate::chance::Chance::new(1);
        for (id, figure) in FIGURES {
            let figure = figure();
            let mut results = || {
                let walls = figure.setups.iter().map(|setup| (setup.group, setup.label.as_str()));
                Results::from_walls(walls.map(|(group, label)| (group, label, 1.0 + chance.below(1000) as f64)))
            };
            for claim in &figure.claims {
                let runs = claim.runs(&results());
                assert!(!runs.is_empty(), "{id}: {}", claim.text);
                (0..10).for_each(|_| assert_eq!(claim.runs(&results()), runs, "{id}: {}", claim.text));
            }
        }
    }

    #[test]
    fn each_parameter_varies_alone_in_both_directions() {
        let cases = muddukrishna_fig7::figure().cases(&Effort::full());
        let of = |purpose| cases.iter().filter(move |case| case.purpose == purpose);
        let changed = of(Purpose::Variant).filter(|case| case.parameters != Parameters::default());
        assert_eq!((changed.count(), of(Purpose::Seed).count()), (2 * Parameters::COUNT, 19));
        // Bandwidths of a core, a controller and a link; a chip with home caches has banks, and a mesh.
        let bandwidths = |figure: Figure| {
            let cases = figure.cases(&Effort::full()).into_iter().filter_map(|case| case.bandwidth);
            cases.map(|(name, _)| name).collect::<Vec<_>>()
        };
        let twice = |names: &[&'static str]| names.iter().flat_map(|&name| [name; 2]).collect::<Vec<_>>();
        let [core, controller, link, home] = Machine::BANDWIDTHS;
        assert_eq!(bandwidths(muddukrishna_fig7::figure()), twice(&[core, controller, link]));
        assert_eq!(bandwidths(muddukrishna_fig9::figure()), twice(&[controller, link, home]));
    }
}
