//! Lightweight threads, teams, and words with full/empty bits, above the runtime of `worlds/machine`.
//!
//! Lightweight threads are hundreds of thousands of threads, each with a small stack, waiting without a thread of the
//! system. [`spawn`] makes one; it is a task like any other until a thread of the runtime takes it and gives it a
//! stack. From then on it stays with this thread, unless it follows others ([`Builder::follow`]). It may wait for
//! another one ([`JoinHandle::join`]), for a full/empty bit ([`full_empty`]), for a time ([`sleep`]), for a future
//! ([`block_on`]), for a scope, a request, or a queue; then it is put aside, and the thread does something else.
//! Threads of the system block while they wait for lightweight ones; waiting tasks and boxes run other tasks meanwhile,
//! as always.
//!
//! After Wheeler, Murphy, Thain, "Qthreads: An API for Programming with Millions of Lightweight Threads", MTAAP 2008.
//! We differ: a thread has no stack before it begins; guards are set once for each stack and not for each thread; a
//! woken thread is a task of the runtime's plan, under any strategy.
//!
//! ```
//! use vicus_machine::MachineRuntime;
//!
//! let runtime = MachineRuntime::builder().threads(2).start();
//! let sum: u64 = runtime.run(|| {
//!     let thread = |n: u64| vicus_threads::spawn(move || { vicus_threads::yield_now(); n * n });
//!     let threads: Vec<_> = (0..100).map(thread).collect();
//!     threads.into_iter().map(|thread| thread.join().unwrap()).sum()
//! });
//! assert_eq!(sum, 328_350);
//! ```
//!
//! The runtime knows this crate by one hook (`vicus_machine::layer::Layer`). A runtime has it from its first
//! lightweight thread on, or from its start ([`LAYER`]).
//!
//! This crate never:
//!
//! * runs a box, or knows one;
//! * chooses a queue or a seat's next task: the seat does (`vicus-schedule`);
//! * switches stacks by itself (`vicus-fibres`), or starts a thread of the system, but one for the time;
//! * reads the environment.
//!
//! Its rooms, from the ground up. A room names the rooms below it, and none above it (a test holds this list:
//! `tidy/tests/tidy/rooms.rs`).
//!
//! | room | content | it never |
//! |---|---|---|
//! | `sync`, `mutant` | atomics, and mistakes for models | knows a thread |
//! | `threads` | a thread's closure, memory and fibre, and the switch to it | waits for a word |
//! | `watch` | the runtime's hook, the search for deadlocks, the end | changes a word |
//! | `words` | full/empty bits, variables, countdowns | looks into a thread |
//! | `spawn` | spawns, handles, places, futures | runs a thread |
//! | `sitting` | a program's thread on a seat | starts a thread of the system |
//! | `team` | threads of a caller on seats of their own | starts a thread of the system |
//! | `map_reduce` | MapReduce on tasks and queues | reaches into a worker or a queue |

pub mod map_reduce;
mod mutant;
mod sitting;
mod spawn;
mod sync;
pub mod team;
mod threads;
mod watch;
mod words;

pub use sitting::{
    CountThreads, Sitting, StandIn, StartSitting, help, lend, seat, set_word, stack, wait_outside, word,
};
pub use spawn::{
    Builder, JoinHandle, MigrateError, STACK_BYTES, SpawnError, ThreadId, ThreadInfo, block_on, current, is_thread,
    limit_stacks, migrate_to, spawn, spawn_async, spawn_to, yield_now,
};
pub use threads::{Local, RuntimeEnded, sleep};
pub use vicus_machine::OnDeadlock;
pub use watch::layer::LAYER;
pub use words::{Countdown, Deadlock, SyncVar, full_empty};
