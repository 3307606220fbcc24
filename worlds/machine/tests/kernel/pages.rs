//! Memory lies on the node that it is meant for, as the kernel's `move_pages` has it.

use crate::affinity::Alone;
use crate::left_out;
use crate::sysfs::{Machine, Node, own_memory};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};
use vicus_flow::{BoxModel, Model, ModelBuilder, Turn};

/// So many pages of memory of our own.
const PAGES: usize = 16;

/// The thread that touched some pages first, and the node of each page, or why the kernel does not tell.
type Touched = (String, io::Result<Vec<i32>>);

#[test]
fn what_a_thread_touches_first_is_on_the_node_of_its_seat() {
    let Some(kernel) = Machine::read() else { return left_out("sysfs has no nodes, cores or caches") };
    let alone = Alone::start("las");
    let may_use = own_memory();
    // Elsewhere the kernel takes the nearest memory that there is.
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

/// Maps memory, writes to each page, and asks on which node each is.
fn touch_new_pages() -> io::Result<Vec<i32>> {
    #[expect(unsafe_code, reason = "asks the system for its page size")]
    // SAFETY: no pointer is involved.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    #[expect(unsafe_code, reason = "only a mapping of its own is sure to be untouched")]
    // SAFETY: the kernel chooses a place where nothing is.
    let start = unsafe {
        libc::mmap(std::ptr::null_mut(), PAGES * page, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0).cast::<u8>()
    };
    if start.cast() == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let pages: Vec<*mut u8> = (0..PAGES).map(|number| start.wrapping_add(number * page)).collect();
    for &first in &pages {
        #[expect(unsafe_code, reason = "a page is nowhere until it is written to")]
        // SAFETY: the first byte of a page of the mapping above, which is writable and nobody else's.
        unsafe {
            first.write_volatile(1);
        }
    }
    let nodes = nodes_of(&pages);
    #[expect(unsafe_code, reason = "what was mapped is given back")]
    // SAFETY: the mapping above, to which nothing points any more.
    unsafe {
        libc::munmap(start.cast(), PAGES * page);
    }
    nodes
}

/// The node of each page, or a negative error number for a page that is nowhere.
fn nodes_of(pages: &[*mut u8]) -> io::Result<Vec<i32>> {
    let mut nodes = vec![i32::MIN; pages.len()];
    let nowhere = std::ptr::null::<i32>();
    #[expect(unsafe_code, reason = "libc has no wrapper of move_pages")]
    // SAFETY: both arrays have as many elements as told; without target nodes nothing is moved, and the addresses in the
    // first are looked up by the kernel, not followed.
    let done =
        unsafe { libc::syscall(libc::SYS_move_pages, 0, pages.len(), pages.as_ptr(), nowhere, nodes.as_mut_ptr(), 0) };
    if done == 0 { Ok(nodes) } else { Err(io::Error::last_os_error()) }
}
