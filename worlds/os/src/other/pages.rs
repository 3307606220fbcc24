//! Pages of the system's allocator. They lie where the system puts them, and stay with the process until their range is
//! given back.

use super::calls::PAGE_BYTES;
use std::alloc::{GlobalAlloc, Layout, System};
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use vicus_memory::{PageError, PagePlacement, Pages, WhenFull};
use vicus_topology::{NodeId, Topology};

/// Whether pages lie on the nodes that they are asked for, and go back to the system. Otherwise the program's own
/// allocator is as good for all blocks.
pub const ARE_PLACED: bool = false;

/// Bytes of addresses for all of the process's ranges and more: the allocator may count them as memory.
const ADDRESSES: u64 = 16 << 30;

/// The pages of the system's allocator, for `vicus_memory`. Of more than one node none can be chosen.
#[derive(Debug)]
pub struct SystemPages {
    nodes: usize,
    /// See [`SystemPages::telling`].
    gone: fn(Range<usize>, usize),
}

impl SystemPages {
    /// For the nodes of this machine.
    pub fn new(topology: &Topology) -> SystemPages {
        SystemPages { nodes: topology.nodes.len(), gone: |_, _| {} }
    }

    /// Calls `gone` with addresses that are decommitted, before their content goes, and with addresses that are placed
    /// or committed; and with the bytes of a page.
    pub fn telling(self, gone: fn(Range<usize>, usize)) -> SystemPages {
        SystemPages { gone, ..self }
    }

    fn tell_gone(&self, start: NonNull<u8>, bytes: usize) {
        (self.gone)(start.addr().get()..start.addr().get() + bytes, PAGE_BYTES);
    }

    /// Memory of the only node lies there in any case.
    fn check(&self, nodes: &[NodeId]) -> Result<(), PageError> {
        match nodes.iter().find(|node| node.index() >= self.nodes) {
            Some(&none) => Err(PageError::NoSuchNode(none)),
            None if self.nodes > 1 && !nodes.is_empty() => Err(PageError::Refused(libc::ENOSYS)),
            None => Ok(()),
        }
    }
}

/// The word in front of a range, where its block begins.
type Begin = *mut u8;

/// The allocator's block around a range: with a word in front, and room for the alignment. It is not aligned itself:
/// the standard library would then touch all of it to make it zero.
fn block(bytes: usize, align: usize) -> Option<Layout> {
    let all = bytes.checked_add(align.max(PAGE_BYTES))?.checked_add(size_of::<Begin>())?;
    Layout::from_size_align(all, align_of::<Begin>()).ok()
}

#[expect(unsafe_code, reason = "the trait promises that the memory is the caller's alone")]
// SAFETY: a range is a part of a block of zeros that `reserve` has got from the allocator, and `release` alone gives it
// back; its parts can be read and written all the time, and `decommit` leaves zeros.
unsafe impl Pages for SystemPages {
    fn page_bytes(&self) -> usize {
        PAGE_BYTES
    }

    fn reserve(&self, bytes: usize, align: usize) -> Result<NonNull<u8>, PageError> {
        let layout = block(bytes, align).ok_or(PageError::Full)?;
        // SAFETY: the layout has at least a word.
        let begin = NonNull::new(unsafe { System.alloc_zeroed(layout) }).ok_or(PageError::Full)?;
        let first = begin.addr().get() + size_of::<Begin>();
        let lead = first.next_multiple_of(align.max(PAGE_BYTES)) - begin.addr().get();
        // SAFETY: the block has room for the lead, which has room for a word.
        unsafe {
            let start = begin.add(lead);
            start.cast::<Begin>().sub(1).write(begin.as_ptr());
            Ok(start)
        }
    }

    unsafe fn place(&self, start: NonNull<u8>, bytes: usize, placement: PagePlacement<'_>) -> Result<(), PageError> {
        match placement {
            PagePlacement::On(node, _) => self.check(&[node])?,
            PagePlacement::Interleaved(nodes) => self.check(nodes)?,
            PagePlacement::Standard => {}
        }
        self.tell_gone(start, bytes);
        Ok(())
    }

    fn turn(&self, address: usize, nodes: usize) -> usize {
        address / PAGE_BYTES % nodes
    }

    fn may_use(&self, node: NodeId) -> bool {
        node.index() < self.nodes
    }

    fn has_room(&self, node: NodeId, _bytes: usize) -> bool {
        self.may_use(node)
    }

    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize, _node: NodeId) -> Result<(), PageError> {
        self.tell_gone(start, bytes);
        Ok(())
    }

    unsafe fn decommit(&self, start: NonNull<u8>, bytes: usize, _node: NodeId) {
        self.tell_gone(start, bytes);
        // SAFETY: the part is committed and not used any more, by the caller's promise.
        unsafe { start.as_ptr().write_bytes(0, bytes) };
    }

    unsafe fn relocate(
        &self,
        _start: NonNull<u8>,
        _bytes: usize,
        to: NodeId,
        _when_full: WhenFull,
    ) -> Result<(), PageError> {
        self.check(&[to])
    }

    unsafe fn release(&self, start: NonNull<u8>, bytes: usize, align: usize) {
        let layout = block(bytes, align).expect("it was reserved with this layout");
        // SAFETY: a whole range of `reserve`, by the caller's promise: the word in front is the block's address.
        unsafe { System.dealloc(start.cast::<Begin>().sub(1).read(), layout) };
    }

    unsafe fn advise_huge(&self, _start: NonNull<u8>, _bytes: usize) {}

    fn truth(&self, addresses: &[usize]) -> Vec<Option<NodeId>> {
        vec![None; addresses.len()]
    }
}

/// Checks for room for this number of bytes: an error if there is none. They are free again after it.
///
/// # Errors
/// The allocator refuses.
pub fn ensure_room(bytes: usize) -> io::Result<()> {
    let start = hold(bytes);
    if start.is_null() {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    #[expect(unsafe_code, reason = "gives a block back")]
    // SAFETY: just held, and not used.
    unsafe {
        let_go(start, bytes);
    }
    Ok(())
}

/// How many more addresses the process may have: a bound of our own, since they come from the allocator.
pub fn addresses_left() -> Option<u64> {
    Some(ADDRESSES)
}

/// This memory's calls refused by the system: none is made.
pub fn refused(_nodes: usize) -> Vec<String> {
    Vec::new()
}

/// How many bytes of a node are unused: unknown.
pub fn free_bytes(_node: u32) -> Option<u64> {
    None
}

/// The numbers of the online nodes: unknown.
pub fn nodes_online() -> Option<Vec<u32>> {
    None
}

/// Does nothing: pages lie where the system puts them.
pub fn prefer_node(_start: usize, _bytes: usize, _number: u32) {}

/// Refuses: no page is moved.
///
/// # Errors
/// Always, unless there are no pages.
pub fn migrate(pages: Range<usize>, _page_bytes: usize, _number: u32) -> io::Result<usize> {
    if pages.is_empty() {
        return Ok(0);
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "Vicus moves pages between nodes on Linux alone"))
}

/// Memory for stacks: it stays until the process ends. `None` if there is none.
#[cfg(unix)]
pub fn map_stacks(bytes: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(bytes, PAGE_BYTES).ok()?;
    #[expect(unsafe_code, reason = "memory that stays")]
    // SAFETY: stacks have bytes.
    NonNull::new(unsafe { System.alloc(layout) })
}

/// None: Windows keeps a record of each thread's stack, which a switch to another one would break.
#[cfg(windows)]
pub fn map_stacks(_bytes: usize) -> Option<NonNull<u8>> {
    None
}

/// Does nothing: pages stay with the process.
///
/// # Safety
/// The part is whole pages of anonymous memory, and nothing reads its content.
#[expect(unsafe_code, reason = "as on Linux, whose pages go")]
pub unsafe fn give_up(_start: NonNull<u8>, _bytes: usize) {}

/// Does nothing: the system chooses the size of pages.
///
/// # Safety
/// The part is the caller's.
#[expect(unsafe_code, reason = "as on Linux, which takes advice")]
pub unsafe fn prefer_huge(_start: NonNull<u8>, _bytes: usize) {}

fn held(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, PAGE_BYTES).ok().filter(|_| bytes > 0)
}

/// A block of the system's allocator, until [`let_go`]; null if there is none.
pub fn hold(bytes: usize) -> *mut u8 {
    let Some(layout) = held(bytes) else { return std::ptr::null_mut() };
    #[expect(unsafe_code, reason = "a block beside those of the program's allocator")]
    // SAFETY: the layout is not empty.
    unsafe {
        System.alloc(layout)
    }
}

/// Gives a held block back. Whether it was one.
///
/// # Safety
/// It is that of a call of [`hold`] with this number of bytes, and not used any more.
#[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
pub unsafe fn let_go(start: *mut u8, bytes: usize) -> bool {
    let Some(layout) = held(bytes) else { return false };
    // SAFETY: the caller's promise.
    unsafe { System.dealloc(start, layout) };
    true
}
