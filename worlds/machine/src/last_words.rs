//! What a command says when there is no memory even for something small.
//!
//! Rust ends a process by SIGABRT when an allocation that can't return an error is refused. Whoever wants much asks so that it
//! can be refused ([`vicus_flow::Grow`]); nobody asks for a name or a list of three in that way.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// The system's allocator, for a program whose user reads its errors: if a block can't be had that the program can't do without, the
/// process says so on standard error and ends with status 1. The program tells which blocks these are.
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
    begin: fn(usize) -> Option<&'static str>,
}

impl LastWords {
    /// The function is told how many bytes could not be had. What it says is how the message begins, the program's name and what it is
    /// doing; if it says nothing, the block is refused as by any allocator. It must not allocate.
    pub const fn new(begin: fn(usize) -> Option<&'static str>) -> LastWords {
        LastWords { begin }
    }

    #[inline]
    fn given(&self, block: *mut u8, bytes: usize) -> *mut u8 {
        if block.is_null() {
            self.refused(bytes);
        }
        block
    }

    #[cold]
    fn refused(&self, bytes: usize) {
        let Some(begin) = (self.begin)(bytes) else { return };
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

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: all blocks are the system allocator's, which keeps the contract; what it refuses is refused, or the process ends.
unsafe impl GlobalAlloc for LastWords {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout.
        self.given(unsafe { System.alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout.
        self.given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's block and layout.
        unsafe { System.dealloc(block, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's block, layout and size.
        self.given(unsafe { System.realloc(block, layout, size) }, size)
    }
}
