//! A file for several concurrent scans, each at places of its own.

#[cfg_attr(unix, path = "file/unix.rs")]
#[cfg_attr(windows, path = "file/windows.rs")]
mod system;

use crate::TableError;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use system::{Changed, changed};

/// An open file, with its length and the time of its last change when it was opened. Clones share it.
#[derive(Clone)]
pub(crate) struct Shared {
    file: Arc<File>,
    pub(crate) length: u64,
    changed: Changed,
}

impl Shared {
    pub(crate) fn open(path: &Path) -> Result<Shared, TableError> {
        let file = File::open(path).map_err(|error| TableError::io(path, error))?;
        let facts = file.metadata().map_err(|error| TableError::io(path, error))?;
        if facts.is_dir() {
            return Err(TableError::io(path, io::ErrorKind::IsADirectory.into()));
        }
        Ok(Shared { file: Arc::new(file), length: facts.len(), changed: changed(&facts) })
    }

    /// Checks that the file is as it was opened: of a shorter one, a scan would end early, and the metadata of another
    /// one would be wrong for it.
    ///
    /// # Errors
    /// It was changed.
    pub(crate) fn check(&self) -> io::Result<()> {
        let facts = self.file.metadata()?;
        if (facts.len(), changed(&facts)) == (self.length, self.changed) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "the file was changed after it was opened: it had {} bytes then, and has {} now",
            self.length,
            facts.len()
        )))
    }

    /// `count` bytes from this place.
    ///
    /// # Errors
    /// The file is shorter, or can't be read.
    pub(crate) fn bytes(&self, at: u64, count: usize) -> io::Result<Vec<u8>> {
        if at.checked_add(count as u64).is_none_or(|end| end > self.length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(count).map_err(|_| io::ErrorKind::OutOfMemory)?;
        bytes.resize(count, 0);
        system::read_exact_at(&self.file, &mut bytes, at)?;
        Ok(bytes)
    }

    /// Fills a buffer with the bytes from this place on.
    ///
    /// # Errors
    /// The file is shorter, or can't be read.
    pub(crate) fn fill(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        system::read_exact_at(&self.file, buffer, at)
    }

    /// A reader with a place of its own, from the beginning on.
    pub(crate) fn reader(&self) -> Reader {
        Reader { shared: self.clone(), at: 0 }
    }
}

/// Reads a shared file from one place to the next.
pub(crate) struct Reader {
    shared: Shared,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = system::read_at(&self.shared.file, buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.shared.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = place.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
