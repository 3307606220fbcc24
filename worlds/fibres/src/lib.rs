//! Stacks, and switches between them: code enters a stack, leaves it in the middle, and enters it again.
//!
//! The user of this crate has a [`Record`] for each stack, with its [`Stack`] inside. [`Pools`] allocate records and
//! stacks together, with a guard below each stack. A thread of the system keeps some free ones ([`OwnStacks`]), enters
//! one ([`Stack::enter`]), and returns from there when the code on it leaves ([`Stack::leave`]). Each switch hands over
//! one word.
//!
//! This crate is a mechanism. It never:
//!
//! * knows a runtime: no seat, no worker, no plan, no queue, no task;
//! * chooses the next stack, wakes one, or waits for one;
//! * frees a record: a late pointer to one stays valid;
//! * reads the environment, or takes a lock on the way of a switch.

mod exceptions;
#[cfg_attr(not(target_os = "linux"), path = "guards/canaries.rs")]
mod guards;
mod overflow;
mod pools;
mod sanitizers;
mod stack;
#[cfg_attr(windows, path = "switch/none.rs")]
mod switch;

pub use exceptions::Exceptions;
pub use overflow::report_broken_canary;
pub use pools::{NODES, OwnStacks, Pools};
pub use stack::{CLASSES, Class, LEAST_BYTES, Stack};
pub use switch::Runs;

use std::fmt;

/// The user's record of a stack. It is allocated with the stack, and never freed.
pub trait Record: Sized + Send + Sync + 'static {
    /// Advice in the report of an overflow: how its user gets a larger stack.
    const ADVICE: &'static str;

    /// The record of a new stack.
    fn new(stack: Stack) -> Self;

    /// Its stack.
    fn stack(&self) -> &Stack;

    /// The pools of all stacks with such records.
    fn pools() -> &'static Pools<Self>;

    /// Asks the system for pages on this node, at untouched addresses of new stacks.
    fn prefer(start: usize, bytes: usize, node: usize);

    /// Names the code on the stack in the report of an overflow. A handler of signals calls it: it takes no lock and no
    /// memory.
    fn describe(&self, to: &mut dyn fmt::Write) -> fmt::Result;
}
