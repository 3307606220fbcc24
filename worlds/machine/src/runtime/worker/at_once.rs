//! A task that found no room in its queue.

use vicus_schedule::{TaskRef, Way};

/// A task for a seat to run at once, on top of its spawner: a queue had no room.
#[must_use = "the task is in no queue any more"]
pub struct AtOnce(pub(super) Option<(TaskRef, Way)>);

impl AtOnce {
    /// No task.
    pub const NONE: AtOnce = AtOnce(None);

    /// Asserts the absence of a task: a box is never run on top of another one.
    pub(crate) fn assert_none(self) {
        debug_assert!(self.0.is_none(), "boxes are not run inline");
    }
}
