//! The context of the running task: made for its first child, and waited for.

use super::{Worker, in_task, wait, wait_below, with_worker};
use crate::runtime::awaited::Awaited;
use std::any::Any;
use std::ptr::{self, NonNull};
use vicus_schedule::{AwaitedTasks, Context, ContextOwner, SeatId};
use vicus_trace::Awaits;

/// Closes the innermost group of the running task. `None` if none is open; else the first panic of a task of it.
pub(crate) fn close_innermost() -> Option<Option<Box<dyn Any + Send>>> {
    let group = with_worker(|worker| worker.frame.context).flatten()?;
    #[expect(unsafe_code, reason = "follows a pointer, and frees what `open_group` made")]
    // SAFETY: it is this task's, and alive until it is closed here; when all its tasks are over, no pointer to it is
    // left.
    unsafe {
        let outer = NonNull::from(group.as_ref().outer()?);
        recorded(Awaits::Section, || wait_until(&Tasks { context: group.as_ref(), wanted: AwaitedTasks::Subtrees }));
        let panic = group.as_ref().take_panic();
        in_task(|worker| worker.frame.context = Some(outer));
        drop(Box::from_raw(group.as_ptr()));
        Some(panic)
    }
}

/// Closes the groups left open by the ending task. It has spawned tasks, or opened a group.
pub(crate) fn close_all_groups() {
    while let Some(panic) = close_innermost() {
        let outer = in_task(|worker| worker.frame.context).expect("a group has a context around it");
        if let Some(panic) = panic {
            #[expect(unsafe_code, reason = "follows a pointer")]
            // SAFETY: it is this task's.
            unsafe { outer.as_ref() }.keep_panic(panic);
        }
    }
}

/// For the end of a task counted in no context: waits for all its descendants. Returns their first panic.
#[inline]
pub fn wait_for_descendants() -> Option<Box<dyn Any + Send>> {
    if in_task(|worker| worker.frame.context.is_some()) { wait_for_all() } else { None }
}

#[cold]
fn wait_for_all() -> Option<Box<dyn Any + Send>> {
    close_all_groups();
    let own = in_task(|worker| worker.frame.context)?;
    #[expect(unsafe_code, reason = "follows a pointer, and frees what `Worker::context` made")]
    // SAFETY: it is this task's; when all its tasks are over, no pointer to it is left.
    unsafe {
        wait_for(own.as_ref(), AwaitedTasks::Subtrees);
        in_task(|worker| worker.frame.context = None);
        Box::from_raw(own.as_ptr()).take_panic()
    }
}

/// Waits for the tasks of a context.
#[inline]
pub(crate) fn wait_for(context: &Context, wanted: AwaitedTasks) {
    recorded(Awaits::Children, || wait_until(&Tasks { context, wanted }));
}

/// Calls `wait`, in which the running task waits, and records the wait if events are recorded.
#[inline]
pub fn recorded(awaits: Awaits, wait: impl FnOnce()) {
    let keeps_events = in_task(|worker| worker.recorder.keeps_events());
    if keeps_events {
        record_wait_begins(awaits);
    }
    // In one place: the wait is a part of its caller then.
    wait();
    if keeps_events {
        record_wait_ends();
    }
}

#[cold]
fn record_wait_begins(awaits: Awaits) {
    in_task(|worker| worker.recorder.wait_begins(worker.frame.request, awaits));
}

#[cold]
fn record_wait_ends() {
    in_task(|worker| worker.recorder.wait_ends(worker.frame.request));
}

#[inline]
pub(crate) fn wait_until(awaited: &impl Awaited) {
    if awaited.is_done() {
        in_task(|worker| worker.recorder.observe_tasks());
    } else {
        wait_within(awaited);
    }
}

/// Waits as the running task may: its thread runs tasks of its request meanwhile, and if it is tied, its own
/// descendants alone.
pub(crate) fn wait_within(awaited: &impl Awaited) {
    let (request, own) =
        in_task(|worker| (worker.frame.request, worker.frame.context.filter(|_| worker.stack.is_tied)));
    wait_below(Some(request), own.map_or(ptr::null(), |own| own.as_ptr().cast_const()), awaited);
}

/// Waits for the descendants of the running task, which go on as its context's do: any task is run meanwhile.
pub fn wait_for_own() {
    let Some(context) = in_task(|worker| worker.frame.context) else { return };
    #[expect(unsafe_code, reason = "follows a pointer")]
    // SAFETY: it is this task's, and alive as long as the task.
    let tasks = Tasks { context: unsafe { context.as_ref() }, wanted: AwaitedTasks::Subtrees };
    if !tasks.is_done() {
        wait(None, &tasks);
    }
}

/// The tasks of a context.
struct Tasks<'a> {
    context: &'a Context,
    wanted: AwaitedTasks,
}

impl Awaited for Tasks<'_> {
    #[inline]
    fn is_done(&self) -> bool {
        self.context.is_done(self.wanted)
    }

    fn announce_sleep(&self) -> bool {
        self.context.announce_sleep(self.wanted)
    }

    fn announce_suspension(&self) -> bool {
        self.context.announce_suspension(self.wanted)
    }

    fn note_resumed(&self, seat: SeatId) {
        self.context.note_resumed(seat);
    }
}

/// The children of a task, by its innermost context.
pub(crate) struct Children<'a>(pub(crate) &'a Context);

impl Awaited for Children<'_> {
    fn is_done(&self) -> bool {
        self.0.is_done_with_children()
    }

    fn announce_sleep(&self) -> bool {
        self.0.announce_sleep_for_children()
    }

    fn announce_suspension(&self) -> bool {
        self.0.announce_suspension_for_children()
    }

    fn note_resumed(&self, seat: SeatId) {
        self.0.note_resumed_with_children(seat);
    }
}

impl Worker {
    /// The owner of the running task's awaited latches.
    #[inline]
    pub(crate) fn owner(&self) -> ContextOwner {
        ContextOwner { seat: self.seat_id, waiter: self.code.waiter }
    }

    /// The running task's current context for spawning children.
    #[inline]
    pub(crate) fn context(&mut self) -> NonNull<Context> {
        match self.frame.context {
            Some(context) => context,
            None => self.new_context(),
        }
    }

    #[cold]
    fn new_context(&mut self) -> NonNull<Context> {
        #[expect(unsafe_code, reason = "follows a pointer")]
        // SAFETY: the running task is counted there.
        let parent = unsafe { self.frame.parent.get() };
        let own = Context::of_task(parent, self.frame.request, self.owner());
        *self.frame.context.insert(NonNull::from(Box::leak(Box::new(own))))
    }
}
