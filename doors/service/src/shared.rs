//! A dataset in memory that several callers read and update: updates are made one after the other, in the order in
//! which they came.

use crate::load::Dataset;
use crate::update::{Draft, Updating};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vicus::BoxError;
use vicus_rdf::Snapshot;
use vicus_sparql::Change;
use vicus_store::Ask;

/// A caller that waits for its turn asks so often whether it still does.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(20);

/// A dataset that updates replace while others read it.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use vicus::Runtime;
/// use vicus_rdf::Snapshot;
/// use vicus_service::{Dataset, ErrorKind, Limits, MemoryBudget, Service, SessionOptions, SharedDataset, Updating};
///
/// let service = Service::new(Runtime::builder().threads(2).start(), MemoryBudget::new(64 << 20));
/// let shared = SharedDataset::new(Dataset::new(Arc::new(Snapshot::of_turtle(b"", None).unwrap())));
/// let text = "INSERT DATA { <http://e/ann> <http://e/age> 27 }";
/// let mut first = shared.draft();
/// service.update(text, &mut first, SessionOptions::default())?;
/// // The second one waits for the first one, within its time.
/// let limits = Limits { time: Some(Duration::from_millis(10)), ..Limits::default() };
/// let late = service.update(text, &mut shared.draft(), SessionOptions { limits, ..SessionOptions::default() });
/// assert_eq!(late.unwrap_err().kind(), ErrorKind::TimeLimit);
/// assert_eq!(shared.dataset().snapshot().len(), 0);
/// first.commit();
/// assert_eq!(shared.dataset().snapshot().len(), 1);
/// # Ok::<(), vicus_service::Error>(())
/// ```
pub struct SharedDataset {
    now: Mutex<Dataset>,
    turns: Mutex<Turns>,
    changed: Condvar,
}

#[derive(Default)]
struct Turns {
    next: u64,
    /// The numbers of the drafts that wait, behind that of the one that has the turn.
    line: VecDeque<u64>,
}

impl SharedDataset {
    /// One that has this data so far.
    pub fn new(dataset: Dataset) -> SharedDataset {
        SharedDataset { now: Mutex::new(dataset), turns: Mutex::default(), changed: Condvar::new() }
    }

    /// The data as it is now. Waits for no update.
    pub fn dataset(&self) -> Dataset {
        lock(&self.now).clone()
    }

    /// A draft for an update. It waits for its turn when the update asks for its data first, and no longer than the
    /// update may run.
    pub fn draft(&self) -> SharedDraft<'_> {
        SharedDraft { begun: None, ask: None, shared: self }
    }

    fn wait(&self, ask: Option<&Ask>) -> Result<Turn<'_>, BoxError> {
        let mut turns = lock(&self.turns);
        let number = turns.next;
        turns.next += 1;
        turns.line.push_back(number);
        // Its place in the line ends with this, also after an error.
        let turn = Turn { shared: self, number };
        while turns.line.front() != Some(&number) {
            drop(turns);
            ask.map_or(Ok(()), |ask| ask())?;
            turns = lock(&self.turns);
            if turns.line.front() != Some(&number) {
                let waited = self.changed.wait_timeout(turns, BETWEEN_QUESTIONS);
                turns = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        drop(turns);
        Ok(turn)
    }
}

/// A place in the line; at its front, the turn to change the data.
struct Turn<'a> {
    shared: &'a SharedDataset,
    number: u64,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.shared.turns).line.retain(|&number| number != self.number);
        self.shared.changed.notify_all();
    }
}

/// A [shared dataset](SharedDataset) as one caller changes it. Dropped without [`SharedDraft::commit`], it leaves the
/// data as it was.
pub struct SharedDraft<'a> {
    /// The data, from the turn on, which ends after it.
    begun: Option<(Draft, Turn<'a>)>,
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
            let turn = self.shared.wait(self.ask.as_ref())?;
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

    fn change(&mut self, change: Change) -> Result<(), Arc<dyn std::error::Error + Send + Sync>> {
        self.begun()?.change(change)
    }

    fn ask(&mut self, ask: Ask) {
        if let Some((draft, _)) = &mut self.begun {
            draft.ask(Arc::clone(&ask));
        }
        self.ask = Some(ask);
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
