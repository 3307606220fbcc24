//! Children of the running task, and groups of them: for runtimes of languages with tasks that may end before their
//! children do, and with calls to open and close groups.

use super::description::{TaskDescription, spawn_described};
use super::included::{begin_child, end_child};
use super::place::assert_known;
use crate::runtime::seatless;
use crate::runtime::worker::context::{Children, close_innermost, recorded, wait_until};
use crate::runtime::worker::job::{Job, OfMaker, OfSeat, Store, TaskMemory};
use crate::runtime::worker::{in_task, is_seated, with_worker};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use vicus_schedule::{Access, Context, Kind};
use vicus_topology::Place;
use vicus_trace::Awaits;

/// Spawns a child of the running task, an immediate task. The parent may end before it. These wait for the child:
/// [`wait_for_children`] in the parent, the open group ([`open_group`]) and those around it, the scope of the parent,
/// and the root of all these tasks: [`MachineRuntime::run`](crate::MachineRuntime::run), a request, or a box's
/// invocation on a seat. If another thread runs a closure of [`join`](crate::join) or iterations of
/// [`for_each`](crate::for_each), these are a task of their own, which waits for everything it has spawned.
///
/// For a box run by its caller ([`MachineRuntime::submit_here`](crate::MachineRuntime::submit_here)), the children run
/// on the caller's thread, one after the other, when the box waits for them, at the latest before the box's invocation
/// ends.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use vicus_machine::{MachineRuntime, spawn_child, wait_for_children};
///
/// let runtime = MachineRuntime::builder().threads(2).start();
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
/// Outside of tasks. A panic of the child goes to the first waiter.
pub fn spawn_child(f: impl FnOnce() + Send + 'static) {
    spawn_kind(Kind::Immediate, OfSeat, f);
}

/// Like [`spawn_child`]; the task lies in memory of its maker, if its thread has a seat and the closure fits into it.
pub fn spawn_child_in(memory: impl TaskMemory, f: impl FnOnce() + Send + 'static) {
    spawn_kind(Kind::Immediate, OfMaker(memory), f);
}

#[inline]
fn spawn_kind(kind: Kind, store: impl Store, f: impl FnOnce() + Send + 'static) {
    if !is_seated() {
        return seatless::spawn(None, &[], f);
    }
    let at_once = in_task(|worker| {
        let context = worker.context();
        #[expect(unsafe_code, reason = "makes a task of a context of this task")]
        // SAFETY: the closure borrows nothing; the context is alive as long as the task, and longer if it has open
        // tasks.
        let task = unsafe { Job::task(worker, context.as_ptr(), false, store, move |_| f()) };
        worker.spawn(task, kind)
    });
    at_once.run();
}

/// Runs a child of the running task at once, on top of it, as if it had been spawned and taken: it is a task of its
/// own, with children of its own. It may borrow, and its panic is the caller's. `None` if its group was cancelled
/// ([`cancel_group`]): then it is dropped.
///
/// ```
/// use vicus_machine::{MachineRuntime, run_child, spawn_child, wait_for_children};
///
/// let runtime = MachineRuntime::builder().threads(1).start();
/// let number = runtime.run(|| {
///     let mut number = 0;
///     run_child(|| {
///         spawn_child(|| ());
///         wait_for_children(); // for that one alone
///         number = 7;
///     });
///     number
/// });
/// assert_eq!(number, 7);
/// ```
///
/// # Panics
/// Outside of tasks on a seat.
pub fn run_child<R>(f: impl FnOnce() -> R) -> Option<R> {
    let child = begin_child()?;
    let result = catch_unwind(AssertUnwindSafe(f));
    end_child(child);
    Some(result.unwrap_or_else(|panic| resume_unwind(panic)))
}

/// Describes a child of the running task before its spawn. Without further calls it equals a child of [`spawn_child`].
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use vicus_machine::{MachineRuntime, child, wait_for_children};
///
/// let runtime = MachineRuntime::builder().threads(1).start();
/// let order = Arc::new(Mutex::new(Vec::new()));
/// runtime.run(|| {
///     for priority in [1, 5, 3] {
///         let order = Arc::clone(&order);
///         child().priority(priority).spawn(move || order.lock().unwrap().push(priority));
///     }
///     wait_for_children();
/// });
/// assert_eq!(*order.lock().unwrap(), [5, 3, 1]);
/// ```
pub fn child() -> ChildBuilder {
    ChildBuilder { said: TaskDescription::of(Kind::Immediate) }
}

/// The description of a child; see [`child`].
#[derive(Clone, Debug)]
#[must_use = "a child runs when it is spawned"]
pub struct ChildBuilder {
    said: TaskDescription,
}

impl ChildBuilder {
    /// Makes it a deferred task: it begins something of its own, and is run on any free seat.
    pub fn deferred(mut self) -> Self {
        self.said.kind = Some(Kind::Deferred);
        self
    }

    /// Runs it in the neighbourhood of this node or core group; see [`Scope::spawn_at`](crate::Scope::spawn_at).
    pub fn at(mut self, place: impl Into<Place>) -> Self {
        self.said.place = Some(place.into());
        self
    }

    /// Sets a priority. Among the ready children with a priority, of its task, or of its group if one is open, the
    /// largest priority is taken first; see [`TaskBuilder::priority`](crate::TaskBuilder::priority).
    pub fn priority(mut self, priority: i32) -> Self {
        self.said.priority = Some(priority);
        self
    }

    /// Declares the bytes it reads and writes. It runs after the earlier children of the same task that write its
    /// inputs, or read or write its outputs, as if all ran one after the other. It runs near most of its bytes, if the
    /// strategy uses places and the child names none. May be called several times.
    ///
    /// The order covers siblings in all groups, but not their children, nor the children of a closure of
    /// [`join`](crate::join) or of a [`for_each`](crate::for_each) run by another thread. A sibling is over when its
    /// closure has returned and its opened groups are closed; its own children may go on. If it panics, its followers
    /// are dropped, and theirs in turn, until the parent gets the panic, from [`wait_for_children`] or [`close_group`].
    /// If it is cancelled, its followers outside of its group are run.
    ///
    /// Addresses are compared and never followed: an access gives the closure no right to the bytes, and keeps no
    /// memory alive.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// use vicus_machine::{MachineRuntime, child, wait_for_children};
    /// use vicus_schedule::{Access, Mode};
    ///
    /// let runtime = MachineRuntime::builder().threads(2).start();
    /// let cells: Arc<[AtomicU64]> = (0..2).map(AtomicU64::new).collect();
    /// runtime.run(|| {
    ///     let uses = |cell: usize, mode| Access::of(&cells[cell..][..1], mode);
    ///     for factor in [2, 3, 5] {
    ///         let cells = Arc::clone(&cells);
    ///         // The sum of the first two, times the factor: each has to see what the one before has written.
    ///         let sum = child().follows(&[uses(0, Mode::Read), uses(1, Mode::ReadWrite)]);
    ///         sum.spawn(move || cells[1].store((cells[0].load(Relaxed) + cells[1].load(Relaxed)) * factor, Relaxed));
    ///     }
    ///     let first = Arc::clone(&cells);
    ///     // This one writes after they have read.
    ///     child().follows(&[uses(0, Mode::Write)]).spawn(move || first[0].store(100, Relaxed));
    ///     wait_for_children();
    /// });
    /// assert_eq!([0, 1].map(|cell| cells[cell].load(Relaxed)), [100, ((0 + 1) * 2 * 3) * 5]);
    /// ```
    ///
    /// In a build with debug assertions, panics if some of it is freed memory of this library; and so does the child,
    /// instead of running, if the memory is freed by then.
    #[track_caller]
    pub fn follows(mut self, accesses: &[Access]) -> Self {
        self.said.follows(accesses);
        self
    }

    /// Declares the bytes it reads and writes, only for its place; see
    /// [`TaskBuilder::touches`](crate::TaskBuilder::touches).
    #[track_caller]
    pub fn touches(mut self, accesses: &[Access]) -> Self {
        self.said.touches(accesses);
        self
    }

    /// Marks the last declared bytes as used so intensely that they alone decide its place; see
    /// [`TaskBuilder::intensely`](crate::TaskBuilder::intensely).
    pub fn intensely(mut self) -> Self {
        self.said.intensely();
        self
    }

    /// Its declared data order it and stand in traces, and have no influence on its place.
    pub fn undealt(mut self) -> Self {
        self.said.is_undealt = true;
        self
    }

    pub(super) fn into_said(self) -> TaskDescription {
        self.said
    }

    /// Spawns it; see [`spawn_child`].
    ///
    /// # Panics
    /// Outside of tasks. If the machine has no such place, with its name and how many there are.
    pub fn spawn(self, f: impl FnOnce() + Send + 'static) {
        self.spawn_stored(OfSeat, f);
    }

    /// Like [`ChildBuilder::spawn`]; the task lies in memory of its maker, as in [`spawn_child_in`].
    ///
    /// # Panics
    /// As [`ChildBuilder::spawn`].
    pub fn spawn_in(self, memory: impl TaskMemory, f: impl FnOnce() + Send + 'static) {
        self.spawn_stored(OfMaker(memory), f);
    }

    // The description is large: inlined, it is built where it is used.
    #[inline(always)]
    fn spawn_stored(self, store: impl Store, f: impl FnOnce() + Send + 'static) {
        let ChildBuilder { said } = self;
        if let Some(kind) = said.only_kind() {
            return spawn_kind(kind, store, f);
        }
        said.place.inspect(|place| assert_known(*place));
        if !is_seated() {
            let (priority, ordered) = (said.priority, said.ordered().to_vec());
            let code = move || {
                said.by_address.check();
                f();
            };
            return seatless::spawn(priority, &ordered, code);
        }
        let at_once = in_task(|worker| {
            let context = worker.context();
            #[expect(unsafe_code, reason = "makes a task of a context of this task")]
            // SAFETY: as in `spawn_kind`.
            unsafe {
                spawn_described(worker, context.as_ptr(), said, store, move |_| f())
            }
        });
        at_once.run();
    }
}

/// Waits for the children of the running task, not for their children. Its thread runs other tasks of the request
/// meanwhile.
///
/// # Panics
/// With the panic of a child, the first one if several panicked, after all are over.
pub fn wait_for_children() {
    if !is_seated() {
        return seatless::wait();
    }
    let Some(context) = with_worker(|worker| worker.frame.context).flatten() else { return };
    #[expect(unsafe_code, reason = "follows a pointer")]
    // SAFETY: it is this task's, and alive as long as the task.
    let innermost = unsafe { context.as_ref() };
    recorded(Awaits::Children, || wait_until(&Children(innermost)));
    let mut context = Some(innermost);
    while let Some(one) = context {
        if let Some(panic) = one.take_panic() {
            resume_unwind(panic);
        }
        context = one.outer();
    }
}

/// Opens a group: later children of the running task, and all their descendants, are over when [`close_group`] returns.
/// Groups may be nested. A group still open at its task's end is closed then.
///
/// ```
/// use vicus_machine::{MachineRuntime, close_group, open_group, spawn_child};
///
/// let runtime = MachineRuntime::builder().threads(2).start();
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
        // SAFETY: it is this task's, and alive as long as the task.
        let group = Context::of_group(unsafe { outer.as_ref() }, worker.owner());
        worker.frame.context = Some(NonNull::from(Box::leak(Box::new(group))));
        worker.recorder.section_begins(worker.frame.request);
    });
}

/// Waits for the children spawned since the last [`open_group`], and for all their descendants.
///
/// # Panics
/// If no group is open. With the panic of one of these tasks, the first one if several panicked, after all are over.
pub fn close_group() {
    let panic = if is_seated() { close_innermost() } else { seatless::close_group() };
    let panic = panic.expect("close_group is called in the task that called open_group");
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

/// Drops the tasks that have not begun in the innermost open group of the running task, or else in the group or scope
/// it belongs to. Running ones may check [`is_cancelled`](crate::is_cancelled).
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
