//! Chance by a seed.

/// Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, figure 17.
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`. `bound` is not 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(super) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// The likelihood, of 8, of keeping an unsynced change: often none or all are kept, because a large write is seldom
    /// there as a whole otherwise.
    pub(super) fn likelihood(&mut self) -> u64 {
        [0, 0, 1, 4, 4, 7, 8, 8][self.below(8) as usize]
    }

    /// True as often as this says.
    pub(super) fn happens(&mut self, likely: u64) -> bool {
        self.below(8) < likely
    }
}
