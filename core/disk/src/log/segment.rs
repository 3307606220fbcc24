//! One file of the log: a header, then frames. The first frame is written together with the header.
//!
//! ```text
//!  header  64 bytes: magic, form, store, number, number of the segment before it, first sequence number, checksum
//!  frame   length of the records (8 bytes), sequence number of the first (8), checksum of the records (4),
//!          checksum of the header (4); for each record its length (8) and its bytes; a byte 0xff; zeros up to a
//!          multiple of 8
//!  room    zeros
//! ```
//!
//! All checksums of frames begin with the header's, so a frame of another segment, possibly left by the file system in
//! a file's new bytes, is not taken for one of this.
//!
//! **Room.** A frame without room behind the last one is written together with room for the next ones. A sync of
//! overwritten bytes takes less time than one of a longer file, since the latter has to write the place of the new
//! bytes, too. The room is cut off when the segment is not written any more; the room left by a killed process is not
//! cut off, but removed with the segment.
//!
//! **Torn frames.** The remains of a frame after power loss or after the end of a killed process differ from damage: an
//! unwritten sector is zeros, and so is the rest of a write that stopped somewhere. To keep zeros out of everything
//! else, records are stored with each byte changed by 0xa5, so zeros are rare, and the last byte of a frame is 0xff. A
//! synced frame needs no mark: one flight is on its way at a time, so each frame is the mark of all before it.
//!
//! **Form 1**, read and not written, has neither the byte 0xff nor room. There, a file's length gives the end of a
//! stopped write.

use super::Refusal;
use crate::base::{seal, sealed, u32_at, u64_at};
use crate::error::DiskError;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use vicus_files::{Directory, File, FileError};

const MAGIC: &[u8; 8] = b"VICUSLOG";
/// The written form, and the newest readable one.
const NEWEST: u32 = 2;
pub(super) const HEADER: usize = 64;
pub(super) const FRAME_HEADER: usize = 24;
const SECTOR: usize = 512;
const WHITE: u8 = 0xa5;
/// The byte behind the last record.
const LAST: u8 = 0xff;

/// A segment gets as much room at once as it has frames, within these bounds, in bytes: of small commits, one in a
/// thousand waits until the room is written and synced, and a small log stays small.
const ROOM: RangeInclusive<u64> = 16 << 10..=256 << 10;

/// The name of a segment's file.
pub(crate) fn name_of(number: u64) -> String {
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

/// Makes zeros rare, or takes this back.
pub(super) fn whiten(records: &mut [u8]) {
    records.iter_mut().for_each(|byte| *byte ^= WHITE);
}

/// A segment's description of itself.
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
        bytes[8..12].copy_from_slice(&NEWEST.to_le_bytes());
        for (at, number) in [(16, self.store), (24, self.number), (32, self.previous), (40, self.first)] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    /// The header, and how the frames behind it are written.
    pub(super) fn decode(bytes: &[u8; HEADER], path: &str) -> Result<(Header, Form), DiskError> {
        if bytes[..8] != *MAGIC {
            return Err(DiskError::Foreign { file: path.to_owned(), expected: "a log of Vicus" });
        }
        let version = u32_at(bytes, 8);
        if version > NEWEST {
            return Err(DiskError::Newer { file: path.to_owned(), version, newest: NEWEST });
        }
        let Some(salt) = sealed(bytes).filter(|_| version > 0) else {
            return Err(DiskError::damaged(path.to_owned(), 0, "its header does not have its checksum"));
        };
        let [store, number, previous, first] = [16, 24, 32, 40].map(|at| u64_at(bytes, at));
        Ok((Header { store, number, previous, first }, Form { salt, has_last: version > 1 }))
    }
}

/// How the frames of a segment are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// The beginning of their checksums.
    pub(super) salt: u32,
    /// Whether they have a byte behind their records.
    has_last: bool,
}

impl Form {
    /// The length of a frame with this number of bytes of records, without the zeros at its end.
    pub(super) fn unpadded(self, records: usize) -> Option<usize> {
        records.checked_add(FRAME_HEADER + usize::from(self.has_last))
    }

    /// The place of the first of these bytes, those behind the last record of a frame up to its end, that is not as it
    /// is written. The file may end before.
    pub(super) fn spoiled(self, bytes: &[u8]) -> Option<usize> {
        let expected = |at: usize| if self.has_last && at == 0 { LAST } else { 0 };
        bytes.iter().enumerate().position(|(at, &byte)| byte != expected(at))
    }

    /// Whether these bytes, from a place in a file to its end, can be a frame with an unwritten part.
    pub(super) fn is_torn(self, bytes: &[u8], at: u64) -> bool {
        let Some(start) = bytes.first_chunk() else { return true };
        let Some(header) = FrameHeader::decode(start, self.salt) else {
            // A record's length is behind the header. It is less than 2^56: the last one of its bytes is not zero if it
            // was written.
            let stopped = self.has_last && bytes.get(FRAME_HEADER + 7).is_none_or(|&byte| byte == 0);
            return stopped || has_unwritten_sector(bytes, at, 0..FRAME_HEADER);
        };
        let end = usize::try_from(header.bytes).ok().and_then(|records| self.unpadded(records));
        match end.filter(|&end| end <= bytes.len()) {
            Some(end) if self.has_last && bytes[end - 1] == 0 => true,
            Some(end) => has_unwritten_sector(bytes, at, FRAME_HEADER..end),
            None => true,
        }
    }
}

/// A segment being written.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) file: Arc<dyn File>,
    pub(super) number: u64,
    salt: u32,
    /// The place of the next frame. All before it is durable.
    pub(super) end: u64,
    /// The end of the zeros behind it, or of possible zeros: the file's end, unless the disk was full.
    room: u64,
}

impl Writing {
    /// Creates a segment with its first frame, both durable. It gets its name only when its bytes are durable: a begun,
    /// unfinished segment is no segment.
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
        // Without room, since a segment often gets no other frame.
        let end = bytes.len() as u64;
        Ok(Writing { file, number: header.number, salt, end, room: end })
    }

    /// Appends a frame, and makes it durable. Afterwards, after an error as well, the file ends with the room.
    pub(super) fn append(&mut self, first: u64, records: &[u8]) -> Result<(), Refusal> {
        let mut frame = frame(self.salt, first, records);
        let (bytes, end) = (frame.len(), self.end + frame.len() as u64);
        let write = |frame: &[u8]| self.file.write_at(self.end, frame);
        let written = if end <= self.room {
            write(&frame)
        } else {
            self.room = end + end.clamp(*ROOM.start(), *ROOM.end());
            frame.resize((self.room - self.end) as usize, 0);
            // A disk may have room for the frame and not for the next ones.
            write(&frame).or_else(|error| if error.is_full() { write(&frame[..bytes]) } else { Err(error) })
        };
        written.and_then(|()| self.file.sync()).map_err(|error| {
            let cut = self.file.set_len(self.end).and_then(|()| self.file.sync());
            self.room = self.end;
            Refusal { error: error.into(), in_doubt: cut.is_err() }
        })?;
        self.end = end;
        Ok(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if self.room > self.end {
            // Remaining zeros do no harm.
            let _ = self.file.set_len(self.end);
        }
    }
}

fn ignore_missing(error: FileError) -> Result<(), FileError> {
    if error.is_missing() { Ok(()) } else { Err(error) }
}

/// A frame of these records, in the form of [`Log::stage`](super::Log::stage).
fn frame(salt: u32, first: u64, records: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; FRAME_HEADER];
    frame.reserve(records.len() + 8);
    frame.extend_from_slice(records);
    whiten(&mut frame[FRAME_HEADER..]);
    let checksum = crc32c::crc32c_append(salt, &frame[FRAME_HEADER..]);
    frame[..8].copy_from_slice(&(records.len() as u64).to_le_bytes());
    frame[8..16].copy_from_slice(&first.to_le_bytes());
    frame[16..20].copy_from_slice(&checksum.to_le_bytes());
    let checksum = crc32c::crc32c_append(salt, &frame[..20]);
    frame[20..24].copy_from_slice(&checksum.to_le_bytes());
    frame.push(LAST);
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
        // A frame has a record. So zeros are none, with any checksum.
        let right = || u64_at(bytes, 0) > 0 && crc32c::crc32c_append(salt, &bytes[..20]) == u32_at(bytes, 20);
        right().then(|| FrameHeader { bytes: u64_at(bytes, 0), first: u64_at(bytes, 8), checksum: u32_at(bytes, 16) })
    }
}

/// Whether a sector of a range of a file was not written: all of the range in it is zero. `bytes` are the file's from
/// `start` on.
fn has_unwritten_sector(bytes: &[u8], start: u64, range: Range<usize>) -> bool {
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
