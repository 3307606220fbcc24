//! Jacobi in two dimensions: the heat equation, block by block, from one grid into another.
//!
//! Muddukrishna, Jonsson, Brorsson, "Locality-aware task scheduling and data distribution for OpenMP programs on NUMA
//! systems and manycore processors", Scientific Programming 2015, Table 4: "blocked 2D heat equation solver". Each grid
//! is one allocation, so the rows of a block are apart. All tasks of a sweep end before the next sweep.

use crate::arrays::{checksum, filled, scaled};
use crate::{Array, Kernel, KernelWorld, Leaf, Task, TaskOrder};
use std::ops::Range;
use vicus_memory::distribution::Distribution;

/// The heat equation on a square plate. By default with the input of Fig. 7: 16384 rows and columns of floats, by 512.
#[derive(Clone, Debug)]
pub struct Jacobi2d {
    /// How many rows and columns a grid has, with its border.
    pub size: usize,
    /// How many rows and columns a block has; the last ones may have fewer.
    pub block: usize,
    /// How often each element is computed.
    pub sweeps: usize,
    /// How the two grids lie; Table 4 advises `fine`.
    pub distribution: Distribution,
}

impl Default for Jacobi2d {
    fn default() -> Jacobi2d {
        Jacobi2d { size: 16384, block: 512, sweeps: 4, distribution: Distribution::Fine }
    }
}

/// The initial value of an element. Border elements keep it.
fn element(row: usize, column: usize) -> f32 {
    ((row * 31 + column * 17 + row * column) % 64) as f32
}

/// Computes one row of a block: the mean of the four neighbours.
fn relax_row(to: &mut [f32], above: &[f32], row: &[f32], below: &[f32]) {
    let n = to.len();
    let (left, right, above, below) = (&row[..n], &row[2..][..n], &above[1..][..n], &below[1..][..n]);
    for k in 0..n {
        to[k] = 0.25 * ((above[k] + below[k]) + (left[k] + right[k]));
    }
}

/// Computes a block of a grid with rows of `size` elements.
///
/// # Safety
/// It is called in [`KernelWorld::work`]. Meanwhile nothing writes the block of `from` and its surroundings, and
/// nothing else uses the block of `to`, another array.
#[inline(never)] // compiled once: the same instructions in every world
#[expect(unsafe_code, reason = "arrays are shared by tasks")]
unsafe fn relax(from: Array<'_, f32>, to: Array<'_, f32>, size: usize, rows: Range<usize>, columns: Range<usize>) {
    let halo = columns.start - 1..columns.end + 1;
    for row in rows {
        // SAFETY: by the caller's promise.
        let (to, [above, here, below]) = unsafe {
            let near = [row - 1, row, row + 1].map(|row| from.part(of_row(size, row, halo.clone())));
            (to.part_mut(of_row(size, row, columns.clone())), near)
        };
        relax_row(to, above, here, below);
    }
}

/// The places of these columns of a row.
fn of_row(size: usize, row: usize, columns: Range<usize>) -> Range<usize> {
    row * size + columns.start..row * size + columns.end
}

impl Jacobi2d {
    /// The rows (or columns) of each block without the border.
    fn parts(&self) -> impl Iterator<Item = Range<usize>> + Clone {
        let (size, block) = (self.size, self.block);
        let part = move |start: usize| start.max(1)..(start + block).min(size.saturating_sub(1));
        (0..size).step_by(block).map(part).filter(|part| !part.is_empty())
    }

    fn sweep<W: KernelWorld>(&self, world: &W, from: Array<'_, f32>, to: Array<'_, f32>) {
        let size = self.size;
        let blocks = self.parts().flat_map(|rows| self.parts().map(move |columns| (rows.clone(), columns)));
        let tasks = blocks.map(|(rows, columns)| {
            let stride = size * size_of::<f32>();
            // The corners are declared though no task reads them, so the halo is one access.
            let halo = columns.start - 1..columns.end + 1;
            let accesses = [
                from.reads(of_row(size, rows.start - 1, halo)).rows(rows.len() + 2, stride),
                to.writes(of_row(size, rows.start, columns.clone())).rows(rows.len(), stride),
            ];
            let leaf = Leaf { name: "relax 2d", flops: 4 * (rows.len() * columns.len()) as u64 };
            let body = move || {
                world.work(leaf, &accesses, || {
                    #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                    // SAFETY: within a sweep no task writes one grid, and each block of the other grid belongs to one
                    // task.
                    unsafe {
                        relax(from, to, size, rows, columns);
                    }
                })
            };
            (Task::new(accesses), body)
        });
        world.tasks(TaskOrder::Free, tasks);
    }

    /// The grid after the last sweep.
    fn solve<'w, W: KernelWorld>(&self, world: &'w W, start: impl FnOnce(), end: impl FnOnce()) -> Array<'w, f32> {
        let element = |at: usize| element(at / self.size, at % self.size);
        let grids = [(); 2].map(|()| filled(world, self.size * self.size, &self.distribution, element));
        start();
        (0..self.sweeps).for_each(|sweep| self.sweep(world, grids[sweep % 2], grids[(sweep + 1) % 2]));
        end();
        grids[self.sweeps % 2]
    }
}

impl Kernel for Jacobi2d {
    fn name(&self) -> &'static str {
        "jacobi2d"
    }

    fn distribution(&mut self) -> Option<&mut Distribution> {
        Some(&mut self.distribution)
    }

    fn scale(&mut self, times: f64) {
        self.size = self.block * scaled(self.size.div_ceil(self.block), times.sqrt());
    }

    fn run<W: KernelWorld>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
        let grid = self.solve(world, start, end);
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        unsafe {
            checksum(world, &[grid])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    #[test]
    fn blocks_make_no_difference() {
        for (size, block, sweeps) in [(16, 4, 3), (17, 5, 4), (9, 1, 2), (6, 8, 5), (2, 2, 1), (7, 7, 0)] {
            let mut grid: Vec<Vec<f32>> = (0..size).map(|i| (0..size).map(|j| element(i, j)).collect()).collect();
            for _ in 0..sweeps {
                let old = grid.clone();
                for i in 1..size - 1 {
                    for j in 1..size - 1 {
                        grid[i][j] = 0.25 * ((old[i - 1][j] + old[i + 1][j]) + (old[i][j - 1] + old[i][j + 1]));
                    }
                }
            }
            let world = Serial::default();
            let jacobi = Jacobi2d { size, block, sweeps, ..Jacobi2d::default() };
            let got = jacobi.solve(&world, || (), || ());
            #[expect(unsafe_code, reason = "arrays are shared by tasks")]
            // SAFETY: all tasks are over.
            let got = unsafe { got.part(0..size * size) };
            assert_eq!(got, grid.concat(), "{jacobi:?}");
        }
    }
}
