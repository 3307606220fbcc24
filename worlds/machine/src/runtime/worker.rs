//! A thread on a seat: it runs the tasks chosen by the [`Seat`], and sleeps when the seat says so.
//!
//! A task's class has its run function: for a box (`boxes.rs`), or for a closure (`tasks/`). A waiting task runs other
//! tasks meanwhile, on top of its own stack.
//!
//! [`with_worker`] alone gives a reference to the worker, and that reference ends before a user's code runs: that code
//! may spawn and wait, and so change the worker. Functions that run tasks are therefore no methods; between two tasks
//! they get the worker anew.

mod apart;
mod at_once;
pub(crate) mod class;
pub(crate) mod context;
mod dealing;
pub(crate) mod job;
mod own;
mod priority;
mod queueing;
mod room;

pub use apart::leave_to_program;
pub(crate) use apart::send_away;
use apart::{may_be_suspended, wait_apart, with_layer};
pub use at_once::AtOnce;
use own::OwnQueue;

use crate::memory::allocator::column_block;
use crate::memory::heaps;
use crate::memory::slab::Slab;
use crate::queues::Reach;
use crate::queues::deque::Deque;
use crate::queues::inbox::Inbox;
use crate::queues::sleep::{SleepPool, Woken};
use crate::runtime::awaited::Awaited;
use crate::runtime::boxes::{end_if_last, leave, recover, sweep_boxes};
use crate::runtime::clock::now_ns;
use crate::runtime::here::HERE;
use crate::runtime::hook::{Layer, SeatState, is_apart, waiter_of_seat};
#[cfg(not(loom))]
use crate::runtime::naps::nap_before_sleep;
use crate::runtime::recorder::{SeatRecorder, name_of};
use crate::runtime::requests::waits::Beneath;
use crate::runtime::shared::RuntimeState;
#[cfg(debug_assertions)]
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vicus_flow::{Blocks, BoxId, Instance, SeatBuffers};
use vicus_schedule::{
    After, Context, ContextRef, Decision, FoundTask, Kind, NextTask, PoolId, QueueId, QueuesByRequest as _, RequestId,
    Rest, Seat, SeatId, SeatPlan, Sleeper, Spawner, Take, TaskRef, Waiter, Wake, Way,
};

/// The state of a thread working on a seat.
pub struct Worker {
    /// The state shared by the runtime's threads.
    pub shared: Arc<RuntimeState>,
    /// The number of its seat.
    pub seat_id: SeatId,
    /// Its place among the seats of its pool.
    slot: usize,
    /// The seat: its decisions.
    pub seat: Seat<TaskRef>,
    /// The running task.
    pub frame: Frame,
    /// The tasks beneath the running one.
    pub stack: SeatStack,
    /// The running code, for the layer above.
    pub code: SeatCode,
    pub(crate) supplies: Supplies,
    /// The seat's own queue, and the seats that wait for its tasks.
    own: OwnQueue,
    /// The seat's log.
    pub recorder: SeatRecorder,
}

/// The tasks beneath the running one on a seat's stack, and which may begin on top of them.
pub struct SeatStack {
    /// Their requests, and what they wait for.
    pub beneath: Beneath,
    /// Only tasks below this context may begin on this seat. Null if any may.
    pub below: *const Context,
    /// Whether it sits for a member of a team: its tasks are tied to their threads, and wait for their own descendants
    /// alone.
    pub is_tied: bool,
}

/// The code that a seat runs, and the layer that has stacks for it.
pub struct SeatCode {
    /// The waiter to wake when the running code's wait ends: code with a stack of its own, or the seat.
    pub waiter: Waiter,
    /// The layer's state for this seat.
    pub above: SeatState,
    /// How much code of the layer has begun here, less what has ended here; see `Worker::has_code`.
    pub began: isize,
}

/// Memory and the `SeatBuffers` that a seat has at hand for its tasks and boxes.
pub(crate) struct Supplies {
    /// For the next box; `None` while one runs.
    pub(crate) buffers: Option<Box<SeatBuffers>>,
    /// Memory for tasks.
    pub(crate) slab: Slab,
    /// The number of the last sweep done by this seat.
    pub(crate) swept: u64,
}

/// The worker's data about the running task. A waiting task puts its frame aside while others run on top of it.
pub struct Frame {
    /// The request of the task.
    pub request: RequestId,
    /// How the worker got it.
    pub way: Way,
    /// The request of the last box. The worker owns this reference, because it uses the instance after its last task.
    pub(crate) current: Option<Arc<Instance>>,
    /// The box with an invocation under way.
    pub(crate) running: Option<BoxId>,
    /// The context that counts the task.
    pub(crate) parent: ContextRef,
    /// The task's current context for spawning children; `None` until it spawns one or opens a group.
    pub context: Option<NonNull<Context>>,
    /// Input for dealing the task's children, beside their data.
    pub(crate) spawner: Spawner,
}

/// Calls `f` with the worker of the calling thread's seat; `None` if the thread sits on none. `f` runs no user's code:
/// such code could call this function again.
#[inline]
pub fn with_worker<R>(f: impl FnOnce(&mut Worker) -> R) -> Option<R> {
    NonNull::new(HERE.get().cast::<Worker>()).map(|worker| {
        #[expect(unsafe_code, reason = "the worker of the calling thread's seat")]
        // SAFETY: the pointer is the worker in `HERE`.
        unsafe {
            lend(worker, f)
        }
    })
}

/// Like [`with_worker`], in a running task.
#[inline]
pub fn in_task<R>(f: impl FnOnce(&mut Worker) -> R) -> R {
    // Avoids `with_worker`: its `Option` would pass the result of `f` through memory.
    let Some(worker) = NonNull::new(HERE.get().cast::<Worker>()) else { no_seat() };
    #[expect(unsafe_code, reason = "the worker of the calling thread's seat")]
    // SAFETY: the pointer is the worker in `HERE`.
    unsafe {
        lend(worker, f)
    }
}

#[cold]
fn no_seat() -> ! {
    panic!("a task runs on a seat")
}

/// # Safety
/// The worker is the one in [`HERE`].
#[inline]
#[expect(unsafe_code, reason = "the worker of the calling thread's seat")]
unsafe fn lend<R>(mut worker: NonNull<Worker>, f: impl FnOnce(&mut Worker) -> R) -> R {
    #[cfg(debug_assertions)]
    let _once = Once::new();
    // SAFETY: `Worker::work` and `Worker::on_seat` put it there and take it away before it ends, so it is this thread's
    // and alive. Only `f` has a reference: there is no other way to it, and `f` runs nothing that calls this again
    // (debug builds check this).
    f(unsafe { worker.as_mut() })
}

/// Whether the calling thread sits on a seat.
#[inline]
pub fn is_seated() -> bool {
    !HERE.get().is_null()
}

/// Whether the calling thread runs a task of this runtime.
pub fn runs_task_of(shared: &RuntimeState) -> bool {
    with_worker(|worker| Arc::as_ptr(&worker.shared)) == Some(ptr::from_ref(shared))
}

/// Calls `f` with the shared state of the calling thread's runtime, in a running task. `f` may run a user's code.
#[inline]
pub fn with_shared<R>(f: impl FnOnce(&RuntimeState) -> R) -> R {
    let shared = in_task(|worker| Arc::as_ptr(&worker.shared));
    #[expect(unsafe_code, reason = "a reference that does not borrow the worker")]
    // SAFETY: the worker holds it, and sits on its seat for longer than `f` runs there. Cloning the `Arc` instead would
    // have all threads write to its count's line each time.
    f(unsafe { &*shared })
}

/// Calls `f` as if the calling thread sat on no seat: a user's destructors are no part of a task.
#[inline]
pub fn outside<R>(f: impl FnOnce() -> R) -> R {
    let _inside = Restore(HERE.replace(ptr::null_mut()));
    f()
}

/// Marks a reference to the worker as in use.
#[cfg(debug_assertions)]
struct Once;

#[cfg(debug_assertions)]
thread_local! {
    static IN_USE: Cell<bool> = const { Cell::new(false) };
}

#[cfg(debug_assertions)]
impl Once {
    // Not inlined, nor is its drop: a fibre's frame may be on another thread of the system the next time.
    #[inline(never)]
    fn new() -> Once {
        assert!(
            !IN_USE.replace(true),
            "the worker is in use: a user's code came here again; it is to run in `outside`"
        );
        Once
    }
}

#[cfg(debug_assertions)]
impl Drop for Once {
    #[inline(never)]
    fn drop(&mut self) {
        IN_USE.set(false);
    }
}

/// Sleeps until it is woken, or for a pause. After a nap, the thread gives up its free superblocks to other heaps;
/// after a longer time they go back to the system, even if no thread works.
fn sleep(
    shared: &RuntimeState,
    pool: PoolId,
    slot: usize,
    pause: Option<Duration>,
    reason: impl Fn() -> bool,
) -> Woken {
    let sleepers = &shared.system.sleepers.pools[pool.index()];
    #[cfg(not(loom))]
    if let Some(pause) = pause {
        return sleepers.sleep_for(slot, pause, &reason);
    }
    #[cfg(loom)]
    let _ = pause;
    #[cfg(not(loom))]
    let nap = |long| match sleepers.sleep_for(slot, long, &reason) {
        Woken::Late => None,
        woken => Some(woken),
    };
    #[cfg(not(loom))]
    if let Some(woken) = nap_before_sleep(|| shared.hook.give_back_memory(), nap) {
        return woken;
    }
    sleepers.sleep(slot, reason)
}

impl Worker {
    /// A worker for a thread about to sit down.
    pub fn new(shared: Arc<RuntimeState>, seat: SeatId) -> Worker {
        let recorder = SeatRecorder::new(shared.recording.as_ref(), seat);
        let state = Seat::new(&shared.plan, seat, |queue| shared.queued.queues.deque(queue).is_some());
        let own = OwnQueue::new(&shared, &state, seat);
        let plan = &shared.plan.seats[seat.index()];
        let slot = shared.plan.pools[plan.pool.index()].seats.iter().position(|&other| other == seat);
        Worker {
            slot: slot.expect("a seat is in its pool"),
            seat: state,
            frame: Frame::new(RequestId::new(0), Way::NO_QUEUE),
            stack: SeatStack { beneath: Beneath::default(), below: ptr::null(), is_tied: false },
            code: SeatCode {
                waiter: waiter_of_seat(seat),
                above: SeatState::none(),
                began: shared.hook.of_seat(seat).gone(),
            },
            supplies: Supplies { buffers: None, slab: Slab::new(seat), swept: 0 },
            own,
            recorder,
            seat_id: seat,
            shared,
        }
    }

    /// Buffers for boxes of this seat.
    pub(crate) fn new_buffers(&self) -> Box<SeatBuffers> {
        let (node, blocks) = (self.node(), Blocks::of(column_block));
        let seat = Some(self.seat_id.index());
        let entry = Some(Arc::clone(&self.shared.queued.entry));
        let now_ns = Some(now_ns as fn() -> u64);
        Box::new(SeatBuffers {
            recording: self.recorder.keeps_events(),
            node,
            blocks,
            now_ns,
            entry,
            seat,
            ..SeatBuffers::default()
        })
    }

    /// Works until `goes_on` is false. It is checked between two tasks and around sleep.
    pub(crate) fn work(&mut self, goes_on: impl Fn() -> bool) {
        let shared = Arc::clone(&self.shared);
        let _outer = Restore(HERE.replace(ptr::from_mut(self).cast()));
        let seat = Seated::of_this_thread(&shared);
        // A panic outside of an invocation's own catch fails its request, and costs no thread. The catch stands here,
        // because it costs nothing for each invocation here.
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| seat.work_while(&goes_on))) {
            recover(panic);
        }
    }

    /// The calling thread sits here while `f` runs.
    pub fn on_seat<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let _outer = Restore(HERE.replace(ptr::from_mut(self).cast()));
        f()
    }

    /// Begins a task that came from no queue and is counted nowhere.
    pub fn begin_alone(&mut self, request: RequestId) {
        self.frame.request = request;
        self.frame.way = Way::NO_QUEUE;
        self.frame.parent = ContextRef::NONE;
        self.frame.spawner = Spawner::default();
        debug_assert!(self.frame.context.is_none(), "the last task has ended with its context");
    }

    /// Whether other threads have sent a task to the seat.
    #[inline]
    pub fn is_called(&self) -> bool {
        self.shared.inbox(self.seat_id).is_waiting()
    }

    /// The seat's own lock-free queue for immediate tasks.
    #[inline]
    pub fn own(&self) -> Option<&Deque> {
        self.own.queue()
    }

    /// The target queue of [`Worker::put_own`].
    #[inline]
    pub(crate) fn tasks(&self) -> Option<&Deque> {
        self.own.tasks()
    }

    /// Puts an immediate plain task into the seat's own queue, if it has one for these. Other seats see the task when
    /// they want some.
    #[inline]
    pub fn put_own(&mut self, task: TaskRef) -> Result<(), TaskRef> {
        self.tasks().ok_or(task)?.push(task)?;
        if self.own.has_sleepers() {
            self.share_own();
        }
        Ok(())
    }

    /// Records a queued closure, in the seat's own queue (`is_near`) if it has one.
    #[inline]
    pub fn record_queued(&mut self, task: TaskRef, kind: Kind, is_near: bool) {
        if self.recorder.is_on() {
            self.record_closure(task, kind, is_near);
        }
    }

    #[cold]
    fn record_closure(&mut self, task: TaskRef, kind: Kind, is_near: bool) {
        self.recorder.task_enqueued(task, kind);
        if let Some(queue) = self.seat.own().filter(|_| is_near && self.tasks().is_some()) {
            self.record_put(task, queue);
        }
    }

    #[cold]
    #[inline(never)]
    fn share_own(&mut self) {
        self.own().expect("a task was put there").share(false);
        let queue = self.shared.plan.seats[self.seat_id.index()].tasks;
        self.wake(queue, self.frame.request, Kind::Immediate);
    }

    /// Moves this seat's private tasks to a queue open to others: its thread leaves, or is about to block.
    pub(crate) fn share_tasks(&mut self) {
        let kept = self.seat.take_private();
        self.shared.queued.queues.own(self.seat_id).for_each(|own| own.share(true));
        let entry = self.shared.plan.entry[0];
        for task in kept {
            let request = task.header().request;
            self.shared.queued.queues.push(entry, task).unwrap_or_else(|_| panic!("an entry queue has no capacity"));
            self.shared.wake_for(entry, Some(request), true);
        }
        // Tasks meant to be this seat's next: no other seat was woken for them.
        if let Some(front) = self.shared.plan.front().filter(|&front| self.shared.queued.queues.len(front) > 0) {
            self.shared.wake_for(front, None, true);
        }
    }

    /// Leaves the seat for good: its log goes into the runtime's trace.
    pub(crate) fn hand_in(self) {
        self.recorder.hand_in(self.shared.recording.as_ref(), self.seat_id);
    }

    pub(crate) fn pool(&self) -> PoolId {
        self.shared.plan.seats[self.seat_id.index()].pool
    }

    /// The origin of this seat's distances.
    #[inline]
    pub fn node(&self) -> vicus_topology::NodeId {
        self.shared.plan.seats[self.seat_id.index()].node
    }

    /// A task to run. `last`: the seat would sleep otherwise.
    #[inline(always)]
    fn find(&mut self, shared: &RuntimeState, last: bool) -> Option<NextTask<TaskRef>> {
        let mut reach = self.reach(shared, last);
        let plan = self.stand(shared);
        if shared.are_several() {
            if let Some(run) = self.find_in_turn(shared, plan, &mut reach, None) {
                return Some(run);
            }
        } else {
            self.seat.end_turns();
        }
        let mut found = self.seat.find(plan, &mut reach, || shared.inbox(self.seat_id).take());
        if found.is_none() && self.seat.stands() != self.seat_id {
            found = self.seat.find_at_home(&shared.plan.seats[self.seat_id.index()], &mut reach);
        }
        if reach.below.is_some() {
            found = found.or_else(|| find_below(shared, &mut reach, self.frame.request));
        } else if found.is_none() && self.helps_others(shared) {
            found = self.seat.help(plan, &mut reach).map(|FoundTask { task, way }| NextTask {
                task,
                way,
                passes_wake_on: false,
            });
        }
        if let Some(task) = reach.refused {
            shared.put_task_at_entry(task);
        }
        found
    }

    /// Whether a seat with a waiting task may run any task meanwhile: several requests run, and the waiting one has
    /// nothing to do.
    #[inline]
    fn helps_others(&self, shared: &RuntimeState) -> bool {
        shared.are_several() && self.seat.waits_for().is_some() && !self.seat.is_deep() && !self.stack.is_tied
    }

    /// A task of the next request in turn, while several run; of another one than `but`.
    #[cold]
    #[inline(never)]
    fn find_in_turn(
        &mut self,
        shared: &RuntimeState,
        plan: &SeatPlan,
        reach: &mut Reach<'_>,
        but: Option<RequestId>,
    ) -> Option<NextTask<TaskRef>> {
        // A waiting tied task may only have its own descendants run.
        if self.stack.is_tied || !self.stack.below.is_null() || self.seat.is_deep() {
            return None;
        }
        self.seat.find_in_turn(
            plan,
            reach,
            || shared.inbox(self.seat_id).take(),
            now_ns(),
            &mut &shared.ongoing.open,
            but,
        )
    }

    /// The queues as this seat reaches them.
    #[inline]
    fn reach<'a>(&self, shared: &'a RuntimeState, last: bool) -> Reach<'a> {
        let own = self.own.queue_of(shared);
        #[expect(unsafe_code, reason = "follows a pointer")]
        // SAFETY: null, or a context of a waiting task on this thread's stack.
        let below = unsafe { self.stack.below.as_ref() };
        Reach {
            queues: &shared.queued.queues,
            seat: self.seat_id,
            own,
            last: last.then_some(&shared.system.sleepers.barrier),
            below,
            refused: None,
        }
    }

    /// Puts a task into a queue, and wakes one sleeper for it or runs a task at once, as the seat decides.
    pub(crate) fn put(&mut self, task: TaskRef, queue: QueueId, kind: Kind) -> AtOnce {
        let (request, runs_inline) = (task.header().request, task.header().class.runs_inline);
        self.record_put(task, queue);
        match self.shared.queued.queues.push(queue, task) {
            Ok(()) => match self.seat.pushed(runs_inline, self.shared.queued.queues.is_overfull()) {
                After::Help if !self.stack.is_tied => return self.help(),
                // A tied task may begin its own descendants alone.
                After::Wake | After::Help => self.wake(queue, request, kind),
            },
            Err(task) if runs_inline => return self.refused(task),
            Err(task) => _ = self.seat.refused(task, false),
        }
        AtOnce::NONE
    }

    /// A queue had no room for a task that may run on top of its spawner.
    pub fn refused(&mut self, task: TaskRef) -> AtOnce {
        AtOnce(self.seat.refused(task, true).map(|task| (task, Way::NO_QUEUE)))
    }

    /// Puts a task into the queue this seat polls next.
    pub(crate) fn put_quietly(&mut self, task: TaskRef, queue: QueueId) {
        self.record_put(task, queue);
        self.shared.queued.queues.push(queue, task).unwrap_or_else(|_| panic!("the front has no capacity"));
    }

    /// A task is about to be put into a queue.
    #[inline]
    pub(crate) fn record_put(&mut self, task: TaskRef, queue: QueueId) {
        if self.recorder.is_on() {
            self.recorder.record_decision(|| Decision::Puts(name_of(task), queue));
        }
    }

    /// Keeps a task spawned by this seat.
    pub(crate) fn keep(&mut self, task: TaskRef) {
        self.recorder.record_decision(|| Decision::Keeps(name_of(task)));
        self.seat.keep(task);
    }

    #[cold]
    fn help(&mut self) -> AtOnce {
        let shared = Arc::clone(&self.shared);
        let reach = self.reach(&shared, false);
        let plan = self.stand(&shared);
        AtOnce(self.seat.help(plan, reach).map(|FoundTask { task, way }| (task, way)))
    }

    /// The plan to look by: the seat's own, or, for unbound threads, that of the place the thread runs at now.
    #[inline(always)]
    fn stand<'a>(&mut self, shared: &'a RuntimeState) -> &'a SeatPlan {
        if let Some(roaming) = &shared.tables.roaming {
            self.seat.stand(roaming.seat_here().unwrap_or(self.seat_id));
        }
        &shared.plan.seats[self.seat.stands().index()]
    }

    /// Wakes one sleeper for a queued task, which may be over by now.
    #[inline]
    pub(crate) fn wake(&mut self, queue: QueueId, request: RequestId, kind: Kind) {
        if let Some(pool) = self.shared.wake_for(queue, Some(request), kind == Kind::Deferred) {
            self.recorder.woke(self.shared.recording.as_ref(), pool);
        }
    }

    /// Whether this queue is another node's.
    pub(crate) fn is_far(&self, queue: QueueId) -> bool {
        self.shared.plan.queues[queue.index()].home != self.node()
    }
}

/// The state checked between tasks by the thread on a seat.
struct Seated<'a> {
    shared: &'a RuntimeState,
    seat: SeatId,
    plan: &'a SeatPlan,
    /// The seat's place among those of its pool.
    slot: usize,
}

impl<'a> Seated<'a> {
    fn of_this_thread(shared: &'a RuntimeState) -> Seated<'a> {
        let (seat, slot) = in_task(|worker| (worker.seat_id, worker.slot));
        Seated { shared, seat, plan: &shared.plan.seats[seat.index()], slot }
    }

    fn sleepers(&self) -> &'a SleepPool {
        &self.shared.system.sleepers.pools[self.plan.pool.index()]
    }

    fn begin_idle(&self) {
        self.shared.hook.of_seat(self.seat).begin_idle();
    }

    fn end_idle(&self) {
        self.shared.hook.of_seat(self.seat).end_idle();
    }

    fn inbox(&self) -> &'a Inbox {
        self.shared.inbox(self.seat)
    }

    fn work_while(&self, goes_on: impl Fn() -> bool) {
        let shared = self.shared;
        let mut idle_since = None;
        while goes_on() {
            sweep(shared);
            if let Some((task, way)) = find(shared) {
                if idle_since.take().is_some() {
                    self.end_idle();
                }
                // The next task may run without end, and the request of the last box here is over.
                if in_task(|worker| worker.is_at_other(task.header().request)) {
                    leave();
                }
                run(task, way);
                continue;
            }
            let since = *idle_since.get_or_insert_with(|| {
                // Before this seat's pauses: the request of the last task here is over.
                leave();
                self.begin_idle();
                Instant::now()
            });
            match self.rest(since) {
                Rest::Look { .. } => self.glance(|| false),
                Rest::GiveWay => std::thread::yield_now(),
                Rest::Pause { ns } => std::thread::sleep(Duration::from_nanos(ns)),
                Rest::Sleep { sleeper, at_most_ns } => {
                    let at_most = at_most_ns.map(Duration::from_nanos);
                    let is_called = || !goes_on() || self.inbox().is_waiting();
                    with_layer(Layer::before_sleep);
                    let slept = || sleep(shared, self.plan.pool, self.slot, at_most, is_called);
                    let found = self.sleep(sleeper, || Some(slept()));
                    // The seat is not announced any more: it would be no use to have itself woken.
                    #[cfg(not(loom))]
                    heaps::put_down();
                    self.end_idle();
                    // A found task is out of its queue: it is run, even if the thread is to leave the seat.
                    if let Some((task, way)) = found {
                        run(task, way);
                    }
                    idle_since = None;
                }
            }
        }
        self.end_idle();
        pass_wake_on(shared);
        // The thread leaves: the seat's private tasks move to queues open to others.
        while let Some(called) = self.inbox().take() {
            run(called, Way::NO_QUEUE);
        }
        in_task(Worker::share_tasks);
        leave();
        heaps::leave_seat();
    }

    /// Waits a moment for an event for this seat alone: a task reserved for it, or the end of its wait.
    #[inline]
    fn glance(&self, ends: impl Fn() -> bool) {
        for _ in 0..GLANCES {
            std::hint::spin_loop();
            if self.inbox().is_waiting() || ends() {
                break;
            }
        }
    }

    /// The seat's next step if it has found nothing since then.
    fn rest(&self, since: Instant) -> Rest {
        in_task(|worker| worker.seat.none(self.plan, nanoseconds_since(since)))
    }

    /// Like [`Seated::rest`], while a task waits on the seat.
    fn rest_while_waiting(&self, since: Instant, is_tied: bool) -> Rest {
        let idle_ns = nanoseconds_since(since);
        in_task(|worker| {
            let may_miss_wake = is_tied || is_apart(worker.code.waiter);
            let state = &mut worker.seat;
            if may_miss_wake { state.none_unsure(self.plan, idle_ns) } else { state.none(self.plan, idle_ns) }
        })
    }

    /// Sleeps until it is woken or called, or for this time.
    fn sleep_while_waiting(&self, at_most_ns: Option<u64>, is_called: impl Fn() -> bool) -> Woken {
        #[cfg(not(loom))]
        if let Some(ns) = at_most_ns {
            return self.sleepers().sleep_for(self.slot, Duration::from_nanos(ns), is_called);
        }
        #[cfg(loom)]
        let _ = at_most_ns;
        self.sleepers().sleep(self.slot, is_called)
    }

    /// Announces the seat, and looks for a task a last time. If there is none, the thread sleeps.
    fn sleep(&self, sleeper: Sleeper, sleeps: impl FnOnce() -> Option<Woken>) -> Option<(TaskRef, Way)> {
        let (shared, sleepers) = (self.shared, self.sleepers());
        in_task(|worker| worker.recorder.sleep_begins());
        sleepers.announce(self.slot, sleeper, &shared.system.sleepers.barrier);
        let found = find_last(shared);
        let since = Instant::now();
        let slept = if found.is_none() { sleeps() } else { None };
        let slept_ns = slept.is_some().then(|| nanoseconds_since(since));
        let chosen = if let Some(Woken::Spawn(wake)) = slept { Some(wake) } else { sleepers.stay(self.slot) };
        in_task(|worker| {
            worker.recorder.sleep_ends(shared.recording.as_ref(), self.plan.pool);
            worker.seat.woken(chosen, slept_ns, worker.has_code());
        });
        let found = found?;
        // The spawn chose this thread for another task than the one it found by itself.
        pass_wake_on(shared);
        Some((found.task, found.way))
    }
}

/// A task for the calling thread's seat.
#[inline]
pub(crate) fn find(shared: &RuntimeState) -> Option<(TaskRef, Way)> {
    let NextTask { task, way, passes_wake_on } = in_task(|worker| worker.find(shared, false))?;
    if passes_wake_on {
        pass_wake_on(shared);
    }
    Some((task, way))
}

/// A task for the calling thread's seat; without one, the seat sleeps.
#[cold]
fn find_last(shared: &RuntimeState) -> Option<NextTask<TaskRef>> {
    in_task(|worker| worker.find(shared, true))
}

/// A task for a seat that may only begin descendants of its waiting task, from any queue: they may lie in queues polled
/// by other seats of the plan, and these may all wait like this one.
#[cold]
fn find_below(shared: &RuntimeState, reach: &mut Reach<'_>, request: RequestId) -> Option<NextTask<TaskRef>> {
    let mut all = (0..shared.plan.queues.len()).map(QueueId::new);
    let task = all.find_map(|queue| reach.take_of(request, queue, Take::Youngest, 0))?;
    Some(NextTask { task, way: Way::NO_QUEUE, passes_wake_on: false })
}

/// If the seat was woken for a task, and has other work: wakes another seat for that task.
fn pass_wake_on(shared: &RuntimeState) {
    let woken = in_task(|worker| {
        let woken = worker.seat.take_wake();
        if let Some(wake) = woken {
            worker.recorder.record_decision(|| Decision::PassesOn(wake.queue));
        }
        woken
    });
    if let Some(wake) = woken {
        shared.pass_on(wake);
    }
}

/// If a tied seat was woken for a task it may not begin: wakes a seat that may begin any.
#[cold]
fn pass_wake_to_free_seat(shared: &RuntimeState) {
    if let Some(wake) = in_task(|worker| worker.seat.take_wake()) {
        shared.pass_on(Wake { request: None, while_waiting: false, ..wake });
    }
}

/// Runs a task taken out of its queue.
pub fn run(task: TaskRef, way: Way) {
    let run = task.header().class.run;
    in_task(|worker| {
        worker.frame.way = way;
        worker.frame.parent = task.header().context;
        worker.frame.spawner = Spawner::new(task.header().has_data);
        debug_assert!(worker.frame.context.is_none(), "the last task has ended with its context");
    });
    #[expect(unsafe_code, reason = "runs a task")]
    // SAFETY: the task came out of a queue, and was put there once.
    unsafe {
        run(task);
    }
}

/// Runs a task on top of its spawner, or of a waiting task.
pub(crate) fn run_on_top(task: TaskRef, way: Way) {
    let request = task.header().request;
    let mut outer = in_task(|worker| {
        let outer = worker.frame.put_aside();
        if request != outer.request {
            worker.stack.beneath.requests.push(outer.request);
        }
        outer
    });
    // The waiting task beneath must not be unwound. Users' panics are caught around their code.
    catch_unwind(AssertUnwindSafe(|| run(task, way))).unwrap_or_else(recover);
    let left = in_task(|worker| {
        if request != outer.request {
            worker.stack.beneath.requests.pop();
        }
        worker.frame.resume(&mut outer)
    });
    if let Some(instance) = left {
        end_if_last(instance);
    }
}

/// Runs a task on top of a waiting one, or of its spawner if the queue had no room. While several requests run, a
/// closure of another request gets a stack of its own: when it waits, the task beneath can go on.
fn run_while_waiting(shared: &RuntimeState, task: TaskRef, way: Way) {
    let goes_aside = shared.are_several()
        && task.header().class.runs_inline
        && in_task(|worker| worker.frame.request) != task.header().request;
    let layer = shared.hook.layer().filter(|_| goes_aside);
    if let Err(task) = layer.map_or(Err(task), |layer| layer.run_aside(task, way)) {
        run_on_top(task, way);
    }
}

impl Frame {
    /// The frame of a beginning task, counted nowhere.
    #[inline]
    pub fn new(request: RequestId, way: Way) -> Frame {
        Frame {
            request,
            way,
            current: None,
            running: None,
            parent: ContextRef::NONE,
            context: None,
            spawner: Spawner::default(),
        }
    }

    /// Whether a box's request is the current one.
    pub fn is_at_box(&self) -> bool {
        self.current.is_some()
    }

    /// Takes this frame out, to make room for a task on top of it.
    #[inline]
    pub(crate) fn put_aside(&mut self) -> Frame {
        Frame {
            request: self.request,
            way: self.way,
            current: self.current.take(),
            running: self.running.take(),
            parent: self.parent,
            context: self.context.take(),
            spawner: std::mem::take(&mut self.spawner),
        }
    }

    /// Puts a frame back. Returns the request of the last box run on top of it.
    #[inline]
    pub(crate) fn resume(&mut self, outer: &mut Frame) -> Option<Arc<Instance>> {
        self.request = outer.request;
        self.way = outer.way;
        self.running = outer.running;
        self.parent = outer.parent;
        self.context = outer.context;
        self.spawner = outer.spawner;
        std::mem::replace(&mut self.current, outer.current.take())
    }
}

/// Waits until the awaited thing is there. The calling thread sits on a seat.
///
/// Here it is decided how. On a stack of its own, the waiting code is suspended, and its seat goes on with something
/// else. On the thread's own stack, the thread runs other tasks on top of the waiting one, and sleeps when there are
/// none: tasks of this request, or any with `None`.
pub fn wait(request: Option<RequestId>, awaited: &impl Awaited) {
    wait_below(request, ptr::null(), awaited);
}

/// Like [`wait`]; if the context is not null, only tasks below it are run meanwhile. It is one of a task on this
/// thread's stack.
pub(crate) fn wait_below(request: Option<RequestId>, below: *const Context, awaited: &impl Awaited) {
    if may_be_suspended() {
        return with_layer(|layer| wait_apart(layer, awaited)).expect("code has stacks of its own by a layer");
    }
    while_waiting(request, below, || with_shared(|shared| wait_until_done(shared, awaited)));
}

/// Calls `runs` to run other tasks on top of the calling one, which waits meanwhile.
fn while_waiting(request: Option<RequestId>, below: *const Context, runs: impl FnOnce()) {
    let bomb = Abort;
    let outer = in_task(|worker| {
        // The wait may depend on code of the layer, and that on any task.
        worker.seat.begin_wait(request.filter(|_| !worker.shared.hook.any()));
        std::mem::replace(&mut worker.stack.below, below)
    });
    runs();
    std::mem::forget(bomb);
    in_task(|worker| {
        worker.stack.below = outer;
        worker.recorder.observe_tasks();
        if let Some((task, queue)) = worker.seat.end_wait() {
            worker.put(task, queue, Kind::Immediate).assert_none();
        }
    });
}

/// How often an idle thread checks for events of its seat alone, before it polls the queues again.
const GLANCES: usize = 4;

fn wait_until_done(shared: &RuntimeState, awaited: &impl Awaited) {
    let mut idle_since = None;
    while !awaited.is_done() {
        awaited.begin_round();
        if let Some((task, way)) = find(shared) {
            if idle_since.take().is_some() {
                Seated::of_this_thread(shared).end_idle();
            }
            run_while_waiting(shared, task, way);
            continue;
        }
        // The seat may have been woken for a task it may not begin.
        let is_tied = in_task(|worker| !worker.stack.below.is_null());
        if is_tied {
            pass_wake_to_free_seat(shared);
        }
        let is_narrow = in_task(|worker| worker.seat.waits_for().is_some()) && !is_tied;
        if is_narrow && shared.hook.any() {
            in_task(|worker| worker.seat.widen_wait());
            continue;
        }
        // Read again after each task: it may have changed the thread's seat.
        let seated = Seated::of_this_thread(shared);
        let since = *idle_since.get_or_insert_with(|| {
            seated.begin_idle();
            Instant::now()
        });
        match seated.rest_while_waiting(since, is_tied) {
            Rest::Look { .. } => seated.glance(|| awaited.is_done()),
            Rest::Pause { ns } => std::thread::sleep(Duration::from_nanos(ns)),
            Rest::GiveWay => std::thread::yield_now(),
            Rest::Sleep { sleeper, at_most_ns } => {
                let helps = !is_tied && shared.are_several();
                let sleeper = if helps { Sleeper::Free } else { sleeper };
                let is_widened = || is_narrow && (shared.hook.any() || !helps && shared.are_several());
                let is_called = || awaited.is_done() || seated.inbox().is_waiting() || is_widened();
                if shared.hook.any() {
                    with_layer(Layer::before_sleep);
                }
                let sleeps = || awaited.announce_sleep().then(|| seated.sleep_while_waiting(at_most_ns, is_called));
                let found = seated.sleep(sleeper, sleeps);
                seated.end_idle();
                if let Some((task, way)) = found {
                    run_while_waiting(shared, task, way);
                }
                idle_since = None;
            }
        }
    }
    if idle_since.is_some() {
        Seated::of_this_thread(shared).end_idle();
    }
    if shared.hook.any() {
        leave_to_program();
    }
    pass_wake_on(shared);
}

fn nanoseconds_since(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Drops the boxes of stopped requests from this seat's own queue, after another seat asked for it.
#[inline]
fn sweep(shared: &RuntimeState) {
    // Acquire: the requests behind this sweep are seen as stopped.
    let wanted = shared.ongoing.sweeps.load(Ordering::Acquire);
    if in_task(|worker| worker.supplies.swept != wanted) {
        in_task(|worker| worker.supplies.swept = wanted);
        sweep_boxes();
    }
}

/// Aborts the process on drop: a panic through a waiting frame would free memory in use by other threads. Users' panics
/// never get there.
struct Abort;

impl Drop for Abort {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Restores the thread's previous seat.
struct Restore(*mut ());

impl Drop for Restore {
    fn drop(&mut self) {
        HERE.set(self.0);
    }
}
