//! Compresses ascending keys into a section: in memory, or in temporary files.

use super::section::{BLOCK, Section, narrow, wide};
use super::symbols::{Symbols, Training, common};
use crate::placement::PlacedVec;
use crate::sections::{KINDS, Sections};
use crate::storage::{Backing, Growing};
use vicus_flow::{BoxError, Grow, NoMemory};

/// Builds a section of ascending, distinct keys.
#[derive(Default, Debug)]
pub(crate) struct SectionBuilder {
    training: Training,
    text: Growing,
    /// The number of keys so far, and the bytes of their blocks.
    len: usize,
    end: usize,
    ends: Vec<[u8; 5]>,
    /// The keys of the last, unwritten block, one after the other, and the end of each.
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    /// Kept for its memory: a block, and its compressed form.
    block: Vec<u8>,
    compressed: Vec<u8>,
}

impl SectionBuilder {
    /// Compresses with this training, and keeps the blocks in this storage as keys come.
    pub(crate) fn new(training: Training, storage: &Backing) -> SectionBuilder {
        SectionBuilder { training, text: Growing::new(storage), ..SectionBuilder::default() }
    }

    /// Adds the next key.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn push(&mut self, key: impl AsRef<[u8]>) -> Result<(), NoMemory> {
        let key = key.as_ref();
        if self.key_ends.len() == BLOCK {
            self.end_block()?;
        }
        self.keys.grow(key.len())?;
        self.key_ends.grow(1)?;
        self.keys.extend_from_slice(key);
        self.key_ends.push(self.keys.len());
        self.len += 1;
        Ok(())
    }

    /// The number of keys so far.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn key(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.key_ends[before]);
        &self.keys[start..self.key_ends[number]]
    }

    fn end_block(&mut self) -> Result<(), NoMemory> {
        let Some(last) = self.key_ends.len().checked_sub(1) else { return Ok(()) };
        let shared = common(self.key(0), self.key(last));
        let mut compressed = std::mem::take(&mut self.compressed);
        compressed.clear();
        let mut lengths = [0; BLOCK];
        let training = &self.training;
        training.write(&self.key(0)[..shared], &mut compressed)?;
        for number in 0..=last {
            // The compressed part before: the shared beginning, or the rest of the key before.
            lengths[number] = compressed.len() - lengths[..number].iter().sum::<usize>();
            training.write(&self.key(number)[shared..], &mut compressed)?;
        }
        let longest = lengths.iter().copied().max().unwrap_or(0) as u64;
        let width =
            [1, 2, 4, 8].into_iter().find(|width| longest.checked_shr(8 * width).unwrap_or(0) == 0).unwrap_or(8);
        self.block.clear();
        self.block.grow(1 + (last + 1) * width as usize + compressed.len())?;
        self.block.push(width as u8);
        lengths[..=last]
            .iter()
            .for_each(|length| self.block.extend_from_slice(&length.to_le_bytes()[..width as usize]));
        self.block.extend_from_slice(&compressed);
        self.compressed = compressed;
        self.text.write(&self.block)?;
        self.end += self.block.len();
        self.ends.grow(1)?;
        self.ends.push(narrow(self.end));
        self.keys.clear();
        self.key_ends.clear();
        Ok(())
    }

    /// Joins builders of the same training. The keys of each are greater than those of the one before, and each but the
    /// last has whole blocks only. Several must be in memory.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn join(mut builders: Vec<SectionBuilder>) -> Result<SectionBuilder, NoMemory> {
        builders.iter_mut().try_for_each(SectionBuilder::end_block)?;
        let (bytes, blocks) = builders.iter().fold((0, 0), |(a, b), more| (a + more.end, b + more.ends.len()));
        let mut builders = builders.into_iter();
        let Some(mut joined) = builders.next() else { return Ok(SectionBuilder::default()) };
        joined.text.grow_exactly(bytes - joined.end)?;
        joined.ends.grow_exactly(blocks - joined.ends.len())?;
        for more in builders {
            assert!(joined.len.is_multiple_of(BLOCK), "keys follow whole blocks");
            joined.text.write(more.text.in_memory())?;
            joined.ends.extend(more.ends.into_iter().map(|end| narrow(joined.end + wide(end))));
            joined.end += more.end;
            joined.len += more.len;
        }
        Ok(joined)
    }

    /// The section, in the builder's storage.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn finish(mut self) -> Result<Section, NoMemory> {
        self.end_block()?;
        self.ends.shrink_to_fit();
        let ends = match self.text.storage() {
            Backing::Memory => self.ends.into(),
            storage => {
                let mut ends = Growing::new(storage);
                ends.write(self.ends.as_flattened())?;
                PlacedVec::lent(ends.into_pages())
            }
        };
        Ok(Section::new(self.len, self.training.symbols(), self.text.finish(), ends))
    }
}

/// Writes the table of symbols of a section.
pub(crate) fn write_symbols(section: usize, symbols: &Symbols, into: &mut dyn Sections) -> Result<(), BoxError> {
    into.begin(&format!("{}.symbols", KINDS[section]))?;
    into.write(&symbols.stored())
}
