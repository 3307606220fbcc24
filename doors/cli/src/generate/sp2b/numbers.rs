//! The paper's formulas, and random numbers, the same on every machine.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::RngCore;

/// A logistic curve: L(y) = a / (1 + b exp(-c (y - o))) + d.
pub(super) struct Logistic {
    pub(super) a: f64,
    pub(super) b: f64,
    pub(super) c: f64,
    pub(super) d: f64,
    /// The year at the curve's origin.
    pub(super) origin: f64,
}

impl Logistic {
    pub(super) const fn new(a: f64, b: f64, c: f64, d: f64, origin: f64) -> Logistic {
        Logistic { a, b, c, d, origin }
    }

    pub(super) fn at(&self, year: u32) -> f64 {
        self.a / (1.0 + self.b * libm::exp(-self.c * (f64::from(year) - self.origin))) + self.d
    }

    /// The curve's value, rounded to a count.
    pub(super) fn count(&self, year: u32) -> usize {
        libm::round(self.at(year)).max(0.0) as usize
    }
}

/// A stream of random numbers from a seed.
///
/// Only the generator is a library's. The distributions are computed here, because a library's may change between
/// versions, and then the same seed would give other bytes.
pub(super) struct Chance(Pcg64);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        // The stream number is a constant of ours; the generator mixes the seed.
        Chance(Pcg64::new(u128::from(seed), 0x0056_6963_7573))
    }

    /// A number from 0 up to, and without, `bound`.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u32
    }

    /// An index into this many elements.
    pub(super) fn index(&mut self, length: usize) -> usize {
        ((u128::from(self.0.next_u64()) * length as u128) >> 64) as usize
    }

    /// True with this probability.
    pub(super) fn happens(&mut self, probability: f64) -> bool {
        // A certain outcome draws no number.
        probability >= 1.0 || probability > 0.0 && self.uniform() < probability
    }

    /// A number from 0 up to, and without, 1.
    pub(super) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Nearly Gaussian with mean 0 and variance 1: the sum of twelve uniform numbers, minus six. Only additions, so all
    /// bits are the same everywhere; values beyond six deviations never occur.
    pub(super) fn gauss(&mut self) -> f64 {
        let mut sum = 0_u64;
        for _ in 0..6 {
            let bits = self.0.next_u64();
            sum += (bits >> 32) + (bits & 0xffff_ffff);
        }
        sum as f64 / (1_u64 << 32) as f64 - 6.0
    }

    /// The paper's G: Gaussian, rounded, at least 1.
    pub(super) fn gauss_at_least_1(&mut self, mean: f64, deviation: f64) -> usize {
        libm::round(mean + deviation * self.gauss()).max(1.0) as usize
    }

    /// Moves `count` randomly chosen values to the front.
    pub(super) fn shuffle_front<T>(&mut self, values: &mut [T], count: usize) {
        for i in 0..count.min(values.len()) {
            let other = i + self.index(values.len() - i);
            values.swap(i, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauss_has_its_moments() {
        let mut chance = Chance::new(7);
        let draws: Vec<f64> = (0..100_000).map(|_| chance.gauss()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| x * x).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }

    #[test]
    fn a_logistic_curve_goes_from_d_to_a_plus_d() {
        let curve = Logistic::new(2.0, 100.0, 0.5, 1.0, 1950.0);
        assert!((curve.at(1900) - 1.0).abs() < 1e-6);
        assert!((curve.at(2050) - 3.0).abs() < 1e-6);
    }
}
