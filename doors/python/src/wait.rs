//! Waits that look for signals: Python runs the handlers of signals on its main thread, and only while that thread has
//! the interpreter.

use crate::attached;
use crate::errors::{Failure, Outcome, exception};
use crate::options;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::any::Any;
use std::cell::Cell;
use std::ffi::c_long;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vicus_service::{Ask, Cancel, Error};

/// How long a wait is at most without a look for signals. Ctrl-C is promised to end a call within 100 ms.
pub(crate) const SLICE: Duration = Duration::from_millis(20);

thread_local! {
    /// Whether this thread is the main one of this process, once it was asked: in a forked child another one may be.
    static IS_MAIN: Cell<Option<(u32, bool)>> = const { Cell::new(None) };
}

/// Whether this is the thread that runs the handlers of signals.
pub(crate) fn is_main(py: Python<'_>) -> bool {
    known_main().unwrap_or_else(|| {
        let asked = || -> PyResult<bool> {
            let threading = py.import("threading")?;
            Ok(threading.call_method0("current_thread")?.is(threading.call_method0("main_thread")?))
        };
        // Without an answer, signals are looked for.
        let is_main = asked().unwrap_or(true);
        IS_MAIN.set(Some((std::process::id(), is_main)));
        is_main
    })
}

/// The ends of a call before its work is done: its handle, and its time.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// The handle of this call alone: the caller's cancels it, and other calls with that one go on when this one ends.
    pub(crate) cancel: Cancel,
    until: Option<Instant>,
    is_late: AtomicBool,
}

impl Bounds {
    /// `timeout` is in seconds.
    pub(crate) fn new(cancel: Option<&Bound<'_, options::Cancel>>, timeout: Option<f64>) -> Outcome<Bounds> {
        let time = timeout.map(seconds).transpose()?;
        Ok(Bounds::within(cancel.map_or_else(Cancel::new, |cancel| cancel.get().0.child()), time))
    }

    /// Those of a call whose time is looked at elsewhere.
    pub(crate) fn of(cancel: Cancel) -> Bounds {
        Bounds { cancel, until: None, is_late: AtomicBool::new(false) }
    }

    /// The variant that also looks at the time.
    pub(crate) fn within(cancel: Cancel, time: Option<Duration>) -> Bounds {
        let until = time.and_then(|time| Instant::now().checked_add(time));
        Bounds { cancel, until, is_late: AtomicBool::new(false) }
    }

    /// Cancels the call if its time is up.
    pub(crate) fn end_if_late(&self) {
        if self.until.is_some_and(|until| Instant::now() >= until) && !self.cancel.is_cancelled() {
            self.is_late.store(true, Ordering::Relaxed);
            self.cancel.cancel();
        }
    }

    /// How long a wait is at most, until the next look.
    pub(crate) fn slice(&self) -> Duration {
        self.until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()).min(SLICE))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// The failure of a call that was cancelled is its end.
    pub(crate) fn told(&self, failure: Failure) -> Failure {
        match (self.is_over(), self.is_late.load(Ordering::Relaxed)) {
            (false, _) => failure,
            (true, false) => Error::Cancelled.into(),
            (true, true) => Failure::new("Timeout", "its time was up: it was cancelled"),
        }
    }

    /// A question whether work is to go on.
    pub(crate) fn ask(&self) -> Ask {
        asking(&self.cancel)
    }
}

/// A number of seconds.
pub(crate) fn seconds(timeout: f64) -> Outcome<Duration> {
    Duration::try_from_secs_f64(timeout)
        .map_err(|_| Failure::argument(format_args!("timeout is a number of seconds, and {timeout} is none")))
}

/// The end of a short wait: so many seconds from now, or a minute.
pub(crate) fn until(timeout: f64) -> Outcome<Instant> {
    Ok(Instant::now() + seconds(timeout)?.min(Duration::from_secs(60)))
}

/// Does work that `bounds` end, without the interpreter. A thread of its own works if this one has to look for signals,
/// or for the time; if a handler raises, the work is cancelled, and the exception is the result.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    bounds: &Bounds,
    work: impl FnOnce() -> Outcome<T> + Send,
) -> Outcome<T> {
    let guarded = move || catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(of_panic(&*panic)));
    if !is_main(py) && bounds.until.is_none() {
        return py.detach(guarded).map_err(|failure| bounds.told(failure));
    }
    let (raised, outcome) = py.detach(|| {
        let (done, mut raised) = (OutcomeCell::default(), None);
        std::thread::scope(|scope| {
            if let Err(error) = thread().spawn_scoped(scope, || done.tell(guarded())) {
                return (None, Err(no_thread(error)));
            }
            loop {
                if let Some(outcome) = done.wait(bounds.slice()) {
                    return (raised, outcome);
                }
                bounds.end_if_late();
                if let Some(error) = signalled(&bounds.cancel) {
                    raised.get_or_insert(error);
                }
            }
        })
    });
    // An exception counts, even if the work was over by then.
    raised.map_or_else(|| outcome.map_err(|failure| bounds.told(failure)), |raised| Err(Failure::Python(raised)))
}

/// How long a call that was cancelled waits for code that can't be told so, before it leaves it to its thread.
pub(crate) const GRACE: Duration = Duration::from_millis(50);

/// Does work of which a part may be deaf: code of users, or a file system that hangs. When it is cancelled, `nudge` is
/// called now and then, and after a while the work is left to its thread, where it ends unseen.
pub(crate) fn leaving<T: Send + 'static>(
    py: Python<'_>,
    bounds: &Bounds,
    mut nudge: impl FnMut(Python<'_>),
    work: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    let done = Arc::new(OutcomeCell::default());
    let teller = Arc::clone(&done);
    let guarded = move || catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(of_panic(&*panic)));
    let body = move || {
        let _unfinished = UnfinishedWork::begin();
        teller.tell(guarded());
    };
    py.detach(|| thread().spawn(body)).map_err(no_thread)?;
    let (mut raised, mut left_at) = (None, None);
    loop {
        let outcome = py.detach(|| done.wait(bounds.slice()));
        if outcome.is_none() {
            bounds.end_if_late();
            if let Err(error) = py.check_signals() {
                bounds.cancel.cancel();
                raised.get_or_insert(error);
            }
            if !bounds.is_over() {
                continue;
            }
            nudge(py);
            if Instant::now() < *left_at.get_or_insert_with(|| Instant::now() + GRACE) {
                continue;
            }
        }
        return match (raised, outcome) {
            (Some(raised), _) => Err(Failure::Python(raised)),
            (None, Some(outcome)) => outcome.map_err(|failure| bounds.told(failure)),
            (None, None) => Err(bounds.told(Error::Cancelled.into())),
        };
    }
}

/// Work that may go on when its call is over.
pub(crate) struct UnfinishedWork;

static UNFINISHED: AtomicUsize = AtomicUsize::new(0);

impl UnfinishedWork {
    pub(crate) fn begin() -> UnfinishedWork {
        UNFINISHED.fetch_add(1, Ordering::AcqRel);
        UnfinishedWork
    }
}

impl Drop for UnfinishedWork {
    fn drop(&mut self) {
        UNFINISHED.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The interpreter is about to end: waits until no such work is left, for so many seconds or a minute at most. Then
/// threads are taken down where they next want it, and Rust's frames bear that no more than the process's end.
#[pyfunction]
pub(crate) fn wait_for_unfinished(py: Python<'_>, seconds: f64) -> PyResult<()> {
    let until = until(seconds).map_err(|failure| exception(py, failure, None))?;
    attached::leave_states();
    py.detach(|| {
        while UNFINISHED.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    Ok(())
}

/// The outcome of work on another thread.
struct OutcomeCell<T>(Mutex<Option<T>>, Condvar);

impl<T> Default for OutcomeCell<T> {
    fn default() -> OutcomeCell<T> {
        OutcomeCell(Mutex::new(None), Condvar::new())
    }
}

impl<T> OutcomeCell<T> {
    fn tell(&self, outcome: T) {
        *lock(&self.0) = Some(outcome);
        self.1.notify_all();
    }

    fn wait(&self, at_most: Duration) -> Option<T> {
        let outcome = lock(&self.0);
        let waited = self.1.wait_timeout_while(outcome, at_most, |outcome| outcome.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

fn thread() -> std::thread::Builder {
    std::thread::Builder::new().name("vicus call".to_owned()).stack_size(STACK_BYTES)
}

fn no_thread(error: std::io::Error) -> Failure {
    Failure::new("Busy", format_args!("no thread can be had for the call: {error}"))
}

/// The threads on which users' code works for a call. An exception ends such code between two of its steps.
#[derive(Default)]
pub(crate) struct UserThreads {
    /// Their numbers, as Python has them.
    threads: Mutex<Vec<c_long>>,
    /// `threading.Thread`s that such code has of its own.
    own: Mutex<Vec<Py<PyAny>>>,
    /// Exceptions were raised in threads inside.
    is_interrupted: AtomicBool,
}

impl UserThreads {
    /// From now on the calling thread may be interrupted, until it has [left](UserThreads::leave); and so may a thread
    /// that its code has.
    pub(crate) fn enter(&self, _py: Python<'_>, thread: c_long, own: Option<Py<PyAny>>) {
        lock(&self.threads).push(thread);
        lock(&self.own).extend(own);
    }

    pub(crate) fn leave(&self, _py: Python<'_>, thread: c_long, own: Option<&Py<PyAny>>) {
        let mut inside = lock(&self.threads);
        if let Some(at) = inside.iter().position(|other| *other == thread) {
            inside.swap_remove(at);
        }
        drop(inside);
        if let Some(own) = own {
            lock(&self.own).retain(|other| other.as_ptr() != own.as_ptr());
        }
        if self.is_interrupted.load(Ordering::Acquire) {
            // It may have come behind the last step of the code: the next code on this thread is another call's.
            raise_in(thread, std::ptr::null_mut());
        }
    }

    /// Raises the package's `_Ended` in all of them.
    pub(crate) fn interrupt(&self, py: Python<'_>) {
        let Ok(ended) = py.import("vicus._errors").and_then(|module| module.getattr("_Ended")) else { return };
        let raise = |thread| raise_in(thread, ended.as_ptr());
        self.is_interrupted.store(true, Ordering::Release);
        // Not under the lock, since Python runs: a thread with the interpreter might wait for the lock meanwhile.
        let own: Vec<Py<PyAny>> = lock(&self.own).iter().map(|thread| thread.clone_ref(py)).collect();
        for thread in own {
            // The number of a thread that is over may be another one's.
            let is_alive = thread.call_method0(py, "is_alive").and_then(|alive| alive.is_truthy(py));
            let number = thread.getattr(py, "ident").and_then(|number| number.extract::<c_long>(py));
            if let (Ok(true), Ok(number)) = (is_alive, number) {
                raise(number);
            }
        }
        // Under the lock: a thread that has left may be inside for another call.
        lock(&self.threads).iter().copied().for_each(raise);
    }
}

/// Has an exception raised in a thread at its next step; null takes it back. The caller has the interpreter.
fn raise_in(thread: c_long, exception: *mut pyo3::ffi::PyObject) {
    #[expect(unsafe_code, reason = "PyO3 has no call of its own for it")]
    // SAFETY: the caller has the interpreter. Of a thread that is no more nothing happens.
    unsafe {
        pyo3::ffi::PyThreadState_SetAsyncExc(thread, exception);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number that Python has for the calling thread.
pub(crate) fn ident(py: Python<'_>) -> PyResult<c_long> {
    static GET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let get = GET.get_or_try_init(py, || Ok::<_, PyErr>(py.import("threading")?.getattr("get_ident")?.unbind()))?;
    get.bind(py).call0()?.extract()
}

/// Bytes of stack for a call on a thread of its own.
const STACK_BYTES: usize = 16 << 20;

/// Looks for signals. If a handler raises, cancels.
pub(crate) fn signalled(cancel: &Cancel) -> Option<PyErr> {
    Python::attach(|py| py.check_signals()).err().inspect(|_| cancel.cancel())
}

/// The end of the next slice of a wait on this thread; none if signals are another thread's.
pub(crate) fn slice(is_main: bool) -> Option<Instant> {
    is_main.then(|| Instant::now() + SLICE)
}

pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Failure {
    Failure::new("InternalError", panic_text(panic))
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message")
}

/// Whether this thread has said that it is the main one. Needs no interpreter.
pub(crate) fn is_known_main() -> bool {
    known_main().unwrap_or(false)
}

fn known_main() -> Option<bool> {
    IS_MAIN.get().filter(|(process, _)| *process == std::process::id()).map(|(_, is_main)| is_main)
}

/// Does something without the interpreter, on a thread that may have it or not.
pub(crate) fn without_interpreter<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    #[expect(unsafe_code, reason = "PyO3 has no call of its own for it")]
    // SAFETY: it reads what the interpreter keeps for this thread, and needs no lock.
    let is_known = unsafe { !pyo3::ffi::PyGILState_GetThisThreadState().is_null() };
    // A thread that the interpreter has never seen has no lock of its own, and asks for none.
    if is_known { Python::attach(|py| py.detach(work)) } else { work() }
}

/// The question of a wait whether it is to go on.
pub(crate) fn asking(cancel: &Cancel) -> Ask {
    let cancel = cancel.clone();
    Arc::new(move |_| if cancel.is_cancelled() { Err(Error::Cancelled.into()) } else { Ok(()) })
}

/// Has an exception of a signal's handler raised when Python goes on.
pub(crate) fn raise_later(py: Python<'_>, raised: PyErr) {
    // Ctrl-C comes once more; another handler's exception is shown.
    if raised.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) {
        #[expect(unsafe_code, reason = "PyO3 has no call of its own for it")]
        // SAFETY: it sets a flag of the interpreter, whose lock is held.
        unsafe {
            pyo3::ffi::PyErr_SetInterrupt();
        }
    } else {
        raised.write_unraisable(py, None);
    }
}
