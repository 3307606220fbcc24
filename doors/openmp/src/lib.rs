//! An OpenMP runtime: programs of gcc and of clang, without a change, on teams of worlds/machine.
//!
//! ```text
//!  a program ── GOMP_* (gcc) ─┐
//!            ── __kmpc_* (clang) ─┼─▶ team.rs (regions), work.rs (loops), tasks.rs ──▶ vicus::team, vicus::tasks
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
//! rules:
//!
//! * A pointer from a program is used as its interface says, and not after the call, unless the interface allows it.
//! * A `thread::Thread` is used by its own thread alone. References to it end before the program's code runs, because
//!   it may call back.
//! * A `team::Team` lives as long as the pool of threads for its regions. Its cells are written by the thread that
//!   begins a region, before it calls the others.
//! * A `tasks::Record` belongs to its task, and is freed by the thread that has run the task.
//!
//! The shared parts of tasks, queues, counts and sleep, are in worlds/machine, which asks site by site.

#![expect(unsafe_code, reason = "all that calls this crate is compiled by others; see above")]
#![expect(clippy::undocumented_unsafe_blocks, reason = "the rules for all of them stand above")]
#![cfg(target_os = "linux")]

mod api;
mod bound;
mod checks;
mod device;
mod exports;
mod gomp;
mod intense;
mod kmpc;
mod learned;
mod locks;
mod memory;
mod names;
mod objects;
mod placed;
mod places;
mod process;
mod reductions;
mod report;
mod sections;
mod settings;
mod taskloop;
mod tasks;
mod team;
mod teams;
mod thread;
mod tool;
mod wait;
mod work;
