//! The thread of the calling code.

use crate::threads::core::{Core, RuntimeEnded};
use crate::threads::fibres::{self, of_worker};
use std::ptr::NonNull;
use vicus_machine::layer::{OneRound, in_task, wait};

/// The thread on the caller's fibre.
pub(crate) fn core_here() -> Option<NonNull<Core>> {
    fibres::beneath()?.thread()
}

/// Unwinds the calling thread, if it is told to end.
pub(crate) fn unwind_if_told() {
    if in_task(|worker| of_worker(worker).threads.is_ending()) {
        std::panic::resume_unwind(Box::new(RuntimeEnded));
    }
}

/// On a seat, on its thread's own stack: runs one other task, if there is one.
pub(crate) fn help_once() {
    wait(None, &OneRound::default());
}
