//! Placed containers lie where they say, as the kernel's `move_pages` reports it.

use crate::affinity::Alone;
use crate::nodes::nodes_of;
use crate::placed::{Placeable, placeable};
use std::alloc::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vicus_memory::{
    AllocError, ArrayOptions, DistArray, DistOptions, DistPool, DistQueue, Frees, LfQueue, Locations, NodeSegments,
    Pattern, PoolItem, PoolOptions, QueueOptions, SegmentSource, WhenFull,
};
use vicus_topology::{NodeId, Place};

/// Not a multiple of any number of nodes, nor of a page: 90 segments of two pages and a bit.
const ELEMENTS: usize = 92_477;

/// An equal number of neighbours on each location, up to one.
fn in_fields(segment: usize, segments: usize, locations: usize) -> usize {
    (0..locations).find(|at| segment * locations < segments * (at + 1)).expect("the last one ends with the segments")
}

#[test]
fn an_arrays_segments_lie_where_its_pattern_says() {
    let Some(Placeable { memory, numbers }) = placeable(WhenFull::Preferred) else { return };
    let (page, count) = (memory.pages().page_bytes(), numbers.len());
    let all_on = memory.locations().iter().map(|&node| Pattern::AllOn(node.into()));
    for pattern in
        [Pattern::StaticHash, Pattern::Stripes, Pattern::Fields, Pattern::Random(7)].into_iter().chain(all_on)
    {
        let options = ArrayOptions { pattern, segment_pages: 2, ..ArrayOptions::default() };
        let array = DistArray::from_fn(&memory, ELEMENTS, options, |index| index as u64).unwrap();
        let location = |node: NodeId| memory.locations().iter().position(|&at| at == node).expect("a node with memory");
        let check = |array: &DistArray<u64>| -> Vec<usize> {
            let first = |segment: usize| array.segment(segment).start;
            let locations: Vec<usize> =
                (0..array.segments()).map(|segment| location(array.segment_node(segment))).collect();
            for (segment, &location) in locations.iter().enumerate() {
                let begin = std::ptr::from_ref(&array[first(segment)]).cast::<u8>().cast_mut();
                let pages = array.segment(segment).len() * 8;
                let pages: Vec<*mut u8> = (0..pages.div_ceil(page)).map(|at| begin.wrapping_add(at * page)).collect();
                let expected = vec![numbers[location]; pages.len()];
                assert_eq!(nodes_of(&pages).unwrap(), expected, "{pattern:?}, segment {segment}");
                let node = Some(memory.locations()[location]);
                assert_eq!(array.node_of(first(segment)), node, "{pattern:?}, segment {segment}");
            }
            locations
        };
        let locations = check(&array);
        let segments = locations.len();
        let expected = |segment| match pattern {
            Pattern::StaticHash | Pattern::Stripes => Some(segment % count),
            Pattern::Fields => Some(in_fields(segment, segments, count)),
            Pattern::AllOn(place) => Some(memory.location_near(place).index()),
            Pattern::Random(_) => None,
        };
        for (segment, &location) in locations.iter().enumerate() {
            assert_eq!(location, expected(segment).unwrap_or(location), "{pattern:?}, segment {segment}");
        }
        if let Pattern::Random(_) = pattern {
            // With eight locations, one of them has none of 90 segments with a chance below 1 : 100,000.
            assert!((0..count).all(|location| locations.contains(&location)), "by chance: {locations:?}");
        }
        if pattern != Pattern::StaticHash {
            array.relocate(3, memory.locations()[(locations[3] + 1) % count]).unwrap();
            let moved = check(&array);
            assert_eq!(moved[3], (locations[3] + 1) % count);
        }
        assert!(array.iter().copied().eq(0..ELEMENTS as u64), "{pattern:?}: what it holds stays");
    }
}

/// The kernel's number of an item's node.
fn node_of<T>(item: &PoolItem<'_, T>) -> i32 {
    nodes_of(&[std::ptr::from_ref::<T>(item).cast::<u8>().cast_mut()]).unwrap()[0]
}

#[test]
fn a_pools_items_lie_on_the_node_that_takes_them() {
    let Some(Placeable { memory, numbers }) = placeable(WhenFull::Preferred) else { return };
    let number = |pool: &DistPool<[u8; 44]>, item: &PoolItem<'_, [u8; 44]>| {
        let at = memory.locations().iter().position(|&node| node == pool.node_of(item));
        numbers[at.expect("items lie at locations")]
    };
    for frees in [Frees::Here, Frees::Home] {
        let options = PoolOptions { block_bytes: 64 << 10, magazine: 16, frees, ..PoolOptions::default() };
        let pool: DistPool<[u8; 44]> = DistPool::new(&memory, options).unwrap();
        let mut handles: Vec<_> = memory.locations().iter().map(|&node| pool.handle(node)).collect();
        // More than a block for each location, and none is freed: freed items are taken before a new block.
        let mut taken: Vec<Vec<_>> = Vec::new();
        for handle in &mut handles {
            taken.push((0..4_000).map(|_| handle.alloc([1; 44]).unwrap()).collect());
        }
        for (items, &expected) in taken.iter().zip(&numbers) {
            for item in items {
                assert_eq!((node_of(item), number(&pool, item)), (expected, expected), "{frees:?}");
            }
        }
        for (items, handle) in taken.into_iter().zip(&mut handles) {
            items.into_iter().for_each(|item| handle.free(item));
        }
        // Items freed by another node stay in their memory, and go to the option's node.
        let last = handles.len() - 1;
        let items: Vec<_> = (0..64).map(|_| handles[0].alloc([2; 44]).unwrap()).collect();
        items.into_iter().for_each(|item| handles[last].free(item));
        let item = handles[last].alloc([3; 44]).unwrap();
        let expected = if frees == Frees::Here { numbers[0] } else { numbers[last] };
        assert_eq!((node_of(&item), number(&pool, &item)), (expected, expected), "{frees:?}: freed by another node");
    }
}

/// A node's segments, and their addresses.
struct Noted {
    segments: NodeSegments,
    taken: Mutex<Vec<(usize, usize)>>,
}

#[expect(unsafe_code, reason = "gives memory of another source")]
// SAFETY: the other source keeps the promise.
unsafe impl SegmentSource for Noted {
    fn take(&self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        let segment = self.segments.take(layout)?;
        self.taken.lock().unwrap().push((segment.addr().get(), layout.size()));
        Ok(segment)
    }

    unsafe fn give(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { self.segments.give(memory, layout) };
    }
}

impl Noted {
    fn new(at: &Placeable, location: usize) -> Arc<Noted> {
        let segments = NodeSegments::new(&at.memory, at.memory.locations()[location]).unwrap();
        Arc::new(Noted { segments, taken: Mutex::default() })
    }

    /// Checks all pages against the number of the node. Gives how many were present.
    fn check(&self, at: &Placeable, expected: i32) -> usize {
        let page = at.memory.pages().page_bytes();
        let taken = self.taken.lock().unwrap();
        let pages = |&(start, bytes): &(usize, usize)| (start..start + bytes).step_by(page);
        let pages: Vec<*mut u8> = taken.iter().flat_map(pages).map(std::ptr::without_provenance_mut).collect();
        let mut touched = nodes_of(&pages).unwrap();
        // The others have no page yet, or were only read and are the kernel's page of zeros.
        touched.retain(|node| ![-libc::ENOENT, -libc::EFAULT].contains(node));
        let elsewhere: Vec<i32> = touched.iter().copied().filter(|&node| node != expected).collect();
        assert!(elsewhere.is_empty(), "pages of segments of node {expected} that are elsewhere: {elsewhere:?}");
        touched.len()
    }
}

/// An element of two pages.
type Element = [u64; 1024];

#[test]
fn a_queues_segments_lie_at_the_location_that_pushes() {
    let Some(at) = placeable(WhenFull::Preferred) else { return };
    let count = at.numbers.len();
    let sources: Vec<_> = (0..count).map(|location| Noted::new(&at, location)).collect();
    let topology = vicus_machine::this_machine().topology;
    let source = |place: Place| {
        let location = at.memory.location_near(place);
        Arc::clone(&sources[location.index()]) as _
    };
    let queue: DistQueue<Element> =
        DistQueue::with_source(&Locations::nodes(&topology), &DistOptions::default(), source).unwrap();
    let nodes = at.memory.locations();
    for (location, source) in sources.iter().enumerate() {
        (0..100).for_each(|n| queue.push(nodes[location], [n; 1024]).unwrap());
        let pages = source.check(&at, at.numbers[location]);
        assert!(pages >= 100, "100 elements of 8 KiB at location {location} are on {pages} pages");
        // Any consumer takes them, at any location.
        (0..100).for_each(|n| assert_eq!(queue.try_pop(nodes[(location + 1) % count]).unwrap()[0], n));
    }
}

#[test]
fn an_ordered_queues_segments_lie_on_the_node_of_their_source() {
    let Some(at) = placeable(WhenFull::Preferred) else { return };
    for (location, &number) in at.numbers.iter().enumerate() {
        let source = Noted::new(&at, location);
        let queue = LfQueue::with_source(Arc::clone(&source) as _, &QueueOptions::default()).unwrap();
        (0..100).for_each(|n| queue.push([n; 1024]));
        assert!(source.check(&at, number) >= 100);
        (0..100).for_each(|n| assert_eq!(queue.pop(), Some([n; 1024])));
    }
}

#[test]
fn work_on_an_array_is_done_near_its_segments() {
    let alone = Alone::start("las");
    let runtime = &alone.runtime;
    let Some(memory) = runtime.memory().filter(|memory| memory.placing_refused().is_none()) else { return };
    let options = ArrayOptions { pattern: Pattern::Stripes, segment_pages: 1, ..ArrayOptions::default() };
    let array = DistArray::from_fn(memory, 120_000, options, |index| index as u64).unwrap();
    let done = Mutex::new(BTreeMap::<String, Vec<(bool, NodeId)>>::new());
    let sum = AtomicU64::new(0);
    runtime
        .each_near((0..array.segments()).map(|segment| (segment, array.segment_node(segment))), |segment| {
            sum.fetch_add(array.run(array.segment(segment)).iter().sum(), Ordering::Relaxed);
            // Long enough for all seats to come.
            std::thread::sleep(Duration::from_millis(2));
            let near = memory.node_near(vicus_machine::here().expect("a runtime has started"));
            let thread = std::thread::current().name().unwrap_or_default().to_owned();
            let node = array.segment_node(segment);
            done.lock().unwrap().entry(thread).or_default().push((node != near, node));
        })
        .unwrap();
    assert_eq!(sum.into_inner(), 119_999 * 120_000 / 2, "each element once");
    let done = done.into_inner().unwrap();
    for (thread, segments) in &done {
        assert!(segments.is_sorted_by_key(|(is_far, _)| is_far), "{thread} has left what is near: {segments:?}");
    }
    // Segments on nodes without seats are done from elsewhere.
    let seats = runtime.plan().seats.iter().filter(|seat| !seat.spare);
    let with_seats: BTreeSet<NodeId> = seats.map(|seat| memory.node_near(seat.node)).collect();
    let all: Vec<_> = done.into_values().flatten().filter(|(_, node)| with_seats.contains(node)).collect();
    let near = all.iter().filter(|(is_far, _)| !is_far).count();
    assert!(near * 2 >= all.len(), "{near} of {} segments were worked on near them", all.len());
}
