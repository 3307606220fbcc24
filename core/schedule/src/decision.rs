//! The decisions of a seat, recorded in their order: so that two worlds can be compared.

use crate::{PoolId, QueueId, RequestId, Way};
use std::fmt;

/// One decision of a seat, as the world carried it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It puts a task into a queue, which may refuse it.
    Puts(TaskName, QueueId),
    /// It keeps a task that it has spawned, and will run it itself.
    Keeps(TaskName),
    /// A box that it has activated is its next task.
    Next(TaskName),
    /// It runs a task that it came by in this way.
    Runs(TaskName, Way),
    /// It wakes a seat of a pool for a task that it has put.
    Wakes(PoolId),
    /// It was woken for a task in this queue, and leaves that to another seat.
    PassesOn(QueueId),
    /// It announces itself, and sleeps if its last look finds nothing.
    Sleeps,
}

/// Which task it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskName {
    /// Its request.
    pub request: RequestId,
    /// A closure's number, or a box's place in its model.
    pub number: u32,
    /// Which of the two.
    pub is_box: bool,
}

impl fmt::Debug for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_box { "box" } else { "task" };
        write!(f, "request {} {kind} {}", self.request.0, self.number)
    }
}
