//! The output of `--timings` to standard error.

use crate::memory;
use anyhow::Context;
use serde_json::json;
use std::fmt::Display;
use std::io::Write as _;
use vicus::Totals;

/// How it is printed.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Timings {
    /// A line for people.
    Text,
    /// A JSON object a line.
    Json,
}

/// One query, one repeat.
pub(super) struct Timing<'a> {
    pub(super) query: &'a str,
    pub(super) repeat: usize,
    pub(super) parse_ms: f64,
    pub(super) plan_ms: f64,
    pub(super) run_ms: f64,
    pub(super) rows: u64,
    pub(super) totals: Totals,
}

/// Writes a requested line.
fn line(line: impl Display) -> anyhow::Result<()> {
    writeln!(std::io::stderr(), "{line}").context("standard error")
}

pub(super) struct Report(Option<Timings>);

impl Report {
    pub(super) fn new(timings: Option<Timings>) -> Report {
        Report(timings)
    }

    pub(super) fn query(&self, timing: &Timing<'_>) -> anyhow::Result<()> {
        let Timing { query, repeat, parse_ms, plan_ms, run_ms, rows, totals } = timing;
        match self.0 {
            None => Ok(()),
            Some(Timings::Text) => {
                let taken = |rule: usize| totals.taken[rule];
                line(format_args!(
                    "{query} #{repeat}: parse {parse_ms:.3} ms, plan {plan_ms:.3} ms, run {run_ms:.3} ms, {rows} rows, \
                     {} tasks, taken by rule 1: {}, 2: {}, 3: {}, 4: {}, 5: {}, of these far: {}, \
                     {} bytes near, {} far",
                    totals.tasks,
                    taken(1),
                    taken(2),
                    taken(3),
                    taken(4),
                    taken(5),
                    totals.far,
                    totals.near_bytes,
                    totals.far_bytes
                ))
            }
            Some(Timings::Json) => {
                let taken: serde_json::Map<String, serde_json::Value> =
                    (1..totals.taken.len()).map(|rule| (rule.to_string(), totals.taken[rule].into())).collect();
                line(json!({
                    "query": query, "repeat": repeat, "parse_ms": parse_ms, "plan_ms": plan_ms, "run_ms": run_ms,
                    "rows": rows, "tasks": totals.tasks, "taken": taken, "far": totals.far,
                    "near_bytes": totals.near_bytes, "far_bytes": totals.far_bytes,
                }))
            }
        }
    }

    /// The line about loading comes last, so its peak of memory is the whole command's.
    pub(super) fn load(&self, load_ms: f64, triples: usize) -> anyhow::Result<()> {
        let peak_rss_mib = memory::peak_mib();
        match self.0 {
            None => Ok(()),
            Some(Timings::Text) => {
                line(format_args!("load {load_ms:.1} ms, {triples} triples, peak memory {peak_rss_mib:.1} MiB"))
            }
            Some(Timings::Json) => {
                line(json!({ "load_ms": load_ms, "triples": triples, "peak_rss_mib": peak_rss_mib }))
            }
        }
    }
}
