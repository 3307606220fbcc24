//! The values of DISTINCT aggregates in files: dealt there by group and value, and made distinct partition by
//! partition.
//!
//! A group's values may exceed the memory, so they lie in many partitions. The distinct rest of a partition goes to the
//! partition of its group, where each value is folded once.

use super::AggregateSpec;
use super::records::{Spilled, Words};
use crate::boxes::partitioned_table::{Filter as _, Table as _};
use crate::boxes::scatter::{DEEPEST, Scatter, partition_of};
use crate::boxes::spill::{RowRun, Spiller};
use crate::operators::distinct::Wide;
use std::sync::Arc;
use vicus_files::FileError;
use vicus_flow::Turn;
use vicus_flow::library::HashKey;

/// Values of the written groups.
pub(super) struct Values {
    spec: Arc<AggregateSpec>,
    by: HashKey,
    spiller: Spiller,
    /// How many bytes the box may hold.
    most: u64,
    /// Partitions not yet distinct, with their levels.
    tasks: Vec<(u32, Arc<RowRun>)>,
    /// The partition at hand, and its level.
    reading: Option<(u32, Words)>,
    /// The values found there, by the number of the aggregate; each row has the group's keys and the values.
    seen: Vec<Option<Wide>>,
    /// The values beyond the room of `seen`.
    dealt: Option<Scatter>,
    record: Vec<u64>,
}

impl Values {
    /// The values in these partitions.
    pub(super) fn new(
        spec: &Arc<AggregateSpec>,
        by: HashKey,
        spiller: &Spiller,
        most: u64,
        tasks: Vec<(u32, Arc<RowRun>)>,
    ) -> Values {
        let (spec, spiller) = (Arc::clone(spec), spiller.clone());
        Values { spec, by, spiller, most, tasks, reading: None, seen: Vec::new(), dealt: None, record: Vec::new() }
    }

    /// The most bytes of the tables, for a moment at least, while this number of values is added.
    fn seen_bytes(&self, more: usize) -> u64 {
        self.seen.iter().flatten().map(|seen| seen.bytes_with(more)).sum()
    }

    /// The bytes needed to read this number of values.
    pub(super) fn bytes(&self, more: usize) -> u64 {
        self.dealt.as_ref().map_or_else(|| self.seen_bytes(more), |dealt| self.seen_bytes(0) + dealt.bytes())
    }

    /// Half of the memory is for the tables, and the rest for the files of values and groups. Values of a larger
    /// partition are dealt to others; it keeps some, so this ends.
    fn make_room(&mut self, more: usize, level: u32) {
        let is_empty = self.seen.iter().flatten().all(Wide::is_empty);
        if self.dealt.is_none() && level < DEEPEST && !is_empty && self.seen_bytes(more) > self.most / 2 {
            self.dealt = Some(Scatter::new(&self.spiller, self.most, 1));
        }
    }

    /// Reads at most `most` values; false when all are distinct and with their groups.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    pub(super) fn settle(&mut self, most: usize, groups: &mut Spilled, turn: &Turn<'_>) -> Result<bool, FileError> {
        let Some((level, mut words)) = self.reading.take() else {
            let Some((level, run)) = self.tasks.pop() else { return Ok(false) };
            let keys = self.spec.keys.len();
            let seen =
                self.spec.folds.iter().map(|fold| Some(Wide::new(keys + fold.distinct.as_ref()?.len(), self.by)));
            self.seen = seen.collect();
            self.reading = Some((level, Words::new(&run)));
            return Ok(true);
        };
        self.make_room(most, level);
        for _ in 0..most {
            let Some(fold) = words.next()? else {
                if let Some(dealt) = self.dealt.take() {
                    self.tasks.extend(dealt.finish(turn)?.into_iter().flatten().map(|run| (level + 1, run)));
                }
                self.seen.clear();
                return Ok(true);
            };
            let fold = fold as usize;
            let seen = self.seen[fold].as_mut().expect("only DISTINCT aggregates have values");
            self.record.clear();
            self.record.push(fold as u64);
            words.words(seen.width(), &mut self.record)?;
            match &mut self.dealt {
                None => {
                    if seen.enter(&self.record[1..]) {
                        groups.write_value(&self.record)?;
                    }
                }
                Some(dealt) if !seen.has(&self.record[1..]) => {
                    let hash = self.by.hash(self.record.iter().copied());
                    dealt.write(partition_of(self.by, hash, level + 1, dealt.partitions()), &self.record)?;
                }
                Some(_) => {}
            }
        }
        self.reading = Some((level, words));
        Ok(true)
    }
}
