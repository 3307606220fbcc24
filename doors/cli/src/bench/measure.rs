//! Medians, ratios and how they are written down.

use anyhow::Context;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// One line of a benchmark.
#[derive(Serialize)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    pub(crate) peer: String,
    pub(crate) theirs: f64,
    /// ours / theirs; lower is better.
    pub(crate) ratio: f64,
}

impl Outcome {
    pub(crate) fn new(name: impl Into<String>, unit: &'static str, ours: f64, peer: &str, theirs: f64) -> Outcome {
        Outcome { name: name.into(), unit, ours, peer: peer.to_owned(), theirs, ratio: ours / theirs }
    }
}

pub(crate) fn write_json(path: &Path, results: &[Outcome]) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(results)?;
    std::fs::write(path, text + "\n").with_context(|| format!("the results can't be written to {}", path.display()))
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    (low + high) / 2.0
}

/// The quartiles around the median.
pub(crate) fn quartiles(samples: &[f64]) -> (f64, f64) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    (sorted[(sorted.len() - 1) / 4], sorted[(sorted.len() * 3 / 4).min(sorted.len() - 1)])
}

/// Milliseconds that something takes.
pub(crate) fn milliseconds<R>(work: impl FnOnce() -> R) -> (f64, R) {
    let began = Instant::now();
    let result = work();
    (began.elapsed().as_secs_f64() * 1e3, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(quartiles(&[1.0, 2.0, 3.0, 4.0, 5.0]), (2.0, 4.0));
    }
}
