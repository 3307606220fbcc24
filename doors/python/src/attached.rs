//! States of the interpreter for the threads of a runtime. They stay between two calls of Python's code.
//!
//! Python makes a state for a thread at its first call, maps a piece of its stack, and unmaps it behind the call. A box
//! is called with each envelope: this took longer than the box's code, and an unmapping interrupts all other threads.

use pyo3::ffi::{PyGILState_Ensure, PyGILState_Release, PyGILState_STATE};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// The interpreter is about to end: no thread asks for it any more just to give back its state.
static ENDS: AtomicBool = AtomicBool::new(false);

/// This thread's state, until the thread ends.
struct KeptState;

impl KeptState {
    fn new(_py: Python<'_>) -> KeptState {
        #[expect(unsafe_code, reason = "PyO3 gives a thread's state back with each call")]
        // SAFETY: this thread has the interpreter, and one more use of its state is counted until `drop`.
        unsafe {
            PyGILState_Ensure();
        }
        KeptState
    }
}

impl Drop for KeptState {
    fn drop(&mut self) {
        if ENDS.load(Ordering::Acquire) {
            return;
        }
        Python::try_attach(|_py| {
            #[expect(unsafe_code, reason = "as in `new`")]
            // SAFETY: gives back the use of `new`. The interpreter is left with that of the call around it.
            unsafe {
                PyGILState_Release(PyGILState_STATE::PyGILState_LOCKED);
            }
        });
    }
}

thread_local! {
    static KEPT: KeptState = Python::attach(KeptState::new);
}

/// [`Python::attach`] for threads with many calls of Python's code.
pub(crate) fn attach<T>(call: impl FnOnce(Python<'_>) -> T) -> T {
    // A thread at its end has none any more.
    let _ = KEPT.try_with(|_| ());
    Python::attach(call)
}

/// From now on threads leave their states behind: the interpreter is about to end.
pub(crate) fn leave_states() {
    ENDS.store(true, Ordering::Release);
}
