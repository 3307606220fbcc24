//! Waits for words begin and end: they are counted, and watched.

use super::deadlock;
use super::layer::attach;
use crate::threads::counts::{Threads, Waits, add_one};
use crate::threads::fibres::{of_parts, of_worker};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vicus_machine::OnDeadlock;
use vicus_machine::layer::{RuntimeState, in_task};

/// The calling code, on a seat, begins to wait for a word.
pub(crate) fn begin_wait(whose: Waits) {
    in_task(|worker| {
        attach(&worker.shared);
        let threads = &of_parts(&mut worker.above, &worker.shared, worker.seat).threads;
        add_one(&threads.counts[worker.seat.index()].0.waits[whose as usize][0]);
        watch(threads, &worker.shared);
    });
}

/// The wait is over.
pub(crate) fn end_wait(whose: Waits) {
    in_task(|worker| {
        let seat = worker.seat.index();
        add_one(&of_worker(worker).threads.counts[seat].0.waits[whose as usize][1]);
    });
}

/// Makes the runtime look for deadlocks, if it does not yet.
fn watch(threads: &Threads, shared: &Arc<RuntimeState>) {
    let watch = &threads.watch;
    if shared.settings.on_deadlock == OnDeadlock::Ignore || watch.is_set.load(Ordering::Relaxed) {
        return;
    }
    if !watch.is_set.swap(true, Ordering::AcqRel) {
        deadlock::look_first(shared);
    }
}
