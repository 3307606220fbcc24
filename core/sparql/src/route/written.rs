//! Pairs that a search has reached beyond its memory, in temporary files.
//!
//! ```text
//!  reached pair ── in the filter? ── no ──▶ new: into the table in memory
//!                        └── maybe ──▶ put by ── when there are many, or nothing else is open ──▶ looked up in runs
//!  table in memory, when it is full ──▶ a sorted run; runs of like lengths are merged
//!  stack of open pairs, when it is full: its older part goes to a file, and comes back when the rest is done
//! ```
//!
//! Pairs are found to be new some time after they were reached, and many of them are looked up at once: Munagala and
//! Ranade, "I/O-complexity of graph algorithms", SODA 1999, compare each level of a breadth-first search with the ones
//! before it. We differ: the pairs of a batch may be of any level, because a path asks for what is reached, in any
//! order. So a chain of nodes, whose levels have one pair each, is not compared with all that was reached at each step:
//! a filter (Bloom, "Space/time trade-offs in hash coding with allowable errors", CACM 1970) knows most new pairs.

use super::search::{Pair, STRIDE, Visit};
use crate::boxes::had;
use crate::boxes::spill::{LEAST, RowFile, RowReader, RowRun, RowWriter, Spiller};
use std::hash::BuildHasher;
use vicus_files::FileError;
use vicus_flow::Grow;
use vicus_flow::library::HashKey;
use vicus_rdf::Id;

/// Looking up a few pairs reads one block for each of them.
const MOST_BLOCK: usize = 4 << 10;

/// Pairs between two looks whether the request was cancelled.
const BETWEEN_LOOKS: u64 = 1 << 12;

/// The columns of a pair in a file: its state and its node.
const PAIR: usize = 2;

pub(super) struct WrittenPairs {
    spiller: Spiller,
    block: usize,
    /// How many bytes the search may hold, about.
    bytes: u64,
    /// Two bits are set for each pair of a run. A power of two of words.
    filter: Vec<u64>,
    /// Each pair is in one run at most. Invariant: each run has more than twice the pairs of the next one, but while
    /// pairs are added.
    runs: Vec<SortedRun>,
    /// Reached pairs that may be in a run.
    put_by: Vec<Pair>,
    most_put_by: usize,
    most_seen: usize,
    most_open: usize,
    /// For the older open pairs.
    aside_file: RowFile,
    /// The latest ones last.
    aside: Vec<RowRun>,
    /// Whether the search's table and stack have the sizes for this.
    is_set_up: bool,
    /// How many bytes were written and not yet told.
    count: u64,
}

/// Pairs in their order, each once.
struct SortedRun {
    rows: RowRun,
    /// The first pair of each block.
    fences: Vec<Pair>,
}

impl WrittenPairs {
    /// Without a file, for a search that holds about `bytes` bytes.
    pub(super) fn new(spiller: &Spiller, bytes: u64) -> WrittenPairs {
        let bytes = bytes.max(LEAST);
        let part = |divisor: u64| usize::try_from(bytes / divisor).unwrap_or(usize::MAX);
        let block = Spiller::block(bytes).min(MOST_BLOCK);
        let slots = 1 << (part(4) / (size_of::<Pair>() + 1)).ilog2();
        let most_seen = slots / 8 * 7;
        // More bits than a half of a hash tells apart are of no use.
        let words = 1 << part(8 * 8).ilog2().min(u32::BITS - u64::BITS.ilog2());
        let most_put_by = (part(16) / size_of::<Pair>()).min(most_seen / 2);
        WrittenPairs {
            block,
            bytes,
            filter: had(Vec::zeroed(words)),
            runs: Vec::new(),
            put_by: had(Vec::with_room(most_put_by)),
            most_put_by,
            most_seen,
            most_open: part(4) / size_of::<Visit>(),
            aside_file: spiller.file(4, block),
            aside: Vec::new(),
            is_set_up: false,
            count: 0,
            spiller: spiller.clone(),
        }
    }

    /// How many pairs can be put by.
    pub(super) fn most_put_by(&self) -> usize {
        self.most_put_by
    }

    /// How many pairs the search's table has room for.
    pub(super) fn most_seen(&self) -> usize {
        self.most_seen
    }

    /// How many open pairs the search's stack has room for.
    pub(super) fn most_open(&self) -> usize {
        self.most_open
    }

    /// Whether the search has to set up its table and its stack; true once.
    pub(super) fn sets_up(&mut self) -> bool {
        !std::mem::replace(&mut self.is_set_up, true)
    }

    /// Its bytes in memory, with those that it needs while it writes and merges.
    pub(super) fn bytes(&self) -> u64 {
        let runs =
            self.runs.iter().map(|run| run.rows.held_bytes() + (run.fences.capacity() * size_of::<Pair>()) as u64);
        let aside = self.aside.iter().map(RowRun::held_bytes);
        let kept = self.filter.len() * size_of::<u64>() + 2 * self.most_put_by * size_of::<Pair>();
        let working = (self.chunk() * size_of::<Pair>()) as u64 + 3 * self.aside_file.open_bytes();
        kept as u64 + working + runs.chain(aside).sum::<u64>()
    }

    /// How many pairs are sorted at once.
    fn chunk(&self) -> usize {
        (usize::try_from(self.bytes / 8).unwrap_or(usize::MAX) / size_of::<Pair>()).max(STRIDE)
    }

    /// Whether there is nothing that the search has to look at again.
    pub(super) fn is_empty(&self) -> bool {
        self.put_by.is_empty() && self.aside.is_empty()
    }

    /// Whether a stride of pairs can be put by.
    pub(super) fn has_room(&self) -> bool {
        self.put_by.len() + STRIDE <= self.most_put_by
    }

    /// The number of bytes written since the last call.
    pub(super) fn take_count(&mut self) -> u64 {
        std::mem::take(&mut self.count)
    }

    fn bits(&self, pair: Pair, by: &HashKey) -> [(usize, u64); 2] {
        let hash = by.hash_one(pair);
        [hash as u32, (hash >> 32) as u32].map(|half| {
            let bit = half as usize & (self.filter.len() * 64 - 1);
            (bit / 64, 1 << (bit % 64))
        })
    }

    /// Whether a run may have the pair; if not, no run has it.
    #[inline]
    pub(super) fn may_have(&self, pair: Pair, by: &HashKey) -> bool {
        self.bits(pair, by).iter().all(|(word, bit)| self.filter[*word] & bit != 0)
    }

    /// Keeps a pair until [`WrittenPairs::settle`]. There is room ([`WrittenPairs::has_room`]).
    pub(super) fn put_by(&mut self, pair: Pair) {
        self.put_by.push(pair);
    }

    /// Writes pairs that no run has. Some are not written if the request was cancelled.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    pub(super) fn add(
        &mut self,
        pairs: &mut dyn Iterator<Item = Pair>,
        by: &HashKey,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), FileError> {
        let mut chunk: Vec<Pair> = had(Vec::with_room(self.chunk()));
        while !stopped() {
            chunk.clear();
            chunk.extend((&mut *pairs).take(self.chunk()));
            if chunk.is_empty() {
                break;
            }
            chunk.sort_unstable();
            let mut writer = RunWriter::begin(&self.spiller, self.block)?;
            for &pair in &chunk {
                for (word, bit) in self.bits(pair, by) {
                    self.filter[word] |= bit;
                }
                writer.write(pair)?;
            }
            self.push(writer)?;
            self.merge(stopped)?;
        }
        Ok(())
    }

    fn push(&mut self, writer: RunWriter) -> Result<(), FileError> {
        let run = writer.finish()?;
        self.count += run.rows.file_bytes();
        self.runs.push(run);
        Ok(())
    }

    /// Merges the last runs, so each pair is written as often as the logarithm of their number says.
    fn merge(&mut self, stopped: &dyn Fn() -> bool) -> Result<(), FileError> {
        while let [.., a, b] = &self.runs[..]
            && a.rows.rows() <= 2 * b.rows.rows()
        {
            let mut writer = RunWriter::begin(&self.spiller, self.block)?;
            let (mut a, mut b) = (Pairs::of(a.rows.read())?, Pairs::of(b.rows.read())?);
            loop {
                let least = match (a.at_hand, b.at_hand) {
                    (Some(of_a), Some(of_b)) if of_b < of_a => &mut b,
                    (Some(_), _) => &mut a,
                    (None, Some(_)) => &mut b,
                    (None, None) => break,
                };
                writer.write(least.at_hand.expect("there is one"))?;
                least.advance()?;
                if writer.rows.is_multiple_of(BETWEEN_LOOKS) && stopped() {
                    return Ok(());
                }
            }
            self.runs.truncate(self.runs.len() - 2);
            self.push(writer)?;
        }
        Ok(())
    }

    /// The pairs that were put by and that no run has, each once.
    ///
    /// # Errors
    /// A file can't be read.
    pub(super) fn settle(&mut self, stopped: &dyn Fn() -> bool) -> Result<Vec<Pair>, FileError> {
        let mut new = std::mem::replace(&mut self.put_by, had(Vec::with_room(self.most_put_by)));
        new.sort_unstable();
        new.dedup();
        let rows_of_block = self.block / (PAIR * size_of::<u64>());
        for run in &self.runs {
            if new.is_empty() || stopped() {
                break;
            }
            run.remove_from(&mut new, rows_of_block)?;
        }
        Ok(new)
    }

    /// Writes open pairs, the latest ones last.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    pub(super) fn put_aside(&mut self, open: &[Visit]) -> Result<(), FileError> {
        for part in open.chunks(self.most_open / 4) {
            let mut writer = self.aside_file.begin()?;
            for visit in part {
                writer.write(&[u64::from(visit.state), visit.node.bits(), visit.edge as u64, visit.done as u64])?;
            }
            let run = writer.finish()?;
            self.count += run.file_bytes();
            self.aside.push(run);
        }
        Ok(())
    }

    /// Reads the latest open pairs that were put aside.
    ///
    /// # Errors
    /// A file can't be read.
    pub(super) fn take_back(&mut self, open: &mut Vec<Visit>) -> Result<(), FileError> {
        let Some(run) = self.aside.pop() else { return Ok(()) };
        let mut reader = run.read();
        while reader.advance()? {
            let [state, node, edge, done] = *reader.row() else { unreachable!("it has four columns") };
            open.push(Visit {
                state: state as u32,
                node: Id::from_bits(node),
                edge: edge as usize,
                done: done as usize,
            });
        }
        Ok(())
    }
}

impl SortedRun {
    /// Removes the pairs that it has; they are in their order.
    fn remove_from(&self, pairs: &mut Vec<Pair>, rows_of_block: usize) -> Result<(), FileError> {
        let (mut at, mut kept) = (0, 0);
        while at < pairs.len() {
            let behind = self.fences.partition_point(|fence| *fence <= pairs[at]);
            let until = self.fences.get(behind).copied();
            let Some(block) = behind.checked_sub(1) else {
                pairs[kept] = pairs[at];
                (at, kept) = (at + 1, kept + 1);
                continue;
            };
            let mut own = Pairs::of(self.rows.read_from((block * rows_of_block) as u64)?)?;
            while at < pairs.len() && until.is_none_or(|until| pairs[at] < until) {
                // All pairs that are looked for lie before the next block, so its first pair is the last one read.
                while own.at_hand.is_some_and(|own| own < pairs[at]) {
                    own.advance()?;
                }
                if own.at_hand != Some(pairs[at]) {
                    pairs[kept] = pairs[at];
                    kept += 1;
                }
                at += 1;
            }
        }
        pairs.truncate(kept);
        Ok(())
    }
}

/// A run's pairs, one after the other.
struct Pairs {
    reader: RowReader,
    at_hand: Option<Pair>,
}

impl Pairs {
    fn of(reader: RowReader) -> Result<Pairs, FileError> {
        let mut pairs = Pairs { reader, at_hand: None };
        pairs.advance()?;
        Ok(pairs)
    }

    #[inline]
    fn advance(&mut self) -> Result<(), FileError> {
        self.at_hand = match self.reader.advance()? {
            true => Some((self.reader.row()[0] as u32, Id::from_bits(self.reader.row()[1]))),
            false => None,
        };
        Ok(())
    }
}

/// Writes a run in a file of its own: merged runs give their room on the disk back.
struct RunWriter {
    writer: RowWriter,
    fences: Vec<Pair>,
    rows: u64,
    rows_of_block: u64,
}

impl RunWriter {
    fn begin(spiller: &Spiller, block: usize) -> Result<RunWriter, FileError> {
        let rows_of_block = (block / (PAIR * size_of::<u64>())) as u64;
        Ok(RunWriter { writer: spiller.file(PAIR, block).begin()?, fences: Vec::new(), rows: 0, rows_of_block })
    }

    #[inline]
    fn write(&mut self, pair: Pair) -> Result<(), FileError> {
        if self.rows.is_multiple_of(self.rows_of_block) {
            self.fences.grow_or_give_up(1);
            self.fences.push(pair);
        }
        self.rows += 1;
        self.writer.write(&[u64::from(pair.0), pair.1.bits()])
    }

    fn finish(self) -> Result<SortedRun, FileError> {
        Ok(SortedRun { rows: self.writer.finish()?, fences: self.fences })
    }
}
