//! Lightweight threads on their way to another place.

use crate::threads::fibres;
use std::fmt;
use vicus_machine::layer::in_task;
use vicus_topology::{NoSuchPlace, Place};

/// Why a thread did not go to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrateError {
    /// The caller is no lightweight thread.
    NotAThread,
    /// The machine has no such place.
    NoSuchPlace(NoSuchPlace),
    /// The runtime has no thread of the system there.
    NoSeat(Place),
    /// The thread has running children, or an open group.
    HasChildren,
}

impl fmt::Display for MigrateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MigrateError::NotAThread => f.write_str("only a lightweight thread can go to another place"),
            MigrateError::NoSuchPlace(error) => error.fmt(f),
            MigrateError::NoSeat(place) => write!(f, "the runtime has no thread at {place}"),
            MigrateError::HasChildren => f.write_str("the thread has children that are not over"),
        }
    }
}

impl std::error::Error for MigrateError {}

/// Takes the calling lightweight thread to a node or a core group: it returns on a thread of the system there. A thread
/// already there stays. From then on it follows no others ([`Builder::follow`](super::Builder::follow)).
///
/// ```
/// use vicus_machine::MachineRuntime;
///
/// let runtime = MachineRuntime::builder().threads(2).start();
/// let node = runtime.topology().nodes[0].id;
/// let there = runtime.run(move || {
///     vicus_threads::spawn(move || {
///         // SAFETY: nothing on this stack belongs to a thread of the system, and nothing of the library is open.
///         unsafe { vicus_threads::migrate_to(node) }
///     })
///     .join()
///     .unwrap()
/// });
/// assert_eq!(there, Ok(()));
/// ```
///
/// # Errors
/// The caller is no lightweight thread, or has open children; there is no such place, or no thread of the runtime
/// there.
///
/// # Safety
/// The caller and its callers hold no value bound to their thread of the system: nothing that is not `Send`, no guard
/// of a lock, no reference to a `thread_local!`. They have not read a `thread_local!` whose address the compiler may
/// have kept: such reads before and after are in functions of their own, never inlined. No closure of
/// [`join`](vicus_machine::join), [`scope`](vicus_machine::scope) or a loop of this library is among them.
#[expect(unsafe_code, reason = "the caller promises what the type system can't see: what is on the stack")]
pub unsafe fn migrate_to(place: impl Into<Place>) -> Result<(), MigrateError> {
    let place = place.into();
    let fibre = fibres::current().ok_or(MigrateError::NotAThread)?;
    if in_task(|worker| worker.frame.context.is_some()) {
        return Err(MigrateError::HasChildren);
    }
    let seat = in_task(|worker| {
        worker.shared.topology().try_node_of(place).map_err(MigrateError::NoSuchPlace)?;
        worker.shared.seat_at(place, worker.seat_id).ok_or(MigrateError::NoSeat(place))
    })?;
    fibre.stays();
    if in_task(|worker| worker.seat_id != seat) {
        // SAFETY: the caller's promise.
        unsafe { fibre.migrate(seat) };
    }
    Ok(())
}
