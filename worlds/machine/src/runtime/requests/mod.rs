//! The requests of a runtime: those of boxes, and closures.

pub(crate) mod accounts;
pub(crate) mod here;
pub(crate) mod nested;
pub(crate) mod open;
pub(crate) mod reserve;
pub(crate) mod state;
pub(crate) mod stopped;
pub(crate) mod waiting;
pub(crate) mod waits;

use crate::runtime::requests::accounts::Accounts;
use crate::runtime::requests::nested::Nested;
use crate::runtime::requests::open::OpenRequests;
use crate::runtime::requests::open::Requests;
use crate::runtime::requests::state::RequestState;
use crate::runtime::requests::stopped::Stopped;
use crate::runtime::requests::waits::Waits;
use crate::sync::Padded;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use vicus_flow::Account;
use vicus_schedule::RequestId;

/// Requests that are not over, and their state in common.
pub(crate) struct Ongoing {
    /// The next request's number.
    next: AtomicU64,
    /// Requests of boxes.
    pub(crate) boxes: Mutex<BTreeMap<RequestId, Arc<RequestState>>>,
    /// The id of the only one of these; [`NO_REQUEST`] if there are none or several. Changed under their lock.
    alone: Padded<AtomicU64>,
    /// Requests that are closures.
    pub(crate) closures: Requests,
    pub(crate) open: OpenRequests,
    /// Requests of both kinds.
    pub(crate) stopped: Stopped,
    /// Grows when a request was stopped: each seat then looks through its own queue.
    pub(crate) sweeps: AtomicU64,
    pub(crate) accounts: Accounts,
    /// Requests submitted by this runtime's requests.
    pub(crate) nested: Nested,
    /// Requests of this runtime waiting for others.
    pub(crate) waits: Waits,
}

/// No request has this id.
const NO_REQUEST: u64 = u64::MAX;

impl Ongoing {
    /// No requests.
    pub(crate) fn new() -> Ongoing {
        Ongoing {
            next: AtomicU64::new(1),
            boxes: Mutex::new(BTreeMap::new()),
            alone: Padded(AtomicU64::new(NO_REQUEST)),
            closures: Requests::default(),
            open: OpenRequests::default(),
            stopped: Stopped::default(),
            sweeps: AtomicU64::new(0),
            accounts: Accounts::default(),
            nested: Nested::default(),
            waits: Waits::default(),
        }
    }

    /// A number for a new request.
    #[inline]
    pub(crate) fn next_id(&self) -> RequestId {
        RequestId::new(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// A number for a new request that is as old as another one.
    pub(crate) fn next_id_within(&self, outer: RequestId) -> RequestId {
        RequestId::within(outer, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// The request, if it is of boxes and not over.
    pub(crate) fn boxes_of(&self, request: RequestId) -> Option<Arc<RequestState>> {
        self.boxes.lock().expect("nothing panics under this lock").get(&request).cloned()
    }

    /// Changes the requests of boxes.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut BTreeMap<RequestId, Arc<RequestState>>) -> R) -> R {
        let mut requests = self.boxes.lock().expect("nothing panics under this lock");
        let result = change(&mut requests);
        let alone =
            requests.first_key_value().filter(|_| requests.len() == 1).map_or(NO_REQUEST, |(id, _)| id.number());
        // Relaxed: it only influences the seats chosen for boxes.
        self.alone.0.store(alone, Ordering::Relaxed);
        result
    }

    /// The account for the memory held by a request's tasks; `None` if it has no budget.
    pub(crate) fn account_of(&self, id: RequestId) -> Option<Arc<Account>> {
        let requests = self.boxes.lock().expect("nothing panics under this lock");
        match requests.get(&id) {
            Some(state) => state.instance.account().cloned(),
            None => self.accounts.of(id),
        }
    }

    /// Whether boxes run for no other request.
    #[inline]
    pub(crate) fn is_alone(&self, id: RequestId) -> bool {
        self.alone.0.load(Ordering::Relaxed) == id.number()
    }
}
