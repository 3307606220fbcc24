//! How a worker runs a box: begin, act, send, finish; and what becomes of the boxes that this activates.

use crate::heaps;
use crate::runtime::Shared;
use crate::tasks::{drop_quietly, wait_for_descendants};
use crate::worker::{Worker, in_task, outside, with_shared, with_worker};
use std::any::Any;
use std::sync::Arc;
use vicus_flow::{
    Activation, BoxId, FlowError, Instance, Place, World, begin, box_class, heads, instance_of, share_instance,
};
use vicus_schedule::{Found, Kind, PoolId, QueueId, RequestId, TaskClass, TaskRef};
use vicus_topology::NodeId;
use vicus_trace::Outcome;

/// The boxes of this world.
pub(crate) static BOX: TaskClass = box_class(run);

/// Runs a box.
///
/// # Safety
/// As [`begin`] wants it, on a seat.
#[expect(unsafe_code, reason = "the type of a class's functions")]
unsafe fn run(task: TaskRef) {
    enter(task);
    // SAFETY: the task was queued and is not counted as finished before the end of this function; `enter` holds a
    // reference beyond that.
    let (instance, index) = unsafe { instance_of(task) };
    let seat = in_task(|worker| worker.takes(instance, index));
    if instance.is_wanted(index) {
        // SAFETY: the caller's promise.
        unsafe { invoke(task, instance, index) };
    }
    instance.count_finished(Some(seat), 1);
    heaps::finish_task();
}

/// Begin, act, send, finish.
///
/// # Safety
/// As [`begin`] wants it, on a seat; the task is this instance's box of that number.
#[expect(unsafe_code, reason = "runs a task")]
unsafe fn invoke(task: TaskRef, instance: &Instance, index: BoxId) {
    let before = instance.stage();
    let (mut desk, world, is_recorded) = in_task(|worker| {
        worker.frame.running = Some(task);
        // Its operator may wait for tasks, and other boxes may run meanwhile: they have a desk of their own.
        let mut desk = worker.desk.take().unwrap_or_else(|| worker.new_desk());
        desk.clock = worker.recorder.clock();
        let world = Neighbourhood { shared: Arc::as_ptr(&worker.shared), pool: worker.pool() };
        (desk, world, worker.recorder.is_on())
    });
    // What a user's destructors do there is no part of a task.
    // SAFETY: the caller's promise.
    let mut running = outside(|| unsafe { begin(task, &mut desk) });
    if is_recorded {
        in_task(|worker| worker.recorder.invocation_begins(instance, index, &mut desk));
    }
    if running.is_due() {
        in_task(|worker| {
            instance.count_act(worker.seat.index());
            worker.recorder.act_begins(instance, index);
            worker.frame.request = instance.id();
        });
        running.act(&world, &mut desk);
        if let Some(panic) = wait_for_descendants() {
            instance.fail_by(index, panic);
        }
        if is_recorded {
            in_task(|worker| worker.recorder.act_ends(instance, index, &mut desk));
        }
    }
    outside(|| running.send(&mut desk));
    if is_recorded {
        in_task(|worker| worker.recorder.invocation_ends(instance, index, &mut desk));
    }
    outside(|| running.finish(&mut desk));
    let seat = in_task(|worker| {
        worker.frame.running = None;
        let seat = worker.seat.index();
        instance.count_queued(Some(seat), desk.activations.len() as u64);
        worker.queue_all(&mut desk.activations, instance, index);
        worker.desk = Some(desk);
        seat
    });
    // The ordinary end leaves nothing behind, and then no queue has to be looked through.
    if instance.stage() != before && instance.unfinished() > 1 {
        with_shared(|shared| shared.sweep(instance, Some(seat)));
    }
}

/// Something of the runtime's own panicked in a box's invocation: the request fails, and the thread goes on. What was not queued
/// yet of what it had activated is dropped, since the request has stopped.
#[cold]
pub(crate) fn recover(panic: std::boxed::Box<dyn Any + Send>) {
    let (running, seat) = in_task(|worker| (worker.frame.running.take(), worker.seat.index()));
    let Some(task) = running else { std::panic::resume_unwind(panic) };
    #[expect(unsafe_code, reason = "a task pointer becomes an instance")]
    // SAFETY: the task was taken, and is counted as finished below.
    let (instance, index) = unsafe { (share_instance(task), instance_of(task).1) };
    instance.fail_by(index, panic);
    with_shared(|shared| shared.sweep(&instance, Some(seat)));
    instance.count_finished(Some(seat), 1);
    let earlier = in_task(|worker| worker.frame.current.replace(instance));
    outside(|| drop_quietly(earlier));
    heaps::finish_task();
}

/// Makes a box's request the current one.
fn enter(task: TaskRef) {
    let request = task.header().request;
    if !in_task(|worker| worker.is_at(request)) {
        leave();
        #[expect(unsafe_code, reason = "keeps the instance beyond its task")]
        // SAFETY: the task was queued and is not counted as finished yet.
        let instance = unsafe { share_instance(task) };
        in_task(|worker| worker.frame.current = Some(instance));
    }
}

/// Turns away from the current request. If this seat ran its last task, the request is over.
#[inline]
pub(crate) fn leave() {
    if let Some(instance) = in_task(|worker| worker.frame.current.take()) {
        end_if_last(instance);
    }
}

fn end_if_last(instance: Arc<Instance>) {
    // What is freed at its end is freed now, and not when this thread slept last.
    heaps::tick();
    let outcome = with_shared(|shared| outside(|| shared.settle(&instance)));
    if let Some(outcome) = outcome {
        in_task(|worker| worker.recorder.request_ended(&instance, outcome));
    }
    outside(|| drop_quietly(instance));
}

/// Drops the boxes of stopped requests from this seat's own queue.
pub(crate) fn sweep_boxes() {
    for task in in_task(Worker::take_unwanted) {
        enter(task);
        in_task(|worker| {
            let current = worker.frame.current.as_ref().expect("it was entered");
            current.count_finished(Some(worker.seat.index()), 1);
        });
    }
}

impl Worker {
    /// A box was taken out of its queue. Says where this seat's counts are.
    fn takes(&mut self, instance: &Instance, index: BoxId) -> usize {
        let (seat, way, far) = (self.seat.index(), self.frame.way, self.is_far());
        instance.count_taken(seat, way.rule(), far);
        self.recorder.taken(instance, index, way, far);
        seat
    }

    /// Whether this is the current request.
    fn is_at(&self, request: RequestId) -> bool {
        self.frame.current.as_ref().is_some_and(|current| current.id() == request)
    }

    /// Takes the boxes of stopped requests out of the seat's own queue. They are not counted as finished yet.
    fn take_unwanted(&mut self) -> Vec<TaskRef> {
        let shared = Arc::clone(&self.shared);
        let Some(deque) = shared.queues.own(self.seat) else { return Vec::new() };
        let tasks = std::iter::from_fn(|| deque.pop());
        #[expect(unsafe_code, reason = "asks what a task is")]
        // SAFETY: it was taken and is not run.
        let (unwanted, kept): (Vec<_>, Vec<_>) = tasks.partition(|task| unsafe { task.is_unwanted() });
        for task in kept.into_iter().rev() {
            if let Err(task) = deque.push(task) {
                self.refused.push(task);
            }
        }
        deque.share(true);
        unwanted
    }

    /// Queues what the last invocation activated, and wakes one sleeper for each but the last immediate one: that one
    /// is this seat's own next task (rule 1), and a thread woken for it could only take it away from its rows.
    fn queue_all(&mut self, activations: &mut Vec<Activation>, instance: &Instance, by: BoxId) {
        let last = activations.len().wrapping_sub(1);
        for (number, activation) in activations.drain(..).enumerate() {
            let Activation { task, kind, index, home } = activation;
            let elsewhere = match home {
                Some(home) => self.home_queue(home, index).or_else(|| self.dealt(task, kind, index)),
                None => self.dealt(task, kind, index).or_else(|| self.box_in_turn(instance, kind, index)),
            };
            // Whoever is there shares nothing with this seat.
            let kind = if elsewhere.is_some() { Kind::Deferred } else { kind };
            let plan = &self.shared.plan.seats[self.seat.index()];
            let queue = elsewhere.unwrap_or(plan.place[kind as usize]);
            self.recorder.enqueued(instance, index, kind, by);
            if number == last && kind == Kind::Immediate && self.own().is_some() {
                let next = Found { task, rule: plan.look[0].rule, queue };
                if let Some(earlier) = self.next.replace(next) {
                    // Of a box that ran on top of one that waited.
                    self.put(earlier.task, earlier.queue, Kind::Immediate).assert_none();
                }
                continue;
            }
            self.put(task, queue, kind).assert_none();
        }
    }

    /// The queue of a box whose data lies elsewhere.
    fn home_queue(&self, home: Place, index: BoxId) -> Option<QueueId> {
        self.shared.plan.home_queue(self.seat, NodeId::new(home.0.into()), index.index())
    }

    /// The queue of a box that names no place, if the plan deals in turn, unless that is this seat's own.
    #[inline]
    fn box_in_turn(&self, instance: &Instance, kind: Kind, index: BoxId) -> Option<QueueId> {
        let queue = self.shared.plan.queue_of_box(instance.id(), index.index())?;
        (queue != self.shared.plan.seats[self.seat.index()].place[kind as usize]).then_some(queue)
    }

    /// The queue of a box whose inputs' heads were mostly sent from elsewhere, if the plan deals tasks by their bytes. An envelope
    /// lies in one place, as memory of the distribution `coarse` does. It tells of its node alone: of the caches there, a box is
    /// always dealt to the same one, where its state is.
    #[inline]
    fn dealt(&mut self, task: TaskRef, kind: Kind, index: BoxId) -> Option<QueueId> {
        if self.shared.plan.dealing.is_none() { None } else { self.deal_box(task, kind, index) }
    }

    #[inline(never)]
    fn deal_box(&mut self, task: TaskRef, kind: Kind, index: BoxId) -> Option<QueueId> {
        let Worker { shared, shares, seat, .. } = self;
        let dealing = shared.plan.dealing.as_ref()?;
        shares.clear();
        #[expect(unsafe_code, reason = "looks at what a box will find")]
        // SAFETY: the task is of an activation of this seat's last invocation, and not queued yet.
        unsafe {
            let node = |place: Place| NodeId::new(place.0.into());
            heads(task, |place, bytes| shares.add(dealing, node(place), index.index(), bytes));
        }
        let queue = dealing.deal_shares(shares)?;
        (queue != shared.plan.seats[seat.index()].place[kind as usize]).then_some(queue)
    }
}

/// What a box sees of the world: its seat's pool. It has no reference to the worker, whom the box's tasks use.
struct Neighbourhood {
    /// Invariant: from [`Arc::as_ptr`], and alive as long as the worker.
    shared: *const Shared,
    pool: PoolId,
}

impl World for Neighbourhood {
    fn blocking(&self, section: &mut dyn FnMut()) {
        #[expect(unsafe_code, reason = "a reference of its own to what the worker holds")]
        // SAFETY: by the field's invariant; the count added here belongs to the one made.
        let shared = unsafe {
            Arc::increment_strong_count(self.shared);
            Arc::from_raw(self.shared)
        };
        // The calling thread is the box's: this value does not leave it.
        with_worker(Worker::share_tasks);
        let _lent = shared.lend(self.pool);
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
