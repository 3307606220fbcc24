//! The system's allocator with counts: for tests that are programs of their own, because an allocator is the whole
//! program's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

/// The bytes requested and not yet given back, and their maximum.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "only an allocator knows what is allocated, and its trait is unsafe")]
// SAFETY: GlobalAlloc asks for blocks that fit their layouts and don't overlap, and for no unwinding. System keeps
// that, every call is passed on to it unchanged, and adding to an atomic number neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller keeps GlobalAlloc::alloc's conditions, which are System's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the block came from `alloc` above with this layout, that is, from System.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The bytes requested and not yet given back.
pub(crate) fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// The most bytes allocated during some work.
pub(crate) fn peak<R>(work: impl FnOnce() -> R) -> (u64, R) {
    let before = LIVE.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let done = work();
    ((MOST.load(Ordering::Relaxed) - before) as u64, done)
}
