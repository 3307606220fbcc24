//! Reduction: merges sorted runs in pairs, level by level, until one run is left.
//!
//! Muddukrishna, Jonsson, Brorsson, "Locality-aware task scheduling and data distribution for OpenMP programs on NUMA
//! systems and manycore processors", Scientific Programming 2015, Table 4 and §6: "iterative implementation of merge
//! phase of BOTS Sort", over memory of "a single malloc call".
//!
//! Our reading: depth `d` means `2^d` runs (64 for 63 tiles and 1024 for 48 cores), merged in `d` levels with a wait
//! after each. A merge is one task, so its reads are known when it is submitted; in BOTS, large merges are split at
//! places that depend on the data. So the last levels have fewer tasks than a machine has cores.
//!
//! `published` is the program in the authors' repository (MIR). It merges nothing: it combines runs in place, the first
//! one of a pair plus 42 times the second one, in ten passes; and tasks are made by all workers.

use crate::arrays::{checksum, filled};
use crate::published::{PASSES, SCALE, tasks_made_by_all};
use crate::{Array, Kernel, KernelWorld, Leaf, Task, TaskOrder};
use std::ops::Range;
use vicus_memory::distribution::Distribution;

/// Merges sorted runs in pairs until one is left. By default with the input of Fig. 7: 256 MB of floats, depth 10.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// The bytes of all runs together. The allocation is twice as large, for merging.
    pub bytes: usize,
    /// How many levels there are: `2^depth` runs.
    pub depth: u32,
    /// How the allocation lies; Table 4 advises `fine`.
    pub distribution: Distribution,
    /// Whether it is the authors' published program.
    pub published: bool,
}

impl Default for Reduction {
    fn default() -> Reduction {
        Reduction { bytes: 256 << 20, depth: 10, distribution: Distribution::Fine, published: false }
    }
}

/// An element. Runs ascend, and the elements of different runs interleave.
fn element(run: usize, at: usize) -> f32 {
    let mixed = (run as u64 ^ (at as u64) << 20).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 57;
    (128 * at + mixed as usize) as f32
}

/// Merges two sorted slices.
#[inline(never)] // compiled once: the same instructions in every world
fn merge(a: &[f32], b: &[f32], to: &mut [f32]) {
    let (mut at_a, mut at_b) = (0, 0);
    for to in to {
        // No branch on the data: it would be mispredicted half the time.
        let (of_a, of_b) = (a.get(at_a), b.get(at_b));
        let (of_a, of_b) = (of_a.copied().unwrap_or(f32::INFINITY), of_b.copied().unwrap_or(f32::INFINITY));
        let from_b = of_b < of_a;
        *to = if from_b { of_b } else { of_a };
        at_a += usize::from(!from_b);
        at_b += usize::from(from_b);
    }
}

/// One pass of the published program over a pair.
#[inline(never)] // compiled once: the same instructions in every world
fn combine(to: &mut [f32], other: &[f32]) {
    to.iter_mut().zip(other).for_each(|(to, other)| *to += SCALE * other);
}

impl Reduction {
    /// The input of Fig. 9: 700 kB, depth 6. Its elements are floats, as long as the paper's integers.
    pub fn fig9() -> Reduction {
        Reduction { bytes: 700 << 10, depth: 6, ..Reduction::default() }
    }

    fn len(&self) -> usize {
        self.bytes / size_of::<f32>()
    }

    /// The place of a run merged from `runs` runs of the first level.
    fn run(&self, number: usize, runs: usize) -> Range<usize> {
        let border = |run: usize| (self.len() * run) >> self.depth;
        border(number * runs)..border((number + 1) * runs)
    }

    fn filled<'w, W: KernelWorld>(&self, world: &'w W) -> Array<'w, f32> {
        let len = self.len();
        // The first half holds the runs. The other half is written by the first merges.
        let halves = world.array(2 * len, &self.distribution);
        for number in 0..1 << self.depth {
            let run = self.run(number, 1);
            world.work(Leaf { name: "fill", flops: run.len() as u64 }, &[halves.writes(run.clone())], || {
                #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                // SAFETY: no task runs yet.
                let elements = unsafe { halves.part_mut(run) };
                elements.iter_mut().enumerate().for_each(|(at, to)| *to = element(number, at));
            });
        }
        halves
    }

    /// Merges the pairs of one level from one half into the other.
    fn merge_pairs<W: KernelWorld>(&self, world: &W, halves: Array<'_, f32>, level: u32) {
        let (from, to) = if level.is_multiple_of(2) { (0, self.len()) } else { (self.len(), 0) };
        let part = |run: Range<usize>, half: usize| run.start + half..run.end + half;
        let runs = 1 << level;
        let tasks = (0..1usize << (self.depth - level - 1)).map(|pair| {
            let (a, b) = (part(self.run(2 * pair, runs), from), part(self.run(2 * pair + 1, runs), from));
            let merged = part(self.run(pair, 2 * runs), to);
            let accesses = [halves.reads(a.clone()), halves.reads(b.clone()), halves.writes(merged.clone())];
            let body = move || {
                world.work(Leaf { name: "merge", flops: merged.len() as u64 }, &accesses, || {
                    #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                    // SAFETY: within a level no task writes the half it reads, and each merges into a place of its own.
                    let (a, b, merged) = unsafe { (halves.part(a), halves.part(b), halves.part_mut(merged)) };
                    merge(a, b, merged);
                })
            };
            (Task::new(accesses), body)
        });
        world.tasks(TaskOrder::Free, tasks);
    }

    /// Combines all runs into the first one, in place. Runs are equally long here: a rest is left out.
    fn combine_all<'w, W: KernelWorld>(
        &self,
        world: &'w W,
        start: impl FnOnce(),
        end: impl FnOnce(),
    ) -> Array<'w, f32> {
        let run = self.len() >> self.depth;
        // Small enough that no element overflows.
        let all = filled(world, run << self.depth, &self.distribution, |at| (at % 8) as f32 / 8.0);
        start();
        for level in 0..self.depth {
            let len = run << level;
            tasks_made_by_all(world, 1 << (self.depth - level - 1), &|pair| {
                let (to, other) = (2 * pair * len..(2 * pair + 1) * len, (2 * pair + 1) * len..(2 * pair + 2) * len);
                let accesses = [all.changes(to.clone()), all.reads(other.clone())];
                let body = move || {
                    for _ in 0..PASSES {
                        world.work(Leaf { name: "combine", flops: 2 * len as u64 }, &accesses, || {
                            #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                            // SAFETY: within a level each run belongs to one task.
                            let (to, other) = unsafe { (all.part_mut(to.clone()), all.part(other.clone())) };
                            combine(to, other);
                        });
                    }
                };
                (Task::new(accesses), body)
            });
        }
        end();
        all
    }

    /// Sorts; the sorted elements are in one half of the allocation.
    fn sort<'w, W: KernelWorld>(&self, world: &'w W, start: impl FnOnce(), end: impl FnOnce()) -> Array<'w, f32> {
        let halves = self.filled(world);
        start();
        (0..self.depth).for_each(|level| self.merge_pairs(world, halves, level));
        end();
        halves.slice(if self.depth.is_multiple_of(2) { 0..self.len() } else { self.len()..2 * self.len() })
    }
}

impl Kernel for Reduction {
    fn name(&self) -> &'static str {
        "reduction"
    }

    fn distribution(&mut self) -> Option<&mut Distribution> {
        Some(&mut self.distribution)
    }

    fn scale(&mut self, times: f64) {
        let run = self.bytes >> self.depth;
        self.depth = (f64::from(self.depth) + times.log2()).round().clamp(1.0, 40.0) as u32;
        self.bytes = run << self.depth;
    }

    fn run<W: KernelWorld>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
        let sorted = if self.published { self.combine_all(world, start, end) } else { self.sort(world, start, end) };
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        unsafe {
            checksum(world, &[sorted])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    #[test]
    fn the_published_program_combines_pairs_ten_times() {
        let reduction = Reduction { bytes: 4 * 4 * 3, depth: 2, published: true, ..Reduction::default() };
        let world = Serial::default();
        let all = reduction.combine_all(&world, || (), || ());
        let mut runs: Vec<Vec<f32>> =
            (0..4).map(|run| (0..3).map(|at| ((3 * run + at) % 8) as f32 / 8.0).collect()).collect();
        // The first and second, the third and fourth; then the first and second together with the others.
        let mut add = |to: usize, from: usize| {
            let from = runs[from].clone();
            for (to, from) in runs[to].iter_mut().zip(from) {
                (0..10).for_each(|_| *to += 42.0 * from);
            }
        };
        [(0, 1), (2, 3), (0, 2), (1, 3)].into_iter().for_each(|(to, from)| add(to, from));
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        let all = unsafe { all.part(0..12) };
        assert_eq!(all, runs.concat());
    }

    #[test]
    fn the_runs_become_one() {
        for (bytes, depth) in [(4096, 4), (4 * 1001, 5), (4, 0), (40, 4)] {
            let reduction = Reduction { bytes, depth, ..Reduction::default() };
            let world = Serial::default();
            let sorted = reduction.sort(&world, || (), || ());
            let runs = (0..1 << depth).flat_map(|run| (0..reduction.run(run, 1).len()).map(move |at| element(run, at)));
            let mut expected: Vec<f32> = runs.collect();
            assert!(depth < 4 || !expected.is_sorted());
            expected.sort_by(f32::total_cmp);
            #[expect(unsafe_code, reason = "arrays are shared by tasks")]
            // SAFETY: all tasks are over.
            let sorted = unsafe { sorted.part(0..sorted.len()) };
            assert_eq!(sorted, expected, "{bytes} bytes, depth {depth}");
        }
    }
}
