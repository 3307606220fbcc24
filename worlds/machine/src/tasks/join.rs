//! Two closures, perhaps at the same time.

use crate::queues::deque::Deque;
use crate::runtime::handle::MachineRuntime;
use crate::runtime::latch::Latch;
use crate::runtime::worker::class::{closure_class, end_task, with_descendants};
use crate::runtime::worker::context::recorded;
use crate::runtime::worker::{self, AtOnce, Worker, in_task, is_seated, run_on_top, with_shared};
use std::any::Any;
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use vicus_schedule::{Kind, QueueId, SpawnTarget, TaskClass, TaskHeader, TaskRef};
use vicus_trace::Awaits;

/// Runs two closures and returns their results. Another thread of the caller's [`MachineRuntime`] may run the second
/// one while the first one runs; if none has taken it by then, this thread does. The second one is an immediate task:
/// it is run near. Usually it takes no lock and allocates nothing.
///
/// ```
/// let runtime = vicus_machine::MachineRuntime::builder().threads(2).start();
/// assert_eq!(runtime.run(|| vicus_machine::join(|| 1, || 2)), (1, 2));
/// ```
///
/// # Panics
/// If one of them panics, with its panic, after both are over; with the first one's if both do. Outside of a runtime
/// ([`is_in_runtime`](crate::is_in_runtime)).
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    join_or(MachineRuntime::of_no_thread, a, b)
}

/// Like [`join`]; outside of a runtime, it uses this one.
#[inline]
pub fn join_or<A, B, RA, RB>(outside: fn() -> &'static MachineRuntime, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    if is_seated() { join_here(a, b) } else { MachineRuntime::of_this_thread_or(outside).run(|| join_here(a, b)) }
}

#[inline]
fn join_here<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    let job = in_task(|worker| StackJob::new(worker, b));
    let task = job.task();
    let (queue, at_once) = in_task(|worker| put_second(worker, task));
    at_once.run();
    let a = match catch_unwind(AssertUnwindSafe(a)) {
        Ok(a) => a,
        Err(panic) => {
            // Data borrowed by the second one may be gone with this frame.
            if take_back_from_panic(task, queue) {
                job.forget();
                in_task(|worker| record_end_of_second(worker, task));
            } else {
                wait_for(&job.latch);
                job.drop_result();
            }
            resume_unwind(panic);
        }
    };
    if take_back(task, queue) {
        let b = job.run_here();
        in_task(|worker| record_end_of_second(worker, task));
        return (a, b);
    }
    wait_for(&job.latch);
    (a, job.result())
}

/// Takes a task back from its queue, or with `None` from the seat's own lock-free one. `false` if another seat has it.
#[inline]
fn take_back(task: TaskRef, queue: Option<QueueId>) -> bool {
    match in_task(|worker| try_take_back(worker, task, queue)) {
        Ok(is_back) => is_back,
        Err(younger) => take_back_from_below(younger, task, queue),
    }
}

/// Goes on after [`take_back`] returned a younger task, spawned but not awaited by the first closure.
#[cold]
#[inline(never)]
fn take_back_from_below(mut younger: TaskRef, task: TaskRef, queue: Option<QueueId>) -> bool {
    loop {
        let way = in_task(|worker| worker.seat.own_way());
        run_on_top(younger, way);
        match in_task(|worker| try_take_back(worker, task, queue)) {
            Ok(is_back) => return is_back,
            Err(another) => younger = another,
        }
    }
}

/// Like [`take_back`], but not inlined: only the usual path inlines it.
#[cold]
#[inline(never)]
fn take_back_from_panic(task: TaskRef, queue: Option<QueueId>) -> bool {
    take_back(task, queue)
}

#[cold]
#[inline(never)]
fn wait_for(latch: &Latch) {
    let request = in_task(|worker| worker.frame.request);
    recorded(Awaits::Section, || worker::wait(Some(request), latch));
}

/// Puts a task of a `join` into the plan's queue for immediate tasks without a place. Returns its queue, unless
/// this is the seat's own lock-free one.
#[inline]
fn put_second(worker: &mut Worker, task: TaskRef) -> (Option<QueueId>, AtOnce) {
    worker.recorder.section_begins(worker.frame.request);
    worker.record_queued(task, Kind::Immediate, true);
    if worker.put_own(task).is_ok() { (None, AtOnce::NONE) } else { put_elsewhere(worker, task) }
}

/// Takes a task back out of its queue. Returns whether it was still there. An error is a younger task, to be run
/// before the next try.
#[inline]
fn try_take_back(worker: &mut Worker, task: TaskRef, queue: Option<QueueId>) -> Result<bool, TaskRef> {
    if let Some(queue) = queue {
        return Ok(remove(worker, queue, task));
    }
    if worker.seat.take_back(&task) {
        record_taken_back(worker, task);
        return Ok(true);
    }
    match worker.own().and_then(Deque::pop) {
        Some(youngest) if youngest == task => {
            record_taken_back(worker, task);
            Ok(true)
        }
        Some(younger) => Err(younger),
        None => Ok(false),
    }
}

#[cold]
#[inline(never)]
fn put_elsewhere(worker: &mut Worker, task: TaskRef) -> (Option<QueueId>, AtOnce) {
    match worker.seat.place_second(&worker.shared.plan) {
        SpawnTarget::Keep => {
            worker.keep(task);
            (None, AtOnce::NONE)
        }
        SpawnTarget::Into(queue, kind) => (Some(queue), worker.put(task, queue, kind)),
    }
}

#[inline]
fn record_taken_back(worker: &mut Worker, task: TaskRef) {
    if worker.recorder.is_on() {
        worker.recorder.task_taken(task, worker.seat.own_way(), false);
        worker.recorder.task_begins(task);
    }
}

/// The task with the `join` has run or dropped its second closure itself.
#[inline]
fn record_end_of_second(worker: &mut Worker, task: TaskRef) {
    if worker.recorder.is_on() {
        worker.recorder.task_ends(task.header());
        worker.recorder.section_ends(worker.frame.request);
    }
}

/// Takes a task out of its locked queue, or out of the tasks kept by this seat.
#[cold]
fn remove(worker: &mut Worker, queue: QueueId, task: TaskRef) -> bool {
    let found = worker.shared.queued.queues.remove(queue, task) || worker.seat.take_back(&task);
    if found {
        record_taken_back(worker, task);
    }
    found
}

/// A closure in the frame of the waiting thread.
#[repr(C)]
struct StackJob<F, R> {
    /// First, so that its address is the job's.
    header: TaskHeader,
    latch: Latch,
    work: UnsafeCell<Work<F, R>>,
}

/// The closure before it is run, and its result afterwards.
union Work<F, R> {
    f: ManuallyDrop<F>,
    result: ManuallyDrop<Result<R, Box<dyn Any + Send>>>,
}

impl<F: FnOnce() -> R, R> StackJob<F, R> {
    const CLASS: &'static TaskClass = &closure_class(run::<F, R>);

    #[inline]
    fn new(worker: &mut Worker, f: F) -> StackJob<F, R> {
        let number = worker.recorder.number();
        StackJob {
            header: worker.header(Self::CLASS, number),
            latch: Latch::new(worker.code.waiter),
            work: UnsafeCell::new(Work { f: ManuallyDrop::new(f) }),
        }
    }

    #[inline]
    fn task(&self) -> TaskRef {
        #[expect(unsafe_code, reason = "the task lies in this frame")]
        // SAFETY: the header is the job's first field; `join` takes the job back or waits for its latch before its
        // frame ends; closure and result are `Send`.
        unsafe {
            TaskRef::new(NonNull::new_unchecked(ptr::from_ref(self).cast_mut().cast()))
        }
    }

    /// Runs it on its maker's thread.
    #[inline]
    fn run_here(self) -> R {
        #[expect(unsafe_code, reason = "takes a closure that has not run")]
        // SAFETY: it was taken back, so its closure is still there, and is only taken here.
        let f = unsafe { ManuallyDrop::take(&mut (*self.work.get()).f) };
        f()
    }

    /// Drops it unrun.
    fn forget(self) {
        #[expect(unsafe_code, reason = "takes a closure that has not run")]
        // SAFETY: as in `run_here`.
        drop(unsafe { ManuallyDrop::take(&mut (*self.work.get()).f) });
    }

    fn result(self) -> R {
        #[expect(unsafe_code, reason = "takes the result that the run has left")]
        // SAFETY: the latch was set after the result was written.
        let result = unsafe { ManuallyDrop::take(&mut (*self.work.get()).result) };
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn drop_result(self) {
        #[expect(unsafe_code, reason = "takes the result that the run has left")]
        // SAFETY: as in `result`.
        drop(unsafe { ManuallyDrop::take(&mut (*self.work.get()).result) });
    }
}

/// Runs a job taken out of a queue.
#[expect(unsafe_code, reason = "the type of a class's functions")]
// SAFETY of callers: `task` is of a `StackJob<F, R>`, and its owner still waits.
unsafe fn run<F: FnOnce() -> R, R>(task: TaskRef) {
    let job: *const StackJob<F, R> = task.as_ptr().as_ptr().cast_const().cast();
    in_task(|worker| worker.begin_task(task));
    // SAFETY: the job's owner waits for it; its closure is only taken here.
    unsafe {
        let f = ManuallyDrop::take(&mut (*(*job).work.get()).f);
        let result = with_descendants(catch_unwind(AssertUnwindSafe(f)));
        (*(*job).work.get()).result = ManuallyDrop::new(result);
        end_task(task.header());
        with_shared(|shared| (*job).latch.set(shared));
    }
}
