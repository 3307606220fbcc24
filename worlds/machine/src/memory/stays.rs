//! Whether placed memory still lies where it was asked to lie.
//!
//! The requested place of our own memory is arithmetic. The kernel moves the pages of a whole process for others
//! (migratepages(8), a cpuset's `memory_migrate`, migrate_pages(2)), and takes other nodes when one is full. So some
//! pages of recent look-ups are kept for each node, and the kernel is asked about them four times a second, and once in
//! a thousand look-ups of a thread. If most of a node's pages lie elsewhere, all placed memory counts as moved
//! ([`migrate`]): the kernel is asked about each block from then on, until its addresses get new pages.

use crate::memory::heaps::Process;
use crate::memory::{known, migrate};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use vicus_memory::Memory;
use vicus_topology::NodeId;

/// One in so many look-ups of a thread keeps its page and reads the clock.
const EVERY: u32 = 8;

/// How many of these are a thousand look-ups.
const LOOKS: u32 = 1000 / EVERY;

/// How many pages are kept for a node, and for how many nodes. The nodes beyond share with the others.
const KEPT: usize = 4;
const NODES: usize = 64;

/// Addresses of recent look-ups, by node; 0 is none. They are hints: each is looked up again.
static RECENT: [[AtomicUsize; KEPT]; NODES] = [const { [const { AtomicUsize::new(0) }; KEPT] }; NODES];

/// The time of the last question ([`known::now`]).
static ASKED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// How many look-ups the thread has made.
    static COUNT: Cell<u32> = const { Cell::new(0) };
}

/// Counts a look-up of an address. All memory is marked as moved if that is noticed now.
#[inline]
pub(crate) fn look(process: &Process, address: usize) {
    if process.memory.nodes() < 2 {
        return;
    }
    let count = COUNT.get().wrapping_add(1);
    COUNT.set(count);
    if count.is_multiple_of(EVERY) {
        keep(process, address, count / EVERY);
    }
}

/// The place that an address was asked to have, unless it is known to lie elsewhere.
fn asked(memory: &Memory, address: usize) -> Option<NodeId> {
    let (mut node, byte) = (None, address..address.saturating_add(1));
    memory.tell(byte.clone(), 1, &mut |part| node = part.node.filter(|_| !part.is_learned));
    node.filter(|_| !migrate::was_moved(&byte))
}

#[cold]
fn keep(process: &Process, address: usize, turn: u32) {
    let memory = &process.memory;
    if let Some(node) = asked(memory, address) {
        RECENT[node.index() % NODES][turn as usize % KEPT].store(address, Ordering::Relaxed);
    }
    let now = known::now();
    if ASKED.load(Ordering::Relaxed) == now && !turn.is_multiple_of(LOOKS) {
        return;
    }
    ASKED.store(now, Ordering::Relaxed);
    let (mut addresses, mut nodes) = (Vec::new(), Vec::new());
    for address in RECENT.iter().flatten().map(|one| one.load(Ordering::Relaxed)).filter(|&address| address != 0) {
        if let Some(node) = asked(memory, address) {
            addresses.push(address);
            nodes.push(node);
        }
    }
    let lies = memory.pages().truth(&addresses);
    if tells_of_moves(nodes.into_iter().zip(lies)) {
        migrate::note_all_moved();
    }
}

/// Whether most pages of some node lie elsewhere, by the nodes that they were asked to lie on and those that the kernel
/// says. An untouched page lies nowhere.
fn tells_of_moves(pages: impl Iterator<Item = (NodeId, Option<NodeId>)>) -> bool {
    let mut counts = [(0, 0); NODES];
    for (asked, lies) in pages {
        let (all, away) = &mut counts[asked.index() % NODES];
        *all += usize::from(lies.is_some());
        *away += usize::from(lies.is_some_and(|lies| lies != asked));
    }
    counts.iter().any(|&(all, away)| away * 2 > all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_moved_if_most_pages_of_a_node_lie_elsewhere() {
        let moved = |pages: &[(usize, Option<usize>)]| {
            tells_of_moves(pages.iter().map(|&(asked, lies)| (NodeId::new(asked), lies.map(NodeId::new))))
        };
        assert!(!moved(&[]));
        assert!(!moved(&[(0, Some(0)), (1, Some(1)), (2, None), (2, None)]));
        assert!(moved(&[(0, Some(0)), (0, Some(0)), (1, Some(0))]));
        assert!(moved(&[(1, Some(0)), (1, None), (0, Some(0))]), "what was not touched says nothing");
        // A page that found its node full.
        assert!(!moved(&[(1, Some(0)), (1, Some(1)), (1, Some(1)), (1, Some(1))]));
        assert!(moved(&[(1, Some(0)), (1, Some(0)), (1, Some(0)), (1, Some(1))]));
    }
}
