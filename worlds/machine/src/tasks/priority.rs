//! Tasks with a priority: of those of a scope that are ready, the one of the largest priority is taken first.
//!
//! Queues know no priorities. What is queued for such a task is a *ticket*, another task of its context; a seat that runs a ticket takes
//! the best task that is ready then, and runs that. There are as many tickets as ready tasks, so each ticket finds one; and a task
//! without a priority is queued itself, and costs nothing more.

use super::job::Job;
use crate::worker::{AtOnce, Worker, run_on_top};
use vicus_schedule::{Context, ContextRef, Kind, QueueId, Queued, Way};

/// The right to run one task of a context. Whatever becomes of the ticket, a task is run: one that is not wanted any more ends as well.
struct Ticket {
    context: ContextRef,
    /// Tasks that are for a place are taken by tickets for that place.
    queue: Option<QueueId>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "follows a pointer")]
        // SAFETY: the context counts the ticket's own task, which is not over yet.
        let task = unsafe { self.context.get() }.and_then(|context| context.take_ready(self.queue));
        run_on_top(task.expect("there are as many tickets as ready tasks"), Way::KEPT);
    }
}

impl Worker {
    /// Puts a task down as ready, and queues a ticket.
    #[inline(never)]
    pub(super) fn queue_ticket(&mut self, queued: Queued, priority: i32) -> AtOnce {
        let Queued { task, kind, queue, .. } = queued;
        let context = task.header().context;
        self.record_queued(task, kind, kind == Kind::Immediate && queue.is_none());
        let ticket = Ticket { context, queue };
        #[expect(unsafe_code, reason = "follows a pointer, and makes a task that borrows")]
        // SAFETY: the context counts the task, which was not run; from here on it counts the ticket as well, whose closure uses nothing
        // else.
        let task = unsafe {
            let context: &Context = context.get().expect("a task of a scope has a context");
            context.put_ready(queue, priority, task);
            Job::task(self, context, move |_| drop(ticket))
        };
        self.queue(Queued { task, kind, queue, priority: None })
    }
}
