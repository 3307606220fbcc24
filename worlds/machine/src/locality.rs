//! Where memory lies: our own by arithmetic, other memory by the kernel's answer.
//!
//! Muddukrishna et al. could not see where pages lay that others had placed; here the kernel is asked, for many pages at a time,
//! and its answers are kept until the caller says that the memory was freed.

use crate::heaps::{Process, node_of_thread, process};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, OnceLock};
use vicus_memory::{Footprint, NodeBytes, Region, Rows};
use vicus_schedule::{Access, Whereabouts};
use vicus_topology::NodeId;

/// The node that an address of this process's memory was asked to lie on, or lies on as [`footprint`] has found; `None` if the
/// address is not ours or was not placed, and before the first runtime has started. It takes no lock and makes no system call.
pub fn node_of(address: *const u8) -> Option<NodeId> {
    process().and_then(|process| process.memory.node_of(address))
}

/// The node of the seat that the calling thread works on, or else the one where it runs at this moment: a good place to ask a
/// placed container first. `None` before the first runtime has started.
pub fn here() -> Option<NodeId> {
    process().map(node_of_thread)
}

/// How many bytes of some memory lie on each node: for our own memory as it was asked for; for other memory, and for memory with
/// the standard distribution, by the kernel's answer when it was first asked. Untouched memory is unknown if there are several
/// nodes, and so is all before the first runtime has started.
///
/// The kernel's answers about others' memory are kept, for a million pages. [`forget`] them when that memory is freed.
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

/// Where the data of this process lie, for dealing tasks. Memory of this library is in one place if it was given out as a whole
/// on one node: by `coarse`, `on` one node, or by a seat's heap. Before the first runtime has started, nothing is known.
pub struct Everywhere;

impl Whereabouts for Everywhere {
    fn is_in_one_place(&self, stretch: &Range<usize>) -> bool {
        process().is_some_and(|process| process.memory.is_in_one_place(stretch.start))
    }

    fn tell(&mut self, stretch: Range<usize>, cycle: usize, tell: &mut dyn FnMut(NodeId, usize, u64)) {
        tell_where(stretch, cycle, &mut |NodeBytes { node, home, bytes }| {
            if let Some(node) = node {
                tell(node, home, bytes as u64);
            }
        });
    }

    fn tell_all(&mut self, access: &Access, cycle: usize, tell: &mut dyn FnMut(NodeId, usize, u64)) {
        let &Access { start, bytes, rows, stride, .. } = access;
        let together = process().filter(|_| rows > 1).zip(start.checked_add(bytes)).is_some_and(|(process, end)| {
            let rows = Rows { first: start..end, count: rows, stride };
            process.memory.tell_rows(&rows, cycle, &mut |NodeBytes { node, home, bytes }| {
                tell(node.expect("it is known of all of them"), home, bytes as u64);
            })
        });
        if !together {
            access.stretches().for_each(|stretch| self.tell(stretch, cycle, tell));
        }
    }
}

/// The first address of a range of this process's memory that is not in use; see [`vicus_memory::Memory::freed_in`].
#[cfg(debug_assertions)]
pub(crate) fn freed_in(range: Range<usize>) -> Option<usize> {
    process()?.memory.freed_in(range)
}

/// As [`footprint`], of the data that a task reads and writes.
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
    let nodes = process().map_or(0, |process| process.memory.nodes());
    let mut footprint = Footprint { nodes: vec![0; nodes], unknown: 0 };
    tell_where(range, 1, &mut |NodeBytes { node, bytes, .. }| {
        *node.and_then(|node| footprint.nodes.get_mut(node.index())).unwrap_or(&mut footprint.unknown) += bytes;
    });
    footprint
}

/// Tells where the bytes of a range lie, as [`vicus_memory::Memory::tell`] does; the kernel is asked about unknown parts. In
/// others' memory, the number of a page is its home number.
fn tell_where(range: Range<usize>, cycle: usize, tell: &mut dyn FnMut(NodeBytes)) {
    let Some(process) = process() else {
        return tell(NodeBytes { node: None, home: 0, bytes: range.len() });
    };
    let memory = &process.memory;
    // Told at once up to the first unknown part: dealing asks about many short ranges, which a list would double the cost of.
    let (mut from, mut unknown) = (range.start, false);
    memory.tell(range.clone(), cycle, &mut |part| {
        unknown |= part.node.is_none();
        if !unknown {
            from += part.bytes;
            tell(part);
        }
    });
    if !unknown {
        return;
    }
    let range = from..range.end;
    if memory.nodes() > 1 {
        return tell_pages(process, range, cycle, tell);
    }
    // There is only one node, also for untouched memory.
    let node = Some(NodeId::new(0));
    if cycle == 1 {
        return tell(NodeBytes { node, home: 0, bytes: range.len() });
    }
    for (home, part) in parts(range, memory.pages().page_bytes()) {
        tell(NodeBytes { node, home, bytes: part.len() });
    }
}

/// Notes that memory which is not ours was freed: the next question about its addresses goes to the kernel.
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

/// How many pages the kernel is asked about at once.
const BATCH: usize = 512;

/// The most pages whose nodes are kept: 4 GB of usual ones.
const MOST_PAGES: usize = 1 << 20;

/// The nodes of pages of others' memory, by page number.
fn known() -> &'static Mutex<HashMap<usize, NodeId>> {
    static KNOWN: OnceLock<Mutex<HashMap<usize, NodeId>>> = OnceLock::new();
    KNOWN.get_or_init(Mutex::default)
}

/// The numbers of the pages that a range touches.
fn pages(range: Range<usize>, page_bytes: usize) -> Range<usize> {
    if range.is_empty() { 0..0 } else { range.start / page_bytes..(range.end - 1) / page_bytes + 1 }
}

/// The pages that a range touches, by their numbers, with the touched part of each.
fn parts(range: Range<usize>, page_bytes: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    let Range { start, end } = range;
    let part = move |page: usize| (page, (page * page_bytes).max(start)..((page + 1) * page_bytes).min(end));
    pages(start..end, page_bytes).map(part)
}

/// Goes page by page through memory of which a part was not placed. The kernel's answers about our own memory stay with it until
/// it is freed.
fn tell_pages(process: &Process, range: Range<usize>, cycle: usize, tell: &mut dyn FnMut(NodeBytes)) {
    let memory = &process.memory;
    let page_bytes = memory.pages().page_bytes();
    let Range { start, end } = range;
    let mut known = known().lock().expect("nothing panics under this lock");
    let all: Vec<(usize, Range<usize>)> = parts(start..end, page_bytes).collect();
    for batch in all.chunks(BATCH) {
        let ours = |at: usize| std::ptr::without_provenance::<u8>(at);
        let told = |known: &HashMap<usize, NodeId>, page: usize, at: usize| match memory.owns(ours(at)) {
            true => memory.node_of(ours(at)),
            false => known.get(&page).copied(),
        };
        // In order, and only now: the callback expects the beginning of the range first.
        let mut nodes: Vec<Option<NodeId>> = batch.iter().map(|(page, part)| told(&known, *page, part.start)).collect();
        let open: Vec<usize> = (0..batch.len()).filter(|&at| nodes[at].is_none()).collect();
        let addresses: Vec<usize> = open.iter().map(|&at| batch[at].1.start).collect();
        // A full map is emptied; the kernel is asked again.
        if known.len() + open.len() > MOST_PAGES {
            known.clear();
        }
        for (&at, node) in open.iter().zip(memory.pages().truth(&addresses)) {
            let (page, part) = &batch[at];
            nodes[at] = node;
            match node {
                Some(node) if memory.owns(ours(part.start)) => memory.learn(part.start, node),
                Some(node) => _ = known.insert(*page, node),
                None => {}
            }
        }
        for ((page, part), node) in batch.iter().zip(nodes) {
            let mut home = *page;
            if cycle > 1 && memory.owns(ours(part.start)) {
                memory.tell(part.start..part.start + 1, cycle, &mut |part| home = part.home);
            }
            tell(NodeBytes { node, home, bytes: part.len() });
        }
    }
}
