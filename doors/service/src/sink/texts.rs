//! Columns of texts: views of 16 bytes into blocks, in which the text of a term stands once for most of its rows.

use arrow_array::builder::make_view;
use arrow_array::{ArrayRef, StringViewArray};
use arrow_buffer::{Buffer, NullBufferBuilder};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus_rdf::{Id, TermView};
use vicus_sparql::QueryRun;

/// The texts of a block are at most about so long together: places in it are numbers of 32 bits.
const BLOCK_BYTES: usize = 1 << 30;

/// The terms that a column remembers while it is made: a term that comes again within about as many others is not read
/// again. A table of all of them took longer to grow than most terms to be read.
const REMEMBERED: usize = 1 << 10;

/// How long the texts of a row of a column were lately, so that a block is allocated once.
#[derive(Default, Debug)]
pub(super) struct RowBytes(AtomicUsize);

impl RowBytes {
    /// Room for so many rows: an eighth more than they took lately.
    fn room(&self, rows: usize) -> usize {
        let known = self.0.load(Ordering::Relaxed);
        (known + known / 8).saturating_mul(rows) / 16 + 64
    }

    /// In sixteenths of a byte.
    fn learn(&self, rows: usize, bytes: usize) {
        if let Some(each) = bytes.saturating_mul(16).checked_div(rows) {
            self.0.store(each.min(16 << 10), Ordering::Relaxed);
        }
    }
}

/// A column that is made.
struct TextColumn {
    views: Vec<u128>,
    nulls: NullBufferBuilder,
    blocks: Vec<Buffer>,
    block: Vec<u8>,
    /// By a hash of an id, the id and its view; at first the unbound one, which is never looked up.
    known: Box<[(u64, u128)]>,
}

impl TextColumn {
    fn new(rows: usize, room: usize) -> TextColumn {
        TextColumn {
            views: Vec::with_capacity(rows),
            nulls: NullBufferBuilder::new(rows),
            blocks: Vec::new(),
            block: Vec::with_capacity(room),
            known: vec![(0, 0); REMEMBERED.min(rows.next_power_of_two())].into(),
        }
    }

    /// The view of the text behind `start`.
    #[inline]
    fn view(&self, start: usize) -> u128 {
        assert!(u32::try_from(self.block.len() - start).is_ok(), "no term has four gigabytes");
        make_view(&self.block[start..], self.blocks.len() as u32, start as u32)
    }

    /// Makes room for the next text; whether another block has begun.
    #[inline]
    fn begin(&mut self) -> bool {
        let is_full = self.block.len() >= BLOCK_BYTES;
        if is_full {
            self.blocks.push(Buffer::from_vec(mem::take(&mut self.block)));
        }
        is_full
    }

    fn finish(mut self) -> ArrayRef {
        self.blocks.push(Buffer::from_vec(self.block));
        #[expect(unsafe_code, reason = "the safe constructor reads all texts once more, to see whether they are UTF-8")]
        // SAFETY: each view was made of a whole text of the block with its number, where it stays; texts come from
        // `str` or from the dictionary's appender, which both have UTF-8 alone; the view of a null is one of no bytes.
        // Places and lengths have 32 bits: a text begins below `BLOCK_BYTES`, and its length was looked at.
        let made =
            unsafe { StringViewArray::new_unchecked(self.views.into(), self.blocks.into(), self.nulls.finish()) };
        Arc::new(made)
    }
}

/// A column of the text of each term, without what tells its kind: `write` appends that of the few kinds of terms that
/// the dictionary does not have as texts.
pub(super) fn lexical(
    run: &QueryRun,
    ids: &[u64],
    bytes: &RowBytes,
    write: fn(TermView<'_>, &mut String) -> bool,
) -> ArrayRef {
    let mut appender = run.text_appender();
    let mut column = TextColumn::new(ids.len(), bytes.room(ids.len()));
    let mut other = String::new();
    let mut last = (0, 0);
    for &bits in ids {
        let id = Id::from_bits(bits);
        if id.is_unbound() {
            column.views.push(0);
            column.nulls.append_null();
            continue;
        }
        // Rows with the same subject come one after the other.
        if last.0 != bits {
            let at = slot(bits) & (column.known.len() - 1);
            if column.known[at].0 != bits {
                if column.begin() {
                    appender.begin();
                }
                let start = column.block.len();
                if !appender.append(id, &mut column.block) {
                    other.clear();
                    run.view(id, |view| write(view, &mut other));
                    column.block.extend_from_slice(other.as_bytes());
                }
                column.known[at] = (bits, column.view(start));
            }
            last = column.known[at];
        }
        column.views.push(last.1);
        column.nulls.append_non_null();
    }
    bytes.learn(ids.len(), column.block.len());
    column.finish()
}

/// A column of a text of each term, by a function that writes it, or says that there is none.
pub(super) fn written(run: &QueryRun, ids: &[u64], write: fn(TermView<'_>, &mut String) -> bool) -> ArrayRef {
    let mut column = TextColumn::new(ids.len(), 0);
    let mut is_there = vec![false; column.known.len()];
    let mut text = String::new();
    for &bits in ids {
        let id = Id::from_bits(bits);
        if id.is_unbound() {
            column.views.push(0);
            column.nulls.append_null();
            continue;
        }
        let at = slot(bits) & (column.known.len() - 1);
        if column.known[at].0 != bits {
            _ = column.begin();
            text.clear();
            is_there[at] = run.view(id, |view| write(view, &mut text));
            let start = column.block.len();
            column.block.extend_from_slice(text.as_bytes());
            column.known[at] = (bits, if is_there[at] { column.view(start) } else { 0 });
        }
        column.views.push(column.known[at].1);
        column.nulls.append(is_there[at]);
    }
    column.finish()
}

/// The place of an id in a table. Ids of neighbours, and those of a kind, lie far apart.
#[inline]
fn slot(bits: u64) -> usize {
    (bits.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize
}
