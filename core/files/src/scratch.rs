//! Temporary storage for data larger than memory: runs of bytes, written front to back, and read again by the same
//! process.
//!
//! ```text
//!  Scratch ── begin ──▶ Writing ── finish ──▶ Written ── read ──▶ Reading    in sequence, one block at a time
//!                                                 └───── map ──▶ Mapped      anywhere
//! ```
//!
//! Each run is a temporary file ([`Directory::temporary`]): it has no name, so it is gone when its last owner is
//! dropped, and when the process ends in any way. Nothing is ever synced, as nothing has to outlast a crash. Runs of a
//! [`Bundle`] share a file, each with blocks of its own: there may be any number of runs, but only some thousand open
//! files.
//!
//! A checksum of each block stays in memory, 4 bytes for 64 KiB ([`Bundle::of_blocks`] may choose less), and is
//! compared when the block is read. Data from here goes into base files, and their own checksums would make a bit
//! flipped on its way look right for ever. It costs a twentieth of a nanosecond a byte.

use crate::{Directory, File, FileError, FileOperation, Mapping};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// How many bytes are written, read and checked at once, if nothing else is chosen.
pub const BLOCK: usize = 64 << 10;

/// The directory of temporary files, and the number of bytes written to them.
///
/// ```
/// use std::sync::Arc;
/// use vicus_files::{FakeDisk, Scratch};
///
/// let disk = FakeDisk::new(1);
/// let scratch = Scratch::new(Arc::new(disk.process(7)));
/// let mut writing = scratch.begin()?;
/// writing.write(b"salve")?;
/// let written = writing.finish()?;
/// let mut read = [0; 5];
/// written.read().read(&mut read)?;
/// assert_eq!((&read, scratch.written(), disk.names().len()), (b"salve", 5, 0));
/// # Ok::<(), vicus_files::FileError>(())
/// ```
#[derive(Debug)]
pub struct Scratch {
    directory: Arc<dyn Directory>,
    written: AtomicU64,
    most: u64,
}

impl Scratch {
    /// Temporary storage in this directory.
    pub fn new(directory: Arc<dyn Directory>) -> Arc<Scratch> {
        Scratch::within(directory, u64::MAX)
    }

    /// Temporary storage in this directory, for at most `most` written bytes in all. A write beyond them fails.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use vicus_files::{FakeDisk, Scratch};
    ///
    /// let scratch = Scratch::within(Arc::new(FakeDisk::new(1).process(7)), 4);
    /// let mut writing = scratch.begin()?;
    /// writing.write(b"salve")?;
    /// let error = writing.finish().unwrap_err().to_string();
    /// assert!(error.ends_with("more than 4 bytes, which is the limit of temporary files"), "{error}");
    /// # Ok::<(), vicus_files::FileError>(())
    /// ```
    pub fn within(directory: Arc<dyn Directory>, most: u64) -> Arc<Scratch> {
        Arc::new(Scratch { directory, written: AtomicU64::new(0), most })
    }

    /// How many bytes were written so far.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Begins a run of bytes.
    ///
    /// # Errors
    /// The system refuses.
    pub fn begin(self: &Arc<Scratch>) -> Result<Writing, FileError> {
        Ok(Writing::new(Place::Alone(self.directory.temporary()?), BLOCK, self))
    }

    fn damaged(&self, number: usize, block: usize) -> FileError {
        self.senseless(format!("block {number} of {block} bytes is not as it was written"))
    }

    fn senseless(&self, what: String) -> FileError {
        let cause = io::Error::new(io::ErrorKind::InvalidData, what);
        FileError::new(temporary_path(&*self.directory), FileOperation::Read, cause)
    }

    /// Counts bytes before they are written.
    fn count(&self, bytes: u64) -> Result<(), FileError> {
        if self.written.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= self.most {
            return Ok(());
        }
        let cause = format!("more than {} bytes, which is the limit of temporary files", self.most);
        let cause = io::Error::new(io::ErrorKind::QuotaExceeded, cause);
        Err(FileError::new(temporary_path(&*self.directory), FileOperation::Write, cause))
    }
}

/// Runs with a common temporary file: it is made for the first one and gone when all of them are dropped. They can't be
/// mapped.
#[derive(Debug)]
pub struct Bundle {
    scratch: Arc<Scratch>,
    /// How many bytes of a run are written, read and checked at once.
    block: usize,
    /// The file, while there are runs in it.
    shared: Mutex<Weak<Shared>>,
}

impl Bundle {
    /// Without a run, and without a file.
    pub fn new(scratch: Arc<Scratch>) -> Bundle {
        Bundle::of_blocks(scratch, BLOCK)
    }

    /// A bundle with runs in blocks of `block` bytes. Each run being written or read has one block in memory. Panics if
    /// a block has no bytes.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use vicus_files::scratch::Bundle;
    /// use vicus_files::{FakeDisk, Scratch};
    ///
    /// let scratch = Scratch::new(Arc::new(FakeDisk::new(1).process(7)));
    /// let bundle = Bundle::of_blocks(scratch, 4096);
    /// let mut runs = [bundle.begin()?, bundle.begin()?];
    /// runs[0].write(&[1; 5000])?;
    /// // One block of the first run was written; the rest waits in memory.
    /// assert_eq!((runs[0].len(), bundle.scratch().written()), (5000, 4096));
    /// # Ok::<(), vicus_files::FileError>(())
    /// ```
    pub fn of_blocks(scratch: Arc<Scratch>, block: usize) -> Bundle {
        assert!(block > 0, "a block has bytes");
        Bundle { scratch, block, shared: Mutex::default() }
    }

    /// The storage of its file.
    pub fn scratch(&self) -> &Arc<Scratch> {
        &self.scratch
    }

    /// Begins a run of bytes.
    ///
    /// # Errors
    /// The system refuses.
    pub fn begin(&self) -> Result<Writing, FileError> {
        let mut known = self.shared.lock().expect("nothing panics under this lock");
        let shared = match known.upgrade() {
            Some(shared) => shared,
            None => {
                let file = self.scratch.directory.temporary()?;
                let shared = Arc::new(Shared { file, blocks: AtomicU64::new(0) });
                *known = Arc::downgrade(&shared);
                shared
            }
        };
        Ok(Writing::new(Place::Among(shared, Vec::new()), self.block, &self.scratch))
    }
}

/// The file of a [`Bundle`].
#[derive(Debug)]
struct Shared {
    file: Arc<dyn File>,
    /// How many blocks runs have taken.
    blocks: AtomicU64,
}

/// The place of a run's blocks.
enum Place {
    /// In a file of its own, in their order.
    Alone(Arc<dyn File>),
    /// In a file with others: the number of each block there.
    Among(Arc<Shared>, Vec<u64>),
}

impl Place {
    /// Writes bytes at a multiple of `block`, the length of the run's blocks. `at` is the run's end.
    fn write(&mut self, at: u64, bytes: &[u8], block: usize) -> Result<(), FileError> {
        match self {
            Place::Alone(file) => file.write_at(at, bytes),
            Place::Among(shared, blocks) => {
                let count = bytes.len().div_ceil(block) as u64;
                let first = shared.blocks.fetch_add(count, Ordering::Relaxed);
                shared.file.write_at(first * block as u64, bytes)?;
                blocks.extend(first..first + count);
                Ok(())
            }
        }
    }

    /// Reads the beginning of the block of this number, as many bytes as it has.
    fn read(&self, number: usize, into: &mut [u8], block: usize) -> Result<(), FileError> {
        match self {
            Place::Alone(file) => file.read_at(number as u64 * block as u64, into),
            Place::Among(shared, blocks) => shared.file.read_at(blocks[number] * block as u64, into),
        }
    }
}

/// A run being written. At most a block of it is in memory.
pub struct Writing {
    place: Place,
    /// How many bytes a block has.
    block: usize,
    /// The bytes not yet written: less than a block.
    buffer: Vec<u8>,
    /// How many bytes were written: a multiple of `block`.
    whole: u64,
    checksums: Vec<u32>,
    scratch: Arc<Scratch>,
}

impl Writing {
    fn new(place: Place, block: usize, scratch: &Arc<Scratch>) -> Writing {
        Writing { place, block, buffer: Vec::new(), whole: 0, checksums: Vec::new(), scratch: Arc::clone(scratch) }
    }

    /// How many bytes it has.
    pub fn len(&self) -> u64 {
        self.whole + self.buffer.len() as u64
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// The disk is full ([`FileError::is_full`]), or the system refuses. The run is lost then.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), FileError> {
        if self.buffer.len() + bytes.len() < self.block {
            self.put_by(bytes);
            return Ok(());
        }
        if !self.buffer.is_empty() {
            let (now, later) = bytes.split_at(self.block - self.buffer.len());
            self.put_by(now);
            let buffer = std::mem::take(&mut self.buffer);
            self.put(&buffer)?;
            self.buffer = buffer;
            self.buffer.clear();
            bytes = later;
        }
        let (now, later) = bytes.split_at(bytes.len() / self.block * self.block);
        if !now.is_empty() {
            self.put(now)?;
        }
        self.put_by(later);
        Ok(())
    }

    /// Keeps bytes until there is a block of them. The buffer never has more room than for a block, and its owner may
    /// count on this.
    fn put_by(&mut self, bytes: &[u8]) {
        let needed = self.buffer.len() + bytes.len();
        if needed > self.buffer.capacity() {
            let room = needed.max(2 * self.buffer.capacity()).min(self.block);
            self.buffer.reserve_exact(room - self.buffer.len());
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Writes whole blocks, or the last one.
    fn put(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.scratch.count(bytes.len() as u64)?;
        self.place.write(self.whole, bytes, self.block)?;
        self.checksums.extend(bytes.chunks(self.block).map(crc32c::crc32c));
        self.whole += bytes.len() as u64;
        Ok(())
    }

    /// The run; it doesn't change any more.
    ///
    /// # Errors
    /// Those of [`Writing::write`].
    pub fn finish(mut self) -> Result<WrittenRun, FileError> {
        let buffer = std::mem::take(&mut self.buffer);
        if !buffer.is_empty() {
            self.put(&buffer)?;
        }
        let Writing { place, block, whole: len, checksums, scratch, .. } = self;
        Ok(WrittenRun(Arc::new(Run { place, block, len, checksums, scratch })))
    }
}

impl fmt::Debug for Writing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writing").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// A written run of bytes. A clone is the same run. It is gone when all clones and readers are dropped.
#[derive(Clone)]
pub struct WrittenRun(Arc<Run>);

struct Run {
    place: Place,
    /// How many bytes a block has.
    block: usize,
    len: u64,
    checksums: Vec<u32>,
    scratch: Arc<Scratch>,
}

impl Run {
    /// Checks the bytes of the block of this number.
    fn check(&self, number: usize, bytes: &[u8]) -> Result<(), FileError> {
        match self.checksums.get(number) == Some(&crc32c::crc32c(bytes)) {
            true => Ok(()),
            false => Err(self.scratch.damaged(number, self.block)),
        }
    }
}

impl WrittenRun {
    /// How many bytes it has.
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory it holds as long as it is there, in bytes: checksums, and the places of its blocks.
    pub fn held_bytes(&self) -> u64 {
        let places = if let Place::Among(_, blocks) = &self.0.place { blocks.capacity() * size_of::<u64>() } else { 0 };
        (size_of::<Run>() + places + self.0.checksums.capacity() * size_of::<u32>()) as u64
    }

    /// Reads it from its beginning on.
    pub fn read(&self) -> Reading {
        Reading { run: Arc::clone(&self.0), buffer: Vec::new(), place: 0, next: 0 }
    }

    /// Maps it into memory. Its pages are in memory only as far as they are used and the system has room for them.
    /// Panics if it is one of a [`Bundle`].
    ///
    /// # Errors
    /// The system refuses.
    pub fn map(&self) -> Result<Mapped, FileError> {
        let Place::Alone(file) = &self.0.place else { panic!("a run that shares its file is not in one piece") };
        let bytes = file.map()?;
        assert_eq!(bytes.len() as u64, self.0.len, "the file is what was written");
        Ok(Mapped { run: Arc::clone(&self.0), bytes })
    }
}

impl fmt::Debug for WrittenRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Written").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Reads a run in sequence, with one block of it in memory.
pub struct Reading {
    run: Arc<Run>,
    buffer: Vec<u8>,
    /// How much of the buffer was given out.
    place: usize,
    /// The block behind the buffer.
    next: usize,
}

impl Reading {
    /// The most bytes of the run in memory.
    pub fn block(&self) -> usize {
        self.run.block
    }

    /// How many bytes are left.
    pub fn left(&self) -> u64 {
        self.run.len - (self.next as u64 * self.run.block as u64).min(self.run.len)
            + (self.buffer.len() - self.place) as u64
    }

    /// The bytes at hand, not empty unless all were read; [`Reading::consume`] takes the number of used ones.
    ///
    /// # Errors
    /// The system refuses, or the bytes are not as they were written.
    #[inline]
    pub fn peek(&mut self) -> Result<&[u8], FileError> {
        if self.place == self.buffer.len() {
            self.fill()?;
        }
        Ok(&self.buffer[self.place..])
    }

    /// Takes `bytes` bytes at hand as used.
    #[inline]
    pub fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.buffer.len() - self.place, "no more than were at hand");
        self.place += bytes;
    }

    /// Goes to the byte at `offset` from the beginning of the run.
    ///
    /// # Errors
    /// Those of [`Reading::peek`].
    pub fn seek(&mut self, offset: u64) -> Result<(), FileError> {
        let offset = offset.min(self.run.len);
        let block = self.run.block as u64;
        (self.next, self.place) = ((offset / block) as usize, 0);
        self.buffer.clear();
        let within = (offset % block) as usize;
        if within > 0 {
            self.fill()?;
            self.place = within;
        }
        Ok(())
    }

    /// Reads `into.len()` bytes.
    ///
    /// # Errors
    /// Those of [`Reading::peek`], or there are fewer.
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> Result<(), FileError> {
        match self.buffer.get(self.place..self.place + into.len()) {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                self.place += into.len();
                Ok(())
            }
            None => self.read_on(into),
        }
    }

    /// Like [`Reading::read`], over the end of a block.
    #[inline(never)]
    fn read_on(&mut self, mut into: &mut [u8]) -> Result<(), FileError> {
        while !into.is_empty() {
            let bytes = self.peek()?;
            let count = bytes.len().min(into.len());
            if count == 0 {
                return Err(self.run.scratch.senseless("it ends early".to_owned()));
            }
            let (now, later) = std::mem::take(&mut into).split_at_mut(count);
            now.copy_from_slice(&bytes[..count]);
            self.consume(count);
            into = later;
        }
        Ok(())
    }

    /// Reads the next block, if there is one.
    #[inline(never)]
    fn fill(&mut self) -> Result<(), FileError> {
        let block = self.run.block;
        let start = (self.next as u64 * block as u64).min(self.run.len);
        let count = (self.run.len - start).min(block as u64) as usize;
        let mut buffer = std::mem::take(&mut self.buffer);
        self.place = 0;
        // A run shorter than a block takes no more than it has.
        buffer.reserve_exact(count.saturating_sub(buffer.len()));
        buffer.resize(count, 0);
        if count > 0 {
            self.run.place.read(self.next, &mut buffer, block)?;
            self.run.check(self.next, &buffer)?;
            self.next += 1;
        }
        self.buffer = buffer;
        Ok(())
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").field("left", &self.left()).finish_non_exhaustive()
    }
}

/// A run of bytes mapped into memory.
#[derive(Clone)]
pub struct Mapped {
    run: Arc<Run>,
    bytes: Mapping,
}

impl Mapped {
    /// All bytes, none of them checked.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Checks the blocks of these bytes.
    ///
    /// # Errors
    /// A block is not as it was written.
    pub fn check(&self, range: Range<usize>) -> Result<(), FileError> {
        let blocks = if range.is_empty() { 0..0 } else { range.start / BLOCK..(range.end - 1) / BLOCK + 1 };
        for block in blocks {
            let end = ((block + 1) * BLOCK).min(self.bytes.len());
            self.run.check(block, &self.bytes[block * BLOCK..end])?;
        }
        Ok(())
    }

    /// The error of bytes that are as they were written, and make no sense to their reader.
    pub fn senseless(&self, at: usize, what: &str) -> FileError {
        self.run.scratch.senseless(format!("at byte {at}: {what}"))
    }
}

impl fmt::Debug for Mapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapped").field("len", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// The beginning of the names temporary files may have for a moment. A number follows.
const PREFIX: &str = "vicus-scratch-";
/// The greatest number of a temporary file.
const TRIED: u32 = 1000;

/// Makes a temporary file in a directory whose files all have names: creates one and removes its name at once. A
/// process that ends in between leaves an empty file for [`sweep`] to remove.
///
/// # Errors
/// The system refuses.
pub fn create_and_remove(directory: &dyn Directory) -> Result<Arc<dyn File>, FileError> {
    let path = temporary_path(directory);
    let renamed = |error: FileError| FileError { file: path.clone(), ..error };
    let mut number = 0;
    let (name, file) = loop {
        let name = format!("{PREFIX}{number}");
        match directory.create(&name) {
            Err(error) if error.cause.kind() == io::ErrorKind::AlreadyExists && number < TRIED => number += 1,
            created => break (name, created.map_err(renamed)?),
        }
    };
    match directory.remove(&name) {
        // If it is not there, another process has swept.
        Err(error) if !error.is_missing() => Err(renamed(error)),
        _ => Ok(Arc::new(Unnamed { file, path })),
    }
}

/// The name of a temporary file in messages.
pub fn temporary_path(directory: &dyn Directory) -> String {
    format!("a temporary file in {}", directory.path(""))
}

/// A file that had a name for a moment.
#[derive(Debug)]
struct Unnamed {
    file: Arc<dyn File>,
    path: String,
}

impl Unnamed {
    fn named<R>(&self, outcome: Result<R, FileError>) -> Result<R, FileError> {
        outcome.map_err(|error| FileError { file: self.path.clone(), ..error })
    }
}

impl File for Unnamed {
    fn len(&self) -> Result<u64, FileError> {
        self.named(self.file.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError> {
        self.named(self.file.read_at(offset, into))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        self.named(self.file.write_at(offset, bytes))
    }

    fn map(&self) -> Result<Mapping, FileError> {
        self.named(self.file.map())
    }

    fn set_len(&self, bytes: u64) -> Result<(), FileError> {
        self.named(self.file.set_len(bytes))
    }

    fn sync(&self) -> Result<(), FileError> {
        self.named(self.file.sync())
    }
}

/// Whether a file of this name is a temporary one. It may be removed at any time: a process that uses it needs no name.
pub fn is_scratch(name: &str) -> bool {
    let number = name.strip_prefix(PREFIX).and_then(|number| number.parse::<u32>().ok());
    // Other texts may be read as the same number.
    number.is_some_and(|number| number <= TRIED && name == format!("{PREFIX}{number}"))
}

/// Removes the temporary files left by processes in a directory. Files that can't be removed now stay.
pub fn sweep(directory: &dyn Directory) {
    for name in directory.list().unwrap_or_default().iter().filter(|name| is_scratch(name)) {
        let _ = directory.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Failure, FakeDisk};

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|at| (at * at / 7 + at) as u8).collect()
    }

    #[test]
    fn runs_are_read_as_they_were_written_in_pieces_of_any_size() {
        for total in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 77] {
            for piece in [1000, BLOCK - 1, BLOCK, 2 * BLOCK + 5] {
                let disk = FakeDisk::new(1);
                let scratch = Scratch::new(Arc::new(disk.process(1)));
                let mut writing = scratch.begin().unwrap();
                let expected = bytes(total);
                expected.chunks(piece).for_each(|piece| writing.write(piece).unwrap());
                assert_eq!(writing.len(), total as u64);
                let written = writing.finish().unwrap();
                let (mut reading, mut read) = (written.read(), vec![0; total]);
                for part in read.chunks_mut(piece) {
                    reading.read(part).unwrap();
                }
                assert_eq!(read, expected);
                assert_eq!(reading.left(), 0);
                assert!(reading.peek().unwrap().is_empty());
                assert!(reading.read(&mut [0]).is_err(), "there is no more");
                for from in [0, total / 2, total] {
                    let mut rest = vec![0; total - from];
                    reading.seek(from as u64).unwrap();
                    reading.read(&mut rest).unwrap();
                    assert_eq!(rest, expected[from..]);
                }
                let mapped = written.map().unwrap();
                mapped.check(0..total).unwrap();
                assert_eq!(mapped.bytes(), expected);
                assert_eq!(scratch.written(), total as u64);
                assert!(disk.names().is_empty(), "it has no name");
            }
        }
    }

    /// Each part of data larger than memory once had files of its own, though a process may have few.
    #[test]
    fn runs_of_a_bundle_share_a_file_that_is_gone_with_the_last_of_them() {
        for block in [77, 1 << 10, BLOCK] {
            check_runs_of_a_bundle(block);
        }
    }

    fn check_runs_of_a_bundle(block: usize) {
        let disk = FakeDisk::new(1);
        let bundle = Bundle::of_blocks(Scratch::new(Arc::new(disk.process(1))), block);
        for round in 0..2 {
            let before = disk.operations();
            let mut writings: Vec<Writing> = (0..5).map(|_| bundle.begin().unwrap()).collect();
            let made = disk.operations() - before;
            assert_eq!(made, 2, "a file was created and its name removed, in round {round}");
            // In turn, so their blocks lie between each other's.
            for part in bytes(4 * BLOCK).chunks(BLOCK / 3) {
                for (number, writing) in writings.iter_mut().enumerate() {
                    writing.write(&part.iter().map(|byte| byte ^ number as u8).collect::<Vec<u8>>()).unwrap();
                }
            }
            writings[4].write(&bytes(3 * BLOCK + 5)).unwrap();
            let written: Vec<WrittenRun> = writings.into_iter().map(|writing| writing.finish().unwrap()).collect();
            for (number, written) in written.iter().enumerate() {
                let mut expected: Vec<u8> = bytes(4 * BLOCK).iter().map(|byte| byte ^ number as u8).collect();
                expected.extend(bytes(if number == 4 { 3 * BLOCK + 5 } else { 0 }));
                for from in [0, 5, BLOCK, 3 * BLOCK - 1, expected.len()] {
                    let (mut reading, mut read) = (written.read(), vec![0; expected.len() - from]);
                    reading.seek(from as u64).unwrap();
                    reading.read(&mut read).unwrap();
                    assert!(read == expected[from..], "run {number} from {from}");
                    assert_eq!(reading.left(), 0);
                }
            }
        }
    }

    #[test]
    fn a_block_that_changed_is_found() {
        let disk = FakeDisk::new(1);
        let directory: Arc<dyn Directory> = Arc::new(disk.process(1));
        let scratch = Scratch::new(Arc::clone(&directory));
        let mut writing = scratch.begin().unwrap();
        writing.write(&bytes(3 * BLOCK)).unwrap();
        let written = writing.finish().unwrap();
        let Place::Alone(file) = &written.0.place else { panic!("it has a file of its own") };
        file.write_at(BLOCK as u64 + 5, &[bytes(BLOCK + 6)[BLOCK + 5] ^ 1]).unwrap();
        let mut reading = written.read();
        reading.read(&mut vec![0; BLOCK]).unwrap();
        let error = reading.read(&mut [0]).unwrap_err().to_string();
        assert_eq!(error, "can't read a temporary file in fake/: block 1 of 65536 bytes is not as it was written");
        let mapped = written.map().unwrap();
        assert!(mapped.check(0..BLOCK).is_ok() && mapped.check(2 * BLOCK..3 * BLOCK).is_ok());
        assert_eq!(mapped.check(BLOCK - 1..BLOCK + 1).unwrap_err().to_string(), error);
    }

    #[test]
    fn a_full_disk_is_told_with_its_folder_and_is_free_again_when_the_run_is_dropped() {
        let disk = FakeDisk::new(1);
        disk.set_room(Some(2 * BLOCK as u64));
        let scratch = Scratch::new(Arc::new(disk.process(1)));
        for _ in 0..3 {
            let mut writing = scratch.begin().unwrap();
            writing.write(&bytes(2 * BLOCK)).unwrap();
            let mut other = scratch.begin().unwrap();
            let error = other.write(&bytes(BLOCK)).unwrap_err();
            assert!(error.is_full());
            assert!(error.to_string().starts_with("can't write a temporary file in fake/: "), "{error}");
        }
    }

    /// After the failure of any operation, and a loss of power at any place, no file is left beyond `sweep`.
    #[test]
    fn what_a_crash_leaves_is_swept() {
        let mut left = 0;
        for failure in [Failure::Error, Failure::Errors, Failure::Full, Failure::PowerLoss] {
            for after in 0..6 {
                let disk = FakeDisk::new(after);
                let directory: Arc<dyn Directory> = Arc::new(disk.process(1));
                disk.fail_after(after, failure);
                let run = || -> Result<(), FileError> {
                    let mut writing = Scratch::new(directory).begin()?;
                    writing.write(&bytes(BLOCK + 1))?;
                    let written = writing.finish()?;
                    written.read().read(&mut [0; 10])
                };
                let outcome = run();
                disk.crash(after);
                left += disk.names().len();
                sweep(&disk.process(2));
                assert!(disk.names().is_empty(), "{failure:?} after {after}: {outcome:?}");
            }
        }
        assert!(left > 0, "some names were left");
    }
}
