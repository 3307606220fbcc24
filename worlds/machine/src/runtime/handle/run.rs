//! A caller without a seat has a closure run on one, and waits.

use crate::runtime::caller_here;
use crate::runtime::done::EndSignal;
use crate::runtime::handle::MachineRuntime;
use crate::runtime::requests::accounts::AccountUse;
use crate::runtime::requests::here::nest;
use crate::runtime::requests::nested::Within;
use crate::runtime::requests::reserve::account_here;
use crate::runtime::shared::RuntimeState;
use crate::runtime::worker::class::{closure_class, end_task, with_descendants};
use crate::runtime::worker::context::wait_for;
use crate::runtime::worker::in_task;
use crate::runtime::worker::job::{Job, OfSeat};
use crate::runtime::worker::{Worker, runs_task_of};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use vicus_schedule::{
    AwaitedTasks, Context, ContextRef, Kind, QueueId, RequestId, SeatId, TaskClass, TaskHeader, TaskRef,
};

impl MachineRuntime {
    /// Runs a closure as a task on one of its threads, as a request of its own, and waits for it. There [`crate::join`]
    /// and [`crate::scope`] use this runtime. In a task of this runtime, it just calls the closure. In a task of
    /// another runtime, or in a box run by its caller, its tasks book their reservations ([`reserve`](crate::reserve))
    /// with the request around it. If a box is around it, they are cancelled with the box's request.
    ///
    /// ```
    /// let runtime = vicus_machine::MachineRuntime::builder().threads(2).start();
    /// assert_eq!(runtime.run(|| vicus_machine::join(|| 1, || 2)), (1, 2));
    /// ```
    ///
    /// # Panics
    /// If the closure panics, with its panic.
    // Not inlined: in a function that calls `join`, it would take the room for which the function itself is inlined.
    #[inline(never)]
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        if runs_task_of(&self.shared) {
            return f();
        }
        let queue = self.next_of(&self.shared.plan.entry);
        wait_for_task(&self.shared, f, queue)
    }

    /// Runs a closure once on each of its threads, with the thread's number and the number of threads, and waits for
    /// all. OpenMP calls this a parallel region, but here a busy thread comes when its task is over or waits: calls
    /// that wait for one another, as at a barrier, may wait for ever if other callers use the threads as well.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// let runtime = vicus_machine::MachineRuntime::builder().threads(2).start();
    /// let sum = AtomicUsize::new(0);
    /// runtime.on_each_thread(|thread, threads| {
    ///     assert_eq!(threads, 2);
    ///     sum.fetch_add(thread + 1, Ordering::Relaxed);
    /// });
    /// assert_eq!(sum.into_inner(), 3);
    /// ```
    ///
    /// # Panics
    /// If the closure panics, with its panic, after all are over.
    pub fn on_each_thread(&self, f: impl Fn(usize, usize) + Sync) {
        let threads = self.plan().threads();
        self.run(|| {
            let context = in_task(|worker| Context::of_scope(worker.frame.request, worker.owner()));
            let called = catch_unwind(AssertUnwindSafe(|| {
                // Regular seats come before spare ones.
                (0..threads).for_each(|thread| in_task(|worker| call(worker, &context, &f, thread, threads)));
            }));
            wait_for(&context, AwaitedTasks::Subtrees);
            let panic = called.err().or_else(|| context.take_panic());
            if let Some(panic) = panic {
                resume_unwind(panic);
            }
        });
    }
}

/// Makes the seat of this number run `f` with the number, as a task reserved for it: of a context that its caller waits
/// for.
fn call(worker: &mut Worker, context: &Context, f: &(impl Fn(usize, usize) + Sync), thread: usize, threads: usize) {
    #[expect(unsafe_code, reason = "the closure's lifetime is forgotten")]
    // SAFETY: the only caller waits for all tasks of the context, and both references live longer.
    let task = unsafe { Job::task(worker, context, false, OfSeat, move |_| f(thread, threads)) };
    worker.recorder.task_enqueued(task, Kind::Deferred);
    worker.shared.call(SeatId::new(thread), task);
}

/// Runs a closure as a task in this entry queue, and sleeps until it is over.
fn wait_for_task<R: Send>(shared: &Arc<RuntimeState>, f: impl FnOnce() -> R + Send, queue: QueueId) -> R {
    let awaited = await_task(shared);
    let mut job = Call::new(awaited.request, awaited.number, f, &awaited.done);
    #[expect(unsafe_code, reason = "the task lies in this frame")]
    // SAFETY: the header is its first field; this frame waits until it was run; closure and result are `Send`.
    let task = unsafe { TaskRef::new(NonNull::new_unchecked(ptr::from_mut(&mut job).cast())) };
    shared.put_into_entry(queue, task);
    awaited.wait(shared);
    job.result.expect("it was run").unwrap_or_else(|panic| resume_unwind(panic))
}

/// A request for a task that the caller waits for.
fn await_task(shared: &Arc<RuntimeState>) -> Awaited<'_> {
    let request = shared.ongoing.next_id();
    let booking = shared.ongoing.accounts.lend(request, account_here());
    // Asked first: a request given up before it begins is cancelled as a part of the caller's request.
    _ = caller_here::is_given_up();
    shared.open_request(request);
    let within = nest(shared, request);
    let number =
        shared.recording.as_ref().map_or(TaskHeader::UNNUMBERED, |recording| recording.task_submitted(request));
    Awaited { request, number, done: EndSignal::new(), within, booking }
}

/// A request for one task whose caller waits for it, apart from the task's type.
struct Awaited<'a> {
    request: RequestId,
    number: u32,
    done: Arc<EndSignal>,
    within: Option<Within>,
    booking: Option<AccountUse<'a>>,
}

impl Awaited<'_> {
    fn wait(self, shared: &RuntimeState) {
        // `None`: the closure runs in another runtime, otherwise there would be no need to wait.
        self.done.wait(None);
        drop(self.within);
        shared.ongoing.open.end(self.request);
        shared.ongoing.stopped.remove(self.request);
        drop(self.booking);
    }
}

/// A closure in the frame of a thread sleeping until its end.
#[repr(C)]
struct Call<F, R> {
    /// First, so that its address is the task's.
    header: TaskHeader,
    f: Option<F>,
    result: Option<Result<R, Box<dyn Any + Send>>>,
    /// In an allocation of its own, because the frame may be gone before the setting thread is done with it.
    done: Arc<EndSignal>,
}

impl<F: FnOnce() -> R, R> Call<F, R> {
    const CLASS: &'static TaskClass = &closure_class(run_call::<F, R>);

    fn new(request: RequestId, number: u32, f: F, done: &Arc<EndSignal>) -> Call<F, R> {
        let header = TaskHeader { class: Self::CLASS, context: ContextRef::NONE, request, number, has_data: false };
        Call { header, f: Some(f), result: None, done: Arc::clone(done) }
    }
}

#[expect(unsafe_code, reason = "the type of a class's functions")]
// SAFETY of callers: `task` is of an awaited `Call<F, R>`, and was not run.
unsafe fn run_call<F: FnOnce() -> R, R>(task: TaskRef) {
    in_task(|worker| worker.begin_task(task));
    // SAFETY: the thread with the call in its frame sleeps until it is done.
    unsafe {
        let call = &mut *task.as_ptr().as_ptr().cast::<Call<F, R>>();
        let f = call.f.take().expect("a task is run once");
        call.result = Some(with_descendants(catch_unwind(AssertUnwindSafe(f))));
        end_task(&call.header);
        let done = Arc::clone(&call.done);
        done.set();
    }
}
