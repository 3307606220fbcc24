//! The simulated world: virtual cores carry out the same plans as threads, over the same queues, in virtual time.
//!
//! A [`Machine`] has the times of operations, a [`Program`] the tasks, and a [`Plan`](vicus_schedule::Plan) assigns
//! tasks to seats; [`simulate`] computes the time of the run. The tasks' own results are not computed. The same seed
//! gives the same run, event by event.
//!
//! ```
//! use vicus_kernels::Map;
//! use vicus_sim::{Machine, SimOptions, Recorder, simulate};
//!
//! let machine = Machine::by_name("opteron-6172").unwrap();
//! let strategy: vicus_schedule::Setting = "footprint".parse().unwrap();
//! let plan = machine.plan(&strategy, 48);
//! let program = Recorder::record(&Map { vectors: 48, bytes: 1 << 16, ..Map::default() }, 48);
//! let outcome = simulate(&machine, &plan, &program, &SimOptions::default()).unwrap();
//! assert_eq!(outcome.counts.tasks, 48);
//! assert!(outcome.wall_ns > 0.0);
//! ```
//!
//! The model (`engine.rs` has the seats, `memory.rs` pieces of work, `fluid.rs` shared bandwidths):
//!
//! * A piece of work computes for some time, and moves bytes. Cached bytes come at their cache's speed; the rest comes
//!   from its nodes at the rate of a core alone: in inverse proportion to the latency. A share of computing,
//!   [`Parameters::overlap`], goes on meanwhile.
//! * Cores moving bytes at the same time share controllers, links, ports of core groups, shared caches and buses. Each
//!   is a queue, with a longer wait for a line the higher its load; a core waits for its lines under way, for each one
//!   in the queues on its way.
//! * Lines written and still kept by another cache come from there.
//! * Caches keep the last used data, in pieces undivided by the program's accesses.
//! * The times of equal pieces of work differ by [`Parameters::jitter`]; the seed selects the longer ones.
//! * Spawning, dealing, taking and waking have constant costs; a queue shared by several seats is locked meanwhile.

mod beside_memory;
mod cache;
mod chance;
mod cluster;
mod engine;
mod event_logs;
mod fluid;
mod granules;
pub mod grid;
mod heaps;
mod layout;
mod lines;
mod machine;
mod memory;
mod options;
mod pages;
pub mod papers;
mod parameters;
mod program;
mod recorded;
mod recorder;
mod reenact;
mod rehearsal;
mod replay;
mod report;
mod seats;
mod tasks;

pub use beside_memory::BesideMemory;
pub use cluster::{
    BoxCosts, CROSSING_BYTE_NS, Cluster, ClusterError, ClusterFile, ClusterFileError, ClusterLoss, ClusterMachine,
    ClusterOutcome, LinkCosts, STREAM, plain_name, simulate_cluster,
};
pub use engine::{simulate, simulate_watched};
pub use heaps::AllocatorModel;
pub use machine::{CacheCosts, HomeCosts, Link, Machine, MachineError, MemoryCosts, Port, Queueing, Stream};
pub use memory::Resource;
pub use options::{Fault, SimError, SimOptions};
pub use parameters::{ParameterSet, Parameters};
pub use program::{ArraySpec, Cost, OwnStack, Program, ProgramError, Step, TaskSpec, Work};
pub use recorder::Recorder;
pub use reenact::{Reenacted, Reenactment};
pub use rehearsal::{Rehearsal, RehearsalOptions};
pub use replay::{Replay, ReplayError, ReplayOptions};
pub use report::{Counts, LeafSums, SimOutcome, TaskRecord, Utilisation};
