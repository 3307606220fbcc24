//! The real world: threads on seats, tasks, fibres, sleep and wake, the clock.
//!
//! It follows a plan of `vicus-schedule`, and runs requests of `vicus-flow`; see [`Runtime`]. `vicus-os` answers for
//! the system.

mod allocator;
mod boxes;
mod caller;
mod defaults;
mod deque;
mod fibres;
mod fifo;
mod fit;
mod gate;
mod heaps;
mod here;
mod inbox;
mod known;
mod last_words;
mod lending;
mod load;
mod locality;
mod lock;
mod lookout;
pub mod map_reduce;
mod meetings;
mod migrate;
mod near;
mod queues;
mod recorder;
mod request;
mod roaming;
mod runtime;
mod sleep;
mod sync;
mod takes;
mod tasks;
mod team;
pub mod threads;
mod wait;
mod worker;

pub use allocator::{Allocator, give_back_own_blocks, give_back_small_blocks, merge_when_freed};
pub use caller::is_in_runtime;
pub use defaults::Defaults;
pub use heaps::process_memory;
pub use last_words::LastWords;
pub use load::{PuTime, pu_times};
pub use locality::{Everywhere, footprint, footprint_of, forget, forget_at, here, node_of};
pub use meetings::Meetings;
pub use migrate::{awaits_touch, migrate, migrate_at_next_touch, touch};
pub use request::{Request, RequestOptions};
pub use runtime::{Runtime, RuntimeBuilder, StartError};
pub use takes::Level;
pub use tasks::{
    Append, Cancelled, ChildBuilder, Data, Held, Included, Part, Scope, SharedSlice, TaskBuilder, TaskRequest, Views,
    begin_child, cancel_group, child, close_group, collect, end_child, for_each, for_each_mut, for_each_piece,
    has_queued, in_place_scope, is_cancelled, join, join_or, map_reduce, open_group, reserve, run_child, scope,
    spawn_child, wait_for_children, wait_for_earlier, yield_to_descendants,
};
pub use team::{Member, Team, gather, name_task};
pub use vicus_os::{
    DiscoverError, Discovered, LatencyFile, Learned, SystemDirectory, SystemPages, Treatment, default_threads,
    describe, free_bytes, from_synthetic, from_xml, this_machine,
};
pub use wait::block_on;
