//! Whether placed memory still lies where it was asked to lie.
//!
//! The requested place of our own memory is arithmetic. The kernel moves the pages of a whole process for others
//! (migratepages(8), a cpuset's `memory_migrate`, migrate_pages(2)), and takes other nodes when one is full. So some
//! pages of recent look-ups are kept for each node, and the kernel is asked about them four times a second. If most of
//! a node's pages lie elsewhere, in two questions in a row, the node is marked: the kernel is asked about each block of
//! it, until its pages are at home again in some questions in a row.

use crate::memory::heaps::Process;
use crate::memory::{known, migrate};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI8, AtomicU64, AtomicUsize, Ordering};
use vicus_memory::Memory;
use vicus_topology::NodeId;

/// One in so many look-ups of a thread reads the clock and may keep its page.
const EVERY: u32 = 8;

/// How many pages a thread keeps in a tick of the clock: each is a write to memory that all threads share.
const EACH: u32 = 32;

/// How many pages are kept for a node, and for how many nodes. The nodes beyond share with the others.
const KEPT: usize = 16;
const NODES: usize = 64;

/// A node is judged by so many pages at least: a single one may have found its node full.
const LEAST: usize = 3;

/// After so many questions in a row with the same answer, a node is marked, or its mark is withdrawn. Marks are
/// withdrawn late: while some pages have come back and others not, the kernel is to be asked.
const MARKS: i8 = 2;
const WITHDRAWS: i8 = 8;

/// The nodes whose memory may lie elsewhere than it was asked to lie, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Away(u64);

impl Away {
    pub(crate) const NONE: Away = Away(0);

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(crate) fn has(self, node: NodeId) -> bool {
        self.0 >> (node.index() % NODES) & 1 == 1
    }

    #[cfg(test)]
    pub(crate) fn of(nodes: &[usize]) -> Away {
        Away(nodes.iter().fold(0, |bits, node| bits | 1 << node))
    }
}

/// The kept pages of a node, on lines of their own.
#[repr(align(128))]
struct Recent([AtomicUsize; KEPT]);

struct Watch {
    /// Addresses of recent look-ups, by node; 0 is none. They are hints: each is looked up again.
    recent: [Recent; NODES],
    /// By node, the number of the last questions in a row that found its pages elsewhere; below 0, at home.
    found: [AtomicI8; NODES],
    /// [`Away`]: look-ups only read it.
    away: AtomicU64,
    /// The time of the last question ([`known::now`]).
    asked: AtomicU64,
    /// Whether the last question has found pages elsewhere for the first time: the next one does not wait for the
    /// clock.
    is_doubted: AtomicBool,
}

static WATCH: Watch = Watch::new();

thread_local! {
    /// How many look-ups the thread has made, and the time in which it has kept so many pages.
    static COUNT: Cell<u32> = const { Cell::new(0) };
    static KEEPS: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// The nodes whose memory may lie elsewhere.
#[inline]
pub(crate) fn away() -> Away {
    Away(WATCH.away.load(Ordering::Relaxed))
}

/// Counts a look-up of a range. Nodes are marked if it is noticed now that their pages lie elsewhere.
#[inline]
pub(crate) fn look(process: &Process, range: &Range<usize>) {
    if process.memory.nodes() < 2 {
        return;
    }
    let count = COUNT.get().wrapping_add(1);
    COUNT.set(count);
    // At unequal distances: programs go round the nodes.
    let mixed = count.wrapping_mul(0x9E37_79B9);
    if mixed < u32::MAX / EVERY {
        // Not always the same page of a long range.
        let far = (range.len() as u128 * u128::from(mixed * EVERY)) >> u32::BITS;
        WATCH.keep(&process.memory, range.start + far as usize, known::now());
    }
}

/// The place that an address was asked to have, unless it was moved on request.
fn asked(memory: &Memory, address: usize) -> Option<NodeId> {
    let (mut node, byte) = (None, address..address.saturating_add(1));
    memory.tell(byte.clone(), 1, &mut |part| node = part.node.filter(|_| !part.is_learned));
    node.filter(|_| !migrate::was_moved(&byte))
}

impl Watch {
    const fn new() -> Watch {
        Watch {
            recent: [const { Recent([const { AtomicUsize::new(0) }; KEPT]) }; NODES],
            found: [const { AtomicI8::new(0) }; NODES],
            away: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            is_doubted: AtomicBool::new(false),
        }
    }

    #[cold]
    fn keep(&self, memory: &Memory, address: usize, now: u64) {
        let (tick, kept) = KEEPS.get();
        let kept = if tick == now { kept } else { 0 };
        if kept < EACH
            && let Some(node) = asked(memory, address)
        {
            KEEPS.set((now, kept + 1));
            self.note(node, address, memory.pages().page_bytes());
        }
        let is_due = self.asked.load(Ordering::Relaxed) != now && self.asked.swap(now, Ordering::Relaxed) != now;
        let is_doubted = self.is_doubted.load(Ordering::Relaxed) && self.is_doubted.swap(false, Ordering::Relaxed);
        if is_due || is_doubted {
            self.ask(memory, |addresses| memory.pages().truth(addresses));
        }
    }

    /// Each page has one slot: so a node's pages are different ones.
    fn note(&self, node: NodeId, address: usize, page_bytes: usize) {
        let address = address - address % page_bytes;
        let mixed = (address / page_bytes).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - 16);
        let slot = &self.recent[node.index() % NODES].0[mixed % KEPT];
        if slot.load(Ordering::Relaxed) != address {
            slot.store(address, Ordering::Relaxed);
        }
    }

    /// Asks where the kept pages lie. A page says nothing if the program has it moved meanwhile: such a page has no
    /// requested place before or after the question, or another one, or is being relocated.
    fn ask(&self, memory: &Memory, truth: impl FnOnce(&[usize]) -> Vec<Option<NodeId>>) {
        let relocations = memory.relocations();
        let (mut addresses, mut nodes) = (Vec::new(), Vec::new());
        let kept = self.recent.iter().flat_map(|recent| &recent.0).map(|one| one.load(Ordering::Relaxed));
        for address in kept.filter(|&address| address != 0) {
            if let Some(node) = asked(memory, address) {
                addresses.push(address);
                nodes.push(node);
            }
        }
        let lies = truth(&addresses);
        let stays = |&(&address, node): &(&usize, NodeId)| asked(memory, address) == Some(node);
        let lies = addresses.iter().zip(nodes).zip(lies).filter(|(asked, _)| stays(asked));
        let pages: Vec<_> = lies.map(|((_, node), lies)| (node, lies)).collect();
        if relocations.is_some() && memory.relocations() == relocations {
            self.judge(&pages);
        }
    }

    /// Marks nodes, and withdraws marks, by the nodes that pages were asked to lie on and those that the kernel says.
    fn judge(&self, pages: &[(NodeId, Option<NodeId>)]) {
        let mut counts = [(0, 0); NODES];
        // An untouched page lies nowhere.
        for (asked, lies) in pages.iter().filter_map(|&(asked, lies)| lies.map(|lies| (asked, lies))) {
            let (all, away) = &mut counts[asked.index() % NODES];
            *all += 1;
            *away += usize::from(lies != asked);
        }
        for (node, (found, (all, away))) in self.found.iter().zip(counts).enumerate() {
            let (before, bit) = (found.load(Ordering::Relaxed), 1 << node);
            let now = match () {
                () if away >= LEAST && away * 4 >= all * 3 => before.max(0).saturating_add(1),
                () if all >= LEAST && away == 0 => before.min(0).saturating_sub(1),
                () => 0,
            };
            if now != before {
                found.store(now, Ordering::Relaxed);
            }
            let is_marked = self.away.load(Ordering::Relaxed) & bit != 0;
            if !is_marked && now >= MARKS {
                self.away.fetch_or(bit, Ordering::Relaxed);
            } else if !is_marked && now > 0 {
                self.is_doubted.store(true, Ordering::Relaxed);
            } else if is_marked && now <= -WITHDRAWS {
                self.away.fetch_and(!bit, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::Layout;
    use std::sync::Arc;
    use vicus_memory::distribution::{Arrangement, Distribution};
    use vicus_memory::{FakePages, MemoryOptions};
    use vicus_topology::{LocationId, Topology};

    const PAGE: usize = 4096;

    /// Memory on two nodes, and the addresses of sixteen pages, in turn on these.
    fn memory() -> (Arc<Memory>, vicus_memory::Placed, Vec<usize>) {
        let machine = Topology::parse("node:2 core:1").unwrap();
        let options = MemoryOptions { range_bytes: 32 << 20, placed_bytes: 32 << 20, ..MemoryOptions::default() };
        let memory = Memory::new(Arc::new(FakePages::new(2)), &machine, options).unwrap();
        let placed = memory.place(Layout::array::<u8>(16 * PAGE).unwrap(), Some(&Distribution::Fine)).unwrap();
        let start = placed.bytes().as_ptr().addr();
        (memory, placed, (0..16).map(|page| start + page * PAGE).collect())
    }

    /// The answers for pages by a list of requested and real nodes, so often.
    fn judged(watch: &Watch, pages: &[(usize, Option<usize>)], times: usize) -> Away {
        let pages: Vec<_> = pages.iter().map(|&(asked, lies)| (NodeId::new(asked), lies.map(NodeId::new))).collect();
        (0..times).for_each(|_| watch.judge(&pages));
        Away(watch.away.load(Ordering::Relaxed))
    }

    #[test]
    fn a_node_is_marked_if_most_of_its_pages_lie_elsewhere_twice() {
        let watch = Watch::new();
        let marked = |pages: &[(usize, Option<usize>)]| judged(&Watch::new(), pages, 9);
        assert_eq!(marked(&[]), Away::NONE);
        assert_eq!(marked(&[(0, Some(0)), (1, Some(1)), (2, None), (2, None), (2, None)]), Away::NONE);
        // Pages that found their node full.
        assert_eq!(marked(&[(1, Some(0)), (0, Some(0)), (0, Some(0))]), Away::NONE);
        assert_eq!(marked(&[(1, Some(0)), (1, Some(0))]), Away::NONE);
        assert_eq!(marked(&[(1, Some(0)), (1, Some(0)), (1, Some(0)), (1, Some(1)), (1, Some(1))]), Away::NONE);
        let most = [(1, Some(0)), (1, Some(0)), (1, Some(0)), (1, Some(1)), (1, None), (0, Some(0)), (0, Some(0))];
        assert_eq!(marked(&most), Away::of(&[1]), "and of the others nothing is said");
        // Once is not enough, nor twice with another answer in between.
        assert_eq!(judged(&watch, &most, 1), Away::NONE);
        assert!(watch.is_doubted.load(Ordering::Relaxed), "so it is asked again soon");
        assert_eq!(judged(&watch, &[], 1), Away::NONE);
        assert_eq!(judged(&watch, &most, 1), Away::NONE);
        assert_eq!(judged(&watch, &most, 1), Away::of(&[1]));
    }

    #[test]
    fn a_mark_is_withdrawn_if_all_pages_are_at_home_again() {
        let watch = Watch::new();
        let (away, home) = ([(1, Some(0)); 4], [(1, Some(1)); 4]);
        let mixed = [(1, Some(1)), (1, Some(1)), (1, Some(1)), (1, Some(0))];
        assert_eq!(judged(&watch, &away, 9), Away::of(&[1]));
        assert_eq!(judged(&watch, &mixed, 9), Away::of(&[1]));
        assert_eq!(judged(&watch, &home, 7), Away::of(&[1]));
        assert_eq!(judged(&watch, &mixed, 1), Away::of(&[1]));
        assert_eq!(judged(&watch, &home[..2], 9), Away::of(&[1]), "two pages say nothing");
        assert_eq!(judged(&watch, &home, 7), Away::of(&[1]));
        assert_eq!(judged(&watch, &home, 1), Away::NONE);
        // And the node can be marked again.
        assert_eq!(judged(&watch, &away, 2), Away::of(&[1]));
    }

    #[test]
    fn kept_pages_are_different_ones() {
        let watch = Watch::new();
        (0..100).for_each(|byte| watch.note(NodeId::new(1), 7 * PAGE + byte, PAGE));
        let kept = || watch.recent[1].0.iter().map(|one| one.load(Ordering::Relaxed)).filter(|&at| at != 0).count();
        assert_eq!(kept(), 1);
        (0..100).for_each(|page| watch.note(NodeId::new(1), (7 + page) * PAGE, PAGE));
        assert!(kept() > KEPT / 2, "{}", kept());
    }

    /// Pages at home, elsewhere, and moved on request before the question, during it, or by a relocation.
    #[test]
    fn moves_on_request_mark_no_node() {
        let _turn = known::tests::in_turn();
        let (memory, _placed, pages) = memory();
        let home = |at: &[usize]| memory.pages().truth(at);
        let elsewhere = |at: &[usize]| home(at).into_iter().map(|node| node.map(|node| NodeId::new(1 - node.index())));
        let watching = || {
            let watch = Watch::new();
            pages.iter().for_each(|&page| watch.note(asked(&memory, page).unwrap(), page, PAGE));
            watch
        };
        let away = |watch: &Watch| Away(watch.away.load(Ordering::Relaxed));
        let watch = watching();
        (0..9).for_each(|_| watch.ask(&memory, home));
        assert_eq!(away(&watch), Away::NONE);
        (0..2).for_each(|_| watch.ask(&memory, |at| elsewhere(at).collect()));
        assert_eq!(away(&watch), Away::of(&[0, 1]), "by the kernel");
        let all = pages[0]..pages[15] + PAGE;
        let watch = watching();
        for _ in 0..9 {
            watch.ask(&memory, |at| {
                assert_eq!(at.len(), at.iter().filter(|at| all.contains(at)).count());
                migrate::note_moved(all.clone());
                elsewhere(at).collect()
            });
            migrate::forget_moved(all.clone(), PAGE);
        }
        assert_eq!(away(&watch), Away::NONE, "during the question");
        migrate::note_moved(all.clone());
        (0..9).for_each(|_| watch.ask(&memory, |at| elsewhere(at).collect()));
        assert_eq!(away(&watch), Away::NONE, "before it");
        migrate::forget_moved(all, PAGE);
        // A relocation of other memory during the question: whose pages it moves is not known.
        let list = Arrangement::Each { locations: [LocationId::new(0); 2].into() };
        let listed = memory.place_as(Layout::array::<u8>(2 * PAGE).unwrap(), PAGE, list).unwrap();
        for turn in 0..9 {
            watch.ask(&memory, |at| {
                listed.relocate(0, NodeId::new(turn % 2)).unwrap();
                elsewhere(at).collect()
            });
        }
        assert_eq!(away(&watch), Away::NONE, "by a relocation");
    }
}
