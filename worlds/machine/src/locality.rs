//! Where memory lies: our own by arithmetic, other memory as the kernel says.
//!
//! Muddukrishna et al. could not see where pages lay that others had placed; here the kernel is asked, for many pages at a
//! time, and what it says is kept until somebody says that the memory is gone.

use crate::heaps::{Process, node_of_thread, process};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, OnceLock};
use vicus_memory::{Footprint, Region};
use vicus_schedule::Access;
use vicus_topology::NodeId;

/// The node that an address of this process's memory was asked to lie on, or does as [`footprint`] has found; `None` if it is not
/// ours or was not placed, and before the first runtime has started. No lock is taken and nothing is asked of the system.
pub fn node_of(address: *const u8) -> Option<NodeId> {
    process().and_then(|process| process.memory.node_of(address))
}

/// The node of the seat that the calling thread works on, or else the one where it runs at this moment: where a placed
/// container is asked first. `None` before the first runtime has started.
pub fn here() -> Option<NodeId> {
    process().map(node_of_thread)
}

/// How many bytes of some memory lie on each node, our own or others': what was asked for of our own, what the kernel says
/// of other memory and of what was placed as the machine likes, as it was when somebody first asked. Memory that nobody has
/// touched yet is unknown if there are several nodes, and so is all before the first runtime has started.
///
/// What the kernel said of others' memory is kept, for a million pages. [`forget`] it when that memory is freed.
///
/// ```
/// use vicus_machine::{Runtime, footprint};
///
/// let runtime = Runtime::builder().threads(1).start();
/// let values = vec![1u64; 100_000];
/// let footprint = footprint(&values);
/// assert_eq!(footprint.nodes.iter().sum::<usize>() + footprint.unknown, 800_000);
/// ```
pub fn footprint<T>(of: &[T]) -> Footprint {
    let range = of.as_ptr_range();
    footprint_at(range.start.addr()..range.end.addr())
}

/// Whether a range begins in memory of this library that was given out as a whole on one node: by `coarse`, `on` one node, or by a
/// seat's heap.
pub(crate) fn is_in_one_place(range: &Range<usize>) -> bool {
    process().is_some_and(|process| process.memory.is_in_one_place(range.start))
}

/// The first address of a range that is memory of this process's, and nobody's; see [`vicus_memory::Memory::freed_in`].
#[cfg(debug_assertions)]
pub(crate) fn freed_in(range: Range<usize>) -> Option<usize> {
    process()?.memory.freed_in(range)
}

/// As [`footprint`], of what a task says that it reads and writes.
pub fn footprint_of(accesses: &[Access]) -> Footprint {
    let mut all = Footprint::default();
    for part in accesses.iter().flat_map(Access::stretches).map(footprint_at) {
        all.unknown += part.unknown;
        all.nodes.resize(all.nodes.len().max(part.nodes.len()), 0);
        all.nodes.iter_mut().zip(&part.nodes).for_each(|(sum, bytes)| *sum += bytes);
    }
    all
}

/// As [`footprint`], of a range of addresses.
pub(crate) fn footprint_at(range: Range<usize>) -> Footprint {
    let Some(process) = process() else {
        return Footprint { unknown: range.len(), ..Footprint::default() };
    };
    if process.memory.nodes() == 1 {
        // Wherever it is going to lie.
        return Footprint { nodes: vec![range.len()], unknown: 0 };
    }
    let asked = process.memory.footprint_at(range.clone());
    if asked.unknown == 0 { asked } else { learnt(process, range) }
}

/// Says that memory which is not ours was freed: who asks for its addresses again asks the kernel.
pub fn forget<T>(of: &[T]) {
    let Some(process) = process() else { return };
    let range = of.as_ptr_range();
    let pages = pages(range.start.addr()..range.end.addr(), process.memory.pages().page_bytes());
    let mut known = known().lock().expect("nothing panics under this lock");
    if pages.len() < known.len() {
        for page in pages {
            known.remove(&page);
        }
    } else {
        known.retain(|page, _| !pages.contains(page));
    }
}

/// The kernel is asked for so many pages at once.
const BATCH: usize = 512;

/// So many pages are remembered: 4 GB of usual ones.
const MOST_PAGES: usize = 1 << 20;

/// By its number, the node of a page of others' memory.
fn known() -> &'static Mutex<HashMap<usize, NodeId>> {
    static KNOWN: OnceLock<Mutex<HashMap<usize, NodeId>>> = OnceLock::new();
    KNOWN.get_or_init(Mutex::default)
}

/// The numbers of the pages that a range touches.
fn pages(range: Range<usize>, page_bytes: usize) -> Range<usize> {
    if range.is_empty() { 0..0 } else { range.start / page_bytes..(range.end - 1) / page_bytes + 1 }
}

/// Memory of which some was not placed, page by page. What the kernel says of our own stays with it until it is freed.
fn learnt(process: &Process, range: Range<usize>) -> Footprint {
    let memory = &process.memory;
    let page_bytes = memory.pages().page_bytes();
    let Range { start, end } = range;
    let mut footprint = Footprint { nodes: vec![0; memory.nodes()], unknown: 0 };
    let mut known = known().lock().expect("nothing panics under this lock");
    let all: Vec<usize> = pages(start..end, page_bytes).collect();
    for batch in all.chunks(BATCH) {
        let address = |page: usize| (page * page_bytes).max(start);
        let ours = |page: usize| std::ptr::without_provenance::<u8>(address(page));
        let told = |known: &HashMap<usize, NodeId>, page: usize| match memory.owns(ours(page)) {
            true => memory.node_of(ours(page)),
            false => known.get(&page).copied(),
        };
        let mut add = |page: usize, node: Option<NodeId>| {
            let bytes = ((page + 1) * page_bytes).min(end) - address(page);
            match node {
                Some(node) => footprint.nodes[node.index()] += bytes,
                None => footprint.unknown += bytes,
            }
        };
        let mut open = Vec::new();
        for &page in batch {
            match told(&known, page) {
                None => open.push(page),
                node => add(page, node),
            }
        }
        let addresses: Vec<usize> = open.iter().map(|&page| address(page)).collect();
        // A map that is full forgets all: what is asked for again is learnt again.
        if known.len() + open.len() > MOST_PAGES {
            known.clear();
        }
        for (&page, node) in open.iter().zip(memory.pages().truth(&addresses)) {
            add(page, node);
            match node {
                Some(node) if memory.owns(ours(page)) => memory.learn(address(page), node),
                Some(node) => _ = known.insert(page, node),
                None => {}
            }
        }
    }
    footprint
}
