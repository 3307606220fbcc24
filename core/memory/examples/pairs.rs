//! Times an allocation and its free: for each class alone, for all classes at once in permuted order, and with the free
//! by another heap.
//!
//! `cargo run --release -p vicus-memory --example pairs`. Measured on an idle machine, or not at all.
#![allow(clippy::disallowed_methods, reason = "an example is its own world: it may look at the clock")]

use std::alloc::Layout;
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;
use vicus_memory::{FakePages, Foreign, Heap, Memory, MemoryOptions};
use vicus_topology::{NodeId, Topology};

/// Many short rounds: the median is right if fewer than half of them were interrupted.
const ROUNDS: usize = 201;

/// The median of several rounds, in nanoseconds for each of `count` operations.
fn median_ns(count: usize, mut round: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed().as_secs_f64() * 1e9 / count as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

#[expect(unsafe_code, reason = "allocates, writes a byte, frees")]
fn pair(heap: &mut Heap, layout: Layout) {
    let block = black_box(heap.alloc(layout).expect("memory is left"));
    // SAFETY: it is this function's, and has at least a byte.
    unsafe {
        block.write(1);
        heap.free(block, layout);
    }
}

/// One block of each class, freed in another order.
#[expect(unsafe_code, reason = "allocates, writes a byte, frees")]
fn batch(heap: &mut Heap, layouts: &[Layout], order: &[usize], blocks: &mut Vec<NonNull<u8>>) {
    for &layout in layouts {
        let block = black_box(heap.alloc(layout).expect("memory is left"));
        // SAFETY: it is this function's, and has at least a byte.
        unsafe { block.write(1) };
        blocks.push(block);
    }
    for &at in order {
        // SAFETY: the order is a permutation, so each is freed once.
        unsafe { heap.free(blocks[at], layouts[at]) };
    }
    blocks.clear();
}

/// Blocks allocated by one heap and freed by another, both on this thread: the cost of the way home without contention.
#[expect(unsafe_code, reason = "allocates, writes a byte, frees")]
fn foreign(owner: &mut Heap, other: &mut Heap, layout: Layout, blocks: usize) {
    for _ in 0..blocks {
        let block = black_box(owner.alloc(layout).expect("memory is left"));
        // SAFETY: it is this function's, and has at least a byte.
        unsafe {
            block.write(1);
            other.free(block, layout);
        }
    }
    other.finish_task();
    owner.finish_task();
}

fn memory(options: MemoryOptions) -> Arc<Memory> {
    let machine = Topology::parse("node:1 core:1").expect("a machine of one core");
    let options = MemoryOptions { range_bytes: 2 << 30, ..options };
    Memory::new(Arc::new(FakePages::new(1)), &machine, options).expect("the options are right")
}

fn heap(memory: &Arc<Memory>) -> Heap {
    Heap::new(memory, NodeId::new(0)).expect("there is a node")
}

fn main() {
    let memory = memory(MemoryOptions::default());
    let mut heap = heap(&memory);
    let sizes = memory.sizes();
    let layout = |class: usize| Layout::from_size_align(sizes.bytes(class), 8).expect("a block's size");

    let count = 5_000;
    let mut slowest = (0.0, 0);
    for class in 0..sizes.classes() {
        let layout = layout(class);
        let ns = median_ns(count, || (0..count).for_each(|_| pair(&mut heap, layout)));
        println!(
            "{:>8} bytes  {ns:5.2} ns a pair{}",
            layout.size(),
            ["", "  (small)"][usize::from(class < sizes.small())]
        );
        if class >= sizes.small() && ns > slowest.0 {
            slowest = (ns, layout.size());
        }
    }
    println!("slowest of the series: {:.2} ns at {} bytes", slowest.0, slowest.1);

    let layouts: Vec<Layout> = (sizes.small()..sizes.classes()).map(layout).collect();
    let repeats = 200;
    // 37 shares no factor with their number, so this is a permutation.
    let order: Vec<usize> = (0..layouts.len()).map(|at| at * 37 % layouts.len()).collect();
    let mut blocks = Vec::new();
    let mut round = || (0..repeats).for_each(|_| batch(&mut heap, &layouts, &order, &mut blocks));
    let ns = median_ns(repeats * layouts.len(), &mut round);
    println!("batch of {} classes: {ns:.2} ns for an allocation and its free", layouts.len());

    for design in [Foreign::Mailboxes, Foreign::Bins] {
        let memory = self::memory(MemoryOptions { foreign: design, ..MemoryOptions::default() });
        let (mut owner, mut other) = (self::heap(&memory), self::heap(&memory));
        for size in [8 << 10, 64 << 10, 512 << 10] {
            let layout = Layout::from_size_align(size, 8).expect("a block's size");
            let ns = median_ns(32 * 100, || (0..100).for_each(|_| foreign(&mut owner, &mut other, layout, 32)));
            println!("{size:>8} bytes  {ns:5.2} ns a block freed by another heap, 32 a task ({design:?})");
        }
    }
}
