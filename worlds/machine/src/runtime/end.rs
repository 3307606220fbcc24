//! The end of a runtime.

use crate::runtime::handle::MachineRuntime;
use crate::runtime::request::Request;
use crate::runtime::requests::state::RequestState;
use crate::runtime::shared::RuntimeState;
use crate::runtime::worker::runs_task_of;
use std::sync::Arc;

impl Drop for MachineRuntime {
    fn drop(&mut self) {
        if !runs_task_of(&self.shared) && !self.shared.is_own_thread() {
            return end(&self.shared);
        }
        // The last owner is a task of its own, or a model dropped by one of its threads: that thread can't wait for
        // itself.
        let shared = Arc::clone(&self.shared);
        let ender = std::thread::Builder::new().name("vicus end".to_owned()).spawn(move || end(&shared));
        if ender.is_err() {
            // No thread is to be had: requests are told to end, and the threads stay.
            self.shared.ongoing.closures.end_all(|id| self.shared.stop(id), false);
        }
    }
}

/// Ends all requests, and then the threads.
fn end(shared: &Arc<RuntimeState>) {
    let open: Vec<Arc<RequestState>> =
        shared.ongoing.boxes.lock().expect("nothing panics under this lock").values().cloned().collect();
    for state in open {
        let request = Request { shared: Arc::clone(shared), state };
        request.cancel();
        let _ = request.wait();
    }
    shared.ongoing.closures.end_all(|id| shared.stop(id), true);
    let layer = shared.hook.layer().filter(|_| shared.hook.any());
    if layer.is_some_and(|layer| !layer.end(shared)) {
        // Its code goes on by itself, on threads kept alive for it.
        return;
    }
    shared.end_system_threads();
    layer.inspect(|layer| layer.give_back_memory());
}
