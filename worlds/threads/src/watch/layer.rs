//! Lightweight threads as the layer above a runtime.

use super::aside;
use super::ends;
use crate::threads::core::{Core, begin};
use crate::threads::counts::Threads;
use crate::threads::fibres::{self, Fibre};
use crate::threads::{cells, starved};
use std::sync::Arc;
use vicus_machine::layer::{Layer, NewLayer, RuntimeState};
use vicus_schedule::{TaskRef, Waiter, Way};

/// The hook of a runtime from its start on ([`RuntimeBuilder::layer`](vicus_machine::RuntimeBuilder::layer)): while
/// several requests run, tasks that wait leave their thread's stack to others even before the first lightweight thread.
pub const LAYER: NewLayer = |seats| Arc::new(Threads::new(seats));

/// Gives a runtime its lightweight threads, if it has none yet.
#[inline]
pub(crate) fn attach(shared: &RuntimeState) {
    shared.hook.layer_or(LAYER);
}

/// The lightweight threads of a runtime, which may have had none.
pub(crate) fn threads_of(shared: &RuntimeState) -> &Threads {
    attach(shared);
    Threads::of(shared)
}

impl Layer for Threads {
    #[inline]
    fn wake(&self, code: Waiter) {
        Fibre::of_waiter(code).wake();
    }

    fn suspend(&self) {
        here().suspend();
    }

    fn yield_now(&self) {
        here().yield_now();
    }

    fn enter_task(&self, code: Waiter) {
        Fibre::of_waiter(code).enter_task();
    }

    fn leave_task(&self, code: Waiter) {
        Fibre::of_waiter(code).leave_task();
    }

    fn begin(&self, task: TaskRef, way: Way) -> Result<(), TaskRef> {
        if !Core::is(task) {
            return Err(task);
        }
        begin(task, Some(way));
        Ok(())
    }

    fn run_aside(&self, task: TaskRef, way: Way) -> Result<(), TaskRef> {
        if Core::is(task) || fibres::is_fibre(task) { Err(task) } else { aside::run(task, way) }
    }

    fn send_away(&self) {
        fibres::send_all_away();
    }

    fn before_sleep(&self) {
        starved::give_stacks();
    }

    fn give_back_memory(&self) {
        cells::give_back();
    }

    fn end(&self, shared: &RuntimeState) -> bool {
        ends::end_all(self, shared)
    }
}

/// The fibre of the calling code, which does not unwind.
fn here() -> &'static Fibre {
    fibres::current().expect("code with a stack of its own is on a fibre")
}
