//! Where pages come from: a trait, so that this crate calls no operating system, and a fake for tests.
//!
//! The order of calls for a range is: reserve, place (before anything is touched), then commit and decommit parts of it
//! any number of times, release. Committed memory is zero when it is fresh, and again after each decommit.

use crate::sync::Mutex;
use std::alloc::Layout;
use std::fmt;
use std::ptr::NonNull;
use vicus_topology::NodeId;

/// What happens when a node has no page left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The nearest node that has one gives it, and it is counted.
    #[default]
    Preferred,
    /// The request is refused.
    Strict,
}

/// On which nodes the pages of a range shall lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement<'a> {
    /// All on one node.
    On(NodeId, Policy),
    /// Page by page in turn over these nodes.
    Interleaved(&'a [NodeId]),
    /// As the machine would do it anyway.
    Standard,
}

/// Why a page source refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageError {
    /// The node, or the machine, has no memory left for this.
    Full,
    /// There is no such node, or this process may not use it.
    NoSuchNode(NodeId),
    /// The operating system refused, with this error number.
    Refused(i32),
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageError::Full => write!(f, "no memory is left"),
            PageError::NoSuchNode(node) => write!(f, "{node} is no node that this process may use"),
            PageError::Refused(number) => write!(f, "the operating system refused with error {number}"),
        }
    }
}

impl std::error::Error for PageError {}

/// A source of pages.
///
/// # Safety
/// What [`Pages::reserve`] returns is aligned as asked, belongs to the caller alone until it is released, and stays where
/// it is. What is committed can be read and written; its contents are initialised and stay until it is decommitted.
#[expect(unsafe_code, reason = "the allocator hands out this memory")]
pub unsafe trait Pages: Send + Sync {
    /// The granularity of all sizes and addresses here, in bytes: a power of two.
    fn page_bytes(&self) -> usize;

    /// Reserves addresses, not memory: `bytes` of them, aligned to `align`.
    ///
    /// # Errors
    /// There are not so many addresses.
    fn reserve(&self, bytes: usize, align: usize) -> Result<NonNull<u8>, PageError>;

    /// Says where the pages of a part of a reserved range shall lie, once they are touched.
    ///
    /// # Errors
    /// The node is none, or the source can't place at all; the range is usable all the same.
    ///
    /// # Safety
    /// The part is in a range that this source reserved, and nothing in it was touched since.
    unsafe fn place(&self, start: NonNull<u8>, bytes: usize, placement: Placement<'_>) -> Result<(), PageError>;

    /// Makes a part of a placed range usable, on `node` as far as the source can tell. It reads as zeros.
    ///
    /// # Errors
    /// [`PageError::Full`] if the node or the machine has no memory left; then nothing is committed.
    ///
    /// # Safety
    /// The part is in a range that this source reserved, and it is not committed.
    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize, node: NodeId) -> Result<(), PageError>;

    /// Gives the memory of a committed part back; the addresses stay reserved.
    ///
    /// # Safety
    /// The part was committed, and nobody reads or writes it any more.
    unsafe fn decommit(&self, start: NonNull<u8>, bytes: usize, node: NodeId);

    /// Gives a whole reserved range back.
    ///
    /// # Safety
    /// It is a range that [`Pages::reserve`] returned, with the same size and alignment, and nobody uses it any more.
    unsafe fn release(&self, start: NonNull<u8>, bytes: usize, align: usize);

    /// Asks for huge pages in a part, before it is touched. A wish: it can't fail.
    ///
    /// # Safety
    /// As for [`Pages::place`].
    unsafe fn advise_huge(&self, start: NonNull<u8>, bytes: usize);

    /// The nodes on which these addresses' pages really lie; `None` for a page that isn't there yet.
    fn truth(&self, addresses: &[usize]) -> Vec<Option<NodeId>>;
}

/// One call that a [`FakePages`] saw. Addresses are counted from the start of the range they are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Pages::reserve`]: bytes, alignment.
    Reserve(usize, usize),
    /// [`Pages::place`] on one node: offset, bytes, node, policy.
    Place(usize, usize, NodeId, Policy),
    /// [`Pages::place`] in turn over nodes, or as the machine does it (no nodes): offset, bytes, nodes.
    Interleave(usize, usize, Vec<NodeId>),
    /// [`Pages::commit`]: offset, bytes, node.
    Commit(usize, usize, NodeId),
    /// [`Pages::decommit`]: offset, bytes, node.
    Decommit(usize, usize, NodeId),
    /// [`Pages::release`]: bytes.
    Release(usize),
    /// [`Pages::advise_huge`]: offset, bytes.
    AdviseHuge(usize, usize),
}

/// A page source for tests: plain memory, nodes by say-so, a record of all calls. It can be full on a node, and it panics
/// where a caller breaks the rules: a commit of what is committed, a write to what is not.
///
/// ```
/// use vicus_memory::{FakePages, PageError, Pages};
/// use vicus_topology::NodeId;
///
/// let pages = FakePages::new(2);
/// let start = pages.reserve(1 << 16, 4096).unwrap();
/// pages.set_free(NodeId::new(1), 4096);
/// let outcome = unsafe { pages.commit(start, 8192, NodeId::new(1)) };
/// assert_eq!(outcome, Err(PageError::Full));
/// ```
#[derive(Debug)]
pub struct FakePages {
    state: Mutex<Fake>,
}

#[derive(Debug)]
struct Fake {
    ranges: Vec<FakeRange>,
    /// Bytes that each node can still commit.
    free: Vec<usize>,
    calls: Vec<Call>,
}

#[derive(Debug)]
struct FakeRange {
    start: usize,
    bytes: usize,
    align: usize,
    /// How far behind the beginning of the allocation the range begins.
    lead: usize,
    /// Parts that are committed: offset, bytes, node.
    committed: Vec<(usize, usize, NodeId)>,
}

const FAKE_PAGE: usize = 4096;

/// Of an allocation that has an aligned range in it. Not aligned itself: then the standard allocator would touch all of
/// it to make it zero.
fn fake_layout(bytes: usize, align: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_add(align)?, 16).ok()
}

impl FakePages {
    /// A source for so many nodes, none of which is ever full.
    pub fn new(nodes: usize) -> FakePages {
        let free = vec![usize::MAX; nodes];
        FakePages { state: Mutex::new(Fake { ranges: Vec::new(), free, calls: Vec::new() }) }
    }

    /// From now on the node has so many bytes left.
    pub fn set_free(&self, node: NodeId, bytes: usize) {
        self.with(|fake| fake.free[node.index()] = bytes);
    }

    /// All calls since the last time this was asked.
    pub fn take_calls(&self) -> Vec<Call> {
        self.with(|fake| std::mem::take(&mut fake.calls))
    }

    /// How many bytes are committed on a node.
    pub fn committed(&self, node: NodeId) -> usize {
        self.with(|fake| {
            let parts = fake.ranges.iter().flat_map(|range| &range.committed);
            parts.filter(|part| part.2 == node).map(|part| part.1).sum()
        })
    }

    fn with<R>(&self, f: impl FnOnce(&mut Fake) -> R) -> R {
        f(&mut self.state.lock().expect("no test panics inside the fake"))
    }
}

impl Fake {
    fn range(&mut self, start: NonNull<u8>, bytes: usize) -> (&mut FakeRange, usize) {
        let start = start.addr().get();
        let inside = |range: &&mut FakeRange| range.start <= start && start + bytes <= range.start + range.bytes;
        let range = self.ranges.iter_mut().find(inside).expect("a part of a range that was reserved");
        assert!(
            start.is_multiple_of(FAKE_PAGE) && bytes.is_multiple_of(FAKE_PAGE),
            "whole pages: {bytes} bytes at {start:#x}"
        );
        let offset = start - range.start;
        (range, offset)
    }
}

#[expect(unsafe_code, reason = "the fake is a page source")]
// SAFETY: the memory is from the standard allocator, zeroed, and freed by `release` alone; nothing moves it.
unsafe impl Pages for FakePages {
    fn page_bytes(&self) -> usize {
        FAKE_PAGE
    }

    fn reserve(&self, bytes: usize, align: usize) -> Result<NonNull<u8>, PageError> {
        let layout = fake_layout(bytes, align).ok_or(PageError::Full)?;
        // SAFETY: no caller reserves nothing.
        let begin = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or(PageError::Full)?;
        let lead = begin.addr().get().next_multiple_of(align) - begin.addr().get();
        // SAFETY: the layout has room for it.
        let start = unsafe { begin.add(lead) };
        self.with(|fake| {
            fake.calls.push(Call::Reserve(bytes, align));
            fake.ranges.push(FakeRange { start: start.addr().get(), bytes, align, lead, committed: Vec::new() });
        });
        Ok(start)
    }

    unsafe fn place(&self, start: NonNull<u8>, bytes: usize, placement: Placement<'_>) -> Result<(), PageError> {
        self.with(|fake| {
            let nodes = fake.free.len();
            let (range, offset) = fake.range(start, bytes);
            assert!(
                range.committed.iter().all(|part| part.0 + part.1 <= offset || offset + bytes <= part.0),
                "a range is placed before any of it is committed"
            );
            let call = match placement {
                Placement::On(node, _) if node.index() >= nodes => return Err(PageError::NoSuchNode(node)),
                Placement::On(node, policy) => Call::Place(offset, bytes, node, policy),
                Placement::Interleaved(nodes) => Call::Interleave(offset, bytes, nodes.to_vec()),
                Placement::Standard => Call::Interleave(offset, bytes, Vec::new()),
            };
            fake.calls.push(call);
            Ok(())
        })
    }

    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize, node: NodeId) -> Result<(), PageError> {
        self.with(|fake| {
            if fake.free[node.index()] < bytes {
                return Err(PageError::Full);
            }
            let (range, offset) = fake.range(start, bytes);
            let apart = |part: &(usize, usize, NodeId)| part.0 + part.1 <= offset || offset + bytes <= part.0;
            assert!(range.committed.iter().all(apart), "{bytes} bytes at {offset} are committed already");
            range.committed.push((offset, bytes, node));
            // Miri finds that out otherwise, and is slow.
            if cfg!(debug_assertions) && !cfg!(miri) {
                // Of much memory only a word in each page is looked at, and touched thereby.
                let step = if bytes <= 4 << 20 { 8 } else { FAKE_PAGE };
                // SAFETY: in the range, which is initialised; the caller owns the part.
                let dirty = (0..bytes).step_by(step).find(|&at| unsafe { start.add(at).cast::<u64>().read() } != 0);
                assert_eq!(dirty, None, "somebody wrote to memory at {offset} that was not committed");
            }
            fake.free[node.index()] = fake.free[node.index()].saturating_sub(bytes);
            fake.calls.push(Call::Commit(offset, bytes, node));
            Ok(())
        })
    }

    unsafe fn decommit(&self, start: NonNull<u8>, bytes: usize, node: NodeId) {
        self.with(|fake| {
            let (range, offset) = fake.range(start, bytes);
            let part = range.committed.iter().position(|&part| part == (offset, bytes, node));
            range.committed.swap_remove(part.expect("what is given back was committed, as one part"));
            // SAFETY: in the range, and nobody uses it, says the caller.
            unsafe { start.write_bytes(0, bytes) };
            fake.free[node.index()] = fake.free[node.index()].saturating_add(bytes);
            fake.calls.push(Call::Decommit(offset, bytes, node));
        });
    }

    unsafe fn release(&self, start: NonNull<u8>, bytes: usize, align: usize) {
        self.with(|fake| {
            let whole =
                |range: &FakeRange| (range.start, range.bytes, range.align) == (start.addr().get(), bytes, align);
            let at = fake.ranges.iter().position(whole).expect("a whole range is released");
            let range = fake.ranges.swap_remove(at);
            for (_, bytes, node) in range.committed {
                fake.free[node.index()] = fake.free[node.index()].saturating_add(bytes);
            }
            fake.calls.push(Call::Release(bytes));
            let layout = fake_layout(bytes, align).expect("it was reserved");
            // SAFETY: `reserve` allocated it there with this layout.
            unsafe { std::alloc::dealloc(start.sub(range.lead).as_ptr(), layout) };
        });
    }

    unsafe fn advise_huge(&self, start: NonNull<u8>, bytes: usize) {
        self.with(|fake| {
            let (_, offset) = fake.range(start, bytes);
            fake.calls.push(Call::AdviseHuge(offset, bytes));
        });
    }

    fn truth(&self, addresses: &[usize]) -> Vec<Option<NodeId>> {
        self.with(|fake| {
            let node_of = |&address: &usize| {
                let range =
                    fake.ranges.iter().find(|range| (range.start..range.start + range.bytes).contains(&address))?;
                let offset = address - range.start;
                range.committed.iter().find(|part| (part.0..part.0 + part.1).contains(&offset)).map(|part| part.2)
            };
            addresses.iter().map(node_of).collect()
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "calls the page source")]
    fn the_fake_knows_what_is_committed_where() {
        let pages = FakePages::new(2);
        let [zero, one] = [NodeId::new(0), NodeId::new(1)];
        let start = pages.reserve(1 << 16, 1 << 16).unwrap();
        assert_eq!(start.addr().get() % (1 << 16), 0);
        let at = start.addr().get();
        // SAFETY: parts of the range, committed and given back once each, by this test alone.
        unsafe {
            pages.place(start, 1 << 15, Placement::On(one, Policy::Strict)).unwrap();
            pages.commit(start, 8192, one).unwrap();
            assert_eq!(pages.truth(&[at, at + 8191, at + 8192, 64]), [Some(one), Some(one), None, None]);
            start.write(7);
            pages.decommit(start, 8192, one);
            pages.commit(start, 4096, one).unwrap();
            assert_eq!(start.read(), 0, "what was given back reads as zeros");
            pages.set_free(zero, 4096);
            assert_eq!(pages.commit(start.add(8192), 8192, zero), Err(PageError::Full));
            pages.commit(start.add(8192), 4096, zero).unwrap();
            assert_eq!((pages.committed(zero), pages.committed(one)), (4096, 4096));
            assert_eq!(
                pages.place(start.add(1 << 15), 4096, Placement::On(NodeId::new(2), Policy::Strict)),
                Err(PageError::NoSuchNode(NodeId::new(2)))
            );
            pages.release(start, 1 << 16, 1 << 16);
        }
        let calls = pages.take_calls();
        assert_eq!(calls[1], Call::Place(0, 1 << 15, one, Policy::Strict));
        assert_eq!(calls.last(), Some(&Call::Release(1 << 16)));
    }
}
