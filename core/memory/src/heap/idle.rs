//! A heap's thread is idle for long: pages of its superblocks that have no block in use go back to the system.
//!
//! A superblock with one block in use stays with its heap. Its free blocks have touched pages, and so had the blocks of
//! another size into which it was cut before. Without this, one block in use keeps up to
//! [`superblock_bytes`](crate::MemoryOptions::superblock_bytes) resident.

use super::{Heap, Local};
use crate::memory::Memory;
use crate::slab::Slab;

impl Heap {
    /// [`Heap::trim`], and the pages of free blocks go back: all pages of blocks that were not in use since their
    /// superblock was cut, and all but the first one of each other free block. They stay committed, and read as zeros
    /// when they are touched again. To be called after seconds without work for the heap's thread: each page in use
    /// again costs a page fault. It only trims where pages must be certain (`WhenFull::Strict`) or are touched ahead.
    pub fn give_back_pages(&mut self) {
        self.trim();
        let Heap { local, memory, .. } = self;
        if memory.superblocks.may_discard() {
            local.superblocks(memory).for_each(|slab| {
                memory.superblocks.discard_untouched(slab);
                memory.superblocks.discard_freed(slab);
            });
        }
    }
}

impl Local {
    /// All superblocks of this heap, those of runs as well.
    fn superblocks<'a>(&'a self, memory: &Memory) -> impl Iterator<Item = &'a Slab> {
        (memory.sizes.small()..self.current.len()).flat_map(|class| {
            let current = Some(self.current[class].slab()).filter(|slab| !std::ptr::eq(*slab, &raw const *self.none));
            current.into_iter().chain(self.ranks[class].iter())
        })
    }
}

#[cfg(all(test, not(loom)))]
#[expect(unsafe_code, reason = "tests free what they allocate")]
mod tests {
    use super::*;
    use crate::memory::MemoryOptions;
    use crate::pages::{Call, FakePages, WhenFull};
    use std::alloc::Layout;
    use std::ptr::NonNull;
    use std::sync::Arc;
    use vicus_topology::{NodeId, Topology};

    fn memory(options: MemoryOptions) -> (Arc<Memory>, Arc<FakePages>) {
        let options = MemoryOptions { superblock_bytes: 1 << 20, range_bytes: 32 << 20, heaps: 8, ..options };
        Memory::on_fake_pages(&Topology::parse("node:1 core:1").unwrap(), options)
    }

    fn heap(memory: &Arc<Memory>) -> Heap {
        Heap::new(memory, NodeId::new(0)).unwrap()
    }

    fn discarded(pages: &FakePages) -> usize {
        let bytes = |call: &Call| if let Call::Discard(_, bytes) = call { *bytes } else { 0 };
        pages.take_calls().iter().map(bytes).sum()
    }

    fn filled(heap: &mut Heap, size: usize, with: u8) -> NonNull<u8> {
        let block = heap.alloc(layout(size)).unwrap();
        // SAFETY: it has so many bytes.
        unsafe { block.write_bytes(with, size) };
        block
    }

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    fn holds(block: NonNull<u8>, size: usize, with: u8) -> bool {
        // SAFETY: tests have filled all of it.
        unsafe { std::slice::from_raw_parts(block.as_ptr(), size) }.iter().all(|&byte| byte == with)
    }

    fn free(heap: &mut Heap, block: NonNull<u8>, size: usize) {
        // SAFETY: tests free what they have allocated with that size, and no longer use it.
        unsafe { heap.free(block, layout(size)) };
    }

    /// A server that had been idle for 25 s kept 180 MiB of superblocks, in which 3 MiB were in use.
    #[test]
    fn one_block_in_use_keeps_its_own_pages_and_no_others() {
        let (memory, pages) = memory(MemoryOptions::default());
        let mut heap = heap(&memory);
        let size = 50_000;
        let mut blocks: Vec<_> = (0..15).map(|n| filled(&mut heap, size, n + 1)).collect();
        let stays = blocks.remove(7);
        blocks.into_iter().for_each(|block| free(&mut heap, block, size));
        pages.take_calls();
        heap.give_back_pages();
        let gone = discarded(&pages);
        assert!(gone > (1 << 20) - 16 * 3 * 4096 - size, "{gone}");
        assert!(holds(stays, size, 8), "a block in use is as it was");
        let again: Vec<_> = (0..15).map(|n| filled(&mut heap, size, n + 100)).collect();
        assert!(holds(stays, size, 8));
        assert!(again.iter().zip(100..).all(|(&block, with)| holds(block, size, with)));
        again.into_iter().chain([stays]).for_each(|block| free(&mut heap, block, size));
    }

    #[test]
    fn pages_that_were_never_touched_since_go_back_once() {
        let (memory, pages) = memory(MemoryOptions::default());
        let mut heap = heap(&memory);
        let (stays, small) = (filled(&mut heap, 9000, 1), filled(&mut heap, 100, 2));
        pages.take_calls();
        heap.give_back_pages();
        assert!(discarded(&pages) > (2 << 20) - (200 << 10), "of a superblock of blocks, and one of runs");
        heap.give_back_pages();
        assert_eq!(discarded(&pages), 0);
        assert!(holds(stays, 9000, 1) && holds(small, 100, 2));
        free(&mut heap, stays, 9000);
        free(&mut heap, small, 100);
        heap.trim();
        let other = filled(&mut heap, 20_000, 3);
        pages.take_calls();
        heap.give_back_pages();
        assert!(discarded(&pages) > (1 << 20) - (100 << 10), "it was cut anew");
        free(&mut heap, other, 20_000);
    }

    #[test]
    fn what_an_ended_heap_has_left_goes_back_after_a_while() {
        let (memory, pages) = memory(MemoryOptions { decay_ticks: 5, ..MemoryOptions::default() });
        let mut first = heap(&memory);
        let stays = filled(&mut first, 9000, 1);
        memory.tick(1);
        drop(first);
        pages.take_calls();
        memory.tick(5);
        assert_eq!(discarded(&pages), 0);
        memory.tick(6);
        assert!(discarded(&pages) > (1 << 20) - (20 << 10));
        memory.tick(20);
        assert_eq!(discarded(&pages), 0, "once");
        assert!(holds(stays, 9000, 1));
        free(&mut heap(&memory), stays, 9000);
    }

    #[test]
    fn pages_that_must_be_certain_stay() {
        let strict = MemoryOptions { when_full: WhenFull::Strict, ..MemoryOptions::default() };
        for options in [strict, MemoryOptions { touch_ahead: true, ..MemoryOptions::default() }] {
            let (memory, pages) = memory(options);
            let mut heap = heap(&memory);
            let block = filled(&mut heap, 9000, 1);
            heap.give_back_pages();
            assert_eq!(discarded(&pages), 0);
            free(&mut heap, block, 9000);
        }
    }
}
