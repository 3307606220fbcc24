//! The keys of one kind, in blocks: the common beginning of all keys of a block is stored once, and everything is
//! compressed.

use super::symbols::{ASCII, Buffer, Read, Symbols, Text};
use crate::checked_bytes::CheckedBytes;
use crate::packed::{gallop, partition_point};
use crate::placement::{Access, PlacedVec, StorePlacement};
use std::cmp::Ordering;
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::{BoxError, Grow as _, give_up};
use vicus_topology::NodeId;

/// The keys of a block; the last one may have fewer.
pub(crate) const BLOCK: usize = 16;

/// The keys of one kind. Invariant: strictly ascending.
///
/// A block is: a byte with the size of a length; the length of the common beginning of all its keys, and those of the
/// rests of all keys but the last one; and then, compressed, the common beginning and the rests. The lengths are
/// compressed ones.
#[derive(Default, Debug)]
pub(crate) struct Section {
    len: usize,
    symbols: Symbols,
    text: PlacedVec<u8>,
    /// The end of each block. Five bytes each, so a text may have a tebibyte.
    ends: PlacedVec<[u8; 5]>,
}

/// The end of a block in five bytes.
pub(super) fn narrow(end: usize) -> [u8; 5] {
    let bytes = (end as u64).to_le_bytes();
    assert!(bytes[5..] == [0; 3], "the text of a kind has less than a tebibyte");
    [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]]
}

pub(super) fn wide([a, b, c, d, e]: [u8; 5]) -> usize {
    u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]) as usize
}

impl Section {
    pub(super) fn new(len: usize, symbols: Symbols, text: PlacedVec<u8>, ends: PlacedVec<[u8; 5]>) -> Section {
        assert_eq!(ends.len(), len.div_ceil(BLOCK), "each block has an end");
        Section { len, symbols, text, ends }
    }

    /// Keys of another owner. Only the symbols are read now.
    ///
    /// # Errors
    /// The symbols are damaged, or the number of keys is impossible.
    pub(crate) fn lent(len: usize, [symbols, text, ends]: [Arc<dyn CheckedBytes>; 3]) -> Result<Section, BoxError> {
        symbols.check(0..symbols.bytes().len())?;
        let made = Symbols::of_stored(symbols.bytes());
        let made = made.ok_or_else(|| symbols.senseless(0, "it is not a table of symbols"))?;
        if Some(ends.bytes().len()) != len.div_ceil(BLOCK).checked_mul(size_of::<[u8; 5]>()) {
            return Err(ends.senseless(0, "it is not as long as its terms need"));
        }
        Ok(Section { len, symbols: made, text: PlacedVec::lent(text), ends: PlacedVec::lent(ends) })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// All blocks, and the ends of these.
    pub(crate) fn parts(&self) -> (&PlacedVec<u8>, &PlacedVec<[u8; 5]>) {
        (&self.text, &self.ends)
    }

    /// The memory of the blocks and the symbols, in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        self.text.heap_bytes() + self.symbols.heap_bytes()
    }

    /// The node at the beginning of a key's block, if it is known.
    pub(super) fn home(&self, rank: usize) -> Option<NodeId> {
        self.text.home(self.range(rank / BLOCK).start)
    }

    pub(super) fn lay(&mut self, over: &StorePlacement) {
        self.text.lay(over, Access::Anywhere);
        self.ends.lay(over, Access::Anywhere);
    }

    /// The bytes of a block.
    #[inline]
    fn range(&self, block: usize) -> Range<usize> {
        match block.checked_sub(1) {
            None => 0..wide(self.ends.get(0)),
            Some(before) => {
                let ends = self.ends.part(before..block + 1);
                wide(ends[0])..wide(ends[1])
            }
        }
    }

    #[inline]
    fn block(&self, number: usize) -> Block<'_> {
        let range = self.range(number);
        if range.start >= range.end || range.end > self.text.len() {
            self.senseless(0, "the blocks of terms do not ascend");
        }
        let keys = BLOCK.min(self.len - number * BLOCK);
        let start = range.start;
        let bytes = self.text.part(range);
        let Some(block) = Block::new(start, bytes, keys) else { self.senseless(start, "it is not a block of terms") };
        block
    }

    /// The caller's box gives up with the error of the other owner. Panics if there is none, since these keys were
    /// compressed here.
    #[cold]
    fn senseless(&self, at: usize, what: &str) -> ! {
        match self.text.owner() {
            Some(owner) => give_up(owner.senseless(at, what)),
            None => panic!("at byte {at} of compressed keys: {what}"),
        }
    }

    #[inline]
    fn text_of<'a>(&self, block: &Block<'_>, key: Read<'a>) -> &'a str {
        key.text().unwrap_or_else(|| self.senseless(block.start, "a term is not UTF-8"))
    }

    /// Passes the key of this rank to `look`. Panics if there is none.
    #[inline]
    pub(crate) fn key<R>(&self, rank: usize, look: impl FnOnce(&str) -> R) -> R {
        assert!(rank < self.len, "a section has keys for its ranks only");
        let block = self.block(rank / BLOCK);
        // The approximate place of the key: so memory need not wait for the lengths.
        black_box(block.bytes.get(block.bytes.len() * (rank % BLOCK) / BLOCK).copied());
        let mut buffer = Buffer::new();
        look(self.text_of(&block, self.read(&block, rank % BLOCK, &mut buffer)))
    }

    #[inline]
    fn read<'a>(&self, block: &Block<'_>, place: usize, buffer: &'a mut Buffer) -> Read<'a> {
        let key = block.parts(place).map(|parts| buffer.read(&self.symbols, parts));
        match key {
            Some(Ok(Some(key))) => key,
            Some(Err(error)) => give_up(error),
            Some(Ok(None)) | None => self.senseless(block.start, "the lengths of its terms make no sense"),
        }
    }

    /// Reads a few bytes near a key, so memory has them soon.
    pub(super) fn fetch(&self, rank: usize) {
        let range = self.range(rank / BLOCK);
        if let Some(last) = range.end.checked_sub(1).filter(|last| range.start <= *last && *last < self.text.len()) {
            let about = range.start + (last - range.start) * (rank % BLOCK) / BLOCK;
            black_box(self.text.get(range.start) ^ self.text.get(about));
        }
    }

    /// The rank of a key; if it is missing, that of the next greater one.
    pub(crate) fn rank(&self, key: &[u8]) -> Result<usize, usize> {
        let mut buffer = Buffer::new();
        let blocks = partition_point(0..self.ends.len(), |number| self.begins_before(number, key, &mut buffer));
        self.rank_in(blocks, key, &mut buffer)
    }

    /// Like [`Section::rank`], for a key with a rank (or that of the next greater one) of `from` or more: the nearer,
    /// the less time it takes.
    pub(crate) fn rank_from(&self, from: usize, key: &[u8]) -> Result<usize, usize> {
        let mut buffer = Buffer::new();
        if from >= self.len {
            return Err(self.len);
        }
        let first = from / BLOCK;
        match self.read(&self.block(first), from % BLOCK, &mut buffer).bytes().cmp(key) {
            Ordering::Equal => return Ok(from),
            Ordering::Greater => return Err(from),
            Ordering::Less => {}
        }
        let before = |number| self.begins_before(number, key, &mut buffer);
        let blocks = gallop(first + 1..self.ends.len(), first + 1, before);
        self.rank_in(blocks, key, &mut buffer)
    }

    /// Whether a block's first key is this one, or less.
    fn begins_before(&self, number: usize, key: &[u8], buffer: &mut Buffer) -> bool {
        self.read(&self.block(number), 0, buffer).bytes() <= key
    }

    /// Like [`Section::rank`], if this number of blocks begin before the key or with it.
    fn rank_in(&self, blocks: usize, key: &[u8], buffer: &mut Buffer) -> Result<usize, usize> {
        let Some(number) = blocks.checked_sub(1) else { return Err(0) };
        let (start, block) = (number * BLOCK, self.block(number));
        let less = partition_point(0..block.keys, |place| self.read(&block, place, buffer).bytes() < key);
        let is_it = less < block.keys && self.read(&block, less, buffer).bytes() == key;
        if is_it { Ok(start + less) } else { Err(start + less) }
    }

    /// A reader that puts keys one behind the other.
    pub(super) fn appender(&self) -> KeyAppender<'_> {
        KeyAppender { section: self, block: None, start: 0, shared: 0, shared_bits: 0 }
    }

    /// A reader of many keys.
    pub(crate) fn keys(&self) -> Keys<'_> {
        Keys { section: self, block: None, key: Text::default(), shared: 0 }
    }
}

/// Appends keys to a text. Of neighbours, the common beginning is copied from the one before.
#[derive(Debug)]
pub(super) struct KeyAppender<'a> {
    section: &'a Section,
    /// The number of the last key's block, and the block.
    block: Option<(usize, Block<'a>)>,
    /// Where the last key begins in the text.
    start: usize,
    /// The length of the common beginning of the block's keys, and the bits of its bytes.
    shared: usize,
    shared_bits: u64,
}

impl KeyAppender<'_> {
    /// The text is another one, or has lost the last key.
    pub(super) fn forget(&mut self) {
        self.block = None;
    }

    /// Appends the key of this rank, which is UTF-8. Panics if there is none; if there is not enough memory, the
    /// caller's box gives up.
    #[inline]
    pub(super) fn append(&mut self, rank: usize, out: &mut Vec<u8>) {
        assert!(rank < self.section.len, "a section has keys for its ranks only");
        let (section, number, start) = (self.section, rank / BLOCK, out.len());
        let block = match self.block {
            Some((last, block)) if last == number => {
                grown(out, self.shared);
                out.extend_from_within(self.start..self.start + self.shared);
                block
            }
            _ => {
                // If this gives up, the next call begins anew.
                self.block = None;
                let block = section.block(number);
                self.shared_bits = 0;
                self.codes(&block, block.parts(0).map(|[shared, _]| shared), out);
                self.shared = out.len() - start;
                block
            }
        };
        self.block = Some((number, block));
        self.start = start;
        let shared_bits = self.shared_bits;
        self.codes(&block, block.parts(rank % BLOCK).map(|[_, rest]| rest), out);
        let bits = std::mem::replace(&mut self.shared_bits, shared_bits);
        if bits & ASCII != 0 && str::from_utf8(&out[start..]).is_err() {
            section.senseless(block.start, "a term is not UTF-8");
        }
    }

    #[inline]
    fn codes(&mut self, block: &Block<'_>, codes: Option<&[u8]>, out: &mut Vec<u8>) {
        match codes.map(|codes| self.section.symbols.append(codes, out, &mut self.shared_bits)) {
            Some(Ok(Some(()))) => {}
            Some(Err(error)) => give_up(error),
            Some(Ok(None)) | None => self.section.senseless(block.start, "the lengths of its terms make no sense"),
        }
    }
}

/// Makes room; if there is none, the caller's box gives up.
fn grown(out: &mut Vec<u8>, more: usize) {
    if let Err(error) = out.grow(more) {
        give_up(error);
    }
}

/// A block; only the length of its lengths was read.
#[derive(Clone, Copy, Debug)]
struct Block<'a> {
    /// Its beginning in the text.
    start: usize,
    keys: usize,
    /// How many bytes each length has.
    width: usize,
    /// The bytes behind the first one.
    bytes: &'a [u8],
}

impl<'a> Block<'a> {
    #[inline]
    fn new(start: usize, bytes: &'a [u8], keys: usize) -> Option<Block<'a>> {
        let (&width, bytes) = bytes.split_first()?;
        matches!(width, 1 | 2 | 4 | 8).then_some(Block { start, keys, width: width.into(), bytes })
    }

    /// The common beginning of all keys, and the rest of one of them, compressed.
    #[inline]
    fn parts(&self, place: usize) -> Option<[&'a [u8]; 2]> {
        let lengths = self.keys * self.width;
        let texts = self.bytes.get(lengths..)?;
        let shared = self.length(0)?;
        let start = match self.bytes.first_chunk::<BLOCK>() {
            Some(lengths) if self.width == 1 => sum(*lengths, place + 1),
            _ => (0..=place).try_fold(0_usize, |sum, number| sum.checked_add(self.length(number)?))?,
        };
        let rest = texts.get(start..)?;
        let rest = if place + 1 < self.keys { rest.get(..self.length(place + 1)?)? } else { rest };
        Some([texts.get(..shared)?, rest])
    }

    #[inline]
    fn length(&self, number: usize) -> Option<usize> {
        if self.width == 1 {
            return self.bytes.get(number).map(|length| usize::from(*length));
        }
        let mut word = [0; 8];
        word[..self.width].copy_from_slice(self.bytes.get(number * self.width..(number + 1) * self.width)?);
        usize::try_from(u64::from_le_bytes(word)).ok()
    }
}

/// The sum of the first bytes, one at least.
#[inline]
fn sum(bytes: [u8; BLOCK], count: usize) -> usize {
    const EVEN: u128 = u128::MAX / 0xFFFF * 0xFF;
    let kept = u128::from_le_bytes(bytes) << (8 * (BLOCK - count));
    // Sums of two bytes each, then of four, and all of them in the highest 16 bits.
    let twos = (kept & EVEN) + (kept >> 8 & EVEN);
    let fours = (twos as u64) + (twos >> 64) as u64;
    (fours.wrapping_mul(u64::MAX / 0xFFFF) >> 48) as usize
}

/// Reads keys of a section, quickly if neighbours follow each other. A lent key is valid until the next call.
#[derive(Debug)]
pub struct Keys<'a> {
    section: &'a Section,
    /// The number of the last block, and the block.
    block: Option<(usize, Block<'a>)>,
    /// The last key.
    key: Text,
    /// The length of the common beginning of the block's keys.
    shared: usize,
}

impl Keys<'_> {
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.section.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.section.len == 0
    }

    /// The key of this rank. Panics if there is none; if there is not enough memory, the caller's box gives up.
    pub fn key(&mut self, rank: usize) -> &str {
        assert!(rank < self.len(), "a section has keys for its ranks only");
        let (section, number) = (self.section, rank / BLOCK);
        let block = match self.block {
            Some((last, block)) if last == number => block,
            _ => {
                // If this gives up, the next call begins anew.
                self.block = None;
                let block = section.block(number);
                self.key.clear();
                self.append(&block, block.parts(0).map(|[shared, _]| shared));
                self.shared = self.key.read().bytes().len();
                self.block.insert((number, block)).1
            }
        };
        self.key.truncate(self.shared);
        self.append(&block, block.parts(rank % BLOCK).map(|[_, rest]| rest));
        section.text_of(&block, self.key.read())
    }

    fn append(&mut self, block: &Block<'_>, codes: Option<&[u8]>) {
        match codes.map(|codes| self.key.append(&self.section.symbols, codes)) {
            Some(Ok(Some(()))) => {}
            Some(Err(error)) => give_up(error),
            Some(Ok(None)) | None => self.section.senseless(block.start, "the lengths of its terms make no sense"),
        }
    }
}
