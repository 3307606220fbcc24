//! The real world: threads on seats, tasks, sleep and wake, the clock.
//!
//! It follows a plan of `vicus-schedule`, and runs requests of `vicus-flow`; see [`MachineRuntime`]. `vicus-os` answers
//! for the system. Above it, `vicus-threads` has lightweight threads and teams. The runtime calls them by one hook
//! ([`layer`]), and knows no more of them than this:
//!
//! | what it knows | by | what it does with it |
//! |---|---|---|
//! | code with a stack of its own | [`layer::Layer`] | suspends it in a wait, and wakes it |
//! | a point where one task of each seat meets the others | [`layer::Gathering`], one for each runtime | keeps it |
//! | code that waits for its descendants alone | `SeatStack::is_tied`, set by a team | runs those on top of it |
//! | two settings for the layer's waits | `on_deadlock`, `waits_have_backtraces` | keeps them |
//!
//! This crate never:
//!
//! * makes, switches or ends a stack, a lightweight thread or a team;
//! * decides which task runs where and next: a seat of `vicus-schedule` does;
//! * reads the environment.
//!
//! Its rooms, from the ground up. A room names the rooms below it, and none above it (a test holds this list:
//! `tidy/tests/tidy/rooms.rs`).
//!
//! | room | content | it never |
//! |---|---|---|
//! | `sync` | atomics, locks, loom's in models | knows a task |
//! | `defaults` | settings left to a program's user | reads the environment |
//! | `queues` | deques, inboxes, sleeping seats | chooses a queue |
//! | `memory` | the process's heaps, questions to the kernel about pages | runs a task |
//! | `runtime` | workers, requests, boxes, the recorder | decides: its seats do (`vicus-schedule`) |
//! | `tasks` | closures, their children and data | starts a thread of the system |
//! | `streams` | sources without end, which wait for the world | holds a worker |

mod defaults;
mod memory;
mod queues;
mod runtime;
pub mod streams;
mod sync;
mod tasks;

pub use defaults::{Defaults, OnDeadlock};
pub use memory::allocator::{Allocator, give_back_own_blocks, give_back_small_blocks, merge_when_freed};
pub use memory::heaps::process_memory;
pub use memory::locality::{Everywhere, footprint, footprint_of, forget, forget_at, here, node_of};
pub use memory::migrate::{awaits_touch, migrate, migrate_at_next_touch, touch};
pub use runtime::caller::is_in_runtime;
pub use runtime::last_words::LastWords;
pub use runtime::load::{PuTime, pu_times};
pub use runtime::overflowing::TemporaryFiles;
pub use runtime::request::{Request, RequestOptions};
pub use runtime::requests::reserve::reserve;
pub use runtime::takes::Level;
pub use runtime::{MachineRuntime, RuntimeBuilder, StartError};
pub use tasks::{
    Append, Cancelled, ChildBuilder, Data, HeldChild, Included, Part, Scope, SharedSlice, TaskBuilder, TaskMemory,
    TaskRequest, Views, begin_child, cancel_group, child, close_group, collect, end_child, for_each, for_each_mut,
    for_each_piece, has_queued, in_place_scope, is_cancelled, join, join_or, map_reduce, open_group, run_child, scope,
    spawn_child, spawn_child_in, wait_for_children, wait_for_earlier, yield_to_descendants,
};
pub use vicus_os::{
    DiscoverError, Discovered, LatencyFile, Learned, SystemDirectory, SystemPages, Treatment, default_threads,
    describe, free_bytes, from_synthetic, from_sysfs, from_xml, is_same_file, this_machine,
};

/// The runtime as the layer above it sees it (`vicus-threads`): workers on seats, the state they share, and the hook.
/// No program needs this.
pub mod layer {
    pub use crate::memory::heaps::{finish_task, prefer, thread_moved};
    pub use crate::queues::SharedQueues;
    pub use crate::queues::deque::Deque;
    pub use crate::queues::fifo::CAPACITY as LONG_QUEUE;
    pub use crate::queues::inbox::Inbox;
    pub use crate::runtime::awaited::{Awaited, OneRound};
    pub use crate::runtime::done::EndSignal;
    pub use crate::runtime::gathering::{Arrival, Gathering, GatheringEnd};
    pub use crate::runtime::hook::{Hook, Layer, NewLayer, SeatState, is_apart};
    pub use crate::runtime::latch::Latch;
    pub use crate::runtime::lending::{LentThread, lend_here};
    pub use crate::runtime::moves::Moves;
    pub use crate::runtime::recorder::{ASIDE, SeatRecorder};
    pub use crate::runtime::requests::waits::Beneath;
    pub use crate::runtime::shared::{QueuedTasks, RunSettings, RuntimeState, STACK_BYTES};
    pub use crate::runtime::stay::Stay;
    pub use crate::runtime::worker::context::{recorded, wait_for_descendants, wait_for_own};
    pub use crate::runtime::worker::{
        AtOnce, Frame, SeatCode, SeatStack, Worker, in_task, is_seated, leave_to_program, outside, run, runs_task_of,
        wait, with_shared, with_worker,
    };
    pub use crate::sync::Padded;
    pub use crate::sync::lock::{ShortGuard, ShortLock};
    pub use crate::tasks::with_descendants;
    pub use vicus_flow::drop_quietly;
}
