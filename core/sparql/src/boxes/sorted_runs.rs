//! Sorted runs of rows in temporary files, merged into one: an external merge sort.
//!
//! Knuth, The Art of Computer Programming, volume 3, §5.4.1: a tree of losers merges as many runs at once as there is
//! memory for their blocks. If there are more runs, neighbours are merged into longer ones first, so that equal rows
//! stay in the order of their arrival.

use super::spill::{Hold, RowFile, RowReader, RowRun, RowWriter, Spiller};
use std::cmp::Ordering;
use std::ops::Range;
use vicus_files::FileError;
use vicus_flow::library::Tournament;
use vicus_flow::{BoxError, Grow, OverBudget, Turn};

pub(crate) struct SortedRuns {
    spiller: Spiller,
    file: RowFile,
    /// In the order of their arrival.
    runs: Vec<RowRun>,
    /// The first run of the next pass.
    next: usize,
    /// Runs being merged into one.
    pass: Option<Pass>,
    /// All runs.
    last: Option<Merge>,
}

/// Merges neighbouring runs into one.
struct Pass {
    merge: Merge,
    into: RowWriter,
    runs: Range<usize>,
}

/// Merging this many rows takes some ten milliseconds at most, if they compare by ids.
const ROWS_AT_ONCE: usize = 1 << 16;
/// How many rows are written between two looks whether the request was cancelled.
const BETWEEN_LOOKS: usize = 1 << 12;

impl SortedRuns {
    /// Without runs; for rows of `width` columns. `bytes` is the memory of the box when it begins to spill.
    pub(crate) fn new(spiller: &Spiller, width: usize, bytes: u64) -> SortedRuns {
        SortedRuns {
            spiller: spiller.clone(),
            file: spiller.file(width, Spiller::block(bytes)),
            runs: Vec::new(),
            next: 0,
            pass: None,
            last: None,
        }
    }

    /// The memory of the runs while they are not merged, in bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.runs.iter().map(RowRun::held_bytes).sum()
    }

    /// The memory for writing a run.
    pub(crate) fn writing_bytes(&self) -> u64 {
        self.file.open_bytes()
    }

    /// Begins a run, for rows behind all others with the same keys.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn begin(&self) -> Result<RowWriter, FileError> {
        self.file.begin()
    }

    /// Adds a run of ordered rows.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    pub(crate) fn add(&mut self, turn: &Turn<'_>, run: RowWriter) -> Result<(), FileError> {
        let run = run.finish()?;
        turn.count_spilled(run.file_bytes());
        self.runs.push(run);
        Ok(())
    }

    /// Adds a run of the columns' rows with these numbers, in this order. Nothing is added if the request was
    /// cancelled.
    ///
    /// # Errors
    /// Errors of [`SortedRuns::add`].
    pub(crate) fn add_ordered(
        &mut self,
        turn: &Turn<'_>,
        columns: &[Vec<u64>],
        order: impl Iterator<Item = usize>,
    ) -> Result<(), FileError> {
        let written = turn.blocking(|| {
            let mut run = self.begin()?;
            let mut row = Vec::with_capacity(columns.len());
            for (place, number) in order.enumerate() {
                if place % BETWEEN_LOOKS == 0 && turn.is_stopped() {
                    return Ok(None);
                }
                row.clear();
                row.extend(columns.iter().map(|column| column[number]));
                run.write(&row)?;
            }
            Ok(Some(run))
        });
        written?.map_or(Ok(()), |run| self.add(turn, run))
    }

    /// The number of runs to merge at once within `bytes` bytes, with one more run being written; at least two.
    fn ways(&self, bytes: u64) -> usize {
        usize::try_from(bytes / self.file.open_bytes()).unwrap_or(usize::MAX).saturating_sub(1).max(2)
    }

    /// Merges runs for a while; true when they are few enough for [`SortedRuns::read`] to merge the rest. All other
    /// memory of the box is free. `book` books for the box.
    ///
    /// # Errors
    /// A file can't be written or read, or there is no memory for merging two runs.
    pub(crate) fn settle(
        &mut self,
        turn: &Turn<'_>,
        hold: &mut Hold,
        mut book: impl FnMut(u64) -> Result<(), OverBudget>,
        compare: impl Fn(&[u64], &[u64]) -> Ordering,
    ) -> Result<bool, BoxError> {
        if self.last.is_some() {
            return Ok(true);
        }
        if let Some(mut pass) = self.pass.take() {
            if turn.is_stopped() {
                return Ok(false);
            }
            if pass.merge.write(ROWS_AT_ONCE, &mut pass.into, compare)? {
                self.pass = Some(pass);
            } else {
                let run = pass.into.finish()?;
                turn.count_spilled(run.file_bytes());
                self.runs.splice(pass.runs, [run]);
            }
            return Ok(false);
        }
        let (held, open) = (self.held_bytes(), self.file.open_bytes());
        let most = self.ways(self.spiller.most().saturating_sub(held)).min(self.runs.len().max(2));
        let bytes = |ways: usize| held + (ways as u64 + 1) * open;
        let has_two = hold.booked() >= bytes(2);
        // If the larger budget refuses, as many as there is memory for.
        let ways = match hold.make_room(bytes(most), has_two, &mut book)? {
            true => most,
            false => self.ways(hold.booked().min(self.spiller.most()).saturating_sub(held)).min(most),
        };
        hold.book(bytes(ways), &mut book)?;
        hold.shrink(bytes(ways), &mut book)?;
        if self.runs.len() <= ways {
            self.last = Some(Merge::new(self.runs.iter().map(RowRun::read).collect(), compare)?);
            return Ok(true);
        }
        if self.next + 1 >= self.runs.len() {
            self.next = 0;
        }
        let end = self.runs.len().min(self.next + ways.min(self.runs.len() - ways + 1));
        let runs = self.next..end;
        let readers = self.runs[runs.clone()].iter().map(RowRun::read).collect();
        self.pass = Some(Pass { merge: Merge::new(readers, compare)?, into: self.file.begin()?, runs });
        self.next += 1;
        Ok(false)
    }

    /// Appends the next rows, one after the other, up to a limit; returns their number. To be called when
    /// [`SortedRuns::settle`] was true.
    ///
    /// # Errors
    /// A file can't be read.
    pub(crate) fn read(
        &mut self,
        most: usize,
        into: &mut Vec<u64>,
        compare: impl Fn(&[u64], &[u64]) -> Ordering,
    ) -> Result<usize, FileError> {
        into.grow_or_give_up(most * self.file.width());
        let last = self.last.as_mut().expect("the runs are settled");
        let mut rows = 0;
        while rows < most {
            let Some(row) = last.row() else { break };
            into.extend_from_slice(row);
            last.advance(&compare)?;
            rows += 1;
        }
        Ok(rows)
    }
}

/// Several runs as one.
struct Merge {
    readers: Vec<Source>,
    order: Tournament,
}

struct Source {
    reader: RowReader,
    has_row: bool,
}

/// Whether the row at hand of one run comes before another's; runs that have ended come last.
#[inline]
fn is_before(all: &[Source], a: usize, b: usize, compare: impl Fn(&[u64], &[u64]) -> Ordering) -> bool {
    match (all[a].has_row, all[b].has_row) {
        (true, true) => compare(all[a].reader.row(), all[b].reader.row()).then(a.cmp(&b)).is_lt(),
        (a, b) => a && !b,
    }
}

impl Merge {
    fn new(readers: Vec<RowReader>, compare: impl Fn(&[u64], &[u64]) -> Ordering) -> Result<Merge, FileError> {
        let source = |mut reader: RowReader| Ok(Source { has_row: reader.advance()?, reader });
        let readers = readers.into_iter().map(source).collect::<Result<Vec<Source>, FileError>>()?;
        let order = Tournament::new(readers.len(), |a, b| is_before(&readers, a, b, &compare));
        Ok(Merge { readers, order })
    }

    /// The least row.
    #[inline]
    fn row(&self) -> Option<&[u64]> {
        let least = self.readers.get(self.order.winner())?;
        least.has_row.then(|| least.reader.row())
    }

    /// Goes to the next row.
    #[inline]
    fn advance(&mut self, compare: impl Fn(&[u64], &[u64]) -> Ordering) -> Result<(), FileError> {
        let Merge { readers, order } = self;
        let winner = &mut readers[order.winner()];
        winner.has_row = winner.reader.advance()?;
        order.replay(|a, b| is_before(readers, a, b, &compare));
        Ok(())
    }

    /// Writes the next rows, up to a limit; false when there are no more.
    fn write(
        &mut self,
        most: usize,
        into: &mut RowWriter,
        compare: impl Fn(&[u64], &[u64]) -> Ordering,
    ) -> Result<bool, FileError> {
        for _ in 0..most {
            let Some(row) = self.row() else { return Ok(false) };
            into.write(row)?;
            self.advance(&compare)?;
        }
        Ok(true)
    }
}
