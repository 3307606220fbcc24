//! A disk for tests. It keeps durable and cached data apart, and fails on demand: at the n-th operation, when it is
//! full, or when power goes.

mod chance;
mod content;
mod names;

use crate::error::{FileError, FileOperation, LockError};
use crate::scratch::create_and_remove;
use crate::{Directory, File, Lock, MappedBytes, Mapping, OpenMode, is_plain};
use chance::Chance;
use content::Content;
use names::Names;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The failure of a chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Fails with an I/O error. A write may have written a part; a sync has made a part durable, and the rest is
    /// dropped as Linux does it: still to be read, but no later sync writes it; a rename may have happened.
    Error,
    /// Fails like that, and so does every later operation.
    Errors,
    /// The disk is full, just for this operation: a write writes a part. Operations without a need for room do not
    /// fail.
    Full,
    /// Power is lost while it runs. All later operations fail until [`FakeDisk::crash`].
    PowerLoss,
}

/// A disk with one directory.
///
/// ```
/// use vicus_files::{Directory, FakeDisk};
///
/// let disk = FakeDisk::new(1);
/// let directory = disk.process(7);
/// let file = directory.create("a").unwrap();
/// file.write_at(0, b"synced").unwrap();
/// file.sync().unwrap();
/// directory.sync().unwrap();
/// file.write_at(0, b"cached").unwrap();
/// disk.crash(2);
/// let after = disk.contents("a").unwrap();
/// assert!(after == b"synced" || after == b"cached");
/// ```
#[derive(Clone)]
pub struct FakeDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Clone)]
struct State {
    contents: Vec<Content>,
    names: Names,
    /// The process with each lock, and the number of the lock.
    locks: BTreeMap<String, (u32, u64)>,
    locked: u64,
    /// The number of crashes and kills: the processes started since the last one are alive.
    epoch: u64,
    powered: bool,
    operations: u64,
    /// The number of the failing operation, and its failure.
    failure: Option<(u64, Failure)>,
    /// How many bytes files may still grow by.
    room: Option<u64>,
    lies: bool,
    chance: Chance,
}

impl FakeDisk {
    /// An empty disk. The seed decides the chances of a failing operation.
    pub fn new(seed: u64) -> FakeDisk {
        let state = State {
            contents: Vec::new(),
            names: Names::default(),
            locks: BTreeMap::new(),
            locked: 0,
            epoch: 0,
            powered: true,
            operations: 0,
            failure: None,
            room: None,
            lies: false,
            chance: Chance::new(seed),
        };
        FakeDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// The directory as a process of this id sees it, until it is killed or power is lost.
    pub fn process(&self, pid: u32) -> FakeDirectory {
        FakeDirectory { disk: self.clone(), pid, epoch: self.state().epoch }
    }

    /// Power is lost and comes back: processes end, and a part of the unsynced data is there, by the seed.
    pub fn crash(&self, seed: u64) {
        let state = &mut *self.state();
        state.end_processes();
        let chance = &mut Chance::new(seed);
        let likely = chance.likelihood();
        state.contents.iter_mut().for_each(|content| content.crash(chance, likely));
        state.names.crash(chance, likely);
        (state.powered, state.failure) = (true, None);
    }

    /// All processes are killed; the disk goes on, so nothing written is lost.
    pub fn kill(&self) {
        let state = &mut *self.state();
        state.end_processes();
        state.failure = None;
    }

    /// How many operations processes have begun.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// The next `operations` operations run as usual, and the one after them fails. Replaces an earlier wish.
    pub fn fail_after(&self, operations: u64, failure: Failure) {
        let state = &mut *self.state();
        state.failure = Some((state.operations + operations, failure));
    }

    /// From now on nothing fails that has not failed.
    pub fn heal(&self) {
        self.state().failure = None;
    }

    /// Files may grow by this number of bytes before the disk is full; by any number for `None`. The room of cut or
    /// removed files can be used again.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.state().room = bytes;
    }

    /// Whether syncs return at once and do nothing, like drives that report cached data as durable.
    pub fn lie_about_syncs(&self, lies: bool) {
        self.state().lies = lies;
    }

    /// A second disk in the same state, without processes.
    pub fn copy(&self) -> FakeDisk {
        let mut state = self.state().clone();
        state.end_processes();
        state.contents.iter_mut().for_each(|content| content.open = 0);
        FakeDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// The names a process would see.
    pub fn names(&self) -> Vec<String> {
        self.state().names.cached.keys().cloned().collect()
    }

    /// The bytes a process would read.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.cached.get(name).map(|&content| state.contents[content].cached.clone())
    }

    /// Changes a file from outside, durably; creates it if there is none. This is how a test damages a file.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let state = &mut *self.state();
        let content = state.contents.len();
        state.contents.push(Content::durable(bytes));
        state.names.put(name, Some(content));
    }

    /// Removes a file from outside, durably.
    pub fn take_away(&self, name: &str) {
        self.state().names.put(name, None);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A test that fails inside leaves a state for others to print.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for FakeDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let files = state.names.cached.iter().map(|(name, &content)| (name, state.contents[content].cached.len()));
        f.debug_map().entries(files).finish()
    }
}

impl State {
    fn end_processes(&mut self) {
        self.epoch += 1;
        self.locks.clear();
    }

    /// Counts an operation of a process, and says whether it fails.
    fn begin(&mut self, epoch: u64) -> io::Result<Option<Failure>> {
        if epoch != self.epoch {
            return Err(io::Error::other("the process has ended"));
        }
        if !self.powered {
            return Err(io::Error::other("power is lost"));
        }
        let number = self.operations;
        self.operations += 1;
        match self.failure {
            Some((at, Failure::Errors)) if number >= at => Ok(Some(Failure::Errors)),
            Some((at, failure)) if number == at => {
                self.powered = failure != Failure::PowerLoss;
                Ok(Some(failure))
            }
            _ => Ok(None),
        }
    }

    /// An operation that changes nothing, or needs no room and happens wholly or not at all.
    fn begin_whole(&mut self, epoch: u64) -> io::Result<()> {
        match self.begin(epoch)? {
            None | Some(Failure::Full) => Ok(()),
            Some(failure) => Err(failure.error()),
        }
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.names.cached.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn give_room_back(&mut self, bytes: usize) {
        self.room = self.room.map(|room| room + bytes as u64);
    }

    /// Takes the name from its file. The file's bytes can be used again when it is not open any more.
    fn forget(&mut self, name: &str) {
        if let Some(&content) = self.names.cached.get(name)
            && self.contents[content].open == 0
        {
            self.give_room_back(self.contents[content].cached.len());
        }
    }

    /// An open file is dropped.
    fn close(&mut self, content: usize) {
        self.contents[content].open -= 1;
        if self.contents[content].open == 0 && !self.names.cached.values().any(|&named| named == content) {
            self.give_room_back(self.contents[content].cached.len());
        }
    }

    fn create(&mut self, epoch: u64, name: &str) -> io::Result<usize> {
        let failure = self.begin(epoch)?;
        if self.names.cached.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let happens = match failure {
            None => true,
            Some(Failure::Full) => false,
            Some(_) => self.chance.one_in(2),
        };
        if happens {
            self.contents.push(Content::default());
            self.names.link(name, self.contents.len() - 1);
        }
        match failure {
            None => Ok(self.contents.len() - 1),
            Some(failure) => Err(failure.error()),
        }
    }

    fn rename(&mut self, epoch: u64, from: &str, to: &str) -> io::Result<()> {
        let failure = self.begin(epoch)?;
        self.find(from)?;
        let happens = match failure {
            None => true,
            Some(Failure::Full) => false,
            Some(_) => self.chance.one_in(2),
        };
        if happens {
            self.forget(to);
            self.locks.remove(to);
            self.names.rename(from, to);
        }
        failure.map_or(Ok(()), |failure| Err(failure.error()))
    }

    fn remove(&mut self, epoch: u64, name: &str) -> io::Result<()> {
        self.begin_whole(epoch)?;
        self.find(name)?;
        self.forget(name);
        self.locks.remove(name);
        self.names.unlink(name);
        Ok(())
    }

    fn sync_names(&mut self, epoch: u64) -> io::Result<()> {
        match self.begin(epoch)? {
            Some(failure) => {
                if failure != Failure::PowerLoss {
                    let likely = self.chance.likelihood();
                    self.names.fail_to_sync(&mut self.chance, likely);
                }
                Err(failure.error())
            }
            None if self.lies => Ok(()),
            None => {
                self.names.sync();
                Ok(())
            }
        }
    }

    fn write(&mut self, epoch: u64, content: usize, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let failure = self.begin(epoch)?;
        let old_end = self.contents[content].cached.len();
        let fits = self.room.map_or(usize::MAX, |room| old_end + usize::try_from(room).expect("a small disk"));
        let end = offset + bytes.len();
        let written = match failure {
            None if end <= fits => bytes.len(),
            None => fits.saturating_sub(offset),
            Some(_) => self.chance.below(bytes.len() as u64 + 1) as usize,
        };
        if written > 0 {
            self.contents[content].write(offset, &bytes[..written]);
            let growth = self.contents[content].cached.len() - old_end;
            self.room = self.room.map(|room| room.saturating_sub(growth as u64));
        }
        match failure {
            None if written == bytes.len() => Ok(()),
            None => Err(Failure::Full.error()),
            Some(failure) => Err(failure.error()),
        }
    }

    fn set_len(&mut self, epoch: u64, content: usize, bytes: usize) -> io::Result<()> {
        self.begin_whole(epoch)?;
        let before = self.contents[content].cached.len();
        self.contents[content].set_len(bytes);
        self.give_room_back(before.saturating_sub(bytes));
        Ok(())
    }

    fn sync(&mut self, epoch: u64, content: usize) -> io::Result<()> {
        match self.begin(epoch)? {
            Some(failure) => {
                if failure != Failure::PowerLoss {
                    let likely = self.chance.likelihood();
                    // A random part becomes durable; the rest is not written any more.
                    self.contents[content].crash_behind_the_cache(&mut self.chance, likely);
                }
                Err(failure.error())
            }
            None if self.lies => Ok(()),
            None => {
                self.contents[content].sync();
                Ok(())
            }
        }
    }
}

impl Failure {
    fn error(self) -> io::Error {
        match self {
            Failure::Full => io::Error::new(io::ErrorKind::StorageFull, "no space left on the disk (injected)"),
            Failure::PowerLoss => io::Error::other("power is lost (injected)"),
            Failure::Error | Failure::Errors => io::Error::other("input/output error (injected)"),
        }
    }
}

/// A [`FakeDisk`]'s directory, as one process sees it.
#[derive(Clone, Debug)]
pub struct FakeDirectory {
    disk: FakeDisk,
    pid: u32,
    epoch: u64,
}

impl FakeDirectory {
    /// Does something with the state for a file of a plain name.
    fn with<R>(
        &self,
        operation: FileOperation,
        name: &str,
        f: impl FnOnce(&mut State) -> io::Result<R>,
    ) -> Result<R, FileError> {
        assert!(name.is_empty() || is_plain(name), "{name:?} is no plain name");
        f(&mut self.disk.state()).map_err(|cause| FileError::new(self.path(name), operation, cause))
    }

    fn file(&self, name: &str, content: usize, access: OpenMode) -> Arc<dyn File> {
        self.disk.state().contents[content].open += 1;
        Arc::new(FakeFile { directory: self.clone(), name: name.to_owned(), content, access })
    }
}

impl Directory for FakeDirectory {
    fn path(&self, name: &str) -> String {
        format!("fake/{name}")
    }

    fn create(&self, name: &str) -> Result<Arc<dyn File>, FileError> {
        let content = self.with(FileOperation::Create, name, |state| state.create(self.epoch, name))?;
        Ok(self.file(name, content, OpenMode::Write))
    }

    fn open(&self, name: &str, access: OpenMode) -> Result<Arc<dyn File>, FileError> {
        let content = self.with(FileOperation::Open, name, |state| {
            state.begin_whole(self.epoch)?;
            state.find(name)
        })?;
        Ok(self.file(name, content, access))
    }

    fn temporary(&self) -> Result<Arc<dyn File>, FileError> {
        create_and_remove(self)
    }

    fn map(&self, name: &str) -> Result<Mapping, FileError> {
        self.with(FileOperation::Map, name, |state| {
            state.begin_whole(self.epoch)?;
            let content = state.find(name)?;
            let mapping: Mapping = Arc::new(Aligned::new(&state.contents[content].cached));
            Ok(mapping)
        })
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        assert!(is_plain(to), "{to:?} is no plain name");
        self.with(FileOperation::Rename, from, |state| state.rename(self.epoch, from, to))
    }

    fn remove(&self, name: &str) -> Result<(), FileError> {
        self.with(FileOperation::Remove, name, |state| state.remove(self.epoch, name))
    }

    fn list(&self) -> Result<Vec<String>, FileError> {
        self.with(FileOperation::List, "", |state| {
            state.begin_whole(self.epoch)?;
            Ok(state.names.cached.keys().cloned().collect())
        })
    }

    fn sync(&self) -> Result<(), FileError> {
        self.with(FileOperation::SyncDirectory, "", |state| state.sync_names(self.epoch))
    }

    fn lock(&self, name: &str) -> Result<Box<dyn Lock>, LockError> {
        let taken = self.with(FileOperation::Lock, name, |state| {
            state.begin_whole(self.epoch)?;
            if let Some(&(by, _)) = state.locks.get(name) {
                return Ok(Err(by));
            }
            if !state.names.cached.contains_key(name) {
                state.contents.push(Content::default());
                state.names.link(name, state.contents.len() - 1);
            }
            state.locked += 1;
            state.locks.insert(name.to_owned(), (self.pid, state.locked));
            Ok(Ok(state.locked))
        })?;
        match taken {
            Ok(number) => Ok(Box::new(FakeLock { disk: self.disk.clone(), name: name.to_owned(), number })),
            Err(by) => Err(LockError::Held { file: self.path(name), by: Some(by) }),
        }
    }
}

#[derive(Debug)]
struct FakeLock {
    disk: FakeDisk,
    name: String,
    number: u64,
}

impl Lock for FakeLock {
    fn check(&self) -> Result<(), FileError> {
        let state = self.disk.state();
        match state.locks.get(&self.name) {
            Some(&(_, number)) if number == self.number => Ok(()),
            _ => Err(FileError::lock_lost(format!("fake/{}", self.name), "it was removed or replaced")),
        }
    }
}

impl Drop for FakeLock {
    fn drop(&mut self) {
        let locks = &mut self.disk.state().locks;
        if locks.get(&self.name).is_some_and(|&(_, number)| number == self.number) {
            locks.remove(&self.name);
        }
    }
}

#[derive(Debug)]
struct FakeFile {
    directory: FakeDirectory,
    name: String,
    content: usize,
    access: OpenMode,
}

impl FakeFile {
    fn with<R>(
        &self,
        operation: FileOperation,
        f: impl FnOnce(&mut State, u64) -> io::Result<R>,
    ) -> Result<R, FileError> {
        self.directory.with(operation, &self.name, |state| f(state, self.directory.epoch))
    }

    fn writable(&self) -> io::Result<()> {
        match self.access {
            OpenMode::Write => Ok(()),
            OpenMode::Read => Err(io::Error::other("it is opened for reading")),
        }
    }
}

impl Drop for FakeFile {
    fn drop(&mut self) {
        self.directory.disk.state().close(self.content);
    }
}

impl File for FakeFile {
    fn len(&self) -> Result<u64, FileError> {
        self.with(FileOperation::Measure, |state, epoch| {
            state.begin_whole(epoch)?;
            Ok(state.contents[self.content].cached.len() as u64)
        })
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError> {
        self.with(FileOperation::Read, |state, epoch| {
            state.begin_whole(epoch)?;
            let cached = &state.contents[self.content].cached;
            let from = usize::try_from(offset).ok().and_then(|offset| cached.get(offset..));
            let from = from.and_then(|from| from.get(..into.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
            into.copy_from_slice(from);
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        self.with(FileOperation::Write, |state, epoch| {
            self.writable()?;
            state.write(epoch, self.content, usize::try_from(offset).expect("a small disk"), bytes)
        })
    }

    fn map(&self) -> Result<Mapping, FileError> {
        self.with(FileOperation::Map, |state, epoch| {
            state.begin_whole(epoch)?;
            let mapping: Mapping = Arc::new(Aligned::new(&state.contents[self.content].cached));
            Ok(mapping)
        })
    }

    fn set_len(&self, bytes: u64) -> Result<(), FileError> {
        self.with(FileOperation::SetLength, |state, epoch| {
            self.writable()?;
            state.set_len(epoch, self.content, usize::try_from(bytes).expect("a small disk"))
        })
    }

    fn sync(&self) -> Result<(), FileError> {
        self.with(FileOperation::Sync, |state, epoch| state.sync(epoch, self.content))
    }
}

/// A copy of bytes that begins at a multiple of 8.
struct Aligned {
    /// With padding before the first byte, to an address that is a multiple of 8.
    bytes: Vec<u8>,
    lead: usize,
}

impl Aligned {
    fn new(bytes: &[u8]) -> Aligned {
        let mut room: Vec<u8> = Vec::with_capacity(bytes.len() + 8);
        let lead = room.as_ptr().addr().wrapping_neg() % 8;
        room.resize(lead, 0);
        room.extend_from_slice(bytes);
        Aligned { bytes: room, lead }
    }
}

impl MappedBytes for Aligned {}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.lead..]
    }
}

#[cfg(test)]
mod tests;
