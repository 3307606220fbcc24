//! Deals rows beyond a box's memory to files: partitions by hash. Each of these may fit the memory later.

use super::spill::{RowFile, RowRun, RowWriter, Spiller};
use std::sync::Arc;
use vicus_files::FileError;
use vicus_flow::Turn;
use vicus_flow::library::HashKey;

/// Rows dealt to the files of their partitions.
pub(crate) struct Scatter {
    file: RowFile,
    writers: Vec<Option<RowWriter>>,
}

impl Scatter {
    /// For a box of at most `most` bytes, and rows of `ids` ids. All writers together take a quarter of these bytes.
    pub(crate) fn new(spiller: &Spiller, most: u64, ids: usize) -> Scatter {
        Scatter::of(spiller, most, ids, partitions(most))
    }

    /// Likewise with `count` partitions: a power of two.
    pub(crate) fn of(spiller: &Spiller, most: u64, ids: usize, count: usize) -> Scatter {
        Scatter::to(spiller.file(ids, Spiller::block(most * 4 / count as u64)), count)
    }

    /// Rows for this file, with `count` partitions: a power of two.
    pub(crate) fn to(file: RowFile, count: usize) -> Scatter {
        Scatter { file, writers: (0..count).map(|_| None).collect() }
    }

    /// How many partitions there are: a power of two.
    pub(crate) fn partitions(&self) -> usize {
        self.writers.len()
    }

    /// Adds rows to a partition.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    pub(crate) fn write(&mut self, partition: usize, rows: &[u64]) -> Result<(), FileError> {
        let writer = match &mut self.writers[partition] {
            Some(writer) => writer,
            none => none.insert(self.file.begin()?),
        };
        writer.write(rows)
    }

    /// Whether a partition has rows.
    pub(crate) fn is_open(&self, partition: usize) -> bool {
        self.writers[partition].is_some()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.writers.iter().flatten().count() as u64 * self.file.open_bytes()
    }

    /// The run of each partition, if it has rows.
    ///
    /// # Errors
    /// Errors of [`Scatter::write`].
    pub(crate) fn finish(self, turn: &Turn<'_>) -> Result<Vec<Option<Arc<RowRun>>>, FileError> {
        let mut runs = Vec::with_capacity(self.writers.len());
        for writer in self.writers {
            let run = writer.map(RowWriter::finish).transpose()?;
            turn.count_spilled(run.as_ref().map_or(0, RowRun::file_bytes));
            runs.push(run.map(Arc::new));
        }
        Ok(runs)
    }
}

/// The number of partitions. Each has a block of some kilobytes while it is written.
fn partitions(most: u64) -> usize {
    const FEWEST: u64 = 4;
    const MOST: u64 = 32;
    (most / (32 << 10)).clamp(FEWEST, MOST).next_power_of_two() as usize
}

/// The deepest level of partitions within partitions: more levels don't help rows with this many equal bits of their
/// hash.
pub(crate) const DEEPEST: u32 = 8;

/// The partition of a row, by bits of its hash used neither by other levels nor by tables, nor by the boxes dealing
/// rows to replicas.
pub(crate) fn partition_of(by: HashKey, hash: u64, level: u32, count: usize) -> usize {
    const SALT: u64 = 0x9E6C_63D0_876A_3F6B;
    (by.mix(hash ^ SALT.wrapping_mul(u64::from(level) + 1)) >> 32) as usize & (count - 1)
}
