//! The system's files: a directory of core/files over a directory of the operating system, by the standard library.
//!
//! **Syncs.** A file's sync is that of the standard library. A directory's makes names last on Unix, and does nothing
//! on Windows, whose file systems log names themselves.
//!
//! **The lock** is `flock` on Unix. On Windows it is the file itself, opened so that no other process can open it for
//! writing. The process's id in it is for messages.
//!
//! **Mappings** are those of `mapped.rs`.

#[cfg(windows)]
use super::loaded::LoadedFile;
#[cfg(unix)]
use super::mapped::{Temporary, Watched, map};
use super::system;
use std::fs::{self, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vicus_files::scratch::create_and_remove;
use vicus_files::{Directory, File, FileError, FileOperation, Lock, LockError, Mapping, OpenMode, is_plain};

/// A directory of the operating system's.
#[derive(Debug)]
pub struct SystemDirectory {
    path: PathBuf,
}

impl SystemDirectory {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// There is none, it is no directory, or the system refuses.
    pub fn open(path: &Path) -> Result<SystemDirectory, FileError> {
        let failed = |cause| FileError::new(text_of(path), FileOperation::Open, cause);
        match fs::metadata(path).map_err(failed)?.is_dir() {
            true => Ok(SystemDirectory { path: path.to_owned() }),
            false => Err(failed(io::ErrorKind::NotADirectory.into())),
        }
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

/// The bytes of a file with a name.
#[cfg(unix)]
fn held(file: fs::File) -> io::Result<Mapping> {
    Ok(Arc::new(Watched::new(file)?))
}

/// The bytes of a file without a name.
#[cfg(unix)]
fn held_unnamed(file: &fs::File) -> io::Result<Mapping> {
    Ok(Arc::new(Temporary(map(file)?)))
}

#[cfg(windows)]
fn held(file: fs::File) -> io::Result<Mapping> {
    held_unnamed(&file)
}

#[cfg(windows)]
fn held_unnamed(file: &fs::File) -> io::Result<Mapping> {
    Ok(Arc::new(LoadedFile::new(file)?))
}

/// Whether two records are of one file, as far as this system tells.
pub fn is_same_file(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    system::is_same(one, other)
}

/// Opens a file for reading without a wait: a pipe without a writer is refused.
///
/// # Errors
/// There is no such file, or it is none with bytes of its own.
pub fn open_at_once(path: &Path) -> io::Result<fs::File> {
    match fs::metadata(path)?.is_file() {
        true => fs::File::open(path),
        false => Err(io::Error::other("it is no regular file")),
    }
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
        create_and_remove(self)
    }

    fn open(&self, name: &str, access: OpenMode) -> Result<Arc<dyn File>, FileError> {
        let file = OpenOptions::new().read(true).write(access == OpenMode::Write).open(self.inside(name));
        Ok(self.file(name, file.map_err(self.failed(name, FileOperation::Open))?))
    }

    fn map(&self, name: &str) -> Result<Mapping, FileError> {
        let file = OpenOptions::new().read(true).open(self.inside(name));
        file.and_then(held).map_err(self.failed(name, FileOperation::Map))
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
        system::sync_directory(&self.path).map_err(self.failed("", FileOperation::SyncDirectory))
    }

    fn lock(&self, name: &str) -> Result<Box<dyn Lock>, LockError> {
        let path = self.inside(name);
        // The target of a link is not ours to write to, and may be locked by another name.
        if fs::symlink_metadata(&path).is_ok_and(|about| about.is_symlink()) {
            let cause = io::Error::other("it is a symbolic link, and a lock is a file of its own");
            return Err(self.failed(name, FileOperation::Lock)(cause).into());
        }
        let Some(mut file) = system::lock(&path).map_err(self.failed(name, FileOperation::Lock))? else {
            let text = fs::read_to_string(&path).ok();
            let by = text.and_then(|text| text.trim().parse().ok());
            return Err(LockError::Held { file: self.path(name), by });
        };
        // Another process may read the file meanwhile: it sees the old id, none, or this one.
        let written =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        // A full disk must not keep a store from being opened; then the refused process can't tell this process's id.
        match written {
            Err(cause) if cause.kind() != io::ErrorKind::StorageFull => {
                Err(self.failed(name, FileOperation::Lock)(cause).into())
            }
            _ => {
                let locked = file.metadata().map_err(self.failed(name, FileOperation::Lock))?;
                Ok(Box::new(SystemLock { path, locked, _file: file }))
            }
        }
    }
}

/// The lock ends with the file, and so with the process.
#[derive(Debug)]
struct SystemLock {
    path: PathBuf,
    /// The locked file.
    locked: fs::Metadata,
    _file: fs::File,
}

impl Lock for SystemLock {
    fn check(&self) -> Result<(), FileError> {
        let lost = |cause: &dyn std::fmt::Display| Err(FileError::lock_lost(text_of(&self.path), cause));
        match fs::symlink_metadata(&self.path) {
            Ok(about) if system::is_same(&about, &self.locked) => Ok(()),
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
        system::read_exact_at(&self.file, into, offset).map_err(self.failed(FileOperation::Read))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        system::write_all_at(&self.file, bytes, offset).map_err(self.failed(FileOperation::Write))
    }

    fn map(&self) -> Result<Mapping, FileError> {
        held_unnamed(&self.file).map_err(self.failed(FileOperation::Map))
    }

    fn set_len(&self, bytes: u64) -> Result<(), FileError> {
        self.file.set_len(bytes).map_err(self.failed(FileOperation::SetLength))
    }

    fn sync(&self) -> Result<(), FileError> {
        self.file.sync_data().map_err(self.failed(FileOperation::Sync))
    }
}
