//! The request of the calling code.

use crate::runtime::caller_here;
use crate::runtime::requests::nested::{Inner, Within, cancel_by_id, cancel_nested};
use crate::runtime::shared::RuntimeState;
use crate::runtime::worker::with_worker;
use std::sync::Arc;
use vicus_schedule::RequestId;

/// The request of the calling thread's task or box, and its runtime.
pub(crate) fn request_here() -> Option<(Arc<RuntimeState>, RequestId)> {
    with_worker(|worker| (Arc::clone(&worker.shared), worker.frame.request))
        .or_else(caller_here::request_of_this_thread)
}

/// For a request, perhaps begun by seats already, submitted by a task or a box: it is cancelled with the
/// submitter's request, and at once if the submitter's was cancelled already.
pub(crate) fn nest(inner: &Arc<RuntimeState>, request: RequestId) -> Option<Within> {
    let (shared, outer) = request_here()?;
    let key = shared.ongoing.nested.add(outer, Inner { shared: Arc::downgrade(inner), request });
    if shared.ongoing.stopped.has(outer) || caller_here::has_failed() {
        cancel_by_id(inner, request);
        cancel_nested(inner, request);
    }
    Some(Within { outer: Arc::downgrade(&shared), key })
}
