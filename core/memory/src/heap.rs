//! The local allocator: one seat or thread allocates from it without a lock.
//!
//! Falt et al. §5.1. For each class the heap has superblocks and allocates from the most occupied one with room; within
//! it, from the block freed last. This superblock is the class's *current* one; the others are in [`Ranks`]. An
//! allocation from it changes only its header, and so does a free as long as it stays the most occupied one: its header
//! has the number of blocks in use below which it might not be (`floor`).
//!
//! We differ from the paper in its doubly linked list of free blocks (one direction is enough), and in its return of
//! every empty superblock: one of each class stays, for the next block, until [`Heap::trim`].

mod idle;

use crate::foreign::{Batch, Foreign, Rest};
use crate::memory::{AllocError, Memory, MemoryOptions};
use crate::sizes::LINE;
use crate::slab::{Kind, NO_HEAP, ORPHAN, RUN_BYTES, Ranks, Slab};
use crate::superblock::{MapRoom, capacity};
use std::alloc::Layout;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use vicus_topology::NodeId;

/// A heap on one node, for one seat or thread at a time.
///
/// All its blocks lie on its node, as far as [`WhenFull`](crate::WhenFull) allows. Any heap of the same [`Memory`] may
/// free them; they come back to their owner when it calls [`Heap::finish_task`] or runs out. When a heap is dropped,
/// its superblocks with blocks in use wait for the next heap of their node.
///
/// **The memory of an idle heap.** Tables: 8 bytes for each block that a superblock of each class can have, about 200
/// KiB with the default options. Superblocks: after [`Heap::trim`] only those with blocks in use; before it, one empty
/// one more for each class that was used, with the pages that blocks have touched. After [`Heap::give_back_pages`] a
/// superblock has the pages of its blocks in use, and at most two for each other block that was in use since it was
/// cut. Other heaps' blocks: after [`Heap::finish_task`] none, before it at most 16 batches of
/// [`crate::MemoryOptions::batch_bytes`] and a block.
///
/// ```
/// use std::alloc::Layout;
/// use std::sync::Arc;
/// use vicus_memory::{FakePages, Heap, Memory, MemoryOptions, Region};
/// use vicus_topology::{NodeId, Topology};
///
/// let machine = Topology::parse("node:2 core:1").unwrap();
/// let options = MemoryOptions { range_bytes: 32 << 20, superblock_bytes: 1 << 20, ..MemoryOptions::default() };
/// let memory = Memory::new(Arc::new(FakePages::new(2)), &machine, options).unwrap();
/// let mut heap = Heap::new(&memory, NodeId::new(1)).unwrap();
/// let layout = Layout::from_size_align(10_000, 8).unwrap();
/// let block = heap.alloc(layout).unwrap();
/// assert_eq!(memory.node_of(block.as_ptr()), Some(NodeId::new(1)));
/// unsafe { heap.free(block, layout) };
/// ```
#[derive(Debug)]
pub struct Heap {
    local: Local,
    memory: Arc<Memory>,
    outbox: Outbox,
    rest: Rest,
}

#[expect(unsafe_code, reason = "it has pointers to headers")]
// SAFETY: a heap's slabs and its held-back blocks are its own, on any thread; one thread at a time uses the heap, as
// its methods take `&mut self`. The `Rc` is never cloned.
unsafe impl Send for Heap {}

/// The classes: the part of a heap that needs no other heap.
#[derive(Debug)]
struct Local {
    /// This heap's number in the headers of its slabs.
    number: u32,
    node: NodeId,
    /// By class; the last one is for runs, the slabs of small blocks.
    current: Box<[Current]>,
    /// By class: all slabs but the current one.
    ranks: Box<[Ranks]>,
    /// Stands in for a missing current slab: it is full. It is no `Box`, since a `Box` would claim to be the only
    /// pointer to it.
    none: Rc<Slab>,
}

/// The slab a class allocates from. Invariant: if it has room, no other slab of the class with room is more occupied.
///
/// It also has the address of the slab's memory: most frees are of a block of the current slab, and a free that finds
/// the header by the class needs no arithmetic on the block's address. (The next allocation's load of the list's head
/// would have to wait for the result: 9 ns a pair instead of 5.)
#[derive(Clone, Copy, Debug)]
struct Current {
    slab: NonNull<Slab>,
    begin: usize,
    bytes: usize,
}

impl Current {
    /// For a class without a slab.
    fn none(slab: &Slab) -> Current {
        Current { slab: NonNull::from(slab), begin: 0, bytes: 0 }
    }

    #[inline(always)]
    fn has(self, block: NonNull<u8>) -> bool {
        block.addr().get().wrapping_sub(self.begin) < self.bytes
    }

    #[inline(always)]
    fn slab<'a>(self) -> &'a Slab {
        #[expect(unsafe_code, reason = "headers are linked by pointers")]
        // SAFETY: headers live as long as the memory, kept alive by the heap; `none` lives as long as the heap. All its
        // fields are cells.
        unsafe {
            self.slab.as_ref()
        }
    }
}

impl Heap {
    /// A heap on a node.
    ///
    /// # Errors
    /// There is no such node, or there are too many heaps.
    pub fn new(memory: &Arc<Memory>, node: NodeId) -> Result<Heap, AllocError> {
        if node.index() >= memory.nodes() {
            return Err(AllocError::NoSuchNode { node, nodes: memory.nodes() });
        }
        let number = memory.doors.open().ok_or(AllocError::Heaps(memory.options.heaps))?;
        let sizes = &memory.sizes;
        let superblock = memory.options.superblock_bytes;
        let capacity = |class: usize| match class {
            _ if class == sizes.classes() => capacity(superblock, RUN_BYTES),
            _ if class < sizes.small() => (RUN_BYTES / sizes.bytes(class)) as u32,
            _ => capacity(superblock, sizes.bytes(class)),
        };
        let none = Rc::new(Slab::none());
        let current = vec![Current::none(&none); sizes.classes() + 1].into();
        let ranks = (0..=sizes.classes()).map(|class| Ranks::new(capacity(class))).collect();
        let local = Local { number, node, current, ranks, none };
        Ok(Heap { local, memory: memory.clone(), outbox: Outbox::default(), rest: Rest::NONE })
    }

    /// The node it asks for memory.
    pub fn node(&self) -> NodeId {
        self.local.node
    }

    /// The memory this heap belongs to.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Allocates a block: of the smallest class that fits, or mapped if the request is larger than all classes. Its
    /// content is arbitrary. It is usable until it is freed, by this heap or another one, or until the last heap and
    /// the last owner of the [`Memory`] are gone.
    ///
    /// # Errors
    /// The node has no memory left, nor have the others that may be asked; or no range has enough addresses.
    #[inline(always)]
    pub fn alloc(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        if layout.align() <= LINE
            && let Some(current) = self.current_of(layout.size())
            && let Some(block) = current.slab().take_freed()
        {
            let block = not_null(block);
            self.memory.ledger.taken(block, || self.memory.usable_bytes(block));
            return Ok(block);
        }
        self.alloc_slow(layout, MapRoom::Usual).map(|(block, _)| block)
    }

    /// The current slab for a request of `size` bytes.
    #[inline(always)]
    fn current_of(&self, size: usize) -> Option<Current> {
        self.memory.sizes.class_of(size).map(|class| self.local.current[class])
    }

    /// [`Heap::alloc`], and all bytes of the layout are zero.
    ///
    /// # Errors
    /// Those of [`Heap::alloc`].
    pub fn alloc_zeroed(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        let (block, zero) = self.alloc_slow(layout, MapRoom::Usual)?;
        if !zero {
            #[expect(unsafe_code, reason = "fills a fresh block")]
            // SAFETY: the block has this number of bytes and was just allocated.
            unsafe {
                block.write_bytes(0, layout.size());
            }
        }
        Ok(block)
    }

    /// A block of any size and alignment, and whether its bytes are zero.
    #[cold]
    #[inline(never)]
    fn alloc_slow(&mut self, layout: Layout, room: MapRoom) -> Result<(NonNull<u8>, bool), AllocError> {
        // Blocks are aligned to a line: with this number of extra bytes, one of their addresses is aligned as asked.
        let with_room = layout.size().saturating_add(layout.align().saturating_sub(LINE));
        let (block, zero) = match self.memory.sizes.class_of(with_room) {
            Some(class) => {
                let block = not_null(self.take_slow(class)?);
                let lead = block.addr().get().next_multiple_of(layout.align()) - block.addr().get();
                #[expect(unsafe_code, reason = "an offset within the block")]
                // SAFETY: the class was chosen with room for it.
                (unsafe { block.add(lead) }, false)
            }
            None => self.memory.superblocks.map(self.local.node, layout, room)?,
        };
        self.memory.ledger.taken(block, || self.memory.usable_bytes(block));
        Ok((block, zero))
    }

    /// A block of the most occupied slab with room, or of a new one.
    fn take_slow(&mut self, class: usize) -> Result<*mut u8, AllocError> {
        let mut collected = false;
        loop {
            let slab = self.local.current[class].slab();
            if let Some(block) = slab.take() {
                return Ok(block);
            }
            if self.local.ranks[class].highest().is_some() {
                self.local.rank(&self.memory, class);
            } else if !collected {
                // Other heaps may have freed some since.
                collected = true;
                self.collect();
            } else {
                let slab = self.fresh(class)?;
                self.local.make_current(class, slab);
                if slab.kind.get() == Kind::Runs {
                    // A superblock left by an ended heap has runs in use.
                    self.memory.superblocks.runs(slab).for_each(|run| self.local.adopt_run(&self.memory, run));
                }
                self.local.rank(&self.memory, class);
            }
        }
    }

    /// A slab with room, new to this heap.
    fn fresh<'a>(&mut self, class: usize) -> Result<&'a Slab, AllocError> {
        let Local { number, node, .. } = self.local;
        let superblocks = &self.memory.superblocks;
        let sizes = &self.memory.sizes;
        if class < sizes.small() {
            let start = self.take_slow(sizes.classes())?;
            let superblocks = &self.memory.superblocks;
            let slab = self.memory.slab_of(not_null(start));
            let (run, _) = superblocks.run(slab, start);
            let bytes = self.memory.sizes.bytes(class);
            run.cut(Kind::Blocks, class, start, bytes, (RUN_BYTES / bytes) as u32);
            return Ok(run);
        }
        if let Some(slab) = superblocks.adopt(node, class, number) {
            return Ok(slab);
        }
        let slab = superblocks.take(node, number)?;
        if class == sizes.classes() {
            superblocks.cut_runs(slab, class);
        } else {
            superblocks.cut(slab, class, sizes.bytes(class));
        }
        Ok(slab)
    }

    /// Frees a block of any heap.
    ///
    /// # Panics
    /// In debug builds, if it is not in use; in all builds, if no heap of this memory can have handed it out.
    ///
    /// # Safety
    /// It came from a heap of the same [`Memory`] with this layout, or with the one last given to [`Heap::realloc`] for
    /// it; it is in use, and is not used after this call.
    #[inline(always)]
    #[expect(unsafe_code, reason = "frees a block")]
    pub unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        if layout.align() <= LINE
            && let Some(current) = self.current_of(layout.size())
            && current.has(block)
        {
            let slab = current.slab();
            if slab.used() > slab.floor.get() {
                self.memory.ledger.freed(block);
                // SAFETY: says the caller; the slab is this heap's.
                unsafe { slab.put(self.memory.superblocks.ranges.whole(block.as_ptr())) };
                return;
            }
        }
        // SAFETY: says the caller.
        unsafe { self.free_slow(block, layout.align() <= LINE) };
    }

    /// Frees a block whose layout the caller doesn't know. Slower than [`Heap::free`] by a division.
    ///
    /// # Panics
    /// Those of [`Heap::free`].
    ///
    /// # Safety
    /// Those of [`Heap::free`], with any layout.
    #[expect(unsafe_code, reason = "frees a block")]
    pub unsafe fn free_any(&mut self, block: NonNull<u8>) {
        // SAFETY: says the caller.
        unsafe { self.free_slow(block, false) };
    }

    /// # Safety
    /// Those of [`Heap::free`]; with `at_start`, the address is the block's beginning.
    #[cold]
    #[inline(never)]
    #[expect(unsafe_code, reason = "frees a block")]
    unsafe fn free_slow(&mut self, block: NonNull<u8>, at_start: bool) {
        self.memory.ledger.freed(block);
        let memory = &*self.memory;
        let (slab, block) = match at_start {
            true => (memory.slab_of(block), not_null(memory.superblocks.ranges.whole(block.as_ptr()))),
            false => memory.find(block),
        };
        // SAFETY: the caller's, with the block's beginning.
        unsafe {
            match slab.owner() {
                owner if owner == self.local.number => self.local.put(memory, slab, block),
                NO_HEAP | ORPHAN => memory.send_home(self.local.number, slab, block),
                owner => self.send(owner, slab, block),
            }
        }
    }

    /// # Safety
    /// The block is in use, begins there, and is not used after this call.
    #[expect(unsafe_code, reason = "frees a block")]
    unsafe fn send(&mut self, owner: u32, slab: &Slab, block: NonNull<u8>) {
        if self.memory.options.foreign == Foreign::Bins {
            // SAFETY: says the caller.
            return unsafe { self.memory.send_home(self.local.number, slab, block) };
        }
        let bytes = self.memory.small_slab(slab, block).block_bytes();
        let number = owner as usize % OUTBOX;
        self.outbox.used |= 1 << number;
        let place = &mut self.outbox.batches[number];
        if let Some(other) = place.take_if(|held| held.owner != owner) {
            other.send(&self.memory, self.local.number);
        }
        match place {
            Some(held) => {
                // SAFETY: says the caller.
                unsafe { held.batch.push(block) };
                held.blocks += 1;
                held.bytes += bytes;
            }
            // SAFETY: says the caller.
            None => *place = Some(ForeignBlocks { owner, batch: unsafe { Batch::of(block) }, blocks: 1, bytes }),
        }
        let MemoryOptions { batch_blocks, batch_bytes, .. } = self.memory.options;
        if let Some(full) = place.take_if(|held| held.blocks >= batch_blocks || held.bytes >= batch_bytes) {
            full.send(&self.memory, self.local.number);
        }
    }

    /// Changes a block's size: in place if the block has room and would be at least half used, or if it is mapped and
    /// the addresses behind it are free; else by a copy.
    ///
    /// # Errors
    /// Those of [`Heap::alloc`]; the old block is then unchanged.
    ///
    /// # Safety
    /// Those of [`Heap::free`] for the old block, if the result is not an error.
    #[expect(unsafe_code, reason = "copies and frees a block")]
    pub unsafe fn realloc(&mut self, block: NonNull<u8>, old: Layout, size: usize) -> Result<NonNull<u8>, AllocError> {
        let slab = self.memory.slab_of(block);
        if slab.kind.get() == Kind::Mapped && self.memory.sizes.class_of(size).is_none() {
            // SAFETY: the caller's mapped block; from now on the caller uses no more than the new size.
            let resized = unsafe { self.memory.superblocks.resize(slab, size) };
            if resized {
                self.memory.ledger.resized(block, || self.memory.usable_bytes(block));
                return Ok(block);
            }
        }
        let usable = self.memory.usable_bytes(block);
        let same_class = self.memory.sizes.class_of(size).is_some_and(|class| self.memory.sizes.bytes(class) == usable);
        if size <= usable && (same_class || size >= usable / 2) {
            return Ok(block);
        }
        let too_large = AllocError::TooLarge { bytes: size, align: old.align() };
        let new = Layout::from_size_align(size, old.align()).map_err(|_| too_large)?;
        let (copy, _) = self.alloc_slow(new, MapRoom::Much)?;
        // SAFETY: both blocks have this number of bytes and are different; the old one is not used after this call.
        unsafe {
            copy.copy_from_nonoverlapping(block, old.size().min(size));
            self.free(block, old);
        }
        Ok(copy)
    }

    /// Sends home the blocks it has freed for other heaps, and takes back its own blocks freed by others. To be called
    /// when a task has finished, or now and then.
    pub fn finish_task(&mut self) {
        // Mostly there are none: looking at all places would read a kibibyte for each task.
        let mut used = std::mem::take(&mut self.outbox.used);
        while used != 0 {
            if let Some(held) = self.outbox.batches[used.trailing_zeros() as usize].take() {
                held.send(&self.memory, self.local.number);
            }
            used &= used - 1;
        }
        self.collect();
    }

    fn collect(&mut self) {
        let Heap { local, memory, rest, .. } = self;
        memory.doors.collect(local.number, rest, |block| local.take_in(memory, block));
    }

    /// Gives back every superblock without blocks in use. To be called before a long sleep.
    pub fn trim(&mut self) {
        self.finish_task();
        // Small classes first: their slabs are blocks of the last class.
        (0..self.local.current.len()).for_each(|class| self.local.trim(&self.memory, class));
    }
}

impl Local {
    /// Takes back a block from the mail, or sends it on: its superblock may have another owner by now.
    fn take_in(&mut self, memory: &Memory, block: NonNull<u8>) {
        let slab = memory.slab_of(block);
        #[expect(unsafe_code, reason = "frees a block")]
        // SAFETY: a block in the mail is in use, begins there, and only the mailbox held it.
        unsafe {
            match slab.owner() == self.number {
                true => self.put(memory, slab, block),
                false => memory.send_home(self.number, slab, block),
            }
        }
    }

    /// Takes back a block of its own.
    ///
    /// # Safety
    /// The superblock is this heap's; the block is one of it, in use, and is not used after this call.
    #[expect(unsafe_code, reason = "frees a block")]
    unsafe fn put(&mut self, memory: &Memory, superblock: &Slab, block: NonNull<u8>) {
        let slab = memory.small_slab(superblock, block);
        if slab.used() > slab.floor.get() {
            // SAFETY: says the caller.
            return unsafe { slab.put(block.as_ptr()) };
        }
        // SAFETY: says the caller.
        unsafe { self.put_in(memory, slab, block) };
    }

    /// Takes back a block of a slab, possibly a run, and ranks the slab anew if needed.
    ///
    /// # Safety
    /// Those of `put`, for that slab.
    #[expect(unsafe_code, reason = "frees a block")]
    unsafe fn put_in(&mut self, memory: &Memory, slab: &Slab, block: NonNull<u8>) {
        let class = slab.class();
        let is_current = std::ptr::eq(slab, self.current[class].slab());
        if !is_current {
            self.ranks[class].remove(slab);
        }
        // SAFETY: says the caller.
        unsafe { slab.put(block.as_ptr()) };
        if !is_current {
            self.ranks[class].insert(slab);
        }
        self.rank(memory, class);
    }

    fn adopt_run(&mut self, memory: &Memory, run: &Slab) {
        self.ranks[run.class()].insert(run);
        self.rank(memory, run.class());
    }

    /// Makes the most occupied slab with room the current one, lets at most one slab stay empty, and sets the floor.
    fn rank(&mut self, memory: &Memory, class: usize) {
        let current = self.current[class].slab();
        if let Some(highest) = self.ranks[class].highest()
            && (current.is_full() || highest > current.used())
        {
            let next = self.ranks[class].chain(highest).first().expect("the highest rank has a slab");
            self.ranks[class].remove(next);
            self.make_current(class, next);
        }
        let current = self.current[class].slab();
        loop {
            let mut empty = self.ranks[class].chain(0).iter().filter(|slab| !slab.is_full());
            let Some(slab) = empty.next() else { break };
            if current.used() > 0 && empty.next().is_none() {
                break;
            }
            self.ranks[class].remove(slab);
            self.release(memory, slab);
        }
        // A free below the next slab's occupancy would make the next slab the most occupied. A free that empties the
        // current slab must look for another empty one. And a run is freed by its own slab, not as its superblock's
        // block.
        let floor = self.ranks[class].highest().map_or(0, |highest| highest.max(1));
        current.floor.set(if class == memory.sizes.classes() { u32::MAX } else { floor });
    }

    fn make_current(&mut self, class: usize, slab: &Slab) {
        let current = self.current[class].slab();
        if !std::ptr::eq(current, &*self.none) {
            current.floor.set(u32::MAX);
            self.ranks[class].insert(current);
        }
        let (begin, bytes) = (slab.start().addr(), slab.blocks_bytes());
        self.current[class] = Current { slab: NonNull::from(slab), begin, bytes };
    }

    /// Gives back a slab without blocks in use, neither current nor ranked.
    fn release(&mut self, memory: &Memory, slab: &Slab) {
        if slab.class() >= memory.sizes.small() {
            return memory.superblocks.release(slab);
        }
        slab.kind.set(Kind::Unused);
        let start = not_null(slab.start());
        #[expect(unsafe_code, reason = "frees a run")]
        // SAFETY: a run is a block of its superblock, this heap's as the run was; the run has no block in use.
        unsafe {
            self.put_in(memory, memory.slab_of(start), start);
        }
    }

    fn trim(&mut self, memory: &Memory, class: usize) {
        self.rank(memory, class);
        let current = self.current[class].slab();
        if current.used() == 0 && !std::ptr::eq(current, &*self.none) {
            self.current[class] = Current::none(&self.none);
            self.release(memory, current);
            self.rank(memory, class);
        }
        // The current one may have been in use while an empty one stayed beside it.
        while let Some(empty) = self.ranks[class].chain(0).first() {
            self.ranks[class].remove(empty);
            self.release(memory, empty);
        }
        self.rank(memory, class);
    }
}

impl Drop for Heap {
    /// Sends other heaps' blocks home, and leaves slabs with blocks in use to the next heap of its node.
    fn drop(&mut self) {
        self.trim();
        let Heap { local, memory, rest, .. } = self;
        // Small slabs stay in their superblocks, in the last class.
        for class in 0..local.current.len() {
            let current = local.current[class].slab();
            if !std::ptr::eq(current, &*local.none) {
                local.ranks[class].insert(current);
            }
            while let Some(slab) = local.ranks[class].pop() {
                slab.floor.set(u32::MAX);
                if class >= memory.sizes.small() {
                    memory.superblocks.leave(slab);
                }
            }
        }
        // In this order: a later sender finds the mailbox closed and looks up the superblock's new owner.
        let rest = std::mem::replace(rest, Rest::NONE);
        memory.doors.close(local.number, rest, |block| local.take_in(memory, block));
    }
}

/// How many owners' blocks a heap holds back at a time.
const OUTBOX: usize = 16;

/// Blocks of one other heap, held back until there are enough to send. The owner's number gives its place in the
/// outbox.
#[derive(Debug, Default)]
struct Outbox {
    batches: [Option<ForeignBlocks>; OUTBOX],
    /// A bit for each place that may have a batch; a place without one has none.
    used: u16,
}

#[derive(Debug)]
struct ForeignBlocks {
    owner: u32,
    batch: Batch,
    blocks: usize,
    bytes: usize,
}

impl ForeignBlocks {
    fn send(self, memory: &Memory, from: u32) {
        if let Err(batch) = memory.doors.bring(from, self.owner, self.batch) {
            memory.send_again(from, batch);
        }
    }
}

#[inline(always)]
fn not_null(block: *mut u8) -> NonNull<u8> {
    #[expect(unsafe_code, reason = "a check for each allocation")]
    // SAFETY: blocks lie in a node's range, and it does not begin at zero.
    unsafe {
        NonNull::new_unchecked(block)
    }
}

#[cfg(all(test, not(loom)))]
#[expect(unsafe_code, reason = "tests free what they allocate")]
mod tests {
    use super::*;
    use crate::pages::{FakePages, WhenFull};
    use crate::region::Region;
    use crate::sizes::Series;
    use rand_pcg::rand_core::{RngCore, SeedableRng};
    use std::collections::BTreeMap;
    use vicus_topology::Topology;

    /// Two nodes, superblocks of 1 MiB.
    fn options() -> MemoryOptions {
        let series = Series { first: 8 << 10, ratio: 1.5, limit: 256 << 10 };
        MemoryOptions { superblock_bytes: 1 << 20, range_bytes: 32 << 20, series, heaps: 8, ..MemoryOptions::default() }
    }

    fn memory(options: MemoryOptions) -> (Arc<Memory>, Arc<FakePages>) {
        Memory::on_fake_pages(&Topology::parse("node:2 core:1").unwrap(), options)
    }

    fn heap(memory: &Arc<Memory>, node: usize) -> Heap {
        Heap::new(memory, NodeId::new(node)).unwrap()
    }

    fn bytes(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    fn free(heap: &mut Heap, block: NonNull<u8>, size: usize) {
        // SAFETY: tests free blocks with the size of their allocation, and no longer use them; or they await a panic.
        unsafe { heap.free(block, bytes(size)) };
    }

    fn free_without_heap(memory: &Memory, block: NonNull<u8>) {
        // SAFETY: as in `free`.
        unsafe { memory.free(block) };
    }

    fn superblock(memory: &Memory, block: NonNull<u8>) -> usize {
        memory.superblocks.ranges.index(block.addr().get()).unwrap()
    }

    #[test]
    fn a_block_comes_from_the_most_occupied_superblock_that_has_room() {
        for (size, seed) in
            [(8 << 10, 1), (100_000, 2), (256 << 10, 3), (3000, 4)].into_iter().skip(if cfg!(miri) { 2 } else { 0 })
        {
            let (memory, _) = memory(options());
            let mut heap = heap(&memory, 0);
            let mut chance = rand_pcg::Pcg64::seed_from_u64(seed);
            // Small blocks come from the most occupied run.
            let unit = if size < 8 << 10 { RUN_BYTES } else { 1 << 20 };
            let base = memory.superblocks.ranges.address(0).addr().get();
            let slab = |block: NonNull<u8>| (block.addr().get() - base) / unit;
            let class = memory.sizes.class_of(size).unwrap();
            let capacity = match unit {
                RUN_BYTES => RUN_BYTES / memory.sizes.bytes(class),
                // Of 1 MiB, 8 KiB are for the colour.
                _ => ((1 << 20) - (8 << 10)) / memory.sizes.bytes(class),
            };
            let mut live: Vec<NonNull<u8>> = Vec::new();
            let mut used: BTreeMap<usize, usize> = BTreeMap::new();
            for step in 0..if cfg!(miri) { 200 } else { 10_000 } {
                // Up to a number of blocks, then down again, so superblocks come and go.
                let most = capacity * if step / 500 % 2 == 0 { 6 } else { 2 };
                if live.is_empty() || chance.next_u32() as usize % (2 * most) > live.len() {
                    let block = heap.alloc(bytes(size)).unwrap();
                    let most_used = used.values().copied().filter(|&used| used < capacity).max();
                    let found = used.entry(slab(block)).or_default();
                    assert!(most_used.is_none_or(|most| most == *found), "step {step}, seed {seed}: {most_used:?}");
                    *found += 1;
                    assert!(*found <= capacity);
                    live.push(block);
                } else {
                    let block = live.swap_remove(chance.next_u32() as usize % live.len());
                    free(&mut heap, block, size);
                    let found = used.get_mut(&slab(block)).unwrap();
                    *found -= 1;
                    used.retain(|_, used| *used > 0);
                }
            }
            live.into_iter().for_each(|block| free(&mut heap, block, size));
            heap.trim();
            assert_eq!(memory.counts(NodeId::new(0)).held, 0);
        }
    }

    #[test]
    fn the_last_block_freed_is_the_next_one_given() {
        let (memory, _) = memory(options());
        let mut heap = heap(&memory, 0);
        let blocks = [0; 3].map(|_| heap.alloc(bytes(9000)).unwrap());
        for block in blocks {
            free(&mut heap, block, 9000);
        }
        for block in blocks.into_iter().rev() {
            assert_eq!(heap.alloc(bytes(9000)), Ok(block));
        }
        blocks.into_iter().for_each(|block| free(&mut heap, block, 9000));
    }

    #[test]
    fn foreign_frees_come_home_in_both_designs() {
        for foreign in [Foreign::Bins, Foreign::Mailboxes] {
            let (memory, _) = memory(MemoryOptions { foreign, batch_blocks: 3, ..options() });
            let (mut owner, mut other) = (heap(&memory, 0), heap(&memory, 1));
            for size in [100, 10_000] {
                let blocks = [0; 4].map(|_| owner.alloc(bytes(size)).unwrap());
                blocks.into_iter().for_each(|block| free(&mut other, block, size));
                other.finish_task();
                owner.finish_task();
                let mut again = [0; 4].map(|_| owner.alloc(bytes(size)).unwrap());
                again.sort();
                let mut blocks = blocks;
                blocks.sort();
                assert_eq!(again, blocks);
                // From a thread without a heap.
                blocks.into_iter().for_each(|block| free_without_heap(&memory, block));
            }
            owner.trim();
            assert_eq!(memory.counts(NodeId::new(0)).held, 0, "{foreign:?}");
            assert_eq!(memory.counts(NodeId::new(1)).held, 0, "nothing moved to where it was freed");
        }
    }

    #[test]
    fn superblocks_of_an_ended_heap_are_adopted_on_their_own_node() {
        for (foreign, size) in [(Foreign::Bins, 10_000), (Foreign::Mailboxes, 10_000), (Foreign::Mailboxes, 100)] {
            let (memory, _) = memory(MemoryOptions { foreign, ..options() });
            let [near, far] = [0, 1].map(NodeId::new);
            let mut ended = heap(&memory, 0);
            let blocks = [0; 3].map(|_| ended.alloc(bytes(size)).unwrap());
            drop(ended);
            assert_eq!((memory.counts(near).held, memory.counts(near).orphans), (1, 1));
            let mut stranger = heap(&memory, 1);
            let elsewhere = stranger.alloc(bytes(size)).unwrap();
            assert_eq!(memory.node_of(elsewhere.as_ptr()), Some(far));
            assert_eq!(memory.counts(near).orphans, 1, "another node's heap leaves it alone");
            free(&mut stranger, blocks[0], size);
            let mut heir = heap(&memory, 0);
            let block = heir.alloc(bytes(size)).unwrap();
            assert_eq!(superblock(&memory, block), superblock(&memory, blocks[1]));
            assert_eq!(block, blocks[0], "freed while no heap owned it");
            assert_eq!((memory.counts(near).held, memory.counts(near).orphans), (1, 0));
            // Freed to the new owner, under any number.
            free(&mut stranger, blocks[1], size);
            stranger.finish_task();
            free(&mut heir, blocks[2], size);
            free(&mut heir, block, size);
            heir.trim();
            assert_eq!(memory.counts(near).held, 0);
            free(&mut stranger, elsewhere, size);
        }
    }

    #[test]
    fn blocks_sent_to_an_ended_heap_reach_the_new_owner() {
        for foreign in [Foreign::Bins, Foreign::Mailboxes] {
            let (memory, _) = memory(MemoryOptions { foreign, ..options() });
            let (mut ended, mut other) = (heap(&memory, 0), heap(&memory, 1));
            let blocks = [0; 3].map(|_| ended.alloc(bytes(10_000)).unwrap());
            // With mailboxes it stays in the outbox, with the owner's number on it.
            free(&mut other, blocks[0], 10_000);
            drop(ended);
            other.finish_task();
            // A heap with the same number and without the adopted superblocks is not the owner.
            let mut other_now = heap(&memory, 1);
            free(&mut other_now, blocks[1], 10_000);
            other_now.finish_task();
            assert_eq!(memory.counts(NodeId::new(0)).orphans, 1);
            free_without_heap(&memory, blocks[2]);
            assert_eq!(memory.counts(NodeId::new(0)).held, 0, "{foreign:?}: the last block freed it");
        }
    }

    #[test]
    fn a_full_node_spills_to_the_nearest_or_refuses() {
        let [zero, one] = [0, 1].map(NodeId::new);
        let (memory, pages) = memory(options());
        pages.set_free(zero, 0);
        let mut heap = heap(&memory, 0);
        for size in [10_000, 1 << 20] {
            let block = heap.alloc(bytes(size)).unwrap();
            assert_eq!(memory.node_of(block.as_ptr()), Some(one), "the address says where it is");
            free(&mut heap, block, size);
        }
        assert_eq!(memory.counts(zero).spilled, 2);
        heap.trim();
        assert_eq!((memory.counts(one).held, memory.counts(one).waiting), (0, 1), "it went back where it lies");

        let (memory, pages) = self::memory(MemoryOptions { when_full: WhenFull::Strict, ..options() });
        pages.set_free(zero, 1 << 20);
        let mut heap = self::heap(&memory, 0);
        let block = heap.alloc(bytes(10_000)).unwrap();
        let refused = heap.alloc(bytes(200_000)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "node0 has no memory left (no memory is left), and the memory is strict: no other node was asked"
        );
        assert_eq!(memory.counts(zero).refused, 1);
        free(&mut heap, block, 10_000);
        heap.trim();
        let block = heap.alloc(bytes(200_000)).unwrap();
        free(&mut heap, block, 200_000);
    }

    #[test]
    fn alignment_zeros_and_new_sizes() {
        let (memory, _) = memory(options());
        let mut heap = heap(&memory, 0);
        let each = if cfg!(miri) { 3 } else { 1 };
        for align in [1, 8, 64, 128, 4096, 65_536, 1 << 20, 1 << 21].into_iter().step_by(each) {
            for size in [0, 1, 100, 8192, 100_000, 300_000, 1 << 20].into_iter().step_by(each) {
                let layout = Layout::from_size_align(size, align).unwrap();
                let block = heap.alloc(layout).unwrap();
                assert_eq!(block.addr().get() % align, 0, "{layout:?}");
                assert!(memory.usable_bytes(block) >= size);
                // SAFETY: each block is freed or resized once, with its layout, and written within its size.
                unsafe {
                    block.write_bytes(0xAA, size);
                    heap.free(block, layout);
                    let block = heap.alloc_zeroed(layout).unwrap();
                    let content = std::slice::from_raw_parts(block.as_ptr(), size);
                    assert!(content.iter().step_by(997).all(|&byte| byte == 0), "{layout:?}");
                    let larger = heap.realloc(block, layout, size + 10).unwrap();
                    assert_eq!(larger.addr().get() % align, 0);
                    larger.add(size).write_bytes(7, 10);
                    let layout = Layout::from_size_align(size + 10, align).unwrap();
                    let smaller = heap.realloc(larger, layout, 10).unwrap();
                    if size == 0 {
                        assert_eq!(smaller.read(), 7);
                    }
                    heap.free_any(smaller);
                }
            }
        }
        heap.trim();
        assert_eq!(memory.counts(NodeId::new(0)).held, 0);
        assert_eq!(memory.counts(NodeId::new(0)).mapped, 0);
    }

    #[test]
    fn a_block_is_resized_in_place_while_it_is_at_least_half_used() {
        let (memory, _) = memory(options());
        let mut heap = heap(&memory, 0);
        let block = heap.alloc(bytes(12_000)).unwrap();
        // Classes of 8192 and 12288 bytes.
        // SAFETY: each block is freed or resized once, with its layout.
        unsafe {
            assert_eq!(heap.realloc(block, bytes(12_000), 12_288), Ok(block));
            assert_eq!(heap.realloc(block, bytes(12_288), 6144), Ok(block));
            let moved = heap.realloc(block, bytes(6144), 6000).unwrap();
            assert_ne!(moved, block);
            heap.free(moved, bytes(6000));
        }
    }

    #[test]
    fn a_mapped_block_grows_and_shrinks_where_it_is() {
        let (memory, pages) = memory(options());
        let mut heap = heap(&memory, 0);
        let node = NodeId::new(0);
        let (first, step) = (1 << 20, if cfg!(miri) { 40_009 } else { 1 });
        let block = heap.alloc(bytes(first)).unwrap();
        let mapped = |expected: usize| {
            let mapped = memory.counts(node).mapped;
            assert!((expected..=expected + 2 * 4096).contains(&mapped), "{mapped} of {expected} bytes");
        };
        // SAFETY: within the block as long as it is; each block is freed or resized once, with its layout.
        unsafe {
            block.write_bytes(7, first);
            assert_eq!(heap.realloc(block, bytes(first), 3 << 20), Ok(block), "over the border of a superblock");
            mapped(3 << 20);
            block.add(first).write_bytes(8, 2 << 20);
            // A node without memory: the block stays as it was, and a copy is refused as well.
            pages.set_free(node, 4096);
            pages.set_free(NodeId::new(1), 4096);
            assert!(heap.realloc(block, bytes(3 << 20), 4 << 20).is_err());
            mapped(3 << 20);
            pages.set_free(node, 64 << 20);
            // Memory given back can be used by others, and the rest keeps its content.
            assert_eq!(heap.realloc(block, bytes(3 << 20), first + 9), Ok(block));
            mapped(first + 9);
            assert!((0..first + 9).step_by(step).all(|at| block.add(at).read() == if at < first { 7 } else { 8 }));
            // The next block is in its way: it moves, with its content.
            let other = heap.alloc(bytes(first)).unwrap();
            other.write_bytes(9, first);
            let moved = heap.realloc(block, bytes(first + 9), 12 << 20).unwrap();
            assert_ne!(moved, block);
            mapped(13 << 20);
            assert!((0..first + 9).step_by(step).all(|at| moved.add(at).read() == if at < first { 7 } else { 8 }));
            moved.add(first + 9).write_bytes(5, (12 << 20) - first - 9);
            assert!((0..first).step_by(step).all(|at| other.add(at).read() == 9));
            // Its old place can be used by others.
            let third = heap.alloc(bytes(first)).unwrap();
            assert!(third.addr() < other.addr());
            heap.free(third, bytes(first));
            heap.free(other, bytes(first));
            heap.free(moved, bytes(12 << 20));
        }
        assert_eq!(memory.counts(node).mapped, 0);
    }

    #[test]
    fn impossible_requests_are_refused() {
        let (memory, _) = memory(options());
        let refused = Heap::new(&memory, NodeId::new(2)).unwrap_err();
        assert_eq!(refused.to_string(), "node2 is none of the 2 nodes, node0 to the last");
        let mut heap = heap(&memory, 0);
        for (size, align) in [(isize::MAX as usize & !7, 8), (1 << 30, 8), (1, 1 << 40), (1, 1 << 62)] {
            let layout = Layout::from_size_align(size, align).unwrap();
            assert_eq!(heap.alloc(layout), Err(AllocError::TooLarge { bytes: size, align }));
        }
        let more: Vec<_> = (0..7).map(|_| self::heap(&memory, 1)).collect();
        assert_eq!(Heap::new(&memory, NodeId::new(1)).unwrap_err(), AllocError::Heaps(8));
        drop(more);
        assert!(Heap::new(&memory, NodeId::new(1)).is_ok());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "it was freed before")]
    fn a_double_free_is_named() {
        let (memory, _) = memory(options());
        let mut heap = heap(&memory, 0);
        let block = heap.alloc(bytes(10_000)).unwrap();
        free(&mut heap, block, 10_000);
        free(&mut heap, block, 10_000);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "it was freed before")]
    fn a_double_free_by_two_heaps_is_named() {
        let (memory, _) = memory(options());
        let (mut one, mut other) = (heap(&memory, 0), heap(&memory, 1));
        let block = one.alloc(bytes(10_000)).unwrap();
        free(&mut other, block, 10_000);
        free(&mut one, block, 10_000);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_block_is_known_as_freed_wherever_it_waits() {
        let (memory, _) = memory(options());
        let (mut one, mut other) = (heap(&memory, 0), heap(&memory, 1));
        let range = |block: NonNull<u8>, bytes: usize| block.addr().get()..block.addr().get() + bytes;
        // A block of a run, one of a superblock, a mapped one, and one with an address inside of its block.
        for (size, align) in [(3000, 8), (10_000, 8), (2 << 20, 8), (10_000, 1 << 13)] {
            let layout = Layout::from_size_align(size, align).unwrap();
            let (kept, freed) = (one.alloc(layout).unwrap(), one.alloc(layout).unwrap());
            for by in 0..3 {
                let block = if by == 0 { freed } else { one.alloc(layout).unwrap() };
                assert_eq!(memory.freed_in(range(block, size)), None, "{size} bytes in use");
                match by {
                    // SAFETY: allocated with this layout, and freed once.
                    0 => unsafe { one.free(block, layout) },
                    // SAFETY: as above. The block is held back by the other heap, or in a mailbox.
                    1 => unsafe { other.free(block, layout) },
                    _ => free_without_heap(&memory, block),
                }
                let start = block.addr().get();
                assert_eq!(memory.freed_in(range(block, size)), Some(start), "{size} bytes freed in way {by}");
                assert_eq!(memory.freed_in(start + 77..start + 78), Some(start + 77));
                assert_eq!(memory.freed_in(range(kept, size)), None, "another one lives");
            }
            // SAFETY: as above.
            unsafe { one.free(kept, layout) };
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    fn the_rest_of_a_block_that_became_shorter_is_free() {
        let (memory, _) = memory(options());
        let mut heap = heap(&memory, 0);
        let block = heap.alloc(bytes(3 << 20)).unwrap();
        let start = block.addr().get();
        assert_eq!(memory.freed_in(start..start + (3 << 20)), None);
        // SAFETY: allocated so.
        assert_eq!(unsafe { heap.realloc(block, bytes(3 << 20), 1 << 20) }, Ok(block));
        assert_eq!(memory.freed_in(start..start + (1 << 20)), None);
        let first = memory.freed_in(start..start + (3 << 20)).expect("two of three megabytes were given back");
        assert!(first >= start + (1 << 20) && first - start - (1 << 20) < memory.pages().page_bytes());
        assert_eq!(memory.freed_in(8..9), None, "other memory");
        free(&mut heap, block, 1 << 20);
    }

    #[test]
    #[should_panic(expected = "freeing")]
    fn a_foreign_pointer_is_named() {
        let (memory, _) = memory(options());
        let mut elsewhere = [0u64; 8];
        free(&mut heap(&memory, 0), NonNull::from(&mut elsewhere).cast(), 10_000);
    }

    #[test]
    #[should_panic(expected = "freeing")]
    fn a_pointer_into_nothing_is_named() {
        let (memory, _) = memory(options());
        let nothing = memory.superblocks.ranges.address(7);
        free(&mut heap(&memory, 0), nothing, 10_000);
    }
}
