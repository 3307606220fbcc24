//! How a worker runs a box: begin, act, send, finish; and what becomes of the boxes that this activates.

use crate::heaps;
use crate::runtime::Shared;
use crate::tasks::drop_quietly;
use crate::worker::{Worker, here, outside};
use std::sync::Arc;
use vicus_flow::{Activation, BoxId, FlowError, Instance, Place, World, begin, heads, instance_of, share_instance};
use vicus_schedule::{Found, Kind, PoolId, QueueId, TaskRef};
use vicus_topology::NodeId;
use vicus_trace::Outcome;

/// Runs a box.
///
/// # Safety
/// As [`begin`] wants it; `seat` is a [`Worker`] that nobody else uses meanwhile.
#[expect(unsafe_code, reason = "the type of a header's function")]
pub(crate) unsafe fn run(task: TaskRef, seat: *mut ()) {
    // SAFETY: the caller's promise.
    let worker = unsafe { &mut *seat.cast::<Worker>() };
    outside(|| worker.run_box(task));
}

impl Worker {
    fn run_box(&mut self, task: TaskRef) {
        self.enter(task);
        let seat = self.seat.index();
        #[expect(unsafe_code, reason = "a task pointer becomes an instance")]
        // SAFETY: the task was queued and is not counted as finished before the end of this function; `enter` holds a
        // reference beyond that.
        let (instance, index) = unsafe { instance_of(task) };
        let (rule, far) = (self.way.rule(), self.is_far());
        instance.count_taken(seat, rule, far);
        self.recorder.taken(instance, index, self.way, far);
        if instance.is_wanted(index) {
            let before = instance.stage();
            self.running = Some(task);
            // Its operator may wait for tasks, and other boxes may run meanwhile: they have a desk of their own.
            let mut desk = self.desk.take().unwrap_or_else(|| self.new_desk());
            desk.clock = self.recorder.clock();
            #[expect(unsafe_code, reason = "runs a task")]
            // SAFETY: the task came out of a queue, where its activation put it once.
            let mut running = unsafe { begin(task, &mut desk) };
            self.recorder.invocation_begins(instance, index, &mut desk);
            if running.is_due() {
                instance.count_act(seat);
                self.recorder.act_begins(instance, index);
                self.request = instance.id();
                let world = Neighbourhood { shared: Arc::as_ptr(&self.shared), pool: self.pool() };
                self.as_here(|_| running.act(&world, &mut desk));
                self.recorder.act_ends(instance, index, &mut desk);
            }
            running.send(&mut desk);
            self.recorder.invocation_ends(instance, index, &mut desk);
            running.finish(&mut desk);
            self.running = None;
            instance.count_queued(Some(seat), desk.activations.len() as u64);
            self.queue_all(&mut desk.activations, instance, index);
            self.desk = Some(desk);
            // The ordinary end leaves nothing behind, and then no queue has to be looked through.
            if instance.stage() != before && instance.unfinished() > 1 {
                self.shared.sweep(instance, Some(seat));
            }
        }
        instance.count_finished(Some(seat), 1);
        heaps::finish_task();
    }

    /// Something of the runtime's own panicked in a box's invocation: the request fails, and the thread goes on. What was not queued
    /// yet of what it had activated is dropped, since the request has stopped.
    #[cold]
    pub(crate) fn recover(&mut self, panic: std::boxed::Box<dyn std::any::Any + Send>) {
        let Some(task) = self.running.take() else { std::panic::resume_unwind(panic) };
        #[expect(unsafe_code, reason = "a task pointer becomes an instance")]
        // SAFETY: the task was taken, and is counted as finished below.
        let (instance, index) = unsafe { (share_instance(task), instance_of(task).1) };
        instance.fail_by(index, panic);
        let seat = Some(self.seat.index());
        self.shared.sweep(&instance, seat);
        instance.count_finished(seat, 1);
        self.current = Some(instance);
        heaps::finish_task();
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
                    self.put(earlier.task, earlier.queue, Kind::Immediate);
                }
                continue;
            }
            self.put(task, queue, kind);
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

    /// Makes the box's request the current one.
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
    #[inline]
    pub(crate) fn leave(&mut self) {
        if let Some(instance) = self.current.take() {
            self.has_left(instance);
        }
    }

    fn has_left(&mut self, instance: Arc<Instance>) {
        // What is freed at its end is freed now, and not when this thread slept last.
        heaps::tick();
        if let Some(outcome) = self.shared.settle(&instance) {
            self.recorder.request_ended(&instance, outcome);
        }
        outside(|| drop_quietly(instance));
    }

    /// Drops the boxes of stopped requests from this seat's own queue.
    pub(crate) fn sweep_boxes(&mut self) {
        let shared = Arc::clone(&self.shared);
        let Some(deque) = shared.queues.own(self.seat) else { return };
        let mut kept = Vec::new();
        while let Some(task) = deque.pop() {
            if task.header().is_box && self.is_unwanted(task) {
                continue;
            }
            kept.push(task);
        }
        for task in kept.into_iter().rev() {
            if let Err(task) = deque.push(task) {
                self.refused.push(task);
            }
        }
        deque.share(true);
    }

    /// Counts a box as finished if its request has stopped and it is not to run again, and says whether that is so.
    fn is_unwanted(&mut self, task: TaskRef) -> bool {
        #[expect(unsafe_code, reason = "a task pointer becomes an instance")]
        // SAFETY: the task was queued and is not finished.
        let (instance, index) = unsafe { instance_of(task) };
        let is_unwanted = !instance.is_wanted(index);
        if is_unwanted {
            self.enter(task);
            instance.count_finished(Some(self.seat.index()), 1);
        }
        is_unwanted
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
        #[expect(unsafe_code, reason = "the worker of the box that runs")]
        // SAFETY: a box that runs has it on its thread, and with it this value, which can't leave the thread; nobody has a
        // reference to it while a user's code runs.
        if let Some(worker) = unsafe { here().as_mut() } {
            worker.share_tasks();
        }
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
