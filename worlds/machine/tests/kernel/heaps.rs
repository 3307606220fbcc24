//! Blocks of each seat's heap against the kernel's node for them.

use crate::left_out;
use crate::placed::{Placeable, kernel_says, placeable_with};
use std::alloc::Layout;
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vicus_flow::{BoxModel, Column, Envelope, EnvelopeBuilder, Model, ModelBuilder, Schema, Turn, Type};
use vicus_machine::{Allocator, MachineRuntime, SystemPages, this_machine};
use vicus_memory::{AllocError, Audit, Footprint, Foreign, Heap, Memory, MemoryOptions, PageError, Region, Series};
use vicus_topology::NodeId;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator::new();

/// For superblocks of 1 MiB.
const SMALL_SERIES: Series = Series { first: 8 << 10, ratio: 1.07, limit: 256 << 10 };

/// A box's observations: its CPU, the requested nodes of its vectors, and their nodes.
type Seen = (usize, Vec<(Option<NodeId>, Footprint, Footprint)>);

fn cpu() -> usize {
    #[expect(unsafe_code, reason = "asks the kernel where this thread runs")]
    // SAFETY: no pointer is involved.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).unwrap()
}

/// A request that allocates small, large and mapped vectors and an envelope's columns, and touches them.
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
                let mut builder = EnvelopeBuilder::of_u64s(3);
                builder.reserve(turn, 4096);
                (0..3).for_each(|column| builder.u64s(column).repeat(1, 4096));
                let columns = builder.finish(turn);
                let lies = |values: &[u64]| {
                    (memory.node_of(values.as_ptr().cast()), memory.footprint(values), memory.truth(values))
                };
                let columns = columns.columns().iter().map(Column::u64s);
                let found = (cpu(), vectors.iter().map(Vec::as_slice).chain(columns).map(lies).collect());
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
    let runtime = MachineRuntime::builder().topology(machine.clone()).quiet().start();
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
fn what_a_thread_allocates_that_stays_nowhere_lies_where_it_runs() {
    // What happened: threads of `nls` are unbound, and their heaps lay on their seats' nodes.
    let machine = this_machine().topology;
    for node in machine.nodes.iter().filter(|node| machine.has_memory(node.id) && node.bytes >= 256 << 20) {
        let usable = node.pus.iter().map(|pu| &machine.pus[pu.index()]).filter(|pu| pu.usable);
        let cpus: Vec<u32> = usable.map(|pu| pu.os_index).collect();
        if cpus.is_empty() {
            continue;
        }
        let (machine, id) = (machine.clone(), node.id);
        let run = move || {
            let mut words = [0u64; 16];
            cpus.iter().for_each(|&cpu| words[cpu as usize / 64] |= 1 << (cpu % 64));
            #[expect(unsafe_code, reason = "libc's wrapper wants a type of its own")]
            // SAFETY: the kernel reads this number of bytes of a live array; thread 0 is the calling one.
            let done = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&words), words.as_ptr()) };
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
            // Its threads run on this one's CPUs, regardless of their seats' nodes.
            let builder = MachineRuntime::builder().topology(machine.clone()).threads(machine.pus.len());
            let runtime = builder.strategy("nls".parse().unwrap()).quiet().start();
            let memory = runtime.memory().expect("there are addresses");
            if let Some(error) = memory.placing_refused() {
                return left_out(&format!("memory can't be placed: {error}"));
            }
            if !memory.locations().contains(&id) {
                // The process may have no memory of this node.
                return;
            }
            let seen = Arc::default();
            let model = vectors(memory, &seen);
            let requests: Vec<_> = (0..32).map(|_| runtime.submit(&model)).collect();
            requests.iter().for_each(|request| _ = request.wait().unwrap());
            for (cpu, vectors) in std::mem::take(&mut *seen.lock().unwrap()) {
                assert!(vectors.iter().all(|(node, ..)| *node == Some(id)), "on CPU {cpu}, near {id}: {vectors:?}");
            }
        };
        std::thread::spawn(run).join().unwrap();
    }
}

#[test]
fn pages_are_touched_ahead_only_where_that_is_asked_for() {
    let machine = this_machine().topology;
    let node = machine.nodes.iter().find(|node| machine.has_memory(node.id)).expect("a node has memory").id;
    for touch_ahead in [false, true] {
        let pages = Arc::new(SystemPages::new(&machine));
        let options =
            MemoryOptions { touch_ahead, superblock_bytes: 1 << 20, series: SMALL_SERIES, ..MemoryOptions::default() };
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

/// A block of a heap, of whole pages.
pub(crate) struct Block {
    pub(crate) bytes: &'static mut [u8],
    layout: Layout,
}

impl Block {
    pub(crate) fn take(heap: &mut Heap, bytes: usize) -> Result<Block, AllocError> {
        let layout = Layout::from_size_align(bytes, 4096).unwrap();
        let start = heap.alloc_zeroed(layout)?;
        #[expect(unsafe_code, reason = "allocated memory is raw")]
        // SAFETY: this number of bytes, zero, without another reference until they are freed.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) };
        Ok(Block { bytes, layout })
    }

    /// A touched one of a usual size, for an early free.
    fn touched(heap: &mut Heap) -> Block {
        let block = Block::take(heap, 25 * 4096).unwrap();
        block.bytes.fill(1);
        block
    }

    /// Gives it to this heap, perhaps another one's.
    pub(crate) fn free(self, heap: &mut Heap) {
        #[expect(unsafe_code, reason = "frees a block")]
        // SAFETY: of a heap of the same memory; `self` is consumed, so it is not used afterwards.
        unsafe {
            heap.free(NonNull::from(self.bytes).cast(), self.layout);
        }
    }
}

#[test]
fn blocks_lie_on_the_heaps_node_or_on_the_nearest_that_may_be_used() {
    let options = MemoryOptions { superblock_bytes: 1 << 20, series: SMALL_SERIES, ..MemoryOptions::default() };
    let Some(Placeable { memory, numbers }) = placeable_with(options) else { return };
    let machine = this_machine().topology;
    for node in &machine.nodes {
        let nearest = machine.nodes_by_distance(node.id).into_iter().find(|near| memory.locations().contains(near));
        let nearest = nearest.expect("some node has memory");
        let number = numbers[memory.locations().iter().position(|&at| at == nearest).unwrap()];
        let mut heap = Heap::new(&memory, node.id).unwrap();
        // Of more than one superblock.
        let blocks: Vec<_> = (0..24).map(|_| Block::touched(&mut heap)).collect();
        for Block { bytes, .. } in &blocks {
            assert_eq!(memory.node_of(&bytes[0]), Some(nearest), "of a heap on {}", node.id);
            let found = kernel_says(bytes, memory.pages().page_bytes());
            assert!(found.iter().all(|&at| at == number), "of a heap on {}: {found:?}", node.id);
        }
        blocks.into_iter().for_each(|block| block.free(&mut heap));
    }
}

#[test]
fn what_another_nodes_heap_frees_comes_home() {
    for foreign in [Foreign::Mailboxes, Foreign::Bins] {
        let options = MemoryOptions { foreign, ..MemoryOptions::default() };
        let Some(Placeable { memory, numbers }) = placeable_with(options) else { return };
        let (last, page) = (numbers.len() - 1, memory.pages().page_bytes());
        let [home, away] = [0, last].map(|location| memory.locations()[location]);
        let mut own = Heap::new(&memory, home).unwrap();
        let blocks: Vec<_> = (0..40).map(|_| Block::touched(&mut own)).collect();
        let before: BTreeSet<usize> = blocks.iter().map(|block| block.bytes.as_ptr().addr()).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut other = Heap::new(&memory, away).unwrap();
                blocks.into_iter().for_each(|block| block.free(&mut other));
                other.finish_task();
                let found = kernel_says(Block::touched(&mut other).bytes, page);
                assert!(
                    found.iter().all(|&at| at == numbers[last]),
                    "{foreign:?}: what was freed is not taken: {found:?}"
                );
            });
        });
        own.finish_task();
        let again: Vec<_> = (0..40).map(|_| Block::touched(&mut own)).collect();
        let after: BTreeSet<usize> = again.iter().map(|block| block.bytes.as_ptr().addr()).collect();
        assert_eq!(after, before, "{foreign:?}: the blocks that were freed elsewhere");
        for Block { bytes, .. } in &again {
            let found = kernel_says(bytes, page);
            assert!(found.iter().all(|&at| at == numbers[0]), "{foreign:?}: {found:?}");
        }
        again.into_iter().for_each(|block| block.free(&mut own));
    }
}
