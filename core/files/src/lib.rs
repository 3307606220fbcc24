//! Files of a world: one flat directory, with the operations a store needs to survive a crash, and no more.
//!
//! No operating system is called here. [`Directory`] and [`File`] are traits: worlds/os implements them over the
//! system, and [`FakeDisk`] is a disk for tests with a record of synced data. It can lose power, fail at any operation,
//! be full, and lie. [`conformance`] has the duties of both, as a function called by the tests of both. [`Scratch`] is
//! temporary storage over a directory.
//!
//! A caller's guarantees after a loss of power, and their limits:
//!
//! | before | after |
//! |---|---|
//! | bytes written, [`File::sync`] returned | they are there |
//! | bytes written, not synced | each sector of 512 bytes is as it was after one of the writes to it, or as it was before them |
//! | the file has grown, not synced | it has one of the lengths that it had; what was not written reads as zeros |
//! | a file created, renamed or removed, [`Directory::sync`] returned | it is so |
//! | a file created, renamed or removed, not synced | each of these happened or did not, in any combination; a rename is never half done |
//! | a sync failed | as if it had not been called; and **a later sync that succeeds says nothing about these bytes**: the system may have dropped them |

pub mod conformance;
mod error;
mod fake;
pub mod scratch;

pub use error::{FileError, FileOperation, LockError};
pub use fake::{Failure, FakeDirectory, FakeDisk};
pub use scratch::Scratch;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The permitted use of an opened file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// Reading alone, as for a reader without the right to write.
    Read,
    /// Reading and writing.
    Write,
}

/// The bytes of a mapped file, read only; they begin at an address that is a multiple of 8. They stay readable when the
/// file is renamed or removed.
///
/// A mapping of a real file is of use only while its file is never written or shortened. The implementation in
/// worlds/os describes the other case.
pub trait MappedBytes: Deref<Target = [u8]> + Send + Sync {
    /// The first byte from which on bytes may have been read as zeros, though the file had others when it was mapped:
    /// it was shortened, or its drive could not read them. `None` if there is none. Asked after bytes were read, it
    /// answers for all of these reads. Lost bytes stay lost. Takes a call of the system.
    fn lost_from(&self) -> Option<u64> {
        None
    }

    /// Whether the file had been written to since it was mapped, at the last call of [`MappedBytes::lost_from`]: then
    /// the bytes read may differ from the checked ones. Once true, it stays true.
    fn was_written(&self) -> bool {
        false
    }
}

/// A mapped file. Its bytes live as long as one of its owners.
pub type Mapping = Arc<dyn MappedBytes>;

/// A lock on a directory; it ends when this value is dropped, when the process ends, and when the machine does.
///
/// A user who removes or replaces the file, or its directory, lets another process have a lock beside this one. So an
/// action reserved to one process calls [`Lock::check`] before it begins, and again before its success counts.
pub trait Lock: fmt::Debug + Send + Sync {
    /// Whether the directory still has the locked file, by its name. Takes a microsecond or two.
    ///
    /// # Errors
    /// The file was removed or replaced, or the directory was: the lock holds no other process off any more.
    fn check(&self) -> Result<(), FileError>;
}

/// A directory of files without directories in it. All names are plain: letters, digits, `.`, `-` and `_`
/// ([`is_plain`]).
///
/// Its methods are called from any thread. None of them is called on a hot path.
pub trait Directory: fmt::Debug + Send + Sync {
    /// The name of a file in a message: its path.
    fn path(&self, name: &str) -> String;

    /// Creates an empty file, for reading and writing. Its entry in the directory lasts only after [`Directory::sync`].
    ///
    /// # Errors
    /// There is a file of this name, or the system refuses.
    fn create(&self, name: &str) -> Result<Arc<dyn File>, FileError>;

    /// Creates an empty file without a name, for reading and writing by this process alone. It is gone, and its room is
    /// free, when its last owner is dropped, and when the process ends in any way. In messages it is "a temporary file
    /// in" this directory.
    ///
    /// # Errors
    /// The system refuses.
    fn temporary(&self) -> Result<Arc<dyn File>, FileError>;

    /// Opens an existing file.
    ///
    /// # Errors
    /// There is none ([`FileError::is_missing`]), or the system refuses.
    fn open(&self, name: &str, access: OpenMode) -> Result<Arc<dyn File>, FileError>;

    /// Maps a whole file into memory.
    ///
    /// # Errors
    /// Those of [`Directory::open`].
    fn map(&self, name: &str) -> Result<Mapping, FileError>;

    /// Gives a file another name, in one step: another file of this name is gone.
    ///
    /// # Errors
    /// The system refuses. The file has either name then.
    fn rename(&self, from: &str, to: &str) -> Result<(), FileError>;

    /// Removes a file. Readers that have opened or mapped it can go on.
    ///
    /// # Errors
    /// There is none, or the system refuses.
    fn remove(&self, name: &str) -> Result<(), FileError>;

    /// The names of all files, sorted. Only plain names are listed.
    ///
    /// # Errors
    /// The system refuses.
    fn list(&self) -> Result<Vec<String>, FileError>;

    /// Returns when all creations, renames and removals of files are durable.
    ///
    /// # Errors
    /// The system could not write; see the crate's documentation for the meaning.
    fn sync(&self) -> Result<(), FileError>;

    /// Locks a file of this name for this process alone, and writes the process's id into it. The file is created if
    /// there is none, and stays.
    ///
    /// # Errors
    /// [`LockError::Held`] if another process or another value of this one has the lock; [`LockError::Failed`] if the
    /// system refuses.
    fn lock(&self, name: &str) -> Result<Box<dyn Lock>, LockError>;
}

/// An open file.
pub trait File: fmt::Debug + Send + Sync {
    /// Its length in bytes.
    ///
    /// # Errors
    /// The system refuses.
    fn len(&self) -> Result<u64, FileError>;

    /// Whether it has no bytes.
    ///
    /// # Errors
    /// Those of [`File::len`].
    fn is_empty(&self) -> Result<bool, FileError> {
        Ok(self.len()? == 0)
    }

    /// Fills all of `into` with the bytes at `offset`.
    ///
    /// # Errors
    /// The file ends before these bytes do ([`FileError::is_short`]), or the system refuses.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError>;

    /// Writes all of `bytes` at `offset`; a shorter file becomes longer.
    ///
    /// # Errors
    /// The disk is full ([`FileError::is_full`]), or the system refuses. Any part of the bytes may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), FileError>;

    /// Maps it into memory as a whole.
    ///
    /// # Errors
    /// The system refuses.
    fn map(&self) -> Result<Mapping, FileError>;

    /// Makes the file `bytes` bytes long.
    ///
    /// # Errors
    /// The system refuses.
    fn set_len(&self, bytes: u64) -> Result<(), FileError>;

    /// Returns when all bytes written to it, by any process, are durable. This doesn't include its name: see
    /// [`Directory::sync`].
    ///
    /// # Errors
    /// The system could not write; see the crate's documentation for the meaning.
    fn sync(&self) -> Result<(), FileError>;
}

/// Whether a [`Directory`] accepts this name.
pub fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !name.is_empty() && name.len() <= 200 && !name.starts_with('.') && name.bytes().all(plain)
}
