//! Items of one size, from memory near the thread that asks.
//!
//! Wheeler, Thain, Murphy, "Portable Performance from Workstation to Supercomputer: Distributing Data Structures with Qthreads",
//! §5.1: the qpool. Each location has a stack of freed items and a block that it cuts new ones from. An allocation looks into its
//! location's stack, its location's block, the neighbours' stacks in random order, then takes a new block, and if there is no
//! memory, looks at the blocks of all locations, the nearest first. A freed item goes to the stack of the location that frees it.
//!
//! We differ: a seat has two magazines of items of its own, so that most calls touch nothing that is shared; the stacks hold
//! whole magazines, which change hands by one exchange (Bonwick and Adams, "Magazines and Vmem", USENIX 2001, §3); and as an
//! option freed items go home to the location whose block they are of.

use crate::array::mixed;
use crate::memory::{AllocError, Memory};
use crate::stack::{Cut, Links, Stack};
use crate::sync::{AtomicPtr, AtomicU32, Mutex, Ordering, Padded};
use std::alloc::Layout;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use vicus_topology::{LocationId, NodeId, Place};

/// Where a freed item goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frees {
    /// To the location that frees it, as published: it is in a cache there.
    #[default]
    Here,
    /// To the location that it is of: the next allocation there gets near memory.
    Home,
}

/// How a pool is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// The least alignment of items: a power of two. Their type's alignment.
    pub align: usize,
    /// Bytes of a block: a power of two, from 64 KiB to 2 GiB. 1 MiB.
    pub block_bytes: usize,
    /// How many items a magazine has: a seat keeps two of them for itself. With 0 it keeps none, as published. 256.
    pub magazine: usize,
    /// Where a freed item goes.
    pub frees: Frees,
    /// The seed of the order in which neighbours are asked.
    pub seed: u64,
}

impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions { align: 1, block_bytes: 1 << 20, magazine: 256, frees: Frees::default(), seed: 0 }
    }
}

/// Why a pool could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolError {
    /// Blocks of so many bytes are too small, too large, or not a power of two.
    Block(usize),
    /// Items can't be aligned to this, or not in such blocks.
    Align(usize),
    /// Magazines would have room for more than 65,536 items.
    Magazine(usize),
    /// A block would have no room for an item.
    Item {
        /// Bytes of an item, with the padding for the next one's alignment.
        bytes: usize,
        /// Bytes of a block.
        block_bytes: usize,
    },
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolError::Block(bytes) => {
                write!(f, "blocks of {bytes} bytes: take a power of two from 64 KiB to 2 GiB")
            }
            PoolError::Align(align) => {
                write!(f, "items aligned to {align}: take a power of two, at most a quarter of a block")
            }
            PoolError::Magazine(items) => write!(f, "magazines of {items} items: take at most 65536"),
            PoolError::Item { bytes, block_bytes } => {
                write!(f, "a block of {block_bytes} bytes has no room for items of {bytes}; take larger blocks")
            }
        }
    }
}

impl std::error::Error for PoolError {}

/// A pool of items for any number of threads; each needs a [`PoolHandle`].
///
/// ```
/// use std::sync::Arc;
/// use vicus_memory::{DistPool, FakePages, Memory, MemoryOptions, PoolOptions};
/// use vicus_topology::{NodeId, Topology};
///
/// let machine = Topology::parse("node:2 core:1").unwrap();
/// let options = MemoryOptions { range_bytes: 32 << 20, ..MemoryOptions::default() };
/// let memory = Memory::new(Arc::new(FakePages::new(2)), &machine, options).unwrap();
/// let pool: DistPool<[u8; 44]> = DistPool::new(&memory, PoolOptions::default()).unwrap();
/// let mut seat = pool.handle(NodeId::new(1));
/// let mut item = seat.alloc([0; 44]).unwrap();
/// item[43] = 7;
/// assert_eq!(pool.node_of(&item), NodeId::new(1));
/// seat.free(item);
/// ```
pub struct DistPool<T> {
    raw: RawPool,
    items: PhantomData<T>,
}

#[expect(unsafe_code, reason = "items are in raw memory")]
// SAFETY: the pool owns no `T`, only room for some; all its other parts are `Send`.
unsafe impl<T: Send> Send for DistPool<T> {}

#[expect(unsafe_code, reason = "items are in raw memory")]
// SAFETY: as above; its shared parts are atomic or behind a lock.
unsafe impl<T: Send> Sync for DistPool<T> {}

impl<T> fmt::Debug for DistPool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RawPool { stride, slots, options, .. } = &self.raw;
        write!(f, "a pool of items of {stride} bytes, {slots} to a block, {options:?}")
    }
}

impl<T> DistPool<T> {
    /// A pool over all locations of a memory ([`Memory::locations`]). Its first block is taken at the first allocation.
    ///
    /// # Errors
    /// The options don't fit.
    pub fn new(memory: &Arc<Memory>, options: PoolOptions) -> Result<DistPool<T>, PoolError> {
        Ok(DistPool { raw: RawPool::new(memory, Layout::new::<T>(), options)?, items: PhantomData })
    }

    /// A handle for a seat at a place: it takes from there first, or from the nearest location that has memory
    /// ([`Memory::location_near`]). Panics if there is no such place.
    pub fn handle(&self, place: impl Into<Place>) -> PoolHandle<'_, T> {
        PoolHandle { pool: self, own: Magazines::new(&self.raw, place) }
    }

    /// The node that an item lies on.
    pub fn node_of(&self, item: &PoolItem<'_, T>) -> NodeId {
        self.raw.node_of(item.at.cast()).expect("blocks lie in a node's range")
    }

    /// How many blocks each location ([`Memory::locations`]) has taken.
    pub fn blocks(&self) -> Vec<usize> {
        self.raw.locals.iter().map(|local| self.raw.with(&local.0, |blocks| blocks.len())).collect()
    }

    /// Bytes from one item to the next.
    pub fn stride(&self) -> usize {
        self.raw.stride
    }
}

/// An item of a pool. Free it by a handle if there is one; a dropped item goes home, which costs more.
pub struct PoolItem<'p, T> {
    /// With the provenance of its block.
    at: NonNull<T>,
    pool: &'p DistPool<T>,
    owns: PhantomData<T>,
}

#[expect(unsafe_code, reason = "it has a pointer to its value")]
// SAFETY: it owns its value as a box does.
unsafe impl<T: Send> Send for PoolItem<'_, T> {}

#[expect(unsafe_code, reason = "it has a pointer to its value")]
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for PoolItem<'_, T> {}

impl<T> Deref for PoolItem<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        #[expect(unsafe_code, reason = "the memory is raw")]
        // SAFETY: initialised, and this value's alone.
        unsafe {
            self.at.as_ref()
        }
    }
}

impl<T> DerefMut for PoolItem<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        #[expect(unsafe_code, reason = "the memory is raw")]
        // SAFETY: as above.
        unsafe {
            self.at.as_mut()
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for PoolItem<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Drop for PoolItem<'_, T> {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "drops the value in raw memory")]
        // SAFETY: initialised, this value's alone, and dropped once, here.
        unsafe {
            self.at.drop_in_place();
        }
        let raw = &self.pool.raw;
        raw.stray(self.at.cast(), raw.home_of(self.at.cast()));
    }
}

/// One seat's access to a pool: its location and its magazines. Dropped, it gives its magazines to its location.
pub struct PoolHandle<'p, T> {
    pool: &'p DistPool<T>,
    own: Magazines,
}

#[expect(unsafe_code, reason = "it has pointers to items")]
// SAFETY: the items of a magazine hold no values, and only the handle uses them.
unsafe impl<T: Send> Send for PoolHandle<'_, T> {}

impl<T> fmt::Debug for PoolHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a handle on {} with {} items", self.node(), self.own.items())
    }
}

impl<'p, T> PoolHandle<'p, T> {
    /// An item with this value.
    ///
    /// # Errors
    /// No memory is left, here or elsewhere; the value is dropped.
    #[inline]
    pub fn alloc(&mut self, value: T) -> Result<PoolItem<'p, T>, AllocError> {
        self.alloc_with(|| value)
    }

    /// An item with a value that is made in place. If making it panics, the item's room is lost until the pool is dropped.
    ///
    /// # Errors
    /// No memory is left, here or elsewhere; no value is made.
    #[inline]
    pub fn alloc_with(&mut self, make: impl FnOnce() -> T) -> Result<PoolItem<'p, T>, AllocError> {
        let at = self.own.take(&self.pool.raw)?;
        let at = at.cast();
        #[expect(unsafe_code, reason = "the memory is raw")]
        // SAFETY: an item's room, aligned for it, that only this call uses.
        unsafe {
            at.write(make());
        }
        Ok(PoolItem { at, pool: self.pool, owns: PhantomData })
    }

    /// Frees an item, from whichever handle it came. Panics if it is of another pool.
    #[inline]
    pub fn free(&mut self, item: PoolItem<'p, T>) {
        assert!(std::ptr::eq(item.pool, self.pool), "freeing an item of another pool");
        let item = std::mem::ManuallyDrop::new(item);
        #[expect(unsafe_code, reason = "drops the value in raw memory")]
        // SAFETY: initialised, the item's alone, and dropped once, here.
        unsafe {
            item.at.drop_in_place();
        }
        self.own.give(&self.pool.raw, item.at.cast());
    }

    /// The node that it takes from first.
    pub fn node(&self) -> NodeId {
        self.pool.raw.memory.node_at(self.own.location)
    }

    /// Gives all items back that it holds; freed items of other locations go home.
    pub fn release(&mut self) {
        self.own.release(&self.pool.raw);
    }
}

impl<T> Drop for PoolHandle<'_, T> {
    fn drop(&mut self) {
        self.own.end(&self.pool.raw);
    }
}

/// A pool whose items have a size and an alignment that are known when it is made, not when it is compiled. For other languages; an item is
/// memory, without a value.
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
    /// As [`DistPool::new`].
    ///
    /// # Errors
    /// The options, or the items, don't fit.
    pub fn new(memory: &Arc<Memory>, item: Layout, options: PoolOptions) -> Result<UntypedPool, PoolError> {
        Ok(UntypedPool(DistPool { raw: RawPool::new(memory, item, options)?, items: PhantomData }))
    }

    /// As [`DistPool::handle`]. The handle keeps the pool.
    pub fn handle(self: &Arc<Self>, place: impl Into<Place>) -> UntypedHandle {
        UntypedHandle { own: Magazines::new(&self.0.raw, place), pool: Arc::clone(self) }
    }

    /// The node that an item lies on; `None` if this is no address of the memory's.
    pub fn node_of(&self, item: NonNull<u8>) -> Option<NodeId> {
        self.0.raw.node_of(item)
    }

    /// Bytes from one item to the next.
    pub fn stride(&self) -> usize {
        self.0.stride()
    }

    /// Frees an item without a handle: it goes home, which costs more.
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

    /// An item. What it holds is not said.
    ///
    /// # Errors
    /// No memory is left, here or elsewhere.
    #[inline]
    pub fn take(&mut self) -> Result<NonNull<u8>, AllocError> {
        self.own.take(&self.pool.0.raw)
    }

    /// Frees an item, from whichever handle it came.
    ///
    /// # Safety
    /// It was taken from this pool, with its provenance, and is not used any more.
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub unsafe fn give(&mut self, item: NonNull<u8>) {
        self.own.give(&self.pool.0.raw, item);
    }

    /// The node that it takes from first.
    pub fn node(&self) -> NodeId {
        self.pool.0.raw.memory.node_at(self.own.location)
    }
}

impl Drop for UntypedHandle {
    fn drop(&mut self) {
        self.own.end(&self.pool.0.raw);
    }
}

/// What a handle has: its location, and items.
struct Magazines {
    location: LocationId,
    /// Items for the next allocations; the last one freed is the next.
    loaded: Magazine,
    /// Full or empty, except in a new handle.
    spare: Magazine,
    /// For each location, freed items that are to go home there. Empty if items don't go home.
    away: Vec<Magazine>,
    chance: u64,
    /// The other locations, in the order in which they were last asked.
    neighbours: Vec<LocationId>,
}

impl Magazines {
    fn new(raw: &RawPool, place: impl Into<Place>) -> Magazines {
        let location = raw.memory.location_near(place);
        let locations = raw.locals.len();
        let handles = raw.handles.fetch_add(1, Ordering::Relaxed);
        let away = if raw.options.frees == Frees::Home { locations } else { 0 };
        let mut loaded = raw.empty(location);
        loaded.room = raw.options.magazine;
        Magazines {
            location,
            loaded,
            spare: raw.empty(location),
            away: (0..away).map(|_| raw.empty(location)).collect(),
            chance: mixed(raw.options.seed, u64::from(handles)),
            neighbours: (0..locations).map(LocationId::new).filter(|&at| at != location).collect(),
        }
    }

    /// How many items there are.
    fn items(&self) -> usize {
        self.loaded.count + self.spare.count
    }

    #[inline]
    fn take(&mut self, raw: &RawPool) -> Result<NonNull<u8>, AllocError> {
        match self.loaded.pop() {
            Some(at) => Ok(at),
            None => self.fetch(raw),
        }
    }

    #[inline]
    fn give(&mut self, raw: &RawPool, item: NonNull<u8>) {
        if !self.away.is_empty() {
            let home = raw.home_of(item);
            if home != self.location {
                return self.send_home(raw, item, home);
            }
        }
        if !self.loaded.push(item) {
            self.make_room(raw, item);
        }
    }

    fn release(&mut self, raw: &RawPool) {
        let location = self.location;
        raw.give(&mut self.loaded, location, location);
        raw.give(&mut self.spare, location, location);
        let away = self.away.iter_mut().enumerate();
        away.for_each(|(home, away)| raw.give(away, LocationId::new(home), location));
    }

    /// The handle ends: its items and its magazines go to its location. Nothing is done with this value afterwards.
    fn end(&mut self, raw: &RawPool) {
        let location = self.location;
        self.release(raw);
        let magazines = self.away.drain(..).chain([&mut self.loaded, &mut self.spare].map(Magazine::take));
        magazines.for_each(|empty| raw.local(location).empties.push(raw, empty.into_number()));
    }

    /// Frees an item when the loaded magazine is full.
    #[cold]
    fn make_room(&mut self, raw: &RawPool, item: NonNull<u8>) {
        let location = self.location;
        if raw.options.magazine == 0 {
            let mut single = raw.empty(location);
            single.push(item);
            return raw.put(single, location);
        }
        raw.give(&mut self.spare, location, location);
        std::mem::swap(&mut self.loaded, &mut self.spare);
        let has_room = self.loaded.push(item);
        debug_assert!(has_room);
    }

    fn send_home(&mut self, raw: &RawPool, item: NonNull<u8>, home: LocationId) {
        let away = &mut self.away[home.index()];
        if raw.options.magazine == 0 {
            let mut single = raw.empty(self.location);
            single.push(item);
            return raw.put(single, home);
        }
        if !away.push(item) {
            raw.give(away, home, self.location);
            away.push(item);
        }
    }

    /// An item when the loaded magazine is empty: from the spare one, or from elsewhere.
    #[cold]
    fn fetch(&mut self, raw: &RawPool) -> Result<NonNull<u8>, AllocError> {
        if self.spare.count > 0 {
            std::mem::swap(&mut self.loaded, &mut self.spare);
        } else {
            let found = self.find(raw)?;
            let empty = std::mem::replace(&mut self.loaded, found);
            raw.local(self.location).empties.push(raw, empty.into_number());
        }
        let item = self.loaded.pop().expect("it is not empty");
        if raw.options.magazine == 0 {
            self.loaded.room = 0;
        }
        Ok(item)
    }

    /// A magazine with some items, by the paper's order of search.
    fn find(&mut self, raw: &RawPool) -> Result<Magazine, AllocError> {
        let own = raw.local(self.location);
        if let Some(found) = own.pop(raw).or_else(|| own.cut(raw, self.location)).or_else(|| own.strays(raw)) {
            return Ok(found);
        }
        // Fisher and Yates's shuffle.
        for left in (1..self.neighbours.len()).rev() {
            self.chance = mixed(self.chance, 0);
            self.neighbours.swap(left, (self.chance % (left as u64 + 1)) as usize);
        }
        let neighbour = |&at: &LocationId| raw.local(at).pop(raw).or_else(|| raw.local(at).strays(raw));
        if let Some(found) = self.neighbours.iter().find_map(neighbour) {
            return Ok(found);
        }
        raw.grow(self.location).or_else(|error| {
            let rest = |&at: &LocationId| {
                let local = raw.local(at);
                local.pop(raw).or_else(|| local.strays(raw)).or_else(|| local.cut(raw, self.location))
            };
            raw.near[self.location.index()].iter().find_map(rest).ok_or(error)
        })
    }
}

/// A magazine's memory. Boxed, so that it stays: a thread with an outdated head of a stack still reads its link.
struct MagazineBlock {
    number: u32,
    /// In a stack, what lies below.
    link: AtomicU32,
    /// In a stack, how many items there are. The holder of the magazine may use this and the items.
    count: Cell<usize>,
    items: NonNull<NonNull<u8>>,
}

/// A magazine that its holder uses.
struct Magazine {
    node: NonNull<MagazineBlock>,
    items: NonNull<NonNull<u8>>,
    /// Invariant: so many of `items` are initialised, and at most `room`, which is at most the node's.
    count: usize,
    room: usize,
}

impl Magazine {
    #[inline(always)]
    fn pop(&mut self) -> Option<NonNull<u8>> {
        self.count = self.count.checked_sub(1)?;
        #[expect(unsafe_code, reason = "magazines are raw memory")]
        // SAFETY: so many are initialised.
        Some(unsafe { self.items.add(self.count).read() })
    }

    /// Puts an item on top, if there is room.
    #[inline(always)]
    fn push(&mut self, item: NonNull<u8>) -> bool {
        if self.count == self.room {
            return false;
        }
        #[expect(unsafe_code, reason = "magazines are raw memory")]
        // SAFETY: there is room for one more.
        unsafe {
            self.items.add(self.count).write(item);
        }
        self.count += 1;
        true
    }

    fn node(&self) -> &MagazineBlock {
        #[expect(unsafe_code, reason = "nodes live as long as the pool")]
        // SAFETY: as it says, and a magazine is a handle's, which borrows the pool, or the pool's.
        unsafe {
            self.node.as_ref()
        }
    }

    /// Gives it up and leaves its number, by which a stack holds it.
    fn into_number(self) -> u32 {
        self.node().count.set(self.count);
        self.node().number
    }

    /// Takes it, leaving a magazine behind that must not be used.
    fn take(&mut self) -> Magazine {
        Magazine { node: self.node, items: self.items, count: self.count, room: self.room }
    }
}

/// A pool of memory for items.
struct RawPool {
    memory: Arc<Memory>,
    options: PoolOptions,
    /// Bytes from one item to the next.
    stride: usize,
    /// How many items a block has.
    slots: u32,
    /// The offset of a block's first item.
    first: usize,
    /// How many items a magazine has room for.
    room: usize,
    blocks: Table<u8>,
    nodes: Table<MagazineBlock>,
    locals: Box<[Padded<Local>]>,
    /// For each location all locations, the nearest first.
    near: Vec<Vec<LocationId>>,
    handles: AtomicU32,
}

/// A location's part of the pool.
struct Local {
    /// Magazines with items.
    stack: Stack,
    /// Magazines without.
    empties: Stack,
    cut: Cut,
    /// Its blocks. A thread that adds a block holds the lock.
    blocks: Mutex<Vec<NonNull<u8>>>,
    /// Items that were freed without a handle, until they fill a magazine.
    strays: Mutex<Option<Magazine>>,
}

#[expect(unsafe_code, reason = "it has pointers to blocks")]
// SAFETY: the blocks and nodes are the pool's; a node's cells are used by the holder of its magazine.
unsafe impl Send for RawPool {}

#[expect(unsafe_code, reason = "it has pointers to blocks")]
// SAFETY: as above; the lists of blocks and nodes are behind locks.
unsafe impl Sync for RawPool {}

/// The header of a block.
#[repr(C, align(64))]
struct Header {
    home: LocationId,
}

impl Local {
    fn new() -> Local {
        Local {
            stack: Stack::new(),
            empties: Stack::new(),
            cut: Cut::new(),
            blocks: Mutex::new(Vec::new()),
            strays: Mutex::new(None),
        }
    }

    fn pop(&self, raw: &RawPool) -> Option<Magazine> {
        self.stack.pop(raw).map(|number| raw.magazine(number))
    }

    /// Items that were never in use, in a magazine of the location `asks`.
    fn cut(&self, raw: &RawPool, asks: LocationId) -> Option<Magazine> {
        let (block, slot, count) = self.cut.take(raw.room as u32, raw.slots)?;
        let mut magazine = raw.empty(asks);
        raw.fill(&mut magazine, raw.blocks.get(block).expect("it was known before it was cut"), slot..slot + count);
        Some(magazine)
    }

    fn with_strays<R>(&self, f: impl FnOnce(&mut Option<Magazine>) -> R) -> R {
        f(&mut self.strays.lock().expect("nothing panics with the strays"))
    }

    fn strays(&self, raw: &RawPool) -> Option<Magazine> {
        // With magazines of one item, each freed item is put on the stack at once.
        if raw.room == 1 { None } else { self.with_strays(Option::take) }
    }
}

impl RawPool {
    fn new(memory: &Arc<Memory>, item: Layout, options: PoolOptions) -> Result<RawPool, PoolError> {
        let (block_bytes, align) = (options.block_bytes, options.align.max(item.align()));
        // A block has fewer than 2^32 slots.
        if !block_bytes.is_power_of_two() || !(1 << 16..=1 << 31).contains(&block_bytes) {
            return Err(PoolError::Block(block_bytes));
        }
        if !options.align.is_power_of_two() || align > block_bytes / 4 {
            return Err(PoolError::Align(options.align));
        }
        if options.magazine > 1 << 16 {
            return Err(PoolError::Magazine(options.magazine));
        }
        let stride = item.size().max(1).next_multiple_of(align);
        let first = size_of::<Header>().next_multiple_of(align);
        let slots = (block_bytes - first) / stride;
        if slots == 0 {
            return Err(PoolError::Item { bytes: stride, block_bytes });
        }
        let nodes = memory.locations();
        Ok(RawPool {
            options,
            stride,
            slots: slots as u32,
            first,
            room: options.magazine.max(1),
            blocks: Table::new(),
            nodes: Table::new(),
            locals: nodes.iter().map(|_| Padded(Local::new())).collect(),
            near: nodes.iter().map(|&node| memory.locations_near(node).collect()).collect(),
            handles: AtomicU32::new(0),
            memory: Arc::clone(memory),
        })
    }

    #[inline(always)]
    fn local(&self, location: LocationId) -> &Local {
        &self.locals[location.index()].0
    }

    fn with<R>(&self, local: &Local, f: impl FnOnce(&mut Vec<NonNull<u8>>) -> R) -> R {
        f(&mut local.blocks.lock().expect("nothing panics while a pool grows"))
    }

    fn node_of(&self, item: NonNull<u8>) -> Option<NodeId> {
        use crate::region::Region;
        self.memory.node_of(item.as_ptr())
    }

    /// The location whose block an item is in.
    #[inline]
    fn home_of(&self, item: NonNull<u8>) -> LocationId {
        let offset = item.addr().get() & (self.options.block_bytes - 1);
        #[expect(unsafe_code, reason = "the header is in the block")]
        // SAFETY: blocks are aligned to their size; the pointer may reach all of its block, which begins with a header that is
        // not written any more.
        unsafe {
            item.sub(offset).cast::<Header>().as_ref().home
        }
    }

    /// The magazine of a number from a stack.
    fn magazine(&self, number: u32) -> Magazine {
        let node = self.nodes.get(number).expect("a number is given out after its node is entered");
        #[expect(unsafe_code, reason = "nodes live as long as the pool")]
        // SAFETY: as it says, and the caller has this one.
        let (items, count) = unsafe { (node.as_ref().items, node.as_ref().count.get()) };
        Magazine { node, items, count, room: self.room }
    }

    /// A magazine without items, the nearest used one if there is any.
    fn empty(&self, location: LocationId) -> Magazine {
        let used = self.near[location.index()].iter().find_map(|&at| self.local(at).empties.pop(self));
        let number = used.unwrap_or_else(|| {
            self.nodes.push(|number| {
                let items: Box<[NonNull<u8>]> = vec![NonNull::dangling(); self.room].into();
                let items = NonNull::from(Box::leak(items)).cast();
                NonNull::from(Box::leak(Box::new(MagazineBlock {
                    number,
                    link: AtomicU32::new(0),
                    count: Cell::new(0),
                    items,
                })))
            })
        });
        self.magazine(number)
    }

    /// Puts a magazine with items on a location's stack.
    fn put(&self, magazine: Magazine, location: LocationId) {
        self.local(location).stack.push(self, magazine.into_number());
    }

    /// Gives what is in a magazine to another location, and a fresh magazine to its holder.
    fn give(&self, magazine: &mut Magazine, to: LocationId, holder: LocationId) {
        if magazine.count > 0 {
            let full = std::mem::replace(magazine, self.empty(holder));
            self.put(full, to);
        }
    }

    /// Takes an item that was freed without a handle.
    fn stray(&self, item: NonNull<u8>, home: LocationId) {
        let local = self.local(home);
        let full = local.with_strays(|strays| {
            let magazine = strays.get_or_insert_with(|| self.empty(home));
            magazine.push(item);
            if magazine.count == magazine.room { strays.take() } else { None }
        });
        full.into_iter().for_each(|full| self.put(full, home));
    }

    /// Fills a magazine with a block's items that were never in use; the first one is used first.
    fn fill(&self, magazine: &mut Magazine, block: NonNull<u8>, slots: std::ops::Range<u32>) {
        for slot in slots.rev() {
            #[expect(unsafe_code, reason = "an offset within a block")]
            // SAFETY: a block has so many slots.
            let item = unsafe { block.add(self.first + slot as usize * self.stride) };
            let has_room = magazine.push(item);
            debug_assert!(has_room);
        }
    }

    /// Items of a new block for a location, or of one that another thread has taken meanwhile.
    fn grow(&self, home: LocationId) -> Result<Magazine, AllocError> {
        let local = self.local(home);
        self.with(local, |blocks| {
            if let Some(found) = local.cut(self, home) {
                return Ok(found);
            }
            let (bytes, node) = (self.options.block_bytes, self.memory.node_at(home));
            let layout = Layout::from_size_align(bytes, bytes).expect("a power of two below 2^32");
            let (block, _) = self.memory.superblocks.map(node, layout, crate::superblock::MapRoom::Usual)?;
            self.memory.ledger.taken(block, || bytes);
            #[expect(unsafe_code, reason = "the header is in the block")]
            // SAFETY: the block was just mapped, has room for its header, and is not known to other threads yet.
            unsafe {
                block.cast::<Header>().write(Header { home });
            }
            blocks.push(block);
            let number = self.blocks.push(|_| block);
            let count = (self.room as u32).min(self.slots);
            let mut magazine = self.empty(home);
            self.fill(&mut magazine, block, 0..count);
            local.cut.renew(number, count);
            Ok(magazine)
        })
    }

    fn unmap(&self, block: NonNull<u8>) {
        self.memory.ledger.freed(block);
        #[expect(unsafe_code, reason = "gives back what was mapped")]
        // SAFETY: mapped once, and none of its items is left: the pool is dropped, and items borrow the pool.
        unsafe {
            self.memory.superblocks.unmap(self.memory.slab_of(block));
        }
    }
}

impl Links for RawPool {
    #[inline]
    fn link(&self, number: u32) -> Option<&AtomicU32> {
        #[expect(unsafe_code, reason = "nodes live as long as the pool")]
        // SAFETY: as it says.
        self.nodes.get(number).map(|node| unsafe { &node.as_ref().link })
    }
}

impl Drop for RawPool {
    fn drop(&mut self) {
        for local in &self.locals {
            let blocks = self.with(&local.0, std::mem::take);
            blocks.into_iter().for_each(|block| self.unmap(block));
        }
        for node in self.nodes.all() {
            #[expect(unsafe_code, reason = "frees what `empty` leaked")]
            // SAFETY: leaked in `empty`, with so much room, and not used elsewhere: handles borrow the pool.
            unsafe {
                let items = std::ptr::slice_from_raw_parts_mut(node.as_ref().items.as_ptr(), self.room);
                drop(Box::from_raw(items));
                drop(Box::from_raw(node.as_ptr()));
            }
        }
    }
}

/// Pointers by number. It grows, and is read without a lock.
struct Table<T> {
    /// Part `p` has the numbers from 2^p - 1 up to the next part's first.
    parts: [AtomicPtr<AtomicPtr<T>>; PARTS],
    /// How many there are. A thread that adds one holds the lock.
    count: Mutex<u32>,
}

const PARTS: usize = u32::BITS as usize;

impl<T> Table<T> {
    fn new() -> Table<T> {
        Table { parts: std::array::from_fn(|_| AtomicPtr::new(null_mut())), count: Mutex::new(0) }
    }

    fn place(number: u32) -> (usize, usize) {
        let place = number as usize + 1;
        let part = place.ilog2() as usize;
        (part, place - (1 << part))
    }

    #[inline]
    fn get(&self, number: u32) -> Option<NonNull<T>> {
        let (part, at) = Table::<T>::place(number);
        let part = NonNull::new(self.parts[part].load(Ordering::Acquire))?;
        #[expect(unsafe_code, reason = "parts are never freed before the table is")]
        // SAFETY: the part has so many entries.
        NonNull::new(unsafe { part.add(at).as_ref() }.load(Ordering::Acquire))
    }

    /// Adds the pointer that `make` gives for the next number. Gives the number.
    fn push(&self, make: impl FnOnce(u32) -> NonNull<T>) -> u32 {
        let mut count = self.count.lock().expect("nothing panics while a table grows");
        let number = *count;
        assert!(number < u32::MAX - 1, "a table has as many entries as it can have");
        let (part, at) = Table::<T>::place(number);
        let mut entries = self.parts[part].load(Ordering::Relaxed);
        if entries.is_null() {
            let fresh: Box<[AtomicPtr<T>]> = (0..1 << part).map(|_| AtomicPtr::new(null_mut())).collect();
            entries = Box::into_raw(fresh).cast();
            self.parts[part].store(entries, Ordering::Release);
        }
        #[expect(unsafe_code, reason = "parts are never freed before the table is")]
        // SAFETY: the part has so many entries.
        unsafe {
            (*entries.add(at)).store(make(number).as_ptr(), Ordering::Release);
        }
        *count += 1;
        number
    }

    fn all(&self) -> impl Iterator<Item = NonNull<T>> {
        (0..).map_while(|number| self.get(number))
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        for (part, entries) in self.parts.iter().enumerate() {
            let entries = entries.load(Ordering::Relaxed);
            if !entries.is_null() {
                #[expect(unsafe_code, reason = "frees what `push` made")]
                // SAFETY: a boxed slice of that length.
                drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(entries, 1 << part)) });
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::MemoryOptions;
    use crate::pages::{FakePages, WhenFull};
    use crate::region::Region;
    use std::rc::Rc;
    use vicus_topology::Topology;

    fn memory(nodes: usize) -> (Arc<Memory>, Arc<FakePages>) {
        let mut machine = Topology::parse(&format!("node:{nodes} core:1")).unwrap();
        for (from, row) in machine.distances.iter_mut().enumerate() {
            row.iter_mut().enumerate().for_each(|(to, distance)| *distance = 10 + 5 * from.abs_diff(to) as u32);
        }
        let series = crate::Series { limit: 64 << 10, ..Default::default() };
        let options = MemoryOptions {
            superblock_bytes: 1 << 20,
            range_bytes: 8 << 20,
            mapped_waiting_bytes: 0,
            when_full: WhenFull::Strict,
            series,
            ..MemoryOptions::default()
        };
        Memory::on_fake_pages(&machine, options)
    }

    /// Without magazines, small blocks.
    const PUBLISHED: PoolOptions =
        PoolOptions { align: 1, block_bytes: 1 << 16, magazine: 0, frees: Frees::Here, seed: 1 };

    fn address<T>(item: &PoolItem<'_, T>) -> usize {
        std::ptr::from_ref(&**item).addr()
    }

    const ZERO: NodeId = NodeId::new(0);
    const ONE: NodeId = NodeId::new(1);

    /// 16 items to a block.
    type Item = [u64; 500];

    const ITEMS: usize = 16;

    fn alloc<'p>(seat: &mut PoolHandle<'p, Item>, count: usize) -> Vec<PoolItem<'p, Item>> {
        (0..count).map(|at| seat.alloc([at as u64; 500]).unwrap()).collect()
    }

    /// The paper's order of search, step by step.
    #[test]
    fn an_item_comes_from_the_nearest_place_that_has_one() {
        let (memory, pages) = memory(3);
        let pool: DistPool<Item> = DistPool::new(&memory, PUBLISHED).unwrap();
        let mut seats: Vec<_> = [0, 1, 2].map(|node| pool.handle(NodeId::new(node))).into();
        let nodes =
            |items: &[PoolItem<'_, Item>]| items.iter().map(|item| pool.node_of(item).index()).collect::<Vec<_>>();

        // A block of its own, then the last one freed first.
        let mut mine = alloc(&mut seats[0], 2);
        assert_eq!((nodes(&mine), pool.blocks()), (vec![0, 0], vec![1, 0, 0]));
        let (second, first) = (mine.pop().unwrap(), mine.pop().unwrap());
        let places = [address(&first), address(&second)];
        seats[0].free(first);
        seats[0].free(second);
        mine = alloc(&mut seats[0], ITEMS);
        assert_eq!([address(&mine[1]), address(&mine[0])], places);
        assert_eq!(pool.blocks(), [1, 0, 0], "the rest of the block comes next");

        // Freed by another seat, it belongs to that seat's location, and neighbours find it before a new block is taken.
        seats[1].free(mine.pop().unwrap());
        let again = seats[0].alloc([7; 500]).unwrap();
        assert_eq!((pool.node_of(&again).index(), pool.blocks()), (0, vec![1, 0, 0]));
        // But they don't find the rest of a neighbour's block.
        let other = seats[1].alloc([8; 500]).unwrap();
        assert_eq!(pool.blocks(), [1, 1, 0]);
        mine.push(seats[0].alloc([9; 500]).unwrap());
        assert_eq!(pool.blocks(), [2, 1, 0]);
        mine.extend(alloc(&mut seats[0], ITEMS - 1));

        // Without memory, it comes from the blocks of all, by distance.
        let far = seats[2].alloc([1; 500]).unwrap();
        (0..3).for_each(|node| pages.set_free(NodeId::new(node), 0));
        let rest = alloc(&mut seats[0], 2 * (ITEMS - 1));
        assert_eq!(nodes(&rest), [[1; ITEMS - 1], [2; ITEMS - 1]].concat());
        let error = seats[0].alloc([1; 500]).unwrap_err().to_string();
        assert!(error.contains("no memory left"), "{error}");
        seats[2].free(far);
        assert!(seats[0].alloc([1; 500]).is_ok());
        drop((again, other, mine, rest));
        drop(seats);
        drop(pool);
        assert_eq!(memory.counts(NodeId::new(0)).mapped, 0, "blocks are given back");
    }

    #[test]
    fn neighbours_are_asked_in_an_order_that_is_the_seeds() {
        let (memory, _) = memory(5);
        let asked = |seed: u64| {
            let pool: DistPool<Item> = DistPool::new(&memory, PoolOptions { seed, ..PUBLISHED }).unwrap();
            let mut first = pool.handle(ZERO);
            let mut held = alloc(&mut first, 2 * ITEMS);
            let mut order = Vec::new();
            for _ in 0..20 {
                // One item waits at each neighbour.
                let waiting: Vec<usize> = [1, 2, 3, 4]
                    .map(|node| {
                        let item = held.pop().unwrap();
                        let at = address(&item);
                        pool.handle(NodeId::new(node)).free(item);
                        at
                    })
                    .into();
                let found = alloc(&mut first, 4);
                order.push(waiting.iter().position(|&at| at == address(&found[0])).unwrap());
                held.extend(found);
            }
            order
        };
        assert_eq!(asked(3), asked(3));
        assert_ne!(asked(3), asked(4));
        let order = asked(5);
        assert!((0..4).all(|neighbour| order.contains(&neighbour)), "{order:?}");
    }

    #[test]
    fn freed_items_go_home_if_that_is_chosen() {
        for magazine in [0, 8] {
            let (memory, _) = memory(2);
            let options = PoolOptions { frees: Frees::Home, magazine, ..PUBLISHED };
            let pool: DistPool<Item> = DistPool::new(&memory, options).unwrap();
            let (mut near, mut far) = (pool.handle(ZERO), pool.handle(ONE));
            let (items, _own) = (alloc(&mut near, ITEMS), alloc(&mut far, 1));
            let mut places: Vec<usize> = items.iter().map(address).collect();
            items.into_iter().for_each(|item| far.free(item));
            far.release();
            let theirs = alloc(&mut far, 1);
            assert_eq!(pool.node_of(&theirs[0]), NodeId::new(1), "it keeps none of them");
            near.release();
            let mut again: Vec<usize> = alloc(&mut near, ITEMS).iter().map(address).collect();
            places.sort_unstable();
            again.sort_unstable();
            assert_eq!(again, places, "magazines of {magazine}");
        }
    }

    #[test]
    fn a_magazine_serves_without_the_shared_stack_and_is_given_back() {
        let (memory, _) = memory(1);
        let pool: DistPool<Item> = DistPool::new(&memory, PoolOptions { magazine: 8, ..PUBLISHED }).unwrap();
        let (mut one, mut two) = (pool.handle(ZERO), pool.handle(ZERO));
        let item = one.alloc([1; 500]).unwrap();
        let place = address(&item);
        one.free(item);
        assert_eq!(one.own.loaded.count, 8, "a magazine at a time");
        let others: Vec<usize> = alloc(&mut two, 4).iter().map(address).collect();
        assert!(!others.contains(&place), "one seat's magazine is not the other's");
        let items = alloc(&mut one, 12);
        for item in items {
            one.free(item);
            assert!(one.own.loaded.count <= 8 && one.own.spare.count <= 8, "it is bounded");
        }
        drop((one, two));
        let mut all: Vec<usize> = alloc(&mut pool.handle(ZERO), ITEMS).iter().map(address).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!((all.len(), pool.blocks()), (ITEMS, vec![1]), "no item is lost");
    }

    #[test]
    fn items_are_aligned_as_asked() {
        fn check<T: Copy>(memory: &Arc<Memory>, value: T, align: usize, stride: usize) {
            let pool: DistPool<T> = DistPool::new(memory, PoolOptions { align, ..PUBLISHED }).unwrap();
            assert_eq!(pool.stride(), stride);
            let mut seat = pool.handle(ZERO);
            let items: Vec<_> = (0..20).map(|_| seat.alloc(value).unwrap()).collect();
            let mut places: Vec<usize> = items.iter().map(address).collect();
            assert!(places.iter().all(|place| place.is_multiple_of(align.max(align_of::<T>()))));
            places.sort_unstable();
            assert!(places.windows(2).all(|two| two[1] - two[0] >= stride));
        }
        let (memory, _) = memory(1);
        check(&memory, [0u8; 44], 1, 44);
        check(&memory, [0u8; 44], 8, 48);
        check(&memory, [0u8; 44], 64, 64);
        check(&memory, 0u64, 1, 8);
        check(&memory, (), 1, 1);
        check(&memory, 0u8, 1 << 11, 1 << 11);
    }

    #[test]
    fn every_value_is_dropped_once() {
        let (memory, pages) = memory(2);
        let token = Rc::new(());
        let pool: DistPool<Rc<()>> = DistPool::new(&memory, PoolOptions { magazine: 4, ..PUBLISHED }).unwrap();
        let (mut one, mut two) = (pool.handle(ZERO), pool.handle(ONE));
        let mut items: Vec<_> = (0..30).map(|_| one.alloc(token.clone()).unwrap()).collect();
        assert_eq!(Rc::strong_count(&token), 31);
        items.drain(..10).for_each(|item| two.free(item));
        assert_eq!(Rc::strong_count(&token), 21);
        items.truncate(10);
        assert_eq!(Rc::strong_count(&token), 11, "a dropped item is freed as well");
        let again = one.alloc(token.clone()).unwrap();
        assert_eq!(Rc::strong_count(&again), 12);
        drop((items, again, one, two));
        drop(pool);
        assert_eq!(Rc::strong_count(&token), 1);
        drop(memory);
        assert_eq!(pages.reserved(), 0);
    }

    #[test]
    fn what_can_not_be_is_refused_at_the_call() {
        let (memory, _) = memory(1);
        fn refused<T>(memory: &Arc<Memory>, options: PoolOptions) -> String {
            DistPool::<T>::new(memory, options).unwrap_err().to_string()
        }
        for block_bytes in [0, 4096, (1 << 16) + 8, 1 << 32] {
            let error = refused::<u64>(&memory, PoolOptions { block_bytes, ..PUBLISHED });
            assert!(error.starts_with(&format!("blocks of {block_bytes} bytes: take a power of two")), "{error}");
        }
        for align in [0, 3, 1 << 15] {
            let error = refused::<u64>(&memory, PoolOptions { align, ..PUBLISHED });
            assert!(error.starts_with(&format!("items aligned to {align}")), "{error}");
        }
        let error = refused::<u64>(&memory, PoolOptions { magazine: 65_537, ..PUBLISHED });
        assert_eq!(error, "magazines of 65537 items: take at most 65536");
        let error = refused::<[u8; 65_500]>(&memory, PUBLISHED);
        assert_eq!(error, "a block of 65536 bytes has no room for items of 65500; take larger blocks");
        let wide = PoolOptions { block_bytes: 1 << 24, ..PUBLISHED };
        let pool: DistPool<u64> = DistPool::new(&memory, wide).unwrap();
        assert!(pool.handle(ZERO).alloc(1).unwrap_err().to_string().contains("more than a node's range"));
    }

    #[test]
    #[should_panic(expected = "freeing an item of another pool")]
    fn an_item_of_another_pool_is_refused() {
        let (memory, _) = memory(1);
        let pool = || DistPool::<u64>::new(&memory, PUBLISHED).unwrap();
        let (one, two) = (pool(), pool());
        let item = one.handle(ZERO).alloc(1).unwrap();
        two.handle(ZERO).free(item);
    }

    #[test]
    #[should_panic(expected = "there is no node1: the number of nodes is 1, counted from 0")]
    fn a_handle_is_at_a_place_that_there_is() {
        let (memory, _) = memory(1);
        let _ = DistPool::<u64>::new(&memory, PUBLISHED).unwrap().handle(ONE);
    }

    #[test]
    fn blocks_are_found_by_address() {
        let (memory, _) = memory(2);
        let pool: DistPool<Item> = DistPool::new(&memory, PUBLISHED).unwrap();
        let mut seat = pool.handle(ONE);
        let items = alloc(&mut seat, 5 * ITEMS);
        assert_eq!(pool.blocks(), [0, 5]);
        for item in &items {
            assert_eq!(pool.raw.home_of(item.at.cast()).index(), 1);
            assert_eq!(memory.node_of(item.at.as_ptr().cast()), Some(NodeId::new(1)));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::memory::MemoryOptions;
    use vicus_topology::Topology;

    /// Two threads take their first items, of blocks that have two. Finds these mutants: the second look, behind the lock, for a
    /// block that another thread has taken meanwhile, left out; a new block from whose rest its first items are cut again.
    #[test]
    fn loom_an_item_has_one_owner_and_no_block_is_wasted() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
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
            let options = PoolOptions { block_bytes: 1 << 16, magazine: 0, ..PoolOptions::default() };
            let pool: loom::sync::Arc<DistPool<[u64; 4000]>> =
                loom::sync::Arc::new(DistPool::new(&memory, options).unwrap());
            assert_eq!(pool.raw.slots, 2);
            let take = |pool: &DistPool<[u64; 4000]>| pool.handle(NodeId::new(0)).fetch().unwrap().addr();
            let other = {
                let pool = pool.clone();
                loom::thread::spawn(move || take(&pool))
            };
            let mine = take(&pool);
            let theirs = other.join().unwrap();
            assert_ne!(mine, theirs, "an item has one owner");
            assert_eq!(pool.blocks(), [1]);
        });
    }
}
