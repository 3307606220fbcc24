//! Lightweight threads: hundreds of thousands of them, each with a small stack. A waiting one holds no thread of the
//! system.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::AtomicU64;
//! use vicus::threads::{self, full_empty};
//!
//! // Each waits for the one before, on a full/empty bit.
//! let words: Arc<[AtomicU64]> = (0..1001).map(AtomicU64::new).collect();
//! words.iter().for_each(|word| _ = full_empty::empty(word));
//! let links: Vec<_> = (0..1000)
//!     .map(|n| {
//!         let words = Arc::clone(&words);
//!         threads::spawn(move || full_empty::write_ef(&words[n + 1], full_empty::read_ff(&words[n]) + 1))
//!     })
//!     .collect();
//! full_empty::write_ef(&words[0], 7);
//! links.into_iter().for_each(|link| link.join().unwrap());
//! assert_eq!(full_empty::read_ff(&words[1000]), 1007);
//! ```
//!
//! # What there is
//!
//! | to | is |
//! |---|---|
//! | spawn | [`spawn`], [`spawn_to`] a place, [`spawn_async`] for a future, [`Builder`] for a name, a stack's size, a place, a runtime |
//! | wait for the end | [`JoinHandle::join`]; a handle is a future, too; a handle that is dropped lets its thread run on |
//! | wait | [`full_empty`] for words, [`SyncVar`] for values with their bits, a [`Countdown`] for a number of threads, [`sleep`], [`yield_now`], [`block_on`] a future |
//! | know | [`current`], [`is_thread`], [`Local`] values |
//! | go elsewhere | [`migrate_to`] a place, which is unsafe |
//! | find mistakes | [`RuntimeBuilder::deadlock`](crate::RuntimeBuilder), [`Deadlock`], [`RuntimeEnded`] |
//!
//! Any wait of this library suspends a lightweight thread: scopes, joins, requests, children, loops, queues. They run
//! in the runtime of the spawning task or thread, else in [`Runtime::global`].
//!
//! # What a thread may do
//!
//! A thread that has begun stays on its thread of the system, so it may hold values that are not `Send` while it waits.
//! It must not hold a lock of the standard library while it waits for another lightweight thread that takes the same
//! lock: the lock would block the thread of the system. A panic reaches the joiner. A stack overflow ends the process,
//! with a line that names the thread.

use crate::Runtime;
use vicus_topology::Place;

pub use vicus_threads::{
    Builder, Countdown, Deadlock, JoinHandle, Local, MigrateError, OnDeadlock, RuntimeEnded, STACK_BYTES, SpawnError,
    SyncVar, ThreadId, ThreadInfo, block_on, current, full_empty, is_thread, limit_stacks, migrate_to, sleep,
    yield_now,
};

/// Spawns a lightweight thread. It is run soon and near.
///
/// ```
/// assert_eq!(vicus::threads::spawn(|| 6 * 7).join().unwrap(), 42);
/// ```
#[track_caller]
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn_or(global, f)
}

/// The variant of [`spawn`] that runs the thread near a node or a core group, close to its data.
///
/// # Panics
/// If the machine has no such place, with its name and how many there are.
#[track_caller]
pub fn spawn_to<T: Send + 'static>(place: impl Into<Place>, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().place(place).spawn_or(global, f)
}

/// Spawns a lightweight thread that waits for a future.
///
/// ```
/// use vicus::threads;
///
/// let inner = threads::spawn(|| 40);
/// assert_eq!(threads::spawn_async(async { inner.await.unwrap() + 2 }).join().unwrap(), 42);
/// ```
#[track_caller]
pub fn spawn_async<F: Future<Output: Send> + Send + 'static>(future: F) -> JoinHandle<F::Output> {
    spawn(move || block_on(future))
}

fn global() -> &'static vicus_machine::MachineRuntime {
    Runtime::global()
}
