//! A caller without a seat has a closure run on one, and waits.

use super::latch::Latch;
use super::reserve::account_here;
use super::waits::Waiting;
use super::{closure_class, end_task, with_descendants};
use crate::runtime::caller;
use crate::runtime::worker::{self, in_task, with_worker};
use crate::runtime::{Runtime, Shared};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use vicus_schedule::{ContextRef, RequestId, SeatId, TaskClass, TaskHeader, TaskRef};

impl Runtime {
    /// Runs a closure as a task on one of its threads, as a request of its own, and waits for it. There [`crate::join`]
    /// and [`crate::scope`] use this runtime. In a task of this runtime, it just calls the closure. In a task of
    /// another runtime, or in a box run by its caller, its tasks book their reservations ([`reserve`](crate::reserve))
    /// with the request around it. If a box is around it, they are cancelled with the box's request.
    ///
    /// ```
    /// let runtime = vicus_machine::Runtime::builder().threads(2).start();
    /// assert_eq!(runtime.run(|| vicus_machine::join(|| 1, || 2)), (1, 2));
    /// ```
    ///
    /// # Panics
    /// If the closure panics, with its panic.
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        if self.shared.is_here() {
            return f();
        }
        let queue = self.next_of(&self.shared.plan.entry);
        self.shared.wait_for_task(f, |task| {
            let request = task.header().request;
            self.shared.queues.push(queue, task).unwrap_or_else(|_| panic!("an entry queue has no capacity"));
            self.shared.wake_for(queue, Some(request), true);
        })
    }

    /// Runs a closure once on each of its threads, with the thread's number and the number of threads, and waits for
    /// all. OpenMP calls this a parallel region, but here a busy thread comes when its task is over or waits: calls
    /// that wait for one another, as at a barrier, may wait for ever if other callers use the threads as well.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// let runtime = vicus_machine::Runtime::builder().threads(2).start();
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
        // Regular seats come before spare ones.
        self.run(|| {
            crate::scope(|scope| {
                let f = &f;
                for thread in 0..threads {
                    scope.call(SeatId::new(thread), move |_| f(thread, threads));
                }
            });
        });
    }
}

/// While a caller's own box waits for tasks: how often the caller asks whether the box's request goes on.
const ASKS: Duration = Duration::from_millis(1);

impl Shared {
    /// Whether the calling thread runs a task of this runtime.
    pub(crate) fn is_here(&self) -> bool {
        with_worker(|worker| Arc::as_ptr(&worker.shared)) == Some(ptr::from_ref(self))
    }

    /// Runs a closure as the task handed to `put`, and sleeps until it is over.
    fn wait_for_task<R: Send>(self: &Arc<Shared>, f: impl FnOnce() -> R + Send, put: impl FnOnce(TaskRef)) -> R {
        let request = self.ongoing.next_id();
        let _booking = self.ongoing.accounts.lend(request, account_here());
        // Asked first: a request given up before it begins is cancelled as a part of the caller's request.
        _ = caller::is_given_up();
        self.open_request(request);
        let within = self.nest(request);
        let done = Done::new();
        let number =
            self.recording.as_ref().map_or(TaskHeader::UNNUMBERED, |recording| recording.task_submitted(request));
        let mut job = Call::new(request, number, f, &done);
        #[expect(unsafe_code, reason = "the task lies in this frame")]
        // SAFETY: the header is its first field; this frame waits until it was run; closure and result are `Send`.
        put(unsafe { TaskRef::new(NonNull::new_unchecked(ptr::from_mut(&mut job).cast())) });
        // `None`: the closure runs in another runtime, otherwise there would be no need to wait.
        done.wait(None);
        drop(within);
        self.ongoing.open.end(request);
        self.ongoing.stopped.remove(request);
        job.result.expect("it was run").unwrap_or_else(|panic| resume_unwind(panic))
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
    done: Arc<Done>,
}

impl<F: FnOnce() -> R, R> Call<F, R> {
    const CLASS: &'static TaskClass = &closure_class(run_call::<F, R>);

    fn new(request: RequestId, number: u32, f: F, done: &Arc<Done>) -> Call<F, R> {
        let header = TaskHeader { class: Self::CLASS, context: ContextRef::NONE, request, number, has_data: false };
        Call { header, f: Some(f), result: None, done: Arc::clone(done) }
    }
}

/// Tells a caller the end of the awaited closure.
pub(crate) enum Done {
    /// A sleeping thread.
    Thread { is_done: Mutex<bool>, changed: Condvar },
    /// A seat, at work there meanwhile: the awaited closure may be a task of the same runtime, or call back into it.
    Seat(Latch, Arc<Shared>),
}

impl Done {
    /// For the calling thread.
    pub(crate) fn new() -> Arc<Done> {
        let seated = with_worker(|worker| Done::Seat(Latch::new(worker.waiter), Arc::clone(&worker.shared)));
        Arc::new(seated.unwrap_or_else(|| Done::Thread { is_done: Mutex::new(false), changed: Condvar::new() }))
    }

    /// Called by the thread that made it. A seat waiting for a request of its own runtime runs tasks of that request,
    /// and else of any. A thread without a seat asks meanwhile whether its box's request goes on; a request given up
    /// cancels the awaited tasks.
    pub(crate) fn wait(&self, request: Option<RequestId>) {
        if !caller::is_caller() || !self.wait_unless(caller::is_given_up) {
            self.wait_on(request);
        }
    }

    fn wait_on(&self, request: Option<RequestId>) {
        match self {
            Done::Thread { is_done, changed } => {
                let is_done = is_done.lock().expect("nothing panics under this lock");
                drop(changed.wait_while(is_done, |is_done| !*is_done).expect("nothing panics under this lock"));
            }
            Done::Seat(latch, shared) => {
                let _waiting = request.map(|request| Waiting::begin(shared, request));
                worker::wait(request, latch);
            }
        }
    }

    /// Like [`Done::wait_on`] without a request; a thread without a seat asks now and then whether it stops waiting.
    /// Returns whether it is done. `stops` does not panic.
    fn wait_unless(&self, stops: impl Fn() -> bool) -> bool {
        let Done::Thread { is_done, changed } = self else {
            self.wait_on(None);
            return true;
        };
        loop {
            let lock = is_done.lock().expect("nothing panics under this lock");
            let (lock, _) =
                changed.wait_timeout_while(lock, ASKS, |is_done| !*is_done).expect("nothing panics under this lock");
            if *lock {
                return true;
            }
            drop(lock);
            if stops() {
                return false;
            }
        }
    }

    pub(crate) fn set(&self) {
        match self {
            Done::Thread { is_done, changed } => {
                *is_done.lock().expect("nothing panics under this lock") = true;
                changed.notify_one();
            }
            Done::Seat(latch, shared) => latch.set(shared),
        }
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
