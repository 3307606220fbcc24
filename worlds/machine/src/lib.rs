//! The real world: threads on seats, tasks, lightweight threads, sleep and wake, the clock.
//!
//! It follows a plan of `vicus-schedule`, and runs requests of `vicus-flow`; see [`Runtime`]. `vicus-os` answers for
//! the system, and `vicus-fibres` has the stacks of lightweight threads.
//!
//! Its rooms, from the ground up. A room names the rooms below it; one arrow still goes up, from `runtime` to `threads`
//! (a test holds this list: `tidy/tests/tidy/rooms.rs`).
//!
//! | room | content | it never |
//! |---|---|---|
//! | `sync` | atomics, locks, loom's in models | knows a task |
//! | `defaults` | settings left to a program's user | reads the environment |
//! | `queues` | deques, inboxes, sleeping seats | chooses a queue |
//! | `memory` | the process's heaps, questions to the kernel about pages | runs a task |
//! | `runtime` | workers, requests, boxes, the recorder | decides: its seats do (`vicus-schedule`) |
//! | `tasks` | closures, their children and data | starts a thread of the system |
//! | `team` | threads of a caller on seats of their own | starts a thread |
//! | `threads` | lightweight threads, words with full/empty bits | switches stacks by itself (`vicus-fibres`) |
//! | `map_reduce` | MapReduce on boxes and queues | reaches into a worker or a queue |

mod defaults;
pub mod map_reduce;
mod memory;
mod queues;
mod runtime;
mod sync;
mod tasks;
mod team;
pub mod threads;

pub use defaults::Defaults;
pub use memory::allocator::{Allocator, give_back_own_blocks, give_back_small_blocks, merge_when_freed};
pub use memory::heaps::process_memory;
pub use memory::locality::{Everywhere, footprint, footprint_of, forget, forget_at, here, node_of};
pub use memory::migrate::{awaits_touch, migrate, migrate_at_next_touch, touch};
pub use runtime::caller::is_in_runtime;
pub use runtime::last_words::LastWords;
pub use runtime::load::{PuTime, pu_times};
pub use runtime::request::{Request, RequestOptions};
pub use runtime::requests::reserve::reserve;
pub use runtime::takes::Level;
pub use runtime::{Runtime, RuntimeBuilder, StartError};
pub use tasks::{
    Append, Cancelled, ChildBuilder, Data, Held, Included, Part, Scope, SharedSlice, TaskBuilder, TaskRequest, Views,
    begin_child, cancel_group, child, close_group, collect, end_child, for_each, for_each_mut, for_each_piece,
    has_queued, in_place_scope, is_cancelled, join, join_or, map_reduce, open_group, run_child, scope, spawn_child,
    wait_for_children, wait_for_earlier, yield_to_descendants,
};
pub use team::meetings::Meetings;
pub use team::{Member, Team, gather, name_task};
pub use threads::block_on;
pub use vicus_os::{
    DiscoverError, Discovered, LatencyFile, Learned, SystemDirectory, SystemPages, Treatment, default_threads,
    describe, free_bytes, from_synthetic, from_sysfs, from_xml, this_machine,
};
