//! A pool's memory: blocks at each location, and magazines of items, passed from hand to hand.

use super::{Frees, PoolError, PoolOptions};
use crate::array::mixed;
use crate::memory::{AllocError, Memory};
use crate::stack::{Cut, Links, Stack};
use crate::sync::{AtomicPtr, AtomicU32, Mutex, Ordering, Padded};
use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use vicus_topology::{LocationId, NodeId, Place};

/// The content of a handle: its location, and items.
pub(super) struct Magazines {
    pub(super) location: LocationId,
    /// Items for the next allocations; the last one freed is the next.
    pub(super) loaded: Magazine,
    /// Full or empty, except in a new handle.
    pub(super) spare: Magazine,
    /// For each location, freed items on their way home there. Empty if items don't go home.
    pub(super) away: Vec<Magazine>,
    pub(super) chance: u64,
    /// The other locations, in the order they were last asked in.
    pub(super) neighbours: Vec<LocationId>,
}

impl Magazines {
    pub(super) fn new(raw: &RawPool, place: impl Into<Place>) -> Magazines {
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
    pub(super) fn items(&self) -> usize {
        self.loaded.count + self.spare.count
    }

    #[inline]
    pub(super) fn take(&mut self, raw: &RawPool) -> Result<NonNull<u8>, AllocError> {
        match self.loaded.pop() {
            Some(at) => Ok(at),
            None => self.fetch(raw),
        }
    }

    #[inline]
    pub(super) fn give(&mut self, raw: &RawPool, item: NonNull<u8>) {
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

    pub(super) fn release(&mut self, raw: &RawPool) {
        let location = self.location;
        raw.give(&mut self.loaded, location, location);
        raw.give(&mut self.spare, location, location);
        let away = self.away.iter_mut().enumerate();
        away.for_each(|(home, away)| raw.give(away, LocationId::new(home), location));
    }

    /// The handle ends: its items and its magazines go to its location. Nothing is done with this value afterwards.
    pub(super) fn end(&mut self, raw: &RawPool) {
        let location = self.location;
        self.release(raw);
        let magazines = self.away.drain(..).chain([&mut self.loaded, &mut self.spare].map(Magazine::take));
        magazines.for_each(|empty| raw.local(location).empties.push(raw, empty.into_number()));
    }

    /// Frees an item when the loaded magazine is full.
    #[cold]
    pub(super) fn make_room(&mut self, raw: &RawPool, item: NonNull<u8>) {
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

    pub(super) fn send_home(&mut self, raw: &RawPool, item: NonNull<u8>, home: LocationId) {
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
    pub(super) fn fetch(&mut self, raw: &RawPool) -> Result<NonNull<u8>, AllocError> {
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
    pub(super) fn find(&mut self, raw: &RawPool) -> Result<Magazine, AllocError> {
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

/// A magazine's memory. Boxed, so it stays: a thread with an outdated head of a stack still reads its link.
pub(super) struct MagazineBlock {
    number: u32,
    /// In a stack, the magazine below.
    link: AtomicU32,
    /// In a stack, how many items there are. The holder of the magazine may use this and the items.
    count: Cell<usize>,
    items: NonNull<NonNull<u8>>,
}

/// A magazine in use by its holder.
pub(super) struct Magazine {
    pub(super) node: NonNull<MagazineBlock>,
    pub(super) items: NonNull<NonNull<u8>>,
    /// Invariant: the number of initialised `items`, at most `room`, and `room` is at most the node's.
    pub(super) count: usize,
    pub(super) room: usize,
}

impl Magazine {
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<NonNull<u8>> {
        self.count = self.count.checked_sub(1)?;
        #[expect(unsafe_code, reason = "magazines are raw memory")]
        // SAFETY: this number of items is initialised.
        Some(unsafe { self.items.add(self.count).read() })
    }

    /// Puts an item on top, if there is room.
    #[inline(always)]
    pub(super) fn push(&mut self, item: NonNull<u8>) -> bool {
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

    pub(super) fn node(&self) -> &MagazineBlock {
        #[expect(unsafe_code, reason = "nodes live as long as the pool")]
        // SAFETY: as it says, and a magazine is a handle's, and the handle borrows the pool, or the pool's.
        unsafe {
            self.node.as_ref()
        }
    }

    /// Gives it up and leaves its number, for a stack to hold.
    pub(super) fn into_number(self) -> u32 {
        self.node().count.set(self.count);
        self.node().number
    }

    /// Takes it, and leaves an unusable magazine behind.
    pub(super) fn take(&mut self) -> Magazine {
        Magazine { node: self.node, items: self.items, count: self.count, room: self.room }
    }
}

/// A pool of memory for items.
pub(super) struct RawPool {
    pub(super) memory: Arc<Memory>,
    pub(super) options: PoolOptions,
    /// Bytes from one item to the next.
    pub(super) stride: usize,
    /// How many items a block has.
    pub(super) slots: u32,
    /// The offset of a block's first item.
    pub(super) first: usize,
    /// How many items a magazine has room for.
    pub(super) room: usize,
    pub(super) blocks: Table<u8>,
    pub(super) nodes: Table<MagazineBlock>,
    pub(super) locals: Box<[Padded<Local>]>,
    /// For each location all locations, the nearest first.
    pub(super) near: Vec<Vec<LocationId>>,
    pub(super) handles: AtomicU32,
}

/// A location's part of the pool.
pub(super) struct Local {
    /// Magazines with items.
    pub(super) stack: Stack,
    /// Magazines without.
    pub(super) empties: Stack,
    pub(super) cut: Cut,
    /// Its blocks. A thread adds a block under the lock.
    pub(super) blocks: Mutex<Vec<NonNull<u8>>>,
    /// Items freed without a handle, until they fill a magazine.
    pub(super) strays: Mutex<Option<Magazine>>,
}

#[expect(unsafe_code, reason = "it has pointers to blocks")]
// SAFETY: the blocks and nodes are the pool's; a node's cells are used by the holder of its magazine.
unsafe impl Send for RawPool {}

#[expect(unsafe_code, reason = "it has pointers to blocks")]
// SAFETY: as above; the lists of blocks and nodes are behind locks.
unsafe impl Sync for RawPool {}

/// The header of a block.
#[repr(C, align(64))]
pub(super) struct Header {
    home: LocationId,
}

impl Local {
    pub(super) fn new() -> Local {
        Local {
            stack: Stack::new(),
            empties: Stack::new(),
            cut: Cut::new(),
            blocks: Mutex::new(Vec::new()),
            strays: Mutex::new(None),
        }
    }

    pub(super) fn pop(&self, raw: &RawPool) -> Option<Magazine> {
        self.stack.pop(raw).map(|number| raw.magazine(number))
    }

    /// Unused items, in a magazine of the location `asks`.
    pub(super) fn cut(&self, raw: &RawPool, asks: LocationId) -> Option<Magazine> {
        let (block, slot, count) = self.cut.take(raw.room as u32, raw.slots)?;
        let mut magazine = raw.empty(asks);
        raw.fill(&mut magazine, raw.blocks.get(block).expect("it was known before it was cut"), slot..slot + count);
        Some(magazine)
    }

    pub(super) fn with_strays<R>(&self, f: impl FnOnce(&mut Option<Magazine>) -> R) -> R {
        f(&mut self.strays.lock().expect("nothing panics with the strays"))
    }

    pub(super) fn strays(&self, raw: &RawPool) -> Option<Magazine> {
        // With magazines of one item, each freed item is put on the stack at once.
        if raw.room == 1 { None } else { self.with_strays(Option::take) }
    }
}

impl RawPool {
    pub(super) fn new(memory: &Arc<Memory>, item: Layout, options: PoolOptions) -> Result<RawPool, PoolError> {
        let (block_bytes, align) = (options.block_bytes, options.align.max(item.align()));
        // A block has fewer than 2^32 slots.
        if !block_bytes.is_power_of_two() || !(1 << 16..=1 << 31).contains(&block_bytes) {
            return Err(PoolError::Block(block_bytes));
        }
        if !options.align.is_power_of_two() || align > block_bytes / 4 {
            return Err(PoolError::Align(if options.align.is_power_of_two() { align } else { options.align }));
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
    pub(super) fn local(&self, location: LocationId) -> &Local {
        &self.locals[location.index()].0
    }

    pub(super) fn with<R>(&self, local: &Local, f: impl FnOnce(&mut Vec<NonNull<u8>>) -> R) -> R {
        f(&mut local.blocks.lock().expect("nothing panics while a pool grows"))
    }

    pub(super) fn node_of(&self, item: NonNull<u8>) -> Option<NodeId> {
        use crate::region::Region;
        self.memory.node_of(item.as_ptr())
    }

    /// The location of an item's block.
    #[inline]
    pub(super) fn home_of(&self, item: NonNull<u8>) -> LocationId {
        let offset = item.addr().get() & (self.options.block_bytes - 1);
        #[expect(unsafe_code, reason = "the header is in the block")]
        // SAFETY: blocks are aligned to their size; the pointer may reach all of its block, and the header at the
        // block's beginning is not written any more.
        unsafe {
            item.sub(offset).cast::<Header>().as_ref().home
        }
    }

    /// The magazine of a number from a stack.
    pub(super) fn magazine(&self, number: u32) -> Magazine {
        let node = self.nodes.get(number).expect("a number is given out after its node is entered");
        #[expect(unsafe_code, reason = "nodes live as long as the pool")]
        // SAFETY: as it says, and the caller has this one.
        let (items, count) = unsafe { (node.as_ref().items, node.as_ref().count.get()) };
        Magazine { node, items, count, room: self.room }
    }

    /// A magazine without items, the nearest used one if there is any.
    pub(super) fn empty(&self, location: LocationId) -> Magazine {
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
    pub(super) fn put(&self, magazine: Magazine, location: LocationId) {
        self.local(location).stack.push(self, magazine.into_number());
    }

    /// Gives the content of a magazine to another location, and a fresh magazine to its holder.
    pub(super) fn give(&self, magazine: &mut Magazine, to: LocationId, holder: LocationId) {
        if magazine.count > 0 {
            let full = std::mem::replace(magazine, self.empty(holder));
            self.put(full, to);
        }
    }

    /// Takes an item freed without a handle.
    pub(super) fn stray(&self, item: NonNull<u8>, home: LocationId) {
        let local = self.local(home);
        let full = local.with_strays(|strays| {
            let magazine = strays.get_or_insert_with(|| self.empty(home));
            magazine.push(item);
            if magazine.count == magazine.room { strays.take() } else { None }
        });
        full.into_iter().for_each(|full| self.put(full, home));
    }

    /// Fills a magazine with a block's unused items; the first one is used first.
    pub(super) fn fill(&self, magazine: &mut Magazine, block: NonNull<u8>, slots: std::ops::Range<u32>) {
        for slot in slots.rev() {
            #[expect(unsafe_code, reason = "an offset within a block")]
            // SAFETY: a block has this number of slots.
            let item = unsafe { block.add(self.first + slot as usize * self.stride) };
            let has_room = magazine.push(item);
            debug_assert!(has_room);
        }
    }

    /// Items of a new block for a location, or of one taken by another thread meanwhile.
    pub(super) fn grow(&self, home: LocationId) -> Result<Magazine, AllocError> {
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

    pub(super) fn unmap(&self, block: NonNull<u8>) {
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
            // SAFETY: leaked in `empty`, with this room, and not used elsewhere: handles borrow the pool.
            unsafe {
                let items = std::ptr::slice_from_raw_parts_mut(node.as_ref().items.as_ptr(), self.room);
                drop(Box::from_raw(items));
                drop(Box::from_raw(node.as_ptr()));
            }
        }
    }
}

/// Pointers by number. It grows, and is read without a lock.
pub(super) struct Table<T> {
    /// Part `p` has the numbers from 2^p - 1 up to the next part's first.
    pub(super) parts: [AtomicPtr<AtomicPtr<T>>; PARTS],
    /// Their number. A thread adds one under the lock.
    pub(super) count: Mutex<u32>,
}

const PARTS: usize = u32::BITS as usize;

impl<T> Table<T> {
    pub(super) fn new() -> Table<T> {
        Table { parts: std::array::from_fn(|_| AtomicPtr::new(null_mut())), count: Mutex::new(0) }
    }

    pub(super) fn place(number: u32) -> (usize, usize) {
        let place = number as usize + 1;
        let part = place.ilog2() as usize;
        (part, place - (1 << part))
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<NonNull<T>> {
        let (part, at) = Table::<T>::place(number);
        let part = NonNull::new(self.parts[part].load(Ordering::Acquire))?;
        #[expect(unsafe_code, reason = "parts are never freed before the table is")]
        // SAFETY: the part has more entries than `at`.
        NonNull::new(unsafe { part.add(at).as_ref() }.load(Ordering::Acquire))
    }

    /// Adds the pointer made by `make` for the next number. Gives the number.
    pub(super) fn push(&self, make: impl FnOnce(u32) -> NonNull<T>) -> u32 {
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
        // SAFETY: the part has more entries than `at`.
        unsafe {
            (*entries.add(at)).store(make(number).as_ptr(), Ordering::Release);
        }
        *count += 1;
        number
    }

    pub(super) fn all(&self) -> impl Iterator<Item = NonNull<T>> {
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
