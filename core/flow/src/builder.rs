//! Fills the columns of an envelope in place: in one block, from the heap of the filling seat.

use crate::block::{Block, Blocks};
use crate::column::{Column, Parts, TOO_MUCH_TEXT, wrong_type};
use crate::native::by_type;
use crate::nulls::{Bytes, Nulls, clear};
use crate::{Envelope, Native, NoMemory, Room, Schema, TextRoom, Turn, Type, give_up};
use smallvec::SmallVec;
use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// The bytes of a cache line: each column begins at one, unless all are small.
const LINE: usize = 64;

/// Columns with fewer bytes together lie side by side: allocators are slow with aligned blocks, and loops over so few
/// values gain nothing from alignment.
const SMALL: usize = 1024;

/// The alignment of a small block and of its columns: enough for any value.
const VALUE: usize = 8;

/// More rows than there are addresses.
const BEYOND: NoMemory = NoMemory { bytes: u64::MAX };

/// The columns of an envelope that is being filled, if need be by several invocations.
///
/// ```
/// use vicus_flow::{Envelope, EnvelopeBuilder, Schema, Turn, Type};
///
/// /// The first `count` numbers and their squares.
/// fn squares(turn: &Turn<'_>, count: u64) -> Envelope {
///     let schema = Schema::new([("number", Type::U64), ("square", Type::U64)]);
///     let mut builder = EnvelopeBuilder::new(&schema);
///     builder.reserve(turn, count as usize);
///     builder.u64s(0).extend(0..count);
///     builder.u64s(1).extend((0..count).map(|number| number * number));
///     builder.finish(turn)
/// }
/// # let _ = squares;
/// ```
///
/// Texts need room for rows and for bytes, and come into the same block:
///
/// ```
/// use vicus_flow::{Envelope, EnvelopeBuilder, Schema, Turn, Type};
///
/// /// Names and ages, some of which are not known.
/// fn people(turn: &Turn<'_>, rows: &[(&str, Option<u8>)]) -> Envelope {
///     let schema = Schema::new([("name", Type::Text), ("age", Type::U8)]).with_nulls(["age"]);
///     let mut builder = EnvelopeBuilder::new(&schema);
///     builder.reserve(turn, rows.len());
///     builder.reserve_text(turn, 0, rows.iter().map(|(name, _)| name.len()).sum());
///     for (name, age) in rows {
///         builder.texts(0).push(name);
///         match age {
///             Some(age) => builder.u8s(1).push(*age),
///             None => builder.push_null(1),
///         }
///     }
///     builder.finish(turn)
/// }
/// # let _ = people;
/// ```
#[derive(Debug)]
pub struct EnvelopeBuilder {
    columns: SmallVec<[Filled; 4]>,
    /// One for each column if any is of texts or may have nulls, else empty.
    beside: Vec<Beside>,
    /// How many rows there is room for.
    capacity: usize,
    block: Option<Block>,
}

/// The state of a column.
#[derive(Clone, Copy, Debug)]
struct Filled {
    kind: Type,
    /// Its beginning in the block. Invariant: columns don't overlap, and each has room for `capacity` values or, for a
    /// variable type, for as many ends and one more; the first end is written.
    start: usize,
    /// Invariant: this number of values is written, at most `capacity`.
    len: usize,
}

/// The state of a column's nulls and texts.
#[derive(Clone, Copy, Debug, Default)]
struct Beside {
    nullable: bool,
    /// The beginning of the bits, if there is a block and the column may have nulls. Invariant: there are bits for
    /// `capacity` rows, and the bits of rows without a null, or not yet written, are 1.
    bits: usize,
    /// How many of its rows are nulls.
    nulls: usize,
    /// The beginning of the texts. Invariant: there is room for `text_capacity` bytes, and `text_len` of them are
    /// written.
    text: usize,
    text_len: usize,
    text_capacity: usize,
}

/// The places of a column's parts in a block.
#[derive(Clone, Copy, Default)]
struct Layed {
    values: usize,
    text: usize,
    bits: usize,
}

impl EnvelopeBuilder {
    /// For envelopes of this schema.
    pub fn new(schema: &Schema) -> EnvelopeBuilder {
        EnvelopeBuilder::of(schema.columns().iter().map(|field| (field.kind, field.nullable)))
    }

    /// For envelopes of `columns` columns of [`Type::U64`].
    pub fn of_u64s(columns: usize) -> EnvelopeBuilder {
        let plain = Filled { kind: Type::U64, start: 0, len: 0 };
        let columns = std::iter::repeat_n(plain, columns).collect();
        EnvelopeBuilder { columns, beside: Vec::new(), capacity: 0, block: None }
    }

    fn of(kinds: impl Iterator<Item = (Type, bool)> + Clone) -> EnvelopeBuilder {
        let beside = |(_, nullable)| Beside { nullable, ..Beside::default() };
        let is_plain = kinds.clone().all(|(kind, nullable)| !nullable && !kind.is_variable());
        let beside = if is_plain { Vec::new() } else { kinds.clone().map(beside).collect() };
        let columns = kinds.map(|(kind, _)| Filled { kind, start: 0, len: 0 }).collect();
        EnvelopeBuilder { columns, beside, capacity: 0, block: None }
    }

    /// Rows of the first column so far.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.len)
    }

    /// The bytes of memory it has taken.
    pub fn bytes(&self) -> u64 {
        self.block.as_ref().map_or(0, |block| block.bytes() as u64)
    }

    /// Makes room for `more` rows, but not for the bytes of texts ([`EnvelopeBuilder::reserve_text`]). Present values
    /// may move, so it is best to call it once. If there is no memory, the invocation ends here, and its request fails
    /// with [`NoMemory`] and the box's name ([`give_up`]).
    pub fn reserve(&mut self, turn: &Turn<'_>, more: usize) {
        self.reserve_from(turn.blocks, more);
    }

    /// Like [`EnvelopeBuilder::reserve`], for a box that can do with less.
    ///
    /// # Errors
    /// There is not enough memory. The values stay.
    pub fn try_reserve(&mut self, turn: &Turn<'_>, more: usize) -> Result<(), NoMemory> {
        self.try_reserve_from(turn.blocks, more)
    }

    /// Makes room for `more` bytes of a column of texts or strings of bytes; see [`EnvelopeBuilder::reserve`]. Panics
    /// if it is of another type. More than 2 GiB also fail by [`give_up`].
    pub fn reserve_text(&mut self, turn: &Turn<'_>, column: usize, more: usize) {
        self.reserve_text_from(turn.blocks, column, more);
    }

    /// Like [`EnvelopeBuilder::reserve_text`], for a box that can do with less.
    ///
    /// # Errors
    /// There is not enough memory, or the column would have more than 2 GiB. The values stay.
    pub fn try_reserve_text(&mut self, turn: &Turn<'_>, column: usize, more: usize) -> Result<(), NoMemory> {
        self.try_reserve_text_from(turn.blocks, column, more)
    }

    #[inline]
    pub(crate) fn reserve_from(&mut self, blocks: Blocks, more: usize) {
        self.try_reserve_from(blocks, more).unwrap_or_else(|error| give_up(error));
    }

    pub(crate) fn try_reserve_from(&mut self, blocks: Blocks, more: usize) -> Result<(), NoMemory> {
        let filled = self.most_rows();
        let wanted = filled.checked_add(more).ok_or(BEYOND)?;
        if wanted <= self.capacity {
            return Ok(());
        }
        let doubled = wanted.max(2 * filled);
        match self.move_to(blocks, doubled, None) {
            Err(_) if doubled > wanted => self.move_to(blocks, wanted, None),
            done => done,
        }
    }

    pub(crate) fn reserve_text_from(&mut self, blocks: Blocks, column: usize, more: usize) {
        let has = self.text_of(column).text_len;
        if has.saturating_add(more) > MOST_TEXT {
            give_up(TOO_MUCH_TEXT);
        }
        self.try_reserve_text_from(blocks, column, more).unwrap_or_else(|error| give_up(error));
    }

    fn try_reserve_text_from(&mut self, blocks: Blocks, column: usize, more: usize) -> Result<(), NoMemory> {
        let has = self.text_of(column);
        let wanted = has.text_len.checked_add(more).filter(|&wanted| wanted <= MOST_TEXT).ok_or(BEYOND)?;
        if wanted <= has.text_capacity {
            return Ok(());
        }
        let doubled = wanted.max(2 * has.text_len).min(MOST_TEXT);
        let rows = self.capacity;
        match self.move_to(blocks, rows, Some((column, doubled))) {
            Err(_) if doubled > wanted => self.move_to(blocks, rows, Some((column, wanted))),
            done => done,
        }
    }

    /// The state of a text column's texts.
    fn text_of(&self, column: usize) -> &Beside {
        let kind = self.columns[column].kind;
        assert!(kind.is_variable(), "a column of type {kind:?} has no texts");
        &self.beside[column]
    }

    #[inline]
    fn most_rows(&self) -> usize {
        self.columns.iter().map(|column| column.len).max().unwrap_or(0)
    }

    /// Takes a block with room for `capacity` rows, at least as many as there are, and for this number of bytes of a
    /// column's texts.
    #[inline]
    fn move_to(&mut self, blocks: Blocks, capacity: usize, text: Option<(usize, usize)>) -> Result<(), NoMemory> {
        if self.beside.is_empty() { self.move_plain(blocks, capacity) } else { self.move_any(blocks, capacity, text) }
    }

    /// Like [`EnvelopeBuilder::move_to`], for columns of fixed width without nulls alone: the usual case.
    fn move_plain(&mut self, blocks: Blocks, capacity: usize) -> Result<(), NoMemory> {
        let row: usize = self.columns.iter().map(|column| column.kind.width()).sum();
        let (align, between) = laying(row.saturating_mul(capacity.saturating_add(VALUE)));
        let most =
            row.checked_mul(capacity).and_then(|bytes| bytes.checked_add(self.columns.len() * (align + between)));
        if most.is_none() {
            return Err(BEYOND);
        }
        // Their parts together are at most this large.
        let bytes_of = |kind: Type| (kind.width() * capacity).next_multiple_of(align) + between;
        let bytes = self.columns.iter().map(|column| bytes_of(column.kind)).sum();
        let block = blocks.take(Layout::from_size_align(bytes, align).map_err(|_| BEYOND)?)?;
        let mut next = 0;
        for Filled { kind, start, len } in &mut self.columns {
            if let Some(old) = &self.block {
                #[expect(unsafe_code, reason = "moves values to another block")]
                // SAFETY: by the invariant of `start`, this number of values is in the old block, and there is room for
                // them in the new one.
                unsafe {
                    block.at().add(next).copy_from_nonoverlapping(old.at().add(*start), kind.width() * *len);
                }
            }
            *start = next;
            next += bytes_of(*kind);
        }
        self.block = Some(block);
        self.capacity = capacity;
        Ok(())
    }

    /// Like [`EnvelopeBuilder::move_to`], if some column is of texts, of strings of bytes, or may have nulls.
    #[cold]
    fn move_any(&mut self, blocks: Blocks, capacity: usize, text: Option<(usize, usize)>) -> Result<(), NoMemory> {
        let text_capacity = |column: usize, beside: &Beside| match text {
            Some((grown, bytes)) if grown == column => bytes,
            _ => beside.text_capacity,
        };
        let row: usize = self.columns.iter().map(|column| column.kind.width()).sum();
        let texts = self.beside.iter().enumerate().map(|(column, beside)| text_capacity(column, beside));
        let texts = texts.fold(0, usize::saturating_add);
        let (align, between) = laying(row.saturating_mul(capacity.saturating_add(VALUE)).saturating_add(texts));
        let behind = |start: usize, bytes: usize| {
            start.checked_add(bytes.checked_next_multiple_of(align)?)?.checked_add(between)
        };
        // The beginnings of the present column's parts, and of the next column.
        let lay = |start: usize, column: usize| -> Option<(Layed, usize)> {
            let Filled { kind, .. } = self.columns[column];
            let mut next = behind(start, kind.width().checked_mul(capacity + usize::from(kind.is_variable()))?)?;
            let mut layed = Layed { values: start, ..Layed::default() };
            let beside = &self.beside[column];
            if kind.is_variable() {
                layed.text = next;
                next = behind(next, text_capacity(column, beside))?;
            }
            if beside.nullable {
                layed.bits = next;
                next = behind(next, capacity.div_ceil(8))?;
            }
            Some((layed, next))
        };
        if capacity == usize::MAX {
            return Err(BEYOND);
        }
        let columns = 0..self.columns.len();
        let bytes = columns.clone().try_fold(0, |start, column| Some(lay(start, column)?.1)).ok_or(BEYOND)?;
        let block = blocks.take(Layout::from_size_align(bytes, align).map_err(|_| BEYOND)?)?;
        let mut next = 0;
        let mut places: SmallVec<[Layed; 4]> = SmallVec::new();
        for column in columns {
            let (layed, end) = lay(next, column).expect("so far the block goes");
            next = end;
            places.push(layed);
            self.copy_column(&block, column, layed, capacity);
        }
        for (column, layed) in self.columns.iter_mut().zip(&places) {
            column.start = layed.values;
        }
        for (column, (beside, layed)) in self.beside.iter_mut().zip(&places).enumerate() {
            (beside.text, beside.bits) = (layed.text, layed.bits);
            beside.text_capacity = match text {
                Some((grown, bytes)) if grown == column => bytes,
                _ => beside.text_capacity,
            };
        }
        self.block = Some(block);
        self.capacity = capacity;
        Ok(())
    }

    /// Copies a column to a new block.
    #[inline]
    fn copy_column(&self, to: &Block, column: usize, layed: Layed, capacity: usize) {
        let Filled { kind, start, len } = self.columns[column];
        let beside = &self.beside[column];
        #[expect(unsafe_code, reason = "moves values to another block")]
        // SAFETY: by the invariants the source is written in the old block, and there is room for it in the new one.
        let copy = |from: usize, place: usize, bytes: usize| unsafe {
            if let Some(old) = &self.block {
                to.at().add(place).copy_from_nonoverlapping(old.at().add(from), bytes);
            }
        };
        let ends = kind.width() * (len + usize::from(kind.is_variable()));
        if kind.is_variable() && self.block.is_none() {
            #[expect(unsafe_code, reason = "writes the first end")]
            // SAFETY: there is room for one end and as many as there may be rows, aligned for `i32` as all parts are.
            unsafe {
                to.at().add(layed.values).cast::<i32>().write(0);
            }
        }
        copy(start, layed.values, ends);
        copy(beside.text, layed.text, beside.text_len);
        if beside.nullable {
            #[expect(unsafe_code, reason = "fills the bits with ones")]
            // SAFETY: there is room for this number of values.
            unsafe {
                to.at().add(layed.bits).write_bytes(u8::MAX, capacity.div_ceil(8));
            }
            copy(beside.bits, layed.bits, len.div_ceil(8));
        }
    }

    /// The envelope of all filled rows; the builder is empty again. Panics if the columns differ in length.
    pub fn finish(&mut self, turn: &Turn<'_>) -> Envelope {
        let rows = self.rows();
        Envelope::of_rows(self.finish_columns(turn), rows)
    }

    /// Like [`EnvelopeBuilder::finish`], for envelopes with further columns.
    pub fn finish_columns(&mut self, turn: &Turn<'_>) -> Vec<Column> {
        self.finish_from(turn.blocks)
    }

    pub(crate) fn finish_from(&mut self, blocks: Blocks) -> Vec<Column> {
        let most = self.most_rows();
        let spare = |beside: &Beside| (beside.text_capacity - beside.text_len) as u64;
        let has_spare = self.capacity > 2 * most || 2 * self.beside.iter().map(spare).sum::<u64>() > self.bytes();
        // A receiver may keep the envelope for long.
        if has_spare && self.bytes() > 4096 {
            let before = self.fit_texts();
            // If there is no memory for the smaller copy, the block stays.
            if self.move_to(blocks, most, None).is_err() {
                self.set_text_capacities(&before);
            }
        }
        let block = Arc::new(self.block.take().unwrap_or_else(Block::none));
        self.capacity = 0;
        if self.beside.is_empty() {
            let column = |filled: &mut Filled| {
                let (start, len) = (std::mem::take(&mut filled.start), std::mem::take(&mut filled.len));
                #[expect(unsafe_code, reason = "a part of the block becomes a column")]
                // SAFETY: the builder wrote this number of values of this type there, aligned, and gives the block
                // away.
                unsafe {
                    Column::plain(filled.kind, len, block.at().add(start), Arc::clone(&block))
                }
            };
            return self.columns.iter_mut().map(column).collect();
        }
        let mut columns = Vec::with_capacity(self.columns.len());
        for (place, filled) in self.columns.iter_mut().enumerate() {
            let Filled { kind, start, len } = std::mem::replace(filled, Filled { kind: filled.kind, start: 0, len: 0 });
            let nullable = self.beside[place].nullable;
            let beside = std::mem::replace(&mut self.beside[place], Beside { nullable, ..Beside::default() });
            let bytes = |at: usize, len: usize| {
                #[expect(unsafe_code, reason = "a part of the block is shared")]
                // SAFETY: the builder wrote this number of bytes there, and gives the block away.
                unsafe {
                    Bytes::new(block.at().add(at), len, Arc::clone(&block))
                }
            };
            let text = (kind.is_variable() && len > 0).then(|| bytes(beside.text, beside.text_len));
            let nulls = (beside.nulls > 0).then(|| {
                let bits = bytes(beside.bits, len.div_ceil(8));
                Nulls { bits, first: 0, rows: len, count: beside.nulls }
            });
            #[expect(unsafe_code, reason = "a part of the block becomes a column")]
            // SAFETY: the builder wrote this number of values of this type, or ends and their texts, there, aligned,
            // and gives the block away.
            columns.push(unsafe {
                let at = block.at().add(start);
                Column::new(Parts { kind, rows: len, at, block: Arc::clone(&block), text, nulls })
            });
        }
        columns
    }

    /// Reduces the texts' capacities to their lengths. Gives the capacities before.
    fn fit_texts(&mut self) -> Vec<usize> {
        self.beside.iter_mut().map(|beside| std::mem::replace(&mut beside.text_capacity, beside.text_len)).collect()
    }

    fn set_text_capacities(&mut self, capacities: &[usize]) {
        self.beside.iter_mut().zip(capacities).for_each(|(beside, &capacity)| beside.text_capacity = capacity);
    }

    /// A column, to be filled. Panics if it is of another type.
    #[inline]
    pub fn values<T: Native>(&mut self, column: usize) -> Room<'_, T> {
        let capacity = self.capacity;
        let Filled { kind, start, len } = &mut self.columns[column];
        if *kind != T::TYPE {
            wrong_type(*kind, T::TYPE);
        }
        #[expect(unsafe_code, reason = "a part of the block")]
        // SAFETY: by the invariant of `start`; only the builder has the block, and it is borrowed.
        let values = unsafe { part(&self.block, *start, capacity).as_mut() };
        Room { values, len }
    }

    /// A column of texts, to be filled. Panics if it is of another type.
    pub fn texts(&mut self, column: usize) -> TextRoom<'_, str> {
        self.strings(column, Type::Text)
    }

    /// A column of strings of bytes, to be filled. Panics if it is of another type.
    pub fn binaries(&mut self, column: usize) -> TextRoom<'_, [u8]> {
        self.strings(column, Type::Binary)
    }

    fn strings<S: ?Sized>(&mut self, column: usize, wanted: Type) -> TextRoom<'_, S> {
        let capacity = self.capacity;
        let Filled { kind, start, len } = &mut self.columns[column];
        if *kind != wanted {
            wrong_type(*kind, wanted);
        }
        let beside = &mut self.beside[column];
        #[expect(unsafe_code, reason = "two parts of the block")]
        // SAFETY: by the invariants of `start` and `text`; they don't overlap, and only the builder has the block, and
        // it is borrowed. The ends are those behind the first one, written when the block was taken.
        let (ends, bytes) = unsafe {
            let mut ends = part(&self.block, *start + kind.width(), capacity);
            let mut bytes = part(&self.block, beside.text, beside.text_capacity);
            (ends.as_mut(), bytes.as_mut())
        };
        let (ends, bytes) = (Room { values: ends, len }, Room { values: bytes, len: &mut beside.text_len });
        TextRoom { ends, bytes, of: PhantomData }
    }

    /// Appends a text to a column, making room for it. Panics if the column is of another type. See
    /// [`EnvelopeBuilder::reserve`].
    pub fn push_text(&mut self, turn: &Turn<'_>, column: usize, text: &str) {
        self.push_string(turn.blocks, column, Type::Text, text.as_bytes());
    }

    /// Appends a string of bytes, as [`EnvelopeBuilder::push_text`] does.
    pub fn push_binary(&mut self, turn: &Turn<'_>, column: usize, bytes: &[u8]) {
        self.push_string(turn.blocks, column, Type::Binary, bytes);
    }

    /// Appends a string to a column of this type, making room for it. UTF-8 if it is a text.
    pub(crate) fn push_string(&mut self, blocks: Blocks, column: usize, kind: Type, bytes: &[u8]) {
        if self.columns[column].len == self.capacity {
            self.reserve_from(blocks, usize::from(self.columns[column].len == self.most_rows()));
        }
        self.reserve_text_from(blocks, column, bytes.len());
        self.strings::<[u8]>(column, kind).push(bytes);
    }

    /// Appends a null to a column. Panics if there is no room, or if the column has no nulls by the schema.
    pub fn push_null(&mut self, column: usize) {
        let Filled { kind, len, .. } = self.columns[column];
        assert!(self.beside.get(column).is_some_and(|beside| beside.nullable), "column {column} has no nulls");
        by_type!(kind,
            T => self.values::<T>(column).push(T::default()),
            self.strings::<[u8]>(column, kind).push(&[]));
        self.make_null(column, len);
    }

    /// Turns an existing row of a column into a null. Panics if there is no such row, or if the column has no nulls by
    /// the schema.
    pub fn make_null(&mut self, column: usize, row: usize) {
        let Filled { len, .. } = self.columns[column];
        assert!(row < len, "row {row} of {len}");
        let capacity = self.capacity;
        let beside = self.beside.get_mut(column).filter(|beside| beside.nullable);
        let beside = beside.unwrap_or_else(|| panic!("column {column} has no nulls"));
        #[expect(unsafe_code, reason = "bits that are there")]
        // SAFETY: by the invariant of `bits`; they were filled with ones when the block was taken.
        let bits = unsafe {
            let bits = part::<u8>(&self.block, beside.bits, capacity.div_ceil(8));
            &mut *(bits.as_ptr() as *mut [u8])
        };
        if clear(bits, row) {
            beside.nulls += 1;
        }
    }

    /// Appends these rows of an envelope, in this order, and makes room for them. The envelope's columns have the
    /// builder's types. Panics if a null comes into a column without nulls.
    pub fn append(&mut self, turn: &Turn<'_>, envelope: &Envelope, rows: &[u32]) {
        self.reserve(turn, rows.len());
        self.gather(turn.blocks, envelope.columns(), rows);
    }

    /// Like [`EnvelopeBuilder::append`], with room for the rows reserved by the caller, but not for texts.
    pub(crate) fn gather(&mut self, blocks: Blocks, columns: &[Column], rows: &[u32]) {
        for (place, column) in columns.iter().enumerate() {
            by_type!(column.kind(),
                T => {
                    let values = column.values::<T>();
                    self.values::<T>(place).extend(rows.iter().map(|&row| values[row as usize]));
                },
                self.gather_strings(blocks, place, column.kind(), rows.iter().map(|&row| (column, row as usize))));
            if let Some(nulls) = column.nulls() {
                let first = self.columns[place].len - rows.len();
                let of_rows = rows.iter().enumerate().filter(|(_, row)| nulls.has(**row as usize));
                of_rows.for_each(|(at, _)| self.make_null(place, first + at));
            }
        }
    }

    /// Appends rows of several sources with columns of the builder's types, each given by the number of its source and
    /// its own number there. Room for the rows is reserved by the caller, but not for texts.
    pub(crate) fn interleave<'s>(&mut self, blocks: Blocks, rows: &[(u32, u32)], of: impl Fn(u32) -> &'s [Column]) {
        for place in 0..self.columns.len() {
            let kind = self.columns[place].kind;
            by_type!(kind,
                T => {
                    let value = |&(source, row): &(u32, u32)| of(source)[place].values::<T>()[row as usize];
                    self.values::<T>(place).extend(rows.iter().map(value));
                },
                self.gather_strings(blocks, place, kind, rows.iter().map(|&(source, row)| (&of(source)[place], row as usize))));
            if self.beside.get(place).is_some_and(|beside| beside.nullable) {
                let first = self.columns[place].len - rows.len();
                for (at, &(source, row)) in rows.iter().enumerate() {
                    if of(source)[place].is_null(row as usize) {
                        self.make_null(place, first + at);
                    }
                }
            }
        }
    }

    fn gather_strings<'c>(
        &mut self,
        blocks: Blocks,
        place: usize,
        kind: Type,
        rows: impl Iterator<Item = (&'c Column, usize)> + Clone,
    ) {
        let bytes = rows.clone().map(|(column, row)| column.string(row).len()).fold(0, usize::saturating_add);
        self.reserve_text_from(blocks, place, bytes);
        let mut into = self.strings::<[u8]>(place, kind);
        rows.for_each(|(column, row)| into.push(column.string(row)));
    }
}

/// The alignment of the parts of a block of about this number of bytes, and the gap behind each part. The gap is a
/// line: columns of sizes that are powers of two would otherwise all begin in the same set of each cache.
fn laying(bytes: usize) -> (usize, usize) {
    if bytes <= SMALL { (VALUE, 0) } else { (LINE, LINE) }
}

/// A part of the block for reading and writing while the builder is borrowed; empty if there is no block.
///
/// # Safety
/// There is room for `count` values there, aligned for them.
#[expect(unsafe_code, reason = "a part of the block as a slice")]
unsafe fn part<T>(block: &Option<Block>, start: usize, count: usize) -> NonNull<[MaybeUninit<T>]> {
    match block {
        // SAFETY: it is within the block, by the caller's promise.
        Some(block) => NonNull::slice_from_raw_parts(unsafe { block.at().add(start) }.cast(), count),
        None => NonNull::slice_from_raw_parts(NonNull::dangling(), 0),
    }
}

/// More bytes of text than a column's ends can count.
const MOST_TEXT: usize = i32::MAX as usize;

/// Copies of these columns, in a block of their own.
pub(crate) fn copied(columns: &[Column], rows: usize, blocks: Blocks) -> Result<Vec<Column>, NoMemory> {
    let mut builder = EnvelopeBuilder::of(columns.iter().map(|column| (column.kind(), column.null_count() > 0)));
    for (place, column) in columns.iter().enumerate() {
        if column.kind().is_variable() {
            builder.beside[place].text_capacity = column.text_range(0..rows).len();
        }
    }
    builder.try_reserve_from(blocks, rows)?;
    for (place, column) in columns.iter().enumerate() {
        by_type!(column.kind(),
            T => builder.values::<T>(place).extend_from_slice(column.values::<T>()),
            builder.copy_strings(place, column, 0..rows));
        if let Some(nulls) = column.nulls() {
            (0..rows).filter(|&row| nulls.has(row)).for_each(|row| builder.make_null(place, row));
        }
    }
    Ok(builder.finish_from(blocks))
}

/// A column without rows.
#[cfg(feature = "arrow")]
pub(crate) fn empty(kind: Type) -> Column {
    EnvelopeBuilder::of([(kind, false)].into_iter()).finish_from(Blocks::default()).remove(0)
}

/// A column of some rows of a column, or of nulls.
#[cfg(feature = "arrow")]
pub(crate) fn picked(
    from: &Column,
    rows: impl ExactSizeIterator<Item = Option<usize>> + Clone,
) -> Result<Column, NoMemory> {
    let kind = from.kind();
    let mut builder = EnvelopeBuilder::of([(kind, true)].into_iter());
    if kind.is_variable() {
        builder.beside[0].text_capacity = rows.clone().flatten().map(|row| from.string(row).len()).sum();
    }
    builder.try_reserve_from(Blocks::default(), rows.len())?;
    for row in rows {
        match row {
            Some(row) => by_type!(kind,
                T => builder.values::<T>(0).push(from.values::<T>()[row]),
                builder.strings::<[u8]>(0, kind).push(from.string(row))),
            None => builder.push_null(0),
        }
    }
    Ok(builder.finish_from(Blocks::default()).remove(0))
}

impl EnvelopeBuilder {
    fn copy_strings(&mut self, place: usize, column: &Column, rows: Range<usize>) {
        let mut into = self.strings::<[u8]>(place, column.kind());
        rows.for_each(|row| into.push(column.string(row)));
    }
}

macro_rules! rooms {
    ($($type:ty, $name:ident;)*) => {$(
        impl EnvelopeBuilder {
            #[doc = concat!("[`EnvelopeBuilder::values`] of `", stringify!($type), "`.")]
            #[inline]
            pub fn $name(&mut self, column: usize) -> Room<'_, $type> {
                self.values(column)
            }
        }
    )*};
}

rooms! {
    bool, bools;
    i8, i8s;
    i16, i16s;
    i32, i32s;
    i64, i64s;
    u8, u8s;
    u16, u16s;
    u32, u32s;
    u64, u64s;
    f32, f32s;
    f64, f64s;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::held_bytes;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// The blocks of the world below in use.
    static TAKEN: AtomicUsize = AtomicUsize::new(0);

    fn take(layout: Layout) -> Option<Block> {
        #[expect(unsafe_code, reason = "gives memory back")]
        // SAFETY of callers: those of `Block::new`'s contract.
        unsafe fn free(at: NonNull<u8>, layout: Layout) {
            TAKEN.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: taken below with this layout.
            unsafe { std::alloc::dealloc(at.as_ptr(), layout) };
        }
        #[expect(unsafe_code, reason = "a world's memory")]
        // SAFETY: the size is at least a line's; the memory is the block's.
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
        assert_eq!((columns[0].u64s(), held_bytes(&columns)), (&[1][..], 8));
    }

    #[test]
    #[should_panic(expected = "there is room for 2 values, not for 2 and 1 more")]
    fn more_than_there_is_room_for_is_refused() {
        let mut builder = EnvelopeBuilder::of_u64s(1);
        builder.reserve_from(Blocks::default(), 2);
        builder.u64s(0).push(1);
        builder.u64s(0).extend([2, 3]);
    }

    #[test]
    fn texts_and_nulls_lie_in_the_same_block_however_often_it_grows() {
        let schema = Schema::new([("t", Type::Text), ("n", Type::U16), ("b", Type::Binary)]).with_nulls(["t", "n"]);
        for rows in [0usize, 1, 9, 100, 3000] {
            let mut builder = EnvelopeBuilder::new(&schema);
            let text = |row: usize| "é".repeat(row % 50);
            for row in 0..rows {
                builder.reserve_from(Blocks::default(), 1);
                if row % 3 == 1 {
                    builder.push_null(0);
                } else {
                    builder.push_string(Blocks::default(), 0, Type::Text, text(row).as_bytes());
                }
                builder.u16s(1).push(row as u16);
                builder.push_string(Blocks::default(), 2, Type::Binary, &[row as u8]);
                if row % 7 == 0 {
                    builder.make_null(1, row);
                    builder.make_null(1, row);
                }
            }
            let taken = builder.bytes();
            let columns = builder.finish_from(Blocks::default());
            for row in 0..rows {
                assert_eq!(columns[0].is_null(row), row % 3 == 1, "{row}");
                assert_eq!(columns[0].text_at(row), if row % 3 == 1 { String::new() } else { text(row) });
                assert_eq!((columns[1].u16s()[row], columns[1].is_null(row)), (row as u16, row % 7 == 0));
                assert_eq!(columns[2].binary_at(row), [row as u8]);
            }
            assert_eq!(columns[1].null_count(), rows.div_ceil(7));
            assert!(held_bytes(&columns) <= taken, "{rows} rows: one block");
        }
    }

    /// A box that can do with less once asked for more than there was, and lost the values it had filled in.
    #[test]
    fn what_was_filled_in_is_there_after_memory_was_refused() {
        let mut builder = EnvelopeBuilder::new(&Schema::new([("t", Type::Text), ("n", Type::U64)]).with_nulls(["n"]));
        let blocks = Blocks::default();
        builder.reserve_from(blocks, 2);
        builder.push_string(blocks, 0, Type::Text, b"here");
        builder.push_null(1);
        let bytes = builder.bytes();
        assert_eq!(builder.try_reserve_from(blocks, usize::MAX), Err(BEYOND));
        assert_eq!(builder.try_reserve_from(blocks, usize::MAX - 1), Err(BEYOND));
        assert!(builder.try_reserve_from(blocks, usize::MAX / 64).unwrap_err().bytes > 1 << 58);
        assert_eq!(builder.try_reserve_text_from(blocks, 0, MOST_TEXT - 3), Err(BEYOND), "more than ends can count");
        assert_eq!(builder.bytes(), bytes);
        builder.push_string(blocks, 0, Type::Text, b", too");
        builder.u64s(1).push(7);
        let columns = builder.finish_from(blocks);
        assert_eq!(columns[0].texts().collect::<Vec<_>>(), ["here", ", too"]);
        assert_eq!((columns[1].is_null(0), columns[1].u64s()[1]), (true, 7));
    }

    #[test]
    #[should_panic(expected = "column 0 has no nulls")]
    fn a_null_is_refused_where_the_schema_has_none() {
        let mut builder = EnvelopeBuilder::of_u64s(1);
        builder.reserve_from(Blocks::default(), 1);
        builder.push_null(0);
    }

    #[test]
    #[should_panic(expected = "there is room for 3 values, not for 2 and 2 more")]
    fn more_text_than_there_is_room_for_is_refused() {
        let mut builder = EnvelopeBuilder::new(&Schema::new([("t", Type::Text)]));
        builder.reserve_from(Blocks::default(), 2);
        builder.reserve_text_from(Blocks::default(), 0, 3);
        builder.texts(0).extend(["ab", "cd"]);
    }
}
