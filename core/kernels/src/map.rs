//! Map: each task scales a vector of its own.
//!
//! Muddukrishna, Jonsson, Brorsson, "Locality-aware task scheduling and data distribution for OpenMP programs on NUMA systems
//! and manycore processors", Scientific Programming 2015, Listing 1 and Table 4.

use crate::arrays::{checksum, filled, scaled};
use crate::{Kernel, Leaf, Order, Task, World};
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
}

impl Default for Map {
    fn default() -> Map {
        Map { vectors: 48, bytes: 1 << 20, distribution: Distribution::Coarse }
    }
}

/// Scales a vector.
#[inline(never)] // compiled once: the same instructions in every world
fn scale(elements: &mut [f32]) {
    elements.iter_mut().for_each(|element| *element *= 1.5);
}

impl Map {
    /// The input of Fig. 9, for caches on a chip: 63 vectors of 32 kB. Its elements are floats, as long as the paper's integers.
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

    fn run<W: World>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
        let len = self.bytes / size_of::<f32>();
        let vector = |number| filled(world, len, &self.distribution, |at| ((number + at) % 8) as f32);
        let vectors: Vec<_> = (0..self.vectors).map(vector).collect();
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
        world.tasks(Order::Free, tasks);
        end();
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        unsafe {
            checksum(world, &vectors)
        }
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
}
