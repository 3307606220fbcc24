//! The part shared by all heaps: ranges, superblocks, and the ways between heaps.

use crate::distribution::Distribution;
use crate::foreign::{Batch, Doors, Foreign};
use crate::ledger::Ledger;
use crate::neighbours::Neighbours;
use crate::pages::{PageError, Pages, WhenFull};
use crate::placed::Placing;
use crate::region::{Ranges, Region};
use crate::sizes::{LINE, Series, SeriesError, Sizes};
use crate::slab::{Kind, NO_HEAP, ORPHAN, RUN_BYTES, Slab};
use crate::superblock::{NodeCounts, Superblocks};
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use vicus_topology::{NodeId, Topology};

/// How memory is cut, placed and kept. The defaults are those of Falt et al. §5, if the paper has one.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryOptions {
    /// Bytes of a superblock: from 1 MiB, a multiple of 64 KiB. 10 MiB.
    pub superblock_bytes: usize,
    /// Addresses, not memory, reserved for each node, in bytes. 1 TiB; a runtime chooses fewer, in proportion to its
    /// machine's memory.
    pub range_bytes: usize,
    /// Addresses, not memory, reserved for placed memory ([`Memory::place`]) at the first placement, in bytes. 1 TiB; a
    /// runtime chooses fewer here as well.
    pub placed_bytes: usize,
    /// The default distribution of placed memory. Standard.
    pub distribution: Distribution,
    /// The block sizes heaps serve; larger blocks are mapped.
    pub series: Series,
    /// The behaviour when a node is full.
    pub when_full: WhenFull,
    /// How freed blocks go back to their heap.
    pub foreign: Foreign,
    /// The largest number of heaps at a time. 256.
    pub heaps: usize,
    /// How many blocks of one owner a heap holds back before it sends them (with mailboxes): at least one. 32.
    pub batch_blocks: usize,
    /// A heap also sends them as soon as the blocks held back for one owner have this number of bytes. 1 MiB.
    pub batch_bytes: usize,
    /// How many released superblocks a node keeps for the next heap; see [`Memory::give_back`]. 8.
    pub superblocks_waiting: usize,
    /// How many bytes of freed mapped blocks a node keeps; see [`Memory::give_back`]. 64 MiB.
    pub mapped_waiting_bytes: usize,
    /// After how many of the caller's ticks waiting memory is given back. 10.
    pub decay_ticks: u64,
    /// Whether to ask for huge pages. Then [`Heap::give_back_pages`] and [`Memory::give_back_pages`] give back only
    /// whole ones of 2 MiB, behind the last block that was in use since its superblock was cut: parts would split them.
    ///
    /// [`Heap::give_back_pages`]: crate::Heap::give_back_pages
    pub huge_pages: bool,
    /// Whether a heap touches every page of a fresh superblock at once, as Falt et al. §5.2 do to place it. Here
    /// mbind(2) places it; touching ahead only moves the cost of the page faults to the allocation.
    pub touch_ahead: bool,
}

impl Default for MemoryOptions {
    fn default() -> MemoryOptions {
        MemoryOptions {
            superblock_bytes: 10 << 20,
            range_bytes: 1 << 40,
            placed_bytes: 1 << 40,
            distribution: Distribution::default(),
            series: Series::default(),
            when_full: WhenFull::default(),
            foreign: Foreign::default(),
            heaps: 256,
            batch_blocks: 32,
            batch_bytes: 1 << 20,
            superblocks_waiting: 8,
            mapped_waiting_bytes: 64 << 20,
            decay_ticks: 10,
            huge_pages: false,
            touch_ahead: false,
        }
    }
}

/// Why a [`Memory`] could not be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionsError {
    /// Superblocks of this number of bytes are too small or not a multiple of 64 KiB.
    Superblock(usize),
    /// The largest block is more than half of a superblock.
    Limit {
        /// The largest block.
        limit: usize,
        /// The superblock.
        superblock_bytes: usize,
    },
    /// The series of sizes is invalid.
    Series(SeriesError),
    /// No heap, or more than 65,536.
    Heaps(usize),
    /// A batch would hold no block.
    Batch,
    /// The page source refused the addresses for all nodes, or the headers.
    Range {
        /// Bytes for each node.
        range_bytes: usize,
        /// How many nodes.
        nodes: usize,
        /// The page source's error.
        error: PageError,
    },
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionsError::Superblock(bytes) => {
                write!(f, "a superblock of {bytes} bytes: it must have at least 1 MiB, in steps of 64 KiB")
            }
            OptionsError::Limit { limit, superblock_bytes } => write!(
                f,
                "blocks of up to {limit} bytes in superblocks of {superblock_bytes}: a block may have at most half of \
                    one; \
                 lower the limit or take larger superblocks"
            ),
            OptionsError::Series(error) => error.fmt(f),
            OptionsError::Heaps(heaps) => write!(f, "room for {heaps} heaps: take from 1 to 65536"),
            OptionsError::Batch => write!(f, "batches of no block: take at least 1"),
            OptionsError::Range { range_bytes, nodes, error } => write!(
                f,
                "{range_bytes} bytes of addresses for each of {nodes} nodes could not be reserved ({error}); take fewer"
            ),
        }
    }
}

impl std::error::Error for OptionsError {}

/// Why a block could not be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocError {
    /// The node has no memory left, and no other node may be asked, or none had any.
    Exhausted {
        /// The requested node.
        node: NodeId,
        /// Tells whether others were asked.
        when_full: WhenFull,
        /// The page source's last error.
        error: PageError,
    },
    /// No node's range has this number of bytes in a row, with this alignment.
    TooLarge {
        /// The requested size.
        bytes: usize,
        /// The requested alignment.
        align: usize,
    },
    /// There is no such node.
    NoSuchNode {
        /// The requested node.
        node: NodeId,
        /// How many there are.
        nodes: usize,
    },
    /// There are as many heaps as [`MemoryOptions::heaps`] allows.
    Heaps(usize),
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocError::Exhausted { node, when_full: WhenFull::Strict, error } => {
                write!(f, "{node} has no memory left ({error}), and the memory is strict: no other node was asked")
            }
            AllocError::Exhausted { node, when_full: WhenFull::Preferred, error } => {
                write!(f, "{node} has no memory left, and neither has any other node ({error})")
            }
            AllocError::TooLarge { bytes, align } => {
                write!(f, "{bytes} bytes aligned to {align} are more than a node's range of addresses has")
            }
            AllocError::NoSuchNode { node, nodes } => {
                write!(f, "{node} is none of the {nodes} nodes, node0 to the last")
            }
            AllocError::Heaps(heaps) => write!(f, "all {heaps} heaps are in use; raise `MemoryOptions::heaps`"),
        }
    }
}

impl std::error::Error for AllocError {}

/// NUMA-aware memory, shared by all heaps of a process.
///
/// Each node has one range of addresses, cut into superblocks; heaps ([`crate::Heap`]) take superblocks and cut them
/// into blocks. This value lives until the last heap is gone; its addresses are then given back.
#[derive(Debug)]
pub struct Memory {
    pub(crate) options: MemoryOptions,
    pub(crate) sizes: Sizes,
    pub(crate) superblocks: Superblocks,
    pub(crate) doors: Doors,
    pub(crate) ledger: Ledger,
    pub(crate) placing: Placing,
    unplaced: Vec<PageError>,
}

#[expect(unsafe_code, reason = "it has pointers to headers")]
// SAFETY: headers' owners are atomic; all other fields belong to the slab's heap or to the holder of its pool's lock
// (see `Slab`). The range's base is only read.
unsafe impl Send for Memory {}

#[expect(unsafe_code, reason = "it has pointers to headers")]
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Reserves and places the ranges of all nodes of a machine.
    ///
    /// # Errors
    /// The options contradict each other, or the page source has too few addresses.
    pub fn new(
        pages: Arc<dyn Pages>,
        topology: &Topology,
        options: MemoryOptions,
    ) -> Result<Arc<Memory>, OptionsError> {
        let superblock = options.superblock_bytes;
        if superblock < 1 << 20 || !superblock.is_multiple_of(RUN_BYTES) || superblock > 1 << 40 {
            return Err(OptionsError::Superblock(superblock));
        }
        let sizes = Sizes::new(options.series, RUN_BYTES / 8).map_err(OptionsError::Series)?;
        if sizes.bytes(sizes.classes() - 1) * 2 > superblock {
            return Err(OptionsError::Limit { limit: options.series.limit, superblock_bytes: superblock });
        }
        if options.heaps == 0 || options.heaps > 1 << 16 {
            return Err(OptionsError::Heaps(options.heaps));
        }
        if options.batch_blocks == 0 {
            return Err(OptionsError::Batch);
        }
        let (nodes, bytes) = (topology.nodes.len(), options.range_bytes);
        let (ranges, mut unplaced) = Ranges::reserve(&*pages, nodes, bytes, superblock, options.when_full)
            .map_err(|error| OptionsError::Range { range_bytes: bytes, nodes, error })?;
        let classes = sizes.classes() + 1;
        let neighbours = Arc::new(Neighbours::new(topology));
        let placing = Placing::new(&pages, topology, &neighbours, &options);
        // The process may not use this node's memory: its heaps have memory of the nearest node with some, so this is
        // no refusal.
        let gives_none =
            |error: &PageError| matches!(error, PageError::NoSuchNode(node) if !placing.is_location(*node));
        unplaced.retain(|error| !gives_none(error));
        unplaced.iter().for_each(|&error| placing.refused(error));
        Ok(Arc::new(Memory {
            superblocks: Superblocks::new(pages, ranges, neighbours, &options, classes),
            doors: Doors::new(options.foreign, options.heaps),
            ledger: Ledger::default(),
            placing,
            options,
            sizes,
            unplaced,
        }))
    }

    /// For tests: on fake pages, with the calls recorded from now on.
    #[cfg(test)]
    pub(crate) fn on_fake_pages(
        machine: &Topology,
        options: MemoryOptions,
    ) -> (Arc<Memory>, Arc<crate::pages::FakePages>) {
        let pages = Arc::new(crate::pages::FakePages::new(machine.nodes.len()));
        let memory = Memory::new(Arc::clone(&pages) as Arc<dyn Pages>, machine, options).expect("the options fit");
        pages.take_calls();
        (memory, pages)
    }

    /// The options it was made with.
    pub fn options(&self) -> &MemoryOptions {
        &self.options
    }

    /// The block sizes.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// The page source. Other users may ask it for ranges of their own on the same nodes.
    pub fn pages(&self) -> &Arc<dyn Pages> {
        self.superblocks.pages()
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.superblocks.nodes()
    }

    /// The page source's refusals to place memory; there, the first touch decides. Empty if all is well. A node without
    /// usable memory is not a refusal: its heaps have the memory of the nearest location.
    pub fn unplaced(&self) -> &[PageError] {
        &self.unplaced
    }

    /// The counts of one node. Panics if there is no such node.
    pub fn counts(&self, node: NodeId) -> NodeCounts {
        self.superblocks.counts(node)
    }

    /// Tells the time, as a number that never falls: memory that has waited for [`MemoryOptions::decay_ticks`] is given
    /// back; and of a few superblocks on each node the pages that [`Memory::give_back_pages`] gives back.
    pub fn tick(&self, now: u64) {
        self.superblocks.tick(now);
    }

    /// Gives back the pages of free blocks in superblocks whose heaps ended [`MemoryOptions::decay_ticks`] ago or
    /// earlier, as [`Heap::give_back_pages`](crate::Heap::give_back_pages) does for its own: of a few superblocks on
    /// each node, some milliseconds. Returns whether there may be more. To be called when the caller is idle.
    pub fn give_back_pages(&self) -> bool {
        self.superblocks.give_back_pages()
    }

    /// Gives back a part of the memory waiting beyond [`MemoryOptions::superblocks_waiting`] and
    /// [`MemoryOptions::mapped_waiting_bytes`], and says whether there is more. Frees let it wait, up to four times the
    /// bounds, because giving back takes time. To be called when the caller is idle.
    pub fn give_back(&self) -> bool {
        self.superblocks.give_back()
    }

    /// The bytes that may wait from now on, on all nodes together, even if the options allow more: a free gives back
    /// the excess at once. For a program with limited memory, to adapt the bound to the rest. Waiting memory stays
    /// until [`Memory::hold_to_bound`].
    pub fn let_wait(&self, bytes: usize) {
        self.superblocks.let_wait(bytes);
    }

    /// Gives back waiting memory beyond the bound of [`Memory::let_wait`].
    pub fn hold_to_bound(&self) {
        self.superblocks.hold_to_bound();
    }

    /// How many bytes wait on all nodes: they were freed, and neither are in use again nor have been given back.
    pub fn waiting_bytes(&self) -> usize {
        let on = |node| self.counts(NodeId::new(node));
        let bytes = |counts: NodeCounts| counts.waiting * self.options.superblock_bytes + counts.mapped_waiting;
        (0..self.nodes()).map(|node| bytes(on(node))).sum()
    }

    /// Frees a block from a thread without a heap: it goes at once to its owner.
    ///
    /// # Safety
    /// The block came from a heap of this memory, is in use, and is not used after this call.
    #[expect(unsafe_code, reason = "frees a block")]
    pub unsafe fn free(&self, block: NonNull<u8>) {
        self.ledger.freed(block);
        let (slab, block) = self.find(block);
        // SAFETY: `find` gave the block's beginning; it is in use, says the caller.
        unsafe { self.send_home(NO_HEAP, slab, block) };
    }

    /// How many bytes a block has from this address on.
    pub fn usable_bytes(&self, pointer: NonNull<u8>) -> usize {
        let (slab, block) = self.find(pointer);
        let slab = self.small_slab(slab, block);
        slab.block_bytes() - (pointer.addr().get() - block.addr().get())
    }

    /// The first address of a range that begins in this memory and is not in use: freed, or never given out. `None` if
    /// all of it is in use, or if it is other memory. A free in another thread during this call may be seen or not.
    ///
    /// Placed memory is known in every build, heaps' blocks only in builds with debug assertions: in others they count
    /// as in use. So do the items of a [`DistPool`](crate::DistPool) for as long as it lives. Memory freed and given
    /// out again counts as in use.
    pub fn freed_in(&self, range: Range<usize>) -> Option<usize> {
        match self.superblocks.ranges.index(range.start) {
            Some(_) => self.ledger.freed_in(range),
            None => self.placing.freed_in(range),
        }
    }

    /// The superblock's header and the beginning of the block around an address. Panics if it is in none.
    pub(crate) fn find<'a>(&self, pointer: NonNull<u8>) -> (&'a Slab, NonNull<u8>) {
        let slab = self.slab_of(pointer);
        let whole = self.superblocks.ranges.whole(pointer.as_ptr());
        let within = match slab.kind.get() {
            Kind::Unused => None,
            Kind::Blocks | Kind::Mapped => slab.block_of(whole),
            Kind::Runs => self.superblocks.run(slab, whole).0.block_of(whole),
        };
        match within.and_then(NonNull::new) {
            Some(block) => (slab, block),
            None => not_ours(pointer, "is in no block that is in use"),
        }
    }

    pub(crate) fn slab_of<'a>(&self, pointer: NonNull<u8>) -> &'a Slab {
        match self.superblocks.ranges.index(pointer.addr().get()) {
            Some(index) => self.superblocks.ranges.slab(index),
            None => not_ours(pointer, "lies in no node's range"),
        }
    }

    /// The header of a block's slab: the superblock's, or the run's.
    pub(crate) fn small_slab<'a>(&self, slab: &'a Slab, block: NonNull<u8>) -> &'a Slab {
        match slab.kind.get() {
            Kind::Runs => self.superblocks.run(slab, block.as_ptr()).0,
            _ => slab,
        }
    }

    /// Sends a block to the present owner of its superblock.
    ///
    /// # Safety
    /// It is the beginning of a block in use. The block is not used after this call.
    #[expect(unsafe_code, reason = "frees a block")]
    pub(crate) unsafe fn send_home(&self, from: u32, slab: &Slab, block: NonNull<u8>) {
        // SAFETY: all three ask for the caller's promise.
        unsafe {
            if slab.kind.get() == Kind::Mapped {
                return self.superblocks.unmap(slab);
            }
            loop {
                let owner = slab.owner();
                if owner == ORPHAN {
                    if self.superblocks.put_orphan(slab, block) {
                        return;
                    }
                    continue;
                }
                assert_ne!(owner, NO_HEAP, "freeing {block:p}, which is in no block that is in use");
                return match self.doors.bring(from, owner, Batch::of(block)) {
                    Ok(()) => {}
                    Err(batch) => self.send_again(from, batch),
                };
            }
        }
    }

    /// Sends blocks of an ended heap to their present owners.
    #[cold]
    #[expect(unsafe_code, reason = "frees blocks")]
    pub(crate) fn send_again(&self, from: u32, batch: Batch) {
        // Not by recursion: each block may come back with others.
        let mut waiting = vec![batch];
        while let Some(batch) = waiting.pop() {
            for block in batch.into_blocks() {
                let slab = self.slab_of(block);
                // SAFETY: the blocks of a batch are in use, and the batch owns them.
                unsafe {
                    let owner = slab.owner();
                    if owner == ORPHAN && self.superblocks.put_orphan(slab, block) {
                        continue;
                    }
                    waiting.extend(match slab.owner() {
                        ORPHAN | NO_HEAP => Some(Batch::of(block)),
                        owner => self.doors.bring(from, owner, Batch::of(block)).err(),
                    });
                }
            }
        }
    }
}

impl Region for Memory {
    fn owns(&self, address: *const u8) -> bool {
        self.superblocks.ranges.owns(address) || self.placing.owns(address)
    }

    fn node_of(&self, address: *const u8) -> Option<NodeId> {
        self.superblocks.ranges.node_of(address).or_else(|| self.placing.node_of(address))
    }
}

#[cold]
pub(crate) fn not_ours(pointer: NonNull<u8>, why: &str) -> ! {
    panic!("freeing or asking about {pointer:p}, which {why}: it did not come from here, or was freed before")
}

const _: () = assert!(RUN_BYTES / 8 >= LINE);
