//! The accounts of requests for closures with a budget.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use vicus_flow::Account;
use vicus_schedule::RequestId;

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
    pub(crate) fn lend(&self, request: RequestId, account: Option<Arc<Account>>) -> Option<AccountUse<'_>> {
        let is_lent = account.is_some();
        self.begin(request, account);
        is_lent.then_some(AccountUse { accounts: self, request })
    }

    pub(crate) fn of(&self, request: RequestId) -> Option<Arc<Account>> {
        // Relaxed: as in `end`.
        (self.count.load(Ordering::Relaxed) > 0).then(|| self.lock().get(&request).cloned()).flatten()
    }
}

pub(crate) struct AccountUse<'a> {
    accounts: &'a Accounts,
    request: RequestId,
}

impl Drop for AccountUse<'_> {
    fn drop(&mut self) {
        self.accounts.end(self.request);
    }
}
