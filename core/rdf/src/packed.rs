//! Columns of numbers in as few bits as their blocks need, readable at any row.
//!
//! ```text
//!  frames   block 0: ┌ column 0: base, place, width, bases ┐ ┌ column 1: … ┐   block 1: …
//!                                    │
//!  data     ┌─ column 0 ───────────┐ ▼ ┌─ column 1 ─┐ ┌─ block 1 …
//!           │ bases, if several    │
//!           │ codes of `width` bits│
//! ```
//!
//! A *block* is [`BLOCK`] rows. In each block, each column has a *frame*: a value is the frame's base plus a *code* of
//! `width` bits. If values are in a few groups far apart (ids of several kinds, predicates of several vocabularies),
//! the frame has up to [`MOST_BASES`] ascending bases, and the upper bits of a code choose one. In both cases codes
//! compare as their values do, so a search compares codes, and decodes nothing.
//!
//! After Goldstein, Ramakrishnan, Shaft, "Compressing relations and indexes", ICDE 1998, §3, for frames of reference.
//! We differ: several bases, so no value is an exception and each can be read alone.
//!
//! The form is the same in memory and in a file: bytes, numbers least byte first. Wrong bytes give wrong values, and a
//! read beyond the data gives zero bits.

use crate::checked_bytes::CheckedBytes;
use crate::placement::{Access, PlacedVec, StorePlacement};
use crate::storage::{Backing, Growing};
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::{NoMemory, Unfilled};
use vicus_topology::NodeId;

/// Rows in a block: few enough to unpack them all in a tenth of a microsecond, and enough to make frames cost 1 bit a
/// row.
pub(crate) const BLOCK: usize = 256;

/// The greatest number of bases in a frame.
pub(crate) const MOST_BASES: usize = 8;

/// The greatest width of a code loadable with eight bytes from any bit on. Wider values are stored in 64 bits.
const WIDEST: u32 = 57;

/// Bytes of a frame: the base; the place in six bytes, the width and the number of bases in one each.
const FRAME: usize = 16;

/// The loads of codes read eight bytes; the last of them may be behind the last block.
const PADDING: usize = 8;

/// `N` columns of equally many rows.
#[derive(Default, Debug)]
pub(crate) struct Packed<const N: usize> {
    rows: usize,
    /// For each block, the frame of each column.
    frames: PlacedVec<u8>,
    data: PlacedVec<u8>,
}

impl<const N: usize> Packed<N> {
    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// The value of a column in a row. Panics if there is no such row.
    #[inline]
    pub(crate) fn get(&self, column: usize, row: usize) -> u64 {
        self.open(self.frame(column, row / BLOCK)).value(row % BLOCK)
    }

    /// Like [`Packed::get`], faster if many reads through the same window are near each other.
    #[inline]
    pub(crate) fn read(&self, column: usize, row: usize, window: &mut Window) -> u64 {
        match window.get(row) {
            Some(value) => value,
            None => self.read_far(column, row, window),
        }
    }

    /// The values of a column in a row and in the next one, as [`Packed::read`].
    #[inline]
    pub(crate) fn read_two(&self, column: usize, row: usize, window: &mut Window) -> [u64; 2] {
        match window.values.as_deref() {
            Some(values) if window.unpacked.start <= row && row + 1 < window.unpacked.end => {
                [values[row % BLOCK], values[(row + 1) % BLOCK]]
            }
            _ => self.read_two_far(column, row, window),
        }
    }

    #[inline(never)]
    fn read_two_far(&self, column: usize, row: usize, window: &mut Window) -> [u64; 2] {
        window.move_to(self, column, row / BLOCK);
        let codes = self.open(window.frame);
        let place = row % BLOCK;
        let two = if place + 1 < BLOCK { codes.value(place + 1) } else { self.get(column, row + 1) };
        [codes.value(place), two]
    }

    #[inline(never)]
    fn read_far(&self, column: usize, row: usize, window: &mut Window) -> u64 {
        window.move_to(self, column, row / BLOCK);
        self.open(window.frame).value(row % BLOCK)
    }

    /// A column's values in the first of these rows: in at least one and at most [`BLOCK`]. Panics if there are no
    /// rows.
    #[inline]
    pub(crate) fn slice<'w>(&self, column: usize, rows: Range<usize>, window: &'w mut Window) -> &'w [u64] {
        window.slice(self, column, rows)
    }

    #[inline]
    fn frame(&self, column: usize, block: usize) -> Frame {
        let at = (block * N + column) * FRAME;
        let [base, about] = self.frames.part(at..at + FRAME).as_chunks().0 else { panic!("a frame has two numbers") };
        let about = u64::from_le_bytes(*about);
        Frame {
            base: u64::from_le_bytes(*base),
            place: about & ((1 << 48) - 1),
            width: (about >> 48) as u8,
            bases: ((about >> 56) as u8).min(MOST_BASES as u8),
        }
    }

    #[inline]
    fn open(&self, frame: Frame) -> Codes<'_> {
        let (width, bases) = (usize::from(frame.width), usize::from(frame.bases));
        // The last group of codes is loaded with eight bytes more than it has.
        let bytes = bases * 8 + width * (BLOCK / 8) + PADDING;
        Codes {
            base: frame.base,
            width: width as u32,
            bases,
            mask: low(width as u32),
            data: self.data.onwards(frame.place as usize, bytes),
        }
    }

    #[inline]
    fn codes(&self, column: usize, block: usize) -> Codes<'_> {
        self.open(self.frame(column, block))
    }

    /// Appends a column's values in these rows.
    pub(crate) fn fill(&self, column: usize, rows: Range<usize>, into: &mut Unfilled<'_, u64>) {
        if rows.len() < 8 {
            return into.extend(rows.map(|row| self.get(column, row)));
        }
        let mut values = [0; BLOCK];
        for (block, part) in blocks(rows) {
            self.codes(column, block).unpack(part.clone(), &mut values);
            into.extend_from_slice(&values[part]);
        }
    }

    /// Appends a column's values in these rows, in any order; neighbours in the same block are read faster.
    pub(crate) fn gather(&self, column: usize, rows: &[u32], into: &mut Unfilled<'_, u64>) {
        if rows.len() < MANY {
            return into.extend(rows.iter().map(|&row| self.get(column, row as usize)));
        }
        let mut values = [0; BLOCK];
        for rows in rows.chunk_by(|a, b| *a as usize / BLOCK == *b as usize / BLOCK) {
            let codes = self.codes(column, rows[0] as usize / BLOCK);
            let place = |row: &u32| *row as usize % BLOCK;
            if rows.len() < MANY {
                into.extend(rows.iter().map(|row| codes.value(place(row))));
            } else {
                let places = rows.iter().map(place);
                let (first, last) = places.fold((BLOCK, 0), |(a, b), place| (a.min(place), b.max(place)));
                codes.unpack(first..last + 1, &mut values);
                into.extend(rows.iter().map(|row| values[place(row)]));
            }
        }
    }

    /// A column's values in these rows, one after the other.
    pub(crate) fn values(&self, column: usize, rows: Range<usize>) -> Values<'_, N> {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "{rows:?} of {} rows", self.rows);
        Values { packed: self, column, rows, unpacked: [0; BLOCK], next: 0, end: 0 }
    }

    /// The first of these rows with a value not below `value`, or their end. The values in these rows must ascend.
    /// Takes O(log distance) from `hint` (any row); without a hint O(log rows).
    pub(crate) fn lower_bound(&self, column: usize, rows: Range<usize>, hint: Option<usize>, value: u64) -> usize {
        if rows.is_empty() {
            return rows.start;
        }
        let (first, last) = (rows.start / BLOCK, (rows.end - 1) / BLOCK);
        let block =
            if first == last { first } else { self.block_of(column, &rows, hint.map(|hint| hint / BLOCK), value) };
        let codes = self.codes(column, block);
        let (part, bound) = (part_of(block, &rows), codes.bound(value));
        let near = hint.filter(|hint| hint / BLOCK == block).map(|hint| hint % BLOCK);
        block * BLOCK + search_ascending(|place| codes.code(place), part, near, bound)
    }

    /// The last block of these rows beginning below `value`, or their first block: the first row with a value not below
    /// `value` is in it, or right behind it. Searched from the block `hint`.
    fn block_of(&self, column: usize, rows: &Range<usize>, hint: Option<usize>, value: u64) -> usize {
        let (first, last) = (rows.start / BLOCK, (rows.end - 1) / BLOCK);
        let base = |block: usize| {
            let at = (block * N + column) * FRAME;
            self.frames.part(at..at + FRAME).first_chunk().map_or(0, |base| u64::from_le_bytes(*base))
        };
        // If all rows of a block ascend, its base is its first value. In the last block, other rows may be behind
        // these.
        let is_below = |block: usize| match block {
            _ if block < last || rows.end.is_multiple_of(BLOCK) => base(block) < value,
            _ => self.get(column, block * BLOCK) < value,
        };
        let blocks = first + 1..last + 1;
        match hint {
            Some(hint) => gallop(blocks, hint, is_below) - 1,
            None => partition_point(blocks, is_below) - 1,
        }
    }

    /// The rows with `value`, searched from `hint`; if there are none, the empty range at their place. The values in
    /// `rows` must ascend. Takes O(log distance) from `hint` (any row).
    #[inline]
    pub(crate) fn equal(
        &self,
        column: usize,
        rows: Range<usize>,
        hint: usize,
        value: u64,
        window: &mut Window,
    ) -> Range<usize> {
        match window.equal_near(&rows, hint, value) {
            Some(found) => found,
            None => self.search_equal(column, rows, hint, value, window),
        }
    }

    /// Like [`Packed::equal`], for rows without equal values.
    #[inline]
    pub(crate) fn only(
        &self,
        column: usize,
        rows: Range<usize>,
        hint: usize,
        value: u64,
        window: &mut Window,
    ) -> Range<usize> {
        match window.only_near(&rows, hint, value) {
            Some(found) => found..found + 1,
            None => self.search_equal(column, rows, hint, value, window),
        }
    }

    #[inline(never)]
    fn search_equal(
        &self,
        column: usize,
        rows: Range<usize>,
        hint: usize,
        value: u64,
        window: &mut Window,
    ) -> Range<usize> {
        if rows.is_empty() {
            return rows.start..rows.start;
        }
        let hint = hint.clamp(rows.start, rows.end - 1);
        let block = hint / BLOCK;
        window.move_to(self, column, block);
        let (part, place) = (part_of(block, &rows), hint % BLOCK);
        let found = match window.unpacked_block() {
            Some(values) => equal_in(|place| values[place], &part, place, value),
            None => {
                let codes = self.open(window.frame);
                // A value with several bases may have no code, even if it is between others.
                match if codes.bases == 0 { value.checked_sub(codes.base) } else { None } {
                    Some(bound) if codes.is_alone(&part, place, bound) => return hint..hint + 1,
                    Some(bound) => equal_in(|place| codes.code(place), &part, place, bound),
                    None => None,
                }
            }
        };
        let first = block * BLOCK;
        if let Some(found) = found
            && (found.start > part.start || first + part.start == rows.start)
            && (found.end < part.end || first + part.end == rows.end)
        {
            return first + found.start..first + found.end;
        }
        self.equal_from(self.lower_bound(column, rows.clone(), Some(hint), value), column, rows.end, value)
    }

    /// Like [`Packed::equal`], for a single search.
    pub(crate) fn equal_once(&self, column: usize, rows: Range<usize>, value: u64) -> Range<usize> {
        self.equal_from(self.lower_bound(column, rows.clone(), None, value), column, rows.end, value)
    }

    /// The rows up to `end` with `value`, if they begin at `start`.
    fn equal_from(&self, start: usize, column: usize, end: usize, value: u64) -> Range<usize> {
        let has_it = start < end && self.get(column, start) == value;
        start..if has_it { self.end_of_run(column, start, end) } else { start }
    }

    /// The first row from `row` on with another value than `row`, or `end`. The values from `row` to `end` must ascend.
    pub(crate) fn end_of_run(&self, column: usize, row: usize, end: usize) -> usize {
        let (block, codes) = (row / BLOCK, self.codes(column, row / BLOCK));
        let part = part_of(block, &(row..end));
        let code = codes.code(part.start);
        let next = gallop(part.clone(), part.start, |place| codes.code(place) == code);
        if next < part.end || block * BLOCK + next == end {
            return block * BLOCK + next;
        }
        match codes.value(part.start).checked_add(1) {
            Some(above) => self.lower_bound(column, row..end, Some(row + BLOCK), above),
            None => end,
        }
    }

    /// This many rows of another owner, from earlier results of [`Packed::frames`] and [`Packed::data`]; `None` if they
    /// can't hold this number of rows.
    pub(crate) fn lent(rows: usize, frames: Arc<dyn CheckedBytes>, data: Arc<dyn CheckedBytes>) -> Option<Packed<N>> {
        let fits = frames.bytes().len() == rows.div_ceil(BLOCK).checked_mul(N * FRAME)?;
        fits.then(|| Packed { rows, frames: PlacedVec::lent(frames), data: PlacedVec::lent(data) })
    }

    /// The frames of all blocks.
    pub(crate) fn frames(&self) -> &PlacedVec<u8> {
        &self.frames
    }

    /// The data of all blocks.
    pub(crate) fn data(&self) -> &PlacedVec<u8> {
        &self.data
    }

    /// Lays its rows over nodes, a range on each, if there are many rows and several nodes.
    pub(crate) fn lay(&mut self, over: &StorePlacement) {
        self.frames.lay(over, Access::Ranges);
        self.data.lay(over, Access::Ranges);
    }

    /// A range of rows, cut at changes of the node, with the node of each part if it is known. A block belongs to the
    /// node of its beginning.
    pub(crate) fn homes(&self, rows: Range<usize>) -> Vec<(Range<usize>, Option<NodeId>)> {
        if rows.is_empty() {
            return Vec::new();
        }
        let (first, last) = (rows.start / BLOCK, (rows.end - 1) / BLOCK);
        let mut start = rows.start;
        let cut = |(bytes, home): (Range<usize>, Option<NodeId>)| {
            let next = partition_point(first + 1..last + 1, |block| self.place(block) < bytes.end);
            let end = rows.end.min(next * BLOCK);
            let part = start..end;
            start = start.max(end);
            (!part.is_empty()).then_some((part, home))
        };
        // Two columns of no bits have no bytes, but a home.
        self.data.homes(self.place(first)..self.place(last) + 1).into_iter().filter_map(cut).collect()
    }

    /// The node of a row, if it is known. Panics if there is no such row.
    pub(crate) fn home(&self, row: usize) -> Option<NodeId> {
        self.data.home(self.place(row / BLOCK))
    }

    /// The start of a block's data. Ascends with the blocks.
    fn place(&self, block: usize) -> usize {
        let at = block * N * FRAME + 8;
        let about = u64::from_le_bytes(*self.frames.part(at..at + 8).first_chunk().expect("it has so many bytes"));
        (about & ((1 << 48) - 1)) as usize
    }

    /// The bytes of a column's codes in these rows: the bytes of reading them all, without the frames.
    pub(crate) fn bytes_of(&self, column: usize, rows: Range<usize>) -> usize {
        let bits: usize =
            blocks(rows).map(|(block, part)| usize::from(self.frame(column, block).width) * part.len()).sum();
        bits.div_ceil(8)
    }

    /// Its memory, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.frames.heap_bytes() + self.data.heap_bytes()
    }
}

/// The blocks of some rows: for each its number, and the rows within it.
fn blocks(rows: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    let all = if rows.is_empty() { 0..0 } else { rows.start / BLOCK..(rows.end - 1) / BLOCK + 1 };
    all.map(move |block| (block, part_of(block, &rows)))
}

/// The places of the rows of `rows` within a block.
fn part_of(block: usize, rows: &Range<usize>) -> Range<usize> {
    let first = block * BLOCK;
    rows.start.max(first) - first..rows.end.min(first + BLOCK) - first
}

/// So many rows of a block are read faster by unpacking it than one by one.
const MANY: usize = 24;

/// After this number of reads of the same block, a window unpacks it.
const READS: u32 = 4;

/// The last read block of a column. If further reads stay there, it is unpacked. Invariant: always used for the same
/// column.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    block: usize,
    /// How `block` is packed.
    frame: Frame,
    /// How often `block` was read, up to [`READS`].
    reads: u32,
    /// The unpacked rows, all of one block, and their first place in `values`.
    unpacked: Range<usize>,
    values: Option<Box<[u64; BLOCK]>>,
}

impl Default for Window {
    fn default() -> Window {
        Window { block: usize::MAX, frame: Frame::default(), reads: 0, unpacked: 0..0, values: None }
    }
}

impl Window {
    #[inline]
    fn move_to<const N: usize>(&mut self, packed: &Packed<N>, column: usize, block: usize) {
        if self.block != block {
            (self.block, self.frame, self.reads) = (block, packed.frame(column, block), 0);
        } else if self.reads < READS {
            self.reads += 1;
            if self.reads == READS {
                self.unpack(packed, block * BLOCK..packed.rows.min((block + 1) * BLOCK));
            }
        }
    }

    /// Unpacks rows of `block`.
    fn unpack<const N: usize>(&mut self, packed: &Packed<N>, rows: Range<usize>) {
        let values = self.values.get_or_insert_with(|| Box::new([0; BLOCK]));
        packed.open(self.frame).unpack(part_of(self.block, &rows), values);
        self.unpacked = rows;
    }

    /// The values of the first of these rows: of all rows in the same block. Panics if there are none.
    #[inline]
    fn slice<const N: usize>(&mut self, packed: &Packed<N>, column: usize, rows: Range<usize>) -> &[u64] {
        let end = rows.end.min((rows.start / BLOCK + 1) * BLOCK);
        if rows.start < self.unpacked.start || end > self.unpacked.end {
            self.move_to(packed, column, rows.start / BLOCK);
            if rows.start < self.unpacked.start || end > self.unpacked.end {
                self.unpack(packed, rows.start..end);
            }
        }
        let first = rows.start % BLOCK;
        self.values.as_deref().map_or(&[], |values| &values[first..first + (end - rows.start)])
    }

    /// Like [`Packed::equal`], if the rows are found in this window within a few steps from `hint`.
    #[inline]
    fn equal_near(&self, rows: &Range<usize>, hint: usize, value: u64) -> Option<Range<usize>> {
        let (low, high) = (rows.start.max(self.unpacked.start), rows.end.min(self.unpacked.end));
        if hint < low || hint >= high {
            return None;
        }
        let values = self.values.as_deref()?;
        let get = |row: usize| values[row % BLOCK];
        let mut start = hint;
        if get(start) < value {
            let most = high.min(start + 4);
            loop {
                start += 1;
                if start == most {
                    return None;
                }
                if get(start) >= value {
                    break;
                }
            }
        } else if start == low {
            if start > rows.start {
                return None;
            }
        } else if get(start - 1) >= value {
            return None;
        }
        let most = high.min(start + 8);
        let mut end = start;
        while end < most && get(end) == value {
            end += 1;
        }
        // Otherwise there may be more of them.
        (end < most || end == rows.end).then_some(start..end)
    }

    /// The values of all rows of `block`, if they are unpacked.
    #[inline]
    fn unpacked_block(&self) -> Option<&[u64; BLOCK]> {
        if self.reads == READS { self.values.as_deref() } else { None }
    }

    /// Like [`Packed::only`], if the row is in this window at `hint` or soon behind.
    #[inline]
    fn only_near(&self, rows: &Range<usize>, hint: usize, value: u64) -> Option<usize> {
        let values = self.values.as_deref()?;
        let (low, high) = (rows.start.max(self.unpacked.start), rows.end.min(self.unpacked.end));
        (hint.max(low)..high.min(hint.saturating_add(4))).find(|row| values[row % BLOCK] == value)
    }

    /// The value of a row, if it is unpacked.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<u64> {
        if self.unpacked.contains(&row) { self.values.as_deref().map(|values| values[row % BLOCK]) } else { None }
    }
}

/// The first place of a part with a code not below `bound`, or its end; searched from `hint`. The codes must ascend.
/// Without a hint, after Peterson, "Addressing for random-access storage", IBM Journal 1957: ranks are dense, so the
/// place can be guessed from the code.
#[inline]
fn search_ascending(code: impl Fn(usize) -> u64, part: Range<usize>, hint: Option<usize>, bound: u64) -> usize {
    let guess = || {
        let (first, last) = (code(part.start), code(part.end - 1));
        let share = bound.saturating_sub(first) as i64 as f64 / last.wrapping_sub(first).max(1) as i64 as f64;
        part.start + (share.min(1.0) * part.len() as f64) as usize
    };
    let hint = hint.unwrap_or_else(guess);
    gallop(part, hint, |place| code(place) < bound)
}

/// The places of a part with this code, searched from `hint`; if there are none, the empty range at their place. The
/// codes must ascend. `None` if the code is less or greater than all of them, or if there are enough of them to make a
/// search by blocks shorter.
#[inline]
fn equal_in(code: impl Fn(usize) -> u64, part: &Range<usize>, hint: usize, wanted: u64) -> Option<Range<usize>> {
    // One look at the end tells whether a search in this part is of use.
    let is_out = if code(hint) < wanted { code(part.end - 1) < wanted } else { code(part.start) > wanted };
    if is_out {
        return None;
    }
    let start = gallop(part.clone(), hint, |place| code(place) < wanted);
    let most = part.end.min(start + 8);
    let mut end = start;
    while end < most && code(end) == wanted {
        end += 1;
    }
    (end < most || end == part.end).then_some(start..end)
}

/// How a block of a column is packed.
#[derive(Clone, Copy, Default, Debug)]
struct Frame {
    base: u64,
    /// The first byte of its data.
    place: u64,
    width: u8,
    /// 0 if the only base is `base`; otherwise the number of bases in front of the codes, ascending.
    bases: u8,
}

/// A block of a column: a frame and its data.
#[derive(Clone, Copy)]
struct Codes<'a> {
    base: u64,
    width: u32,
    /// The number of bases of its frame.
    bases: usize,
    /// The lowest `width` bits.
    mask: u64,
    /// From the frame's data on.
    data: &'a [u8],
}

impl Codes<'_> {
    #[inline]
    fn value(&self, place: usize) -> u64 {
        let code = self.code(place);
        if self.bases == 0 {
            return self.base.wrapping_add(code);
        }
        let bits = self.offset_bits();
        let base = self.nth_base((code >> bits) as usize & (MOST_BASES - 1));
        base.wrapping_add(code & low(bits))
    }

    #[inline]
    fn code(&self, place: usize) -> u64 {
        let bit = place * self.width as usize;
        let at = self.bases * 8 + bit / 8;
        let word =
            self.data.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
        word >> (bit % 8) & self.mask
    }

    /// Whether the place and no other one has this code, and is not at an end of the part.
    #[inline]
    fn is_alone(&self, part: &Range<usize>, place: usize, code: u64) -> bool {
        part.start < place
            && place + 1 < part.end
            && self.code(place) == code
            && self.code(place - 1) < code
            && self.code(place + 1) > code
    }

    /// The bits of a code below the bits for its base. A damaged frame may give zero bits.
    #[inline]
    fn offset_bits(&self) -> u32 {
        self.width.saturating_sub(base_bits(self.bases)) & 63
    }

    #[inline]
    fn nth_base(&self, number: usize) -> u64 {
        let at = number * 8;
        self.data.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    /// The least code of a value not below this one: the codes of all smaller values are below it.
    #[inline]
    fn bound(&self, value: u64) -> u64 {
        if self.bases == 0 {
            return value.saturating_sub(self.base);
        }
        let number = (1..self.bases).take_while(|&number| self.nth_base(number) <= value).count();
        let bits = self.offset_bits();
        let offset = value.saturating_sub(self.nth_base(number));
        ((number as u64) << bits).wrapping_add(offset.min(1 << bits))
    }

    /// Writes the values at these places, and perhaps others around them, to the same places of `into`.
    fn unpack(&self, part: Range<usize>, into: &mut [u64; BLOCK]) {
        let start = part.start & !7;
        let codes = &mut into[start..part.end.next_multiple_of(8)];
        let at = self.bases * 8 + start / 8 * self.width as usize;
        let base = if self.bases == 0 { self.base } else { 0 };
        let done = match self.data.get(at..) {
            Some(data) => unpack(self.width, data, base, codes),
            None => 0,
        };
        // The last rows have fewer bytes behind them than a group of eight reads.
        for (place, code) in codes.iter_mut().enumerate().skip(done) {
            *code = base.wrapping_add(self.code(start + place));
        }
        if self.bases > 0 {
            let mut bases = [0; MOST_BASES];
            bases.iter_mut().enumerate().for_each(|(number, base)| *base = self.nth_base(number));
            let (bits, most) = (self.offset_bits(), MOST_BASES - 1);
            for value in &mut into[part] {
                *value = bases[(*value >> bits) as usize & most].wrapping_add(*value & low(bits));
            }
        }
    }
}

/// Bits to choose among this number of bases.
#[inline]
fn base_bits(bases: usize) -> u32 {
    usize::BITS - bases.saturating_sub(1).leading_zeros()
}

/// A number with ones as its lowest bits.
#[inline]
fn low(bits: u32) -> u64 {
    1_u64.checked_shl(bits).map_or(u64::MAX, |next| next - 1)
}

/// Unpacks codes of `W` bits and adds `base`, as many groups of eight as there are bytes for; returns the number of
/// values.
fn unpack_groups<const W: usize>(mut data: &[u8], base: u64, into: &mut [u64]) -> usize {
    let mut done = 0;
    for group in into.chunks_exact_mut(8) {
        // The last of eight codes begins before byte `W`, and is loaded with eight bytes.
        let Some(bytes) = data.get(..W + 8) else { break };
        for (number, value) in group.iter_mut().enumerate() {
            let bit = number * W;
            let word = u64::from_le_bytes(bytes[bit / 8..bit / 8 + 8].try_into().expect("eight bytes"));
            *value = base.wrapping_add(word >> (bit % 8) & low(W as u32));
        }
        data = &data[W..];
        done += 8;
    }
    done
}

/// Like [`unpack_groups`], for any width.
fn unpack(width: u32, data: &[u8], base: u64, into: &mut [u64]) -> usize {
    macro_rules! by_width {
        ($($width:literal)*) => {
            match width {
                0 => {
                    into.fill(base);
                    into.len()
                }
                $($width => unpack_groups::<$width>(data, base, into),)*
                _ => 0,
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 64)
}

/// The values of a column; see [`Packed::values`].
#[derive(Debug)]
pub(crate) struct Values<'a, const N: usize> {
    packed: &'a Packed<N>,
    column: usize,
    /// The rows not unpacked yet.
    rows: Range<usize>,
    unpacked: [u64; BLOCK],
    /// The places in `unpacked` not given out yet.
    next: usize,
    end: usize,
}

impl<const N: usize> Iterator for Values<'_, N> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if self.next == self.end {
            let (block, part) = blocks(self.rows.clone()).next()?;
            self.packed.codes(self.column, block).unpack(part.clone(), &mut self.unpacked);
            self.rows.start += part.len();
            (self.next, self.end) = (part.start, part.end);
        }
        let value = self.unpacked[self.next];
        self.next += 1;
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.rows.len() + self.end - self.next;
        (left, Some(left))
    }
}

impl<const N: usize> ExactSizeIterator for Values<'_, N> {}

/// Packs rows as they come.
#[derive(Debug)]
pub(crate) struct Packing<const N: usize> {
    rows: usize,
    /// The rows of the incomplete block.
    open: [[u64; BLOCK]; N],
    frames: Growing,
    data: Growing,
    /// For each column, how many blocks are packed with one base before several are tried again.
    skip: [u32; N],
}

impl<const N: usize> Default for Packing<N> {
    fn default() -> Packing<N> {
        Packing::new(&Backing::Memory)
    }
}

impl<const N: usize> Packing<N> {
    /// Packs rows into this storage.
    pub(crate) fn new(storage: &Backing) -> Packing<N> {
        let (frames, data) = (Growing::new(storage), Growing::new(storage));
        Packing { rows: 0, open: [[0; BLOCK]; N], frames, data, skip: [0; N] }
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Appends a row.
    #[inline]
    pub(crate) fn push(&mut self, row: [u64; N]) -> Result<(), NoMemory> {
        let place = self.rows % BLOCK;
        for (column, value) in self.open.iter_mut().zip(row) {
            column[place] = value;
        }
        self.rows += 1;
        if place + 1 == BLOCK { self.close(BLOCK) } else { Ok(()) }
    }

    /// The packed rows.
    pub(crate) fn finish(mut self) -> Result<Packed<N>, NoMemory> {
        if !self.rows.is_multiple_of(BLOCK) {
            self.close(self.rows % BLOCK)?;
        }
        self.data.write(&[0; PADDING])?;
        Ok(Packed { rows: self.rows, frames: self.frames.finish(), data: self.data.finish() })
    }

    /// Packs the first rows of the open block.
    fn close(&mut self, rows: usize) -> Result<(), NoMemory> {
        let frames = self.frames.room(N * FRAME)?;
        for (column, skip) in self.open.iter().zip(&mut self.skip) {
            let values = &column[..rows];
            let place = self.data.len() as u64;
            assert!(place < 1 << 48, "a column has less than 256 tebibytes");
            let shape = Shape::of(values, skip);
            shape.write(values, self.data.room(8 * (MOST_BASES + BLOCK))?);
            frames.extend_from_slice(&shape.bases[0].to_le_bytes());
            frames.extend_from_slice(&place.to_le_bytes()[..6]);
            let stored = if shape.count == 1 { 0 } else { shape.count };
            frames.extend_from_slice(&[shape.width as u8, stored as u8]);
        }
        Ok(())
    }
}

/// How the values of a block are packed.
struct Shape {
    /// Ascending.
    bases: [u64; MOST_BASES],
    count: usize,
    width: u32,
}

/// Several bases have to save this many bits of each row, as reading a value takes longer then.
const WORTH: usize = 2;

/// After a block without gain from several bases, this number of blocks is not tried.
const SKIP: u32 = 15;

impl Shape {
    fn of(values: &[u64], skip: &mut u32) -> Shape {
        let (least, greatest) = values.iter().fold((u64::MAX, 0), |(a, b), &value| (a.min(value), b.max(value)));
        let needed = bits(greatest - least);
        let width = if needed > WIDEST { 64 } else { needed };
        let single = Shape { bases: [least; MOST_BASES], count: 1, width };
        // With fewer bits there is little to save. With more than any rank has, the values are of several kinds.
        if width < 8 || width <= 40 && *skip > 0 {
            *skip = skip.saturating_sub(1);
            return single;
        }
        let several = Shape::several(values);
        if several.cost(values.len()) + WORTH * values.len() <= single.cost(values.len()) {
            *skip = 0;
            several
        } else {
            *skip = SKIP;
            single
        }
    }

    /// The best of two, four and eight bases, with cuts at the greatest gaps between values.
    fn several(values: &[u64]) -> Shape {
        let mut sorted = [0; BLOCK];
        let sorted = &mut sorted[..values.len()];
        sorted.copy_from_slice(values);
        sorted.sort_unstable();
        // The greatest gaps with the places behind them, the greatest first.
        let mut gaps = [(0, 0); MOST_BASES - 1];
        for place in 1..sorted.len() {
            let mut gap = (sorted[place] - sorted[place - 1], place);
            if gap.0 > gaps[MOST_BASES - 2].0 {
                for other in &mut gaps {
                    if other.0 < gap.0 {
                        std::mem::swap(other, &mut gap);
                    }
                }
            }
        }
        let shape = |cuts: usize| {
            let mut places: Vec<usize> = gaps[..cuts].iter().filter(|gap| gap.0 > 0).map(|gap| gap.1).collect();
            places.sort_unstable();
            let starts = std::iter::once(0).chain(places.iter().copied());
            let ends = places.iter().copied().chain([sorted.len()]);
            let mut made = Shape { bases: [0; MOST_BASES], count: 0, width: 0 };
            for (start, end) in starts.zip(ends) {
                made.bases[made.count] = sorted[start];
                made.count += 1;
                made.width = made.width.max(bits(sorted[end - 1] - sorted[start]));
            }
            made.width += base_bits(made.count);
            made
        };
        let shapes = [1, 3, 7].map(shape).into_iter();
        shapes.min_by_key(|shape| shape.cost(values.len())).expect("there are three")
    }

    /// Its bits for this number of rows.
    fn cost(&self, rows: usize) -> usize {
        if self.count > 1 && self.width > WIDEST {
            return usize::MAX / 2;
        }
        let bases = if self.count == 1 { 0 } else { self.count };
        bases * 64 + self.width as usize * rows
    }

    fn write(&self, values: &[u64], into: &mut Vec<u8>) {
        if self.count > 1 {
            self.bases[..self.count].iter().for_each(|base| into.extend_from_slice(&base.to_le_bytes()));
        }
        let bases = &self.bases[..self.count];
        let offset_bits = self.width - base_bits(self.count);
        let (mut waiting, mut filled) = (0_u128, 0);
        for &value in values {
            let number = bases[1..].iter().take_while(|base| **base <= value).count();
            let code = if self.count == 1 { 0 } else { (number as u64) << offset_bits } | (value - bases[number]);
            waiting |= u128::from(code) << filled;
            filled += self.width;
            if filled >= 64 {
                into.extend_from_slice(&(waiting as u64).to_le_bytes());
                waiting >>= 64;
                filled -= 64;
            }
        }
        into.extend_from_slice(&(waiting as u64).to_le_bytes()[..filled.div_ceil(8) as usize]);
    }
}

/// How many bits a number needs.
fn bits(number: u64) -> u32 {
    64 - number.leading_zeros()
}

/// The first place of a range not meeting `before`, or its end.
#[inline]
pub(crate) fn partition_point(places: Range<usize>, mut before: impl FnMut(usize) -> bool) -> usize {
    let (mut low, mut high) = (places.start, places.end.max(places.start));
    while low < high {
        let middle = low.midpoint(high);
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Like [`partition_point`], but searched from `hint` outwards in doubling steps: logarithmic in the distance from
/// there.
pub(crate) fn gallop(places: Range<usize>, hint: usize, mut before: impl FnMut(usize) -> bool) -> usize {
    if places.is_empty() {
        return places.start;
    }
    let hint = hint.clamp(places.start, places.end - 1);
    let (mut low, mut high) = (places.start, places.end);
    let mut step = 1;
    if before(hint) {
        low = hint + 1;
        while low + step <= high {
            if !before(low + step - 1) {
                high = low + step - 1;
                break;
            }
            low += step;
            step *= 2;
        }
    } else {
        high = hint;
        while low + step <= high {
            if before(high - step) {
                low = high - step + 1;
                break;
            }
            high -= step;
            step *= 2;
        }
    }
    partition_point(low..high, before)
}

#[cfg(test)]
mod tests;
