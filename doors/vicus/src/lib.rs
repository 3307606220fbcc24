//! Vicus for Rust users: networks of single-threaded boxes on threads that stay near their data.
//!
//! The [`guide`] explains the model (box, via, envelope, pill, request, kinds) with a picture. One import, about ten
//! lines:
//!
//! ```
//! use vicus::{Column, Envelope, ModelBuilder, Runtime, Schema, Type, library};
//!
//! let schema = Schema::new([("n", Type::U64)]);
//! let mut net = ModelBuilder::new("squares");
//! let numbers = net.source(library::source("numbers", &schema, || [Envelope::new([Column::from(vec![1u64, 2, 3])])]));
//! let square = net.add(library::map("square", &schema, &schema, |envelope| {
//!     let squares: Vec<u64> = envelope.column(0).u64s().iter().map(|n| n * n).collect();
//!     Some(Envelope::new([squares.into()]))
//! }));
//! let print = net.add(library::sink("print", &schema, |envelope| {
//!     println!("{:?}", envelope.column(0).u64s());
//!     Ok(())
//! }));
//! net.connect(numbers.output(0), square.input(0));
//! net.connect(square.output(0), print.input(0));
//! net.end(print.output(0));
//!
//! let runtime = Runtime::builder().start();
//! runtime.submit(&net.build()?).wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Memory that can't be had
//!
//! A `Vec`, `String` or map that grows by itself ends the whole process if there is no memory for it
//! (`memory allocation of N bytes failed`, SIGABRT), and every request with it, in a box as anywhere in Rust: an
//! allocator must not unwind, and stable Rust has no hook that may, so no runtime can turn this into an error. A box
//! asks for large memory in a refusable way. [`Grow`] does so for vectors, [`refusable`] for any other collection with
//! a `try_reserve`; the columns of an [`EnvelopeBuilder`] are asked for like this already, and [`give_up`] is for code
//! that cannot return an error. Then its request fails alone, with the name of the box:
//!
//! ```
//! use std::sync::Arc;
//! use vicus::library::{self, More};
//! use vicus::{Grow, Model, ModelBuilder, ModelError, Runtime, Schema, Type};
//!
//! /// A box with a table of so many numbers.
//! fn table(numbers: usize) -> Result<Arc<Model>, ModelError> {
//!     let mut net = ModelBuilder::new("table");
//!     let schema = Schema::new([("n", Type::U64)]);
//!     let table = net.source(library::fill("table", &schema, move || move |turn, _| {
//!         let mut table: Vec<u64> = Vec::new();
//!         table.grow(numbers)?; // and not `Vec::with_capacity`
//!         table.extend(0..numbers as u64); // there is room
//!         turn.book(8 * table.capacity() as u64)?; // counts against the request's budget, if it has one
//!         Ok(More::No)
//!     }));
//!     net.end(table.output(0));
//!     net.build()
//! }
//!
//! let runtime = Runtime::builder().start();
//! let error = runtime.submit(&table(usize::MAX / 16)?).wait().unwrap_err();
//! assert!(error.to_string().starts_with("box table failed"), "{error}");
//! assert!(error.to_string().ends_with("of memory can't be had"), "{error}");
//! // The process is there, and so is the runtime.
//! runtime.submit(&table(1_000)?).wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A program whose users read its errors can at least end with a sentence and status 1 for everything else: see
//! [`LastWords`].
//!
//! # Examples
//!
//! The examples of this crate: `numbers` (the two boxes of the Bobox report), `word_count`, `diamond` (a stream split
//! and joined again), `validity` (rows deleted on one branch and kept on another, without copying), `stream` (windows
//! of a stream without end) and `quicksort` (a network that divides itself while it runs).

#[cfg(feature = "arrow")]
pub use vicus_flow::arrow;
pub use vicus_flow::{
    Bound, BoxError, BoxId, BoxModel, Budget, Column, Envelope, EnvelopeBuilder, FlowError, Grow, InputId, Model,
    ModelBuilder, ModelError, NoMemory, Operator, OutputId, OverBudget, Resume, Schema, TimeUnit, Totals, Turn, Type,
    give_up, library, refusable,
};
#[doc(inline)]
pub use vicus_machine::streams;
pub use vicus_machine::{Allocator, LastWords, Request, RequestOptions, StartError, TemporaryFiles, this_machine};
pub use vicus_schedule::{ALL as STRATEGIES, DEFAULT, Plan, Setting, SettingError};
#[doc(inline)]
pub use vicus_threads::map_reduce;
pub use vicus_topology::{GroupId, NodeId, Place, Topology};

pub mod environment;
pub mod kit;
mod runtime;
pub mod tasks;
pub mod threads;

pub use runtime::{Runtime, RuntimeBuilder};

#[doc = include_str!("guide.md")]
pub mod guide {}

/// The further parts of networks: pieces of networks that grow, marks of streams without end, columns' types and rows,
/// and files for rows beyond a budget. Counts of boxes have theirs in [`kit::counts`].
pub mod flow {
    #[cfg(feature = "arrow")]
    pub use vicus_flow::FromArrowError;
    pub use vicus_flow::{
        Arrivals, Expansion, Field, Fragment, FragmentBuilder, GrownBox, Inner, Mark, Marks, Overflow, Overflows,
        Storage, StorageError,
    };
}

/// Memory placed by node.
///
/// [`Runtime::alloc`](crate::kit::machine::MachineRuntime::alloc) gives memory laid over the nodes by a
/// [`Distribution`](memory::Distribution); one line makes [`Allocator`] the allocator of a whole program; the placed
/// containers take [`Runtime::memory`](crate::kit::machine::MachineRuntime::memory).
///
/// ```
/// use std::alloc::Layout;
/// use vicus::{Runtime, memory::{self, Distribution}};
///
/// #[global_allocator]
/// static ALLOCATOR: vicus::Allocator = vicus::Allocator::new();
///
/// let runtime = Runtime::builder().start();
/// let fine = runtime.alloc(Layout::new::<[f64; 1 << 20]>(), Distribution::Fine)?;
/// let bytes: usize = memory::footprint(fine.bytes()).nodes.iter().sum();
/// assert_eq!(bytes, 8 << 20);
/// let column = vec![0u64; 10_000];
/// assert!(memory::node_of(column.as_ptr().cast()).is_some());
/// # Ok::<(), memory::PlaceError>(())
/// ```
///
/// The placed containers, a line each. All of them learn the caller's place in the same way, by a [`Place`]: a node or
/// a core group. Each one's use of it stands [at one spot](vicus_topology#where). A consumer that finds nothing can
/// sleep. [`Runtime::each_near`](crate::kit::machine::MachineRuntime::each_near) works on an array near its data.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use vicus::{Runtime, memory::{self, ArrayOptions, DistArray, DistPool, DistQueue, LfQueue, PoolOptions}};
///
/// let runtime = Runtime::builder().start();
/// let memory = runtime.memory().expect("there are addresses");
/// let here = memory::here().expect("a runtime has started");
///
/// let pool = DistPool::<[u8; 44]>::new(memory, PoolOptions::default())?;
/// let item = pool.handle(here).alloc([1; 44])?;
/// let near = DistQueue::new(runtime.topology());
/// near.push(here, "work").unwrap();
/// assert_eq!(vicus::threads::block_on(near.pop(here)), Ok("work"));
/// let ordered = LfQueue::new();
/// ordered.push(1);
/// assert_eq!(ordered.pop(), Some(1));
///
/// let squares = DistArray::from_fn(memory, 1_000_000, ArrayOptions::default(), |n| n as u64 * n as u64)?;
/// assert_eq!(squares.get(9), Some(&81));
/// assert_eq!(squares.run(0..3).iter().sum::<u64>(), 5);
/// let mine: usize = squares.runs(here).map(|run| run.iter().len()).sum();
/// assert!(mine > 0);
/// let odd = AtomicU64::new(0);
/// let segments = (0..squares.segments()).map(|segment| (squares.segment(segment), squares.segment_node(segment)));
/// runtime.each_near(segments, |range| {
///     let count = squares.run(range).iter().filter(|&&square| square % 2 == 1).count();
///     odd.fetch_add(count as u64, Ordering::Relaxed);
/// })?;
/// assert_eq!(odd.into_inner(), 500_000);
/// # drop(item);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Without touching code: `VICUS_DATA_DISTRIBUTION` (or `OMP_DATA_DISTRIBUTION`, the name of the paper) chooses the
/// distribution of memory asked from Vicus without one ([`environment`]). These are the policies of Muddukrishna,
/// Jonsson, Brorsson, "Locality-Aware Task Scheduling and Data Distribution for OpenMP Programs on NUMA Systems and
/// Manycore Processors" (Table 3), and ours:
///
/// | value | how memory lies | made for |
/// |---|---|---|
/// | `standard` | as the machine does it: usually where it is touched first | programs that place their data themselves |
/// | `fine` | page by page in turn over the locations | large data that all threads share |
/// | `coarse` | each allocation on the next location, as a whole | many pieces, each used by few tasks |
/// | `on:N` | on one location | data of one neighbourhood |
/// | `blocked` | equal contiguous parts, one for each location | arrays that are worked on part by part |
/// | `weighted:A,B,…` | contiguous parts of these proportions | nodes of unequal speed |
/// | `tiles:ROW_BYTES,TILE_ROWS,TILE_BYTES` | the tiles of a matrix, round a grid of the locations | matrices that are worked on tile by tile |
/// | `replicated` | a copy on each location | what is only read |
pub mod memory {
    pub use vicus_machine::{footprint, here, migrate, migrate_at_next_touch, node_of};
    pub use vicus_memory::distribution::{self, Distribution};
    pub use vicus_memory::{
        AllocError, ArrayOptions, DistArray, DistPool, DistQueue, Footprint, LfQueue, Memory, PlaceError, Placed,
        PoolOptions, QueueOptions, Region, Rows, WhenFull, Zero,
    };

    /// The parts of a [`DistArray`]: its runs, the tiles of a matrix, and stencils over it.
    pub mod array {
        pub use vicus_memory::{
            ArrayError, Iter, Operand, Pattern, Run, RunMut, Stencil, Tile, TileOrder, Tiling, together,
        };
    }

    /// The parts of a [`DistPool`]: handles, items and errors.
    pub mod pool {
        pub use vicus_memory::{Frees, PoolError, PoolHandle, PoolItem};
    }

    /// The parts of a [`DistQueue`]: waiting consumers and errors.
    pub mod queue {
        pub use vicus_memory::{Closed, Consumer, Exhausted, Pop, PushError, TryPopError};
    }
}

/// The records of a runtime ([`RuntimeBuilder::record`]): written, read, checked and summed up. Their parts stand in
/// [`kit::recording`].
pub mod trace {
    pub use vicus_trace::{Summary, Trace, TraceError};
}

/// The README's programs are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// So are those of its page on Rust.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust.md")]
struct PageOnRust;

/// And those of the tutorial.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tutorials/rust.md")]
struct Tutorial;
