//! Parallel loops.

use crate::codes::NO_SHEPHERD;
use crate::count::Count;
use crate::each::{Counted, each, each_worker, part, workers};
use crate::exports;
use crate::fork::{finish_part, spawn_part};
use crate::library;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) type Body = unsafe extern "C-unwind" fn(usize, usize, *mut libc::c_void);
type Step = unsafe extern "C-unwind" fn(*mut libc::c_void);
type Folding = unsafe extern "C-unwind" fn(usize, usize, *mut libc::c_void, *mut libc::c_void);
pub(crate) type Accumulate = unsafe extern "C-unwind" fn(*mut libc::c_void, *const libc::c_void);

/// The program's pointer for all threads of a loop.
#[derive(Clone, Copy)]
pub(crate) struct Argument(pub(crate) *mut libc::c_void);

// SAFETY: rule "Interface": an address that the program gives to all threads of a loop. Rule "Shared": or one of memory
// that they own.
unsafe impl Send for Argument {}
// SAFETY: as above.
unsafe impl Sync for Argument {}

impl Argument {
    pub(crate) fn get(self) -> *mut libc::c_void {
        self.0
    }
}

fn one_by_one(start: usize, stop: usize, f: Option<Body>, argument: *mut libc::c_void) {
    let (Some(f), argument) = (f, Argument(argument)) else { return };
    // SAFETY: rule "Interface": the program's function for a part of the loop, with its argument.
    let call = move |index: usize| unsafe { f(start + index, start + index + 1, argument.get()) };
    each(stop.saturating_sub(start), |_, library| library.shepherd_for_any(), call);
}

fn balanced(start: usize, stop: usize, f: Option<Body>, argument: *mut libc::c_void) {
    let (Some(f), argument) = (f, Argument(argument)) else { return };
    let parts = workers();
    each_worker(parts, move |index| {
        let (from, to) = part(start, stop, index, parts);
        if from < to {
            // SAFETY: rule "Interface": the program's function for a part of the loop, with its argument.
            unsafe { f(from, to, argument.get()) };
        }
    });
}

/// Results of parts, each as if in a line of the cache of its own.
pub(crate) struct Results {
    stride: usize,
    base: Argument,
    _all: Vec<u128>,
}

impl Results {
    pub(crate) fn new(count: usize, bytes: usize) -> Results {
        let stride = bytes.max(1).next_multiple_of(64);
        let mut all = vec![0; count * stride / size_of::<u128>()];
        Results { stride, base: Argument(all.as_mut_ptr().cast()), _all: all }
    }

    pub(crate) fn at(&self, index: usize) -> *mut libc::c_void {
        self.base.get().cast::<u8>().wrapping_add(index * self.stride).cast()
    }
}

/// Runs a loop whose parts have results, and puts these together.
fn folded(
    start: usize,
    stop: usize,
    bytes: usize,
    out: *mut libc::c_void,
    f: Option<Folding>,
    argument: *mut libc::c_void,
    accumulate: Option<Accumulate>,
) {
    let (Some(f), Some(accumulate), argument) = (f, accumulate, Argument(argument)) else { return };
    let parts = workers();
    let results = Arc::new(Results::new(parts, bytes));
    let theirs = Arc::clone(&results);
    each_worker(parts, move |index| {
        let (from, to) = part(start, stop, index, parts);
        if from < to {
            // SAFETY: as in `balanced`; each part has its own result. Rule "Shared": the function owns them.
            unsafe { f(from, to, argument.get(), theirs.at(index)) };
        }
    });
    let is_there = |&index: &usize| {
        let (from, to) = part(start, stop, index, parts);
        from < to
    };
    // SAFETY: rule "Interface": the program's function, with results that no thread writes any more.
    (0..parts).filter(is_there).for_each(|index| unsafe { accumulate(out, results.at(index)) });
}

/// How workers of a loop cut their parts off the rest, by the numbers of the header.
mod kinds {
    pub(super) const CHUNK: u32 = 0;
    pub(super) const GUIDED: u32 = 1;
    pub(super) const FACTORED: u32 = 2;
    pub(super) const TIMED: u32 = 3;
}

/// A loop with parts taken by workers as they come.
pub(crate) struct LoopQueue {
    kind: u32,
    stop: usize,
    stride: usize,
    chunk: AtomicUsize,
    next: AtomicUsize,
    f: Calls,
    argument: Argument,
    left: Count,
}

impl AsRef<Count> for LoopQueue {
    fn as_ref(&self) -> &Count {
        &self.left
    }
}

#[derive(Clone, Copy)]
enum Calls {
    Body(Body),
    Step(Step),
}

impl LoopQueue {
    fn new(kind: u32, range: (usize, usize), stride: usize, f: Calls, argument: *mut libc::c_void) -> Arc<LoopQueue> {
        let (start, stop) = range;
        Arc::new(LoopQueue {
            kind,
            stop,
            stride: stride.max(1),
            chunk: AtomicUsize::new(1),
            next: AtomicUsize::new(start),
            f,
            argument: Argument(argument),
            left: Count::new(),
        })
    }

    /// The next part.
    fn take(&self) -> Option<(usize, usize)> {
        let parts = workers();
        let mut from = self.next.load(Ordering::Relaxed);
        loop {
            if from >= self.stop {
                return None;
            }
            let left = (self.stop - from).div_ceil(self.stride);
            let count = match self.kind {
                kinds::GUIDED => left.div_ceil(parts),
                kinds::FACTORED => left.div_ceil(2 * parts),
                // Parts of equal time: small ones even out the others.
                kinds::TIMED => left.div_ceil(8 * parts),
                _ => self.chunk.load(Ordering::Relaxed).max(1),
            };
            let to = from.saturating_add(count.saturating_mul(self.stride)).min(self.stop);
            match self.next.compare_exchange_weak(from, to, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some((from, to)),
                Err(now) => from = now,
            }
        }
    }

    fn work(&self) {
        while let Some((from, to)) = self.take() {
            match self.f {
                // SAFETY: rule "Interface": the program's function for a part of the loop, with its argument.
                Calls::Body(f) => unsafe { f(from, to, self.argument.get()) },
                Calls::Step(f) => {
                    // SAFETY: as above.
                    (from..to).step_by(self.stride).for_each(|_| unsafe { f(self.argument.get()) });
                }
            }
        }
    }

    /// One more thread works on it.
    fn add_worker(self: &Arc<Self>, shepherd: u16) {
        let Some(library) = library::get() else { return self.work() };
        let shepherd = if shepherd == NO_SHEPHERD { shepherd } else { library.enabled_near(shepherd) };
        // Without a thread, the calling one works on it.
        self.left.add(2);
        let [own, meanwhile] = [(); 2].map(|()| Counted::new(self));
        let part = move || {
            own.work();
            finish_part();
        };
        if !spawn_part(library, shepherd, part) {
            meanwhile.work();
        }
    }

    fn run(self: Arc<Self>, shepherd: u16) {
        if let Some(library) = library::get() {
            match shepherd {
                NO_SHEPHERD => {
                    (0..workers()).for_each(|index| self.add_worker(crate::each::worker_in_turn(index, library)));
                }
                there => {
                    let there = library.enabled_near(there);
                    let count = library.shepherds[usize::from(there)].active_workers().max(1);
                    (0..count).for_each(|_| self.add_worker(there));
                }
            }
        } else {
            self.work();
        }
        self.left.wait();
    }
}

/// A loop's queue, one more use of it; `None` for null.
///
/// # Safety
/// Rule "Objects": made by [`Arc::into_raw`], and not run to its end.
unsafe fn borrowed(queue: *mut LoopQueue) -> Option<Arc<LoopQueue>> {
    if queue.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe {
        Arc::increment_strong_count(queue);
        Some(Arc::from_raw(queue))
    }
}

exports! {
    fn qt_loop(start: usize, stop: usize, f: Option<Body>, argument: *mut libc::c_void) {
        one_by_one(start, stop, f, argument);
    }

    fn qt_loop_simple(start: usize, stop: usize, f: Option<Body>, argument: *mut libc::c_void) {
        one_by_one(start, stop, f, argument);
    }

    fn qt_loop_sv(start: usize, stop: usize, f: Option<Body>, argument: *mut libc::c_void) {
        one_by_one(start, stop, f, argument);
    }

    fn qt_loop_dc(start: usize, stop: usize, f: Option<Body>, argument: *mut libc::c_void) {
        one_by_one(start, stop, f, argument);
    }

    fn qt_loop_aligned(start: usize, stop: usize, f: Option<Body>, argument: *mut libc::c_void) {
        one_by_one(start, stop, f, argument);
    }

    fn qt_loop_sinc(start: usize, stop: usize, f: Option<Body>, argument: *mut libc::c_void) {
        one_by_one(start, stop, f, argument);
    }

    fn qt_loop_step(start: usize, stop: usize, stride: usize, f: Option<Step>, argument: *mut libc::c_void) {
        let (Some(f), argument) = (f, Argument(argument)) else { return };
        let count = stop.saturating_sub(start).div_ceil(stride.max(1));
        // SAFETY: rule "Interface": the program's function for a part of the loop, with its argument.
        each(count, |_, library| library.shepherd_for_any(), move |_| unsafe { f(argument.get()) });
    }

    fn qt_loop_balance(start: usize, stop: usize, f: Option<Body>, argument: *mut libc::c_void) {
        balanced(start, stop, f, argument);
    }

    fn qt_loop_balance_simple(start: usize, stop: usize, f: Option<Body>, argument: *mut libc::c_void) {
        balanced(start, stop, f, argument);
    }

    fn qt_loop_balance_sv(start: usize, stop: usize, f: Option<Body>, argument: *mut libc::c_void) {
        balanced(start, stop, f, argument);
    }

    fn qt_loop_balance_dc(start: usize, stop: usize, f: Option<Body>, argument: *mut libc::c_void) {
        balanced(start, stop, f, argument);
    }

    fn qt_loop_balance_aligned(start: usize, stop: usize, f: Option<Body>, argument: *mut libc::c_void) {
        balanced(start, stop, f, argument);
    }

    fn qt_loop_balance_sinc(start: usize, stop: usize, f: Option<Body>, argument: *mut libc::c_void) {
        balanced(start, stop, f, argument);
    }

    fn qt_loopaccum_balance(
        start: usize,
        stop: usize,
        bytes: usize,
        out: *mut libc::c_void,
        f: Option<Folding>,
        argument: *mut libc::c_void,
        accumulate: Option<Accumulate>,
    ) {
        folded(start, stop, bytes, out, f, argument, accumulate);
    }

    fn qt_loopaccum_balance_sinc(
        start: usize,
        stop: usize,
        bytes: usize,
        out: *mut libc::c_void,
        f: Option<Folding>,
        argument: *mut libc::c_void,
        accumulate: Option<Accumulate>,
    ) {
        folded(start, stop, bytes, out, f, argument, accumulate);
    }

    fn qt_loopaccum_balance_sv(
        start: usize,
        stop: usize,
        bytes: usize,
        out: *mut libc::c_void,
        f: Option<Folding>,
        argument: *mut libc::c_void,
        accumulate: Option<Accumulate>,
    ) {
        folded(start, stop, bytes, out, f, argument, accumulate);
    }

    fn qt_loopaccum_balance_dc(
        start: usize,
        stop: usize,
        bytes: usize,
        out: *mut libc::c_void,
        f: Option<Folding>,
        argument: *mut libc::c_void,
        accumulate: Option<Accumulate>,
    ) {
        folded(start, stop, bytes, out, f, argument, accumulate);
    }

    fn qt_loop_queue_create(
        kind: u32,
        start: usize,
        stop: usize,
        stride: usize,
        f: Option<Body>,
        argument: *mut libc::c_void,
    ) -> *const LoopQueue {
        if kind > kinds::TIMED {
            return ptr::null();
        }
        let Some(f) = f else { return ptr::null() };
        Arc::into_raw(LoopQueue::new(kind, (start, stop), stride, Calls::Body(f), argument))
    }

    fn qt_loop_step_queue_create(
        kind: u32,
        start: usize,
        stop: usize,
        stride: usize,
        f: Option<Step>,
        argument: *mut libc::c_void,
    ) -> *const LoopQueue {
        let Some(f) = f.filter(|_| kind <= kinds::TIMED) else { return ptr::null() };
        Arc::into_raw(LoopQueue::new(kind, (start, stop), stride, Calls::Step(f), argument))
    }

    fn qt_loop_queue_setchunk(queue: *mut LoopQueue, chunk: usize) {
        // SAFETY: rule "Objects": null, or a queue that has not run.
        if let Some(queue) = unsafe { queue.as_ref() }.filter(|queue| queue.kind == kinds::CHUNK) {
            queue.chunk.store(chunk.max(1), Ordering::Relaxed);
        }
    }

    fn qt_loop_queue_run(queue: *mut LoopQueue) {
        if !queue.is_null() {
            // SAFETY: rule "Objects": made by `Arc::into_raw`; the program gives it up with this call.
            unsafe { Arc::from_raw(queue) }.run(NO_SHEPHERD);
        }
    }

    fn qt_loop_queue_run_there(queue: *mut LoopQueue, shepherd: u16) {
        if !queue.is_null() {
            // SAFETY: rule "Objects": made by `Arc::into_raw`; the program gives it up with this call.
            unsafe { Arc::from_raw(queue) }.run(shepherd);
        }
    }

    fn qt_loop_queue_addworker(queue: *mut LoopQueue, shepherd: u16) {
        // SAFETY: rule "Objects": null, or a queue that has not run to its end.
        if let Some(queue) = unsafe { borrowed(queue) } {
            queue.add_worker(shepherd);
        }
    }
}
