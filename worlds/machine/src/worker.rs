//! A thread on a seat: it takes tasks as the plan says, runs them, and sleeps when there are none.
//!
//! A task's class knows how it is run: a box (`boxes.rs`), or a closure (`tasks/`). A task that waits for others runs what it
//! finds meanwhile, on top of its own stack.
//!
//! The worker is reached through [`with_worker`] alone, and the reference that it gives ends before a user's code runs: that code
//! may spawn and wait, which changes the worker. So functions that run tasks are no methods; between two tasks they ask anew.

use crate::allocator::column_block;
use crate::boxes::{leave, recover, sweep_boxes};
use crate::deque::Deque;
use crate::heaps;
use crate::inbox::Inbox;
use crate::queues::Reach;
use crate::recorder::Recorder;
use crate::runtime::Shared;
use crate::sleep::{SleepPool, Wake, Who, Woken};
use crate::sync::light_fence;
use crate::takes::Way;
use crate::tasks::{Awaited, Slab};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vicus_flow::{Blocks, BoxId, Desk, Instance};
use vicus_schedule::{
    Context, ContextRef, DEEP, Found, Idle, Kind, PoolId, QueueId, RequestId, SeatId, SeatPlan, Shares, TaskRef, look,
    look_waiting,
};

/// What a thread needs to work on a seat.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) seat: SeatId,
    /// Its place among the seats of its pool.
    slot: usize,
    cursors: Vec<usize>,
    /// The task that runs.
    pub(crate) frame: Frame,
    /// The tasks beneath it.
    pub(crate) stack: Stack,
    /// On the table while no box is run.
    pub(crate) desk: Option<Box<Desk>>,
    /// The task to run next: what it would push to its own queue and pop again at once, without the two full fences of
    /// that. Nobody misses it there: it is run before anything else is looked for.
    pub(crate) next: Option<Found<TaskRef>>,
    /// Tasks that a full queue refused, and those that were spawned on a deep stack: this seat runs them itself, the youngest first.
    pub(crate) refused: Vec<TaskRef>,
    /// The lock-free queue into which this seat puts immediate tasks and from which it takes the youngest first (rule 1 of
    /// most strategies); null if the plan has no such queue. It lives in `shared`.
    own: *const Deque,
    /// How it comes by a task of that queue.
    pub(crate) own_way: Way,
    /// How many of the plan's probes ask that queue and no other: the first one, or none.
    own_probes: usize,
    /// Where a push to it may wake a sleeper; in `shared`, too.
    near: Box<[*const SleepPool]>,
    /// The next pause of a seat that backs off, in nanoseconds; 0 after every success.
    pause_ns: u64,
    /// Memory for tasks.
    pub(crate) slab: Slab,
    /// For the bytes of a task by location.
    pub(crate) shares: Shares,
    /// How many tasks it has spawned that name a place, so that those for one place go to its queues in turn.
    pub(crate) spawned: usize,
    /// How many tasks that name no place it has dealt in turn. Counted apart: where every second task names a place, the others
    /// still go to every queue.
    pub(crate) turn: usize,
    /// The sweep that this seat has done.
    pub(crate) swept: u64,
    pub(crate) recorder: Recorder,
}

/// What a worker knows of the task that runs. A task that waits puts its frame aside while others run on top of it.
pub(crate) struct Frame {
    pub(crate) request: RequestId,
    /// How the worker came by it.
    pub(crate) way: Way,
    /// The request whose box was run last. The worker's own reference: it looks at the instance after its last task.
    pub(crate) current: Option<Arc<Instance>>,
    /// The box whose invocation is under way.
    pub(crate) running: Option<BoxId>,
    /// What counts the task.
    pub(crate) parent: ContextRef,
    /// Where the task spawns its children now; `None` until it spawns one or opens a group.
    pub(crate) context: Option<NonNull<Context>>,
}

/// What stands on the stack on which a worker runs tasks.
#[derive(Default)]
pub(crate) struct Stack {
    /// How many tasks wait there.
    pub(crate) waits: u32,
    /// How many tasks run there on top of others that found no room for what they spawned.
    helping: u32,
    /// The requests of tasks beneath the one that runs, where a task of another request stands on top.
    beneath: Vec<RequestId>,
}

thread_local! {
    /// The worker of the seat that this thread sits on; null elsewhere.
    static HERE: Cell<*mut Worker> = const { Cell::new(ptr::null_mut()) };
}

/// Does something with the worker of the calling thread's seat; `None` if the thread sits on none. `f` runs no user's code: that
/// could come here again.
#[inline]
pub(crate) fn with_worker<R>(f: impl FnOnce(&mut Worker) -> R) -> Option<R> {
    let worker = HERE.get();
    if worker.is_null() {
        return None;
    }
    #[cfg(debug_assertions)]
    let _once = Once::new();
    #[expect(unsafe_code, reason = "the worker of the calling thread's seat")]
    // SAFETY: `Worker::sit` put it there and takes it away before it ends, so it is this thread's and alive. `f` is the only one to
    // have a reference: no other way leads to it, and `f` runs nothing that comes here again (debug builds look after that).
    Some(f(unsafe { &mut *worker }))
}

/// As [`with_worker`], where a task runs.
#[inline]
pub(crate) fn in_task<R>(f: impl FnOnce(&mut Worker) -> R) -> R {
    with_worker(f).expect("a task runs on a seat")
}

/// Whether the calling thread sits on a seat.
#[inline]
pub(crate) fn is_seated() -> bool {
    !HERE.get().is_null()
}

/// Does something with what the calling thread's runtime shares, where a task runs. This may be a user's code.
#[inline]
pub(crate) fn with_shared<R>(f: impl FnOnce(&Shared) -> R) -> R {
    let shared = in_task(|worker| Arc::as_ptr(&worker.shared));
    #[expect(unsafe_code, reason = "a reference that does not borrow the worker")]
    // SAFETY: the worker holds it, and sits on its seat for longer than `f` runs there. It is not a count more: all threads would write
    // to that line each time.
    f(unsafe { &*shared })
}

/// Does something as if the calling thread sat on no seat: what a user's destructors do there is no part of a task.
#[inline]
pub(crate) fn outside<R>(f: impl FnOnce() -> R) -> R {
    let _inside = Restore(HERE.replace(ptr::null_mut()));
    f()
}

/// Says that a reference to the worker is in use.
#[cfg(debug_assertions)]
struct Once;

#[cfg(debug_assertions)]
thread_local! {
    static IN_USE: Cell<bool> = const { Cell::new(false) };
}

#[cfg(debug_assertions)]
impl Once {
    fn new() -> Once {
        assert!(
            !IN_USE.replace(true),
            "the worker is in use: what came here again is a user's code, and is to run outside"
        );
        Once
    }
}

#[cfg(debug_assertions)]
impl Drop for Once {
    fn drop(&mut self) {
        IN_USE.set(false);
    }
}

/// A thread that is woken within this time goes on with what it has: to give superblocks up and take them again costs more
/// than a small query's rows.
#[cfg(not(loom))]
const NAP: Duration = Duration::from_millis(10);

/// A pause that is shorter costs less than to say that others may end it.
const SHORT: Duration = Duration::from_micros(50);

/// Sleeps until it is woken, or for a pause. After a nap, what the thread has for its next blocks is others' meanwhile; and
/// after a while that goes back to the system, though nobody works.
fn sleep(sleepers: &SleepPool, slot: usize, pause: Option<Duration>, reason: impl Fn() -> bool) -> Woken {
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
    if let Some(woken) = nap(NAP) {
        return woken;
    }
    heaps::trim();
    #[cfg(not(loom))]
    while let Some(decay) = heaps::looks_after() {
        while heaps::give_back() {
            // Others want the node's lock as well, and a lock is not fair.
            if let Some(woken) = nap(Duration::from_millis(1)) {
                return woken;
            }
        }
        if let Some(woken) = nap(decay) {
            return woken;
        }
        heaps::tick();
        if !heaps::leaves_off() {
            break;
        }
    }
    sleepers.sleep(slot, reason)
}

/// What a thread was chosen for, that slept or found something else.
fn told(slept: Option<Woken>, sleepers: &SleepPool, slot: usize) -> Option<Wake> {
    if let Some(Woken::Spawn(wake)) = slept { Some(wake) } else { sleepers.stay(slot) }
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, seat: SeatId) -> Worker {
        let recorder = Recorder::new(&shared, seat);
        let cursors = vec![0; shared.plan.cursors(seat)];
        let plan = &shared.plan.seats[seat.index()];
        let (first, queue) = (&plan.look[0], plan.place[Kind::Immediate as usize]);
        let own = shared.queues.deque(queue).filter(|_| first.scan.queues().first() == Some(&queue));
        let own_probes = usize::from(own.is_some() && first.scan.queues().len() == 1);
        let own = own.map_or(ptr::null(), ptr::from_ref);
        let own_way = Way::new(first.rule, queue);
        let near = shared.plan.queues[queue.index()].wake.iter();
        let near = near.map(|pool| ptr::from_ref(&shared.pools[pool.index()])).collect();
        let slot = shared.plan.pools[plan.pool.index()].seats.iter().position(|&other| other == seat);
        Worker {
            slot: slot.expect("a seat is in its pool"),
            cursors,
            frame: Frame {
                request: RequestId(0),
                way: Way::KEPT,
                current: None,
                running: None,
                parent: ContextRef::NONE,
                context: None,
            },
            stack: Stack::default(),
            desk: None,
            next: None,
            refused: Vec::new(),
            own,
            own_way,
            own_probes,
            near,
            pause_ns: 0,
            slab: Slab::new(seat),
            shares: Shares::default(),
            spawned: 0,
            turn: 0,
            swept: 0,
            recorder,
            seat,
            shared,
        }
    }

    /// What boxes of this seat are run with.
    pub(crate) fn new_desk(&self) -> Box<Desk> {
        let (node, blocks) = (self.node(), Blocks::of(column_block));
        let seat = Some(self.seat.index());
        Box::new(Desk { recording: self.recorder.keeps_events(), node, blocks, seat, ..Desk::default() })
    }

    /// Works until `goes_on` says no. It is asked between two tasks and around sleep.
    pub(crate) fn work(&mut self, goes_on: impl Fn() -> bool) {
        let shared = Arc::clone(&self.shared);
        let _outer = Restore(HERE.replace(ptr::from_mut(self)));
        let seat = Seated::of_this_thread(&shared);
        // Whatever panics in an invocation and is not caught there fails its request, and costs no thread. It is caught here, where
        // that costs nothing for each.
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| seat.work_while(&goes_on))) {
            recover(panic);
        }
    }

    /// The lock-free queue into which this seat puts immediate tasks, and from which it takes the youngest first.
    #[inline]
    pub(crate) fn own(&self) -> Option<&Deque> {
        #[expect(unsafe_code, reason = "a way to a part of what the worker shares that is short")]
        // SAFETY: null, or a queue of `shared`, where queues stay.
        unsafe {
            self.own.as_ref()
        }
    }

    /// Puts an immediate task into the seat's own queue, if it has one. Others see it when they want some.
    #[inline]
    pub(crate) fn put_own(&mut self, task: TaskRef) -> Result<(), TaskRef> {
        self.own().ok_or(task)?.push(task)?;
        if self.is_anybody_asleep() {
            self.share_own();
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn share_own(&mut self) {
        self.own().expect("a task was put there").share(false);
        let queue = self.shared.plan.seats[self.seat.index()].place[Kind::Immediate as usize];
        self.wake(queue, self.frame.request, Kind::Immediate);
    }

    /// Whether an immediate task that is put there may wake somebody.
    #[inline]
    fn is_anybody_asleep(&self) -> bool {
        light_fence();
        self.near.iter().any(|&pool| {
            #[expect(unsafe_code, reason = "a way to a part of what the worker shares that is short")]
            // SAFETY: a pool of `shared`, where pools stay.
            unsafe { &*pool }.is_anybody_asleep()
        })
    }

    /// What this seat alone would run next goes to where others find it: its thread turns away, or is about to block.
    pub(crate) fn share_tasks(&mut self) {
        let next = self.next.take().map(|next| next.task);
        let kept: Vec<TaskRef> = next.into_iter().chain(self.refused.drain(..)).collect();
        if let Some(own) = self.shared.queues.own(self.seat) {
            own.share(true);
        }
        let entry = self.shared.plan.entry[0];
        for task in kept {
            let request = task.header().request;
            self.shared.queues.push(entry, task).unwrap_or_else(|_| panic!("an entry queue has no capacity"));
            self.shared.wake_for(entry, Some(request), true);
        }
    }

    /// Leaves the seat for good: what it recorded goes into the runtime's trace.
    pub(crate) fn hand_in(self) {
        self.recorder.hand_in(&self.shared, self.seat);
    }

    pub(crate) fn pool(&self) -> PoolId {
        self.shared.plan.seats[self.seat.index()].pool
    }

    /// The node that distances are counted from here.
    pub(crate) fn node(&self) -> vicus_topology::NodeId {
        self.shared.plan.seats[self.seat.index()].node
    }

    /// What this seat has to do before it looks into queues.
    fn kept(&mut self) -> Option<(TaskRef, Way)> {
        if let Some(next) = self.next.take() {
            return Some((next.task, Way::new(next.rule, next.queue)));
        }
        if let Some(task) = self.shared.inboxes[self.seat.index()].take() {
            return Some((task, Way::KEPT));
        }
        self.refused.pop().map(|task| (task, Way::KEPT))
    }

    /// Looks into queues: as a seat whose task of a request waits, or as one that is free.
    fn look(&mut self, plan: &SeatPlan, waiting: Option<RequestId>, last: bool) -> Option<(TaskRef, Way)> {
        let mut probes = &plan.look[..];
        // What most looks find, without the detour by the plan. The first probe takes the same, since the plan says that this queue
        // is the owner's at its young end (`Plan::owner_lifos`).
        if let Some(own) = self.own().filter(|_| waiting.is_none() || probes[0].while_waiting) {
            if let Some(task) = own.pop() {
                return Some((task, self.own_way));
            }
            probes = &probes[self.own_probes..];
        }
        let last = last.then_some(&self.shared.barrier);
        let mut reach = Reach { queues: &self.shared.queues, seat: self.seat, last };
        let found = match waiting {
            Some(request) => look_waiting(probes, &mut self.cursors, &mut reach, request, self.stack.waits as usize),
            None => look(probes, &mut self.cursors, &mut reach),
        };
        let found = found?;
        Some((found.task, Way::new(found.rule, found.queue)))
    }

    /// How long a seat that backs off pauses now. `None`: it sleeps until it is woken, since the strategy has no pauses, or since
    /// the longest one was in vain. Whoever makes a queue long enough for it wakes it ([`Shared::wake_for`]).
    fn next_pause(&mut self, plan: &SeatPlan) -> Option<Duration> {
        let Idle::BackOff { first_ns, factor, max_ns } = plan.idle else { return None };
        let longest = u64::from(max_ns.max(first_ns).max(1));
        if self.pause_ns >= longest {
            return None;
        }
        let next = self.pause_ns.saturating_mul(u64::from(factor)).max(u64::from(first_ns));
        self.pause_ns = next.clamp(1, longest);
        Some(Duration::from_nanos(self.pause_ns))
    }

    /// The requests whose tasks stand on this thread's stack.
    pub(crate) fn requests(&self) -> Vec<RequestId> {
        let mut requests: Vec<RequestId> = self.stack.beneath.iter().copied().chain([self.frame.request]).collect();
        requests.sort_unstable();
        requests.dedup();
        requests
    }

    /// Puts a task into a queue and wakes one sleeper for it. Where the plan has no room for it, the seat works at once: it runs
    /// the task itself, or another one if there are too many tokens (Wittmann and Hager, §2). A box it runs when the present one
    /// has ended.
    pub(crate) fn put(&mut self, task: TaskRef, queue: QueueId, kind: Kind) -> AtOnce {
        let request = task.header().request;
        let works_now = task.header().class.runs_inline && self.stack.helping < DEEPEST;
        match self.shared.queues.push(queue, task) {
            Ok(()) if works_now && self.shared.queues.is_overfull() => return self.helps(),
            Ok(()) => self.wake(queue, request, kind),
            Err(task) if works_now => return AtOnce(Some((task, Way::KEPT))),
            Err(task) => self.refused.push(task),
        }
        AtOnce::NONE
    }

    #[cold]
    fn helps(&mut self) -> AtOnce {
        let shared = Arc::clone(&self.shared);
        // Nothing is left if others were quicker; then there is room as well.
        AtOnce(self.look(&shared.plan.seats[self.seat.index()], None, false))
    }

    /// Wakes one sleeper for a task that was put, and may be over by now.
    #[inline]
    pub(crate) fn wake(&mut self, queue: QueueId, request: RequestId, kind: Kind) {
        if let Some(pool) = self.shared.wake_for(queue, Some(request), kind == Kind::Deferred) {
            self.recorder.woke(&self.shared, pool);
        }
    }

    /// Whether this queue is another node's.
    pub(crate) fn is_far(&self, queue: QueueId) -> bool {
        self.shared.plan.queues[queue.index()].home != self.node()
    }
}

/// What the thread on a seat looks at between tasks.
struct Seated<'a> {
    shared: &'a Shared,
    seat: SeatId,
    plan: &'a SeatPlan,
    /// The seat's place among those of its pool.
    slot: usize,
}

impl<'a> Seated<'a> {
    fn of_this_thread(shared: &'a Shared) -> Seated<'a> {
        let (seat, slot) = in_task(|worker| (worker.seat, worker.slot));
        Seated { shared, seat, plan: &shared.plan.seats[seat.index()], slot }
    }

    fn sleepers(&self) -> &'a SleepPool {
        &self.shared.pools[self.plan.pool.index()]
    }

    fn inbox(&self) -> &'a Inbox {
        &self.shared.inboxes[self.seat.index()]
    }

    /// How long a seat whose task waits looks around before it sleeps.
    fn spins_waiting(&self) -> Duration {
        match self.plan.idle {
            Idle::Sleep { spin_ns } => Duration::from_nanos(spin_ns.into()),
            Idle::BackOff { .. } => SPIN,
        }
    }

    fn work_while(&self, goes_on: impl Fn() -> bool) {
        let (shared, plan, sleepers) = (self.shared, self.plan, self.sleepers());
        // For what it was woken, until it has looked.
        let mut owed = None;
        while goes_on() {
            sweep();
            if let Some((task, way)) = find(shared, None, false) {
                leave_to_others(shared, owed.take(), way);
                run(task, way);
                continue;
            }
            owed = None;
            // A request whose last task ran here is over now, not after this seat's pauses.
            leave();
            if let Some((task, way)) = self.look_around() {
                run(task, way);
                continue;
            }
            let pause = in_task(|worker| worker.next_pause(plan));
            if let Some(pause) = pause.filter(|pause| *pause < SHORT) {
                std::thread::sleep(pause);
                continue;
            }
            in_task(|worker| worker.recorder.sleep_begins());
            sleepers.announce(self.slot, Who::Free, &shared.barrier);
            // A task that was found is out of its queue: it is run, even if the seat is to be left meanwhile.
            let found = find(shared, None, true);
            let is_called = || !goes_on() || self.inbox().is_waiting();
            let slept = found.is_none().then(|| sleep(sleepers, self.slot, pause, is_called));
            owed = told(slept, sleepers, self.slot);
            in_task(|worker| worker.recorder.sleep_ends(shared, plan.pool));
            if let Some((task, way)) = found {
                // The spawn that woke it was for another task than the one it found by itself.
                leave_to_others(shared, owed.take(), Way::KEPT);
                run(task, way);
            }
        }
        leave_to_others(shared, owed, Way::KEPT);
        // Tasks that this seat kept for itself go to where others find them: its thread turns away.
        while let Some(called) = self.inbox().take() {
            run(called, Way::KEPT);
        }
        in_task(Worker::share_tasks);
        leave();
        // Whoever frees next asks another seat.
        heaps::leaves_seat();
    }

    /// What the plan says a seat does before it sleeps.
    fn look_around(&self) -> Option<(TaskRef, Way)> {
        match self.plan.idle {
            Idle::Sleep { spin_ns } => {
                let began = Instant::now();
                while began.elapsed().as_nanos() < u128::from(spin_ns) {
                    std::hint::spin_loop();
                    if let Some(found) = find(self.shared, None, false) {
                        return Some(found);
                    }
                }
            }
            Idle::BackOff { .. } => {}
        }
        None
    }
}

/// A task for the calling thread's seat: what no other seat may run; else what the plan leaves to a task of this request that waits, or
/// with `None` whatever there is. `last`: the seat would sleep otherwise.
#[inline]
fn find(shared: &Shared, request: Option<RequestId>, last: bool) -> Option<(TaskRef, Way)> {
    in_task(|worker| {
        let plan = &shared.plan.seats[worker.seat.index()];
        worker.kept().or_else(|| worker.look(plan, request, last))
    })
}

/// The seat was woken for a task, and has something else to do: what it found, or what it waited for. Another seat is to look.
#[inline]
fn leave_to_others(shared: &Shared, woken: Option<Wake>, way: Way) {
    if let Some(wake) = woken.filter(|wake| way.queue() != Some(wake.queue)) {
        shared.pass_on(wake);
    }
}

/// Runs a task that was taken out of its queue.
pub(crate) fn run(task: TaskRef, way: Way) {
    let run = task.header().class.run;
    in_task(|worker| {
        worker.pause_ns = 0;
        worker.frame.way = way;
        worker.frame.parent = task.header().context;
        debug_assert!(worker.frame.context.is_none(), "the last task has ended with its context");
    });
    #[expect(unsafe_code, reason = "runs a task")]
    // SAFETY: the task came out of a queue, where it was put once.
    unsafe {
        run(task);
    }
}

/// Runs a task on top of one that waits, or that spawned another.
pub(crate) fn run_on_top(task: TaskRef, way: Way) {
    let request = task.header().request;
    let (outer, is_others) = in_task(|worker| {
        let outer = worker.frame.put_aside();
        let is_others = request != outer.request;
        if is_others {
            worker.stack.beneath.push(outer.request);
        }
        (outer, is_others)
    });
    // What waits beneath must not be unwound. Users' panics are caught where their code is called.
    catch_unwind(AssertUnwindSafe(|| run(task, way))).unwrap_or_else(recover);
    leave();
    in_task(|worker| {
        if is_others {
            worker.stack.beneath.pop();
        }
        worker.frame = outer;
    });
}

impl Stack {
    /// Whether so many tasks wait there that the seat keeps what it spawns.
    #[inline]
    pub(crate) fn is_deep(&self) -> bool {
        self.waits as usize >= DEEP
    }
}

impl Frame {
    /// This frame, whose place a task on top of it takes.
    fn put_aside(&mut self) -> Frame {
        Frame {
            current: self.current.take(),
            running: self.running.take(),
            parent: std::mem::replace(&mut self.parent, ContextRef::NONE),
            context: self.context.take(),
            ..*self
        }
    }
}

/// A task for a seat to run at once, on top of the one that spawned another: a queue had no room.
#[must_use = "the task is in no queue any more"]
pub(crate) struct AtOnce(Option<(TaskRef, Way)>);

impl AtOnce {
    pub(crate) const NONE: AtOnce = AtOnce(None);

    /// Runs it, if there is one.
    #[inline]
    pub(crate) fn run(self) {
        if let Some((task, way)) = self.0 {
            run_at_once(task, way);
        }
    }

    /// There is none: a box is never run on top of another one.
    pub(crate) fn assert_none(self) {
        debug_assert!(self.0.is_none(), "boxes are not run inline");
    }
}

#[cold]
fn run_at_once(task: TaskRef, way: Way) {
    in_task(|worker| worker.stack.helping += 1);
    run_on_top(task, way);
    in_task(|worker| worker.stack.helping -= 1);
}

/// Runs tasks until what is awaited is there, and sleeps when there are none: tasks that belong to the one that waits, of this
/// request, or with `None` whatever there is. The calling thread sits on a seat.
pub(crate) fn wait(request: Option<RequestId>, awaited: &impl Awaited) {
    let bomb = Abort;
    in_task(|worker| worker.stack.waits += 1);
    with_shared(|shared| wait_until_done(shared, request, awaited));
    std::mem::forget(bomb);
    in_task(|worker| {
        worker.recorder.tasks_waited_for();
        worker.stack.waits -= 1;
        // Others can't see it, and the task that waited may run on for long.
        if let Some(next) = worker.next.take() {
            worker.put(next.task, next.queue, Kind::Immediate).assert_none();
        }
    });
}

fn wait_until_done(shared: &Shared, request: Option<RequestId>, awaited: &impl Awaited) {
    let mut idle_since = None;
    // For what it was woken, until it has looked.
    let mut owed = None;
    while !awaited.is_done() {
        if let Some((task, way)) = find(shared, request, false) {
            leave_to_others(shared, owed.take(), way);
            run_on_top(task, way);
            idle_since = None;
            continue;
        }
        owed = None;
        // Asked anew after each task.
        let seated = Seated::of_this_thread(shared);
        let since = *idle_since.get_or_insert_with(Instant::now);
        if since.elapsed() < seated.spins_waiting() {
            std::hint::spin_loop();
            continue;
        }
        in_task(|worker| worker.recorder.sleep_begins());
        let sleepers = seated.sleepers();
        sleepers.announce(seated.slot, request.map_or(Who::Free, Who::Waits), &shared.barrier);
        let found = find(shared, request, true);
        let is_called = || awaited.is_done() || seated.inbox().is_waiting();
        let slept = (found.is_none() && awaited.falls_asleep()).then(|| sleepers.sleep(seated.slot, is_called));
        owed = told(slept, sleepers, seated.slot);
        in_task(|worker| worker.recorder.sleep_ends(shared, seated.plan.pool));
        if let Some((task, way)) = found {
            leave_to_others(shared, owed.take(), Way::KEPT);
            run_on_top(task, way);
        }
        idle_since = None;
    }
    leave_to_others(shared, owed, Way::KEPT);
}

/// Drops the boxes of stopped requests from this seat's own queue, after another seat asked for it.
fn sweep() {
    let is_wanted = in_task(|worker| {
        // Acquire: the requests for which it was raised are seen as stopped.
        let wanted = worker.shared.sweeps.load(Ordering::Acquire);
        std::mem::replace(&mut worker.swept, wanted) != wanted
    });
    if is_wanted {
        sweep_boxes();
    }
}

/// So many tasks, each of which found no room for what it spawned, may stand on a stack: after that there has to be room.
const DEEPEST: u32 = 64;

/// How long a waiting seat looks around before it sleeps, if the strategy has no such time.
const SPIN: Duration = Duration::from_micros(5);

/// Ends the process if it is dropped: a panic that leaves a waiting frame would take away what other threads use. Users' panics
/// never get there.
struct Abort;

impl Drop for Abort {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// The thread sits where it sat before.
struct Restore(*mut Worker);

impl Drop for Restore {
    fn drop(&mut self) {
        HERE.set(self.0);
    }
}
