//! Fibres: stacks of their own, on which lightweight threads run and can be suspended.
//!
//! A seat that takes a lightweight thread out of a queue switches to a fibre, which runs it. When the thread has to wait, the fibre
//! puts the worker's [`Frame`] aside and switches back to the loop that had resumed it, which looks for the next task. When what it
//! waits for is there, the fibre is a task again: of its own seat, since the code on its stack may hold what must not leave its
//! operating system's thread ([`Fibre::wake`]). [`migrate`] alone moves it.
//!
//! A fibre whose thread has ended keeps its stack and waits in a list for the next thread; to start one there costs a switch. Switches
//! are corosensei's; stacks are ours (`stack.rs`).

pub(crate) mod overflow;
pub(crate) mod stack;
mod state;

use crate::runtime::Shared;
use crate::threads::Core;
use crate::worker::{Frame, Worker, in_task, with_worker};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use stack::Slot;
use state::State;
use std::cell::{Cell, UnsafeCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use vicus_schedule::{ContextRef, RequestId, SeatId, TaskClass, TaskHeader, TaskRef, Waiter};

/// Why a fibre switches back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// It waits, and is woken.
    Suspended,
    /// It lets others go first.
    Yielded,
    /// It goes to another seat.
    Migrates(SeatId),
    /// Its thread is over.
    Ended,
}

type Switches = Coroutine<TaskRef, Left, (), Slot>;
type Switcher = Yielder<TaskRef, Left>;

/// A stack, and what is known of the thread on it.
#[repr(C, align(64))]
pub(crate) struct Fibre {
    /// First, so that its address is that of the task which goes on with it.
    header: UnsafeCell<TaskHeader>,
    state: State,
    /// Where it runs.
    seat: AtomicU32,
    /// The runtime of that seat. Invariant: alive while a thread is on the stack.
    shared: AtomicPtr<Shared>,
    /// The worker's frame of the task beneath while the fibre runs, and the fibre's own while it does not.
    frame: UnsafeCell<Frame>,
    beneath: UnsafeCell<Vec<RequestId>>,
    /// `None` before the first thread, and after its pages were given back.
    coroutine: UnsafeCell<Option<Switches>>,
    switcher: Cell<*const Switcher>,
    /// Whether the wait of its thread is to be given up.
    is_told: AtomicBool,
    /// The thread on it; null if there is none.
    thread: AtomicPtr<Core>,
    pub(crate) slot: Slot,
    /// The next one in a list of free ones.
    pub(crate) next: Cell<*const Fibre>,
}

#[expect(unsafe_code, reason = "cells that one thread at a time uses")]
// SAFETY: atomics are for all threads. The cells are used by the thread of the fibre's seat, and, while no thread is on the stack, by the
// owner of the list that has it.
unsafe impl Sync for Fibre {}

#[expect(unsafe_code, reason = "cells that one thread at a time uses")]
// SAFETY: as above; a coroutine is moved to another thread between two lightweight threads alone, when nothing is on its stack, and by
// `migrate`, whose caller promises that nothing there minds.
unsafe impl Send for Fibre {}

/// A suspended fibre that is to go on.
static FIBRE: TaskClass = TaskClass { run: go_on, runs_inline: true, is_unwanted: None };

impl Fibre {
    pub(crate) fn new(slot: Slot) -> Fibre {
        let number = TaskHeader::UNNUMBERED;
        let header = TaskHeader { class: &FIBRE, context: ContextRef::NONE, request: RequestId(0), number };
        Fibre {
            header: UnsafeCell::new(header),
            state: State::new(),
            seat: AtomicU32::new(0),
            shared: AtomicPtr::new(ptr::null_mut()),
            frame: UnsafeCell::new(Frame::new(RequestId(0))),
            beneath: UnsafeCell::new(Vec::new()),
            coroutine: UnsafeCell::new(None),
            switcher: Cell::new(ptr::null()),
            is_told: AtomicBool::new(false),
            thread: AtomicPtr::new(ptr::null_mut()),
            slot,
            next: Cell::new(ptr::null()),
        }
    }

    /// The task that goes on with it.
    #[inline]
    fn task(&'static self) -> TaskRef {
        #[expect(unsafe_code, reason = "the task lies in the fibre")]
        // SAFETY: the header is the first field of what is never freed; only `go_on` runs it, once for each time that it is queued.
        unsafe {
            TaskRef::new(NonNull::new_unchecked(ptr::from_ref(self).cast_mut().cast()))
        }
    }

    /// As one that waits.
    #[inline]
    pub(crate) fn waiter(&'static self) -> Waiter {
        Waiter(ptr::from_ref(self).expose_provenance())
    }

    /// The thread on it, if there is one.
    pub(crate) fn thread(&self) -> Option<NonNull<Core>> {
        NonNull::new(self.thread.load(Ordering::Acquire))
    }

    /// Whether its thread is not to wait any more, but to end. On the fibre.
    pub(crate) fn is_told_to_end(&self) -> bool {
        self.is_told.load(Ordering::Relaxed) || in_task(|worker| worker.shared.threads_here.is_ending())
    }

    /// Tells it not to wait any more for the word that it waits for. The caller has the lock of that wait's list, and wakes the fibre later.
    pub(crate) fn tell_to_end(&self) {
        self.is_told.store(true, Ordering::Relaxed);
    }

    /// The wait is over. Whether it was told to end.
    pub(crate) fn forget_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed) && self.is_told.swap(false, Ordering::Relaxed)
    }

    /// Whether its thread waits, and was not woken yet.
    pub(crate) fn is_suspended(&self) -> bool {
        self.state.is_suspended()
    }

    /// Whether a thread of this runtime is on it.
    pub(crate) fn is_of(&self, shared: &Shared) -> bool {
        self.thread().is_some() && ptr::eq(self.shared.load(Ordering::Relaxed), shared)
    }

    /// Has it look at what it waits for. If it is suspended, it is queued at its seat.
    #[inline]
    pub(crate) fn wake(&'static self) {
        if !self.state.wake() {
            return;
        }
        // Both were written before it was suspended.
        let (seat, shared) = (self.seat.load(Ordering::Relaxed), self.shared.load(Ordering::Relaxed));
        let mut is_same_runtime = false;
        let is_here = with_worker(|worker| {
            is_same_runtime = ptr::eq(Arc::as_ptr(&worker.shared), shared);
            let is_here = is_same_runtime && worker.seat.index() as u32 == seat;
            if is_here {
                worker.state.woke(self.task());
            }
            is_here
        });
        if is_here != Some(true) {
            self.call_elsewhere(shared, SeatId::new(seat as usize), is_same_runtime);
        }
    }

    #[cold]
    #[inline(never)]
    fn call_elsewhere(&'static self, shared: *const Shared, seat: SeatId, is_same_runtime: bool) {
        #[expect(unsafe_code, reason = "a counted reference of its own to the fibre's runtime")]
        // SAFETY: by the field's invariant it is alive until the fibre goes on, which it can't before it is in the inbox. The thread
        // may end right after that, and the runtime with it: so one that is not of that runtime holds it meanwhile.
        unsafe {
            if is_same_runtime {
                (*shared).call(seat, self.task());
            } else {
                Arc::increment_strong_count(shared);
                Arc::from_raw(shared).call(seat, self.task());
            }
        }
    }

    /// Forgets that its stack was ever used: the next thread begins at its top. No thread is on it.
    pub(crate) fn forget_stack(&self) {
        #[expect(unsafe_code, reason = "a cell that only this thread uses, and a stack that is left as it is")]
        // SAFETY: no thread is on the stack: it stands in `runs`, where nothing is to be dropped.
        unsafe {
            if let Some(mut coroutine) = (*self.coroutine.get()).take() {
                coroutine.force_reset();
            }
        }
    }

    /// Switches to it. `task`: the thread that begins there, or anything.
    #[inline]
    fn resume(&'static self, task: TaskRef) {
        let outer = in_task(|worker| {
            let outer = worker.fibre.replace(self);
            self.swap_frames(worker);
            worker.waiter = self.waiter();
            outer
        });
        #[expect(unsafe_code, reason = "a cell that only this thread uses")]
        // SAFETY: the fibre is of this seat and does not run. Code on it does not come to this cell.
        let left = unsafe { (*self.coroutine.get()).get_or_insert_with(|| self.runs()).resume(task) };
        let CoroutineResult::Yield(left) = left else { unreachable!("a fibre waits for its next thread") };
        in_task(|worker| {
            self.swap_frames(worker);
            worker.fibre = outer;
            worker.waiter = outer.map_or(waiter_of_seat(worker.seat), Fibre::waiter);
            match left {
                Left::Suspended => {}
                Left::Yielded => worker.state.yielded(self.task()),
                Left::Ended => {
                    worker.began_threads -= 1;
                    worker.stacks.give(self);
                }
                Left::Migrates(_) => worker.began_threads -= 1,
            }
        });
        if !self.slot.is_whole() {
            overflow::report_broken_canary(self);
        }
        match left {
            Left::Migrates(seat) => self.arrive(seat),
            Left::Ended => crate::threads::serve_starved(),
            _ => {}
        }
    }

    #[cold]
    fn arrive(&'static self, seat: SeatId) {
        let shared = in_task(|worker| Arc::clone(&worker.shared));
        // Release, by the inbox's lock: the seat finds the stack as it was left.
        self.seat.store(seat.index() as u32, Ordering::Relaxed);
        shared.call(seat, self.task());
    }

    #[inline]
    fn swap_frames(&self, worker: &mut Worker) {
        #[expect(unsafe_code, reason = "cells that only this thread uses")]
        // SAFETY: the fibre is of this seat.
        unsafe {
            ptr::swap(&mut worker.frame, self.frame.get());
            ptr::swap(&mut worker.beneath, self.beneath.get());
        }
    }

    /// A coroutine that runs one thread after the other.
    #[cold]
    fn runs(&'static self) -> Switches {
        Coroutine::with_stack(self.slot, move |switcher: &Switcher, first| {
            self.switcher.set(switcher);
            let mut task: TaskRef = first;
            loop {
                Core::run(task);
                task = switcher.suspend(Left::Ended);
            }
        })
    }

    /// Switches back to the loop that resumed it, until it is resumed again. On its own stack.
    #[inline]
    fn leave(&self, left: Left) {
        #[expect(unsafe_code, reason = "follows a pointer to the bottom of this stack")]
        // SAFETY: it was written when the coroutine began, which runs.
        unsafe {
            (*self.switcher.get()).suspend(left);
        }
    }

    /// Waits until it is woken, if it was not since it last went on. It may be woken for nothing.
    #[inline]
    pub(crate) fn suspend(&self) {
        if self.state.suspend() {
            self.leave(Left::Suspended);
            self.state.resume();
        }
    }

    /// Lets other tasks of its seat go first.
    #[inline]
    pub(crate) fn yield_now(&self) {
        self.leave(Left::Yielded);
    }

    /// Goes to another seat of its runtime.
    ///
    /// # Safety
    /// Nothing on its stack, and nothing that it has borrowed, minds that the operating system's thread is another one.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub(crate) unsafe fn migrate(&self, seat: SeatId) {
        self.leave(Left::Migrates(seat));
        in_task(|worker| worker.began_threads += 1);
    }
}

/// A seat as one that waits. Fibres are at even addresses.
pub(crate) fn waiter_of_seat(seat: SeatId) -> Waiter {
    Waiter(seat.index() << 1 | 1)
}

impl Shared {
    /// Has one that waits look whether what it waits for is there: a seat of this runtime, or a fibre.
    #[inline]
    pub(crate) fn tell(&self, Waiter(word): Waiter) {
        if word & 1 == 1 {
            return self.ask(SeatId::new(word >> 1));
        }
        #[expect(unsafe_code, reason = "follows a pointer to what is never freed")]
        // SAFETY: the word is from `Fibre::waiter`.
        let fibre: &'static Fibre = unsafe { &*ptr::with_exposed_provenance(word) };
        fibre.wake();
    }
}

/// The fibre on which the calling thread runs. `None` on a thread's own stack, and while that unwinds: the count of panics is the
/// operating system's thread's.
#[inline]
pub(crate) fn current() -> Option<&'static Fibre> {
    let fibre = with_worker(|worker| worker.fibre).flatten();
    if fibre.is_some() && std::thread::panicking() { None } else { fibre }
}

/// Starts a thread on a fibre of the calling thread's seat. Gives the task back if there is no stack for it.
pub(crate) fn start(task: TaskRef, class: stack::Class) -> Result<(), TaskRef> {
    let begun = in_task(|worker| {
        let fibre = worker.stacks.take(class)?;
        worker.began_threads += 1;
        let way = worker.frame.way;
        #[expect(unsafe_code, reason = "cells that only this thread uses")]
        // SAFETY: the fibre was free, and is this seat's from now on.
        unsafe {
            let request = task.header().request;
            *fibre.frame.get() = Frame { way, ..Frame::new(request) };
            (*fibre.header.get()).request = request;
        }
        fibre.thread.store(task.as_ptr().as_ptr().cast(), Ordering::Release);
        fibre.seat.store(worker.seat.index() as u32, Ordering::Relaxed);
        fibre.shared.store(Arc::as_ptr(&worker.shared).cast_mut(), Ordering::Relaxed);
        Some(fibre)
    });
    begun.ok_or(task)?.resume(task);
    Ok(())
}

impl Core {
    /// The thread is over: the fibre knows of it no more.
    pub(crate) fn left(fibre: &Fibre) {
        fibre.thread.store(ptr::null_mut(), Ordering::Release);
    }
}

/// Goes on with a suspended fibre.
#[expect(unsafe_code, reason = "the type of a class's functions")]
// SAFETY of callers: `task` is a fibre's, queued at this seat and taken once.
unsafe fn go_on(task: TaskRef) {
    // SAFETY: fibres are never freed.
    let fibre: &'static Fibre = unsafe { task.as_ptr().cast::<Fibre>().as_ref() };
    fibre.resume(task);
}
