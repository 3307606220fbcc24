//! The allocator of a whole program.

use crate::memory::heaps::{freed, process, with_heap};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use vicus_flow::Block;
use vicus_memory::{AllocError, Heap, Region};

/// An allocator for a whole program: blocks from 8 KiB on lie on the node of the requesting thread, and come from its
/// heap without a lock; smaller ones come from another allocator, by default the system's.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: vicus_machine::Allocator = vicus_machine::Allocator::new();
///
/// let _runtime = vicus_machine::MachineRuntime::builder().threads(1).start();
/// let large = vec![1u8; 100_000];
/// assert!(vicus_machine::node_of(large.as_ptr()).is_some());
/// ```
///
/// All blocks come from the other allocator in three cases: until the first [`crate::MachineRuntime`] starts, if its
/// defaults say so ([`crate::Defaults::allocator_places`]), and if the system gives no addresses. A thread on a seat
/// has its heap on the seat's node, any other one on its node at its first block.
#[derive(Debug, Default)]
pub struct Allocator<S = System> {
    small: S,
}

/// Smaller blocks are the other allocator's: the first size of Falt et al. §5.
const SMALLEST: usize = 8 << 10;

impl Allocator {
    /// With the system's allocator for small blocks.
    pub const fn new() -> Allocator {
        Allocator { small: System }
    }
}

impl<S> Allocator<S> {
    /// With this allocator for small blocks.
    pub const fn with_small(small: S) -> Allocator<S> {
        Allocator { small }
    }

    /// The allocator for small blocks.
    pub const fn small(&self) -> &S {
        &self.small
    }
}

/// Makes the system's allocator merge each freed small block with its neighbours. For a program that requests large
/// blocks between many small ones, as queries do. glibc otherwise puts small ones aside, and looks through all of them
/// at each request for more than a kilobyte (`M_MXFAST` of mallopt(3)): a fifth of the time of a short query in a
/// server. To be called at the start of `main`, before there are other threads. Other systems' allocators are as they
/// were.
///
/// Under a limit on addresses all threads share one of glibc's arenas: each other arena reserves 64 MiB, and a thread
/// without one gets a mapping for every small block, which takes twenty times as long.
///
/// ```
/// vicus_machine::merge_when_freed();
/// ```
pub fn merge_when_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "an option of the system's allocator")]
    // SAFETY: the option may be set at any time; if it is refused, all is as it was.
    unsafe {
        libc::mallopt(libc::M_MXFAST, 0);
        if vicus_os::pages::addresses_left().is_some_and(|left| left < ARENAS_BYTES) {
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
    IS_OURS.store(true, Ordering::Relaxed);
}

/// With fewer addresses than this, threads share an arena: each of 64 threads would reserve 64 MiB, next to all else.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS_BYTES: u64 = 16 << 30;

/// Whether the program has said how the system's allocator is to work: it is not a guest in another program then.
static IS_OURS: AtomicBool = AtomicBool::new(false);

/// Makes the system's allocator give back the pages of freed small blocks (`malloc_trim(3)`), in a program that has
/// called [`merge_when_freed`]; in others nothing happens, as their allocator is their own business. glibc does it by
/// itself only for the last pages of its heaps. It takes some 100 ms for each GiB; threads requesting a small block may
/// wait meanwhile.
///
/// ```
/// vicus_machine::merge_when_freed();
/// vicus_machine::give_back_small_blocks();
/// ```
pub fn give_back_small_blocks() {
    if !IS_OURS.load(Ordering::Relaxed) {
        return;
    }
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "asks the system's allocator")]
    // SAFETY: no pointer is involved, and it may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has this thread's heap give back the memory in which it has no block in use. A seat does so by itself when it has
/// slept for some seconds; other threads of a program call this when they have had nothing to do for so long. It takes
/// up to a millisecond for each 10 MiB.
///
/// ```
/// vicus_machine::give_back_own_blocks();
/// ```
pub fn give_back_own_blocks() {
    crate::memory::heaps::give_back_pages();
}

/// Whether the process's memory has this block. Constant time.
#[inline]
fn is_ours(block: *const u8) -> bool {
    process().is_some_and(|process| process.memory.owns(block))
}

/// A block of this thread's heap, as the heap is asked for it; `None` if it is too small for one, or there is none to
/// be had.
#[inline]
fn take(layout: Layout, ask: impl FnOnce(&mut Heap, Layout) -> Result<NonNull<u8>, AllocError>) -> Option<*mut u8> {
    if layout.size() < SMALLEST {
        return None;
    }
    let process = process().filter(|process| process.serves_all)?;
    with_heap(process, |heap| ask(heap, layout))?.ok().map(NonNull::as_ptr)
}

/// # Safety
/// The block was taken with this layout and has not been freed, and the caller doesn't use it after this call.
#[inline]
#[expect(unsafe_code, reason = "frees a block")]
unsafe fn give(block: NonNull<u8>, layout: Layout) {
    let Some(process) = process() else { return };
    // SAFETY: says the caller.
    if with_heap(process, |heap| unsafe { heap.free(block, layout) }).is_none() {
        // SAFETY: as above.
        unsafe { process.memory.free(block) };
    }
    freed(process);
}

/// Memory for the columns filled by a box of this seat: from its heap, to which it returns from any thread. Small
/// blocks are left to the program's allocator here, too: a seat that sleeps between two small queries gives its
/// superblocks up, and taking them again costs more than the query's rows.
pub(crate) fn column_block(layout: Layout) -> Option<Block> {
    let at = NonNull::new(take(layout, Heap::alloc)?)?;
    #[expect(unsafe_code, reason = "a heap's block")]
    // SAFETY: the heap gave it for this layout; any thread may give it back.
    Some(unsafe { Block::new(at, layout, give) })
}

#[expect(unsafe_code, reason = "an allocator for a whole program")]
// SAFETY: blocks of at least `SMALLEST` bytes come from heaps or from the other allocator, and both keep the contract;
// `is_ours` tells the origin, from the address alone, before a block is freed. No block moves while it is in use.
unsafe impl<S: GlobalAlloc> GlobalAlloc for Allocator<S> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout.
        take(layout, Heap::alloc).unwrap_or_else(|| unsafe { self.small.alloc(layout) })
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout.
        take(layout, Heap::alloc_zeroed).unwrap_or_else(|| unsafe { self.small.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() >= SMALLEST && is_ours(block) {
            // SAFETY: the caller's block, which is not null, and its layout.
            return unsafe { give(NonNull::new_unchecked(block), layout) };
        }
        // SAFETY: the other allocator's block, and its layout.
        unsafe { self.small.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let was_large = layout.size() >= SMALLEST;
        let ours = was_large && is_ours(block);
        if ours && size >= SMALLEST {
            let Some(process) = process() else { return ptr::null_mut() };
            // SAFETY: the caller's block and layout, and a heap of the memory that has it.
            let changed =
                with_heap(process, |heap| unsafe { heap.realloc(NonNull::new_unchecked(block), layout, size) });
            if let Some(Ok(changed)) = changed {
                // A larger block in the same place has freed nothing.
                if changed.as_ptr() != block || size < layout.size() {
                    freed(process);
                }
                return changed.as_ptr();
            }
        } else if !ours && (was_large || size < SMALLEST) {
            // SAFETY: the other allocator's block, and the caller's layout and size.
            return unsafe { self.small.realloc(block, layout, size) };
        }
        // SAFETY: the caller promises a size fit for the alignment; the new block has room for the copied bytes, and
        // the caller doesn't use the old one after this call.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size().min(size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}
