//! Fills the columns of an envelope in place: in one block, from the heap of the filling seat.

use crate::block::{Block, Blocks};
use crate::column::{Column, MOST_TEXT, Parts, Rest, TOO_LONG, View, of_struct};
use crate::nulls::{Bytes, Nulls};
use crate::store::Unified;
use crate::types::Form;
use crate::{Envelope, NoMemory, Schema, Turn, Type, give_up};
use smallvec::SmallVec;
use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

mod fill;
mod keys;
mod rows;

pub(crate) use rows::{converted, copied, interleaved};
#[cfg(feature = "arrow")]
pub(crate) use rows::{empty, picked};

/// The bytes of a cache line: each column begins at one, unless all are small.
const LINE: usize = 64;

/// Columns with fewer bytes together lie side by side: allocators are slow with aligned blocks, and loops over so few
/// values gain nothing from alignment.
const SMALL: usize = 1024;

/// The alignment of a small block and of its columns: enough for any value, but for those of sixteen bytes.
const VALUE: usize = 8;

/// A column that is always a dictionary begins anew beyond so many values.
const MOST_CODES: usize = 1 << 16;

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
/// Lists and structs are filled through a builder of their own:
///
/// ```
/// use vicus_flow::{Envelope, EnvelopeBuilder, Schema, Turn, Type};
///
/// /// The divisors of each number.
/// fn divisors(turn: &Turn<'_>, numbers: &[u64]) -> Envelope {
///     let mut builder = EnvelopeBuilder::new(&Schema::new([("divisors", Type::list(Type::U64))]));
///     builder.reserve(turn, numbers.len());
///     for &number in numbers {
///         let divisors: Vec<u64> = (1..=number).filter(|divisor| number % divisor == 0).collect();
///         let items = builder.nested(0);
///         items.reserve(turn, divisors.len());
///         items.u64s(0).extend(divisors);
///         builder.end_row(0);
///     }
///     builder.finish(turn)
/// }
/// # let _ = divisors;
/// ```
#[derive(Debug)]
pub struct EnvelopeBuilder {
    columns: SmallVec<[Filled; 4]>,
    /// One for each column if any is not alone in its memory or may have nulls, else empty.
    beside: Vec<Beside>,
    /// How many rows there is room for.
    capacity: usize,
    block: Option<Block>,
    /// The source of the last block.
    blocks: Blocks,
}

/// The state of a column.
#[derive(Clone, Debug)]
struct Filled {
    kind: Type,
    form: Form,
    /// Its beginning in the block. Invariant: columns don't overlap, and each has room for `capacity` values or, for a
    /// form with ends, for as many ends and one more; the first end is written.
    start: usize,
    /// Invariant: this number of values is written, at most `capacity`.
    len: usize,
}

/// The state of a column's nulls, and of what lies beside its values.
#[derive(Debug, Default)]
struct Beside {
    nullable: bool,
    /// There are bits only for nulls of what the column is a part of.
    refuses: bool,
    /// The form that the column has when it is empty.
    first_form: Option<Form>,
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
    more: More,
}

/// A column's parts outside of the block.
#[derive(Debug, Default)]
enum More {
    #[default]
    None,
    /// The texts of views for which the block has no room.
    Chunks(Box<Chunks>),
    /// The numbers of a dictionary's values.
    Codes(Box<Unified>),
    /// A list's values, or a struct's parts.
    Nested(Box<EnvelopeBuilder>),
}

/// The texts of views beyond the first buffer.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    full: Vec<Bytes>,
    last: Vec<u8>,
}

impl Chunks {
    /// Puts a long value into a chunk. Gives its view; the buffer before all chunks is the block's.
    pub(crate) fn push(&mut self, value: &[u8]) -> View {
        use crate::Grow;
        if value.len() > MOST_TEXT {
            give_up(TOO_LONG);
        }
        if self.last.len() + value.len() > MOST_TEXT {
            self.full.push(std::mem::take(&mut self.last).into());
        }
        let at = self.last.len();
        self.last.grow_or_give_up(value.len());
        self.last.extend_from_slice(value);
        View::long(value, 1 + self.full.len(), at)
    }

    fn finish(mut self) -> Vec<Bytes> {
        if !self.last.is_empty() {
            self.full.push(self.last.into());
        }
        self.full
    }
}

/// The places of a column's parts in a block.
#[derive(Clone, Copy, Default)]
struct Layed {
    values: usize,
    text: usize,
    bits: usize,
}

impl EnvelopeBuilder {
    /// For envelopes of this schema, its texts in the fields' storage.
    pub fn new(schema: &Schema) -> EnvelopeBuilder {
        let form = |field: &crate::Field| (field.kind.clone(), field.kind.form_in(field.storage), field.nullable);
        EnvelopeBuilder::of(schema.columns().iter().map(form))
    }

    /// For envelopes of `columns` columns of [`Type::U64`].
    pub fn of_u64s(columns: usize) -> EnvelopeBuilder {
        let plain = Filled { kind: Type::U64, form: Form::U64, start: 0, len: 0 };
        let columns = std::iter::repeat_n(plain, columns).collect();
        EnvelopeBuilder { columns, beside: Vec::new(), capacity: 0, block: None, blocks: Blocks::default() }
    }

    fn of(kinds: impl Iterator<Item = (Type, Form, bool)>) -> EnvelopeBuilder {
        let (mut columns, mut beside, mut is_plain) = (SmallVec::new(), Vec::new(), true);
        for (kind, form, nullable) in kinds {
            is_plain &= !nullable && form.is_alone();
            beside.push(Beside { nullable, first_form: Some(form), ..Beside::of(&kind, form) });
            columns.push(Filled { kind, form, start: 0, len: 0 });
        }
        if is_plain {
            beside = Vec::new();
        }
        EnvelopeBuilder { columns, beside, capacity: 0, block: None, blocks: Blocks::default() }
    }

    /// Rows of the first column so far.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.len)
    }

    /// The bytes of memory it has taken.
    pub fn bytes(&self) -> u64 {
        let more = |beside: &Beside| match &beside.more {
            More::None => 0,
            More::Chunks(chunks) => {
                chunks.full.iter().map(|full| full.get().len()).sum::<usize>() + chunks.last.capacity()
            }
            More::Codes(codes) => codes.bytes(),
            More::Nested(nested) => nested.bytes() as usize,
        };
        let beside: usize = self.beside.iter().map(more).sum();
        self.block.as_ref().map_or(0, |block| block.bytes() as u64) + beside as u64
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
    /// if it is of another type. A column of more than 2 GiB is stored as views.
    pub fn reserve_text(&mut self, turn: &Turn<'_>, column: usize, more: usize) {
        self.reserve_text_from(turn.blocks, column, more);
    }

    /// Like [`EnvelopeBuilder::reserve_text`], for a box that can do with less.
    ///
    /// # Errors
    /// There is not enough memory. The values stay.
    pub fn try_reserve_text(&mut self, turn: &Turn<'_>, column: usize, more: usize) -> Result<(), NoMemory> {
        self.try_reserve_text_from(turn.blocks, column, more)
    }

    #[inline]
    pub(crate) fn reserve_from(&mut self, blocks: Blocks, more: usize) {
        self.try_reserve_from(blocks, more).unwrap_or_else(|error| give_up(error));
    }

    pub(crate) fn try_reserve_from(&mut self, blocks: Blocks, more: usize) -> Result<(), NoMemory> {
        self.blocks = blocks;
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
        self.try_reserve_text_from(blocks, column, more).unwrap_or_else(|error| give_up(error));
    }

    fn try_reserve_text_from(&mut self, blocks: Blocks, column: usize, more: usize) -> Result<(), NoMemory> {
        let Filled { kind, form, .. } = &self.columns[column];
        assert!(kind.is_variable() || matches!(form, Form::Fixed(_)), "a column of type {kind} has no texts");
        if !matches!(form, Form::Direct | Form::Views) {
            return Ok(());
        }
        let has = &self.beside[column];
        let (text_len, text_capacity) = (has.text_len, has.text_capacity);
        let wanted = text_len.checked_add(more).ok_or(BEYOND)?;
        if wanted <= text_capacity {
            return Ok(());
        }
        if wanted > MOST_TEXT {
            // Chunks have the rest.
            return if *form == Form::Direct { self.make_views(blocks, column) } else { Ok(()) };
        }
        let doubled = wanted.max(2 * text_len).min(MOST_TEXT);
        let rows = self.capacity;
        match self.move_to(blocks, rows, Some((column, doubled))) {
            Err(_) if doubled > wanted => self.move_to(blocks, rows, Some((column, wanted))),
            done => done,
        }
    }

    /// Stores a column as views instead of directly.
    #[cold]
    fn make_views(&mut self, blocks: Blocks, column: usize) -> Result<(), NoMemory> {
        let (start, len) = (self.columns[column].start, self.columns[column].len);
        let (text, text_len) = (self.beside[column].text, self.beside[column].text_len);
        #[expect(unsafe_code, reason = "reads ends and texts back")]
        // SAFETY: by the invariants of `start` and `text`, these are written.
        let (ends, text) = unsafe {
            let at = |start: usize| self.block.as_ref().map_or(NonNull::dangling(), |block| block.at().add(start));
            let ends = NonNull::slice_from_raw_parts(at(start).cast::<i32>(), if len == 0 { 0 } else { len + 1 });
            (ends.as_ref().to_vec(), NonNull::slice_from_raw_parts(at(text), text_len).as_ref().to_vec())
        };
        let nulls = self.null_rows(column);
        self.columns[column].form = Form::Views;
        self.columns[column].len = 0;
        self.beside[column].text_len = 0;
        let capacity = self.capacity;
        if let Err(error) = self.move_to(blocks, capacity, None) {
            (self.columns[column].form, self.columns[column].len) = (Form::Direct, len);
            self.beside[column].text_len = text_len;
            return Err(error);
        }
        self.beside[column].more = More::Chunks(Box::default());
        let kind = self.columns[column].kind.clone();
        let mut into = self.strings::<[u8]>(column, &kind);
        ends.windows(2).for_each(|ends| into.push(&text[ends[0] as usize..ends[1] as usize]));
        self.set_nulls(column, &nulls);
        Ok(())
    }

    /// Whether a column has no room for another row.
    pub(crate) fn is_full(&self, column: usize) -> bool {
        self.columns[column].len == self.capacity
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

    /// The alignment of the parts of a block of about this number of bytes, and the gap behind each part. The gap is a
    /// line: columns of sizes that are powers of two would otherwise all begin in the same set of each cache.
    fn laying(&self, bytes: usize) -> (usize, usize) {
        if bytes > SMALL {
            (LINE, LINE)
        } else if self.columns.iter().any(|column| matches!(column.form, Form::Decimal | Form::Views)) {
            (2 * VALUE, 0)
        } else {
            (VALUE, 0)
        }
    }

    /// Like [`EnvelopeBuilder::move_to`], for columns without nulls that are alone in their memory: the usual case.
    fn move_plain(&mut self, blocks: Blocks, capacity: usize) -> Result<(), NoMemory> {
        let row: usize = self.columns.iter().map(|column| column.form.width()).sum();
        let (align, between) = self.laying(row.saturating_mul(capacity.saturating_add(VALUE)));
        let most =
            row.checked_mul(capacity).and_then(|bytes| bytes.checked_add(self.columns.len() * (align + between)));
        if most.is_none() {
            return Err(BEYOND);
        }
        // Their parts together are at most this large.
        let bytes_of = |form: Form| (form.width() * capacity).next_multiple_of(align) + between;
        let bytes = self.columns.iter().map(|column| bytes_of(column.form)).sum();
        let block = blocks.take(Layout::from_size_align(bytes, align).map_err(|_| BEYOND)?)?;
        let mut next = 0;
        for Filled { form, start, len, .. } in &mut self.columns {
            if let Some(old) = &self.block {
                #[expect(unsafe_code, reason = "moves values to another block")]
                // SAFETY: by the invariant of `start`, this number of values is in the old block, and there is room for
                // them in the new one.
                unsafe {
                    block.at().add(next).copy_from_nonoverlapping(old.at().add(*start), form.width() * *len);
                }
            }
            *start = next;
            next += bytes_of(*form);
        }
        self.block = Some(block);
        self.capacity = capacity;
        Ok(())
    }

    /// Like [`EnvelopeBuilder::move_to`], if some column has anything beside its values.
    #[cold]
    fn move_any(&mut self, blocks: Blocks, capacity: usize, text: Option<(usize, usize)>) -> Result<(), NoMemory> {
        let text_capacity = |column: usize, beside: &Beside| match text {
            Some((grown, bytes)) if grown == column => bytes,
            _ => beside.text_capacity,
        };
        let row: usize = self.columns.iter().map(|column| column.form.width()).sum();
        let texts = self.beside.iter().enumerate().map(|(column, beside)| text_capacity(column, beside));
        let texts = texts.fold(0, usize::saturating_add);
        let (align, between) = self.laying(row.saturating_mul(capacity.saturating_add(VALUE)).saturating_add(texts));
        let behind = |start: usize, bytes: usize| {
            start.checked_add(bytes.checked_next_multiple_of(align)?)?.checked_add(between)
        };
        // The beginnings of the present column's parts, and of the next column.
        let lay = |start: usize, column: usize| -> Option<(Layed, usize)> {
            let form = self.columns[column].form;
            // Codes may become ends.
            let more = usize::from(form.has_ends() || form == Form::Codes);
            let mut next = behind(start, form.width().checked_mul(capacity + more)?)?;
            let mut layed = Layed { values: start, ..Layed::default() };
            let beside = &self.beside[column];
            if matches!(form, Form::Direct | Form::Views | Form::Codes) {
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
        let Filled { form, start, len, .. } = self.columns[column];
        let beside = &self.beside[column];
        #[expect(unsafe_code, reason = "moves values to another block")]
        // SAFETY: by the invariants the source is written in the old block, and there is room for it in the new one.
        let copy = |from: usize, place: usize, bytes: usize| unsafe {
            if let Some(old) = &self.block {
                to.at().add(place).copy_from_nonoverlapping(old.at().add(from), bytes);
            }
        };
        let first_end = usize::from(form.has_ends());
        if form.has_ends() && self.block.is_none() {
            #[expect(unsafe_code, reason = "writes the first end")]
            // SAFETY: there is room for one end and as many as there may be rows, aligned for `i32` as all parts are.
            unsafe {
                to.at().add(layed.values).cast::<i32>().write(0);
            }
        }
        copy(start, layed.values, form.width() * (len + first_end));
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
        let taken = self.block.as_ref().map_or(0, |block| block.bytes() as u64);
        let has_spare = self.capacity > 2 * most || 2 * self.beside.iter().map(spare).sum::<u64>() > taken;
        // A receiver may keep the envelope for long.
        if has_spare && taken > 4096 {
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
                // SAFETY: the builder wrote this number of values of this form there, aligned, and gives the block
                // away.
                unsafe {
                    Column::plain(filled.kind.clone(), filled.form, len, block.at().add(start), Arc::clone(&block))
                }
            };
            return self.columns.iter_mut().map(column).collect();
        }
        (0..self.columns.len()).map(|place| self.finish_column(place, &block, blocks)).collect()
    }

    fn finish_column(&mut self, place: usize, block: &Arc<Block>, blocks: Blocks) -> Column {
        let Beside { nullable, refuses, first_form, .. } = self.beside[place];
        let first_form = first_form.unwrap_or(self.columns[place].form);
        let Filled { kind, form, start, len } = {
            let filled = &mut self.columns[place];
            let empty = Filled { kind: filled.kind.clone(), form: first_form, start: 0, len: 0 };
            std::mem::replace(filled, empty)
        };
        let fresh = Beside { nullable, refuses, first_form: Some(first_form), ..Beside::of(&kind, first_form) };
        let beside = std::mem::replace(&mut self.beside[place], fresh);
        let bytes = |at: usize, len: usize| {
            #[expect(unsafe_code, reason = "a part of the block is shared")]
            // SAFETY: the builder wrote this number of bytes there, and gives the block away.
            unsafe {
                Bytes::new(block.at().add(at), len, Arc::clone(block))
            }
        };
        let nulls = (beside.nulls > 0).then(|| {
            let bits = bytes(beside.bits, len.div_ceil(8));
            Nulls { bits, first: 0, rows: len, count: beside.nulls }
        });
        let rest = match (form, beside.more) {
            (Form::Direct, _) if len > 0 => Rest::Text(bytes(beside.text, beside.text_len)),
            (Form::Views, more) => {
                let first = bytes(beside.text, beside.text_len);
                let further = match more {
                    More::Chunks(chunks) => chunks.finish(),
                    _ => Vec::new(),
                };
                Rest::Buffers(std::iter::once(first).chain(further).collect())
            }
            (Form::Codes, More::Codes(mut codes)) => {
                let store = codes.store(&kind);
                // The next envelope has the same store, unless it has other values.
                if first_form == Form::Codes && codes.len() <= MOST_CODES {
                    self.beside[place].more = More::Codes(codes);
                }
                Rest::Store(store)
            }
            (Form::List, More::Nested(mut nested)) => Rest::Parts(nested.finish_from(blocks).into()),
            (Form::Struct, More::Nested(mut nested)) => {
                let parts = nested.finish_from(blocks);
                return of_struct(kind, len, parts).with(nulls);
            }
            _ => Rest::None,
        };
        #[expect(unsafe_code, reason = "a part of the block becomes a column")]
        // SAFETY: the builder wrote this number of values of this form, or ends and what they are of, there, aligned,
        // and gives the block away.
        unsafe {
            let at = block.at().add(start);
            Column::new(Parts { kind, form, rows: len, at, block: Arc::clone(block), rest, nulls })
        }
    }

    /// Reduces the texts' capacities to their lengths. Gives the capacities before.
    fn fit_texts(&mut self) -> Vec<usize> {
        self.beside.iter_mut().map(|beside| std::mem::replace(&mut beside.text_capacity, beside.text_len)).collect()
    }

    fn set_text_capacities(&mut self, capacities: &[usize]) {
        self.beside.iter_mut().zip(capacities).for_each(|(beside, &capacity)| beside.text_capacity = capacity);
    }
}

impl Beside {
    /// Whether it is of structs that have no parts.
    fn is_without_parts(&self) -> bool {
        matches!(&self.more, More::Nested(nested) if nested.columns.is_empty())
    }

    /// The parts beside an empty column of this type.
    fn of(kind: &Type, form: Form) -> Beside {
        let nested = |fields: &[crate::Field]| {
            // Below a null, a part that has no nulls may have anything.
            let form = |field: &crate::Field| (field.kind.clone(), field.kind.form_in(field.storage), true);
            let mut nested = EnvelopeBuilder::of(fields.iter().map(form));
            nested.beside.iter_mut().zip(fields).for_each(|(beside, field)| beside.refuses = !field.nullable);
            More::Nested(Box::new(nested))
        };
        let more = match (kind, form) {
            (_, Form::Views) => More::Chunks(Box::default()),
            (_, Form::Codes) => More::Codes(Box::default()),
            (Type::List(field), _) => nested(std::slice::from_ref(field)),
            (Type::Struct(fields), _) => nested(fields.columns()),
            _ => More::None,
        };
        Beside { more, ..Beside::default() }
    }
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
                    builder.push_string(Blocks::default(), 0, &Type::Text, text(row).as_bytes());
                }
                builder.u16s(1).push(row as u16);
                builder.push_string(Blocks::default(), 2, &Type::Binary, &[row as u8]);
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
        builder.push_string(blocks, 0, &Type::Text, b"here");
        builder.push_null(1);
        let bytes = builder.bytes();
        assert_eq!(builder.try_reserve_from(blocks, usize::MAX), Err(BEYOND));
        assert_eq!(builder.try_reserve_from(blocks, usize::MAX - 1), Err(BEYOND));
        assert!(builder.try_reserve_from(blocks, usize::MAX / 64).unwrap_err().bytes > 1 << 58);
        assert_eq!(builder.bytes(), bytes);
        assert_eq!(builder.try_reserve_text_from(blocks, 0, MOST_TEXT - 3), Ok(()), "more than ends can count: views");
        builder.push_string(blocks, 0, &Type::Text, b", too");
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
