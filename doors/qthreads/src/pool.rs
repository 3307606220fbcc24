//! Pools of blocks of one size.
//!
//! Each seat has a list of free blocks, which it alone uses. When that is empty it takes a full list that another has given back, one of its own node first
//! and then of the nearest others, or cuts a new piece of memory, whose pages lie where the seat first touches them.

use crate::exports;
use crate::library;
use std::alloc::{Layout, alloc, dealloc};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::{Mutex, MutexGuard};
use vicus::NodeId;
use vicus::team;

pub(crate) struct Pool {
    block: Layout,
    /// How many blocks lists have that are given back, and how many a piece has.
    batch: usize,
    /// By seat.
    own: Box<[Own]>,
    /// For threads from outside, and then by seat: all nodes, the seat's own one first and then those that are nearest.
    nodes: Box<[Box<[NodeId]>]>,
    common: Mutex<Common>,
}

/// Of a seat: free blocks, and how many.
#[repr(align(128))]
struct Own(UnsafeCell<(List, usize)>);

unsafe impl Sync for Own {}

/// The first of free blocks, each of which begins with the address of the next one; or null.
#[derive(Clone, Copy)]
struct List(*mut u8);

impl List {
    const EMPTY: List = List(ptr::null_mut());

    #[inline]
    fn pop(&mut self) -> Option<*mut u8> {
        let first = self.0;
        if first.is_null() {
            return None;
        }
        self.0 = unsafe { first.cast::<*mut u8>().read() };
        Some(first)
    }

    #[inline]
    unsafe fn push(&mut self, block: *mut u8) {
        unsafe { block.cast::<*mut u8>().write(self.0) };
        self.0 = block;
    }
}

struct Common {
    /// By node of the seat that has given them, lists of as many blocks as a batch has.
    full: Vec<Vec<List>>,
    /// Blocks of threads from outside.
    outside: (List, usize),
    pieces: Vec<(*mut u8, Layout)>,
}

unsafe impl Send for Common {}

impl Pool {
    fn new(bytes: usize, align: usize) -> Option<Pool> {
        let align = align.max(align_of::<u128>()).checked_next_power_of_two()?;
        let bytes = bytes.max(1).checked_next_multiple_of(align.min(16))?;
        let block = Layout::from_size_align(bytes, align).ok()?.pad_to_align();
        let nodes = library::get().map_or_else(|| vec![[NodeId::new(0)].into()], nodes_of_seats);
        let own = nodes[1..].iter().map(|_| Own(UnsafeCell::new((List::EMPTY, 0)))).collect();
        let full = nodes[0].iter().map(|_| Vec::new()).collect();
        let common = Common { full, outside: (List::EMPTY, 0), pieces: Vec::new() };
        let batch = ((64 << 10) / block.size()).clamp(4, 256);
        Some(Pool { block, batch, own, nodes: nodes.into(), common: Mutex::new(common) })
    }

    fn lock(&self) -> MutexGuard<'_, Common> {
        self.common.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The list of the calling seat, and the seat's number.
    #[inline]
    fn own(&self) -> Option<(*mut (List, usize), usize)> {
        let seat = team::seat()?.index();
        self.own.get(seat).map(|own| (own.0.get(), seat))
    }

    #[cold]
    fn refill(&self, own: &mut (List, usize), common: &mut Common, nodes: &[NodeId]) -> Option<()> {
        if let Some(full) = nodes.iter().find_map(|node| common.full[node.index()].pop()) {
            *own = (full, self.batch);
            return Some(());
        }
        let piece = Layout::from_size_align(self.block.size().checked_mul(self.batch)?, self.block.align()).ok()?;
        let base = unsafe { alloc(piece) };
        if base.is_null() {
            return None;
        }
        common.pieces.push((base, piece));
        for index in (0..self.batch).rev() {
            unsafe { own.0.push(base.add(index * self.block.size())) };
        }
        own.1 = self.batch;
        Some(())
    }

    fn take(&self, own: &mut (List, usize), seat: usize) -> Option<*mut u8> {
        if own.1 == 0 {
            self.refill(own, &mut self.lock(), &self.nodes[1 + seat])?;
        }
        own.1 -= 1;
        own.0.pop()
    }

    #[inline]
    fn alloc(&self) -> Option<*mut u8> {
        match self.own() {
            Some((own, seat)) => self.take(unsafe { &mut *own }, seat),
            None => {
                let mut common = self.lock();
                let mut outside = common.outside;
                if outside.1 == 0 {
                    self.refill(&mut outside, &mut common, &self.nodes[0])?;
                }
                outside.1 -= 1;
                let block = outside.0.pop();
                common.outside = outside;
                block
            }
        }
    }

    #[inline]
    unsafe fn free(&self, block: *mut u8) {
        let Some((own, seat)) = self.own() else {
            let mut common = self.lock();
            unsafe { common.outside.0.push(block) };
            common.outside.1 += 1;
            return;
        };
        let own = unsafe { &mut *own };
        unsafe { own.0.push(block) };
        own.1 += 1;
        if own.1 >= 2 * self.batch {
            self.give(own, seat);
        }
    }

    /// Gives a batch to the others.
    #[cold]
    fn give(&self, own: &mut (List, usize), seat: usize) {
        let first = own.0;
        let mut last = first.0;
        for _ in 1..self.batch {
            last = unsafe { last.cast::<*mut u8>().read() };
        }
        own.0 = List(unsafe { last.cast::<*mut u8>().read() });
        unsafe { last.cast::<*mut u8>().write(ptr::null_mut()) };
        own.1 -= self.batch;
        self.lock().full[self.nodes[1 + seat][0].index()].push(first);
    }
}

/// For threads from outside, and then by seat: all nodes, the nearest first.
fn nodes_of_seats(library: &library::Library) -> Vec<Box<[NodeId]>> {
    let (plan, machine) = (library.runtime().plan(), library.runtime().topology());
    let outside = machine.nodes.iter().map(|node| node.id).collect();
    let of_seats = plan.seats.iter().map(|seat| machine.nodes_by_distance(seat.node).into());
    std::iter::once(outside).chain(of_seats).collect()
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (base, piece) in self.lock().pieces.drain(..) {
            unsafe { dealloc(base, piece) };
        }
    }
}

exports! {
    fn qpool_create(bytes: usize) -> *mut Pool {
        Pool::new(bytes, 0).map_or(ptr::null_mut(), |pool| Box::into_raw(Box::new(pool)))
    }

    fn qpool_create_aligned(bytes: usize, align: usize) -> *mut Pool {
        Pool::new(bytes, align).map_or(ptr::null_mut(), |pool| Box::into_raw(Box::new(pool)))
    }

    fn qpool_alloc(pool: *mut Pool) -> *mut libc::c_void {
        unsafe { pool.as_ref() }.and_then(Pool::alloc).map_or(ptr::null_mut(), |block| block.cast())
    }

    fn qpool_free(pool: *mut Pool, block: *mut libc::c_void) {
        if let Some(pool) = unsafe { pool.as_ref() }.filter(|_| !block.is_null()) {
            unsafe { pool.free(block.cast()) };
        }
    }

    fn qpool_destroy(pool: *mut Pool) {
        if !pool.is_null() {
            drop(unsafe { Box::from_raw(pool) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool of two seats on two nodes, and the blocks of a batch.
    fn pool() -> Pool {
        let nodes = |order: [usize; 2]| order.map(NodeId::new).into();
        let own = (0..2).map(|_| Own(UnsafeCell::new((List::EMPTY, 0)))).collect();
        let common = Common { full: vec![Vec::new(), Vec::new()], outside: (List::EMPTY, 0), pieces: Vec::new() };
        let nodes = [nodes([0, 1]), nodes([0, 1]), nodes([1, 0])].into();
        Pool { block: Layout::new::<[u64; 8]>(), batch: 4, own, nodes, common: Mutex::new(common) }
    }

    #[test]
    fn blocks_go_round_on_a_node_before_they_go_to_another() {
        let pool = pool();
        let (mut near, mut far) = ((List::EMPTY, 0), (List::EMPTY, 0));
        let mut blocks: Vec<*mut u8> = (0..8).map(|_| pool.take(&mut near, 0).unwrap()).collect();
        assert_eq!(pool.lock().pieces.len(), 2);
        // The seats of the two nodes give back a list each.
        for (seat, own) in [(0, &mut near), (1, &mut far)] {
            for block in blocks.drain(..4) {
                unsafe { own.0.push(block) };
                own.1 += 1;
            }
            pool.give(own, seat);
        }
        let given = [0, 1].map(|node: usize| pool.lock().full[node][0].0);
        let of_far = pool.take(&mut far, 1).unwrap();
        assert_eq!(of_far, given[1]);
        assert_eq!(pool.take(&mut near, 0).unwrap(), given[0]);
        // What another node has is taken before memory is, or a program whose threads free elsewhere than they allocate would grow without an end.
        unsafe { far.0.push(of_far) };
        far.1 += 1;
        pool.give(&mut far, 1);
        near = (List::EMPTY, 0);
        pool.take(&mut near, 0).unwrap();
        assert_eq!(pool.lock().pieces.len(), 2);
        pool.take(&mut (List::EMPTY, 0), 1).unwrap();
        assert_eq!(pool.lock().pieces.len(), 3);
    }
}
