//! NUMA-aware memory: the allocator, over pages from the caller's source.
//!
//! Falt, Kruliš, Bednárek, Yaghob, Zavoral, "Towards Efficient Locality Aware Parallel Data Stream Processing", §5: a
//! superblock allocator for each node and a local allocator for each thread. Nothing here calls the operating system,
//! starts a thread or reads a clock: pages come from a [`Pages`], a [`Heap`] is a value, and time arrives as ticks.
//!
//! ```text
//!  Heap  one seat's, no lock     63 classes, 8 kB × 1.07^i; most occupied superblock first, last freed block first
//!    │        ╲ foreign frees    a Mailbox for each heap, or a Bin for each pair of heaps
//!  Memory  a pool for each node  superblocks of 10 MB, a stack of released ones, orphans, mapped blocks
//!    │
//!  Pages   a trait               reserve, place, commit, decommit, release
//! ```
//!
//! Large, long-lived memory is placed by a [`distribution`] ([`Memory::place`]): [`Placed`] bytes, a [`DistArray`].
//! Items of one size come from a [`DistPool`] over mapped blocks.
//!
//! Each node has one range of addresses, so [`Region::node_of`] is arithmetic.

mod array;
mod atlas;
mod bare;
pub mod distribution;
mod foreign;
mod fork;
mod heap;
mod ledger;
mod memory;
mod neighbours;
mod pages;
mod placed;
mod planted;
mod pool;
mod prefetch;
mod queues;
mod region;
mod returns;
mod sizes;
mod slab;
mod slots;
mod stack;
mod superblock;
mod sync;

pub use array::{
    ArrayError, ArrayOptions, DistArray, Iter, Operand, Pattern, Run, RunMut, Stencil, Tile, TileOrder, Tiling, Zero,
    together,
};
pub use foreign::Foreign;
pub use fork::Locks;
pub use heap::Heap;
pub use memory::{AllocError, Memory, MemoryOptions, OptionsError};
pub use pages::{FakePages, PageError, PagePlacement, Pages, SystemCall, WhenFull};
pub use placed::{Audit, Footprint, MOST_RUNS, NodeBytes, PlaceError, Placed, Rows};
pub use planted::Planted;
pub use pool::{DistPool, Frees, PoolError, PoolHandle, PoolItem, PoolOptions, UntypedHandle, UntypedPool};
pub use prefetch::prefetch;
pub use queues::{
    Burst, Closed, Consumer, DistOptions, DistQueue, Exhausted, LfQueue, Locations, LocationsError, NodeSegments, Pop,
    PushError, QueueOptions, SegmentSource, SystemSegments, TryPopError,
};
pub use region::Region;
pub use returns::{FreeBlock, Returns};
pub use sizes::{LINE, Series, SeriesError, Sizes};
pub use superblock::NodeCounts;
