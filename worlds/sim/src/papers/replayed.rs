//! A figure's recorded input, and results that only a replay has.

use crate::{Cost, Replay, ReplayError, ReplayOptions, SimOutcome, Step};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use vicus_schedule::Plan;
use vicus_trace::Trace;

/// A recording that a figure needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Recording {
    /// The query of SP2Bench, such as `q5a`.
    pub query: &'static str,
    /// The number of threads for which it is planned: those of the simulated machine.
    pub threads: usize,
    /// The number of parts of the triples; the query runs on one of them.
    pub part: u64,
}

/// A short name, for a file.
impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.query, self.threads)
    }
}

/// A recorded query, run as several requests at once.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The recording.
    pub recording: Recording,
    /// How many requests of it run at once.
    pub copies: usize,
    taken: Option<ReplayOnMachine>,
}

#[derive(Clone, Debug)]
struct ReplayOnMachine {
    replay: Arc<Replay>,
    /// The machine on which it was recorded.
    machine: String,
}

impl Replayed {
    pub(super) fn new(recording: Recording, copies: usize) -> Replayed {
        Replayed { recording, copies, taken: None }
    }

    /// Uses the last request of a trace: earlier ones load data, or warm up.
    pub(super) fn take(&mut self, trace: &Trace) -> Result<(), ReplayError> {
        let header = trace.header();
        let last = header.models.iter().flat_map(|model| &model.requests).max();
        let requests: Vec<u32> = last.copied().into_iter().collect();
        let options = ReplayOptions { requests, copies: self.copies, ..ReplayOptions::default() };
        let replay = Arc::new(Replay::of(trace, &options)?);
        self.taken = Some(ReplayOnMachine { replay, machine: header.machine.clone() });
        Ok(())
    }

    /// The program and the data about its tasks. Panics before [`Figure::replay`](super::Figure::replay).
    pub fn replay(&self) -> &Replay {
        let taken = self.taken.as_ref();
        &taken.expect("a figure gets its recordings before it is evaluated").replay
    }

    /// See [`Sample::kept_nodes`](super::Sample::kept_nodes).
    pub(super) fn kept_nodes(&self, plan: &Plan, outcome: &SimOutcome) -> f64 {
        let ran = self.replay().boxes.iter().zip(&outcome.tasks).filter_map(|(&of_box, task)| {
            let node = plan.seats[task.seat as usize].node.index();
            of_box.map(|of_box| (of_box, node, task.end_ns - task.start_ns))
        });
        kept_nodes(ran)
    }
}

/// Computes it from a time for each box and node.
fn kept_nodes(ran: impl Iterator<Item = (u32, usize, f64)>) -> f64 {
    let mut both: BTreeMap<(u32, usize), f64> = BTreeMap::new();
    let (mut boxes, mut nodes, mut all) = (BTreeMap::new(), BTreeMap::new(), 0.0);
    for (of_box, node, time) in ran {
        *both.entry((of_box, node)).or_default() += time;
        *boxes.entry(of_box).or_insert(0.0) += time;
        *nodes.entry(node).or_insert(0.0) += time;
        all += time;
    }
    let told = both.iter().filter(|(_, time)| **time > 0.0).map(|((of_box, node), time)| {
        let by_chance = boxes[of_box] * nodes[node] / all;
        time / all * (time / by_chance).ln()
    });
    told.sum::<f64>().exp()
}

/// Describes the replay in a line.
impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Replayed { recording, copies, .. } = self;
        let Some(ReplayOnMachine { replay, machine }) = &self.taken else { return write!(f, "replay of {recording}") };
        let works = replay.program.tasks.iter().flat_map(|task| &task.steps).filter_map(|step| match step {
            Step::Work(work) => Some(&work.cost),
            _ => None,
        });
        let replayed_ns: f64 = works.map(|cost| if let Cost::Nanos(ns) = cost { *ns } else { 0.0 }).sum();
        write!(
            f,
            "replay of {recording} ({} tasks, {copies} at once) recorded on {machine}: {:.3} ms recorded, {:.3} ms \
                replayed and {:.3} ms \
             taken off as time for memory",
            replay.program.tasks.len() - 1,
            replay.recorded_ns / 1e6,
            replayed_ns / 1e6,
            replay.taken_off_ns / 1e6
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_kept_to_if_boxes_tell_of_them() {
        let kept = |ran: &[(u32, usize, f64)]| kept_nodes(ran.iter().copied());
        let each_its_own = [(0, 0, 5.0), (1, 1, 2.0), (1, 1, 3.0), (2, 2, 5.0), (3, 3, 5.0)];
        assert!((kept(&each_its_own) - 4.0).abs() < 1e-9);
        assert!((kept(&[(0, 2, 5.0), (1, 2, 1.0)]) - 1.0).abs() < 1e-9, "all on one");
        assert!((kept(&[(0, 0, 5.0), (0, 1, 5.0), (1, 0, 1.0), (1, 1, 1.0)]) - 1.0).abs() < 1e-9, "all on both alike");
    }
}
