//! Children of the task that runs, and groups of them: for runtimes of languages in which a task may end before its children do, and
//! in which a group is opened and closed by calls.

use super::Awaited;
use super::job::Job;
use super::seatless;
use crate::worker::{self, Worker, in_task, is_seated, with_worker};
use std::any::Any;
use std::panic::resume_unwind;
use std::ptr::NonNull;
use vicus_schedule::{Context, Kind, Wanted};

/// Spawns a child of the task that runs, an immediate task. The task may end before it. It is waited for by
/// [`wait_for_children`] in the task that spawned it, by the group that was open ([`open_group`]) and those around it, by the scope
/// in which that task was spawned, and by the task on which all this stands: [`Runtime::run`](crate::Runtime::run), a request, or a
/// box's invocation on a seat. Where another thread runs a closure of [`join`](crate::join) or iterations of
/// [`for_each`](crate::for_each), these are a task of their own, which waits for all that it has spawned.
///
/// The children of a box that its caller runs ([`Runtime::submit_here`](crate::Runtime::submit_here)) run on the caller's thread, one
/// after the other, when they are waited for, at the latest before the box's invocation ends.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use vicus_machine::{Runtime, spawn_child, wait_for_children};
///
/// let runtime = Runtime::builder().threads(2).start();
/// let count = Arc::new(AtomicUsize::new(0));
/// runtime.run(|| {
///     for _ in 0..10 {
///         let count = Arc::clone(&count);
///         spawn_child(move || _ = count.fetch_add(1, Ordering::Relaxed));
///     }
///     wait_for_children();
///     assert_eq!(count.load(Ordering::Relaxed), 10);
/// });
/// ```
///
/// # Panics
/// Outside of tasks. What the child panics with goes to whatever waits for it first.
pub fn spawn_child(f: impl FnOnce() + Send + 'static) {
    if !is_seated() {
        return seatless::spawn(f);
    }
    let at_once = in_task(|worker| {
        let context = worker.context();
        #[expect(unsafe_code, reason = "makes a task of a context of this task")]
        // SAFETY: the closure borrows nothing; the context is alive as long as the task, and longer if it has open tasks.
        let task = unsafe { Job::task(worker, context.as_ptr(), move |_| f()) };
        worker.spawn(task, Kind::Immediate, None)
    });
    at_once.run();
}

/// Waits for the children of the task that runs, not for what these have spawned. Its thread runs other tasks of the request
/// meanwhile.
///
/// # Panics
/// With what a child panicked with, the first one if several did, after all are over.
pub fn wait_for_children() {
    if !is_seated() {
        return seatless::wait();
    }
    let Some(context) = with_worker(|worker| worker.frame.context).flatten() else { return };
    #[expect(unsafe_code, reason = "follows a pointer")]
    // SAFETY: it is this task's, and alive as long as that.
    let innermost = unsafe { context.as_ref() };
    wait_until(&Children(innermost));
    let mut context = Some(innermost);
    while let Some(one) = context {
        if let Some(panic) = one.take_panic() {
            resume_unwind(panic);
        }
        context = one.outer();
    }
}

/// Opens a group: the children that the task that runs spawns from now on, and all that descends from them, are over when
/// [`close_group`] returns. Groups may stand in groups. One that is open when its task ends is closed by that.
///
/// ```
/// use vicus_machine::{Runtime, close_group, open_group, spawn_child};
///
/// let runtime = Runtime::builder().threads(2).start();
/// let (sender, receiver) = std::sync::mpsc::channel();
/// runtime.run(move || {
///     open_group();
///     spawn_child(move || spawn_child(move || sender.send("a grandchild").unwrap()));
///     close_group();
///     assert_eq!(receiver.try_recv(), Ok("a grandchild"));
/// });
/// ```
///
/// # Panics
/// Outside of tasks.
pub fn open_group() {
    if !is_seated() {
        return seatless::open_group();
    }
    in_task(|worker| {
        let outer = worker.context();
        #[expect(unsafe_code, reason = "follows a pointer")]
        // SAFETY: it is this task's, and alive as long as that.
        let group = Context::of_group(unsafe { outer.as_ref() }, worker.seat);
        worker.frame.context = Some(NonNull::from(Box::leak(Box::new(group))));
    });
}

/// Waits for the children that were spawned since the last [`open_group`], and for all that descends from them.
///
/// # Panics
/// If no group is open. With what one of these tasks panicked with, the first one if several did, after all are over.
pub fn close_group() {
    let panic = if is_seated() { close_innermost() } else { seatless::close_group() };
    let panic = panic.expect("close_group is called in the task that called open_group");
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

/// Drops the tasks of the innermost group that the task that runs has opened, or else of the group or scope that it belongs to, so far
/// as they have not begun. Those that run may ask [`is_cancelled`](crate::is_cancelled).
///
/// # Panics
/// If there is no such group or scope.
pub fn cancel_group() {
    let is_cancelled = with_worker(|worker| {
        #[expect(unsafe_code, reason = "follows a pointer")]
        // SAFETY: this task's own context is alive as long as the task is, and so is the one that counts it.
        unsafe {
            let own = worker.frame.context.map(|own| &*own.as_ptr());
            own.or(worker.frame.parent.get()).is_some_and(Context::cancel_group)
        }
    });
    assert!(
        is_cancelled.unwrap_or_else(seatless::cancel_group),
        "cancel_group is called where a group is open, or in a task of one"
    );
}

/// Closes the innermost group of the task that runs. `None` if none is open; else what a task of it panicked with.
fn close_innermost() -> Option<Option<Box<dyn Any + Send>>> {
    let group = with_worker(|worker| worker.frame.context).flatten()?;
    #[expect(unsafe_code, reason = "follows a pointer, and frees what `open_group` made")]
    // SAFETY: it is this task's, and alive as long as it is not closed here; when all its tasks are over, nothing points to it.
    unsafe {
        let outer = NonNull::from(group.as_ref().outer()?);
        wait_for(group.as_ref(), Wanted::Subtrees);
        let panic = group.as_ref().take_panic();
        in_task(|worker| worker.frame.context = Some(outer));
        drop(Box::from_raw(group.as_ptr()));
        Some(panic)
    }
}

/// Closes the groups that the task that ends has left open. It has spawned, or opened one.
pub(super) fn close_all_groups() {
    while let Some(panic) = close_innermost() {
        let outer = in_task(|worker| worker.frame.context).expect("a group has a context around it");
        if let Some(panic) = panic {
            #[expect(unsafe_code, reason = "follows a pointer")]
            // SAFETY: it is this task's.
            unsafe { outer.as_ref() }.keep_panic(panic);
        }
    }
}

/// A task that no context counts is about to end: it waits for all that it has spawned. Returns what that panicked with.
#[inline]
pub(crate) fn wait_for_descendants() -> Option<Box<dyn Any + Send>> {
    if in_task(|worker| worker.frame.context.is_some()) { wait_for_all() } else { None }
}

#[cold]
fn wait_for_all() -> Option<Box<dyn Any + Send>> {
    close_all_groups();
    let own = in_task(|worker| worker.frame.context)?;
    #[expect(unsafe_code, reason = "follows a pointer, and frees what `Worker::context` made")]
    // SAFETY: it is this task's; when all its tasks are over, nothing points to it.
    unsafe {
        wait_for(own.as_ref(), Wanted::Subtrees);
        in_task(|worker| worker.frame.context = None);
        Box::from_raw(own.as_ptr()).take_panic()
    }
}

/// Waits for the tasks of a context.
#[inline]
pub(super) fn wait_for(context: &Context, wanted: Wanted) {
    wait_until(&Tasks { context, wanted });
}

#[inline]
fn wait_until(awaited: &impl Awaited) {
    if awaited.is_done() {
        in_task(|worker| worker.recorder.tasks_waited_for());
    } else {
        let request = in_task(|worker| worker.frame.request);
        worker::wait(Some(request), awaited);
    }
}

struct Tasks<'a> {
    context: &'a Context,
    wanted: Wanted,
}

impl Awaited for Tasks<'_> {
    #[inline]
    fn is_done(&self) -> bool {
        self.context.is_done(self.wanted)
    }

    fn falls_asleep(&self) -> bool {
        self.context.falls_asleep(self.wanted)
    }
}

/// The children of a task, by its innermost context.
struct Children<'a>(&'a Context);

impl Awaited for Children<'_> {
    fn is_done(&self) -> bool {
        self.0.is_done_with_children()
    }

    fn falls_asleep(&self) -> bool {
        self.0.falls_asleep_for_children()
    }
}

impl Worker {
    /// Where the task that runs spawns its children now.
    #[inline]
    fn context(&mut self) -> NonNull<Context> {
        match self.frame.context {
            Some(context) => context,
            None => self.new_context(),
        }
    }

    #[cold]
    fn new_context(&mut self) -> NonNull<Context> {
        #[expect(unsafe_code, reason = "follows a pointer")]
        // SAFETY: it counts the task that runs.
        let parent = unsafe { self.frame.parent.get() };
        let own = Context::of_task(parent, self.frame.request, self.seat);
        *self.frame.context.insert(NonNull::from(Box::leak(Box::new(own))))
    }
}
