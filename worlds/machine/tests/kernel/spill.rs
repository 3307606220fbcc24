//! A full node: pages go to the nearest other one and are counted, or the request is refused.

use crate::heaps::Block;
use crate::placed::{Placeable, kernel_says, placeable_with};
use crate::sysfs::Machine;
use std::alloc::Layout;
use std::time::Duration;
use vicus_memory::distribution::Distribution;
use vicus_memory::{Audit, Heap, Memory, MemoryOptions, Placed, Region, WhenFull};
use vicus_topology::NodeId;

/// Nodes with less memory than this are filled.
const SMALL: u64 = 80 << 20;

const MIB: usize = 1 << 20;

/// A page of the guests.
const PAGE: usize = 4096;

/// A small node beside larger ones.
struct Small {
    at: Placeable,
    node: NodeId,
    /// The kernel's numbers of it and of the nearest other node.
    number: i32,
    nearest: i32,
    bytes: usize,
}

/// `None` on most machines; one of the guests has such a node.
fn small(when_full: WhenFull) -> Option<Small> {
    // Blocks of a MiB are mapped one by one, so that they fill the node exactly.
    let at = placeable_with(MemoryOptions { when_full, mapped_waiting_bytes: 0, ..MemoryOptions::default() })?;
    let kernel = Machine::read()?;
    let is_there = |number: u32| at.numbers.contains(&(number as i32));
    let Some(node) = kernel.nodes.iter().find(|node| node.bytes < SMALL && is_there(node.number)) else {
        println!("not checked: no node has less than {SMALL} bytes");
        return None;
    };
    let others = kernel.nodes.iter().zip(&node.distances).filter(|(other, _)| *other != node && is_there(other.number));
    let (nearest, _) = others.min_by_key(|(_, distance)| **distance)?;
    let (number, nearest) = (node.number as i32, nearest.number as i32);
    let location = at.numbers.iter().position(|&at| at == number).expect("it is one of them");
    let node_id = at.memory.locations()[location];
    Some(Small { node: node_id, number, nearest, bytes: node.bytes as usize, at })
}

impl Small {
    fn on(&self) -> Distribution {
        Distribution::On(self.at.memory.location_near(self.node))
    }

    /// The kernel's number of an address's requested node.
    fn asked(&self, byte: &u8) -> i32 {
        let node = self.at.memory.node_of(byte).expect("the memory's own");
        self.at.numbers[self.at.memory.locations().iter().position(|&at| at == node).expect("of a location")]
    }

    /// How many of these touched pages lie on their requested node, and how many elsewhere, as the kernel reports it.
    /// Pages missing on the small node are on the nearest one, and the memory's own audit has the same numbers.
    fn check(&self, pieces: &[&[u8]]) -> Audit {
        let page = self.at.memory.pages().page_bytes();
        let all: usize = pieces.iter().map(|piece| piece.len() / page).sum();
        let mut seen = (Audit::default(), Audit::default());
        // On a nearly full node the kernel compacts pages, and a moving page has no node for a moment.
        for _ in 0..100 {
            seen = (self.found(pieces), self.audited());
            if seen.0 == seen.1 && seen.0.there + seen.0.elsewhere == all {
                return seen.0;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("of {all} pages, as the kernel says and as the memory finds: {seen:?}");
    }

    fn found(&self, pieces: &[&[u8]]) -> Audit {
        let page = self.at.memory.pages().page_bytes();
        let mut found = Audit::default();
        for piece in pieces {
            let nodes = kernel_says(piece, page).into_iter().enumerate();
            for (at, node) in nodes.filter(|&(_, node)| node >= 0) {
                assert!(node == self.number || node == self.nearest, "a page on node {node}");
                let asked = self.asked(&piece[at * page]);
                *(if asked == node { &mut found.there } else { &mut found.elsewhere }) += 1;
            }
        }
        found
    }

    fn audited(&self) -> Audit {
        self.at.memory.audit().into_iter().fold(Audit::default(), |sum, audit| Audit {
            there: sum.there + audit.there,
            elsewhere: sum.elsewhere + audit.elsewhere,
        })
    }
}

fn bytes(blocks: &[Block]) -> Vec<&[u8]> {
    blocks.iter().map(|block| &*block.bytes).collect()
}

#[test]
fn what_a_small_node_can_not_hold_goes_to_the_nearest_and_is_counted() {
    let Some(small) = small(WhenFull::Preferred) else { return };
    let memory: &Memory = &small.at.memory;
    let mut heap = Heap::new(&small.at.memory, small.node).unwrap();
    let mut blocks: Vec<Block> = Vec::new();
    for _ in 0..small.bytes / MIB + 16 {
        let block = Block::take(&mut heap, MIB).unwrap();
        block.bytes.fill(1);
        blocks.push(block);
    }
    let here = blocks.iter().filter(|block| small.asked(&block.bytes[0]) == small.number).count();
    assert!(here > 8, "the node holds some of it: {here} blocks");
    assert_eq!(memory.counts(small.node).spilled, (blocks.len() - here) as u64);
    let found = small.check(&bytes(&blocks));
    assert_eq!(found.elsewhere, 0, "each block is where its address says");
    blocks.into_iter().for_each(|block| block.free(&mut heap));
}

#[test]
fn pages_that_go_elsewhere_when_they_are_touched_are_found_by_the_audit() {
    let Some(small) = small(WhenFull::Preferred) else { return };
    // The node holds all of it as long as it is untouched.
    let mut heap = Heap::new(&small.at.memory, small.node).unwrap();
    let mut blocks: Vec<Block> = (0..small.bytes / MIB + 16).map(|_| Block::take(&mut heap, MIB).unwrap()).collect();
    blocks.iter_mut().for_each(|block| block.bytes.fill(1));
    let found = small.check(&bytes(&blocks));
    let asked = blocks.iter().filter(|block| small.asked(&block.bytes[0]) == small.number).count();
    assert!(found.elsewhere * PAGE >= (asked * MIB).saturating_sub(small.bytes), "{found:?}, {asked} MiB asked for");
    blocks.into_iter().for_each(|block| block.free(&mut heap));
    drop(heap);

    let layout = Layout::from_size_align(small.bytes + 16 * MIB, PAGE).unwrap();
    let mut placed = small.at.memory.place(layout, Some(&small.on())).unwrap();
    assert_eq!(placed.spilled(), 1, "one run, that its node has no room for");
    placed.bytes_mut().fill(1);
    let found = small.check(&[placed.bytes()]);
    assert!(found.there > 0 && found.elsewhere * PAGE >= 16 * MIB, "{found:?}");
    let truth = small.at.memory.truth(placed.bytes());
    assert_eq!(truth.nodes[small.node.index()], found.there * PAGE);
}

#[test]
fn a_strict_node_is_filled_and_then_refuses() {
    let Some(small) = small(WhenFull::Strict) else { return };
    let most = small.bytes / MIB;
    // Touched at once, and only at the end: the kernel kills a process at the touch of a page that a strict node can't
    // give.
    for touches_late in [false, true] {
        let mut heap = Heap::new(&small.at.memory, small.node).unwrap();
        let mut blocks = Vec::new();
        let refused = loop {
            assert!(blocks.len() <= most, "{most} MiB can't hold more");
            match Block::take(&mut heap, MIB) {
                Ok(block) => blocks.push(block),
                Err(error) => break error,
            }
            if !touches_late {
                blocks.last_mut().unwrap().bytes.fill(1);
            }
        };
        assert!(refused.to_string().contains("the memory is strict"), "{refused}");
        assert!(blocks.len() > 8, "the node holds some of it: {} blocks", blocks.len());
        blocks.iter_mut().for_each(|block| block.bytes.fill(2));
        assert_eq!(small.check(&bytes(&blocks)).elsewhere, 0, "touched late: {touches_late}");
        blocks.into_iter().for_each(|block| block.free(&mut heap));
    }
    let layout = Layout::from_size_align(8 * MIB, PAGE).unwrap();
    let mut all: Vec<Placed> = Vec::new();
    let refused = loop {
        assert!(all.len() * 8 <= most, "{most} MiB can't hold more");
        match small.at.memory.place(layout, Some(&small.on())) {
            Ok(placed) => all.push(placed),
            Err(error) => break error,
        }
    };
    assert!(refused.to_string().contains("the memory is strict"), "{refused}");
    all.iter_mut().for_each(|placed| placed.bytes_mut().fill(3));
    let pieces: Vec<&[u8]> = all.iter().map(Placed::bytes).collect();
    assert_eq!(small.check(&pieces).elsewhere, 0);
}
