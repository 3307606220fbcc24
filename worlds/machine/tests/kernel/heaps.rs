//! Blocks of each seat's heap against the node that the kernel says they lie on.

use crate::left_out;
use std::alloc::Layout;
use std::sync::{Arc, Mutex};
use vicus_flow::{BoxModel, Envelope, ModelBuilder, Schema, Turn, Type};
use vicus_machine::{Allocator, Runtime, SystemPages, this_machine};
use vicus_memory::{Audit, Heap, Memory, Options, Region, Series};
use vicus_topology::NodeId;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator::new();

/// For superblocks of 1 MiB.
const SMALL_SERIES: Series = Series { first: 8 << 10, ratio: 1.07, limit: 256 << 10 };

/// What a box saw: the CPU that it ran on, and its vectors.
type Seen = (usize, Vec<Vec<u64>>);

fn cpu() -> usize {
    #[expect(unsafe_code, reason = "asks the kernel where this thread runs")]
    // SAFETY: no pointer is involved.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).unwrap()
}

/// Many requests, so that every seat gets some; each allocates small, large and mapped vectors and touches them.
fn vectors_of_boxes(runtime: &Runtime) -> Vec<Seen> {
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let schema = Schema::new([("n", Type::U64)]);
    let mut net = ModelBuilder::new("vectors");
    let to = Arc::clone(&seen);
    let source = net.source(
        BoxModel::new("vectors", move || {
            let to = Arc::clone(&to);
            move |turn: &mut Turn<'_>| {
                turn.take(0);
                let vectors = [2 << 10, 16 << 10, 100 << 10].map(|words| vec![1u64; words]).into();
                to.lock().unwrap().push((cpu(), vectors));
                // Long enough for others to take some as well.
                std::thread::sleep(std::time::Duration::from_millis(1));
                turn.send(0, Envelope::new([vec![1u64].into()]));
                turn.send_pill(0);
                Ok(())
            }
        })
        .output(&schema),
    );
    net.end(source.output(0));
    let model = net.build().unwrap();
    let requests: Vec<_> = (0..64).map(|_| runtime.submit(&model)).collect();
    for request in requests {
        request.wait().unwrap();
    }
    drop(model);
    std::mem::take(&mut *seen.lock().unwrap())
}

#[test]
fn what_a_box_allocates_lies_on_the_node_of_its_seat() {
    let machine = this_machine().topology;
    let runtime = Runtime::builder().topology(machine.clone()).quiet().start();
    let memory = runtime.memory().expect("there are addresses");
    if let Some(refusal) = memory.placing_refused() {
        return left_out(&format!("memory can't be placed: {refusal}"));
    }
    let spilled = |node: NodeId| memory.counts(node).spilled > 0;
    let mut nodes = vec![0; machine.nodes.len()];
    for (cpu, vectors) in vectors_of_boxes(&runtime) {
        let near = machine.pus.iter().find(|pu| pu.os_index as usize == cpu).expect("a PU of the machine").node;
        for vector in &vectors {
            let node = memory.node_of(vector.as_ptr().cast()).expect("a block of the memory");
            assert!(node == near || spilled(near), "on CPU {cpu} of {near}, {} words lie on {node}", vector.len());
            let truth = memory.truth(vector);
            assert_eq!(truth.unknown, 0, "all of it was touched");
            assert_eq!(truth, memory.footprint(vector), "what the kernel says, and what was asked for");
            nodes[node.index()] += 1;
        }
    }
    let with_pus = machine.nodes.iter().filter(|node| machine.usable_pus().any(|pu| pu.node == node.id));
    for node in with_pus {
        assert!(nodes[node.id.index()] > 0 || spilled(node.id), "no box ran near {}: {nodes:?}", node.id);
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
