//! Map: each task scales a vector of its own.
//!
//! Muddukrishna, Jonsson, Brorsson, "Locality-aware task scheduling and data distribution for OpenMP programs on NUMA
//! systems and manycore processors", Scientific Programming 2015, Listing 1 and Table 4.
//!
//! `published` is the program in the authors' repository (MIR). It does more than the paper says: ten passes over each
//! vector, with a square root for each element, and their sum as a result; and tasks are made by all workers.

use crate::arrays::{checksum, filled, scaled};
use crate::published::{PASSES, SCALE, tasks_made_by_all};
use crate::{Array, Kernel, KernelWorld, Leaf, Task, TaskOrder};
use std::sync::atomic::{AtomicU64, Ordering};
use vicus_memory::distribution::Distribution;

/// Each task scales a vector of its own. By default with the input of Fig. 7: 48 vectors of 1 MB.
#[derive(Clone, Debug)]
pub struct Map {
    /// How many vectors there are, each an allocation and a task.
    pub vectors: usize,
    /// How long a vector is, in bytes.
    pub bytes: usize,
    /// How the vectors lie; Table 4 advises `coarse`.
    pub distribution: Distribution,
    /// Whether it is the authors' published program.
    pub published: bool,
}

impl Default for Map {
    fn default() -> Map {
        Map { vectors: 48, bytes: 1 << 20, distribution: Distribution::Coarse, published: false }
    }
}

/// Scales a vector.
#[inline(never)] // compiled once: the same instructions in every world
fn scale(elements: &mut [f32]) {
    elements.iter_mut().for_each(|element| *element *= 1.5);
}

/// The published program's pass: the sum of the roots, without their fractions.
#[inline(never)] // compiled once: the same instructions in every world
fn scale_and_root(elements: &mut [f32]) -> u64 {
    let root = |element: &mut f32| {
        *element *= SCALE;
        f64::from(*element).sqrt() as u64
    };
    elements.iter_mut().map(root).sum()
}

impl Map {
    /// The input of Fig. 9, for caches on a chip: 63 vectors of 32 kB. Its elements are floats, as long as the paper's
    /// integers.
    pub fn fig9() -> Map {
        Map { vectors: 63, bytes: 32 << 10, ..Map::default() }
    }
}

impl Kernel for Map {
    fn name(&self) -> &'static str {
        "map"
    }

    fn distribution(&mut self) -> Option<&mut Distribution> {
        Some(&mut self.distribution)
    }

    fn scale(&mut self, times: f64) {
        self.vectors = scaled(self.vectors, times);
    }

    fn run<W: KernelWorld>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
        let len = self.bytes / size_of::<f32>();
        let vector = |number| filled(world, len, &self.distribution, |at| ((number + at) % 8) as f32);
        let vectors: Vec<_> = (0..self.vectors).map(vector).collect();
        if self.published {
            return self.run_published(world, &vectors, start, end);
        }
        start();
        let tasks = vectors.iter().map(|vector| {
            let accesses = [vector.changes(0..len)];
            let body = move || {
                world.work(Leaf { name: "map", flops: len as u64 }, &accesses, || {
                    #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                    // SAFETY: each vector belongs to one task.
                    let elements = unsafe { vector.part_mut(0..len) };
                    scale(elements);
                })
            };
            (Task::new(accesses), body)
        });
        world.tasks(TaskOrder::Free, tasks);
        end();
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        unsafe {
            checksum(world, &vectors)
        }
    }
}

impl Map {
    fn run_published<W: KernelWorld>(
        &self,
        world: &W,
        vectors: &[Array<'_, f32>],
        start: impl FnOnce(),
        end: impl FnOnce(),
    ) -> f64 {
        let len = self.bytes / size_of::<f32>();
        let roots = AtomicU64::new(0);
        start();
        tasks_made_by_all(world, vectors.len(), &|number| {
            let (vector, roots) = (&vectors[number], &roots);
            let accesses = [vector.changes(0..len)];
            let body = move || {
                for _ in 0..PASSES {
                    // A product, a root, a conversion and a sum for each element.
                    world.work(Leaf { name: "map with roots", flops: 4 * len as u64 }, &accesses, || {
                        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                        // SAFETY: each vector belongs to one task.
                        let elements = unsafe { vector.part_mut(0..len) };
                        roots.fetch_add(scale_and_root(elements), Ordering::Relaxed);
                    });
                }
            };
            (Task::new(accesses), body)
        });
        end();
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        let sum = unsafe { checksum(world, vectors) };
        sum + roots.into_inner() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    #[test]
    fn each_element_is_scaled_once() {
        let map = Map { vectors: 2, bytes: 32, ..Map::default() };
        // 0 to 7, and 1 to 7 and 0, times 1 to 16.
        let expected = 1.5 * f64::from(2 + 2 * 3 + 3 * 4 + 4 * 5 + 5 * 6 + 6 * 7 + 7 * 8);
        let expected = expected + 1.5 * f64::from(9 + 2 * 10 + 3 * 11 + 4 * 12 + 5 * 13 + 6 * 14 + 7 * 15);
        assert_eq!(map.run(&Serial::default(), || (), || ()), expected);
    }

    #[test]
    fn the_published_program_scales_ten_times_and_sums_roots() {
        let map = Map { vectors: 1, bytes: 8, published: true, ..Map::default() };
        // Of 0 and 1; powers of 42 have more bits than a float from the fifth on.
        let (mut scaled, mut roots) = (1f32, 0.0);
        for _ in 0..10 {
            scaled *= 42.0;
            roots += f64::from(scaled).sqrt().floor();
        }
        assert_eq!(map.run(&Serial::default(), || (), || ()), 2.0 * f64::from(scaled) + roots);
    }
}
