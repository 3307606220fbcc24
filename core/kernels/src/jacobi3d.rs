//! Jacobi in three dimensions: six neighbours, block by block, from one grid into another.
//!
//! Wittmann and Hager, "Optimizing ccNUMA locality for task-parallel execution under OpenMP and TBB on multicore-based
//! systems", 2010, §1.4 and §2: their solver, with its ways to touch memory first, to submit tasks, and to store.
//! Blocks span the whole fast dimension, so each is contiguous within a layer. We differ: the update of a row also
//! writes its two border elements, so the written memory is contiguous.

use crate::arrays::{checksum, scaled};
use crate::{Array, Kernel, KernelWorld, Leaf, Schedule, Task, TaskOrder};
use std::ops::Range;
use vicus_memory::distribution::Distribution;
use vicus_schedule::Access;

/// Six neighbours' sum times a sixth. By default with the paper's input: 600² x 2400 doubles, by 600 x 10 x 10.
#[derive(Clone, Debug)]
pub struct Jacobi3d {
    /// How many sites a grid has, with its border: in the slow, the middle and the fast dimension.
    pub sites: [usize; 3],
    /// How many sites a block has in the slow and in the middle dimension; the last ones may have fewer.
    pub block: [usize; 2],
    /// How often each site is computed.
    pub sweeps: usize,
    /// The distribution of the two grids. With `standard`, the first touch places each page.
    pub distribution: Distribution,
    /// The threads that touch the blocks first.
    pub touch: FirstTouch,
    /// How a sweep's blocks get to the threads.
    pub submission: Submission,
    /// Whether results are written past the caches, by non-temporal stores.
    pub streaming: bool,
}

/// The threads that touch the blocks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstTouch {
    /// The calling thread.
    Serial,
    /// A loop over the blocks, in the order `ijk`.
    Loop(Schedule),
    /// The threads with the parts of the range of blocks, halved as in [`Submission::Halves`].
    Halves,
}

/// How a sweep's blocks get to the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// By iterations of a loop, in the order `ijk`: without tasks.
    Loop(Schedule),
    /// By tasks.
    Tasks(BlockOrder, Submitters),
    /// The range of blocks is halved in the dimension with more of them, down to one block, and threads without work
    /// take the second halves: TBB's `parallel_for` over a range of several dimensions (§3.1).
    Halves,
}

/// The order of submission of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOrder {
    /// Layer by layer, as they lie in memory.
    Ijk,
    /// The slow dimension goes fastest.
    Kji,
}

/// The threads that submit tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitters {
    /// The calling thread.
    One,
    /// Each thread submits the tasks a loop with this schedule would give it.
    All(Schedule),
}

impl Default for Jacobi3d {
    fn default() -> Jacobi3d {
        Jacobi3d {
            sites: [2400, 600, 600],
            block: [10, 10],
            sweeps: 4,
            distribution: Distribution::Standard,
            touch: FirstTouch::Loop(Schedule::Static),
            submission: Submission::Tasks(BlockOrder::Ijk, Submitters::One),
            streaming: false,
        }
    }
}

/// A block: its layers and its rows in each.
type Block = [Range<usize>; 2];

/// Calls `f` with each pair of numbers in these ranges, neither of them empty.
fn halve<W: KernelWorld>(world: &W, ranges: [Range<usize>; 2], f: &(impl Fn(usize, usize) + Sync)) {
    let [slow, middle] = &ranges;
    let longer = usize::from(middle.len() > slow.len());
    if ranges[longer].len() == 1 {
        return f(slow.start, middle.start);
    }
    let mut halves = [ranges.clone(), ranges];
    let end = halves[0][longer].start + halves[0][longer].len() / 2;
    halves[0][longer].end = end;
    halves[1][longer].start = end;
    let [first, second] = halves;
    world.join(|| halve(world, first, f), || halve(world, second, f));
}

/// The initial value of a site. Border sites keep it.
fn site(i: usize, j: usize, k: usize) -> f64 {
    ((i * 31 + j * 17 + k * 5 + i * j) % 64) as f64
}

impl Jacobi3d {
    /// The number of blocks in the slow and in the middle dimension.
    fn blocks(&self) -> [usize; 2] {
        [0, 1].map(|dimension| self.sites[dimension].div_ceil(self.block[dimension]))
    }

    /// A block by its number in the order `ijk`, with the border.
    fn block(&self, number: usize) -> Block {
        let [_, middle] = self.blocks();
        let part = |number: usize, dimension: usize| {
            let start = number * self.block[dimension];
            start..(start + self.block[dimension]).min(self.sites[dimension])
        };
        [part(number / middle, 0), part(number % middle, 1)]
    }

    /// A block without the border; `None` if it has only border.
    fn inner(&self, number: usize) -> Option<Block> {
        let block = self.block(number);
        let inner = [0, 1].map(|at| block[at].start.max(1)..block[at].end.min(self.sites[at].saturating_sub(1)));
        inner.iter().all(|part| !part.is_empty()).then_some(inner)
    }

    /// The place of a row's sites.
    fn row(&self, i: usize, j: usize) -> Range<usize> {
        let [_, rows, len] = self.sites;
        let start = (i * rows + j) * len;
        start..start + len
    }

    /// Rows of the same layer.
    fn rows(&self, i: usize, j: &Range<usize>) -> Range<usize> {
        self.row(i, j.start).start..self.row(i, j.end - 1).end
    }

    /// Extends an access to rows of one layer to the same rows of several layers.
    fn layers(&self, access: Access, layers: usize, apart: usize) -> Access {
        let [_, rows, len] = self.sites;
        access.rows(layers, apart * rows * len * size_of::<f64>())
    }

    /// The reads and writes of updating a block.
    fn accesses(&self, from: Array<'_, f64>, to: Array<'_, f64>, [i, j]: &Block) -> [Access; 3] {
        let with_neighbours = j.start - 1..j.end + 1;
        let written = self.layers(to.writes(self.rows(i.start, j)), i.len(), 1);
        [
            self.layers(from.reads(self.rows(i.start, &with_neighbours)), i.len(), 1),
            self.layers(from.reads(self.rows(i.start - 1, j)), 2, i.len() + 1),
            if self.streaming { written.streaming() } else { written },
        ]
    }

    fn touch<W: KernelWorld>(&self, world: &W, grids: [Array<'_, f64>; 2]) {
        let [slow, middle] = self.blocks();
        let touch = |number: usize| {
            let [i, j] = self.block(number);
            let written = grids.map(|grid| self.layers(grid.writes(self.rows(i.start, &j)), i.len(), 1));
            let sites = i.len() * j.len() * self.sites[2];
            world.work(Leaf { name: "touch", flops: 2 * sites as u64 }, &written, || {
                for (i, j) in i.flat_map(|i| j.clone().map(move |j| (i, j))) {
                    #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                    // SAFETY: each block is touched by one iteration.
                    let rows = unsafe { grids.map(|grid| grid.part_mut(self.row(i, j))) };
                    rows.into_iter().for_each(|row| row.iter_mut().enumerate().for_each(|(k, to)| *to = site(i, j, k)));
                }
            });
        };
        match self.touch {
            FirstTouch::Serial => (0..slow * middle).for_each(touch),
            FirstTouch::Loop(schedule) => world.each(slow * middle, schedule, touch),
            FirstTouch::Halves => halve(world, [0..slow, 0..middle], &|i, j| touch(i * middle + j)),
        }
    }

    /// Computes the sites of a block.
    fn relax<W: KernelWorld>(&self, world: &W, from: Array<'_, f64>, to: Array<'_, f64>, block: Block) {
        let accesses = self.accesses(from, to, &block);
        let [i, j] = block;
        let sites = i.len() * j.len() * self.sites[2].saturating_sub(2);
        let name = if self.streaming { "relax 3d streaming" } else { "relax 3d" };
        world.work(Leaf { name, flops: 6 * sites as u64 }, &accesses, || {
            for (i, j) in i.flat_map(|i| j.clone().map(move |j| (i, j))) {
                let near = [(i, j), (i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)];
                #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                // SAFETY: within a sweep no task writes one grid, and each block of the other grid belongs to one task.
                let (to, near) = unsafe { (to.part_mut(self.row(i, j)), near.map(|(i, j)| from.part(self.row(i, j)))) };
                if self.streaming { relax_streaming(to, near) } else { relax(to, near, 0) }
            }
            if self.streaming {
                fence_streams();
            }
        });
    }

    fn sweep<W: KernelWorld>(&self, world: &W, from: Array<'_, f64>, to: Array<'_, f64>) {
        let [slow, middle] = self.blocks();
        let blocks = slow * middle;
        let (order, submitters) = match self.submission {
            Submission::Loop(schedule) => {
                return world.each(blocks, schedule, |number| {
                    self.inner(number).into_iter().for_each(|block| self.relax(world, from, to, block));
                });
            }
            Submission::Tasks(order, submitters) => (order, submitters),
            Submission::Halves => {
                return halve(world, [0..slow, 0..middle], &|i, j| {
                    self.inner(i * middle + j).into_iter().for_each(|block| self.relax(world, from, to, block));
                });
            }
        };
        let nth = |nth: usize| match order {
            BlockOrder::Ijk => nth,
            BlockOrder::Kji => nth % slow * middle + nth / slow,
        };
        let submit = |part: &mut dyn Iterator<Item = usize>| {
            let tasks = part
                .filter_map(|at| self.inner(nth(at)))
                .map(|block| (Task::new(self.accesses(from, to, &block)), move || self.relax(world, from, to, block)));
            world.tasks(TaskOrder::Free, tasks);
        };
        let threads = world.threads();
        match submitters {
            Submitters::One => submit(&mut (0..blocks)),
            Submitters::All(schedule) => world.each(threads, Schedule::Chunks(1), |thread| {
                submit(&mut schedule.of_thread(thread, threads, blocks));
            }),
        }
    }

    /// The grid after the last sweep.
    fn solve<'w, W: KernelWorld>(&self, world: &'w W, start: impl FnOnce(), end: impl FnOnce()) -> Array<'w, f64> {
        let grids = [(); 2].map(|()| world.array(self.sites.iter().product(), &self.distribution));
        self.touch(world, grids);
        start();
        (0..self.sweeps).for_each(|sweep| self.sweep(world, grids[sweep % 2], grids[(sweep + 1) % 2]));
        end();
        grids[self.sweeps % 2]
    }
}

/// Computes a row, or its part from `first` on. `near` has the row itself and its four neighbours.
#[inline(never)] // compiled once: the same instructions in every world
fn relax(to: &mut [f64], near: [&[f64]; 5], first: usize) {
    let (len, end) = (near[0].len(), first + to.len());
    let inner = first.max(1)..end.min(len.saturating_sub(1)).max(first.max(1));
    for border in [0, len.saturating_sub(1)] {
        if (first..end).contains(&border) {
            to[border - first] = near[0][border];
        }
    }
    if inner.is_empty() {
        return;
    }
    let n = inner.len();
    let [left, right] = [&near[0][inner.start - 1..][..n], &near[0][inner.start + 1..][..n]];
    let [before, behind, above, below] = [1, 2, 3, 4].map(|row: usize| &near[row][inner.clone()][..n]);
    let to = &mut to[inner.start - first..][..n];
    for k in 0..n {
        to[k] = (before[k] + behind[k] + above[k] + below[k] + left[k] + right[k]) * (1.0 / 6.0);
    }
}

/// Like `relax`, with non-temporal stores.
fn relax_streaming(to: &mut [f64], near: [&[f64]; 5]) {
    let mut part = [0.0; 128];
    for first in (0..to.len()).step_by(part.len()) {
        let to = &mut to[first..];
        let n = to.len().min(part.len());
        relax(&mut part[..n], near, first);
        stream(&mut to[..n], &part[..n]);
    }
}

/// Copies with non-temporal stores.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn stream(to: &mut [f64], from: &[f64]) {
    #[expect(unsafe_code, reason = "non-temporal stores are intrinsics")]
    // SAFETY: a vector is two doubles, and any bits are valid for both; `align_to_mut` aligns.
    let (head, pairs, tail) = unsafe { to.align_to_mut::<std::arch::x86_64::__m128d>() };
    let (from_head, from) = from.split_at(head.len());
    head.copy_from_slice(from_head);
    let (from, from_tail) = from.split_at(2 * pairs.len());
    for (to, from) in pairs.iter_mut().zip(from.chunks_exact(2)) {
        #[expect(unsafe_code, reason = "non-temporal stores are intrinsics")]
        // SAFETY: `to` is aligned and two doubles long. `fence_streams` orders the store before the task's end becomes
        // visible.
        unsafe {
            std::arch::x86_64::_mm_stream_pd(
                std::ptr::from_mut(to).cast(),
                std::arch::x86_64::_mm_loadu_pd(from.as_ptr()),
            );
        }
    }
    tail.copy_from_slice(from_tail);
}

/// Copies; no non-temporal stores are known for this processor.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn stream(to: &mut [f64], from: &[f64]) {
    to.copy_from_slice(from);
}

/// Orders the streamed stores before this thread's later ones: a thread that sees the later ones sees the streamed
/// data.
fn fence_streams() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[expect(unsafe_code, reason = "the fence of non-temporal stores is an intrinsic")]
    // SAFETY: every x86-64 has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

impl Kernel for Jacobi3d {
    fn name(&self) -> &'static str {
        "jacobi3d"
    }

    fn distribution(&mut self) -> Option<&mut Distribution> {
        Some(&mut self.distribution)
    }

    fn scale(&mut self, times: f64) {
        self.sites[0] = self.block[0] * scaled(self.blocks()[0], times);
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

    /// The grid after `sweeps` sweeps, without blocks, one site after the other.
    fn directly([slow, middle, fast]: [usize; 3], sweeps: usize) -> Vec<f64> {
        let at = |i: usize, j: usize, k: usize| (i * middle + j) * fast + k;
        let mut grid = vec![0.0; slow * middle * fast];
        for (i, j, k) in (0..slow).flat_map(|i| (0..middle).flat_map(move |j| (0..fast).map(move |k| (i, j, k)))) {
            grid[at(i, j, k)] = site(i, j, k);
        }
        for _ in 0..sweeps {
            let old = grid.clone();
            for (i, j, k) in
                (1..slow - 1).flat_map(|i| (1..middle - 1).flat_map(move |j| (1..fast - 1).map(move |k| (i, j, k))))
            {
                let of_layers = old[at(i - 1, j, k)] + old[at(i + 1, j, k)];
                let of_rows = of_layers + old[at(i, j - 1, k)] + old[at(i, j + 1, k)];
                grid[at(i, j, k)] = (of_rows + old[at(i, j, k - 1)] + old[at(i, j, k + 1)]) * (1.0 / 6.0);
            }
        }
        grid
    }

    #[test]
    fn no_way_to_submit_or_store_makes_a_difference() {
        use {BlockOrder::*, FirstTouch::Serial as OneThread, Schedule::*, Submitters::*};
        let ways = [
            (FirstTouch::Loop(Static), Submission::Tasks(Ijk, One)),
            (FirstTouch::Loop(Chunks(1)), Submission::Tasks(Kji, One)),
            (OneThread, Submission::Tasks(Kji, All(Schedule::Static))),
            (OneThread, Submission::Tasks(Kji, All(Schedule::Chunks(1)))),
            (OneThread, Submission::Loop(Chunks(2))),
            (FirstTouch::Halves, Submission::Halves),
        ];
        for (sites, block) in [([7, 8, 9], [3, 2]), ([6, 6, 300], [2, 6]), ([5, 4, 3], [1, 1]), ([4, 4, 129], [9, 9])] {
            let expected = directly(sites, 3);
            for ((touch, submission), streaming) in ways.into_iter().flat_map(|way| [(way, false), (way, true)]) {
                let jacobi = Jacobi3d { sites, block, sweeps: 3, touch, submission, streaming, ..Jacobi3d::default() };
                let world = Serial::default();
                let got = jacobi.solve(&world, || (), || ());
                #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                // SAFETY: all tasks are over.
                let got = unsafe { got.part(0..got.len()) };
                assert_eq!(got, expected, "{jacobi:?}");
            }
        }
    }

    #[test]
    fn the_paper_has_60_tasks_in_a_layer_and_240_layers() {
        let jacobi = Jacobi3d::default();
        assert_eq!(jacobi.blocks(), [240, 60]);
        assert_eq!((0..14400).filter_map(|number| jacobi.inner(number)).count(), 14400);
        let sites: usize = (0..14400).filter_map(|number| jacobi.inner(number)).map(|[i, j]| i.len() * j.len()).sum();
        assert_eq!(sites, 2398 * 598);
    }
}
