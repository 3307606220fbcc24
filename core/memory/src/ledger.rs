//! In debug builds, the beginning of every block in use, so that a double or foreign free is found at the call. In release
//! builds, nothing.

#[cfg(debug_assertions)]
use std::{collections::BTreeSet, sync::Mutex};

use std::ptr::NonNull;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Addresses. Compared, never followed.
    #[cfg(debug_assertions)]
    blocks: Mutex<BTreeSet<usize>>,
}

/// The ledger's lock, held.
#[cfg(debug_assertions)]
pub(crate) type Lock<'a> = std::sync::MutexGuard<'a, BTreeSet<usize>>;
#[cfg(not(debug_assertions))]
pub(crate) type Lock<'a> = std::marker::PhantomData<&'a ()>;

#[cfg(debug_assertions)]
impl Ledger {
    pub(crate) fn lock(&self) -> Lock<'_> {
        self.blocks.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn with<R>(&self, f: impl FnOnce(&mut BTreeSet<usize>) -> R) -> R {
        f(&mut self.lock())
    }

    /// Notes that a block is in use.
    pub(crate) fn taken(&self, block: NonNull<u8>) {
        let new = self.with(|blocks| blocks.insert(block.addr().get()));
        assert!(new, "the block at {block:p} was handed out while in use");
    }

    /// Notes that it is not. Panics if it was not in use.
    pub(crate) fn freed(&self, block: NonNull<u8>) {
        let was = self.with(|blocks| blocks.remove(&block.addr().get()));
        assert!(was, "freeing {block:p}, which is not in use: it was freed before, or never handed out");
    }
}

#[cfg(not(debug_assertions))]
impl Ledger {
    pub(crate) fn lock(&self) -> Lock<'_> {
        std::marker::PhantomData
    }

    #[inline(always)]
    pub(crate) fn taken(&self, _block: NonNull<u8>) {}

    #[inline(always)]
    pub(crate) fn freed(&self, _block: NonNull<u8>) {}
}
