//! Strassen: a product of two matrices by seven products of their quadrants, not eight, and so on down to blocks.
//!
//! Duran, Teruel, Ferrer, Martorell, Ayguade, "Barcelona OpenMP Tasks Suite", ICPP 2009: a task for each of the seven
//! products; a task with a need for temporary matrices allocates them itself. Strassen, "Gaussian elimination is not
//! optimal", Numerische Mathematik 1969, in Winograd's variant with 15 additions.
//!
//! We differ: a matrix lies quadrant by quadrant down to its blocks, so each quadrant is one stretch of memory; and
//! temporary matrices are kept until the end, because arrays live as long as their world.

use crate::arrays::{checksum, filled};
use crate::product::add_product;
use crate::{Array, Kernel, KernelWorld, Leaf, Task, TaskOrder};
use vicus_memory::distribution::Distribution;

/// A product of two matrices by seven products of quadrants. By default of 4096 rows and columns of floats, in blocks
/// of 128.
#[derive(Clone, Debug)]
pub struct Strassen {
    /// How often matrices are divided: they have `2^levels` blocks in each direction.
    pub levels: u32,
    /// How many rows and columns a block has. Blocks are multiplied without further division.
    pub block: usize,
    /// How the matrices lie, the temporary ones too.
    pub distribution: Distribution,
}

impl Default for Strassen {
    fn default() -> Strassen {
        Strassen { levels: 5, block: 128, distribution: Distribution::Coarse }
    }
}

/// The most divisions made by [`Kernel::scale`]: no machine has memory for as many.
const MOST_LEVELS: f64 = 15.0;

/// How many temporary matrices, each as large as a quadrant, a product needs: eight sums, and three of the seven
/// products. The other products lie in the result's quadrants.
const TEMPORARIES: usize = 8 + 3;

/// An element of the input. They are small integers: with few levels, no sum of products is rounded.
fn element(matrix: usize, place: usize) -> f32 {
    let number = 2 * place as u64 + matrix as u64 + 1;
    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 62) as f32 - 1.0
}

/// The four quadrants of a matrix: above left and right, below left and right.
fn quadrants(matrix: Array<'_, f32>) -> [Array<'_, f32>; 4] {
    let len = matrix.len() / 4;
    [0, 1, 2, 3].map(|at| matrix.slice(at * len..(at + 1) * len))
}

/// The four quadrants of a matrix's elements.
fn quarters(matrix: &[f32]) -> [&[f32]; 4] {
    let len = matrix.len() / 4;
    [0, 1, 2, 3].map(|at| &matrix[at * len..][..len])
}

/// The sums of quadrants to be multiplied: four of the first matrix's, then four of the second one's.
#[inline(never)] // compiled once: the same instructions in every world
fn sums(to: &mut [f32], a: &[f32], b: &[f32]) {
    let len = a.len() / 4;
    let [a11, a12, a21, a22] = quarters(a);
    let [b11, b12, b21, b22] = quarters(b);
    let (of_a, of_b) = to.split_at_mut(4 * len);
    let (first, rest) = of_a.split_at_mut(len);
    let (second, rest) = rest.split_at_mut(len);
    let (third, fourth) = rest.split_at_mut(len);
    for at in 0..len {
        first[at] = a21[at] + a22[at];
        second[at] = first[at] - a11[at];
        third[at] = a11[at] - a21[at];
        fourth[at] = a12[at] - second[at];
    }
    let (first, rest) = of_b.split_at_mut(len);
    let (second, rest) = rest.split_at_mut(len);
    let (third, fourth) = rest.split_at_mut(len);
    for at in 0..len {
        first[at] = b12[at] - b11[at];
        second[at] = b22[at] - first[at];
        third[at] = b22[at] - b12[at];
        fourth[at] = second[at] - b21[at];
    }
}

/// Sums the products. The result's quadrants hold the second, third, fourth and seventh one; the others are the first,
/// fifth and sixth one.
#[inline(never)] // compiled once: the same instructions in every world
fn combine(c: &mut [f32], others: &[f32]) {
    let len = c.len() / 4;
    let (c11, rest) = c.split_at_mut(len);
    let (c12, rest) = rest.split_at_mut(len);
    let (c21, c22) = rest.split_at_mut(len);
    let (first, rest) = others.split_at(len);
    let (fifth, sixth) = rest.split_at(len);
    for at in 0..len {
        let both = first[at] + sixth[at];
        let below = both + c22[at];
        c11[at] += first[at];
        c12[at] += both + fifth[at];
        c21[at] = below - c21[at];
        c22[at] = below + fifth[at];
    }
}

impl Strassen {
    /// Overwrites the first matrix by the product of the others.
    fn product<'w, W: KernelWorld>(&self, world: &'w W, [c, a, b]: [Array<'w, f32>; 3], levels: u32) {
        let all = 0..c.len();
        if levels == 0 {
            let accesses = [c.writes(all.clone()), a.reads(all.clone()), b.reads(all.clone())];
            let size = self.block;
            world.work(Leaf { name: "multiply leaf", flops: 2 * (size * size * size) as u64 }, &accesses, || {
                #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                // SAFETY: each product has a place of its own, and its factors are written before its task is
                // submitted.
                let (c, a, b) = unsafe { (c.part_mut(all.clone()), a.part(all.clone()), b.part(all)) };
                c.fill(0.0);
                add_product(c, a, b, size, 1.0);
            });
            return;
        }
        let len = c.len() / 4;
        let space = world.array(TEMPORARIES * len, &self.distribution);
        let (sum, product) = (0..8 * len, 8 * len..TEMPORARIES * len);
        let accesses = [a.reads(all.clone()), b.reads(all.clone()), space.writes(sum.clone())];
        world.work(Leaf { name: "sum quadrants", flops: 8 * len as u64 }, &accesses, || {
            #[expect(unsafe_code, reason = "arrays are shared by tasks")]
            // SAFETY: no other task knows the sums yet, and none writes the factors.
            let (sum, a, b) = unsafe { (space.part_mut(sum), a.part(all.clone()), b.part(all.clone())) };
            sums(sum, a, b);
        });
        let [s1, s2, s3, s4, t1, t2, t3, t4, p1, p5, p6]: [_; TEMPORARIES] =
            std::array::from_fn(|at| space.slice(at * len..(at + 1) * len));
        let ([a11, a12, _, a22], [b11, _, b21, b22]) = (quadrants(a), quadrants(b));
        let [c11, c12, c21, c22] = quadrants(c);
        let products = [
            [p1, a11, b11],
            [c11, a12, b21],
            [c12, s4, b22],
            [c21, a22, t4],
            [p5, s1, t1],
            [p6, s2, t2],
            [c22, s3, t3],
        ];
        let tasks = products.map(|[c, a, b]| {
            // A divided one reads the products it has written.
            let result = if levels > 1 { c.changes(0..len) } else { c.writes(0..len) };
            let task = Task::new([result, a.reads(0..len), b.reads(0..len)]);
            (task, move || self.product(world, [c, a, b], levels - 1))
        });
        world.tasks(TaskOrder::Free, tasks.into_iter());
        let accesses = [c.changes(all.clone()), space.reads(product.clone())];
        world.work(Leaf { name: "combine quadrants", flops: 7 * len as u64 }, &accesses, || {
            #[expect(unsafe_code, reason = "arrays are shared by tasks")]
            // SAFETY: the tasks that wrote the products are over.
            let (c, others) = unsafe { (c.part_mut(all), space.part(product)) };
            combine(c, others);
        });
    }

    /// The product of the input's two matrices.
    fn multiply<'w, W: KernelWorld>(&self, world: &'w W, start: impl FnOnce(), end: impl FnOnce()) -> Array<'w, f32> {
        let len = (self.block << self.levels).pow(2);
        let [a, b] = [0, 1].map(|matrix| filled(world, len, &self.distribution, |place| element(matrix, place)));
        let c = world.array(len, &self.distribution);
        start();
        self.product(world, [c, a, b], self.levels);
        end();
        c
    }
}

impl Kernel for Strassen {
    fn name(&self) -> &'static str {
        "strassen"
    }

    fn distribution(&mut self) -> Option<&mut Distribution> {
        Some(&mut self.distribution)
    }

    /// A further level has seven times as many products.
    fn scale(&mut self, times: f64) {
        self.levels = (f64::from(self.levels) + times.ln() / 7f64.ln()).round().clamp(1.0, MOST_LEVELS) as u32;
    }

    fn run<W: KernelWorld>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
        let product = self.multiply(world, start, end);
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        unsafe {
            checksum(world, &[product])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    /// The place of an element in a matrix of quadrants.
    fn place(size: usize, block: usize, row: usize, column: usize) -> usize {
        if size == block {
            return row * size + column;
        }
        let half = size / 2;
        let quadrant = 2 * (row / half) + column / half;
        quadrant * half * half + place(half, block, row % half, column % half)
    }

    #[test]
    fn each_element_is_a_sum_of_products() {
        for (levels, block) in [(0, 5), (1, 1), (1, 3), (2, 4), (3, 5)] {
            let world = Serial::default();
            let strassen = Strassen { levels, block, ..Strassen::default() };
            let product = strassen.multiply(&world, || (), || ());
            let size = block << levels;
            for row in 0..size {
                for column in 0..size {
                    let at = |row, column| place(size, block, row, column);
                    let sum: f32 = (0..size).map(|k| element(0, at(row, k)) * element(1, at(k, column))).sum();
                    #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                    // SAFETY: all tasks are over.
                    let got = unsafe { product.part(at(row, column)..at(row, column) + 1) };
                    assert_eq!(got, [sum], "row {row}, column {column} of {strassen:?}");
                }
            }
        }
    }

    #[test]
    fn inputs_have_different_elements_in_all_places() {
        let counted = |matrix, value: f32| (0..1000).filter(|&place| element(matrix, place) == value).count();
        for matrix in [0, 1] {
            assert!([-1.0, 0.0, 1.0, 2.0].into_iter().all(|value| counted(matrix, value) > 150));
        }
    }
}
