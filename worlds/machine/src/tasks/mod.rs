//! Tasks that are closures: two at once ([`join`]), many ([`scope`]), and the same on every thread.
//!
//! A task's header is at the beginning of the task: in the stack frame of a `join`, or in a block of the heap. The task
//! goes through the same queues as a box, by the same plan. A waiting seat runs other tasks meanwhile.

mod alive;
mod child;
mod collect;
mod data;
mod included;
mod job;
mod join;
mod loops;
mod place;
mod priority;
mod request;
mod run;
mod said;
mod scope;
mod visitors;

pub use child::{
    ChildBuilder, cancel_group, child, close_group, open_group, run_child, spawn_child, wait_for_children,
};
pub use collect::{collect, map_reduce};
pub use data::{Append, Data, Part, SharedSlice, TaskBuilder, Views};
pub use included::{Held, Included, begin_child, end_child, has_queued, wait_for_earlier, yield_to_descendants};
pub use join::{join, join_or};
pub use loops::{for_each, for_each_mut, for_each_piece};
pub use request::{Cancelled, TaskRequest, is_cancelled};
pub use scope::{Scope, in_place_scope, scope};

use crate::memory::heaps;
use crate::runtime::recorder::ASIDE;
use crate::runtime::worker::context::wait_for_descendants;
use crate::runtime::worker::drop_quietly;
use crate::runtime::worker::{Worker, in_task, outside};
use std::any::Any;
use vicus_schedule::{RunTask, TaskClass, TaskHeader, TaskRef};

/// The class of closures with this run function. A task waits for each of them, so it is never dropped unrun.
const fn closure_class(run: RunTask) -> TaskClass {
    TaskClass { run, runs_inline: true, is_unwanted: None }
}

/// The result of a closure counted in no context, after all its descendants are over; or their first panic.
#[inline]
pub fn with_descendants<R>(result: std::thread::Result<R>) -> std::thread::Result<R> {
    match wait_for_descendants() {
        None => result,
        Some(panic) => instead(result, panic),
    }
}

/// The first panic counts. The replaced result is dropped outside of the task, which waits for no children any more.
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
fn end_task(task: &TaskHeader) {
    in_task(|worker| worker.recorder.task_ends(task));
    heaps::finish_task();
}

impl Worker {
    /// For a closure that is a part of the running task, which waits for it: it is cancelled and counted with this
    /// task.
    #[inline]
    fn header(&self, class: &'static TaskClass, number: u32) -> TaskHeader {
        TaskHeader { class, context: self.frame.parent, request: self.frame.request, number, has_data: false }
    }

    /// A closure's task begins.
    #[inline]
    pub fn begin_task(&mut self, task: TaskRef) {
        self.frame.request = task.header().request;
        if self.recorder.is_on() && task.header().number != ASIDE {
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
