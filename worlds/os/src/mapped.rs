//! Mapped files that are shortened while mapped, or lie on a failing drive: their missing bytes are read as zeros, and
//! the mapping says so.
//!
//! A read of a page no longer in the file raises `SIGBUS` on the reading thread. The handler (`signals.rs`) calls
//! [`replace_lost`]. It finds the mapping in a table, notes lost bytes, and maps zeros from the page to the
//! mapping's end; the read is then tried again. So a reader goes on with zeros, and asks
//! [`lost_from`](MappedBytes::lost_from) before it reports its result. The rest of a file's last page raises no signal:
//! the file's length reveals it. Bytes changed in place by another program are revealed by the time of the file's last
//! change, read by the same call of the system.

use crate::calls::page_bytes;
use crate::signals;
use memmap2::Mmap;
use std::fs::{File, Metadata};
use std::io;
use std::ops::{Deref, Range};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use vicus_files::MappedBytes;

/// A mapped file that notes missing bytes.
pub(crate) struct Watched {
    /// Cleared before the bytes are unmapped.
    slot: Option<Claimed>,
    bytes: Mmap,
    /// Open for its length.
    file: File,
    /// The shortest length seen, if it was shorter than the mapping; else `u64::MAX`.
    shortest: AtomicU64,
    /// When the file was changed last before it was mapped, and whether another time was seen since.
    changed_at: (i64, i64),
    was_written: AtomicBool,
}

/// When the bytes of a file were changed last, in seconds and nanoseconds.
fn changed_at(about: &Metadata) -> (i64, i64) {
    (about.mtime(), about.mtime_nsec())
}

impl Watched {
    /// Maps a file by this function.
    pub(crate) fn new(file: File, map: impl FnOnce(&File) -> io::Result<Mmap>) -> io::Result<Watched> {
        signals::watch();
        // Before it is mapped, so that nothing is missed between.
        let changed_at = changed_at(&file.metadata()?);
        let bytes = map(&file)?;
        let slot = Claimed::new(&bytes);
        let (shortest, was_written) = (AtomicU64::new(u64::MAX), AtomicBool::new(false));
        Ok(Watched { slot, bytes, file, shortest, changed_at, was_written })
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
        // The thread that read the bytes has handed on its result since, so this thread sees its note.
        let noted = self.slot.as_ref().map_or(usize::MAX, |claimed| claimed.0.lost_from.load(Ordering::Relaxed));
        let noted = u64::try_from(noted).unwrap_or(u64::MAX).min(self.shortest.load(Ordering::Relaxed));
        (noted < self.bytes.len() as u64).then_some(noted)
    }

    fn was_written(&self) -> bool {
        self.was_written.load(Ordering::Relaxed)
    }
}

/// A mapped file without a name, safe from other processes.
pub(crate) struct Temporary(pub(crate) Mmap);

impl Deref for Temporary {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl MappedBytes for Temporary {}

/// How many mappings are watched at once. Others end the process by the signal, as without a table.
const SLOTS: usize = 1024;

/// The watched mappings. A handler of signals reads the table, so it has no lock.
static TABLE: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];

const FREE: usize = 0;
/// Its owner writes the other fields.
const CLAIMED: usize = 1;

struct Slot {
    /// The address of the first byte, [`FREE`] or [`CLAIMED`].
    start: AtomicUsize,
    /// The address behind the last page.
    end: AtomicUsize,
    /// The first byte replaced by a zero, as a distance from `start`; else `usize::MAX`.
    lost_from: AtomicUsize,
}

impl Slot {
    const fn new() -> Slot {
        Slot { start: AtomicUsize::new(FREE), end: AtomicUsize::new(0), lost_from: AtomicUsize::new(usize::MAX) }
    }

    /// The mapping's addresses, if this is one of them.
    fn around(&self, address: usize) -> Option<Range<usize>> {
        let start = self.start.load(Ordering::Acquire);
        let end = self.end.load(Ordering::Acquire);
        // Another mapping may have taken the slot meanwhile: its owner writes the end after it has claimed the slot.
        let is_same = self.start.load(Ordering::Acquire) == start;
        (is_same && start > CLAIMED && (start..end).contains(&address)).then_some(start..end)
    }
}

/// A slot, until its mapping is gone.
struct Claimed(&'static Slot);

impl Claimed {
    fn new(bytes: &[u8]) -> Option<Claimed> {
        let claim =
            |slot: &&Slot| slot.start.compare_exchange(FREE, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let slot = TABLE.iter().filter(|_| !bytes.is_empty()).find(claim)?;
        let start = bytes.as_ptr().addr();
        slot.lost_from.store(usize::MAX, Ordering::Relaxed);
        slot.end.store((start + bytes.len()).next_multiple_of(page_bytes()), Ordering::Release);
        slot.start.store(start, Ordering::Release);
        Some(Claimed(slot))
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        self.0.start.store(FREE, Ordering::Release);
    }
}

/// If an address lies in a watched mapping, maps zeros from its page to the mapping's end, and notes lost bytes.
/// Returns whether it did. For the handler of `SIGBUS`, on the reading thread: it allocates nothing, takes no lock and
/// does not panic.
pub(crate) fn replace_lost(address: usize) -> bool {
    let found = TABLE.iter().find_map(|slot| Some((slot, slot.around(address)?)));
    let Some((slot, Range { start, end })) = found else { return false };
    let page = address - address % page_bytes();
    slot.lost_from.fetch_min(page - start, Ordering::Relaxed);
    let (access, flags) =
        (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE);
    #[expect(unsafe_code, reason = "replaces pages of a mapping")]
    // SAFETY: these pages are of a mapping that the interrupted thread reads, so it stays until this read ends, and no
    // other memory lies there. The mapping is read-only. Its readers are told of the lost bytes from this page on.
    let mapped = unsafe { libc::mmap(std::ptr::with_exposed_provenance_mut(page), end - page, access, flags, -1, 0) };
    mapped != libc::MAP_FAILED
}
