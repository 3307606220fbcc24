//! A slab: memory cut into blocks of one size, and its header. Superblocks are slabs, and so are the runs of small
//! blocks within a superblock.
//!
//! Headers don't lie in the slabs. The headers of a node's superblocks are one array on that node: superblocks begin at
//! multiples of megabytes, so headers within them would all compete for one set of each cache. For the same reason the
//! first block of a slab begins a few lines behind the slab's beginning, a different number for each ([`colour`]).
//!
//! The list of free blocks is in the free blocks (Falt et al. §5.1). It is linked in one direction: blocks are put in
//! and taken at the front. Free blocks whose pages went back to the system are known apart ([`Bare`]): their pages go
//! back once for each time that a block was in use, and the blocks with pages are taken first.

use crate::bare::{Bare, Blocks};
use crate::sizes::LINE;
use std::cell::Cell;
use std::ptr::{NonNull, null};
use std::sync::atomic::{AtomicU32, Ordering};

/// The size and alignment of a slab of small blocks.
pub(crate) const RUN_BYTES: usize = 64 << 10;

/// [`Slab::owner`]: no heap owns it.
pub(crate) const NO_HEAP: u32 = 0;

/// [`Slab::owner`]: its heap has ended. It is in its node's pool, whose lock is held to free its blocks.
pub(crate) const ORPHAN: u32 = u32::MAX;

/// The use of a superblock's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// None, or the later part of a mapped block. All zero bytes: the kind of a fresh header.
    Unused = 0,
    /// Blocks of one class.
    Blocks = 1,
    /// Slabs of small blocks, with their headers at its beginning.
    Runs = 2,
    /// The beginning of one mapped block.
    Mapped = 3,
}

/// A free block.
struct Block {
    next: *mut Block,
}

/// A slab's header. Valid when all bytes are zero.
///
/// Every thread may read `owner`. The holder of a block may read `kind`, `class`, `start`, `block_bytes` and
/// `capacity`: these change only while the slab has no block in use. All other fields belong to the slab's heap or,
/// without a heap, to the holder of its node's pool's lock.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Slab {
    /// The number of its heap, [`NO_HEAP`] or [`ORPHAN`].
    owner: AtomicU32,
    /// Blocks in use.
    used: Cell<u32>,
    /// A free with more blocks in use than this changes only this header; see `Heap::rank`.
    pub(crate) floor: Cell<u32>,
    /// How many blocks it has.
    capacity: Cell<u32>,
    free: Cell<*mut Block>,
    /// The first block.
    start: Cell<*mut u8>,
    /// How many blocks, the first ones, were ever in use. The others have not been touched.
    carved: Cell<u32>,
    class: Cell<u16>,
    pub(crate) kind: Cell<Kind>,
    /// Whether no page behind the last block that was in use has been touched since those pages were given back.
    pub(crate) tail_is_clean: Cell<bool>,
    /// Whether its mapped memory may be other than zero.
    pub(crate) dirty: Cell<bool>,
    /// Bytes of each block; of a mapped one, the usable bytes.
    block_bytes: Cell<usize>,
    /// The next slab in its chain: of equally occupied slabs, of released ones, of orphans, or of waiting mapped
    /// blocks.
    next: Cell<*const Slab>,
    previous: Cell<*const Slab>,
    /// When it was released, in the caller's ticks.
    pub(crate) released: Cell<u64>,
    /// The committed bytes of a mapped block.
    pub(crate) committed: Cell<usize>,
    /// The free blocks whose pages went back to the system.
    bare: Bare,
}

// A header is two lines: the first has all fields read by an allocation and a free.
const _: () = assert!(size_of::<Slab>() == 128);

impl Slab {
    /// The header of a slab without memory: full, and without an owner.
    pub(crate) fn none() -> Slab {
        Slab {
            owner: AtomicU32::new(NO_HEAP),
            used: Cell::new(0),
            floor: Cell::new(u32::MAX),
            capacity: Cell::new(0),
            free: Cell::new(std::ptr::null_mut()),
            start: Cell::new(std::ptr::null_mut()),
            carved: Cell::new(0),
            class: Cell::new(0),
            kind: Cell::new(Kind::Unused),
            tail_is_clean: Cell::new(false),
            dirty: Cell::new(false),
            block_bytes: Cell::new(0),
            next: Cell::new(null()),
            previous: Cell::new(null()),
            released: Cell::new(0),
            committed: Cell::new(0),
            bare: Bare::none(),
        }
    }

    /// Makes it a slab of `capacity` free blocks, none of them touched.
    pub(crate) fn cut(&self, kind: Kind, class: usize, start: *mut u8, block_bytes: usize, capacity: u32) {
        debug_assert_eq!(self.used(), 0, "a slab that is cut anew has no block in use");
        self.kind.set(kind);
        self.class.set(class as u16);
        self.start.set(start);
        self.block_bytes.set(block_bytes);
        self.capacity.set(capacity);
        self.carved.set(0);
        self.tail_is_clean.set(false);
        self.free.set(std::ptr::null_mut());
        self.bare.clear();
        self.floor.set(u32::MAX);
    }

    #[inline(always)]
    pub(crate) fn owner(&self) -> u32 {
        // Relaxed: a heap that reads its own number wrote it itself. Another thread then goes through that heap's
        // mailbox or the pool's lock. These order its further accesses, and there it learns if the number was out of
        // date.
        self.owner.load(Ordering::Relaxed)
    }

    pub(crate) fn set_owner(&self, owner: u32) {
        self.owner.store(owner, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn used(&self) -> u32 {
        self.used.get()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.used.get() == self.capacity.get()
    }

    pub(crate) fn class(&self) -> usize {
        usize::from(self.class.get())
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes.get()
    }

    /// Changes how much of a mapped block is usable.
    pub(crate) fn set_block_bytes(&self, bytes: usize) {
        self.block_bytes.set(bytes);
    }

    /// Bytes of all its blocks together.
    pub(crate) fn blocks_bytes(&self) -> usize {
        self.block_bytes.get() * self.capacity.get() as usize
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.get()
    }

    /// Takes the block freed last.
    #[inline(always)]
    pub(crate) fn take_freed(&self) -> Option<*mut u8> {
        let block = self.free.get();
        if block.is_null() {
            return None;
        }
        #[expect(unsafe_code, reason = "the list is in the blocks")]
        // SAFETY: it is in the list of free blocks, so `put` wrote it, and it was not used since.
        self.free.set(unsafe { (*block).next });
        self.used.set(self.used.get() + 1);
        Some(block.cast())
    }

    /// Takes a free block, the way that costs least: one with its pages, one without, or the first unused one.
    pub(crate) fn take(&self) -> Option<*mut u8> {
        self.take_freed().or_else(|| self.take_bare()).or_else(|| self.take_untouched())
    }

    fn take_bare(&self) -> Option<*mut u8> {
        self.bare.take(self.blocks()).inspect(|_| self.used.set(self.used.get() + 1))
    }

    /// Takes the first unused block.
    pub(crate) fn take_untouched(&self) -> Option<*mut u8> {
        let carved = self.carved.get();
        if carved == self.capacity.get() {
            return None;
        }
        self.carved.set(carved + 1);
        self.used.set(self.used.get() + 1);
        // Its end lies in the slab: `cut` was given that many blocks.
        Some(self.start.get().wrapping_add(carved as usize * self.block_bytes.get()))
    }

    /// The address behind the last block that was ever in use.
    pub(crate) fn untouched(&self) -> usize {
        self.start.get().addr() + self.carved.get() as usize * self.block_bytes.get()
    }

    /// Whether a free block was in use since the last call of [`Slab::strip`].
    pub(crate) fn has_freed(&self) -> bool {
        !self.free.get().is_null()
    }

    /// Calls `give_back` with the begin and the end of stretches of pages that are in free blocks alone, and in blocks
    /// that were in use since the last call of this. The caller has the slab, whose blocks are larger than a `page` and
    /// than [`DIRECTORY_BYTES`](crate::bare::DIRECTORY_BYTES).
    pub(crate) fn strip(&self, page: usize, give_back: impl FnMut(usize, usize)) {
        let take_free = |take: &mut dyn FnMut(*mut u8) -> bool| {
            let mut next = self.free.replace(std::ptr::null_mut());
            while let Some(block) = NonNull::new(next) {
                #[expect(unsafe_code, reason = "the list is in the blocks")]
                // SAFETY: it is in the list of free blocks, so `put` wrote it, and it was not used since. `take` may
                // write to it, and is called when the link was read.
                unsafe {
                    next = (*block.as_ptr()).next;
                    if !take(block.as_ptr().cast()) {
                        (*block.as_ptr()).next = self.free.get();
                        self.free.set(block.as_ptr());
                    }
                }
            }
        };
        self.bare.strip(self.blocks(), page, take_free, give_back);
    }

    fn blocks(&self) -> Blocks {
        Blocks { start: self.start.get(), bytes: self.block_bytes.get(), count: self.capacity.get() }
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// `block` is one of its blocks, in use, and not used after this call; the caller has the slab.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the list is in the blocks")]
    pub(crate) unsafe fn put(&self, block: *mut u8) {
        let block = block.cast::<Block>();
        // SAFETY: a block is aligned to a line and larger than a pointer; it is not used any more, by the caller's
        // promise.
        unsafe { block.write(Block { next: self.free.get() }) };
        self.free.set(block);
        self.used.set(self.used.get() - 1);
    }

    /// The block around an address within this slab. `None` before the first and after the last. Every thread may call
    /// it: it reads only fields that don't change while a block is in use.
    pub(crate) fn block_of(&self, address: *mut u8) -> Option<*mut u8> {
        let offset = address.addr().checked_sub(self.start.get().addr())?;
        let index = offset / self.block_bytes.get().max(1);
        (index < self.capacity.get() as usize).then(|| self.start.get().wrapping_add(index * self.block_bytes.get()))
    }
}

/// The offset of the first block of slab `index`, if `slack` bytes are to spare: successive slabs by successive lines.
pub(crate) fn colour(index: usize, slack: usize) -> usize {
    index % (slack / LINE + 1) * LINE
}

/// Slabs in a chain, linked through their headers. The last one put in comes first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain {
    first: *const Slab,
}

impl Chain {
    pub(crate) const EMPTY: Chain = Chain { first: null() };

    pub(crate) fn first<'a>(&self) -> Option<&'a Slab> {
        // SAFETY: headers live as long as their memory, and longer than every chain: chains are in heaps, and these
        // keep the memory alive, and in its pools.
        #[expect(unsafe_code, reason = "headers are linked by pointers")]
        unsafe {
            self.first.as_ref()
        }
    }

    pub(crate) fn iter<'a>(&self) -> impl Iterator<Item = &'a Slab> + use<'a> {
        std::iter::successors(self.first(), |slab: &&'a Slab| Chain { first: slab.next.get() }.first())
    }

    /// The slab longest in it.
    pub(crate) fn last<'a>(&self) -> Option<&'a Slab> {
        Chain { first: self.first()?.previous.get() }.first()
    }

    pub(crate) fn push(&mut self, slab: &Slab) {
        debug_assert!(slab.previous.get().is_null(), "a slab is in one chain");
        let this = std::ptr::from_ref(slab);
        slab.next.set(self.first);
        slab.previous.set(self.first().map_or(this, |first| first.previous.replace(this)));
        self.first = this;
    }

    /// Takes out a slab of this chain.
    pub(crate) fn remove(&mut self, slab: &Slab) {
        let (previous, next) = (slab.previous.get(), slab.next.get());
        let after = Chain { first: next }.first();
        if std::ptr::eq(self.first, slab) {
            self.first = next;
        } else if let Some(before) = (Chain { first: previous }).first() {
            before.next.set(next);
        } else {
            debug_assert!(false, "a slab is taken from the chain that it is in");
        }
        // The one behind it, or else the first one, since it knows the last one.
        if let Some(knows_previous) = after.or(self.first()) {
            knows_previous.previous.set(previous);
        }
        slab.next.set(null());
        slab.previous.set(null());
    }

    pub(crate) fn pop<'a>(&mut self) -> Option<&'a Slab> {
        let slab = self.first()?;
        self.remove(slab);
        Some(slab)
    }
}

/// Slabs by their number of blocks in use, so the most occupied one with room is found at once.
///
/// Falt et al. §5.1 have a priority queue. Occupancy is a small number, so a chain for each number and a tree of bits
/// for the chains with members do every operation in constant time.
#[derive(Debug)]
pub(crate) struct Ranks {
    /// By blocks in use. The last chain has the full slabs.
    chains: Box<[Chain]>,
    /// For each chain but the last, whether it has a member; for each word of this, whether it is not zero; and so on.
    bits: Vec<Box<[u64]>>,
}

impl Ranks {
    /// For slabs of `capacity` blocks.
    pub(crate) fn new(capacity: u32) -> Ranks {
        let mut bits = Vec::new();
        let mut words = capacity as usize;
        while bits.is_empty() || words > 1 {
            words = words.div_ceil(64).max(1);
            bits.push(vec![0; words].into());
        }
        Ranks { chains: vec![Chain::EMPTY; capacity as usize + 1].into(), bits }
    }

    pub(crate) fn insert(&mut self, slab: &Slab) {
        let mut at = slab.used() as usize;
        self.chains[at].push(slab);
        if !slab.is_full() {
            for level in &mut self.bits {
                level[at / 64] |= 1 << (at % 64);
                at /= 64;
            }
        }
    }

    /// Takes out a slab whose number of blocks in use has not changed since it was put in.
    pub(crate) fn remove(&mut self, slab: &Slab) {
        let mut at = slab.used() as usize;
        self.chains[at].remove(slab);
        if self.chains[at].first().is_none() && !slab.is_full() {
            for level in &mut self.bits {
                level[at / 64] &= !(1 << (at % 64));
                if level[at / 64] != 0 {
                    break;
                }
                at /= 64;
            }
        }
    }

    /// All slabs. It looks at every chain.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slab> {
        self.chains.iter().flat_map(Chain::iter)
    }

    /// The most blocks in use of all slabs with room.
    pub(crate) fn highest(&self) -> Option<u32> {
        let mut at = 0;
        for level in self.bits.iter().rev() {
            if level[at] == 0 {
                return None;
            }
            at = at * 64 + 63 - level[at].leading_zeros() as usize;
        }
        Some(at as u32)
    }

    /// The slabs with `used` blocks in use.
    pub(crate) fn chain(&self, used: u32) -> &Chain {
        &self.chains[used as usize]
    }

    /// Takes out any slab: first those with room.
    pub(crate) fn pop<'a>(&mut self) -> Option<&'a Slab> {
        let used = self.highest().unwrap_or(self.chains.len() as u32 - 1);
        let slab = self.chain(used).first()?;
        self.remove(slab);
        Some(slab)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use rand_pcg::rand_core::{RngCore, SeedableRng};

    fn slab(capacity: u32) -> Slab {
        let slab = Slab::none();
        slab.cut(Kind::Blocks, 0, std::ptr::dangling_mut(), 64, capacity);
        slab
    }

    #[test]
    fn the_highest_rank_is_that_of_a_naive_search() {
        let seed = 7;
        for capacity in [1, 2, 63, 64, 65, 1280, 5000] {
            let mut chance = rand_pcg::Pcg64::seed_from_u64(seed);
            let slabs: Vec<Slab> = (0..20).map(|_| slab(capacity)).collect();
            let mut ranks = Ranks::new(capacity);
            let mut inside = [false; 20];
            for step in 0..if cfg!(miri) { 60 } else { 20_000 } {
                let at = chance.next_u32() as usize % 20;
                if inside[at] {
                    ranks.remove(&slabs[at]);
                } else {
                    // Some have equal numbers, so chains have several members.
                    let used = [chance.next_u32() % (capacity + 1), capacity, capacity / 2][step % 3];
                    slabs[at].used.set(used);
                    ranks.insert(&slabs[at]);
                }
                inside[at] = !inside[at];
                let with_room = slabs.iter().zip(inside).filter(|(slab, inside)| *inside && !slab.is_full());
                let highest = with_room.map(|(slab, _)| slab.used()).max();
                assert_eq!(ranks.highest(), highest, "capacity {capacity}, step {step}, seed {seed}");
                if let Some(used) = highest {
                    assert_eq!(ranks.chain(used).first().unwrap().used(), used);
                }
            }
            let left = std::iter::from_fn(|| ranks.pop()).count();
            assert_eq!(left, inside.iter().filter(|inside| **inside).count());
            assert_eq!(ranks.highest(), None);
        }
    }

    #[test]
    fn blocks_come_back_youngest_first_and_fresh_ones_in_order() {
        let mut memory = vec![0u64; 8 * 3];
        let slab = Slab::none();
        let start = memory.as_mut_ptr().cast::<u8>();
        slab.cut(Kind::Blocks, 0, start, 64, 3);
        assert!(slab.take_freed().is_none());
        let blocks: Vec<*mut u8> = std::iter::from_fn(|| slab.take_untouched()).collect();
        assert_eq!(blocks, [start, start.wrapping_add(64), start.wrapping_add(128)]);
        assert!(slab.is_full());
        assert_eq!(slab.block_of(start.wrapping_add(127)), Some(blocks[1]));
        assert_eq!(slab.block_of(start.wrapping_add(192)), None);
        for &block in &blocks {
            #[expect(unsafe_code, reason = "frees")]
            // SAFETY: each is in use, and freed once.
            unsafe {
                slab.put(block)
            };
        }
        let again: Vec<*mut u8> = std::iter::from_fn(|| slab.take_freed()).collect();
        assert_eq!(again, [blocks[2], blocks[1], blocks[0]]);
    }

    #[test]
    fn blocks_are_stripped_once_and_taken_behind_those_with_pages() {
        const SIZE: usize = 8 << 10;
        let mut memory = vec![0u64; SIZE / 8 * 5];
        let slab = Slab::none();
        let start = memory.as_mut_ptr().cast::<u8>();
        slab.cut(Kind::Blocks, 0, start.wrapping_add(start.align_offset(4096)), SIZE, 4);
        let blocks: Vec<*mut u8> = (0..3).map_while(|_| slab.take()).collect();
        #[expect(unsafe_code, reason = "frees")]
        // SAFETY: tests free blocks in use.
        let put = |at: usize| unsafe { slab.put(blocks[at]) };
        let stripped = || {
            let mut all = Vec::new();
            slab.strip(4096, |begin, end| all.push([begin, end].map(|at| at - blocks[0].addr())));
            all
        };
        (0..2).for_each(put);
        assert_eq!(stripped(), [[0, 8192], [12288, 16384]], "the one freed last is the directory");
        assert!(stripped().is_empty() && !slab.has_freed());
        put(2);
        assert_eq!([0; 4].map(|_| slab.take().unwrap())[..3], [blocks[2], blocks[0], blocks[1]]);
        assert!(slab.is_full() && slab.take().is_none());
        // The last one freed is the same as before, but all were in use.
        [1, 0].into_iter().for_each(put);
        assert_eq!(stripped(), [[4096, 16384]]);
    }

    #[test]
    fn neighbours_begin_on_different_lines() {
        assert_eq!([0, 1, 2, 3].map(|index| colour(index, 128)), [0, 64, 128, 0]);
        assert_eq!(colour(5, 63), 0);
    }
}
