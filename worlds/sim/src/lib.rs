//! The simulated world: virtual cores that carry out the same plans as threads, over the same queues, in virtual time.
//!
//! A [`Machine`] says how long operations take, a [`Program`] has the tasks, and a [`Plan`](vicus_schedule::Plan) says which
//! seats run them; [`simulate`] computes how long it takes. The tasks' own results are not computed. The same seed gives the
//! same run, event by event.
//!
//! ```
//! use vicus_kernels::Map;
//! use vicus_sim::{Machine, Options, Recorder, simulate};
//!
//! let machine = Machine::by_name("opteron-6172").unwrap();
//! let strategy: vicus_schedule::Setting = "footprint".parse().unwrap();
//! let plan = machine.plan(&strategy, 48);
//! let program = Recorder::record(&Map { vectors: 48, bytes: 1 << 16, ..Map::default() }, 48);
//! let outcome = simulate(&machine, &plan, &program, &Options::default()).unwrap();
//! assert_eq!(outcome.counts.tasks, 48);
//! assert!(outcome.wall_ns > 0.0);
//! ```
//!
//! The model (`engine.rs` has the seats, `memory.rs` pieces of work, `fluid.rs` shared bandwidths):
//!
//! * A piece of work computes for some time, and moves bytes. What its caches hold comes at their speed; the rest comes from the
//!   nodes that hold it, as fast as a core alone gets it: in inverse proportion to the latency. A share of computing,
//!   [`Parameters::overlap`], goes on meanwhile.
//! * Cores that move bytes at the same time share controllers, links, ports of core groups, shared caches and buses. Each is a queue, in which a line
//!   waits the longer the more is asked for; a core waits for the lines that it has under way, and for each where it goes.
//! * Lines that another cache has written and still keeps come from there.
//! * Caches keep what was used last, in pieces that no access of the program divides.
//! * Equal pieces of work take times that differ by [`Parameters::jitter`]; the seed says which ones are longer.
//! * Spawning, dealing, taking and waking have constant costs; a queue that several seats use is locked meanwhile.

mod cache;
mod chance;
mod diary;
mod engine;
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

pub use engine::{simulate, simulate_watched};
pub use heaps::Allocator;
pub use machine::{CacheCosts, HomeCosts, Link, Machine, MachineError, MemoryCosts, Port, Queueing, Stream};
pub use memory::Resource;
pub use options::{Fault, Options, SimError};
pub use parameters::{ParameterSet, Parameters};
pub use program::{ArraySpec, Cost, Program, ProgramError, Step, TaskSpec, Work};
pub use recorder::Recorder;
pub use reenact::{Reenacted, Reenactment};
pub use rehearsal::Rehearsal;
pub use replay::{Replay, ReplayError, ReplayOptions};
pub use report::{Counts, LeafSums, Outcome, TaskRecord, Utilisation};
