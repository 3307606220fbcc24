//! Tasks that are closures: two at once ([`join`]), many ([`scope`]), and the same on every thread.
//!
//! A task's header lies where the task lies: in the stack frame of a `join`, or in a block of the heap. It goes through the
//! same queues as a box, as the plan says. Who waits runs other tasks meanwhile.

mod alive;
mod child;
mod collect;
mod data;
mod job;
mod join;
mod latch;
mod loops;
mod place;
mod priority;
mod request;
mod run;
mod scope;
pub(crate) mod seatless;
mod slab;
mod visitors;
mod waits;

pub(crate) use child::wait_for_descendants;
pub use child::{cancel_group, close_group, open_group, spawn_child, wait_for_children};
pub use collect::{collect, map_reduce};
pub use data::{Append, Data, Part, Shared, TaskBuilder, Views};
pub use join::join;
pub use loops::{for_each, for_each_mut};
pub(crate) use place::GroupQueues;
pub(crate) use request::Requests;
pub use request::{Cancelled, TaskRequest, is_cancelled};
pub(crate) use run::Done;
pub(crate) use scope::drop_quietly;
pub use scope::{Scope, in_place_scope, scope};
pub(crate) use slab::{Blocks, Slab};
pub(crate) use waits::Waits;

use crate::heaps;
use crate::worker::{Worker, in_task, outside};
use std::any::Any;
use vicus_schedule::{RunTask, TaskClass, TaskHeader, TaskRef};

/// What a seat waits for.
pub(crate) trait Awaited {
    /// Whether it is there.
    fn is_done(&self) -> bool;

    /// The seat is about to sleep: whoever makes it true is to call [`crate::runtime::Shared::ask`] from now on. Says whether
    /// it has a reason to sleep.
    fn falls_asleep(&self) -> bool;
}

/// The class of closures that are run with this function. Each of them has a task that waits for it, so it is never dropped unrun.
const fn closure_class(run: RunTask) -> TaskClass {
    TaskClass { run, runs_inline: true, is_unwanted: None }
}

/// What a closure returned that no context counts, after all that it has spawned is over; or what one of these panicked with.
#[inline]
fn with_descendants<R>(result: std::thread::Result<R>) -> std::thread::Result<R> {
    match wait_for_descendants() {
        None => result,
        Some(panic) => instead(result, panic),
    }
}

/// The first panic counts. What it replaces is dropped outside of the task, which waits for no children any more.
#[cold]
fn instead<R>(result: std::thread::Result<R>, panic: Box<dyn Any + Send>) -> std::thread::Result<R> {
    match result {
        Ok(returned) => {
            outside(|| drop_quietly(returned));
            Err(panic)
        }
        Err(first) => {
            outside(|| drop_quietly(panic));
            Err(first)
        }
    }
}

/// A closure's task has ended.
#[inline]
fn ends(task: &TaskHeader) {
    in_task(|worker| worker.recorder.task_ends(task));
    heaps::finish_task();
}

impl Worker {
    /// For a closure that is a part of the task that runs, which waits for it: it is cancelled with that, and counted with it.
    #[inline]
    fn header(&self, class: &'static TaskClass, number: u32) -> TaskHeader {
        TaskHeader { class, context: self.frame.parent, request: self.frame.request, number }
    }

    /// A closure's task begins.
    #[inline]
    fn begins(&mut self, task: TaskRef) {
        self.frame.request = task.header().request;
        if self.recorder.is_on() {
            self.record_begins(task);
        }
    }

    #[cold]
    fn record_begins(&mut self, task: TaskRef) {
        let way = self.frame.way;
        let is_far = way.queue().is_some_and(|queue| self.is_far(queue));
        self.recorder.task_taken(task, way, is_far);
        self.recorder.task_begins(task);
    }
}
