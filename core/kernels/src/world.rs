//! The interface between kernels and worlds.

use std::marker::PhantomData;
use std::ops::Range;
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Kind, Mode};

/// The environment of a kernel's run.
///
/// Only [`KernelWorld::work`] does work. A kernel's loops and submissions must not depend on the arrays' contents,
/// because a world that only records has no memory behind them.
pub trait KernelWorld: Sync + Sized {
    /// The number of threads.
    fn threads(&self) -> usize;

    /// An array of zeros, laid over the locations by a distribution, with no page of it touched. It lives as long as
    /// the world.
    fn array<T: Element>(&self, len: usize, distribution: &Distribution) -> Array<'_, T>;

    /// Runs `f`, a piece of work of the current task. It reads and writes the bytes declared by `accesses`.
    fn work(&self, leaf: Leaf, accesses: &[Access], f: impl FnOnce());

    /// Runs both, perhaps in parallel; returns when both have ended.
    fn join<A: Send, B: Send>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B);

    /// Submits tasks in this order; returns when all have ended.
    fn tasks<F: FnOnce() + Send>(&self, order: TaskOrder, tasks: impl Iterator<Item = (Task, F)>);

    /// A loop with its iterations assigned to threads in advance, as by OpenMP's static schedules; no thread takes
    /// another's.
    fn each(&self, iterations: usize, schedule: Schedule, body: impl Fn(usize) + Sync);
}

/// A benchmark with its input.
pub trait Kernel: Sync {
    /// Its name, as users write it.
    fn name(&self) -> &'static str;

    /// The distribution of its arrays, mutable; `None` if it has no arrays.
    fn distribution(&mut self) -> Option<&mut Distribution> {
        None
    }

    /// Scales its input to about `times` times as many tasks, each as long as before.
    fn scale(&mut self, times: f64);

    /// Prepares the arrays, calls `start` at the beginning of the measured part, runs the kernel, calls `end`, and
    /// returns a number for the result: the same in every world that computes, in any order of tasks.
    fn run<W: KernelWorld>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64;
}

/// The cost of a piece of work besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leaf {
    /// The name. Pieces of work with the same name take about the same time for each operation.
    /// [`LEAVES`](crate::LEAVES) lists the kernels' names.
    pub name: &'static str,
    /// The number of operations: arithmetic on integers and floats, bit operations, comparisons. Loads, stores,
    /// addresses and loops are not counted.
    pub flops: u64,
}

/// The tasks of a submission that wait for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskOrder {
    /// No task waits.
    Free,
    /// A task waits for earlier tasks that write its data, and, if it writes, for the readers of these data.
    ByData,
}

/// How iterations of a loop are assigned to threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// One contiguous part for each thread: `schedule(static)`.
    Static,
    /// This many iterations for each thread in turn: `schedule(static, n)`.
    Chunks(usize),
}

impl Schedule {
    /// The iterations of one thread, in order.
    ///
    /// ```
    /// use vicus_kernels::Schedule;
    /// assert_eq!(Schedule::Static.of_thread(1, 3, 8).collect::<Vec<_>>(), [3, 4, 5]);
    /// assert_eq!(Schedule::Chunks(1).of_thread(1, 3, 8).collect::<Vec<_>>(), [1, 4, 7]);
    /// ```
    pub fn of_thread(self, thread: usize, threads: usize, iterations: usize) -> impl Iterator<Item = usize> {
        // The first threads get one iteration more, as in GCC's and LLVM's runtimes.
        let (share, more) = (iterations / threads, iterations % threads);
        let first = thread * share + thread.min(more);
        let last = first + share + usize::from(thread < more);
        let chunk = match self {
            Schedule::Static => 1,
            Schedule::Chunks(chunk) => chunk.max(1),
        };
        (0..iterations).filter(move |iteration| match self {
            Schedule::Static => (first..last).contains(iteration),
            Schedule::Chunks(_) => iteration / chunk % threads == thread,
        })
    }
}

/// A task's declaration at its submission.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// How the task is queued.
    pub kind: Kind,
    /// The footprint: its reads and writes.
    pub accesses: Vec<Access>,
}

impl Task {
    /// A deferred task with this footprint.
    pub fn new(accesses: impl Into<Vec<Access>>) -> Task {
        Task { kind: Kind::Deferred, accesses: accesses.into() }
    }
}

/// Plain numbers, valid with zero bytes.
pub trait Element: Copy + Default + Send + Sync + 'static {}

impl Element for f32 {}
impl Element for f64 {}
impl Element for i32 {}
impl Element for u64 {}
impl Element for u8 {}

/// Memory of a world: an address and a length. Copies refer to the same memory.
#[derive(Debug)]
pub struct Array<'w, T> {
    /// The address. In a world that only records, there is no memory behind it.
    start: *mut T,
    len: usize,
    world: PhantomData<&'w T>,
}

impl<T> Clone for Array<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Array<'_, T> {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: references are made in unsafe functions only, whose callers promise that no other thread uses the elements.
unsafe impl<T: Send> Send for Array<'_, T> {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Array<'_, T> {}

impl<'w, T: Element> Array<'w, T> {
    /// An array at this address. A world that only records may choose any address, as long as arrays don't overlap.
    pub fn new(start: *mut T, len: usize) -> Array<'w, T> {
        Array { start, len, world: PhantomData }
    }

    /// A part of the array.
    pub fn slice(&self, elements: Range<usize>) -> Array<'w, T> {
        self.check(&elements);
        // Wrapping, because there may be no memory behind the address.
        Array::new(self.start.wrapping_add(elements.start), elements.len())
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The access of a task that reads these elements.
    pub fn reads(&self, elements: Range<usize>) -> Access {
        self.access(elements, Mode::Read)
    }

    /// The access of a task that overwrites these elements.
    pub fn writes(&self, elements: Range<usize>) -> Access {
        self.access(elements, Mode::Write)
    }

    /// The access of a task that reads and writes these elements.
    pub fn changes(&self, elements: Range<usize>) -> Access {
        self.access(elements, Mode::ReadWrite)
    }

    fn access(&self, elements: Range<usize>, mode: Mode) -> Access {
        self.check(&elements);
        let start = self.start.addr() + elements.start * size_of::<T>();
        Access::new(start, elements.len() * size_of::<T>(), mode)
    }

    fn check(&self, elements: &Range<usize>) {
        assert!(
            elements.start <= elements.end && elements.end <= self.len,
            "elements {elements:?} of an array of {}",
            self.len
        );
    }

    /// A part of the elements.
    ///
    /// # Safety
    /// Must be called in [`KernelWorld::work`], and no concurrent task may write these elements.
    #[expect(unsafe_code, reason = "tasks share arrays, which the compiler can't follow")]
    pub unsafe fn part(&self, elements: Range<usize>) -> &'w [T] {
        self.check(&elements);
        // SAFETY: inside the array, alive as long as the world; the caller promises that no task writes there.
        unsafe { std::slice::from_raw_parts(self.start.add(elements.start), elements.len()) }
    }

    /// A part of the elements, mutable.
    ///
    /// # Safety
    /// Must be called in [`KernelWorld::work`], and no concurrent task may read or write these elements.
    #[expect(unsafe_code, reason = "tasks share arrays, which the compiler can't follow")]
    pub unsafe fn part_mut(&self, elements: Range<usize>) -> &'w mut [T] {
        self.check(&elements);
        // SAFETY: inside the array, alive as long as the world; the caller promises that no other task uses it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(elements.start), elements.len()) }
    }
}
