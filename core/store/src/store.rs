//! The store itself: what is durable, what is on its way there, and which caller may write.

use crate::base;
use crate::error::{CommitError, StoreError};
use crate::record::{NamedTerm, Record};
use crate::transaction::{Transaction, id_of};
use crate::turn::{Turns, Waiting, lock};
use hashbrown::HashMap;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use vicus_disk::{Flight, Landing, Recovered, StoreFiles};
use vicus_files::Directory;
use vicus_flow::library::HashKey;
use vicus_flow::or_given_up;
use vicus_rdf::{Changes, Id, Snapshot};

/// The kind of its base files.
pub(crate) const KIND: [u8; 8] = *b"rdf     ";

/// A store that this process may write to, as the only one. Any number of threads use it.
pub struct Store {
    pub(crate) waiting: Arc<dyn Waiting>,
    /// The key of hashes of ids: of the store's number, which authors of data don't know.
    pub(crate) hash_key: HashKey,
    /// The data that is durable. Locked only to copy or replace the pointer.
    pub(crate) published: Mutex<Arc<Snapshot>>,
    /// The turn to change data.
    pub(crate) writers: Turns,
    /// The turn to write base files; taken before the turn to change data.
    pub(crate) bases: Turns,
    /// How many bytes building a base file may hold.
    pub(crate) memory: u64,
    pub(crate) state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) files: StoreFiles,
    /// The transactions that are not durable yet, in their order.
    staged: VecDeque<Staged>,
    /// What became of transactions, by their tickets, until their callers have asked.
    outcomes: BTreeMap<u64, Result<u64, CommitError>>,
    /// How often staged transactions were refused.
    pub(crate) refused: u64,
    /// The bytes of the durable records that the base does not include.
    pub(crate) log_bytes: u64,
    /// Whether a base may be found when the store is opened again whose data is not this one's.
    pub(crate) base_in_doubt: bool,
    /// While a new base is written: the records that came since it began.
    pub(crate) since: Option<Vec<Arc<[u8]>>>,
}

struct Staged {
    ticket: u64,
    record: Arc<[u8]>,
    /// The data with this and all before it, if that was needed.
    snapshot: Option<Arc<Snapshot>>,
}

/// Reads a store as it is now, beside a process that may be writing to it.
///
/// # Errors
/// There is no store, it is damaged or newer, or the system refuses.
pub fn read(directory: &dyn Directory) -> Result<Arc<Snapshot>, StoreError> {
    snapshot_of(&Recovered::read(directory, KIND)?)
}

/// The data of a store's files.
pub(crate) fn snapshot_of(recovered: &Recovered) -> Result<Arc<Snapshot>, StoreError> {
    let base = base::open(&recovered.bases, &recovered.manifest)?;
    let first = recovered.manifest.included + 1;
    let records = recovered.records.iter().zip(first..).map(|(record, number)| (&record[..], number));
    replayed(Arc::new(base), records, HashKey::of_seed(recovered.manifest.store))
}

/// Applies records with their numbers, all at once. Quads are hashed with this key, since authors of data choose ids that are their own
/// terms.
pub(crate) fn replayed<'a>(
    snapshot: Arc<Snapshot>,
    records: impl Iterator<Item = (&'a [u8], u64)>,
    hash_key: HashKey,
) -> Result<Arc<Snapshot>, StoreError> {
    let mut fresh = snapshot.fresh().behind();
    let mut changes: HashMap<[Id; 4], bool, HashKey> = HashMap::with_hasher(hash_key);
    for (record, number) in records {
        let record = Record::read(record).map_err(|what| StoreError::Record { number, what })?;
        let mut ids = Vec::with_capacity(record.terms.len() + 1);
        ids.push(Id::UNBOUND);
        for term in &record.terms {
            ids.push(match *term {
                NamedTerm::Itself(id) => id,
                NamedTerm::Key(kind, key) => id_of(&snapshot, &mut fresh, kind, key)?,
            });
        }
        for step in &record.steps {
            let mut note = |quads: &[[u32; 4]], there| {
                changes.extend(quads.iter().map(|quad| (quad.map(|number| ids[number as usize]), there)));
            };
            note(&step.deletes, false);
            note(&step.inserts, true);
        }
    }
    if changes.is_empty() {
        return Ok(snapshot);
    }
    let of = |there: bool| changes.iter().filter(|(_, is)| **is == there).map(|(quad, _)| *quad).collect();
    let changes = Changes { fresh, inserts: of(true), deletes: of(false) };
    Ok(Arc::new(or_given_up(|| snapshot.with(changes)).map_err(StoreError::given_up)??))
}

impl Store {
    /// Makes an empty directory a store. `number` is any that other stores don't have.
    ///
    /// # Errors
    /// There is a store, another process is making one, or the system refuses.
    pub fn create(directory: Arc<dyn Directory>, number: u64, waiting: Arc<dyn Waiting>) -> Result<Store, StoreError> {
        let files = StoreFiles::create(directory, KIND, number)?;
        let empty = base::open(&[], files.manifest())?;
        Ok(Store::of(files, 0, Arc::new(empty), waiting))
    }

    /// Opens a store to change it.
    ///
    /// # Errors
    /// There is none, it is damaged or newer, another process writes to it, or the system refuses, as a full disk does.
    pub fn open(directory: Arc<dyn Directory>, waiting: Arc<dyn Waiting>) -> Result<Store, StoreError> {
        let (files, recovered) = StoreFiles::open(directory, KIND)?;
        let log_bytes = recovered.records.iter().map(|record| record.len() as u64).sum();
        Ok(Store::of(files, log_bytes, snapshot_of(&recovered)?, waiting))
    }

    fn of(files: StoreFiles, log_bytes: u64, snapshot: Arc<Snapshot>, waiting: Arc<dyn Waiting>) -> Store {
        let state = State {
            files,
            staged: VecDeque::new(),
            outcomes: BTreeMap::new(),
            refused: 0,
            log_bytes,
            base_in_doubt: false,
            since: None,
        };
        let hash_key = HashKey::of_seed(state.files.manifest().store);
        let (writers, bases) = Default::default();
        let (published, memory) = (Mutex::new(snapshot), base::BUILT_IN_MEMORY);
        Store { waiting, hash_key, published, writers, bases, memory, state: Mutex::new(state) }
    }

    /// The data as it is now: of all transactions that are durable. Never waits.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.published))
    }

    /// Begins a transaction, when those before it have ended or been staged.
    ///
    /// # Errors
    /// There is not enough memory, or data that is needed is damaged.
    pub fn write(&self) -> Result<Transaction<'_>, StoreError> {
        Transaction::new(self, self.writers.wait(&*self.waiting))
    }

    /// Begins a transaction; `None` if another one is open.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn try_write(&self) -> Result<Option<Transaction<'_>>, StoreError> {
        self.writers.try_now(&*self.waiting).map(|turn| Transaction::new(self, turn)).transpose()
    }

    /// The data with all that is staged, and how often staged transactions were refused. The caller has the turn to change data.
    pub(crate) fn head(&self) -> Result<(Arc<Snapshot>, u64), StoreError> {
        let (unapplied, refused) = {
            let state = lock(&self.state);
            (state.unapplied(&self.published), state.refused)
        };
        let snapshot = unapplied.apply(self.hash_key)?;
        let mut state = lock(&self.state);
        if state.refused == refused
            && let Some(last) = state.staged.back_mut()
        {
            last.snapshot = Some(Arc::clone(&snapshot));
        }
        Ok((snapshot, refused))
    }

    /// Stages a record, whose changes make this snapshot. A transaction says how often others had been refused when it began. The ticket is
    /// for [`Store::land`]. The caller has the turn to change data.
    pub(crate) fn stage(
        &self,
        record: Vec<u8>,
        snapshot: Option<Arc<Snapshot>>,
        refused: Option<u64>,
    ) -> Result<u64, CommitError> {
        debug_assert_eq!(Record::read(&record).err(), None, "a record can be read when the store is opened again");
        let mut state = lock(&self.state);
        if refused.is_some_and(|refused| state.refused != refused) {
            return Err(CommitError::BuiltOnRefused);
        }
        state.resolve()?;
        let ticket = state.files.log().stage(&record);
        state.staged.push_back(Staged { ticket, record: record.into(), snapshot });
        Ok(ticket)
    }

    /// Waits until a staged transaction is durable, and returns its number. The first caller that finds the drive idle applies and writes
    /// what is staged, for all.
    pub(crate) fn land(&self, ticket: u64) -> Result<u64, CommitError> {
        loop {
            let flight = {
                let mut state = lock(&self.state);
                if let Some(outcome) = state.outcomes.remove(&ticket) {
                    return outcome;
                }
                let flight = state.files.log().take_off();
                flight.map(|flight| (flight, state.unapplied(&self.published)))
            };
            match flight {
                Some((mut flight, unapplied)) => {
                    // Before it is durable, because afterwards it could not be refused.
                    let applied = unapplied.apply(self.hash_key);
                    if applied.is_ok() {
                        flight.run();
                    }
                    let (told, next) = {
                        let mut state = lock(&self.state);
                        let told = state.settle(flight, applied, &self.published);
                        (told, state.staged.front().map(|staged| staged.ticket))
                    };
                    // One of those that were staged meanwhile writes for them.
                    told.chain(next).for_each(|ticket| self.waiting.wake(ticket));
                }
                None => self.waiting.wait(ticket, &mut || {
                    let mut state = lock(&self.state);
                    state.outcomes.contains_key(&ticket) || state.files.log().can_take_off()
                }),
            }
        }
    }

    /// Waits until all that is staged is durable or refused: the callers of [`Store::land`] see to that. This caller has the turn to change
    /// data, so no more is staged meanwhile.
    pub(crate) fn land_all(&self) {
        let last = lock(&self.state).staged.back().map(|staged| staged.ticket);
        if let Some(last) = last {
            self.waiting.wait(last, &mut || lock(&self.state).staged.is_empty());
        }
    }
}

/// Data, and records that follow it.
struct Unapplied {
    snapshot: Arc<Snapshot>,
    records: Vec<Arc<[u8]>>,
}

impl Unapplied {
    /// The data with what the records change, all at once.
    fn apply(self, hash_key: HashKey) -> Result<Arc<Snapshot>, StoreError> {
        if self.records.is_empty() {
            return Ok(self.snapshot);
        }
        // These records have no numbers yet, and were made by this process.
        let records = self.records.iter().map(|record| (&**record, 0));
        replayed(self.snapshot, records, hash_key)
    }
}

impl State {
    /// The last staged transaction whose data is known, or else what is durable, and what is staged behind it.
    fn unapplied(&self, published: &Mutex<Arc<Snapshot>>) -> Unapplied {
        let known = self.staged.iter().rposition(|staged| staged.snapshot.is_some());
        let snapshot = known.and_then(|known| self.staged[known].snapshot.clone());
        let behind = self.staged.iter().skip(known.map_or(0, |known| known + 1));
        let records = behind.map(|staged| Arc::clone(&staged.record)).collect();
        Unapplied { snapshot: snapshot.unwrap_or_else(|| Arc::clone(&lock(published))), records }
    }

    /// Notes what became of a flight, which has run if its records could be applied, and publishes what is durable now. Returns the tickets
    /// of which it was told.
    fn settle(
        &mut self,
        flight: Flight,
        applied: Result<Arc<Snapshot>, StoreError>,
        published: &Mutex<Arc<Snapshot>>,
    ) -> Range<u64> {
        let snapshot = match applied {
            Ok(snapshot) => snapshot,
            Err(error) => {
                let abandoned = self.files.log().abandon(flight);
                self.refuse(&abandoned, &CommitError::Failed(error));
                return abandoned;
            }
        };
        let Landing { flown, outcome, refused } = self.files.log().land(flight);
        match outcome {
            Ok(()) => {
                let mut number = self.files.log().durable() - (flown.end - flown.start);
                let count = self.staged.partition_point(|staged| staged.ticket < flown.end);
                for staged in self.staged.drain(..count) {
                    number += 1;
                    self.outcomes.insert(staged.ticket, Ok(number));
                    self.log_bytes += staged.record.len() as u64;
                    if let Some(since) = &mut self.since {
                        since.push(staged.record);
                    }
                }
                *lock(published) = snapshot;
            }
            Err(refusal) => self.refuse(&flown, &CommitError::Refused(refusal)),
        }
        flown.start..refused.end
    }

    /// Nothing that is staged happens: for some of it for this reason, for all others because they may be built on these.
    fn refuse(&mut self, some: &Range<u64>, why: &CommitError) {
        for staged in self.staged.drain(..) {
            let error = if some.contains(&staged.ticket) { why.clone() } else { CommitError::BuiltOnRefused };
            self.outcomes.insert(staged.ticket, Err(error));
        }
        self.refused += 1;
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("Store").field("manifest", state.files.manifest()).finish_non_exhaustive()
    }
}
