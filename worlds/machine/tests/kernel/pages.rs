//! Memory lies on its intended node, as the kernel's `move_pages` reports it.

use crate::affinity::Alone;
use crate::left_out;
use crate::nodes::nodes_of;
use crate::sysfs::{Machine, Node, own_memory};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};
use vicus_flow::{BoxModel, Model, ModelBuilder, Turn};
use vicus_machine::SystemPages;
use vicus_memory::{PageError, PagePlacement, Pages, WhenFull};
use vicus_topology::NodeId;

/// So many pages of memory of our own.
const PAGES: usize = 16;

/// The thread that touched some pages first, and the node of each page, or the kernel's error.
type Touched = (String, io::Result<Vec<i32>>);

#[test]
fn what_a_thread_touches_first_is_on_the_node_of_its_seat() {
    let Some(kernel) = Machine::read() else { return left_out("sysfs has no nodes, cores or caches") };
    let alone = Alone::start("las");
    let may_use = own_memory();
    // Elsewhere the kernel takes the nearest memory.
    let has_memory = |node: &&Node| kernel.with_memory.contains(&node.number) && may_use.contains(&node.number);
    let (plan, topology) = (alone.runtime.plan(), alone.runtime.topology());
    let touched: Arc<Mutex<Vec<Touched>>> = Arc::default();
    let model = touching(&touched);
    // They begin in one group after the other.
    let requests: Vec<_> = (0..8 * plan.pools.len()).map(|_| alone.runtime.submit(&model)).collect();
    for request in requests {
        request.wait().unwrap();
    }

    let mut seen = BTreeSet::new();
    for (thread, nodes) in touched.lock().unwrap().drain(..) {
        let nodes = match nodes {
            Ok(nodes) => nodes,
            Err(error) => return left_out(&format!("the kernel does not tell where pages are: {error}")),
        };
        let seat: usize = thread.strip_prefix("vicus ").and_then(|seat| seat.parse().ok()).expect("a worker's name");
        let cpu = topology.pus[plan.seats[seat].pu.index()].os_index;
        let home = kernel.nodes.iter().find(|node| node.cpus.contains(&cpu)).expect("each CPU is on a node");
        if has_memory(&home) {
            assert_eq!(nodes, [home.number as i32; PAGES], "{thread}, whose seat is at CPU {cpu}");
            seen.insert(home.number);
        }
    }
    let expected = kernel.nodes.iter().filter(has_memory).filter(|node| {
        let mut usable = topology.usable_pus();
        usable.any(|pu| node.cpus.contains(&pu.os_index))
    });
    let expected = expected.count();
    assert!(seen.len() >= expected.min(2), "all pages were touched on {seen:?}, of {expected} nodes");
}

/// A range for each node with memory; by the kernel's answer, each page of it is on this node.
#[test]
fn pages_lie_on_the_node_that_they_were_placed_on() {
    let Some(kernel) = Machine::read() else { return left_out("sysfs has no nodes, cores or caches") };
    let may_use = own_memory();
    let topology = vicus_machine::this_machine().topology;
    let pages = SystemPages::new(&topology);
    let (page, bytes) = (pages.page_bytes(), PAGES * pages.page_bytes());
    for node in &topology.nodes {
        if !kernel.with_memory.contains(&node.os_index) || !may_use.contains(&node.os_index) {
            continue;
        }
        for when_full in [WhenFull::Preferred, WhenFull::Strict] {
            let start = pages.reserve(2 << 20, 2 << 20).unwrap();
            assert_eq!(start.addr().get() % (2 << 20), 0);
            #[expect(unsafe_code, reason = "placed memory is raw memory")]
            // SAFETY: the range was just reserved for this test alone; its first pages are committed before they are
            // written, and it is released once.
            let (placed, nodes) = unsafe {
                let placed = pages.place(start, 2 << 20, PagePlacement::On(node.id, when_full));
                pages.commit(start, bytes, node.id).unwrap();
                let firsts: Vec<*mut u8> =
                    (0..PAGES).map(|number| start.as_ptr().wrapping_add(number * page)).collect();
                for first in &firsts {
                    assert_eq!(first.read_volatile(), 0, "fresh pages are zero");
                    first.write_volatile(1);
                }
                let nodes = nodes_of(&firsts);
                let known = pages.truth(&firsts.iter().map(|first| first.addr()).collect::<Vec<_>>());
                if let Ok(nodes) = &nodes {
                    let numbers: Vec<i32> = known
                        .iter()
                        .map(|node| node.map_or(-1, |id| topology.nodes[id.index()].os_index as i32))
                        .collect();
                    assert_eq!(&numbers, nodes, "we say what the kernel says");
                }
                pages.decommit(start, bytes, node.id);
                pages.release(start, 2 << 20, 2 << 20);
                (placed, nodes)
            };
            let nodes = match (placed, nodes) {
                (Err(error), _) => return left_out(&format!("memory can't be placed here: {error}")),
                (_, Err(error)) => return left_out(&format!("the kernel does not tell where pages are: {error}")),
                (Ok(()), Ok(nodes)) => nodes,
            };
            assert_eq!(nodes, [node.os_index as i32; PAGES], "{when_full:?}");
        }
    }
}

#[test]
fn a_strict_range_that_its_node_can_not_hold_is_refused_before_it_is_touched() {
    let topology = vicus_machine::this_machine().topology;
    let pages = SystemPages::new(&topology);
    let node = topology.nodes.iter().find(|node| node.bytes > 0).or(topology.nodes.first()).expect("there is a node");
    // More than the node has, in reserved addresses, which cost nothing.
    let bytes = (node.bytes as usize + (1 << 30)).next_multiple_of(2 << 20);
    let start = pages.reserve(bytes, 2 << 20).unwrap();
    #[expect(unsafe_code, reason = "placed memory is raw memory")]
    // SAFETY: the range was just reserved for this test alone, is not touched, and is released once.
    let (placed, committed) = unsafe {
        let placed = pages.place(start, bytes, PagePlacement::On(node.id, WhenFull::Strict));
        let committed = pages.commit(start, bytes, node.id);
        pages.release(start, bytes, 2 << 20);
        (placed, committed)
    };
    if let Err(error) = placed {
        return left_out(&format!("memory can't be placed here: {error}"));
    }
    assert_eq!(committed, Err(PageError::Full));
    let none = NodeId::new(topology.nodes.len());
    let start = pages.reserve(1 << 20, 1 << 20).unwrap();
    #[expect(unsafe_code, reason = "placed memory is raw memory")]
    // SAFETY: as above.
    let placed = unsafe {
        let placed = pages.place(start, 1 << 20, PagePlacement::On(none, WhenFull::Preferred));
        pages.release(start, 1 << 20, 1 << 20);
        placed
    };
    assert_eq!(placed, Err(PageError::NoSuchNode(none)));
}

/// One box that touches new memory once.
fn touching(touched: &Arc<Mutex<Vec<Touched>>>) -> Arc<Model> {
    let touched = Arc::clone(touched);
    let mut net = ModelBuilder::new("touch");
    let touch = move || {
        let touched = Arc::clone(&touched);
        move |turn: &mut Turn<'_>| {
            turn.take(0);
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            let nodes = touch_new_pages();
            touched.lock().unwrap().push((name, nodes));
            turn.send_pill(0);
            Ok(())
        }
    };
    let schema = vicus_flow::Schema::new([("n", vicus_flow::Type::U64)]);
    let source = net.source(BoxModel::new("touch", touch).output(&schema));
    net.end(source.output(0));
    net.build().unwrap()
}

/// Maps memory, writes to each page, and asks for the node of each.
fn touch_new_pages() -> io::Result<Vec<i32>> {
    #[expect(unsafe_code, reason = "asks the system for its page size")]
    // SAFETY: no pointer is involved.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    #[expect(unsafe_code, reason = "only a mapping of its own is sure to be untouched")]
    // SAFETY: the kernel chooses unused addresses.
    let start = unsafe {
        libc::mmap(std::ptr::null_mut(), PAGES * page, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0).cast::<u8>()
    };
    if start.cast() == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let pages: Vec<*mut u8> = (0..PAGES).map(|number| start.wrapping_add(number * page)).collect();
    for &first in &pages {
        #[expect(unsafe_code, reason = "a page is nowhere until it is written to")]
        // SAFETY: the first byte of a page of the mapping above, which is writable and used here alone.
        unsafe {
            first.write_volatile(1);
        }
    }
    let nodes = nodes_of(&pages);
    #[expect(unsafe_code, reason = "what was mapped is given back")]
    // SAFETY: the mapping above, without remaining pointers.
    unsafe {
        libc::munmap(start.cast(), PAGES * page);
    }
    nodes
}
