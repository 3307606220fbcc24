//! Rows with equal keys, folded into one.

use super::HashKey;
use super::fold::{Fold, Folded, MOST_DIGITS};
use super::hash::hash_rows;
use super::key::write_key;
use super::spill::{DEEPEST, Parts, Spilled};
use crate::column::of_codes;
use crate::store::Unified;
use crate::{
    BoxError, BoxModel, Column, Envelope, EnvelopeBuilder, Field, Grow, NoMemory, Operator, Schema, Turn, Type,
};
use std::sync::Arc;

/// The description of a stream's groups: the key columns, whose equal values make rows one group, and the folds over
/// each group's rows.
///
/// Keys may be of any types. A null equals a null; floats are equal if their bits are. Sums, least and greatest values
/// leave nulls out, and are nulls themselves if there is no value. Without keys all rows are one group, which exists
/// even without rows.
///
/// ```
/// use vicus_flow::library::Grouping;
/// use vicus_flow::{Schema, Type};
///
/// let sales = Schema::new([("city", Type::Text), ("price", Type::F64)]).with_nulls(["price"]);
/// let by_city = Grouping::by(&sales, [0]).count("sales").sum("turnover", 1).greatest("most", 1);
/// assert_eq!(by_city.schema().to_string(), "(city: Text, sales: U64, turnover: F64 or null, most: F64 or null)");
/// ```
#[derive(Clone, Debug)]
pub struct Grouping {
    pub(super) input: Schema,
    pub(super) keys: Vec<usize>,
    /// The columns of the result: the keys, and one for each fold.
    pub(super) output: Vec<Field>,
    pub(super) folds: Vec<Fold>,
}

impl Grouping {
    /// Groups of rows with equal values in these columns. Panics if the schema has fewer columns.
    pub fn by(input: &Schema, keys: impl IntoIterator<Item = usize>) -> Grouping {
        let keys: Vec<usize> = keys.into_iter().collect();
        let are_there = keys.iter().all(|&key| key < input.columns().len());
        assert!(are_there, "{keys:?} are not all columns of {input}");
        let output = keys.iter().map(|&key| input.columns()[key].clone()).collect();
        Grouping { input: input.clone(), keys, output, folds: Vec::new() }
    }

    /// How many rows a group has, in a column of [`Type::U64`] with this name.
    pub fn count(self, name: impl Into<String>) -> Grouping {
        self.and(Field::new(name, Type::U64), Fold::Rows)
    }

    /// How many of a group's rows have a value in a column.
    pub fn count_values(self, name: impl Into<String>, column: usize) -> Grouping {
        self.and(Field::new(name, Type::U64), Fold::Values(column))
    }

    /// The sum of a column: of signed integers as [`Type::I64`], of unsigned ones and of `true` (as 1) as
    /// [`Type::U64`], of floats as [`Type::F64`], added in their order of arrival, of decimals with 38 digits, of
    /// durations as such. The request fails if a sum of integers is beyond 64 bits, or one of decimals beyond 38
    /// digits. Panics if the column is of another type.
    pub fn sum(self, name: impl Into<String>, column: usize) -> Grouping {
        let kind = match &self.input.columns()[column].kind {
            Type::I8 | Type::I16 | Type::I32 | Type::I64 => Type::I64,
            Type::Bool | Type::U8 | Type::U16 | Type::U32 | Type::U64 => Type::U64,
            Type::F32 | Type::F64 => Type::F64,
            Type::Duration(unit) => Type::Duration(*unit),
            Type::Decimal { scale, .. } => Type::Decimal { precision: MOST_DIGITS, scale: *scale },
            kind => panic!("a column of type {kind} has no sum"),
        };
        self.of_values(name.into(), kind, column, Fold::Sum(column))
    }

    /// The least value of a column, in the order of [`SortKey`](super::SortKey).
    pub fn least(self, name: impl Into<String>, column: usize) -> Grouping {
        let kind = self.input.columns()[column].kind.clone();
        self.of_values(name.into(), kind, column, Fold::Least(column))
    }

    /// The greatest value of a column, in the order of [`SortKey`](super::SortKey).
    pub fn greatest(self, name: impl Into<String>, column: usize) -> Grouping {
        let kind = self.input.columns()[column].kind.clone();
        self.of_values(name.into(), kind, column, Fold::Greatest(column))
    }

    fn of_values(self, name: String, kind: Type, column: usize, fold: Fold) -> Grouping {
        // All values of a group may be nulls, and the one group without keys may have no rows.
        let nullable = self.input.columns()[column].nullable || self.keys.is_empty();
        self.and(Field { nullable, ..Field::new(name, kind) }, fold)
    }

    fn and(mut self, field: Field, fold: Fold) -> Grouping {
        if let Fold::Values(column) = fold {
            assert!(column < self.input.columns().len(), "column {column} of {}", self.input);
        }
        self.output.push(field);
        self.folds.push(fold);
        self
    }

    /// The grouping that folds groups of parts of a stream ([`group_ahead`]) to those of the stream: counts and sums
    /// are added up.
    pub fn merging(&self) -> Grouping {
        let keys = self.keys.len();
        let fold = |(place, fold): (usize, &Fold)| match fold {
            Fold::Rows | Fold::Values(_) | Fold::Sum(_) => Fold::Sum(keys + place),
            Fold::Least(_) => Fold::Least(keys + place),
            Fold::Greatest(_) => Fold::Greatest(keys + place),
        };
        Grouping {
            input: self.schema(),
            keys: (0..keys).collect(),
            output: self.output.clone(),
            folds: self.folds.iter().enumerate().map(fold).collect(),
        }
    }

    /// The schema of the result: the keys' columns, then one for each fold.
    pub fn schema(&self) -> Schema {
        self.output.iter().cloned().collect()
    }
}

/// Folds a stream's groups, in a hash table in memory, counted against the request's budget. When the stream has ended,
/// it sends the groups in the order of their first rows, in envelopes of `envelope_rows` rows. Without folds it keeps
/// one row of each key. When the budget is used up, rows of further groups go to [files](crate::Overflows), if the
/// request may use any, in parts that are grouped one after the other; their groups come behind those in memory.
///
/// To group a stream in parts, deal it by [`partition`](super::partition()) with the same columns and the same key:
/// each group is in one part.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::library::{self, Grouping, HashKey};
/// use vicus_flow::{Column, Envelope, ModelBuilder, Schema, Type, sequential};
///
/// let words = Schema::new([("word", Type::Text)]);
/// let counted = Grouping::by(&words, [0]).count("count");
/// let mut net = ModelBuilder::new("how often each word comes");
/// let rows = net.source(library::source("words", &words, || {
///     [Envelope::new([Column::from_iter(["to", "be", "or", "not", "to", "be"])])]
/// }));
/// let group = net.add(library::group(&counted, HashKey::default(), 1000));
/// let (send, receive) = mpsc::channel();
/// let end = net.add(library::sink("end", &counted.schema(), move |envelope| Ok(send.send(envelope)?)));
/// net.connect(rows.output(0), group.input(0));
/// net.connect(group.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
/// let groups = receive.recv().unwrap();
/// assert_eq!(groups.column(0).texts().collect::<Vec<_>>(), ["to", "be", "or", "not"]);
/// assert_eq!(groups.column(1).u64s(), [2, 2, 1, 1]);
/// ```
pub fn group(grouping: &Grouping, by: HashKey, envelope_rows: usize) -> BoxModel {
    model("group", grouping, by, envelope_rows, None).takes_all_of(0)
}

/// Folds rows ahead of a [`group`] box with [`Grouping::merging`]: when it has `most_groups` groups, it sends them and
/// begins anew, so a group may come several times. Before rows are dealt by their keys, this makes one row of most of
/// those with a heavy key: no part then has more of them than there are boxes ahead of it. It holds no more than its
/// groups, and so needs no files.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::library::{self, Grouping, HashKey};
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, sequential};
///
/// let schema = Schema::new([("key", Type::U64), ("n", Type::U64)]);
/// let grouping = Grouping::by(&schema, [0]).count("rows").sum("sum", 1);
/// let mut net = ModelBuilder::new("most rows have one key");
/// let rows = || (0..100u64).map(|n| Envelope::new([vec![0, 0, n].into(), vec![n, n, 1].into()]));
/// let rows = net.source(library::source("rows", &schema, rows));
/// let ahead = net.add(library::group_ahead(&grouping, HashKey::default(), 1000, 10));
/// let whole = net.add(library::group(&grouping.merging(), HashKey::default(), 1000));
/// let (send, receive) = mpsc::channel();
/// let end = net.add(library::sink("end", &grouping.schema(), move |rows| Ok(send.send(rows)?)));
/// net.connect(rows.output(0), ahead.input(0));
/// net.connect(ahead.output(0), whole.input(0));
/// net.connect(whole.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
/// let groups = receive.recv().unwrap();
/// assert_eq!((groups.rows(), groups.column(1).u64s()[0], groups.column(2).u64s()[0]), (100, 201, 9901));
/// ```
pub fn group_ahead(grouping: &Grouping, by: HashKey, envelope_rows: usize, most_groups: usize) -> BoxModel {
    model("group ahead", grouping, by, envelope_rows, Some(most_groups.max(1)))
}

fn model(name: &'static str, grouping: &Grouping, by: HashKey, envelope_rows: usize, most: Option<usize>) -> BoxModel {
    let (input, output) = (grouping.input.clone(), grouping.schema());
    let (grouping, schema) = (Arc::new(grouping.clone()), output.clone());
    let factory = move || Group {
        by,
        table: Table::default(),
        coded: grouping.keys.iter().map(|_| None).collect(),
        folded: grouping.folds.iter().map(|fold| Folded::new(*fold, &grouping.input)).collect(),
        grouping: Arc::clone(&grouping),
        builder: EnvelopeBuilder::new(&schema),
        limit: envelope_rows.max(1),
        next: None,
        hashes: Vec::new(),
        groups: Vec::new(),
        further: None,
        reading: None,
        unread: Vec::new(),
        most,
        goes_on: false,
    };
    BoxModel::new(name, factory).input(&input).output(&output)
}

struct Group {
    grouping: Arc<Grouping>,
    by: HashKey,
    table: Table,
    /// For each key, the numbers of its values if its first envelope had them in a dictionary: groups then have these
    /// in their keys.
    coded: Vec<Option<Unified>>,
    folded: Vec<Folded>,
    builder: EnvelopeBuilder,
    limit: usize,
    /// The next group to send, once the pill has come.
    next: Option<usize>,
    /// For each row of an envelope, the hash of its keys.
    hashes: Vec<u64>,
    /// For each row of an envelope, its group; [`NO_NUMBER`] for one that is not in the table.
    groups: Vec<u32>,
    /// The rows of groups for which the table has no room.
    further: Option<Parts>,
    /// The part that is grouped now, in place of the input.
    reading: Option<(Spilled, u32)>,
    /// The parts that are still to be grouped.
    unread: Vec<(Spilled, u32)>,
    /// With so many groups, they are sent before the end of the stream.
    most: Option<usize>,
    /// The groups that are being sent are not those of the end.
    goes_on: bool,
}

/// The numbers of a key's values, if its column is in a dictionary.
fn numbers_of(column: &Column) -> Result<Option<Unified>, NoMemory> {
    let Some(store) = column.store() else { return Ok(None) };
    // Different numbers must be different values.
    Ok(Some(if store.is_distinct()? { Unified::default() } else { Unified::of_values() }))
}

/// The number of a row's value; [`UNKNOWN`] for one that has none and gets none, because its row is put elsewhere.
fn number_in(numbers: &mut Unified, column: &Column, row: usize, is_further: bool) -> u32 {
    match column.store() {
        Some(store) if is_further => numbers.find(store, column.codes()[row]).unwrap_or(UNKNOWN),
        None if is_further => numbers.find_value(column.string(row)).unwrap_or(UNKNOWN),
        Some(store) => numbers.code(store, column.codes()[row]),
        None => numbers.number(column.string(row)),
    }
}

impl Group {
    /// Takes an envelope; if the budget has no room for further groups, their rows go out of memory.
    fn accept(&mut self, envelope: &Envelope, turn: &Turn<'_>) -> Result<(), BoxError> {
        let level = self.reading.as_ref().map_or(0, |(_, level)| *level);
        let is_possible = self.further.is_none() && self.most.is_none() && self.table.len() > 0 && level < DEEPEST;
        if is_possible && !self.grouping.keys.is_empty() && Spilled::is_possible(turn) {
            // A list that grows is there twice for a moment.
            let more = envelope.bytes() + 64 * envelope.rows() as u64;
            let grows = 2 * (self.table.len() + envelope.rows()) > self.table.slots.len();
            let wanted = if grows { 2 * self.bytes() } else { self.bytes() } + more;
            if turn.book(wanted).is_err() {
                self.further = Some(Parts::begin(turn, &self.grouping.input, level)?);
            }
        }
        self.take(envelope, turn)?;
        Ok(turn.book(self.bytes())?)
    }

    fn take(&mut self, envelope: &Envelope, turn: &Turn<'_>) -> Result<(), BoxError> {
        hash_rows(envelope, &self.grouping.keys, self.by, &mut self.hashes)?;
        let keys: Vec<&Column> = self.grouping.keys.iter().map(|&key| envelope.column(key)).collect();
        if self.table.len() == 0 && envelope.rows() > 0 {
            for (coded, column) in self.coded.iter_mut().zip(&keys) {
                *coded = numbers_of(column)?;
            }
        }
        self.groups.clear();
        self.groups.grow(envelope.rows())?;
        let mut key = Vec::new();
        let is_further = self.further.is_some();
        for (row, &hash) in self.hashes.iter().enumerate() {
            if row.is_multiple_of(TOGETHER) {
                self.table.fetch(&self.hashes[row..self.hashes.len().min(row + TOGETHER)]);
            }
            key.clear();
            for (coded, column) in self.coded.iter_mut().zip(&keys) {
                match coded {
                    Some(coded) => {
                        let number =
                            if column.is_null(row) { NO_NUMBER } else { number_in(coded, column, row, is_further) };
                        key.grow(4)?;
                        key.extend_from_slice(&number.to_le_bytes());
                    }
                    None => write_key(&mut key, column, row)?,
                }
            }
            self.groups.push(match self.further {
                None => self.table.group(hash, &key)?,
                Some(_) => self.table.find(hash, &key).unwrap_or(NO_NUMBER),
            });
        }
        if let Some(further) = &mut self.further {
            let (groups, hashes) = (&self.groups, &self.hashes);
            let is_further = |row: &usize| groups[*row] == NO_NUMBER;
            let rows = (0..groups.len()).filter(is_further).map(|row| (row as u32, hashes[row]));
            further.put(turn, envelope, rows)?;
            let known: Vec<u32> = (0..groups.len() as u32).filter(|row| groups[*row as usize] != NO_NUMBER).collect();
            if known.len() < groups.len() {
                let columns = super::spill::rows_of(envelope, &known, &self.grouping.input, turn);
                self.groups.retain(|&group| group != NO_NUMBER);
                return self.fold(&columns);
            }
        }
        self.fold(envelope)
    }

    /// Begins anew, without groups.
    fn begin(&mut self, turn: &Turn<'_>) -> Result<(), BoxError> {
        (self.table, self.next) = (Table::default(), None);
        self.coded.iter_mut().for_each(|coded| *coded = None);
        self.folded = self.grouping.folds.iter().map(|fold| Folded::new(*fold, &self.grouping.input)).collect();
        Ok(turn.book(0)?)
    }

    fn fold(&mut self, envelope: &Envelope) -> Result<(), BoxError> {
        self.folded.iter_mut().try_for_each(|folded| folded.take(envelope, &self.groups, self.table.len()))
    }

    fn bytes(&self) -> u64 {
        let coded = self.coded.iter().flatten().map(|numbers| numbers.bytes() as u64).sum::<u64>();
        self.table.bytes() + coded + self.folded.iter().map(Folded::bytes).sum::<u64>()
    }

    /// The next groups as rows, if there are any.
    fn rows(&mut self, turn: &Turn<'_>, first: usize) -> Result<Option<Envelope>, BoxError> {
        let groups = first..self.table.len().min(first + self.limit);
        if groups.is_empty() {
            return Ok(None);
        }
        self.builder.reserve(turn, groups.len());
        // The beginning of each group's next value in its key.
        let mut at: Vec<usize> = Vec::with_room(groups.len())?;
        at.extend(groups.clone().map(|group| self.table.key_range(group).start));
        let keys = self.grouping.keys.len();
        for (column, field) in self.grouping.output[..keys].iter().enumerate() {
            let Some(coded) = &mut self.coded[column] else {
                for at in &mut at {
                    *at += self.builder.push_key(turn.blocks, column, &field.kind, &self.table.keys[*at..]);
                }
                continue;
            };
            let store = coded.store(&field.kind);
            let mut codes: Vec<u32> = Vec::with_room(groups.len())?;
            for at in &mut at {
                codes.push(u32::from_le_bytes(self.table.keys[*at..*at + 4].try_into().expect("four bytes")));
                *at += 4;
            }
            let nulls: Vec<usize> = (0..codes.len()).filter(|&row| codes[row] == NO_NUMBER).collect();
            let values = of_codes(codes, store, None);
            self.builder.append_column(
                turn.blocks,
                column,
                &if nulls.is_empty() { values } else { values.with_nulls(nulls) },
            );
        }
        for (place, folded) in self.folded.iter().enumerate() {
            let column = keys + place;
            let kind = &self.grouping.output[column].kind;
            groups.clone().for_each(|group| folded.write(group, &mut self.builder, turn.blocks, column, kind));
        }
        // There may be no columns.
        Ok(Some(Envelope::of_rows(self.builder.finish_columns(turn), groups.len())))
    }
}

/// In place of the number of a null in a key, or of a group.
const NO_NUMBER: u32 = u32::MAX;

/// In place of the number of a value that no group has.
const UNKNOWN: u32 = u32::MAX - 1;

impl Operator for Group {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.next.is_none() {
            let envelope = match &mut self.reading {
                Some((queue, _)) => {
                    let envelope = queue.pop()?;
                    if envelope.is_some() {
                        turn.run_again();
                    }
                    envelope
                }
                None => match turn.take(0) {
                    None => return Ok(()),
                    Some(envelope) => (!envelope.is_pill()).then_some(envelope),
                },
            };
            match envelope {
                // All groups come at the end, after all times.
                Some(envelope) if envelope.mark().is_some() => return Ok(()),
                Some(envelope) => {
                    self.accept(&envelope, turn)?;
                    self.goes_on = self.most.is_some_and(|most| self.table.len() >= most);
                    if self.goes_on {
                        self.next = Some(0);
                        turn.run_again();
                    }
                    return Ok(());
                }
                None => self.next = Some(0),
            }
            if self.grouping.keys.is_empty() && self.table.len() == 0 {
                self.table.group(0, &[])?;
                self.folded.iter_mut().try_for_each(|folded| folded.make_room(1))?;
            }
        }
        let next = self.next.unwrap_or_default();
        if let Some(envelope) = self.rows(turn, next)? {
            self.next = Some(next + envelope.rows());
            turn.send(0, envelope);
            turn.run_again();
            return Ok(());
        }
        if std::mem::take(&mut self.goes_on) {
            self.begin(turn)?;
            turn.run_again();
            return Ok(());
        }
        self.unread.extend(self.further.take().into_iter().flat_map(Parts::into_queues));
        self.reading = self.unread.pop();
        if self.reading.is_none() {
            turn.send_pill(0);
            return Ok(());
        }
        self.begin(turn)?;
        turn.run_again();
        Ok(())
    }
}

/// The groups' keys, found by their hashes.
#[derive(Default)]
struct Table {
    /// Open addressing: one more than a group's number in the low half, or 0 for a free slot, and in the high half that
    /// of its hash: few other groups are looked at. A group is in the first free slot from the one of the lowest bits
    /// of its hash. Invariant: a power of two of them, or none; more than half are 0.
    slots: Vec<u64>,
    /// By group.
    hashes: Vec<u64>,
    /// The end of each group's key in `keys`, as soon as two keys differ in length.
    ends: Vec<usize>,
    /// The length of all keys so far, if they agree.
    length: usize,
    keys: Vec<u8>,
}

/// So many rows are looked up at once.
const TOGETHER: usize = 32;

/// From so many slots on, most look-ups miss a core's own caches.
const FAR_SLOTS: usize = 1 << 15;

/// The high half of a slot.
const TAG: u64 = !(u32::MAX as u64);

impl Table {
    fn len(&self) -> usize {
        self.hashes.len()
    }

    #[inline]
    fn key_range(&self, group: usize) -> std::ops::Range<usize> {
        if self.ends.is_empty() {
            return group * self.length..(group + 1) * self.length;
        }
        let start = if group == 0 { 0 } else { self.ends[group - 1] };
        start..self.ends[group]
    }

    /// The group of this key, or the slot for a new one.
    #[inline]
    fn look(&self, hash: u64, key: &[u8]) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let found = self.slots[slot];
            if found == 0 {
                return Err(slot);
            }
            let group = (found as u32 - 1) as usize;
            if (found ^ hash) & TAG == 0 && self.keys[self.key_range(group)] == *key {
                return Ok(group as u32);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Reads what the look-ups of these hashes will read, all at once: each alone would wait for memory.
    fn fetch(&self, hashes: &[u64]) {
        if self.slots.len() < FAR_SLOTS {
            return;
        }
        let mask = self.slots.len() - 1;
        let mut slots = [0; TOGETHER];
        for (slot, hash) in slots.iter_mut().zip(hashes) {
            *slot = self.slots[*hash as usize & mask];
        }
        let mut read = 0;
        for (slot, _) in slots.iter().zip(hashes).filter(|(slot, hash)| **slot != 0 && (**slot ^ **hash) & TAG == 0) {
            read ^= self.keys.get(self.key_range((*slot as u32 - 1) as usize).start).copied().unwrap_or_default();
        }
        std::hint::black_box(read);
    }

    /// The group of this key, if there is one.
    fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        if self.slots.is_empty() { None } else { self.look(hash, key).ok() }
    }

    /// The group of this key: a new one for a new key.
    fn group(&mut self, hash: u64, key: &[u8]) -> Result<u32, NoMemory> {
        if 2 * (self.len() + 1) > self.slots.len() {
            self.grow()?;
        }
        let slot = match self.look(hash, key) {
            Ok(group) => return Ok(group),
            Err(slot) => slot,
        };
        let group = u32::try_from(self.len()).ok().filter(|&group| group < u32::MAX).expect("fewer than 2^32 groups");
        self.hashes.grow(1)?;
        self.keys.grow(key.len())?;
        self.note_end(key.len())?;
        self.keys.extend_from_slice(key);
        self.hashes.push(hash);
        self.slots[slot] = (hash & TAG) | u64::from(group + 1);
        Ok(group)
    }

    /// Notes the end of the next key, which has this length.
    fn note_end(&mut self, length: usize) -> Result<(), NoMemory> {
        if self.len() == 0 {
            self.length = length;
        }
        if self.ends.is_empty() && length != self.length {
            self.ends.grow(self.len())?;
            self.ends.extend((1..=self.len()).map(|group| group * self.length));
        }
        if !self.ends.is_empty() || length != self.length {
            self.ends.grow(1)?;
            self.ends.push(self.keys.len() + length);
        }
        Ok(())
    }

    #[cold]
    fn grow(&mut self) -> Result<(), NoMemory> {
        let count = (2 * self.slots.len()).max(64);
        let mut slots: Vec<u64> = Vec::<u64>::zeroed(count)?;
        for (group, &hash) in (1..).zip(&self.hashes) {
            let mut slot = hash as usize & (count - 1);
            while slots[slot] != 0 {
                slot = (slot + 1) & (count - 1);
            }
            slots[slot] = (hash & TAG) | group;
        }
        self.slots = slots;
        Ok(())
    }

    fn bytes(&self) -> u64 {
        (8 * (self.slots.capacity() + self.hashes.capacity() + self.ends.capacity()) + self.keys.capacity()) as u64
    }
}
