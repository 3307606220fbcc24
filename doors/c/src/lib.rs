//! Vicus for programs in C and C++: the functions of `include/vicus.h`, a header written by hand, with the
//! documentation.
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
//! Each function ends with a status. A record of the calling thread has the failure once more, in words (`error.rs`). A
//! callback may fail as well: its record travels to the thread that waits for it, with an exception that C++ has put
//! into it.
//!
//! # Unsafe code
//!
//! Programs compiled elsewhere call everything here, with pointers defined by the header. So this crate asks for unsafe
//! code as a whole, under these rules; the argument of each site refers to them:
//!
//! * **Handles.** A handle is a pointer given by a function of this library, and is used until the function to free it
//!   is called with it. A null handle is an error, and freeing one does nothing.
//! * **Texts** end with a zero byte, and stay as they are during the call. They are copied if they are needed longer.
//! * **Outputs.** A pointer to a result can be written, and is written only if the call succeeds.
//! * **Callbacks.** A function gets the data passed with it by the caller, on any thread of the runtime, and neither
//!   throws nor jumps out. `drop`, if there is one, is called once with the data, when neither is used any more; also
//!   if the call fails.
//! * **Arrays** are as long as the number beside them says. A null pointer is right if the number is 0.
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
