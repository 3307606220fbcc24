//! The store itself: what is durable, what is on its way there, and who may write.

use crate::base;
use crate::error::{CommitError, StoreError};
use crate::record::{NamedTerm, Record};
use crate::transaction::{Transaction, id_of};
use crate::turn::{Turns, Waiting, lock};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};
use vicus_disk::{Landing, Recovered, Refusal, StoreFiles};
use vicus_files::Directory;
use vicus_flow::or_given_up;
use vicus_rdf::{Changes, Id, Snapshot};

/// The kind of its base files.
pub(crate) const KIND: [u8; 8] = *b"rdf     ";

/// A store that this process may write to, as the only one. Any number of threads use it.
pub struct Store {
    pub(crate) waiting: Arc<dyn Waiting>,
    /// The data that is durable. Locked only to copy or replace the pointer.
    pub(crate) published: Mutex<Arc<Snapshot>>,
    /// The turn to change data.
    pub(crate) writers: Turns,
    /// The turn to write base files; taken before the turn to change data.
    pub(crate) bases: Turns,
    pub(crate) state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) files: StoreFiles,
    /// The data with all that is staged: what the next transaction begins with.
    pub(crate) head: Arc<Snapshot>,
    /// The transactions that are not durable yet, in their order.
    staged: VecDeque<Staged>,
    /// What became of transactions, by their tickets, until their callers have asked.
    outcomes: BTreeMap<u64, Result<u64, Refusal>>,
    /// How often staged transactions were refused.
    pub(crate) refused: u64,
    /// Whether a base may be found when the store is opened again whose data is not this one's.
    pub(crate) base_in_doubt: bool,
    /// While a new base is written: the records that came since it began.
    pub(crate) since: Option<Vec<Arc<[u8]>>>,
}

struct Staged {
    ticket: u64,
    record: Arc<[u8]>,
    snapshot: Arc<Snapshot>,
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
    Ok(Arc::new(replayed(base, records)?))
}

/// Applies records with their numbers, all at once.
pub(crate) fn replayed<'a>(
    snapshot: Snapshot,
    records: impl Iterator<Item = (&'a [u8], u64)>,
) -> Result<Snapshot, StoreError> {
    let mut fresh = snapshot.fresh().behind();
    let mut changes: HashMap<[Id; 4], bool, FxBuildHasher> = HashMap::default();
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
    Ok(or_given_up(|| snapshot.with(changes)).map_err(StoreError::given_up)??)
}

impl Store {
    /// Makes an empty directory a store. `number` is any that other stores don't have.
    ///
    /// # Errors
    /// There is a store, another process is making one, or the system refuses.
    pub fn create(directory: Arc<dyn Directory>, number: u64, waiting: Arc<dyn Waiting>) -> Result<Store, StoreError> {
        let files = StoreFiles::create(directory, KIND, number)?;
        let empty = base::open(&[], files.manifest())?;
        Ok(Store::of(files, Arc::new(empty), waiting))
    }

    /// Opens a store to change it.
    ///
    /// # Errors
    /// There is none, it is damaged or newer, another process writes to it, or the system refuses, as a full disk does.
    pub fn open(directory: Arc<dyn Directory>, waiting: Arc<dyn Waiting>) -> Result<Store, StoreError> {
        let (files, recovered) = StoreFiles::open(directory, KIND)?;
        Ok(Store::of(files, snapshot_of(&recovered)?, waiting))
    }

    fn of(files: StoreFiles, snapshot: Arc<Snapshot>, waiting: Arc<dyn Waiting>) -> Store {
        let state = State {
            files,
            head: Arc::clone(&snapshot),
            staged: VecDeque::new(),
            outcomes: BTreeMap::new(),
            refused: 0,
            base_in_doubt: false,
            since: None,
        };
        let (writers, bases) = Default::default();
        Store { waiting, published: Mutex::new(snapshot), writers, bases, state: Mutex::new(state) }
    }

    /// The data as it is now: of all transactions that are durable. Never waits.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.published))
    }

    /// Begins a transaction, when those before it have ended or been staged.
    pub fn write(&self) -> Transaction<'_> {
        Transaction::new(self, self.writers.wait(&*self.waiting))
    }

    /// Begins a transaction if no other one is open.
    pub fn try_write(&self) -> Option<Transaction<'_>> {
        Some(Transaction::new(self, self.writers.try_now(&*self.waiting)?))
    }

    /// Stages a transaction, which began when so many had been refused. Its ticket is for [`Store::land`].
    pub(crate) fn stage(&self, record: Vec<u8>, snapshot: &Arc<Snapshot>, refused: u64) -> Result<u64, CommitError> {
        let mut state = lock(&self.state);
        if state.refused != refused {
            return Err(CommitError::BuiltOnRefused);
        }
        state.resolve()?;
        let ticket = state.files.log().stage(&record);
        state.head = Arc::clone(snapshot);
        state.staged.push_back(Staged { ticket, record: record.into(), snapshot: Arc::clone(snapshot) });
        Ok(ticket)
    }

    /// Waits until a staged transaction is durable, and returns its number. The first caller that finds the drive idle writes what is
    /// staged, for all.
    pub(crate) fn land(&self, ticket: u64) -> Result<u64, Refusal> {
        loop {
            let flight = {
                let mut state = lock(&self.state);
                if let Some(outcome) = state.outcomes.remove(&ticket) {
                    return outcome;
                }
                state.files.log().take_off()
            };
            match flight {
                Some(mut flight) => {
                    flight.run();
                    let mut state = lock(&self.state);
                    let landing = state.files.log().land(flight);
                    state.settle(landing, &self.published);
                    drop(state);
                    self.waiting.wake();
                }
                None => self.waiting.wait(&mut || {
                    let mut state = lock(&self.state);
                    state.outcomes.contains_key(&ticket) || state.files.log().can_take_off()
                }),
            }
        }
    }

    /// Waits until all that is staged is durable or refused. The caller has the turn to change data, so no more is staged meanwhile.
    pub(crate) fn land_all(&self) {
        loop {
            let last = match lock(&self.state).staged.back() {
                Some(last) => last.ticket,
                None => return,
            };
            // Another caller asks for the outcome of that ticket. This one only helps, and waits.
            let mut flight = lock(&self.state).files.log().take_off();
            match &mut flight {
                Some(flight) => flight.run(),
                None => self.waiting.wait(&mut || {
                    let mut state = lock(&self.state);
                    state.staged.back().is_none_or(|staged| staged.ticket > last) || state.files.log().can_take_off()
                }),
            }
            if let Some(flight) = flight {
                let mut state = lock(&self.state);
                let landing = state.files.log().land(flight);
                state.settle(landing, &self.published);
                drop(state);
                self.waiting.wake();
            }
        }
    }
}

impl State {
    /// Notes what became of a flight, and publishes what is durable now.
    fn settle(&mut self, landing: Landing, published: &Mutex<Arc<Snapshot>>) {
        match landing.outcome {
            Ok(()) => {
                let mut number = self.files.log().durable() - (landing.flown.end - landing.flown.start);
                let flown = self.staged.partition_point(|staged| staged.ticket < landing.flown.end);
                for staged in self.staged.drain(..flown) {
                    number += 1;
                    self.outcomes.insert(staged.ticket, Ok(number));
                    if let Some(since) = &mut self.since {
                        since.push(staged.record);
                    }
                    *lock(published) = staged.snapshot;
                }
            }
            Err(refusal) => {
                for staged in self.staged.drain(..) {
                    let in_doubt = refusal.in_doubt && landing.flown.contains(&staged.ticket);
                    self.outcomes.insert(staged.ticket, Err(Refusal { in_doubt, ..refusal.clone() }));
                }
                self.refused += 1;
                self.head = Arc::clone(&lock(published));
            }
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("Store").field("manifest", state.files.manifest()).finish_non_exhaustive()
    }
}
