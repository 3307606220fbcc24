//! Many closures, all over when the scope ends.

use super::description::{TaskDescription, spawn_described};
use super::place::assert_known;
use crate::runtime::handle::MachineRuntime;
use crate::runtime::worker::context::wait_for;
use crate::runtime::worker::job::{Job, OfSeat};
use crate::runtime::worker::{Worker, in_task, is_seated, with_worker};
use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::{Arc, Mutex};
use vicus_flow::drop_quietly;
use vicus_schedule::{AwaitedTasks, Context, ContextRef, Kind, TaskRef};
use vicus_topology::Place;

/// Runs a closure that may spawn tasks, and returns when all of them are over. Tasks may borrow values that outlive the
/// scope.
///
/// ```
/// let runtime = vicus_machine::MachineRuntime::builder().threads(2).start();
/// let mut halves = [0, 0];
/// let (left, right) = halves.split_at_mut(1);
/// runtime.run(|| {
///     vicus_machine::scope(|scope| {
///         scope.spawn(|_| left[0] = 1);
///         scope.spawn_deferred(|_| right[0] = 2);
///     })
/// });
/// assert_eq!(halves, [1, 2]);
/// ```
///
/// # Panics
/// If the closure or a task panics, with its panic, after all are over; with the first one if several do. Outside of a
/// runtime ([`is_in_runtime`](crate::is_in_runtime)).
pub fn scope<'scope, R: Send>(f: impl FnOnce(&Scope<'scope>) -> R + Send) -> R {
    if is_seated() { in_place_scope(f) } else { MachineRuntime::of_this_thread().run(|| in_place_scope(f)) }
}

/// Like [`scope`], for a closure bound to the calling thread.
///
/// # Panics
/// As [`scope`], and outside of tasks: see [`MachineRuntime::run`].
pub fn in_place_scope<'scope, R>(f: impl FnOnce(&Scope<'scope>) -> R) -> R {
    assert!(is_seated(), "in_place_scope is called in a task; Runtime::run makes one");
    let scope = in_task(|worker| Scope {
        context: Context::of_scope(worker.frame.request, worker.owner()),
        runtime: Arc::as_ptr(&worker.shared).addr(),
        tasks: PhantomData,
    });
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    wait_for(&scope.context, AwaitedTasks::Subtrees);
    match result {
        Err(panic) => resume_unwind(panic),
        Ok(result) => scope.context.take_panic().map_or(result, |panic| resume_unwind(panic)),
    }
}

/// A scope: all tasks spawned in it are over before it ends.
#[repr(C)]
pub struct Scope<'scope> {
    /// First, so that its address is the scope's.
    context: Context,
    /// The address of the runtime with the seats of its counts.
    runtime: usize,
    #[expect(clippy::type_complexity, reason = "what the scope may hold says what it is variant in")]
    tasks: PhantomData<Box<dyn FnOnce(&Scope<'scope>) + Send + Sync + 'scope>>,
}

impl<'scope> Scope<'scope> {
    /// Spawns an immediate task: it shares most of its data with its spawner. It is run soon and near.
    pub fn spawn(&self, f: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        self.put(Kind::Immediate, f);
    }

    /// Spawns a deferred task: it begins a piece of work of its own. It is run on any free seat.
    pub fn spawn_deferred(&self, f: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        self.put(Kind::Deferred, f);
    }

    /// Spawns a task near its data: on a node or a core group. A group without threads, or without a queue of its own
    /// under the strategy, stands for its node. Under a strategy without queues for places, or if no thread is nearer
    /// than the calling one, it is a deferred task like any other. A thread with 64 waiting tasks on its stack runs it
    /// itself, so that stacks don't grow with the number of tasks.
    ///
    /// ```
    /// use vicus_machine::{MachineRuntime, scope};
    ///
    /// let runtime = MachineRuntime::builder().threads(2).strategy("shepherd".parse().unwrap()).start();
    /// let (node, group) = (runtime.topology().nodes[0].id, runtime.topology().core_groups[0].id);
    /// let mut sums = [0; 2];
    /// let [first, second] = &mut sums;
    /// runtime.run(|| scope(|scope| {
    ///     scope.spawn_at(node, |_| *first = 1);
    ///     scope.spawn_at(group, |_| *second = 2);
    /// }));
    /// assert_eq!(sums, [1, 2]);
    /// ```
    ///
    /// # Panics
    /// If the machine has no such place, with its name and how many there are.
    pub fn spawn_at(&self, place: impl Into<Place>, f: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        self.put_said(TaskDescription::at(place.into()), f);
    }

    /// Drops the scope's tasks that have not begun. Running ones may check [`Scope::is_cancelled`].
    pub fn cancel(&self) {
        self.context.cancel();
    }

    /// Whether the rest of the scope's work is no longer needed.
    pub fn is_cancelled(&self) -> bool {
        self.context.is_cancelled()
    }

    /// Like [`with_worker`]. Panics if the calling thread is not one of the scope's runtime.
    #[inline]
    fn with_worker<R>(&self, f: impl FnOnce(&mut Worker) -> R) -> R {
        let is_own = |worker: &Worker| Arc::as_ptr(&worker.shared).addr() == self.runtime;
        let result = with_worker(|worker| is_own(worker).then(|| f(worker)));
        let result = result.flatten();
        result.expect("a scope's tasks are spawned by its own closure or by its tasks, on its own runtime's threads")
    }

    fn put(&self, kind: Kind, f: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        let at_once = self.with_worker(|worker| {
            let task = self.job(worker, f);
            worker.spawn(task, kind)
        });
        at_once.run();
    }

    /// Spawns a task with a description.
    pub(super) fn put_said(&self, said: TaskDescription, f: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        said.place.inspect(|place| assert_known(*place));
        let at_once = self.with_worker(|worker| {
            #[expect(unsafe_code, reason = "the closure's lifetime is forgotten")]
            // SAFETY: as in `Scope::job`.
            unsafe {
                spawn_described(worker, ptr::from_ref(self).cast(), said, OfSeat, Self::in_context(f))
            }
        });
        at_once.run();
    }

    /// A task of this scope, for a queue.
    #[inline]
    fn job(&self, worker: &mut Worker, f: impl FnOnce(&Scope<'scope>) + Send + 'scope) -> TaskRef {
        #[expect(unsafe_code, reason = "the closure's lifetime is forgotten")]
        // SAFETY: the closure lives as long as the scope, and the scope's owner waits for it.
        unsafe {
            Job::task(worker, ptr::from_ref(self).cast(), false, OfSeat, Self::in_context(f))
        }
    }

    /// The closure of a task made with a pointer to this scope.
    #[inline]
    fn in_context(f: impl FnOnce(&Scope<'scope>) + Send + 'scope) -> impl FnOnce(ContextRef) + Send {
        |context: ContextRef| {
            let scope: *const Scope<'scope> = context.as_ptr().cast();
            #[expect(unsafe_code, reason = "a scope begins with its context")]
            // SAFETY: the pointer is to the whole of the scope that made this closure, and the scope waits for it.
            f(unsafe { &*scope });
        }
    }
}

/// Keeps a panic for the waiting thread, if it is the first one.
pub(super) fn keep_first(first: &Mutex<Option<Box<dyn Any + Send>>>, panic: Box<dyn Any + Send>) {
    let mut slot = first.lock().expect("nothing panics under this lock");
    let other = vicus_flow::keep_first(&mut slot, panic);
    drop(slot);
    drop_quietly(other);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::MachineRuntime;
    use crate::scope;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;
    use vicus_schedule::Decision;

    /// Whether one seat puts a deferred task into its own queue instead of its group's; `is_in_use` says whether the
    /// group's is in use.
    fn is_spilled(setting: &str, is_in_use: bool, has_another_request: bool) -> bool {
        let runtime = MachineRuntime::builder().threads(1).strategy(setting.parse().unwrap());
        let runtime = runtime.quiet().write_decisions().start();
        let [own, shared] = runtime.plan().seats[0].place;
        let (has_run, is_held) = (AtomicBool::new(false), AtomicBool::new(false));
        let holds = || {
            is_held.store(true, Ordering::Release);
            std::thread::sleep(Duration::from_millis(20));
        };
        std::thread::scope(|threads| {
            let another = runtime.run(|| {
                let another = has_another_request.then(|| runtime.spawn(|| ()));
                scope(|scope| {
                    if is_in_use {
                        threads.spawn(|| runtime.shared.queued.queues.hold(shared, holds));
                        while !is_held.load(Ordering::Acquire) {
                            std::thread::yield_now();
                        }
                    }
                    scope.spawn_deferred(|_| has_run.store(true, Ordering::Relaxed));
                });
                another
            });
            another.into_iter().for_each(|another| another.wait().unwrap());
        });
        assert!(has_run.into_inner());
        let (decisions, _) = runtime.recorded();
        let puts = |queue| decisions[0].iter().any(|made| matches!(made, Decision::Puts(_, to) if *to == queue));
        assert!(puts(own) != puts(shared), "{decisions:?}");
        puts(own)
    }

    #[test]
    fn a_deferred_task_spills_while_its_queue_is_in_use_and_its_request_is_alone() {
        assert!(is_spilled("vicus", true, false));
        assert!(!is_spilled("vicus", false, false));
        assert!(!is_spilled("vicus:spill=off", true, false));
        assert!(!is_spilled("las", true, false));
        assert!(!is_spilled("vicus", true, true));
    }
}
