//! The begin and the end of a task that is a closure.

use super::context::wait_for_descendants;
use super::{Worker, in_task, outside};
use crate::memory::heaps;
use crate::runtime::recorder::ASIDE;
use std::any::Any;
use vicus_flow::drop_quietly;
use vicus_schedule::{RunTask, TaskClass, TaskHeader, TaskRef};

/// The class of closures with this run function. A task waits for each of them, so it is never dropped unrun.
pub(crate) const fn closure_class(run: RunTask) -> TaskClass {
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
pub(crate) fn end_task(task: &TaskHeader) {
    in_task(|worker| worker.recorder.task_ends(task));
    heaps::finish_task();
}

impl Worker {
    /// For a closure that is a part of the running task, which waits for it: it is cancelled and counted with this
    /// task.
    #[inline]
    pub(crate) fn header(&self, class: &'static TaskClass, number: u32) -> TaskHeader {
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
