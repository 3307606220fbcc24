//! A closure in a block of its own, which is counted in a context until it is over. The block is one of the seat's, or
//! lies in memory of the task's maker: so a task of a language's runtime is one object, with the runtime's part and the
//! language's.

use super::class::closure_class;
use super::context::close_all_groups;
use super::{Worker, in_task, with_shared};
use crate::memory::heaps;
use crate::memory::slab::BLOCK_ALIGN;
use crate::memory::slab::BLOCK_BYTES;
use crate::runtime::latch::Notify as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use vicus_schedule::{Context, ContextRef, TaskClass, TaskHeader, TaskRef, Waiter};

/// A closure in a block.
#[repr(C)]
pub(crate) struct Job<F> {
    /// First, so that its address is the job's.
    header: TaskHeader,
    f: F,
}

/// Where jobs lie.
pub(crate) trait Store {
    /// Puts a job into a block.
    fn put<F>(self, worker: &mut Worker, job: Job<F>) -> NonNull<Job<F>>;

    /// Takes a job out of its block, which goes back.
    ///
    /// # Safety
    /// The block is from [`Store::put`] of a store of this type with a job of this type, on a seat of the same runtime.
    /// It is taken once.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    unsafe fn take<F>(worker: &mut Worker, block: NonNull<Job<F>>) -> Job<F>;
}

/// A block of the seat's slab, or one of the heap for a large job.
pub(crate) struct OfSeat;

impl OfSeat {
    /// Whether such a job fits into a block of the slab.
    const fn holds<F>() -> bool {
        size_of::<Job<F>>() <= BLOCK_BYTES && align_of::<Job<F>>() <= BLOCK_ALIGN
    }
}

impl Store for OfSeat {
    #[inline]
    fn put<F>(self, worker: &mut Worker, job: Job<F>) -> NonNull<Job<F>> {
        if !const { Self::holds::<F>() } {
            return NonNull::from(Box::leak(Box::new(job)));
        }
        let block = worker.supplies.slab.take(&worker.shared.storage.blocks).cast();
        #[expect(unsafe_code, reason = "writes into a block")]
        // SAFETY: the block is large enough, aligned, and was just taken.
        unsafe {
            block.write(job);
        }
        block
    }

    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    unsafe fn take<F>(worker: &mut Worker, block: NonNull<Job<F>>) -> Job<F> {
        // SAFETY: the caller's promise.
        unsafe {
            if !const { Self::holds::<F>() } {
                return *Box::from_raw(block.as_ptr());
            }
            let job = block.read();
            worker.supplies.slab.give(&worker.shared.storage.blocks, block.cast());
            job
        }
    }
}

/// Memory for one task, which belongs to the task's maker: the runtime allocates nothing for the task. Its closure
/// knows the memory and frees it.
///
/// # Safety
/// Up to the address of `end`, a multiple of 8, lie `BYTES` bytes for the task alone, from any thread. They stay until
/// the task's closure is called, or dropped.
#[expect(unsafe_code, reason = "the type system can't see how much memory lies at an address, nor how long")]
pub unsafe trait TaskMemory {
    /// How many bytes there are. Closures with a larger task get memory of the heap.
    const BYTES: usize;

    /// The end of the memory: the task lies right in front of it.
    fn end(&self) -> NonNull<u8>;
}

/// A block in the memory of the task's maker.
pub(crate) struct OfMaker<M>(pub(crate) M);

impl<M: TaskMemory> OfMaker<M> {
    /// Whether such a job fits into the memory.
    const fn holds<F>() -> bool {
        size_of::<Job<F>>() <= M::BYTES && align_of::<Job<F>>() <= 8
    }
}

impl<M: TaskMemory> Store for OfMaker<M> {
    #[inline]
    fn put<F>(self, _: &mut Worker, job: Job<F>) -> NonNull<Job<F>> {
        if !const { Self::holds::<F>() } {
            return NonNull::from(Box::leak(Box::new(job)));
        }
        #[expect(unsafe_code, reason = "writes into the maker's memory")]
        // SAFETY: the maker of the memory promises that the bytes before its end are the task's, and the job is not
        // larger; a job's size is a multiple of its alignment, which divides 8, as 8 divides the end's address.
        unsafe {
            let block = self.0.end().cast::<Job<F>>().sub(1);
            block.write(job);
            block
        }
    }

    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    unsafe fn take<F>(_: &mut Worker, block: NonNull<Job<F>>) -> Job<F> {
        // SAFETY: the caller's promise; the memory stays until the closure, which is moved here, is called or dropped.
        unsafe { if const { Self::holds::<F>() } { block.read() } else { *Box::from_raw(block.as_ptr()) } }
    }
}

impl<F: FnOnce(ContextRef) + Send> Job<F> {
    const fn class<S: Store>() -> &'static TaskClass {
        const { &closure_class(run::<F, S>) }
    }

    /// A task of this context, for a queue; with or without data by which its children are dealt.
    ///
    /// # Safety
    /// The context, and all values borrowed by the closure, live until the context has no open tasks. The closure gets
    /// this pointer.
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see: the closure's lifetime")]
    pub(crate) unsafe fn task<S: Store>(
        worker: &mut Worker,
        context: *const Context,
        has_data: bool,
        store: S,
        f: F,
    ) -> TaskRef {
        let number = worker.recorder.number();
        let context_ref = ContextRef::new(context);
        // SAFETY: the caller's promise.
        let context = unsafe { &*context };
        context.begin_one(worker.seat_id);
        let class = Self::class::<S>();
        let header = TaskHeader { class, context: context_ref, request: context.request(), number, has_data };
        let block = store.put(worker, Job { header, f });
        // SAFETY: the header is the job's first field; the job stays in place until it is run; its closure is `Send`,
        // and lives long enough, by the caller's promise.
        unsafe { TaskRef::new(block.cast()) }
    }
}

/// Runs a job taken out of a queue.
#[expect(unsafe_code, reason = "the type of a class's functions")]
// SAFETY of callers: `task` is of a `Job<F>` in such a store, and was not run.
unsafe fn run<F: FnOnce(ContextRef) + Send, S: Store>(task: TaskRef) {
    let (job, is_stopped) = in_task(|worker| {
        worker.begin_task(task);
        let is_stopped = worker.shared.ongoing.stopped.has(task.header().request);
        // SAFETY: the caller's promise.
        (unsafe { S::take::<F>(worker, task.as_ptr().cast()) }, is_stopped)
    });
    let Job { header, f } = job;
    // SAFETY: this job is counted in the context until `end` below.
    let context = unsafe { header.context.get() }.expect("a job has a context");
    let is_dropped = is_stopped || context.is_cancelled();
    let call = AssertUnwindSafe(|| if is_dropped { drop(f) } else { f(header.context) });
    if let Err(panic) = catch_unwind(call) {
        context.keep_panic(panic);
    }
    // SAFETY: the job has run, and is counted once.
    unsafe { end(&header, context) };
}

/// # Safety
/// The job with this header has run.
#[inline]
#[expect(unsafe_code, reason = "ends a task in its context")]
unsafe fn end(header: &TaskHeader, context: &Context) {
    let (own, seat) = in_task(|worker| {
        if worker.frame.context.is_none() {
            worker.recorder.task_ends(header);
        }
        (worker.frame.context, worker.seat_id)
    });
    if own.is_some() {
        // SAFETY: the caller's promise.
        return unsafe { end_with_children(header, context) };
    }
    heaps::finish_task();
    // SAFETY: by the caller's promise this is the only end of the job; contexts are of the kind taken by `free`.
    unsafe { context.end_one(None, seat, notify, free) };
}

/// # Safety
/// As [`end`]; the job has a context of its own.
#[cold]
#[expect(unsafe_code, reason = "ends a task in its context")]
unsafe fn end_with_children(header: &TaskHeader, context: &Context) {
    close_all_groups();
    let (own, seat) = in_task(|worker| {
        worker.recorder.task_ends(header);
        (worker.frame.context.take(), worker.seat_id)
    });
    heaps::finish_task();
    // SAFETY: as in `end`; `own` was made for the job's children, with this context as its parent.
    unsafe { context.end_one(own.map(|own| own.as_ptr().cast_const()), seat, notify, free) };
}

/// Has a seat or a fibre check whether its awaited task is over.
pub(crate) fn notify(waiter: Waiter) {
    with_shared(|shared| shared.notify(waiter));
}

/// Frees the context of an ended task.
pub(crate) fn free(context: *const Context) {
    #[expect(unsafe_code, reason = "frees what `Worker::context` made")]
    // SAFETY: it was made in a Box, and `Context::end_one` hands it out once, when no pointer to it is left.
    drop(unsafe { Box::from_raw(context.cast_mut()) });
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Job, OfMaker, TaskMemory};
    use crate::{MachineRuntime, child, open_group, spawn_child_in, wait_for_children};
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    /// Memory for one task, with a word behind the task.
    #[repr(C)]
    struct Own {
        room: [u64; 16],
        word: u64,
    }

    struct InFront(NonNull<Own>);

    #[expect(unsafe_code, reason = "the type system can't see how much memory lies at an address, nor how long")]
    // SAFETY: the room ends where the word begins; the test frees it in the closure, or when the closure is dropped.
    unsafe impl TaskMemory for InFront {
        const BYTES: usize = 16 * 8;

        fn end(&self) -> NonNull<u8> {
            #[expect(unsafe_code, reason = "makes a pointer to a field")]
            // SAFETY: the pointer is to a whole value.
            unsafe {
                NonNull::new_unchecked(&raw mut (*self.0.as_ptr()).word).cast()
            }
        }
    }

    /// A task's value with its memory, which it frees when it is run or dropped.
    struct Task {
        memory: NonNull<Own>,
        freed: Arc<AtomicUsize>,
    }

    #[expect(unsafe_code, reason = "it has a pointer")]
    // SAFETY: the memory is the task's alone.
    unsafe impl Send for Task {}

    impl Task {
        fn new(word: u64, freed: &Arc<AtomicUsize>) -> (Task, InFront) {
            let memory = NonNull::from(Box::leak(Box::new(Own { room: [0; 16], word })));
            (Task { memory, freed: Arc::clone(freed) }, InFront(memory))
        }

        fn word(&self) -> u64 {
            #[expect(unsafe_code, reason = "follows a pointer")]
            // SAFETY: the memory stays until the task is dropped.
            unsafe {
                self.memory.as_ref().word
            }
        }
    }

    impl Drop for Task {
        fn drop(&mut self) {
            #[expect(unsafe_code, reason = "frees what `new` made")]
            // SAFETY: it was made in a Box, and is freed once.
            drop(unsafe { Box::from_raw(self.memory.as_ptr()) });
            self.freed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What happened: a task of OpenMP had two blocks, one in the list of its thread and one of its seat.
    #[test]
    fn a_task_lies_in_the_memory_of_its_maker() {
        const TASKS: u64 = 3000;
        let freed = Arc::new(AtomicUsize::new(0));
        let words = Arc::new(Mutex::new(Vec::new()));
        MachineRuntime::builder().threads(2).start().run({
            let (freed, words) = (Arc::clone(&freed), Arc::clone(&words));
            move || {
                for number in 0..TASKS {
                    let (task, memory) = Task::new(number, &freed);
                    let words = Arc::clone(&words);
                    // Every third one has a priority, and every third one is too large for the memory.
                    match number % 3 {
                        0 => spawn_child_in(memory, move || words.lock().unwrap().push(task.word())),
                        1 => child().priority(1).spawn_in(memory, move || words.lock().unwrap().push(task.word())),
                        _ => {
                            let large = [number; 32];
                            spawn_child_in(memory, move || {
                                words.lock().unwrap().push(task.word() + large[31] - number)
                            });
                        }
                    }
                }
                wait_for_children();
            }
        });
        let mut words = std::mem::take(&mut *words.lock().unwrap());
        words.sort_unstable();
        assert!(words.into_iter().eq(0..TASKS));
        assert_eq!(freed.load(Ordering::Relaxed), TASKS as usize);
    }

    #[test]
    fn a_cancelled_task_frees_the_memory_of_its_maker() {
        let freed = Arc::new(AtomicUsize::new(0));
        MachineRuntime::builder().threads(1).start().run({
            let freed = Arc::clone(&freed);
            move || {
                open_group();
                let (task, memory) = Task::new(7, &freed);
                spawn_child_in(memory, move || panic!("{} was cancelled before it began", task.word()));
                crate::cancel_group();
                crate::close_group();
            }
        });
        assert_eq!(freed.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn only_tasks_that_fit_lie_in_the_memory() {
        assert!(OfMaker::<InFront>::holds::<[u64; 11]>());
        assert!(!OfMaker::<InFront>::holds::<[u64; 12]>(), "{} bytes", size_of::<Job<[u64; 12]>>());
        assert!(!OfMaker::<InFront>::holds::<u128>(), "the end's address is a multiple of 8 alone");
    }
}
