//! An OpenMP runtime: programs of gcc and of clang, without a change, on teams of worlds/threads.
//!
//! ```text
//!  a program ── GOMP_* (gcc) ─┐
//!            ── __kmpc_* (clang) ─┼─▶ team.rs (regions), work.rs (loops), tasks.rs ──▶ vicus::kit, vicus::tasks
//!            ── omp_* ───────────┘
//! ```
//!
//! The shared library `libvicus_omp.so` is loaded before the compiler's own (`LD_PRELOAD`), or found in its stead by
//! its name. All functions have the versions that programs ask for (`exports`).
//!
//! # Unsafe code
//!
//! Compiled programs call everything here, with pointers defined by the two interfaces: gcc's `libgomp_g.h`, LLVM's
//! `kmp.h`. No safe layer above could hold them to it. So this crate asks for unsafe code as a whole, under these
//! rules; the argument of each site refers to them:
//!
//! * **Interface.** A pointer from a program is used as its interface says, and not after the call, unless the
//!   interface allows it. So are the program's functions, with the arguments that they expect. A list is as long as the
//!   number beside it says, and a text ends with a zero byte or has its length beside it.
//! * **Thread.** A `thread::Thread` and its running task are used by their own thread alone. References to them end
//!   before the program's code runs, because it may call back. So a function that runs the program's code has no such
//!   reference as a parameter, and asks for the thread again afterwards.
//! * **Team.** A `team::Team` lives as long as the pool of threads for its regions. Its cells are written by the thread
//!   that begins a region, before it calls the others; each cell of a member belongs to its thread.
//! * **Loop.** A slot of a team's ring belongs to one loop from the first thread that comes to the last one that
//!   leaves. Its cells are written by the first one before it sets the slot's state, and by the last one.
//! * **Record.** A `records::Record` belongs to the thread that makes the task, until the task is spawned, and then to
//!   the thread that runs or drops it, which frees it. The room in front of it is the runtime's from the spawn until
//!   the task begins or is dropped. Behind the record of a task of clang stands clang's own.
//! * **Event.** A `tasks::Event` has three users: the maker of its task, until the task is spawned with all that
//!   follows it, or dropped instead; the task's record; and the caller that fulfils it, once. The last one frees it.
//! * **Group.** A `thread::Group` is opened and closed by the same task, and all tasks within are over when it is
//!   closed. So a task's group and those around it are there.
//! * **System.** A function of the C library gets values of its caller, with their lengths, and memory to free is
//!   memory that it has given. Some have no condition.
//!
//! The shared parts of tasks, queues, counts and sleep, are in worlds/machine, which asks site by site.

#![expect(unsafe_code, reason = "all that calls this crate is compiled by others; see above")]
#![cfg(target_os = "linux")]

mod api;
mod bell;
mod bound;
mod checks;
mod device;
mod event;
mod exports;
mod futex;
mod gomp;
mod intense;
mod kmpc;
mod learned;
mod lock;
mod locks;
mod memory;
#[cfg(all(test, loom))]
mod models;
mod names;
mod objects;
mod placed;
mod places;
mod process;
mod records;
mod reductions;
mod report;
mod sections;
mod settings;
mod shares;
mod stage;
mod taskloop;
mod tasks;
mod team;
mod teams;
mod thread;
mod tool;
mod wait;
mod work;

/// The atomics of the parts with models: those of `bell`, `event`, `lock`, `shares` and `stage`. `models`
/// has these files once more, with loom's.
mod atomics {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
}
