//! A task waits for a request: the wait stands in the graph of waits.

use crate::runtime::requests::waits::{Stood, WaitId, told};
use crate::runtime::shared::RuntimeState;
use crate::runtime::worker::in_task;
use std::sync::Arc;
use vicus_schedule::RequestId;

/// A present wait of the calling task.
pub(crate) struct Waiting<'a> {
    shared: &'a Arc<RuntimeState>,
    id: WaitId,
}

impl Waiting<'_> {
    /// The calling task of this runtime waits for a request as long as the result is held. Panics if the awaited one
    /// waits for one with a task on the stack.
    pub(crate) fn begin(shared: &Arc<RuntimeState>, awaited: RequestId) -> Waiting<'_> {
        let begun: Result<WaitId, Vec<RequestId>> = in_task(|worker| {
            let stood = worker.stack.beneath.waits.last().copied();
            let frames = worker.stack.beneath.requests.iter().chain([&worker.frame.request]);
            let mut requests: Vec<RequestId> = frames.skip(stood.map_or(0, |wait| wait.height)).copied().collect();
            requests.sort_unstable();
            requests.dedup();
            let id = shared.ongoing.waits.lock().begin(requests, stood.map(|wait| wait.id), awaited)?;
            worker.stack.beneath.waits.push(Stood { id, height: worker.stack.beneath.requests.len() + 1 });
            Ok(id)
        });
        match begun {
            Ok(id) => Waiting { shared, id },
            Err(circle) => panic!("requests wait in a circle, so none of them would end: {}", told(&circle)),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        in_task(|worker| {
            let ended = worker.stack.beneath.waits.pop();
            debug_assert!(ended.is_some_and(|wait| wait.id == self.id), "waits on a stack end in turn");
            let beneath = worker.stack.beneath.waits.last().map(|wait| wait.id);
            self.shared.ongoing.waits.lock().end(self.id, beneath);
        });
    }
}
