//! Stores in folders of the system, for threads that may wait.

use oxrdf::NamedNode;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use vicus_machine::SystemDirectory;
use vicus_rdf::Snapshot;
use vicus_store::{Checked, Store, StoreError, Waiting};

/// Lets threads sleep until another one has done something.
#[derive(Debug)]
struct Threads([(Mutex<()>, Condvar); 32]);

impl Threads {
    fn new() -> Arc<Threads> {
        Arc::new(Threads(std::array::from_fn(|_| Default::default())))
    }

    /// Where threads with this key sleep, perhaps among others.
    fn place(&self, key: u64) -> &(Mutex<()>, Condvar) {
        &self.0[key as usize % self.0.len()]
    }
}

impl Waiting for Threads {
    fn wait(&self, key: u64, ready: &mut dyn FnMut() -> bool) {
        let (mutex, changed) = self.place(key);
        let locked = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        drop(changed.wait_while(locked, |()| !ready()));
    }

    fn wake(&self, key: u64) {
        let (mutex, changed) = self.place(key);
        // A thread that was told to wait and does not sleep yet has this lock.
        drop(mutex.lock());
        changed.notify_all();
    }
}

/// A number that no other store has but by a great chance.
fn number() -> u64 {
    // Keyed by the system's chance.
    RandomState::new().hash_one("a store")
}

fn folder(path: &Path) -> Result<Arc<SystemDirectory>, StoreError> {
    Ok(Arc::new(SystemDirectory::open(path)?))
}

/// Makes a store in a folder, which is created if it is not there.
///
/// # Errors
/// There is a store, the folder above is not there, or the system refuses.
pub fn create_store(path: &Path) -> Result<Store, StoreError> {
    Store::create(Arc::new(SystemDirectory::create(path)?), number(), Threads::new())
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

/// Checks a store, beside a process that may be writing to it. `pause` is called now and then with the rows that were compared so far, and
/// how many they are in all.
///
/// # Errors
/// The first thing that is not as it should be.
pub fn check_store(path: &Path, pause: &mut dyn FnMut(u64, u64)) -> Result<Checked, StoreError> {
    vicus_store::check(&*folder(path)?, pause)
}

/// Copies a store as it is now to a folder of its own, which is created if it is not there.
///
/// # Errors
/// The folder has a store, the disk is full, the store is damaged, or the system refuses.
pub fn back_up_store(store: &Store, path: &Path, pause: &mut dyn FnMut(u64)) -> Result<(), StoreError> {
    store.backup(Arc::new(SystemDirectory::create(path)?), number(), pause)
}

/// Makes a store in a folder that has this data, such as a store has as it is now ([`read_store`]): beside a process that goes on to
/// change it. Returns the number of quads. `pause` is called now and then with the number of bytes written so far.
///
/// # Errors
/// The folder has a store, the disk is full, the data is damaged, or the system refuses.
pub fn copy_store(snapshot: &Snapshot, path: &Path, pause: &mut dyn FnMut(u64)) -> Result<usize, StoreError> {
    vicus_store::copy(snapshot, Arc::new(SystemDirectory::create(path)?), number(), pause)?;
    Ok(snapshot.len())
}

/// The name of a graph.
///
/// # Errors
/// The text is no absolute IRI.
pub fn graph_name(text: &str) -> Result<NamedNode, String> {
    NamedNode::new(text).map_err(|error| format!("`{text}` is no IRI: {error}"))
}
