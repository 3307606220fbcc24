//! Medians, ratios, and the format of results.

use anyhow::Context;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::RngCore;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;
use vicus_testing::median;

/// One line of a benchmark's result.
#[derive(Serialize)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    pub(crate) peer: String,
    pub(crate) theirs: f64,
    /// ours / theirs; lower is better. With several rounds, the median of their ratios.
    pub(crate) ratio: f64,
    /// Further figures of `bench kernels`.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) kernel: Option<super::kernels::Account>,
}

impl Outcome {
    pub(crate) fn new(name: impl Into<String>, unit: &'static str, ours: f64, peer: &str, theirs: f64) -> Outcome {
        Outcome { name: name.into(), unit, ours, peer: peer.to_owned(), theirs, ratio: ours / theirs, kernel: None }
    }
}

/// How often something is done: at least once, otherwise there is no median.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "a whole number from 1 is expected".to_owned())
}

/// A number of threads.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    let threads = text.parse::<u16>().ok().filter(|threads| *threads > 0);
    threads.map(usize::from).ok_or_else(|| format!("a whole number from 1 to {} is expected", u16::MAX))
}

pub(crate) fn write_json(path: &Path, results: &[Outcome]) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(results)?;
    std::fs::write(path, text + "\n").with_context(|| format!("the results can't be written to {}", path.display()))
}

/// The quartiles around the median.
pub(crate) fn quartiles(samples: &[f64]) -> (f64, f64) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    (sorted[(sorted.len() - 1) / 4], sorted[(sorted.len() * 3 / 4).min(sorted.len() - 1)])
}

/// The standard deviation of a sample; 0 for one value.
pub(crate) fn deviation(samples: &[f64]) -> f64 {
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    (squares / (samples.len().max(2) - 1) as f64).sqrt()
}

/// The exponent e of y = c x^e, by least squares on the logarithms of (x, y); `None` for fewer than two different x.
pub(crate) fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / logs.len() as f64;
    let (mean_x, mean_y) = (mean(|log| log.0), mean(|log| log.1));
    let spread: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let common: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (spread > 0.0).then(|| common / spread)
}

/// The 2.5 and 97.5 percentiles of the ratio of medians over resampled pairs.
pub(crate) fn interval(times: &[Vec<f64>; 2], seed: u64) -> (f64, f64) {
    const SAMPLES: usize = 2000;
    let mut chance = Pcg64::new(u128::from(seed), 0xcafe_f00d_d15e_a5e5);
    let count = times[0].len();
    let mut ratios: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let picked: Vec<usize> = (0..count).map(|_| (chance.next_u64() % count as u64) as usize).collect();
            let of = |side: usize| median(&picked.iter().map(|&at| times[side][at]).collect::<Vec<_>>());
            of(0) / of(1)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    (ratios[SAMPLES / 40], ratios[SAMPLES - 1 - SAMPLES / 40])
}

/// The milliseconds of `work`.
pub(crate) fn milliseconds<R>(work: impl FnOnce() -> R) -> (f64, R) {
    let began = Instant::now();
    let result = work();
    (began.elapsed().as_secs_f64() * 1e3, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quartiles_are_around_the_middle() {
        assert_eq!(quartiles(&[1.0, 2.0, 3.0, 4.0, 5.0]), (2.0, 4.0));
    }

    #[test]
    fn nothing_is_done_no_times_nor_on_no_threads() {
        assert_eq!((count("1"), count("70000")), (Ok(1), Ok(70000)));
        assert_eq!((threads("1"), threads("65535")), (Ok(1), Ok(65535)));
        for text in ["0", "-1", "1.5", "", "a"] {
            assert!(count(text).is_err() && threads(text).is_err(), "{text}");
        }
        assert_eq!(threads("65536").unwrap_err(), "a whole number from 1 to 65535 is expected");
    }

    /// A disturbance affects both runs of a pair.
    #[test]
    fn the_interval_is_of_pairs() {
        let disturbed: Vec<f64> = (1..=15).map(f64::from).collect();
        let twice: Vec<f64> = disturbed.iter().map(|ms| 2.0 * ms).collect();
        assert_eq!(interval(&[twice.clone(), disturbed.clone()], 1), (2.0, 2.0));
        // The same times in another order make other pairs.
        let mut shifted = disturbed;
        shifted.rotate_left(7);
        let (low, high) = interval(&[twice, shifted], 1);
        assert!(low < 1.5 && high > 2.5, "{low} to {high}");
    }

    #[test]
    fn the_deviation_is_a_samples() {
        assert_eq!(deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), (32.0_f64 / 7.0).sqrt());
        assert_eq!(deviation(&[3.0]), 0.0);
    }

    #[test]
    fn the_exponent_of_a_power_law_is_found() {
        let points = [1.0, 4.0, 9.0].map(|x: f64| (x, 5.0 * x * x.sqrt()));
        assert!((exponent(&points).unwrap() - 1.5).abs() < 1e-12);
        // Least squares for three points not on a line: slope 1 between the outer two, at any place of the middle one.
        let points = [(1.0, 1.0), (10.0, 1000.0), (100.0, 100.0)];
        assert!((exponent(&points).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(exponent(&[(5.0, 1.0), (5.0, 2.0)]), None);
        assert_eq!(exponent(&[]), None);
    }
}
