//! A task that found no room in its queue runs on top of its spawner, which then leaves its turn to other requests.

use super::{Worker, in_task, leave_to_others, run_while_waiting, while_waiting, with_shared};
use crate::runtime::Shared;
use crate::runtime::request::now_ns;
use crate::threads::fibres;
use crate::threads::{Core, begin};
use std::ptr;
use vicus_schedule::{Run, TaskRef, Way};

/// A task for a seat to run at once, on top of its spawner: a queue had no room.
#[must_use = "the task is in no queue any more"]
pub(crate) struct AtOnce(pub(super) Option<(TaskRef, Way)>);

impl AtOnce {
    pub(crate) const NONE: AtOnce = AtOnce(None);

    /// Runs it, if there is one.
    #[inline]
    pub(crate) fn run(self) {
        if let Some((task, way)) = self.0 {
            run_at_once(task, way);
        }
    }

    /// Asserts the absence of a task: a box is never run on top of another one.
    pub(crate) fn assert_none(self) {
        debug_assert!(self.0.is_none(), "boxes are not run inline");
    }
}

#[cold]
fn run_at_once(task: TaskRef, way: Way) {
    in_task(|worker| worker.state.begin_help());
    if Core::is(task) {
        // It has a stack of its own, which also stops its panics: nothing stands on top of this frame.
        begin(task, Some(way));
    } else {
        let beneath = in_task(|worker| worker.fibres.current);
        beneath.inspect(|fibre| fibre.enter_task());
        with_shared(|shared| run_while_waiting(shared, task, way));
        beneath.inspect(|fibre| fibre.leave_task());
    }
    in_task(|worker| worker.state.end_help());
    fibres::leave_to_program();
    // Now that it has run: others may wait for this task, which is in no queue.
    leave_turn();
}

/// A task spawns more than the queues hold, and may do so for as long as it likes: other requests take their turns
/// meanwhile. A fibre lets its seat go on without it; on a thread's own stack they run on top of the task.
fn leave_turn() {
    if std::thread::panicking() {
        return;
    }
    match fibres::current() {
        None => with_shared(take_turn),
        Some(fibre) if in_task(|worker| worker.shared.are_several() && worker.state.is_turn_over(now_ns())) => {
            fibre.yield_now();
        }
        Some(_) => {}
    }
}

fn take_turn(shared: &Shared) {
    let find = || {
        let of_worker = |worker: &mut Worker| {
            let mut reach = worker.reach(shared, false);
            let plan = worker.stand(shared);
            let run = worker.find_in_turn(shared, plan, &mut reach, Some(worker.frame.request));
            debug_assert!(reach.refused.is_none(), "only tied seats refuse");
            run
        };
        if shared.are_several() { in_task(of_worker) } else { None }
    };
    let mut found = find();
    if found.is_none() {
        return;
    }
    while_waiting(None, ptr::null(), || {
        while let Some(Run { task, way, leaves }) = found {
            if leaves {
                leave_to_others(shared);
            }
            run_while_waiting(shared, task, way);
            found = find();
        }
    });
}
