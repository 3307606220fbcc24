//! Distributions lie over the nodes as they promise, as the kernel's `move_pages` reports it.

use crate::left_out;
use crate::nodes::nodes_of;
use crate::sysfs::{Machine, own_memory};
use std::alloc::Layout;
use std::sync::Arc;
use vicus_machine::SystemPages;
use vicus_memory::distribution::{Arrangement, Distribution};
use vicus_memory::{Memory, MemoryOptions, Placed, Region, WhenFull};
use vicus_topology::{LocationId, NodeId};

/// Not a multiple of any number of nodes.
const PAGES: usize = 307;

/// This machine's memory, open to placement.
pub(crate) struct Placeable {
    pub(crate) memory: Arc<Memory>,
    /// The kernel's numbers of its locations.
    pub(crate) numbers: Vec<i32>,
}

/// `None`, with a message, if the kernel does not place pages or does not tell their nodes.
pub(crate) fn placeable(when_full: WhenFull) -> Option<Placeable> {
    placeable_with(MemoryOptions { when_full, ..MemoryOptions::default() })
}

/// Like [`placeable`], with these options.
pub(crate) fn placeable_with(options: MemoryOptions) -> Option<Placeable> {
    let Some(kernel) = Machine::read() else {
        left_out("sysfs has no nodes, cores or caches");
        return None;
    };
    let (topology, may_use) = (vicus_machine::this_machine().topology, own_memory());
    let pages = Arc::new(SystemPages::new(&topology));
    let memory = Memory::new(pages, &topology, options).unwrap();
    let number = |node: &NodeId| topology.nodes[node.index()].os_index;
    let numbers: Vec<u32> = memory.locations().iter().map(number).collect();
    let usable = kernel.with_memory.iter().filter(|node| may_use.contains(node)).copied();
    assert_eq!(numbers, usable.collect::<Vec<u32>>(), "locations are the nodes whose memory may be used");
    let tried = memory.place(Layout::new::<u8>(), Some(&Distribution::On(LocationId::default()))).unwrap();
    if let Some(error) = tried.refusal() {
        left_out(&format!("memory can't be placed here: {error}"));
        return None;
    }
    if let Err(error) = nodes_of(&[tried.start().as_ptr()]) {
        left_out(&format!("the kernel does not tell where pages are: {error}"));
        return None;
    }
    Some(Placeable { memory, numbers: numbers.iter().map(|&number| number as i32).collect() })
}

/// The kernel's numbers of the nodes of written memory's pages.
pub(crate) fn kernel_says(bytes: &[u8], page: usize) -> Vec<i32> {
    let pages: Vec<*mut u8> = bytes.chunks(page).map(|page| page.as_ptr().cast_mut()).collect();
    nodes_of(&pages).unwrap()
}

/// Checks all pages against the expected nodes, and our answer against the kernel's.
fn check(
    memory: &Memory,
    placed: &Placed,
    bytes: &[u8],
    numbers: &[i32],
    expected: impl Fn(usize) -> usize,
    text: &str,
) {
    let page = memory.pages().page_bytes();
    assert_eq!(placed.refusal(), None, "{text}");
    let found = kernel_says(bytes, page);
    let expected: Vec<usize> = (0..found.len()).map(expected).collect();
    assert_eq!(found, expected.iter().map(|&location| numbers[location]).collect::<Vec<_>>(), "{text}");
    for (number, &location) in expected.iter().enumerate() {
        let node = memory.node_of(&bytes[number * page]);
        assert_eq!(node, Some(memory.locations()[location]), "{text}, page {number}");
    }
    let footprint = memory.footprint(bytes);
    assert_eq!(footprint, memory.truth(bytes), "{text}: the footprint is the truth");
    assert_eq!((footprint.unknown, footprint.nodes.iter().sum()), (0, bytes.len()), "{text}");
}

#[test]
fn distributed_memory_lies_on_the_nodes_that_its_distribution_names() {
    for when_full in [WhenFull::Preferred, WhenFull::Strict] {
        let Some(Placeable { memory, numbers }) = placeable(when_full) else { return };
        let (page, count) = (memory.pages().page_bytes(), numbers.len());
        let layout = Layout::from_size_align(PAGES * page, page).unwrap();
        let place = |text: &str| {
            let mut placed = memory.place(layout, Some(&text.parse().unwrap())).unwrap();
            assert!(placed.bytes().iter().all(|&byte| byte == 0), "fresh pages are zero");
            placed.bytes_mut().fill(1);
            placed
        };
        // Twice, so that addresses are used again for another distribution.
        for _ in 0..2 {
            let placed = place("fine");
            check(&memory, &placed, placed.bytes(), &numbers, |page| page % count, "fine");
            let placed = place("blocked");
            let block = |page: usize| (0..count).find(|at| page < PAGES * (at + 1) / count).unwrap();
            check(&memory, &placed, placed.bytes(), &numbers, block, "blocked");
            let (last, mut weights) = (count - 1, vec!["0"; count]);
            weights[last] = "7";
            let text = format!("weighted:{}", weights.join(","));
            let placed = place(&text);
            check(&memory, &placed, placed.bytes(), &numbers, |_| last, &text);
            for on in 0..count {
                let placed = place(&format!("on:{on}"));
                check(&memory, &placed, placed.bytes(), &numbers, |_| on, "on");
            }
            let mut placed = place("replicated");
            placed.spread();
            for (copy, &node) in memory.locations().iter().enumerate() {
                assert!(placed.copy(node).iter().all(|&byte| byte == 1));
                check(&memory, &placed, placed.copy(node), &numbers, |_| copy, "replicated");
            }
        }
        let coarse: Vec<Placed> = (0..2 * count).map(|_| place("coarse")).collect();
        for (number, placed) in coarse.iter().enumerate() {
            check(&memory, placed, placed.bytes(), &numbers, |_| number % count, "coarse");
        }
    }
}

#[test]
fn what_lies_by_a_list_lies_so_and_can_be_moved() {
    let Some(Placeable { memory, numbers }) = placeable(WhenFull::Preferred) else { return };
    let (page, count) = (memory.pages().page_bytes(), numbers.len());
    let mut locations: Vec<usize> = (0..40).map(|unit| unit * unit % 7 % count).collect();
    let layout = Layout::from_size_align(40 * 3 * page, page).unwrap();
    let arrangement = Arrangement::Each { locations: locations.iter().copied().map(LocationId::new).collect() };
    let mut placed = memory.place_as(layout, 3 * page, arrangement).unwrap();
    placed.bytes_mut().iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 7) as u8);
    check(&memory, &placed, placed.bytes(), &numbers, |page| locations[page / 3], "a list");
    for unit in [0, 17, 39] {
        locations[unit] = (locations[unit] + 1) % count;
        placed.relocate(unit, memory.locations()[locations[unit]]).unwrap();
    }
    check(&memory, &placed, placed.bytes(), &numbers, |page| locations[page / 3], "a list after some moves");
    assert!(placed.bytes().iter().enumerate().all(|(at, &byte)| byte == (at / 7) as u8), "what it holds stays");
}

#[test]
fn distributed_memory_that_a_node_can_not_hold_is_refused_if_the_memory_is_strict() {
    let Some(Placeable { memory, .. }) = placeable(WhenFull::Strict) else { return };
    let topology = vicus_machine::this_machine().topology;
    // More than all nodes have, in reserved addresses, which cost nothing.
    let most: u64 = topology.nodes.iter().map(|node| node.bytes).sum();
    let layout = Layout::from_size_align(2 * most as usize + (1 << 30), 8).unwrap();
    for text in ["fine", "blocked", "on:0", "replicated"] {
        let distribution: Distribution = text.parse().unwrap();
        let error = memory.place(layout, Some(&distribution)).unwrap_err().to_string();
        assert!(error.contains("the memory is strict"), "{text}: {error}");
    }
}
