//! A task that found no room in its queue runs on top of its spawner, which then leaves its turn to other requests.

use super::{
    AtOnce, Worker, in_task, leave_to_program, may_be_suspended, pass_wake_on, run_while_waiting, while_waiting,
    with_layer, with_shared,
};
use crate::runtime::clock::now_ns;
use crate::runtime::hook::Layer;
use crate::runtime::shared::RuntimeState;
use std::ptr;
use vicus_schedule::{NextTask, TaskRef, Way};

impl AtOnce {
    /// Runs it, if there is one.
    #[inline]
    pub fn run(self) {
        if let Some((task, way)) = self.0 {
            run_at_once(task, way);
        }
    }
}

#[cold]
fn run_at_once(task: TaskRef, way: Way) {
    in_task(|worker| worker.seat.begin_help());
    // A stack of its own also stops its panics: nothing stands on top of this frame.
    let begun = with_layer(|layer| layer.begin(task, way)).unwrap_or(Err(task));
    if let Err(task) = begun {
        let beneath = in_task(|worker| worker.code.waiter);
        with_shared(|shared| {
            shared.hook.enter_task(beneath);
            run_while_waiting(shared, task, way);
            shared.hook.leave_task(beneath);
        });
    }
    in_task(|worker| worker.seat.end_help());
    leave_to_program();
    // Now that it has run: others may wait for this task, which is in no queue.
    leave_turn();
}

/// A task spawns more than the queues hold, and may do so for as long as it likes: other requests take their turns
/// meanwhile. Code with a stack of its own lets its seat go on without it; elsewhere they run on top of the task.
fn leave_turn() {
    if std::thread::panicking() {
        return;
    }
    if !may_be_suspended() {
        with_shared(take_turn);
    } else if in_task(|worker| worker.shared.are_several() && worker.seat.is_turn_over(now_ns())) {
        with_layer(Layer::yield_now);
    }
}

fn take_turn(shared: &RuntimeState) {
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
        while let Some(NextTask { task, way, passes_wake_on }) = found {
            if passes_wake_on {
                pass_wake_on(shared);
            }
            run_while_waiting(shared, task, way);
            found = find();
        }
    });
}
