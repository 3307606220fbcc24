//! Memory that tasks book with their request's budget.

use crate::caller;
use crate::worker::with_worker;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use vicus_flow::{Account, OverBudget, Reservation};
use vicus_schedule::RequestId;

/// Books memory that the task that runs is about to take, with the budget of its request: [`Runtime::spawn_within`] for closures,
/// [`Runtime::submit_within`] for boxes and their children. It is booked until the reservation is dropped, by whichever thread. A task
/// of a request without a budget may reserve anything, and so may code outside of tasks.
///
/// [`Runtime::spawn_within`]: crate::Runtime::spawn_within
/// [`Runtime::submit_within`]: crate::Runtime::submit_within
///
/// ```
/// use vicus_machine::{Runtime, join, reserve};
///
/// let runtime = Runtime::builder().threads(2).start();
/// let table = |rows: usize| reserve(rows as u64 * 8).map(|booked| (booked, vec![0_u64; rows]));
/// let request = runtime.spawn_within(10_000, move || join(|| table(1000).is_ok(), || table(2000).is_ok()));
/// assert_eq!(request.wait(), Ok((true, false)));
/// ```
///
/// # Errors
/// The request holds more then than it may.
pub fn reserve(bytes: u64) -> Result<Reservation, OverBudget> {
    match account_here() {
        // What grants memory of a larger whole may be a user's code.
        Some(account) => account.reserve(bytes),
        None => Ok(Reservation::unbounded(bytes)),
    }
}

/// Where the task that runs books; `None` if its request has no budget.
pub(super) fn account_here() -> Option<Arc<Account>> {
    let of_task = with_worker(|worker| worker.shared.account_of(worker.frame.request));
    of_task.unwrap_or_else(caller::account_of_this_thread)
}

/// Where the requests of a runtime book that are closures and have a budget.
#[derive(Default)]
pub(crate) struct Accounts(Mutex<BTreeMap<RequestId, Arc<Account>>>);

impl Accounts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<RequestId, Arc<Account>>> {
        self.0.lock().expect("nothing panics under this lock")
    }

    pub(super) fn begin(&self, request: RequestId, account: Option<Arc<Account>>) {
        account.map(|account| self.lock().insert(request, account));
    }

    pub(super) fn end(&self, request: RequestId) {
        self.lock().remove(&request);
    }

    /// A request books with the account of another one, until this is dropped.
    pub(super) fn lend(&self, request: RequestId, account: Option<Arc<Account>>) -> Option<Lent<'_>> {
        let is_lent = account.is_some();
        self.begin(request, account);
        is_lent.then_some(Lent { accounts: self, request })
    }

    pub(crate) fn of(&self, request: RequestId) -> Option<Arc<Account>> {
        self.lock().get(&request).cloned()
    }
}

pub(super) struct Lent<'a> {
    accounts: &'a Accounts,
    request: RequestId,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.accounts.end(self.request);
    }
}
