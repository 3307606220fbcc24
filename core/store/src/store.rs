//! The store itself: its durable data, its transactions on their way there, and the caller that may write.

use crate::base;
use crate::error::{CommitError, StoreError, Unread};
use crate::following::{Copies, Published};
use crate::mutant::{Mutant, Planted};
use crate::record::{NamedTerm, Record, Step};
use crate::staging::{Act, Coming, Staged, Staging};
use crate::sync::Mutex;
use crate::transaction::{Ask, Transaction, id_of, last_of_each};
use crate::turn::{BETWEEN_QUESTIONS_NS, TicketGuard, TicketLock, Waiting, lock};
use hashbrown::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use vicus_disk::{Flight, Landing, Opening, Recovered, StoreFiles, TornTail};
use vicus_files::Directory;
use vicus_flow::library::HashKey;
use vicus_flow::{NoMemory, or_given_up};
use vicus_rdf::{Changes, Graphs, Id, Interrupt, Snapshot, TermKind, Unranked};

/// The kind of its base files.
pub(crate) const KIND: [u8; 8] = *b"rdf     ";

/// A store open for writing by this process alone. Any number of threads use it.
pub struct Store {
    pub(crate) waiting: Arc<dyn Waiting>,
    /// The key of hashes of ids: the store's number, unknown to authors of data.
    pub(crate) hash_key: HashKey,
    /// The durable data. Locked only to copy or replace the pointer.
    pub(crate) published: Mutex<Published>,
    /// The turn to change data.
    pub(crate) writers: TicketLock,
    /// The turn to write base files; taken before the turn to change data.
    pub(crate) bases: TicketLock,
    /// How many bytes building a base file may hold.
    pub(crate) memory: u64,
    pub(crate) state: Mutex<State>,
    torn: Option<TornTail>,
    /// The functions called after commits.
    watchers: Arc<Mutex<Watchers>>,
    pub(crate) planted: Planted,
}

type Watcher = Arc<dyn Fn() + Send + Sync>;

/// The functions of [`Store::watch`], with the numbers of their watches.
type Watchers = Vec<(u64, Watcher)>;

/// A function that a store calls after commits, until this is dropped.
#[must_use = "the function is called until this is dropped"]
pub struct CommitWatch {
    watchers: Arc<Mutex<Watchers>>,
    number: u64,
}

impl fmt::Debug for CommitWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CommitWatch").field(&self.number).finish()
    }
}

impl Drop for CommitWatch {
    fn drop(&mut self) {
        lock(&self.watchers).retain(|(number, _)| *number != self.number);
    }
}

pub(crate) struct State {
    pub(crate) files: StoreFiles,
    /// The transactions not yet durable. Invariant: the ready ones are staged in the log.
    pub(crate) staging: Staging,
    /// Its place among copies.
    pub(crate) copies: Copies,
    /// The bytes of the durable records not included in the base.
    pub(crate) log_bytes: u64,
    /// Whether opening the store again may find a base with other data than this one's.
    pub(crate) base_in_doubt: bool,
    /// While a new base is written: the records since its beginning.
    pub(crate) since: Option<Vec<Arc<[u8]>>>,
}

/// The outcome awaited by the caller of a transaction.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) key: u64,
    /// The number of its record.
    outcome: OnceLock<Result<u64, CommitError>>,
    /// Since when it is durable here, and waits for followers.
    durable_ns: OnceLock<u64>,
    /// Whether it waits for no followers.
    needs_none: AtomicBool,
    /// Whether its caller looks by itself when the time for followers may be over.
    is_timed: AtomicBool,
}

impl Waiter {
    pub(crate) fn new(key: u64) -> Waiter {
        let (needs_none, is_timed) = Default::default();
        Waiter { key, outcome: OnceLock::new(), durable_ns: OnceLock::new(), needs_none, is_timed }
    }

    pub(crate) fn is_told(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// Tells the outcome. Returns its key; `None` if it has waited for followers for too long, and was told that.
    pub(crate) fn tell(&self, outcome: Result<u64, CommitError>) -> Option<u64> {
        let told = self.outcome.set(outcome);
        assert!(told.is_ok() || self.durable_ns.get().is_some(), "an outcome is told once");
        told.is_ok().then_some(self.key)
    }

    /// Followers are not waited for. Said before it is staged.
    pub(crate) fn need_none(&self) {
        self.needs_none.store(true, Ordering::Relaxed);
    }

    pub(crate) fn needs_none(&self) -> bool {
        self.needs_none.load(Ordering::Relaxed)
    }

    /// Its caller sleeps no longer than followers have. Said under the lock of the state.
    fn look_in_time(&self) {
        self.is_timed.store(true, Ordering::Relaxed);
    }

    /// From now on followers are waited for: it is durable here. Returns its key if its caller has to look at its clock
    /// now.
    pub(crate) fn note_durable(&self, now_ns: u64) -> Option<u64> {
        self.durable_ns.set(now_ns).expect("it is durable once");
        (!self.is_timed.load(Ordering::Relaxed)).then_some(self.key)
    }
}

/// The turn to change data. Batches handed in meanwhile are staged when it ends.
pub(crate) struct Writing<'a> {
    store: &'a Store,
    /// Ends after this.
    _turn: TicketGuard<'a>,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let told = lock(&self.store.state).take_in();
        told.into_iter().for_each(|key| self.store.waiting.wake(key));
    }
}

/// Reads a store in its present state, beside a process that may be writing to it.
///
/// # Errors
/// There is no store, it is damaged or newer, or the system refuses.
pub fn read(directory: &dyn Directory) -> Result<Arc<Snapshot>, StoreError> {
    snapshot_of(directory, &Recovered::read(directory, KIND)?)
}

/// Like [`read`], up to the first unreadable record of the log, if there is one; it is returned as well.
///
/// # Errors
/// Those of [`read`].
pub fn read_up_to(directory: &dyn Directory) -> Result<(Arc<Snapshot>, Option<Unread>), StoreError> {
    snapshot_up_to(directory, &Recovered::read(directory, KIND)?)
}

/// A place in a store's history: data of one place are the same in all copies of the store.
///
/// ```
/// use vicus_store::StorePlace;
/// assert_ne!(StorePlace { store: 1, sequence: 7 }, StorePlace { store: 1, sequence: 8 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorePlace {
    /// The store's number, the same in all copies.
    pub store: u64,
    /// The number of the last record.
    pub sequence: u64,
}

/// A repaired store.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The beginning of the log's unreadable part.
    pub unread: Unread,
    /// The files with all of the log from there on.
    pub kept: Vec<String>,
}

/// Cuts the log before the first unreadable record, so the store can be written to again. The part behind it is kept in
/// files beside it. `None` if all records can be read: then nothing is changed.
///
/// # Errors
/// There is no store, a base file is damaged, another process writes to it, or the system refuses.
pub fn repair(directory: Arc<dyn Directory>) -> Result<Option<Repaired>, StoreError> {
    let opening = Opening::begin(Arc::clone(&directory), KIND)?;
    let (_, unread) = snapshot_up_to(&*directory, &opening.recovered)?;
    let Some(unread) = unread else { return Ok(None) };
    let (_, _, kept) = opening.cut(&unread.0)?;
    Ok(Some(Repaired { unread, kept }))
}

/// For work that goes on to its end.
pub(crate) fn never() -> Ask {
    Arc::new(|_| Ok(()))
}

/// The data of a store's files.
pub(crate) fn snapshot_of(directory: &dyn Directory, recovered: &Recovered) -> Result<Arc<Snapshot>, StoreError> {
    let (snapshot, unread) = snapshot_up_to(directory, recovered)?;
    unread.map_or(Ok(snapshot), |unread| Err(StoreError::Unread(Box::new(unread))))
}

/// The data of a store's files, as far as the log can be read.
fn snapshot_up_to(
    directory: &dyn Directory,
    recovered: &Recovered,
) -> Result<(Arc<Snapshot>, Option<Unread>), StoreError> {
    let base = base::open(&recovered.bases, &recovered.manifest)?;
    let first = recovered.manifest.included + 1;
    let records = recovered.records.iter().zip(first..).map(|(record, number)| (&record[..], number));
    let hash_key = HashKey::of_seed(recovered.manifest.store);
    let (snapshot, senseless) = replayed_up_to(Arc::new(base), hash_key, records, &Interrupt::never())?;
    let broken = match senseless {
        Some((number, what)) => {
            let what = StoreError::Record { number, what }.to_string();
            Some(recovered.senseless(directory, number, what))
        }
        None => recovered.broken.clone(),
    };
    Ok((snapshot, broken.map(Unread)))
}

/// Applies records, each with its number. Those that follow each other are applied at once, up to one that clears or
/// copies a graph. `hash_key` is the store's.
pub(crate) fn replayed<'a>(
    snapshot: Arc<Snapshot>,
    hash_key: HashKey,
    records: impl Iterator<Item = (&'a [u8], u64)>,
    interrupt: &Interrupt<'_>,
) -> Result<Arc<Snapshot>, StoreError> {
    match or_given_up(|| replayed_up_to(snapshot, hash_key, records, interrupt)).map_err(StoreError::given_up)?? {
        (snapshot, None) => Ok(snapshot),
        (_, Some((number, what))) => Err(StoreError::Record { number, what }),
    }
}

/// The number of a record that makes no sense, and its fault.
type Senseless = (u64, String);

/// Like [`replayed`], up to the first record that makes no sense: it is returned, with its fault.
fn replayed_up_to<'a>(
    snapshot: Arc<Snapshot>,
    hash_key: HashKey,
    records: impl Iterator<Item = (&'a [u8], u64)>,
    interrupt: &Interrupt<'_>,
) -> Result<(Arc<Snapshot>, Option<Senseless>), StoreError> {
    let found = HashMap::with_hasher(hash_key);
    let (fresh, ids) = (snapshot.fresh().behind(), Vec::new());
    let mut replay = Replay { fresh, snapshot, changes: Vec::new(), found, ids, interrupt };
    let (mut records, mut senseless) = (records.peekable(), None);
    while records.peek().is_some() && senseless.is_none() {
        let (mut read, mut terms) = (Vec::new(), 0);
        while terms < AT_ONCE
            && let Some((record, number)) = records.next()
        {
            match Record::read(record) {
                Ok(record) => {
                    terms += record.terms.len();
                    read.push(record);
                }
                Err(what) => {
                    senseless = Some((number, what));
                    break;
                }
            }
        }
        replay.records(&read)?;
    }
    if !replay.changes.is_empty() {
        replay.apply()?;
    }
    Ok((replay.snapshot, senseless))
}

/// Up to about this number of records' terms are looked up at once: in order, a dictionary finds many in a small part
/// of the time.
const AT_ONCE: usize = 1 << 16;

/// Fewer than this are looked up one by one: so a damaged page is the error of the records that need it alone.
const MANY: usize = 8;

/// Records as they are applied.
struct Replay<'a> {
    snapshot: Arc<Snapshot>,
    /// The terms it lacks.
    fresh: Unranked,
    /// The new state of quads.
    changes: Vec<([Id; 4], bool)>,
    /// The places of the terms so far among the ids: finding one here takes a tenth of the time of a dictionary, since
    /// its texts are compressed.
    found: HashMap<(u8, &'a str), usize, HashKey>,
    ids: Vec<Id>,
    /// Counts terms and quads.
    interrupt: &'a Interrupt<'a>,
}

/// The place of the id of a record's term.
enum Place {
    Itself(Id),
    Found(usize),
}

impl<'a> Replay<'a> {
    fn records(&mut self, records: &[Record<'a>]) -> Result<(), StoreError> {
        // The places of all terms of the records, and the terms new to them.
        let mut places = Vec::with_capacity(records.iter().map(|record| record.terms.len()).sum());
        let (first, mut new) = (self.ids.len(), Vec::new());
        for term in self.interrupt.each(records.iter().flat_map(|record| &record.terms)) {
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

    /// Appends the ids of terms new to the records.
    fn look_up(&mut self, terms: &[(TermKind, &str)]) -> Result<(), StoreError> {
        if terms.len() >= MANY
            && let Ok(Ok(ids)) = self.snapshot.read_part_by(|| self.snapshot.find_or_add_all(&mut self.fresh, terms))
        {
            self.ids.extend(ids);
            return Ok(());
        }
        for (kind, key) in terms {
            self.ids.push(id_of(&self.snapshot, &mut self.fresh, *kind, key)?);
        }
        Ok(())
    }

    /// `ids` are those of its terms, behind that of the default graph.
    fn record(&mut self, record: &Record<'_>, ids: &[Id]) -> Result<(), StoreError> {
        let id = |number: u32| ids[number as usize];
        for step in &record.steps {
            match step {
                Step::Quads { deletes, inserts } => {
                    for (quads, there) in [(deletes, false), (inserts, true)] {
                        self.interrupt.steps(quads.len());
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
                    let interrupt = self.interrupt;
                    self.with(|snapshot| {
                        let changes = Changes::of_copy(snapshot, id(*from), id(*to), none, interrupt)?;
                        snapshot.with_interrupt(changes, interrupt)
                    })?;
                }
            }
        }
        Ok(())
    }

    fn clear(&mut self, graphs: Graphs) -> Result<(), StoreError> {
        self.apply()?;
        let interrupt = self.interrupt;
        self.with(|snapshot| snapshot.cleared_with_interrupt(graphs, interrupt))
    }

    /// Makes the changes so far, and the terms, part of the snapshot. Ids stay.
    fn apply(&mut self) -> Result<(), StoreError> {
        let interrupt = self.interrupt;
        let changes = last_of_each(std::mem::take(&mut self.changes), interrupt);
        let of = |there: bool| changes.iter().filter(|(_, is)| *is == there).map(|(quad, _)| *quad).collect();
        let fresh = std::mem::replace(&mut self.fresh, self.snapshot.fresh().behind());
        let changes = Changes { fresh, inserts: of(true), deletes: of(false) };
        self.with(|snapshot| snapshot.with_interrupt(changes, interrupt))
    }

    fn with(&mut self, make: impl FnOnce(&Snapshot) -> Result<Snapshot, NoMemory>) -> Result<(), StoreError> {
        let snapshot = &self.snapshot;
        let made = snapshot.read_by(|| make(snapshot)).map_err(StoreError::given_up)??;
        self.snapshot = Arc::new(made);
        self.fresh = self.snapshot.fresh().behind();
        Ok(())
    }
}

impl Store {
    /// Makes an empty directory a store. `number` differs from every other store's.
    ///
    /// # Errors
    /// There is a store, another process is making one, or the system refuses.
    pub fn create(directory: Arc<dyn Directory>, number: u64, waiting: Arc<dyn Waiting>) -> Result<Store, StoreError> {
        let files = StoreFiles::create(directory, KIND, number)?;
        let empty = base::open(&[], files.manifest())?;
        Ok(Store::of(files, 0, Arc::new(empty), waiting))
    }

    /// Like [`Store::create`], but the directory holds no store before it is [revealed](Store::reveal): for one that is
    /// filled from elsewhere, and is of no use before it has all of its data.
    ///
    /// # Errors
    /// As for [`Store::create`].
    pub fn create_hidden(
        directory: Arc<dyn Directory>,
        number: u64,
        waiting: Arc<dyn Waiting>,
    ) -> Result<Store, StoreError> {
        let files = StoreFiles::create_hidden(directory, KIND, number)?;
        let empty = base::open(&[], files.manifest())?;
        Ok(Store::of(files, 0, Arc::new(empty), waiting))
    }

    /// From now on the directory holds this store.
    ///
    /// # Errors
    /// The system refuses.
    pub fn reveal(&self) -> Result<(), StoreError> {
        Ok(lock(&self.state).files.reveal()?)
    }

    /// Removes the store with all of its data: for a store made for data that then could not be loaded.
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
        let opening = Opening::begin(Arc::clone(&directory), KIND)?;
        // Before anything is written.
        let snapshot = snapshot_of(&*directory, &opening.recovered)?;
        let (files, recovered) = opening.resume()?;
        let log_bytes = recovered.records.iter().map(|record| record.len() as u64).sum();
        let store = Store { torn: recovered.torn, ..Store::of(files, log_bytes, snapshot, waiting) };
        let mut state = lock(&store.state);
        for (record, number) in recovered.records.iter().zip(recovered.manifest.included + 1..) {
            state.note_epoch(record, number);
        }
        drop(state);
        Ok(store)
    }

    fn of(files: StoreFiles, log_bytes: u64, snapshot: Arc<Snapshot>, waiting: Arc<dyn Waiting>) -> Store {
        let (staging, copies) = Default::default();
        let mut state = State { files, staging, copies, log_bytes, base_in_doubt: false, since: None };
        let hash_key = HashKey::of_seed(state.files.manifest().store);
        let (writers, bases, watchers, planted) = Default::default();
        let published = Mutex::new(Published { snapshot, number: state.files.log().durable(), recent: None });
        let (torn, state, memory) = (None, Mutex::new(state), base::BUILT_IN_MEMORY);
        Store { waiting, hash_key, published, writers, bases, memory, state, torn, watchers, planted }
    }

    /// The incomplete record cut off the log when the store was opened.
    pub fn torn(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// The present data: of all durable transactions. Never waits.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.published).snapshot)
    }

    /// Has a function called after each sync with durable changes, and after changes that became visible later, on the
    /// thread of a caller. It is short, and asks nothing of the store.
    pub fn watch(&self, watcher: Arc<dyn Fn() + Send + Sync>) -> CommitWatch {
        let mut watchers = lock(&self.watchers);
        let number = watchers.last().map_or(0, |(number, _)| number + 1);
        watchers.push((number, watcher));
        CommitWatch { watchers: Arc::clone(&self.watchers), number }
    }

    /// Calls the functions of [`Store::watch`].
    pub(crate) fn tell_watchers(&self) {
        let watchers = lock(&self.watchers).clone();
        watchers.iter().for_each(|(_, watcher)| watcher());
    }

    /// Begins a transaction, when those before it have ended or been staged.
    ///
    /// # Errors
    /// There is not enough memory, or needed data is damaged.
    pub fn write(&self) -> Result<Transaction<'_>, StoreError> {
        Transaction::new(self, self.writing(), never())
    }

    /// Like [`Store::write`]; it waits and works until its function returns an error, and then ends with it. The
    /// function is asked at bounded steps until its changes are staged for the drive.
    ///
    /// # Errors
    /// Those of [`Store::write`]; or [`StoreError::Unreadable`] with the function's error.
    pub fn write_asking(&self, ask: Ask) -> Result<Transaction<'_>, StoreError> {
        let writing = self.writing_asking(&ask)?;
        Transaction::new(self, writing, ask)
    }

    /// Begins a transaction; `None` if another one is open.
    ///
    /// # Errors
    /// Those of [`Store::write`].
    pub fn try_write(&self) -> Result<Option<Transaction<'_>>, StoreError> {
        let turn = self.writers.try_now(&*self.waiting);
        turn.map(|turn| Transaction::new(self, self.writing_with(turn), never())).transpose()
    }

    /// Waits for the turn to change data.
    pub(crate) fn writing(&self) -> Writing<'_> {
        self.writing_with(self.writers.wait(&*self.waiting))
    }

    /// Waits for it, and asks now and then whether it is to wait.
    pub(crate) fn writing_asking(&self, ask: &Ask) -> Result<Writing<'_>, StoreError> {
        let turn = self.writers.wait_asking(&*self.waiting, &|| ask(0)).map_err(StoreError::given_up)?;
        Ok(self.writing_with(turn))
    }

    fn writing_with<'a>(&'a self, turn: TicketGuard<'a>) -> Writing<'a> {
        lock(&self.state).staging.begin_writing();
        Writing { store: self, _turn: turn }
    }

    /// The data with all that is staged, and how often staged transactions were refused. The caller has the turn to
    /// change data. Asks while it applies what others have staged, and while it waits for their flight.
    pub(crate) fn head(&self, ask: &Ask) -> Result<(Arc<Snapshot>, u64), StoreError> {
        let interrupt = Interrupt::by(&**ask);
        loop {
            ask(0).map_err(StoreError::given_up)?;
            let (coming, refused) = {
                let state = lock(&self.state);
                (state.staging.look(), state.staging.refused())
            };
            let applied = self.apply(&coming, &interrupt);
            let mut state = lock(&self.state);
            if state.staging.refused() != refused || !state.staging.is_coming(&coming) {
                // Another caller that applies for all was quicker, and there is less to apply now. Two of them may give
                // other ids to new terms.
                continue;
            }
            match applied {
                Ok(snapshot) => {
                    state.applied(&coming, &snapshot);
                    return Ok((snapshot, refused));
                }
                Err(error) if coming.records.is_empty() => return Err(error),
                Err(_) => {
                    // A batch that can't be applied is refused in its turn, and the rest can be applied.
                    drop(state);
                    self.await_all_staged(ask)?;
                }
            }
        }
    }

    /// Stages a record for [`Store::await_outcome`]; its changes make this snapshot. The caller has read the record
    /// once, and has the turn to change data. `refused`: how often others had been refused when its transaction began.
    pub(crate) fn stage(
        &self,
        record: Vec<u8>,
        snapshot: Arc<Snapshot>,
        refused: u64,
    ) -> Result<Arc<Waiter>, CommitError> {
        let mut state = lock(&self.state);
        if state.staging.refused() != refused {
            return Err(CommitError::BuiltOnRefused);
        }
        state.check_writes()?;
        state.resolve()?;
        let (staged, waiter) = state.staging.begin(record);
        state.files.log().stage(&staged.record);
        state.staging.push_ready(staged, snapshot);
        Ok(waiter)
    }

    /// Stages a record that looks at nothing, for [`Store::await_outcome`]; if another caller has the turn to change
    /// data, behind that caller's changes.
    pub(crate) fn hand_in(&self, record: Vec<u8>) -> Result<Arc<Waiter>, CommitError> {
        let mut state = lock(&self.state);
        state.check_writes()?;
        let (staged, waiter) = state.staging.begin(record);
        if let Some(staged) = state.staging.aside(staged) {
            state.resolve()?;
            state.staging.push(staged);
        }
        Ok(waiter)
    }

    /// Waits until a staged transaction is durable, here and in as many followers as are needed, and returns its
    /// number. Meanwhile this caller does the work due for all ([`Staging::act`]).
    pub(crate) fn await_outcome(&self, waiter: &Waiter) -> Result<u64, CommitError> {
        loop {
            let next = match self.next(waiter) {
                Next::Told(outcome) => return outcome,
                next => next,
            };
            let act = || lock(&self.state).staging.act(waiter, || self.waiting.now_ns());
            match next {
                Next::Told(_) => unreachable!("the outcome was returned"),
                Next::Fly(flight, snapshot) => self.fly(*flight, snapshot),
                Next::Apply(coming) => self.apply_for_all(waiter, &coming),
                Next::WaitAtMost(ns) => {
                    let mut ready = || waiter.is_told() || matches!(act(), Act::Fly | Act::Apply);
                    self.waiting.wait_at_most(waiter.key, ns, &mut ready);
                }
                Next::Wait(None) => {
                    let is_durable = || waiter.durable_ns.get().is_some();
                    let mut ready = || waiter.is_told() || is_durable() || act() != Act::Wait;
                    self.waiting.wait(waiter.key, &mut ready);
                }
                Next::Wait(Some(ns)) => {
                    let mut ready = || waiter.is_told() || act() != Act::Wait;
                    self.waiting.wait_at_most(waiter.key, ns, &mut ready);
                }
            }
        }
    }

    /// Does the work due for all, and waits for nothing. The outcome of a staged transaction, if there is one.
    pub(crate) fn poll(&self, waiter: &Waiter) -> Option<Result<u64, CommitError>> {
        loop {
            match self.next(waiter) {
                Next::Told(outcome) => return Some(outcome),
                Next::Fly(flight, snapshot) => self.fly(*flight, snapshot),
                Next::Apply(coming) => self.apply_for_all(waiter, &coming),
                Next::WaitAtMost(_) | Next::Wait(_) => return None,
            }
        }
    }

    /// The next step of a staged transaction's caller.
    fn next(&self, waiter: &Waiter) -> Next {
        let mut state = lock(&self.state);
        // Under the lock: a flight tells its outcomes before the drive is idle again.
        if let Some(outcome) = waiter.outcome.get() {
            return Next::Told(outcome.clone());
        }
        let mut left = None;
        if let Some(&since) = waiter.durable_ns.get() {
            let patience = state.copies.patience_ns(since, self.waiting.now_ns());
            if patience == 0 {
                let why = StoreError::TooFewFollowers(state.copies.needed());
                let outcome = Err(CommitError::NotConfirmed(why));
                waiter.tell(outcome.clone());
                return Next::Told(outcome);
            }
            left = Some(patience);
        }
        match state.staging.act(waiter, || self.waiting.now_ns()) {
            Act::Fly => {
                let snapshot = state.staging.take_off();
                let flight = state.files.log().take_off().expect("what is ready is staged");
                Next::Fly(Box::new(flight), snapshot)
            }
            Act::Apply => Next::Apply(state.staging.begin_applying()),
            Act::WaitAtMost(ns) => Next::WaitAtMost(left.map_or(ns, |left| left.min(ns))),
            Act::Wait if left.is_none() && state.copies.needed() > 0 && !waiter.needs_none() => {
                // It looks again when the time for followers may be over, so its landing wakes nobody: with many
                // callers, that would cost more than the followers' answer.
                waiter.look_in_time();
                Next::Wait(Some(state.copies.longest_patience_ns().max(1_000_000)))
            }
            Act::Wait => Next::Wait(left),
        }
    }

    /// The data with the coming transactions, all at once.
    fn apply(&self, coming: &Coming, interrupt: &Interrupt<'_>) -> Result<Arc<Snapshot>, StoreError> {
        // These records have no numbers yet, and were made by this process.
        self.replayed(coming, coming.records.iter().map(|record| (&**record, 0)), interrupt)
    }

    fn replayed<'a>(
        &self,
        coming: &Coming,
        records: impl Iterator<Item = (&'a [u8], u64)>,
        interrupt: &Interrupt<'_>,
    ) -> Result<Arc<Snapshot>, StoreError> {
        let head = coming.head.clone().unwrap_or_else(|| lock(&self.state).durable(&self.published));
        replayed(head, self.hash_key, records, interrupt)
    }

    /// Makes the coming transactions ready, or refuses those that can't be applied. The caller waits for one of the
    /// staged transactions.
    fn apply_for_all(&self, waiter: &Waiter, coming: &Coming) {
        let mut applying = Applying { store: self, waiter, has_ended: false };
        // Before it is durable, because afterwards it could not be refused.
        let told = match self.apply(coming, &Interrupt::never()) {
            Ok(snapshot) => {
                lock(&self.state).applied(coming, &snapshot);
                Vec::new()
            }
            Err(error) => {
                // The reason why a record can't be applied even by itself.
                let reason = |record: &Arc<[u8]>| {
                    let applied = self.replayed(coming, [(&**record, 0)].into_iter(), &Interrupt::never());
                    applied.err().map(|error| (Arc::clone(record), error))
                };
                let reasons: Vec<_> = coming.records.iter().filter_map(reason).collect();
                lock(&self.state).staging.unapplied(coming, &error, &reasons)
            }
        };
        applying.has_ended = true;
        drop(applying);
        told.into_iter().for_each(|key| self.waiting.wake(key));
    }

    /// Writes a flight, and tells its transactions' callers. The snapshot is the data with them.
    fn fly(&self, mut flight: Flight, snapshot: Arc<Snapshot>) {
        let began = self.waiting.now_ns();
        flight.run();
        let now = self.waiting.now_ns();
        let mut state = lock(&self.state);
        let (told, before) = state.settle(flight, snapshot, &self.published, began..now);
        let next = state.staging.first().filter(|_| !self.planted.has(Mutant::NextAsleep));
        drop(state);
        // One of the callers staged meanwhile writes for them.
        next.into_iter().chain(told).for_each(|key| self.waiting.wake(key));
        // Memory of this version alone is freed without a lock.
        drop(before);
        self.tell_watchers();
    }

    /// Waits until all staged transactions are durable or refused: the callers of [`Store::await_outcome`] see to it.
    /// This caller has the turn to change data, so no more is staged meanwhile. Asks now and then whether it is to
    /// wait.
    pub(crate) fn await_all_staged(&self, ask: &Ask) -> Result<(), StoreError> {
        let Some(last) = self.hurry() else { return Ok(()) };
        let mut ready = || lock(&self.state).staging.is_empty();
        while !ready() {
            ask(0).map_err(StoreError::given_up)?;
            self.waiting.wait_at_most(last, BETWEEN_QUESTIONS_NS, &mut ready);
        }
        Ok(())
    }

    /// Has what is staged written at once. Returns the key of the last one, if there is any.
    fn hurry(&self) -> Option<u64> {
        let (first, last) = {
            let mut state = lock(&self.state);
            // Others wait for this caller.
            state.staging.hurry();
            state.staging.ends()?
        };
        self.waiting.wake(first);
        Some(last)
    }
}

/// The outcome, or the decisions of [`Act`] with their inputs.
enum Next {
    Told(Result<u64, CommitError>),
    Fly(Box<Flight>, Arc<Snapshot>),
    Apply(Coming),
    WaitAtMost(u64),
    /// For so many nanoseconds, if it is for some time.
    Wait(Option<u64>),
}

/// While a caller applies for all; another one may when it has ended, be it by a panic.
struct Applying<'a> {
    store: &'a Store,
    waiter: &'a Waiter,
    /// Whether it was no panic.
    has_ended: bool,
}

impl Drop for Applying<'_> {
    fn drop(&mut self) {
        let first = {
            let mut state = lock(&self.store.state);
            state.staging.end_applying();
            state.staging.first()
        };
        // Others may have waited for it. This caller looks for the next step, unless it has been told.
        if let Some(first) = first
            && (self.waiter.is_told() || !self.has_ended)
            && !self.store.planted.has(Mutant::NoPassing)
        {
            self.store.waiting.wake(first);
        }
    }
}

impl State {
    /// Stages the transactions handed in while a caller had the turn to change data. Returns the keys of the callers
    /// with something to do now.
    fn take_in(&mut self) -> Vec<u64> {
        let aside = self.staging.end_writing();
        if aside.is_empty() {
            return Vec::new();
        }
        // A newer writer may have become known during the turn.
        if let Err(error) = self.check_writes().and_then(|()| self.resolve()) {
            let refused = |staged: Staged| staged.waiter.tell(Err(CommitError::Failed(error.clone())));
            return aside.into_iter().filter_map(refused).collect();
        }
        aside.into_iter().for_each(|staged| self.staging.push(staged));
        self.staging.first().into_iter().collect()
    }

    /// Notes the coming transactions as ready.
    fn applied(&mut self, coming: &Coming, snapshot: &Arc<Snapshot>) {
        let log = self.files.log();
        self.staging.applied(coming, snapshot).for_each(|record| {
            log.stage(record);
        });
    }

    /// Notes the outcome of a flight, and publishes the data durable now. Returns the keys of the told callers, and the
    /// data published before, if any was.
    fn settle(
        &mut self,
        flight: Flight,
        snapshot: Arc<Snapshot>,
        published: &Mutex<Published>,
        ran: Range<u64>,
    ) -> (Vec<u64>, Vec<Arc<Snapshot>>) {
        let Landing { flown, outcome, .. } = self.files.log().land(flight);
        let count = flown.end - flown.start;
        if let Err(refusal) = outcome {
            return (self.staging.refuse(&CommitError::Refused(refusal)), Vec::new());
        }
        let first = self.files.log().durable() - count + 1;
        let landed: Vec<(Staged, u64)> = self.staging.landed(ran.start, ran.end).zip(first..).collect();
        let mut waiters = Vec::with_capacity(landed.len());
        for (staged, number) in landed {
            self.log_bytes += staged.record.len() as u64;
            self.note_epoch(&staged.record, number);
            waiters.push((staged.waiter, number));
            if let Some(since) = &mut self.since {
                since.push(staged.record);
            }
        }
        // Published first, since a told caller may look.
        self.publish_confirmed(snapshot, waiters, ran.end, published)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("Store").field("manifest", state.files.manifest()).finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod loom_models;

#[cfg(all(test, not(loom)))]
mod tests;
