//! The shared state of the tasks spawned by one task, scope or group.
//!
//! Three things spawn tasks. A *task* has children; it may wait for them, and it may end before them. A *scope* waits
//! for all tasks spawned in it, by any task, and for all their descendants. A *group* is opened and closed by a task:
//! it waits for the children spawned by the task meanwhile, and for all their descendants. Each has a [`Context`], and
//! its tasks point there; the caller decides in which context a task is spawned.

mod graph;
mod open;
mod ready;

use crate::sync::{AtomicBool, Mutex, Ordering};
use crate::{Access, QueueId, RequestId, SeatId, TaskRef};
pub use graph::{ReadyTask, TaskGraph, TaskNode, Unspawned};
pub use open::{AwaitedTasks, Waiter};
use open::{Ended, Open, Then};
use ready::Ready;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// The shared state of the tasks spawned by one task, scope or group: their counts, their order, their first panic.
pub struct Context {
    /// For a task: the context counting it as a child. For a group: the context its task spawned in before. Null if
    /// there is none. Invariant: it is alive. A child's subtree counts there until its own context is dropped.
    parent: *const Context,
    /// The innermost scope or group around these tasks that waits for them, possibly this context; null if there is
    /// none. Invariant: alive, since it waits.
    group: *const Context,
    /// For a group: the context of its task. Null otherwise. Invariant: it is alive.
    task: *const Context,
    kind: ContextKind,
    /// The depth of the owner, in tasks above it; 0 for the tasks of a scope.
    depth: u32,
    request: RequestId,
    open: Open,
    is_cancelled: AtomicBool,
    /// The tasks with described data. A group has none: its tasks are ordered among all children of its task.
    graph: Mutex<Option<Box<TaskGraph>>>,
    /// For a group: the number of its first task in the graph.
    first_ordered: usize,
    /// The ready tasks with a priority.
    ready: Mutex<Option<Box<Ready>>>,
    /// The first panic of a task.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Whether there may be one: the lock is not taken for nothing.
    has_panic: AtomicBool,
}

/// A task's pointer to its context.
#[derive(Clone, Copy, Debug)]
pub struct ContextRef(*const Context);

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: a context is made for several threads; following the pointer is unsafe.
unsafe impl Send for ContextRef {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as above.
unsafe impl Sync for ContextRef {}

impl ContextRef {
    /// For a task counted in no context.
    pub const NONE: ContextRef = ContextRef(ptr::null());

    /// For a task counted there. The caller decides how the pointer may be used: a context may be the beginning of a
    /// larger value.
    pub fn new(context: *const Context) -> ContextRef {
        ContextRef(context)
    }

    /// The pointer.
    pub fn as_ptr(self) -> *const Context {
        self.0
    }

    /// The context.
    ///
    /// # Safety
    /// The reference is used only while the context is alive: until the task has ended there.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub unsafe fn get<'a>(self) -> Option<&'a Context> {
        // SAFETY: the caller's promise.
        unsafe { self.0.as_ref() }
    }
}

/// The task that waits for a context's tasks.
#[derive(Clone, Copy, Debug)]
pub struct ContextOwner {
    /// Its seat.
    pub seat: SeatId,
    /// The waiter to tell of their end.
    pub waiter: Waiter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContextKind {
    Task,
    Scope,
    Group,
}

#[expect(unsafe_code, reason = "it has pointers to others of its kind")]
// SAFETY: by the fields' invariants the pointers are to live contexts, and a context's methods are made for several
// threads.
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
        owner: ContextOwner,
    ) -> Context {
        Context {
            parent,
            group,
            task: ptr::null(),
            kind,
            depth: 0,
            request,
            open: Open::new(owner.seat, owner.waiter),
            is_cancelled: AtomicBool::new(false),
            graph: Mutex::new(None),
            first_ordered: 0,
            ready: Mutex::new(None),
            panic: Mutex::new(None),
            has_panic: AtomicBool::new(false),
        }
    }

    /// For the tasks of a scope. Its owner waits for [`AwaitedTasks::Subtrees`] before it is dropped.
    pub fn of_scope(request: RequestId, owner: ContextOwner) -> Context {
        Context::new(ContextKind::Scope, ptr::null(), ptr::null(), request, owner)
    }

    /// For the children of a task of `parent`, or of a task without one. Without a parent, its owner waits for
    /// [`AwaitedTasks::Subtrees`] before it is dropped; otherwise the owner may end before them ([`Context::end_one`]).
    pub fn of_task(parent: Option<&Context>, request: RequestId, owner: ContextOwner) -> Context {
        let group = parent.map_or(ptr::null(), Context::group);
        let depth = parent.map_or(0, |parent| parent.task().depth + 1);
        let own = Context::new(ContextKind::Task, parent.map_or(ptr::null(), ptr::from_ref), group, request, owner);
        Context { depth, ..own }
    }

    /// For the next children of a task that has spawned in `outer`: its own context, or another of its groups. The task
    /// waits for [`AwaitedTasks::Subtrees`] before it spawns in `outer` again.
    pub fn of_group(outer: &Context, owner: ContextOwner) -> Context {
        let first_ordered = outer.with_graph(|graph| graph.as_ref().map_or(0, |graph| graph.next_number()));
        let group = Context::new(ContextKind::Group, outer, outer.group(), outer.request, owner);
        Context { first_ordered, task: outer.task(), depth: outer.task().depth, ..group }
    }

    /// Whether its tasks are children or later descendants of the owner of `other`.
    pub fn is_below(&self, other: &Context) -> bool {
        let above = other.task();
        let mut own = self.task();
        while own.depth > above.depth {
            #[expect(unsafe_code, reason = "follows a pointer")]
            // SAFETY: by the field's invariant.
            let Some(parent) = (unsafe { own.parent.as_ref() }) else { return false };
            own = parent.task();
        }
        ptr::eq(own, above)
    }

    fn group(&self) -> *const Context {
        if self.kind == ContextKind::Task { self.group } else { ptr::from_ref(self) }
    }

    /// For a group the context of its task, otherwise this context.
    fn task(&self) -> &Context {
        #[expect(unsafe_code, reason = "follows a pointer")]
        // SAFETY: by the field's invariant.
        unsafe { self.task.as_ref() }.unwrap_or(self)
    }

    /// The request of its tasks.
    pub fn request(&self) -> RequestId {
        self.request
    }

    /// Counts a task before `seat` spawns it.
    #[inline]
    pub fn begin_one(&self, seat: SeatId) {
        self.open.begin(seat);
    }

    /// Whether the tasks awaited by its owner are over.
    #[inline]
    pub fn is_done(&self, wanted: AwaitedTasks) -> bool {
        self.open.is_done(wanted)
    }

    /// Its owner is about to sleep: from now on [`Context::end_one`] has it notified. Returns whether the owner still
    /// has to wait.
    pub fn announce_sleep(&self, wanted: AwaitedTasks) -> bool {
        self.open.announce_sleep(wanted)
    }

    /// Like [`Context::announce_sleep`], for an owner suspended while its seat goes on. [`Context::note_resumed`] ends
    /// the suspension.
    pub fn announce_suspension(&self, wanted: AwaitedTasks) -> bool {
        self.open.announce_suspension(wanted)
    }

    /// Its owner goes on, on this seat.
    pub fn note_resumed(&self, seat: SeatId) {
        self.open.note_resumed(seat);
    }

    /// Whether all children of the owning task are over, including those of its groups.
    pub fn is_done_with_children(&self) -> bool {
        self.of_this_task().all(|context| context.is_done(AwaitedTasks::Children))
    }

    /// Like [`Context::announce_sleep`], for [`Context::is_done_with_children`].
    pub fn announce_sleep_for_children(&self) -> bool {
        // Tells all of them, so that each reports the end of its last child.
        self.of_this_task().filter(|context| context.announce_sleep(AwaitedTasks::Children)).count() > 0
    }

    /// Like [`Context::announce_suspension`], for [`Context::is_done_with_children`].
    pub fn announce_suspension_for_children(&self) -> bool {
        self.of_this_task().filter(|context| context.announce_suspension(AwaitedTasks::Children)).count() > 0
    }

    /// Like [`Context::note_resumed`], after [`Context::announce_suspension_for_children`].
    pub fn note_resumed_with_children(&self, seat: SeatId) {
        self.of_this_task().for_each(|context| context.note_resumed(seat));
    }

    /// Drops its unbegun tasks, and their descendants.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Cancels the innermost group or scope around its tasks, possibly itself. Returns whether there is one.
    pub fn cancel_group(&self) -> bool {
        #[expect(unsafe_code, reason = "follows a pointer")]
        // SAFETY: by the field's invariant.
        let group = unsafe { self.group().as_ref() };
        group.map(Context::cancel).is_some()
    }

    /// Whether its tasks are no longer needed: this context was cancelled, or a group around it. A scope only asks
    /// itself, because the scope's owner relies on its tasks.
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
        // Relaxed: a waiter sees it together with the task's end, and all other readers take the lock.
        self.has_panic.store(true, Ordering::Relaxed);
        drop(slot);
        // A user's payload may panic in its drop, and so may the payload of that panic.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(other))) {
            std::mem::forget(panic);
        }
    }

    /// The first panic of a task since the last call. From now on ordered tasks run again, though they follow tasks
    /// with a panic.
    #[inline]
    pub fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        if self.has_panic.load(Ordering::Relaxed) { self.take_first_panic() } else { None }
    }

    #[cold]
    fn take_first_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.has_panic.store(false, Ordering::Relaxed);
        let panic = self.panic.lock().expect("nothing panics under this lock").take()?;
        self.with_graph(|graph| graph.iter_mut().for_each(|graph| graph.forget_panics(self.first_ordered)));
        Some(panic)
    }

    /// Makes a task wait for the earlier tasks of this owner that write its data and, if it writes, for those that read
    /// them.
    pub fn order(&self, ordered: &[Access]) -> Unspawned {
        self.with_graph(|graph| graph.get_or_insert_default().add(ordered))
    }

    /// Calls `f` with the graph of this owner's tasks, if there is one.
    fn with_graph<R>(&self, f: impl FnOnce(&mut Option<Box<TaskGraph>>) -> R) -> R {
        f(&mut self.task().graph.lock().expect("nothing panics under this lock"))
    }

    /// Adds a ready task with a priority. `queue`: the queue it was dealt to. The world makes sure
    /// [`Context::take_ready`] is called once for each such task.
    pub fn put_ready(&self, queue: Option<QueueId>, priority: i32, task: TaskRef) {
        let mut ready = self.ready.lock().expect("nothing panics under this lock");
        ready.get_or_insert_default().put(queue, priority, task);
    }

    /// Takes the ready task of the largest priority for this queue; among equals, the first to come.
    pub fn take_ready(&self, queue: Option<QueueId>) -> Option<TaskRef> {
        self.ready.lock().expect("nothing panics under this lock").as_mut()?.take(queue)
    }

    /// This context and those around it of the same task.
    fn of_this_task(&self) -> impl Iterator<Item = &Context> {
        std::iter::successors(Some(self), |context| context.outer())
    }

    /// For a group: the context its task spawned in before.
    pub fn outer(&self) -> Option<&Context> {
        #[expect(unsafe_code, reason = "follows a pointer")]
        // SAFETY: by the field's invariant.
        (self.kind == ContextKind::Group).then(|| unsafe { &*self.parent })
    }

    /// A task of this context, run by `seat`, has ended. `own`: the task's own context, if it has spawned any tasks.
    /// `drops` gets the contexts no longer needed: `own`, this one, those above; their panics are handed up before.
    ///
    /// `notify` gets the waiters that are to check whether their awaited tasks are over. This context may be gone after
    /// this call.
    ///
    /// # Safety
    /// The caller calls this once for each [`Context::begin_one`]. `own` is from [`Context::of_task`] with this context
    /// as its parent, and so is the context of every task that spawned such a task; each context is of the kind `drops`
    /// takes.
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see: which threads use a context")]
    pub unsafe fn end_one(
        &self,
        own: Option<*const Context>,
        seat: SeatId,
        mut notify: impl FnMut(Waiter),
        drops: impl FnMut(*const Context),
    ) {
        match own {
            None => match self.open.end(seat, Ended::Both) {
                Then::Nothing => {}
                Then::Notify(waiter) => notify(waiter),
                // SAFETY: the caller's promise.
                Then::Drop => unsafe { drop_upwards(self, seat, notify, drops) },
            },
            // SAFETY: as above.
            Some(own) => unsafe { self.end_with(own, seat, notify, drops) },
        }
    }

    /// # Safety
    /// Those of [`Context::end_one`].
    #[cold]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see: which threads use a context")]
    unsafe fn end_with(
        &self,
        own: *const Context,
        seat: SeatId,
        mut notify: impl FnMut(Waiter),
        mut drops: impl FnMut(*const Context),
    ) {
        // SAFETY: the caller's promise.
        if unsafe { (*own).is_done(AwaitedTasks::Subtrees) } {
            // SAFETY: as above.
            unsafe { (*own).hand_panic_up() };
            drops(own);
            // SAFETY: as above.
            return unsafe { self.end_one(None, seat, notify, drops) };
        }
        // The subtree stays open, and keeps this context alive.
        match self.open.end(seat, Ended::Child) {
            Then::Notify(waiter) => notify(waiter),
            Then::Nothing => {}
            Then::Drop => unreachable!("the child's subtree is open"),
        }
        // SAFETY: as above; the last of its tasks may drop it after this.
        if unsafe { (*own).open.end_owner() } {
            // SAFETY: as above.
            unsafe { drop_upwards(own, seat, notify, drops) };
        }
    }

    /// Hands a panic up to the context that waits for the owner, because the owner did not wait itself.
    fn hand_panic_up(&self) {
        if let Some(panic) = self.take_panic() {
            #[expect(unsafe_code, reason = "follows a pointer")]
            // SAFETY: by the field's invariant.
            let parent = unsafe { &*self.parent };
            parent.keep_panic(panic);
        }
    }
}

/// Drops the context of an ended task, if it is not needed any more, and then perhaps the context above, and so on.
///
/// # Safety
/// Those of [`Context::end_one`]: the seat that ended the last task counted there calls it.
#[expect(unsafe_code, reason = "the caller promises what the type system can't see: which threads use a context")]
unsafe fn drop_upwards(
    context: *const Context,
    seat: SeatId,
    mut notify: impl FnMut(Waiter),
    mut drops: impl FnMut(*const Context),
) {
    let mut context = context;
    loop {
        // SAFETY: only this function still uses it; its parent is alive, since it counts there.
        let parent = unsafe {
            (*context).hand_panic_up();
            &*(*context).parent
        };
        drops(context);
        match parent.open.end(seat, Ended::Subtree) {
            Then::Nothing => return,
            Then::Notify(waiter) => return notify(waiter),
            Then::Drop => context = parent,
        }
    }
}
