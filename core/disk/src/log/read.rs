//! Reading a log from its beginning, without changing it.

use super::segment::{FRAME_HEADER, Form, FrameHeader, HEADER, Header, name_of, number_of, whiten};
use crate::base::u64_at;
use crate::error::{Damage, DiskError};
use crate::manifest::Manifest;
use std::fmt;
use std::sync::Arc;
use vicus_files::{Directory, File, OpenMode};

/// The findings at the end of a log.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// The sequence number of the last record; 0 if there is none.
    pub(crate) last: u64,
    /// The segments with records, oldest first: their number, and the first sequence number in them.
    pub(crate) holding: Vec<(u64, u64)>,
    /// The highest number of a segment file; 0 if there is none.
    pub(crate) highest: u64,
    /// The last frame of the last segment: its first sequence number, and its records.
    pub(crate) unproven: Option<(u64, Vec<u8>)>,
    /// The places of the frames whose records were shown, in order.
    pub(crate) frames: Vec<FramePlace>,
    /// The beginning of the unreadable part: it was written, and can't be read.
    pub(crate) broken: Option<BadRecord>,
    /// The bytes behind the last frame that are no frame.
    pub(crate) torn: Option<TornTail>,
    /// The first wrong byte between two records, where no record is.
    pub(crate) spoiled: Option<Damage>,
}

/// The place of a frame of the log.
#[derive(Clone, Copy, Debug)]
pub struct FramePlace {
    /// The sequence number of its first record.
    pub first: u64,
    /// The number of its segment.
    pub segment: u64,
    /// The frame's beginning in the segment's file.
    pub offset: u64,
}

/// A place in the log: records were written there, and can't be read from there on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// The sequence number of the first unreadable record.
    pub number: u64,
    /// The number of the segment with this record in its file.
    pub(crate) segment: u64,
    /// The file, the beginning of the record's frame in it, and the fault.
    pub damage: Damage,
}

/// Bytes behind the last frame of the log that are a part of a frame. An unfinished write leaves such bytes: then its
/// records were not acknowledged. Damage that turned a part of the last frame into zeros looks the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The path of the segment's file.
    pub file: String,
    /// The number of the segment.
    pub(crate) segment: u64,
    /// The beginning of these bytes.
    pub offset: u64,
    /// How many they are, without zeros at their end.
    pub bytes: u64,
    /// The sequence number of their first record.
    pub number: u64,
    /// The path of the file they were kept aside in, if the store was opened for writing.
    pub kept: Option<String>,
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TornTail { file, offset, bytes, number, kept, .. } = self;
        write!(
            f,
            "{file} ends with {bytes} bytes from byte {offset} on that are not all of record {number}: it was not \
                acknowledged, unless the file was damaged later"
        )?;
        kept.as_ref().map_or(Ok(()), |kept| write!(f, "; they were cut off, and kept in {kept}"))
    }
}

/// A segment of the log.
struct Reading {
    path: String,
    file: Arc<dyn File>,
    header: Header,
    form: Form,
}

/// Reads the log of a store, and shows all records not included in its base with their sequence numbers, in order, up
/// to the first damaged one ([`Tail::broken`]). Another process may be appending to it: its unfinished part is left
/// out.
///
/// # Errors
/// The system refuses, or a segment is missing, damaged in its header, or of a newer version.
pub(crate) fn read_log(
    directory: &dyn Directory,
    manifest: &Manifest,
    show: &mut dyn FnMut(u64, &[u8]),
) -> Result<Tail, DiskError> {
    let names = directory.list()?;
    let numbers = names.iter().filter_map(|name| number_of(name));
    let highest = numbers.clone().map(|(number, _)| number).max().unwrap_or(0);
    let newest =
        numbers.filter(|&(number, is_finished)| is_finished && number >= manifest.log).map(|(number, _)| number);
    let mut tail = Tail { highest, ..Tail::default() };
    let chain = newest.max().map_or(Ok(Vec::new()), |newest| chain(directory, manifest, newest))?;
    tail.holding = chain.first().map_or(Vec::new(), |first| kept_before(directory, manifest, &first.header));
    for (at, segment) in chain.iter().enumerate() {
        let end = chain.get(at + 1).map(|next| next.header.first);
        match read_segment(segment, end, manifest.included, show, &mut tail) {
            Err(DiskError::Damaged(damage)) => {
                // Earlier records belong to segments with this one or an earlier one as their first.
                let number = tail.last.max(segment.header.first - 1) + 1;
                tail.broken = Some(BadRecord { number, segment: segment.header.number, damage: *damage });
                break;
            }
            read => read?,
        }
    }
    Ok(tail)
}

/// The segments from the one with the first record not included in the base to the newest.
fn chain(directory: &dyn Directory, manifest: &Manifest, newest: u64) -> Result<Vec<Reading>, DiskError> {
    let (store, included) = (manifest.store, manifest.included);
    let mut segment = open(directory, store, newest)?;
    let mut chain = Vec::new();
    while segment.header.first > included + 1 {
        let (previous, first) = (segment.header.previous, segment.header.first);
        if previous < manifest.log {
            let what = format!("it begins with record {first}, and records from {} on are missing", included + 1);
            return Err(DiskError::damaged(segment.path, 0, what));
        }
        let older = open(directory, store, previous)?;
        if older.header.first >= first || previous >= segment.header.number {
            return Err(DiskError::damaged(older.path, 0, "it does not begin before the segment that goes on from it"));
        }
        chain.push(std::mem::replace(&mut segment, older));
    }
    chain.push(segment);
    chain.reverse();
    Ok(chain)
}

/// The segments before this one that were kept for followers, oldest first: as far as they can be opened. Their
/// records are in the base.
fn kept_before(directory: &dyn Directory, manifest: &Manifest, header: &Header) -> Vec<(u64, u64)> {
    let (mut kept, mut header) = (Vec::new(), header.clone());
    while header.previous >= manifest.log
        && let Ok(older) = open(directory, manifest.store, header.previous)
        && older.header.first < header.first
        && older.header.number < header.number
    {
        header = older.header;
        kept.push((header.number, header.first));
    }
    kept.reverse();
    kept
}

/// Durable records, to be read beside the log's writer ([`Log::part`](super::Log::part)).
#[derive(Debug)]
pub struct LogPart {
    pub(super) directory: Arc<dyn Directory>,
    pub(super) store: u64,
    /// The segments with them, and their first records. The log's writer adds no record to others.
    pub(super) segments: Vec<(u64, u64)>,
    /// The last durable record.
    pub(super) durable: u64,
    pub(super) from: u64,
    pub(super) place: Option<LogPlace>,
}

/// The place of a frame in a log: reading goes on there.
#[derive(Clone, Copy, Debug)]
pub struct LogPlace {
    pub(super) segment: u64,
    offset: u64,
    /// The frame's first record.
    pub(super) next: u64,
}

impl LogPart {
    /// The records, of whole frames: about this number of bytes, or one frame if that has more; and the place behind
    /// them. No records if the first one is in no segment: a base has it.
    ///
    /// # Errors
    /// A segment was removed meanwhile, is damaged, or the system refuses.
    pub fn read(&self, most_bytes: usize) -> Result<(Vec<Vec<u8>>, Option<LogPlace>), DiskError> {
        let LogPart { directory, store, segments, durable, from, place } = self;
        let (mut records, mut bytes) = (Vec::new(), 0);
        let mut place = place.unwrap_or_else(|| {
            let (segment, next) = segments[0];
            LogPlace { segment, offset: HEADER as u64, next }
        });
        let mut at = segments.iter().position(|&(number, _)| number == place.segment).expect("it was looked for");
        let mut segment = open(&**directory, *store, place.segment)?;
        while place.next <= *durable && bytes < most_bytes {
            let later = segments.get(at + 1);
            if later.is_some_and(|&(_, first)| first == place.next) {
                at += 1;
                segment = open(&**directory, *store, segments[at].0)?;
                place = LogPlace { segment: segments[at].0, offset: HEADER as u64, next: place.next };
            }
            let length = segment.file.len()?;
            let frame = match read_frame(&segment, place.offset, length, place.next)? {
                Frame::Records(frame, _) => frame,
                Frame::End(_) => break,
            };
            let unpadded = segment.form.unpadded(frame.len()).expect("it is in memory, and that has room for more");
            place.offset += unpadded.next_multiple_of(8) as u64;
            for record in split(&frame) {
                let record = record.ok_or_else(|| {
                    let what = "a record is longer than its frame";
                    DiskError::damaged(segment.path.clone(), place.offset, what)
                })?;
                if place.next >= *from {
                    bytes += record.len();
                    records.push(record.to_vec());
                }
                place.next += 1;
            }
        }
        let is_there = place.next > *from;
        Ok((records, is_there.then_some(place)))
    }
}

/// The records of a frame; `None` for one longer than the frame.
fn split(mut rest: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let split = rest.split_at_checked(8).and_then(|(length, rest)| {
            let length = usize::try_from(u64_at(length, 0)).ok()?;
            rest.split_at_checked(length)
        });
        let (record, others) = split.map_or((None, &[][..]), |(record, others)| (Some(record), others));
        rest = others;
        Some(record)
    })
}

fn open(directory: &dyn Directory, store: u64, number: u64) -> Result<Reading, DiskError> {
    let name = name_of(number);
    let (path, file) = (directory.path(&name), directory.open(&name, OpenMode::Read)?);
    let mut bytes = [0; HEADER];
    let length = file.len()?;
    if length < HEADER as u64 {
        return Err(DiskError::damaged(path, length, "it ends in its header"));
    }
    file.read_at(0, &mut bytes)?;
    let (header, form) = Header::decode(&bytes, &path)?;
    if (header.store, header.number) != (store, number) {
        let what = format!(
            "it says that it is segment {} of store {:016x}, and not {number} of {store:016x}",
            header.number, header.store
        );
        return Err(DiskError::damaged(path, 0, what));
    }
    Ok(Reading { path, file, header, form })
}

/// How much memory a part of a file needs.
fn memory_for(path: &str, bytes: u64) -> Result<usize, DiskError> {
    usize::try_from(bytes).map_err(|_| DiskError::damaged(path.to_owned(), 0, "it is too long for this machine"))
}

/// Reads a segment up to the record `end`, the first of a later segment, or as far as it was written.
fn read_segment(
    segment: &Reading,
    end: Option<u64>,
    included: u64,
    show: &mut dyn FnMut(u64, &[u8]),
    tail: &mut Tail,
) -> Result<(), DiskError> {
    let mut length = segment.file.len()?;
    let mut next = segment.header.first;
    let mut at = HEADER as u64;
    // The end of the last frame, if it is unwritten: that is damage if another frame follows.
    let mut unwritten = None;
    while end != Some(next) {
        let damaged = |what: String| DiskError::damaged(segment.path.clone(), at, what);
        let records = match read_frame(segment, at, length, next) {
            // Its writer has cut off its room for frames.
            Err(DiskError::File(error)) if error.is_short() && segment.file.len()? < length => {
                length = segment.file.len()?;
                continue;
            }
            frame => frame?,
        };
        let (records, spoiled) = match records {
            Frame::Records(records, spoiled) => (records, spoiled),
            Frame::End(bytes) if end.is_none() => {
                let (file, segment) = (segment.path.clone(), segment.header.number);
                tail.torn =
                    (bytes > 0).then_some(TornTail { file, segment, offset: at, bytes, number: next, kept: None });
                return Ok(());
            }
            Frame::End(_) => return Err(damaged(format!("records from {next} on are missing"))),
        };
        if let Some(damage) = unwritten.take() {
            tail.spoiled.get_or_insert(damage);
        }
        let first = next;
        let mut shown: Vec<(u64, &[u8])> = Vec::new();
        for record in split(&records) {
            let Some(record) = record else { return Err(damaged("a record is longer than its frame".into())) };
            if next > included {
                shown.push((next, record));
            }
            next += 1;
        }
        if end.is_some_and(|end| next > end) {
            return Err(damaged(format!("it holds record {}, with which a later segment goes on", next - 1)));
        }
        shown.into_iter().for_each(|(number, record)| show(number, record));
        tail.frames.push(FramePlace { first, segment: segment.header.number, offset: at });
        if first == segment.header.first {
            tail.holding.push((segment.header.number, first));
        }
        let unpadded = segment.form.unpadded(records.len()).expect("it is in memory, and that has room for more");
        if let Some((place, is_unwritten)) = spoiled {
            let what = "a byte between two records is not as it was written; no record is affected".to_owned();
            let damage = Damage { file: segment.path.clone(), offset: at + place, what };
            if is_unwritten { unwritten = Some(damage) } else { _ = tail.spoiled.get_or_insert(damage) }
        }
        at += unpadded.next_multiple_of(8) as u64;
        tail.last = next - 1;
        tail.unproven = end.is_none().then_some((first, records));
    }
    if let Some(damage) = unwritten {
        tail.spoiled.get_or_insert(damage);
    }
    Ok(())
}

enum Frame {
    /// The records; and the first wrong byte between them and the frame's end, from the frame's beginning, and whether
    /// all bytes there are zeros, as if they had not been written yet.
    Records(Vec<u8>, Option<(u64, bool)>),
    /// There is no finished frame there, nor behind it. The number of bytes up to the last one that is not zero.
    End(u64),
}

/// The frame at a place, with `next` as its first record, in a segment of this length.
fn read_frame(segment: &Reading, at: u64, length: u64, next: u64) -> Result<Frame, DiskError> {
    let salt = segment.form.salt;
    let mut header = [0; FRAME_HEADER];
    if at + FRAME_HEADER as u64 <= length {
        segment.file.read_at(at, &mut header)?;
        let found = FrameHeader::decode(&header, salt).filter(|found| found.first == next);
        // The rest behind the records need not be there: a full disk may have taken only these.
        let fits = |found: &FrameHeader| found.bytes <= length - at - FRAME_HEADER as u64;
        if let Some(found) = found.filter(fits) {
            let bytes = memory_for(&segment.path, found.bytes)?;
            // With the end of the frame, as far as it is there.
            let padded = segment.form.unpadded(bytes).map_or(bytes, |end| end.next_multiple_of(8) - FRAME_HEADER);
            let there = usize::try_from(length - at).map_or(padded, |there| padded.min(there - FRAME_HEADER));
            let mut records = vec![0; there];
            segment.file.read_at(at + FRAME_HEADER as u64, &mut records)?;
            if crc32c::crc32c_append(salt, &records[..bytes]) == found.checksum {
                let behind = &records[bytes..];
                let is_unwritten = behind.iter().all(|&byte| byte == 0);
                let place = segment.form.spoiled(behind);
                let spoiled = place.map(|place| ((FRAME_HEADER + bytes + place) as u64, is_unwritten));
                records.truncate(bytes);
                whiten(&mut records);
                return Ok(Frame::Records(records, spoiled));
            }
        }
    }
    // Power was lost while it was written, or it was damaged later; or it is being written.
    let mut rest = vec![0; memory_for(&segment.path, length.saturating_sub(at))?];
    segment.file.read_at(at.min(length), &mut rest)?;
    let damaged = |what: &str| Err(DiskError::damaged(segment.path.clone(), at, what));
    let later = |start: usize| {
        let header = FrameHeader::decode(rest[start..].first_chunk()?, salt)?;
        (header.first > next).then_some(header.first)
    };
    if let Some(first) = (8..rest.len()).step_by(8).find_map(later) {
        return damaged(&format!("record {next} is not as it was written, and record {first} follows it"));
    }
    // A segment has its name only when its first frame is durable.
    match at > HEADER as u64 && segment.form.is_torn(&rest, at) {
        true => Ok(Frame::End(rest.iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1))),
        false => damaged(&format!("record {next} is not as it was written, though all of it was")),
    }
}
