//! Tasks of closures on stacks of their own.

use crate::threads::core::{self, Core, Described};
use crate::threads::fibres::{self, of_worker};
use std::panic::Location;
use vicus_fibres::Class;
use vicus_machine::layer::{self as worker, ASIDE, STACK_BYTES, in_task};
use vicus_schedule::{TaskRef, Way};

/// Stack size of a task run aside: a seat's own.
const ASIDE_BYTES: usize = STACK_BYTES;

/// Runs a task on a stack of its own, as a lightweight thread without a handle; `way` says how the seat found it. A
/// wait in it leaves the calling thread's stack to the task beneath. Returns the task if there is no memory for a
/// stack, or the runtime ends.
pub(crate) fn run(task: TaskRef, way: Way) -> Result<(), TaskRef> {
    let class = Class::of(ASIDE_BYTES).expect("there are stacks of this size");
    let core = in_task(|worker| {
        let own = of_worker(worker);
        if own.threads.is_ending() {
            return Err(task);
        }
        let id = own.counts.0.next_number();
        let described = Described {
            request: task.header().request,
            number: ASIDE,
            id,
            name: None,
            class,
            follows: false,
            spawned_at: Location::caller(),
            is_detached: true,
        };
        let runs = move || worker::run(task, way);
        let core = core::new(Some(&mut own.cells), described, runs).map_err(|_| task)?;
        own.counts.0.spawn();
        Ok(core)
    })?;
    if fibres::start(Core::task(core), class, Some(way)).is_err() {
        in_task(|worker| of_worker(worker).counts.0.end());
        core::discard(core);
        return Err(task);
    }
    Ok(())
}
