//! One file of the log: a header, then frames, of which the first is written together with the header.
//!
//! ```text
//!  header  64 bytes: magic, version, store, number, number of the segment before it, first sequence number, checksum
//!  frame   length of the records (8 bytes), sequence number of the first (8), checksum of the records (4), of the header (4);
//!          for each record its length (8) and its bytes; zeros up to a multiple of 8
//! ```
//!
//! All checksums of frames begin with the header's, so that a frame of another segment, which a file system may leave in a file's new
//! bytes, is not taken for one of this.
//!
//! Records are stored with each byte changed by 0xa5. So zeros stay rare there, and a whole sector of zeros is one that was not
//! written: that tells a torn frame from a damaged one.

use super::Refusal;
use crate::base::{seal, sealed, u32_at, u64_at};
use crate::error::DiskError;
use std::ops::Range;
use std::sync::Arc;
use vicus_files::{Directory, File, FileError};

const MAGIC: &[u8; 8] = b"VICUSLOG";
const VERSION: u32 = 1;
pub(super) const HEADER: usize = 64;
pub(super) const FRAME_HEADER: usize = 24;
const SECTOR: usize = 512;
const WHITE: u8 = 0xa5;

/// The name of a segment's file.
pub(super) fn name_of(number: u64) -> String {
    format!("log-{number:08}")
}

/// The name of a segment's file until it is finished.
fn unfinished_name_of(number: u64) -> String {
    format!("{}.new", name_of(number))
}

/// The number of a segment by its file's name, and whether it was finished.
pub(crate) fn number_of(name: &str) -> Option<(u64, bool)> {
    let number = name.strip_prefix("log-")?.trim_end_matches(".new").parse().ok()?;
    let is_finished = name_of(number) == name;
    (is_finished || unfinished_name_of(number) == name).then_some((number, is_finished))
}

/// Makes zeros rare, or takes that back.
pub(super) fn whiten(records: &mut [u8]) {
    records.iter_mut().for_each(|byte| *byte ^= WHITE);
}

/// What a segment says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) store: u64,
    pub(super) number: u64,
    /// The segment with the records just before this one's; 0 if there was none.
    pub(super) previous: u64,
    /// The sequence number of the first record. Older segments' records from here on are not part of the log.
    pub(super) first: u64,
}

impl Header {
    fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        for (at, number) in [(16, self.store), (24, self.number), (32, self.previous), (40, self.first)] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    /// The header, and the checksum with which those of its frames begin.
    pub(super) fn decode(bytes: &[u8; HEADER], path: &str) -> Result<(Header, u32), DiskError> {
        if bytes[..8] != *MAGIC {
            return Err(DiskError::Foreign { file: path.to_owned(), expected: "a log of Vicus" });
        }
        let version = u32_at(bytes, 8);
        if version > VERSION {
            return Err(DiskError::Newer { file: path.to_owned(), version, newest: VERSION });
        }
        let Some(salt) = sealed(bytes).filter(|_| version == VERSION) else {
            return Err(DiskError::damaged(path.to_owned(), 0, "its header does not have its checksum"));
        };
        let [store, number, previous, first] = [16, 24, 32, 40].map(|at| u64_at(bytes, at));
        Ok((Header { store, number, previous, first }, salt))
    }
}

/// A segment that is written to.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) file: Arc<dyn File>,
    pub(super) number: u64,
    salt: u32,
    /// Where the next frame begins. All before it is durable.
    pub(super) end: u64,
}

impl Writing {
    /// Creates a segment with its first frame, so that both last. It has its name only when its bytes do: a segment that was begun and
    /// not finished is no segment.
    pub(super) fn create(directory: &dyn Directory, header: &Header, records: &[u8]) -> Result<Writing, Refusal> {
        let bytes = header.encode();
        let salt = u32_at(&bytes, HEADER - 4);
        let bytes = [&bytes[..], &frame(salt, header.first, records)].concat();
        let (name, unfinished) = (name_of(header.number), unfinished_name_of(header.number));
        let write = || -> Result<Arc<dyn File>, FileError> {
            let file = directory.create(&unfinished)?;
            file.write_at(0, &bytes)?;
            file.sync()?;
            Ok(file)
        };
        let file = write().map_err(|error| {
            // It is found when the store is opened again, if it can't be removed now.
            let _ = directory.remove(&unfinished);
            Refusal { error: error.into(), in_doubt: false }
        })?;
        let named = directory.rename(&unfinished, &name).and_then(|()| directory.sync());
        named.map_err(|error| {
            let removed = directory.remove(&unfinished).or_else(ignore_missing);
            let removed = removed.and(directory.remove(&name).or_else(ignore_missing)).and_then(|()| directory.sync());
            Refusal { error: error.into(), in_doubt: removed.is_err() }
        })?;
        Ok(Writing { file, number: header.number, salt, end: bytes.len() as u64 })
    }

    /// Appends a frame, so that it lasts.
    pub(super) fn append(&mut self, first: u64, records: &[u8]) -> Result<(), Refusal> {
        let frame = frame(self.salt, first, records);
        let written = self.file.write_at(self.end, &frame).and_then(|()| self.file.sync());
        written.map_err(|error| {
            let cut = self.file.set_len(self.end).and_then(|()| self.file.sync());
            Refusal { error: error.into(), in_doubt: cut.is_err() }
        })?;
        self.end += frame.len() as u64;
        Ok(())
    }
}

fn ignore_missing(error: FileError) -> Result<(), FileError> {
    if error.is_missing() { Ok(()) } else { Err(error) }
}

/// A frame of these records, in the form of [`Log::stage`](super::Log::stage).
fn frame(salt: u32, first: u64, records: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; FRAME_HEADER];
    frame.reserve(records.len().next_multiple_of(8));
    frame.extend_from_slice(records);
    whiten(&mut frame[FRAME_HEADER..]);
    let checksum = crc32c::crc32c_append(salt, &frame[FRAME_HEADER..]);
    frame[..8].copy_from_slice(&(records.len() as u64).to_le_bytes());
    frame[8..16].copy_from_slice(&first.to_le_bytes());
    frame[16..20].copy_from_slice(&checksum.to_le_bytes());
    let checksum = crc32c::crc32c_append(salt, &frame[..20]);
    frame[20..24].copy_from_slice(&checksum.to_le_bytes());
    frame.resize(frame.len().next_multiple_of(8), 0);
    frame
}

/// A frame's header.
pub(super) struct FrameHeader {
    pub(super) bytes: u64,
    pub(super) first: u64,
    pub(super) checksum: u32,
}

impl FrameHeader {
    pub(super) fn decode(bytes: &[u8; FRAME_HEADER], salt: u32) -> Option<FrameHeader> {
        let right = crc32c::crc32c_append(salt, &bytes[..20]) == u32_at(bytes, 20);
        right.then(|| FrameHeader { bytes: u64_at(bytes, 0), first: u64_at(bytes, 8), checksum: u32_at(bytes, 16) })
    }
}

/// Whether a sector of a range of a file was not written: all of the range that is in it is zero. `bytes` are the file's from `start` on.
pub(super) fn has_unwritten_sector(bytes: &[u8], start: u64, range: Range<usize>) -> bool {
    let mut at = range.start;
    while at < range.end {
        let next = range.end.min(at + SECTOR - (start as usize + at) % SECTOR);
        if bytes[at..next].iter().all(|&byte| byte == 0) {
            return true;
        }
        at = next;
    }
    false
}
