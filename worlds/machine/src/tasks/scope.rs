//! Many closures, all over when the scope ends.

use super::data::{Graph, Node, Queued, Said, Turn};
use super::place::Place;
use super::slab::{BLOCK_ALIGN, BLOCK_BYTES};
use super::{Awaited, closure_class, ends};
use crate::runtime::Runtime;
use crate::worker::{self, AtOnce, Worker, in_task, is_seated, with_shared, with_worker};
use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::sync::{Arc, Mutex};
use vicus_schedule::{Kind, QueueId, RequestId, SeatId, TaskClass, TaskHeader, TaskRef};

/// Runs a closure that may spawn tasks, and returns when all of them are over. Tasks may borrow what lives longer than the
/// scope.
///
/// ```
/// let mut halves = [0, 0];
/// let (left, right) = halves.split_at_mut(1);
/// vicus_machine::scope(|scope| {
///     scope.spawn(|_| left[0] = 1);
///     scope.spawn_deferred(|_| right[0] = 2);
/// });
/// assert_eq!(halves, [1, 2]);
/// ```
///
/// # Panics
/// If the closure or a task panics, with what it panicked with, after all are over; the first one's if several do.
pub fn scope<'scope, R: Send>(f: impl FnOnce(&Scope<'scope>) -> R + Send) -> R {
    if is_seated() { in_place_scope(f) } else { Runtime::of_this_thread().run(|| in_place_scope(f)) }
}

/// As [`scope`], for a closure that has to stay on the calling thread.
///
/// # Panics
/// As [`scope`], and outside of tasks: see [`Runtime::run`].
pub fn in_place_scope<'scope, R>(f: impl FnOnce(&Scope<'scope>) -> R) -> R {
    assert!(is_seated(), "in_place_scope is called in a task; Runtime::run makes one, and scope does without");
    let (seat, request, runtime) =
        in_task(|worker| (worker.seat, worker.frame.request, Arc::as_ptr(&worker.shared).addr()));
    let scope = Scope {
        open: Open { own: AtomicIsize::new(0), others: AtomicIsize::new(0), seat },
        runtime,
        request,
        cancelled: AtomicBool::new(false),
        graph: Mutex::default(),
        panic: Mutex::new(None),
        tasks: PhantomData,
    };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    if scope.open.is_done() {
        in_task(|worker| worker.recorder.tasks_waited_for());
    } else {
        worker::wait(Some(request), &scope.open);
    }
    let panic = scope.panic.into_inner().expect("nothing panics under this lock");
    match result {
        Err(panic) => resume_unwind(panic),
        Ok(result) => panic.map_or(result, |panic| resume_unwind(panic)),
    }
}

/// Where tasks are spawned that are over before it ends.
pub struct Scope<'scope> {
    open: Open,
    /// The runtime whose seats its counts are about, by its address.
    runtime: usize,
    request: RequestId,
    cancelled: AtomicBool,
    /// Tasks that say what they read and write.
    graph: Mutex<Option<Box<Graph>>>,
    /// The first panic of a task.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    #[expect(clippy::type_complexity, reason = "what the scope may hold says what it is variant in")]
    tasks: PhantomData<Box<dyn FnOnce(&Scope<'scope>) + Send + Sync + 'scope>>,
}

impl<'scope> Scope<'scope> {
    /// Spawns an immediate task: one that shares most of its data with the task that spawns it. It is run soon and near.
    pub fn spawn(&self, f: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        self.put(Kind::Immediate, None, f);
    }

    /// Spawns a deferred task: one that begins something of its own. It is run where there is room.
    pub fn spawn_deferred(&self, f: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        self.put(Kind::Deferred, None, f);
    }

    /// Spawns a task for the neighbourhood of a node or a core group, where its data lies. A group without threads, or without a
    /// queue of its own under the strategy, stands for its node. Under a strategy without queues for places, or if nobody is
    /// nearer than the calling thread, it is a deferred task like any other.
    ///
    /// ```
    /// use vicus_machine::{Runtime, scope};
    ///
    /// let runtime = Runtime::builder().threads(2).strategy("shepherd".parse().unwrap()).start();
    /// let (node, group) = (runtime.topology().nodes[0].id, runtime.topology().core_groups[0].id);
    /// let mut sums = [0; 2];
    /// let [first, second] = &mut sums;
    /// runtime.run(|| scope(|scope| {
    ///     scope.spawn_at(node, |_| *first = 1);
    ///     scope.spawn_at(group, |_| *second = 2);
    /// }));
    /// assert_eq!(sums, [1, 2]);
    /// ```
    pub fn spawn_at(&self, place: impl Into<Place>, f: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        self.put(Kind::Deferred, Some(place.into()), f);
    }

    /// Drops the scope's tasks that have not begun. Those that run may ask [`Scope::is_cancelled`].
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the rest of the scope's work is not wanted any more.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Has a seat run a task that nobody else may run.
    pub(crate) fn call(&self, seat: SeatId, f: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        self.with_worker(|worker| {
            let number = worker.recorder.number();
            let task = HeapJob::task(worker, self, number, f);
            self.open.adds(worker.seat);
            worker.recorder.task_enqueued(task, Kind::Deferred);
            worker.shared.call(seat, task);
        });
    }

    /// As [`with_worker`]. Panics if the calling thread is not one of the scope's runtime.
    #[inline]
    fn with_worker<R>(&self, f: impl FnOnce(&mut Worker) -> R) -> R {
        let is_own = |worker: &Worker| Arc::as_ptr(&worker.shared).addr() == self.runtime;
        let result = with_worker(|worker| is_own(worker).then(|| f(worker)));
        let result = result.flatten();
        result.expect("a scope's tasks are spawned by its own closure or by its tasks, on its own runtime's threads")
    }

    fn put(&self, kind: Kind, place: Option<Place>, f: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        let at_once = self.with_worker(|worker| {
            let number = worker.recorder.number();
            let task = HeapJob::task(worker, self, number, f);
            self.open.adds(worker.seat);
            worker.spawn(task, kind, place)
        });
        at_once.run();
    }

    /// Spawns a task that has said what it reads and writes.
    pub(super) fn put_said(&self, said: Said, f: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        self.with_worker(|worker| self.spawn_said(worker, said, f)).run();
    }

    fn spawn_said(&self, worker: &mut Worker, said: Said, f: impl FnOnce(&Scope<'scope>) + Send + 'scope) -> AtOnce {
        let queue = match said.place {
            Some(place) => worker.home_of(place),
            None => worker.dealt_by_bytes(&said.accesses).or_else(|| worker.next_in_turn()),
        };
        let number = worker.recorder.number();
        if worker.recorder.keeps_events() {
            worker.record_footprint(number, &said.accesses);
        }
        let kind = said.kind.filter(|_| queue.is_none()).unwrap_or(Kind::Deferred);
        self.open.adds(worker.seat);
        if said.ordered.is_empty() {
            let task = HeapJob::task(worker, self, number, f);
            return worker.queue(Queued { task, kind, queue });
        }
        let node = Node::new();
        let mut graph = self.graph.lock().expect("nothing panics under this lock");
        graph.get_or_insert_default().add(&said.ordered, &node);
        drop(graph);
        let turn = Turn::new(&node);
        let task = HeapJob::task(worker, self, number, move |scope| {
            if turn.is_sound() {
                f(scope);
                turn.ends();
            }
        });
        // Those that it follows may have run elsewhere, and be over.
        worker.recorder.tasks_waited_for();
        worker.recorder.task_spawned(task);
        match node.is_spawned(Queued { task, kind, queue }) {
            Some(queued) => worker.lets_go(queued),
            None => AtOnce::NONE,
        }
    }

    fn keep_panic(&self, panic: Box<dyn Any + Send>) {
        keep_first(&self.panic, panic);
    }
}

/// Keeps a panic for who waits, if it is the first.
pub(super) fn keep_first(first: &Mutex<Option<Box<dyn Any + Send>>>, panic: Box<dyn Any + Send>) {
    let mut slot = first.lock().expect("nothing panics under this lock");
    let other = if slot.is_none() { slot.replace(panic) } else { Some(panic) };
    drop(slot);
    drop_quietly(other);
}

/// Drops a user's value where a panic would be nobody's to catch.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // It may panic as well when it is dropped.
        std::mem::forget(panic);
    }
}

/// How many tasks of a scope are not over: the sum of two counts.
///
/// What the scope's own seat spawns and runs it counts without atomic arithmetic. When it is about to sleep, it moves its count
/// to the others', of which the last one then wakes it.
struct Open {
    /// Written by the scope's seat alone.
    own: AtomicIsize,
    others: AtomicIsize,
    seat: SeatId,
}

impl Open {
    /// A task more, which `seat` spawns.
    #[inline]
    fn adds(&self, seat: SeatId) {
        if seat == self.seat {
            // Relaxed: nobody else writes it.
            self.own.store(self.own.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            // Relaxed: the task that spawns it is counted itself, so the scope does not end meanwhile.
            self.others.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A task less, which `seat` ran. The scope may be gone after this. Returns the seat that is to be asked whether the scope is over.
    #[inline]
    fn ends_one(&self, seat: SeatId) -> Option<SeatId> {
        let waiting = self.seat;
        if seat == waiting {
            self.own.store(self.own.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
            return None;
        }
        // Release: what the task did is done for the seat that waits. It sleeps, if it has moved its own count here.
        (self.others.fetch_sub(1, Ordering::AcqRel) == 1).then_some(waiting)
    }
}

impl Awaited for Open {
    #[inline]
    fn is_done(&self) -> bool {
        // Acquire: what others' tasks did.
        self.own.load(Ordering::Relaxed) + self.others.load(Ordering::Acquire) == 0
    }

    fn falls_asleep(&self) -> bool {
        let own = self.own.swap(0, Ordering::Relaxed);
        self.others.fetch_add(own, Ordering::AcqRel) + own != 0
    }
}

impl Worker {
    /// Queues a task of a scope.
    #[inline]
    fn spawn(&mut self, task: TaskRef, kind: Kind, place: Option<Place>) -> AtOnce {
        match place {
            Some(place) => {
                let queue = self.home_of(place);
                self.queue(Queued { task, kind, queue })
            }
            None => {
                self.recorder.task_enqueued(task, kind);
                let is_put = kind == Kind::Immediate && self.put_own(task).is_ok();
                if is_put { AtOnce::NONE } else { self.put_anywhere(task, kind) }
            }
        }
    }

    /// Puts a task that names no place where the plan wants it.
    pub(super) fn put_anywhere(&mut self, task: TaskRef, kind: Kind) -> AtOnce {
        match self.next_in_turn() {
            // This seat may not even look there.
            Some(queue) => self.put(task, queue, Kind::Deferred),
            None => self.put(task, self.shared.plan.seats[self.seat.index()].place[kind as usize], kind),
        }
    }

    /// The queue of the next task that names no place, if the plan deals these in turn.
    pub(super) fn next_in_turn(&mut self) -> Option<QueueId> {
        let queue = self.shared.plan.queue_in_turn(self.seat, self.turn, self.stack.waits as usize)?;
        self.turn = self.turn.wrapping_add(1);
        Some(queue)
    }

    /// The queue for what is to run near a place, if not here.
    fn home_of(&mut self, place: Place) -> Option<QueueId> {
        let node = match place {
            Place::Node(node) => node,
            Place::Group(group) => {
                if let Some(queue) = self.shared.group_queues.of(group) {
                    let own = self.shared.plan.seats[self.seat.index()].place[Kind::Deferred as usize];
                    return (queue != own).then_some(queue);
                }
                self.shared.topology().core_groups.get(group.index())?.node
            }
        };
        self.spawned = self.spawned.wrapping_add(1);
        self.shared.plan.home_queue(self.seat, node, self.spawned)
    }

    /// Queues a task that waits for nobody any more. Another seat may have spawned it, and others may have run what it waited for.
    pub(super) fn lets_go(&mut self, queued: Queued) -> AtOnce {
        self.recorder.tasks_waited_for();
        self.queue(queued)
    }

    /// Queues a task that waits for nobody.
    pub(super) fn queue(&mut self, queued: Queued) -> AtOnce {
        let Queued { task, kind, queue } = queued;
        self.recorder.task_enqueued(task, kind);
        if kind == Kind::Immediate && queue.is_none() && self.put_own(task).is_ok() {
            return AtOnce::NONE;
        }
        // Who is sent elsewhere shares nothing with this seat, which may not even look there.
        let kind = if queue.is_some() { Kind::Deferred } else { kind };
        let queue = queue.unwrap_or(self.shared.plan.seats[self.seat.index()].place[kind as usize]);
        self.put(task, queue, kind)
    }
}

/// A closure in a block of its own: the seat's slab's, or of the heap if it is large.
#[repr(C)]
struct HeapJob<F> {
    /// First, so that its address is the job's.
    header: TaskHeader,
    scope: *const (),
    f: F,
}

impl<'scope, F: FnOnce(&Scope<'scope>) + Send + 'scope> HeapJob<F> {
    const CLASS: &'static TaskClass = &closure_class(run::<F>);

    /// Whether it fits into a block of the slab.
    const IS_SMALL: bool = size_of::<HeapJob<F>>() <= BLOCK_BYTES && align_of::<HeapJob<F>>() <= BLOCK_ALIGN;

    fn task(worker: &mut Worker, scope: &Scope<'scope>, number: u32, f: F) -> TaskRef {
        let header = TaskHeader { class: Self::CLASS, request: scope.request, number };
        let job = HeapJob { header, scope: std::ptr::from_ref(scope).cast(), f };
        let block: *mut HeapJob<F> = if Self::IS_SMALL {
            let block = worker.slab.take(&worker.shared.blocks).as_ptr().cast();
            #[expect(unsafe_code, reason = "writes into a fresh block")]
            // SAFETY: it is large enough, aligned, and nobody else's.
            unsafe {
                std::ptr::write(block, job);
            }
            block
        } else {
            Box::into_raw(Box::new(job))
        };
        #[expect(unsafe_code, reason = "a task on the heap")]
        // SAFETY: the header is the job's first field; it stays until it is run; its closure is `Send`, and lives as long as
        // the scope, which waits for it.
        unsafe {
            TaskRef::new(NonNull::new_unchecked(block.cast()))
        }
    }

    /// Takes the job out of its block, which goes back.
    ///
    /// # Safety
    /// `task` is from [`HeapJob::task`] with this closure, and taken once, on a seat of the same runtime.
    #[expect(unsafe_code, reason = "follows a task pointer")]
    unsafe fn take(worker: &mut Worker, task: TaskRef) -> HeapJob<F> {
        let block = task.as_ptr().cast::<HeapJob<F>>();
        // SAFETY: the caller's promise.
        unsafe {
            if Self::IS_SMALL {
                let job = block.read();
                worker.slab.give(&worker.shared.blocks, block.cast());
                job
            } else {
                *Box::from_raw(block.as_ptr())
            }
        }
    }
}

/// Runs a job that was taken out of a queue.
#[expect(unsafe_code, reason = "the type of a class's functions")]
// SAFETY of callers: `task` is of a `HeapJob<F>` that was not run.
unsafe fn run<'scope, F: FnOnce(&Scope<'scope>) + Send + 'scope>(task: TaskRef) {
    let (job, is_stopped) = in_task(|worker| {
        worker.begins(task);
        let is_stopped = worker.shared.requests_of_tasks.is_stopped(task.header().request);
        // SAFETY: the caller's promise.
        (unsafe { HeapJob::<F>::take(worker, task) }, is_stopped)
    });
    // SAFETY: the scope waits for its jobs.
    let scope = unsafe { &*job.scope.cast::<Scope<'scope>>() };
    let is_dropped = is_stopped || scope.is_cancelled();
    let f = AssertUnwindSafe(|| if is_dropped { drop(job.f) } else { (job.f)(scope) });
    if let Err(panic) = catch_unwind(f) {
        scope.keep_panic(panic);
    }
    ends(&job.header);
    if let Some(seat) = in_task(|worker| scope.open.ends_one(worker.seat)) {
        with_shared(|shared| shared.ask(seat));
    }
}
