//! The message of a command that has no memory left even for small blocks.
//!
//! Rust ends a process by SIGABRT when an allocation without an error path is refused. Requests for large blocks have
//! such a path ([`vicus_flow::Grow`]); those for a name or a list of three have none.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use vicus_os::{calls, pages};

/// The system's allocator, for a program with a user who reads its errors: if an indispensable block is refused, the
/// process prints this on standard error and ends with status 1. Blocks asked for by
/// [`refusable`](vicus_flow::refusable) are refused as by any allocator, once a runtime was started or
/// [`LastWords::reserve`] called. The program's function may name other dispensable blocks.
///
/// ```
/// use vicus_machine::{Allocator, LastWords};
///
/// #[global_allocator]
/// static ALLOCATOR: Allocator<LastWords> =
///     Allocator::with_small(LastWords::new(|bytes| (bytes < 65_536).then_some("example: while counting")));
///
/// let refused = Vec::<u8>::new().try_reserve(usize::MAX / 4);
/// assert!(refused.is_err());
/// ```
#[derive(Debug)]
pub struct LastWords {
    /// The beginning of the message, for a block asked for outside of `refusable`; `None` if it may be refused.
    begin: fn(usize) -> Option<&'static str>,
    /// Addresses to give back at the first refused block; null if there are none.
    reserve: AtomicPtr<u8>,
}

/// Bytes of these addresses.
const RESERVE: usize = 4 << 20;

impl LastWords {
    /// `begin` gets the number of refused bytes, and returns the beginning of the message: the program's name and its
    /// present task. If it returns `None`, the block is refused as by any allocator. It must not allocate.
    pub const fn new(begin: fn(usize) -> Option<&'static str>) -> LastWords {
        LastWords { begin, reserve: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Reserves 4 MiB of addresses, if there are none. When an indispensable block is refused, they are given back and
    /// the block is tried once more before the process ends; refusable requests of other threads are refused meanwhile.
    pub fn reserve(&self) {
        count_refusable_calls();
        if !self.reserve.load(Ordering::Acquire).is_null() {
            return;
        }
        let held = pages::hold(RESERVE);
        if held.is_null() {
            return;
        }
        let before = self.reserve.swap(held, Ordering::AcqRel);
        give_back(before);
    }

    #[inline]
    fn given(&self, bytes: usize, ask: impl Fn() -> *mut u8) -> *mut u8 {
        let block = ask();
        if block.is_null() { self.refused(bytes, ask) } else { block }
    }

    #[cold]
    fn refused(&self, bytes: usize, ask: impl Fn() -> *mut u8) -> *mut u8 {
        if ASKS.get() > 0 {
            return ptr::null_mut();
        }
        let Some(begin) = (self.begin)(bytes) else { return ptr::null_mut() };
        if give_back(self.reserve.swap(ptr::null_mut(), Ordering::AcqRel)) {
            let block = ask();
            if !block.is_null() {
                return block;
            }
        }
        static ENDS: AtomicBool = AtomicBool::new(false);
        // One thread prints it, and the others wait here until the process ends.
        while ENDS.swap(true, Ordering::AcqRel) {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        // Formatted on the stack, and written at once.
        let mut text = [0; 256];
        let mut rest = &mut text[..];
        let _ = writeln!(rest, "{begin}: {bytes} bytes of memory can't be had");
        let length = 256 - rest.len();
        calls::say(&text[..length]);
        calls::end(1)
    }
}

thread_local! {
    /// How many calls of [`vicus_flow::refusable`] this thread is in: they nest if a hash or a clone calls it. It has
    /// nothing to drop and a constant initial value, so an allocator may read it at any time.
    static ASKS: Cell<u32> = const { Cell::new(0) };
}

/// Lets [`vicus_flow::refusable`] count this thread's calls from now on.
pub(crate) fn count_refusable_calls() {
    vicus_flow::tell_of_asking(|begins| ASKS.set(if begins { ASKS.get() + 1 } else { ASKS.get() - 1 }));
}

/// Gives the reserve back to the system. Whether there was one.
fn give_back(reserve: *mut u8) -> bool {
    if reserve.is_null() {
        return false;
    }
    #[expect(unsafe_code, reason = "gives a mapping back")]
    // SAFETY: it was held with this length, swapped out by one thread, and holds nothing.
    unsafe {
        pages::let_go(reserve, RESERVE)
    }
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: all blocks are the system allocator's, which keeps the contract; if it refuses a block, the block is refused,
// or the process ends.
unsafe impl GlobalAlloc for LastWords {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout.
        self.given(layout.size(), || unsafe { System.alloc(layout) })
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout.
        self.given(layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's block and layout.
        unsafe { System.dealloc(block, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's block, layout and size; a refused call leaves the block as it was.
        self.given(size, || unsafe { System.realloc(block, layout, size) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use vicus_flow::refusable;

    /// What happened: the process knew of a refusable request, but not its thread. A block indispensable to another
    /// thread was refused, and a small one was not refused though its box had asked so.
    #[test]
    fn a_block_may_be_refused_by_the_state_of_its_own_thread() {
        count_refusable_calls();
        let (asks, looked) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                refusable(|| {
                    assert_eq!((ASKS.get(), refusable(|| ASKS.get()), ASKS.get()), (1, 2, 1));
                    asks.wait();
                    looked.wait();
                });
                assert_eq!(ASKS.get(), 0);
            });
            asks.wait();
            assert_eq!(ASKS.get(), 0);
            looked.wait();
        });
        let words = LastWords::new(|bytes| panic!("the process would end for {bytes} bytes"));
        assert!(refusable(|| words.given(8, ptr::null_mut)).is_null());
    }

    /// What happened: a call ended by a panic, in `try_reserve`'s hash for example, stayed counted: from then on the
    /// process took every block for a refusable one, and ended by a signal instead of with a message.
    #[test]
    fn a_question_that_panics_is_over() {
        count_refusable_calls();
        let panicked = std::panic::catch_unwind(|| refusable(|| -> () { panic!("while it asks") }));
        assert!(panicked.is_err());
        assert_eq!(ASKS.get(), 0);
    }
}
