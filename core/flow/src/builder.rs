//! Fills the columns of an envelope where they stay: in one block, from the heap of the seat that fills them.

use crate::block::{Block, Blocks};
use crate::column::{Column, Values, wrong_type};
use crate::{Envelope, Grow, NoMemory, Schema, Turn, Type, give_up};
use smallvec::SmallVec;
use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

/// The line of a cache, in bytes: each column begins at one, unless all are small.
const LINE: usize = 64;

/// Columns that take less together lie side by side: allocators are slow with lines, and there is no room for loops that are glad of them.
const SMALL: usize = 1024;

/// Where each column of a small block begins, and the block: where any value may.
const VALUE: usize = 8;

/// More rows than there are addresses.
const BEYOND: NoMemory = NoMemory { bytes: u64::MAX };

/// The columns of an envelope that is being filled. It may be filled by several invocations.
///
/// ```
/// use vicus_flow::{BoxError, EnvelopeBuilder, Operator, Schema, Turn, Type};
///
/// /// Sends the first `count` numbers and their squares.
/// fn squares(count: u64) -> impl Operator {
///     let schema = Schema::new([("number", Type::U64), ("square", Type::U64)]);
///     let mut builder = EnvelopeBuilder::new(&schema);
///     move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
///         turn.take(0);
///         builder.reserve(turn, count as usize);
///         builder.u64s(0).extend(0..count);
///         builder.u64s(1).extend((0..count).map(|number| number * number));
///         let envelope = builder.finish(turn);
///         turn.send(0, envelope);
///         turn.send_pill(0);
///         Ok(())
///     }
/// }
/// # let _ = squares(3);
/// ```
#[derive(Debug)]
pub struct EnvelopeBuilder {
    columns: SmallVec<[Filled; 4]>,
    /// How many rows there is room for.
    capacity: usize,
    block: Option<Block>,
}

/// What a column has.
#[derive(Clone, Copy, Debug)]
struct Filled {
    kind: Type,
    /// Where it begins in the block. Invariant: columns don't overlap, and each has room for `capacity` values.
    start: usize,
    /// Invariant: so many values are there, at most `capacity`.
    len: usize,
}

fn value_bytes(kind: Type) -> usize {
    match kind {
        Type::U64 | Type::I64 | Type::F64 => 8,
        Type::U8 => 1,
        Type::Text => panic!("texts have no fixed size: collect them into a `Column`"),
    }
}

impl EnvelopeBuilder {
    /// For envelopes of this schema. Panics if it has texts: these are collected into a [`Column`], whose memory is the
    /// program's.
    pub fn new(schema: &Schema) -> EnvelopeBuilder {
        EnvelopeBuilder::of(schema.columns().iter().map(|(_, kind)| *kind))
    }

    /// For envelopes of so many columns of [`Type::U64`].
    pub fn of_u64s(columns: usize) -> EnvelopeBuilder {
        EnvelopeBuilder::of(std::iter::repeat_n(Type::U64, columns))
    }

    fn of(kinds: impl Iterator<Item = Type>) -> EnvelopeBuilder {
        let column = |kind| {
            // Panics for texts.
            value_bytes(kind);
            Filled { kind, start: 0, len: 0 }
        };
        EnvelopeBuilder { columns: kinds.map(column).collect(), capacity: 0, block: None }
    }

    /// Rows of the first column so far.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.len)
    }

    /// Bytes of memory that it has taken.
    pub fn bytes(&self) -> u64 {
        self.block.as_ref().map_or(0, |block| block.bytes() as u64)
    }

    /// Makes room for so many more rows. What is there already may move, so it is best to ask once. If there is no memory, the
    /// invocation ends here, and its request fails with [`NoMemory`] and the box's name ([`give_up`]).
    pub fn reserve(&mut self, turn: &Turn<'_>, more: usize) {
        self.reserve_from(turn.blocks, more);
    }

    /// As [`EnvelopeBuilder::reserve`], for a box that can do with less.
    ///
    /// # Errors
    /// There is not so much memory. What was filled in is still there.
    pub fn try_reserve(&mut self, turn: &Turn<'_>, more: usize) -> Result<(), NoMemory> {
        self.try_reserve_from(turn.blocks, more)
    }

    #[inline]
    pub(crate) fn reserve_from(&mut self, blocks: Blocks, more: usize) {
        self.try_reserve_from(blocks, more).unwrap_or_else(|error| give_up(error));
    }

    fn try_reserve_from(&mut self, blocks: Blocks, more: usize) -> Result<(), NoMemory> {
        let filled = self.columns.iter().map(|column| column.len).max().unwrap_or(0);
        let wanted = filled.checked_add(more).ok_or(BEYOND)?;
        if wanted <= self.capacity {
            return Ok(());
        }
        let doubled = wanted.max(2 * filled);
        match self.move_to(blocks, doubled) {
            Err(_) if doubled > wanted => self.move_to(blocks, wanted),
            done => done,
        }
    }

    /// Takes a block with room for so many rows, which is at least as many as there are.
    #[cold]
    fn move_to(&mut self, blocks: Blocks, capacity: usize) -> Result<(), NoMemory> {
        let row: usize = self.columns.iter().map(|column| value_bytes(column.kind)).sum();
        let is_small = row.saturating_mul(capacity.saturating_add(VALUE)) <= SMALL;
        // A line in between: columns whose sizes are powers of two would all begin in the same set of each cache.
        let (align, between) = if is_small { (VALUE, 0) } else { (LINE, LINE) };
        let end = |start: usize, column: &Filled| {
            let size = value_bytes(column.kind).checked_mul(capacity)?.checked_next_multiple_of(align)?;
            start.checked_add(size)?.checked_add(between)
        };
        let bytes = self.columns.iter().try_fold(0, end).ok_or(BEYOND)?;
        let block = blocks.take(Layout::from_size_align(bytes, align).map_err(|_| BEYOND)?)?;
        let mut next = 0;
        for column in &mut self.columns {
            let start = next;
            next = end(start, column).expect("so far the block goes");
            if let Some(old) = &self.block {
                let values = column.len * value_bytes(column.kind);
                #[expect(unsafe_code, reason = "moves values to another block")]
                // SAFETY: so many bytes of the column are filled in the old block, and the new one has room for them.
                unsafe {
                    block.at().add(start).copy_from_nonoverlapping(old.at().add(column.start), values);
                }
            }
            column.start = start;
        }
        self.block = Some(block);
        self.capacity = capacity;
        Ok(())
    }

    /// The envelope, with all that was filled in; the builder is empty again. Panics if the columns differ in length.
    pub fn finish(&mut self, turn: &Turn<'_>) -> Envelope {
        let rows = self.rows();
        Envelope::of_rows(self.finish_columns(turn), rows)
    }

    /// As [`EnvelopeBuilder::finish`], for envelopes that have other columns as well.
    pub fn finish_columns(&mut self, turn: &Turn<'_>) -> Vec<Column> {
        self.finish_from(turn.blocks)
    }

    pub(crate) fn finish_from(&mut self, blocks: Blocks) -> Vec<Column> {
        let most = self.columns.iter().map(|column| column.len).max().unwrap_or(0);
        // A receiver may keep it for long.
        if self.capacity > 2 * most && self.bytes() > 4096 {
            // Without memory for less it stays as large as it is.
            let _ = self.move_to(blocks, most);
        }
        let block = Arc::new(self.block.take().unwrap_or_else(Block::none));
        self.capacity = 0;
        let column = |column: &mut Filled| {
            let Filled { kind, start, len } = std::mem::replace(column, Filled { kind: column.kind, start: 0, len: 0 });
            match kind {
                Type::U64 => Column::U64(values(&block, start, len)),
                Type::I64 => Column::I64(values(&block, start, len)),
                Type::F64 => Column::F64(values(&block, start, len)),
                Type::U8 => Column::U8(values(&block, start, len)),
                Type::Text => unreachable!("`new` refuses texts"),
            }
        };
        self.columns.iter_mut().map(column).collect()
    }

    /// A column's room.
    fn room<T>(&mut self, column: usize, kind: Type) -> Room<'_, T> {
        let Filled { kind: is, start, len } = &mut self.columns[column];
        if *is != kind {
            wrong_type(*is, kind);
        }
        let capacity = self.capacity;
        let Some(block) = &self.block else { return Room { values: &mut [], len } };
        #[expect(unsafe_code, reason = "a part of the block as a slice")]
        // SAFETY: the column has room for so many values there, aligned for them, which the builder alone has.
        let values = unsafe {
            NonNull::slice_from_raw_parts(block.at().add(*start).cast::<MaybeUninit<T>>(), capacity).as_mut()
        };
        Room { values, len }
    }
}

/// Copies of these columns, in a block of their own; texts are shared.
pub(crate) fn copied(columns: &[Column], rows: usize, blocks: Blocks) -> Vec<Column> {
    let fixed = || columns.iter().filter(|column| column.kind() != Type::Text);
    let mut builder = EnvelopeBuilder::of(fixed().map(Column::kind));
    builder.reserve_from(blocks, rows);
    for (place, column) in fixed().enumerate() {
        match column {
            Column::U64(values) => builder.u64s(place).extend_from_slice(values),
            Column::I64(values) => builder.i64s(place).extend_from_slice(values),
            Column::F64(values) => builder.f64s(place).extend_from_slice(values),
            Column::U8(values) => builder.u8s(place).extend_from_slice(values),
            Column::Text(_) => unreachable!("left out above"),
        }
    }
    let mut copies = builder.finish_from(blocks).into_iter();
    let copy = |column: &Column| match column {
        Column::Text(_) => column.clone(),
        _ => copies.next().expect("one for each that is no text"),
    };
    columns.iter().map(copy).collect()
}

/// What was filled into a block.
fn values<T: Copy>(block: &Arc<Block>, start: usize, len: usize) -> Values<T> {
    if len == 0 {
        return Vec::new().into();
    }
    #[expect(unsafe_code, reason = "a part of the block becomes a column")]
    // SAFETY: so many values of this type were written there, and the builder, which wrote them, gives the block away.
    unsafe {
        Values::new(block.at().add(start).cast(), len, Arc::clone(block))
    }
}

macro_rules! rooms {
    ($($type:ty, $variant:ident, $name:ident;)*) => {$(
        impl EnvelopeBuilder {
            #[doc = concat!("A column of `", stringify!($type), "`, to be filled. Panics if it is of another type.")]
            #[inline]
            pub fn $name(&mut self, column: usize) -> Room<'_, $type> {
                self.room(column, Type::$variant)
            }
        }
    )*};
}

rooms! {
    u64, U64, u64s;
    i64, I64, i64s;
    f64, F64, f64s;
    u8, U8, u8s;
}

/// A column that is being filled, as far as there is room. Appending more than that panics.
#[derive(Debug)]
pub struct Room<'a, T> {
    /// Invariant: the first `len` of them have a value.
    values: &'a mut [MaybeUninit<T>],
    len: &'a mut usize,
}

impl<T: Copy> Room<'_, T> {
    /// Appends to a vector through a room for exactly so many values more.
    pub fn of(vector: &mut Vec<T>, more: usize, fill: impl FnOnce(&mut Room<'_, T>)) {
        vector.grow_or_give_up(more);
        let mut len = 0;
        fill(&mut Room { values: &mut vector.spare_capacity_mut()[..more], len: &mut len });
        #[expect(unsafe_code, reason = "the vector has what was written behind it")]
        // SAFETY: a room counts what has a value.
        unsafe {
            vector.set_len(vector.len() + len);
        }
    }

    /// How many values it has.
    pub fn len(&self) -> usize {
        *self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        *self.len == 0
    }

    /// The values that it has.
    pub fn filled(&mut self) -> &mut [T] {
        let filled = &mut self.values[..*self.len];
        #[expect(unsafe_code, reason = "values that are there")]
        // SAFETY: by the invariant they are; the memory's owner is borrowed.
        unsafe {
            &mut *(std::ptr::from_mut(filled) as *mut [T])
        }
    }

    /// The places that have no value yet.
    #[inline]
    fn rest(&mut self) -> &mut [MaybeUninit<T>] {
        &mut self.values[*self.len..]
    }

    /// Appends a value.
    #[inline]
    pub fn push(&mut self, value: T) {
        match self.rest() {
            [place, ..] => place.write(value),
            [] => self.is_full(1),
        };
        *self.len += 1;
    }

    /// Appends all of these.
    #[inline]
    pub fn extend_from_slice(&mut self, values: &[T]) {
        let Some(places) = self.rest().get_mut(..values.len()) else { self.is_full(values.len()) };
        #[expect(unsafe_code, reason = "`MaybeUninit::write_copy_of_slice`, which older compilers don't have")]
        // SAFETY: so many places are there, and they are borrowed for writing, so that the values are elsewhere.
        unsafe {
            places.as_mut_ptr().cast::<T>().copy_from_nonoverlapping(values.as_ptr(), values.len());
        }
        *self.len += values.len();
    }

    /// Appends what the iterator has.
    #[inline]
    pub fn extend(&mut self, values: impl IntoIterator<Item = T>) {
        let values = values.into_iter();
        let rest = self.rest();
        if values.size_hint().1.is_none_or(|most| most > rest.len()) {
            return values.for_each(|value| self.push(value));
        }
        let mut written = 0;
        for (place, value) in rest.iter_mut().zip(values) {
            place.write(value);
            written += 1;
        }
        *self.len += written;
    }

    /// Appends a value so many times.
    #[inline]
    pub fn repeat(&mut self, value: T, count: usize) {
        match self.rest().get_mut(..count) {
            Some(places) => places.fill(MaybeUninit::new(value)),
            None => self.is_full(count),
        }
        *self.len += count;
    }

    #[cold]
    fn is_full(&self, more: usize) -> ! {
        panic!("there is room for {} values, not for {} and {more} more", self.values.len(), self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Blocks of the world below that are in use.
    static TAKEN: AtomicUsize = AtomicUsize::new(0);

    fn take(layout: Layout) -> Option<Block> {
        #[expect(unsafe_code, reason = "gives memory back")]
        // SAFETY of callers: as for `Block::new`'s.
        unsafe fn free(at: NonNull<u8>, layout: Layout) {
            TAKEN.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: it was taken there below.
            unsafe { std::alloc::dealloc(at.as_ptr(), layout) };
        }
        #[expect(unsafe_code, reason = "a world's memory")]
        // SAFETY: the size is that of a line at least; the memory is the block's.
        let block = unsafe { Block::new(NonNull::new(std::alloc::alloc(layout))?, layout, free) };
        TAKEN.fetch_add(1, Ordering::Relaxed);
        Some(block)
    }

    #[test]
    fn columns_of_all_types_lie_in_one_block_of_the_world() {
        let kinds = [("a", Type::U64), ("b", Type::I64), ("c", Type::F64), ("d", Type::U8)];
        let mut builder = EnvelopeBuilder::new(&Schema::new(kinds));
        let blocks = Blocks::of(take);
        let mut columns = Vec::new();
        for rows in [0usize, 1, 3, 64, 1000, 5000] {
            for round in 0..3 {
                let from = rows * round;
                builder.reserve_from(blocks, rows);
                builder.u64s(0).extend((from..from + rows).map(|row| row as u64));
                builder.i64s(1).repeat(-7, rows);
                (0..rows).for_each(|row| builder.f64s(2).push(row as f64));
                builder.u8s(3).extend_from_slice(&vec![round as u8; rows]);
            }
            let made = builder.finish_from(blocks);
            assert!(made[0].u64s().iter().copied().eq(0..3 * rows as u64));
            assert!(made[1].i64s().iter().eq(&vec![-7; 3 * rows]));
            assert!(made[2].f64s().iter().enumerate().all(|(row, &value)| value == (row % rows) as f64));
            assert!(made[3].u8s().iter().enumerate().all(|(row, &round)| usize::from(round) == row / rows));
            columns.push(made);
        }
        assert_eq!(TAKEN.load(Ordering::Relaxed), 5, "a block for each envelope that has rows");
        let kept: Vec<Column> = columns.into_iter().map(|mut columns| columns.remove(2)).collect();
        assert_eq!(TAKEN.load(Ordering::Relaxed), 5, "one column keeps it");
        let mut envelope = Envelope::new([kept[5].clone(), kept[5].clone()]);
        drop(kept);
        assert_eq!(TAKEN.load(Ordering::Relaxed), 1);
        let before = envelope.column(1).f64s().as_ptr();
        assert_ne!(envelope.f64s_mut(1).as_ptr(), before, "the same values are the other column");
        assert_eq!(envelope.f64s_mut(0).as_ptr(), before);
        drop(envelope);
        assert_eq!(TAKEN.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_was_little_does_not_keep_much() {
        let mut builder = EnvelopeBuilder::of_u64s(1);
        builder.reserve_from(Blocks::default(), 100_000);
        builder.u64s(0).push(1);
        assert_eq!(builder.bytes(), 800_000 + 64);
        let columns = builder.finish_from(Blocks::default());
        let Column::U64(values) = &columns[0] else { panic!("a column of numbers") };
        assert_eq!((&values[..], values.block_bytes()), (&[1][..], 8));
    }

    #[test]
    #[should_panic(expected = "there is room for 2 values, not for 2 and 1 more")]
    fn more_than_there_is_room_for_is_refused() {
        let mut builder = EnvelopeBuilder::of_u64s(1);
        builder.reserve_from(Blocks::default(), 2);
        builder.u64s(0).push(1);
        builder.u64s(0).extend([2, 3]);
    }

    /// An iterator that is not as long as it says.
    #[test]
    fn a_room_has_what_was_written() {
        struct Liar(usize);
        impl Iterator for Liar {
            type Item = u64;

            fn next(&mut self) -> Option<u64> {
                self.0 = self.0.checked_sub(1)?;
                Some(9)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                (5, Some(5))
            }
        }
        let mut vector = vec![8u64];
        for has in [3, 7] {
            Room::of(&mut vector, 5, |room| {
                room.extend(Liar(has));
                room.filled()[0] = 1;
            });
        }
        assert_eq!(vector, [8, 1, 9, 9, 1, 9, 9, 9, 9]);
    }
}
