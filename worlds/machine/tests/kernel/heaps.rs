//! Blocks of each seat's heap against the node that the kernel says they lie on.

use crate::left_out;
use std::alloc::Layout;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vicus_flow::{BoxModel, Envelope, Model, ModelBuilder, Schema, Turn, Type};
use vicus_machine::{Allocator, Runtime, SystemPages, this_machine};
use vicus_memory::{Audit, Footprint, Heap, Memory, Options, PageError, Region, Series};
use vicus_topology::NodeId;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator::new();

/// For superblocks of 1 MiB.
const SMALL_SERIES: Series = Series { first: 8 << 10, ratio: 1.07, limit: 256 << 10 };

/// What a box saw: the CPU that it ran on, where its vectors were asked to lie, and where they lie.
type Seen = (usize, Vec<(Option<NodeId>, Footprint, Footprint)>);

fn cpu() -> usize {
    #[expect(unsafe_code, reason = "asks the kernel where this thread runs")]
    // SAFETY: no pointer is involved.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).unwrap()
}

/// A request that allocates small, large and mapped vectors and touches them.
fn vectors(memory: &Arc<Memory>, seen: &Arc<Mutex<Vec<Seen>>>) -> Arc<Model> {
    let schema = Schema::new([("n", Type::U64)]);
    let mut net = ModelBuilder::new("vectors");
    let (memory, seen) = (Arc::clone(memory), Arc::clone(seen));
    let source = net.source(
        BoxModel::new("vectors", move || {
            let (memory, seen) = (Arc::clone(&memory), Arc::clone(&seen));
            move |turn: &mut Turn<'_>| {
                turn.take(0);
                let vectors = [2 << 10, 16 << 10, 100 << 10].map(|words| vec![1u64; words]);
                let lies = |vector: &Vec<u64>| {
                    (memory.node_of(vector.as_ptr().cast()), memory.footprint(vector), memory.truth(vector))
                };
                let found = (cpu(), vectors.iter().map(lies).collect());
                seen.lock().unwrap().push(found);
                // Long enough for others to take some as well.
                std::thread::sleep(Duration::from_millis(1));
                turn.send(0, Envelope::new([vec![1u64].into()]));
                turn.send_pill(0);
                Ok(())
            }
        })
        .output(&schema),
    );
    net.end(source.output(0));
    net.build().unwrap()
}

#[test]
fn what_a_box_allocates_lies_on_the_node_of_its_seat() {
    let machine = this_machine().topology;
    let runtime = Runtime::builder().topology(machine.clone()).quiet().start();
    let memory = runtime.memory().expect("there are addresses");
    if let Some(refusal @ PageError::Refused(_)) = memory.placing_refused() {
        return left_out(&format!("memory can't be placed: {refusal}"));
    }
    // The kernel keeps the last pages of a node for itself, and a heap takes another node's then.
    let is_small = |node: NodeId| {
        !memory.locations().contains(&node) || (1..256 << 20).contains(&machine.nodes[node.index()].bytes)
    };
    let seen = Arc::default();
    let model = vectors(memory, &seen);
    let with_seats: Vec<NodeId> =
        runtime.plan().seats.iter().filter(|seat| !seat.spare).map(|seat| seat.node).collect();
    let mut open: BTreeSet<NodeId> = with_seats.into_iter().filter(|&node| !is_small(node)).collect();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !open.is_empty() {
        assert!(Instant::now() < deadline, "no box has run near {open:?} for a minute");
        let requests: Vec<_> = (0..64).map(|_| runtime.submit(&model)).collect();
        for request in requests {
            request.wait().unwrap();
        }
        for (cpu, vectors) in std::mem::take(&mut *seen.lock().unwrap()) {
            let near = machine.pus.iter().find(|pu| pu.os_index as usize == cpu).expect("a PU of the machine").node;
            if is_small(near) {
                continue;
            }
            open.remove(&near);
            for (node, asked, truth) in vectors {
                assert_eq!(node, Some(near), "a block of a box on CPU {cpu}");
                assert_eq!(truth.unknown, 0, "all of it was touched");
                assert_eq!(truth, asked, "what the kernel says, and what was asked for");
            }
        }
    }
}

#[test]
fn pages_are_touched_ahead_only_where_that_is_asked_for() {
    let machine = this_machine().topology;
    let node = machine.nodes.iter().find(|node| machine.has_memory(node.id)).expect("a node has memory").id;
    for touch_ahead in [false, true] {
        let pages = Arc::new(SystemPages::new(&machine));
        let options = Options { touch_ahead, superblock_bytes: 1 << 20, series: SMALL_SERIES, ..Options::default() };
        let memory = Memory::new(pages, &machine, options).unwrap();
        let mut heap = Heap::new(&memory, node).unwrap();
        let layout = Layout::from_size_align(10_000, 8).unwrap();
        let block = heap.alloc(layout).unwrap();
        let Audit { there, elsewhere } = memory.audit().into_iter().fold(Audit::default(), |sum, audit| Audit {
            there: sum.there + audit.there,
            elsewhere: sum.elsewhere + audit.elsewhere,
        });
        let all = (1 << 20) / memory.pages().page_bytes();
        match there + elsewhere {
            0 if touch_ahead => left_out("the kernel does not tell where pages lie"),
            present => assert_eq!(present, if touch_ahead { all } else { 0 }, "pages that are there"),
        }
        #[expect(unsafe_code, reason = "frees a block")]
        // SAFETY: just allocated.
        unsafe {
            heap.free(block, layout);
        }
    }
}

#[test]
fn the_kernel_is_asked_about_others_memory() {
    let machine = this_machine().topology;
    let _runtime = Runtime::builder().topology(machine.clone()).quiet().start();
    // On the stack, which is nobody's but the kernel's.
    let ours = [1u64; 8000];
    let footprint = vicus_machine::footprint(std::hint::black_box(&ours));
    assert_eq!(footprint.nodes.iter().sum::<usize>() + footprint.unknown, 64_000);
    if footprint.unknown > 0 {
        return left_out("the kernel does not tell where pages lie");
    }
    assert_eq!(vicus_machine::node_of(ours.as_ptr().cast()), None, "it is not of the process's memory");
    vicus_machine::forget(&ours);
    assert_eq!(vicus_machine::footprint(&ours), footprint);
}
