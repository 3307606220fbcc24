//! Qthreads for programs in C and C++: `qthread.h` and its family (`include/qthreads-compat`) over `vicus::threads`.
//!
//! ```text
//!  a program ── fork.rs (threads), feb.rs (words, syncvars, locks) ──▶ vicus::threads
//!            ── sinc.rs, barrier.rs, queue.rs: waits made of words
//!            ── loops.rs, util.rs, array.rs, pairs.rs: threads over ranges (each.rs)
//!            ── pool.rs, queues.rs, dictionary.rs, alloc.rs, io.rs
//! ```
//!
//! The thread that initializes the library sits on the first seat of a runtime (`library.rs`); a shepherd is a core
//! group of the machine given to this runtime, and each worker has a PU of its own there (`machine.rs`). So
//! `qthread_fork_to` is a spawn to a place, under any strategy; it is `shepherd:unplaced=own` if neither
//! `VICUS_STRATEGY` nor the file of `VICUS_LEARNED` names one.
//!
//! # Unsafe code
//!
//! Compiled programs call everything here, with pointers defined by the headers. No safe layer above could hold them to
//! it. So this crate asks for unsafe code as a whole, under these rules:
//!
//! * A pointer from a program is used as its header says, and not after the call, unless the header allows it.
//! * A `library::Library` lives as long as the process.
//! * A `fork::Thread` is used by its own thread alone. References to it end before the program's code runs, because it
//!   may call back.
//! * A seat's own data is used by code that runs on the seat, and not across a wait.
//! * Functions of programs are `extern "C-unwind"`, so a C++ exception that leaves a thread ends the process with a
//!   message.

#![expect(unsafe_code, reason = "all that calls this crate is compiled by others; see above")]
#![allow(non_snake_case, reason = "names are given")]
#![expect(clippy::undocumented_unsafe_blocks, reason = "the rules for all of them stand above")]
#![cfg(target_os = "linux")]

mod alloc;
mod array;
mod barrier;
mod dictionary;
mod each;
mod environment;
mod feb;
mod fork;
mod hash;
mod info;
mod io;
mod library;
mod locks;
mod loops;
mod machine;
mod pairs;
mod pool;
mod queue;
mod queues;
mod sinc;
mod timer;
mod util;

/// Defines functions for programs to call, by their names.
macro_rules! exports {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident ( $($argument:ident : $type:ty),* $(,)? ) $(-> $result:ty)? $body:block
    )*) => {$(
        $(#[$attribute])*
        #[allow(clippy::too_many_arguments, reason = "its signature is given")]
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? $body
    )*};
}

pub(crate) use exports;

/// Return values, by the names of the header.
pub(crate) mod codes {
    pub(crate) const SUCCESS: i32 = 0;
    pub(crate) const BADARGS: i32 = -1;
    pub(crate) const PTHREAD_ERROR: i32 = -2;
    pub(crate) const NOT_ALLOWED: i32 = -3;
    pub(crate) const OVERFLOW: i32 = libc::EOVERFLOW;
    pub(crate) const OPFAIL: i32 = -7;
    pub(crate) const MALLOC_ERROR: i32 = libc::ENOMEM;
    pub(crate) const NO_SHEPHERD: u16 = u16::MAX;
    pub(crate) const NON_TASK_ID: u32 = 0;
    pub(crate) const NULL_TASK_ID: u32 = u32::MAX;
    pub(crate) const NO_WORKER: u16 = u16::MAX;
}
