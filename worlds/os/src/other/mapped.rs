//! Mapped files, on Unix. No handler of signals helps their readers: a read behind the new end of a file that was
//! shortened ends the process. A file that was shortened or written to, and not read there since, is told of as on
//! Linux.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;
use vicus_files::MappedBytes;

/// A mapped file that tells when it was changed.
pub(super) struct Watched {
    bytes: memmap2::Mmap,
    /// Open for its length.
    file: File,
    /// The shortest length seen, if it was shorter than the mapping; else `u64::MAX`.
    shortest: AtomicU64,
    /// When the file was changed last before it was mapped, and whether another time was seen since.
    changed_at: Option<SystemTime>,
    was_written: AtomicBool,
}

fn changed_at(about: &Metadata) -> Option<SystemTime> {
    about.modified().ok()
}

impl Watched {
    pub(super) fn new(file: File) -> io::Result<Watched> {
        // Before it is mapped, so that nothing is missed between.
        let changed_at = changed_at(&file.metadata()?);
        let bytes = map(&file)?;
        let (shortest, was_written) = (AtomicU64::new(u64::MAX), AtomicBool::new(false));
        Ok(Watched { bytes, file, shortest, changed_at, was_written })
    }
}

pub(super) fn map(file: &File) -> io::Result<memmap2::Mmap> {
    #[expect(unsafe_code, reason = "maps a file")]
    // SAFETY: a mapping's bytes must not change. A mapped file is written once, before it has its name or without ever
    // having one, and never again by a process that respects the directory's lock.
    unsafe {
        memmap2::Mmap::map(file)
    }
}

impl Deref for Watched {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl MappedBytes for Watched {
    fn lost_from(&self) -> Option<u64> {
        let about = self.file.metadata().ok();
        if about.as_ref().is_some_and(|about| changed_at(about) != self.changed_at) {
            self.was_written.store(true, Ordering::Relaxed);
        }
        let now = about.map_or(u64::MAX, |about| about.len());
        if now < self.bytes.len() as u64 {
            self.shortest.fetch_min(now, Ordering::Relaxed);
        }
        let shortest = self.shortest.load(Ordering::Relaxed);
        (shortest < self.bytes.len() as u64).then_some(shortest)
    }

    fn was_written(&self) -> bool {
        self.was_written.load(Ordering::Relaxed)
    }
}

/// A mapped file without a name, safe from other processes.
pub(super) struct Temporary(pub(super) memmap2::Mmap);

impl Deref for Temporary {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl MappedBytes for Temporary {}
