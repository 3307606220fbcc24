//! Memory booked by tasks with their request's budget.

use crate::runtime::caller_here;
use crate::runtime::worker::with_worker;
use std::sync::Arc;
use vicus_flow::{Account, OverBudget, Reservation};

/// Books memory that the running task is about to take, with the budget of its request. Closures get a budget from
/// [`MachineRuntime::spawn_within`], boxes and their children from [`MachineRuntime::submit_within`]. The memory is
/// booked until the reservation is dropped, on any thread. A task of a request without a budget may reserve anything,
/// and so may code outside of tasks.
///
/// [`MachineRuntime::spawn_within`]: crate::MachineRuntime::spawn_within
/// [`MachineRuntime::submit_within`]: crate::MachineRuntime::submit_within
///
/// ```
/// use vicus_machine::{MachineRuntime, join, reserve};
///
/// let runtime = MachineRuntime::builder().threads(2).start();
/// let table = |rows: usize| reserve(rows as u64 * 8).map(|booked| (booked, vec![0_u64; rows]));
/// let request = runtime.spawn_within(10_000, move || join(|| table(1000).is_ok(), || table(2000).is_ok()));
/// assert_eq!(request.wait(), Ok((true, false)));
/// ```
///
/// # Errors
/// The request would hold more than its budget.
pub fn reserve(bytes: u64) -> Result<Reservation, OverBudget> {
    match account_here() {
        // An account of a larger budget may call a user's code to grant it, so no worker is borrowed here.
        Some(account) => account.reserve(bytes),
        None => Ok(Reservation::unbounded(bytes)),
    }
}

/// The account of the running task's request; `None` if the request has no budget.
pub(crate) fn account_here() -> Option<Arc<Account>> {
    let of_task = with_worker(|worker| worker.shared.ongoing.account_of(worker.frame.request));
    of_task.unwrap_or_else(caller_here::account_of_this_thread)
}
