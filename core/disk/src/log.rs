//! The write-ahead log: its records are durable when they are acknowledged.
//!
//! **Group commit.** Records are staged in memory. A *flight* takes all staged ones, writes them as one frame, and
//! syncs once; records that come meanwhile wait for the next flight. A flight is a value that does its work without the
//! log, so the caller holds no lock while the drive works: [`Log::take_off`], [`Flight::run`], [`Log::land`].
//! [`Log::flush`] is all three.
//!
//! **A frame is all or nothing**, also for its records: of two records in one flight, power loss may keep the second's
//! sectors alone. And the next frame is written only when the last one is synced. So nothing is behind a torn frame,
//! and a wrong frame with another one behind it was damaged later.
//!
//! **After a failure** the segment is never written again: the system may have dropped the bytes it could not write,
//! and would report the next sync as successful. The flight cuts the segment to its former content. If this lasts, the
//! records are surely not there; otherwise they are *in doubt*: there or not when the store is opened again. Records
//! staged after them are refused, too, because they may build on them. The next flight begins a new segment, and the
//! segment's header gives the sequence number it goes on with; the records of an older segment from this number on are
//! not part of the log any more.
//!
//! **A lost lock**, with its file or the directory removed or replaced by hand, lets another process write. So each
//! flight looks for it before it writes, and again before its records are acknowledged.
//!
//! **Opening** never cuts or changes a segment. Only the last frame of the last segment may never have been synced,
//! even if it can be read: it is written again, as the first frame of a new segment. Bytes behind it that are no frame
//! are copied to a file of their own before. All other frames are proven by their successors. A segment gets its name
//! when its header and its first frame are durable, so a new one never takes the place of a frame that it doesn't have.

mod read;
mod segment;

pub use read::{BadRecord, FramePlace, LogPart, LogPlace, TornTail};
pub(crate) use read::{Tail, read_log};
pub(crate) use segment::{name_of, number_of};

use crate::error::DiskError;
use crate::manifest::Manifest;
use segment::{Header, Writing};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use vicus_files::{Directory, Lock};

/// A segment longer than this is followed by another one.
const SEGMENT_BYTES: u64 = 64 << 20;

/// A log open for writing.
#[derive(Debug)]
pub struct Log {
    directory: Arc<dyn Directory>,
    lock: Arc<dyn Lock>,
    store: u64,
    /// The segments with acknowledged records, oldest first: their number, and the first sequence number in them. It
    /// ascends.
    holding: Vec<(u64, u64)>,
    /// The place of the next frame; `None` for a new segment. A flight has it meanwhile.
    current: Option<Writing>,
    /// Whether the next frame goes to a new segment all the same.
    rotated: bool,
    /// Greater than the number of every segment file, present or former.
    next_number: u64,
    /// The sequence number of the last acknowledged record. The first record of a store has 1.
    durable: u64,
    /// Records for the next flight, each with its length before it.
    staged: Vec<u8>,
    /// The ticket of the first staged record: flights have taken all before it.
    taken: u64,
    /// The ticket of the next record.
    next_ticket: u64,
    /// The number of the segment a flight writes to.
    flying: Option<u64>,
    segment_bytes: u64,
    /// The first record that followers may still ask for; segments with it or later records stay.
    kept_from: Option<u64>,
}

/// The records of one sync, on their way to the disk.
#[derive(Debug)]
pub struct Flight {
    directory: Arc<dyn Directory>,
    lock: Arc<dyn Lock>,
    /// The segment for the frame; `None` for a new one.
    segment: Option<Writing>,
    /// A segment that is not written any more.
    finished: Option<Writing>,
    /// The header of the new segment. It gives the first record in any case.
    header: Header,
    records: Vec<u8>,
    tickets: Range<u64>,
    outcome: Option<Result<(), Refusal>>,
}

/// The outcome of records, by their tickets.
#[derive(Debug)]
#[must_use = "those that wait for these records are to be told"]
pub struct Landing {
    /// The flown records.
    pub flown: Range<u64>,
    /// Whether these are durable.
    pub outcome: Result<(), Refusal>,
    /// Records staged meanwhile, and refused because the flown ones are: surely not there.
    pub refused: Range<u64>,
}

/// Why records are not durable.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The failure.
    pub error: DiskError,
    /// Whether they may be there all the same when the store is opened again, all or none. They are surely not there as
    /// soon as a later flight has succeeded.
    pub in_doubt: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.in_doubt {
            true => write!(f, "{}; the change may be found when the store is opened again", self.error),
            false => self.error.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}

impl Log {
    /// The log of a new store. No file is created before the first flight.
    pub(crate) fn create(directory: Arc<dyn Directory>, lock: Arc<dyn Lock>, store: u64) -> Log {
        Log {
            directory,
            lock,
            store,
            holding: Vec::new(),
            current: None,
            rotated: false,
            next_number: 1,
            durable: 0,
            staged: Vec::new(),
            taken: 0,
            next_ticket: 0,
            flying: None,
            segment_bytes: SEGMENT_BYTES,
            kept_from: None,
        }
    }

    /// The log of a store whose base was replaced by another one, with all records up to `included`. It is behind a log
    /// whose segments are not part of it.
    pub(crate) fn behind(&self, included: u64) -> Log {
        let log = Log::create(Arc::clone(&self.directory), Arc::clone(&self.lock), self.store);
        let (next_number, segment_bytes) = (self.next_number, self.segment_bytes);
        Log { durable: included, next_number, segment_bytes, kept_from: self.kept_from, ..log }
    }

    /// Segments with this record or later ones stay when a base has their content. `None`: none does.
    pub fn keep_from(&mut self, first: Option<u64>) {
        self.kept_from = first;
    }

    /// The durable records from this one on, to be read without the log. `place` is that of an earlier call, and only
    /// makes reading quicker. `None` if the log does not hold the first of them any more.
    pub fn part(&self, from: u64, place: Option<LogPlace>) -> Option<LogPart> {
        let begin = self.holding.iter().rposition(|&(_, first)| first <= from)?;
        let segments = self.holding[begin..].to_vec();
        let place = place.filter(|place| place.next <= from && segments.iter().any(|part| part.0 == place.segment));
        let (directory, store, durable) = (Arc::clone(&self.directory), self.store, self.durable);
        Some(LogPart { directory, store, segments, durable, from, place })
    }

    /// The numbers of the segments with records, oldest first.
    pub(crate) fn segments(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.holding.iter().map(|&(number, _)| number)
    }

    /// Passes over a sequence number that no record has: a base published without the log has taken it.
    pub(crate) fn skip(&mut self) {
        self.durable += 1;
    }

    /// Goes on with a log read to its end. The last frame is written again.
    pub(crate) fn resume(
        directory: Arc<dyn Directory>,
        lock: Arc<dyn Lock>,
        manifest: &Manifest,
        tail: Tail,
    ) -> Result<Log, DiskError> {
        let included = manifest.included;
        let mut log = Log::create(directory, lock, manifest.store);
        (log.holding, log.next_number) = (tail.holding, manifest.log.max(tail.highest + 1));
        log.durable = tail.last.max(included);
        let Some((first, records)) = tail.unproven.filter(|_| tail.last > included) else { return Ok(log) };
        log.holding.retain(|&(_, begins)| begins < first);
        log.durable = first - 1;
        log.staged = records;
        log.flush().map_err(|refusal| refusal.error)?;
        log.durable = tail.last;
        Ok(log)
    }

    /// Adds a record to those of the next flight. Its ticket tells its [`Landing`].
    pub fn stage(&mut self, record: &[u8]) -> u64 {
        self.staged.extend_from_slice(&(record.len() as u64).to_le_bytes());
        self.staged.extend_from_slice(record);
        self.next_ticket += 1;
        self.next_ticket - 1
    }

    /// The sequence number of the last durable record; 0 if there is none.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Whether records are staged, and no flight is on its way.
    pub fn can_take_off(&self) -> bool {
        self.flying.is_none() && !self.staged.is_empty()
    }

    /// Takes the staged records. `None` without any, or if a flight has not landed yet.
    pub fn take_off(&mut self) -> Option<Flight> {
        self.can_take_off().then(|| self.fly())
    }

    fn fly(&mut self) -> Flight {
        let rotated = std::mem::take(&mut self.rotated);
        let goes_on = |segment: &Writing| segment.end < self.segment_bytes && !rotated;
        let (segment, finished) = match self.current.take() {
            Some(segment) if goes_on(&segment) => (Some(segment), None),
            finished => (None, finished),
        };
        let previous = self.holding.last().map_or(0, |&(number, _)| number);
        let header = Header { store: self.store, number: self.next_number, previous, first: self.durable + 1 };
        self.next_number += u64::from(segment.is_none());
        self.flying = Some(segment.as_ref().map_or(header.number, |segment| segment.number));
        let records = std::mem::take(&mut self.staged);
        let tickets = self.taken..self.next_ticket;
        self.taken = self.next_ticket;
        let (directory, lock) = (self.directory.clone(), self.lock.clone());
        Flight { directory, lock, segment, finished, header, records, tickets, outcome: None }
    }

    /// Notes the outcome of a flight.
    pub fn land(&mut self, flight: Flight) -> Landing {
        assert!(self.flying.is_some(), "a flight lands in the log that it left");
        self.flying = None;
        let outcome = flight.outcome.expect("a flight lands after it has run");
        if outcome.is_err() {
            self.staged.clear();
            self.taken = self.next_ticket;
            return Landing { refused: flight.tickets.end..self.next_ticket, flown: flight.tickets, outcome };
        }
        let segment = flight.segment.expect("what was written was written somewhere");
        if self.holding.last().is_none_or(|&(number, _)| number != segment.number) {
            self.holding.push((segment.number, flight.header.first));
        }
        self.current = Some(segment);
        self.durable += flight.tickets.end - flight.tickets.start;
        Landing { refused: flight.tickets.end..flight.tickets.end, flown: flight.tickets, outcome }
    }

    /// Makes all staged records durable, and gives the log's last sequence number.
    ///
    /// # Errors
    /// The system refuses; the staged records are refused, or in doubt.
    pub fn flush(&mut self) -> Result<u64, Refusal> {
        assert!(self.flying.is_none(), "a flight that has taken off lands before this");
        if let Some(mut flight) = self.take_off() {
            flight.run();
            self.land(flight).outcome?;
        }
        Ok(self.durable)
    }

    /// The next flight begins a new segment, so the segments before it can be removed when a base has their content.
    pub fn rotate(&mut self) {
        self.rotated = true;
    }

    /// Segments are followed by another one when they are longer than this.
    pub fn set_segment_bytes(&mut self, bytes: u64) {
        self.segment_bytes = bytes;
    }

    /// Whether the log needs the file of this segment, finished or not.
    pub(crate) fn needs(&self, number: u64) -> bool {
        self.flying == Some(number) || self.holding.iter().any(|&(held, _)| held == number)
    }

    /// The number of the first segment needed beside a base with all records up to this one, for this store itself and
    /// for its followers.
    pub(crate) fn first_kept(&self, included: u64) -> u64 {
        self.first_needed(self.kept_from.map_or(included, |first| included.min(first.saturating_sub(1))))
    }

    /// The number of the first segment needed beside a base with all records up to this one.
    pub(crate) fn first_needed(&self, included: u64) -> u64 {
        // The last segment that begins before the next record may hold it, or will.
        let holds = self.holding.iter().rfind(|&&(_, first)| first <= included + 1).or(self.holding.first());
        let goes_on = self.flying.is_some() || (self.current.is_some() && !self.rotated);
        match holds {
            Some(&(number, _)) if included < self.durable || goes_on => number,
            _ => self.flying.unwrap_or(self.next_number),
        }
    }

    /// Older segments than this are not needed any more.
    pub(crate) fn forget_before(&mut self, number: u64) {
        self.holding.retain(|&(held, _)| held >= number);
    }
}

impl Flight {
    /// Does the work: writes, and syncs.
    pub fn run(&mut self) {
        self.outcome = Some(self.fly());
        // Cuts off its room, here outside of any lock.
        self.finished = None;
    }

    fn fly(&mut self) -> Result<(), Refusal> {
        let check = |in_doubt| self.lock.check().map_err(|error| Refusal { error: error.into(), in_doubt });
        check(false)?;
        match &mut self.segment {
            Some(segment) => segment.append(self.header.first, &self.records)?,
            none => *none = Some(Writing::create(&*self.directory, &self.header, &self.records)?),
        }
        // Another process may have opened the store meanwhile: it has read the frame, or goes on without it.
        check(true)
    }
}
