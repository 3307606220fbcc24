//! Strategies on machines with workloads: how long each takes, compared with the best of the others.
//!
//! A [`Grid`] makes [`GridJob`]s, one for each pair of a machine and a workload. The caller runs them in any order and
//! on any threads: this crate starts none. [`Grid::report`] compares their results. The grid is no judge of the model,
//! and has no claims; it shows where a strategy is the right one, and where it isn't.
//!
//! ```
//! use vicus_sim::Machine;
//! use vicus_sim::grid::{Grid, Workload};
//! let machines = vec![Machine::by_name("core-i7-860").unwrap()];
//! let workloads = Workload::all().into_iter().filter(|workload| workload.name == "map").collect();
//! let strategies = ["las", "steal"].map(|name| name.parse().unwrap()).to_vec();
//! let grid = Grid { share: 0.1, ..Grid::new(machines, workloads, strategies) };
//! let results: Result<Vec<_>, _> = grid.jobs().iter().map(|job| job.run(&mut |_| true)).collect();
//! let report = grid.report(&results.unwrap());
//! assert_eq!(report.cells.len(), 2);
//! // Of two, each is compared with the other.
//! assert!((report.cells[0].ratio * report.cells[1].ratio - 1.0).abs() < 1e-9);
//! ```

mod graphs;
mod structures;
mod workload;

pub use workload::Workload;

use crate::{Machine, Program, SimError, SimOptions, Step, simulate_watched};
use serde::Serialize;
use std::collections::BTreeMap;
use vicus_schedule::{MOST_THREADS, RequestId, Setting};

/// Strategies on machines with workloads.
pub struct Grid {
    /// The machines. Each has a thread for each PU that may be used.
    pub machines: Vec<Machine>,
    /// The work.
    pub workloads: Vec<Workload>,
    /// The strategies. Invariant: at least two.
    pub strategies: Vec<Setting>,
    /// The first seed.
    pub seed: u64,
    /// How many seeds a run has; its time is their median.
    pub samples: usize,
    /// How much of each workload's input is run: 1 is all of it.
    pub share: f64,
    /// How much the times of equal pieces of work differ, if not as [`Parameters`](crate::Parameters) have it.
    pub jitter: Option<f64>,
}

impl Grid {
    /// With one seed, and all of each input.
    pub fn new(machines: Vec<Machine>, workloads: Vec<Workload>, strategies: Vec<Setting>) -> Grid {
        Grid { machines, workloads, strategies, seed: 1, samples: 1, share: 1.0, jitter: None }
    }

    /// A job for each machine and each workload that it can run, machine by machine.
    pub fn jobs(&self) -> Vec<GridJob<'_>> {
        let of = |machine| self.workloads.iter().map(move |workload| GridJob { grid: self, machine, workload });
        self.machines.iter().flat_map(of).collect()
    }

    /// Compares the results of its jobs, in their order. Panics if there is not one for each.
    pub fn report(&self, results: &[Vec<f64>]) -> GridReport {
        let rows = results.iter().map(|times| times.iter().copied().zip(compared(times)).collect());
        self.report_of(self.strategies.iter().map(Setting::to_string).collect(), rows.collect())
    }

    /// Like [`Grid::report`], of the first `shown` strategies, beside the learned ones of programs: `learned` has the
    /// best strategy for each job, by its index. The learned ones are compared with the best of the shown strategies.
    pub fn report_learned(&self, results: &[Vec<f64>], shown: usize, learned: &[usize]) -> GridReport {
        let row = |(times, &learned): (&Vec<f64>, &usize)| {
            let others = &times[..shown];
            let best = others.iter().copied().fold(f64::INFINITY, f64::min);
            let row = others.iter().copied().zip(compared(others));
            row.chain([(times[learned], times[learned] / best)]).collect()
        };
        let names = self.strategies[..shown].iter().map(Setting::to_string).chain([LEARNED.to_owned()]);
        self.report_of(names.collect(), results.iter().zip(learned).map(row).collect())
    }

    /// A report of these columns; a row has for each job the time in nanoseconds and the ratio of each.
    fn report_of(&self, strategies: Vec<String>, rows: Vec<Vec<(f64, f64)>>) -> GridReport {
        let jobs = self.jobs();
        assert_eq!(jobs.len(), rows.len(), "a result for each job");
        let cells = jobs.iter().zip(rows).flat_map(|(job, row)| {
            let nodes = job.machine.topology.nodes.iter().filter(|node| !node.pus.is_empty()).count();
            let cell = move |(strategy, (ns, ratio)): (&String, (f64, f64))| Cell {
                machine: job.machine.name.clone(),
                nodes,
                threads: threads(job.machine),
                workload: job.workload.name.clone(),
                strategy: strategy.clone(),
                ms: ns / 1e6,
                ratio,
            };
            strategies.iter().zip(row).map(cell)
        });
        let cells = cells.collect();
        GridReport {
            seed: self.seed,
            samples: self.samples,
            share: self.share,
            jitter: self.jitter,
            strategies,
            workloads: self.workloads.iter().map(|workload| (workload.name.clone(), workload.what.clone())).collect(),
            cells,
        }
    }
}

/// The column of [`Grid::report_learned`] for what was learned.
pub const LEARNED: &str = "learned";

/// How many threads a machine has in a grid.
pub fn threads(machine: &Machine) -> usize {
    machine.topology.usable_pus().count().min(MOST_THREADS)
}

/// Each of some times, divided by the shortest of the others.
fn compared(times: &[f64]) -> Vec<f64> {
    let others = |own: usize| times.iter().enumerate().filter(move |(at, _)| *at != own).map(|(_, &time)| time);
    (0..times.len()).map(|own| times[own] / others(own).fold(f64::INFINITY, f64::min)).collect()
}

/// A workload on a machine, under every strategy.
pub struct GridJob<'a> {
    grid: &'a Grid,
    /// The machine.
    pub machine: &'a Machine,
    /// The workload.
    pub workload: &'a Workload,
}

impl GridJob<'_> {
    /// Runs it and returns the time of each strategy, in nanoseconds. `watch` is called now and then with the number of
    /// finished tasks of a run, and returns whether to go on.
    ///
    /// # Errors
    /// See [`SimError`].
    pub fn run(&self, watch: &mut dyn FnMut(usize) -> bool) -> Result<Vec<f64>, SimError> {
        let GridJob { grid, machine, workload } = self;
        let threads = threads(machine);
        let program = workload.program(threads, grid.share);
        let measured = workload.measured(&program);
        let parameters = match grid.jitter {
            Some(jitter) => crate::Parameters { jitter, ..machine.parameters },
            None => machine.parameters,
        };
        let time = |setting: &Setting| {
            let plan = machine.plan(setting, threads);
            let one = |sample| {
                let options =
                    SimOptions { parameters, seed: grid.seed.wrapping_add(sample as u64), ..SimOptions::default() };
                let outcome = simulate_watched(machine, &plan, &program, &options, watch)?;
                Ok(match &measured {
                    None => outcome.wall_ns,
                    Some(requests) => mean_response(&program, &outcome.tasks, outcome.start_ns, requests),
                })
            };
            let mut times: Vec<f64> = (0..grid.samples).map(one).collect::<Result<_, SimError>>()?;
            times.sort_by(f64::total_cmp);
            Ok(times[times.len() / 2])
        };
        grid.strategies.iter().map(time).collect()
    }
}

/// How long these requests take on average: from the start of the measured part, when all are submitted, to the end of
/// their last task.
fn mean_response(program: &Program, tasks: &[crate::TaskRecord], start_ns: f64, requests: &[RequestId]) -> f64 {
    let mut ends: BTreeMap<RequestId, f64> = BTreeMap::new();
    for (spec, task) in program.tasks.iter().zip(tasks).filter(|(spec, _)| requests.contains(&spec.request)) {
        let end = ends.entry(spec.request).or_insert(0.0);
        *end = end.max(task.end_ns - start_ns);
    }
    ends.values().sum::<f64>() / ends.len() as f64
}

/// The requests of a program that do less work than requests do on average: its short ones, if it has short and long
/// ones.
fn short(program: &Program) -> Vec<RequestId> {
    let mut work: BTreeMap<RequestId, f64> = BTreeMap::new();
    // The first task is the caller.
    for task in &program.tasks[1..] {
        let of_task = task.steps.iter().map(|step| match step {
            Step::Work(work) => match work.cost {
                crate::Cost::Flops(flops) => flops as f64,
                crate::Cost::Nanos(ns) => ns,
            },
            _ => 0.0,
        });
        *work.entry(task.request).or_default() += of_task.sum::<f64>();
    }
    let mean = work.values().sum::<f64>() / work.len().max(1) as f64;
    work.into_iter().filter(|&(_, work)| work < mean).map(|(request, _)| request).collect()
}

/// A grid's results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GridReport {
    /// The first seed.
    pub seed: u64,
    /// The number of seeds.
    pub samples: usize,
    /// The share of the inputs.
    pub share: f64,
    /// Jitter, if it was asked for.
    pub jitter: Option<f64>,
    /// The strategies, in their order.
    pub strategies: Vec<String>,
    /// The workloads, in their order, with a line about each.
    pub workloads: Vec<(String, String)>,
    /// By machine, workload and strategy, in their order.
    pub cells: Vec<Cell>,
}

/// A strategy on a machine with a workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The machine.
    pub machine: String,
    /// How many of its nodes have cores.
    pub nodes: usize,
    /// How many threads it has.
    pub threads: usize,
    /// The workload.
    pub workload: String,
    /// The strategy, with its parameters.
    pub strategy: String,
    /// The time of the workload in milliseconds: a median over seeds.
    pub ms: f64,
    /// The time, divided by that of the best other strategy: below 1 it is the best.
    pub ratio: f64,
}

/// A strategy's ratios that are not above this count as no worse than the best of the others.
pub const NO_WORSE: f64 = 1.03;

/// A strategy's ratios that are not above this count as clearly better than all others.
pub const BETTER: f64 = 0.9;

/// How a strategy fares in a grid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// The strategy.
    pub strategy: String,
    /// In how many cells it is compared.
    pub cells: usize,
    /// In how many its ratio is at most [`NO_WORSE`].
    pub no_worse: usize,
    /// How many cells are of machines with several nodes that have cores.
    pub of_several_nodes: usize,
    /// In how many of these its ratio is at most [`BETTER`].
    pub better: usize,
    /// Its greatest ratio.
    pub worst: f64,
    /// The geometric mean of its ratios.
    pub mean: f64,
}

impl GridReport {
    /// How each strategy fares, in their order.
    pub fn standings(&self) -> Vec<Standing> {
        let standing = |strategy: &String| {
            let of = || self.cells.iter().filter(|cell| cell.strategy == *strategy);
            let several = || of().filter(|cell| cell.nodes > 1);
            let count = of().count();
            Standing {
                strategy: strategy.clone(),
                cells: count,
                no_worse: of().filter(|cell| cell.ratio <= NO_WORSE).count(),
                of_several_nodes: several().count(),
                better: several().filter(|cell| cell.ratio <= BETTER).count(),
                worst: of().map(|cell| cell.ratio).fold(0.0, f64::max),
                mean: (of().map(|cell| cell.ratio.ln()).sum::<f64>() / count.max(1) as f64).exp(),
            }
        };
        self.strategies.iter().map(standing).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_compared_with_the_best_of_the_others() {
        assert_eq!(compared(&[2.0, 4.0, 3.0]), [2.0 / 3.0, 2.0, 1.5]);
        assert_eq!(compared(&[5.0, 5.0]), [1.0, 1.0]);
    }

    #[test]
    fn what_was_learned_is_compared_with_the_strategies_that_are_shown() {
        let machines = vec![Machine::by_name("core-i7-860").unwrap()];
        let workloads = Workload::all().into_iter().take(2).collect();
        let strategies = ["las", "steal", "vicus:memory=0"].map(|text| text.parse().unwrap()).to_vec();
        let grid = Grid::new(machines, workloads, strategies);
        let report = grid.report_learned(&[vec![4e6, 2e6, 1e6], vec![3e6, 6e6, 9e6]], 2, &[2, 1]);
        assert_eq!(report.strategies, ["las", "steal", "learned"]);
        let row = |at: usize| report.cells[3 * at..][..3].iter().map(|cell| (cell.ms, cell.ratio)).collect::<Vec<_>>();
        assert_eq!(row(0), [(4.0, 2.0), (2.0, 0.5), (1.0, 0.5)]);
        assert_eq!(row(1), [(3.0, 0.5), (6.0, 2.0), (6.0, 2.0)]);
        assert_eq!(report.standings()[2].no_worse, 1);
    }

    #[test]
    fn standings_count_cells() {
        let cell = |nodes, strategy: &str, ratio| Cell {
            machine: "m".to_owned(),
            nodes,
            threads: 4,
            workload: "w".to_owned(),
            strategy: strategy.to_owned(),
            ms: 1.0,
            ratio,
        };
        let cells = vec![cell(1, "las", 0.5), cell(2, "las", 0.5), cell(2, "las", 2.0), cell(4, "las", 1.03)];
        let strategies = vec!["las".to_owned()];
        let report =
            GridReport { seed: 1, samples: 1, share: 1.0, jitter: None, strategies, workloads: Vec::new(), cells };
        let standing = &report.standings()[0];
        assert_eq!((standing.cells, standing.no_worse, standing.of_several_nodes, standing.better), (4, 3, 3, 1));
        assert_eq!(standing.worst, 2.0);
        assert!((standing.mean - 0.515_f64.powf(0.25)).abs() < 1e-9);
    }

    #[test]
    fn a_short_request_is_measured_from_the_start_of_all() {
        let program = workload::Workload::all().into_iter().find(|one| one.name == "short beside long").unwrap();
        let program = program.program(4, 1.0);
        let short = short(&program);
        assert_eq!(short.len(), 8);
        let mut tasks = vec![crate::TaskRecord::default(); program.tasks.len()];
        for (spec, task) in program.tasks.iter().zip(&mut tasks) {
            task.end_ns = 100.0 + spec.request.number() as f64;
        }
        // Short ones are requests 2 to 9; their mean is 5.5.
        assert_eq!(mean_response(&program, &tasks, 50.0, &short), 55.5);
    }
}
