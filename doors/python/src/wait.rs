//! Waits that look for signals: Python runs the handlers of signals on its main thread, and only while that thread has
//! the interpreter.

use crate::errors::{Failure, Outcome};
use pyo3::prelude::*;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
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

/// Does work that `cancel` ends, without the interpreter. On the main thread a thread of its own works, and the calling
/// one looks for signals; if a handler raises, the work is cancelled, and the exception is the result.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    cancel: &Cancel,
    work: impl FnOnce() -> Outcome<T> + Send,
) -> Outcome<T> {
    let guarded = move || catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(of_panic(&*panic)));
    if !is_main(py) {
        return py.detach(guarded);
    }
    py.detach(|| {
        let (done, changed) = (Mutex::new(None), Condvar::new());
        std::thread::scope(|scope| {
            let body = || {
                let outcome = guarded();
                *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
                changed.notify_all();
            };
            let spawned = std::thread::Builder::new().name("vicus call".to_owned()).stack_size(STACK_BYTES);
            if let Err(error) = spawned.spawn_scoped(scope, body) {
                return Err(Failure::new("Busy", format_args!("no thread can be had for the call: {error}")));
            }
            let mut raised = None;
            let mut outcome = done.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                if let Some(outcome) = outcome.take() {
                    // What is raised counts, even if the work was over by then.
                    return raised.map_or(outcome, |raised| Err(Failure::Python(raised)));
                }
                outcome = changed.wait_timeout(outcome, SLICE).unwrap_or_else(PoisonError::into_inner).0;
                if outcome.is_none() {
                    drop(outcome);
                    if let Some(error) = signalled(cancel) {
                        raised.get_or_insert(error);
                    }
                    outcome = done.lock().unwrap_or_else(PoisonError::into_inner);
                }
            }
        })
    })
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
    std::sync::Arc::new(move |_| if cancel.is_cancelled() { Err(Error::Cancelled.into()) } else { Ok(()) })
}

/// The failure of work, or that it was cancelled.
pub(crate) fn unless_cancelled<E>(cancel: &Cancel, of: impl Fn(E) -> Failure) -> impl Fn(E) -> Failure {
    let cancel = cancel.clone();
    move |error| if cancel.is_cancelled() { Error::Cancelled.into() } else { of(error) }
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
