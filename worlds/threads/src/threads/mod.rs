//! A lightweight thread: its closure, its memory, its fibre, and how a seat runs it.

pub(crate) mod cells;
pub(crate) mod core;
pub(crate) mod counts;
pub(crate) mod fibres;
pub(crate) mod here;
mod local;
mod locals;
pub(crate) mod starved;
pub(crate) mod timer;
mod watching;

pub use core::RuntimeEnded;
pub use local::Local;
pub use timer::sleep;
