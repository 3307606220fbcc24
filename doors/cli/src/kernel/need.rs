//! Estimates the memory and time of an input from its numbers, before threads are started or memory is allocated.

use anyhow::ensure;
use vicus_kernels::{AnyKernel, Kernel, Tree};

/// How a kernel will be run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// On threads, with arrays.
    Threads,
    /// On a simulated machine, with a program of tasks.
    Simulation,
}

/// An estimate.
#[derive(Clone, Copy, Debug)]
struct Need {
    /// The bytes of all its arrays.
    bytes: f64,
    /// The number of its pieces of work, within a factor of four.
    pieces: f64,
}

/// The bytes of a recorded piece of work, with its task and the simulation's part of it: 350 were measured with fib and
/// 670 with uts, for each piece estimated here.
const PIECE_BYTES: f64 = 700.0;

/// The greatest number of pieces of work given to threads: some hours of the smallest ones.
const MOST_PIECES: f64 = 1e12;

impl Need {
    fn of(kernel: &AnyKernel) -> Need {
        let number = |number: usize| number as f64;
        let passes = |published: bool| if published { 10.0 } else { 1.0 };
        match kernel {
            AnyKernel::Map(map) => Need {
                bytes: number(map.vectors) * number(map.bytes),
                pieces: passes(map.published) * number(map.vectors),
            },
            AnyKernel::Reduction(of) => {
                let pieces = passes(of.published) * 2f64.powf(f64::from(of.depth) + 1.0);
                Need { bytes: 2.0 * number(of.bytes), pieces }
            }
            AnyKernel::Vecmul(of) => {
                Need { bytes: 2.0 * number(of.pairs) * number(of.bytes), pieces: 3.0 * number(of.pairs) }
            }
            AnyKernel::Matmul(of) => {
                let elements = (number(of.blocks) * number(of.block)).powi(2);
                Need { bytes: 3.0 * 4.0 * elements, pieces: number(of.blocks).powi(3) }
            }
            AnyKernel::Jacobi2d(of) => {
                let blocks = (number(of.size) / number(of.block)).ceil().powi(2);
                Need { bytes: 2.0 * 4.0 * number(of.size).powi(2), pieces: number(of.sweeps) * blocks }
            }
            AnyKernel::Jacobi3d(of) => {
                let sites: f64 = of.sites.iter().copied().map(number).product();
                let blocks: f64 = (0..2).map(|at| (number(of.sites[at]) / number(of.block[at])).ceil()).product();
                Need { bytes: 2.0 * 8.0 * sites, pieces: number(of.sweeps + 1) * blocks }
            }
            AnyKernel::SparseLu(of) => {
                let elements = (number(of.blocks) * number(of.block)).powi(2);
                Need { bytes: 4.0 * elements, pieces: number(of.blocks).powi(3) / 6.0 }
            }
            // One addition for each join, and one more leaf than joins: Binet's formula.
            AnyKernel::Fib(fib) => {
                let golden = f64::midpoint(1.0, 5f64.sqrt());
                Need { bytes: 0.0, pieces: 2.0 * golden.powf(f64::from(fib.n) + 1.0) / 5f64.sqrt() }
            }
            // Ten queens have 35,538 placements, and each further queen about five times as many.
            AnyKernel::Nqueens(queens) => Need { bytes: 0.0, pieces: 35_538.0 * 5f64.powf(f64::from(queens.n) - 10.0) },
            AnyKernel::Uts(uts) => match uts.tree {
                Tree::Geometric { mean, depth } => {
                    Need { bytes: 0.0, pieces: 2.0 * mean.powf(f64::from(depth) + 1.0) / (mean - 1.0).max(0.1) }
                }
                Tree::Binomial { root, children, likely } => {
                    let left = (1.0 - f64::from(children) * likely).max(1e-3);
                    Need { bytes: 0.0, pieces: 1.0 + f64::from(root) / left }
                }
            },
            AnyKernel::Alignment(of) => {
                let pairs = number(of.proteins).powi(2) / 2.0;
                let residues = number(of.proteins) * number(of.least.midpoint(of.most));
                Need { bytes: residues + 4.0 * pairs, pieces: number(of.proteins) + pairs }
            }
            // Each part of a transform is moved, transformed or completed once, and then again as a part of the next
            // larger one.
            AnyKernel::Fft(of) => {
                let parts = number(of.len) / number(of.alone);
                Need { bytes: 2.0 * 16.0 * number(of.len), pieces: parts * (1.0 + 2.0 * (parts.log2() / 4.0).ceil()) }
            }
            AnyKernel::Health(of) => {
                // A village has half as much personnel as the one above it, two persons at the lowest level; and a
                // person four words.
                let villages = |level: u32| match of.levels.saturating_sub(1).checked_sub(level) {
                    Some(0) | None => 1.0,
                    Some(below) => number(of.regions) * number(of.cities).powi(below as i32 - 1),
                };
                let levels = 0..of.levels.max(1);
                let persons = |level: u32| 1.25 * 2f64.powf(f64::from(level) + 1.0) * number(of.inhabitants);
                let bytes = levels.clone().map(|level| villages(level) * (16.0 * persons(level) + 256.0)).sum();
                let all: f64 = levels.map(villages).sum();
                Need { bytes, pieces: 2.0 * all * (f64::from(of.days) + 1.0) }
            }
            // Each level of runs is merged by as many tasks as sort the shortest ones.
            AnyKernel::Sort(of) => {
                let parts = (number(of.len) / number(of.alone)).max(1.0);
                Need { bytes: 2.0 * 4.0 * number(of.len), pieces: parts * (1.0 + parts.log2().ceil()) }
            }
            AnyKernel::Strassen(of) => {
                let elements = (number(of.block) * 2f64.powf(f64::from(of.levels))).powi(2);
                // Eleven quadrants in each divided product; at each level there are 7/4 times as many of them.
                let temporary = 11.0 / 4.0 * (1.75f64.powf(f64::from(of.levels)) - 1.0) / 0.75;
                let products = 7f64.powf(f64::from(of.levels));
                Need { bytes: 4.0 * elements * (3.0 + temporary), pieces: 4.0 / 3.0 * products }
            }
        }
    }
}

/// Checks for enough memory, and time, for a kernel with this input.
pub(super) fn check(kernel: &AnyKernel, by: By, free_bytes: u64) -> anyhow::Result<()> {
    let (Need { bytes, pieces }, name, free) = (Need::of(kernel), kernel.name(), free_bytes as f64);
    let (bytes, what) = match by {
        By::Threads => (bytes, "its arrays".to_owned()),
        By::Simulation => (pieces * PIECE_BYTES, format!("its program of about {} pieces of work", shown(pieces))),
    };
    ensure!(
        bytes <= free,
        "{name}: {what} would need about {} GB, and {} GB of memory are free; a smaller --size needs less",
        shown(bytes / 1e9),
        shown(free / 1e9)
    );
    ensure!(
        pieces <= MOST_PIECES,
        "{name}: about {} pieces of work would take days; a smaller --size has fewer",
        shown(pieces)
    );
    Ok(())
}

fn shown(number: f64) -> String {
    if number < 1e6 { format!("{number:.1}") } else { format!("{number:.1e}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_kernels::{NAMES, Size, by_name};
    use vicus_sim::{Recorder, Step};

    #[test]
    fn estimates_are_near_what_is_recorded() {
        for name in NAMES {
            for times in [0.001, 0.004] {
                let kernel = by_name(name, Size::Times(times)).unwrap();
                let program = Recorder::record(&kernel, 2);
                let bytes: usize = program.arrays.iter().map(|array| array.bytes).sum();
                let steps = program.tasks.iter().flat_map(|task| &task.steps);
                let pieces = steps.filter(|step| matches!(step, Step::Work(_))).count() as f64;
                let need = Need::of(&kernel);
                let is_near = |estimate: f64, real: f64| (real / 4.0 - 10.0..=4.0 * real + 10.0).contains(&estimate);
                assert!(is_near(need.pieces, pieces), "{name}, {times}: {need:?}, and {pieces} pieces");
                // Less, because blocks of a sparse matrix are missing.
                assert!(is_near(need.bytes, bytes as f64), "{name}, {times}: {need:?}, and {bytes} bytes");
            }
        }
    }

    #[test]
    fn inputs_of_any_size_are_taken_or_refused_and_told_why() {
        for name in NAMES {
            for (by, times) in [By::Threads, By::Simulation].into_iter().zip([1e30, 1e300]) {
                let kernel = by_name(name, Size::Times(times)).unwrap();
                let error = check(&kernel, by, 1 << 33).unwrap_err().to_string();
                assert!(error.starts_with(name) && error.contains("--size"), "{error}");
            }
            check(&by_name(name, Size::Times(0.001)).unwrap(), By::Simulation, 1 << 33).unwrap();
        }
        // 48 vectors of 1 MiB.
        let map = by_name("map", Size::Numa).unwrap();
        check(&map, By::Threads, 48 << 20).unwrap();
        let error = check(&map, By::Threads, (48 << 20) - 1).unwrap_err().to_string();
        assert!(error.contains("map: its arrays would need about 0.1 GB, and 0.1 GB of memory are free"), "{error}");
    }
}
