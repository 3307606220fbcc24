//! A thread on a seat: it takes tasks as the plan says, runs them, and sleeps when there are none.
//!
//! What a task is, its header's function knows: a box (`boxes.rs`), or a closure (`tasks/`). A task that waits for others runs
//! what it finds meanwhile, on top of its own stack.

use crate::allocator::column_block;
use crate::deque::Deque;
use crate::heaps;
use crate::queues::Reach;
use crate::recorder::Recorder;
use crate::runtime::Shared;
use crate::sleep::{SleepPool, Wake, Who, Woken};
use crate::sync::light_fence;
use crate::takes::Way;
use crate::tasks::{Awaited, Slab};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vicus_flow::{Blocks, Desk, Instance, Place};
use vicus_schedule::{
    Found, Idle, Kind, PoolId, QueueId, RequestId, SeatId, SeatPlan, Shares, TaskRef, look, look_waiting,
};

/// What a thread needs to work on a seat.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) seat: SeatId,
    /// Its place among the seats of its pool.
    slot: usize,
    cursors: Vec<usize>,
    /// The request of the task that runs.
    pub(crate) request: RequestId,
    /// How it came by the task that runs.
    pub(crate) way: Way,
    /// On the table while no box is run.
    pub(crate) desk: Option<Box<Desk>>,
    /// The request whose box was run last. The worker's own reference: it looks at the instance after its last task.
    pub(crate) current: Option<Arc<Instance>>,
    /// The task to run next: what it would push to its own queue and pop again at once, without the two full fences of
    /// that. Nobody misses it there: it is run before anything else is looked for.
    pub(crate) next: Option<Found<TaskRef>>,
    /// Tasks that a full queue refused: this seat runs them itself, the youngest first.
    pub(crate) refused: Vec<TaskRef>,
    /// How many tasks it runs on top of others that found no room for what they spawned.
    helping: u32,
    /// How many tasks wait on its stack.
    pub(crate) waits: u32,
    /// The requests of tasks beneath the one that runs, where another one's comes after.
    beneath: Vec<RequestId>,
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
    /// The box whose invocation is under way.
    pub(crate) running: Option<TaskRef>,
    pub(crate) recorder: Recorder,
}

thread_local! {
    /// The worker whose task this thread runs; null outside of tasks.
    static HERE: Cell<*mut Worker> = const { Cell::new(ptr::null_mut()) };
}

/// The worker whose task the calling thread runs; null outside of tasks. Whoever uses it makes a reference of it, and lets go
/// of that before it runs a user's code.
#[inline]
pub(crate) fn here() -> *mut Worker {
    HERE.get()
}

/// Does something as if the calling thread ran no task: what a user's destructors do there must not find the worker, which is in
/// use.
#[inline]
pub(crate) fn outside<R>(f: impl FnOnce() -> R) -> R {
    let _inside = Restore(HERE.replace(ptr::null_mut()));
    f()
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
            request: RequestId(0),
            way: Way::KEPT,
            desk: None,
            current: None,
            next: None,
            refused: Vec::new(),
            helping: 0,
            waits: 0,
            beneath: Vec::new(),
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
            running: None,
            recorder,
            seat,
            shared,
        }
    }

    /// What boxes of this seat are run with.
    pub(crate) fn new_desk(&self) -> Box<Desk> {
        let (place, blocks) = (Place::from(self.node()), Blocks::of(column_block));
        Box::new(Desk { recording: self.recorder.keeps_events(), place, blocks, ..Desk::default() })
    }

    /// Works until `goes_on` says no. It is asked between two tasks and around sleep.
    pub(crate) fn work(&mut self, goes_on: impl Fn() -> bool) {
        // Whatever panics in an invocation and is not caught there fails its request, and costs no thread. It is caught here, where
        // that costs nothing for each.
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.work_while(&goes_on))) {
            self.recover(panic);
        }
    }

    fn work_while(&mut self, goes_on: impl Fn() -> bool) {
        let shared = Arc::clone(&self.shared);
        let (plan, pool) = (&shared.plan.seats[self.seat.index()], self.pool());
        let sleepers = &shared.pools[pool.index()];
        // For what it was woken, until it has looked.
        let mut owed = None;
        while goes_on() {
            self.sweep();
            if let Some((task, way)) = self.find(plan, false) {
                self.leaves_to_others(owed.take(), way);
                self.run(task, way);
                continue;
            }
            owed = None;
            // A request whose last task ran here is over now, not after this seat's pauses.
            self.leave();
            if let Some((task, way)) = self.look_around(plan) {
                self.run(task, way);
                continue;
            }
            let pause = self.next_pause(plan);
            if let Some(pause) = pause.filter(|pause| *pause < SHORT) {
                std::thread::sleep(pause);
                continue;
            }
            self.recorder.sleep_begins();
            sleepers.announce(self.slot, Who::Free, &shared.barrier);
            // A task that was found is out of its queue: it is run, even if the seat is to be left meanwhile.
            let found = self.find(plan, true);
            let is_called = || !goes_on() || shared.inboxes[self.seat.index()].is_waiting();
            let slept = found.is_none().then(|| sleep(sleepers, self.slot, pause, is_called));
            let woken = told(slept, sleepers, self.slot);
            self.recorder.sleep_ends(&shared, pool);
            owed = woken;
            if let Some((task, way)) = found {
                // The spawn that woke it was for another task than the one it found by itself.
                self.leaves_to_others(owed.take(), Way::KEPT);
                self.run(task, way);
            }
        }
        self.leaves_to_others(owed, Way::KEPT);
        self.give_up_tasks();
        self.leave();
        // Whoever frees next asks another seat.
        heaps::leaves_seat();
    }

    /// It was woken for a task, and has something else to do: what it found, or what it waited for. Somebody else is to look.
    fn leaves_to_others(&self, woken: Option<Wake>, way: Way) {
        if let Some(wake) = woken.filter(|wake| way.queue() != Some(wake.queue)) {
            self.shared.pass_on(wake);
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
        self.wake(queue, self.request, Kind::Immediate);
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

    /// Tasks that this seat kept for itself go to where others find them: its thread turns away.
    fn give_up_tasks(&mut self) {
        while let Some(called) = self.shared.inboxes[self.seat.index()].take() {
            self.run(called, Way::KEPT);
        }
        self.share_tasks();
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

    /// `last`: the seat would sleep otherwise.
    fn find(&mut self, plan: &SeatPlan, last: bool) -> Option<(TaskRef, Way)> {
        self.kept().or_else(|| self.look(plan, None, last))
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
            Some(request) => look_waiting(probes, &mut self.cursors, &mut reach, request, self.waits as usize),
            None => look(probes, &mut self.cursors, &mut reach),
        };
        let found = found?;
        Some((found.task, Way::new(found.rule, found.queue)))
    }

    /// What the plan says a seat does before it sleeps.
    fn look_around(&mut self, plan: &SeatPlan) -> Option<(TaskRef, Way)> {
        match plan.idle {
            Idle::Sleep { spin_ns } => {
                let began = Instant::now();
                while began.elapsed().as_nanos() < u128::from(spin_ns) {
                    std::hint::spin_loop();
                    if let Some(found) = self.find(plan, false) {
                        return Some(found);
                    }
                }
            }
            Idle::BackOff { .. } => {}
        }
        None
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

    /// Runs a task that was taken out of its queue.
    pub(crate) fn run(&mut self, task: TaskRef, way: Way) {
        self.pause_ns = 0;
        self.way = way;
        let run = task.header().run;
        self.as_here(|worker| {
            #[expect(unsafe_code, reason = "runs a task")]
            // SAFETY: the task came out of a queue, where it was put once; the pointer is a worker's, as all tasks of this
            // world expect, and nobody uses the worker otherwise meanwhile.
            unsafe {
                run(task, worker.cast());
            }
        });
    }

    /// Runs something that may ask for [`here`].
    pub(crate) fn as_here<R>(&mut self, f: impl FnOnce(*mut Worker) -> R) -> R {
        let worker = ptr::from_mut(self);
        let _outer = Restore(HERE.replace(worker));
        f(worker)
    }

    /// Runs tasks until what is awaited is there, and sleeps when there are none: tasks that belong to the one that waits, of this
    /// request, or with `None` whatever there is.
    ///
    /// # Safety
    /// `worker` is [`here`], and nobody has a reference to it.
    #[expect(unsafe_code, reason = "a worker is used again by the tasks that it runs")]
    pub(crate) unsafe fn wait(worker: *mut Worker, request: Option<RequestId>, awaited: &impl Awaited) {
        // SAFETY: the caller's promise; tasks that are run below borrow it again from this one.
        let worker = unsafe { &mut *worker };
        let bomb = Abort;
        // Not a count more: all threads would write to its line, each time that a scope ends.
        // SAFETY: the worker holds it as long as this thread runs.
        let shared = unsafe { &*Arc::as_ptr(&worker.shared) };
        let plan = &shared.plan.seats[worker.seat.index()];
        let sleepers = &shared.pools[plan.pool.index()];
        // What nobody else may run; else what the plan leaves to those that wait.
        let find = |worker: &mut Worker, last| worker.kept().or_else(|| worker.look(plan, request, last));
        let spin = match plan.idle {
            Idle::Sleep { spin_ns } => Duration::from_nanos(spin_ns.into()),
            Idle::BackOff { .. } => SPIN,
        };
        let mut idle_since = None;
        worker.waits += 1;
        // For what it was woken, until it has looked.
        let mut owed = None;
        while !awaited.is_done() {
            if let Some((task, way)) = find(worker, false) {
                worker.leaves_to_others(owed.take(), way);
                worker.run_on_top(task, way);
                idle_since = None;
                continue;
            }
            owed = None;
            let since = *idle_since.get_or_insert_with(Instant::now);
            if since.elapsed() < spin {
                std::hint::spin_loop();
                continue;
            }
            worker.recorder.sleep_begins();
            sleepers.announce(worker.slot, request.map_or(Who::Free, Who::Waits), &shared.barrier);
            let found = find(worker, true);
            let is_called = || awaited.is_done() || shared.inboxes[worker.seat.index()].is_waiting();
            let slept = (found.is_none() && awaited.falls_asleep()).then(|| sleepers.sleep(worker.slot, is_called));
            let woken = told(slept, sleepers, worker.slot);
            worker.recorder.sleep_ends(shared, plan.pool);
            owed = woken;
            if let Some((task, way)) = found {
                worker.leaves_to_others(owed.take(), Way::KEPT);
                worker.run_on_top(task, way);
            }
            idle_since = None;
        }
        worker.leaves_to_others(owed, Way::KEPT);
        worker.recorder.tasks_waited_for();
        worker.waits -= 1;
        std::mem::forget(bomb);
        // Others can't see it, and the task that waited may run on for long.
        if let Some(next) = worker.next.take() {
            worker.put(next.task, next.queue, Kind::Immediate);
        }
    }

    /// Runs a task on top of one that waits.
    pub(crate) fn run_on_top(&mut self, task: TaskRef, way: Way) {
        let outer = (self.request, self.way, self.current.take(), self.running.take());
        let is_others = task.header().request != self.request;
        if is_others {
            self.beneath.push(self.request);
        }
        match task.header().is_box {
            // What waits beneath must not be unwound.
            true => catch_unwind(AssertUnwindSafe(|| self.run(task, way))).unwrap_or_else(|panic| self.recover(panic)),
            false => self.run(task, way),
        }
        if is_others {
            self.beneath.pop();
        }
        self.leave();
        (self.request, self.way, self.current, self.running) = outer;
    }

    /// The requests whose tasks stand on this thread's stack.
    pub(crate) fn requests(&self) -> Vec<RequestId> {
        let mut requests: Vec<RequestId> = self.beneath.iter().copied().chain([self.request]).collect();
        requests.sort_unstable();
        requests.dedup();
        requests
    }

    /// Puts a task into a queue and wakes one sleeper for it. Where the plan has no room for it, the seat works at once: it runs
    /// the task itself, or another one if there are too many tokens (Wittmann and Hager, §2). A box it runs when the present one
    /// has ended.
    pub(crate) fn put(&mut self, task: TaskRef, queue: QueueId, kind: Kind) {
        let request = task.header().request;
        let works_now = !task.header().is_box && self.helping < DEEPEST;
        match self.shared.queues.push(queue, task) {
            Ok(()) if works_now && self.shared.queues.is_overfull() => self.help(),
            Ok(()) => self.wake(queue, request, kind),
            Err(task) if works_now => self.run_at_once(task, Way::KEPT),
            Err(task) => self.refused.push(task),
        }
    }

    #[cold]
    fn help(&mut self) {
        #[expect(unsafe_code, reason = "a reference that does not borrow the worker")]
        // SAFETY: the worker holds it as long as this thread runs. Not a count more, as in `wait`.
        let shared = unsafe { &*Arc::as_ptr(&self.shared) };
        let plan = &shared.plan.seats[self.seat.index()];
        // Nothing is left if others were quicker; then there is room as well.
        if let Some((task, way)) = self.look(plan, None, false) {
            self.run_at_once(task, way);
        }
    }

    /// Runs a task on top of the one that spawned another.
    #[cold]
    fn run_at_once(&mut self, task: TaskRef, way: Way) {
        self.helping += 1;
        self.run_on_top(task, way);
        self.helping -= 1;
    }

    /// Wakes one sleeper for a task that was put, and may be over by now.
    #[inline]
    pub(crate) fn wake(&mut self, queue: QueueId, request: RequestId, kind: Kind) {
        if let Some(pool) = self.shared.wake_for(queue, Some(request), kind == Kind::Deferred) {
            self.recorder.woke(&self.shared, pool);
        }
    }

    /// Whether the queue of the task that runs is another node's.
    pub(crate) fn is_far(&self) -> bool {
        self.way.queue().is_some_and(|queue| self.shared.plan.queues[queue.index()].home != self.node())
    }

    /// Drops the boxes of stopped requests from this seat's own queue, after someone asked for it.
    fn sweep(&mut self) {
        // Acquire: the requests for which it was raised are seen as stopped.
        let wanted = self.shared.sweeps.load(Ordering::Acquire);
        if wanted != self.swept {
            self.swept = wanted;
            self.sweep_boxes();
        }
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

/// Another worker's task runs on this thread again.
struct Restore(*mut Worker);

impl Drop for Restore {
    fn drop(&mut self) {
        HERE.set(self.0);
    }
}
