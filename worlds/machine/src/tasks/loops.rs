//! Loops with iterations that run near the same place each time.

use super::scope::keep_first;
use super::visitors::Visitors;
use crate::runtime::awaited::Awaited;
use crate::runtime::handle::MachineRuntime;
use crate::runtime::latch::Notify as _;
use crate::runtime::shared::RuntimeState;
use crate::runtime::worker::class::{closure_class, end_task};
use crate::runtime::worker::context::{recorded, wait_for_descendants};
use crate::runtime::worker::{self, in_task, is_seated, outside};
use crate::sync::Padded;
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use vicus_schedule::{ContextOwner, ContextRef, Kind, RequestId, SeatId, TaskClass, TaskHeader, TaskRef, Waiter};
use vicus_trace::Awaits;

/// Number of pieces in each thread's share of a loop, so that others can help.
const PIECES: usize = 16;

/// A thread with this number of loops in its inbox is not invited to another one.
const UNHEARD: usize = 8;

/// Runs a closure for each number of a range, on all threads, and returns when all is done. The range is cut into as
/// many parts as there are threads, always in the same way: in the next loop over the same range, the same number comes
/// to the same thread. Its data is in this thread's caches and, if the thread touched it first, in near memory. A
/// thread with a finished part helps the nearest ones first. For results of iterations see
/// [`map_reduce`](crate::map_reduce()) and [`collect`](crate::collect).
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// let (runtime, sum) = (vicus_machine::MachineRuntime::builder().threads(2).start(), AtomicUsize::new(0));
/// runtime.run(|| vicus_machine::for_each(0..1000, |n| _ = sum.fetch_add(n, Ordering::Relaxed)));
/// assert_eq!(sum.into_inner(), 499_500);
/// ```
///
/// # Panics
/// If the closure panics, with its panic; iterations that have not begun are then left out. Outside of a runtime
/// ([`is_in_runtime`](crate::is_in_runtime)).
pub fn for_each(range: Range<usize>, f: impl Fn(usize) + Sync) {
    pieces(range, &|piece| piece.for_each(&f));
}

/// Runs a closure for each piece of a range, like [`for_each`]: for bodies that are quicker with many numbers at a
/// time, or have a costly call.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// let (runtime, sum) = (vicus_machine::MachineRuntime::builder().threads(2).start(), AtomicUsize::new(0));
/// runtime.run(|| vicus_machine::for_each_piece(0..1000, |piece| _ = sum.fetch_add(piece.sum(), Ordering::Relaxed)));
/// assert_eq!(sum.into_inner(), 499_500);
/// ```
///
/// # Panics
/// As [`for_each`].
pub fn for_each_piece(range: Range<usize>, f: impl Fn(Range<usize>) + Sync) {
    pieces(range, &f);
}

/// Runs a closure for each element of a slice and its index, as [`for_each`].
///
/// ```
/// let (runtime, mut squares) = (vicus_machine::MachineRuntime::builder().threads(2).start(), vec![0; 1000]);
/// runtime.run(|| vicus_machine::for_each_mut(&mut squares, |index, square| *square = index * index));
/// assert_eq!(squares[31], 961);
/// ```
///
/// # Panics
/// As [`for_each`].
pub fn for_each_mut<T: Send>(elements: &mut [T], f: impl Fn(usize, &mut T) + Sync) {
    struct Start<T>(*mut T);
    #[expect(unsafe_code, reason = "it has a pointer")]
    // SAFETY: each element is accessed by one thread.
    unsafe impl<T: Send> Sync for Start<T> {}
    impl<T> Start<T> {
        fn at(&self, index: usize) -> *mut T {
            self.0.wrapping_add(index)
        }
    }
    let start = Start(elements.as_mut_ptr());
    pieces(0..elements.len(), &|piece| {
        for index in piece {
            #[expect(unsafe_code, reason = "each thread has elements of its own")]
            // SAFETY: inside the slice, which is borrowed until all is done; no other piece has this index.
            f(index, unsafe { &mut *start.at(index) });
        }
    });
}

/// Cuts a range into pieces, and does each once.
pub(super) fn pieces(range: Range<usize>, f: &(dyn Fn(Range<usize>) + Sync)) {
    if range.is_empty() {
        return;
    }
    if !is_seated() {
        return MachineRuntime::of_this_thread().run(|| pieces(range, f));
    }
    let (shared, owner, request, context) =
        in_task(|worker| (Arc::clone(&worker.shared), worker.owner(), worker.frame.request, worker.frame.parent));
    let ContextOwner { seat, waiter } = owner;
    let work = Arc::new(Loop { context, ..Loop::new(&shared, waiter, request, range, f) });
    in_task(|worker| worker.recorder.section_begins(request));
    for other in (0..work.parts.len()).map(SeatId::new).filter(|&other| other != seat) {
        // A seat with several unanswered invitations is busy with something longer.
        if !work.parts[other.index()].range.is_empty() && shared.inbox(other).len() < UNHEARD {
            in_task(|worker| {
                let task = Invitation::task(&work, worker.recorder.number());
                worker.recorder.task_enqueued(task, Kind::Deferred);
                shared.call(other, task);
            });
        }
    }
    work.help(&shared, seat);
    work.visitors.close();
    recorded(Awaits::Section, || worker::wait(Some(request), &*work));
    let panic = work.panic.lock().expect("nothing panics under this lock").take();
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

/// A loop in work by threads.
struct Loop {
    /// By thread.
    parts: Vec<ThreadPart>,
    /// The caller's function. Invariant: alive until the loop is closed and its visitors have left.
    f: *const (dyn Fn(Range<usize>) + Sync),
    /// Invited threads.
    visitors: Visitors,
    /// The caller, waiting for them.
    waiter: Waiter,
    /// The caller's request, which owns all iterations.
    request: RequestId,
    /// The context with the iterations' cancellation. Invariant: alive until the loop is closed and its visitors have
    /// left.
    context: ContextRef,
    /// The first number.
    start: usize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

struct ThreadPart {
    range: Range<usize>,
    /// The start of the next piece.
    next: Padded<AtomicUsize>,
}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: the function may be called by several threads at once.
unsafe impl Send for Loop {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as above.
unsafe impl Sync for Loop {}

impl Loop {
    fn new<'a>(
        shared: &RuntimeState,
        waiter: Waiter,
        request: RequestId,
        range: Range<usize>,
        f: &'a (dyn Fn(Range<usize>) + Sync + 'a),
    ) -> Loop {
        let threads = shared.plan.threads();
        // Counted from 0, so that no number overflows.
        let at = |thread: usize| (range.len() as u128 * thread as u128 / threads as u128) as usize;
        let part = |thread: usize| {
            let range = at(thread)..at(thread + 1);
            ThreadPart { next: Padded(AtomicUsize::new(range.start)), range }
        };
        #[expect(unsafe_code, reason = "an invited thread may come after the caller has left")]
        // SAFETY: both point to the same function; only visitors of the loop call it, and the caller waits for them.
        let f = unsafe {
            std::mem::transmute::<*const (dyn Fn(Range<usize>) + Sync + 'a), *const (dyn Fn(Range<usize>) + Sync)>(f)
        };
        Loop {
            parts: (0..threads).map(part).collect(),
            f,
            visitors: Visitors::new(),
            waiter,
            request,
            context: ContextRef::NONE,
            start: range.start,
            panic: Mutex::new(None),
        }
    }

    /// Does pieces until there are none left: first those of this seat's part, and then others', the nearest first.
    fn help(&self, shared: &RuntimeState, seat: SeatId) {
        #[expect(unsafe_code, reason = "follows a pointer into the caller's frame")]
        // SAFETY: by the field's invariant.
        let f = unsafe { &*self.f };
        let mut order = Vec::new();
        let mut part = (seat.index() < self.parts.len()).then_some(seat.index());
        loop {
            while let Some(piece) = part.and_then(|part| self.parts[part].take()) {
                let piece = self.start + piece.start..self.start + piece.end;
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| f(piece))) {
                    keep_first(&self.panic, panic);
                    self.parts.iter().for_each(|part| part.next.0.store(part.range.end, Ordering::Relaxed));
                }
            }
            if order.is_empty() {
                order = seats_by_distance(shared, seat, self.parts.len());
            }
            part = order.iter().copied().find(|&part| self.parts[part].has_more());
            if part.is_none() {
                return;
            }
        }
    }

    /// An invited thread comes.
    fn visit(&self, shared: &RuntimeState, seat: SeatId) {
        if self.visitors.enter() {
            self.help(shared, seat);
            if let Some(panic) = wait_for_descendants() {
                outside(|| keep_first(&self.panic, panic));
            }
        }
        if self.visitors.leave() {
            shared.notify(self.waiter);
        }
    }
}

impl Awaited for Loop {
    fn is_done(&self) -> bool {
        self.visitors.is_done()
    }

    fn announce_sleep(&self) -> bool {
        self.visitors.announce_sleep()
    }
}

impl ThreadPart {
    fn has_more(&self) -> bool {
        self.next.0.load(Ordering::Relaxed) < self.range.end
    }

    fn take(&self) -> Option<Range<usize>> {
        let piece = self.range.len().div_ceil(PIECES);
        let end = self.range.end;
        let after = |start: usize| (start < end).then(|| start + piece.min(end - start));
        let start = self.next.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).ok()?;
        Some(start..start + piece.min(end - start))
    }
}

/// The other threads' seats, the nearest first; at equal distance cyclically, so that helpers spread.
fn seats_by_distance(shared: &RuntimeState, seat: SeatId, threads: usize) -> Vec<usize> {
    let own = &shared.plan.seats[seat.index()];
    let mut others: Vec<usize> = (0..threads).filter(|&other| other != seat.index()).collect();
    others.sort_by_key(|&other| {
        let plan = &shared.plan.seats[other];
        let far = shared.topology().numa_value(own.node, plan.node);
        (far, plan.pool != own.pool, (other + shared.plan.seats.len() - seat.index()) % shared.plan.seats.len())
    });
    others
}

/// A task that invites a thread to a loop. No thread waits for it.
#[repr(C)]
struct Invitation {
    /// First, so that its address is the task's.
    header: TaskHeader,
    work: Arc<Loop>,
}

static INVITATION: TaskClass = closure_class(come);

impl Invitation {
    fn task(work: &Arc<Loop>, number: u32) -> TaskRef {
        let header =
            TaskHeader { class: &INVITATION, context: work.context, request: work.request, number, has_data: false };
        let invitation = Box::into_raw(Box::new(Invitation { header, work: Arc::clone(work) }));
        #[expect(unsafe_code, reason = "a task on the heap")]
        // SAFETY: the header is its first field; it stays in place until it is run.
        unsafe {
            TaskRef::new(NonNull::new_unchecked(invitation.cast()))
        }
    }
}

#[expect(unsafe_code, reason = "the type of a class's functions")]
// SAFETY of callers: `task` is an [`Invitation`]'s, run once.
unsafe fn come(task: TaskRef) {
    // SAFETY: it was made of a Box.
    let invitation = unsafe { Box::from_raw(task.as_ptr().as_ptr().cast::<Invitation>()) };
    let (shared, seat) = in_task(|worker| {
        worker.begin_task(task);
        (Arc::clone(&worker.shared), worker.seat_id)
    });
    invitation.work.visit(&shared, seat);
    end_task(&invitation.header);
}
