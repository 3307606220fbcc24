//! The request that the calling thread runs without a seat.

use crate::runtime::handle::MachineRuntime;
use crate::runtime::shared::RuntimeState;
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use vicus_flow::{Account, Instance};
use vicus_schedule::RequestId;

/// A request run by its caller, in the caller's frame.
pub(super) trait RunsHere {
    /// Its runtime.
    fn shared(&self) -> &Arc<RuntimeState>;

    /// Its boxes.
    fn instance(&self) -> &Instance;

    /// Whether it was cancelled or has failed. Asks whether its caller gives up.
    fn is_given_up(&self) -> bool;
}

/// The calling thread's request.
#[derive(Clone, Copy)]
pub(super) struct Here {
    /// The request's runtime; null if there is no request.
    runtime: *const MachineRuntime,
    caller: Option<NonNull<dyn RunsHere>>,
}

thread_local! {
    static HERE: Cell<Here> = const { Cell::new(Here { runtime: ptr::null(), caller: None }) };
}

/// The calling thread has this one's request, until it is dropped.
pub(super) struct Restore(Here);

impl Restore {
    /// The calling thread runs a request of this runtime, in its own frame.
    pub(super) fn begin(runtime: &MachineRuntime, caller: &dyn RunsHere) -> Restore {
        #[expect(unsafe_code, reason = "a pointer into a frame, of which the type system sees no lifetime")]
        // SAFETY: the pointer is followed by functions of this file alone, while the returned value lives in the frame.
        let caller = unsafe { std::mem::transmute::<NonNull<dyn RunsHere + '_>, NonNull<dyn RunsHere>>(caller.into()) };
        Restore(HERE.replace(Here { runtime, caller: Some(caller) }))
    }

    /// The calling thread is as it was before a request of its own.
    pub(super) fn before(outer: Here) -> Restore {
        Restore(HERE.replace(outer))
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        HERE.set(self.0);
    }
}

/// The calling thread's request, to be put back later.
pub(super) fn here() -> Here {
    HERE.get()
}

/// The runtime of the calling thread's request.
pub(super) fn runtime<'a>() -> Option<&'a MachineRuntime> {
    #[expect(unsafe_code, reason = "the runtime whose request this thread runs")]
    // SAFETY: `submit_here` has it borrowed on this thread, and resets this before it returns. The callers of this
    // function use the reference only for a call that returns before then.
    unsafe {
        HERE.get().runtime.as_ref()
    }
}

/// Calls `f` with the calling thread's state, if it runs a request without a seat.
fn with_caller<R>(f: impl FnOnce(&dyn RunsHere) -> R) -> Option<R> {
    #[expect(unsafe_code, reason = "the caller's state is on this thread's stack")]
    // SAFETY: `submit_here` has it in its frame, and sets this back before it returns. `f` gets it for a call.
    HERE.get().caller.map(|caller| f(unsafe { caller.as_ref() }))
}

/// The account of the request run by the calling thread without a seat.
pub(crate) fn account_of_this_thread() -> Option<Arc<Account>> {
    with_caller(|caller| caller.instance().account().cloned()).flatten()
}

/// The request run by the calling thread without a seat, and its runtime.
pub(crate) fn request_of_this_thread() -> Option<(Arc<RuntimeState>, RequestId)> {
    with_caller(|caller| (Arc::clone(caller.shared()), caller.instance().id()))
}

/// Whether this request is known to be cancelled or failed.
pub(crate) fn has_failed() -> bool {
    with_caller(|caller| caller.instance().has_failed()).unwrap_or(false)
}

/// Whether the calling thread runs a request without a seat.
pub(crate) fn is_caller() -> bool {
    HERE.get().caller.is_some()
}

/// Whether this request was cancelled or has failed. Asks whether its caller gives up.
pub(crate) fn is_given_up() -> bool {
    with_caller(|caller| caller.is_given_up()).unwrap_or(false)
}
