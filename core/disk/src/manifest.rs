//! The manifest: the list of the store's files. It is the file `CURRENT`, a few lines of text, replaced by a rename.
//!
//! ```text
//! vicus store
//! format 1
//! store 00000000000004d2
//! generation 7
//! included 3456
//! log 12
//! file base-00000007-data 1234567 89abcdef
//! checksum 01234567
//! ```
//!
//! Format 2 has further lines before those of files, for a store that is one of several copies: `copy`, with the copy's
//! identity and `follows` or `writes`; `promised`, with an epoch; and `epoch` for each one begun in the base, with its
//! first record. A store without them is written in format 1.
//!
//! Numbers are written in one way only, and the checksum covers all before it: a manifest with any other byte is
//! refused.

use crate::base::Fingerprint;
use crate::error::DiskError;
use std::fmt::{self, Write};
use vicus_files::{Directory, OpenMode, is_plain};

/// The manifest's file.
pub(crate) const CURRENT: &str = "CURRENT";
/// The next manifest, while it is written.
pub(crate) const NEXT: &str = "CURRENT.new";
/// The manifest of a store that is being restored, in place of [`CURRENT`].
pub(crate) const HIDDEN: &str = "CURRENT.hidden";
const FIRST_LINE: &str = "vicus store\n";
const FOLLOWS: &str = "follows";
const WRITES: &str = "writes";
/// The newest readable format.
const FORMAT: u32 = 2;
/// A longer file is no manifest.
const LONGEST: u64 = 16 << 20;

/// One of a store's base files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseEntry {
    /// Its file's name.
    pub name: String,
    /// Identifies it among other files.
    pub fingerprint: Fingerprint,
}

/// The turn of one writer of a store that has copies: a number, and the writer's own. The epoch with the greater number
/// is newer; of two with the same number, begun by chance at once, the one with the greater `by` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch {
    /// Counts the writers. The epoch of a store without copies is 0.
    pub number: u64,
    /// Chosen by chance when the epoch was begun.
    pub by: u64,
}

impl Epoch {
    /// The greatest number of an epoch. Fewer writers follow each other, and adding to it is no overflow.
    pub const MOST: u64 = 1 << 32;

    /// An epoch, unless its number is greater than that of any.
    pub fn of(number: u64, by: u64) -> Option<Epoch> {
        (number <= Epoch::MOST).then_some(Epoch { number, by })
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// The beginning of an epoch in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    /// The epoch.
    pub epoch: Epoch,
    /// The sequence number of its first record.
    pub first: u64,
}

/// A store's place among the copies of the same data. By default it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The identity of this copy; 0 before it has one.
    pub copy: u64,
    /// Whether another copy writes, and this one takes its records.
    pub follows: bool,
    /// The newest epoch known here: records of an older one are refused.
    pub promised: Epoch,
    /// The epochs begun by records, ascending.
    pub epochs: Vec<EpochStart>,
}

impl Lineage {
    /// The epoch of the last record.
    pub fn epoch(&self) -> Epoch {
        self.epochs.last().map_or(Epoch::default(), |start| start.epoch)
    }
}

/// The list of the store's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The store's number, chosen when it was created: files of another store are refused.
    pub store: u64,
    /// How many generations of base files were published or tried before. It only grows.
    pub generation: u64,
    /// The base files include the log up to the record of this sequence number.
    pub included: u64,
    /// The number of the first needed segment of the log, present or not. An older one may come back when power is
    /// lost, since nothing waits until its removal lasts; it is no part of the store.
    pub log: u64,
    /// Its place among copies. The epochs are those of the base files.
    pub lineage: Lineage,
    /// The base files.
    pub files: Vec<BaseEntry>,
}

impl Manifest {
    /// Reads the manifest of a directory; `None` if it has none.
    ///
    /// # Errors
    /// The system refuses, or the file is no manifest, damaged, or of a newer version.
    pub(crate) fn read(directory: &dyn Directory) -> Result<Option<Manifest>, DiskError> {
        let file = match directory.open(CURRENT, OpenMode::Read) {
            Err(error) if error.is_missing() => return Ok(None),
            opened => opened?,
        };
        let bytes = file.len()?;
        let path = directory.path(CURRENT);
        let length = usize::try_from(bytes).ok().filter(|_| bytes <= LONGEST);
        let Some(length) = length else {
            return Err(DiskError::Foreign { file: path, expected: "a store's manifest" });
        };
        let mut text = vec![0; length];
        file.read_at(0, &mut text)?;
        Manifest::parse(&text, &path).map(Some)
    }

    /// Whether a manifest may begin like this while it is written, or after power was lost: missing bytes may then be
    /// zeros.
    pub(crate) fn may_begin(bytes: &[u8]) -> bool {
        bytes.iter().zip(FIRST_LINE.as_bytes()).all(|(byte, written)| [0, *written].contains(byte))
    }

    /// Writes it as the next manifest, and makes it the current one. The caller syncs the directory.
    pub(crate) fn write_next(&self, directory: &dyn Directory) -> Result<(), DiskError> {
        match directory.remove(NEXT) {
            Err(error) if !error.is_missing() => return Err(error.into()),
            _ => {}
        }
        let file = directory.create(NEXT)?;
        file.write_at(0, self.text().as_bytes())?;
        Ok(file.sync()?)
    }

    fn text(&self) -> String {
        let Lineage { copy, follows, promised, epochs } = &self.lineage;
        let format = if self.lineage == Lineage::default() { 1 } else { FORMAT };
        let mut text =
            format!("{FIRST_LINE}format {format}\nstore {:016x}\ngeneration {}\n", self.store, self.generation);
        writeln!(text, "included {}\nlog {}", self.included, self.log).expect("text grows");
        if format > 1 {
            writeln!(text, "copy {copy:016x} {}", if *follows { FOLLOWS } else { WRITES }).expect("text grows");
            writeln!(text, "promised {} {:016x}", promised.number, promised.by).expect("text grows");
        }
        for EpochStart { epoch: Epoch { number, by }, first } in epochs {
            writeln!(text, "epoch {number} {by:016x} {first}").expect("text grows");
        }
        for BaseEntry { name, fingerprint } in &self.files {
            writeln!(text, "file {name} {} {:08x}", fingerprint.bytes, fingerprint.checksum).expect("text grows");
        }
        let checksum = crc32c::crc32c(text.as_bytes());
        writeln!(text, "checksum {checksum:08x}").expect("text grows");
        text
    }

    fn parse(bytes: &[u8], path: &str) -> Result<Manifest, DiskError> {
        let Some(rest) = bytes.strip_prefix(FIRST_LINE.as_bytes()) else {
            return Err(DiskError::Foreign { file: path.to_owned(), expected: "a store's manifest" });
        };
        let format = rest.strip_prefix(b"format ").and_then(|rest| rest.split(|&byte| byte == b'\n').next());
        let format = format.and_then(|format| std::str::from_utf8(format).ok()?.parse::<u32>().ok());
        if let Some(version) = format.filter(|&format| format > FORMAT) {
            return Err(DiskError::Newer { file: path.to_owned(), version, newest: FORMAT });
        }
        let parsed = std::str::from_utf8(bytes).ok().and_then(Manifest::parse_lines);
        // Beyond the reading of lines, only the text written for the same manifest is right.
        parsed
            .filter(|manifest| manifest.text().as_bytes() == bytes)
            .ok_or_else(|| DiskError::damaged(path.to_owned(), 0, "its lines do not have their checksum"))
    }

    fn parse_lines(text: &str) -> Option<Manifest> {
        let mut lines = text.strip_prefix(FIRST_LINE)?.lines().skip(1);
        let mut after = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ');
        let store = u64::from_str_radix(after("store")?, 16).ok()?;
        let generation = after("generation")?.parse().ok()?;
        let included = after("included")?.parse().ok()?;
        let log = after("log")?.parse().ok()?;
        let (mut lineage, mut files) = (Lineage::default(), Vec::new());
        for line in lines {
            let mut words = line.split(' ');
            let key = words.next()?;
            let hex = |word: &str| u64::from_str_radix(word, 16).ok();
            match key {
                "copy" => {
                    lineage.copy = hex(words.next()?)?;
                    lineage.follows = words.next()? == FOLLOWS;
                }
                "promised" => lineage.promised = Epoch { number: words.next()?.parse().ok()?, by: hex(words.next()?)? },
                "epoch" => {
                    let epoch = Epoch { number: words.next()?.parse().ok()?, by: hex(words.next()?)? };
                    lineage.epochs.push(EpochStart { epoch, first: words.next()?.parse().ok()? });
                }
                "file" => {
                    let name = words.next().filter(|name| is_plain(name))?.to_owned();
                    let bytes = words.next()?.parse().ok()?;
                    let checksum = u32::from_str_radix(words.next()?, 16).ok()?;
                    files.push(BaseEntry { name, fingerprint: Fingerprint { bytes, checksum } });
                }
                _ => break,
            }
        }
        Some(Manifest { store, generation, included, log, lineage, files })
    }
}
