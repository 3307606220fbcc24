//! Texts for messages of tests, also of those of worlds/threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use vicus_machine::MachineRuntime;

/// A runtime in a message.
pub(crate) fn strategy(runtime: &MachineRuntime) -> String {
    format!("{} on {} threads", runtime.plan().strategy, runtime.plan().threads())
}

/// The message of the panic.
pub(crate) fn panic_of(f: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).expect("a text")
}
