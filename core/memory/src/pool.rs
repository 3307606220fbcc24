//! Items of one size, from memory near the asking thread.
//!
//! Wheeler, Thain, Murphy, "Portable Performance from Workstation to Supercomputer: Distributing Data Structures with
//! Qthreads", §5.1: the qpool. Each location has a stack of freed items and a block it cuts new ones from. An
//! allocation looks into its location's stack, its location's block, the neighbours' stacks in random order, then takes
//! a new block, and if there is no memory, looks at the blocks of all locations, the nearest first. A freed item goes
//! to the stack of the freeing location.
//!
//! We differ: a seat has two magazines of items of its own, so most calls touch nothing shared; the stacks hold whole
//! magazines, exchanged in one step (Bonwick and Adams, "Magazines and Vmem", USENIX 2001, §3); and as an option freed
//! items go home to the location of their block.

mod magazines;
mod untyped;

pub use untyped::{UntypedHandle, UntypedPool};

use crate::memory::{AllocError, Memory};
use magazines::{Magazines, RawPool};
use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use vicus_topology::{NodeId, Place};

/// The destination of a freed item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frees {
    /// The freeing location, as published: the item is in a cache there.
    #[default]
    Here,
    /// The location of its block: the next allocation there gets near memory.
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
    /// The destination of a freed item.
    pub frees: Frees,
    /// The seed of the order of asking neighbours.
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
    /// Blocks of this number of bytes are too small, too large, or not a power of two.
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

    /// A handle for a seat at a place: it takes from there first, or from the nearest location with memory
    /// ([`Memory::location_near`]). Panics if there is no such place.
    pub fn handle(&self, place: impl Into<Place>) -> PoolHandle<'_, T> {
        PoolHandle { pool: self, own: Magazines::new(&self.raw, place) }
    }

    /// The node of an item.
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

/// An item of a pool. Free it by a handle if there is one; a dropped item goes home, at a higher cost.
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

    /// An item with a value made in place. If making it panics, the item's room is lost until the pool is dropped.
    ///
    /// # Errors
    /// No memory is left, here or elsewhere; no value is made.
    #[inline]
    pub fn alloc_with(&mut self, make: impl FnOnce() -> T) -> Result<PoolItem<'p, T>, AllocError> {
        let at = self.own.take(&self.pool.raw)?;
        let at = at.cast();
        #[expect(unsafe_code, reason = "the memory is raw")]
        // SAFETY: an item's room, aligned for it, and used by this call alone.
        unsafe {
            at.write(make());
        }
        Ok(PoolItem { at, pool: self.pool, owns: PhantomData })
    }

    /// Frees an item from any handle. Panics if it is of another pool.
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

    /// The node it takes from first.
    pub fn node(&self) -> NodeId {
        self.pool.raw.memory.node_at(self.own.location)
    }

    /// Gives all its items back; freed items of other locations go home.
    pub fn release(&mut self) {
        self.own.release(&self.pool.raw);
    }
}

impl<T> Drop for PoolHandle<'_, T> {
    fn drop(&mut self) {
        self.own.end(&self.pool.raw);
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

        // Freed by another seat, it belongs to that seat's location, and neighbours find it before a new block is
        // taken.
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

    /// Two threads take their first items, of blocks of two. Finds these mutants: no second look, under the lock, for a
    /// block taken by another thread meanwhile; a new block whose rest includes its first items again.
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
            let take = |pool: &DistPool<[u64; 4000]>| pool.handle(NodeId::new(0)).own.fetch(&pool.raw).unwrap().addr();
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
