//! Stores in folders of the system, for threads that may wait.

use oxrdf::NamedNode;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vicus_machine::SystemDirectory;
use vicus_rdf::Snapshot;
use vicus_store::{Checked, Repaired, Store, StoreError, Unread, Waiting};

/// Lets threads sleep until another one has done something.
#[derive(Debug)]
pub(crate) struct Threads {
    places: [Place; 32],
    begun: Instant,
}

/// A place for sleeping threads.
#[derive(Debug, Default)]
struct Place {
    /// How many sleep here: waking none is no call of the system.
    sleepers: Mutex<usize>,
    changed: Condvar,
}

impl Threads {
    pub(crate) fn new() -> Arc<Threads> {
        Arc::new(Threads { places: Default::default(), begun: Instant::now() })
    }

    /// The place for threads with this key, perhaps shared with other keys.
    fn place(&self, key: u64) -> &Place {
        &self.places[key as usize % self.places.len()]
    }
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until it is ready or its time is up.
    fn sleep(&self, until: Option<Instant>, ready: &mut dyn FnMut() -> bool) {
        let mut sleepers = self.lock();
        while !ready() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            *sleepers += 1;
            sleepers = match left {
                None => self.changed.wait(sleepers).unwrap_or_else(PoisonError::into_inner),
                Some(left) => self.changed.wait_timeout(sleepers, left).unwrap_or_else(PoisonError::into_inner).0,
            };
            *sleepers -= 1;
        }
    }
}

impl Waiting for Threads {
    fn wait(&self, key: u64, ready: &mut dyn FnMut() -> bool) {
        self.place(key).sleep(None, ready);
    }

    fn wait_at_most(&self, key: u64, ns: u64, ready: &mut dyn FnMut() -> bool) {
        self.place(key).sleep(Some(Instant::now() + Duration::from_nanos(ns)), ready);
    }

    fn wake(&self, key: u64) {
        let place = self.place(key);
        // Waits for a thread between its check and its sleep: it has this lock.
        let is_awaited = *place.lock() > 0;
        if is_awaited {
            place.changed.notify_all();
        }
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }
}

/// A number shared with no other store, except by an extreme coincidence.
pub(crate) fn number() -> u64 {
    // Keyed by the system's chance.
    RandomState::new().hash_one("a store")
}

fn folder(path: &Path) -> Result<Arc<SystemDirectory>, StoreError> {
    Ok(Arc::new(SystemDirectory::open(path)?))
}

/// Makes a store in a folder. A missing folder is created.
///
/// # Errors
/// There is a store, the folder above is not there, or the system refuses.
pub fn create_store(path: &Path) -> Result<Store, StoreError> {
    Store::create(Arc::new(SystemDirectory::create(path)?), number(), Threads::new())
}

/// Makes a store in a folder that will be a copy of the one with this number.
pub(crate) fn create_copy(path: &Path, number: u64) -> Result<Store, StoreError> {
    Store::create(Arc::new(SystemDirectory::create(path)?), number, Threads::new())
}

/// A new store for data yet to be loaded: unless it is [kept](NewStore::keep), it is removed again, together with its
/// folder if the folder was made for it.
#[derive(Debug)]
pub struct NewStore {
    store: Option<Store>,
    /// If it was not there.
    folder: Option<PathBuf>,
}

impl NewStore {
    /// Makes a store in a folder. A missing folder is created.
    ///
    /// # Errors
    /// As [`create_store`].
    pub fn create(path: &Path) -> Result<NewStore, StoreError> {
        let folder = (!path.exists()).then(|| path.to_owned());
        Ok(NewStore { store: Some(create_store(path)?), folder })
    }

    /// Makes a store in a folder that will be the one with this number again. A missing folder is created. It holds no
    /// store before that is [revealed](Store::reveal).
    pub(crate) fn create_restored(path: &Path, number: u64) -> Result<NewStore, StoreError> {
        let folder = (!path.exists()).then(|| path.to_owned());
        let store = Store::create_hidden(Arc::new(SystemDirectory::create(path)?), number, Threads::new())?;
        Ok(NewStore { store: Some(store), folder })
    }

    /// The variant of [`Store::within`].
    #[must_use]
    pub fn within(mut self, memory: u64) -> NewStore {
        self.store = self.store.take().map(|store| store.within(memory));
        self
    }

    /// The store, for good.
    pub fn keep(mut self) -> Store {
        self.folder = None;
        self.store.take().expect("it is there until it is kept or dropped")
    }
}

impl Deref for NewStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.store.as_ref().expect("it is there until it is kept or dropped")
    }
}

impl Drop for NewStore {
    fn drop(&mut self) {
        // A failed removal leaves an empty store, or a folder without one.
        let _ = self.store.take().map(Store::remove);
        let _ = self.folder.take().map(std::fs::remove_dir);
    }
}

/// Whether a folder is missing or has nothing in it, except what a first start left that was interrupted, and a
/// volume's own folder: a store may be made there.
pub fn has_room_for_store(path: &Path) -> bool {
    let leaves_room = |name: &OsStr| {
        let name = name.to_string_lossy();
        ["LOCK", "BEGUN", "lost+found"].contains(&&*name) || name.ends_with(".new")
    };
    match std::fs::read_dir(path) {
        Ok(mut entries) => entries.all(|entry| entry.is_ok_and(|entry| leaves_room(&entry.file_name()))),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Opens a store to change it.
///
/// # Errors
/// There is none, it is damaged or newer, another process writes to it, or the system refuses.
pub fn open_store(path: &Path) -> Result<Store, StoreError> {
    Store::open(folder(path)?, Threads::new())
}

/// The data of a store as it is now, beside a process that may be writing to it.
///
/// # Errors
/// There is no store, it is damaged or newer, or the system refuses.
pub fn read_store(path: &Path) -> Result<Arc<Snapshot>, StoreError> {
    vicus_store::read(&*folder(path)?)
}

/// The variant of [`read_store`] that reads up to the first unreadable record of its log, if there is one, and returns
/// the record as well.
///
/// # Errors
/// As [`read_store`].
pub fn read_store_up_to(path: &Path) -> Result<(Arc<Snapshot>, Option<Unread>), StoreError> {
    vicus_store::read_up_to(&*folder(path)?)
}

/// Cuts a store's log before the first unreadable record, and keeps the rest in files beside it, so that the store can
/// be opened. `None` if there is no such record.
///
/// # Errors
/// There is no store, a base file is damaged, another process writes to it, or the system refuses.
pub fn repair_store(path: &Path) -> Result<Option<Repaired>, StoreError> {
    vicus_store::repair(folder(path)?)
}

/// Checks a store, beside a process that may be writing to it. `pause` is called now and then with the number of rows
/// compared so far, and of all rows.
///
/// # Errors
/// The first fault found.
pub fn check_store(path: &Path, pause: &mut dyn FnMut(u64, u64)) -> Result<Checked, StoreError> {
    vicus_store::check(&*folder(path)?, pause)
}

/// Copies a store as it is now to a folder of its own. A missing folder is created.
///
/// # Errors
/// The folder has a store, the disk is full, the store is damaged, or the system refuses.
pub fn back_up_store(store: &Store, path: &Path, pause: &mut dyn FnMut(u64)) -> Result<(), StoreError> {
    store.backup(Arc::new(SystemDirectory::create(path)?), number(), pause)
}

/// Makes a store in a folder with this data, such as a store's current data ([`read_store`]): beside a process that
/// goes on to change it. Returns the number of quads. About `memory` bytes are held at most, and larger sorts lie in
/// temporary files in the folder; `pause` is called now and then with the number of bytes written so far.
///
/// # Errors
/// The folder has a store, the disk is full, the data is damaged, or the system refuses.
pub fn copy_store(
    snapshot: &Snapshot,
    path: &Path,
    memory: u64,
    pause: &mut dyn FnMut(u64),
) -> Result<usize, StoreError> {
    let is_new = !path.exists();
    let copied = vicus_store::copy(snapshot, Arc::new(SystemDirectory::create(path)?), number(), memory, pause);
    if copied.is_err() && is_new {
        // It is empty, or stays.
        let _ = std::fs::remove_dir(path);
    }
    copied.map(|()| snapshot.len())
}

/// The name of a graph.
///
/// # Errors
/// The text is no absolute IRI.
pub fn graph_name(text: &str) -> Result<NamedNode, String> {
    NamedNode::new(text).map_err(|error| format!("`{text}` is no IRI: {error}"))
}
