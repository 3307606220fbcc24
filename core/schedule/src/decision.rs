//! The decisions of a seat, recorded in their order: so two worlds can be compared.

use crate::{PoolId, QueueId, RequestId, Way};
use std::fmt;

/// One decision of a seat, as the world carried it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The seat puts a task into a queue; the queue may refuse it.
    Puts(TaskName, QueueId),
    /// The seat keeps a spawned task, and will run it itself.
    Keeps(TaskName),
    /// A box activated by the seat is its next task.
    Next(TaskName),
    /// The seat runs a task found in this way.
    Runs(TaskName, Way),
    /// The seat wakes a seat of a pool for a queued task.
    Wakes(PoolId),
    /// The seat was woken for a task in this queue, and leaves the task to another seat.
    PassesOn(QueueId),
    /// The seat announces itself, and sleeps if its last look finds nothing.
    Sleeps,
}

/// The identity of a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskName {
    /// Its request.
    pub request: RequestId,
    /// A closure's number, or a box's place in its model.
    pub number: u32,
    /// Whether it is a box or a task.
    pub is_box: bool,
}

impl fmt::Debug for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_box { "box" } else { "task" };
        write!(f, "request {} {kind} {}", self.request.number(), self.number)
    }
}
