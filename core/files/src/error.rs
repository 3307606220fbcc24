//! The error of a failed file operation: the file, the operation, and the system's reason.

use std::fmt;
use std::io;
use std::sync::Arc;

/// An operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileOperation {
    /// [`Directory::create`](crate::Directory::create)
    Create,
    /// [`Directory::open`](crate::Directory::open)
    Open,
    /// [`Directory::map`](crate::Directory::map)
    Map,
    /// [`Directory::rename`](crate::Directory::rename)
    Rename,
    /// [`Directory::remove`](crate::Directory::remove)
    Remove,
    /// [`Directory::list`](crate::Directory::list)
    List,
    /// [`Directory::sync`](crate::Directory::sync)
    SyncDirectory,
    /// [`Directory::lock`](crate::Directory::lock)
    Lock,
    /// [`Lock::check`](crate::Lock::check)
    KeepLock,
    /// [`File::len`](crate::File::len)
    Measure,
    /// [`File::read_at`](crate::File::read_at)
    Read,
    /// [`File::write_at`](crate::File::write_at)
    Write,
    /// [`File::set_len`](crate::File::set_len)
    SetLength,
    /// [`File::sync`](crate::File::sync)
    Sync,
}

impl fmt::Display for FileOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileOperation::Create => "create",
            FileOperation::Open => "open",
            FileOperation::Map => "map",
            FileOperation::Rename => "rename",
            FileOperation::Remove => "remove",
            FileOperation::List => "list",
            FileOperation::SyncDirectory => "sync the directory",
            FileOperation::Lock => "lock",
            FileOperation::KeepLock => "rely on",
            FileOperation::Measure => "measure",
            FileOperation::Read => "read",
            FileOperation::Write => "write",
            FileOperation::SetLength => "set the length of",
            FileOperation::Sync => "sync",
        })
    }
}

/// A failed operation on a file.
#[derive(Clone, Debug)]
pub struct FileError {
    /// The file's path, or the directory's.
    pub file: String,
    /// The operation.
    pub operation: FileOperation,
    /// Why it failed.
    pub cause: Arc<io::Error>,
}

impl FileError {
    /// A failed operation on a file.
    pub fn new(file: String, operation: FileOperation, cause: io::Error) -> FileError {
        FileError { file, operation, cause: Arc::new(cause) }
    }

    /// The file of a lock is not the locked one.
    pub fn lock_lost(file: String, cause: impl fmt::Display) -> FileError {
        let what = format!("{cause}: another process may write here now; start this one anew");
        FileError::new(file, FileOperation::KeepLock, io::Error::other(what))
    }

    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        self.cause.kind() == io::ErrorKind::NotFound
    }

    /// Whether the file ends before the bytes to be read.
    pub fn is_short(&self) -> bool {
        self.cause.kind() == io::ErrorKind::UnexpectedEof
    }

    /// Whether the disk, or the user's share of it, is full; or the file would be longer than the user's may be.
    pub fn is_full(&self) -> bool {
        let kind = self.cause.kind();
        matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "can't {} {}: {}", self.operation, self.file, self.cause)
    }
}

impl std::error::Error for FileError {}

/// Why a directory could not be locked.
#[derive(Clone, Debug)]
pub enum LockError {
    /// Another process has the lock, or another value in this process.
    Held {
        /// The lock file's path.
        file: String,
        /// The process with the lock; `None` if it has just taken it and not yet written its id.
        by: Option<u32>,
    },
    /// The lock file can't be created, locked or written.
    Failed(FileError),
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Held { file, by: Some(pid) } => write!(f, "{file} is locked by process {pid}"),
            LockError::Held { file, by: None } => write!(f, "{file} is locked by another process"),
            LockError::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LockError {}

impl From<FileError> for LockError {
    fn from(error: FileError) -> LockError {
        LockError::Failed(error)
    }
}
