//! Matmul: a blocked product of two matrices, with an allocation for each block.
//!
//! Muddukrishna, Jonsson, Brorsson, "Locality-aware task scheduling and data distribution for OpenMP programs on NUMA
//! systems and manycore processors", Scientific Programming 2015, Table 4 and §6: "each task updates a block in the
//! output matrix using a chain of blocks from two input matrices".

use crate::arrays::{checksum, filled, scaled};
use crate::product::add_product;
use crate::{Array, Kernel, KernelWorld, Leaf, Task, TaskOrder};
use vicus_memory::distribution::Distribution;

/// A blocked product of two matrices. By default with the input of Fig. 7: 4096 rows and columns of floats, by 128.
#[derive(Clone, Debug)]
pub struct Matmul {
    /// How many blocks a matrix has in each direction.
    pub blocks: usize,
    /// How many rows and columns a block has.
    pub block: usize,
    /// How the blocks lie; Table 4 advises `coarse`.
    pub distribution: Distribution,
}

impl Default for Matmul {
    fn default() -> Matmul {
        Matmul { blocks: 32, block: 128, distribution: Distribution::Coarse }
    }
}

/// An element of the input. They are small integers, so no sum of products is rounded.
fn element(matrix: usize, row: usize, column: usize) -> f32 {
    ((row * (3 + matrix) + column * 5 + row * column) % 7) as f32 - 3.0
}

impl Matmul {
    /// The blocks of a matrix, row by row.
    fn matrix<'w, W: KernelWorld>(&self, world: &'w W, element: impl Fn(usize, usize) -> f32) -> Vec<Array<'w, f32>> {
        let (blocks, size) = (self.blocks, self.block);
        let block = |number: usize| {
            let (row, column) = (number / blocks * size, number % blocks * size);
            let element = |at: usize| element(row + at / size, column + at % size);
            filled(world, size * size, &self.distribution, element)
        };
        (0..blocks * blocks).map(block).collect()
    }

    /// The blocks of the product.
    fn multiply<'w, W: KernelWorld>(
        &self,
        world: &'w W,
        start: impl FnOnce(),
        end: impl FnOnce(),
    ) -> Vec<Array<'w, f32>> {
        let (blocks, size) = (self.blocks, self.block);
        let [a, b] = [0, 1].map(|matrix| self.matrix(world, |row, column| element(matrix, row, column)));
        let c = self.matrix(world, |_, _| 0.0);
        let all = 0..size * size;
        let leaf = Leaf { name: "multiply", flops: 2 * (size * size * size) as u64 };
        start();
        let tasks = c.iter().enumerate().map(|(number, c)| {
            let (row, column) = (number / blocks, number % blocks);
            let chain = (0..blocks).map(|k| (a[row * blocks + k], b[k * blocks + column])).collect::<Vec<_>>();
            let inputs = chain.iter().flat_map(|(a, b)| [a.reads(0..size * size), b.reads(0..size * size)]);
            let task = Task::new([c.changes(all.clone())].into_iter().chain(inputs).collect::<Vec<_>>());
            let all = all.clone();
            let body = move || {
                for (a, b) in chain {
                    let accesses = [c.changes(all.clone()), a.reads(all.clone()), b.reads(all.clone())];
                    world.work(leaf, &accesses, || {
                        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                        // SAFETY: each block of the product belongs to one task; no task writes the others.
                        let (c, a, b) = unsafe { (c.part_mut(all.clone()), a.part(all.clone()), b.part(all.clone())) };
                        add_product(c, a, b, size, 1.0);
                    });
                }
            };
            (task, body)
        });
        world.tasks(TaskOrder::Free, tasks);
        end();
        c
    }
}

impl Kernel for Matmul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn distribution(&mut self) -> Option<&mut Distribution> {
        Some(&mut self.distribution)
    }

    fn scale(&mut self, times: f64) {
        self.blocks = scaled(self.blocks, times.sqrt());
    }

    fn run<W: KernelWorld>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
        let product = self.multiply(world, start, end);
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        unsafe {
            checksum(world, &product)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    #[test]
    fn each_element_is_a_sum_of_products() {
        let (blocks, block) = (3, 13);
        let world = Serial::default();
        let matmul = Matmul { blocks, block, ..Matmul::default() };
        let product = matmul.multiply(&world, || (), || ());
        for row in 0..blocks * block {
            for column in 0..blocks * block {
                let products = (0..blocks * block).map(|k| element(0, row, k) * element(1, k, column));
                let at = row % block * block + column % block;
                #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                // SAFETY: all tasks are over.
                let got = unsafe { product[row / block * blocks + column / block].part(at..at + 1) };
                assert_eq!(got, [products.sum::<f32>()], "row {row}, column {column}");
            }
        }
    }
}
