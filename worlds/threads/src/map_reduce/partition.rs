//! The pairs of a partition: in memory, and in sorted runs in temporary files; and all of them in order.

use super::{Batch, Combine, Key, Stored, senseless};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;
use vicus_files::scratch::{Reading, Writing, WrittenRun};
use vicus_files::{FileError, FileOperation, Scratch};

/// So many runs are merged at once; each needs a block of memory.
const MERGED: usize = 64;

pub(crate) struct Partition<K, V> {
    pairs: Vec<(K, V)>,
    /// Their bytes in memory.
    bytes: usize,
    runs: Vec<WrittenRun>,
}

impl<K, V> Default for Partition<K, V> {
    fn default() -> Partition<K, V> {
        Partition { pairs: Vec::new(), bytes: 0, runs: Vec::new() }
    }
}

impl<K, V> Partition<K, V> {
    /// Its pairs' bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn add(&mut self, batch: Batch<K, V>) {
        self.bytes += batch.bytes;
        if self.pairs.is_empty() {
            self.pairs = batch.pairs;
        } else {
            self.pairs.extend(batch.pairs);
        }
    }
}

impl<K: Key, V: Stored> Partition<K, V> {
    /// Writes the pairs in memory to a run. Returns their bytes.
    pub(crate) fn spill(
        &mut self,
        scratch: &Arc<Scratch>,
        combine: Option<&Combine<'_, V>>,
    ) -> Result<usize, FileError> {
        let pairs = ordered(std::mem::take(&mut self.pairs), combine);
        let mut run = Run::begin(scratch)?;
        pairs.iter().try_for_each(|(key, value)| run.write(key, value))?;
        self.runs.push(run.finish()?);
        Ok(std::mem::take(&mut self.bytes))
    }

    /// All pairs by their keys. There is a place for runs if there are any.
    pub(crate) fn sorted(
        mut self,
        scratch: Option<&Arc<Scratch>>,
        combine: Option<&Combine<'_, V>>,
    ) -> Result<Sorted<K, V>, FileError> {
        while let Some(scratch) = scratch.filter(|_| self.runs.len() > MERGED) {
            let merged: Vec<WrittenRun> = self.runs.drain(..MERGED).collect();
            self.runs.push(merge::<K, V>(&merged, scratch, combine)?);
        }
        Sorted::new(ordered(self.pairs, combine), &self.runs)
    }
}

/// One run of several.
fn merge<K: Key, V: Stored>(
    runs: &[WrittenRun],
    scratch: &Arc<Scratch>,
    combine: Option<&Combine<'_, V>>,
) -> Result<WrittenRun, FileError> {
    let mut sorted: Sorted<K, V> = Sorted::new(Vec::new(), runs)?;
    let mut run = Run::begin(scratch)?;
    while let Some((key, mut value)) = sorted.next()? {
        while let Some(next) = sorted.next_of(&key)? {
            match combine {
                Some(combine) => value = combine(value, next),
                None => {
                    run.write(&key, &value)?;
                    value = next;
                }
            }
        }
        run.write(&key, &value)?;
    }
    run.finish()
}

/// Pairs by their keys.
fn ordered<K: Ord, V>(mut pairs: Vec<(K, V)>, combine: Option<&Combine<'_, V>>) -> Vec<(K, V)> {
    match combine {
        Some(combine) => combined(pairs, combine),
        None => {
            pairs.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            pairs
        }
    }
}

/// Pairs by their keys, one of each.
pub(crate) fn combined<K: Ord, V>(mut pairs: Vec<(K, V)>, combine: &Combine<'_, V>) -> Vec<(K, V)> {
    pairs.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let mut single: Vec<(K, V)> = Vec::new();
    for (key, value) in pairs {
        match single.pop() {
            Some((last, before)) if last == key => single.push((last, combine(before, value))),
            before => {
                single.extend(before);
                single.push((key, value));
            }
        }
    }
    single
}

/// A run being written.
struct Run {
    writing: Writing,
    record: Vec<u8>,
}

impl Run {
    fn begin(scratch: &Arc<Scratch>) -> Result<Run, FileError> {
        Ok(Run { writing: scratch.begin()?, record: Vec::new() })
    }

    /// A pair is its number of bytes, and these.
    fn write<K: Stored, V: Stored>(&mut self, key: &K, value: &V) -> Result<(), FileError> {
        self.record.clear();
        self.record.extend([0; size_of::<usize>()]);
        key.store(&mut self.record);
        value.store(&mut self.record);
        let bytes = self.record.len() - size_of::<usize>();
        self.record[..size_of::<usize>()].copy_from_slice(&bytes.to_ne_bytes());
        self.writing.write(&self.record)
    }

    fn finish(self) -> Result<WrittenRun, FileError> {
        self.writing.finish()
    }
}

/// Pairs in the order of their keys: a tournament of the pairs in memory and of runs.
pub(crate) struct Sorted<K, V> {
    memory: std::vec::IntoIter<(K, V)>,
    runs: Vec<Reading>,
    /// The next pair of each.
    heads: BinaryHeap<Head<K, V>>,
    record: Vec<u8>,
}

/// The number of the pairs in memory; a run's is one more than its place.
const MEMORY: usize = 0;

struct Head<K, V> {
    key: K,
    value: V,
    source: usize,
}

impl<K: Ord, V> Ord for Head<K, V> {
    /// The largest is the next: that of the least key.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (&other.key, other.source).cmp(&(&self.key, self.source))
    }
}

impl<K: Ord, V> PartialOrd for Head<K, V> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord, V> PartialEq for Head<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<K: Ord, V> Eq for Head<K, V> {}

impl<K: Key, V: Stored> Sorted<K, V> {
    fn new(pairs: Vec<(K, V)>, runs: &[WrittenRun]) -> Result<Sorted<K, V>, FileError> {
        let runs: Vec<Reading> = runs.iter().map(WrittenRun::read).collect();
        let heads = BinaryHeap::with_capacity(1 + runs.len());
        let mut sorted = Sorted { memory: pairs.into_iter(), runs, heads, record: Vec::new() };
        for source in MEMORY..=sorted.runs.len() {
            let head = sorted.read(source)?;
            sorted.heads.extend(head);
        }
        Ok(sorted)
    }

    /// The next pair of a source.
    fn read(&mut self, source: usize) -> Result<Option<Head<K, V>>, FileError> {
        let Some(run) = source.checked_sub(1) else {
            return Ok(self.memory.next().map(|(key, value)| Head { key, value, source }));
        };
        let run = &mut self.runs[run];
        if run.left() == 0 {
            return Ok(None);
        }
        let mut bytes = [0; size_of::<usize>()];
        run.read(&mut bytes)?;
        self.record.resize(usize::from_ne_bytes(bytes), 0);
        run.read(&mut self.record)?;
        let mut record = &self.record[..];
        let pair = K::load(&mut record).zip(V::load(&mut record)).filter(|_| record.is_empty());
        let (key, value) =
            pair.ok_or_else(|| FileError::new("a temporary file".to_owned(), FileOperation::Read, senseless()))?;
        Ok(Some(Head { key, value, source }))
    }

    /// The pair with the least key.
    pub(crate) fn next(&mut self) -> Result<Option<(K, V)>, FileError> {
        let Some(Head { key, value, source }) = self.heads.pop() else { return Ok(None) };
        let head = self.read(source)?;
        self.heads.extend(head);
        Ok(Some((key, value)))
    }

    /// The next value, if it is this key's.
    pub(crate) fn next_of(&mut self, key: &K) -> Result<Option<V>, FileError> {
        let Some(head) = self.heads.peek().filter(|head| head.key == *key) else { return Ok(None) };
        let next = self.read(head.source)?;
        let mut head = self.heads.peek_mut().expect("it is there");
        Ok(Some(match next {
            // Put in its place, at less cost than taking one out and putting one in.
            Some(next) => std::mem::replace(&mut *head, next).value,
            None => PeekMut::pop(head).value,
        }))
    }
}
