//! Alignment: the score of the best alignment of each pair of proteins.
//!
//! Duran, Teruel, Ferrer, Martorell, Ayguade, "Barcelona OpenMP Tasks Suite", ICPP 2009: a task for each pair of
//! sequences. The score is that of Smith and Waterman, "Identification of common molecular subsequences", Journal of
//! Molecular Biology 1981, with gaps as in Gotoh, "An improved algorithm for matching biological sequences", Journal of
//! Molecular Biology 1982, and the substitution matrix of Henikoff and Henikoff, "Amino acid substitution matrices from
//! protein blocks", PNAS 1992.
//!
//! We differ: only the score is computed, while BOTS then finds the alignment by Myers and Miller's algorithm, and
//! keeps the share of equal residues. Its matrix is Gonnet's, and its cost of a gap depends on the shorter length.
//! Sequences are random, and not read from a file.

use crate::arrays::{checksum, filled, scaled};
use crate::{Array, Kernel, KernelWorld, Leaf, Task, TaskOrder};
use vicus_memory::distribution::Distribution;

/// The best scores of all pairs of random proteins. By default of 100, of 200 to 600 residues each.
#[derive(Clone, Debug)]
pub struct Alignment {
    /// How many proteins there are.
    pub proteins: usize,
    /// The least number of residues of a protein.
    pub least: usize,
    /// The greatest number of residues.
    pub most: usize,
    /// The seed of the proteins.
    pub seed: u64,
    /// How the sequences, each an allocation, and the array of scores lie.
    pub distribution: Distribution,
}

impl Default for Alignment {
    fn default() -> Alignment {
        Alignment { proteins: 100, least: 200, most: 600, seed: 1, distribution: Distribution::Coarse }
    }
}

/// BLOSUM62: the scores of residues in the order A, R, N, D, C, Q, E, G, H, I, L, K, M, F, P, S, T, W, Y, V.
#[rustfmt::skip]
const SCORES: [[i32; 20]; 20] = [
    [ 4, -1, -2, -2,  0, -1, -1,  0, -2, -1, -1, -1, -1, -2, -1,  1,  0, -3, -2,  0],
    [-1,  5,  0, -2, -3,  1,  0, -2,  0, -3, -2,  2, -1, -3, -2, -1, -1, -3, -2, -3],
    [-2,  0,  6,  1, -3,  0,  0,  0,  1, -3, -3,  0, -2, -3, -2,  1,  0, -4, -2, -3],
    [-2, -2,  1,  6, -3,  0,  2, -1, -1, -3, -4, -1, -3, -3, -1,  0, -1, -4, -3, -3],
    [ 0, -3, -3, -3,  9, -3, -4, -3, -3, -1, -1, -3, -1, -2, -3, -1, -1, -2, -2, -1],
    [-1,  1,  0,  0, -3,  5,  2, -2,  0, -3, -2,  1,  0, -3, -1,  0, -1, -2, -1, -2],
    [-1,  0,  0,  2, -4,  2,  5, -2,  0, -3, -3,  1, -2, -3, -1,  0, -1, -3, -2, -2],
    [ 0, -2,  0, -1, -3, -2, -2,  6, -2, -4, -4, -2, -3, -3, -2,  0, -2, -2, -3, -3],
    [-2,  0,  1, -1, -3,  0,  0, -2,  8, -3, -3, -1, -2, -1, -2, -1, -2, -2,  2, -3],
    [-1, -3, -3, -3, -1, -3, -3, -4, -3,  4,  2, -3,  1,  0, -3, -2, -1, -3, -1,  3],
    [-1, -2, -3, -4, -1, -2, -3, -4, -3,  2,  4, -2,  2,  0, -3, -2, -1, -2, -1,  1],
    [-1,  2,  0, -1, -3,  1,  1, -2, -1, -3, -2,  5, -1, -3, -1,  0, -1, -3, -2, -2],
    [-1, -1, -2, -3, -1,  0, -2, -3, -2,  1,  2, -1,  5,  0, -2, -1, -1, -1, -1,  1],
    [-2, -3, -3, -3, -2, -3, -3, -3, -1,  0,  0, -3,  0,  6, -4, -2, -2,  1,  3, -1],
    [-1, -2, -2, -1, -3, -1, -1, -2, -2, -3, -3, -1, -2, -4,  7, -1, -1, -4, -3, -2],
    [ 1, -1,  1,  0, -1,  0,  0,  0, -1, -2, -2,  0, -1, -2, -1,  4,  1, -3, -2, -2],
    [ 0, -1,  0, -1, -1, -1, -1, -2, -2, -1, -1, -1, -1, -2, -1,  1,  5, -2, -2,  0],
    [-3, -3, -4, -4, -2, -2, -3, -2, -2, -3, -2, -3, -1,  1, -4, -3, -2, 11,  2, -3],
    [-2, -2, -2, -3, -2, -1, -2, -3,  2, -1, -1, -2, -1,  3, -3, -2, -2,  2,  7, -1],
    [ 0, -3, -3, -3, -1, -2, -2, -3, -3,  3,  1, -2,  1, -1, -2, -2,  0, -3, -1,  4],
];

/// The cost of the first residue of a gap, and of each further one: the usual costs with this matrix.
const OPEN: i32 = 11 + 1;
const EXTEND: i32 = 1;

/// The operations for each pair of residues: a difference, another one and a maximum for either kind of gap; a sum and
/// three maxima for the score; a maximum for the best score.
const OPERATIONS: u64 = 3 + 3 + 4 + 1;

/// A random number for each number.
fn mixed(seed: u64, number: u64) -> u64 {
    // SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    let mut z = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// The greatest score of an alignment of a part of one protein with a part of the other.
#[inline(never)] // compiled once: the same instructions in every world
fn best_score(a: &[u8], b: &[u8]) -> i32 {
    // By column: the best score with its end there, in the row above until the column is reached; and the best one with
    // its end in a gap of the second protein.
    let (mut scores, mut gaps) = (vec![0; b.len()], vec![-OPEN; b.len()]);
    let mut best = 0;
    for &residue in a {
        let of_residue = &SCORES[usize::from(residue)];
        let (mut before, mut left, mut gap) = (0, 0, -OPEN);
        for (column, &other) in b.iter().enumerate() {
            gaps[column] = (gaps[column] - EXTEND).max(scores[column] - OPEN);
            gap = (gap - EXTEND).max(left - OPEN);
            let score = (before + of_residue[usize::from(other)]).max(gaps[column]).max(gap).max(0);
            (before, left) = (scores[column], score);
            scores[column] = score;
            best = best.max(score);
        }
    }
    best
}

impl Alignment {
    /// How many residues a protein has.
    fn residues(&self, protein: usize) -> usize {
        let span = (self.most - self.least + 1) as u64;
        self.least + (mixed(self.seed, protein as u64) % span) as usize
    }

    fn residue(&self, protein: usize, at: usize) -> u8 {
        (mixed(mixed(self.seed, protein as u64), at as u64) % 20) as u8
    }

    /// The scores of all pairs: of the first protein with each later one, then of the second one, and so on.
    fn align<'w, W: KernelWorld>(&self, world: &'w W, start: impl FnOnce(), end: impl FnOnce()) -> Array<'w, i32> {
        assert!(self.least <= self.most, "{} to {} residues", self.least, self.most);
        let protein = |number| filled(world, self.residues(number), &self.distribution, |at| self.residue(number, at));
        let proteins: Vec<_> = (0..self.proteins).map(protein).collect();
        let pairs = (0..self.proteins).flat_map(|a| (a + 1..self.proteins).map(move |b| (a, b)));
        let scores = world.array(self.proteins * self.proteins.saturating_sub(1) / 2, &self.distribution);
        start();
        let tasks = pairs.enumerate().map(|(number, (a, b))| {
            let [a, b] = [a, b].map(|at| proteins[at]);
            let accesses = [a.reads(0..a.len()), b.reads(0..b.len()), scores.writes(number..number + 1)];
            let leaf = Leaf { name: "align", flops: OPERATIONS * (a.len() * b.len()) as u64 };
            let body = move || {
                world.work(leaf, &accesses, || {
                    #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                    // SAFETY: each score belongs to one task, and none writes the proteins.
                    let (a, b, score) =
                        unsafe { (a.part(0..a.len()), b.part(0..b.len()), scores.part_mut(number..number + 1)) };
                    score[0] = best_score(a, b);
                });
            };
            (Task::new(accesses), body)
        });
        world.tasks(TaskOrder::Free, tasks);
        end();
        scores
    }
}

impl Kernel for Alignment {
    fn name(&self) -> &'static str {
        "alignment"
    }

    fn distribution(&mut self) -> Option<&mut Distribution> {
        Some(&mut self.distribution)
    }

    fn scale(&mut self, times: f64) {
        self.proteins = scaled(self.proteins, times.sqrt()).max(2);
    }

    fn run<W: KernelWorld>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
        let scores = self.align(world, start, end);
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        unsafe {
            checksum(world, &[scores])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    /// By the definition of an affine gap: the best of all its lengths.
    fn by_definition(a: &[u8], b: &[u8]) -> i32 {
        let mut scores = vec![vec![0; b.len() + 1]; a.len() + 1];
        let cost = |len: usize| 11 + len as i32;
        for row in 1..=a.len() {
            for column in 1..=b.len() {
                let pair = SCORES[usize::from(a[row - 1])][usize::from(b[column - 1])];
                let above = (1..=row).map(|len| scores[row - len][column] - cost(len));
                let left = (1..=column).map(|len| scores[row][column - len] - cost(len));
                let best = above.chain(left).chain([0, scores[row - 1][column - 1] + pair]).max();
                scores[row][column] = best.unwrap();
            }
        }
        scores.into_iter().flatten().max().unwrap()
    }

    #[test]
    fn scores_are_those_of_the_definition() {
        let world = Serial::default();
        let alignment = Alignment { proteins: 8, least: 0, most: 60, seed: 3, ..Alignment::default() };
        let scores = alignment.align(&world, || (), || ());
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        let mut scores = unsafe { scores.part(0..scores.len()) }.iter();
        let protein =
            |number| (0..alignment.residues(number)).map(|at| alignment.residue(number, at)).collect::<Vec<_>>();
        for a in 0..8 {
            for b in a + 1..8 {
                assert_eq!(*scores.next().unwrap(), by_definition(&protein(a), &protein(b)), "{a} and {b}");
            }
        }
        assert!(scores.next().is_none());
    }

    #[test]
    fn a_gap_is_opened_where_it_pays() {
        let letters = |text: &str| -> Vec<u8> {
            text.bytes()
                .map(|letter| "ARNDCQEGHILKMFPSTWYV".bytes().position(|one| one == letter).unwrap() as u8)
                .collect()
        };
        // A protein with itself: the sum of the diagonal. W, W and C are 11, 11 and 9.
        assert_eq!(best_score(&letters("WWC"), &letters("WWC")), 31);
        // Three residues more in the middle cost 14.
        assert_eq!(best_score(&letters("WWCWWC"), &letters("WWCAAAWWC")), 62 - 14);
        assert_eq!(best_score(&letters("WWCAAAWWC"), &letters("WWCWWC")), 62 - 14);
        // If both sides score less than a gap costs, one of them is left out.
        assert_eq!(best_score(&letters("CCAAAAAAAACW"), &letters("CCCW")), 20);
        assert_eq!(best_score(&letters("A"), &letters("W")), 0);
    }

    #[test]
    fn the_matrix_is_symmetric_and_a_residue_fits_itself_best() {
        for (row, scores) in SCORES.iter().enumerate() {
            for (column, &score) in scores.iter().enumerate() {
                assert_eq!(score, SCORES[column][row]);
                assert!(row == column || score < scores[row]);
            }
        }
    }
}
