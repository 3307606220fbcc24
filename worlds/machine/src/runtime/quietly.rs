//! A user's value is dropped, and may panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Drops a user's value; a panic of its drop is caught and ignored.
pub fn drop_quietly<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // The payload's drop may panic as well.
        std::mem::forget(panic);
    }
}
