//! The store itself: what is durable, what is on its way there, and which caller may write.

use crate::base;
use crate::error::{CommitError, StoreError};
use crate::gathering::Gathering;
use crate::record::{NamedTerm, Record, Step};
use crate::transaction::{Transaction, id_of, last_of_each};
use crate::turn::{Turn, Turns, Waiting, lock};
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use vicus_disk::{Flight, Landing, Recovered, StoreFiles};
use vicus_files::Directory;
use vicus_flow::library::HashKey;
use vicus_flow::{NoMemory, or_given_up};
use vicus_rdf::{Changes, Graphs, Id, Kind, Snapshot, Unranked};

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
    /// What is called after commits.
    watcher: Mutex<Option<Watcher>>,
}

/// See [`Store::watch`].
type Watcher = Arc<dyn Fn() + Send + Sync>;

pub(crate) struct State {
    pub(crate) files: StoreFiles,
    /// The transactions that are not durable yet, in their order: those of the flight that is on its way, then those for the next ones.
    staged: VecDeque<Staged>,
    /// Whether a caller has the turn to change data: then nothing is staged but by itself.
    is_writing: bool,
    /// The batches that came meanwhile. They are staged when the turn ends.
    aside: Vec<Staged>,
    /// For how many the next flight waits.
    gathering: Gathering,
    /// The key of the next transaction.
    next_key: u64,
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
    waiter: Arc<Waiter>,
    record: Arc<[u8]>,
    /// The data with this and all before it, if that was needed.
    snapshot: Option<Arc<Snapshot>>,
}

/// What the caller of a transaction waits for.
#[derive(Debug)]
pub(crate) struct Waiter {
    key: u64,
    /// The number of its record.
    outcome: OnceLock<Result<u64, CommitError>>,
}

impl Waiter {
    fn is_told(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// It is told once.
    fn tell(&self, outcome: Result<u64, CommitError>) -> u64 {
        self.outcome.set(outcome).expect("it was not told before");
        self.key
    }
}

/// The turn to change data. Batches that came meanwhile are staged when it ends.
pub(crate) struct Writing<'a> {
    store: &'a Store,
    /// Ends after this.
    _turn: Turn<'a>,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let told = lock(&self.store.state).take_in();
        told.into_iter().for_each(|key| self.store.waiting.wake(key));
    }
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
    replayed(Arc::new(base), HashKey::of_seed(recovered.manifest.store), records)
}

/// Applies records with their numbers: those that follow each other and speak of no graphs, all at once. `hash_key` is the store's.
pub(crate) fn replayed<'a>(
    snapshot: Arc<Snapshot>,
    hash_key: HashKey,
    records: impl Iterator<Item = (&'a [u8], u64)>,
) -> Result<Arc<Snapshot>, StoreError> {
    let found = HashMap::with_hasher(hash_key);
    let (fresh, ids) = (snapshot.fresh().behind(), Vec::new());
    let mut replay = Replay { fresh, snapshot, changes: Vec::new(), found, ids };
    let mut records = records.peekable();
    while records.peek().is_some() {
        let (mut read, mut terms) = (Vec::new(), 0);
        while terms < AT_ONCE
            && let Some((record, number)) = records.next()
        {
            let record = Record::read(record).map_err(|what| StoreError::Record { number, what })?;
            terms += record.terms.len();
            read.push(record);
        }
        replay.records(&read)?;
    }
    if !replay.changes.is_empty() {
        replay.apply()?;
    }
    Ok(replay.snapshot)
}

/// About so many terms of records are looked up at once: in their order, a dictionary finds many in a small part of the time.
const AT_ONCE: usize = 1 << 16;

/// Fewer than these are looked up one by one: so a damaged page is the error of those records alone that need it.
const MANY: usize = 8;

/// Records as they are applied.
struct Replay<'a> {
    snapshot: Arc<Snapshot>,
    /// The terms that it lacks.
    fresh: Unranked,
    /// What becomes of quads.
    changes: Vec<([Id; 4], bool)>,
    /// The places of the terms so far among the ids: to find one here takes a tenth of the time that it takes in a dictionary, whose texts
    /// are compressed.
    found: HashMap<(u8, &'a str), usize, HashKey>,
    ids: Vec<Id>,
}

/// Where the id of a record's term is.
enum Place {
    Itself(Id),
    Found(usize),
}

impl<'a> Replay<'a> {
    fn records(&mut self, records: &[Record<'a>]) -> Result<(), StoreError> {
        // The places of all terms of the records, and the terms that none before had.
        let mut places = Vec::with_capacity(records.iter().map(|record| record.terms.len()).sum());
        let (first, mut new) = (self.ids.len(), Vec::new());
        for term in records.iter().flat_map(|record| &record.terms) {
            places.push(match *term {
                NamedTerm::Itself(id) => Place::Itself(id),
                NamedTerm::Key(kind, key) => {
                    let next = first + new.len();
                    let place = *self.found.entry((kind as u8, key)).or_insert(next);
                    if place == next {
                        new.push((kind, key));
                    }
                    Place::Found(place)
                }
            });
        }
        self.look_up(&new)?;
        let mut places = &places[..];
        let mut ids = Vec::new();
        for record in records {
            let (of_record, others) = places.split_at(record.terms.len());
            places = others;
            ids.clear();
            ids.push(Id::UNBOUND);
            ids.extend(of_record.iter().map(|place| match *place {
                Place::Itself(id) => id,
                Place::Found(place) => self.ids[place],
            }));
            self.record(record, &ids)?;
        }
        Ok(())
    }

    /// Appends the ids of terms that no record before had.
    fn look_up(&mut self, terms: &[(Kind, &str)]) -> Result<(), StoreError> {
        if terms.len() >= MANY
            && let Ok(Ok(ids)) = or_given_up(|| self.snapshot.find_or_add_all(&mut self.fresh, terms))
        {
            self.ids.extend(ids);
            return Ok(());
        }
        for (kind, key) in terms {
            self.ids.push(id_of(&self.snapshot, &mut self.fresh, *kind, key)?);
        }
        Ok(())
    }

    /// The ids are of its terms, behind that of the default graph.
    fn record(&mut self, record: &Record<'_>, ids: &[Id]) -> Result<(), StoreError> {
        let id = |number: u32| ids[number as usize];
        for step in &record.steps {
            match step {
                Step::Quads { deletes, inserts } => {
                    for (quads, there) in [(deletes, false), (inserts, true)] {
                        self.changes.extend(quads.iter().map(|quad| (quad.map(id), there)));
                    }
                }
                Step::ClearAll => self.clear(Graphs::All)?,
                Step::ClearNamed => self.clear(Graphs::Named)?,
                Step::Clear(graph) => self.clear(Graphs::One(id(*graph)))?,
                Step::Copy { from, to } => {
                    // The snapshot has the name then.
                    self.apply()?;
                    let none = self.snapshot.fresh().behind();
                    self.with(|snapshot| snapshot.with(Changes::of_copy(snapshot, id(*from), id(*to), none)?))?;
                }
            }
        }
        Ok(())
    }

    fn clear(&mut self, graphs: Graphs) -> Result<(), StoreError> {
        self.apply()?;
        self.with(|snapshot| snapshot.cleared(graphs))
    }

    /// Makes the changes so far, and the terms, part of the snapshot. Ids stay.
    fn apply(&mut self) -> Result<(), StoreError> {
        let changes = last_of_each(std::mem::take(&mut self.changes));
        let of = |there: bool| changes.iter().filter(|(_, is)| *is == there).map(|(quad, _)| *quad).collect();
        let fresh = std::mem::replace(&mut self.fresh, self.snapshot.fresh().behind());
        let changes = Changes { fresh, inserts: of(true), deletes: of(false) };
        self.with(|snapshot| snapshot.with(changes))
    }

    fn with(&mut self, make: impl FnOnce(&Snapshot) -> Result<Snapshot, NoMemory>) -> Result<(), StoreError> {
        let snapshot = &self.snapshot;
        let made = or_given_up(|| make(snapshot)).map_err(StoreError::given_up)??;
        self.snapshot = Arc::new(made);
        self.fresh = self.snapshot.fresh().behind();
        Ok(())
    }
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

    /// Takes the store away, with all of its data: for one that was made for data which then could not be loaded.
    ///
    /// # Errors
    /// The system refuses.
    pub fn remove(self) -> Result<(), StoreError> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(state.files.remove()?)
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
            is_writing: false,
            aside: Vec::new(),
            gathering: Gathering::default(),
            next_key: 0,
            refused: 0,
            log_bytes,
            base_in_doubt: false,
            since: None,
        };
        let hash_key = HashKey::of_seed(state.files.manifest().store);
        let (writers, bases, watcher) = Default::default();
        let (published, memory) = (Mutex::new(snapshot), base::BUILT_IN_MEMORY);
        Store { waiting, hash_key, published, writers, bases, memory, state: Mutex::new(state), watcher }
    }

    /// The data as it is now: of all transactions that are durable. Never waits.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.published))
    }

    /// Has a function called after each sync that has made changes durable and visible, on a thread of a caller whose changes they are. It
    /// replaces the one before. It is short, and asks nothing of the store.
    pub fn watch(&self, watcher: Option<Arc<dyn Fn() + Send + Sync>>) {
        *lock(&self.watcher) = watcher;
    }

    /// Begins a transaction, when those before it have ended or been staged.
    ///
    /// # Errors
    /// There is not enough memory, or data that is needed is damaged.
    pub fn write(&self) -> Result<Transaction<'_>, StoreError> {
        Transaction::new(self, self.writing())
    }

    /// Begins a transaction; `None` if another one is open.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn try_write(&self) -> Result<Option<Transaction<'_>>, StoreError> {
        self.writers.try_now(&*self.waiting).map(|turn| Transaction::new(self, self.writing_with(turn))).transpose()
    }

    /// Waits for the turn to change data.
    pub(crate) fn writing(&self) -> Writing<'_> {
        self.writing_with(self.writers.wait(&*self.waiting))
    }

    fn writing_with<'a>(&'a self, turn: Turn<'a>) -> Writing<'a> {
        lock(&self.state).is_writing = true;
        Writing { store: self, _turn: turn }
    }

    /// The data with all that is staged, and how often staged transactions were refused. The caller has the turn to change data.
    pub(crate) fn head(&self) -> Result<(Arc<Snapshot>, u64), StoreError> {
        let begin = || {
            let state = lock(&self.state);
            (state.unapplied(&self.published, self.hash_key), state.refused)
        };
        let (unapplied, mut refused) = begin();
        let snapshot = match unapplied.apply() {
            Ok(snapshot) => snapshot,
            Err(_) => {
                // A batch that can't be applied is refused when the drive is there for it, and what is left can be.
                self.land_all();
                let (unapplied, now) = begin();
                refused = now;
                unapplied.apply()?
            }
        };
        let mut state = lock(&self.state);
        if state.refused == refused
            && let Some(last) = state.staged.back_mut()
        {
            last.snapshot = Some(Arc::clone(&snapshot));
        }
        Ok((snapshot, refused))
    }

    /// Stages a record, whose changes make this snapshot, for [`Store::land`]. `refused` is how often others had been refused when its
    /// transaction began. The caller has the turn to change data.
    pub(crate) fn stage(
        &self,
        record: Vec<u8>,
        snapshot: Arc<Snapshot>,
        refused: u64,
    ) -> Result<Arc<Waiter>, CommitError> {
        debug_assert_eq!(Record::read(&record).err(), None, "a record can be read when the store is opened again");
        let mut state = lock(&self.state);
        if state.refused != refused {
            return Err(CommitError::BuiltOnRefused);
        }
        state.resolve()?;
        let (staged, waiter) = state.staged_of(record, Some(snapshot));
        state.push(staged);
        Ok(waiter)
    }

    /// Stages a record that looks at nothing, for [`Store::land`]; if another caller has the turn to change data, behind what that does.
    pub(crate) fn hand_in(&self, record: Vec<u8>) -> Result<Arc<Waiter>, CommitError> {
        debug_assert_eq!(Record::read(&record).err(), None, "a record can be read when the store is opened again");
        let mut state = lock(&self.state);
        let (staged, waiter) = state.staged_of(record, None);
        match state.is_writing {
            true => state.aside.push(staged),
            false => {
                state.resolve()?;
                state.push(staged);
            }
        }
        Ok(waiter)
    }

    /// Waits until a staged transaction is durable, and returns its number. A caller that finds the drive idle, and those there who are
    /// awaited, applies and writes what is staged, for all.
    pub(crate) fn land(&self, waiter: &Waiter) -> Result<u64, CommitError> {
        loop {
            let next = {
                let mut state = lock(&self.state);
                // Under the lock: what a flight has told is told before the drive is idle again.
                if let Some(outcome) = waiter.outcome.get() {
                    return outcome.clone();
                }
                state
                    .next(waiter, &*self.waiting)
                    .map(|flight| (flight, state.unapplied(&self.published, self.hash_key)))
            };
            match next {
                Next::Fly((flight, unapplied)) => self.fly(flight, &unapplied),
                Next::WaitAtMost(ns) => {
                    let mut ready = || waiter.is_told() || lock(&self.state).can_fly(&*self.waiting);
                    self.waiting.wait_at_most(waiter.key, ns, &mut ready);
                }
                Next::Wait => self.waiting.wait(waiter.key, &mut || {
                    waiter.is_told() || {
                        let mut state = lock(&self.state);
                        // When the drive is idle, the first one waits for others no longer than they are awaited.
                        state.can_fly(&*self.waiting) || (state.is_first(waiter) && state.files.log().can_take_off())
                    }
                }),
            }
        }
    }

    /// Applies and writes what has taken off, and tells those whose transactions these are.
    fn fly(&self, mut flight: Flight, unapplied: &Unapplied) {
        // Before it is durable, because afterwards it could not be refused.
        let (told, next) = match unapplied.apply() {
            Ok(snapshot) => {
                let began = self.waiting.now_ns();
                flight.run();
                let now = self.waiting.now_ns();
                let mut state = lock(&self.state);
                let (told, before) = state.settle(flight, snapshot, &self.published);
                let State { gathering, staged, aside, .. } = &mut *state;
                gathering.landed(told.len() + staged.len() + aside.len(), began, now);
                let next = staged.front().map(|staged| staged.waiter.key);
                drop(state);
                // What only this version had is freed without a lock.
                drop(before);
                (told, next)
            }
            Err(error) => {
                let reasons = unapplied.reasons();
                let mut state = lock(&self.state);
                let told = state.ground(flight, error, &reasons);
                (told, state.staged.front().map(|staged| staged.waiter.key))
            }
        };
        // One of those that were staged meanwhile writes for them.
        next.into_iter().chain(told).for_each(|key| self.waiting.wake(key));
        let watcher = lock(&self.watcher).clone();
        watcher.into_iter().for_each(|watcher| watcher());
    }

    /// Waits until all that is staged is durable or refused: the callers of [`Store::land`] see to that. This caller has the turn to change
    /// data, so no more is staged meanwhile.
    pub(crate) fn land_all(&self) {
        let (first, last) = {
            let mut state = lock(&self.state);
            // Others wait for this caller.
            state.gathering.hurry();
            let key = |staged: Option<&Staged>| staged.map(|staged| staged.waiter.key);
            (key(state.staged.front()), key(state.staged.back()))
        };
        if let (Some(first), Some(last)) = (first, last) {
            self.waiting.wake(first);
            self.waiting.wait(last, &mut || lock(&self.state).staged.is_empty());
        }
    }
}

/// What a caller does whose transaction is not durable yet.
enum Next<F> {
    Fly(F),
    /// The first one of the next flight, while the drive is idle: others are awaited for so many nanoseconds.
    WaitAtMost(u64),
    Wait,
}

impl<F> Next<F> {
    fn map<G>(self, function: impl FnOnce(F) -> G) -> Next<G> {
        match self {
            Next::Fly(flight) => Next::Fly(function(flight)),
            Next::WaitAtMost(ns) => Next::WaitAtMost(ns),
            Next::Wait => Next::Wait,
        }
    }
}

/// Data, and records that follow it.
struct Unapplied {
    snapshot: Arc<Snapshot>,
    hash_key: HashKey,
    records: Vec<Arc<[u8]>>,
}

impl Unapplied {
    /// The data with what the records change, all at once.
    fn apply(&self) -> Result<Arc<Snapshot>, StoreError> {
        // These records have no numbers yet, and were made by this process.
        let records = self.records.iter().map(|record| (&**record, 0));
        replayed(Arc::clone(&self.snapshot), self.hash_key, records)
    }

    /// Why each record that can't be applied by itself can't.
    fn reasons(&self) -> Vec<(Arc<[u8]>, StoreError)> {
        let reason = |record: &Arc<[u8]>| {
            let applied = replayed(Arc::clone(&self.snapshot), self.hash_key, [(&**record, 0)].into_iter());
            applied.err().map(|error| (Arc::clone(record), error))
        };
        self.records.iter().filter_map(reason).collect()
    }
}

impl State {
    /// A record with what its caller waits for.
    fn staged_of(&mut self, record: Vec<u8>, snapshot: Option<Arc<Snapshot>>) -> (Staged, Arc<Waiter>) {
        let waiter = Arc::new(Waiter { key: self.next_key, outcome: OnceLock::new() });
        self.next_key += 1;
        (Staged { waiter: Arc::clone(&waiter), record: record.into(), snapshot }, waiter)
    }

    fn push(&mut self, staged: Staged) {
        self.files.log().stage(&staged.record);
        self.staged.push_back(staged);
    }

    /// Stages what came while a caller had the turn to change data. Returns the keys of those that have something to do now.
    fn take_in(&mut self) -> Vec<u64> {
        self.is_writing = false;
        if self.aside.is_empty() {
            return Vec::new();
        }
        let aside = std::mem::take(&mut self.aside);
        if let Err(error) = self.resolve() {
            let refused = |staged: Staged| staged.waiter.tell(Err(CommitError::Failed(error.clone())));
            return aside.into_iter().map(refused).collect();
        }
        aside.into_iter().for_each(|staged| self.push(staged));
        self.staged.front().map(|staged| staged.waiter.key).into_iter().collect()
    }

    /// For how many nanoseconds the next flight still waits for others.
    fn patience(&self, waiting: &dyn Waiting) -> u64 {
        self.gathering.patience(self.staged.len() + self.aside.len(), || waiting.now_ns())
    }

    fn can_fly(&mut self, waiting: &dyn Waiting) -> bool {
        self.files.log().can_take_off() && self.patience(waiting) == 0
    }

    fn is_first(&self, waiter: &Waiter) -> bool {
        self.staged.front().is_some_and(|first| first.waiter.key == waiter.key)
    }

    fn next(&mut self, waiter: &Waiter, waiting: &dyn Waiting) -> Next<Flight> {
        if !self.files.log().can_take_off() {
            return Next::Wait;
        }
        match self.patience(waiting) {
            0 => {
                self.gathering.took_off(self.staged.len() + self.aside.len());
                Next::Fly(self.files.log().take_off().expect("it can take off"))
            }
            ns if self.is_first(waiter) => Next::WaitAtMost(ns),
            _ => Next::Wait,
        }
    }

    /// The last staged transaction whose data is known, or else what is durable, and what is staged behind it.
    fn unapplied(&self, published: &Mutex<Arc<Snapshot>>, hash_key: HashKey) -> Unapplied {
        let known = self.staged.iter().rposition(|staged| staged.snapshot.is_some());
        let snapshot = known.and_then(|known| self.staged[known].snapshot.clone());
        let behind = self.staged.iter().skip(known.map_or(0, |known| known + 1));
        let records = behind.map(|staged| Arc::clone(&staged.record)).collect();
        Unapplied { snapshot: snapshot.unwrap_or_else(|| Arc::clone(&lock(published))), hash_key, records }
    }

    /// Notes what became of a flight that has run, and publishes what is durable now. Returns the keys of those that it was told, and the
    /// data that was published before.
    fn settle(
        &mut self,
        flight: Flight,
        snapshot: Arc<Snapshot>,
        published: &Mutex<Arc<Snapshot>>,
    ) -> (Vec<u64>, Option<Arc<Snapshot>>) {
        let Landing { flown, outcome, .. } = self.files.log().land(flight);
        let count = (flown.end - flown.start) as usize;
        match outcome {
            Ok(()) => {
                // First, since a caller that was told may look.
                let before = std::mem::replace(&mut *lock(published), snapshot);
                let first = self.files.log().durable() - count as u64 + 1;
                let mut told = Vec::with_capacity(count);
                for (staged, number) in self.staged.drain(..count).zip(first..) {
                    told.push(staged.waiter.tell(Ok(number)));
                    self.log_bytes += staged.record.len() as u64;
                    if let Some(since) = &mut self.since {
                        since.push(staged.record);
                    }
                }
                (told, Some(before))
            }
            Err(refusal) => (self.refuse(count, &CommitError::Refused(refusal)), None),
        }
    }

    /// Refuses what can't be applied, for these reasons, before its flight takes off again with the rest. If they explain nothing, or
    /// something was built on what they explain, refuses all. Returns the keys of what is refused.
    fn ground(&mut self, flight: Flight, error: StoreError, reasons: &[(Arc<[u8]>, StoreError)]) -> Vec<u64> {
        self.files.log().withdraw(flight);
        let reason = |staged: &Staged| reasons.iter().find(|(record, _)| Arc::ptr_eq(record, &staged.record));
        let first = self.staged.iter().position(|staged| reason(staged).is_some());
        let is_built_on = |first: usize| self.staged.iter().skip(first).any(|staged| staged.snapshot.is_some());
        if first.is_none_or(is_built_on) {
            return self.refuse(self.staged.len(), &CommitError::Failed(error));
        }
        let mut told = Vec::new();
        for staged in std::mem::take(&mut self.staged) {
            match reason(&staged) {
                Some((_, error)) => {
                    told.push(staged.waiter.tell(Err(CommitError::Failed(error.clone()))));
                }
                None => {
                    self.files.log().stage(&staged.record);
                    self.staged.push_back(staged);
                }
            }
        }
        self.refused += 1;
        told
    }

    /// Nothing that is staged happens: the first ones for this reason, all others because they may be built on these. Returns the keys of
    /// all.
    fn refuse(&mut self, count: usize, why: &CommitError) -> Vec<u64> {
        self.refused += 1;
        let tell = |(place, staged): (usize, Staged)| {
            let error = if place < count { why.clone() } else { CommitError::BuiltOnRefused };
            staged.waiter.tell(Err(error))
        };
        self.staged.drain(..).enumerate().map(tell).collect()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("Store").field("manifest", state.files.manifest()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
