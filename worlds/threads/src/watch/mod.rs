//! Lightweight threads as a runtime sees them: its layer, its watch for deadlocks, its end.

mod aside;
pub(crate) mod deadlock;
mod ends;
pub(crate) mod judges;
pub(crate) mod layer;
pub(crate) mod waits;
