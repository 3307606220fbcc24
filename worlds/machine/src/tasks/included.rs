//! Children of the running task that come from no queue: begun at once, between two calls, or released later by a call.
//! And waits for a part of a task's children. For runtimes of languages with such calls.

use super::child::{ChildBuilder, child};
use super::description::hold_described;
use crate::runtime::awaited::OneRound;
use crate::runtime::latch::Latch;
use crate::runtime::shared::RuntimeState;
use crate::runtime::worker::context::{close_all_groups, recorded, wait_until, wait_within};
use crate::runtime::worker::job::{free, notify};
use crate::runtime::worker::{Frame, in_task, with_shared, with_worker};
use std::fmt;
use std::sync::Arc;
use vicus_schedule::{Access, ContextRef, Kind, ReadyTask, Unspawned, Way};
use vicus_trace::Awaits;

/// A child on top of its parent, from [`begin_child`] to [`end_child`].
#[must_use = "the child ends by `end_child`"]
pub struct Included {
    outer: Frame,
    context: ContextRef,
    /// Its number in the trace, if there is one.
    number: Option<u32>,
}

/// Begins a child of the running task on top of it, like [`run_child`](crate::run_child); [`end_child`] ends it. `None`
/// if its group was cancelled ([`cancel_group`](crate::cancel_group)): then there is no such child.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use vicus_machine::{MachineRuntime, begin_child, end_child, spawn_child, wait_for_children};
///
/// static IS_DONE: AtomicBool = AtomicBool::new(false);
/// MachineRuntime::builder().threads(1).start().run(|| {
///     let child = begin_child().expect("no group was cancelled");
///     spawn_child(|| IS_DONE.store(true, Ordering::Relaxed));
///     wait_for_children(); // for the grandchild
///     assert!(IS_DONE.load(Ordering::Relaxed));
///     end_child(child);
/// });
/// ```
///
/// # Panics
/// Outside of tasks on a seat.
#[inline]
pub fn begin_child() -> Option<Included> {
    in_task(|worker| {
        let context = worker.context();
        #[expect(unsafe_code, reason = "follows a pointer")]
        // SAFETY: it is the running task's, and alive as long as the task.
        let context = unsafe { context.as_ref() };
        if context.is_cancelled() {
            return None;
        }
        context.begin_one(worker.seat_id);
        let number = worker.recorder.keeps_events().then(|| worker.recorder.included_begins(worker.frame.request));
        let outer = worker.frame.put_aside();
        let context = ContextRef::new(context);
        (worker.frame.way, worker.frame.parent) = (Way::NO_QUEUE, context);
        Some(Included { outer, context, number })
    })
}

/// Ends a child: the parent goes on. The child's own children may still be running.
///
/// # Panics
/// On a thread other than the one that called [`begin_child`].
#[inline]
pub fn end_child(child: Included) {
    let Included { mut outer, context, number } = child;
    if in_task(|worker| worker.frame.context.is_some()) {
        close_all_groups();
    }
    let (own, seat, _none) = in_task(|worker| {
        let own = worker.frame.context.take();
        if let Some(number) = number {
            worker.recorder.included_ends(worker.frame.request, number);
        }
        (own, worker.seat_id, worker.frame.resume(&mut outer))
    });
    #[expect(unsafe_code, reason = "ends a task in its context")]
    // SAFETY: `begin_child` has counted it there, and this value was made once; `own` was made for its children.
    unsafe {
        let context = context.get().expect("a child has a context");
        context.end_one(own.map(|own| own.as_ptr().cast_const()), seat, notify, free);
    }
}

impl fmt::Debug for Included {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Included").finish_non_exhaustive()
    }
}

/// A child that begins only after its release, from any thread. Its parent, and its later siblings, wait for it
/// meanwhile.
#[must_use = "its parent waits until it is released"]
pub struct HeldChild {
    pub(super) unspawned: Unspawned,
    pub(super) ready: ReadyTask,
    pub(super) shared: Arc<RuntimeState>,
}

impl HeldChild {
    /// Lets it begin.
    pub fn release(self) {
        let HeldChild { unspawned, ready, shared } = self;
        let Some(ready) = unspawned.spawn(ready) else { return };
        let is_here = with_worker(|worker| Arc::ptr_eq(&worker.shared, &shared)).unwrap_or(false);
        if is_here {
            in_task(|worker| worker.queue_released(ready)).run();
        } else {
            if let Some(recording) = &shared.recording {
                recording.task_released(ready.task);
            }
            shared.put_task_at_entry(ready.task);
        }
    }
}

impl fmt::Debug for HeldChild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

/// Waits for the earlier children of the running task that a child with these accesses would follow
/// ([`ChildBuilder::follows`]). Its thread runs tasks meanwhile, as in [`wait_for_children`](crate::wait_for_children).
///
/// # Panics
/// Outside of tasks on a seat.
pub fn wait_for_earlier(accesses: &[Access]) {
    /// The latch's address, for the child.
    struct Pointer(*const Latch);
    #[expect(unsafe_code, reason = "a pointer to what another thread sets")]
    // SAFETY: a latch is set by another thread.
    unsafe impl Send for Pointer {}
    impl Pointer {
        fn set(&self) {
            #[expect(unsafe_code, reason = "follows a pointer")]
            // SAFETY: the thread with the latch in its frame waits until it is set.
            with_shared(|shared| unsafe { (*self.0).set(shared) });
        }
    }
    /// Sets the latch whether the child is run or dropped.
    struct Set(Pointer);
    impl Drop for Set {
        fn drop(&mut self) {
            self.0.set();
        }
    }

    let latch = Latch::new(in_task(|worker| {
        worker.recorder.section_begins(worker.frame.request);
        worker.code.waiter
    }));
    let set = Set(Pointer(&raw const latch));
    child().follows(accesses).spawn(move || drop(set));
    recorded(Awaits::Section, || wait_until(&latch));
}

/// Runs one descendant of the running task, if there is a ready one that its thread may begin now.
///
/// # Panics
/// Outside of tasks on a seat.
pub fn yield_to_descendants() {
    let has_children = in_task(|worker| worker.frame.context.is_some());
    if has_children {
        wait_within(&OneRound::default());
    }
}

/// Whether the calling seat's queue for immediate tasks holds any, for others to take: a task with more work hands on a
/// part of it when there are none.
///
/// # Panics
/// Outside of tasks on a seat.
pub fn has_queued() -> bool {
    in_task(|worker| match worker.tasks() {
        Some(own) => !own.is_empty(),
        None => {
            let (queue, _) = worker.shared.plan.place_of_task(worker.seat.stands(), Kind::Immediate);
            worker.shared.queued.queues.len(queue) > 0
        }
    })
}

impl ChildBuilder {
    /// Makes the child, to be spawned by its release; see [`HeldChild`]. This call fixes its order among its siblings.
    ///
    /// ```
    /// use vicus_machine::{MachineRuntime, child, wait_for_children};
    ///
    /// let runtime = MachineRuntime::builder().threads(2).start();
    /// runtime.run(|| {
    ///     let held = child().held(|| ());
    ///     let other = std::thread::spawn(move || held.release());
    ///     wait_for_children();
    ///     other.join().unwrap();
    /// });
    /// ```
    ///
    /// # Panics
    /// Outside of tasks on a seat.
    pub fn held(self, f: impl FnOnce() + Send + 'static) -> HeldChild {
        let said = self.into_said();
        in_task(|worker| {
            let context = worker.context();
            #[expect(unsafe_code, reason = "makes a task of a context of this task")]
            // SAFETY: the closure borrows nothing; the context is alive while it has open tasks.
            unsafe {
                hold_described(worker, context.as_ptr(), said, move |_| f())
            }
        })
    }
}
