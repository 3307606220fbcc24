//! Pools for other languages, with the size of an item known at run time.

use super::magazines::{Magazines, RawPool};
use super::{DistPool, PoolError, PoolOptions};
use crate::memory::{AllocError, Memory};
use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use vicus_topology::{NodeId, Place};

/// A pool of items whose size and alignment are known when it is made, not when it is compiled. For other languages; an
/// item is memory, without a value.
///
/// ```
/// use std::{alloc::Layout, sync::Arc};
/// use vicus_memory::{FakePages, Memory, MemoryOptions, PoolOptions, UntypedPool};
/// use vicus_topology::{NodeId, Topology};
///
/// let machine = Topology::parse("node:2 core:1").unwrap();
/// let options = MemoryOptions { range_bytes: 32 << 20, ..MemoryOptions::default() };
/// let memory = Memory::new(Arc::new(FakePages::new(2)), &machine, options).unwrap();
/// let item = Layout::from_size_align(44, 4).unwrap();
/// let pool = Arc::new(UntypedPool::new(&memory, item, PoolOptions::default()).unwrap());
/// let mut seat = pool.handle(NodeId::new(1));
/// let item = seat.take().unwrap();
/// assert_eq!(pool.node_of(item), Some(NodeId::new(1)));
/// // SAFETY: it was just taken.
/// unsafe { seat.give(item) };
/// ```
#[derive(Debug)]
pub struct UntypedPool(DistPool<u8>);

impl UntypedPool {
    /// Like [`DistPool::new`].
    ///
    /// # Errors
    /// The options, or the items, don't fit.
    pub fn new(memory: &Arc<Memory>, item: Layout, options: PoolOptions) -> Result<UntypedPool, PoolError> {
        Ok(UntypedPool(DistPool { raw: RawPool::new(memory, item, options)?, items: PhantomData }))
    }

    /// Like [`DistPool::handle`]. The handle keeps the pool.
    pub fn handle(self: &Arc<Self>, place: impl Into<Place>) -> UntypedHandle {
        UntypedHandle { own: Magazines::new(&self.0.raw, place), pool: Arc::clone(self) }
    }

    /// The node of an item; `None` for an address outside of the memory.
    pub fn node_of(&self, item: NonNull<u8>) -> Option<NodeId> {
        self.0.raw.node_of(item)
    }

    /// Bytes from one item to the next.
    pub fn stride(&self) -> usize {
        self.0.stride()
    }

    /// Frees an item without a handle: it goes home, at a higher cost.
    ///
    /// # Safety
    /// It was taken from this pool, with its provenance, and is not used any more.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub unsafe fn give(&self, item: NonNull<u8>) {
        let raw = &self.0.raw;
        raw.stray(item, raw.home_of(item));
    }
}

/// One seat's access to an [`UntypedPool`].
pub struct UntypedHandle {
    pool: Arc<UntypedPool>,
    own: Magazines,
}

#[expect(unsafe_code, reason = "it has pointers to items")]
// SAFETY: only the handle uses the items of its magazines.
unsafe impl Send for UntypedHandle {}

impl fmt::Debug for UntypedHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a handle on {} with {} items", self.node(), self.own.items())
    }
}

impl UntypedHandle {
    /// The pool.
    pub fn pool(&self) -> &Arc<UntypedPool> {
        &self.pool
    }

    /// An item. Its content is unspecified.
    ///
    /// # Errors
    /// No memory is left, here or elsewhere.
    #[inline]
    pub fn take(&mut self) -> Result<NonNull<u8>, AllocError> {
        self.own.take(&self.pool.0.raw)
    }

    /// Frees an item from any handle.
    ///
    /// # Safety
    /// It was taken from this pool, with its provenance, and is not used any more.
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub unsafe fn give(&mut self, item: NonNull<u8>) {
        self.own.give(&self.pool.0.raw, item);
    }

    /// The node it takes from first.
    pub fn node(&self) -> NodeId {
        self.pool.0.raw.memory.node_at(self.own.location)
    }
}

impl Drop for UntypedHandle {
    fn drop(&mut self) {
        self.own.end(&self.pool.0.raw);
    }
}
