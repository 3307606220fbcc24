//! Updates: an update is a request with operations that happen one after the other.
//!
//! The text is parsed and checked as a whole before anything happens. The service's threads answer the pattern of an
//! operation, over the data left by the operations before it; its solutions become quads on these threads. The data's
//! keeper is an [`Updating`]: a transaction, which its owner commits when all operations have succeeded. An update of a
//! [`Store`] that reads no data needs none: it is a [batch](vicus_store::Batch), which waits for no other update, and
//! is written and applied with others.

use crate::budget::MemoryBudget;
use crate::document;
use crate::error::{Error, ErrorKind, Stage};
use crate::languages::{parse_options, sparql};
use crate::load::Dataset;
use crate::service::Service;
use crate::session::{Allowance, Call, ReadGraphs, Session, SessionOptions, now, reading};
use crate::sink::{Sink, SolutionBatch, Solutions, Taker};
use std::fmt;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use vicus::{BoxError, Totals, Turn};
use vicus_language::{Machines, TextError};
use vicus_rdf::load::{LoadOptions, MemoryPermit};
use vicus_rdf::{Interrupt, OwnMemory, Snapshot};
use vicus_sparql::{
    DocumentLoad, Filled, Filling, Moment, ParsedQuery, Update, UpdateChange, UpdateError, UpdateOperation, UpdateStep,
    parse_update_with, update_bytes_with,
};
use vicus_store::{self as store, Ask, CommitError, Store, StoreError, Transaction};

/// Data changed by an update: a transaction. Dropping it without a commit leaves the data as it was; so does an error.
pub trait Updating {
    /// The data, as changed so far.
    ///
    /// # Errors
    /// It can't be had. The message is for users.
    fn snapshot(&mut self) -> Result<Arc<Snapshot>, Shared>;

    /// Changes the data, by an operation answered over the last snapshot. The next snapshot has the change.
    ///
    /// # Errors
    /// As [`Updating::snapshot`].
    fn change(&mut self, change: UpdateChange) -> Result<(), Shared>;

    /// Has its work call this function at bounded steps with the bytes that it holds beside the data, and end with the
    /// function's error. By default it does not call it.
    fn ask(&mut self, _ask: Ask) {}

    /// The bytes that the changes so far hold beside the data. By default 0.
    fn heap_bytes(&self) -> u64 {
        0
    }
}

/// An error with several owners.
type Shared = Arc<dyn std::error::Error + Send + Sync>;

fn shared(error: impl std::error::Error + Send + Sync + 'static) -> Shared {
    Arc::new(error)
}

impl Updating for Transaction<'_> {
    fn snapshot(&mut self) -> Result<Arc<Snapshot>, Shared> {
        Transaction::snapshot(self).map_err(shared)
    }

    fn change(&mut self, change: UpdateChange) -> Result<(), Shared> {
        match change {
            UpdateChange::Clear(graphs) => Transaction::clear(self, graphs).map_err(shared),
            UpdateChange::Copy { from, to, fresh } => Transaction::copy_graph(self, from, to, fresh).map_err(shared),
            UpdateChange::Quads(changes) => Transaction::change(self, changes).map_err(shared),
        }
    }

    fn ask(&mut self, ask: Ask) {
        Transaction::ask(self, ask);
    }

    fn heap_bytes(&self) -> u64 {
        Transaction::heap_bytes(self)
    }
}

/// A dataset in memory as an update changes it; the dataset itself stays as it is.
///
/// ```
/// use std::sync::Arc;
/// use vicus::Runtime;
/// use vicus_rdf::Snapshot;
/// use vicus_service::{Dataset, Draft, MemoryBudget, Service, SessionOptions};
///
/// let service = Service::new(Runtime::builder().threads(2).start(), MemoryBudget::new(64 << 20));
/// let before = Dataset::new(Arc::new(Snapshot::of_turtle(b"<http://e/ann> <http://e/age> 27 .", None).unwrap()));
/// let mut draft = Draft::of(&before);
/// let text = "DELETE { ?x ?p ?age } INSERT { ?x ?p ?more } WHERE { ?x ?p ?age BIND (?age + 1 AS ?more) }";
/// service.update(text, &mut draft, SessionOptions::default())?;
/// let after = draft.dataset();
/// let session = service.session(&after, SessionOptions::default());
/// assert_eq!(session.count("SELECT * { ?x <http://e/age> 28 }")?, 1);
/// # Ok::<(), vicus_service::Error>(())
/// ```
pub struct Draft {
    dataset: Dataset,
    /// The data that the dataset does not have.
    made: OwnMemory,
    ask: Option<Ask>,
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Draft").field(&self.dataset).finish()
    }
}

impl Draft {
    /// A draft that starts with this dataset.
    pub fn of(dataset: &Dataset) -> Draft {
        Draft { dataset: dataset.clone(), made: OwnMemory::default(), ask: None }
    }

    /// The data as it is now.
    pub fn dataset(self) -> Dataset {
        self.dataset
    }
}

impl Updating for Draft {
    fn snapshot(&mut self) -> Result<Arc<Snapshot>, Shared> {
        Ok(Arc::clone(self.dataset.snapshot()))
    }

    fn change(&mut self, change: UpdateChange) -> Result<(), Shared> {
        let interrupt = self.ask.as_ref().map_or(Interrupt::never(), |ask| Interrupt::by(&**ask));
        let _made = interrupt.holding(self.made.bytes());
        let (rows, bytes) = (change.rows(self.dataset.snapshot()), change.heap_bytes());
        let after = change.apply(self.dataset.snapshot(), &interrupt).map_err(shared)?;
        self.dataset = Dataset::new(Arc::clone(&after));
        self.made.measure(&after, rows, bytes);
        Ok(())
    }

    fn ask(&mut self, ask: Ask) {
        self.ask = Some(ask);
    }

    fn heap_bytes(&self) -> u64 {
        self.made.bytes() as u64
    }
}

/// The result of an update.
#[derive(Clone, Copy, Default, Debug)]
pub struct Updated {
    /// How many operations it has.
    pub operations: usize,
    /// How many solutions its patterns had.
    pub rows: u64,
    /// How long it took, from parsing on; without the commit.
    pub time: Duration,
    /// The cost of its patterns.
    pub totals: Totals,
}

/// The result of a store's update, which is durable.
#[derive(Clone, Copy, Debug)]
pub struct StoreUpdate {
    /// The update's result; its time includes the commit's.
    pub updated: Updated,
    /// The sequence number of its record in the log; `None` if nothing was changed.
    pub number: Option<u64>,
}

/// Why an update of a store was not carried out.
#[derive(Clone, Debug)]
pub enum StoreUpdateError {
    /// The update itself can't be carried out.
    Update(Error),
    /// The store can't be changed.
    Store(StoreError),
    /// Its changes were made, and are not durable. Unless this is [in doubt](CommitError::in_doubt), nothing of it has
    /// happened.
    Commit(CommitError),
}

impl fmt::Display for StoreUpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUpdateError::Update(error) => error.fmt(f),
            StoreUpdateError::Store(error) => error.fmt(f),
            StoreUpdateError::Commit(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StoreUpdateError {}

impl From<Error> for StoreUpdateError {
    fn from(error: Error) -> StoreUpdateError {
        StoreUpdateError::Update(error)
    }
}

/// A longer text is no batch: others that share its sync would wait until all of it is applied.
const LONGEST_BATCH: usize = 64 << 10;

pub(crate) fn run_in_store(
    service: &Service,
    text: &str,
    store: &Store,
    options: SessionOptions,
) -> Result<StoreUpdate, StoreUpdateError> {
    let began = Instant::now();
    let (allowance, checked) = parse(service.memory(), text, &options)?;
    stored(service, began, allowance, checked, store, options)
}

/// Carries out an update of a store whose text is read already.
pub(crate) fn run_checked_in_store(
    service: &Service,
    checked: CheckedUpdate,
    store: &Store,
    options: SessionOptions,
) -> Result<StoreUpdate, StoreUpdateError> {
    let (began, bytes) = (Instant::now(), checked.text_bytes);
    let allowance = Allowance::begin_with(service.memory(), &options.limits, bytes)?;
    allowance.hold(bytes, [("its text, when it is parsed,", bytes)])?;
    stored(service, began, allowance, checked, store, options)
}

fn stored(
    service: &Service,
    began: Instant,
    allowance: Allowance,
    checked: CheckedUpdate,
    store: &Store,
    options: SessionOptions,
) -> Result<StoreUpdate, StoreUpdateError> {
    let CheckedUpdate { update, text_bytes, is_short, .. } = checked;
    let data = if is_short { update.data() } else { None };
    if let Some(data) = data {
        let mut batch = store::Batch::new();
        for (quad, there) in data {
            match there {
                true => batch.insert(quad),
                false => batch.delete(quad),
            }
        }
        let operations = update.operations().len();
        drop(update);
        allowance.check(Stage::Running)?;
        let number = batch.commit(store).map_err(StoreUpdateError::Commit)?;
        let updated = Updated { operations, time: began.elapsed(), ..Updated::default() };
        return Ok(StoreUpdate { updated, number });
    }
    let ended = |error: &StoreError| ended(error).map(StoreUpdateError::Update);
    // Its share is given back behind the commit, whose record and data it holds.
    let _share = Returned(&allowance);
    let transaction = store.write_asking(allowance.ask());
    let mut transaction = transaction.map_err(|error| ended(&error).unwrap_or(StoreUpdateError::Store(error)))?;
    let updated = run_parsed(service, &update, &allowance, text_bytes, &mut transaction, options)?;
    let committed = transaction.commit().map_err(|error| match &error {
        CommitError::Failed(failed) => ended(failed).unwrap_or(StoreUpdateError::Commit(error)),
        _ => StoreUpdateError::Commit(error),
    })?;
    Ok(StoreUpdate { updated: Updated { time: began.elapsed(), ..updated }, number: committed.number })
}

/// An update with valid syntax, to be [carried out](Service::update_store_checked).
#[derive(Debug)]
pub struct CheckedUpdate {
    update: Update,
    /// The bytes that it takes.
    text_bytes: u64,
    /// The bytes that were booked to read its text.
    read_bytes: u64,
    /// Whether its text is short enough for a batch.
    is_short: bool,
}

impl CheckedUpdate {
    /// The bytes that its call holds for it.
    pub fn bytes(&self) -> u64 {
        self.text_bytes
    }

    /// The bytes that were booked to read its text: at least as many.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }
}

/// Reads an update, within the limits of the options; for doors that check before there is data.
///
/// # Errors
/// As [`Service::update`], as far as it depends on the text alone.
pub fn check_update(text: &str, memory: &Arc<MemoryBudget>, options: &SessionOptions) -> Result<CheckedUpdate, Error> {
    parse(memory, text, options).map(|(_, checked)| checked)
}

/// Begins and parses an update.
fn parse(
    memory: &Arc<MemoryBudget>,
    text: &str,
    options: &SessionOptions,
) -> Result<(Allowance, CheckedUpdate), Error> {
    let parse = parse_options(options);
    let bytes = update_bytes_with(text, &parse);
    let allowance = Allowance::begin_with(memory, &options.limits, bytes)?;
    let read = || parse_update_with(text, &parse).map_err(TextError::from);
    let mut update: Update = allowance.parse(bytes, read)?;
    if let Some(ReadGraphs { default, named }) = &options.graphs {
        update.set_dataset(default, named).map_err(of_update)?;
    }
    // The parser's share stays its own until the update ends, and what it does not hold any more is for the changes.
    let text_bytes = update.heap_bytes().map_or(bytes, |held| held.min(bytes));
    let is_short = text.len() <= LONGEST_BATCH;
    Ok((allowance, CheckedUpdate { update, text_bytes, read_bytes: bytes, is_short }))
}

pub(crate) fn run(
    service: &Service,
    text: &str,
    data: &mut dyn Updating,
    options: SessionOptions,
) -> Result<Updated, Error> {
    let began = Instant::now();
    let (allowance, CheckedUpdate { update, text_bytes, .. }) = parse(service.memory(), text, &options)?;
    let _share = Returned(&allowance);
    let updated = run_parsed(service, &update, &allowance, text_bytes, data, options)?;
    Ok(Updated { time: began.elapsed(), ..updated })
}

/// Carries out an update with `text_bytes` of its allowance.
fn run_parsed(
    service: &Service,
    update: &Update,
    allowance: &Allowance,
    text_bytes: u64,
    data: &mut dyn Updating,
    options: SessionOptions,
) -> Result<Updated, Error> {
    let moment = options.moment.unwrap_or_else(now);
    // All of its operations happen at one moment, and its solutions have no order.
    let options = Arc::new(SessionOptions { moment: Some(moment), parallel_answers: true, ..options });
    data.ask(allowance.ask_booking(text_bytes));
    let allowance = allowance.clone();
    let mut running = Running { service, allowance, options, text_bytes, updated: Updated::default() };
    for (place, operation) in update.operations().iter().enumerate() {
        // Each makes blank nodes and random numbers of its own.
        let moment = Moment { seed: moment.seed.wrapping_add((place as u64) << 32), ..moment };
        let done = running.allowance.check(Stage::Running).and_then(|()| running.step(operation, data, moment));
        // An operation done after the time limit is not stored.
        let done = done.and_then(|()| running.allowance.check(Stage::Running));
        done.map_err(|error| match error {
            // These are of the whole update.
            Error::Cancelled | Error::TimeLimit { .. } => error,
            error => Error::Operation { number: place + 1, name: operation.name(), error: Arc::new(error) },
        })?;
    }
    let updated = running.updated;
    Ok(Updated { operations: update.operations().len(), ..updated })
}

struct Running<'a> {
    service: &'a Service,
    allowance: Allowance,
    options: Arc<SessionOptions>,
    text_bytes: u64,
    updated: Updated,
}

/// Gives the share of an update back when it is dropped: a thread may still have a reference to an ended request.
struct Returned<'a>(&'a Allowance);

impl Drop for Returned<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

impl Running<'_> {
    fn step(&mut self, operation: &UpdateOperation, data: &mut dyn Updating, moment: Moment) -> Result<(), Error> {
        let ask = self.allowance.ask_booking(self.text_bytes + data.heap_bytes());
        let snapshot = data.snapshot().map_err(of_data)?;
        let step = reading(&snapshot, "update", || operation.step(&snapshot, moment, &Interrupt::by(&*ask)))?;
        let changes = match step.map_err(of_update)? {
            UpdateStep::Change(changes) => changes,
            UpdateStep::Solve(pattern, filling) => {
                vec![self.solve(Arc::clone(&snapshot), pattern, filling, data.heap_bytes())?]
            }
            UpdateStep::Load(load, filling) => match self.load(load, &filling, data.heap_bytes()) {
                Ok(change) => vec![change],
                Err(error) if load.silent && error.kind() == ErrorKind::Failed => Vec::new(),
                Err(error) => return Err(error),
            },
        };
        // What the data shares with no other snapshot is counted.
        drop(snapshot);
        for change in changes {
            self.allowance.check(Stage::Running)?;
            data.change(change).map_err(of_data)?;
        }
        Ok(())
    }

    /// The quads of an operation's templates over its pattern's solutions; `made` bytes are held for the operations
    /// before.
    fn solve(
        &mut self,
        snapshot: Arc<Snapshot>,
        pattern: &ParsedQuery,
        filling: Filling,
        made: u64,
    ) -> Result<UpdateChange, Error> {
        let beside = self.text_bytes + made;
        self.allowance.hold(beside, [("its text", self.text_bytes), ("its changes so far", made)])?;
        let session = Session::new(self.service.clone(), Dataset::new(snapshot), Arc::clone(&self.options));
        let call = Call { session, allowance: self.allowance.clone() };
        let prepared = Arc::new(call.plan_parsed(&sparql(&call.session), pattern, beside, Machines::default())?);
        let (changes, outcome) = call.answer(&prepared, Fill { filling, filled: Mutex::default() })?;
        // A run gives back its share; the text and the changes are held until the update's end.
        let quads = changes.heap_bytes() as u64;
        let holders = [("its text", self.text_bytes), ("its changes so far", made), ("its quads", quads)];
        self.allowance.hold(beside + quads, holders)?;
        self.updated.rows += outcome.rows;
        self.updated.totals = self.updated.totals + outcome.totals;
        Ok(changes)
    }

    /// The quads of a document; `made` bytes are held for the operations before.
    fn load(&mut self, load: DocumentLoad<'_>, filling: &Filling, made: u64) -> Result<UpdateChange, Error> {
        let loaded = self.loaded(load, filling, made);
        // The memory of loading is free again; the text and the changes are held until the update's end.
        let quads = loaded.as_ref().map_or(0, |change| change.heap_bytes() as u64);
        self.allowance.lower_to(self.text_bytes + made + quads);
        let loaded = loaded?;
        let holders = [("its text", self.text_bytes), ("its changes so far", made), ("its quads", quads)];
        self.allowance.hold(self.text_bytes + made + quads, holders)?;
        Ok(loaded)
    }

    fn loaded(&self, load: DocumentLoad<'_>, filling: &Filling, made: u64) -> Result<UpdateChange, Error> {
        let SessionOptions { web, folder, languages, plan, document, longest_iri, .. } = &*self.options;
        let Allowance { cancel, until, .. } = &self.allowance;
        let holding = Arc::new(Holding {
            allowance: self.allowance.clone(),
            beside: self.text_bytes + made,
            refused: OnceLock::new(),
            read: AtomicU64::new(0),
            parsed: AtomicU64::new(0),
        });
        let book = |inner| BookedDocument { inner, holding: Arc::clone(&holding), booked: 0 };
        let given = document.as_ref().filter(|document| document.iri() == load.from);
        let opened = match given {
            Some(document) => document.open(book),
            None => document::open(load.from, web, folder.as_deref(), cancel, *until, book).map(|source| vec![source]),
        };
        let sources = opened.map_err(|error| Error::Failed { name: "load".to_owned(), error: error.into() })?;
        let booked = Arc::clone(&holding);
        let room = move |bytes| {
            booked.parsed.store(bytes, Ordering::Relaxed);
            booked.book().is_ok()
        };
        let load_options = LoadOptions {
            hash_seed: plan.hash_seed,
            rdf_12: languages.sparql.rdf_12,
            longest_iri: *longest_iri,
            room: Some(MemoryPermit(Arc::new(room))),
            ..LoadOptions::default()
        };
        let mut loading = self.service.load(sources, load_options, cancel);
        if let Some(until) = until {
            loading.end_at(*until, self.service).map_err(|error| Error::NoThread(Arc::new(error)))?;
        }
        let loaded = loading.finish();
        self.allowance.check(Stage::Running)?;
        if let Some(refused) = holding.refused.get() {
            return Err(refused.clone());
        }
        let dataset = loaded?.dataset;
        let quads = dataset.snapshot().heap_bytes() as u64;
        let ask = self.allowance.ask();
        let filled = filling.document(dataset.snapshot(), load.into, &Interrupt::by(&*ask)).map_err(of_update)?;
        holding.hold(quads + filled.bytes())?;
        Ok(UpdateChange::Quads(filling.finish([filled])))
    }
}

/// The memory of a document being loaded, as a part of its update's memory.
struct Holding {
    allowance: Allowance,
    /// The bytes of the update's text and of its changes so far.
    beside: u64,
    /// Why no more may be held.
    refused: OnceLock<Error>,
    /// Bytes read, of all its parts.
    read: AtomicU64,
    /// The loader's need for the parsed part.
    parsed: AtomicU64,
}

impl Holding {
    /// Books `bytes` for the document.
    fn hold(&self, bytes: u64) -> Result<(), Error> {
        let holders = [("its text and its changes so far", self.beside), ("the document", bytes)];
        self.allowance.hold(self.beside.saturating_add(bytes), holders)
    }

    /// Books the bytes read and parsed so far. A refusal is noted.
    fn book(&self) -> Result<(), ()> {
        let (read, parsed) = (self.read.load(Ordering::Relaxed), self.parsed.load(Ordering::Relaxed));
        // The parsed part is there beside the structures built of it, and a list that grows is there twice.
        let holds = read.max(parsed.saturating_add(parsed / 8 * 5));
        self.hold(holds).map_err(|error| {
            let _ = self.refused.set(error);
        })
    }
}

/// A document booked as it is read.
struct BookedDocument<R> {
    inner: R,
    holding: Arc<Holding>,
    /// The bytes of all parts when this one booked last.
    booked: u64,
}

impl<R: Read> Read for BookedDocument<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        /// Booked at once.
        const PIECE: u64 = 64 << 10;
        let count = self.inner.read(buffer)?;
        let read = self.holding.read.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
        if read >= self.booked + PIECE || count == 0 {
            self.booked = read;
            if self.holding.book().is_err() {
                return Err(io::Error::other("more than the update may hold"));
            }
        }
        Ok(count)
    }
}

/// The reason to end an update, if it is the cause of a failure to read or change its data.
fn ended(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    if let Some(error) = error.downcast_ref::<Error>() {
        return Some(error.clone());
    }
    match (error.downcast_ref::<StoreError>(), error.downcast_ref::<UpdateError>()) {
        (Some(StoreError::Unreadable(error)), _) | (_, Some(UpdateError::Unreadable(error))) => ended(&**error),
        _ => None,
    }
}

fn of_data(error: Shared) -> Error {
    ended(&*error).unwrap_or(Error::Store(error))
}

fn of_update(error: UpdateError) -> Error {
    match error {
        UpdateError::NoMemory(error) => Error::NoMemory { name: "update".to_owned(), error },
        UpdateError::Unreadable(error) => of_data(error),
        error => Error::Failed { name: "update".to_owned(), error: Arc::new(error) },
    }
}

/// Makes quads of solutions.
struct Fill {
    filling: Filling,
    filled: Mutex<Vec<Filled>>,
}

struct FillTaker {
    fill: Arc<Fill>,
    filled: Filled,
}

impl Sink for Fill {
    type Taker = FillTaker;
    type Output = UpdateChange;

    fn taker(self: &Arc<Self>, _: &Arc<Solutions>) -> FillTaker {
        FillTaker { fill: Arc::clone(self), filled: Filled::default() }
    }

    fn finish(&self, _: &Solutions, _: u64) -> io::Result<UpdateChange> {
        let filled = std::mem::take(&mut *self.filled.lock().expect("nothing panics under this lock"));
        Ok(UpdateChange::Quads(self.filling.finish(filled)))
    }
}

impl Taker for FillTaker {
    fn take(&mut self, batch: &SolutionBatch<'_>, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if batch.is_last() {
            let filled = std::mem::take(&mut self.filled);
            self.fill.filled.lock().expect("nothing panics under this lock").push(filled);
            return Ok(());
        }
        let filled = self.fill.filling.fill(batch.solutions().run(), batch.envelope(), &mut self.filled);
        filled.map_err(|error| match error {
            UpdateError::NoMemory(error) => BoxError::from(error),
            error => error.into(),
        })?;
        turn.book(self.filled.bytes())?;
        Ok(())
    }
}
