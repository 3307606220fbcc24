//! Map: each task scales a vector of its own.
//!
//! Muddukrishna, Jonsson, Brorsson, "Locality-aware task scheduling and data distribution for OpenMP programs on NUMA systems
//! and manycore processors", Scientific Programming 2015, Listing 1 and Table 4.

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

impl Kernel for Map {
    fn name(&self) -> &'static str {
        "map"
    }

    fn run<W: World>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
        let len = self.bytes / size_of::<f32>();
        let vectors: Vec<_> = (0..self.vectors).map(|_| world.array::<f32>(len, &self.distribution)).collect();
        for (number, vector) in vectors.iter().enumerate() {
            world.work(Leaf { name: "fill", flops: len as u64 }, &[vector.writes(0..len)], || {
                #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                // SAFETY: no task runs yet.
                let elements = unsafe { vector.part_mut(0..len) };
                elements.iter_mut().enumerate().for_each(|(at, element)| *element = ((number + at) % 8) as f32);
            });
        }
        start();
        let tasks = vectors.iter().map(|vector| {
            let accesses = [vector.changes(0..len)];
            let body = move || {
                world.work(Leaf { name: "map", flops: len as u64 }, &accesses, || {
                    #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                    // SAFETY: each vector is one task's.
                    let elements = unsafe { vector.part_mut(0..len) };
                    elements.iter_mut().for_each(|element| *element *= 1.5);
                })
            };
            (Task::new(accesses), body)
        });
        world.tasks(Order::Free, tasks);
        end();
        let mut sum = 0.0;
        for vector in &vectors {
            world.work(Leaf { name: "sum", flops: len as u64 }, &[vector.reads(0..len)], || {
                #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                // SAFETY: all tasks are over.
                let elements = unsafe { vector.part(0..len) };
                sum += elements.iter().map(|&element| f64::from(element)).sum::<f64>();
            });
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    #[test]
    fn each_element_is_scaled_once() {
        let map = Map { vectors: 2, bytes: 64, ..Map::default() };
        // 16 elements: twice 0 to 7, whose sum is 28; the second vector begins one later.
        assert_eq!(map.run(&Serial::default(), || (), || ()), 1.5 * 4.0 * 28.0);
    }
}
