//! What the interpreter keeps for a thread of a runtime, which stays between two calls of Python's code.
//!
//! Python makes a state for a thread that it has not seen, with a piece of its stack that is mapped and unmapped. For a
//! box that is called with each envelope, that took longer than the call; an unmapping interrupts all other threads.

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

/// Like [`Python::attach`], for threads that call Python's code again and again.
pub(crate) fn attach<T>(call: impl FnOnce(Python<'_>) -> T) -> T {
    // A thread that ends has none any more.
    let _ = KEPT.try_with(|_| ());
    Python::attach(call)
}

/// From now on threads that end leave their states to the interpreter, which is about to end.
pub(crate) fn leave_states() {
    ENDS.store(true, Ordering::Release);
}
