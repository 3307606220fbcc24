//! Questions, answers and offers as bytes: lines of text, and behind an empty line the records.
//!
//! ```text
//! vicus copies 2
//! store 00000000000004d2
//! copy 0000000000000007 follows
//! promised 2 00000000000000aa
//! epoch 2 00000000000000aa 345
//! last 400
//! ```

use super::decide::{Content, CopyAnswer, CopyStanding, Refused};
use std::fmt::{self, Write};
use vicus_disk::{BaseEntry, Epoch, EpochStart, Fingerprint};

/// The version of the messages. Copies with different ones don't understand each other.
pub const PROTOCOL: u32 = 2;

/// A copy with more records is none: adding to the numbers of records is no overflow.
const MOST_RECORDS: u64 = u64::MAX / 2;

/// A form of bytes, as their first line tells it.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) first: &'static str,
    pub(super) version: u32,
}

/// The form of messages. That of an archive's objects is another one, since they outlive the protocol.
pub(super) const MESSAGE: Form = Form { first: "vicus copies ", version: PROTOCOL };

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotUnderstood {
    /// They are of another program.
    Foreign,
    /// They are of a Vicus with another version of the messages.
    Version(
        /// Its version.
        String,
    ),
    /// They are cut off, or were changed on their way.
    Damaged,
}

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotUnderstood::Foreign => f.write_str("no server of Vicus with copies answers there"),
            NotUnderstood::Version(version) => write!(
                f,
                "the other Vicus speaks version {version} of the protocol for copies, and this one version {PROTOCOL}: \
                 update the older one"
            ),
            NotUnderstood::Damaged => f.write_str("a message was cut off or changed on its way"),
        }
    }
}

impl std::error::Error for NotUnderstood {}

/// A base that can be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The copy that offers it, with the epochs of all its records.
    pub from: CopyStanding,
    /// The base has all records up to this one.
    pub included: u64,
    /// Its files.
    pub files: Vec<BaseEntry>,
}

impl Offer {
    /// The bytes of all files; `None` if no number tells them. Those of an offer that was read have one.
    pub fn bytes(&self) -> Option<u64> {
        self.files.iter().try_fold(0_u64, |sum, entry| sum.checked_add(entry.fingerprint.bytes))
    }

    /// The base, as a copy that has nothing else.
    pub fn standing(&self) -> CopyStanding {
        self.from.clone().up_to(self.included)
    }
}

pub(super) fn begin(form: Form) -> String {
    format!("{}{}\n", form.first, form.version)
}

fn put_epoch(text: &mut String, key: &str, epoch: Epoch) {
    writeln!(text, "{key} {} {:016x}", epoch.number, epoch.by).expect("text grows");
}

/// The lines of a message by their first words.
pub(super) struct Lines<'a>(std::iter::Peekable<std::str::Lines<'a>>);

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str, form: Form) -> Result<Lines<'a>, NotUnderstood> {
        let mut lines = text.lines().peekable();
        let version = lines.next().and_then(|line| line.strip_prefix(form.first)).ok_or(NotUnderstood::Foreign)?;
        if version != form.version.to_string() {
            let shown = version.chars().take(20).filter(|c| c.is_ascii_graphic()).collect();
            return Err(NotUnderstood::Version(shown));
        }
        Ok(Lines(lines))
    }

    /// The words behind the key of the next line, if it has this key.
    pub(super) fn next(&mut self, key: &str) -> Option<Vec<&'a str>> {
        let line = self.0.peek()?;
        let words = line.strip_prefix(key)?.strip_prefix(' ')?.split(' ').collect();
        self.0.next();
        Some(words)
    }

    pub(super) fn number(&mut self, key: &str) -> Option<u64> {
        let words = self.next(key)?;
        let [number] = words[..] else { return None };
        number.parse().ok()
    }

    /// The first word of the next line.
    fn key(&mut self) -> Option<&'a str> {
        self.0.peek().and_then(|line| line.split(' ').next())
    }

    /// The records behind the message.
    pub(super) fn records(&mut self, behind: Option<&[u8]>) -> Option<Vec<Vec<u8>>> {
        let words = self.next("records")?;
        let ([count, length, checksum], behind) = (&words[..], behind?) else { return None };
        let checksum = u32::from_str_radix(checksum, 16).ok()?;
        if behind.len().to_string() != **length || crc32c::crc32c(behind) != checksum {
            return None;
        }
        split(behind).filter(|records| records.len().to_string() == **count)
    }

    fn epoch(&mut self, key: &str) -> Option<Epoch> {
        let words = self.next(key)?;
        let [number, by] = words[..] else { return None };
        Epoch::of(number.parse().ok()?, hex(by)?)
    }

    pub(super) fn standing(&mut self) -> Option<CopyStanding> {
        let store = hex(self.next("store")?.first()?)?;
        let words = self.next("copy")?;
        let [copy, role] = words[..] else { return None };
        let (copy, follows) = (hex(copy)?, role == "follows");
        let promised = self.epoch("promised")?;
        let mut epochs: Vec<EpochStart> = Vec::new();
        while let Some(words) = self.next("epoch") {
            let [number, by, first] = words[..] else { return None };
            let epoch = Epoch::of(number.parse().ok()?, hex(by)?)?;
            let start = EpochStart { epoch, first: first.parse().ok()? };
            let ascends = epochs.last().is_none_or(|last| last.epoch < start.epoch && last.first < start.first);
            if !ascends || start.first == 0 || start.epoch == Epoch::default() {
                return None;
            }
            epochs.push(start);
        }
        let last = self.number("last").filter(|last| *last <= MOST_RECORDS)?;
        Some(CopyStanding { store, copy, follows, promised, epochs, last })
    }
}

fn hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word, 16).ok()
}

pub(super) fn text(bytes: &[u8]) -> Result<&str, NotUnderstood> {
    std::str::from_utf8(bytes).map_err(|_| NotUnderstood::Foreign)
}

impl CopyStanding {
    pub(super) fn put(&self, text: &mut String) {
        let CopyStanding { store, copy, follows, promised, epochs, last } = self;
        let role = if *follows { "follows" } else { "writes" };
        writeln!(text, "store {store:016x}\ncopy {copy:016x} {role}").expect("text grows");
        put_epoch(text, "promised", *promised);
        for EpochStart { epoch: Epoch { number, by }, first } in epochs {
            writeln!(text, "epoch {number} {by:016x} {first}").expect("text grows");
        }
        writeln!(text, "last {last}").expect("text grows");
    }

    /// The standing as a message.
    pub fn encode(&self) -> String {
        let mut text = begin(MESSAGE);
        self.put(&mut text);
        text
    }

    /// Reads a message.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(bytes: &[u8]) -> Result<CopyStanding, NotUnderstood> {
        Lines::of(text(bytes)?, MESSAGE)?.standing().ok_or(NotUnderstood::Damaged)
    }
}

impl Offer {
    /// The offer as a message.
    pub fn encode(&self) -> String {
        self.encode_as(MESSAGE)
    }

    pub(super) fn encode_as(&self, form: Form) -> String {
        let mut text = begin(form);
        self.from.put(&mut text);
        writeln!(text, "included {}", self.included).expect("text grows");
        for BaseEntry { name, fingerprint } in &self.files {
            writeln!(text, "file {name} {} {:08x}", fingerprint.bytes, fingerprint.checksum).expect("text grows");
        }
        text
    }

    /// Reads a message.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(bytes: &[u8]) -> Result<Offer, NotUnderstood> {
        Offer::decode_as(bytes, MESSAGE)
    }

    pub(super) fn decode_as(bytes: &[u8], form: Form) -> Result<Offer, NotUnderstood> {
        let mut lines = Lines::of(text(bytes)?, form)?;
        let mut read = || {
            let (from, included) = (lines.standing()?, lines.number("included")?);
            let mut files = Vec::new();
            while let Some(words) = lines.next("file") {
                let [name, bytes, checksum] = words[..] else { return None };
                let checksum = u32::from_str_radix(checksum, 16).ok()?;
                let name = Some(name).filter(|name| vicus_files::is_plain(name))?.to_owned();
                files.push(BaseEntry { name, fingerprint: Fingerprint { bytes: bytes.parse().ok()?, checksum } });
            }
            let offer = Offer { from, included, files };
            (offer.bytes().is_some() && included <= offer.from.last).then_some(offer)
        };
        read().ok_or(NotUnderstood::Damaged)
    }
}

impl Refused {
    const ALL: [(Refused, &'static str); 3] =
        [(Refused::OtherStore, "other-store"), (Refused::Itself, "itself"), (Refused::Behind, "behind")];
}

impl CopyAnswer {
    /// The answer as a message.
    pub fn encode(&self) -> Vec<u8> {
        let CopyAnswer { store, epoch, last, included, to, content } = self;
        let mut text = begin(MESSAGE);
        writeln!(text, "store {store:016x}").expect("text grows");
        put_epoch(&mut text, "epoch", *epoch);
        writeln!(text, "last {last}\nincluded {included}\nto {}", to.0).expect("text grows");
        put_epoch(&mut text, "of", to.1);
        match content {
            Content::Records(records) => return put_records(text, records),
            Content::Cut(after) => writeln!(text, "cut {after}"),
            Content::Base => writeln!(text, "base now"),
            Content::Refused(refused) => {
                let (_, word) = Refused::ALL.into_iter().find(|(each, _)| each == refused).expect("all are there");
                writeln!(text, "refused {word}")
            }
        }
        .expect("text grows");
        text.push('\n');
        text.into_bytes()
    }

    /// Reads a message.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(bytes: &[u8]) -> Result<CopyAnswer, NotUnderstood> {
        let (mut lines, behind) = take_records(bytes, MESSAGE)?;
        let mut read = || {
            let store = hex(lines.next("store")?.first()?)?;
            let (epoch, last) = (lines.epoch("epoch")?, lines.number("last")?);
            let included = lines.number("included").filter(|included| *included <= last)?;
            let to = (lines.number("to")?, lines.epoch("of")?);
            let content = if lines.key() == Some("records") {
                Content::Records(lines.records(behind)?)
            } else if let Some(after) = lines.number("cut") {
                Content::Cut(after)
            } else if lines.next("base").is_some() {
                Content::Base
            } else {
                let word = *lines.next("refused")?.first()?;
                Content::Refused(Refused::ALL.into_iter().find(|(_, each)| *each == word)?.0)
            };
            behind.map(|_| CopyAnswer { store, epoch, last, included, to, content })
        };
        read().ok_or(NotUnderstood::Damaged)
    }
}

/// A message with records behind its lines.
pub(super) fn put_records(mut text: String, records: &[Vec<u8>]) -> Vec<u8> {
    let mut behind = Vec::with_capacity(records.iter().map(|record| record.len() + 8).sum());
    for record in records {
        behind.extend_from_slice(&(record.len() as u64).to_le_bytes());
        behind.extend_from_slice(record);
    }
    // The network's checksums are of 16 bits.
    writeln!(text, "records {} {} {:08x}\n", records.len(), behind.len(), crc32c::crc32c(&behind)).expect("text grows");
    [text.into_bytes(), behind].concat()
}

/// The lines of a message, and the bytes behind the empty one, if it is there: another version may have none.
pub(super) fn take_records(bytes: &[u8], form: Form) -> Result<(Lines<'_>, Option<&[u8]>), NotUnderstood> {
    if !bytes.starts_with(form.first.as_bytes()) {
        return Err(NotUnderstood::Foreign);
    }
    let end = bytes.windows(2).position(|two| two == b"\n\n");
    let (head, behind) = end.map_or((bytes, None), |end| (&bytes[..end], Some(&bytes[end + 2..])));
    Ok((Lines::of(text(head)?, form)?, behind))
}

fn split(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (record, rest) = rest.split_at_checked(length)?;
        records.push(record.to_vec());
        bytes = rest;
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing() -> CopyStanding {
        let start = |number, first| EpochStart { epoch: Epoch { number, by: 0xab }, first };
        let promised = Epoch { number: 3, by: 1 };
        CopyStanding { store: 7, copy: 9, follows: true, promised, epochs: vec![start(1, 4), start(2, 9)], last: 12 }
    }

    #[test]
    fn messages_are_read_as_they_were_written_and_not_otherwise() {
        let copy = standing();
        assert_eq!(CopyStanding::decode(copy.encode().as_bytes()), Ok(copy.clone()));
        let file = BaseEntry { name: "base-1-data".into(), fingerprint: Fingerprint { bytes: 64, checksum: 5 } };
        let offer = Offer { from: copy.clone(), included: 8, files: vec![file] };
        assert_eq!(Offer::decode(offer.encode().as_bytes()), Ok(offer.clone()));
        assert_eq!(offer.standing().epochs.len(), 1, "the base has the first one");
        let records = vec![b"one".to_vec(), Vec::new(), b"\n\nthree".to_vec()];
        let contents = [Content::Records(records), Content::Records(Vec::new()), Content::Cut(4), Content::Base];
        for content in contents.into_iter().chain(Refused::ALL.map(|(refused, _)| Content::Refused(refused))) {
            let answer = copy.answer(&copy, 5, content);
            let bytes = answer.encode();
            assert_eq!(CopyAnswer::decode(&bytes), Ok(answer.clone()));
            for end in 0..bytes.len() - 1 {
                assert_ne!(CopyAnswer::decode(&bytes[..end]), Ok(answer.clone()), "cut at {end}");
            }
        }
    }

    #[test]
    fn other_programs_and_other_versions_are_told_apart() {
        let page = b"<!DOCTYPE html>\n<html></html>";
        assert_eq!(CopyAnswer::decode(page), Err(NotUnderstood::Foreign));
        assert_eq!(CopyStanding::decode(page), Err(NotUnderstood::Foreign));
        let newer = Err(NotUnderstood::Version("3".into()));
        assert_eq!(CopyStanding::decode(b"vicus copies 3\nstore 1\n"), newer);
        let mut changed = standing().answer(&standing(), 5, Content::Records(vec![vec![1, 2, 3]])).encode();
        *changed.last_mut().unwrap() ^= 4;
        assert_eq!(CopyAnswer::decode(&changed), Err(NotUnderstood::Damaged));
        let beyond = standing().answer(&standing(), standing().last + 1, Content::Base).encode();
        assert_eq!(CopyAnswer::decode(&beyond), Err(NotUnderstood::Damaged), "it includes what is not durable there");
        // Epochs that do not ascend would be compared wrongly.
        let text = standing().encode().replace("epoch 2", "epoch 1");
        assert_eq!(CopyStanding::decode(text.as_bytes()), Err(NotUnderstood::Damaged));
    }

    /// Adding to them would be an overflow.
    #[test]
    fn numbers_that_are_too_great_are_refused() {
        for (old, new) in [
            ("promised 3 ", "promised 18446744073709551615 "),
            ("promised 3 ", "promised 4294967297 "),
            ("epoch 2 ", "epoch 4294967297 "),
            ("last 12", "last 18446744073709551615"),
        ] {
            let text = standing().encode().replace(old, new);
            assert!(text.contains(new), "{text}");
            assert_eq!(CopyStanding::decode(text.as_bytes()), Err(NotUnderstood::Damaged), "{new}");
        }
        let half = Fingerprint { bytes: 1 << 63, checksum: 5 };
        let files = ["base-1", "base-2"].map(|name| BaseEntry { name: name.into(), fingerprint: half });
        let mut offer = Offer { from: standing(), included: 8, files: files.to_vec() };
        assert_eq!(Offer::decode(offer.encode().as_bytes()), Err(NotUnderstood::Damaged));
        offer.files.pop();
        assert_eq!(Offer::decode(offer.encode().as_bytes()), Ok(offer.clone()));
        offer.included = offer.from.last + 1;
        assert_eq!(Offer::decode(offer.encode().as_bytes()), Err(NotUnderstood::Damaged));
    }
}
