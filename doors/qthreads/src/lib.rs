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
//! it. So this crate asks for unsafe code as a whole, under these rules; the argument of each site refers to them:
//!
//! * **Interface.** A pointer from a program is used as its header says, and not after the call, unless the header
//!   allows it. So are the program's functions, on any thread, with the data passed with them. A list is as long as the
//!   number beside it says, and a text ends with a zero byte. The runtime unwinds waiting threads when the program ends
//!   the library, or in a deadlock if the user wants it; the program answers for what its functions on other threads
//!   use of its frames then.
//! * **Objects.** A queue, an array and the like is a box made by one function, used by any threads, and ended by
//!   another one, once and after its last use. Null is none.
//! * **Words.** A word or a syncvar of a program is an aligned word, changed by these functions alone while threads
//!   wait for it. Another address is refused.
//! * **Library.** A `library::Library` stays for ever, also when it has ended.
//! * **Thread.** A `fork::Thread` lies at the bottom of its thread's stack, and is used by its own thread alone.
//!   References to its values end before the program's code runs, because it may call back.
//! * **Seat.** A seat's own data is used by code that runs on the seat, and not across a wait.
//! * **Frame.** A word in the frame of a waiting thread stands in a list. Another thread takes it out of the list, and
//!   then fills it, which ends the wait. A thread that is unwound takes its word out by itself, or stays until the
//!   other thread has filled it.
//! * **Shared.** A thread may be unwound while parts of its loop, or a helper's call, run. So they own this library's
//!   data that they use, together with the thread (`Arc`).
//! * **System.** A function of the C library gets values of its caller, with their lengths, and memory to free is
//!   memory that it has given. Some have no condition.
//!
//! Functions of programs are `extern "C-unwind"`, so a C++ exception that leaves a thread ends the process with a
//! message.

#![expect(unsafe_code, reason = "all that calls this crate is compiled by others; see above")]
#![allow(non_snake_case, reason = "names are given")]
#![cfg(target_os = "linux")]

mod alloc;
mod array;
mod barrier;
mod count;
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
mod meeting;
#[cfg(all(test, loom))]
mod models;
mod object;
mod pairs;
mod pool;
mod queue;
mod queues;
mod recording;
mod ring;
mod sinc;
mod spinlock;
#[path = "../../openmp/src/report/symbols.rs"]
mod symbols;
mod timer;
mod util;

/// The atomics of the parts with models: `count`, `meeting`, `ring` and `spinlock`. `models` has these files once more,
/// with loom's.
mod atomics {
    pub(crate) use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
}
mod sync {
    pub(crate) use std::sync::{Mutex, MutexGuard};
}
use vicus::threads::full_empty;

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
