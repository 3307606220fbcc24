//! A lightweight thread: its closure before it runs, its result afterwards, and its waiting joiner.

use crate::threads::cells::{self, SeatCells};
use crate::threads::fibres::{self, Fibre, of_worker};
use crate::threads::locals::Locals;
use crate::threads::starved;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit, needs_drop};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::thread;
use vicus_fibres::Class;
use vicus_machine::layer::{EndSignal, drop_quietly, finish_task, in_task, outside, with_descendants};
use vicus_schedule::{ContextRef, RequestId, TaskClass, TaskHeader, TaskRef, Way};

/// The error of a thread that did not begin, or of an aborted wait, because the runtime was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeEnded;

impl fmt::Display for RuntimeEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime of the lightweight thread was dropped")
    }
}

impl std::error::Error for RuntimeEnded {}

/// The part of a thread that does not depend on its closure.
#[repr(C)]
pub(crate) struct Core {
    /// First, so that its address is the task's.
    header: TaskHeader,
    table: &'static Table,
    /// [`OPEN`], [`OVER`], [`DETACHED`], or the waiting joiner: a fibre's address, or one of [`Joiner`]'s with a tag.
    state: AtomicUsize,
    pub(crate) id: u64,
    pub(crate) spawned_at: &'static Location<'static>,
    /// See [`set_word`](crate::set_word).
    pub(crate) word: Cell<usize>,
    pub(crate) locals: Cell<Option<Box<Locals>>>,
    pub(crate) name: Option<Name>,
    /// Its values are dropped, or were: there are no more.
    pub(crate) are_locals_over: Cell<bool>,
    class: Class,
    /// See [`Builder::follow`](crate::Builder::follow).
    follows: bool,
}

/// A thread's name: one word, as most have none.
#[derive(Clone, Debug)]
pub(crate) struct Name(#[expect(clippy::box_collection, reason = "a word instead of three")] Box<String>);

impl Name {
    pub(crate) fn new(name: String) -> Name {
        Name(Box::new(name))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The thread is not over, and no joiner waits.
const OPEN: usize = 0;
const OVER: usize = 2;
/// Its handle is gone.
const DETACHED: usize = 4;
/// An `Arc<EndSignal>`.
const DONE: usize = 1;
/// A `Box<Waker>`.
const WAKER: usize = 3;
/// Fibres are at multiples of 64, and the others at those of 8.
const TAGS: usize = 7;

/// The functions shared by threads with one type of closure.
struct Table {
    run: unsafe fn(NonNull<Core>),
    drop_closure: unsafe fn(NonNull<Core>),
    /// Moves the result to the pointer's target.
    take: unsafe fn(NonNull<Core>, *mut ()),
    /// Moves the result like `take`, and frees the thread.
    finish: unsafe fn(NonNull<Core>, *mut ()),
    /// Drops the result, and frees the thread.
    free: unsafe fn(NonNull<Core>),
}

/// All threads.
static THREAD: TaskClass = TaskClass { run: run_class, runs_inline: true, is_unwanted: None };

/// A thread with its closure. It lies in a cell (`cells.rs`), and is freed by the later of its end and its handle's.
#[repr(C)]
struct Whole<F, R> {
    /// First, so that its address is the thread's.
    core: Core,
    work: UnsafeCell<Work<F, R>>,
}

/// The closure before it is run, and its result afterwards.
#[repr(C)]
union Work<F, R> {
    f: ManuallyDrop<F>,
    result: ManuallyDrop<thread::Result<R>>,
}

/// The description of a thread about to be spawned.
pub(crate) struct Described {
    pub(crate) request: RequestId,
    pub(crate) number: u32,
    pub(crate) id: u64,
    pub(crate) name: Option<Name>,
    pub(crate) class: Class,
    pub(crate) follows: bool,
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) is_detached: bool,
}

impl<F: FnOnce() -> R, R> Whole<F, R> {
    const TABLE: &'static Table = &Table {
        run: run::<F, R>,
        drop_closure: drop_closure::<F, R>,
        take: take::<F, R>,
        finish: finish::<F, R>,
        free: free::<F, R>,
    };
}

/// A thread in no queue yet, with a handle unless it is detached. Returns the closure if there is no memory for it.
/// `seat`: the cells of the calling thread's seat, if it sits on one.
#[inline]
pub(crate) fn new<F: FnOnce() -> R + Send + 'static, R: Send + 'static>(
    seat: Option<&mut SeatCells>,
    described: Described,
    f: F,
) -> Result<NonNull<Core>, F> {
    let Described { request, number, id, name, class, follows, spawned_at, is_detached } = described;
    let Some(whole) = NonNull::new(cells::take::<Whole<F, R>>(seat)) else { return Err(f) };
    let header = TaskHeader { class: &THREAD, context: ContextRef::NONE, request, number, has_data: false };
    let state = AtomicUsize::new(if is_detached { DETACHED } else { OPEN });
    let (table, locals) = (Whole::<F, R>::TABLE, Cell::new(None));
    let (word, are_locals_over) = (Cell::new(0), Cell::new(false));
    let core = Core { header, table, state, id, spawned_at, word, locals, name, are_locals_over, class, follows };
    #[expect(unsafe_code, reason = "writes a value to its place")]
    // SAFETY: the place is of this type, and holds no value yet.
    unsafe {
        (&raw mut (*whole.as_ptr()).core).write(core);
        (&raw mut (*whole.as_ptr()).work).cast::<F>().write(f);
    }
    Ok(whole.cast())
}

#[expect(unsafe_code, reason = "the type of a table's functions")]
// SAFETY of callers: the thread is a `Whole<F, R>` with its closure, not run yet.
unsafe fn run<F: FnOnce() -> R, R>(core: NonNull<Core>) {
    // SAFETY: the caller's promise; the handle does not touch the closure.
    unsafe {
        let work = (*core.cast::<Whole<F, R>>().as_ptr()).work.get();
        let f = ManuallyDrop::take(&mut (*work).f);
        let result = with_descendants(catch_unwind(AssertUnwindSafe(f)));
        (*work).result = ManuallyDrop::new(result);
    }
}

#[expect(unsafe_code, reason = "the type of a table's functions")]
// SAFETY of callers: as for `run`.
unsafe fn drop_closure<F: FnOnce() -> R, R>(core: NonNull<Core>) {
    // SAFETY: the caller's promise.
    unsafe {
        let work = (*core.cast::<Whole<F, R>>().as_ptr()).work.get();
        let f = ManuallyDrop::take(&mut (*work).f);
        drop_quietly(f);
        (*work).result = ManuallyDrop::new(Err(Box::new(RuntimeEnded)));
    }
}

#[expect(unsafe_code, reason = "the type of a table's functions")]
// SAFETY of callers: the thread is a `Whole<F, R>` with a result; the pointer is to room for a `thread::Result<R>`.
unsafe fn take<F: FnOnce() -> R, R>(core: NonNull<Core>, to: *mut ()) {
    // SAFETY: the caller's promise. The result left there owns no memory.
    unsafe {
        let work = (*core.cast::<Whole<F, R>>().as_ptr()).work.get();
        let result = ManuallyDrop::take(&mut (*work).result);
        (*work).result = ManuallyDrop::new(Err(Box::new(())));
        to.cast::<thread::Result<R>>().write(result);
    }
}

#[expect(unsafe_code, reason = "the type of a table's functions")]
// SAFETY of callers: as for `take` and `free`.
unsafe fn finish<F: FnOnce() -> R, R>(core: NonNull<Core>, to: *mut ()) {
    // SAFETY: the caller's promise.
    unsafe {
        let result = (&raw const (*core.cast::<Whole<F, R>>().as_ptr()).work).cast::<thread::Result<R>>();
        ptr::copy_nonoverlapping(result, to.cast(), 1);
        release::<F, R>(core);
    }
}

#[expect(unsafe_code, reason = "the type of a table's functions")]
// SAFETY of callers: the thread is a `Whole<F, R>` with a result, and neither runs nor has a handle.
unsafe fn free<F: FnOnce() -> R, R>(core: NonNull<Core>) {
    // SAFETY: the caller's promise.
    unsafe {
        let result = (&raw const (*core.cast::<Whole<F, R>>().as_ptr()).work).cast::<thread::Result<R>>().read();
        release::<F, R>(core);
        // Mostly nothing is to be dropped.
        if result.is_err() || needs_drop::<R>() {
            outside(|| drop_quietly(result));
        }
    }
}

/// Drops a thread taken by no queue, with its closure. Its handle was not given away.
#[cold]
pub(crate) fn discard(core: NonNull<Core>) {
    #[expect(unsafe_code, reason = "calls functions of the thread's table")]
    // SAFETY: it was made, and never queued: its closure was not run, and nobody else knows it.
    unsafe {
        let table = core.as_ref().table;
        (table.drop_closure)(core);
        (table.free)(core);
    }
}

/// Frees a thread but for its closure or result.
#[inline]
#[expect(unsafe_code, reason = "frees what a table's functions are done with")]
// SAFETY of callers: the thread is a `Whole<F, R>`, neither runs nor has a handle, and is not used after this call.
unsafe fn release<F: FnOnce() -> R, R>(core: NonNull<Core>) {
    // SAFETY: the caller's promise.
    unsafe {
        core.drop_in_place();
        cells::release(core.cast::<Whole<F, R>>());
    }
}

/// A thread is taken out of a queue: it begins.
#[expect(unsafe_code, reason = "the type of a class's functions")]
// SAFETY of callers: `task` is a thread that has not begun.
unsafe fn run_class(task: TaskRef) {
    begin(task, None);
}

/// A thread begins on a fibre, or waits for one. `way` says how its seat found it; `None`: as in the frame.
pub(crate) fn begin(task: TaskRef, way: Option<Way>) {
    let class = Core::class(task);
    if let Err(task) = fibres::start(task, class, way) {
        starved::starve(task, class);
    }
}

impl Core {
    /// Whether a task is a thread that has not begun.
    #[inline]
    pub(crate) fn is(task: TaskRef) -> bool {
        ptr::eq(task.header().class, &raw const THREAD)
    }

    /// The class of the stack of a thread that has not begun.
    #[inline]
    pub(crate) fn class(task: TaskRef) -> Class {
        debug_assert!(Core::is(task));
        #[expect(unsafe_code, reason = "follows a pointer to a thread that has not begun")]
        // SAFETY: the task is a thread's, and it is there until it has run.
        unsafe { task.as_ptr().cast::<Core>().as_ref() }.class
    }

    /// Whether a beginning thread goes on at the seat of the thread that ends its wait.
    #[inline]
    pub(crate) fn follows(task: TaskRef) -> bool {
        debug_assert!(Core::is(task));
        #[expect(unsafe_code, reason = "follows a pointer to a thread that begins")]
        // SAFETY: the task is a thread's, and it is there until it has run.
        unsafe { task.as_ptr().cast::<Core>().as_ref() }.follows
    }

    /// Runs a thread on the calling fibre.
    ///
    /// Never inlined: a loop that calls it goes from one thread of the system to another between two calls, and the
    /// compiler would keep the address of a `thread_local!` for all of them.
    #[inline(never)]
    pub(crate) fn run(task: TaskRef) {
        let core: NonNull<Core> = task.as_ptr().cast();
        #[expect(unsafe_code, reason = "follows a pointer to the thread that begins")]
        // SAFETY: its state is not final, so it is there.
        unsafe {
            let table = core.as_ref().table;
            let is_wanted = in_task(|worker| {
                worker.begin_task(task);
                !of_worker(worker).threads.is_ending()
            });
            if is_wanted {
                (table.run)(core);
            } else {
                (table.drop_closure)(core);
            }
            core.as_ref().are_locals_over.set(true);
            if let Some(locals) = core.as_ref().locals.take() {
                drop_quietly(locals);
            }
        }
        Core::finish(core, task);
    }

    /// Never inlined: the thread may have gone to another thread of the system since it began.
    #[inline(never)]
    fn finish(core: NonNull<Core>, task: TaskRef) {
        let fibre = in_task(|worker| {
            worker.recorder.task_ends(task.header());
            fibres::beneath_of(worker).expect("a thread runs on a fibre")
        });
        finish_task();
        fibre.forget_thread();
        end(core);
        in_task(|worker| of_worker(worker).counts.0.end());
    }

    /// Writes the thread's name and origin, for a message.
    pub(crate) fn describe(core: NonNull<Core>, to: &mut (impl fmt::Write + ?Sized)) -> fmt::Result {
        #[expect(unsafe_code, reason = "follows a pointer to a thread that is not over")]
        // SAFETY: it is on a fibre, and the fields read are constant.
        let (id, name, at) = unsafe {
            let core = core.as_ptr();
            ((*core).id, (*core).name.as_ref().map(Name::as_str), (*core).spawned_at)
        };
        write!(to, "lightweight thread {id}")?;
        if let Some(name) = name {
            write!(to, " '{name}'")?;
        }
        write!(to, " (spawned at {}:{}:{})", at.file(), at.line(), at.column())
    }

    pub(crate) fn task(core: NonNull<Core>) -> TaskRef {
        #[expect(unsafe_code, reason = "a task on the heap")]
        // SAFETY: the header is its first field; it stays in place until it is over; closure and result are `Send` and
        // own their data.
        unsafe {
            TaskRef::new(core.cast())
        }
    }
}

/// A thread has a result: tells its joiner.
fn end(core: NonNull<Core>) {
    #[expect(unsafe_code, reason = "follows pointers that the thread's state has")]
    // SAFETY: until its state is final, the thread is there. A state with a tag was made by `Joiner`, and is taken
    // once.
    unsafe {
        // Its handle is gone for good, and its last use is over: no other thread knows of this one.
        if (*core.as_ptr()).state.load(Ordering::Acquire) == DETACHED {
            return ((*core.as_ptr()).table.free)(core);
        }
        // Release: the joiner sees the result. Acquire: this thread sees the joiner.
        let before = (*core.as_ptr()).state.swap(OVER, Ordering::AcqRel);
        match before {
            OPEN => {}
            DETACHED => ((*core.as_ptr()).table.free)(core),
            _ => wake(before),
        }
    }
}

/// # Safety
/// The word is from a thread's state, and was taken out of it.
#[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
unsafe fn wake(word: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match word & TAGS {
            DONE => Arc::<EndSignal>::from_raw(ptr::with_exposed_provenance(word & !TAGS)).set(),
            WAKER => Box::<Waker>::from_raw(ptr::with_exposed_provenance_mut(word & !TAGS)).wake(),
            _ => (*ptr::with_exposed_provenance::<Fibre>(word)).queue(),
        }
    }
}

/// Has this one told when the thread is over, in place of the last one. `false`: it is over.
fn put(state: &AtomicUsize, word: usize) -> bool {
    let mut before = state.load(Ordering::Acquire);
    while before != OVER {
        if before == word {
            return true;
        }
        match state.compare_exchange(before, word, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                #[expect(unsafe_code, reason = "drops a pointer that the state had")]
                // SAFETY: this call has taken it out.
                unsafe {
                    forget(before);
                }
                return true;
            }
            Err(now) => before = now,
        }
    }
    false
}

/// Drops the target of a word, if the word owns it.
///
/// # Safety
/// As for [`wake`].
#[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
unsafe fn forget(word: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match word & TAGS {
            DONE => drop(Arc::<EndSignal>::from_raw(ptr::with_exposed_provenance(word & !TAGS))),
            WAKER => drop(Box::<Waker>::from_raw(ptr::with_exposed_provenance_mut(word & !TAGS))),
            _ => {}
        }
    }
}

/// The one owner of a thread's result.
pub(crate) struct Joiner(pub(crate) NonNull<Core>);

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: the thread's result is `Send`, by `new`; all else in it is for several threads.
unsafe impl Send for Joiner {}

impl Joiner {
    pub(crate) fn core(&self) -> &Core {
        #[expect(unsafe_code, reason = "follows a pointer")]
        // SAFETY: the thread is there as long as its handle is.
        unsafe {
            self.0.as_ref()
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.core().state.load(Ordering::Acquire) == OVER
    }

    /// Waits until it is over.
    pub(crate) fn wait(&self) {
        if self.is_over() {
            return;
        }
        match fibres::current() {
            Some(fibre) => {
                if fibres::begin_awaited(self.0) {
                    if self.is_over() {
                        return;
                    }
                    fibres::began_in_vain();
                }
                // The thread that takes the word out of the state queues the fibre.
                if put(&self.core().state, fibre.waiter().0) {
                    fibre.suspend_exactly();
                }
            }
            None => self.wait_on_thread(),
        }
    }

    #[cold]
    fn wait_on_thread(&self) {
        let done = EndSignal::new();
        let word = Arc::into_raw(Arc::clone(&done)).expose_provenance() | DONE;
        if put(&self.core().state, word) {
            return done.wait(None);
        }
        #[expect(unsafe_code, reason = "takes back a pointer that was not given away")]
        // SAFETY: made above.
        unsafe {
            forget(word);
        }
    }

    /// Has a waker woken when it is over, in place of the last one. `false`: it is over.
    pub(crate) fn set_waker(&self, waker: &Waker) -> bool {
        let word = Box::into_raw(Box::new(waker.clone())).expose_provenance() | WAKER;
        let is_put = put(&self.core().state, word);
        if !is_put {
            #[expect(unsafe_code, reason = "takes back a pointer that was not given away")]
            // SAFETY: made above.
            unsafe {
                forget(word);
            }
        }
        is_put
    }

    /// Like [`Joiner::take`], and frees the thread.
    ///
    /// # Safety
    /// As there.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see: the result's type")]
    pub(crate) unsafe fn finish<R>(self) -> thread::Result<R> {
        let joiner = ManuallyDrop::new(self);
        debug_assert!(joiner.is_over());
        let mut result = MaybeUninit::<thread::Result<R>>::uninit();
        // SAFETY: the caller's promise; the thread is over, and belongs to its handle, which is not dropped.
        unsafe {
            (joiner.core().table.finish)(joiner.0, result.as_mut_ptr().cast());
            result.assume_init()
        }
    }

    /// Takes the result. It is over.
    ///
    /// # Safety
    /// The thread's closure returns an `R`.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see: the result's type")]
    pub(crate) unsafe fn take<R>(&mut self) -> thread::Result<R> {
        debug_assert!(self.is_over());
        let mut result = MaybeUninit::<thread::Result<R>>::uninit();
        // SAFETY: the caller's promise; the thread is over, and only its handle uses the result.
        unsafe {
            (self.core().table.take)(self.0, result.as_mut_ptr().cast());
            result.assume_init()
        }
    }
}

impl Drop for Joiner {
    fn drop(&mut self) {
        let before = self.core().state.swap(DETACHED, Ordering::AcqRel);
        #[expect(unsafe_code, reason = "frees what is over, or a pointer that the state had")]
        // SAFETY: a finished thread belongs to its handle; a word was taken out of the state.
        unsafe {
            match before {
                OVER => (self.core().table.free)(self.0),
                word => forget(word),
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_no_queue_takes_is_dropped_with_its_closure() {
        let owned = Arc::new(());
        for is_detached in [false, true] {
            let theirs = Arc::clone(&owned);
            let (request, number) = (RequestId::new(1), TaskHeader::UNNUMBERED);
            let (class, spawned_at) = (Class::of(0).expect("there is a least one"), Location::caller());
            let name = Some(Name::new("unwanted".to_owned()));
            let described = Described { request, number, id: 1, name, class, follows: false, spawned_at, is_detached };
            let Ok(core) = new(None, described, move || drop(theirs)) else { panic!("there is memory") };
            assert_eq!(Arc::strong_count(&owned), 2);
            discard(core);
            assert_eq!(Arc::strong_count(&owned), 1);
        }
    }
}
