//! An archive of a store: objects, each written once, from which the store can be made again as it was.
//!
//! | object | content |
//! |---|---|
//! | `archive` | the store's number ([`archive_head`]) |
//! | `bases/INCLUDED-EPOCH-BY-TIME` | a base: an [`Offer`] |
//! | `base/CHECKSUM-BYTES-NAME` | a file of a base |
//! | `records/AFTER-LAST-EPOCH-BY-TIME` | the records behind one up to another: an [`ArchivedRecords`] |
//! | `since/TIME` | objects that only states before this time need may be gone: an [`ArchiveHorizon`] |
//!
//! Each begins with the version of this form, and ends with a checksum of the bytes before it ([`sealed`]), except for
//! base files, which have their own. The version differs from that of the messages between copies: an archive of an
//! older Vicus stays readable, as its base files and records do.
//!
//! Names tell what is there, so a list of them is enough to choose. Numbers have 20 digits. The epoch is that of the
//! last record, and the time is in seconds since 1970 by the clock of the machine that wrote the object.
//!
//! Several copies of a store may write to one archive, and an old writer's records may part from a newer one's. Two
//! logs with a common epoch are the same up to its end in the shorter one ([`CopyStanding::common`]). So an object
//! belongs to a log if its epoch does, up to the end of this epoch there.

use super::decide::CopyStanding;
use super::message::{Form, Lines, NotUnderstood, Offer, begin, put_records, take_records, text};
use super::pruning::ArchiveHorizon;
use std::fmt::{self, Write};
use vicus_disk::{BaseEntry, Epoch};

/// The form of objects.
pub(super) const FORM: Form = Form { first: "vicus archive ", version: 1 };

/// The object with the store's number.
pub const ARCHIVE_HEAD: &str = "archive";

/// Bytes with their checksum behind them.
pub(super) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The bytes before their checksum.
pub(super) fn unsealed(bytes: &[u8]) -> Result<&[u8], NotUnderstood> {
    let (bytes, checksum) = bytes.split_last_chunk().ok_or(NotUnderstood::Foreign)?;
    let is_whole = crc32c::crc32c(bytes) == u32::from_le_bytes(*checksum);
    if is_whole { Ok(bytes) } else { Err(NotUnderstood::Damaged) }
}

/// The content of [`ARCHIVE_HEAD`].
pub fn archive_head(store: u64) -> Vec<u8> {
    let mut text = begin(FORM);
    writeln!(text, "store {store:016x}").expect("text grows");
    sealed(text.into_bytes())
}

/// The store's number in the content of [`ARCHIVE_HEAD`].
///
/// # Errors
/// It is of another program, or of a newer version.
pub fn store_of_archive(bytes: &[u8]) -> Result<u64, NotUnderstood> {
    let mut lines = Lines::of(text(unsealed(bytes)?)?, FORM)?;
    let store = lines.next("store").and_then(|words| u64::from_str_radix(words.first()?, 16).ok());
    store.ok_or(NotUnderstood::Damaged)
}

/// The name of a base file's object.
pub fn name_of_base_file(entry: &BaseEntry) -> String {
    format!("base/{:08x}-{}-{}", entry.fingerprint.checksum, entry.fingerprint.bytes, entry.name)
}

/// The name of a base's object. It is written when all of its files are there.
pub fn name_of_base(offer: &Offer, time: u64) -> String {
    let Epoch { number, by } = offer.standing().epoch();
    format!("bases/{:020}-{number:020}-{by:016x}-{time:020}", offer.included)
}

/// Whether a base's object has this name.
pub fn is_name_of_base(offer: &Offer, name: &str) -> bool {
    is_same_object(&name_of_base(offer, 0), name)
}

/// Whether two names differ by their time at most.
fn is_same_object(one: &str, other: &str) -> bool {
    one.rsplit_once('-').map(|(one, _)| one) == other.rsplit_once('-').map(|(other, _)| other)
}

/// The content of a base's object.
pub fn archived_base(offer: &Offer) -> Vec<u8> {
    sealed(offer.encode_as(FORM).into_bytes())
}

/// Reads a base's object.
///
/// # Errors
/// It is none, or is damaged.
pub fn base_of_archive(bytes: &[u8]) -> Result<Offer, NotUnderstood> {
    Offer::decode_as(unsealed(bytes)?, FORM)
}

/// Records that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedRecords {
    /// The copy that wrote them to the archive, as it was with the last of them.
    pub from: CopyStanding,
    /// The number of the record before the first one.
    pub after: u64,
    /// The records.
    pub records: Vec<Vec<u8>>,
}

impl ArchivedRecords {
    /// Their object's name.
    pub fn name(&self, time: u64) -> String {
        let Epoch { number, by } = self.from.epoch();
        format!("records/{:020}-{:020}-{number:020}-{by:016x}-{time:020}", self.after, self.from.last)
    }

    /// Whether an object of this name has them.
    pub fn are_named(&self, name: &str) -> bool {
        is_same_object(&self.name(0), name)
    }

    /// Their object's content.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = begin(FORM);
        self.from.put(&mut text);
        writeln!(text, "after {}", self.after).expect("text grows");
        sealed(put_records(text, &self.records))
    }

    /// Reads an object.
    ///
    /// # Errors
    /// It is none, or is damaged.
    pub fn decode(bytes: &[u8]) -> Result<ArchivedRecords, NotUnderstood> {
        let (mut lines, behind) = take_records(unsealed(bytes)?, FORM)?;
        let mut read = || {
            let (from, after) = (lines.standing()?, lines.number("after")?);
            let records = lines.records(behind)?;
            let is_whole = after.checked_add(records.len() as u64) == Some(from.last);
            is_whole.then_some(ArchivedRecords { from, after, records })
        };
        read().ok_or(NotUnderstood::Damaged)
    }
}

/// The state of a store that is to be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The newest one.
    Last,
    /// With all records up to this one.
    Record(
        /// Its number.
        u64,
    ),
    /// With all that was in the archive then.
    Time(
        /// In seconds since 1970, by the clock of the machine that wrote the objects.
        u64,
    ),
}

/// An object, as its name tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) name: String,
    /// The record before the first one; `None` for a base, which has all.
    pub(super) after: Option<u64>,
    pub(super) last: u64,
    pub(super) epoch: Epoch,
    pub(super) time: u64,
}

impl Object {
    fn of(name: &str) -> Option<Object> {
        let (is_base, rest) = match (name.strip_prefix("bases/"), name.strip_prefix("records/")) {
            (Some(rest), _) => (true, rest),
            (None, rest) => (false, rest?),
        };
        let parts: Vec<&str> = rest.split('-').collect();
        let (after, parts) = if is_base { (None, &parts[..]) } else { (Some(parts.first()?), &parts[1..]) };
        let after = after.map(|after| after.parse().ok());
        let [last, number, by, time] = parts[..] else { return None };
        let epoch = Epoch::of(number.parse().ok()?, u64::from_str_radix(by, 16).ok()?)?;
        let (last, time) = (last.parse().ok()?, time.parse().ok()?);
        let after = match after {
            None => None,
            Some(after) => Some(after.filter(|after| *after < last)?),
        };
        Some(Object { name: name.to_owned(), after, last, epoch, time })
    }

    /// The greatest one is the newest.
    pub(super) fn rank(&self) -> (Epoch, u64, Option<u64>) {
        (self.epoch, self.last, self.after)
    }

    /// Its last record that is part of a log as well; `None` if its epoch is none of that log's.
    pub(super) fn last_of(&self, log: &CopyStanding) -> Option<u64> {
        let at = match log.epochs.iter().position(|start| start.epoch == self.epoch) {
            Some(at) => at + 1,
            None if self.epoch == Epoch::default() => 0,
            None => return None,
        };
        let end = log.epochs.get(at).map_or(log.last, |next| next.first - 1).min(log.last);
        let last = self.last.min(end);
        // Of a base nothing can be left out.
        let is_part = self.after.map_or(self.last <= end, |after| after < last);
        is_part.then_some(last)
    }
}

/// The objects of an archive, by their names.
#[derive(Clone, Debug, Default)]
pub struct ArchiveList {
    pub(super) objects: Vec<Object>,
    /// See [`ArchiveHorizon`]; 0 if nothing was removed.
    pub(super) since: u64,
}

/// The objects from which a store is made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restoration {
    /// The base; none if there are only records.
    pub base: Option<String>,
    /// Objects with records, in their order, and the last record of each that is needed.
    pub records: Vec<(String, u64)>,
    /// The last record of the store.
    pub last: u64,
}

/// Why a store can't be made again from an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotArchived {
    /// The archive has nothing.
    Empty,
    /// The archive's first object is younger than the time.
    Before {
        /// The time of the first object, in seconds since 1970.
        first: u64,
    },
    /// Objects that the state at that time needs may have been removed.
    Removed {
        /// From this time on, in seconds since 1970, all states are there.
        since: u64,
    },
    /// Objects that the state needs were removed, or never there.
    Older {
        /// The first record that can be reached.
        first: u64,
    },
    /// The record is not there yet.
    Beyond {
        /// The last record.
        last: u64,
    },
    /// Objects are missing.
    Gap {
        /// The last record before those that are missing.
        after: u64,
        /// The record that can't be reached.
        until: u64,
    },
}

impl fmt::Display for NotArchived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotArchived::Empty => f.write_str("there is neither a base nor a record"),
            NotArchived::Before { first } => {
                write!(f, "nothing was there at that time: the first object was written {first} seconds after 1970")
            }
            NotArchived::Removed { since } => write!(
                f,
                "states of that time were given up when objects were removed: all are there from {since} seconds after \
                 1970 on"
            ),
            NotArchived::Older { first } => {
                write!(f, "states before record {first} are not there: a base has all records up to it as one")
            }
            NotArchived::Beyond { last } => write!(f, "the last record there is {last}"),
            NotArchived::Gap { after, until } => write!(
                f,
                "record {} is in no object, so the store can be made again up to record {after}, and not to {until}",
                after + 1
            ),
        }
    }
}

impl std::error::Error for NotArchived {}

impl ArchiveList {
    /// The objects with these names. Other names are passed over.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> ArchiveList {
        let (mut objects, mut since) = (Vec::new(), 0);
        for name in names {
            objects.extend(Object::of(name));
            since = since.max(ArchiveHorizon::time_of(name).unwrap_or(0));
        }
        ArchiveList { objects, since }
    }

    /// The object whose log is the newest, of those that were there at that time. Its content has the log's epochs.
    ///
    /// # Errors
    /// There is none, or it may have been removed.
    pub fn newest(&self, until: Until) -> Result<&str, NotArchived> {
        let limit = if let Until::Time(time) = until { time } else { u64::MAX };
        if limit < self.since {
            return Err(NotArchived::Removed { since: self.since });
        }
        let there = self.objects.iter().filter(|object| object.time <= limit);
        let newest = there.max_by_key(|object| (object.rank(), object.time));
        newest.map(|object| &object.name[..]).ok_or_else(|| match self.objects.iter().map(|object| object.time).min() {
            Some(first) => NotArchived::Before { first },
            None => NotArchived::Empty,
        })
    }

    /// The base with the most records of a log, up to this record.
    pub(super) fn base(&self, log: &CopyStanding, until: u64) -> Option<&Object> {
        let bases = self.objects.iter().filter(|object| object.after.is_none());
        bases.filter(|base| base.last_of(log).is_some_and(|last| last <= until)).max_by_key(|base| base.last)
    }

    /// The objects with records of a log behind this one, each as far as it is needed, and the last record reached.
    fn chain(&self, log: &CopyStanding, mut at: u64, until: u64) -> (Vec<(String, u64)>, u64) {
        let mut chain = Vec::new();
        while at < until {
            let reaches = |object: &Object| {
                let after = object.after?;
                object.last_of(log).filter(|last| after <= at && at < *last)
            };
            let next =
                self.objects.iter().filter_map(|object| Some((reaches(object)?, object))).max_by_key(|(last, _)| *last);
            let Some((last, object)) = next else { break };
            at = last.min(until);
            chain.push((object.name.clone(), at));
        }
        (chain, at)
    }

    /// The objects from which this log is made again. `log` is that of the [newest](ArchiveList::newest) object.
    ///
    /// # Errors
    /// Objects are missing.
    pub fn restoration(&self, log: &CopyStanding, until: Until) -> Result<Restoration, NotArchived> {
        let until = match until {
            Until::Record(number) if number > log.last => return Err(NotArchived::Beyond { last: log.last }),
            Until::Record(number) => number,
            Until::Last | Until::Time(_) => log.last,
        };
        let base = self.base(log, until);
        let (records, last) = self.chain(log, base.map_or(0, |base| base.last), until);
        if last < until {
            let bases = self.objects.iter().filter(|object| object.after.is_none());
            let later = bases.filter_map(|base| base.last_of(log)).filter(|last| *last > until).min();
            return Err(match later.filter(|_| base.is_none() && last == 0) {
                Some(first) => NotArchived::Older { first },
                None => NotArchived::Gap { after: last, until },
            });
        }
        Ok(Restoration { base: base.map(|base| base.name.clone()), records, last })
    }

    /// The newest epoch of all objects.
    pub fn newest_epoch(&self) -> Epoch {
        self.objects.iter().map(|object| object.epoch).max().unwrap_or_default()
    }

    /// The object with this record of a log.
    pub fn object_with(&self, log: &CopyStanding, record: u64) -> Option<&str> {
        let has = |object: &&Object| {
            object.after.is_some_and(|after| after < record) && object.last_of(log).is_some_and(|last| record <= last)
        };
        self.objects.iter().find(has).map(|object| &object.name[..])
    }

    /// Whether this base is there.
    pub fn has_base(&self, offer: &Offer) -> bool {
        let base = offer.standing();
        self.objects
            .iter()
            .any(|object| object.after.is_none() && (object.epoch, object.last) == (base.epoch(), base.last))
    }

    /// The last record of a log that can be reached by what is there.
    pub fn reach(&self, log: &CopyStanding) -> u64 {
        self.chain(log, self.base(log, log.last).map_or(0, |base| base.last), log.last).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_disk::{EpochStart, Fingerprint};

    fn log(epochs: &[(u64, u64)], last: u64) -> CopyStanding {
        let start = |&(number, first): &(u64, u64)| EpochStart { epoch: Epoch { number, by: number }, first };
        let epochs = epochs.iter().map(start).collect();
        CopyStanding { store: 7, copy: 1, follows: false, promised: Epoch::default(), epochs, last }
    }

    fn records(epochs: &[(u64, u64)], after: u64, last: u64, time: u64) -> String {
        let from = log(epochs, last);
        ArchivedRecords { from, after, records: vec![Vec::new(); (last - after) as usize] }.name(time)
    }

    fn base(epochs: &[(u64, u64)], included: u64, time: u64) -> String {
        name_of_base(&Offer { from: log(epochs, included), included, files: Vec::new() }, time)
    }

    fn list(names: &[String]) -> ArchiveList {
        ArchiveList::of(names.iter().map(|name| &name[..]))
    }

    #[test]
    fn a_store_is_made_from_the_last_base_and_the_records_behind_it() {
        let names = [
            base(&[], 0, 10),
            records(&[], 0, 5, 11),
            records(&[], 5, 9, 12),
            base(&[], 7, 13),
            records(&[], 9, 12, 14),
            "records/of another program".to_owned(),
        ];
        let all = list(&names);
        assert_eq!(all.newest(Until::Last), Ok(&names[4][..]));
        let whole = all.restoration(&log(&[], 12), Until::Last).unwrap();
        let chain = vec![(names[2].clone(), 9), (names[4].clone(), 12)];
        assert_eq!(whole, Restoration { base: Some(names[3].clone()), records: chain, last: 12 });
        // The second base came later than record 6.
        let part = all.restoration(&log(&[], 12), Until::Record(6)).unwrap();
        let chain = vec![(names[1].clone(), 5), (names[2].clone(), 6)];
        assert_eq!(part, Restoration { base: Some(names[0].clone()), records: chain, last: 6 });
        assert_eq!(all.newest(Until::Time(12)), Ok(&names[2][..]));
        assert_eq!(all.newest(Until::Time(9)), Err(NotArchived::Before { first: 10 }));
        assert_eq!(all.restoration(&log(&[], 12), Until::Record(13)), Err(NotArchived::Beyond { last: 12 }));
        assert_eq!(list(&[]).newest(Until::Last), Err(NotArchived::Empty));
        assert_eq!(all.reach(&log(&[], 20)), 12);
    }

    #[test]
    fn records_that_are_missing_are_named() {
        let names = [records(&[], 0, 3, 1), records(&[], 5, 9, 2), base(&[], 8, 3)];
        let all = list(&names);
        assert_eq!(all.restoration(&log(&[], 9), Until::Record(4)), Err(NotArchived::Gap { after: 3, until: 4 }));
        assert_eq!(all.restoration(&log(&[], 9), Until::Last).unwrap().last, 9);
    }

    /// An old writer archived records up to 9. A copy that had those up to 6 was promoted, and wrote others from 7 on.
    #[test]
    fn an_old_writers_records_count_only_for_its_own_log() {
        let new: &[(u64, u64)] = &[(1, 7)];
        let names =
            [base(&[], 0, 1), records(&[], 0, 4, 2), records(&[], 4, 9, 3), records(new, 6, 8, 5), base(&[], 8, 4)];
        let all = list(&names);
        assert_eq!(all.newest(Until::Last), Ok(&names[3][..]));
        let restored = all.restoration(&log(new, 8), Until::Last).unwrap();
        let chain = vec![(names[1].clone(), 4), (names[2].clone(), 6), (names[3].clone(), 8)];
        assert_eq!(restored, Restoration { base: Some(names[0].clone()), records: chain, last: 8 });
        // Before the promotion, the old writer's log was the store.
        assert_eq!(all.newest(Until::Time(4)), Ok(&names[2][..]));
        let restored = all.restoration(&log(&[], 9), Until::Time(4)).unwrap();
        assert_eq!((restored.base, restored.last), (Some(names[4].clone()), 9));
    }

    #[test]
    fn objects_are_read_as_they_were_written_and_not_otherwise() {
        let records = vec![b"one".to_vec(), b"\n\nafter 3\n".to_vec(), Vec::new()];
        let written = ArchivedRecords { from: log(&[(2, 4)], 6), after: 3, records };
        let bytes = written.encode();
        assert_eq!(ArchivedRecords::decode(&bytes), Ok(written.clone()));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(ArchivedRecords::decode(&changed), Err(NotUnderstood::Damaged), "byte {at}");
            assert!(ArchivedRecords::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
        assert_eq!(store_of_archive(&archive_head(0xab)), Ok(0xab));
        let newer = sealed(b"vicus archive 2\nstore 1\n".to_vec());
        assert_eq!(store_of_archive(&newer), Err(NotUnderstood::Version("2".into())));
        assert_eq!(store_of_archive(b"<html>"), Err(NotUnderstood::Damaged));
        let offer = Offer { from: log(&[(2, 4)], 6), included: 5, files: Vec::new() };
        assert_eq!(base_of_archive(&archived_base(&offer)), Ok(offer));
        let file = BaseEntry { name: "base-1-data".into(), fingerprint: Fingerprint { bytes: 64, checksum: 0xab } };
        assert_eq!(name_of_base_file(&file), "base/000000ab-64-base-1-data");
    }
}
