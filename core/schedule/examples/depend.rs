//! Times the ordering of tasks by their data: a stencil's blocks, repeated in each step, and a matrix's rows.
//!
//! `cargo run --release -p vicus-schedule --example depend`. Measured on an idle machine, or not at all.
#![allow(clippy::disallowed_methods, reason = "an example is its own world: it may look at the clock")]

use std::time::Instant;
use vicus_schedule::{Access, Dependences, Mode};

/// Nanoseconds for each of the stretches of a program: for each task its accesses, several times over.
fn ns_per_stretch(tasks: &[Vec<Access>], steps: usize) -> f64 {
    let (mut dependences, mut earlier) = (Dependences::new(), Vec::new());
    let stretches: usize = tasks.iter().flatten().map(|access| access.rows).sum();
    let (mut task, mut edges) = (0, 0);
    let start = Instant::now();
    for _ in 0..steps {
        for accesses in tasks {
            earlier.clear();
            dependences.add(task, accesses, &mut earlier);
            edges += earlier.len();
            // As many tasks are under way as one step has.
            if let Some(over) = task.checked_sub(tasks.len()) {
                dependences.retire(over);
            }
            task += 1;
        }
    }
    let ns = start.elapsed().as_nanos() as f64 / (stretches * steps) as f64;
    assert!(edges > 0, "steps depend on each other");
    ns
}

fn main() {
    let block = |grid: usize, at: usize, mode| Access::new((grid << 40) + 4096 * at, 4096, mode);
    for width in [16, 256, 4096, 65536] {
        // Two grids in turn, as one step of two: each block is made from three of the other grid.
        let task = |(from, to): (usize, usize), at: usize| {
            let near = at.saturating_sub(1)..(at + 2).min(width);
            near.map(|at| block(from, at, Mode::Read)).chain([block(to, at, Mode::Write)]).collect::<Vec<_>>()
        };
        let steps = [(1, 2), (2, 1)].map(|grids| (0..width).map(|at| task(grids, at)).collect::<Vec<_>>()).concat();
        println!("stencil of {width} blocks: {:.0} ns an access", ns_per_stretch(&steps, 4_000_000 / (8 * width)));
    }
    let rows = |at: usize| Access::new(0x1000 + 2048 * at, 2048, Mode::ReadWrite).rows(512, 2048 * 32);
    let tasks: Vec<_> = (0..32).map(|at| vec![rows(at)]).collect();
    println!("512 rows of 32 blocks: {:.0} ns a row", ns_per_stretch(&tasks, 100));
}
