//! The superblock allocator: large parts of a node's range, for the heaps of that node.
//!
//! Falt et al. §5.2: one for each node, one lock, a LIFO stack of released superblocks. We differ: the stack is
//! bounded, and superblocks in it for too long are given back; superblocks are placed by policy and not by touching
//! them first; superblocks left by an ended heap wait here for the next heap of the same node; and blocks beyond the
//! largest class are mapped here, in whole superblocks' addresses, with a bounded cache of their own.

use crate::memory::{AllocError, MemoryOptions};
use crate::neighbours::{Neighbours, NodeTurn, Room};
use crate::pages::{PageError, Pages, WhenFull};
use crate::region::{HUGE_PAGE, Ranges};
use crate::sizes::LINE;
use crate::slab::{Chain, Kind, NO_HEAP, ORPHAN, RUN_BYTES, Slab, colour};
use crate::slots::Slots;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, Padded};
use std::alloc::Layout;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use vicus_topology::NodeId;

/// The counts of one node's superblock allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Superblocks held by heaps, orphans included.
    pub held: usize,
    /// The superblocks of ended heaps, also counted in `held`.
    pub orphans: usize,
    /// Superblocks in the stack of released ones.
    pub waiting: usize,
    /// Bytes of mapped blocks in use.
    pub mapped: usize,
    /// Bytes of mapped blocks waiting for reuse.
    pub mapped_waiting: usize,
    /// How often this node was asked, had no room, and another node gave. [`crate::Memory::audit`] finds the pages
    /// whose node had room at the grant but not at the touch.
    pub spilled: u64,
    /// How often this node was asked and the request was refused.
    pub refused: u64,
}

impl NodeCounts {
    /// Bytes committed on the node, without headers, for superblocks of `superblock_bytes`.
    pub fn committed(&self, superblock_bytes: usize) -> usize {
        (self.held + self.waiting) * superblock_bytes + self.mapped + self.mapped_waiting
    }
}

/// The superblock allocators of all nodes.
#[derive(Debug)]
pub(crate) struct Superblocks {
    pages: Arc<dyn Pages>,
    pub(crate) ranges: Ranges,
    pools: Box<[Padded<Mutex<Pool>>]>,
    neighbours: Arc<Neighbours>,
    pub(crate) options: MemoryOptions,
    /// How many bytes may wait on each node, even if the options allow more.
    most_waiting: AtomicUsize,
}

/// The state of one node.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The number of its first superblock.
    first: usize,
    slots: Slots,
    /// The stack of released superblocks.
    released: Chain,
    /// Mapped blocks waiting for reuse.
    mapped: Chain,
    /// Superblocks of ended heaps, by class.
    orphans: Box<[Chain]>,
    counts: NodeCounts,
    /// The caller's time, in ticks.
    now: u64,
}

#[expect(unsafe_code, reason = "a pool's chains are linked by pointers")]
// SAFETY: the holder of a pool's lock has the slabs in its chains; there are no other pointers in it.
unsafe impl Send for Pool {}

impl std::fmt::Debug for dyn Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pages")
    }
}

impl Superblocks {
    pub(crate) fn new(
        pages: Arc<dyn Pages>,
        ranges: Ranges,
        neighbours: Arc<Neighbours>,
        options: &MemoryOptions,
        classes: usize,
    ) -> Superblocks {
        let (nodes, per_node) = (ranges.nodes(), ranges.per_node());
        let pool = |node: usize| Pool {
            first: node * per_node,
            slots: Slots::new(per_node),
            released: Chain::EMPTY,
            mapped: Chain::EMPTY,
            orphans: vec![Chain::EMPTY; classes].into(),
            counts: NodeCounts::default(),
            now: 0,
        };
        Superblocks {
            pages,
            pools: (0..nodes).map(|node| Padded(Mutex::new(pool(node)))).collect(),
            neighbours,
            ranges,
            options: options.clone(),
            most_waiting: AtomicUsize::new(usize::MAX),
        }
    }

    pub(crate) fn pages(&self) -> &Arc<dyn Pages> {
        &self.pages
    }

    pub(crate) fn nodes(&self) -> usize {
        self.pools.len()
    }

    pub(crate) fn counts(&self, node: NodeId) -> NodeCounts {
        self.with(node, |pool| pool.counts)
    }

    /// The addresses of all superblocks and mapped blocks, in use or waiting.
    pub(crate) fn all(&self) -> Vec<Range<usize>> {
        let mut all = Vec::new();
        for node in (0..self.nodes()).map(NodeId::new) {
            // Nothing is allocated while the lock is held: the allocator may be this memory itself.
            let mut starts = Vec::with_capacity(self.with(node, |pool| pool.slots.in_use().count()) + 64);
            self.with(node, |pool| {
                let all = pool.slots.in_use().map(|slot| self.ranges.address(pool.first + slot).addr().get());
                starts.extend(all.take(starts.capacity()));
            });
            all.extend(starts.into_iter().map(|start| start..start + self.ranges.superblock()));
        }
        all
    }

    fn with<R>(&self, node: NodeId, f: impl FnOnce(&mut Pool) -> R) -> R {
        f(&mut self.pools[node.index()].0.lock().expect("nothing panics behind a pool's lock"))
    }

    /// All pools, locked until the result is dropped.
    pub(crate) fn lock(&self) -> Vec<MutexGuard<'_, Pool>> {
        self.pools.iter().map(|pool| pool.0.lock().expect("nothing panics behind a pool's lock")).collect()
    }

    fn node_of(&self, slab: &Slab) -> NodeId {
        self.ranges.node(self.ranges.index_of(slab))
    }

    /// Asks the nodes in turn, as [`WhenFull`](crate::WhenFull) allows.
    fn ask<R>(&self, node: NodeId, mut ask: impl FnMut(NodeTurn) -> Result<R, PageError>) -> Result<R, AllocError> {
        let mut error = PageError::Full;
        for turn in self.neighbours.turns(node, self.options.when_full) {
            match ask(turn) {
                Ok(found) => {
                    if turn.node != node {
                        self.with(node, |pool| pool.counts.spilled += 1);
                    }
                    return Ok(found);
                }
                Err(refusal) => error = refusal,
            }
        }
        self.with(node, |pool| pool.counts.refused += 1);
        Err(AllocError::Exhausted { node, when_full: self.options.when_full, error })
    }

    /// A superblock for a heap, uncut.
    pub(crate) fn take<'a>(&self, node: NodeId, owner: u32) -> Result<&'a Slab, AllocError> {
        let (slab, is_fresh) = self.ask(node, |turn| self.with(turn.node, |pool| self.take_here(pool, turn)))?;
        slab.set_owner(owner);
        if is_fresh && self.options.touch_ahead {
            self.touch(slab);
        }
        Ok(slab)
    }

    /// Writes to every page of an untouched superblock.
    fn touch(&self, slab: &Slab) {
        let start = self.ranges.address(self.ranges.index_of(slab));
        for offset in (0..self.ranges.superblock()).step_by(self.page_bytes()) {
            #[expect(unsafe_code, reason = "touches pages")]
            // SAFETY: within the superblock, committed and still the caller's alone.
            unsafe {
                start.add(offset).write_volatile(0);
            }
        }
    }

    /// A superblock, and whether it is fresh.
    fn take_here<'a>(&self, pool: &mut Pool, turn: NodeTurn) -> Result<(&'a Slab, bool), PageError> {
        let waiting = pool.released.pop();
        let slab = match waiting {
            Some(slab) => {
                pool.counts.waiting -= 1;
                slab
            }
            None => {
                let slot = pool.slots.take(1).ok_or(PageError::Full)?;
                self.commit(pool, turn, slot, self.ranges.superblock())?
            }
        };
        pool.counts.held += 1;
        Ok((slab, waiting.is_none()))
    }

    /// Commits fresh memory from the beginning of a newly taken slot, over all slots it reaches into.
    fn commit<'a>(&self, pool: &mut Pool, turn: NodeTurn, slot: usize, bytes: usize) -> Result<&'a Slab, PageError> {
        let index = pool.first + slot;
        #[expect(unsafe_code, reason = "commits free addresses")]
        // SAFETY: the slots were free, so nothing in them is committed.
        let committed = unsafe { self.commit_part(pool, turn, self.ranges.address(index), bytes) };
        match committed {
            Ok(()) => Ok(self.ranges.slab(index)),
            Err(error) => {
                pool.slots.give(slot, self.slots(bytes));
                Err(error)
            }
        }
    }

    /// Commits a part of a node's range, if the node has room for it. Waiting memory there is given back to make room.
    ///
    /// # Safety
    /// Those of [`Pages::commit`].
    #[expect(unsafe_code, reason = "commits addresses that its caller has taken")]
    unsafe fn commit_part(
        &self,
        pool: &mut Pool,
        turn: NodeTurn,
        start: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), PageError> {
        let NodeTurn { node, room } = turn;
        let is_full = || room == Room::Needed && !self.pages.has_room(node, bytes);
        if is_full() {
            self.make_room(pool, bytes);
            if is_full() {
                return Err(PageError::Full);
            }
        }
        // SAFETY: the caller's promise.
        let commit = || unsafe {
            if self.options.huge_pages {
                self.pages.advise_huge(start, bytes);
            }
            self.pages.commit(start, bytes, node)
        };
        match commit() {
            Err(PageError::Full) if self.make_room(pool, bytes) => commit(),
            done => done,
        }
    }

    /// Gives back `bytes` bytes of a node's waiting memory; `false` if none waits.
    fn make_room(&self, pool: &mut Pool, bytes: usize) -> bool {
        let before = self.waiting_bytes(pool);
        while before - self.waiting_bytes(pool) < bytes && self.waiting_bytes(pool) > 0 {
            if pool.counts.waiting > 0 { self.drop_oldest_released(pool) } else { self.drop_oldest_mapped(pool) }
        }
        before > 0
    }

    fn waiting_bytes(&self, pool: &Pool) -> usize {
        pool.counts.mapped_waiting + pool.counts.waiting * self.ranges.superblock()
    }

    /// Changes how many bytes may wait, on all nodes together; each node may have its part of them. A part below a
    /// superblock would have each one decommitted and committed again, so a node may have one as long as all of them
    /// fit.
    pub(crate) fn let_wait(&self, bytes: usize) {
        let one = if bytes >= self.ranges.superblock() { self.ranges.superblock() } else { 0 };
        self.most_waiting.store((bytes / self.nodes()).max(one), Ordering::Relaxed);
    }

    /// Gives back the memory waiting beyond [`Superblocks::let_wait`].
    pub(crate) fn hold_to_bound(&self) {
        for node in (0..self.nodes()).map(NodeId::new) {
            // One at a time, so other threads get the lock in between: giving back takes time.
            while self.with(node, |pool| self.drop_beyond_bound(pool)) {}
        }
    }

    /// Drops the oldest superblock or mapped block if more waits than may; `false` if not.
    fn drop_beyond_bound(&self, pool: &mut Pool) -> bool {
        if self.waiting_bytes(pool) <= self.most_waiting.load(Ordering::Relaxed) {
            return false;
        }
        let since = |chain: &Chain| chain.last().map_or(u64::MAX, |slab| slab.released.get());
        if pool.counts.waiting > 0 && since(&pool.released) <= since(&pool.mapped) {
            self.drop_oldest_released(pool);
        } else {
            self.drop_oldest_mapped(pool);
        }
        true
    }

    fn decommit(&self, pool: &mut Pool, slab: &Slab, bytes: usize) {
        let index = self.ranges.index_of(slab);
        #[expect(unsafe_code, reason = "gives back what was committed")]
        // SAFETY: the slab is in no chain and no heap, and was committed with this number of bytes.
        unsafe {
            self.pages.decommit(self.ranges.address(index), bytes, self.ranges.node(index));
        }
        pool.slots.give(index - pool.first, self.slots(bytes));
    }

    /// How many superblocks' addresses a mapped block of `bytes` bytes reaches into.
    fn slots(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.ranges.superblock())
    }

    /// Takes a superblock without blocks in use back from a heap.
    pub(crate) fn release(&self, slab: &Slab) {
        self.with(self.node_of(slab), |pool| self.release_here(pool, slab));
    }

    fn release_here(&self, pool: &mut Pool, slab: &Slab) {
        debug_assert_eq!(slab.used(), 0, "a superblock is released when it is empty");
        slab.set_owner(NO_HEAP);
        slab.kind.set(Kind::Unused);
        slab.released.set(pool.now);
        pool.released.push(slab);
        pool.counts.held -= 1;
        pool.counts.waiting += 1;
        // Even if the caller never calls `give_back`, no more wait than this.
        while pool.counts.waiting > self.options.superblocks_waiting.saturating_mul(MOST_ABOVE) {
            self.drop_oldest_released(pool);
        }
        while self.drop_beyond_bound(pool) {}
    }

    fn drop_oldest_released(&self, pool: &mut Pool) {
        let oldest = pool.released.last().expect("the stack is not empty");
        pool.released.remove(oldest);
        pool.counts.waiting -= 1;
        self.decommit(pool, oldest, self.ranges.superblock());
    }

    /// Takes a superblock with blocks in use from an ending heap.
    pub(crate) fn leave(&self, slab: &Slab) {
        self.with(self.node_of(slab), |pool| {
            if slab.used() == 0 {
                return self.release_here(pool, slab);
            }
            slab.set_owner(ORPHAN);
            slab.released.set(pool.now);
            pool.counts.orphans += 1;
            pool.orphans[slab.class()].push(slab);
        });
    }

    /// The most occupied superblock of a class on this node with room and without a heap.
    pub(crate) fn adopt<'a>(&self, node: NodeId, class: usize, owner: u32) -> Option<&'a Slab> {
        self.with(node, |pool| {
            let with_room = pool.orphans[class].iter().filter(|slab| !slab.is_full());
            let slab = with_room.max_by_key(|slab| slab.used())?;
            pool.orphans[class].remove(slab);
            pool.counts.orphans -= 1;
            slab.set_owner(owner);
            Some(slab)
        })
    }

    /// Frees a block of an ended heap's superblock. `false` if it has another heap by now.
    ///
    /// # Safety
    /// The block is one of this superblock's, in use, and not used after this call.
    #[expect(unsafe_code, reason = "frees a block")]
    pub(crate) unsafe fn put_orphan(&self, slab: &Slab, block: NonNull<u8>) -> bool {
        self.with(self.node_of(slab), |pool| {
            if slab.owner() != ORPHAN {
                return false;
            }
            let mut block = block.as_ptr();
            if slab.kind.get() == Kind::Runs {
                let (run, start) = self.run(slab, block);
                // SAFETY: a small block is its run's; the holder of the lock has the superblock and its runs.
                unsafe { run.put(block) };
                if run.used() > 0 {
                    return true;
                }
                run.kind.set(Kind::Unused);
                block = start;
            }
            // SAFETY: as above; a run without blocks in use is an unused block of its superblock.
            unsafe { slab.put(block) };
            if slab.used() == 0 {
                pool.orphans[slab.class()].remove(slab);
                pool.counts.orphans -= 1;
                self.release_here(pool, slab);
            }
            true
        })
    }

    /// A mapped block, and whether it is fresh and therefore zero.
    pub(crate) fn map(&self, node: NodeId, layout: Layout, room: MapRoom) -> Result<(NonNull<u8>, bool), AllocError> {
        // No block is shorter than a line: a freed one holds a link.
        let too_large = AllocError::TooLarge { bytes: layout.size(), align: layout.align() };
        let layout = Layout::from_size_align(layout.size().max(LINE), layout.align()).map_err(|_| too_large)?;
        // Wherever it begins, it has room for its colour and its alignment.
        let most = layout.size().checked_add(layout.align()).and_then(|bytes| bytes.checked_add(self.page_bytes()));
        let most = most.filter(|&most| most <= self.ranges.per_node() * self.ranges.superblock());
        let most = most.ok_or(too_large)?;
        let slots = self.slots(most);
        let (slab, bytes) =
            self.ask(node, |turn| self.with(turn.node, |pool| self.map_here(pool, turn, slots, room, layout)))?;
        let lead = self.lead(slab, layout);
        let begin = self.ranges.address(self.ranges.index_of(slab));
        #[expect(unsafe_code, reason = "an offset within the mapped part")]
        // SAFETY: `map_here` made room for it.
        let start = unsafe { begin.add(lead) };
        slab.cut(Kind::Mapped, 0, start.as_ptr(), bytes - lead, 1);
        let taken = slab.take_untouched();
        debug_assert_eq!(taken, Some(start.as_ptr()));
        Ok((start, !slab.dirty.get()))
    }

    /// How far behind its first page's beginning a mapped block begins: large blocks compete for cache sets as well.
    fn lead(&self, slab: &Slab, layout: Layout) -> usize {
        let index = self.ranges.index_of(slab);
        let begin = self.ranges.address(index).addr().get();
        let lines = if layout.align() < self.page_bytes() { colour(index, self.page_bytes() - LINE) } else { 0 };
        (begin + lines).next_multiple_of(layout.align()) - begin
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.pages.page_bytes()
    }

    fn map_here<'a>(
        &self,
        pool: &mut Pool,
        turn: NodeTurn,
        slots: usize,
        room: MapRoom,
        layout: Layout,
    ) -> Result<(&'a Slab, usize), PageError> {
        let superblock = self.ranges.superblock();
        let needs = |slab: &Slab| (self.lead(slab, layout) + layout.size()).next_multiple_of(self.page_bytes());
        // A block that has grown may grow again: it takes only a waiting block with as much room behind it as a fresh
        // one.
        let behind = if room == MapRoom::Much { MapRoom::Usual.slots(slots) } else { 0 };
        let slab = match self.reuse(pool, needs, behind, |slab| self.lead(slab, layout) < superblock) {
            Some(slab) => slab,
            None => {
                // Gives back as many bytes as are taken, so the memory waiting beyond the bound does not grow.
                self.drop_above_bound(pool, slots * superblock);
                let taken = pool.slots.take_with_room(slots, room.slots(slots)).ok_or(PageError::Full)?;
                // The block's beginning within the slots is known only now; slots before and behind it are given back.
                let before = self.lead(self.ranges.slab(pool.first + taken), layout) / superblock;
                let slot = taken + before;
                let bytes = needs(self.ranges.slab(pool.first + slot));
                let needed = self.slots(bytes);
                pool.slots.give(taken, before);
                pool.slots.give(slot + needed, slots - before - needed);
                let slab = self.commit(pool, turn, slot, bytes)?;
                slab.committed.set(bytes);
                slab.dirty.set(false);
                slab
            }
        };
        pool.counts.mapped += slab.committed.get();
        Ok((slab, slab.committed.get()))
    }

    /// A waiting mapped block for a request that `needs` this number of bytes: one with them and at most a quarter
    /// more; else the one nearest in size, made longer or shorter, but not to less than a quarter. So waiting blocks
    /// also serve other sizes. The `behind` slots behind it are free.
    fn reuse<'a>(
        &self,
        pool: &mut Pool,
        needs: impl Fn(&Slab) -> usize,
        behind: usize,
        may_be: impl Fn(&Slab) -> bool,
    ) -> Option<&'a Slab> {
        let wrong_by = |slab: &&Slab| {
            let (needed, has) = (needs(slab), slab.committed.get());
            if (needed..=needed / 4 * 5).contains(&has) { 0 } else { needed.abs_diff(has) }
        };
        // A much larger one is left for larger requests.
        let end = |slab: &Slab| self.ranges.index_of(slab) - pool.first + self.slots(slab.committed.get());
        let may_be = |slab: &&Slab| {
            slab.committed.get() / 4 <= needs(slab) && may_be(slab) && pool.slots.are_free(end(slab), behind)
        };
        let slab = pool.mapped.iter().filter(may_be).min_by_key(wrong_by)?;
        let before = slab.committed.get();
        #[expect(unsafe_code, reason = "changes a block that waits")]
        // SAFETY: a waiting block is not used.
        if wrong_by(&slab) > 0 && !unsafe { self.resize_here(pool, slab, needs(slab)) } {
            return None;
        }
        pool.mapped.remove(slab);
        pool.counts.mapped_waiting -= before;
        slab.dirty.set(true);
        Some(slab)
    }

    /// Makes a mapped block longer or shorter in place. `false` if this is impossible: the addresses behind it are in
    /// use, or its node has no memory left.
    ///
    /// # Safety
    /// The block is in use, and the part beyond its new end is not used after this call.
    #[expect(unsafe_code, reason = "commits and gives back what is behind a block")]
    pub(crate) unsafe fn resize(&self, slab: &Slab, bytes: usize) -> bool {
        let node = self.node_of(slab);
        let index = self.ranges.index_of(slab);
        let begin = self.ranges.address(index);
        let lead = slab.start().addr() - begin.addr().get();
        let Some(new) = bytes.checked_add(lead).and_then(|end| end.checked_next_multiple_of(self.page_bytes())) else {
            return false;
        };
        self.with(node, |pool| {
            let old = slab.committed.get();
            // SAFETY: the caller's promise.
            let done = unsafe { self.resize_here(pool, slab, new) };
            if done {
                slab.set_block_bytes(new - lead);
                pool.counts.mapped = pool.counts.mapped + new - old;
            }
            done
        })
    }

    /// Changes how much of a mapped block is committed, whether it is in use or waits.
    ///
    /// # Safety
    /// The part beyond its new end is not used any more.
    #[expect(unsafe_code, reason = "commits and gives back what is behind a block")]
    unsafe fn resize_here(&self, pool: &mut Pool, slab: &Slab, new: usize) -> bool {
        let index = self.ranges.index_of(slab);
        let (begin, node) = (self.ranges.address(index), self.ranges.node(index));
        let old = slab.committed.get();
        let (slots_before, slots_after) = (self.slots(old), self.slots(new));
        let behind = index - pool.first + slots_before.min(slots_after);
        // SAFETY: offsets within the range: the block's end, and slots that are the block's or were free just now.
        unsafe {
            if new > old {
                let more = slots_after - slots_before;
                if !pool.slots.take_at(behind, more) {
                    return false;
                }
                let first = self.neighbours.turns(node, self.options.when_full).next().expect("the node itself");
                if self.commit_part(pool, first, begin.add(old), new - old).is_err() {
                    pool.slots.give(behind, more);
                    return false;
                }
            } else if new < old {
                self.pages.decommit(begin.add(new), old - new, node);
                pool.slots.give(behind, slots_before - slots_after);
            }
        }
        slab.committed.set(new);
        true
    }

    /// Takes a mapped block back.
    ///
    /// # Safety
    /// It is in use, and not used after this call.
    #[expect(unsafe_code, reason = "frees a block")]
    pub(crate) unsafe fn unmap(&self, slab: &Slab) {
        self.with(self.node_of(slab), |pool| {
            // SAFETY: the caller's promise. (`put` writes into it, so it is dirty.)
            unsafe { slab.put(slab.start()) };
            slab.kind.set(Kind::Unused);
            slab.released.set(pool.now);
            pool.mapped.push(slab);
            pool.counts.mapped -= slab.committed.get();
            pool.counts.mapped_waiting += slab.committed.get();
            // Even if the caller never calls `give_back`, no more wait than this.
            let most = self.options.mapped_waiting_bytes.saturating_mul(MOST_ABOVE);
            while pool.counts.mapped_waiting > most {
                self.drop_oldest_mapped(pool);
            }
            while self.drop_beyond_bound(pool) {}
        });
    }

    /// Gives back a part of the memory waiting beyond the bounds, and says whether there is more. This takes time, so a
    /// free leaves it to this call.
    pub(crate) fn give_back(&self) -> bool {
        let node = |node: usize| {
            self.with(NodeId::new(node), |pool| {
                let superblocks = pool.counts.waiting.saturating_sub(self.options.superblocks_waiting);
                (0..superblocks.min(GIVEN_AT_ONCE.div_ceil(self.ranges.superblock())))
                    .for_each(|_| self.drop_oldest_released(pool));
                self.drop_above_bound(pool, GIVEN_AT_ONCE);
                pool.counts.waiting > self.options.superblocks_waiting
                    || pool.counts.mapped_waiting > self.options.mapped_waiting_bytes
            })
        };
        // For all nodes, without stopping at the first one with more.
        (0..self.nodes()).filter(|&number| node(number)).count() > 0
    }

    /// Drops mapped blocks waiting beyond the bound, the oldest first, until `bytes` of them are gone.
    fn drop_above_bound(&self, pool: &mut Pool, bytes: usize) {
        let least = pool.counts.mapped_waiting.saturating_sub(bytes).max(self.options.mapped_waiting_bytes);
        while pool.counts.mapped_waiting > least {
            self.drop_oldest_mapped(pool);
        }
    }

    fn drop_oldest_mapped(&self, pool: &mut Pool) {
        let oldest = pool.mapped.last().expect("some bytes wait, so a block does");
        pool.mapped.remove(oldest);
        pool.counts.mapped_waiting -= oldest.committed.get();
        self.decommit(pool, oldest, oldest.committed.get());
    }

    /// Tells the time, in the caller's ticks; memory released before `now - options.decay_ticks` is given back.
    pub(crate) fn tick(&self, now: u64) {
        for node in 0..self.nodes() {
            let node = NodeId::new(node);
            self.with(node, |pool| pool.now = now);
            // One at a time, so other threads get the lock in between: giving back takes time.
            while self.with(node, |pool| self.drop_old(pool)) {}
            // A few; the caller gets the others by `give_back_pages`.
            self.with(node, |pool| self.discard_of_orphans(pool));
        }
    }

    /// Gives back pages of a few superblocks of each node whose heaps have ended for long. Returns whether there may be
    /// more.
    pub(crate) fn give_back_pages(&self) -> bool {
        let node = |node: usize| self.with(NodeId::new(node), |pool| self.discard_of_orphans(pool));
        // For all nodes, without stopping at the first one with some.
        (0..self.nodes()).filter(|&number| node(number)).count() > 0
    }

    /// Whether pages may go back while their superblock is in use.
    fn may_discard(&self) -> bool {
        let MemoryOptions { when_full, touch_ahead, .. } = self.options;
        when_full != WhenFull::Strict && !touch_ahead
    }

    /// Whether [`Superblocks::discard_free`] would give back pages. The caller has the superblock.
    pub(crate) fn may_discard_of(&self, slab: &Slab) -> bool {
        let has_freed = || slab.has_freed() && slab.block_bytes() > self.discarded_unit();
        self.may_discard() && (!slab.tail_is_clean.get() || has_freed())
    }

    /// Gives back the pages of free blocks: those behind the last block that was in use since the superblock was cut,
    /// once, as they stay untouched; and those of blocks in use since the last call, except for the directory
    /// that [`crate::bare`] keeps there. The caller has the superblock.
    pub(crate) fn discard_free(&self, slab: &Slab) {
        debug_assert!(matches!(slab.kind.get(), Kind::Blocks | Kind::Runs), "a superblock with blocks in use is cut");
        if !slab.tail_is_clean.replace(true) {
            let end = self.ranges.address(self.ranges.index_of(slab)).addr().get() + self.ranges.superblock();
            self.discard(slab.untouched(), end);
        }
        if slab.block_bytes() > self.discarded_unit() {
            slab.strip(self.discarded_unit(), |begin, end| self.discard(begin, end));
        }
    }

    /// Pages go back in multiples of this: a huge page stays whole.
    fn discarded_unit(&self) -> usize {
        if self.options.huge_pages { HUGE_PAGE } else { self.page_bytes() }
    }

    /// Gives back the whole pages between two addresses of a superblock, which has no block in use there.
    fn discard(&self, begin: usize, end: usize) {
        let page = self.discarded_unit();
        let (begin, end) = (begin.next_multiple_of(page), end / page * page);
        if let Some(start) = NonNull::new(std::ptr::with_exposed_provenance_mut(begin)).filter(|_| begin < end) {
            #[expect(unsafe_code, reason = "gives back what was committed")]
            // SAFETY: the superblock is committed and the caller's; the pages have no block in use, and no free block's
            // link.
            unsafe {
                self.pages().discard(start, end - begin);
            }
        }
    }

    /// Gives back the pages of free blocks in a few superblocks whose heaps have ended for long; `false` if there is
    /// none. The pool's lock owns them: `put_orphan` takes it as well.
    fn discard_of_orphans(&self, pool: &mut Pool) -> bool {
        if pool.counts.orphans == 0 {
            return false;
        }
        let is_due = |slab: &&Slab| self.is_old(pool, slab) && self.may_discard_of(slab);
        let few = pool.orphans.iter().flat_map(Chain::iter).filter(is_due).take(DISCARDED_AT_ONCE);
        few.map(|slab| self.discard_free(slab)).count() > 0
    }

    fn is_old(&self, pool: &Pool, slab: &Slab) -> bool {
        slab.released.get().saturating_add(self.options.decay_ticks) <= pool.now
    }

    /// Drops one superblock or mapped block after too long a wait; `false` if there is none.
    fn drop_old(&self, pool: &mut Pool) -> bool {
        let old = |slab: &Slab| self.is_old(pool, slab);
        if pool.released.last().is_some_and(old) {
            self.drop_oldest_released(pool);
        } else if pool.mapped.last().is_some_and(old) {
            self.drop_oldest_mapped(pool);
        } else {
            return false;
        }
        true
    }

    /// Cuts a superblock into blocks of a class.
    pub(crate) fn cut(&self, slab: &Slab, class: usize, block_bytes: usize) {
        let index = self.ranges.index_of(slab);
        let capacity = capacity(self.ranges.superblock(), block_bytes);
        let slack = self.ranges.superblock() - capacity as usize * block_bytes;
        let begin = self.ranges.address(index).as_ptr();
        let lead = colour(index, slack.min(MOST_COLOUR));
        slab.cut(Kind::Blocks, class, begin.wrapping_add(lead), block_bytes, capacity);
    }

    /// Cuts a superblock into runs: its blocks are slabs of small blocks, with their headers at its beginning.
    pub(crate) fn cut_runs(&self, slab: &Slab, class: usize) {
        let runs = self.ranges.superblock() / RUN_BYTES;
        let headers = (runs * size_of::<Slab>()).div_ceil(RUN_BYTES);
        let begin = self.ranges.address(self.ranges.index_of(slab)).as_ptr();
        #[expect(unsafe_code, reason = "headers of runs stand in the superblock")]
        // SAFETY: the superblock is committed, and the caller's.
        unsafe {
            begin.cast::<Slab>().write_bytes(0, runs);
        }
        let start = begin.wrapping_add(headers * RUN_BYTES);
        slab.cut(Kind::Runs, class, start, RUN_BYTES, (runs - headers) as u32);
    }

    /// The header and the beginning of the run of an address in a superblock of runs.
    pub(crate) fn run<'a>(&self, slab: &Slab, address: *mut u8) -> (&'a Slab, *mut u8) {
        let begin = self.ranges.address(self.ranges.index_of(slab)).as_ptr();
        let index = (address.addr() - begin.addr()) / RUN_BYTES;
        #[expect(unsafe_code, reason = "headers of runs stand in the superblock")]
        // SAFETY: `cut_runs` made a header for each run; the superblock is in use, as one of its blocks is.
        let run = unsafe { &*begin.cast::<Slab>().add(index) };
        (run, begin.wrapping_add(index * RUN_BYTES))
    }

    /// The headers of all runs in use.
    pub(crate) fn runs<'a>(&self, slab: &Slab) -> impl Iterator<Item = &'a Slab> {
        let begin = self.ranges.address(self.ranges.index_of(slab)).as_ptr();
        let runs = (0..self.ranges.superblock() / RUN_BYTES).map(move |at| begin.wrapping_add(at * RUN_BYTES));
        runs.map(|start| self.run(slab, start).0).filter(|run| run.kind.get() == Kind::Blocks)
    }
}

impl Drop for Superblocks {
    fn drop(&mut self) {
        self.ranges.release(&*self.pages);
    }
}

/// The limit of waiting memory, in multiples of its bound, until the caller gives it back.
const MOST_ABOVE: usize = 4;

/// Whether a mapped block gets room to grow in place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MapRoom {
    /// The block has not grown yet.
    Usual,
    /// The block has grown before.
    Much,
}

impl MapRoom {
    /// The room of a block of `slots` slots.
    fn slots(self, slots: usize) -> usize {
        slots * if self == MapRoom::Usual { 16 } else { 256 }
    }
}

/// About how many bytes beyond the bound are given back at a time: a kernel takes some milliseconds for them.
const GIVEN_AT_ONCE: usize = 16 << 20;

/// The pages of so many superblocks are given back under one lock: a kernel takes a millisecond for each.
const DISCARDED_AT_ONCE: usize = 4;

/// The limit of a superblock's colour, the offset of its first block: its lines fill every set of a usual second-level
/// cache.
const MOST_COLOUR: usize = 8 << 10;

/// How many blocks a superblock has. A part of it is kept for the colour, unless this part were half a block.
pub(crate) fn capacity(superblock: usize, block_bytes: usize) -> u32 {
    let room = superblock - MOST_COLOUR.min(superblock / 128);
    (room / block_bytes) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::pages::{FakePages, SystemCall};
    use vicus_topology::Topology;

    fn memory(options: MemoryOptions) -> (Arc<Memory>, Arc<FakePages>) {
        let range_bytes = options.range_bytes.min(1 << 30);
        let options = MemoryOptions { superblock_bytes: 1 << 20, range_bytes, ..options };
        Memory::on_fake_pages(&Topology::parse("node:1 core:1").unwrap(), options)
    }

    fn paper() -> MemoryOptions {
        let series = crate::Series { limit: 100_000, ..Default::default() };
        MemoryOptions { series, range_bytes: 32 << 20, ..MemoryOptions::default() }
    }

    fn node() -> NodeId {
        NodeId::new(0)
    }

    #[test]
    fn released_superblocks_are_reused_youngest_first_and_decay() {
        let (memory, pages) = memory(MemoryOptions { superblocks_waiting: 2, decay_ticks: 5, ..paper() });
        let superblocks = &memory.superblocks;
        let slabs = [0; 4].map(|_| superblocks.take(node(), 1).unwrap());
        assert_eq!(pages.committed(node()) - 32 * 128, 4 << 20);
        superblocks.tick(1);
        slabs.iter().take(2).for_each(|slab| superblocks.release(slab));
        superblocks.tick(3);
        superblocks.release(slabs[2]);
        assert_eq!(memory.counts(node()).waiting, 3, "a release gives nothing back");
        assert!(!memory.give_back());
        assert_eq!(memory.counts(node()), NodeCounts { held: 1, waiting: 2, ..NodeCounts::default() }, "two may wait");
        let first = superblocks.ranges.index_of(slabs[0]) << 20;
        assert_eq!(pages.take_calls().last(), Some(&SystemCall::Decommit(first, 1 << 20, node())), "the oldest went");
        superblocks.tick(6);
        assert_eq!(memory.counts(node()).waiting, 1, "released at 1, given back at 6");
        superblocks.tick(7);
        assert_eq!(memory.counts(node()).waiting, 1, "released at 3, stays till 8");
        assert!(std::ptr::eq(superblocks.take(node(), 1).unwrap(), slabs[2]), "reused");
        let again = superblocks.take(node(), 1).unwrap();
        assert!(std::ptr::eq(again, slabs[0]), "the lowest free addresses first");
    }

    #[test]
    fn however_much_is_freed_at_once_a_bounded_part_of_it_waits() {
        let (memory, _) = memory(MemoryOptions { superblocks_waiting: 2, mapped_waiting_bytes: 1 << 20, ..paper() });
        let superblocks = &memory.superblocks;
        let slabs = [0; 12].map(|_| superblocks.take(node(), 1).unwrap());
        slabs.iter().for_each(|slab| superblocks.release(slab));
        assert_eq!(memory.counts(node()).waiting, 2 * MOST_ABOVE);
        let layout = Layout::from_size_align(1 << 20, 8).unwrap();
        let blocks = [0; 8].map(|_| superblocks.map(node(), layout, MapRoom::Usual).unwrap().0);
        #[expect(unsafe_code, reason = "frees blocks")]
        // SAFETY: each is freed once.
        blocks.iter().for_each(|&block| unsafe { superblocks.unmap(memory.slab_of(block)) });
        let waiting = memory.counts(node()).mapped_waiting;
        assert!((3 << 20..=4 << 20).contains(&waiting), "{waiting} bytes wait");
        while memory.give_back() {}
        let counts = memory.counts(node());
        assert!(counts.waiting == 2 && counts.mapped_waiting <= 1 << 20, "{counts:?}");
    }

    /// A server with requests of up to 500 MB once had 1.2 GB resident, because freed blocks waited within bounds
    /// without regard to this limit.
    #[test]
    fn what_waits_stays_within_the_bound_of_the_moment() {
        let (memory, pages) =
            memory(MemoryOptions { superblocks_waiting: 8, mapped_waiting_bytes: 8 << 20, ..paper() });
        let superblocks = &memory.superblocks;
        let layout = Layout::from_size_align(1 << 20, 8).unwrap();
        let free_all = || {
            let slabs = [0; 6].map(|_| superblocks.take(node(), 1).unwrap());
            let blocks = [0; 6].map(|_| superblocks.map(node(), layout, MapRoom::Usual).unwrap().0);
            slabs.iter().for_each(|slab| superblocks.release(slab));
            #[expect(unsafe_code, reason = "frees blocks")]
            // SAFETY: each is freed once.
            blocks.iter().for_each(|&block| unsafe { superblocks.unmap(memory.slab_of(block)) });
        };
        free_all();
        assert!(memory.waiting_bytes() >= 12 << 20, "{}", memory.waiting_bytes());
        memory.let_wait(3 << 20);
        assert!(memory.waiting_bytes() >= 12 << 20, "nothing is given back yet");
        memory.hold_to_bound();
        let waiting = memory.waiting_bytes();
        assert!((1 << 20..=3 << 20).contains(&waiting), "{waiting}");
        free_all();
        let waiting = memory.waiting_bytes();
        assert!((1 << 20..=3 << 20).contains(&waiting), "each free holds to the bound: {waiting}");
        memory.let_wait(0);
        free_all();
        assert_eq!((memory.waiting_bytes(), pages.committed(node())), (0, 32 * 128), "the headers stay");
        memory.let_wait(usize::MAX);
        free_all();
        assert!(memory.waiting_bytes() >= 12 << 20, "as the options say");
    }

    #[test]
    fn mapped_blocks_wait_within_a_bound_and_decay() {
        let (memory, pages) = memory(MemoryOptions { mapped_waiting_bytes: 1 << 20, decay_ticks: 5, ..paper() });
        let superblocks = &memory.superblocks;
        let map = |bytes: usize| {
            superblocks.map(node(), Layout::from_size_align(bytes, 4096).unwrap(), MapRoom::Usual).unwrap()
        };
        #[expect(unsafe_code, reason = "frees a block")]
        // SAFETY: each is freed once.
        let unmap = |block: NonNull<u8>| unsafe { superblocks.unmap(memory.slab_of(block)) };
        let (first, fresh) = map(600_000);
        assert!(fresh);
        unmap(first);
        let (again, fresh) = map(590_000);
        assert_eq!((again, fresh), (first, false));
        let (small, fresh) = map(110_000);
        assert!(fresh, "of 600,000 bytes too much would be lost");
        unmap(again);
        unmap(small);
        assert!(map(110_000).0 == small);
        unmap(small);
        let (large, _) = map(3 << 20);
        assert_eq!(large.addr().get() % 4096, 0);
        unmap(large);
        assert!(memory.counts(node()).mapped_waiting >= 3 << 20, "a free gives nothing back");
        assert!(!memory.give_back(), "at once, as it is little");
        assert_eq!(memory.counts(node()).mapped_waiting, 0, "larger than all that may wait: it pushed all out");
        let (last, fresh) = map(200_000);
        assert!(fresh);
        superblocks.tick(10);
        unmap(last);
        superblocks.tick(14);
        assert!(memory.counts(node()).mapped_waiting > 0);
        superblocks.tick(15);
        assert_eq!((memory.counts(node()).mapped_waiting, memory.counts(node()).mapped), (0, 0));
        assert_eq!(pages.committed(node()), 32 * 128, "the headers stay");
    }

    /// A buffer grown from a small one once never took a waiting block. Each time it shrank to a few bytes and grew
    /// again it got a new mapping, and 200 rounds of 1 MiB left 214 MiB waiting.
    #[test]
    fn a_buffer_that_shrinks_and_grows_takes_what_waits() {
        let (memory, pages) = memory(MemoryOptions { range_bytes: 1 << 30, mapped_waiting_bytes: 1 << 30, ..paper() });
        let mut heap = crate::Heap::new(&memory, node()).unwrap();
        let layout = |bytes: usize| Layout::from_size_align(bytes, 8).unwrap();
        let mut block = heap.alloc(layout(100)).unwrap();
        for round in 0..200 {
            #[expect(unsafe_code, reason = "changes a block's size")]
            // SAFETY: it has these bytes, and is used by its new place alone.
            unsafe {
                block = heap.realloc(block, layout(100), 1 << 20).unwrap();
                block = heap.realloc(block, layout(1 << 20), 100).unwrap();
            }
            let counts = memory.counts(node());
            assert!(counts.mapped_waiting < 3 << 20, "round {round}: {counts:?}");
        }
        assert!(pages.committed(node()) < 8 << 20);
        // A grown block grows in place the next time, also if it had waited.
        #[expect(unsafe_code, reason = "changes a block's size")]
        // SAFETY: as above.
        unsafe {
            block = heap.realloc(block, layout(100), 1 << 20).unwrap();
            for mebi in 2..=16 {
                let grown = heap.realloc(block, layout((mebi - 1) << 20), mebi << 20).unwrap();
                assert_eq!(grown, block, "{mebi} MiB");
            }
            heap.free(block, layout(16 << 20));
        }
    }

    #[test]
    fn options_that_contradict_themselves_are_refused() {
        let refused = |options: MemoryOptions| {
            let machine = Topology::parse("node:1 core:1").unwrap();
            Memory::new(Arc::new(FakePages::new(1)), &machine, options).unwrap_err().to_string()
        };
        assert_eq!(
            refused(MemoryOptions { superblock_bytes: 1 << 19, ..MemoryOptions::default() }),
            "a superblock of 524288 bytes: it must have at least 1 MiB, in steps of 64 KiB"
        );
        let series = crate::Series { limit: 600 << 10, ..Default::default() };
        assert!(
            refused(MemoryOptions { superblock_bytes: 1 << 20, series, ..MemoryOptions::default() })
                .contains("at most half")
        );
        assert!(refused(MemoryOptions { heaps: 0, ..MemoryOptions::default() }).contains("from 1 to 65536"));
        assert!(refused(MemoryOptions { batch_blocks: 0, ..MemoryOptions::default() }).contains("at least 1"));
        assert!(refused(MemoryOptions { range_bytes: 1 << 60, ..MemoryOptions::default() }).contains("take fewer"));
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::memory::Memory;
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use vicus_topology::Topology;

    /// Two heaps take and release superblocks of one node: one of these waits, and one is still to be committed. Finds
    /// this mutant: `take_here` looks for a released superblock under the lock, unlocks, and takes it out later.
    #[test]
    fn loom_a_superblock_has_one_owner() {
        loom::model(|| {
            let machine = Topology::parse("node:1 core:1").unwrap();
            let series = crate::Series { limit: 8 << 10, ..Default::default() };
            let options = MemoryOptions {
                superblock_bytes: 1 << 20,
                range_bytes: 2 << 20,
                heaps: 1,
                series,
                ..MemoryOptions::default()
            };
            let (memory, _) = Memory::on_fake_pages(&machine, options);
            let holders: loom::sync::Arc<[AtomicUsize; 2]> = Default::default();
            memory.superblocks.release(memory.superblocks.take(NodeId::new(0), 1).unwrap());
            let user = {
                let (memory, holders) = (memory.clone(), holders.clone());
                move || {
                    for _ in 0..2 {
                        let slab = memory.superblocks.take(NodeId::new(0), 1).unwrap();
                        let index = memory.superblocks.ranges.index_of(slab);
                        assert_eq!(holders[index].fetch_add(1, Ordering::Relaxed), 0, "a superblock has one owner");
                        holders[index].fetch_sub(1, Ordering::Relaxed);
                        memory.superblocks.release(slab);
                    }
                }
            };
            let other = loom::thread::spawn(user.clone());
            user();
            other.join().unwrap();
            let counts = memory.counts(NodeId::new(0));
            assert_eq!(counts.held, 0);
            assert!((1..=2).contains(&counts.waiting));
        });
    }
}
