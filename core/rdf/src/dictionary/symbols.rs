//! Texts as codes of one byte, each for up to eight bytes of text that occur often: a table of symbols, trained on a
//! sample.
//!
//! Boncz, Neumann and Leis, "FSST: Fast Random Access String Compression", PVLDB 13(11), 2020. The crate fsst-rs trains
//! and compresses; reading is done here, as the bytes may come from a file, and the crate's reader trusts them.

use super::section::BLOCK;
use fsst::{Compressor, ESCAPE_CODE};
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Range;
use vicus_flow::{Grow, NoMemory};

/// The longest symbol, in bytes.
const LONGEST: usize = 8;

/// How texts are written and read: as codes of a table, or as they are, if there are too few to train one.
#[derive(Clone, Default)]
pub(crate) struct Symbols(Option<Box<Table>>);

#[derive(Clone)]
struct Table {
    /// The bytes of each, the first one lowest.
    symbols: [u64; 256],
    /// Their lengths; 0 for codes without one, which no text has. Invariant: at most [`LONGEST`].
    lengths: [u8; 256],
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.as_ref().map_or(0, |table| table.lengths.iter().filter(|length| **length > 0).count());
        write!(f, "{count} symbols")
    }
}

impl Symbols {
    /// The memory that they hold, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.as_deref().map_or(0, size_of_val)
    }

    /// For each symbol its length and its bytes.
    pub(super) fn stored(&self) -> Vec<u8> {
        let table = self.0.iter().flat_map(|table| table.lengths.iter().zip(&table.symbols));
        let used = table.filter(|(length, _)| **length > 0);
        used.flat_map(|(length, symbol)| [&[*length], &symbol.to_le_bytes()[..usize::from(*length)]].concat()).collect()
    }

    /// From what [`Symbols::stored`] made; `None` if it is not that.
    pub(super) fn of_stored(mut bytes: &[u8]) -> Option<Symbols> {
        let mut table = Box::new(Table { symbols: [0; 256], lengths: [0; 256] });
        let has_any = !bytes.is_empty();
        for code in 0..usize::from(ESCAPE_CODE) {
            let Some((&length, rest)) = bytes.split_first() else { break };
            if !(1..=LONGEST).contains(&usize::from(length)) {
                return None;
            }
            let (symbol, rest) = rest.split_at_checked(length.into())?;
            let mut word = [0; LONGEST];
            word[..symbol.len()].copy_from_slice(symbol);
            table.symbols[code] = u64::from_le_bytes(word);
            table.lengths[code] = length;
            bytes = rest;
        }
        bytes.is_empty().then(|| Symbols(has_any.then_some(table)))
    }

    /// How many bytes the text of these codes has; senseless codes count, too.
    fn length(&self, codes: &[u8]) -> usize {
        let Some(table) = &self.0 else { return codes.len() };
        let mut codes = codes.iter();
        let mut length = 0;
        while let Some(&code) = codes.next() {
            if code == ESCAPE_CODE {
                codes.next();
                length += 1;
            } else {
                length += usize::from(table.lengths[usize::from(code)]);
            }
        }
        length
    }

    /// Writes the text of these codes from the beginning of `out`; returns the length of the written part. `None` if
    /// they are not the codes of a text, or if it ends less than a symbol's bytes before the end of `out`. Sets in
    /// `bits` the bits of all bytes, eight in a word.
    #[inline]
    fn read(&self, codes: &[u8], out: &mut [MaybeUninit<u8>], bits: &mut u64) -> Option<usize> {
        let Some(table) = &self.0 else {
            let out = out.get_mut(..codes.len())?;
            out.iter_mut().zip(codes).for_each(|(to, from)| *bits |= u64::from(*to.write(*from)));
            return Some(codes.len());
        };
        let mut at = 0;
        let mut codes = codes.iter();
        while let Some(&code) = codes.next() {
            if code == ESCAPE_CODE {
                *bits |= u64::from(*out.get_mut(at)?.write(*codes.next()?));
                at += 1;
            } else {
                // All eight bytes are written; what follows overwrites those behind the symbol's end.
                let symbol = table.symbols[usize::from(code)];
                *bits |= symbol;
                let to: &mut [MaybeUninit<u8>; LONGEST] = out.get_mut(at..)?.first_chunk_mut()?;
                let bytes = symbol.to_le_bytes();
                // One store. `map` on the array became calls of functions, and half of the time of an answer with all
                // triples.
                for place in 0..LONGEST {
                    to[place].write(bytes[place]);
                }
                at += usize::from(table.lengths[usize::from(code)]);
            }
        }
        Some(at)
    }
}

impl Symbols {
    /// Appends the text of these codes, and sets in `bits` the bits of its bytes; `None` if they are not the codes of a
    /// text.
    ///
    /// # Errors
    /// There is not enough memory.
    #[inline]
    pub(super) fn append(&self, codes: &[u8], bytes: &mut Vec<u8>, bits: &mut u64) -> Result<Option<()>, NoMemory> {
        let most = LONGEST * (codes.len() + 1);
        let room = if most <= bytes.capacity() - bytes.len() { most } else { self.length(codes) + LONGEST };
        bytes.grow(room)?;
        let Some(length) = self.read(codes, bytes.spare_capacity_mut(), bits) else { return Ok(None) };
        #[expect(unsafe_code, reason = "clearing the room would take as long as reading")]
        // SAFETY: `read` wrote so many bytes, and fails if there is no room for them.
        unsafe {
            bytes.set_len(bytes.len() + length);
        }
        Ok(Some(()))
    }
}

/// A text that grows by what is read.
#[derive(Default, Debug)]
pub(super) struct Text {
    bytes: Vec<u8>,
    /// Like [`Read`].
    bits: u64,
}

impl Text {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bits = 0;
    }

    pub(super) fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    /// Appends the text of these codes; `None` if they are not the codes of a text.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(super) fn append(&mut self, symbols: &Symbols, codes: &[u8]) -> Result<Option<()>, NoMemory> {
        symbols.append(codes, &mut self.bytes, &mut self.bits)
    }

    pub(super) fn read(&self) -> Read<'_> {
        Read { bytes: &self.bytes, bits: self.bits }
    }
}

/// A text read from codes.
#[derive(Clone, Copy)]
pub(super) struct Read<'a> {
    bytes: &'a [u8],
    /// The bits of all its bytes, eight in a word, and perhaps others. Invariant: no byte has a bit that is in none of
    /// these eight.
    bits: u64,
}

impl<'a> Read<'a> {
    /// The text; `None` if it is not UTF-8.
    #[inline]
    pub(super) fn text(self) -> Option<&'a str> {
        if self.bits & ASCII != 0 {
            return str::from_utf8(self.bytes).ok();
        }
        #[expect(unsafe_code, reason = "checking the bytes again takes a quarter of the time of reading them")]
        // SAFETY: no byte has the highest bit, and all bytes without it are UTF-8.
        unsafe {
            Some(str::from_utf8_unchecked(self.bytes))
        }
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        self.bytes
    }
}

/// The highest bits of eight bytes: without any, they are ASCII.
pub(super) const ASCII: u64 = u64::MAX / 0xFF * 0x80;

/// Where a text is read to: on the stack, or in memory that is allocated if it is long.
pub(super) struct Buffer {
    short: [MaybeUninit<u8>; SHORT],
    long: Text,
}

const SHORT: usize = 2 << 10;

impl Buffer {
    #[inline]
    pub(super) fn new() -> Buffer {
        Buffer { short: [const { MaybeUninit::uninit() }; SHORT], long: Text::default() }
    }

    /// The text of two pieces, one after the other; `None` if they are not the codes of a text.
    ///
    /// # Errors
    /// There is not enough memory.
    #[inline]
    pub(super) fn read(&mut self, symbols: &Symbols, [a, b]: [&[u8]; 2]) -> Result<Option<Read<'_>>, NoMemory> {
        if LONGEST * (a.len() + b.len() + 1) > SHORT && symbols.length(a) + symbols.length(b) + LONGEST > SHORT {
            return self.read_long(symbols, [a, b]);
        }
        let mut bits = 0;
        let Some(first) = symbols.read(a, &mut self.short, &mut bits) else { return Ok(None) };
        let Some(second) = symbols.read(b, &mut self.short[first..], &mut bits) else { return Ok(None) };
        let written = &self.short[..first + second];
        #[expect(unsafe_code, reason = "clearing the room would take as long as reading")]
        // SAFETY: `read` wrote all of these bytes.
        let bytes = unsafe { &*(std::ptr::from_ref(written) as *const [u8]) };
        Ok(Some(Read { bytes, bits }))
    }

    #[inline(never)]
    fn read_long(&mut self, symbols: &Symbols, [a, b]: [&[u8]; 2]) -> Result<Option<Read<'_>>, NoMemory> {
        self.long.clear();
        let is_text = self.long.append(symbols, a)?.is_some() && self.long.append(symbols, b)?.is_some();
        Ok(is_text.then_some(self.long.read()))
    }
}

/// Part of the text of some blocks of keys, for training symbols.
#[derive(Default, Debug)]
pub(crate) struct Sample {
    text: Vec<u8>,
    ends: Vec<usize>,
    /// The keys of a block that is not complete yet.
    block: Vec<Vec<u8>>,
}

impl Sample {
    /// How many bytes of keys are enough.
    const ENOUGH: usize = 64 << 10;

    /// With fewer, a table takes more time and memory than it saves.
    const FEWEST: usize = 4 << 10;

    /// Longer keys are cut.
    const LONGEST_KEY: usize = 512;

    /// The keys to take of a list of `len` keys, if all lists have `bytes` bytes together: the places of whole blocks,
    /// at equal distances.
    pub(crate) fn blocks(len: usize, bytes: usize) -> impl Iterator<Item = Range<usize>> {
        let share = bytes.div_ceil(Self::ENOUGH).max(1);
        (0..len).step_by(BLOCK * share).map(move |start| start..len.min(start + BLOCK))
    }

    /// Adds a key. Keys come in blocks of neighbours.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn add(&mut self, key: &[u8]) -> Result<(), NoMemory> {
        let mut copy = Vec::with_room(key.len().min(Self::LONGEST_KEY))?;
        copy.extend_from_slice(&key[..key.len().min(Self::LONGEST_KEY)]);
        self.block.grow(1)?;
        self.block.push(copy);
        if self.block.len() == BLOCK { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<(), NoMemory> {
        let block = std::mem::take(&mut self.block);
        let [first, .., last] = &block[..] else { return Ok(()) };
        let shared = common(first, last);
        for piece in std::iter::once(&first[..shared]).chain(block.iter().map(|key| &key[shared.min(key.len())..])) {
            self.text.grow(piece.len())?;
            self.text.extend_from_slice(piece);
            self.ends.grow(1)?;
            self.ends.push(self.text.len());
        }
        Ok(())
    }

    /// Trains a table.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn train(mut self) -> Result<Training, NoMemory> {
        /// The crate's allocations, rounded up: counts of pairs of codes, candidates, and the tables.
        const CRATE: usize = 4 << 20;
        self.end_block()?;
        if self.text.len() < Self::FEWEST {
            return Ok(Training::default());
        }
        crate::load::could_have(CRATE)?;
        let mut keys = Vec::with_room(self.ends.len())?;
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        keys.extend(starts.zip(&self.ends).map(|(start, &end)| &self.text[start..end]));
        Ok(Training(Some(Compressor::train(&keys))))
    }
}

/// How many bytes two keys have in common from their beginning.
pub(super) fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Compresses texts.
#[derive(Clone, Default)]
pub(crate) struct Training(Option<Compressor>);

impl fmt::Debug for Training {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.symbols().fmt(f)
    }
}

impl Training {
    /// The symbols for reading the texts.
    pub(crate) fn symbols(&self) -> Symbols {
        let table = self.0.as_ref().map(|compressor| {
            let mut table = Box::new(Table { symbols: [0; 256], lengths: [0; 256] });
            let known = compressor.symbol_table().iter().zip(compressor.symbol_lengths());
            for (code, (symbol, &length)) in known.enumerate() {
                table.symbols[code] = symbol.to_u64();
                table.lengths[code] = length;
            }
            table
        });
        Symbols(table)
    }

    /// Appends the codes of a text.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(super) fn write(&self, text: &[u8], into: &mut Vec<u8>) -> Result<(), NoMemory> {
        let Some(compressor) = &self.0 else {
            into.grow(text.len())?;
            into.extend_from_slice(text);
            return Ok(());
        };
        into.grow(2 * text.len() + LONGEST)?;
        #[expect(unsafe_code, reason = "without it, the crate allocates for each text")]
        // SAFETY: codes take at most two bytes for each byte of text, and there is room for so many; the crate says how
        // many it wrote.
        unsafe {
            let length = compressor.compress_into(text, into.spare_capacity_mut());
            into.set_len(into.len() + length);
        }
        Ok(())
    }
}
