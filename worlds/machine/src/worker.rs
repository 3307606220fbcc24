//! A thread on a seat: it takes tasks as the plan says, runs them, and sleeps when there are none.

use crate::allocator::column_block;
use crate::heaps;
use crate::queues::Reach;
use crate::recorder::Recorder;
use crate::runtime::Shared;
use crate::sleep::SleepPool;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vicus_flow::{
    Activation, Blocks, BoxId, Desk, FlowError, Instance, Place, World, begin, instance_of, share_instance,
};
use vicus_schedule::{Found, Idle, Kind, PoolId, QueueId, SeatId, SeatPlan, TaskRef, look};
use vicus_topology::NodeId;
use vicus_trace::Outcome;

/// What a thread needs to work on a seat.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    seat: SeatId,
    cursors: Vec<usize>,
    desk: Desk,
    /// The request whose task was run last. The worker's own reference: it looks at the instance after its last task.
    current: Option<Arc<Instance>>,
    /// The task to run next: what it would push to its own queue and pop again at once, without the two full fences of
    /// that. Nobody misses it there: it is run before anything else is looked for.
    next: Option<Found<TaskRef>>,
    /// Tasks that a full queue refused: this seat runs them itself, the youngest first.
    refused: Vec<TaskRef>,
    /// Whether the youngest task of its own lock-free queue is what this seat takes first (rule 1 of most strategies).
    runs_next: bool,
    /// The next pause of a seat that backs off, in nanoseconds; 0 after every success.
    pause_ns: u64,
    /// The sweep that this seat has done.
    swept: u64,
    recorder: Recorder,
}

/// A thread that is woken within this time goes on with what it has: to give superblocks up and take them again costs more
/// than a small query's rows.
#[cfg(not(loom))]
const NAP: Duration = Duration::from_millis(10);

/// Sleeps until it is woken. After a nap, what the thread has for its next blocks is others' meanwhile; and after a while that
/// goes back to the system, though nobody works.
fn sleep(sleepers: &SleepPool) {
    #[cfg(not(loom))]
    if sleepers.sleep_for(NAP) {
        return;
    }
    heaps::trim();
    #[cfg(not(loom))]
    while let Some(decay) = heaps::looks_after() {
        while heaps::give_back() {
            // Others want the node's lock as well, and a lock is not fair.
            if sleepers.sleep_for(Duration::from_millis(1)) {
                return;
            }
        }
        if sleepers.sleep_for(decay) {
            return;
        }
        heaps::tick();
        if !heaps::leaves_off() {
            break;
        }
    }
    sleepers.sleep();
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, seat: SeatId) -> Worker {
        let recorder = Recorder::new(&shared);
        let cursors = vec![0; shared.plan.cursors(seat)];
        let plan = &shared.plan.seats[seat.index()];
        let place = Place::from(plan.node);
        let blocks = Blocks::of(column_block);
        let desk = Desk { recording: recorder.is_on(), place, blocks, ..Desk::default() };
        let own = plan.place[Kind::Immediate as usize];
        let first = &plan.look[0];
        let runs_next = shared.plan.is_owner_lifo(own) && first.scan.queues().first() == Some(&own);
        Worker {
            shared,
            seat,
            cursors,
            desk,
            current: None,
            next: None,
            refused: Vec::new(),
            runs_next,
            pause_ns: 0,
            swept: 0,
            recorder,
        }
    }

    /// Works until `goes_on` says no. It is asked between two tasks and around sleep.
    pub(crate) fn work(&mut self, goes_on: impl Fn() -> bool) {
        let shared = Arc::clone(&self.shared);
        let (plan, pool) = (&shared.plan.seats[self.seat.index()], self.pool());
        let sleepers = &shared.pools[pool.index()];
        while goes_on() {
            self.sweep();
            if let Some((task, found)) = self.find(plan) {
                self.run(task, found);
                continue;
            }
            // A request whose last task ran here is over now, not after this seat's pauses.
            self.leave();
            if let Some((task, found)) = self.look_around(plan) {
                self.run(task, found);
                continue;
            }
            if let Idle::BackOff { .. } = plan.idle {
                // `look_around` has paused already.
                continue;
            }
            self.recorder.sleep_begins();
            sleepers.announce(&shared.barrier);
            // A task that was found is out of its queue: it is run, even if the seat is to be left meanwhile.
            let found = self.find(plan);
            let woken = if found.is_none() && goes_on() {
                sleep(sleepers);
                true
            } else {
                sleepers.stay()
            };
            self.recorder.sleep_ends(&shared, pool);
            if woken && (found.is_some() || !goes_on()) {
                // The spawn that woke it was for another task than the one it found by itself, or for someone who works.
                sleepers.wake_one();
            }
            if let Some((task, found)) = found {
                self.run(task, found);
            }
        }
        self.give_up_tasks();
        self.leave();
        // Whoever frees next asks another seat.
        heaps::leaves_off();
    }

    /// Tasks that this seat kept for itself go to where others find them: its thread turns away.
    fn give_up_tasks(&mut self) {
        let kept = self.next.take().map(|next| next.task).into_iter().chain(self.refused.drain(..));
        let entry = self.shared.plan.entry[0];
        for task in kept {
            self.shared.queues.push(entry, task).unwrap_or_else(|_| panic!("an entry queue has no capacity"));
            self.shared.wake_for(entry, true);
        }
    }

    /// Leaves the seat for good: what it recorded goes into the runtime's trace.
    pub(crate) fn hand_in(self) {
        self.recorder.hand_in(&self.shared, self.seat);
    }

    fn pool(&self) -> PoolId {
        self.shared.plan.seats[self.seat.index()].pool
    }

    fn find(&mut self, plan: &SeatPlan) -> Option<(TaskRef, Option<Found<TaskRef>>)> {
        if let Some(next) = self.next.take() {
            return Some((next.task, Some(next)));
        }
        if let Some(task) = self.refused.pop() {
            return Some((task, None));
        }
        let mut reach = Reach { queues: &self.shared.queues, seat: self.seat };
        look(&plan.look, &mut self.cursors, &mut reach).map(|found| (found.task, Some(found)))
    }

    /// What the plan says a seat does before it sleeps.
    fn look_around(&mut self, plan: &SeatPlan) -> Option<(TaskRef, Option<Found<TaskRef>>)> {
        match plan.idle {
            Idle::Sleep { spin_ns } => {
                let began = Instant::now();
                while began.elapsed().as_nanos() < u128::from(spin_ns) {
                    std::hint::spin_loop();
                    if let Some(found) = self.find(plan) {
                        return Some(found);
                    }
                }
            }
            Idle::BackOff { first_ns, factor, max_ns } => {
                let next = self.pause_ns.saturating_mul(u64::from(factor));
                let longest = u64::from(max_ns.max(first_ns));
                self.pause_ns = next.clamp(u64::from(first_ns), longest);
                if self.pause_ns == longest {
                    // It never sleeps for good.
                    heaps::trim();
                    heaps::give_back();
                }
                std::thread::sleep(Duration::from_nanos(self.pause_ns));
                return self.find(plan);
            }
        }
        None
    }

    fn run(&mut self, task: TaskRef, found: Option<Found<TaskRef>>) {
        self.pause_ns = 0;
        self.enter(task);
        let seat = self.seat.index();
        #[expect(unsafe_code, reason = "a task pointer becomes an instance")]
        // SAFETY: the task was queued and is not counted as finished before the end of this function; `enter` holds a
        // reference beyond that.
        let (instance, index) = unsafe { instance_of(task) };
        let (rule, queue) = found.map_or((0, None), |found| (found.rule, Some(found.queue)));
        let home = queue.map(|queue| self.shared.plan.queues[queue.index()].home);
        let far = home.is_some_and(|home| home != self.shared.plan.seats[seat].node);
        instance.count_taken(seat, rule, far);
        self.recorder.taken(instance, index, rule, far);
        if !instance.is_stopped() {
            self.desk.clock = self.recorder.clock();
            #[expect(unsafe_code, reason = "runs a task")]
            // SAFETY: the task came out of a queue, where its activation put it once.
            let mut running = unsafe { begin(task, &mut self.desk) };
            self.recorder.invocation_begins(instance, index, &mut self.desk);
            if running.is_due() {
                instance.count_act(seat);
                self.recorder.act_begins(instance, index);
                let world = Neighbourhood { shared: &self.shared, pool: self.pool() };
                running.act(&world, &mut self.desk);
                self.recorder.act_ends(instance, index, &mut self.desk);
            }
            running.send(&mut self.desk);
            self.recorder.invocation_ends(instance, index, &mut self.desk);
            running.finish(&mut self.desk);
            instance.count_queued(Some(seat), self.desk.activations.len() as u64);
            self.spawn_all(instance, index);
            // The ordinary end leaves nothing behind, and then no queue has to be looked through.
            if instance.is_stopped() && instance.unfinished() > 1 {
                self.shared.sweep(instance, Some(seat));
            }
        }
        instance.count_finished(Some(seat), 1);
        heaps::finish_task();
    }

    /// Queues what the last invocation activated, and wakes one sleeper for each but the last immediate one: that one
    /// is this seat's own next task (rule 1), and a thread woken for it could only take it away from its rows.
    fn spawn_all(&mut self, instance: &Instance, by: BoxId) {
        let mut activations = std::mem::take(&mut self.desk.activations);
        let shared = &self.shared;
        let plan = &shared.plan.seats[self.seat.index()];
        let last = activations.len().wrapping_sub(1);
        for (number, activation) in activations.drain(..).enumerate() {
            let Activation { task, kind, index, home } = activation;
            let home = home.and_then(|home| self.home_queue(home, index));
            // Whoever is there shares nothing with this seat.
            let kind = if home.is_some() { Kind::Deferred } else { kind };
            let queue = home.unwrap_or(plan.place[kind as usize]);
            self.recorder.enqueued(instance, index, kind, by);
            if number == last && kind == Kind::Immediate && self.runs_next {
                self.next = Some(Found { task, rule: plan.look[0].rule, queue });
                continue;
            }
            match shared.queues.push(queue, task) {
                Ok(()) => {
                    if let Some(pool) = shared.wake_for(queue, kind == Kind::Deferred) {
                        self.recorder.woke(shared, pool);
                    }
                }
                Err(task) => self.refused.push(task),
            }
        }
        self.desk.activations = activations;
    }

    /// The queue of a box whose data lies elsewhere.
    fn home_queue(&self, home: Place, index: BoxId) -> Option<QueueId> {
        self.shared.plan.home_queue(self.seat, NodeId::new(home.0.into()), index.index())
    }

    /// Makes the task's request the current one.
    fn enter(&mut self, task: TaskRef) {
        let request = task.header().request;
        if self.current.as_ref().is_none_or(|current| current.id() != request) {
            self.leave();
            #[expect(unsafe_code, reason = "keeps the instance beyond its task")]
            // SAFETY: the task was queued and is not counted as finished yet.
            let instance = unsafe { share_instance(task) };
            self.current = Some(instance);
        }
    }

    /// Turns away from the current request. If this seat ran its last task, the request is over.
    fn leave(&mut self) {
        let Some(instance) = self.current.take() else { return };
        // What is freed at its end is freed now, and not when this thread slept last.
        heaps::tick();
        if let Some(outcome) = self.shared.settle(&instance) {
            self.recorder.request_ended(&instance, outcome);
        }
    }

    /// Drops the tasks of stopped requests from this seat's own queue, after someone asked for it.
    fn sweep(&mut self) {
        // Acquire: the requests for which it was raised are seen as stopped.
        let wanted = self.shared.sweeps.load(Ordering::Acquire);
        if wanted == self.swept {
            return;
        }
        self.swept = wanted;
        let shared = Arc::clone(&self.shared);
        let Some(deque) = shared.queues.own(self.seat) else { return };
        let mut kept = Vec::new();
        while let Some(task) = deque.pop() {
            #[expect(unsafe_code, reason = "a task pointer becomes an instance")]
            // SAFETY: the task was queued and is not finished.
            let (instance, _) = unsafe { instance_of(task) };
            if instance.is_stopped() {
                self.enter(task);
                instance.count_finished(Some(self.seat.index()), 1);
            } else {
                kept.push(task);
            }
        }
        for task in kept.into_iter().rev() {
            if let Err(task) = deque.push(task) {
                self.refused.push(task);
            }
        }
    }
}

/// What a box sees of the world: its seat's pool.
struct Neighbourhood<'a> {
    shared: &'a Arc<Shared>,
    pool: PoolId,
}

impl World for Neighbourhood<'_> {
    fn blocking(&self, section: &mut dyn FnMut()) {
        let _lent = self.shared.lend(self.pool);
        section();
    }
}

impl Shared {
    /// Settles a request if no task of it is left, and tells those who wait for it.
    pub(crate) fn settle(&self, instance: &Instance) -> Option<Outcome> {
        let result = instance.settle()?;
        let outcome = match result {
            Ok(_) => Outcome::Done,
            Err(FlowError::Cancelled) => Outcome::Cancelled,
            Err(_) => Outcome::Failed,
        };
        self.done(instance.id(), result);
        Some(outcome)
    }
}
