//! Vicus for programs in C and C++: the functions of `include/vicus.h`, which is written by hand and documented there.
//!
//! ```text
//!  vicus.hpp (C++17) ── vicus.h (C11) ──▶ version.rs   the header is of this library's version
//!                                         runtime.rs   settings, runtimes, requests
//!                                         tasks.rs     tasks, scopes, groups, loops ──────────▶ vicus::tasks
//!                                         memory.rs    placed memory and containers ──────────▶ vicus::memory
//!                                         matrices.rs  matrices, tile by tile ────────────────▶ vicus::memory
//!                                         map_reduce.rs  from one queue to another ───────────▶ vicus::map_reduce
//!                                         flow.rs      boxes and networks ────────────────────▶ vicus::ModelBuilder
//!                                         queries.rs   data, queries, updates ── answers.rs ──▶ vicus_service
//! ```
//!
//! Each function ends with a status. What went wrong is told once more, in words, by a record of the calling thread (`error.rs`). A
//! callback may fail as well: its record travels to the thread that waits for it, with what C++ has put into it, an exception.
//!
//! # Unsafe code
//!
//! Everything here is called by programs that are compiled by others, with pointers whose meaning the header defines. So this crate asks
//! for unsafe code as a whole, under these rules, to which the argument of each site refers:
//!
//! * **Handles.** A handle is a pointer that a function of this library gave, and is used until the function that frees it is called with
//!   it. A null handle is an error, and freeing one does nothing.
//! * **Texts** end with a zero byte, and stay as they are during the call. They are copied if they are needed longer.
//! * **Outputs.** A pointer to a result can be written, and is written only if the call succeeds.
//! * **Callbacks.** A function gets the data that the caller has given with it, on any thread of the runtime, and neither throws nor
//!   jumps out. `drop`, if there is one, is called once with the data, when neither is used any more; also if the call fails.
//! * **Arrays** are as long as the number beside them says. A null pointer is right where that is 0.
//!
//! No panic leaves a function of this library: see `error::guard`.

#![expect(unsafe_code, reason = "all that calls this crate is compiled by others; see above")]

mod answers;
mod error;
mod flow;
#[cfg(test)]
mod layout;
mod map_reduce;
mod matrices;
mod memory;
mod pools;
mod queries;
mod runtime;
mod tasks;
mod text;
mod topology;
mod version;
