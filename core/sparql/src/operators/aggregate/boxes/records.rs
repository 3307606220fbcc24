//! Groups beyond an aggregate's memory, as records in files.
//!
//! ```text
//!  0, keys, state of each aggregate without DISTINCT      a group, folded while DISTINCT values were remembered
//!  1, keys, state of each aggregate                       a group, folded later
//!  n, keys, values                                        values of the aggregate number n - 2, with DISTINCT
//! ```
//!
//! A group may have several records of each kind, because it began anew when it had been written. States are put
//! together; values are made distinct first ([`Values`](super::values::Values)), and folded then. All is in words of 64
//! bits.

use super::{FoldSpec, Groups, Room, State};
use crate::algebra::Fold;
use crate::boxes::partitioned_table::Table;
use crate::boxes::scatter::{Scatter, partition_of};
use crate::boxes::spill::{RowReader, RowRun, Spiller};
use crate::operators::distinct::Wide;
use crate::terms::Terms;
use crate::value::{Decimal, Number, extreme_order};
use num_bigint::BigInt;
use std::cmp::Ordering;
use std::sync::Arc;
use vicus_files::FileError;
use vicus_flow::library::HashKey;
use vicus_flow::{Grow, Turn};
use vicus_rdf::Id;

/// The partitions of an aggregate's groups.
pub(super) struct Spilled {
    by: HashKey,
    level: u32,
    /// The number of keys of a group.
    keys: usize,
    /// Partitions below this one are still in memory only.
    resident: usize,
    scatter: Scatter,
    /// The values of DISTINCT aggregates, if there are such: each in the partition of its group and itself.
    values: Option<Scatter>,
    record: Vec<u64>,
}

/// The first word of a record; the group's keys follow. 0: the states of its aggregates without the DISTINCT ones; 1:
/// all states; 2 and an aggregate's number: values of this aggregate found in no other record of the group.
const UNDISTINCT: u64 = 0;
const STATES: u64 = 1;
const VALUES: u64 = 2;

impl Spilled {
    /// For groups with this number of keys. With `values`, DISTINCT aggregates have values.
    pub(super) fn new(terms: &Terms, spiller: &Spiller, level: u32, keys: usize, values: bool) -> Spilled {
        let scatter = || Scatter::new(spiller, terms.most_held() / if values { 2 } else { 1 }, 1);
        let (scatter, values) = (scatter(), values.then(scatter));
        Spilled { by: terms.key, level, keys, resident: scatter.partitions(), scatter, values, record: Vec::new() }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        self.scatter.bytes() + self.values.as_ref().map_or(0, Scatter::bytes)
    }

    fn partition(&self, key: &[u64]) -> usize {
        partition_of(self.by, self.by.hash(key.iter().copied()), self.level, self.scatter.partitions())
    }

    /// The partitions of the groups, if they are written.
    fn places(&self, groups: &Groups) -> Vec<Option<usize>> {
        let places = groups.keys().map(|key| Some(self.partition(key)).filter(|&partition| partition >= self.resident));
        let mut all = Vec::new();
        all.grow_or_give_up(groups.count);
        all.extend(places);
        all
    }

    /// Adds a group's value to the values to be made distinct: the number of the aggregate, the group's keys, the
    /// values.
    fn deal_value(&mut self, record: &[u64]) -> Result<(), FileError> {
        let values = self.values.as_mut().expect("only DISTINCT aggregates have values");
        let hash = self.by.hash(record.iter().copied());
        values.write(partition_of(self.by, hash, self.level, values.partitions()), record)
    }

    /// Adds a distinct record of this form to its group's partition.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    pub(super) fn write_value(&mut self, record: &[u64]) -> Result<(), FileError> {
        let partition = self.partition(&record[1..=self.keys]);
        self.record.clear();
        self.record.push(VALUES + record[0]);
        self.record.extend_from_slice(&record[1..]);
        self.scatter.write(partition, &self.record)
    }

    /// The values to be made distinct, by partition. All groups must have been written.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    pub(super) fn take_values(&mut self, turn: &Turn<'_>) -> Result<Vec<Arc<RowRun>>, FileError> {
        let Some(values) = self.values.take() else { return Ok(Vec::new()) };
        Ok(values.finish(turn)?.into_iter().flatten().collect())
    }

    /// Whether values of DISTINCT aggregates were written.
    pub(super) fn has_values(&self) -> bool {
        self.values.as_ref().is_some_and(|values| (0..values.partitions()).any(|partition| values.is_open(partition)))
    }

    /// Writes all groups.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    pub(super) fn evict_all<'a>(&mut self, tables: impl Iterator<Item = &'a mut Groups>) -> Result<(), FileError> {
        self.resident = 0;
        self.evict_rest(tables)
    }

    /// Writes groups, at least a quarter of them if their partitions have about equally many. Partitions with earlier
    /// writes come first.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    pub(super) fn evict<'a>(&mut self, tables: impl Iterator<Item = &'a mut Groups>) -> Result<(), FileError> {
        let tables: Vec<&mut Groups> = tables.collect();
        let mut counts = vec![0; self.scatter.partitions()];
        for key in tables.iter().flat_map(|table| table.keys()) {
            counts[self.partition(key)] += 1;
        }
        let all: usize = counts.iter().sum();
        while self.resident > 0 && counts[self.resident..].iter().sum::<usize>() * 4 < all {
            self.resident /= 2;
        }
        self.evict_rest(tables.into_iter())
    }

    /// Writes the groups of partitions with earlier writes.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    pub(super) fn evict_rest<'a>(&mut self, tables: impl Iterator<Item = &'a mut Groups>) -> Result<(), FileError> {
        for table in tables {
            let places = self.places(table);
            table.write(&places, self)?;
        }
        Ok(())
    }

    /// The records of each partition, if it has any.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    pub(super) fn finish(self, turn: &Turn<'_>) -> Result<Vec<Option<Arc<RowRun>>>, FileError> {
        self.scatter.finish(turn)
    }
}

/// Reads words.
pub(super) struct Words {
    reader: RowReader,
}

impl Words {
    pub(super) fn new(run: &RowRun) -> Words {
        Words { reader: run.read() }
    }

    /// The next word; `None` at the end.
    ///
    /// # Errors
    /// The system refuses, or the bytes are not as they were written.
    pub(super) fn next(&mut self) -> Result<Option<u64>, FileError> {
        Ok(self.reader.advance()?.then(|| self.reader.row()[0]))
    }

    /// The next word of a record.
    fn word(&mut self) -> Result<u64, FileError> {
        Ok(self.next()?.expect("records were written as a whole, and their blocks have checksums"))
    }

    /// Appends the next words of a record.
    ///
    /// # Errors
    /// Errors of [`Words::next`].
    pub(super) fn words(&mut self, count: usize, into: &mut Vec<u64>) -> Result<(), FileError> {
        for _ in 0..count {
            into.push(self.word()?);
        }
        Ok(())
    }

    fn bytes(&mut self) -> Result<Vec<u8>, FileError> {
        let count = self.word()? as usize;
        let mut bytes: Vec<u8> = Vec::new();
        bytes.grow_or_give_up(count.next_multiple_of(8));
        while bytes.len() < count {
            bytes.extend(self.word()?.to_le_bytes());
        }
        bytes.truncate(count);
        Ok(bytes)
    }
}

/// Appends bytes with their number, in whole words.
fn put_bytes(bytes: &[u8], into: &mut Vec<u64>) {
    into.grow_or_give_up(1 + bytes.len().div_ceil(8));
    into.push(bytes.len() as u64);
    for part in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        into.push(u64::from_le_bytes(word));
    }
}

/// The first word of a number, or of its absence.
const NONE: u64 = 0;
const INTEGER: u64 = 1;
const WIDE: u64 = 2;
const DECIMAL: u64 = 3;
const LARGE: u64 = 4;
const FLOAT: u64 = 5;
const DOUBLE: u64 = 6;

fn put_number(number: Option<&Number>, into: &mut Vec<u64>) {
    match number {
        None => into.push(NONE),
        Some(Number::Integer(value)) => into.extend([INTEGER, value.cast_unsigned()]),
        Some(Number::Wide(value)) => {
            into.push(WIDE);
            put_bytes(&value.to_signed_bytes_le(), into);
        }
        Some(Number::Decimal(Decimal::Small { mantissa, scale })) => {
            let bits = mantissa.cast_unsigned();
            into.extend([DECIMAL, bits as u64, (bits >> 64) as u64, u64::from(*scale)]);
        }
        Some(Number::Decimal(Decimal::Large(value))) => {
            into.extend([LARGE, u64::from(value.1)]);
            put_bytes(&value.0.to_signed_bytes_le(), into);
        }
        Some(Number::Float(value)) => into.extend([FLOAT, u64::from(value.to_bits())]),
        Some(Number::Double(value)) => into.extend([DOUBLE, value.to_bits()]),
    }
}

fn number(words: &mut Words) -> Result<Option<Number>, FileError> {
    Ok(Some(match words.word()? {
        NONE => return Ok(None),
        INTEGER => Number::Integer(words.word()?.cast_signed()),
        WIDE => Number::Wide(Arc::new(BigInt::from_signed_bytes_le(&words.bytes()?))),
        DECIMAL => {
            let bits = u128::from(words.word()?) | u128::from(words.word()?) << 64;
            Number::Decimal(Decimal::Small { mantissa: bits.cast_signed(), scale: words.word()? as u8 })
        }
        LARGE => {
            let scale = words.word()? as u32;
            Number::Decimal(Decimal::Large(Arc::new((BigInt::from_signed_bytes_le(&words.bytes()?), scale))))
        }
        FLOAT => Number::Float(f32::from_bits(words.word()? as u32)),
        DOUBLE => Number::Double(f64::from_bits(words.word()?)),
        other => unreachable!("no number begins with {other}"),
    }))
}

impl State {
    fn put(&self, into: &mut Vec<u64>) {
        match self {
            State::Count(count) => into.push(*count),
            State::Total(count, total) => {
                into.push(*count);
                put_number(total.as_ref(), into);
            }
            State::Best(best) => into.extend(best.map_or([0, 0], |id| [1, id.bits()])),
            State::Sample(sample) => into.push(sample.bits()),
            State::Text(count, text) => {
                into.extend([*count, u64::from(text.is_some())]);
                put_bytes(text.as_deref().unwrap_or_default().as_bytes(), into);
            }
        }
    }

    fn read(fold: &Fold, words: &mut Words) -> Result<State, FileError> {
        Ok(match fold {
            Fold::Count => State::Count(words.word()?),
            Fold::Sum | Fold::Average => State::Total(words.word()?, number(words)?),
            Fold::Least | Fold::Greatest => {
                let (is_there, id) = (words.word()?, Id::from_bits(words.word()?));
                State::Best((is_there == 1).then_some(id))
            }
            Fold::Sample => State::Sample(Id::from_bits(words.word()?)),
            Fold::Concat(_) => {
                let (count, is_there, bytes) = (words.word()?, words.word()?, words.bytes()?);
                let text = String::from_utf8(bytes).expect("it was written as a text");
                State::Text(count, (is_there == 1).then_some(text))
            }
        })
    }

    /// Puts this state and a later one of the same group together.
    fn join(&mut self, terms: &Terms, fold: &Fold, other: State, room: &mut Room<'_>) {
        match (&mut *self, other) {
            (State::Count(count), State::Count(more)) => *count += more,
            (State::Total(..), State::Total(count, sum)) => self.sum_up(count, sum),
            (State::Best(best), State::Best(other)) => match (&mut *best, other) {
                (Some(old), Some(new)) => {
                    let wanted = if *fold == Fold::Least { Ordering::Less } else { Ordering::Greater };
                    if !new.is_unbound() && (old.is_unbound() || extreme_order(terms, new, *old) == wanted) {
                        *best = Some(new);
                    }
                }
                _ => *best = None,
            },
            (State::Sample(sample), State::Sample(other)) => {
                if sample.is_unbound() {
                    *sample = other;
                }
            }
            (State::Text(_, text), State::Text(more, other)) => match other {
                None => *text = None,
                Some(other) if more > 0 => {
                    self.add_text(terms, fold, more, other.len(), |text| text.push_str(&other), room);
                }
                Some(_) => {}
            },
            _ => unreachable!("the states are of one aggregate"),
        }
    }

    pub(super) fn text_bytes(&self) -> u64 {
        if let State::Text(_, Some(text)) = self { text.capacity() as u64 } else { 0 }
    }
}

impl Groups {
    /// Writes the groups with a place, each to its partition, and keeps the others.
    fn write(&mut self, places: &[Option<usize>], into: &mut Spilled) -> Result<(), FileError> {
        if places.iter().all(Option::is_none) {
            return Ok(());
        }
        let (keys, folds) = (self.spec.keys.len(), self.spec.folds.len());
        let mut record = Vec::new();
        let mut kept = self.empty();
        (kept.scratch, kept.evaluating) = (std::mem::take(&mut self.scratch), std::mem::take(&mut self.evaluating));
        let mut states = std::mem::take(&mut self.states).into_iter();
        // The new numbers of staying groups.
        let mut numbers: Vec<u32> = Vec::new();
        numbers.grow_or_give_up(places.len());
        for (number, place) in places.iter().enumerate() {
            let key = &self.keys[number * keys..(number + 1) * keys];
            let states = states.by_ref().take(folds);
            let Some(place) = place else {
                kept.states.grow_or_give_up(folds);
                for state in states {
                    kept.text_bytes += state.text_bytes();
                    kept.states.push(state);
                }
                let hash = self.terms.key.hash(key.iter().copied());
                numbers.push(kept.enter(key, hash) as u32);
                continue;
            };
            numbers.push(0);
            record.clear();
            record.push(if self.seen.iter().any(Option::is_some) { UNDISTINCT } else { STATES });
            record.extend_from_slice(key);
            // A DISTINCT aggregate's state is made again of its values.
            let folded = states.zip(&self.seen).filter(|(_, seen)| seen.is_none());
            folded.for_each(|(state, _)| state.put(&mut record));
            into.scatter.write(*place, &record)?;
        }
        for (fold, seen) in self.seen.iter_mut().enumerate() {
            let Some(seen) = seen else { continue };
            for row in seen.rows() {
                let number = row[0] as usize;
                record.clear();
                match places[number] {
                    Some(_) => {
                        record.push(fold as u64);
                        record.extend_from_slice(&self.keys[number * keys..(number + 1) * keys]);
                        record.extend_from_slice(&row[1..]);
                        into.deal_value(&record)?;
                    }
                    None => {
                        record.push(u64::from(numbers[number]));
                        record.extend_from_slice(&row[1..]);
                        kept.seen[fold].as_mut().expect("all have the same aggregates").enter(&record);
                    }
                }
            }
            // Its memory is free before the next one is copied.
            *seen = Wide::new(1 + self.spec.folds[fold].distinct.as_ref().map_or(0, Vec::len), self.terms.key);
        }
        *self = kept;
        Ok(())
    }

    /// Adds a record; false if there is none.
    pub(super) fn absorb(&mut self, words: &mut Words, room: &mut Room<'_>) -> Result<bool, FileError> {
        let grown = room.grown;
        let Some(what) = words.next()? else { return Ok(false) };
        let mut key = std::mem::take(&mut self.row);
        key.clear();
        words.words(self.spec.keys.len(), &mut key)?;
        let group = self.group(&key);
        let (terms, spec) = (Arc::clone(&self.terms), Arc::clone(&self.spec));
        let first = group * spec.folds.len();
        if what < VALUES {
            let is_there = |fold: &FoldSpec| what == STATES || fold.distinct.is_none();
            for (number, fold) in spec.folds.iter().enumerate().filter(|(_, fold)| is_there(fold)) {
                let state = State::read(&fold.fold, words)?;
                self.states[first + number].join(&terms, &fold.fold, state, room);
            }
        } else {
            let number = (what - VALUES) as usize;
            let fold = &spec.folds[number];
            let columns = fold.distinct.as_deref().expect("only such aggregates have values");
            key.clear();
            words.words(columns.len(), &mut key)?;
            let state = &mut self.states[first + number];
            state.add(&terms, &self.scratch, &fold.fold, 1, value_of(fold, columns, &key), room);
        }
        self.text_bytes += room.grown - grown;
        self.row = key;
        Ok(true)
    }
}

/// The value that a DISTINCT aggregate folds, of the values of its columns.
fn value_of(fold: &FoldSpec, columns: &[usize], values: &[u64]) -> Id {
    if fold.rows {
        return Id::boolean(true);
    }
    let place = fold.of.and_then(|of| columns.iter().position(|&column| column == of));
    Id::from_bits(place.map_or(0, |place| values[place]))
}
