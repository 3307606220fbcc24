//! Rows beyond the memory of a box: written to temporary files, and read again by the same box.
//!
//! The memory of a box before it spills is fixed when its run begins: the spilling boxes of a run have equal parts of
//! its budget ([`QuerySpill`]). So none of them takes the memory another one needs to merge its runs, for any
//! distribution of rows. A larger budget, such as the process's, may refuse less than this part; then a box spills its
//! rows. Therefore a box books the memory for spilling itself (sorting, writing and reading) together with the memory
//! for its rows ([`Hold`]).
//!
//! Ids are written unchanged. Terms computed by the query, with ids in files, have a part of the run's memory; beyond
//! this part they are in files of their own ([`RetainedTerms`](vicus_rdf::RetainedTerms)).

use std::fmt;
use std::sync::Arc;
use vicus_files::scratch::{BLOCK, Bundle, Reading, Writing, WrittenRun};
use vicus_files::{FileError, Scratch};
use vicus_flow::{BoxError, Grow, OverBudget};

/// The place for rows of a run beyond its memory.
///
/// ```
/// use std::sync::Arc;
/// use vicus_files::{FakeDisk, Scratch};
/// use vicus_flow::sequential;
/// use vicus_rdf::Snapshot;
/// use vicus_sparql::{PlanOptions, RunOptions, QuerySpill, parse, plan};
///
/// let data: String = (0..10_000).map(|n| format!("<http://e/{}> <http://e/p> {n} .\n", n * 7 % 10_000)).collect();
/// let snapshot = Arc::new(Snapshot::of_turtle(data.as_bytes(), None).unwrap());
/// let plan = plan(&snapshot, &parse("SELECT * { ?s ?p ?o } ORDER BY ?s")?, PlanOptions::default())?;
/// // Sorting these rows takes about 700 kB.
/// let scratch = Scratch::new(Arc::new(FakeDisk::new(1).process(7)));
/// let spill = QuerySpill { scratch: Arc::clone(&scratch), budget: 100_000 };
/// let run = plan.start_with(RunOptions { spill: Some(spill), ..RunOptions::default() });
/// sequential::run(plan.model(), run.operators([(plan.sink(), plan.sink_operator(|_| Ok(())))]), |_| 0)?;
/// assert!(scratch.written() >= 240_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct QuerySpill {
    /// The temporary files.
    pub scratch: Arc<Scratch>,
    /// The most bytes of all boxes of the run together. Spilling boxes share three quarters of it; the rest is for
    /// others, and for terms computed by the query: a sixteenth for those kept until its end.
    pub budget: u64,
}

impl fmt::Debug for QuerySpill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuerySpill").field("budget", &self.budget).finish_non_exhaustive()
    }
}

/// Spilling less than this does not pay when the larger budget is used up.
pub(crate) const LEAST: u64 = 16 << 10;
/// The smallest block. Each block is a call of the system.
const SMALLEST_BLOCK: usize = 1 << 10;
/// A box has blocks of at most this part of its bytes.
const BLOCKS: u64 = 16;

/// A box's part of a [`QuerySpill`].
#[derive(Clone)]
pub(crate) struct Spiller {
    scratch: Arc<Scratch>,
    most: u64,
}

impl Spiller {
    /// The part of each of `boxes` boxes: `least` bytes at least.
    pub(crate) fn of(spill: &QuerySpill, boxes: usize, least: u64) -> Spiller {
        let share = spill.budget / 4 * 3 / boxes.max(1) as u64;
        // Bytes are booked in units of these: a part has a whole number of them.
        let unit = if share < 1 << 16 { 1 << 10 } else { 1 << 16 };
        Spiller { scratch: Arc::clone(&spill.scratch), most: (share / unit * unit).max(least) }
    }

    /// How many bytes the box may hold.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// The size of blocks for a box with this many bytes: a power of two.
    pub(crate) fn block(bytes: u64) -> usize {
        let most = usize::try_from(bytes / BLOCKS).unwrap_or(usize::MAX).clamp(SMALLEST_BLOCK, BLOCK);
        1 << most.ilog2()
    }

    /// A file for runs of rows with `width` columns, at least one; it has no run yet.
    pub(crate) fn file(&self, width: usize, block: usize) -> RowFile {
        RowFile { bundle: Bundle::of_blocks(Arc::clone(&self.scratch), block), width, block }
    }
}

/// The booked memory of a box for rows it can spill.
pub(crate) struct Hold {
    spiller: Option<Spiller>,
    booked: u64,
}

impl Hold {
    /// For a box without bookings. Without a spiller, it never spills.
    pub(crate) fn new(spiller: Option<&Spiller>) -> Hold {
        Hold { spiller: spiller.cloned(), booked: 0 }
    }

    /// `None` if the box must not spill.
    pub(crate) fn spiller(&self) -> Option<&Spiller> {
        self.spiller.as_ref()
    }

    /// How many bytes are booked.
    pub(crate) fn booked(&self) -> u64 {
        self.booked
    }

    /// Books this many bytes in total by `book`, unless as many are booked already. False if the box has to spill
    /// first: it would hold more than its part, or `book` refuses and the box says that it holds enough to spill. The
    /// booking stays after a spill, so the box can hold as much again.
    ///
    /// # Errors
    /// `book` refuses, and the box can't spill.
    pub(crate) fn make_room(
        &mut self,
        bytes: u64,
        holds_enough: bool,
        book: impl FnOnce(u64) -> Result<(), OverBudget>,
    ) -> Result<bool, BoxError> {
        if bytes <= self.booked {
            return Ok(true);
        }
        if self.spiller.as_ref().is_some_and(|spiller| bytes > spiller.most) {
            return Ok(false);
        }
        match book(bytes) {
            Ok(()) => {
                self.booked = bytes;
                Ok(true)
            }
            Err(_) if self.spiller.is_some() && holds_enough => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Books at least `bytes` bytes, more than the box's part if need be.
    ///
    /// # Errors
    /// `book` refuses.
    pub(crate) fn book(
        &mut self,
        bytes: u64,
        book: impl FnOnce(u64) -> Result<(), OverBudget>,
    ) -> Result<(), BoxError> {
        if bytes > self.booked {
            book(bytes)?;
            self.booked = bytes;
        }
        Ok(())
    }

    /// Lowers the booking to this many bytes, for a box that has spilled.
    ///
    /// # Errors
    /// None, as long as `book` takes fewer bytes than before.
    pub(crate) fn shrink(
        &mut self,
        bytes: u64,
        book: impl FnOnce(u64) -> Result<(), OverBudget>,
    ) -> Result<(), BoxError> {
        if bytes < self.booked {
            book(bytes)?;
            self.booked = bytes;
        }
        Ok(())
    }
}

/// A temporary file of runs of rows with the same number of columns. It is made with the first run, and gone with the
/// last one.
pub(crate) struct RowFile {
    bundle: Bundle,
    width: usize,
    block: usize,
}

impl RowFile {
    /// The memory of a run being written or read, in bytes: a block, and a row.
    pub(crate) fn open_bytes(&self) -> u64 {
        (self.block + 16 * self.width) as u64
    }

    /// How many columns its rows have.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Begins a run.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn begin(&self) -> Result<RowWriter, FileError> {
        Ok(RowWriter { writing: self.bundle.begin()?, width: self.width })
    }
}

/// A run of rows being written.
pub(crate) struct RowWriter {
    writing: Writing,
    width: usize,
}

impl RowWriter {
    /// Adds rows, one after the other: as many ids as there are columns, for each.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    #[inline]
    pub(crate) fn write(&mut self, rows: &[u64]) -> Result<(), FileError> {
        let mut bytes = [0; 512];
        for ids in rows.chunks(bytes.len() / 8) {
            for (to, id) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(ids) {
                *to = id.to_le_bytes();
            }
            self.writing.write(&bytes[..8 * ids.len()])?;
        }
        Ok(())
    }

    /// Ends a row; its other ids were written.
    ///
    /// # Errors
    /// Errors of [`RowWriter::write`].
    pub(crate) fn end_row(&mut self, id: u64) -> Result<(), FileError> {
        self.writing.write(&id.to_le_bytes())
    }

    /// The run; it doesn't change any more.
    ///
    /// # Errors
    /// Errors of [`RowWriter::write`].
    pub(crate) fn finish(self) -> Result<RowRun, FileError> {
        let written = self.writing.finish()?;
        Ok(RowRun { rows: written.len() / (8 * self.width as u64), written, width: self.width })
    }
}

/// A run of rows in a file.
pub(crate) struct RowRun {
    written: WrittenRun,
    width: usize,
    rows: u64,
}

impl RowRun {
    /// How many rows it has.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// How many bytes it has in its file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.written.len()
    }

    /// Its memory while it is neither written nor read, in bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.written.held_bytes()
    }

    /// Reads it from its beginning on.
    pub(crate) fn read(&self) -> RowReader {
        RowReader {
            reading: self.written.read(),
            row: vec![0; self.width],
            bytes: vec![0; 8 * self.width],
            left: self.rows,
        }
    }

    /// Reads it from a row on.
    ///
    /// # Errors
    /// Errors of [`RowReader::advance`].
    pub(crate) fn read_from(&self, row: u64) -> Result<RowReader, FileError> {
        let mut reader = self.read();
        reader.reading.seek(row * 8 * self.width as u64)?;
        reader.left = self.rows.saturating_sub(row);
        Ok(reader)
    }
}

/// Reads a run, row by row.
pub(crate) struct RowReader {
    reading: Reading,
    /// The row at hand.
    row: Vec<u64>,
    bytes: Vec<u8>,
    /// How many rows come behind the one at hand.
    left: u64,
}

impl RowReader {
    /// Its memory at most, in bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        (self.reading.block() + 16 * self.row.len()) as u64
    }

    /// Goes to the next row, at first to the first one; false if there is none.
    ///
    /// # Errors
    /// The system refuses, or the bytes are not as they were written.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool, FileError> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        self.reading.read(&mut self.bytes)?;
        for (id, bytes) in self.row.iter_mut().zip(self.bytes.as_chunks::<8>().0) {
            *id = u64::from_le_bytes(*bytes);
        }
        Ok(true)
    }

    /// The row at hand.
    #[inline]
    pub(crate) fn row(&self) -> &[u64] {
        &self.row
    }

    /// Appends the next rows, at most `most`, and returns their number.
    ///
    /// # Errors
    /// Errors of [`RowReader::advance`].
    pub(crate) fn read(&mut self, most: usize, into: &mut Vec<u64>) -> Result<usize, FileError> {
        let rows = usize::try_from(self.left).unwrap_or(usize::MAX).min(most);
        into.grow_or_give_up(rows * self.row.len());
        for _ in 0..rows {
            self.advance()?;
            into.extend_from_slice(&self.row);
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_files::FakeDisk;

    fn spiller(budget: u64) -> Spiller {
        let scratch = Scratch::new(Arc::new(FakeDisk::new(1).process(1)));
        Spiller::of(&QuerySpill { scratch, budget }, 1, LEAST)
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        for width in [1, 3, 70, 300] {
            for block in [1 << 10, BLOCK] {
                let file = spiller(0).file(width, block);
                let rows: Vec<u64> = (0..width as u64 * 1000).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
                let mut writers = [file.begin().unwrap(), file.begin().unwrap()];
                for (number, row) in rows.chunks(width).enumerate() {
                    writers[number % 2].write(row).unwrap();
                }
                for (number, writer) in writers.into_iter().enumerate() {
                    let run = writer.finish().unwrap();
                    assert_eq!((run.rows(), run.file_bytes()), (500, 500 * 8 * width as u64));
                    let (mut reader, mut read) = (run.read(), Vec::new());
                    assert!(reader.advance().unwrap());
                    read.extend_from_slice(reader.row());
                    while reader.read(7, &mut read).unwrap() > 0 {}
                    assert!(!reader.advance().unwrap(), "there are no more");
                    let expected = rows.chunks(width).skip(number).step_by(2).flatten().copied();
                    assert!(read.into_iter().eq(expected), "width {width}, block {block}");
                }
            }
        }
    }

    #[test]
    fn parts_fit_the_budget_and_merge_two_runs() {
        for budget in [0, 1, 10_000, 100_000, 1 << 20, 1 << 30, u64::MAX - 1] {
            for boxes in [0, 1, 7, 64] {
                let scratch = Scratch::new(Arc::new(FakeDisk::new(1).process(1)));
                let most = Spiller::of(&QuerySpill { scratch, budget }, boxes, LEAST).most();
                assert!(most == LEAST || u128::from(most) * boxes.max(1) as u128 <= u128::from(budget));
                let block = Spiller::block(most);
                assert!(block.is_power_of_two() && (SMALLEST_BLOCK..=BLOCK).contains(&block));
                assert!(3 * block as u64 <= most, "two runs are read, and one is written");
            }
        }
    }

    #[test]
    fn a_box_spills_beyond_its_part_and_when_the_whole_is_used_up() {
        let over = || OverBudget { budget: 1, holders: Vec::new() };
        let mut hold = Hold::new(Some(&spiller(1 << 20)));
        let most = hold.spiller().unwrap().most();
        assert!(hold.make_room(most, true, |_| Ok(())).unwrap());
        assert!(!hold.make_room(most + 1, true, |_| unreachable!("it is too much")).unwrap());
        assert!(hold.make_room(most / 2, true, |_| unreachable!("it is booked")).unwrap());
        let mut hold = Hold::new(Some(&spiller(1 << 20)));
        assert!(!hold.make_room(1000, true, |_| Err(over())).unwrap());
        assert!(hold.make_room(1000, false, |_| Err(over())).is_err());
        assert!(hold.book(1000, |_| Err(over())).is_err());
        hold.book(most + 1, |_| Ok(())).unwrap();
        hold.shrink(10, |_| Ok(())).unwrap();
        assert_eq!(hold.booked(), 10);
        let mut hold = Hold::new(None);
        assert!(hold.make_room(1000, true, |_| Err(over())).is_err());
        assert!(hold.make_room(u64::MAX, true, |_| Ok(())).unwrap());
    }
}
