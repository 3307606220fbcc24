//! A pipeline of boxes on few threads.

use super::{Claim, Figure, Input, Setup};
use crate::{ArraySpec, Cost, Program, Step, TaskSpec, Work};
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Kind, Mode};

/// §6.3: the first box makes a stream, the last one consumes it, and those between compute.
const BOXES: usize = 12;
const ENVELOPES: usize = 256;
const ROWS: usize = 4096;

/// The time of one thread (Table 3), divided by the envelopes and the boxes that compute.
const NANOS: f64 = 13_416e6 / (ENVELOPES * (BOXES - 2)) as f64;

/// The threads of Table 3 that the machine has, with the paper's speed-up.
const THREADS: [(usize, f64); 4] = [(1, 1.0), (2, 1.99), (4, 3.62), (8, 3.99)];

/// Where an envelope's rows begin; each row is a number of eight bytes.
const BASE: usize = 1 << 21;
const BYTES: usize = ROWS * 8;

/// The task of a box for an envelope. Task 0 is the first task.
fn task(at: usize, envelope: usize) -> usize {
    1 + envelope * BOXES + at
}

/// A box works on an envelope after it has finished the one before, and after the box before has sent it.
fn pipeline(envelopes: usize) -> Program {
    let array = ArraySpec { base: BASE, bytes: envelopes * BYTES, distribution: Distribution::Standard };
    let number = |at, envelope| task(at, envelope) as u32;
    let invocation = |envelope: usize, at: usize| {
        let before = (at > 0).then(|| number(at - 1, envelope));
        let earlier = (envelope > 0).then(|| number(at, envelope - 1));
        let mode = if at == 0 { Mode::Write } else { Mode::ReadWrite };
        let accesses = vec![Access::new(BASE + envelope * BYTES, BYTES, mode)];
        let computes = (1..BOXES - 1).contains(&at);
        let (leaf, nanos) = if computes { (1, NANOS) } else { (0, 0.0) };
        TaskSpec {
            // §3.4: a box that has received data is a relaxed task. Vias, which are immediate tasks, take no time.
            kind: Kind::Deferred,
            released: Kind::Deferred,
            after: before.into_iter().chain(earlier).collect(),
            accesses: accesses.clone(),
            steps: vec![Step::Work(Work { leaf, cost: Cost::Nanos(nanos), accesses })],
            ..TaskSpec::default()
        }
    };
    let all = 1..(1 + BOXES * envelopes) as u32;
    let steps = vec![Step::Start, Step::Open, Step::Spawn(all), Step::Wait, Step::End];
    let first = TaskSpec { pinned: Some(0), steps, ..TaskSpec::default() };
    let rest = (0..envelopes).flat_map(|envelope| (0..BOXES).map(move |at| (envelope, at)));
    let rest = rest.map(|(envelope, at)| invocation(envelope, at));
    Program {
        name: "pipeline".to_owned(),
        arrays: vec![array],
        heap: 0..0,
        leaves: vec!["pass on".to_owned(), "compute".to_owned()],
        tasks: [first].into_iter().chain(rest).collect(),
    }
}

fn label(threads: usize) -> String {
    format!("{threads} threads")
}

pub(super) fn figure() -> Figure {
    let setup = |(threads, _): (usize, f64)| Setup {
        group: "pipeline",
        label: label(threads),
        machine: "core-i7-860",
        input: Input::Program(pipeline, ENVELOPES),
        strategy: "bobox".to_owned(),
        threads,
        interleave: false,
        reduced: 1.0,
    };
    let claim = |(threads, speedup): (usize, f64)| {
        Claim::new(
            format!("{threads} threads: speed-up {speedup}"),
            "the speed-up; within 10 %",
            0.9 * speedup..=1.1 * speedup,
            move |results| results.ratio("pipeline", &label(1), &label(threads)),
        )
    };
    Figure {
        id: "003-table3",
        title: "A pipeline of 12 boxes and 256 envelopes on a Core i7-860",
        source: "Bednárek, Dokulil, Yaghob, technical report 2011/1, Table 3 and §6.3",
        notes: &["A box's time for an envelope is what one thread takes in the table; 16 and 32 threads are left out."],
        baseline: "1 threads",
        samples: 1,
        setups: THREADS.into_iter().map(setup).collect(),
        claims: THREADS[1..].iter().copied().map(claim).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pipeline_has_the_work_of_the_table() {
        let program = pipeline(ENVELOPES);
        assert_eq!(program.check(), Ok(()));
        let works = program.tasks.iter().flat_map(|task| &task.steps).filter_map(|step| match step {
            Step::Work(Work { cost: Cost::Nanos(nanos), .. }) => Some(nanos),
            _ => None,
        });
        assert!((works.clone().sum::<f64>() / 1e6 - 13_416.0).abs() < 1e-3);
        assert_eq!(works.count(), 12 * 256);
    }
}
