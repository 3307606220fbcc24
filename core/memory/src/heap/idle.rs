//! A heap's thread is idle for long: pages of its superblocks that have no block in use go back to the system.
//!
//! A superblock with one block in use stays with its heap. Its free blocks have touched pages, and so had the blocks of
//! another size into which it was cut before. Without this, one block in use keeps up to
//! [`superblock_bytes`](crate::MemoryOptions::superblock_bytes) resident.

use super::{Heap, Local};
use crate::memory::Memory;
use crate::slab::Slab;

impl Heap {
    /// [`Heap::trim`], and the pages of a superblock's free blocks go back: all pages of blocks that were not in use
    /// since the superblock was cut, and those of other free blocks, but for a page or two for a thousand blocks. They
    /// stay committed, and read as zeros when they are touched again. It only trims where pages must be certain
    /// (`WhenFull::Strict`) or are touched ahead.
    ///
    /// Returns whether another superblock has such pages: a superblock takes about a millisecond for each 10 MiB, and
    /// between two of them the caller can look for work. Pages that went back before cost nothing. To be called after
    /// seconds without work for the heap's thread: each page in use again costs a page fault.
    pub fn give_back_pages(&mut self) -> bool {
        self.trim();
        let Heap { local, memory, .. } = self;
        let mut due = local.superblocks(memory).filter(|slab| memory.superblocks.may_discard_of(slab));
        due.next().inspect(|slab| memory.superblocks.discard_free(slab));
        due.next().is_some()
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
    use crate::pages::{FakePages, SystemCall, WhenFull};
    use rand_pcg::rand_core::{RngCore, SeedableRng};
    use std::alloc::Layout;
    use std::collections::BTreeSet;
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
        let bytes = |call: &SystemCall| if let SystemCall::Discard(_, bytes) = call { *bytes } else { 0 };
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

    fn give_back_all(heap: &mut Heap) {
        while heap.give_back_pages() {}
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
        give_back_all(&mut heap);
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
        give_back_all(&mut heap);
        assert!(discarded(&pages) > (2 << 20) - (200 << 10), "of a superblock of blocks, and one of runs");
        give_back_all(&mut heap);
        assert_eq!(discarded(&pages), 0);
        assert!(holds(stays, 9000, 1) && holds(small, 100, 2));
        free(&mut heap, stays, 9000);
        free(&mut heap, small, 100);
        heap.trim();
        let other = filled(&mut heap, 20_000, 3);
        pages.take_calls();
        give_back_all(&mut heap);
        assert!(discarded(&pages) > (1 << 20) - (100 << 10), "it was cut anew");
        free(&mut heap, other, 20_000);
    }

    /// A seat that was woken every dozen seconds for a tiny task gave all pages of its free blocks back once more each
    /// time, in one stretch of 100 ms a GiB.
    #[test]
    fn one_superblock_at_a_time_and_each_block_once_for_each_use() {
        let (memory, pages) = memory(MemoryOptions::default());
        let mut heap = heap(&memory);
        let size = 50_000;
        let mut blocks: Vec<_> = (0..55).map(|n| filled(&mut heap, size, n)).collect();
        // Of each of three superblocks' blocks some stay.
        let stay: Vec<_> = [50, 30, 5].map(|at| (blocks.remove(at), at as u8)).into();
        let last = blocks[0];
        blocks.into_iter().rev().for_each(|block| free(&mut heap, block, size));
        pages.take_calls();
        for round in 0..3 {
            assert_eq!(heap.give_back_pages(), round < 2, "three superblocks");
            let gone = discarded(&pages);
            assert!((600 << 10..1 << 20).contains(&gone), "{round}: {gone}");
        }
        assert!(!heap.give_back_pages());
        assert_eq!(discarded(&pages), 0, "they have gone");
        let block = filled(&mut heap, size, 1);
        free(&mut heap, block, size);
        give_back_all(&mut heap);
        let gone = discarded(&pages);
        assert!((size - 8192..size).contains(&gone), "of a task's one block: {gone}");
        // Many in use, and freed with the same one last.
        let mut again: Vec<_> = (0..52).map(|n| filled(&mut heap, size, n)).collect();
        assert!(stay.iter().all(|&(block, with)| holds(block, size, with)));
        again.sort_by_key(|&block| block != last);
        again.into_iter().rev().for_each(|block| free(&mut heap, block, size));
        give_back_all(&mut heap);
        assert!(discarded(&pages) > 52 * (size - 8192));
        stay.into_iter().for_each(|(block, _)| free(&mut heap, block, size));
    }

    /// An idle server kept a page or two of each free block of two pages: 200 MiB after updates of two million triples.
    #[test]
    fn pages_that_stay_are_those_of_blocks_in_use() {
        for (seed, most) in [(1, 8200), (2, 9000), (3, 16_500)] {
            println!("seed {seed}");
            let mut chance = rand_pcg::Pcg64::seed_from_u64(seed);
            let (memory, pages) = memory(MemoryOptions { decay_ticks: 1, ..MemoryOptions::default() });
            let mut heap = heap(&memory);
            let begin = memory.superblocks.ranges.address(0).addr().get();
            let (mut blocks, mut resident) = (Vec::new(), BTreeSet::new());
            let mut number = 0u8;
            for round in 0..if cfg!(miri) { 4 } else { 40 } {
                let aim = chance.next_u32() as usize % if round % 4 == 3 { 4 } else { 300 };
                while blocks.len() < aim {
                    let size = 8192 + chance.next_u32() as usize % (most - 8192);
                    number = number.wrapping_add(1);
                    let block = filled(&mut heap, size, number);
                    resident.extend(block.addr().get() / 4096..(block.addr().get() + size).div_ceil(4096));
                    blocks.push((block, size, number));
                }
                while blocks.len() > aim {
                    let (block, size, number) = blocks.swap_remove(chance.next_u32() as usize % blocks.len());
                    assert!(holds(block, size, number), "round {round}");
                    free(&mut heap, block, size);
                }
                pages.take_calls();
                give_back_all(&mut heap);
                memory.tick(4 * round + 2);
                memory.tick(4 * round + 4);
                for call in pages.take_calls() {
                    if let SystemCall::Discard(at, bytes) | SystemCall::Decommit(at, bytes, _) = call {
                        assert!(at % 4096 == 0 && bytes % 4096 == 0);
                        let first = (begin + at) / 4096;
                        (first..first + bytes / 4096).for_each(|page| _ = resident.remove(&page));
                    }
                }
                assert!(blocks.iter().all(|&(block, size, number)| holds(block, size, number)), "round {round}");
                // A class's blocks are a little larger than what was asked for.
                let in_use: usize = blocks.iter().map(|(_, size, _)| (size * 107 / 100).div_ceil(4096) + 1).sum();
                // Sizes have up to twelve classes, each with at most one superblock that is not full.
                assert!(resident.len() <= in_use + 2 * 12, "round {round}: {} pages of {in_use}", resident.len());
            }
            blocks.into_iter().for_each(|(block, size, _)| free(&mut heap, block, size));
        }
    }

    #[test]
    fn huge_pages_stay_whole() {
        let options = MemoryOptions {
            huge_pages: true,
            range_bytes: 64 << 20,
            superblock_bytes: 8 << 20,
            heaps: 8,
            ..MemoryOptions::default()
        };
        let (memory, pages) = Memory::on_fake_pages(&Topology::parse("node:1 core:1").unwrap(), options);
        let mut heap = heap(&memory);
        let [stays, freed] = [1, 2].map(|with| filled(&mut heap, 500_000, with));
        free(&mut heap, freed, 500_000);
        pages.take_calls();
        give_back_all(&mut heap);
        let calls = pages.take_calls();
        assert!(matches!(calls[..], [SystemCall::Discard(_, bytes)] if bytes == 6 << 20), "the last three: {calls:?}");
        assert!(!heap.give_back_pages());
        assert!(holds(stays, 500_000, 1));
        free(&mut heap, stays, 500_000);
    }

    /// The heap of an unbound thread on several nodes ends before each long sleep. The pages of its free blocks stayed,
    /// because only those behind the last block in use went back.
    #[test]
    fn what_an_ended_heap_has_left_goes_back_after_a_while() {
        let (memory, pages) = memory(MemoryOptions { decay_ticks: 5, ..MemoryOptions::default() });
        let mut first = heap(&memory);
        let [stays, freed, later] = [1, 2, 3].map(|with| filled(&mut first, 200_000, with));
        free(&mut first, freed, 200_000);
        memory.tick(1);
        drop(first);
        pages.take_calls();
        memory.tick(5);
        assert!(!memory.give_back_pages());
        assert_eq!(discarded(&pages), 0);
        memory.tick(6);
        assert!(discarded(&pages) > (1 << 20) - 2 * 214_000 - (20 << 10), "the tail, and the free block");
        memory.tick(20);
        assert!(!memory.give_back_pages());
        assert_eq!(discarded(&pages), 0, "once");
        // By a heap that does not have the superblock.
        let mut second = heap(&memory);
        free(&mut second, later, 200_000);
        assert!(memory.give_back_pages());
        assert!((190_000..214_000).contains(&discarded(&pages)), "the block freed since");
        assert!(!memory.give_back_pages());
        assert!(holds(stays, 200_000, 1));
        let again = [4, 5].map(|with| (filled(&mut second, 200_000, with), with));
        assert!(holds(stays, 200_000, 1) && again.iter().all(|&(block, with)| holds(block, 200_000, with)));
        again.into_iter().for_each(|(block, _)| free(&mut second, block, 200_000));
        free(&mut second, stays, 200_000);
    }

    #[test]
    fn each_step_gives_back_pages_of_a_few_superblocks_of_ended_heaps() {
        let (memory, pages) = memory(MemoryOptions { decay_ticks: 5, ..MemoryOptions::default() });
        let mut first = heap(&memory);
        let stay: Vec<_> = (0..20).map(|n| filled(&mut first, 9000 + 1000 * usize::from(n), n)).collect();
        drop(first);
        pages.take_calls();
        memory.tick(5);
        let first_step = discarded(&pages);
        let steps = std::iter::repeat_with(|| memory.give_back_pages()).take_while(|&more| more).count();
        let others = discarded(&pages);
        assert!(first_step > 3 << 20 && others > 3 * first_step / 2, "{first_step}, then {others} in {steps} steps");
        assert!(steps > 1);
        let mut second = heap(&memory);
        for (block, n) in stay.into_iter().zip(0..) {
            assert!(holds(block, 9000 + 1000 * usize::from(n), n));
            free(&mut second, block, 9000 + 1000 * usize::from(n));
        }
    }

    #[test]
    fn pages_that_must_be_certain_stay() {
        let strict = MemoryOptions { when_full: WhenFull::Strict, ..MemoryOptions::default() };
        for options in [strict, MemoryOptions { touch_ahead: true, ..MemoryOptions::default() }] {
            let (memory, pages) = memory(options);
            let mut heap = heap(&memory);
            let block = filled(&mut heap, 9000, 1);
            give_back_all(&mut heap);
            assert_eq!(discarded(&pages), 0);
            free(&mut heap, block, 9000);
        }
    }
}
