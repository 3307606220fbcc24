//! The transactions not yet durable, and their callers' work for them. Decides, and does nothing itself.
//!
//! ```text
//!  oldest ─▶ │ flying             │ ready                │ coming            │
//!            │ written and synced │ applied, and staged  │ not applied yet   │
//!            │ by one caller      │ in the log           │                   │
//! ```
//!
//! Each transaction has a waiting caller, and at most two of the callers work for all: one applies the coming
//! transactions, which makes them ready, and one flies with the ready ones. So transactions that come while the drive
//! works are applied meanwhile. Only the drive can refuse an applied transaction.
//!
//! **No caller waits for ever.** While the drive is idle and something is staged, the first caller is awake, or another
//! one that applies. A caller that lands wakes the first one, and so does a caller that has applied and whose own
//! transaction is told: it won't look again.

use crate::error::{CommitError, StoreError};
use crate::gathering::Gathering;
use crate::mutant::{Mutant, Planted};
use crate::store::Waiter;
use std::collections::VecDeque;
use std::sync::Arc;
use vicus_rdf::Snapshot;

#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) waiter: Arc<Waiter>,
    pub(crate) record: Arc<[u8]>,
}

#[derive(Debug, Default)]
pub(crate) struct Staging {
    /// In their order.
    all: VecDeque<Staged>,
    /// How many of them are flying, and how many behind these are ready. Invariant: together no more than there are.
    flying: usize,
    ready: usize,
    /// The data with all flying and ready transactions; `None` if there are none: then it is the durable data.
    head: Option<Arc<Snapshot>>,
    /// Whether a caller applies the coming transactions.
    is_applying: bool,
    /// Whether a caller has the turn to change data: then only its own transactions come.
    is_writing: bool,
    /// The transactions handed in meanwhile. They are coming when the turn ends.
    aside: Vec<Staged>,
    /// The number of writers awaited by the next flight.
    gathering: Gathering,
    /// The key of the next transaction.
    next_key: u64,
    /// How often staged transactions were refused.
    refused: u64,
    pub(crate) planted: Planted,
}

/// The next step of the caller of a transaction that is not durable yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// Writes the ready transactions.
    Fly,
    /// Applies the coming transactions.
    Apply,
    /// The first one, while the drive is idle: it waits for others for this number of nanoseconds.
    WaitAtMost(u64),
    Wait,
}

/// The coming transactions.
#[derive(Clone, Debug)]
pub(crate) struct Coming {
    /// The key of the first one, if there is any.
    first: Option<u64>,
    pub(crate) records: Vec<Arc<[u8]>>,
    /// The data they follow; `None` for the durable data.
    pub(crate) head: Option<Arc<Snapshot>>,
}

impl Staging {
    /// A transaction with its caller's waiter. It is not in the queue yet.
    pub(crate) fn begin(&mut self, record: Vec<u8>) -> (Staged, Arc<Waiter>) {
        let waiter = self.waiter();
        (Staged { waiter: Arc::clone(&waiter), record: record.into() }, waiter)
    }

    /// A waiter with a key of its own.
    pub(crate) fn waiter(&mut self) -> Arc<Waiter> {
        self.next_key += 1;
        Arc::new(Waiter::new(self.next_key - 1))
    }

    /// The waiter of the last one.
    pub(crate) fn last(&self) -> Option<Arc<Waiter>> {
        self.all.back().map(|last| Arc::clone(&last.waiter))
    }

    /// How often staged transactions were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The keys of the first one and of the last one.
    pub(crate) fn ends(&self) -> Option<(u64, u64)> {
        Some((self.all.front()?.waiter.key, self.all.back()?.waiter.key))
    }

    pub(crate) fn first(&self) -> Option<u64> {
        self.all.front().map(|first| first.waiter.key)
    }

    /// A caller has the turn to change data.
    pub(crate) fn begin_writing(&mut self) {
        self.is_writing = true;
    }

    /// The turn ends. Returns the transactions handed in meanwhile.
    pub(crate) fn end_writing(&mut self) -> Vec<Staged> {
        self.is_writing = false;
        std::mem::take(&mut self.aside)
    }

    /// Puts a transaction that looks at nothing aside, if a caller has the turn to change data.
    pub(crate) fn aside(&mut self, staged: Staged) -> Option<Staged> {
        if !self.is_writing {
            return Some(staged);
        }
        self.aside.push(staged);
        None
    }

    /// Adds a coming transaction that looks at nothing.
    pub(crate) fn push(&mut self, staged: Staged) {
        self.all.push_back(staged);
    }

    /// Adds a ready transaction: together with all before it, it makes this data. Nothing is coming.
    pub(crate) fn push_ready(&mut self, staged: Staged, head: Arc<Snapshot>) {
        assert_eq!(self.coming(), 0, "the data was made with all that was coming");
        self.all.push_back(staged);
        self.ready += 1;
        self.head = Some(head);
    }

    fn coming(&self) -> usize {
        self.all.len() - self.flying - self.ready
    }

    /// The number of transactions for the next flight.
    fn here(&self) -> usize {
        self.all.len() - self.flying + self.aside.len()
    }

    /// The next step of a transaction's caller.
    pub(crate) fn act(&self, waiter: &Waiter, now_ns: impl FnOnce() -> u64) -> Act {
        let is_coming = || self.all.iter().skip(self.flying + self.ready).any(|staged| staged.waiter.key == waiter.key);
        if self.flying > 0 {
            // Applying several at once takes less time than one by one, so there are to be as many as fly. The flying
            // ones are told soon, and apply nothing for others.
            let is_due = self.coming() >= self.flying && !self.is_applying;
            return if is_due && is_coming() { Act::Apply } else { Act::Wait };
        }
        if self.all.is_empty() {
            return Act::Wait;
        }
        match self.gathering.patience(self.here(), now_ns) {
            0 if self.is_applying => Act::Wait,
            // When enough are ready, no more are applied before: new ones could keep others from flying for ever.
            0 if self.ready > 0 && (self.coming() == 0 || self.gathering.are_enough(self.ready)) => Act::Fly,
            0 => Act::Apply,
            ns if self.first() == Some(waiter.key) => Act::WaitAtMost(ns),
            _ => Act::Wait,
        }
    }

    /// The coming transactions, to apply them.
    pub(crate) fn look(&self) -> Coming {
        let mut coming = self.all.iter().skip(self.flying + self.ready).peekable();
        let first = coming.peek().map(|staged| staged.waiter.key);
        let records = coming.map(|staged| Arc::clone(&staged.record)).collect();
        Coming { first, records, head: self.head.clone() }
    }

    /// Like [`Staging::look`], and no other caller applies them meanwhile.
    pub(crate) fn begin_applying(&mut self) -> Coming {
        assert!(!self.is_applying, "one caller applies");
        self.is_applying = true;
        self.look()
    }

    /// The applying caller has ended.
    pub(crate) fn end_applying(&mut self) {
        self.is_applying = false;
    }

    /// Whether these transactions are still the coming ones, with others behind them perhaps: else they were refused,
    /// or another caller has applied them.
    pub(crate) fn is_coming(&self, coming: &Coming) -> bool {
        self.all.get(self.flying + self.ready).map(|first| first.waiter.key) == coming.first
    }

    /// The coming transactions are ready, and this is the data with them. Returns the records for the log; none if they
    /// are not coming any more.
    pub(crate) fn applied(&mut self, coming: &Coming, head: &Arc<Snapshot>) -> impl Iterator<Item = &Arc<[u8]>> {
        let start = self.flying + self.ready;
        let count = match self.is_coming(coming) {
            true => coming.records.len(),
            false if self.planted.has(Mutant::StaleApplied) => coming.records.len().min(self.coming()),
            false => 0,
        };
        if count > 0 {
            self.ready += count;
            self.head = Some(Arc::clone(head));
        }
        self.all.range(start..start + count).map(|staged| &staged.record)
    }

    /// The coming transactions can't be applied: refuses the ones with a reason, or all of them without one. Returns
    /// the keys of the refused ones.
    pub(crate) fn unapplied(
        &mut self,
        coming: &Coming,
        error: &StoreError,
        reasons: &[(Arc<[u8]>, StoreError)],
    ) -> Vec<u64> {
        if !self.is_coming(coming) {
            return Vec::new();
        }
        self.refused += 1;
        let later = self.all.split_off(self.flying + self.ready);
        let mut told = Vec::new();
        for (place, staged) in later.into_iter().enumerate() {
            let reason = reasons.iter().find(|(record, _)| Arc::ptr_eq(record, &staged.record));
            let reason = match reason {
                Some((_, reason)) => Some(reason),
                None => (reasons.is_empty() && place < coming.records.len()).then_some(error),
            };
            match reason {
                Some(reason) => told.extend(staged.waiter.tell(Err(CommitError::Failed(reason.clone())))),
                None => self.all.push_back(staged),
            }
        }
        told
    }

    /// The ready transactions fly. Returns the data with them.
    pub(crate) fn take_off(&mut self) -> Arc<Snapshot> {
        assert!(self.flying == 0 && self.ready > 0, "one flight at a time, of what is ready");
        self.gathering.took_off(self.here());
        self.flying = std::mem::take(&mut self.ready);
        self.head.clone().expect("there is data with what is ready")
    }

    /// The flown transactions are durable. `began_ns`: the beginning of their sync.
    pub(crate) fn landed(&mut self, began_ns: u64, now_ns: u64) -> impl Iterator<Item = Staged> {
        let count = std::mem::take(&mut self.flying);
        if self.ready == 0 {
            self.head = None;
        }
        self.gathering.landed(self.all.len() + self.aside.len(), began_ns, now_ns);
        self.all.drain(..count)
    }

    /// The flown transactions are refused for this reason, and all staged ones because they may be built on those.
    /// Returns the keys of all.
    pub(crate) fn refuse(&mut self, why: &CommitError) -> Vec<u64> {
        self.refused += 1;
        let flown = std::mem::take(&mut self.flying);
        (self.ready, self.head) = (0, None);
        let tell = |(place, staged): (usize, Staged)| {
            let error = if place < flown { why.clone() } else { CommitError::BuiltOnRefused };
            staged.waiter.tell(Err(error))
        };
        self.all.drain(..).enumerate().filter_map(tell).collect()
    }

    /// These of the landed transactions wait for followers.
    pub(crate) fn stay_away(&mut self, count: usize) {
        self.gathering.stay_away(count);
    }

    /// The callers of these were told, and may come back with others.
    pub(crate) fn come_back(&mut self, count: usize, now_ns: u64) {
        self.gathering.come_back(count + self.here(), now_ns);
    }

    /// The next flight waits for no others.
    pub(crate) fn hurry(&mut self) {
        self.gathering.hurry();
    }
}
