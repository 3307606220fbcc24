//! Threads' heaps: freed memory is used again. Beside them [`AllocatorModel::Arenas`], for comparison.
//!
//! Falt et al., "Towards Efficient Locality Aware Parallel Data Stream Processing", §5.1: each thread has blocks of its
//! own, by size, and the last freed block is taken next, because a cache may still have it. Here an array of a heap
//! gets its block from the heap of its first writer's thread, and returns it to this heap after its last reader.

use crate::{Program, Step};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use vicus_schedule::Access;
use vicus_topology::PuId;

const NONE: u32 = u32::MAX;

/// Memory for the blocks of heaps: envelopes, in a run of boxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllocatorModel {
    /// Threads' heaps that keep their memory from run to run, so that no page is new.
    #[default]
    Heaps,
    /// The malloc of a C library of 2012, for blocks of 8 to 512 KiB: below and above, Falt et al. leave memory to the
    /// system as well.
    ///
    /// glibc before 2.22 (`malloc/malloc.c` and `arena.c`): each thread has an arena, and its blocks return there. Of
    /// free chunks of one size the first freed one is taken. A free chunk at the top of an arena that has 64 KiB goes
    /// back to the system, even if it is taken again at once (glibc's bug 17195). We differ: a chunk is only used again
    /// for blocks of its size.
    Arenas,
    /// The heap of a Windows 7 program, for blocks of 8 to 512 KiB: one for all threads; one thread at a time takes a
    /// block or returns one.
    ///
    /// Blocks above 16 KiB are the back end's, under the heap's lock; a free block of more than a page goes back to the
    /// system if 64 KiB are free without it (Russinovich and others, Windows Internals, 6th edition, part 2, chapter
    /// 10; `DeCommitFreeBlockThreshold` and `DeCommitTotalFreeThreshold`). We differ: smaller blocks are the back
    /// end's, too, and a block is only used again for one of its size.
    OneHeap,
}

/// The sizes of blocks served here by arenas or the one heap.
const SERVED: std::ops::RangeInclusive<usize> = 8 << 10..=512 << 10;

/// So many free bytes go back to the system, of an arena those at its top: `FASTBIN_CONSOLIDATION_THRESHOLD` of glibc,
/// and Windows' number for all of a heap.
const GIVEN_BACK: usize = 64 << 10;

/// Cycles for which the one heap's lock is held while a block is looked for or joined with its neighbours. An estimate.
const SEARCH_CYCLES: f64 = 400.0;

/// Further cycles while the system is called to give memory or to take it back; an estimate, as is the next one.
const SYSTEM_CYCLES: f64 = 1500.0;

/// The cost of taking a page back: its entry, and other processors' knowledge of it.
const PAGE_CYCLES: f64 = 350.0;

/// A page of memory handed out by the system.
const PAGE: usize = 4096;

/// The first touch of a page: the trap, the search for a page and its entry, in cycles. An estimate. It excludes
/// zeroing, because the first write to new memory reads it in this model.
pub(crate) const FAULT_CYCLES: f64 = 1500.0;

/// The block of each array. A block is the memory of its first array.
pub(crate) struct Heaps {
    /// By array of a heap, its block, and the number of remaining readers. Empty if the program has no array of a heap.
    arrays: Vec<LentBlock>,
    /// The first array of a heap.
    first: usize,
    /// By PU and size, the free blocks.
    free: FxHashMap<(PuId, usize), Vec<u32>>,
    malloc: Malloc,
}

/// The server of some block sizes in place of heaps.
enum Malloc {
    None,
    /// By PU, its arena.
    Arenas(FxHashMap<PuId, Arena>),
    OneHeap(OneHeap),
}

/// The cost of taking a block, beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct BlockCost {
    /// Pages new to the process.
    pub(crate) pages: usize,
    /// The wait for a lock, and the time of holding it.
    pub(crate) ns: f64,
}

/// A heap with one lock: one thread at a time takes a block or returns one.
struct OneHeap {
    clock_ghz: f64,
    /// By size, the free blocks that have their memory.
    free: FxHashMap<usize, Vec<u32>>,
    free_bytes: usize,
    /// When the lock is free.
    free_at: f64,
    /// By PU, until when it returns blocks.
    returns_until: FxHashMap<PuId, f64>,
}

impl OneHeap {
    fn new(clock_ghz: f64) -> OneHeap {
        OneHeap {
            clock_ghz,
            free: FxHashMap::default(),
            free_bytes: 0,
            free_at: 0.0,
            returns_until: FxHashMap::default(),
        }
    }

    /// Holds the lock for this number of cycles. Returns the time with the wait.
    fn lock(&mut self, cycles: f64, now: f64) -> f64 {
        self.free_at = self.free_at.max(now) + cycles / self.clock_ghz;
        self.free_at - now
    }

    /// The block for an array.
    fn take(&mut self, array: u32, bytes: usize, now: f64) -> (u32, BlockCost) {
        let Some(block) = self.free.get_mut(&bytes).and_then(Vec::pop) else {
            return (
                array,
                BlockCost { pages: bytes.div_ceil(PAGE), ns: self.lock(SEARCH_CYCLES + SYSTEM_CYCLES, now) },
            );
        };
        self.free_bytes -= bytes;
        (block, BlockCost { pages: 0, ns: self.lock(SEARCH_CYCLES, now) })
    }

    /// Takes a block back from a PU. Returns how long this takes the PU.
    fn free(&mut self, block: u32, bytes: usize, pu: PuId, now: f64) -> f64 {
        let mut cycles = SEARCH_CYCLES;
        if self.free_bytes + bytes <= GIVEN_BACK {
            self.free_bytes += bytes;
            self.free.entry(bytes).or_default().push(block);
        } else {
            cycles += SYSTEM_CYCLES + PAGE_CYCLES * bytes.div_ceil(PAGE) as f64;
        }
        let ns = self.lock(cycles, now);
        self.returns_until.insert(pu, self.free_at);
        ns
    }
}

/// A thread's memory in malloc.
#[derive(Default)]
struct Arena {
    /// In the order of their addresses.
    chunks: Vec<Chunk>,
    /// By size, the indices of free chunks, the first freed one in front.
    free: FxHashMap<usize, VecDeque<usize>>,
    /// The end of the last chunk, and of the arena's memory.
    end: usize,
    held: usize,
}

struct Chunk {
    block: u32,
    bytes: usize,
    is_free: bool,
}

impl Arena {
    /// The block for an array, and how many of its pages are new.
    fn take(&mut self, array: u32, bytes: usize) -> (u32, usize) {
        if let Some(at) = self.free.get_mut(&bytes).and_then(VecDeque::pop_front) {
            self.chunks[at].is_free = false;
            return (self.chunks[at].block, 0);
        }
        self.chunks.push(Chunk { block: array, bytes, is_free: false });
        self.end += bytes;
        let new = self.end.saturating_sub(self.held);
        self.held = self.held.max(self.end);
        (array, new.div_ceil(PAGE))
    }

    fn free(&mut self, block: u32) {
        let at = self.chunks.iter().rposition(|chunk| chunk.block == block && !chunk.is_free);
        let at = at.expect("a block returns to its arena");
        self.chunks[at].is_free = true;
        self.free.entry(self.chunks[at].bytes).or_default().push_back(at);
        while let Some(top) = self.chunks.pop_if(|chunk| chunk.is_free) {
            let at = self.chunks.len();
            self.free.get_mut(&top.bytes).expect("it is free").retain(|&other| other != at);
            self.end -= top.bytes;
        }
        if self.held - self.end >= GIVEN_BACK {
            self.held = self.end.next_multiple_of(PAGE);
        }
    }
}

#[derive(Clone)]
struct LentBlock {
    block: u32,
    readers: u32,
    /// The PU of its heap.
    owner: PuId,
}

impl Heaps {
    /// For a program on a machine with this clock rate, in GHz.
    pub(crate) fn new(program: &Program, allocator: AllocatorModel, clock_ghz: f64) -> Heaps {
        let lent = LentBlock { block: NONE, readers: 0, owner: PuId::new(0) };
        let first = program.heap.start;
        let mut arrays = vec![lent; program.heap.len()];
        if !arrays.is_empty() {
            let steps = program.tasks.iter().flat_map(|task| &task.steps);
            let works = steps.filter_map(|step| if let Step::Work(work) = step { Some(work) } else { None });
            for access in works.flat_map(|work| &work.accesses).filter(|access| !access.mode.writes()) {
                let array = program.array_at(access.start).and_then(|array| array.checked_sub(first));
                if let Some(lent) = array.and_then(|array| arrays.get_mut(array)) {
                    lent.readers += 1;
                }
            }
        }
        let malloc = match allocator {
            AllocatorModel::Heaps => Malloc::None,
            AllocatorModel::Arenas => Malloc::Arenas(FxHashMap::default()),
            AllocatorModel::OneHeap => Malloc::OneHeap(OneHeap::new(clock_ghz)),
        };
        Heaps { arrays, first, free: FxHashMap::default(), malloc }
    }

    /// Sets how often each array of a heap will be read, in their order, if the program doesn't say it beforehand.
    pub(crate) fn expect(&mut self, readers: &[u32]) {
        self.arrays.iter_mut().zip(readers).for_each(|(lent, &readers)| lent.readers = readers);
    }

    /// Whether an array belongs to a heap.
    pub(crate) fn has(&self, array: usize) -> bool {
        (self.first..self.first + self.arrays.len()).contains(&array)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.arrays.is_empty()
    }

    /// The block of an array. An array without a heap, or not written yet, is its own block.
    pub(crate) fn block(&self, array: usize) -> usize {
        let lent = array.checked_sub(self.first).and_then(|at| self.arrays.get(at));
        lent.filter(|lent| lent.block != NONE).map_or(array, |lent| lent.block as usize)
    }

    /// A PU writes an array of this size, at this time in nanoseconds: the array gets a block, unless it has one.
    pub(crate) fn take(&mut self, array: usize, bytes: usize, pu: PuId, now: f64) -> BlockCost {
        let nothing = BlockCost::default();
        let Some(lent) = array.checked_sub(self.first).and_then(|at| self.arrays.get_mut(at)) else { return nothing };
        if lent.block != NONE {
            return nothing;
        }
        lent.owner = pu;
        let taken;
        (lent.block, taken) = match &mut self.malloc {
            Malloc::Arenas(arenas) if SERVED.contains(&bytes) => {
                let (block, pages) = arenas.entry(pu).or_default().take(array as u32, bytes);
                (block, BlockCost { pages, ns: 0.0 })
            }
            Malloc::OneHeap(one) if SERVED.contains(&bytes) => one.take(array as u32, bytes, now),
            _ => {
                let back = self.free.get_mut(&(pu, bytes)).and_then(Vec::pop);
                (back.unwrap_or(array as u32), nothing)
            }
        };
        taken
    }

    /// For how much longer a PU returns blocks.
    pub(crate) fn returning_ns(&self, pu: PuId, now: f64) -> f64 {
        let Malloc::OneHeap(one) = &self.malloc else { return 0.0 };
        one.returns_until.get(&pu).map_or(0.0, |until| (until - now).max(0.0))
    }

    /// A task on this PU has finished an access to an array of this size, at this time in nanoseconds. The last reader
    /// returns the block. Returns how long this takes.
    pub(crate) fn done(&mut self, array: usize, bytes: usize, access: &Access, pu: PuId, now: f64) -> f64 {
        let Some(lent) = array.checked_sub(self.first).and_then(|at| self.arrays.get_mut(at)) else { return 0.0 };
        lent.readers -= u32::from(!access.mode.writes());
        if lent.readers == 0 && lent.block != NONE {
            // It is returned only once, regardless of later accesses to the array.
            let block = std::mem::replace(&mut lent.block, NONE);
            match &mut self.malloc {
                Malloc::Arenas(arenas) if SERVED.contains(&bytes) => arenas.entry(lent.owner).or_default().free(block),
                Malloc::OneHeap(one) if SERVED.contains(&bytes) => return one.free(block, bytes, pu, now),
                _ => self.free.entry((lent.owner, bytes)).or_default().push(block),
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArraySpec, Cost, TaskSpec, Work};
    use vicus_memory::distribution::Distribution;
    use vicus_schedule::Mode;

    #[test]
    fn a_block_is_lent_until_the_last_reference_to_its_array_is_gone() {
        let array = |number: usize| ArraySpec { base: number << 20, bytes: 4096, distribution: Distribution::Standard };
        let work = |bytes| {
            let accesses = vec![Access::new(1 << 20, bytes, Mode::Read)];
            Step::Work(Work { leaf: 0, cost: Cost::Nanos(0.0), accesses })
        };
        let task = TaskSpec { steps: vec![work(64), work(0)], ..TaskSpec::default() };
        let program =
            Program { arrays: (1..4).map(array).collect(), heap: 0..3, tasks: vec![task], ..Program::default() };
        let mut heaps = Heaps::new(&program, AllocatorModel::Heaps, 1.0);
        let reads = |bytes| Access::new(1 << 20, bytes, Mode::Read);
        heaps.take(0, 4096, PuId::new(5), 0.0);
        heaps.done(0, 4096, &reads(64), PuId::new(5), 0.0);
        heaps.take(1, 4096, PuId::new(5), 0.0);
        heaps.done(0, 4096, &reads(0), PuId::new(5), 0.0);
        heaps.take(2, 4096, PuId::new(5), 0.0);
        assert_eq!([heaps.block(1), heaps.block(2)], [1, 0], "array 0 still had it; then it was free");
    }

    #[test]
    fn an_arena_takes_what_was_freed_first_and_gives_its_top_back() {
        let mut arena = Arena::default();
        assert_eq!([0, 1, 2].map(|array| arena.take(array, 16 << 10)), [(0, 4), (1, 4), (2, 4)], "all pages are new");
        arena.free(1);
        arena.free(0);
        // Heaps would take block 0, since a cache may still have it.
        assert_eq!(arena.take(3, 16 << 10), (1, 0));
        // 48 KiB at the top stay, and are the next block's.
        arena.free(2);
        arena.free(1);
        assert_eq!((arena.end, arena.held), (0, 48 << 10));
        assert_eq!(arena.take(4, 64 << 10), (4, 4), "a quarter of it is new");
        // The case of each envelope of this size: its pages are new again and again.
        arena.free(4);
        assert_eq!(arena.take(5, 64 << 10), (5, 16));
    }

    #[test]
    fn one_heap_has_one_thread_at_a_time_and_keeps_little() {
        let (one, other) = (PuId::new(0), PuId::new(1));
        let mut heap = OneHeap::new(2.0);
        let new = |ns| BlockCost { pages: 8, ns };
        assert_eq!(heap.take(0, 32 << 10, 0.0), (0, new(950.0)), "1900 cycles, at 2 GHz");
        assert_eq!(heap.take(1, 32 << 10, 100.0), (1, new(1800.0)), "it waits for the first one");
        assert_eq!(heap.take(2, 32 << 10, 5000.0), (2, new(950.0)));
        // Two blocks stay, at 400 cycles each, and the third goes back: 400 and 1500 cycles, and 350 for each of its
        // pages.
        let mut now = 10_000.0;
        let mut free = |heap: &mut OneHeap, block, pu| {
            now += heap.free(block, 32 << 10, pu, now);
            now
        };
        assert_eq!([free(&mut heap, 0, one), free(&mut heap, 1, other)], [10_200.0, 10_400.0]);
        assert_eq!(free(&mut heap, 2, one), 10_400.0 + 950.0 + 1400.0);
        assert_eq!(heap.returns_until, FxHashMap::from_iter([(one, 12_750.0), (other, 10_400.0)]));
        assert_eq!(heap.take(3, 32 << 10, 12_000.0), (1, BlockCost { pages: 0, ns: 750.0 + 200.0 }));
        assert_eq!(heap.take(4, 32 << 10, 30_000.0), (0, BlockCost { pages: 0, ns: 200.0 }));
        assert_eq!(heap.take(5, 32 << 10, 40_000.0), (5, new(950.0)), "its memory had gone back");
    }
}
