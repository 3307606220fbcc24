//! Passes on the first of equal rows. It has any number of inputs: a replica that gets its rows by their hash gets them from
//! several boxes.
//!
//! While the table fits the cache, a new row is passed on at once. A larger table is split, and rows wait until there are
//! enough of them for one part of it: [`Parted`].

use super::parted::{NEVER, Parted, Stopped, Table};
use super::{Inputs, Outbox, had, slices};
use crate::limits::Limits;
use vicus_flow::library::HashKey;
use vicus_flow::{BoxError, Envelope, Grow, Operator, Turn};

pub(crate) struct Distinct {
    seen: Box<dyn Seen>,
    columns: usize,
    outbox: Outbox,
    /// The rows of an envelope, one after the other.
    rows: Vec<u64>,
    inputs: Inputs,
}

impl Distinct {
    /// For envelopes of `columns` columns, with tables of at most `cache` bytes.
    pub(crate) fn new(columns: usize, by: HashKey, cache: u64, limit: usize, limits: &Limits) -> Distinct {
        let seen: Box<dyn Seen> = match columns {
            // Without columns, all rows are equal.
            0 => Box::new(false),
            1 => Box::new(Parted::new(Set::<1>::new(by), cache, limits)),
            2 => Box::new(Parted::new(Set::<2>::new(by), cache, limits)),
            3 => Box::new(Parted::new(Set::<3>::new(by), cache, limits)),
            4 => Box::new(Parted::new(Set::<4>::new(by), cache, limits)),
            _ => Box::new(Parted::new(Wide::new(columns, by), cache, limits)),
        };
        Distinct { seen, columns, outbox: Outbox::new(columns, limit), rows: Vec::new(), inputs: Inputs::default() }
    }

    fn add(&mut self, turn: &mut Turn<'_>, envelope: &Envelope) {
        super::interleave(&slices(envelope), &mut self.rows);
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
}

/// Sends the rows with these numbers.
fn put_out(outbox: &mut Outbox, turn: &mut Turn<'_>, columns: usize, from: &[u64], fresh: &[u32]) {
    let mut rest = fresh;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(outbox.room()));
        outbox.add(turn, &[], now.len(), |builder| {
            for column in 0..columns {
                builder.u64s(column).extend(now.iter().map(|&row| from[row as usize * columns + column]));
            }
        });
        if outbox.is_due() {
            outbox.flush(turn);
        }
        rest = later;
    }
}

impl Operator for Distinct {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let mut inputs = self.inputs;
        let is_over = inputs.take(turn, |turn, envelope| self.add(turn, &envelope));
        self.inputs = inputs;
        turn.book(self.seen.bytes())?;
        if is_over {
            if self.settle(turn) {
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
trait Seen: Send {
    /// Whether a call of [`Seen::add`] finds all new rows of that call, or rows may wait.
    fn passes_at_once(&self) -> bool;

    /// Takes rows, and calls `added` with new ones: of these rows, or of rows that waited.
    fn add(&mut self, rows: &[u64], count: usize, added: &mut dyn FnMut(&[u64], &[u32]));

    /// See [`Parted::settle`].
    fn settle(&mut self, added: &mut dyn FnMut(&[u64], &[u32])) -> bool;

    fn bytes(&self) -> u64;
}

impl<T: Table> Seen for Parted<T> {
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
}

/// For rows without columns: whether a row was seen.
impl Seen for bool {
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
}

/// Marks an empty slot: no id has all bits set. [`Grow::ones`] makes such slots.
const EMPTY: u64 = u64::MAX;

/// Rows of `N` ids in an open-addressing table. Invariant: at most two thirds of the slots are taken.
pub(super) struct Set<const N: usize> {
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
    pub(super) fn new(by: HashKey) -> Set<N> {
        Set { slots: vec![[EMPTY; N]; 16], taken: 0, by }
    }

    /// Calls `take` for each row. Which slots are taken is random, so a branch for each slot would often be mispredicted; the
    /// places of rows are collected without a branch.
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

    /// Makes room for this many more rows.
    fn reserve(&mut self, rows: usize) {
        let mut slots = self.slots.len();
        while (self.taken + rows) * 3 > slots * 2 {
            slots *= 2;
        }
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

/// Rows of any width, one after the other; the table has their numbers.
pub(super) struct Wide {
    width: usize,
    rows: Vec<u64>,
    /// A row's number plus one; 0 for an empty slot. Invariant: at most half of the slots are taken.
    slots: Vec<u32>,
    by: HashKey,
}

impl Wide {
    pub(super) fn new(width: usize, by: HashKey) -> Wide {
        Wide { width, rows: Vec::new(), slots: vec![0; 16], by }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &[u64]> {
        self.rows.chunks_exact(self.width)
    }

    /// Enters a row; true if it was new.
    pub(super) fn enter(&mut self, row: &[u64]) -> bool {
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
