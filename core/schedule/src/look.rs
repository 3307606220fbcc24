//! How a seat looks for work: the plan's probes, interpreted. Shared by all worlds.

use crate::{Probe, QueueId, Scan, Take, When};

/// The queues of a world, as one seat reaches them.
pub trait Queues {
    /// What they hold.
    type Task;

    /// Takes from a queue if it holds more than `longer_than` tasks; the surplus of a take of several goes to
    /// `rest_to`. `None` if the queue does not serve, or another seat was quicker.
    fn take(&mut self, queue: QueueId, take: Take, longer_than: u32, rest_to: Option<QueueId>) -> Option<Self::Task>;
}

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<T> {
    /// The task to run.
    pub task: T,
    /// The rule that found it, as the probe counts it.
    pub rule: u8,
    /// Where it was.
    pub queue: QueueId,
}

/// Tries the probes in order and takes from the first queue that serves. `cursors` are the seat's, one for each ring.
/// Cost: one call for each queue up to the one that serves; no allocation.
pub fn look<Q: Queues>(probes: &[Probe], cursors: &mut [usize], queues: &mut Q) -> Option<Found<Q::Task>> {
    for probe in probes {
        let (list, start) = match &probe.scan {
            Scan::List(list) => (list, 0),
            Scan::Ring(list, cursor) => (list, cursors[*cursor]),
        };
        for step in 0..list.len() {
            // No division: rings are scanned often by idle workers.
            let at = if start + step < list.len() { start + step } else { start + step - list.len() };
            let longer_than = match &probe.when {
                When::NotEmpty => 0,
                When::LongerThan(limits) => limits[at],
            };
            if let Some(task) = queues.take(list[at], probe.take, longer_than, probe.rest_to) {
                if let Scan::Ring(_, cursor) = probe.scan {
                    cursors[cursor] = at;
                }
                return Some(Found { task, rule: probe.rule, queue: list[at] });
            }
        }
    }
    None
}
