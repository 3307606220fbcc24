//! Waits for words begin and end: they are counted, and watched.

use super::deadlock;
use super::layer::attach;
use crate::threads::counts::{Threads, Waits};
use crate::threads::fibres::{of_parts, of_worker};
use std::sync::Arc;
use vicus_machine::OnDeadlock;
use vicus_machine::layer::{RuntimeState, in_task};

/// The calling code, on a seat, begins to wait for a word.
pub(crate) fn begin_wait(whose: Waits) {
    in_task(|worker| {
        attach(&worker.shared);
        let own = of_parts(&mut worker.code.above, &worker.shared, worker.seat_id);
        own.counts.0.begin_wait(whose);
        watch(&own.threads, &worker.shared);
    });
}

/// The wait is over.
pub(crate) fn end_wait(whose: Waits) {
    in_task(|worker| of_worker(worker).counts.0.end_wait(whose));
}

/// Makes the runtime look for deadlocks, if it does not yet.
fn watch(threads: &Threads, shared: &Arc<RuntimeState>) {
    if shared.settings.on_deadlock != OnDeadlock::Ignore && threads.watch.watching.begin() {
        deadlock::look_first(shared);
    }
}
