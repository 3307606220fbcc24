//! Sort: a merge sort with its merges cut into tasks as well, and a quicksort for short parts.
//!
//! Duran, Teruel, Ferrer, Martorell, Ayguade, "Barcelona OpenMP Tasks Suite", ICPP 2009, after Cilk's program: an array
//! is sorted by quarters, and the quarters are merged in pairs.
//!
//! We differ in the cut of a merge: it is in the middle of the result, not of an input, so cuts don't depend on the
//! data. A task finds the beginning of its part of the result in the inputs by a search (Odeh, Green, Mwassi, Shmueli,
//! Birk, "Merge Path", IPDPSW 2012). This place is known beforehand but for a few elements, because the input's
//! elements are spread evenly: they are multiples of the golden ratio without their whole parts, as in Fibonacci
//! hashing (Knuth, "The Art of Computer Programming", vol. 3, §6.4). So a task can declare its reads.

use crate::arrays::{checksum, filled, scaled};
use crate::{Array, Kernel, KernelWorld, Leaf, Task, TaskOrder};
use std::ops::Range;
use vicus_memory::distribution::Distribution;

/// Sorts an array of integers. By default 32 million, by tasks of 8192.
#[derive(Clone, Debug)]
pub struct Sort {
    /// How many integers there are.
    pub len: usize,
    /// Up to how many are sorted, or merged, by a task alone; at least 4.
    pub alone: usize,
    /// The distribution of the array and of a second one of the same size; Table 3 of Muddukrishna et al. advises
    /// `fine`.
    pub distribution: Distribution,
}

impl Default for Sort {
    fn default() -> Sort {
        Sort { len: 32 << 20, alone: 8192, distribution: Distribution::Fine }
    }
}

/// An element of the input: the first bits of the fraction of a multiple of the golden ratio.
fn element(at: usize) -> i32 {
    let fraction = (at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((fraction >> 32) as u32).cast_signed()
}

/// The limit of the difference between the place of an element of two merged runs and its place if both ran alike. The
/// difference grows with the logarithm of the runs' length (Kuipers, Niederreiter, "Uniform Distribution of Sequences",
/// §2.3), and is below this for all that fit into memory. A task checks it.
const SPREAD: usize = 32;

/// How many of the first `at` elements of two merged runs may come from the first run: between these two, both
/// included.
fn least_and_most(at: usize, a: usize, b: usize) -> (usize, usize) {
    let share = (at as u128 * a as u128 / (a + b).max(1) as u128) as usize;
    let least = at.saturating_sub(b).max(share.saturating_sub(SPREAD));
    (least, at.min(a).min(share + SPREAD))
}

/// A merge of two sorted runs.
#[derive(Clone, Copy)]
struct Merge<'w> {
    a: Array<'w, i32>,
    b: Array<'w, i32>,
    to: Array<'w, i32>,
}

impl Merge<'_> {
    /// The parts of the two runs read for a part of the result.
    fn read(self, part: &Range<usize>) -> [Range<usize>; 2] {
        let [(least, _), (_, most)] = [part.start, part.end].map(|at| least_and_most(at, self.a.len(), self.b.len()));
        let [(_, most_before), (least_after, _)] =
            [part.start, part.end].map(|at| least_and_most(at, self.a.len(), self.b.len()));
        [least..most, part.start - most_before..part.end - least_after]
    }
}

/// A sorted run, of which a part is known.
#[derive(Clone, Copy)]
struct KnownRun<'r> {
    known: &'r [i32],
    /// The place in the run where the known part begins.
    start: usize,
    /// The run's length.
    len: usize,
}

impl KnownRun<'_> {
    fn at(self, place: usize) -> i32 {
        self.known[place - self.start]
    }
}

/// The source of the `at`th element of two merged runs: how many of the earlier ones are of the first run.
fn cut(at: usize, a: KnownRun<'_>, b: KnownRun<'_>) -> usize {
    let (least, most) = least_and_most(at, a.len, b.len);
    let (mut low, mut high) = (least, most);
    while low < high {
        let middle = low.midpoint(high);
        if a.at(middle) <= b.at(at - 1 - middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let at_limit = low == least && low > at.saturating_sub(b.len) || low == most && low < at.min(a.len);
    assert!(!at_limit, "elements of runs of {} and {} are spread evenly", a.len, b.len);
    low
}

/// Merges two sorted slices.
#[inline(never)] // compiled once: the same instructions in every world
fn merge(a: &[i32], b: &[i32], to: &mut [i32]) {
    let (mut at_a, mut at_b) = (0, 0);
    for to in to {
        // No branch on the data: it would be mispredicted half the time.
        let (of_a, of_b) = (a.get(at_a), b.get(at_b));
        let (of_a, of_b) = (of_a.copied().unwrap_or(i32::MAX), of_b.copied().unwrap_or(i32::MAX));
        let from_b = of_b < of_a;
        *to = if from_b { of_b } else { of_a };
        at_a += usize::from(!from_b);
        at_b += usize::from(from_b);
    }
}

/// Up to how many elements are sorted by insertion.
const FEW: usize = 20;

/// Sorts, and returns the number of comparisons.
#[inline(never)] // compiled once: the same instructions in every world
fn quicksort(mut values: &mut [i32]) -> u64 {
    let mut comparisons = 0;
    while values.len() > FEW {
        let last = values.len() - 1;
        let [a, b, c] = [values[0], values[last / 2], values[last]];
        let pivot = a.min(b).max(a.max(b).min(c));
        // Hoare's partition. One of the other two is not below the pivot, and one not above: both sides get an element.
        let (mut low, mut high) = (0, last);
        loop {
            while values[low] < pivot {
                low += 1;
                comparisons += 1;
            }
            while values[high] > pivot {
                high -= 1;
                comparisons += 1;
            }
            comparisons += 2;
            if low >= high {
                break;
            }
            values.swap(low, high);
            (low, high) = (low + 1, high - 1);
        }
        let (below, above) = values.split_at_mut(high + 1);
        // The shorter side first, so the recursion is not deep.
        let (shorter, longer) = if below.len() < above.len() { (below, above) } else { (above, below) };
        comparisons += quicksort(shorter);
        values = longer;
    }
    for end in 1..values.len() {
        let value = values[end];
        let mut at = end;
        while at > 0 && values[at - 1] > value {
            values[at] = values[at - 1];
            at -= 1;
            comparisons += 1;
        }
        values[at] = value;
        comparisons += 1;
    }
    comparisons
}

/// About how many comparisons [`quicksort`] makes: `12/7 n ln(n)` with a median of three, less those of the parts left
/// to insertion sort (Sedgewick, "Implementing Quicksort Programs", Communications of the ACM 1978); and a quarter of
/// the square for few elements, or about four for each element of short parts, counted here.
fn operations(len: usize) -> u64 {
    let n = len as f64;
    (if len > FEW { 12.0 / 7.0 * n * libm::log(n / FEW as f64) + 4.3 * n } else { n * n / 4.0 + n }) as u64
}

impl Sort {
    /// Writes a part of a merge's result.
    fn merge<W: KernelWorld>(&self, world: &W, runs: Merge<'_>, part: Range<usize>) {
        let accesses = |part: &Range<usize>| {
            let [a, b] = runs.read(part);
            [runs.a.reads(a), runs.b.reads(b), runs.to.writes(part.clone())]
        };
        if part.len() <= self.alone.max(4) {
            let leaf = Leaf { name: "merge part", flops: part.len() as u64 };
            world.work(leaf, &accesses(&part), || {
                let [of_a, of_b] = runs.read(&part);
                #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                // SAFETY: each part of the result belongs to one task, and none writes the runs.
                let (a, b, to) =
                    unsafe { (runs.a.part(of_a.clone()), runs.b.part(of_b.clone()), runs.to.part_mut(part.clone())) };
                let from = [part.start, part.end].map(|at| {
                    let a = KnownRun { known: a, start: of_a.start, len: runs.a.len() };
                    let b = KnownRun { known: b, start: of_b.start, len: runs.b.len() };
                    let of_a = cut(at, a, b);
                    [of_a, at - of_a]
                });
                let [[a_start, b_start], [a_end, b_end]] = from;
                let a = &a[a_start - of_a.start..a_end - of_a.start];
                merge(a, &b[b_start - of_b.start..b_end - of_b.start], to);
            });
            return;
        }
        let middle = part.start.midpoint(part.end);
        let halves = [part.start..middle, middle..part.end].map(|half| {
            let task = Task::new(accesses(&half));
            (task, move || self.merge(world, runs, half))
        });
        world.tasks(TaskOrder::Free, halves.into_iter());
    }

    /// Sorts values in place, with as much memory beside them.
    fn sort<W: KernelWorld>(&self, world: &W, values: Array<'_, i32>, other: Array<'_, i32>) {
        let len = values.len();
        if len <= self.alone.max(4) {
            world.work(Leaf { name: "quicksort", flops: operations(len) }, &[values.changes(0..len)], || {
                #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                // SAFETY: each part belongs to one task.
                let values = unsafe { values.part_mut(0..len) };
                quicksort(values);
            });
            return;
        }
        let quarter = |at: usize| if at == 4 { len } else { len / 4 * at };
        let quarters = (0..4).map(|at| {
            let range = quarter(at)..quarter(at + 1);
            let (quarter, beside) = (values.slice(range.clone()), other.slice(range.clone()));
            let mut accesses = vec![values.changes(range.clone())];
            if quarter.len() > self.alone.max(4) {
                accesses.push(other.writes(range));
            }
            let task = Task::new(accesses);
            (task, move || self.sort(world, quarter, beside))
        });
        world.tasks(TaskOrder::Free, quarters);
        let run = |at: usize| quarter(at)..quarter(at + 1);
        let pairs = [0, 2].map(|at| {
            let whole = quarter(at)..quarter(at + 2);
            let task = Task::new([values.reads(whole.clone()), other.writes(whole.clone())]);
            let runs = Merge { a: values.slice(run(at)), b: values.slice(run(at + 1)), to: other.slice(whole) };
            (task, move || self.merge(world, runs, 0..runs.to.len()))
        });
        world.tasks(TaskOrder::Free, pairs.into_iter());
        let [a, b] = [0..quarter(2), quarter(2)..len].map(|half| other.slice(half));
        self.merge(world, Merge { a, b, to: values }, 0..len);
    }

    /// The input, sorted.
    fn sorted<'w, W: KernelWorld>(&self, world: &'w W, start: impl FnOnce(), end: impl FnOnce()) -> Array<'w, i32> {
        let values = filled(world, self.len, &self.distribution, element);
        let other = world.array(self.len, &self.distribution);
        start();
        self.sort(world, values, other);
        end();
        values
    }
}

impl Kernel for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }

    fn distribution(&mut self) -> Option<&mut Distribution> {
        Some(&mut self.distribution)
    }

    fn scale(&mut self, times: f64) {
        self.len = scaled(self.len, times);
    }

    fn run<W: KernelWorld>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
        let sorted = self.sorted(world, start, end);
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
    fn the_elements_are_sorted() {
        let long = if cfg!(miri) { 3000 } else { 300_000 };
        for (len, alone) in
            [(0, 4), (1, 4), (5, 4), (11, 4), (100, 4), (1000, 7), (1024, 64), (4096, 4096), (long, 100)]
        {
            let sort = Sort { len, alone, ..Sort::default() };
            let world = Serial::default();
            let sorted = sort.sorted(&world, || (), || ());
            let mut expected: Vec<i32> = (0..len).map(element).collect();
            assert!(len < 5 || !expected.is_sorted());
            expected.sort_unstable();
            #[expect(unsafe_code, reason = "arrays are shared by tasks")]
            // SAFETY: all tasks are over.
            let sorted = unsafe { sorted.part(0..len) };
            assert_eq!(sorted, expected, "{sort:?}");
        }
    }

    #[test]
    fn quicksort_sorts_what_is_sorted_or_equal_too() {
        let shapes: [fn(i32) -> i32; 5] = [|at| at, |at| -at, |_| 7, |at| at % 3, |at| (at - 500).abs()];
        for shape in shapes {
            let mut values: Vec<i32> = (0..1000).map(shape).collect();
            let mut expected = values.clone();
            expected.sort_unstable();
            quicksort(&mut values);
            assert_eq!(values, expected);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "sorts for minutes")]
    fn comparisons_are_about_as_many_as_the_leaf_says() {
        for len in [20, 100, 512, 4096, 8192, 30_000] {
            let mut values: Vec<i32> = (0..len).map(element).collect();
            let counted = quicksort(&mut values);
            let share = operations(len) as f64 / counted as f64;
            assert!((0.8..1.25).contains(&share), "{len}: {} of {counted}", operations(len));
        }
    }

    /// The cuts of long runs, found in plain vectors.
    #[test]
    #[cfg_attr(miri, ignore = "sorts millions")]
    fn long_runs_are_cut_near_where_equal_ones_would_be() {
        for len in [1 << 17, 1 << 21, 3_000_000] {
            let run = |start: usize| {
                let mut run: Vec<i32> = (start..start + len).map(element).collect();
                run.sort_unstable();
                run
            };
            let (a, b) = (run(5 * len), run(6 * len));
            let (mut at_a, mut farthest) = (0, 0);
            for at in 0..2 * len {
                farthest = farthest.max((at / 2).abs_diff(at_a));
                if at - at_a == len || at_a < len && a[at_a] <= b[at - at_a] {
                    at_a += 1;
                }
            }
            assert!(farthest < SPREAD / 2, "{farthest} for {len}");
        }
    }
}
