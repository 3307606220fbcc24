//! NUMA-aware queues: [`LfQueue`], with one order for all, and [`DistQueue`], a queue for each location.
//!
//! Wheeler, Thain, Murphy, "Portable and Efficient Distributed Threads for Shared Memory Architectures" and the
//! structures on it, §5.3. Nothing here starts a thread, asks for its place, or blocks: a caller names its place, and a
//! waiting consumer is a [`std::task::Waker`].
//!
//! ```text
//!  Burst, Consumer   a thread's own way to push or take many
//!    │
//!  DistQueue   a subqueue for each location; advertisements to neighbours, hints, a scan by distance, sleepers
//!    │
//!  LfQueue     one order for all; a list of array segments, named by the words that count the pushes and the pops
//!    │
//!  Segment     slots in groups of seven with their states; recycled when the last thread has left it
//!    │
//!  SegmentSource   a trait: the system's allocator, or a heap on a node
//! ```

mod ads;
mod dist_queue;
mod handles;
mod lf_queue;
#[cfg(all(test, loom))]
mod loom_models;
mod mutant;
mod segment;
mod sleepers;
mod source;

pub use dist_queue::{Closed, DistOptions, DistQueue, Locations, LocationsError, Pop, PushError, TryPopError};
pub use handles::{Burst, Consumer};
pub use lf_queue::{Exhausted, LfQueue, QueueOptions};
pub use source::{NodeSegments, SegmentSource, SystemSegments};
