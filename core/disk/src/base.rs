//! Base files: written once, front to back; then mapped, and read in any order.
//!
//! ```text
//!  0      header    64 bytes: magic, version, kind, checksum
//!  64     sections  bytes each begins at a multiple of 64; zeros between them
//!  T      table     for each section its name, offset and length; for each page of 64 KiB of 0..T a checksum
//!  end-64 trailer   where the table is, its checksum, a checksum of the trailer
//! ```
//!
//! A file is opened by its header, its trailer and its table: 64 bytes of table for each MiB. A page is checked against
//! its checksum when its bytes are asked for the first time; a bitmap marks the checked pages. The trailer's checksum
//! covers the table's, and the table's covers those of all pages: together with the length it is the file's
//! [`Fingerprint`]. By it a manifest names this file and no other.
//!
//! Checksums are CRC-32C (Castagnoli), with an instruction on x86-64 and AArch64: any burst of errors up to 32 bits is
//! found, and other damage but for one time in 2^32.

use crate::error::{Damage, DiskError};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vicus_files::{Directory, File, Mapping};

/// How many bytes one checksum covers.
pub const PAGE: usize = 64 << 10;

const MAGIC: &[u8; 8] = b"VICUSBAS";
const END_MAGIC: &[u8; 8] = b"VICUSEND";
const VERSION: u32 = 1;
const HEADER: usize = 64;
const TRAILER: usize = 64;
/// Sections begin at multiples of this: a cache line.
const ALIGNMENT: u64 = 64;
/// A section's name, padded with zeros.
const NAME: usize = 24;
const SECTION_ENTRY: usize = NAME + 16;
/// How much is written in one operation.
const WRITTEN_AT_ONCE: usize = 16 * PAGE;

// The words of a section are little endian in the file, and read in the mapping.
const _: () = assert!(cfg!(target_endian = "little"), "base files are mapped, and their words are little endian");

/// Identifies a base file among all others: its length, and a checksum over all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The file's length.
    pub bytes: u64,
    /// The trailer's checksum: it covers the table's, and the table's covers those of all pages.
    pub checksum: u32,
}

/// Writes a base file, front to back.
///
/// ```
/// use std::sync::Arc;
/// use vicus_disk::{BaseFile, BaseWriter};
/// use vicus_files::FakeDisk;
///
/// let disk = FakeDisk::new(1);
/// let directory = disk.process(1);
/// let mut writer = BaseWriter::create(&directory, "numbers", *b"example ")?;
/// writer.begin("squares")?;
/// writer.write_words(&[0, 1, 4, 9])?;
/// let fingerprint = writer.finish()?;
///
/// let file = BaseFile::open(&directory, "numbers", *b"example ", Some(fingerprint))?;
/// let squares = file.section("squares").expect("it was written");
/// assert_eq!(squares.words(1..3)?, [1, 4]);
/// # Ok::<(), vicus_disk::DiskError>(())
/// ```
#[derive(Debug)]
pub struct BaseWriter {
    file: Arc<dyn File>,
    /// The bytes not yet written, from a page's beginning.
    buffer: Vec<u8>,
    /// How much was written.
    written: u64,
    pages: Vec<u32>,
    sections: Vec<(String, Range<u64>)>,
    kind: [u8; 8],
}

impl BaseWriter {
    /// Begins a file of this kind, a word of eight bytes for [`BaseFile::open`] to repeat.
    ///
    /// # Errors
    /// There is a file of this name, or the system refuses.
    pub fn create(directory: &dyn Directory, name: &str, kind: [u8; 8]) -> Result<BaseWriter, DiskError> {
        let file = directory.create(name)?;
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[16..24].copy_from_slice(&kind);
        seal(&mut header);
        let (pages, sections) = (Vec::new(), Vec::new());
        Ok(BaseWriter { file, buffer: header.to_vec(), written: 0, pages, sections, kind })
    }

    /// Begins the next section. Its name has at most 24 bytes and is unique in this file.
    ///
    /// # Errors
    /// The system refuses.
    pub fn begin(&mut self, name: &str) -> Result<(), DiskError> {
        assert!(!name.is_empty() && name.len() <= NAME && !name.contains('\0'), "{name:?} is no name of a section");
        assert!(self.sections.iter().all(|(other, _)| other != name), "there is a section {name:?}");
        let offset = self.pad()?;
        self.sections.push((name.to_owned(), offset..offset));
        Ok(())
    }

    /// Adds bytes to the section.
    ///
    /// # Errors
    /// The disk is full, or the system refuses. The file can't be finished then.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), DiskError> {
        self.sections.last_mut().expect("a section was begun").1.end += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(WRITTEN_AT_ONCE - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            self.write_if_full()?;
            bytes = later;
        }
        Ok(())
    }

    /// Adds words to the section.
    ///
    /// # Errors
    /// Those of [`BaseWriter::write`].
    pub fn write_words(&mut self, mut words: &[u64]) -> Result<(), DiskError> {
        let mut bytes = [0; 4096];
        while !words.is_empty() {
            let (now, later) = words.split_at(words.len().min(bytes.len() / 8));
            for (word, place) in now.iter().zip(bytes.as_chunks_mut::<8>().0) {
                *place = word.to_le_bytes();
            }
            self.write(&bytes[..now.len() * 8])?;
            words = later;
        }
        Ok(())
    }

    /// Ends the file, and syncs it. Its name lasts only after [`Directory::sync`].
    ///
    /// # Errors
    /// Those of [`BaseWriter::write`].
    pub fn finish(mut self) -> Result<Fingerprint, DiskError> {
        let table_at = self.pad()?;
        let buffer = std::mem::take(&mut self.buffer);
        self.note_pages(&buffer);
        let mut table = Vec::new();
        for (name, range) in &self.sections {
            let mut padded = [0; NAME];
            padded[..name.len()].copy_from_slice(name.as_bytes());
            table.extend_from_slice(&padded);
            table.extend_from_slice(&range.start.to_le_bytes());
            table.extend_from_slice(&(range.end - range.start).to_le_bytes());
        }
        self.pages.iter().for_each(|checksum| table.extend_from_slice(&checksum.to_le_bytes()));
        table.resize(table.len().next_multiple_of(8), 0);
        let mut trailer = [0; TRAILER];
        let bytes = table_at + (table.len() + TRAILER) as u64;
        trailer[..8].copy_from_slice(END_MAGIC);
        trailer[8..16].copy_from_slice(&table_at.to_le_bytes());
        trailer[16..24].copy_from_slice(&(self.sections.len() as u64).to_le_bytes());
        trailer[24..32].copy_from_slice(&bytes.to_le_bytes());
        trailer[32..40].copy_from_slice(&self.kind);
        trailer[40..44].copy_from_slice(&crc32c::crc32c(&table).to_le_bytes());
        let checksum = seal(&mut trailer);
        let end = [buffer, table, trailer.to_vec()].concat();
        self.file.write_at(self.written, &end)?;
        self.file.sync()?;
        Ok(Fingerprint { bytes, checksum })
    }

    /// Fills with zeros up to the next possible beginning of a section, and gives this place.
    fn pad(&mut self) -> Result<u64, DiskError> {
        let here = self.written + self.buffer.len() as u64;
        let padded = here.next_multiple_of(ALIGNMENT);
        self.buffer.resize(self.buffer.len() + (padded - here) as usize, 0);
        self.write_if_full()?;
        Ok(padded)
    }

    fn write_if_full(&mut self) -> Result<(), DiskError> {
        // Sections begin at multiples of a divisor of this number.
        debug_assert!(self.buffer.len() <= WRITTEN_AT_ONCE);
        if self.buffer.len() == WRITTEN_AT_ONCE {
            let mut buffer = std::mem::take(&mut self.buffer);
            self.note_pages(&buffer);
            self.file.write_at(self.written, &buffer)?;
            self.written += buffer.len() as u64;
            buffer.clear();
            self.buffer = buffer;
        }
        Ok(())
    }

    fn note_pages(&mut self, bytes: &[u8]) {
        self.pages.extend(bytes.chunks(PAGE).map(crc32c::crc32c));
    }
}

/// Puts the checksum of all but the last four bytes there.
pub(crate) fn seal(bytes: &mut [u8]) -> u32 {
    let at = bytes.len() - 4;
    let checksum = crc32c::crc32c(&bytes[..at]);
    bytes[at..].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// The checksum in the last four bytes, if it is that of the others.
pub(crate) fn sealed(bytes: &[u8]) -> Option<u32> {
    let (body, checksum) = bytes.split_last_chunk::<4>()?;
    let checksum = u32::from_le_bytes(*checksum);
    (crc32c::crc32c(body) == checksum).then_some(checksum)
}

/// The number at a place in bytes of sufficient length.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The number at a place in bytes of sufficient length.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// An open base file.
pub struct BaseFile {
    path: String,
    bytes: Mapping,
    /// The beginning of the table, and the end of the pages.
    table: usize,
    sections: Vec<(String, Range<usize>)>,
    /// The beginning of the pages' checksums.
    checksums: usize,
    /// A bit for each page checked and found right. Readers race here at worst to check a page twice, and the bytes
    /// don't change, so no order of memory is needed.
    right: Box<[AtomicU64]>,
}

impl BaseFile {
    /// Opens a file of this kind; the one with this fingerprint, if it is given. No page is read.
    ///
    /// # Errors
    /// It is another file, of a newer format, cut, or damaged in its description of its content.
    pub fn open(
        directory: &dyn Directory,
        name: &str,
        kind: [u8; 8],
        fingerprint: Option<Fingerprint>,
    ) -> Result<Arc<BaseFile>, DiskError> {
        BaseFile::open_before_rename(directory, name, name, kind, fingerprint)
    }

    /// Like [`BaseFile::open`], with another name in errors: the file's future one.
    pub(crate) fn open_before_rename(
        directory: &dyn Directory,
        name: &str,
        next_name: &str,
        kind: [u8; 8],
        fingerprint: Option<Fingerprint>,
    ) -> Result<Arc<BaseFile>, DiskError> {
        let path = directory.path(next_name);
        let bytes = directory.map(name)?;
        let damaged = |offset: usize, what: &str| DiskError::damaged(path.clone(), offset as u64, what);
        let foreign = |expected| DiskError::Foreign { file: path.clone(), expected };
        let Some(header) = bytes.get(..HEADER) else { return Err(damaged(bytes.len(), "it ends in its header")) };
        if header[..8] != *MAGIC {
            return Err(foreign("a base file of Vicus"));
        }
        let version = u32_at(header, 8);
        if version > VERSION {
            return Err(DiskError::Newer { file: path, version, newest: VERSION });
        }
        if sealed(header).is_none() || version != VERSION {
            return Err(damaged(0, "its header does not have its checksum"));
        }
        if header[16..24] != kind {
            return Err(foreign("a base file of this kind"));
        }
        let trailer_at = bytes.len().saturating_sub(TRAILER).max(HEADER);
        let trailer = &bytes[trailer_at..];
        let whole = trailer.len() == TRAILER && trailer[..8] == *END_MAGIC && trailer[32..40] == kind;
        let Some(checksum) = sealed(trailer).filter(|_| whole && u64_at(trailer, 24) == bytes.len() as u64) else {
            return Err(damaged(trailer_at, "it does not end as it was written; it may have been cut"));
        };
        let found = Fingerprint { bytes: bytes.len() as u64, checksum };
        if let Some(expected) = fingerprint.filter(|expected| *expected != found) {
            let what = format!(
                "it is another file than the manifest names: {} bytes with checksum {:08x} instead of {} with {:08x}",
                found.bytes, found.checksum, expected.bytes, expected.checksum
            );
            return Err(damaged(trailer_at, &what));
        }
        let (table_at, count) = (u64_at(trailer, 8), u64_at(trailer, 16));
        // The trailer is right, so these numbers are as written; they are checked all the same before they are used.
        let layout = || -> Option<(usize, usize)> {
            let table = usize::try_from(table_at).ok().filter(|&at| at >= HEADER && at <= trailer_at)?;
            let checksums = table.checked_add(usize::try_from(count).ok()?.checked_mul(SECTION_ENTRY)?)?;
            let end = checksums.checked_add(table.div_ceil(PAGE) * 4)?;
            (end.checked_next_multiple_of(8)? == trailer_at).then_some((table, checksums))
        };
        let (table, checksums) = layout().ok_or_else(|| damaged(trailer_at, "its table has no place"))?;
        if crc32c::crc32c(&bytes[table..trailer_at]) != u32_at(trailer, 40) {
            return Err(damaged(table, "its table does not have its checksum"));
        }
        let section = |entry: &[u8; SECTION_ENTRY]| -> Option<(String, Range<usize>)> {
            let name = entry[..NAME].split(|&byte| byte == 0).next()?;
            let begin = usize::try_from(u64_at(entry, NAME)).ok()?;
            let end = begin.checked_add(usize::try_from(u64_at(entry, NAME + 8)).ok()?)?;
            let fits = begin >= HEADER && end <= table && begin.is_multiple_of(ALIGNMENT as usize);
            Some((std::str::from_utf8(name).ok()?.to_owned(), begin..end)).filter(|_| fits)
        };
        let entries = bytes[table..checksums].as_chunks::<SECTION_ENTRY>().0;
        let sections: Option<Vec<_>> = entries.iter().map(section).collect();
        let sections = sections.ok_or_else(|| damaged(table, "its table names a section that has no place"))?;
        let words = table.div_ceil(PAGE).div_ceil(64);
        let right = std::iter::repeat_with(AtomicU64::default).take(words).collect();
        Ok(Arc::new(BaseFile { path, bytes, table, sections, checksums, right }))
    }

    /// The path of the file, for messages.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The section of this name.
    pub fn section(self: &Arc<Self>, name: &str) -> Option<Section> {
        let (_, range) = self.sections.iter().find(|(found, _)| found == name)?;
        Some(Section { file: self.clone(), range: range.clone() })
    }

    /// The names of all sections, in order.
    pub fn sections(&self) -> impl Iterator<Item = &str> {
        self.sections.iter().map(|(name, _)| &name[..])
    }

    /// The damage if the file was shortened or written to since it was opened, or if its drive could not read it: the
    /// bytes read may be zeros, or differ from the checked ones. Asked after a read, it answers for that read. Takes a
    /// call of the system.
    pub fn lost(&self) -> Option<Damage> {
        let what = "it was shortened while it was open, or its drive can't read it; \
                    put a copy of the file or of the store in its place, and start this process anew";
        let damage = |offset, what: &str| Damage { file: self.path.clone(), offset, what: what.to_owned() };
        if let Some(offset) = self.bytes.lost_from() {
            return Some(damage(offset, what));
        }
        let what = "another program wrote to it while it was open; start this process anew, so that it checks the \
                    file, and if it is damaged, put a copy of the file or of the store in its place";
        self.bytes.was_written().then(|| damage(0, what))
    }

    /// Checks all pages, also those found right before.
    ///
    /// # Errors
    /// The first page changed since it was written.
    pub fn verify(&self) -> Result<(), Box<Damage>> {
        (0..self.pages()).try_for_each(|page| self.check_page(page))
    }

    /// Copies bytes from a place on, of any part of the file, and checks all pages that they are of, also those found
    /// right before.
    ///
    /// # Errors
    /// The first page changed since it was written, or the table or the trailer was changed since the file was opened.
    ///
    /// # Panics
    /// The file has fewer bytes.
    pub fn read_checked(&self, at: u64, into: &mut [u8]) -> Result<(), Box<Damage>> {
        let range = at as usize..at as usize + into.len();
        into.copy_from_slice(&self.bytes[range.clone()]);
        let of_pages = range.start..range.end.min(self.table);
        if !of_pages.is_empty() {
            (of_pages.start / PAGE..of_pages.end.div_ceil(PAGE)).try_for_each(|page| self.check_page(page))?;
        }
        let trailer = self.bytes.len() - TRAILER;
        if range.end > self.table {
            let is_right = sealed(&self.bytes[trailer..]).is_some()
                && crc32c::crc32c(&self.bytes[self.table..trailer]) == u32_at(&self.bytes[trailer..], 40);
            if !is_right {
                let what = "its table does not have its checksum any more".to_owned();
                return Err(Box::new(Damage { file: self.path.clone(), offset: self.table as u64, what }));
            }
        }
        self.lost().map_or(Ok(()), |lost| Err(Box::new(lost)))
    }

    fn pages(&self) -> usize {
        self.table.div_ceil(PAGE)
    }

    fn is_right(&self, page: usize) -> bool {
        self.right[page / 64].load(Ordering::Relaxed) & (1 << (page % 64)) != 0
    }

    /// Checks the unchecked pages of a range of bytes.
    #[inline]
    fn ensure(&self, range: Range<usize>) -> Result<(), Box<Damage>> {
        let (first, last) = (range.start / PAGE, range.end.saturating_sub(1).max(range.start) / PAGE);
        match first == last && (range.is_empty() || self.is_right(first)) {
            true => Ok(()),
            false => self.check_pages(first..last + 1),
        }
    }

    #[cold]
    fn check_pages(&self, mut pages: Range<usize>) -> Result<(), Box<Damage>> {
        pages.try_for_each(|page| if self.is_right(page) { Ok(()) } else { self.check_page(page) })
    }

    fn check_page(&self, page: usize) -> Result<(), Box<Damage>> {
        let bytes = &self.bytes[page * PAGE..((page + 1) * PAGE).min(self.table)];
        if crc32c::crc32c(bytes) != u32_at(&self.bytes, self.checksums + page * 4) {
            if let Some(lost) = self.lost() {
                return Err(Box::new(lost));
            }
            let what = format!("page {page} ({} bytes) does not have its checksum", bytes.len());
            return Err(Box::new(Damage { file: self.path.clone(), offset: (page * PAGE) as u64, what }));
        }
        self.right[page / 64].fetch_or(1 << (page % 64), Ordering::Relaxed);
        Ok(())
    }
}

impl fmt::Debug for BaseFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BaseFile").field("path", &self.path).field("sections", &self.sections).finish_non_exhaustive()
    }
}

/// A part of a base file. It keeps the file open.
#[derive(Clone, Debug)]
pub struct Section {
    file: Arc<BaseFile>,
    range: Range<usize>,
}

impl Section {
    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The damage of bytes from here on that are as they were written, and make no sense to their reader.
    pub fn senseless(&self, at: usize, what: &str) -> Damage {
        let offset = (self.range.start + at) as u64;
        Damage { file: self.file.path.clone(), offset, what: what.to_owned() }
    }

    /// Some of its bytes; their pages are checked if they never were. Later calls cost a test of a bit.
    ///
    /// # Errors
    /// A page is not as it was written.
    ///
    /// # Panics
    /// The section ends before the range does.
    #[inline]
    pub fn bytes(&self, range: Range<usize>) -> Result<&[u8], Box<Damage>> {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of {} bytes", self.len());
        let range = self.range.start + range.start..self.range.start + range.end;
        self.file.ensure(range.clone())?;
        Ok(&self.file.bytes[range])
    }

    /// Some of its words of eight bytes; otherwise as [`Section::bytes`].
    ///
    /// # Errors
    /// A page is not as it was written.
    ///
    /// # Panics
    /// The section ends before the range does.
    #[inline]
    pub fn words(&self, range: Range<usize>) -> Result<&[u64], Box<Damage>> {
        self.bytes(range.start * 8..range.end * 8).map(as_words)
    }

    /// All its bytes, unchecked: for a hot loop over single rows that has asked for their range by [`Section::bytes`]
    /// before.
    #[inline]
    pub fn unchecked(&self) -> &[u8] {
        &self.file.bytes[self.range.clone()]
    }
}

/// Bytes as words: a section begins at a multiple of 64 in a mapping that begins at a multiple of 8.
#[inline]
fn as_words(bytes: &[u8]) -> &[u64] {
    #[expect(unsafe_code, reason = "reads mapped bytes as words")]
    // SAFETY: all bits of a word are valid, for any bytes.
    let (before, words, after) = unsafe { bytes.align_to::<u64>() };
    assert!(before.is_empty() && after.is_empty(), "a mapping begins at a multiple of 8");
    words
}
