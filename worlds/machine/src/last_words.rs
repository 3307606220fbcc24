//! What a command says when there is no memory even for something small.
//!
//! Rust ends a process by SIGABRT when an allocation that can't return an error is refused. What may be large is asked for so that it
//! can be refused ([`vicus_flow::Grow`]), and a name or a list of three is not.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The system's allocator, for a program whose user reads its errors: if a block can't be had that the program can't do without, the
/// process says so on standard error and ends with status 1. What is asked for by [`refusable`](vicus_flow::refusable) is
/// refused as by any allocator, once a runtime was started or [`LastWords::reserve`] called; the program tells which blocks it can do
/// without besides.
///
/// ```
/// use vicus_machine::{Allocator, LastWords};
///
/// #[global_allocator]
/// static ALLOCATOR: Allocator<LastWords> = Allocator::with_small(LastWords::new(|bytes| (bytes < 65_536).then_some("example: while counting")));
///
/// let refused = Vec::<u8>::new().try_reserve(usize::MAX / 4);
/// assert!(refused.is_err());
/// ```
#[derive(Debug)]
pub struct LastWords {
    /// Of a block that the thread did not ask for by `refusable`.
    begin: fn(usize) -> Option<&'static str>,
    /// Addresses that are given back when a block is refused for the first time; null if there are none.
    reserve: AtomicPtr<u8>,
}

/// As much is in reserve.
const RESERVE: usize = 4 << 20;

impl LastWords {
    /// The function is told how many bytes could not be had. What it says is how the message begins, the program's name and what it is
    /// doing; if it says nothing, the block is refused as by any allocator. It must not allocate.
    pub const fn new(begin: fn(usize) -> Option<&'static str>) -> LastWords {
        LastWords { begin, reserve: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Puts 4 MiB of addresses aside, if there are none any more. A block that the program can't do without is then had once more
    /// before the process ends: so what can be refused, and asks at the same time, is refused instead.
    pub fn reserve(&self) {
        know_who_asks();
        if !self.reserve.load(Ordering::Acquire).is_null() {
            return;
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        #[expect(unsafe_code, reason = "addresses that no allocator has")]
        // SAFETY: a new mapping anywhere.
        let mapped =
            unsafe { libc::mmap(ptr::null_mut(), RESERVE, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return;
        }
        let before = self.reserve.swap(mapped.cast(), Ordering::AcqRel);
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
        // One thread says it, and the others are gone before they could go on.
        while ENDS.swap(true, Ordering::AcqRel) {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        // On the stack, and in one piece.
        let mut text = [0; 256];
        let mut rest = &mut text[..];
        let _ = writeln!(rest, "{begin}: {bytes} bytes of memory can't be had");
        let length = 256 - rest.len();
        #[expect(unsafe_code, reason = "ends the process without running what might allocate")]
        // SAFETY: the text is so long; ending a process touches no memory of ours.
        unsafe {
            libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), length);
            libc::_exit(1)
        }
    }
}

thread_local! {
    /// How many questions of [`vicus_flow::refusable`] this thread is in: one holds another where a hash or a clone is called in it. It has
    /// nothing to drop and begins with a constant, so an allocator may read it at any time.
    static ASKS: Cell<u32> = const { Cell::new(0) };
}

/// From here on this thread's allocator knows of questions that may be refused.
pub(crate) fn know_who_asks() {
    vicus_flow::tell_of_asking(|begins| ASKS.set(if begins { ASKS.get() + 1 } else { ASKS.get() - 1 }));
}

/// Whether there was a reserve, which is the system's again.
fn give_back(reserve: *mut u8) -> bool {
    if reserve.is_null() {
        return false;
    }
    #[expect(unsafe_code, reason = "gives a mapping back")]
    // SAFETY: it was mapped with this length, swapped out by one thread, and nothing lies in it.
    let unmapped = unsafe { libc::munmap(reserve.cast(), RESERVE) };
    unmapped == 0
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: all blocks are the system allocator's, which keeps the contract; what it refuses is refused, or the process ends.
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
        // SAFETY: the caller's block, layout and size; a block is as it was if this was refused.
        self.given(size, || unsafe { System.realloc(block, layout, size) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use vicus_flow::refusable;

    /// Which thread asked was not known, only that some thread did: a block that another one could not do without was refused, and
    /// one that was small was not refused though its box had asked so.
    #[test]
    fn what_may_be_refused_is_known_of_the_thread_that_asks() {
        know_who_asks();
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

    /// A question that ended in a panic, of a hash in `try_reserve` say, was never over: from then on the process took each block
    /// for one that may be refused, and ended by a signal where it would have said why.
    #[test]
    fn a_question_that_panics_is_over() {
        know_who_asks();
        let panicked = std::panic::catch_unwind(|| refusable(|| -> () { panic!("while it asks") }));
        assert!(panicked.is_err());
        assert_eq!(ASKS.get(), 0);
    }
}
