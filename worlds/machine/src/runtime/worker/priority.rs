//! Tasks with a priority: of the ready ones of a context, the one of the largest priority is taken first.
//!
//! Queues know no priorities. For such a task a *ticket* is queued, another task of its context; a seat that runs a
//! ticket takes the best ready task of the moment, and runs it. There are as many tickets as ready tasks, so each
//! ticket finds one; and a task without a priority is queued itself, at no extra cost.

use super::job::{Job, OfSeat};
use super::{AtOnce, Worker, run_on_top};
use vicus_schedule::{Context, ContextRef, Kind, QueueId, ReadyTask, Way};

/// The right to run one task of a context. A task is run even when the ticket is dropped, because an unneeded task has
/// to end as well.
struct Ticket {
    context: ContextRef,
    /// Tasks for a place are taken by tickets for this place.
    queue: Option<QueueId>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "follows a pointer")]
        // SAFETY: the ticket's own task is counted in the context, and is not over yet.
        let task = unsafe { self.context.get() }.and_then(|context| context.take_ready(self.queue));
        run_on_top(task.expect("there are as many tickets as ready tasks"), Way::NO_QUEUE);
    }
}

/// Adds a task to the ready ones, and queues a ticket.
#[inline(never)]
pub(crate) fn queue_ticket(worker: &mut Worker, queued: ReadyTask, priority: i32) -> AtOnce {
    let ReadyTask { task, kind, queue, .. } = queued;
    let context = task.header().context;
    worker.record_queued(task, kind, kind == Kind::Immediate && queue.is_none());
    let ticket = Ticket { context, queue };
    #[expect(unsafe_code, reason = "follows a pointer, and makes a task that borrows")]
    // SAFETY: no other ticket can find the new task yet, so it is not over, and its context is alive. From its
    // birth on the ticket is counted there as well, and its closure uses nothing else.
    let ticket = unsafe {
        let context: &Context = context.get().expect("a task with a priority has a context");
        let ticket = Job::task(worker, context, false, OfSeat, move |_| drop(ticket));
        context.put_ready(queue, priority, task);
        ticket
    };
    worker.queue(ReadyTask { task: ticket, kind, queue, priority: None })
}
