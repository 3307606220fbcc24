//! The source of pages: a trait, since this crate calls no operating system, and a fake for tests.
//!
//! The order of calls for a range is: reserve, place (before anything is touched), then commit and decommit parts of it
//! any number of times, release. Committed memory is zero when it is fresh, and again after each decommit.

use crate::sync::Mutex;
use std::alloc::Layout;
use std::fmt;
use std::ptr::NonNull;
use vicus_topology::NodeId;

/// The behaviour when a node has no page left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// The nearest node with a page gives it, and this is counted.
    #[default]
    Preferred,
    /// The request is refused. Granted pages may be touched at once, so they are certain.
    Strict,
}

/// The nodes for the pages of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PagePlacement<'a> {
    /// All on one node.
    On(NodeId, WhenFull),
    /// Page by page in turn over these nodes, ascending by the system's numbers; [`Pages::turn`] tells the next node.
    Interleaved(&'a [NodeId]),
    /// The machine's default; takes back an earlier placement.
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
/// The addresses returned by [`Pages::reserve`] are aligned as asked, belong to the caller alone until they are
/// released, and do not move. Committed memory can be read and written; its contents are initialised and stay until it
/// is decommitted.
#[expect(unsafe_code, reason = "the allocator hands out this memory")]
pub unsafe trait Pages: Send + Sync {
    /// The granularity of all sizes and addresses here, in bytes: a power of two.
    fn page_bytes(&self) -> usize;

    /// Reserves addresses, not memory: `bytes` of them, aligned to `align`.
    ///
    /// # Errors
    /// There are fewer addresses.
    fn reserve(&self, bytes: usize, align: usize) -> Result<NonNull<u8>, PageError>;

    /// Chooses the nodes for the pages of a part of a reserved range, once they are touched.
    ///
    /// # Errors
    /// There is no such node, or the source can't place at all, or not like this; the range is usable all the same.
    ///
    /// # Safety
    /// The part is in a range reserved by this source, and nothing in it was touched since.
    unsafe fn place(&self, start: NonNull<u8>, bytes: usize, placement: PagePlacement<'_>) -> Result<(), PageError>;

    /// The node of the page at an address, as an index into the `nodes` that pages are interleaved over.
    fn turn(&self, address: usize, nodes: usize) -> usize;

    /// Whether this process may use a node's memory.
    fn may_use(&self, node: NodeId) -> bool;

    /// Whether a node has `bytes` bytes left, as far as the source can tell: other processes may take them meanwhile.
    fn has_room(&self, node: NodeId, bytes: usize) -> bool;

    /// Makes a part of a placed range usable, on `node` as far as the source can tell, or on the nodes it was
    /// interleaved over. It reads as zeros.
    ///
    /// # Errors
    /// [`PageError::Full`] if the node or the machine has no memory left; then nothing is committed.
    ///
    /// # Safety
    /// The part is in a range reserved by this source, and it is not committed.
    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize, node: NodeId) -> Result<(), PageError>;

    /// Gives committed memory back, in whole or in part, also several committed parts in a row; the addresses stay
    /// reserved.
    ///
    /// # Safety
    /// All of it was committed, and none of it is read or written afterwards.
    unsafe fn decommit(&self, start: NonNull<u8>, bytes: usize, node: NodeId);

    /// Gives back the pages of a part, which stays committed: it reads as zeros, and has pages again when it is
    /// touched. A hint: a source may keep pages as they are.
    ///
    /// # Safety
    /// All of it was committed, and nothing reads what it holds.
    unsafe fn discard(&self, start: NonNull<u8>, bytes: usize) {
        let _ = (start, bytes);
    }

    /// Moves a committed part, one committed in one call, to another node. Its contents stay, also while other threads
    /// use them, and also if it is refused.
    ///
    /// # Errors
    /// Those of [`Pages::place`]; [`PageError::Full`] if the memory is strict and the node has no room.
    ///
    /// # Safety
    /// The part was committed.
    unsafe fn relocate(
        &self,
        start: NonNull<u8>,
        bytes: usize,
        to: NodeId,
        when_full: WhenFull,
    ) -> Result<(), PageError>;

    /// Gives a whole reserved range back.
    ///
    /// # Safety
    /// The range was returned by [`Pages::reserve`], with the same size and alignment, and is not used after this call.
    unsafe fn release(&self, start: NonNull<u8>, bytes: usize, align: usize);

    /// Asks for huge pages in a part before it is touched. A hint: it can't fail.
    ///
    /// # Safety
    /// Those of [`Pages::place`].
    unsafe fn advise_huge(&self, start: NonNull<u8>, bytes: usize);

    /// The real nodes of these addresses' pages; `None` for a page without memory yet.
    fn truth(&self, addresses: &[usize]) -> Vec<Option<NodeId>>;
}

/// One call seen by a [`FakePages`]. Addresses are counted from the start of their range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemCall {
    /// [`Pages::reserve`]: bytes, alignment.
    Reserve(usize, usize),
    /// [`Pages::place`] on one node: offset, bytes, node, and the answer if it is full.
    Place(usize, usize, NodeId, WhenFull),
    /// [`Pages::place`] in turn over nodes, or as the machine does it (no nodes): offset, bytes, nodes.
    Interleave(usize, usize, Vec<NodeId>),
    /// [`Pages::commit`]: offset, bytes, node.
    Commit(usize, usize, NodeId),
    /// [`Pages::decommit`]: offset, bytes, node.
    Decommit(usize, usize, NodeId),
    /// [`Pages::discard`]: offset, bytes.
    Discard(usize, usize),
    /// [`Pages::relocate`]: offset, bytes, node, and what if it is full.
    Relocate(usize, usize, NodeId, WhenFull),
    /// [`Pages::release`]: bytes.
    Release(usize),
    /// [`Pages::advise_huge`]: offset, bytes.
    AdviseHuge(usize, usize),
}

/// A page source for tests: plain memory with noted nodes, and a record of all calls. It can be full on a node, and it
/// panics when a caller breaks the rules: commits committed memory, or has written to uncommitted memory.
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
    /// Bytes each node can still commit.
    free: Vec<usize>,
    /// Nodes whose memory this process may not use.
    forbidden: Vec<NodeId>,
    /// The error of each refused placement; `None` if everything is placed.
    refusal: Option<PageError>,
    calls: Vec<SystemCall>,
}

#[derive(Debug)]
struct FakeRange {
    start: usize,
    bytes: usize,
    align: usize,
    /// How far behind the beginning of the allocation the range begins.
    lead: usize,
    /// The interleaved parts.
    interleaved: Vec<CommittedPart>,
    committed: Vec<CommittedPart>,
}

/// A part of a range, by its offset, on nodes that take its pages in turn.
#[derive(Clone, Debug, PartialEq)]
struct CommittedPart {
    offset: usize,
    bytes: usize,
    nodes: Vec<NodeId>,
}

impl CommittedPart {
    fn is_apart(&self, offset: usize, bytes: usize) -> bool {
        self.offset + self.bytes <= offset || offset + bytes <= self.offset
    }

    fn holds(&self, offset: usize) -> bool {
        (self.offset..self.offset + self.bytes).contains(&offset)
    }

    /// The node of an address in it.
    fn node_of(&self, address: usize) -> NodeId {
        self.nodes[address / FAKE_PAGE % self.nodes.len()]
    }

    /// How many of its bytes are on a node, if its range begins at `start`.
    fn bytes_on(&self, node: NodeId, start: usize) -> usize {
        let pages = (self.offset..self.offset + self.bytes).step_by(FAKE_PAGE);
        match self.nodes[..] {
            [one] => self.bytes * usize::from(one == node),
            _ => FAKE_PAGE * pages.filter(|offset| self.node_of(start + offset) == node).count(),
        }
    }
}

const FAKE_PAGE: usize = 4096;

/// The layout of an allocation around an aligned range. It is not aligned itself: the standard allocator would then
/// touch all of it to make it zero.
fn fake_layout(bytes: usize, align: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_add(align)?, 16).ok()
}

impl FakePages {
    /// A source for this number of nodes, none of them ever full.
    pub fn new(nodes: usize) -> FakePages {
        let free = vec![usize::MAX; nodes];
        FakePages {
            state: Mutex::new(Fake {
                ranges: Vec::new(),
                free,
                forbidden: Vec::new(),
                refusal: None,
                calls: Vec::new(),
            }),
        }
    }

    /// From now on the node has `bytes` bytes left.
    pub fn set_free(&self, node: NodeId, bytes: usize) {
        self.with(|fake| fake.free[node.index()] = bytes);
    }

    /// From now on this process may not use the node's memory, as if it were outside its cpuset, or had none.
    pub fn forbid(&self, node: NodeId) {
        self.with(|fake| fake.forbidden.push(node));
    }

    /// From now on placing is refused with this error, or not any more.
    pub fn refuse_placing(&self, why: Option<PageError>) {
        self.with(|fake| fake.refusal = why);
    }

    /// How many ranges are reserved.
    pub fn reserved(&self) -> usize {
        self.with(|fake| fake.ranges.len())
    }

    /// All calls since the last time this was asked.
    pub fn take_calls(&self) -> Vec<SystemCall> {
        self.with(|fake| std::mem::take(&mut fake.calls))
    }

    /// How many bytes are committed on a node.
    pub fn committed(&self, node: NodeId) -> usize {
        self.with(|fake| {
            let on_node = |range: &FakeRange| -> usize {
                range.committed.iter().map(|part| part.bytes_on(node, range.start)).sum()
            };
            fake.ranges.iter().map(on_node).sum()
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

    /// Notes the end of the commitment of a range's part that begins there.
    fn give_back(&mut self, part: &CommittedPart, start: usize) {
        for (at, free) in self.free.iter_mut().enumerate() {
            *free = free.saturating_add(part.bytes_on(NodeId::new(at), start));
        }
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
        // SAFETY: callers reserve at least a byte.
        let begin = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or(PageError::Full)?;
        let lead = begin.addr().get().next_multiple_of(align) - begin.addr().get();
        // SAFETY: the layout has room for the lead.
        let start = unsafe { begin.add(lead) };
        self.with(|fake| {
            fake.calls.push(SystemCall::Reserve(bytes, align));
            let (interleaved, committed) = (Vec::new(), Vec::new());
            fake.ranges.push(FakeRange { start: start.addr().get(), bytes, align, lead, interleaved, committed });
        });
        Ok(start)
    }

    unsafe fn place(&self, start: NonNull<u8>, bytes: usize, placement: PagePlacement<'_>) -> Result<(), PageError> {
        self.with(|fake| {
            let asked: &[NodeId] = match &placement {
                PagePlacement::On(node, _) => &[*node],
                PagePlacement::Interleaved(nodes) => nodes,
                PagePlacement::Standard => &[],
            };
            let is_none = |node: &&NodeId| node.index() >= fake.free.len() || fake.forbidden.contains(node);
            let (none, refusal) = (asked.iter().find(is_none).copied(), fake.refusal);
            let (range, offset) = fake.range(start, bytes);
            assert!(
                range.committed.iter().all(|part| part.is_apart(offset, bytes)),
                "a range is placed before any of it is committed"
            );
            if let Some(error) = refusal.or(none.map(PageError::NoSuchNode)) {
                return Err(error);
            }
            range.interleaved.retain(|part| part.is_apart(offset, bytes));
            let call = match placement {
                PagePlacement::On(node, when_full) => SystemCall::Place(offset, bytes, node, when_full),
                PagePlacement::Interleaved(nodes) => {
                    assert!(!nodes.is_empty(), "pages are interleaved over at least one node");
                    range.interleaved.push(CommittedPart { offset, bytes, nodes: nodes.to_vec() });
                    SystemCall::Interleave(offset, bytes, nodes.to_vec())
                }
                PagePlacement::Standard => SystemCall::Interleave(offset, bytes, Vec::new()),
            };
            fake.calls.push(call);
            Ok(())
        })
    }

    fn turn(&self, address: usize, nodes: usize) -> usize {
        address / FAKE_PAGE % nodes
    }

    fn may_use(&self, node: NodeId) -> bool {
        self.with(|fake| node.index() < fake.free.len() && !fake.forbidden.contains(&node))
    }

    fn has_room(&self, node: NodeId, bytes: usize) -> bool {
        self.with(|fake| fake.free[node.index()] >= bytes && !fake.forbidden.contains(&node))
    }

    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize, node: NodeId) -> Result<(), PageError> {
        self.with(|fake| {
            let (range, offset) = fake.range(start, bytes);
            let free = range.committed.iter().all(|part| part.is_apart(offset, bytes));
            assert!(free, "{bytes} bytes at {offset} are committed already");
            let interleaved = range.interleaved.iter().find(|part| !part.is_apart(offset, bytes));
            let nodes = interleaved.map_or(vec![node], |part| part.nodes.clone());
            let (part, begin) = (CommittedPart { offset, bytes, nodes }, range.start);
            if !fake.free.iter().enumerate().all(|(at, &free)| part.bytes_on(NodeId::new(at), begin) <= free) {
                return Err(PageError::Full);
            }
            // Miri finds such writes by itself, and is slow.
            if cfg!(debug_assertions) && !cfg!(miri) {
                // In a large part only one word of each page is looked at, so not all of it is touched.
                let step = if bytes <= 4 << 20 { 8 } else { FAKE_PAGE };
                // SAFETY: in the range, and the range is initialised; the caller owns the part.
                let dirty = (0..bytes).step_by(step).find(|&at| unsafe { start.add(at).cast::<u64>().read() } != 0);
                assert_eq!(dirty, None, "memory at {offset} was written to before it was committed");
            }
            for (at, free) in fake.free.iter_mut().enumerate() {
                *free = free.saturating_sub(part.bytes_on(NodeId::new(at), begin));
            }
            fake.range(start, bytes).0.committed.push(part);
            fake.calls.push(SystemCall::Commit(offset, bytes, node));
            Ok(())
        })
    }

    unsafe fn decommit(&self, start: NonNull<u8>, bytes: usize, node: NodeId) {
        self.with(|fake| {
            let (range, offset) = fake.range(start, bytes);
            let (apart, parts) = std::mem::take(&mut range.committed)
                .into_iter()
                .partition::<Vec<CommittedPart>, _>(|part| part.is_apart(offset, bytes));
            range.committed = apart;
            let mut given = Vec::new();
            for part in parts {
                let (begin, end) = (part.offset.max(offset), (part.offset + part.bytes).min(offset + bytes));
                given.push(CommittedPart { offset: begin, bytes: end - begin, nodes: part.nodes.clone() });
                let rest = [(part.offset, begin), (end, part.offset + part.bytes)];
                let rest = rest.into_iter().filter(|(begin, end)| begin < end);
                range.committed.extend(rest.map(|(begin, end)| CommittedPart {
                    offset: begin,
                    bytes: end - begin,
                    nodes: part.nodes.clone(),
                }));
            }
            let committed: usize = given.iter().map(|part| part.bytes).sum();
            assert_eq!(committed, bytes, "memory given back at {offset} was not all committed");
            // SAFETY: in the range; the caller promises that it is not used any more.
            unsafe { start.write_bytes(0, bytes) };
            let begin = range.start;
            given.iter().for_each(|part| fake.give_back(part, begin));
            fake.calls.push(SystemCall::Decommit(offset, bytes, node));
        });
    }

    unsafe fn relocate(
        &self,
        start: NonNull<u8>,
        bytes: usize,
        to: NodeId,
        when_full: WhenFull,
    ) -> Result<(), PageError> {
        self.with(|fake| {
            if let Some(error) = fake.refusal {
                return Err(error);
            }
            match fake.free.get(to.index()) {
                None => return Err(PageError::NoSuchNode(to)),
                Some(&free) if free < bytes => return Err(PageError::Full),
                Some(_) => {}
            }
            let (range, offset) = fake.range(start, bytes);
            let part = range.committed.iter_mut().find(|part| (part.offset, part.bytes) == (offset, bytes));
            let part = part.expect("what is moved was committed, as one part");
            let before = part.clone();
            part.nodes = vec![to];
            let begin = range.start;
            fake.give_back(&before, begin);
            fake.free[to.index()] = fake.free[to.index()].saturating_sub(bytes);
            fake.calls.push(SystemCall::Relocate(offset, bytes, to, when_full));
            Ok(())
        })
    }

    unsafe fn release(&self, start: NonNull<u8>, bytes: usize, align: usize) {
        self.with(|fake| {
            let whole =
                |range: &FakeRange| (range.start, range.bytes, range.align) == (start.addr().get(), bytes, align);
            let at = fake.ranges.iter().position(whole).expect("a whole range is released");
            let range = fake.ranges.swap_remove(at);
            range.committed.iter().for_each(|part| fake.give_back(part, range.start));
            fake.calls.push(SystemCall::Release(bytes));
            let layout = fake_layout(bytes, align).expect("it was reserved");
            // SAFETY: `reserve` allocated it there with this layout.
            unsafe { std::alloc::dealloc(start.sub(range.lead).as_ptr(), layout) };
        });
    }

    unsafe fn discard(&self, start: NonNull<u8>, bytes: usize) {
        self.with(|fake| {
            let (range, offset) = fake.range(start, bytes);
            let is_in = |part: &CommittedPart| part.holds(offset) && part.holds(offset + bytes - 1);
            assert!(range.committed.iter().any(is_in), "only committed pages are discarded");
            fake.calls.push(SystemCall::Discard(offset, bytes));
        });
        // SAFETY: it is committed, so there is memory, and nothing in it is needed, by the caller's promise.
        unsafe { start.write_bytes(0, bytes) };
    }

    unsafe fn advise_huge(&self, start: NonNull<u8>, bytes: usize) {
        self.with(|fake| {
            let (_, offset) = fake.range(start, bytes);
            fake.calls.push(SystemCall::AdviseHuge(offset, bytes));
        });
    }

    fn truth(&self, addresses: &[usize]) -> Vec<Option<NodeId>> {
        self.with(|fake| {
            let node_of = |&address: &usize| {
                let range =
                    fake.ranges.iter().find(|range| (range.start..range.start + range.bytes).contains(&address))?;
                let offset = address - range.start;
                range.committed.iter().find(|part| part.holds(offset)).map(|part| part.node_of(address))
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
            pages.place(start, 1 << 15, PagePlacement::On(one, WhenFull::Strict)).unwrap();
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
                pages.place(start.add(1 << 15), 4096, PagePlacement::On(NodeId::new(2), WhenFull::Strict)),
                Err(PageError::NoSuchNode(NodeId::new(2)))
            );
            pages.release(start, 1 << 16, 1 << 16);
        }
        let calls = pages.take_calls();
        assert_eq!(calls[1], SystemCall::Place(0, 1 << 15, one, WhenFull::Strict));
        assert_eq!(calls.last(), Some(&SystemCall::Release(1 << 16)));
    }

    #[test]
    #[expect(unsafe_code, reason = "calls the page source")]
    fn pages_in_turn_lie_by_their_addresses() {
        let pages = FakePages::new(3);
        let [zero, one, two] = [0, 1, 2].map(NodeId::new);
        let start = pages.reserve(8 * 4096, 3 * 4096).unwrap();
        let at = start.addr().get();
        // SAFETY: parts of the range, committed and given back once each, by this test alone.
        unsafe {
            pages.place(start, 8 * 4096, PagePlacement::Interleaved(&[zero, two])).unwrap();
            pages.commit(start.add(4096), 3 * 4096, zero).unwrap();
            let expected = (1..4).map(|page| Some([zero, two][(at / 4096 + page) % 2]));
            let asked: Vec<usize> = (1..4).map(|page| at + page * 4096).collect();
            assert_eq!(pages.truth(&asked), expected.collect::<Vec<_>>());
            assert_eq!(pages.committed(zero) + pages.committed(two), 3 * 4096);
            assert_eq!(pages.committed(one), 0);
            pages.set_free(two, 4096);
            assert!(!pages.has_room(two, 8192));
            assert_eq!(pages.commit(start.add(4 * 4096), 4 * 4096, zero), Err(PageError::Full));
            pages.decommit(start.add(4096), 3 * 4096, zero);
            pages.refuse_placing(Some(PageError::Refused(1)));
            assert_eq!(pages.place(start, 4096, PagePlacement::Standard), Err(PageError::Refused(1)));
            pages.release(start, 8 * 4096, 3 * 4096);
        }
        assert_eq!(pages.reserved(), 0);
    }
}
