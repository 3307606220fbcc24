//! How much runs of tasks differ from each other.

use super::wittmann_fig3::{MACHINES, WAYS, setup};
use super::{Claim, Figure, Setup, largest};
use vicus_kernels::{AnyKernel, FirstTouch, Jacobi3d, Kernel, Submission, Submitters};

/// A fifth of the layers, once.
fn smaller(mut setup: Setup) -> Setup {
    if let super::Input::Kernel(AnyKernel::Jacobi3d(kernel)) = &mut setup.input {
        *kernel = Jacobi3d { sweeps: 1, ..kernel.clone() };
        kernel.scale(0.2);
    }
    Setup { reduced: 0.25, ..setup }
}

pub(super) fn figure() -> Figure {
    let mut setups = Vec::new();
    let mut claims = Vec::new();
    for bench in MACHINES {
        for (way, touch, order) in WAYS {
            let tasks = Submission::Tasks(order, Submitters::One);
            let setup = smaller(setup(bench, FirstTouch::Loop(touch), tasks));
            setups.push(setup.under("central", format!("tasks {way}")));
        }
        let machine = bench.machine;
        let little = Claim::new(
            format!("{machine}: runs of plain tasking differ little"),
            "the largest distance of the 5 and 95 % quantiles, to the median",
            0.0..=0.1,
            move |results| {
                largest(WAYS.map(|(way, ..)| {
                    let point = results.point(machine, &format!("tasks {way}"));
                    (point.quantile(0.95) - point.quantile(0.05)) / point.wall_ns()
                }))
            },
        );
        claims
            .push(little.by_construction("how much equal pieces of work differ is the free parameter jitter, of 2 %"));
    }
    Figure {
        id: "wittmann-fig4",
        title: "Spread over 40 runs: a six-point Jacobi solver on all cores",
        source: "Wittmann and Hager, 2010, Fig. 4 (left) and §2.1",
        notes: &[
            "A fifth of the paper's layers, one sweep, and 40 runs in place of 100. A sample is a seed: when threads \
                begin, and which of several is quicker.",
            "The right side, TBB's loops, is left out: the paper's text says nothing of it.",
        ],
        baseline: "tasks s-1 kji",
        samples: 40,
        setups,
        claims,
    }
}
