//! Fibres: own stacks for lightweight threads, which run there and can be suspended.
//!
//! A seat that takes a lightweight thread out of a queue switches to a fibre, and the fibre runs it. When the thread
//! has to wait, the fibre puts the worker's [`Frame`] aside and switches back to the loop that had resumed it. The loop
//! looks for the next task. When the wait is over, the fibre is a task again: of its own seat, since the code on its
//! stack may hold values bound to its operating system's thread ([`Fibre::wake`]). [`Fibre::migrate`] moves it, and so
//! does [`Fibre::queue`] if its thread follows others.
//!
//! A fibre without a thread keeps its stack and waits in a list for the next thread; starting one there costs a switch
//! (`vicus-fibres`).

mod state;

use crate::threads::cells::SeatCells;
use crate::threads::core::Core;
use crate::threads::counts::{Counts, Threads};
use crate::threads::starved;
use state::State;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use vicus_fibres::{Class, Exceptions, OwnStacks, Pools, Record, Stack, report_broken_canary};
use vicus_machine::layer::{
    Beneath, Deque, Frame, Padded, RuntimeState, SeatState, Worker, in_task, is_apart, prefer, with_worker,
};
use vicus_schedule::{
    ContextRef, EndOfWait, GoesOn, OtherSeats, RequestId, SeatId, TaskClass, TaskHeader, TaskRef, Waiter, Way,
    goes_on_from_outside, next_open_seat,
};

/// Why a fibre switches back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SwitchReason {
    /// Waits, and is woken.
    Suspended,
    /// Waits, and goes on at its own seat or the waker's.
    Away,
    /// Lets others go first.
    Yielded,
    /// Goes to another seat.
    Migrates(SeatId),
    /// Its thread is over.
    Ended,
}

impl SwitchReason {
    /// Whether something is to be done before another fibre goes on.
    #[inline]
    fn is_last(self) -> bool {
        match self {
            SwitchReason::Suspended | SwitchReason::Away | SwitchReason::Yielded => false,
            SwitchReason::Migrates(_) => true,
            SwitchReason::Ended => starved::are_starving(),
        }
    }

    /// Encodes it as the word handed over at a switch.
    #[inline]
    fn word(self) -> usize {
        match self {
            SwitchReason::Suspended => 0,
            SwitchReason::Away => 1,
            SwitchReason::Yielded => 2,
            SwitchReason::Ended => 3,
            SwitchReason::Migrates(seat) => 4 + seat.index(),
        }
    }

    #[inline]
    fn of(word: usize) -> SwitchReason {
        match word {
            0 => SwitchReason::Suspended,
            1 => SwitchReason::Away,
            2 => SwitchReason::Yielded,
            3 => SwitchReason::Ended,
            _ => SwitchReason::Migrates(SeatId::new(word - 4)),
        }
    }
}

/// A stack, and the data about its thread.
#[repr(C, align(64))]
pub(crate) struct Fibre {
    /// First, so that its address is also the address of the task that resumes the fibre.
    header: UnsafeCell<TaskHeader>,
    state: State,
    /// The runtime of its seat. Invariant: alive while a thread is on the stack.
    shared: AtomicPtr<RuntimeState>,
    /// The worker's frame for this stack, while the fibre does not run. Written when the fibre is left.
    frame: UnsafeCell<MaybeUninit<Frame>>,
    /// The worker's, of the task beneath while the fibre runs, and the fibre's own while it does not.
    beneath: UnsafeCell<Beneath>,
    /// For a recording seat: the number of open tasks when the fibre was entered, and its own open tasks while it is
    /// suspended.
    recorded: UnsafeCell<(usize, Vec<u32>)>,
    /// Memory, and the place of the code there.
    pub(crate) stack: Stack,
    /// The thread on it; null if there is none.
    thread: AtomicPtr<Core>,
    /// Whether the thread goes on at the seat of the thread that ends its wait.
    follows: Cell<bool>,
    /// Number of tasks running on its stack on top of its thread, which found no room for them.
    on_top: Cell<u32>,
}

#[expect(unsafe_code, reason = "cells that one thread at a time uses")]
// SAFETY: atomics are for all threads. The cells are used by the thread of the fibre's seat, and, while no thread is on
// the stack, by the owner of the list that holds it.
unsafe impl Sync for Fibre {}

#[expect(unsafe_code, reason = "cells that one thread at a time uses")]
// SAFETY: as above. A stack goes to another thread in three cases: between two lightweight threads, when it is empty;
// by `migrate`; and by `queue` if its thread follows others. The callers of `migrate` and of `queue` promise that
// nothing on the stack minds.
unsafe impl Send for Fibre {}

/// A seat's fibres.
pub(crate) struct SeatFibres {
    /// The runtime's.
    pub(crate) threads: Arc<Threads>,
    /// The seat's.
    pub(crate) counts: Arc<Padded<Counts>>,
    /// Where C++ keeps the exceptions of the system's thread.
    pub(crate) exceptions: Exceptions,
    /// Free stacks. Boxed, so that the fields used by every task lie together.
    pub(crate) stacks: Box<OwnStacks<Fibre>>,
    /// Memory for lightweight threads.
    pub(crate) cells: SeatCells,
}

impl SeatFibres {
    #[cold]
    fn new(shared: &RuntimeState, seat: SeatId) -> SeatFibres {
        let node = shared.plan.seats[seat.index()].node;
        let threads = Threads::shared_of(shared);
        SeatFibres {
            counts: threads.of_seat(seat),
            threads,
            exceptions: Exceptions::default(),
            stacks: Box::new(OwnStacks::new(node.index())),
            cells: SeatCells::new(node.index()),
        }
    }
}

/// The fibres of a worker's seat.
#[inline]
pub(crate) fn of_worker(worker: &mut Worker) -> &mut SeatFibres {
    of_parts(&mut worker.code.above, &worker.shared, worker.seat_id)
}

/// Like [`of_worker`], by parts of the worker.
#[inline]
pub(crate) fn of_parts<'a>(above: &'a mut SeatState, shared: &RuntimeState, seat: SeatId) -> &'a mut SeatFibres {
    #[expect(unsafe_code, reason = "the type of a seat's state")]
    // SAFETY: this crate is the one layer, and this file alone names the type.
    unsafe {
        above.get_or(move || SeatFibres::new(shared, seat))
    }
}

/// Like [`of_worker`], if the seat has had any.
#[inline]
pub(crate) fn of_worker_if_any(worker: &mut Worker) -> Option<&mut SeatFibres> {
    #[expect(unsafe_code, reason = "the type of a seat's state")]
    // SAFETY: as in `of_parts`.
    unsafe {
        worker.code.above.get()
    }
}

/// A suspended fibre due to go on.
static FIBRE: TaskClass = TaskClass { run: go_on, runs_inline: true, is_unwanted: None };

/// The stacks of all lightweight threads of the process.
static STACKS: Pools<Fibre> = Pools::new();

impl Record for Fibre {
    const ADVICE: &'static str = "Builder::stack_size gives it a larger one";

    fn new(stack: Stack) -> Fibre {
        let number = TaskHeader::UNNUMBERED;
        let header = TaskHeader {
            class: &FIBRE,
            context: ContextRef::NONE,
            request: RequestId::new(0),
            number,
            has_data: false,
        };
        Fibre {
            header: UnsafeCell::new(header),
            state: State::new(),
            shared: AtomicPtr::new(ptr::null_mut()),
            frame: UnsafeCell::new(MaybeUninit::uninit()),
            beneath: UnsafeCell::default(),
            recorded: UnsafeCell::new((0, Vec::new())),
            stack,
            thread: AtomicPtr::new(ptr::null_mut()),
            follows: Cell::new(false),
            on_top: Cell::new(0),
        }
    }

    #[inline]
    fn stack(&self) -> &Stack {
        &self.stack
    }

    #[inline]
    fn pools() -> &'static Pools<Fibre> {
        &STACKS
    }

    fn prefer(start: usize, bytes: usize, node: usize) {
        prefer(start, bytes, node);
    }

    fn describe(&self, to: &mut dyn fmt::Write) -> fmt::Result {
        match self.thread() {
            Some(thread) => Core::describe(thread, to),
            None => write!(to, "a lightweight thread"),
        }
    }
}

impl Fibre {
    /// The task that resumes it.
    #[inline]
    fn task(&'static self) -> TaskRef {
        #[expect(unsafe_code, reason = "the task lies in the fibre")]
        // SAFETY: the header is the first field of a fibre, which is never freed; only `go_on` runs it, once for each
        // time it is queued.
        unsafe {
            TaskRef::new(NonNull::new_unchecked(ptr::from_ref(self).cast_mut().cast()))
        }
    }

    /// Its address as a waiter.
    #[inline]
    pub(crate) fn waiter(&'static self) -> Waiter {
        Waiter(ptr::from_ref(self).expose_provenance())
    }

    /// The fibre of this address.
    #[inline]
    pub(crate) fn of_waiter(Waiter(address): Waiter) -> &'static Fibre {
        #[expect(unsafe_code, reason = "follows a pointer to what is never freed")]
        // SAFETY: words of waiters that are no seats are from `Fibre::waiter`.
        unsafe {
            &*ptr::with_exposed_provenance(address)
        }
    }

    /// The thread on it, if there is one.
    pub(crate) fn thread(&self) -> Option<NonNull<Core>> {
        NonNull::new(self.thread.load(Ordering::Acquire))
    }

    /// Whether its thread is not to wait any more, but to end. On the fibre.
    pub(crate) fn is_told_to_end(&self) -> bool {
        in_task(|worker| of_worker(worker).threads.is_ending())
    }

    /// The thread is over: the fibre knows of it no more.
    pub(crate) fn forget_thread(&self) {
        self.thread.store(ptr::null_mut(), Ordering::Release);
    }

    /// The runtime of its thread, alive until the thread ends.
    pub(crate) fn runtime(&self) -> *const RuntimeState {
        self.shared.load(Ordering::Relaxed)
    }

    /// Whether its thread waits, and was not woken yet.
    pub(crate) fn is_suspended(&self) -> bool {
        self.state.is_suspended()
    }

    /// Whether a thread of this runtime is on it.
    pub(crate) fn is_of(&self, shared: &RuntimeState) -> bool {
        self.thread().is_some() && ptr::eq(self.shared.load(Ordering::Relaxed), shared)
    }

    /// Makes it check its wait condition. If it is suspended, it is queued at its seat.
    #[inline]
    pub(crate) fn wake(&'static self) {
        if self.state.wake() {
            self.queue();
        }
    }

    /// Queues it at its seat, or where the seat of the caller decides if its thread is movable. To be called once for
    /// each [`Fibre::suspend_exactly`], after the fibre has announced its wait to the caller.
    #[inline]
    pub(crate) fn queue(&'static self) {
        // Both were written before it was suspended.
        let (home, shared) = (self.state.seat(), self.shared.load(Ordering::Relaxed));
        let goes_on = with_worker(|worker| {
            if !ptr::eq(Arc::as_ptr(&worker.shared), shared) {
                return None;
            }
            let is_movable = self.state.is_away();
            let end = EndOfWait {
                home,
                is_movable,
                by_thread: is_apart(worker.code.waiter),
                leaves_seat: is_movable && worker.does_anything(),
            };
            let goes_on = worker.seat.place_resumed(&worker.shared.plan, end, &mut Others(&worker.shared));
            match goes_on {
                GoesOn::At { seat, .. } => self.change_seat(&worker.shared, seat),
                GoesOn::Here => {
                    self.change_seat(&worker.shared, worker.seat_id);
                    worker.seat.woke(self.task());
                }
            }
            Some(goes_on)
        });
        match goes_on.flatten() {
            Some(GoesOn::Here) => {}
            Some(GoesOn::At { is_claimed, .. }) => self.call_elsewhere(shared, true, is_claimed),
            None => self.call_elsewhere(shared, false, false),
        }
    }

    /// The fibre is suspended, and the caller makes it go on at this seat.
    #[inline]
    fn change_seat(&self, shared: &RuntimeState, seat: SeatId) {
        let home = self.state.seat();
        if home != seat {
            shared.hook.went(home, seat);
            self.state.begin(seat);
        }
    }

    /// Sends it to its seat. `is_same_runtime`: the caller runs in its runtime, and the seat of the caller has decided.
    #[cold]
    #[inline(never)]
    fn call_elsewhere(&'static self, shared: *const RuntimeState, is_same_runtime: bool, is_claimed: bool) {
        #[expect(unsafe_code, reason = "the fibre's runtime")]
        // SAFETY: by the field's invariant it is alive until the fibre goes on, and the fibre can't go on before it is
        // in the inbox. A claimed seat belongs to the caller's own runtime.
        unsafe {
            RuntimeState::held(shared, is_same_runtime, |shared| {
                if !is_same_runtime {
                    let (home, is_movable) = (self.state.seat(), self.state.is_away());
                    self.change_seat(shared, goes_on_from_outside(&shared.plan, home, is_movable, &Others(shared)));
                }
                let seat = self.state.seat();
                shared.call(seat, self.task());
                if is_claimed {
                    return shared.hook.of_seat(seat).release();
                }
                // Its thread may have begun to do anything at this moment, and have looked before.
                shared.hook.of_seat(seat).after_put();
                if shared.hook.of_seat(seat).is_elsewhere() && self.state.is_away() {
                    send_on(shared, seat);
                }
            });
        }
    }

    /// Switches to it, and then, one after the other, to further resumable fibres of this seat, while it is their turn.
    /// `task`: the thread that begins there; ignored otherwise.
    #[inline]
    fn resume(&'static self, task: TaskRef) {
        let outer = in_task(|worker| {
            let outer = Outer::put_aside(worker);
            worker.seat.begin_row(is_apart(worker.code.waiter));
            self.enter(worker);
            outer
        });
        Fibre::go_round(self, task, outer);
    }

    /// Switches to the fibre entered by the worker, and then to others.
    #[inline]
    fn go_round(first: &'static Fibre, task: TaskRef, outer: Outer) {
        let (mut fibre, mut task) = (first, task);
        loop {
            let left = fibre.switch_to(task);
            if !fibre.stack.is_whole() {
                report_broken_canary(fibre);
            }
            let next = in_task(|worker| {
                if worker.recorder.is_on() {
                    fibre.record_left(worker);
                }
                debug_assert!(left != SwitchReason::Ended || !worker.frame.is_at_box(), "threads run no boxes");
                fibre.leave_worker(worker);
                match left {
                    SwitchReason::Suspended => {}
                    // Another seat may go on with it from here on.
                    SwitchReason::Away => fibre.state.mark_left(),
                    SwitchReason::Yielded => worker.seat.yielded(fibre.task()),
                    SwitchReason::Ended => {
                        worker.code.began -= 1;
                        of_worker(worker).stacks.give(fibre);
                    }
                    SwitchReason::Migrates(_) => worker.code.began -= 1,
                }
                // Tasks sent to the seat go before its own.
                let goes_on = !is_apart(outer.waiter) && !left.is_last() && !worker.is_called();
                let next = if goes_on { Fibre::enter_next(worker) } else { None };
                if next.is_none() {
                    outer.resume(worker);
                }
                next
            });
            match (left, next) {
                (_, Some(next)) => (fibre, task) = next,
                (SwitchReason::Migrates(seat), None) => return fibre.arrive(seat),
                (SwitchReason::Ended, None) => return starved::serve_starved(),
                _ => return,
            }
        }
    }

    /// The worker enters the next fibre, if the next turn belongs to a resumable fibre or to a beginning thread.
    #[inline]
    fn enter_next(worker: &mut Worker) -> Option<(&'static Fibre, TaskRef)> {
        let (own, first): (*const Deque, _) = (worker.own().map_or(ptr::null(), ptr::from_ref), worker.seat.first());
        let queues = &worker.shared.queued.queues;
        #[expect(unsafe_code, reason = "a reference that does not borrow the worker")]
        // SAFETY: null, or a queue of the worker's shared state; these never move.
        let is_own_empty = || unsafe { own.as_ref() }.is_none_or(Deque::is_empty);
        let is_first_empty = || first.map_or_else(is_own_empty, |(queue, _)| queues.looks_empty(queue));
        if let Some(task) = worker.seat.next_resumed(is_first_empty) {
            let fibre = Fibre::of(task);
            fibre.enter(worker);
            return Some((fibre, task));
        }
        if let Some((task, way)) = take_own_thread(worker, None) {
            let Some(fibre) = of_worker(worker).stacks.take(Core::class(task)) else {
                put_back_own(worker, task);
                return None;
            };
            fibre.begin(worker, task, way);
            return Some((fibre, task));
        }
        let mut fibre = None;
        let (task, way) = take_first_thread(worker, |stacks, class| {
            fibre = stacks.take_free(class);
            fibre.is_some()
        })?;
        let fibre = fibre.expect("the task was taken with a stack");
        fibre.begin(worker, task, way);
        Some((fibre, task))
    }

    /// The worker enters it, and a thread begins there.
    #[inline]
    fn begin(&'static self, worker: &mut Worker, task: TaskRef, way: Way) {
        worker.code.began += 1;
        let frame = Frame::new(task.header().request, way);
        #[expect(unsafe_code, reason = "writes the frame of what begins")]
        // SAFETY: the fibre is this seat's; its last frame was moved out, or ended with its thread.
        unsafe {
            (*self.frame.get()).write(frame);
        }
        self.enter(worker);
        self.set_thread(worker, task);
    }

    /// A thread begins on it. The worker has entered it.
    #[inline]
    fn set_thread(&'static self, worker: &mut Worker, task: TaskRef) {
        let request = task.header().request;
        #[expect(unsafe_code, reason = "a cell that only this thread uses")]
        // SAFETY: the fibre is this seat's, and in no queue.
        unsafe {
            (*self.header.get()).request = request;
        }
        self.thread.store(task.as_ptr().as_ptr().cast(), Ordering::Release);
        self.follows.set(Core::follows(task));
        self.on_top.set(0);
        self.state.begin(worker.seat_id);
        self.shared.store(Arc::as_ptr(&worker.shared).cast_mut(), Ordering::Relaxed);
    }

    /// A thread to begin on this fibre without a switch, when its last one is over. Never inlined, like [`Core::run`].
    #[inline(never)]
    fn next_thread(&'static self) -> Option<TaskRef> {
        in_task(|worker| {
            if starved::are_starving() || worker.is_called() {
                return None;
            }
            let class = self.stack.class();
            let own = take_own_thread(worker, Some(class));
            let (task, way) = own.or_else(|| take_first_thread(worker, |_, wanted| wanted == class))?;
            worker.frame = Frame::new(task.header().request, way);
            self.set_thread(worker, task);
            Some(task)
        })
    }

    /// The fibre behind a resuming task.
    #[inline]
    fn of(task: TaskRef) -> &'static Fibre {
        #[expect(unsafe_code, reason = "follows a pointer to what is never freed")]
        // SAFETY: the task is from `Fibre::task`.
        unsafe {
            task.as_ptr().cast::<Fibre>().as_ref()
        }
    }

    /// The worker has put its frame aside, and is about to switch to this fibre.
    #[inline]
    fn enter(&'static self, worker: &mut Worker) {
        worker.code.waiter = self.waiter();
        #[expect(unsafe_code, reason = "moves the frame into the worker")]
        // SAFETY: the worker's was put aside; this one was written by `begin`, or when the fibre was left, and is moved
        // out here.
        unsafe {
            move_words(self.frame.get().cast(), &raw mut worker.frame);
        }
        self.swap_beneath(worker);
        self.swap_exceptions(worker);
        if worker.recorder.is_on() {
            self.record_enter(worker);
        }
    }

    /// The fibre has switched back: the worker's frame is to be written anew.
    #[inline]
    fn leave_worker(&self, worker: &mut Worker) {
        #[expect(unsafe_code, reason = "moves the worker's frame")]
        // SAFETY: the cell's frame was moved into the worker by `enter`.
        unsafe {
            move_words(&raw const worker.frame, self.frame.get().cast());
        }
        self.swap_beneath(worker);
        self.swap_exceptions(worker);
    }

    #[cold]
    fn record_enter(&self, worker: &mut Worker) {
        let beneath = worker.recorder.open();
        #[expect(unsafe_code, reason = "a cell that only this thread uses, and a pointer to the thread that goes on")]
        // SAFETY: the fibre is of this seat; a thread is there while it is on a fibre.
        unsafe {
            let recorded = &mut *self.recorded.get();
            let open = std::mem::take(&mut recorded.1);
            recorded.0 = beneath;
            if let Some(thread) = self.thread() {
                worker.recorder.thread_goes_on(thread.cast::<TaskHeader>().as_ref(), open);
            }
        }
    }

    #[cold]
    fn record_left(&self, worker: &mut Worker) {
        #[expect(unsafe_code, reason = "a cell that only this thread uses, and a pointer to the thread that waits")]
        // SAFETY: as in `record_enter`.
        unsafe {
            let recorded = &mut *self.recorded.get();
            if let Some(thread) = self.thread() {
                recorded.1 = worker.recorder.thread_is_suspended(thread.cast::<TaskHeader>().as_ref(), recorded.0);
            }
        }
    }

    #[inline]
    fn switch_to(&'static self, task: TaskRef) -> SwitchReason {
        #[expect(unsafe_code, reason = "goes to another stack")]
        // SAFETY: the fibre is of this seat and does not run. Its stack is whole; code there that is bound to a thread
        // of the system stays on this one.
        let word =
            unsafe { self.stack.enter(runs, ptr::from_ref(self).cast(), task.as_ptr().as_ptr().expose_provenance()) };
        SwitchReason::of(word)
    }

    #[cold]
    fn arrive(&'static self, seat: SeatId) {
        let shared = in_task(|worker| Arc::clone(&worker.shared));
        // By the inbox's release the seat finds the stack as it was left.
        self.state.go_to(seat, || shared.call(seat, self.task()));
    }

    /// Swaps C++'s record of caught exceptions.
    #[inline]
    fn swap_exceptions(&self, worker: &mut Worker) {
        #[expect(unsafe_code, reason = "a record of this thread of the system, and a stack of this seat")]
        // SAFETY: the fibre is of this seat, and a worker stays with its thread.
        unsafe {
            self.stack.swap_exceptions(&mut of_worker(worker).exceptions);
        }
    }

    #[inline]
    fn swap_beneath(&self, worker: &mut Worker) {
        #[expect(unsafe_code, reason = "a cell that only this thread uses")]
        // SAFETY: the fibre is of this seat.
        unsafe {
            // Mostly none waits beneath.
            if !worker.stack.beneath.is_empty() || !(*self.beneath.get()).is_empty() {
                ptr::swap(&mut worker.stack.beneath, self.beneath.get());
            }
        }
    }

    /// Switches back to the loop that resumed it, until it is resumed again. Called on its own stack.
    #[inline]
    fn leave(&self, left: SwitchReason) -> TaskRef {
        #[expect(unsafe_code, reason = "goes back to another stack, and is handed a task")]
        // SAFETY: the caller runs on this stack. The returned word is the one handed over by `switch_to`.
        unsafe {
            task_of(self.stack.leave(left.word()))
        }
    }

    /// Waits until it is woken, if it was not since it last went on. It may be woken for nothing.
    #[inline]
    pub(crate) fn suspend(&self) {
        if self.state.suspend() {
            self.leave(SwitchReason::Suspended);
            self.state.resume();
        }
    }

    /// Waits until the receiver of its announcement calls [`Fibre::queue`]; nothing else ends the wait.
    #[inline]
    pub(crate) fn suspend_exactly(&self) {
        if self.follows.get() {
            self.suspend_anywhere();
        } else {
            self.leave(SwitchReason::Suspended);
        }
    }

    /// Suspends it; it may go on at another seat.
    #[inline(never)]
    fn suspend_anywhere(&self) {
        let is_bound = self.on_top.get() > 0 || in_task(|worker| worker.frame.context.is_some());
        if is_bound {
            self.leave(SwitchReason::Suspended);
        } else {
            self.state.note_leaving();
            self.leave(SwitchReason::Away);
            self.state.mark_back();
        }
    }

    /// A task begins on its stack, on top of its thread or of another task there.
    pub(crate) fn enter_task(&self) {
        self.on_top.set(self.on_top.get() + 1);
    }

    /// The task on top is over.
    pub(crate) fn leave_task(&self) {
        self.on_top.set(self.on_top.get() - 1);
    }

    /// Its thread stays with its seat from now on.
    pub(crate) fn stays(&self) {
        self.follows.set(false);
    }

    /// Lets other tasks of its seat go first.
    #[inline]
    pub(crate) fn yield_now(&self) {
        self.leave(SwitchReason::Yielded);
    }

    /// Goes to another seat of its runtime.
    ///
    /// # Safety
    /// Nothing on its stack, and nothing borrowed by it, depends on the operating system's thread.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub(crate) unsafe fn migrate(&self, seat: SeatId) {
        self.leave(SwitchReason::Migrates(seat));
        in_task(|worker| worker.code.began += 1);
    }
}

/// The task behind a handed-over word.
///
/// # Safety
/// The word comes from [`Fibre::switch_to`].
#[inline]
#[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
unsafe fn task_of(word: usize) -> TaskRef {
    // SAFETY: the caller's promise.
    unsafe { TaskRef::new(NonNull::new_unchecked(ptr::with_exposed_provenance_mut(word))) }
}

/// The bottom function of a fibre's stack: it runs one thread after the other. A panic outside of a thread's own catch,
/// such as a waker's, aborts the process: it can't go beyond this stack.
extern "C" fn runs(fibre: *const (), first: usize) -> ! {
    #[expect(unsafe_code, reason = "follows a pointer to what is never freed, and is handed a task")]
    // SAFETY: both are those of `Fibre::switch_to`.
    let (fibre, mut task) = unsafe { (&*fibre.cast::<Fibre>(), task_of(first)) };
    fibre.stack.arrive();
    loop {
        Core::run(task);
        // This frame reads no `thread_local!`: it is on several threads of the system one after the other.
        task = fibre.next_thread().unwrap_or_else(|| fibre.leave(SwitchReason::Ended));
    }
}

/// The seats of a runtime, as the seat of a waker asks for them.
struct Others<'a>(&'a RuntimeState);

impl OtherSeats for Others<'_> {
    #[inline]
    fn claim(&mut self, seat: SeatId) -> bool {
        self.0.hook.of_seat(seat).claim()
    }

    #[inline]
    fn is_elsewhere(&self, seat: SeatId) -> bool {
        self.0.hook.of_seat(seat).is_elsewhere()
    }
}

/// Sends the calling seat's resumable fibres to other seats, if they may go anywhere: the thread is about to do
/// something else, for as long as it likes.
#[cold]
pub(crate) fn send_all_away() {
    let (shared, sent) = in_task(|worker| {
        if next_open_seat(&worker.shared.plan, worker.seat_id, &Others(&worker.shared)).is_none() {
            return (Arc::clone(&worker.shared), Vec::new());
        }
        let (mut stay, mut sent) = (Vec::new(), Vec::new());
        let called = std::iter::from_fn(|| worker.shared.inbox(worker.seat_id).take()).collect::<Vec<_>>();
        for task in called {
            if ptr::eq(task.header().class, &raw const FIBRE) {
                worker.seat.woke(task);
            } else {
                stay.push(task);
            }
        }
        stay.into_iter().for_each(|task| worker.shared.inbox(worker.seat_id).put(task));
        for task in worker.seat.take_woken() {
            let fibre = Fibre::of(task);
            let (plan, others) = (&worker.shared.plan, Others(&worker.shared));
            let open = if fibre.state.is_away() { worker.seat.open_seat(plan, &others) } else { None };
            match open {
                Some(seat) => {
                    fibre.change_seat(&worker.shared, seat);
                    sent.push((seat, task));
                }
                None => worker.seat.woke(task),
            }
        }
        (Arc::clone(&worker.shared), sent)
    });
    sent.into_iter().for_each(|(seat, task)| shared.call(seat, task));
}

/// Sends movable fibres in a seat's inbox to other seats: its own thread does something else.
#[cold]
fn send_on(shared: &RuntimeState, seat: SeatId) {
    let mut other = seat;
    let mut goes_on = true;
    while goes_on && next_open_seat(&shared.plan, seat, &Others(shared)).is_some() {
        goes_on = false;
        // The caller has to queue the tasks taken out.
        let sent: Vec<TaskRef> = std::iter::from_fn(|| shared.inbox(seat).take()).collect();
        for task in sent {
            let fibre = ptr::eq(task.header().class, &raw const FIBRE).then(|| Fibre::of(task));
            let movable = fibre.filter(|fibre| fibre.state.is_away());
            let open = movable.and_then(|_| next_open_seat(&shared.plan, other, &Others(shared)));
            match (fibre, open) {
                (Some(fibre), Some(open)) => {
                    other = open;
                    fibre.change_seat(shared, open);
                    shared.call(open, task);
                }
                _ => {
                    shared.call(seat, task);
                    // The fibre was just leaving its stack before, and may go now.
                    shared.hook.of_seat(seat).after_put();
                    goes_on |= fibre.is_some_and(|fibre| fibre.state.is_away());
                }
            }
        }
    }
}

/// The fibre of the calling code. `None` on a thread's own stack, and while that unwinds: the count of panics belongs
/// to the operating system's thread.
#[inline]
pub(crate) fn current() -> Option<&'static Fibre> {
    let fibre = beneath();
    if fibre.is_some() && std::thread::panicking() { None } else { fibre }
}

/// The fibre whose stack the calling code is on.
#[inline]
pub(crate) fn beneath() -> Option<&'static Fibre> {
    with_worker(|worker| beneath_of(worker)).flatten()
}

/// The fibre whose stack the code of this worker is on.
#[inline]
pub(crate) fn beneath_of(worker: &Worker) -> Option<&'static Fibre> {
    is_apart(worker.code.waiter).then(|| Fibre::of_waiter(worker.code.waiter))
}

/// The worker's state put aside while its thread is on fibres.
struct Outer {
    waiter: Waiter,
    frame: MaybeUninit<Frame>,
}

impl Outer {
    /// The worker's frame is to be written anew.
    #[inline]
    fn put_aside(worker: &mut Worker) -> Outer {
        let mut outer = Outer { waiter: worker.code.waiter, frame: MaybeUninit::uninit() };
        #[expect(unsafe_code, reason = "moves the worker's frame")]
        // SAFETY: it is written before it is used or dropped, by `Fibre::enter`.
        unsafe {
            move_words(&raw const worker.frame, outer.frame.as_mut_ptr());
        }
        outer
    }

    /// Puts the worker's frame back; the worker goes on as before.
    #[inline]
    fn resume(&self, worker: &mut Worker) {
        worker.code.waiter = self.waiter;
        #[expect(unsafe_code, reason = "moves the frame back")]
        // SAFETY: `put_aside` has written it, and it is moved back once: by the last round.
        unsafe {
            move_words(self.frame.as_ptr(), &raw mut worker.frame);
        }
    }
}

/// Moves a frame word by word: fields of a frame are written one by one shortly before, and a load of two at once would
/// wait for both stores.
///
/// # Safety
/// A frame is at `from`, and `to` has room for one; only the caller uses them. The old frame is not used any more.
#[inline]
#[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
unsafe fn move_words(from: *const Frame, to: *mut Frame) {
    type Word = MaybeUninit<usize>;
    let (from, to) = (from.cast::<Word>(), to.cast::<Word>());
    for word in 0..size_of::<Frame>() / size_of::<Word>() {
        // SAFETY: within the frames, and these consist of whole words.
        unsafe {
            to.add(word).write_volatile(from.add(word).read_volatile());
        }
    }
}

const _: () = assert!(size_of::<Frame>().is_multiple_of(size_of::<usize>()));

/// Whether a task resumes a fibre.
pub(crate) fn is_fibre(task: TaskRef) -> bool {
    ptr::eq(task.header().class, &raw const FIBRE)
}

/// Starts a thread on a fibre of the calling thread's seat; `way` says how the seat found it. Returns the task if there
/// is no stack for it.
pub(crate) fn start(task: TaskRef, class: Class, way: Option<Way>) -> Result<(), TaskRef> {
    let begun = in_task(|worker| {
        let fibre = of_worker(worker).stacks.take(class)?;
        let way = way.unwrap_or(worker.frame.way);
        let outer = Outer::put_aside(worker);
        worker.seat.begin_row(is_apart(worker.code.waiter));
        fibre.begin(worker, task, way);
        Some((fibre, outer))
    });
    let (fibre, outer) = begun.ok_or(task)?;
    Fibre::go_round(fibre, task, outer);
    Ok(())
}

/// Begins the awaited thread on top of the calling fibre, if the seat would run it next. Then the fibre need not be
/// suspended and woken, unless the thread has to wait: a waiting thread gives the fibre beneath its turn.
///
/// Whether it has begun.
#[inline]
pub(crate) fn begin_awaited(thread: NonNull<Core>) -> bool {
    let begun = in_task(|worker| {
        if !worker.seat.try_on_top() || !worker.seat.is_own_thread_next() || worker.is_called() {
            return None;
        }
        let deque = worker.own()?;
        if deque.youngest()?.as_ptr() != thread.cast() {
            return None;
        }
        let task = deque.pop()?;
        let fibres = of_worker(worker);
        let fibre = if task.as_ptr() == thread.cast() { fibres.stacks.take_free(Core::class(task)) } else { None };
        let Some(fibre) = fibre else {
            put_back_own(worker, task);
            return None;
        };
        // A row has a limit, and so has the depth of threads that each wait for the next one.
        let way = worker.seat.begin_own_thread();
        let outer = Outer::put_aside(worker);
        fibre.begin(worker, task, way);
        Some((fibre, task, outer))
    });
    go_on_top(begun)
}

/// Like [`begin_awaited`], for code about to wait for an event that any thread may bring. The code runs on a fibre, or
/// on its thread's own stack, such as that of a program's main thread, unless only some tasks may begin there. On top
/// of an own stack, resumable threads may take their turns before the code beneath goes on, as they may while it waits.
pub(crate) fn begin_next() -> bool {
    let begun = in_task(|worker| {
        if !worker.seat.try_on_top() {
            return None;
        }
        if !is_apart(worker.code.waiter) {
            if worker.stack.is_tied || !worker.stack.below.is_null() {
                return None;
            }
            worker.seat.begin_row_on_top();
        }
        if !worker.seat.may_begin_thread() || worker.is_called() {
            return None;
        }
        let mut fibre = None;
        let mut take_stack = |stacks: &mut OwnStacks<Fibre>, class| {
            fibre = stacks.take_free(class);
            fibre.is_some()
        };
        let (task, way) = match take_own_thread(worker, None) {
            Some((task, way)) if take_stack(&mut of_worker(worker).stacks, Core::class(task)) => (task, way),
            Some((task, _)) => {
                put_back_own(worker, task);
                return None;
            }
            None => take_first_thread(worker, take_stack)?,
        };
        let fibre = fibre.expect("the task was taken with a stack");
        let outer = Outer::put_aside(worker);
        fibre.begin(worker, task, way);
        Some((fibre, task, outer))
    });
    go_on_top(begun)
}

fn go_on_top(begun: Option<(&'static Fibre, TaskRef, Outer)>) -> bool {
    let is_begun = begun.is_some();
    if let Some((fibre, task, outer)) = begun {
        Fibre::go_round(fibre, task, outer);
    }
    is_begun
}

/// A thread begun by [`begin_awaited`] or [`begin_next`] waits: one switch was wasted. The next threads begin in the
/// usual way.
#[cold]
pub(crate) fn began_in_vain() {
    in_task(|worker| worker.seat.began_in_vain());
}

/// The youngest task of a seat's own queue, if the queue has its turn and the task is a beginning thread with a stack
/// of this class, or of any class with `None`.
#[inline]
fn take_own_thread(worker: &mut Worker, class: Option<Class>) -> Option<(TaskRef, Way)> {
    if !worker.seat.is_own_thread_next() {
        return None;
    }
    let task = worker.own()?.pop()?;
    if Core::is(task) && class.is_none_or(|class| class == Core::class(task)) {
        return Some((task, worker.seat.begin_own_thread()));
    }
    put_back_own(worker, task);
    None
}

/// For a seat without a queue of its own: the oldest task of the first queue in its plan, if the queue has its turn and
/// the task is a beginning thread with a class accepted by `has_stack`.
#[inline]
fn take_first_thread(
    worker: &mut Worker,
    has_stack: impl FnOnce(&mut OwnStacks<Fibre>, Class) -> bool,
) -> Option<(TaskRef, Way)> {
    let (queue, way) = worker.seat.first_thread_next()?;
    let stacks = &mut *of_parts(&mut worker.code.above, &worker.shared, worker.seat_id).stacks;
    let wanted = |task: &TaskRef| Core::is(*task) && has_stack(stacks, Core::class(*task));
    let task = worker.shared.queued.queues.take_oldest_if(queue, wanted)?;
    worker.seat.begin_first_thread();
    Some((task, way))
}

fn put_back_own(worker: &Worker, task: TaskRef) {
    let own = worker.own().expect("it was taken from there");
    own.push(task).unwrap_or_else(|_| unreachable!("its place is free"));
}

/// Goes on with a suspended fibre.
#[expect(unsafe_code, reason = "the type of a class's functions")]
// SAFETY of callers: `task` is a fibre's, queued at this seat and taken once.
unsafe fn go_on(task: TaskRef) {
    Fibre::of(task).resume(task);
}
