//! Random numbers from a seed: the same numbers on every machine.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{RngCore, SeedableRng};

/// A number that deviates from 0 by 1 on average (its standard deviation) and never by more than 3.47: the sum of four
/// even ones. It follows from the seed and from the name alone, not from how many were asked for before.
pub(crate) fn deviation(seed: u64, name: (u32, usize)) -> f64 {
    // Two rounds of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
    let mixed = mix(mix(seed ^ (u64::from(name.0) << 32)) ^ name.1 as u64);
    let quarters = (0..4).map(|quarter| (mixed >> (16 * quarter) & 0xFFFF) as f64 / 65_535.0);
    (quarters.sum::<f64>() - 2.0) * 3.0_f64.sqrt()
}

fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// A stream of random numbers.
pub(crate) struct Chance(Pcg64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(Pcg64::seed_from_u64(seed))
    }

    /// A number below `end`, which is above 0. The smallest numbers are likelier than others by less than `end` in 2⁶⁴.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(end)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_have_a_mean_of_0_and_a_standard_deviation_of_1() {
        let all: Vec<f64> = (0..40_000).map(|at| deviation(7, (at / 200, at as usize % 200))).collect();
        let mean = |of: &dyn Fn(f64) -> f64| all.iter().map(|&deviation| of(deviation)).sum::<f64>() / all.len() as f64;
        // The mean of this number of them deviates by 0.005.
        assert!(mean(&|deviation| deviation).abs() < 0.02);
        assert!((mean(&|deviation| deviation * deviation) - 1.0).abs() < 0.02);
        assert!(all.iter().all(|deviation| deviation.abs() < 3.47));
        // Neighbours have nothing to do with each other.
        let pairs = all.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / all.len() as f64;
        assert!(pairs.abs() < 0.02, "{pairs}");
        assert_ne!(deviation(7, (1, 2)), deviation(8, (1, 2)));
    }
}
