//! Kernels on threads.

use std::alloc::Layout;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use vicus::Runtime;
use vicus::memory::{self, Distribution, Memory, Placed};
use vicus::tasks::{Kind, in_place_scope, join};
use vicus_kernels::{Array, Element, Leaf, Order, Schedule, Task, World};
use vicus_schedule::Access;

/// A runtime as a kernel sees it.
pub(crate) struct Threads<'r> {
    runtime: &'r Runtime,
    arrays: Mutex<Vec<Placed>>,
    /// Where bytes lie that work reads and writes, if somebody wants to know.
    counts: Option<Counts>,
}

/// What all work between two moments has read and written, by where it was.
pub(crate) struct Counts {
    pub(crate) near: AtomicU64,
    pub(crate) far: AtomicU64,
    /// Memory of which nobody knows where it lies.
    pub(crate) unknown: AtomicU64,
    pub(crate) pieces: AtomicU64,
    /// How many nodes the machine has.
    nodes: usize,
    memory: Option<Arc<Memory>>,
}

/// The kernel is asked for so many pages at once.
const BATCH: usize = 512;

impl Counts {
    fn new(runtime: &Runtime) -> Counts {
        let (nodes, memory) = (runtime.topology().nodes.len(), runtime.memory().cloned());
        let [near, far, unknown, pieces] = [const { AtomicU64::new(0) }; 4];
        Counts { near, far, unknown, pieces, nodes, memory }
    }

    fn add(&self, accesses: &[Access]) {
        let (mut near, mut far, mut unknown) = (0, 0, 0);
        for stretch in accesses.iter().flat_map(Access::stretches) {
            let all = stretch.len();
            let nodes = self.by_node(stretch);
            let here = memory::here().map_or(0, |node| node.index());
            let (on_nodes, on_this) = (nodes.iter().sum::<usize>(), nodes.get(here).copied().unwrap_or(0));
            near += on_this;
            far += on_nodes - on_this;
            unknown += all - on_nodes;
        }
        let counts = [(&self.near, near), (&self.far, far), (&self.unknown, unknown), (&self.pieces, 1)];
        counts.into_iter().for_each(|(count, more)| _ = count.fetch_add(more as u64, Ordering::Relaxed));
    }

    /// How many bytes of a stretch lie on each node. Nobody has to be asked where there is one.
    fn by_node(&self, stretch: Range<usize>) -> Vec<usize> {
        if self.nodes == 1 {
            return vec![stretch.len()];
        }
        let Some(memory) = &self.memory else { return Vec::new() };
        let known = memory.footprint_at(stretch.clone());
        if known.unknown == 0 { known.nodes } else { by_page(memory, stretch) }
    }

    /// Forgets what was before the measured part.
    pub(crate) fn clear(&self) {
        for count in [&self.near, &self.far, &self.unknown, &self.pieces] {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// As the kernel has put the pages of a stretch: memory that nobody placed lies where it was touched first. Nothing is kept of what
/// the kernel says, because the next array may have the same addresses.
fn by_page(memory: &Memory, stretch: Range<usize>) -> Vec<usize> {
    let page_bytes = memory.pages().page_bytes();
    let mut nodes = vec![0; memory.nodes()];
    let pages: Vec<usize> = (stretch.start / page_bytes..stretch.end.div_ceil(page_bytes)).collect();
    for batch in pages.chunks(BATCH) {
        let starts: Vec<usize> = batch.iter().map(|page| page * page_bytes).collect();
        for (start, node) in starts.iter().zip(memory.pages().truth(&starts)) {
            let bytes = stretch.end.min(start + page_bytes) - stretch.start.max(*start);
            if let Some(node) = node {
                nodes[node.index()] += bytes;
            }
        }
    }
    nodes
}

impl<'r> Threads<'r> {
    pub(crate) fn new(runtime: &'r Runtime) -> Threads<'r> {
        Threads { runtime, arrays: Mutex::default(), counts: None }
    }

    /// One that counts bytes, which takes time.
    pub(crate) fn counting(runtime: &'r Runtime) -> Threads<'r> {
        Threads { counts: Some(Counts::new(runtime)), ..Threads::new(runtime) }
    }

    pub(crate) fn counts(&self) -> Option<&Counts> {
        self.counts.as_ref()
    }
}

impl World for Threads<'_> {
    fn threads(&self) -> usize {
        self.runtime.plan().threads()
    }

    fn array<T: Element>(&self, len: usize, distribution: &Distribution) -> Array<'_, T> {
        let layout = Layout::array::<T>(len.max(1)).expect("an array fits into the address space");
        let mut placed = self
            .runtime
            .alloc(layout, distribution.clone())
            .unwrap_or_else(|error| panic!("{} bytes for an array: {error}", layout.size()));
        let start = placed.bytes_mut().as_mut_ptr().cast();
        self.arrays.lock().expect("nothing panics under this lock").push(placed);
        Array::new(start, len)
    }

    fn work(&self, _: Leaf, accesses: &[Access], f: impl FnOnce()) {
        if let Some(counts) = &self.counts {
            // Before the work, which may be the first to touch them, nobody knows.
            f();
            return counts.add(accesses);
        }
        f();
    }

    fn join<A: Send, B: Send>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        join(a, b)
    }

    fn tasks<F: FnOnce() + Send>(&self, order: Order, tasks: impl Iterator<Item = (Task, F)>) {
        in_place_scope(|scope| {
            for (Task { kind, accesses }, f) in tasks {
                let task = match kind {
                    Kind::Immediate => scope.task().immediate(),
                    Kind::Deferred => scope.task(),
                };
                let task = match order {
                    Order::Free => task.touches(&accesses),
                    Order::ByData => task.follows(&accesses),
                };
                task.spawn(move |()| f());
            }
        });
    }

    fn each(&self, iterations: usize, schedule: Schedule, body: impl Fn(usize) + Sync) {
        self.runtime.on_each_thread(|thread, threads| {
            schedule.of_thread(thread, threads, iterations).for_each(&body);
        });
    }
}
