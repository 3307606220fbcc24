//! Passes on the first of equal rows. It has any number of inputs: a replica that gets its rows by their hash gets them
//! from several boxes.
//!
//! While the table fits the cache, a new row is passed on at once. A larger table is split, and rows wait until there
//! are enough of them for one part of it: [`Parted`].
//!
//! A table that outgrows the memory of its box is frozen: it goes on to drop the rows that it has, and others are dealt
//! to temporary files by their hash. Equal rows are in the same file, so these are made distinct one after the other in
//! the end, in the same way: a file that is too large again is dealt by another hash. If the rows must stay in their
//! order, they are numbered; of equal rows the first one in a file is the one that came first, and what is left of the
//! files is merged by number.

use crate::boxes::partitioned_table::{Filter, NEVER, Parted, Stopped, Table};
use crate::boxes::scatter::{Scatter, partition_of};
use crate::boxes::sorted_runs::SortedRuns;
use crate::boxes::spill::{Hold, LEAST, RowReader, RowRun, RowWriter, Spiller};
use crate::boxes::{Inputs, Outbox, Pace, had, slices};
use crate::terms::Terms;
use std::cmp::Ordering;
use std::sync::Arc;
use vicus_files::FileError;
use vicus_flow::library::HashKey;
use vicus_flow::{BoxError, Envelope, EnvelopeBuilder, Grow, Operator, Turn};

pub(crate) struct Distinct {
    make: MakeSeen,
    seen: Box<dyn RowSet>,
    columns: usize,
    in_order: bool,
    by: HashKey,
    outbox: Outbox,
    /// The rows of an envelope or of a file, one after the other.
    rows: Vec<u64>,
    inputs: Inputs,
    /// Whether all rows of the inputs have come.
    has_all: bool,
    hold: Hold,
    spilled: Spilled,
}

type MakeSeen = Box<dyn Fn() -> Box<dyn RowSet> + Send>;

/// The rows beyond a table's room.
#[derive(Default)]
struct Spilled {
    /// The number of the next row, if rows are numbered.
    next: u64,
    /// Present while the table is frozen.
    dealt: Option<SpilledRows>,
    /// Files that are not yet distinct, and how often their rows were dealt.
    left: Vec<(Arc<RowRun>, u32)>,
    /// The file at hand.
    reading: Option<RowReader>,
    /// How often the rows at hand were dealt.
    level: u32,
    /// The distinct rows of the files with their numbers.
    kept: Option<SortedRuns>,
    /// Those of the file at hand.
    keeping: Option<RowWriter>,
    /// Whether all files are distinct.
    is_over: bool,
}

/// Rows that are dealt to files.
struct SpilledRows {
    scatter: Scatter,
    by: HashKey,
    level: u32,
    row: Vec<u64>,
    absent: Vec<u32>,
}

/// The greatest number of files that rows are dealt to at once.
const MOST_FILES: u64 = 64;

impl SpilledRows {
    fn write(&mut self, row: &[u64], number: Option<u64>) -> Result<(), FileError> {
        let hash = self.by.hash(row.iter().copied());
        let partition = partition_of(self.by, hash, self.level, self.scatter.partitions());
        let Some(number) = number else { return self.scatter.write(partition, row) };
        self.row.clear();
        self.row.extend_from_slice(row);
        self.row.push(number);
        self.scatter.write(partition, &self.row)
    }
}

impl Distinct {
    /// For envelopes of `columns` columns, with tables of at most `cache` bytes; if the rows are to stay in their
    /// order, with one table.
    pub(crate) fn new(terms: &Arc<Terms>, columns: usize, in_order: bool, cache: u64, pace: Pace) -> Distinct {
        let (by, limits, spiller) = (terms.key, terms.limits, terms.spiller());
        // A small part of the memory is not cut into many tables.
        let is_small = spiller.is_some_and(|spiller| spiller.most() / 16 < cache.max(1 << 16));
        let cache = if in_order || is_small { u64::MAX } else { cache };
        let make: MakeSeen = Box::new(move || match columns {
            // Without columns, all rows are equal.
            0 => Box::new(false),
            1 => Box::new(Parted::new(Set::<1>::new(by), cache, &limits)),
            2 => Box::new(Parted::new(Set::<2>::new(by), cache, &limits)),
            3 => Box::new(Parted::new(Set::<3>::new(by), cache, &limits)),
            4 => Box::new(Parted::new(Set::<4>::new(by), cache, &limits)),
            _ => Box::new(Parted::new(Wide::new(columns, by), cache, &limits)),
        });
        Distinct {
            seen: make(),
            make,
            columns,
            in_order,
            by,
            outbox: Outbox::new(columns, pace),
            rows: Vec::new(),
            inputs: Inputs::default(),
            has_all: false,
            hold: Hold::new(spiller),
            spilled: Spilled::default(),
        }
    }

    fn add(&mut self, turn: &mut Turn<'_>, envelope: &Envelope) {
        crate::boxes::interleave(&slices(envelope), &mut self.rows);
        let (columns, rows, outbox) = (self.columns, envelope.rows(), &mut self.outbox);
        let are_these = self.seen.passes_at_once();
        self.seen.add(&self.rows, rows, &mut |from, fresh| {
            if are_these && fresh.len() == rows {
                outbox.pass(turn, envelope.clone());
            } else {
                put_out(outbox, turn, columns, from, fresh);
            }
        });
    }

    /// Adds waiting rows, one part of the table at a time, and passes new ones on; false when no row waits.
    fn settle(&mut self, turn: &mut Turn<'_>) -> bool {
        let (columns, outbox) = (self.columns, &mut self.outbox);
        self.seen.settle(&mut |from, fresh| put_out(outbox, turn, columns, from, fresh))
    }

    /// Like [`Distinct::add`], within the box's part of the memory.
    fn add_within(&mut self, turn: &mut Turn<'_>, spiller: &Spiller, envelope: &Envelope) -> Result<(), BoxError> {
        if self.spilled.dealt.is_none() {
            let bytes = self.bytes_with(envelope.rows());
            let is_worth = self.seen.bytes() >= LEAST;
            if self.hold.make_room(bytes, is_worth, |bytes| turn.book(bytes))? {
                self.add(turn, envelope);
                self.spilled.next += envelope.rows() as u64;
                return Ok(());
            }
        }
        crate::boxes::interleave(&slices(envelope), &mut self.rows);
        let rows = std::mem::take(&mut self.rows);
        let first = self.spilled.next;
        self.spilled.next += envelope.rows() as u64;
        self.add_rows(turn, spiller, &rows, envelope.rows(), |row| first + row as u64)?;
        self.rows = rows;
        Ok(())
    }

    /// The bytes held while `rows` rows are added: the table's, those of the files, and for dealing to files as many as
    /// the table has, if it has little.
    fn bytes_with(&self, rows: usize) -> u64 {
        let table = self.seen.bytes_with(rows);
        self.bytes_of_files() + table + table.min(MOST_FILES * (64 << 10))
    }

    /// The bytes held for files, but for those that rows are being dealt to.
    fn bytes_of_files(&self) -> u64 {
        let Spilled { left, reading, kept, .. } = &self.spilled;
        let reading = reading.as_ref().map_or(0, RowReader::held_bytes);
        let kept = kept.as_ref().map_or(0, |kept| kept.held_bytes() + kept.writing_bytes());
        left.iter().map(|(run, _)| run.held_bytes()).sum::<u64>() + reading + kept
    }

    /// Adds rows one after the other: to the table, and from the first one on that it has no room for, to files.
    /// `number` is the number of a row.
    fn add_rows(
        &mut self,
        turn: &mut Turn<'_>,
        spiller: &Spiller,
        rows: &[u64],
        count: usize,
        number: impl Fn(usize) -> u64,
    ) -> Result<(), BoxError> {
        let columns = self.columns;
        let mut row = 0;
        while row < count && self.spilled.dealt.is_none() {
            let mut more = count - row;
            let is_worth = self.seen.bytes() >= LEAST;
            while more > 0 && !self.hold.make_room(self.bytes_with(more), is_worth, |bytes| turn.book(bytes))? {
                more /= 2;
            }
            if more == 0 && self.seen.is_empty() {
                // Of each file, one row is made distinct at least.
                self.hold.book(self.bytes_with(1), |bytes| turn.book(bytes))?;
                more = 1;
            }
            if more == 0 {
                self.freeze(turn, spiller)?;
                break;
            }
            let these = &rows[row * columns..(row + more) * columns];
            let (outbox, spilled) = (&mut self.outbox, &mut self.spilled);
            let mut kept = Ok(());
            self.seen.add(these, more, &mut |from, fresh| match &mut spilled.keeping {
                None => put_out(outbox, turn, columns, from, fresh),
                // A single table passes rows on at once, so these are the same rows.
                Some(keeping) => {
                    let mut keep = |&at: &u32| {
                        let at = at as usize;
                        keeping.write(&from[at * columns..(at + 1) * columns])?;
                        keeping.end_row(number(row + at))
                    };
                    kept = fresh.iter().try_for_each(&mut keep);
                }
            });
            kept?;
            row += more;
        }
        if let Some(dealt) = &mut self.spilled.dealt {
            let rest = &rows[row * columns..];
            let mut absent = std::mem::take(&mut dealt.absent);
            absent.clear();
            self.seen.find_absent(rest, &mut absent);
            for &at in &absent {
                let at = at as usize;
                let number = self.in_order.then(|| number(row + at));
                dealt.write(&rest[at * columns..(at + 1) * columns], number)?;
            }
            dealt.absent = absent;
        }
        Ok(())
    }

    /// Freezes the table, and makes files to deal rows to.
    fn freeze(&mut self, turn: &Turn<'_>, spiller: &Spiller) -> Result<(), BoxError> {
        let width = self.columns + usize::from(self.in_order);
        let held = self.seen.bytes() + self.bytes_of_files();
        let free = self.hold.booked().min(spiller.most()).saturating_sub(held);
        let file = spiller.file(width, Spiller::block(free / 2));
        let files = 1 << (free / file.open_bytes()).clamp(2, MOST_FILES).ilog2();
        self.hold.book(held + files * file.open_bytes(), |bytes| turn.book(bytes))?;
        let scatter = Scatter::to(file, files as usize);
        let level = self.spilled.level;
        let mut dealt = SpilledRows { scatter, by: self.by, level, row: Vec::new(), absent: Vec::new() };
        let columns = self.columns;
        // Rows wait only where their order does not matter.
        self.seen.freeze(&mut |row| {
            debug_assert_eq!(row.len(), columns);
            dealt.write(row, None)
        })?;
        self.spilled.dealt = Some(dealt);
        Ok(())
    }

    /// Goes on with what was spilled, after all rows of the table at hand have come; false when nothing is left.
    fn go_on(&mut self, turn: &mut Turn<'_>, spiller: &Spiller) -> Result<bool, BoxError> {
        let columns = self.columns;
        if let Some(reader) = &mut self.spilled.reading {
            let width = columns + usize::from(self.in_order);
            let mut rows = std::mem::take(&mut self.rows);
            rows.clear();
            let count = reader.read(self.outbox.growth.target.max(64), &mut rows)?;
            if count > 0 {
                if self.in_order {
                    let numbers: Vec<u64> = rows.iter().skip(columns).step_by(width).copied().collect();
                    let without: Vec<u64> = rows.chunks(width).flat_map(|row| &row[..columns]).copied().collect();
                    self.add_rows(turn, spiller, &without, count, |row| numbers[row])?;
                } else {
                    self.add_rows(turn, spiller, &rows, count, |_| 0)?;
                }
                self.rows = rows;
                return Ok(true);
            }
            self.rows = rows;
            self.spilled.reading = None;
        }
        if self.settle(turn) {
            return Ok(true);
        }
        let spilled = &mut self.spilled;
        if let Some(SpilledRows { scatter, .. }) = spilled.dealt.take() {
            let level = spilled.level + 1;
            spilled.left.extend(scatter.finish(turn)?.into_iter().flatten().map(|run| (run, level)));
        }
        if let (Some(run), Some(kept)) = (spilled.keeping.take(), &mut spilled.kept) {
            kept.add(turn, run)?;
        }
        if let Some((run, level)) = spilled.left.pop() {
            if self.in_order {
                let booked = self.hold.booked();
                let kept = spilled.kept.get_or_insert_with(|| SortedRuns::new(spiller, columns + 1, booked / 2));
                spilled.keeping = Some(kept.begin()?);
            }
            (spilled.reading, spilled.level) = (Some(run.read()), level);
            self.seen = (self.make)();
            return Ok(true);
        }
        if !spilled.is_over {
            self.seen = (self.make)();
            spilled.is_over = true;
        }
        let Some(kept) = &mut spilled.kept else { return Ok(false) };
        let by_number = |a: &[u64], b: &[u64]| -> Ordering { a[columns].cmp(&b[columns]) };
        if !kept.settle(turn, &mut self.hold, |bytes| turn.book(bytes), by_number)? {
            return Ok(true);
        }
        self.rows.clear();
        let rows = kept.read(self.outbox.growth.target, &mut self.rows, by_number)?;
        let from = &self.rows;
        self.outbox.add(turn, &[], rows, |builder| fill(builder, columns, columns + 1, from, 0..rows));
        if self.outbox.is_due() {
            self.outbox.flush(turn);
        }
        Ok(rows > 0)
    }
}

/// Appends the rows with these numbers, each of `width` ids, of which the first `columns` count.
fn fill(
    builder: &mut EnvelopeBuilder,
    columns: usize,
    width: usize,
    from: &[u64],
    rows: impl ExactSizeIterator<Item = usize> + Clone,
) {
    for column in 0..columns {
        builder.u64s(column).extend(rows.clone().map(|row| from[row * width + column]));
    }
}

/// Sends the rows with these numbers.
fn put_out(outbox: &mut Outbox, turn: &mut Turn<'_>, columns: usize, from: &[u64], fresh: &[u32]) {
    let mut rest = fresh;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(outbox.room()));
        outbox.add(turn, &[], now.len(), |builder| {
            fill(builder, columns, columns, from, now.iter().map(|&row| row as usize));
        });
        if outbox.is_due() {
            outbox.flush(turn);
        }
        rest = later;
    }
}

impl Operator for Distinct {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let spiller = self.hold.spiller().cloned();
        if !self.has_all {
            let mut inputs = self.inputs;
            let mut added = Ok(());
            self.has_all = inputs.take(turn, |turn, envelope| match &spiller {
                None => self.add(turn, &envelope),
                Some(spiller) if added.is_ok() => added = self.add_within(turn, spiller, &envelope),
                Some(_) => {}
            });
            self.inputs = inputs;
            added?;
        }
        if spiller.is_none() {
            turn.book(self.seen.bytes())?;
        }
        if self.has_all && !turn.is_stopped() {
            let goes_on = match &spiller {
                None => self.settle(turn),
                Some(spiller) => self.go_on(turn, spiller)?,
            };
            if goes_on {
                turn.run_again();
            } else {
                self.outbox.flush(turn);
                turn.send_pill(0);
            }
        }
        Ok(())
    }
}

/// The set of rows seen, for any width.
trait RowSet: Send {
    /// Whether a call of [`RowSet::add`] finds all new rows of that call, or rows may wait.
    fn passes_at_once(&self) -> bool;

    /// Takes rows, and calls `added` with new ones: of these rows, or of rows that waited.
    fn add(&mut self, rows: &[u64], count: usize, added: &mut dyn FnMut(&[u64], &[u32]));

    /// See [`Parted::settle`].
    fn settle(&mut self, added: &mut dyn FnMut(&[u64], &[u32])) -> bool;

    fn bytes(&self) -> u64;

    fn is_empty(&self) -> bool;

    /// See [`Parted::bytes_with`].
    fn bytes_with(&self, rows: usize) -> u64;

    /// See [`Parted::freeze`]; calls `left` with the waiting rows that were not seen.
    fn freeze(&mut self, left: &mut dyn FnMut(&[u64]) -> Result<(), FileError>) -> Result<(), FileError>;

    /// Appends the numbers of the rows that were not seen. To be called when it is frozen.
    fn find_absent(&self, rows: &[u64], absent: &mut Vec<u32>);
}

impl<T: Filter> RowSet for Parted<T> {
    fn passes_at_once(&self) -> bool {
        self.is_one()
    }

    fn add(&mut self, rows: &[u64], _: usize, added: &mut dyn FnMut(&[u64], &[u32])) {
        Parted::add(self, rows, NEVER, added);
    }

    fn settle(&mut self, added: &mut dyn FnMut(&[u64], &[u32])) -> bool {
        Parted::settle(self, NEVER, added)
    }

    fn bytes(&self) -> u64 {
        Parted::bytes(self)
    }

    fn is_empty(&self) -> bool {
        self.is_one() && self.table(0).is_some_and(Filter::is_empty)
    }

    fn bytes_with(&self, rows: usize) -> u64 {
        Parted::bytes_with(self, rows)
    }

    fn freeze(&mut self, left: &mut dyn FnMut(&[u64]) -> Result<(), FileError>) -> Result<(), FileError> {
        Parted::freeze(self, |table, rows| {
            let width = table.table(0).map_or(1, Table::width);
            rows.chunks_exact(width).filter(|row| !table.has(row)).try_for_each(&mut *left)
        })
    }

    fn find_absent(&self, rows: &[u64], absent: &mut Vec<u32>) {
        let width = self.table(0).map_or(1, Table::width);
        absent.grow_or_give_up(rows.len() / width);
        absent.extend((0..).zip(rows.chunks_exact(width)).filter(|(_, row)| !self.has(row)).map(|(number, _)| number));
    }
}

/// For rows without columns: whether a row was seen.
impl RowSet for bool {
    fn passes_at_once(&self) -> bool {
        true
    }

    fn add(&mut self, rows: &[u64], count: usize, added: &mut dyn FnMut(&[u64], &[u32])) {
        let first: &[u32] = if count > 0 && !std::mem::replace(self, true) { &[0] } else { &[] };
        added(rows, first);
    }

    fn settle(&mut self, _: &mut dyn FnMut(&[u64], &[u32])) -> bool {
        false
    }

    fn bytes(&self) -> u64 {
        0
    }

    fn is_empty(&self) -> bool {
        !*self
    }

    fn bytes_with(&self, _: usize) -> u64 {
        0
    }

    fn freeze(&mut self, _: &mut dyn FnMut(&[u64]) -> Result<(), FileError>) -> Result<(), FileError> {
        Ok(())
    }

    fn find_absent(&self, _: &[u64], _: &mut Vec<u32>) {}
}

/// Marks an empty slot: no id has all bits set. [`Grow::ones`] makes such slots.
const EMPTY: u64 = u64::MAX;

/// Rows of `N` ids in an open-addressing table. Invariant: at most two thirds of the slots are taken.
pub(crate) struct Set<const N: usize> {
    slots: Vec<[u64; N]>,
    taken: usize,
    by: HashKey,
}

/// Enters a row at the slot of its hash or the next free one; false if the row is there already.
#[inline]
fn enter<const N: usize>(slots: &mut [[u64; N]], row: &[u64; N], hash: usize) -> bool {
    let mask = slots.len() - 1;
    let mut place = hash & mask;
    loop {
        let slot = &mut slots[place];
        if slot[0] == EMPTY {
            *slot = *row;
            return true;
        }
        if slot == row {
            return false;
        }
        place = (place + 1) & mask;
    }
}

/// The search for this many rows begins before the first one ends. Their numbers fit a byte.
const BATCH: usize = 256;

impl<const N: usize> Set<N> {
    pub(crate) fn new(by: HashKey) -> Set<N> {
        Set { slots: vec![[EMPTY; N]; 16], taken: 0, by }
    }

    /// Calls `take` for each row. Which slots are taken is random, so a branch for each slot would often be
    /// mispredicted; the places of rows are collected without a branch.
    #[inline]
    fn each_row(&self, mut take: impl FnMut(&[u64; N])) {
        let mut places = [0u8; BATCH];
        for slots in self.slots.chunks(BATCH) {
            let mut count = 0;
            for (place, row) in slots.iter().enumerate() {
                places[count & (BATCH - 1)] = place as u8;
                count += usize::from(row[0] != EMPTY);
            }
            places[..count].iter().for_each(|&place| take(&slots[usize::from(place)]));
        }
    }

    /// How many slots there have to be for this many more rows.
    fn slots_for(&self, rows: usize) -> usize {
        let mut slots = self.slots.len();
        while (self.taken + rows) * 3 > slots * 2 {
            slots *= 2;
        }
        slots
    }

    /// Makes room for this many more rows.
    fn reserve(&mut self, rows: usize) {
        let slots = self.slots_for(rows);
        if slots > self.slots.len() {
            let (by, mut fresh) = (self.by, had(Vec::ones(slots)));
            self.each_row(|row| {
                enter(&mut fresh, row, by.hash(row.iter().copied()) as usize);
            });
            self.slots = fresh;
        }
    }
}

impl<const N: usize> Table for Set<N> {
    fn width(&self) -> usize {
        N
    }

    fn hash(&self, row: &[u64]) -> u64 {
        self.by.hash(row.iter().copied())
    }

    fn add(&mut self, rows: &[u64], fresh: &mut Vec<u32>, _: Stopped<'_>) {
        fresh.grow_or_give_up(rows.len() / N);
        // Copies in registers. Behind `self`, the loops would load them again after each write.
        let by = self.by;
        let mut starts = [0; BATCH];
        let mut first = 0;
        for batch in rows.as_chunks::<N>().0.chunks(BATCH) {
            self.reserve(batch.len());
            let slots = &mut self.slots[..];
            let mask = slots.len() - 1;
            let mut touched = 0;
            for (row, start) in batch.iter().zip(&mut starts) {
                *start = by.hash(row.iter().copied()) as usize & mask;
                // No result depends on this load: it brings the slot into the cache before it is needed.
                touched ^= slots[*start][0];
            }
            std::hint::black_box(touched);
            let before = fresh.len();
            for (number, (row, &start)) in (first..).zip(batch.iter().zip(&starts)) {
                if enter(slots, row, start) {
                    fresh.push(number);
                }
            }
            self.taken += fresh.len() - before;
            first += batch.len() as u32;
        }
    }

    fn bytes(&self) -> u64 {
        (self.slots.capacity() * N * 8) as u64
    }

    fn empty(&self) -> Set<N> {
        Set::new(self.by)
    }

    fn move_to(self, tables: &mut [Set<N>], part: &dyn Fn(u64) -> usize) {
        // Twice the expected share of rows, because the tables grow.
        let share = 2 * self.taken / tables.len();
        tables.iter_mut().filter(|table| table.taken == 0).for_each(|table| table.reserve(share));
        let by = self.by;
        self.each_row(|row| {
            let hash = by.hash(row.iter().copied());
            let table = &mut tables[part(hash)];
            table.reserve(1);
            table.taken += usize::from(enter(&mut table.slots, row, hash as usize));
        });
    }
}

impl<const N: usize> Filter for Set<N> {
    fn has(&self, row: &[u64]) -> bool {
        let mask = self.slots.len() - 1;
        let mut place = self.by.hash(row.iter().copied()) as usize & mask;
        loop {
            let slot = &self.slots[place];
            if slot[0] == EMPTY || slot == row {
                return slot[0] != EMPTY;
            }
            place = (place + 1) & mask;
        }
    }

    fn is_empty(&self) -> bool {
        self.taken == 0
    }

    fn bytes_with(&self, rows: usize) -> u64 {
        let slots = self.slots_for(rows);
        // The rows are moved from one table to another.
        let all = if slots > self.slots.len() { slots + self.slots.len() } else { slots };
        (all * N * 8) as u64
    }
}

/// Rows of any width, one after the other; the table has their numbers.
pub(crate) struct Wide {
    width: usize,
    rows: Vec<u64>,
    /// A row's number plus one; 0 for an empty slot. Invariant: at most half of the slots are taken.
    slots: Vec<u32>,
    by: HashKey,
}

impl Wide {
    pub(crate) fn new(width: usize, by: HashKey) -> Wide {
        Wide { width, rows: Vec::new(), slots: vec![0; 16], by }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &[u64]> {
        self.rows.chunks_exact(self.width)
    }

    /// Enters a row; true if it was new.
    pub(crate) fn enter(&mut self, row: &[u64]) -> bool {
        let count = self.rows.len() / self.width;
        if (count + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut place = self.by.hash(row.iter().copied()) as usize & mask;
        loop {
            match self.slots[place] {
                0 => {
                    self.slots[place] = u32::try_from(count + 1).expect("fewer than 2^32 distinct rows");
                    self.rows.grow_or_give_up(self.width);
                    self.rows.extend_from_slice(row);
                    return true;
                }
                number => {
                    let start = (number as usize - 1) * self.width;
                    if self.rows[start..start + self.width] == *row {
                        return false;
                    }
                    place = (place + 1) & mask;
                }
            }
        }
    }

    fn grow(&mut self) {
        let mut slots: Vec<u32> = had(Vec::zeroed(self.slots.len() * 4));
        let mask = slots.len() - 1;
        for (number, row) in self.rows.chunks(self.width).enumerate() {
            let mut place = self.by.hash(row.iter().copied()) as usize & mask;
            while slots[place] != 0 {
                place = (place + 1) & mask;
            }
            slots[place] = number as u32 + 1;
        }
        self.slots = slots;
    }
}

impl Table for Wide {
    fn width(&self) -> usize {
        self.width
    }

    fn hash(&self, row: &[u64]) -> u64 {
        self.by.hash(row.iter().copied())
    }

    fn add(&mut self, rows: &[u64], fresh: &mut Vec<u32>, _: Stopped<'_>) {
        fresh.grow_or_give_up(rows.len() / self.width);
        for (number, row) in rows.chunks_exact(self.width).enumerate() {
            if self.enter(row) {
                fresh.push(number as u32);
            }
        }
    }

    fn bytes(&self) -> u64 {
        (self.rows.capacity() * 8 + self.slots.capacity() * 4) as u64
    }

    fn empty(&self) -> Wide {
        Wide::new(self.width, self.by)
    }

    fn move_to(self, tables: &mut [Wide], part: &dyn Fn(u64) -> usize) {
        for row in self.rows() {
            tables[part(self.by.hash(row.iter().copied()))].enter(row);
        }
    }
}

impl Filter for Wide {
    fn has(&self, row: &[u64]) -> bool {
        let mask = self.slots.len() - 1;
        let mut place = self.by.hash(row.iter().copied()) as usize & mask;
        loop {
            match self.slots[place] {
                0 => return false,
                number => {
                    let start = (number as usize - 1) * self.width;
                    if self.rows[start..start + self.width] == *row {
                        return true;
                    }
                }
            }
            place = (place + 1) & mask;
        }
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn bytes_with(&self, rows: usize) -> u64 {
        let (ids, mut slots) = (self.rows.len() + rows * self.width, self.slots.len());
        while (ids / self.width + 1) * 2 > slots {
            slots *= 4;
        }
        let room = self.rows.capacity();
        let ids = if ids > room { room + ids.max(2 * room) } else { room };
        let slots = if slots > self.slots.len() { slots + self.slots.len() } else { slots };
        (ids * 8 + slots * 4) as u64
    }
}
