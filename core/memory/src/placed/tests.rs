//! The calls of placing to the page source, and its answers then.

use super::*;
use crate::memory::MemoryOptions;
use crate::pages::{FakePages, SystemCall};
use vicus_topology::GroupId;

const PAGE: usize = 4096;

fn memory(nodes: usize, when_full: WhenFull) -> (Arc<Memory>, Arc<FakePages>) {
    let machine = Topology::parse(&format!("node:{nodes} core:1")).unwrap();
    let series = crate::Series { limit: 64 << 10, ..Default::default() };
    let options = MemoryOptions {
        superblock_bytes: 1 << 20,
        range_bytes: 2 << 20,
        placed_bytes: 16 << 20,
        series,
        when_full,
        ..MemoryOptions::default()
    };
    Memory::on_fake_pages(&machine, options)
}

fn bytes(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

fn committed(pages: &FakePages, nodes: usize) -> Vec<usize> {
    (0..nodes).map(|node| pages.committed(NodeId::new(node))).collect()
}

/// The page source, the address, the range and the footprint agree for each page with the paper's words.
#[test]
fn every_page_lies_where_its_distribution_says() {
    let (memory, _) = memory(3, WhenFull::Preferred);
    for pages in [1, 2, 3, 7, 64, 301].into_iter().take(if cfg!(miri) { 4 } else { 6 }) {
        let fine = |page: usize| page % 3;
        let blocked = move |page: usize| (0..3).find(|part| page < pages * (part + 1) / 3).unwrap();
        let weighted = move |page: usize| if page < pages * 3 / 4 { 0 } else { 2 };
        let expected: [(&str, &dyn Fn(usize) -> usize); 4] =
            [("fine", &fine), ("on:1", &|_| 1), ("blocked", &blocked), ("weighted:3,0,1", &weighted)];
        for (text, node_of) in expected {
            let placed = memory.place(bytes(pages * PAGE - 100), Some(&text.parse().unwrap())).unwrap();
            let mut sums = vec![0; 3];
            for (number, page) in placed.bytes().chunks(PAGE).enumerate() {
                let expected = node_of(number);
                let node = Some(NodeId::new(expected));
                for at in [0, page.len() - 1] {
                    assert_eq!(memory.node_of(&page[at]), node, "{text}, page {number} of {pages}");
                    assert_eq!(placed.node_of(&page[at]), node);
                    assert_eq!(placed.node_at(number * PAGE + at), node);
                }
                assert_eq!(memory.pages().truth(&[page.as_ptr().addr()]), [node], "{text}, page {number} of {pages}");
                sums[expected] += page.len();
            }
            assert_eq!(memory.footprint(placed.bytes()), Footprint { nodes: sums.clone(), unknown: 0 }, "{text}");
            assert_eq!(memory.truth(placed.bytes()), Footprint { nodes: sums, unknown: 0 }, "{text}");
            assert!(placed.refusal().is_none());
        }
    }
}

#[test]
fn coarse_goes_round_by_ranges_and_standard_is_left_alone() {
    let (memory, pages) = memory(2, WhenFull::Preferred);
    let placed: Vec<_> = (0..3).map(|_| memory.place(bytes(9000), Some(&Distribution::Coarse)).unwrap()).collect();
    let nodes: Vec<_> = placed.iter().map(|placed| memory.node_of(&placed.bytes()[8999])).collect();
    assert_eq!(nodes, [0, 1, 0].map(|node| Some(NodeId::new(node))));
    pages.take_calls();
    let standard = memory.place(bytes(9000), None).unwrap();
    assert!(memory.owns(standard.bytes().as_ptr()));
    assert_eq!(memory.node_of(standard.bytes().as_ptr()), None, "the first touch decides");
    assert_eq!(memory.footprint(standard.bytes()), Footprint { nodes: vec![0, 0], unknown: 9000 });
    assert!(!pages.take_calls().iter().any(|call| matches!(call, SystemCall::Place(..) | SystemCall::Interleave(..))));
}

#[test]
fn addresses_that_keep_a_policy_are_not_used_again() {
    let (memory, pages) = memory(2, WhenFull::Preferred);
    let start = |distribution| {
        let placed = memory.place(bytes(3 * PAGE), Some(&distribution)).unwrap();
        (placed.start(), placed)
    };
    let (first, placed) = start(Distribution::Fine);
    pages.refuse_placing(Some(PageError::Refused(22)));
    drop(placed);
    let (second, standard) = start(Distribution::Standard);
    assert_ne!(first, second, "what is standard would go round the nodes");
    drop(standard);
    let (third, refused) = start(Distribution::Fine);
    assert_eq!((second, refused.refusal()), (third, Some(PageError::Refused(22))), "nothing was placed there");
    drop(refused);
    assert_eq!(start(Distribution::Standard).0, second);
}

#[test]
fn what_is_learnt_of_standard_memory_is_said_until_it_is_freed() {
    let (memory, _) = memory(2, WhenFull::Preferred);
    let place = |chosen| memory.place(bytes(5 * PAGE), Some(&chosen)).unwrap();
    let (standard, one) = (place(Distribution::Standard), NodeId::new(1));
    let learn = |placed: &Placed| [0, 3].map(|page| memory.learn(placed.start().addr().get() + page * PAGE + 7, one));
    learn(&standard);
    let at = |placed: &Placed, offset: usize| memory.node_of(placed.bytes()[offset..].as_ptr());
    assert_eq!([0, 1, 3, 4].map(|page| at(&standard, page * PAGE)), [Some(one), None, Some(one), None]);
    let known = Footprint { nodes: vec![0, 2 * PAGE - 9], unknown: 3 * PAGE };
    assert_eq!(memory.footprint(&standard.bytes()[9..]), known);
    assert_eq!(
        memory.audit().iter().map(|audit| audit.there + audit.elsewhere).sum::<usize>(),
        0,
        "no node was asked for"
    );
    let start = standard.start();
    drop(standard);
    // The same addresses, and the same table.
    let again = place(Distribution::Standard);
    assert_eq!(again.start(), start);
    assert_eq!(memory.footprint(again.bytes()).unknown, 5 * PAGE);
    let placed = place(Distribution::On(LocationId::new(0)));
    learn(&placed);
    assert_eq!(at(&placed, 0), Some(NodeId::new(0)), "what was asked for stands");
    memory.learn(64, one);
}

#[test]
fn fine_is_one_call_and_begins_with_the_first_location() {
    for nodes in [2, 3, 5] {
        let (memory, pages) = memory(nodes, WhenFull::Preferred);
        for align in [8, 1 << 14, 1 << 21] {
            let layout = Layout::from_size_align(10 * PAGE, align).unwrap();
            let placed = memory.place(layout, Some(&Distribution::Fine)).unwrap();
            assert_eq!(placed.start().addr().get() % align, 0);
            assert_eq!(placed.node_at(0), Some(NodeId::new(0)));
            let turns = |call: &SystemCall| match call {
                SystemCall::Interleave(_, bytes, over) => (*bytes, over.len()) == (10 * PAGE, nodes),
                _ => false,
            };
            assert_eq!(pages.take_calls().iter().filter(|call| turns(call)).count(), 1);
        }
    }
}

#[test]
fn all_is_given_back_and_found_no_more() {
    let (memory, pages) = memory(3, WhenFull::Preferred);
    let before = committed(&pages, 3);
    let mut starts = Vec::new();
    for text in ["standard", "fine", "on:2", "blocked", "replicated", "weighted:1,2,3"] {
        let mut placed = memory.place(bytes(100_000), Some(&text.parse().unwrap())).unwrap();
        placed.bytes_mut().fill(7);
        placed.spread();
        let address = placed.bytes().as_ptr();
        assert_eq!(memory.node_of(address).is_some(), text != "standard");
        drop(placed);
        assert_eq!(memory.node_of(address), None, "{text}");
        assert_eq!(committed(&pages, 3), before, "{text}");
        starts.push(address.addr());
    }
    starts.dedup_by_key(|start| *start & !(HUGE_PAGE - 1));
    assert_eq!(starts.len(), 1, "the next range takes the same addresses");
    drop(memory);
    assert_eq!(pages.reserved(), 0);
}

#[test]
fn an_address_outside_has_no_node_and_gaps_are_unknown() {
    let (memory, _) = memory(2, WhenFull::Preferred);
    let local = [0u8; 100];
    assert_eq!(memory.node_of(local.as_ptr()), None);
    assert_eq!(memory.footprint(&local), Footprint { nodes: vec![0, 0], unknown: 100 });
    let placed = memory.place(bytes(PAGE + 1), Some(&Distribution::On(LocationId::new(1)))).unwrap();
    let behind = placed.start().as_ptr().wrapping_add(2 * PAGE);
    assert_eq!(memory.node_of(behind.wrapping_sub(1)), Some(NodeId::new(1)), "whole pages are placed");
    assert_eq!(memory.node_of(behind), None);
    let mut heap = crate::Heap::new(&memory, NodeId::new(1)).unwrap();
    let block = heap.alloc(bytes(9000)).unwrap();
    #[expect(unsafe_code, reason = "looks at a block of a heap")]
    // SAFETY: it is in use and has this number of bytes, initialised by the fake; then it is freed once.
    unsafe {
        let slice = std::slice::from_raw_parts(block.as_ptr(), 9000);
        assert_eq!(memory.footprint(slice), Footprint { nodes: vec![0, 9000], unknown: 0 });
        heap.free(block, bytes(9000));
    }
}

#[test]
fn where_nothing_can_be_placed_the_first_touch_decides() {
    for when_full in [WhenFull::Preferred, WhenFull::Strict] {
        let (memory, pages) = memory(2, when_full);
        assert_eq!(memory.placing_refused(), None);
        for refusal in [PageError::Refused(1), PageError::Refused(38)] {
            pages.refuse_placing(Some(refusal));
            for text in ["fine", "blocked", "on:1"] {
                let mut placed = memory.place(bytes(50_000), Some(&text.parse().unwrap())).unwrap();
                placed.bytes_mut()[49_999] = 1;
                assert_eq!(placed.refusal(), Some(refusal));
                assert_eq!(memory.node_of(placed.bytes().as_ptr()), None, "the node is unknown");
                assert_eq!(placed.node_at(0), None);
            }
            assert_eq!(memory.placing_refused(), Some(PageError::Refused(1)), "the first refusal is told");
        }
        pages.refuse_placing(None);
        let placed = memory.place(bytes(50_000), Some(&Distribution::Fine)).unwrap();
        assert!(placed.refusal().is_none());
    }
}

/// On a machine with a node without memory for a process, the process was once told that placing is refused; and as the
/// first refusal stays, it was not told a later, real one.
#[test]
fn that_a_node_gives_no_memory_is_no_refusal() {
    let machine = Topology::parse("node:3 core:1").unwrap();
    let pages = Arc::new(FakePages::new(3));
    pages.forbid(NodeId::new(1));
    let options = MemoryOptions { range_bytes: 32 << 20, placed_bytes: 16 << 20, ..MemoryOptions::default() };
    let memory = Memory::new(Arc::clone(&pages) as Arc<dyn Pages>, &machine, options).unwrap();
    assert_eq!((memory.placing_refused(), memory.unplaced()), (None, &[][..]));
    assert_eq!(memory.locations(), [0, 2].map(NodeId::new));
    // Its heaps have the nearest memory there is.
    let mut heap = crate::Heap::new(&memory, NodeId::new(1)).unwrap();
    let block = heap.alloc(bytes(9000)).unwrap();
    assert_eq!(memory.node_of(block.as_ptr()), Some(NodeId::new(0)));
    #[expect(unsafe_code, reason = "frees a block")]
    // SAFETY: just allocated, and freed once.
    unsafe {
        heap.free(block, bytes(9000));
    }
    pages.refuse_placing(Some(PageError::Refused(1)));
    drop(memory.place(bytes(50_000), Some(&Distribution::Fine)).unwrap());
    assert_eq!(memory.placing_refused(), Some(PageError::Refused(1)));
}

#[test]
fn a_full_node_refuses_if_strict_and_else_the_nearest_gives() {
    let (strict, pages) = memory(2, WhenFull::Strict);
    let before = committed(&pages, 2);
    pages.set_free(NodeId::new(1), 5 * PAGE);
    for text in ["fine", "blocked", "on:1"] {
        let error = strict.place(bytes(12 * PAGE), Some(&text.parse().unwrap())).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("node1 has no") && error.contains("strict"), "{text}: {error}");
        assert_eq!(committed(&pages, 2), before, "{text}: nothing is left behind");
    }
    // Each segment fits, but not all of them.
    let each = Arrangement::Each { locations: vec![LocationId::new(1); 6] };
    assert!(strict.place_as(bytes(6 * PAGE), PAGE, each).is_err());
    assert!(strict.place(bytes(10 * PAGE), Some(&Distribution::Fine)).is_ok());

    let (preferred, pages) = memory(2, WhenFull::Preferred);
    pages.set_free(NodeId::new(1), 0);
    let placed = preferred.place(bytes(10 * PAGE), Some(&Distribution::Blocked)).unwrap();
    assert_eq!(placed.spilled(), 1);
    assert_eq!(preferred.truth(placed.bytes()).nodes, [10 * PAGE, 0]);
    assert_eq!(preferred.footprint(placed.bytes()).nodes, [5 * PAGE, 5 * PAGE], "what was asked for");
    let (here, away) = (Audit { there: 5, elsewhere: 0 }, Audit { there: 0, elsewhere: 5 });
    assert_eq!(preferred.audit(), [here, away]);
    pages.set_free(NodeId::new(0), 0);
    let before = committed(&pages, 2);
    let error = preferred.place(bytes(PAGE), Some(&Distribution::Blocked)).unwrap_err();
    assert!(error.to_string().contains("neither has any other node"), "{error}");
    assert_eq!(committed(&pages, 2), before);
}

#[test]
fn what_can_not_be_is_refused_at_the_call() {
    let (memory, pages) = memory(2, WhenFull::Preferred);
    let _some = memory.place(bytes(1), None).unwrap();
    let before = committed(&pages, 2);
    let refused =
        |layout: Layout, text: &str| memory.place(layout, Some(&text.parse().unwrap())).unwrap_err().to_string();
    assert_eq!(refused(bytes(1), "on:2"), "on:2: there are 2 locations, counted from 0");
    assert_eq!(refused(bytes(1), "weighted:1"), "weighted: there are 1 weights for 2 locations");
    for size in [17 << 20, usize::MAX / 4, isize::MAX as usize - 7] {
        assert!(refused(bytes(size), "fine").contains("raise `MemoryOptions::placed_bytes`"), "{size}");
        assert!(refused(bytes(size), "replicated").contains("raise `MemoryOptions::placed_bytes`"), "{size}");
    }
    let aligned = Layout::from_size_align(1, 1 << 62).unwrap();
    assert!(refused(aligned, "fine").contains("aligned to 4611686018427387904"));
    let many = Arrangement::Each { locations: vec![LocationId::default(); MOST_RUNS + 1] };
    let error = memory.place_as(bytes((MOST_RUNS + 1) * PAGE), PAGE, many).unwrap_err();
    assert_eq!(error, PlaceError::TooManyRuns(16385));
    assert_eq!(committed(&pages, 2), before, "nothing is left behind");
    let empty = memory.place(bytes(0), Some(&Distribution::Fine)).unwrap();
    assert!(empty.is_empty() && empty.bytes().is_empty());
}

#[test]
fn each_node_reads_a_copy_of_its_own() {
    let (memory, _) = memory(3, WhenFull::Preferred);
    let mut placed = memory.place(bytes(5000), Some(&Distribution::Replicated)).unwrap();
    assert_eq!((placed.copies(), placed.node_at(1)), (3, None));
    placed.bytes_mut().copy_from_slice(&[[1; 2500], [2; 2500]].concat());
    placed.spread();
    for node in (0..3).map(NodeId::new) {
        let near = placed.copy(node);
        assert_eq!((near[2499], near[2500], near.len()), (1, 2, 5000));
        assert_eq!(memory.footprint(near).nodes[node.index()], 5000);
        assert_eq!(memory.truth(near).nodes[node.index()], 5000);
    }
}

#[test]
fn a_unit_that_is_relocated_keeps_what_it_holds() {
    let (memory, pages) = memory(2, WhenFull::Strict);
    let each = Arrangement::Each { locations: [0, 0, 1, 0].map(LocationId::new).into() };
    let mut placed = memory.place_as(bytes(7 * PAGE), 2 * PAGE, each).unwrap();
    placed.bytes_mut().iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 5) as u8);
    placed.relocate(1, NodeId::new(1)).unwrap();
    assert_eq!(
        [0, 1, 2, 3].map(|unit| placed.node_at(2 * PAGE * unit)),
        [0, 1, 1, 0].map(|node| Some(NodeId::new(node)))
    );
    assert_eq!(memory.footprint(placed.bytes()).nodes, [3 * PAGE, 4 * PAGE]);
    assert_eq!(memory.truth(placed.bytes()).nodes, [3 * PAGE, 4 * PAGE]);
    assert!(placed.bytes().iter().enumerate().all(|(at, &byte)| byte == (at / 5) as u8));
    pages.set_free(NodeId::new(1), 0);
    assert!(placed.relocate(0, NodeId::new(1)).unwrap_err().to_string().contains("strict"));
    assert_eq!(placed.node_at(0), Some(NodeId::new(0)), "it stays where it is");
}

#[test]
fn relocations_are_counted_and_known_while_they_are_under_way() {
    let (memory, pages) = memory(2, WhenFull::Strict);
    let each = Arrangement::Each { locations: [0, 0].map(LocationId::new).into() };
    let placed = memory.place_as(bytes(4 * PAGE), 2 * PAGE, each).unwrap();
    assert_eq!(memory.relocations(), Some(0));
    placed.relocate(1, NodeId::new(1)).unwrap();
    assert_eq!(memory.relocations(), Some(1));
    pages.set_free(NodeId::new(1), 0);
    placed.relocate(0, NodeId::new(1)).unwrap_err();
    assert_eq!(memory.relocations(), Some(2));
    let under_way = memory.placing.begin_relocation();
    assert_eq!(memory.relocations(), None);
    let another = memory.placing.begin_relocation();
    drop(under_way);
    assert_eq!(memory.relocations(), None);
    drop(another);
    assert_eq!(memory.relocations(), Some(4));
}

#[test]
fn nodes_without_memory_are_no_locations() {
    let mut machine = Topology::parse("node:3 core:1").unwrap();
    machine.nodes[1].bytes = 0;
    let options = MemoryOptions { range_bytes: 8 << 20, placed_bytes: 4 << 20, ..MemoryOptions::default() };
    let (memory, _) = Memory::on_fake_pages(&machine, options);
    assert_eq!(memory.locations(), [0, 2].map(NodeId::new));
    let placed = memory.place(bytes(3 * PAGE), Some(&Distribution::Fine)).unwrap();
    let nodes = placed.bytes().chunks(PAGE).map(|page| memory.node_of(page.as_ptr()).unwrap().index());
    assert_eq!(nodes.collect::<Vec<_>>(), [0, 2, 0]);
    machine.nodes.iter_mut().for_each(|node| node.os_index = 9 - node.os_index);
    let options = memory.options().clone();
    let (turned, _) = Memory::on_fake_pages(&machine, options);
    assert_eq!(turned.locations(), [2, 0].map(NodeId::new), "in the order of the system's numbers");
    let copies = memory.place(bytes(1), Some(&Distribution::Replicated)).unwrap();
    assert_eq!(copies.copies(), 2);
    assert_eq!(memory.node_of(copies.copy(NodeId::new(2)).as_ptr()), Some(NodeId::new(2)));
}

/// Pools once counted locations and queues made from a machine counted nodes, so one number meant two nodes.
#[test]
fn a_place_means_the_nearest_memory_in_every_container() {
    // Two groups to a node; node 1 has no memory and is nearer to node 2.
    let mut machine = Topology::parse("node:3 l3:2 core:1").unwrap();
    machine.nodes[1].bytes = 0;
    machine.distances = vec![vec![10, 20, 20], vec![20, 10, 15], vec![20, 15, 10]];
    let options = MemoryOptions {
        range_bytes: 8 << 20,
        superblock_bytes: 1 << 20,
        placed_bytes: 32 << 20,
        ..MemoryOptions::default()
    };
    let (memory, _) = Memory::on_fake_pages(&machine, options);
    let options =
        crate::ArrayOptions { pattern: crate::Pattern::Stripes, segment_pages: 1, ..crate::ArrayOptions::default() };
    let array: crate::DistArray<u64> = crate::DistArray::zeroed(&memory, 2048, options).unwrap();
    let mut copies = memory.place(bytes(1), Some(&Distribution::Replicated)).unwrap();
    copies.spread();
    let nodes = [0, 1, 2].map(|node| (Place::Node(NodeId::new(node)), [0, 2, 2][node]));
    let groups = [0, 1, 2, 3, 4, 5].map(|group| (Place::Group(GroupId::new(group)), [0, 0, 2, 2, 2, 2][group]));
    for (place, node) in nodes.into_iter().chain(groups) {
        let node = NodeId::new(node);
        assert_eq!(memory.node_near(place), node, "{place}");
        assert_eq!(memory.node_of(copies.copy(place).as_ptr()), Some(node), "{place}");
        // A pool of its own, because freed items are found before a new block is taken.
        let pool: crate::DistPool<u64> = crate::DistPool::new(&memory, crate::PoolOptions::default()).unwrap();
        let mut handle = pool.handle(place);
        assert_eq!((handle.node(), pool.node_of(&handle.alloc(1).unwrap())), (node, node), "{place}");
        assert!(array.runs(place).all(|run| memory.node_of(run.as_slice().unwrap().as_ptr().cast()) == Some(node)));
        assert_eq!(array.runs(place).map(|run| run.iter().count()).sum::<usize>(), 1024, "{place}");
        array.relocate(0, place).unwrap();
        assert_eq!(array.segment_node(0), node, "{place}");
        array.relocate(0, NodeId::new(0)).unwrap();
        let options = crate::ArrayOptions {
            pattern: crate::Pattern::AllOn(place),
            segment_pages: 1,
            ..crate::ArrayOptions::default()
        };
        let there: crate::DistArray<u64> = crate::DistArray::zeroed(&memory, 2048, options).unwrap();
        assert_eq!(there.ranges().collect::<Vec<_>>(), [(0..2048, node)], "{place}");
    }
}
