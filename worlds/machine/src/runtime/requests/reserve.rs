//! Memory booked by tasks with their request's budget.

use crate::runtime::caller;
use crate::runtime::worker::with_worker;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use vicus_flow::{Account, OverBudget, Reservation};
use vicus_schedule::RequestId;

/// Books memory that the running task is about to take, with the budget of its request. Closures get a budget from
/// [`Runtime::spawn_within`], boxes and their children from [`Runtime::submit_within`]. The memory is booked until the
/// reservation is dropped, on any thread. A task of a request without a budget may reserve anything, and so may code
/// outside of tasks.
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
    of_task.unwrap_or_else(caller::account_of_this_thread)
}

/// The accounts of a runtime's requests for closures with a budget.
#[derive(Default)]
pub(crate) struct Accounts {
    open: Mutex<BTreeMap<RequestId, Arc<Account>>>,
    /// How many there are: usually none, and then the lock is not taken.
    count: AtomicUsize,
}

impl Accounts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<RequestId, Arc<Account>>> {
        self.open.lock().expect("nothing panics under this lock")
    }

    pub(crate) fn begin(&self, request: RequestId, account: Option<Arc<Account>>) {
        if let Some(account) = account {
            self.lock().insert(request, account);
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Called for each request, whether it has an account or not.
    pub(crate) fn end(&self, request: RequestId) {
        // Relaxed: this request's account was counted before the request began.
        if self.count.load(Ordering::Relaxed) > 0 && self.lock().remove(&request).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Lets a request book with another request's account until the returned value is dropped.
    pub(crate) fn lend(&self, request: RequestId, account: Option<Arc<Account>>) -> Option<Lent<'_>> {
        let is_lent = account.is_some();
        self.begin(request, account);
        is_lent.then_some(Lent { accounts: self, request })
    }

    pub(crate) fn of(&self, request: RequestId) -> Option<Arc<Account>> {
        // Relaxed: as in `end`.
        (self.count.load(Ordering::Relaxed) > 0).then(|| self.lock().get(&request).cloned()).flatten()
    }
}

pub(crate) struct Lent<'a> {
    accounts: &'a Accounts,
    request: RequestId,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.accounts.end(self.request);
    }
}
