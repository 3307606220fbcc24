//! The storage of data being built: bytes written front to back, in memory or in temporary files.

use crate::checked_bytes::CheckedBytes;
use crate::placement::PlacedVec;
use std::ops::Range;
use std::sync::Arc;
use vicus_files::Scratch;
use vicus_files::scratch::{Mapped, Writing};
use vicus_flow::{BoxError, Grow, NoMemory, give_up};

/// The place for the columns and texts of a new snapshot. If a temporary file can't be written or read, the building
/// box gives up ([`give_up`]) with the file's error, as readers of mapped pages do.
#[derive(Clone, Default, Debug)]
pub enum Backing {
    /// In memory.
    #[default]
    Memory,
    /// In temporary files. They are mapped when they are complete, and gone when the last snapshot with a part of them
    /// is dropped.
    Scratch(Arc<Scratch>),
}

/// So many bytes are written to a temporary file at once.
const AT_ONCE: usize = 64 << 10;

/// Bytes written front to back.
#[derive(Default, Debug)]
pub(crate) struct Growing {
    /// The bytes outside of files.
    bytes: Vec<u8>,
    storage: Backing,
    /// Few bytes need no file.
    writing: Option<Writing>,
}

impl Growing {
    pub(crate) fn new(storage: &Backing) -> Growing {
        Growing { bytes: Vec::new(), storage: storage.clone(), writing: None }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.writing.as_ref().map_or(0, |writing| writing.len() as usize)
    }

    pub(crate) fn storage(&self) -> &Backing {
        &self.storage
    }

    /// All bytes. Panics unless they are in memory.
    pub(crate) fn in_memory(&self) -> &[u8] {
        assert!(self.writing.is_none(), "they are in memory");
        &self.bytes
    }

    /// The buffer for the caller to append at most this many bytes.
    pub(crate) fn room(&mut self, bytes: usize) -> Result<&mut Vec<u8>, NoMemory> {
        if self.bytes.len() >= AT_ONCE && matches!(self.storage, Backing::Scratch(_)) {
            self.write_out();
        }
        self.bytes.grow(bytes)?;
        Ok(&mut self.bytes)
    }

    /// Makes room in memory for this many further bytes, if they go to memory.
    pub(crate) fn grow_exactly(&mut self, bytes: usize) -> Result<(), NoMemory> {
        match self.storage {
            Backing::Memory => self.bytes.grow_exactly(bytes),
            Backing::Scratch(_) => Ok(()),
        }
    }

    /// Appends bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), NoMemory> {
        self.room(bytes.len())?.extend_from_slice(bytes);
        Ok(())
    }

    #[inline(never)]
    fn write_out(&mut self) {
        if let Backing::Scratch(scratch) = &self.storage {
            let writing = match &mut self.writing {
                Some(writing) => writing,
                none => none.insert(scratch.begin().unwrap_or_else(|error| give_up(error))),
            };
            writing.write(&self.bytes).unwrap_or_else(|error| give_up(error));
            self.bytes.clear();
        }
    }

    /// All bytes.
    pub(crate) fn finish(mut self) -> PlacedVec<u8> {
        if self.writing.is_none() {
            self.bytes.shrink_to_fit();
            return self.bytes.into();
        }
        self.write_out();
        PlacedVec::lent(pages(self.writing.expect("it was begun")))
    }

    /// All bytes, in a file even if they are few. Panics if they are to lie in memory.
    pub(crate) fn into_pages(mut self) -> Arc<dyn CheckedBytes> {
        self.write_out();
        pages(self.writing.expect("its storage is a temporary file"))
    }
}

fn pages(writing: Writing) -> Arc<dyn CheckedBytes> {
    let mapped = writing.finish().and_then(|written| written.map());
    Arc::new(InScratch(mapped.unwrap_or_else(|error| give_up(error))))
}

/// A temporary file, read through its mapping.
#[derive(Debug)]
struct InScratch(Mapped);

impl CheckedBytes for InScratch {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    fn check(&self, range: Range<usize>) -> Result<(), BoxError> {
        Ok(self.0.check(range)?)
    }

    fn senseless(&self, at: usize, what: &str) -> BoxError {
        self.0.senseless(at, what).into()
    }
}
