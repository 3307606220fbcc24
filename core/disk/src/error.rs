//! Why a store's file can't be read or written.

use std::fmt;
use vicus_files::{FileError, LockError};

/// A place in a file that differs from the bytes written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file's path.
    pub file: String,
    /// The beginning of the damaged part, in bytes from the file's beginning.
    pub offset: u64,
    /// The fault there.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged at byte {}: {}", self.file, self.offset, self.what)
    }
}

impl std::error::Error for Damage {}

/// Why a store's file can't be read or written.
#[derive(Clone, Debug)]
pub enum DiskError {
    /// The system refused an operation.
    File(FileError),
    /// Another process writes to this store, or the lock can't be had.
    Lock(LockError),
    /// Part of a file is not as it was written. Boxed, since readers of columns pass it on from their hot loops.
    Damaged(Box<Damage>),
    /// A file is of another kind than its name says.
    Foreign {
        /// The file's path.
        file: String,
        /// The expected file or form.
        expected: &'static str,
    },
    /// A file was written by a newer version of Vicus.
    Newer {
        /// The file's path.
        file: String,
        /// The version of its format.
        version: u32,
        /// The newest readable version.
        newest: u32,
    },
    /// The directory holds no store.
    NoStore(
        /// The directory's path.
        String,
    ),
    /// The making of a store in the directory was interrupted before it was [revealed](crate::StoreFiles::reveal).
    Hidden(
        /// The directory's path.
        String,
    ),
    /// The directory holds a store already.
    IsStore(
        /// The directory's path.
        String,
    ),
}

impl DiskError {
    pub(crate) fn damaged(file: String, offset: u64, what: impl Into<String>) -> DiskError {
        DiskError::Damaged(Box::new(Damage { file, offset, what: what.into() }))
    }

    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        matches!(self, DiskError::File(error) if error.is_full())
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::File(error) => error.fmt(f),
            DiskError::Lock(error) => error.fmt(f),
            DiskError::Damaged(damage) => damage.fmt(f),
            DiskError::Foreign { file, expected } => write!(f, "{file} is not {expected}"),
            DiskError::Newer { file, version, newest } => {
                write!(f, "{file} has format {version}, from a newer Vicus; this one reads formats up to {newest}")
            }
            DiskError::NoStore(directory) => write!(f, "{directory} holds no store: there is no file CURRENT in it"),
            DiskError::Hidden(directory) => write!(
                f,
                "{directory} holds a store whose restoring was interrupted: restore it again, which begins anew, or \
                 remove the folder"
            ),
            DiskError::IsStore(directory) => write!(f, "{directory} holds a store already"),
        }
    }
}

impl std::error::Error for DiskError {}

impl From<FileError> for DiskError {
    fn from(error: FileError) -> DiskError {
        DiskError::File(error)
    }
}

impl From<LockError> for DiskError {
    fn from(error: LockError) -> DiskError {
        DiskError::Lock(error)
    }
}

impl From<Box<Damage>> for DiskError {
    fn from(damage: Box<Damage>) -> DiskError {
        DiskError::Damaged(damage)
    }
}
