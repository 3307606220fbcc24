//! A dataset in memory that several callers read and update: updates are made one after the other, in the order in
//! which they came.

use crate::load::Dataset;
use crate::store::Threads;
use crate::update::{Draft, Updating};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vicus::{BoxError, give_up};
use vicus_rdf::{Backing, Snapshot};
use vicus_sparql::UpdateChange;
use vicus_store::{Ask, TicketGuard, TicketLock};

/// A dataset that updates replace while others read it.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use vicus::Runtime;
/// use vicus_rdf::Snapshot;
/// use vicus_service::{Dataset, ErrorKind, CallLimits, MemoryBudget, Service, SessionOptions, SharedDataset, Updating};
///
/// let service = Service::new(Runtime::builder().threads(2).start(), MemoryBudget::new(64 << 20));
/// let shared = SharedDataset::new(Dataset::new(Arc::new(Snapshot::of_turtle(b"", None).unwrap())));
/// let text = "INSERT DATA { <http://e/ann> <http://e/age> 27 }";
/// let mut first = shared.draft();
/// service.update(text, &mut first, SessionOptions::default())?;
/// // The second one waits for the first one, within its time.
/// let limits = CallLimits { time: Some(Duration::from_millis(10)), ..CallLimits::default() };
/// let late = service.update(text, &mut shared.draft(), SessionOptions { limits, ..SessionOptions::default() });
/// assert_eq!(late.unwrap_err().kind(), ErrorKind::TimeLimit);
/// assert_eq!(shared.dataset().snapshot().len(), 0);
/// first.commit();
/// assert_eq!(shared.dataset().snapshot().len(), 1);
/// # Ok::<(), vicus_service::Error>(())
/// ```
pub struct SharedDataset {
    now: Mutex<Dataset>,
    turns: TicketLock,
    waiting: Arc<Threads>,
}

impl SharedDataset {
    /// One that has this data so far.
    pub fn new(dataset: Dataset) -> SharedDataset {
        SharedDataset { now: Mutex::new(dataset), turns: TicketLock::default(), waiting: Threads::new() }
    }

    /// The data as it is now. Waits for no update.
    pub fn dataset(&self) -> Dataset {
        lock(&self.now).clone()
    }

    /// Adds loaded data; how many quads were not there before. It waits for its turn, and works, until the function
    /// returns an error. Its blank nodes are different from those that are there.
    ///
    /// # Errors
    /// The function's; or there is not enough memory.
    pub fn add(&self, loaded: Dataset, ask: &Ask) -> Result<u64, BoxError> {
        let _turn = self.turns.wait_asking(&*self.waiting, &|| ask(0))?;
        let head = self.dataset();
        let all = if head.snapshot().is_empty() {
            loaded
        } else {
            let mut pause = || ask(0).unwrap_or_else(|error| give_up(error));
            let unite = || Snapshot::united(&[head.snapshot(), loaded.snapshot()], &Backing::Memory, &mut pause);
            Dataset::new(Arc::new(head.snapshot().read_by(unite)??))
        };
        let added = all.snapshot().len().saturating_sub(head.snapshot().len()) as u64;
        let before = std::mem::replace(&mut *lock(&self.now), all);
        // Not under the lock: freeing much takes time.
        drop(before);
        Ok(added)
    }

    /// A draft for an update. It waits for its turn when the update asks for its data first, and no longer than the
    /// update may run.
    pub fn draft(&self) -> SharedDraft<'_> {
        SharedDraft { begun: None, ask: None, shared: self }
    }
}

/// A [shared dataset](SharedDataset) as one caller changes it. Dropped without [`SharedDraft::commit`], it leaves the
/// data as it was.
pub struct SharedDraft<'a> {
    /// The data, from the turn on, which ends after it.
    begun: Option<(Draft, TicketGuard<'a>)>,
    ask: Option<Ask>,
    shared: &'a SharedDataset,
}

impl SharedDraft<'_> {
    /// Makes the changes visible to others.
    pub fn commit(self) {
        if let Some((draft, _turn)) = self.begun {
            let before = std::mem::replace(&mut *lock(&self.shared.now), draft.dataset());
            // Not under the lock: freeing much takes time.
            drop(before);
        }
    }

    fn begun(&mut self) -> Result<&mut Draft, Arc<dyn std::error::Error + Send + Sync>> {
        if self.begun.is_none() {
            let SharedDataset { turns, waiting, .. } = self.shared;
            let turn = match &self.ask {
                Some(ask) => turns.wait_asking(&**waiting, &|| ask(0))?,
                None => turns.wait(&**waiting),
            };
            let mut draft = Draft::of(&self.shared.dataset());
            self.ask.iter().for_each(|ask| draft.ask(Arc::clone(ask)));
            self.begun = Some((draft, turn));
        }
        Ok(&mut self.begun.as_mut().expect("it has begun").0)
    }
}

impl Updating for SharedDraft<'_> {
    fn snapshot(&mut self) -> Result<Arc<Snapshot>, Arc<dyn std::error::Error + Send + Sync>> {
        self.begun()?.snapshot()
    }

    fn change(&mut self, change: UpdateChange) -> Result<(), Arc<dyn std::error::Error + Send + Sync>> {
        self.begun()?.change(change)
    }

    fn ask(&mut self, ask: Ask) {
        if let Some((draft, _)) = &mut self.begun {
            draft.ask(Arc::clone(&ask));
        }
        self.ask = Some(ask);
    }

    fn heap_bytes(&self) -> u64 {
        self.begun.as_ref().map_or(0, |(draft, _)| draft.heap_bytes())
    }
}

/// A panic of another caller leaves what is locked as valid as it was: it is only changed in single steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for SharedDataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedDataset").field(&self.dataset()).finish()
    }
}

impl fmt::Debug for SharedDraft<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedDraft").field("has_begun", &self.begun.is_some()).finish_non_exhaustive()
    }
}
