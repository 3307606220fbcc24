//! SparseLU: the LU factorization of a sparse matrix of blocks, with an allocation for each block.
//!
//! Muddukrishna, Jonsson, Brorsson, "Locality-aware task scheduling and data distribution for OpenMP programs on NUMA
//! systems and manycore processors", Scientific Programming 2015, Table 4, after Duran, Teruel, Ferrer, Martorell,
//! Ayguade, "Barcelona OpenMP Tasks Suite", ICPP 2009: its pattern of blocks and its four operations.
//!
//! We differ: a task waits for the blocks it reads, not for a whole phase; blocks added by the elimination are
//! allocated beforehand, in the order of their first use; and the diagonal is dominant, so elimination without pivoting
//! is exact enough to check the result.
//!
//! `published` is the program in the authors' repository (MIR), as BOTS has it: the creating task factors the
//! diagonal's block itself, and waits for all divisions, and then for all products, of each step; and its accesses give
//! the stores of BOTS' loops.

use crate::arrays::{checksum, filled, scaled};
use crate::product::add_product;
use crate::{Array, Kernel, KernelWorld, Leaf, Task, TaskOrder};
use vicus_memory::distribution::Distribution;
use vicus_schedule::Access;

/// The LU factorization of a sparse matrix. By default with the input of Fig. 7: 8192 rows and columns of floats,
/// by 256.
#[derive(Clone, Debug)]
pub struct SparseLu {
    /// How many blocks the matrix has in each direction.
    pub blocks: usize,
    /// How many rows and columns a block has.
    pub block: usize,
    /// Whether the block written by `bmod` is declared as intensely used.
    pub intense: bool,
    /// How the blocks lie; Table 4 advises `coarse`.
    pub distribution: Distribution,
    /// Whether it is the authors' published program.
    pub published: bool,
}

impl Default for SparseLu {
    fn default() -> SparseLu {
        SparseLu { blocks: 32, block: 256, intense: false, distribution: Distribution::Coarse, published: false }
    }
}

/// Whether the input has a block here: on the three middle diagonals; elsewhere in even rows and columns, if the row
/// (above the diagonal) or the column (below it) is a multiple of three.
fn is_there(row: usize, column: usize) -> bool {
    row.abs_diff(column) <= 1 || [row, column].map(|at| at % 2) == [0, 0] && row.min(column).is_multiple_of(3)
}

/// An operation on a block, with the block's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Factors a block of the diagonal.
    Lu0 { k: usize },
    /// Divides a block right of the diagonal by the lower factor.
    Fwd { k: usize, column: usize },
    /// Divides a block below the diagonal by the upper factor.
    Bdiv { k: usize, row: usize },
    /// Subtracts a product from a block; a new block starts with zeros.
    Bmod { k: usize, row: usize, column: usize, new: bool },
}

impl Step {
    /// Its phase and its step of the elimination.
    fn phase(self) -> (usize, u8) {
        match self {
            Step::Lu0 { k } => (k, 0),
            Step::Fwd { k, .. } | Step::Bdiv { k, .. } => (k, 1),
            Step::Bmod { k, .. } => (k, 2),
        }
    }

    /// The place of the changed block.
    fn changed(self) -> (usize, usize) {
        match self {
            Step::Lu0 { k } => (k, k),
            Step::Fwd { k, column } => (k, column),
            Step::Bdiv { k, row } => (row, k),
            Step::Bmod { row, column, .. } => (row, column),
        }
    }

    /// The places of the other blocks it reads.
    fn read(self) -> Vec<(usize, usize)> {
        match self {
            Step::Lu0 { .. } => Vec::new(),
            Step::Fwd { k, .. } | Step::Bdiv { k, .. } => vec![(k, k)],
            Step::Bmod { k, row, column, .. } => vec![(row, k), (k, column)],
        }
    }

    fn leaf(self, size: usize) -> Leaf {
        let n = size as u64;
        // With n - 1, n - 2, … rows and columns left: a division for each row, and two operations for each element.
        let (rows, squares) = (n * n.saturating_sub(1) / 2, n * n.saturating_sub(1) * (2 * n).saturating_sub(1) / 6);
        match self {
            Step::Lu0 { .. } => Leaf { name: "lu0", flops: rows + 2 * squares },
            Step::Fwd { .. } => Leaf { name: "fwd", flops: 2 * n * rows },
            Step::Bdiv { .. } => Leaf { name: "bdiv", flops: n * n + 2 * n * rows },
            Step::Bmod { .. } => Leaf { name: "bmod", flops: 2 * n * n * n },
        }
    }

    /// How many times BOTS' code stores each element of the changed block, on average: `bmod` in its innermost loop,
    /// for each of `size` products. Ours keeps sums in registers.
    fn stores(self, size: usize) -> u32 {
        let n = size as u64;
        let all = match self {
            Step::Lu0 { .. } => n * n.saturating_sub(1) / 2 + n * n.saturating_sub(1) * (2 * n).saturating_sub(1) / 6,
            Step::Fwd { .. } => n * n * n.saturating_sub(1) / 2,
            Step::Bdiv { .. } => n * n + n * n * n.saturating_sub(1) / 2,
            Step::Bmod { .. } => n * n * n,
        };
        all.div_ceil((n * n).max(1)) as u32
    }

    fn run(self, changed: &mut [f32], read: &[&[f32]], size: usize) {
        match self {
            Step::Lu0 { .. } => lu0(changed, size),
            Step::Fwd { .. } => fwd(read[0], changed, size),
            Step::Bdiv { .. } => bdiv(read[0], changed, size),
            Step::Bmod { new, .. } => {
                if new {
                    // Written before it is read, as in BOTS; otherwise each page would fault twice.
                    changed.fill(0.0);
                }
                add_product(changed, read[0], read[1], size, -1.0);
            }
        }
    }
}

/// `row -= times * other`.
fn subtract(row: &mut [f32], times: f32, other: &[f32]) {
    row.iter_mut().zip(other).for_each(|(to, other)| *to -= times * other);
}

#[inline(never)] // compiled once: the same instructions in every world
fn lu0(diagonal: &mut [f32], size: usize) {
    for k in 0..size {
        let (above, below) = diagonal.split_at_mut((k + 1) * size);
        let pivots = &above[k * size..];
        for row in below.chunks_exact_mut(size) {
            row[k] /= pivots[k];
            let times = row[k];
            subtract(&mut row[k + 1..], times, &pivots[k + 1..]);
        }
    }
}

#[inline(never)] // compiled once: the same instructions in every world
fn fwd(diagonal: &[f32], right: &mut [f32], size: usize) {
    for k in 0..size {
        let (above, below) = right.split_at_mut((k + 1) * size);
        for (i, row) in (k + 1..).zip(below.chunks_exact_mut(size)) {
            subtract(row, diagonal[i * size + k], &above[k * size..]);
        }
    }
}

#[inline(never)] // compiled once: the same instructions in every world
fn bdiv(diagonal: &[f32], below: &mut [f32], size: usize) {
    for row in below.chunks_exact_mut(size.max(1)) {
        for k in 0..size {
            let pivots = &diagonal[k * size..][..size];
            row[k] /= pivots[k];
            let times = row[k];
            subtract(&mut row[k + 1..], times, &pivots[k + 1..]);
        }
    }
}

/// The blocks of the matrix, by place.
struct Blocks<'w> {
    blocks: Vec<Option<Array<'w, f32>>>,
    /// The number of blocks in each direction.
    width: usize,
}

impl<'w> Blocks<'w> {
    fn at(&self, row: usize, column: usize) -> Array<'w, f32> {
        self.blocks[row * self.width + column].expect("the elimination only uses blocks that exist")
    }
}

impl SparseLu {
    /// The input of Fig. 9: 1152 rows and columns by 36, `bmod`'s block intense. Its elements are floats, as long as
    /// the paper's integers.
    pub fn fig9() -> SparseLu {
        SparseLu { block: 36, intense: true, ..SparseLu::default() }
    }

    /// An element of the input.
    fn element(&self, row: usize, column: usize) -> f32 {
        let mixed = (row as u64 * 0x1_0000_0001 + column as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54;
        let small = mixed as f32 / 512.0 - 1.0;
        // Greater than the sum of all others in the row.
        if row == column { (self.blocks * self.block) as f32 + small } else { small }
    }

    /// The operations in the order of the elimination, and the places of the blocks it adds.
    fn steps(&self) -> (Vec<Step>, Vec<(usize, usize)>) {
        let n = self.blocks;
        let mut there: Vec<bool> = (0..n * n).map(|at| is_there(at / n, at % n)).collect();
        let (mut steps, mut made) = (Vec::new(), Vec::new());
        for k in 0..n {
            let columns: Vec<usize> = (k + 1..n).filter(|column| there[k * n + column]).collect();
            let rows: Vec<usize> = (k + 1..n).filter(|row| there[row * n + k]).collect();
            steps.push(Step::Lu0 { k });
            steps.extend(columns.iter().map(|&column| Step::Fwd { k, column }));
            steps.extend(rows.iter().map(|&row| Step::Bdiv { k, row }));
            for (&row, &column) in rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column))) {
                let new = !std::mem::replace(&mut there[row * n + column], true);
                made.extend(new.then_some((row, column)));
                steps.push(Step::Bmod { k, row, column, new });
            }
        }
        (steps, made)
    }

    /// The blocks of the input, row by row, and zero blocks for those added by the elimination.
    fn matrix<'w, W: KernelWorld>(&self, world: &'w W, made: &[(usize, usize)]) -> Blocks<'w> {
        let (n, size) = (self.blocks, self.block);
        let block = |at: usize| {
            let (row, column) = (at / n, at % n);
            let element = |at: usize| self.element(row * size + at / size, column * size + at % size);
            is_there(row, column).then(|| filled(world, size * size, &self.distribution, element))
        };
        let mut blocks: Vec<_> = (0..n * n).map(block).collect();
        for &(row, column) in made {
            blocks[row * n + column] = Some(world.array(size * size, &self.distribution));
        }
        Blocks { blocks, width: n }
    }

    /// The blocks of both factors, each in its triangle.
    fn factorize<'w, W: KernelWorld>(&self, world: &'w W, start: impl FnOnce(), end: impl FnOnce()) -> Blocks<'w> {
        let (steps, made) = self.steps();
        let matrix = self.matrix(world, &made);
        let all = 0..self.block * self.block;
        start();
        let task = |step: Step| {
            let (row, column) = step.changed();
            let changed = matrix.at(row, column);
            let read: Vec<_> = step.read().into_iter().map(|(row, column)| matrix.at(row, column)).collect();
            let intense = self.intense && matches!(step, Step::Bmod { .. });
            let stores = if self.published { step.stores(self.block) } else { 1 };
            let change = changed.changes(all.clone()).stored(stores);
            let change = if intense { change.intense() } else { change };
            let reads = read.iter().map(|block| block.reads(all.clone()));
            let accesses: Vec<Access> = [change].into_iter().chain(reads).collect();
            let (task, all) = (Task::new(accesses.clone()), all.clone());
            let body = move || {
                world.work(step.leaf(self.block), &accesses, || {
                    #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                    // SAFETY: tasks are ordered by their declared accesses.
                    let (changed, read) = unsafe {
                        let read = read.iter().map(|block| block.part(all.clone())).collect::<Vec<_>>();
                        (changed.part_mut(all), read)
                    };
                    step.run(changed, &read, self.block);
                })
            };
            (task, body)
        };
        if self.published {
            // A phase ends at the beginning of the next one's kind.
            for phase in steps.chunk_by(|a, b| a.phase() == b.phase()) {
                match phase {
                    [step @ Step::Lu0 { .. }] => task(*step).1(),
                    _ => world.tasks(TaskOrder::Free, phase.iter().map(|&step| task(step))),
                }
            }
        } else {
            world.tasks(TaskOrder::ByData, steps.into_iter().map(task));
        }
        end();
        matrix
    }
}

impl Kernel for SparseLu {
    fn name(&self) -> &'static str {
        "sparselu"
    }

    fn distribution(&mut self) -> Option<&mut Distribution> {
        Some(&mut self.distribution)
    }

    fn scale(&mut self, times: f64) {
        self.blocks = scaled(self.blocks, times.sqrt());
    }

    fn run<W: KernelWorld>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
        let factors = self.factorize(world, start, end);
        let blocks: Vec<_> = factors.blocks.iter().copied().flatten().collect();
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        unsafe {
            checksum(world, &blocks)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    /// An element of a matrix of blocks; 0 in a missing block.
    fn element(blocks: &Blocks<'_>, size: usize, row: usize, column: usize) -> f64 {
        let at = row % size * size + column % size;
        let block = blocks.blocks[row / size * blocks.width + column / size];
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        block.map_or(0.0, |block| f64::from(unsafe { block.part(at..at + 1) }[0]))
    }

    #[test]
    fn the_products_of_bots_store_46656_times() {
        // Muddukrishna et al., Fig. 9: blocks of 36 rows and columns.
        assert_eq!(Step::Bmod { k: 0, row: 1, column: 1, new: false }.stores(36) * 36 * 36, 46_656);
        // In one row nothing is left to eliminate, but a quotient.
        assert_eq!(
            [Step::Lu0 { k: 0 }, Step::Bdiv { k: 0, row: 1 }, Step::Fwd { k: 0, column: 1 }].map(|step| step.stores(1)),
            [0, 1, 0]
        );
    }

    #[test]
    fn the_factors_product_is_the_input() {
        for (blocks, block) in [(8, 5), (1, 9), (5, 1), (3, 16)] {
            for published in [false, true] {
                let lu = SparseLu { blocks, block, published, ..SparseLu::default() };
                let world = Serial::default();
                let factors = lu.factorize(&world, || (), || ());
                for row in 0..blocks * block {
                    for column in 0..blocks * block {
                        let lower = |k: usize| if k == row { 1.0 } else { element(&factors, block, row, k) };
                        let upper = |k: usize| element(&factors, block, k, column);
                        let got: f64 = (0..=row.min(column)).map(|k| lower(k) * upper(k)).sum();
                        let there = is_there(row / block, column / block);
                        let expected = if there { f64::from(lu.element(row, column)) } else { 0.0 };
                        assert!((got - expected).abs() < 1e-4, "{got}, not {expected}, at {row}, {column} of {lu:?}");
                    }
                }
            }
        }
    }

    /// The picture in BOTS for eight blocks in each direction; `+` marks blocks added by the elimination.
    #[test]
    fn blocks_lie_where_bots_has_them() {
        let lu = SparseLu { blocks: 8, ..SparseLu::default() };
        let (steps, made) = lu.steps();
        let drawn = |at: usize| match (at / 8, at % 8) {
            (row, column) if is_there(row, column) => 'x',
            place if made.contains(&place) => '+',
            _ => '.',
        };
        let rows: Vec<String> = (0..8).map(|row| (0..8).map(|column| drawn(8 * row + column)).collect()).collect();
        let expected = ["xxx.x.x.", "xxx.+.+.", "xxxx+.+.", "..xxx.+.", "x++xxx+.", "....xxx.", "x++++xxx", "......xx"];
        assert_eq!(rows, expected);
        assert_eq!(
            steps[..4],
            [0, 1, 2, 4].map(|k| if k == 0 { Step::Lu0 { k } } else { Step::Fwd { k: 0, column: k } })
        );
    }

    #[test]
    fn operations_are_counted_as_the_loops_do_them() {
        let n = 7;
        let lu0: u64 = (0..n).map(|k| (n - 1 - k) * (1 + 2 * (n - 1 - k))).sum();
        assert_eq!(Step::Lu0 { k: 0 }.leaf(7).flops, lu0);
        let fwd: u64 = (0..n).map(|k| (n - 1 - k) * 2 * n).sum();
        assert_eq!(Step::Fwd { k: 0, column: 1 }.leaf(7).flops, fwd);
        let bdiv: u64 = (0..n).map(|k| n * (1 + 2 * (n - 1 - k))).sum();
        assert_eq!(Step::Bdiv { k: 0, row: 1 }.leaf(7).flops, bdiv);
    }
}
