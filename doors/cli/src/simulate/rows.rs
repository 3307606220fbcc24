//! The results of simulated runs: a line for each, and the settings of all.

use super::Recorded;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use vicus_sim::{Machine, Parameters, Reenacted, Reenactment, SimOptions, SimOutcome};

/// All runs, and their settings.
#[derive(Serialize)]
pub(super) struct Results {
    machine: String,
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    shown_parameters: String,
    parameters: BTreeMap<&'static str, f64>,
    seed: u64,
    /// The recorded run, if one was simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) recorded: Option<Recorded>,
    pub(super) rows: Vec<Row>,
}

/// A line of the results.
#[derive(Serialize)]
pub(super) struct Row {
    kernel: String,
    strategy: String,
    distribution: String,
    threads: usize,
    ms: f64,
    /// The time on one thread, under the same strategy and distribution, divided by this run's time.
    speedup: f64,
    /// The time in work, divided by the time on one thread.
    work_inflation: f64,
    near_bytes: f64,
    far_bytes: f64,
    cached_bytes: f64,
    /// The used share of the busiest controller's bandwidth.
    controller: f64,
    /// The used share of the busiest link's or bus's bandwidth.
    link_or_bus: f64,
    /// The number of tasks found by each rule of the plan.
    takes: BTreeMap<u8, u64>,
    /// How many of them came from a queue of another node.
    far_takes: u64,
    /// The used share of each shared resource, by name.
    resources: BTreeMap<String, f64>,
    /// The re-enactment and its recorded figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    reenacted: Option<Again>,
}

/// A re-enactment and its recorded figures.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Again {
    pub(super) recorded_ms: f64,
    pub(super) work_ms: f64,
    pub(super) recorded_invocations: u64,
    pub(super) invocations: u64,
}

impl Again {
    pub(super) fn of(recorded: &Reenactment, again: &Reenacted) -> Again {
        Again {
            recorded_ms: recorded.recorded_ns / 1e6,
            work_ms: again.work_ns / 1e6,
            recorded_invocations: recorded.invocations,
            invocations: again.invocations,
        }
    }
}

impl Row {
    pub(super) fn of(
        kernel: &str,
        distribution: &str,
        outcome: &SimOutcome,
        one: &SimOutcome,
        reenacted: Option<Again>,
    ) -> Row {
        let busiest = |kinds: &[&str]| {
            let of_kind = outcome.resources.iter().filter(|used| kinds.iter().any(|kind| used.name.starts_with(kind)));
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
            controller: busiest(&["controller"]),
            link_or_bus: busiest(&["link", "bus"]),
            takes: outcome.counts.takes.clone(),
            far_takes: outcome.counts.far_takes,
            resources: outcome.resources.iter().map(|used| (used.name.clone(), used.share)).collect(),
            reenacted,
        }
    }
}

impl Results {
    pub(super) fn new(machine: &Machine, options: &SimOptions) -> Results {
        Results {
            machine: machine.name.clone(),
            title: machine.title.clone(),
            shown_parameters: options.parameters.to_string(),
            parameters: Parameters::NAMES.into_iter().zip(options.parameters.values()).collect(),
            seed: options.seed,
            recorded: None,
            rows: Vec::new(),
        }
    }

    /// The settings, in several lines.
    pub(super) fn heading(&self) -> String {
        let Results { machine, title, shown_parameters, seed, .. } = self;
        let mut text = format!("{machine}: {title}\n{shown_parameters}, seed {seed}\n");
        if let Some(recorded) = &self.recorded {
            text += &recorded.to_string();
        }
        for row in &self.rows {
            if let Some(Again { recorded_ms, work_ms, recorded_invocations, invocations }) = row.reenacted {
                text += &format!(
                    "re-enacted under {}: {work_ms:.3} ms of work, {recorded_ms:.3} recorded; \
                     {invocations} invocations, {recorded_invocations} recorded\n",
                    row.strategy
                );
            }
        }
        text
    }

    pub(super) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    pub(super) fn table(&self) -> String {
        let mut text = self.heading() + "\n";
        writeln!(
            text,
            "{:10} {:24} {:12} {:>10} {:>8} {:>9} {:>9} {:>9} {:>10} {:>8}  takes by rule, and far ones",
            "kernel",
            "strategy",
            "distribution",
            "ms",
            "speed-up",
            "inflation",
            "near GB",
            "far GB",
            "controller",
            "link/bus"
        )
        .expect("a string takes everything");
        for row in &self.rows {
            let takes: Vec<String> = row.takes.iter().map(|(rule, takes)| format!("{rule}: {takes}")).collect();
            writeln!(
                text,
                "{:10} {:24} {:12} {:>10.3} {:>8.2} {:>9.2} {:>9.3} {:>9.3} {:>8.0} % {:>6.0} %  {}; far: {}",
                row.kernel,
                row.strategy,
                row.distribution,
                row.ms,
                row.speedup,
                row.work_inflation,
                row.near_bytes / 1e9,
                row.far_bytes / 1e9,
                100.0 * row.controller,
                100.0 * row.link_or_bus,
                takes.join(", "),
                row.far_takes
            )
            .expect("a string takes everything");
        }
        text
    }
}
