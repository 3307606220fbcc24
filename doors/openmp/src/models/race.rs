//! Data that loom watches, and how a model is run. doors/qthreads has its models by this file as well.

use loom::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Data that threads use in turn: loom tells if two use them at once, or if one does not see what the other wrote.
pub(crate) struct Data(UnsafeCell<u32>);

// SAFETY: loom tells if two threads use the cell at once.
unsafe impl Sync for Data {}
// SAFETY: as above.
unsafe impl Send for Data {}

impl Data {
    pub(crate) fn new(value: u32) -> Data {
        Data(UnsafeCell::new(value))
    }

    pub(crate) fn get(&self) -> u32 {
        // SAFETY: see the type.
        self.0.with(|value| unsafe { *value })
    }

    pub(crate) fn set(&self, new: u32) {
        // SAFETY: see the type.
        self.0.with_mut(|value| unsafe { *value = new });
    }
}

/// Whether a model finds a mistake: a failed assertion, a race, or a thread that waits for ever.
pub(crate) fn finds(model: impl Fn() + Sync + Send + 'static) -> bool {
    catch_unwind(AssertUnwindSafe(|| check(model))).is_err()
}

pub(crate) fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}
