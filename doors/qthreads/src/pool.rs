//! Pools of blocks of one size: those of core/memory, with a handle for each seat.
//!
//! So memory is looked for in the order of Wheeler et al. §5.1: the free blocks of the seat's node, its uncut memory,
//! the free blocks of the other nodes, in random order, a new piece of the own node's memory, and without one the uncut
//! memory of the others, the nearest first.

use crate::exports;
use crate::library::{self, Library};
use crate::object::Object;
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex};
use vicus::kit::team;
use vicus::kit::{UntypedHandle, UntypedPool};
use vicus::memory::{self, PoolOptions};
use vicus::{NodeId, environment};

pub(crate) struct Pool {
    pool: Arc<UntypedPool>,
    /// The handles by seat.
    own: Box<[Own]>,
    /// Handles of threads from outside, by their current node.
    outside: Box<[Mutex<Option<UntypedHandle>>]>,
}

/// A seat's handle, from its first block on. Only code on the seat uses it.
#[repr(align(128))]
struct Own(UnsafeCell<Option<UntypedHandle>>);

// SAFETY: rule "Seat": each seat has its own.
unsafe impl Sync for Own {}

/// The most bytes of a magazine, or four blocks.
const MAGAZINE_BYTES: usize = 64 << 10;

/// The least and the largest piece of memory to cut into blocks.
const PIECES: [usize; 2] = [1 << 20, 1 << 31];

/// Pieces for blocks of this layout have room for eight of them, and magazines for a useful number.
fn options(block: Layout) -> Option<PoolOptions> {
    let eight = block.size().max(block.align()).checked_mul(9)?.checked_next_power_of_two()?;
    let magazine = (MAGAZINE_BYTES / block.size()).clamp(4, 256);
    Some(PoolOptions { block_bytes: eight.clamp(PIECES[0], PIECES[1]), magazine, ..PoolOptions::default() })
}

impl Pool {
    fn new(bytes: usize, align: usize) -> Option<Pool> {
        let align = align.max(align_of::<u128>()).checked_next_power_of_two()?;
        let block = Layout::from_size_align(bytes.max(1), align).ok()?.pad_to_align();
        let library = library::get();
        let memory = match library {
            Some(library) => library.runtime().memory().cloned(),
            // A pool may be older than the library.
            None => vicus::kit::process_memory(&environment::defaults()).0,
        }?;
        let pool = UntypedPool::new(&memory, block, options(block)?).ok()?;
        let own = (0..library.map_or(0, Library::seats)).map(|_| Own(UnsafeCell::new(None))).collect();
        let outside = (0..memory.nodes()).map(|_| Mutex::new(None)).collect();
        Some(Pool { pool: Arc::new(pool), own, outside })
    }

    /// Calls `f` with the handle of the calling thread's seat, or else of its current node. `f` neither waits nor calls
    /// back.
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut UntypedHandle) -> R) -> R {
        // Seats of a later library have no handle in an older pool.
        match team::seat().and_then(|seat| self.own.get(seat.index())) {
            Some(own) => {
                // SAFETY: rule "Seat": the reference ends with this function, and neither `f` nor `handle` waits or
                // calls back.
                let own = unsafe { &mut *own.0.get() };
                f(own.get_or_insert_with(|| self.handle()))
            }
            None => self.with_outside(f),
        }
    }

    #[cold]
    fn with_outside<R>(&self, f: impl FnOnce(&mut UntypedHandle) -> R) -> R {
        let node = memory::here().map_or(0, NodeId::index).min(self.outside.len() - 1);
        let mut outside = self.outside[node].lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        f(outside.get_or_insert_with(|| self.pool.handle(NodeId::new(node))))
    }

    /// A handle for the calling thread's seat.
    #[cold]
    #[inline(never)]
    fn handle(&self) -> UntypedHandle {
        let node = library::get().zip(team::seat()).map(|(library, seat)| {
            library.runtime().plan().seats.get(seat.index()).map_or(NodeId::new(0), |seat| seat.node)
        });
        self.pool.handle(node.unwrap_or(NodeId::new(0)))
    }
}

exports! {
    fn qpool_create(bytes: usize) -> *mut Pool {
        Pool::new(bytes, 0).map_or(ptr::null_mut(), |pool| Box::into_raw(Box::new(pool)))
    }

    fn qpool_create_aligned(bytes: usize, align: usize) -> *mut Pool {
        Pool::new(bytes, align).map_or(ptr::null_mut(), |pool| Box::into_raw(Box::new(pool)))
    }

    fn qpool_alloc(pool: Object<Pool>) -> *mut libc::c_void {
        let taken = pool.get().and_then(|pool| pool.with(UntypedHandle::take).ok());
        taken.map_or(ptr::null_mut(), |block| block.as_ptr().cast())
    }

    fn qpool_free(pool: Object<Pool>, block: *mut libc::c_void) {
        if let (Some(pool), Some(block)) = (pool.get(), NonNull::new(block.cast())) {
            // SAFETY: rule "Interface": a block of this pool, given back once.
            pool.with(|handle| unsafe { handle.give(block) });
        }
    }

    fn qpool_destroy(pool: Object<Pool>) {
        drop(pool.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_has_room_for_eight_blocks() {
        for (bytes, align) in [(1, 16), (44, 16), (24, 256), (100_000, 16), (3 << 20, 16), (1 << 27, 1 << 27)] {
            let block = Layout::from_size_align(bytes, align).unwrap().pad_to_align();
            let PoolOptions { block_bytes, magazine, .. } = options(block).unwrap();
            assert!((block_bytes - align.max(64)) / block.size() >= 8, "{bytes} {align}: {block_bytes}");
            assert!(align <= block_bytes / 4 && (4..=256).contains(&magazine));
        }
        assert_eq!(options(Layout::new::<[u8; 44]>()).unwrap().block_bytes, 1 << 20, "as of other pools");
    }

    /// Before the library starts; at its threads, the programs of this folder use pools.
    #[test]
    fn threads_from_outside_have_blocks_of_their_own() {
        let pool = Pool::new(44, 0).unwrap();
        let take = |count: usize| -> Vec<usize> {
            (0..count).map(|_| pool.with(UntypedHandle::take).unwrap().as_ptr().expose_provenance()).collect()
        };
        let mut all: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| take(1000))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert!(all.windows(2).all(|two| two[1] - two[0] >= 48) && all[0].is_multiple_of(16));
        for &block in &all {
            let block = NonNull::new(ptr::with_exposed_provenance_mut(block)).unwrap();
            // SAFETY: it was taken from this pool above.
            pool.with(|handle| unsafe { handle.give(block) });
        }
        let mut again = take(all.len());
        again.sort_unstable();
        assert!(again.windows(2).all(|two| two[1] - two[0] >= 48));
        // Between the loops this thread may go to another node, and does not find all of its freed blocks there.
        assert!(again == all || pool.outside.len() > 1, "what is free is used first");
    }
}
