//! Source: the rows of an index matching a pattern without any input.

use crate::boxes::Growth;
use crate::graphs::Merged;
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Operator, Turn, Unfilled};
use vicus_rdf::{Id, Index, Order, Snapshot};

/// The task of a scan. The rows match the pattern's leading constants; other constants and repeated variables are
/// checked for each row.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ScanSpec {
    pub(crate) order: Order,
    /// All rows to read. A replica reads parts of them.
    pub(crate) rows: Range<usize>,
    /// Levels for output columns.
    pub(crate) output: Vec<usize>,
    /// Levels with a required constant.
    pub(crate) constants: Vec<(usize, Id)>,
    /// Pairs of levels with equal values.
    pub(crate) repeated: Vec<(usize, usize)>,
    /// The graphs of the rows, if they are read as one: one row is put out for each triple.
    pub(crate) merged: Option<Merged>,
    /// Whether blocks of the rows are read in scattered order: for a condition with few matching rows, if a few of them
    /// are wanted. The matching rows may lie together, far from the first row.
    pub(crate) scattered: bool,
    /// Whether of rows with the same output only the first is put out. The output is then all levels after the
    /// constants up to some level, and there are no other checks.
    pub(crate) distinct: bool,
}

impl ScanSpec {
    /// Whether checks or the output need this level's values.
    fn looks_at(&self, level: usize) -> bool {
        self.output.contains(&level)
            || self.constants.iter().any(|(checked, _)| *checked == level)
            || self.repeated.iter().any(|(a, b)| *a == level || *b == level)
            || self.merged.is_some() && !self.distinct
    }

    /// Bytes read for these rows.
    fn bytes_of(&self, index: &Index, rows: &Range<usize>) -> u64 {
        let levels = (0..4).filter(|&level| self.looks_at(level));
        levels.map(|level| index.bytes_of(level, rows.clone()) as u64).sum()
    }
}

pub(crate) struct Scan {
    snapshot: Arc<Snapshot>,
    spec: Arc<ScanSpec>,
    /// The rest of the range at hand.
    rows: Range<usize>,
    /// Whether there is a single range: all rows.
    is_whole: bool,
    /// The blocks behind the range at hand, if they are read in scattered order.
    scattered: Option<Scattered>,
    growth: Growth,
}

/// Blocks of rows in an order that spreads any number of first blocks evenly over all: a number's bits reversed are the
/// block's number (van der Corput, "Verteilungsfunktionen", 1935).
struct Scattered {
    rows: Range<usize>,
    next: u32,
    /// How many bits the blocks' numbers have.
    bits: u32,
}

/// Rows of a block. Neighbours are read fast, and a few hundred blocks are a sample.
const SCATTERED: usize = 512;

impl Scattered {
    /// `None` if one block has all rows.
    fn of(rows: Range<usize>) -> Option<Scattered> {
        let last = u32::try_from(rows.len().checked_sub(1)? / SCATTERED).ok()?;
        (last > 0).then(|| Scattered { rows, next: 0, bits: u32::BITS - last.leading_zeros() })
    }
}

impl Iterator for Scattered {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        while self.next >> self.bits == 0 {
            let number = self.next.reverse_bits() >> (u32::BITS - self.bits);
            self.next += 1;
            let start = self.rows.start + number as usize * SCATTERED;
            if start < self.rows.end {
                return Some(start..self.rows.end.min(start + SCATTERED));
            }
        }
        None
    }
}

impl Scan {
    /// A scan of all rows. It begins with the initialization pill.
    pub(crate) fn new(snapshot: &Arc<Snapshot>, spec: &Arc<ScanSpec>, limit: usize) -> Scan {
        let mut scattered = if spec.scattered { Scattered::of(spec.rows.clone()) } else { None };
        let rows = scattered.as_mut().and_then(Iterator::next).unwrap_or(spec.rows.clone());
        Scan {
            snapshot: Arc::clone(snapshot),
            spec: Arc::clone(spec),
            rows,
            is_whole: true,
            scattered,
            growth: Growth::new(limit),
        }
    }

    /// A scan of the ranges of rows on its input.
    pub(crate) fn of_ranges(snapshot: &Arc<Snapshot>, spec: &Arc<ScanSpec>, limit: usize) -> Scan {
        Scan { rows: 0..0, is_whole: false, scattered: None, ..Scan::new(snapshot, spec, limit) }
    }

    /// The columns of the next rows that pass the checks.
    fn read(&mut self, turn: &Turn<'_>) -> Envelope {
        let index = self.snapshot.index(self.spec.order);
        // The first rows should come soon, so few are read at first; checks may drop most of them.
        let end = self.rows.end.min(self.rows.start + self.growth.target);
        let rows = self.rows.start..end;
        self.rows.start = end;
        if self.rows.is_empty()
            && let Some(next) = self.scattered.as_mut().and_then(Iterator::next)
        {
            self.rows = next;
        }
        if let Some(home) = (!rows.is_empty()).then(|| index.home(rows.start)).flatten() {
            turn.count_read(home, self.spec.bytes_of(index, &rows));
        }
        self.growth.grow();
        let spec = &self.spec;
        if spec.constants.is_empty() && spec.repeated.is_empty() && !spec.distinct && spec.merged.is_none() {
            return crate::boxes::envelope_of(turn, spec.output.len(), rows.len(), |builder| {
                for (column, &level) in spec.output.iter().enumerate() {
                    index.fill(level, rows.clone(), &mut builder.u64s(column));
                }
            });
        }
        // The row before them is read as well, to tell whether the first one repeats it. That row was put out with
        // another envelope, or by another replica.
        let is_in_front = spec.distinct && rows.start > spec.rows.start && !rows.is_empty();
        let rows = rows.start - usize::from(is_in_front)..rows.end;
        let mut levels: [Vec<u64>; 4] = Default::default();
        for (level, column) in levels.iter_mut().enumerate().filter(|(level, _)| spec.looks_at(*level)) {
            Unfilled::of(column, rows.len(), |room| index.fill(level, rows.clone(), room));
        }
        let mut kept: Vec<u32> = (0..rows.len() as u32).collect();
        for (level, id) in &spec.constants {
            kept.retain(|&row| levels[*level][row as usize] == id.bits());
        }
        for (a, b) in &spec.repeated {
            kept.retain(|&row| levels[*a][row as usize] == levels[*b][row as usize]);
        }
        if let Some(merged) = spec.merged.as_ref().filter(|_| !spec.distinct && !rows.is_empty()) {
            // Rows of one triple follow each other, and only the first ones may repeat a row read before.
            let repeats = merged.repeats(index, rows.start);
            kept.retain(|&row| merged.has(Id::from_bits(levels[3][row as usize])));
            let mut before = repeats.then_some(0);
            kept.retain(|&row| {
                let same =
                    |other: u32| (0..3).all(|level| levels[level][row as usize] == levels[level][other as usize]);
                !before.replace(row).is_some_and(same)
            });
        }
        if spec.distinct {
            let mut before: Option<u32> = None;
            kept.retain(|&row| {
                let same = |other: u32| {
                    spec.output.iter().all(|&level| levels[level][row as usize] == levels[level][other as usize])
                };
                let is_first = !before.is_some_and(same);
                before = Some(row);
                is_first
            });
            kept.drain(..usize::from(is_in_front));
        }
        crate::boxes::envelope_of(turn, spec.output.len(), kept.len(), |builder| {
            for (column, &level) in spec.output.iter().enumerate() {
                crate::boxes::gather(&levels[level], &kept, &mut builder.u64s(column));
            }
        })
    }
}

impl Operator for Scan {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.is_whole {
            turn.take(0);
        } else if self.rows.is_empty() {
            match turn.take(0) {
                None => return Ok(()),
                Some(pill) if pill.is_pill() => {
                    turn.send_pill(0);
                    return Ok(());
                }
                Some(range) => {
                    let place = |column: usize| range.column(column).u64s()[0] as usize;
                    self.rows = place(1)..place(2);
                }
            }
        }
        // Empty envelopes are not sent; the next rows are read instead.
        for _ in 0..16 {
            if self.rows.is_empty() || turn.is_stopped() {
                break;
            }
            let envelope = self.read(turn);
            if envelope.rows() > 0 {
                turn.send(0, envelope);
                break;
            }
        }
        if !self.rows.is_empty() {
            turn.run_again();
        } else if self.is_whole {
            turn.send_pill(0);
        } else if turn.head(0).is_some() {
            // A range that arrived while another one was read does not invoke the box again.
            turn.run_again();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_blocks_are_all_rows_once_and_the_first_ones_lie_evenly() {
        for count in [1, SCATTERED, SCATTERED + 1, 5 * SCATTERED, 1000 * SCATTERED + 7] {
            let rows = 100..100 + count;
            let Some(blocks) = Scattered::of(rows.clone()) else {
                assert!(count <= SCATTERED);
                continue;
            };
            let blocks: Vec<Range<usize>> = blocks.collect();
            assert_eq!(blocks[0].start, 100);
            let eighths = blocks.iter().take(16).map(|block| (block.start - 100) * 8 / count);
            let all: std::collections::BTreeSet<usize> = eighths.collect();
            assert!(count < 16 * SCATTERED || all.len() == 8, "{count}: {all:?}");
            let mut sorted = blocks;
            sorted.sort_by_key(|block| block.start);
            let read: Vec<usize> = sorted.into_iter().flatten().collect();
            assert!(read.into_iter().eq(rows), "{count}");
        }
        assert!(Scattered::of(7..7).is_none());
    }
}
