//! A pipeline of boxes on few threads.
//!
//! The network is that of `vicus bench flow`. It is rehearsed, and re-enacted: the flow protocol decides on immediate
//! and deferred boxes and on the envelopes they find.

use super::{Claim, Figure, Input, Setup};
use crate::{Reenactment, Rehearsal, ReplayOptions};
use std::sync::LazyLock;
use vicus_kernels::Pipeline;

/// The milliseconds of one thread (Table 3).
const ONE_THREAD_MS: f64 = 13_416.0;

/// The threads of Table 3, with the paper's speed-up.
const THREADS: [(usize, f64); 6] = [(1, 1.0), (2, 1.99), (4, 3.62), (8, 3.99), (16, 1.43), (32, 0.78)];

/// The whole time of one thread is spent in the computing boxes, and the same for each envelope.
fn rehearse() -> Rehearsal {
    let pipeline = Pipeline::default();
    let compute_ns = ONE_THREAD_MS * 1e6 / (pipeline.boxes * pipeline.envelopes) as f64;
    // An invocation that takes the end of the stream, or nothing, computes nothing.
    let row_ns = compute_ns / pipeline.rows as f64;
    let takes_ns = |each: &vicus_flow::ConnectedBox, rows: u64| {
        if each.type_name() == Pipeline::COMPUTE { (row_ns * rows as f64).round() as u64 } else { 0 }
    };
    // The values don't matter, so they are computed in one round.
    Rehearsal::of(&pipeline.computing(1), |_| 0, takes_ns).expect("the pipeline ends")
}

static PIPELINE: LazyLock<Reenactment> = LazyLock::new(|| {
    Reenactment::of(&rehearse().trace, &ReplayOptions::default()).expect("a rehearsal can be re-enacted")
});

/// The report's scheduler, and the pipeline's default one.
const STRATEGIES: [&str; 2] = ["bobox:stolen=immediate", "las"];

fn label(threads: usize) -> String {
    format!("{threads} threads")
}

pub(super) fn figure() -> Figure {
    let setup = |strategy: &'static str, threads| {
        Setup::of(strategy, ("core-i7-860", threads), Input::Network(&PIPELINE)).under(strategy, label(threads))
    };
    let claim = |strategy: &'static str, (threads, speedup): (usize, f64)| {
        let name = strategy.split(':').next().unwrap_or(strategy);
        let claim = Claim::new(
            format!("{name}, {threads} threads: speed-up {speedup}"),
            "the speed-up; within 10 %",
            0.9 * speedup..=1.1 * speedup,
            move |results| results.ratio(strategy, &label(1), &label(threads)),
        );
        claim.missing(if threads <= 8 {
            "two threads on a core do 1.2 times the work of one here, an estimate; in the table, whose runs differ by \
                18 %, it is 1.1"
        } else {
            "seats share eight PUs, and each stays on its own; the model has no system that preempts a thread for \
                which others wait"
        })
    };
    Figure {
        id: "bobox-table3",
        title: "A pipeline of 12 boxes and 256 envelopes on a Core i7-860",
        source: "Bednárek, Dokulil, Yaghob, technical report 2011/1, Table 3 and §6.3",
        notes: &[
            "The pipeline of vicus bench flow, re-enacted. A box's time for an envelope is what one thread takes in \
                the table.",
            "Under bobox a box that has received rows is a relaxed task, as in the report; under las an immediate one, \
                unless it goes on itself.",
        ],
        baseline: "1 threads",
        samples: 5,
        setups: STRATEGIES
            .into_iter()
            .flat_map(|strategy| THREADS.map(|(threads, _)| setup(strategy, threads)))
            .collect(),
        claims: STRATEGIES
            .into_iter()
            .flat_map(|strategy| THREADS[1..].iter().map(move |&published| claim(strategy, published)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pipeline_has_the_work_of_the_table() {
        let rehearsal = rehearse();
        assert!((rehearsal.work_ns as f64 / 1e6 - ONE_THREAD_MS).abs() < 0.01, "{} ns", rehearsal.work_ns);
        // The initialization, a source, ten boxes and a sink; the termination takes nothing but the end.
        let rows: Vec<u64> = rehearsal.counts.iter().map(vicus_flow::BoxCounts::rows_taken).collect();
        assert_eq!(rows, [&[0; 2][..], &[256 * 4096; 11], &[0]].concat());
    }
}
