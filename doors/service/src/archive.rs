//! Archives of stores: what is in a store goes to a folder or an object storage, each file and each record once, and
//! the store is made again from there as it is or as it was. The objects are described in core/store.

mod folder;
#[cfg(feature = "object-storage")]
mod objects;
mod prune;

use crate::copies::next_epoch;
use crate::store::NewStore;
use crate::tls::TlsRoots;
use folder::Folder;
pub use prune::Pruned;
use std::fmt;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use vicus_machine::SystemDirectory;
use vicus_store::{
    ARCHIVE_HEAD, ArchiveList, ArchiveSource, ArchivedRecords, CommitError, Content, CopyAnswer, CopyStanding, Epoch,
    Followed, Frozen, NotArchived, NotUnderstood, Offer, Store, StoreError, Until, archive_head, archived_base,
    base_of_archive, is_name_of_base, name_of_base, name_of_base_file, store_of_archive,
};

/// About the bytes of the records in an object.
const RECORDS: usize = 32 << 20;

/// The bytes of a base file that are fetched at once.
const PART: u64 = 16 << 20;

/// A base may be replaced this often while its files are sent.
const TRIES: usize = 5;

/// A place for objects with names. Names have slashes like paths.
pub trait Objects: fmt::Debug + Send + Sync {
    /// The names of all objects.
    ///
    /// # Errors
    /// The place can't be reached, or refuses.
    fn list(&self) -> io::Result<Vec<String>>;

    /// The bytes of an object from one to another, or all; `None` if there is none of this name.
    ///
    /// # Errors
    /// As for [`Objects::list`], or the object is shorter.
    fn get(&self, name: &str, range: Option<(u64, u64)>) -> io::Result<Option<Vec<u8>>>;

    /// Makes an object of this length, from bytes that `read` gives for their place. Others see all of it or nothing.
    ///
    /// # Errors
    /// As for [`Objects::list`], or `read` fails.
    fn put(&self, name: &str, bytes: u64, read: &mut ReadAt<'_>) -> io::Result<()>;

    /// Removes an object, or leaves it to others to have done so.
    ///
    /// # Errors
    /// As for [`Objects::list`].
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// Fills a buffer with the bytes from a place on.
pub type ReadAt<'a> = dyn FnMut(u64, &mut [u8]) -> io::Result<()> + 'a;

/// An archive of a store.
#[derive(Clone, Debug)]
pub struct Archive {
    place: String,
    objects: Arc<dyn Objects>,
}

/// Why a store could not be archived or restored.
#[derive(Debug)]
pub enum ArchiveError {
    /// The place is none.
    Place(
        /// The fault, and what would be one.
        String,
    ),
    /// The place can't be reached, or refuses; or the work was given up.
    Objects {
        /// The step that failed.
        what: String,
        /// The fault.
        error: io::Error,
    },
    /// There is no archive.
    None,
    /// An object is not what it should be.
    Object {
        /// Its name.
        name: String,
        /// The fault.
        why: NotUnderstood,
    },
    /// An object is missing.
    Missing(
        /// Its name.
        String,
    ),
    /// The archive is of another store.
    OtherStore,
    /// The archive has the log of a newer writer.
    NewerWriter(
        /// Its epoch.
        Epoch,
    ),
    /// The archive has another record of this number.
    OtherRecord(
        /// The number.
        u64,
    ),
    /// The state that was asked for is not there.
    NotArchived(NotArchived),
    /// The base was replaced again and again while it was sent.
    Replaced,
    /// The store can't be read or written.
    Store(StoreError),
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArchiveError::Place(why) => f.write_str(why),
            ArchiveError::Objects { what, error } => write!(f, "{what}: {error}"),
            ArchiveError::None => f.write_str("there is no archive: `vicus backup` makes one"),
            ArchiveError::Object { name, why: NotUnderstood::Damaged } => {
                write!(f, "object {name} is damaged, or is not what its name says")
            }
            ArchiveError::Object { name, why: NotUnderstood::Foreign } => {
                write!(f, "object {name} was not written by Vicus")
            }
            ArchiveError::Object { name, why: NotUnderstood::Version(version) } => {
                write!(f, "object {name} was written by a Vicus with version {version} of archives: update this one")
            }
            ArchiveError::Missing(name) => write!(f, "object {name} is missing"),
            ArchiveError::OtherStore => {
                f.write_str("it is the archive of another store: each store needs a place of its own")
            }
            ArchiveError::NewerWriter(epoch) => write!(
                f,
                "it has the log of a newer writer, of epoch {epoch}: a store that was restored or promoted is archived \
                 there; archive this one to another place"
            ),
            ArchiveError::OtherRecord(number) => write!(
                f,
                "record {number} there is not that of the store, whose log was repaired, or put back: archive it to \
                 another place"
            ),
            ArchiveError::NotArchived(why) => why.fmt(f),
            ArchiveError::Replaced => {
                f.write_str("the store's base was replaced again and again while it was sent: try it again")
            }
            ArchiveError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ArchiveError {}

impl From<StoreError> for ArchiveError {
    fn from(error: StoreError) -> ArchiveError {
        ArchiveError::Store(error)
    }
}

impl From<NotArchived> for ArchiveError {
    fn from(error: NotArchived) -> ArchiveError {
        ArchiveError::NotArchived(error)
    }
}

impl ArchiveError {
    /// Whether the work was given up by [`Told`].
    pub fn is_given_up(&self) -> bool {
        matches!(self, ArchiveError::Objects { error, .. } if error.kind() == ErrorKind::Interrupted)
    }
}

/// Takes the bytes that have been copied, and about all of them. Its error ends the work; one of the kind
/// [`ErrorKind::Interrupted`] is no fault.
pub type Told<'a> = dyn FnMut(u64, u64) -> io::Result<()> + 'a;

/// The outcome of archiving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Archived {
    /// The last record in the archive.
    pub last: u64,
    /// The records that were sent.
    pub records: u64,
    /// The bytes that were sent.
    pub bytes: u64,
}

/// The outcome of restoring.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The store's last record from the archive.
    pub last: u64,
    /// How many quads the store has.
    pub quads: u64,
}

/// The role of a restored store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoredAs {
    /// The store's next writer, in an epoch of its own: copies can follow it.
    Writer,
    /// A copy, which follows a writer and takes no changes of its own.
    Follower,
}

impl Archive {
    /// The archive at a place: a folder, or the URL of a bucket, such as `s3://bucket/folder`, if the crate is built
    /// with the feature `object-storage`. Nothing is looked at yet. A service of buckets has a certificate of these
    /// roots, or of a public authority if there are none.
    ///
    /// # Errors
    /// The URL is none, or its kind is not known.
    pub fn new(place: &str, roots: Option<&TlsRoots>) -> Result<Archive, ArchiveError> {
        let objects: Arc<dyn Objects> = match place.split_once("://") {
            None => Arc::new(Folder::new(Path::new(place))),
            Some(("file", path)) => Arc::new(Folder::new(Path::new(path))),
            #[cfg(feature = "object-storage")]
            Some(_) => Arc::new(objects::Bucket::new(place, roots).map_err(ArchiveError::Place)?),
            #[cfg(not(feature = "object-storage"))]
            Some((kind, _)) => {
                let _ = roots;
                return Err(ArchiveError::Place(format!(
                    "{kind}:// is no place for this build: expected a folder; for object storage, build vicus with \
                     --features object-storage"
                )));
            }
        };
        Ok(Archive { place: place.to_owned(), objects })
    }

    /// An archive of these objects. `place` names it.
    pub fn of(place: &str, objects: Arc<dyn Objects>) -> Archive {
        Archive { place: place.to_owned(), objects }
    }

    /// The name of its place.
    pub fn place(&self) -> &str {
        &self.place
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ArchiveError> {
        self.objects.get(name, None).map_err(|error| of(format!("reading object {name}"), error))
    }

    fn needed(&self, name: &str) -> Result<Vec<u8>, ArchiveError> {
        self.get(name)?.ok_or_else(|| ArchiveError::Missing(name.to_owned()))
    }

    fn list(&self) -> Result<Vec<String>, ArchiveError> {
        self.objects.list().map_err(|error| of("listing objects".to_owned(), error))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), ArchiveError> {
        let mut read = |at: u64, into: &mut [u8]| {
            let at = at as usize;
            into.copy_from_slice(&bytes[at..at + into.len()]);
            Ok(())
        };
        let put = self.objects.put(name, bytes.len() as u64, &mut read);
        put.map_err(|error| of(format!("writing object {name}"), error))
    }

    /// The number of the archived store; `None` if nothing was archived.
    fn store(&self) -> Result<Option<u64>, ArchiveError> {
        let Some(bytes) = self.get(ARCHIVE_HEAD)? else { return Ok(None) };
        store_of_archive(&bytes).map(Some).map_err(|why| object(ARCHIVE_HEAD, why))
    }

    /// Sends what the archive does not have yet: the base, if it is a new one, and records.
    ///
    /// # Errors
    /// The archive is of another store, can't be reached, or refuses; or the store can't be read. What was sent stays,
    /// and the next call goes on behind it.
    pub fn send(&self, source: &dyn ArchiveSource, told: &mut Told<'_>) -> Result<Archived, ArchiveError> {
        let mut sent = Archived::default();
        match self.store()? {
            Some(store) if store != source.offer().from.store => return Err(ArchiveError::OtherStore),
            Some(_) => {}
            None => self.put(ARCHIVE_HEAD, &archive_head(source.offer().from.store))?,
        }
        let mut names = self.list()?;
        for turn in 0..TRIES {
            let offer = source.offer();
            let list = ArchiveList::of(names.iter().map(|name| &name[..]));
            if list.newest_epoch() > offer.from.known() {
                return Err(ArchiveError::NewerWriter(list.newest_epoch()));
            }
            let mut after = list.reach(&offer.from);
            if turn == 0 {
                self.check_same_log(source, &list, &offer.from, after)?;
            }
            // Records first: a new base takes its time.
            let mut is_complete = self.send_records(source, &offer, &mut after, &mut names, &mut sent, told)?;
            if !self.send_base(source, &offer, &mut names, &mut sent, told)? {
                continue;
            }
            if !is_complete {
                after = after.max(offer.included);
                is_complete = self.send_records(source, &offer, &mut after, &mut names, &mut sent, told)?;
            }
            if is_complete && list.is_pruned() {
                // What was relied on may have been removed meanwhile.
                names = self.list()?;
                let list = ArchiveList::of(names.iter().map(|name| &name[..]));
                is_complete = list.reach(&offer.from.up_to(after)) >= after;
            }
            if is_complete {
                return Ok(Archived { last: after, ..sent });
            }
        }
        Err(ArchiveError::Replaced)
    }

    /// Whether the last archived record is the one that the store has: a log that was repaired, or a folder that was
    /// put back from a picture of its disk, has given its number to another record.
    fn check_same_log(
        &self,
        source: &dyn ArchiveSource,
        list: &ArchiveList,
        log: &CopyStanding,
        last: u64,
    ) -> Result<(), ArchiveError> {
        let Some(name) = list.object_with(log, last) else { return Ok(()) };
        let Some(own) = source.records(last - 1, 1).map_err(ArchiveError::Store)? else { return Ok(()) };
        let there = ArchivedRecords::decode(&self.needed(name)?).map_err(|why| object(name, why))?;
        let record = there.records.get((last - 1 - there.after) as usize);
        match own.records.first() {
            Some(own) if record != Some(own) => Err(ArchiveError::OtherRecord(last)),
            _ => Ok(()),
        }
    }

    /// Sends records behind one, and moves that on. Whether there are no more: if not, a base has the next one, or the
    /// log was cut meanwhile.
    fn send_records(
        &self,
        source: &dyn ArchiveSource,
        offer: &Offer,
        after: &mut u64,
        names: &mut Vec<String>,
        sent: &mut Archived,
        told: &mut Told<'_>,
    ) -> Result<bool, ArchiveError> {
        loop {
            let Some(records) = source.records(*after, RECORDS).map_err(ArchiveError::Store)? else {
                return Ok(false);
            };
            let is_same_log = records.from.last >= *after && records.from.epochs.starts_with(&offer.from.epochs);
            if !is_same_log {
                return Ok(false);
            }
            if records.records.is_empty() {
                return Ok(true);
            }
            let (name, bytes) = (records.name(now()), records.encode());
            self.put(&name, &bytes)?;
            sent.records += records.records.len() as u64;
            sent.bytes += bytes.len() as u64;
            *after = records.from.last;
            names.push(name);
            given_up(told(sent.bytes, sent.bytes))?;
        }
    }

    /// Sends the base, unless it is there. `false`: it was replaced meanwhile.
    fn send_base(
        &self,
        source: &dyn ArchiveSource,
        offer: &Offer,
        names: &mut Vec<String>,
        sent: &mut Archived,
        told: &mut Told<'_>,
    ) -> Result<bool, ArchiveError> {
        if ArchiveList::of(names.iter().map(|name| &name[..])).has_base(offer) {
            return Ok(true);
        }
        let total = sent.bytes + offer.bytes().unwrap_or_default();
        for entry in &offer.files {
            let name = name_of_base_file(entry);
            if names.contains(&name) {
                continue;
            }
            let Some(file) = source.open_base(&entry.name).map_err(ArchiveError::Store)? else { return Ok(false) };
            let before = sent.bytes;
            let mut read = |at: u64, into: &mut [u8]| {
                file.read_checked(at, into).map_err(|damage| io::Error::new(ErrorKind::InvalidData, damage))?;
                told(before + at + into.len() as u64, total)
            };
            let put = self.objects.put(&name, entry.fingerprint.bytes, &mut read);
            put.map_err(|error| of(format!("writing object {name}"), error))?;
            sent.bytes += entry.fingerprint.bytes;
            names.push(name);
        }
        let name = name_of_base(offer, now());
        self.put(&name, &archived_base(offer))?;
        names.push(name);
        Ok(true)
    }

    /// Sends what is in a store's folder, beside a process that may be writing to it.
    ///
    /// # Errors
    /// As for [`Archive::send`].
    pub fn send_folder(&self, folder: &Path, told: &mut Told<'_>) -> Result<Archived, ArchiveError> {
        let directory = SystemDirectory::open(folder).map_err(StoreError::from)?;
        self.send(&Frozen::read(&directory)?, told)
    }

    /// The log of an object with a base or records.
    fn log_of(&self, name: &str) -> Result<CopyStanding, ArchiveError> {
        let bytes = self.needed(name)?;
        let log = match name.starts_with("bases/") {
            true => base_of_archive(&bytes).map(|offer| offer.standing()),
            false => ArchivedRecords::decode(&bytes).map(|records| records.from),
        };
        log.map_err(|why| object(name, why))
    }

    /// Makes the store again in a folder, which must be missing or empty. After a failure the folder is as before; what
    /// is left of a process that was killed is no store, and the next call begins anew.
    ///
    /// # Errors
    /// There is no archive, or not the state that was asked for; an object is missing or damaged; the archive can't be
    /// reached; or the store can't be written.
    pub fn restore(
        &self,
        folder: &Path,
        until: Until,
        restored_as: RestoredAs,
        told: &mut Told<'_>,
    ) -> Result<Restored, ArchiveError> {
        let number = self.store()?.ok_or(ArchiveError::None)?;
        let names = self.list()?;
        let list = ArchiveList::of(names.iter().map(|name| &name[..]));
        let newest = list.newest(until)?;
        let log = self.log_of(newest)?;
        if log.store != number {
            return Err(object(newest, NotUnderstood::Damaged));
        }
        let plan = list.restoration(&log, until)?;

        let store = NewStore::create_restored(folder, number)?;
        store.follow(crate::store::number())?;
        if let Some(name) = &plan.base {
            self.fetch_base(&store, name, told)?;
        }
        for (name, last) in &plan.records {
            given_up(told(0, 0))?;
            let archived = ArchivedRecords::decode(&self.needed(name)?).map_err(|why| object(name, why))?;
            let standing = store.standing();
            let damaged = || object(name, NotUnderstood::Damaged);
            if archived.from.store != number || !archived.are_named(name) {
                return Err(damaged());
            }
            let ArchivedRecords { mut records, after, .. } = archived;
            records.truncate(last.checked_sub(after).ok_or_else(damaged)? as usize);
            records.drain(..(standing.last.checked_sub(after).ok_or_else(damaged)? as usize).min(records.len()));
            let epoch = log.clone().up_to(*last).epoch();
            let (to, content) = ((standing.last, standing.epoch()), Content::Records(records));
            let answer = CopyAnswer { store: number, epoch, last: *last, included: 0, to, content };
            match store.follow_up(&answer)? {
                Followed::Appended(_) if store.standing().last == *last => {}
                _ => return Err(damaged()),
            }
        }
        if restored_as == RestoredAs::Writer {
            // Newer than all that were archived, also behind the state that is restored.
            let known = store.standing().known().max(log.known()).max(list.newest_epoch());
            let epoch = next_epoch(known).map_err(|error| ArchiveError::Place(error.to_string()))?;
            store.promise(epoch)?;
            store.begin_epoch(epoch).map_err(|error| match error {
                CommitError::Failed(error) => ArchiveError::Store(error),
                error => of("beginning an epoch".to_owned(), io::Error::other(error)),
            })?;
        }
        let quads = store.snapshot().len() as u64;
        store.reveal()?;
        drop(store.keep());
        Ok(Restored { last: plan.last, quads })
    }

    fn fetch_base(&self, store: &Store, name: &str, told: &mut Told<'_>) -> Result<(), ArchiveError> {
        let offer = base_of_archive(&self.needed(name)?).map_err(|why| object(name, why))?;
        if offer.from.store != store.standing().store || !is_name_of_base(&offer, name) {
            return Err(object(name, NotUnderstood::Damaged));
        }
        if offer.files.is_empty() {
            return Ok(());
        }
        let total = offer.bytes().ok_or_else(|| object(name, NotUnderstood::Damaged))?;
        let (mut before, mut fetched) = (0, Vec::new());
        for entry in &offer.files {
            let part = name_of_base_file(entry);
            let mut file = store.fetch(entry.fingerprint)?;
            while file.left() > 0 {
                let range = (file.at(), file.at() + file.left().min(PART));
                let bytes = self.objects.get(&part, Some(range));
                let bytes = bytes.map_err(|error| of(format!("reading object {part}"), error))?;
                let bytes = bytes.ok_or_else(|| ArchiveError::Missing(part.clone()))?;
                if bytes.len() as u64 != range.1 - range.0 {
                    return Err(object(&part, NotUnderstood::Damaged));
                }
                file.write(&bytes).map_err(StoreError::from)?;
                given_up(told(before + file.at(), total))?;
            }
            before += entry.fingerprint.bytes;
            fetched.push(store.fetched(file)?);
        }
        store.adopt(&offer, fetched)?.ok_or_else(|| object(name, NotUnderstood::Damaged))?;
        Ok(())
    }
}

fn of(what: String, error: io::Error) -> ArchiveError {
    ArchiveError::Objects { what, error }
}

fn object(name: &str, why: NotUnderstood) -> ArchiveError {
    ArchiveError::Object { name: name.to_owned(), why }
}

fn given_up(told: io::Result<()>) -> Result<(), ArchiveError> {
    told.map_err(|error| of("given up".to_owned(), error))
}

/// Seconds since 1970; 0 for a clock before that.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A store that is archived on a thread, every some seconds.
#[derive(Debug)]
pub struct Archiving {
    shared: Arc<Shared>,
    store: Arc<Store>,
}

/// How a store is archived on a thread.
#[derive(Clone)]
pub struct ArchivingOptions {
    /// How often what is new is sent.
    pub every: Duration,
    /// The span of time whose states stay, see [`Archive::prune`]; all stay without one.
    pub keep: Option<Duration>,
    /// Takes messages for the person that watches over it.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for ArchivingOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ArchivingOptions { every, keep, tell: _ } = self;
        f.debug_struct("ArchivingOptions").field("every", every).field("keep", keep).finish_non_exhaustive()
    }
}

struct Shared {
    archive: Archive,
    options: ArchivingOptions,
    state: Mutex<State>,
    changed: Condvar,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("archive", &self.archive).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct State {
    /// Since when it is to end.
    closing: Option<Instant>,
    is_running: bool,
    /// The state of the store that is archived: its epoch, its last record, and the last one in its base.
    archived: Option<(Epoch, u64, u64)>,
    /// When objects that were not needed any more were removed last.
    pruned: Option<Instant>,
    /// When all records were archived.
    up_to_date: Instant,
    /// Why nothing can be archived now.
    problem: Option<String>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Removes objects that are not needed any more, now and then.
    fn prune_if_due(&self) {
        let Some(keep) = self.options.keep else { return };
        {
            let mut state = self.lock();
            let is_due = state.pruned.is_none_or(|pruned| pruned.elapsed() >= keep.min(PRUNED_EVERY));
            if !is_due || state.closing.is_some() || state.archived.is_none() {
                return;
            }
            state.pruned = Some(Instant::now());
        }
        let mut told = |_, _| {
            if self.lock().closing.is_some() { Err(ErrorKind::Interrupted.into()) } else { Ok(()) }
        };
        match self.archive.prune(keep, &mut told) {
            Err(error) if !error.is_given_up() => {
                (self.options.tell)(&format!("{}: nothing older is removed: {error}", self.archive.place));
            }
            _ => {}
        }
    }
}

/// How far an archive is behind its store.
#[derive(Clone, Debug)]
pub struct ArchiveBehind {
    /// The records that are not archived.
    pub records: u64,
    /// For how long some have been missing.
    pub time: Duration,
    /// Why nothing can be archived now.
    pub problem: Option<String>,
}

/// The longest time between two looks for what is not needed any more.
const PRUNED_EVERY: Duration = Duration::from_secs(3600);

/// The shortest time between two looks.
const SHORTEST: Duration = Duration::from_millis(10);

impl Archiving {
    /// Archives a store, once it has [begun](Archiving::begin).
    pub fn new(archive: Archive, store: &Arc<Store>, mut options: ArchivingOptions) -> Archiving {
        let up_to_date = Instant::now();
        let state = State { closing: None, is_running: false, archived: None, pruned: None, up_to_date, problem: None };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        options.every = options.every.max(SHORTEST);
        let shared = Arc::new(Shared { archive, options, state, changed });
        // The log is kept from now on, not from the first success on.
        store.keep_for_archive(0);
        Archiving { shared, store: Arc::clone(store) }
    }

    /// Archives from now on.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn begin(&self) -> io::Result<()> {
        let (store, shared) = (Arc::clone(&self.store), Arc::clone(&self.shared));
        self.shared.lock().is_running = true;
        let work = move || {
            let worked = catch_unwind(AssertUnwindSafe(|| work(&store, &shared)));
            let mut state = shared.lock();
            state.is_running = false;
            if worked.is_err() {
                // The panic itself is on standard error.
                state.problem = Some("archiving has ended by a mistake of ours: restart the server".to_owned());
            }
            shared.changed.notify_all();
        };
        let begun = std::thread::Builder::new().name("vicus archive".to_owned()).spawn(work);
        begun.map(drop).inspect_err(|_| self.shared.lock().is_running = false)
    }

    /// Sends what is missing, and ends. Waits for this long at most; whether all was sent.
    pub fn end(&self, at_most: Duration) -> bool {
        let mut state = self.shared.lock();
        state.closing.get_or_insert_with(Instant::now);
        self.shared.changed.notify_all();
        let waited = self.shared.changed.wait_timeout_while(state, at_most, |state| state.is_running);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.is_running && state.archived == Some(state_of(&self.store))
    }

    /// How far the archive is behind the store.
    pub fn behind(&self) -> ArchiveBehind {
        let (epoch, last, _) = state_of(&self.store);
        let state = self.shared.lock();
        let records = match state.archived {
            Some((same, archived, _)) if same == epoch => last.saturating_sub(archived),
            Some(_) | None => last,
        };
        let time = if records == 0 { Duration::ZERO } else { state.up_to_date.elapsed() };
        ArchiveBehind { records, time, problem: state.problem.clone() }
    }
}

fn state_of(store: &Store) -> (Epoch, u64, u64) {
    let offer = store.offer();
    (offer.from.epoch(), offer.from.last, offer.included)
}

fn work(store: &Store, shared: &Shared) {
    loop {
        let (began, state) = (Instant::now(), state_of(store));
        // A look at the archive costs money, where that is a bucket.
        if shared.lock().archived != Some(state) {
            // At the end, what takes longer is left to the next start.
            let mut told = |_, _| {
                let is_late = shared.lock().closing.is_some_and(|since| since.elapsed() > LAST_TIME);
                if is_late { Err(ErrorKind::Interrupted.into()) } else { Ok(()) }
            };
            let sent = shared.archive.send(store, &mut told);
            let mut now = shared.lock();
            match sent {
                Ok(sent) => {
                    // More may have come meanwhile: that is seen by the next look.
                    now.archived = Some((state.0, sent.last.min(state.1), state.2));
                    now.up_to_date = began;
                    if now.problem.take().is_some() {
                        (shared.options.tell)(&format!("archives to {}", shared.archive.place));
                    }
                    drop(now);
                    store.keep_for_archive(sent.last);
                }
                Err(error) => {
                    let message = format!("{} takes nothing: {error}", shared.archive.place);
                    if now.problem.replace(message.clone()).as_ref() != Some(&message) {
                        (shared.options.tell)(&message);
                    }
                    if now.closing.is_some() {
                        return;
                    }
                }
            }
        }
        shared.prune_if_due();
        let now = shared.lock();
        if now.closing.is_some() && now.archived == Some(state_of(store)) {
            return;
        }
        let waited = shared.changed.wait_timeout_while(now, shared.options.every, |now| now.closing.is_none());
        drop(waited);
    }
}

/// The time for what is sent last.
const LAST_TIME: Duration = Duration::from_secs(20);
