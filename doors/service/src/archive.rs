//! Archives of stores: what is in a store goes to a folder or an object storage, each file and each record once, and
//! the store is made again from there as it is or as it was. The objects are described in core/store.

mod folder;
#[cfg(feature = "object-storage")]
mod objects;

use crate::copies::next_epoch;
use crate::store::NewStore;
use folder::Folder;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use vicus_machine::SystemDirectory;
use vicus_store::{
    ARCHIVE_HEAD, ArchiveList, ArchiveSource, ArchivedRecords, Content, CopyAnswer, Epoch, Followed, Frozen,
    NotArchived, NotUnderstood, Offer, Store, StoreError, Until, archive_head, archived_base, base_of_archive,
    name_of_base, name_of_base_file, store_of_archive,
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
                write!(f, "object {name} is damaged: its checksum differs")
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
    /// with the feature `object-storage`. Nothing is looked at yet.
    ///
    /// # Errors
    /// The URL is none, or its kind is not known.
    pub fn new(place: &str) -> Result<Archive, ArchiveError> {
        let objects: Arc<dyn Objects> = match place.split_once("://") {
            None => Arc::new(Folder::new(Path::new(place))),
            Some(("file", path)) => Arc::new(Folder::new(Path::new(path))),
            #[cfg(feature = "object-storage")]
            Some(_) => Arc::new(objects::Bucket::new(place).map_err(ArchiveError::Place)?),
            #[cfg(not(feature = "object-storage"))]
            Some((kind, _)) => {
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
        for _ in 0..TRIES {
            let Some(offer) = self.send_base(source, &mut names, &mut sent, told)? else { continue };
            let list = ArchiveList::of(names.iter().map(|name| &name[..]));
            let mut after = list.reach(&offer.from);
            loop {
                let Some(records) = source.records(after, RECORDS).map_err(ArchiveError::Store)? else {
                    if after < offer.included {
                        // The base has them.
                        after = offer.included;
                        continue;
                    }
                    break;
                };
                if records.records.is_empty() {
                    return Ok(Archived { last: records.from.last.min(after), ..sent });
                }
                let (name, bytes) = (records.name(now()), records.encode());
                self.put(&name, &bytes)?;
                sent.records += records.records.len() as u64;
                sent.bytes += bytes.len() as u64;
                after = records.from.last;
                names.push(name);
                given_up(told(sent.bytes, sent.bytes))?;
            }
        }
        Err(ArchiveError::Replaced)
    }

    /// Sends the base, unless it is there. `None`: it was replaced meanwhile.
    fn send_base(
        &self,
        source: &dyn ArchiveSource,
        names: &mut Vec<String>,
        sent: &mut Archived,
        told: &mut Told<'_>,
    ) -> Result<Option<Offer>, ArchiveError> {
        let offer = source.offer();
        if ArchiveList::of(names.iter().map(|name| &name[..])).has_base(&offer) {
            return Ok(Some(offer));
        }
        let total = sent.bytes + offer.bytes().unwrap_or_default();
        for entry in &offer.files {
            let name = name_of_base_file(entry);
            if names.contains(&name) {
                continue;
            }
            let Some(file) = source.open_base(&entry.name).map_err(ArchiveError::Store)? else { return Ok(None) };
            let before = sent.bytes;
            let mut read = |at: u64, into: &mut [u8]| {
                file.read_at(at, into).map_err(io::Error::other)?;
                told(before + at + into.len() as u64, total)
            };
            let put = self.objects.put(&name, entry.fingerprint.bytes, &mut read);
            put.map_err(|error| of(format!("writing object {name}"), error))?;
            sent.bytes += entry.fingerprint.bytes;
            names.push(name);
        }
        let name = name_of_base(&offer, now());
        self.put(&name, &archived_base(&offer))?;
        names.push(name);
        Ok(Some(offer))
    }

    /// Sends what is in a store's folder, beside a process that may be writing to it.
    ///
    /// # Errors
    /// As for [`Archive::send`].
    pub fn send_folder(&self, folder: &Path, told: &mut Told<'_>) -> Result<Archived, ArchiveError> {
        let directory = SystemDirectory::open(folder).map_err(StoreError::from)?;
        self.send(&Frozen::read(&directory)?, told)
    }

    /// Makes the store again in a folder, which must be missing or empty. After a failure the folder is as before.
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
        let bytes = self.needed(newest)?;
        let base = |bytes: &[u8]| base_of_archive(bytes).map(|offer| offer.standing());
        let log = match newest.starts_with("bases/") {
            true => base(&bytes),
            false => ArchivedRecords::decode(&bytes).map(|records| records.from),
        };
        let log = log.map_err(|why| object(newest, why))?;
        let plan = list.restoration(&log, until)?;

        let store = NewStore::create_copy(folder, number)?;
        store.follow(crate::store::number())?;
        if let Some(name) = &plan.base {
            self.fetch_base(&store, name, told)?;
        }
        for (name, last) in &plan.records {
            given_up(told(0, 0))?;
            let ArchivedRecords { mut records, after, .. } =
                ArchivedRecords::decode(&self.needed(name)?).map_err(|why| object(name, why))?;
            let standing = store.standing();
            let damaged = || object(name, NotUnderstood::Damaged);
            records.truncate(last.checked_sub(after).ok_or_else(damaged)? as usize);
            records.drain(..(standing.last.checked_sub(after).ok_or_else(damaged)? as usize).min(records.len()));
            let epochs = log.epochs.iter().rev();
            let epoch = epochs.clone().find(|start| start.first <= *last).map_or(Epoch::default(), |start| start.epoch);
            let (to, content) = ((standing.last, standing.epoch()), Content::Records(records));
            let answer = CopyAnswer { store: number, epoch, last: *last, to, content };
            match store.follow_up(&answer)? {
                Followed::Appended(_) if store.standing().last == *last => {}
                _ => return Err(damaged()),
            }
        }
        if restored_as == RestoredAs::Writer {
            let epoch = next_epoch(store.standing().known().max(log.known()));
            let epoch = epoch.map_err(|error| ArchiveError::Place(error.to_string()))?;
            store.promise(epoch)?;
            store.begin_epoch(epoch).map_err(|error| ArchiveError::Objects {
                what: "beginning an epoch".to_owned(),
                error: io::Error::other(error),
            })?;
        }
        let quads = store.snapshot().len() as u64;
        drop(store.keep());
        Ok(Restored { last: plan.last, quads })
    }

    fn fetch_base(&self, store: &Store, name: &str, told: &mut Told<'_>) -> Result<(), ArchiveError> {
        let offer = base_of_archive(&self.needed(name)?).map_err(|why| object(name, why))?;
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

/// A store that is archived on a thread, every some seconds. Dropping it sends once more what is missing.
#[derive(Debug)]
pub struct Archiving {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    is_closing: bool,
    /// The last archived record.
    last: u64,
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

impl Archiving {
    /// Archives a store from now on. `tell` takes messages for the person that watches over it.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn begin(
        archive: Archive,
        store: &Arc<Store>,
        every: Duration,
        tell: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> io::Result<Archiving> {
        let state = State { is_closing: false, last: 0, up_to_date: Instant::now(), problem: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let thread = {
            let (store, shared) = (Arc::clone(store), Arc::clone(&shared));
            let work = move || loop {
                let began = Instant::now();
                let sent = archive.send(&*store, &mut |_, _| Ok(()));
                let mut state = shared.lock();
                match sent {
                    Ok(sent) => {
                        (state.last, state.up_to_date) = (sent.last, began);
                        if state.problem.take().is_some() {
                            tell(&format!("archives to {}", archive.place));
                        }
                        store.keep_for_archive(sent.last);
                    }
                    Err(error) => {
                        let message = format!("{} takes nothing: {error}", archive.place);
                        if state.problem.replace(message.clone()).as_ref() != Some(&message) {
                            tell(&message);
                        }
                    }
                }
                if state.is_closing {
                    return;
                }
                let waited = shared.changed.wait_timeout_while(state, every, |state| !state.is_closing);
                let state = waited.unwrap_or_else(PoisonError::into_inner).0;
                // Nothing has changed since: the last look would find nothing.
                if state.is_closing && state.problem.is_none() && state.last == store.standing().last {
                    return;
                }
            };
            std::thread::Builder::new().name("vicus archive".to_owned()).spawn(work)?
        };
        Ok(Archiving { shared, thread: Some(thread) })
    }

    /// How far the archive is behind the store, whose last record this is.
    pub fn behind(&self, last: u64) -> ArchiveBehind {
        let state = self.shared.lock();
        let records = last.saturating_sub(state.last);
        let time = if records == 0 { Duration::ZERO } else { state.up_to_date.elapsed() };
        ArchiveBehind { records, time, problem: state.problem.clone() }
    }
}

impl Drop for Archiving {
    fn drop(&mut self) {
        self.shared.lock().is_closing = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic is on standard error already.
            let _ = thread.join();
        }
    }
}
