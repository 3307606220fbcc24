//! The state shared by all connections of a server.

use crate::answer::Failure;
use crate::answers::Answers;
use crate::awake::Awake;
use crate::body::Bodies;
use crate::data::ServedData;
use crate::jobs::Jobs;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::origins::Origins;
use crate::plans::Plans;
use crate::requests::Requests;
use axum::http::StatusCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore};
use vicus_service::{Error, ErrorKind, Service, StoreError};

pub(crate) struct Shared {
    pub(crate) service: Service,
    pub(crate) data: ServedData,
    pub(crate) options: Options,
    pub(crate) origins: Origins,
    pub(crate) jobs: Jobs,
    pub(crate) awake: Arc<Awake>,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) plans: Plans,
    pub(crate) answers: Answers,
    pub(crate) requests: Arc<Requests>,
    pub(crate) metrics: Metrics,
    /// Room for updates among the threads that wait: questions of copies, whose answers updates may wait for, find one.
    pub(crate) updates: Arc<Semaphore>,
    /// Notified when a request has ended, for requests that wait for memory.
    pub(crate) freed: Notify,
    /// No request may begin any more.
    pub(crate) is_draining: AtomicBool,
    /// Whether only this machine reaches it.
    pub(crate) is_loopback: bool,
}

/// A request waits no longer for memory.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(30);

impl Shared {
    /// The failure of a request. If the store can't be read, answers kept before are dropped: their data may be gone.
    pub(crate) fn failure(&self, error: &Error, text: &str) -> Failure {
        if error.kind() == ErrorKind::Store && !error.is_full() {
            self.answers.kept.clear();
        }
        Failure::of(error, text)
    }

    /// Whether data that was replaced may still be held here: by what was asked last, or by plans, which keep the data
    /// that they were made for.
    pub(crate) fn may_hold_replaced_data(&self) -> bool {
        let version = self.data.last_version();
        self.data.has_changed() || self.plans.kept.is_behind(version) || self.answers.kept.is_behind(version)
    }

    /// Drops data that was replaced, with its plans and answers.
    pub(crate) fn drop_replaced_data(&self) {
        let version = self.data.version();
        self.plans.kept.move_to(version);
        self.answers.kept.move_to(version);
    }

    /// Why the store takes no changes here, in words for clients: where they are sent instead.
    pub(crate) fn not_here(&self, error: &StoreError) -> Failure {
        let behind = self.options.following.as_ref().and_then(|following| following.behind());
        let message = match behind {
            Some(behind) => {
                let url = behind.url;
                format!("this server follows {url}, and takes no changes of its own: send them to {url}")
            }
            None => error.to_string(),
        };
        Failure::new(StatusCode::FORBIDDEN, "copy", message)
    }

    /// Waits until the data has the record of this number.
    pub(crate) async fn waits_for_sequence(&self, number: u64, most: Option<Duration>) -> Result<(), Failure> {
        let until = tokio::time::Instant::now() + most.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
        let mut changes = self.data.changes();
        loop {
            changes.mark_unchanged();
            let Some(sequence) = self.data.sequence() else {
                return Err(Failure::bad("min-sequence is for servers with a store (--store), and this one has none"));
            };
            if sequence >= number {
                return Ok(());
            }
            if tokio::time::timeout_at(until, changes.changed()).await.is_err() {
                let message = format!("record {number} has not come in time: this server has those up to {sequence}");
                return Err(Failure { kind: "behind", ..Failure::busy(message) });
            }
        }
    }

    /// Whether requests hold more than three quarters of the memory for all.
    pub(crate) fn memory_is_scarce(&self) -> bool {
        let memory = self.service.memory();
        memory.taken() > memory.total() / 4 * 3
    }

    /// Waits for memory, for a request begun at `began` with a limit of `time`: until `freed` reports that another
    /// request has given some back. The caller gets `freed` before it asks for memory. `false`: too many wait, or its
    /// time is up.
    pub(crate) async fn waits_for_memory(&self, freed: Notified<'_>, began: Instant, time: Option<Duration>) -> bool {
        let left = time.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT).saturating_sub(began.elapsed());
        self.requests.running() <= self.options.clients.waiting && tokio::time::timeout(left, freed).await.is_ok()
    }
}
