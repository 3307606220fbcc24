//! A closure in a block of its own, which is counted in a context until it is over.

use super::class::closure_class;
use crate::memory::heaps;
use crate::memory::slab::BLOCK_ALIGN;
use crate::memory::slab::BLOCK_BYTES;
use crate::runtime::latch::Tell as _;
use crate::runtime::worker::context::close_all_groups;
use crate::runtime::worker::{Worker, in_task, with_shared};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use vicus_schedule::{Context, ContextRef, TaskClass, TaskHeader, TaskRef, Waiter};

/// A closure in a block: one of the seat's slab, or one of the heap if it is large.
#[repr(C)]
pub(super) struct Job<F> {
    /// First, so that its address is the job's.
    header: TaskHeader,
    f: F,
}

impl<F: FnOnce(ContextRef) + Send> Job<F> {
    const CLASS: &'static TaskClass = &closure_class(run::<F>);

    /// Whether it fits into a block of the slab.
    const IS_SMALL: bool = size_of::<Job<F>>() <= BLOCK_BYTES && align_of::<Job<F>>() <= BLOCK_ALIGN;

    /// A task of this context, for a queue; with or without data by which its children are dealt.
    ///
    /// # Safety
    /// The context, and all values borrowed by the closure, live until the context has no open tasks. The closure gets
    /// this pointer.
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see: the closure's lifetime")]
    pub(super) unsafe fn task(worker: &mut Worker, context: *const Context, has_data: bool, f: F) -> TaskRef {
        let number = worker.recorder.number();
        let context_ref = ContextRef::new(context);
        // SAFETY: the caller's promise.
        let context = unsafe { &*context };
        context.begin_one(worker.seat);
        let header =
            TaskHeader { class: Self::CLASS, context: context_ref, request: context.request(), number, has_data };
        let job = Job { header, f };
        let block: *mut Job<F> = if Self::IS_SMALL {
            let block = worker.slab.take(&worker.shared.storage.blocks).as_ptr().cast();
            // SAFETY: the block is large enough, aligned, and was just taken.
            unsafe {
                std::ptr::write(block, job);
            }
            block
        } else {
            Box::into_raw(Box::new(job))
        };
        // SAFETY: the header is the job's first field; the job stays in place until it is run; its closure is `Send`,
        // and lives long enough, by the caller's promise.
        unsafe { TaskRef::new(NonNull::new_unchecked(block.cast())) }
    }

    /// Takes the job out of its block, which goes back.
    ///
    /// # Safety
    /// `task` is from [`Job::task`] with this closure, and taken once, on a seat of the same runtime.
    #[inline]
    #[expect(unsafe_code, reason = "follows a task pointer")]
    unsafe fn take(worker: &mut Worker, task: TaskRef) -> Job<F> {
        let block = task.as_ptr().cast::<Job<F>>();
        // SAFETY: the caller's promise.
        unsafe {
            if Self::IS_SMALL {
                let job = block.read();
                worker.slab.give(&worker.shared.storage.blocks, block.cast());
                job
            } else {
                *Box::from_raw(block.as_ptr())
            }
        }
    }
}

/// Runs a job taken out of a queue.
#[expect(unsafe_code, reason = "the type of a class's functions")]
// SAFETY of callers: `task` is of a `Job<F>`, and was not run.
unsafe fn run<F: FnOnce(ContextRef) + Send>(task: TaskRef) {
    let (job, is_stopped) = in_task(|worker| {
        worker.begin_task(task);
        let is_stopped = worker.shared.ongoing.stopped.has(task.header().request);
        // SAFETY: the caller's promise.
        (unsafe { Job::<F>::take(worker, task) }, is_stopped)
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
        (worker.frame.context, worker.seat)
    });
    if own.is_some() {
        // SAFETY: the caller's promise.
        return unsafe { end_with_children(header, context) };
    }
    heaps::finish_task();
    // SAFETY: by the caller's promise this is the only end of the job; contexts are of the kind taken by `free`.
    unsafe { context.end_one(None, seat, ask, free) };
}

/// # Safety
/// As [`end`]; the job has a context of its own.
#[cold]
#[expect(unsafe_code, reason = "ends a task in its context")]
unsafe fn end_with_children(header: &TaskHeader, context: &Context) {
    close_all_groups();
    let (own, seat) = in_task(|worker| {
        worker.recorder.task_ends(header);
        (worker.frame.context.take(), worker.seat)
    });
    heaps::finish_task();
    // SAFETY: as in `end`; `own` was made for the job's children, with this context as its parent.
    unsafe { context.end_one(own.map(|own| own.as_ptr().cast_const()), seat, ask, free) };
}

/// Has a seat or a fibre check whether its awaited task is over.
pub(super) fn ask(waiter: Waiter) {
    with_shared(|shared| shared.tell(waiter));
}

/// Frees the context of an ended task.
pub(super) fn free(context: *const Context) {
    #[expect(unsafe_code, reason = "frees what `Worker::context` made")]
    // SAFETY: it was made in a Box, and `Context::end_one` hands it out once, when no pointer to it is left.
    drop(unsafe { Box::from_raw(context.cast_mut()) });
}
