//! The papers' figures, done again on simulated machines, with what each paper claims of them.
//!
//! A [`Figure`] is plain: its runs ([`Setup`]), and its claims, each a number that is measured from the results and the range in
//! which the paper has it. Nothing in the model knows of them. A claim that holds is *robust* if it holds as well when any of the
//! free parameters, or of the machine's bandwidths outside of its caches ([`Machine::BANDWIDTHS`]), is a quarter smaller or larger, and *fragile*
//! otherwise; "never slower" is asked of twenty seeds besides.
//! Where the model disagrees with a paper, the report says so.
//!
//! A figure of queries replays what was recorded: it says which [`Recording`]s it needs, and gets them from who can make them
//! ([`Figure::replay`]).
//!
//! Figures make [`Job`]s, whoever evaluates them runs these in any order and on any thread: this crate starts none.
//!
//! ```
//! use vicus_sim::papers::{Effort, figure, serially};
//! let figure = figure("001-fig11").unwrap();
//! let report = figure.evaluate(&Effort::quick(), serially).unwrap();
//! assert_eq!(report.verdicts.len(), figure.claims.len());
//! ```

mod fig000;
mod fig001_11;
mod fig001_7;
mod fig001_9;
mod fig002_3;
mod fig002_4;
mod replayed;
mod report;
mod table003_3;

pub use replayed::{Recording, Replayed};
pub use report::{Report, Robust, Row, Verdict};

use crate::{Machine, Options, Parameters, Program, Recorder, ReplayError, SimError, simulate_watched};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use vicus_kernels::{AnyKernel, Kernel};
use vicus_memory::distribution::Distribution;
use vicus_trace::Trace;

/// A figure's name, and what makes it.
pub type Entry = (&'static str, fn() -> Figure);

/// The figures that can be done again.
pub const FIGURES: &[Entry] = &[
    ("000-fig5", fig000::fig5),
    ("000-fig6", fig000::fig6),
    ("000-fig7", fig000::fig7),
    ("000-fig8", fig000::fig8),
    ("001-fig7", fig001_7::figure),
    ("001-fig9", fig001_9::figure),
    ("001-fig11", fig001_11::figure),
    ("002-fig3", fig002_3::figure),
    ("002-fig4", fig002_4::figure),
    ("003-table3", table003_3::figure),
];

/// The figure of this name.
pub fn figure(id: &str) -> Option<Figure> {
    FIGURES.iter().find(|(name, _)| *name == id).map(|(_, figure)| figure())
}

/// A figure or a table of a paper.
pub struct Figure {
    /// The paper's number, and the figure's in it.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// How it differs from the paper's.
    pub notes: &'static [&'static str],
    /// The label of the run by whose time the others of its group are divided.
    pub baseline: &'static str,
    /// How many seeds a run has; its time is their median.
    pub samples: usize,
    /// What is run.
    pub setups: Vec<Setup>,
    /// What the paper says of it.
    pub claims: Vec<Claim>,
}

/// A run of a figure.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What it is compared within: a kernel, or a machine.
    pub group: &'static str,
    /// What it is in this group.
    pub label: String,
    /// The machine's name.
    pub machine: &'static str,
    /// What is run.
    pub input: Input,
    /// The strategy, with its parameters.
    pub strategy: String,
    /// On how many threads.
    pub threads: usize,
    /// Whether pages that nobody placed go round the nodes, as `numactl --interleave=all` has it.
    pub interleave: bool,
    /// How large the input is beside the paper's when parameters or seeds vary; 1 is as large.
    pub reduced: f64,
}

/// What is run.
#[derive(Clone, Debug)]
pub enum Input {
    /// A kernel.
    Kernel(AnyKernel),
    /// A program that doesn't come from one, and doesn't depend on the number of threads.
    Program(fn() -> Program),
    /// A query that was recorded.
    Replay(Replayed),
}

impl Setup {
    /// A kernel under a strategy, with what the machine's every thread does.
    fn kernel(group: &'static str, machine: (&'static str, usize), kernel: impl Into<AnyKernel>) -> Setup {
        Setup {
            group,
            label: String::new(),
            machine: machine.0,
            input: Input::Kernel(kernel.into()),
            strategy: String::new(),
            threads: machine.1,
            interleave: false,
            reduced: 1.0,
        }
    }

    /// The same under a strategy, called like this.
    fn under(&self, strategy: &str, label: impl Into<String>) -> Setup {
        Setup { strategy: strategy.to_owned(), label: label.into(), ..self.clone() }
    }

    /// The same with its arrays lying like this.
    fn lying(mut self, distribution: &Distribution) -> Setup {
        if let Input::Kernel(kernel) = &mut self.input
            && let Some(place) = kernel.distribution()
        {
            *place = distribution.clone();
        }
        self
    }

    /// The same with pages going round.
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
            Input::Program(program) => Cow::Owned(program()),
            Input::Replay(replayed) => Cow::Borrowed(&replayed.replay().program),
        }
    }
}

/// What a paper says of a figure.
pub struct Claim {
    /// In our words.
    pub text: String,
    /// What is measured: a ratio.
    pub ratio: &'static str,
    /// Where the paper has it.
    pub expected: RangeInclusive<f64>,
    /// If it must hold for every seed: the groups and labels of the runs that it is about.
    pub always: Option<Vec<(&'static str, String)>>,
    /// The ratio.
    measure: Box<dyn Fn(&Results) -> f64 + Send + Sync>,
}

impl Claim {
    fn new(
        text: impl Into<String>,
        ratio: &'static str,
        expected: RangeInclusive<f64>,
        measure: impl Fn(&Results) -> f64 + Send + Sync + 'static,
    ) -> Claim {
        Claim { text: text.into(), ratio, expected, always: None, measure: Box::new(measure) }
    }

    /// Of every seed; it is about these runs.
    fn always(self, group: &'static str, labels: impl IntoIterator<Item = String>) -> Claim {
        Claim { always: Some(labels.into_iter().map(|label| (group, label)).collect()), ..self }
    }

    /// The ratio, and whether it is where the paper has it.
    pub fn judge(&self, results: &Results) -> (f64, bool) {
        let ratio = (self.measure)(results);
        (ratio, self.expected.contains(&ratio))
    }
}

/// Equal, but for what a second run would differ by.
const SAME: f64 = 0.01;

/// At least so many times as much counts as more.
const MORE: RangeInclusive<f64> = 1.0 + SAME..=f64::INFINITY;

/// At most so much counts as not more.
const NOT_MORE: RangeInclusive<f64> = 0.0..=1.0 + SAME;

/// What is read as "equal" from a figure's bars.
const EQUAL: RangeInclusive<f64> = 0.95..=1.05;

/// A run's times, over its seeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// The times in nanoseconds, in ascending order.
    walls: Vec<f64>,
    /// Bytes from the own node or home cache, on average.
    near: f64,
    /// Bytes from others.
    far: f64,
    /// How many nodes branches keep to, on average; 0 if it has none.
    kept_nodes: f64,
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
        }
    }

    /// The time that such a share of the seeds stay below.
    pub fn quantile(&self, share: f64) -> f64 {
        self.walls[((self.walls.len() - 1) as f64 * share).round() as usize]
    }

    /// How many nodes branches keep to: see [`Sample::kept_nodes`].
    pub fn kept_nodes(&self) -> f64 {
        self.kept_nodes
    }

    /// The median time.
    pub fn wall_ns(&self) -> f64 {
        self.quantile(0.5)
    }
}

/// What the runs of a figure came to, by group and label.
#[derive(Clone, Debug, Default)]
pub struct Results(BTreeMap<(String, String), Point>);

impl Results {
    /// Made up, or measured elsewhere: groups, labels, and times in nanoseconds.
    pub fn from_walls<'a>(walls: impl IntoIterator<Item = (&'a str, &'a str, f64)>) -> Results {
        let point = |(group, label, wall_ns): (&str, &str, f64)| {
            let sample = Sample { wall_ns, ..Sample::default() };
            ((group.to_owned(), label.to_owned()), Point::of(&[sample]))
        };
        Results(walls.into_iter().map(point).collect())
    }

    /// What one run came to. Panics if there is none.
    pub fn point(&self, group: &str, label: &str) -> &Point {
        let key = (group.to_owned(), label.to_owned());
        self.0.get(&key).unwrap_or_else(|| panic!("a figure has a run `{label}` of {group}"))
    }

    /// How many times as long one run of a group takes as another.
    fn ratio(&self, group: &str, label: &str, to: &str) -> f64 {
        self.point(group, label).wall_ns() / self.point(group, to).wall_ns()
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

/// The one that is farthest from 1.
fn farthest(ratios: impl IntoIterator<Item = f64>) -> f64 {
    let farther = |a: f64, b: f64| if b.ln().abs() > a.ln().abs() { b } else { a };
    ratios.into_iter().fold(1.0, farther)
}

/// How much is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Effort {
    /// Whether parameters vary.
    pub variants: bool,
    /// For how many seeds "never" is asked.
    pub seeds: u64,
    /// At most how many seeds a figure's median has.
    pub samples: usize,
    /// Whether the reduced inputs are taken everywhere.
    pub reduced: bool,
    /// The first seed.
    pub seed: u64,
}

impl Effort {
    /// All of it.
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

/// How many seeds a median has when parameters vary.
const FEW: usize = 7;

/// All runs of a figure under the same circumstances.
#[derive(Clone, Debug, PartialEq)]
struct Case {
    /// What is different from the figure itself.
    name: String,
    parameters: Parameters,
    /// A bandwidth of the machines that is another one, and how many times as large.
    bandwidth: Option<(&'static str, f64)>,
    seed: u64,
    samples: usize,
    reduced: bool,
    /// What it is asked for.
    purpose: Purpose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Figure,
    Variant,
    Seed,
}

/// One run of a figure, with each of its seeds.
pub struct Job<'a> {
    case: usize,
    setup: &'a Setup,
    /// How large its input is.
    times: f64,
    bandwidth: Option<(&'static str, f64)>,
    options: Options,
    samples: usize,
}

/// What one simulation came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// How long the measured part took, in nanoseconds.
    pub wall_ns: f64,
    /// Bytes from the own node, or home cache.
    pub near_bytes: f64,
    /// Bytes from others.
    pub far_bytes: f64,
    /// Of a replay, how many nodes its boxes keep to: 1 if a box's work is on all nodes alike, or all boxes' on one; as many as there
    /// are if each box stays on one node, and all nodes have as much to do. The exponential of what a box tells of the node
    /// (Shannon's mutual information, weighted with time). Of others, 0.
    pub kept_nodes: f64,
}

impl Job<'_> {
    /// Runs it: a sample for each seed. `watch` is told now and then how many tasks are over, and says whether to go on.
    ///
    /// # Errors
    /// See [`SimError`].
    pub fn run(&self, watch: &mut dyn FnMut(usize) -> bool) -> Result<Vec<Sample>, SimError> {
        let machine = Machine::by_name(self.setup.machine).expect("a figure names a machine that comes with the crate");
        let machine = match self.bandwidth.and_then(|(name, factor)| machine.scaled(name, factor)) {
            Some(scaled) => scaled,
            None => machine,
        };
        let setting: vicus_schedule::Setting = self.setup.strategy.parse().expect("a figure names a strategy");
        let plan = machine.plan(&setting, self.setup.threads);
        let program = self.setup.program(self.times);
        let run = |sample| {
            let options = Options { seed: self.options.seed + sample as u64, ..self.options.clone() };
            let outcome = simulate_watched(&machine, &plan, &program, &options, watch)?;
            let (near_bytes, far_bytes) = (outcome.counts.near_bytes, outcome.counts.far_bytes);
            let kept_nodes = match &self.setup.input {
                Input::Replay(replayed) => replayed.kept_nodes(&plan, &outcome),
                _ => 0.0,
            };
            Ok(Sample { wall_ns: outcome.wall_ns, near_bytes, far_bytes, kept_nodes })
        };
        (0..self.samples).map(run).collect()
    }
}

/// Runs jobs one after the other.
///
/// # Errors
/// The first job's that fails.
pub fn serially(jobs: &[Job<'_>]) -> Result<Vec<Vec<Sample>>, SimError> {
    jobs.iter().map(|job| job.run(&mut |_| true)).collect()
}

impl Figure {
    /// What has to be recorded before it can be evaluated.
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

    /// Takes what was recorded: the last request of a trace.
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
                let name = format!("{name} {change}");
                cases.push(Case { name, parameters, purpose: Purpose::Variant, ..less.clone() });
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
            let seeds = effort.seed + 1..effort.seed + effort.seeds;
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

    /// Whether a claim of every seed is about a run.
    fn must_always_hold(&self, setup: &Setup) -> bool {
        let mut runs = self.claims.iter().filter_map(|claim| claim.always.as_ref()).flatten();
        runs.any(|(group, label)| (*group, label) == (setup.group, &setup.label))
    }

    /// Everything that has to be run, case by case.
    pub fn jobs(&self, effort: &Effort) -> Vec<Job<'_>> {
        let mut jobs = Vec::new();
        for (number, case) in self.cases(effort).into_iter().enumerate() {
            for setup in
                self.setups.iter().filter(|setup| case.purpose != Purpose::Seed || self.must_always_hold(setup))
            {
                let times = if case.reduced { setup.reduced } else { 1.0 };
                let options = Options {
                    parameters: case.parameters,
                    seed: case.seed,
                    interleave: setup.interleave,
                    ..Options::default()
                };
                jobs.push(Job {
                    case: number,
                    setup,
                    times,
                    bandwidth: case.bandwidth,
                    options,
                    samples: case.samples,
                });
            }
        }
        jobs
    }

    /// Has everything run, and judges the claims.
    ///
    /// # Errors
    /// What `run` says.
    pub fn evaluate<E>(
        &self,
        effort: &Effort,
        run: impl FnOnce(&[Job<'_>]) -> Result<Vec<Vec<Sample>>, E>,
    ) -> Result<Report, E> {
        let jobs = self.jobs(effort);
        let samples = run(&jobs)?;
        let cases = self.cases(effort);
        let mut results = vec![Results::default(); cases.len()];
        for (job, samples) in jobs.iter().zip(&samples) {
            let key = (job.setup.group.to_owned(), job.setup.label.clone());
            results[job.case].0.insert(key, Point::of(samples));
        }
        let results: Vec<(Case, Results)> = cases.into_iter().zip(results).collect();
        Ok(report::report(self, effort, &results))
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
                assert!(setup.threads <= machine.topology.usable_pus().count(), "{id}: {}", setup.label);
                let setting: Result<vicus_schedule::Setting, _> = setup.strategy.parse();
                assert!(setting.is_ok(), "{id}: {setting:?}");
                let baseline = |other: &Setup| other.group == setup.group && other.label == figure.baseline;
                assert!(figure.setups.iter().any(baseline), "{id}: {}", setup.group);
            }
        }
    }

    #[test]
    fn each_parameter_varies_alone_in_both_directions() {
        let cases = fig001_7::figure().cases(&Effort::full());
        let of = |purpose| cases.iter().filter(move |case| case.purpose == purpose);
        let changed = of(Purpose::Variant).filter(|case| case.parameters != Parameters::default());
        assert_eq!((changed.count(), of(Purpose::Seed).count()), (16, 19));
        // A core's, a controller's, a link's; a chip with home caches has no links between nodes, and has banks.
        let bandwidths = |figure: Figure| {
            let cases = figure.cases(&Effort::full()).into_iter().filter_map(|case| case.bandwidth);
            cases.map(|(name, _)| name).collect::<Vec<_>>()
        };
        let twice = |names: &[&'static str]| names.iter().flat_map(|&name| [name; 2]).collect::<Vec<_>>();
        let [core, controller, link, home] = Machine::BANDWIDTHS;
        assert_eq!(bandwidths(fig001_7::figure()), twice(&[core, controller, link]));
        assert_eq!(bandwidths(fig001_9::figure()), twice(&[controller, home]));
    }
}
