//! Vecmul: each task computes the cross product of two vectors.
//!
//! Muddukrishna, Jonsson, Brorsson, "Locality-aware task scheduling and data distribution for OpenMP programs on NUMA
//! systems and manycore processors", Scientific Programming 2015, Table 4: "vector cross product" of "128 integer
//! vectors, 28 kB each".
//!
//! The paper doesn't say more. 128 vectors of 28 kB are 3.5 MB, a size that just fits the chip's 4 MB of caches. So
//! there are no further vectors for results, and a product replaces the first vector of its pair. For vectors of any
//! length, the cross product has here the components `a[k] b[k + 1] - a[k + 1] b[k]`, cyclically: for length three,
//! those of the usual product, the last one first. The vectors of a pair are half the list apart.

use crate::arrays::{checksum, filled, scaled};
use crate::{Kernel, KernelWorld, Leaf, Task, TaskOrder};
use vicus_memory::distribution::Distribution;

/// Each task makes the cross product of a pair of vectors. By default, as many as in Fig. 9, of 1 MB as Fig. 7's are.
#[derive(Clone, Debug)]
pub struct Vecmul {
    /// How many pairs there are, each two allocations and a task.
    pub pairs: usize,
    /// How long a vector is, in bytes.
    pub bytes: usize,
    /// How the vectors lie; Table 4 advises `coarse`.
    pub distribution: Distribution,
}

impl Default for Vecmul {
    fn default() -> Vecmul {
        Vecmul { pairs: 64, bytes: 1 << 20, distribution: Distribution::Coarse }
    }
}

impl Vecmul {
    /// The input of Fig. 9: 128 vectors of 28 kB.
    pub fn fig9() -> Vecmul {
        Vecmul { bytes: 28 << 10, ..Vecmul::default() }
    }
}

/// Replaces the first vector by the cross product.
#[inline(never)] // compiled once: the same instructions in every world
fn cross(a: &mut [i32], b: &[i32]) {
    let (Some(&first), n) = (a.first(), a.len()) else { return };
    let minor = |a: i32, b_next: i32, a_next: i32, b: i32| a.wrapping_mul(b_next).wrapping_sub(a_next.wrapping_mul(b));
    for k in 0..n - 1 {
        a[k] = minor(a[k], b[k + 1], a[k + 1], b[k]);
    }
    a[n - 1] = minor(a[n - 1], b[0], first, b[n - 1]);
}

impl Kernel for Vecmul {
    fn name(&self) -> &'static str {
        "vecmul"
    }

    fn distribution(&mut self) -> Option<&mut Distribution> {
        Some(&mut self.distribution)
    }

    fn scale(&mut self, times: f64) {
        self.pairs = scaled(self.pairs, times);
    }

    fn run<W: KernelWorld>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
        let len = self.bytes / size_of::<i32>();
        let vector = |number| filled(world, len, &self.distribution, |at| ((number + 3 * at) % 16) as i32);
        let vectors: Vec<_> = (0..2 * self.pairs).map(vector).collect();
        let (firsts, seconds) = vectors.split_at(self.pairs);
        start();
        let tasks = firsts.iter().zip(seconds).map(|(a, b)| {
            let accesses = [a.changes(0..len), b.reads(0..len)];
            let body = move || {
                world.work(Leaf { name: "cross", flops: 3 * len as u64 }, &accesses, || {
                    #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                    // SAFETY: each pair belongs to one task.
                    let (a, b) = unsafe { (a.part_mut(0..len), b.part(0..len)) };
                    cross(a, b);
                })
            };
            (Task::new(accesses), body)
        });
        world.tasks(TaskOrder::Free, tasks);
        end();
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        unsafe {
            checksum(world, firsts)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    #[test]
    fn of_three_components_it_is_the_usual_product() {
        let mut a = [1, 2, 3];
        cross(&mut a, &[4, 5, 6]);
        // (1, 2, 3) x (4, 5, 6) = (-3, 6, -3); its last component comes first.
        assert_eq!(a, [-3, -3, 6]);
    }

    #[test]
    fn each_pair_is_multiplied_once() {
        let vecmul = Vecmul { pairs: 2, bytes: 12, ..Vecmul::default() };
        // The vectors are (0, 3, 6), (1, 4, 7), (2, 5, 8), (3, 6, 9). The first times the third is (-6, 12, -6), and so
        // is the second times the fourth; each component is weighted by its place among all.
        let expected = f64::from(-6 + 2 * -6 + 3 * 12 + 4 * -6 + 5 * -6 + 6 * 12);
        assert_eq!(vecmul.run(&Serial::default(), || (), || ()), expected);
    }
}
