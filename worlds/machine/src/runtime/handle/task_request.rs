//! Closures as requests of their own, beside their caller.

use crate::runtime::done::EndSignal;
use crate::runtime::handle::MachineRuntime;
use crate::runtime::requests::here::nest;
use crate::runtime::requests::nested::{Within, cancel_nested};
use crate::runtime::requests::open::Over;
use crate::runtime::requests::reserve::account_here;
use crate::runtime::seatless;
use crate::runtime::shared::RuntimeState;
use crate::runtime::worker::class::{closure_class, end_task, with_descendants};
use crate::runtime::worker::{Worker, in_task, outside, runs_task_of, with_worker};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};
use vicus_flow::drop_quietly;
use vicus_flow::{Account, Budget};
use vicus_schedule::{Context, ContextRef, RequestId, TaskClass, TaskHeader, TaskRef};

/// The request was cancelled before its closure had begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was cancelled before it began")
    }
}

impl std::error::Error for Cancelled {}

/// Whether the running task's request, scope or group was cancelled, or a box of the request has failed: a long task
/// checks now and then, and returns early. `false` outside of tasks and boxes.
///
/// ```
/// use std::sync::mpsc;
/// let runtime = vicus_machine::MachineRuntime::builder().threads(1).start();
/// let (begins, begun) = mpsc::channel();
/// let request = runtime.spawn(move || {
///     begins.send(()).unwrap();
///     while !vicus_machine::is_cancelled() {}
///     "enough"
/// });
/// begun.recv().unwrap();
/// request.cancel();
/// assert_eq!(request.wait(), Ok("enough"));
/// ```
pub fn is_cancelled() -> bool {
    with_worker(|worker| is_task_cancelled(worker)).unwrap_or_else(seatless::is_cancelled)
}

/// Whether the running task is cancelled, or its request.
fn is_task_cancelled(worker: &Worker) -> bool {
    #[expect(unsafe_code, reason = "follows a pointer")]
    // SAFETY: the running task is counted there.
    let parent = unsafe { worker.frame.parent.get() };
    worker.shared.ongoing.stopped.has(worker.frame.request) || parent.is_some_and(Context::is_cancelled)
}

impl MachineRuntime {
    /// Runs a closure as a request of its own, while the caller goes on. Requests are numbered in order of arrival, and
    /// strategies that distinguish requests prefer older ones.
    ///
    /// ```
    /// let runtime = vicus_machine::MachineRuntime::builder().threads(2).start();
    /// let sum = runtime.spawn(|| (0..1000).sum::<u64>());
    /// assert_eq!(sum.wait(), Ok(499_500));
    /// ```
    pub fn spawn<R: Send + 'static>(&self, f: impl FnOnce() -> R + Send + 'static) -> TaskRequest<R> {
        self.spawn_within(Budget::UNBOUNDED, f)
    }

    /// Like [`MachineRuntime::spawn`], with a budget for all its tasks together ([`reserve`](crate::reserve)): a number
    /// of bytes, or their share of a larger whole. In a task or a box it is a part of the surrounding request, as a
    /// [`Request`](crate::Request) is.
    pub fn spawn_within<R: Send + 'static>(
        &self,
        budget: impl Into<Budget>,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> TaskRequest<R> {
        let shared = &self.shared;
        let id = shared.ongoing.next_id();
        let answer = Arc::new(Answer(Mutex::new(State { is_over: false, result: None, waiting: Vec::new() })));
        shared.ongoing.closures.begin(id, Arc::clone(&answer) as _);
        shared.open_request(id);
        shared.ongoing.accounts.begin(id, Account::within(budget, account_here()));
        let queue = self.next_of(&shared.plan.entry);
        let number = shared.recording.as_ref().map_or(TaskHeader::UNNUMBERED, |recording| recording.task_submitted(id));
        let within = nest(shared, id);
        let task = RequestJob::task(id, number, f, &answer, within);
        shared.queued.queues.push(queue, task).unwrap_or_else(|_| panic!("an entry queue has no capacity"));
        shared.wake_for(queue, Some(id), true);
        TaskRequest { shared: Arc::clone(shared), id, answer }
    }
}

/// A closure running as a request. Dropping the handle lets it run on by itself.
pub struct TaskRequest<R> {
    shared: Arc<RuntimeState>,
    id: RequestId,
    answer: Arc<Answer<R>>,
}

impl<R> TaskRequest<R> {
    /// Its number; a smaller one is older.
    pub fn id(&self) -> u64 {
        self.id.number()
    }

    /// Waits until the closure has returned. If it is called in a task of the same runtime, the thread meanwhile runs
    /// tasks of the awaited request on top of the waiting one, and immediate tasks; under a strategy with one queue for
    /// both kinds, any.
    ///
    /// # Errors
    /// It was cancelled before it had begun.
    ///
    /// # Panics
    /// If the closure panicked, with its panic. If requests would wait in a circle: this one for another with a task
    /// beneath the calling one on its stack, or through others.
    pub fn wait(self) -> Result<R, Cancelled> {
        match self.answer.wait(runs_task_of(&self.shared).then_some(self.id)) {
            Some(Ok(result)) => Ok(result),
            Some(Err(panic)) => resume_unwind(panic),
            None => Err(Cancelled),
        }
    }

    /// Like [`TaskRequest::wait`], for one of several owners of the handle: the result stays in place.
    ///
    /// ```
    /// let runtime = vicus_machine::MachineRuntime::builder().threads(2).start();
    /// let request = runtime.spawn(|| 42);
    /// request.wait_until_over();
    /// assert!(request.is_done());
    /// assert_eq!(request.wait(), Ok(42));
    /// ```
    ///
    /// # Panics
    /// If requests would wait in a circle.
    pub fn wait_until_over(&self) {
        drop(self.answer.over(runs_task_of(&self.shared).then_some(self.id)));
    }

    /// Whether its closure has returned, or will never begin.
    pub fn is_done(&self) -> bool {
        self.answer.lock().is_over
    }

    /// Drops its tasks that have not begun, except those of `join`, whose results are needed; running ones may check
    /// [`is_cancelled`].
    pub fn cancel(&self) {
        self.shared.stop(self.id);
        cancel_nested(&self.shared, self.id);
    }
}

/// The result of a closure: its value or its panic, or none if it was cancelled.
type Outcome<R> = Option<std::thread::Result<R>>;

struct Answer<R>(Mutex<State<R>>);

struct State<R> {
    is_over: bool,
    /// Until it is taken.
    result: Outcome<R>,
    /// The waiting callers, to be told when it is over.
    waiting: Vec<Arc<EndSignal>>,
}

impl<R> Answer<R> {
    /// `request`: its number, if the calling thread is a seat of its runtime.
    fn wait(&self, request: Option<RequestId>) -> Outcome<R> {
        self.over(request).result.take()
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.0.lock().expect("nothing panics under this lock")
    }

    /// Waits until it is over.
    fn over(&self, request: Option<RequestId>) -> MutexGuard<'_, State<R>> {
        let mut state = self.lock();
        if state.is_over {
            return state;
        }
        let done = EndSignal::new();
        state.waiting.push(Arc::clone(&done));
        drop(state);
        done.wait(request);
        self.lock()
    }

    fn set(&self, result: Outcome<R>) {
        let mut state = self.lock();
        (state.is_over, state.result) = (true, result);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.iter().for_each(|done| done.set());
    }
}

impl<R: Send> Over for Answer<R> {
    fn wait_until_over(&self, request: Option<RequestId>) {
        drop(self.over(request));
    }
}

/// A request's closure, on the heap.
#[repr(C)]
struct RequestJob<F, R> {
    /// First, so that its address is the task's.
    header: TaskHeader,
    f: F,
    answer: Arc<Answer<R>>,
    within: Option<Within>,
}

impl<F: FnOnce() -> R, R> RequestJob<F, R> {
    const CLASS: &'static TaskClass = &closure_class(run::<F, R>);
}

impl<F: FnOnce() -> R + Send, R: Send> RequestJob<F, R> {
    fn task(request: RequestId, number: u32, f: F, answer: &Arc<Answer<R>>, within: Option<Within>) -> TaskRef {
        let header = TaskHeader { class: Self::CLASS, context: ContextRef::NONE, request, number, has_data: false };
        let job = Box::into_raw(Box::new(RequestJob { header, f, answer: Arc::clone(answer), within }));
        #[expect(unsafe_code, reason = "a task on the heap")]
        // SAFETY: the header is its first field; the job stays in place until it is run; closure and result are `Send`
        // and own their data.
        unsafe {
            TaskRef::new(NonNull::new_unchecked(job.cast()))
        }
    }
}

#[expect(unsafe_code, reason = "the type of a class's functions")]
// SAFETY of callers: `task` is of a `RequestJob<F, R>`, and was not run.
unsafe fn run<F: FnOnce() -> R, R>(task: TaskRef) {
    let shared = in_task(|worker| {
        worker.begin_task(task);
        Arc::clone(&worker.shared)
    });
    // SAFETY: the job was made of a Box.
    let RequestJob { header, f, answer, within } =
        unsafe { *Box::from_raw(task.as_ptr().as_ptr().cast::<RequestJob<F, R>>()) };
    let work = AssertUnwindSafe(|| -> Option<R> {
        let wanted = !shared.ongoing.stopped.has(header.request);
        wanted.then(f)
    });
    let result: Result<Option<R>, Box<dyn Any + Send>> = with_descendants(catch_unwind(work));
    end_task(&header);
    drop(within);
    shared.ongoing.open.end(header.request);
    shared.ongoing.stopped.remove(header.request);
    shared.ongoing.closures.end(header.request);
    shared.ongoing.accounts.end(header.request);
    answer.set(result.transpose());
    // If no handle is left, the result is dropped here.
    outside(|| drop_quietly(answer));
}
