//! Kernels on threads.

use anyhow::anyhow;
use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use vicus::Runtime;
use vicus::memory::{self, Distribution, PlaceError, Placed};
use vicus::tasks::{Kind, in_place_scope, join};
use vicus_kernels::{Array, Element, Kernel, KernelWorld, Leaf, Schedule, Task, TaskOrder};
use vicus_schedule::Access;

/// Runs kernels on a runtime.
pub(crate) struct Threads<'r> {
    runtime: &'r Runtime,
    arrays: Mutex<Vec<Placed>>,
    /// Counts bytes near and far, if asked to.
    counts: Option<ThreadCounts>,
}

/// The bytes read and written by work, by their node, and the number of pieces of work.
#[derive(Default)]
pub(crate) struct ThreadCounts {
    pub(crate) near: AtomicU64,
    pub(crate) far: AtomicU64,
    /// Bytes on unknown nodes.
    pub(crate) unknown: AtomicU64,
    pub(crate) pieces: AtomicU64,
}

impl ThreadCounts {
    fn add(&self, accesses: &[Access]) {
        let footprint = vicus::kit::footprint_of(accesses);
        let here = memory::here().map_or(0, |node| node.index());
        let near = footprint.nodes.get(here).copied().unwrap_or(0);
        let far = footprint.nodes.iter().sum::<usize>() - near;
        let counts = [(&self.near, near), (&self.far, far), (&self.unknown, footprint.unknown), (&self.pieces, 1)];
        counts.into_iter().for_each(|(count, more)| _ = count.fetch_add(more as u64, Ordering::Relaxed));
    }

    /// Starts again from zero, at the beginning of the measured part.
    pub(crate) fn clear(&self) {
        for count in [&self.near, &self.far, &self.unknown, &self.pieces] {
            count.store(0, Ordering::Relaxed);
        }
    }
}

impl<'r> Threads<'r> {
    pub(crate) fn new(runtime: &'r Runtime) -> Threads<'r> {
        Threads { runtime, arrays: Mutex::default(), counts: None }
    }

    /// A world that counts bytes; this takes time.
    pub(crate) fn counting(runtime: &'r Runtime) -> Threads<'r> {
        Threads { counts: Some(ThreadCounts::default()), ..Threads::new(runtime) }
    }

    pub(crate) fn counts(&self) -> Option<&ThreadCounts> {
        self.counts.as_ref()
    }
}

/// The payload of a kernel's unwinding run if an array can't be allocated.
struct NoArray {
    bytes: usize,
    error: PlaceError,
}

/// Runs a kernel in a world of [`Threads`]. A failed allocation of an array is an error.
pub(crate) fn run<W: KernelWorld>(
    runtime: &Runtime,
    kernel: &impl Kernel,
    world: &W,
    start: impl FnOnce() + Send,
    end: impl FnOnce() + Send,
) -> anyhow::Result<f64> {
    let run = || runtime.run(|| kernel.run(world, start, end));
    // Unwind-safe, because a world without its array is dropped.
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let name = kernel.name();
        match panic.downcast::<NoArray>().map(|no_array| *no_array) {
            Ok(NoArray { bytes, error: PlaceError::TooLarge { .. } }) => anyhow!(
                "{name}: an array of {bytes} bytes: this process has not so many addresses left; raise their limit \
                 (`ulimit -v`), or take a smaller input"
            ),
            Ok(NoArray { bytes, error }) => anyhow!("{name}: an array of {bytes} bytes: {error}"),
            Err(panic) => resume_unwind(panic),
        }
    })
}

impl KernelWorld for Threads<'_> {
    fn threads(&self) -> usize {
        self.runtime.plan().threads()
    }

    fn array<T: Element>(&self, len: usize, distribution: &Distribution) -> Array<'_, T> {
        let layout = Layout::array::<T>(len.max(1)).expect("an array fits into the address space");
        let placed = self.runtime.alloc(layout, distribution.clone());
        // A kernel has no way to return this error, and the program is not at fault: unwinds without a panic's message.
        let mut placed =
            placed.unwrap_or_else(|error| resume_unwind(Box::new(NoArray { bytes: layout.size(), error })));
        let start = placed.bytes_mut().as_mut_ptr().cast();
        self.arrays.lock().expect("nothing panics under this lock").push(placed);
        Array::new(start, len)
    }

    fn work(&self, _: Leaf, accesses: &[Access], f: impl FnOnce()) {
        if let Some(counts) = &self.counts {
            // After the work, because before it pages may be untouched and so on no node.
            f();
            return counts.add(accesses);
        }
        f();
    }

    fn join<A: Send, B: Send>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        join(a, b)
    }

    fn tasks<F: FnOnce() + Send>(&self, order: TaskOrder, tasks: impl Iterator<Item = (Task, F)>) {
        in_place_scope(|scope| {
            for (Task { kind, accesses }, f) in tasks {
                let task = match kind {
                    Kind::Immediate => scope.task().immediate(),
                    Kind::Deferred => scope.task(),
                };
                let task = match order {
                    TaskOrder::Free => task.touches(&accesses),
                    TaskOrder::ByData => task.follows(&accesses),
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
