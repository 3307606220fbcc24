//! Finds the node of memory: our own by arithmetic, other memory by the kernel's answer.
//!
//! Muddukrishna et al. could not see the place of pages placed by others; here the kernel is asked, for many pages at a
//! time, and its answers count for a while ([`crate::memory::known`]).

use crate::memory::heaps::{Process, node_of_thread, process};
use crate::memory::stays::Away;
use crate::memory::{known, migrate, stays};
use std::ops::Range;
use vicus_memory::{Footprint, Memory, NodeBytes, Region, Rows};
use vicus_schedule::{Access, Whereabouts};
use vicus_topology::NodeId;

/// The requested node of an address in this process's memory, or its actual one if [`footprint`] has found it. `None`
/// if the address is not ours or was not placed, and before the first runtime has started. It takes no lock and makes
/// no system call.
pub fn node_of(address: *const u8) -> Option<NodeId> {
    process().and_then(|process| process.memory.node_of(address))
}

/// The node of the calling thread's seat, or else of the thread at this moment: a good first place to ask a placed
/// container. `None` before the first runtime has started.
pub fn here() -> Option<NodeId> {
    process().map(node_of_thread)
}

/// How many bytes of some memory lie on each node: for our own memory as it was asked for, until it is noticed that the
/// kernel has moved the process's pages; for other memory, and for memory with the standard distribution, by the
/// kernel's answer. Untouched memory is unknown if there are several nodes, and so is all before the first runtime has
/// started.
///
/// The kernel's answers are kept, for a million pages. Each counts for a second or for a thousand calls beginning with
/// its page, whichever ends first: so pages moved by the kernel are noticed, and so is other memory at the same
/// addresses. [`forget`] makes freed memory forgotten at once.
///
/// ```
/// use vicus_machine::{MachineRuntime, footprint};
///
/// let runtime = MachineRuntime::builder().threads(1).start();
/// let values = vec![1u64; 100_000];
/// let footprint = footprint(&values);
/// assert_eq!(footprint.nodes.iter().sum::<usize>() + footprint.unknown, 800_000);
/// ```
pub fn footprint<T>(of: &[T]) -> Footprint {
    let range = of.as_ptr_range();
    footprint_at(range.start.addr()..range.end.addr())
}

/// The place of this process's data, for dealing tasks. Memory of this library is in one place if it was given out as a
/// whole on one node: by `coarse`, `on` one node, or by a seat's heap. Before the first runtime has started, nothing is
/// known.
pub struct Everywhere;

impl Whereabouts for Everywhere {
    fn is_in_one_place(&self, stretch: &Range<usize>) -> bool {
        process().is_some_and(|process| process.memory.is_in_one_place(stretch.start))
    }

    fn tell(&mut self, stretch: Range<usize>, cycle: usize, tell: &mut dyn FnMut(NodeId, usize, u64)) {
        if migrate::awaits(&stretch) {
            return;
        }
        tell_where(stretch, cycle, Detail::Samples, &mut |NodeBytes { node, home, bytes, .. }| {
            if let Some(node) = node {
                tell(node, home, bytes as u64);
            }
        });
    }

    fn tell_all(&mut self, access: &Access, cycle: usize, tell: &mut dyn FnMut(NodeId, usize, u64)) {
        let &Access { start, bytes, rows, stride, .. } = access;
        let together = process().filter(|_| rows > 1).zip(start.checked_add(bytes)).is_some_and(|(process, end)| {
            let all = start..start.saturating_add(rows.saturating_mul(stride));
            stays::look(process, &all);
            let rows = Rows { first: start..end, count: rows, stride };
            let is_away = lies_elsewhere(&process.memory, &rows, stays::away())
                || migrate::was_moved(&all)
                || migrate::awaits(&all);
            !is_away
                && process.memory.tell_rows(&rows, cycle, &mut |NodeBytes { node, home, bytes, .. }| {
                    tell(node.expect("it is known of all of them"), home, bytes as u64);
                })
        });
        if !together {
            access.stretches().for_each(|stretch| self.tell(stretch, cycle, tell));
        }
    }

    fn node_of(&mut self, address: usize) -> Option<NodeId> {
        let byte = address..address.saturating_add(1);
        if migrate::awaits(&byte) {
            return None;
        }
        // A table has the kernel's answers about other memory's pages: no list is needed.
        if let Some(process) = process()
            && !process.memory.owns(std::ptr::without_provenance(address))
        {
            let page = address / process.memory.pages().page_bytes();
            let is_due = known::look(page);
            if let Some(node) = known::node(page, known::now()).filter(|_| !is_due) {
                return Some(node);
            }
        }
        let mut found = None;
        tell_where(byte, 1, Detail::Pages, &mut |part| found = part.node);
        found
    }
}

/// The first freed address in a range of this process's memory; see [`vicus_memory::Memory::freed_in`].
#[cfg(debug_assertions)]
pub(crate) fn freed_in(range: Range<usize>) -> Option<usize> {
    process()?.memory.freed_in(range)
}

/// Like [`footprint`], of a task's data. Of guessed lengths, all but the first bytes are unknown ([`Access::sure`]).
pub fn footprint_of(accesses: &[Access]) -> Footprint {
    let mut all = Footprint::default();
    for access in accesses {
        let sure = access.sure();
        all.unknown = all.unknown.saturating_add(access.total_bytes() - sure.total_bytes());
        for part in sure.stretches().map(footprint_at) {
            all.unknown = all.unknown.saturating_add(part.unknown);
            all.nodes.resize(all.nodes.len().max(part.nodes.len()), 0);
            all.nodes.iter_mut().zip(&part.nodes).for_each(|(sum, bytes)| *sum += bytes);
        }
    }
    all
}

/// Like [`footprint`], of a range of addresses.
pub(crate) fn footprint_at(range: Range<usize>) -> Footprint {
    let nodes = process().map_or(0, |process| process.memory.nodes());
    let mut footprint = Footprint { nodes: vec![0; nodes], unknown: 0 };
    tell_where(range, 1, Detail::Pages, &mut |NodeBytes { node, bytes, .. }| {
        *node.and_then(|node| footprint.nodes.get_mut(node.index())).unwrap_or(&mut footprint.unknown) += bytes;
    });
    footprint
}

/// How exactly it is told where others' memory lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Each page.
    Pages,
    /// By some pages ([`samples`]) if these are all on one node; otherwise each page. A thread that spawns tasks asks
    /// for the data of one after the other, again when answers have ended. To ask for all pages takes as long as a
    /// short task: meanwhile the other threads would have nothing to do, and take tasks that were dealt to others.
    Samples,
}

/// Tells the place of a range's bytes, like [`vicus_memory::Memory::tell`]; the kernel is asked about parts left to the
/// first touch. In others' memory, the number of a page is its home number.
fn tell_where(range: Range<usize>, cycle: usize, detail: Detail, tell: &mut dyn FnMut(NodeBytes)) {
    let Some(process) = process() else {
        return tell(NodeBytes { node: None, home: 0, bytes: range.len(), is_learned: false });
    };
    let memory = &process.memory;
    let is_one_node = memory.nodes() == 1;
    stays::look(process, &range);
    let away = if is_one_node { Away::NONE } else { stays::away() };
    if !is_one_node && migrate::was_moved(&range) {
        return tell_pages(process, range, Moved { all: true, away }, cycle, detail, tell);
    }
    // Told at once up to the first part that needs the kernel: dealing asks about many short ranges, and a list would
    // double their cost.
    let (mut from, mut unsettled) = (range.start, false);
    memory.tell(range.clone(), cycle, &mut |part| {
        unsettled |= part.node.is_none_or(|node| away.has(node)) || (part.is_learned && !is_one_node);
        if !unsettled {
            from += part.bytes;
            tell(part);
        }
    });
    if !unsettled {
        return;
    }
    let range = from..range.end;
    if !is_one_node {
        return tell_pages(process, range, Moved { all: false, away }, cycle, detail, tell);
    }
    // There is only one node, also for untouched memory.
    let node = Some(NodeId::new(0));
    if cycle == 1 {
        return tell(NodeBytes { node, home: 0, bytes: range.len(), is_learned: false });
    }
    for (home, part) in parts(range, memory.pages().page_bytes()) {
        tell(NodeBytes { node, home, bytes: part.len(), is_learned: false });
    }
}

/// Notes freed memory outside of this library: the next question about its addresses goes to the kernel.
pub fn forget<T>(of: &[T]) {
    let range = of.as_ptr_range();
    forget_at(range.start.addr()..range.end.addr());
}

/// Like [`forget`], of a range of addresses. It waits for no lock, so that allocators may call it.
pub fn forget_at(range: Range<usize>) {
    if let Some(process) = process().filter(|process| process.memory.nodes() > 1) {
        migrate::forget(&range);
        known::forget(pages(range, process.memory.pages().page_bytes()));
    }
}

/// How many pages the kernel is asked about at once.
const BATCH: usize = 512;

/// The numbers of the pages touched by a range.
fn pages(range: Range<usize>, page_bytes: usize) -> Range<usize> {
    if range.is_empty() { 0..0 } else { range.start / page_bytes..(range.end - 1) / page_bytes + 1 }
}

/// The pages touched by a range, by their numbers, with the touched part of each.
fn parts(range: Range<usize>, page_bytes: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    let Range { start, end } = range;
    let part = move |page: usize| (page, (page * page_bytes).max(start)..((page + 1) * page_bytes).min(end));
    pages(start..end, page_bytes).map(part)
}

/// Knowledge of a stretch without the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Asked to lie there.
    Settled,
    /// Ours, and a part of it was moved ([`migrate`]), or its node is marked ([`stays`]).
    Moved,
    /// Memory outside of this library.
    Others,
    /// Ours, left to the first touch, and the kernel has told its place.
    Learned,
    /// Ours, left to the first touch, without a valid answer: the kernel's answers about these addresses were about an
    /// earlier use of them.
    Unlearned,
}

/// Our own memory that lies elsewhere than it was asked to lie: all of a range, or the part on some nodes.
#[derive(Clone, Copy)]
struct Moved {
    all: bool,
    away: Away,
}

/// Whether some of the rows are to lie on marked nodes. Nothing is asked if no node is marked.
fn lies_elsewhere(memory: &Memory, rows: &Rows, away: Away) -> bool {
    let mut some = false;
    if !away.is_none() {
        memory.tell_rows(rows, 1, &mut |part| some |= part.node.is_some_and(|node| away.has(node)));
    }
    some
}

/// The stretches of a range by what is known of them.
fn stretches(memory: &Memory, range: Range<usize>, moved: Moved, cycle: usize) -> Vec<(Class, NodeBytes)> {
    let mut stretches: Vec<(Class, NodeBytes)> = Vec::new();
    let mut at = range.start;
    memory.tell(range, cycle, &mut |part| {
        let class = match part.node {
            Some(_) if part.is_learned => Class::Learned,
            Some(node) if moved.all || moved.away.has(node) => Class::Moved,
            Some(_) => Class::Settled,
            None if memory.owns(std::ptr::without_provenance(at)) => Class::Unlearned,
            None => Class::Others,
        };
        at += part.bytes;
        match stretches.last_mut() {
            Some((last, sum)) if *last == class && class != Class::Settled => sum.bytes += part.bytes,
            _ => stretches.push((class, part)),
        }
    });
    stretches
}

/// Goes through memory with a part that the kernel is asked about.
fn tell_pages(
    process: &Process,
    range: Range<usize>,
    moved: Moved,
    cycle: usize,
    detail: Detail,
    tell: &mut dyn FnMut(NodeBytes),
) {
    let stretches = stretches(&process.memory, range.clone(), moved, cycle);
    let (mut at, now) = (range.start, known::now());
    for (class, part) in stretches {
        let stretch = at..at + part.bytes;
        at = stretch.end;
        match class {
            Class::Settled => tell(part),
            _ => tell_stretch(process, stretch, class, now, cycle, detail, tell),
        }
    }
}

/// Goes page by page through memory known to the kernel. Pages of one node are told together if they have no homes.
fn tell_stretch(
    process: &Process,
    stretch: Range<usize>,
    class: Class,
    now: u64,
    cycle: usize,
    detail: Detail,
    tell: &mut dyn FnMut(NodeBytes),
) {
    let memory = &process.memory;
    let page_bytes = memory.pages().page_bytes();
    let all = pages(stretch.clone(), page_bytes);
    // Others' memory has its pages' numbers as homes, and our own has numbers that each page is to be asked for.
    let are_alike = class == Class::Others || (class == Class::Moved && cycle == 1);
    if detail == Detail::Samples && are_alike && all.len() > SAMPLES {
        let answers = |samples: &[usize; SAMPLES]| answers(process, samples, now);
        if let Some(node) = node_of_samples(&all, answers) {
            if cycle == 1 {
                return tell(NodeBytes { node, home: all.start, bytes: stretch.len(), is_learned: node.is_some() });
            }
            for (home, part) in parts(stretch, page_bytes) {
                tell(NodeBytes { node, home, bytes: part.len(), is_learned: node.is_some() });
            }
            return;
        }
    }
    let asks_all = class == Class::Unlearned || known::look(all.start);
    let mut run: Option<NodeBytes> = None;
    for first in all.clone().step_by(BATCH) {
        let batch = first..(first + BATCH).min(all.end);
        let mut nodes = [None; BATCH];
        let mut open = Vec::new();
        for (page, node) in batch.clone().zip(&mut nodes) {
            *node = if asks_all { None } else { known::node(page, now) };
            if node.is_none() {
                open.push(page);
            }
        }
        if !open.is_empty() {
            ask(process, &open, class != Class::Others, now, |page, node| nodes[page - first] = node);
        }
        for (page, node) in batch.zip(nodes) {
            let part = (page * page_bytes).max(stretch.start)..((page + 1) * page_bytes).min(stretch.end);
            let mut told = NodeBytes { node, home: page, bytes: part.len(), is_learned: node.is_some() };
            if cycle > 1 {
                if class != Class::Others {
                    memory.tell(part.start..part.start + 1, cycle, &mut |part| told.home = part.home);
                }
                tell(told);
                continue;
            }
            match &mut run {
                Some(run) if run.node == node => run.bytes += told.bytes,
                run => {
                    if let Some(before) = run.replace(told) {
                        tell(before);
                    }
                }
            }
        }
    }
    run.into_iter().for_each(tell);
}

/// How many pages are asked about for a long stretch, at first.
const SAMPLES: usize = 16;

/// Some pages of a range of more than [`SAMPLES`], one in each of as many equal parts, in their order. Each is at
/// another distance from its part's beginning: in memory that lies on nodes in turn, pages at equal distances may all
/// be on the same one. Equal ranges have the same pages, so that answers count for the next task with the same data.
fn samples(pages: &Range<usize>) -> [usize; SAMPLES] {
    let begin = |part: usize| pages.start + pages.len() * part / SAMPLES;
    std::array::from_fn(|part| {
        let mixed = ((part as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as usize;
        begin(part) + mixed % (begin(part + 1) - begin(part))
    })
}

/// The node of all pages of a range as far as some of them tell, which are asked about at once: `Some(None)` if none of
/// these was touched, `None` if they differ.
fn node_of_samples(
    pages: &Range<usize>,
    answers: impl FnOnce(&[usize; SAMPLES]) -> [Option<NodeId>; SAMPLES],
) -> Option<Option<NodeId>> {
    let nodes = answers(&samples(pages));
    nodes.iter().all(|node| *node == nodes[0]).then_some(nodes[0])
}

/// Where some pages lie: what is known, and the kernel's answers for the others.
fn answers(process: &Process, pages: &[usize; SAMPLES], now: u64) -> [Option<NodeId>; SAMPLES] {
    let asks_all = known::look(pages[0]);
    let mut nodes = pages.map(|page| if asks_all { None } else { known::node(page, now) });
    let open: Vec<usize> = pages.iter().zip(&nodes).filter(|(_, node)| node.is_none()).map(|(&page, _)| page).collect();
    if !open.is_empty() {
        ask(process, &open, false, now, |page, node| {
            nodes[pages.partition_point(|&other| other < page)] = node;
        });
    }
    nodes
}

/// Asks the kernel about pages, keeps its answers, and calls `f` with each.
#[cold]
fn ask(process: &Process, pages: &[usize], are_ours: bool, now: u64, mut f: impl FnMut(usize, Option<NodeId>)) {
    let memory = &process.memory;
    let page_bytes = memory.pages().page_bytes();
    let before = known::forgotten();
    let addresses: Vec<usize> = pages.iter().map(|page| page * page_bytes).collect();
    for ((&page, &address), node) in pages.iter().zip(&addresses).zip(memory.pages().truth(&addresses)) {
        known::keep(page, node, now, before);
        if let Some(node) = node
            && are_ours
            && memory.node_of(std::ptr::without_provenance(address)) != Some(node)
        {
            memory.learn(address, node);
        }
        f(page, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::Layout;
    use std::sync::Arc;
    use vicus_memory::distribution::Distribution;
    use vicus_memory::{FakePages, MemoryOptions};
    use vicus_topology::Topology;

    /// What happened: after a move of all memory, that of others counted as ours, and had the home 0 on nodes with
    /// several groups of cores.
    #[test]
    fn moves_are_of_our_own_memory_and_of_marked_nodes() {
        let machine = Topology::parse("node:2 core:1").unwrap();
        let options = MemoryOptions { range_bytes: 32 << 20, placed_bytes: 32 << 20, ..MemoryOptions::default() };
        let memory = Memory::new(Arc::new(FakePages::new(2)), &machine, options).unwrap();
        let placed = memory.place(Layout::array::<u8>(4 << 12).unwrap(), Some(&Distribution::Blocked)).unwrap();
        let vector = vec![1u8; 64 << 12];
        let of = |bytes: &[u8]| bytes.as_ptr().addr()..bytes.as_ptr().addr() + bytes.len();
        let classes = |range: Range<usize>, all: bool, away: &[usize]| {
            let moved = Moved { all, away: Away::of(away) };
            [1, 2].map(|cycle| {
                let found = stretches(&memory, range.clone(), moved, cycle);
                let mut found: Vec<_> = found.into_iter().map(|(class, part)| (class, part.bytes)).collect();
                found.dedup_by(|next, last| {
                    let is_same = next.0 == last.0;
                    last.1 += if is_same { next.1 } else { 0 };
                    is_same
                });
                found
            })
        };
        let half = 2 << 12;
        for (all, away) in [(true, vec![]), (true, vec![0, 1]), (false, vec![0, 1]), (false, vec![])] {
            let others = vec![(Class::Others, 64 << 12)];
            assert_eq!(classes(of(&vector), all, &away), [others.clone(), others], "{all}, {away:?}");
        }
        let range = of(placed.bytes());
        for (all, away, zero, one) in
            [(false, vec![1], Class::Settled, Class::Moved), (false, vec![0], Class::Moved, Class::Settled)]
        {
            let ours = vec![(zero, half), (one, half)];
            assert_eq!(classes(range.clone(), all, &away), [ours.clone(), ours], "{away:?}");
        }
        for (all, away, class) in [(true, vec![], Class::Moved), (false, vec![], Class::Settled)] {
            let ours = vec![(class, 2 * half)];
            assert_eq!(classes(range.clone(), all, &away), [ours.clone(), ours]);
        }
        // Two rows on the first node, or one on each.
        for (stride, marked, is_away) in [
            (1 << 12, vec![], false),
            (1 << 12, vec![0], true),
            (1 << 12, vec![1], false),
            (half, vec![0], true),
            (half, vec![1], true),
        ] {
            let rows = Rows { first: range.start..range.start + 100, count: 2, stride };
            assert_eq!(lies_elsewhere(&memory, &rows, Away::of(&marked)), is_away, "{stride}, {marked:?}");
        }
    }

    /// The samples' answer for pages of which each lies as a function says.
    fn by_samples(pages: Range<usize>, lies_on: impl Fn(usize) -> Option<usize>) -> Option<Option<usize>> {
        let found = node_of_samples(&pages, |samples| samples.map(|page| lies_on(page).map(NodeId::new)));
        found.map(|node| node.map(NodeId::index))
    }

    /// What happened: the kernel was asked about each of 512 pages of each task's data once a second, which took as
    /// long as a task of four milliseconds on an emulated machine.
    #[test]
    fn a_long_stretch_on_one_node_is_known_by_a_few_pages() {
        for len in [SAMPLES + 1, 100, 512, 1 << 18] {
            let pages = 0x7000..0x7000 + len;
            let asked = samples(&pages);
            assert!(asked.is_sorted_by(|one, next| one < next), "{asked:?}");
            assert!(pages.contains(&asked[0]) && pages.contains(&asked[SAMPLES - 1]), "{asked:?}");
            assert_eq!(by_samples(pages.clone(), |_| Some(3)), Some(Some(3)));
            assert_eq!(by_samples(pages, |_| None), Some(None), "it was not touched");
        }
    }

    #[test]
    fn stretches_on_several_nodes_are_told_page_by_page() {
        for len in [SAMPLES + 1, 64, 100, 512, 1 << 18] {
            for nodes in [2, 3, 4, 8, 16] {
                let pages = 0x7000..0x7000 + len;
                // In turn, and in one part for each node.
                assert_eq!(by_samples(pages.clone(), |page| Some(page % nodes)), None, "{len} pages, {nodes} nodes");
                let part = |page: usize| Some((page - 0x7000) * nodes / len);
                assert_eq!(by_samples(pages, part), None, "{len} pages, {nodes} nodes");
            }
        }
        assert_eq!(by_samples(0..512, |page| Some(0).filter(|_| page < 256)), None, "a half was touched");
    }
}
