//! What the tasks have in common that one task, scope or group has spawned.
//!
//! Three things spawn tasks. A *task* has children; it may wait for them, and it may end before them. A *scope* waits for all tasks
//! that are spawned in it, by whichever task, and for all that descend from them. A *group* is opened and closed by a task: it
//! waits for the children that the task has spawned meanwhile, and for all that descends from these. Each has a [`Context`], to
//! which its tasks point; what a task spawns, and in which context, is the caller's decision.

mod graph;
mod open;
mod ready;

use crate::sync::{AtomicBool, Mutex, Ordering};
use crate::{Access, QueueId, RequestId, SeatId, TaskRef};
use graph::Graph;
pub use graph::{Node, Queued};
pub use open::Wanted;
use open::{Ended, Open, Then};
use ready::Ready;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

/// What the tasks have in common that one task, scope or group has spawned: who waits for them, and how they wait for each other.
pub struct Context {
    /// Of a task: the context that the task is a child of. Of a group: the one in which the task spawned before. Null if there is none.
    /// Invariant: it is alive. A child's subtree counts there until its own context is dropped.
    parent: *const Context,
    /// The innermost scope or group that waits for its tasks, maybe itself; null if there is none. Invariant: alive, since it waits.
    group: *const Context,
    kind: ContextKind,
    request: RequestId,
    open: Open,
    is_cancelled: AtomicBool,
    /// Tasks that say what they read and write. A group has none: its tasks are ordered among all children of its task.
    graph: Mutex<Option<Box<Graph>>>,
    /// Its tasks that have a priority and can be run.
    ready: Mutex<Option<Box<Ready>>>,
    /// The first panic of a task.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A task's way to its context.
#[derive(Clone, Copy, Debug)]
pub struct ContextRef(*const Context);

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: a context is made for several threads; following the pointer is unsafe.
unsafe impl Send for ContextRef {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as above.
unsafe impl Sync for ContextRef {}

impl ContextRef {
    /// Of a task that no context counts.
    pub const NONE: ContextRef = ContextRef(ptr::null());

    /// Of a task that is to be counted there. What the pointer may be used for is the caller's: a context may be the beginning of more.
    pub fn new(context: *const Context) -> ContextRef {
        ContextRef(context)
    }

    /// Where it is.
    pub fn as_ptr(self) -> *const Context {
        self.0
    }

    /// The context.
    ///
    /// # Safety
    /// It is used no longer than it is alive: until the task has ended there.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub unsafe fn get<'a>(self) -> Option<&'a Context> {
        // SAFETY: the caller's promise.
        unsafe { self.0.as_ref() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContextKind {
    Task,
    Scope,
    Group,
}

#[expect(unsafe_code, reason = "it has pointers to others of its kind")]
// SAFETY: these are alive, by the fields' invariants, and all that can be done with them is made for several threads.
unsafe impl Send for Context {}

#[expect(unsafe_code, reason = "it has pointers to others of its kind")]
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    fn new(
        kind: ContextKind,
        parent: *const Context,
        group: *const Context,
        request: RequestId,
        seat: SeatId,
    ) -> Context {
        Context {
            parent,
            group,
            kind,
            request,
            open: Open::new(seat),
            is_cancelled: AtomicBool::new(false),
            graph: Mutex::new(None),
            ready: Mutex::new(None),
            panic: Mutex::new(None),
        }
    }

    /// For the tasks of a scope. Its owner waits for [`Wanted::Subtrees`] before it is gone.
    pub fn of_scope(request: RequestId, seat: SeatId) -> Context {
        Context::new(ContextKind::Scope, ptr::null(), ptr::null(), request, seat)
    }

    /// For the children of a task that is one of `parent`'s, or of none. Without a parent, its owner waits for [`Wanted::Subtrees`]
    /// before it is gone; else it may end before them ([`Context::ends_one`]).
    pub fn of_task(parent: Option<&Context>, request: RequestId, seat: SeatId) -> Context {
        let group = parent.map_or(ptr::null(), Context::group);
        Context::new(ContextKind::Task, parent.map_or(ptr::null(), ptr::from_ref), group, request, seat)
    }

    /// For the next children of a task that has spawned in `outer`: its own context, or another group of it. The task waits for
    /// [`Wanted::Subtrees`] before it spawns in `outer` again.
    pub fn of_group(outer: &Context, seat: SeatId) -> Context {
        Context::new(ContextKind::Group, outer, outer.group(), outer.request, seat)
    }

    fn group(&self) -> *const Context {
        if self.kind == ContextKind::Task { self.group } else { ptr::from_ref(self) }
    }

    /// The request of its tasks.
    pub fn request(&self) -> RequestId {
        self.request
    }

    /// A task is about to be spawned by `seat`.
    #[inline]
    pub fn begins_one(&self, seat: SeatId) {
        self.open.begins(seat);
    }

    /// Whether what its owner wants is over.
    #[inline]
    pub fn is_done(&self, wanted: Wanted) -> bool {
        self.open.is_done(wanted)
    }

    /// Its owner is about to sleep: from now on [`Context::ends_one`] says when it is to be asked. Says whether it has a reason to.
    pub fn falls_asleep(&self, wanted: Wanted) -> bool {
        self.open.falls_asleep(wanted)
    }

    /// Whether all children of the task that owns it are over, those of its groups included.
    pub fn is_done_with_children(&self) -> bool {
        self.of_this_task().all(|context| context.is_done(Wanted::Children))
    }

    /// As [`Context::falls_asleep`], for [`Context::is_done_with_children`].
    pub fn falls_asleep_for_children(&self) -> bool {
        // All of them are told, so that each says when its last child is over.
        self.of_this_task().filter(|context| context.falls_asleep(Wanted::Children)).count() > 0
    }

    /// Drops its tasks that have not begun, and those that descend from them.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Cancels the innermost group or scope around what it counts, maybe itself. Says whether there is one.
    pub fn cancel_group(&self) -> bool {
        #[expect(unsafe_code, reason = "follows a pointer")]
        // SAFETY: by the field's invariant.
        let group = unsafe { self.group().as_ref() };
        group.map(Context::cancel).is_some()
    }

    /// Whether its tasks are not wanted any more: it was cancelled, or a group around it. What goes on in a scope is what its owner
    /// relies on, so that a scope asks itself alone.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed) || (!self.group.is_null() && self.is_cancelled_around())
    }

    #[cold]
    fn is_cancelled_around(&self) -> bool {
        let mut group = self.group;
        #[expect(unsafe_code, reason = "follows a pointer")]
        // SAFETY: by the field's invariant.
        while let Some(context) = unsafe { group.as_ref() } {
            if context.is_cancelled.load(Ordering::Relaxed) {
                return true;
            }
            group = context.group;
        }
        false
    }

    /// Keeps a task's panic, if it is the first one.
    pub fn keep_panic(&self, panic: Box<dyn Any + Send>) {
        let mut slot = self.panic.lock().expect("nothing panics under this lock");
        let other = if slot.is_none() { slot.replace(panic) } else { Some(panic) };
        drop(slot);
        // A user's value may panic when it is dropped, and so may what that panics with.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(other))) {
            std::mem::forget(panic);
        }
    }

    /// The first panic of a task since it was taken last.
    pub fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic.lock().expect("nothing panics under this lock").take()
    }

    /// A task waits for the earlier ones of this owner that write what it reads, or that read or write what it writes.
    pub fn order(&self, ordered: &[Access], node: &Arc<Node>) {
        let owner = self.of_this_task().last().expect("itself at least");
        let mut graph = owner.graph.lock().expect("nothing panics under this lock");
        graph.get_or_insert_default().add(ordered, node);
    }

    /// A task of it can be run that has a priority. `queue` is the one that it was dealt to. The world sees to it that
    /// [`Context::take_ready`] is called once for each such task.
    pub fn put_ready(&self, queue: Option<QueueId>, priority: i32, task: TaskRef) {
        let mut ready = self.ready.lock().expect("nothing panics under this lock");
        ready.get_or_insert_default().put(queue, priority, task);
    }

    /// Of the tasks that were put down for this queue, the one of the largest priority; of several, the one that came first.
    pub fn take_ready(&self, queue: Option<QueueId>) -> Option<TaskRef> {
        self.ready.lock().expect("nothing panics under this lock").as_mut()?.take(queue)
    }

    /// This context and those around it that belong to the same task.
    fn of_this_task(&self) -> impl Iterator<Item = &Context> {
        std::iter::successors(Some(self), |context| context.outer())
    }

    /// Of a group: the context in which its task spawned before.
    pub fn outer(&self) -> Option<&Context> {
        #[expect(unsafe_code, reason = "follows a pointer")]
        // SAFETY: by the field's invariant.
        (self.kind == ContextKind::Group).then(|| unsafe { &*self.parent })
    }

    /// A task of this context has ended, which `seat` ran, and which had this context of its own if it has spawned any. `drops` gets
    /// what is not needed any more: that context, this one, those above; first their panics go up.
    ///
    /// `asks` gets the seats that are to be asked whether what they wait for is over. This context may be gone after this.
    ///
    /// # Safety
    /// It is called once for each [`Context::begins_one`]. `own` is of [`Context::of_task`] with this context as its parent, and so is every
    /// context of a task that such a task was spawned in; each is as `drops` takes it.
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see: who uses a context")]
    pub unsafe fn ends_one(
        &self,
        own: Option<*const Context>,
        seat: SeatId,
        mut asks: impl FnMut(SeatId),
        drops: impl FnMut(*const Context),
    ) {
        match own {
            None => match self.open.ends(seat, Ended::Both) {
                Then::Nothing => {}
                Then::Ask(seat) => asks(seat),
                // SAFETY: the caller's promise.
                Then::Drop => unsafe { drop_upwards(self, seat, asks, drops) },
            },
            // SAFETY: as above.
            Some(own) => unsafe { self.ends_with(own, seat, asks, drops) },
        }
    }

    /// # Safety
    /// As [`Context::ends_one`].
    #[cold]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see: who uses a context")]
    unsafe fn ends_with(
        &self,
        own: *const Context,
        seat: SeatId,
        mut asks: impl FnMut(SeatId),
        mut drops: impl FnMut(*const Context),
    ) {
        // SAFETY: the caller's promise.
        if unsafe { (*own).is_done(Wanted::Subtrees) } {
            // SAFETY: as above.
            unsafe { (*own).hand_panic_up() };
            drops(own);
            // SAFETY: as above.
            return unsafe { self.ends_one(None, seat, asks, drops) };
        }
        // The subtree stays open, and keeps this context alive.
        match self.open.ends(seat, Ended::Child) {
            Then::Ask(seat) => asks(seat),
            Then::Nothing => {}
            Then::Drop => unreachable!("the child's subtree is open"),
        }
        // SAFETY: as above; the last of its tasks may drop it after this.
        if unsafe { (*own).open.owner_ends() } {
            // SAFETY: as above.
            unsafe { drop_upwards(own, seat, asks, drops) };
        }
    }

    /// What a task panicked with is for those that wait for the owner, which did not wait itself.
    fn hand_panic_up(&self) {
        if let Some(panic) = self.take_panic() {
            #[expect(unsafe_code, reason = "follows a pointer")]
            // SAFETY: by the field's invariant.
            let parent = unsafe { &*self.parent };
            parent.keep_panic(panic);
        }
    }
}

/// The context of a task that has ended is not needed any more; neither may be that of the task above, and so on.
///
/// # Safety
/// As [`Context::ends_one`]: the last one that counted there calls it.
#[expect(unsafe_code, reason = "the caller promises what the type system can't see: who uses a context")]
unsafe fn drop_upwards(
    context: *const Context,
    seat: SeatId,
    mut asks: impl FnMut(SeatId),
    mut drops: impl FnMut(*const Context),
) {
    let mut context = context;
    loop {
        // SAFETY: nothing uses it any more but this function; its parent is alive, since it counts there.
        let parent = unsafe {
            (*context).hand_panic_up();
            &*(*context).parent
        };
        drops(context);
        match parent.open.ends(seat, Ended::Subtree) {
            Then::Nothing => return,
            Then::Ask(seat) => return asks(seat),
            Then::Drop => context = parent,
        }
    }
}
