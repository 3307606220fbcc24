//! Tasks that are closures: two at once ([`join`]), many ([`scope`]), children of the running task ([`child`]), and the
//! parts of a loop ([`for_each`]).
//!
//! A task's header is at the beginning of the task: in the stack frame of a `join`, or in a block of the heap. The task
//! goes through the same queues as a box, by the same plan. A waiting seat runs other tasks meanwhile.

mod alive;
mod child;
mod collect;
mod data;
mod description;
mod included;
mod join;
mod loops;
mod place;
mod scope;
mod visitors;

pub use crate::runtime::handle::task_request::{Cancelled, TaskRequest, is_cancelled};
pub use crate::runtime::worker::class::with_descendants;
pub use crate::runtime::worker::job::TaskMemory;
pub use child::{
    ChildBuilder, cancel_group, child, close_group, open_group, run_child, spawn_child, spawn_child_in,
    wait_for_children,
};
pub use collect::{collect, map_reduce};
pub use data::{Append, Data, Part, SharedSlice, TaskBuilder, Views};
pub use included::{HeldChild, Included, begin_child, end_child, has_queued, wait_for_earlier, yield_to_descendants};
pub use join::{join, join_or};
pub use loops::{for_each, for_each_mut, for_each_piece};
pub use scope::{Scope, in_place_scope, scope};
