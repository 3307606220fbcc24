//! The system's files: a directory of core/files over a directory of the operating system.
//!
//! **Syncs.** A file's sync is `fdatasync`: its bytes and its length. A directory's is `fsync` of the directory, which
//! makes names last. The drive's own cache is between the kernel and the drive; a lying drive loses data here as well.
//!
//! **The lock** is `flock` on a file of its own: the kernel drops it when the process ends in any way. (`fcntl`'s own
//! locks are dropped when *any* descriptor of the file is closed.) The process's id in the file is for messages; the
//! lock alone decides. A file removed by hand stays locked and holds no other process off: so a writer compares the
//! file's number with that of its name.
//!
//! **Mappings.** Memory mapped from a file changes when the file is written, and a read behind its new end after it was
//! shortened raises a signal (`SIGBUS`). So a mapped file must never be written or shortened. Vicus maps only base
//! files and its own temporary files, which have no name. Base files are written once under another name, synced and
//! renamed, never opened for writing afterwards, and removed only by `unlink`; after that, the bytes live until the
//! last mapping is gone. The directory's lock keeps other Vicus processes from writing; the file's rights must keep
//! others from it. If a named file is shortened all the same, or its drive can't read a page of it any more, the
//! missing bytes are read as zeros, and the mapping says so ([`lost_from`](vicus_files::MappedBytes::lost_from)): see
//! `mapped.rs`. It also says whether the file was written to ([`was_written`](vicus_files::MappedBytes::was_written)).
//! In a temporary file, the signal ends the process: nothing can be computed without this page, and no file is left
//! half written.
//!
//! **Limits of files.** A write beyond the process's limit of file length (`RLIMIT_FSIZE`) ends the process by a
//! signal, unless it ignores the signal: then the write is an error, as on a full disk. So the first opened directory
//! has the signal ignored, if the process has set no action of its own.

use crate::mapped::{Temporary, Watched};
use memmap2::Mmap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use vicus_files::scratch::{create_and_remove, temporary_path};
use vicus_files::{Directory, File, FileError, FileOperation, Lock, LockError, Mapping, OpenMode, is_plain};

/// A directory of the operating system's.
///
/// ```
/// use vicus_files::Directory;
/// use vicus_os::SystemDirectory;
///
/// let path = std::env::temp_dir().join(format!("vicus-example-{}", std::process::id()));
/// let directory = SystemDirectory::create(&path)?;
/// let file = directory.create("greeting")?;
/// file.write_at(0, b"salve")?;
/// file.sync()?;
/// directory.sync()?;
/// assert_eq!(directory.list()?, ["greeting"]);
/// # std::fs::remove_dir_all(path).unwrap();
/// # Ok::<(), vicus_files::FileError>(())
/// ```
#[derive(Debug)]
pub struct SystemDirectory {
    path: PathBuf,
    /// Opened once: the sync goes to the opened directory, even if a directory above it is renamed.
    opened: fs::File,
}

/// Ignores `SIGXFSZ` if it would end the process.
fn ignore_size_signal() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        #[expect(unsafe_code, reason = "the standard library has no signals")]
        // SAFETY: both calls set the kernel's action for a signal, by constants that name no function of ours; the
        // earlier action is put back unless it was the default.
        unsafe {
            let before = libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            if before != libc::SIG_DFL && before != libc::SIG_ERR {
                libc::signal(libc::SIGXFSZ, before);
            }
        }
    });
}

impl SystemDirectory {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// There is none, it is no directory, or the system refuses.
    pub fn open(path: &Path) -> Result<SystemDirectory, FileError> {
        ignore_size_signal();
        let opened = OpenOptions::new().read(true).open(path).and_then(|opened| match opened.metadata()?.is_dir() {
            true => Ok(opened),
            false => Err(io::ErrorKind::NotADirectory.into()),
        });
        let opened = opened.map_err(|cause| FileError::new(text_of(path), FileOperation::Open, cause))?;
        Ok(SystemDirectory { path: path.to_owned(), opened })
    }

    /// Opens a directory, and creates a missing one durably.
    ///
    /// # Errors
    /// The directory above it is not there, it is no directory, or the system refuses.
    pub fn create(path: &Path) -> Result<SystemDirectory, FileError> {
        match fs::create_dir(path) {
            Ok(()) => {
                let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
                SystemDirectory::open(above)?.sync()?;
            }
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            Err(cause) => return Err(FileError::new(text_of(path), FileOperation::Create, cause)),
        }
        SystemDirectory::open(path)
    }

    /// The path of a file in it.
    fn inside(&self, name: &str) -> PathBuf {
        assert!(is_plain(name), "{name:?} is no plain name");
        self.path.join(name)
    }

    fn failed(&self, name: &str, operation: FileOperation) -> impl FnOnce(io::Error) -> FileError {
        let file = self.path(name);
        move |cause| FileError::new(file, operation, cause)
    }

    fn file(&self, name: &str, file: fs::File) -> Arc<dyn File> {
        Arc::new(SystemFile { path: self.path(name), file })
    }
}

fn map(file: &fs::File) -> io::Result<Mmap> {
    #[expect(unsafe_code, reason = "maps a file")]
    // SAFETY: a mapping's bytes must not change. A mapped file is written once, before it has its name or without ever
    // having one, and never again by a process that respects the directory's lock, as the head of this file says.
    unsafe {
        Mmap::map(file)
    }
}

/// Whether two records are of one file.
pub fn is_same_file(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Opens a file for reading without a wait: a pipe is opened even if it has no writer.
///
/// # Errors
/// There is no such file.
pub fn open_at_once(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

fn text_of(path: &Path) -> String {
    path.display().to_string()
}

impl Directory for SystemDirectory {
    fn path(&self, name: &str) -> String {
        match name {
            "" => text_of(&self.path),
            name => text_of(&self.path.join(name)),
        }
    }

    fn create(&self, name: &str) -> Result<Arc<dyn File>, FileError> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(self.inside(name));
        Ok(self.file(name, file.map_err(self.failed(name, FileOperation::Create))?))
    }

    fn temporary(&self) -> Result<Arc<dyn File>, FileError> {
        let mut options = OpenOptions::new();
        let opened =
            options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE | libc::O_EXCL).open(&self.path);
        match opened {
            Ok(file) => Ok(Arc::new(SystemFile { path: temporary_path(self), file })),
            // A file system without nameless files.
            Err(cause) if matches!(cause.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT)) => {
                create_and_remove(self)
            }
            Err(cause) => Err(FileError::new(temporary_path(self), FileOperation::Create, cause)),
        }
    }

    fn open(&self, name: &str, access: OpenMode) -> Result<Arc<dyn File>, FileError> {
        let file = OpenOptions::new().read(true).write(access == OpenMode::Write).open(self.inside(name));
        Ok(self.file(name, file.map_err(self.failed(name, FileOperation::Open))?))
    }

    fn map(&self, name: &str) -> Result<Mapping, FileError> {
        let file = OpenOptions::new().read(true).open(self.inside(name));
        let mapped = file.and_then(|file| Watched::new(file, map));
        Ok(Arc::new(mapped.map_err(self.failed(name, FileOperation::Map))?))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        fs::rename(self.inside(from), self.inside(to)).map_err(self.failed(from, FileOperation::Rename))
    }

    fn remove(&self, name: &str) -> Result<(), FileError> {
        fs::remove_file(self.inside(name)).map_err(self.failed(name, FileOperation::Remove))
    }

    fn list(&self) -> Result<Vec<String>, FileError> {
        let names = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.path)? {
                let entry = entry?;
                let name = entry.file_name().into_string().ok().filter(|name| is_plain(name));
                names.extend(name.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_file())));
            }
            names.sort();
            Ok(names)
        };
        names().map_err(self.failed("", FileOperation::List))
    }

    fn sync(&self) -> Result<(), FileError> {
        self.opened.sync_all().map_err(self.failed("", FileOperation::SyncDirectory))
    }

    fn lock(&self, name: &str) -> Result<Box<dyn Lock>, LockError> {
        let mut options = OpenOptions::new();
        // The target of a link is not ours to write to, and may be locked by another name.
        options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
        let opened = options.open(self.inside(name)).map_err(|cause| match cause.raw_os_error() {
            Some(libc::ELOOP) => io::Error::other("it is a symbolic link, and a lock is a file of its own"),
            _ => cause,
        });
        let mut file = opened.map_err(self.failed(name, FileOperation::Lock))?;
        #[expect(unsafe_code, reason = "asks the kernel for a lock")]
        // SAFETY: the descriptor is open, since the file is alive.
        let outcome = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        if outcome != 0 {
            let cause = io::Error::last_os_error();
            if cause.kind() != io::ErrorKind::WouldBlock {
                return Err(self.failed(name, FileOperation::Lock)(cause).into());
            }
            let mut text = String::new();
            let by = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(LockError::Held { file: self.path(name), by });
        }
        // Another process may read the file meanwhile: it sees the old id, none, or this one.
        let written =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        // A full disk must not keep a store from being opened; then the refused process can't tell this process's id.
        match written {
            Err(cause) if cause.kind() != io::ErrorKind::StorageFull => {
                Err(self.failed(name, FileOperation::Lock)(cause).into())
            }
            _ => {
                let about = file.metadata().map_err(self.failed(name, FileOperation::Lock))?;
                let locked = (about.dev(), about.ino());
                Ok(Box::new(SystemLock { path: self.inside(name), locked, _file: file }))
            }
        }
    }
}

/// The kernel drops the lock when the last descriptor of the open file is closed.
#[derive(Debug)]
struct SystemLock {
    path: PathBuf,
    /// The file's device and number there.
    locked: (u64, u64),
    _file: fs::File,
}

impl Lock for SystemLock {
    fn check(&self) -> Result<(), FileError> {
        let lost = |cause: &dyn std::fmt::Display| Err(FileError::lock_lost(text_of(&self.path), cause));
        match fs::symlink_metadata(&self.path) {
            Ok(about) if (about.dev(), about.ino()) == self.locked => Ok(()),
            Ok(_) => lost(&"it was replaced"),
            Err(cause) if matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                lost(&"it was removed")
            }
            Err(cause) => lost(&cause),
        }
    }
}

#[derive(Debug)]
struct SystemFile {
    path: String,
    file: fs::File,
}

impl SystemFile {
    fn failed(&self, operation: FileOperation) -> impl FnOnce(io::Error) -> FileError {
        move |cause| FileError::new(self.path.clone(), operation, cause)
    }
}

impl File for SystemFile {
    fn len(&self) -> Result<u64, FileError> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(self.failed(FileOperation::Measure))
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError> {
        self.file.read_exact_at(into, offset).map_err(self.failed(FileOperation::Read))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        self.file.write_all_at(bytes, offset).map_err(self.failed(FileOperation::Write))
    }

    fn map(&self) -> Result<Mapping, FileError> {
        Ok(Arc::new(Temporary(map(&self.file).map_err(self.failed(FileOperation::Map))?)))
    }

    fn set_len(&self, bytes: u64) -> Result<(), FileError> {
        self.file.set_len(bytes).map_err(self.failed(FileOperation::SetLength))
    }

    fn sync(&self) -> Result<(), FileError> {
        self.file.sync_data().map_err(self.failed(FileOperation::Sync))
    }
}
