//! Memory for columns: a block has one owner, and goes back to its source with its last column.

use crate::NoMemory;
use std::alloc::{self, Layout};
#[cfg(feature = "arrow")]
use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// The function that takes a block back, on the thread of its last reader.
type Free = unsafe fn(NonNull<u8>, Layout);

/// Memory with one owner.
pub struct Block {
    at: NonNull<u8>,
    layout: Layout,
    source: Source,
}

/// The source of a block's memory.
enum Source {
    /// The program's allocator.
    Program,
    /// A world. It takes the block back by this function.
    World(Free),
    /// A value keeps the memory and may have other readers: the block is never written to.
    #[cfg(feature = "arrow")]
    Kept(#[expect(dead_code, reason = "it is there to be dropped")] Box<dyn Any + Send + Sync>),
}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: the memory is its own, or kept by a value that may be sent; by `Block::new`'s contract any thread may call
// the function that takes it back.
unsafe impl Send for Block {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as above; nothing is done through `&self`.
unsafe impl Sync for Block {}

impl Block {
    /// Memory of a world.
    ///
    /// # Safety
    /// `layout.size()` bytes are there, aligned as `layout`, for the block alone until `free` is called with both
    /// arguments, on any thread.
    #[expect(unsafe_code, reason = "the caller promises that the memory is there")]
    pub unsafe fn new(at: NonNull<u8>, layout: Layout, free: unsafe fn(NonNull<u8>, Layout)) -> Block {
        Block { at, layout, source: Source::World(free) }
    }

    /// No memory, aligned for columns of any type.
    pub(crate) fn none() -> Block {
        let layout = Layout::new::<[u128; 0]>();
        Block { at: nowhere(layout), layout, source: Source::Program }
    }

    /// Memory of the program's allocator.
    fn of_program(layout: Layout) -> Result<Block, NoMemory> {
        #[expect(unsafe_code, reason = "asks for memory")]
        // SAFETY: the size is not zero, by the only caller's promise.
        let ask = || unsafe { alloc::alloc(layout) };
        let at = NonNull::new(crate::refusable(ask)).ok_or(NoMemory { bytes: layout.size() as u64 })?;
        Ok(Block { at, layout, source: Source::Program })
    }

    /// A vector's memory.
    pub(crate) fn of_vec<T: Copy>(values: Vec<T>) -> Block {
        let mut values = ManuallyDrop::new(values);
        let layout = Layout::array::<T>(values.capacity()).expect("a vector has this layout");
        let at = NonNull::new(values.as_mut_ptr()).expect("a vector's pointer is not null").cast();
        Block { at, layout, source: Source::Program }
    }

    /// Memory kept by a value.
    ///
    /// # Safety
    /// `bytes` bytes are there, and are not written to as long as the value lives.
    #[cfg(feature = "arrow")]
    #[expect(unsafe_code, reason = "the caller promises that the memory is there")]
    pub(crate) unsafe fn kept(at: NonNull<u8>, bytes: usize, keeper: impl Any + Send + Sync) -> Block {
        let layout = Layout::from_size_align(bytes, 1).expect("what is in memory has a size");
        Block { at, layout, source: Source::Kept(Box::new(keeper)) }
    }

    /// Whether its only reader may write to it.
    pub(crate) fn is_writable(&self) -> bool {
        match self.source {
            Source::Program | Source::World(_) => true,
            #[cfg(feature = "arrow")]
            Source::Kept(_) => false,
        }
    }

    /// The vector with this memory and `len` values; or the block itself if it is not a vector's.
    pub(crate) fn into_vec<T: Copy>(self, len: usize) -> Result<Vec<T>, Block> {
        let capacity = self.layout.size() / size_of::<T>();
        let is_a_vector = matches!(self.source, Source::Program)
            && Layout::array::<T>(capacity) == Ok(self.layout)
            && len <= capacity;
        if !is_a_vector {
            return Err(self);
        }
        let block = ManuallyDrop::new(self);
        #[expect(unsafe_code, reason = "memory becomes a vector's")]
        // SAFETY: the memory is the program's allocator's, with a vector's layout; its owner wrote `len` values of this
        // type, valid with any bits, and gives it away.
        Ok(unsafe { Vec::from_raw_parts(block.at.cast().as_ptr(), len, capacity) })
    }

    pub(crate) fn at(&self) -> NonNull<u8> {
        self.at
    }

    pub(crate) fn bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "gives memory back")]
        // SAFETY: it was taken with this layout from the source it goes back to, and its owner is dropped.
        unsafe {
            match &self.source {
                Source::World(free) => free(self.at, self.layout),
                Source::Program if self.layout.size() > 0 => alloc::dealloc(self.at.as_ptr(), self.layout),
                Source::Program => {}
                #[cfg(feature = "arrow")]
                Source::Kept(_) => {}
            }
        }
    }
}

// A block stays valid if its reader panics.
#[cfg(feature = "arrow")]
impl std::panic::RefUnwindSafe for Block {}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:p}", self.layout.size(), self.at)
    }
}

/// The source of new columns' memory. By default the program's allocator; a world with heaps of its own sets it in its
/// [`crate::SeatBuffers`].
#[derive(Clone, Copy, Debug)]
pub struct Blocks(fn(Layout) -> Option<Block>);

impl Blocks {
    /// From this function, or if that gives none, from the program's allocator. It is never called for zero bytes, and
    /// must give a block of the requested layout: anything else panics.
    pub fn of(take: fn(Layout) -> Option<Block>) -> Blocks {
        Blocks(take)
    }

    pub(crate) fn take(self, layout: Layout) -> Result<Block, NoMemory> {
        if layout.size() == 0 {
            return Ok(Block { at: nowhere(layout), layout, source: Source::Program });
        }
        let Some(block) = (self.0)(layout) else { return Block::of_program(layout) };
        assert_eq!(block.layout, layout, "a world gives the memory that it is asked for");
        Ok(block)
    }
}

/// An address for no bytes.
fn nowhere(layout: Layout) -> NonNull<u8> {
    NonNull::new(std::ptr::without_provenance_mut(layout.align())).expect("no alignment is 0")
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks(|_| None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_is_not_asked_for_no_bytes() {
        let blocks = Blocks::of(|_| unreachable!("there is nothing to give"));
        assert_eq!(blocks.take(Layout::new::<[u64; 0]>()).unwrap().bytes(), 0);
    }

    #[test]
    #[should_panic(expected = "a world gives the memory that it is asked for")]
    fn a_block_of_another_layout_is_refused() {
        let _ = Blocks::of(|_| Block::of_program(Layout::new::<u64>()).ok()).take(Layout::new::<[u64; 100]>());
    }
}
