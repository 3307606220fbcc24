//! In debug builds, the beginning and the end of every block in use: finds a double or foreign free at the call, and
//! the use of a freed block when the caller asks for it. In release builds, nothing.
//!
//! Headers could not tell: a freed block may be in its owner's list, held by another heap, or in a mailbox, and their
//! owners change these without a lock.

#[cfg(debug_assertions)]
use std::{collections::BTreeMap, sync::Mutex};

use std::ops::Range;
use std::ptr::NonNull;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The beginning and the end of each block. Addresses are compared, never followed.
    #[cfg(debug_assertions)]
    blocks: Mutex<BTreeMap<usize, usize>>,
}

/// The ledger's lock, held.
#[cfg(debug_assertions)]
pub(crate) type Lock<'a> = std::sync::MutexGuard<'a, BTreeMap<usize, usize>>;
#[cfg(not(debug_assertions))]
pub(crate) type Lock<'a> = std::marker::PhantomData<&'a ()>;

#[cfg(debug_assertions)]
impl Ledger {
    pub(crate) fn lock(&self) -> Lock<'_> {
        self.blocks.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn with<R>(&self, f: impl FnOnce(&mut BTreeMap<usize, usize>) -> R) -> R {
        f(&mut self.lock())
    }

    /// Notes a block of this number of bytes as in use.
    pub(crate) fn taken(&self, block: NonNull<u8>, bytes: impl FnOnce() -> usize) {
        let other = self.resized(block, bytes);
        assert!(other.is_none(), "the block at {block:p} was handed out while in use");
    }

    /// Notes the new number of a block's bytes. Gives its former end.
    pub(crate) fn resized(&self, block: NonNull<u8>, bytes: impl FnOnce() -> usize) -> Option<usize> {
        let start = block.addr().get();
        let end = start + bytes();
        self.with(|blocks| blocks.insert(start, end))
    }

    /// Notes a block as free. Panics if it was not in use.
    pub(crate) fn freed(&self, block: NonNull<u8>) {
        let was = self.with(|blocks| blocks.remove(&block.addr().get()));
        assert!(was.is_some(), "freeing {block:p}, which is not in use: it was freed before, or never handed out");
    }

    /// The first address of a range outside of all blocks in use.
    pub(crate) fn freed_in(&self, range: Range<usize>) -> Option<usize> {
        self.with(|blocks| {
            let mut at = range.start;
            while at < range.end {
                match blocks.range(..=at).next_back() {
                    Some((_, &end)) if end > at => at = end,
                    _ => return Some(at),
                }
            }
            None
        })
    }
}

#[cfg(not(debug_assertions))]
impl Ledger {
    pub(crate) fn lock(&self) -> Lock<'_> {
        std::marker::PhantomData
    }

    #[inline(always)]
    pub(crate) fn taken(&self, _block: NonNull<u8>, _bytes: impl FnOnce() -> usize) {}

    #[inline(always)]
    pub(crate) fn resized(&self, _block: NonNull<u8>, _bytes: impl FnOnce() -> usize) -> Option<usize> {
        None
    }

    #[inline(always)]
    pub(crate) fn freed(&self, _block: NonNull<u8>) {}

    pub(crate) fn freed_in(&self, _range: Range<usize>) -> Option<usize> {
        None
    }
}
