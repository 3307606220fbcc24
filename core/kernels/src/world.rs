//! What a kernel is written against.

use std::marker::PhantomData;
use std::ops::Range;
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Kind, Mode};

/// Where a kernel runs.
///
/// Work is done inside [`World::work`] alone: whatever else a kernel does, its loops and its submissions, must not depend on
/// the arrays' contents, because a world that only records has none.
pub trait World: Sync + Sized {
    /// How many threads work.
    fn threads(&self) -> usize;

    /// An array of zeroes, laid over the locations by a distribution, and written by nobody yet. It lives as long as the
    /// world.
    fn array<T: Element>(&self, len: usize, distribution: &Distribution) -> Array<'_, T>;

    /// A piece of work of the task that calls it: `f`, which reads and writes what `accesses` say.
    fn work(&self, leaf: Leaf, accesses: &[Access], f: impl FnOnce());

    /// Two branches, maybe at once. Both are over when it returns.
    fn join<A: Send, B: Send>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B);

    /// Submits tasks in this order. All are over when it returns.
    fn tasks<F: FnOnce() + Send>(&self, order: Order, tasks: impl Iterator<Item = (Task, F)>);

    /// A loop whose iterations are dealt to the threads beforehand, as OpenMP's static schedules do. No thread takes another's.
    fn each(&self, iterations: usize, schedule: Schedule, body: impl Fn(usize) + Sync);
}

/// A benchmark with its input.
pub trait Kernel: Sync {
    /// Its name, as users write it.
    fn name(&self) -> &'static str;

    /// How its arrays lie, to be changed; `None` if it has none.
    fn distribution(&mut self) -> Option<&mut Distribution> {
        None
    }

    /// Makes its input larger or smaller: about so many times as many tasks, each as long as before.
    fn scale(&mut self, times: f64);

    /// Prepares its arrays, calls `start` where the measured part begins, runs it, calls `end`, and returns a number that
    /// tells the result: the same in every world that computes, whatever the order of tasks.
    fn run<W: World>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64;
}

/// What a piece of work costs besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leaf {
    /// Its name: pieces of one name take about the same time for each operation. Those of kernels are in [`LEAVES`](crate::LEAVES).
    pub name: &'static str,
    /// How many operations it takes: of arithmetic, of bits, comparisons, with or without a point. Loads and stores, addresses and
    /// loops are not among them.
    pub flops: u64,
}

/// Which tasks of one submission wait for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// None.
    Free,
    /// A task waits for the earlier ones that write what it reads or writes, and for those that read what it writes.
    ByData,
}

/// How the iterations of a loop are dealt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// One contiguous part for each thread: `schedule(static)`.
    Static,
    /// So many iterations for each thread in turn: `schedule(static, n)`.
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
        // The first threads get one more, as in GCC's and LLVM's runtimes.
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

/// What is known of a task when it is submitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// In which of the two ways it is queued.
    pub kind: Kind,
    /// What it reads and writes: its footprint.
    pub accesses: Vec<Access>,
}

impl Task {
    /// A deferred task with this footprint.
    pub fn new(accesses: impl Into<Vec<Access>>) -> Task {
        Task { kind: Kind::Deferred, accesses: accesses.into() }
    }
}

/// Plain numbers, which a fresh page of zeroes holds.
pub trait Element: Copy + Default + Send + Sync + 'static {}

impl Element for f32 {}
impl Element for f64 {}
impl Element for i32 {}
impl Element for u64 {}

/// Memory of a world: an address and a length. Copies tell of the same memory.
#[derive(Debug)]
pub struct Array<'w, T> {
    /// Where it begins; no memory is there in a world that only records.
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
// SAFETY: it gives out references by unsafe functions alone, whose callers promise that nobody else has them.
unsafe impl<T: Send> Send for Array<'_, T> {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Array<'_, T> {}

impl<'w, T: Element> Array<'w, T> {
    /// An array at this address. A world that only records may give any number, if arrays don't overlap.
    pub fn new(start: *mut T, len: usize) -> Array<'w, T> {
        Array { start, len, world: PhantomData }
    }

    /// Some of its elements as an array.
    pub fn slice(&self, elements: Range<usize>) -> Array<'w, T> {
        self.check(&elements);
        // Wrapping, because there may be no memory.
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

    /// What a task says that reads these elements.
    pub fn reads(&self, elements: Range<usize>) -> Access {
        self.access(elements, Mode::Read)
    }

    /// What a task says that overwrites these elements.
    pub fn writes(&self, elements: Range<usize>) -> Access {
        self.access(elements, Mode::Write)
    }

    /// What a task says that reads and writes these elements.
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

    /// Some of its elements.
    ///
    /// # Safety
    /// Called in [`World::work`], by a task that nobody runs beside who writes them.
    #[expect(unsafe_code, reason = "tasks share arrays, which the compiler can't follow")]
    pub unsafe fn part(&self, elements: Range<usize>) -> &'w [T] {
        self.check(&elements);
        // SAFETY: inside the array, which lives as long as the world; the caller promises that nobody writes there.
        unsafe { std::slice::from_raw_parts(self.start.add(elements.start), elements.len()) }
    }

    /// Some of its elements, to be changed.
    ///
    /// # Safety
    /// Called in [`World::work`], by a task that nobody runs beside who reads or writes them.
    #[expect(unsafe_code, reason = "tasks share arrays, which the compiler can't follow")]
    pub unsafe fn part_mut(&self, elements: Range<usize>) -> &'w mut [T] {
        self.check(&elements);
        // SAFETY: inside the array, which lives as long as the world; the caller promises that nobody else is there.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(elements.start), elements.len()) }
    }
}
